"""A task's transcript: JSON Lines, one event a line. Writes and reads lines; what they mean together `TaskState` knows.

1. A line is ``{"v": 1, "at": "2026-01-31T12:00:00.000000+00:00", "kind": ..., ...}`` with the event's fields, and is
   handed to the system before the next thing happens: what a killed process has done stands there. Not so a machine
   that loses its power: nothing waits for the disk.
2. A transcript is never overwritten. A new one is a new file, readable by its owner only; a resumed one is appended to.
   One process writes it at a time (`flock`).
3. No key of a model's endpoint is in it. What was said and what tools gave is.
4. A line has at most 32 MiB, and a file 1 GiB. In a longer line what people may want to see is left out, the largest
   parts first, and a provider's own form of the model's turn. What an agent lets a model say fits in.
5. Reading trusts nothing: a last line that was cut off is left out, since its writer was killed; anything else that is
   no line of a transcript is refused with its number.
"""

from __future__ import annotations

import fcntl
import functools
import io
import json
import os
import re
import secrets
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, get_args

from pydantic import TypeAdapter, ValidationError

from callgate.agent.events import (
    AgentEvent,
    CallEnded,
    CallProgress,
    ModelReplied,
    Planned,
    PlannedRun,
    TextArrived,
    to_json,
)
from callgate.errors import ConfigurationError

__all__ = ["MAX_LINE_BYTES", "Line", "Transcript", "read_transcript"]

VERSION = 1
MAX_LINE_BYTES = 32 * 1024 * 1024
"""A reply has at most about four million characters (see `replies`), and a character at most six bytes."""
MAX_FILE_BYTES = 1024 * 1024 * 1024
"""Of a transcript that is read. From a half of it on, lines are written without what is for people only."""
_UNWRITTEN = (TextArrived, CallProgress)
_PART_BYTES = 1024 * 1024
"""Of a part of what is for people, in a line that is too long as a whole."""
_OMITTED = {"omitted": "longer than a line of a transcript may be"}
_TOO_MUCH = {"omitted": "the transcript has become too long for what is for people only"}
_NO_JSON = {"omitted": "no JSON value, or nested too deeply"}
_MAX_DEPTH = 200
"""Of a part of what is for people; Python reads no JSON that is nested more than about 1,000 deep."""
_BREAKS = {each: f"\\u{ord(each):04x}" for each in "\x85\u2028\u2029"}
"""Where programs break lines, besides those that JSON escapes."""
_ENDLESS = 1 << 62
_UNENCODABLE = (ValueError, RecursionError, TypeError)


@dataclass(frozen=True, slots=True)
class Line:
    """An event, and when it happened."""

    number: int
    at: datetime
    event: AgentEvent


class Transcript:
    """A transcript that is written. Made by `create` and `resume`; `close` it."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self._descriptor = descriptor

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
        try:
            descriptor = os.open(wanted, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o600)
        except FileExistsError:
            raise ConfigurationError(
                f"the transcript {wanted} is there already: resume it, or name another file"
            ) from None
        except OSError as error:
            raise ConfigurationError(f"the transcript {wanted} cannot be made: {error.strerror}") from None
        made = cls(wanted, descriptor)
        try:
            made._lock()
        except ConfigurationError:
            made.close()
            raise
        return made

    @classmethod
    def resume(cls, path: str | os.PathLike[str]) -> tuple[Transcript, list[Line]]:
        """A transcript that is appended to, and its lines so far. A last line that was cut off is taken away.

        Raises:
            ConfigurationError: it cannot be read or written, somebody else is writing it, or it is no transcript.
        """
        wanted = Path(path)
        try:
            descriptor = os.open(wanted, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError as error:
            raise ConfigurationError(f"the transcript {wanted} cannot be resumed: {error.strerror}") from None
        made = cls(wanted, descriptor)
        try:
            made._lock()
            content = _content(wanted, descriptor)
            whole = content.rfind(b"\n") + 1
            lines = list(_lines(wanted, content[:whole]))
            if not lines:  # somebody else's file, in one line: nothing of it is taken away
                raise ConfigurationError(f"{wanted}, line 1: there is no task in it")
            if whole < len(content):
                os.ftruncate(descriptor, whole)
        except BaseException:
            made.close()
            raise
        return made, lines

    def write(self, event: AgentEvent) -> None:
        """Write an event, unless it is of a kind that transcripts leave out.

        Raises:
            ConfigurationError: it cannot be written.
        """
        if isinstance(event, _UNWRITTEN):
            return
        at = datetime.now(UTC).isoformat(timespec="microseconds")
        line = _encoded(event, at)
        if isinstance(event, CallEnded) and event.artifact is not None and self._is_long(len(line)):
            line = _encoded(replace(event, artifact=_TOO_MUCH), at)
        left = line
        try:
            while left:
                left = left[os.write(self._descriptor, left) :]
        except OSError as error:
            if len(left) < len(line):
                self._take_back(len(line) - len(left))
            raise ConfigurationError(f"the transcript {self.path} cannot be written: {error.strerror}") from None

    def _is_long(self, more: int) -> bool:
        try:
            return os.fstat(self._descriptor).st_size + more > MAX_FILE_BYTES // 2
        except OSError:  # then it cannot be written either
            return False

    def _take_back(self, written: int) -> None:
        """Take away the beginning of a line: the next would stand behind it."""
        try:
            os.ftruncate(self._descriptor, os.fstat(self._descriptor).st_size - written)
        except OSError:
            self.close()  # then what has been cut off stays the last line

    def close(self) -> None:
        """Close the file."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _lock(self) -> None:
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ConfigurationError(f"the transcript {self.path} is being written by another run") from None
        except OSError as error:
            raise ConfigurationError(f"the transcript {self.path} cannot be locked: {error.strerror}") from None


def read_transcript(path: str | os.PathLike[str]) -> list[Line]:
    """The lines of a transcript, for looking at it; it may be written meanwhile.

    Raises:
        ConfigurationError: it cannot be read, or is no transcript.
    """
    wanted = Path(path)
    try:
        descriptor = os.open(wanted, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise ConfigurationError(f"the transcript {wanted} cannot be read: {error.strerror}") from None
    try:
        content = _content(wanted, descriptor)
    finally:
        os.close(descriptor)
    return list(_lines(wanted, content[: content.rfind(b"\n") + 1]))


def _content(path: Path, descriptor: int) -> bytes:
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode):
        raise ConfigurationError(f"the transcript {path} is no file")
    if found.st_size > MAX_FILE_BYTES:
        raise ConfigurationError(f"the transcript {path} has {found.st_size} bytes; at most {MAX_FILE_BYTES} are read")
    pieces = []
    left = found.st_size  # what is written meanwhile is not read: a line of it might not be whole
    try:
        os.lseek(descriptor, 0, os.SEEK_SET)
        while left > 0 and (piece := os.read(descriptor, min(left, 1 << 20))):
            pieces.append(piece)
            left -= len(piece)
    except OSError as error:
        raise ConfigurationError(f"the transcript {path} cannot be read: {error.strerror}") from None
    return b"".join(pieces)


def _lines(path: Path, content: bytes) -> Iterator[Line]:
    for number, line in enumerate(io.BytesIO(content), 1):
        try:
            yield _line(number, line[:-1])
        except ValueError as error:
            raise ConfigurationError(f"{path}, line {number}: this is no line of a transcript: {error}") from None


def _line(number: int, line: bytes) -> Line:
    """Raises `ValueError`."""
    if len(line) > MAX_LINE_BYTES:
        raise ValueError(f"it has more than {MAX_LINE_BYTES} bytes")
    try:
        given: Any = json.loads(line, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"it is not JSON ({str(error)[:200]})") from None
    if not isinstance(given, dict):
        raise ValueError("it is no object")
    if given.get("v") != VERSION:
        raise ValueError(f"its version is {given.get('v')!r:.40}; this callgate reads {VERSION}")
    kind = given.get("kind")
    adapter = _adapters().get(kind) if isinstance(kind, str) else None
    if adapter is None:
        raise ValueError(f"there is no kind {kind!r:.60}")
    try:
        at = datetime.fromisoformat(given["at"])
        offset = at.utcoffset()
    except (KeyError, TypeError, ValueError):
        raise ValueError("`at` is no time") from None
    if offset is None:
        raise ValueError("`at` has no time zone")
    try:
        event = adapter.validate_python({key: value for key, value in given.items() if key not in ("v", "at", "kind")})
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise ValueError(f"{'.'.join(map(str, first['loc']))[:100]}: {first['msg'][:200]}") from None
    return Line(number, at.astimezone(UTC), event)


@functools.cache
def _adapters() -> dict[str, TypeAdapter[Any]]:
    kinds = [each for each in get_args(AgentEvent) if each not in _UNWRITTEN]
    return {re.sub(r"(?<=[a-z])(?=[A-Z])", "_", each.__name__).lower(): TypeAdapter(each) for each in kinds}


def _encoded(event: AgentEvent, at: str) -> bytes:
    """The line of an event.

    Raises:
        ConfigurationError: it has no place in a line: what the operator gave is too long, or is no JSON.
    """
    head = {"v": VERSION, "at": at}
    try:
        line = {**head, **to_json(event)}
        text = _json(line)
        if len(text) <= MAX_LINE_BYTES:
            return text
    except _UNENCODABLE:  # NaN, a circle, odd keys, great depth
        pass
    try:
        text = _json({**head, **_lighter(event)})
    except _UNENCODABLE as error:
        kind = type(event).__name__
        raise ConfigurationError(f"{kind} is no line of a transcript: {str(error)[:200]}") from None
    if len(text) > MAX_LINE_BYTES:
        raise ConfigurationError(f"a line of a transcript has at most {MAX_LINE_BYTES} bytes; this has {len(text)}")
    return text


def _lighter(event: AgentEvent) -> dict[str, Any]:
    """The event's object without what it can do without."""
    match event:
        case CallEnded(artifact=artifact) if artifact is not None:
            kept = _without_largest(artifact)
            fits = _size(kept) <= MAX_LINE_BYTES // 2
            return {**to_json(replace(event, artifact=None)), "artifact": kept if fits else _OMITTED}
        case Planned():
            return to_json(replace(event, plan=_OMITTED))
        case PlannedRun():
            results = [_without_largest(result) for result in event.results]
            fits = sum(map(_size, results)) <= MAX_LINE_BYTES // 2
            return {**to_json(replace(event, results=())), "results": results if fits else [_OMITTED] * len(results)}
        case ModelReplied():
            return to_json(replace(event, message=replace(event.message, native=None, provider="")))
        case _:
            return to_json(event)


def _without_largest(value: Mapping[str, Any]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for name, part in value.items():
        size = _size(part)
        made[str(name)[:200]] = part if size <= _PART_BYTES else _NO_JSON if size == _ENDLESS else _OMITTED
    return made


def _size(value: Any) -> int:
    """Bytes of its JSON; `_ENDLESS` for what has none, or none that everybody reads."""
    try:
        size = len(_json(value))
        return size if _is_flat(value) else _ENDLESS
    except _UNENCODABLE:
        return _ENDLESS


def _is_flat(value: Any) -> bool:
    level = [value]
    for _ in range(_MAX_DEPTH):
        level = [
            below
            for each in level
            if isinstance(each, (dict, list, tuple))
            for below in (each.values() if isinstance(each, dict) else each)
        ]
        if not level:
            return True
    return False


def _json(line: Any) -> bytes:
    try:
        text = json.dumps(line, ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=str)
        for character, escaped in _BREAKS.items():
            text = text.replace(character, escaped)
        return text.encode() + b"\n"
    except UnicodeEncodeError:  # half a surrogate pair, as models write them
        return json.dumps(line, allow_nan=False, separators=(",", ":"), default=str).encode() + b"\n"


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")
