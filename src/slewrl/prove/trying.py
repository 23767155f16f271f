"""Proofs by trying every case, where there are few enough: the rooms of a joint on its grid of commands."""

import inspect
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from slewrl.prove.arithmetic import FASTEST
from slewrl.prove.program import Program

CHUNK = 2**20


@dataclass(frozen=True)
class EveryRoom:
    """That FASTEST is right for every whole room up to ``most``, and the stopping distance for every speed.

    v <= fastest(room) if and only if travel(v) <= room, where travel(v) = v + travel(v - D), and 0 for v <= 0, is how
    far a joint moves that brakes by D from an increment of v. The float arithmetic is compared with integers.
    """

    brakes: float
    """D, in whole grid units."""
    most: float
    """The largest room: the range of the joint."""
    speeds: float
    """The largest increment."""
    program: Program = FASTEST

    def text(self) -> str:
        """All that the answer depends on, for its digest."""
        check = inspect.getsource(EveryRoom.wrong) + inspect.getsource(travel)
        return f"every room\n{self.program.text}{self.brakes!r} {self.most!r} {self.speeds!r}\n{check}"

    def wrong(self) -> dict[str, float]:
        """The first room or speed for which something is wrong; empty if there is none."""
        d = int(self.brakes)
        for first in range(0, int(self.most) + 1, CHUNK):
            rooms = np.arange(first, min(first + CHUNK, int(self.most) + 1))
            given = {"room": rooms.astype(np.float64), "brakes": np.float64(d)}
            found = self.program.compute("fastest", given)
            v = found.astype(np.int64)
            right = (v == found) & (v >= 0) & (travel(v, d) <= rooms) & (travel(v + 1, d) > rooms)
            right &= (self.program.compute("stoppable", given) == found) & (travel(v + 1, d) > travel(v, d))
            for more in (-2, -1, 1, 2):
                given["taken"] = np.maximum(self.program.compute("near", given) + more, 1.0)
                right &= ~self.program.compute("stays", given) | (self.program.compute("along", given) == found)
            right &= travel(v, d) == v + travel(np.maximum(v - d, 0), d)
            if not right.all():
                return {"room": float(rooms[np.argmin(right)]), "brakes": self.brakes}
        speeds = np.arange(int(self.speeds) + 1)
        distances = self.program.compute("distance", {"speed": speeds.astype(np.float64), "brakes": np.float64(d)})
        right = (distances == travel(speeds, d)) & (travel(speeds + 1, d) > travel(speeds, d))
        right &= travel(speeds, d) == speeds + travel(np.maximum(speeds - d, 0), d)
        return {} if right.all() else {"speed": float(np.argmin(right)), "brakes": self.brakes}


def travel(v: NDArray[np.int64], brakes: int) -> NDArray[np.int64]:
    """v + (v - D) + (v - 2 D) + ... as long as that is positive, in integers."""
    n = v // brakes
    return (n + 1) * v - brakes * (n * (n + 1) // 2)
