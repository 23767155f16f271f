"""VecEnv made of single Gymnasium environments, stepped in turn."""

from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from slewrl.copying import Copied
from slewrl.envs.augment import Augment, known_books
from slewrl.envs.checked import checked_reset, checked_step
from slewrl.envs.state import get_state, set_state
from slewrl.envs.vec_env import Episode, Floats, Layout, StepResult
from slewrl.limits import RateLimits


class GymVecEnv(Copied):
    """See ``VecEnv``; ``make`` makes one of ``count`` environments, of which number k has the seed ``seed + k``.

    ``wrap`` gives an environment the history of its commands, and whatever else stands before it.
    """

    def __init__(
        self,
        make: Callable[[], gym.Env[Any, Any]],
        limits: RateLimits,
        count: int,
        wrap: Callable[[gym.Env[Any, Any], RateLimits], gym.Env[Any, Any]] = Augment,
    ) -> None:
        self.envs = [wrap(make(), limits) for _ in range(count)]
        self.books = [known_books(env) for env in self.envs]
        """What knows the history of each."""
        self.limits, self.count = limits, count
        self.dt: float | None = getattr(self.envs[0].unwrapped, "dt", None)
        self.layout = Layout(self.envs[0].observation_space.shape[0])  # type: ignore[index]
        self.observations = np.zeros((count, self.layout.size), np.float32)
        self.episodes: list[Episode] = []
        self.totals = [0.0] * count
        self.steps = 0
        """Steps of all environments together; for messages."""

    @property
    def reset_action(self) -> Floats:
        """See ``VecEnv``; that of the first environment."""
        return self.books[0].reset_action

    def reset(self, seed: int) -> None:
        """See ``VecEnv``."""
        self.observations = np.stack([self._begin(k, seed + k) for k in range(self.count)])

    def step(self, executed: Floats) -> StepResult:
        """See ``VecEnv``."""
        next_obs, rewards = np.empty_like(self.observations), np.empty(self.count, np.float32)
        terminated, ended = np.zeros(self.count, bool), np.zeros(self.count, bool)
        self.episodes = []
        for k, env in enumerate(self.envs):
            seen, reward, terminated[k], truncated, _ = checked_step(env, executed[k], self._where(k, self.steps + 1))
            next_obs[k], rewards[k], ended[k] = seen, reward, terminated[k] or truncated
            self.steps += 1
            self.totals[k] += reward
        self.observations = next_obs
        if ended.any():
            self.observations = next_obs.copy()
            for k in np.flatnonzero(ended).tolist():
                self.episodes.append(Episode(self.totals[k], self.books[k].actions))
                self.observations[k] = self._begin(k)
        return StepResult(next_obs, rewards, terminated, ended)

    def _begin(self, k: int, seed: int | None = None) -> Floats:
        self.totals[k] = 0.0
        return checked_reset(self.envs[k], self._where(k, self.steps), seed)

    def _where(self, k: int, step: int) -> str:
        return f"{self.books[k].name}, environment {k}, step {step}"

    def violations(self) -> int:
        """See ``VecEnv``."""
        return sum(books.rate_use().violations for books in self.books)

    def episode_actions(self) -> list[NDArray[Any]]:
        """See ``VecEnv``."""
        return [books.actions for books in self.books]

    def get_state(self) -> dict[str, Any] | None:
        """See ``VecEnv``."""
        states = [get_state(env) for env in self.envs]
        if None in states:
            return None
        now = {"observations": self.observations.copy(), "totals": list(self.totals), "steps": self.steps}
        return {"states": states, "chains": self.episode_actions(), **now}

    def set_state(self, state: dict[str, Any]) -> None:
        """See ``VecEnv``."""
        for env, books, saved, actions in zip(self.envs, self.books, state["states"], state["chains"], strict=True):
            set_state(env, saved)
            books.history.load([actions])
        self.observations = np.array(state["observations"])
        self.totals, self.steps = list(state["totals"]), state["steps"]
