"""A graph's outputs as JSON, for callers that use a graph as a function."""

from __future__ import annotations

from typing import Any, Mapping

from cdui.summary import finite


def plain_output(value: Any, most: int) -> Any:
    """``value`` as JSON holds it. TypeError for what has no JSON form,
    OverflowError for more than ``most`` elements."""
    left = [most]
    return _plain(value, left, most)


def _plain(value: Any, left: list[int], most: int) -> Any:
    left[0] -= 1
    if left[0] < 0:
        raise OverflowError(f"it has more than {most:,} elements")
    if value is None or isinstance(value, (str, bool)):
        return value
    if isinstance(value, (int, float)):
        return finite(value)
    if isinstance(value, Mapping):
        return {str(k): _plain(v, left, most) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(v, left, most) for v in value]
    tolist = getattr(value, "tolist", None)
    if callable(tolist):
        size = getattr(value, "numel", None)
        if callable(size) and size() > most:
            raise OverflowError(f"it has {size():,} elements, more than {most:,}")
        detach = getattr(value, "detach", None)
        return _plain((detach() if callable(detach) else value).tolist(), left, most)
    raise TypeError(f"a {type(value).__name__} has no JSON form; end the graph with a value that has one")
