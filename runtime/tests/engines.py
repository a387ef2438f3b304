"""Graphs and nodes for the tests of the engine; none of the nodes needs torch."""
import json
import threading

from cdui import registry
from cdui.engine import Engine, Settings
from cdui.node import Node, Param, Port
from cdui.reporter import Reporter


class Value(Node):
    NODE_NAME = "Value"

    @classmethod
    def outputs(cls, params=None):
        return [Port("value", "ANY")]

    @classmethod
    def params(cls):
        return [Param("value", "int", 1)]

    def execute(self, inputs, params):
        return {"value": params["value"]}


class Sum(Node):
    NODE_NAME = "Sum"

    @classmethod
    def inputs(cls, params=None):
        return [Port("a", "ANY"), Port("b", "ANY", optional=True)]

    @classmethod
    def outputs(cls, params=None):
        return [Port("value", "ANY")]

    def execute(self, inputs, params):
        return {"value": sum(inputs.values()), "__log__": f"{len(inputs)} numbers"}


def node(name, execute, outputs=("value",), **fields):
    """A node class around a function."""
    body = {
        "NODE_NAME": name,
        "execute": execute,
        "outputs": classmethod(lambda cls, params=None: [p if isinstance(p, Port) else Port(p, "ANY") for p in outputs]),
    }
    return type(name, (Node,), {**body, **fields})


def failing(error, times=None):
    """A node that raises ``error``, the first ``times`` times, and the number of its calls."""
    calls = []

    def execute(self, inputs, params):
        calls.append(1)
        if times is None or len(calls) <= times:
            raise error
        return {"value": 0}

    return node("Failing", execute), calls


def graph(nodes, edges=(), levels=None, presets=None):
    """A prepared graph: nodes as (id, type[, params[, container]]), edges as "a.port>b.port"."""
    specs = []
    for n in nodes:
        node_id, kind, params, container = (*n, *({}, None)[len(n) - 2 :])
        specs.append({"id": node_id, "type": kind, "params": params, "container": container})
    wires = []
    for e in edges:
        source, target = e.split(">")
        (s, sh), (t, th) = source.split("."), target.split(".")
        wires.append({"source": s, "sourceHandle": sh, "target": t, "targetHandle": th})
    return {"nodes": specs, "edges": wires, "levels": levels or leveled(specs, wires), "presets": presets or {}}


def leveled(specs, wires):
    depth = {}
    while len(depth) < len(specs):
        for s in specs:
            sources = [e["source"] for e in wires if e["target"] == s["id"]]
            if s["id"] not in depth and all(i in depth for i in sources):
                depth[s["id"]] = 1 + max((depth[i] for i in sources), default=-1)
    levels = [[] for _ in range(1 + max(depth.values()))]
    for s in specs:
        levels[depth[s["id"]]].append(s["id"])
    return levels


class Ran:
    """What an execution gave and told."""

    def __init__(self, outcome, told):
        self.outcome = outcome
        self.told = [json.loads(line) for line in told]

    def of(self, kind):
        return [line for line in self.told if line["type"] == kind]

    @property
    def events(self):
        return [line["payload"] for line in self.of("event")]

    def statuses(self, node_id=None):
        """(node, status) in order, or the statuses of one node; progress left out."""
        found = [(p["node_id"], p["status"]) for p in self.events if "inner_node_id" not in p and p["status"] != "progress"]
        return found if node_id is None else [status for node, status in found if node == node_id]

    def last(self, node_id):
        return [p for p in self.events if p["node_id"] == node_id and "inner_node_id" not in p][-1]

    def inner(self):
        return [(p["inner_node_id"], p["status"]) for p in self.events if "inner_node_id" in p]

    def points(self, name):
        return [(p["step"], p["value"]) for line in self.of("metrics") for p in line["points"] if p["name"] == name]


def run(prepared, *classes, should_stop=lambda: False, builtin=False, **settings):
    """Executes a prepared graph in this process."""
    told, lock = [], threading.Lock()

    def send(line):
        with lock:
            told.append(line)

    nodes = {c.NODE_NAME: c for c in (Value, Sum) + classes}
    if builtin:
        nodes.update(registry.builtin_nodes())
    reporter = Reporter(send)
    try:
        outcome = Engine(prepared, nodes, Settings(**settings), reporter, should_stop).execute()
        reporter.flush()
    finally:
        reporter.close()
    return Ran(outcome, told)
