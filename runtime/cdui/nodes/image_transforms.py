"""Transforms of one image, a tensor ``[channels, height, width]``.

They are plain classes at module level so that DataLoader workers can be given
them. Random ones draw from torch's global generator, which DataLoader seeds in
each worker.
"""

from __future__ import annotations

from typing import Any, Callable, Sequence


class ToTensor:
    """uint8 0..255 to float32 0..1; floats stay as they are."""

    def __call__(self, image: Any) -> Any:
        return image if image.is_floating_point() else image.float().div(255)


class Normalize:
    """(image − mean) / std per channel, for float images; one number serves all
    channels."""

    def __init__(self, mean: Sequence[float], std: Sequence[float]) -> None:
        if any(value == 0 for value in std):
            raise ValueError("std must not hold 0: each channel is divided by it")
        self.mean, self.std = list(mean), list(std)

    def __call__(self, image: Any) -> Any:
        import torch

        if not image.is_floating_point():
            raise ValueError("normalizing needs a float image: put to_tensor (ToTensorTransform) before it")
        for name, values in (("mean", self.mean), ("std", self.std)):
            if len(values) not in (1, image.shape[0]):
                raise ValueError(f"{name} has {len(values)} numbers and the image {image.shape[0]} channels")
        if len(self.mean) == len(self.std) == 1:
            return image.sub(self.mean[0]).div_(self.std[0])
        mean = torch.tensor(self.mean, dtype=image.dtype, device=image.device)
        std = torch.tensor(self.std, dtype=image.dtype, device=image.device)
        return (image - mean.view(-1, 1, 1)) / std.view(-1, 1, 1)


class Resize:
    """To ``height`` x ``width``, bilinear, with antialiasing when it shrinks."""

    def __init__(self, height: int, width: int) -> None:
        self.size = (height, width)

    def __call__(self, image: Any) -> Any:
        from torch.nn import functional

        if tuple(image.shape[-2:]) == self.size:
            return image
        resized = functional.interpolate(
            image.unsqueeze(0).float(), self.size, mode="bilinear", align_corners=False, antialias=True
        ).squeeze(0)
        return resized if image.is_floating_point() else resized.round().clamp(0, 255).to(image.dtype)


class RandomCrop:
    """A random ``height`` x ``width`` part, after zeros were added at each side."""

    def __init__(self, height: int, width: int, padding: int = 0) -> None:
        self.size, self.padding = (height, width), padding

    def __call__(self, image: Any) -> Any:
        import torch
        from torch.nn import functional

        if self.padding:
            image = functional.pad(image, [self.padding] * 4)
        (height, width), (rows, columns) = self.size, image.shape[-2:]
        if height > rows or width > columns:
            raise ValueError(f"a crop of {height}x{width} is larger than the image, {rows}x{columns} with padding")
        top = int(torch.randint(rows - height + 1, ()))
        left = int(torch.randint(columns - width + 1, ()))
        return image[..., top:top + height, left:left + width]


class RandomHorizontalFlip:
    """Mirrors left and right with probability ``p``."""

    def __init__(self, p: float) -> None:
        self.p = p

    def __call__(self, image: Any) -> Any:
        import torch

        return image.flip(-1) if float(torch.rand(())) < self.p else image


class RandomRotation:
    """Turns by an angle in ±``degrees`` around the middle; corners become 0."""

    def __init__(self, degrees: float) -> None:
        self.degrees = degrees

    def __call__(self, image: Any) -> Any:
        import math

        import torch
        from torch.nn import functional

        angle = math.radians((2 * float(torch.rand(())) - 1) * self.degrees)
        height, width = image.shape[-2:]
        # The grid has sides of length 2 both ways: the ratio undoes the stretching.
        turn = torch.tensor([[
            [math.cos(angle), -math.sin(angle) * height / width, 0.0],
            [math.sin(angle) * width / height, math.cos(angle), 0.0],
        ]])
        batch = image.unsqueeze(0).float()
        grid = functional.affine_grid(turn, list(batch.shape), align_corners=False)
        turned = functional.grid_sample(batch, grid, mode="bilinear", align_corners=False).squeeze(0)
        return turned if image.is_floating_point() else turned.round().to(image.dtype)


class ColorJitter:
    """Random brightness, contrast and saturation: factors in 1 ± the amount, not
    below 0. Saturation needs 3 channels. Values stay in the image's range."""

    def __init__(self, brightness: float = 0.0, contrast: float = 0.0, saturation: float = 0.0) -> None:
        self.brightness, self.contrast, self.saturation = brightness, contrast, saturation

    def __call__(self, image: Any) -> Any:
        values = image.float()
        if self.brightness:
            values = values * self._factor(self.brightness)
        if self.contrast:
            values = self._blend(values, self._grey(values).mean(), self.contrast)
        if self.saturation and image.shape[0] == 3:
            values = self._blend(values, self._grey(values), self.saturation)
        if image.is_floating_point():
            low, high = (-1, 1) if float(image.min()) < 0 else (0, 1)
            return values.clamp(low, high).to(image.dtype)
        return values.round().clamp(0, 255).to(image.dtype)

    @staticmethod
    def _factor(amount: float) -> float:
        import torch

        return max(0.0, 1 + (2 * float(torch.rand(())) - 1) * amount)

    def _blend(self, values: Any, grey: Any, amount: float) -> Any:
        factor = self._factor(amount)
        return values * factor + grey * (1 - factor)

    @staticmethod
    def _grey(values: Any) -> Any:
        if values.shape[0] != 3:
            return values.mean(0, keepdim=True)
        return (0.299 * values[0] + 0.587 * values[1] + 0.114 * values[2]).unsqueeze(0)


class Compose:
    """One transform after the other."""

    def __init__(self, steps: Sequence[Callable[[Any], Any]]) -> None:
        self.steps = list(steps)

    def __call__(self, image: Any) -> Any:
        for step in self.steps:
            image = step(image)
        return image


def standard() -> Compose:
    """What a dataset without a wired transform gets: values in −1..1."""
    return Compose([ToTensor(), Normalize([0.5], [0.5])])
