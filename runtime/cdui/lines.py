"""The lines that a process of a run sends up: building their bytes, nothing else.

The Go side of the same format is internal/childproto; its testdata pins the
bytes for both.
"""
from __future__ import annotations

import json
import math
from json.encoder import encode_basestring_ascii as quoted
from typing import Any, List, Mapping, Optional, Tuple

# Keeps a line of points far below the shim's limit of 8 MiB.
MAX_POINTS = 8192

Point = Tuple[str, Any, int]


def line(**fields: Any) -> bytes:
    """One line of any type, without its newline."""
    return json.dumps(fields, separators=(",", ":"), allow_nan=False).encode("ascii")


def hello() -> bytes:
    return line(type="hello", watches_cancel=True)


def artifact(path: str, kind: str, meta: Optional[Mapping[str, Any]]) -> bytes:
    fields = {"type": "artifact", "kind": kind, "path": path}
    if meta is not None:
        fields["meta"] = plain(meta)
    return line(**fields)


def metrics(points: List[Point]) -> List[bytes]:
    """As few lines as the points fit into."""
    encoded = [point(*p) for p in points]
    return [
        ('{"type":"metrics","points":[%s]}' % ",".join(encoded[i : i + MAX_POINTS])).encode("ascii")
        for i in range(0, len(encoded), MAX_POINTS)
    ]


def point(name: str, value: Any, step: int) -> str:
    """One point; value is an int or a float, as number() gives it."""
    head = '{"name":%s,"value":' % quoted(name)
    tail = ',"step":%s' % digits(step)
    if isinstance(value, int):
        return head + digits(value) + tail + "}"
    if math.isfinite(value):
        return head + float.__repr__(value) + tail + "}"
    word = "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
    return head + "null" + tail + ',"nonfinite":"%s"}' % word


def digits(n: int) -> str:
    """All digits of n; Python's own limit on their number does not count here."""
    try:
        return int.__repr__(n)
    except ValueError:
        sign, n = ("-", -n) if n < 0 else ("", n)
        parts = []
        while n:
            n, low = divmod(n, 10**600)
            parts.append("%0600d" % low)
        return sign + "".join(reversed(parts)).lstrip("0")


def number(value: Any, what: str) -> Any:
    """The int or float that value stands for.

    Scalars and 0-d tensors of numpy, torch and the like convert by their own
    item(), so nothing of them is imported here.
    """
    item = getattr(value, "item", None)
    if callable(item):
        try:
            value = item()
        except Exception as e:
            raise TypeError("%s is no single number (%s); log a scalar, such as its mean" % (what, e)) from None
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value)
    for convert, method in ((int, "__index__"), (float, "__float__")):
        if hasattr(type(value), method) and not isinstance(value, complex):
            try:
                return convert(value)
            except Exception as e:
                raise TypeError("%s does not convert to a number: %s" % (what, e)) from None
    raise TypeError("%s is a %s (%s), not a number" % (what, type(value).__name__, brief(value)))


def whole(value: Any, what: str) -> int:
    """A step: a whole number, also one that came as 3.0."""
    n = number(value, what)
    if isinstance(n, float):
        if not n.is_integer():
            raise TypeError("%s is %r, not a whole number" % (what, n))
        n = int(n)
    return n


def brief(value: Any) -> str:
    try:
        text = repr(value)
    except Exception:
        return "..."
    return text if len(text) <= 60 else text[:57] + "..."


def plain(value: Any) -> Any:
    """value in what JSON can hold: scalars by item(), non-finite numbers as null, the rest as text."""
    if value is None or isinstance(value, (str, bool)):
        return value
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(v) for v in value]
    try:
        n = number(value, "")
    except TypeError:
        return str(value)
    return n if isinstance(n, int) or math.isfinite(n) else None
