"""Transformer: attention, encoders, decoders and mixtures of experts.

L and S are lengths, N is the batch.
"""

from __future__ import annotations

from typing import Any, Mapping

from cdui.node import Node, Param, Port
from cdui.nodes.modules import as_float, beside, check_divides, check_size, seeded_linear


class MultiHeadAttention(Node):
    NODE_NAME = "MultiHeadAttention"
    CATEGORY = "Transformer"
    DESCRIPTION = "Attention of each query to all keys, in several heads, with new weights in each run."
    cacheable = False

    @classmethod
    def inputs(cls, params: Mapping[str, Any] | None = None) -> list[Port]:
        return [
            Port("query", "TENSOR", "(N, L, embed_dim) or (L, embed_dim)"),
            Port("key", "TENSOR", "(N, S, embed_dim) or (S, embed_dim)"),
            Port("value", "TENSOR", "the shape of key"),
        ]

    @classmethod
    def outputs(cls, params: Mapping[str, Any] | None = None) -> list[Port]:
        return [
            Port("output", "TENSOR", "the shape of query"),
            Port("weights", "TENSOR", "averaged over the heads: (N, L, S) or (L, S); rows sum to 1"),
        ]

    @classmethod
    def params(cls) -> list[Param]:
        return [
            Param("embed_dim", "int", 512, "features of query, key and value"),
            Param("num_heads", "int", 8, "heads; divides embed_dim"),
        ]

    def execute(self, inputs: dict[str, Any], params: dict[str, Any]) -> dict[str, Any]:
        import torch

        size = params["embed_dim"]
        check_divides(params["num_heads"], size, "num_heads", "embed_dim")
        query = as_float(inputs["query"])
        key, value = inputs["key"].to(query), inputs["value"].to(query)
        for tensor in (query, key, value):
            check_size(tensor, -1, size, "embed_dim", "features")
        attention = beside(torch.nn.MultiheadAttention(size, params["num_heads"], batch_first=True), query)
        output, weights = attention(query, key, value)
        return {"output": output, "weights": weights}


def stack_params() -> list[Param]:
    """The settings of an encoder and a decoder."""
    return [
        Param("d_model", "int", 512, "features of each step"),
        Param("nhead", "int", 8, "heads of the attention; divides d_model"),
        Param("num_layers", "int", 6, "layers on top of each other"),
        Param("dim_feedforward", "int", 2048, "features within a layer's feed-forward part"),
    ]


class TransformerEncoder(Node):
    NODE_NAME = "TransformerEncoder"
    CATEGORY = "Transformer"
    DESCRIPTION = "A stack of encoder layers, with new weights in each run and dropout 0.1, as in training."
    DETAILS = "The sequence is the first dimension, the batch the second."
    cacheable = False

    @classmethod
    def inputs(cls, params: Mapping[str, Any] | None = None) -> list[Port]:
        return [Port("tensor", "TENSOR", "(L, N, d_model) or (L, d_model)")]

    @classmethod
    def outputs(cls, params: Mapping[str, Any] | None = None) -> list[Port]:
        return [Port("tensor", "TENSOR", "the shape of the input")]

    @classmethod
    def params(cls) -> list[Param]:
        return stack_params()

    def execute(self, inputs: dict[str, Any], params: dict[str, Any]) -> dict[str, Any]:
        import torch

        tensor = as_float(inputs["tensor"])
        check_divides(params["nhead"], params["d_model"], "nhead", "d_model")
        check_size(tensor, -1, params["d_model"], "d_model", "features")
        layer = torch.nn.TransformerEncoderLayer(params["d_model"], params["nhead"], params["dim_feedforward"])
        encoder = torch.nn.TransformerEncoder(layer, params["num_layers"], enable_nested_tensor=False)
        return {"tensor": beside(encoder, tensor)(tensor)}


class TransformerDecoder(Node):
    NODE_NAME = "TransformerDecoder"
    CATEGORY = "Transformer"
    DESCRIPTION = "A stack of decoder layers, with new weights in each run and dropout 0.1, as in training."
    DETAILS = "The sequence is the first dimension, the batch the second."
    cacheable = False

    @classmethod
    def inputs(cls, params: Mapping[str, Any] | None = None) -> list[Port]:
        return [
            Port("tensor", "TENSOR", "(L, N, d_model) or (L, d_model)"),
            Port("memory", "TENSOR", "what an encoder gave: (S, N, d_model) or (S, d_model)"),
        ]

    @classmethod
    def outputs(cls, params: Mapping[str, Any] | None = None) -> list[Port]:
        return [Port("tensor", "TENSOR", "the shape of tensor")]

    @classmethod
    def params(cls) -> list[Param]:
        return stack_params()

    def execute(self, inputs: dict[str, Any], params: dict[str, Any]) -> dict[str, Any]:
        import torch

        tensor = as_float(inputs["tensor"])
        memory = inputs["memory"].to(tensor)
        check_divides(params["nhead"], params["d_model"], "nhead", "d_model")
        for each in (tensor, memory):
            check_size(each, -1, params["d_model"], "d_model", "features")
        layer = torch.nn.TransformerDecoderLayer(params["d_model"], params["nhead"], params["dim_feedforward"])
        decoder = torch.nn.TransformerDecoder(layer, params["num_layers"])
        return {"tensor": beside(decoder, tensor)(tensor, memory)}


class MoELayer(Node):
    NODE_NAME = "MoELayer"
    CATEGORY = "Transformer"
    DESCRIPTION = "A mixture of experts: a router sends each token to its best experts."
    DETAILS = "An expert is Linear, ReLU, Linear. The weights of the chosen experts are a softmax over their router values."

    @classmethod
    def inputs(cls, params: Mapping[str, Any] | None = None) -> list[Port]:
        return [Port("x", "TENSOR", "(..., hidden_dim)")]

    @classmethod
    def outputs(cls, params: Mapping[str, Any] | None = None) -> list[Port]:
        return [
            Port("output", "TENSOR", "the shape of x"),
            Port("routing_weights", "TENSOR", "(..., top_k), summing to 1, largest first"),
            Port("expert_indices", "TENSOR", "(..., top_k), the expert of each weight, int64"),
        ]

    @classmethod
    def params(cls) -> list[Param]:
        return [
            Param("num_experts", "int", 4, "number of experts", min_value=1),
            Param("top_k", "int", 2, "experts for each token; at most num_experts", min_value=1),
            Param("hidden_dim", "int", 128, "features of a token", min_value=1),
            Param("expert_hidden_dim", "int", 256, "features within an expert", min_value=1),
            Param("seed", "int", 42, "settles the weights"),
        ]

    def execute(self, inputs: dict[str, Any], params: dict[str, Any]) -> dict[str, Any]:
        import torch

        x, experts, top_k = as_float(inputs["x"]), params["num_experts"], params["top_k"]
        hidden, inner = params["hidden_dim"], params["expert_hidden_dim"]
        check_size(x, -1, hidden, "hidden_dim", "features")
        if top_k > experts:
            raise ValueError(f"param 'top_k' ({top_k}) is more than param 'num_experts' ({experts}); change one of them")
        generator = torch.Generator().manual_seed(params["seed"])
        router = beside(seeded_linear(generator, hidden, experts), x)
        layers = [
            beside(torch.nn.Sequential(
                seeded_linear(generator, hidden, inner), torch.nn.ReLU(), seeded_linear(generator, inner, hidden)), x)
            for _ in range(experts)
        ]
        tokens = x.reshape(-1, hidden)
        best, indices = router(tokens).topk(top_k, dim=-1)
        weights = best.softmax(dim=-1)
        output = torch.zeros_like(tokens)
        for number, expert in enumerate(layers):
            token, place = (indices == number).nonzero(as_tuple=True)
            if len(token):
                output = output.index_add(0, token, expert(tokens[token]) * weights[token, place].unsqueeze(-1))
        leading = x.shape[:-1]
        return {
            "output": output.reshape(x.shape),
            "routing_weights": weights.reshape(*leading, top_k),
            "expert_indices": indices.reshape(*leading, top_k),
        }


NODES = [MoELayer, MultiHeadAttention, TransformerDecoder, TransformerEncoder]
