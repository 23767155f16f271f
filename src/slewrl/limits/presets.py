"""The paper's constraint tables as named limits. Numbers are decimal strings, so that none is rounded twice.

Sources: DD-SRad Table constraint_params; actuator order and ranges from the Gymnasium v5 XML files. Presets with an
acceleration are ours: the table's rates, each reached in ``STEPS`` steps. Robots have their presets in robots/.
docs/deviations.md says how the paper's contradictions were resolved.
"""

from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import partial

from slewrl.limits.rate_limits import ENV_ACTION, RateLimits
from slewrl.registry import did_you_mean

Presets = Mapping[str, Callable[[], RateLimits]]
"""The presets of one task: name -> limits."""
ANT = [f"{part}_{leg}" for leg in (4, 1, 2, 3) for part in ("hip", "ankle")]
HUMANOID = [
    *("abdomen_y", "abdomen_z", "abdomen_x"),
    *(f"right_{j}" for j in ("hip_x", "hip_z", "hip_y", "knee")),
    *(f"left_{j}" for j in ("hip_x", "hip_z", "hip_y", "knee")),
    *(f"{side}_{j}" for side in ("right", "left") for j in ("shoulder1", "shoulder2", "elbow")),
]
HUMANOID_TIGHT = {"hip": "0.32", "knee": "0.20", "shoulder": "0.20", "elbow": "0.08", "abdomen": "0.08"}
"""Delta by body part: the table's .8^6, .5^6, .2^5 times 0.4, assigned by name so that both sides are equal."""
HUMANOID_PARTS = [next(part for part in HUMANOID_TIGHT if part in name) for name in HUMANOID]
HALFCHEETAH = ["bthigh", "bshin", "bfoot", "fthigh", "fshin", "ffoot"]
HOPPER = ["thigh", "leg", "foot"]
STEPS = 4
"""In presets with an acceleration limit a joint at rest reaches its full rate in this many steps. The number is ours:
the actions are torques, for whose second difference nobody has published one."""


def preset(task: str, name: str) -> RateLimits:
    """See ``RateLimits.preset``."""
    named = PRESETS.get(task) or _of_robots().get(task)
    if named is None:
        known = [*PRESETS, *_of_robots()]
        raise KeyError(
            f"no presets for {task!r}.{did_you_mean(task, known, 0.75)} Known: {', '.join(known)}. "
            "For any other task pass --limits FILE.yaml (slewrl limits writes one)"
        )
    if name not in named:
        raise KeyError(f"{task} has no preset {name!r}; it has: {', '.join(named)}")
    return named[name]()


def _of_robots() -> dict[str, Presets]:
    """The presets of each robot in ``ROBOTS``, under its own name and its tasks'."""
    from slewrl.robots import ROBOTS

    found: dict[str, Presets] = {}
    for robot in ROBOTS.values():
        named = {name: partial(robot.rate_limits, name) for name in robot.presets}
        found |= dict.fromkeys((robot.name, *(f"{robot.name}-{task}" for task in robot.tasks)), named)
    return found


def _torque(names: list[str], groups: list[str], bound: str, delta: list[str], steps: int = 0) -> RateLimits:
    """Limits on torques in +-bound; with ``steps``, as many as it takes from rest to the full rate."""
    acceleration = [Fraction(rate) / steps for rate in delta] if steps else None
    return RateLimits(
        delta, f"-{bound}", bound, names=names, groups=groups, units=ENV_ACTION, acceleration=acceleration
    )


_ant = partial(_torque, ANT, [name.split("_")[0] for name in ANT], "1")
_cheetah = partial(_torque, HALFCHEETAH, [name[1:] for name in HALFCHEETAH], "1")
_hopper = partial(_torque, HOPPER, HOPPER, "1")
_humanoid = partial(_torque, HUMANOID, HUMANOID_PARTS, "0.4")
_pendulum = partial(_torque, ["pivot"], ["pivot"], "2")
_reacher = partial(_torque, ["joint0", "joint1"], ["shoulder", "elbow"], "1")

PRESETS: dict[str, Presets] = {
    "Ant-v5": {
        "wide": lambda: _ant(["1"] * 8),
        "tight": lambda: _ant(["0.2", "0.5"] * 4),  # hips .2, ankles .5, as the text means
        "tight_literal": lambda: _ant(["0.2"] * 4 + ["0.5"] * 4),  # the table's array order
        "tight_acceleration": lambda: _ant(["0.2", "0.5"] * 4, STEPS),
    },
    "Humanoid-v5": {
        "wide": lambda: _humanoid(["0.4"] * 17),
        "tight": lambda: _humanoid([HUMANOID_TIGHT[part] for part in HUMANOID_PARTS]),
        "tight_literal": lambda: _humanoid(["0.32"] * 6 + ["0.20"] * 6 + ["0.08"] * 5),
        "tight_env_units": lambda: _humanoid(["0.8"] * 6 + ["0.5"] * 6 + ["0.2"] * 5),  # .8 never binds
        "tight_acceleration": lambda: _humanoid([HUMANOID_TIGHT[part] for part in HUMANOID_PARTS], STEPS),
    },
    "HalfCheetah-v5": {
        "wide": lambda: _cheetah(["1"] * 6),
        "tight": lambda: _cheetah(["0.2"] * 3 + ["0.5"] * 3),
        "tight_acceleration": lambda: _cheetah(["0.2"] * 3 + ["0.5"] * 3, STEPS),
    },
    "Hopper-v5": {
        "wide": lambda: _hopper(["1"] * 3),
        "tight": lambda: _hopper(["0.2", "0.5", "0.5"]),
        "tight_acceleration": lambda: _hopper(["0.2", "0.5", "0.5"], STEPS),
    },
    # Quick tasks with limits of our own, for tests and the demo.
    "Pendulum-v1": {
        "wide": lambda: _pendulum(["4"]),
        "tight": lambda: _pendulum(["0.4"]),
        "tight_acceleration": lambda: _pendulum(["0.4"], STEPS),
    },
    "Reacher-v5": {
        "wide": lambda: _reacher(["2", "2"]),
        "tight": lambda: _reacher(["0.1", "0.25"]),
        "tight_acceleration": lambda: _reacher(["0.1", "0.25"], STEPS),
    },
}
"""The presets of Gymnasium tasks; those of a robot are in its own file."""
