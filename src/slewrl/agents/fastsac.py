"""FastSAC under rate limits (as in holosoma 0.0.3): soft actor-critic for many environments, distributional critics.

Unlike `sac.py` it has layer-normalised networks, two C51 critics whose *mean* the actor maximises, normalised
observations, large batches and few updates per environment step. Privileged observations go to the critics only, and
every transition can be learned from twice, as it was and mirrored. Multi-step returns (n_steps) have no off-policy
correction, and leave out the entropy of the steps between. Written with autograd: at these batch sizes hand-written
passes as in `nets.py` were not clearly faster.
"""

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from slewrl.agents.base import Layout, OffPolicy, averaging_rate
from slewrl.agents.c51 import project
from slewrl.agents.config import (
    BETAS,
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
from slewrl.agents.normalize import Normalizer
from slewrl.agents.replay import Batch, Replay
from slewrl.copying import Copied
from slewrl.layers.base import Action, ActionLayer, Decision
from slewrl.limits import RateLimits

MODULES = ("actor", "averaged", "critics", "targets", "normalizer")
STEPS = ("actor_step", "critic_step", "alpha_step")


@dataclass(frozen=True)
class FastSACConfig(Checked):
    """The defaults of holosoma's FastSAC (version 0.0.3); what is not its own is marked ours."""

    actor_hidden: Annotated[tuple[int, ...], WIDTHS, NETWORK] = (512, 256, 128)
    """Widths of the actor's hidden layers."""
    critic_hidden: Annotated[tuple[int, ...], WIDTHS, NETWORK] = (768, 384, 192)
    """Widths of each critic's hidden layers."""
    atoms: Annotated[int, at_least(2), NETWORK] = 101
    """Atoms of the critics' distributions."""
    value_range: Annotated[tuple[float, float], RANGE, NETWORK] = (-20.0, 20.0)
    """First and last atom; returns outside, the entropy bonus included, are clipped."""
    discount: Annotated[float, SHARE] = 0.97
    """Discount factor gamma."""
    n_steps: Annotated[int, COUNT] = 1
    """Steps of a multi-step return."""
    target_rate: Annotated[float, SHARE] = 0.125
    """Update rate tau of the target critics."""
    learning_rate: Annotated[float, POSITIVE] = 3e-4
    """Learning rate of AdamW, for actor, critics and temperature."""
    decay_updates: Annotated[int, at_least(0)] = 0
    """Updates within which the learning rate falls along a line to ``final_learning_rate``; 0: it stays. Ours."""
    final_learning_rate: Annotated[float, NOT_NEGATIVE] = 0.0
    """The learning rate after ``decay_updates``; ours."""
    betas: Annotated[tuple[float, float], BETAS] = (0.9, 0.95)
    """Betas of AdamW, for all three."""
    weight_decay: Annotated[float, NOT_NEGATIVE] = 1e-3
    """Weight decay of AdamW, for actor and critics; the temperature's is AdamW's usual .01."""
    initial_temperature: Annotated[float, POSITIVE] = 1e-3
    """Initial temperature alpha."""
    target_entropy_per_joint: Annotated[float, FINITE] = -1.0
    """Target entropy per joint, in the units of the layer's density; ours, holosoma has 0 (docs/deviations.md)."""
    penalty_scale: Annotated[float, NOT_NEGATIVE] = 0.2
    """Factor of the layer's penalty weight lambda; ours (docs/deviations.md)."""
    log_std_range: Annotated[tuple[float, float], RANGE, NETWORK] = (-5.0, 0.0)
    """Range of the actor's log standard deviation, by a tanh; it starts in the middle."""
    mean_bound: Annotated[str, one_of("linear", "tanh"), NETWORK] = "linear"
    """"linear", or "tanh" as the paper has it, which keeps deterministic steps below .71 of the limit."""
    updates: Annotated[int, COUNT] = 8
    """Updates per step of all environments."""
    policy_every: Annotated[int, COUNT] = 4
    """Updates of the critics per update of the actor."""
    average_rate: Annotated[float, SHARE] = 0.001
    """Rate of the moving average of the actor's weights, which is evaluated and exported; 1 is the actor itself."""
    symmetry: Annotated[bool, SWITCH] = True
    """Whether to learn from every transition's mirror image, too, where the task has one."""
    sees_all: Annotated[bool, SWITCH, NETWORK] = False
    """Whether the actor sees the privileged entries (the base's velocity), too: then the robot needs an estimator."""
    normalize: Annotated[bool, SWITCH, NETWORK] = True
    """Whether to normalise observations, all but the previous action."""
    normalize_previous: Annotated[bool, SWITCH, NETWORK] = False
    """Whether the networks see the previous action normalised, too, while the layer reads it as it is."""
    critic_input: Annotated[str, one_of("action", "increment"), NETWORK] = "action"
    """What critics see of an action: itself, or "increment", (a - a_prev) / delta; ours."""
    amp: Annotated[str, one_of("off", "bf16")] = "off"
    """"bf16" runs the networks in bfloat16 in updates; acting, layer and losses stay in float32. On a CPU with AMX,
    torch 2.13 needs ONEDNN_MAX_CPU_ISA=AVX512_CORE_FP16 in the environment."""
    compile: Annotated[bool, SWITCH] = False
    """Whether to compile the losses; takes a minute at the start, and a C++ compiler on a CPU."""
    device: str = "cpu"
    """Where to learn: "cpu", "cuda", ..."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.normalize_previous and not self.normalize:
            raise ValueError("normalize_previous is true, but normalize is false: expected both")


# ---------------------------------------------------------------------- networks


def linear(fan_in: int, fan_out: int, generator: torch.Generator | None) -> nn.Linear:
    """A linear layer, initialised uniformly in +-1/sqrt(fan_in) as torch does, or to 0 without a generator."""
    layer = nn.Linear(fan_in, fan_out, device="meta").to_empty(device="cpu")  # draws nothing from torch's generator
    bound = 1 / math.sqrt(fan_in)
    for part in (layer.weight, layer.bias):
        nn.init.zeros_(part) if generator is None else nn.init.uniform_(part, -bound, bound, generator)
    return layer


def tower(sizes: tuple[int, ...], generator: torch.Generator) -> list[nn.Module]:
    """Linear, LayerNorm and SiLU from each width to the next."""
    return [
        part
        for fan_in, fan_out in pairwise(sizes)
        for part in (linear(fan_in, fan_out, generator), nn.LayerNorm(fan_out), nn.SiLU())
    ]


class Actor(nn.Module):
    """From normalised observations (N, m), without privileged entries, to the Gaussian of the latent, (N, d)."""

    def __init__(self, size: int, joints: int, config: FastSACConfig, generator: torch.Generator) -> None:
        super().__init__()
        hidden = config.actor_hidden
        self.trunk = nn.Sequential(*tower((size, *hidden), generator))
        # At 0, so that the first mean is 0 everywhere: layers of increments hold.
        self.mean = nn.Sequential(linear(hidden[-1], joints, None))
        self.log_std = linear(hidden[-1], joints, None)
        self.low, self.high = config.log_std_range
        if config.mean_bound == "tanh":
            self.mean.append(nn.Tanh())

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and standard deviation."""
        units = self.trunk(x)
        log_std = self.low + 0.5 * (self.high - self.low) * (torch.tanh(self.log_std(units).float()) + 1)
        return self.mean(units).float(), log_std.exp()


class Critics(nn.Module):
    """Twin critics, from normalised observations (B, n) and actions (B, d) to logits of the atoms, (2, B, K)."""

    def __init__(self, inputs: int, config: FastSACConfig, generator: torch.Generator) -> None:
        super().__init__()
        sizes = (inputs, *config.critic_hidden)
        self.members = nn.ModuleList(
            nn.Sequential(*tower(sizes, generator), linear(sizes[-1], config.atoms, generator)) for _ in range(2)
        )

    def forward(self, observation: Tensor, action: Tensor) -> Tensor:
        """Logits."""
        x = torch.cat([observation, action], -1)
        return torch.stack([member(x) for member in self.members]).float()


# ---------------------------------------------------------------------- the agent


class FastSAC(Copied, OffPolicy):
    """The FastSAC agent; its arguments are those of ``SAC``, and a ``layout``: privileged entries and mirror image."""

    Config = FastSACConfig
    averages = True
    networks = MODULES
    measures_entropy = True

    def __init__(
        self,
        config: FastSACConfig,
        limits: RateLimits,
        layer: ActionLayer,
        observation_size: int,
        seed: int,
        layout: Layout | None = None,
    ) -> None:
        self.config, self.limits, self.layer, self.joints = config, limits, layer, limits.dim
        self.device = usable_device(config.device)
        self.privileged = 0 if layout is None or config.sees_all else layout.privileged
        self.mirror = None if layout is None or not config.symmetry else self._mirror(layout.mirror)
        n, d, generator = observation_size, self.joints, torch.Generator().manual_seed(seed)
        self.actor = Actor(n - self.privileged, d, config, generator).to(self.device)
        self.critics = Critics(n + d, config, generator).to(self.device)
        self.targets = copy.deepcopy(self.critics).requires_grad_(False)
        self.averaged = copy.deepcopy(self.actor).requires_grad_(False)
        self.normalizer = Normalizer(n, self.kept).to(self.device)
        self.view = CriticView(limits, config.critic_input).to(self.device)
        self.atoms = torch.linspace(*config.value_range, config.atoms, device=self.device)
        self.log_alpha = torch.full((1,), math.log(config.initial_temperature), device=self.device).requires_grad_()
        self.target_entropy = layer.target_entropy(limits) + (config.target_entropy_per_joint + 1) * d
        self.generator = torch.Generator(self.device).manual_seed(int(torch.randint(2**31, (), generator=generator)))
        self.actor_step = self._adam(self.actor.parameters(), config.weight_decay)
        self.critic_step = self._adam(self.critics.parameters(), config.weight_decay)
        self.alpha_step = self._adam([self.log_alpha], 0.01)
        limits.rounded(torch.float32, self.atoms.device)  # cached here, since a compiled function could not
        if limits.grid is not None:
            limits.on_grid(torch.float32, self.atoms.device)
        self._join()
        self.updates, self.actor_steps = 0, 0
        self.utility = torch.zeros((), device=self.device)
        """Mean Q of the last batch the actor was updated on."""

    @property
    def kept(self) -> int:
        """How many of the last entries of an observation the networks see as they are."""
        return 0 if self.config.normalize_previous else self.limits.appended

    @classmethod
    def make(
        cls, config: FastSACConfig, limits: RateLimits, layer: ActionLayer, layout: Layout, seed: int
    ) -> "FastSAC":
        """See ``Agent``; the actor does not see privileged entries."""
        return cls(config, limits, layer, layout.size, seed, layout)

    def _join(self) -> None:
        wrap: Callable[[Any], Any] = torch.compile if self.config.compile else lambda function: function
        self._critic_target, self._critic_loss = wrap(self.critic_target), wrap(self.critic_loss)
        self._actor_loss = wrap(self.actor_loss)

    def __getstate__(self) -> dict[str, Any]:
        compiled = ("_critic_target", "_critic_loss", "_actor_loss")  # of this agent's networks, not of a copy's
        return {name: value for name, value in vars(self).items() if name not in compiled}

    # ------------------------------------------------------------------ acting

    @torch.no_grad()
    def act(self, observation: Tensor, explore: bool = True, averaged: bool = True) -> Decision:
        """See ``Agent``; actions are on the device of the observations."""
        seen = observation.to(self.device)
        actor = self.averaged if averaged and not explore else self.actor
        mean, std = actor(self.normalizer(seen[:, self.privileged :]))
        box = self.limits.box_after(seen)
        decision = self.layer.draw(mean, std, self._noise(mean), box) if explore else self.layer.decide(mean, box)
        return Decision(*(part.to(observation.device) for part in decision))

    def latent_module(self) -> nn.Module:
        """See ``Agent``; normalisation is part of the module."""
        parts = copy.deepcopy([self.averaged.trunk, self.averaged.mean])
        return nn.Sequential(self.normalizer.part(self.privileged), *parts).cpu().eval().requires_grad_(False)

    # ------------------------------------------------------------------ learning

    def updates_per_step(self, environments: int) -> int:
        """See ``OffPolicy``; the same for any number of environments."""
        return self.config.updates

    def sample(self, replay: Replay, size: int, rng: np.random.Generator) -> Batch:
        """A batch of transitions of ``n_steps``."""
        if self.config.n_steps == 1:
            return replay.sample(size, rng)
        return replay.sample(size, rng, self.config.n_steps, self.config.discount)

    def update(self, batch: Batch, log: bool = False) -> dict[str, float]:
        """One step of critics, targets and temperature and, every ``policy_every`` times, of the actor."""
        self._decay()
        rows, alpha = self._rows(batch), self.log_alpha.detach().exp()
        mass, log_prob = self._critic_target(rows, self._noise(rows.action), alpha)
        loss = self._critic_loss(rows, mass)
        _descend(self.critic_step, loss)
        torch._foreach_lerp_(
            list(self.targets.parameters()), [p.detach() for p in self.critics.parameters()], self.config.target_rate
        )
        if self.updates % self.config.policy_every == 1 % self.config.policy_every:
            actor_loss, self.utility = self._actor_loss(rows, self._noise(rows.action), alpha)
            _descend(self.actor_step, actor_loss)
            self._average()
        entropy = -log_prob.mean()
        self._update_temperature(entropy, alpha)
        self.updates += 1
        return self._log(loss, entropy, alpha) if log else {}

    @torch.no_grad()
    def _average(self) -> None:
        """Move the averaged actor towards the actor."""
        self.actor_steps += 1
        rate = averaging_rate(self.config.average_rate, self.actor_steps)
        torch._foreach_lerp_(list(self.averaged.parameters()), list(self.actor.parameters()), rate)

    def _decay(self) -> None:
        """Set the learning rate of the next update."""
        if not self.config.decay_updates:
            return
        first, last = self.config.learning_rate, self.config.final_learning_rate
        rate = first + (last - first) * min(self.updates / self.config.decay_updates, 1.0)
        for name in STEPS:
            getattr(self, name).param_groups[0]["lr"] = rate

    @torch.no_grad()
    def critic_target(self, rows: "_Rows", noise: Tensor, alpha: Tensor) -> tuple[Tensor, Tensor]:
        """The target of each critic, by its target network: the distribution of r + f (Z'_j(s~', a') - alpha log pi).

        f is ``rows.discount``. Returns the mass of the atoms (2, R, K), and log pi(a' | s~') (R,).
        """
        action, log_prob = self._sample(rows.next_observation, rows.next_history, noise)
        with self._autocast():
            mass = self.targets(rows.next_observation, self.view.seen(action.judged, rows.next_history)).softmax(-1)
        shift = rows.reward - rows.discount * alpha * log_prob
        return project(mass, *self.config.value_range, shift, rows.discount), log_prob

    def critic_loss(self, rows: "_Rows", mass: Tensor) -> Tensor:
        """Cross-entropy to ``mass`` (2, R, K), mean over rows and summed over critics."""
        with self._autocast():
            logits = self.critics(rows.observation, self.view.seen(rows.action, rows.history))
        return -(mass * logits.log_softmax(-1)).sum(-1).mean(-1).sum()

    def actor_loss(self, rows: "_Rows", noise: Tensor, alpha: Tensor) -> tuple[Tensor, Tensor]:
        """E[alpha log pi - mean_j E Z_j + s lambda penalty] over s~, and the mean Q in it."""
        action, log_prob = self._sample(rows.observation, rows.history, noise)
        with self._autocast():
            mass = self.critics(rows.observation, self.view.seen(action.judged, rows.history)).softmax(-1)
        utility = (mass @ self.atoms).mean()
        weight = self.config.penalty_scale * self.layer.penalty_weight
        loss = (alpha * log_prob + weight * action.penalty).mean() - utility
        return loss, utility.detach()

    def _update_temperature(self, entropy: Tensor, alpha: Tensor) -> None:
        """One step on the loss alpha (entropy - target entropy), with the entropy at s~'."""
        self.log_alpha.grad = alpha * (entropy - self.target_entropy)
        self.alpha_step.step()

    def _log(self, loss: Tensor, entropy: Tensor, alpha: Tensor) -> dict[str, float]:
        values = {"critic_loss": loss, "entropy": entropy, "temperature": alpha}
        if self.updates > 1 % self.config.policy_every:  # before that the actor has not been judged
            values["q"] = self.utility
        return {name: value.item() for name, value in values.items()}

    def _sample(self, observation: Tensor, history: Tensor, noise: Tensor) -> tuple[Action, Tensor]:
        """Sample an action for each normalised observation (R, n); returns it and its log-probability (R,).

        ``history`` (R, appended): what F_t depends on, as it is.
        """
        with self._autocast():
            mean, std = self.actor(observation[:, self.privileged :])
        box = self.limits.box_after(history)
        return self.layer.sample(mean, std, noise, box)

    def _rows(self, batch: Batch) -> "_Rows":
        """The batch on the device, with its mirror image below it; updates the normaliser and applies it."""
        seen = torch.stack([batch.observation, batch.next_observation]).to(self.device)
        action, reward, discount = (x.to(self.device) for x in (batch.action, batch.reward, self._discount(batch)))
        if self.mirror is not None:
            seen = torch.cat([seen, _image(seen, *self.mirror[:2])], 1)
            action = torch.cat([action, _image(action, *self.mirror[2:])])
            reward, discount = reward.repeat(2), discount.repeat(2)
        if self.config.normalize:
            self.normalizer.update(seen.flatten(0, 1))
        observation, next_observation = self.normalizer(seen)
        history, next_history = seen[..., -self.limits.appended :]
        return _Rows(observation, next_observation, history, next_history, action, reward, discount)

    def _discount(self, batch: Batch) -> Tensor:
        """The factor of the next value, (B,): gamma^m after m steps, 0 after a terminal state."""
        if self.config.n_steps == 1:
            return self.config.discount * (1 - batch.terminated)
        if batch.discount is None:
            raise ValueError(f"n_steps is {self.config.n_steps}, but the batch holds single steps: give it to sample")
        return batch.discount

    def _mirror(self, mirror: Any) -> list[Tensor] | None:
        """Index and sign for observations, then for actions, on the device."""
        if mirror is None:
            return None
        parts = (mirror.observation_index, mirror.observation_sign, mirror.action_index, mirror.action_sign)
        return [torch.as_tensor(part, device=self.device) for part in parts]

    def _adam(self, parameters: Any, weight_decay: float) -> torch.optim.Optimizer:
        config = self.config
        return torch.optim.AdamW(parameters, config.learning_rate, config.betas, weight_decay=weight_decay, fused=True)

    def _autocast(self) -> torch.autocast:
        return torch.autocast(self.device.type, torch.bfloat16, enabled=self.config.amp == "bf16")

    def _noise(self, like: Tensor) -> Tensor:
        return torch.randn(like.shape, generator=self.generator, device=self.device)

    # ------------------------------------------------------------------ saving

    def state_dict(self) -> dict[str, Any]:
        """See ``Agent``."""
        parts = {name: getattr(self, name).state_dict() for name in MODULES + STEPS}
        counts = {"updates": self.updates, "actor_steps": self.actor_steps}
        rest = {"log_alpha": self.log_alpha.detach(), **counts, "utility": self.utility}
        return copy.deepcopy({**parts, **rest, "generator": self.generator.get_state()})

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """See ``Agent``; an older state without ``averaged`` gets the actor itself."""
        state = {"averaged": state["actor"], "actor_steps": 0, **state}
        for name in MODULES + STEPS:
            getattr(self, name).load_state_dict(state[name])
        self.log_alpha.data.copy_(state["log_alpha"])
        self.updates, self.actor_steps = state["updates"], state["actor_steps"]
        self.utility = state["utility"].to(self.device)
        self.generator.set_state(state["generator"].cpu())


class _Rows(NamedTuple):
    """R transitions on the device, with normalised observations (R, n), actions (R, d), and (R,) each of the rest."""

    observation: Tensor
    next_observation: Tensor
    history: Tensor
    next_history: Tensor
    """(R, appended) each: what F_t depends on, the previous action at last, as it is."""
    action: Tensor
    reward: Tensor
    discount: Tensor
    """The factor of the next value."""


def usable_device(name: str) -> torch.device:
    """The torch device of this name; refuses one that torch cannot use."""
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise ValueError(f"device is {name!r}, expected cpu, cuda or cuda:N") from error
    if device.type == "cuda" and not torch.cuda.is_available():
        raise ValueError(f"device is {name!r}, but torch sees no GPU here (--set agent.device=cpu)")
    return device


def _image(x: Tensor, index: Tensor, sign: Tensor) -> Tensor:
    """The mirror image of (..., n)."""
    return x.index_select(-1, index).mul_(sign)


def _descend(step: torch.optim.Optimizer, loss: Tensor) -> None:
    """One step of an optimiser, whose own parameters alone get a gradient."""
    parameters = step.param_groups[0]["params"]
    for parameter, grad in zip(parameters, torch.autograd.grad(loss, parameters), strict=True):
        parameter.grad = grad
    step.step()
