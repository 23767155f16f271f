"""TD3 under rate limits (Fujimoto et al. 2018): a deterministic latent, noise on the latent, never outside the box.

The limits enter only through the layer: exploration and target smoothing perturb the latent, which the layer then maps
into F_t.
"""

import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import torch
from torch import Tensor, nn

from slewrl.agents.base import OffPolicy, averaging_rate
from slewrl.agents.config import COUNT, NETWORK, NOT_NEGATIVE, POSITIVE, SHARE, SWITCH, WIDTHS, Checked, one_of, or_none
from slewrl.agents.critic_view import CriticView
from slewrl.agents.nets import Adam, Ensemble, as_module
from slewrl.agents.smoothness import Smoothness, Weights
from slewrl.copying import Copied
from slewrl.layers.base import ActionLayer, Decision
from slewrl.limits import RateLimits

if TYPE_CHECKING:
    from slewrl.agents.replay import Batch

NETS = ("actor", "averaged", "critics", "target_actor", "target_critics")
STEPS = ("actor_step", "critic_step")


@dataclass(frozen=True)
class TD3Config(Checked):
    """The paper's Table hyperparams_full; what it leaves open is marked ours."""

    hidden: Annotated[tuple[int, ...], WIDTHS, NETWORK] = (256, 256)
    """Widths of the hidden layers of actor and critics."""
    learning_rate: Annotated[float, POSITIVE] = 3e-4
    """Learning rate of Adam, for actor and critics."""
    max_grad_norm: Annotated[float, POSITIVE] = 1.0
    """Gradients of actor and critics are clipped to this norm."""
    discount: Annotated[float, SHARE] = 0.99
    """Discount factor gamma."""
    updates: Annotated[int, COUNT] = 1
    """Updates per environment step."""
    target_rate: Annotated[float, SHARE] = 0.005
    """Update rate tau of the target networks."""
    exploration_noise: Annotated[float | None, or_none(NOT_NEGATIVE)] = None
    """Standard deviation of the exploration noise on the latent; None is the layer's own: 1 where the latent is an
    increment, .1 (TD3's) where it is a command over the whole range."""
    target_noise: Annotated[float, NOT_NEGATIVE] = 0.2
    """Standard deviation of the noise on the target actor's latent; TD3's."""
    target_noise_clip: Annotated[float, NOT_NEGATIVE] = 0.5
    """Bound of that noise; TD3's."""
    policy_delay: Annotated[int, COUNT] = 2
    """Critic updates per update of the actor and the targets; TD3's."""
    critic_input: Annotated[str, one_of("increment", "action"), NETWORK] = "action"
    """What critics see of an action: "increment", (a - a_prev) / delta, or "action"."""
    layer_norm: Annotated[bool, SWITCH, NETWORK] = False
    """Whether critics have layer norm before each ReLU."""
    average_rate: Annotated[float, SHARE] = 0.001
    """Rate of the moving average of the actor's weights, which is evaluated and exported; 1 is the actor itself."""
    mean_bound: Annotated[str, one_of("linear", "tanh"), NETWORK] = "linear"
    """"linear" (ours), or "tanh" as the paper has it, which keeps deterministic steps below .71 of the limit."""
    calm: Annotated[float, SHARE] = 0.0
    """How calm the commands should be, from 0 (off) to 1: charges for the change of (a - a_prev) / delta between
    successive states (`smoothness.py`)."""


class TD3(Copied, OffPolicy):
    """The TD3 agent; its arguments are those of ``SAC``."""

    Config = TD3Config
    averages = True
    networks = NETS

    def __init__(
        self, config: TD3Config, limits: RateLimits, layer: ActionLayer, observation_size: int, seed: int
    ) -> None:
        self.config, self.limits, self.layer, self.joints = config, limits, layer, limits.dim
        self.generator = torch.Generator().manual_seed(seed)
        n, d = observation_size, self.joints
        self.actor = Ensemble(1, (n, *config.hidden, d), self.generator)
        units = "norm_relu" if config.layer_norm else "relu"
        self.critics = Ensemble(2, (n + d, *config.hidden, 1), self.generator, units)
        self._join()
        self.target_actor, self.target_critics = self.actor.target(), self.critics.target()
        self.averaged = self.actor.target()
        self.view = CriticView(limits, config.critic_input)
        self.smoothness = Smoothness(Weights(calm=config.calm), limits, layer)
        noise = config.exploration_noise
        self.exploration_noise = layer.placement.exploration_noise if noise is None else noise
        rate, clip = config.learning_rate, config.max_grad_norm
        self.actor_step = Adam(self.actor.flat, self.actor.grad, rate, clip)
        self.critic_step = Adam(self.critics.flat, self.critics.grad, rate, clip)
        self.updates = 0
        self.utility = torch.zeros(1)
        """Q_1 of the last batch the actor was updated on, (B,)."""

    def _join(self) -> None:
        self.first_critic = self.critics.member(0)

    # ------------------------------------------------------------------ acting

    @torch.no_grad()
    def act(self, observation: Tensor, explore: bool = True, averaged: bool = True) -> Decision:
        """See ``Agent``; exploration is noise on the latent."""
        actor = self.averaged if averaged and not explore else self.actor
        latent = self._bounded(actor.forward(observation)[0])
        if explore:
            latent = latent + self.exploration_noise * self._noise(latent)
        return self.layer.decide(latent, self.limits.box_after(observation))

    def latent_module(self) -> nn.Module:
        """See ``Agent``; the averaged actor's latent."""
        return as_module(self.averaged, self.joints, self.config.mean_bound == "tanh")

    # ------------------------------------------------------------------ learning

    def updates_per_step(self, environments: int) -> int:
        """See ``OffPolicy``."""
        return environments * self.config.updates

    def update(self, batch: "Batch", log: bool = False) -> dict[str, float]:
        """One step of the critics and, every ``policy_delay`` times, of the actor and the targets."""
        self.updates += 1
        self.view.write(batch.action, batch.action, batch.observation)
        errors = self.critics.fit(batch.inputs, self.target(batch, self._noise(batch.action)))
        losses = {"critic_loss": errors.square().mean().item()} if log else {}
        self.critic_step.step()
        if self.updates % self.config.policy_delay == 0:
            self.target_critics.flat.lerp_(self.critics.flat, self.config.target_rate)
            self.utility = self._update_actor(batch)
            self.target_actor.flat.lerp_(self.actor.flat, self.config.target_rate)
            steps = self.updates // self.config.policy_delay
            self.averaged.flat.lerp_(self.actor.flat, averaging_rate(self.config.average_rate, steps))
        if log and self.updates >= self.config.policy_delay:  # before that the actor has not been judged
            losses["q"] = self.utility.mean().item()
        return losses

    @torch.no_grad()
    def target(self, batch: "Batch", noise: Tensor) -> Tensor:
        """y = r + gamma (1 - terminated) min_j Q'_j(s~', a'), a' from the smoothed target latent; shape (B,)."""
        clip = self.config.target_noise_clip
        smoothing = (self.config.target_noise * noise).clamp_(-clip, clip)
        latent = self._bounded(self.target_actor.forward(batch.next_observation)[0]) + smoothing
        judged = self.layer.decide(latent, self.limits.box_after(batch.next_observation)).judged
        self.view.write(batch.next_action, judged, batch.next_observation)
        q = self.target_critics.forward(batch.next_inputs, keep=False).numpy()[..., 0]
        discount = np.float32(self.config.discount) * (1 - batch.terminated.numpy())
        return torch.from_numpy(batch.reward.numpy() + discount * q.min(0))

    @torch.no_grad()
    def _update_actor(self, batch: "Batch") -> Tensor:
        """Eq. (actor_loss) without entropy: E[-Q_1] + lambda E[penalty]; returns Q_1, (B,)."""
        latent = self._latent(batch.observation)
        judged, penalty, vjp_fn = self.layer.vjp(latent, self.limits.box_after(batch.observation))
        self.view.write(batch.action, judged, batch.observation)
        utility, to_input = self.first_critic.min_q_and_grad(batch.inputs, self.joints)
        to_action = self.view.back(to_input)
        to_latent = vjp_fn(to_action / -batch.size, torch.full_like(penalty, self.layer.penalty_weight / batch.size))
        self.actor.backward(batch.observation, self._bounded_back(latent, to_latent)[None])
        if self.smoothness.on:
            self._add_smoothness(batch, to_action)
        self.actor_step.step()
        return utility

    def _add_smoothness(self, batch: "Batch", to_action: Tensor) -> None:
        """Add to the actor's gradient that of ``calm``; ``to_action`` is dQ/da, (B, d)."""
        before = self.actor.grad.clone()
        seen = self.smoothness.observations(batch, self._latent, self.generator)
        latent, weight = self._latent(seen), self.smoothness.calm_weight(to_action)
        to_latent = self.smoothness.to_mean(latent, seen, batch.terminated, weight)
        self.actor.backward(seen, self._bounded_back(latent, to_latent)[None])
        self.actor.grad.add_(before)

    def _latent(self, observation: Tensor) -> Tensor:
        """The actor's latents at observations (B, n)."""
        return self._bounded(self.actor.forward(observation)[0])

    def _bounded_back(self, latent: Tensor, to_latent: Tensor) -> Tensor:
        """The gradient of the actor's raw output from that of the latent."""
        return to_latent * (1 - latent.square()) if self.config.mean_bound == "tanh" else to_latent

    def _bounded(self, output: Tensor) -> Tensor:
        """The latent from the actor's raw output."""
        return torch.tanh(output) if self.config.mean_bound == "tanh" else output

    def _noise(self, like: Tensor) -> Tensor:
        return torch.randn(like.shape, generator=self.generator)

    # ------------------------------------------------------------------ saving

    def state_dict(self) -> dict[str, Any]:
        """See ``Agent``."""
        nets = {name: getattr(self, name).flat for name in NETS}
        steps = {name: getattr(self, name).state_dict() for name in STEPS}
        rest = {"updates": self.updates, "utility": self.utility, "generator": self.generator.get_state()}
        return copy.deepcopy({**nets, **steps, **rest})

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """See ``Agent``; an older state without ``averaged`` gets the actor itself."""
        state = {"averaged": state["actor"], **state}
        for name in NETS:
            getattr(self, name).flat.copy_(state[name])
        for name in STEPS:
            getattr(self, name).load_state_dict(state[name])
        self.updates, self.utility = state["updates"], state["utility"].clone()
        self.generator.set_state(state["generator"])
