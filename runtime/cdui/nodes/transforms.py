"""Category Data: transforms of images for Dataset's transform inputs, and image
folders."""

from __future__ import annotations

import os

from cdui.node import Node, Param, Port, need
from cdui.nodes import files, image_transforms, parsing


class TransformNode(Node):
    """What the transforms have in common: one output, a function of one image
    ``[channels, height, width]``."""

    CATEGORY = "Data"

    @classmethod
    def outputs(cls, params=None):
        return [Port("transform", "TRANSFORM")]


class ToTensorTransform(TransformNode):
    """Bytes 0..255 to float32 0..1."""

    NODE_NAME = "ToTensorTransform"
    DESCRIPTION = "Bytes to floats from 0 to 1."

    def execute(self, inputs, params):
        return {"transform": image_transforms.ToTensor()}


class NormalizeTransform(TransformNode):
    """(image − mean) / std, per channel."""

    NODE_NAME = "NormalizeTransform"
    DESCRIPTION = "Subtracts a mean and divides by a deviation."

    @classmethod
    def params(cls):
        return [
            Param("mean", "string", "0.5", "One number, or one a channel, with commas."),
            Param("std", "string", "0.5", "One number, or one a channel, with commas; not 0."),
        ]

    def execute(self, inputs, params):
        mean, std = (parsing.floats(params[name], name, at_least=1) for name in ("mean", "std"))
        return {"transform": image_transforms.Normalize(mean, std)}


class ResizeTransform(TransformNode):
    """To height x width."""

    NODE_NAME = "ResizeTransform"
    DESCRIPTION = "Images of another size."

    @classmethod
    def params(cls):
        return [
            Param("height", "int", 224, "Rows.", min_value=1),
            Param("width", "int", 224, "Columns.", min_value=1),
        ]

    def execute(self, inputs, params):
        return {"transform": image_transforms.Resize(int(params["height"]), int(params["width"]))}


class RandomCrop(TransformNode):
    """A random square part."""

    NODE_NAME = "RandomCrop"
    DESCRIPTION = "A random part of the image."

    @classmethod
    def params(cls):
        return [
            Param("size", "int", 32, "Side of the part.", min_value=1),
            Param("padding", "int", 0, "Zeros added at each side before.", min_value=0),
        ]

    def execute(self, inputs, params):
        return {"transform": image_transforms.RandomCrop(int(params["size"]), int(params["size"]), int(params["padding"]))}


class RandomHorizontalFlip(TransformNode):
    """Mirrors left and right, sometimes."""

    NODE_NAME = "RandomHorizontalFlip"
    DESCRIPTION = "Mirrors some of the images."

    @classmethod
    def params(cls):
        return [Param("p", "float", 0.5, "How often.", min_value=0.0, max_value=1.0)]

    def execute(self, inputs, params):
        return {"transform": image_transforms.RandomHorizontalFlip(float(params["p"]))}


class RandomRotation(TransformNode):
    """Turns by a random angle."""

    NODE_NAME = "RandomRotation"
    DESCRIPTION = "Turns the images a little."

    @classmethod
    def params(cls):
        return [Param("degrees", "float", 15.0, "The largest angle, either way.", min_value=0.0, max_value=180.0)]

    def execute(self, inputs, params):
        return {"transform": image_transforms.RandomRotation(float(params["degrees"]))}


class ColorJitter(TransformNode):
    """Changes brightness, contrast and saturation at random."""

    NODE_NAME = "ColorJitter"
    DESCRIPTION = "Changes the colours a little."

    @classmethod
    def params(cls):
        return [
            Param(name, "float", 0.0, f"How much {name} may change; 0 leaves it.", min_value=0.0)
            for name in ("brightness", "contrast", "saturation")
        ]

    def execute(self, inputs, params):
        return {"transform": image_transforms.ColorJitter(**{name: float(params[name]) for name in ("brightness", "contrast", "saturation")})}


class ComposeTransform(TransformNode):
    """One transform after the other: step_1 first."""

    NODE_NAME = "ComposeTransform"
    DESCRIPTION = "Several transforms in a row."

    @classmethod
    def inputs(cls, params=None):
        steps = parsing.count((params or {}).get("steps", 2), 2, 1, 8)
        return [Port(f"step_{number}", "TRANSFORM", optional=True) for number in range(1, steps + 1)]

    @classmethod
    def params(cls):
        return [Param("steps", "int", 2, "How many inputs.", min_value=1, max_value=8)]

    def execute(self, inputs, params):
        steps = [inputs[port.name] for port in self.inputs(params) if inputs.get(port.name) is not None]
        return {"transform": image_transforms.Compose(steps)}


class ImageFolder:
    """Images of a folder whose sub-folders are the classes, read when they are
    asked for. An item is ``(transform(image [channels, height, width] uint8), class)``."""

    SUFFIXES = (".bmp", ".jpeg", ".jpg", ".png", ".tif", ".tiff", ".webp")

    def __init__(self, folder: str, mode: str, transform) -> None:
        self.classes = sorted(entry.name for entry in os.scandir(folder) if entry.is_dir() and not entry.name.startswith("."))
        self.samples = [
            (os.path.join(above, name), number)
            for number, label in enumerate(self.classes)
            for above, folders, names in sorted(os.walk(os.path.join(folder, label)))
            for name in sorted(names)
            if name.lower().endswith(self.SUFFIXES)
        ]
        self.mode, self.transform = mode, transform

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int):
        import torch

        path, label = self.samples[index]
        image_module = need("PIL.Image", "pillow", "reading images")
        try:
            with image_module.open(path) as image:
                pixels = bytearray(image.convert(self.mode).tobytes())
                width, height = image.size
        except (OSError, ValueError) as error:
            raise ValueError(f"{path} can't be read as an image: {error}") from error
        raw = torch.frombuffer(pixels, dtype=torch.uint8).view(height, width, -1).permute(2, 0, 1).contiguous()
        return self.transform(raw), label


class ImageFolderDataset(Node):
    """Images of a folder with a sub-folder for each class."""

    NODE_NAME = "ImageFolderDataset"
    CATEGORY = "Data"
    DESCRIPTION = "Images from folders, a folder a class."
    DETAILS = "Without a wired transform the images become floats of the given size, normalized with mean 0.5 and std 0.5."
    cacheable = False

    @classmethod
    def inputs(cls, params=None):
        return [Port("transform", "TRANSFORM", optional=True)]

    @classmethod
    def outputs(cls, params=None):
        return [Port("dataset", "DATASET", "items (image, class)"), Port("classes", "LIST", "names of the classes")]

    @classmethod
    def params(cls):
        return [
            Param("root", "string", "", "The folder that holds the folders of the classes."),
            Param("resize", "int", 224, "Side of the square images in pixels; 0 keeps their size.", min_value=0),
            Param("mode", "select", "RGB", "Channels.", ["RGB", "L"]),
        ]

    def execute(self, inputs, params, context):
        need("PIL.Image", "pillow", "reading images")
        folder, side = files.find(params["root"], context, "root", folder=True), int(params["resize"])
        steps = [image_transforms.Resize(side, side)] if side else []
        transform = inputs.get("transform") or image_transforms.Compose([*steps, image_transforms.standard()])
        dataset = ImageFolder(folder, params["mode"], transform)
        if not len(dataset):
            raise ValueError(f"{folder} holds no images: it must have a folder for each class, with images ({', '.join(ImageFolder.SUFFIXES)}) in it")
        return {"dataset": dataset, "classes": dataset.classes, "__log__": f"{len(dataset)} images of {len(dataset.classes)} classes"}


NODES = [
    ColorJitter, ComposeTransform, ImageFolderDataset, NormalizeTransform, RandomCrop, RandomHorizontalFlip, RandomRotation,
    ResizeTransform, ToTensorTransform,
]
