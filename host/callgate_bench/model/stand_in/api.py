"""What the providers' endpoints have in common: a request is read, the script plays its turn, tokens are counted.

Counted are the texts of a request as it came over the wire: the system text, the text of every message, the name and
the arguments of every call, every result, and the array of tools as compact JSON. What a provider adds is not counted,
for nobody outside knows it: what separates messages, ids, how definitions are written into the prompt, and the
instructions that come with tools (some hundred tokens at Anthropic). Nor is a prompt cache played: all input is new.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from . import checks
from .checks import Answer, Call, Refusal, Refused, Said, Script, Turn, only, required
from .server import Answered, Event

__all__ = ["Asked", "Count", "Heard", "Spoke", "StandIn", "Told", "of_content", "pieces", "wire"]

Count = Callable[[str], int]
"""The tokens of a text."""
_PIECE = 24
"""Characters of a piece of a stream."""


@dataclass(frozen=True)
class Heard:
    """Texts of the user, or of the system, which the script does not see."""

    texts: Sequence[str]
    system: bool = False


@dataclass(frozen=True)
class Spoke:
    """The model spoke: the tools that it called, by the calls' ids; its words, with names and arguments."""

    calls: dict[str, str] = field(default_factory=dict)
    texts: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Told:
    """The result of one call."""

    id: str
    texts: Sequence[str]


@dataclass(kw_only=True)
class Asked:
    """A request, read.

    Attributes:
        said: the conversation, whose texts are counted.
        tools: input schemas of the tools that the model sees, by name.
        descriptions: of the tools.
        strict: names of tools whose arguments always fit the schema.
        choice: ``auto``, ``none``, ``required``, or the name of the one tool that has to be called.
        parallel: whether the model may make several calls at once.
        schema: that the answer has to fit; None for any text.
        texts: that are counted besides.
    """

    said: Sequence[Heard | Spoke | Told]
    tools: Mapping[str, Mapping[str, Any]]
    descriptions: Mapping[str, str]
    texts: Sequence[str]
    strict: Sequence[str] = field(default_factory=list)
    choice: str = "auto"
    parallel: bool = True
    schema: dict[str, Any] | None = None


class StandIn:
    """An endpoint. A subclass reads requests and writes answers of its provider's.

    Args:
        script: the model.
        count: the tokens of a text; without it, four characters are one.
        context_tokens: input beyond this is refused; 0 for no limit.

    Attributes:
        path: of the URL.
        requests: every request that was answered.
    """

    path = ""
    fields: Sequence[str] = ()
    """That the body may have."""
    at_once = True
    """Whether results have to follow their calls before anything else."""

    def __init__(self, script: Script, *, count: Count | None = None, context_tokens: int = 0) -> None:
        self.script = script
        self.requests: list[dict[str, Any]] = []
        self._count = count or (lambda text: len(text) // 4)
        self._context_tokens = context_tokens
        self._calls = 0

    def reply(self, headers: Mapping[str, str], body: dict[str, Any]) -> Answered:
        """The answer: an object, or the events of a stream.

        Raises:
            Refused: the service would say no.
            AssertionError, ValueError: the script does what no model would.
        """
        self.authorize(headers)
        only("body", body, self.fields)
        required(body, "model", str)
        asked = self.read(headers, body)
        turn = self._turn(asked)
        texts = [*asked.texts, *(text for each in asked.said for text in each.texts)]
        before = self._total(texts)
        if 0 < self._context_tokens < before:
            raise self.too_long(before, self._context_tokens)
        said = self.script.play(turn)
        checks.calls(said, asked.tools, choice=asked.choice, parallel=asked.parallel, strict=asked.strict)
        checks.output(said, asked.schema)
        self.requests.append(body)
        answer = self.answer(body, said, before, self._total(_spoken(said)))
        return self.stream(body, answer) if body.get("stream") else answer

    def authorize(self, headers: Mapping[str, str]) -> None:
        """Raises `Refused` where the key or another header is missing."""
        raise NotImplementedError

    def read(self, headers: Mapping[str, str], body: dict[str, Any]) -> Asked:
        """Read a request. Raises `Refused` where the service would not take it."""
        raise NotImplementedError

    def answer(self, body: dict[str, Any], said: list[Said], before: int, after: int) -> dict[str, Any]:
        """Write what the model said, with the tokens `before` and `after`."""
        raise NotImplementedError

    def stream(self, body: dict[str, Any], answer: dict[str, Any]) -> Iterator[Event]:
        """The answer as events."""
        raise Refused("stream: this stand-in does not stream")

    def refusal(self, refused: Refused) -> dict[str, Any]:
        """The service's way to say no."""
        raise NotImplementedError

    def too_long(self, tokens: int, most: int) -> Refused:
        """The service's words for input that is too long."""
        return Refused(f"prompt is too long: {tokens} tokens > {most} maximum")

    def call_id(self, prefix: str) -> str:
        """An id for the next call that the model makes."""
        self._calls += 1
        return f"{prefix}_{self._calls:024}"

    def _total(self, texts: Iterable[str]) -> int:
        return sum(self._count(text) for text in texts if text)

    def _turn(self, asked: Asked) -> Turn:
        """What the model sees when it is its turn."""
        waiting: dict[str, str] = {}
        latest: Mapping[str, str] = {}
        got: dict[str, str] = {}
        turns, user = 0, ""
        for each in asked.said:
            if isinstance(each, Told):
                if each.id not in waiting:
                    raise Refused(f"a result without its call: {each.id}")
                del waiting[each.id]
                got[each.id] = "".join(each.texts)
                continue
            if waiting and self.at_once:
                break
            if isinstance(each, Heard):
                user = user if each.system else " ".join(each.texts) or user
            else:
                turns, latest = turns + 1, each.calls
                waiting |= each.calls
        if waiting:
            raise Refused(f"calls without results after them: {', '.join(waiting)}")
        answers = tuple(Answer(name, got[id]) for id, name in latest.items())
        return Turn(turns, user, asked.tools, asked.descriptions, answers)


def wire(value: Any) -> str:
    """Compact JSON, letters as they are: how the SDKs send it, and how models write arguments."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def of_content(content: Any) -> list[str]:
    """The texts of a message's or a result's content, whether it is one text or a list of parts."""
    if isinstance(content, str):
        return [content]
    return [part["text"] for part in content or () if isinstance(part.get("text"), str)]


def pieces(text: str) -> Iterator[tuple[int, str]]:
    """The pieces of a text in a stream, and where each begins."""
    for begin in range(0, len(text), _PIECE):
        yield begin, text[begin : begin + _PIECE]


def _spoken(said: Sequence[Said]) -> Iterator[str]:
    for each in said:
        if isinstance(each, Call):
            yield from (each.name, wire(dict(each.arguments)))
        else:
            yield each.text if isinstance(each, Refusal) else each
