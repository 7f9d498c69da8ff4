"""What may be asked of tool definitions: the providers, and the options, with what they mean. Builds nothing."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Literal, TypedDict

from callgate.errors import ConfigurationError
from callgate.tools.faults import did_you_mean

from .meta import META_TOOLS, MetaTool

__all__ = ["PROVIDERS", "DefinitionOptions", "Provider", "checked_options", "checked_provider"]

Provider = Literal["anthropic", "openai", "openai-responses", "mcp"]
"""Whose form: Anthropic's Messages, OpenAI's Chat Completions, OpenAI's Responses, or the Model Context Protocol."""
PROVIDERS: tuple[Provider, ...] = ("anthropic", "openai", "openai-responses", "mcp")


class DefinitionOptions(TypedDict, total=False):
    """What `Runtime.tool_definitions` may be told, beside the provider."""

    direct: Collection[str] | Literal["all"]
    """Names of the tools that the model may call itself, each with a definition of its own. None by default. Tools that
    do not allow callers of kind ``direct`` are left out of ``"all"``, and refused by name."""
    meta: Collection[MetaTool]
    """The meta-tools to define; all four by default."""
    tools: Collection[str] | None
    """Names of the tools that there are for this model. None (the default): all. Give the same to `handle`."""
    texts: Mapping[MetaTool, str]
    """Descriptions of meta-tools instead of callgate's own. The list of tools is put behind them all the same."""
    inline_characters: int
    """So many characters of declarations of tools may stand in the description of ``execute_code`` (or of
    ``execute_tool_plan``, where there is no other). Where they do not fit, names stand there; where these do not fit,
    the model is told to search. 8,000 by default, about 2,000 tokens; 0 lists nothing."""
    strict: bool
    """Ask the provider to hold the model to the schemas, for the tools whose schema can be brought into its strict
    form. False by default. Not for MCP, which has no such thing."""
    plan_as_text: bool
    """``execute_tool_plan`` takes the whole plan as one argument, `plan`, which is JSON text: for models that do not
    nest objects well. False by default. Calls are answered in either form, whatever this says."""
    defer: Collection[str] | Literal["all"]
    """Names of direct tools that the provider is to keep out of the context until they are found. Anthropic and OpenAI
    Responses. None by default."""
    programmatic: str | None
    """The provider's own code execution may call direct tools, too: Anthropic's version of it, for instance
    ``"code_execution_20260120"``, or OpenAI Responses' ``"programmatic"``. Then definitions say who may call
    (`Tool.allowed_callers`: ``code`` stands for it), and tools for ``code`` alone may be among `direct`."""


DEFAULT_INLINE_CHARACTERS = 8_000


def checked_provider(provider: Any) -> Provider:
    """The provider that was asked for. Raises `ConfigurationError` where there is none of that name."""
    if provider in PROVIDERS:
        chosen: Provider = provider
        return chosen
    raise ConfigurationError(f"there is no provider {provider!r}; there are: {', '.join(PROVIDERS)}")


def checked_options(options: Mapping[str, Any]) -> None:
    """Refuse options that there are not, and values that cannot be meant. Raises `ConfigurationError`."""
    for name in options:
        if name not in DefinitionOptions.__annotations__:
            hint = did_you_mean(name, DefinitionOptions.__annotations__)
            raise ConfigurationError(f"tool definitions have no option {name!r}{hint}")
    for name in ("direct", "defer"):
        _names(name, options.get(name, ()), or_all=True)
    _names("tools", options.get("tools"), or_all=False)
    _names("meta", options.get("meta", ()), or_all=False)
    texts = options.get("texts") or {}
    for name in (*options.get("meta", ()), *texts):
        if name not in META_TOOLS:
            raise ConfigurationError(f"there is no meta-tool {name!r}; there are: {', '.join(META_TOOLS)}")
    if any(not isinstance(text, str) or not text.strip() for text in texts.values()):
        raise ConfigurationError("texts maps names of meta-tools to text: texts={'execute_code': 'Run Python ...'}")
    if not isinstance(as_text := options.get("plan_as_text", False), bool):
        raise ConfigurationError(f"plan_as_text is True or False, not {as_text!r}")
    most = options.get("inline_characters", 0)
    if type(most) is not int or most < 0:
        raise ConfigurationError(f"inline_characters is a number of characters, 0 or more, not {most!r}")


def _names(option: str, value: Any, *, or_all: bool) -> None:
    if value is None or (or_all and value == "all"):
        return
    if isinstance(value, str) or not isinstance(value, Collection) or any(not isinstance(each, str) for each in value):
        also = ", or 'all'" if or_all else ""
        raise ConfigurationError(f"{option} is a list of names{also}: {option}=['get_weather'], not {value!r}")
