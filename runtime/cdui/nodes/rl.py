"""Category RL: policies, values, rewards and environments."""

from __future__ import annotations

from typing import Any

from cdui.node import Node, Param, Port, need
from cdui.nodes.rl_models import actor_critic, mlp, reward_model


class _Agent(Node):
    """What DQN and PPO have in common: a network, and the action for a state."""

    CATEGORY = "RL"
    cacheable = False
    HIDDEN = 128

    @classmethod
    def inputs(cls, params=None):
        return [Port("state", "TENSOR", "[state_dim] or [batch, state_dim]", optional=True)]

    @classmethod
    def outputs(cls, params=None):
        return [Port("model", "MODEL"), Port("action", "TENSOR", "int64: [] or [batch]; empty without a state")]

    @classmethod
    def params(cls):
        return [
            Param("state_dim", "int", 4, "Numbers in a state."), Param("action_dim", "int", 2, "Actions to choose from."),
            Param("hidden_dim", "int", cls.HIDDEN, "Units in each hidden layer."),
        ]

    def build(self, state: int, action: int, hidden: int) -> Any:
        """The network."""
        raise NotImplementedError(self.NODE_NAME)

    def choose(self, output: Any) -> Any:
        """The actions for what the network gives."""
        raise NotImplementedError(self.NODE_NAME)

    def execute(self, inputs, params, context):
        import torch

        sizes = [int(params[name]) for name in ("state_dim", "action_dim", "hidden_dim")]
        for name, size in zip(("state_dim", "action_dim", "hidden_dim"), sizes):
            if size < 1:
                raise ValueError(f"{name} is {size}: choose 1 or more")
        model, state = self.build(*sizes).to(context.device), inputs.get("state")
        if state is None:
            return {"model": model, "action": torch.zeros(0, dtype=torch.int64)}
        if state.dim() == 0 or state.shape[-1] != sizes[0]:
            raise ValueError(f"state has the shape {list(state.shape)} and state_dim is {sizes[0]}: its last size must be state_dim")
        with torch.no_grad():
            return {"model": model, "action": self.choose(model(state.float().to(context.device)))}


class DQN(_Agent):
    """A Q network: ``[batch, state_dim]`` to values ``[batch, action_dim]``; the
    action is the one of the highest value."""

    NODE_NAME = "DQN"
    DESCRIPTION = "A network of action values, and the best action for a state."

    def build(self, state, action, hidden):
        return mlp(state, hidden, action)

    def choose(self, output):
        return output.argmax(-1)


class PPO(_Agent):
    """An actor and a critic: ``[batch, state_dim]`` to logits ``[batch, action_dim]``
    and values ``[batch]``; the action is drawn from the logits."""

    NODE_NAME = "PPO"
    DESCRIPTION = "A policy with a value, and an action drawn for a state."
    HIDDEN = 64

    def build(self, state, action, hidden):
        return actor_critic(state, hidden, action)

    def choose(self, output):
        import torch

        return torch.distributions.Categorical(logits=output[0]).sample()


class EnvWrapper(Node):
    """An environment of gymnasium and the first observation, float32."""

    NODE_NAME = "EnvWrapper"
    CATEGORY = "RL"
    DESCRIPTION = "An environment to act in."
    cacheable = False

    @classmethod
    def outputs(cls, params=None):
        return [Port("env", "ANY"), Port("observation", "TENSOR")]

    @classmethod
    def params(cls):
        return [Param("env_name", "string", "CartPole-v1", "Name of the environment.")]

    def execute(self, inputs, params, context):
        import torch

        gymnasium = need("gymnasium", why="environments")
        try:
            env = gymnasium.make(params["env_name"])
        except gymnasium.error.Error as error:
            raise ValueError(f"env_name is {params['env_name']!r}: {error}") from error
        observation, _ = env.reset(seed=context.derived_seed(context.node_id))
        return {"env": env, "observation": torch.as_tensor(observation, dtype=torch.float32).to(context.device)}


class KLDivergence(Node):
    """KL(p ‖ q) over the last dimension: Σ p·(log p − log q), where p is 0 it adds
    nothing. none keeps the shape, batchmean divides by the first size."""

    NODE_NAME = "KLDivergence"
    CATEGORY = "RL"
    DESCRIPTION = "How far one distribution is from another."

    @classmethod
    def inputs(cls, params=None):
        return [Port("p", "TENSOR", "[..., classes]"), Port("q", "TENSOR", "the same shape")]

    @classmethod
    def outputs(cls, params=None):
        return [Port("kl", "TENSOR", "[]; with none, the shape of p")]

    @classmethod
    def params(cls):
        return [
            Param("input_kind", "select", "probs", "What p and q are.", ["probs", "logits"]),
            Param("reduction", "select", "batchmean", "How the parts are put together.", ["batchmean", "sum", "mean", "none"]),
        ]

    def execute(self, inputs, params):
        from torch.nn import functional

        p, q = inputs["p"].float(), inputs["q"].float()
        if p.shape != q.shape or p.dim() == 0:
            raise ValueError(f"p has the shape {list(p.shape)} and q {list(q.shape)}: they must have the same, with one dimension or more")
        if params["reduction"] not in ("batchmean", "sum", "mean", "none"):
            raise ValueError(f"reduction is {params['reduction']!r}: choose batchmean, sum, mean or none")
        if params["input_kind"] == "logits":
            log_q, target, logged = q.log_softmax(-1), p.log_softmax(-1), True
        elif params["input_kind"] == "probs":
            if bool((p < 0).any()) or bool((q < 0).any()):
                raise ValueError("probabilities can't be negative: set input_kind to logits if these are logits")
            log_q, target, logged = q.clamp(min=1e-12).log(), p, False
        else:
            raise ValueError(f"input_kind is {params['input_kind']!r}: choose probs or logits")
        return {"kl": functional.kl_div(log_q, target, reduction=params["reduction"], log_target=logged)}


class RewardModel(Node):
    """A network from hidden states ``[..., input_dim]`` to one reward each."""

    NODE_NAME = "RewardModel"
    CATEGORY = "RL"
    DESCRIPTION = "A network that judges hidden states."
    cacheable = False

    @classmethod
    def inputs(cls, params=None):
        return [Port("hidden_states", "TENSOR", "[..., input_dim]", optional=True)]

    @classmethod
    def outputs(cls, params=None):
        return [Port("model", "MODEL"), Port("rewards", "TENSOR", "[...]; empty without hidden states")]

    @classmethod
    def params(cls):
        return [
            Param("input_dim", "int", 128, "Numbers in a hidden state.", min_value=1),
            Param("hidden_dim", "int", 64, "Units in the hidden layer.", min_value=1),
            Param("seed", "int", 42, "Seed of the weights."),
        ]

    def execute(self, inputs, params, context):
        import torch

        size = int(params["input_dim"])
        generator = torch.Generator().manual_seed(int(params["seed"]))
        model, hidden = reward_model(generator, size, int(params["hidden_dim"])).to(context.device), inputs.get("hidden_states")
        if hidden is None:
            return {"model": model, "rewards": torch.zeros(0)}
        if hidden.dim() == 0 or hidden.shape[-1] != size:
            raise ValueError(f"hidden_states has the shape {list(hidden.shape)} and input_dim is {size}: its last size must be input_dim")
        return {"model": model, "rewards": model(hidden.float().to(context.device))}


NODES = [DQN, EnvWrapper, KLDivergence, PPO, RewardModel]
