"""Each theorem of the paper as a test. Where the paper's statement is false, the true fact, and the counterexample."""

import math

import numpy as np
import pytest
import theory
import torch

from slewrl import RateLimits, make_layer
from slewrl.paper.theory import volume_ratio

PAIR = RateLimits([0.5, 0.2], low=-1.0, high=1.0)
ANT = RateLimits.preset("Ant-v5", "tight")
LAYER = make_layer("ddsrad")


def points(rows=2000, limits=ANT, seed=0, scale=2.0, spread=1.0):
    generator = torch.Generator().manual_seed(seed)
    u = scale * torch.randn(rows, limits.dim, generator=generator, dtype=torch.float64)
    prev = spread * (2 * torch.rand(rows, limits.dim, generator=generator, dtype=torch.float64) - 1)
    return u, prev


def test_theorem_constraint_with_strict_inequalities_inside():
    """Thm constraint: the limits hold, and strictly where prev is strictly inside (float64, moderate latents)."""
    u, prev = points()
    executed = LAYER(u, ANT.box(prev)).executed
    delta = torch.from_numpy(ANT.delta)
    assert ((executed - prev).abs() < delta).all() and (executed.abs() < 1).all()


def test_theorem_exploration_the_image_is_the_box():
    """Thm exploration: every interior point of F_t has a preimage, u = D / sqrt(R^2 - D^2)."""
    _, prev = points(spread=1.0)
    low, high = (torch.from_numpy(a) for a in theory.reachable_box(prev.numpy(), ANT))
    share = torch.rand(prev.shape, generator=torch.Generator().manual_seed(5), dtype=torch.float64) * 0.998 + 0.001
    target = low + share * (high - low)
    step = target - prev
    radius = torch.where(step >= 0, high - prev, prev - low)
    u = step / torch.sqrt(radius**2 - step**2)
    assert torch.allclose(LAYER(u, ANT.box(prev)).executed, target, rtol=0, atol=1e-14)


def test_reachable_box_meets_the_range():
    low, high = theory.reachable_box(np.array([0.9, -0.95]), PAIR)
    assert low.tolist() == pytest.approx([0.4, -1.0]) and high.tolist() == pytest.approx([1.0, -0.75])


def test_volume_ratio_by_hand():
    """d = 2, delta = (.5, .2): the rectangle is 1 x .4, the disc pi .04."""
    assert volume_ratio(PAIR) == pytest.approx(0.4 / (math.pi * 0.04))
    # Eq. (volume_ratio) for Ant: 2^8 Gamma(5) / pi^4 * (.2^4 .5^4) / .2^8
    assert volume_ratio(ANT) == pytest.approx(2**8 * 24 / math.pi**4 * 2.5**4)


def test_volume_ratio_is_of_one_set_of_limits():
    with pytest.raises(ValueError, match="vary by sample"):
        volume_ratio(RateLimits(np.array([[0.2], [0.3]]), low=-1, high=1))


def test_volume_ratio_by_monte_carlo():
    generator = torch.Generator().manual_seed(0)
    uniform = (2 * torch.rand(400_000, 2, generator=generator) - 1) * torch.tensor([0.5, 0.2])
    in_ball = (uniform.norm(dim=-1) <= 0.2).double().mean().item()
    assert 1 / in_ball == pytest.approx(volume_ratio(PAIR), rel=0.01)


def test_proposition_gradient_i_diagonal_positive_jacobian():
    u, prev = points(rows=20)
    for i in range(20):
        box = ANT.box(prev[i])
        jacobian = torch.autograd.functional.jacobian(lambda x, b=box: LAYER(x, b).executed, u[i])
        assert torch.equal(jacobian, torch.diag(jacobian.diagonal()))
        assert (jacobian.diagonal() > 0).all()
        assert torch.allclose(jacobian.diagonal(), theory.jacobian(u[i], box), rtol=1e-12)


def test_proposition_gradient_ii_spectral_norm():
    u, prev = points()
    assert theory.jacobian(u, ANT.box(prev)).max() <= ANT.delta.max()


def test_condition_number_reaches_kappa_at_zero_and_exceeds_it_elsewhere():
    """Prop gradient (ii) calls kappa the worst case. It is the value at u = 0 only."""
    box = PAIR.box(torch.zeros(2, dtype=torch.float64))
    at_zero = theory.condition_number(torch.zeros(2, dtype=torch.float64), box).item()
    assert at_zero == pytest.approx(PAIR.kappa) == pytest.approx(2.5)
    elsewhere = theory.condition_number(torch.tensor([0.0, 1.0], dtype=torch.float64), box).item()
    assert elsewhere == pytest.approx(2.5 * 2**1.5)  # 7.07
    equal = RateLimits([0.3, 0.3], low=-1, high=1).box(torch.zeros(2, dtype=torch.float64))
    assert theory.condition_number(torch.tensor([0.0, 10.0], dtype=torch.float64), equal).item() == pytest.approx(
        101**1.5
    )


def test_condition_number_on_a_bound():
    box = PAIR.box(torch.tensor([1.0, 0.0], dtype=torch.float64))
    outward, inward = (torch.tensor([sign, 0.0], dtype=torch.float64) for sign in (1.0, -1.0))
    assert theory.condition_number(outward, box).isinf() and theory.condition_number(inward, box).isfinite()


def test_the_true_condition_bound():
    u, prev = points(spread=0.4)
    clipped = u.clamp(-1.5, 1.5)
    numbers = theory.condition_number(clipped, ANT.box(prev))
    assert numbers.max() <= theory.condition_bound(ANT, 1.5)
    corner = torch.tensor([0.0, 1.5], dtype=torch.float64)
    box = PAIR.box(torch.zeros(2, dtype=torch.float64))
    assert theory.condition_number(corner, box).item() == pytest.approx(theory.condition_bound(PAIR, 1.5))  # attained


def test_proposition_gradient_iii_actor_gradient_bound():
    """TD3's actor loss with a quadratic Q: ||grad_u|| <= max delta ||grad_a Q|| + 2 lambda ||u||."""
    u, prev = points()
    u.requires_grad_()
    goal = torch.randn(8, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    action = LAYER(u, ANT.box(prev))
    loss = ((action.executed - goal) ** 2).sum() + 0.005 * action.penalty.sum()
    (grad,) = torch.autograd.grad(loss, u)
    grad_q = 2 * (action.executed.detach() - goal)
    bound = theory.actor_gradient_bound(ANT, grad_q, u.detach(), 0.005)
    assert (grad.norm(dim=-1) <= bound).all()


def test_lipschitz_constant_is_max_delta_and_attained():
    """The paper's ||delta||_2 is an upper bound; its own example attains ||delta||_2 / sqrt(d) only."""
    assert theory.lipschitz(ANT) == 0.5
    assert theory.lipschitz(RateLimits(5.0, low=-1, high=1)) == 2.0  # no step is longer than the range
    u, prev = points()
    box = ANT.box(prev)
    other = u + 0.3 * torch.randn(u.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    change = (LAYER(u, box).executed - LAYER(other, box).executed).norm(dim=-1)
    assert (change <= 0.5 * (u - other).norm(dim=-1) * (1 + 1e-12)).all()
    centre = ANT.box(torch.zeros(8, dtype=torch.float64))
    one = torch.zeros(8, dtype=torch.float64)
    one[1] = 1e-6  # an ankle
    attained = (LAYER(one, centre).executed - LAYER(-one, centre).executed).norm() / (2 * one.norm())
    assert attained.item() == pytest.approx(0.5, rel=1e-9)
    every = torch.full((8,), 1e-6, dtype=torch.float64)
    papers = (LAYER(every, centre).executed - LAYER(-every, centre).executed).norm() / (2 * every.norm())
    assert papers.item() == pytest.approx(np.linalg.norm(ANT.delta) / math.sqrt(8), rel=1e-9)


def test_l2_clip_never_acts_on_what_the_layer_executes():
    u, prev = points(scale=100.0)
    executed = LAYER(u, ANT.box(prev)).executed
    increment = executed - prev
    delta = torch.from_numpy(ANT.delta)
    assert torch.equal(theory.l2_clip(increment, delta), increment)


def test_l2_clip_is_no_safety_net():
    """It moves what broke a limit, but not into the box."""
    delta = torch.tensor([0.5, 0.2], dtype=torch.float64)
    broken = torch.tensor([0.0, 0.7], dtype=torch.float64)
    clipped = theory.l2_clip(broken, delta)
    assert clipped.norm().item() == pytest.approx(math.hypot(0.5, 0.2)) and clipped[1] > delta[1]
    inside_the_ball = torch.tensor([0.1, 0.3], dtype=torch.float64)  # breaks joint 1, and is left alone
    assert torch.equal(theory.l2_clip(inside_the_ball, delta), inside_the_ball)
    assert torch.equal(theory.l2_clip(torch.zeros(2), delta.float()), torch.zeros(2))


def test_entropy_target_in_action_units_can_be_infeasible():
    """-1 per joint in action units needs an entropy of v above that of the uniform law once delta < e^-1 / 2."""
    uniform = math.log(2)
    for delta, feasible in ((0.19, True), (0.18, False)):
        assert (-1 - math.log(delta) <= uniform) == feasible
    assert math.exp(-1) / 2 == pytest.approx(0.184, abs=1e-3)


def test_log_radius_is_minus_infinity_on_a_bound_in_the_paper_and_floored_here():
    box = PAIR.box(torch.ones(2, dtype=torch.float64))
    u = torch.tensor([1.0, 1.0], dtype=torch.float64)
    assert box.radius(u).log().isinf().all()
    floored = make_layer("ddsrad", "action")(u, box).log_det.item()
    assert floored == pytest.approx(math.log(0.005) + math.log(0.002) - 3 * math.log(2), abs=1e-9)
