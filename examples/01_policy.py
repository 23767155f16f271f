"""A policy that cannot exceed its rate limits: a network, a layer, a thousand steps, an exact check.

python examples/01_policy.py
"""

import torch

from slewrl import Action, RateLimits, make_layer

limits = RateLimits(delta={"hip": 0.2, "knee": 0.3, "ankle": 0.5}, low=-1.0, high=1.0)
layer = make_layer("ddsrad")
# The previous action is part of the observation: the limit makes the problem depend on it.
network = torch.nn.Sequential(torch.nn.Linear(4 + 3, 64), torch.nn.ReLU(), torch.nn.Linear(64, 2 * 3))


def act(observation: torch.Tensor, prev: torch.Tensor) -> tuple[Action, torch.Tensor]:
    """An action and its log-probability, as SAC needs them."""
    mean, log_std = network(torch.cat([observation, prev], -1)).chunk(2, -1)
    return layer.sample(mean, log_std.exp(), torch.randn_like(mean), limits.box(prev, check=False))


torch.manual_seed(0)
prev = torch.zeros(16, 3)  # sixteen robots, at rest
broken = 0
with torch.no_grad():
    for _ in range(1000):
        executed = act(10 * torch.randn(16, 4), prev)[0].executed
        broken += int(limits.outside(executed.numpy(), prev.numpy()).sum())
        prev = executed  # exactly what the environment got

# One actor loss on a made-up critic: entropy term, value of what the critic judges, the layer's own penalty.
action, log_prob = act(torch.randn(16, 4), prev)
value = -((action.judged - 0.5) ** 2).sum(-1)
loss = (0.1 * log_prob - value + layer.penalty_weight * action.penalty).mean()
loss.backward()
print(f"{1000 * 16 * 3:,} joint actions, {broken} beyond a limit; loss {loss.item():.3f}, gradients finite:", end=" ")
print(all(p.grad.isfinite().all() for p in network.parameters()))
