"""Torch modules of files that must not import torch when they are imported."""

from __future__ import annotations

import threading
from typing import Any, Callable, Sequence


class LateClasses:
    """Classes that ``make`` defines when one of ``names`` is first asked for.

    A file that has some sets ``__getattr__ = LateClasses(…).attribute``, so that
    they are found by name as its own, as pickles of whole models need.
    """

    def __init__(self, file: str, names: Sequence[str], make: Callable[[], Sequence[type]]) -> None:
        self._file, self._names, self._make = file, frozenset(names), make
        self._lock = threading.Lock()
        self._made: dict[str, type] = {}

    def __getitem__(self, name: str) -> Any:
        with self._lock:
            if not self._made:
                for cls in self._make():
                    cls.__qualname__ = cls.__name__
                    self._made[cls.__name__] = cls
        return self._made[name]

    def attribute(self, name: str) -> Any:
        """The class as an attribute of its file."""
        if name not in self._names:
            raise AttributeError(f"module {self._file!r} has no attribute {name!r}")
        return self[name]
