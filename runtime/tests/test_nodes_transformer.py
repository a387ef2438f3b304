"""Transformer nodes against plain torch."""
import pytest

from cdui.node import Context, call, fill_params

torch = pytest.importorskip("torch")

from cdui.nodes import transformer as nodes  # noqa: E402


def run(node, inputs, **params):
    return call(node(), inputs, fill_params(node, params), lambda payload: None, Context())


def values(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


def test_attention():
    """Proves B.3."""
    query, key, value = values(2, 5, 8), values(2, 7, 8), values(2, 7, 8) * 2
    torch.manual_seed(3)
    got = run(nodes.MultiHeadAttention, {"query": query, "key": key, "value": value}, embed_dim=8, num_heads=2)
    torch.manual_seed(3)
    output, weights = torch.nn.MultiheadAttention(8, 2, batch_first=True)(query, key, value)
    torch.testing.assert_close(got["output"], output)
    torch.testing.assert_close(got["weights"], weights)
    torch.testing.assert_close(got["weights"].sum(-1), torch.ones(2, 5))


STACK = dict(d_model=8, nhead=2, num_layers=2, dim_feedforward=16)


def test_encoder_and_decoder_are_those_of_torch_under_the_global_seed():
    """Proves B.3."""
    x, memory = values(5, 2, 8), values(6, 2, 8)
    torch.manual_seed(3)
    got = run(nodes.TransformerEncoder, {"tensor": x}, **STACK)["tensor"]
    torch.manual_seed(3)
    layer = torch.nn.TransformerEncoderLayer(8, 2, 16)
    torch.testing.assert_close(got, torch.nn.TransformerEncoder(layer, 2)(x))

    torch.manual_seed(3)
    got = run(nodes.TransformerDecoder, {"tensor": x, "memory": memory}, **STACK)["tensor"]
    torch.manual_seed(3)
    layer = torch.nn.TransformerDecoderLayer(8, 2, 16)
    torch.testing.assert_close(got, torch.nn.TransformerDecoder(layer, 2)(x, memory))


@pytest.mark.parametrize("node, inputs, params, text", [
    (nodes.TransformerEncoder, {"tensor": values(5, 2, 8)}, {}, "has 8 features .* but param 'd_model' is 512; set it to 8"),
    (nodes.TransformerEncoder, {"tensor": values(5, 2, 8)}, dict(d_model=8, nhead=3), r"'d_model' \(8\) is not a multiple of param 'nhead' \(3\)"),
    (nodes.MoELayer, {"x": values(5, 128)}, dict(top_k=5), r"'top_k' \(5\) is more than param 'num_experts' \(4\)"),
])
def test_a_wrong_param_is_named(node, inputs, params, text):
    with pytest.raises(ValueError, match=text):
        run(node, inputs, **params)


def test_experts():
    """Proves B.3."""
    x = values(2, 5, 6)
    params = dict(num_experts=3, top_k=2, hidden_dim=6, expert_hidden_dim=7, seed=11)
    got = run(nodes.MoELayer, {"x": x}, **params)
    # The same weights by plain torch: the router first, then each expert's two layers.
    torch.manual_seed(11)
    router = torch.nn.Linear(6, 3)
    experts = [torch.nn.Sequential(torch.nn.Linear(6, 7), torch.nn.ReLU(), torch.nn.Linear(7, 6)) for _ in range(3)]
    best, indices = router(x).topk(2)
    weights = best.softmax(-1)
    every = torch.stack([expert(x) for expert in experts], dim=-2)
    chosen = every.gather(-2, indices.unsqueeze(-1).expand(*indices.shape, 6))
    torch.testing.assert_close(got["expert_indices"], indices)
    torch.testing.assert_close(got["routing_weights"], weights)
    torch.testing.assert_close(got["output"], (chosen * weights.unsqueeze(-1)).sum(-2))
    torch.testing.assert_close(run(nodes.MoELayer, {"x": x}, **params)["output"], got["output"])


def test_gradients_reach_the_input_of_experts():
    x = values(5, 6).requires_grad_()
    run(nodes.MoELayer, {"x": x}, hidden_dim=6)["output"].sum().backward()
    assert x.grad is not None and x.grad.abs().sum() > 0
