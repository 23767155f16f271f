"""Soft actor-critic under rate limits (Algorithm 1 of the paper; Haarnoja et al. 2018).

The whole dependence on the limits is three lines: the layer maps (mean, std, noise) and the box of the previous action
to an action and its log-probability, the critic judges ``action.judged``, and the actor pays ``penalty_weight`` times
``action.penalty``. The networks run forward and backward by hand (`nets.py`); autograd only crosses the layer.
"""

import copy
import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from slewrl.augmented import previous_action
from slewrl.layers.base import Action, ActionLayer
from slewrl.limits import RateLimits
from slewrl.nets import Adam, Ensemble
from slewrl.replay import Batch


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
    initial_temperature: float = 0.05
    """alpha at the start; ours. Small, since in normalised increments a large one means aimless wandering."""
    mean_bound: str = "linear"
    """"linear" (ours), or "tanh" as the paper has it, which keeps deterministic steps below .71 of the limit."""
    log_std_range: tuple[float, float] = (-20.0, 2.0)
    """The actor's log standard deviation is clipped to this; ours."""

    def __post_init__(self) -> None:
        """Refuse what no run could use."""
        if self.mean_bound not in ("linear", "tanh"):
            raise ValueError(f"mean_bound is {self.mean_bound!r}, expected 'linear' or 'tanh'")


class SAC:
    """See the module.

    Args:
        config: hyperparameters.
        limits: of the d joints.
        layer: from latent to action; its ``density`` decides the units of the entropy.
        observation_size: n of the augmented observation.
        seed: of initial weights and of all noise.
    """

    def __init__(
        self, config: SACConfig, limits: RateLimits, layer: ActionLayer, observation_size: int, seed: int
    ) -> None:
        self.config, self.limits, self.layer, self.joints = config, limits, layer, limits.dim
        self.generator = torch.Generator().manual_seed(seed)
        n, d = observation_size, self.joints
        self.actor = Ensemble(1, (n, *config.hidden, 2 * d), self.generator)
        self.critics = Ensemble(2, (n + d, *config.hidden, 1), self.generator)
        self.targets = Ensemble(2, (n + d, *config.hidden, 1), self.generator)
        self.targets.flat.copy_(self.critics.flat)
        self.log_alpha = torch.nn.Parameter(torch.tensor(math.log(config.initial_temperature)))
        self.target_entropy = layer.target_entropy(limits)
        self.actor_step = Adam(self.actor, config.learning_rate, config.max_grad_norm)
        self.critic_step = Adam(self.critics, config.learning_rate, config.max_grad_norm)
        self.alpha_step = torch.optim.Adam([self.log_alpha], lr=config.learning_rate)

    # ------------------------------------------------------------------ acting

    @torch.no_grad()
    def act(self, observation: Tensor, explore: bool = True) -> Action:
        """An action for augmented observations (N, n): drawn, or that of the mean latent."""
        mean, std = self._heads(self.actor.forward(observation)[0])
        box = self.limits.box(previous_action(observation, self.joints), check=False)
        if explore:
            return self.layer.sample(mean, std, self._noise(mean), box)[0]
        return self.layer(mean, box)

    # ------------------------------------------------------------------ learning

    def update(self, batch: Batch) -> dict[str, float]:
        """One gradient step of critics, actor and temperature, and of the targets; returns what to log."""
        alpha = self.log_alpha.detach().exp()
        critic_loss = self._update_critics(batch, alpha)
        log_prob, utility = self._update_actor(batch.observation, alpha)
        self._update_temperature(log_prob)
        self.targets.flat.lerp_(self.critics.flat, self.config.target_rate)
        return {
            "critic_loss": critic_loss,
            "q": utility,
            "entropy": -log_prob.mean().item(),
            "temperature": alpha.item(),
        }

    @torch.no_grad()
    def target(self, batch: Batch, alpha: Tensor, noise: Tensor) -> Tensor:
        """y = r + gamma (1 - terminated) (min_j Q'_j(s~', a') - alpha log pi(a' | s~')), shape (B,)."""
        _, action, log_prob = self._draw(batch.next_observation, noise)
        q = self.targets.forward(torch.cat([batch.next_observation, action.judged], -1))[..., 0]
        value = torch.minimum(q[0], q[1]) - alpha * log_prob
        return batch.reward + self.config.discount * (1 - batch.terminated) * value

    @torch.no_grad()
    def _update_critics(self, batch: Batch, alpha: Tensor) -> float:
        """Mean squared error to the target, summed over the two critics."""
        y = self.target(batch, alpha, self._noise(batch.action))
        q = self.critics.forward(torch.cat([batch.observation, batch.action], -1))
        error = q - y.view(1, -1, 1)
        self.critics.backward(error * (2 / len(y)))
        self.critic_step.step()
        return error.square().mean().item()

    def _update_actor(self, observation: Tensor, alpha: Tensor) -> tuple[Tensor, float]:
        """Eq. (actor_loss): E[alpha log pi - min_j Q_j] + lambda E[penalty]; returns log pi (B,) and E[min Q]."""
        count = len(observation)
        with torch.enable_grad():
            output, action, log_prob = self._draw(observation, self._noise(observation[:, : self.joints]), grad=True)
        with torch.no_grad():
            q = self.critics.forward(torch.cat([observation, action.judged], -1))
            smaller = torch.zeros_like(q).scatter_(0, q.argmin(0, keepdim=True), -1 / count)
            to_action = self.critics.backward(smaller, parameters=False, inputs=True)
            assert to_action is not None
            parts = {
                action.judged: to_action[..., -self.joints :].sum(0),
                log_prob: (alpha / count).expand(count),
                action.penalty: torch.full((count,), self.layer.penalty_weight / count),
            }
            parts = {part: grad for part, grad in parts.items() if part.requires_grad}  # a penalty of 0 has none
            (to_output,) = torch.autograd.grad(list(parts), output, list(parts.values()))
            self.actor.backward(to_output.unsqueeze(0))
            self.actor_step.step()
        return log_prob.detach(), torch.minimum(q[0], q[1]).mean().item()

    def _update_temperature(self, log_prob: Tensor) -> None:
        """d/d log alpha of -log alpha (log pi + target entropy)."""
        self.log_alpha.grad = -(log_prob.mean() + self.target_entropy)
        self.alpha_step.step()

    def _draw(self, observation: Tensor, noise: Tensor, grad: bool = False) -> tuple[Tensor, Action, Tensor]:
        """The actor's raw output (a leaf for autograd), the action and its log-probability."""
        output = self.actor.forward(observation)[0].detach().clone().requires_grad_(grad)
        mean, std = self._heads(output)
        box = self.limits.box(previous_action(observation, self.joints), check=False)
        action, log_prob = self.layer.sample(mean, std, noise, box)
        return output, action, log_prob

    def _heads(self, output: Tensor) -> tuple[Tensor, Tensor]:
        mean, log_std = output.chunk(2, -1)
        if self.config.mean_bound == "tanh":
            mean = torch.tanh(mean)
        return mean, torch.exp(log_std.clamp(*self.config.log_std_range))

    def _noise(self, like: Tensor) -> Tensor:
        return torch.randn(like.shape, generator=self.generator)

    # ------------------------------------------------------------------ saving

    def state_dict(self) -> dict[str, Any]:
        """Everything the next update depends on, as tensors and numbers."""
        nets = {name: getattr(self, name).flat for name in ("actor", "critics", "targets")}
        steps = {name: getattr(self, name).optimizer.state_dict() for name in ("actor_step", "critic_step")}
        rest = {"alpha_step": self.alpha_step.state_dict(), "log_alpha": self.log_alpha.detach()}
        return copy.deepcopy({**nets, **steps, **rest, "generator": self.generator.get_state()})

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on exactly where ``state_dict`` was taken."""
        with torch.no_grad():
            for name in ("actor", "critics", "targets"):
                getattr(self, name).flat.copy_(state[name])
            self.log_alpha.copy_(state["log_alpha"])
        state = copy.deepcopy(state)  # torch's optimisers keep what they are given
        for name in ("actor_step", "critic_step"):
            getattr(self, name).optimizer.load_state_dict(state[name])
        self.alpha_step.load_state_dict(state["alpha_step"])
        self.generator.set_state(state["generator"])
