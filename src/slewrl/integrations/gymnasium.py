"""RateLimit: the rate limit as a Gymnasium wrapper, for any code that trains on Gymnasium environments.

    env = slewrl.RateLimit(gym.make("HalfCheetah-v5"), "tight")                     # the policy acts in latents
    env = slewrl.RateLimit(gym.make("HalfCheetah-v5"), 0.1, mode="absolute")        # the clip, done exactly

The action passed to the inner ``env.step`` lies exactly in F_t, from the first step of each episode. In mode ``latent``
the layer is part of the environment, so an algorithm's log-probabilities are right as they are. In mode ``absolute``
commands are clipped: an algorithm that stores its own action learns from one that was not executed.
"""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Literal, get_args

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from slewrl.envs.augment import Augment, AugmentVector, check_action_space
from slewrl.envs.reset import Given, Unsaid
from slewrl.envs.smoothing import FilterCommands
from slewrl.layers import hard_layer
from slewrl.layers.arrays import ArrayLayer
from slewrl.layers.base import ActionLayer
from slewrl.limits import RateLimits
from slewrl.limits.parse import Values
from slewrl.limits.resolve import resolve_limits

Mode = Literal["latent", "absolute"]
UNSAID: dict[str, Unsaid] = {"latent": "warn", "absolute": "refuse"}
"""What each mode does if the pose at a reset is not known."""


class RateLimit(Augment):
    """Maps every action into F_t, and adds the previous action to observations.

    The previous applied action is the last d entries of a flat observation, or ``previous_action`` in a Dict. With an
    acceleration limit the last increment is in the d entries before it, or ``previous_velocity``.
    ``info["applied_action"]`` is the action that the environment got; ``info["rate_use"]``, at the end of an episode,
    has the utilisation of the limits and the exact number of violations.

    Args:
        env: an environment with a bounded Box action of d entries.
        limits: RateLimits in the environment's action units; the name of one of its presets ("tight"); a limits.yaml;
            or the largest change per step: a number, one per joint, or ``{joint: number}``, with the range of the
            action space.
        layer: the layer, or its name. In mode "absolute" only ``budget`` makes a difference.
        mode: "latent": the action is a latent for the layer. "absolute": it is a command, which is clipped to F_t and,
            with the layer ``budget``, moved towards the previous action until it is within the budget. With an
            acceleration limit a joint brakes for its command, so that it does not swing past it.
        bound: the bound on actions in mode "latent". None: the action is w in [-1, 1]^d, which stands for the latent
            u = w / sqrt(1 - w^2) (in DD-SRad, the share of the limit to use); a number B: the action is u itself, in
            [-B, B]^d, for Gaussian policies (PPO); inf: u without bounds, if the framework accepts that.
        reset_action: the action assumed before the first step: a number, one per joint, ``{joint: number}``, "middle",
            or a function such as ``lambda env: env.unwrapped.data.qpos[:7]``; default: ``limits.reset``, else 0.
            ``reset(options={"reset_action": ...})`` and ``info["reset_action"]`` of the environment's reset take
            precedence. If none is given and 0 is not clearly meant, mode "absolute" refuses and mode "latent" warns.
    """

    dicts = True
    narrow = False
    follows = False
    """Whether commands in F_t pass unchanged under an acceleration limit; otherwise mode "absolute" brakes for them."""

    def __init__(
        self,
        env: gym.Env[Any, Any],
        limits: RateLimits | str | Path | Values,
        layer: str | ActionLayer = "ddsrad",
        mode: Mode = "latent",
        bound: float | None = None,
        reset_action: Given = None,
    ) -> None:
        given: Any = env
        if isinstance(given, gym.vector.VectorEnv):
            raise TypeError(f"{env} is a vector environment: wrap it in slewrl.RateLimitVector, or each of its parts")
        _refuse_braking(env)
        read = limits_of(env.spec.id if env.spec else "", limits, env.action_space)
        super().__init__(env, read, reset_action, UNSAID.get(mode, "warn"))
        # The arguments as the user wrote them, for copies (gym.make of a spec, Ray, ...).
        self._saved_kwargs = dict(limits=limits, layer=layer, mode=mode, bound=bound, reset_action=reset_action)
        self.mode = mode
        self.map = ActionMap(read, layer, mode, bound, env.action_space, self.follows)
        self.action_space = self.map.space

    def step(self, action: NDArray[Any]) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Step the environment with the limited action."""
        applied = self.map(action, self.previous, self.previous_velocity)
        observation, reward, terminated, truncated, info = self._execute(applied)
        return observation, reward, terminated, truncated, {**info, "applied_action": self.previous.copy()}


class RateLimitVector(AugmentVector):
    """``RateLimit`` for vector environments, in every ``AutoresetMode``; it has the same arguments."""

    dicts = True
    narrow = False

    def __init__(
        self,
        env: gym.vector.VectorEnv[Any, Any, Any],
        limits: RateLimits | str | Path | Values,
        layer: str | ActionLayer = "ddsrad",
        mode: Mode = "latent",
        bound: float | None = None,
        reset_action: Given = None,
    ) -> None:
        read = limits_of(env.spec.id if env.spec else "", limits, env.single_action_space)
        super().__init__(env, read, reset_action, UNSAID.get(mode, "warn"))
        self.map = ActionMap(read, layer, mode, bound, env.single_action_space)
        self.single_action_space = self.map.space
        self.action_space = batch_space(self.map.space, env.num_envs)

    def step(self, actions: NDArray[Any]) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Step the environments with the limited actions; those that accompany a reset of NEXT_STEP have no effect."""
        applied = self.map(actions, self.previous, self.previous_velocity)
        observations, rewards, terminated, truncated, info = super().step(applied)
        return observations, rewards, terminated, truncated, {**info, "applied_action": applied}


class ActionMap:
    """The map from a policy's action to the applied one; ``space`` is the policy's action space."""

    def __init__(
        self,
        limits: RateLimits,
        layer: str | ActionLayer,
        mode: Mode,
        bound: float | None,
        space: Any,
        follows: bool = False,
    ) -> None:
        if mode not in get_args(Mode):
            raise ValueError(f"mode is {mode!r}, expected one of {', '.join(get_args(Mode))}")
        if bound is not None and not bound > 0:
            raise ValueError(f"bound is {bound}, expected a positive number (inf for none), or None for w in [-1, 1]")
        self.arrays = ArrayLayer(hard_layer(layer, limits), limits, space.dtype)
        self.dtype: Any = space.dtype
        self.space = space
        self._apply: Callable[..., NDArray[Any]] = self.arrays.nearest if follows else self.arrays.clip
        if mode == "latent":
            self._apply = self.arrays.execute_bounded if bound is None else self.arrays.execute
            reach = self.dtype.type(1.0 if bound is None else bound)
            self.space = spaces.Box(-reach, reach, (limits.dim,), self.dtype)

    def __call__(self, action: NDArray[Any], prev: NDArray[Any], velocity: NDArray[Any] | None = None) -> NDArray[Any]:
        """The applied actions (..., d), in F_t; the last increment ``velocity`` matters with an acceleration limit."""
        given = np.asarray(action, self.dtype)
        if given.shape != prev.shape:
            raise ValueError(f"action has shape {given.shape}, expected {prev.shape}")
        return self._apply(given, prev, velocity)


def _refuse_braking(env: gym.Env[Any, Any]) -> None:
    """Refuse an environment that changes commands which are allowed already: the outer limit would not see it."""
    while isinstance(env, gym.Wrapper):
        if isinstance(env, FilterCommands):
            raise ValueError(
                "a FilterCommands is inside, which changes the commands that this RateLimit allows: put the filter "
                "around the RateLimit, as FilterCommands(RateLimit(env, ...), ...)"
            )
        if isinstance(env, RateLimit) and env.mode == "absolute" and env.limits.grid is not None and not env.follows:
            raise ValueError(
                f"{env.name}: a RateLimit in mode 'absolute' with an acceleration is inside, which brakes for each "
                "command and so changes what this one allows: use one RateLimit, or mode 'latent' inside"
            )
        env = env.env


def limits_of(task: str, given: RateLimits | str | Path | Values, space: Any) -> RateLimits:
    """Resolve limits as a user may write them; see ``RateLimit``."""
    return resolve_limits(given, partial(RateLimits.preset, task), partial(_in_space, task, space))


def _in_space(task: str, space: Any, given: Values) -> RateLimits:
    """Make limits of the largest changes per step, with the range of the action space."""
    check_action_space(task or "the environment", space)
    count = len(given) if isinstance(given, Mapping) else np.asarray(given, object).size
    if count not in (1, space.shape[0]) or (isinstance(given, Mapping) and count != space.shape[0]):
        raise ValueError(
            f"{task or 'the environment'}: {space.shape[0]} actions, but limits for {count}; give one per action, in "
            "their order, or one number for all"
        )
    return RateLimits(given, space.low, space.high)
