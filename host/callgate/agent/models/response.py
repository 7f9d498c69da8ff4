"""A `Reply` made from pydantic-ai's response. Trusts nothing that the endpoint wrote."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from pydantic_ai.messages import (
    ModelMessagesTypeAdapter,
    ModelResponse,
    ModelResponsePart,
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ToolCallPart,
    ToolCallPartDelta,
)

from .fitting import MAX_CALLS, fit_calls, json_value_or_none, sendable, text_of
from .forms import Form
from .model import Assistant, Delta, Ended, Reply, ToolCall, Usage, arguments_of
from .thoughts import SpeechFilter, without_thoughts

__all__ = ["DeltaReporter", "reply_of"]

_MOST_NAME = 200
"""Characters of a model's or a tool's name."""


def reply_of(response: ModelResponse, *, position: int, form: Form, model: str, provider: str) -> Reply:
    """Make the `Reply` of a response.

    Args:
        response: as it came.
        position: of the turn in its conversation.
        form: how JSON of a schema was asked for.
        model: that was asked.
        provider: of that model.

    Raises:
        ValueError: it makes more calls than a reply may.
    """
    details = response.provider_details or {}
    text = without_thoughts("".join(text_of(part.content) for part in response.parts if isinstance(part, TextPart)))
    written = [part for part in response.parts if isinstance(part, ToolCallPart)]
    native = None
    if form == "tool":
        text = next((_json(part.args) for part in written), text)
        written = []
    given = [_call(part) for part in written]
    if response.finish_reason == "tool_call" and form != "tool" and not given:
        given = [ToolCall(id="", name="")]  # pydantic-ai leaves out calls of a stream that have no name
    if len(given) > MAX_CALLS:
        raise ValueError(f"it makes {len(given)} calls at once, and {MAX_CALLS} is the most")
    calls = fit_calls(given, position)
    if form != "tool":
        ids = {id(part): call.id for part, call in zip(written, calls, strict=False)}
        native = _native(response.parts, ids, model=model, provider=provider)
    ended: Ended = "calls" if calls else "answered" if text.strip() else "empty"
    refusal = ""
    if response.finish_reason == "content_filter":
        own = text if details.get("finish_reason") == "refusal" else ""  # Anthropic's models say it in the text
        ended, refusal = "refused", text_of(details.get("refusal")) or own or "by the content filter"
    elif response.finish_reason == "length" or response.state != "complete":
        ended = "cut"
    return Reply(
        turn=Assistant(text=text, calls=calls, native=native, provider=provider if native is not None else ""),
        ended=ended,
        usage=Usage(
            input_tokens=response.usage.input_tokens,
            output_tokens=response.usage.output_tokens,
            cached_input_tokens=response.usage.cache_read_tokens,
        ),
        refusal=refusal,
        model=sendable((response.model_name or "")[:_MOST_NAME]),
    )


class DeltaReporter:
    """Reports the pieces of a reply as they come.

    Args:
        on_delta: receives each piece.
        form: how JSON of a schema was asked for; the arguments of the tool for it are reported as text.
    """

    def __init__(self, on_delta: Callable[[Delta], None], form: Form) -> None:
        self._on_delta = on_delta
        self._form = form
        self._calls: dict[int, int] = {}
        self._speech = SpeechFilter(self._text)

    def take(self, event: Any) -> None:
        """Report the next event of a stream."""
        match event:
            case PartStartEvent(part=TextPart(content=text)) | PartDeltaEvent(delta=TextPartDelta(content_delta=text)):
                self._speech.take(text)
            case PartStartEvent(index=index, part=ToolCallPart(tool_name=name, args=arguments)):
                self._calls[index] = len(self._calls)
                self._call(index, name, arguments)
            case PartDeltaEvent(index=index, delta=ToolCallPartDelta(tool_name_delta=name, args_delta=arguments)):
                self._call(index, name or "", arguments)

    def end(self) -> None:
        """The stream has ended."""
        self._speech.end()

    def whole(self, reply: Reply) -> None:
        """Report a reply that came whole."""
        self._text(reply.turn.text)
        for position, call in enumerate(reply.turn.calls):
            arguments = call.written if call.fault else json.dumps(call.arguments)
            self._on_delta(Delta(call=position, name=call.name, arguments=arguments))

    def _text(self, text: str) -> None:
        if text:
            self._on_delta(Delta(text=sendable(text)))

    def _call(self, index: int, name: Any, arguments: Any) -> None:
        written = text_of(_json(arguments))
        if self._form == "tool":
            self._text(written)
        elif index in self._calls and (name or written):
            self._on_delta(Delta(call=self._calls[index], name=text_of(name)[:_MOST_NAME], arguments=written))


def _native(parts: Any, ids: dict[int, str], *, model: str, provider: str) -> Any:
    """The turn as its provider wants it back; None where text and calls say everything. Servers that resemble OpenAI's
    want thoughts back with calls only."""
    kept = list(parts)
    if not any(map(_is_more, kept)) or (provider == "openai" and not ids):
        return None
    try:
        (written,) = ModelMessagesTypeAdapter.dump_python([ModelResponse(parts=kept)], mode="json")
    except ValueError:
        return None
    for part, each in zip(kept, written["parts"], strict=True):
        if id(part) in ids:
            each |= {"tool_call_id": ids[id(part)], "args": None}
    held = [{name: value for name, value in part.items() if value is not None} for part in written["parts"]]
    return json_value_or_none({"model": model, "parts": held})


def _is_more(part: ModelResponsePart) -> bool:
    plain = isinstance(part, TextPart) or (isinstance(part, ToolCallPart) and not part.provider_details)
    return not plain


def _call(part: ToolCallPart) -> ToolCall:
    """The call as it was written. An id that pydantic-ai has made by chance is left out."""
    id, text = text_of(part.tool_call_id), _json(part.args)
    arguments, fault = arguments_of(text)
    return ToolCall(
        id="" if id.startswith("pyd_ai_") else id,
        name=text_of(part.tool_name),
        arguments=arguments,
        fault=fault,
        written=text,
    )


def _json(arguments: Any) -> str:
    if isinstance(arguments, str):
        return arguments
    try:
        return "" if arguments in (None, {}) else json.dumps(arguments)
    except (ValueError, RecursionError):
        return "(nested too deep)"
