"""Finds the two legs of a robot, and adds contact boxes to feet and torso where a file has only meshes."""

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from slewrl.limits import RateLimits
from slewrl.robots.bodies import ball_radius, moves, rigid_parts, several, spread
from slewrl.robots.spec import Floats, Geom, LinkSpec, RobotSpec, rpy_of, vector

LEVEL = 0.02
"""The largest difference in height between two feet, m."""
STRAIGHT = 0.3
"""The smallest depth of a foot below the base, as a share of the leg's length."""
THIN = 0.01
"""The smallest half edge of a box made from an inertia, m."""
WIDE = 3.0
"""The largest half edge of such a box, in radii of a ball of water of the same mass: some inertias are made up."""
ADVICE = """{path}: {why};
the walking tasks are for robots on two legs. Use your own environment,
whose actions are the joints' position targets:

    import gymnasium, slewrl
{limits}
    env = gymnasium.make("YourRobot-v0")
    env = slewrl.RateLimit(env, limits, reset_action=HOME)

HOME is the pose your environment resets to, one number per joint{order}
If it does walk on two legs (z must point up), name its feet in
{beside} beside it (feet: [left, right])."""
FROM_URDF = '    limits = slewrl.RateLimits.from_urdf("{path}", dt=0.02, safety=0.9)'


class NotTwoLeggedError(ValueError):
    """The robot does not walk on two legs; the message shows how to use one's own environment.

    Args:
        path: path of the robot's file.
        why: the reason, such as "it stands on 4 feet".
    """

    def __init__(self, path: str | Path, why: str) -> None:
        beside = sidecar(path).name
        urdf = Path(path).suffix == ".urdf"
        limits = FROM_URDF.format(path=path) if urdf else "    limits = 0.1  # rad per control step, each joint"
        order = f";\nlimits.names has their order.{_objection(path)}" if urdf else "."
        super().__init__(ADVICE.format(path=path, why=why, limits=limits, order=order, beside=beside))


def sidecar(path: str | Path) -> Path:
    """The file beside a robot's own with the arguments of ``robot_model``."""
    return Path(path).with_suffix(".robot.yaml")


def _objection(path: str | Path) -> str:
    """The reason why limits cannot be read from the file as it is, or ""."""
    try:
        RateLimits.from_urdf(path, dt=0.02)
    except (ValueError, KeyError) as error:
        reason = str(error.args[0]).removeprefix(f"{path}: ")
        return f"\nThe second line needs more (joints=[...] names those it drives): in this file\n{reason}"
    return ""


def find_feet(path: str | Path, robot: RobotSpec, welded: str = "") -> tuple[str, str]:
    """The links of the left and the right foot; ``welded`` is a note on welded joints for the error message."""
    heights = _limbs(robot)
    standing = [name for name in heights if heights[name] - min(heights.values()) <= LEVEL]
    if why := _why_not(robot, heights, standing):
        raise NotTwoLeggedError(path, f"{why} ({welded})" if welded else why)
    frames = robot.frames()
    left, right = sorted(standing, key=lambda name: -frames[name][0][1])
    return left, right


def _why_not(robot: RobotSpec, heights: dict[str, float], standing: Sequence[str]) -> str:
    """The reason why a robot that stands on the links ``standing`` does not walk on two legs, or ""."""
    if not robot.joints:
        return "no joint is driven"
    low = {name: float(place[2]) for name, (place, _) in robot.frames().items()}
    lowest, ends = min(low, key=lambda name: low[name]), several(standing, 4)
    if len(heights) == 1:
        return f"it has one limb, which ends in {ends}"
    if low[lowest] < min(heights.values()) - LEVEL:
        return f"its limbs ({several(list(heights), 4)}) end above its link {lowest}"
    if any(-low[name] < STRAIGHT * _length(robot, name) or _is_wheel(robot, name) for name in standing):
        return f"its lowest limbs ({ends}) are no legs, which end well below the base and are no wheels"
    if len(standing) != 2:
        return f"it stands on {len(standing)} {'feet' if len(standing) > 1 else 'foot'} ({ends})"
    left, right = (set(joints_to(robot, foot)) for foot in standing)
    return f"{' and '.join(standing)} hang on one limb" if len(left & right) >= len(left ^ right) else ""


def _length(robot: RobotSpec, name: str) -> float:
    """The distance from the base to a link along the links, m."""
    return sum(math.hypot(*link.pos) for link in path_to(robot, name)[1:])


def _is_wheel(robot: RobotSpec, name: str) -> bool:
    """Whether a link turns on the base without stops."""
    joints = [link.joint for link in path_to(robot, name) if link.joint and not link.locked]
    return len(joints) == 1 and math.isnan(float(joints[0].low))


def path_to(robot: RobotSpec, name: str) -> list[LinkSpec]:
    """The links from the base to a link, both included."""
    found: list[LinkSpec] = []
    while name:
        found.insert(0, robot.link(name))
        name = found[0].parent
    return found


def joints_to(robot: RobotSpec, foot: str) -> list[str]:
    """The driven joints from the base to a link."""
    return [link.joint.name for link in path_to(robot, foot) if link.joint and not link.locked]


def heaviest(robot: RobotSpec, feet: tuple[str, str]) -> str:
    """The heaviest link that is not part of a leg."""
    legs = {link.name for foot in feet for link in path_to(robot, foot)[1:]}
    return max((link for link in robot.links if link.name not in legs), key=lambda link: link.mass).name


def with_soles(robot: RobotSpec, feet: Sequence[str]) -> tuple[RobotSpec, list[str]]:
    """Give feet without a contact shape a level box of their mass and inertia, and return a note on it."""
    boxes = {foot: _level_box(robot, foot) for foot in feet if not _touching(robot.link(foot))}
    if not boxes:
        return robot, []
    size = " x ".join(f"{2 * half:.2g}" for half in next(iter(boxes.values())).size)
    note = (
        f"standing on boxes of the mass and inertia of {' and '.join(boxes)} ({size} m), since meshes are not read "
        "for contact; measure the soles and give them as shapes"
    )
    return _with_boxes(robot, boxes), [note]


def with_trunk(robot: RobotSpec, torso: str) -> RobotSpec:
    """Give a torso without a contact shape the box of its mass and inertia."""
    trunk = robot.link(torso)
    if _touching(trunk) or not trunk.mass:
        return robot
    along, axes = np.linalg.eigh(spread(trunk.inertia))
    axes *= np.sign(np.linalg.det(axes))
    box = Geom("box", half_edges(along, trunk.mass), trunk.com, rpy_of(axes), touches=True)
    return _with_boxes(robot, {torso: box})


def half_edges(along: Floats, mass: float) -> tuple[float, float, float]:
    """The half edges of the box with a mass and second moments ``along`` its axes, m a^2 / 3 for a half edge a."""
    return vector(np.sqrt(3 * np.maximum(along, 0) / mass).clip(THIN, max(THIN, WIDE * ball_radius(mass))))


def _limbs(robot: RobotSpec) -> dict[str, float]:
    """The lowest link of each rigid part at the end of a limb -> the height of its lowest point above the base, m."""
    frames, heads = robot.frames(), rigid_parts(robot.links)
    inner = {heads[link.parent] for link in robot.links if link.parent and moves(link)}
    shaped = {heads[link.name] for link in robot.links if _touching(link)}
    found: dict[str, tuple[float, str]] = {}
    for link in robot.links:
        head, shapes = heads[link.name], _touching(link)
        if head in inner:
            continue
        if head == link.name and head not in shaped:
            shapes = [_level_box(robot, head)]
        if shapes:
            origin, turn = frames[link.name]
            height = float(origin[2] + min(geom.lowest(turn[2]) for geom in shapes))
            found[head] = min(found.get(head, (math.inf, "")), (height, link.name))
    return {name: height for height, name in found.values()}


def _touching(link: LinkSpec) -> list[Geom]:
    return [geom for geom in link.geoms if geom.touches]


def _level_box(robot: RobotSpec, foot: str) -> Geom:
    """A box along the base's axes of the heaviest link of the foot's rigid part, in the foot's frame."""
    frames, heads = robot.frames(), rigid_parts(robot.links)
    part = [link for link in robot.links if heads[link.name] == heads[foot]]
    body = max(part, key=lambda link: link.mass)
    (place, turn), (origin, axes) = frames[body.name], frames[foot]
    centre = place + turn @ body.com
    half = np.array(half_edges(np.diag(turn @ spread(body.inertia) @ turn.T), body.mass))
    sole = min(float(frames[link.name][0][2]) for link in part)  # files often have a frame at the sole
    if sole < centre[2] - THIN:
        top = centre[2] + half[2]
        centre[2], half[2] = (top + sole) / 2, (top - sole) / 2
    return Geom("box", vector(half), vector(axes.T @ (centre - origin)), rpy_of(axes.T), touches=True)


def note_on_sides(feet: tuple[str, str]) -> list[str]:
    """A note if the left foot has the name of a right one."""
    if {"r", "right"} & set(feet[0].lower().split("_")):
        return [f"{feet[0]} is on the left (y > 0): does the file's x point backward? It is taken for forward"]
    return []


def _with_boxes(robot: RobotSpec, boxes: dict[str, Geom]) -> RobotSpec:
    """The robot with a box on some links, for contact and for pictures."""
    links = [
        replace(link, geoms=(*link.geoms, box, replace(box, touches=False))) if (box := boxes.get(link.name)) else link
        for link in robot.links
    ]
    return replace(robot, links=tuple(links))
