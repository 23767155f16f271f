"""Each layer of the method table by hand: one prev in the open, one near a bound, numbers worked out on paper.

delta = (.2, .5), range [-1, 1], prev = (0, .8). So F_t = [-.2, .2] x [.3, 1], R+ = (.2, .2), R- = (.2, .5).
"""

import math

import pytest
import torch

from slewrl import RateLimits, make_layer
from slewrl.layers import fused
from slewrl.layers.base import ActionLayer
from slewrl.layers.squash import log_sech2
from slewrl.layers.truncnorm import log_quantile

LIMITS = RateLimits([0.2, 0.5], low=-1.0, high=1.0)
PREV = torch.tensor([0.0, 0.8], dtype=torch.float64)
BOX = LIMITS.box(PREV)
U = torch.tensor([0.75, -0.75], dtype=torch.float64)  # u / sqrt(1 + u^2) = +-0.6 exactly
TANH = math.tanh(0.75)


def approx(values):
    return pytest.approx(values, abs=1e-14)


def test_ddsrad():
    action = make_layer("ddsrad")(U, BOX)
    assert action.executed.tolist() == approx([0.2 * 0.6, 0.8 - 0.5 * 0.6])
    assert action.judged is action.executed
    assert action.log_det.item() == approx(-3 * math.log1p(0.5625))  # 2 joints x 1.5
    assert action.penalty.item() == approx(2 * 0.5625)
    in_action_units = make_layer("ddsrad", "action")(U, BOX).log_det.item()
    assert in_action_units == approx(math.log(0.2) + math.log(0.5) - 3 * math.log1p(0.5625))


def test_ddsrad_log_prob():
    mean, std = torch.tensor([0.25, 0.0], dtype=torch.float64), torch.tensor([0.5, 1.5], dtype=torch.float64)
    noise = torch.tensor([1.0, -0.5], dtype=torch.float64)  # u = (.75, -.75)
    _, log_prob = make_layer("ddsrad").sample(mean, std, noise, BOX)
    gaussian = -0.5 - math.log(0.5) - 0.125 - math.log(1.5) - math.log(2 * math.pi)
    assert log_prob.item() == approx(gaussian + 3 * math.log1p(0.5625))


def test_dtanh():
    action = make_layer("dtanh")(U, BOX)
    assert action.executed.tolist() == approx([0.2 * TANH, 0.8 - 0.5 * TANH])
    assert action.log_det.item() == approx(2 * math.log(1 - TANH**2))
    assert action.penalty.item() == approx(2 * 0.5625)


def test_ddsrad_smooth():
    """w = (.4, .7), so the anchor of joint 1 is clip(.8, .3875, .9125) = .8: R- = .5, R+ = .2."""
    action = make_layer("ddsrad_smooth")(U, BOX)
    denominator = (0.5 - 0.2) * -0.6 + 0.7
    assert action.executed.tolist() == approx([0.12, 0.8 + 2 * 0.5 * 0.2 * -0.6 / denominator])
    log_det = make_layer("ddsrad_smooth", "action")(U, BOX).log_det.item()
    slopes = math.log(0.2) + math.log(2 * 0.5 * 0.2 * 0.7) - 2 * math.log(denominator)
    assert log_det == approx(slopes - 3 * math.log1p(0.5625))


def test_ddsrad_smooth_is_anchored_off_the_edge():
    """On a bound F_t = [.5, 1], an eighth in: u = 0 goes to .9375, and u = 0 has slope on both sides."""
    layer, box = make_layer("ddsrad_smooth"), LIMITS.box(torch.ones(2, dtype=torch.float64))
    u = torch.zeros(2, dtype=torch.float64, requires_grad=True)
    executed = layer(u, box).executed
    assert executed[1].item() == approx(0.9375)
    (slope,) = torch.autograd.grad(executed[1], u)
    assert slope[1].item() == pytest.approx(2 * 0.4375 * 0.0625 / 0.5)


@pytest.mark.parametrize("name", ["boxpre", "post", "boxpro"])
def test_projections(name):
    """a~ = tanh(u) over [-1, 1] = (.635, -.635), clipped to (.2, .3)."""
    action = make_layer(name)(U, BOX)
    assert action.executed.tolist() == approx([0.2, 0.3])
    assert action.judged.tolist() == approx([0.2, 0.3] if name == "boxpro" else [TANH, -TANH])
    distance = math.hypot(TANH - 0.2, TANH + 0.3)
    assert action.penalty.item() == approx(0.0 if name == "post" else distance)
    assert action.log_det.item() == approx(2 * math.log(1 - TANH**2))
    weights = {"boxpre": 1.0, "post": 0.0, "boxpro": 0.0}
    assert make_layer(name).penalty_weight == weights[name]


def test_no_gradient_passes_the_clip():
    u = torch.tensor([0.75, 1.2], dtype=torch.float64, requires_grad=True)  # tanh: .635 clipped to .2, .834 inside
    (grad,) = torch.autograd.grad(make_layer("boxpro")(u, BOX).judged.sum(), u)
    assert grad.tolist() == approx([0.0, 1 - math.tanh(1.2) ** 2])


def test_none():
    action = make_layer("none")(U, BOX)
    assert action.executed.tolist() == approx([TANH, -TANH])
    assert action.judged.tolist() == approx([TANH, -TANH])


def test_srad_ball():
    """min delta = .2; |u|^2 = 1.125; joint 1 moves down, so nothing is clipped."""
    action = make_layer("srad_ball")(U, BOX)
    step = 0.2 * 0.75 / math.sqrt(2.125)
    assert action.executed.tolist() == approx([step, 0.8 - step])
    assert action.log_det.item() == approx(-2 * math.log(2.125))  # (d + 2)/2 = 2
    assert action.penalty.item() == approx(1.125)
    assert make_layer("srad_ball", "action")(U, BOX).log_det.item() == approx(2 * math.log(0.2) - 2 * math.log(2.125))


def test_srad_qp():
    action = make_layer("srad_qp")(U, BOX)  # half range 1, so a step of .5145 is clipped to .2 and .5
    step = 0.75 / math.sqrt(2.125)
    assert step > 0.5 and action.executed.tolist() == approx([0.2, 0.3])
    literal = make_layer("srad_qp", radius="min_delta")(U, BOX).executed
    assert torch.equal(literal, make_layer("srad_ball")(U, BOX).executed)  # the paper's text: the projection is idle


def test_srad_gauge():
    """F_t has centre (0, .65) and half-widths (.2, .35); L = .75 for both joints."""
    u = torch.tensor([0.75, -0.3], dtype=torch.float64)
    action = make_layer("srad_gauge", "action")(u, BOX)
    ratio = TANH / 0.75
    assert action.executed.tolist() == approx([0.2 * TANH, 0.65 - 0.35 * 0.3 * ratio])
    log_det = math.log(0.2) + math.log(0.35) + math.log(ratio) + math.log(1 - TANH**2)
    assert action.log_det.item() == approx(log_det)


def test_intervals():
    tanh, srad = make_layer("interval_tanh"), make_layer("interval_srad")
    assert tanh(U, BOX).executed.tolist() == approx([0.2 * TANH, 0.65 - 0.35 * TANH])
    assert srad(U, BOX).executed.tolist() == approx([0.12, 0.65 - 0.35 * 0.6])
    assert tanh(U, BOX).penalty.item() == 0 and srad(U, BOX).penalty.item() == approx(1.125)
    assert make_layer("interval_srad", "action")(U, BOX).log_det.item() == approx(
        math.log(0.2) + math.log(0.35) - 3 * math.log1p(0.5625)
    )


def test_truncnorm_clips_a_bare_latent():
    action = make_layer("truncnorm")(torch.tensor([0.5, -3.0], dtype=torch.float64), BOX)
    assert action.executed.tolist() == approx([0.1, 0.3])


def test_truncnorm_is_the_truncated_normal():
    """Quantiles and density against the normal CDF from the standard library."""

    def cdf(x):
        return 0.5 * (1 + math.erf(x / math.sqrt(2)))

    layer, mean, std = make_layer("truncnorm"), 0.4, 0.8
    ends = [cdf((e - mean) / std) for e in (-1, 1)]
    full = torch.ones(2, dtype=torch.float64)
    for noise in (-1.3, 0.0, 0.7):
        action, log_prob = layer.sample(mean * full, std * full, noise * full, BOX)
        v = action.executed[0].item() / 0.2
        assert (cdf((v - mean) / std) - ends[0]) / (ends[1] - ends[0]) == pytest.approx(cdf(noise), abs=1e-12)
        z = (v - mean) / std
        density = -0.5 * z * z - math.log(std * math.sqrt(2 * math.pi) * (ends[1] - ends[0]))
        assert log_prob.item() == pytest.approx(2 * density, abs=1e-9)


@pytest.mark.parametrize("mean", [-1e3, -300.0, -20.0, 20.0, 300.0, 1e3])
def test_truncnorm_far_outside_the_box(mean):
    """Deep in the tail the law is nearly exponential at the edge: still inside, finite, and ordered by noise."""
    full = torch.ones(9, 1, dtype=torch.float64)
    noise = torch.linspace(-4, 4, 9, dtype=torch.float64).unsqueeze(-1)
    box = RateLimits(0.2, low=-1.0, high=1.0).box(torch.zeros(9, 1, dtype=torch.float64))
    m = (mean * full).requires_grad_()
    action, log_prob = make_layer("truncnorm").sample(m, 0.5 * full, noise, box)
    assert (action.executed.diff(dim=0) >= 0).all() and log_prob.isfinite().all()
    gap = 1 - action.executed.abs() / 0.2
    # Exponential with rate (|mean| - 1) / std^2: P(gap > x) = e^{-rate x}.
    upper = torch.special.ndtr(-noise if mean > 0 else noise)
    expected = -torch.log1p(-upper) / ((abs(mean) - 1) / 0.25)
    assert torch.allclose(gap, expected, rtol=0.02, atol=1e-12)
    log_prob.sum().backward()
    assert m.grad.isfinite().all()


@pytest.mark.parametrize("noise", [-9.0, -5.5, -1.0, 0.5, 5.5, 9.0])
def test_truncnorm_tails_in_float32(noise):
    """std .05 in an interval of +-1: nothing is cut off, so the draw is mean + std noise, far tails included."""
    full = torch.ones(2)
    action, log_prob = make_layer("truncnorm").sample(0.1 * full, 0.05 * full, noise * full, BOX)
    v = 0.1 + 0.05 * noise
    assert action.executed[0].item() == pytest.approx(0.2 * v, abs=1e-7)
    assert log_prob.item() == pytest.approx(2 * (-0.5 * noise**2 - math.log(0.05 * math.sqrt(2 * math.pi))), rel=1e-5)


def test_log_quantile_inverts_the_log_cdf():
    log_p = -torch.logspace(math.log10(math.log(2)), 11, 2000, dtype=torch.float64)
    x = log_quantile(log_p)
    assert (x <= 1e-15).all()
    assert torch.allclose(torch.special.log_ndtr(x), log_p, rtol=1e-12, atol=0)


def test_truncnorm_gradients_in_float32_are_those_of_float64():
    generator = torch.Generator().manual_seed(0)
    mean, noise = (2 * torch.randn(5000, 2, generator=generator) for _ in range(2))
    std = torch.exp(-6 * torch.rand(5000, 2, generator=generator))
    grads = []
    for dtype in (torch.float32, torch.float64):
        m, s = (x.to(dtype).clone().detach().requires_grad_() for x in (mean, std))
        box = LIMITS.box(torch.zeros(5000, 2, dtype=dtype))
        action, log_prob = make_layer("truncnorm").sample(m, s, noise.to(dtype), box)
        (action.executed.sum() + log_prob.sum()).backward()
        grads += [torch.cat([m.grad, s.grad]).double()]
    error = (grads[0] - grads[1]).abs() / (1 + grads[1].abs())
    assert error.max() < 1e-4


def test_log_sech2_to_the_last_digits():
    u = torch.linspace(-40, 40, 4001, dtype=torch.float64)
    expected = [2 * (math.log(2) - abs(x) - math.log1p(math.exp(-2 * abs(x)))) for x in u.tolist()]
    assert torch.allclose(log_sech2(u), torch.tensor(expected, dtype=torch.float64), rtol=0, atol=1e-13)


def test_ball_with_hundreds_of_joints_saturates():
    limits = RateLimits([0.2] * 300, low=-1.0, high=1.0)
    action = make_layer("srad_ball")(torch.full((300,), float("inf")), limits.box(torch.zeros(300)))
    assert action.executed.norm().item() == pytest.approx(0.2, rel=1e-4) and action.log_det.isfinite()


# ---------------------------------------------------------------- DD-SRad in floats


@pytest.mark.parametrize(("dtype", "ulps"), [(torch.float32, 4), (torch.float64, 4)], ids=str)
def test_ddsrad_is_the_papers_formula_to_a_few_ulps_of_the_range(dtype, ulps):
    generator = torch.Generator().manual_seed(0)
    prev = (2 * torch.rand(20_000, 2, generator=generator, dtype=torch.float64) - 1).to(dtype)
    u = (5 * torch.randn(20_000, 2, generator=generator, dtype=torch.float64)).to(dtype)
    p, x = prev.double(), u.double()
    delta = torch.tensor([0.2, 0.5], dtype=torch.float64)
    radius = torch.where(x >= 0, torch.minimum(delta, 1 - p), torch.minimum(delta, p + 1))
    formula = p + radius * x / torch.sqrt(1 + x * x)
    executed = make_layer("ddsrad")(u, LIMITS.box(prev)).executed
    assert (executed.double() - formula).abs().max() <= ulps * torch.finfo(dtype).eps


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-6), (torch.float64, 1e-12)], ids=str)
@pytest.mark.parametrize("path", ["fused", "composed"])
def test_ddsrad_gradient_is_the_analytic_jacobian(dtype, tolerance, path):
    """R / (1 + u^2)^{3/2}, relative, for |u| up to 1e4, where autograd of the formula is gone by 4e3."""
    magnitude = 10.0 ** torch.linspace(-4, 4, 4001, dtype=torch.float64)
    u = torch.cat([magnitude, -magnitude]).to(dtype).unsqueeze(-1).expand(-1, 2).clone().requires_grad_()
    prev = torch.zeros_like(u)
    box = LIMITS.box(prev.detach())
    layer = make_layer("ddsrad")
    assert fused.applies(u, box)
    action = layer(u, box) if path == "fused" else ActionLayer.__call__(layer, u, box)
    (grad,) = torch.autograd.grad(action.executed.sum(), u)
    x = u.detach().double()
    expected = torch.tensor([0.2, 0.5], dtype=torch.float64) / (1 + x * x) ** 1.5
    assert ((grad.double() - expected).abs() / expected).max() <= tolerance


def test_the_plain_formula_loses_its_gradient():
    """Why the backward is analytic: autograd of the formula in float32."""
    u = torch.tensor([1e4], requires_grad=True)
    (plain,) = torch.autograd.grad((0.2 * u / torch.sqrt(1 + u * u)).sum(), u)
    assert abs(plain.item() / (0.2 * 1e-12) - 1) > 0.5


@pytest.mark.parametrize("density", ["normalized", "action"])
def test_fused_and_composed_agree(density):
    layer, generator = make_layer("ddsrad", density), torch.Generator().manual_seed(0)
    u = (3 * torch.randn(500, 2, generator=generator, dtype=torch.float64)).requires_grad_()
    prev = 2 * torch.rand(500, 2, generator=generator, dtype=torch.float64) - 1
    prev[:20] = 1.0
    box = LIMITS.box(prev)
    weights = [torch.randn(s, generator=generator, dtype=torch.float64) for s in ((500, 2), (500,), (500,))]
    results = []
    for action in (layer(u, box), ActionLayer.__call__(layer, u, box)):
        parts = (action.executed, action.log_det, action.penalty)
        (grad,) = torch.autograd.grad(sum((p * w).sum() for p, w in zip(parts, weights, strict=True)), u)
        results.append((*parts, grad))
    for a, b in zip(*results, strict=True):
        assert torch.allclose(a, b, rtol=1e-12, atol=1e-13)
    assert torch.equal(layer.execute(u, box), layer(u, box).executed)


def test_a_math_library_that_rounds_upward_does_not_matter(monkeypatch):
    """Theorem 2 uses no property of rsqrt: one that is too large by some ulps still stays in the box."""
    exact = torch.Tensor.rsqrt_
    monkeypatch.setattr(torch.Tensor, "rsqrt_", lambda self: exact(self).mul_(1 + 2**-21))
    u = torch.cat([torch.logspace(-2, 15, 50_000), -torch.logspace(-2, 15, 50_000)]).unsqueeze(-1)
    prev = torch.linspace(-1, 1, 100_000).unsqueeze(-1)
    limits = RateLimits("0.2", low=-1, high=1)
    box = limits.box(prev)
    assert fused.applies(u, box)
    executed = make_layer("ddsrad").execute(u, box)
    assert (executed[u.abs() > 1e3] - prev[u.abs() > 1e3]).abs().max() > 0.1999
    assert not limits.outside(executed.numpy(), prev.numpy()).any()


def test_second_derivatives():
    layer = make_layer("ddsrad")
    u = torch.tensor([[0.3, -1.1]], dtype=torch.float64, requires_grad=True)
    box = LIMITS.box(torch.zeros(1, 2, dtype=torch.float64))
    assert torch.autograd.gradgradcheck(lambda x: layer(x, box).executed, (u,))
    assert torch.autograd.gradgradcheck(lambda x: layer(x, box)[2:], (u,))


def test_an_option_a_layer_has_not():
    with pytest.raises(TypeError, match="layer 'ddsrad' has no option 'budget'; it has: penalty_weight"):
        make_layer("ddsrad", budget=1)
