"""Building optimizers and schedules of their learning rate from params."""

from __future__ import annotations

import math
from typing import Any, Callable, Mapping

from cdui.nodes import parsing

#: The optimizers that Optimizer offers.
TYPES = ("Adam", "SGD", "AdamW", "RMSprop", "Adagrad", "RAdam", "NAdam", "Rprop", "ASGD")

_ADAMS = ("Adam", "AdamW", "RAdam", "NAdam")

#: Which optimizers know a param beyond lr, and the default that means not set.
KNOBS: dict[str, tuple[Any, tuple[str, ...]]] = {
    "weight_decay": (0.0, tuple(kind for kind in TYPES if kind != "Rprop")),
    "momentum": (0.0, ("SGD", "RMSprop")),
    "betas": ("0.9, 0.999", _ADAMS),
    "eps": (1e-8, (*_ADAMS, "RMSprop", "Adagrad")),
    "amsgrad": (False, ("Adam", "AdamW")),
    "nesterov": (False, ("SGD",)),
    "dampening": (0.0, ("SGD",)),
}

#: The schedules that LRScheduler offers.
SCHEDULES = (
    "StepLR", "CosineAnnealingLR", "ExponentialLR", "ReduceLROnPlateau", "CosineAnnealingWarmRestarts", "MultiStepLR",
    "OneCycleLR", "warmup_cosine", "warmup_linear", "constant_with_warmup",
)


def build(model: Any, params: Mapping[str, Any]) -> Any:
    """The optimizer of a model's trainable parameters."""
    import torch

    kind = params["type"]
    if kind not in TYPES:
        raise ValueError(f"type is {kind!r}: choose {', '.join(TYPES)}")
    trainable = [parameter for parameter in model.parameters() if parameter.requires_grad]
    if not trainable:
        raise ValueError("the model has no trainable parameters: there is nothing to optimize")
    given = {"lr": float(params["lr"])}
    for knob, (default, kinds) in KNOBS.items():
        value = params[knob]
        if knob == "betas":
            value, default = _betas(value), _betas(default)
        if value == default or value is None:
            continue  # the optimizer's own default, which differs between them
        if kind not in kinds:
            raise ValueError(f"{knob} is {params[knob]} and {kind} has no {knob}: set it back to {default} or choose {', '.join(kinds)}")
        given[knob] = value
    if given.get("nesterov") and (not given.get("momentum") or given.get("dampening")):
        raise ValueError("nesterov needs a momentum above 0 and a dampening of 0")
    return getattr(torch.optim, kind)(trainable, **given)


def _betas(value: Any) -> tuple[float, float]:
    betas = parsing.floats(value, "betas", at_least=2)
    if len(betas) != 2 or not all(0 <= beta < 1 for beta in betas):
        raise ValueError(f"betas is {value!r}: give two numbers from 0 to below 1, such as 0.9, 0.999")
    return betas[0], betas[1]


def schedule(optimizer: Any, params: Mapping[str, Any]) -> Any:
    """The schedule of the optimizer's learning rate that LRScheduler describes."""
    from torch.optim import lr_scheduler as schedules

    kind = params["type"]
    step_size, gamma, total = int(params["step_size"]), float(params["gamma"]), int(params["total_steps"])
    if kind == "StepLR":
        return schedules.StepLR(optimizer, step_size=_at_least_one(step_size, "step_size"), gamma=gamma)
    if kind == "CosineAnnealingLR":
        return schedules.CosineAnnealingLR(optimizer, T_max=_at_least_one(int(params["T_max"]), "T_max"))
    if kind == "ExponentialLR":
        return schedules.ExponentialLR(optimizer, gamma=gamma)
    if kind == "ReduceLROnPlateau":
        if not 0 < gamma < 1:
            raise ValueError(f"gamma is {gamma:g}: ReduceLROnPlateau multiplies the rate by it, so choose one between 0 and 1")
        return schedules.ReduceLROnPlateau(optimizer, factor=gamma)
    if kind == "CosineAnnealingWarmRestarts":
        return schedules.CosineAnnealingWarmRestarts(optimizer, T_0=_at_least_one(int(params["T_max"]), "T_max"))
    if kind == "MultiStepLR":
        return schedules.MultiStepLR(optimizer, milestones=[_at_least_one(step_size, "step_size") * n for n in range(1, 5)], gamma=gamma)
    if kind == "OneCycleLR":
        # Momentum cycles too where the optimizer uses one.
        cycles = "betas" in optimizer.defaults or optimizer.defaults.get("momentum", 0) > 0
        return schedules.OneCycleLR(
            optimizer, max_lr=float(params["max_lr"]), total_steps=_at_least_one(total, "total_steps"), cycle_momentum=cycles
        )
    if kind in _WARMUPS:
        return schedules.LambdaLR(optimizer, warmup(kind, int(params["warmup_steps"]), total))
    raise ValueError(f"type is {kind!r}: choose {', '.join(SCHEDULES)}")


def _at_least_one(value: int, param: str) -> int:
    if value < 1:
        raise ValueError(f"{param} is {value}: choose 1 or more")
    return value


_WARMUPS: dict[str, Callable[[float], float]] = {
    "warmup_cosine": lambda progress: 0.5 * (1 + math.cos(math.pi * progress)),
    "warmup_linear": lambda progress: 1 - progress,
    "constant_with_warmup": lambda progress: 1.0,
}


def warmup(kind: str, warmup_steps: int, total_steps: int) -> Callable[[int], float]:
    """The factor of the learning rate by step: it rises evenly to 1 over
    ``warmup_steps``, then falls to 0 at ``total_steps`` as the kind says."""
    after = _WARMUPS[kind]

    def factor(step: int) -> float:
        if step < warmup_steps:
            return (step + 1) / warmup_steps
        return after(min(1.0, (step - warmup_steps) / max(1, total_steps - warmup_steps)))

    return factor
