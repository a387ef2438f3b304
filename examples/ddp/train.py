#!/usr/bin/env python3
"""Trains on several processes at once with DistributedDataParallel.

    cdui run -- torchrun --nproc_per_node 2 examples/ddp/train.py

Each process takes its share of the digits beside examples/digits. Only rank 0
is recorded, without a word about it here; all ranks agree on when to stop.
"""
import argparse
import datetime
import gzip
import os
import pathlib

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

try:
    import cdui
except ImportError:

    class cdui:  # nothing is recorded then
        log = artifact = staticmethod(lambda *args, **kwargs: None)
        should_stop = staticmethod(lambda: False)
        checkpoint_dir = staticmethod(lambda: ".")
        device = staticmethod(lambda: "cpu")


DATA = pathlib.Path(__file__).resolve().parent.parent / "digits" / "digits.csv.gz"
TEST_IMAGES = 360


def load(device):
    with gzip.open(DATA, "rt") as f:
        rows = torch.tensor([[int(n) for n in line.split(",")] for line in f])
    rows = rows[torch.randperm(len(rows), generator=torch.Generator().manual_seed(0))].to(device)
    images, labels = rows[:, :64].float().div(16), rows[:, 64]
    cut = len(rows) - TEST_IMAGES
    return (images[:cut], labels[:cut]), (images[cut:], labels[cut:])


def all_mean(value, exchange):
    """The mean of all ranks' values, sent in the tensor exchange."""
    dist.all_reduce(exchange.fill_(value))
    return exchange.item() / dist.get_world_size()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--batch-size", type=int, default=32, help="of each process")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()

    device = cdui.device()
    if device == "cpu":
        # Else gloo asks what address the machine's name has, which may be anything.
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    # A rank that is gone is noticed after this, not after the default of half an hour.
    dist.init_process_group("gloo" if device == "cpu" else "nccl", timeout=datetime.timedelta(minutes=2))
    rank, world = dist.get_rank(), dist.get_world_size()

    torch.manual_seed(args.seed)
    (images, labels), test = load(device)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10)).to(device))
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    # One tensor for all exchanges, alive until the group is gone: a group whose
    # thread is the last to let go of a tensor may hang when it is taken down
    # (seen with PyTorch 1.13 and gloo).
    exchange = torch.zeros((), device=device)
    if rank == 0:
        print(f"{world} processes, {len(images)} images, on {device}", flush=True)

    for epoch in range(1, args.epochs + 1):
        order = torch.randperm(len(images))  # the same on all ranks
        share = order[: len(order) // world * world][rank::world]
        total = 0.0
        for batch in share.split(args.batch_size):
            loss = nn.functional.cross_entropy(model(images[batch]), labels[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item() * len(batch)
        with torch.no_grad():
            score = (model(test[0]).argmax(1) == test[1]).float().mean().item()
        loss = all_mean(total / len(share), exchange)
        cdui.log({"train_loss": loss, "accuracy": score}, step=epoch)
        if rank == 0:
            print(f"epoch {epoch:3d}  train_loss {loss:.4f}  accuracy {score:.4f}", flush=True)
        # Ranks may learn of it at different times; leaving alone would hang the others.
        if all_mean(float(cdui.should_stop()), exchange) > 0:
            break

    if rank == 0:
        path = pathlib.Path(cdui.checkpoint_dir()) / "ddp.pt"
        torch.save(model.module.state_dict(), path)
        cdui.artifact(path, kind="checkpoint")
        print(f"saved {path}", flush=True)
    # The model holds the group too, so it goes first; exchange goes last.
    del model
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
