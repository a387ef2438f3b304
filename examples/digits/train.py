#!/usr/bin/env python3
"""Trains a small network on 1,797 real images of handwritten digits.

    cdui run examples/digits/train.py -- --epochs 20 --lr 2e-3
    python3 examples/digits/train.py              # works without cdui too

The data lie beside this file; README.md says where they come from.
"""
import argparse
import gzip
import pathlib

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


DATA = pathlib.Path(__file__).resolve().parent / "digits.csv.gz"
TEST_IMAGES = 360


def load(device):
    """Images as floats in 0..1, and labels; a fifth is kept for testing."""
    with gzip.open(DATA, "rt") as f:
        rows = torch.tensor([[int(n) for n in line.split(",")] for line in f])
    # The same split whatever the seed of the training is.
    rows = rows[torch.randperm(len(rows), generator=torch.Generator().manual_seed(0))].to(device)
    images, labels = rows[:, :64].float().div(16).view(-1, 1, 8, 8), rows[:, 64]
    cut = len(rows) - TEST_IMAGES
    return (images[:cut], labels[:cut]), (images[cut:], labels[cut:])


def network():
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(32 * 4 * 4, 64),
        nn.ReLU(),
        nn.Linear(64, 10),
    )


def train_epoch(model, optimizer, images, labels, batch_size):
    """Mean loss of one pass; False beside it when the run was asked to stop."""
    model.train()
    total = 0.0
    for batch in torch.randperm(len(images)).split(batch_size):
        loss = nn.functional.cross_entropy(model(images[batch]), labels[batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item() * len(batch)
        if cdui.should_stop():
            return total / len(images), False
    return total / len(images), True


@torch.no_grad()
def accuracy(model, images, labels):
    model.eval()
    return (model(images).argmax(1) == labels).float().mean().item()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    torch.use_deterministic_algorithms(True, warn_only=True)
    device = cdui.device()
    train, test = load(device)
    model = network().to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    print(f"{len(train[0])} images to learn from, {len(test[0])} to test with, on {device}")

    for epoch in range(1, args.epochs + 1):
        loss, whole = train_epoch(model, optimizer, *train, args.batch_size)
        if not whole:
            print(f"asked to stop in epoch {epoch}")
            break
        score = accuracy(model, *test)
        cdui.log({"train_loss": loss, "accuracy": score}, step=epoch)
        print(f"epoch {epoch:3d}  train_loss {loss:.4f}  accuracy {score:.4f}")

    score = accuracy(model, *test)
    path = pathlib.Path(cdui.checkpoint_dir()) / "digits.pt"
    torch.save(model.state_dict(), path)
    cdui.artifact(path, kind="checkpoint", meta={"accuracy": score})
    print(f"accuracy {score:.4f}, saved {path}")


if __name__ == "__main__":
    main()
