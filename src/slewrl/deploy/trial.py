"""The adversarial trial: a controller under all kinds of failures, with every command judged exactly."""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from slewrl.deploy.limiter import Vector
from slewrl.limits import boxmath, viability
from slewrl.limits.viability import make_grid

if TYPE_CHECKING:
    from slewrl.deploy.bundle import JointLimits
    from slewrl.deploy.controller import Controller

Say = Callable[[str], None]


@dataclass
class Trial:
    """The counts of an adversarial trial. Every command was judged in exact arithmetic."""

    steps: int = 0
    joint_steps: int = 0
    violations: int = 0
    """The number of joint commands outside F_t."""
    over_rate: int = 0
    """Those of them that moved too far, lower rates included."""
    over_acceleration: int = 0
    """Those of them that changed their speed too much, if the bundle has an acceleration limit."""
    out_of_range: int = 0
    """Those of them beyond a position bound."""
    over_budget: int = 0
    """The number of steps that exceeded the bundle's budget, if it has one."""
    bad_observations: int = 0
    """The number of steps with NaN or infinity in the observation."""
    mad_commands: int = 0
    """The number of steps with a corrupted network output: NaN, infinities, and values an ulp from the edges."""
    held: int = 0
    """The number of steps with a bad observation that held the last command, as all of them should; with an
    acceleration limit, that braked as hard as allowed."""
    faults: int = 0
    """The number of times the controller went into fault."""
    restarts: int = 0
    """The number of restarts: from the last command, from a measured pose, and from poses outside the range."""
    deratings: int = 0
    waited: int = 0
    """The number of joint steps in which a lower deceleration waited until the joint could stop by it."""
    timed_steps: int = 0
    """The number of steps with a measured dt: short, late, zero, negative, NaN."""
    holds: int = 0
    """The number of emergency holds."""

    ramps: int = 0
    """The number of starts far from the default pose, to which the controller ramped first."""
    moved: int = 0
    """The number of steps at which some joint moved; a controller that never moves does not pass."""
    misbehaved: int = 0
    """The number of times the controller did not react as docs/datasheet_to_robot.md says."""
    first_misbehaviour: str = ""

    @property
    def passed(self) -> bool:
        """Whether every command was within limits and budget, every failure was handled, and the controller moved."""
        kept = self.violations == 0 and self.over_budget == 0 and self.misbehaved == 0
        return kept and self.held == self.bad_observations and self.moved > 0


class Speeds:
    """The speeds that an adversary expects of joints with an acceleration limit, kept apart from the controller's.

    Args:
        limits: a bundle's limits.
    """

    def __init__(self, limits: "JointLimits") -> None:
        grid = make_grid(limits, limits.acceleration, limits.deceleration)
        assert grid is not None and limits.acceleration is not None and limits.deceleration is not None
        self.grid, self.full = grid, np.stack([limits.acceleration, limits.deceleration])
        self.present = self.full.copy()
        """Acceleration and deceleration per step squared that each joint has to keep now, (2, d)."""
        self.wanted = self.brakes = grid.deceleration
        """The deceleration asked for, and the one in force, in grid units."""
        self.velocity: Vector = np.zeros_like(grid.unit)
        """The last increment, in action units."""

    def start(self, velocity: Vector | None) -> None:
        """Begin with an increment, at rest by default."""
        unit = self.grid.unit
        self.velocity = np.zeros_like(unit) if velocity is None else np.rint(velocity / unit) * unit

    def some(self, pose: Vector, rng: np.random.Generator) -> Vector:
        """Draw an increment from which every joint can stop."""
        unit, q = self.grid.unit, np.rint(pose / self.grid.unit)
        rooms = np.maximum([self.grid.high - q, q - self.grid.low], 0)
        most = np.minimum(viability.fastest(rooms, self.brakes), [self.grid.up, self.grid.down])
        share = rng.uniform(-1, 1, len(q))
        return np.asarray(np.trunc(share * np.where(share > 0, *most)) * unit)

    def lower(self, wanted: NDArray[np.float64] | None) -> None:
        """Lower acceleration and deceleration to ``wanted`` (2, d); None restores them."""
        self.present[0] = self.full[0] if wanted is None else np.minimum(self.full[0], wanted[0])
        slower = self.full[1] if wanted is None else np.minimum(self.full[1], wanted[1])
        self.wanted = np.minimum(np.floor(slower / self.grid.unit) - 1, self.grid.deceleration)
        self._slower = slower

    def _settle(self, prev: Vector) -> None:
        """Adopt the wanted deceleration for the joints that can stop by it."""
        if self.wanted is self.brakes:
            return
        q, v = np.rint(prev / self.grid.unit), np.rint(self.velocity / self.grid.unit)
        below, above = np.maximum(q - self.grid.low, 0), np.maximum(self.grid.high - q, 0)
        ready = viability.stops_in_time(v, below, above, self.wanted)
        self.brakes = self.wanted if ready.all() else np.where(ready, self.wanted, self.brakes)
        self.present[1] = np.where(ready, self._slower, self.present[1])

    def braked(self, prev: Vector) -> Vector:
        """Where full braking leads in the next step."""
        self._settle(prev)
        v, unit = np.rint(self.velocity / self.grid.unit), self.grid.unit
        return np.asarray((np.rint(prev / unit) + viability.brake(v, self.brakes)) * unit + 0.0)

    def turning(self, prev: Vector, goal: Vector) -> NDArray[np.bool_]:
        """Which joints move away from ``goal``, or are too fast to stop there."""
        slower, way = self.braked(prev) - prev, goal - prev
        too_fast = viability.stopping_distance(slower / self.grid.unit, self.brakes) > abs(way) / self.grid.unit
        return np.asarray((slower * way < 0) | too_fast)

    def too_sharp(self, command: Vector, prev: Vector) -> NDArray[np.bool_]:
        """Which joints broke the acceleration or deceleration that they have now, exactly."""
        return viability.too_sharp(command, prev, prev - self.velocity, *self.present)

    def follow(self, command: Vector, prev: Vector) -> None:
        """Note the increment of a step."""
        self.velocity = command - prev


class Adversary:
    """Subjects a controller to all kinds of failures, and judges every command.

    Args:
        controller: the controller under test.
        seed: seed of the failures.
    """

    def __init__(self, controller: "Controller", seed: int) -> None:
        self.controller, self.rng, self.trial = controller, np.random.default_rng(seed), Trial()
        limits = controller.bundle.limits
        self.low, self.high, self.up, self.down = limits.low, limits.high, limits.up.copy(), limits.down.copy()
        self.command: Vector = np.empty_like(self.low)
        self.speeds = None if limits.acceleration is None else Speeds(limits)
        self.burst = 0
        """The number of broken observations still to come."""
        self.bad_in_a_row, self.holding = 0, False
        self.goal = np.clip(controller.bundle.default_pose, self.low, self.high)
        self._policy, controller._ask_policy = controller._ask_policy, self._ask_policy  # type: ignore[method-assign]
        self._has_nan = False
        self._start(self._pose(), ramp=False)

    def run(self, steps: int, say: Say = lambda line: None) -> Trial:
        """Make ``steps`` steps and return the counts."""
        for k in range(steps):
            event = self.rng.random()
            if event < 0.01:
                self._disturb()
            timed = event > 0.95 and self.controller.limiter.dt is not None and self.speeds is None
            self._step(dt=self._dt() if timed else None)
            if (k + 1) % 100_000 == 0:
                say(f"{k + 1:,} steps, {self.trial.violations} violations")
        self.trial.waited = self.controller.limiter.waiting
        return self.trial

    def _disturb(self) -> None:
        kind = int(self.rng.integers(5))
        self.controller.release()
        self.holding = False
        if kind == 0:  # a restart of the process
            before = self.controller.state()
            self.controller.resume(before)
            self._expect(self.controller.state() == before, "resume goes on where state was taken")
        elif kind == 1:
            pose = self._pose()
            self._start(pose, ramp=True, velocity=self._speed(pose))  # from an arbitrary pose
        elif kind == 2:
            self._derate()
        elif kind == 3:
            self.controller.hold()
            self.holding = True
            self.trial.holds += 1
        else:
            self.burst = int(self.rng.integers(1, 12))
        self.trial.restarts += kind in (0, 1)

    def _start(self, pose: Vector, ramp: bool, velocity: Vector | None = None) -> None:
        self.controller.start(pose, ramp, velocity)
        self.bad_in_a_row = 0
        self.trial.ramps += self.controller.ramping
        off = 0.0 if self.speeds is None else self.speeds.grid.unit  # a pose off the grid begins beside it
        self._expect(bool((abs(self.controller.prev - pose) <= off).all()), "it starts where it is told")
        if self.speeds is not None:
            self.speeds.start(velocity)
            self._expect(np.array_equal(self.controller.velocity, self.speeds.velocity), "it starts as fast as told")
        self._expect(self.controller.fault is None, "a start clears a fault")

    def _expect(self, kept: bool, what: str) -> None:
        if not kept:
            self.trial.misbehaved += 1
            self.trial.first_misbehaviour = self.trial.first_misbehaviour or what

    def _ask_policy(self, prev: Vector) -> Any:
        """Return the network's output or, half of the time, a corrupted one: an ulp from the edges, huge, or NaN."""
        wanted = self._policy(prev)
        self._expect(np.shares_memory(wanted, self.controller._action), "the network is asked")
        self._has_nan = False
        if self.rng.random() < 0.5:
            return wanted
        self.trial.mad_commands += 1
        d = len(prev)
        edge = prev + self.rng.choice([-1.0, 1.0], d) * self.rng.choice([self.up, self.down])
        edge = np.nextafter(edge, self.rng.choice([-np.inf, np.inf], d))
        wild = self.rng.choice([np.nan, np.inf, -np.inf, 1e308, -1e308, 0.0], d)
        corrupted = np.where(self.rng.random(d) < 0.5, edge, wild)
        self._has_nan = bool(np.isnan(corrupted).any())
        return corrupted

    def _pose(self) -> Vector:
        """Draw a pose in the range, on its bounds, or outside it."""
        pose = self.rng.uniform(self.low, self.high)
        edge = self.rng.random(len(pose))
        pose = np.where(edge < 0.1, self.low, np.where(edge > 0.9, self.high, pose))
        return pose + (self.rng.random() < 0.2) * self.rng.normal(0, 0.1, len(pose)) * (self.high - self.low)

    def _speed(self, pose: Vector) -> Vector | None:
        """Draw the last increment of a start: none, or one from which every joint can stop."""
        if self.speeds is None or self.rng.random() < 0.5:
            return None
        return self.speeds.some(pose, self.rng)

    def _derate(self) -> None:
        if self.speeds is not None and self.rng.random() < 0.5:
            names, share = self.controller.names, self.rng.uniform(0.05, 1.2, (2, len(self.low)))
            wanted = share * self.speeds.full if self.rng.random() < 0.8 else None
            rows = [None] * 2 if wanted is None else [dict(zip(names, row.tolist(), strict=True)) for row in wanted]
            self.controller.derate_acceleration(*rows)
            self.speeds.lower(wanted)
            self.trial.deratings += 1
            return
        limits = self.controller.bundle.limits
        share = self.rng.random(len(limits.names)) * (self.rng.random(len(limits.names)) < 0.8)
        rates = {name: float(limits.up[i] * share[i]) for i, name in enumerate(limits.names)}
        chosen = None if self.rng.random() < 0.3 else rates
        self.controller.derate(chosen)
        lowered = limits.up * share if chosen else np.full_like(limits.up, np.inf)
        self.up, self.down = np.minimum(limits.up, lowered), np.minimum(limits.down, lowered)
        self.trial.deratings += 1

    def _dt(self) -> float:
        """Draw a measured dt: short, late, nominal, or invalid."""
        nominal = self.controller.limiter.dt or 1.0
        self.trial.timed_steps += 1
        odd = (0.0, -nominal, float("nan"), float("inf"), nominal, 5 * nominal, np.nextafter(nominal, 0.0))
        if self.rng.random() < 0.3:
            return float(odd[int(self.rng.integers(len(odd)))])
        return float(self.rng.exponential(nominal))

    def _observation(self) -> NDArray[np.float32]:
        """Draw an observation: ordinary, huge, tiny, or broken."""
        n = self.controller.bundle.observation_size
        seen = self.rng.standard_normal(n, np.float32)
        kind, self.burst = self.rng.random(), self.burst - 1
        if kind < 0.2:
            seen *= np.float32(10.0 ** self.rng.uniform(-30, 30))
        if (kind > 0.98 or self.burst > 0) and n:
            seen[self.rng.integers(n, size=max(1, n // 8))] = self.rng.choice([np.nan, np.inf, -np.inf])
        return seen

    def _step(self, dt: float | None) -> None:
        controller, trial = self.controller, self.trial
        prev, seen, fault = controller.prev, self._observation(), controller.fault
        held, ramping = self.holding or fault is not None, controller.ramping
        self._has_nan = False
        controller.step(seen, dt, self.command)
        trial.steps += 1
        trial.joint_steps += len(prev)
        trial.moved += not np.array_equal(self.command, prev)
        stayed = np.array_equal(self.command, prev if self.speeds is None else self.speeds.braked(prev))
        self._judge(prev)
        share = Fraction(1) if dt is None else self._share(dt)
        if dt is not None:
            late = self._too_far(prev, share)
            trial.violations += late
            trial.over_rate += late
        trial.over_budget += self._over_budget(prev, share)
        self._expect(stayed or not held, "a hold and a fault hold")
        if ramping and not held:
            nearer = abs(self.command - self.goal) <= abs(prev - self.goal)
            if self.speeds is not None:  # a joint on its way elsewhere turns round first
                nearer |= self.speeds.turning(prev, self.goal)
            self._expect(bool(nearer.all()), "a ramp goes to the default pose")
        if self.speeds is not None:
            self.speeds.follow(self.command, prev)
        self._judge_observation(bool(np.isfinite(seen).all()), stayed, fault)

    def _judge(self, prev: Vector) -> None:
        """Count exactly what left F_t, by the limit it broke."""
        far = np.full_like(self.low, boxmath.LARGEST)
        # From outside the range a joint may stay or return.
        low, high = np.minimum(self.low, prev), np.maximum(self.high, prev)
        beyond = boxmath.outside(self.command, prev, far, far, low, high)
        quick = boxmath.outside(self.command, prev, self.down, self.up, -far, far)
        sharp = np.zeros_like(beyond)
        if self.speeds is not None:
            quick &= self.command != self.speeds.braked(prev)  # a joint above a lower rate brakes to it
            sharp = self.speeds.too_sharp(self.command, prev)
        trial = self.trial
        trial.over_rate += int(quick.sum())
        trial.over_acceleration += int(sharp.sum())
        trial.out_of_range += int(beyond.sum())
        trial.violations += int((quick | sharp | beyond).sum())

    def _judge_observation(self, usable: bool, stayed: bool, fault_before: str | None) -> None:
        controller, trial = self.controller, self.trial
        if not usable:
            trial.bad_observations += 1
            trial.held += stayed
        # NaN from the network counts, too, unless a hold ignored it.
        bad = not usable or (self._has_nan and not self.holding)
        self.bad_in_a_row = self.bad_in_a_row + 1 if bad else 0
        at_fault = fault_before is not None or self.bad_in_a_row >= controller.patience
        self._expect((controller.fault is not None) == at_fault, "a fault comes after so many in a row, and stays")
        trial.faults += fault_before is None and controller.fault is not None
        if controller.fault is not None and self.rng.random() < 0.2:
            # As an operator would; a joint that is still braking goes on from its speed.
            self._start(controller.prev, ramp=False, velocity=None if self.speeds is None else controller.velocity)
            trial.restarts += 1

    def _share(self, dt: float) -> Fraction:
        """The share of a nominal step that ``dt`` seconds allow: at most 1, and 0 for an invalid dt."""
        nominal = self.controller.limiter.dt or 1.0
        if not dt > 0:
            return Fraction(0)
        return Fraction(dt) / Fraction(nominal) if dt < nominal else Fraction(1)

    def _too_far(self, prev: Vector, share: Fraction) -> int:
        """Count exactly the joints that moved more than their share of a step."""
        moved = [Fraction(c) - Fraction(p) for c, p in zip(self.command, prev, strict=True)]
        allowed = [(-Fraction(d) * share, Fraction(u) * share) for d, u in zip(self.down, self.up, strict=True)]
        return sum(not fall <= move <= rise for move, (fall, rise) in zip(moved, allowed, strict=True))

    def _over_budget(self, prev: Vector, share: Fraction) -> bool:
        """Decide exactly whether the joints exceeded the budget, in the rates of this step."""
        budget = self.controller.bundle.budget
        if budget is None:
            return False
        # sum |move| / rate > B * share; a joint that did not move uses no budget, whatever its rate.
        stayed = self.command == prev
        down, up = np.where(stayed, 1.0, self.down), np.where(stayed, 1.0, self.up)
        return bool(boxmath.over_budget(self.command, prev, down, up, Fraction(budget) * share))
