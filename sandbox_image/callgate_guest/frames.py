"""Frames: how a host and the supervisor of a container share one pair of streams. Does no I/O.

A frame is its kind (one byte), the length of its payload (four bytes, big endian) and the payload. What may follow what
is in `container`; the kinds are listed here since both sides speak them.
"""

from __future__ import annotations

import struct
from typing import Final

SETTINGS: Final = b"C"  # host -> supervisor, first: JSON, see `container.Settings`
SPAWN: Final = b"S"  # host -> supervisor: JSON, the allowance of the next guest
WIRE: Final = b"D"  # both ways: bytes of the guest's wire; from the guest, `USAGE` is in front of them
FILE: Final = b"N"  # both ways: JSON, the name of a file: one for the next guest, below /input; one of /output
PART: Final = b"B"  # both ways: the next bytes of the file that was named last
COLLECT: Final = b"A"  # host -> supervisor: JSON, how much of /output at most; COLLECTED ends the answer
KILL: Final = b"K"  # host -> supervisor: end the guest, if it is still there; its EXITED comes in any case
PING: Final = b"P"  # both ways: the answer has the same payload
READY: Final = b"R"  # supervisor -> host: JSON, what confines its guests
FAILED: Final = b"F"  # supervisor -> host: JSON, why it cannot do its work; it ends
SPAWNED: Final = b"G"  # supervisor -> host: the guest is there; `USAGE`
OUTPUT: Final = b"O"  # supervisor -> host: what the guest wrote to stdout and stderr
HUNG_UP: Final = b"H"  # supervisor -> host: the guest has closed its wire
TOUCHED: Final = b"T"  # supervisor -> host: there is, or was, something in /output that this guest has put there
COLLECTED: Final = b"L"  # supervisor -> host: JSON, what was left in /output, in words
EXITED: Final = b"X"  # supervisor -> host: JSON, how the guest ended; nothing of it comes after

USAGE: Final = struct.Struct(">dQ")  # seconds of processor time, bytes of peak memory
MAX_PAYLOAD: Final = 1 << 20
_HEADER: Final = struct.Struct(">cI")

Frame = tuple[bytes, bytes]


class FrameError(ValueError):
    """The other side sent something that is not a frame."""


def frame(kind: bytes, payload: bytes = b"") -> bytes:
    """One frame as it goes over the stream. `payload` is at most `MAX_PAYLOAD` long."""
    return _HEADER.pack(kind, len(payload)) + payload


def frames(kind: bytes, data: bytes) -> bytes:
    """`data`, of any length, in as many frames as it takes."""
    if len(data) <= MAX_PAYLOAD:
        return frame(kind, data)
    return b"".join(frame(kind, data[at : at + MAX_PAYLOAD]) for at in range(0, len(data), MAX_PAYLOAD))


class FrameBuffer:
    """Bytes in, whole frames out; holds one unfinished frame at most."""

    def __init__(self) -> None:
        self._held = bytearray()

    def feed(self, data: bytes) -> list[Frame]:
        """The frames completed by `data`. Raises `FrameError` for one longer than `MAX_PAYLOAD`."""
        self._held += data
        found: list[Frame] = []
        at = 0
        while len(self._held) - at >= _HEADER.size:
            kind, length = _HEADER.unpack_from(self._held, at)
            if length > MAX_PAYLOAD:
                raise FrameError(f"a frame of {length} bytes; {MAX_PAYLOAD} is the most")
            end = at + _HEADER.size + length
            if len(self._held) < end:
                break
            found.append((kind, bytes(self._held[at + _HEADER.size : end])))
            at = end
        del self._held[:at]
        return found
