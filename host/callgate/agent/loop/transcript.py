"""A task's transcript: JSON Lines, one event a line. Writes and reads lines; what they mean together `TaskState` knows.

1. A line is ``{"v": 1, "at": "2026-01-31T12:00:00.000000+00:00", "kind": ..., ...}`` with the event's fields, and is
   handed to the system before the next thing happens: what a killed process has done stands there. Not so a machine
   that loses its power: nothing waits for the disk.
2. A transcript is never overwritten. A new one is a new file, readable by its owner only; a resumed one is appended to.
   One process writes it at a time (`flock`).
3. A transcript holds the conversation and the tools' results, and no key of a model's endpoint.
4. A line has at most 32 MiB, and a file 1 GiB. In a longer line the large parts of what is for people only are left
   out, and a provider's own form of the model's turn. What an agent lets a model say fits in.
5. Reading trusts nothing. A last line that was cut off is left out, since its writer was killed; any other line that is
   not a line of a transcript is refused with its number.
"""

from __future__ import annotations

import fcntl
import functools
import io
import json
import os
import secrets
import stat
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, get_args

from pydantic import AwareDatetime, BaseModel, TypeAdapter, ValidationError

from callgate.agent.events import (
    AgentEvent,
    CallEnded,
    CallProgress,
    ModelReplied,
    Planned,
    PlannedRun,
    TextArrived,
    kind_of,
    to_json,
)
from callgate.agent.models.fitting import is_deeper
from callgate.errors import ConfigurationError

__all__ = ["MAX_LINE_BYTES", "Line", "Transcript", "read_transcript"]

VERSION = 1
MAX_LINE_BYTES = 32 * 1024 * 1024
"""A reply has at most about four million characters (see `models.fitting`), and a character at most six bytes."""
MAX_FILE_BYTES = 1024 * 1024 * 1024
"""Of a transcript that is read."""
_LATE_LINE_BYTES = 64 * 1024
"""From a half of the file on, what is for people only is left out of longer lines."""
_OMITTED = {"omitted": "longer than a line of a transcript may be, nested too deeply, or not a JSON value"}
_MAX_DEPTH = 200
"""Of a part of what is for people; Python reads no JSON that is nested more than about 1,000 deep."""
_BREAKS = {each: f"\\u{ord(each):04x}" for each in "\x85\u2028\u2029"}
"""Where programs break lines, besides those that JSON escapes."""
_UNENCODABLE = (ValueError, RecursionError, TypeError)


@dataclass(frozen=True, slots=True)
class Line:
    """An event, and when it happened."""

    number: int
    at: datetime
    event: AgentEvent


class _Head(BaseModel):
    """The fields of each line."""

    v: Literal[1]
    at: AwareDatetime
    kind: str


class Transcript:
    """A transcript that is written. Made by `create` and `resume`; `close` it."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self._descriptor = descriptor
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self.close()
            blocked = isinstance(error, BlockingIOError)
            why = "is being written by another run" if blocked else f"cannot be locked: {error.strerror}"
            raise ConfigurationError(f"the transcript {path} {why}") from None

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
        if isinstance(event, (TextArrived, CallProgress)):
            return
        try:
            is_late = os.fstat(self._descriptor).st_size > MAX_FILE_BYTES // 2
            left = _encoded(event, _LATE_LINE_BYTES if is_late else MAX_LINE_BYTES)
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
        return os.open(path, flags | os.O_CLOEXEC | os.O_NONBLOCK, 0o600)
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
            read = _line(number, line[:-1])
        except ValueError as error:
            raise ConfigurationError(f"{path}, line {number}: this is not a line of a transcript: {error}") from None
        lines += [] if read is None else [read]
    return lines, whole


def _line(number: int, line: bytes) -> Line | None:
    """The event of a line; None for a form that an earlier callgate only recommended. Raises `ValueError`."""
    if len(line) > MAX_LINE_BYTES:
        raise ValueError(f"it has more than {MAX_LINE_BYTES} bytes")
    try:
        given: Any = json.loads(line, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"it is not JSON ({str(error)[:200]})") from None
    try:
        head = _Head.model_validate(given)
        adapter = _adapters().get(head.kind)
        if adapter is None:
            raise ValueError(f"there is no kind {head.kind!r:.60}")
        if head.kind == "routed" and given.get("rule", "fallback") != "fallback":
            return None
        return Line(number, head.at.astimezone(UTC), adapter.validate_python(given))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise ValueError(f"{'.'.join(map(str, first['loc']))[:100]}: {first['msg'][:200]}") from None


@functools.cache
def _adapters() -> dict[str, TypeAdapter[Any]]:
    kinds = [each for each in get_args(AgentEvent) if each not in (TextArrived, CallProgress)]
    adapters: dict[str, TypeAdapter[Any]] = {kind_of(each): TypeAdapter(each) for each in kinds}
    return {**adapters, "told": adapters["message_added"]}  # its name in earlier transcripts


def _encoded(event: AgentEvent, most: int) -> bytes:
    """The line of an event. Where it would be longer than `most`, the large parts that are for people are left out.

    Raises:
        ConfigurationError: the event does not fit in a line: a value of the operator is too long, or is not JSON.
    """
    head = {"v": VERSION, "at": datetime.now(UTC).isoformat(timespec="microseconds")}
    try:
        text = _json({**head, **to_json(event)})
        if len(text) <= most:
            return text
    except _UNENCODABLE:  # NaN, a circle, odd keys, great depth
        pass
    try:
        text = _json({**head, **_lighter(event, most // 2)})
    except _UNENCODABLE as error:
        kind = type(event).__name__
        raise ConfigurationError(f"{kind} is not a line of a transcript: {str(error)[:200]}") from None
    if len(text) > MAX_LINE_BYTES:
        raise ConfigurationError(f"a line of a transcript has at most {MAX_LINE_BYTES} bytes; this has {len(text)}")
    return text


def _lighter(event: AgentEvent, room: int) -> dict[str, Any]:
    """The event's object without its large dispensable parts. All parts that are for people have the same room."""
    match event:
        case CallEnded(run=run) if run is not None:
            kept = _small(run, room // max(len(run), 1))
            return {**to_json(replace(event, run=None)), "run": kept}
        case Planned():
            return to_json(replace(event, plan=_OMITTED))
        case PlannedRun(results=results):
            share = room // max(sum(map(len, results)), 1)
            return {**to_json(replace(event, results=())), "results": [_small(each, share) for each in results]}
        case ModelReplied():
            return to_json(replace(event, message=replace(event.message, native=None, provider="")))
        case _:
            return to_json(event)


def _small(parts: Mapping[str, Any], room: int) -> dict[str, Any]:
    return {str(name)[:200]: part if _fits(part, room) else _OMITTED for name, part in parts.items()}


def _fits(part: Any, room: int) -> bool:
    try:
        return len(_json(part)) <= room and not is_deeper(part, _MAX_DEPTH)
    except _UNENCODABLE:
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
