"""Which device a node computes on, and moving batches there."""

from __future__ import annotations

from typing import Any

from cdui import devices


def choose(wanted: str, context) -> str:
    """The device of a node whose ``device`` param is ``wanted``: ``auto`` is the
    run's device; one that this machine lacks is replaced, with a warning."""
    name = str(wanted or "auto").strip().lower()
    if name.partition(":")[0] not in ("auto", "cpu", "cuda", "mps"):
        raise ValueError(f"device is {wanted!r}: choose auto, cpu, cuda or mps")
    if name == "auto" or (name == "cuda" and context.device.startswith("cuda")):
        # The run may have been given a card other than the first.
        return context.device
    return devices.resolve(name, context.warn)


def move(value: Any, device: Any) -> Any:
    """``value`` with every tensor in it, however deep, moved to ``device`` without
    waiting for copies from page-locked memory."""
    import torch

    if isinstance(value, torch.Tensor):
        return value.to(device, non_blocking=True)
    if isinstance(value, dict):
        return {key: move(item, device) for key, item in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(move(item, device) for item in value))
    if isinstance(value, (list, tuple)):
        return type(value)(move(item, device) for item in value)
    return value
