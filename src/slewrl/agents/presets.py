"""Options of an agent that go together on a kind of machine: plain data, read without torch."""

from typing import Any, NamedTuple


class Preset(NamedTuple):
    """What differs from the defaults."""

    run: dict[str, Any]
    """Fields of RunSpec."""
    agent: dict[str, Any]
    """Fields of the agent's config."""


PRESETS: dict[str, dict[str, Preset]] = {
    "fastsac": {
        # As published: ten steps of everything before the first update, 1024 steps of everything in the replay.
        "gpu": Preset(
            {
                "environments": 4096,
                "batch_size": 8192,
                "capacity": 1024 * 4096,
                "learning_starts": 10 * 4096,
                "evaluate_every": 1_000 * 4096,
                "evaluate_episodes": 100,
            },
            {"amp": "bf16", "compile": True, "device": "cuda"},
        ),
        "cpu": Preset(
            # 512 transitions and their mirror images are 1 024 rows.
            {
                "environments": 64,
                "batch_size": 512,
                "capacity": 1_000_000,
                "learning_starts": 100 * 64,
                "evaluate_every": 100_000,
                "evaluate_episodes": 20,
            },
            {
                "actor_hidden": (256, 128, 64),
                "critic_hidden": (256, 128, 64),
                "updates": 4,
                "policy_every": 2,
                "n_steps": 4,
            },
        ),
    }
}
"""Agent -> preset. The first entry that fits any machine is the default: an agent with presets needs one."""
DEFAULT = "cpu"


def find(agent: str, preset: str) -> Preset:
    """An agent's preset by name; "" is the default one, and empty for agents without any."""
    known = PRESETS.get(agent, {})
    if preset and preset not in known:
        raise ValueError(f"preset is {preset!r}, but {agent} has {', '.join(known) or 'none'}")
    return known[preset or DEFAULT] if known else Preset({}, {})
