"""A request in pydantic-ai's form: its messages, its pictures, its tools, its system text. Sends nothing.

Providers refuse a conversation for small faults: empty turns, calls without a result, halves of characters, names and
ids with unusual letters. The requests made here have none of these faults, whatever the conversation holds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic import ValidationError
from pydantic_ai.messages import (
    BinaryContent,
    InstructionPart,
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    ModelResponsePart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserContent,
    UserPromptPart,
)
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.output import OutputObjectDefinition
from pydantic_ai.tools import ToolDefinition

from callgate.runtime.model.providers import FROM_TOOLS, label
from callgate.runtime.pictures import Picture, PictureReference

from .fitting import sendable, sendable_arguments, sendable_id, sendable_name
from .forms import ANSWER, Form, is_closed, with_schema
from .model import Assistant, Message, Request, ToolCall, ToolReplies, ToolReply, User

__all__ = ["messages_of", "parameters_of"]

_NOTHING = "(nothing was said)"
_NOT_MADE = "This call was not made."


def parameters_of(request: Request, form: Form, *, name_used_tools: bool) -> ModelRequestParameters:
    """The tools, the output and the system text of a request.

    Args:
        request: from the agent.
        form: how JSON of the request's schema is asked for.
        name_used_tools: define the tools of earlier calls where the request has no tools: providers other than OpenAI
            refuse calls in a conversation without tools.
    """
    tools = [_tool(each) for each in request.tools]
    if not tools and name_used_tools:
        calls = (call for each in request.messages if isinstance(each, Assistant) for call in each.calls)
        tools = [ToolDefinition(name=name) for name in sorted({sendable_name(call.name) for call in calls})]
    system, schema = request.system, request.json_schema
    output: dict[str, Any] = {}
    if schema is not None and form == "json_schema":
        definition = OutputObjectDefinition(json_schema=dict(schema), name=ANSWER, strict=is_closed(schema))
        output = {"output_mode": "native", "output_object": definition}
    elif schema is not None and form == "tool":
        answer = ToolDefinition(
            name=ANSWER, description="Give your answer.", parameters_json_schema=dict(schema), kind="output"
        )
        tools = []
        output = {"output_mode": "tool", "output_tools": [answer], "allow_text_output": False}
    elif schema is not None:
        system = with_schema(system, schema)
    instructions = [InstructionPart(content=sendable(system))] if system else None
    return ModelRequestParameters(function_tools=tools, instruction_parts=instructions, **output)


def messages_of(
    messages: Sequence[Message],
    *,
    model: str,
    provider: str,
    errors: bool,
    thoughts: bool,
    pictures: Mapping[str, Picture] | None = None,
) -> list[ModelMessage]:
    """The conversation; each call has its result, and an id of its own.

    Anthropic's results hold their pictures. For any other provider the pictures of a turn follow its results in the
    user's place, with a word on where they come from: OpenAI's Chat Completions take them nowhere else.

    Args:
        messages: oldest first.
        model: that is asked.
        provider: of that model, by pydantic-ai's name.
        errors: the provider has a mark for results of calls that failed.
        thoughts: send back what the model thought.
        pictures: those that the messages refer to, by `sha256`; None where the model takes none.
    """
    written: list[ModelMessage] = []
    used: set[str] = set()
    for position, message in enumerate(messages):
        if isinstance(message, User):
            text = sendable(message.text) if message.text.strip() else _NOTHING
            text += _missing(message.pictures, pictures)
            shown = _shown(message.pictures, pictures or {})
            written.append(ModelRequest(parts=[UserPromptPart(content=[text, *shown] if shown else text)]))
        elif isinstance(message, Assistant):
            following = messages[position + 1] if position + 1 < len(messages) else None
            replies = following if isinstance(following, ToolReplies) else None
            calls = message.calls if replies is not None else ()
            native = _native_parts(message, calls, model=model, provider=provider) if thoughts else []
            parts = native or _plain(message, calls)
            given = None if replies is None else {reply.id: reply for reply in replies.replies}
            inside = provider == "anthropic"
            results = [] if given is None else _results(calls, given, pictures, errors=errors, inside=inside)
            shown = [] if inside or not given else _shown_below(calls, given, pictures or {})
            ids: dict[str, str] = {}
            for call in calls:  # an id of another provider's may have letters that Anthropic refuses
                id = call.id if provider == "openai" else sendable_id(call.id)
                while id in used:  # and Anthropic refuses an id that is there twice, in different turns, too
                    id += f"_{position}"
                used.add(id)
                ids[call.id] = id
            for each in (*parts, *results):
                if isinstance(each, ToolCallPart | ToolReturnPart):
                    each.tool_call_id = ids[each.tool_call_id]
            written.append(ModelResponse(parts=parts, model_name=model, provider_name=provider))
            if results:
                below = [UserPromptPart(content=[FROM_TOOLS, *shown])] if shown else []
                written.append(ModelRequest(parts=[*results, *below]))
    return written


def _tool(given: Mapping[str, Any]) -> ToolDefinition:
    """The definition, from OpenAI's or Anthropic's form."""
    function = given.get("function", given)
    schema = function.get("parameters", function.get("input_schema")) or {"type": "object", "properties": {}}
    return ToolDefinition(
        name=function["name"],
        description=function.get("description"),
        parameters_json_schema=dict(schema),
        strict=bool(function.get("strict")),
    )


def _plain(message: Assistant, calls: Sequence[ToolCall]) -> list[ModelResponsePart]:
    text = sendable(message.text)
    parts: list[ModelResponsePart] = [TextPart(content=text)] if text.strip() else []
    parts += [_call(call) for call in calls]
    return parts or [TextPart(content=_NOTHING)]


def _native_parts(
    message: Assistant, calls: Sequence[ToolCall], *, model: str, provider: str
) -> list[ModelResponsePart]:
    """The turn with everything that its provider wants back, such as thinking with its signature; else empty."""
    native = message.native
    if native is None or message.provider != provider:
        return []
    if isinstance(native, list):
        native = {"parts": list(_anthropic_blocks(native))}
    elif isinstance(native, Mapping) and "fields" in native:
        native = {**native, "parts": list(_openai_fields(native, message))}
    if not isinstance(native, Mapping) or (provider == "openai" and native.get("model") != model):
        return []
    try:
        (response,) = ModelMessagesTypeAdapter.validate_python([{"kind": "response", "parts": native.get("parts")}])
    except ValidationError:
        return []
    by_id = {call.id: call for call in calls}
    parts: list[ModelResponsePart] = []
    for part in response.parts:
        if isinstance(part, ToolCallPart):
            call = by_id.pop(part.tool_call_id, None)
            parts += [] if call is None else [_call(call, part)]
        elif not isinstance(part, TextPart) or part.content.strip():
            parts.append(part)  # type: ignore[arg-type]
    # each call has to be there, and Anthropic takes no thinking as the last of a turn
    cut_off = not parts or (provider != "openai" and isinstance(parts[-1], ThinkingPart))
    return [] if by_id or cut_off else parts


def _call(call: ToolCall, native: ToolCallPart | None = None) -> ToolCallPart:
    details: dict[str, Any] = {}
    if native is not None and native.provider_details:
        details = {"provider_name": native.provider_name, "provider_details": native.provider_details}
    return ToolCallPart(
        tool_name=sendable_name(call.name), args=sendable_arguments(call), tool_call_id=call.id, **details
    )


def _results(
    calls: Sequence[ToolCall],
    replies: Mapping[str, ToolReply],
    pictures: Mapping[str, Picture] | None,
    *,
    errors: bool,
    inside: bool,
) -> list[ToolReturnPart]:
    """The result of each call.

    Args:
        calls: of one turn.
        replies: by the id of the call.
        pictures: see `messages_of`.
        errors: the provider has a mark for results of calls that failed.
        inside: the results hold their pictures.
    """
    parts = []
    for call in calls:
        reply = replies.get(call.id)
        content: Any = _NOT_MADE
        if reply is not None:
            content = sendable(reply.text) + _missing(reply.pictures, pictures)
            if inside and (shown := _shown(reply.pictures, pictures or {})):
                content = [content, *shown]
        # Anthropic refuses the mark on a result that holds anything but text
        failed = errors and (reply is None or not reply.ok) and isinstance(content, str)
        outcome: Any = "failed" if failed else "success"
        parts.append(ToolReturnPart(sendable_name(call.name), content, tool_call_id=call.id, outcome=outcome))
    return parts


def _shown(references: Sequence[PictureReference], pictures: Mapping[str, Picture]) -> list[UserContent]:
    """The pictures that are there, each below its name."""
    shown: list[UserContent] = []
    for each in references:
        if (picture := pictures.get(each.sha256)) is not None:
            shown += [sendable(label(each)), BinaryContent(picture.data, media_type=picture.media_type)]
    return shown


def _shown_below(
    calls: Sequence[ToolCall], replies: Mapping[str, ToolReply], pictures: Mapping[str, Picture]
) -> list[UserContent]:
    shown: list[UserContent] = []
    for call in calls:
        if (reply := replies.get(call.id)) is not None and (own := _shown(reply.pictures, pictures)):
            shown += [f"Of the call {sendable_id(call.id)} of {sendable_name(call.name)}:", *own]
    return shown


def _missing(references: Sequence[PictureReference], pictures: Mapping[str, Picture] | None) -> str:
    """A line about the pictures that are not shown; empty where all are."""
    names = [label(each)[:-1] for each in references if each.sha256 not in (pictures or {})]
    if not names:
        return ""
    why = "you take no pictures" if pictures is None else "the bytes are not kept any more"
    return sendable(f"\n(Not shown, since {why}: {', '.join(names)}.)")


def _anthropic_blocks(blocks: Sequence[Any]) -> Iterator[dict[str, Any]]:
    """The parts of a turn that a transcript of callgate 0.1 holds as Anthropic's blocks."""
    for block in blocks:
        match block:
            case {"type": "thinking", "thinking": text, "signature": signature}:
                yield {
                    "part_kind": "thinking", "content": text, "signature": signature, "provider_name": "anthropic",
                }  # fmt: skip
            case {"type": "redacted_thinking", "data": data}:
                yield {
                    "part_kind": "thinking", "id": "redacted_thinking", "content": "", "signature": data,
                    "provider_name": "anthropic",
                }  # fmt: skip
            case {"type": "text", "text": text}:
                yield {"part_kind": "text", "content": text}
            case {"type": "tool_use", "id": identity}:
                yield {"part_kind": "tool-call", "tool_name": "", "tool_call_id": identity}


def _openai_fields(native: Mapping[str, Any], message: Assistant) -> Iterator[dict[str, Any]]:
    """The parts of a turn that a transcript of callgate 0.1 holds as fields of OpenAI's message."""
    fields, kept = native["fields"], native.get("calls")
    if isinstance(fields, Mapping) and isinstance(text := fields.get("reasoning_content"), str):
        yield {"part_kind": "thinking", "id": "reasoning_content", "content": text, "provider_name": "openai"}
    if message.text:
        yield {"part_kind": "text", "content": message.text}
    for call in message.calls:
        yield {
            "part_kind": "tool-call", "tool_name": "", "tool_call_id": call.id, "provider_name": "openai",
            "provider_details": kept.get(call.id) if isinstance(kept, Mapping) else None,
        }  # fmt: skip
