"""What a walking task costs beside the bare simulator: environment steps per CPU-second on one core.

    python benchmarks/sim.py

Bare is ``mujoco.rollout`` on the same model from the same states with the same commands; the task adds delays, resets,
rewards, observations and the audit of every command. Both step the very same sequence, recorded first, in turns.
"""

import argparse
import statistics
import time

import numpy as np

from slewrl.limits import RateLimits
from slewrl.locomotion.env import Locomotion
from slewrl.locomotion.physics import Physics
from slewrl.locomotion.tasks import TASKS


def recorded(worlds: Locomotion, steps: int) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Random targets inside the limits, and the state each was applied to."""
    rng, limits = np.random.default_rng(0), worlds.limits
    worlds.reset(0)
    actions, states = [], []
    for _ in range(steps):
        previous = worlds.observations[:, -limits.dim :].astype(np.float64)
        share = rng.uniform(-0.9, 0.9, previous.shape)
        action = np.clip(previous + share * limits.delta, limits.low * 0.99, limits.high * 0.99).astype(np.float32)
        actions.append(action)
        states.append(worlds.physics.state.copy())
        worlds.step(action)
    return actions, states


def bare_seconds(physics: Physics, actions: list[np.ndarray], states: list[np.ndarray]) -> float:
    begun = time.process_time()
    for action, state in zip(actions, states, strict=True):
        physics.state[:] = state
        physics.step(action)
    return time.process_time() - begun


def task_seconds(worlds: Locomotion, actions: list[np.ndarray]) -> float:
    worlds.reset(0)
    begun = time.process_time()
    for action in actions:
        worlds.step(action)
    return time.process_time() - begun


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tasks", nargs="+", default=list(TASKS))
    parser.add_argument("--worlds", type=int, default=64)
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--rounds", type=int, default=7)
    args = parser.parse_args()
    print(f"{args.worlds} worlds, {args.steps} control steps of 4 x 5 ms, one thread")
    print(f"speeds: the best of {args.rounds} rounds; share: the median of theirs\n")
    print("| task | bare steps/s | task steps/s | share |\n|---|---|---|---|")
    for name in args.tasks:
        worlds = Locomotion(TASKS[name], RateLimits.preset(name, "paper"), args.worlds)
        physics = Physics(worlds.physics.models, args.worlds)
        actions, states = recorded(worlds, args.steps)
        rounds = [(bare_seconds(physics, actions, states), task_seconds(worlds, actions)) for _ in range(args.rounds)]
        bare, task = (args.worlds * args.steps / min(times) for times in zip(*rounds, strict=True))
        share = statistics.median(bare / task for bare, task in rounds)  # of neighbours in time: machines are shared
        print(f"| {name} | {bare:,.0f} | {task:,.0f} | {share:.0%} |", flush=True)


if __name__ == "__main__":
    main()
