"""Critics of residual blocks with layer norm (SimBa; Lee et al. 2024), by autograd: a pilot, with an Ensemble's interface."""

import torch
from torch import Tensor, nn

from slewrl.copying import Copied


class _Critic(nn.Module):
    """A linear embedding, blocks x + W2 relu(W1 norm(x)) four times as wide inside, a last norm, one output."""

    def __init__(self, inputs: int, width: int, blocks: int) -> None:
        super().__init__()
        self.embed = nn.Linear(inputs, width)
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.ReLU(), nn.Linear(4 * width, width))
            for _ in range(blocks)
        )
        self.out = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 1))

    def forward(self, x: Tensor) -> Tensor:
        """Q (B, 1)."""
        x = self.embed(x)
        for block in self.blocks:
            x = x + block(x)
        return self.out(x)


class SimbaCritics(Copied):
    """Two of them, whose parameters lie in one flat vector."""

    def __init__(self, inputs: int, width: int, blocks: int, generator: torch.Generator) -> None:
        with torch.random.fork_rng():
            torch.manual_seed(int(torch.randint(2**31, (1,), generator=generator)))
            self.nets = [_Critic(inputs, width, blocks) for _ in range(2)]
        parameters = [p for net in self.nets for p in net.parameters()]
        self.flat = torch.cat([p.detach().flatten() for p in parameters])
        self.grad = torch.zeros_like(self.flat)
        self._bind()

    def _bind(self) -> None:
        start = 0
        for net in self.nets:
            for p in net.parameters():
                end = start + p.numel()
                p.data = self.flat[start:end].view_as(p)
                p.grad = self.grad[start:end].view_as(p)
                start = end

    def target(self) -> "SimbaCritics":
        """A copy to update by ``flat.lerp_``."""
        import copy

        twin = copy.deepcopy(self)
        twin.flat, twin.grad = self.flat.clone(), torch.zeros_like(self.flat)
        twin._bind()
        return twin

    def forward(self, x: Tensor, keep: bool = True) -> Tensor:
        """Q (2, B, 1)."""
        with torch.no_grad():
            return torch.stack([net(x) for net in self.nets])

    def fit(self, x: Tensor, target: Tensor) -> Tensor:
        """Write the gradient of the squared error; returns the errors (2, B, 1)."""
        self.grad.zero_()
        with torch.enable_grad():
            errors = torch.stack([net(x) for net in self.nets]) - target.unsqueeze(-1)
            errors.square().mean(1).sum().backward()
        return errors.detach()

    def min_q_and_grad(self, x: Tensor, inputs: int) -> tuple[Tensor, Tensor]:
        """The smaller Q (B,) and its gradient by the last ``inputs`` columns."""
        with torch.enable_grad():
            seen = x.detach().requires_grad_()
            q = torch.stack([net(seen) for net in self.nets])[..., 0].min(0).values
            (grad,) = torch.autograd.grad(q.sum(), seen)
        return q.detach(), grad[:, -inputs:]
