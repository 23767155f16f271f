"""A trained policy taken from its run folder: to act with, to evaluate, to look at."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium as gym
import torch

from slewrl import checkpoint
from slewrl.envs.augment import Augment
from slewrl.envs.checked import checked_reset, checked_step
from slewrl.errors import UserFacingError
from slewrl.evaluate import Act, Evaluation, evaluate
from slewrl.runs import RunFolder, write_csv
from slewrl.train import EVALUATION_SEED, make_agent, run_limits

NO_GL = """cannot render {task}: {error}
A picture needs a GL library. Without a screen, on Debian or Ubuntu:  apt-get install libegl1 libgl1-mesa-dri
Pendulum and other classic tasks need pygame:  pip install pygame"""


@dataclass(frozen=True)
class Policy:
    """What a run has learned, without exploration."""

    act: Act
    """Augmented observations (N, n) to an action for each."""
    agent: Any
    """What acts: networks, layer and config."""
    env: Augment
    """An environment of the run's task, with its limits."""
    step: int
    """Of the checkpoint."""
    complaints: list[str]
    """What was wrong with newer checkpoints."""


def load_policy(run: Path, render_mode: str | None = None) -> Policy:
    """The policy of a run's newest whole checkpoint."""
    torch.set_num_threads(1)
    folder = RunFolder(run)
    spec = folder.spec()
    limits = run_limits(spec, folder)
    if not checkpoint.checkpoints(folder.checkpoints):
        raise FileNotFoundError(f"{run} has no checkpoint yet: train it first (slewrl train --resume {run})")
    state, complaints = checkpoint.load_newest(folder.checkpoints)
    # Only to record: an environment of the user's own need not know of render modes.
    options = {"render_mode": render_mode} if render_mode else {}
    try:
        env = Augment(gym.make(spec.task, **options), limits)  # type: ignore[arg-type]
    except TypeError as error:
        raise UserFacingError(f"{spec.task} cannot be made to render: {error}") from error
    except ImportError as error:
        raise UserFacingError(f"task {spec.task!r}: {error} (is its module here, or on PYTHONPATH?)") from error
    agent = make_agent(spec, limits, env.observation_space.shape[0])  # type: ignore[index]
    agent.load_state_dict(state["agent"])
    return Policy(lambda x: agent.act(x, explore=False), agent, env, state["step"], complaints)


def evaluate_run(run: Path, episodes: int, into: str = "evaluation") -> tuple[Policy, Evaluation]:
    """Evaluate a run's policy and write a folder of the run's about it: density, increments and, last, episodes."""
    policy = load_policy(run)
    result = evaluate(policy.act, policy.env, episodes, EVALUATION_SEED)
    names = policy.env.limits.names
    write_csv(run / into / "density.csv", result.density(names))
    write_csv(run / into / "increments.csv", result.some_increments(names))
    write_csv(run / into / "episodes.csv", result.episodes())
    return policy, result


def record(run: Path, video: Path, episodes: int, seed: int) -> tuple[int, list[float], int]:
    """Write ``episodes`` episodes to a video file; returns its frames, the returns and the exact violations."""
    import imageio.v2 as imageio

    if video.suffix not in (".mp4", ".gif"):
        raise ValueError(f"--video is {str(video)!r}, expected a name that ends in .mp4 or .gif")
    if not video.parent.is_dir():
        raise FileNotFoundError(f"no folder {str(video.parent)!r} to write {video.name} to")
    if sys.platform == "linux" and not os.environ.get("DISPLAY"):
        os.environ.setdefault("MUJOCO_GL", "egl")  # MuJoCo's default needs a screen
    policy = load_policy(run, render_mode="rgb_array")
    frames, returns, violations = 0, [], 0
    aside = video.with_stem(f".{video.stem}")  # no film that was broken off takes the place of a whole one
    film: Any = imageio.get_writer(aside, fps=policy.env.metadata.get("render_fps", 30))  # opens at the first picture
    with _whole(aside, video), film:
        for k in range(episodes):
            where = f"{policy.env.name}, episode {k}"
            observation, done, total = checked_reset(policy.env, where, seed + k), False, 0.0
            while not done:
                film.append_data(_render(policy.env))
                executed = policy.act(torch.from_numpy(observation[None])).executed[0].numpy()
                observation, reward, terminated, truncated, info = checked_step(policy.env, executed, where)
                frames, total, done = frames + 1, total + reward, terminated or truncated
            returns.append(total)
            violations += info["rate_use"].violations
    return frames, returns, violations


@contextmanager
def _whole(aside: Path, path: Path) -> Iterator[None]:
    """Put the file in its place once it is whole, or leave none."""
    try:
        yield
        os.replace(aside, path)
    finally:
        aside.unlink(missing_ok=True)


def _render(env: gym.Env[Any, Any]) -> Any:
    """One picture (height, width, 3)."""
    try:
        return env.render()
    except Exception as error:  # each GL loader fails in its own way
        name = env.spec.id if env.spec else type(env.unwrapped).__name__
        raise UserFacingError(NO_GL.format(task=name, error=error)) from error
