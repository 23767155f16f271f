"""What every layer of LAYERS promises, checked by name. A new layer is held to all of it without a new test."""

import math
import shutil

import numpy as np
import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from slewrl import LAYERS, ActionLayer, RateLimits, make_layer
from slewrl.layers.audit import adversarial_latents, adversarial_prevs, audit, audit_chain, executed_by

HARD = [name for name in LAYERS if LAYERS[name].hard]
CLIPPED = ["boxpre", "post", "boxpro", "srad_ball", "srad_qp", "none", "truncnorm"]
DENSITIES = ["normalized", "action_scaled", "action"]
ANT = RateLimits.preset("Ant-v5", "tight")
NAN, INF = float("nan"), float("inf")


def interior(rows: int, limits: RateLimits = ANT, seed: int = 0) -> torch.Tensor:
    """Previous actions far enough inside for every radius to be delta."""
    generator = torch.Generator().manual_seed(seed)
    return 0.4 * (2 * torch.rand(rows, limits.dim, generator=generator, dtype=torch.float64) - 1)


def latents(rows: int, d: int = 8, seed: int = 1, scale: float = 1.5) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return scale * torch.randn(rows, d, generator=generator, dtype=torch.float64)


def test_the_thirteen_are_there():
    names = (
        "ddsrad ddsrad_smooth dtanh boxpre post boxpro srad_ball srad_qp srad_gauge interval_tanh interval_srad "
        "truncnorm none"
    )
    assert " ".join(LAYERS).startswith(names)
    assert "none" not in HARD and len(HARD) >= 12


# ---------------------------------------------------------------- the guarantee


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("name", HARD)
def test_zero_violations(name, dtype, limits_family):
    mapping = executed_by(make_layer(name))
    for label, limits in limits_family.items():
        if label == "random" and dtype in (torch.bfloat16, torch.float16):
            continue  # rates of 1e-3 of the range do not resolve in 16 bits, and are refused
        tally = audit(mapping, limits, dtype, cases=40_000, seed=len(name))
        assert tally.violations == 0, (label, tally)
        assert tally.cases >= 40_000


@pytest.mark.parametrize("name", HARD)
def test_zero_violations_with_tight_edges(name, limits_family):
    layer = make_layer(name)
    for limits in limits_family.values():
        generator = torch.Generator().manual_seed(0)
        prev = adversarial_prevs(4000, limits, torch.float32, generator)
        latent = adversarial_latents(tuple(prev.shape), torch.float32, generator)
        executed = layer(latent, limits.box(prev, edges="tight")).executed
        assert not limits.outside(executed.numpy(), prev.numpy()).any()


@pytest.mark.parametrize("name", HARD)
@pytest.mark.parametrize("edges", ["guard", "tight"])
def test_boxes_a_few_floats_wide(name, edges):
    """delta of about an ulp of the range, far from zero: every map must survive its own rounding."""
    layer = make_layer(name)
    for delta in (1e-4, 2e-4, 5e-4):
        limits = RateLimits([delta] * 3, low=1000.0, high=1001.0)
        prev = adversarial_prevs(300, limits, torch.float32, torch.Generator().manual_seed(0))
        for u in (0.0, 0.3, -0.3, 1e30, -1e30, INF, -INF):
            action = layer(torch.full_like(prev, u), limits.box(prev, edges=edges))
            assert not limits.outside(action.executed.numpy(), prev.numpy()).any()
            assert action.log_det.isfinite().all()


@pytest.mark.parametrize("name", HARD)
def test_zero_violations_fed_back(name):
    limits = RateLimits.preset("G1", "paper")
    tally = audit_chain(executed_by(make_layer(name)), limits, torch.float32, steps=3000, lanes=4)
    assert tally.violations == 0 and tally.cases == 3000 * 4 * 13


@pytest.mark.parametrize("name", HARD)
def test_limits_that_change_every_step_and_differ_up_and_down(name):
    """A hot motor per sample (box delta=), a batch of limits, and asymmetric ones, judged each by their own."""
    layer, generator = make_layer(name), torch.Generator().manual_seed(3)
    prev = adversarial_prevs(500, ANT, torch.float32, generator)
    latent = adversarial_latents((500, 8), torch.float32, generator)
    hot = torch.rand(500, 8, generator=generator) * 0.3 + 0.01
    derated = RateLimits(delta=torch.minimum(hot.double(), torch.from_numpy(ANT.delta)), low=-1.0, high=1.0)
    for box in (ANT.box(prev, delta=hot), derated.box(prev)):
        action = layer(latent, box)
        assert not derated.outside(action.executed.numpy(), prev.numpy()).any()
        assert action.log_det.isfinite().all()
    skew = RateLimits(up=[0.05, 0.5] * 4, down=[0.5, 0.05] * 4, low=-1.0, high=1.0)
    executed = layer(latent, skew.box(prev)).executed
    assert not skew.outside(executed.numpy(), prev.numpy()).any()


@pytest.mark.parametrize("name", HARD)
def test_nan_holds_and_infinity_saturates(name):
    layer, prev = make_layer(name), torch.tensor([[0.3, -1.0, 1.0, 0.999] * 2])
    box = ANT.box(prev)
    held = layer(torch.full((1, 8), NAN), box)
    assert torch.equal(held.executed, prev)
    assert held.log_det.isfinite().all() and held.penalty.isfinite().all() and held.judged.isfinite().all()
    one_bad = torch.zeros(1, 8)
    one_bad[0, 3] = NAN
    assert layer(one_bad, box).executed[0, 3] == prev[0, 3]
    if name not in ("srad_ball", "budget"):  # a ball reaches an edge in one direction only, a budget not all at once
        for sign in (1, -1):
            edge = box.high if sign > 0 else box.low
            far = layer(torch.full((1, 8), sign * INF), box).executed
            reach = edge if name != "srad_qp" else torch.clamp(prev + sign / math.sqrt(8), box.low, box.high)
            assert torch.allclose(far, reach, atol=1e-6)
    finite = layer(torch.full((1, 8), 1e30), box)
    assert finite.log_det.isfinite().all() and finite.penalty.isfinite().all()


@pytest.mark.parametrize("name", ["ddsrad", "ddsrad_smooth", "dtanh", "srad_gauge", "interval_tanh", "interval_srad"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_extremes_lie_within_two_ulps_of_the_exact_edges(name, dtype, limits_family):
    for limits in limits_family.values():
        prev = adversarial_prevs(2000, limits, dtype, torch.Generator().manual_seed(0))
        tight = limits.box(prev, edges="tight")
        ulp = torch.from_numpy(np.maximum.reduce([-limits.low, limits.high, limits.high - limits.low])).to(dtype)
        ulp = torch.nextafter(ulp, 2 * ulp) - ulp
        for sign, edge in ((1, tight.high), (-1, tight.low)):
            reached = make_layer(name).execute(torch.full_like(prev, sign * INF), limits.box(prev))
            assert ((edge - reached).abs() <= 2 * ulp).all()


# ---------------------------------------------------------------- densities


@pytest.mark.parametrize("name", LAYERS)
def test_log_det_is_autograds(name):
    """In normalised units of the squash; in action units of the whole map (before its clip, if it ends in one)."""
    layer, u, box = make_layer(name), latents(40), ANT.box(interior(40))
    u = u.clamp(-0.9, 0.9) if name == "truncnorm" else u

    def row_box(i):
        return ANT.box(box.prev[i])

    def slogdet(function, i):
        return torch.linalg.slogdet(torch.autograd.functional.jacobian(function, u[i]))[1]

    normalized = torch.stack([slogdet(lambda x: layer.squash(x)[0], i) for i in range(40)])
    action = torch.stack(
        [slogdet(lambda x, i=i: layer.placement.command(layer.squash(x)[0], row_box(i)), i) for i in range(40)]
    )
    assert torch.allclose(layer(u, box).log_det, normalized, rtol=0, atol=1e-10)
    for density in ("action", "action_scaled"):
        assert torch.allclose(make_layer(name, density)(u, box).log_det, action, rtol=0, atol=1e-10)
    if name not in CLIPPED:  # and the command is what is executed
        executed = torch.stack([slogdet(lambda x, i=i: layer(x, row_box(i)).executed, i) for i in range(40)])
        assert torch.allclose(executed, action, rtol=0, atol=1e-6)  # straight through a sub-ulp clip


@pytest.mark.parametrize("density", ["normalized", "action"])
@pytest.mark.parametrize("name", LAYERS)
def test_density_integrates_to_one(name, density):
    """d = 1, off-centre: the sum over cells of density at the middle times the width of the cell's image."""
    layer = make_layer(name, density)
    limits = RateLimits(up=0.2, down=0.3, low=-1.0, high=1.0)
    mean, std = 0.3, 0.7
    # An odd number of nodes, so that DD-SRad's kink at u = 0 falls between two cells.
    nodes = torch.linspace(-8, 8, 200_001, dtype=torch.float64).unsqueeze(-1)
    if name == "truncnorm":
        noise, prev = (nodes - mean) / std, torch.full_like(nodes, 0.1)
        drawn = layer.sample(torch.full_like(noise, mean), torch.full_like(noise, std), noise, limits.box(prev))[0]
        box = limits.box(prev)
        v = (drawn.executed - box.low) / (box.high - box.low) * 2 - 1
        image = drawn.executed if density == "action" else v
    else:
        box = limits.box(torch.full_like(nodes, 0.1))
        v = layer.squash(nodes)[0]
        image = layer.placement.command(v, box) if density == "action" else v
    middle = 0.5 * (nodes[1:] + nodes[:-1])
    box = limits.box(torch.full_like(middle, 0.1))
    full = torch.full_like(middle, 1.0)
    log_prob = layer.sample(mean * full, std * full, (middle - mean) / std, box)[1]
    mass = (log_prob.exp() * image.diff(dim=0).squeeze(-1)).sum()
    assert mass.item() == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize("density", DENSITIES)
@pytest.mark.parametrize("name", LAYERS)
def test_everything_is_finite_on_a_bound(name, density):
    """prev on a bound, where R+ = 0 and the paper's log R is -inf; values and gradients."""
    prev = torch.ones(64, 8) * torch.tensor([1.0, -1.0] * 4)
    mean, std = latents(64).float().requires_grad_(), torch.full((64, 8), 0.5, requires_grad=True)
    noise = latents(64, seed=2).float()
    action, log_prob = make_layer(name, density).sample(mean, std, noise, ANT.box(prev))
    for value in (*action, log_prob):
        assert value.isfinite().all()
    (action.judged.sum() + log_prob.sum() + action.penalty.sum()).backward()
    assert mean.grad.isfinite().all() and std.grad.isfinite().all()


def test_target_entropy_follows_the_units():
    assert make_layer("ddsrad").target_entropy(ANT) == -8
    assert make_layer("ddsrad", "action").target_entropy(ANT) == -8
    shift = 4 * math.log(0.2) + 4 * math.log(0.5)
    assert make_layer("ddsrad", "action_scaled").target_entropy(ANT) == pytest.approx(-8 + shift)
    assert make_layer("srad_ball", "action_scaled").target_entropy(ANT) == pytest.approx(-8 + 8 * math.log(0.2))
    assert make_layer("boxpro", "action_scaled").target_entropy(ANT) == pytest.approx(-8)  # the range is [-1, 1]
    batch = RateLimits(delta=np.array([[0.2, 0.5], [0.5, 0.2]]), low=-1, high=1)
    assert make_layer("ddsrad", "action_scaled").target_entropy(batch) == pytest.approx(-2 + math.log(0.1))


# ---------------------------------------------------------------- gradients


@pytest.mark.parametrize("name", LAYERS)
def test_gradients_are_those_of_finite_differences(name):
    layer = make_layer(name, "action")
    u = latents(6, scale=0.8).requires_grad_()
    prev = interior(6)

    def parts(x):
        action = layer(x, ANT.box(prev))
        return action.judged, action.log_det, action.penalty

    assert torch.autograd.gradcheck(parts, (u,), eps=1e-6, atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("name", LAYERS)
def test_the_pullback_is_autograds(name, dtype):
    """To the bit, on adversarial latents, in batches of any shape."""
    layer, (prev, u) = make_layer(name), (interior(60).to(dtype), latents(60).to(dtype))
    u[:4, 0] = torch.tensor([NAN, INF, -INF, 1e30], dtype=dtype)
    for shape in ((60, 8), (5, 12, 8)):
        box, leaf = ANT.box(prev.view(shape)), u.view(shape).clone().requires_grad_()
        to_judged, to_penalty = latents(60, seed=2).to(dtype).view(shape), latents(60, seed=3)[:, 0].to(dtype)
        to_penalty = to_penalty.view(shape[:-1])
        action = layer(leaf, box)
        loss = (action.judged * to_judged).sum() + (action.penalty * to_penalty).sum()
        (expected,) = torch.autograd.grad(loss, leaf)
        judged, penalty, vjp_fn = layer.vjp(leaf.detach(), box)
        assert torch.equal(judged, action.judged) and torch.equal(penalty, action.penalty)
        torch.testing.assert_close(vjp_fn(to_judged, to_penalty), expected, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("density", DENSITIES)
@pytest.mark.parametrize("name", LAYERS)
def test_the_pullback_of_a_draw_is_autograds(name, density):
    """To the bit, for the first rows of a batch, the others having no part in the loss."""
    layer, rows = make_layer(name, density), 40
    mean, noise, weights = (latents(60, seed=seed).float() for seed in (1, 2, 3))
    std, box = latents(60, seed=4).exp().float(), ANT.box(interior(60).float())
    leaves = [x.clone().requires_grad_() for x in (mean, std)]
    action, log_prob = layer.sample(*leaves, noise, box)
    parts = {action.judged: weights, log_prob: weights[:, 0], action.penalty: weights[:, 1]}
    grads = {part[:rows]: grad[:rows] for part, grad in parts.items() if part.requires_grad}
    expected = torch.autograd.grad(list(grads), leaves, list(grads.values()))
    draw = layer.sample_vjp(mean, std, noise, box)
    assert all(map(torch.equal, draw[:3], (action.judged, log_prob, action.penalty)))
    for got, want in zip(draw.vjp_fn(*(grad[:rows] for grad in parts.values())), expected, strict=True):
        assert torch.equal(got, want[:rows])


@pytest.mark.parametrize("name", ["ddsrad", "dtanh", "ddsrad_smooth", "interval_srad", "interval_tanh"])
def test_gradients_reach_prev(name):
    layer, u = make_layer(name), latents(6, scale=0.8)
    prev = torch.tensor([[0.3, 0.95, -0.95, -0.6] * 2] * 6, dtype=torch.float64).requires_grad_()
    assert torch.autograd.gradcheck(lambda p: layer(u, ANT.box(p, check=False)).executed, (prev,), atol=1e-6)


def test_truncated_normal_gradients():
    layer, box = make_layer("truncnorm"), ANT.box(interior(5))
    mean = latents(5, scale=0.7).requires_grad_()
    std = (0.3 + latents(5, seed=3).abs()).requires_grad_()
    noise = latents(5, seed=4, scale=0.8)

    def draw(m, s):
        action, log_prob = layer.sample(m, s, noise, box)
        return action.executed, log_prob

    assert torch.autograd.gradcheck(draw, (mean, std), atol=1e-6)


# ---------------------------------------------------------------- shapes, dtypes, transforms


@pytest.mark.parametrize("name", LAYERS)
def test_any_batch_shape_and_broadcasting(name):
    layer = make_layer(name)
    for shape in ((8,), (3, 8), (2, 3, 8)):
        prev, u = torch.zeros(shape), torch.randn(shape)
        action = layer(u, ANT.box(prev))
        assert action.executed.shape == action.judged.shape == shape
        assert action.log_det.shape == action.penalty.shape == shape[:-1]
    pairs = [((5, 3, 8), (3, 8)), ((8,), (5, 8)), ((5, 1, 8), (3, 8))]  # (5, 3): five draws for each of three states
    for latent_shape, prev_shape in pairs:
        for density in DENSITIES:
            u, prev = torch.randn(latent_shape), 0.2 * torch.randn(prev_shape)
            action = make_layer(name, density)(u, ANT.box(prev))
            full = torch.broadcast_shapes(latent_shape, prev_shape)
            assert action.executed.shape == action.judged.shape == full
            assert action.log_det.shape == action.penalty.shape == full[:-1]
            row = make_layer(name, density)(u.expand(full)[0], ANT.box(prev.expand(full)[0]))
            assert torch.allclose(action.log_det[0], row.log_det, atol=1e-5)
    for wrong in ((5, 1), (7,), ()):
        with pytest.raises(ValueError, match=r"latent has shape .* expected \(..., 8\)"):
            layer(torch.zeros(wrong), ANT.box(torch.zeros(5, 8)))
    assert layer(torch.zeros(0, 8), ANT.box(torch.zeros(0, 8))).executed.shape == (0, 8)


@pytest.mark.parametrize("name", LAYERS)
def test_rows_do_not_depend_on_their_batch(name):
    layer = make_layer(name)
    prev, u = interior(257).float(), latents(257).float()
    whole = layer(u, ANT.box(prev)).executed
    alone = torch.stack([layer(u[i], ANT.box(prev[i])).executed for i in range(257)])
    assert torch.equal(whole, alone)


@pytest.mark.parametrize("name", LAYERS)
def test_executed_keeps_prevs_dtype_whatever_the_latents(name):
    layer = make_layer(name)
    for prev_dtype in (torch.float32, torch.float64, torch.bfloat16, torch.float16):
        for latent_dtype in (torch.float32, torch.bfloat16, torch.float64):
            prev = torch.zeros(4, 8, dtype=prev_dtype)
            action = layer(torch.randn(4, 8).to(latent_dtype), ANT.box(prev))
            assert action.executed.dtype == prev_dtype
            assert action.log_det.dtype == torch.promote_types(prev_dtype, torch.float32)


@pytest.mark.parametrize("name", HARD)
def test_autocast_does_not_touch_the_map(name):
    layer, generator = make_layer(name), torch.Generator().manual_seed(0)
    prev = adversarial_prevs(2000, ANT, torch.float32, generator)
    weight = torch.randn(8, 8, generator=generator)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        u = 100 * torch.nn.functional.linear(prev, weight)
        assert u.dtype == torch.bfloat16
        action = layer(u, ANT.box(prev))
    assert action.executed.dtype == torch.float32
    assert not ANT.outside(action.executed.numpy(), prev.numpy()).any()


def _parts(name):
    layer = make_layer(name, "action")

    def function(u, prev):
        action = layer(u, ANT.box(prev, check=False))
        return action.executed, action.log_det, action.penalty

    return function


@pytest.mark.parametrize("name", LAYERS)
def test_vmap_and_jacrev(name):
    function, generator = _parts(name), torch.Generator().manual_seed(0)
    prev = adversarial_prevs(32, ANT, torch.float64, generator)
    u = latents(32)
    for eager, mapped in zip(function(u, prev), torch.func.vmap(function)(u, prev), strict=True):
        assert torch.allclose(eager, mapped, rtol=1e-12, atol=1e-12)
    jacobian = torch.func.vmap(torch.func.jacrev(lambda x, p: function(x, p)[0]))(u, prev)
    x = u.clone().requires_grad_()
    (eager_grad,) = torch.autograd.grad(function(x, prev)[0].sum(), x)
    assert torch.allclose(jacobian.sum(-2), eager_grad, rtol=1e-9, atol=1e-12)


# Raised inside torch by its own compiler.
COMPILES = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@COMPILES
@pytest.mark.parametrize("name", LAYERS)
def test_compiles_without_a_graph_break(name):
    function, generator = _parts(name), torch.Generator().manual_seed(0)
    prev = adversarial_prevs(64, ANT, torch.float32, generator)
    u = adversarial_latents((64, 8), torch.float32, generator)
    compiled = torch.compile(function, fullgraph=True, backend="aot_eager")
    for eager, traced in zip(function(u, prev), compiled(u, prev), strict=True):
        assert torch.allclose(eager, traced, rtol=1e-5, atol=1e-6)
    torch._dynamo.reset()


@COMPILES
def test_a_compiled_function_follows_its_limits():
    """Another limits object through the same compiled function must not execute the first one's limits."""
    layer = make_layer("ddsrad")
    compiled = torch.compile(lambda u, p, m: layer.execute(u, m.box(p, check=False)), backend="aot_eager")
    u, prev = torch.full((4, 2), 1e4), torch.zeros(4, 2)
    for delta in (0.5, 0.1, 0.3):
        limits = RateLimits([delta, delta], low=-1.0, high=1.0)
        assert compiled(u, prev, limits).max().item() == pytest.approx(delta, abs=1e-6)
    torch._dynamo.reset()


@pytest.mark.slow
@COMPILES
def test_sixteen_bits_under_the_compiler():
    """Inductor keeps 16-bit values in float32 between operations; guarded limits bear that, tight ones stay eager."""
    if shutil.which("g++") is None:
        pytest.skip("torch.compile's default backend needs g++, which this machine does not have")
    layer, generator = make_layer("boxpro"), torch.Generator().manual_seed(0)
    hot = 0.3 * torch.rand(20_000, 8, generator=generator) + 0.05
    for dtype in (torch.bfloat16, torch.float16):
        prev = adversarial_prevs(20_000, ANT, dtype, generator)
        u = adversarial_latents((20_000, 8), dtype, generator)
        compiled = torch.compile(lambda u, p, d: layer.execute(u, ANT.box(p, check=False, delta=d)))
        executed = compiled(u, prev, hot)
        derated = RateLimits(delta=np.minimum(hot.double().numpy(), ANT.delta), low=-1.0, high=1.0)
        assert not derated.outside(executed.double().numpy(), prev.double().numpy()).any()

        def tight(u, p, d):
            return layer.execute(u, ANT.box(p, check=False, delta=d, edges="tight"))

        for limits, delta in ((ANT, None), (derated, hot)):
            executed = torch.compile(tight)(u, prev, delta)  # its edges and rates are computed in eager mode
            assert not limits.outside(executed.double().numpy(), prev.double().numpy()).any()
    torch._dynamo.reset()


def check_inductor(name):
    if shutil.which("g++") is None:
        pytest.skip("torch.compile's default backend needs g++, which this machine does not have")
    function, generator = _parts(name), torch.Generator().manual_seed(0)
    compiled = torch.compile(function, fullgraph=True)
    for seed in range(4):
        generator.manual_seed(seed)
        prev = adversarial_prevs(20_000, ANT, torch.float32, generator)
        u = adversarial_latents((20_000, 8), torch.float32, generator)
        executed = compiled(u, prev)[0]
        if LAYERS[name].hard:
            assert not ANT.outside(executed.numpy(), prev.numpy()).any()
        assert torch.allclose(executed, function(u, prev)[0], atol=3e-7)
    torch._dynamo.reset()


@COMPILES
@pytest.mark.slow
@pytest.mark.parametrize("name", LAYERS)
def test_inductor_keeps_the_guarantee(name):
    check_inductor(name)


@pytest.mark.parametrize("name", LAYERS)
def test_no_host_synchronisation(name):
    """Fake tensors have no data: any read of a value on the host raises. So this also runs in a CUDA graph."""
    function = _parts(name)
    ANT.box(torch.zeros(1, 8))  # limits reach the device once, at warm-up
    hot = torch.full((4, 8), 0.1)
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        u, prev = mode.from_tensor(torch.randn(4, 8)), mode.from_tensor(torch.zeros(4, 8))
        executed, log_det, _ = function(u, prev)
        make_layer(name)(u, ANT.box(prev, check=False, delta=mode.from_tensor(hot)))
        make_layer(name).sample(u, u.exp(), u, ANT.box(prev, check=False))
    assert executed.shape == (4, 8) and log_det.shape == (4,)


# ---------------------------------------------------------------- adding a layer


def test_a_layer_from_a_dotted_path():
    layer = make_layer("toy_layer:Toy", density="action")
    assert isinstance(layer, ActionLayer)
    assert audit(executed_by(layer), ANT, torch.float32, 50_000).violations == 0
    u, box = latents(4), ANT.box(interior(4))
    row = ANT.box(box.prev[0])
    jacobian = torch.autograd.functional.jacobian(lambda x: layer(x, row).executed, u[0])
    assert layer(u, box).log_det[0].item() == pytest.approx(torch.linalg.slogdet(jacobian)[1].item(), abs=1e-8)


def test_a_layer_says_what_it_takes():
    layer = make_layer("interval_tanh")
    for wrong in ((torch.zeros(8), ANT), (torch.zeros(8), torch.zeros(8)), (np.zeros(8), ANT.box(torch.zeros(8)))):
        with pytest.raises(TypeError, match=r"a layer takes a latent tensor and limits.box\(prev\), got"):
            layer(*wrong)
    with pytest.raises(TypeError, match="a layer takes a latent tensor"):
        make_layer("ddsrad")(torch.zeros(8), ANT)
    with pytest.raises(ValueError, match=r"Unsummed.squash gives a log_det of shape \(2, 8\), expected \(2,\)"):
        make_layer("toy_layer:Unsummed")(torch.zeros(2, 8), ANT.box(torch.zeros(2, 8)))
    assert repr(LAYERS).startswith("layers: ddsrad, ")


def test_registering_a_name(monkeypatch):
    monkeypatch.setattr(LAYERS, "_entries", dict(LAYERS._entries))
    LAYERS.register("toy", "toy_layer:Toy")
    assert type(make_layer("toy")).__name__ == "Toy" and "toy" in LAYERS
    with pytest.raises(ValueError, match="layer 'ddsrad' is already"):
        LAYERS.register("ddsrad", "toy_layer:Toy")
    with pytest.raises(ValueError, match="not a path of the form"):
        LAYERS.register("other", "toy_layer")


def test_unknown_layers_and_options_say_what_exists():
    with pytest.raises(
        KeyError, match=r"unknown layer 'dd_srad'. Did you mean 'ddsrad'\? Known: ddsrad, ddsrad_smooth"
    ):
        make_layer("dd_srad")
    with pytest.raises(KeyError, match="cannot load 'toy_layer:Absent'"):
        make_layer("toy_layer:Absent")
    with pytest.raises(ValueError, match="density is 'nats', expected one of normalized, action_scaled, action"):
        make_layer("ddsrad", density="nats")
    with pytest.raises(ValueError, match="penalty_weight is -1"):
        make_layer("ddsrad", penalty_weight=-1)
    with pytest.raises(ValueError, match="radius is 'huge', expected one of half_range, min_delta"):
        make_layer("srad_qp", radius="huge")
