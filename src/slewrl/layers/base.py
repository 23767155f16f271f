"""ActionLayer maps a latent and a feasible box to an Action. It is always the last operation before the environment.

A layer is a squash (u -> v in [-1, 1]^d), a placement (v -> a command in action units), and three decisions:
what is executed, what the critic judges, what is penalised. The base class combines them; a layer's file only names
its parts.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from slewrl.layers import fused
from slewrl.layers.hook import TrainingHook
from slewrl.layers.place import Placement
from slewrl.layers.squash import VALUES
from slewrl.limits import RateLimits
from slewrl.limits.box import HALF_TYPES, FeasibleBox, LimitTensors, plain_autograd

Density = Literal["normalized", "action_scaled", "action"]


class Action(NamedTuple):
    """The result of a layer: everything an agent needs, whichever layer it is."""

    executed: Tensor
    """The action the environment gets, and the next ``prev``; (..., d), prev's dtype, inside F_t for hard layers."""
    judged: Tensor
    """The action that the critic sees and the replay stores; (..., d)."""
    log_det: Tensor
    """log |det d action / d latent| in the layer's density units, closed form; (...). log_prob = log N(u) - this."""
    penalty: Tensor
    """The term that ``penalty_weight`` multiplies in the actor loss; (...), >= 0."""


class Decision(NamedTuple):
    """The part of an Action that acting needs; computing the rest would double the time."""

    executed: Tensor
    judged: Tensor


class Draw(NamedTuple):
    """The part of N sampled actions that learning needs, with its vector-Jacobian product."""

    judged: Tensor
    """The actions that the critic sees, (N, d)."""
    log_prob: Tensor
    """The log-probabilities in the layer's density units, (N,)."""
    penalty: Tensor
    """The penalties of the actor loss, (N,)."""
    vjp_fn: fused.DrawVJP
    """The map from gradients of these three to those of mean and standard deviation."""


@dataclass(frozen=True)
class ActionLayer(ABC):
    """Base class of every layer: a stateless, immutable callable (not an nn.Module, since it has no parameters).

    Args:
        density: units of ``log_det``. "normalized": the density of v in [-1, 1]^d, finite everywhere, target
            entropy -d. "action_scaled": the density of the action, target entropy -d + sum log scale.
            "action": the density of the action with target entropy -d, as in the paper.
        penalty_weight: lambda, the weight of ``Action.penalty`` in the actor loss.
    """

    density: Density = "normalized"
    penalty_weight: float = 0.0

    hard: ClassVar[bool] = True
    """Whether ``executed`` always lies in F_t."""
    placement: ClassVar[Placement]
    """The map from v to a command, one of `place.py`."""
    hook: ClassVar[type[TrainingHook]] = TrainingHook
    """The callbacks of a training run for the layer. The default ones do nothing."""

    def __post_init__(self) -> None:
        """Refuse an unknown density or a weight that is not a finite number >= 0."""
        if self.density not in get_args(Density):
            raise ValueError(f"density is {self.density!r}, expected one of {', '.join(get_args(Density))}")
        weight = self.penalty_weight
        if isinstance(weight, bool) or not isinstance(weight, int | float) or not 0 <= weight < math.inf:
            raise ValueError(f"penalty_weight is {weight!r}, expected a finite number >= 0")

    def __call__(self, latent: Tensor, box: FeasibleBox) -> Action:
        """Map a latent into the box.

        Args:
            latent: u, shape (..., d), any float; infinities saturate, NaN holds that joint at prev.
            box: F_t from ``RateLimits.box(prev)``; its batch shape broadcasts against the latent's.

        Raises:
            TypeError: the latent is not a tensor, or the box not ``limits.box(prev)``.
            ValueError: the latent does not have one entry per joint.
        """
        if not isinstance(box, FeasibleBox) or not isinstance(latent, Tensor):
            got = f"{type(latent).__name__}, {type(box).__name__}"  # type: ignore[unreachable]
            raise TypeError(f"a layer takes a latent tensor and limits.box(prev), got ({got})")
        wide, latent = widen(box), spread(latent, box)
        u = finite_latent(latent, wide)
        v, log_det = self.normalise(u, wide)
        if log_det.shape != u.shape[:-1]:
            raise ValueError(
                f"{type(self).__name__}.squash gives a log_det of shape {tuple(log_det.shape)}, expected "
                f"{tuple(u.shape[:-1])}: summed over joints"
            )
        command = self.placement.command(v, wide)
        if self.density != "normalized":
            log_det = log_det + self.placement.log_scale(v, wide)
        # NaN, whether in the latent or produced by the map, holds the joint.
        executed = torch.where((latent + command).isnan(), box.anchor, self.enter(command.to(box.prev.dtype), box))
        return Action(executed, self.judge(command, executed), log_det, self.penalise(u, command, wide))

    def execute(self, latent: Tensor, box: FeasibleBox) -> Tensor:
        """Return ``Action.executed`` alone, shape (..., d)."""
        return self.decide(latent, box).executed

    def decide(self, latent: Tensor, box: FeasibleBox) -> Decision:
        """Return ``executed`` and ``judged`` for acting, (..., d) each, bit for bit as ``__call__`` does."""
        composed = type(self).__call__ is ActionLayer.__call__ and isinstance(box, FeasibleBox)
        if not (composed and isinstance(latent, Tensor) and plain_autograd() and self.squash in VALUES):
            return Decision(*self(latent, box)[:2])
        wide, latent = widen(box), spread(latent, box)
        command = self.placement.command(VALUES[self.squash](finite_latent(latent, wide)), wide)
        executed = torch.where((latent + command).isnan(), box.anchor, self.enter(command.to(box.prev.dtype), box))
        return Decision(executed, self.judge(command, executed))

    def exported(self, latent: Tensor, box: FeasibleBox) -> Tensor:
        """Return ``executed`` (..., d), computed with few operations for an exported graph."""
        return self.execute(latent, box)

    def vjp(self, latent: Tensor, box: FeasibleBox) -> tuple[Tensor, Tensor, fused.VJP]:
        """Return ``judged``, ``penalty``, and their vector-Jacobian product with respect to the latent."""
        leaf = latent.detach().requires_grad_()
        with torch.enable_grad():
            action = self(leaf, box)

        def vjp_fn(to_judged: Tensor, to_penalty: Tensor) -> Tensor:
            return _grad((action.judged, action.penalty), (to_judged, to_penalty), (leaf,))[0]

        return action.judged.detach(), action.penalty.detach(), vjp_fn

    def sample(self, mean: Tensor, std: Tensor, noise: Tensor, box: FeasibleBox) -> tuple[Action, Tensor]:
        """Draw u = mean + std * noise (reparameterised), map it through the layer, and return its log-probability, too.

        Mean, standard deviation (> 0) and standard normal noise have shape (..., d), log_prob (...). It is in the
        layer's density units (Eq. sac_logprob).
        """
        mean, std, noise = (x.to(torch.promote_types(x.dtype, torch.float32)) for x in (mean, std, noise))
        latent, log_density = fused.gaussian(mean, std, noise)
        action = self(latent, box)
        return action, log_density - action.log_det

    def sample_vjp(self, mean: Tensor, std: Tensor, noise: Tensor, box: FeasibleBox) -> Draw:
        """Sample as ``sample`` does, for (N, d), with the vector-Jacobian product for mean and standard deviation."""
        leaves = mean.detach().requires_grad_(), std.detach().requires_grad_()
        with torch.enable_grad():
            action, log_prob = self.sample(*leaves, noise, box)

        @torch.enable_grad()
        def vjp_fn(*grads: Tensor) -> tuple[Tensor, Tensor]:
            rows = len(grads[0])
            parts = tuple(part[:rows] for part in (action.judged, log_prob, action.penalty))
            to_mean, to_std = _grad(parts, grads, leaves)
            return to_mean[:rows], to_std[:rows]

        return Draw(action.judged.detach(), log_prob.detach(), action.penalty.detach(), vjp_fn)

    def draw(self, mean: Tensor, std: Tensor, noise: Tensor, box: FeasibleBox) -> Decision:
        """Sample as ``sample`` does, returning only what acting needs."""
        return self.decide(mean + std * noise, box)

    def random(self, box: FeasibleBox, generator: torch.Generator | None = None) -> Tensor:
        """Draw an action for warm-up, shape (..., d), uniform over what the layer may execute; by default F_t."""
        return box.sample(generator)

    def target_entropy(self, limits: RateLimits) -> float:
        """SAC's usual target entropy -d, converted to the layer's density units (docs/layers.md)."""
        shift = self.placement.reference(limits) if self.density == "action_scaled" else 0.0
        return shift - limits.dim

    def check(self, limits: RateLimits) -> None:  # noqa: B027
        """Refuse limits that the layer's options do not fit. The default accepts all."""

    def allowance(self, joints: int) -> float | None:
        """The budget that this many joints share, in joints at full rate; by default there is none."""
        return None

    def extra_violations(self, actions: NDArray[np.floating[Any]], limits: RateLimits) -> int:
        """Count exactly the steps of a sequence of executed actions (T + 1, d) that broke a promise beyond F_t."""
        return 0

    # The parts that a layer defines or overrides.

    @staticmethod
    @abstractmethod
    def squash(u: Tensor) -> tuple[Tensor, Tensor]:
        """Map u (..., d) to v (..., d) and log |det dv/du| (...), summed over joints; one of `squash.py`."""

    def normalise(self, u: Tensor, box: FeasibleBox) -> tuple[Tensor, Tensor]:
        """Map u to v as ``squash`` does. A layer whose v depends on the box, too, overrides this."""
        return self.squash(u)

    def enter(self, command: Tensor, box: FeasibleBox) -> Tensor:
        """Move the command into F_t. The default is for maps into F_t, whose commands leave it by rounding only."""
        return snap(command, box)

    def judge(self, command: Tensor, executed: Tensor) -> Tensor:
        """The action that the critic sees; by default the executed one."""
        return executed

    def penalise(self, latent: Tensor, command: Tensor, box: FeasibleBox) -> Tensor:
        """The penalty of the actor loss, shape (...); by default 0."""
        return torch.zeros_like(latent[..., 0])


def penalise_latent(layer: ActionLayer, latent: Tensor, command: Tensor, box: FeasibleBox) -> Tensor:
    """Return |u|^2 (...), a penalty that keeps latents where the squash is not saturated (Eq. actor_loss)."""
    return latent.square().sum(-1)


def _grad(parts: tuple[Tensor, ...], grads: tuple[Tensor, ...], leaves: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """The gradients of the leaves; parts that do not depend on them, such as a penalty of 0, are left out."""
    known = [(part, grad) for part, grad in zip(parts, grads, strict=True) if part.requires_grad]
    return torch.autograd.grad([part for part, _ in known], leaves, [grad for _, grad in known])


def spread(latent: Tensor, box: FeasibleBox) -> Tensor:
    """Broadcast the latent to the batch shape of the box."""
    if latent.shape == box.prev.shape:
        return latent
    if latent.ndim == 0 or latent.shape[-1] != box.prev.shape[-1]:
        raise ValueError(f"latent has shape {tuple(latent.shape)}, expected (..., {box.prev.shape[-1]})")
    return latent.expand(torch.broadcast_shapes(latent.shape, box.prev.shape))  # type: ignore[no-untyped-call]


def finite_latent(latent: Tensor, box: FeasibleBox) -> Tensor:
    """Cast the latent to the box's dtype, with NaN set to 0 and magnitudes capped so that squares do not overflow."""
    cap = latent_cap(box.prev.dtype)
    latent = latent.to(box.prev.dtype)
    # Not nan_to_num, which exports as nine nodes.
    return torch.where(latent.isnan(), 0.0, latent).clamp(-cap, cap)


def latent_cap(dtype: torch.dtype) -> float:
    """The cap on latent magnitudes: every squash is saturated there, and a sum of a million squares is finite."""
    return 2.0**50 if dtype == torch.float32 else 2.0**500


def widen(box: FeasibleBox) -> FeasibleBox:
    """Convert a 16-bit box to float32 for computation; return any other box as it is."""
    if box.prev.dtype not in HALF_TYPES:
        return box
    working = LimitTensors(*(t.float() for t in box.working))
    return FeasibleBox(box.prev.float(), working, box.exact, box.tight)


def snap(command: Tensor, box: FeasibleBox) -> Tensor:
    """Clip ``command`` to F_t, with the gradient of the unclipped map."""
    return _Snap.apply(box.round(command), box.low, box.high)  # type: ignore[no-untyped-call]


class _Snap(torch.autograd.Function):
    """Clip in the forward pass, identity in the backward pass: the clip only undoes rounding."""

    generate_vmap_rule = True

    @staticmethod
    def forward(command: Tensor, low: Tensor, high: Tensor) -> Tensor:
        return torch.clamp(command, low, high)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        return grad, None, None
