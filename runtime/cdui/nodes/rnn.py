"""RNN: recurrent layers over sequences."""

from __future__ import annotations

from typing import Any, Mapping

from cdui.node import Node, Param, Port
from cdui.nodes.modules import as_float, beside, check_dims, check_size


class Recurrent(Node):
    """What GRU and LSTM share: shapes, settings and the call."""

    CATEGORY = "RNN"
    LAYER = ""
    cacheable = False

    @classmethod
    def inputs(cls, params: Mapping[str, Any] | None = None) -> list[Port]:
        return [Port("tensor", "TENSOR", "(N, T, input_size); (T, N, input_size) without batch_first; (T, input_size) for one")]

    @classmethod
    def outputs(cls, params: Mapping[str, Any] | None = None) -> list[Port]:
        return [
            Port("output", "TENSOR", "the last layer at each step: (N, T, D*hidden_size), D = 2 if bidirectional, else 1"),
            Port("hidden", "TENSOR", "each layer after the last step: (D*num_layers, N, hidden_size)"),
        ]

    @classmethod
    def params(cls) -> list[Param]:
        return [
            Param("input_size", "int", 128, "features of each step"),
            Param("hidden_size", "int", 256, "features of the state"),
            Param("num_layers", "int", 1, "layers on top of each other"),
            Param("batch_first", "bool", True, "whether the batch is the first dimension, before time"),
            Param("bidirectional", "bool", False, "whether a second direction runs backwards"),
        ]

    def execute(self, inputs: dict[str, Any], params: dict[str, Any]) -> dict[str, Any]:
        import torch

        tensor = as_float(inputs["tensor"])
        check_dims(tensor, (2, 3), "(N, T, input_size) or (T, input_size)")
        check_size(tensor, -1, params["input_size"], "input_size", "features")
        layer = getattr(torch.nn, self.LAYER)(
            params["input_size"], params["hidden_size"], params["num_layers"],
            batch_first=bool(params["batch_first"]), bidirectional=bool(params["bidirectional"]))
        output, state = beside(layer, tensor)(tensor)
        # The state of an LSTM is a pair of hidden and cell state.
        return {"output": output, "hidden": state[0] if isinstance(state, tuple) else state}


class GRU(Recurrent):
    NODE_NAME = LAYER = "GRU"
    DESCRIPTION = "Gated recurrent units over a sequence, with new weights in each run."


class LSTM(Recurrent):
    NODE_NAME = LAYER = "LSTM"
    DESCRIPTION = "Long short-term memory over a sequence, with new weights in each run."


class RNNCell(Node):
    NODE_NAME = "RNNCell"
    CATEGORY = "RNN"
    DESCRIPTION = "One step of a simple recurrent layer; the seed settles its weights."
    cacheable = False

    @classmethod
    def inputs(cls, params: Mapping[str, Any] | None = None) -> list[Port]:
        return [
            Port("tensor", "TENSOR", "(N, input_size) or (input_size)"),
            Port("hidden", "TENSOR", "state before the step, (N, hidden_size) or (hidden_size); zeros if unwired", optional=True),
        ]

    @classmethod
    def outputs(cls, params: Mapping[str, Any] | None = None) -> list[Port]:
        return [Port("hidden", "TENSOR", "state after the step, (N, hidden_size) or (hidden_size)")]

    @classmethod
    def params(cls) -> list[Param]:
        return [
            Param("input_size", "int", 8, "features of the input", min_value=1),
            Param("hidden_size", "int", 16, "features of the state", min_value=1),
            Param("nonlinearity", "select", "tanh", "function of the step", options=("tanh", "relu")),
            Param("seed", "int", 42, "settles the weights"),
        ]

    def execute(self, inputs: dict[str, Any], params: dict[str, Any]) -> dict[str, Any]:
        import torch

        tensor, hidden = as_float(inputs["tensor"]), inputs.get("hidden")
        check_dims(tensor, (1, 2), "(N, input_size) or (input_size)")
        check_size(tensor, -1, params["input_size"], "input_size", "features")
        cell = torch.nn.RNNCell(params["input_size"], params["hidden_size"], nonlinearity=params["nonlinearity"])
        generator, bound = torch.Generator().manual_seed(params["seed"]), params["hidden_size"] ** -0.5
        with torch.no_grad():
            for weights in cell.parameters():
                weights.uniform_(-bound, bound, generator=generator)
        if hidden is not None:
            check_size(hidden, -1, params["hidden_size"], "hidden_size", "state features")
            hidden = hidden.to(tensor)
        return {"hidden": beside(cell, tensor)(tensor, hidden)}


NODES = [GRU, LSTM, RNNCell]
