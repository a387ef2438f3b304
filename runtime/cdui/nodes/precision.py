"""Mixed precision: what a training step does differently for fp32, bf16, fp16."""

from __future__ import annotations

import contextlib
from typing import Any

NAMES = ("fp32", "bf16", "fp16")


class Precision:
    """The arithmetic of a loop on one device.

    bf16 computes the forward pass in bfloat16, fp16 in half precision with a
    scaled loss. A device that can't is given fp32, with a warning.
    """

    def __init__(self, wanted: str, device: str, context: Any, scaler_state: dict[str, Any] | None = None) -> None:
        if wanted not in NAMES:
            raise ValueError(f"precision is {wanted!r}: choose {', '.join(NAMES)}")
        self.kind = device.partition(":")[0]
        self.name = wanted if _can(wanted, self.kind) else "fp32"
        if self.name != wanted:
            context.warn("precision_unavailable", wanted=wanted, used="fp32", device=device)
        self.scaler = _scaler() if self.name == "fp16" else None
        self.skipped_steps = 0
        if self.scaler is not None and scaler_state:
            self.scaler.load_state_dict(scaler_state)

    def forward(self) -> Any:
        """The context that a forward pass runs in."""
        import torch

        if self.name == "fp32":
            return contextlib.nullcontext()
        dtype = torch.bfloat16 if self.name == "bf16" else torch.float16
        return torch.autocast(self.kind, dtype=dtype)

    def backward(self, loss: Any) -> None:
        """Adds the gradients of ``loss``."""
        (loss if self.scaler is None else self.scaler.scale(loss)).backward()

    def unscale(self, optimizer: Any) -> None:
        """Brings the gradients to their true size, so that they can be measured."""
        if self.scaler is not None:
            self.scaler.unscale_(optimizer)

    def step(self, optimizer: Any) -> bool:
        """Moves the parameters; False when the step was left out because the
        scaled gradients overflowed."""
        if self.scaler is None:
            optimizer.step()
            return True
        before = self.scaler.get_scale()
        self.scaler.step(optimizer)
        self.scaler.update()
        done = self.scaler.get_scale() >= before
        self.skipped_steps += not done
        return done

    def state(self) -> dict[str, Any] | None:
        """What a later loop needs to go on with the same loss scale."""
        return None if self.scaler is None else self.scaler.state_dict()


def _can(name: str, kind: str) -> bool:
    import torch

    if name == "fp32" or kind == "cuda":
        return name != "bf16" or torch.cuda.is_bf16_supported()
    return name == "bf16" and kind == "cpu"


def _scaler() -> Any:
    import torch

    amp = getattr(torch, "amp", None)
    if hasattr(amp, "GradScaler"):  # torch 2.3 and later
        return amp.GradScaler("cuda")
    return torch.cuda.amp.GradScaler()
