"""What a checkpoint file holds, and writing it.

A checkpoint is a dict saved with torch.save: ``epoch`` (completed epochs),
``model_state_dict``, ``optimizer_state_dict``, and where they exist ``losses``,
``scheduler_state_dict`` and ``grad_scaler_state``.
"""

from __future__ import annotations

import collections
from typing import Any

from cdui.nodes import files


def state(epoch: int, model: Any, optimizer: Any, *, losses: Any = None,
          scheduler: Any = None, grad_scaler_state: Any = None) -> dict[str, Any]:
    """The dict that a checkpoint file holds; absent parts have no key."""
    found = {
        "epoch": int(epoch),
        "model_state_dict": model.state_dict(),
        "optimizer_state_dict": optimizer.state_dict(),
    }
    if losses is not None:
        found["losses"] = losses
    if scheduler is not None:
        found["scheduler_state_dict"] = _plain(scheduler.state_dict())
    if grad_scaler_state is not None:
        found["grad_scaler_state"] = grad_scaler_state
    return found


def _plain(schedule: dict[str, Any]) -> dict[str, Any]:
    """A schedule's state without what a file of plain values can't hold: functions,
    which the schedule that it is loaded into has too, and counters as dicts."""
    return {
        name: dict(value) if isinstance(value, collections.Counter) else value
        for name, value in schedule.items()
        if not callable(value)
    }


def save(content: dict[str, Any], path: str) -> None:
    """Writes a checkpoint; the file appears whole or not at all."""
    import torch

    with files.replacing(path) as temporary:
        torch.save(content, temporary)


def move_optimizer_state(optimizer: Any) -> None:
    """Moves an optimizer's moments to the devices of its params, as is needed
    when the model was moved after they were made. Step counters stay."""
    import torch

    for group in optimizer.param_groups:
        for param in group["params"]:
            moments = optimizer.state.get(param, {})
            for name, value in moments.items():
                if isinstance(value, torch.Tensor) and name != "step":
                    moments[name] = value.to(param.device)
