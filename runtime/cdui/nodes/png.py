"""Turns pixels into PNG bytes with nothing but the standard library."""

from __future__ import annotations

import base64
import struct
import zlib
from typing import Any

#: PNG's colour types by number of channels.
COLOUR_TYPES = {1: 0, 3: 2, 4: 6}


def encode(pixels: Any) -> bytes:
    """The PNG of a uint8 tensor ``(H, W, C)`` with 1, 3 or 4 channels."""
    height, width, channels = pixels.shape
    raw = bytes(pixels.contiguous().reshape(-1).tolist())
    row = width * channels
    # Each row begins with its filter: 0, none.
    rows = b"".join(b"\0" + raw[start:start + row] for start in range(0, len(raw), row))
    header = struct.pack(">IIBBBBB", width, height, 8, COLOUR_TYPES[channels], 0, 0, 0)
    parts = ((b"IHDR", header), (b"IDAT", zlib.compress(rows, 6)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(kind, data) for kind, data in parts)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def text(data: bytes) -> str:
    """The form in which an output with media ``image`` holds a PNG."""
    return base64.b64encode(data).decode("ascii")
