"""Finds what was changed in an audit log: each edited, dropped, moved or inserted line."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from dataclasses import dataclass, field
from typing import Any, BinaryIO, Final

from .chain import END, END_BYTES, MAX_LINE_BYTES, PLACE, WRITER, Keys, Line, is_cut_off, pieces_of, place_of, read_line

__all__ = ["ChainFound", "Fault", "Verified", "verify"]

MOST_FAULTS: Final = 1000
"""Faults that are told; further ones are counted."""
_PART_BYTES: Final = 1 << 20
"""A line that is longer is read in parts, each of which is a fault."""
_MAC_BYTES: Final = 32


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that is not as it was written."""

    line: int
    """Number of the line in the file; the first is 1."""
    message: str


@dataclass(slots=True)
class ChainFound:
    """The lines of one writer."""

    writer: str
    lines: int = 0
    head: str = ""
    """MAC of its last line: note it elsewhere, and nothing before it can be changed or cut off unseen."""
    ends: int = 0
    """The byte at which that line ends."""
    closed: bool = False
    lost: int = 0
    """Lines that the writer could not write, as it said later."""


@dataclass(slots=True)
class Verified:
    """What was found."""

    lines: int = 0
    chains: dict[str, ChainFound] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)
    more_faults: int = 0
    macs: Macs = field(default_factory=lambda: Macs(), repr=False)

    @property
    def ok(self) -> bool:
        """Whether nothing was changed, as far as a file can tell: see ``docs/audit.md``."""
        return not self.faults


class Macs:
    """The MAC of each line whose MAC is right, and where it ends; 40 bytes a line."""

    def __init__(self) -> None:
        self._ends = array("Q")
        self._macs = bytearray()

    def __contains__(self, mac: str) -> bool:
        try:
            wanted = bytes.fromhex(mac)
        except ValueError:
            return False
        place = self._macs.find(wanted)
        while place % _MAC_BYTES and place > 0:
            place = self._macs.find(wanted, place + 1)
        return place >= 0 and len(wanted) == _MAC_BYTES

    def add(self, mac: str, ends: int) -> None:
        """The line ends at that byte, behind all others."""
        self._ends.append(ends)
        self._macs += bytes.fromhex(mac)

    def at(self, ends: int) -> str:
        """The MAC of the line that ends there; empty if none does."""
        place = bisect_left(self._ends, ends)
        if place == len(self._ends) or self._ends[place] != ends:
            return ""
        return self._macs[place * _MAC_BYTES : (place + 1) * _MAC_BYTES].hex()


def verify(file: BinaryIO, keys: Keys) -> Verified:
    """Read an audit log from its beginning, and check each line. Raises `OSError`."""
    return _Verifying(keys).whole(file)


@dataclass(slots=True)
class _Bad:
    number: int
    message: str
    ends: int
    left: int
    """Bytes that no writer has told as torn."""


class _Verifying:
    def __init__(self, keys: Keys) -> None:
        self._keys = keys
        self._found = Verified()
        self._next: dict[bytes, tuple[ChainFound, bytes]] = {}
        """The chains that are not closed, and what the next line of each says of its place; by writer."""
        self._bad: dict[int, _Bad] = {}
        """Pieces that may be what is left of a torn line, by the byte at which each begins; `MOST_FAULTS` at most."""

    def whole(self, file: BinaryIO) -> Verified:
        found, begins = self._found, 0
        while data := file.readline(_PART_BYTES):
            found.lines += 1
            if not self._goes_on(data, begins):
                for at, piece in pieces_of(data):
                    self._take(begins + at, piece)
            begins += len(data)
        for bad in self._bad.values():
            self._fault(bad.message, bad.number)
        found.faults.sort(key=lambda fault: fault.line)
        return found

    def _goes_on(self, data: bytes, begins: int) -> bool:
        """Take a line that is the next one of its chain, and says nothing of other lines. Nearly all are like this, and
        are compared with what their writer must have written: this is twice as quick as to read them."""
        chain, place = self._next.get(data[WRITER], (None, b""))
        if chain is None or not data.startswith(place, PLACE) or b'"lost":' in data or b'"kind":"closed"' in data:
            return False
        body, mac = data[: -END_BYTES - 1], data[-67:-3].decode("latin-1")
        if self._keys.mac(body) != mac or data[-END_BYTES - 1 : -67] != END[0] or data[-3:] != END[1]:
            return False
        self._add(chain, chain.lines, mac, begins + len(data) - 1)
        return True

    def _add(self, chain: ChainFound, n: int, mac: str, ends: int) -> None:
        chain.lines, chain.head, chain.ends = n + 1, mac, ends
        writer = chain.writer.encode()
        self._next[writer] = chain, place_of(writer, n + 1, mac.encode(), ends)
        self._found.macs.add(mac, ends)

    def _take(self, begins: int, data: bytes) -> None:
        line = read_line(data, self._keys)
        if line is not None:
            self._check(line, begins + len(data))
            return
        message = "it was edited, or its writer had another key"
        if len(data) > MAX_LINE_BYTES:
            message = "it is longer than any line of an audit log"
        elif is_cut_off(data):
            message = "it is cut off: its writer was killed while it wrote this line, or the line was changed"
        if len(self._bad) < MOST_FAULTS:
            self._bad[begins] = _Bad(self._found.lines, message, begins + len(data), len(data))
        else:
            self._found.more_faults += 1

    def _check(self, line: Line, ends: int) -> None:
        chain = self._found.chains.get(line.writer)
        if chain is None:
            chain = self._found.chains[line.writer] = ChainFound(line.writer)
            if line.kind != "opened" or line.n:
                self._fault(f"the beginning of its chain is missing: {line.n} lines of {line.writer}")
        elif line.n != chain.lines or line.after != chain.head:
            gone = line.n - chain.lines
            self._fault(
                f"{gone} lines of {line.writer} before it are missing" if gone > 0 else "it was moved or copied"
            )
        elif line.ends != chain.ends:
            self._fault("lines of other writers before it are missing, or were moved or inserted")
        elif chain.closed:
            self._fault(f"the chain {line.writer} had ended before it")
        if line.kind == "opened" or b'"lost":' in line.body:
            self._read(chain, line.fields())
        self._add(chain, line.n, line.mac, ends)
        if line.kind == "closed":
            chain.closed = True
            del self._next[line.writer.encode()]

    def _read(self, chain: ChainFound, fields: dict[str, Any]) -> None:
        """Check what few lines say: what stood in the file before, and what could not be written."""
        follows = fields.get("follows")
        if follows is not None and self._found.macs.at(follows["ends"]) != follows["mac"]:
            self._fault("lines before it are missing, or were moved: its writer saw another line there")
        chain.lost += fields.get("lost", 0)
        for begins, size in fields.get("torn", ()):
            for place, bad in self._bad.items():  # one piece may be of several torn lines
                if place <= begins and begins + size <= bad.ends:
                    bad.left -= size
                    if not bad.left:
                        del self._bad[place]
                    break

    def _fault(self, message: str, number: int | None = None) -> None:
        if len(self._found.faults) < MOST_FAULTS:
            self._found.faults.append(Fault(self._found.lines if number is None else number, message))
        else:
            self._found.more_faults += 1
