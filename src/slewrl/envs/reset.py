"""The reset action: what counts as executed before an episode's first step, so that the limit holds from there on.

It comes from the first of these that has one:

1. ``env.reset(options={"reset_action": ...})``
2. the environment: the wrapper's ``reset_action=lambda env: env.unwrapped.data.qpos[:7]``, or ``info["reset_action"]``
   of the environment's own reset
3. the user's numbers: the wrapper's ``reset_action=...``, then ``RateLimits(reset=...)`` or ``reset`` in limits.yaml
4. 0, or the nearest in range, where 0 is clearly meant, as for torques; elsewhere the pose is unknown
"""

import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from slewrl.limits import RateLimits
from slewrl.limits.parse import Values, read_reset

RESET = "reset_action"
"""The key in options and info."""
Given = Values | Callable[[Any], Values] | None
"""What a user may give: a number for all joints, one per joint, ``{joint: number}``, "middle", or a function of the
environment that has just been reset."""
Unsaid = Literal["refuse", "warn"]
"""What to do where the reset action is unknown and 0 is not clearly meant."""

REMEDY = (
    "Give the pose: as reset_action=[...] (or {joint: value}, or a function such as lambda env: "
    "env.unwrapped.data.qpos), as --reset-action, as `reset` of RateLimits or limits.yaml, or let the environment's "
    'reset return it as info["reset_action"]'
)

FIXED = (
    "Give the pose as reset_action=[...] (or {joint: value}), as --reset-action of slewrl export, or as `reset` of "
    "RateLimits or limits.yaml"
)
"""The same, where the environment cannot give it."""


class ResetAction:
    """Finds the reset action of each episode, in the order of the module's list.

    Args:
        name: the environment's name, for messages.
        limits: rate limits of d joints.
        given: what the user gave the wrapper.
        dtype: dtype of the reset action.
        unsaid: what to do where it is unknown.
        zero: whether the environment is known to mean 0.
        remedy: the advice to a user who did not give one.
    """

    def __init__(
        self,
        name: str,
        limits: RateLimits,
        given: Given,
        dtype: Any,
        unsaid: Unsaid,
        zero: bool = False,
        remedy: str = REMEDY,
    ) -> None:
        self.name, self.limits, self.dtype, self.unsaid, self.remedy = name, limits, dtype, unsaid, remedy
        self._function = given if callable(given) else None
        values = None if callable(given) else given
        self.known = zero or limits.reset is not None or values is not None
        """Whether ``usual`` is more than a guess."""
        self.usual = start_action(limits, values, dtype)
        """(d,): the reset action of an episode that has no other."""

    def find(self, env: Any, options: dict[str, Any] | None, info: dict[str, Any]) -> NDArray[Any]:
        """The reset action of the episode that has just begun, (d,)."""
        values = self._given(env, options)
        return self._read(info.get(RESET) if values is None else values)

    def find_each(
        self, env: Any, which: NDArray[np.bool_], options: dict[str, Any] | None, info: dict[str, Any]
    ) -> Iterator[tuple[int, NDArray[Any]]]:
        """Index and reset action (d,) of each environment that has just begun an episode; ``which`` (N,) is a mask."""
        values: Any = self._given(env, options)
        rows = not isinstance(values, str | Mapping) and np.ndim(values) == 2
        if rows and len(values) != len(which):
            raise ValueError(
                f"{self.name}: reset_action has {len(values)} rows, expected {len(which)}: one each, or (d,)"
            )
        for k in np.flatnonzero(which).tolist():
            row = values[k] if rows else values
            yield k, self._read(_info_of(info, k) if row is None else row)

    def _given(self, env: Any, options: dict[str, Any] | None) -> Values | None:
        """The reset action in the options, or by the user's function."""
        if options and options.get(RESET) is not None:
            return options[RESET]
        if self._function is None:
            return None
        try:
            return self._function(env)
        except Exception as error:
            raise ValueError(
                f"{self.name}: reset_action, a function of the environment, raised {type(error).__name__}: {error}; "
                "expected one such as lambda env: env.unwrapped.data.qpos"
            ) from error

    def _read(self, values: Values | None) -> NDArray[Any]:
        if values is not None:
            return start_action(self.limits, values, self.dtype)
        if not self.known:
            self._complain()
        return self.usual

    def _complain(self) -> None:
        if not (reason := self.limits.why_not_zero()):
            return
        unknown = f"{self.name}: where the joints are at a reset is not known, and 0 is not clearly meant ({reason})"
        if self.unsaid == "refuse":
            raise ValueError(f"{unknown}, so the first step would not be limited from the true pose. {self.remedy}")
        pose = ", ".join(f"{name} {x:.4g}" for name, x in zip(self.limits.names, self.usual, strict=True))
        warnings.warn(
            f"{unknown}. They are taken to be at {pose}: if they are not, the first step jumps there. {self.remedy}",
            UserWarning,
            stacklevel=4,
        )
        self.known = True  # once is enough


def _info_of(info: dict[str, Any], k: int) -> Any:
    """The reset action of environment k in a vector environment's info, which has an array and a mask."""
    found, mask = info.get(RESET), info.get(f"_{RESET}")
    if found is None or (mask is not None and not mask[k]):
        return None
    if isinstance(found, Mapping):
        return {joint: values[k] for joint, values in found.items() if f"_{joint}" in found}
    return found[k]


def start_action(limits: RateLimits, wanted: Values | None, dtype: Any) -> NDArray[Any]:
    """A reset action, (d,), read-only: ``wanted``, the limits' own, or 0, clamped into the range in ``dtype``."""
    import torch

    given = limits.reset if wanted is None else read_reset(wanted, limits)
    pose = np.zeros(limits.dim) if given is None else given
    start: NDArray[Any] = limits.clamp(torch.from_numpy(pose.astype(dtype))).numpy()
    start.setflags(write=False)
    return start


def known_start(name: str, limits: RateLimits, given: Values | None, unsaid: Unsaid) -> NDArray[np.float32]:
    """The reset action, (d,), of every episode of an environment that cannot give it."""
    return ResetAction(name, limits, given, np.float32, unsaid, remedy=FIXED).find(None, None, {})


def without_ours(options: dict[str, Any] | None) -> dict[str, Any] | None:
    """Options of a reset without the reset action, for the environment."""
    if not options or RESET not in options:
        return options
    return {key: value for key, value in options.items() if key != RESET} or None


def parse_reset(text: str) -> Values:
    """Read ``--reset-action``: "middle", a number for all joints, "0.1,-0.5", or "hip=0.1,knee=-0.5"."""
    parts = [part.strip() for part in text.split(",")]
    if "=" in text:
        pairs = [part.partition("=") for part in parts]
        if len({name.strip() for name, _, _ in pairs}) < len(pairs):
            raise ValueError(f"--reset-action is {text!r}, which names a joint twice")
        return {name.strip(): value.strip() for name, _, value in pairs}
    return parts[0] if len(parts) == 1 else parts
