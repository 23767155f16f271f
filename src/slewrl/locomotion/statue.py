"""What a statue earns: a robot that stands frozen in its default pose, upright, whatever it is told.

A return of walking means something beside this one only: a reward may pay for standing more than for many a walk.
"""

from typing import Any

import numpy as np

from slewrl.envs.tasks import is_locomotion, make_vec_env
from slewrl.limits import RateLimits
from slewrl.locomotion.env import Locomotion

WORLDS, SEED = 128, 1_000_000
"""How many statues are averaged over, and the seed of what they are told."""


def statue_return(task: str, limits: RateLimits, options: dict[str, Any] | None = None) -> float:
    """The mean return of a statue in a walking task, in evaluation; nan for a task that is none of ours."""
    if not is_locomotion(task):
        return float("nan")
    worlds = make_vec_env(task, limits, WORLDS, options, training=False)
    assert isinstance(worlds, Locomotion)
    return float(returns(worlds).mean())


def returns(worlds: Locomotion) -> Any:
    """The returns (N,) of statues through one episode of each world."""
    worlds.reset(SEED)
    stand(worlds)
    total = np.zeros(worlds.count)
    for _ in range(worlds.length):
        total += worlds.judge()[1]
        worlds.disturb()
        worlds.physics.qvel[:] = 0  # a push does not move it
    return total / worlds.task.return_unit


def stand(worlds: Locomotion) -> None:
    """Put every robot upright into its default pose, at rest, where its episode began."""
    qpos = worlds.physics.qpos.copy()
    qpos[:, 7:] = worlds.pose
    worlds.physics.place(qpos, np.zeros_like(worlds.physics.qvel))
