"""The interval of acceleration limits, wherever it is written out, is that of ``viability.increments``.

Its module's docstring names the copies. Each is given the same joints in the same states, every state of small grids of
whole numbers and many of random limits in floats, and has to give the same numbers. ``increments`` itself is held to
kernels found by search, in test_viability.py.
"""

import ctypes
import itertools
import shutil
import subprocess
from typing import NamedTuple

import numpy as np
import pytest
import torch

from slewrl import RateLimits, make_layer
from slewrl.deploy import c_export
from slewrl.deploy.limiter import RateLimiter
from slewrl.deploy.lines import Lines
from slewrl.deploy.motion import Motion
from slewrl.layers import fused
from slewrl.layers.arrays import ArrayLayer
from slewrl.layers.base import latent_cap
from slewrl.layers.viable_arrays import ViableArrays
from slewrl.limits import viability
from slewrl.limits.viability import Grid
from slewrl.limits.viable_box import numpy_edges

TORCH = {np.dtype(np.float32): torch.float32, np.dtype(np.float64): torch.float64}
SMALL = list(itertools.product((4, 9, 16), (1, 3, 6), (2, 5), (1, 2, 7), (1, 2, 3)))
"""(width, up, down, A, D) in grid units: A != D, A beyond the rate, rates that are no multiple of A."""


class States(NamedTuple):
    """States (N, d) of d joints in grid units, from which every joint can stop in its range."""

    grid: Grid
    q: np.ndarray
    v: np.ndarray
    limits: RateLimits | None = None

    def edges(self):
        """(bottom, top) of the next increment: the definition."""
        return viability.increments(self.v, self.q - self.grid.low, self.grid.high - self.q, self.grid)

    def towards(self, target, stop):
        """The next increment towards a ``target`` (N, d): as far as it can stop there, or as far as it goes."""
        way = np.clip(target, self.grid.low, self.grid.high) - self.q
        if stop:
            way = np.sign(way) * viability.fastest(np.abs(way), self.grid.deceleration)
        return np.clip(way, *self.edges())

    def alone(self, i, every=1):
        """The states of joint i, each once, (n, 1)."""
        pairs = np.unique(np.stack([self.q[::every, i], self.v[::every, i]]), axis=1)
        return States(Grid(*(x[i : i + 1] for x in self.grid)), *pairs[..., None])


def viable(q, v, grid):
    return viability.stops_in_time(v, q - grid.low, grid.high - q, grid.deceleration)


def small_states():
    """Every state of every small grid; ranges that end at +-2^24 have a unit of 1. Short lists repeat a state."""
    width, up, down, a, d = np.array(SMALL, dtype=float).T
    side = np.arange(len(SMALL)) % 2
    low = np.where(side, 2.0**24 - width, -(2.0**24))
    limits = RateLimits(
        up=up + 1, down=down + 1, low=low, high=low + width, acceleration=a + 1, deceleration=d + 1
    )  # one unit more, which the grid takes off
    assert (limits.grid.unit == 1).all() and (limits.grid.deceleration == np.minimum(d, up + down)).all()
    lists = []
    for i in range(limits.dim):
        grid = Grid(*(x[i] for x in limits.grid))
        pairs = itertools.product(np.arange(grid.low, grid.high + 1), np.arange(-grid.down, grid.up + 1))
        lists.append([(q, v) for q, v in pairs if viable(q, v, grid)])
    most = max(map(len, lists))
    table = np.array([[states[n % len(states)] for states in lists] for n in range(most)])
    return States(limits.grid, *np.ascontiguousarray(np.moveaxis(table, -1, 0)), limits)


def random_states(joints=40, rows=300, seed=0):
    """Random limits in floats; joints on a bound, near it and anywhere, at rest, at any speed and as fast as can be."""
    rng = np.random.default_rng(seed)
    width = 10.0 ** rng.uniform(-2, 3, joints)
    low = -width * rng.uniform(-1, 2, joints)
    up, down, a, d = (width * 10.0 ** rng.uniform(-4, -0.1, joints) for _ in range(4))
    d = np.where(np.arange(joints) % 3, d, a)
    grid = (limits := RateLimits(up=up, down=down, low=low, high=low + width, acceleration=a, deceleration=d)).grid
    shape = (rows, joints)
    near = np.floor(np.minimum(grid.up, grid.high - grid.low) * rng.random(shape) * rng.choice([0, 0.1, 3], shape))
    place = rng.integers(0, 3, shape)
    q = np.choose(place, (grid.low + near, grid.high - near, np.floor(rng.uniform(grid.low, grid.high, shape))))
    q = np.clip(q, grid.low, grid.high)
    most, least = (
        np.minimum(rate, viability.fastest(room, grid.deceleration) + grid.deceleration)
        for rate, room in ((grid.up, grid.high - q), (grid.down, q - grid.low))
    )
    v = np.rint(np.where(rng.random(shape) < 0.5, most, -least) * rng.choice([0, 0.3, 0.9, 1], shape))
    assert viable(q, v, grid).all()
    return States(grid, q, v, limits)


@pytest.fixture(scope="module", params=["small", "random"])
def states(request):
    return small_states() if request.param == "small" else random_states()


# ---------------------------------------------------------------------- copies of the edges, in action units


def by_numpy(limits, prev, velocity):
    return numpy_edges(prev, velocity, limits.on_grid(TORCH[prev.dtype], "cpu"))


def by_box(limits, prev, velocity):
    box = limits.box(torch.from_numpy(prev), check=False, velocity=torch.from_numpy(velocity))
    return box.low.numpy(), box.high.numpy()


def by_vmap(limits, prev, velocity):
    """The box in torch alone, as it is under vmap, in a compiled function and in a bundle's graph."""

    def edges(one, last):
        box = limits.box(one, check=False, velocity=last)
        return box.low, box.high

    return [edge.numpy() for edge in torch.vmap(edges)(torch.from_numpy(prev), torch.from_numpy(velocity))]


def by_jax(limits, prev, velocity):
    """The box in JAX, compiled."""
    jax = pytest.importorskip("jax", reason='JAX is not installed: pip install "slewrl[jax]"')
    from slewrl.integrations.jax import box

    with jax.enable_x64(True):
        found = jax.jit(lambda one, last: box(limits, one, velocity=last))(prev, velocity)
        return np.asarray(found.low), np.asarray(found.high)


def by_arrays(limits, prev, velocity):
    found = ViableArrays(limits, TORCH[prev.dtype]).edges(prev, velocity)
    return found.bottom, found.top


def by_fused(limits, prev, velocity):
    """DD-SRad at full stretch."""
    box = limits.box(torch.from_numpy(prev), check=False, velocity=torch.from_numpy(velocity))
    far = torch.full_like(box.prev, np.inf)
    assert fused.applies(far, box)
    return [fused.ddsrad_execute(u, box, latent_cap(far.dtype)).numpy() for u in (-far, far)]


def by_array_layer(limits, prev, velocity):
    layer, far = ArrayLayer(make_layer("ddsrad"), limits, prev.dtype), np.full_like(prev, np.inf)
    return [layer.execute(u, prev, velocity) for u in (-far, far)]


def by_limiter(limits, prev, velocity):
    """Every joint at once: a limiter of all of them, step by step."""
    limiter = RateLimiter(limits)
    limiter.motion.stop_at_target = False
    found = []
    for far in (-np.inf, np.inf):
        rows = []
        for pose, last in zip(prev, velocity, strict=True):
            limiter.start(pose, last)
            rows.append(limiter.step(np.full(limits.dim, far)))
        found.append(np.array(rows))
    return found


COPIES = {
    "numpy_edges": by_numpy, "ViableBox": by_box, "ViableBox, torch alone": by_vmap, "ViableArrays": by_arrays,
    "JAX": by_jax, "fused ddsrad": by_fused, "ddsrad on arrays": by_array_layer, "RateLimiter": by_limiter,
}  # fmt: skip


@pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=["float32", "float64"])
@pytest.mark.parametrize("copy", COPIES)
def test_edges(copy, dtype, states):
    unit = states.grid.unit
    prev, velocity = ((x * unit).astype(dtype) for x in (states.q, states.v))
    found = COPIES[copy](states.limits, prev, velocity)
    for one, edge in zip(found, states.edges(), strict=True):
        np.testing.assert_array_equal(one, ((states.q + edge) * unit).astype(dtype))


BOXES = ("numpy_edges", "ViableBox", "ViableBox, torch alone", "JAX", "ViableArrays")


@pytest.mark.parametrize("copy", BOXES)
def test_edges_where_a_joint_is_faster_than_it_may_be(copy, states):
    """A limit that was lowered: full braking is what is left."""
    grid, unit = states.grid, states.grid.unit
    last = np.where(states.v >= 0, grid.up, -grid.down) + np.sign(states.v) * states.q % 4
    rooms = states.q - grid.low, grid.high - states.q
    assert not viability.stops_in_time(last, *rooms, grid.deceleration).all()
    found = COPIES[copy](states.limits, states.q * unit, last * unit)
    for one, edge in zip(found, viability.increments(last, *rooms, grid), strict=True):
        np.testing.assert_array_equal(one, (states.q + edge) * unit)


@pytest.mark.parametrize("share", [0.0, 0.4])
def test_edges_under_the_rates_of_one_step(share, states):
    limits, unit = states.limits, states.grid.unit
    rates = share * limits.delta
    whole = np.maximum(np.floor(rates / unit) - 1, 0)
    grid = limits.grid._replace(up=np.minimum(whole, limits.grid.up), down=np.minimum(whole, limits.grid.down))
    prev, last = (torch.from_numpy(x * unit) for x in (states.q, states.v))
    box = limits.box(prev, check=False, velocity=last, delta=rates)
    expected = viability.increments(states.v, states.q - grid.low, grid.high - states.q, grid)
    for one, edge in zip((box.low, box.high), expected, strict=True):
        np.testing.assert_array_equal(one.numpy(), (states.q + edge) * unit)


# ---------------------------------------------------------------------- copies of a step towards a target


def targets(states):
    """One target for each state, (N, d): around where the joint would go, and anywhere, on a bound or beyond it."""
    rng, grid = np.random.default_rng(1), states.grid
    shape, width = states.q.shape, grid.high - grid.low
    near = np.rint(rng.uniform(-1.2, 1.2, shape) * np.maximum(np.minimum(grid.acceleration, grid.deceleration), 2))
    made = (states.q + states.v + near, rng.uniform(grid.low, grid.high, shape), grid.high + 0 * near, states.q)
    return np.clip(np.rint(np.choose(rng.integers(0, 4, shape), made)), grid.low - width, grid.high + width)


def step_of_box(limits, prev, velocity, target):
    box = limits.box(torch.from_numpy(prev), check=False, velocity=torch.from_numpy(velocity))
    return box.clamp(torch.from_numpy(target)).numpy()


def step_of_vmap(limits, prev, velocity, target):
    def step(one, last, to):
        return limits.box(one, check=False, velocity=last).clamp(to)

    return torch.vmap(step)(*map(torch.from_numpy, (prev, velocity, target))).numpy()


def step_of_arrays(limits, prev, velocity, target):
    arrays = ViableArrays(limits, TORCH[prev.dtype])
    return arrays.reach(target, arrays.edges(prev, velocity))


def snap_of_arrays(limits, prev, velocity, target):
    arrays = ViableArrays(limits, TORCH[prev.dtype])
    return arrays.snap(target, arrays.edges(prev, velocity))


STEPS = {
    "ViableBox.clamp": (step_of_box, True), "ViableBox.clamp, torch alone": (step_of_vmap, True),
    "ViableArrays.reach": (step_of_arrays, True), "ViableArrays.snap": (snap_of_arrays, False),
}  # fmt: skip
"""Name -> (copy, whether it brakes for the target)."""


@pytest.mark.parametrize("copy", STEPS)
def test_steps(copy, states):
    unit, wanted = states.grid.unit, targets(states)
    step, stop = STEPS[copy]
    found = step(states.limits, *(x * unit for x in (states.q, states.v, wanted)))
    np.testing.assert_array_equal(found, (states.q + states.towards(wanted, stop)) * unit)


def placed(motion, q, v):
    """``motion`` in a state, as ``start`` puts it, without its checks, which take most of the time."""
    motion.command, motion.velocity, motion._free = q, v, 0
    return motion


@pytest.mark.parametrize("stop", [True, False], ids=["braking", "free"])
def test_a_motion_of_one_joint(stop, states):
    """One joint alone, so that every shortcut is taken where it may be: towards each point of a small grid."""
    small = (states.grid.unit == 1).all()
    for i in range(0, states.q.shape[1], 5):  # a fifth of the joints, and all limits among them
        one = states.alone(i, 1 if small else 5)
        grid, q, v = one.grid, one.q, one.v
        if small:
            wanted = np.tile(np.arange(grid.low[0] - 1, grid.high[0] + 2), (len(q), 1))
        else:
            offsets = np.array([-1, 0, 1]) * np.minimum(grid.acceleration, grid.deceleration)
            wanted = np.hstack([q + offsets, q + v + offsets, q + v + offsets + 1, 0 * q + grid.low, 0 * q + grid.high])
        motion, expected = Motion(grid, ("joint",), stop), one.towards(wanted, stop)
        for n, k in np.ndindex(wanted.shape):
            placed(motion, q[n], v[n]).step(wanted[n, k] * grid.unit)
            assert motion.velocity == expected[n, k], (grid, q[n], v[n], wanted[n, k])
            assert motion.command == q[n] + expected[n, k]


@pytest.mark.parametrize("lowered", [False, True])
@pytest.mark.parametrize("stop", [True, False], ids=["braking", "free"])
@pytest.mark.parametrize("joint", [None, 0, 5])
def test_a_motion_step_by_step(joint, stop, lowered):
    """Chains, since a motion remembers how far the bounds are: gentle targets, held ones, and some anywhere."""
    states, rng = random_states(12), np.random.default_rng(2)
    grid = states.grid if joint is None else states.alone(joint).grid
    motion, d = Motion(grid, tuple(map(str, range(len(grid.unit)))), stop), len(grid.unit)
    motion.start((grid.low + grid.high) / 2 * grid.unit)
    held = np.zeros(d)
    for k in range(4_000):
        if rng.random() < 0.02:
            held = rng.uniform(1.1 * grid.low - 0.1 * grid.high, 1.1 * grid.high - 0.1 * grid.low)
        if lowered and k % 500 == 400:
            motion.set_rates(*(grid.unit * rate * rng.uniform(0, 1, d) for rate in (grid.up, grid.down)))
        gentle = motion.command + motion.velocity + rng.integers(-9, 10, d)
        wanted = np.rint(gentle if k % 300 < 150 else held + (k % 3) * rng.normal(0, 9, d))
        expected = States(motion.limits, motion.command, motion.velocity).towards(wanted, stop)
        motion.step(wanted * grid.unit)
        np.testing.assert_array_equal(motion.velocity, expected)


@pytest.mark.parametrize("seed", range(8))
def test_a_motion_on_its_lines(seed, monkeypatch):
    """Targets that are followed, by sines of up to the rates and by small steps, and some that jump."""
    states, rng, taken = random_states(3, seed=seed), np.random.default_rng(seed), []
    follow = Lines.follow
    monkeypatch.setattr(Lines, "follow", lambda *given: taken.append(follow(*given)) or taken[-1])
    grid = states.grid
    motion, middle, half = Motion(grid, tuple("abc")), (grid.low + grid.high) / 2, (grid.high - grid.low) / 2
    motion.start(middle * grid.unit)
    alike = np.minimum(grid.acceleration, grid.deceleration)
    wanted, turn = middle, np.minimum(np.minimum(grid.up, grid.down) / half, np.sqrt(alike / half))
    turn *= rng.uniform(0.1, 0.9, 3)
    for k in range(3_000):
        if k % 500 < 400:
            wanted = middle + half * np.sin(turn * k)
        else:
            wanted = wanted + rng.normal(0, 0.2 if k % 500 < 490 else 50, 3) * alike
        if k % 700 == 699:
            motion.set_rates(*(grid.unit * rate * rng.uniform(0.4, 1, 3) for rate in (grid.up, grid.down)))
        expected = States(motion.limits, motion.command, motion.velocity).towards(np.rint(wanted), True)
        motion.step(np.rint(wanted) * grid.unit)
        np.testing.assert_array_equal(motion.velocity, expected, err_msg=f"step {k}")
        if k % 97 == 96:
            motion.brake()
    assert sum(made is not None for made in taken) > 200


def test_a_motion_that_brakes_for_some_of_its_targets():
    """As a controller's does in a ramp: steps on which it brakes for a target are not counted towards a bound."""
    grid = Grid(*map(np.array, ([1.0], [8.0], [8.0], [4.0], [4.0], [0.0], [200.0])))
    motion = Motion(grid, ("joint",), False)
    motion.start(np.array([100.0]))
    motion.step(np.array([100.0]))  # far from the bounds, which it need not look at for a while
    for k in range(60):
        motion.stop_at_target = k < 23
        wanted = motion.command + 4 if k < 23 else np.array([np.inf])
        expected = States(grid, motion.command, motion.velocity).towards(wanted, motion.stop_at_target)
        motion.step(wanted)
        assert motion.velocity == expected, k
    assert motion.command == 200


def test_a_motion_that_brakes_between_the_steps_of_a_policy():
    """Steps of full braking are not forgotten either, where the motion brakes for its targets in between."""
    grid = Grid(*map(np.array, ([1.0], [8.0], [8.0], [8.0], [1.0], [0.0], [400.0])))
    motion = Motion(grid, ("joint",), False)
    motion.start(np.array([100.0]))
    for k in range(200):
        motion.stop_at_target = bool(k % 2)
        expected = States(grid, motion.command, motion.velocity).towards(np.array([np.inf]), False)
        if motion.stop_at_target:
            motion.brake()
        else:
            motion.step(np.array([np.inf]))
            assert motion.velocity == expected, k
        assert motion.command <= 400, k
    assert motion.command > 390


# ---------------------------------------------------------------------- the headers in C

DOUBLES = np.ctypeslib.ndpointer(np.float64, flags="C_CONTIGUOUS")
DRIVER = """
void edges(const double *q, const double *v, int rows, double *bottom, double *top)
{
    for (int k = 0; k < rows * SLEWRL_JOINTS; k++) {
        const int i = k % SLEWRL_JOINTS;
        slewrl_edges(v[k], q[k] - slewrl_lowest[i], slewrl_highest[i] - q[k], slewrl_fastest_rise[i],
                     slewrl_fastest_fall[i], slewrl_most_acceleration[i], slewrl_most_deceleration[i],
                     bottom + k, top + k);
    }
}
void layer(const double *prev, const double *velocity, int rows, double *bottom, double *top)
{
    for (int k = 0; k < rows * SLEWRL_JOINTS; k++) {
        bottom[k] = slewrl_layer(-1.0f, (float)prev[k], (float)velocity[k], k % SLEWRL_JOINTS);
        top[k] = slewrl_layer(1.0f, (float)prev[k], (float)velocity[k], k % SLEWRL_JOINTS);
    }
}
int steps(const double *prev, const double *velocity, const double *target, int stop, int rows, double *out)
{
    slewrl_state state;
    int bad = 0;
    slewrl_init(&state);
    for (int n = 0; n < rows * SLEWRL_JOINTS; n += SLEWRL_JOINTS) {
        bad |= slewrl_start_moving(&state, prev + n, velocity + n);
        bad |= slewrl_advance(&state, target + n, stop, out + n);
    }
    return bad;
}
"""


@pytest.fixture(scope="module")
def header(states, tmp_path_factory):
    """The header of a limiter and the layer of a policy, which goes all the way, compiled."""
    if shutil.which("gcc") is None:
        pytest.skip("there is no gcc to compile the headers with")
    ask = "    const float command = v > 0.0f ? HUGE_VALF : -HUGE_VALF;"
    layer = c_export._filled(c_export._template("accelerated_layer.h"), {"LAYER": "any", "SQUASH": "u", "PLACE": ask})
    folder = tmp_path_factory.mktemp("c")
    (folder / "it.c").write_text(c_export.limiter_header(states.limits) + layer + DRIVER)
    command = ["gcc", "-std=c99", "-O2", "-fPIC", "-shared", "it.c", "-o", "it.so", "-lm"]
    made = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr
    library = ctypes.CDLL(str(folder / "it.so"))
    for name in ("edges", "layer"):
        getattr(library, name).argtypes = [DOUBLES, DOUBLES, ctypes.c_int, DOUBLES, DOUBLES]
    library.steps.argtypes = [DOUBLES, DOUBLES, DOUBLES, ctypes.c_int, ctypes.c_int, DOUBLES]
    return library


def test_edges_in_c(header, states):
    bottom, top = np.empty_like(states.q), np.empty_like(states.q)
    header.edges(states.q, states.v, len(states.q), bottom, top)
    np.testing.assert_array_equal([bottom, top], states.edges())


def test_edges_of_a_policy_in_c(header, states):
    bottom, top = np.empty_like(states.q), np.empty_like(states.q)
    header.layer(states.q * states.grid.unit, states.v * states.grid.unit, len(states.q), bottom, top)
    np.testing.assert_array_equal([bottom, top], (states.q + states.edges()) * states.grid.unit)


@pytest.mark.parametrize("stop", [True, False], ids=["braking", "free"])
def test_steps_in_c(stop, header, states):
    wanted, out = targets(states), np.empty_like(states.q)
    prev, velocity, target = (np.ascontiguousarray(x * states.grid.unit) for x in (states.q, states.v, wanted))
    assert header.steps(prev, velocity, target, stop, len(prev), out) == 0
    np.testing.assert_array_equal(out, (states.q + states.towards(wanted, stop)) * states.grid.unit)
