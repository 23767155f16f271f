"""Recipes: named sets of an agent's hyperparameters. Plain data, read without torch."""

from collections.abc import Mapping
from typing import Any, NamedTuple


class Recipe(NamedTuple):
    """Values that differ from the defaults of RunSpec and of the agent's config."""

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
"""What SAC and TD3 share of Table hyperparams_full; what depends on the layer is in `paper/printed.py`."""

NO_RECIPE = Recipe({"batch_size": 256}, {})
"""For PPO, which does not use the batch size: the value its run.json always had."""
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
                **dict.fromkeys(("calm", "caps", "caps_spatial", "l2c2"), 0.0),
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
                "calm": 0.0,
            },
        ),
    },
    "fastsac": {
        "cpu": Recipe(
            # 240 transitions and their mirror images are 480 rows: smaller batches allow more updates on a core.
            {
                "environments": 128,
                "batch_size": 240,
                "capacity": 1_000_000,
                "learning_starts": 6_400,
                "evaluate_every": 400_000,
                "evaluate_episodes": 32,
            },
            # docs/robots.md says why.
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
        # As published: 10 steps of every environment before the first update, 1024 in the replay buffer.
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
    "ppo": {
        "sb3": NO_RECIPE,  # the config's own defaults
        # For a walking robot on one core; docs/robots.md says why.
        "cpu": Recipe(
            {"environments": 256, "batch_size": 256, "evaluate_every": 500_000, "evaluate_episodes": 32},
            {
                "rollout": 32,
                "minibatch": 4096,
                "epochs": 5,
                "desired_kl": 0.015,
                "adapts": "rollout",
                "entropy_weight": 0.001,
                "value_weight": 1.0,
                "max_grad_norm": 1.0,
                "hidden": (256, 128),
                "initial_log_std": -2.0,
                "normalize": True,
                "normalize_previous": True,
                "symmetry": True,
            },
        ),
    },
}
"""Recipes by agent and name; the first is the default."""


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
    """Options of an agent's config that are not its defaults: the recipe's, overridden by the run's own."""
    return {**find(agent, recipe).agent, **options}


def upgraded(spec: dict[str, Any]) -> dict[str, Any]:
    """A spec from before there were recipes, when SAC and TD3 had the paper's values; any other is unchanged."""
    if "recipe" in spec:
        return spec
    kept = {"batch_size": 256} | {name: value for name, value in spec.items() if name != "preset"}
    return {**kept, "recipe": "paper" if spec.get("agent", "sac") in ("sac", "td3") else spec.get("preset", "")}
