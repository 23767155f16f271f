"""Acceptance and rejection with an augmented MDP (ARAM; Hung, Sun and Hsieh, ICLR 2025), for comparison.

The policy is an ordinary tanh-Gaussian over the whole action range. To act, it is drawn from until a draw lies in F_t,
at most ``tries`` times, and after that the last draw is projected. A draw that was rejected becomes a transition of
its own, (s, draw, -rejection_penalty, s): a loop at a penalty, which the critic passes on to the policy.
Where this differs from the authors' program: docs/deviations.md.
"""

import math
import zlib
from collections import Counter
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from slewrl.errors import UserFacingError
from slewrl.layers.base import Decision, finite_latent, widen
from slewrl.layers.hook import AddRow, CountingHook
from slewrl.layers.projection import Post
from slewrl.limits.box import FeasibleBox


class SelfLoops(CountingHook):
    """Adds a rejected draw as a transition from a state to itself, at a penalty, before the step's own."""

    extra_rows = 1
    ours_alone = "stores what it rejects, as slewrl's own SAC alone does: take another, as 'post'"

    def check(self, layer: str, agent: str) -> None:
        """Refuse all but SAC."""
        if agent != "sac":
            raise ValueError(
                f"layer {layer} puts what it rejects into a replay of single steps, by a policy that draws; "
                f"{agent} has other ones: --agent sac"
            )

    def chosen(self, observations: NDArray[np.float32], add: AddRow) -> None:
        """Add the loops of the last action."""
        for k, action in self.layer.take_rejected():
            seen = observations[k]
            add(k, seen, action.numpy(), -self.layer.rejection_penalty, seen, False, False)


@dataclass(frozen=True)
class ARAM(Post):
    """See the module. In an update the critic judges draws as they come, feasible or not.

    Args:
        tries: draws per action before the last is projected.
        augmented_share: share of loops in the replay, and so in a batch, at most; in [0, .5].
        rejection_penalty: what a loop costs, in units of reward.
    """

    tries: int = 100
    augmented_share: float = 0.2
    rejection_penalty: float = 1.0
    hook = SelfLoops
    _counts: Counter[str] = field(default_factory=Counter, init=False, repr=False, compare=False)
    _rejected: list[tuple[int, Tensor]] = field(default_factory=list, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Refuse what it cannot do."""
        super().__post_init__()
        if isinstance(self.tries, bool) or not isinstance(self.tries, int) or self.tries < 1:
            raise ValueError(f"tries is {self.tries!r}, expected a whole number >= 1")
        if not (_is_number(self.augmented_share) and 0 <= self.augmented_share <= 0.5):
            raise ValueError(f"augmented_share is {self.augmented_share!r}, expected a number in [0, .5]")
        if not (_is_number(self.rejection_penalty) and 0 <= self.rejection_penalty < math.inf):
            raise ValueError(f"rejection_penalty is {self.rejection_penalty!r}, expected a finite number >= 0")

    def draw(self, mean: Tensor, std: Tensor, noise: Tensor, box: FeasibleBox) -> Decision:
        """The first draw of each row (N, d) that lies in F_t, or the last projected; the critic judges the same."""
        # The draws after the first come from the noise given, so that the agent's generator stays all there is to save.
        # A digest of all its bits: torch makes use of the lowest 32 of a seed.
        generator = torch.Generator().manual_seed(zlib.crc32(noise.double().numpy().tobytes()))
        more = torch.randn((self.tries - 1, *mean.shape), generator=generator, dtype=mean.dtype)
        return self._first_inside(mean + std * torch.cat([noise[None], more]), box, generator)

    def random(self, box: FeasibleBox, generator: torch.Generator | None = None) -> Tensor:
        """As ``draw``, from draws uniform in the action range."""
        uniform = torch.rand((self.tries, *box.prev.shape), generator=generator, dtype=box.prev.dtype)
        return self._first_inside(torch.atanh(2 * uniform - 1), box, generator).executed

    def exported(self, latent: Tensor, box: FeasibleBox) -> Tensor:
        """Refused: a graph does not draw again."""
        raise UserFacingError(
            "the layer 'aram' is for benchmarks and is not exported; 'post' executes the same without exploration"
        )

    def _first_inside(self, latents: Tensor, box: FeasibleBox, generator: torch.Generator | None) -> Decision:
        """The first of latents (K, N, d) whose command lies in F_t."""
        wide = widen(box)
        commands = self.placement.command(self.squash(finite_latent(latents, wide))[0], wide).to(box.prev.dtype)
        inside = box.contains(commands).all(-1)
        found, first = inside.any(0), inside.int().argmax(0)
        chosen = torch.where(found, first, self.tries - 1)
        executed = box.clamp(commands.gather(0, chosen[None, :, None].expand(1, *commands.shape[1:]))[0])
        self._count(chosen, found)
        self._keep(commands[0], ~inside[0], generator)
        return Decision(executed, executed)

    def _count(self, chosen: Tensor, found: Tensor) -> None:
        draws = int(chosen.sum()) + chosen.numel()
        self._counts.update(draws=draws, actions=found.numel(), accepted=int(found.sum()))

    def _keep(self, commands: Tensor, rejected: Tensor, generator: torch.Generator | None) -> None:
        """Keep rejected rows (N, d) at random, so often that loops come to ``augmented_share``."""
        often = self.augmented_share / (1 - self.augmented_share)
        wanted = rejected & (torch.rand(len(rejected), generator=generator) < often)
        self._rejected[:] = [(int(k), commands[k]) for k in wanted.nonzero()[:, 0]]

    def take_rejected(self) -> list[tuple[int, Tensor]]:
        """(environment, draw (d,)) of the loops of the last action."""
        taken = [*self._rejected]
        self._rejected.clear()
        return taken

    def counts(self) -> dict[str, int]:
        """Draws made, actions executed, and actions that were accepted draws."""
        return self._counts

    def columns(self) -> dict[str, float]:
        """``acceptance``, accepted draws over all, and ``projected``, the share of actions for which none was."""
        counts = {**self._counts}
        self._counts.clear()
        if not counts:
            return {"acceptance": float("nan"), "projected": float("nan")}
        accepted = counts["accepted"]
        return {"acceptance": accepted / counts["draws"], "projected": 1 - accepted / counts["actions"]}


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
