"""Normalization nodes against plain torch."""
import pytest

from cdui.node import Context, call, fill_params

torch = pytest.importorskip("torch")

from cdui.nodes import normalization as nodes  # noqa: E402


def run(node, tensor, **params):
    return call(node(), {"tensor": tensor}, fill_params(node, params), lambda payload: None, Context())["tensor"]


X = torch.randn(4, 6, 5, 5, generator=torch.Generator().manual_seed(1)) * 3 + 2


@pytest.mark.parametrize("node, tensor, params, layer", [
    (nodes.BatchNorm1d, X[:, :, 0, 0], dict(num_features=6), torch.nn.BatchNorm1d(6)),
    (nodes.BatchNorm1d, X[:, :, 0], dict(num_features=6), torch.nn.BatchNorm1d(6)),
    (nodes.GroupNorm, X, dict(num_groups=3, num_channels=6), torch.nn.GroupNorm(3, 6)),
    (nodes.InstanceNorm2d, X, dict(num_features=6, affine=True), torch.nn.InstanceNorm2d(6, affine=True)),
    (nodes.InstanceNorm2d, X[0], dict(num_features=6), torch.nn.InstanceNorm2d(6)),
    (nodes.LayerNorm, X, dict(normalized_shape="5, 5", eps=0.1), torch.nn.LayerNorm([5, 5], eps=0.1)),
    (nodes.LayerNorm, X, dict(normalized_shape="5"), torch.nn.LayerNorm(5)),
])
def test_is_the_layer_of_torch(node, tensor, params, layer):
    """Proves B.3."""
    torch.testing.assert_close(run(node, tensor, **params), layer(tensor))
    assert not node.cacheable


@pytest.mark.parametrize("node, params, text", [
    (nodes.BatchNorm1d, dict(num_features=6), "wanted is"),
    (nodes.GroupNorm, dict(num_groups=4, num_channels=6), r"'num_channels' \(6\) is not a multiple of param 'num_groups' \(4\)"),
    (nodes.GroupNorm, dict(num_groups=2, num_channels=8), "has 6 channels .* param 'num_channels' is 8; set it to 6"),
    (nodes.InstanceNorm2d, dict(), "param 'num_features' is 64; set it to 6"),
    (nodes.LayerNorm, dict(normalized_shape="6,5"), r"does not end with param 'normalized_shape' \(6,5\)"),
    (nodes.LayerNorm, dict(normalized_shape="five"), "normalized_shape must be whole numbers"),
])
def test_a_wrong_param_is_named(node, params, text):
    with pytest.raises(ValueError, match=text):
        run(node, X, **params)
