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
            # 240 transitions and their mirror images are 480 rows: smaller batches leave a core more updates.
            {
                "environments": 128,
                "batch_size": 240,
                "capacity": 1_000_000,
                "learning_starts": 6_400,
                "evaluate_every": 400_000,
                "evaluate_episodes": 32,
            },
            # In single pilot runs of G1 on one core each of these made it learn faster: over a hundred times fewer
            # updates than a GPU makes want a larger step, a horizon (67 steps) longer than a stride (50) is what
            # staying up takes, and returns of -2 to 10 want atoms there.
            {
                "actor_hidden": (256, 128, 64),
                "critic_hidden": (256, 128, 64),
                "updates": 4,
                "policy_every": 2,
                "n_steps": 4,
                "learning_rate": 1e-3,
                "discount": 0.985,
                "value_range": (-10.0, 16.0),
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
