"""CNN nodes against plain torch."""
import pytest

from cdui.node import Context, call, fill_params

torch = pytest.importorskip("torch")

from cdui.nodes import cnn  # noqa: E402

F = torch.nn.functional


def run(node, inputs=None, **params):
    return call(node(), inputs or {}, fill_params(node, params), lambda payload: None, Context())["tensor"]


def images(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1))


FUNCTIONS = {
    "relu": torch.relu, "sigmoid": torch.sigmoid, "tanh": torch.tanh,
    "leaky_relu": lambda x: torch.where(x > 0, x, 0.01 * x), "elu": torch.nn.ELU(), "gelu": torch.nn.GELU(),
    "silu": torch.nn.SiLU(), "mish": torch.nn.Mish(), "selu": torch.nn.SELU(), "softmax": torch.nn.Softmax(dim=-1),
    "hardswish": torch.nn.Hardswish(), "prelu": lambda x: torch.where(x > 0, x, 0.25 * x),
}


@pytest.mark.parametrize("name", cnn.Activation.params()[0].options)
def test_activation(name):
    """Proves B.3, B.5."""
    x = images(2, 3, 4)
    torch.testing.assert_close(run(cnn.Activation, {"tensor": x}, function=name), FUNCTIONS[name](x))


def test_activation_names_what_it_knows():
    with pytest.raises(ValueError, match="param 'function' is 'swish'; choose one of relu, sigmoid"):
        run(cnn.Activation, {"tensor": images(2)}, function="swish")


LAYERS = [
    (cnn.Conv1d, (2, 3, 9), dict(in_channels=3, out_channels=5, kernel_size=3, stride=2, padding=1), torch.nn.Conv1d),
    (cnn.Conv2d, (2, 3, 8, 8), dict(in_channels=3, out_channels=5, kernel_size=3, stride=2, padding=1), torch.nn.Conv2d),
    (cnn.ConvTranspose2d, (2, 4, 5, 5),
     dict(in_channels=4, out_channels=2, kernel_size=3, stride=2, padding=1, output_padding=1), torch.nn.ConvTranspose2d),
    (cnn.BatchNorm2d, (2, 4, 3, 3), dict(num_features=4), torch.nn.BatchNorm2d),
]


@pytest.mark.parametrize("node, shape, params, layer", LAYERS, ids=lambda v: getattr(v, "__name__", None))
def test_layers_are_those_of_torch_under_the_global_seed(node, shape, params, layer):
    """Proves B.3, B.5."""
    x = images(*shape)
    torch.manual_seed(7)
    got = run(node, {"tensor": x}, **params)
    torch.manual_seed(7)
    torch.testing.assert_close(got, layer(**params)(x), rtol=0, atol=0)
    assert got.requires_grad and not node.cacheable


def test_layers_take_whole_numbers_and_double():
    assert run(cnn.Conv2d, {"tensor": torch.ones(1, 1, 4, 4, dtype=torch.int64)}).dtype == torch.float32
    assert run(cnn.Conv2d, {"tensor": torch.ones(1, 4, 4, dtype=torch.float64)}).dtype == torch.float64


@pytest.mark.parametrize("node, shape, text", [
    (cnn.Conv2d, (1, 3, 8, 8), r"has 3 channels \(dimension 1 of \[1, 3, 8, 8\]\) but param 'in_channels' is 1; set it to 3"),
    (cnn.Conv2d, (8, 8), r"shape \[8, 8\]; wanted is \(N, C, H, W\) or \(C, H, W\)"),
    (cnn.BatchNorm2d, (1, 3, 8, 8), "param 'num_features' is 32; set it to 3"),
    (cnn.Conv1d, (4, 2, 9), "param 'in_channels' is 1; set it to 2"),
    (cnn.MaxPool2d, (8,), "wanted is"),
])
def test_a_wrong_shape_is_told_with_the_param(node, shape, text):
    with pytest.raises(ValueError, match=text):
        run(node, {"tensor": images(*shape)})


def test_pooling():
    """Proves B.3."""
    x = images(2, 3, 9, 9)
    torch.testing.assert_close(run(cnn.MaxPool2d, {"tensor": x}, kernel_size=3, stride=2), F.max_pool2d(x, 3, 2))
    torch.testing.assert_close(run(cnn.AvgPool2d, {"tensor": x}, kernel_size=3, stride=2, padding=1), F.avg_pool2d(x, 3, 2, 1))
    got = run(cnn.AdaptiveAvgPool2d, {"tensor": x}, output_height=2, output_width=3)
    torch.testing.assert_close(got, F.adaptive_avg_pool2d(x, (2, 3)))


def test_kernels():
    """Proves B.3."""
    edge = run(cnn.Conv2dKernel)
    assert edge.shape == (1, 1, 3, 3) and edge.sum() == 0 and edge[0, 0, 1, 1] == 8
    assert run(cnn.Conv2dKernel, preset="Sharpen3x3").sum() == 1
    assert run(cnn.Conv2dKernel, preset="VerticalEdge3x3")[0, 0].sum(dim=0).tolist() == [-4, 0, 4]
    assert run(cnn.Conv2dKernel, preset="Custom", kernel_size=2, weights=[[1, 2], [3, 4]]).flatten().tolist() == [1, 2, 3, 4]
    with pytest.raises(ValueError, match="'weights' has 9 values, and kernel_size 2 needs 4"):
        run(cnn.Conv2dKernel, preset="Custom", kernel_size=2)


def test_explicit_convolution():
    """Proves B.3."""
    x, kernel = images(2, 3, 6, 6), images(4, 3, 3, 3)
    got = run(cnn.Conv2dExplicit, {"tensor": x, "kernel": kernel}, stride=2, padding=0)
    torch.testing.assert_close(got, F.conv2d(x, kernel, stride=2))


def test_explicit_convolution_with_one_kernel_for_all_channels():
    x, kernel = images(1, 3, 6, 6), images(1, 1, 3, 3)
    got = run(cnn.Conv2dExplicit, {"tensor": x, "kernel": kernel})
    each = [F.conv2d(x[:, i:i + 1], kernel, padding=1) for i in range(3)]
    torch.testing.assert_close(got, torch.cat(each, dim=1))
    torch.testing.assert_close(run(cnn.Conv2dExplicit, {"tensor": x, "kernel": kernel[0, 0]}), got)
    with pytest.raises(ValueError, match="the kernel has 2 input channels"):
        run(cnn.Conv2dExplicit, {"tensor": x, "kernel": images(1, 2, 3, 3)})


def test_dropout_is_always_in_training_mode():
    """Proves B.5."""
    x = torch.ones(1000)
    torch.manual_seed(3)
    got = run(cnn.Dropout, {"tensor": x}, p=0.25)
    torch.manual_seed(3)
    torch.testing.assert_close(got, F.dropout(x, 0.25))
    assert 150 < int((got == 0).sum()) < 350
