"""Normalization: layers that centre and scale their input.

All are freshly made in each run and use the statistics of their input.
"""

from __future__ import annotations

from typing import Any, Mapping

from cdui.node import Param
from cdui.nodes import parsing
from cdui.nodes.modules import ModuleNode, check_dims, check_divides, check_size


class BatchNorm1d(ModuleNode):
    NODE_NAME = "BatchNorm1d"
    CATEGORY = "Normalization"
    DESCRIPTION = "Normalises each feature over the batch (training statistics)."
    IN = "(N, C) or (N, C, L)"

    @classmethod
    def params(cls) -> list[Param]:
        return [Param("num_features", "int", 128, "features C of the input")]

    def check(self, tensor: Any, params: Mapping[str, Any]) -> None:
        check_dims(tensor, (2, 3), self.IN)
        check_size(tensor, 1, params["num_features"], "num_features", "features")

    def build(self, params: Mapping[str, Any]) -> Any:
        import torch

        return torch.nn.BatchNorm1d(params["num_features"])


class GroupNorm(ModuleNode):
    NODE_NAME = "GroupNorm"
    CATEGORY = "Normalization"
    DESCRIPTION = "Normalises groups of channels of each sample."
    IN = "(N, C, ...)"

    @classmethod
    def params(cls) -> list[Param]:
        return [
            Param("num_groups", "int", 32, "number of groups; divides num_channels"),
            Param("num_channels", "int", 256, "channels C of the input"),
        ]

    def check(self, tensor: Any, params: Mapping[str, Any]) -> None:
        check_divides(params["num_groups"], params["num_channels"], "num_groups", "num_channels")
        check_size(tensor, 1, params["num_channels"], "num_channels", "channels")

    def build(self, params: Mapping[str, Any]) -> Any:
        import torch

        return torch.nn.GroupNorm(params["num_groups"], params["num_channels"])


class InstanceNorm2d(ModuleNode):
    NODE_NAME = "InstanceNorm2d"
    CATEGORY = "Normalization"
    DESCRIPTION = "Normalises each channel of each image."
    IN = "(N, C, H, W) or (C, H, W)"

    @classmethod
    def params(cls) -> list[Param]:
        return [
            Param("num_features", "int", 64, "channels C of the input"),
            Param("affine", "bool", False, "whether there is a weight and a bias for each channel"),
        ]

    def check(self, tensor: Any, params: Mapping[str, Any]) -> None:
        check_dims(tensor, (3, 4), self.IN)
        check_size(tensor, -3, params["num_features"], "num_features", "channels")

    def build(self, params: Mapping[str, Any]) -> Any:
        import torch

        return torch.nn.InstanceNorm2d(params["num_features"], affine=bool(params["affine"]))


class LayerNorm(ModuleNode):
    NODE_NAME = "LayerNorm"
    CATEGORY = "Normalization"
    DESCRIPTION = "Normalises over the last dimensions of each sample."
    IN = "(..., normalized_shape)"

    @classmethod
    def params(cls) -> list[Param]:
        return [
            Param("normalized_shape", "string", "512", "sizes of the last dimensions, with commas between them"),
            Param("eps", "float", 1e-05, "added to the variance"),
        ]

    def check(self, tensor: Any, params: Mapping[str, Any]) -> None:
        sizes = parsing.integers(params["normalized_shape"], "normalized_shape", at_least=1)
        if list(tensor.shape[-len(sizes):]) != sizes:
            raise ValueError(
                f"the tensor has the shape {list(tensor.shape)}, which does not end with param 'normalized_shape' "
                f"({','.join(map(str, sizes))}); set it to the sizes of the last dimensions")

    def build(self, params: Mapping[str, Any]) -> Any:
        import torch

        sizes = parsing.integers(params["normalized_shape"], "normalized_shape", at_least=1)
        return torch.nn.LayerNorm(sizes, eps=params["eps"])


NODES = [BatchNorm1d, GroupNorm, InstanceNorm2d, LayerNorm]
