"""Descriptions of tools as definitions for a model.

1. Names and descriptions come from the configuration: the model has no tool that is not described there.
2. The types are the tool's own where it is at hand: a tool of a registry, a pydantic class, an object with an
   `args_schema`. An optional integer is an integer that may be left out. Without the tool, every argument is a text,
   and required.
3. A description that does not fit its tool gives a note beforehand (`notes_on`), and an error when it is called: tools
   of MCP servers may come after the configuration is read.

Knows what tools take; calls none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pydantic import BaseModel
from pydantic.errors import PydanticInvalidForJsonSchema

from callgate.agent.models.model import ModelProvider
from callgate.errors import ConfigurationError
from callgate.runtime.model.foreign import ModelNames, clean
from callgate.runtime.model.meta import META_TOOLS, input_schema
from callgate.runtime.model.providers import MAX_DESCRIPTION
from callgate.runtime.model.schemas import mapped, shown_schema
from callgate.tools import Registry, Tool
from callgate.tools.faults import did_you_mean

from .config import ToolDescription

__all__ = ["ToolObjects", "build_tools_schema", "notes_on"]

Schema = dict[str, Any]

ToolObjects = Registry | Mapping[str, Any] | Iterable[Any]
"""Where tools are at hand: a registry; `Tool`s, or objects with a `name` and an `args_schema`; or tools, pydantic
classes or JSON Schemas by name."""

_PLAIN = frozenset({"string", "integer", "number", "boolean"})


def build_tools_schema(
    descriptions: Sequence[ToolDescription], tools: ToolObjects | None = None, provider: ModelProvider = "openai"
) -> list[dict[str, Any]]:
    """The definitions that a model is given, in the order of the descriptions.

    Args:
        descriptions: of the configuration.
        tools: those that are at hand; None for none.
        provider: whose form.

    Raises:
        ConfigurationError: an `args_schema` has no JSON Schema.
    """
    at_hand = _objects(descriptions, tools)
    made: list[dict[str, Any]] = []
    for each in descriptions:
        found = at_hand.get(each.name)
        schema = _schema(each.name, found, provider)
        if schema is None:
            texts = {name: {"type": "string"} for name in each.args}
            parameters: Schema = {"type": "object", "properties": texts, "required": list(each.args)}
        else:
            parameters = _parameters(schema)
        words = clean(each.description or _description(found), MAX_DESCRIPTION[provider])
        if provider == "anthropic":
            made.append({"name": each.name, "description": words, "input_schema": parameters})
        else:
            function = {"name": each.name, "description": words, "parameters": parameters}
            made.append({"type": "function", "function": function})
    return made


def notes_on(descriptions: Sequence[ToolDescription], tools: ToolObjects | None = None) -> tuple[str, ...]:
    """A sentence for each description that does not fit its tool.

    Args:
        descriptions: of the configuration.
        tools: those that are at hand; None where that is not known.
    """
    at_hand = _objects(descriptions, tools)
    notes = []
    for each in descriptions:
        found = at_hand.get(each.name)
        if not (each.description or _description(found)):
            notes.append(f"{each.name}: there is no description, and a model chooses by little else")
        elif len(each.description) > MAX_DESCRIPTION["openai"]:
            notes.append(
                f"{each.name}: the description has {len(each.description)} characters; OpenAI is given the first "
                f"{MAX_DESCRIPTION['openai']}, Anthropic {MAX_DESCRIPTION['anthropic']}"
            )
        if tools is None:
            continue
        schema = _schema(each.name, found, "openai")
        if schema is None:
            hint = did_you_mean(each.name, tools.names() if isinstance(tools, Registry) else list(at_hand))
            notes.append(f"{each.name}: there is no such tool, calls will fail; its arguments are taken for text{hint}")
            continue
        if isinstance(found, Tool) and "direct" not in found.allowed_callers:
            notes.append(
                f"{each.name}: the tool's allowed_callers has no 'direct', so calls of the model will be refused"
            )
        known = list(schema.get("properties", ()))
        for name in each.args:
            if known and name not in known:
                notes.append(f"{each.name}: the tool has no argument {name!r}{did_you_mean(name, known)}")
    return tuple(notes)


def _objects(descriptions: Sequence[ToolDescription], tools: ToolObjects | None) -> dict[str, Any]:
    """The tools that are at hand, by the names that the configuration calls them."""
    if isinstance(tools, Registry):
        resolve = ModelNames(tools).resolve
        names = {each.name: resolve(each.name) for each in descriptions}
        found: dict[str, Any] = {name: input_schema(name) for name in names if name in META_TOOLS}
        return found | {name: tools.get(known) for name, known in names.items() if known is not None}
    if isinstance(tools, Mapping):
        return dict(tools)
    return {str(getattr(each, "name", "")): each for each in tools or ()}


def _description(found: Any) -> str:
    words = getattr(found, "description", "")
    return words if isinstance(words, str) else ""


def _schema(name: str, found: Any, provider: ModelProvider) -> Schema | None:
    """The JSON Schema of the arguments of a tool, of a pydantic class, or of a schema; None where there is none."""
    if isinstance(found, Tool):
        return shown_schema(found, provider)
    given = getattr(found, "args_schema", found)
    if isinstance(given, type) and issubclass(given, BaseModel):
        try:
            given = given.model_json_schema()
        except PydanticInvalidForJsonSchema as error:
            raise ConfigurationError(f"the args_schema of {name!r} has no JSON Schema: {error.message}") from None
    return _with_its_top(dict(given)) if isinstance(given, Mapping) else None


def _with_its_top(schema: Schema) -> Schema:
    """The schema with the object itself at the top, where there is a reference to it: so pydantic has a class that
    contains itself."""
    kind, _, name = str(schema.get("$ref", "")).removeprefix("#/").partition("/")
    found = schema.get(kind, {}).get(name) if kind in ("$defs", "definitions") else None
    return {**schema, **found} if isinstance(found, dict) and "properties" not in schema else schema


def _parameters(schema: Schema) -> Schema:
    """A tool's schema without parts that do not help a model: titles, and null where an argument may be left out."""
    plain: Schema = mapped(schema, _plain)
    made: Schema = {"type": "object", "properties": plain.get("properties", {}), "required": plain.get("required", [])}
    if plain.get("additionalProperties") not in (None, False):
        made["additionalProperties"] = plain["additionalProperties"]
    return made | {key: plain[key] for key in ("$defs", "definitions") if key in plain}


def _plain(schema: Schema) -> Schema:
    """The schema without titles, and without null for arguments that may be left out."""
    plain = {key: value for key, value in schema.items() if key != "title" or not isinstance(value, str)}
    if isinstance(properties := plain.get("properties"), dict):
        required = plain.get("required", ())
        plain["properties"] = {name: _without_null(below, name in required) for name, below in properties.items()}
    return plain


def _without_null(schema: Any, required: bool) -> Any:
    """``anyOf: [integer, null]`` as an integer; where null has to be said, as a choice of two types."""
    options = schema.get("anyOf") if isinstance(schema, dict) else None
    others = [each for each in options if each != {"type": "null"}] if isinstance(options, list) else []
    if len(others) != 1 or others == options or not isinstance(only := others[0], dict):
        return schema
    beside = {key: value for key, value in schema.items() if key != "anyOf"}
    if required:
        plain = only.get("type") in _PLAIN and "enum" not in only and "const" not in only
        return {**only, "type": [only["type"], "null"], **beside} if plain else schema
    if beside.get("default", 0) is None:
        del beside["default"]
    return {"anyOf": others, **beside} if "$ref" in only and beside else {**only, **beside}
