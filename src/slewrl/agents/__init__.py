"""Agents by name, one self-contained file each."""

from abc import ABCMeta
from typing import TYPE_CHECKING, Any, cast

from slewrl.registry import Registry

if TYPE_CHECKING:
    from slewrl.agents.base import Agent

AGENTS = Registry(
    "agent",
    {
        "sac": "slewrl.agents.sac:SAC",
        "td3": "slewrl.agents.td3:TD3",
        "fastsac": "slewrl.agents.fastsac:FastSAC",
        "ppo": "slewrl.agents.ppo:PPO",
        "ppo_lag": "slewrl.agents.ppo_lag:PPOLag",
    },
)


def agent_class(name: str) -> "type[Agent]":
    """The class behind a name of ``AGENTS`` or a dotted path; raises ValueError if it is not a class of agents."""
    from slewrl.agents.base import Agent

    kind: Any = AGENTS[name]
    if not (isinstance(kind, ABCMeta) and Agent in kind.__mro__):
        raise ValueError(f"agent {name!r} is {kind!r}, expected a class that subclasses slewrl.agents.base.Agent")
    if missing := sorted(kind.__abstractmethods__):
        raise ValueError(f"agent {name!r} lacks what slewrl.agents.base.Agent asks for: {', '.join(missing)}")
    return cast("type[Agent]", kind)
