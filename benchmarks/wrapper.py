"""What `slewrl.RateLimit` adds to a step, beside the environment's own step and the clip people write by hand.

    python benchmarks/wrapper.py

CPU time, the least of many turns taken in rotation, so that a busy machine's mood falls on all alike. The overhead is
that of the wrapper's own code, measured on an environment that does nothing; the share is of HalfCheetah-v5's step.
"""

import os

os.environ["OMP_NUM_THREADS"] = "1"

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
import tyro
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from rich.console import Console
from rich.table import Table

from slewrl import RateLimit, RateLimits, RateLimitVector

TASK = "HalfCheetah-v5"
LIMITS = RateLimits.preset(TASK, "tight")
REAL = gym.make(TASK)
CASES: dict[str, dict[str, Any]] = {
    "latent, ddsrad": {},
    "latent, ddsrad, bound 4": {"bound": 4.0},
    "latent, interval_srad": {"layer": "interval_srad"},
    "latent, boxpro": {"layer": "boxpro"},
    "latent, srad_gauge": {"layer": "srad_gauge"},
    "latent, ddsrad_smooth": {"layer": "ddsrad_smooth"},
    "absolute": {"mode": "absolute"},
}


@dataclass(frozen=True)
class Bench:
    """What to run."""

    turns: int = 30
    """Of each case, in rotation."""
    steps: int = 300
    """Of a turn; a tenth as many of 64 environments."""
    environments: int = 64
    """Of the vector."""


class Idle(gym.Env):
    """HalfCheetah's spaces, and nothing else."""

    observation_space, action_space = REAL.observation_space, REAL.action_space
    seen = np.zeros(17)

    def reset(self, *, seed=None, options=None):
        return self.seen, {}

    def step(self, action):
        return self.seen, 0.0, False, False, {}


class IdleVector(VectorEnv):
    """The same, N times."""

    metadata = {"autoreset_mode": AutoresetMode.NEXT_STEP}  # noqa: RUF012

    def __init__(self, count: int) -> None:
        self.num_envs = count
        self.single_observation_space, self.single_action_space = REAL.observation_space, REAL.action_space
        self.observation_space, self.action_space = (
            batch_space(space, count) for space in (REAL.observation_space, REAL.action_space)
        )
        self.seen, self.no, self.zero = np.zeros((count, 17)), np.zeros(count, bool), np.zeros(count)

    def reset(self, *, seed=None, options=None):
        return self.seen, {}

    def step(self, actions):
        return self.seen, self.zero, self.no, self.no, {}


class ByHand(gym.Wrapper):
    """The clip people write: prev +- delta, and the previous action in the observation."""

    def reset(self, **options):
        self.prev, self.delta = np.zeros(6, np.float32), LIMITS.delta.astype(np.float32)
        observation, info = self.env.reset(**options)
        return np.concatenate([observation, self.prev]), info

    def step(self, action):
        self.prev = np.clip(action, self.prev - self.delta, self.prev + self.delta)
        observation, *rest = self.env.step(self.prev)
        return np.concatenate([observation, self.prev]), *rest


def best(cases: dict[str, Callable[[], Any]], actions: np.ndarray, turns: int, steps: int) -> dict[str, float]:
    """Microseconds of a step of each case."""
    made = {name: make() for name, make in cases.items()}
    least = dict.fromkeys(made, np.inf)
    for _ in range(turns):
        for name, env in made.items():
            env.reset(seed=0)
            begun = time.process_time()
            for k in range(steps):
                env.step(actions[k % len(actions)])
            least[name] = min(least[name], (time.process_time() - begun) / steps * 1e6)
    return least


def main(bench: Bench) -> None:
    rng, n = np.random.default_rng(0), bench.environments
    single, many = (rng.uniform(-1, 1, (100, *shape)).astype(np.float32) for shape in ((6,), (n, 6)))
    one: dict[str, Callable[[], Any]] = {"": lambda: REAL, "idle": Idle, "by hand": lambda: ByHand(Idle())}
    one |= {name: lambda o=o: RateLimit(Idle(), LIMITS, **o) for name, o in CASES.items()}
    all_of = {"": lambda: gym.make_vec(TASK, n, vectorization_mode="sync"), "idle": lambda: IdleVector(n)}
    all_of |= {name: lambda o=o: RateLimitVector(IdleVector(n), LIMITS, **o) for name, o in CASES.items()}
    table = Table(title=f"What the wrapper adds to a step of {TASK} (CPU us, and share of the step)")
    for name in ("", "single", "share", f"vector of {n}", "share"):
        table.add_column(name, justify="left" if not name else "right")
    alone = best(one, single, bench.turns, bench.steps)
    vector = best(all_of, many, max(bench.turns // 5, 2), max(bench.steps // 10, 10))
    table.add_row("the environment's own step", f"{alone['']:.1f}", "", f"{vector['']:,.0f}", "")
    for name in ["by hand", *CASES]:
        row = [name]
        for found in (alone, vector):
            added = found[name] - found["idle"] if name in found else np.nan
            row += [f"{added:.1f}", f"{added / found['']:.1%}"] if name in found else ["", ""]
        table.add_row(*row)
    Console(width=110).print(table)


if __name__ == "__main__":
    main(tyro.cli(Bench, description=__doc__))
