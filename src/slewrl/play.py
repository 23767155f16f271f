"""A trained policy taken from its run folder: to act with, to evaluate, to look at."""

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import torch

from slewrl import checkpoint
from slewrl.envs.augment import Augment
from slewrl.evaluate import Act
from slewrl.runs import RunFolder
from slewrl.train import load_limits, make_agent

NO_GL = """cannot render {task}: {error}
A picture needs a GL library. Without a screen, on Debian or Ubuntu:  apt-get install libegl1 libgl1-mesa-dri
Pendulum and other classic tasks need pygame:  pip install pygame"""


@dataclass(frozen=True)
class Policy:
    """What a run has learned, without exploration."""

    act: Act
    """Augmented observations (N, n) to an action for each."""
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
    state, complaints = checkpoint.load_newest(folder.checkpoints)
    env = Augment(gym.make(spec.task, render_mode=render_mode), load_limits(spec.task, spec.limits))
    agent = make_agent(spec, env.limits, env.observation_space.shape[0])  # type: ignore[index]
    agent.load_state_dict(state["agent"])
    return Policy(lambda x: agent.act(x, explore=False), env, state["step"], complaints)


def record(run: Path, video: Path, episodes: int, seed: int) -> tuple[int, list[float], int]:
    """Write ``episodes`` episodes to a video file; returns its frames, the returns and the exact violations."""
    import imageio.v3 as iio

    if video.suffix not in (".mp4", ".gif"):
        raise ValueError(f"--video is {str(video)!r}, expected a name that ends in .mp4 or .gif")
    if sys.platform == "linux" and not os.environ.get("DISPLAY"):
        os.environ.setdefault("MUJOCO_GL", "egl")  # MuJoCo's default needs a screen
    policy = load_policy(run, render_mode="rgb_array")
    frames, returns, violations = [], [], 0
    for k in range(episodes):
        observation, _ = policy.env.reset(seed=seed + k)
        frames.append(_render(policy.env))
        total, done = 0.0, False
        while not done:
            executed = policy.act(torch.from_numpy(observation[None])).executed[0].numpy()
            observation, reward, terminated, truncated, info = policy.env.step(executed)
            frames.append(_render(policy.env))
            total, done = total + float(reward), bool(terminated or truncated)
        returns.append(total)
        violations += info["rate_use"].violations
    fps = policy.env.metadata.get("render_fps", 30)

    iio.imwrite(video, np.stack(frames), fps=fps, **({"codec": "libx264"} if video.suffix == ".mp4" else {"loop": 0}))
    return len(frames), returns, violations


def _render(env: gym.Env[Any, Any]) -> Any:
    """One picture (height, width, 3)."""
    try:
        return env.render()
    except Exception as error:  # each GL loader fails in its own way
        name = env.spec.id if env.spec else type(env.unwrapped).__name__
        raise RuntimeError(NO_GL.format(task=name, error=error)) from error
