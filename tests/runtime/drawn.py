"""Pictures for tests, made without Pillow; and tools that draw them."""

from __future__ import annotations

import base64
import random
import struct
import zlib
from dataclasses import replace

from callgate import Artifact

__all__ = ["GIF", "HTML", "JPEG", "SVG", "WEBP", "artifact", "png", "png_header"]

GIF = base64.b64decode("R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7")
JPEG = base64.b64decode(
    "/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDAP//////////////////////////////////////////////////////////////////////////////"
    "////////wAALCAABAAEBAREA/8QAFAABAAAAAAAAAAAAAAAAAAAAA//EABQQAQAAAAAAAAAAAAAAAAAAAAD/2gAIAQEAAD8AN//Z"
)
WEBP = base64.b64decode("UklGRhoAAABXRUJQVlA4TA0AAAAvAAAAEAcQERGIiP4HAA==")
SVG = b"<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>"
HTML = b"<!doctype html><script>alert(1)</script>"


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png_header(width: int, height: int) -> bytes:
    """The beginning of a picture in true colour, of any size."""
    return b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))


def png(width: int = 3, height: int = 2, *, seed: int = 0, noise: bool = False) -> bytes:
    """A picture of one colour, or of noise, that the seed decides."""
    chance = random.Random(seed)
    colour = chance.randbytes(3)
    rows = b"".join(b"\0" + (chance.randbytes(3 * width) if noise else colour * width) for _ in range(height))
    return png_header(width, height) + _chunk(b"IDAT", zlib.compress(rows, 1)) + _chunk(b"IEND", b"")


def artifact(data: bytes, name: str = "plot.png", media_type: str = "") -> Artifact:
    """An artifact that is on no shelf; its type may be a lie."""
    made = Artifact.from_bytes(data, name)
    return replace(made, media_type=media_type) if media_type else made
