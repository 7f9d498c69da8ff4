"""The forms that differ between providers: of a definition, a tool choice and a result. Knows no tool.

Common to all providers: a definition has a name, a description and a schema. The model decides (``auto``), has to call
some tool (``required``), may not call any (``none``), or has to call one certain tool. It may or may not make several
calls in one turn.
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
"""Most characters of a tool's description. OpenAI's Chat Completions refuse more than 1,024."""


def checked_provider(provider: Any) -> Provider:
    """The provider of that name. Raises `ConfigurationError` for an unknown name."""
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
        name: the tool's name, in a form that this provider takes.
        text: the description.
        schema: the schema of the arguments.
        strict: whether the provider enforces the schema.
        beside: ``annotations`` and ``outputSchema``, for MCP alone.
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
    # without `strict`, OpenAI's Responses make schemas strict where they can, and change them for that
    return {"type": "function", **made, "strict": strict}


def tool_choice(provider: Provider, choice: str, *, parallel: bool | None = None) -> dict[str, Any]:
    """The arguments of the request that say which tools the model may or must call.

    Args:
        provider: whose form.
        choice: ``"auto"``, ``"required"``, ``"none"``, or the name of one tool as the provider knows it.
        parallel: whether several calls may come in one turn; None leaves it to the provider, which allows them.

    Raises:
        ConfigurationError: the provider is unknown, or MCP, which has no tool choice.
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
        text: the text of the answer.
        ok: whether the call succeeded.
        call_id: the id of the call.
        references: Anthropic's names of the deferred tools to load; a message with references holds nothing else.
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
