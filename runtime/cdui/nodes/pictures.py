"""Utility: pictures of values, points and what a model decides.

A picture is a base64 PNG of 800 x 600 pixels.
"""

from __future__ import annotations

import math
from typing import Any, Mapping, Sequence

from cdui.node import Node, Param, Port
from cdui.nodes import charts, png

#: Images of a batch that one picture shows at most.
GRID_IMAGES = 64


def result(kind: str, title: Any, *parts: Any) -> dict[str, Any]:
    """The result of a node that draws one chart."""
    data, note = charts.draw(kind, str(title or ""), *parts)
    found: dict[str, Any] = {"image": png.text(data)}
    if note:
        found["__log__"] = note
    return found


class Visualize(Node):
    NODE_NAME = "Visualize"
    CATEGORY = "Utility"
    DESCRIPTION = "Draws values as a line, a histogram, a heat map or an image."
    DETAILS = ("line and histogram (50 bins) flatten their input; heatmap lays a 1-D input out as a square; "
               "image takes CHW, HWC, HW or a batch NCHW, shown as a grid.")
    align_inputs = False

    @classmethod
    def inputs(cls, params: Mapping[str, Any] | None = None) -> list[Port]:
        return [Port("data", "ANY", "a tensor, a number or lists of them")]

    @classmethod
    def outputs(cls, params: Mapping[str, Any] | None = None) -> list[Port]:
        return [Port("image", "STRING", "base64 PNG, 800 x 600", media="image")]

    @classmethod
    def params(cls) -> list[Param]:
        return [
            Param("title", "string", "", "title of the picture"),
            Param("plot_type", "select", "line", "how the values are drawn", options=("line", "histogram", "heatmap", "image")),
        ]

    def execute(self, inputs: dict[str, Any], params: dict[str, Any]) -> dict[str, Any]:
        values, kind = as_values(inputs["data"]), params["plot_type"]
        if kind == "line":
            return result(kind, params["title"], values.flatten().tolist())
        if kind == "histogram":
            finite = values.flatten()
            return result(kind, params["title"], finite[finite.isfinite()].tolist(), 50)
        if kind == "heatmap":
            return result(kind, params["title"], as_rows(values))
        if kind == "image":
            return result(kind, params["title"], as_pixels(values))
        raise ValueError(f"param 'plot_type' is {kind!r}; choose one of line, histogram, heatmap, image")


def as_values(data: Any) -> Any:
    """A CPU float tensor of what can be drawn."""
    import torch

    try:
        if isinstance(data, (list, tuple)) and any(isinstance(item, torch.Tensor) for item in data):
            data = torch.stack([torch.as_tensor(item).detach().cpu() for item in data])
        tensor = torch.as_tensor(data).detach().cpu()
    except (TypeError, ValueError, RuntimeError) as error:
        raise ValueError(f"a {type(data).__name__} can't be drawn ({error}); wire a tensor or numbers to 'data'") from None
    if not tensor.numel():
        raise ValueError("there are no values to draw; wire a tensor with values to 'data'")
    # Bytes of an image stay bytes, so that their range is known.
    return tensor if tensor.dtype == torch.uint8 else tensor.float()


def as_rows(values: Any) -> Any:
    """A 2-D float tensor: a 1-D one as a square padded with zeros, of more
    dimensions the first entry of the leading ones."""
    import torch

    values = values.float()
    while values.dim() > 2:
        values = values[0]
    if values.dim() == 2:
        return values
    flat = values.flatten()
    side = math.ceil(math.sqrt(len(flat)))
    return torch.nn.functional.pad(flat, (0, side * side - len(flat))).reshape(side, side)


def as_pixels(values: Any) -> Any:
    """uint8 pixels ``(H, W, 3)`` of one image or of a grid of images."""
    import torch

    images = values.reshape(-1, *values.shape[-3:]) if values.dim() > 4 else values
    if images.dim() < 2:
        images = as_rows(images)
    if images.dim() == 2:
        images = images[None, None]
    elif images.dim() == 3:
        if images.shape[0] in (1, 3, 4):
            images = images[None]
        elif images.shape[2] in (1, 3, 4):
            images = images.permute(2, 0, 1)[None]
        else:
            images = images[:, None]  # the maps of a layer, each as a grey image
    elif images.shape[1] not in (1, 3, 4):
        images = images.permute(0, 3, 1, 2) if images.shape[3] in (1, 3, 4) else images[:, :1]
    images = images[:GRID_IMAGES]
    if images.dtype == torch.uint8:
        shares = images.float() / 255
    else:
        shares = images.nan_to_num(0.0, 0.0, 0.0)
        low, high = shares.min(), shares.max()
        if low < 0 or high > 1:
            shares = (shares - low) / (high - low if high > low else 1)
    if shares.shape[1] == 4:
        shares = shares[:, :3] * shares[:, 3:] + (1 - shares[:, 3:])
    rgb = (shares * 255).round().to(torch.uint8).expand(-1, 3, -1, -1)
    return as_grid(rgb).permute(1, 2, 0)


def as_grid(images: Any) -> Any:
    """Lays images ``(N, C, H, W)`` out as one ``(C, H', W')``, near a square,
    with white lines of a pixel between them."""
    import torch

    number, channels, height, width = images.shape
    if number == 1:
        return images[0]
    columns = math.ceil(math.sqrt(number))
    rows = math.ceil(number / columns)
    grid = torch.full((channels, rows * (height + 1) - 1, columns * (width + 1) - 1), 255, dtype=images.dtype)
    for i, image in enumerate(images):
        top, left = i // columns * (height + 1), i % columns * (width + 1)
        grid[:, top:top + height, left:left + width] = image
    return grid


def as_points(points: Any, labels: Sequence[Any] | None, marked: Sequence[int] = ()) -> charts.Points:
    """Points ``(n, 2)`` with their labels; classes in sorted order."""
    points = points.detach().cpu().float()
    if points.dim() != 2 or points.shape[1] != 2:
        raise ValueError(f"the points have the shape {list(points.shape)}; wanted is (n, 2): select two columns before")
    if not points.isfinite().all():
        raise ValueError("the points hold values that are not finite; mend or drop those rows before")
    words = [str(label) for label in labels] if labels is not None else [""] * len(points)
    if len(words) != len(points):
        raise ValueError(f"there are {len(points)} points and {len(words)} labels; give one label for each point")
    names = sorted(set(words))
    return charts.Points(points[:, 0].tolist(), points[:, 1].tolist(), [names.index(w) for w in words], names, list(marked))


class ScatterPlot2D(Node):
    NODE_NAME = "ScatterPlot2D"
    CATEGORY = "Utility"
    DESCRIPTION = "Draws points in the plane, coloured by their labels."
    align_inputs = False

    @classmethod
    def inputs(cls, params: Mapping[str, Any] | None = None) -> list[Port]:
        return [Port("points", "TENSOR", "(n, 2)"), Port("labels", "LIST", "a label for each point", optional=True)]

    @classmethod
    def outputs(cls, params: Mapping[str, Any] | None = None) -> list[Port]:
        return [Port("image", "STRING", "base64 PNG, 800 x 600", media="image")]

    @classmethod
    def params(cls) -> list[Param]:
        return [Param("title", "string", "", "title of the picture")]

    def execute(self, inputs: dict[str, Any], params: dict[str, Any]) -> dict[str, Any]:
        return result("scatter", params["title"], as_points(inputs["points"], inputs.get("labels")))


class DecisionBoundary(Node):
    NODE_NAME = "DecisionBoundary"
    CATEGORY = "Utility"
    DESCRIPTION = "Draws which class a model gives to each place of the plane, with the training points."
    DETAILS = ("A torch model gives (n, classes) values, or (n, 1) where above 0 is the second class; classes stand in the "
               "sorted order of the labels. An object with a predict method gives labels.")
    align_inputs = False

    @classmethod
    def inputs(cls, params: Mapping[str, Any] | None = None) -> list[Port]:
        return [
            Port("model", "MODEL", "takes (n, 2)"),
            Port("x_train", "TENSOR", "(n, 2)"),
            Port("y_train", "LIST", "the label of each point"),
        ]

    @classmethod
    def outputs(cls, params: Mapping[str, Any] | None = None) -> list[Port]:
        return [Port("image", "STRING", "base64 PNG, 800 x 600", media="image")]

    @classmethod
    def params(cls) -> list[Param]:
        return [
            Param("grid_steps", "int", 200, "places at each side of the grid", min_value=20, max_value=500),
            Param("show_support_vectors", "bool", False, "rings around the support vectors of a model that has them"),
            Param("title", "string", "", "title of the picture"),
        ]

    def execute(self, inputs: dict[str, Any], params: dict[str, Any]) -> dict[str, Any]:
        import torch

        model, steps = inputs["model"], params["grid_steps"]
        marked = getattr(model, "support_", []) if params["show_support_vectors"] else []
        points = as_points(inputs["x_train"], inputs["y_train"], [int(i) for i in marked])
        x0, x1 = with_margin(points.xs)
        y0, y1 = with_margin(points.ys)
        ys, xs = torch.meshgrid(torch.linspace(y0, y1, steps), torch.linspace(x0, x1, steps), indexing="ij")
        places = torch.stack([xs.flatten(), ys.flatten()], dim=1)
        classes = predicted_classes(model, places, points.names).reshape(steps, steps)
        return result("regions", params["title"], classes, (x0, x1, y0, y1), points)


def with_margin(values: Sequence[float]) -> tuple[float, float]:
    low, high = min(values), max(values)
    margin = (high - low) * 0.1 or 0.5
    return low - margin, high + margin


def predicted_classes(model: Any, places: Any, names: Sequence[str]) -> Any:
    """The number of the class at each place, int64 ``(n,)``."""
    import torch

    if not isinstance(model, torch.nn.Module):
        if not hasattr(model, "predict"):
            raise ValueError(f"a {type(model).__name__} is no model that can be drawn; wire a torch model or one with predict")
        known = {name: i for i, name in enumerate(names)}
        found = [str(label) for label in model.predict(places.numpy())]
        return torch.tensor([known.setdefault(name, len(known)) for name in found])
    first = next(model.parameters(), None)
    training = model.training
    model.eval()
    try:
        with torch.no_grad():
            values = model(places if first is None else places.to(first)).cpu()
    finally:
        model.train(training)
    values = values.reshape(len(places), -1)
    return (values[:, 0] > 0).long() if values.shape[1] == 1 else values.argmax(dim=1)


NODES = [DecisionBoundary, ScatterPlot2D, Visualize]
