"""Utility nodes: shapes, printing and pictures."""
import base64
import struct
import sys
import zlib

import pytest

from cdui.node import Context, call, fill_params

torch = pytest.importorskip("torch")

from cdui.nodes import charts, pictures, plain_charts, png, utility  # noqa: E402


def run(node, inputs, **params):
    return call(node(), inputs, fill_params(node, params), lambda payload: None, Context())


X = torch.randn(2, 3, 4, generator=torch.Generator().manual_seed(1))


def test_shapes():
    """Proves B.5."""
    torch.testing.assert_close(run(utility.Concat, {"tensor_a": X, "tensor_b": X}, dim=1)["tensor"], torch.cat([X, X], 1))
    assert run(utility.Flatten, {"tensor": X})["tensor"].shape == (2, 12)
    assert run(utility.Flatten, {"tensor": X}, start_dim=0)["tensor"].shape == (24,)
    assert run(utility.Reshape, {"tensor": X}, shape="-1, 6")["tensor"].shape == (4, 6)
    with pytest.raises(ValueError, match=r"'shape' \(-1,784\) doesn't fit the 24 values of \[2, 3, 4\]"):
        run(utility.Reshape, {"tensor": X})


def test_linear():
    """Proves B.5."""
    torch.manual_seed(2)
    got = run(utility.Linear, {"tensor": X}, in_features=4, out_features=5)["tensor"]
    torch.manual_seed(2)
    torch.testing.assert_close(got, torch.nn.Linear(4, 5)(X))
    with pytest.raises(ValueError, match="param 'in_features' is 512; set it to 4"):
        run(utility.Linear, {"tensor": X})


def test_embedding():
    """Proves B.3."""
    ids = torch.tensor([[0, 2], [1, 2]])
    torch.manual_seed(2)
    got = run(utility.Embedding, {"tensor": ids.float()}, num_embeddings=3, embedding_dim=4, padding_idx=1)["tensor"]
    torch.manual_seed(2)
    torch.testing.assert_close(got, torch.nn.Embedding(3, 4, padding_idx=1)(ids))
    assert got[1, 0].tolist() == [0] * 4
    with pytest.raises(ValueError, match=r"the ids go from 0 to 2 and param 'num_embeddings' \(2\) allows 0 to 1"):
        run(utility.Embedding, {"tensor": ids}, num_embeddings=2)


def test_print():
    """Proves B.5."""
    value = {"a": [1, 2]}
    got = run(utility.Print, {"value": value}, label="what")
    assert got["value"] is value and got["__log__"] == "[what] {'a': [1, 2]}"
    assert run(utility.Print, {"value": 1.5})["__log__"] == "1.5"
    assert len(run(utility.Print, {"value": "x" * 50_000})["__log__"]) == utility.PRINT_CHARACTERS + 3


def decode(data):
    """Pixels of a PNG that png.encode or matplotlib wrote: its size and rows, where unfiltered."""
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    place, parts = 8, {}
    while place < len(data):
        size, kind = struct.unpack(">I4s", data[place:place + 8])
        body = data[place + 8:place + 8 + size]
        assert struct.unpack(">I", data[place + 8 + size:place + 12 + size])[0] == zlib.crc32(kind + body)
        parts[kind] = parts.get(kind, b"") + body
        place += 12 + size
    width, height, depth, colour = struct.unpack(">IIBB", parts[b"IHDR"][:10])
    return width, height, depth, colour, zlib.decompress(parts[b"IDAT"])


@pytest.mark.parametrize("channels, colour", [(1, 0), (3, 2), (4, 6)])
def test_png(channels, colour):
    pixels = torch.arange(2 * 5 * channels, dtype=torch.uint8).reshape(2, 5, channels)
    width, height, depth, found, raw = decode(png.encode(pixels))
    assert (width, height, depth, found) == (5, 2, 8, colour)
    row = 5 * channels
    assert raw == b"\0" + bytes(range(row)) + b"\0" + bytes(range(row, 2 * row))


@pytest.fixture(params=["plain", "matplotlib"])
def drawer(request, monkeypatch):
    """Draws without matplotlib, and with it where it is installed."""
    if request.param == "plain":
        monkeypatch.setitem(sys.modules, "matplotlib", None)
    else:
        pytest.importorskip("matplotlib")
    return request.param


def picture(got, drawer):
    assert ("matplotlib" in got.get("__log__", "")) == (drawer == "plain")
    width, height, *_ = decode(base64.b64decode(got["image"], validate=True))
    assert (width, height) == (800, 600)
    return got["image"]


@pytest.mark.parametrize("kind, data", [
    ("line", [3, 1.5, float("nan"), 2]), ("line", torch.tensor(7)), ("line", X.requires_grad_(False)),
    ("line", [torch.tensor(1.0), torch.tensor(2.0)]), ("line", [float("inf"), float("nan")]), ("line", torch.rand(300)),
    ("histogram", X), ("histogram", torch.ones(5)), ("histogram", [1e30, -1e30]),
    ("heatmap", torch.arange(10)), ("heatmap", X[0]), ("heatmap", torch.full((2, 2), float("nan"))),
    ("image", torch.rand(3, 8, 9)), ("image", torch.rand(8, 9, 3)), ("image", torch.rand(8, 9)), ("image", torch.rand(70, 1, 4, 4)),
    ("image", torch.rand(2, 5, 5, 4)), ("image", torch.randint(0, 255, (4, 6, 3), dtype=torch.uint8)), ("image", torch.rand(32, 6, 6)),
])
def test_visualize_draws(drawer, kind, data):
    """Proves B.5."""
    picture(run(pictures.Visualize, {"data": data}, plot_type=kind, title="a $ in a title"), drawer)


@pytest.mark.parametrize("data, text", [("loss", "a str can't be drawn"), ([], "there are no values"), ({"a": 1}, "a dict can't be drawn")])
def test_visualize_refuses(data, text):
    with pytest.raises(ValueError, match=text):
        run(pictures.Visualize, {"data": data})


def test_rows_of_a_heatmap():
    """Proves B.5."""
    assert pictures.as_rows(torch.arange(5)).tolist() == [[0, 1, 2], [3, 4, 0], [0, 0, 0]]
    assert pictures.as_rows(X.reshape(2, 1, 3, 4)).shape == (3, 4)


def test_pixels_of_an_image():
    """Proves B.5."""
    chw = torch.rand(3, 2, 5)
    torch.testing.assert_close(pictures.as_pixels(chw), pictures.as_pixels(chw.permute(1, 2, 0)))
    assert pictures.as_pixels(torch.tensor([[0.0, 0.5, 1.0]]))[0].tolist() == [[0] * 3, [128] * 3, [255] * 3]
    # Values outside of 0 to 1 are spread over it.
    assert pictures.as_pixels(torch.tensor([[-2.0, 0.0, 2.0]]))[0].tolist() == [[0] * 3, [128] * 3, [255] * 3]
    # Five images of 4 x 4 stand in three columns and two rows, with lines of a pixel between them.
    assert pictures.as_pixels(torch.rand(5, 1, 4, 4)).shape == (9, 14, 3)


def test_scatter(drawer):
    points = torch.randn(20, 2)
    one = picture(run(pictures.ScatterPlot2D, {"points": points, "labels": [i % 3 for i in range(20)]}), drawer)
    assert one != picture(run(pictures.ScatterPlot2D, {"points": points}), drawer)


@pytest.mark.parametrize("points, labels, text", [
    (torch.zeros(3, 4), None, r"shape \[3, 4\]; wanted is \(n, 2\)"),
    (torch.zeros(3, 2), ["a"], "3 points and 1 labels"),
    (torch.full((1, 2), float("nan")), None, "not finite"),
])
def test_scatter_refuses(points, labels, text):
    with pytest.raises(ValueError, match=text):
        run(pictures.ScatterPlot2D, {"points": points, "labels": labels})


def test_decision_boundary(drawer):
    points = torch.tensor([[0.0, 0.0], [1.0, 1.0], [2.0, 0.0]])
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Dropout())
    got = run(pictures.DecisionBoundary, {"model": model, "x_train": points, "y_train": ["b", "a", "b"]}, grid_steps=20)
    picture(got, drawer)
    assert model.training


def test_decision_boundary_of_a_model_that_predicts(drawer):
    svm = pytest.importorskip("sklearn.svm")
    points = torch.tensor([[0.0, 0.0], [1.0, 1.0], [2.0, 0.0], [2.0, 2.0]])
    model = svm.SVC().fit(points.numpy(), ["b", "a", "b", "a"])
    ask = {"model": model, "x_train": points, "y_train": ["b", "a", "b", "a"]}
    plain = picture(run(pictures.DecisionBoundary, ask, grid_steps=20), drawer)
    assert plain != picture(run(pictures.DecisionBoundary, ask, grid_steps=20, show_support_vectors=True), drawer)


def test_classes_of_a_model():
    places = torch.tensor([[-1.0, 0.0], [2.0, 0.0]])

    class Column(torch.nn.Module):
        def forward(self, x):
            return x[:, :1]

    class Names:
        def predict(self, x):
            return ["b" if row[0] > 0 else "new" for row in x]

    assert pictures.predicted_classes(Column(), places, ["a", "b"]).tolist() == [0, 1]
    assert pictures.predicted_classes(Names(), places, ["a", "b"]).tolist() == [2, 1]
    with pytest.raises(ValueError, match="a str is no model"):
        pictures.predicted_classes("model", places, ["a"])


@pytest.mark.parametrize("low, high", [(0, 1), (-3.2, 8), (1e-9, 2e-9), (0, 1e12), (5, -5), (0, 16.1), (0.001, 1.01)])
def test_ticks_are_few_and_lie_within(low, high):
    ticks = plain_charts._ticks(low, high)
    assert 3 <= len(ticks) <= 9
    assert all(min(low, high) <= t <= max(low, high) + abs(high) * 1e-12 for t in ticks)


def test_a_point_lies_where_its_numbers_say():
    points = charts.Points([0.0, 10.0], [0.0, 10.0], [0, 1], ["a", "b"])
    canvas = plain_charts._scatter(charts.COLOURS, points)
    left, top, right, bottom = plain_charts.FRAME
    orange = (canvas.pixels == torch.tensor(charts.COLOURS[1], dtype=torch.uint8)).all(-1).nonzero().float().mean(0)
    assert orange[0] == pytest.approx(top + (bottom - top) * 0.04 / 1.08, abs=1.5)
    assert orange[1] == pytest.approx(right - (right - left) * 0.04 / 1.08, abs=1.5)
