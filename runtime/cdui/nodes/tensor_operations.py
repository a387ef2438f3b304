"""Tensor Operations: arithmetic, reductions and changes of shape.

Dimensions count from 0; negative ones count from the end.
"""

from __future__ import annotations

from typing import Any, Mapping

from cdui.node import Node, Param, Port
from cdui.nodes import parsing
from cdui.nodes.modules import TensorNode, as_float


class PairNode(Node):
    """Two tensors in, one tensor out."""

    CATEGORY = "Tensor Operations"
    A = "any shape"
    B = "a shape that broadcasts with tensor_a"
    OUT = "the broadcast shape"

    @classmethod
    def inputs(cls, params: Mapping[str, Any] | None = None) -> list[Port]:
        return [Port("tensor_a", "TENSOR", cls.A), Port("tensor_b", "TENSOR", cls.B)]

    @classmethod
    def outputs(cls, params: Mapping[str, Any] | None = None) -> list[Port]:
        return [Port("tensor", "TENSOR", cls.OUT)]


class Add(PairNode):
    NODE_NAME = "Add"
    DESCRIPTION = "tensor_a + alpha * tensor_b."

    @classmethod
    def params(cls) -> list[Param]:
        return [Param("alpha", "float", 1.0, "factor of tensor_b")]

    def execute(self, inputs: dict[str, Any], params: dict[str, Any]) -> dict[str, Any]:
        alpha = params["alpha"]
        # Whole tensors stay whole with a whole factor.
        if float(alpha).is_integer():
            alpha = int(alpha)
        a, b = inputs["tensor_a"], inputs["tensor_b"]
        return {"tensor": a + b if alpha == 1 else a + alpha * b}


class MatMul(PairNode):
    NODE_NAME = "MatMul"
    DESCRIPTION = "Matrix product, batched over leading dimensions."
    A = "(..., n, k)"
    B = "(..., k, m)"
    OUT = "(..., n, m)"

    def execute(self, inputs: dict[str, Any], params: dict[str, Any]) -> dict[str, Any]:
        import torch

        return {"tensor": torch.matmul(inputs["tensor_a"], inputs["tensor_b"])}


class Multiply(PairNode):
    NODE_NAME = "Multiply"
    DESCRIPTION = "Product value by value."

    def execute(self, inputs: dict[str, Any], params: dict[str, Any]) -> dict[str, Any]:
        return {"tensor": inputs["tensor_a"] * inputs["tensor_b"]}


class Stack(PairNode):
    NODE_NAME = "Stack"
    DESCRIPTION = "Lays two tensors of one shape on each other along a new dimension."
    B = "the shape of tensor_a"
    OUT = "one dimension more, of size 2, at dim"

    @classmethod
    def params(cls) -> list[Param]:
        return [Param("dim", "int", 0, "the new dimension")]

    def execute(self, inputs: dict[str, Any], params: dict[str, Any]) -> dict[str, Any]:
        import torch

        return {"tensor": torch.stack([inputs["tensor_a"], inputs["tensor_b"]], dim=params["dim"])}


class Argmax(TensorNode):
    NODE_NAME = "Argmax"
    CATEGORY = "Tensor Operations"
    DESCRIPTION = "Index of the largest value along a dimension."
    OUT = "without dim (or with size 1 there), int64"

    @classmethod
    def params(cls) -> list[Param]:
        return [Param("dim", "int", -1, "the dimension"), Param("keepdim", "bool", False, "keep the dimension with size 1")]

    def execute(self, inputs: dict[str, Any], params: dict[str, Any]) -> dict[str, Any]:
        return {"tensor": inputs["tensor"].argmax(dim=params["dim"], keepdim=bool(params["keepdim"]))}


class Mean(TensorNode):
    NODE_NAME = "Mean"
    CATEGORY = "Tensor Operations"
    DESCRIPTION = "Average over one or several dimensions."
    OUT = "without dim (or with size 1 there)"

    @classmethod
    def params(cls) -> list[Param]:
        return [
            Param("dim", "string", "-1", "the dimensions, with commas between them"),
            Param("keepdim", "bool", False, "keep the dimensions with size 1"),
        ]

    def execute(self, inputs: dict[str, Any], params: dict[str, Any]) -> dict[str, Any]:
        dims = parsing.integers(params["dim"], "dim", at_least=1)
        return {"tensor": as_float(inputs["tensor"]).mean(dim=dims, keepdim=bool(params["keepdim"]))}


class Permute(TensorNode):
    NODE_NAME = "Permute"
    CATEGORY = "Tensor Operations"
    DESCRIPTION = "Changes the order of the dimensions."
    OUT = "the sizes of the input in the order of dims"

    @classmethod
    def params(cls) -> list[Param]:
        return [Param("dims", "string", "0,2,1", "the new order: each dimension once, with commas between them")]

    def execute(self, inputs: dict[str, Any], params: dict[str, Any]) -> dict[str, Any]:
        tensor, dims = inputs["tensor"], parsing.integers(params["dims"], "dims", at_least=1)
        if len(dims) != tensor.dim():
            raise ValueError(
                f"param 'dims' ({params['dims']}) names {len(dims)} dimensions and the tensor {list(tensor.shape)} "
                f"has {tensor.dim()}; name each of them once")
        return {"tensor": tensor.permute(dims)}


class ScalarMultiply(TensorNode):
    NODE_NAME = "ScalarMultiply"
    CATEGORY = "Tensor Operations"
    DESCRIPTION = "Multiplies each value by a number."

    @classmethod
    def params(cls) -> list[Param]:
        return [Param("scalar", "float", 1.0, "the number")]

    def execute(self, inputs: dict[str, Any], params: dict[str, Any]) -> dict[str, Any]:
        return {"tensor": inputs["tensor"] * params["scalar"]}


class Softmax(TensorNode):
    NODE_NAME = "Softmax"
    CATEGORY = "Tensor Operations"
    DESCRIPTION = "Turns values into shares that sum to 1 along a dimension."

    @classmethod
    def params(cls) -> list[Param]:
        return [Param("dim", "int", -1, "the dimension")]

    def execute(self, inputs: dict[str, Any], params: dict[str, Any]) -> dict[str, Any]:
        return {"tensor": as_float(inputs["tensor"]).softmax(dim=params["dim"])}


class Split(TensorNode):
    NODE_NAME = "Split"
    CATEGORY = "Tensor Operations"
    DESCRIPTION = "Cuts a tensor into chunks along a dimension; the last may be short."
    DETAILS = "There is an output chunk_0, chunk_1, … for each chunk."

    @classmethod
    def outputs(cls, params: Mapping[str, Any] | None = None) -> list[Port]:
        chunks = parsing.count((params or {}).get("chunks", 2), 2, 1, 32)
        return [Port(f"chunk_{i}", "TENSOR", f"chunk {i} along dim") for i in range(chunks)]

    @classmethod
    def params(cls) -> list[Param]:
        return [
            Param("chunks", "int", 2, "number of chunks", min_value=1, max_value=32),
            Param("dim", "int", 0, "the dimension that is cut"),
        ]

    def execute(self, inputs: dict[str, Any], params: dict[str, Any]) -> dict[str, Any]:
        tensor, wanted = inputs["tensor"], len(self.outputs(params))
        chunks = tensor.chunk(wanted, dim=params["dim"])
        if len(chunks) < wanted:
            raise ValueError(
                f"dimension {params['dim']} of {list(tensor.shape)} gives {len(chunks)} chunks, not {wanted}; "
                f"set param 'chunks' to {len(chunks)}")
        return {f"chunk_{i}": chunk for i, chunk in enumerate(chunks)}


class Squeeze(TensorNode):
    NODE_NAME = "Squeeze"
    CATEGORY = "Tensor Operations"
    DESCRIPTION = "Removes a dimension of size 1, or all of them."
    OUT = "without the dimensions of size 1"

    @classmethod
    def params(cls) -> list[Param]:
        return [Param("dim", "int", -1, "the dimension; -1 stands for all of size 1")]

    def execute(self, inputs: dict[str, Any], params: dict[str, Any]) -> dict[str, Any]:
        tensor, dim = inputs["tensor"], params["dim"]
        return {"tensor": tensor.squeeze() if dim == -1 else tensor.squeeze(dim)}


class Unsqueeze(TensorNode):
    NODE_NAME = "Unsqueeze"
    CATEGORY = "Tensor Operations"
    DESCRIPTION = "Adds a dimension of size 1."
    OUT = "one dimension more, of size 1, at dim"

    @classmethod
    def params(cls) -> list[Param]:
        return [Param("dim", "int", 0, "where the new dimension stands")]

    def execute(self, inputs: dict[str, Any], params: dict[str, Any]) -> dict[str, Any]:
        return {"tensor": inputs["tensor"].unsqueeze(params["dim"])}


class TensorCreate(Node):
    NODE_NAME = "TensorCreate"
    CATEGORY = "Tensor Operations"
    DESCRIPTION = "A new float32 tensor of a given shape."
    DETAILS = "randn is normal (0, 1), rand uniform (0 to 1); arange counts 0, 1, … up to the first size and has one dimension."

    @classmethod
    def outputs(cls, params: Mapping[str, Any] | None = None) -> list[Port]:
        return [Port("tensor", "TENSOR", "shape; (first size) for arange")]

    @classmethod
    def params(cls) -> list[Param]:
        return [
            Param("shape", "string", "1,3,224,224", "sizes with commas between them"),
            Param("fill", "select", "zeros", "what the tensor holds", options=("zeros", "ones", "randn", "rand", "full", "arange")),
            Param("value", "float", 0.0, "the value of each element", visible_when={"fill": "full"}),
            Param("requires_grad", "bool", False, "whether gradients are kept for it"),
        ]

    def execute(self, inputs: dict[str, Any], params: dict[str, Any], context: Any) -> dict[str, Any]:
        import torch

        shape, fill = parsing.integers(params["shape"], "shape", at_least=1), params["fill"]
        if min(shape) < 0:
            raise ValueError(f"param 'shape' is {params['shape']!r}; sizes are 0 or more")
        if fill == "full":
            tensor = torch.full(shape, float(params["value"]))
        elif fill == "arange":
            tensor = torch.arange(shape[0], dtype=torch.float32)
        elif fill in ("zeros", "ones", "randn", "rand"):
            tensor = getattr(torch, fill)(shape)
        else:
            raise ValueError(f"param 'fill' is {fill!r}; choose one of zeros, ones, randn, rand, full, arange")
        # Random values are drawn on the CPU: the same on every device.
        return {"tensor": tensor.to(context.device).requires_grad_(bool(params["requires_grad"]))}


NODES = [
    Add, Argmax, MatMul, Mean, Multiply, Permute, ScalarMultiply, Softmax, Split, Squeeze, Stack,
    TensorCreate, Unsqueeze,
]
