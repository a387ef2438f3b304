"""Bases of nodes that compute one tensor from another, by a function or by a
freshly initialised module, and the checks that they share."""

from __future__ import annotations

from typing import Any, Mapping

from cdui.node import Node, Port


class TensorNode(Node):
    """One tensor in, one tensor out; ``IN`` and ``OUT`` say their shapes."""

    IN = "any shape"
    OUT = "the shape of the input"

    @classmethod
    def inputs(cls, params: Mapping[str, Any] | None = None) -> list[Port]:
        return [Port("tensor", "TENSOR", cls.IN)]

    @classmethod
    def outputs(cls, params: Mapping[str, Any] | None = None) -> list[Port]:
        return [Port("tensor", "TENSOR", cls.OUT)]


class ModuleNode(TensorNode):
    """Applies a module whose weights are new in each run.

    The weights are drawn from the global generator, which the engine seeds
    before each node of a seeded run. The module is in training mode.
    """

    cacheable = False

    def check(self, tensor: Any, params: Mapping[str, Any]) -> None:
        """Raises a sentence where the tensor does not fit the params."""

    def build(self, params: Mapping[str, Any]) -> Any:
        """The module."""
        raise NotImplementedError(self.NODE_NAME)

    def execute(self, inputs: dict[str, Any], params: dict[str, Any]) -> dict[str, Any]:
        tensor = as_float(inputs["tensor"])
        self.check(tensor, params)
        return {"tensor": beside(self.build(params), tensor)(tensor)}


def as_float(tensor: Any) -> Any:
    """The tensor itself where it is floating point, else as float32."""
    return tensor if tensor.is_floating_point() or tensor.is_complex() else tensor.float()


def beside(module: Any, tensor: Any) -> Any:
    """The module on the tensor's device, in the tensor's precision."""
    return module.to(device=tensor.device, dtype=tensor.dtype)


def check_size(tensor: Any, dim: int, size: int, param: str, what: str = "values") -> None:
    """Checks that dimension ``dim`` has the size that a param says."""
    dims = tensor.dim()
    position = dim if dim >= 0 else dims + dim
    if not 0 <= position < dims:
        raise ValueError(f"the tensor has the shape {list(tensor.shape)}, which has no dimension {dim} for param {param!r}")
    if tensor.shape[position] != size:
        raise ValueError(
            f"the tensor has {tensor.shape[position]} {what} (dimension {position} of {list(tensor.shape)}) "
            f"but param {param!r} is {size}; set it to {tensor.shape[position]}"
        )


def check_dims(tensor: Any, allowed: tuple[int, ...], shape: str) -> None:
    """Checks the number of dimensions; ``shape`` says what is wanted."""
    if tensor.dim() not in allowed:
        raise ValueError(f"the tensor has the shape {list(tensor.shape)}; wanted is {shape}")


def check_divides(part: int, whole: int, part_param: str, whole_param: str) -> None:
    """Checks that one param divides another."""
    if part < 1 or whole % part:
        raise ValueError(f"param {whole_param!r} ({whole}) is not a multiple of param {part_param!r} ({part}); change one of them")


def seeded_linear(generator: Any, inputs: int, outputs: int) -> Any:
    """A Linear layer with PyTorch's own initial distribution, drawn from
    ``generator`` so that the seed of a node settles it."""
    import torch

    layer = torch.nn.Linear(inputs, outputs)
    bound = inputs ** -0.5
    with torch.no_grad():
        layer.weight.uniform_(-bound, bound, generator=generator)
        layer.bias.uniform_(-bound, bound, generator=generator)
    return layer
