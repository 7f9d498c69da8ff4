"""A line of a transcript: an event as JSON, and back. Knows nothing of files.

1. A line is ``{"v": 1, "at": "2026-01-31T12:00:00.000000+00:00", "kind": ..., ...}`` with the event's fields.
2. A line has at most 32 MiB. In a longer one the large parts of what is for people only are left out, and a provider's
   own form of the model's turn. What an agent lets a model say fits in.
3. Reading trusts nothing: what is not a line of a transcript is refused.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Literal, get_args

from pydantic import AwareDatetime, BaseModel, TypeAdapter, ValidationError

from callgate.agent.events import (
    MAX_DEPTH,
    AgentEvent,
    CallEnded,
    CallProgress,
    InnerEvent,
    ModelReplied,
    Planned,
    PlannedRun,
    TextArrived,
    inner_json,
    kind_of,
    to_json,
)
from callgate.agent.models.fitting import is_deeper
from callgate.errors import ConfigurationError

__all__ = ["MAX_LINE_BYTES", "Line", "encoded", "line_of"]

VERSION = 1
MAX_LINE_BYTES = 32 * 1024 * 1024
"""A reply has at most about four million characters (see `models.fitting`), and a character at most six bytes."""
_OMITTED = {"omitted": "longer than a line of a transcript may be, nested too deeply, or not a JSON value"}
_MAX_DEPTH = 200
"""Of a part of what is for people; Python reads no JSON that is nested more than about 1,000 deep."""
_BREAKS = {each: f"\\u{ord(each):04x}" for each in "\x85\u2028\u2029"}
"""Where programs break lines, besides those that JSON escapes."""
_INNER = kind_of(InnerEvent)
_NO_LINES = (TextArrived, CallProgress, InnerEvent)
"""Events that no line is made of; one inside another is read by itself."""
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


class _Place(BaseModel):
    """The fields of an `InnerEvent` but its event."""

    turn: int
    call: str
    agent: str
    task: str


def line_of(number: int, line: bytes) -> Line | None:
    """Read a line. None for a form that an earlier callgate only recommended. Raises `ValueError`."""
    if len(line) > MAX_LINE_BYTES:
        raise ValueError(f"it has more than {MAX_LINE_BYTES} bytes")
    try:
        given: Any = json.loads(line, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"it is not JSON ({str(error)[:200]})") from None
    try:
        head = _Head.model_validate(given)
        if head.kind == "routed" and given.get("rule", "fallback") != "fallback":
            return None
        return Line(number, head.at.astimezone(UTC), _event(given))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise ValueError(f"{'.'.join(map(str, first['loc']))[:100]}: {first['msg'][:200]}") from None


def _event(given: Any, depth: int = 0) -> AgentEvent:
    kind = given.get("kind") if isinstance(given, dict) else None
    if not isinstance(kind, str):
        raise ValueError("an event in it is not an object with a kind")
    if kind == _INNER:
        if depth == MAX_DEPTH:
            raise ValueError(f"it has more than {MAX_DEPTH} agents inside each other")
        place = _Place.model_validate(given)
        return InnerEvent(**place.model_dump(), event=_event(given.get("event"), depth + 1))
    adapter = _adapters().get(kind)
    if adapter is None:
        raise ValueError(f"there is no kind {kind!r:.60}")
    event: AgentEvent = adapter.validate_python(given)
    return event


@functools.cache
def _adapters() -> dict[str, TypeAdapter[Any]]:
    kinds = [each for each in get_args(AgentEvent) if each not in _NO_LINES]
    adapters: dict[str, TypeAdapter[Any]] = {kind_of(each): TypeAdapter(each) for each in kinds}
    return {**adapters, "told": adapters["message_added"]}  # its name in earlier transcripts


def encoded(event: AgentEvent, most: int) -> bytes:
    """Write an event as a line. Where it would be longer than `most`, the large parts that are for people are left out.

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
        case InnerEvent():
            return inner_json(event, _lighter(event.event, room))
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
