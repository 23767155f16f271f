"""PPO-Lagrangian (Ray et al. 2019): rate limits as a price, not as a map; what a constrained MDP makes of them.

Actions range over everything (layer ``none``). The cost of a step is the share of joints whose increment left F_t,
decided exactly by the same audit that counts violations; its mean over steps is the violation rate of docs/metrics.md.
A second critic foresees discounted costs, and the policy climbs

    (A_reward - multiplier A_cost) / (1 + multiplier),    multiplier <- max(0, multiplier + rate (mean cost - limit)),

the multiplier moving once for each rollout, before the policy does. With a limit of 0 it never sinks. Nothing here
keeps a single step inside the limit: violations are counted, not prevented.
"""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from slewrl.agents.base import Sample
from slewrl.agents.config import NOT_NEGATIVE, SHARE
from slewrl.agents.ppo import PPO, PPOConfig, _flat
from slewrl.layers.base import ActionLayer
from slewrl.limits import RateLimits
from slewrl.limits.augmented import previous_action


@dataclass(frozen=True)
class PPOLagConfig(PPOConfig):
    """PPO's, and the price of a violation; all ours."""

    cost_limit: Annotated[float, SHARE] = 0.0
    """Mean cost per step that is free: a share of joint steps, in [0, 1]."""
    multiplier_rate: Annotated[float, NOT_NEGATIVE] = 0.1
    """What the multiplier grows by, per rollout, if every joint of every step violates its limit."""
    initial_multiplier: Annotated[float, NOT_NEGATIVE] = 0.0
    """Reward per unit of cost at the start."""

    def __post_init__(self) -> None:
        """Refuse what no run could use."""
        super().__post_init__()
        if self.advantage != "gae":
            raise ValueError(f"advantage is {self.advantage!r}, but ppo_lag weighs two estimates: expected 'gae'")


class PPOLag(PPO):
    """See the module; the arguments are those of PPO, but the layer must be a soft one."""

    Config: ClassVar[type[PPOLagConfig]] = PPOLagConfig
    values = 2
    columns = (*PPO.columns, "cost", "multiplier")
    config: PPOLagConfig

    def __init__(
        self, config: PPOLagConfig, limits: RateLimits, layer: ActionLayer, observation_size: int, seed: int
    ) -> None:
        if layer.hard:
            raise ValueError(
                f"layer {type(layer).__name__} never violates a limit, so ppo_lag has no cost to learn from: "
                "expected --layer none"
            )
        super().__init__(config, limits, layer, observation_size, seed)
        self.multiplier = config.initial_multiplier

    def judge(self, seen: Tensor, sample: Sample) -> tuple[NDArray[Any], list[NDArray[Any]], dict[str, float]]:
        """Advantages of the Lagrangian, targets of both critics; moves the multiplier."""
        cost = self.cost()
        gain, to_gain = self.estimate(self.critics[0], seen, self._collected.reward)
        harm, to_harm = self.estimate(self.critics[1], seen, cost)
        config, mean = self.config, float(cost.mean())
        self.multiplier = moved(self.multiplier, mean, config.cost_limit, config.multiplier_rate)
        advantage = (gain - self.multiplier * harm) / (1 + self.multiplier)
        return advantage, [to_gain, to_harm], {"cost": mean, "multiplier": self.multiplier}

    def cost(self) -> NDArray[np.float64]:
        """The share of joints that left F_t at each step of the rollout, (T, N)."""
        rollout = self._collected
        # What was executed is the previous action of what followed.
        executed, previous = (previous_action(_flat(x), self.joints) for x in (rollout.following, rollout.observation))
        share: NDArray[np.float64] = self.limits.outside(executed, previous).mean(-1).reshape(rollout.reward.shape)
        return share

    def state_dict(self) -> dict[str, Any]:
        """PPO's and the multiplier."""
        return {**super().state_dict(), "multiplier": self.multiplier}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on exactly where ``state_dict`` was taken."""
        super().load_state_dict(state)
        self.multiplier = state["multiplier"]


def moved(multiplier: float, cost: float, limit: float, rate: float) -> float:
    """One step of gradient ascent on the multiplier of E[cost] <= limit."""
    return max(0.0, multiplier + rate * (cost - limit))
