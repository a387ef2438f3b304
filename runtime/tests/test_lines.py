"""The bytes of the lines, pinned together with the Go side by childproto's testdata."""
import json
import os

from conftest import TESTDATA

from cdui import child, lines, spare, wire


def sent():
    """Every line that this package can send, in the order of up.jsonl."""
    yield lines.hello()
    yield from lines.metrics([("loss", 0.25, 0), ("accuracy", 1, 0)])
    yield from lines.metrics([("nan", float("nan"), 1), ("inf", float("inf"), 1), ("minus inf", float("-inf"), 1)])
    yield from lines.metrics([("minus zero", -0.0, 2), ("beyond 2^53", 2**53 + 1, 2), ("2^80", -(2**80), 2)])
    yield from lines.metrics([("small", 5e-324, 3), ("large", 1.7976931348623157e308, 3), ("exponent", 1e16, 3)])
    yield from lines.metrics([('quote " back\\slash <html> é 漢 😀 \n', 1, 10**20)])
    yield lines.artifact("/runs/a b/model.pt", "file", None)
    yield lines.artifact("/runs/é", "checkpoint", {"loss": float("nan"), "epoch": 3, "tags": ["a", True, None]})
    yield lines.line(type="warning", kind="slow_disk", meta={"seconds": 3})
    yield lines.line(type="event", event="node_status", payload={"node_id": "train", "status": "running"})
    yield lines.line(type="facts", facts={"python": "3.11.2"})
    yield lines.line(type="memory_limit", memory_limit={"cuda:0": 4096})
    yield lines.line(
        type="finished", status="failed", error="ValueError: bad", error_type="ValueError", end_class="user_code"
    )
    yield lines.line(type="finished", status="succeeded", peak_memory={"cuda:0": {"mib": 512, "exact": True}})
    yield spare.ready(["json", "torch"], {"/venv/lib/\u00e9": 1796004856310038348})
    yield child.IMPORTED
    yield lines.line(type="invented_later", anything=1)


def test_up_lines_match_the_fixture():
    """Proves W-07, EVT-06."""
    got = b"".join(line + b"\n" for line in sent())
    assert got == (TESTDATA / "up.jsonl").read_bytes()


def test_many_points_stay_below_the_limit_of_a_line():
    many = [("x" * 200, 1.2345678901234567, k) for k in range(20000)]
    parts = lines.metrics(many)
    assert len(parts) == 3 and all(len(part) < 8 << 20 for part in parts)


def test_down_lines_of_the_fixture_are_understood():
    """Proves W-07."""
    channel = wire.Channel()
    r, w = os.pipe()
    *usual, to_a_spare = (TESTDATA / "down.jsonl").read_bytes().splitlines(keepends=True)
    assert set(json.loads(to_a_spare)) == {"type", "run_id", "input", "argv", "dir", "env"}
    os.write(w, b"".join(usual))
    end = wire.identity(r)
    channel._link, channel._opened = wire.Link(r, r, end, end), True
    assert channel.input() == {"lr": 0.0003, "big": 9007199254740993, "text": 'a "b" <c> é'}
    assert channel.cancelled()
    os.close(r)
    os.close(w)


def test_digits():
    for n in (0, 1, -1, 10**599, 10**600, -(10**600), 10**4299 + 7, 3 * 10**6000 + 1):
        text = lines.digits(n)
        assert int(text) == n and not text.lstrip("-").startswith("0") or n == 0
