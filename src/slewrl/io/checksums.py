"""Checksums of a replay ring's rows, by block: how a checkpoint knows again the rows it was taken with.

Row k ever written belongs to block k // BLOCK, wherever in the ring it lies. A block that is full is summed once, so a
checkpoint reads only what was written since the last one, and the two blocks at either end of what is live, of which it
sums the live rows. The sum is CRC-32: any one or two flipped bits of a block, and any burst of up to 32 bits, are
found for certain, other damage but for one case in 2^32.
"""

from zlib import crc32

import numpy as np
from numpy.typing import NDArray

BLOCK = 64
"""Rows of a block."""


def blocks(first: int, end: int) -> range:
    """Those that have a row of ``first`` to ``end``."""
    return range(first // BLOCK, -(-end // BLOCK))


class RingSums:
    """Of one environment's ring.

    Args:
        ring: its rows, (rows, width), as they are now and will be.
    """

    def __init__(self, ring: NDArray[np.float32]) -> None:
        self._ring = ring
        self._full: dict[int, int] = {}
        """Of full blocks, by their number."""

    def of(self, first: int, end: int) -> list[int]:
        """A sum for each block that has a row of ``first`` to ``end``, over those rows alone."""
        wanted = blocks(first, end)
        self._full = {block: total for block, total in self._full.items() if block in wanted}
        return [self._block(block, first, end) for block in wanted]

    def damaged(self, first: int, end: int, sums: list[int]) -> range | None:
        """The first rows of those that do not match what ``of`` said of them once; all are read."""
        self._full = {}
        for block, found, expected in zip(blocks(first, end), self.of(first, end), sums, strict=True):
            if found != expected:
                return range(max(first, block * BLOCK), min(end, (block + 1) * BLOCK))
        return None

    def _block(self, block: int, first: int, end: int) -> int:
        start, stop = block * BLOCK, (block + 1) * BLOCK
        if start < first or stop > end:
            return self._sum(max(start, first), min(stop, end))
        if block not in self._full:
            self._full[block] = self._sum(start, stop)
        return self._full[block]

    def _sum(self, start: int, stop: int) -> int:
        """Of rows ``start`` to ``stop`` ever written, which may lie at both ends of the ring."""
        begin, rows = start % len(self._ring), stop - start
        total = crc32(self._ring[begin : begin + rows].data)
        over = begin + rows - len(self._ring)
        return crc32(self._ring[:over].data, total) if over > 0 else total
