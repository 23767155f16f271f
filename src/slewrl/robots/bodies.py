"""Masses and inertias that can be simulated, from files that state impossible ones (docs/robots.md).

Links without a valid inertia are added up with the links they are welded to: only the sum decides how they move.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from slewrl.robots.spec import Floats, Inertia, LinkSpec, RobotSpec, inertia_of, tensor, vector

WATER = 1000.0
"""The density of water, kg / m^3."""
GRAM = 0.001
TINY = 1e-12
"""The smallest inertia, kg m^2; MuJoCo's is 1e-15."""
NO_INERTIA: Inertia = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0)


def with_valid_inertia(path: str | Path, links: Sequence[LinkSpec]) -> tuple[tuple[LinkSpec, ...], list[str]]:
    """Give the links masses and inertias that can be simulated; return a note for each kind of change.

    Raises:
        ValueError: the robot has no mass, or a link with an inertia has none; the message names the link.
    """
    for link in links:
        if link.mass < 0:
            raise ValueError(f"{path}: link {link.name!r} has mass {link.mass}, expected it positive, or 0 of a frame")
    welded, idle = _without_idle_joints(path, links)
    summed, added = _summed(welded)
    found = tuple(_body(path, link) for link in summed)
    pairs = list(zip(summed, found, strict=True))
    balls = [link.name for was, link in pairs if link.mass != was.mass]
    odd = [link.name for was, link in pairs if link.inertia != was.inertia and link.mass == was.mass]
    notes = {
        "welded, since nothing with a mass hangs on these joints": idle,
        "counted with the links they are welded to, since they are no bodies by themselves": added,
        "taken as balls of 1 g, since they move without a mass": balls,
        "given the nearest inertia that a body can have, at least that of a ball of water": odd,
    }
    return found, [f"{note}: {several(names)}" for note, names in notes.items() if names]


def rigid_parts(links: Iterable[LinkSpec]) -> dict[str, str]:
    """Link -> the moving link to which it is welded; a moving link is its own."""
    heads: dict[str, str] = {}
    for link in links:
        heads[link.name] = link.name if moves(link) else heads[link.parent]
    return heads


def moves(link: LinkSpec) -> bool:
    """Whether a link moves relative to its parent; the base does."""
    return not link.parent or (link.joint is not None and not link.locked)


def several(names: Sequence[str], most: int = 3) -> str:
    """List the first names and the number of the others."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")


def ball_radius(mass: float) -> float:
    """The radius of a ball of water, m."""
    return float((0.75 * mass / (math.pi * WATER)) ** (1 / 3))


def spread(inertia: Inertia) -> Floats:
    """The second moment of mass, (3, 3), kg m^2: the sum of m x x^T over a body's points x from its centre of mass."""
    matrix = tensor(inertia)
    return np.trace(matrix) / 2 * np.eye(3) - matrix


def _without_idle_joints(path: str | Path, links: Sequence[LinkSpec]) -> tuple[list[LinkSpec], list[str]]:
    """Weld the joints that carry no mass; return the links and the names of those joints."""
    beyond = {link.name: link.mass for link in links}
    for link in reversed(links):
        if link.parent:
            beyond[link.parent] += beyond[link.name]
    if not beyond[links[0].name]:
        raise ValueError(
            f"{path}: link {links[0].name!r} has no inertial, expected mass and inertia of a link that moves"
        )
    idle = {link.name for link in links if moves(link) and not beyond[link.name]}
    made = [replace(link, locked=True) if link.name in idle else link for link in links]
    return made, [link.joint.name for link in links if link.joint and link.name in idle]


def _summed(links: Sequence[LinkSpec]) -> tuple[list[LinkSpec], list[str]]:
    """Add up each rigid part that has an invalid link in its moving link; return the links and the invalid ones."""
    heads = rigid_parts(links)
    odd = [link.name for link in links if not _is_body(link) and (moves(link) or link.mass or any(link.inertia))]
    parts = {heads[name] for name in odd}
    frames = RobotSpec("", tuple(links), ("", ""), "", (), ()).frames() if parts else {}
    made = []
    for link in links:
        if heads[link.name] not in parts:
            made.append(link)
        elif moves(link):
            made.append(_sum(link, [other for other in links if heads[other.name] == link.name], frames))
        else:
            made.append(replace(link, mass=0.0, inertia=NO_INERTIA))
    return made, [link.name for link in links if link.name in odd and not moves(link)]


def _sum(head: LinkSpec, part: Sequence[LinkSpec], frames: dict[str, tuple[Floats, Floats]]) -> LinkSpec:
    """The moving link with the mass and inertia of its whole rigid part."""
    if len(part) == 1:
        return head
    origin, turn = frames[head.name]
    mass = sum(link.mass for link in part)
    places = [turn.T @ (frames[link.name][0] + frames[link.name][1] @ link.com - origin) for link in part]
    weights = [link.mass / mass if mass else 1 / len(part) for link in part]
    centre = np.einsum("i,ij->j", weights, places)
    total = np.zeros((3, 3))
    for link, place in zip(part, places, strict=True):
        arm = place - centre
        total += tensor(inertia_of(turn.T @ frames[link.name][1], tensor(link.inertia)))
        total += link.mass * (arm @ arm * np.eye(3) - np.outer(arm, arm))
    return replace(head, mass=mass, com=vector(centre), inertia=inertia_of(np.eye(3), total))


def _body(path: str | Path, link: LinkSpec) -> LinkSpec:
    """The link with a valid mass and inertia, if it moves."""
    if _is_body(link) or not moves(link):
        return link
    if link.mass == 0 and any(link.inertia):
        raise ValueError(
            f"{path}: link {link.name!r} has mass 0 and principal moments "
            f"{np.linalg.eigvalsh(tensor(link.inertia)).tolist()}, expected a positive mass of a link that moves"
        )
    return replace(link, mass=link.mass or GRAM, inertia=_nearest(link.mass or GRAM, link.inertia))


def _is_body(link: LinkSpec) -> bool:
    """Whether a body can have the link's mass and inertia: positive, and no moment above the sum of the others."""
    small, middle, large = np.linalg.eigvalsh(tensor(link.inertia))
    return bool(link.mass > 0 and small > TINY and small + middle >= large * (1 - 1e-6))


def _nearest(mass: float, inertia: Inertia) -> Inertia:
    """The nearest inertia of a body that extends along each axis at least as far as a ball of water of its mass."""
    along, axes = np.linalg.eigh(spread(inertia))
    along = np.maximum(along, mass * ball_radius(mass) ** 2 / 5)
    return inertia_of(axes, np.diag(along.sum() - along))
