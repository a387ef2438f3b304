"""RNN nodes against plain torch."""
import pytest

from cdui.node import Context, call, fill_params

torch = pytest.importorskip("torch")

from cdui.nodes import rnn  # noqa: E402


def run(node, inputs, **params):
    return call(node(), inputs, fill_params(node, params), lambda payload: None, Context())


X = torch.randn(2, 7, 3, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("node", [rnn.GRU, rnn.LSTM])
@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("bidirectional", [True, False])
def test_layers_are_those_of_torch_under_the_global_seed(node, batch_first, bidirectional):
    """Proves B.3."""
    shape = dict(input_size=3, hidden_size=4, num_layers=2, batch_first=batch_first, bidirectional=bidirectional)
    torch.manual_seed(5)
    got = run(node, {"tensor": X}, **shape)
    torch.manual_seed(5)
    output, state = getattr(torch.nn, node.NODE_NAME)(**shape)(X)
    torch.testing.assert_close(got["output"], output)
    torch.testing.assert_close(got["hidden"], state[0] if node is rnn.LSTM else state)


def test_a_param_that_older_files_carry_is_no_error():
    got = run(rnn.LSTM, {"tensor": X}, input_size=3, hidden_size=4, dropout=0.0)
    assert got["output"].shape == (2, 7, 4) and got["hidden"].shape == (1, 2, 4)


def test_wrong_features_are_told():
    with pytest.raises(ValueError, match="has 3 features .* but param 'input_size' is 128; set it to 3"):
        run(rnn.GRU, {"tensor": X})


@pytest.mark.parametrize("nonlinearity", ["tanh", "relu"])
def test_cell_is_torch_s_under_its_own_seed(nonlinearity):
    """Proves B.3."""
    x, hidden = X[0], torch.ones(7, 4)
    got = run(rnn.RNNCell, {"tensor": x, "hidden": hidden}, input_size=3, hidden_size=4, nonlinearity=nonlinearity, seed=9)
    torch.manual_seed(9)
    cell = torch.nn.RNNCell(3, 4, nonlinearity=nonlinearity)
    torch.testing.assert_close(got["hidden"], cell(x, hidden), rtol=0, atol=0)


def test_cell_starts_from_zeros():
    with_zeros = run(rnn.RNNCell, {"tensor": X[0], "hidden": torch.zeros(7, 16)}, input_size=3)
    torch.testing.assert_close(run(rnn.RNNCell, {"tensor": X[0]}, input_size=3)["hidden"], with_zeros["hidden"])
    with pytest.raises(ValueError, match="param 'hidden_size' is 16; set it to 5"):
        run(rnn.RNNCell, {"tensor": X[0], "hidden": torch.zeros(7, 5)}, input_size=3)
