"""A task's transcript: a file of JSON Lines, one event a line. What the lines mean together `TaskState` knows.

1. A line (see `transcript_lines`) is handed to the system before the next thing happens: what a killed process has done
   stands there. Not so a machine that loses its power: nothing waits for the disk.
2. A transcript is never overwritten. A new one is a new file, readable by its owner only; a resumed one is appended to.
   One process writes it at a time (`portable.lock`).
3. A transcript holds the conversation and the tools' results, and no key of a model's endpoint.
4. A file that is read has at most 1 GiB.
5. Reading trusts nothing. A last line that was cut off is left out, since its writer was killed; any other line that is
   not a line of a transcript is refused with its number.
"""

from __future__ import annotations

import io
import os
import secrets
import stat
from datetime import UTC, datetime
from pathlib import Path

from callgate.agent.events import AgentEvent, is_kept
from callgate.errors import ConfigurationError
from callgate.portable import BINARY, NONBLOCK, lock

from .transcript_lines import MAX_LINE_BYTES, Line, encoded, line_of

__all__ = ["MAX_LINE_BYTES", "Line", "Transcript", "read_transcript"]

MAX_FILE_BYTES = 1024 * 1024 * 1024
"""Of a transcript that is read."""
_LATE_LINE_BYTES = 64 * 1024
"""From a half of the file on, what is for people only is left out of longer lines."""


class Transcript:
    """A transcript that is written. Made by `create` and `resume`; `close` it."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self._descriptor = descriptor
        try:
            why = "" if lock(descriptor) else "is being written by another run"
        except OSError as error:
            why = f"cannot be locked: {error.strerror}"
        if why:
            self.close()
            raise ConfigurationError(f"the transcript {path} {why}")

    @classmethod
    def create(cls, path: str | os.PathLike[str]) -> Transcript:
        """A new transcript.

        Args:
            path: of a file that is not there yet; or of a folder, in which one is made, named by the time.

        Raises:
            ConfigurationError: the file is there already, or cannot be made.
        """
        wanted = Path(path)
        if wanted.is_dir():
            wanted /= f"{datetime.now(UTC):%Y%m%dT%H%M%S}-{secrets.token_hex(4)}.jsonl"
        if os.path.lexists(wanted):
            raise ConfigurationError(f"the transcript {wanted} is there already: resume it, or name another file")
        return cls(wanted, _opened(wanted, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND, "made"))

    @classmethod
    def resume(cls, path: str | os.PathLike[str]) -> tuple[Transcript, list[Line]]:
        """A transcript that is appended to, and its lines so far. A last line that was cut off is taken away.

        Raises:
            ConfigurationError: it cannot be read or written, another run is writing it, or it is not a transcript.
        """
        wanted = Path(path)
        made = cls(wanted, _opened(wanted, os.O_RDWR | os.O_APPEND, "resumed"))
        try:
            lines, whole = _read(wanted, made._descriptor)
            if not lines:  # another program's file, in one line: nothing of it is taken away
                raise ConfigurationError(f"{wanted}, line 1: there is no task in it")
            os.ftruncate(made._descriptor, whole)
        except BaseException:
            made.close()
            raise
        return made, lines

    def write(self, event: AgentEvent) -> None:
        """Write an event, unless it is of a kind that transcripts leave out. Where a line cannot be written whole, no
        other line follows it.

        Raises:
            ConfigurationError: it cannot be written.
        """
        if not is_kept(event):
            return
        try:
            is_late = os.fstat(self._descriptor).st_size > MAX_FILE_BYTES // 2
            left = encoded(event, _LATE_LINE_BYTES if is_late else MAX_LINE_BYTES)
            while left:
                left = left[os.write(self._descriptor, left) :]
        except OSError as error:
            self.close()
            raise ConfigurationError(f"the transcript {self.path} cannot be written: {error.strerror}") from None

    def close(self) -> None:
        """Close the file."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def read_transcript(path: str | os.PathLike[str]) -> list[Line]:
    """The lines of a transcript, for looking at it; it may be written meanwhile.

    Raises:
        ConfigurationError: it cannot be read, or is not a transcript.
    """
    wanted = Path(path)
    descriptor = _opened(wanted, os.O_RDONLY, "read")
    try:
        return _read(wanted, descriptor)[0]
    finally:
        os.close(descriptor)


def _opened(path: Path, flags: int, done: str) -> int:
    try:
        return os.open(path, flags | BINARY | NONBLOCK, 0o600)
    except OSError as error:
        raise ConfigurationError(f"the transcript {path} cannot be {done}: {error.strerror}") from None


def _read(path: Path, descriptor: int) -> tuple[list[Line], int]:
    """The whole lines of a file, and how many bytes they have."""
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode):
        raise ConfigurationError(f"the transcript {path} is not a file")
    if found.st_size > MAX_FILE_BYTES:
        raise ConfigurationError(f"the transcript {path} has {found.st_size} bytes; at most {MAX_FILE_BYTES} are read")
    with open(descriptor, "rb", closefd=False) as file:
        file.seek(0)
        content = file.read(found.st_size)  # of what is written meanwhile, a line might not be whole
    whole = content.rfind(b"\n") + 1
    lines = []
    for number, line in enumerate(io.BytesIO(content[:whole]), 1):
        try:
            read = line_of(number, line[:-1])
        except ValueError as error:
            raise ConfigurationError(f"{path}, line {number}: this is not a line of a transcript: {error}") from None
        lines += [] if read is None else [read]
    return lines, whole
