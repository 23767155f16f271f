"""The advantage of an executed action from a Q network with replay: the paper's way out for on-policy agents.

Its section on limitations says that PPO's scalar advantage has too much variance under heterogeneous limits, and asks
for "an action-conditioned advantage network with replay". Here: twin critics of *executed* actions, fitted to

    y = r + gamma (1 - terminated) min_j Q'_j(s~', a'),    a' = layer(u', F(s~')),  u' from the policy as it is now,

on transitions of all policies so far (the target asks the present one, so no importance weights are needed), and

    A(s~, a) = Q(s~, a) - mean_k Q(s~, a_k),    a_k drawn from the policy: its own baseline, without bias.

Q is there the mean of the two. A enters PPO's clipped loss in place of the estimate from rewards (a score-function
gradient, not a pathwise one: the latent stays PPO's action, and nothing is differentiated through the layer).
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
"""Observations (B, n), as the networks see them, to executed actions (B, d), drawn from the policy."""
TARGET_RATE = 0.005
"""tau of the target critics; as SAC's."""


class ActionValue(Copied):
    """See the module.

    Args:
        size: n, of the augmented observation.
        joints: d.
        hidden: widths of each critic.
        learning_rate: of Adam.
        discount: gamma.
        generator: of the initial weights.
    """

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
        """y of the module, (B,); writes the batch's next actions."""
        batch.next_action.copy_(draw(batch.next_observation))
        value = self.targets.forward(batch.next_inputs, keep=False).numpy()[..., 0].min(0)
        follows = np.float32(self.discount) * (1 - batch.terminated.numpy())
        return torch.from_numpy(batch.reward.numpy() + follows * value)

    def update(self, batch: Batch, draw: Draw) -> float:
        """One step of the critics and their targets; returns the mean squared error."""
        errors = self.critics.fit(batch.inputs, self.target(batch, draw))
        loss = float(errors.square().mean())
        self.step.step()
        self.targets.flat.lerp_(self.critics.flat, TARGET_RATE)
        return loss

    def advantage(self, observation: Tensor, executed: Tensor, draw: Draw, draws: int) -> NDArray[np.float32]:
        """A of the module, (B,), for (B, n) and (B, d)."""
        baseline = sum(self._value(observation, draw(observation)) for _ in range(draws)) / draws
        return self._value(observation, executed) - baseline

    def _value(self, observation: Tensor, action: Tensor) -> NDArray[np.float32]:
        """The mean of the two critics, (B,)."""
        q: NDArray[np.float32] = self.critics.forward(torch.cat([observation, action], -1), keep=False).numpy()[..., 0]
        return q.mean(0)

    def state_dict(self) -> dict[str, Any]:
        """Everything the next update depends on."""
        return copy.deepcopy(
            {"critics": self.critics.flat, "targets": self.targets.flat, "step": self.step.state_dict()}
        )

    def load_weights(self, state: dict[str, Any]) -> None:
        """Take the networks alone."""
        self.critics.flat.copy_(state["critics"])
        self.targets.flat.copy_(state["targets"])

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on exactly where ``state_dict`` was taken."""
        self.load_weights(state)
        self.step.load_state_dict(state["step"])
