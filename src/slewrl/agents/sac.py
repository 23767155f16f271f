"""Soft actor-critic under rate limits (Algorithm 1 of the paper; Haarnoja et al. 2018).

The limits enter in three places: the layer maps (mean, std, noise) and the box of the previous action to an action and
its log-probability, the critic judges ``action.judged``, and the actor's loss has ``penalty_weight * action.penalty``.
Terms for calm commands (`smoothness.py`) are off unless asked for.
Networks (`nets.py`) and layers have hand-written backward passes.
"""

import copy
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from slewrl.agents.base import OffPolicy, averaging_rate
from slewrl.agents.config import (
    COUNT,
    FINITE,
    NETWORK,
    NOT_NEGATIVE,
    POSITIVE,
    RANGE,
    SHARE,
    SWITCH,
    WIDTHS,
    Checked,
    at_least,
    one_of,
)
from slewrl.agents.critic_view import CriticView
from slewrl.agents.nets import Adam, Ensemble, as_module
from slewrl.agents.simba import SimbaCritics
from slewrl.agents.smoothness import Smoothness, Weights
from slewrl.copying import Copied
from slewrl.layers.base import ActionLayer, Decision, Draw
from slewrl.limits import RateLimits

if TYPE_CHECKING:
    from slewrl.agents.replay import Batch

NETS = ("actor", "averaged", "critics", "targets")
STEPS = ("actor_step", "critic_step", "alpha_step")


@dataclass(frozen=True)
class SACConfig(Checked):
    """The defaults are those of docs/recipe.md; the paper's are recipe "paper" (recipes.py)."""

    hidden: Annotated[tuple[int, ...], WIDTHS, NETWORK] = (256, 256)
    """Widths of the hidden layers of actor and critics."""
    learning_rate: Annotated[float, POSITIVE] = 1e-3
    """Learning rate of Adam, for actor and critics."""
    max_grad_norm: Annotated[float, POSITIVE] = 1.0
    """Gradients of actor and critics are clipped to this norm."""
    discount: Annotated[float, SHARE] = 0.99
    """Discount factor gamma."""
    updates: Annotated[int, COUNT] = 2
    """Updates of the critics per environment step."""
    policy_delay: Annotated[int, COUNT] = 2
    """Updates of the critics per update of the actor and the temperature."""
    target_rate: Annotated[float, SHARE] = 0.005
    """Update rate tau of the target critics."""
    initial_temperature: Annotated[float, POSITIVE] = 0.2
    """Initial temperature alpha."""
    temperature_rate: Annotated[float, POSITIVE] = 1e-3
    """Learning rate of Adam, for the temperature."""
    target_entropy_per_joint: Annotated[float, FINITE] = -0.5
    """Target entropy per joint, in the units of the layer's density; SAC's own is -1."""
    critic_input: Annotated[str, one_of("increment", "action"), NETWORK] = "action"
    """What critics see of an action: "increment", (a - a_prev) / delta, or "action"."""
    layer_norm: Annotated[bool, SWITCH, NETWORK] = True
    """Whether critics have layer norm before each ReLU."""
    simba: Annotated[int, at_least(0)] = 0
    """Width of critics of one residual block with layer norm, in place of the others; 0 is off. A pilot."""
    gsde: Annotated[int, at_least(0)] = 0
    """Steps for which exploration noise is a fixed linear function of the actor's last hidden units; 0 is off. A pilot."""
    average_rate: Annotated[float, SHARE] = 0.001
    """Rate of the moving average of the actor's weights, which is evaluated and exported; 1 is the actor itself."""
    mean_bound: Annotated[str, one_of("linear", "tanh"), NETWORK] = "linear"
    """"linear" (ours), or "tanh" as the paper has it, which keeps deterministic steps below .71 of the limit."""
    log_std_range: Annotated[tuple[float, float], RANGE] = (-20.0, 2.0)
    """The actor's log standard deviation is clipped to this; ours."""
    calm: Annotated[float, SHARE] = 0.0
    """How calm the commands should be, from 0 (off) to 1: charges for the change of (a - a_prev) / delta between
    successive states, of the actor's mean. `smoothness.py` has this and the next four."""
    caps: Annotated[float, NOT_NEGATIVE] = 0.0
    """Weight of CAPS's temporal smoothness."""
    caps_spatial: Annotated[float, NOT_NEGATIVE] = 0.0
    """Weight of CAPS's spatial smoothness."""
    caps_noise: Annotated[float, POSITIVE] = 0.05
    """Standard deviation of the noise of CAPS's spatial smoothness, in the units of the state."""
    l2c2: Annotated[float, NOT_NEGATIVE] = 0.0
    """Weight of L2C2's smoothness of the policy."""


class SAC(Copied, OffPolicy):
    """The SAC agent.

    Args:
        config: hyperparameters.
        limits: rate limits of the d joints.
        layer: maps a latent to an action; its ``density`` decides the units of the entropy.
        observation_size: n, the size of the augmented observation.
        seed: seed of the initial weights and of all noise.
    """

    Config = SACConfig
    averages = True
    networks = NETS
    measures_entropy = True

    def __init__(
        self, config: SACConfig, limits: RateLimits, layer: ActionLayer, observation_size: int, seed: int
    ) -> None:
        self.config, self.limits, self.layer, self.joints = config, limits, layer, limits.dim
        self.generator = torch.Generator().manual_seed(seed)
        n, d = observation_size, self.joints
        self.actor = Ensemble(1, (n, *config.hidden, 2 * d), self.generator)
        activation = "norm_relu" if config.layer_norm else "relu"
        self.critics = Ensemble(2, (n + d, *config.hidden, 1), self.generator, activation)
        if config.simba:
            self.critics = SimbaCritics(n + d, config.simba, 1, self.generator)
        self.directions, self.acts = torch.empty(0), 0
        self.targets = self.critics.target()
        self.averaged = self.actor.target()
        self.log_alpha = torch.tensor([math.log(config.initial_temperature)])
        self.target_entropy = layer.target_entropy(limits) + (config.target_entropy_per_joint + 1) * d
        self.view = CriticView(limits, config.critic_input)
        weights = Weights(*(getattr(config, name) for name in Weights._fields))
        self.smoothness = Smoothness(weights, limits, layer)
        self.updates = 0
        self.utility = torch.zeros(1)
        """The smaller Q of the last batch the actor was updated on, (B,)."""
        rate, clip = config.learning_rate, config.max_grad_norm
        self.actor_step = Adam(self.actor.flat, self.actor.grad, rate, clip)
        self.critic_step = Adam(self.critics.flat, self.critics.grad, rate, clip)
        self.alpha_step = Adam(self.log_alpha, torch.zeros(1), config.temperature_rate)

    # ------------------------------------------------------------------ acting

    @torch.no_grad()
    def act(self, observation: Tensor, explore: bool = True, averaged: bool = True) -> Decision:
        """See ``Agent``; without exploration the latent is the mean."""
        actor = self.averaged if averaged and not explore else self.actor
        mean, std, _ = self._heads(actor.forward(observation)[0])
        box = self.limits.box_after(observation)
        return self.layer.draw(mean, std, self._explore(mean), box) if explore else self.layer.decide(mean, box)

    def _explore(self, mean: Tensor) -> Tensor:
        """Noise for behaviour: white, or as in gSDE; N(0, 1) at each step either way."""
        if not self.config.gsde:
            return self._noise(mean)
        units = self.actor._passes[len(mean)].hidden[0][-1].units
        if self.acts % self.config.gsde == 0:
            self.directions = torch.randn((units.shape[1], self.joints), generator=self.generator)
        self.acts += 1
        return units @ self.directions / units.norm(dim=-1, keepdim=True).clamp(min=1e-6)

    def latent_module(self) -> nn.Module:
        """See ``Agent``; the averaged actor's mean latent."""
        return as_module(self.averaged, self.joints, self.config.mean_bound == "tanh")

    # ------------------------------------------------------------------ learning

    def updates_per_step(self, environments: int) -> int:
        """See ``OffPolicy``."""
        return environments * self.config.updates

    def update(self, batch: "Batch", log: bool = False) -> dict[str, float]:
        """One step of the critics and targets and, every ``policy_delay`` times, of the actor and the temperature."""
        alpha = math.exp(self.log_alpha.item())
        self.updates += 1
        improves = self.updates % self.config.policy_delay == 0
        self.view.write(batch.action, batch.action, batch.observation)
        # One pass of the actor over s~ and s~': it does not change before its own step below.
        heads, draw = self._draw(batch.observations if improves else batch.next_observation)
        errors = self.critics.fit(batch.inputs, self.target(batch, draw.judged, draw.log_prob, alpha))
        losses = {"critic_loss": errors.square().mean().item()} if log else {}
        self.critic_step.step()
        self.targets.flat.lerp_(self.critics.flat, self.config.target_rate)
        entropy = -float(draw.log_prob.numpy()[: batch.size].mean())
        if improves:
            self.utility = self._update_actor(batch, alpha, heads, draw)
            self._update_temperature(entropy)
            steps = self.updates // self.config.policy_delay
            self.averaged.flat.lerp_(self.actor.flat, averaging_rate(self.config.average_rate, steps))
        if log and self.updates >= self.config.policy_delay:  # before that the actor has not been judged
            losses |= {"q": self.utility.mean().item(), "entropy": entropy, "temperature": alpha}
        return losses

    @torch.no_grad()
    def target(self, batch: "Batch", judged: Tensor, log_prob: Tensor, alpha: float) -> Tensor:
        """y = r + gamma (1 - terminated) (min_j Q'_j(s~', a') - alpha log pi(a' | s~')), shape (B,).

        The last B rows of ``judged`` (..., d) and of ``log_prob`` (...,) are those of the actions sampled at s~'.
        """
        self.view.write(batch.next_action, judged[-batch.size :], batch.next_observation)
        q = self.targets.forward(batch.next_inputs, keep=False).numpy()[..., 0]
        value = q.min(0) - np.float32(alpha) * log_prob.numpy()[-batch.size :]
        discount = np.float32(self.config.discount) * (1 - batch.terminated.numpy())
        return torch.from_numpy(batch.reward.numpy() + discount * value)

    @torch.no_grad()
    def _update_actor(self, batch: "Batch", alpha: float, heads: "_Heads", draw: Draw) -> Tensor:
        """Eq. (actor_loss): E[alpha log pi - min_j Q_j] + lambda E[penalty] over s~; returns min Q, (B,).

        ``draw`` has 2B rows, for s~ and s~'; the loss depends on the first half.
        """
        size = batch.size
        self.view.write(batch.action, draw.judged[:size], batch.observation)
        utility, to_input = self.critics.min_q_and_grad(batch.inputs, self.joints)
        to_action = self.view.back(to_input)
        to_log_prob, to_penalty = torch.full((2, size), 1 / size) * torch.tensor([[alpha], [self.layer.penalty_weight]])
        to_output = self._heads_backward(heads, *draw.vjp_fn(to_action / -size, to_log_prob, to_penalty))
        self.actor.backward(batch.observations, to_output[None])
        if self.smoothness.on:
            self._add_smoothness(batch, to_action)
        self.actor_step.step()
        return utility

    def _add_smoothness(self, batch: "Batch", to_action: Tensor) -> None:
        """Add to the actor's gradient that of the terms in `smoothness.py`; ``to_action`` is dQ/da, (B, d)."""
        before = self.actor.grad.clone()
        seen = self.smoothness.observations(batch, lambda x: self._heads(self.actor.forward(x)[0]).mean, self.generator)
        heads = self._heads(self.actor.forward(seen)[0])
        weight = self.smoothness.calm_weight(to_action)
        to_mean = self.smoothness.to_mean(heads.mean, seen, batch.terminated, weight)
        self.actor.backward(seen, self._heads_backward(heads, to_mean, torch.zeros_like(to_mean))[None])
        self.actor.grad.add_(before)

    def _update_temperature(self, entropy: float) -> None:
        """One step on the loss log alpha (entropy - target entropy)."""
        self.alpha_step.grad.fill_(entropy - self.target_entropy)
        self.alpha_step.step()

    @torch.no_grad()
    def _draw(self, observation: Tensor) -> tuple["_Heads", Draw]:
        """Sample an action for each observation (N, n)."""
        heads = self._heads(self.actor.forward(observation)[0])
        box = self.limits.box_after(observation)
        return heads, self.layer.sample_vjp(heads.mean, heads.std, self._noise(heads.mean), box)

    def _heads(self, output: Tensor) -> "_Heads":
        """The Gaussian of the latent from the actor's output (N, 2d)."""
        mean, log_std = output[:, : self.joints], output[:, self.joints :]
        if self.config.mean_bound == "tanh":
            mean = torch.tanh(mean)
        return _Heads(mean, torch.exp(log_std.clamp(*self.config.log_std_range)), log_std)

    def _heads_backward(self, heads: "_Heads", to_mean: Tensor, to_std: Tensor) -> Tensor:
        """From the gradients (R, d) of the first R rows to that of the output, (R, 2d)."""
        rows = to_mean.shape[0]
        mean, std, log_std = (x[:rows] for x in heads)
        if self.config.mean_bound == "tanh":
            to_mean = to_mean * (1 - mean.square())
        low, high = self.config.log_std_range
        inside = (log_std.numpy() >= low) & (log_std.numpy() <= high)
        return torch.from_numpy(np.concatenate([to_mean.numpy(), to_std.numpy() * std.numpy() * inside], -1))

    def _noise(self, like: Tensor) -> Tensor:
        return torch.randn(like.shape, generator=self.generator)

    # ------------------------------------------------------------------ saving

    def state_dict(self) -> dict[str, Any]:
        """See ``Agent``."""
        nets = {name: getattr(self, name).flat for name in NETS}
        steps = {name: getattr(self, name).state_dict() for name in STEPS}
        rest = {"log_alpha": self.log_alpha, "generator": self.generator.get_state(), "updates": self.updates}
        return copy.deepcopy({**nets, **steps, **rest})

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """See ``Agent``; an older state without ``averaged`` gets the actor itself."""
        state = {"averaged": state["actor"], "updates": 0, **state}
        for name in NETS:
            getattr(self, name).flat.copy_(state[name])
        for name in STEPS:
            getattr(self, name).load_state_dict(state[name])
        self.log_alpha.copy_(state["log_alpha"])
        self.updates = state["updates"]
        self.generator.set_state(state["generator"])


class _Heads(NamedTuple):
    """The Gaussian of N latents; (N, d) each."""

    mean: Tensor
    std: Tensor
    log_std: Tensor
    """The actor's output, before clipping."""
