"""Where a graph's tensors live: resolving device names, moving values, and what
the allocator says. torch is imported only when a name asks for it."""

from __future__ import annotations

import copy
import sys
from typing import Any, Callable

MIB = 1 << 20


def resolve(requested: Any, warn: Callable[..., None], auto: str = "") -> str:
    """The torch device for a name: cpu, auto, cuda, cuda:N, mps or mps:N.

    ``auto`` is what auto stands for; without it, the best of cuda, mps and cpu.
    What this machine lacks becomes cpu, a card that is out of range the current
    one; both with a warning. ValueError for a name that means nothing.
    """
    name = str(requested or "cpu").strip().lower()
    if name == "cpu":
        return "cpu"
    if name == "auto" and auto:
        return auto
    kind, colon, index = name.partition(":")
    if kind not in ("auto", "cuda", "mps"):
        raise ValueError(f"device is {requested!r}: choose auto, cpu, cuda, cuda:N or mps")
    import torch

    def instead(used: str) -> str:
        warn("device_fallback", requested=name, used=used)
        return used

    cuda = torch.cuda.is_available()
    backend = getattr(torch.backends, "mps", None)
    mps = backend is not None and backend.is_available()
    if kind == "auto":
        return f"cuda:{torch.cuda.current_device()}" if cuda else "mps" if mps else "cpu"
    if kind == "mps":
        return "mps" if mps else instead("cpu")
    if not cuda:
        return instead("cpu")
    if index.isdecimal() and int(index) < torch.cuda.device_count():
        return f"cuda:{int(index)}"
    current = f"cuda:{torch.cuda.current_device()}"
    return instead(current) if colon else current


def use(device: str) -> None:
    """Makes a card the current one of this thread, so that "cuda" means it."""
    if device.startswith("cuda"):
        import torch

        torch.cuda.set_device(device)


def move(value: Any, device: str) -> Any:
    """``value`` with every tensor in it, however deep in lists, tuples and
    dicts, on ``device``. What holds nothing to move comes back as it is."""
    torch = sys.modules.get("torch")
    return value if torch is None else _move(value, device, torch.Tensor)


def _move(value: Any, device: str, tensor: type) -> Any:
    if isinstance(value, tensor):
        if str(value.device) == device:
            return value
        # Towards a host the copy would be seen before it is there.
        return value.to(device, non_blocking=device != "cpu")
    if isinstance(value, dict):
        moved = {k: _move(v, device, tensor) for k, v in value.items()}
        if all(moved[k] is v for k, v in value.items()):
            return value
        out = copy.copy(value)  # keeps what kind of dict it is
        out.update(moved)
        return out
    if type(value) in (list, tuple) or (isinstance(value, tuple) and hasattr(value, "_fields") and not hasattr(value, "to")):
        items = [_move(v, device, tensor) for v in value]
        if all(a is b for a, b in zip(items, value)):
            return value
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    return value


def allocator(device: str) -> str:
    """The allocator's numbers for a card, in brackets, empty for others."""
    torch = sys.modules.get("torch")
    if torch is None or not device.startswith("cuda") or not torch.cuda.is_available():
        return ""
    used = torch.cuda.memory_allocated(device) // MIB
    held = torch.cuda.memory_reserved(device) // MIB
    total = torch.cuda.get_device_properties(device).total_memory // MIB
    return f" ({used} MiB allocated, {held} MiB reserved, {total} MiB in all)"


def release_cache() -> None:
    """Gives cached memory of cards back to the driver."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available() and torch.cuda.is_initialized():
        torch.cuda.empty_cache()
