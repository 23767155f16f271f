"""What an on-policy agent learns from: the steps since its last update, and the advantages they amount to."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from slewrl.copying import Copied

Floats = NDArray[np.float32]
PARTS = ("observation", "following", "latent", "reward", "terminated", "ended")


class Rollout(Copied):
    """T steps of N environments, written a step at a time.

    A step is written in two halves: what was seen and drawn before it, and what came of it. ``following`` is what was
    seen after the step, at the end of an episode its own last observation: a value is asked of it wherever an episode,
    or the rollout, was cut off.

    Args:
        length: T.
        environments: N.
        size: n, of the augmented observation.
        joints: d.
    """

    def __init__(self, length: int, environments: int, size: int, joints: int) -> None:
        steps = (length, environments)
        self.observation, self.following = (np.zeros((*steps, size), np.float32) for _ in range(2))
        self.latent, self.reward = np.zeros((*steps, joints), np.float32), np.zeros(steps, np.float32)
        self.terminated, self.ended = np.zeros(steps, np.bool_), np.zeros(steps, np.bool_)
        self.filled = 0
        """Steps written."""

    @property
    def full(self) -> bool:
        """Whether all T steps are there."""
        return self.filled == len(self.reward)

    def begin(self, observation: Any, latent: Any) -> None:
        """The first half of a step: (N, n) and (N, d)."""
        if self.full:
            raise RuntimeError(f"the rollout holds its {self.filled} steps already: learn from them first")
        self.observation[self.filled], self.latent[self.filled] = observation, latent

    def end(self, reward: Floats, following: Floats, terminated: NDArray[np.bool_], ended: NDArray[np.bool_]) -> None:
        """The second half: (N,), (N, n), (N,) and (N,)."""
        t = self.filled
        self.reward[t], self.following[t], self.terminated[t], self.ended[t] = reward, following, terminated, ended
        self.filled += 1

    def abandon(self) -> None:
        """The episodes under way will not go on: cut them off where they are."""
        if self.filled:
            self.ended[self.filled - 1] = True

    def state_dict(self) -> dict[str, Any]:
        """The steps there are, as tensors."""
        parts = {name: torch.from_numpy(getattr(self, name)[: self.filled].copy()) for name in PARTS}
        return {"filled": self.filled, "shape": list(self.observation.shape), "joints": self.latent.shape[-1], **parts}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> "Rollout":
        """The one that ``state_dict`` was taken of."""
        length, environments, size = state["shape"]
        rollout = cls(length, environments, size, state["joints"])
        rollout.filled = state["filled"]
        for name in PARTS:
            getattr(rollout, name)[: rollout.filled] = state[name].numpy()
        return rollout


def gae(
    reward: NDArray[Any],
    value: NDArray[Any],
    next_value: NDArray[Any],
    terminated: NDArray[np.bool_],
    ended: NDArray[np.bool_],
    discount: float,
    gae_lambda: float,
) -> NDArray[np.float64]:
    """Generalised advantage estimates (Schulman et al. 2016), (T, N) as all arguments but the last two.

    delta_t = r_t + gamma V(following_t) - V(s_t), without the value where the step ended in a terminal state;
    A_t = delta_t + gamma lambda A_{t+1}, without the advantage where the episode ended. A step that was only cut off
    keeps its value.
    """
    follows = np.where(terminated, 0.0, discount * next_value.astype(np.float64))
    error = reward.astype(np.float64) + follows - value
    weight = np.where(ended, 0.0, discount * gae_lambda)
    advantage, later = np.empty_like(error), np.zeros(error.shape[1])
    for t in reversed(range(len(error))):
        later = error[t] + weight[t] * later
        advantage[t] = later
    return advantage
