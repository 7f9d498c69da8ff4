"""Finds what was changed in an audit log: each edited, dropped, moved or inserted line."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import BinaryIO, Final

from .chain import MAX_LINE_BYTES, Keys, Line, read_line

__all__ = ["ChainFound", "Fault", "Verified", "verify"]

MOST_FAULTS: Final = 1000
"""Faults that are told; further ones are counted."""
_BEGIN: Final = b'{"v":1,"at":'


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
    macs: dict[str, int] = field(default_factory=dict, repr=False)
    """The byte at which each line ends, by its MAC."""

    @property
    def ok(self) -> bool:
        """Whether nothing was changed, as far as a file can tell: see ``docs/audit.md``."""
        return not self.faults


def verify(file: BinaryIO, keys: Keys) -> Verified:
    """Read an audit log from its beginning, and check each line. Raises `OSError`."""
    return _Verifying(keys).whole(file)


@dataclass(frozen=True, slots=True)
class _Bad:
    number: int
    begins: int
    size: int
    """Without the newline."""
    message: str


class _Verifying:
    def __init__(self, keys: Keys) -> None:
        self._keys = keys
        self._found = Verified()
        self._bad: dict[int, _Bad] = {}  # by the byte at which it begins

    def whole(self, file: BinaryIO) -> Verified:
        begins = 0
        for number, data in enumerate(_lines(file), 1):
            self._found.lines = number
            self._take(number, begins, data)
            begins += len(data)
        for bad in self._bad.values():
            self._fault(bad.number, bad.message)
        self._found.faults.sort(key=lambda fault: fault.line)
        return self._found

    def _take(self, number: int, begins: int, data: bytes) -> None:
        line = read_line(data, self._keys) if len(data) <= MAX_LINE_BYTES else None
        if line is None and (at := data.rfind(_BEGIN)) > 0:  # behind what is left of a line that was torn
            line = read_line(data[at:], self._keys)
            if line is not None:
                self._note_bad(number, begins, at)
        if line is None:
            self._note_bad(number, begins, len(data) - data.endswith(b"\n"), cut_off=not data.endswith(b"\n"))
            return
        self._check(number, begins + len(data), line)

    def _note_bad(self, number: int, begins: int, size: int, *, cut_off: bool = False) -> None:
        message = "it is cut off" if cut_off else "it was edited, or its writer had another key"
        if size > MAX_LINE_BYTES:
            message = "it is longer than any line of an audit log"
        self._bad[begins] = _Bad(number, begins, size, message)

    def _check(self, number: int, ends: int, line: Line) -> None:
        fields = line.fields
        chain = self._found.chains.get(line.writer)
        if chain is None:
            chain = self._found.chains[line.writer] = ChainFound(line.writer)
            if line.kind != "opened" or fields["n"] != 0:
                self._fault(number, f"the beginning of its chain is missing: {fields['n']} lines of {line.writer}")
        elif fields["n"] != chain.lines or fields["after"] != chain.head:
            gone = fields["n"] - chain.lines
            what = f"{gone} lines of {line.writer} before it are missing" if gone > 0 else "it was moved or copied"
            self._fault(number, what)
        elif fields["ends"] != chain.ends:
            self._fault(number, "lines of other writers before it are missing, or were moved or inserted")
        elif chain.closed:
            self._fault(number, f"the chain {line.writer} had ended before it")
        follows = fields.get("follows")
        if line.kind == "opened" and follows is not None and self._found.macs.get(follows["mac"]) != follows["ends"]:
            self._fault(number, "lines before it are missing, or were moved: its writer saw another line there")
        for begins, size in fields.get("torn", ()):
            bad = self._bad.get(begins)
            if bad is not None and bad.size == size:
                del self._bad[begins]
        chain.lines, chain.head, chain.ends = fields["n"] + 1, line.mac, ends
        chain.closed = line.kind == "closed"
        chain.lost += fields.get("lost", 0)
        self._found.macs[line.mac] = ends

    def _fault(self, number: int, message: str) -> None:
        if len(self._found.faults) < MOST_FAULTS:
            self._found.faults.append(Fault(number, message))
        else:
            self._found.more_faults += 1


def _lines(file: BinaryIO) -> Iterator[bytes]:
    """The lines of a file with their newlines; a line that is too long comes in parts of at most a megabyte each, of
    which all are too long."""
    while data := file.readline(1 << 20):
        yield data
