"""Answers as the message that goes back to the model, in a provider's form. Knows no tool."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from callgate.errors import ConfigurationError

from .answer import Answer
from .options import Provider

__all__ = ["tool_result"]


def tool_result(provider: Provider, answer: Answer, call_id: str, *, references: Iterable[str] = ()) -> dict[str, Any]:
    """See `Runtime.tool_result`.

    Args:
        provider: whose form.
        answer: the answer.
        call_id: of the call.
        references: deferred tools that Anthropic is to load, by its names for them; with these the message holds
            nothing else.
    """
    match provider:
        case "anthropic":
            loaded = [{"type": "tool_reference", "tool_name": name} for name in references]
            made = {"type": "tool_result", "tool_use_id": call_id, "content": loaded or answer.text}
            return made if answer.ok else {**made, "is_error": True}
        case "openai":
            return {"role": "tool", "tool_call_id": call_id, "content": answer.text}
        case "openai-responses":
            return {"type": "function_call_output", "call_id": call_id, "output": answer.text}
        case _:
            raise ConfigurationError("MCP's results are made by callgate.mcp, which serves them; see docs/serve.md")
