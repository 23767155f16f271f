"""Rough ground: one height field that all environments share, its levels, and the height scan.

Numbers are those of IsaacLab's ROUGH_TERRAINS_CFG (v2.3.2). The grid has its levels along x and its kinds of ground
along y, and is centred on the origin. A height field cannot be vertical: the riser of a stair is a ramp one cell wide.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]

SCAN_X, SCAN_Y = np.linspace(-0.8, 0.8, 17), np.linspace(-0.5, 0.5, 11)
"""Where the height scan looks, in metres: forward and to the left of the robot (IsaacLab: 1.6 x 1.0 m at .1 m)."""
SCAN_POINTS = SCAN_X.size * SCAN_Y.size
SCAN_MIRROR: NDArray[np.int64] = np.arange(SCAN_POINTS).reshape(SCAN_Y.size, -1)[::-1].ravel()
"""(187,): the scan of the mirror image (left for right) of a scene is ``scan[..., SCAN_MIRROR]``."""

SHARES = {"stairs": 0.2, "inverted_stairs": 0.2, "boxes": 0.2, "noise": 0.2, "slope": 0.1, "inverted_slope": 0.1}
"""How much of the columns each kind of ground gets, in this order."""
CELL, TILE = 0.1, 8.0
"""Metres between neighbouring heights, and the side of a tile in metres."""
ROUNDING = 1e-9
"""Metres or cells by which a point on an edge may miss it by rounding."""


@dataclass(frozen=True, eq=False)
class Terrain:
    """A height field and the tiles on it. Make one with ``rough``; arrays are read-only.

    In MJCF: ``<hfield nrow=rows ncol=cols size="radius_x radius_y height_range base"/>`` with ``hfield_data`` written
    to ``model.hfield_data``, and a geom of it at ``pos="0 0 lowest"``: its surface is then ``height``.
    """

    heights: Floats
    """(rows, cols), in metres; a row runs along x."""
    origins: Doubles
    """(levels, columns, 3): where robots start, the centre of each tile at its highest within 1 m, in metres."""
    cell: float = CELL
    """Metres between neighbouring heights."""
    base: float = 0.5
    """Thickness of the ground below its lowest point, in metres (MuJoCo's size[3])."""

    @property
    def rows(self) -> int:
        """How many heights along y: MuJoCo's nrow."""
        return self.heights.shape[0]

    @property
    def cols(self) -> int:
        """How many heights along x: MuJoCo's ncol."""
        return self.heights.shape[1]

    @property
    def radius_x(self) -> float:
        """Half the extent along x, in metres."""
        return (self.cols - 1) * self.cell / 2

    @property
    def radius_y(self) -> float:
        """Half the extent along y, in metres."""
        return (self.rows - 1) * self.cell / 2

    @property
    def lowest(self) -> float:
        """Height of the lowest point, in metres: the z of the geom."""
        return float(self.heights.min())

    @property
    def height_range(self) -> float:
        """The highest point above the lowest, in metres (MuJoCo's size[2]); 1 if all is level: MuJoCo wants > 0."""
        return float(self.heights.max()) - self.lowest or 1.0

    @property
    def hfield_data(self) -> Floats:
        """(rows * cols,), in [0, 1], in the order of MuJoCo's ``hfield_data``: x runs fastest."""
        return ((self.heights.ravel() - self.lowest) / self.height_range).astype(np.float32)

    def height(self, x: ArrayLike, y: ArrayLike) -> Floats:
        """Height of MuJoCo's surface in metres at any shape of points in metres; beyond the edge, that of the edge.

        NaN where x or y is, so that a simulation gone wrong stays visible.
        """
        u = self._cells(np.asarray(x, dtype=np.float64) + self.radius_x)
        v = self._cells(np.asarray(y, dtype=np.float64) + self.radius_y)
        return self._surface(u, v)

    def scan(self, position: ArrayLike, yaw: ArrayLike) -> Floats:
        """Heights in metres (N, 187) around N robots at positions (N, 2), in metres, and yaw angles (N,).

        Entry 17 * j + i is SCAN_X[i] forward and SCAN_Y[j] to the left of the robot.
        """
        place, angle = np.asarray(position, dtype=np.float64), np.asarray(yaw, dtype=np.float64)[:, None]
        cos, sin = np.cos(angle), np.sin(angle)
        # u = x + cos forward - sin left, v = y + sin forward + cos left; only the last sum is over all N x 187
        u = self._cells(place[:, :1] + self.radius_x + cos * SCAN_X)[:, None, :] - self._cells(sin * SCAN_Y)[:, :, None]
        v = self._cells(place[:, 1:] + self.radius_y + sin * SCAN_X)[:, None, :] + self._cells(cos * SCAN_Y)[:, :, None]
        return self._surface(u.reshape(-1, SCAN_POINTS), v.reshape(-1, SCAN_POINTS))

    def _cells(self, metres: Doubles) -> Floats:
        """A length in cells; float32 is exact to 1e-4 of a cell at 100 m."""
        return (metres / self.cell).astype(np.float32)

    def _surface(self, u: Floats, v: Floats) -> Floats:
        """Height at u columns and v rows from the first corner.

        MuJoCo cuts each cell along the diagonal from its first corner 00 to its last 11.
        On the triangle of the corners 00, k, 11, where k is 10 if u' > v' and else 01 (fractions u', v' of a cell):
        h = h00 + max(u', v') (hk - h00) + min(u', v') (h11 - hk)
        """
        rows, cols = self.heights.shape
        u, v = np.clip(u, 0, cols - 1), np.clip(v, 0, rows - 1)
        i, j = np.fmin(u, cols - 2).astype(np.int32), np.fmin(v, rows - 2).astype(np.int32)  # fmin: an index for NaN
        u, v = u - i.astype(np.float32), v - j.astype(np.float32)
        first = j * np.int32(cols) + i
        other = first + 1 + (u <= v) * np.int32(cols - 1)  # k; np.where takes three times as long
        flat = self.heights.ravel()
        h00, hk, h11 = flat.take(first), flat.take(other), flat.take(first + (cols + 1))
        return h00 + np.maximum(u, v) * (hk - h00) + np.minimum(u, v) * (h11 - hk)

    def promote(
        self, level: ArrayLike, distance: ArrayLike, commanded_distance: ArrayLike, rng: np.random.Generator
    ) -> NDArray[np.int64]:
        """The next level of each of N robots, (N,), after an episode: IsaacLab's curriculum.

        One up if it left its tile, one down if it walked less than half the commanded distance, else the same; after
        the last level a random one. Distances are in metres; the commanded one is |commanded velocity| times the
        longest duration of an episode.
        """
        level, distance = np.asarray(level, dtype=np.int64), np.asarray(distance)
        levels = len(self.origins)
        up = distance > TILE / 2
        down = ~up & (distance < np.asarray(commanded_distance) / 2)
        moved = np.maximum(level + up - down, 0)
        return np.where(moved < levels, moved, rng.integers(levels, size=level.shape))


def rough(seed: int = 0, rows: int = 10, cols: int = 20, border: float = 20.0) -> Terrain:
    """The rough grid: ``rows`` levels of difficulty along x times ``cols`` columns along y.

    Args:
        seed: seed of heights and difficulties.
        rows: levels; the difficulty of level k is drawn from [k, k + 1) / rows.
        cols: columns, divided by ``SHARES``.
        border: level ground around the grid, in metres: at 1 m/s no robot leaves the default in 20 s.
    """
    kinds = column_kinds(cols)
    n, margin = round(TILE / CELL), round(border / CELL)
    side = np.linspace(-TILE / 2, TILE / 2, n + 1)
    heights = np.zeros((cols * n + 1 + 2 * margin, rows * n + 1 + 2 * margin), dtype=np.float32)
    origins = np.zeros((rows, cols, 3))
    for level, column in np.ndindex(rows, cols):
        rng = np.random.default_rng([seed, level, column])  # its own, so that no tile depends on another
        difficulty = (level + rng.uniform()) / rows
        ground = KINDS[kinds[column]](difficulty, side, rng).astype(np.float32)
        y, x = margin + column * n, margin + level * n
        heights[y : y + n + 1, x : x + n + 1] = ground  # neighbours share an edge, level at 0
        top = ground[_ring(side) <= 1 + ROUNDING].max()  # not the centre: on noise, feet would start in the ground
        origins[level, column] = (level + 0.5 - rows / 2) * TILE, (column + 0.5 - cols / 2) * TILE, top
    for array in (heights, origins):
        array.flags.writeable = False
    return Terrain(heights, origins)


def column_kinds(cols: int) -> tuple[str, ...]:
    """The kind of ground in each of ``cols`` columns: that whose share contains the middle of the column."""
    ends = np.cumsum(list(SHARES.values()))
    return tuple(np.array(list(SHARES))[np.searchsorted(ends, (np.arange(cols) + 0.5) / cols)].tolist())


def stairs(difficulty: float, side: Doubles) -> Doubles:
    """A pyramid of stairs: steps .05 to .23 m high and .3 m wide, on a border of 1 m, up to a platform of 2.4 m.

    h = step * clip(floor((R - r) / .3) + 1, 0, n), where r = max(|x|, |y|) and R = tile / 2 - 1 is half the pyramid.

    Args:
        difficulty: in [0, 1].
        side: (n,), metres from the centre of the tile, along x and along y; the result is (n, n), in metres.
    """
    step, radius = 0.05 + 0.18 * difficulty, side[-1] - 1.0
    risers = np.floor((2 * radius - 3.0) / 0.6 + ROUNDING) + 2
    return step * np.clip(np.floor((radius - _ring(side)) / 0.3 + ROUNDING) + 1, 0, risers)


def slope(difficulty: float, side: Doubles) -> Doubles:
    """A hill with a slope of 0 to .4 along its axes, cut off at the height of the corner of a 2 m platform.

    h = slope * R * min((1 - |x| / R)+ (1 - |y| / R)+, (1 - 1 / R)^2), R = tile / 2 - .25. Arguments as in ``stairs``.
    """
    radius = side[-1] - 0.25
    fall = np.maximum(1 - np.abs(side) / radius, 0)
    return 0.4 * difficulty * radius * np.minimum(np.outer(fall, fall), (1 - 1 / radius) ** 2)


def boxes(difficulty: float, side: Doubles, rng: np.random.Generator) -> Doubles:
    """Boxes .45 m wide of heights h ~ U(-g, g), g = .05 to .2 m, around a 2 m platform at g.

    The border, (tile - .45 * count) / 2 wide, is at 0. Arguments as in ``stairs``.
    """
    g = 0.05 + 0.15 * difficulty
    count = int(2 * side[-1] / 0.45 - ROUNDING)
    tops = np.pad(rng.uniform(-g, g, (count, count)), 1)
    box = np.floor(side / 0.45 + count / 2).astype(np.int64) + 1  # 0 and count + 1 are the border
    return np.where(_ring(side) <= 1 + ROUNDING, g, tops[np.ix_(box, box)])


def noise(side: Doubles, rng: np.random.Generator) -> Doubles:
    """Random heights of .02, .04, .. .10 m every .1 m, linear between, on a border of .25 m; without difficulty."""
    count = int((side[-1] - 0.25) / 0.1 + ROUNDING)
    lattice = 0.1 * np.arange(-count, count + 1)
    weight = np.maximum(1 - np.abs(side[:, None] - lattice) / 0.1, 0)
    return weight @ (0.02 * rng.integers(1, 6, (lattice.size, lattice.size))) @ weight.T


def _ring(side: Doubles) -> Doubles:
    """(n, n): r = max(|x|, |y|) in metres."""
    return np.maximum.outer(np.abs(side), np.abs(side))


KINDS: dict[str, Callable[[float, Doubles, np.random.Generator], Doubles]] = {
    "stairs": lambda difficulty, side, rng: stairs(difficulty, side),
    "inverted_stairs": lambda difficulty, side, rng: -stairs(difficulty, side),
    "boxes": boxes,
    "noise": lambda difficulty, side, rng: noise(side, rng),
    "slope": lambda difficulty, side, rng: slope(difficulty, side),
    "inverted_slope": lambda difficulty, side, rng: -slope(difficulty, side),
}
