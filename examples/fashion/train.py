#!/usr/bin/env python3
"""Trains a network on FashionMNIST: 60,000 real images of clothes in ten classes.

    cdui run examples/fashion/train.py -- --epochs 3
    python3 examples/fashion/train.py             # works without cdui too

On Debian and Ubuntu the images are in the package dataset-fashion-mnist.
"""
import argparse
import gzip
import pathlib
import struct
import sys
import time

import torch
from torch import nn

try:
    import cdui
except ImportError:

    class cdui:  # nothing is recorded then
        log = artifact = staticmethod(lambda *args, **kwargs: None)
        should_stop = staticmethod(lambda: False)
        checkpoint_dir = staticmethod(lambda: ".")
        device = staticmethod(lambda: "cpu")


DATA = pathlib.Path("/usr/share/datasets/fashion-mnist")
LOG_EVERY = 50  # batches


def load_idx(path):
    """An array in the IDX format: zeros, type, number of dimensions, their sizes, the bytes."""
    with gzip.open(path) as f:
        content = bytearray(f.read())
    dimensions = content[3]
    shape = struct.unpack(">%dI" % dimensions, content[4 : 4 + 4 * dimensions])
    return torch.frombuffer(content, dtype=torch.uint8, offset=4 + 4 * dimensions).view(shape)


def load(folder, part, device):
    try:
        images = load_idx(folder / f"{part}-images-idx3-ubyte.gz")
        labels = load_idx(folder / f"{part}-labels-idx1-ubyte.gz")
    except FileNotFoundError as e:
        sys.exit(
            f"{e.filename} is not there; install the data with `apt install dataset-fashion-mnist`, "
            "or name the folder that holds the four *-ubyte.gz files with --data"
        )
    return images.to(device).float().div(255).unsqueeze(1), labels.to(device).long()


def network():
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Conv2d(8, 16, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(16 * 7 * 7, 128),
        nn.ReLU(),
        nn.Linear(128, 10),
    )


@torch.no_grad()
def accuracy(model, images, labels):
    model.eval()
    right = sum((model(x).argmax(1) == y).sum().item() for x, y in zip(images.split(1000), labels.split(1000)))
    return right / len(images)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=pathlib.Path, default=DATA)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--lr", type=float, default=3e-3)
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    device = cdui.device()
    images, labels = load(args.data, "train", device)
    test = load(args.data, "t10k", device)
    model = network().to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    batches = -(-len(images) // args.batch_size)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=args.lr, total_steps=args.epochs * batches)
    print(f"{len(images)} images to learn from, {len(test[0])} to test with, on {device}")

    step, stopped = 0, False
    for epoch in range(1, args.epochs + 1):
        model.train()
        began = time.monotonic()
        for batch in torch.randperm(len(images)).split(args.batch_size):
            loss = nn.functional.cross_entropy(model(images[batch]), labels[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            step += 1
            if step % LOG_EVERY == 0:
                cdui.log({"loss": loss.item(), "lr": schedule.get_last_lr()[0]}, step=step)
            if cdui.should_stop():
                stopped = True
                break
        if stopped:
            print(f"asked to stop at step {step}")
            break
        score = accuracy(model, *test)
        cdui.log({"val_accuracy": score}, step=step)
        print(f"epoch {epoch}  loss {loss.item():.4f}  val_accuracy {score:.4f}  {time.monotonic() - began:.1f} s")

    path = pathlib.Path(cdui.checkpoint_dir()) / "fashion.pt"
    torch.save(model.state_dict(), path)
    cdui.artifact(path, kind="checkpoint", meta={"step": step})
    print(f"saved {path}")


if __name__ == "__main__":
    main()
