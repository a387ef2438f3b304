"""The mathematics of diffusion: noise schedules and the U-Net."""

from __future__ import annotations

import math
from typing import Any, Mapping, Sequence

from cdui.nodes.late_classes import LateClasses

#: The attribute of a trained model that holds the ``kept`` of its Schedule.
TRAINED = "diffusion_kept"


class Schedule:
    """How much of an image is left after each of ``steps`` noise steps.

    ``betas [steps]`` are the variances that the steps add, ``kept [steps]`` the
    shares of the image's variance that are left (ᾱ).
    """

    def __init__(self, betas: Any) -> None:
        self.betas = betas
        self.kept = (1 - betas).cumprod(0)

    @classmethod
    def of(cls, params: Mapping[str, Any], steps: int) -> Schedule:
        """The schedule that a node's params describe."""
        import torch

        kind, start, end = params["schedule"], float(params["beta_start"]), float(params["beta_end"])
        if kind == "linear":
            if not 0 < start <= end < 1:
                raise ValueError(f"beta_start is {start:g} and beta_end {end:g}: they must be above 0, in this order, and below 1")
            return cls(torch.linspace(start, end, steps, dtype=torch.float64))
        if kind == "cosine":
            at = torch.arange(steps + 1, dtype=torch.float64) / steps
            kept = torch.cos((at + 0.008) / 1.008 * math.pi / 2) ** 2
            return cls((1 - kept[1:] / kept[:-1]).clamp(max=0.999))
        raise ValueError(f"schedule is {kind!r}: choose linear or cosine")

    def noisy(self, image: Any, noise: Any, times: Any) -> Any:
        """The images at their times (a CPU tensor): √ᾱ·image + √(1−ᾱ)·noise."""
        kept = self.kept[times].to(image.dtype).to(image.device).view(-1, *[1] * (image.dim() - 1))
        return kept.sqrt() * image + (1 - kept).sqrt() * noise

    def times_like(self, trained: Any) -> list[int]:
        """For each step, the time of another schedule (its ``kept``) with the most
        similar share of noise; the steps themselves where there is no other."""
        if trained is None:
            return list(range(len(self.kept)))
        return (trained.unsqueeze(0) - self.kept.unsqueeze(1)).abs().argmin(1).tolist()

    def back(self, x: Any, noise: Any, step: int, fresh: Any) -> Any:
        """One step towards the image, given the predicted noise; ``fresh`` noise is
        put back, but for the last step."""
        beta, kept = float(self.betas[step]), float(self.kept[step])
        mean = (x - beta / math.sqrt(1 - kept) * noise) / math.sqrt(1 - beta)
        if step == 0:
            return mean
        before = float(self.kept[step - 1])
        return mean + math.sqrt(beta * (1 - before) / (1 - kept)) * fresh


def sinusoids(times: Any, size: int, max_period: float = 10000.0) -> Any:
    """Times ``[n]`` as ``[n, size]``: cosines, then sines, of waves from 1 to
    ``max_period`` steps."""
    import torch

    half = size // 2
    rates = torch.exp(-math.log(max_period) * torch.arange(half, device=times.device, dtype=torch.float32) / half)
    angles = times.float().unsqueeze(1) * rates
    return torch.cat([angles.cos(), angles.sin()], dim=1)


def predict(model: Any, x: Any, times: Any, condition: Any = None) -> Any:
    """The noise that a model sees in x; the condition is passed on where it is
    given."""
    noise = model(x, times) if condition is None else model(x, times, condition)
    if getattr(noise, "shape", None) != x.shape:
        raise ValueError(f"the model answers {list(getattr(noise, 'shape', []))} to images {list(x.shape)}: it must give noise of their shape")
    return noise


def network(generator: Any, in_channels: int, base: int, mult: Sequence[int], embedding: int, groups: int) -> Any:
    """The U-Net, with PyTorch's own initial distribution drawn from ``generator``."""
    import torch
    from torch import nn

    model = _CLASSES["UNet"](in_channels, [base * m for m in mult], embedding, groups)
    with torch.no_grad():
        for layer in model.modules():
            if isinstance(layer, (nn.Conv2d, nn.Linear)):
                bound = layer.weight[0].numel() ** -0.5
                layer.weight.uniform_(-bound, bound, generator=generator)
                layer.bias.uniform_(-bound, bound, generator=generator)
    return model


def _make_classes() -> list[Any]:
    import torch
    from torch import nn
    from torch.nn import functional

    class Block(nn.Module):
        """Two convolutions with the time between them, and a way around."""

        def __init__(self, before: int, after: int, embedding: int, groups: int) -> None:
            super().__init__()
            self.norm1, self.conv1 = nn.GroupNorm(math.gcd(groups, before), before), nn.Conv2d(before, after, 3, padding=1)
            self.time = nn.Linear(embedding, after)
            self.norm2, self.conv2 = nn.GroupNorm(groups, after), nn.Conv2d(after, after, 3, padding=1)
            self.around = nn.Conv2d(before, after, 1) if before != after else nn.Identity()

        def forward(self, x: Any, time: Any) -> Any:
            inner = self.conv1(functional.silu(self.norm1(x))) + self.time(time)[:, :, None, None]
            return self.conv2(functional.silu(self.norm2(inner))) + self.around(x)

    class UNet(nn.Module):
        """Down through the sizes and up again, with each size's result kept."""

        def __init__(self, in_channels: int, sizes: Sequence[int], embedding: int, groups: int) -> None:
            super().__init__()
            self.embedding = embedding
            self.time = nn.Sequential(nn.Linear(embedding, embedding), nn.SiLU(), nn.Linear(embedding, embedding))
            self.first = nn.Conv2d(in_channels, sizes[0], 3, padding=1)
            self.down = nn.ModuleList(Block(before, after, embedding, groups) for before, after in zip([sizes[0], *sizes], sizes))
            self.middle = Block(sizes[-1], sizes[-1], embedding, groups)
            back = list(reversed(sizes))
            self.up = nn.ModuleList(Block(before + after, after, embedding, groups) for before, after in zip([sizes[-1], *back], back))
            self.norm, self.last = nn.GroupNorm(groups, sizes[0]), nn.Conv2d(sizes[0], in_channels, 3, padding=1)

        def forward(self, x: Any, timesteps: Any, condition: Any = None) -> Any:
            halvings = len(self.down) - 1
            if x.shape[-1] % 2 ** halvings or x.shape[-2] % 2 ** halvings:
                raise ValueError(f"images of {x.shape[-2]}x{x.shape[-1]} can't be halved {halvings} times: change their size or channel_mult")
            time = self.time(sinusoids(timesteps, self.embedding).to(x.dtype))
            if condition is not None:
                time = time + self._fitted(condition, time)
            x, kept = self.first(x), []
            for number, block in enumerate(self.down):
                x = block(functional.avg_pool2d(x, 2) if number else x, time)
                kept.append(x)
            x = self.middle(x, time)
            for number, block in enumerate(self.up):
                x = functional.interpolate(x, scale_factor=2.0, mode="nearest") if number else x
                x = block(torch.cat([x, kept.pop()], dim=1), time)
            return self.last(functional.silu(self.norm(x)))

        @staticmethod
        def _fitted(condition: Any, time: Any) -> Any:
            if condition.shape[-1] != time.shape[-1]:
                raise ValueError(f"condition has {condition.shape[-1]} numbers and time_emb_dim is {time.shape[-1]}: they must be equal")
            return condition.to(time.dtype)

    return [Block, UNet]


_CLASSES = LateClasses(__name__, ("Block", "UNet"), _make_classes)
__getattr__ = _CLASSES.attribute
