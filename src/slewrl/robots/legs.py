"""Whether a robot walks on two legs, which they are, and what to stand and to fall on where a file has only meshes."""

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from slewrl.limits import RateLimits
from slewrl.robots.bodies import ball_radius, moves, rigid_parts, several, spread
from slewrl.robots.spec import Floats, Geom, LinkSpec, RobotSpec, rpy_of, vector

LEVEL = 0.02
"""m by which the height of two feet may differ."""
STRAIGHT = 0.3
"""How far below the base a leg ends, at least, over its length."""
THIN = 0.01
"""m, half of the least edge of a box made of an inertia."""
WIDE = 3.0
"""Half of its largest edge, at most, over the radius of a ball of water of that mass: some inertias are made up."""
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
    """An arm, a quadruped, ...: the message says what to do instead.

    Args:
        path: the robot's file.
        why: what it is, as in "it stands on 4 feet".
    """

    def __init__(self, path: str | Path, why: str) -> None:
        beside = Path(path).with_suffix(".robot.yaml").name
        urdf = Path(path).suffix == ".urdf"
        limits = FROM_URDF.format(path=path) if urdf else "    limits = 0.1  # rad per control step, each joint"
        order = f";\nlimits.names has their order.{_objection(path)}" if urdf else "."
        super().__init__(ADVICE.format(path=path, why=why, limits=limits, order=order, beside=beside))


def _objection(path: str | Path) -> str:
    """What stands in the way of limits from a file, to be said beforehand."""
    try:
        RateLimits.from_urdf(path, dt=0.02)
    except (ValueError, KeyError) as error:
        said = str(error.args[0]).removeprefix(f"{path}: ")
        return f"\nThe second line needs more (joints=[...] names those it drives): in this file\n{said}"
    return ""


def find_feet(path: str | Path, robot: RobotSpec, welded: str = "") -> tuple[str, str]:
    """The links it stands on: left, right. Where there are not two, the message has the note on joints ``welded``."""
    standing = _standing(robot)
    if why := _why_not(robot, standing):
        raise NotTwoLeggedError(path, f"{why} ({welded})" if welded else why)
    frames = robot.frames()
    left, right = sorted(standing, key=lambda name: -frames[name][0][1])
    return left, right


def _standing(robot: RobotSpec) -> list[str]:
    """The links on which it stands upright: those that reach lowest."""
    heights = _limbs(robot)
    return [name for name in heights if heights[name] - min(heights.values()) <= LEVEL]


def _why_not(robot: RobotSpec, standing: Sequence[str]) -> str:
    """Why it does not walk on two legs; "" if it does."""
    if not robot.joints:
        return "no joint is driven"
    heights, low = _limbs(robot), {name: float(place[2]) for name, (place, _) in robot.frames().items()}
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
    """m from the base to a link, along the links."""
    return sum(math.hypot(*link.pos) for link in path_to(robot, name)[1:])


def _is_wheel(robot: RobotSpec, name: str) -> bool:
    """Whether it is on the base and turns without end."""
    turning = [link.joint for link in path_to(robot, name) if link.joint and not link.locked]
    return len(turning) == 1 and math.isnan(float(turning[0].low))


def path_to(robot: RobotSpec, name: str) -> list[LinkSpec]:
    """From the base to a link."""
    found: list[LinkSpec] = []
    while name:
        found.insert(0, robot.link(name))
        name = found[0].parent
    return found


def joints_to(robot: RobotSpec, foot: str) -> list[str]:
    """The driven joints from the base to a link."""
    return [link.joint.name for link in path_to(robot, foot) if link.joint and not link.locked]


def heaviest(robot: RobotSpec, feet: tuple[str, str]) -> str:
    """Of the links that are in no leg."""
    legs = {link.name for foot in feet for link in path_to(robot, foot)[1:]}
    return max((link for link in robot.links if link.name not in legs), key=lambda link: link.mass).name


def with_soles(robot: RobotSpec, feet: Sequence[str]) -> tuple[RobotSpec, list[str]]:
    """Feet without a shape get a box to stand on, level in the default pose, that has their mass and inertia."""
    bare = [foot for foot in feet if not _touching(robot.link(foot))]
    if not bare:
        return robot, []
    boxes = {foot: _level_box(robot, foot) for foot in bare}
    return _with_boxes(robot, boxes), [_about_soles(boxes)]


def with_trunk(robot: RobotSpec, torso: str) -> RobotSpec:
    """A torso without a shape gets the box that has its mass and inertia, to fall on."""
    trunk = robot.link(torso)
    if _touching(trunk) or not trunk.mass:
        return robot
    along, axes = np.linalg.eigh(spread(trunk.inertia))
    axes *= np.sign(np.linalg.det(axes))
    box = Geom("box", half_edges(along, trunk.mass), trunk.com, rpy_of(axes), touches=True)
    return _with_boxes(robot, {torso: box})


def half_edges(along: Floats, mass: float) -> tuple[float, float, float]:
    """Of the box of a mass and a spread along its axes, which is m a^2 / 3 with half an edge a."""
    return vector(np.sqrt(3 * np.maximum(along, 0) / mass).clip(THIN, max(THIN, WIDE * ball_radius(mass))))


def _limbs(robot: RobotSpec) -> dict[str, float]:
    """Of each rigid part after a last joint, the link that reaches lowest, and how low in the base's frame, m."""
    frames, heads = robot.frames(), rigid_parts(robot.links)
    inner = {heads[link.parent] for link in robot.links if link.parent and moves(link)}
    found: dict[str, tuple[float, str]] = {}
    for link in robot.links:
        head, shapes = heads[link.name], _touching(link)
        if head in inner:
            continue
        shapes = shapes or ([] if _shaped(robot, head) or link.name != head else [_level_box(robot, head)])
        if shapes:
            origin, turn = frames[link.name]
            height = float(origin[2] + min(geom.lowest(turn[2]) for geom in shapes))
            found[head] = min(found.get(head, (math.inf, "")), (height, link.name))
    return {name: height for height, name in found.values()}


def _shaped(robot: RobotSpec, head: str) -> bool:
    heads = rigid_parts(robot.links)
    return any(_touching(link) for link in robot.links if heads[link.name] == head)


def _touching(link: LinkSpec) -> list[Geom]:
    return [geom for geom in link.geoms if geom.touches]


def _level_box(robot: RobotSpec, foot: str) -> Geom:
    """In the foot's frame, along the base's axes: of the heaviest link of its rigid part, down to its lowest frame."""
    frames, heads = robot.frames(), rigid_parts(robot.links)
    part = [link for link in robot.links if heads[link.name] == heads[foot]]
    body = max(part, key=lambda link: link.mass)
    (place, turn), (origin, own) = frames[body.name], frames[foot]
    centre = place + turn @ body.com
    half = np.array(half_edges(np.diag(turn @ spread(body.inertia) @ turn.T), body.mass))
    sole = min(float(frames[link.name][0][2]) for link in part)  # files often have a frame there
    if sole < centre[2] - THIN:
        top = centre[2] + half[2]
        centre[2], half[2] = (top + sole) / 2, (top - sole) / 2
    return Geom("box", vector(half), vector(own.T @ (centre - origin)), rpy_of(own.T), touches=True)


def about_sides(feet: tuple[str, str]) -> list[str]:
    """A note if the foot on the left is named a right one."""
    if {"r", "right"} & set(feet[0].lower().split("_")):
        return [f"{feet[0]} is on the left (y > 0): does the file's x point backward? It is taken for forward"]
    return []


def _about_soles(boxes: dict[str, Geom]) -> str:
    size = " x ".join(f"{2 * half:.2g}" for half in next(iter(boxes.values())).size)
    return (
        f"standing on boxes of the mass and inertia of {' and '.join(boxes)} ({size} m), since meshes are not read "
        "for contact; measure the soles and give them as shapes"
    )


def _with_boxes(robot: RobotSpec, boxes: dict[str, Geom]) -> RobotSpec:
    def shaped(link: LinkSpec) -> LinkSpec:
        box = boxes.get(link.name)
        return link if box is None else replace(link, geoms=(*link.geoms, box, replace(box, touches=False)))

    return replace(robot, links=tuple(shaped(link) for link in robot.links))
