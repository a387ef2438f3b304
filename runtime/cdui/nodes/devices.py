"""Which device a node computes on, and moving batches there."""

from __future__ import annotations

from typing import Any


def choose(wanted: str, context) -> str:
    """The device of a node whose ``device`` param is ``wanted``: ``auto`` is the
    run's device; one that this machine lacks is replaced, with a warning."""
    import torch

    wanted = str(wanted or "").strip().lower()
    if wanted in ("", "auto"):
        return context.device
    if wanted == "cpu":
        return "cpu"
    if wanted.startswith("mps"):
        mps = getattr(torch.backends, "mps", None)
        if mps is not None and mps.is_available():
            return "mps"
        return _instead("cpu", wanted, context)
    if wanted.startswith("cuda"):
        if not torch.cuda.is_available():
            return _instead("cpu", wanted, context)
        if wanted == "cuda":
            # The run may have been given a card other than the first.
            return context.device if context.device.startswith("cuda") else "cuda"
        index = wanted.partition(":")[2]
        if index.isdigit() and int(index) < torch.cuda.device_count():
            return f"cuda:{int(index)}"
        return _instead(f"cuda:{torch.cuda.current_device()}", wanted, context)
    raise ValueError(f"device is {wanted!r}: choose auto, cpu, cuda or mps")


def _instead(used: str, wanted: str, context) -> str:
    context.warn("device_unavailable", wanted=wanted, used=used, node_id=context.node_id)
    return used


def move(value: Any, device: Any) -> Any:
    """``value`` with every tensor in it, however deep, moved to ``device``."""
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
