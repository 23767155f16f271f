"""The look of a user's robot: the meshes that its file names, or simple shapes where they are missing.

None of them makes contact, so the physics does not depend on mesh files.
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
"""The mesh formats that MuJoCo reads."""
SHORT = 0.05
"""A link whose next joint is nearer, m, is drawn as an ellipsoid."""
SLENDER = (0.015, 0.06)
"""The range of a limb's radius, m."""


def mesh_file(urdf: Path, name: str) -> Path | None:
    """Find a URDF's mesh: beside the URDF, or in a ROS package in a folder above it; None if it is missing."""
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
    """The robot drawn by its meshes, where they can be read."""
    return replace(robot, links=tuple(_dressed(link, robot.meshes.get(link.name, ())) for link in robot.links))


def _dressed(link: LinkSpec, meshes: Sequence[Geom]) -> LinkSpec:
    if not meshes or not all(_readable(geom.file) for geom in meshes):
        return link
    return replace(link, geoms=(*(geom for geom in link.geoms if geom.touches), *meshes))


def in_meshes_of(robot: RobotSpec, source: str) -> RobotSpec:
    """A run's copy of a robot with the meshes beside the file ``source`` it was copied from, if that still exists."""
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
    except ValueError:  # another format, empty, too many faces, ...
        return False
    return True


def with_simple_shapes(robot: RobotSpec, bare: Collection[str]) -> RobotSpec:
    """Draw each link in ``bare`` that has a mass as a limb to its next joint, or as the ellipsoid of its inertia."""
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
    # The second moment along an axis is m a^2 / 5 for an ellipsoid, m a^2 / 3 for a box.
    half = np.array(half_edges(along, link.mass)) * np.sqrt(5 / 3)
    return Geom("ellipsoid", vector(half), link.com, rpy_of(axes))
