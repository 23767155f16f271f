"""TorchRL under rate limits: a distribution inside F_t, and a transform that limits whatever reaches the environment.

env = TransformedEnv(GymEnv("HalfCheetah-v5"), Compose(RateLimitTransform(limits), DoubleToFloat()))
actor = ProbabilisticActor(
    module,  # reads "observation" and "previous_action", writes "loc" and "scale"
    in_keys=["loc", "scale", "previous_action"],
    distribution_class=RateLimitedNormal,
    distribution_kwargs={"limits": limits},
)

Limits with an acceleration need the last increment, too: "previous_velocity" in the actor's in_keys.
"""

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.distributions import Distribution

from slewrl.envs.augment import PREVIOUS, VELOCITY, check_range
from slewrl.envs.history import ActionHistory
from slewrl.errors import UserFacingError
from slewrl.integrations.fixed_start import fixed_start
from slewrl.layers import ActionLayer, make_layer
from slewrl.layers.fused import LOG_SQRT_2PI
from slewrl.layers.inverse import invert, uninterval
from slewrl.layers.truncnorm import TruncNorm, truncated_log_density
from slewrl.limits import RateLimits, boxmath
from slewrl.limits.box import HALF_TYPES, FeasibleBox
from slewrl.limits.parse import Values
from slewrl.limits.viable_box import numpy_edges

try:
    from tensordict.nn import TensorDictModule
    from torchrl.data import Bounded
    from torchrl.envs import DTypeCastTransform, Transform, TransformedEnv
except ImportError as error:
    raise UserFacingError(f'TorchRL cannot be imported ({error}): pip install "slewrl[torchrl]"') from error

DTYPE = torch.float32
"""The dtype of actions. A wider environment gets float32 values in its own dtype, so a replay buffer loses nothing."""


class RateLimitedNormal(Distribution):
    """A Gaussian latent through an action layer: every sample is an action inside F_t, and each row has its own F_t.

    It is the ``distribution_class`` of a ``ProbabilisticActor``. ``rsample_and_log_prob``, which TorchRL's losses use,
    never inverts the layer, nor does ``log_prob`` of the very tensor last drawn.

    Args:
        loc: mean of the latent, (..., d); NaN holds that joint at its previous action.
        scale: standard deviation of the latent, > 0, (..., d).
        previous_action: the action last executed, unnormalised, (..., d).
        previous_velocity: the last increment, (..., d); needed by limits with an acceleration, and refused by others.
        limits: the limits of the d joints.
        layer: a name, or ``make_layer(name, density=...)``; its density is the unit of every log-probability.
    """

    arg_constraints: ClassVar[dict[str, Any]] = {}
    has_rsample = True

    def __init__(
        self,
        loc: Tensor,
        scale: Tensor,
        previous_action: Tensor | None,
        previous_velocity: Tensor | None = None,
        *,
        limits: RateLimits,
        layer: str | ActionLayer = "ddsrad",
    ) -> None:
        if previous_action is None:
            raise ValueError(f"there is no {PREVIOUS!r}: put RateLimitTransform(limits) into the environment")
        if (previous_velocity is None) != (limits.grid is None):
            raise ValueError(
                f"there is a {VELOCITY!r}, but the limits have no acceleration: leave it out of in_keys"
                if limits.grid is None
                else f"there is no {VELOCITY!r}, which limits with an acceleration need: name it among the actor's "
                "in_keys, and put RateLimitTransform(limits) into the environment"
            )
        given = {"loc": loc, "scale": scale, PREVIOUS: previous_action}
        if previous_velocity is not None:
            given[VELOCITY] = previous_velocity
        for name, value in given.items():
            if value.ndim == 0 or value.shape[-1] != limits.dim:
                raise ValueError(f"{name} has shape {tuple(value.shape)}, expected (..., {limits.dim}): {limits.names}")
        self.limits, self.layer = limits, _usable(layer)
        if limits.grid is not None:
            self.layer.check(limits)
        shape = _together(*given.values())
        self.loc, self.scale, self.previous_action = (x.expand(shape) for x in (loc, scale, previous_action))
        self.previous_velocity = None if previous_velocity is None else previous_velocity.expand(shape)
        self._drawn: tuple[Tensor, Tensor] | None = None
        super().__init__(self.loc.shape[:-1], self.loc.shape[-1:], validate_args=False)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Actions (*sample_shape, ..., d), differentiable in loc and scale."""
        loc, scale, noise, box = self._parts(sample_shape)
        action = self.layer.draw(loc, scale, noise, box).executed
        self._drawn = action, loc + scale * noise
        return action

    def rsample_and_log_prob(self, sample_shape: Sequence[int] = ()) -> tuple[Tensor, Tensor]:
        """Actions and their log-probabilities (*sample_shape, ...), both differentiable; SACLoss calls this."""
        action, log_prob = self.layer.sample(*self._parts(sample_shape))
        return action.executed, log_prob

    def sample_and_log_prob(self, sample_shape: Sequence[int] = ()) -> tuple[Tensor, Tensor]:
        """Actions without gradient, and log-probabilities with the gradient of the score."""
        action = self.sample(torch.Size(sample_shape))
        return action, self.log_prob(action)

    def log_prob(self, value: Tensor) -> Tensor:
        """The log-probability (...) of actions (..., d), in the layer's density units.

        It is computed from the latent of the tensor last drawn. For any other, the layer is inverted in float64, whose
        precision near the edges of F_t is that of the float32 action; a layer that ends in a clip cannot be inverted.
        """
        shape = _together(value, self.loc)
        box = self._box(shape)
        if isinstance(self.layer, TruncNorm):
            return self._truncated_log_prob(value.expand(shape), box)
        drawn = self._drawn is not None and value is self._drawn[0]
        latent = self._drawn[1] if self._drawn and drawn else invert(self.layer, value.expand(shape), box)
        z = (latent - self.loc) / self.scale
        log_density = -(z.square() / 2 + torch.log(self.scale) + LOG_SQRT_2PI).sum(-1)
        return log_density - self.layer(latent, box).log_det

    @property
    def deterministic_sample(self) -> Tensor:
        """The action of the mean latent, (..., d), which evaluation executes."""
        action = self.layer.decide(self.loc, self._box(self.loc.shape)).executed
        self._drawn = action, self.loc
        return action

    @property
    def mode(self) -> Tensor:
        """The action of the latent's mode."""
        return self.deterministic_sample

    def penalty(self) -> Tensor:
        """Lambda times the layer's penalty of a new sample, shape (...); its mean is the last term of Eq. (actor_loss).

        Add it to SACLoss: ``losses["loss_actor"] + actor.get_dist(batch).penalty().mean()``.
        """
        action, _ = self.layer.sample(*self._parts(()))
        return self.layer.penalty_weight * action.penalty

    def _parts(self, sample_shape: Sequence[int]) -> tuple[Tensor, Tensor, Tensor, FeasibleBox]:
        shape = (*sample_shape, *self.loc.shape)
        loc, scale = (x.expand(shape) for x in (self.loc, self.scale))
        return loc, scale, _noise(loc), self._box(shape)

    def _box(self, shape: Sequence[int]) -> FeasibleBox:
        """F_t, broadcast to a shape (..., d)."""
        velocity = None if self.previous_velocity is None else self.previous_velocity.expand(shape)
        return self.limits.box(self.previous_action.expand(shape), check=False, velocity=velocity)

    def _truncated_log_prob(self, value: Tensor, box: FeasibleBox) -> Tensor:
        v = uninterval(value.double(), box).clamp(-1, 1)
        log_density = truncated_log_density(v, self.loc.double(), self.scale.double()).sum(-1)
        return log_density.to(self.loc.dtype) - self.layer(v.to(self.loc.dtype), box).log_det


def _together(*tensors: Tensor) -> torch.Size:
    return torch.broadcast_shapes(*(x.shape for x in tensors))  # type: ignore[no-untyped-call]


def _noise(like: Tensor) -> Tensor:
    return torch.randn(like.shape, dtype=like.dtype, device=like.device)


@cache
def _usable(layer: str | ActionLayer) -> ActionLayer:
    """Make the layer; refuse one whose judged action is not the executed one, which TorchRL's losses cannot handle."""
    made = make_layer(layer) if isinstance(layer, str) else layer
    command, executed = torch.zeros(1), torch.ones(1)
    if not made.hard or made.judge(command, executed) is not executed:
        raise ValueError(
            f"layer {type(made).__name__} lets the critic judge an action that is not executed, which TorchRL's losses "
            "cannot; expected one that judges what it executes, such as 'ddsrad', 'interval_tanh' or 'boxpro'"
        )
    return made


class GuardCounts(NamedTuple):
    """The counts of a base environment since it was first guarded."""

    steps: int
    """The number of environment steps; a batch of N environments makes N at a time."""
    moved: int
    """The number of joint commands that were moved: outside F_t, NaN, or with more digits than float32 or the grid."""
    violations: int
    """The number of executed joint commands outside F_t, decided exactly."""


class _Edges:
    """The edges of F_t, in float32 and numpy."""

    def __init__(self, limits: RateLimits) -> None:
        self.working = tuple(_array(x) for x in limits.rounded(DTYPE, edges="tight").working)
        self.grid = None if limits.grid is None else limits.on_grid(DTYPE, "cpu")

    def __call__(self, history: ActionHistory) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """The lower and upper edge, (N, d) each, after a history."""
        if self.grid is None:
            return boxmath.tight_edges(history.previous, *self.working)
        return numpy_edges(history.previous, history.velocity, self.grid)

    def rounded(self, clipped: NDArray[Any]) -> NDArray[np.float32]:
        """Values between the edges in float32, and on the grid of commands, if there is one; they stay between them."""
        if self.grid is not None:
            unit = self.grid.unit.numpy()
            clipped = np.rint(clipped / unit) * unit
        return clipped.astype(np.float32)


@dataclass
class _GuardState:
    """The previous actions of one base environment, and the counts. In numpy, which is faster here than torch."""

    history: ActionHistory | None = None
    """The history of the environments of the batch, flattened; None before the first reset."""
    batch: tuple[int, ...] = ()
    """The shape of the batch."""
    sent: NDArray[np.float32] | None = None
    """The actions that the guard passed on and that are not executed yet, (*batch, d)."""
    moved: NDArray[np.bool_] | None = None
    """Where they differ from the actions that came in, (*batch, d)."""
    rows: NDArray[np.bool_] | None = None
    """The rows that step, (*batch, 1); None for all."""
    seen: NDArray[Any] | None = None
    """The history that the policy saw when it last acted, (*batch, m)."""
    counts: GuardCounts = GuardCounts(0, 0, 0)

    @property
    def prev(self) -> NDArray[np.float32] | None:
        """The actions last executed, (*batch, d)."""
        return None if self.history is None else self.history.previous.reshape(*self.batch, self.history.limits.dim)

    @property
    def appended(self) -> NDArray[np.float32] | None:
        """What the policy sees of the history, (*batch, m): a_prev, or (v_prev, a_prev) with an acceleration limit."""
        if self.history is None:
            return None
        return self.history.appended.reshape(*self.batch, self.history.limits.appended)

    def restart(self, start: NDArray[np.float32], rows: NDArray[np.bool_] | None, limits: RateLimits) -> None:
        """Begin episodes in ``rows`` (*batch, 1), or in all, with the actions ``start`` (*batch, d)."""
        first = start.reshape(-1, limits.dim)
        if self.history is None or self.batch != start.shape[:-1]:
            self.history, self.batch, rows = ActionHistory(limits, first, whole=False), start.shape[:-1], None
        self.history.restart(first, None if rows is None else rows.reshape(-1))
        self.sent = self.seen = None

    def check_seen(self, seen: NDArray[Any], limits: RateLimits, rows: NDArray[np.bool_] | None) -> None:
        """Refuse actions whose policy saw a history (*batch, m) that is not that of the applied ones.

        The same observation may come again: FrameSkipTransform repeats an action with it.
        """
        true = self.appended
        if true is None or seen.shape != true.shape:
            return
        wrong = (seen != true) & ~np.isnan(seen) & (True if rows is None else rows)
        if wrong.any() and not (self.seen is not None and np.array_equal(seen, self.seen, equal_nan=True)):
            where = tuple(np.argwhere(wrong)[0])
            what = "action" if where[-1] >= limits.appended - limits.dim else "velocity"
            raise RuntimeError(
                f"the policy sees {seen[where]} as the previous {what} of {limits.names[where[-1] % limits.dim]!r}, "
                f"but {true[where]} was applied: something around RateLimitTransform changes it, such as a transform "
                "that does not name it among its out_keys, or one of an environment around this one; give it a copy"
            )
        self.seen = seen.copy()

    def guard(self, wanted: NDArray[Any], edges: _Edges, rows: NDArray[np.bool_] | None) -> NDArray[np.float32]:
        """Move ``wanted`` (*batch, d) into F_t; a float32 inside it passes bit for bit, NaN holds."""
        prev = self.prev
        if self.history is None or prev is None or wanted.shape != prev.shape:
            known = "none" if prev is None else f"{prev.shape}"
            raise ValueError(
                f"actions of shape {wanted.shape} after previous actions of shape {known}: call env.reset() first, "
                "with the same batch"
            )
        low, high = (edge.reshape(prev.shape) for edge in edges(self.history))
        held = np.where(wanted == wanted, wanted, np.clip(prev, low, high))
        self.sent = edges.rounded(np.clip(held, low, high))
        self.moved, self.rows = self.sent != wanted, rows
        return self.sent

    def record(self, applied: NDArray[Any], limits: RateLimits) -> None:
        """Record the actions that the base environment got, (*batch, d); refuse a change after the guard."""
        prev = self.prev
        if self.history is None or prev is None or self.sent is None or self.moved is None:
            raise RuntimeError("a step without an action passing RateLimitTransform")
        before = self.history.before
        broken, changed = limits.outside(applied, prev, before.reshape(prev.shape)), applied != self.sent
        steps, moved, latest = broken.size // broken.shape[-1], self.moved, applied
        if self.rows is not None:
            steps, latest = np.count_nonzero(self.rows), np.where(self.rows, applied, prev)
            broken, changed, moved = (x & self.rows for x in (broken, changed, moved))
        new = (int(steps), int(moved.sum()), int(broken.sum()))
        self.counts = GuardCounts(*(a + b for a, b in zip(self.counts, new, strict=True)))
        self.history.append(latest.reshape(-1, limits.dim))
        if self.rows is not None:  # the others did not step, and keep their velocity
            self.history.before = np.where(self.rows.reshape(-1, 1), self.history.before, before)
        self.sent = None
        if changed.any():
            raise RuntimeError(
                "something changed the action between RateLimitTransform and the base environment, for example noise "
                "added by a transform before it in the list, or the environment itself, in place: remove that, or let "
                "it act on the policy's side"
            )


def _array(tensor: Tensor) -> NDArray[Any]:
    return (tensor.float() if tensor.dtype in HALF_TYPES else tensor).detach().cpu().numpy()


def _like(values: NDArray[np.float32], tensor: Tensor) -> Tensor:
    """Convert float32 values to the device and, if it is wider, the dtype of a tensor."""
    return torch.from_numpy(values).to(tensor.device, torch.promote_types(tensor.dtype, DTYPE))


def _rows(mask: Tensor | None, batch: Sequence[int]) -> NDArray[np.bool_] | None:
    """TorchRL's mask of rows as an array (*batch, 1); None for all."""
    return None if mask is None else _array(mask).reshape(*batch, 1)


class RateLimitTransform(Transform):  # type: ignore[misc]
    """Puts the previous applied action into the tensordict, and moves every action into F_t.

    An action already in F_t passes bit for bit; any other (``rand_step``, exploration noise) is moved to the nearest
    one in F_t, NaN to the previous action. Under an acceleration limit the last increment is in the tensordict, too,
    actions are on its grid, and NaN brakes. Collectors and rollouts then store the executed action under its key; after
    a bare ``env.step`` it is under ``("next", "previous_action")``, see ``executed``.

    Args:
        limits: the limits of d joints, in the base environment's action units.
        reset_action: the action assumed before the first step: numbers or "middle"; default ``limits.reset``, else 0
            where that is clearly meant. Otherwise it is required: the first step would not be limited.
        action_key: the key of the action.
        previous_key: the key of the previous action.
        velocity_key: the key of the last increment, with an acceleration limit.
    """

    def __init__(
        self,
        limits: RateLimits,
        reset_action: Values | None = None,
        action_key: str | tuple[str, ...] = "action",
        previous_key: str | tuple[str, ...] = PREVIOUS,
        velocity_key: str | tuple[str, ...] = VELOCITY,
    ) -> None:
        keys = [previous_key] if limits.grid is None else [velocity_key, previous_key]
        super().__init__(in_keys=[], out_keys=keys, in_keys_inv=[action_key], out_keys_inv=[action_key])
        self.limits, self.action_key = limits, action_key
        self.history_keys = tuple(keys)
        """The keys of what the policy sees of the history, in the order of augmented observations."""
        self.start: NDArray[np.float32] = fixed_start("RateLimitTransform", limits, reset_action, "refuse")
        self._edges = _Edges(limits)
        self._state = _GuardState()

    def __copy__(self) -> Self:
        twin = type(self).__new__(type(self))
        twin.__dict__.update(vars(self), _state=copy.deepcopy(self._state))
        return twin

    def clone(self) -> Self:
        """A copy for another environment, with a history of its own."""
        twin: Self = super().clone()
        twin._state = _GuardState()
        return twin

    @property
    def counts(self) -> GuardCounts:
        """The steps, moved commands and exact violations of the base environment so far."""
        return self._state.counts

    def set_container(self, container: Any) -> None:
        """Attach to an environment or a list of transforms; refuses actions that cannot be limited."""
        super().set_container(container)
        _, env = _top(self)
        if env is not None:
            _check_actions(env.base_env, self.action_key, self.limits)
            # The history belongs to the base environment: FrameSkipTransform and others step it through a rebuilt
            # copy of the transforms before them.
            self._state = vars(env.base_env).setdefault("_rate_limit_history", _GuardState())

    def transform_input_spec(self, input_spec: Any) -> Any:
        """Return the input spec unchanged, after checking that no other transform interferes."""
        _check_others(self)
        return super().transform_input_spec(input_spec)

    def transform_observation_spec(self, observation_spec: Any) -> Any:
        """Add the previous action, (*batch, d), to the spec, and the last increment, if it is needed."""
        grid = self.limits.grid is not None
        working = self.limits.on_grid(DTYPE, "cpu").working if grid else self.limits.rounded(DTYPE).working
        shape = (*observation_spec.shape, self.limits.dim)
        bounds = [(working.low, working.high), (-working.down, working.up)]
        for key, edges in zip(reversed(self.history_keys), bounds, strict=False):
            low, high = (bound.expand(shape) for bound in edges)
            observation_spec[key] = Bounded(low, high, shape, dtype=DTYPE, device=observation_spec.device)
        return observation_spec

    def _reset(self, tensordict: Any, tensordict_reset: Any) -> Any:
        _check_others(self)
        batch = tensordict_reset.batch_size
        start = np.tile(self.start, (*batch, 1))
        self._state.restart(start, _rows(tensordict.get("_reset", None), batch), self.limits)
        return self._with_previous(tensordict_reset)

    # Called for an environment that resets itself inside its step.
    _reset_on_native_autoreset = _reset

    def _inv_call(self, tensordict: Any) -> Any:
        wanted = tensordict.get(self.action_key)
        rows = _rows(tensordict.get("_step", None), tensordict.batch_size)
        seen = [tensordict.get(key, None) for key in self.history_keys]
        if all(part is not None for part in seen):
            self._state.check_seen(np.concatenate([_array(part) for part in seen], -1), self.limits, rows)
        sent = self._state.guard(_array(wanted), self._edges, rows)
        return tensordict.set(self.action_key, _like(sent.copy(), wanted))

    def _step(self, tensordict: Any, next_tensordict: Any) -> Any:
        self._state.record(_array(tensordict.get(self.action_key)), self.limits)
        return self._with_previous(next_tensordict)

    def _post_step_mdp_hooks(self, tensordict: Any, tensordict_: Any) -> tuple[Any, Any]:
        """Make the executed action what collectors and rollouts store."""
        wanted, prev = tensordict.get(self.action_key), self._state.prev
        if prev is not None and not np.array_equal(_array(wanted), prev):
            tensordict.set(self.action_key, _like(prev.copy(), wanted))
        return tensordict, tensordict_

    def _with_previous(self, tensordict: Any) -> Any:
        appended, d = np.asarray(self._state.appended), self.limits.dim
        for i, key in enumerate(self.history_keys):
            part = torch.from_numpy(appended[..., i * d : (i + 1) * d].copy())  # a copy, which others may change
            tensordict.set(key, part if tensordict.device is None else part.to(tensordict.device))
        return tensordict

    def _call(self, next_tensordict: Any) -> Any:
        return next_tensordict

    def forward(self, tensordict: Any) -> Any:
        """Refused: a replay buffer has no history of actions."""
        raise RuntimeError(
            "RateLimitTransform belongs to an environment; a replay buffer may have append_transform(executed)"
        )

    def _check_batched_worker_compat(self) -> None:
        raise ValueError(
            "RateLimitTransform inside the workers of a batched environment leaves un-executed actions in the data: "
            "put it outside, TransformedEnv(ParallelEnv(n, make), RateLimitTransform(limits))"
        )


def executed(data: Any) -> Any:
    """Replace the action of ``data`` by the executed one, in a loop of your own or by ``append_transform``.

    This is needed where data do not come from a collector or rollout on the environment's own device.
    """
    applied = data.get(("next", PREVIOUS))
    return data.set("action", torch.where(applied.isnan(), data.get("action"), applied))


def uniform_policy(limits: RateLimits) -> Any:
    """A warm-up policy that is uniform in F_t; ``rand_step`` mostly ends on its edges."""

    def draw(prev: Tensor, velocity: Tensor | None = None) -> Tensor:
        return limits.box(prev, check=False, velocity=velocity).sample()

    keys = [PREVIOUS] if limits.grid is None else [PREVIOUS, VELOCITY]
    return TensorDictModule(draw, in_keys=keys, out_keys=["action"])


def _top(transform: Any) -> tuple[Any, Any]:
    """The outermost transform around this one, and its environment or None."""
    reference = transform.__dict__.get("_container")
    owner = None if reference is None else reference()
    return _top(owner) if isinstance(owner, Transform) else (transform, owner)


def _flat(transform: Any) -> Iterator[Any]:
    """The transforms of a nest of Compose, in order."""
    parts = getattr(transform, "transforms", None)
    if parts is None:
        yield transform
    else:
        for part in parts:
            yield from _flat(part)


def _check_actions(env: Any, key: Any, limits: RateLimits) -> None:
    """Refuse an environment whose actions these limits do not fit."""
    spec = env.full_action_spec.get(key, None)
    if spec is None:
        known = list(env.full_action_spec.keys(True, True))
        raise ValueError(f"{env}: no action {key!r}; it has {known}: pass action_key=...")
    low, high = (getattr(spec.space, edge, None) for edge in ("low", "high"))
    if spec.domain != "continuous" or low is None or high is None:
        raise ValueError(
            f"{env}: actions are {type(spec).__name__}, expected bounded floats: choose a variant of the task with "
            "continuous actions"
        )
    if not max(-low.min(), high.max()) < torch.finfo(spec.dtype).max:  # TorchRL's infinity
        raise ValueError(
            f"{env}: actions are unbounded, expected finite bounds: gymnasium.wrappers.TransformAction(env, "
            "lambda a: a, Box(low, high)) gives them some"
        )
    shape = tuple(spec.shape[len(env.batch_size) :])
    if shape != (limits.dim,):
        raise ValueError(f"{env}: actions of shape {shape}, but limits for {limits.dim}: {limits.names}")
    lowest, highest = (bound.reshape(-1, limits.dim)[0].cpu().numpy() for bound in (low, high))
    check_range(f"{env}", lowest, highest, limits)
    if [*env.reset_keys] != ["_reset"]:
        raise ValueError(f"{env}: resets under {env.reset_keys}, expected '_reset' alone: one agent per environment")


def _check_others(guard: RateLimitTransform) -> None:
    """Refuse transforms that change the action, or the previous action where the policy reads it."""
    top, env = _top(guard)
    others = [*_flat(top)]
    base = getattr(env, "base_env", None)
    while isinstance(base, TransformedEnv):
        others += _flat(base.transform)
        base = base.base_env
    for other in others:
        if other is guard or isinstance(other, DTypeCastTransform):  # to float64 and back: changes no float32
            continue
        name = type(other).__name__
        if guard.action_key in (*other.in_keys_inv, *other.out_keys_inv):
            raise ValueError(
                f"{name} changes {guard.action_key!r}, too: behind RateLimitTransform that breaks the limit, before it "
                "the policy's units are not the limits'. Remove it: RateLimitedNormal acts in the environment's units, "
                "and noise belongs into the latent or an exploration module"
            )
        for key in guard.history_keys:
            if key in other.out_keys:
                leaf = key if isinstance(key, str) else key[-1]
                raise ValueError(
                    f"{name} changes {key!r}, by which the policy knows F_t. Give it a copy: "
                    f"{name}(in_keys=[{key!r}], out_keys=['{leaf}_normed'])"
                )
