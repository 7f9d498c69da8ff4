"""What came of a call, as MCP states it: text for the model, and a structured result that fits the tool's output
schema. Pure; runs nothing.

The structured result is bounded like the text: some clients put it into the model's context instead.
"""

from __future__ import annotations

import json
from typing import Any

from mcp_types import CallToolResult, TextContent

from callgate.mcp.verbatim import Sent
from callgate.runtime import CallRecord, CodeResult, PlanResult
from callgate.runtime.answers import Answer, error_text
from callgate.runtime.result import cut

from .carrying import MAX_LEVELS, sendable, too_deep

__all__ = ["CALLS_SCHEMA", "SESSION_SCHEMA", "failed", "passed_on", "result_of"]

_MOST_CALLS = 100
_MOST_LEVELS = MAX_LEVELS - 3
"""Of a value inside a structured result: outputs are in an object, schemas in an object in a list."""
_MOST_TEXT = 8_000
"""Characters of a value that is nested too deeply, as text."""

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


def result_of(answer: Answer, *, session: str | None = None, note: str = "") -> CallToolResult:
    """An answer as MCP states it.

    Args:
        answer: what came of the call.
        session: the handle of the session that goes on, after `execute_code`.
        note: one more line for the model.
    """
    structured = answer.structured()
    if structured is not None and isinstance(answer.result, (CodeResult, PlanResult)):
        structured["calls"] = [_call(record) for record in answer.result.calls[:_MOST_CALLS]]
        if isinstance(answer.result, CodeResult):
            structured["session"] = session
    if structured is not None and answer.result is not None:
        _flatten(structured)
    text = f"{answer.text}\n{note}" if note else answer.text
    return CallToolResult(
        content=[TextContent(text=sendable(text))],
        structured_content=None if structured is None else _sendable(structured),
        is_error=not answer.ok,
    )


def passed_on(answer: Answer, sent: Sent, *, outputs: bool, most_bytes: int) -> CallToolResult | None:
    """A server's answer as it sent it; None where it is not what came of the call, or cannot be sent.

    Args:
        answer: what came of the call.
        sent: what the server sent.
        outputs: whether the tool is listed with an output schema, which the structured result fits.
        most_bytes: of the result as JSON.
    """
    theirs = sent.result
    if not answer.ok or not theirs.content or not _same(answer.value, sent.value):
        return None
    if any(too_deep(each.meta) for each in theirs.content):
        return None
    structured = answer.structured() if outputs else theirs.structured_content
    result = CallToolResult(content=theirs.content, structured_content=structured)
    try:
        size = len(result.model_dump_json(by_alias=True, exclude_none=True).encode())
    except ValueError:  # half of a surrogate pair, or levels without end
        return None
    return result if size <= most_bytes else None


def _same(value: Any, other: Any) -> bool:
    """Whether nobody has changed the value on its way: a wrapper that an operator put around the tool, say."""
    try:
        return value is other or bool(value == other)
    except RecursionError:
        return False


def failed(message: str) -> CallToolResult:
    """A call that did not give a result; the model reads why."""
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
    """Put text in the place of values that are nested too deeply for a message, and leave such schemas out."""
    if "value" in structured and too_deep(structured["value"], _MOST_LEVELS):
        structured["value"] = _as_text(structured["value"])
        structured["truncated"] = sorted({*structured["truncated"], "value"})
    outputs = structured.get("outputs", {})
    for name in [name for name, value in outputs.items() if too_deep(value, _MOST_LEVELS)]:
        outputs[name] = _as_text(outputs[name])
        structured["truncated"] = sorted({*structured["truncated"], "outputs"})
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
    """`value`, without lone surrogates, which no message can carry."""
    if too_deep(value):  # it will not be sent
        return value
    text = json.dumps(value, ensure_ascii=False)
    try:
        text.encode()
    except UnicodeEncodeError:
        return json.loads(sendable(text))
    return value
