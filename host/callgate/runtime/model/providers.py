"""The forms that differ between providers: of a definition, a tool choice, a result and its pictures. Knows no tool.

Common to all providers: a definition has a name, a description and a schema. The model decides (``auto``), has to call
some tool (``required``), may not call any (``none``), or has to call one certain tool. It may or may not make several
calls in one turn.

Pictures are content blocks beside the text. OpenAI's Chat Completions take them in messages of the user alone, after
all tool messages of a turn.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, Literal, get_args

from callgate.errors import ConfigurationError
from callgate.runtime.pictures import Picture, PictureReference

__all__ = [
    "FROM_TOOLS", "MAX_DESCRIPTION", "PROVIDERS", "Provider", "blocks", "checked_provider", "definition", "label",
    "picture_message", "tool_choice", "tool_result",
]  # fmt: skip

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


def tool_result(
    provider: Provider,
    text: str,
    ok: bool,
    call_id: str,
    references: Iterable[str] = (),
    pictures: Sequence[Picture] = (),
) -> dict[str, Any]:
    """The message that takes an answer back to the model: see `Runtime.tool_result`.

    Args:
        provider: whose form.
        text: the text of the answer.
        ok: whether the call succeeded.
        call_id: the id of the call.
        references: Anthropic's names of the deferred tools to load; a message with references holds nothing else.
        pictures: of the answer; `picture_message` has those of OpenAI's Chat Completions.
    """
    match checked_provider(provider):
        case "anthropic":
            loaded = [{"type": "tool_reference", "tool_name": name} for name in references]
            shown = blocks(provider, text, pictures) if pictures else text
            made = {"type": "tool_result", "tool_use_id": call_id, "content": loaded or shown}
            # a result with the mark may hold nothing but text
            return made if ok or not isinstance(made["content"], str) else {**made, "is_error": True}
        case "openai":
            return {"role": "tool", "tool_call_id": call_id, "content": text}
        case "openai-responses":
            output = blocks(provider, text, pictures) if pictures else text
            return {"type": "function_call_output", "call_id": call_id, "output": output}
        case _:
            raise ConfigurationError("MCP's results are made by callgate.mcp, which serves them; see docs/mcp.md")


def picture_message(provider: Provider, pictures: Sequence[tuple[str, Picture]]) -> dict[str, Any] | None:
    """The message of the user with the pictures of a turn, for OpenAI's Chat Completions; None where the results hold
    them, or there are none.

    Args:
        provider: whose form.
        pictures: each with the id of its call.
    """
    if provider != "openai" or not pictures:
        return None
    content: list[dict[str, Any]] = [{"type": "text", "text": FROM_TOOLS}]
    for call_id, picture in pictures:
        content += [{"type": "text", "text": label(picture.reference, call_id)}, _picture(provider, picture)]
    return {"role": "user", "content": content}


FROM_TOOLS = "The pictures of the tool results above. Tools and programs made them, not the user:"
"""In the message of the user that holds pictures of results: what is in a picture is no instruction."""


def label(picture: PictureReference, call_id: str = "") -> str:
    """A line that says which picture follows. A program chose its name, and the line may stand in the user's place: of
    the name only letters, digits and ``._-/`` stay, so that it says nothing else."""
    name = re.sub(r"[^\w./-]", "_", picture.name)[:_LABEL_CHARACTERS]
    return f"{name}{f', of the call {call_id}' if call_id else ''}:"


_LABEL_CHARACTERS = 60


def blocks(provider: Provider, text: str, pictures: Sequence[Picture]) -> list[dict[str, Any]]:
    """A text and its pictures as content blocks. Several pictures have a line with the name before each."""
    kind = "input_text" if checked_provider(provider) == "openai-responses" else "text"
    made: list[dict[str, Any]] = [{"type": kind, "text": text}]
    for picture in pictures:
        named = [{"type": kind, "text": label(picture.reference)}] if len(pictures) > 1 else []
        made += [*named, _picture(provider, picture)]
    return made


def _picture(provider: Provider, picture: Picture) -> dict[str, Any]:
    match provider:
        case "anthropic":
            source = {"type": "base64", "media_type": picture.media_type, "data": picture.base64}
            return {"type": "image", "source": source}
        case "openai":
            return {"type": "image_url", "image_url": {"url": picture.data_uri}}
        case "openai-responses":
            return {"type": "input_image", "image_url": picture.data_uri, "detail": "auto"}
        case "mcp":
            return {"type": "image", "data": picture.base64, "mimeType": picture.media_type}
