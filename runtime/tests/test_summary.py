"""What the log shows of values."""
import json
import math

import pytest

from cdui.node import Port
from cdui.outputs import plain_output
from cdui.summary import MAX_STRING, output_entries, summarize

INF = float("inf")


class Sulky:
    def __repr__(self):
        raise RuntimeError("no")


@pytest.mark.parametrize("value, shown", [
    (None, {"type": "scalar", "value": None}),
    (True, {"type": "scalar", "value": True}),
    (3, {"type": "scalar", "value": 3}),
    (0.123456, {"type": "scalar", "value": 0.123456}),
    (math.nan, {"type": "scalar", "value": None}),
    ("x" * 300, {"type": "string", "value": "x" * MAX_STRING}),
    ([1, "a", None], {"type": "list", "length": 3, "repr": "[1, 'a', None]", "values": [1, "a", None]}),
    ([("a", 1.5), ("b", INF)], {"type": "list", "length": 2, "repr": "[('a', 1.5), ('b', inf)]", "values": [["a", 1.5], ["b", None]]}),
    ([[1, 2, 3]], {"type": "list", "length": 1, "repr": "[[1, 2, 3]]"}),
    ({"a": 1}, {"type": "dict", "repr": "{'a': 1}"}),
    (Sulky(), {"type": "Sulky", "repr": "<Sulky whose repr raised RuntimeError>"}),
])
def test_plain_values(value, shown):
    """Proves D.4."""
    assert summarize(value) == shown


def test_long_lists_show_their_front_only():
    """Proves D.4."""
    shown = summarize(list(range(257)))
    assert shown["length"] == 257 and "values" not in shown
    assert len(shown["repr"]) == MAX_STRING and shown["repr"].startswith("[0, 1, 2") and shown["repr"].endswith("...")
    assert len(summarize(list(range(256)))["values"]) == 256


def test_a_path_below_models_can_be_downloaded(tmp_path):
    """Proves D.4."""
    models = tmp_path / "models"
    models.mkdir()
    assert summarize(str(models / "a" / "b.pt"), str(models))["download_path"] == "a/b.pt"
    for other in (str(tmp_path / "b.pt"), str(models / ".." / "b.pt"), "models/b.pt", str(models)):
        assert "download_path" not in summarize(other, str(models))


def test_numbers_of_numpy_are_numbers():
    numpy = pytest.importorskip("numpy")
    assert summarize(numpy.float32(0.5)) == {"type": "scalar", "value": 0.5}
    assert summarize([numpy.int64(1), numpy.str_("a")])["values"] == [1, "a"]


class TestTensors:
    torch = None

    @pytest.fixture(autouse=True)
    def with_torch(self):
        self.torch = pytest.importorskip("torch")

    def test_a_small_one_shows_its_values(self):
        """Proves D.4."""
        shown = summarize(self.torch.tensor([[1.0, 2.00004], [3.0, math.nan]]))
        assert list(shown) == ["type", "shape", "dtype", "min", "max", "mean", "values"]
        assert shown == {"type": "tensor", "shape": [2, 2], "dtype": "float32", "min": None, "max": None, "mean": None,
                         "values": [[1.0, 2.0], [3.0, None]]}

    def test_a_large_one_shows_numbers_about_it(self):
        """Proves D.4."""
        shown = summarize(self.torch.arange(257.0, requires_grad=True))
        assert shown == {"type": "tensor", "shape": [257], "dtype": "float32", "min": 0.0, "max": 256.0, "mean": 128.0}

    def test_each_kind_of_tensor_has_a_summary(self):
        torch = self.torch
        for tensor in (
            torch.zeros(2, dtype=torch.bool), torch.tensor(3, dtype=torch.int8), torch.ones(2, dtype=torch.float16),
            torch.ones(2, dtype=torch.bfloat16), torch.zeros(0), torch.zeros(2, dtype=torch.complex64), torch.eye(2).to_sparse(),
            torch.empty(2, device="meta"), torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.quint8), torch.tensor(INF),
        ):
            shown = summarize(tensor)
            assert shown["type"] == "tensor" and shown["shape"] == list(tensor.shape), tensor
            json.dumps(shown, allow_nan=False)
        assert summarize(torch.tensor([True, False]))["mean"] == 0.5
        assert summarize(torch.tensor(7))["values"] == 7

    def test_a_model_shows_its_size(self):
        """Proves D.4."""
        nn = self.torch.nn
        model = nn.Sequential(nn.Linear(2, 3), nn.LazyLinear(4))
        model[0].bias.requires_grad_(False)
        assert summarize(model) == {"type": "model", "class": "Sequential", "params": 9, "trainable": 6}


def test_entries_are_text_then_media_then_a_summary():
    """Proves D.4."""
    ports = [Port("n", "SCALAR"), Port("image", "STRING", media="image")]
    entries = output_entries(ports, {"n": 1, "image": "abc"}, "said", "")
    assert [e["output_kind"] for e in entries] == ["text", "image", "tensor_summary"]
    assert list(entries[2]["tensor_summary"]) == ["n"]
    assert output_entries(ports, {"image": None}, "", "") == []


class TestPlainOutput:
    @pytest.mark.parametrize("value, plain", [
        ({"a": [1, (2.5, None)], 3: math.inf}, {"a": [1, [2.5, None]], "3": None}),
        ("text", "text"),
        (True, True),
    ])
    def test_plain_values_go_as_they_are(self, value, plain):
        assert plain_output(value, 100) == plain

    def test_tensors_become_lists(self):
        torch = pytest.importorskip("torch")
        assert plain_output({"x": torch.ones(2, 1, requires_grad=True)}, 2) == {"x": [[1.0], [1.0]]}
        with pytest.raises(OverflowError, match="more than 2 elements"):
            plain_output(torch.ones(3), 2)

    def test_elements_count_in_all(self):
        """Proves D.6."""
        assert plain_output([[1, 2], [3]], 3) == [[1, 2], [3]]
        with pytest.raises(OverflowError):
            plain_output([[1, 2], [3]], 2)

    def test_what_json_does_not_hold_is_named(self):
        endless = []
        endless.append(endless)
        for value, words in ((object(), "a object has no JSON form"), ([b"x"], "a bytes has"), (endless, "nested too deep")):
            with pytest.raises(TypeError, match=words):
                plain_output(value, 100)
