"""Asks a model, with a span where the agent reports to OpenTelemetry. Every request to a model goes through `chat`."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final

from callgate.runtime.telemetry.content import Content
from callgate.runtime.telemetry.tracing import AgentSpan, Tracing, newest, tracing

from .fitting import fit
from .model import Assistant, Delta, Ended, Message, Model, Reply, Request, ToolReplies, User

__all__ = ["chat", "shown_assistant", "shown_text"]

FINISHED: Final[dict[Ended, str]] = {
    "answered": "stop", "calls": "tool_call", "cut": "length", "refused": "content_filter", "empty": "stop"
}  # fmt: skip
"""How a reply ended, in the conventions' words."""
_MOST_CALLS: Final = 64
"""Calls of one turn whose arguments and results are looked at."""


async def chat(model: Model, request: Request, *, on_delta: Callable[[Delta], None] | None = None) -> Reply:
    """Ask a model: see `Model.ask`, which raises the same."""
    tracer = tracing.get()
    if tracer is None:
        return await model.ask(request, on_delta=on_delta)
    with tracer.span(tracer.names.chat, model.name, model.provider, model.name, client=True) as span:
        names = tracer.names
        began, first = time.perf_counter(), None

        def noted(delta: Delta) -> None:
            nonlocal first
            if first is None:
                first = time.perf_counter() - began
            assert on_delta is not None
            on_delta(delta)

        span.set(
            {
                names.request_tokens: request.max_output_tokens,
                names.request_temperature: request.temperature,
                names.request_stream: True if on_delta is not None else None,
                names.output_type: None if request.json_schema is None else "json",
            }
        )
        content = tracer.content
        if content is not None:
            shown = newest(_message(content, each) for each in reversed(request.messages))
            span.content(names.input_messages, shown)
            if request.system:
                span.content(names.system, [shown_text(content, request.system)])
        try:
            reply = await model.ask(request, on_delta=None if on_delta is None else noted)
        finally:
            span.set({names.first_chunk: first})
        _note(tracer, span, model, fit(reply, request))  # a model may answer with anything
        return reply


def _note(tracer: Tracing, span: AgentSpan, model: Model, reply: Reply) -> None:
    usage, names = reply.usage, tracer.names
    span.set(
        {
            names.response_model: reply.model,
            names.finish_reasons: [FINISHED[reply.ended]],
            names.input_tokens: usage.input_tokens,
            names.output_tokens: usage.output_tokens,
            names.cached_tokens: usage.cached_input_tokens or None,
            names.estimated: usage.estimated or None,
            names.attempts: reply.attempts,
        }
    )
    if tracer.content is not None:
        shown = newest([shown_assistant(tracer.content, reply.turn, FINISHED[reply.ended])])
        span.content(names.output_messages, shown)
    tracer.tokens(model.provider, model.name, input=usage.input_tokens, output=usage.output_tokens)


# content, in the conventions' forms


def shown_text(content: Content, text: str) -> dict[str, Any]:
    """A text as a part of a message."""
    return {"type": "text", "content": content.text(text)}


def shown_assistant(content: Content, turn: Assistant, finished: str = "") -> dict[str, Any]:
    """A turn of the model. Its calls come first into the redaction, which learns their secrets."""
    calls = []
    for call in turn.calls[:_MOST_CALLS]:
        arguments = content.text(call.written) if call.fault else content.arguments_of(call.name, call.arguments)
        calls.append({"type": "tool_call", "id": call.id[:256], "name": call.name[:256], "arguments": arguments})
    parts = [shown_text(content, turn.text), *calls] if turn.text else calls
    return {"role": "assistant", "parts": parts} | ({"finish_reason": finished} if finished else {})


def _message(content: Content, message: Message) -> dict[str, Any]:
    match message:
        case User():
            return {"role": "user", "parts": [shown_text(content, message.text)]}
        case ToolReplies():
            parts = [
                {"type": "tool_call_response", "id": each.id[:256], "response": content.result_of(each.name, each.text)}
                for each in message.replies[:_MOST_CALLS]
            ]
            return {"role": "tool", "parts": parts}
        case Assistant():
            return shown_assistant(content, message)
