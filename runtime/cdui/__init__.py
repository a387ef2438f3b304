"""What a training script sees of cdui.

    import cdui

    for step in range(steps):
        cdui.log({"loss": loss, "lr": lr}, step=step)
        if cdui.should_stop():
            save(cdui.checkpoint_dir())
            break

Outside a run of cdui the same script works too: log() goes nowhere,
should_stop() is False, params() is empty. Nothing beyond the standard library
is imported.
"""
from __future__ import annotations

import json
import os
import sys
import threading
from typing import Any, Dict, List, Mapping, Optional

from cdui import lines
from cdui.wire import channel as _channel

__all__ = ["artifact", "checkpoint_dir", "device", "log", "params", "should_stop"]
__version__ = "0.1.0"

_steps: Dict[str, int] = {}
_steps_lock = threading.RLock()


def log(values: Mapping[str, Any], step: Optional[int] = None, all_ranks: bool = False) -> None:
    """Records one value for each named series.

    Values are numbers, or anything of one element that converts to one, such
    as a tensor. NaN and infinities are kept. Without step each series counts
    on from its last one, beginning at 0. In a distributed run only rank 0 is
    recorded, unless all_ranks is true. Raises TypeError for what is no number.
    """
    if not isinstance(values, Mapping):
        raise TypeError("cdui.log takes a dict of names and numbers, not a %s" % type(values).__name__)
    if not all_ranks and _rank() != 0:
        return
    numbers = {str(k): lines.number(v, "cdui.log: the value of %r" % str(k)) for k, v in values.items()}
    if step is not None:
        step = lines.whole(step, "cdui.log: step")
    points: List[lines.Point] = []
    with _steps_lock:
        for name, value in numbers.items():
            at = _steps.get(name, 0) if step is None else step
            _steps[name] = at + 1
            points.append((name, value, at))
    for line in lines.metrics(points):
        _channel.send(line)


def artifact(path: Any, kind: str = "file", meta: Optional[Mapping[str, Any]] = None) -> None:
    """Records that the run made the file or folder at path; meta is any small dict."""
    _channel.send(lines.artifact(os.path.abspath(os.fsdecode(path)), str(kind), meta))


def should_stop() -> bool:
    """Whether the run was asked to stop: save what is worth it and return.

    It is cheap enough for every step. Ranks of a distributed run may learn of
    it a step apart, so let them agree before they leave a collective loop.
    """
    return _channel.cancelled()


def checkpoint_dir() -> str:
    """A folder for checkpoints, made on first use; a retry of the run finds it again.

    Outside cdui it is ./checkpoints.
    """
    path = os.environ.get("CDUI_CHECKPOINT_DIR") or os.path.abspath("checkpoints")
    os.makedirs(path, exist_ok=True)
    return path


def device() -> str:
    """The device of this run as this process sees it: "cpu", "cuda:0", "mps".

    Where torchrun gave this process a LOCAL_RANK and the run has as many
    cards, it is the card of that rank. Outside cdui it is the first card of a
    torch that is already imported, else "cpu".
    """
    given = os.environ.get("CDUI_DEVICE")
    if not given:
        return _guess_device()
    if given.startswith("cuda"):
        cards = os.environ.get("CUDA_VISIBLE_DEVICES", "").count(",") + 1
        local = os.environ.get("LOCAL_RANK", "")
        if local.isdigit() and int(local) < cards:
            return "cuda:%d" % int(local)
    return given


def params() -> Dict[str, Any]:
    """The parameters that the run was submitted with; a new dict at each call."""
    given: Any = os.environ.get("CDUI_PARAMS")
    if given:
        try:
            given = json.loads(given)
        except ValueError:
            given = None
    else:
        given = _channel.input()
    return dict(given) if isinstance(given, dict) else {}


def _forked() -> None:
    global _steps_lock
    _steps_lock = threading.RLock()  # another thread may have held it


def _rank() -> int:
    rank = os.environ.get("RANK", "")
    if rank.isdigit():
        return int(rank)
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None:
        try:
            if distributed.is_available() and distributed.is_initialized():
                return int(distributed.get_rank())
        except Exception:
            pass  # a torch that is still being imported
    return 0


def _guess_device() -> str:
    torch = sys.modules.get("torch")
    try:
        if torch.cuda.is_available():
            return "cuda:0"
        if torch.backends.mps.is_available():
            return "mps"
    except Exception:
        pass
    return "cpu"


os.register_at_fork(after_in_child=_forked)
_channel.open()
