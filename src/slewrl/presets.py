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
HALFCHEETAH = ["bthigh", "bshin", "bfoot", "fthigh", "fshin", "ffoot"]
HOPPER = ["thigh", "leg", "foot"]

# (delta, low, high) in radians per 20 ms step and radians, one side; G1's right hip_roll is mirrored.
H1 = {
    "hip_yaw": ("0.40", "-0.43", "0.43"),
    "hip_roll": ("0.40", "-0.43", "0.43"),
    "hip_pitch": ("0.40", "-3.14", "2.53"),
    "knee": ("0.25", "-0.26", "2.05"),
    "ankle": ("0.18", "-0.87", "0.52"),
}
G1 = {
    "hip_pitch": ("0.40", "-2.5307", "2.8798"),
    "hip_roll": ("0.10", "-0.5236", "2.9671"),
    "hip_yaw": ("0.35", "-2.7576", "2.7576"),
    "knee": ("0.35", "-0.0873", "2.8798"),
    "ankle_pitch": ("0.25", "-0.8727", "0.5236"),
    "ankle_roll": ("0.18", "-0.2618", "0.2618"),
}
G1_WAIST = ("0.25", "-2.618", "2.618")
ROBOT_DT = 0.02


def preset(task: str, name: str = "paper") -> RateLimits:
    """See ``RateLimits.preset``."""
    if task not in PRESETS:
        close = get_close_matches(task, PRESETS, n=1, cutoff=0.4)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        raise KeyError(f"no presets for {task!r}.{hint} Known: {', '.join(PRESETS)}")
    if name not in PRESETS[task]:
        raise KeyError(f"{task} has no preset {name!r}; it has: {', '.join(PRESETS[task])}")
    return PRESETS[task][name]()


def _torque(names: list[str], delta: list[str], bound: str, groups: list[str] | None = None) -> RateLimits:
    return RateLimits(
        delta, f"-{bound}", bound, names=names, groups=groups or guess_groups(names), units="env action"
    )


def _ant(hip: str, ankle: str) -> RateLimits:
    by_name = [hip if name.startswith("hip") else ankle for name in ANT]
    return _torque(ANT, by_name, "1", [name.split("_")[0] for name in ANT])


def _humanoid_by_name() -> RateLimits:
    """The paper's 6/6/5 split in normalised units .8/.5/.2 = env units .32/.20/.08, alike on both sides."""
    rate = {"hip": "0.32", "knee": "0.20", "shoulder": "0.20", "elbow": "0.08", "abdomen": "0.08"}
    parts = [next(part for part in rate if part in name) for name in HUMANOID]
    return _torque(HUMANOID, [rate[part] for part in parts], "0.4", parts)


def _robot(left: dict[str, tuple[str, str, str]], waist: tuple[str, str, str] | None = None) -> RateLimits:
    rows = {f"left_{joint}": row for joint, row in left.items()}
    rows |= {f"right_{joint}": _mirrored(joint, row) for joint, row in left.items()}
    if waist:
        rows["waist_yaw"] = waist
    delta, low, high = zip(*rows.values(), strict=True)
    return RateLimits(delta, low, high, names=rows, groups=guess_groups(rows), dt=ROBOT_DT, units="rad")


def _mirrored(joint: str, row: tuple[str, str, str]) -> tuple[str, str, str]:
    delta, low, high = row
    return (delta, high.replace("2", "-2", 1), low.lstrip("-")) if (joint, low) == ("hip_roll", "-0.5236") else row


def _g1_table() -> RateLimits:
    _, low, high = G1["hip_roll"]
    return _robot({**G1, "hip_roll": ("0.40", low, high)}, G1_WAIST)


PRESETS: dict[str, dict[str, Callable[[], RateLimits]]] = {
    "Ant-v5": {
        "wide": lambda: _torque(ANT, ["1"] * 8, "1"),
        "tight": lambda: _ant(hip="0.2", ankle="0.5"),
        "tight_literal": lambda: _torque(ANT, ["0.2"] * 4 + ["0.5"] * 4, "1"),
    },
    "Humanoid-v5": {
        "wide": lambda: _torque(HUMANOID, ["0.4"] * 17, "0.4"),
        "tight": _humanoid_by_name,
        "tight_literal": lambda: _torque(HUMANOID, ["0.32"] * 6 + ["0.20"] * 6 + ["0.08"] * 5, "0.4"),
        "tight_env_units": lambda: _torque(HUMANOID, ["0.8"] * 6 + ["0.5"] * 6 + ["0.2"] * 5, "0.4"),
    },
    "HalfCheetah-v5": {
        "wide": lambda: _torque(HALFCHEETAH, ["1"] * 6, "1"),
        "tight": lambda: _torque(HALFCHEETAH, ["0.2"] * 3 + ["0.5"] * 3, "1"),
    },
    "Hopper-v5": {
        "wide": lambda: _torque(HOPPER, ["1"] * 3, "1"),
        "tight": lambda: _torque(HOPPER, ["0.2", "0.5", "0.5"], "1"),
    },
    "H1": {"paper": lambda: _robot(H1)},
    "G1": {"paper": lambda: _robot(G1, G1_WAIST), "paper_table": _g1_table},
}
