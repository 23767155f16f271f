"""The hand-written passes against autograd: the values, and the gradients of every parameter and input."""

import pytest
import torch

from slewrl.nets import Adam, Ensemble


def reference(net: Ensemble, flat: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """The same ensemble through autograd."""
    weights, biases = net._views(flat)
    hidden = x.expand(net.members, -1, -1)
    for i, (weight, bias) in enumerate(zip(weights, biases, strict=True)):
        hidden = hidden @ weight + bias
        hidden = hidden.relu() if i < len(weights) - 1 else hidden
    return hidden


@pytest.mark.parametrize("members", [1, 2, 3])
@pytest.mark.parametrize("sizes", [(5, 7, 3), (29, 64, 64, 1), (4, 2)])
def test_forward_and_backward_are_autograds(members, sizes):
    generator = torch.Generator().manual_seed(0)
    net = Ensemble(members, sizes, generator)
    for batch in (1, 33):
        x = torch.randn(batch, sizes[0], generator=generator)
        grad = torch.randn(members, batch, sizes[-1], generator=generator)
        flat, leaf = net.flat.clone().requires_grad_(), x.clone().requires_grad_()
        expected = reference(net, flat, leaf)
        to_flat, to_x = torch.autograd.grad(expected, (flat, leaf), grad)
        assert torch.allclose(net.forward(x), expected, rtol=1e-6, atol=1e-6)
        to_inputs = net.backward(grad, inputs=sizes[0])
        assert torch.allclose(net.grad, to_flat, rtol=1e-6, atol=1e-6)
        assert torch.allclose(to_inputs.sum(0), to_x, rtol=1e-6, atol=1e-6)


def test_backward_can_leave_the_parameters_alone():
    net = Ensemble(2, (3, 8, 1), torch.Generator().manual_seed(0))
    net.forward(torch.randn(4, 3))
    net.backward(torch.randn(2, 4, 1))
    before = net.grad.clone()
    net.forward(torch.randn(4, 3))
    assert net.backward(torch.randn(2, 4, 1), parameters=False, inputs=2).shape == (2, 4, 2)
    assert torch.equal(net.grad, before)


def test_backward_of_the_first_rows_is_that_of_a_smaller_batch():
    generator = torch.Generator().manual_seed(0)
    net = Ensemble(1, (5, 8, 3), generator)
    x, grad = torch.randn(10, 5, generator=generator), torch.randn(1, 4, 3, generator=generator)
    net.forward(x[:4])
    to_inputs = net.backward(grad, inputs=5)
    expected = net.grad.clone()
    net.forward(x)
    assert torch.allclose(net.backward(grad, batch=10, inputs=5), to_inputs, atol=1e-6)
    assert torch.allclose(net.grad, expected, atol=1e-6)


def test_a_target_and_a_member_are_views_of_the_right_things():
    net = Ensemble(2, (3, 8, 1), torch.Generator().manual_seed(0))
    target, second, x = net.target(), net.member(1), torch.randn(4, 3)
    assert torch.equal(target.forward(x), net.forward(x))
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
