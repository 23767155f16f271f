"""CRC-32 checksums of a replay ring's rows, by block, with which a checkpoint recognises its rows.

Row k ever written belongs to block k // BLOCK, wherever in the ring it lies. A full block is summed once, so that a
checkpoint reads only new rows and the two blocks at the ends of what is live.
"""

from zlib import crc32

import numpy as np
from numpy.typing import NDArray

BLOCK = 64
"""Rows per block."""


def blocks(first: int, end: int) -> range:
    """The blocks that have a row of ``first`` to ``end``."""
    return range(first // BLOCK, -(-end // BLOCK))


class RingSums:
    """The checksums of one environment's ring, an array (rows, width) that others write to."""

    def __init__(self, ring: NDArray[np.float32]) -> None:
        self._ring = ring
        self._full: dict[int, int] = {}
        """The sums of full blocks."""

    def of(self, first: int, end: int) -> list[int]:
        """The sum of each block that has a row of ``first`` to ``end``, over those rows alone."""
        wanted = blocks(first, end)
        self._full = {block: total for block, total in self._full.items() if block in wanted}
        return [self._block(block, first, end) for block in wanted]

    def damaged(self, first: int, end: int, sums: list[int]) -> range | None:
        """The first block of rows, read anew, that does not match the ``sums`` that ``of`` gave; None if all do."""
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
        """The sum of rows ``start`` to ``stop`` ever written, which may lie at both ends of the ring."""
        begin, rows = start % len(self._ring), stop - start
        total = crc32(self._ring[begin : begin + rows].data)
        over = begin + rows - len(self._ring)
        return crc32(self._ring[:over].data, total) if over > 0 else total
