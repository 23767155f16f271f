"""The history of executed actions in the current episodes, from their reset actions on."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slewrl.copying import Copied
from slewrl.limits import RateLimits
from slewrl.metrics import RateUse, rate_use


class ActionHistory(Copied):
    """The executed actions of d joints in N environments: the reset action, then one action for each step.

    Actions are copied, since an environment may scale its action in place, and kept read-only.

    Args:
        limits: rate limits of the d joints.
        first: the reset actions (N, d); the history has their dtype.
        whole: whether to keep all actions of an episode, or only the previous one.
    """

    def __init__(self, limits: RateLimits, first: NDArray[Any], whole: bool = True) -> None:
        self.limits, self.whole, self.dtype = limits, whole, first.dtype
        self.begun = False
        """Whether any episode has begun."""
        self.first = self._kept(first)
        """(N, d): what counts as executed before the first step of each current episode."""
        self.previous = self.before = self.first
        """(N, d): the actions executed last, and those before: the same at the start, where the joints are at rest."""
        self._taken: list[NDArray[Any]] = []
        """The actions (N, d) of each step since the oldest current episode began."""
        self._since = np.zeros(len(first), np.int64)
        """(N,): where in ``_taken`` each episode begins."""

    def restart(self, first: NDArray[Any], which: NDArray[np.bool_] | None = None) -> None:
        """Begin episodes with the reset actions ``first``, (N, d) or (d,); ``which`` (N,) masks the environments."""
        which = np.ones(len(self.first), bool) if which is None else which
        self.begun = True
        self.first = self._kept(np.where(which[:, None], first, self.first))
        self.previous, self.before = (
            self._kept(np.where(which[:, None], first, x)) for x in (self.previous, self.before)
        )
        self._since[which] = len(self._taken)
        if past := int(self._since.min()):  # steps of episodes that have all ended
            del self._taken[:past]
            self._since -= past

    def append(self, executed: NDArray[Any]) -> None:
        """Add the actions executed in one more step, (N, d)."""
        self.before, self.previous = self.previous, self._kept(executed)
        if self.whole:
            self._taken.append(self.previous)

    def outside(self, action: NDArray[Any]) -> NDArray[np.bool_]:
        """Which joints of an action (N, d) would leave F_t of the previous one, exactly."""
        return self.limits.outside(action, self.previous, self.before)

    @property
    def velocity(self) -> NDArray[Any]:
        """The last increments, (N, d), exact for commands on the grid of an acceleration limit."""
        return self.previous - self.before

    @property
    def appended(self) -> NDArray[Any]:
        """What augmented observations end in, (N, m): a_prev, or (v_prev, a_prev) with an acceleration limit."""
        return self.previous if self.limits.grid is None else np.concatenate([self.velocity, self.previous], -1)

    def actions(self, k: int = 0) -> NDArray[Any]:
        """The current episode of environment k, (T + 1, d): its reset action, and the actions executed since."""
        assert self.whole, "only the previous action was kept"
        return np.stack([self.first[k], *(taken[k] for taken in self._taken[self._since[k] :])])

    def rate_use(self, k: int = 0) -> RateUse:
        """Utilisation and violations of the current episode of environment k."""
        return rate_use(self.actions(k), self.limits)

    def load(self, episodes: Sequence[NDArray[Any]]) -> None:
        """Continue from what ``actions`` returned for each of the N environments."""
        steps = np.array([len(actions) - 1 for actions in episodes])
        taken = np.zeros((steps.max(), *self.first.shape), self.dtype)
        for k, actions in enumerate(episodes):
            taken[len(taken) - steps[k] :, k] = actions[1:]
        self.first, self.previous, self.before = (
            self._kept(np.stack([actions[max(i, -len(actions))] for actions in episodes])) for i in (0, -1, -2)
        )
        self._taken, self._since, self.begun = [self._kept(row) for row in taken], steps.max() - steps, True

    def _kept(self, actions: NDArray[Any]) -> NDArray[Any]:
        made = np.array(actions, dtype=self.dtype)
        made.setflags(write=False)
        return made


class CountedHistory(ActionHistory):
    """A history that counts violations at every step."""

    def __init__(self, limits: RateLimits, first: NDArray[Any]) -> None:
        super().__init__(limits, first)
        self.violations = np.zeros(len(first), np.int64)
        """(N,): joint steps outside F_t in the current episodes."""

    def restart(self, first: NDArray[Any], which: NDArray[np.bool_] | None = None) -> None:
        """See ``ActionHistory``."""
        super().restart(first, which)
        self.violations[... if which is None else which] = 0

    def append(self, executed: NDArray[Any]) -> None:
        """See ``ActionHistory``."""
        self.violations += self.outside(executed).sum(1)
        super().append(executed)
