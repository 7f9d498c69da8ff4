"""OpenAI's Chat Completions as JSON: requests written, replies read, whole or in pieces. Pure; knows no SDK.

Servers that only resemble OpenAI's are expected: usage, ids and positions of calls may be missing. JSON of a schema is
asked for with `json_schema`, else with `json_object` and in words, else in words alone; a form that the endpoint
refuses is not asked for again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from callgate.runtime.model.providers import tool_choice

from .model import NO_USAGE, Assistant, Delta, Message, Reply, Request, ToolCall, ToolReplies, Usage, User, arguments_of
from .openai_reasoning import OF_A_CALL, OF_A_TURN, Reasoning, native_turn, with_native
from .replies import (
    MOST_CALLS,
    BadReply,
    WrittenCall,
    calls_of,
    count,
    reply_of,
    sendable,
    sendable_arguments,
    sendable_name,
    text_of,
)
from .structured import is_closed, told
from .thoughts import Saying, said
from .wire import Form

__all__ = ["OpenAIWire"]

_NOTHING = "(nothing was said)"
_NOT_MADE = "This call was not made."
_DISPENSABLE = ("temperature", "parallel_tool_calls", "stream_options", "max_completion_tokens", "max_tokens")
_LIMITS = ("max_completion_tokens", "max_tokens")
"""The same, by its two names: models that reason take the first only, and many servers the second only."""
_TOO_LONG = re.compile(r"maximum context length|exceeds? (?:the )?(?:available )?context", re.IGNORECASE)
"""How servers that resemble OpenAI's say it, where they give no code: vLLM, llama.cpp."""
_TOKENS = re.compile(r"(?:resulted in|you requested|request \(?) ?(\d{1,12}) tokens", re.IGNORECASE)


class OpenAIWire:
    """See `wire.Wire`.

    Args:
        name: of the model.
        limit_field: the request's field for the most tokens of the output: ``max_completion_tokens``, or, as servers
            that resemble OpenAI's have it, ``max_tokens``.
        extra: fields that each request has besides.
    """

    def __init__(self, name: str, *, limit_field: str, extra: Mapping[str, Any]) -> None:
        self._name = name
        self._limit_field = limit_field
        self._extra = dict(extra)

    def other(self, name: str) -> OpenAIWire:
        return OpenAIWire(name, limit_field=self._limit_field, extra=self._extra)

    def dispensable(self, body: Mapping[str, Any]) -> tuple[str, ...]:
        fields = [field for field in _DISPENSABLE if field in body and field not in self._extra]
        kept = [field for field in OF_A_TURN if any(field in message for message in body["messages"])]
        return (*fields, *kept)

    def without(self, body: Mapping[str, Any], field: str) -> dict[str, Any]:
        left = {name: value for name, value in body.items() if name != field}
        if field in _LIMITS and field in body:
            left[_LIMITS[field == _LIMITS[0]]] = body[field]
        if field in OF_A_TURN:
            left["messages"] = [{name: each[name] for name in each if name != field} for each in body["messages"]]
        return left

    def forms(self, request: Request) -> tuple[Form, ...]:
        return ("",) if request.json_schema is None else ("json_schema", "json_object", "words")

    def body(self, request: Request, form: Form, *, stream: bool) -> dict[str, Any]:
        system = request.system
        body: dict[str, Any] = {"model": self._name}
        schema = None if request.json_schema is None else dict(request.json_schema)
        if schema is not None and form != "json_schema":
            system = told(system, schema)
        if form == "json_object":  # with the schema beside it, as llama.cpp takes it
            body["response_format"] = {"type": "json_object", "schema": schema}
        elif schema is not None and form == "json_schema":
            named = {"name": "answer", "schema": schema, "strict": is_closed(schema)}
            body["response_format"] = {"type": "json_schema", "json_schema": named}
        body["messages"] = [{"role": "system", "content": sendable(system)}] if system else []
        body["messages"] += _messages(request.messages, self._name)
        if request.tools:
            body["tools"] = [dict(each) for each in request.tools]
            if request.tool_choice != "auto" or request.parallel is not None:
                body |= tool_choice("openai", request.tool_choice, parallel=request.parallel)
        if request.max_output_tokens is not None:
            body[self._limit_field] = request.max_output_tokens
        if request.temperature is not None:
            body["temperature"] = request.temperature
        if stream:
            body |= {"stream": True, "stream_options": {"include_usage": True}}
        return {**body, **self._extra}

    def whole(self, answer: Any, request: Request, form: Form) -> Reply:
        _no_error(answer)
        choice = _choice(answer)
        message = choice.get("message") if choice is not None else None
        if choice is None or not isinstance(message, Mapping):
            raise BadReply("it is no chat completion: it has no choice with a message")
        calls = message.get("tool_calls")
        reasoning = Reasoning()
        reasoning.take(message)
        return _reply(
            answer,
            len(request.messages),
            asked=self._name,
            reasoning=reasoning,
            text=text_of(message.get("content")),
            calls=[_written(each) for each in calls] if isinstance(calls, list) else [],
            refusal=text_of(message.get("refusal")),
            finish=choice.get("finish_reason"),
        )

    def collector(self, request: Request, form: Form, on_delta: Callable[[Delta], None]) -> _Stream:
        return _Stream(self._name, len(request.messages), on_delta)

    def too_long(self, status: int, error: Any) -> int | None:
        within = error.get("error", error) if isinstance(error, Mapping) else {}
        within = within if isinstance(within, Mapping) else {}
        words = text_of(within.get("message"))
        codes = (within.get("code"), within.get("type"))
        known = "context_length_exceeded" in codes or "exceed_context_size_error" in codes or status == 413
        if not known and not (status == 400 and _TOO_LONG.search(words)):
            return None
        found = _TOKENS.search(words)
        return int(found[1]) if found else count(within, "n_prompt_tokens")


class _Call:
    """A call of a stream, as far as it has come."""

    def __init__(self) -> None:
        self.written = WrittenCall()
        self.pieces: list[str] = []
        self.whole = False
        """Its arguments came at once, and nothing can follow."""

    def take(self, piece: str) -> None:
        if piece:
            self.whole = not self.pieces and not arguments_of(piece)[1]
            self.pieces.append(piece)


class _Stream:
    """See `wire.Collector`."""

    def __init__(self, asked: str, position: int, on_delta: Callable[[Delta], None]) -> None:
        self._asked = asked
        self._position = position
        self._on_delta = on_delta
        self._text: list[str] = []
        self._saying = Saying(lambda text: on_delta(Delta(text=text)))
        self._refusal: list[str] = []
        self._reasoning = Reasoning()
        self._calls: list[_Call] = []
        self._at: dict[int, int] = {}
        self._finish: str | None = None
        self._seen: dict[str, Any] = {}

    @property
    def complete(self) -> bool:
        return self._finish is not None

    @property
    def counted(self) -> bool:
        return "usage" in self._seen

    def take(self, event: Mapping[str, Any]) -> None:
        _no_error(event)
        for name in ("model", "usage"):
            if event.get(name):
                self._seen[name] = event[name]
        choice = _choice(event)
        if choice is None:
            return
        delta = choice.get("delta")
        delta = delta if isinstance(delta, Mapping) else {}
        if text := text_of(delta.get("content")):
            self._text.append(text)
            self._saying.take(text)
        self._refusal.append(text_of(delta.get("refusal")))
        self._reasoning.take(delta)
        calls = delta.get("tool_calls")
        for call in calls if isinstance(calls, list) else ():
            self._call(call if isinstance(call, Mapping) else {})
        if isinstance(choice.get("finish_reason"), str):
            self._finish = choice["finish_reason"]

    def reply(self) -> Reply:
        self._saying.end()
        for call in self._calls:
            call.written.arguments = "".join(call.pieces)
        return _reply(
            self._seen,
            self._position,
            asked=self._asked,
            reasoning=self._reasoning,
            text="".join(self._text),
            calls=[call.written for call in self._calls],
            refusal="".join(self._refusal),
            finish=self._finish,
        )

    def _call(self, given: Mapping[str, Any]) -> None:
        """A call, or a piece of one. Servers number the calls of a stream; where the number is missing, or is the same
        for all, another id or another name begins another call; or, where there are no ids, a name after a call that
        came whole (Gemini: index 0, no id)."""
        written = _written(given)
        index = given.get("index")
        position = self._at.get(index, -1) if isinstance(index, int) else len(self._calls) - 1
        if position >= 0:
            call = self._calls[position]
            known = call.written
            other = bool(written.id and known.id and written.id != known.id)
            named = bool(not written.id and written.name and known.name)
            if other or (named and (not isinstance(index, int) or written.name != known.name or call.whole)):
                position = -1
        if position < 0:
            if len(self._calls) >= MOST_CALLS:
                raise BadReply(f"it makes more than {MOST_CALLS} calls at once")
            position = len(self._calls)
            self._calls.append(_Call())
            if isinstance(index, int):
                self._at[index] = position
        call = self._calls[position]
        known = call.written
        new_name = "" if known.name else written.name
        known.id, known.name = known.id or written.id, known.name or written.name
        known.kept |= written.kept
        piece = written.arguments if isinstance(written.arguments, str) else ""
        if isinstance(written.arguments, dict):
            piece = json.dumps(written.arguments)
        call.take(piece)
        if new_name or piece:
            self._on_delta(Delta(call=position, name=text_of(new_name)[:200], arguments=text_of(piece)))


def _reply(
    answer: Mapping[str, Any],
    position: int,
    *,
    asked: str,
    reasoning: Reasoning,
    text: str,
    calls: Sequence[WrittenCall],
    refusal: str,
    finish: Any,
) -> Reply:
    mended = calls_of(calls, position)
    return reply_of(
        said(text),
        mended,
        usage=_usage(answer.get("usage")),
        cut=finish == "length",
        refusal=refusal or ("by the content filter" if finish == "content_filter" else ""),
        model=answer.get("model"),
        native=native_turn(asked, reasoning.fields(), calls, mended),
        provider="openai",
    )


def _written(given: Any) -> WrittenCall:
    function = given.get("function") if isinstance(given, Mapping) else None
    if not isinstance(function, Mapping):
        return WrittenCall(id=given.get("id") if isinstance(given, Mapping) else "")
    name = function.get("name")
    return WrittenCall(
        id=given.get("id"),
        name=name if isinstance(name, str) else "",
        arguments=function.get("arguments"),
        kept={OF_A_CALL: given[OF_A_CALL]} if given.get(OF_A_CALL) else {},
    )


def _no_error(answer: Any) -> None:
    """Gateways send errors with status 200."""
    if not isinstance(answer, Mapping):
        raise BadReply(f"it is no chat completion, but {type(answer).__name__}")
    error = answer.get("error")
    if error:
        within = error if isinstance(error, Mapping) else {"message": error}
        code = within.get("code")
        status = code if isinstance(code, int) and 400 <= code < 600 else None
        raise BadReply(f"it is an error: {text_of(within.get('message'))[:400]}", status=status, passing=True)


def _choice(answer: Mapping[str, Any]) -> Mapping[str, Any] | None:
    choices = answer.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    return first if isinstance(first, Mapping) else None


def _usage(usage: Any) -> Usage:
    if not isinstance(usage, Mapping):
        return NO_USAGE
    given = count(usage, "prompt_tokens")
    # Gemini and Grok count what the model thought in the total only
    made = max(count(usage, "completion_tokens"), count(usage, "total_tokens") - given)
    return Usage(
        input_tokens=given,
        output_tokens=made,
        cached_input_tokens=count(usage, "prompt_tokens_details", "cached_tokens"),
    )


def _messages(messages: Sequence[Message], model: str) -> list[dict[str, Any]]:
    """Each call gets its answer: one that has none gets words instead, for the API takes no call without."""
    written: list[dict[str, Any]] = []
    for position, message in enumerate(messages):
        if isinstance(message, User):
            written.append({"role": "user", "content": sendable(message.text)})
        elif isinstance(message, Assistant):
            following = messages[position + 1] if position + 1 < len(messages) else None
            written.append(_assistant(message, model, answered=isinstance(following, ToolReplies)))
            if isinstance(following, ToolReplies):
                written += _results(message.calls, following)
    return written


def _assistant(message: Assistant, model: str, *, answered: bool) -> dict[str, Any]:
    text = sendable(message.text)
    if not (answered and message.calls):
        return {"role": "assistant", "content": text or _NOTHING}
    calls = [
        {
            "id": call.id,
            "type": "function",
            "function": {
                "name": sendable_name(call.name),
                "arguments": json.dumps(sendable_arguments(call), ensure_ascii=False, separators=(",", ":")),
            },
        }
        for call in message.calls
    ]
    said = {"content": text} if text else {}  # null is refused by servers that check it for a text: llama-cpp-python
    return with_native(model, message, {"role": "assistant", **said, "tool_calls": calls})


def _results(calls: Sequence[ToolCall], replies: ToolReplies) -> list[dict[str, Any]]:
    texts = {reply.id: reply.text for reply in replies.replies}
    return [
        {"role": "tool", "tool_call_id": call.id, "content": sendable(texts.get(call.id, _NOT_MADE))} for call in calls
    ]
