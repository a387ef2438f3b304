"""A graph's outputs as JSON, for callers that use a graph as a function."""

from __future__ import annotations

from typing import Any, Mapping

from cdui.summary import finite


def plain_output(value: Any, most: int) -> Any:
    """``value`` as JSON holds it. TypeError for what has no JSON form,
    OverflowError for more than ``most`` elements."""
    counter = _Counter(most)
    try:
        return counter.plain(value)
    except RecursionError:
        raise TypeError(f"a {type(value).__name__} that is nested too deep has no JSON form") from None


class _Counter:
    def __init__(self, most: int) -> None:
        self._left, self._most = most, most

    def plain(self, value: Any) -> Any:
        if isinstance(value, Mapping):
            return {str(k): self.plain(v) for k, v in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.plain(v) for v in value]
        detach = getattr(value, "detach", None)
        if callable(detach):
            value = detach()
        tolist = getattr(value, "tolist", None)
        if callable(tolist):
            size = getattr(value, "numel", None)
            if callable(size):
                self._check(size())  # before a list of it is made
            return self.plain(tolist())
        if value is not None and not isinstance(value, (str, bool, int, float)):
            raise TypeError(f"a {type(value).__name__} has no JSON form; end the graph with a value that has one")
        self._left -= 1
        self._check(self._most - self._left)
        return finite(value)

    def _check(self, elements: int) -> None:
        if elements > self._most:
            raise OverflowError(f"it has more than {self._most:,} elements")
