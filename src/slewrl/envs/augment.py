"""The augmented state s~ = (s, a_prev): a rate-limited problem is Markov only with the last executed action in it.

With acceleration limits it is (s, v_prev, a_prev), where v_prev is the last increment.
"""

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Box, Dict
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from slewrl.envs.checked import returned
from slewrl.envs.history import ActionHistory
from slewrl.envs.reset import Given, ResetAction, Unsaid, without_ours
from slewrl.envs.state import CopiedEpisode
from slewrl.limits import RateLimits
from slewrl.limits.augmented import previous_action, previous_velocity
from slewrl.metrics import RateUse

PREVIOUS = "previous_action"
"""The key of the previous action in a Dict observation."""
VELOCITY = "previous_velocity"
"""The key of the last increment in a Dict observation, with an acceleration limit."""


class Augment(CopiedEpisode, gym.Wrapper[Any, Any, Any, Any], gym.utils.RecordConstructorArgs):
    """Appends the previous executed action to the observation and keeps the history of actions.

    The last d entries of the observation are the very array last handed to ``env.step`` (after a reset: the reset
    action), unnormalised. The wrapper never changes an action. When an episode ends, ``info["rate_use"]`` holds its
    utilisation and its exact number of violations.

    Args:
        env: an environment with a flat observation and a bounded Box action of d entries.
        limits: rate limits of d joints, in the environment's action units.
        reset_action: what counts as executed before the first step, unless ``reset`` is given another: numbers,
            "middle", or a function of the environment (``reset.py``); default: the limits' own, else 0.
        unsaid: "warn" or "refuse", where no reset action is known and 0 is not clearly meant.
    """

    dicts = False
    """Whether Dict observations are accepted, too."""
    narrow = True
    """Whether reset actions are float32, as the actions of our own policies are."""

    def __init__(
        self, env: gym.Env[Any, Any], limits: RateLimits, reset_action: Given = None, unsaid: Unsaid = "warn"
    ) -> None:
        gym.utils.RecordConstructorArgs.__init__(self, limits=limits, reset_action=reset_action, unsaid=unsaid)
        gym.Wrapper.__init__(self, env)
        self.limits, self.name = limits, _name(env)
        self.observation_space = augmented_space(self.name, env.observation_space, env.action_space, limits, self.dicts)
        self.dtype: Any = env.action_space.dtype
        dtype = np.float32 if self.narrow else self.dtype
        self.first = ResetAction(self.name, limits, reset_action, dtype, unsaid, means_zero(env))
        self.history = ActionHistory(limits, self.first.usual[None].astype(self.dtype))

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start an episode, with ``options["reset_action"]`` or the usual reset action as the previous one."""
        observation, info = returned(self.env, self.name, "reset", seed=seed, options=without_ours(options))
        self.history.restart(self.first.find(self.env, options, info))
        return augmented(observation, self.history.appended[0], self.limits), info

    @property
    def reset_action(self) -> NDArray[Any]:
        """What counts as executed before the first step of the current episode, (d,)."""
        return self.history.first[0]

    @property
    def previous(self) -> NDArray[Any]:
        """The action executed last, (d,)."""
        if not self.history.begun:
            raise reset_needed(self.name)
        return self.history.previous[0]

    @property
    def previous_velocity(self) -> NDArray[Any] | None:
        """The last increment, (d,), where an acceleration limit makes it matter; else None."""
        return None if self.limits.grid is None else self.history.velocity[0]

    @property
    def actions(self) -> NDArray[Any]:
        """(T + 1, d): the reset action, and the actions executed since."""
        return self.history.actions()

    def step(self, action: NDArray[Any]) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Pass the action on unchanged, and remember it."""
        return self._execute(np.array(action, dtype=self.dtype))  # a copy: the caller may reuse its buffer

    def _execute(self, executed: NDArray[Any]) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        if not self.history.begun:
            raise reset_needed(self.name)
        self.history.append(executed[None])  # before the step: an environment may scale what it is handed in place
        observation, reward, terminated, truncated, info = returned(self.env, self.name, "step", executed)
        if terminated or truncated:
            info = {**info, "rate_use": self.rate_use()}
        return augmented(observation, self.history.appended[0], self.limits), reward, terminated, truncated, info

    def rate_use(self) -> RateUse:
        """Utilisation and violations of the episode so far."""
        return self.history.rate_use()


class AugmentVector(CopiedEpisode, gym.vector.VectorWrapper):
    """``Augment`` for vector environments, in every ``AutoresetMode``; its arguments are the same.

    An action that an environment does not execute (the one passed with the reset of NEXT_STEP) is no part of any
    episode, and the first observation after a reset has the reset action. In SAME_STEP ``info["final_obs"]`` has the
    last action of its own episode. Where an episode ends, ``info["rate_use"]`` holds its RateUse. A function as
    ``reset_action`` may return one row for each environment, (N, d).
    """

    dicts = False
    narrow = True

    def __init__(
        self,
        env: gym.vector.VectorEnv[Any, Any, Any],
        limits: RateLimits,
        reset_action: Given = None,
        unsaid: Unsaid = "warn",
    ) -> None:
        super().__init__(env)
        self.limits, self.name = limits, _name(env)
        single = augmented_space(self.name, env.single_observation_space, env.single_action_space, limits, self.dicts)
        self.single_observation_space = single
        self.observation_space = batch_space(single, env.num_envs)
        self.dtype: Any = env.single_action_space.dtype
        dtype = np.float32 if self.narrow else self.dtype
        envs = getattr(env.unwrapped, "envs", ())
        zero = means_zero(env) or (len(envs) > 0 and all(map(means_zero, envs)))
        self.first = ResetAction(self.name, limits, reset_action, dtype, unsaid, zero)
        self.history = ActionHistory(limits, np.tile(self.first.usual, (env.num_envs, 1)).astype(self.dtype))
        self.mode = AutoresetMode(env.metadata.get("autoreset_mode", AutoresetMode.NEXT_STEP))
        self._over = np.zeros(env.num_envs, dtype=bool)

    @property
    def reset_actions(self) -> NDArray[Any]:
        """(N, d): what counts as executed before the first step of each current episode."""
        return self.history.first

    @property
    def previous(self) -> NDArray[Any]:
        """(N, d): the action that each environment executed last."""
        return self.history.previous

    @property
    def previous_velocity(self) -> NDArray[Any] | None:
        """(N, d): the last increment of each environment, where an acceleration limit makes it matter; else None."""
        return None if self.limits.grid is None else self.history.velocity

    def reset(
        self, *, seed: int | list[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Start an episode in every environment, or in those of ``options["reset_mask"]``.

        ``options["reset_action"]`` is their reset action, (d,) or (N, d).
        """
        mask = (options or {}).get("reset_mask", np.ones(self.num_envs, dtype=bool))  # the environment removes it
        observations, info = returned(self.env, self.name, "reset", seed=seed, options=without_ours(options))
        self._restart(mask, info, options)
        self._over[mask] = False
        return augmented(observations, self.history.appended, self.limits), info

    def step(self, actions: NDArray[Any]) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Pass the actions on unchanged, and remember those that were executed."""
        if not self.history.begun:
            raise reset_needed(self.name)
        executed = np.array(actions, dtype=self.dtype)
        observations, rewards, terminated, truncated, info = returned(self.env, self.name, "step", executed.copy())
        ended = terminated | truncated
        self.history.append(executed)
        if self.mode == AutoresetMode.NEXT_STEP:
            self._restart(self._over, info)  # their episodes ended a step ago; this step was their reset
            self._over = ended.copy()
        if ended.any():
            info = {**info, **self._ended(ended, info)}
        if self.mode == AutoresetMode.SAME_STEP:
            self._restart(ended, info)
        return augmented(observations, self.history.appended, self.limits), rewards, terminated, truncated, info

    def _ended(self, ended: NDArray[np.bool_], info: dict[str, Any]) -> dict[str, Any]:
        """Entries of info for the environments whose episode ended, as Gymnasium has them: an array and its mask."""
        uses, finals = (np.full(self.num_envs, None, dtype=object) for _ in range(2))
        for k in np.flatnonzero(ended).tolist():
            uses[k] = self.history.rate_use(k)
            if "final_obs" in info:
                finals[k] = augmented(info["final_obs"][k], self.history.appended[k], self.limits)
        extra = {"rate_use": uses, "_rate_use": ended}
        return {**extra, "final_obs": finals} if "final_obs" in info else extra

    def _restart(self, mask: NDArray[np.bool_], info: dict[str, Any], options: dict[str, Any] | None = None) -> None:
        if not mask.any():
            return
        starts = self.reset_actions.copy()
        for k, start in self.first.find_each(self.env, mask, options, info):
            starts[k] = start
        self.history.restart(starts, mask)


def books_of(env: gym.Env[Any, Any]) -> Augment | None:
    """The ``Augment`` or ``RateLimit`` that an environment is, or has inside; None if there is none."""
    while isinstance(env, gym.Wrapper):
        if isinstance(env, Augment):
            return env
        env = env.env
    return None


def known_books(env: gym.Env[Any, Any]) -> Augment:
    """As ``books_of``; refuses an environment without them."""
    if (books := books_of(env)) is None:
        raise TypeError(f"{env} keeps no history of its commands: wrap it in Augment or RateLimit")
    return books


def means_zero(env: Any) -> bool:
    """Whether an environment is one of Gymnasium's own, whose actions are torques and forces, so that 0 is at rest."""
    return str(getattr(env.spec, "entry_point", "")).startswith("gymnasium.envs.")


def augmented(observation: Any, appended: NDArray[Any], limits: RateLimits) -> Any:
    """(s, a_prev), or (s, v_prev, a_prev) with an acceleration limit; what is appended is unchanged to the bit."""
    if isinstance(observation, dict):
        history = {PREVIOUS: previous_action(appended, limits.dim).copy()}
        if limits.grid is not None:
            history[VELOCITY] = previous_velocity(appended, limits.dim).copy()
        return {**observation, **history}
    return np.concatenate([observation, appended], axis=-1, dtype=appended.dtype, casting="same_kind")


def augmented_space(name: str, observation: Any, action: Any, limits: RateLimits, dicts: bool = False) -> Any:
    """The space of (s, a_prev); refuses spaces that the limits do not fit, saying why."""
    check_action_space(name, action)
    if action.shape[0] != limits.dim:
        raise ValueError(
            f"{name}: {action.shape[0]} actions, but limits for {limits.dim}: {limits.names}; give one per action, in "
            "their order"
        )
    check_range(name, action.low, action.high, limits)
    if dicts and isinstance(observation, Dict):
        if PREVIOUS in observation.spaces:
            raise ValueError(f"{name}: observations have a {PREVIOUS!r} already: is it wrapped twice?")
        history = {PREVIOUS: Box(action.low, action.high, dtype=action.dtype)}
        if limits.grid is not None:
            history[VELOCITY] = _velocity_space(action, limits)
        return Dict({**observation.spaces, **history})
    if not isinstance(observation, Box) or len(observation.shape) != 1:
        raise ValueError(f"{name}: observation space is {observation}, expected a flat Box (wrap it first)")
    parts = (observation, action) if limits.grid is None else (observation, _velocity_space(action, limits), action)
    low, high = (np.concatenate([getattr(part, k) for part in parts]) for k in ("low", "high"))
    return Box(low.astype(action.dtype), high.astype(action.dtype), dtype=action.dtype)


def _velocity_space(action: Any, limits: RateLimits) -> Any:
    """The space of the last increment."""
    return Box((-limits.down).astype(action.dtype), limits.up.astype(action.dtype), dtype=action.dtype)


def check_action_space(name: str, action: Any) -> None:
    """Refuse actions that cannot have rate limits."""
    if not isinstance(action, Box) or len(action.shape) != 1:
        raise ValueError(
            f"{name}: action space is {action}, expected a flat Box (rate limits need numbers): choose a variant of "
            "the task with continuous actions, as MountainCarContinuous-v0 is of MountainCar-v0"
        )
    if not np.issubdtype(action.dtype, np.floating):
        raise ValueError(f"{name}: actions are of type {action.dtype}, expected floats")
    if not (np.isfinite(action.low).all() and np.isfinite(action.high).all()):
        raise ValueError(
            f"{name}: action space {action} is unbounded, expected finite bounds: gymnasium.wrappers.TransformAction("
            "env, lambda a: a, Box(low, high)) gives it some"
        )


def check_range(name: str, low: NDArray[Any], high: NDArray[Any], limits: RateLimits) -> None:
    """Refuse limits that let a joint leave the bounds (d,) of the action."""
    # The bounds are rounded to float32; an ulp beyond the limits' range is no mismatch.
    slack = 1e-6 * (limits.high - limits.low)
    for i, joint in enumerate(limits.names):
        if limits.low[i] < low[i] - slack[i] or limits.high[i] > high[i] + slack[i]:
            raise ValueError(
                f"{name}: limits let {joint!r} range over [{limits.low[i]}, {limits.high[i]}], beyond the action "
                f"space's [{low[i]}, {high[i]}]: give limits in the environment's own units"
            )


def reset_needed(name: str) -> gym.error.ResetNeeded:
    """The error of a step before the first reset."""
    return gym.error.ResetNeeded(f"{name}: step() came before reset(): the limit is on the change from somewhere")


def _name(env: Any) -> str:
    return env.spec.id if env.spec is not None else type(env.unwrapped).__name__
