"""Reads lists that params hold as text, such as ``1,3,224,224``."""

from __future__ import annotations

import math
import re


def words(text: str) -> list[str]:
    """The comma-separated parts of ``text`` without blanks around them; empty
    parts are left out."""
    return [part.strip() for part in str(text).split(",") if part.strip()]


def integers(text: object, param: str, at_least: int = 0) -> list[int]:
    """The comma-separated whole numbers of a param; brackets around them are
    allowed. ``at_least`` is how many there must be."""
    return _numbers(text, param, at_least, int, "whole numbers")


def floats(text: object, param: str, at_least: int = 0) -> list[float]:
    """The comma-separated numbers of a param; see integers."""
    return _numbers(text, param, at_least, float, "numbers")


def _numbers(text, param, at_least, kind, what):
    if isinstance(text, (list, tuple)):
        parts = list(text)
    else:
        parts = words(str(text).strip().strip("()[]"))
    try:
        found = [kind(part) for part in parts]
    except (TypeError, ValueError):
        raise ValueError(f"{param} must be {what} with commas between them, not {text!r}") from None
    if len(found) < at_least:
        raise ValueError(f"{param} needs at least {at_least} of its {what}, and has {text!r}")
    return found


def count(value: object, default: int, low: int, high: int) -> int:
    """A number of ports, read as a browser's parseInt does and kept in range.

    A text counts by its leading digits, a float by its floor; a bool or
    anything else stands for the default. It never raises.
    """
    number = default
    if isinstance(value, bool):
        pass
    elif isinstance(value, int):
        number = value
    elif isinstance(value, float) and math.isfinite(value):
        number = math.floor(value)
    elif isinstance(value, str):
        found = re.match(r"\s*([+-]?[0-9]+)", value)
        number = int(found.group(1)) if found else default
    return max(low, min(high, number))
