"""What the engine adds to a node: microseconds for each of 1,000 that pass a
value on, beside a loop that calls the same methods and nothing else.

    python bench_engine.py
"""
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parent))

from cdui.engine import Engine, Settings  # noqa: E402
from cdui.nodes.utility import Print  # noqa: E402
from cdui.reporter import Reporter  # noqa: E402
from engines import Value, graph  # noqa: E402

COUNT, ROUNDS = 1000, 5


class Sink:
    """Takes lines as a pipe would, and counts them."""

    def __init__(self):
        self.bytes = 0

    def send(self, line):
        self.bytes += len(line)


def chain():
    """1,000 levels of one node."""
    ids = [str(i) for i in range(COUNT)]
    nodes = [("0", "Value")] + [(i, "Print") for i in ids[1:]]
    return graph(nodes, [f"{a}.value>{b}.value" for a, b in zip(ids, ids[1:])], levels=[[i] for i in ids])


def fan():
    """One level of 1,000 nodes, four at once."""
    ids = [str(i) for i in range(1, COUNT)]
    return graph([("0", "Value")] + [(i, "Print") for i in ids], [f"0.value>{i}.value" for i in ids], levels=[["0"], ids])


def engine(prepared):
    sink = Sink()
    reporter = Reporter(sink.send)
    try:
        outcome = Engine(prepared, {"Value": Value, "Print": Print}, Settings(), reporter, lambda: False).execute()
    finally:
        reporter.close()
    assert outcome.status == "succeeded" and sink.bytes


def bare(_):
    value = Value().execute({}, {"value": 1})
    for _ in range(COUNT - 1):
        value = Print().execute(value, {"label": ""})


def best(work, given):
    """Microseconds a node, in the best of some rounds."""
    found = []
    for _ in range(ROUNDS):
        begin = time.perf_counter()
        work(given)
        found.append((time.perf_counter() - begin) / COUNT * 1e6)
    return min(found)


if __name__ == "__main__":
    baseline = best(bare, None)
    for name, prepared in (("chain", chain()), ("fan", fan())):
        cost = best(engine, prepared)
        print(f"engine, {name} of {COUNT:,} nodes: {cost:.1f} µs a node; bare loop {baseline:.2f} µs")
