"""The files of a container's guest, as the host sends and takes them. The other side is `callgate_guest.files`.

Files of the host are opened here and nowhere else on their way. A container may be taken over, so what it hands over is
bounded, and believed no further than its form.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from callgate.errors import ConfigurationError
from callgate.sandbox.backend import Collected, Files
from callgate_guest import frames
from callgate_guest.frames import Frame, frame

__all__ = ["Collecting", "Given", "measured", "packed", "room"]

_PIECE = 1 << 20
_PAGE = 4096
_MOST = 1000
"""Files, with 16 folders above each at most: so many names a container's /input has."""
_NAME_CHARACTERS = 17 * 256
"""Of 16 folders and a file."""
_LINES = 32
_LINE_CHARACTERS = 400


@dataclass(frozen=True, slots=True)
class Given:
    """A file for a guest.

    Attributes:
        name: below ``/input``.
        size: bytes that are sent, at most.
    """

    name: str
    source: Path | bytes
    size: int


def measured(files: Files, folders: tuple[str, ...] = ()) -> list[Given]:
    """The files with their sizes now. Blocks.

    Args:
        files: by their names.
        folders: names below ``/input`` that are taken.

    Raises:
        ConfigurationError: one cannot be read, or its name is that of a folder, or of one that another needs.
    """
    if len(files) > _MOST:
        raise ConfigurationError(f"files: a program may have {_MOST:,} files, not {len(files):,}: give it a folder")
    needed = {name.rpartition("/")[0] for name in files}
    for name in files:
        if name.partition("/")[0] in folders:
            raise ConfigurationError(f"files: {name!r}: there is a folder of that name; name one of the two otherwise")
        if name in needed or any(each.startswith(f"{name}/") for each in needed):
            raise ConfigurationError(f"files: {name!r} is a file, and the folder of another: rename one of the two")
    return [Given(name, source, _size(name, source)) for name, source in files.items()]


def _size(name: str, source: Path | bytes) -> int:
    if isinstance(source, bytes):
        return len(source)
    try:
        found = os.stat(source)
    except OSError as error:
        raise _unreadable(name, source, error) from error
    if not stat.S_ISREG(found.st_mode):
        raise ConfigurationError(f"files: {name!r}: {os.fspath(source)!r} is no file")
    return found.st_size


def _unreadable(name: str, source: Path, error: OSError) -> ConfigurationError:
    return ConfigurationError(f"files: {name!r}: {os.fspath(source)!r} cannot be read: {error.strerror}")


def room(given: list[Given]) -> int:
    """Bytes of memory that the files take in a tmpfs, and their names."""
    return sum((each.size // _PAGE + 1) * _PAGE for each in given)


def packed(given: Given) -> Iterator[bytes]:
    """The frames that bring it to the supervisor, one at a time. Blocks. Raises `ConfigurationError`."""
    yield frame(frames.FILE, json.dumps({"name": given.name}).encode())
    if isinstance(given.source, bytes):
        for at in range(0, given.size, _PIECE):
            yield frame(frames.PART, given.source[at : at + _PIECE])
        return
    try:
        fd = os.open(given.source, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)  # a pipe must not make this wait
        with open(fd, "rb", buffering=0) as file:
            left = given.size if stat.S_ISREG(os.fstat(fd).st_mode) else 0
            while left > 0 and (piece := file.read(min(left, _PIECE))):
                left -= len(piece)
                yield frame(frames.PART, piece)
    except OSError as error:
        raise _unreadable(given.name, given.source, error) from error


class Collecting:
    """Takes what a supervisor hands over of /output.

    Args:
        most: files.
        most_bytes: in all.

    Attributes:
        over: no more comes.
        sound: the supervisor has kept to what was asked, and has said that this is all.
    """

    def __init__(self, most: int, most_bytes: int) -> None:
        self._most = most
        self._bytes_left = most_bytes
        self._files: list[tuple[str, list[bytes]]] = []
        self._left: list[str] = []
        self.over = False
        self.sound = False

    def hear(self, found: Frame) -> None:
        """Take one frame; anything but what was asked for ends it."""
        kind, payload = found
        if self.over:
            return
        if kind == frames.FILE:
            name = _member(payload, "name")
            if not isinstance(name, str) or not 0 < len(name) <= _NAME_CHARACTERS or len(self._files) >= self._most:
                self.broken("the container handed over more files, or other names, than it may")
            else:
                self._files.append((name, []))
        elif kind == frames.PART:
            self._bytes_left -= len(payload)
            if self._bytes_left < 0 or not self._files:
                self.broken("the container handed over more bytes than it may")
            elif payload:
                self._files[-1][1].append(payload)
        else:
            told = _member(payload, "left")
            lines = told if isinstance(told, list) else []
            self._left += [_plain(line) for line in lines[:_LINES] if isinstance(line, str)]
            self.over = self.sound = True

    def broken(self, why: str) -> None:
        """It is over. The file that was coming is not whole, and goes."""
        self.over = True
        del self._files[-1:]
        self._left.append(why)

    @property
    def collected(self) -> Collected:
        return Collected(tuple((name, b"".join(parts)) for name, parts in self._files), tuple(self._left))


def _plain(line: str) -> str:
    return "".join(each if each.isprintable() else "?" for each in line[:_LINE_CHARACTERS])


def _member(payload: bytes, name: str) -> Any:
    try:
        found = json.loads(payload)
    except (ValueError, RecursionError):
        return None
    return found.get(name) if isinstance(found, dict) else None
