"""What the event log shows of values: short, and valid JSON whatever they hold."""

from __future__ import annotations

import itertools
import math
import os
import sys
from typing import Any, Mapping

from cdui.node import Port

MAX_VALUES = 256
MAX_STRING = 200
# The most items of a container that its text is made of; more would not be seen.
MAX_REPR_ITEMS = 60


def output_entries(ports: list[Port], values: Mapping[str, Any], log: Any, models_dir: str) -> list[dict[str, Any]]:
    """The ``outputs`` of a node's last event: its line of text, what its media
    ports show, and a summary of each other port."""
    entries: list[dict[str, Any]] = []
    if log:
        entries.append({"output_kind": "text", "text": str(log)})
    media = {p.name: p.media for p in ports if p.media}
    for port, form in media.items():
        value = values.get(port)
        if form == "image" and isinstance(value, str) and value:
            value = {"format": "png", "encoding": "base64", "data": value}
        if isinstance(value, Mapping) and value:
            entries.append({"output_kind": form, form: jsonable(value), "port": port})
    summaries = {port: summarize(value, models_dir) for port, value in values.items() if port not in media}
    if summaries:
        entries.append({"output_kind": "tensor_summary", "tensor_summary": summaries})
    return entries


def summarize(value: Any, models_dir: str = "") -> dict[str, Any]:
    """A value in a few fields, by what it is: tensor, model, scalar, string,
    list, or its type and a short repr."""
    try:
        return _summarize(value, models_dir)
    except Exception:  # an object that can't even be looked at is still an output
        return {"type": type(value).__name__, "repr": f"<{type(value).__name__}>"}


def _summarize(value: Any, models_dir: str) -> dict[str, Any]:
    value = _scalar(value)
    if _is(value, "torch", "Tensor"):
        return _tensor(value)
    if _is(value, "torch.nn", "Module"):
        parameters = [(p.numel(), p.requires_grad) for p in value.parameters() if not hasattr(p, "materialize")]
        return {
            "type": "model",
            "class": type(value).__name__,
            "params": sum(n for n, _ in parameters),
            "trainable": sum(n for n, trainable in parameters if trainable),
        }
    if value is None or isinstance(value, (bool, int, float)):
        return {"type": "scalar", "value": finite(value)}
    if isinstance(value, str):
        out: dict[str, Any] = {"type": "string", "value": value[:MAX_STRING]}
        if models_dir and _inside(value, models_dir):
            out["download_path"] = os.path.relpath(os.path.realpath(value), os.path.realpath(models_dir))
        return out
    if isinstance(value, (list, tuple)):
        out = {"type": "list", "length": len(value), "repr": short(value)}
        if len(value) <= MAX_VALUES and all(_primitive_or_pair(v) for v in value):
            out["values"] = jsonable(value)
        return out
    return {"type": type(value).__name__, "repr": short(value)}


def _tensor(tensor: Any) -> dict[str, Any]:
    out: dict[str, Any] = {
        "type": "tensor",
        "shape": list(tensor.shape),
        "dtype": str(tensor.dtype).replace("torch.", ""),
        "min": None,
        "max": None,
        "mean": None,
    }
    tensor = tensor.detach()
    if not tensor.numel() or tensor.is_complex():
        return out
    try:
        import torch

        # The mean is summed in double without a second copy of the tensor.
        found = tensor.min(), tensor.max(), tensor.mean(dtype=torch.float64)
        out["min"], out["max"], out["mean"] = (rounded(float(n)) for n in found)
        if tensor.numel() <= MAX_VALUES:
            out["values"] = _nested(tensor.cpu().tolist())
    except (RuntimeError, TypeError, NotImplementedError):
        pass  # sparse, quantized, meta: kinds without these operations
    return out


def rounded(number: float) -> float | None:
    """Four decimals; None for what is not finite."""
    return round(number, 4) if math.isfinite(number) else None


def finite(number: Any) -> Any:
    """``number``, or None for what JSON has no token for."""
    return None if isinstance(number, float) and not math.isfinite(number) else number


def jsonable(value: Any) -> Any:
    """``value`` as JSON can hold it: numbers of numpy and torch as plain ones,
    their arrays as lists, what is not finite as None, the rest as text."""
    value = _scalar(value)
    if isinstance(value, Mapping):
        return {str(k): jsonable(v) for k, v in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [jsonable(v) for v in value]
    if value is None or isinstance(value, (str, bool, int, float)):
        return finite(value)
    if _is(value, "torch", "Tensor") or _is(value, "numpy", "ndarray"):
        value = value.detach() if hasattr(value, "detach") else value
        return jsonable(value.item() if value.ndim == 0 else value.tolist())
    return str(value)


def short(value: Any) -> str:
    """The repr of a value, cut. Only the front of a container is looked at."""
    if type(value) is dict:
        value = dict(itertools.islice(value.items(), MAX_REPR_ITEMS))
    elif type(value) in (list, tuple):
        value = value[:MAX_REPR_ITEMS]
    try:
        text = repr(value)
    except Exception as error:
        text = f"<{type(value).__name__} whose repr raised {type(error).__name__}>"
    return text if len(text) <= MAX_STRING else text[: MAX_STRING - 3] + "..."


def _nested(value: Any) -> Any:
    if isinstance(value, list):
        return [_nested(v) for v in value]
    return rounded(value) if isinstance(value, float) else value


def _primitive_or_pair(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return len(value) == 2 and all(_primitive(v) for v in value)
    return _primitive(value)


def _primitive(value: Any) -> bool:
    return value is None or isinstance(_scalar(value), (str, int, float, bool))


def _scalar(value: Any) -> Any:
    """A number of numpy as Python's own."""
    return value.item() if _is(value, "numpy", "generic") else value


def _is(value: Any, module: str, name: str) -> bool:
    """isinstance without an import: what was never imported has no instances."""
    found = getattr(sys.modules.get(module), name, None)
    return found is not None and isinstance(value, found)


def _inside(path: str, folder: str) -> bool:
    return os.path.isabs(path) and os.path.realpath(path).startswith(os.path.realpath(folder) + os.sep)
