"""The paper's constraint tables as named limits. Every number is a decimal string, so none is rounded twice.

Sources: DD-SRad Table constraint_params (MuJoCo) and sim_constraint_params (robots); actuator order and ranges
from the Gymnasium v5 XML files; H1 and G1 joint ranges from Unitree's URDFs (docs/deviations.md says how the
paper's contradictions were resolved).
"""

from collections.abc import Callable
from difflib import get_close_matches

from slewrl.importers import guess_groups
from slewrl.limits import RateLimits

ANT = [f"{part}_{leg}" for leg in (4, 1, 2, 3) for part in ("hip", "ankle")]
HUMANOID = [
    *("abdomen_y", "abdomen_z", "abdomen_x"),
    *(f"right_{j}" for j in ("hip_x", "hip_z", "hip_y", "knee")),
    *(f"left_{j}" for j in ("hip_x", "hip_z", "hip_y", "knee")),
    *(f"{side}_{j}" for side in ("right", "left") for j in ("shoulder1", "shoulder2", "elbow")),
]
HUMANOID_TIGHT = {"hip": "0.32", "knee": "0.20", "shoulder": "0.20", "elbow": "0.08", "abdomen": "0.08"}
"""The tight row's .8^6, .5^6, .2^5 in env units (x 0.4), assigned by name so that both sides are alike."""
HUMANOID_PARTS = [next(part for part in HUMANOID_TIGHT if part in name) for name in HUMANOID]
HALFCHEETAH = ["bthigh", "bshin", "bfoot", "fthigh", "fshin", "ffoot"]
HOPPER = ["thigh", "leg", "foot"]

# One leg: (delta, low, high) in radians per 20 ms step and radians.
H1 = {
    "hip_yaw": ("0.40", "-0.43", "0.43"),
    "hip_roll": ("0.40", "-0.43", "0.43"),
    "hip_pitch": ("0.40", "-3.14", "2.53"),
    "knee": ("0.25", "-0.26", "2.05"),
    "ankle": ("0.18", "-0.87", "0.52"),
}
G1 = {
    "hip_pitch": ("0.40", "-2.5307", "2.8798"),
    "hip_roll": ("", "", ""),  # not symmetric, and the paper gives two limits: see _g1
    "hip_yaw": ("0.35", "-2.7576", "2.7576"),
    "knee": ("0.35", "-0.0873", "2.8798"),
    "ankle_pitch": ("0.25", "-0.8727", "0.5236"),
    "ankle_roll": ("0.18", "-0.2618", "0.2618"),
}
ROBOT_DT = 0.02


def preset(task: str, name: str) -> RateLimits:
    """See ``RateLimits.preset``."""
    if task not in PRESETS:
        close = get_close_matches(task, PRESETS, n=1, cutoff=0.75)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        raise KeyError(
            f"no presets for {task!r}.{hint} Known: {', '.join(PRESETS)}. "
            "For any other task pass --limits FILE.yaml (slewrl limits writes one)"
        )
    if name not in PRESETS[task]:
        raise KeyError(f"{task} has no preset {name!r}; it has: {', '.join(PRESETS[task])}")
    return PRESETS[task][name]()


def _torque(names: list[str], groups: list[str], delta: list[str], bound: str) -> RateLimits:
    return RateLimits(delta, f"-{bound}", bound, names=names, groups=groups, units="env action")


def _ant(delta: list[str]) -> RateLimits:
    return _torque(ANT, [name.split("_")[0] for name in ANT], delta, "1")


def _cheetah(delta: list[str]) -> RateLimits:
    return _torque(HALFCHEETAH, [name[1:] for name in HALFCHEETAH], delta, "1")


def _hopper(delta: list[str]) -> RateLimits:
    return _torque(HOPPER, HOPPER, delta, "1")


def _humanoid(delta: list[str]) -> RateLimits:
    return _torque(HUMANOID, HUMANOID_PARTS, delta, "0.4")


def _robot(
    one_side: dict[str, tuple[str, str, str]], others: dict[str, tuple[str, str, str]] | None = None
) -> RateLimits:
    """Left and right copies of a leg, then ``others``, which also replace what is not symmetric."""
    rows = {f"{side}_{joint}": row for side in ("left", "right") for joint, row in one_side.items()} | (others or {})
    delta, low, high = zip(*rows.values(), strict=True)
    return RateLimits(delta, low, high, names=rows, groups=guess_groups(rows), dt=ROBOT_DT, units="rad")


def _g1(hip_roll: str) -> RateLimits:
    left, right = (hip_roll, "-0.5236", "2.9671"), (hip_roll, "-2.9671", "0.5236")
    return _robot(G1, {"left_hip_roll": left, "right_hip_roll": right, "waist_yaw": ("0.25", "-2.618", "2.618")})


PRESETS: dict[str, dict[str, Callable[[], RateLimits]]] = {
    "Ant-v5": {
        "wide": lambda: _ant(["1"] * 8),
        "tight": lambda: _ant(["0.2", "0.5"] * 4),  # hips .2, ankles .5, as the text means
        "tight_literal": lambda: _ant(["0.2"] * 4 + ["0.5"] * 4),  # the table's array order
    },
    "Humanoid-v5": {
        "wide": lambda: _humanoid(["0.4"] * 17),
        "tight": lambda: _humanoid([HUMANOID_TIGHT[part] for part in HUMANOID_PARTS]),
        "tight_literal": lambda: _humanoid(["0.32"] * 6 + ["0.20"] * 6 + ["0.08"] * 5),
        "tight_env_units": lambda: _humanoid(["0.8"] * 6 + ["0.5"] * 6 + ["0.2"] * 5),  # .8 never binds
    },
    "HalfCheetah-v5": {
        "wide": lambda: _cheetah(["1"] * 6),
        "tight": lambda: _cheetah(["0.2"] * 3 + ["0.5"] * 3),
    },
    "Hopper-v5": {
        "wide": lambda: _hopper(["1"] * 3),
        "tight": lambda: _hopper(["0.2", "0.5", "0.5"]),
    },
    # Quick tasks of ours, for tests and the demo.
    "Pendulum-v1": {
        "wide": lambda: _torque(["pivot"], ["pivot"], ["4"], "2"),
        "tight": lambda: _torque(["pivot"], ["pivot"], ["0.4"], "2"),
    },
    "Reacher-v5": {
        "wide": lambda: _torque(["joint0", "joint1"], ["shoulder", "elbow"], ["2", "2"], "1"),
        "tight": lambda: _torque(["joint0", "joint1"], ["shoulder", "elbow"], ["0.1", "0.25"], "1"),
    },
    "H1": {"paper": lambda: _robot(H1)},
    "G1": {"paper": lambda: _g1(hip_roll="0.10"), "paper_table": lambda: _g1(hip_roll="0.40")},
}
