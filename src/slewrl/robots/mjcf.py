"""Writes a robot as a MuJoCo model, with stated inertias. Only primitives make contact, and only with the ground."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING
from xml.etree.ElementTree import Element, SubElement, indent, tostring

import numpy as np

from slewrl.robots.spec import Floats, Geom, JointSpec, LinkSpec, RobotSpec, about, rotation

if TYPE_CHECKING:
    from slewrl.locomotion.terrain import Terrain

FRICTION = 0.8
"""The friction of the ground, which overrides the robot's: IsaacLab's static friction."""
CLEARANCE = 0.5
"""The height of the soles above the ground when the base is fixed, m."""
VISUAL, CONTACT = "1", "3"
"""Geom groups; viewers show 0 to 2."""
PALE = "0.90 0.93 0.96 1"
COLOURS = {"shell": "0.32 0.34 0.38 1", "dark": "0.10 0.11 0.12 1", "accent": "0.90 0.42 0.10 1"}
Gains = Mapping[str, tuple[float, float]]


def mjcf(
    robot: RobotSpec,
    *,
    terrain: "Terrain | None" = None,
    fixed_base: bool = False,
    dt: float = 0.005,
    gains: Gains | None = None,
    visuals: bool = True,
) -> str:
    """Write the MuJoCo model of a robot on a plane or on a height field as XML text.

    Actuators are position servos in the order of ``robot.joints``: torque = kp (ctrl - q) - kd dq, clipped to the
    joint's effort. Sensors, in order: gyro (3) and velocity (3) of site "imu" at the base's origin; for the left and
    the right sole ``*_foot_pos`` (3), ``*_foot_quat`` (4) and ``*_foot_vel`` (3) in the world's frame; then
    ``left_foot_contact``, ``right_foot_contact`` and ``torso_contact`` (4 each): the number of contacts with the
    ground, and the force of the ground on the robot in the world's frame, N. The keyframe "default" is the default
    pose with its position targets.

    Args:
        robot: the robot.
        terrain: height field, whose samples the caller writes to ``model.hfield_data``; default: a plane.
        fixed_base: whether to hold the base in the air.
        dt: physics step in seconds.
        gains: {joint or group: (kp, kd)} to replace the robot's gains.
        visuals: whether to add geoms that make no contact; physics without them is the same and slightly faster.
    """
    root = Element("mujoco", model=robot.name)
    SubElement(root, "compiler", angle="radian", inertiafromgeom="false")
    SubElement(root, "option", timestep=f"{dt}", integrator="implicitfast", solver="Newton", iterations="10")
    _looks(root)
    world = SubElement(root, "worldbody")
    _ground(root, world, terrain)
    bodies = {"": world}
    for link in robot.links:
        bodies[link.name] = _body(bodies[link.parent], link, visuals)
    if visuals:
        _mesh_assets(root.find("asset"), robot)  # type: ignore[arg-type]
    _base(bodies[robot.links[0].name], robot, fixed_base)
    for side, foot in zip(("left", "right"), robot.feet, strict=True):
        place, turn = robot.sole(foot)
        site = SubElement(bodies[foot], "site", name=f"{side}_foot", pos=_text(place), group="4")
        site.set("quat", _text(_quaternion(turn)))
    _actuators(SubElement(root, "actuator"), robot.joints, gains or {})
    _sensors(SubElement(root, "sensor"), robot)
    _default(SubElement(root, "keyframe"), robot, fixed_base)
    indent(root)
    return tostring(root, encoding="unicode")


def _looks(root: Element) -> None:
    visual = SubElement(root, "visual")
    SubElement(visual, "headlight", diffuse="0.5 0.5 0.5", ambient="0.35 0.35 0.35", specular="0 0 0")
    SubElement(visual, "global", offwidth="1920", offheight="1080", azimuth="140", elevation="-15")
    SubElement(visual, "quality", shadowsize="4096")
    SubElement(visual, "rgba", haze=PALE)
    asset = SubElement(root, "asset")
    sky = SubElement(asset, "texture", name="sky", type="skybox", builtin="gradient", width="256", height="1536")
    sky.attrib |= {"rgb1": PALE[:-2], "rgb2": "0.60 0.68 0.77"}
    tiles = SubElement(asset, "texture", name="tiles", type="2d", builtin="checker", width="256", height="256")
    tiles.attrib |= {"rgb1": "0.83 0.84 0.85", "rgb2": "0.76 0.77 0.79"}
    SubElement(asset, "material", name="ground", texture="tiles", texrepeat="1 1", texuniform="true")
    for name, rgba in COLOURS.items():
        SubElement(asset, "material", name=name, rgba=rgba, specular="0.3", shininess="0.4")


def _ground(root: Element, world: Element, terrain: "Terrain | None") -> None:
    ground = SubElement(world, "geom", name="floor", material="ground", priority="1", contype="1", conaffinity="0")
    ground.set("friction", f"{FRICTION} 0.005 0.0001")
    if terrain is None:
        ground.attrib |= {"type": "plane", "size": "0 0 1"}
        return
    ground.attrib |= {"type": "hfield", "hfield": "terrain", "pos": _text((0, 0, terrain.lowest))}
    size = (terrain.radius_x, terrain.radius_y, terrain.height_range, terrain.base)
    field = SubElement(root.find("asset"), "hfield", name="terrain", size=_text(size))  # type: ignore[arg-type]
    field.attrib |= {"nrow": f"{terrain.rows}", "ncol": f"{terrain.cols}"}


def _base(body: Element, robot: RobotSpec, fixed: bool) -> None:
    body.set("pos", _text((0, 0, robot.base_height + CLEARANCE * fixed)))
    if not fixed:
        body.insert(0, Element("freejoint", name="base"))
    SubElement(body, "site", name="imu", group="4")
    # Straight down: a slanted light draws dots on an infinite plane.
    SubElement(body, "light", mode="trackcom", directional="true", pos="0 0 4", dir="0 0 -1", diffuse="0.5 0.5 0.5")
    away = 1.9 * robot.base_height
    camera = SubElement(body, "camera", name="track", mode="trackcom", xyaxes="1 1 0 -0.16 0.16 1")
    camera.set("pos", _text((away, -away, 0.25 * away)))


def _body(parent: Element, link: LinkSpec, visuals: bool) -> Element:
    turn = rotation(link.rpy)
    if link.joint and link.locked:
        turn = turn @ about(link.joint.axis, link.joint.default)
    body = SubElement(parent, "body", name=link.name, pos=_text(link.pos), quat=_text(_quaternion(turn)))
    if link.joint and not link.locked:
        _joint(body, link.joint)
    if link.mass:  # else a frame, welded to a link with mass
        SubElement(body, "inertial", mass=_text([link.mass]), pos=_text(link.com), fullinertia=_text(link.inertia))
    for geom in link.geoms:
        if visuals or geom.touches:
            _geom(body, geom)
    return body


def _joint(body: Element, joint: JointSpec) -> None:
    made = SubElement(body, "joint", name=joint.name, axis=_text(joint.axis), range=f"{joint.low} {joint.high}")
    made.attrib |= {key: _text([getattr(joint, key)]) for key in ("armature", "damping", "frictionloss")}


def _geom(body: Element, geom: Geom) -> None:
    made = SubElement(body, "geom", type=geom.kind, material=geom.material, contype="0")
    made.attrib |= {"mesh": _mesh_name(geom)} if geom.file else {"size": _text(geom.size)}
    made.attrib |= {"conaffinity": f"{geom.touches:d}", "group": CONTACT if geom.touches else VISUAL}
    if geom.ends is not None:
        made.set("fromto", _text((*geom.ends[0], *geom.ends[1])))
    else:
        made.attrib |= {"pos": _text(geom.pos), "quat": _text(_quaternion(rotation(geom.rpy)))}


def _mesh_assets(asset: Element, robot: RobotSpec) -> None:
    for geom in {_mesh_name(geom): geom for link in robot.links for geom in link.geoms if geom.file}.values():
        made = SubElement(asset, "mesh", name=_mesh_name(geom), file=geom.file, scale=_text(geom.size))
        made.set("inertia", "shell")  # MuJoCo refuses some open meshes otherwise


def _mesh_name(geom: Geom) -> str:
    return f"{geom.file} {_text(geom.size)}"


def _actuators(actuator: Element, joints: Iterable[JointSpec], gains: Gains) -> None:
    known = {name for joint in joints for name in (joint.name, joint.group)}
    for name in gains:
        if name not in known:
            raise KeyError(f"gains name an unknown joint {name!r}; known: {', '.join(sorted(known))}")
    for joint in joints:
        kp, kd = gains.get(joint.name) or gains.get(joint.group) or (joint.kp, joint.kd)
        made = SubElement(actuator, "position", name=joint.name, joint=joint.name, kp=_text([kp]), kv=_text([kd]))
        made.attrib |= {"ctrlrange": f"{joint.low} {joint.high}", "forcerange": f"-{joint.effort} {joint.effort}"}


def _sensors(sensor: Element, robot: RobotSpec) -> None:
    SubElement(sensor, "gyro", name="gyro", site="imu")
    SubElement(sensor, "velocimeter", name="velocity", site="imu")
    for side in ("left", "right"):
        for kind, short in (("framepos", "pos"), ("framequat", "quat"), ("framelinvel", "vel")):
            SubElement(sensor, kind, name=f"{side}_foot_{short}", objtype="site", objname=f"{side}_foot")
    trunk = "body2" if robot.torso == robot.links[0].name else "subtree2"  # the base's subtree includes the feet
    touching = {"left_foot": ("subtree2", robot.feet[0]), "right_foot": ("subtree2", robot.feet[1])}
    for name, (scope, link) in (touching | {"torso": (trunk, robot.torso)}).items():
        made = SubElement(sensor, "contact", name=f"{name}_contact", geom1="floor", num="1")
        made.attrib |= {scope: link, "data": "found force", "reduce": "netforce"}


def _default(keyframe: Element, robot: RobotSpec, fixed: bool) -> None:
    pose = [float(angle) for angle in robot.default_pose]
    free = [] if fixed else [0, 0, robot.base_height, 1, 0, 0, 0]
    SubElement(keyframe, "key", name="default", qpos=_text([*free, *pose]), ctrl=_text(pose))


def _text(numbers: Iterable[float]) -> str:
    return " ".join(f"{float(number)!r}" for number in numbers)


def _quaternion(turn: Floats) -> tuple[float, float, float, float]:
    """The quaternion (w, x, y, z) of a rotation matrix, by its largest entry, so that no divisor is small."""
    trace = np.trace(turn)
    size = np.sqrt(np.maximum(0.0, 1 + np.array([trace, *(2 * np.diag(turn) - trace)]))) / 2
    k = int(size.argmax())
    skew = (turn[2, 1] - turn[1, 2], turn[0, 2] - turn[2, 0], turn[1, 0] - turn[0, 1])
    if k == 0:
        q = np.array([size[0], *(np.array(skew) / (4 * size[0]))])
    else:
        i = k - 1
        q = np.array([skew[i], *(turn[i] + turn[:, i])]) / (4 * size[k])
        q[k] = size[k]
    return tuple(q.tolist())
