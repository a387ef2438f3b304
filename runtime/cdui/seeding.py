"""Random numbers and kernels that repeat."""

from __future__ import annotations

import importlib
import os
import random


def seed_everything(seed: int) -> None:
    """Seeds Python, NumPy and torch. What is installed of them is imported for
    it, since the node that follows may import it first and draw."""
    random.seed(seed)
    for name, seeder in (("numpy", "random.seed"), ("torch", "manual_seed")):
        try:
            found = importlib.import_module(name)
        except ImportError:
            continue
        for part in seeder.split("."):
            found = getattr(found, part)
        found(seed)


def make_deterministic() -> None:
    """Deterministic kernels where there are any, warnings where there are none."""
    os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"  # read when a card is first used
    import torch

    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.backends.cudnn.benchmark = False
