"""Chooses calls of real tools for the examples in descriptions, by the tools' schemas. Calls nothing. Pure.

A model may run an example as it is, which must not do harm. So examples use only read-only tools without approval. The
best is the simplest, with one required argument of plain text or a choice: first tools whose own examples or choices
give the values, so that the example works, then tools without other arguments. Without known values the example shows
where values go, and a call may fail. Without a tool the example names none. Names and values come from foreign schemas:
only short, plain ones are used.
"""

from __future__ import annotations

import itertools
import keyword
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from callgate.tools import Tool

__all__ = ["Chain", "Sample", "chain_of", "sample_of"]

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,15}")
_VALUE = re.compile(r"[A-Za-z0-9][A-Za-z0-9 _./@-]{0,15}")
_MOST_NAME = 30
_MOST_TOOLS = 500
_SHOWN: dict[str, tuple[Any, ...]] = {"string": ("first", "second"), "integer": (1, 2)}
"""Placeholder values by the type of the argument."""


@dataclass(frozen=True, slots=True)
class Sample:
    """A tool, one of its arguments, and values for the argument."""

    tool: Tool
    python: str
    """The tool's name in programs."""
    argument: str
    values: tuple[Any, ...]
    """Two values."""
    real: bool
    """Whether the values are the tool's own, and not placeholders."""

    @property
    def kind(self) -> str:
        """The type of the argument."""
        return "integer" if isinstance(self.values[0], int) else "string"

    @property
    def field(self) -> str | None:
        """A plain member of every result, for ``r.field``; None if none is known."""
        fields = {kind: name for name, kind in reversed(_members(self.tool)) if not hasattr(dict, name)}
        return next((fields[kind] for kind in ("number", "integer", "string") if kind in fields), None)


@dataclass(frozen=True, slots=True)
class Chain:
    """Two calls; the second call gets the result of the first."""

    first: Sample
    then: Sample
    field: str | None
    """The member of the first result that the second call gets; None for the whole result."""


def sample_of(tools: Iterable[Tool], names: Mapping[str, str]) -> Sample | None:
    """The best tool for an example; None if no read-only tool is simple enough.

    Args:
        tools: the tools to choose from, always in the same order.
        names: the tools' names in programs.
    """
    return max(_samples(tools, names), key=_simplicity, default=None)


def chain_of(tools: Iterable[Tool], names: Mapping[str, str]) -> Chain | None:
    """The best two tools for a plan with a reference in it; None if there are none.

    Best is an argument with the same name and type as a member of the first result. Else only the types fit: the plan
    is valid, and its second call may fail.

    Args:
        tools: the tools to choose from, always in the same order.
        names: the tools' names in programs.
    """
    samples = [sample for sample in _samples(tools, names) if len(sample.tool.name) <= _MOST_NAME]
    taking = {(sample.argument, sample.kind): sample for sample in reversed(samples)}
    best: Chain | None = None
    for sample in sorted(samples, key=_simplicity, reverse=True):
        members = _members(sample.tool)
        for member in members:
            if member in taking:
                return Chain(sample, taking[member], member[0])
        fits = next((name for name, kind in members if kind == sample.kind), None)
        if best is None and (fits is not None or sample.kind == "string"):
            best = Chain(sample, sample, fits)
    return best


def _samples(tools: Iterable[Tool], names: Mapping[str, str]) -> list[Sample]:
    harmless = (tool for tool in tools if tool.read_only and not tool.requires_approval)
    found = (_sample(tool, names[tool.name]) for tool in itertools.islice(harmless, _MOST_TOOLS))
    return [sample for sample in found if sample is not None]


def _sample(tool: Tool, python: str) -> Sample | None:
    properties, required = _arguments(tool.input_schema)
    if len(required) != 1 or len(python) > _MOST_NAME:
        return None
    argument = required[0]
    below = properties.get(argument)
    if not _is_name(argument) or not isinstance(below, dict):
        return None
    known = [each[argument] for each in tool.examples if isinstance(each, dict) and argument in each]
    for source in (known, below.get("enum"), below.get("examples")):
        values = _plain(source)
        if len(values) >= 2:
            return Sample(tool, python, argument, values, real=True)
    shown = _SHOWN.get(str(below.get("type")))
    return None if shown is None else Sample(tool, python, argument, shown, real=False)


def _simplicity(sample: Sample) -> tuple[bool, bool]:
    return sample.real, len(sample.tool.input_schema["properties"]) == 1


def _members(tool: Tool) -> list[tuple[str, str]]:
    """Plain members of every result, with their types."""
    properties, required = _arguments(tool.output_schema or {})
    return [
        (name, below["type"])
        for name, below in properties.items()
        if name in required and _is_name(name) and isinstance(below, dict)
        and below.get("type") in ("string", "integer", "number")
    ]  # fmt: skip


def _arguments(schema: Mapping[str, Any]) -> tuple[dict[str, Any], list[Any]]:
    """The properties of an object, and the names of the required ones."""
    properties, required = schema.get("properties"), schema.get("required")
    there = isinstance(properties, dict) and isinstance(required, list)
    return (properties, required) if there else ({}, [])  # type: ignore[return-value]


def _is_name(name: Any) -> bool:
    return isinstance(name, str) and _NAME.fullmatch(name) is not None and not keyword.iskeyword(name)


def _plain(values: Any) -> tuple[Any, ...]:
    listed = values if isinstance(values, list) else []
    plain = [each for each in listed if type(each) is int or (isinstance(each, str) and _VALUE.fullmatch(each))]
    return tuple(dict.fromkeys(plain))[:2]
