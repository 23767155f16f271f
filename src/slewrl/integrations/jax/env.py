"""RateLimitWrapper: the rate limit around an environment of Brax or MuJoCo Playground, under jit, vmap and scan.

    env = RateLimitWrapper(envs.get_environment("inverted_pendulum"), 0.1)     # inside what the trainer wraps around it

Trainers reset an episode from outside, by putting back the first observation, and leave ``info`` as it is. So a new
episode is seen by its observation: it ends in the reset action, at rest, instead of the action last applied.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import jax
import jax.numpy as jnp
from jax import Array, lax

from slewrl.envs.reset import known_start
from slewrl.integrations.gymnasium import UNSAID, Mode
from slewrl.integrations.jax.box import Box, box, clamp, units, working_limits
from slewrl.integrations.jax.layers import clip, make_layer
from slewrl.limits import RateLimits
from slewrl.limits.parse import Values
from slewrl.limits.resolve import resolve_limits

PREVIOUS, VELOCITY, START = "previous_action", "previous_velocity", "reset_action"
"""The keys in ``state.info``."""


class RateLimitWrapper:
    """Maps every action into F_t, and adds the previous action to observations, as ``slewrl.RateLimit``.

    It is the last d entries of an observation (of each one in a dict), after the last increment with an acceleration
    limit; ``state.info["previous_action"]`` is what the environment got. Nothing between this wrapper and the trainer
    may change those entries.

    Args:
        env: an environment with ``reset(rng)``, ``step(state, action)`` and ``action_size``.
        limits: RateLimits in the environment's action units; a limits.yaml; or the largest change per step: a number,
            one per action, or ``{joint: number}``, with actions in [-1, 1].
        layer: the name of the layer, in mode "latent".
        mode: "latent": the action is a latent for the layer. "absolute": it is a command, which is clipped to F_t.
        bound: None: in mode "latent" the action is w in [-1, 1]^d, as policies with a tanh give it, which stands for
            the latent u = w / sqrt(1 - w^2); a number B: it is the latent itself, clipped to [-B, B]; inf: not clipped.
        reset_action: the action assumed before the first step: numbers as for ``slewrl.RateLimit``, or a function of
            the state that the environment's reset returns, such as ``lambda state: state.pipeline_state.q[7:]``.
    """

    def __init__(
        self,
        env: Any,
        limits: RateLimits | str | Path | Values,
        layer: str = "ddsrad",
        mode: Mode = "latent",
        bound: float | None = None,
        reset_action: Values | Callable[[Any], Array] | None = None,
    ) -> None:
        if mode not in get_args(Mode):
            raise ValueError(f"mode is {mode!r}, expected one of {', '.join(get_args(Mode))}")
        if bound is not None and not bound > 0:
            raise ValueError(f"bound is {bound}, expected a positive number (inf for none), or None for w in [-1, 1]")
        self.env, self.mode, self.bound, self.layer = env, mode, bound, make_layer(layer)
        name, joints = type(env).__name__, int(env.action_size)
        self.limits: RateLimits = resolve_limits(limits, _no_preset, lambda given: _in_range(given, joints))
        if self.limits.dim != joints:
            raise ValueError(f"{name} has {joints} actions, but limits for {self.limits.dim}")
        self._pose = reset_action if callable(reset_action) else None
        self._start = None if callable(reset_action) else known_start(name, self.limits, reset_action, UNSAID[mode])
        self._working = working_limits(self.limits, jnp.zeros(0).dtype.name)

    def __getattr__(self, name: str) -> Any:
        """Everything else is the environment's own."""
        if name.startswith("__") or name == "env":
            raise AttributeError(name)
        return getattr(self.env, name)

    @property
    def observation_size(self) -> Any:
        """The length of observations; of a dict of them, their shapes."""
        seen = jax.eval_shape(self.reset, jax.random.PRNGKey(0)).obs
        return seen.shape[-1] if hasattr(seen, "shape") else jax.tree.map(lambda x: x.shape, seen)

    def reset(self, rng: Array) -> Any:
        """Begin an episode, at rest at the reset action."""
        state = self.env.reset(rng)
        shape = jax.tree.leaves(state.obs)[0].shape[:-1]
        start = jnp.broadcast_to(self._start_of(state), (*shape, self.limits.dim))
        return self._augmented(state, start, jnp.zeros_like(start), start)

    def step(self, state: Any, action: Array) -> Any:
        """Step the environment with the limited action."""
        prev, velocity = self._history(state)
        executed = self._applied(action, prev, velocity)
        bare = jax.tree.map(lambda seen: seen[..., : -self.limits.appended], state.obs)
        state = self.env.step(state.replace(obs=bare, info=dict(state.info)), executed)
        return self._augmented(state, executed, executed - prev, state.info[START])

    def _applied(self, action: Array, prev: Array, velocity: Array) -> Array:
        last = None if self.limits.grid is None else velocity
        allowed: Box = box(self.limits, prev, velocity=last, check=False)
        if self.mode == "absolute":
            return clip(action, allowed)
        return self.layer(self._latent(action), allowed).executed

    def _latent(self, action: Array) -> Array:
        if self.bound is not None:
            return clamp(action, -self.bound, self.bound)
        share = clamp(jnp.asarray(action, self._working.low.dtype), -1, 1)
        return share * lax.rsqrt(jnp.maximum(1 - share * share, 2.0**-100))

    def _history(self, state: Any) -> tuple[Array, Array]:
        """The previous action and increment, (..., d); those of a reset where the observation is an episode's first."""
        prev, velocity, start = (state.info[key] for key in (PREVIOUS, VELOCITY, START))
        seen = jax.tree.leaves(state.obs)[0][..., -self.limits.appended :]
        begun, last = (self._shown(*x) for x in ((start, jnp.zeros_like(velocity)), (prev, velocity)))
        first, same = ((seen == x.astype(seen.dtype)).all(-1, keepdims=True) for x in (begun, last))
        fresh = first & ~same
        return jnp.where(fresh, start, prev), jnp.where(fresh, 0, velocity)

    def _augmented(self, state: Any, prev: Array, velocity: Array, start: Array) -> Any:
        shown = self._shown(prev, velocity)
        obs = jax.tree.map(lambda seen: jnp.concatenate([seen, shown.astype(seen.dtype)], -1), state.obs)
        return state.replace(obs=obs, info={**state.info, PREVIOUS: prev, VELOCITY: velocity, START: start})

    def _shown(self, prev: Array, velocity: Array) -> Array:
        """What is appended to observations."""
        return prev if self.limits.grid is None else jnp.concatenate([velocity, prev], -1)

    def _start_of(self, state: Any) -> Array:
        """The reset action, in the range."""
        low, high = self._working.low, self._working.high
        if self._pose is None:
            return jnp.asarray(self._start, low.dtype)
        pose = jnp.asarray(self._pose(state), low.dtype)
        if pose.shape[-1:] != (self.limits.dim,):
            raise ValueError(f"reset_action of the state has shape {pose.shape}, expected (..., {self.limits.dim})")
        if self.limits.grid is not None:
            pose = (units(pose, self.limits) * self.limits.grid.unit).astype(pose.dtype)
            low, high = ((self.limits.grid.unit * x).astype(pose.dtype) for x in self.limits.grid[-2:])
        return clamp(pose, low, high)


def _in_range(given: Values, joints: int) -> RateLimits:
    return RateLimits(given, [-1.0] * joints, [1.0] * joints)


def _no_preset(name: str) -> RateLimits:
    raise ValueError(f"limits is {name!r}, expected a limits.yaml, RateLimits or numbers: these tasks have no presets")
