"""Recipes: an agent's hyperparameters that go together, by name. Plain data, read without torch."""

from collections.abc import Mapping
from typing import Any, NamedTuple


class Recipe(NamedTuple):
    """What differs from the defaults of RunSpec and of the agent's config."""

    run: dict[str, Any]
    """Fields of RunSpec."""
    agent: dict[str, Any]
    """Fields of the agent's config."""


_PAPER_RUN = {"learning_starts": 10_000, "batch_size": 256, "capacity": 1_000_000}
_PAPER_AGENT = {
    "hidden": (256, 256),
    "learning_rate": 3e-4,
    "max_grad_norm": 1.0,
    "discount": 0.99,
    "target_rate": 0.005,
    "updates": 1,
    "critic_input": "action",
    "layer_norm": False,
}
"""Table hyperparams_full, what SAC and TD3 share; it has no layer norm. What depends on the layer is `printed.py`'s."""

RECIPES: dict[str, dict[str, Recipe]] = {
    "sac": {
        "ours": Recipe({}, {}),  # the config's own defaults
        "paper": Recipe(
            _PAPER_RUN,
            {
                **_PAPER_AGENT,
                "policy_delay": 1,
                "initial_temperature": 1.0,
                "temperature_rate": 3e-4,
                "target_entropy_per_joint": -1.0,
            },
        ),
    },
    "td3": {
        "ours": Recipe({"batch_size": 256}, {}),
        "paper": Recipe(
            _PAPER_RUN,
            {
                **_PAPER_AGENT,
                "exploration_noise": 1.0,
                "target_noise": 0.2,
                "target_noise_clip": 0.5,
                "policy_delay": 2,
            },
        ),
    },
    "fastsac": {
        "cpu": Recipe(
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
        # As published: ten steps of everything before the first update, 1024 steps of everything in the replay.
        "gpu": Recipe(
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
    },
}
"""Agent -> recipe; the first is the default."""

NO_RECIPE = Recipe({"batch_size": 256}, {})
"""Of PPO, which has no use for a batch size: what its runs have always written down."""


def find(agent: str, recipe: str) -> Recipe:
    """An agent's recipe by name; "" is the default one, and ``NO_RECIPE`` for agents without any."""
    known = RECIPES.get(agent, {})
    if recipe and recipe not in known:
        raise ValueError(f"recipe is {recipe!r}, but {agent} has {', '.join(known) or 'none'}")
    return known[recipe or default(agent)] if known else NO_RECIPE


def default(agent: str) -> str:
    """The name of the recipe that "" stands for; "" for agents without any."""
    return next(iter(RECIPES.get(agent, {})), "")


def agent_options(agent: str, recipe: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """What of an agent's config is not its default: the recipe's, and over it the run's own."""
    return {**find(agent, recipe).agent, **options}


def upgraded(spec: dict[str, Any]) -> dict[str, Any]:
    """A spec from before there were recipes, when SAC and TD3 had the paper's; any other as it is."""
    if "recipe" in spec:
        return spec
    kept = {"batch_size": 256} | {name: value for name, value in spec.items() if name != "preset"}
    return {**kept, "recipe": "paper" if spec.get("agent", "sac") in ("sac", "td3") else spec.get("preset", "")}
