"""Losses, optimizers, schedules and evaluation against plain torch."""
import math

import pytest

from cdui.node import Context, call, fill_params

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.optim import lr_scheduler  # noqa: E402

from cdui.nodes import losses, optimizers, training  # noqa: E402


def run(node, inputs=None, context=None, **params):
    return call(node(), inputs or {}, fill_params(node, params), lambda payload: None, context or Context())


def loss(**params):
    return run(training.Loss, **params)["loss_fn"]


LOGITS, CLASSES = torch.randn(6, 3), torch.tensor([0, 1, 2, 2, -100, 0])


@pytest.mark.parametrize("params, plain", [
    ({}, nn.CrossEntropyLoss()),
    ({"label_smoothing": 0.1, "weight": "1, 2,3", "reduction": "sum"}, nn.CrossEntropyLoss(torch.tensor([1.0, 2, 3]), label_smoothing=0.1, reduction="sum")),
    ({"type": "NLLLoss", "ignore_index": 2}, nn.NLLLoss(ignore_index=2)),
])
def test_losses_of_classes(params, plain):
    """Proves B.3, B.4."""
    target = CLASSES.clamp(min=0)
    assert torch.equal(losses.apply(loss(**params), LOGITS, target), plain(LOGITS, target))


@pytest.mark.parametrize("kind", ["MSELoss", "L1Loss", "SmoothL1Loss", "HuberLoss", "BCEWithLogitsLoss", "BCELoss", "KLDivLoss"])
def test_losses_of_values_take_the_shape_of_the_output(kind):
    output, target = torch.rand(6, 1), torch.tensor([0, 1, 1, 0, 1, 0])
    wanted = getattr(nn, kind)()(output, target.float().unsqueeze(1))
    assert torch.equal(losses.apply(loss(type=kind), output, target), wanted)
    assert torch.allclose(losses.apply(loss(type=kind, reduction="none"), output, target), wanted)


def test_weight_of_yes():
    wanted = nn.BCEWithLogitsLoss(pos_weight=torch.tensor([4.0]))(torch.ones(2, 1), torch.ones(2, 1))
    assert torch.equal(losses.apply(loss(type="BCEWithLogitsLoss", pos_weight="4"), torch.ones(2, 1), torch.ones(2)), wanted)


def test_losses_of_pairs():
    a, b, y = torch.randn(4), torch.randn(4), torch.tensor([1, -1, 1, -1])
    assert torch.equal(losses.apply(loss(type="MarginRankingLoss"), {"a": a, "b": b}, y), nn.MarginRankingLoss()(a, b, y))
    with pytest.raises(ValueError, match="compares two outputs and the model has one"):
        losses.apply(loss(type="CosineEmbeddingLoss"), a, y)
    with pytest.raises(ValueError, match="the model has 2 outputs, and MSELoss takes 1"):
        losses.apply(loss(type="MSELoss"), (a, b), y)


def test_classes_of_sequences():
    output, target = torch.randn(2, 5, 7), torch.randint(0, 7, (2, 5))
    wanted = nn.CrossEntropyLoss()(output.transpose(1, 2), target)
    assert torch.allclose(losses.apply(loss(), output, target), wanted)
    assert torch.equal(losses.apply(loss(), output.transpose(1, 2), target), wanted)


def test_what_is_wrong_with_a_loss_is_said():
    with pytest.raises(ValueError, match=r"output has the shape \[4, 3\] and the target \[4\]"):
        losses.apply(loss(type="MSELoss"), torch.ones(4, 3), torch.ones(4))
    with pytest.raises(ValueError, match="type is 'X': choose CrossEntropyLoss, "):
        loss(type="X")
    with pytest.raises(ValueError, match="weight must be numbers"):
        loss(weight="a")


def test_leftover_values_of_hidden_params_do_not_count():
    assert loss(type="MSELoss", label_smoothing=0.5, weight="1,2").reduction == "mean"


@pytest.mark.parametrize("output, target, loss_fn, wanted", [
    (torch.eye(3), torch.tensor([0, 1, 0]), nn.CrossEntropyLoss(), (2, 3)),
    (torch.eye(3), torch.tensor([0, 1, -100]), nn.CrossEntropyLoss(), (2, 2)),
    (torch.eye(3), torch.tensor([0, 1, 0]), None, (2, 3)),
    (torch.eye(3)[None].expand(2, 3, 3), torch.tensor([[0, 1, 2], [0, 0, 0]]), None, (4, 6)),
    (torch.tensor([[3.0], [-1.0]]), torch.tensor([1, 1]), None, (1, 2)),
    (torch.tensor([0.4, 0.6]), torch.tensor([1.0, 1.0]), nn.BCELoss(), (1, 2)),
    (torch.tensor([0.4, -0.6]), torch.tensor([1.0, 0.0]), nn.BCEWithLogitsLoss(), (2, 2)),
    (torch.tensor([0.4, -0.6]), torch.tensor([1.0, 0.0]), nn.MSELoss(), None),
    (torch.eye(3), torch.full((3, 3), 1 / 3), nn.CrossEntropyLoss(), None),
    ({"a": 1}, torch.ones(1), None, None),
])
def test_counting_right_answers(output, target, loss_fn, wanted):
    assert losses.count_correct(output, target, loss_fn) == wanted


def moved(build, steps=3):
    torch.manual_seed(0)
    model = nn.Linear(3, 2)
    optimizer = build(model)
    for n in range(steps):
        optimizer.zero_grad()
        (model(torch.full((1, 3), n + 1.0)) ** 2).sum().backward()
        optimizer.step()
    return [p.tolist() for p in model.parameters()]


@pytest.mark.parametrize("params, plain", [
    ({}, lambda p: torch.optim.Adam(p, 0.001)),
    *[({"type": kind, "lr": 0.02}, lambda p, kind=kind: getattr(torch.optim, kind)(p, lr=0.02)) for kind in optimizers.TYPES],
    ({"type": "SGD", "lr": 0.02, "momentum": 0.9, "nesterov": True, "weight_decay": 0.1},
     lambda p: torch.optim.SGD(p, 0.02, momentum=0.9, nesterov=True, weight_decay=0.1)),
    ({"type": "SGD", "lr": 0.02, "momentum": 0.9, "dampening": 0.5}, lambda p: torch.optim.SGD(p, 0.02, momentum=0.9, dampening=0.5)),
    ({"type": "AdamW", "betas": "0.5,0.6", "eps": 0.1, "amsgrad": True}, lambda p: torch.optim.AdamW(p, 0.001, betas=(0.5, 0.6), eps=0.1, weight_decay=0.01, amsgrad=True)),
    ({"type": "RMSprop", "momentum": 0.5}, lambda p: torch.optim.RMSprop(p, 0.001, momentum=0.5)),
    ({"type": "Adagrad", "eps": 0.1}, lambda p: torch.optim.Adagrad(p, 0.001, eps=0.1)),
])
def test_optimizers_are_pytorchs(params, plain):
    """Proves B.3, B.4."""
    got = moved(lambda model: run(training.Optimizer, {"model": model}, **params)["optimizer"])
    assert got == moved(lambda model: plain(model.parameters()))


@pytest.mark.parametrize("params, message", [
    ({"momentum": 0.9}, "momentum is 0.9 and Adam has no momentum: set it back to 0.0 or choose SGD, RMSprop"),
    ({"type": "SGD", "betas": "0.8, 0.9"}, "betas is .* and SGD has no betas"),
    ({"type": "SGD", "eps": 0.1}, "SGD has no eps"),
    ({"type": "RAdam", "amsgrad": True}, "RAdam has no amsgrad"),
    ({"type": "Rprop", "weight_decay": 0.1}, "Rprop has no weight_decay"),
    ({"type": "SGD", "nesterov": True}, "nesterov needs a momentum"),
    ({"betas": "0.9"}, "betas needs at least 2"), ({"betas": "0.9, 1.5"}, "from 0 to below 1"), ({"type": "Lion"}, "type is 'Lion'"),
])
def test_a_value_that_the_type_does_not_know_is_an_error(params, message):
    """Proves B.4."""
    with pytest.raises(ValueError, match=message):
        run(training.Optimizer, {"model": nn.Linear(1, 1)}, **params)


def test_a_model_without_parameters_cannot_be_optimized():
    with pytest.raises(ValueError, match="no trainable parameters"):
        run(training.Optimizer, {"model": nn.ReLU()})


def rates(build, steps=12, lr=0.1, kind=torch.optim.SGD):
    optimizer = kind([nn.Parameter(torch.zeros(1))], lr=lr)
    schedule, found = build(optimizer), []
    for _ in range(steps):
        optimizer.step()
        found.append(optimizer.param_groups[0]["lr"])
        schedule.step(*([1.0] if isinstance(schedule, lr_scheduler.ReduceLROnPlateau) else []))
    return found


@pytest.mark.parametrize("params, plain", [
    ({"step_size": 3}, lambda o: lr_scheduler.StepLR(o, 3, 0.1)),
    ({"type": "CosineAnnealingLR", "T_max": 7}, lambda o: lr_scheduler.CosineAnnealingLR(o, 7)),
    ({"type": "ExponentialLR", "gamma": 0.5}, lambda o: lr_scheduler.ExponentialLR(o, 0.5)),
    ({"type": "ReduceLROnPlateau", "gamma": 0.5}, lambda o: lr_scheduler.ReduceLROnPlateau(o, factor=0.5)),
    ({"type": "CosineAnnealingWarmRestarts", "T_max": 4}, lambda o: lr_scheduler.CosineAnnealingWarmRestarts(o, 4)),
    ({"type": "MultiStepLR", "step_size": 2}, lambda o: lr_scheduler.MultiStepLR(o, [2, 4, 6, 8])),
    ({"type": "OneCycleLR", "max_lr": 0.5, "total_steps": 20}, lambda o: lr_scheduler.OneCycleLR(o, 0.5, total_steps=20, cycle_momentum=False)),
])
def test_schedules_are_pytorchs(params, plain):
    """Proves B.3, B.5."""
    assert rates(lambda o: run(training.LRScheduler, {"optimizer": o}, **params)["scheduler"]) == rates(plain)


def test_one_cycle_serves_optimizers_without_momentum():
    assert len(rates(lambda o: run(training.LRScheduler, {"optimizer": o}, type="OneCycleLR")["scheduler"], kind=torch.optim.Adagrad)) == 12


def test_warmups():
    """Proves B.4."""
    def found(kind):
        return rates(lambda o: run(training.LRScheduler, {"optimizer": o}, type=kind, warmup_steps=4, total_steps=8)["scheduler"], lr=1.0)

    rise = [0.25, 0.5, 0.75, 1.0]
    assert found("warmup_linear") == pytest.approx(rise + [1, 0.75, 0.5, 0.25, 0, 0, 0, 0])
    assert found("constant_with_warmup") == rise + [1.0] * 8
    assert found("warmup_cosine") == pytest.approx(rise + [0.5 + 0.5 * math.cos(math.pi * n / 4) for n in range(4)] + [0] * 4)


@pytest.mark.parametrize("params, message", [
    ({"type": "ReduceLROnPlateau", "gamma": 1.0}, "gamma is 1: ReduceLROnPlateau"), ({"step_size": 0}, "step_size is 0: choose 1 or more"),
    ({"type": "Linear"}, "type is 'Linear': choose StepLR"),
])
def test_what_is_wrong_with_a_schedule_is_said(params, message):
    with pytest.raises(ValueError, match=message):
        rates(lambda o: run(training.LRScheduler, {"optimizer": o}, **params)["scheduler"])


def points(count=10):
    return [(torch.eye(3)[n % 3], n % 3 if n < 7 else 0) for n in range(count)]


def test_evaluate():
    """Proves B.3, B.4, C.19."""
    context = Context()
    got = run(training.EvaluateModel, {"model": nn.Identity(), "dataset": points()}, context, batch_size=4)
    assert (got["correct"], got["total"], got["accuracy"]) == (8, 10, 0.8)
    assert context.metrics == [("eval_accuracy", 0.8, 0)]


def test_evaluate_gives_what_it_has_when_stopped():
    """Proves C.10."""
    class Stopping(Context):
        asked = 0

        def should_stop(self):
            self.asked += 1
            return self.asked > 2

    context = Stopping()
    got = run(training.EvaluateModel, {"model": nn.Identity(), "dataset": points()}, context, batch_size=4)
    assert got["total"] == 8 and got["__interrupted__"]["total"] == 8 and context.metrics == []


def test_evaluate_refuses_what_is_no_classifier():
    with pytest.raises(ValueError, match=r"outputs \(\[2, 3\]\) and labels \(\[2, 2\]\) are not"):
        run(training.EvaluateModel, {"model": nn.Linear(3, 3), "dataset": [(torch.ones(3), torch.ones(2))] * 2})


def test_backward_once():
    """Proves B.3."""
    x = torch.ones(3, requires_grad=True)
    y = x * 2
    assert run(training.BackwardOnce, {"tensor": y})["tensor"] is y and x.grad.tolist() == [2, 2, 2]
    run(training.BackwardOnce, {"tensor": y})
    assert x.grad.tolist() == [4, 4, 4]
    with pytest.raises(ValueError, match="set requires_grad on TensorCreate"):
        run(training.BackwardOnce, {"tensor": torch.ones(1)})
