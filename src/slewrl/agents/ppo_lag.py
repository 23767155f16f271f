"""PPO-Lagrangian (Ray et al. 2019): rate limits as the cost of a constrained MDP, which does not prevent violations.

Actions are unconstrained (layer ``none``). The cost of a step is the share of joints whose increment left F_t; its mean
is the violation rate of docs/metrics.md. A second critic estimates discounted costs, and the advantage is

    (A_reward - multiplier A_cost) / (1 + multiplier),    multiplier <- max(0, multiplier + rate (mean cost - limit)),

where the multiplier is updated once per rollout, before the policy.
"""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from slewrl.agents.base import Layout, Sample
from slewrl.agents.config import NOT_NEGATIVE, SHARE
from slewrl.agents.ppo import PPO, PPOConfig, _flat
from slewrl.layers.base import ActionLayer
from slewrl.limits import RateLimits
from slewrl.limits.augmented import previous_action, previous_velocity


@dataclass(frozen=True)
class PPOLagConfig(PPOConfig):
    """PPO's hyperparameters and those of the multiplier; all ours."""

    cost_limit: Annotated[float, SHARE] = 0.0
    """Mean cost per step that is allowed: a share of joint steps, in [0, 1]."""
    multiplier_rate: Annotated[float, NOT_NEGATIVE] = 0.1
    """Growth of the multiplier per rollout in which every joint violates its limit at every step."""
    initial_multiplier: Annotated[float, NOT_NEGATIVE] = 0.0
    """Initial multiplier: reward per unit of cost."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.advantage != "gae":
            raise ValueError(f"advantage is {self.advantage!r}, but ppo_lag weighs two estimates: expected 'gae'")


class PPOLag(PPO):
    """The PPO-Lagrangian agent; its arguments are those of ``PPO``, with a layer that is not hard."""

    Config: ClassVar[type[PPOLagConfig]] = PPOLagConfig
    values = 2
    columns = (*PPO.columns, "cost", "multiplier")
    config: PPOLagConfig

    def __init__(
        self,
        config: PPOLagConfig,
        limits: RateLimits,
        layer: ActionLayer,
        observation_size: int,
        seed: int,
        layout: Layout | None = None,
    ) -> None:
        if layer.hard:
            raise ValueError(
                f"layer {type(layer).__name__} never violates a limit, so ppo_lag has no cost to learn from: "
                "expected --layer none"
            )
        super().__init__(config, limits, layer, observation_size, seed, layout)
        self.multiplier = config.initial_multiplier

    def judge(self, seen: Tensor, sample: Sample) -> tuple[NDArray[Any], list[NDArray[Any]], dict[str, float]]:
        """Advantages of the Lagrangian and targets of both critics; updates the multiplier."""
        cost = self.cost()
        reward_advantage, returns = self.estimate(self.critics[0], seen, self._collected.reward)
        cost_advantage, costs = self.estimate(self.critics[1], seen, cost)
        config, mean = self.config, float(cost.mean())
        self.multiplier = moved(self.multiplier, mean, config.cost_limit, config.multiplier_rate)
        advantage = (reward_advantage - self.multiplier * cost_advantage) / (1 + self.multiplier)
        return advantage, [returns, costs], {"cost": mean, "multiplier": self.multiplier}

    def cost(self) -> NDArray[np.float64]:
        """The share of joints that left F_t at each step of the rollout, (T, N)."""
        rollout = self._collected
        # The executed action is the previous action of the next observation.
        seen = (rollout.next_observation, rollout.observation)
        executed, previous = (previous_action(_flat(x), self.joints) for x in seen)
        before = None
        if self.limits.grid is not None:
            before = previous.astype(np.float64) - previous_velocity(_flat(rollout.observation), self.joints)
        return self.limits.outside(executed, previous, before).mean(-1).reshape(rollout.reward.shape)

    def state_dict(self) -> dict[str, Any]:
        """See ``Agent``."""
        return {**super().state_dict(), "multiplier": self.multiplier}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """See ``Agent``."""
        super().load_state_dict(state)
        self.multiplier = state["multiplier"]


def moved(multiplier: float, cost: float, limit: float, rate: float) -> float:
    """One step of gradient ascent on the multiplier of E[cost] <= limit."""
    return max(0.0, multiplier + rate * (cost - limit))
