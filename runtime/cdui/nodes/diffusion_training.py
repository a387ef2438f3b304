"""The loop of DiffusionTrainingLoop."""

from __future__ import annotations

from typing import Any, Callable, Mapping

from cdui.nodes import datasets, devices
from cdui.nodes.diffusion_models import TRAINED, Schedule, predict
from cdui.nodes.trainer import Mean
from cdui.nodes.training_reports import Reports


def train(model: Any, dataset: Any, params: Mapping[str, Any], progress: Callable[[dict[str, Any]], None], context: Any) -> dict[str, Any]:
    """Trains until the epochs are done or the run is stopped; what the node gives."""
    import torch
    from torch.nn import functional

    device, reports = devices.choose(params["device"], context), Reports(progress, context)
    images = torch.stack([image.float() for image in datasets.images_of(dataset)]) if len(dataset) else torch.zeros(0)
    if images.dim() != 4:
        raise ValueError(f"the dataset must hold images [channels, height, width], and holds {list(images.shape[1:]) or 'nothing'}")
    steps, size, epochs = int(params["num_timesteps"]), int(params["batch_size"]), int(params["epochs"])
    schedule = Schedule.of(params, steps)
    generator = torch.Generator().manual_seed(int(params["seed"]))
    model.to(device).train()
    optimizer = torch.optim.Adam(model.parameters(), lr=float(params["lr"]))
    reports.config({"epochs": epochs, "batch_size": size, "lr": float(params["lr"]), "num_timesteps": steps, "device": device})
    losses: list[float] = []
    result = {"model": model}
    total = -(-len(images) // size)
    for epoch in range(1, epochs + 1):
        mean = Mean()
        for number, chosen in enumerate(torch.randperm(len(images), generator=generator).split(size), 1):
            if context.should_stop():
                result["__interrupted__"] = {"reason": "stopped", "epoch": epoch - 1, "batch": number - 1}
                break
            clean = images[chosen].to(device)
            times = torch.randint(steps, (len(clean),), generator=generator)
            noise = torch.randn(clean.shape, generator=generator).to(device)
            loss = functional.mse_loss(predict(model, schedule.noisy(clean, noise, times), times.to(device)), noise)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            mean.add(loss)
            reports.batch(epoch, number, total, loss, "train")
        if "__interrupted__" in result:
            break
        losses.append(mean.value())
        lr = float(params["lr"])
        reports.epoch(
            {"epoch": epoch, "total_epochs": epochs, "loss": losses[-1], "losses": list(losses), "lr": lr},
            {"train_loss": losses[-1], "lr": lr},
        )
    model.eval()
    setattr(model, TRAINED, schedule.kept)
    return {**result, "losses": torch.tensor(losses)}
