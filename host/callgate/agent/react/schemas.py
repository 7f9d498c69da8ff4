"""Descriptions of tools as definitions for a model.

1. The names and the words are the configuration's: what is not described there, the model does not have.
2. The types are the tool's own where it is at hand: a tool of a registry, a pydantic class, an object with an
   `args_schema`. An optional integer is an integer that may be left out. Without the tool, every argument is a text,
   and required.
3. What does not fit together is told beforehand (`notes_on`), and fails when it is called: tools of MCP servers may
   come later than the configuration is read.

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
    at_hand = _AtHand(tools)
    made = []
    for each in descriptions:
        schema = at_hand.schema(each.name, provider)
        parameters = _texts(each.args) if schema is None else _parameters(schema)
        words = clean(each.description or at_hand.description(each.name), MAX_DESCRIPTION[provider])
        if provider == "anthropic":
            made.append({"name": each.name, "description": words, "input_schema": parameters})
        else:
            function = {"name": each.name, "description": words, "parameters": parameters}
            made.append({"type": "function", "function": function})
    return made


def notes_on(descriptions: Sequence[ToolDescription], tools: ToolObjects | None = None) -> tuple[str, ...]:
    """What does not fit together, a sentence for each.

    Args:
        descriptions: of the configuration.
        tools: those that are at hand; None where that is not known.
    """
    at_hand = _AtHand(tools)
    notes = []
    for each in descriptions:
        if not (each.description or at_hand.description(each.name)):
            notes.append(f"{each.name}: there is no description, and a model chooses by little else")
        elif len(each.description) > MAX_DESCRIPTION["openai"]:
            notes.append(
                f"{each.name}: the description has {len(each.description)} characters; OpenAI is given the first "
                f"{MAX_DESCRIPTION['openai']}, Anthropic {MAX_DESCRIPTION['anthropic']}"
            )
        if tools is None:
            continue
        schema = at_hand.schema(each.name, "openai")
        if schema is None:
            hint = did_you_mean(each.name, at_hand.names())
            notes.append(f"{each.name}: there is no such tool, calls will fail; its arguments are taken for text{hint}")
            continue
        if not at_hand.may_call(each.name):
            notes.append(
                f"{each.name}: the tool's allowed_callers has no 'direct', so calls of the model will be refused"
            )
        known = list(schema.get("properties", ()))
        for name in each.args:
            if known and name not in known:
                notes.append(f"{each.name}: the tool has no argument {name!r}{did_you_mean(name, known)}")
    return tuple(notes)


class _AtHand:
    """Tools that are at hand, by the names that a configuration calls them."""

    def __init__(self, tools: ToolObjects | None) -> None:
        self._registry = tools if isinstance(tools, Registry) else None
        self._names = None if self._registry is None else ModelNames(self._registry)
        self._others: dict[str, Any] = {}
        if isinstance(tools, Mapping):
            self._others = dict(tools)
        elif tools is not None and self._registry is None:
            self._others = {str(getattr(each, "name", "")): each for each in tools}

    def names(self) -> list[str]:
        return list(self._others) if self._registry is None else list(self._registry.names())

    def schema(self, name: str, provider: ModelProvider) -> Schema | None:
        """The JSON Schema of a tool's arguments; None where the tool is not at hand."""
        found = self._found(name)
        if isinstance(found, Tool):
            return shown_schema(found, provider)
        if found is None:
            return dict(input_schema(name)) if name in META_TOOLS and self._registry is not None else None
        return _own_schema(name, getattr(found, "args_schema", found))

    def description(self, name: str) -> str:
        words = getattr(self._found(name), "description", "")
        return words if isinstance(words, str) else ""

    def may_call(self, name: str) -> bool:
        found = self._found(name)
        return not isinstance(found, Tool) or "direct" in found.allowed_callers

    def _found(self, name: str) -> Any:
        if self._registry is None or self._names is None:
            return self._others.get(name)
        known = self._names.resolve(name)
        return None if known is None else self._registry.get(known)


def _own_schema(name: str, given: Any) -> Schema | None:
    """The schema of what stands for a tool's arguments: a pydantic class, or a JSON Schema."""
    if isinstance(given, type) and issubclass(given, BaseModel):
        try:
            return _with_its_top(given.model_json_schema())
        except PydanticInvalidForJsonSchema as error:
            raise ConfigurationError(f"the args_schema of {name!r} has no JSON Schema: {error.message}") from None
    return _with_its_top(dict(given)) if isinstance(given, Mapping) else None


def _with_its_top(schema: Schema) -> Schema:
    """The schema with the object itself at the top, where there is a reference to it: so pydantic has a class that
    contains itself."""
    reference = schema.get("$ref")
    kind, _, name = reference.removeprefix("#/").partition("/") if isinstance(reference, str) else ("", "", "")
    found = schema.get(kind, {}).get(name) if kind in ("$defs", "definitions") else None
    return {**schema, **found} if isinstance(found, dict) and "properties" not in schema else schema


def _texts(names: Sequence[str]) -> Schema:
    """The schema where nothing but names is known."""
    return {"type": "object", "properties": {name: {"type": "string"} for name in names}, "required": list(names)}


def _parameters(schema: Schema) -> Schema:
    """A tool's schema without what says nothing to a model: titles, and null where an argument may be left out."""
    told: Schema = mapped(schema, _told)
    made: Schema = {"type": "object", "properties": told.get("properties", {}), "required": told.get("required", [])}
    if told.get("additionalProperties") not in (None, False):
        made["additionalProperties"] = told["additionalProperties"]
    return made | {key: told[key] for key in ("$defs", "definitions") if key in told}


def _told(schema: Schema) -> Schema:
    """Without titles; no choice of null where an argument may be left out."""
    told = {key: value for key, value in schema.items() if key != "title" or not isinstance(value, str)}
    if isinstance(properties := told.get("properties"), dict):
        required = told.get("required", ())
        told["properties"] = {name: _without_null(below, name in required) for name, below in properties.items()}
    return told


def _without_null(schema: Any, required: bool) -> Any:
    """``anyOf: [integer, null]`` as an integer; where null has to be said, as a choice of two types."""
    options = schema.get("anyOf") if isinstance(schema, dict) else None
    if not isinstance(options, list) or {"type": "null"} not in options:
        return schema
    others = [each for each in options if each != {"type": "null"}]
    beside = {key: value for key, value in schema.items() if key != "anyOf"}
    if len(others) != 1 or not isinstance(others[0], dict):
        return schema
    only = others[0]
    if required:
        plain = only.get("type") in _PLAIN and "enum" not in only and "const" not in only
        return {**only, "type": [only["type"], "null"], **beside} if plain else schema
    if beside.get("default", 0) is None:
        del beside["default"]
    if "$ref" in only and beside:
        return {"anyOf": others, **beside}
    return {**only, **beside}
