"""Diffusion: the schedule's mathematics, the network, learning, sampling."""
import math
import pickle

import pytest

from cdui.node import Context, call, fill_params

torch = pytest.importorskip("torch")

from cdui.nodes import diffusion, diffusion_models, synthetic  # noqa: E402


def run(node, inputs=None, context=None, progress=None, **params):
    return call(node(), inputs or {}, fill_params(node, params), progress or (lambda payload: None), context or Context())


class Stopping(Context):
    def __init__(self, after):
        super().__init__()
        self.after = after

    def should_stop(self):
        self.after -= 1
        return self.after < 0


def schedule(kind="linear", steps=50):
    return diffusion_models.Schedule.of({"schedule": kind, "beta_start": 1e-4, "beta_end": 0.02}, steps)


def test_schedules():
    """Proves B.3."""
    linear = schedule()
    assert linear.betas[0] == 1e-4 and linear.betas[-1] == pytest.approx(0.02) and len(linear.betas) == 50
    assert linear.kept[1] == pytest.approx((1 - 1e-4) * (1 - linear.betas[1]).item())
    cosine = schedule("cosine")
    wanted = [math.cos((t / 50 + 0.008) / 1.008 * math.pi / 2) ** 2 / math.cos(0.008 / 1.008 * math.pi / 2) ** 2 for t in range(1, 50)]
    assert cosine.kept[:-1].tolist() == pytest.approx(wanted) and cosine.betas.max() <= 0.999
    for params, message in (({"schedule": "x"}, "schedule is 'x'"), ({"schedule": "linear", "beta_start": 0.5, "beta_end": 0.1}, "in this order")):
        with pytest.raises(ValueError, match=message):
            diffusion_models.Schedule.of({"beta_start": 0.1, "beta_end": 0.2, **params}, 5)


def test_knowing_the_noise_gives_the_image_back():
    made, image, noise = schedule(steps=400), torch.randn(2, 1, 4, 4).double(), torch.randn(2, 1, 4, 4).double()
    x = made.noisy(image, noise, torch.tensor([0, 0]))
    assert torch.allclose(made.back(x, noise, 0, noise), image)


def test_the_variance_of_a_step_is_the_posterior_one():
    made = schedule()
    zero, one = torch.zeros(1, 1, 1, 1), torch.ones(1, 1, 1, 1)
    kept, beta = made.kept, made.betas
    wanted = (beta[9] * (1 - kept[8]) / (1 - kept[9])).sqrt().item()
    assert made.back(zero, zero, 9, one).item() == pytest.approx(wanted)


def test_unet():
    """Proves B.3."""
    model = run(diffusion.DiffusionUNet)["model"]
    x, times = torch.randn(2, 3, 16, 24), torch.tensor([0, 100])
    assert model(x, times).shape == x.shape
    assert not torch.equal(model(x, times), model(x, times + 1))
    assert torch.equal(model(x, times), run(diffusion.DiffusionUNet)["model"](x, times))
    assert not torch.equal(model(x, times), run(diffusion.DiffusionUNet, seed=1)["model"](x, times))
    assert model(x, times, torch.randn(2, 32)).shape == x.shape
    assert torch.equal(pickle.loads(pickle.dumps(model))(x, times), model(x, times))
    with pytest.raises(ValueError, match="images of 18x24 can't be halved 2 times"):
        model(torch.zeros(1, 3, 18, 24), times[:1])


@pytest.mark.parametrize("params, message", [
    ({"num_groups": 3}, "num_groups is 3 and doesn't divide"), ({"channel_mult": "0,1"}, "channel_mult is '0,1'"), ({"time_emb_dim": 3}, "must be even"),
])
def test_unet_says_what_is_wrong(params, message):
    with pytest.raises(ValueError, match=message):
        run(diffusion.DiffusionUNet, **params)


def trained(context=None, told=None, **params):
    dataset = run(synthetic.SyntheticShapes, image_size=8, n_samples=48)["dataset"]
    model = run(diffusion.DiffusionUNet, channel_mult="1,2")["model"]
    return run(diffusion.DiffusionTrainingLoop, {"model": model, "dataset": dataset}, context, (told.append if told is not None else None),
               **{"epochs": 15, "num_timesteps": 40, **params})


def test_training_learns_and_is_its_seed():
    told, context = [], Context()
    got = trained(context, told)
    assert got["losses"].shape == (15,) and got["losses"][-3:].mean() < 0.6 * got["losses"][0]
    assert [step for name, _, step in context.metrics if name == "train_loss"] == list(range(1, 16))
    assert [payload["event"] for payload in told if payload["event"] != "batch"] == ["config"] + ["epoch"] * 15
    torch.manual_seed(123)
    assert torch.equal(trained()["losses"], got["losses"]) and not torch.equal(trained(seed=1, epochs=1)["losses"], got["losses"][:1])


def test_stopped_training_gives_what_it_has():
    """Proves C.10."""
    got = trained(Stopping(3))
    assert len(got["losses"]) == 1 and got["__interrupted__"] == {"reason": "stopped", "epoch": 1, "batch": 1}


def test_sampling_finds_the_one_image_that_a_perfect_model_knows():
    image = torch.linspace(-1, 1, 16).view(1, 1, 4, 4)
    made = diffusion_models.Schedule.of({"schedule": "linear", "beta_start": 1e-4, "beta_end": 0.05}, 200)

    class Perfect(torch.nn.Module):
        def forward(self, x, times):
            kept = made.kept[times].view(-1, 1, 1, 1).float()
            return (x - kept.sqrt() * image) / (1 - kept).sqrt()

    got = run(diffusion.DDPMSampler, {"model": Perfect(), "noise": torch.randn(2, 1, 4, 4)}, num_steps=200, beta_end=0.05)["image"]
    assert torch.allclose(got, image.expand(2, 1, 4, 4), atol=1e-3)


def test_a_trained_model_is_asked_at_the_times_that_it_knows():
    asked = []

    class Listening(torch.nn.Module):
        def forward(self, x, times, condition=None):
            asked.append((int(times[0]), condition))
            return x

    model = Listening()
    sample = lambda **more: run(diffusion.DDPMSampler, {"model": model, "noise": torch.ones(1, 1, 2, 2), **more}, num_steps=5)  # noqa: E731
    first = sample()["image"]
    assert asked == [(4, None), (3, None), (2, None), (1, None), (0, None)] and torch.equal(sample()["image"], first)
    setattr(model, diffusion_models.TRAINED, diffusion_models.Schedule.of({"schedule": "linear", "beta_start": 1e-4, "beta_end": 0.02}, 100).kept)
    asked.clear()
    sample(condition="c")
    assert [time for time, _ in asked] == sorted({time for time, _ in asked}, reverse=True) and asked[0][0] > 15 and asked[0][1] == "c"


def test_stopped_sampling_gives_the_image_so_far():
    """Proves C.10."""
    got = run(diffusion.DDPMSampler, {"model": torch.nn.Linear(1, 1), "noise": torch.ones(1, 1, 2, 2)}, Stopping(0))
    assert torch.equal(got["image"], torch.ones(1, 1, 2, 2)) and got["__interrupted__"] == {"reason": "stopped", "done": 0, "total": 20}


def test_the_sampler_refuses_what_does_not_fit():
    class Small(torch.nn.Module):
        def forward(self, x, times):
            return x[..., :1]

    with pytest.raises(ValueError, match=r"the model answers \[1, 1, 2, 1\] to images \[1, 1, 2, 2\]"):
        run(diffusion.DDPMSampler, {"model": Small(), "noise": torch.ones(1, 1, 2, 2)})
    with pytest.raises(ValueError, match=r"noise has the shape \[2\]"):
        run(diffusion.DDPMSampler, {"model": Small(), "noise": torch.ones(2)})


def test_gaussian_noise():
    """Proves B.3."""
    wanted = torch.randn(2, 3, generator=torch.Generator().manual_seed(5)) * 2 + 1
    assert torch.equal(run(diffusion.GaussianNoise, shape="2,3", mean=1.0, std=2.0, seed=5)["noise"], wanted)
    assert torch.equal(run(diffusion.GaussianNoise, {"shape_ref": torch.zeros(2, 3)}, mean=1.0, std=2.0, seed=5)["noise"], wanted)


def test_lerp():
    """Proves B.3."""
    a, b = torch.randn(2, 3, 4), torch.randn(2, 3, 4)
    assert torch.allclose(run(diffusion.Lerp, {"tensor_a": a, "tensor_b": b}, alpha=0.3)["tensor"], torch.lerp(a, b, 0.3))
    got = run(diffusion.Lerp, {"tensor_a": a, "tensor_b": b, "alpha": torch.tensor([0.0, 1.0])})["tensor"]
    assert torch.allclose(got[0], a[0]) and torch.allclose(got[1], b[1], atol=1e-6)


def test_timestep_embedding():
    """Proves B.3."""
    waves = diffusion_models.sinusoids(torch.tensor([0, 3]), 8, 100.0)
    assert waves[0].tolist() == [1, 1, 1, 1, 0, 0, 0, 0]
    assert waves[1, 1].item() == pytest.approx(math.cos(3 * 100 ** -0.25)) and waves[1, 5].item() == pytest.approx(math.sin(3 * 100 ** -0.25))
    got = run(diffusion.TimestepEmbedding, {"timestep": torch.tensor([[0], [3]])}, embed_dim=8)["embedding"]
    assert got.shape == (2, 8) and torch.equal(got, run(diffusion.TimestepEmbedding, {"timestep": torch.tensor([0, 3])}, embed_dim=8)["embedding"])
    with pytest.raises(ValueError, match="embed_dim is 7 and must be even"):
        run(diffusion.TimestepEmbedding, {"timestep": torch.tensor([0])}, embed_dim=7)


@pytest.mark.parametrize("mode", ["nearest", "bilinear", "area"])
def test_upsample(mode):
    """Proves B.3."""
    x = torch.randn(1, 2, 4, 6)
    got = run(diffusion.Upsample, {"tensor": x}, mode=mode, scale_factor=1.5)["tensor"]
    assert torch.equal(got, torch.nn.functional.interpolate(x, scale_factor=1.5, mode=mode)) and got.shape == (1, 2, 6, 9)
    with pytest.raises(ValueError, match="leaves nothing"):
        run(diffusion.Upsample, {"tensor": x}, scale_factor=0.1)
