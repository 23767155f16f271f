"""What untrained policies earn on the paper's tasks: the ground under "learned" (src/slewrl/report/verdicts.py)."""

from collections.abc import Callable

import gymnasium
import numpy as np
from numpy.typing import NDArray

from slewrl import RateLimits
from slewrl.paper.grids import TASKS

EPISODES = 10
Move = Callable[[NDArray[np.float64]], NDArray[np.float64]]


def earned(env: gymnasium.Env, move: Move) -> float:
    """Mean return of a policy that is given the last action only."""
    total = 0.0
    for seed in range(EPISODES):
        env.reset(seed=seed)
        action, over = np.zeros(env.action_space.shape), False
        while not over:
            action = move(action)
            _, reward, terminated, truncated, _ = env.step(action)
            total, over = total + float(reward), terminated or truncated
    return total / EPISODES


def moves(task: str, space: gymnasium.spaces.Box) -> list[Move]:
    """Holding the reset action, acting at random, and moving at random within the tight limits."""
    delta, rng = RateLimits.preset(task, "tight").delta, np.random.default_rng(0)
    return [
        lambda action: action,
        lambda action: rng.uniform(space.low, space.high),
        lambda action: np.clip(action + delta * rng.uniform(-1, 1, delta.shape), space.low, space.high),
    ]


def main() -> None:
    print("| task | still | random | random, limited |\n|---|---|---|---|")
    for task in TASKS:
        env = gymnasium.make(task)
        said = [f"{earned(env, move):.0f}" for move in moves(task, env.action_space)]
        print(f"| {task} | {' | '.join(said)} |")


if __name__ == "__main__":
    main()
