"""The lines of a graph run: order, bounds, bytes."""
import json
import threading

import pytest

from cdui import reporter as reporting
from cdui.reporter import Reporter


class Wire:
    """Collects lines; while ``shut`` is cleared a sender waits, as in a full pipe."""

    def __init__(self):
        self.lines, self.lock, self.shut, self.waits = [], threading.Lock(), threading.Event(), threading.Event()
        self.shut.set()

    def send(self, line):
        if not self.shut.is_set():
            self.waits.set()
            self.shut.wait(20)
        with self.lock:
            self.lines.append(line)

    def read(self):
        return [json.loads(line) for line in self.lines]


@pytest.fixture
def wire():
    return Wire()


@pytest.fixture
def reporter(wire):
    made = Reporter(wire.send)
    yield made
    wire.shut.set()
    made.close()


def payloads(wire):
    return [line["payload"] for line in wire.read() if line["type"] == "event"]


def test_progress_goes_before_the_last_status(wire, reporter):
    """Proves C.3."""
    reporter.node_status("n", "running")
    for i in range(200):
        reporter.progress("n", {"i": i})
    reporter.node_status("n", "completed")
    told = payloads(wire)
    assert [p["status"] for p in told] == ["running"] + ["progress"] * 200 + ["completed"]
    assert [p["outputs"][0]["progress"]["i"] for p in told[1:-1]] == list(range(200))


def test_progress_returns_at_once_and_drops_the_oldest(wire, reporter):
    """Proves B.1, C.16."""
    wire.shut.clear()
    reporter.progress("n", {"i": -1})
    assert wire.waits.wait(20)  # the pump holds it, in a pipe that nobody reads
    for i in range(reporting.MAX_WAITING + 7):
        reporter.progress("n", {"i": i})
    wire.shut.set()
    reporter.finished(status="succeeded")
    seen = [p["outputs"][0]["progress"]["i"] for p in payloads(wire)]
    assert seen == [-1, *range(7, reporting.MAX_WAITING + 7)]
    assert wire.read()[-2:] == [
        {"type": "warning", "kind": "dropped_signals", "meta": {"count": 7}},
        {"type": "finished", "status": "succeeded"},
    ]


def test_nothing_is_told_of_drops_that_did_not_happen(wire, reporter):
    reporter.finished(status="failed", error="ValueError: x", error_type="ValueError", end_class="user_code", peak_memory={})
    assert wire.read() == [
        {"type": "finished", "status": "failed", "error": "ValueError: x", "error_type": "ValueError", "end_class": "user_code"}
    ]


def test_many_threads_lose_nothing(wire, reporter):
    def tell(n):
        for i in range(50):
            reporter.progress(n, {"i": i})
            reporter.metric(n, "loss", i, i)
        reporter.node_status(n, "completed")

    threads = [threading.Thread(target=tell, args=(str(n),)) for n in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for n in map(str, range(6)):
        mine = [p for p in payloads(wire) if p["node_id"] == n]
        assert [p["status"] for p in mine] == ["progress"] * 50 + ["completed"]
    assert sum(line["type"] == "metrics" for line in wire.read()) == 300


@pytest.mark.parametrize("value, text", [
    (float("nan"), b'"value":null,"step":1,"nonfinite":"nan"'),
    (float("-inf"), b'"value":null,"step":1,"nonfinite":"-inf"'),
    (2**70, b'"value":1180591620717411303424,"step":1'),
    (-0.0, b'"value":-0.0,"step":1'),
    (True, b'"value":1,"step":1'),
])
def test_metric_values_keep_what_they_are(wire, reporter, value, text):
    """Proves R-06."""
    reporter.metric("n", "m", value, 1)
    assert wire.lines == [b'{"type":"metrics","points":[{"name":"m",' + text + b',"node_id":"n"}]}']


def test_a_metric_that_is_no_number_is_refused_by_name(reporter):
    with pytest.raises(TypeError, match="metric 'm' is a str"):
        reporter.metric("n", "m", "much", 1)


def test_lines_are_ascii_without_nan_tokens(wire, reporter):
    """Proves D.4, EVT-03."""
    reporter.progress("ü", {"x": float("nan"), "y": [float("inf")], "z": {1: "é\ud800"}})
    reporter.node_status("ü", "error", error="\u2028", error_type="E")
    assert wire.lines == [
        b'{"type":"event","event":"node_status","payload":{"node_id":"\\u00fc","status":"progress","outputs":'
        b'[{"output_kind":"progress","progress":{"x":null,"y":[null],"z":{"1":"\\u00e9\\ud800"}}}]}}',
        b'{"type":"event","event":"node_status","payload":{"node_id":"\\u00fc","status":"error","error":"\\u2028","error_type":"E"}}',
    ]


def test_an_event_longer_than_a_line_loses_its_large_outputs_only(wire, reporter):
    big = {"output_kind": "image", "image": {"data": "x" * reporting.MAX_LINE}, "port": "image"}
    reporter.node_status("n", "completed", outputs=[{"output_kind": "text", "text": "t"}, big])
    assert len(wire.lines[0]) < reporting.MAX_LINE
    text, gone = payloads(wire)[0]["outputs"]
    assert text == {"output_kind": "text", "text": "t"}
    assert gone["elided"] is True and gone["bytes"] > reporting.MAX_LINE and (gone["output_kind"], gone["port"]) == ("image", "image")
