"""IO: reading and writing pictures.

A picture is a float tensor ``(C, H, W)`` with values from 0 to 1. Pillow reads
all forms and writes those other than PNG.
"""

from __future__ import annotations

import fnmatch
import os
from typing import Any, Mapping

from cdui.node import Node, Param, Port, need
from cdui.nodes import files, png

MODES = ("RGB", "L", "RGBA")
SUFFIXES = {"PNG": (".png",), "JPEG": (".jpg", ".jpeg"), "BMP": (".bmp",), "TIFF": (".tif", ".tiff")}
FOLDER = "images"


def read(source: Any, mode: str, resize: int) -> Any:
    """The picture in a file (a path or a file object), ``(C, H, W)`` float32;
    ``resize`` is the side of the square that it is scaled to, 0 for none."""
    import torch

    if mode not in MODES:
        raise ValueError(f"param 'mode' is {mode!r}; choose one of {', '.join(MODES)}")
    pillow = need("PIL.Image", "Pillow (python3-pil)", "reading images")
    try:
        with pillow.open(source) as opened:
            picture = opened.convert(mode)
    except pillow.UnidentifiedImageError:
        raise ValueError(f"{source} is no image that Pillow can read; give a PNG, JPEG, BMP, TIFF or the like") from None
    if resize:
        picture = picture.resize((resize, resize), pillow.BILINEAR)
    flat = torch.frombuffer(bytearray(picture.tobytes()), dtype=torch.uint8)
    return flat.reshape(picture.height, picture.width, len(mode)).permute(2, 0, 1).float() / 255


def to_pixels(image: Any) -> Any:
    """uint8 ``(H, W, C)`` of a picture: ``(C, H, W)``, ``(H, W, C)``, ``(H, W)``
    or a batch of one; floats from 0 to 1 (others are cut off), or bytes."""
    import torch

    image = image.detach().cpu()
    while image.dim() > 3 and image.shape[0] == 1:
        image = image[0]
    if image.dim() == 2:
        image = image[None]
    if image.dim() != 3 or not {image.shape[0], image.shape[2]} & {1, 3, 4}:
        raise ValueError(f"the image has the shape {list(image.shape)}; wanted is (C, H, W) with 1, 3 or 4 channels")
    if image.shape[0] in (1, 3, 4):
        image = image.permute(1, 2, 0)
    if image.dtype != torch.uint8:
        image = (image.float().nan_to_num(0.0).clamp(0, 1) * 255).round().to(torch.uint8)
    return image.contiguous()


class ImageReader(Node):
    NODE_NAME = "ImageReader"
    CATEGORY = "IO"
    DESCRIPTION = "Reads a picture. A relative path is tried in images/ of the data folder, then in the search folders."

    @classmethod
    def outputs(cls, params: Mapping[str, Any] | None = None) -> list[Port]:
        return [
            Port("image", "IMAGE", "(C, H, W), 0 to 1"),
            Port("tensor", "TENSOR", "the same as a batch of one, (1, C, H, W)"),
        ]

    @classmethod
    def params(cls) -> list[Param]:
        return [
            Param("path", "image_file", "", "the file"),
            Param("mode", "select", "RGB", "channels: 3, 1 (grey) or 4", options=MODES),
            Param("resize", "int", 0, "side in pixels of the square that it is scaled to; 0 keeps its size", min_value=0),
        ]

    def execute(self, inputs: dict[str, Any], params: dict[str, Any], context: Any) -> dict[str, Any]:
        path = files.find(params["path"], context, own=FOLDER)
        image = read(path, params["mode"], params["resize"]).to(context.device)
        return {"image": image, "tensor": image.unsqueeze(0)}


class ImageBatchReader(Node):
    NODE_NAME = "ImageBatchReader"
    CATEGORY = "IO"
    DESCRIPTION = "Reads the pictures of a folder in the order of their names, all scaled to one square."

    @classmethod
    def outputs(cls, params: Mapping[str, Any] | None = None) -> list[Port]:
        return [Port("images", "TENSOR", "(N, C, resize, resize), 0 to 1"), Port("count", "SCALAR", "number of pictures N")]

    @classmethod
    def params(cls) -> list[Param]:
        return [
            Param("directory", "string", "", "the folder"),
            Param("pattern", "string", "*.png", "which names are read"),
            Param("resize", "int", 224, "side of the square in pixels", min_value=1),
            Param("max_images", "int", 0, "how many are read at most; 0 for all", min_value=0),
            Param("mode", "select", "RGB", "channels: 3, 1 (grey) or 4", options=MODES),
        ]

    def execute(self, inputs: dict[str, Any], params: dict[str, Any], context: Any) -> dict[str, Any]:
        import torch

        folder = files.find(params["directory"], context, "directory", folder=True, own=FOLDER)
        chosen = sorted(n for n in fnmatch.filter(os.listdir(folder), params["pattern"]) if os.path.isfile(os.path.join(folder, n)))
        if not chosen:
            raise FileNotFoundError(f"no file in {folder} is named like {params['pattern']}; change param 'pattern' or 'directory'")
        chosen = chosen[:params["max_images"] or None]
        pictures = [read(os.path.join(folder, name), params["mode"], params["resize"]) for name in chosen]
        return {"images": torch.stack(pictures).to(context.device), "count": len(pictures)}


class ImageWriter(Node):
    NODE_NAME = "ImageWriter"
    CATEGORY = "IO"
    DESCRIPTION = "Writes a picture under images/ of the data folder; the format settles the suffix."
    cacheable = False
    align_inputs = False

    @classmethod
    def inputs(cls, params: Mapping[str, Any] | None = None) -> list[Port]:
        return [Port("image", "IMAGE", "(C, H, W) with 1, 3 or 4 channels, 0 to 1; uint8 as it is")]

    @classmethod
    def outputs(cls, params: Mapping[str, Any] | None = None) -> list[Port]:
        return [Port("path", "STRING", "absolute path of the file")]

    @classmethod
    def params(cls) -> list[Param]:
        return [
            Param("path", "string", "output.png", "the file, relative to images/"),
            Param("format", "select", "PNG", "form of the file", options=tuple(SUFFIXES)),
        ]

    def execute(self, inputs: dict[str, Any], params: dict[str, Any], context: Any) -> dict[str, Any]:
        path, form = str(params["path"]), params["format"]
        if form not in SUFFIXES:
            raise ValueError(f"param 'format' is {form!r}; choose one of {', '.join(SUFFIXES)}")
        if os.path.basename(path) and not path.lower().endswith(SUFFIXES[form]):
            path = os.path.splitext(path)[0] + SUFFIXES[form][0]
        pixels = to_pixels(inputs["image"])
        place = files.target(path, context, FOLDER)
        with files.replacing(place) as temporary:
            if form == "PNG":
                with open(temporary, "wb") as out:
                    out.write(png.encode(pixels))
            else:
                write_with_pillow(pixels, temporary, form)
        context.log_artifact("image", place, {"format": form, "width": pixels.shape[1], "height": pixels.shape[0]})
        return {"path": place}


def write_with_pillow(pixels: Any, path: str, form: str) -> None:
    pillow = need("PIL.Image", "Pillow (python3-pil)", f"writing {form}; format PNG needs no package")
    height, width, channels = pixels.shape
    if form == "JPEG" and channels == 4:
        pixels, channels = pixels[:, :, :3].contiguous(), 3  # JPEG knows no transparency
    mode = {1: "L", 3: "RGB", 4: "RGBA"}[channels]
    pillow.frombytes(mode, (width, height), bytes(pixels.reshape(-1).tolist())).save(path, format=form)


NODES = [ImageBatchReader, ImageReader, ImageWriter]
