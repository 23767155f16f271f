"""Reads the links and joints of an MJCF, as MuJoCo compiles it; meshes count only for their mass."""

import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import NamedTuple

import mujoco  # type: ignore[import-untyped]
import numpy as np

from slewrl.errors import shortened
from slewrl.limits.datasheets import xml_root
from slewrl.limits.rates import guess_groups
from slewrl.robots.legs import NotTwoLeggedError
from slewrl.robots.spec import Floats, Geom, JointSpec, LinkSpec, RawRobot, inertia_of, rpy_of, vector

SIZES = {"box": 3, "sphere": 1, "capsule": 2, "cylinder": 2, "ellipsoid": 3}
"""Primitive -> the number of its size parameters."""
KINDS = {int(getattr(mujoco.mjtGeom, f"mjGEOM_{kind.upper()}")): kind for kind in SIZES}
COPIED = ("replicate", "composite", "flexcomp")
MOST_COPIES = 10_000
AT_ORIGIN = np.zeros(3)
JOINT_KINDS = {
    int(getattr(mujoco.mjtJoint, f"mjJNT_{kind.upper()}")): kind for kind in ("free", "ball", "slide", "hinge")
}
ROUNDING = Fraction(1, 2**50)
"""A bound on MuJoCo's relative error in reading a decimal in degrees: four roundings of 2^-53."""


def read_mjcf(path: Path, drives: Callable[[str], bool]) -> RawRobot:
    """Read an MJCF.

    Args:
        path: path of the file.
        drives: whether a joint is to be driven, by name; the others may be of any kind.
    """
    model = _compiled(path)
    base, *others = _bodies(path, model)
    # A link rotates about its origin, so the joint's position in its body becomes the link's origin.
    anchors = {base: AT_ORIGIN}
    made = [_link(model, base, None, AT_ORIGIN, AT_ORIGIN)]
    welded = {}
    for body in others:
        if why := _undrivable(model, body, drives):
            welded[_name(model, body)] = why
        joint, anchors[body] = _joint(path, model, body)
        made.append(_link(model, body, joint, anchors[body], anchors[int(model.body_parentid[body])]))
    return RawRobot(tuple(made), welded)


class MjcfJoint(NamedTuple):
    """A joint's name, kind, range in rad or m if it has one, and whether an equality couples it to another joint."""

    name: str
    kind: str
    span: tuple[Fraction, Fraction] | None
    follows: bool


def mjcf_joints(path: Path) -> Iterator[MjcfJoint]:
    """Yield every joint of any robot; no range is wider than in the file, in either unit."""
    model = _compiled(path)
    coupled = (model.eq_type == mujoco.mjtEq.mjEQ_JOINT) & (model.eq_obj2id >= 0)
    for i in range(model.njnt):
        low, high = (Fraction(float(end)) for end in model.jnt_range[i])
        span = (low + abs(low) * ROUNDING, high - abs(high) * ROUNDING) if model.jnt_limited[i] else None
        follows = bool((coupled & (model.eq_obj1id == i)).any())
        yield MjcfJoint(model.joint(i).name, JOINT_KINDS[int(model.jnt_type[i])], span, follows)


def _check_copies(path: Path) -> None:
    """Refuse a file whose elements expand to more copies than MuJoCo makes in reasonable time."""
    waiting = [(xml_root(path), 1)]
    while waiting:
        element, copies = waiting.pop()
        if element.tag in COPIED:
            count = element.get("count", "1")
            if not all(word.isdecimal() for word in count.split()):
                raise ValueError(f"{path}: <{element.tag}> has count {shortened(count)}, expected whole numbers")
            if (copies := copies * math.prod(int(word[:20]) for word in count.split())) > MOST_COPIES:
                found = f"<{element.tag}> with count {shortened(count)} makes {copies:,} copies"
                raise ValueError(f"{path}: {found}, expected at most {MOST_COPIES:,}")
        waiting += [(child, copies) for child in element]


def _compiled(path: Path) -> mujoco.MjModel:
    """Compile the model, without its meshes if they cannot be read."""
    _check_copies(path)
    try:
        return mujoco.MjModel.from_xml_path(str(path))
    except ValueError as error:
        first = error
    try:
        spec = mujoco.MjSpec.from_file(str(path))
        for part in [geom for geom in spec.geoms if geom.type == mujoco.mjtGeom.mjGEOM_MESH] + list(spec.meshes):
            spec.delete(part)
        return spec.compile()
    except ValueError as error:
        raise ValueError(f"{path}: {first} (and without its meshes: {error})") from error


def _bodies(path: Path, model: mujoco.MjModel) -> list[int]:
    """The robot's base and all bodies below it."""
    bases = sorted({int(model.body_rootid[body]) for body in model.jnt_bodyid})
    if len(bases) != 1:
        names = ", ".join(_name(model, body) for body in bases)
        raise ValueError(
            f"{path}: bodies with joints in the world are {names or 'none'}, expected exactly one: the base"
        )
    if any(kind != mujoco.mjtJoint.mjJNT_FREE for kind in model.jnt_type[model.jnt_bodyid == bases[0]]):
        raise NotTwoLeggedError(path, f"its base {_name(model, bases[0])!r} turns about a joint")
    return [body for body in range(model.nbody) if model.body_rootid[body] == bases[0]]


def _link(
    model: mujoco.MjModel, body: int, joint: JointSpec | None, anchor: Floats, parents_anchor: Floats
) -> LinkSpec:
    first = model.body_parentid[body] == 0
    turn = np.eye(3) if first else _matrix(model.body_quat[body])
    return LinkSpec(
        name=_name(model, body),
        parent="" if first else _name(model, int(model.body_parentid[body])),
        pos=vector(AT_ORIGIN if first else model.body_pos[body] + turn @ anchor - parents_anchor),
        rpy=rpy_of(turn),
        mass=float(model.body_mass[body]),
        com=vector(model.body_ipos[body] - anchor),
        inertia=inertia_of(_matrix(model.body_iquat[body]), np.diag(model.body_inertia[body])),
        joint=joint,
        geoms=_geoms(model, body, anchor),
    )


def _undrivable(model: mujoco.MjModel, body: int, drives: Callable[[str], bool]) -> str:
    """The reason why a body's joint cannot be driven, or "" if it can, or need not be."""
    number = int(model.body_jntadr[body])
    if number < 0 or model.jnt_type[number] == mujoco.mjtJoint.mjJNT_HINGE or not drives(model.joint(number).name):
        return ""
    return f"joint {model.joint(number).name!r} is not a hinge"


def _joint(path: Path, model: mujoco.MjModel, body: int) -> tuple[JointSpec | None, Floats]:
    """The body's joint, if it is a hinge, and its position in the body."""
    number, count = int(model.body_jntadr[body]), int(model.body_jntnum[body])
    if count > 1:
        raise ValueError(f"{path}: body {_name(model, body)!r} has {count} joints, expected at most one")
    if count == 0 or model.jnt_type[number] != mujoco.mjtJoint.mjJNT_HINGE:
        return None, AT_ORIGIN
    joint = model.joint(number)
    at, dof = int(joint.qposadr[0]), int(joint.dofadr[0])
    if model.qpos0[at] != 0:
        raise ValueError(f"{path}: joint {joint.name!r} has ref {model.qpos0[at]}, expected 0")
    low, high = joint.range.tolist() if model.jnt_limited[number] else (math.nan, math.nan)
    kp, kd, effort = _servo(model, number)
    made = JointSpec(
        name=joint.name,
        axis=vector(joint.axis),
        low=low,
        high=high,
        speed=None,
        effort=effort,
        kp=kp,
        kd=kd,
        default=float(model.key_qpos[0, at] if model.nkey else 0.0),
        group=guess_groups([joint.name])[0],
        armature=float(model.dof_armature[dof]),
        damping=float(np.ravel(model.dof_damping[dof])[0]),
        frictionloss=float(model.dof_frictionloss[dof]),
        source=path.name,
    )
    return made, np.array(joint.pos)


def _servo(model: mujoco.MjModel, joint: int) -> tuple[float, float, float]:
    """The kp, kd and effort of a joint's actuator; NaN for what it does not state."""
    kp = kd = math.nan
    effort = float(model.jnt_actfrcrange[joint, 1]) if model.jnt_actfrclimited[joint] else math.nan
    on_joints = model.actuator_trntype == mujoco.mjtTrn.mjTRN_JOINT
    for i in np.flatnonzero(on_joints & (model.actuator_trnid[:, 0] == joint)):
        gear, gain = float(model.actuator_gear[i, 0]), float(model.actuator_gainprm[i, 0])
        if model.actuator_forcelimited[i]:
            effort = gear * float(model.actuator_forcerange[i, 1])
        if model.actuator_biastype[i] == mujoco.mjtBias.mjBIAS_AFFINE:
            kp, kd = gear * gear * gain, -gear * gear * float(model.actuator_biasprm[i, 2])
        elif model.actuator_ctrllimited[i] and not model.actuator_forcelimited[i]:
            effort = gear * gain * float(model.actuator_ctrlrange[i, 1])
    return kp, kd, effort


def _geoms(model: mujoco.MjModel, body: int, anchor: Floats) -> tuple[Geom, ...]:
    """The body's primitives that make contact."""
    made = []
    for i in np.flatnonzero(model.geom_bodyid == body):
        kind = KINDS.get(int(model.geom_type[i]))
        if kind and (model.geom_contype[i] or model.geom_conaffinity[i]):
            size = tuple(float(number) for number in model.geom_size[i, : SIZES[kind]])
            turn = rpy_of(_matrix(model.geom_quat[i]))
            made.append(Geom(kind, size, vector(model.geom_pos[i] - anchor), turn, touches=True))
    return tuple(made)


def _name(model: mujoco.MjModel, body: int) -> str:
    return model.body(body).name or f"body{body}"


def _matrix(quaternion: Floats) -> Floats:
    """The rotation matrix (3, 3) of a quaternion (w, x, y, z)."""
    w, x, y, z = quaternion
    cross = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    return np.eye(3) + 2 * w * cross + 2 * cross @ cross
