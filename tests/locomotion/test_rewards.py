"""The paper's reward tables, term by term, against hand arithmetic."""

import math

import numpy as np
import pytest

from slewrl.locomotion.rewards import G1_TERMS, H1_TERMS, Feet, Moment, swing_height

PARTS = {
    "hip_pitch": [0, 6], "hip_roll": [1, 7], "hip_yaw": [2, 8], "knee": [3, 9], "ankle_pitch": [4, 10],
    "ankle_roll": [5, 11], "waist_yaw": [12],
}  # fmt: skip
PHI = {name: phi for name, _, phi in G1_TERMS + H1_TERMS}
PHI["orientation_held"] = next(phi for name, _, phi in G1_TERMS if name == "orientation")


def moment(**changes):
    """One environment whose robot stands upright in its default pose (knees at .3), told to walk at .4 m/s, at
    mid-swing of the left foot."""
    joints = np.zeros((1, 13))
    joints[0, [3, 9]] = 0.3
    given = dict(
        place=np.array([[[0.0, 0.1, 0], [0, -0.1, 0]]]), speed=np.zeros((1, 2)), yaw=np.zeros((1, 2)),
        force=np.full((1, 2), 160.0), phase=np.array([[0.0, math.pi]]), moves=np.ones(1), stride=np.array([0.1]),
    )  # fmt: skip
    feet = Feet(**{name: changes.pop(name, value) for name, value in given.items()})
    given = dict(
        velocity=np.zeros((1, 2)), yaw_rate=np.zeros(1), gravity=np.array([[0.0, 0, -1]]),
        command=np.array([[0.4, 0, 0]]), joints=joints, bend=np.zeros((1, 13)),
        part={name: np.array(at) for name, at in PARTS.items()},
feet=feet, curriculum=0.5,
    )  # fmt: skip
    return Moment(**{**given, **changes})


def bend(**by_kind):
    bent = np.zeros((1, 13))
    for kind, (left, right) in by_kind.items():
        bent[0, PARTS[kind]] = [left, right][: len(PARTS[kind])]
    return bent


@pytest.mark.parametrize(
    ("term", "changes", "expected"),
    [
        ("linear_velocity", {}, math.exp(-0.16 / 0.25)),
        ("linear_velocity", {"velocity": np.array([[0.4, 0.5]])}, math.exp(-1)),
        ("angular_velocity", {"yaw_rate": np.array([0.5])}, math.exp(-1)),
        ("survival", {}, 1),
        ("orientation", {"gravity": np.array([[0.6, 0, -0.8]])}, -0.36 * 0.5),
        ("orientation_held", {"gravity": np.array([[0.6, 0, -0.8]]), "curriculum": 0.1}, -0.36 * 0.3),
        ("orientation_held", {"gravity": np.array([[0.6, 0, -0.8]])}, -0.36 * 0.5),
        ("default_pose", {"bend": bend(knee=(0.2, 0.1), hip_roll=(0.3, 0))}, -(0.05 + 0.09) * 0.5),
        ("default_pose_but_knees", {"bend": bend(knee=(0.2, 0.1), hip_roll=(0.3, 0))}, -0.09 * 0.5),
        ("default_knees", {"bend": bend(knee=(0.2, 0.1), hip_roll=(0.3, 0))}, -0.05 * 0.5),
        ("foot_height", {}, math.exp(-(0.09**2) / (2 * 0.063**2))),
        ("foot_height", {"moves": np.zeros(1)}, 1),
        ("foot_height", {"place": np.array([[[0, 0.1, 0.09], [0, -0.1, 0]]])}, 1),
        ("knee_flexion", {"bend": bend(knee=(0.25, -0.25))}, 1),
        ("knee_flexion", {}, math.exp(-2 * 0.25**2 / (2 * 0.3**2))),
        ("knee_flexion", {"bend": bend(knee=(0.4, -0.4)), "knee_swing": 0.4}, 1),
        ("knee_flexion", {"knee_width": 0.5}, math.exp(-2 * 0.25**2 / (2 * 0.5**2))),
        ("straight_knees", {}, 0),
        ("straight_knees", {"joints": np.full((1, 13), 0.04)}, -2 * 0.06**2 * 0.5),
        ("stride_length", {}, 1),
        ("stride_length", {"phase": np.array([[math.pi / 2, -math.pi / 2]])}, math.exp(-2 * 0.01 / 0.02)),
        (
            "stride_length",
            {"phase": np.array([[math.pi / 2, -math.pi / 2]]), "stride_width": 0.05},
            math.exp(-2 * 0.01 / 0.005),
        ),
        ("foot_parallelism", {"yaw": np.array([[3.1, -3.1]])}, -((2 * math.pi - 6.2) ** 2) * 0.5),
        ("foot_clearance", {"place": np.array([[[0, 0.05, 0], [0, 0, 0]]])}, -(0.1**2) * 0.5),
        ("foot_clearance", {}, 0),
        ("anti_crossing", {"place": np.array([[[0, -0.1, 0], [0, 0.1, 0]]])}, -0.04 * 0.5),
        ("anti_crossing", {}, 0),
        ("hip_roll", {"bend": bend(hip_roll=(0.1, -0.2), hip_yaw=(1, 1))}, -0.05 * 0.5),
        ("hip_yaw", {"bend": bend(hip_yaw=(0.1, -0.2), hip_roll=(1, 1))}, -0.05 * 0.5),
        ("torso", {"bend": bend(waist_yaw=(0.5, 0)), "curriculum": 0.0}, -0.25 * 0.3),
        ("ankle_pitch", {"bend": bend(ankle_pitch=(0.1, 0.1), ankle_roll=(1, 1))}, -0.02 * 0.5),
        ("foot_slip", {"speed": np.array([[0.5, 2]]), "force": np.array([[2.0, 0.5]])}, -0.5),
    ],
)
def test_every_row_by_hand(term, changes, expected):
    assert PHI[term](moment(**changes)) == pytest.approx([expected], abs=1e-12)


def test_the_tables_have_the_papers_rows_and_weights():
    assert [weight for _, weight, _ in H1_TERMS] == [1.5, 1, 0.02, 3, 0.05]
    weights = [1.5, 1, 0.02, 3, 0.05, 0.025, 1, 1.5, 2, 1.5, 1, 4, 5, 3, 3, 2, 2, 0.5]
    assert [weight for _, weight, _ in G1_TERMS] == weights
    # The largest reward of a step: what robots.md adds up for each robot.
    best = moment(velocity=np.array([[0.4, 0]]), place=np.array([[[0, 0.1, 0.09], [0, -0.1, 0]]]))
    best.bend[0, [3, 9]] = 0.25, -0.25
    assert sum(w * phi(best)[0] for _, w, phi in H1_TERMS) == pytest.approx(2.52 - 0.05 * 0.125 * 0.5)
    most = sum(w * phi(best)[0] for _, w, phi in G1_TERMS if phi(best)[0] > 0)
    assert most == pytest.approx(6.52)


def test_a_foot_swings_for_half_of_its_cycle():
    phase = np.linspace(-np.pi, np.pi, 9)
    assert swing_height(phase) == pytest.approx(0.09 * np.array([0, 0, 0, 0.5, 1, 0.5, 0, 0, 0]))
    assert swing_height(phase + 6 * np.pi) == pytest.approx(swing_height(phase), abs=1e-12)
