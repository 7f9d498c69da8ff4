"""What came of a call, as MCP states it: text for the model, and a structured result that fits the tool's output
schema. Pure; runs nothing.

The structured result is bounded like the text: some clients put it into the model's context instead.
"""

from __future__ import annotations

import json
from typing import Any

from mcp_types import CallToolResult, TextContent

from callgate.runtime import CallRecord, CodeResult, PlanResult
from callgate.runtime.model.answer import Answer

from .notes import sendable

__all__ = ["CALLS_SCHEMA", "SESSION_SCHEMA", "failed", "result_of"]

_MOST_CALLS = 100

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
    text = f"{answer.text}\n{note}" if note else answer.text
    return CallToolResult(
        content=[TextContent(text=sendable(text))],
        structured_content=None if structured is None else _sendable(structured),
        is_error=not answer.ok,
    )


def failed(message: str) -> CallToolResult:
    """A call that did not give a result; the model reads why."""
    return CallToolResult(content=[TextContent(text=sendable(f"Error: {message}"))], is_error=True)


def _call(record: CallRecord) -> dict[str, Any]:
    return {
        "tool": record.tool,
        "status": record.status,
        "seconds": round(record.duration_seconds, 6),
        "cached": record.cached,
        "error": record.error and record.error[:500],
    }


def _sendable(value: Any) -> Any:
    """`value`, without lone surrogates, which no message can carry."""
    text = json.dumps(value, ensure_ascii=False)
    try:
        text.encode()
    except UnicodeEncodeError:
        return json.loads(sendable(text))
    return value
