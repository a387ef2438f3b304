"""Tensor Operations against plain torch."""
import pytest

from cdui.node import Context, call, fill_params

torch = pytest.importorskip("torch")

from cdui.nodes import control, parsing, tensor_operations as ops  # noqa: E402


def run(node, inputs=None, **params):
    return call(node(), inputs or {}, fill_params(node, params), lambda payload: None, Context())


def result(node, inputs=None, **params):
    return run(node, inputs, **params)["tensor"]


X = torch.randn(2, 3, 4, generator=torch.Generator().manual_seed(1))
Y = torch.randn(2, 3, 4, generator=torch.Generator().manual_seed(2))


@pytest.mark.parametrize("node, params, wanted", [
    (ops.Argmax, {}, X.argmax(-1)),
    (ops.Argmax, dict(dim=0, keepdim=True), X.argmax(0, keepdim=True)),
    (ops.Mean, {}, X.mean(-1)),
    (ops.Mean, dict(dim="0, 2", keepdim=True), X.mean((0, 2), keepdim=True)),
    (ops.Permute, {}, X.permute(0, 2, 1)),
    (ops.Permute, dict(dims="2,-3,1"), X.permute(2, 0, 1)),
    (ops.ScalarMultiply, dict(scalar=2.5), X * 2.5),
    (ops.Softmax, dict(dim=1), X.softmax(1)),
    (ops.Unsqueeze, dict(dim=-1), X.unsqueeze(-1)),
])
def test_one_tensor(node, params, wanted):
    """Proves B.5."""
    torch.testing.assert_close(result(node, {"tensor": X}, **params), wanted)


@pytest.mark.parametrize("node, params, wanted", [
    (ops.Add, {}, X + Y),
    (ops.Add, dict(alpha=-0.5), X - 0.5 * Y),
    (ops.Multiply, {}, X * Y),
    (ops.Stack, dict(dim=1), torch.stack([X, Y], 1)),
])
def test_two_tensors(node, params, wanted):
    """Proves B.5."""
    torch.testing.assert_close(result(node, {"tensor_a": X, "tensor_b": Y}, **params), wanted)


def test_matmul_is_batched():
    torch.testing.assert_close(result(ops.MatMul, {"tensor_a": X, "tensor_b": Y.transpose(1, 2)}), X @ Y.transpose(1, 2))


def test_adding_whole_numbers_gives_whole_numbers():
    whole = torch.arange(3)
    got = result(ops.Add, {"tensor_a": whole, "tensor_b": whole}, alpha=2.0)
    assert got.dtype == torch.int64 and got.tolist() == [0, 3, 6]


def test_squeeze():
    """Proves B.5."""
    x = torch.zeros(1, 2, 1)
    assert result(ops.Squeeze, {"tensor": x}).shape == (2,)
    assert result(ops.Squeeze, {"tensor": x}, dim=0).shape == (2, 1)


def test_split():
    """Proves B.5."""
    x = torch.arange(10).reshape(1, 10)
    got = run(ops.Split, {"tensor": x}, chunks=4, dim=1)
    assert list(got) == [p.name for p in ops.Split.outputs({"chunks": 4})]
    assert [len(chunk[0]) for chunk in got.values()] == [3, 3, 3, 1]
    with pytest.raises(ValueError, match="gives 3 chunks, not 4; set param 'chunks' to 3"):
        run(ops.Split, {"tensor": torch.arange(5)}, chunks=4)


@pytest.mark.parametrize("given, wanted", [
    (3, 3), (99, 32), (0, 1), (-5, 1), (2.9, 2), ("5 parts", 5), (" 4", 4), ("x", 2), (True, 2), (None, 2),
    (float("nan"), 2), (float("inf"), 2), ([], 2), ("-3", 1), ("3.9", 3),
])
def test_counts_of_ports_are_read_as_browsers_do(given, wanted):
    """Proves A.8."""
    assert parsing.count(given, 2, 1, 32) == wanted
    assert len(ops.Split.outputs({"chunks": given})) == wanted


def test_tensors_are_created():
    """Proves B.5."""
    assert result(ops.TensorCreate, shape="2,3").tolist() == [[0] * 3] * 2
    assert result(ops.TensorCreate, shape="2", fill="ones").tolist() == [1, 1]
    assert result(ops.TensorCreate, shape="2", fill="full", value=2.5).tolist() == [2.5, 2.5]
    assert result(ops.TensorCreate, shape="2", fill="full", value=3).dtype == torch.float32
    assert result(ops.TensorCreate, shape="4,9", fill="arange").tolist() == [0, 1, 2, 3]
    assert result(ops.TensorCreate, requires_grad=True).requires_grad


@pytest.mark.parametrize("fill", ["randn", "rand"])
def test_random_tensors_follow_the_global_seed(fill):
    torch.manual_seed(4)
    got = result(ops.TensorCreate, shape="2,3", fill=fill)
    torch.manual_seed(4)
    torch.testing.assert_close(got, getattr(torch, fill)(2, 3), rtol=0, atol=0)


@pytest.mark.parametrize("node, params, text", [
    (ops.Permute, dict(dims="1,0"), r"names 2 dimensions and the tensor \[2, 3, 4\] has 3"),
    (ops.Mean, dict(dim="last"), "dim must be whole numbers"),
    (ops.TensorCreate, dict(shape=""), "shape needs at least 1"),
    (ops.TensorCreate, dict(shape="2,-1"), "sizes are 0 or more"),
    (ops.TensorCreate, dict(fill="sevens"), "choose one of zeros"),
])
def test_a_wrong_param_is_named(node, params, text):
    with pytest.raises(ValueError, match=text):
        run(node, {"tensor": X}, **params)


def test_start_gives_nothing():
    """Proves A.4."""
    assert [p.data_type for p in control.Start.outputs()] == ["TRIGGER"]
    assert run(control.Start) == {}
