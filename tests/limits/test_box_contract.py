"""The edges of the box, wherever they are written out, are those of ``boxmath``; its docstring names them.

Two kinds: tight edges (the outermost feasible floats, checked in rational numbers) and guarded ones. Each copy is given
the same limits, tiny, huge, lopsided and ordinary, and the same previous actions, and has to give the same numbers.
"""

import ctypes
import re
import shutil
import subprocess
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from slewrl import RateLimits, make_layer
from slewrl.deploy import c_export
from slewrl.deploy.limiter import RateLimiter
from slewrl.layers import fused
from slewrl.layers.arrays import ArrayLayer
from slewrl.layers.base import latent_cap
from slewrl.limits import boxmath

COUNT = 64
SCALES = {
    "ordinary": {"float32": (-2, 2), "float64": (-2, 2)},
    "tiny": {"float32": (-30, -25), "float64": (-290, -280)},
    "huge": {"float32": (30, 36), "float64": (290, 305)},
}
"""Decimal exponents of the ranges."""
TORCH = {"float32": torch.float32, "float64": torch.float64}
needs_gcc = pytest.mark.skipif(shutil.which("gcc") is None, reason="there is no gcc to compile the headers with")


def some_limits(scale, dtype, seed=0):
    """One joint a case: ranges off centre, and rises and falls that differ by up to four decades."""
    rng = np.random.default_rng(seed)
    size = 10.0 ** rng.uniform(*SCALES[scale][dtype], COUNT)
    centre = rng.choice([0.0, 0.5, 20.0], COUNT) * rng.uniform(-1, 1, COUNT) * size
    up, down = (size * 10.0 ** rng.uniform(-4, 0.2, COUNT) for _ in range(2))
    return RateLimits(up=up, down=down, low=centre - size, high=centre + size)


def some_prevs(limits, dtype, beyond=False):
    """In the range: anywhere, on a bound, some floats off, a rate away; ``beyond``: outside of it, too."""
    rng = np.random.default_rng(1)
    low, high = (x.numpy() for x in limits.rounded(TORCH[dtype], edges="tight").working[2:])
    inner = low + (high - low) * rng.random((20, COUNT))
    rows = [*inner, low, high, np.nextafter(low, high), np.nextafter(high, low), high - limits.up, low + limits.down]
    made = np.clip(np.array(rows, dtype=np.float64).astype(dtype), low, high)
    if not beyond:
        return made
    reach = (high - low) * rng.choice([0.01, 1.0], COUNT)
    return np.concatenate([made, np.where(rng.random(made.shape) < 0.5, high + reach, low - reach).astype(dtype)])


def working(limits, dtype, edges):
    return [x.numpy() for x in limits.rounded(TORCH[dtype], edges=edges).working]


def equal(found, expected):
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(np.asarray(one), other)


# ---------------------------------------------------------------------- what boxmath promises


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("dtype", TORCH)
def test_tight_edges_are_the_outermost_feasible_floats(scale, dtype):
    limits = some_limits(scale, dtype)
    down, up, low, high = working(limits, dtype, "tight")
    for prev in some_prevs(limits, dtype)[::3]:
        bottom, top = boxmath.tight_edges(prev, down, up, low, high)
        for i in range(COUNT):
            p, least, most = Fraction(float(prev[i])), Fraction(float(low[i])), Fraction(float(high[i]))
            lowest, highest = max(p - Fraction(float(down[i])), least), min(p + Fraction(float(up[i])), most)
            assert lowest <= Fraction(float(bottom[i])) <= p <= Fraction(float(top[i])) <= highest
            assert Fraction(float(np.nextafter(top[i], np.asarray(np.inf, dtype)))) > highest
            assert Fraction(float(np.nextafter(bottom[i], np.asarray(-np.inf, dtype)))) < lowest


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("dtype", TORCH)
def test_guarded_edges_are_feasible_and_within_the_tight_ones(scale, dtype):
    limits = some_limits(scale, dtype)
    for prev in some_prevs(limits, dtype):
        bottom, top = boxmath.guard_edges(prev, *working(limits, dtype, "guard"))
        lowest, highest = boxmath.tight_edges(prev, *working(limits, dtype, "tight"))
        assert (lowest <= bottom).all() and (bottom <= prev).all() and (prev <= top).all() and (top <= highest).all()
        assert not limits.outside(np.stack([bottom, top]), prev).any()


# ---------------------------------------------------------------------- who has to give the same


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("dtype", TORCH)
@pytest.mark.parametrize("edges", ["guard", "tight"])
def test_the_box(scale, dtype, edges):
    limits = some_limits(scale, dtype)
    ours = boxmath.tight_edges if edges == "tight" else boxmath.guard_edges
    for prev in some_prevs(limits, dtype, beyond=True):
        box = limits.box(torch.from_numpy(prev), check=False, edges=edges)
        equal((box.low, box.high), ours(prev, *working(limits, dtype, edges)))


@pytest.mark.parametrize("scale", ["ordinary", "huge"])  # XLA flushes subnormal numbers, and refuses tiny ranges
@pytest.mark.parametrize("dtype", TORCH)
def test_the_box_in_jax(scale, dtype):
    jax = pytest.importorskip("jax", reason='JAX is not installed: pip install "slewrl[jax]"')
    from slewrl.integrations.jax import box

    limits = some_limits(scale, dtype)
    with jax.enable_x64(True):
        prevs = some_prevs(limits, dtype, beyond=True)
        found = jax.jit(lambda prev: box(limits, prev))(prevs)
        equal((found.low, found.high), boxmath.guard_edges(prevs, *working(limits, dtype, "guard")))


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("dtype", TORCH)
def test_layers_on_arrays(scale, dtype):
    limits = some_limits(scale, dtype)
    layer = ArrayLayer(make_layer("ddsrad"), limits, dtype)
    for prev in some_prevs(limits, dtype):
        expected = boxmath.guard_edges(prev, *working(limits, dtype, "guard"))
        equal(layer._edges(prev), expected)
        far = np.full(COUNT, np.inf, dtype)
        equal((layer.clip(-far, prev), layer.clip(far, prev)), expected)


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("dtype", TORCH)
def test_the_fused_layer(scale, dtype):
    """It builds no edges (Theorem 2): at full stretch it is on the edge where a rate decides."""
    limits = some_limits(scale, dtype)
    down, up, low, high = working(limits, dtype, "guard")
    arrays = ArrayLayer(make_layer("ddsrad"), limits, dtype)
    for prev in some_prevs(limits, dtype):
        bottom, top = boxmath.guard_edges(prev, down, up, low, high)
        box = limits.box(torch.from_numpy(prev), check=False)
        assert fused.applies(box.prev, box)
        for sign, edge, by_rate in ((1, top, high - prev > up), (-1, bottom, prev - low > down)):
            far = np.full(COUNT, sign * np.inf, dtype)
            moved = fused.ddsrad_execute(torch.from_numpy(far), box, latent_cap(TORCH[dtype])).numpy()
            assert (moved >= bottom).all() and (moved <= top).all()
            np.testing.assert_array_equal(moved[by_rate], edge[by_rate])
            np.testing.assert_array_equal(moved, arrays.execute(far, prev))


@pytest.mark.parametrize("scale", SCALES)
def test_the_limiter(scale):
    limits = some_limits(scale, "float64")
    limiter, far = RateLimiter(limits), np.full(COUNT, np.inf)
    for prev in some_prevs(limits, "float64", beyond=True):
        found = []
        for wanted in (-far, far):
            limiter.start(prev)
            found.append(limiter.step(wanted))
        equal(found, boxmath.tight_edges(prev, *working(limits, "float64", "tight")))


def library(folder, code):
    (folder / "it.c").write_text("#define static\n#define inline\n" + code)
    command = ["gcc", "-std=c99", "-O2", "-fPIC", "-shared", "it.c", "-o", "it.so", "-lm"]
    made = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr
    return ctypes.CDLL(str(folder / "it.so"))


@needs_gcc
@pytest.mark.parametrize("scale", SCALES)
def test_the_limiter_in_c(scale, tmp_path):
    limits = some_limits(scale, "float64")
    nearest = library(tmp_path, c_export.limiter_header(limits)).slewrl_nearest
    nearest.restype, nearest.argtypes = ctypes.c_double, [ctypes.c_double] * 4 + [ctypes.c_int] * 2
    down, up, low, high = working(limits, "float64", "tight")
    for prev in some_prevs(limits, "float64", beyond=True):
        inside = (low <= prev) & (prev <= high)
        rows = list(zip(prev, up, down, range(COUNT), map(int, inside), strict=True))
        found = [np.array([nearest(wanted, *row) for row in rows]) for wanted in (-np.inf, np.inf)]
        equal(found, boxmath.tight_edges(prev, down, up, low, high))


@needs_gcc
@pytest.mark.parametrize("scale", SCALES)
def test_the_policy_in_c(scale, tmp_path):
    limits = some_limits(scale, "float32")
    template = c_export._template("layer.h")
    (layer,) = re.findall(r"static inline float slewrl_layer\(.*?\n\}\n", template, re.DOTALL)
    ask = "    const float command = v > 0.0f ? HUGE_VALF : -HUGE_VALF;"  # all the way, whatever the layer
    parts = SimpleNamespace(limits=limits, observation_size=1, default_pose=limits.low)
    code = f"#include <math.h>\n#define SLEWRL_NO_CONTRACTION\n#define SLEWRL_JOINTS {COUNT}\n"
    code += c_export._constants(parts, RateLimiter(limits)) + c_export._filled(layer, {"SQUASH": "u", "PLACE": ask})
    entered = library(tmp_path, code).slewrl_layer
    entered.restype, entered.argtypes = ctypes.c_float, [ctypes.c_float, ctypes.c_float, ctypes.c_int]
    for prev in some_prevs(limits, "float32", beyond=True):
        found = [np.float32([entered(u, p, i) for i, p in enumerate(prev)]) for u in (-1, 1)]
        equal(found, boxmath.guard_edges(prev, *working(limits, "float32", "guard")))
