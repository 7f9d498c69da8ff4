"""The files of a container's guest: those it was given, below /input, and those its programs leave in /output.

1. `Given` writes before there is a guest. Where the kernel has Landlock, no guest can change what is there.
2. The guest has the user id of this process, and may put anything into /output while it lives. So /output is a
   descriptor that was opened before the guest existed; names are looked up below it one by one; no link is followed,
   and nothing but a regular file is opened.
3. Reading is bounded in files, bytes, names and depth, and goes on piece by piece: see `container`.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
from collections.abc import Iterator
from itertools import islice

from . import frames
from .frames import Frame

INPUT = "/input"
OUTPUT = "/output"
"""The working directory of programs: in the image a link to `_PLACE`."""
_PLACE = "/tmp/output"
_MOST_NAMES = 10_000
_MOST_DEPTH = 16
_PIECE = 1 << 18
_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW
_FOLDER = _READ | os.O_DIRECTORY
_NAME_CHARACTERS = 80
_KINDS = {stat.S_IFIFO: "FIFOs", stat.S_IFSOCK: "sockets", stat.S_IFLNK: "symbolic links"}
_Seen = tuple[int, int, int]


class Given:
    """Writes files below /input, as frames bring them. Raises `OSError`."""

    def __init__(self) -> None:
        self._fd = -1

    def begin(self, name: str) -> None:
        """The bytes that follow are those of the file `name`."""
        self.end()
        place = INPUT
        *above, last = name.split("/")
        for part in above:
            place = f"{place}/{part}"
            with contextlib.suppress(FileExistsError):
                os.mkdir(place, 0o755)
        self._fd = os.open(f"{place}/{last}", os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o444)

    def write(self, data: bytes) -> None:
        left = memoryview(data)
        while left:
            left = left[os.write(self._fd, left) :]

    def end(self) -> None:
        """No more bytes of it."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class Output:
    """The /output of a guest, from before the guest is there. Makes it, with a link to each name in /input."""

    def __init__(self) -> None:
        os.mkdir(_PLACE, 0o755)
        with contextlib.suppress(FileNotFoundError):
            for name in os.listdir(INPUT):
                os.symlink(f"{INPUT}/{name}", f"{_PLACE}/{name}")
        self._fd = os.open(_PLACE, _FOLDER)
        self._as_made = self._state()
        self._seen: dict[str, _Seen] = {}

    def _state(self) -> tuple[int, int]:
        now = os.fstat(self._fd)
        return now.st_mtime_ns, now.st_size

    @property
    def touched(self) -> bool:
        """Whether something was put into it, or taken out, at any time."""
        return self._state() != self._as_made

    def left(self, most: int, most_bytes: int) -> Iterator[Frame]:
        """What is new or has changed since the last call: at most so many files, and so many bytes in all. Raises
        nothing."""
        without = _Without()
        for name, data in self._found(most, most_bytes, without):
            if name is not None:
                yield frames.FILE, json.dumps({"name": name}).encode()
            yield frames.PART, data
        yield frames.COLLECTED, json.dumps({"left": without.lines()}).encode()

    def _found(self, most: int, most_bytes: int, without: _Without) -> Iterator[tuple[str | None, bytes]]:
        """Files in pieces; the first of each file has its name."""
        for folder, name, path, found in self._new(without):
            size = found.st_size
            if not stat.S_ISREG(found.st_mode):
                without.add(path, f"{_KINDS.get(stat.S_IFMT(found.st_mode), 'devices')} are not collected")
            elif most <= 0:
                without.add(path, "the run has as many artifacts as it may have (max_artifacts)")
            elif size > most_bytes:
                without.add(f"{path} of {size:,} bytes", "the artifacts of the run leave no room (max_artifact_bytes)")
            else:
                try:
                    fd = os.open(name, _READ | os.O_NONBLOCK, dir_fd=folder)
                except OSError as error:
                    without.add(path, f"it cannot be read: {error.strerror}")
                    continue
                most, most_bytes = most - 1, most_bytes - size
                yield path, b""
                for piece in _pieces(fd, size):
                    yield None, piece

    def _new(self, without: _Without) -> Iterator[tuple[int, str, str, os.stat_result]]:
        """Everything but folders that is new or has changed: its folder, its name there, its path below /output."""
        seen, names = self._seen, _MOST_NAMES
        self._seen = {}
        todo = [""]
        while todo:
            above = todo.pop()
            try:
                folder = self._opened(above)
            except OSError as error:
                without.add(above or OUTPUT, f"it cannot be read: {error.strerror}")
                continue
            try:
                with os.scandir(folder) as entries:
                    listed = sorted(entry.name for entry in islice(entries, names + 1))
                names -= len(listed)
                if names < 0:
                    without.add(f"{above}{listed[-1]}", f"only {_MOST_NAMES:,} files are looked at")
                    return
                for name in listed:
                    if name.startswith("."):
                        continue
                    path, found = f"{above}{name}", os.stat(name, dir_fd=folder, follow_symlinks=False)
                    now = found.st_ino, found.st_size, found.st_ctime_ns
                    if stat.S_ISDIR(found.st_mode):
                        if path.count("/") < _MOST_DEPTH:
                            todo.append(f"{path}/")
                        else:
                            without.add(path, f"folders are looked into {_MOST_DEPTH} deep")
                    elif seen.get(path) != now and not _of_input(folder, name, found):
                        yield folder, name, path, found
                    self._seen[path] = now
            except OSError as error:  # only while the guest lives and is not frozen
                without.add(above or OUTPUT, f"it cannot be read: {error.strerror}")
            finally:
                os.close(folder)

    def _opened(self, path: str) -> int:
        """A folder below /output, by its path, which ends with a slash."""
        fd = os.dup(self._fd)
        for part in path.split("/")[:-1]:
            try:
                below = os.open(part, _FOLDER, dir_fd=fd)
            finally:
                os.close(fd)
            fd = below
        return fd


class _Without:
    """What was not handed over, and why."""

    def __init__(self) -> None:
        self._first: dict[str, tuple[str, int]] = {}  # reason -> the first name, and how many

    def add(self, name: str, reason: str) -> None:
        first, count = self._first.get(reason, (name, 0))
        self._first[reason] = first, count + 1

    def lines(self) -> list[str]:
        """A line for each reason."""
        lines = []
        for reason, (name, count) in self._first.items():
            shown = "".join(each if each.isprintable() else "?" for each in name[:_NAME_CHARACTERS])
            others = f" and {count - 1:,} more were" if count > 1 else " was"
            lines.append(f"{shown}{others} not kept: {reason}")
        return lines


def _of_input(folder: int, name: str, found: os.stat_result) -> bool:
    """Whether it is a link to a file that came in."""
    try:
        return stat.S_ISLNK(found.st_mode) and os.readlink(name, dir_fd=folder).startswith(f"{INPUT}/")
    except OSError:
        return False


def _pieces(fd: int, size: int) -> Iterator[bytes]:
    """At most `size` bytes of a file, which is closed."""
    try:
        while size > 0 and (piece := os.read(fd, min(size, _PIECE))):
            size -= len(piece)
            yield piece
    except OSError:  # what was read of it is what there is
        return
    finally:
        os.close(fd)
