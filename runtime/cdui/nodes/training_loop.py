"""Category Training: TrainingLoop, the node around trainer.py."""

from __future__ import annotations

import contextlib
import os
from typing import Any, Iterator

from cdui.node import Node, Param, Port, need
from cdui.nodes import checkpoints, devices, files, precision
from cdui.nodes.trainer import Settings, Trainer
from cdui.nodes.training_reports import Reports


class TrainingLoop(Node):
    """Trains a model. ``losses [epochs]`` and ``val_losses [epochs]`` are the means
    of the batch losses of each epoch that this loop ran."""

    NODE_NAME = "TrainingLoop"
    CATEGORY = "Training"
    DESCRIPTION = "Trains a model, epoch by epoch."
    DETAILS = (
        "epochs is where to end, counted from the very first epoch: with start_epoch wired from CheckpointLoader the "
        "loop runs the epochs that are left. Early stopping watches the validation loss, or the training loss where no "
        "val_dataloader is wired, and gives the best weights back. A stopped run gives what it has and writes a "
        "checkpoint below models/interrupted."
    )
    cacheable = False

    @classmethod
    def inputs(cls, params=None):
        return [
            Port("model", "MODEL"), Port("dataloader", "DATALOADER", "batches (input, target)"),
            Port("optimizer", "OPTIMIZER", "of the same model"), Port("loss_fn", "LOSS_FN"),
            Port("val_dataloader", "DATALOADER", "batches to validate with", optional=True),
            Port("lr_scheduler", "ANY", "of the same optimizer", optional=True),
            Port("start_epoch", "SCALAR", "epochs that are done already", optional=True),
            Port("grad_scaler_state", "ANY", "from a checkpoint, for fp16", optional=True),
        ]

    @classmethod
    def outputs(cls, params=None):
        return [
            Port("model", "MODEL", "the same model, trained"), Port("losses", "TENSOR", "[epochs]"),
            Port("val_losses", "TENSOR", "[epochs], empty without val_dataloader"), Port("metrics", "ANY", "a dict of what happened"),
            Port("grad_scaler_state", "ANY", "for CheckpointSaver; nothing but for fp16"), Port("optimizer", "OPTIMIZER"),
        ]

    @classmethod
    def params(cls):
        return [
            Param("epochs", "int", 5, "The last epoch, counted from the very first.", min_value=1),
            Param("device", "select", "auto", "Where to compute; auto is the run's device.", ["auto", "cpu", "cuda", "mps"]),
            Param("early_stopping_patience", "int", 0, "Epochs without improvement before the end; 0 never.", min_value=0),
            Param("grad_clip_norm", "float", 0.0, "Largest norm of the gradients; 0 for no bound.", min_value=0.0),
            Param("batch_metrics", "bool", False, "Record train_loss_batch too.", advanced=True),
            Param("precision", "select", "fp32", "Arithmetic of the forward pass.", list(precision.NAMES), advanced=True),
            Param("accumulate_steps", "int", 1, "Batches to an optimizer step.", min_value=1, advanced=True),
            Param("max_steps", "int", 0, "End after so many optimizer steps of this loop; 0 for no bound.", min_value=0, advanced=True),
            Param("log_interval", "int", 1, "Record every so many batches or steps, where they are recorded.", min_value=1, advanced=True),
            Param("deterministic", "bool", False, "Deterministic kernels for this loop.", advanced=True),
            Param("monitor", "select", "val_loss", "What early stopping watches.", ["val_loss", "val_accuracy"], advanced=True),
            Param("checkpoint_every", "int", 0, "Epochs between checkpoints; 0 for none.", min_value=0, advanced=True),
            Param("checkpoint_every_steps", "int", 0, "Optimizer steps between checkpoints; 0 for none.", min_value=0, advanced=True),
            Param("scheduler_step", "select", "epoch", "When the schedule moves on; ReduceLROnPlateau always after epochs.",
                  ["epoch", "optimizer_step"], advanced=True),
            Param("log_grad_norm", "bool", False, "Record grad_norm, and grad_norm_clipped.", advanced=True),
            Param("log_update_ratio", "bool", False, "Record update_ratio: how far a step moves the parameters.", advanced=True),
            Param("val_every_steps", "int", 0, "Validate every so many optimizer steps too, as val_loss_step; 0 never.", min_value=0, advanced=True),
            Param("tensorboard", "bool", False, "Write the series below tensorboard/ of the data folder as well.", advanced=True),
            Param("strategy", "select", "single", "One process, or one for each card of the run.", ["single", "ddp"], advanced=True),
        ]

    def execute(self, inputs, params, progress_callback, context):
        device = devices.choose(params["device"], context)
        settings = _settings(inputs, params)
        if params["strategy"] == "ddp":
            context.warn("ddp_single_process", text="strategy is ddp, and this run trains in one process on one device")
        model, optimizer, scheduler = inputs["model"], inputs["optimizer"], inputs.get("lr_scheduler")
        _check(model, optimizer, scheduler)
        arithmetic = precision.Precision(params["precision"], device, context, inputs.get("grad_scaler_state"))
        model.to(device)
        checkpoints.move_optimizer_state(optimizer)
        loss_fn = inputs["loss_fn"].to(device) if hasattr(inputs["loss_fn"], "to") else inputs["loss_fn"]
        reports = Reports(progress_callback, context, _writer(context) if params["tensorboard"] else None)
        trainer = Trainer(model, optimizer, loss_fn, scheduler, settings, device, arithmetic, reports, context)
        if settings.start_epoch >= settings.epochs:
            context.warn("nothing_to_train", start_epoch=settings.start_epoch, epochs=settings.epochs)
        reports.config(_config(inputs, settings, device, arithmetic.name))
        with _deterministic(bool(params["deterministic"]) and not context.deterministic), contextlib.closing(reports):
            trainer.fit(inputs["dataloader"], inputs.get("val_dataloader"))
        return _results(trainer, context)


def _settings(inputs, params) -> Settings:
    start = inputs.get("start_epoch")
    start = 0 if start is None else int(start)
    if start < 0:
        raise ValueError(f"start_epoch is {start}: it counts finished epochs, so it can't be negative")
    if params["monitor"] not in ("val_loss", "val_accuracy"):
        raise ValueError(f"monitor is {params['monitor']!r}: choose val_loss or val_accuracy")
    if params["monitor"] == "val_accuracy" and inputs.get("val_dataloader") is None:
        raise ValueError("monitor is val_accuracy and nothing is wired to val_dataloader: wire it, or set monitor to val_loss")
    if params["scheduler_step"] not in ("epoch", "optimizer_step"):
        raise ValueError(f"scheduler_step is {params['scheduler_step']!r}: choose epoch or optimizer_step")
    if params["strategy"] not in ("single", "ddp"):
        raise ValueError(f"strategy is {params['strategy']!r}: choose single or ddp")
    defaults = Settings(epochs=1, start_epoch=start)._asdict()
    found = {name: start if name == "start_epoch" else type(value)(params[name]) for name, value in defaults.items()}
    for name, value in found.items():
        least = 1 if name in ("epochs", "accumulate_steps", "log_interval") else 0
        if not isinstance(value, str) and value < least:
            raise ValueError(f"{name} is {value}: choose {least} or more")
    return Settings(**found)


def _check(model, optimizer, scheduler):
    known = {id(parameter) for parameter in model.parameters()}
    if not any(id(parameter) in known for group in optimizer.param_groups for parameter in group["params"]):
        raise ValueError("the optimizer holds none of this model's parameters: wire the same model into Optimizer and TrainingLoop")
    owner = getattr(scheduler, "optimizer", optimizer)
    if owner is not optimizer:
        raise ValueError("lr_scheduler belongs to another optimizer: wire the same one into LRScheduler and TrainingLoop")


def _config(inputs, settings, device, arithmetic) -> dict[str, Any]:
    loader, optimizer = inputs["dataloader"], inputs["optimizer"]
    return {
        **settings._asdict(), "device": device, "precision": arithmetic, "batch_size": getattr(loader, "batch_size", None),
        "optimizer": type(optimizer).__name__, "lr": float(optimizer.param_groups[0]["lr"]), "loss": type(inputs["loss_fn"]).__name__,
    }


def _writer(context) -> Any:
    folder = os.path.join(context.data_root, "tensorboard", *(files.file_name(part) for part in (context.run_id, context.node_id) if part))
    return need("torch.utils.tensorboard", "tensorboard", "the param tensorboard").SummaryWriter(folder)


@contextlib.contextmanager
def _deterministic(wanted: bool) -> Iterator[None]:
    """Deterministic kernels inside, where there are any; what was set before after."""
    import torch

    if not wanted:
        yield
        return
    cudnn = torch.backends.cudnn
    before = (torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled(), cudnn.benchmark)
    torch.use_deterministic_algorithms(True, warn_only=True)
    cudnn.benchmark = False
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before[0], warn_only=before[1])
        cudnn.benchmark = before[2]


def _results(trainer: Trainer, context) -> dict[str, Any]:
    import torch

    settings = trainer.settings
    metrics: dict[str, Any] = {
        "final_train_loss": trainer.losses[-1] if trainer.losses else None,
        "final_val_loss": trainer.val_losses[-1] if trainer.val_losses else None,
        "best_epoch": trainer.best_epoch,
        "total_epochs_run": len(trainer.losses),
        "start_epoch": settings.start_epoch,
        "last_epoch": trainer.completed,
        "stopped_early": trainer.stopped_early,
        "lr_history": trainer.lr_history,
        "interrupted": trainer.interrupted,
        "total_steps": trainer.total_steps,
        "total_batches": trainer.total_batches,
        "stopped_at_max_steps": trainer.stopped_at_max_steps,
        "accumulate_steps": settings.accumulate_steps,
        "precision": trainer.precision.name,
    }
    if trainer.precision.scaler is not None:
        metrics["skipped_steps"] = trainer.precision.skipped_steps
    result = {
        "model": trainer.model,
        "losses": torch.tensor(trainer.losses),
        "val_losses": torch.tensor(trainer.val_losses),
        "metrics": metrics,
        "grad_scaler_state": trainer.precision.state(),
        "optimizer": trainer.optimizer,
    }
    if trainer.interrupted:
        where = {"epoch": trainer.completed, "batch": trainer.interrupted_batch}
        # Last of all: who sees it knows that everything else was told.
        path = trainer.keeper.interrupted(**where)
        if path is not None:
            metrics["interrupt_checkpoint"] = path
        result["__interrupted__"] = {"reason": "stopped", **where}
    return result


NODES = [TrainingLoop]
