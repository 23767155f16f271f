"""What no config may contain, whatever the agent."""

import dataclasses
import math
from typing import Any

POSITIVE = ("learning_rate", "max_grad_norm", "initial_temperature")
SHARES = ("discount", "target_rate")
NOISES = ("exploration_noise", "target_noise", "target_noise_clip")


def check_config(config: Any) -> None:
    """Refuse values that no run could use, naming the field."""
    values = {field.name: getattr(config, field.name) for field in dataclasses.fields(config)}
    for name, value in values.items():
        number = isinstance(value, int | float) and not isinstance(value, bool) and not math.isnan(value)
        if name in POSITIVE and not (number and value > 0):
            raise ValueError(f"{name} is {value!r}, expected a number > 0")
        if name in SHARES and not (number and 0 <= value <= 1):
            raise ValueError(f"{name} is {value!r}, expected a number in [0, 1]")
        if name in NOISES and not (number and 0 <= value < math.inf):
            raise ValueError(f"{name} is {value!r}, expected a finite number >= 0")
    hidden = values["hidden"]
    if not isinstance(hidden, tuple) or not hidden or not all(isinstance(n, int) and n > 0 for n in hidden):
        raise ValueError(f"hidden is {hidden!r}, expected widths such as (256, 256)")
    between = values.get("log_std_range", (0.0, 1.0))
    if not isinstance(between, tuple) or len(between) != 2 or not between[0] < between[1]:
        raise ValueError(f"log_std_range is {between!r}, expected (low, high) with low < high")
    if values["mean_bound"] not in ("linear", "tanh"):
        raise ValueError(f"mean_bound is {values['mean_bound']!r}, expected 'linear' or 'tanh'")
