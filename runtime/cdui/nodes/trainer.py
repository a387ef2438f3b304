"""The training loop itself: epochs, batches, optimizer steps, validation."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from cdui.nodes import checkpoints, datasets, devices, losses
from cdui.nodes.precision import Precision
from cdui.nodes.training_reports import Keeper, Reports

#: Losses fetched from the device at once; each fetch waits for the device.
_FETCH = 64


class Settings(NamedTuple):
    """How to train; the names are those of TrainingLoop's params."""

    epochs: int
    start_epoch: int = 0
    early_stopping_patience: int = 0
    grad_clip_norm: float = 0.0
    batch_metrics: bool = False
    accumulate_steps: int = 1
    max_steps: int = 0
    log_interval: int = 1
    monitor: str = "val_loss"
    checkpoint_every: int = 0
    checkpoint_every_steps: int = 0
    scheduler_step: str = "epoch"
    log_grad_norm: bool = False
    log_update_ratio: bool = False
    val_every_steps: int = 0


class Mean:
    """The mean of batch losses, fetched from the device a few at a time."""

    def __init__(self) -> None:
        self._sum, self._count, self._waiting = 0.0, 0, []

    def add(self, loss: Any) -> None:
        self._waiting.append(loss.detach())
        if len(self._waiting) == _FETCH:
            self._fetch()

    def value(self) -> float:
        """The mean so far; NaN of nothing."""
        self._fetch()
        return self._sum / self._count if self._count else math.nan

    def _fetch(self) -> None:
        import torch

        if self._waiting:
            found = torch.stack(self._waiting).float().tolist()
            self._sum, self._count, self._waiting = self._sum + math.fsum(found), self._count + len(found), []


class Trainer:
    """Trains one model on one device.

    Epochs are counted from 1 in what is reported; ``settings.start_epoch`` and
    ``completed`` count finished epochs.
    """

    def __init__(self, model: Any, optimizer: Any, loss_fn: Any, scheduler: Any, settings: Settings, device: str,
                 precision: Precision, reports: Reports, context: Any) -> None:
        self.model, self.optimizer, self.loss_fn, self.scheduler = model, optimizer, loss_fn, scheduler
        self.settings, self.device, self.precision = settings, device, precision
        self.reports, self.context = reports, context
        self.keeper = Keeper(context, self.checkpoint)
        self.completed = settings.start_epoch
        self.losses: list[float] = []
        self.val_losses: list[float] = []
        self.lr_history: list[float] = []
        self.total_batches = self.total_steps = 0
        self.best_epoch: int | None = None
        self.stopped_early = self.stopped_at_max_steps = self.interrupted = False
        self.interrupted_batch = 0
        self._best_value = self._best_weights = None
        self._patience = 0
        self._first_batch = self._first_step = 0
        self._stepped_at = 0
        self._late_steps = 0

    def fit(self, loader: Any, val_loader: Any) -> None:
        """Trains until the epochs are done or something ends it before."""
        settings, total = self.settings, _length(loader)
        # A resumed loop goes on counting where the first one ended.
        self._first_batch = settings.start_epoch * (total or 0)
        self._first_step = settings.start_epoch * math.ceil((total or 0) / settings.accumulate_steps)
        while self.completed < settings.epochs and not self._over():
            mean = self._train_epoch(loader, val_loader, total)
            if self.interrupted:
                break
            val = self._validate(val_loader) if val_loader is not None else None
            self._end_epoch(mean, val)
        self.model.eval()
        if self._best_weights is not None and not self.interrupted:
            self.model.load_state_dict(self._best_weights)

    def checkpoint(self) -> dict[str, Any]:
        """The loop's present state as the content of a checkpoint."""
        import torch

        return checkpoints.state(
            self.completed, self.model, self.optimizer, losses=torch.tensor(self.losses),
            scheduler=self.scheduler, grad_scaler_state=self.precision.state(),
        )

    def _over(self) -> bool:
        return self.interrupted or self.stopped_early or self.stopped_at_max_steps

    def _train_epoch(self, loader: Any, val_loader: Any, total: int | None) -> float:
        """One pass over the batches; the mean of their losses."""
        settings, mean, epoch, number = self.settings, Mean(), self.completed + 1, 0
        self.model.train()
        self.optimizer.zero_grad(set_to_none=True)
        for number, batch in enumerate(loader, 1):
            if self.context.should_stop():
                self._interrupt(number - 1)
                return mean.value()
            loss = self._forward(batch)
            mean.add(loss)
            self.precision.backward(loss / self._group(number, total))
            self.total_batches += 1
            self.reports.batch(epoch, number, total, loss, "train")
            if settings.batch_metrics and self.total_batches % settings.log_interval == 0:
                self.reports.series("train_loss_batch", float(loss), self._first_batch + self.total_batches)
            if number % settings.accumulate_steps == 0 or number == total:
                self._step(val_loader, number)
            if self._over():
                return mean.value()
        if number == 0:
            raise ValueError("the dataloader gives no batches: its dataset is empty, or drop_last left out the only one")
        if number % settings.accumulate_steps and self._stepped_at != self.total_batches:
            self._step(val_loader, number)  # the last batches, where their number wasn't known before
        return mean.value()

    def _forward(self, batch: Any) -> Any:
        args, named, target = datasets.split_batch(devices.move(batch, self.device))
        with self.precision.forward():
            return losses.apply(self.loss_fn, self.model(*args, **named), target)

    def _group(self, number: int, total: int | None) -> int:
        """How many batches the optimizer step of batch ``number`` will be over."""
        size = self.settings.accumulate_steps
        first = (number - 1) // size * size
        return size if total is None else max(1, min(size, total - first))

    def _step(self, val_loader: Any, number: int) -> None:
        """One optimizer step and what is due after it."""
        settings, step = self.settings, self._first_step + self.total_steps + 1
        self.precision.unscale(self.optimizer)
        measured = step % settings.log_interval == 0
        if settings.grad_clip_norm or (settings.log_grad_norm and measured):
            self._clip(step, measured)
        before = self._parameters() if settings.log_update_ratio and measured else None
        done = self.precision.step(self.optimizer)
        self.optimizer.zero_grad(set_to_none=True)
        self.total_steps += 1
        self._stepped_at = self.total_batches
        if before is not None:
            self.reports.series("update_ratio", _update_ratio(before, self._parameters()), step)
        if done and settings.scheduler_step == "optimizer_step" and not self._on_plateau():
            self._advance_schedule()
        if val_loader is not None and settings.val_every_steps and self.total_steps % settings.val_every_steps == 0:
            found = self._validate(val_loader)
            self.model.train()
            if self.interrupted:
                self.interrupted_batch = number
                return
            self.reports.series("val_loss_step", found[0], step)
        if settings.checkpoint_every_steps and self.total_steps % settings.checkpoint_every_steps == 0:
            self.keeper.periodic(f"step-{step:08d}", epoch=self.completed, step=step)
        self.stopped_at_max_steps = 0 < settings.max_steps <= self.total_steps

    def _clip(self, step: int, measured: bool) -> None:
        from torch.nn import utils

        limit = self.settings.grad_clip_norm
        parameters = [p for group in self.optimizer.param_groups for p in group["params"] if p.grad is not None]
        norm = utils.clip_grad_norm_(parameters, limit) if limit else _norm([p.grad for p in parameters])
        if self.settings.log_grad_norm and measured:
            self.reports.series("grad_norm", float(norm), step)
            if limit:
                self.reports.series("grad_norm_clipped", min(float(norm), limit), step)

    def _parameters(self) -> list[Any]:
        return [p.detach().clone() for group in self.optimizer.param_groups for p in group["params"]]

    def _validate(self, loader: Any) -> tuple[float, float | None] | None:
        """The mean loss over the batches and the accuracy, where the loss is one of
        classes; None when the run was stopped meanwhile."""
        import torch

        mean, correct, counted, total = Mean(), 0, 0, _length(loader)
        self.model.eval()
        with torch.no_grad():
            for number, batch in enumerate(loader, 1):
                if self.context.should_stop():
                    self._interrupt(0)
                    return None
                args, named, target = datasets.split_batch(devices.move(batch, self.device))
                with self.precision.forward():
                    output = self.model(*args, **named)
                    loss = losses.apply(self.loss_fn, output, target)
                mean.add(loss)
                counts = losses.count_correct(output, target, self.loss_fn)
                if counts is not None:
                    correct, counted = correct + counts[0], counted + counts[1]
                self.reports.batch(self.completed + 1, number, total, loss, "val")
        return mean.value(), correct / counted if counted else None

    def _interrupt(self, batch: int) -> None:
        self.interrupted, self.interrupted_batch = True, batch
        self.optimizer.zero_grad(set_to_none=True)

    def _end_epoch(self, loss: float, val: tuple[float, float | None] | None) -> None:
        """Records an epoch, moves the schedule, and decides whether to go on."""
        settings = self.settings
        self.completed += 1
        lr = float(self.optimizer.param_groups[0]["lr"])
        self.losses.append(loss)
        self.lr_history.append(lr)
        if not math.isfinite(loss):
            self.context.warn("non_finite_loss", epoch=self.completed)
        payload: dict[str, Any] = {
            "epoch": self.completed, "total_epochs": settings.epochs, "loss": loss, "losses": list(self.losses), "lr": lr,
        }
        series = {"train_loss": loss, "lr": lr}
        if val is not None:
            self.val_losses.append(val[0])
            payload.update(val_loss=val[0], val_losses=list(self.val_losses))
            series["val_loss"] = val[0]
            if val[1] is not None:
                series["val_accuracy"] = val[1]
        self._advance_after_epoch(val[0] if val is not None else loss)
        if not self.interrupted:
            self._judge(loss, val)
        if settings.early_stopping_patience:
            series["patience_counter"] = payload["patience_counter"] = self._patience
            if self.best_epoch is not None:
                series["best_epoch"] = payload["best_epoch"] = self.best_epoch
        if settings.start_epoch:
            payload["start_epoch"] = settings.start_epoch
        self.reports.epoch(payload, series)
        if settings.checkpoint_every and self.completed % settings.checkpoint_every == 0:
            self.keeper.periodic(f"epoch-{self.completed:05d}", epoch=self.completed)

    def _judge(self, loss: float, val: tuple[float, float | None] | None) -> None:
        """Keeps the best epoch, and its weights where early stopping asks for them."""
        value = loss if val is None else val[0]
        if self.settings.monitor == "val_accuracy":
            if val is None or val[1] is None:
                raise ValueError("monitor is val_accuracy, and there is none: wire val_dataloader and a loss of classes, or set it to val_loss")
            value = -val[1]
        patience = self.settings.early_stopping_patience
        if math.isfinite(value) and (self._best_value is None or value < self._best_value):
            self._best_value, self.best_epoch, self._patience = value, self.completed, 0
            if patience:
                self._best_weights = {
                    name: tensor.detach().to("cpu", copy=True) if hasattr(tensor, "detach") else tensor
                    for name, tensor in self.model.state_dict().items()
                }
            return
        self._patience += 1
        self.stopped_early = 0 < patience <= self._patience

    def _on_plateau(self) -> bool:
        return type(self.scheduler).__name__ == "ReduceLROnPlateau"

    def _advance_after_epoch(self, loss: float) -> None:
        if self._on_plateau():
            self.scheduler.step(loss)
        elif self.settings.scheduler_step == "epoch":
            self._advance_schedule()

    def _advance_schedule(self) -> None:
        if self.scheduler is None:
            return
        total = getattr(self.scheduler, "total_steps", None)
        if total is not None and self.scheduler.last_epoch + 1 >= total:
            # OneCycleLR refuses to go on after its last step; the rate stays where
            # it is. The step after the last batch is late by one in any loop.
            self._late_steps += 1
            if self._late_steps == 2:
                self.context.warn("schedule_ended", total_steps=total)
            return
        self.scheduler.step()


def _length(loader: Any) -> int | None:
    try:
        return len(loader)
    except TypeError:
        return None


def _norm(tensors: list[Any]) -> float:
    import torch

    if not tensors:
        return 0.0
    return float(torch.stack([tensor.float().norm() for tensor in tensors]).norm())


def _update_ratio(before: list[Any], after: list[Any]) -> float:
    """How far the parameters moved, relative to their size."""
    size = _norm(before)
    return _norm([b - a for a, b in zip(before, after)]) / size if size else 0.0
