"""What the event log shows of a value: short, and valid JSON whatever it holds."""

from __future__ import annotations

import math
import os
from typing import Any, Mapping

MAX_VALUES = 256
MAX_STRING = 200


def summarize(value: Any, models_dir: str = "") -> dict[str, Any]:
    """A value in a few fields, by what it is: tensor, model, scalar, string,
    list, or its type and a short repr."""
    if _is_tensor(value):
        return _tensor(value)
    if _is_module(value):
        parameters = list(value.parameters())
        return {
            "type": "model",
            "class": type(value).__name__,
            "params": sum(p.numel() for p in parameters),
            "trainable": sum(p.numel() for p in parameters if p.requires_grad),
        }
    if isinstance(value, bool) or value is None:
        return {"type": "scalar", "value": value}
    if isinstance(value, (int, float)):
        return {"type": "scalar", "value": finite(value)}
    if isinstance(value, str):
        out: dict[str, Any] = {"type": "string", "value": value[:MAX_STRING]}
        if models_dir and _inside(value, models_dir):
            out["download_path"] = os.path.relpath(value, models_dir)
        return out
    if isinstance(value, (list, tuple)):
        out = {"type": "list", "length": len(value), "repr": _repr(value)}
        if len(value) <= MAX_VALUES and all(_plain(v) for v in value):
            out["values"] = [_jsonable(v) for v in value]
        return out
    return {"type": type(value).__name__, "repr": _repr(value)}


def _tensor(tensor: Any) -> dict[str, Any]:
    out: dict[str, Any] = {
        "type": "tensor",
        "shape": list(tensor.shape),
        "dtype": str(tensor.dtype).replace("torch.", ""),
        "min": None,
        "max": None,
        "mean": None,
    }
    flat = tensor.detach().reshape(-1)
    if flat.numel() and not flat.is_complex():
        numbers = flat.double()
        for name, number in (("min", numbers.min()), ("max", numbers.max()), ("mean", numbers.mean())):
            out[name] = rounded(float(number))
    if flat.numel() <= MAX_VALUES and not flat.is_complex():
        out["values"] = nested(tensor.detach().cpu().tolist())
    return out


def rounded(number: float) -> float | None:
    """Four decimals; None for what is not finite."""
    return round(number, 4) if math.isfinite(number) else None


def finite(number: Any) -> Any:
    return number if isinstance(number, int) or math.isfinite(number) else None


def nested(value: Any) -> Any:
    """Nested lists of numbers with what is not finite as None."""
    if isinstance(value, list):
        return [nested(v) for v in value]
    if isinstance(value, float):
        return rounded(value)
    return value


def jsonable(value: Any) -> Any:
    """A progress payload or the like as JSON can hold it: numbers of numpy and
    torch by item(), what is not finite as None, the rest as text."""
    if isinstance(value, Mapping):
        return {str(k): jsonable(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [jsonable(v) for v in value]
    if value is None or isinstance(value, (str, bool)):
        return value
    if isinstance(value, (int, float)):
        return finite(value)
    item = getattr(value, "item", None)
    if callable(item):
        try:
            return jsonable(item())
        except (TypeError, ValueError, RuntimeError):
            tolist = getattr(value, "tolist", None)
            if callable(tolist):
                return jsonable(tolist())
    return str(value)


def _jsonable(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_jsonable(v) for v in value]
    return finite(value) if isinstance(value, float) else value


def _plain(value: Any) -> bool:
    """A primitive, or a pair of them."""
    if isinstance(value, (list, tuple)):
        return len(value) == 2 and all(isinstance(v, (str, int, float, bool, type(None))) for v in value)
    return isinstance(value, (str, int, float, bool, type(None)))


def _repr(value: Any) -> str:
    try:
        text = repr(value)
    except Exception as error:
        text = f"<{type(value).__name__} whose repr raised {type(error).__name__}>"
    return text if len(text) <= MAX_STRING else text[: MAX_STRING - 3] + "..."


def _inside(path: str, folder: str) -> bool:
    return os.path.isabs(path) and os.path.realpath(path).startswith(os.path.realpath(folder) + os.sep)


def _is_tensor(value: Any) -> bool:
    import sys

    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def _is_module(value: Any) -> bool:
    import sys

    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.nn.Module)
