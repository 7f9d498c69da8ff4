"""What providers differ in: the forms of a definition, of a tool choice and of a result. Knows no tool.

What they have in common: a definition has a name, a description and a schema. The model decides (``auto``), it has to
call some tool (``required``), it may call none (``none``), or it has to call a certain one; and it may or may not make
several calls in one turn.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, get_args

from callgate.errors import ConfigurationError

__all__ = ["MAX_DESCRIPTION", "PROVIDERS", "Provider", "checked_provider", "definition", "tool_choice", "tool_result"]

Provider = Literal["anthropic", "openai", "openai-responses", "mcp"]
"""Whose form: Anthropic's Messages, OpenAI's Chat Completions, OpenAI's Responses, or the Model Context Protocol."""
PROVIDERS: tuple[Provider, ...] = get_args(Provider)
MAX_DESCRIPTION: dict[Provider, int] = {"anthropic": 4_096, "openai": 1_024, "openai-responses": 1_024, "mcp": 4_096}
"""Characters of a tool's description. OpenAI's Chat Completions refuse more than 1,024."""


def checked_provider(provider: Any) -> Provider:
    """The provider that was asked for. Raises `ConfigurationError` where there is none of that name."""
    if provider in PROVIDERS:
        chosen: Provider = provider
        return chosen
    raise ConfigurationError(f"there is no provider {provider!r}; there are: {', '.join(PROVIDERS)}")


def definition(
    provider: Provider, name: str, text: str, schema: dict[str, Any], *, strict: bool, beside: dict[str, Any]
) -> dict[str, Any]:
    """One tool's definition.

    Args:
        provider: whose form.
        name: of the tool, as this provider takes it.
        text: its description.
        schema: of its arguments.
        strict: whether the provider is to hold the model to the schema.
        beside: MCP's ``annotations`` and ``outputSchema``; the others do not get them.
    """
    match provider:
        case "anthropic":
            made = {"name": name, "description": text, "input_schema": schema}
            return {**made, "strict": True} if strict else made
        case "mcp":
            return {"name": name, "description": text, "inputSchema": schema, **beside}
    made = {"name": name, "description": text, "parameters": schema}
    if provider == "openai":
        return {"type": "function", "function": {**made, "strict": True} if strict else made}
    # where nothing is said, OpenAI's Responses make strict what they can, and the schema is another one then
    return {"type": "function", **made, "strict": strict}


def tool_choice(provider: Provider, choice: str, *, parallel: bool | None = None) -> dict[str, Any]:
    """The arguments of the request that say which tools the model may or must call.

    Args:
        provider: whose form.
        choice: ``"auto"``, ``"required"``, ``"none"``, or the name of one tool as the provider knows it.
        parallel: whether several calls may come in one turn; None leaves it to the provider, which allows them.

    Raises:
        ConfigurationError: MCP has no such thing, or there is no such provider.
    """
    if checked_provider(provider) == "mcp":
        raise ConfigurationError("MCP has no tool choice: the client's model decides which tools to call")
    named = choice not in ("auto", "required", "none")
    if provider == "anthropic":
        chosen: dict[str, Any] = {"type": "any" if choice == "required" else choice}
        if named:
            chosen = {"type": "tool", "name": choice}
        if parallel is not None and choice != "none":
            chosen["disable_parallel_tool_use"] = not parallel
        return {"tool_choice": chosen}
    function = {"function": {"name": choice}} if provider == "openai" else {"name": choice}
    beside = {} if parallel is None else {"parallel_tool_calls": parallel}
    return {"tool_choice": {"type": "function", **function} if named else choice, **beside}


def tool_result(provider: Provider, text: str, ok: bool, call_id: str, references: Iterable[str]) -> dict[str, Any]:
    """The message that takes an answer back to the model: see `Runtime.tool_result`.

    Args:
        provider: whose form.
        text: the answer.
        ok: whether the call succeeded.
        call_id: of the call.
        references: deferred tools that Anthropic is to load, by its names for them; with these the message holds
            nothing else.
    """
    match checked_provider(provider):
        case "anthropic":
            loaded = [{"type": "tool_reference", "tool_name": name} for name in references]
            made = {"type": "tool_result", "tool_use_id": call_id, "content": loaded or text}
            return made if ok else {**made, "is_error": True}
        case "openai":
            return {"role": "tool", "tool_call_id": call_id, "content": text}
        case "openai-responses":
            return {"type": "function_call_output", "call_id": call_id, "output": text}
        case _:
            raise ConfigurationError("MCP's results are made by callgate.mcp, which serves them; see docs/mcp.md")
