"""Tool choice in a provider's form: the keyword arguments of the request. Knows no tools.

What providers have in common: the model decides (``auto``), it has to call some tool (``required``), it may call none
(``none``), or it has to call a certain one. And whether it may make several calls in one turn.
"""

from __future__ import annotations

from typing import Any

from callgate.errors import ConfigurationError

from .options import Provider

__all__ = ["tool_choice"]

_WORDS = ("auto", "required", "none")


def tool_choice(provider: Provider, choice: str, *, parallel: bool | None = None) -> dict[str, Any]:
    """The arguments of the request that say which tools the model may or must call.

    Args:
        provider: whose form.
        choice: ``"auto"``, ``"required"``, ``"none"``, or the name of one tool as the provider knows it.
        parallel: whether several calls may come in one turn; None leaves it to the provider, which allows them.

    Raises:
        ConfigurationError: MCP has no such thing.
    """
    if provider == "mcp":
        raise ConfigurationError("MCP has no tool choice: the client's model decides which tools to call")
    if provider == "anthropic":
        chosen: dict[str, Any] = {"type": "any" if choice == "required" else choice}
        if choice not in _WORDS:
            chosen = {"type": "tool", "name": choice}
        if parallel is not None and choice != "none":
            chosen["disable_parallel_tool_use"] = not parallel
        return {"tool_choice": chosen}
    named: Any = choice
    if choice not in _WORDS:
        function = {"name": choice}
        named = {"type": "function", **({"function": function} if provider == "openai" else function)}
    given = {"tool_choice": named}
    if parallel is not None:
        given["parallel_tool_calls"] = parallel
    return given
