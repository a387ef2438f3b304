"""The layers of SequentialModel, and the module that runs a description."""

from __future__ import annotations

import functools
from typing import Any, Callable, Mapping

from cdui.nodes import parsing
from cdui.nodes.late_classes import LateClasses

#: Layers that are PyTorch's, with its constructor's keyword arguments.
_TORCH = (
    "Conv2d", "Conv1d", "ConvTranspose2d", "BatchNorm2d", "BatchNorm1d", "LayerNorm", "GroupNorm", "InstanceNorm2d",
    "MaxPool2d", "AvgPool2d", "AdaptiveAvgPool2d", "Dropout", "Linear", "Flatten", "Embedding",
)

#: Activations; their params don't count.
_ACTIVATIONS = ("ReLU", "GELU", "Sigmoid", "Tanh", "LeakyReLU", "ELU", "SiLU", "Mish", "SELU", "PReLU", "Hardswish", "Softmax")

#: Layers that join several inputs: the least and the most they take.
MERGES: dict[str, tuple[int, float]] = {
    "Add": (2, float("inf")), "Multiply": (2, float("inf")), "Mean": (2, float("inf")), "Subtract": (2, 2),
    "Concat": (2, float("inf")), "Stack": (2, float("inf")),
}

_WRAPPERS = ("Reshape", "SelectIndex", "TransformerEncoder", "TransformerDecoder", "LSTM", "GRU", "MultiHeadAttention")

#: Every type of a layer.
KINDS = frozenset((*_TORCH, *_ACTIVATIONS, *MERGES, *_WRAPPERS))


def _make_classes() -> list[Any]:
    from torch import nn

    class Reshape(nn.Module):
        """``[batch, …]`` to ``[batch, *shape]``."""

        def __init__(self, shape: Any) -> None:
            super().__init__()
            self.shape = parsing.integers(shape, "shape", at_least=1)

        def forward(self, x: Any) -> Any:
            return x.reshape(x.shape[0], *self.shape)

    class SelectIndex(nn.Module):
        """One slice of dimension ``dim``, which goes."""

        def __init__(self, dim: int = 1, index: int = 0) -> None:
            super().__init__()
            self.dim, self.index = int(dim), int(index)

        def forward(self, x: Any) -> Any:
            return x.select(self.dim, self.index)

    class Transformer(nn.Module):
        """Encoder or decoder layers over ``[batch, length, d_model]``; a decoder
        attends to its own input as memory."""

        def __init__(self, decoder: bool, d_model: int, nhead: int, num_layers: int = 1, dim_feedforward: int = 2048) -> None:
            super().__init__()
            layer = nn.TransformerDecoderLayer if decoder else nn.TransformerEncoderLayer
            stack = nn.TransformerDecoder if decoder else nn.TransformerEncoder
            self.decoder = decoder
            self.stack = stack(layer(d_model, nhead, dim_feedforward, batch_first=True), num_layers)

        def forward(self, x: Any) -> Any:
            return self.stack(x, x) if self.decoder else self.stack(x)

    class Recurrent(nn.Module):
        """The sequence that an LSTM or GRU gives, without its hidden state."""

        def __init__(self, kind: Any, **params: Any) -> None:
            super().__init__()
            self.rnn = kind(**params)

        def forward(self, x: Any) -> Any:
            return self.rnn(x)[0]

    class SelfAttention(nn.Module):
        """Attention of ``[batch, length, embed_dim]`` to itself."""

        def __init__(self, embed_dim: int, num_heads: int) -> None:
            super().__init__()
            self.attention = nn.MultiheadAttention(embed_dim, num_heads, batch_first=True)

        def forward(self, x: Any) -> Any:
            return self.attention(x, x, x, need_weights=False)[0]

    class Merge(nn.Module):
        """Joins its inputs, in the order of the edges."""

        def __init__(self, kind: str, dim: int = 1) -> None:
            super().__init__()
            self.kind, self.dim = kind, int(dim)

        def forward(self, *parts: Any) -> Any:
            import torch

            if self.kind in ("Concat", "Stack"):
                return (torch.cat if self.kind == "Concat" else torch.stack)(parts, dim=self.dim)
            first, *rest = parts
            for part in rest:
                first = first * part if self.kind == "Multiply" else first - part if self.kind == "Subtract" else first + part
            return first / len(parts) if self.kind == "Mean" else first

        def extra_repr(self) -> str:
            return self.kind

    class Network(nn.Module):
        """Runs the layers of a plan. Inputs are given in the order of the ports or
        by name."""

        def __init__(self, plan: Any) -> None:
            super().__init__()
            self.plan = plan
            self.layers = nn.ModuleDict()
            for name, kind, params in plan.layers:
                if hasattr(self.layers, name):
                    raise ValueError(f"layers can't be used: PyTorch keeps the name {name!r} for itself; rename that node")
                self.layers[name] = build(name, kind, params)

        def forward(self, *args: Any, **named: Any) -> Any:
            names = self.plan.inputs
            if len(args) > len(names) or set(names[:len(args)]) & set(named) or set(named) - set(names) or len(args) + len(named) != len(names):
                given = ", ".join([*(f"number {n}" for n in range(1, len(args) + 1)), *named]) or "none"
                raise TypeError(f"the model takes the inputs {', '.join(names)} and was given {given}")
            values: dict[tuple[str, str], Any] = {("in", name): value for name, value in (*zip(names, args), *named.items())}
            for name, _, _ in self.plan.layers:
                values["layer", name] = self.layers[name](*(values[source] for source in self.plan.sources[name]))
            outputs = {name: values[source] for name, source in self.plan.outputs}
            return outputs if len(outputs) > 1 else next(iter(outputs.values()))

    return [Reshape, SelectIndex, Transformer, Recurrent, SelfAttention, Merge, Network]


_CLASSES = LateClasses(__name__, ("Reshape", "SelectIndex", "Transformer", "Recurrent", "SelfAttention", "Merge", "Network"), _make_classes)
__getattr__ = _CLASSES.attribute


def build_network(plan: Any) -> Any:
    """The module for a checked plan; its weights come from the global generator."""
    return _CLASSES["Network"](plan)


def build(name: str, kind: str, params: Mapping[str, Any]) -> Any:
    """One layer; an argument that it does not take is named."""
    from torch import nn

    own = _CLASSES
    makers: dict[str, Callable[..., Any]] = {
        "TransformerEncoder": functools.partial(own["Transformer"], False),
        "TransformerDecoder": functools.partial(own["Transformer"], True),
        "LSTM": functools.partial(own["Recurrent"], nn.LSTM),
        "GRU": functools.partial(own["Recurrent"], nn.GRU),
        "MultiHeadAttention": own["SelfAttention"],
        "Reshape": own["Reshape"],
        "SelectIndex": own["SelectIndex"],
    }
    try:
        if kind == "Softmax":
            return nn.Softmax(dim=-1)
        if kind in _ACTIVATIONS:
            return getattr(nn, kind)()
        if kind in MERGES:
            return own["Merge"](kind, **(params if kind in ("Concat", "Stack") else {}))
        return (makers.get(kind) or getattr(nn, kind))(**params)
    except (TypeError, ValueError, RuntimeError, AssertionError) as error:
        raise ValueError(f"layers can't be used: the layer {name!r} ({kind}) refuses its params {dict(params)}: {error}") from error
