"""The audit can fail: it finds the violations of formulas known to have them, and agrees with rational arithmetic."""

import itertools
import re
import subprocess
import sys
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from slewrl import LAYERS, RateLimits, make_layer
from slewrl.layers import audit
from slewrl.limits.box import FeasibleBox

ROOT = Path(__file__).parents[2]
HARD = [name for name in LAYERS if LAYERS[name].hard]
ANT = RateLimits.preset("Ant-v5", "tight")


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("mapping", [audit.paper_formula, audit.hand_written_clip])
def test_the_formula_and_the_clip_break_the_limit(mapping, dtype):
    tally = audit.audit(mapping, ANT, dtype, 100_000)
    assert tally.violations - tally.nan > 1000 and tally.nan > 1000 and 0 < tally.overshoot < 1e-6


def test_no_limit_is_seen_to_have_none():
    assert audit.audit(audit.executed_by(make_layer("none")), ANT, torch.float32, 10_000).overshoot > 1


def test_an_unguarded_edge_is_caught():
    """The same layer, boxes built from limits that were not guarded: the guard is what makes it sound."""

    def unguarded(latent, box):
        tight = ANT.rounded(latent.dtype, edges="tight").working
        return make_layer("dtanh").execute(latent, type(box)(box.prev, tight, box.exact))

    assert audit.audit(unguarded, ANT, torch.float32, 100_000).violations > 1000


FORMATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
SCALES = get_args(audit.Scale)


@pytest.mark.parametrize("dtype", FORMATS[:3], ids=str)
def test_a_margin_relative_to_delta_is_caught_next_to_the_subnormals(dtype):
    limits = audit.extreme_limits("tiny", dtype)
    gap, shrink = limits.rounded(dtype).half_gap, 1 - 4 * torch.finfo(dtype).eps

    def relative(latent, box):
        down, up = (((x - gap) * shrink).clamp_min(0.0).to(dtype) for x in box.exact[:2])
        return audit.edge_of_box(latent, FeasibleBox(box.prev, box.working._replace(down=down, up=up), box.exact))

    assert audit.audit(relative, limits, dtype, 100_000, of_step=True).violations > 100


@pytest.mark.parametrize("dtype", FORMATS, ids=str)
@pytest.mark.parametrize("scale", SCALES)
def test_the_ends_of_every_format(scale, dtype):
    """Guarded and tight edges, limits for all time and rates of the step; the edges, and a layer that builds none."""
    for seed, (edges, of_step) in enumerate(itertools.product(("guard", "tight"), (False, True))):
        limits = audit.extreme_limits(scale, dtype, seed=seed)
        assert limits.dim == 64
        for mapping in (audit.edge_of_box, audit.executed_by(make_layer("ddsrad"))):
            tally = audit.audit(mapping, limits, dtype, 20_000, edges=edges, of_step=of_step)
            assert tally.violations == 0 and tally.cases >= 20_000


@pytest.mark.parametrize("scale", SCALES)
def test_verdicts_at_the_ends_agree_with_fractions(scale):
    limits, seen = audit.extreme_limits(scale, torch.float64), set()
    for mapping in (audit.paper_formula, audit.hand_written_clip, audit.edge_of_box):
        for latent, box in audit.adversarial_cases(limits, torch.float64, 2000, seed=3, edges="tight", of_step=True):
            action = mapping(latent, box)
            slow = audit.outside_by_fractions(action.numpy(), box.prev.numpy(), box.exact)
            assert np.array_equal(~box.contains(action).numpy(), slow)
            seen |= set(slow.flatten().tolist())
    assert seen == {True, False}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_verdicts_agree_with_fractions(dtype, limits_family):
    for limits in limits_family.values():
        for mapping in (audit.paper_formula, audit.hand_written_clip, audit.executed_by(make_layer("ddsrad"))):
            for latent, box in audit.adversarial_cases(limits, dtype, 1500, seed=3):
                action, prev = mapping(latent, box).double().numpy(), box.prev.double().numpy()
                assert np.array_equal(limits.outside(action, prev), audit.outside_by_fractions(action, prev, limits))


def test_cases_are_adversarial():
    generator = torch.Generator().manual_seed(0)
    latent = audit.adversarial_latents((1000, 8), torch.float32, generator)
    assert latent.isnan().any() and latent.isinf().any() and (latent.abs() > 1e30).any() and (latent.abs() < 1).any()
    prev = audit.adversarial_prevs(1000, ANT, torch.float32, generator)
    assert (prev == 1).any() and (prev == -1).any() and (prev == 1 - 2**-24).any() and prev.abs().max() == 1
    grid = prev * 2**24
    assert (grid != grid.round()).float().mean() > 0.1  # full mantissas, not rand()'s grid


floats = st.floats(width=32, allow_nan=True, allow_infinity=True)


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(HARD), st.data())
def test_any_latent_any_feasible_prev_any_limits(name, data):
    """Sound, NaN holds, whatever hypothesis thinks of."""
    draw = data.draw
    low = draw(st.floats(-100, 99, width=32))
    high = float(np.float32(low + draw(st.floats(0.5, 100))))
    rates = st.floats(2**-10, 50, width=32)
    limits = RateLimits(up=[draw(rates), draw(rates)], down=[draw(rates), draw(rates)], low=low, high=high)
    prev = torch.tensor([[draw(st.floats(low, high, width=32)) for _ in range(2)]])
    latent = torch.tensor([[draw(floats), draw(floats)]])
    executed = make_layer(name).execute(latent, limits.box(prev))
    assert not limits.outside(executed.numpy(), prev.numpy()).any()
    assert torch.equal(executed[latent.isnan()], prev[latent.isnan()])


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(["ddsrad", "ddsrad_smooth", "dtanh", "interval_tanh", "interval_srad", "boxpro"]), st.data())
def test_monotone_in_the_latent(name, data):
    draw = data.draw
    prev = torch.tensor([[draw(st.floats(-1, 1, width=32))] * 8])
    values = sorted(draw(st.floats(width=32, allow_nan=False)) for _ in range(2))
    low, high = (make_layer(name).execute(torch.full((1, 8), v), ANT.box(prev)) for v in values)
    assert (low <= high + 2**-22).all()  # up to the rounding of the squash


def guarantee(*options):
    """The benchmark as a person runs it; its exit code says whether anything broke."""
    command = [sys.executable, str(ROOT / "benchmarks" / "guarantee.py"), *options]
    result = subprocess.run(command, check=False, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def test_benchmark_prints_a_row_per_layer_and_no_violation(tmp_path, limits_family):
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- begin: benchmarks/guarantee.py -->\n<!-- end: benchmarks/guarantee.py -->\nafter\n")
    guarantee("--cases", "240000", "--chain-steps", "50", "--fractions", "2000", "--write", str(page))
    text = page.read_text()
    per_row = [
        -(-(240_000 // (2 * len(HARD)) // 7 + 1) // limits.dim) * limits.dim for limits in limits_family.values()
    ]
    cases = 2 * len(HARD) * (sum(per_row) + 50 * 2 * 57)  # independent, then two lanes of 57 joints for 50 steps
    assert text.startswith("before\n") and text.endswith("after\n") and f"**{cases:,} cases, 0 violations**" in text
    assert all(f"| {name} | float64 |" in text for name in HARD) and "formula as written" in text
    assert "0 disagreements" in text
    assert all(f"| {scale} | {str(dtype)[6:]} |" in text for scale in SCALES for dtype in FORMATS)
    assert re.search(r"rates of the step: \*\*[\d,]{6,} cases, 0 violations\*\*", text)


@pytest.mark.slow
def test_a_hundred_million_cases():
    assert ", 0 violations**" in guarantee("--cases", "1e8", "--chain-steps", "1e4", "--fractions", "1e5")


@pytest.mark.slow
@pytest.mark.parametrize("delta", ["0.1", "0.18", "0.2", "0.25", "0.35", "0.4", "0.5", "0.8"])
def test_every_float32_prev_near_one(delta):
    """All 2^23 floats of [.5, 1) and of (-1, -.5], saturated both ways, against the decimal limit."""
    limits = RateLimits(delta, low=-1, high=1)
    bits = torch.arange(0x3F000000, 0x3F800000, dtype=torch.int32)
    for prev in (bits.view(torch.float32), -bits.view(torch.float32)):
        for block in prev.split(2**20):
            box = limits.box(block.unsqueeze(-1), check=False)
            for latent in (torch.inf, -torch.inf, 30.0):
                executed = make_layer("ddsrad").execute(torch.full_like(box.prev, latent), box)
                assert not limits.outside(executed.numpy(), box.prev.numpy()).any()
