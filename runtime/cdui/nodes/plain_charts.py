"""Draws charts with torch and the standard library alone: see charts."""

from __future__ import annotations

import math
from typing import Any, Sequence

from cdui.nodes import png

WIDTH, HEIGHT = 800, 600
#: The frame that data lies in: left, top, right, bottom.
FRAME = (90, 30, 770, 540)
BLACK, GREY, BLUE = (0, 0, 0), (225, 225, 225), (31, 119, 180)

#: Digits of 3 x 5 dots: a number for each row, its bits from left to right.
GLYPHS = {
    "0": (7, 5, 5, 5, 7), "1": (2, 6, 2, 2, 7), "2": (7, 1, 7, 4, 7), "3": (7, 1, 7, 1, 7), "4": (5, 5, 7, 1, 1),
    "5": (7, 4, 7, 1, 7), "6": (7, 4, 7, 5, 7), "7": (7, 1, 1, 1, 1), "8": (7, 5, 7, 5, 7), "9": (7, 5, 7, 1, 7),
    "-": (0, 0, 7, 0, 0), ".": (0, 0, 0, 0, 2), "+": (0, 2, 7, 2, 0), "e": (0, 7, 7, 4, 7),
}
DOT = 3


class Canvas:
    """Pixels of a chart and the mapping of data to them."""

    def __init__(self, xs: Sequence[float], ys: Sequence[float]) -> None:
        import torch

        self.pixels = torch.full((HEIGHT, WIDTH, 3), 255, dtype=torch.uint8)
        self.x0, self.x1 = _span(xs)
        self.y0, self.y1 = _span(ys)

    def column(self, x: float) -> int:
        return round(FRAME[0] + (x - self.x0) / (self.x1 - self.x0) * (FRAME[2] - FRAME[0]))

    def row(self, y: float) -> int:
        return round(FRAME[3] - (y - self.y0) / (self.y1 - self.y0) * (FRAME[3] - FRAME[1]))

    def box(self, left: int, top: int, right: int, bottom: int, colour: Sequence[int]) -> None:
        """Fills a rectangle; the parts outside of the canvas are left out."""
        import torch

        area = self.pixels[max(top, 0):max(bottom, 0), max(left, 0):max(right, 0)]
        area[:] = torch.tensor(colour, dtype=torch.uint8)

    def axes(self, grid: bool) -> None:
        """The frame and the numbers beside it."""
        left, top, right, bottom = FRAME
        for x in _ticks(self.x0, self.x1):
            at = self.column(x)
            if grid:
                self.box(at, top, at + 1, bottom, GREY)
            self.box(at, bottom, at + 2, bottom + 7, BLACK)
            self.number(x, centre=at, top=bottom + 14)
        for y in _ticks(self.y0, self.y1):
            at = self.row(y)
            if grid:
                self.box(left, at, right, at + 1, GREY)
            self.box(left - 7, at, left, at + 2, BLACK)
            self.number(y, right=left - 12, top=at - 7)
        self.box(left, top, right, top + 1, BLACK)
        self.box(left, bottom, right + 1, bottom + 1, BLACK)
        self.box(left, top, left + 1, bottom, BLACK)
        self.box(right, top, right + 1, bottom, BLACK)

    def number(self, value: float, top: int, centre: int | None = None, right: int | None = None) -> None:
        text = f"{value:.4g}"
        width = len(text) * 4 * DOT
        left = centre - width // 2 if centre is not None else (right or 0) - width
        for place, letter in enumerate(text):
            for row, bits in enumerate(GLYPHS.get(letter, ())):
                for column in range(3):
                    if bits >> (2 - column) & 1:
                        x, y = left + (place * 4 + column) * DOT, top + row * DOT
                        self.box(x, y, x + DOT, y + DOT, BLACK)

    def stroke(self, x0: int, y0: int, x1: int, y1: int, colour: Sequence[int]) -> None:
        """A line two pixels wide."""
        import torch

        steps = max(abs(x1 - x0), abs(y1 - y0)) + 1
        columns = torch.linspace(x0, x1, steps).round().long()
        rows = torch.linspace(y0, y1, steps).round().long()
        for right, down in ((0, 0), (1, 0), (0, 1), (1, 1)):
            self.pixels[(rows + down).clamp(0, HEIGHT - 1), (columns + right).clamp(0, WIDTH - 1)] = torch.tensor(
                colour, dtype=torch.uint8)

    def dot(self, x: float, y: float, radius: int, colour: Sequence[int]) -> None:
        for down in range(-radius, radius + 1):
            half = int(math.sqrt(radius * radius - down * down))
            self.box(self.column(x) - half, self.row(y) + down, self.column(x) + half + 1, self.row(y) + down + 1, colour)


def draw(kind: str, colours: Sequence[Sequence[int]], *parts: Any) -> bytes:
    """The PNG of a chart; kind and parts as charts.draw has them."""
    drawer = {"line": _line, "histogram": _histogram, "heatmap": _heatmap, "image": _image}.get(kind)
    if drawer:
        return png.encode(drawer(*parts).pixels)
    return png.encode({"scatter": _scatter, "regions": _regions}[kind](colours, *parts).pixels)


def _line(values: Sequence[float]) -> Canvas:
    known = [v for v in values if math.isfinite(v)]
    canvas = Canvas(range(len(values)), known)
    canvas.axes(grid=True)
    places = [(canvas.column(x), canvas.row(y)) if math.isfinite(y) else None for x, y in enumerate(values)]
    for one, other in zip(places, places[1:]):
        if one and other:
            canvas.stroke(*one, *other, BLUE)
    if len(values) <= 50:
        for x, y in enumerate(values):
            if math.isfinite(y):
                canvas.dot(x, y, 4, BLUE)
    return canvas


def _histogram(values: Sequence[float], bins: int) -> Canvas:
    import torch

    known = torch.tensor([v for v in values if math.isfinite(v)], dtype=torch.float64)
    low, high = _span(known.tolist(), room=0.0)
    places = ((known - low) / (high - low) * bins).long().clamp(0, bins - 1)
    counts = torch.bincount(places, minlength=bins).tolist()
    canvas = Canvas([low, high], [0, max(counts) or 1])
    canvas.y0 = 0.0
    canvas.axes(grid=False)
    step = (high - low) / bins
    for i, number in enumerate(counts):
        left, right = canvas.column(low + i * step), canvas.column(low + (i + 1) * step)
        canvas.box(left, canvas.row(number), max(right - 1, left + 1), FRAME[3], BLUE)
    return canvas


def _heatmap(rows: Any) -> Canvas:
    import torch

    height, width = rows.shape
    canvas = Canvas([0, width - 1], [0, height - 1])
    canvas.x0, canvas.x1, canvas.y0, canvas.y1 = -0.5, width - 0.5, height - 0.5, -0.5
    known = rows[rows.isfinite()]
    low, high = (known.min(), known.max()) if known.numel() else (rows.new_zeros(()), rows.new_ones(()))
    share = ((rows - low) / (high - low if high > low else 1)).nan_to_num(0.0, 1.0, 0.0).clamp(0, 1).unsqueeze(-1)
    # From dark violet over teal to yellow.
    dark, middle, light = (torch.tensor(c, dtype=rows.dtype) for c in ((68, 1, 84), (33, 145, 140), (253, 231, 37)))
    colours = torch.where(share < 0.5, dark + (middle - dark) * share * 2, middle + (light - middle) * (share * 2 - 1))
    _place(canvas, colours.round().to(torch.uint8), FRAME)
    canvas.axes(grid=False)
    return canvas


def _image(pixels: Any) -> Canvas:
    height, width, _ = pixels.shape
    scale = min((WIDTH - 20) / width, (HEIGHT - 20) / height)
    wide, high = max(1, round(width * scale)), max(1, round(height * scale))
    canvas = Canvas([0, 1], [0, 1])
    left, top = (WIDTH - wide) // 2, (HEIGHT - high) // 2
    _place(canvas, pixels, (left, top, left + wide, top + high))
    return canvas


def _scatter(colours: Sequence[Sequence[int]], points: Any) -> Canvas:
    canvas = Canvas(points.xs, points.ys)
    canvas.axes(grid=True)
    _dots(canvas, colours, points)
    return canvas


def _regions(colours: Sequence[Sequence[int]], classes: Any, extent: Sequence[float], points: Any) -> Canvas:
    import torch

    canvas = Canvas(extent[:2], extent[2:])
    canvas.x0, canvas.x1, canvas.y0, canvas.y1 = extent
    palette = torch.tensor([colours[i % len(colours)] for i in range(int(classes.max()) + 1)], dtype=torch.float32)
    light = (palette * 0.35 + 255 * 0.65).to(torch.uint8)
    _place(canvas, light[classes.flip(0).long()], FRAME)
    canvas.axes(grid=False)
    _dots(canvas, colours, points)
    return canvas


def _dots(canvas: Canvas, colours: Sequence[Sequence[int]], points: Any) -> None:
    for i in points.marked:
        canvas.dot(points.xs[i], points.ys[i], 8, BLACK)
    for x, y, group in zip(points.xs, points.ys, points.groups):
        canvas.dot(x, y, 5, BLACK)
        canvas.dot(x, y, 4, colours[group % len(colours)])


def _place(canvas: Canvas, pixels: Any, frame: Sequence[int]) -> None:
    """Copies pixels into a frame, each as a block of the nearest."""
    import torch

    left, top, right, bottom = frame
    rows = torch.arange(bottom - top) * pixels.shape[0] // (bottom - top)
    columns = torch.arange(right - left) * pixels.shape[1] // (right - left)
    canvas.pixels[top:bottom, left:right] = pixels[rows][:, columns]


def _span(values: Sequence[float], room: float = 0.04) -> tuple[float, float]:
    """The range of the values with some room at both ends, never empty."""
    low, high = (min(values), max(values)) if len(values) else (0.0, 1.0)
    if high <= low:
        low, high = low - 0.5, high + 0.5
    return low - (high - low) * room, high + (high - low) * room


def _ticks(low: float, high: float) -> list[float]:
    """Three to nine round numbers from low to high."""
    low, high = min(low, high), max(low, high)
    rough = (high - low) / 8
    power = 10.0 ** math.floor(math.log10(rough))
    step = next((m * power for m in (1, 2, 5) if m * power >= rough), 10 * power)
    return [i * step for i in range(math.ceil(low / step), math.floor(high / step) + 1)]
