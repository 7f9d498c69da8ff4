"""Models that write down what was asked and answered, and that answer from such a file, with no endpoint.

A recording is JSONL. Its first line names the provider whose form it has; each other line is one reply, with digests of
the request that it answered: of the system text, each tool (name and schema), each message, the tool choice and the
output's schema. Descriptions of tools, temperatures and limits are not part of it: they may be reworded without
recording again.

A request never holds a key of the API; the model's own, and the keys in the environment, are redacted in what is
written. A recording is readable by its owner only, and is not written through a link that somebody put in its place.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, TypeVar

import anyio.lowlevel
from pydantic import BaseModel, ValidationError

from callgate.artifacts import HANDLE
from callgate.errors import ConfigurationError, ModelRejected
from callgate.portable import NOFOLLOW, NONBLOCK

from .connection import SHORTEST_SECRET, secrets_of
from .fitting import sendable
from .messages_json import message_to_json, reply_to_json
from .model import Delta, Message, Model, ModelProvider, Reply, Request
from .scripted import in_pieces

__all__ = ["RecordingModel", "ReplayModel"]

_SHOWN = 200
"""Characters of a text in the readable part of a line, and in errors."""


class _Head(BaseModel):
    """The first line."""

    kind: Literal["callgate recording"]
    version: Literal[1]
    provider: ModelProvider
    model: str


class _Parts(BaseModel):
    """Digests of the parts of a request; of the tools by name."""

    system: str
    tools: dict[str, str]
    messages: tuple[str, ...]


class _Summary(BaseModel):
    """The readable part of a request: the tool choice with a digest of the output's schema, and the last message."""

    choice: str
    last: str = ""


class _Line(BaseModel):
    request: _Summary
    parts: _Parts
    reply: Reply


_Read = TypeVar("_Read", _Head, _Line)


class RecordingModel:
    """Asks a model, and writes what it replies; see `Model`. What the endpoint fails to answer is not written.

    Args:
        model: that is asked.
        path: of the recording; made anew with the first reply. What is there has to be a recording.
        append: go on with the recording that is there, instead.
        secrets: texts that are redacted in what is written, beside the API keys in the environment, and the model's.

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
        given = [each for each in secrets if len(each) >= SHORTEST_SECRET]
        known = {*given, *secrets_of(*getattr(model, "secrets", ()))}
        self._secrets = sorted(known, key=len, reverse=True)  # a short one may be a part of a longer one
        if self._path.exists():
            provider = _opened(self._path)[0].provider
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
        choice, parts = _digests(request, self._redacted)
        summary = {
            "system": _short(self._redacted(sendable(request.system))),
            "tools": sorted(parts.tools),
            "last": _last(request.messages, self._redacted),
            "messages": len(parts.messages),
            "choice": choice,
        }
        reply = await self._model.ask(request, on_delta=on_delta)
        digest = _digest([parts.system, sorted(parts.tools.items()), choice, parts.messages])
        line = {"digest": digest, "request": summary, "parts": parts.model_dump(), "reply": reply_to_json(reply)}
        self._write(self._redacted(json.dumps(line)))
        return reply

    async def aclose(self) -> None:
        await self._model.aclose()

    def _write(self, text: str) -> None:
        # a link that was put there since is not followed, and a pipe is not waited for
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | NOFOLLOW | NONBLOCK
        try:
            with os.fdopen(os.open(self._path, flags, 0o600), "a", encoding="utf-8") as file:
                if not self._begun:
                    file.truncate(0)
                    head = _Head(kind="callgate recording", version=1, provider=self.provider, model=self.name)
                    file.write(head.model_dump_json() + "\n")
                file.write(text + "\n")
        except OSError as error:
            raise ConfigurationError(f"the recording {self._path} cannot be written: {error.strerror}") from error
        self._begun = True

    def _redacted(self, text: str) -> str:
        for secret in self._secrets:
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
        head, lines = _opened(self._path)
        self._provider = head.provider
        self._name = head.model[:_SHOWN] if name is None else name
        self._left = [
            _read(_Line, line, f"{self._path}, line {number}: the line is not that of a request")
            for number, line in enumerate(lines, 2)
            if line.strip()
        ]
        self._recorded = len(self._left)

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
        if on_delta is not None:  # of calls nothing comes early, so that a replayed task runs alike each time
            await in_pieces(replace(reply.turn, calls=()), on_delta)
        return reply

    async def aclose(self) -> None:
        """Nothing is open."""

    def _position(self, request: Request) -> int:
        again = f"record it again (callgate agent --record FILE, or RecordingModel(model, {str(self._path)!r}))"
        if not self._left:
            raise ModelRejected(f"the recording has {self._recorded} replies, and all were given: {again}")
        if self._match == "order":
            return 0
        choice, parts = _digests(request, str)
        for position, line in enumerate(self._left):
            if (line.request.choice, line.parts) == (choice, parts):
                return position
        difference = _difference(self._left, choice, parts, request.messages)
        raise ModelRejected(f"the recording has no reply to this request: {difference}. If that is meant, {again}")


def _digests(request: Request, redacted: Callable[[str], str]) -> tuple[str, _Parts]:
    """The tool choice with a digest of the output's schema, and the digests of all other parts of a request."""
    tools = {}
    for tool in request.tools:
        function = tool.get("function", tool)
        schema = function.get("parameters", function.get("input_schema"))
        tools[str(function.get("name", tool.get("type", "")))] = _digest(schema)
    choice = request.tool_choice
    if request.json_schema is not None:
        choice += f", output {_digest(dict(request.json_schema))}"
    messages = tuple(
        _digest(HANDLE.sub("art_", redacted(_canonical(message_to_json(each))))) for each in request.messages
    )
    return choice, _Parts(system=_digest(redacted(request.system)), tools=tools, messages=messages)


def _difference(lines: Sequence[_Line], choice: str, parts: _Parts, messages: Sequence[Message]) -> str:
    """The first difference from the recorded request that begins with the most of the same messages."""

    def same(line: _Line) -> int:
        pairs = list(zip(line.parts.messages, parts.messages, strict=False))
        return next((place for place, (one, other) in enumerate(pairs) if one != other), len(pairs))

    nearest = max(lines, key=lambda line: (same(line), -abs(len(line.parts.messages) - len(messages))))
    recorded = nearest.parts
    if recorded.system != parts.system:
        return (
            "its system text differs from the recorded one's; system prompt, mode and, in mode auto, the task make it"
        )
    for name in sorted(recorded.tools.keys() | parts.tools.keys()):
        if name not in parts.tools:
            return f"the tool {name} of the recorded request is not among its tools"
        if name not in recorded.tools:
            return f"its tool {name} is not among the recorded request's"
        if recorded.tools[name] != parts.tools[name]:
            return f"the schema of its tool {name} differs from the recorded one"
    position = same(nearest)
    if position < min(len(recorded.messages), len(messages)):
        was = f", and was {nearest.request.last}" if position + 1 == len(recorded.messages) else ""
        return f"its message {position + 1} differs: it is {_last(messages[: position + 1], str)}{was}"
    if len(recorded.messages) != len(messages):
        return f"it has {len(messages)} messages, and the recorded one {len(recorded.messages)}"
    return f"its tool choice is {choice}, and was {nearest.request.choice}"


def _opened(path: Path) -> tuple[_Head, list[bytes]]:
    """The first line as a `_Head`, and all other lines unread."""
    try:
        if not path.is_file() and path.exists():  # a pipe would be waited for
            raise ConfigurationError(f"the recording {path} is not a file")
        head, *lines = path.read_bytes().split(b"\n")
    except OSError as error:
        raise ConfigurationError(f"the recording {path} cannot be read: {error.strerror}") from error
    return _read(_Head, head, f"{path} is not a recording: its first line"), lines


def _read(kind: type[_Read], line: bytes, place: str) -> _Read:
    try:
        return kind.model_validate_json(line)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise ConfigurationError(f"{place}: {f'{where}: ' if where else ''}{first['msg']}") from None


def _last(messages: Sequence[Message], redacted: Callable[[str], str]) -> str:
    """The last message, shortened."""
    return _short(redacted(_canonical(message_to_json(messages[-1])))) if messages else "nothing"


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), default=str)


def _digest(value: Any) -> str:
    return hashlib.sha256(_canonical(value).encode()).hexdigest()[:16]
