"""The rollout of an on-policy agent, and generalised advantage estimates from it."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from slewrl.copying import Copied

Floats = NDArray[np.float32]
Bools = NDArray[np.bool_]
ARRAYS = ("observation", "next_observation", "latent", "reward", "terminated", "ended")
SAVED_AS = {"next_observation": "following"}
"""Arrays of a rollout whose name in a checkpoint is another one."""


class Rollout(Copied):
    """T steps of N environments, with augmented observations of n entries and d joints.

    Each step is written in two halves: observation and latent before it, its outcome after it. ``next_observation`` at
    the end of an episode is the episode's own last observation, whose value bootstraps an episode that was truncated.
    """

    def __init__(self, length: int, environments: int, size: int, joints: int) -> None:
        steps = (length, environments)
        self.observation, self.next_observation = (np.zeros((*steps, size), np.float32) for _ in range(2))
        self.latent, self.reward = np.zeros((*steps, joints), np.float32), np.zeros(steps, np.float32)
        self.terminated, self.ended = np.zeros(steps, np.bool_), np.zeros(steps, np.bool_)
        self.filled = 0
        """How many steps are written."""

    @property
    def full(self) -> bool:
        """Whether all T steps are written."""
        return self.filled == len(self.reward)

    def begin(self, observation: Any, latent: Any) -> None:
        """Write the first half of a step: (N, n) and (N, d)."""
        if self.full:
            raise RuntimeError(f"the rollout holds its {self.filled} steps already: learn from them first")
        self.observation[self.filled], self.latent[self.filled] = observation, latent

    def end(self, reward: Floats, next_observation: Floats, terminated: Bools, ended: Bools) -> None:
        """Write the second half: (N,), (N, n), (N,) and (N,)."""
        t = self.filled
        self.reward[t], self.next_observation[t] = reward, next_observation
        self.terminated[t], self.ended[t] = terminated, ended
        self.filled += 1

    def abandon(self) -> None:
        """Truncate the current episodes at the last step."""
        if self.filled:
            self.ended[self.filled - 1] = True

    def state_dict(self) -> dict[str, Any]:
        """The steps written so far, as tensors."""
        steps = {name: torch.from_numpy(getattr(self, name)[: self.filled].copy()) for name in ARRAYS}
        saved = {SAVED_AS.get(name, name): tensor for name, tensor in steps.items()}
        return {"filled": self.filled, "shape": list(self.observation.shape), "joints": self.latent.shape[-1], **saved}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> "Rollout":
        """The rollout that ``state_dict`` was taken of."""
        length, environments, size = state["shape"]
        rollout = cls(length, environments, size, state["joints"])
        rollout.filled = state["filled"]
        for name in ARRAYS:
            getattr(rollout, name)[: rollout.filled] = state[SAVED_AS.get(name, name)].numpy()
        return rollout


def gae(
    reward: NDArray[Any],
    value: NDArray[Any],
    next_value: NDArray[Any],
    terminated: Bools,
    ended: Bools,
    discount: float,
    gae_lambda: float,
) -> NDArray[np.float64]:
    """Generalised advantage estimates (Schulman et al. 2016), (T, N) as all arguments but the last two.

    delta_t = r_t + gamma V(s'_t) - V(s_t), without V(s'_t) where s'_t is terminal;
    A_t = delta_t + gamma lambda A_{t+1}, without A_{t+1} where the episode ended.
    """
    bootstrap = np.where(terminated, 0.0, discount * next_value.astype(np.float64))
    error = reward.astype(np.float64) + bootstrap - value
    weight = np.where(ended, 0.0, discount * gae_lambda)
    advantage, later = np.empty_like(error), np.zeros(error.shape[1])
    for t in reversed(range(len(error))):
        later = error[t] + weight[t] * later
        advantage[t] = later
    return advantage
