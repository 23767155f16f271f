"""Soft actor-critic under rate limits (Algorithm 1 of the paper; Haarnoja et al. 2018).

The whole dependence on the limits is three lines: the layer maps (mean, std, noise) and the box of the previous action
to an action and its log-probability, the critic judges ``action.judged``, and the actor pays ``penalty_weight`` times
``action.penalty``. The networks run forward and backward by hand (`nets.py`); autograd only crosses the layer.
"""

import copy
import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from slewrl.agents.config import check_config
from slewrl.augmented import previous_action
from slewrl.layers.base import Action, ActionLayer, Decision
from slewrl.limits import RateLimits
from slewrl.nets import Adam, Ensemble
from slewrl.replay import Batch

STEPS = ("actor_step", "critic_step", "alpha_step")


@dataclass(frozen=True)
class SACConfig:
    """The paper's Table hyperparams_full; what it leaves open is marked ours."""

    hidden: tuple[int, ...] = (256, 256)
    """Widths of the hidden layers of actor and critics."""
    learning_rate: float = 3e-4
    """Of Adam, for actor, critics and temperature."""
    max_grad_norm: float = 1.0
    """Gradients of actor and critics are clipped to this norm."""
    discount: float = 0.99
    """gamma."""
    target_rate: float = 0.005
    """tau of the target critics."""
    initial_temperature: float = 1.0
    """alpha at the start; ours, and SAC's usual."""
    mean_bound: str = "linear"
    """"linear" (ours), or "tanh" as the paper has it, which keeps deterministic steps below .71 of the limit."""
    log_std_range: tuple[float, float] = (-20.0, 2.0)
    """The actor's log standard deviation is clipped to this; ours."""

    def __post_init__(self) -> None:
        """Refuse what no run could use."""
        check_config(self)


class SAC:
    """See the module.

    Args:
        config: hyperparameters.
        limits: of the d joints.
        layer: from latent to action; its ``density`` decides the units of the entropy.
        observation_size: n of the augmented observation.
        seed: of initial weights and of all noise.
    """

    Config = SACConfig

    def __init__(
        self, config: SACConfig, limits: RateLimits, layer: ActionLayer, observation_size: int, seed: int
    ) -> None:
        self.config, self.limits, self.layer, self.joints = config, limits, layer, limits.dim
        self.generator = torch.Generator().manual_seed(seed)
        n, d = observation_size, self.joints
        self.actor = Ensemble(1, (n, *config.hidden, 2 * d), self.generator)
        self.critics = Ensemble(2, (n + d, *config.hidden, 1), self.generator)
        self.targets = self.critics.target()
        self.log_alpha = torch.tensor([math.log(config.initial_temperature)])
        self.target_entropy = layer.target_entropy(limits)
        rate, clip = config.learning_rate, config.max_grad_norm
        self.actor_step = Adam(self.actor.flat, self.actor.grad, rate, clip)
        self.critic_step = Adam(self.critics.flat, self.critics.grad, rate, clip)
        self.alpha_step = Adam(self.log_alpha, torch.zeros(1), rate)

    # ------------------------------------------------------------------ acting

    @torch.no_grad()
    def act(self, observation: Tensor, explore: bool = True) -> Decision:
        """An action for augmented observations (N, n): drawn, or that of the mean latent."""
        mean, std = self._heads(self.actor.forward(observation)[0])
        box = self.limits.box(previous_action(observation, self.joints), check=False)
        if explore:
            return self.layer.draw(mean, std, self._noise(mean), box)
        return self.layer.decide(mean, box)

    # ------------------------------------------------------------------ learning

    def update(self, batch: Batch, log: bool = False) -> dict[str, float]:
        """One gradient step of critics, actor and temperature, and of the targets; returns what to ``log``.

        Writes over the batch's actions.
        """
        alpha = math.exp(self.log_alpha.item())
        # One pass of the actor over s~ and s~': it does not change before its own step below.
        draw = self._draw(batch.observations)
        errors = self.critics.fit(batch.inputs, self.target(batch, draw.action, draw.log_prob, alpha))
        losses = {"critic_loss": errors.square().mean().item()} if log else {}
        self.critic_step.step()
        self.targets.flat.lerp_(self.critics.flat, self.config.target_rate)
        utility = self._update_actor(batch, alpha, draw)
        entropy = -float(draw.log_prob.detach().numpy()[: batch.size].mean())
        self._update_temperature(entropy)
        if log:
            losses |= {"q": utility.mean().item(), "entropy": entropy, "temperature": alpha}
        return losses

    @torch.no_grad()
    def target(self, batch: Batch, action: Action, log_prob: Tensor, alpha: float) -> Tensor:
        """y = r + gamma (1 - terminated) (min_j Q'_j(s~', a') - alpha log pi(a' | s~')), shape (B,).

        Args:
            batch: B transitions.
            action: drawn for s~ and s~', (2B, d).
            log_prob: of that draw, (2B,).
            alpha: temperature.
        """
        batch.next_action.copy_(action.judged[batch.size :])
        q = self.targets.forward(batch.next_inputs, keep=False).numpy()[..., 0]
        value = q.min(0) - np.float32(alpha) * log_prob.detach().numpy()[batch.size :]
        follows = np.float32(self.config.discount) * (1 - batch.terminated.numpy())
        return torch.from_numpy(batch.reward.numpy() + follows * value)

    @torch.no_grad()
    def _update_actor(self, batch: Batch, alpha: float, draw: "_Draw") -> Tensor:
        """Eq. (actor_loss): E[alpha log pi - min_j Q_j] + lambda E[penalty] over s~; returns min Q, (B,).

        The draw is that for s~ and s~' together (2B rows); the latter get gradient 0.
        """
        action, log_prob = draw.action, draw.log_prob
        batch.action.copy_(action.judged[: batch.size])
        utility, to_action = self.critics.least(batch.inputs, self.joints)
        weight = np.zeros(2 * batch.size, np.float32)
        weight[: batch.size] = 1 / batch.size
        to_judged = np.zeros((2 * batch.size, self.joints), np.float32)
        np.divide(to_action.numpy(), -batch.size, out=to_judged[: batch.size])
        penalty = self.layer.penalty_weight * weight
        parts = ((action.judged, to_judged), (log_prob, alpha * weight), (action.penalty, penalty))
        grads = {part: torch.from_numpy(grad) for part, grad in parts if part.requires_grad}  # a penalty of 0 has none
        to_heads = torch.autograd.grad(list(grads), (draw.mean, draw.std), list(grads.values()))
        to_output = self._heads_backward(draw, *to_heads)
        self.actor.backward(batch.observations, to_output[None, : batch.size])
        self.actor_step.step()
        return utility

    def _update_temperature(self, entropy: float) -> None:
        """d/d log alpha of log alpha (entropy - target entropy)."""
        self.alpha_step.grad.fill_(entropy - self.target_entropy)
        self.alpha_step.step()

    def _draw(self, observation: Tensor) -> "_Draw":
        """An action for each observation (N, n), ready for autograd to go back through the layer."""
        output = self.actor.forward(observation)[0]
        mean, std = (x.detach().requires_grad_() for x in self._heads(output))
        box = self.limits.box(previous_action(observation, self.joints), check=False)
        return _Draw(output, mean, std, *self.layer.sample(mean, std, self._noise(mean), box))

    def _heads(self, output: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and standard deviation of the latent (N, d), of the actor's output (N, 2d)."""
        mean, log_std = output[:, : self.joints], output[:, self.joints :]
        if self.config.mean_bound == "tanh":
            mean = torch.tanh(mean)
        return mean, torch.exp(log_std.clamp(*self.config.log_std_range))

    def _heads_backward(self, draw: "_Draw", to_mean: Tensor, to_std: Tensor) -> Tensor:
        """From the gradients of mean and standard deviation to that of the output, (N, 2d)."""
        if self.config.mean_bound == "tanh":
            to_mean = to_mean * (1 - draw.mean.square())
        log_std, (low, high) = draw.output.numpy()[:, self.joints :], self.config.log_std_range
        to_log_std = to_std.numpy() * draw.std.detach().numpy() * ((log_std >= low) & (log_std <= high))
        return torch.from_numpy(np.concatenate([to_mean.numpy(), to_log_std], -1))

    def _noise(self, like: Tensor) -> Tensor:
        return torch.randn(like.shape, generator=self.generator)

    # ------------------------------------------------------------------ saving

    def state_dict(self) -> dict[str, Any]:
        """Everything the next update depends on, as tensors and numbers."""
        nets = {name: getattr(self, name).flat for name in ("actor", "critics", "targets")}
        steps = {name: getattr(self, name).state_dict() for name in STEPS}
        rest = {"log_alpha": self.log_alpha, "generator": self.generator.get_state()}
        return copy.deepcopy({**nets, **steps, **rest})

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on exactly where ``state_dict`` was taken."""
        for name in ("actor", "critics", "targets"):
            getattr(self, name).flat.copy_(state[name])
        for name in STEPS:
            getattr(self, name).load_state_dict(state[name])
        self.log_alpha.copy_(state["log_alpha"])
        self.generator.set_state(state["generator"])


class _Draw(NamedTuple):
    """An action for each of N observations, and what it came from."""

    output: Tensor
    """Of the actor, (N, 2d)."""
    mean: Tensor
    std: Tensor
    """Of the latent, (N, d): leaves for autograd."""
    action: Action
    log_prob: Tensor
    """(N,)"""
