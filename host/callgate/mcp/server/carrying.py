"""What a message can carry. Knows how deep and how long clients read; not what a result means.

1. JSON of any depth can be written, and is not read: System.Text.Json stops at 64 levels, serde_json at 128, pydantic
   at 200, and a client that could not read an answer waits for it for ever. So a structured result has `MAX_LEVELS`.
2. Over HTTP the SDK's client gives up on an event of more than 1 MiB, and with it on the answer.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from mcp_types import CallToolResult, TextContent

__all__ = ["MAX_HTTP_BYTES", "MAX_LEVELS", "carried", "sendable", "too_deep"]

MAX_LEVELS = 60
"""Of arrays and objects inside each other, in a structured result and in a tool's schemas."""
MAX_HTTP_BYTES = 1_000_000
"""Of one result over HTTP."""
_MOST_GROWTH = 16
"""Bytes that a character of the text may cost: six where it is escaped, and the structured result has it again."""


def sendable(text: str) -> str:
    """`text` without lone surrogates, which no message can carry."""
    return text.encode("utf-8", "replace").decode()


def too_deep(value: Any, most: int = MAX_LEVELS) -> bool:
    """Whether a JSON value has more than so many levels."""
    level = [value] if isinstance(value, (dict, list)) else []
    for _ in range(most):
        if not level:
            return False
        level = [each for outer in level for each in _inside(outer) if isinstance(each, (dict, list))]
    return bool(level)


def carried(result: CallToolResult, *, http: bool) -> CallToolResult:
    """The result, or one in its place that says why it cannot be sent and what to do.

    Args:
        result: what came of a call.
        http: whether it goes over HTTP.
    """
    if result.structured_content is not None and too_deep(result.structured_content):
        return _instead(f"it is nested more than {MAX_LEVELS} levels deep")
    if http:
        characters = sum(len(each.text) for each in result.content if isinstance(each, TextContent))
        if characters * _MOST_GROWTH > MAX_HTTP_BYTES:
            size = len(result.model_dump_json(by_alias=True, exclude_none=True).encode())
            if size > MAX_HTTP_BYTES:
                return _instead(f"it is {size} bytes long, and clients read {MAX_HTTP_BYTES} over HTTP")
    return result


def _instead(why: str) -> CallToolResult:
    told = (
        f"Error: the call was made, but what came of it cannot be sent: {why}. "
        "Call the tool in a program (execute_code), and return the part that you need."
    )
    return CallToolResult(content=[TextContent(text=told)], is_error=True)


def _inside(value: dict[str, Any] | list[Any]) -> Iterable[Any]:
    return value.values() if isinstance(value, dict) else value
