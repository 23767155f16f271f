"""Command limiters side by side: the same rate, acceleration and position limits, the same commands, one exact audit.

    pip install "slewrl[bench]"
    python benchmarks/limiters.py --write results/limiters --page docs/limiters.md

Prints what each limiter breaks under adversarial commands, how it behaves on ordinary ones and what it costs; and a
table by robot. ``--write`` puts both, with a figure, into a folder. Rules that other projects publish are written here
anew, in numpy; `klimits` and `ruckig` are the packages themselves. The robots are those of ``acceleration.py``.
"""

import argparse
import platform
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from acceleration import Array, franka, robots, tiled
from page import write as write_page

from slewrl import RateLimits, __version__
from slewrl.deploy.motion import Motion
from slewrl.limits import boxmath, viability

SLACK = 1e-6
"""An excess of more than this share of a limit is no rounding error."""
SETTLED = 1e-3
"""A joint has settled when it stays within this share of its step."""
PERIODS = {"Ant-v5, 20 Hz": 0.05, "H1, 50 Hz": 0.02, "G1, 50 Hz": 0.02}
"""Control periods of the limits that are given per step."""
LANES = 8
"""Chains side by side, one for each kind of adversarial command."""
SLOW, FAST = "Franka, 50 Hz", "Franka, 1 kHz"


class Task(NamedTuple):
    """Limits per step of d joints, symmetric, for a number of lanes, and the period in seconds."""

    limits: RateLimits
    lanes: int
    dt: float

    @property
    def shape(self) -> tuple[int, int]:
        return self.lanes, self.limits.dim


class Limiter:
    """What every contender does: begin at rest at a pose (lanes, d), then turn each target into a command."""

    refused = 0
    """Robot steps that it refused."""

    def __init__(self, task: Task) -> None:
        limits = task.limits
        self.task, self.rate, self.acceleration = task, limits.delta, limits.acceleration
        self.low, self.high = limits.low, limits.high

    def start(self, pose: Array) -> None:
        self.command, self.velocity = pose.copy(), np.zeros(self.task.shape)

    def step(self, target: Array) -> Array:
        command = self.next(target)
        self.velocity, self.command = command - self.command, command
        return command

    def next(self, target: Array) -> Array:
        raise NotImplementedError


class Slewrl(Limiter):
    """``slewrl.deploy.motion.Motion``, all lanes in one."""

    stop = True

    def start(self, pose: Array) -> None:
        limits = self.task.limits
        self.motion = Motion(tiled(limits.grid, self.task.lanes), limits.names * self.task.lanes, self.stop)
        self.motion.start(pose.ravel())

    def step(self, target: Array) -> Array:
        return self.motion.step(target.ravel()).reshape(self.task.shape)


class SlewrlFree(Slewrl):
    """The same for the actions of a policy: no braking for the target."""

    stop = False


class Ros2Range(Limiter):
    """ros2_control's limiter of position commands, without an acceleration: a clip of the rate and of the range."""

    def reach(self) -> Array:
        return self.rate

    def next(self, target: Array) -> Array:
        reach = self.reach()
        return np.clip(target, np.maximum(self.command - reach, self.low), np.minimum(self.command + reach, self.high))


class Ros2RangeAccelerated(Ros2Range):
    """The same with one: the *speed* may grow by A in a step, in either direction, and may shrink at will."""

    def reach(self) -> Array:
        return np.minimum(self.rate, np.abs(self.velocity) + self.acceleration)


class Ros2Saturation(Limiter):
    """ros2_control's saturation limiter: clamps the change of velocity, and brakes all joints by v^2 / 2A near a bound.

    It takes the measured velocity; here that is the one at the end of the step it has just computed.
    """

    def next(self, target: Array) -> Array:
        position, speed, a = self.command, self.velocity, self.acceleration
        wanted = np.clip(np.clip(target, self.low, self.high) - position, -self.rate, self.rate)
        change = np.clip(wanted - speed, -a, a)
        clamped = np.abs(wanted - speed) > a
        self.end = np.where(clamped, speed + change, wanted)
        command = position + np.where(clamped, speed + change / 2, wanted)
        distance, below, above = self.end**2 / (2 * a), position - self.low, self.high - position
        near = ((self.end < 0) & (below < distance)) | ((self.end > 0) & (above < 2 * distance))
        brake = near.any(-1, keepdims=True)
        slower = -np.clip(speed, -a, a)
        self.end = np.where(brake, speed + slower, self.end)
        return np.where(brake, position + speed + slower / 2, command)

    def step(self, target: Array) -> Array:
        self.command = self.next(target)
        self.velocity = self.end
        return self.command


class Ros2SaturationDifferences(Ros2Saturation):
    """The same where the measured velocity is the last increment, as by differences of positions."""

    def step(self, target: Array) -> Array:
        return Limiter.step(self, target)


class ContinuousBrake(Limiter):
    """The textbook rule: v + A at most, the rate, and a speed of sqrt(2 A room) towards a bound."""

    def next(self, target: Array) -> Array:
        a = self.acceleration
        below, above = (np.maximum(room, 0) for room in (self.command - self.low, self.high - self.command))
        top = np.minimum(np.minimum(self.velocity + a, self.rate), np.sqrt(2 * a * above))
        bottom = np.maximum(np.maximum(self.velocity - a, -self.rate), -np.sqrt(2 * a * below))
        return self.command + np.clip(np.clip(target, self.low, self.high) - self.command, bottom, top)


class DoubleClip(Limiter):
    """What is written by hand: clip the rate, then the acceleration, then the position."""

    def next(self, target: Array) -> Array:
        step = np.clip(target - self.command, -self.rate, self.rate)
        step = np.clip(step, self.velocity - self.acceleration, self.velocity + self.acceleration)
        return np.clip(self.command + step, self.low, self.high)


class Klimits(Limiter):
    """The package klimits: a range of safe accelerations, into which the one that would reach the target is clipped.

    Its jerk limit is the one that says nothing, 2 A per step.
    """

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        import klimits

        dt, self.library = task.dt, klimits
        pairs = [np.tile(np.stack([-x, x], -1), (task.lanes, 1)) for x in (self.rate / dt, self.acceleration / dt**2)]
        bounds = np.tile(np.stack([self.low, self.high], -1), (task.lanes, 1))
        self.ranges = klimits.PosVelJerkLimitation(
            time_step=dt, pos_limits=bounds.tolist(), vel_limits=pairs[0].tolist(), acc_limits=pairs[1].tolist(),
            jerk_limits=(2 * pairs[1] / dt).tolist(), acceleration_after_max_vel_limit_factor=0.0001,
            normalize_acc_range=False, num_threads=1,
        )  # fmt: skip

    def start(self, pose: Array) -> None:
        self.position, self.speed, self.push = pose.ravel().copy(), np.zeros(pose.size), np.zeros(pose.size)

    def step(self, target: Array) -> Array:
        dt, position, speed, push = self.task.dt, self.position, self.speed, self.push
        wanted = 6 * ((target.ravel() - position - speed * dt) / dt**2 - push / 3)
        safe, _ = self.ranges.calculate_valid_acceleration_range(position, speed, push)
        chosen = np.clip(wanted, safe[:, 0], safe[:, 1])
        self.position = np.asarray(self.library.calculate_end_position(push, chosen, speed, position, dt))
        self.speed = np.asarray(self.library.calculate_end_velocity(push, chosen, speed, dt))
        self.push = chosen
        return self.position.reshape(self.task.shape)


class Ruckig(Limiter):
    """The package ruckig: the time-optimal way to the target in continuous time, planned anew in every step.

    Targets are clipped to the range. Its jerk limit of 20 A per step says next to nothing; without one, or with 2 A, it
    refuses some of these targets. A step that it refuses goes on along the last plan.
    """

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        import ruckig

        self.error, joints = ruckig.RuckigError, task.limits.dim
        self.lanes = [(ruckig.Ruckig(joints, task.dt), ruckig.InputParameter(joints)) for _ in range(task.lanes)]
        self.output = [ruckig.OutputParameter(joints) for _ in self.lanes]
        for _, given in self.lanes:
            given.synchronization = ruckig.Synchronization.No
            given.max_velocity = (self.rate / task.dt).tolist()
            given.max_acceleration = (self.acceleration / task.dt**2).tolist()
            given.max_jerk = (20 * self.acceleration / task.dt**3).tolist()

    def start(self, pose: Array) -> None:
        for (_, given), row in zip(self.lanes, pose, strict=True):
            given.current_position = row.tolist()
            given.current_velocity = given.current_acceleration = [0.0] * len(row)
        self.since = np.zeros(len(pose))

    def step(self, target: Array) -> Array:
        aims = np.clip(target, self.low, self.high)
        return np.array([self.plan(k, aims[k]) for k in range(len(self.lanes))])

    def plan(self, k: int, aim: Array) -> list[float]:
        (planner, given), found = self.lanes[k], self.output[k]
        given.target_position = aim.tolist()
        try:
            planner.update(given, found)
        except self.error:
            if not np.isfinite(aim).all():
                raise
            self.refused += 1
            self.since[k] += self.task.dt
            state = found.trajectory.at_time(self.since[k])
            given.current_position, given.current_velocity, given.current_acceleration = state
            return state[0]
        self.since[k] = self.task.dt
        found.pass_to_input(given)
        return found.new_position


CONTENDERS: dict[str, Callable[[Task], Limiter]] = {
    "slewrl": Slewrl,
    "slewrl, no braking for the target": SlewrlFree,
    "ros2_control, rate only": Ros2Range,
    "ros2_control, with acceleration": Ros2RangeAccelerated,
    "ros2_control, saturation, v at the end": Ros2Saturation,
    "ros2_control, saturation, v by differences": Ros2SaturationDifferences,
    "continuous brake √(2 A room)": ContinuousBrake,
    "rate, acceleration, position clip": DoubleClip,
    "klimits": Klimits,
    "ruckig": Ruckig,
}
KINDS = ("rate", "acceleration", "bounds")

# ---------------------------------------------------------------------- commands


def task(name: str, limits: RateLimits, lanes: int) -> Task:
    return Task(limits, lanes, limits.dt or PERIODS[name])


def poses(job: Task, rng: np.random.Generator) -> Array:
    """Anywhere at rest, on the grid, so that all begin at the same point."""
    grid = job.limits.grid
    return np.rint(rng.uniform(grid.low, grid.high, job.shape)) * grid.unit


def adversarial(job: Task, steps: int, rng: np.random.Generator) -> Array:
    """Targets (steps, lanes, d): bang-bang beyond the bounds in half of the lanes, random ones in the others.

    Targets are held for a tenth, a half or one and a half of the time it takes to cross the range, or for one step.
    """
    limits, shape = job.limits, (steps, *job.shape)
    crossing = (limits.high - limits.low) / limits.delta + limits.delta / limits.acceleration
    hold = np.array([0.1, 0.5, 1.5, 0.0])[np.arange(job.lanes) % 4, None] * crossing
    span = limits.high - limits.low
    bang = np.where(rng.random(shape) < 0.5, limits.low - span, limits.high + span)
    anywhere = limits.low + span * rng.uniform(-0.1, 1.1, shape)
    fresh = np.where((np.arange(job.lanes) % 8 < 4)[:, None], bang, anywhere)
    switch = rng.random(shape) < 1 / np.maximum(hold, 1)
    switch[0] = True
    latest = np.maximum.accumulate(np.where(switch, np.arange(steps)[:, None, None], 0), axis=0)
    return np.take_along_axis(fresh, latest, axis=0)


def run(limiter: Limiter, pose: Array, targets: Array) -> Array:
    """The commands (T + 2, lanes, d): the pose twice, since it is at rest."""
    limiter.start(pose)
    return np.stack([pose, pose, *(limiter.step(target) for target in targets)])


# ---------------------------------------------------------------------- the audit


@dataclass
class Audit:
    """Joint steps, and violations of each kind: decided exactly, and those beyond any rounding error."""

    joint_steps: int = 0
    exact: Any = 0
    gross: Any = 0
    dead: int = 0
    worst: float = 0.0
    """The largest change of velocity in units of A."""
    refused: int = 0

    def __iadd__(self, other: "Audit") -> "Audit":
        for name in ("joint_steps", "exact", "gross", "dead", "refused"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.worst = max(self.worst, other.worst)
        return self


def audit(path: Array, limits: RateLimits) -> Audit:
    """Judge the commands of ``run``. A dead end is a state after which no command keeps all three limits."""
    action, prev, before = path[2:], path[1:-1], path[:-2]
    rate, a, low, high = limits.delta, limits.acceleration, limits.low, limits.high
    step, velocity = action - prev, prev - before
    change, outside = np.abs(step - velocity), np.maximum(low - action, action - high)
    exact = [
        boxmath.outside(action, prev, limits.down, limits.up, -np.inf, np.inf),
        viability.too_sharp(action, prev, before, a, limits.deceleration),
        ~((action >= low) & (action <= high)),
    ]
    gross = [np.abs(step) > rate * (1 + SLACK), change > a * (1 + SLACK), outside > SLACK * (high - low)]
    top = np.minimum(np.minimum(step + a, rate), high - action)
    bottom = np.maximum(np.maximum(step - a, -rate), low - action)
    totals = (np.array([int(one.sum()) for one in group]) for group in (exact, gross))
    return Audit(step.size, *totals, int((bottom - top > SLACK * a).sum()), float((change / a).max()))


def with_nans(build: Callable[[Task], Limiter], steps: int = 500) -> str:
    """What a limiter makes of NaN and infinite targets, in words."""
    job = task(SLOW, franka(0.02), 1)
    rng = np.random.default_rng(3)
    targets = adversarial(job, steps, rng)
    odd = rng.random(targets.shape)
    bad = np.where(odd < 0.05, np.nan, np.where(odd < 0.075, np.inf, np.where(odd < 0.1, -np.inf, targets)))
    try:
        with np.errstate(invalid="ignore"):
            path = run(build(job), poses(job, rng), bad)
    except Exception as error:
        return f"raises {type(error).__name__}"
    lost = int((~np.isfinite(path)).sum())
    return f"passes it on, and {lost / path.size:.0%} of all commands are NaN" if lost else "brakes"


# ---------------------------------------------------------------------- ordinary commands


class Ordinary(NamedTuple):
    """Overshoot as a share of the step, settling time and lag in seconds; the worst joint of each."""

    overshoot: float
    settling: float
    lag: float


def response(build: Callable[[Task], Limiter], job: Task, seconds: float = 6.0) -> tuple[Array, Array, Array]:
    """Commands (T, d) after a step from a quarter to three quarters of each range; where from, and where to."""
    grid, span = job.limits.grid, job.limits.high - job.limits.low
    ends = [np.rint((job.limits.low + share * span) / grid.unit) * grid.unit for share in (0.25, 0.75)]
    targets = np.broadcast_to(ends[1], (round(seconds / job.dt), *job.shape))
    return run(build(job), np.broadcast_to(ends[0], job.shape).copy(), targets)[1:, 0], *ends


def lag(build: Callable[[Task], Limiter], job: Task, periods: int = 6) -> float:
    """By how many seconds the worst joint follows a sine of half its speed and half its acceleration at most."""
    limits = job.limits
    omega = limits.acceleration / limits.delta
    size = np.minimum(0.5 * limits.delta / omega, 0.3 * (limits.high - limits.low))
    t = np.arange(int(np.ceil(periods * 2 * np.pi / omega.min())))[:, None]
    middle = np.rint((limits.low + limits.high) / 2 / limits.grid.unit) * limits.grid.unit
    start = np.rint((middle + size) / limits.grid.unit) * limits.grid.unit
    path = run(build(job), start[None], (middle + size * np.cos(omega * (t + 1)))[:, None])[2:, 0] - middle
    late = t[:, 0] > len(t) / 2
    phases = []
    for k, w in enumerate(omega):
        basis = np.stack([np.cos(w * (t[late, 0] + 1)), np.sin(w * (t[late, 0] + 1))], -1)
        real, imaginary = np.linalg.lstsq(basis, path[late, k], rcond=None)[0]
        phases.append(np.arctan2(imaginary, real) / w)
    return float(max(phases) * job.dt)


def ordinary(build: Callable[[Task], Limiter], job: Task) -> Ordinary:
    path, start, end = response(build, job)
    way = (path - end) / (end - start)
    away = np.abs(way) > SETTLED
    last = np.where(away.any(0), len(path) - np.argmax(away[::-1], axis=0), 0)
    settling = np.inf if last.max() >= len(path) else float(last.max() * job.dt)
    return Ordinary(max(0.0, float(way.max())), settling, lag(build, job))


def cost(build: Callable[[Task], Limiter], steps: int = 2000) -> float:
    """CPU microseconds per joint step for one Franka at 50 Hz, the least of three."""
    job, rng = task(SLOW, franka(0.02), 1), np.random.default_rng(0)
    targets, pose, best = adversarial(job, steps, rng), poses(job, rng), np.inf
    for _ in range(3):
        limiter = build(job)
        limiter.start(pose)
        began = time.process_time()
        for target in targets:
            limiter.step(target)
        best = min(best, time.process_time() - began)
    return 1e6 * best / (steps * job.limits.dim)


# ---------------------------------------------------------------------- tables and figure


class Row(NamedTuple):
    """All that is measured of one contender."""

    audits: dict[str, Audit]
    nan: str
    slow: Ordinary
    fast: Ordinary
    cost: float

    @property
    def total(self) -> Audit:
        total = Audit()
        for one in self.audits.values():
            total += one
        return total


def measure(build: Callable[[Task], Limiter], steps: int, seeds: int) -> Row:
    audits = {name: Audit() for name in robots()}
    for name, limits in robots().items():
        for seed in range(seeds):
            job, rng = task(name, limits, LANES), np.random.default_rng(seed)
            limiter = build(job)
            audits[name] += audit(run(limiter, poses(job, rng), adversarial(job, steps, rng)), limits)
            audits[name].refused += limiter.refused
    both = (ordinary(build, task(name, robots()[name], 1)) for name in (SLOW, FAST))
    return Row(audits, with_nans(build), *both, cost(build))


def counted(exact: int, gross: int) -> str:
    return "0" if not exact else f"{exact:,} ({gross:,})"


def seconds(value: float) -> str:
    return "not in 6 s" if value == np.inf else f"{value:.2f} s"


HEAD = (
    "| limiter | rate | acceleration | bounds | dead ends | worst change of velocity | overshoot 50 Hz, 1 kHz | "
    "settling 50 Hz, 1 kHz | lag 50 Hz, 1 kHz | NaN, inf | µs per joint step |\n" + "|---" * 11 + "|"
)


def table(rows: dict[str, Row | str]) -> list[str]:
    lines = [HEAD]
    for name, row in rows.items():
        if isinstance(row, str):
            lines.append(f"| {name} | {row} |" + " |" * 9)
            continue
        t, both = row.total, (row.slow, row.fast)
        kinds = [counted(*pair) for pair in zip(t.exact.tolist(), t.gross.tolist(), strict=True)]
        cells = [
            name, *kinds, f"{t.dead:,}", f"{t.worst:.3g} A", ", ".join(f"{o.overshoot:.1%}" for o in both),
            ", ".join(seconds(o.settling) for o in both), ", ".join(f"{1e3 * o.lag:.0f} ms" for o in both), row.nan,
            f"{row.cost:.2g}",
        ]  # fmt: skip
        lines.append("| " + " | ".join(cells) + " |")
    refused = {name: row.total.refused for name, row in rows.items() if not isinstance(row, str)}
    return lines + [
        f"\nSteps of a robot that {name} refused, and in which it went on along its last plan: {n:,}."
        for name, n in refused.items()
        if n
    ]


def by_robot(rows: dict[str, Row | str]) -> list[str]:
    lines = ["| limiter | " + " | ".join(robots()) + " |", "|---" * (1 + len(robots())) + "|"]
    for name, row in rows.items():
        if not isinstance(row, str):
            cells = ["/".join(map(str, [*a.gross.tolist(), a.dead])) for a in row.audits.values()]
            lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return lines


def draw(rows: dict[str, Row | str], path: Path) -> None:
    """The step responses of a Franka's first joint at 50 Hz, what is beyond the target, and violations."""
    import matplotlib as mpl

    mpl.use("agg")
    from matplotlib import pyplot as plt

    measured = {name: row for name, row in rows.items() if not isinstance(row, str)}
    figure, (left, middle, right) = plt.subplots(
        1, 3, figsize=(15, 4.8), width_ratios=(1, 1, 1.2), layout="constrained"
    )
    job = task(SLOW, franka(0.02), 1)
    shades = plt.get_cmap("tab10")
    for k, name in enumerate(measured):
        commands, start, end = (x[..., 0] for x in response(CONTENDERS[name], job, seconds=4.0))
        t, style = np.arange(len(commands)) * job.dt, "-" if name.startswith("slewrl") else ["--", "-.", ":"][k % 3]
        for axes in (left, middle):
            axes.plot(t, commands - start, style, color=shades(k), lw=2.4 if name == "slewrl" else 1.4, label=name)
    for axes in (left, middle):
        axes.axhline(end - start, color="0.6", lw=0.8)
        axes.set_xlabel("seconds")
    left.set(title="Held target, Franka joint 1, 50 Hz", ylabel="command [rad]", xlim=(0, 2.5))
    middle.set(title="The same, around the target", xlim=(1.1, 2.4), ylim=(end - start - 0.2, end - start + 0.2))
    left.legend(fontsize=7.5, loc="lower right")
    kinds = (*KINDS, "dead ends")
    for j, kind in enumerate(kinds):
        values = [[*r.total.gross.tolist(), r.total.dead][j] / r.total.joint_steps for r in measured.values()]
        places = np.arange(len(measured)) + 0.2 * (j - 1.5)
        right.barh(places, values, height=0.18, color=plt.get_cmap("Set2")(j), label=kind)
    right.set_xscale("symlog", linthresh=1e-6)
    right.set_xlim(0, 1)
    right.set_yticks(range(len(measured)), list(measured), fontsize=8)
    right.invert_yaxis()
    right.set(title="Share of joint steps that break a limit by more than 1e-6 of it")
    right.title.set_fontsize(10)
    right.legend(fontsize=8, loc="upper right")
    figure.savefig(path, dpi=110)
    plt.close(figure)


def installed() -> str:
    found = []
    for package in ("klimits", "ruckig", "numpy"):
        try:
            found.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            found.append(f"{package} is not installed")
    return ", ".join(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=1000, help="adversarial steps of each chain")
    parser.add_argument("--seeds", type=int, default=4, help=f"times {LANES} chains of each robot")
    parser.add_argument("--only", nargs="+", help="only these contenders")
    parser.add_argument("--write", type=Path, help="folder for README.md and limiters.png")
    parser.add_argument(
        "--page", type=Path, help="put the output between the markers of this page, and the figure into images/"
    )
    args = parser.parse_args()
    rows: dict[str, Row | str] = {}
    for name in args.only or CONTENDERS:
        try:
            rows[name] = measure(CONTENDERS[name], args.steps, args.seeds)
        except ImportError as error:
            rows[name] = f"not measured: {error}"
        print(table({name: rows[name]})[1], flush=True)
    steps = max((row.total.joint_steps for row in rows.values() if not isinstance(row, str)), default=0)
    lines = [
        f"`python benchmarks/limiters.py --steps {args.steps} --seeds {args.seeds}`, slewrl {__version__}, "
        f"{installed()}, {platform.machine()}, {time.strftime('%Y-%m-%d')}. {steps:,} adversarial joint steps each; "
        "violations decided exactly, and in brackets those of more than a millionth of the limit:",
        "",
        *table(rows),
        "",
        "Violations of more than a millionth, by robot: rate/acceleration/bounds/dead ends.",
        "",
        *by_robot(rows),
    ]
    text = "\n".join(lines)
    print("\n" + text)
    if args.write:
        args.write.mkdir(parents=True, exist_ok=True)
        title = (
            "# Command limiters side by side\n\n[docs/limiters.md](../../docs/limiters.md) says what is compared.\n\n"
        )
        figure = "\n\n![Held-target steps at 50 Hz, and violations, of each limiter](limiters.png)\n"
        (args.write / "README.md").write_text(title + text + figure, encoding="utf-8")
        draw(rows, args.write / "limiters.png")
    if args.page:
        write_page(args.page, "limiters", text)
        draw(rows, args.page.parent / "images" / "limiters.png")


if __name__ == "__main__":
    main()
