"""Feedback chains under acceleration limits, judged exactly; ``guarantee.py --acceleration`` runs them.

Every command is fed back as the next step's history. Joints start at rest anywhere, get adversarial targets or latents,
restart now and then, and have their limits lowered while they move. The commands are on a grid of at most 2^24 units,
and start poses on sixteenths of it at the finest: every difference that is judged here is exact in float64, and a
comparison of it with a limit decides exactly.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from slewrl import LAYERS, RateLimits, make_layer
from slewrl.deploy.motion import Motion
from slewrl.layers.audit import adversarial_latents
from slewrl.limits import viability
from slewrl.limits.viability import Grid

Array = NDArray[np.float64]
FRANKA_SPEED, FRANKA_ACCELERATION = ["2.175"] * 4 + ["2.61"] * 3, ["15", "7.5", "10", "12.5", "15", "20", "20"]
FRANKA_LOW = ["-2.8973", "-1.7628", "-2.8973", "-3.0718", "-2.8973", "-0.0175", "-2.8973"]
FRANKA_HIGH = ["2.8973", "1.7628", "2.8973", "-0.0698", "2.8973", "3.7525", "2.8973"]
SHARE = 0.25
"""Acceleration per step over rate per step where a maker states none: full speed from rest in four steps."""
HARD = tuple(name for name in LAYERS if LAYERS[name].hard and name != "budget")
KINDS = ("rate", "acceleration", "bounds", "dead ends", "not float32")


def franka(dt: float) -> RateLimits:
    """A Franka Panda: positions, speeds and accelerations of its maker (Franka Control Interface, robot limits)."""
    rates = [float(speed) * dt for speed in FRANKA_SPEED]
    return RateLimits(rates, FRANKA_LOW, FRANKA_HIGH, dt=dt, acceleration=FRANKA_ACCELERATION, units="rad")


def ur5e() -> RateLimits:
    """A UR5e at its 500 Hz: 180 deg/s in +-360 deg, the elbow +-180 (ur_description, config/ur5e/joint_limits.yaml).

    Its maker publishes no acceleration. 40 rad/s^2 is the most that the client library ur_rtde accepts.
    """
    high = [2 * np.pi] * 2 + [np.pi] + [2 * np.pi] * 3
    return RateLimits([np.pi * 0.002] * 6, [-x for x in high], high, dt=0.002, acceleration=40, units="rad")


def with_share(limits: RateLimits) -> RateLimits:
    """Add an acceleration of ``SHARE`` of the rate, per step, to limits that have none."""
    return RateLimits(limits.delta, limits.low, limits.high, names=limits.names, acceleration=SHARE * limits.delta)


def lopsided(joints: int = 48, seed: int = 0) -> RateLimits:
    """Random limits: rise and fall, speeding up and slowing down all differ, and few ranges are symmetric."""
    rng = np.random.default_rng(seed)
    width = 10.0 ** rng.uniform(-2, 3, joints)
    low = -width * rng.uniform(-1, 2, joints)
    up, down, faster, slower = (width * 10.0 ** rng.uniform(-4, -0.1, joints) for _ in range(4))
    return RateLimits(up=up, down=down, low=low, high=low + width, acceleration=faster, deceleration=slower)


def robots() -> dict[str, RateLimits]:
    """The limits of every chain and of ``limiters.py``, by name."""
    return {
        "Franka, 50 Hz": franka(0.02),
        "Franka, 1 kHz": franka(0.001),
        "UR5e, 500 Hz": ur5e(),
        "H1, 50 Hz": with_share(RateLimits.preset("H1", "spec")),
        "G1, 50 Hz": with_share(RateLimits.preset("G1", "spec")),
        "Ant-v5, 20 Hz": with_share(RateLimits.preset("Ant-v5", "tight")),
    }


class Limits(NamedTuple):
    """Limits per step in the units of the action, in the shape of the commands."""

    up: Array
    down: Array
    acceleration: Array
    deceleration: Array
    low: Array
    high: Array


@dataclass
class Count:
    """Joint steps and what was broken in them, (kinds, d)."""

    joint_steps: int = 0
    broken: Any = 0
    lowered: int = 0
    """Joint steps under lowered limits."""
    waiting: int = 0
    """Joint steps in which a lower deceleration had to wait."""
    restarts: int = 0
    seconds: float = 0.0
    """CPU time."""
    started: float = field(default_factory=time.process_time)

    def __iadd__(self, other: "Count") -> "Count":
        for name in ("joint_steps", "broken", "lowered", "waiting", "restarts", "seconds"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        return self

    def add(self, broken: dict[str, NDArray[np.bool_]]) -> None:
        self.joint_steps += broken["rate"].size
        if any(one.any() for one in broken.values()):
            self.broken = self.broken + np.stack([broken[kind].sum(0) for kind in KINDS])

    def close(self, joints: int) -> "Count":
        self.broken = self.broken + np.zeros((len(KINDS), joints), dtype=int)
        self.seconds = time.process_time() - self.started
        return self


def side_by_side(several: list[RateLimits]) -> RateLimits:
    """All joints of several robots in one, per step."""
    names = ("up", "down", "low", "high", "acceleration", "deceleration")
    return RateLimits(**{name: np.concatenate([getattr(limits, name) for limits in several]) for name in names})


def written(limits: RateLimits, shape: tuple[int, int]) -> Limits:
    return Limits(*(np.ascontiguousarray(np.broadcast_to(getattr(limits, name), shape)) for name in Limits._fields))


def gentle(limits: Limits) -> NDArray[np.bool_]:
    """The joints that may brake as hard as they speed up, or harder."""
    return limits.acceleration <= limits.deceleration


def judge(action: Array, prev: Array, before: Array, limits: Limits, grid: Grid) -> dict[str, NDArray[np.bool_]]:
    """What a step broke, exactly: all differences are exact in float64 here, and no limit is added to anything.

    A dead end is a state from which full braking no longer stops in the range, by the brake in force. A rate that was
    lowered while the joint moved is not broken by full braking.
    """
    step, velocity = action - prev, prev - before
    change, forward = step - velocity, velocity > 0
    speeding, slowing = np.where(forward, change, -change), np.where(forward, -change, change)
    still = velocity == 0
    sharp = (speeding > limits.acceleration) | (still & (np.abs(change) > limits.acceleration))
    # After a reversal the new speed is at most one acceleration.
    turned = np.where(forward, -step, step) > limits.acceleration
    sharp |= ~still & ((slowing > limits.deceleration) | turned)
    unit = grid.unit
    now, last, earlier = action / unit, np.rint(prev / unit), np.rint(before / unit)  # a pose counts as its grid point
    braking = now - last == viability.brake(last - earlier, grid.deceleration)
    stops = viability.stops_in_time(now - last, now - grid.low, grid.high - now, grid.deceleration)
    return {
        "rate": ((step > limits.up) | (step < -limits.down)) & ~braking,
        "acceleration": sharp | (change != change),
        "bounds": ~((action >= limits.low) & (action <= limits.high)),
        "dead ends": ~stops,
        "not float32": action.astype(np.float32) != action,
    }


def starts(limits: RateLimits, gentle: NDArray[np.bool_], rng: np.random.Generator) -> Array:
    """Poses anywhere, many of them on a bound; those of ``gentle`` joints, (lanes, d), on sixteenths of the grid.

    A history begins at the grid point nearest to the pose. Judged from the pose itself, the way there is a movement of
    up to half a unit, and turning back from it must keep the deceleration: this holds for joints with A <= D only.
    """
    grid, shape = limits.grid, gentle.shape
    pose = rng.uniform(grid.low, grid.high, shape)
    pose = np.where(rng.random(shape) < 0.2, np.where(rng.random(shape) < 0.5, grid.low, grid.high), pose)
    return np.clip(np.where(gentle, np.rint(16 * pose) / 16, np.rint(pose)), grid.low, grid.high) * grid.unit


def targets(limits: RateLimits, lanes: int, rng: np.random.Generator) -> Iterator[Array]:
    """Adversarial targets without end: bang-bang, random, held, just beyond a bound, +-inf and NaN."""
    grid, shape, middle = limits.grid, (lanes, limits.dim), (limits.low + limits.high) / 2
    half = (limits.high - limits.low) / 2
    kind, held = rng.integers(4, size=shape), np.zeros(shape)
    while True:
        draw = rng.random(shape)
        fresh = middle + half * (2.4 * rng.random(shape) - 1.2)
        ends = np.where(draw < 0.5, limits.low - grid.unit, limits.high + grid.unit)
        switch = rng.random(shape) < np.choose(kind, (1.0, 0.1, 0.02, 0.3))
        held = np.where(switch, np.where((kind == 0) | (kind == 2), fresh, ends), held)
        odd = draw < 0.01
        yield np.where(odd, np.where(draw < 0.004, np.nan, np.where(draw < 0.007, np.inf, -np.inf)), held)


def tiled(grid: Grid, lanes: int) -> Grid:
    return Grid(*(np.tile(values, lanes) for values in grid))


def by_motion(limits: RateLimits, joint_steps: int, lanes: int = 64, stop: bool = True, seed: int = 0) -> Count:
    """Chains of ``Motion``, all joints of all lanes in one, with deratings and restarts."""
    rng, shape = np.random.default_rng(seed), (lanes, limits.dim)
    full, count = written(limits, shape), Count()
    motion = Motion(tiled(limits.grid, lanes), limits.names * lanes, stop)
    pose = starts(limits, gentle(full), rng)
    motion.start(pose.ravel())
    prev = before = pose
    now, source = full, targets(limits, lanes, rng)
    for t in range(-(-joint_steps // full.up.size)):
        if t % 50 == 25:  # lower the limits, or raise them again
            now = lower(motion, full, rng)
        old = motion.waiting
        action = motion.step(next(source).ravel()).reshape(shape)
        count.waiting += motion.waiting - old
        in_force = Grid(*(values.reshape(shape) for values in motion.limits))
        adopted = in_force.deceleration == motion.wanted.reshape(shape)
        brakes = np.where(adopted, now.deceleration, in_force.deceleration * in_force.unit)
        count.add(judge(action, prev, before, now._replace(deceleration=brakes), in_force))
        count.lowered += int(np.count_nonzero(now.up < full.up))
        before, prev = prev, action
        if t % 40 == 39:
            before, prev = restart(motion, limits, now, prev, before, rng)
            count.restarts += lanes // 4
    return count.close(limits.dim)


def lower(motion: Motion, full: Limits, rng: np.random.Generator) -> Limits:
    """Lower rates and accelerations of some joints, some of them to a rate of 0; now and then back to the full ones."""
    shape = full.up.shape
    lowered = rng.random(shape) < rng.choice([0.0, 0.5])
    rate = np.where(lowered, rng.choice([0.0, 0.1, 0.5, 0.9], shape), 1.0)
    # A share of at least two units of the grid, below which there is no limit to keep.
    unit = motion.full.unit.reshape(shape)
    least = np.minimum(2 * unit / np.minimum(full.acceleration, full.deceleration), 1)
    a, d = (np.where(lowered, np.maximum(rng.uniform(0.2, 1, shape), least), 1.0) for _ in range(2))
    now = full._replace(
        up=full.up * rate, down=full.down * rate, acceleration=full.acceleration * a, deceleration=full.deceleration * d
    )
    motion.set_rates(now.up.ravel(), now.down.ravel())
    motion.set_acceleration(now.acceleration.ravel(), now.deceleration.ravel())
    return now


def restart(
    motion: Motion, limits: RateLimits, now: Limits, prev: Array, before: Array, rng: np.random.Generator
) -> tuple[Array, Array]:
    """Begin a quarter of the lanes anew, at rest at another pose; the history of both steps is that very pose."""
    lanes = len(prev)
    rows = rng.permutation(lanes)[: lanes // 4]
    velocity = prev - before
    velocity[rows], prev, before = 0, prev.copy(), before.copy()
    prev[rows] = before[rows] = starts(limits, gentle(now)[rows], rng)
    motion.start(prev.ravel(), velocity.ravel())
    return before, prev


def by_layer(
    name: str, limits: RateLimits, dtype: torch.dtype, joint_steps: int, lanes: int = 64, seed: int = 0
) -> Count:
    """Chains of one layer, with adversarial latents, rates of the step in a third of the time, and restarts."""
    rng, generator = np.random.default_rng(seed), torch.Generator().manual_seed(seed)
    shape, layer, count = (lanes, limits.dim), make_layer(name), Count()
    full, grid = written(limits, shape), Grid(*(np.broadcast_to(values, shape) for values in limits.grid))
    pose = starts(limits, gentle(full), rng)
    prev, velocity = limits.clamp(torch.from_numpy(pose)).to(dtype), torch.zeros(shape, dtype=dtype)
    last = before = pose
    for t in range(-(-joint_steps // full.up.size)):
        if t % 20 == 0:
            rates = limits.delta * rng.choice([0.0, 0.1, 0.5, 1.0], shape) if t % 60 == 40 else None
        now = full if rates is None else full._replace(up=rates, down=rates)
        box = limits.box(prev, check=False, velocity=velocity, delta=rates)
        executed = layer.execute(latents(t, shape, dtype, generator), box)
        action = executed.double().numpy()
        count.add(judge(action, last, before, now, grid))
        count.lowered += 0 if rates is None else action.size
        velocity, prev, before, last = executed - prev, executed, last, action
        if t % 40 == 39:
            rows = rng.permutation(lanes)[: lanes // 4]
            last, before, prev = last.copy(), before.copy(), prev.clone()
            last[rows] = before[rows] = pose = starts(limits, gentle(full)[rows], rng)
            prev[rows], velocity[rows] = limits.clamp(torch.from_numpy(pose)).to(dtype), 0.0
            count.restarts += len(rows)
    return count.close(limits.dim)


def latents(t: int, shape: tuple[int, int], dtype: torch.dtype, generator: torch.Generator) -> torch.Tensor:
    """Adversarial ones in every third step, else a drift that holds for long enough that joints gather speed."""
    if t % 3 == 0:
        return adversarial_latents(shape, dtype, generator)
    drift = 3.0 * torch.sign(torch.sin(torch.arange(shape[0] * shape[1]) * 1.7 + t / 12).reshape(shape))
    return (drift + torch.randn(shape, generator=generator)).to(dtype)


class Chain(NamedTuple):
    """One share of the work: the chains of one mover under all limits."""

    mover: str
    dtype: str
    joint_steps: int
    seed: int


BRAKING, FREE = "`Motion`", "`Motion`, `stop_at_target=False`"


def chains(joint_steps: int, size: int = 20_000_000) -> list[Chain]:
    """Four fifths by ``Motion``, with and without braking for the target, and a fifth by every hard layer."""
    share, each = joint_steps * 2 // 5, -(-joint_steps // (5 * 2 * len(HARD)))
    parts = max(1, -(-share // size))
    made = [Chain(name, "float64", -(-share // parts), seed) for name in (BRAKING, FREE) for seed in range(parts)]
    return made + [Chain(name, dtype, each, k) for k, name in enumerate(HARD) for dtype in ("float32", "float64")]


def run_chain(chain: Chain) -> tuple[Chain, Count]:
    torch.set_num_threads(1)
    limits = side_by_side([*robots().values(), lopsided(seed=chain.seed)])
    if chain.mover in HARD:
        dtype = getattr(torch, chain.dtype)
        return chain, by_layer(chain.mover, limits, dtype, chain.joint_steps, seed=chain.seed)
    return chain, by_motion(limits, chain.joint_steps, stop=chain.mover == BRAKING, seed=chain.seed)


HEADER = f"""| mover | dtype | joint steps | under lowered limits | restarts | {" | ".join(KINDS)} | CPU s |
|---|---|---|---|---|{"---|" * len(KINDS)}---|"""


def chain_rows(results: list[tuple[Chain, Count]]) -> list[str]:
    """The table: one row for each kind of ``Motion``, and one for all layers in each dtype."""
    rows: dict[tuple[str, str], Count] = {}
    for chain, count in results:
        mover = f"{len(HARD)} layers" if chain.mover in HARD else chain.mover
        rows.setdefault((mover, chain.dtype), Count()).__iadd__(count)
    cells = [
        (*key, *(f"{n:,}" for n in (c.joint_steps, c.lowered, c.restarts, *c.broken.sum(1).tolist(), round(c.seconds))))
        for key, c in rows.items()
    ]
    return [HEADER, *("| " + " | ".join(row) + " |" for row in cells)]


def summary(results: list[tuple[Chain, Count]]) -> list[str]:
    """What a reader wants first, and the table."""
    total, names = Count(), [*robots(), "random"]
    for _, count in results:
        total += count
    broken = ", ".join(f"{n:,} {kind}" for kind, n in zip(KINDS, total.broken.sum(1).tolist(), strict=True))
    return [
        f"**{total.joint_steps:,} joint steps: {broken}**, in {total.seconds:,.0f} s of CPU time. Limits of "
        f"{', '.join(names[:-1])} and {lopsided().dim} random joints whose limits differ by direction. "
        f"In {total.waiting:,} joint steps a lower deceleration had to wait until the joint could stop by it.",
        "",
        *chain_rows(results),
        "",
        f"The layers: {', '.join(HARD)}.",
    ]
