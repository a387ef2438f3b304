"""CNN: convolutions, pooling and activations.

Images are ``(N, C, H, W)`` or, without a batch, ``(C, H, W)``.
"""

from __future__ import annotations

from typing import Any, Mapping

from cdui.node import Node, Param, Port
from cdui.nodes.modules import ModuleNode, TensorNode, as_float, check_dims, check_size

IMAGES = "(N, C, H, W) or (C, H, W)"


def check_images(tensor: Any) -> None:
    check_dims(tensor, (3, 4), IMAGES)


class Activation(TensorNode):
    NODE_NAME = "Activation"
    CATEGORY = "CNN"
    DESCRIPTION = "Applies an activation function to each value."
    DETAILS = "leaky_relu has the slope 0.01, softmax runs over the last dimension, prelu has the slope 0.25."

    @classmethod
    def params(cls) -> list[Param]:
        return [Param("function", "select", "relu", "the function", options=(
            "relu", "sigmoid", "tanh", "leaky_relu", "elu", "gelu", "silu", "mish", "selu", "softmax", "hardswish", "prelu"))]

    def execute(self, inputs: dict[str, Any], params: dict[str, Any]) -> dict[str, Any]:
        import torch

        tensor, name = as_float(inputs["tensor"]), params["function"]
        if name not in self.params()[0].options:
            raise ValueError(f"param 'function' is {name!r}; choose one of {', '.join(self.params()[0].options)}")
        if name in ("sigmoid", "tanh"):
            return {"tensor": getattr(torch, name)(tensor)}
        if name == "softmax":
            return {"tensor": torch.softmax(tensor, dim=-1)}
        if name == "prelu":
            return {"tensor": torch.nn.functional.prelu(tensor, tensor.new_full((1,), 0.25))}
        return {"tensor": getattr(torch.nn.functional, name)(tensor)}


class AdaptiveAvgPool2d(TensorNode):
    NODE_NAME = "AdaptiveAvgPool2d"
    CATEGORY = "CNN"
    DESCRIPTION = "Averages an image down to a given size."
    IN = IMAGES
    OUT = "(N, C, output_height, output_width)"

    @classmethod
    def params(cls) -> list[Param]:
        return [Param("output_height", "int", 1, "rows of the result"), Param("output_width", "int", 1, "columns of the result")]

    def execute(self, inputs: dict[str, Any], params: dict[str, Any]) -> dict[str, Any]:
        import torch

        tensor = as_float(inputs["tensor"])
        check_images(tensor)
        size = (params["output_height"], params["output_width"])
        return {"tensor": torch.nn.functional.adaptive_avg_pool2d(tensor, size)}


class AvgPool2d(TensorNode):
    NODE_NAME = "AvgPool2d"
    CATEGORY = "CNN"
    DESCRIPTION = "Averages over windows of an image."
    IN = IMAGES
    OUT = "(N, C, H', W') with H' = (H + 2*padding - kernel_size) // stride + 1"

    @classmethod
    def params(cls) -> list[Param]:
        return [
            Param("kernel_size", "int", 2, "side of the window in pixels"),
            Param("stride", "int", 2, "step of the window in pixels"),
            Param("padding", "int", 0, "zeros added at each side in pixels"),
        ]

    def execute(self, inputs: dict[str, Any], params: dict[str, Any]) -> dict[str, Any]:
        import torch

        tensor = as_float(inputs["tensor"])
        check_images(tensor)
        pooled = torch.nn.functional.avg_pool2d(tensor, params["kernel_size"], params["stride"], params["padding"])
        return {"tensor": pooled}


class MaxPool2d(TensorNode):
    NODE_NAME = "MaxPool2d"
    CATEGORY = "CNN"
    DESCRIPTION = "Takes the largest value of each window of an image."
    IN = IMAGES
    OUT = "(N, C, H', W') with H' = (H - kernel_size) // stride + 1"

    @classmethod
    def params(cls) -> list[Param]:
        return [Param("kernel_size", "int", 2, "side of the window in pixels"), Param("stride", "int", 2, "step of the window in pixels")]

    def execute(self, inputs: dict[str, Any], params: dict[str, Any]) -> dict[str, Any]:
        import torch

        tensor = as_float(inputs["tensor"])
        check_images(tensor)
        return {"tensor": torch.nn.functional.max_pool2d(tensor, params["kernel_size"], params["stride"])}


class BatchNorm2d(ModuleNode):
    NODE_NAME = "BatchNorm2d"
    CATEGORY = "CNN"
    DESCRIPTION = "Normalises each channel over the batch (training statistics)."
    IN = "(N, C, H, W)"

    @classmethod
    def params(cls) -> list[Param]:
        return [Param("num_features", "int", 32, "channels C of the input")]

    def check(self, tensor: Any, params: Mapping[str, Any]) -> None:
        check_dims(tensor, (4,), self.IN)
        check_size(tensor, 1, params["num_features"], "num_features", "channels")

    def build(self, params: Mapping[str, Any]) -> Any:
        import torch

        return torch.nn.BatchNorm2d(params["num_features"])


def convolution_params(in_channels: int, out_channels: int, kernel_size: int, stride: int, padding: int) -> list[Param]:
    """The settings that all convolutions with own weights have."""
    return [
        Param("in_channels", "int", in_channels, "channels of the input"),
        Param("out_channels", "int", out_channels, "channels of the result"),
        Param("kernel_size", "int", kernel_size, "side of the kernel"),
        Param("stride", "int", stride, "step of the kernel"),
        Param("padding", "int", padding, "zeros added at each side"),
    ]


class Conv1d(ModuleNode):
    NODE_NAME = "Conv1d"
    CATEGORY = "CNN"
    DESCRIPTION = "Convolution over sequences, with new weights in each run."
    IN = "(N, in_channels, L) or (in_channels, L)"
    OUT = "(N, out_channels, L') with L' = (L + 2*padding - kernel_size) // stride + 1"

    @classmethod
    def params(cls) -> list[Param]:
        return convolution_params(1, 32, 3, 1, 1)

    def check(self, tensor: Any, params: Mapping[str, Any]) -> None:
        check_dims(tensor, (2, 3), self.IN)
        check_size(tensor, -2, params["in_channels"], "in_channels", "channels")

    def build(self, params: Mapping[str, Any]) -> Any:
        import torch

        return torch.nn.Conv1d(params["in_channels"], params["out_channels"], params["kernel_size"], params["stride"], params["padding"])


class Conv2d(ModuleNode):
    NODE_NAME = "Conv2d"
    CATEGORY = "CNN"
    DESCRIPTION = "Convolution over images, with new weights in each run."
    IN = "(N, in_channels, H, W) or (in_channels, H, W)"
    OUT = "(N, out_channels, H', W') with H' = (H + 2*padding - kernel_size) // stride + 1"

    @classmethod
    def params(cls) -> list[Param]:
        return convolution_params(1, 32, 3, 1, 1)

    def check(self, tensor: Any, params: Mapping[str, Any]) -> None:
        check_images(tensor)
        check_size(tensor, -3, params["in_channels"], "in_channels", "channels")

    def build(self, params: Mapping[str, Any]) -> Any:
        import torch

        return torch.nn.Conv2d(params["in_channels"], params["out_channels"], params["kernel_size"], params["stride"], params["padding"])


class ConvTranspose2d(ModuleNode):
    NODE_NAME = "ConvTranspose2d"
    CATEGORY = "CNN"
    DESCRIPTION = "Transposed convolution over images (enlarges them), with new weights in each run."
    IN = "(N, in_channels, H, W) or (in_channels, H, W)"
    OUT = "(N, out_channels, H', W') with H' = (H - 1)*stride - 2*padding + kernel_size + output_padding"

    @classmethod
    def params(cls) -> list[Param]:
        return convolution_params(64, 32, 2, 2, 0) + [
            Param("output_padding", "int", 0, "rows and columns added to the result; less than stride")]

    def check(self, tensor: Any, params: Mapping[str, Any]) -> None:
        check_images(tensor)
        check_size(tensor, -3, params["in_channels"], "in_channels", "channels")

    def build(self, params: Mapping[str, Any]) -> Any:
        import torch

        return torch.nn.ConvTranspose2d(
            params["in_channels"], params["out_channels"], params["kernel_size"],
            params["stride"], params["padding"], params["output_padding"])


class Conv2dExplicit(Node):
    NODE_NAME = "Conv2dExplicit"
    CATEGORY = "CNN"
    DESCRIPTION = "Convolution with a kernel that another node gives."
    DETAILS = "A kernel with one input channel is applied to each channel of the image on its own."

    @classmethod
    def inputs(cls, params: Mapping[str, Any] | None = None) -> list[Port]:
        return [Port("tensor", "TENSOR", IMAGES), Port("kernel", "TENSOR", "(O, C, kH, kW), (kH, kW) for one, or (O, 1, kH, kW)")]

    @classmethod
    def outputs(cls, params: Mapping[str, Any] | None = None) -> list[Port]:
        return [Port("tensor", "TENSOR", "(N, O, H', W'); (N, O*C, H', W') where the kernel has one input channel")]

    @classmethod
    def params(cls) -> list[Param]:
        return [
            Param("stride", "int", 1, "step of the kernel in pixels", min_value=1),
            Param("padding", "int", 1, "zeros added at each side in pixels", min_value=0),
        ]

    def execute(self, inputs: dict[str, Any], params: dict[str, Any]) -> dict[str, Any]:
        import torch

        tensor = as_float(inputs["tensor"])
        check_images(tensor)
        kernel = inputs["kernel"].to(tensor)
        while kernel.dim() < 4:
            kernel = kernel.unsqueeze(0)
        channels, groups = tensor.shape[-3], 1
        if kernel.shape[1] == 1 and channels > 1:
            kernel, groups = kernel.repeat(channels, 1, 1, 1), channels
        elif kernel.shape[1] != channels:
            raise ValueError(
                f"the kernel has {kernel.shape[1]} input channels {list(kernel.shape)} and the tensor {channels} "
                f"{list(tensor.shape)}; give a kernel with {channels} or with 1")
        return {"tensor": torch.nn.functional.conv2d(tensor, kernel, stride=params["stride"], padding=params["padding"], groups=groups)}


KERNELS = {
    "EdgeDetection3x3": [[-1.0, -1.0, -1.0], [-1.0, 8.0, -1.0], [-1.0, -1.0, -1.0]],
    "Sharpen3x3": [[0.0, -1.0, 0.0], [-1.0, 5.0, -1.0], [0.0, -1.0, 0.0]],
    "VerticalEdge3x3": [[-1.0, 0.0, 1.0], [-2.0, 0.0, 2.0], [-1.0, 0.0, 1.0]],
}


class Conv2dKernel(Node):
    NODE_NAME = "Conv2dKernel"
    CATEGORY = "CNN"
    DESCRIPTION = "A convolution kernel with chosen values."

    @classmethod
    def outputs(cls, params: Mapping[str, Any] | None = None) -> list[Port]:
        return [Port("tensor", "TENSOR", "(1, 1, kernel_size, kernel_size)")]

    @classmethod
    def params(cls) -> list[Param]:
        custom = {"preset": "Custom"}
        return [
            Param("preset", "select", "EdgeDetection3x3", "a known kernel, or Custom", options=(*KERNELS, "Custom")),
            Param("kernel_size", "int", 3, "side of a custom kernel", min_value=1, max_value=15, visible_when=custom),
            Param("weights", "tensor_grid", [[0.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 0.0]],
                  "rows of a custom kernel", visible_when=custom),
        ]

    def execute(self, inputs: dict[str, Any], params: dict[str, Any], context: Any) -> dict[str, Any]:
        import torch

        preset = params["preset"]
        if preset != "Custom":
            if preset not in KERNELS:
                raise ValueError(f"param 'preset' is {preset!r}; choose one of {', '.join(KERNELS)}, Custom")
            grid, size = torch.tensor(KERNELS[preset]), 3
        else:
            grid, size = torch.tensor(params["weights"], dtype=torch.float32), params["kernel_size"]
        if grid.numel() != size * size:
            raise ValueError(f"param 'weights' has {grid.numel()} values, and kernel_size {size} needs {size * size}; change one of them")
        return {"tensor": grid.reshape(1, 1, size, size).to(context.device)}


class Dropout(TensorNode):
    NODE_NAME = "Dropout"
    CATEGORY = "CNN"
    DESCRIPTION = "Zeroes values by chance and scales the others up; always as in training."

    @classmethod
    def params(cls) -> list[Param]:
        return [Param("p", "float", 0.5, "chance of a value to be zeroed", min_value=0.0, max_value=1.0)]

    def execute(self, inputs: dict[str, Any], params: dict[str, Any]) -> dict[str, Any]:
        import torch

        return {"tensor": torch.nn.functional.dropout(as_float(inputs["tensor"]), p=params["p"], training=True)}


NODES = [
    Activation, AdaptiveAvgPool2d, AvgPool2d, BatchNorm2d, Conv1d, Conv2d, Conv2dExplicit,
    Conv2dKernel, ConvTranspose2d, Dropout, MaxPool2d,
]
