"""The networks of the RL nodes."""

from __future__ import annotations

from typing import Any

from cdui.nodes.late_classes import LateClasses
from cdui.nodes.modules import seeded_linear


def mlp(inputs: int, hidden: int, outputs: int) -> Any:
    """Two hidden layers with ReLU; weights from the global generator."""
    from torch import nn

    return nn.Sequential(nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, outputs))


def actor_critic(inputs: int, hidden: int, outputs: int) -> Any:
    """A shared body with two heads: logits of the actions and a value."""
    return _CLASSES["ActorCritic"](inputs, hidden, outputs)


def reward_model(generator: Any, inputs: int, hidden: int) -> Any:
    """One hidden layer with ReLU, one number out; weights from ``generator``."""
    return _CLASSES["RewardNetwork"](generator, inputs, hidden)


def _make_classes() -> list[Any]:
    from torch import nn

    class ActorCritic(nn.Module):
        """``[batch, inputs]`` to logits ``[batch, outputs]`` and values ``[batch]``."""

        def __init__(self, inputs: int, hidden: int, outputs: int) -> None:
            super().__init__()
            self.body = nn.Sequential(nn.Linear(inputs, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.Tanh())
            self.actor, self.critic = nn.Linear(hidden, outputs), nn.Linear(hidden, 1)

        def forward(self, state: Any) -> Any:
            features = self.body(state)
            return self.actor(features), self.critic(features).squeeze(-1)

    class RewardNetwork(nn.Module):
        """``[..., inputs]`` to ``[...]``."""

        def __init__(self, generator: Any, inputs: int, hidden: int) -> None:
            super().__init__()
            self.layers = nn.Sequential(seeded_linear(generator, inputs, hidden), nn.ReLU(), seeded_linear(generator, hidden, 1))

        def forward(self, states: Any) -> Any:
            return self.layers(states).squeeze(-1)

    return [ActorCritic, RewardNetwork]


_CLASSES = LateClasses(__name__, ("ActorCritic", "RewardNetwork"), _make_classes)
__getattr__ = _CLASSES.attribute
