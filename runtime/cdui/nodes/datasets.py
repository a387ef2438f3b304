"""Datasets that nodes hand to each other: anything with a length and items.

An item is ``(image, label)``. The classes stand at module level, free of torch
at import, so that DataLoader workers can be given them.
"""

from __future__ import annotations

from typing import Any, Callable, Iterator, Sequence


class ImageDataset:
    """Images in memory: ``images [n, channels, height, width]`` (uint8 as read
    from files, or float), ``labels [n]`` or masks ``[n, ...]``.

    An item is ``(transform(image), label)``; labels are ints, masks tensors.
    """

    def __init__(self, images: Any, labels: Any, transform: Callable[[Any], Any] | None = None,
                 classes: Sequence[str] = ()) -> None:
        self.images, self.labels = images, labels
        self.transform, self.classes = transform, list(classes)

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        image = self.images[index]
        if self.transform is not None:
            image = self.transform(image)
        label = self.labels[index]
        return image, label if label.dim() else int(label)

    def transformed(self, transform: Callable[[Any], Any]) -> ImageDataset:
        """The same images as they were read, with this transform instead."""
        return ImageDataset(self.images, self.labels, transform, self.classes)


class TransformedDataset:
    """Another dataset whose images pass a transform."""

    def __init__(self, dataset: Any, transform: Callable[[Any], Any]) -> None:
        self.dataset, self.transform = dataset, transform
        self.classes = getattr(dataset, "classes", [])

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: int) -> Any:
        item = self.dataset[index]
        if isinstance(item, (tuple, list)):
            return (self.transform(item[0]), *item[1:])
        return self.transform(item)


#: The keys that a batch or item in dict form has its label under.
LABEL_KEYS = ("labels", "label", "target", "targets", "y")


def split_batch(batch: Any) -> tuple[tuple[Any, ...], dict[str, Any], Any]:
    """A batch (or item) as positional inputs, named inputs and the target.

    Accepted are ``(input, …, target)`` and dicts with one of LABEL_KEYS.
    """
    if isinstance(batch, (tuple, list)) and len(batch) >= 2:
        return tuple(batch[:-1]), {}, batch[-1]
    if isinstance(batch, dict):
        for key in LABEL_KEYS:
            if key in batch and len(batch) >= 2:
                rest = {name: value for name, value in batch.items() if name != key}
                if len(rest) == 1:
                    return tuple(rest.values()), {}, batch[key]
                return (), rest, batch[key]
    raise ValueError(
        f"a batch must be (input, target) or a dict with {' or '.join(LABEL_KEYS[:3])}, "
        f"not {describe(batch)}"
    )


def describe(batch: Any) -> str:
    """A few words on what a batch is, for messages."""
    if isinstance(batch, dict):
        return f"a dict with {', '.join(map(str, batch))}"
    if isinstance(batch, (tuple, list)):
        return f"a {type(batch).__name__} of {len(batch)}"
    return f"one {type(batch).__name__}"


def images_of(dataset: Any) -> Iterator[Any]:
    """The first part of each item: the images without their labels."""
    for index in range(len(dataset)):
        item = dataset[index]
        yield item[0] if isinstance(item, (tuple, list)) else item
