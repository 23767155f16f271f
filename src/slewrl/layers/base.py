"""ActionLayer: a latent and a feasible box in, an Action out. The last operation before the environment, always.

A layer is a squash (u -> v in [-1, 1]^d), a placement (v -> a command in action units), and three decisions:
what is executed, what the critic judges, what is penalised. The base class wires them together once; a layer
file only names its parts.
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
from slewrl.limits.box import HALF_TYPES, FeasibleBox, LimitTensors

Density = Literal["normalized", "action_scaled", "action"]


class Action(NamedTuple):
    """What a layer returns; with it no backbone ever asks which layer it is."""

    executed: Tensor
    """What the environment gets, and the next ``prev``; (..., d), prev's dtype, inside F_t for hard layers."""
    judged: Tensor
    """What the critic sees and the replay stores; (..., d)."""
    log_det: Tensor
    """log |det d action / d latent| in the layer's density units, closed form; (...). log_prob = log N(u) - this."""
    penalty: Tensor
    """What ``penalty_weight`` multiplies in the actor loss; (...), >= 0."""


class Decision(NamedTuple):
    """What acting needs of an Action; the rest of it takes as long again."""

    executed: Tensor
    judged: Tensor


class Draw(NamedTuple):
    """What learning needs of N actions drawn, and the way back through them."""

    judged: Tensor
    """(N, d)"""
    log_prob: Tensor
    """(N,)"""
    penalty: Tensor
    """(N,)"""
    vjp_fn: fused.DrawVJP


@dataclass(frozen=True)
class ActionLayer(ABC):
    """Base of every layer. A stateless, immutable callable (not an nn.Module: it has no parameters).

    Args:
        density: units of ``log_det``. "normalized": the density of v in [-1, 1]^d, finite everywhere, target
            entropy -d. "action_scaled": the density of the action, target entropy -d + sum log scale.
            "action": the density of the action with target -d, as the paper has it.
        penalty_weight: lambda, the weight of ``Action.penalty`` in the actor loss.
    """

    density: Density = "normalized"
    penalty_weight: float = 0.0

    hard: ClassVar[bool] = True
    """Whether ``executed`` always lies in F_t."""
    placement: ClassVar[Placement]
    """Where v goes: one of `place.py`."""
    hook: ClassVar[type[TrainingHook]] = TrainingHook
    """What a training run does for the layer besides; here: nothing."""

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
            ValueError: the latent has not one entry per joint.
        """
        if not isinstance(box, FeasibleBox) or not isinstance(latent, Tensor):
            got = f"{type(latent).__name__}, {type(box).__name__}"  # type: ignore[unreachable]
            raise TypeError(f"a layer takes a latent tensor and limits.box(prev), got ({got})")
        wide = widen(box)
        latent = spread(latent, box)
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
        # NaN anywhere, in the latent or come about on the way, holds the joint.
        executed = torch.where((latent + command).isnan(), box.prev, self.enter(command.to(box.prev.dtype), box))
        return Action(executed, self.judge(command, executed), log_det, self.penalise(u, command, wide))

    def execute(self, latent: Tensor, box: FeasibleBox) -> Tensor:
        """Only ``Action.executed``; shape (..., d)."""
        return self.decide(latent, box).executed

    def decide(self, latent: Tensor, box: FeasibleBox) -> Decision:
        """``executed`` and ``judged``, for acting; (..., d) each: the same bits, without the rest."""
        composed = type(self).__call__ is ActionLayer.__call__ and isinstance(box, FeasibleBox)
        if not (composed and isinstance(latent, Tensor) and fused.plain_autograd() and self.squash in VALUES):
            return Decision(*self(latent, box)[:2])
        wide = widen(box)
        latent = spread(latent, box)
        command = self.placement.command(VALUES[self.squash](finite_latent(latent, wide)), wide)
        executed = torch.where((latent + command).isnan(), box.prev, self.enter(command.to(box.prev.dtype), box))
        return Decision(executed, self.judge(command, executed))

    def exported(self, latent: Tensor, box: FeasibleBox) -> Tensor:
        """``execute`` in the fewest operations, for a graph in which each costs as much as its arithmetic; (..., d)."""
        return self.execute(latent, box)

    def vjp(self, latent: Tensor, box: FeasibleBox) -> tuple[Tensor, Tensor, fused.VJP]:
        """``judged``, ``penalty``, and the function that takes their gradients back to the latent's."""
        leaf = latent.detach().requires_grad_()
        with torch.enable_grad():
            action = self(leaf, box)

        def vjp_fn(to_judged: Tensor, to_penalty: Tensor) -> Tensor:
            parts = {action.judged: to_judged, action.penalty: to_penalty}
            parts = {part: grad for part, grad in parts.items() if part.requires_grad}  # a penalty of 0 has none
            return torch.autograd.grad(list(parts), leaf, list(parts.values()))[0]

        return action.judged.detach(), action.penalty.detach(), vjp_fn

    def sample(self, mean: Tensor, std: Tensor, noise: Tensor, box: FeasibleBox) -> tuple[Action, Tensor]:
        """A reparameterised draw u = mean + std * noise through the layer, and its log-probability.

        Args:
            mean: of the latent Gaussian, shape (..., d).
            std: its standard deviation, > 0, shape (..., d).
            noise: standard normal, shape (..., d).
            box: F_t.

        Returns:
            The action, and log_prob of shape (...), in the layer's density units (Eq. sac_logprob).
        """
        mean, std, noise = (x.to(torch.promote_types(x.dtype, torch.float32)) for x in (mean, std, noise))
        latent, log_density = fused.gaussian(mean, std, noise)
        action = self(latent, box)
        return action, log_density - action.log_det

    def sample_vjp(self, mean: Tensor, std: Tensor, noise: Tensor, box: FeasibleBox) -> Draw:
        """As ``sample`` for (N, d), with the function that takes gradients back to mean and standard deviation."""
        leaves = mean.detach().requires_grad_(), std.detach().requires_grad_()
        with torch.enable_grad():
            action, log_prob = self.sample(*leaves, noise, box)

        @torch.enable_grad()
        def vjp_fn(*grads: Tensor) -> tuple[Tensor, Tensor]:
            rows = grads[0].shape[0]
            parts = zip((action.judged, log_prob, action.penalty), grads, strict=True)
            known = [
                (part[:rows], grad) for part, grad in parts if part.requires_grad
            ]  # a penalty of 0 has no gradient
            to_mean, to_std = torch.autograd.grad([p for p, _ in known], leaves, [grad for _, grad in known])
            return to_mean[:rows], to_std[:rows]

        return Draw(action.judged.detach(), log_prob.detach(), action.penalty.detach(), vjp_fn)

    def draw(self, mean: Tensor, std: Tensor, noise: Tensor, box: FeasibleBox) -> Decision:
        """As ``sample``, for acting."""
        return self.decide(mean + std * noise, box)

    def random(self, box: FeasibleBox, generator: torch.Generator | None = None) -> Tensor:
        """An action for warm-up, shape (..., d): uniform over what the layer may execute, here F_t."""
        return box.sample(generator)

    def target_entropy(self, limits: RateLimits) -> float:
        """SAC's usual -d, carried over to this layer's density units (notes on entropy: docs/layers.md)."""
        shift = self.placement.reference(limits) if self.density == "action_scaled" else 0.0
        return shift - limits.dim

    # ------------------------------------------------------------------ what a training run asks besides

    def check(self, limits: RateLimits) -> None:  # noqa: B027
        """Refuse limits that the layer's options do not fit, before anything runs. Here: none."""

    def extra_violations(self, actions: NDArray[np.floating[Any]], limits: RateLimits) -> int:
        """Steps of a chain of executed actions (T + 1, d) that broke what the layer promises beyond F_t; exact."""
        return 0

    # ------------------------------------------------------------------ the parts a layer names or replaces

    @staticmethod
    @abstractmethod
    def squash(u: Tensor) -> tuple[Tensor, Tensor]:
        """u (..., d) to v (..., d) and log |det dv/du| (...), summed over joints: one of `squash.py`."""

    def normalise(self, u: Tensor, box: FeasibleBox) -> tuple[Tensor, Tensor]:
        """As ``squash``, where the set of v depends on the box, too. Here: it does not."""
        return self.squash(u)

    def enter(self, command: Tensor, box: FeasibleBox) -> Tensor:
        """The command moved into F_t. Here: a map that reaches the edges only, so the move is sub-ulp."""
        return snap(command, box)

    def judge(self, command: Tensor, executed: Tensor) -> Tensor:
        """What the critic sees. Here: what was executed."""
        return executed

    def penalise(self, latent: Tensor, command: Tensor, box: FeasibleBox) -> Tensor:
        """What the actor pays for, shape (...). Here: nothing."""
        return torch.zeros_like(latent[..., 0])


def squared_norm(latent: Tensor) -> Tensor:
    """|u|^2 over joints, shape (...): the penalty of Eq. (actor_loss)."""
    return latent.square().sum(-1)


def spread(latent: Tensor, box: FeasibleBox) -> Tensor:
    """The latent, repeated where the box has more rows than it."""
    if latent.shape == box.prev.shape:
        return latent
    if latent.ndim == 0 or latent.shape[-1] != box.prev.shape[-1]:
        raise ValueError(f"latent has shape {tuple(latent.shape)}, expected (..., {box.prev.shape[-1]})")
    return latent.expand(torch.broadcast_shapes(latent.shape, box.prev.shape))  # type: ignore[no-untyped-call]


def finite_latent(latent: Tensor, box: FeasibleBox) -> Tensor:
    """The latent in the box's dtype with NaN at 0 and magnitudes capped where squares would overflow."""
    cap = latent_cap(box.prev.dtype)
    latent = latent.to(box.prev.dtype)
    # Not nan_to_num, which exports as nine nodes.
    return torch.where(latent.isnan(), 0.0, latent).clamp(-cap, cap)


def latent_cap(dtype: torch.dtype) -> float:
    """The largest latent magnitude: the sum of a million squares is finite, and every squash long flat."""
    return 2.0**50 if dtype == torch.float32 else 2.0**500


def widen(box: FeasibleBox) -> FeasibleBox:
    """The box in float32 if it is in a 16-bit format (to compute in), else the box itself."""
    if box.prev.dtype not in HALF_TYPES:
        return box
    working = LimitTensors(*(t.float() for t in box.working))
    return FeasibleBox(box.prev.float(), working, box.exact, box.tight)


def snap(command: Tensor, box: FeasibleBox) -> Tensor:
    """``command`` clipped to F_t, with the gradient of the unclipped map."""
    snapped: Tensor = _Snap.apply(command, box.low, box.high)  # type: ignore[no-untyped-call]
    return snapped


class _Snap(torch.autograd.Function):
    """Clip forward, identity backward: the clip undoes rounding, it is not part of the map."""

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
