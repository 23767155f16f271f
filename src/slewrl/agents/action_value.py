"""An action-conditioned advantage from a Q network with replay, which the paper's section on limitations asks for.

Twin critics of *executed* actions are fitted to transitions of all policies so far, with actions of the present one:

    y = r + gamma (1 - terminated) min_j Q'_j(s~', a'),    a' = layer(u', F(s~')),  u' sampled from the present policy.

With Q the mean of the two, the advantage that enters PPO's clipped loss is

    A(s~, a) = Q(s~, a) - mean_k Q(s~, a_k),    a_k sampled from the policy.
"""

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from slewrl.agents.nets import Adam, Ensemble
from slewrl.agents.replay import Batch
from slewrl.copying import Copied

Draw = Callable[[Tensor], Tensor]
"""Samples executed actions (B, d) from the policy, for observations (B, n) as the networks see them."""
TARGET_RATE = 0.005
"""Update rate tau of the target critics, as SAC's."""


class ActionValue(Copied):
    """The twin critics, their targets and their optimiser, for observations of ``size`` n and ``joints`` d."""

    def __init__(
        self,
        size: int,
        joints: int,
        hidden: tuple[int, ...],
        learning_rate: float,
        discount: float,
        generator: torch.Generator,
    ) -> None:
        self.critics = Ensemble(2, (size + joints, *hidden, 1), generator)
        self.targets = self.critics.target()
        self.step = Adam(self.critics.flat, self.critics.grad, learning_rate, 1.0)
        self.discount = discount

    def target(self, batch: Batch, draw: Draw) -> Tensor:
        """The target y, (B,); overwrites the batch's next actions."""
        batch.next_action.copy_(draw(batch.next_observation))
        value = self.targets.forward(batch.next_inputs, keep=False).numpy()[..., 0].min(0)
        discount = np.float32(self.discount) * (1 - batch.terminated.numpy())
        return torch.from_numpy(batch.reward.numpy() + discount * value)

    def update(self, batch: Batch, draw: Draw) -> float:
        """One step of the critics and their targets; returns the mean squared error."""
        errors = self.critics.fit(batch.inputs, self.target(batch, draw))
        loss = float(errors.square().mean())
        self.step.step()
        self.targets.flat.lerp_(self.critics.flat, TARGET_RATE)
        return loss

    def advantage(self, observation: Tensor, executed: Tensor, draw: Draw, draws: int) -> NDArray[np.float32]:
        """The advantages A (B,) of executed actions (B, d) at observations (B, n)."""
        baseline = sum(self._value(observation, draw(observation)) for _ in range(draws)) / draws
        return self._value(observation, executed) - baseline

    def _value(self, observation: Tensor, action: Tensor) -> NDArray[np.float32]:
        """The mean of the two critics, (B,)."""
        q: NDArray[np.float32] = self.critics.forward(torch.cat([observation, action], -1), keep=False).numpy()[..., 0]
        return q.mean(0)

    def state_dict(self) -> dict[str, Any]:
        """Everything the next update depends on."""
        state = {"critics": self.critics.flat, "targets": self.targets.flat, "step": self.step.state_dict()}
        return copy.deepcopy(state)

    def load_weights(self, state: dict[str, Any]) -> None:
        """Take only the networks."""
        self.critics.flat.copy_(state["critics"])
        self.targets.flat.copy_(state["targets"])

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue exactly from where ``state_dict`` was taken."""
        self.load_weights(state)
        self.step.load_state_dict(state["step"])
