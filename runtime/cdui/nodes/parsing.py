"""Reads the texts and numbers that params are given as."""

from __future__ import annotations

import math
import re
from typing import Any


def ints(text: Any, param: str) -> list[int]:
    """The whole numbers of a comma list such as ``1,3,224,224``."""
    if isinstance(text, int) and not isinstance(text, bool):
        return [text]
    parts = [str(p) for p in text] if isinstance(text, (list, tuple)) else str(text).split(",")
    try:
        return [int(p) for p in parts if p.strip()]
    except ValueError:
        raise ValueError(f"param {param!r} is {text!r}; write whole numbers with commas between them, such as 1,28,28") from None


def shape(text: Any, param: str = "shape") -> list[int]:
    """A comma list with at least one size, none below zero."""
    sizes = ints(text, param)
    if not sizes or min(sizes) < 0:
        raise ValueError(f"param {param!r} is {text!r}; write sizes with commas between them, such as 1,28,28")
    return sizes


def names(text: Any) -> list[str]:
    """The words of a comma list, trimmed; empty ones are left out."""
    return [part.strip() for part in str(text or "").split(",") if part.strip()]


def words(text: Any) -> list[str]:
    """The words of a list with commas or blanks between them."""
    return re.split(r"[\s,]+", str(text or "").strip(" \t\r\n,")) if str(text or "").strip(" \t\r\n,") else []


def count(value: Any, default: int, low: int, high: int) -> int:
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
        found = re.match(r"\s*([+-]?\d+)", value)
        number = int(found.group(1)) if found else default
    return max(low, min(high, number))
