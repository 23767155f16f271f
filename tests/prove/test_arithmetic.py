"""The programs that are proved are the code: bit for bit, in Python and in compiled C, on random and awkward inputs."""

import ctypes
import shutil
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from test_c_export import SHOW, Wishes, compiled, same, wild_limits

from slewrl import RateLimits, make_layer
from slewrl.deploy.c_export import limiter_header
from slewrl.deploy.limiter import RateLimiter
from slewrl.deploy.motion import Motion
from slewrl.layers import fused
from slewrl.layers.arrays import ArrayLayer
from slewrl.limits import viability
from slewrl.limits.boxmath import LARGEST
from slewrl.prove.arithmetic import BRAKES, FASTEST, GUARD, LIMITER, STEP_DT
from slewrl.prove.program import Program

needs_gcc = pytest.mark.skipif(shutil.which("gcc") is None, reason="there is no gcc to compile the header with")
D = ctypes.c_double


def functions(folder, header, **signatures):
    """Functions of a compiled header: name = (result, *arguments)."""
    made = compiled(folder, SHOW + header, "-std=c99", "-O2", "-fPIC", "-shared")
    assert made.returncode == 0, made.stderr
    library = ctypes.CDLL(str(folder / "main"))
    found = {name: getattr(library, f"slewrl_{name}") for name in signatures}
    for name, (result, *arguments) in signatures.items():
        found[name].restype, found[name].argtypes = result, arguments
    return SimpleNamespace(**found)


def some_steps(limits, steps, seed=0):
    """Previous commands, in range and out of it, and commands: wild ones, and some floats beside each edge."""
    rng = np.random.default_rng(seed)
    wishes, d = Wishes(rng, limits, steps), len(limits.names)
    for t in range(steps):
        share = rng.uniform(0, 1, d) if rng.random() < 0.7 else rng.uniform(-0.3, 1.3, d)
        prev = limits.low + (limits.high / 2 - limits.low / 2) * 2 * share
        prev = np.where(rng.random(d) < 0.2, rng.choice([-1, 1], d) * 10.0 ** rng.uniform(-310, 0, d), prev)
        prev = np.clip(prev, limits.low, limits.high) if rng.random() < 0.6 else np.clip(prev, -LARGEST, LARGEST)
        yield prev, wishes.at(t, prev)


def values(limits, prev, wanted, inside):
    rates = {"rise": limits.up, "fall": limits.down, "low": limits.low, "high": limits.high}
    return {"prev": prev, "wanted": wanted, "inside": np.full(prev.shape, inside), **rates}


def in_range(limits, prev):
    return bool(((prev >= limits.low) & (prev <= limits.high)).all())


def test_the_limiter_is_the_python_code():
    limits = wild_limits(np.random.default_rng(0))
    limiter = RateLimiter(limits)
    for prev, wanted in some_steps(limits, 4_000):
        limiter.start(prev)
        given = values(limits, prev, wanted, in_range(limits, prev))
        assert same(LIMITER.compute("command", given), limiter.step(wanted))


def test_the_shortcut_is_the_python_code():
    """One joint at a time, so that a plain command is one of all joints."""
    limits, taken = wild_limits(np.random.default_rng(1), 24), 0
    for prev, wanted in some_steps(limits, 150, seed=2):
        for i in range(len(prev)):
            arrays = {key: getattr(limits, key)[i : i + 1] for key in ("up", "down", "low", "high")}
            one = SimpleNamespace(**arrays, names=("j",), dt=None)
            limiter = RateLimiter(one)
            limiter.start(prev[i : i + 1])
            clipped = []
            limiter._clip = lambda *_, seen=clipped: seen.append(1)
            before = limiter.prev
            limiter.step(wanted[i : i + 1])
            given = values(one, before, wanted[i : i + 1], in_range(one, before))
            plain = bool(LIMITER.compute("plain", given)[0])
            assert plain == (not clipped)
            taken += plain
            if plain:
                assert same(LIMITER.compute("clipped", given), limiter.prev)
                assert same(LIMITER.compute("command", given), limiter.prev)
    assert 100 < taken < 3_000


@needs_gcc
def test_the_limiter_is_the_c_code(tmp_path):
    limits = wild_limits(np.random.default_rng(0))
    header = limiter_header(limits)
    c = functions(tmp_path, header, nearest=(D, D, D, D, D, ctypes.c_int, ctypes.c_int))
    for prev, wanted in some_steps(limits, 1_000, seed=3):
        inside = in_range(limits, prev)
        found = LIMITER.compute("command", values(limits, prev, wanted, inside))
        rows = zip(wanted, prev, limits.up, limits.down, range(len(prev)), strict=True)
        assert same(np.array([c.nearest(*row, int(inside)) for row in rows]), found)


@needs_gcc
def test_a_measured_dt_is_the_python_and_the_c_code(tmp_path):
    limits = RateLimits(up=[0.1, 1e-3], down=[0.3, 7e-3], low=-1, high=1, names=["a", "b"], dt=0.02)
    limiter = RateLimiter(limits, longest=3.0)
    c = functions(tmp_path, limiter_header(limits, longest=3.0), nominal_steps=(D, D), scaled=(D, D, D))
    rng = np.random.default_rng(0)
    times = [*(0.02 * 10.0 ** rng.uniform(-12, 4, 3_000)), 0.0, -1.0, np.nan, np.inf, 0.02, 5e-324, 1e308]
    times += [float(x) for k in (1, 2, 3) for x in np.nextafter(0.02 * k, [-1, 1])]
    for dt in times:
        given = {"dt": np.float64(dt), "period": np.float64(0.02), "longest": np.float64(3), "largest": LARGEST}
        steps = STEP_DT.compute("steps", given)
        assert float(steps) == c.nominal_steps(dt)
        for row, rates in enumerate((limits.up, limits.down)):
            found = STEP_DT.compute("scaled", {**given, "rate": rates})
            np.testing.assert_array_equal(found, limiter._scaled(float(dt))[row])
            assert [c.scaled(rate, float(steps)) for rate in rates] == found.tolist()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_guard_is_the_box_and_the_layers(dtype):
    rng, d = np.random.default_rng(0), 64
    half, centre = 10.0 ** rng.uniform(-2, 2, d), rng.normal(size=d)
    rates = [half * 10.0 ** rng.uniform(-3, 0, d) for _ in range(2)]
    limits = RateLimits(up=rates[0], down=rates[1], low=centre - half, high=centre + half)
    down, up, low, high = (x.numpy() for x in limits.rounded(getattr(torch, dtype), edges="guard").working)
    layer = ArrayLayer(make_layer("ddsrad"), limits, dtype)
    for _ in range(300):
        prev = np.clip((low + (high - low) * rng.random(d)).astype(dtype), low, high)
        wanted = np.where(rng.random(d) < 0.1, np.nan, prev + rng.normal(size=d) * (high - low)).astype(dtype)
        given = {"prev": prev, "up": up, "down": down, "low": low, "high": high, "wanted": wanted}
        box = limits.box(torch.from_numpy(prev))
        np.testing.assert_array_equal(GUARD.compute("top", given), box.high.numpy())
        np.testing.assert_array_equal(GUARD.compute("bottom", given), box.low.numpy())
        np.testing.assert_array_equal(GUARD.compute("action", given), layer.clip(wanted, prev))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_fused_path_is_the_code(dtype):
    """The increment is what the layer adds to prev; the edges of the squash, and beyond, are among the latents."""
    rng, d = np.random.default_rng(0), 64
    half, centre = 10.0 ** rng.uniform(-2, 2, d), rng.normal(size=d)
    limits = RateLimits(half * 10.0 ** rng.uniform(-3, 0, d), low=centre - half, high=centre + half)
    down, up, low, high = (x.numpy() for x in limits.rounded(getattr(torch, dtype)).working)
    for _ in range(300):
        prev = np.clip((low + (high - low) * rng.random(d)).astype(dtype), low, high)
        u = (rng.normal(size=d) * 10.0 ** rng.uniform(-3, 6, d)).astype(dtype)
        box = limits.box(torch.from_numpy(prev))
        finite, _, r = fused._finite(torch.from_numpy(u), 1e6)
        executed, radius = fused._map(finite, r, box)
        increment = np.minimum(np.maximum(finite * r, -1), 1).astype(dtype) * radius
        assert (increment <= up).all() and (increment >= -down).all()
        given = {"prev": prev, "increment": increment, "low": low, "high": high}
        np.testing.assert_array_equal(GUARD.compute("fused", given), executed)


def grids(count, seed=0):
    rng = np.random.default_rng(seed)
    half = 2.0 ** rng.integers(4, 23, count)
    rate = np.maximum(np.floor(half * 10.0 ** rng.uniform(-4, 0, count)), 1)
    brakes = np.maximum(np.floor(rate * 10.0 ** rng.uniform(-3, 0.3, count)), 1)
    faster = np.where(rng.random(count) < 0.5, brakes, np.maximum(np.floor(brakes * rng.uniform(0.3, 3, count)), 1))
    other = np.maximum(np.floor(rate * rng.uniform(0.5, 1.5, count)), 1)
    return viability.Grid(np.full(count, 2.0**-10), rate, other, faster, brakes, -half, half - 1)


def test_braking_is_the_python_code():
    d, rng = 400, np.random.default_rng(0)
    grid = grids(d)
    motion = Motion(grid, tuple(map(str, range(d))))
    motion.start((grid.low + np.floor((grid.high - grid.low) * rng.random(d))) * grid.unit)
    for t in range(400):
        if t % 25 == 0:
            target = (grid.low + np.floor((grid.high - grid.low) * rng.random(d))) * grid.unit
        wild = np.where(rng.random(d) < 0.05, rng.choice([np.nan, np.inf, -np.inf], d), target)
        q, v = motion.command.copy(), motion.velocity.copy()
        given = {key: getattr(grid, key) for key in ("up", "down", "low", "high")}
        given |= {"q": q, "v": v, "faster": grid.acceleration, "brakes": grid.deceleration}
        rooms = {side: FASTEST.compute("fastest", {"room": BRAKES.compute(side, given), "brakes": grid.deceleration})
                 for side in ("below", "above")}  # fmt: skip
        given |= {"fastest_below": rooms["below"], "fastest_above": rooms["above"]}
        bottom, top = viability.increments(v, BRAKES.compute("below", given), BRAKES.compute("above", given), grid)
        assert same(BRAKES.compute("top", given) + 0.0, top + 0.0)
        assert same(BRAKES.compute("bottom", given) + 0.0, bottom + 0.0)
        there = np.where(np.isnan(wild), q, wild / grid.unit)
        aim = np.rint(np.clip(there, grid.low, grid.high)) - q
        stop = FASTEST.compute("stoppable", {"room": np.abs(aim), "brakes": grid.deceleration})
        assert same(stop, FASTEST.compute("fastest", {"room": np.abs(aim), "brakes": grid.deceleration}))
        given["way"] = np.copysign(stop, aim)
        motion.step(wild)
        assert same(motion.velocity, BRAKES.compute("clipped", given) + 0.0)
        assert same(motion.velocity, BRAKES.compute("step", given) + 0.0)
        plain = BRAKES.compute("plain", given)
        assert same(motion.velocity[plain], given["way"][plain] + 0.0) and plain.any()


def test_a_line_is_the_python_code():
    """Sines that three joints follow on their lines."""
    grid = viability.Grid(*(x[:3] for x in grids(20, seed=3)))
    motion, along = Motion(grid, ("a", "b", "c")), 0
    motion.start(np.zeros(3))
    size = 0.4 * grid.high
    turn = 0.4 * np.minimum(np.minimum(grid.up, grid.down) / size, np.sqrt(grid.deceleration / size))
    for t in range(3_000):
        way, lines = np.rint(size * np.sin(turn * t)) - motion.command, motion._lines
        known, taken = lines._known is motion.velocity, lines._steps.copy()
        motion.step((motion.command + way) * grid.unit)
        if known and lines._known is motion.velocity and (taken == lines._steps).all():
            given = {"room": np.abs(way), "brakes": grid.deceleration, "taken": taken}
            assert FASTEST.compute("stays", given).all()
            assert same(motion.velocity, np.copysign(FASTEST.compute("along", given), way) + 0.0)
            along += 1
    assert along > 300


@needs_gcc
def test_braking_is_the_c_code(tmp_path):
    limits = RateLimits(0.02, -1, 1, names=["a"], dt=0.01, acceleration=40, deceleration=25)
    pointer = ctypes.POINTER(D)
    c = functions(tmp_path, limiter_header(limits), fastest=(D, D, D), braked=(D, D, D),
                  edges=(None, *[D] * 7, pointer, pointer))  # fmt: skip
    grid, rng = grids(3_000, seed=1), np.random.default_rng(1)
    q = grid.low + np.floor((grid.high - grid.low) * rng.random(3_000))
    v = np.floor(rng.uniform(-grid.down, grid.up))
    given = {"q": q, "v": v, "faster": grid.acceleration, "brakes": grid.deceleration}
    given |= {key: getattr(grid, key) for key in ("up", "down", "low", "high")}
    below, above = BRAKES.compute("below", given), BRAKES.compute("above", given)
    for side, room in (("fastest_below", below), ("fastest_above", above)):
        given[side] = FASTEST.compute("fastest", {"room": room, "brakes": grid.deceleration})
        assert given[side].tolist() == [c.fastest(*row) for row in zip(room, grid.deceleration, strict=True)]
    edges = BRAKES.compute("bottom", given), BRAKES.compute("top", given)
    bottom, top = D(), D()
    rows = zip(v, below, above, grid.up, grid.down, grid.acceleration, grid.deceleration, strict=True)
    for i, row in enumerate(rows):
        c.edges(*row, ctypes.byref(bottom), ctypes.byref(top))
        assert (bottom.value, top.value) == (edges[0][i], edges[1][i])
    slower = BRAKES.compute("slower", given)
    assert slower.tolist() == [c.braked(*row) for row in zip(v, grid.deceleration, strict=True)]


def test_a_program_says_what_is_wrong_with_it():
    with pytest.raises(ValueError, match="'x' is no definition"):
        Program("x")
    with pytest.raises(ValueError, match="'zoo' is there 0 times, expected once"):
        LIMITER.edited("zoo", "z")
    with pytest.raises(ValueError, match="not part of the language"):
        Program("x = [a]").compute("x", {"a": 1.0})
