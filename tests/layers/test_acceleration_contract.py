"""What every box layer promises under acceleration limits, by name: a new layer is held to it without a new test."""

from fractions import Fraction

import numpy as np
import pytest
import torch

from slewrl import LAYERS, RateLimits, make_layer
from slewrl.layers import fused
from slewrl.layers.audit import adversarial_latents
from slewrl.layers.base import ActionLayer
from slewrl.limits import viability
from slewrl.limits.viable_box import ViableBox, numpy_edges

HARD = [name for name in LAYERS if LAYERS[name].hard and name != "budget"]
SPEEDS, ACCELERATIONS = [2.175] * 4 + [2.61] * 3, [15, 7.5, 10, 12.5, 15, 20, 20]
FRANKA = RateLimits([0.02 * x for x in SPEEDS], -2.8, 2.8, dt=0.02, acceleration=ACCELERATIONS, units="rad")
SKEW = RateLimits(
    up=[0.05, 0.3, 0.02], down=[0.2, 0.1, 0.4], low=[-1, 0.5, -2], high=[1, 1.5, -1], acceleration=0.03,
    deceleration=[0.01, 0.08, 0.03],
)  # fmt: skip
CLIPPED = ("post", "boxpre", "boxpro", "srad_ball", "srad_qp", "truncnorm")
FAMILY = {"franka": FRANKA, "skew": SKEW}
NAN, INF = float("nan"), float("inf")


def anywhere(limits, rows, dtype, seed=0):
    """Poses at rest, some of them on a bound."""
    rng = np.random.default_rng(seed)
    pose = rng.uniform(limits.low, limits.high, (rows, limits.dim))
    pose = np.where(rng.random(pose.shape) < 0.1, np.where(rng.random(pose.shape) < 0.5, limits.low, limits.high), pose)
    return limits.clamp(torch.from_numpy(pose).to(dtype))


def latents(shape, dtype, generator):
    """Adversarial ones, with a drift for some steps, so that joints gather speed."""
    drift = 3 * torch.randint(-1, 2, shape[-1:], generator=generator)
    return adversarial_latents(shape, dtype, generator) if torch.rand(1, generator=generator) < 0.3 else (
        drift + torch.randn(shape, generator=generator)
    ).to(dtype)  # fmt: skip


def chain(layer, limits, dtype, steps, rows=32, seed=0, derated=False):
    """The commands of rows chains, (T + 2, rows, d): the pose twice, since it is at rest; and boxes."""
    generator = torch.Generator().manual_seed(seed)
    prev = anywhere(limits, rows, dtype, seed)
    path, velocity, boxes = [prev, prev], torch.zeros_like(prev), []
    for _ in range(steps):
        rates = {"delta": torch.rand(rows, limits.dim, generator=generator) * 0.1} if derated else {}
        box = limits.box(prev, velocity=velocity, check=not derated, **rates)
        latent = latents(tuple(prev.shape), dtype, generator)
        action = layer(latent, box)
        assert torch.equal(layer.execute(latent, box), action.executed)
        assert action.log_det.isfinite().all() and action.penalty.isfinite().all() and action.judged.isfinite().all()
        velocity, prev = action.executed - prev, action.executed
        path.append(prev)
        boxes.append(box)
    return torch.stack(path).double().numpy(), boxes


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("label", FAMILY)
@pytest.mark.parametrize("name", HARD)
def test_zero_violations_and_no_empty_box(name, label, dtype):
    limits = FAMILY[label]
    path, boxes = chain(make_layer(name), limits, dtype, steps=150)
    assert not limits.outside(path[2:], path[1:-1], path[:-2]).any()
    assert not viability.too_sharp(path[2:], path[1:-1], path[:-2], limits.acceleration, limits.deceleration).any()
    assert all((box.low <= box.high).all() and box.contains(box.anchor).all() for box in boxes)
    assert any((box.low == box.high).any() for box in boxes) or name in ("srad_ball", "post", "boxpre", "boxpro")


@pytest.mark.parametrize("name", ["ddsrad", "boxpro", "interval_srad"])
def test_rates_that_shrink_while_moving_give_way_to_the_acceleration_and_the_bounds(name):
    path, _ = chain(make_layer(name), FRANKA, torch.float32, steps=150, derated=True)
    assert ((path >= FRANKA.low) & (path <= FRANKA.high)).all()
    assert not viability.too_sharp(path[2:], path[1:-1], path[:-2], FRANKA.acceleration, FRANKA.deceleration).any()


def one_point_boxes(dtype=torch.float64):
    """Joints on their way into a bound, where only full braking is left."""
    _, boxes = chain(make_layer("interval_srad"), FRANKA, dtype, steps=200)
    rows = [(b.prev[i], b.velocity[i]) for b in boxes for i in (b.low == b.high).any(-1).nonzero()[:, 0].tolist()]
    prev, velocity = (torch.stack(column) for column in zip(*rows, strict=True))
    box = FRANKA.box(prev, velocity=velocity)
    assert (box.low == box.high).any(-1).all() and len(rows) > 20
    return box


@pytest.mark.parametrize("density", ["normalized", "action_scaled", "action"])
@pytest.mark.parametrize("name", HARD)
def test_boxes_of_one_point_have_finite_densities_and_gradients(name, density):
    box, layer = one_point_boxes(), make_layer(name, density)
    mean = torch.randn(box.prev.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).requires_grad_()
    std, noise = torch.full_like(mean, 0.5).requires_grad_(), torch.randn_like(mean)
    action, log_prob = layer.sample(mean, std, noise, box)
    point = box.low == box.high
    assert torch.equal(action.executed[point], box.low[point])
    (action.judged.sum() + log_prob.sum() + action.penalty.sum()).backward()
    assert log_prob.isfinite().all() and log_prob.abs().max() < 1e3
    assert mean.grad.isfinite().all() and std.grad.isfinite().all()


@pytest.mark.parametrize("name", [name for name in HARD if name not in CLIPPED])
def test_log_det_is_that_of_the_map_before_the_grid(name):
    layer, limits = make_layer(name, "action"), FRANKA
    prev = limits.clamp(torch.zeros(5, 7, dtype=torch.float64))
    velocity = limits.clamp(torch.linspace(-0.002, 0.002, 35, dtype=torch.float64).reshape(5, 7))
    box = limits.box(prev, velocity=velocity)
    latent = torch.randn(5, 7, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    for row in range(5):
        own = limits.box(prev[row], velocity=velocity[row])
        jacobian = torch.autograd.functional.jacobian(
            lambda u, own=own: ActionLayer.__call__(layer, u, own).executed, latent[row]
        )
        assert layer(latent, box).log_det[row].item() == pytest.approx(jacobian.slogdet()[1].item(), rel=1e-9)


def test_the_fused_layer_is_the_composed_one():
    layer = make_layer("ddsrad")
    _, boxes = chain(layer, FRANKA, torch.float64, steps=100)
    for box in boxes[::10]:
        latent = torch.randn(box.prev.shape, dtype=torch.float64).requires_grad_()
        assert fused.applies(latent, box)
        ours, theirs = layer(latent, box), ActionLayer.__call__(layer, latent, box)
        assert (ours.executed - theirs.executed).abs().max() <= FRANKA.grid.unit.max()  # a rounding apart
        torch.testing.assert_close(ours.log_det, theirs.log_det)
        weights = torch.randn_like(latent)
        one, other = (
            torch.autograd.grad((a.judged * weights).sum() + a.log_det.sum(), latent)[0] for a in (ours, theirs)
        )
        torch.testing.assert_close(one, other, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("label", FAMILY)
def test_numpys_edges_are_torchs(label):
    _, boxes = chain(make_layer("interval_srad"), FAMILY[label], torch.float32, steps=100)
    for box in boxes:
        grid, unit = box.grid, box.grid.unit
        command, velocity = box.units(box.prev), box.units(box.velocity)
        edges = viability.increments(velocity, command - grid.low, grid.high - command, grid, xp=torch)
        fast = numpy_edges(box.prev.numpy(), box.velocity.numpy(), grid)
        for edge, other in zip(edges, fast, strict=True):
            np.testing.assert_array_equal(((command + edge) * unit).float().numpy(), other)


@pytest.mark.parametrize("name", ["ddsrad", "dtanh"])
def test_a_latent_of_0_or_nan_comes_to_rest_as_fast_as_allowed(name):
    layer, prev = make_layer(name), FRANKA.clamp(torch.zeros(1, 7, dtype=torch.float64))
    velocity = torch.zeros_like(prev)
    for _ in range(10):
        executed = layer.execute(torch.full_like(prev, INF), FRANKA.box(prev, velocity=velocity))
        velocity, prev = executed - prev, executed
    for latent in (0.0, NAN):
        p, v = prev, velocity
        while v.any():
            executed = layer.execute(torch.full_like(p, latent), FRANKA.box(p, velocity=v))
            slower = viability.brake(v.numpy(), FRANKA.grid.deceleration * FRANKA.grid.unit)
            np.testing.assert_array_equal((executed - p).numpy(), slower)
            v, p = executed - p, executed


@pytest.mark.parametrize("name", ["post", "boxpre", "boxpro"])
def test_a_clip_stops_at_its_target_without_overshoot(name):
    prev = FRANKA.clamp(torch.zeros(1, 7, dtype=torch.float64))
    velocity, target = torch.zeros_like(prev), torch.full_like(prev, 1.0)
    for _ in range(200):
        box = FRANKA.box(prev, velocity=velocity)
        executed = make_layer(name).enter(target, box)
        assert box.contains(executed).all() and (executed <= target).all()
        velocity, prev = executed - prev, executed
    assert torch.equal(prev, FRANKA.clamp(target)) and not velocity.any()


def test_limits_that_are_not_enough_say_so():
    with pytest.raises(ValueError, match="'budget' does not take limits with an acceleration"):
        make_layer("budget").check(FRANKA)
    prev = torch.zeros(1, 7)
    with pytest.raises(ValueError, match="pass velocity"):
        FRANKA.box(prev)
    with pytest.raises(ValueError, match="velocity is given, but these limits have no acceleration"):
        RateLimits([0.1] * 7, -1, 1).box(prev, velocity=prev)
    with pytest.raises(ValueError, match="expected float32 or float64 with an acceleration limit"):
        FRANKA.box(prev.bfloat16(), velocity=prev)
    with pytest.raises(ValueError, match=r"prev of 'joint0' is 0\.1\d*, .*grid of commands"):
        FRANKA.box(prev + 0.1, velocity=prev)
    fast = FRANKA.clamp(torch.full((1, 7), 0.03))
    with pytest.raises(ValueError, match="velocity of 'joint0' is 0.03.* per step: braking takes 0.06"):
        FRANKA.box(FRANKA.clamp(torch.full((1, 7), 2.8)), velocity=fast)
    with pytest.raises(ValueError, match="deceleration is given without acceleration"):
        RateLimits(0.1, -1, 1, deceleration=0.1)


def test_acceleration_is_per_second_squared_with_a_period_and_exact_either_way():
    per_step = RateLimits(0.1, -1, 1, acceleration="0.006")
    assert Fraction(float(per_step.acceleration[0])) <= Fraction("0.006")
    with_period = RateLimits(0.1, -1, 1, dt=0.02, acceleration=15)
    assert Fraction(float(with_period.acceleration[0])) <= 15 * Fraction(0.02) ** 2
    for limits in (per_step, with_period, FRANKA, SKEW):
        assert RateLimits(**limits._parts()) == limits
    chosen = FRANKA.select(["joint3", "joint1"])
    assert chosen.acceleration.tolist() == FRANKA.acceleration[[3, 1]].tolist()
    assert RateLimits(FRANKA.delta, -2.8, 2.8, dt=0.02, units="rad") != FRANKA
    assert isinstance(FRANKA.box(torch.zeros(7), velocity=torch.zeros(7)), ViableBox)


@pytest.mark.parametrize("name", [name for name in HARD if name not in ("srad_qp", "srad_gauge")])
def test_narrow_boxes_keep_the_order_of_latents(name):
    """A joint on its way into a bound has a box of a few grid units, of which more latent is more, as of any."""
    unit = float(FRANKA.grid.unit[0])
    layer, rising = make_layer(name), torch.tensor([-50, -1, -0.1, -0.01, 0, 0.01, 0.1, 1, 50], dtype=torch.float64)
    pose = FRANKA.clamp(torch.full((7,), float(FRANKA.high[0] - 30 * unit), dtype=torch.float64))
    box = FRANKA.box(pose.expand(9, 7), velocity=torch.zeros(9, 7, dtype=torch.float64), delta=[2e-4] * 7)
    executed = layer.execute(rising[:, None].expand(9, 7).contiguous(), box)
    assert (executed.diff(dim=0) >= 0).all()


def test_full_braking_is_contained_in_the_box_of_a_lower_rate():
    velocity = FRANKA.clamp(torch.full((7,), 0.03))
    box = FRANKA.box(FRANKA.clamp(torch.zeros(7)), velocity=velocity, delta=[0.001] * 7, check=False)
    assert box.contains(box.anchor).all() and box.contains(box.sample()).all()


def test_bad_histories_are_refused_by_what_is_wrong():
    prev = FRANKA.clamp(torch.zeros(7))
    with pytest.raises(ValueError, match=r"velocity has shape \(3,\), expected \(\.\.\., 7\)"):
        FRANKA.box(prev, velocity=torch.zeros(3))
    with pytest.raises(TypeError, match="velocity= is a keyword"):
        FRANKA.box(prev, prev)
    with pytest.raises(ValueError, match="pass before"):
        FRANKA.outside(prev.numpy(), prev.numpy())
    assert FRANKA.outside(np.full(7, np.inf), np.zeros(7), np.zeros(7)).all()
    with pytest.raises(
        ValueError, match=r"range of 'joint0' is \[1000000\.0, 1000000\.001\], expected one that the grid"
    ):
        RateLimits(0.001, 1e6, 1e6 + 0.001, acceleration=0.001)
    with pytest.raises(ValueError, match="too fine for torch.float32"):
        RateLimits(1e-41, 0, 1e-40, acceleration=1e-42).box(np.zeros(1, np.float32), velocity=[0.0])
    with pytest.warns(UserWarning, match="never binds"):
        RateLimits(0.04, -2, 2, acceleration=15)
