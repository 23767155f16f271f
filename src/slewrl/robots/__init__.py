"""Robots as data: facts of joints and links, the limits they imply, and MuJoCo models made of them."""

from slewrl.registry import Registry

__all__ = ["ROBOTS"]

ROBOTS = Registry(
    "robot", {"h1": "slewrl.robots.h1:H1", "g1": "slewrl.robots.g1:G1", "g1_29": "slewrl.robots.g1:G1_29"}
)
"""Robots by name."""
