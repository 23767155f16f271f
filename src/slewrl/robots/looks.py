"""What a user's own robot looks like: the meshes its file names, or simple shapes where they are not there.

Nothing here touches the ground: how a robot moves does not depend on files beside its own.
"""

import math
import os
from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np

from slewrl.robots.bodies import WATER, spread
from slewrl.robots.legs import half_edges
from slewrl.robots.spec import Geom, LinkSpec, RobotSpec, rpy_of, vector

FORMATS = (".stl", ".obj")
"""That MuJoCo reads."""
SHORT = 0.05
"""m: a link whose next joint is nearer is drawn as an ellipsoid."""
SLENDER = (0.015, 0.06)
"""m, the radius of a limb."""


def mesh_file(urdf: Path, name: str) -> Path | None:
    """Where a URDF's mesh is, if it is there: beside the URDF, or in the package that a folder above it holds."""
    kind, _, rest = name.rpartition("://")
    path = Path(rest.lstrip("/") if kind == "package" else rest)
    if path.suffix.lower() not in FORMATS:
        return None
    if kind != "package":
        tried = [urdf.parent / path]
    else:
        package, below = path.parts[0], Path(*path.parts[1:])
        above = [*urdf.resolve().parents, *map(Path, os.environ.get("ROS_PACKAGE_PATH", "").split(os.pathsep))]
        tried = [folder / path for folder in above] + [folder / below for folder in above if folder.name == package]
    return next((file for file in tried if file.is_file()), None)


def dressed(robot: RobotSpec) -> RobotSpec:
    """The robot in its meshes, where they can be read."""
    return replace(robot, links=tuple(_dressed(link, robot.meshes.get(link.name, ())) for link in robot.links))


def _dressed(link: LinkSpec, meshes: Sequence[Geom]) -> LinkSpec:
    if not meshes or not all(_readable(geom.file) for geom in meshes):
        return link
    return replace(link, geoms=(*(geom for geom in link.geoms if geom.touches), *meshes))


def in_meshes_of(robot: RobotSpec, source: str) -> RobotSpec:
    """A run's own copy of a robot, with the meshes beside the file it was copied from, if that is still there."""
    from slewrl.robots.custom import read_robot

    try:
        return replace(robot, meshes=read_robot(source).meshes)
    except (OSError, ValueError, KeyError):
        return robot


@cache
def _readable(file: str) -> bool:
    import mujoco  # type: ignore[import-untyped]

    probe = mujoco.MjSpec()
    probe.add_mesh(name="mesh", file=file, inertia=mujoco.mjtMeshInertia.mjMESH_INERTIA_SHELL)
    probe.worldbody.add_geom(type=mujoco.mjtGeom.mjGEOM_MESH, meshname="mesh")
    try:
        probe.compile()
    except ValueError:  # not what its name says, empty, too many faces, ...
        return False
    return True


def with_simple_shapes(robot: RobotSpec, bare: Collection[str]) -> RobotSpec:
    """Each link of ``bare`` that has a mass gets a shape for the eye.

    A limb up to the next joint where there is one, else the ellipsoid that has its mass and inertia.
    """
    links = [
        replace(link, geoms=(*link.geoms, _simple(link, robot))) if link.name in bare and link.mass else link
        for link in robot.links
    ]
    return replace(robot, links=tuple(links))


def _simple(link: LinkSpec, robot: RobotSpec) -> Geom:
    children = [other for other in robot.links if other.parent == link.name]
    joints = [child.pos for child in children if child.joint]
    if not joints and children:  # a shank with a foot welded to it
        joints = [max((child.pos for child in children), key=lambda pos: math.hypot(*pos))]
    if len(joints) == 1 and (length := math.hypot(*joints[0])) > SHORT:
        radius = float(np.clip(np.sqrt(link.mass / (np.pi * WATER * length)), *SLENDER))
        return Geom("capsule", (radius,), ends=((0.0, 0.0, 0.0), joints[0]))
    along, axes = np.linalg.eigh(spread(link.inertia))
    axes *= np.sign(np.linalg.det(axes))
    # Its mass spread along an axis is m a^2 / 5 of an ellipsoid, m a^2 / 3 of a box.
    half = np.array(half_edges(along, link.mass)) * np.sqrt(5 / 3)
    return Geom("ellipsoid", vector(half), link.com, rpy_of(axes))
