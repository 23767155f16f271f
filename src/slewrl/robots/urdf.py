"""Reads the links and joints of a URDF. Primitives of <collision> elements make contact; meshes are for pictures."""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from xml.etree.ElementTree import Element

from slewrl.limits.rates import guess_groups
from slewrl.robots.bodies import NO_INERTIA, several
from slewrl.robots.looks import mesh_file
from slewrl.robots.spec import ZERO, Geom, JointSpec, LinkSpec, RawRobot, Vector, inertia_of, rotation, tensor, vector

HINGES = ("revolute", "continuous")


def read_urdf(path: Path, root: Element, drives: Callable[[str], bool]) -> RawRobot:
    """Read a URDF.

    Args:
        path: path of the file, for messages and for its meshes.
        root: the <robot> element.
        drives: whether a joint is to be driven, by name; the others may be of any kind.
    """
    links = {link.get("name", ""): link for link in root.findall("link")}
    joints = {_end(path, joint, "child", links): joint for joint in root.findall("joint")}
    children: dict[str, list[str]] = {name: [] for name in links}
    for child, joint in joints.items():
        children[_end(path, joint, "parent", links)].append(child)
    made, waiting = [], [(_base(path, links, joints, children), "")]
    while waiting:  # depth first, in file order
        name, parent = waiting.pop()
        made.append(_link(path, links[name], joints[name] if parent else None, parent, drives))
        waiting += [(child, name) for child in reversed(children[name])]
    welded = {link.name: why for link in made[1:] if (why := _undrivable(joints[link.name], drives))}
    meshes = {name: _meshes(path, link) for name, link in links.items() if link.find(".//geometry/mesh") is not None}
    return RawRobot(tuple(made), welded, meshes)


def _end(path: Path, joint: Element, role: str, links: Mapping[str, Element]) -> str:
    end = joint.find(role)
    name = "" if end is None else end.get("link", "")
    if name not in links:
        raise ValueError(f"{path}: joint {joint.get('name')!r} has {role} link {name!r}, which is not in the file")
    return name


def _base(
    path: Path, links: Mapping[str, Element], joints: Mapping[str, Element], children: Mapping[str, list[str]]
) -> str:
    """The link without a parent, or the first body below it if it is only a frame ("world", "base_footprint")."""
    bases = [name for name in links if name not in joints]
    if len(bases) != 1:
        found = f"{len(bases)} links without a parent ({several(bases)})" if links else "no <link>"
        raise ValueError(f"{path}: it has {found}, expected exactly one link without a parent: the base")
    base = bases[0]
    while links[base].find("inertial") is None and len(children[base]) == 1:
        (below,) = children[base]
        if joints[below].get("type") not in ("fixed", "floating"):
            break
        base = below
    return base


def _link(path: Path, link: Element, joint: Element | None, parent: str, drives: Callable[[str], bool]) -> LinkSpec:
    hinge = None if joint is None else _joint(path, joint, drives)
    geoms = tuple(geom for shape in link.findall("collision") for geom in _geoms(shape))
    made = LinkSpec(link.get("name", ""), parent, *_origin(joint), 0.0, ZERO, NO_INERTIA, hinge, geoms)
    inertial = link.find("inertial")
    if inertial is None:
        return made
    com, turn = _origin(inertial)
    matrix = inertial.find("inertia")
    xx, yy, zz, xy, xz, yz = (_number(matrix, key) for key in ("ixx", "iyy", "izz", "ixy", "ixz", "iyz"))
    inertia = inertia_of(rotation(turn), tensor((xx, yy, zz, xy, xz, yz)))
    return replace(made, mass=_number(inertial.find("mass"), "value"), com=com, inertia=inertia)


def _joint(path: Path, joint: Element, drives: Callable[[str], bool]) -> JointSpec | None:
    name, kind = joint.get("name", ""), joint.get("type")
    if kind not in HINGES or _undrivable(joint, drives):
        return None
    axis = _numbers(joint.find("axis"), "xyz", (1.0, 0.0, 0.0))
    if not any(axis):
        raise ValueError(f"{path}: joint {name!r} has axis {axis}, expected a direction")
    limit, dynamics = joint.find("limit"), joint.find("dynamics")
    stated = {} if limit is None else limit.attrib
    span = stated if kind == "revolute" else {}
    return JointSpec(
        name=name,
        axis=vector(number / math.hypot(*axis) for number in axis),
        low=span.get("lower", math.nan),
        high=span.get("upper", math.nan),
        speed=stated.get("velocity"),
        effort=stated.get("effort", math.nan),
        kp=math.nan,
        kd=math.nan,
        default=0.0,
        group=guess_groups([name])[0],
        damping=_number(dynamics, "damping"),
        frictionloss=_number(dynamics, "friction"),
        source=path.name,
    )


def _undrivable(joint: Element, drives: Callable[[str], bool]) -> str:
    """The reason why a joint cannot be driven, or "" if it can, or need not be."""
    name, kind, follows = joint.get("name", ""), joint.get("type"), joint.find("mimic") is not None
    if kind == "fixed" or not drives(name) or (kind in HINGES and not follows):
        return ""
    return f"joint {name!r} is {'a mimic joint' if follows else kind}"


def _meshes(path: Path, link: Element) -> tuple[Geom, ...]:
    """The collision meshes of a link, or else its visual ones; none if a file is missing."""
    for shapes in (link.findall("collision"), link.findall("visual")):
        named = [(shape, mesh) for shape in shapes for mesh in shape.iterfind("geometry/mesh")]
        files = [mesh_file(path, mesh.get("filename", "")) for _, mesh in named]
        if named and all(files):
            return tuple(
                Geom("mesh", _numbers(mesh, "scale", (1.0, 1.0, 1.0)), *_origin(shape), file=str(file))
                for (shape, mesh), file in zip(named, files, strict=True)
            )
    return ()


def _geoms(shape: Element) -> Iterator[Geom]:
    pos, rpy = _origin(shape)
    for solid in shape.iterfind("geometry/*"):
        if solid.tag == "box":
            size: tuple[float, ...] = tuple(edge / 2 for edge in _numbers(solid, "size", ZERO))
        elif solid.tag == "sphere":
            size = (_number(solid, "radius"),)
        elif solid.tag in ("cylinder", "capsule"):
            size = (_number(solid, "radius"), _number(solid, "length") / 2)
        else:
            continue  # a mesh
        yield Geom(solid.tag, size, pos, rpy, touches=True)


def _origin(element: Element | None) -> tuple[Vector, Vector]:
    """The xyz and rpy of an element's <origin>; zero without one."""
    origin = None if element is None else element.find("origin")
    return vector(_numbers(origin, "xyz", ZERO)), vector(_numbers(origin, "rpy", ZERO))


def _number(element: Element | None, key: str) -> float:
    return _numbers(element, key, (0.0,))[0]


def _numbers(element: Element | None, key: str, default: tuple[float, ...]) -> tuple[float, ...]:
    if element is None or element.get(key) is None:
        return default
    try:
        found = tuple(float(word) for word in element.get(key, "").split())
    except ValueError:
        found = ()
    if len(found) != len(default) or not all(map(math.isfinite, found)):
        raise ValueError(f"<{element.tag} {key}={element.get(key)!r}>: expected {len(default)} finite number(s)")
    return found
