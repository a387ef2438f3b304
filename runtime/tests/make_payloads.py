"""Makes internal/run/testdata/payloads.jsonl: random event payloads, one a line,
in the bytes that Python gives them. The Go tests hold their own writer and the
capping to these bytes, test_payloads.py holds the file to this script.

    python make_payloads.py          writes it
"""
import math
import random
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from cdui import lines  # noqa: E402
from cdui.summary import jsonable  # noqa: E402

FILE = ROOT.parent / "internal" / "run" / "testdata" / "payloads.jsonl"
COUNT, SEED = 1000, 20

ALPHABETS = ("abc XYZ-_/.09", "\"\\/<>&'\b\f\n\r\t\x00\x1f\x7f", "é漢ß\u2028\u2029\ufeff\uffff", "😀𝔘\U0010ffff", "\ud800\udfff")
KINDS = ("text", "image", "chart", "progress", "tensor_summary", "video")
STATUSES = ("running", "progress", "completed", "error", "skipped", "interrupted")


def text(draw, longest=24):
    some = "".join(ALPHABETS[: draw.choice((1, 1, 2, 3, 4, 5))])
    return "".join(draw.choice(some) for _ in range(draw.randrange(longest)))


def number(draw):
    return draw.choice((
        lambda: draw.randrange(-1000, 1000),
        lambda: draw.randrange(-(2**80), 2**80),
        lambda: draw.uniform(-1, 1),
        lambda: draw.uniform(-1, 1) * 10.0 ** draw.randrange(-320, 308),
        lambda: draw.choice((0.0, -0.0, 5e-324, 1.7976931348623157e308, 1e16, 1e15, 1e-5, 1e-4, 0.1, math.nan, math.inf, -math.inf)),
    ))()


def value(draw, depth=3):
    kind = draw.randrange(8 if depth else 5)
    if kind < 2:
        return number(draw)
    if kind < 4:
        return text(draw)
    if kind == 4:
        return draw.choice((None, True, False))
    if kind == 5:
        return {text(draw, 8): value(draw, depth - 1) for _ in range(draw.randrange(5))}
    return [value(draw, depth - 1) for _ in range(draw.randrange(5))]


def entry(draw):
    kind = draw.choice(KINDS)
    out = {"output_kind": kind, kind: value(draw)}
    if draw.random() < 0.5:
        out["port"] = text(draw, 10)
    if draw.random() < 0.1:
        out[kind] = text(draw, 400)
    return out


def payload(draw):
    """A payload as one of the log's events has it, with anything in it."""
    out = {"node_id": text(draw, 40), "status": draw.choice(STATUSES)}
    if draw.random() < 0.3:
        out["error"], out["error_type"] = text(draw, 300), "ValueError"
    if draw.random() < 0.7:
        out["outputs"] = [entry(draw) for _ in range(draw.randrange(6))]
    for _ in range(draw.randrange(3)):
        out[text(draw, 12)] = value(draw)
    return out


def content():
    draw = random.Random(SEED)
    # lines.line is what every line of a child goes through.
    made = [lines.line(**{"": jsonable(payload(draw))}) for _ in range(COUNT)]
    return b"".join(line[len(b'{"":') : -1] + b"\n" for line in made)


if __name__ == "__main__":
    FILE.parent.mkdir(exist_ok=True)
    FILE.write_bytes(content())
