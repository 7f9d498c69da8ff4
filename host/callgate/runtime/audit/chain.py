"""The form of an audit log: lines of JSON, each bound by a MAC to the line before. Does no I/O.

1. Each writer (one open log of one process) has a chain of its own, and a file may hold many. A line has the writer's
   id, its number in the chain (``n``), the MAC of the writer's previous line (``after``), and the byte at which that
   line ended (``ends``). So a line of any writer that is dropped, inserted or moved shows in later lines of the others.
2. A line ends with its MAC: HMAC-SHA-256 (RFC 2104) over all bytes before it. Only who has the key can write a line.
3. The first line of a chain (``opened``) names the last line that stood in the file then (``follows``), so that a whole
   chain cannot be dropped from before another.
4. Arguments and results stand in a line as keyed digests: a plain hash of a short secret tells the secret to whoever
   tries them all.
"""

from __future__ import annotations

import hmac
import json
import re
import secrets
import time
from dataclasses import dataclass
from typing import Any, Final

from pydantic_core import PydanticSerializationError, to_json

__all__ = ["KEY_BYTES", "MAX_LINE_BYTES", "Chain", "Keys", "Line", "read_line"]

VERSION: Final = 1
KEY_BYTES: Final = 32
MAX_LINE_BYTES: Final = 64 * 1024
_TAIL: Final = re.compile(rb'^(.*),"mac":"([0-9a-f]{64})"\}\n$', re.DOTALL)


class Keys:
    """Two keys made of one: for MACs of lines, and for digests of values.

    Args:
        key: at least 16 bytes that nobody can guess.
    """

    def __init__(self, key: bytes) -> None:
        self._lines = hmac.digest(key, b"callgate audit: lines", "sha256")
        self._values = hmac.digest(key, b"callgate audit: values", "sha256")

    def mac(self, body: bytes) -> str:
        """The MAC of a line without its end."""
        return hmac.digest(self._lines, body, "sha256").hex()

    def digest(self, text: str) -> str:
        """The digest of a value's JSON text; 128 bits."""
        return hmac.digest(self._values, text.encode("utf-8", "surrogatepass"), "sha256")[:16].hex()


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
        head = f'{{"v":{VERSION},"at":"{self._now()}","writer":"{self.writer}","n":{self.n},"after":"{self.after}",'
        rest = _ascii_json({"kind": kind, **fields})
        body = b'%b"ends":%d,%b' % (head.encode(), self.ends, rest[1:-1])
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


@dataclass(frozen=True, slots=True)
class Line:
    """A line whose MAC is right."""

    mac: str
    fields: dict[str, Any]

    @property
    def writer(self) -> str:
        return str(self.fields["writer"])

    @property
    def kind(self) -> str:
        return str(self.fields["kind"])


def read_line(data: bytes, keys: Keys) -> Line | None:
    """A line with its newline; None if its MAC is wrong or missing."""
    found = _TAIL.match(data)
    if found is None:
        return None
    body, mac = found[1], found[2].decode()
    if not hmac.compare_digest(keys.mac(body), mac):
        return None
    return Line(mac, json.loads(body + b"}"))
