"""The C header: the bits of RateLimiter, the numbers of Controller, and a compiler that is told what not to do."""

import ctypes
import dataclasses
import math
import platform
import re
import shutil
import subprocess
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from deployed import untrained

from slewrl import RateLimits
from slewrl.commands.deploy import Export
from slewrl.deploy import bundle, c_export
from slewrl.deploy.controller import Controller
from slewrl.deploy.export import deployed, export_bundle
from slewrl.deploy.limiter import RateLimiter
from slewrl.errors import UserFacingError
from slewrl.limits import boxmath
from slewrl.training.policy import load_policy
from slewrl.training.run_folder import RunFolder
from slewrl.training.spec import RunSpec
from slewrl.training.trainer import train

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="there is no gcc to compile the header with")

STRICT = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-Wconversion", "-Wshadow"]
# gnu99 contracts a * b + c where the machine can; c99 does not.
FLAGS = [[*STRICT, "-O2"], [*STRICT, "-O3", "-march=native"], [*STRICT, "-std=gnu99", "-O3", "-march=native"]]
OK, NOT_INITIALISED, NOT_STARTED, BAD_POSE, BAD_JOINT, BAD_RATE, BAD_ARITHMETIC, FAULT = range(8)
DOUBLES = FLOATS = ctypes.c_void_p
SHOW = "#include <math.h>\n#include <stddef.h>\n#include <string.h>\n#define static\n#define inline\n"
"""Before the header: its functions become visible to ctypes."""


def compiled(folder: Path, code: str, *flags: str) -> subprocess.CompletedProcess:
    (folder / "main.c").write_text(code)
    command = ["gcc", *flags, "main.c", "-o", "main", "-lm"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


class Compiled:
    """A header as a shared object, with a state of its own."""

    def __init__(
        self, folder: Path, header: str, joints: int, flags: list[str], control: bool = False, moving: bool = False
    ) -> None:
        folder.mkdir(parents=True)
        (folder / "it.h").write_text(header)
        made = compiled(folder, SHOW + '#include "it.h"\n', *flags, "-fPIC", "-shared")
        assert made.returncode == 0, made.stderr
        library = ctypes.CDLL(str(folder / "main"))
        vectors = (
            ("prev", "velocity", "rise", "fall", "faster", "brakes", "wanted") if moving else ("prev", "rise", "fall")
        )
        fields = [(name, ctypes.c_double * joints) for name in vectors]
        fields += [(name, ctypes.c_ulong) for name in (("nans", "waiting") if moving else ("nans",))]
        fields += [("ready", ctypes.c_uint), ("started", ctypes.c_int)]
        fields += [("holding", ctypes.c_int)]
        if control:
            fields += [(name, ctypes.c_ulong) for name in ("steps", "bad_observations", "bad_outputs")]
            fields += [("bad_in_a_row", ctypes.c_uint), ("fault", ctypes.c_int), ("ramping", ctypes.c_int)]
        self.state = type("State", (ctypes.Structure,), {"_fields_": fields})()
        self.at = ctypes.byref(self.state)
        for name, arguments in {
            "init": [], "restore": [], "hold": [], "release": [], "start": [DOUBLES],
            "derate": [ctypes.c_int, ctypes.c_double], "step": [DOUBLES, DOUBLES],
            "step_dt": [DOUBLES, ctypes.c_double, DOUBLES], "control_start": [DOUBLES, ctypes.c_int],
            "restore_acceleration": [], "start_moving": [DOUBLES, DOUBLES],
            "derate_acceleration": [ctypes.c_int, ctypes.c_double, ctypes.c_double],
            "control": [FLOATS, DOUBLES], "control_dt": [FLOATS, ctypes.c_double, DOUBLES],
        }.items():  # fmt: skip
            if function := getattr(library, f"slewrl_{name}", None):
                function.argtypes = [ctypes.c_void_p, *arguments]
                setattr(self, name, partial(self.call, function))
        self.library = library

    def call(self, function, *arguments) -> int:
        return function(self.at, *(a.ctypes.data if isinstance(a, np.ndarray) else a for a in arguments))


def same(a: np.ndarray, b: np.ndarray) -> bool:
    """Bit for bit; off x86, numpy's minimum may return the other zero."""
    if platform.machine() not in ("x86_64", "AMD64"):
        a, b = a + 0.0, b + 0.0
    return a.tobytes() == b.tobytes()


# ---------------------------------------------------------------------- the limiter


def wild_limits(rng: np.random.Generator, d: int = 24, dt: float | None = 0.02) -> SimpleNamespace:
    """Asymmetric, over many decades, off-centre; the smallest and the largest floats, too."""
    middle, half = rng.normal(size=d) * 10 ** rng.uniform(-3, 3, d), 10 ** rng.uniform(-3, 3, d)
    up, down = half * 10 ** rng.uniform(-4, 0.5, d), half * 10 ** rng.uniform(-4, 0.5, d)
    low, high = middle - half, middle + half
    low[0], high[0], up[0], down[0] = -5e-323, 8e-323, 1e-323, 1.5e-323
    low[1], high[1], up[1], down[1] = -(2.0**1021), 2.0**1021, 8e306, 3e306
    low[2], high[2], up[2], down[2] = 0.0, 1.0, 0.1, 0.2
    low[3], high[3], up[3], down[3] = -1.0, -0.0, 0.3, 0.7
    names = tuple(f"joint{i}" for i in range(d))
    return SimpleNamespace(up=up, down=down, low=low, high=high, names=names, dt=dt)


BEYOND = float(np.nextafter(boxmath.LARGEST, np.inf))
FIXED = np.array([np.nan, -np.nan, np.inf, -np.inf, 1e308, -1e308, 5e-324, -5e-324, 2e-310, 0.0, -0.0])


class Wishes:
    """Commands: anywhere, fixed oddities, or prev, an edge of its box or of the range, give or take two floats."""

    def __init__(self, rng: np.random.Generator, limits: SimpleNamespace, steps: int) -> None:
        shape = (steps, len(limits.names))
        share = rng.uniform(-0.5, 2.5, shape)
        anywhere = limits.low / 2 + (limits.high / 2 - limits.low / 2) * share
        self.free = np.where(rng.random(shape) < 0.3, rng.choice(FIXED, shape), anywhere)
        self.near, self.kind, self.joints = rng.random(shape) < 0.4, rng.integers(5, size=shape), np.arange(shape[1])
        self.floats, self.side = rng.integers(3, size=steps), rng.choice([-np.inf, np.inf], shape)
        self.limits = limits

    def at(self, t: int, prev: np.ndarray) -> np.ndarray:
        limits = self.limits
        edges = np.stack([prev, prev + limits.up, prev - limits.down, limits.low, limits.high])[
            self.kind[t], self.joints
        ]
        for _ in range(self.floats[t]):
            edges = np.nextafter(edges, self.side[t])
        return np.where(self.near[t], edges, self.free[t])


def some_dt(rng: np.random.Generator, dt: float) -> float | None:
    """Measured or not; on time, a float beside it, early, late, or nonsense."""
    fixed = (0.0, -0.0, -dt, math.nan, math.inf, -math.inf, dt, math.nextafter(dt, 0), math.nextafter(dt, 1))
    fixed += (5e-324, 1e308, 2 * dt, 0.5 * dt)
    kind = int(rng.random() * 20)
    return fixed[kind] if kind < len(fixed) else dt * rng.random() * 4 ** (kind % 2) if kind < 17 else None


def disturb(rng: np.random.Generator, limiter: RateLimiter, copies: list[Compiled], limits: SimpleNamespace) -> None:
    """Derate, restore, hold, release, restart, or put the joints where they should not be; to all of them alike."""
    d, kind = len(limits.names), rng.integers(6)
    if kind <= 1:
        joints = rng.choice(d, rng.integers(0, 5), replace=False)
        rates = {int(i): float(rng.choice([0.0, 5e-324, limits.up[i] / 3, 2 * limits.down[i], 1e-3])) for i in joints}
        limiter.derate({limits.names[i]: rate for i, rate in rates.items()} or None)
        for copy in copies:
            assert rates or copy.restore() == OK  # the others keep what they have
            assert all(copy.derate(i, rate) == OK for i, rate in rates.items())
    elif kind <= 3:
        name = "hold" if kind == 2 and rng.random() < 0.3 else "release"
        for each in (limiter, *copies):
            getattr(each, name)()
    else:
        width = limits.high / 2 - limits.low / 2
        pushed = np.clip(limiter.prev + width * rng.normal(size=d), -boxmath.LARGEST, boxmath.LARGEST)
        pose = limiter.prev if kind == 4 else pushed
        limiter.start(pose)
        assert all(copy.start(pose) == OK for copy in copies)


@pytest.mark.parametrize(("longest", "steps"), [(1.0, 42_000), (2.5, 5_000)])
def test_the_limiter_gives_the_bits_of_the_python_one(tmp_path, longest, steps):
    rng = np.random.default_rng(int(longest * 10))
    limits = wild_limits(rng)
    limiter, d = RateLimiter(limits, longest=longest), len(limits.names)
    header = c_export.limiter_header(limits, longest=longest)
    copies = [Compiled(tmp_path / str(i), header, d, flags) for i, flags in enumerate(FLAGS)]
    out, history = np.empty(d), np.empty((4, steps, d))
    with np.errstate(all="ignore"):
        wishes = Wishes(rng, limits, steps)
        pose = limits.low / 2 + limits.high / 2
        limiter.start(pose)
        for copy in copies:
            copy.init()
            assert copy.start(pose) == OK
        for t in range(steps):
            if rng.random() < 0.02:
                disturb(rng, limiter, copies, limits)
            prev, dt = limiter.prev, some_dt(rng, limits.dt)
            command = wishes.at(t, prev)
            expected = limiter.step(command, dt)
            for copy in copies:
                code = copy.step(command, out) if dt is None else copy.step_dt(command, dt, out)
                assert code == OK and same(out, expected), (t, command, dt)
            history[0, t], history[1, t] = prev, out
            history[2, t], history[3, t] = copies[0].state.rise, copies[0].state.fall
        assert all(copy.state.nans == limiter.nans for copy in copies) and limiter.nans > steps / 10
        if longest == 1.0:
            prev, action, up, down = history
            # From outside the range a joint may stay or come back, and that within its rate.
            low, high = np.minimum(limits.low, prev), np.maximum(limits.high, prev)
            assert action.size > 1e6 and not boxmath.outside(action, prev, down, up, low, high).any()
            assert ((prev < limits.low) | (prev > limits.high)).mean() > 0.01 and (action != prev).mean() > 0.1


def test_what_the_limiter_refuses(tmp_path):
    limits = RateLimits.preset("H1", "paper")
    c, d = Compiled(tmp_path / "c", c_export.limiter_header(limits), limits.dim, FLAGS[0]), limits.dim
    zeros, out = np.zeros(d), np.full(d, 7.0)
    assert c.start(zeros) == c.derate(0, 0.1) == c.restore() == NOT_INITIALISED
    assert c.step(zeros, out) == NOT_STARTED
    c.init()
    assert c.step(zeros, out) == c.step_dt(zeros, 0.02, out) == NOT_STARTED and (out == 7).all()
    for bad in (np.nan, np.inf, -np.inf, BEYOND, -BEYOND, 1.7e308):
        assert c.start(np.where(np.arange(d) == d - 1, bad, 0.0)) == BAD_POSE and c.step(zeros, out) == NOT_STARTED
    assert c.start(zeros) == OK
    assert c.derate(-1, 0.1) == c.derate(d, 0.1) == BAD_JOINT
    assert c.derate(0, -0.1) == c.derate(0, np.nan) == c.derate(0, np.inf) == c.derate(0, BEYOND) == BAD_RATE
    assert c.derate(0, boxmath.LARGEST) == c.start(np.full(d, -boxmath.LARGEST)) == OK
    c.library.slewrl_joint.argtypes = [ctypes.c_char_p]
    found = [c.library.slewrl_joint(name.encode()) for name in (*limits.names, "nose")]
    assert found == [*range(d), -1]


def test_without_a_period_there_is_no_step_dt(tmp_path):
    limits = wild_limits(np.random.default_rng(0), dt=None)
    header = c_export.limiter_header(limits)
    assert "_DT" not in header and "step_dt" not in header
    assert not hasattr(Compiled(tmp_path / "c", header, 24, FLAGS[0]), "step_dt")
    assert "slewrl_step_dt" in c_export.limiter_header(limits, dt=0.01)


@pytest.mark.parametrize("longest", ["0.3", "-2", "NAN", "HUGE_VAL", "0"])
def test_a_late_step_moves_at_least_a_nominal_one(tmp_path, longest):
    limits = RateLimits.preset("H1", "paper")
    header = f"#define SLEWRL_LONGEST {longest}\n{c_export.limiter_header(limits)}"
    c, limiter = Compiled(tmp_path / "c", header, limits.dim, FLAGS[0]), RateLimiter(limits)
    pose, out, wanted = np.zeros(limits.dim), np.empty(limits.dim), np.full(limits.dim, 1e9)
    c.init()
    limiter.start(pose)
    assert c.start(pose) == c.derate(0, 0.0) == OK
    limiter.derate({limits.names[0]: 0.0})
    for dt in (limits.dt, limits.dt / 2, 10 * limits.dt, math.inf, math.nan):
        assert c.step_dt(wanted, dt, out) == OK and same(out, limiter.step(wanted, dt))


def test_numbers_whose_sums_could_overflow_are_not_exported():
    one = SimpleNamespace(up=[0.1], down=[0.1], low=[-1.0], high=[1.0], names=("hip",), dt=0.02)
    for key, value in (("up", BEYOND), ("down", 1.7e308), ("low", -BEYOND), ("high", BEYOND)):
        with pytest.raises(ValueError, match=r"'hip'.* at most 2\^1021"):
            c_export.limiter_header(SimpleNamespace(**{**vars(one), key: [value]}))
    with pytest.raises(ValueError, match=r"longest is 1e\+300: 'hip'.* at most 2\^1021"):
        c_export.limiter_header(SimpleNamespace(**{**vars(one), "up": [1e9]}), longest=1e300)


def test_a_late_step_does_not_overflow(tmp_path):
    """As many nominal steps as a double can hold, times a large rate: a sum beyond doubles would lose the limit."""
    largest = boxmath.LARGEST
    limits = SimpleNamespace(up=[largest], down=[largest / 3], low=[-largest], high=[largest], names=("hip",), dt=0.02)
    c = Compiled(tmp_path / "c", f"#define SLEWRL_LONGEST 1e308\n{c_export.limiter_header(limits)}", 1, FLAGS[0])
    pose, out = np.array([-5.5 * 2.0**971]), np.empty(1)
    c.init()
    assert c.start(pose) == c.step_dt(np.array([np.inf]), 1e300, out) == OK
    assert not boxmath.outside(out, pose, largest, largest, -largest, largest).any() and out > pose


X87 = ["-mfpmath=387"] if platform.machine() in ("x86_64", "AMD64") else []


@pytest.mark.parametrize("flag", ["-ffast-math", "-Ofast", "-ffinite-math-only", "-freciprocal-math", *X87])
def test_unsafe_arithmetic_does_not_compile(tmp_path, flag):
    (tmp_path / "limiter.h").write_text(c_export.limiter_header(RateLimits.preset("H1", "paper")))
    made = compiled(tmp_path, '#include "limiter.h"\nint main(void) { return 0; }\n', "-std=c99", flag)
    assert made.returncode != 0 and "voids the limit" in made.stderr


@pytest.mark.parametrize("extra", [["-frounding-math"], ["-O2", "-funsafe-math-optimizations", "-DNEAREST"]])
def test_an_fpu_that_rounds_otherwise_is_found_at_the_start(tmp_path, extra):
    (tmp_path / "limiter.h").write_text(c_export.limiter_header(RateLimits.preset("H1", "paper")))
    code = """
#include <fenv.h>
#include "limiter.h"
int main(void)
{
    static slewrl_state state;
    const double pose[SLEWRL_JOINTS] = {0.0};
    slewrl_init(&state);
#ifndef NEAREST
    fesetround(FE_UPWARD);
#endif
    return slewrl_start(&state, pose);
}"""
    made = compiled(tmp_path, code, "-std=c99", *extra)
    assert made.returncode == 0 or "voids the limit" in made.stderr
    if made.returncode == 0:
        assert subprocess.run([tmp_path / "main"], check=False).returncode == BAD_ARITHMETIC


def test_odd_names_and_prefixes(tmp_path):
    names = ('a "b" \\', "*/ int x; /*", "??/ slewrl_up", "knie-gelenk äöü", "%n %s")
    limits = RateLimits(0.1, -1.0, 1.0, names=names, dt=0.02, units="/* rad */\\")
    for prefix in ("slewrl", "left_arm"):
        (tmp_path / f"{prefix}.h").write_text(c_export.limiter_header(limits, prefix=prefix))
    code = """
#include "slewrl.h"
#include "left_arm.h"
#include "left_arm.h"
#include <stdio.h>
int main(void)
{
    static left_arm_state state;
    double pose[LEFT_ARM_JOINTS] = {0.0};
    left_arm_init(&state);
    for (int i = 0; i < SLEWRL_JOINTS; i++)
        printf("%s%c", left_arm_names[i], 0);
    return left_arm_start(&state, pose) + left_arm_step(&state, pose, pose);
}"""
    made = compiled(tmp_path, code, *STRICT, "-trigraphs")
    assert made.returncode == 0, made.stderr
    printed = subprocess.run([tmp_path / "main"], capture_output=True, check=True).stdout
    assert printed.decode().split("\0")[:-1] == list(names)
    for prefix in ("", "2arm", "Arm", "a-b"):
        with pytest.raises(ValueError, match="expected small letters, digits and _"):
            c_export.limiter_header(limits, prefix=prefix)


def test_the_page_is_a_program_that_prints_what_it_says(tmp_path):
    text = (Path(__file__).parents[2] / "docs" / "c.md").read_text()
    (code,) = re.findall(r"```c\n(.*?)```", text, re.DOTALL)
    (said,) = re.findall(r"    \$ gcc .*?\n(.*?)\n\n", text, re.DOTALL)
    RateLimits.preset("H1", "paper").to_yaml(tmp_path / "limits.yaml")
    assert Export(tmp_path / "limits.yaml", "c", tmp_path / "limiter.h").run() == 0
    made = compiled(tmp_path, code, *FLAGS[0])
    assert made.returncode == 0, made.stderr
    printed = subprocess.run([tmp_path / "main"], capture_output=True, text=True, check=True).stdout
    assert printed.splitlines() == [line.strip() for line in said.splitlines()]
    assert len(code.splitlines()) <= 40  # one screen


# ---------------------------------------------------------------------- acceleration limits

BAD_VELOCITY = 8


def accelerated_limits(rng: np.random.Generator, d: int = 24) -> RateLimits:
    """Asymmetric, off-centre, of all sizes; a third of the joints brake as they accelerate."""
    middle, half = rng.normal(size=d) * 10 ** rng.uniform(-2, 2, d), 10 ** rng.uniform(-2, 2, d)
    up, down = half * 10 ** rng.uniform(-3, -0.5, d), half * 10 ** rng.uniform(-3, -0.5, d)
    faster, slower = up * 10 ** rng.uniform(-1.5, 0.5, d), down * 10 ** rng.uniform(-1.5, 0.5, d)
    slower = np.where(np.arange(d) % 3, slower, faster)
    return RateLimits(up=up, down=down, low=middle - half, high=middle + half, acceleration=faster, deceleration=slower)


def disturb_motion(rng: np.random.Generator, limiter: RateLimiter, copies: list[Compiled], limits: RateLimits) -> None:
    """Derate rates or accelerations, restore them, hold, release, or start elsewhere; to all of them alike."""
    i, kind, share = int(rng.integers(limits.dim)), int(rng.integers(8)), rng.uniform(0.05, 1.2, 2)
    name = limits.names[i]
    if kind <= 1:
        rate = float(limits.up[i] * share[0] * rng.integers(2))
        limiter.derate({name: rate} if kind else None)
        assert all((c.derate(i, rate) if kind else c.restore()) == OK for c in copies)
    elif kind <= 4:
        a, b = np.maximum(share * [limits.acceleration[i], limits.deceleration[i]], 2 * limits.grid.unit[i]).tolist()
        limiter.derate_acceleration(*([{name: a}, {name: b}] if kind > 2 else [None]))
        assert all((c.derate_acceleration(i, a, b) if kind > 2 else c.restore_acceleration()) == OK for c in copies)
    elif kind <= 6:
        for each in (limiter, *copies):
            (each.hold if kind == 5 and share[0] < 0.4 else each.release)()
    else:
        pushed = limiter.prev + (limits.high - limits.low) * rng.normal(size=limits.dim) * rng.integers(2)
        pose, speed = (pushed, np.zeros(limits.dim)) if share[0] < 0.6 else (limiter.prev, limiter.velocity)
        limiter.start(pose, speed)
        assert all(c.start_moving(pose, speed) == OK for c in copies)


@pytest.mark.parametrize("steps", [3_000, pytest.param(42_000, marks=pytest.mark.slow)])
def test_an_accelerated_limiter_gives_the_bits_of_the_python_one(tmp_path, steps):
    """A million joint steps in the slow version."""
    rng = np.random.default_rng(0)
    limits = accelerated_limits(rng)
    limiter, d, header = RateLimiter(limits), limits.dim, c_export.limiter_header(limits)
    copies = [Compiled(tmp_path / str(i), header, d, flags, moving=True) for i, flags in enumerate(FLAGS)]
    out, pose = np.empty(d), (limits.low + limits.high) / 2
    limiter.start(pose)
    for copy in copies:
        copy.init()
        assert copy.start(pose) == OK
    target, path, speeds = pose, [limiter.prev], []
    for t in range(steps):
        if rng.random() < 0.03:
            disturb_motion(rng, limiter, copies, limits)
        if rng.random() < 0.05:
            target = rng.uniform(limits.low - 0.2, limits.high + 0.2)
        odd = rng.choice(FIXED, d)
        command = np.where(rng.random(d) < 0.05, odd, target + rng.normal(size=d) * limits.up * 0.1)
        expected = limiter.step(command)
        for copy in copies:
            assert copy.step(command, out) == OK and same(out, expected), (t, command)
            assert same(np.array(copy.state.velocity), limiter.velocity)
        path.append(expected)
        speeds.append(limiter.velocity)
    assert all((c.state.nans, c.state.waiting) == (limiter.nans, limiter.waiting) for c in copies)
    assert limiter.nans > steps / 10 and limiter.waiting > 0 and np.abs(speeds).mean() > 0


def test_what_an_accelerated_limiter_refuses(tmp_path):
    limits = RateLimits(0.1, [-1, -1], 1, dt=0.02, acceleration=25)
    header = c_export.limiter_header(limits)
    c, out = Compiled(tmp_path / "c", header, 2, FLAGS[0], moving=True), np.empty(2)
    zeros, fast = np.zeros(2), np.array([0.0, 0.09])
    assert c.start(zeros) == c.restore_acceleration() == c.derate_acceleration(0, 0.1, 0.1) == NOT_INITIALISED
    c.init()
    assert c.step(zeros, out) == NOT_STARTED
    assert c.start(np.array([np.nan, 0])) == c.start(np.array([0, 1e12])) == BAD_POSE
    assert c.start_moving(np.ones(2), fast) == c.start_moving(zeros, 2 * fast) == BAD_VELOCITY
    assert c.start_moving(zeros, np.full(2, np.nan)) == BAD_VELOCITY and c.step(zeros, out) == NOT_STARTED
    assert c.start_moving(zeros, fast) == OK and c.derate_acceleration(2, 0.1, 0.1) == BAD_JOINT
    assert c.derate_acceleration(0, 0.0, 0.1) == c.derate_acceleration(0, 0.1, np.nan) == BAD_RATE
    (tmp_path / "limiter.h").write_text(header)
    call = "static slewrl_state s; return slewrl_step_dt(&s, s.prev, 0.02, s.prev);"
    made = compiled(tmp_path, f'#include "limiter.h"\nint main(void) {{ {call} }}', *STRICT)
    assert made.returncode != 0 and "slewrl_step_dt_is_refused_with_an_acceleration_limit" in made.stderr
    with pytest.raises(ValueError, match="longest is 2"):
        c_export.limiter_header(limits, longest=2)


MOVING = RateLimits(
    up=[0.05, 0.3, 0.02], down=[0.2, 0.1, 0.4], low=[-1, 0.5, -2], high=[1, 1.5, -1], dt=0.02,
    acceleration=[50, 75, 40], deceleration=[25, 200, 75],
)  # fmt: skip


@pytest.fixture(scope="module")
def moving(tmp_path_factory):
    """The bundle of a policy with a layer, made once."""
    folder = tmp_path_factory.mktemp("moving")
    return cache(lambda layer: bundle.read(untrained(folder / f"{layer}.bundle", MOVING, layer)))


SLOW_LAYERS = [pytest.param(layer, marks=pytest.mark.slow) for layer in ("dtanh", "interval_tanh")]


@pytest.mark.parametrize("layer", ["ddsrad", "interval_srad", "boxpro", *SLOW_LAYERS])
def test_accelerated_policies_agree_with_the_controller(tmp_path, moving, layer):
    """Each step from the controller's own state, since a rounding of the network may move a command by a grid unit."""
    rng, found = np.random.default_rng(0), moving(layer)
    controller, n, d = Controller(found), found.observation_size, 3
    c = Compiled(tmp_path / "c", c_export.policy_header(found), d, FLAGS[1], control=True, moving=True)
    c.init()
    out = np.empty(d)
    for t, observation in enumerate(observed(rng, 4_000, n)):
        if t % 500 == 0:
            pose, ramp = rng.uniform(MOVING.low - 0.1, MOVING.high + 0.1), bool(rng.integers(2))
            controller.start(pose, ramp)
            assert c.control_start(pose, int(ramp)) == OK
        c.state.prev[:], c.state.velocity[:] = controller.prev, controller.velocity
        expected = controller.step(observation)
        code = c.control(observation, out)
        assert code == (FAULT if controller.fault else OK) and bool(c.state.ramping) == controller.ramping
        np.testing.assert_allclose(out, expected, rtol=0, atol=3e-6)
    assert c.state.bad_observations == controller.bad_observations > 50


def test_an_accelerated_policy_keeps_its_limits_by_itself(tmp_path, moving):
    found = moving("ddsrad")
    c = Compiled(tmp_path / "c", c_export.policy_header(found), 3, FLAGS[2], control=True, moving=True)
    c.init()
    out, path = np.empty(3), [MOVING.grid.unit * np.rint(found.default_pose / MOVING.grid.unit)]
    assert c.control_start(path[0], 0) == OK
    for observation in observed(np.random.default_rng(1), 4_000, found.observation_size):
        if c.control(observation, out) == FAULT:
            prev, velocity = np.array(c.state.prev), np.array(c.state.velocity)
            assert c.control_start(prev, 0) == c.start_moving(prev, velocity) == OK
        path.append(out.copy())
    path = np.array(path)
    assert not MOVING.outside(path[1:], path[:-1], np.vstack([path[:1], path[:-2]])).any()
    assert np.abs(np.diff(path, axis=0)).mean() > 0.003


# ---------------------------------------------------------------------- policies

LIMITS = RateLimits(
    up=[0.1, 0.2, 0.3, 0.4, 0.5, 0.6], down=[0.6, 0.3, 0.2, 0.1, 0.4, 0.5],
    low=[-1.0, -0.7, -1.0, -0.9, -1.0, -0.2], high=[1.0, 0.8, 0.9, 1.0, 0.1, 1.0], dt=0.05,
)  # fmt: skip
CASES = [
    ("ddsrad", "sac", "linear"), ("dtanh", "td3", "linear"), ("interval_tanh", "sac", "tanh"),
    ("interval_srad", "td3", "tanh"), ("boxpro", "sac", "linear"),
]  # fmt: skip
OTHER = {"sac": "td3", "td3": "sac", "linear": "tanh", "tanh": "linear"}
SLOW = [pytest.param(layer, OTHER[agent], OTHER[bound], marks=pytest.mark.slow) for layer, agent, bound in CASES]


@dataclass(frozen=True)
class Made:
    run: Path
    bundle: Path


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """Runs of 300 steps with their bundles, made when asked for."""
    folder, made = tmp_path_factory.mktemp("runs"), {}
    LIMITS.to_yaml(folder / "limits.yaml")

    def make(layer: str, agent: str, bound: str = "linear") -> Made:
        key = f"{layer}-{agent}-{bound}"
        if key not in made:
            spec = RunSpec(
                task="HalfCheetah-v5", limits=str(folder / "limits.yaml"), layer=layer, agent=agent, steps=300,
                learning_starts=250, batch_size=16, capacity=300, evaluate_every=300, evaluate_episodes=1,
                agent_options={"hidden": [24, 16], "mean_bound": bound},
            )  # fmt: skip
            run = RunFolder(folder / key)
            run.create(spec)
            assert train(spec, run)
            export_bundle(run.path, folder / f"{key}.bundle")
            made[key] = Made(run.path, folder / f"{key}.bundle")
        return made[key]

    return make


@pytest.mark.parametrize(("layer", "agent", "bound"), CASES + SLOW)
def test_policies_agree_with_the_controller_in_closed_loop(exported, tmp_path, layer, agent, bound):
    rng, found = np.random.default_rng(0), bundle.read(exported(layer, agent, bound).bundle)
    controller, n, d = Controller(found), found.observation_size, len(found.limits.names)
    c = Compiled(tmp_path / "c", c_export.policy_header(found), d, FLAGS[1], control=True)
    c.init()
    limits, (out, prev, ours, theirs) = found.limits, (np.empty(d), *np.empty((3, 10_000, d)))
    observations = observed(rng, 10_000, n)
    assert c.control(observations[0], out) == NOT_STARTED
    for t, observation in enumerate(observations):
        if t % 1000 == 0:
            pose, ramp = rng.uniform(-1.3, 1.3, d), bool(rng.integers(2))
            controller.start(pose, ramp)
            assert c.control_start(pose, int(ramp)) == OK
            controller.derate({limits.names[t // 1000 % d]: 0.0} if t % 2000 else None)  # a ramp without one joint
            assert (c.derate(t // 1000 % d, 0.0) if t % 2000 else c.restore()) == OK
        observation[:d] += controller.prev.astype(np.float32)
        prev[t] = c.state.prev
        dt = float(rng.uniform(0, 0.08)) if t % 3 == 0 else None
        theirs[t] = controller.step(observation, dt)
        code = c.control(observation, out) if dt is None else c.control_dt(observation, dt, out)
        assert code == (FAULT if controller.fault else OK) and bool(c.state.ramping) == controller.ramping
        ours[t] = out
    assert np.abs(ours - theirs).max() < 1e-5 and np.abs(ours - prev).mean() > 0.005
    assert c.state.steps == controller.steps and c.state.bad_observations == controller.bad_observations > 100
    low, high = np.minimum(limits.low, prev), np.maximum(limits.high, prev)
    assert not boxmath.outside(ours, prev, limits.down, limits.up, low, high).any()


LARGEST = np.finfo(np.float32).max
UNUSABLE = np.array([np.nan, np.inf, -np.inf, LARGEST, -LARGEST], np.float32)


def observed(rng: np.random.Generator, steps: int, n: int) -> np.ndarray:
    """Small and large, one in fifty unusable, and now and then ten of those in a row."""
    observations = (rng.normal(size=(steps, n)) * 10 ** rng.uniform(-2, 1.5, (steps, 1))).astype(np.float32)
    bad = (rng.random(steps) < 0.02) | (np.arange(steps) % 2000 // 10 == 50)
    observations[bad, rng.integers(n, size=bad.sum())] = rng.choice(UNUSABLE, bad.sum())
    return observations


@pytest.mark.parametrize(("layer", "agent", "bound"), CASES)
def test_nan_from_the_network_counts_as_an_unusable_observation_does(exported, tmp_path, layer, agent, bound):
    found = bundle.read(exported(layer, agent, bound).bundle)
    n, d = found.observation_size, len(found.limits.names)
    c = Compiled(tmp_path / "c", c_export.policy_header(found), d, FLAGS[0], control=True)
    good, unseen, out, pose = np.zeros(n, np.float32), np.full(n, np.nan, np.float32), np.empty(d), np.full(d, 0.05)
    lost = np.full(n, np.nextafter(LARGEST, np.float32(0)))  # usable, but sums of it are inf - inf
    c.init()
    for _ in range(2):
        assert c.control_start(pose, 0) == OK
        for observation in (lost, unseen, lost, unseen, good, lost, unseen, unseen, lost):
            before = np.array(c.state.prev)
            assert c.control(observation, out) == OK and (observation is good or same(out, before))
        assert c.control(lost, out) == FAULT and same(out, before) and c.control(good, out) == FAULT
    assert (c.state.bad_outputs, c.state.bad_observations, c.state.nans) == (10, 8, 10 * d)


def test_limits_beyond_float32_are_named(exported):
    found = bundle.read(exported(*CASES[0]).bundle)
    wide = np.where(np.arange(len(found.limits.names)) == 1, 1e38, found.limits.up)
    changed = dataclasses.replace(found, limits=dataclasses.replace(found.limits, up=wide))
    with pytest.raises(UserFacingError, match=rf"up of '{found.limits.names[1]}' is 1e\+38, expected at most 2\^125"):
        c_export.policy_header(changed)


def test_layers_without_c_are_named(exported):
    found = bundle.read(exported(*CASES[0]).bundle)
    found.manifest["provenance"]["spec"]["layer"] = "srad_ball"
    with pytest.raises(UserFacingError, match="no C for the layer 'srad_ball', only for ddsrad, dtanh, interval_tanh"):
        c_export.policy_header(found)
    del found.manifest["provenance"]["spec"]
    with pytest.raises(UserFacingError, match="does not say with which layer it was trained"):
        c_export.policy_header(found)


# ---------------------------------------------------------------------- slewrl export


def test_every_format_is_written_and_gives_the_same_numbers(exported, tmp_path, monkeypatch, capsys):
    made = exported(*CASES[0])
    monkeypatch.chdir(tmp_path)
    for source, kind in ((made.run, "c"), (made.bundle, "onnx"), (made.run, "torch")):
        assert Export(source, kind).run() == 0
        with pytest.raises(FileExistsError, match="pass --force"):
            Export(source, kind).run()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["policy.h", "policy.onnx", "policy.pt2"]
    assert "without the limiter" in capsys.readouterr().out
    found = bundle.read(made.bundle)
    assert Path("policy.h").read_text() == c_export.policy_header(found)
    assert Path("policy.onnx").read_bytes() == found.onnx
    Export(made.bundle, "c", Path("again.h"), prefix="arm").run()
    assert Path("again.h").read_text() == c_export.policy_header(found, prefix="arm")
    module = deployed(load_policy(made.run))
    observation, previous = torch.randn(50, found.observation_size), torch.rand(50, 6) * 0.1
    loaded = torch.export.load("policy.pt2").module()
    assert torch.allclose(loaded(observation, previous), module(observation, previous), atol=1e-6)


def test_what_cannot_be_exported(exported, tmp_path):
    LIMITS.to_yaml(tmp_path / "limits.yaml")
    for source, kind, options, word in [
        ("limits.yaml", "onnx", {}, "holds limits, not a policy: a limiter is made with --format c"),
        ("limits.yaml", "bundle", {}, "is made from a run"),
        ("nowhere", "c", {}, "there is no run, bundle or limits file"),
        ("limits.yaml", "torch", {"prefix": "arm"}, "--prefix is for --format c"),
    ]:
        with pytest.raises((ValueError, OSError), match=word):
            Export(tmp_path / source, kind, tmp_path / "out", **options).run()
    with pytest.raises(FileNotFoundError, match="no folder"):
        Export(tmp_path / "limits.yaml", "c", tmp_path / "none" / "x.h").run()
    assert [p.name for p in tmp_path.iterdir()] == ["limits.yaml"]


def test_two_headers_under_one_prefix_do_not_compile(tmp_path):
    for name, size in (("one", 2), ("two", 3)):
        limits = RateLimits(delta=0.1, low=[-1.0] * size, high=1.0)
        (tmp_path / f"{name}.h").write_text(c_export.limiter_header(limits))
    for names, fine in ((("one", "one"), True), (("one", "two"), False)):
        (tmp_path / "main.c").write_text(
            "".join(f'#include "{name}.h"\n' for name in names) + "int main(void) { return 0; }\n"
        )
        command = ["gcc", "-std=c99", "-fsyntax-only", "main.c"]
        result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert (result.returncode == 0) == fine and ("--prefix" in result.stderr) != fine
