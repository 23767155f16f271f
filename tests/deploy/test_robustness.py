"""``benchmarks/robustness.py``: what it disturbs, and that a bundle's commands stay within their limits under it."""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from slewrl.limits import RateLimits
from slewrl.locomotion.env import Locomotion
from slewrl.locomotion.models import variants
from slewrl.locomotion.tasks import TASKS, Options
from slewrl.robots import ROBOTS

ROOT = Path(__file__).parents[2]
pytest.importorskip("onnxruntime", reason='ONNX Runtime is not installed: pip install "slewrl[onnx]"')


@pytest.fixture
def robustness(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import robustness

    yield robustness
    sys.modules.pop("robustness")


@pytest.mark.parametrize("name", ["g1", "h1"])
def test_a_payload_is_on_the_torso_alone(name):
    robot = ROBOTS[name]
    (plain,), (loaded,) = (variants(robot, None, Options(payload=x)) for x in (0.0, 2.0))
    more = loaded.body_mass - plain.body_mass
    torso = plain.body(robot.torso).id
    assert more[torso] == pytest.approx(2) and np.delete(more, torso).any() == False  # noqa: E712
    assert loaded.body_subtreemass[0] == pytest.approx(plain.body_subtreemass[0] + 2)
    assert np.array_equal(plain.body_inertia, loaded.body_inertia)


@pytest.mark.parametrize("always", [False, True])
def test_a_delay_may_be_of_every_episode(always):
    spec = TASKS["G1-flat"]
    chosen = replace(spec, options=replace(spec.options, delay=2, always_delayed=always))
    worlds = Locomotion(chosen, RateLimits.preset("G1", "paper"), 40)
    worlds.reset(0)
    assert set(worlds.delay) == ({2} if always else {0, 1, 2})


@pytest.mark.parametrize(
    ("options", "message"),
    [({"payload": -1.0}, "task.payload is -1.0, expected a number from 0"),
     ({"always_delayed": 1}, "task.always_delayed is 1, expected true or false"),
     ({"stride_width": 0.0}, "task.stride_width is 0.0, expected a number > 0"),
     ({"knee_swing": "far"}, "task.knee_swing is 'far', expected a number from 0"),
     ({"pose": 3}, "task.pose is 3, expected the name of a pose")],
)  # fmt: skip
def test_bad_options_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        Options(**options)


def test_the_published_bundle_under_every_disturbance(robustness):
    bundle = ROOT / "results" / "walk" / "g1-flat-ddsrad.bundle"
    rows = list(robustness.Robustness(bundle, episodes=1, seconds=1.0).rows())
    assert [row["disturbance"] for row in rows] == list(robustness.DISTURBANCES)
    calm, *_, worst = rows
    assert calm["length"] == 50 and calm["fell_pct"] == 0 and all(row["violations"] == 0 for row in rows)
    assert {"vte", "speed", "high_frequency", "reversals"} <= set(calm) and worst["vte"] != calm["vte"]
    late = next(row for row in rows if row["disturbance"].startswith("delay"))
    assert late["return"] != calm["return"]


def test_means_are_over_steps_and_falls_over_episodes(robustness):
    one = {"return": 10.0, "length": 30, "fell": 0.0, "violations": 0} | dict.fromkeys(robustness.MEANS, 1.0)
    two = one | {"return": 20.0, "length": 10, "fell": 1.0, "violations": 2} | dict.fromkeys(robustness.MEANS, 5.0)
    found = robustness.summary([one, two])
    assert (found["return"], found["length"], found["fell_pct"], found["violations"]) == (15, 20, 50, 2)
    assert all(found[name] == 2 for name in robustness.MEANS)
