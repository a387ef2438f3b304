"""Building a loss from params, applying it to a batch, counting right answers."""

from __future__ import annotations

from typing import Any, Mapping

from cdui.nodes import parsing

#: The losses that Loss offers.
TYPES = (
    "CrossEntropyLoss", "MSELoss", "BCEWithLogitsLoss", "L1Loss", "SmoothL1Loss", "NLLLoss", "KLDivLoss", "HuberLoss",
    "BCELoss", "MarginRankingLoss", "CosineEmbeddingLoss",
)

#: Which losses know a param beyond reduction.
KNOBS = {
    "label_smoothing": ("CrossEntropyLoss",),
    "weight": ("CrossEntropyLoss", "NLLLoss", "BCEWithLogitsLoss", "BCELoss"),
    "ignore_index": ("CrossEntropyLoss", "NLLLoss"),
    "pos_weight": ("BCEWithLogitsLoss",),
}

_CLASS_LOSSES = ("CrossEntropyLoss", "NLLLoss")
_PAIR_LOSSES = ("MarginRankingLoss", "CosineEmbeddingLoss")


def build(params: Mapping[str, Any]) -> Any:
    """The loss module that the params of Loss describe."""
    import torch

    kind = params["type"]
    if kind not in TYPES:
        raise ValueError(f"type is {kind!r}: choose {', '.join(TYPES)}")
    given: dict[str, Any] = {"reduction": params["reduction"]}
    for knob in ("label_smoothing", "ignore_index"):
        if kind in KNOBS[knob]:
            given[knob] = params[knob]
    for knob in ("weight", "pos_weight"):
        if kind in KNOBS[knob] and str(params[knob] or "").strip():
            given[knob] = torch.tensor(parsing.floats(params[knob], knob))
    return getattr(torch.nn, kind)(**given)


def apply(loss_fn: Any, output: Any, target: Any) -> Any:
    """The loss of a batch, as one number.

    The target is brought into the form that the loss wants where that is beyond
    doubt: whole numbers become floats for losses that compare values, and a
    target of as many elements takes the output's shape. Classes of sequences may
    have the output ``[batch, length, classes]``. A model with two outputs serves
    the losses that compare a pair.
    """
    kind = type(loss_fn).__name__
    if isinstance(output, dict):
        output = tuple(output.values())
    if isinstance(output, (tuple, list)):
        if kind not in _PAIR_LOSSES or len(output) != 2:
            raise ValueError(f"the model has {len(output)} outputs, and {kind} takes {2 if kind in _PAIR_LOSSES else 1}: give the model as many")
        loss = loss_fn(*output, target)
    elif kind in _PAIR_LOSSES:
        raise ValueError(f"{kind} compares two outputs and the model has one: choose another loss or a model with two outputs")
    elif kind in _CLASS_LOSSES:
        loss = loss_fn(*_classes_second(output, target))
    else:
        loss = loss_fn(output, _values(output, target))
    return loss if loss.dim() == 0 else loss.mean()


def _is_sequence(output: Any, target: Any) -> bool:
    """Whether classes come last, as language models have them, and not second."""
    return output.dim() == 3 and target.dim() == 2 and output.shape[:2] == target.shape and output.shape[2] != target.shape[1]


def _classes_second(output: Any, target: Any) -> tuple[Any, Any]:
    if not target.is_floating_point() and target.dtype is not output.dtype:
        target = target.long()
    if _is_sequence(output, target):
        return output.flatten(0, 1), target.flatten()
    return output, target


def _values(output: Any, target: Any) -> Any:
    if not target.is_floating_point():
        target = target.to(output.dtype)
    if target.shape != output.shape and target.numel() == output.numel():
        target = target.reshape(output.shape)
    if target.shape != output.shape:
        # torch would broadcast, with a warning that nobody sees, and learn something else.
        raise ValueError(
            f"the model's output has the shape {list(output.shape)} and the target {list(target.shape)}: this loss needs the same shape"
        )
    return target


def count_correct(output: Any, target: Any, loss_fn: Any = None) -> tuple[int, int] | None:
    """How many predictions are right and how many there are; None where output
    and target don't speak of classes.

    ``output`` is ``[batch, classes, …]`` (or ``[batch, length, classes]``) with
    targets ``[batch, …]``, or one number a target of 0 or 1: a logit, or a
    probability for BCELoss. Without ``loss_fn`` the shapes decide.
    """
    kind = type(loss_fn).__name__ if loss_fn is not None else ""
    if not hasattr(output, "dim") or not hasattr(target, "dim"):
        return None
    if kind in ("", *_CLASS_LOSSES) and not target.is_floating_point() and output.dim() == target.dim() + 1:
        if _is_sequence(output, target):
            guess = output.argmax(-1)
        elif output.shape[:1] + output.shape[2:] == target.shape and (output.shape[1] > 1 or kind):
            guess = output.argmax(1)
        else:
            guess = None
        if guess is not None:
            counted = target != getattr(loss_fn, "ignore_index", -100)
            return int(((guess == target) & counted).sum()), int(counted.sum())
    if kind in ("", "BCEWithLogitsLoss", "BCELoss") and output.numel() == target.numel():
        guess = output.flatten() > (0.5 if kind == "BCELoss" else 0)
        return int((guess == (target.flatten() > 0.5)).sum()), target.numel()
    return None
