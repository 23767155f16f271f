"""A walk pays more than standing frozen, in every task of ours: the reward of G1 did not see to that by itself."""

from dataclasses import replace

import numpy as np
import pytest
from scripted_gait import walk

from slewrl.limits import RateLimits
from slewrl.locomotion import statue
from slewrl.locomotion.env import Locomotion
from slewrl.locomotion.tasks import TASKS

AHEAD = {"turning": (0.0, 0.0), "sideways": (0.0, 0.0), "heading": False}
"""Commands without turns, which suit a statue best."""


def worlds(task, count, **options):
    spec = TASKS[task]
    chosen = replace(spec, options=replace(spec.options, **AHEAD, **options))
    return Locomotion(chosen, RateLimits.preset(task, "paper"), count, training=False)


@pytest.mark.parametrize(
    ("task", "pose", "pays"), [("G1-flat", "", True), ("G1-flat", "rl_gym", False), ("H1-flat", "", True)]
)
def test_a_walk_pays_more_than_a_statue(task, pose, pays):
    """Not so for G1 in the default pose it used to have, whose straight legs no walk has."""
    walked = worlds(task, 3, seconds=8.0, pose=pose)
    earned = walk(walked).mean()
    stood = statue.returns(worlds(task, 64, seconds=8.0, pose=pose)).mean()
    assert (earned > 1.05 * stood) == pays and (earned < stood) == (not pays)
    speed, asked = (walked.sums[:, -2:] / walked.clock[:, None]).mean(0)
    assert speed == pytest.approx(0.9 * asked, rel=0.05)


@pytest.mark.parametrize("robot", ["G1", "H1"])
def test_a_statue_on_rough_ground_earns_no_more_than_on_the_plane(robot):
    flat, rough = (
        statue.statue_return(f"{robot}-{ground}", RateLimits.preset(robot, "paper")) for ground in ("flat", "rough")
    )
    assert 0.9 * flat < rough <= 1.01 * flat


def test_a_statue_by_hand():
    """H1, told to go at 0.5 m/s: 1000 steps of .02 s, 1.5 exp(-.25 / .25) + 1 + .02 each."""
    options = {"forward": (0.5, 0.5), "turning": (0.0, 0.0), "heading": False, "standing": 0.0, "push": 1.0}
    earned = statue.statue_return("H1-flat", RateLimits.preset("H1", "paper"), options)
    assert earned == pytest.approx(1000 * 0.02 * (1.5 * np.exp(-1) + 1.02), rel=1e-6)


def test_a_task_of_somebody_elses_has_no_statue():
    assert np.isnan(statue.statue_return("HalfCheetah-v5", RateLimits.preset("HalfCheetah-v5", "tight")))
