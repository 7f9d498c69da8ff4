"""The common part of the providers' endpoints: read a request, let the script play its turn, count the tokens.

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
from .checks import Answer, Call, Output, Refusal, Refused, Script, Turn, only, required
from .server import Answered, Event

__all__ = ["Asked", "CallResult", "Count", "InputText", "ModelTurn", "StandIn", "of_content", "pieces", "wire"]

Count = Callable[[str], int]
"""The tokens of a text."""
_PIECE = 24
"""Characters of a piece of a stream."""


@dataclass(frozen=True)
class InputText:
    """Texts of the user, or of the system; the script does not see those of the system."""

    texts: Sequence[str]
    system: bool = False


@dataclass(frozen=True)
class ModelTurn:
    """One turn of the model: the names of the called tools by call id, and all texts, names and arguments included."""

    calls: dict[str, str] = field(default_factory=dict)
    texts: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class CallResult:
    """The result of one call."""

    id: str
    texts: Sequence[str]


@dataclass(kw_only=True)
class Asked:
    """A request after reading.

    Attributes:
        conversation: its texts are counted.
        tools: input schemas of the tools that the model sees, by name.
        descriptions: of the tools.
        strict: names of tools whose arguments always fit the schema.
        choice: ``auto``, ``none``, ``required``, or the name of the one tool that has to be called.
        parallel: whether the model may make several calls at once.
        schema: that the answer has to fit; None for any text.
        texts: that are counted besides.
    """

    conversation: Sequence[InputText | ModelTurn | CallResult]
    tools: Mapping[str, Mapping[str, Any]]
    descriptions: Mapping[str, str]
    texts: Sequence[str]
    strict: Sequence[str] = field(default_factory=list)
    choice: str = "auto"
    parallel: bool = True
    schema: dict[str, Any] | None = None


class StandIn:
    """An endpoint. A subclass reads the requests and writes the answers of one provider.

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
    """The fields that a body may have."""
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
        texts = [*asked.texts, *(text for each in asked.conversation for text in each.texts)]
        before = self._total(texts)
        if 0 < self._context_tokens < before:
            raise self.too_long(before, self._context_tokens)
        outputs = self.script.play(turn)
        checks.calls(outputs, asked.tools, choice=asked.choice, parallel=asked.parallel, strict=asked.strict)
        checks.output(outputs, asked.schema)
        self.requests.append(body)
        answer = self.answer(body, outputs, before, self._total(_texts_of(outputs)))
        return self.stream(body, answer) if body.get("stream") else answer

    def authorize(self, headers: Mapping[str, str]) -> None:
        """Raises `Refused` if the key or another header is missing."""
        raise NotImplementedError

    def read(self, headers: Mapping[str, str], body: dict[str, Any]) -> Asked:
        """Read a request. Raises `Refused` if the service would refuse it."""
        raise NotImplementedError

    def answer(self, body: dict[str, Any], outputs: list[Output], before: int, after: int) -> dict[str, Any]:
        """Write the outputs of the model, with the numbers of tokens `before` and `after`."""
        raise NotImplementedError

    def stream(self, body: dict[str, Any], answer: dict[str, Any]) -> Iterator[Event]:
        """The answer as events."""
        raise Refused("stream: this stand-in does not stream")

    def refusal(self, refused: Refused) -> dict[str, Any]:
        """The body of a refusal, in the service's form."""
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
        """The conversation as the model sees it at its turn."""
        waiting: dict[str, str] = {}
        latest: Mapping[str, str] = {}
        got: dict[str, str] = {}
        turns, user = 0, ""
        for each in asked.conversation:
            if isinstance(each, CallResult):
                if each.id not in waiting:
                    raise Refused(f"a result without its call: {each.id}")
                del waiting[each.id]
                got[each.id] = "".join(each.texts)
                continue
            if waiting and self.at_once:
                break
            if isinstance(each, InputText):
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


def _texts_of(outputs: Sequence[Output]) -> Iterator[str]:
    for each in outputs:
        if isinstance(each, Call):
            yield from (each.name, wire(dict(each.arguments)))
        else:
            yield each.text if isinstance(each, Refusal) else each
