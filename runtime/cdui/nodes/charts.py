"""Draws charts of 800 x 600 pixels as PNG bytes.

matplotlib draws them where it is installed. Elsewhere plain_charts does, with
numbers at the axes but without titles: a long training must not fail at the
picture of its losses.
"""

from __future__ import annotations

import io
from typing import Any, Callable, NamedTuple, Sequence

from cdui.nodes import plain_charts

#: Colours of classes, in turn.
COLOURS = ((31, 119, 180), (255, 127, 14), (44, 160, 44), (214, 39, 40), (148, 103, 189),
           (140, 86, 75), (227, 119, 194), (127, 127, 127), (188, 189, 34), (23, 190, 207))

PLAIN_NOTE = "drawn without title and legend; install matplotlib into the interpreter for full charts"


class Points(NamedTuple):
    """Points of a scatter: their places, the class of each, the classes' names."""

    xs: Sequence[float]
    ys: Sequence[float]
    groups: Sequence[int]
    names: Sequence[str]
    marked: Sequence[int] = ()


def draw(kind: str, title: str, *parts: Any) -> tuple[bytes, str]:
    """The PNG of a chart and a note about it ("" as a rule).

    kind and parts: ``line`` values; ``histogram`` values and number of bins;
    ``heatmap`` rows (a 2-D tensor); ``image`` pixels (H, W, 3) uint8;
    ``scatter`` Points; ``regions`` a 2-D tensor of classes from the bottom
    row up, its extent (x0, x1, y0, y1), and Points.
    """
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        return plain_charts.draw(kind, COLOURS, *parts), PLAIN_NOTE
    return _with_matplotlib(DRAWERS[kind], title, *parts), ""


def _with_matplotlib(drawer: Callable[..., None], title: str, *parts: Any) -> bytes:
    # The Figure is used by itself: pyplot keeps global state, and nodes of one
    # level draw at the same time.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 6), dpi=100)
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    drawer(axes, *parts)
    if title:
        # Titles are text: a dollar sign must not start mathematics.
        axes.set_title(title.replace("$", r"\$"))
    out = io.BytesIO()
    figure.savefig(out, format="png", metadata={"Software": None})
    return out.getvalue()


def _line(axes: Any, values: Sequence[float]) -> None:
    axes.plot(range(len(values)), values, marker="o" if len(values) <= 50 else None, markersize=4)
    axes.grid(True, alpha=0.3)


def _histogram(axes: Any, values: Sequence[float], bins: int) -> None:
    axes.hist(values, bins=bins)


def _heatmap(axes: Any, rows: Any) -> None:
    axes.figure.colorbar(axes.imshow(rows.tolist(), aspect="auto", cmap="viridis"), ax=axes)


def _image(axes: Any, pixels: Any) -> None:
    axes.imshow(pixels.tolist(), interpolation="nearest")
    axes.set_axis_off()


def _scatter(axes: Any, points: Points) -> None:
    for group, name in enumerate(points.names):
        chosen = [i for i, g in enumerate(points.groups) if g == group]
        colour = [c / 255 for c in COLOURS[group % len(COLOURS)]]
        axes.scatter([points.xs[i] for i in chosen], [points.ys[i] for i in chosen],
                     color=[colour], edgecolors="black", linewidths=0.5, s=30, label=name)
    if points.marked:
        axes.scatter([points.xs[i] for i in points.marked], [points.ys[i] for i in points.marked],
                     facecolors="none", edgecolors="black", s=120, label="support vectors")
    if 1 < len(points.names) <= 20 or points.marked:
        axes.legend()
    axes.grid(True, alpha=0.3)


def _regions(axes: Any, classes: Any, extent: Sequence[float], points: Points) -> None:
    palette = [COLOURS[i % len(COLOURS)] for i in range(int(classes.max()) + 1)]
    rows = [[palette[c] for c in row] for row in classes.tolist()]
    axes.imshow(rows, extent=extent, origin="lower", aspect="auto", alpha=0.35)
    _scatter(axes, points)
    axes.set_xlim(extent[0], extent[1])
    axes.set_ylim(extent[2], extent[3])


DRAWERS: dict[str, Callable[..., None]] = {
    "line": _line, "histogram": _histogram, "heatmap": _heatmap,
    "image": _image, "scatter": _scatter, "regions": _regions,
}
