"""Which device a node computes on; cdui.devices decides."""

from __future__ import annotations

from typing import Any

from cdui import devices
from cdui.devices import move

__all__ = ["choose", "move"]


def choose(wanted: Any, context: Any) -> str:
    """The device of a node whose ``device`` param is ``wanted``: ``auto`` is the
    run's device; one that this machine lacks is replaced, with a warning."""
    return devices.resolve(wanted or "auto", context.warn, auto=context.device)
