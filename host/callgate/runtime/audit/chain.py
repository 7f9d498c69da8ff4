"""The form of an audit log: lines of JSON, each bound by a MAC to the line before. Does no I/O.

1. Each writer (one open log of one process) has a chain of its own, and a file may hold many. A line has the writer's
   id, its number in the chain (``n``), the MAC of the writer's previous line (``after``), and the byte at which that
   line ended (``ends``). So a line of any writer that is dropped, inserted or moved shows in later lines of the others.
2. A line ends with its MAC: HMAC-SHA-256 (RFC 2104) over all bytes before it. Only who has the key can write a line.
   The newline behind it is no part of it: a line that lacks its newline is whole.
3. The first line of a chain (``opened``) names the last line that stood in the file then (``follows``), so that a whole
   chain cannot be dropped from before another.
4. Arguments and results stand in a line as keyed digests: a plain hash of a short secret tells the secret to whoever
   tries them all.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import secrets
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from pydantic_core import PydanticSerializationError, to_json

__all__ = [
    "END", "END_BYTES", "KEY_BYTES", "MAX_LINE_BYTES", "PLACE", "WRITER", "Chain", "Keys", "Line", "is_cut_off",
    "pieces_of", "place_of", "read_line",
]  # fmt: skip

KEY_BYTES: Final = 32
MAX_LINE_BYTES: Final = 64 * 1024
_BEGIN: Final = b'{"v":1,"at":'
_HEAD: Final = re.compile(
    rb'\{"v":1,"at":"[^"]{27}","writer":"([0-9a-f]{16})","n":([0-9]+),"after":"([0-9a-f]*)","ends":([0-9]+),'
    rb'"kind":"([a-z_]+)"'
)
PLACE: Final = 40
"""Where in a line the text of `place_of` begins."""
WRITER: Final = slice(52, 68)
"""Where in a line its writer stands."""
END: Final = b',"mac":"', b'"}\n'
"""What stands around a line's MAC."""
END_BYTES: Final = 74
"""From the end of what the MAC is made of to the newline."""
_END: Final = re.compile(rb',"mac":"[0-9a-f]{64}"\}')
_MARKS: Final = re.compile(rb'(\{"v":1,"at":)|,"mac":"[0-9a-f]{64}"\}\n?|\n')
"""Where lines begin (group 1) and end. In JSON in ASCII, no text within a line looks like one of these."""
_BLOCK: Final = 64
"""Bytes of a block of SHA-256."""


class Keys:
    """Two keys made of one: for MACs of lines, and for digests of values.

    Args:
        key: at least 16 bytes that nobody can guess.
    """

    def __init__(self, key: bytes) -> None:
        self._lines = _Hmac(hmac.digest(key, b"callgate audit: lines", "sha256"))
        self._values = _Hmac(hmac.digest(key, b"callgate audit: values", "sha256"))

    def mac(self, body: bytes) -> str:
        """The MAC of a line without its end."""
        return self._lines.digest(body).hex()

    def digest(self, text: str) -> str:
        """The digest of a value's JSON text; 128 bits."""
        return self._values.digest(text.encode("utf-8", "surrogatepass"))[:16].hex()


class _Hmac:
    """HMAC-SHA-256 with one key of at most 64 bytes, in less than half the time of `hmac.digest`: OpenSSL looks its
    algorithms up at each call, and copies of a hash that has the key already need no look-up."""

    def __init__(self, key: bytes) -> None:
        key = key.ljust(_BLOCK, b"\0")
        self._inner = hashlib.sha256(bytes(each ^ 0x36 for each in key))
        self._outer = hashlib.sha256(bytes(each ^ 0x5C for each in key))

    def digest(self, data: bytes) -> bytes:
        inner, outer = self._inner.copy(), self._outer.copy()
        inner.update(data)
        outer.update(inner.digest())
        return outer.digest()


def _ascii_json(value: dict[str, Any]) -> bytes:
    """JSON in ASCII alone, so that no text breaks a line or hides in one."""
    try:
        data = to_json(value)
    except PydanticSerializationError:  # a lone surrogate
        data = b"\xff"
    return data if data.isascii() else json.dumps(value, separators=(",", ":")).encode()


@dataclass(slots=True)
class Chain:
    """Makes the lines of one writer.

    Attributes:
        writer: random id of the chain.
        n: number of the next line.
        after: MAC of the last line that was written.
        ends: the byte in the file at which that line ended.
    """

    keys: Keys
    writer: str
    n: int = 0
    after: str = ""
    ends: int = 0
    _second: int = -1
    _words: str = ""

    @classmethod
    def new(cls, keys: Keys) -> Chain:
        """A chain with a new id."""
        return cls(keys, secrets.token_hex(8))

    def line(self, kind: str, fields: dict[str, Any]) -> tuple[bytes, str]:
        """The next line, and its MAC. The chain goes on with `written`."""
        place = place_of(self.writer.encode(), self.n, self.after.encode(), self.ends)
        body = b'%b"%b%b%b' % (_BEGIN, self._now().encode(), place, _ascii_json({"kind": kind, **fields})[1:-1])
        mac = self.keys.mac(body)
        return b'%b,"mac":"%b"}\n' % (body, mac.encode()), mac

    def written(self, mac: str, ends: int) -> None:
        """The line with this MAC stands in the file, and ends at this byte."""
        self.n, self.after, self.ends = self.n + 1, mac, ends

    def _now(self) -> str:
        second, rest = divmod(time.time_ns() // 1000, 1_000_000)
        if second != self._second:
            self._second, self._words = second, time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(second))
        return f"{self._words}.{rest:06}Z"


def place_of(writer: bytes, n: int, after: bytes, ends: int) -> bytes:
    """What a line says of its place: the bytes from `PLACE`, behind its time, to its kind."""
    return b'","writer":"%b","n":%d,"after":"%b","ends":%d,' % (writer, n, after, ends)


class Line(NamedTuple):
    """A line whose MAC is right."""

    body: bytes
    """All bytes before the MAC."""
    mac: str
    writer: str
    """Id of its chain."""
    n: int
    """Its number in the chain."""
    after: str
    """MAC of the line before it in the chain; empty in the first."""
    ends: int
    """The byte at which that line ends."""
    kind: str
    """The decision, for instance ``called``."""

    def fields(self) -> dict[str, Any]:
        """All that it says."""
        fields: dict[str, Any] = json.loads(self.body + b"}")
        return fields


def read_line(data: bytes, keys: Keys) -> Line | None:
    """A line without its newline; None if its MAC is wrong or missing."""
    if _END.match(data, len(data) - END_BYTES) is None or len(data) > MAX_LINE_BYTES:
        return None
    body, mac = data[:-END_BYTES], data[-66:-2]
    if keys.mac(body).encode() != mac or (found := _HEAD.match(body)) is None:
        return None
    writer, n, after, ends, kind = found.groups()
    return Line(body, mac.decode(), writer.decode(), int(n), after.decode(), int(ends), kind.decode())


def pieces_of(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Where each line in these bytes begins, and the line without its newline. What is left of a torn line is a piece
    of its own, also where another line stands right behind it."""
    begins = 0
    for mark in _MARKS.finditer(data):
        ends = mark.start() if mark[1] else mark.end()
        if ends > begins:
            yield begins, data[begins:ends].removesuffix(b"\n")
        begins = ends
    if begins < len(data):
        yield begins, data[begins:]


def is_cut_off(data: bytes) -> bool:
    """Whether this may be the beginning of a line whose writer was stopped while it wrote."""
    return (data.startswith(_BEGIN) or _BEGIN.startswith(data)) and _END.search(data) is None
