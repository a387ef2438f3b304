"""Category Diffusion: noise, the network that predicts it, and sampling."""

from __future__ import annotations

import math
from typing import Any

from cdui.node import Node, Param, Port
from cdui.nodes import parsing
from cdui.nodes.diffusion_models import TRAINED, Schedule, network, predict, sinusoids
from cdui.nodes.modules import seeded_linear


def _schedule_params(beta_end):
    return [
        Param("schedule", "select", "linear", "How the noise grows.", ["linear", "cosine"]),
        Param("beta_start", "float", 0.0001, "Noise of the first step, for linear.", min_value=0.0),
        Param("beta_end", "float", beta_end, "Noise of the last step, for linear.", min_value=0.0),
    ]


class DDPMSampler(Node):
    """Takes the noise ``[batch, channels, height, width]`` off in ``num_steps``
    steps. The model is given ``(x, timesteps [batch])`` and predicts the noise."""

    NODE_NAME = "DDPMSampler"
    CATEGORY = "Diffusion"
    DESCRIPTION = "Makes images from noise, step by step."
    DETAILS = (
        "A model from DiffusionTrainingLoop is asked at the times of its training when there was as much noise in the "
        "images; any other at 0 to num_steps - 1."
    )
    cacheable = False

    @classmethod
    def inputs(cls, params=None):
        return [
            Port("model", "MODEL", "(x, timesteps) to noise"), Port("noise", "TENSOR", "[batch, channels, height, width]"),
            Port("condition", "TENSOR", "given to the model as its third argument", optional=True),
        ]

    @classmethod
    def outputs(cls, params=None):
        return [Port("image", "TENSOR", "[batch, channels, height, width]")]

    @classmethod
    def params(cls):
        return [
            Param("num_steps", "int", 20, "Steps from noise to image.", min_value=1), *_schedule_params(0.02),
            Param("seed", "int", 42, "Seed of the noise put back in each step."),
        ]

    def execute(self, inputs, params, context):
        import torch

        model, x = inputs["model"], inputs["noise"].float()
        if x.dim() != 4:
            raise ValueError(f"noise has the shape {list(x.shape)} and must be [batch, channels, height, width]")
        steps = int(params["num_steps"])
        schedule = Schedule.of(params, steps)
        times = schedule.times_like(getattr(model, TRAINED, None))
        generator = torch.Generator().manual_seed(int(params["seed"]))
        model.to(x.device).eval()
        with torch.no_grad():
            for step in reversed(range(steps)):
                if context.should_stop():
                    return {"image": x, "__interrupted__": {"reason": "stopped", "done": steps - 1 - step, "total": steps}}
                time = torch.full((len(x),), times[step], device=x.device)
                noise = predict(model, x, time, inputs.get("condition"))
                x = schedule.back(x, noise, step, torch.randn(x.shape, generator=generator).to(x.device))
        return {"image": x}


class DiffusionTrainingLoop(Node):
    """Trains a model to predict the noise in images: mean squared error, Adam.
    ``losses [epochs]`` are the means of the batch losses."""

    NODE_NAME = "DiffusionTrainingLoop"
    CATEGORY = "Diffusion"
    DESCRIPTION = "Trains a model to see the noise in images."
    DETAILS = "The dataset's images should lie in −1..1; its labels don't count."
    cacheable = False

    @classmethod
    def inputs(cls, params=None):
        return [Port("model", "MODEL", "(x, timesteps) to noise"), Port("dataset", "DATASET", "images [channels, height, width]")]

    @classmethod
    def outputs(cls, params=None):
        return [Port("model", "MODEL", "the same model, trained"), Port("losses", "TENSOR", "[epochs]")]

    @classmethod
    def params(cls):
        return [
            Param("epochs", "int", 200, "Passes over the images.", min_value=1),
            Param("batch_size", "int", 32, "Images at a time.", min_value=1),
            Param("lr", "float", 0.002, "Learning rate of Adam.", min_value=0.0),
            Param("num_timesteps", "int", 160, "Steps from image to noise.", min_value=2), *_schedule_params(0.05),
            Param("device", "select", "cpu", "Where to compute.", ["cpu", "cuda"]),
            Param("seed", "int", 0, "Seed of the order, the times and the noise."),
        ]

    def execute(self, inputs, params, progress_callback, context):
        from cdui.nodes.diffusion_training import train

        return train(inputs["model"], inputs["dataset"], params, progress_callback, context)


class DiffusionUNet(Node):
    """A U-Net that predicts the noise in ``x [batch, in_channels, height, width]``
    at ``timesteps [batch]``; the output has the shape of x."""

    NODE_NAME = "DiffusionUNet"
    CATEGORY = "Diffusion"
    DESCRIPTION = "A network that sees the noise in images."
    DETAILS = "height and width must be divisible by 2 as often as channel_mult has numbers, less one."
    cacheable = False

    @classmethod
    def outputs(cls, params=None):
        return [Port("model", "MODEL", "(x, timesteps) to noise")]

    @classmethod
    def params(cls):
        return [
            Param("in_channels", "int", 3, "Channels of the images.", min_value=1),
            Param("base_channels", "int", 16, "Channels at full size.", min_value=1),
            Param("channel_mult", "string", "1,2,4", "Channels of each size, as multiples of base_channels."),
            Param("time_emb_dim", "int", 32, "Size of the embedding of the time; even.", min_value=2),
            Param("num_groups", "int", 4, "Groups of the normalization; divides the channels.", min_value=1),
            Param("seed", "int", 42, "Seed of the weights."),
        ]

    def execute(self, inputs, params, context):
        import torch

        mult = parsing.integers(params["channel_mult"], "channel_mult", at_least=1)
        base, groups, embedding = int(params["base_channels"]), int(params["num_groups"]), int(params["time_emb_dim"])
        if min(mult) < 1:
            raise ValueError(f"channel_mult is {params['channel_mult']!r}: each number must be 1 or more")
        for channels in {base * m for m in mult}:
            if channels % groups:
                raise ValueError(f"num_groups is {groups} and doesn't divide {channels} channels: change it or base_channels")
        if embedding % 2:
            raise ValueError(f"time_emb_dim is {embedding} and must be even")
        generator = torch.Generator().manual_seed(int(params["seed"]))
        model = network(generator, int(params["in_channels"]), base, mult, embedding, groups)
        return {"model": model.to(context.device)}


class GaussianNoise(Node):
    """Normal noise of a given shape, or of the shape of ``shape_ref``."""

    NODE_NAME = "GaussianNoise"
    CATEGORY = "Diffusion"
    DESCRIPTION = "Random numbers of the normal distribution."
    cacheable = False

    @classmethod
    def inputs(cls, params=None):
        return [Port("shape_ref", "TENSOR", "gives the shape instead of the param", optional=True)]

    @classmethod
    def outputs(cls, params=None):
        return [Port("noise", "TENSOR")]

    @classmethod
    def params(cls):
        return [
            Param("shape", "string", "1,3,8,8", "Sizes with commas between them."),
            Param("mean", "float", 0.0, "Middle of the distribution."),
            Param("std", "float", 1.0, "Standard deviation.", min_value=0.0),
            Param("seed", "int", 42, "Seed of the numbers."),
        ]

    def execute(self, inputs, params, context):
        import torch

        reference = inputs.get("shape_ref")
        shape = list(reference.shape) if reference is not None else parsing.integers(params["shape"], "shape", at_least=1)
        generator = torch.Generator().manual_seed(int(params["seed"]))
        noise = torch.randn(shape, generator=generator) * float(params["std"]) + float(params["mean"])
        return {"noise": noise.to(context.device)}


class Lerp(Node):
    """(1 − alpha)·a + alpha·b; a wired alpha is spread over the dimensions that
    follow its own."""

    NODE_NAME = "Lerp"
    CATEGORY = "Diffusion"
    DESCRIPTION = "A mixture of two tensors."

    @classmethod
    def inputs(cls, params=None):
        return [Port("tensor_a", "TENSOR"), Port("tensor_b", "TENSOR"), Port("alpha", "TENSOR", "in place of the param", optional=True)]

    @classmethod
    def outputs(cls, params=None):
        return [Port("tensor", "TENSOR")]

    @classmethod
    def params(cls):
        return [Param("alpha", "float", 0.5, "0 gives a, 1 gives b.")]

    def execute(self, inputs, params):
        a, b, alpha = inputs["tensor_a"], inputs["tensor_b"], inputs.get("alpha")
        if alpha is None:
            return {"tensor": a + float(params["alpha"]) * (b - a)}
        while 0 < alpha.dim() < a.dim():
            alpha = alpha.unsqueeze(-1)
        return {"tensor": a + alpha * (b - a)}


class TimestepEmbedding(Node):
    """Times as vectors ``[times, embed_dim]``: sines and cosines, then two linear
    layers with SiLU between them, as diffusion networks have them."""

    NODE_NAME = "TimestepEmbedding"
    CATEGORY = "Diffusion"
    DESCRIPTION = "Times as vectors."
    cacheable = False

    @classmethod
    def inputs(cls, params=None):
        return [Port("timestep", "TENSOR", "any shape, taken as a list of times")]

    @classmethod
    def outputs(cls, params=None):
        return [Port("embedding", "TENSOR", "[times, embed_dim]")]

    @classmethod
    def params(cls):
        return [
            Param("embed_dim", "int", 32, "Size of the vectors; even.", min_value=2),
            Param("max_period", "int", 10000, "The longest wave, in steps.", min_value=1),
            Param("seed", "int", 42, "Seed of the layers' weights."),
        ]

    def execute(self, inputs, params):
        import torch
        from torch import nn

        size, times = int(params["embed_dim"]), inputs["timestep"].flatten()
        if size % 2:
            raise ValueError(f"embed_dim is {size} and must be even")
        generator = torch.Generator().manual_seed(int(params["seed"]))
        layers = nn.Sequential(seeded_linear(generator, size, size), nn.SiLU(), seeded_linear(generator, size, size)).to(times.device)
        return {"embedding": layers(sinusoids(times, size, float(params["max_period"])))}


class Upsample(Node):
    """``[batch, channels, height, width]`` larger (or smaller) by a factor."""

    NODE_NAME = "Upsample"
    CATEGORY = "Diffusion"
    DESCRIPTION = "Images of another size."

    @classmethod
    def inputs(cls, params=None):
        return [Port("tensor", "TENSOR", "[batch, channels, height, width]")]

    @classmethod
    def outputs(cls, params=None):
        return [Port("tensor", "TENSOR", "[batch, channels, height·factor, width·factor]")]

    @classmethod
    def params(cls):
        return [
            Param("mode", "select", "nearest", "How new pixels are found.", ["nearest", "bilinear", "area"]),
            Param("scale_factor", "float", 2.0, "Factor of both sides.", min_value=0.1),
        ]

    def execute(self, inputs, params):
        from torch.nn import functional

        tensor, mode, factor = inputs["tensor"], params["mode"], float(params["scale_factor"])
        if tensor.dim() != 4:
            raise ValueError(f"the tensor has the shape {list(tensor.shape)} and must be [batch, channels, height, width]")
        if mode not in ("nearest", "bilinear", "area"):
            raise ValueError(f"mode is {mode!r}: choose nearest, bilinear or area")
        if min(math.floor(side * factor) for side in tensor.shape[2:]) < 1:
            raise ValueError(f"scale_factor is {factor:g} and leaves nothing of {list(tensor.shape)}: choose a larger one")
        extra: dict[str, Any] = {"align_corners": False} if mode == "bilinear" else {}
        return {"tensor": functional.interpolate(tensor, scale_factor=factor, mode=mode, **extra)}


NODES = [DDPMSampler, DiffusionTrainingLoop, DiffusionUNet, GaussianNoise, Lerp, TimestepEmbedding, Upsample]
