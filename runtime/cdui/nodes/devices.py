"""Which device a node works on."""

from __future__ import annotations

import re
from typing import Any, Callable

from cdui.node import Context


def for_param(value: Any, context: Context) -> str:
    """The device that a node's ``device`` param names; auto is the run's."""
    wanted = str(value or "auto").strip().lower()
    if wanted == "auto":
        return context.device

    def warn(detail: str) -> None:
        context.warn("device_fallback", requested=wanted, detail=detail)

    return resolve(wanted, warn)


def resolve(name: Any, warn: Callable[[str], None]) -> str:
    """A device that exists here: cpu, cuda:N or mps.

    Nothing given is cpu; auto is the best of cuda, mps and cpu; a device that
    is not here gives the nearest one, after ``warn`` was told.
    """
    import torch

    wanted = str(name or "cpu").strip().lower() or "cpu"
    has_cuda = torch.cuda.is_available()
    mps = getattr(torch.backends, "mps", None)
    has_mps = mps is not None and mps.is_available()
    if wanted == "auto":
        wanted = "cuda" if has_cuda else "mps" if has_mps else "cpu"
    kind = wanted.partition(":")[0]
    if kind == "cpu":
        return "cpu"
    if kind == "mps":
        if has_mps:
            return "mps"
        warn("no mps device is here; cpu is used")
        return "cpu"
    if kind != "cuda":
        warn(f"{wanted} is not a device; cpu is used")
        return "cpu"
    if not has_cuda:
        warn("no cuda device is here; cpu is used")
        return "cpu"
    current = f"cuda:{torch.cuda.current_device()}"
    if wanted == "cuda":
        return current
    index = re.fullmatch(r"cuda:(\d+)", wanted)
    if index and int(index.group(1)) < torch.cuda.device_count():
        return wanted
    warn(f"{wanted} is not here; {current} is used")
    return current
