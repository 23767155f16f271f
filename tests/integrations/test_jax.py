"""The layers in JAX promise what those in torch do, by name, in the code that XLA makes of them."""

import subprocess
import sys

import numpy as np
import pytest
import torch

pytest.importorskip("jax", reason='JAX is not installed: pip install "slewrl[jax]"')

import jax
import jax.numpy as jnp
from jax import lax

from slewrl import RateLimits, make_layer
from slewrl.integrations import jax as limited
from slewrl.integrations.jax import audit
from slewrl.layers.audit import adversarial_latents, adversarial_prevs, random_limits

ANT = RateLimits.preset("Ant-v5", "tight")
FRANKA = RateLimits(
    [0.02 * 2.175] * 7, -2.8, 2.8, dt=0.02, acceleration=[15, 7.5, 10, 12.5, 15, 20, 20], units="rad"
)  # fmt: skip
NAMES = list(limited.LAYERS)
MAPS = [name for name in NAMES if name != "boxpro"]
"""The layers whose commands lie in F_t before the last clip."""
DENSITIES = ["normalized", "action_scaled", "action"]
MODULE = sys.modules["slewrl.integrations.jax.box"]
NAN, INF = float("nan"), float("inf")


@pytest.fixture(autouse=True)
def _with_float64():
    with jax.enable_x64(True):
        yield


def anywhere(rows, dtype=torch.float64, seed=0, limits=ANT):
    return adversarial_prevs(rows, limits, dtype, torch.Generator().manual_seed(seed))


def latents(rows, seed=1, scale=1.5):
    generator = torch.Generator().manual_seed(seed)
    return scale * torch.randn(rows, 8, generator=generator, dtype=torch.float64)


def array(tensor, dtype="float64"):
    return jnp.asarray(tensor.detach().double().numpy()).astype(dtype)


def wide(x):
    return np.asarray(x, np.float64)


def compiled(name, density="normalized", limits=ANT):
    return jax.jit(lambda u, p: limited.LAYERS[name](u, limited.box(limits, p), density))


# ---------------------------------------------------------------------- the torch layers, by name


@pytest.mark.parametrize("dtype", audit.TORCH)
def test_edges_are_those_in_torch_to_the_bit(dtype):
    for limits in (ANT, *([random_limits()] if dtype != "bfloat16" else [])):
        prev = anywhere(500, audit.TORCH[dtype], limits=limits)
        beyond = torch.cat([prev, prev + torch.sign(prev) * float(limits.high.max() - limits.low.min())])
        box, expected = jax.jit(lambda p, m: limited.box(m, p))(array(beyond, dtype), limits), limits.box(beyond, False)
        for one, other in zip((box.low, box.high), (expected.low, expected.high), strict=True):
            np.testing.assert_array_equal(wide(one), other.double().numpy())


@pytest.mark.parametrize("name", NAMES)
def test_values_are_within_two_ulps_of_the_range(name):
    prev, u = anywhere(2000), adversarial_latents((2000, 8), torch.float64, torch.Generator().manual_seed(2))
    ours, theirs = compiled(name)(array(u), array(prev)), make_layer(name)(u, ANT.box(prev))
    for one, other in ((ours.executed, theirs.executed), (ours.judged, theirs.judged)):
        assert np.abs(wide(one) - other.numpy()).max() <= 2 * np.spacing(2.0)
    np.testing.assert_allclose(wide(ours.log_det), theirs.log_det.numpy(), rtol=1e-13)
    np.testing.assert_allclose(wide(ours.penalty), theirs.penalty.numpy(), rtol=1e-13)


@pytest.mark.parametrize("density", DENSITIES)
@pytest.mark.parametrize("name", NAMES)
def test_log_det(name, density):
    prev, u = anywhere(500), latents(500)
    ours, theirs = compiled(name, density)(array(u), array(prev)), make_layer(name, density)(u, ANT.box(prev))
    assert np.abs(wide(ours.log_det) - theirs.log_det.numpy()).max() < 1e-10


@pytest.mark.parametrize("name", NAMES)
def test_gradients(name):
    """With respect to the latent and, off the bounds, to prev; of all that is returned."""
    u = latents(200).requires_grad_()
    prev = (
        1.8 * torch.rand(200, 8, generator=torch.Generator().manual_seed(3), dtype=torch.float64) - 0.9
    ).requires_grad_()
    weights = latents(200, seed=4)
    action = make_layer(name, "action")(u, ANT.box(prev))
    loss = (action.judged * weights).sum() + (action.log_det * weights[:, 0]).sum() + action.penalty.sum()
    expected = torch.autograd.grad(loss, (u, prev))

    def ours(latent, last):
        made = limited.LAYERS[name](latent, limited.box(ANT, last), "action")
        w = array(weights)
        return (made.judged * w).sum() + (made.log_det * w[:, 0]).sum() + made.penalty.sum()

    for one, other in zip(jax.jit(jax.grad(ours, (0, 1)))(array(u), array(prev)), expected, strict=True):
        np.testing.assert_allclose(wide(one), other.numpy(), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", MAPS)
def test_slopes_survive_saturation_in_float32(name):
    """u / sqrt(1 + u^2) by automatic differentiation would have lost them at 4000."""
    u = jnp.asarray([[300.0, 3e3, 3e4, 3e8] * 2], jnp.float32)
    prev = jnp.zeros((1, 8), jnp.float32)
    slope = jax.jit(jax.grad(lambda x: limited.LAYERS[name](x, limited.box(ANT, prev)).executed.sum()))(u)
    if "tanh" not in name:
        np.testing.assert_allclose(wide(slope)[0], ANT.delta * (1 + wide(u)[0] ** 2) ** -1.5, rtol=2e-6)
    assert np.isfinite(slope).all()


@pytest.mark.parametrize("density", ["normalized", "action"])
@pytest.mark.parametrize("name", NAMES)
def test_sampling(name, density):
    prev, mean, noise = anywhere(100), latents(100), latents(100, seed=5, scale=1.0)
    std = latents(100, seed=6).exp()
    theirs, expected = make_layer(name, density).sample(mean, std, noise, ANT.box(prev))
    draw = jax.jit(lambda *x: limited.sample(name, *x[:3], limited.box(ANT, x[3]), density))
    given = [array(x) for x in (mean, std, noise, prev)]
    ours, log_prob = draw(*given)
    np.testing.assert_allclose(wide(ours.executed), theirs.executed.numpy(), atol=1e-15)
    np.testing.assert_allclose(wide(log_prob), expected.numpy(), rtol=1e-12, atol=1e-10)
    _, same = limited.sample(limited.make_layer(name, density), *given[:3], limited.box(ANT, given[3]))
    np.testing.assert_allclose(wide(same), expected.numpy(), rtol=1e-12, atol=1e-10)


# ---------------------------------------------------------------------- the guarantee, on compiled code


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])  # and float64 among the slow ones
@pytest.mark.parametrize("name", NAMES)
def test_zero_violations(name, dtype):
    tally = audit.audit_compiled("calls", name, ANT, dtype, 30_000, seed=len(name))
    assert tally.violations == 0 and tally.cases >= 30_000
    if dtype != "bfloat16":  # which does not resolve these
        assert audit.audit_compiled("calls", name, random_limits(), dtype, 30_000).violations == 0


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("program", [name for name in audit.PROGRAMS if name != "calls"])
def test_zero_violations_in_programs_around_it(program, dtype):
    name = "ddsrad" if dtype == "float32" else "boxpro"
    tally = audit.audit_compiled(program, name, ANT, dtype, 10_000)
    assert tally.violations == 0 and tally.cases > 4_000


@pytest.mark.parametrize(
    ("program", "dtype", "delta", "guard"),
    [("sum", "float32", 0.1, "clamp"), ("product", "bfloat16", 0.0195, "settled")],
)
def test_these_programs_break_a_box_that_trusts_the_compiler(program, dtype, delta, guard, monkeypatch):
    """So the audit can fail, and what ``settled`` does is needed."""
    limits = RateLimits([delta] * 8, -1, 1)
    assert audit.audit_compiled(program, "boxpro", limits, dtype, 30_000).violations == 0
    plain = {"clamp": lambda x, low, high: x, "settled": MODULE.widened}
    monkeypatch.setattr(MODULE, guard, plain[guard])
    assert audit.audit_compiled(program, "boxpro", limits, dtype, 30_000).violations > 100


@pytest.mark.slow
@pytest.mark.parametrize("dtype", audit.TORCH)
@pytest.mark.parametrize("program", audit.PROGRAMS)
@pytest.mark.parametrize("name", NAMES)
def test_zero_violations_in_a_million(name, program, dtype):
    assert audit.audit_compiled(program, name, ANT, dtype, 1_000_000).violations == 0


@pytest.mark.parametrize("name", NAMES)
def test_nan_holds_and_infinity_saturates(name):
    prev = jnp.asarray([[0.3, -1.0, 1.0, 0.999] * 2], jnp.float32)
    box = limited.box(ANT, prev)
    held = compiled(name)(jnp.full((1, 8), NAN), prev)
    np.testing.assert_array_equal(held.executed, prev)
    assert all(np.isfinite(part).all() for part in held)
    for sign, edge in ((1, box.high), (-1, box.low)):
        far = compiled(name)(jnp.full((1, 8), sign * INF), prev)
        np.testing.assert_allclose(far.executed, edge, atol=1e-6)
        assert np.isfinite(far.log_det).all() and np.isfinite(far.penalty).all()


@pytest.mark.parametrize("density", ["normalized", "action"])
@pytest.mark.parametrize("name", NAMES)
def test_everything_is_finite_on_a_bound(name, density):
    prev, mean, noise = jnp.ones((8, 8), jnp.float32), array(latents(8), "float32"), array(latents(8, 2), "float32")

    def loss(m, s):
        action, log_prob = limited.sample(name, m, s, noise, limited.box(ANT, prev), density)
        return action.judged.sum() + log_prob.sum() + action.penalty.sum()

    value, grads = jax.jit(jax.value_and_grad(loss, (0, 1)))(mean, jnp.full((8, 8), 0.5, jnp.float32))
    assert np.isfinite(value) and all(np.isfinite(x).all() for x in grads)


# ---------------------------------------------------------------------- JAX's own habits


@pytest.mark.parametrize("dtype", audit.TORCH)
@pytest.mark.parametrize("name", NAMES)
def test_dtypes_and_shapes(name, dtype):
    for latent, prev in (((8,), (8,)), ((5, 3, 8), (3, 8)), ((8,), (5, 8)), ((0, 8), (0, 8))):
        given = jax.ShapeDtypeStruct(latent, jnp.bfloat16), jax.ShapeDtypeStruct(prev, dtype)
        action = jax.eval_shape(compiled(name, "action"), *given)
        full = np.broadcast_shapes(latent, prev)
        assert action.executed.shape == action.judged.shape == full and action.executed.dtype == dtype
        assert action.log_det.shape == action.penalty.shape == full[:-1]
        assert action.log_det.dtype == jnp.promote_types(dtype, jnp.float32)


def test_limits_are_a_pytree_that_no_cast_widens():
    state = {"limits": ANT, "weights": jnp.ones(3)}
    low = jax.tree.map(lambda x: x.astype(jnp.bfloat16), state)
    assert low["limits"] is ANT and jax.tree.leaves(ANT) == []
    reach = jax.jit(lambda m, p: limited.box(m, p).high)
    for delta in (0.5, 0.1, 0.3):  # the same function under other limits
        assert reach(RateLimits([delta] * 2, -1, 1), jnp.zeros(2)).max() == pytest.approx(delta, abs=1e-6)
    carried, _ = lax.scan(lambda m, _: (m, None), ANT, None, length=3)
    assert carried == ANT


def test_a_batch_of_limits_spreads_one_prev():
    batch = RateLimits(delta=np.array([[0.2, 0.5], [0.5, 0.1]]), low=-1, high=1)
    action = compiled("ddsrad", limits=batch)(jnp.full(2, INF), jnp.zeros(2))
    np.testing.assert_allclose(action.executed, batch.delta, atol=1e-12)
    alike = RateLimits(delta=np.full((3, 2), 0.2), low=-1, high=1)
    assert jax.eval_shape(compiled("ddsrad", limits=alike), jnp.zeros(2), jnp.zeros(2)).executed.shape == (3, 2)


@pytest.mark.parametrize("name", ["ddsrad", "boxpro"])
def test_forward_and_second_derivatives(name):
    def loss(u):
        return limited.LAYERS[name](u, limited.box(ANT, jnp.zeros(8))).log_det

    u = array(latents(1)[0])
    reverse, forward, second = jax.jit(lambda x: (jax.grad(loss)(x), jax.jacfwd(loss)(x), jax.hessian(loss)(x)))(u)
    np.testing.assert_allclose(reverse, forward, rtol=1e-12)
    assert np.isfinite(second).all() and np.diagonal(second).all()


@pytest.mark.parametrize("dtype", audit.TORCH)
def test_warm_up_is_uniform_in_the_box(dtype):
    prev = array(anywhere(4000, audit.TORCH[dtype]), dtype)
    box = limited.box(ANT, prev)
    drawn = jax.jit(limited.random)(jax.random.PRNGKey(0), box)
    assert drawn.dtype == dtype and not ANT.outside(wide(drawn), wide(prev)).any()
    share = (wide(drawn) - wide(box.low)) / (wide(box.high) - wide(box.low))
    assert share.mean() == pytest.approx(0.5, abs=0.02) and share.std() == pytest.approx(12**-0.5, abs=0.02)


def test_without_float64():
    """As JAX is by default: the same numbers in float32."""
    code = (
        "import jax.numpy as jnp, numpy as np; from slewrl import RateLimits;"
        "from slewrl.integrations import jax as limited; limits = RateLimits('0.2', -1, 1, names=['a', 'b']);"
        "prev = np.float32([0.3, 0.95]); action = limited.ddsrad(jnp.full(2, 1e30), limited.box(limits, prev));"
        "assert action.executed.dtype == 'float32' and not limits.outside(np.asarray(action.executed), prev).any();"
        "print(np.asarray(action.executed).round(6).tolist())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "[0.5, 1.0]", done.stderr


# ---------------------------------------------------------------------- acceleration limits


@pytest.mark.parametrize("name", NAMES)
def test_acceleration_limits(name):
    tally = audit.audit_compiled("scan", name, FRANKA, "float32", 20_000)
    assert tally.violations == 0 and tally.cases >= 20_000


@pytest.mark.parametrize("name", NAMES)
def test_acceleration_is_that_in_torch(name):
    """Along a chain of torch's: a rounding of the grid apart at most, with its gradients."""
    rng, step = (
        torch.Generator().manual_seed(0),
        jax.jit(lambda u, p, v: limited.LAYERS[name](u, limited.box(FRANKA, p, velocity=v), "action")),
    )
    prev = FRANKA.clamp(torch.zeros(16, 7, dtype=torch.float64))
    velocity = torch.zeros_like(prev)
    for _ in range(40):
        u = 2 + 2 * torch.randn(16, 7, generator=rng, dtype=torch.float64)
        theirs = make_layer(name, "action")(u, FRANKA.box(prev, velocity=velocity))
        ours = step(*(array(x) for x in (u, prev, velocity)))
        assert (np.abs(wide(ours.executed) - theirs.executed.numpy()) <= FRANKA.grid.unit).all()
        np.testing.assert_allclose(wide(ours.log_det), theirs.log_det.numpy(), atol=1e-10)
        velocity, prev = theirs.executed - prev, theirs.executed
    leaf = u.requires_grad_()
    (expected,) = torch.autograd.grad(make_layer(name)(leaf, FRANKA.box(prev, velocity=velocity)).judged.sum(), leaf)
    box = limited.box(FRANKA, array(prev), velocity=array(velocity))
    grad = jax.jit(jax.grad(lambda x: limited.LAYERS[name](x, box).judged.sum()))
    np.testing.assert_allclose(grad(array(u)), expected.numpy(), rtol=1e-6, atol=1e-9)


# ---------------------------------------------------------------------- what is refused


def test_what_is_refused():
    for prev, said in (
        (jnp.zeros(7), r"prev has shape \(7,\), expected \(..., 8\)"),
        (jnp.zeros(8, int), "prev has dtype int64, expected one of float32, float64, bfloat16"),
        (jnp.zeros(8, jnp.float16), "prev has dtype float16, expected one of"),
        (jnp.full(8, NAN), "prev of .* is nan"),
        (jnp.full(8, 1.5), "prev of .* is 1.5 .*expected a number in"),
    ):
        with pytest.raises(ValueError, match=said):
            limited.box(ANT, prev)
    with pytest.raises(ValueError, match=r"the range \[0.0, 1e-35\] reaches to 1e-35, expected at least 2\^-101"):
        limited.box(RateLimits([1e-36], [0.0], [1e-35]), jnp.zeros(1, jnp.float32))
    with pytest.raises(ValueError, match="velocity is given, but these limits have no acceleration"):
        limited.box(ANT, jnp.zeros(8), velocity=jnp.zeros(8), check=False)
    rest = jnp.zeros(7)
    with pytest.raises(ValueError, match="pass velocity, the last increment"):
        limited.box(FRANKA, rest, check=False)
    with pytest.raises(ValueError, match=r"velocity has shape \(3,\)"):
        limited.box(FRANKA, rest, velocity=jnp.zeros(3), check=False)
    with pytest.raises(ValueError, match="expected float32 or float64 with an acceleration limit"):
        limited.box(FRANKA, rest.astype(jnp.bfloat16), velocity=rest, check=False)
    with jax.enable_x64(False), pytest.raises(ValueError, match="jax_enable_x64"):
        limited.box(FRANKA, jnp.zeros(7), velocity=jnp.zeros(7), check=False)
    with pytest.raises(TypeError, match="limits are 'tight', expected RateLimits, such as"):
        limited.box("tight", jnp.zeros(8))
    box = limited.box(ANT, jnp.zeros(8))
    with pytest.raises(ValueError, match=r"latent has shape \(7,\), expected \(..., 8\)"):
        limited.ddsrad(jnp.zeros(7), box)
    with pytest.raises(ValueError, match="density is 'nats', expected one of normalized"):
        limited.make_layer("ddsrad", "nats")
    with pytest.raises(KeyError, match="layer 'srad_qp' is not written for JAX; those that are: ddsrad"):
        limited.make_layer("srad_qp")
    with pytest.raises(TypeError, match=r"slewrl.integrations.jax.box\(limits, prev\), got FeasibleBox"):
        limited.ddsrad(jnp.zeros(8), ANT.box(torch.zeros(8)))
