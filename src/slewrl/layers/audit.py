"""Audits the guarantee with adversarial cases, decided in exact arithmetic (docs/guarantee.md).

Ordinary latents and uniform random actions never show a violation, so a test with them proves nothing.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from slewrl.layers.base import ActionLayer
from slewrl.layers.truncnorm import TruncNorm
from slewrl.limits import RateLimits, boxmath, viability
from slewrl.limits.box import FeasibleBox, LimitTensors, round_limits
from slewrl.limits.rate_limits import Edges
from slewrl.limits.viable_box import ViableBox

Scale = Literal["tiny", "ordinary", "huge"]
"""The magnitudes within a float format: near the subnormals, about 1, or up to the largest allowed."""
Mapping = Callable[[Tensor, FeasibleBox], Tensor]
"""A map (latent, box) -> executed action, all (..., d)."""
BLOCK_ROWS = 4096
STRETCH, RESTARTS = 20, 0.01
"""Chains under acceleration limits: the steps between two changes of rates, and the share of steps that start anew."""


@dataclass
class Tally:
    """The counts of an audit. One case is one joint of one action."""

    cases: int = 0
    violations: int = 0
    """The number of cases outside F_t, decided in exact arithmetic; NaN counts."""
    nan: int = 0
    """The number of violations that are NaN."""
    overshoot: float = 0.0
    """The largest |a - prev| / delta - 1 among the violations, 0 without any."""
    seconds: float = 0.0
    rate: int = 0
    """The number of violations of the rate."""
    bounds: int = 0
    """The number of violations of the range; one case can violate several limits."""
    acceleration: int = 0
    """The number of violations of the acceleration."""

    def __iadd__(self, other: "Tally") -> "Tally":
        """Add the counts of another audit."""
        for key in ("cases", "violations", "nan", "rate", "bounds", "acceleration"):
            setattr(self, key, getattr(self, key) + getattr(other, key))
        self.overshoot = max(self.overshoot, other.overshoot)
        self.seconds += other.seconds
        return self


def executed_by(layer: ActionLayer) -> Mapping:
    """The map from a latent to the layer's executed action; half of TruncNorm's actions are samples."""
    if not isinstance(layer, TruncNorm):
        return layer.execute

    def draw(latent: Tensor, box: FeasibleBox) -> Tensor:
        half = len(latent) // 2
        noise, std = latent.roll(1, 0), latent.roll(2, 0).abs()
        bare = layer.execute(latent, box)
        return torch.cat([layer.sample(latent, std, noise, box)[0].executed[:half], bare[half:]])

    return draw


def paper_formula(latent: Tensor, box: FeasibleBox) -> Tensor:
    """Evaluate Eq. (reff) and (ddsrad) as written, in plain floats, without any care for rounding."""
    down, up, low, high = (limit.to(latent.dtype) for limit in box.exact)
    radius = torch.where(latent > 0, torch.minimum(up, high - box.prev), torch.minimum(down, box.prev - low))
    return box.prev + radius * (latent / torch.sqrt(1 + latent**2))


def edge_of_box(latent: Tensor, box: FeasibleBox) -> Tensor:
    """The edge of the box on the latent's side; if both edges are inside F_t, so is everything between them."""
    return torch.where(latent < 0, box.low, box.high)


def hand_written_clip(latent: Tensor, box: FeasibleBox) -> Tensor:
    """clip(command, prev - delta, prev + delta) within the range, as commonly written in deployment scripts."""
    down, up, low, high = (limit.to(latent.dtype) for limit in box.exact)
    command = (low + high) / 2 + (high - low) / 2 * torch.tanh(latent)
    return torch.clamp(torch.clamp(command, box.prev - down, box.prev + up), low, high)


def paper_limits() -> dict[str, RateLimits]:
    """The limits of the paper's four tasks (tight) and two robots, by name."""
    tasks = ("Ant-v5", "Humanoid-v5", "HalfCheetah-v5", "Hopper-v5")
    robots = ("H1", "G1")
    return {t: RateLimits.preset(t, "tight") for t in tasks} | {r: RateLimits.preset(r, "paper") for r in robots}


def random_limits(joints: int = 24, seed: int = 0) -> RateLimits:
    """Make asymmetric limits: ranges off centre by up to 1000, rates from 5e-4 of the range to all of it."""
    rng = np.random.default_rng(seed)
    centre = rng.choice([0.0, 1.0, 1e3], joints) * rng.uniform(-1, 1, joints)
    half = 10.0 ** rng.uniform(-1, 3, joints)
    up, down = (half * 10.0 ** rng.uniform(-3, 0.3, joints) for _ in range(2))
    return RateLimits(up=up, down=down, low=centre - half, high=centre + half)


def extreme_limits(scale: Scale, dtype: torch.dtype, joints: int = 64, seed: int = 0) -> RateLimits:
    """Make asymmetric limits at one end of ``dtype``, with rates from above the range to barely resolvable."""
    info, rng = torch.finfo(dtype), np.random.default_rng(seed)
    smallest, largest, digits = info.tiny * info.eps, boxmath.largest(info), 1 - np.log2(info.eps)
    first, last = {
        "tiny": (8 * smallest, smallest * 2.0 ** (digits + 8)), "ordinary": (2.0**-5, 2.0**5),
        "huge": (largest / 16, largest),
    }[scale]  # fmt: skip
    many = 8 * joints  # some are too fine for the dtype and are dropped below
    high = np.minimum(first * (last / first) ** rng.uniform(0, 1.1, many), last)  # some exactly at the end
    low = high * np.where(rng.random(many) < 0.4, -1.0, rng.uniform(-1, 0.9, many))
    up, down = (np.minimum(high * 2.0 ** rng.uniform(2 - digits, 1, many), largest) for _ in range(2))
    low, high = np.where(rng.random(many) < 0.5, (low, high), (-high, -low))
    exact = LimitTensors(*(torch.from_numpy(x) for x in (down, up, low, high)))
    working = round_limits(exact, dtype, tight=False).working
    held = (working.up > 0) & (working.down > 0) & (working.low < working.high)
    chosen = np.flatnonzero(held.numpy())[:joints]
    return RateLimits(up=up[chosen], down=down[chosen], low=low[chosen], high=high[chosen])


def adversarial_rates(rows: int, limits: RateLimits, dtype: torch.dtype, generator: torch.Generator) -> Tensor:
    """Make rates of one step (rows, d), some below the resolution of ``dtype``, with 0, NaN, -1 and inf among them."""
    shape, digits = (rows, limits.dim), 1 - np.log2(torch.finfo(dtype).eps)
    draw, kind = (torch.rand(shape, generator=generator, dtype=torch.float64) for _ in range(2))
    rate = torch.from_numpy(limits.delta) * 2.0 ** (0.5 - (digits + 2) * draw)
    rate = torch.where(kind < 0.5, rate.to(dtype).double(), rate)
    for i, special in enumerate((0.0, torch.nan, -1.0, torch.inf)):
        rate = torch.where((kind > 0.5 + 0.01 * i) & (kind < 0.51 + 0.01 * i), special, rate)
    return rate


def adversarial_latents(shape: tuple[int, ...], dtype: torch.dtype, generator: torch.Generator) -> Tensor:
    """Make latents from 1e-8 to beyond overflow, of both signs, with ordinary ones, +-inf, NaN and 0 among them."""
    draw = torch.rand(shape, generator=generator, dtype=torch.float64)
    exponent = torch.rand(shape, generator=generator, dtype=torch.float64) * 46 - 8
    sign = torch.where(torch.rand(shape, generator=generator) < 0.5, -1.0, 1.0).double()
    latent = sign * 10.0**exponent
    ordinary = torch.randn(shape, generator=generator, dtype=torch.float64)
    latent = torch.where(draw < 0.15, ordinary, latent)
    for i, special in enumerate((torch.inf, torch.nan, 0.0, 1e30, 1e4)):
        latent = torch.where((draw > 0.15 + 0.02 * i) & (draw < 0.17 + 0.02 * i), sign * special, latent)
    return latent.to(dtype)


def adversarial_prevs(rows: int, limits: RateLimits, dtype: torch.dtype, generator: torch.Generator) -> Tensor:
    """Make feasible previous actions (rows, d) with full mantissas, many on the bounds or a few floats from them."""
    low, high = limits.rounded(dtype).working[2:]
    shape = (rows, limits.dim)

    def rand() -> Tensor:
        return torch.rand(shape, generator=generator, dtype=torch.float64)

    # A product of two draws fills the mantissa, unlike rand(), whose values lie on a grid.
    inner = (low.double() + (high - low).double() * rand()) * (1 - rand() * 2.0**-9)
    which = rand()
    bound = torch.where(rand() < 0.5, low.double(), high.double())
    near = bound + (inner - bound) * 10.0 ** (-9 * rand())
    prev = torch.where(which < 0.3, near, inner).to(dtype)
    for i in range(4):  # on the bound, and one, two and three floats inside
        on = bound.to(dtype)
        for _ in range(i):
            on = torch.nextafter(on, 0.5 * (low + high))
        prev = torch.where((which > 0.3 + 0.05 * i) & (which < 0.35 + 0.05 * i), on, prev)
    return torch.clamp(prev, low, high)


def adversarial_velocities(prev: Tensor, limits: RateLimits, generator: torch.Generator) -> Tensor:
    """Make last increments from which every joint can still stop, many as large as that allows; prev is on the grid."""
    grid = limits.on_grid(prev.dtype, prev.device)
    here = prev.double() / grid.unit
    below, above = (
        viability.fastest(room, grid.deceleration, xp=torch) for room in (here - grid.low, grid.high - here)
    )
    least = -torch.minimum(below + grid.deceleration, grid.down)
    most = torch.minimum(above + grid.deceleration, grid.up)
    share = 2 * torch.rand(prev.shape, generator=generator, dtype=torch.float64) - 0.5  # half of them beyond an end
    return ((least + (most - least) * share.clamp(0, 1)).round() * grid.unit).to(prev.dtype)


def adversarial_cases(
    limits: RateLimits, dtype: torch.dtype, cases: int, seed: int, edges: Edges = "guard", of_step: bool = False
) -> Iterator[tuple[Tensor, FeasibleBox]]:
    """Yield blocks of (latent, box) with at least ``cases`` joint cases in all; ``of_step`` adds rates of one step."""
    generator = torch.Generator().manual_seed(seed)
    rows = max(1, -(-cases // limits.dim))
    for start in range(0, rows, BLOCK_ROWS):
        size = min(BLOCK_ROWS, rows - start)
        prev = adversarial_prevs(size, limits, dtype, generator)
        rates = adversarial_rates(size, limits, dtype, generator) if of_step else None
        velocity = None
        if limits.grid is not None:
            prev = limits.clamp(prev)
            velocity = adversarial_velocities(prev, limits, generator)
        box = limits.box(prev, check=False, velocity=velocity, delta=rates, edges=edges)
        yield adversarial_latents(tuple(prev.shape), dtype, generator), box


def judge(
    action: Tensor, prev: Tensor, limits: RateLimits | LimitTensors, sharp: NDArray[np.bool_] | None = None
) -> Tally:
    """Count exactly the joints of ``action`` (..., d) outside F_t(prev); for a box, pass ``box.exact`` as limits.

    ``sharp`` marks the joints that broke their acceleration.
    """
    wide_action, wide_prev = action.double().numpy(), prev.double().numpy()
    down, up, low, high = (np.asarray(x) for x in (limits.down, limits.up, limits.low, limits.high))
    outside = boxmath.outside(wide_action, wide_prev, down, up, low, high)
    broken = outside if sharp is None else outside | sharp
    tally = Tally(
        cases=outside.size, violations=int(broken.sum()), acceleration=0 if sharp is None else int(sharp.sum())
    )
    if outside.any():
        with np.errstate(all="ignore"):
            step = wide_action - wide_prev
            excess = np.where(step > 0, step / up, -step / down)[outside] - 1
        tally.nan = int(np.isnan(wide_action).sum())
        tally.overshoot = float(np.nanmax(np.append(excess, 0.0)))
        tally.rate = int(boxmath.outside(wide_action, wide_prev, down, up, -np.inf, np.inf).sum())
        tally.bounds = int((~((wide_action >= low) & (wide_action <= high))).sum())
    return tally


def judge_box(action: Tensor, box: FeasibleBox, before: Tensor | None = None) -> Tally:
    """Count exactly the joints of ``action`` (..., d) outside a box.

    With an acceleration limit ``before`` (..., d) is the action before ``box.prev``, by default prev - velocity.
    """
    if not isinstance(box, ViableBox):
        return judge(action, box.prev, box.exact)
    prev = box.prev.double()
    before = prev - box.velocity.double() if before is None else before.double()
    sharp = viability.too_sharp(action.double(), prev, before, *box.grid.exact)
    return judge(action, box.prev, allowed_rates(box), sharp)


def allowed_rates(box: ViableBox) -> LimitTensors:
    """The exact limits of a box, where a joint above a rate of this step may brake to it as fast as it can."""
    slower = viability.brake(box.velocity.double(), box.grid.deceleration * box.grid.unit, xp=torch)
    return box.exact._replace(up=torch.maximum(box.exact.up, slower), down=torch.maximum(box.exact.down, -slower))


def judge_budget(action: Tensor, prev: Tensor, limits: RateLimits | LimitTensors, budget: float) -> Tally:
    """Count exactly the actions (..., d) that exceed ``budget`` after ``prev``. One case is one action."""
    wide_action, wide_prev = action.double().numpy(), prev.double().numpy()
    over = boxmath.over_budget(wide_action, wide_prev, limits.down, limits.up, budget)
    return Tally(cases=over.size, violations=int(over.sum()), nan=int(np.isnan(wide_action).any(-1).sum()))


def outside_by_fractions(
    action: NDArray[np.float64], prev: NDArray[np.float64], limits: RateLimits | LimitTensors
) -> NDArray[np.bool_]:
    """Decide as ``limits.outside`` does, by rational arithmetic, one case at a time; for arrays (n, d)."""
    numbers = (prev, limits.down, limits.up, limits.low, limits.high)
    broadcast = [np.broadcast_to(np.asarray(x, dtype=np.float64), action.shape) for x in numbers]
    verdict = np.ones(action.shape, dtype=bool)
    for where in zip(*np.nonzero(np.isfinite(action)), strict=True):
        a, p, down, up, low, high = (Fraction(float(x[where])) for x in (action, *broadcast))
        verdict[where] = not (-down <= a - p <= up and low <= a <= high)
    return verdict


def audit(
    mapping: Mapping,
    limits: RateLimits,
    dtype: torch.dtype,
    cases: int,
    seed: int = 0,
    budget: float | None = None,
    edges: Edges = "guard",
    of_step: bool = False,
) -> Tally:
    """Audit a mapping over ``cases`` independent adversarial cases, and its ``budget``, if it promises one."""
    start = time.process_time()
    total = Tally()
    with torch.inference_mode():
        for latent, box in adversarial_cases(limits, dtype, cases, seed, edges, of_step):
            executed = mapping(latent, box)
            total += judge_box(executed, box)
            total.violations += judge_budget(executed, box.prev, box.exact, budget).violations if budget else 0
    total.seconds = time.process_time() - start
    return total


def audit_chain(
    mapping: Mapping,
    limits: RateLimits,
    dtype: torch.dtype,
    steps: int,
    lanes: int = 2,
    seed: int = 0,
    budget: float | None = None,
) -> Tally:
    """Audit a mapping over ``steps`` steps, each executed action fed back as prev, some latents bang-bang.

    With an acceleration limit, rates also shrink and grow while joints move, and lanes start anew from poses at rest.
    """
    if limits.grid is not None:
        return _audit_motion(mapping, limits, dtype, steps, lanes, seed)
    start = time.process_time()
    generator = torch.Generator().manual_seed(seed)
    prev = adversarial_prevs(lanes, limits, dtype, generator)
    total = Tally()
    with torch.inference_mode():
        for done in range(0, steps, 1000):
            shape = (min(1000, steps - done), lanes, limits.dim)
            latents = adversarial_latents(shape, dtype, generator)
            # Long runs against one bound, then the other, put prev on the lattice bound +- k delta.
            bang = 1e4 * torch.where(torch.rand(shape[1:], generator=generator) < 0.5, -1.0, 1.0)
            latents = torch.where(torch.rand(shape, generator=generator) < 0.5, bang.to(dtype), latents)
            path = [prev]
            for latent in latents:
                path.append(mapping(latent, limits.box(path[-1], check=False)))
            prev = path[-1]
            trace = torch.stack(path)
            total += judge(trace[1:], trace[:-1], limits)
            total.violations += judge_budget(trace[1:], trace[:-1], limits, budget).violations if budget else 0
    total.seconds = time.process_time() - start
    return total


def _audit_motion(mapping: Mapping, limits: RateLimits, dtype: torch.dtype, steps: int, lanes: int, seed: int) -> Tally:
    start, total, shape = time.process_time(), Tally(), (lanes, limits.dim)
    generator = torch.Generator().manual_seed(seed)

    def chance(of: tuple[int, ...], share: float) -> Tensor:
        return torch.rand(of, generator=generator) < share

    before = prev = limits.clamp(adversarial_prevs(lanes, limits, dtype, generator))
    with torch.inference_mode():
        for step in range(steps):
            if step % STRETCH == 0:  # long runs against one bound, then the other, under full or lower rates
                bang = torch.where(chance(shape, 0.5), -1e4, 1e4).to(dtype)
                lower = adversarial_rates(lanes, limits, dtype, generator)
                rates = lower if chance((), 0.5) else None
            pose = limits.clamp(adversarial_prevs(lanes, limits, dtype, generator))
            anew = chance((lanes, 1), RESTARTS)
            before, prev = torch.where(anew, pose, before), torch.where(anew, pose, prev)
            latent = torch.where(chance(shape, 0.7), bang, adversarial_latents(shape, dtype, generator))
            box = limits.box(prev, check=False, velocity=prev - before, delta=rates)
            executed = mapping(latent, box)
            total += judge_box(executed, box, before)
            before, prev = prev, executed
    total.seconds = time.process_time() - start
    return total
