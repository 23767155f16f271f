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
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from slewrl.limits import RateLimits
from slewrl.limits.parse import Values, read_reset

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


FIXED = (
    "Give the pose as reset_action=[...] (or {joint: value}), as --reset-action of slewrl export, or as `reset` of "
    "RateLimits or limits.yaml"
)
"""The same, where the environment has no say in it."""


class ResetAction:
    """Finds the reset action of each episode; see the module for where.

    Args:
        name: of the environment, for messages.
        limits: of d joints.
        given: what the user said to the wrapper.
        dtype: of what comes out.
        unsaid: what to do where nobody says it.
        zero: whether the environment is known to mean 0.
        remedy: what to tell a user who did not say it.
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
        self._asked = given if callable(given) else None
        said = None if callable(given) else given
        self.known = zero or limits.reset is not None or said is not None
        """Whether ``usual`` is more than a guess."""
        self.usual = start_action(limits, said, dtype)
        """(d,): of an episode for which nobody says more."""

    def find(self, env: Any, options: dict[str, Any] | None, info: dict[str, Any]) -> NDArray[Any]:
        """Of the episode that has just begun, (d,)."""
        said = self._said(env, options)
        return self._read(info.get(RESET) if said is None else said)

    def find_each(
        self, env: Any, which: NDArray[np.bool_], options: dict[str, Any] | None, info: dict[str, Any]
    ) -> Iterator[tuple[int, NDArray[Any]]]:
        """Of those of N environments that have just begun an episode, (N,): number and (d,) of each."""
        said: Any = self._said(env, options)
        rows = not isinstance(said, str | Mapping) and np.ndim(said) == 2
        if rows and len(said) != len(which):
            raise ValueError(
                f"{self.name}: reset_action has {len(said)} rows, expected {len(which)}: one each, or (d,)"
            )
        for k in np.flatnonzero(which).tolist():
            mine = said[k] if rows else said
            yield k, self._read(_told(info, k) if mine is None else mine)

    def _said(self, env: Any, options: dict[str, Any] | None) -> Values | None:
        """What the caller of the reset says, or the user's function."""
        if options and options.get(RESET) is not None:
            return options[RESET]
        if self._asked is None:
            return None
        try:
            return self._asked(env)
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


def _told(info: dict[str, Any], k: int) -> Any:
    """What environment k of several told in its info, in Gymnasium's layout: arrays over all, and marks of who did."""
    told, marks = info.get(RESET), info.get(f"_{RESET}")
    if told is None or (marks is not None and not marks[k]):
        return None
    if isinstance(told, Mapping):
        return {joint: values[k] for joint, values in told.items() if f"_{joint}" in told}
    return told[k]


def start_action(limits: RateLimits, wanted: Values | None, dtype: Any) -> NDArray[Any]:
    """A reset action, (d,), read-only: ``wanted``, the limits' own, or 0, moved into the range of ``dtype``."""
    import torch

    said = limits.reset if wanted is None else read_reset(wanted, limits)
    pose = np.zeros(limits.dim) if said is None else said
    start: NDArray[Any] = limits.clamp(torch.from_numpy(pose.astype(dtype))).numpy()
    start.setflags(write=False)
    return start


def known_start(name: str, limits: RateLimits, given: Values | None, unsaid: Unsaid) -> NDArray[np.float32]:
    """The reset action, (d,), of every episode of an environment that has no say in it."""
    found = ResetAction(name, limits, given, np.float32, unsaid, remedy=FIXED)
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
        if len({name.strip() for name, _, _ in pairs}) < len(pairs):
            raise ValueError(f"--reset-action is {text!r}, which names a joint twice")
        return {name.strip(): value.strip() for name, _, value in pairs}
    return parts[0] if len(parts) == 1 else parts
