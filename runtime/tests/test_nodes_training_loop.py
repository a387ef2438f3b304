"""TrainingLoop against a plain loop of torch, bit for bit; its series, ends and checkpoints."""
import copy
import itertools
import math
import os

import pytest

from cdui.node import Context, call, fill_params

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.utils.data import DataLoader  # noqa: E402

from cdui.nodes import checkpoints, optimizers, training, training_reports  # noqa: E402
from cdui.nodes import weights as weights_file  # noqa: E402
from cdui.nodes.training_loop import TrainingLoop  # noqa: E402

X = torch.randn(20, 3, generator=torch.Generator().manual_seed(0))
Y = (X.sum(1) > 0).long()


class Stopping(Context):
    """Asks to stop once should_stop was asked ``after`` times."""

    after = math.inf

    def should_stop(self):
        self.after -= 1
        return self.after < 0


class Setup:
    """A model, its optimizer, two loaders, and what a loop told about them."""

    def __init__(self, tmp_path, batch=4, optimizer=None, context=None, **extra):
        torch.manual_seed(3)
        self.model = nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.2), nn.ReLU(), nn.Linear(4, 2))
        self.optimizer = (optimizer or (lambda p: torch.optim.SGD(p, 0.1, momentum=0.9)))(self.model.parameters())
        self.context = context or Stopping(data_root=str(tmp_path), run_id="r", node_id="p__loop")
        data = list(zip(X, Y))
        self.train = DataLoader(data, batch, shuffle=True, generator=torch.Generator().manual_seed(5))
        self.val = DataLoader(data[:8], 4, generator=torch.Generator())  # as the node DataLoader gives it one
        self.told = []
        self.extra = extra

    def run(self, val=False, **params):
        inputs = {"model": self.model, "dataloader": self.train, "optimizer": self.optimizer, "loss_fn": nn.CrossEntropyLoss(), **self.extra}
        if val:
            inputs["val_dataloader"] = self.val
        torch.manual_seed(11)
        return call(TrainingLoop(), inputs, fill_params(TrainingLoop, {"epochs": 3, **params}), self.told.append, self.context)

    def series(self, name):
        return [(step, value) for found, value, step in self.context.metrics if found == name]

    def events(self, kind):
        return [payload for payload in self.told if payload["event"] == kind]


@pytest.fixture
def setup(tmp_path):
    return lambda **kw: Setup(tmp_path, **kw)


def plain(made, epochs=3, accumulate=1, clip=0.0, schedule=None):
    """The same training, written down in the shortest way."""
    torch.manual_seed(11)
    found = []
    for _ in range(epochs):
        made.model.train()
        batch_losses = []
        batches = list(made.train)
        for first in range(0, len(batches), accumulate):
            group = batches[first:first + accumulate]
            made.optimizer.zero_grad()
            for x, y in group:
                loss = nn.functional.cross_entropy(made.model(x), y)
                (loss / len(group)).backward()
                batch_losses.append(loss.item())
            if clip:
                nn.utils.clip_grad_norm_(made.model.parameters(), clip)
            made.optimizer.step()
        if schedule:
            schedule.step()
        found.append(math.fsum(batch_losses) / len(batch_losses))
    return found


def weights(model):
    return [p.tolist() for p in model.parameters()]


@pytest.mark.parametrize("params", [{}, {"accumulate": 2}, {"accumulate": 3}, {"clip": 0.1}, {"accumulate": 9}])
def test_losses_and_weights_are_those_of_a_plain_loop(setup, params):
    """B.5: the average of the batches' losses."""
    a, b = setup(), setup()
    got = a.run(accumulate_steps=params.get("accumulate", 1), grad_clip_norm=params.get("clip", 0.0))
    assert got["losses"].tolist() == torch.tensor(plain(b, **params)).tolist()
    assert weights(a.model) == weights(b.model) and got["model"] is a.model and got["optimizer"] is a.optimizer
    steps = {1: 15, 2: 9, 3: 6, 9: 3}[params.get("accumulate", 1)]
    assert got["metrics"]["total_steps"] == steps and got["metrics"]["total_batches"] == 15


def test_adam_and_many_batches_are_bit_for_bit(setup):
    make = lambda: setup(batch=1, optimizer=lambda p: torch.optim.Adam(p, 0.01))  # noqa: E731
    a, b = make(), make()
    assert a.run(epochs=9)["losses"].tolist() == torch.tensor(plain(b, epochs=9)).tolist() and weights(a.model) == weights(b.model)


def test_series_and_events(setup):
    """Proves C.19, B.1."""
    made = setup()
    got = made.run(val=True)
    assert [step for step, _ in made.series("train_loss")] == [1, 2, 3]
    assert torch.tensor([value for _, value in made.series("train_loss")]).tolist() == got["losses"].tolist()
    assert torch.tensor([value for _, value in made.series("val_loss")]).tolist() == got["val_losses"].tolist()
    assert made.series("lr") == [(1, 0.1), (2, 0.1), (3, 0.1)]
    model = made.model.eval()
    right = (model(X[:8]).argmax(1) == Y[:8]).float().mean().item()
    assert made.series("val_accuracy")[-1] == (3, right)
    assert {name for name, _, _ in made.context.metrics} == {"train_loss", "lr", "val_loss", "val_accuracy"}
    assert [payload["event"] for payload in made.told if payload["event"] != "batch"] == ["config", "epoch", "epoch", "epoch"]
    last = made.events("epoch")[-1]
    assert set(last) == {"event", "epoch", "total_epochs", "loss", "losses", "lr", "val_loss", "val_losses"}
    assert (last["epoch"], last["total_epochs"], len(last["losses"])) == (3, 3, 3)
    assert made.events("config")[0]["config"]["optimizer"] == "SGD"


def test_metrics_say_what_happened(setup):
    """Proves B.5."""
    metrics = setup().run()["metrics"]
    assert {name: metrics[name] for name in metrics if "loss" not in name} == {
        "best_epoch": metrics["best_epoch"], "total_epochs_run": 3, "start_epoch": 0, "last_epoch": 3, "stopped_early": False,
        "lr_history": [0.1] * 3, "interrupted": False, "total_steps": 15, "total_batches": 15, "stopped_at_max_steps": False,
        "accumulate_steps": 1, "precision": "fp32",
    }
    assert metrics["final_val_loss"] is None and metrics["final_train_loss"] > 0


def test_batch_events_are_throttled_and_the_first_is_sent():
    """Proves B.1."""
    clock = itertools.count(0, 0.2)
    told = []
    reports = training_reports.Reports(told.append, Context(), now=lambda: next(clock))
    for n in range(1, 8):
        reports.batch(1, n, 7, torch.tensor(n / 2), "train")
    assert [(payload["batch"], payload["loss"]) for payload in told] == [(1, 0.5), (4, 2.0), (7, 3.5)]
    assert told[0] == {"event": "batch", "epoch": 1, "batch": 1, "total_batches": 7, "loss": 0.5, "phase": "train"}


def test_batch_metrics(setup):
    """Proves C.19."""
    made = setup()
    made.run(epochs=2, batch_metrics=True, log_interval=2)
    assert [step for step, _ in made.series("train_loss_batch")] == [2, 4, 6, 8, 10]


def test_gradients_and_updates_are_measured(setup):
    """Proves C.19, B.4."""
    a = setup()
    a.run(epochs=1, log_grad_norm=True, log_update_ratio=True, grad_clip_norm=0.05)
    assert [step for step, _ in a.series("grad_norm")] == [1, 2, 3, 4, 5]
    assert all(value == 0.05 for _, value in a.series("grad_norm_clipped"))
    b = setup()
    torch.manual_seed(11)
    x, y = next(iter(b.train))
    nn.functional.cross_entropy(b.model.train()(x), y).backward()
    assert a.series("grad_norm")[0][1] == pytest.approx(torch.cat([p.grad.flatten() for p in b.model.parameters()]).norm().item())
    before = torch.cat([p.detach().flatten() for p in b.model.parameters()])
    nn.utils.clip_grad_norm_(b.model.parameters(), 0.05)
    b.optimizer.step()
    after = torch.cat([p.detach().flatten() for p in b.model.parameters()])
    assert a.series("update_ratio")[0][1] == pytest.approx(((after - before).norm() / before.norm()).item(), rel=1e-4)
    c = setup()
    c.run(epochs=1, log_grad_norm=True)
    assert c.series("grad_norm")[0][1] == pytest.approx(a.series("grad_norm")[0][1]) and not c.series("grad_norm_clipped")


def test_max_steps_ends_in_the_middle_of_an_epoch(setup):
    """Proves B.4."""
    made = setup()
    got = made.run(val=True, max_steps=7)
    metrics = got["metrics"]
    assert (metrics["total_steps"], metrics["stopped_at_max_steps"], metrics["total_epochs_run"]) == (7, True, 2)
    assert len(got["losses"]) == len(got["val_losses"]) == 2 and "__interrupted__" not in got


def test_validation_between_steps_changes_nothing(setup):
    """Proves B.4, C.19."""
    a, b = setup(), setup()
    a.run(val=True, val_every_steps=2)
    b.run(val=True)
    assert weights(a.model) == weights(b.model)
    assert [step for step, _ in a.series("val_loss_step")] == [2, 4, 6, 8, 10, 12, 14]


def test_schedules_move_after_epochs_or_steps(setup):
    """Proves B.5, B.4."""
    a, b = setup(), setup()
    a.extra["lr_scheduler"] = torch.optim.lr_scheduler.ExponentialLR(a.optimizer, 0.5)
    a.run()
    plain(b, schedule=torch.optim.lr_scheduler.ExponentialLR(b.optimizer, 0.5))
    assert a.series("lr") == [(1, 0.1), (2, 0.05), (3, 0.025)] and weights(a.model) == weights(b.model)
    c = setup()
    c.extra["lr_scheduler"] = torch.optim.lr_scheduler.ExponentialLR(c.optimizer, 0.5)
    assert c.run(epochs=2, scheduler_step="optimizer_step")["metrics"]["lr_history"] == pytest.approx([0.1 / 2**5, 0.1 / 2**10])


@pytest.mark.parametrize("mode", ["epoch", "optimizer_step"])
def test_a_plateau_is_judged_by_the_validation_loss(setup, mode):
    """Proves B.5."""
    made = setup(optimizer=lambda p: torch.optim.SGD(p, 1e-6))
    made.extra["lr_scheduler"] = torch.optim.lr_scheduler.ReduceLROnPlateau(made.optimizer, factor=0.5, patience=1)
    made.run(val=True, epochs=4, scheduler_step=mode)
    assert [lr for _, lr in made.series("lr")] == pytest.approx([1e-6, 1e-6, 1e-6, 0.5e-6])


def test_a_schedule_that_ends_before_the_training_is_told_of(setup):
    def one_cycle(total):
        made = setup()
        made.extra["lr_scheduler"] = torch.optim.lr_scheduler.OneCycleLR(made.optimizer, 0.1, total_steps=total)
        made.run(epochs=1, scheduler_step="optimizer_step")
        return made.context.warnings

    assert one_cycle(5) == [] and one_cycle(3) == [("schedule_ended", {"total_steps": 3})]


def test_early_stopping_gives_the_best_weights_back(setup):
    """Proves B.5, C.19."""
    made = setup(optimizer=lambda p: torch.optim.SGD(p, 0.5))
    seen = []
    original = made.context.log_metric
    made.context.log_metric = lambda name, value, step: (seen.append(copy.deepcopy(made.model.state_dict())) if name == "val_loss" else None, original(name, value, step))
    with torch.no_grad():  # a model that starts well and is then spoilt by wrong labels
        made.model[3].weight.mul_(3)
    made.train = DataLoader([(x, 1 - y) for x, y in zip(X, Y)], 4)
    got = made.run(val=True, epochs=50, early_stopping_patience=3)
    metrics = got["metrics"]
    assert metrics["stopped_early"] and metrics["total_epochs_run"] == metrics["best_epoch"] + 3
    best = seen[metrics["best_epoch"] - 1]
    assert all(torch.equal(best[name], tensor) for name, tensor in made.model.state_dict().items())
    assert [value for _, value in made.series("patience_counter")][-3:] == [1, 2, 3]
    assert {value for _, value in made.series("best_epoch")} >= {metrics["best_epoch"]}
    assert min(got["val_losses"]) == got["val_losses"][metrics["best_epoch"] - 1]
    assert made.events("epoch")[-1]["patience_counter"] == 3


def test_accuracy_can_be_what_is_watched(setup):
    """Proves B.4."""
    made = setup()
    metrics = made.run(val=True, epochs=6, monitor="val_accuracy", early_stopping_patience=9)["metrics"]
    best = max(value for _, value in made.series("val_accuracy"))
    assert (metrics["best_epoch"], best) in made.series("val_accuracy")


@pytest.mark.parametrize("after", [0, 1, 7, 12])
def test_a_stopped_loop_gives_what_it_has_and_can_be_resumed(setup, tmp_path, after):
    """Proves C.20, C.10."""
    made = setup()
    made.context.after = after
    got = made.run(early_stopping_patience=9)
    epoch, batch = divmod(after, 5)
    assert got["__interrupted__"] == {"reason": "stopped", "epoch": epoch, "batch": batch}
    assert len(got["losses"]) == epoch and got["metrics"]["interrupted"] and got["metrics"]["last_epoch"] == epoch
    path = os.path.join(os.path.realpath(tmp_path), "models", "interrupted", "r-p__loop.pt")
    assert got["metrics"]["interrupt_checkpoint"] == path
    assert made.context.artifacts == [("checkpoint", path, {"reason": "interrupted", "epoch": epoch, "batch": batch, "node_id": "p__loop"})]
    content = torch.load(path)
    assert set(content) == {"epoch", "model_state_dict", "optimizer_state_dict", "losses"} and content["epoch"] == epoch

    later = setup(start_epoch=content["epoch"])
    later.model.load_state_dict(content["model_state_dict"])
    later.optimizer.load_state_dict(content["optimizer_state_dict"])
    resumed = later.run()
    assert [step for step, _ in later.series("train_loss")] == list(range(epoch + 1, 4))
    assert (resumed["metrics"]["start_epoch"], resumed["metrics"]["total_epochs_run"]) == (epoch, 3 - epoch)


def test_resuming_at_an_epoch_is_the_same_as_never_stopping(setup):
    """B.5: epochs is an absolute target."""
    whole, first = setup(), setup()
    whole.model[1].p = first.model[1].p = 0.0
    wanted = whole.run(epochs=4)["losses"].tolist()
    a = first.run(epochs=2)["losses"].tolist()
    first.extra["start_epoch"] = torch.tensor(2)
    assert a + first.run(epochs=4)["losses"].tolist() == wanted and weights(first.model) == weights(whole.model)


def test_a_stop_during_validation_keeps_the_epoch(setup):
    made = setup()
    made.context.after = 6  # five batches, then the second of the validation
    got = made.run(val=True)
    assert got["__interrupted__"]["epoch"] == 1 and len(got["losses"]) == 1 and len(got["val_losses"]) == 0


def test_no_artifacts_no_checkpoint(setup, tmp_path):
    """Proves C.20."""
    made = setup()
    made.context.after = 0
    made.context.can_record_artifacts = lambda: False
    assert "interrupt_checkpoint" not in made.run(checkpoint_every=1)["metrics"] and not (tmp_path / "models").exists()


def test_a_checkpoint_that_cannot_be_written_does_not_end_the_training(setup, tmp_path):
    (tmp_path / "models").write_text("in the way")
    made = setup()
    assert made.run(checkpoint_every=2)["metrics"]["total_epochs_run"] == 3
    assert [(kind, detail["reason"]) for kind, detail in made.context.warnings] == [("checkpoint_failed", "periodic")]


def test_periodic_checkpoints(setup, tmp_path):
    """Proves C.20, B.4."""
    made = setup()
    made.extra["lr_scheduler"] = torch.optim.lr_scheduler.ExponentialLR(made.optimizer, 0.5)
    made.run(checkpoint_every=2, checkpoint_every_steps=7)
    folder = tmp_path / "models" / "periodic"
    assert sorted(os.listdir(folder)) == ["r-p__loop-epoch-00002.pt", "r-p__loop-step-00000007.pt", "r-p__loop-step-00000014.pt"]
    assert [meta for _, _, meta in made.context.artifacts] == [
        {"reason": "periodic", "epoch": 1, "step": 7, "node_id": "p__loop"}, {"reason": "periodic", "epoch": 2, "node_id": "p__loop"},
        {"reason": "periodic", "epoch": 2, "step": 14, "node_id": "p__loop"},
    ]
    content = torch.load(folder / "r-p__loop-epoch-00002.pt")
    assert content["epoch"] == 2 and len(content["losses"]) == 2 and content["scheduler_state_dict"]["last_epoch"] == 2


@pytest.mark.parametrize("kind", optimizers.SCHEDULES)
def test_every_schedule_goes_on_from_a_checkpoint(kind, tmp_path):
    def make():
        model = nn.Linear(2, 2)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        given = fill_params(training.LRScheduler, {"type": kind, "total_steps": 30, "warmup_steps": 5})
        return model, optimizer, training.LRScheduler().execute({"optimizer": optimizer}, given)["scheduler"]

    def go_on(optimizer, schedule, steps):
        for _ in range(steps):
            optimizer.step()
            schedule.step(*([1.0] if kind == "ReduceLROnPlateau" else []))
        return optimizer.param_groups[0]["lr"]

    (model, optimizer, schedule), (_, later_optimizer, later) = make(), make()
    go_on(optimizer, schedule, 8)
    checkpoints.save(checkpoints.state(1, model, optimizer, scheduler=schedule), str(tmp_path / "c.pt"))
    content = weights_file.read(str(tmp_path / "c.pt"))
    later_optimizer.load_state_dict(content["optimizer_state_dict"])
    later.load_state_dict(content["scheduler_state_dict"])
    assert go_on(later_optimizer, later, 15) == go_on(optimizer, schedule, 15)


def test_bf16_computes_in_bf16(setup):
    """Proves B.4."""
    made = setup()
    seen = []
    made.model[3].register_forward_hook(lambda module, args, output: seen.append(output.dtype))
    assert made.run(precision="bf16")["metrics"]["precision"] == "bf16" and set(seen) == {torch.bfloat16}
    assert made.model[3].weight.dtype == torch.float32


def test_fp16_on_a_cpu_is_fp32_with_a_warning(setup):
    made = setup()
    got = made.run(precision="fp16")
    assert got["metrics"]["precision"] == "fp32" and got["grad_scaler_state"] is None
    assert made.context.warnings[0][0] == "precision_unavailable"


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA card")
def test_fp16_on_a_card(setup):
    made = setup()
    made.context.device = "cuda"
    got = made.run(precision="fp16", epochs=3)
    assert got["grad_scaler_state"]["scale"] > 0 and got["metrics"]["skipped_steps"] >= 0


def test_ddp_on_one_device_warns(setup):
    """Proves DDP-01, P-06."""
    made = setup()
    made.run(strategy="ddp")
    assert made.context.warnings[0][0] == "ddp_single_process"


def test_a_loss_that_is_not_finite_is_told_of(setup):
    made = setup()
    made.train = DataLoader([(x * float("nan"), y) for x, y in zip(X, Y)], 4)
    got = made.run(epochs=1, early_stopping_patience=1)
    assert made.context.warnings == [("non_finite_loss", {"epoch": 1})]
    assert math.isnan(got["losses"][0]) and got["metrics"]["best_epoch"] is None and got["metrics"]["stopped_early"]


def test_deterministic_is_put_back(setup):
    """Proves C.13, B.4."""
    made = setup()
    seen = []
    made.model[0].register_forward_hook(lambda *_: seen.append(torch.are_deterministic_algorithms_enabled()))
    made.run(deterministic=True)
    assert set(seen) == {True} and not torch.are_deterministic_algorithms_enabled()


def test_loaders_of_unknown_length(setup):
    class Stream(torch.utils.data.IterableDataset):
        def __iter__(self):
            return iter(zip(X, Y))

    made = setup()
    made.train = DataLoader(Stream(), 4)
    got = made.run(accumulate_steps=2)
    assert got["metrics"]["total_steps"] == 9 and made.events("batch")[0]["total_batches"] is None


def test_nothing_to_train(setup):
    made = setup(start_epoch=3)
    got = made.run()
    assert len(got["losses"]) == 0 and got["metrics"]["final_train_loss"] is None and made.context.warnings[0][0] == "nothing_to_train"


def test_tensorboard(setup, tmp_path):
    try:
        import torch.utils.tensorboard  # noqa: F401
    except ImportError:
        from cdui.node import MissingPackage

        with pytest.raises(MissingPackage, match="the package tensorboard is needed for the param tensorboard"):
            setup().run(tensorboard=True)
    else:
        setup().run(tensorboard=True)
        assert os.listdir(tmp_path / "tensorboard" / "r" / "p__loop")


def spoil(made, what):
    other = nn.Linear(3, 2)
    if what == "optimizer":
        made.optimizer = torch.optim.SGD(other.parameters(), 0.1)
    if what == "scheduler":
        made.extra["lr_scheduler"] = torch.optim.lr_scheduler.ExponentialLR(torch.optim.SGD(other.parameters(), 0.1), 0.5)
    if what == "empty":
        made.train = DataLoader(list(zip(X, Y))[:3], 4, drop_last=True)
    if what == "batch":
        made.train = DataLoader(list(X), 4)
    if what == "start":
        made.extra["start_epoch"] = -1


@pytest.mark.parametrize("what, params, message", [
    ("optimizer", {}, "the optimizer holds none of this model's parameters"), ("scheduler", {}, "lr_scheduler belongs to another optimizer"),
    ("empty", {}, "the dataloader gives no batches"), ("batch", {}, "a batch must be .* not one Tensor"),
    ("start", {}, "start_epoch is -1"), ("", {"monitor": "val_accuracy"}, "nothing is wired to val_dataloader"),
    ("", {"accumulate_steps": 0}, "accumulate_steps is 0: choose 1 or more"), ("", {"max_steps": -1}, "max_steps is -1: choose 0 or more"),
    ("", {"precision": "fp8"}, "precision is 'fp8'"), ("", {"device": "tpu"}, "device is 'tpu'"),
])
def test_what_is_wrong_is_said(setup, what, params, message):
    made = setup()
    spoil(made, what)
    with pytest.raises(ValueError, match=message):
        made.run(**params)
