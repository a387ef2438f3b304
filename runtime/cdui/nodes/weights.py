"""Reads files of weights without running code from them.

torch.save writes pickles, and a pickle can call anything. Here only what
rebuilds tensors and plain values is allowed.
"""

from __future__ import annotations

import pickle
from typing import Any

#: What rebuilds tensors, by module. Storages are resolved by torch itself.
ALLOWED = {
    "collections": {"OrderedDict"},
    "torch": {"Size", "device"},
    "torch._utils": {"_rebuild_tensor", "_rebuild_tensor_v2", "_rebuild_parameter", "_rebuild_sparse_tensor"},
    "torch.nn.parameter": {"Parameter"},
}


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if name in ALLOWED.get(module, ()):
            return super().find_class(module, name)
        raise pickle.UnpicklingError(f"it names {module}.{name}")


class _Pickles:
    """Stands in for the module pickle in torch.load."""

    Unpickler = _Unpickler

    @staticmethod
    def load(file: Any, **options: Any) -> Any:
        return _Unpickler(file, **options).load()


def read(path: str, device: str = "cpu") -> Any:
    """The tensors and plain values that torch.save wrote to ``path``."""
    import torch

    try:
        if int(torch.__version__.split(".")[0]) < 2:
            return _read_old(path, device)
        return torch.load(path, map_location=device, weights_only=True)
    except pickle.UnpicklingError:
        raise ValueError(
            f"{path} is no file of weights: it holds something else than tensors and plain values. "
            f"A model that was saved whole is loaded with load_mode full_model, which runs code from the file") from None
    except (RuntimeError, EOFError, ValueError, KeyError) as error:
        raise ValueError(f"{path} can't be read as a file of weights: {' '.join(str(error).split())}") from None


def _read_old(path: str, device: str) -> Any:
    """torch.load for torch 1.13, whose weights_only refuses floats such as a
    learning rate, and whose pickle_module argument is not looked at."""
    from torch import serialization

    with open(path, "rb") as file:
        if not serialization._is_zipfile(file):
            return serialization._legacy_load(file, device, _Pickles, encoding="utf-8")
        with serialization._open_zipfile_reader(file) as archive:
            return serialization._load(archive, device, _Pickles, encoding="utf-8")
