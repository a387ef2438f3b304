"""The RL nodes against plain torch."""
import pickle

import pytest

from cdui.node import Context, MissingPackage, call, fill_params

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from cdui.nodes import rl  # noqa: E402


def run(node, inputs=None, context=None, **params):
    return call(node(), inputs or {}, fill_params(node, params), lambda payload: None, context or Context())


def test_dqn_takes_the_best_action():
    """Proves B.3."""
    torch.manual_seed(1)
    got = run(rl.DQN, {"state": torch.randn(5, 4)}, action_dim=3)
    assert got["action"].shape == (5,) and got["model"](torch.zeros(2, 4)).shape == (2, 3)
    torch.manual_seed(2)
    model = run(rl.DQN, hidden_dim=7)
    torch.manual_seed(2)
    wanted = nn.Sequential(nn.Linear(4, 7), nn.ReLU(), nn.Linear(7, 7), nn.ReLU(), nn.Linear(7, 2))
    assert torch.equal(model["model"](torch.ones(4)), wanted(torch.ones(4))) and model["action"].numel() == 0
    torch.manual_seed(2)
    assert run(rl.DQN, {"state": torch.ones(4)}, hidden_dim=7)["action"] == wanted(torch.ones(4)).argmax()


def test_ppo_draws_actions():
    """Proves B.3."""
    torch.manual_seed(0)
    got = run(rl.PPO, {"state": torch.zeros(200, 4)})
    logits, values = got["model"](torch.zeros(3, 4))
    assert logits.shape == (3, 2) and values.shape == (3,) and set(got["action"].tolist()) == {0, 1}
    torch.manual_seed(0)
    assert torch.equal(run(rl.PPO, {"state": torch.zeros(200, 4)})["action"], got["action"])
    assert torch.equal(pickle.loads(pickle.dumps(got["model"]))(torch.ones(4))[0], got["model"](torch.ones(4))[0])


@pytest.mark.parametrize("node", [rl.DQN, rl.PPO])
def test_agents_say_what_is_wrong(node):
    with pytest.raises(ValueError, match=r"state has the shape \[3\] and state_dim is 4"):
        run(node, {"state": torch.ones(3)})
    with pytest.raises(ValueError, match="action_dim is 0"):
        run(node, action_dim=0)


def test_reward_model():
    """Proves B.3."""
    states = torch.randn(2, 5, 128)
    got = run(rl.RewardModel, {"hidden_states": states})
    assert got["rewards"].shape == (2, 5) and torch.equal(got["model"](states), got["rewards"])
    assert torch.equal(run(rl.RewardModel, {"hidden_states": states})["rewards"], got["rewards"])
    assert run(rl.RewardModel)["rewards"].numel() == 0
    with pytest.raises(ValueError, match="input_dim is 128"):
        run(rl.RewardModel, {"hidden_states": torch.ones(3)})


@pytest.mark.parametrize("reduction", ["batchmean", "sum", "mean", "none"])
def test_kl_divergence(reduction):
    """Proves B.3."""
    a, b = torch.randn(3, 4), torch.randn(3, 4)
    p, q = a.softmax(-1), b.softmax(-1)
    parts = p * (p / q).log()
    wanted = {"batchmean": parts.sum() / 3, "sum": parts.sum(), "mean": parts.mean(), "none": parts}[reduction]
    assert torch.allclose(run(rl.KLDivergence, {"p": p, "q": q}, reduction=reduction)["kl"], wanted, atol=1e-6)
    assert torch.allclose(run(rl.KLDivergence, {"p": a, "q": b}, reduction=reduction, input_kind="logits")["kl"], wanted, atol=1e-6)


def test_kl_divergence_at_the_edges():
    p, q = torch.tensor([[0.0, 1.0]]), torch.tensor([[0.5, 0.5]])
    assert run(rl.KLDivergence, {"p": p, "q": q})["kl"].item() == pytest.approx(0.6931472)
    with pytest.raises(ValueError, match="set input_kind to logits"):
        run(rl.KLDivergence, {"p": -p, "q": q})
    with pytest.raises(ValueError, match="must have the same"):
        run(rl.KLDivergence, {"p": p, "q": q[:, :1]})


def test_environment():
    try:
        import gymnasium  # noqa: F401
    except ImportError:
        with pytest.raises(MissingPackage, match="the package gymnasium is needed for environments"):
            run(rl.EnvWrapper)
        return
    got = run(rl.EnvWrapper, context=Context(seed=1, node_id="env"))
    assert got["observation"].shape == (4,)
    assert torch.equal(got["observation"], run(rl.EnvWrapper, context=Context(seed=1, node_id="env"))["observation"])
    with pytest.raises(ValueError, match="env_name is 'Nowhere-v0'"):
        run(rl.EnvWrapper, env_name="Nowhere-v0")
