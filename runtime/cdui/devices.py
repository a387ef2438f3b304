"""Where a graph's tensors live: resolving device names, moving values, and what
the allocator says. torch is imported only when a name asks for it."""

from __future__ import annotations

import sys
from typing import Any, Callable

MIB = 1 << 20


def resolve(requested: str, warn: Callable[..., None]) -> str:
    """The torch device for a name: cpu, auto, cuda, cuda:N, mps, mps:N.

    auto is the best of cuda, mps and cpu. What this machine lacks becomes cpu,
    a card that is out of range the current one; both with a warning.
    """
    name = (requested or "cpu").strip().lower()
    if name == "cpu":
        return "cpu"
    import torch

    cuda = torch.cuda.is_available()
    backend = getattr(torch.backends, "mps", None)
    mps = backend is not None and backend.is_available()
    if name == "auto":
        return f"cuda:{torch.cuda.current_device()}" if cuda else "mps" if mps else "cpu"
    if name.startswith("cuda"):
        if not cuda:
            warn("device_fallback", requested=requested, used="cpu", reason="CUDA is not available")
            return "cpu"
        _, _, index = name.partition(":")
        if index.isdigit() and int(index) < torch.cuda.device_count():
            return name
        used = f"cuda:{torch.cuda.current_device()}"
        if name != "cuda":
            warn("device_fallback", requested=requested, used=used, reason="there is no such card")
        return used
    if name.startswith("mps") and mps:
        return "mps"
    warn("device_fallback", requested=requested, used="cpu", reason="it is not available")
    return "cpu"


def move(value: Any, device: str) -> Any:
    """``value`` with every tensor in it, however deep in lists and dicts, on
    ``device``; a value without tensors comes back as it is."""
    torch = sys.modules.get("torch")
    if torch is None:
        return value
    if isinstance(value, torch.Tensor):
        return value if str(value.device) == device else value.to(device)
    if isinstance(value, list):
        return [move(v, device) for v in value]
    if type(value) is tuple:
        return tuple(move(v, device) for v in value)
    if type(value) is dict:
        return {k: move(v, device) for k, v in value.items()}
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
    if torch is not None and torch.cuda.is_available():
        torch.cuda.empty_cache()


def peak_memory() -> dict[str, dict[str, Any]]:
    """The most memory held: per card by torch's allocator, exact since this
    process runs one graph; for the cpu by the process's resident size."""
    import resource

    resident = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    unit = 1 if sys.platform == "darwin" else 1024
    out: dict[str, dict[str, Any]] = {"cpu": {"mib": resident * unit // MIB, "exact": False}}
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available() and torch.cuda.is_initialized():
        for i in range(torch.cuda.device_count()):
            peak = torch.cuda.max_memory_reserved(i) // MIB
            if peak:
                out[f"cuda:{i}"] = {"mib": peak, "exact": True}
    return out
