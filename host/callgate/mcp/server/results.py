"""The result of a call as an MCP message: text for the model, and a structured result that fits the tool's output
schema. Knows what a message can carry. Pure; runs nothing.

1. The structured result is bounded like the text: some clients put it into the model's context instead.
2. JSON of any depth can be written, but not read: System.Text.Json stops at 64 levels, serde_json at 128, pydantic at
   200, and a client that cannot read an answer waits for it forever. So a structured result has at most `MAX_LEVELS`.
3. Over HTTP the SDK's client drops an event of more than 1 MiB, and with it the answer. Pictures for which there is no
   room there become links.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from typing import Any

from mcp_types import CallToolResult, ContentBlock, ImageContent, TextContent

from callgate.artifacts import Artifact
from callgate.mcp.verbatim import Sent
from callgate.runtime import CallRecord, CodeResult, PlanResult
from callgate.runtime.answer import Answer, error_text
from callgate.runtime.result import cut
from callgate.tools.decoding import depth

__all__ = [
    "CALLS_SCHEMA", "MAX_HTTP_BYTES", "MAX_LEVELS", "SESSION_SCHEMA", "carried", "failed", "passed_on", "result_of",
    "sendable", "too_deep",
]  # fmt: skip

MAX_LEVELS = 60
"""Levels of arrays and objects in a structured result and in a tool's schemas."""
MAX_HTTP_BYTES = 1_000_000
"""Of one result over HTTP."""
_LINK_BYTES = 1_000
"""Of a link or a picture, beside the picture's own bytes: its name has at most 2,000 characters, and mostly 20."""
_MOST_CALLS = 100
_MOST_LEVELS = MAX_LEVELS - 3
"""Levels of a value inside a structured result: outputs are in an object, schemas in an object in a list."""
_MOST_TEXT = 8_000
"""Characters of a value that is nested too deeply and therefore sent as text."""

CALLS_SCHEMA: dict[str, Any] = {
    "type": "array",
    "description": f"Tool calls in the order in which they began; the first {_MOST_CALLS}.",
    "items": {
        "type": "object",
        "properties": {
            "tool": {"type": "string"},
            "status": {"type": "string"},
            "seconds": {"type": "number"},
            "cached": {"type": "boolean"},
            "error": {"type": ["string", "null"]},
        },
        "required": ["tool", "status", "seconds", "cached", "error"],
    },
}
SESSION_SCHEMA: dict[str, Any] = {
    "type": ["string", "null"],
    "description": "Pass it as session to go on with these variables; null where there is nothing to go on with.",
}


def result_of(
    answer: Answer,
    *,
    session: str | None = None,
    note: str = "",
    http: bool = False,
    links: Callable[[Sequence[Artifact]], Sequence[ContentBlock]] = lambda _: (),
) -> CallToolResult:
    """The message for an answer: the text, the pictures, and links to the other artifacts.

    Args:
        answer: of the call.
        session: after `execute_code`, the handle of the session that lives on.
        note: one more line for the model.
        http: whether the message goes over HTTP.
        links: makes the links.
    """
    structured = answer.structured()
    if structured is not None and isinstance(answer.result, (CodeResult, PlanResult)):
        structured["calls"] = [_call(record) for record in answer.result.calls[:_MOST_CALLS]]
        if isinstance(answer.result, CodeResult):
            structured["session"] = session
    if structured is not None and answer.result is not None:
        _flatten(structured)
    text = f"{answer.text}\n{note}" if note else answer.text
    result = CallToolResult(
        content=[TextContent(text=sendable(text))],
        structured_content=None if structured is None else _sendable(structured),
        is_error=not answer.ok,
    )
    return _with_artifacts(result, answer, http, links) if answer.artifacts else result


def _with_artifacts(
    result: CallToolResult,
    answer: Answer,
    http: bool,
    links: Callable[[Sequence[Artifact]], Sequence[ContentBlock]],
) -> CallToolResult:
    """The result with the pictures of the answer, while there is room, and links to its other artifacts."""
    room = MAX_HTTP_BYTES - len(answer.artifacts) * _LINK_BYTES if http else sys.maxsize
    if http and not too_deep(result.structured_content):
        room -= _size(result)
    pictures: dict[str, ContentBlock] = {}
    left_out = 0
    for picture in answer.pictures:
        room -= len(picture.base64) + _LINK_BYTES
        if room < 0:
            left_out += 1
        else:
            pictures[picture.reference.handle] = ImageContent(data=picture.base64, mime_type=picture.media_type)
    others = [each for each in answer.artifacts if each.handle not in pictures]
    content = [*result.content, *pictures.values(), *links(others)]
    if left_out:
        words = f"Note: {left_out} pictures are not shown to you: a result has {MAX_HTTP_BYTES:,} bytes over HTTP."
        content.insert(1, TextContent(text=words))
    return result.model_copy(update={"content": content})


def passed_on(answer: Answer, sent: Sent, *, outputs: bool, most_bytes: int) -> CallToolResult | None:
    """The answer of an imported server, word for word. None if it differs from the call's result, or cannot be sent.

    Args:
        answer: of the call.
        sent: what the server sent.
        outputs: whether the tool is listed with an output schema, which the structured result must fit.
        most_bytes: of the message as JSON.
    """
    theirs = sent.result
    if not answer.ok or not theirs.content or not _same(answer.value, sent.value):
        return None
    if any(too_deep(each.meta) for each in theirs.content):
        return None
    structured = answer.structured() if outputs else theirs.structured_content
    result = CallToolResult(content=theirs.content, structured_content=structured)
    try:
        return result if _size(result) <= most_bytes else None
    except ValueError:  # half of a surrogate pair, or levels without end
        return None


def _same(value: Any, other: Any) -> bool:
    """Whether the two values are equal: a wrapper of the operator around the tool may have changed one."""
    try:
        return value is other or bool(value == other)
    except RecursionError:
        return False


def failed(message: str) -> CallToolResult:
    """The message for a call without a result; the model reads why."""
    return CallToolResult(content=[TextContent(text=sendable(error_text(message)))], is_error=True)


def _call(record: CallRecord) -> dict[str, Any]:
    return {
        "tool": record.tool,
        "status": record.status,
        "seconds": round(record.duration_seconds, 6),
        "cached": record.cached,
        "error": record.error and record.error[:500],
    }


def _flatten(structured: dict[str, Any]) -> None:
    """Replace values that are nested too deeply for a message by text, and leave such schemas out."""
    for key, values in (("value", structured), ("outputs", structured.get("outputs", {}))):
        for name in [key] if values is structured else list(values):
            if too_deep(values.get(name), _MOST_LEVELS):
                values[name] = _as_text(values[name])
                structured["truncated"] = sorted({*structured["truncated"], key})
    for each in (*structured.get("found", ()), *structured.get("tools", ())):
        for key in [key for key, value in each.items() if too_deep(value, _MOST_LEVELS)]:
            del each[key]


def _as_text(value: Any) -> str:
    try:
        text = json.dumps(value, ensure_ascii=False)
    except RecursionError:
        return f"(nested more than {_MOST_LEVELS} levels deep)"
    return cut(text, _MOST_TEXT)


def _sendable(value: Any) -> Any:
    """`value` without lone surrogates, which no message can carry."""
    if too_deep(value):  # `carried` will not send it
        return value
    text = json.dumps(value, ensure_ascii=False)
    try:
        text.encode()
    except UnicodeEncodeError:
        return json.loads(sendable(text))
    return value


def sendable(text: str) -> str:
    """`text` without lone surrogates, which no message can carry; a question mark replaces each."""
    return text.encode("utf-8", "replace").decode()


def too_deep(value: Any, most: int = MAX_LEVELS) -> bool:
    """Whether a JSON value has more than `most` levels."""
    return depth(value, most) > most


def carried(result: CallToolResult, *, http: bool) -> CallToolResult:
    """The result, or an error that says why the result cannot be sent and what to do.

    Args:
        result: of a call.
        http: whether the result goes over HTTP.
    """
    if result.structured_content is not None and too_deep(result.structured_content):
        return _instead(f"it is nested more than {MAX_LEVELS} levels deep")
    if http and (size := _size(result)) > MAX_HTTP_BYTES:
        return _instead(f"it is {size} bytes long, and clients read {MAX_HTTP_BYTES} over HTTP")
    return result


def _size(result: CallToolResult) -> int:
    return len(result.model_dump_json(by_alias=True, exclude_none=True).encode())


def _instead(why: str) -> CallToolResult:
    return failed(
        f"the call was made, but its result cannot be sent: {why}. "
        "Call the tool in a program (execute_code), and return the part that you need."
    )
