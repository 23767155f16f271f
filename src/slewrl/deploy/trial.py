"""A trial: a controller driven through everything that goes wrong on a robot, every command judged exactly."""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from slewrl import boxmath
from slewrl.deploy.limiter import Vector

if TYPE_CHECKING:
    from slewrl.deploy.controller import Controller

Say = Callable[[str], None]


@dataclass
class Trial:
    """What a million bad days on the robot came to. Every command was judged in exact arithmetic."""

    steps: int = 0
    joint_steps: int = 0
    violations: int = 0
    """Joint-steps outside F_t."""
    bad_observations: int = 0
    """Steps with NaN or infinity in the observation."""
    mad_commands: int = 0
    """Steps at which the network's output was replaced by NaN, infinities and commands at the edges to the ulp."""
    held: int = 0
    """Of those, steps that held the last command, as they should."""
    faults: int = 0
    """How often the controller went into fault, as it should after enough of them."""
    restarts: int = 0
    """Starts from the last command, from a measured pose, and from poses outside the range."""
    deratings: int = 0
    timed_steps: int = 0
    """Steps with a measured dt: short, late, zero, negative, NaN."""
    holds: int = 0
    """Emergency holds."""

    @property
    def passed(self) -> bool:
        """No command outside, and none that moved on a bad observation."""
        return self.violations == 0 and self.held == self.bad_observations


class Adversary:
    """Drives a controller through everything that goes wrong, and judges every command.

    Args:
        controller: the real one.
        seed: of what goes wrong when.
    """

    def __init__(self, controller: "Controller", seed: int) -> None:
        self.controller, self.rng, self.trial = controller, np.random.default_rng(seed), Trial()
        limits = controller.bundle.limits
        self.low, self.high, self.up, self.down = limits.low, limits.high, limits.up.copy(), limits.down.copy()
        self.command: Vector = np.empty_like(self.low)
        self.burst = 0
        """Broken observations still to come."""
        self._policy, controller._asked = controller._asked, self._asked  # type: ignore[method-assign]
        controller.start(self._pose(), ramp=False)

    def run(self, steps: int, say: Say = lambda line: None) -> Trial:
        """Make ``steps`` steps; returns what they came to."""
        for k in range(steps):
            event = self.rng.random()
            if event < 0.01:
                self._disturb()
            self._step(dt=self._dt() if event > 0.95 and self.controller.limiter.dt else None)
            if (k + 1) % 100_000 == 0:
                say(f"{k + 1:,} steps, {self.trial.violations} violations")
        return self.trial

    # ------------------------------------------------------------------ what goes wrong

    def _disturb(self) -> None:
        kind = int(self.rng.integers(5))
        self.controller.release()
        if kind == 0:
            self.controller.start(self.controller.prev, ramp=False)  # the process was started again
        elif kind == 1:
            self.controller.start(self._pose())  # from wherever the robot is, with a ramp
        elif kind == 2:
            self._derate()
        elif kind == 3:
            self.controller.hold()
            self.trial.holds += 1
        else:
            self.burst = int(self.rng.integers(1, 12))
        self.trial.restarts += kind in (0, 1)

    def _asked(self, prev: Vector) -> Any:
        """What the network wants, or, every other time, what a mad one would: at the edges to the ulp, far out, NaN."""
        wanted = self._policy(prev)
        if self.rng.random() < 0.5:
            return wanted
        self.trial.mad_commands += 1
        d = len(prev)
        edge = prev + self.rng.choice([-1.0, 1.0], d) * self.rng.choice([self.up, self.down])
        edge = np.nextafter(edge, self.rng.choice([-np.inf, np.inf], d))
        wild = self.rng.choice([np.nan, np.inf, -np.inf, 1e308, -1e308, 0.0], d)
        return np.where(self.rng.random(d) < 0.5, edge, wild)

    def _pose(self) -> Vector:
        """In the range, on its edge, or pushed out of it by hand."""
        pose = self.rng.uniform(self.low, self.high)
        edge = self.rng.random(len(pose))
        pose = np.where(edge < 0.1, self.low, np.where(edge > 0.9, self.high, pose))
        return pose + (self.rng.random() < 0.2) * self.rng.normal(0, 0.1, len(pose)) * (self.high - self.low)

    def _derate(self) -> None:
        limits = self.controller.bundle.limits
        share = self.rng.random(len(limits.names)) * (self.rng.random(len(limits.names)) < 0.8)
        rates = {name: float(limits.up[i] * share[i]) for i, name in enumerate(limits.names)}
        chosen = None if self.rng.random() < 0.3 else rates
        self.controller.derate(chosen)
        lowered = limits.up * share if chosen else np.full_like(limits.up, np.inf)
        self.up, self.down = np.minimum(limits.up, lowered), np.minimum(limits.down, lowered)
        self.trial.deratings += 1

    def _dt(self) -> float:
        """Of a step that was short, late, on time, or measured wrongly."""
        nominal = self.controller.limiter.dt or 1.0
        self.trial.timed_steps += 1
        odd = (0.0, -nominal, float("nan"), float("inf"), nominal, 5 * nominal, np.nextafter(nominal, 0.0))
        return float(
            odd[int(self.rng.integers(len(odd)))] if self.rng.random() < 0.3 else self.rng.exponential(nominal)
        )

    def _observation(self) -> NDArray[np.float32]:
        """Ordinary, huge, tiny, or broken."""
        n = self.controller.bundle.observation_size
        seen = self.rng.standard_normal(n, np.float32)
        kind, self.burst = self.rng.random(), self.burst - 1
        if kind < 0.2:
            seen *= np.float32(10.0 ** self.rng.uniform(-30, 30))
        if (kind > 0.98 or self.burst > 0) and n:
            seen[self.rng.integers(n, size=max(1, n // 8))] = self.rng.choice([np.nan, np.inf, -np.inf])
        return seen

    # ------------------------------------------------------------------ a step, judged

    def _step(self, dt: float | None) -> None:
        controller, trial = self.controller, self.trial
        prev, seen, well = controller.prev, self._observation(), controller.fault is None
        controller.step(seen, dt, self.command)
        trial.steps += 1
        trial.joint_steps += len(prev)
        # From outside the range a joint may stay or come back.
        low, high = np.minimum(self.low, prev), np.maximum(self.high, prev)
        trial.violations += int(boxmath.outside(self.command, prev, self.down, self.up, low, high).sum())
        if dt is not None:
            trial.violations += self._too_far(prev, dt)
        if not np.isfinite(seen).all():
            trial.bad_observations += 1
            trial.held += np.array_equal(self.command, prev)
            trial.faults += well and controller.fault is not None
        if controller.fault is not None and self.rng.random() < 0.2:
            controller.start(prev, ramp=False)  # a person has looked at it
            trial.restarts += 1

    def _too_far(self, prev: Vector, dt: float) -> int:
        """Joints that moved more than their share of a step of ``dt`` seconds, in rational numbers."""
        nominal = self.controller.limiter.dt or 1.0
        if not dt > 0:
            return int((self.command != prev).sum())
        share = Fraction(dt) / Fraction(nominal) if dt < nominal else Fraction(1)
        moved = [Fraction(c) - Fraction(p) for c, p in zip(self.command, prev, strict=True)]
        allowed = [(-Fraction(d) * share, Fraction(u) * share) for d, u in zip(self.down, self.up, strict=True)]
        return sum(not fall <= move <= rise for move, (fall, rise) in zip(moved, allowed, strict=True))
