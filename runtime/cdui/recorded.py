"""Captured outputs of a run on disk: one file a port and an index of them, so
that a listing loads no file."""

from __future__ import annotations

import hashlib
import json
import os
from typing import Any, Callable, Mapping, Tuple


def write(captured: Mapping[Tuple[str, str], Any], folder: str, describe: Callable[[Any], Mapping[str, Any]]) -> None:
    """Writes every value with torch.save, tensors on the cpu. A value that can't
    be saved keeps its place in the index, with the reason."""
    import torch

    from cdui import devices, failure

    os.makedirs(folder, mode=0o700, exist_ok=True)
    index = []
    for (node_id, port), value in captured.items():
        entry = {"node_id": node_id, "port": port, **describe(value)}
        entry.pop("values", None)
        name = hashlib.sha256(f"{node_id}\0{port}".encode()).hexdigest()[:32] + ".pt"
        path = os.path.join(folder, name)
        try:
            torch.save(devices.move(value, "cpu"), path)
            entry["file"] = name
        except Exception as error:  # one bad value must not cost the others
            entry["error"] = failure.headline(error)[:300]
            if os.path.exists(path):
                os.unlink(path)
        index.append(entry)
    partial = os.path.join(folder, "index.json.tmp")
    with open(partial, "w", encoding="ascii") as f:
        json.dump({"version": 1, "outputs": index}, f)
        f.flush()
        os.fsync(f.fileno())
    os.replace(partial, os.path.join(folder, "index.json"))
