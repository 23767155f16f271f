"""The reset action: what counts as applied before an episode's first step, so that the limit holds from there on.

It comes from the first of these that has one:

1. ``env.reset(options={"reset_action": ...})``
2. the environment: the wrapper's ``reset_action=lambda env: env.unwrapped.data.qpos[:7]``, or what the environment's
   own reset returns as ``info["reset_action"]``
3. numbers of the user's: the wrapper's ``reset_action=...``, then ``RateLimits(reset=...)`` or ``reset`` in limits.yaml
   ("middle" for the middle of each range)
4. 0, or the nearest in range, where 0 is clearly meant, as for torques; elsewhere nobody knows the pose
"""

import warnings
from collections.abc import Callable, Mapping
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from slewrl.limits import RateLimits
from slewrl.reading import Values, read_reset

RESET = "reset_action"
"""The key in options and info."""
Given = Values | Callable[[Any], Values] | None
"""What a user may say: a number for all joints, one per joint, ``{joint: number}``, "middle", or a function of the
environment that has just been reset."""
Unsaid = Literal["refuse", "warn"]
"""What to do where nobody said the reset action and 0 is not clearly meant."""

REMEDY = (
    "Give the pose: as reset_action=[...] (or {joint: value}, or a function such as lambda env: "
    "env.unwrapped.data.qpos), as --reset-action, as `reset` of RateLimits or limits.yaml, or let the environment's "
    'reset return it as info["reset_action"]'
)


class ResetAction:
    """Finds the reset action of each episode; see the module for where.

    Args:
        name: of the environment, for messages.
        limits: of d joints.
        given: what the user said to the wrapper.
        dtype: of the environment's actions.
        unsaid: what to do where nobody says it.
    """

    def __init__(self, name: str, limits: RateLimits, given: Given, dtype: Any, unsaid: Unsaid) -> None:
        self.name, self.limits, self.dtype, self.unsaid = name, limits, dtype, unsaid
        self._asked = given if callable(given) else None
        said = None if callable(given) else given
        self.said = limits.reset is not None or said is not None
        """Whether the user said it in numbers."""
        self.usual = start_action(limits, said, dtype)
        """(d,): of an episode for which nobody says more."""

    def find(self, env: Any, options: dict[str, Any] | None, info: dict[str, Any]) -> NDArray[Any]:
        """Of the episode that has just begun, (d,), or (N, d) where the source has one for each of N environments."""
        if options and options.get(RESET) is not None:
            return self._read(options[RESET])
        if self._asked is not None:
            return self._read(self._ask(env))
        if info.get(RESET) is not None:
            return self._read(info[RESET])
        if not self.said:
            self._complain()
        return self.usual

    def _ask(self, env: Any) -> Values:
        assert self._asked is not None
        try:
            return self._asked(env)
        except Exception as error:
            raise ValueError(
                f"{self.name}: reset_action, a function of the environment, raised {type(error).__name__}: {error}; "
                "expected one such as lambda env: env.unwrapped.data.qpos"
            ) from error

    def _read(self, values: Values) -> NDArray[Any]:
        rows: Any = values
        if not isinstance(values, str | Mapping) and np.ndim(rows) == 2:
            return np.stack([start_action(self.limits, row, self.dtype) for row in rows])
        return start_action(self.limits, values, self.dtype)

    def _complain(self) -> None:
        if not (reason := self.limits.why_not_zero()):
            return
        unknown = f"{self.name}: where the joints are at a reset is not known, and 0 is not clearly meant ({reason})"
        if self.unsaid == "refuse":
            raise ValueError(f"{unknown}, so the first step would not be limited from the true pose. {REMEDY}")
        pose = ", ".join(f"{name} {x:.4g}" for name, x in zip(self.limits.names, self.usual, strict=True))
        warnings.warn(
            f"{unknown}. They are taken to be at {pose}: if they are not, the first step jumps there. {REMEDY}",
            UserWarning,
            stacklevel=4,
        )
        self.said = True  # once is enough


def start_action(limits: RateLimits, wanted: Values | None, dtype: Any) -> NDArray[Any]:
    """A reset action in the environment's dtype, (d,): ``wanted``, the limits' own, or 0 moved into the range."""
    import torch

    said = limits.reset if wanted is None else read_reset(wanted, limits)
    pose = np.zeros(limits.dim) if said is None else said
    # In float32 if the environment's dtype is wider: what a policy executes is, and its replay must hold it exactly.
    start: NDArray[Any] = limits.clamp(torch.from_numpy(pose.astype(np.float32))).numpy().astype(dtype)
    return start


def known_start(name: str, limits: RateLimits, given: Values | None, unsaid: Unsaid) -> NDArray[np.float32]:
    """The reset action, (d,), of every episode of an environment that has no say in it."""
    found = ResetAction(name, limits, given, np.float32, unsaid)
    return found.find(None, None, {})


def without_ours(options: dict[str, Any] | None) -> dict[str, Any] | None:
    """Options of a reset as the environment gets them."""
    if not options or RESET not in options:
        return options
    return {key: value for key, value in options.items() if key != RESET} or None


def parse_reset(text: str) -> Values:
    """What a command line says: "middle", a number for all joints, "0.1,-0.5", or "hip=0.1,knee=-0.5"."""
    parts = [part.strip() for part in text.split(",")]
    if "=" in text:
        pairs = [part.partition("=") for part in parts]
        if len({name for name, _, _ in pairs}) < len(pairs):
            raise ValueError(f"--reset-action is {text!r}, which names a joint twice")
        return {name.strip(): value.strip() for name, _, value in pairs}
    return parts[0] if len(parts) == 1 else parts
