"""Category Data: image sets, loaders and plain inputs."""

from __future__ import annotations

from cdui.node import Node, Param, Port
from cdui.nodes import datasets, image_files, image_transforms, parsing


class Dataset(Node):
    """One split of a well-known image set: items ``(image [channels, height,
    width] float32 in −1..1, label int)`` with the standard transform."""

    NODE_NAME = "Dataset"
    CATEGORY = "Data"
    DESCRIPTION = "A well-known image set, read from files of this machine."
    DETAILS = (
        "Looks in data_dir, relative to the run's folders, and its usual sub-folders; FashionMNIST also where "
        "Debian's dataset-fashion-mnist puts it. Nothing is downloaded. Without a wired transform images become "
        "floats and are normalized with mean 0.5 and std 0.5. The train split uses train_transform, else "
        "eval_transform; the test split never uses train_transform."
    )
    cacheable = False

    @classmethod
    def inputs(cls, params=None):
        return [
            Port("train_transform", "TRANSFORM", "for the train split", optional=True),
            Port("eval_transform", "TRANSFORM", "for the test split, and for train where nothing else is wired", optional=True),
        ]

    @classmethod
    def outputs(cls, params=None):
        return [Port("dataset", "DATASET", "items (image, label)")]

    @classmethod
    def params(cls):
        return [
            Param("name", "select", "MNIST", "Which set.", ["MNIST", "CIFAR10", "FashionMNIST", "CIFAR100", "SVHN", "STL10"]),
            Param("split", "select", "train", "Which part.", ["train", "test"]),
            Param("data_dir", "string", "./data", "The folder that holds the set's files or its folder."),
        ]

    def execute(self, inputs, params, context):
        images, labels, classes = image_files.load(
            params["name"], params["split"], params["data_dir"], context.search_dirs
        )
        transform = inputs.get("eval_transform")
        if params["split"] == "train":
            transform = inputs.get("train_transform") or transform
        found = datasets.ImageDataset(images, labels, transform or image_transforms.standard(), classes)
        return {"dataset": found, "__log__": f"{params['name']} {params['split']}: {len(found)} images"}


class DataLoader(Node):
    """Batches of a dataset: ``(images [batch, ...], labels [batch])``."""

    NODE_NAME = "DataLoader"
    CATEGORY = "Data"
    DESCRIPTION = "Batches of a dataset, in order or shuffled."
    cacheable = False

    @classmethod
    def inputs(cls, params=None):
        return [Port("dataset", "DATASET")]

    @classmethod
    def outputs(cls, params=None):
        return [Port("dataloader", "DATALOADER")]

    @classmethod
    def params(cls):
        return [
            Param("batch_size", "int", 32, "Items in a batch.", min_value=1),
            Param("shuffle", "bool", True, "A new order in each epoch."),
            Param("num_workers", "int", 0, "Processes that read ahead; 0 reads in the loop itself.", min_value=0),
            Param("pin_memory", "bool", False, "Page-locked memory: faster copies to a CUDA card.", advanced=True),
            Param("drop_last", "bool", False, "Leave out a last batch that is not full.", advanced=True),
            Param("persistent_workers", "bool", False, "Keep the workers between epochs; needs num_workers > 0.", advanced=True),
            Param("prefetch_factor", "int", 2, "Batches that each worker reads ahead.", min_value=1, advanced=True),
        ]

    def execute(self, inputs, params, context):
        from torch.utils import data

        dataset, workers = inputs["dataset"], int(params["num_workers"])
        if params["persistent_workers"] and workers == 0:
            raise ValueError("persistent_workers needs num_workers > 0: there are no workers to keep")
        ordered = isinstance(dataset, data.IterableDataset)
        if not ordered and len(dataset) == 0:
            raise ValueError("the dataset is empty: there is nothing to load")
        extras = {"prefetch_factor": int(params["prefetch_factor"])} if workers else {}
        loader = data.DataLoader(
            dataset,
            batch_size=int(params["batch_size"]),
            shuffle=False if ordered else bool(params["shuffle"]),
            num_workers=workers,
            pin_memory=bool(params["pin_memory"]),
            drop_last=bool(params["drop_last"]),
            persistent_workers=bool(params["persistent_workers"]),
            generator=context.generator(f"dataloader:{context.node_id}"),
            **extras,
        )
        return {"dataloader": loader}


class DatasetBatch(Node):
    """Some items of a dataset, stacked: images ``[n, ...]``, labels ``[n]`` (or
    masks ``[n, ...]``); n is smaller than batch_size at the end of the set."""

    NODE_NAME = "DatasetBatch"
    CATEGORY = "Data"
    DESCRIPTION = "A batch from a chosen place of a dataset, as tensors."

    @classmethod
    def inputs(cls, params=None):
        return [Port("dataset", "DATASET")]

    @classmethod
    def outputs(cls, params=None):
        return [Port("images", "TENSOR"), Port("labels", "TENSOR")]

    @classmethod
    def params(cls):
        return [
            Param("batch_size", "int", 1, "How many items.", min_value=1),
            Param("start_index", "int", 0, "The first item's index.", min_value=0),
        ]

    def execute(self, inputs, params, context):
        from torch.utils.data import default_collate

        dataset, start = inputs["dataset"], int(params["start_index"])
        if start >= len(dataset):
            raise ValueError(f"start_index is {start} and the dataset has {len(dataset)} items: choose a smaller one")
        stop = min(start + int(params["batch_size"]), len(dataset))
        batch = default_collate([dataset[index] for index in range(start, stop)])
        images, named, labels = datasets.split_batch(batch)
        first = images[0] if images else next(iter(named.values()))
        return {"images": first.to(context.device), "labels": labels.to(context.device)}


class Transform(Node):
    """The same dataset with another transform of its images."""

    NODE_NAME = "Transform"
    CATEGORY = "Data"
    DESCRIPTION = "Resizes, converts and normalizes the images of a dataset."
    DETAILS = (
        "Image sets of this program are transformed from their raw images, so this replaces their standard "
        "transform; any other dataset's items are transformed as they come."
    )

    @classmethod
    def inputs(cls, params=None):
        return [Port("dataset", "DATASET")]

    @classmethod
    def outputs(cls, params=None):
        return [Port("dataset", "DATASET")]

    @classmethod
    def params(cls):
        return [
            Param("resize", "int", 0, "Side of the square images in pixels; 0 keeps their size.", min_value=0),
            Param("normalize", "bool", True, "Subtract 0.5 and divide by 0.5."),
            Param("to_tensor", "bool", True, "Bytes 0..255 to floats 0..1."),
        ]

    def execute(self, inputs, params):
        steps, side, dataset = [], int(params["resize"]), inputs["dataset"]
        own = isinstance(dataset, datasets.ImageDataset)
        if side:
            if own and dataset.labels.dim() > 1:
                raise ValueError("resize would leave the masks of this dataset in their old size: set it to 0")
            steps.append(image_transforms.Resize(side, side))
        if params["to_tensor"]:
            steps.append(image_transforms.ToTensor())
        if params["normalize"]:
            steps.append(image_transforms.Normalize([0.5], [0.5]))
        transform = image_transforms.Compose(steps)
        if own:
            return {"dataset": dataset.transformed(transform)}
        return {"dataset": datasets.TransformedDataset(dataset, transform)}


class TensorInput(Node):
    """A tensor of a given shape and type."""

    NODE_NAME = "TensorInput"
    CATEGORY = "Data"
    DESCRIPTION = "A tensor with typed, random, constant or counting values."
    DETAILS = (
        "explicit takes the values of the grid in row-major order, and there must be as many as the shape holds. "
        "random draws from the normal distribution for floats, 0 to 9 for whole numbers, and bools evenly."
    )

    @classmethod
    def outputs(cls, params=None):
        return [Port("tensor", "TENSOR")]

    @classmethod
    def params(cls):
        return [
            Param("shape", "string", "1,4,4", "Sizes with commas between them."),
            Param("dtype", "select", "float32", "Type of the values.", ["float32", "float64", "int64", "int32", "bool"]),
            Param("value_mode", "select", "random", "Where the values come from.", ["explicit", "random", "zeros", "ones", "arange"]),
            Param("values", "tensor_grid", None, "The values for explicit.", visible_when={"value_mode": "explicit"}),
            Param("seed", "int", 0, "Seed for random.", visible_when={"value_mode": "random"}),
        ]

    def execute(self, inputs, params, context):
        import torch

        shape, mode = parsing.integers(params["shape"], "shape", at_least=1), params["value_mode"]
        if min(shape) < 0:
            raise ValueError(f"shape is {params['shape']!r}: sizes can't be negative")
        dtype = getattr(torch, params["dtype"], None)
        if not isinstance(dtype, torch.dtype):
            raise ValueError(f"dtype is {params['dtype']!r}: choose float32, float64, int64, int32 or bool")
        if mode == "explicit":
            tensor = _explicit(params["values"], shape, dtype)
        elif mode == "random":
            tensor = _random(shape, dtype, torch.Generator().manual_seed(int(params["seed"])))
        elif mode in ("zeros", "ones"):
            tensor = getattr(torch, mode)(shape, dtype=dtype)
        elif mode == "arange":
            tensor = torch.arange(torch.Size(shape).numel()).reshape(shape).to(dtype)
        else:
            raise ValueError(f"value_mode is {mode!r}: choose explicit, random, zeros, ones or arange")
        return {"tensor": tensor.to(context.device)}


def _explicit(values, shape, dtype):
    import torch

    found = list(_flat(values))
    wanted = torch.Size(shape).numel()
    if len(found) != wanted:
        raise ValueError(f"values holds {len(found)} numbers and shape {shape} takes {wanted}: make them agree")
    try:
        # Whole numbers stay whole: floats lose the last digits of large ones.
        numbers = [value if isinstance(value, int) else float(value) for value in found]
        return torch.tensor(numbers, dtype=dtype).reshape(shape)
    except (TypeError, ValueError):
        raise ValueError("values must hold numbers only") from None


def _flat(values):
    """The numbers of a nested list in row-major order."""
    if isinstance(values, (list, tuple)):
        for value in values:
            yield from _flat(value)
    elif values is not None:
        yield values


def _random(shape, dtype, generator):
    import torch

    if dtype.is_floating_point:
        return torch.randn(shape, generator=generator, dtype=dtype)
    if dtype is torch.bool:
        return torch.randint(0, 2, shape, generator=generator).bool()
    return torch.randint(0, 10, shape, generator=generator, dtype=dtype)


class TextInput(Node):
    """A text."""

    NODE_NAME = "TextInput"
    CATEGORY = "Data"
    DESCRIPTION = "A text typed into the graph."

    @classmethod
    def outputs(cls, params=None):
        return [Port("text", "STRING")]

    @classmethod
    def params(cls):
        return [Param("value", "string", "The quick brown fox jumps over the lazy dog.", "The text.")]

    def execute(self, inputs, params):
        return {"text": str(params["value"])}


NODES = [Dataset, DataLoader, DatasetBatch, Transform, TensorInput, TextInput]
