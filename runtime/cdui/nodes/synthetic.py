"""Category Data: made-up tables and images."""

from __future__ import annotations

from cdui.node import Node, Param, Port, need
from cdui.nodes import datasets, image_transforms


class SyntheticDataset(Node):
    """Points in the plane from scikit-learn's generators: ``tensor [n_samples, 2]``
    float32 and their classes as whole numbers."""

    NODE_NAME = "SyntheticDataset"
    CATEGORY = "Data"
    DESCRIPTION = "Points of two or more classes: circles, moons, blobs or a mixture."
    DETAILS = (
        "noise is the standard deviation added to circles and moons, ten times it that of each blob, and the share "
        "of wrong labels for classification. factor is the inner circle's size, centers the number of blobs."
    )

    @classmethod
    def outputs(cls, params=None):
        return [Port("tensor", "TENSOR", "[n_samples, 2]"), Port("labels", "LIST", "the class of each point"), Port("columns", "LIST")]

    @classmethod
    def params(cls):
        return [
            Param("kind", "select", "circles", "The pattern.", ["circles", "moons", "blobs", "classification"]),
            Param("n_samples", "int", 200, "How many points.", min_value=10),
            Param("noise", "float", 0.1, "How far the points are scattered.", min_value=0.0),
            Param("factor", "float", 0.5, "Inner circle's radius by the outer's.", min_value=0.0, visible_when={"kind": "circles"}),
            Param("centers", "int", 3, "How many blobs.", min_value=2, visible_when={"kind": "blobs"}),
            Param("seed", "int", 42, "Seed of the points."),
        ]

    def execute(self, inputs, params, context):
        import torch

        make = need("sklearn.datasets", "scikit-learn", "making points")
        kind, noise = params["kind"], float(params["noise"])
        same = {"n_samples": int(params["n_samples"]), "random_state": int(params["seed"])}
        if kind == "circles":
            if not 0 <= float(params["factor"]) < 1:
                raise ValueError(f"factor is {params['factor']}: choose one below 1, or the circles change places")
            points, classes = make.make_circles(noise=noise, factor=float(params["factor"]), **same)
        elif kind == "moons":
            points, classes = make.make_moons(noise=noise, **same)
        elif kind == "blobs":
            points, classes = make.make_blobs(n_features=2, centers=int(params["centers"]), cluster_std=10 * noise, **same)
        elif kind == "classification":
            points, classes = make.make_classification(
                n_features=2, n_informative=2, n_redundant=0, n_clusters_per_class=1, flip_y=min(noise, 1.0), **same
            )
        else:
            raise ValueError(f"kind is {kind!r}: choose circles, moons, blobs or classification")
        tensor = torch.tensor(points, dtype=torch.float32, device=context.device)
        return {"tensor": tensor, "labels": classes.tolist(), "columns": ["x", "y"]}


class SyntheticSegmentation(Node):
    """Grey images ``[1, size, size]`` in 0..1 of bright discs and boxes on a dark
    ground, and their masks ``[1, size, size]``, float 0 or 1."""

    NODE_NAME = "SyntheticSegmentation"
    CATEGORY = "Data"
    DESCRIPTION = "Made-up images with the mask of what stands out."
    DETAILS = "noise is the standard deviation added to the grey values."

    @classmethod
    def outputs(cls, params=None):
        return [Port("dataset", "DATASET", "items (image, mask)")]

    @classmethod
    def params(cls):
        return [
            Param("image_size", "int", 64, "Side of the images in pixels.", min_value=16),
            Param("n_samples", "int", 200, "How many images.", min_value=4),
            Param("noise", "float", 0.05, "How grainy the images are.", min_value=0.0),
            Param("seed", "int", 42, "Seed of the images."),
        ]

    def execute(self, inputs, params):
        import torch

        generator = torch.Generator().manual_seed(int(params["seed"]))
        size, count = int(params["image_size"]), int(params["n_samples"])
        masks = torch.zeros(count, 1, size, size)
        images = torch.full((count, 1, size, size), 0.2)
        for image, mask in zip(images, masks):
            for _ in range(1 + _pick(3, generator)):
                inside = _shape(_pick(2, generator), size, generator)
                mask[0][inside] = 1
                image[0][inside] = 0.6 + 0.4 * float(torch.rand((), generator=generator))
        images += float(params["noise"]) * torch.randn(images.shape, generator=generator)
        raw = images.clamp(0, 1).mul(255).round().to(torch.uint8)
        return {"dataset": datasets.ImageDataset(raw, masks, image_transforms.ToTensor(), ["ground", "shape"])}


class SyntheticShapes(Node):
    """Colour images ``[3, size, size]`` in −1..1 of one disc, box or triangle
    each, labelled 0, 1 or 2."""

    NODE_NAME = "SyntheticShapes"
    CATEGORY = "Data"
    DESCRIPTION = "Made-up images of a disc, a box or a triangle, to learn to make more of them."

    @classmethod
    def outputs(cls, params=None):
        return [Port("dataset", "DATASET", "items (image, class)")]

    @classmethod
    def params(cls):
        return [
            Param("image_size", "int", 24, "Side of the images in pixels.", min_value=8),
            Param("n_samples", "int", 384, "How many images.", min_value=8),
            Param("seed", "int", 0, "Seed of the images."),
        ]

    def execute(self, inputs, params):
        import torch

        generator = torch.Generator().manual_seed(int(params["seed"]))
        size, count = int(params["image_size"]), int(params["n_samples"])
        labels = torch.arange(count) % 3
        images = torch.full((count, 3, size, size), 16, dtype=torch.uint8)
        for image, label in zip(images, labels):
            colour = 96 + torch.randint(0, 160, (3, 1), generator=generator).to(torch.uint8)
            image[:, _shape(int(label), size, generator)] = colour
        return {"dataset": datasets.ImageDataset(images, labels, image_transforms.standard(), ["disc", "box", "triangle"])}


def _pick(count, generator):
    import torch

    return int(torch.randint(count, (), generator=generator))


def _shape(kind, size, generator):
    """Which pixels ``[size, size]`` a disc (0), box (1) or triangle (2) covers, of
    a random size at a random place inside the image."""
    import torch

    radius = size * (0.12 + 0.16 * float(torch.rand((), generator=generator)))
    y, x = (radius + (size - 2 * radius) * float(torch.rand((), generator=generator)) for _ in range(2))
    pixels = torch.arange(size) + 0.5
    dy, dx = (pixels - y).view(-1, 1), (pixels - x).view(1, -1)
    if kind == 0:
        return dy ** 2 + dx ** 2 <= radius ** 2
    if kind == 1:
        return (dy.abs() <= radius) & (dx.abs() <= radius)
    return (dy.abs() <= radius) & (2 * dx.abs() <= dy + radius)


NODES = [SyntheticDataset, SyntheticSegmentation, SyntheticShapes]
