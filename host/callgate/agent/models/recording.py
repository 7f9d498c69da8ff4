"""Models that write down what was asked and answered, and that answer from such a file, with no endpoint.

A recording is JSONL. Its first line says whose form it has; each other line is one reply, with digests of the request
that it answered: of the system text, each tool (name and schema), each message, the tool choice and the output's
schema. Descriptions of tools, temperatures and limits are not part of it: they may be reworded without recording again.

A request never holds a key of the API; the model's own, and what stands in the environment as one, is struck from what
is written. A recording is readable by its owner only, and never written through what somebody else put in its place.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import anyio
import anyio.lowlevel
import anyio.to_thread

from callgate.errors import ConfigurationError, ModelRejected

from .messages_json import Unreadable, message_to_json, object_of, reply_from_json, reply_to_json
from .model import Delta, Message, Model, ModelProvider, Reply, Request
from .pieces import in_pieces

__all__ = ["RecordingModel", "ReplayModel"]

_KIND = "callgate recording"
_VERSION = 1
_MOST_FILE_BYTES = 200_000_000
_MOST_LINES = 100_000
_MOST_VALUES = 10_000_000
"""Of brackets and commas: each may take some 70 bytes of memory when it is read."""
_SHOWN = 200
"""Characters of a text in the readable part of a line, and in errors."""
_KEY_NAMES = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN")
_SHORTEST_KEY = 8
"""Characters; a shorter value would be struck from ordinary words."""


@dataclass(frozen=True, slots=True)
class _Asked:
    """A request by its digests.

    Attributes:
        system: of the system text.
        tools: of each tool, by name.
        choice: the tool choice itself, with a digest of the output's schema where there is one.
        messages: of each message.
    """

    system: str
    tools: Mapping[str, str]
    choice: str
    messages: tuple[str, ...]

    @property
    def digest(self) -> str:
        return _digest([self.system, sorted(self.tools.items()), self.choice, self.messages])


@dataclass(frozen=True, slots=True)
class _Line:
    asked: _Asked
    last: str
    reply: Reply


class RecordingModel:
    """Asks a model, and writes what it replies; see `Model`. What the endpoint fails to answer is not written.

    Args:
        model: that is asked.
        path: of the recording; made anew with the first reply. What is there has to be a recording, and still the same
            file then.
        append: go on with the recording that is there, instead.
        secrets: texts that are struck from what is written, beside the API keys in the environment, and the model's.

    Raises:
        ConfigurationError: at `path` is something else than a recording, or one of another provider; in `ask`: it
            cannot be written.
    """

    def __init__(
        self, model: Model, path: str | os.PathLike[str], *, append: bool = False, secrets: Sequence[str] = ()
    ) -> None:
        self._model = model
        self._path = Path(path)
        self._begun = False
        own: Sequence[str] = getattr(model, "secrets", ())
        self._secrets = [*own, *secrets, *(os.environ.get(name, "") for name in _KEY_NAMES)]
        self._lock = anyio.Lock()
        self._known: tuple[int, int] | None = None
        if self._path.exists():
            self._known = _identity(self._path.stat())
            provider, _ = _header(self._path)
            if append and provider != model.provider:
                raise ConfigurationError(
                    f"{self._path} is a recording of {provider}, and the model is of {model.provider}: record to "
                    "another file"
                )
            self._begun = append

    @property
    def name(self) -> str:
        return self._model.name

    @property
    def provider(self) -> ModelProvider:
        return self._model.provider

    async def ask(self, request: Request, *, on_delta: Callable[[Delta], None] | None = None) -> Reply:
        """See `Model.ask`."""
        asked, last = _asked(request, self._struck), _last(request.messages, self._struck)
        summary = {"system": _short(self._struck(request.system)), "tools": sorted(asked.tools), "last": last}
        reply = await self._model.ask(request, on_delta=on_delta)
        line = {
            "digest": asked.digest,
            "request": {**summary, "messages": len(asked.messages), "choice": asked.choice},
            "parts": {"system": asked.system, "tools": dict(asked.tools), "messages": list(asked.messages)},
            "reply": reply_to_json(reply),
        }
        text = self._struck(json.dumps(line))
        async with self._lock:
            await anyio.to_thread.run_sync(self._write, text)
        return reply

    async def aclose(self) -> None:
        await self._model.aclose()

    def _write(self, text: str) -> None:
        try:
            with os.fdopen(self._opened(), "a", encoding="utf-8") as file:
                if not self._begun:
                    head = {"kind": _KIND, "version": _VERSION, "provider": self.provider, "model": self.name}
                    file.truncate(0)
                    file.write(json.dumps(head) + "\n")
                file.write(text + "\n")
        except OSError as error:
            raise ConfigurationError(f"the recording {self._path} cannot be written: {error.strerror}") from error
        self._begun = True

    def _opened(self) -> int:
        """The file that was there at the beginning, or a new one; never what was put there since."""
        flags = os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC
        if self._known is None:
            descriptor = os.open(self._path, flags | os.O_CREAT | os.O_EXCL, 0o600)
            self._known = _identity(os.fstat(descriptor))
            return descriptor
        descriptor = os.open(self._path, flags | os.O_NONBLOCK)
        if _identity(os.fstat(descriptor)) != self._known:
            os.close(descriptor)
            raise ConfigurationError(f"the recording {self._path} is another file now, and is not written")
        return descriptor

    def _struck(self, text: str) -> str:
        for secret in self._secrets:
            if len(secret) >= _SHORTEST_KEY:
                text = text.replace(json.dumps(secret)[1:-1], "[secret]").replace(secret, "[secret]")
        return text


class ReplayModel:
    """Answers from a recording; see `Model`.

    Args:
        path: of the recording.
        match: ``"request"``: with the reply to the same request; where it was recorded several times, in their order.
            ``"order"``: with one reply after the other, whatever is asked, for requests that hold what changes from
            machine to machine; not for several requests at the same time.
        name: of the model; None for the recorded one's.

    Raises:
        ConfigurationError: the file is not there, or is no recording.
    """

    def __init__(
        self, path: str | os.PathLike[str], *, match: Literal["request", "order"] = "request", name: str | None = None
    ) -> None:
        if match not in ("request", "order"):
            raise ConfigurationError(f'match is "request" or "order", not {match!r}')
        self._path = Path(path)
        self._match = match
        self._provider, recorded = _header(self._path)
        self._name = recorded if name is None else name
        self._left = _lines(self._path)
        self._told = len(self._left)

    @property
    def name(self) -> str:
        return self._name

    @property
    def provider(self) -> ModelProvider:
        return self._provider

    @property
    def left(self) -> int:
        """Replies that were not asked for so far."""
        return len(self._left)

    async def ask(self, request: Request, *, on_delta: Callable[[Delta], None] | None = None) -> Reply:
        """See `Model.ask`.

        Raises:
            ModelRejected: the recording has no (further) reply to this request; the text says what differs.
        """
        await anyio.lowlevel.checkpoint()
        reply = self._left.pop(self._position(request)).reply
        if on_delta is not None:
            await in_pieces(reply.turn, on_delta)
        return reply

    async def aclose(self) -> None:
        """Nothing is open."""

    def _position(self, request: Request) -> int:
        again = f"record it again (callgate agent --record FILE, or RecordingModel(model, {str(self._path)!r}))"
        if not self._left:
            raise ModelRejected(f"the recording has {self._told} replies, and all were given: {again}")
        if self._match == "order":
            return 0
        asked = _asked(request, str)
        for position, line in enumerate(self._left):
            if line.asked == asked:
                return position
        nearest = max(self._left, key=lambda line: _likeness(line.asked, asked))
        difference = _difference(nearest, asked, request.messages)
        raise ModelRejected(f"the recording has no reply to this request: {difference}. If that is meant, {again}")


def _asked(request: Request, struck: Callable[[str], str]) -> _Asked:
    tools = {}
    for tool in request.tools:
        function = tool.get("function", tool)
        schema = function.get("parameters", function.get("input_schema"))
        tools[str(function.get("name", tool.get("type", "")))] = _digest(schema)
    choice = request.tool_choice
    if request.json_schema is not None:
        choice += f", output {_digest(dict(request.json_schema))}"
    messages = tuple(_digest(struck(_canonical(message_to_json(each)))) for each in request.messages)
    return _Asked(_digest(struck(request.system)), tools, choice, messages)


def _likeness(recorded: _Asked, asked: _Asked) -> tuple[int, int, int]:
    tools = sum(recorded.tools.get(name) == digest for name, digest in asked.tools.items())
    length = -abs(len(recorded.messages) - len(asked.messages))
    return _alike(recorded.messages, asked.messages), length, tools + (recorded.system == asked.system)


def _alike(one: Sequence[str], other: Sequence[str]) -> int:
    """So many messages are the same from the beginning."""
    position = 0
    while position < min(len(one), len(other)) and one[position] == other[position]:
        position += 1
    return position


def _difference(line: _Line, asked: _Asked, messages: Sequence[Message]) -> str:
    """What differs first from the recorded request."""
    recorded = line.asked
    if recorded.system != asked.system:
        return (
            "its system text differs from the recorded one's; system prompt, mode and, in mode auto, the task make it"
        )
    for name in sorted(recorded.tools.keys() | asked.tools.keys()):
        if name not in asked.tools:
            return f"the tool {name} of the recorded request is not among its tools"
        if name not in recorded.tools:
            return f"its tool {name} is not among the recorded request's"
        if recorded.tools[name] != asked.tools[name]:
            return f"the schema of its tool {name} differs from the recorded one"
    position = _alike(recorded.messages, asked.messages)
    if position < min(len(recorded.messages), len(asked.messages)):
        now = _last(messages[: position + 1], str)
        was = f", and was {line.last}" if position + 1 == len(recorded.messages) else ""
        return f"its message {position + 1} differs: it is {now}{was}"
    if len(recorded.messages) != len(asked.messages):
        return f"it has {len(asked.messages)} messages, and the recorded one {len(recorded.messages)}"
    return f"its tool choice is {asked.choice}, and was {recorded.choice}"


def _identity(found: os.stat_result) -> tuple[int, int]:
    return found.st_dev, found.st_ino


def _header(path: Path) -> tuple[ModelProvider, str]:
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode):  # a pipe would be waited for
            raise ConfigurationError(f"the recording {path} is no file")
        size = found.st_size
        with path.open("rb") as file:
            first = file.readline(100_000)
    except OSError as error:
        raise ConfigurationError(f"the recording {path} cannot be read: {error.strerror}") from error
    if size > _MOST_FILE_BYTES:
        raise ConfigurationError(f"{path} is larger than a recording may be ({_MOST_FILE_BYTES} bytes)")
    try:
        head = object_of(first)
    except Unreadable as error:
        raise ConfigurationError(f"{path} is no recording: its first line: {error}") from error
    if head.get("kind") != _KIND or head.get("version") != _VERSION:
        raise ConfigurationError(f'{path} is no recording: its first line has no "kind": "{_KIND}", version {_VERSION}')
    provider, name = head.get("provider"), head.get("model")
    if provider not in ("openai", "anthropic") or not isinstance(name, str):
        raise ConfigurationError(f"{path} is no recording: its first line names no provider and model")
    return provider, name[:_SHOWN]


def _lines(path: Path) -> list[_Line]:
    lines = []
    values = 0
    with path.open("rb") as file:
        file.readline()
        for number, text in enumerate(file, 2):
            if number > _MOST_LINES:
                raise ConfigurationError(f"{path} has more lines than a recording may have ({_MOST_LINES})")
            if not text.strip():
                continue
            values += text.count(b"{") + text.count(b"[") + text.count(b",")
            if values > _MOST_VALUES:
                raise ConfigurationError(f"{path} has more values than a recording may have ({_MOST_VALUES})")
            try:
                lines.append(_line(object_of(text)))
            except Unreadable as error:
                raise ConfigurationError(f"{path}, line {number}: {error}; remove the line, or record again") from error
    return lines


def _line(given: dict[str, Any]) -> _Line:
    parts, request = given.get("parts"), given.get("request")
    if not isinstance(parts, dict) or not isinstance(request, dict):
        raise Unreadable("parts and request have to be objects")
    system, tools, messages = parts.get("system"), parts.get("tools"), parts.get("messages")
    choice, last = request.get("choice"), request.get("last", "")
    if not (isinstance(system, str) and isinstance(choice, str) and isinstance(last, str)):
        raise Unreadable("parts.system, request.choice and request.last have to be texts")
    if not isinstance(tools, dict) or not all(isinstance(each, str) for each in tools.values()):
        raise Unreadable("parts.tools has to be an object of texts")
    if not isinstance(messages, list) or not all(isinstance(each, str) for each in messages):
        raise Unreadable("parts.messages has to be a list of texts")
    asked = _Asked(system, tools, choice, tuple(messages))
    if given.get("digest") != asked.digest:
        raise Unreadable("the digest is not that of its parts")
    return _Line(asked, last, reply_from_json(given.get("reply")))


def _last(messages: Sequence[Message], struck: Callable[[str], str]) -> str:
    """The last message, shortened."""
    return _short(struck(_canonical(message_to_json(messages[-1])))) if messages else "nothing"


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), default=str)


def _digest(value: Any) -> str:
    return hashlib.sha256(_canonical(value).encode()).hexdigest()[:16]
