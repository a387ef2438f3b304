"""Utility: shapes, look-ups, printing and the Linear layer."""

from __future__ import annotations

from typing import Any, Mapping

from cdui.node import Node, Param, Port
from cdui.nodes import parsing
from cdui.nodes.modules import ModuleNode, TensorNode, check_size
from cdui.nodes.tensor_operations import PairNode

#: Longer values are cut in the log; the run's outputs hold them whole.
PRINT_CHARACTERS = 20_000


class Concat(PairNode):
    NODE_NAME = "Concat"
    CATEGORY = "Utility"
    DESCRIPTION = "Joins two tensors along a dimension that they have."
    B = "the shape of tensor_a but for dim"
    OUT = "the sizes at dim added up"

    @classmethod
    def params(cls) -> list[Param]:
        return [Param("dim", "int", 0, "the dimension")]

    def execute(self, inputs: dict[str, Any], params: dict[str, Any]) -> dict[str, Any]:
        import torch

        return {"tensor": torch.cat([inputs["tensor_a"], inputs["tensor_b"]], dim=params["dim"])}


class Embedding(TensorNode):
    NODE_NAME = "Embedding"
    CATEGORY = "Utility"
    DESCRIPTION = "Looks up a vector for each id, with new vectors in each run."
    IN = "ids of any shape (...), 0 to num_embeddings - 1"
    OUT = "(..., embedding_dim)"
    cacheable = False

    @classmethod
    def params(cls) -> list[Param]:
        return [
            Param("num_embeddings", "int", 10000, "number of vectors"),
            Param("embedding_dim", "int", 256, "values of a vector"),
            Param("padding_idx", "int", -1, "id whose vector is zero; -1 for none"),
        ]

    def execute(self, inputs: dict[str, Any], params: dict[str, Any]) -> dict[str, Any]:
        import torch

        ids, size, padding = inputs["tensor"].long(), params["num_embeddings"], params["padding_idx"]
        if ids.numel() and not (0 <= int(ids.min()) and int(ids.max()) < size):
            raise ValueError(
                f"the ids go from {int(ids.min())} to {int(ids.max())} and param 'num_embeddings' ({size}) "
                f"allows 0 to {size - 1}; raise it or mend the ids")
        table = torch.nn.Embedding(size, params["embedding_dim"], padding_idx=None if padding < 0 else padding)
        return {"tensor": table.to(ids.device)(ids)}


class Flatten(TensorNode):
    NODE_NAME = "Flatten"
    CATEGORY = "Utility"
    DESCRIPTION = "Merges the dimensions from start_dim on into one."
    OUT = "(the first start_dim sizes, the product of the others)"

    @classmethod
    def params(cls) -> list[Param]:
        return [Param("start_dim", "int", 1, "the first dimension that is merged")]

    def execute(self, inputs: dict[str, Any], params: dict[str, Any]) -> dict[str, Any]:
        return {"tensor": inputs["tensor"].flatten(start_dim=params["start_dim"])}


class Linear(ModuleNode):
    NODE_NAME = "Linear"
    CATEGORY = "Utility"
    DESCRIPTION = "A fully connected layer, with new weights in each run."
    IN = "(..., in_features)"
    OUT = "(..., out_features)"

    @classmethod
    def params(cls) -> list[Param]:
        return [Param("in_features", "int", 512, "features of the input"), Param("out_features", "int", 10, "features of the result")]

    def check(self, tensor: Any, params: Mapping[str, Any]) -> None:
        check_size(tensor, -1, params["in_features"], "in_features", "features")

    def build(self, params: Mapping[str, Any]) -> Any:
        import torch

        return torch.nn.Linear(params["in_features"], params["out_features"])


class Print(Node):
    NODE_NAME = "Print"
    CATEGORY = "Utility"
    DESCRIPTION = "Writes a value to the log and passes it on."
    align_inputs = False

    @classmethod
    def inputs(cls, params: Mapping[str, Any] | None = None) -> list[Port]:
        return [Port("value", "ANY", "what is written")]

    @classmethod
    def outputs(cls, params: Mapping[str, Any] | None = None) -> list[Port]:
        return [Port("value", "ANY", "the input, unchanged")]

    @classmethod
    def params(cls) -> list[Param]:
        return [Param("label", "string", "", "written before the value, in brackets")]

    def execute(self, inputs: dict[str, Any], params: dict[str, Any]) -> dict[str, Any]:
        value, label = inputs["value"], str(params["label"] or "")
        line = f"[{label}] {value}" if label else str(value)
        if len(line) > PRINT_CHARACTERS:
            line = line[:PRINT_CHARACTERS] + "..."
        return {"value": value, "__log__": line}


class Reshape(TensorNode):
    NODE_NAME = "Reshape"
    CATEGORY = "Utility"
    DESCRIPTION = "Gives the values another shape; they keep their order."
    OUT = "shape"

    @classmethod
    def params(cls) -> list[Param]:
        return [Param("shape", "string", "-1,784", "sizes with commas between them; one may be -1 and is worked out")]

    def execute(self, inputs: dict[str, Any], params: dict[str, Any]) -> dict[str, Any]:
        tensor, shape = inputs["tensor"], parsing.integers(params["shape"], "shape", at_least=1)
        try:
            return {"tensor": tensor.reshape(shape)}
        except RuntimeError:
            raise ValueError(
                f"param 'shape' ({params['shape']}) doesn't fit the {tensor.numel()} values of {list(tensor.shape)}; "
                f"give sizes whose product is {tensor.numel()}, or -1 for one of them") from None


NODES = [Concat, Embedding, Flatten, Linear, Print, Reshape]
