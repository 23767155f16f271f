"""PNG files of drawings: no filters, which suit photographs, so that a figure is saved in half the time."""

import struct
import zlib

import numpy as np
from numpy.typing import NDArray

LEVEL = 3
"""Of compression: the next one takes twice as long for a tenth less."""


def encode(image: NDArray[np.uint8], dpi: float) -> bytes:
    """An opaque image (rows, columns, 3 or more), of which the first three are red, green and blue."""
    height, width = image.shape[:2]
    rows = np.zeros((height, 1 + 3 * width), np.uint8)  # each row starts with its filter: 0, none
    for colour in range(3):
        rows[:, 1 + colour :: 3] = image[..., colour]
    metre = round(dpi / 0.0254)
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        (
            _chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)),  # 8 bits each of three colours
            _chunk(b"pHYs", struct.pack(">IIB", metre, metre, 1)),
            _chunk(b"IDAT", zlib.compress(rows.tobytes(), LEVEL)),
            _chunk(b"IEND", b""),
        )
    )


def _chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
