"""What no config may contain, whatever the agent."""

import dataclasses
import math
from typing import Any

POSITIVE = ("learning_rate", "max_grad_norm", "initial_temperature", "temperature_rate", "clip_range", "q_updates")
SHARES = ("discount", "target_rate", "gae_lambda", "cost_limit", "average_rate")
NOISES = (
    "exploration_noise", "target_noise", "target_noise_clip", "weight_decay", "penalty_scale", "value_weight",
    "entropy_weight", "desired_kl", "multiplier_rate", "initial_multiplier",
)  # fmt: skip
OPTIONAL = ("exploration_noise",)
"""None: the layer's own."""
COUNTS = ("updates", "policy_every", "n_steps", "rollout", "minibatch", "epochs", "q_draws")
SWITCHES = ("symmetry", "sees_all", "normalize", "normalize_advantage", "compile", "layer_norm")
WIDTHS = ("hidden", "actor_hidden", "critic_hidden", "q_hidden")
RANGES = ("log_std_range", "value_range")
WORDS = {
    "mean_bound": ("linear", "tanh"),
    "amp": ("off", "bf16"),
    "advantage": ("gae", "action"),
    "critic_input": ("increment", "action"),
    "noise": ("white", "pink"),
}


def check_config(config: Any) -> None:
    """Refuse values that no run could use, naming the field."""
    values = {field.name: getattr(config, field.name) for field in dataclasses.fields(config)}
    for name, value in values.items():
        number = isinstance(value, int | float) and not isinstance(value, bool) and not math.isnan(value)
        if name in POSITIVE and not (number and value > 0):
            raise ValueError(f"{name} is {value!r}, expected a number > 0")
        if name in SHARES and not (number and 0 <= value <= 1):
            raise ValueError(f"{name} is {value!r}, expected a number in [0, 1]")
        if name in NOISES and not (value is None and name in OPTIONAL) and not (number and 0 <= value < math.inf):
            raise ValueError(f"{name} is {value!r}, expected a finite number >= 0")
        if name == "target_entropy_per_joint" and not (number and math.isfinite(value)):
            raise ValueError(f"{name} is {value!r}, expected a finite number")
        if name in SWITCHES and not isinstance(value, bool):
            raise ValueError(f"{name} is {value!r}, expected true or false")
        if name == "betas" and not (_is_tuple(value) and len(value) == 2 and all(0 <= beta < 1 for beta in value)):
            raise ValueError(f"betas is {value!r}, expected two numbers in [0, 1)")
        if name in COUNTS and not (number and isinstance(value, int) and value >= 1):
            raise ValueError(f"{name} is {value!r}, expected a whole number of at least 1")
        if name in WIDTHS and not (_is_tuple(value) and all(type(n) is int and n > 0 for n in value)):
            raise ValueError(f"{name} is {value!r}, expected widths such as (256, 256)")
        if name in RANGES and not (_is_tuple(value) and len(value) == 2 and value[0] < value[1]):
            raise ValueError(f"{name} is {value!r}, expected (low, high) with low < high")
        if name in WORDS and value not in WORDS[name]:
            raise ValueError(f"{name} is {value!r}, expected {' or '.join(map(repr, WORDS[name]))}")


def _is_tuple(value: Any) -> bool:
    return isinstance(value, tuple) and len(value) > 0
