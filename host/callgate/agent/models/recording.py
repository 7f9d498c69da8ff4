"""Models that write down what was asked and answered, and that answer from such a file, with no endpoint.

A recording is JSONL. Its first line says whose form it has; each other line is one reply, with digests of the request
that it answered: of the system text, each tool (name and schema), each message, the tool choice and the output's
schema. Descriptions of tools, temperatures and limits are not part of it: they may be reworded without recording again.

A request never holds a key of the API; the model's own, and the keys in the environment, are struck from what is
written. A recording is readable by its owner only, and is not written through a link that somebody put in its place.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast, get_args

import anyio
import anyio.lowlevel
import anyio.to_thread

from callgate.errors import ConfigurationError, ModelRejected

from .messages_json import Unreadable, message_to_json, reply_from_json, reply_to_json
from .model import Delta, Message, Model, ModelProvider, Reply, Request
from .pieces import in_pieces

__all__ = ["RecordingModel", "ReplayModel"]

_KIND = "callgate recording"
_VERSION = 1
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
        path: of the recording; made anew with the first reply. What is there has to be a recording.
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
        if self._path.exists():
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
        # a link that was put there since is not followed, and a pipe is not waited for
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        try:
            with os.fdopen(os.open(self._path, flags, 0o600), "a", encoding="utf-8") as file:
                if not self._begun:
                    head = {"kind": _KIND, "version": _VERSION, "provider": self.provider, "model": self.name}
                    file.truncate(0)
                    file.write(json.dumps(head) + "\n")
                file.write(text + "\n")
        except OSError as error:
            raise ConfigurationError(f"the recording {self._path} cannot be written: {error.strerror}") from error
        self._begun = True

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
        ConfigurationError: the file is not there, or is not a recording.
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
    """How many messages are the same, from the first one on."""
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


def _header(path: Path) -> tuple[ModelProvider, str]:
    try:
        if not path.is_file() and path.exists():  # a pipe would be waited for
            raise ConfigurationError(f"the recording {path} is not a file")
        with path.open("rb") as file:
            head = _object(file.readline(100_000))
    except OSError as error:
        raise ConfigurationError(f"the recording {path} cannot be read: {error.strerror}") from error
    except Unreadable as error:
        raise ConfigurationError(f"{path} is not a recording: its first line: {error}") from error
    provider, name = head.get("provider"), head.get("model")
    if head.get("kind") != _KIND or head.get("version") != _VERSION or provider not in get_args(ModelProvider):
        raise ConfigurationError(
            f'{path} is not a recording: its first line has no "kind": "{_KIND}", version {_VERSION} and provider'
        )
    return cast(ModelProvider, provider), str(name)[:_SHOWN]


def _lines(path: Path) -> list[_Line]:
    lines = []
    with path.open("rb") as file:
        file.readline()
        for number, text in enumerate(file, 2):
            if not text.strip():
                continue
            try:
                lines.append(_line(_object(text)))
            except Unreadable as error:
                raise ConfigurationError(f"{path}, line {number}: {error}; remove the line, or record again") from error
    return lines


def _object(line: bytes) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise Unreadable(f"this is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise Unreadable(f"a JSON object was expected, and this is {type(value).__name__}")
    return value


def _line(given: dict[str, Any]) -> _Line:
    try:
        parts, request = given["parts"], given["request"]
        asked = _Asked(parts["system"], parts["tools"], request["choice"], tuple(parts["messages"]))
        digest = asked.digest
    except (KeyError, TypeError, AttributeError) as error:
        raise Unreadable(f"it is not the line of a request: {type(error).__name__}: {error}") from error
    if given.get("digest") != digest:
        raise Unreadable("the digest is not that of its parts")
    return _Line(asked, str(request.get("last", "")), reply_from_json(given.get("reply")))


def _last(messages: Sequence[Message], struck: Callable[[str], str]) -> str:
    """The last message, shortened."""
    return _short(struck(_canonical(message_to_json(messages[-1])))) if messages else "nothing"


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), default=str)


def _digest(value: Any) -> str:
    return hashlib.sha256(_canonical(value).encode()).hexdigest()[:16]
