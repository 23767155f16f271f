"""The hand-written passes against autograd: the values, and the gradients of every parameter."""

import pytest
import torch
from torch.nn.functional import layer_norm

from slewrl.agents import nets
from slewrl.agents.nets import UNITS, Adam, Ensemble, product

PLAIN = {"relu": torch.relu, "tanh": torch.tanh, "norm_relu": lambda x: layer_norm(x, x.shape[-1:]).relu()}


def reference(net: Ensemble, flat: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """The same ensemble through autograd."""
    weights, biases = net.views(flat)
    hidden = x.expand(net.members, -1, -1)
    for i, (weight, bias) in enumerate(zip(weights, biases, strict=True)):
        hidden = hidden @ weight + bias.unsqueeze(1)
        hidden = PLAIN[net.activation](hidden) if i < len(weights) - 1 else hidden
    return hidden


@pytest.mark.parametrize("units", UNITS)
@pytest.mark.parametrize("members", [1, 2, 3])
@pytest.mark.parametrize("sizes", [(5, 7, 3), (29, 64, 64, 1), (4, 6, 5, 8, 2)])
def test_forward_and_backward_are_autograds(members, sizes, units):
    generator = torch.Generator().manual_seed(0)
    net = Ensemble(members, sizes, generator, units)
    for batch in (1, 33):
        x = torch.randn(batch, sizes[0], generator=generator)
        grad = torch.randn(members, batch, sizes[-1], generator=generator)
        flat = net.flat.clone().requires_grad_()
        expected = reference(net, flat, x)
        (to_flat,) = torch.autograd.grad(expected, flat, grad)
        assert torch.allclose(net.forward(x), expected, rtol=1e-6, atol=1e-6)
        net.backward(x, grad)
        assert torch.allclose(net.grad, to_flat, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("units", UNITS)
@pytest.mark.parametrize("members", [1, 2, 3])
@pytest.mark.parametrize("hidden", [(8,), (8, 16, 8)])
def test_least_is_the_minimum_and_its_gradient(members, hidden, units):
    generator = torch.Generator().manual_seed(0)
    net = Ensemble(members, (5, *hidden, 1), generator, units)
    x = torch.randn(40, 5, generator=generator, requires_grad=True)
    expected = reference(net, net.flat, x)[..., 0].amin(0)
    (to_x,) = torch.autograd.grad(expected.sum(), x)
    value, grad = net.min_q_and_grad(x.detach(), 2)
    assert torch.allclose(value, expected, atol=1e-6)
    assert torch.allclose(grad, to_x[:, -2:], atol=1e-6)


def test_backward_of_the_first_rows_is_that_of_a_smaller_batch():
    generator = torch.Generator().manual_seed(0)
    net = Ensemble(1, (5, 8, 3), generator)
    x, grad = torch.randn(10, 5, generator=generator), torch.randn(1, 4, 3, generator=generator)
    net.forward(x[:4])
    net.backward(x[:4], grad)
    expected = net.grad.clone()
    net.forward(x)
    net.backward(x, grad)
    assert torch.allclose(net.grad, expected, atol=1e-6)


@pytest.mark.parametrize("shape", [(3, 5, 4), (256, 23, 256), (512, 256, 12), (256, 256, 1), (64, 256, 256)])
def test_a_product_is_the_same_by_either_library(shape, monkeypatch):
    """Large ones go to oneDNN and small ones to MKL; views that are transposed or cut out of a wider table as well."""
    m, k, n = shape
    generator = torch.Generator().manual_seed(0)
    wide = torch.randn(m, k + 7, generator=generator)
    a, b, bias = wide[:, :k], torch.randn(k, n, generator=generator), torch.randn(n, generator=generator)
    for left, right in ((a, b), (a.t().contiguous().t(), b.t().contiguous().t())):
        for extra in (None, bias):
            exact = left.double() @ right.double() + (0 if extra is None else extra.double())
            for library in (nets.ONEDNN, None):
                monkeypatch.setattr(nets, "ONEDNN", library)
                assert torch.allclose(product(left, right, torch.empty(m, n), extra).double(), exact, atol=1e-4)
            monkeypatch.undo()


def test_fit_is_the_gradient_of_the_squared_error():
    generator = torch.Generator().manual_seed(0)
    net = Ensemble(2, (5, 8, 8, 1), generator)
    x, y = torch.randn(10, 5, generator=generator), torch.randn(10, generator=generator)
    flat = net.flat.clone().requires_grad_()
    errors = reference(net, flat, x)[..., 0] - y
    (expected,) = torch.autograd.grad(errors.square().mean(-1).sum(), flat)
    assert torch.allclose(net.fit(x, y)[..., 0], errors, atol=1e-6)
    assert torch.allclose(net.grad, expected, atol=1e-6)


def test_a_target_and_a_member_are_views_of_the_right_things():
    net = Ensemble(2, (3, 8, 1), torch.Generator().manual_seed(0))
    target, second, x = net.target(), net.member(1), torch.randn(4, 3)
    assert torch.equal(target.forward(x, keep=False).clone(), net.forward(x))
    net.flat.mul_(2)
    both = net.forward(x).clone()
    assert torch.allclose(second.forward(x), both[1:], atol=1e-6)
    assert not torch.allclose(target.forward(x), both)


def test_initial_weights_are_those_of_linear_layers():
    net = Ensemble(2, (100, 50, 1), torch.Generator().manual_seed(0))
    for weight, bias in zip(net.weights, net.biases, strict=True):
        bound = weight.shape[1] ** -0.5
        assert weight.abs().max() <= bound and weight.abs().max() > 0.95 * bound
        assert bias.abs().max() <= bound
    same = Ensemble(2, (100, 50, 1), torch.Generator().manual_seed(0))
    assert torch.equal(net.flat, same.flat)


def test_adam_is_torchs_with_a_clipped_gradient():
    net = Ensemble(1, (3, 4, 2), torch.Generator().manual_seed(0))
    twin = net.flat.clone().requires_grad_()
    step, expected = Adam(net.flat, net.grad, 1e-2, max_norm=0.5), torch.optim.Adam([twin], lr=1e-2)
    generator = torch.Generator().manual_seed(1)
    for _ in range(5):
        grad = torch.randn(net.flat.shape, generator=generator)
        net.grad.copy_(grad)
        step.step()
        twin.grad = grad * min(1.0, 0.5 / grad.norm().item())
        expected.step()
    assert torch.allclose(net.flat, twin, rtol=1e-5, atol=1e-6)
    assert torch.equal(net.weights[0].flatten(), net.flat[:12])  # the views moved along


def test_moments_of_dead_units_do_not_linger_as_subnormals():
    """.9 x rounds back to x at the bottom of the subnormals, where arithmetic is slow: they must be swept away."""
    flat, grad = torch.ones(4), torch.tensor([1e-3, 0.0, 0.0, 1e-3])
    step, twin = Adam(flat, grad, 1e-3), torch.ones(4, requires_grad=True)
    expected = torch.optim.Adam([twin], lr=1e-3)
    step.mean[1] = step.square[2] = 1e-38
    for _ in range(2000):
        step.step()
        twin.grad = grad.clone()
        expected.step()
    assert step.mean[1] == 0 and step.square[2] == 0
    assert torch.allclose(flat, twin, rtol=1e-5)
