"""Category Training: SequentialModel, a network described by a small graph in JSON."""

from __future__ import annotations

import json
from typing import Any, Mapping, NamedTuple, Sequence

from cdui.node import Node, Param, Port
from cdui.nodes import layers

#: The description that a new node starts with: a small CNN for MNIST.
_LAYERS: Sequence[tuple[str, str, Mapping[str, Any]]] = (
    ("conv1", "Conv2d", {"in_channels": 1, "out_channels": 32, "kernel_size": 3, "padding": 1}),
    ("relu1", "ReLU", {}),
    ("pool1", "MaxPool2d", {"kernel_size": 2, "stride": 2}),
    ("conv2", "Conv2d", {"in_channels": 32, "out_channels": 64, "kernel_size": 3, "padding": 1}),
    ("relu2", "ReLU", {}),
    ("pool2", "MaxPool2d", {"kernel_size": 2, "stride": 2}),
    ("flatten", "Flatten", {}),
    ("fc1", "Linear", {"in_features": 3136, "out_features": 128}),
    ("relu3", "ReLU", {}),
    ("fc2", "Linear", {"in_features": 128, "out_features": 10}),
)


def _default() -> str:
    chain = ["in", *(name for name, _, _ in _LAYERS), "out"]
    nodes: list[dict[str, Any]] = [{"id": "in", "type": "Input", "ports": [{"id": "x", "name": "x"}]}]
    nodes += [{"id": name, "type": kind, **({"params": dict(params)} if params else {})} for name, kind, params in _LAYERS]
    nodes.append({"id": "out", "type": "Output", "ports": [{"id": "y", "name": "y"}]})
    edges: list[dict[str, Any]] = [
        {"id": f"e{number}", "source": source, "target": target}
        for number, (source, target) in enumerate(zip(chain, chain[1:]), 1)
    ]
    edges[0]["sourceHandle"], edges[-1]["targetHandle"] = "x", "y"
    return json.dumps({"version": 2, "nodes": nodes, "edges": edges}, separators=(",", ":"))


class Plan(NamedTuple):
    """A checked description: the layers in an order in which they can compute,
    each with its sources; a source is a layer's id or, for an input, its name."""

    inputs: Sequence[str]
    layers: Sequence[tuple[str, str, Mapping[str, Any]]]
    sources: Mapping[str, Sequence[tuple[str, str]]]
    outputs: Sequence[tuple[str, tuple[str, str]]]


def parse(text: str) -> Plan:
    """Reads and checks a ``layers`` param; ValueError says what is wrong."""
    try:
        spec = json.loads(text) if isinstance(text, str) else text
    except ValueError as error:
        raise _wrong(f"it is not JSON ({error})") from None
    if not isinstance(spec, dict):
        raise _wrong("it must be an object with version, nodes and edges")
    if spec.get("version") != 2:
        raise _wrong(f"its version is {spec.get('version')!r} and 2 is wanted")
    nodes = _nodes(spec.get("nodes"))
    inputs, outputs = _ports(nodes, "Input"), _ports(nodes, "Output")
    sources, arriving = _edges(spec.get("edges"), nodes, inputs, outputs)
    _check_counts(nodes, sources)
    used = {source for found in (*sources.values(), *arriving.values()) for source in found}
    for port, name in inputs.items():
        if ("in", port) not in used:
            raise _wrong(f"the input {name!r} is not used")
    for port, name in outputs.items():
        if len(arriving[port]) != 1:
            raise _wrong(f"the output {name!r} has {len(arriving[port])} edges into it and must have one")
    order = _order(nodes, sources)
    return Plan(
        list(inputs.values()),
        [(node, nodes[node]["type"], nodes[node].get("params") or {}) for node in order],
        {node: [_named(source, inputs) for source in found] for node, found in sources.items()},
        [(name, _named(arriving[port][0], inputs)) for port, name in outputs.items()],
    )


def _wrong(what: str) -> ValueError:
    return ValueError(f"layers can't be used: {what}")


def _nodes(found: Any) -> dict[str, dict[str, Any]]:
    if not isinstance(found, list) or not all(isinstance(node, dict) and isinstance(node.get("id"), str) for node in found):
        raise _wrong("nodes must be a list of objects, each with an id")
    nodes = {node["id"]: node for node in found}
    if len(nodes) != len(found):
        raise _wrong("two nodes have the same id")
    for node in found:
        kind = node.get("type")
        if kind not in layers.KINDS and kind not in ("Input", "Output"):
            raise _wrong(f"the node {node['id']!r} has the unknown type {kind!r}")
        if "." in node["id"] or not node["id"]:
            raise _wrong(f"the id {node['id']!r} can't name a layer: it must have a character and no dot")
        if not isinstance(node.get("params") or {}, dict):
            raise _wrong(f"the params of the node {node['id']!r} must be an object")
    return nodes


def _ports(nodes: Mapping[str, Mapping[str, Any]], kind: str) -> dict[str, str]:
    """The ports of the only Input or Output: names by id, in order."""
    found = [node for node in nodes.values() if node["type"] == kind]
    if len(found) != 1:
        raise _wrong(f"it has {len(found)} nodes of type {kind} and must have one")
    ports = found[0].get("ports")
    if not isinstance(ports, list) or not ports or not all(isinstance(port, dict) and port.get("id") and port.get("name") for port in ports):
        raise _wrong(f"{kind} needs ports, each with an id and a name")
    by_id = {str(port["id"]): str(port["name"]) for port in ports}
    if len(set(by_id.values())) != len(ports):
        raise _wrong(f"two ports of {kind} have the same id or name")
    return by_id


def _edges(found, nodes, inputs, outputs):
    """The sources of each layer and of each output port, in the order of edges. A
    source is ("layer", id) or ("in", port id)."""
    if not isinstance(found, list) or not all(isinstance(edge, dict) for edge in found):
        raise _wrong("edges must be a list of objects")
    sources: dict[str, list[tuple[str, str]]] = {id: [] for id, node in nodes.items() if node["type"] not in ("Input", "Output")}
    arriving: dict[str, list[tuple[str, str]]] = {port: [] for port in outputs}
    for edge in found:
        ends = [edge.get("source"), edge.get("target")]
        for end in ends:
            if end not in nodes:
                raise _wrong(f"an edge leads to or from the node {end!r}, which is not there")
        source, target = (nodes[end] for end in ends)
        if source["type"] == "Output" or target["type"] == "Input":
            raise _wrong("an edge leaves Output or enters Input")
        start = ("layer", ends[0])
        if source["type"] == "Input":
            if edge.get("sourceHandle") not in inputs:
                raise _wrong(f"an edge from Input names the port {edge.get('sourceHandle')!r}, which is not there")
            start = ("in", edge["sourceHandle"])
        if target["type"] == "Output":
            if edge.get("targetHandle") not in outputs:
                raise _wrong(f"an edge into Output names the port {edge.get('targetHandle')!r}, which is not there")
            arriving[edge["targetHandle"]].append(start)
        else:
            sources[ends[1]].append(start)
    return sources, arriving


def _check_counts(nodes, sources):
    for node, found in sources.items():
        kind = nodes[node]["type"]
        least, most = layers.MERGES.get(kind, (1, 1))
        if not least <= len(found) <= most:
            wanted = f"{least}" if least == most else f"{least} or more"
            raise _wrong(f"the node {node!r} ({kind}) has {len(found)} edges into it and must have {wanted}")


def _order(nodes, sources):
    """The layers such that each comes after its sources."""
    waiting = {node: {name for kind, name in found if kind == "layer"} for node, found in sources.items()}
    order: list[str] = []
    while waiting:
        ready = [node for node, before in waiting.items() if not before]
        if not ready:
            raise _wrong(f"the nodes {', '.join(waiting)} form a cycle")
        order += ready
        for node in ready:
            del waiting[node]
        for before in waiting.values():
            before.difference_update(ready)
    return order


def _named(source, inputs):
    kind, name = source
    return (kind, inputs[name] if kind == "in" else name)


class SequentialModel(Node):
    """A network built from the description in ``layers``: layers and the edges
    between them. With one output port it gives a tensor, with several a dict."""

    NODE_NAME = "SequentialModel"
    CATEGORY = "Training"
    DESCRIPTION = "A network described layer by layer."
    DETAILS = (
        "layers is JSON of version 2: nodes {id, type, params}, one Input and one Output with ports {id, name}, and "
        "edges. Types are PyTorch layers with their own arguments, activations, and merges (Add, Multiply, Mean, "
        "Subtract, Concat, Stack)."
    )
    cacheable = False

    @classmethod
    def outputs(cls, params=None):
        return [Port("model", "MODEL")]

    @classmethod
    def params(cls):
        return [Param("layers", "string", _default(), "The description, JSON of version 2.")]

    def execute(self, inputs, params, context):
        model = layers.build_network(parse(params["layers"])).to(context.device)
        count = sum(parameter.numel() for parameter in model.parameters())
        return {"model": model, "__log__": f"{len(model.plan.layers)} layers, {count} parameters"}


NODES = [SequentialModel]
