"""Calls of real tools to show a model in an example. Made of what the tools' schemas say; never called. Pure.

A model may try an example as it stands, and then nothing may break. So only tools are taken that only read, and that
nobody has to approve; of these the simplest, with one required argument of plain text or a choice: first those whose
own examples or choices say what to write, so that the example works, then those that have no other argument. Where no
value is known, the example shows where values go, and a call of it may fail. Where there is no tool, the example names
none. Names and values come from foreign schemas: only short, plain ones are used.
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


@dataclass(frozen=True, slots=True)
class Sample:
    """A tool, one argument of it, and values that it may have."""

    tool: Tool
    python: str
    """Its name in programs."""
    argument: str
    values: tuple[Any, ...]
    """Two."""
    field: str | None
    """A member that every result has, and that is plain; None where none is known."""
    real: bool
    """Whether the values are the tool's own; else they only show where values go."""


def sample_of(tools: Iterable[Tool], names: Mapping[str, str]) -> Sample | None:
    """The best tool for an example; None where none only reads and is simple enough.

    Args:
        tools: to choose from, in an order that is always the same.
        names: what programs call them.
    """
    best: Sample | None = None
    harmless = (tool for tool in tools if tool.read_only and not tool.requires_approval)
    for tool in itertools.islice(harmless, _MOST_TOOLS):
        sample = _sample(tool, names[tool.name])
        if sample is not None and (best is None or _simplicity(sample) > _simplicity(best)):
            best = sample
    return best


@dataclass(frozen=True, slots=True)
class Chain:
    """Two calls, of which the second one is given what the first one returned."""

    first: Sample
    then: Sample
    field: str | None
    """The member of the first result that the second call is given; None: the whole result."""


def chain_of(tools: Iterable[Tool], names: Mapping[str, str]) -> Chain | None:
    """The best two tools for a plan with a reference in it; None where there are none.

    Best is an argument of the same name and kind as a member of the first result: it means the same. Else the kinds
    fit, so that the plan is in order, and what the call makes of it shows when it runs.

    Args:
        tools: to choose from, in an order that is always the same.
        names: what programs call them.
    """
    harmless = (tool for tool in tools if tool.read_only and not tool.requires_approval)
    found = [_sample(tool, names[tool.name]) for tool in itertools.islice(harmless, _MOST_TOOLS)]
    samples = [sample for sample in found if sample is not None and len(sample.tool.name) <= _MOST_NAME]
    taking = {(sample.argument, _kind(sample)): sample for sample in reversed(samples)}
    best: Chain | None = None
    for sample in sorted(samples, key=_simplicity, reverse=True):
        members = _members(sample.tool)
        same = next((Chain(sample, taking[each], each[0]) for each in members if each in taking), None)
        if same is not None:
            return same
        fits = next((name for name, kind in members if kind == _kind(sample)), None)
        if best is None and (fits is not None or _kind(sample) == "string"):
            best = Chain(sample, sample, fits)
    return best


def _kind(sample: Sample) -> str:
    """The type of the sample's argument."""
    return "integer" if isinstance(sample.values[0], int) else "string"


def _members(tool: Tool) -> list[tuple[str, str]]:
    """Plain members that every result has, with their types."""
    schema = tool.output_schema or {}
    properties, required = schema.get("properties"), schema.get("required")
    if not isinstance(properties, dict) or not isinstance(required, list):
        return []
    return [
        (name, below["type"])
        for name, below in properties.items()
        if name in required and _NAME.fullmatch(name) and isinstance(below, dict)
        and below.get("type") in ("string", "integer")
    ]  # fmt: skip


def _simplicity(sample: Sample) -> tuple[bool, bool]:
    return sample.real, len(sample.tool.input_schema["properties"]) == 1


def _sample(tool: Tool, python: str) -> Sample | None:
    properties = tool.input_schema.get("properties")
    required = tool.input_schema.get("required")
    if (
        not isinstance(properties, dict)
        or not isinstance(required, list)
        or len(required) != 1
        or len(python) > _MOST_NAME
    ):
        return None
    argument = required[0]
    below = properties.get(argument)
    if not isinstance(argument, str) or not _is_name(argument) or not isinstance(below, dict):
        return None
    known = [each[argument] for each in tool.examples if isinstance(each, dict) and argument in each]
    for source in (known, below.get("enum"), below.get("examples")):
        values = _plain(source)
        if len(values) >= 2:
            return Sample(tool, python, argument, values, _field(tool), real=True)
    if below.get("type") == "string":
        return Sample(tool, python, argument, ("first", "second"), _field(tool), real=False)
    if below.get("type") == "integer":
        return Sample(tool, python, argument, (1, 2), _field(tool), real=False)
    return None


def _field(tool: Tool) -> str | None:
    schema = tool.output_schema or {}
    properties, required = schema.get("properties"), schema.get("required")
    if not isinstance(properties, dict) or not isinstance(required, list):
        return None
    for kind in ("number", "integer", "string"):
        for name, below in properties.items():
            if name in required and _is_field(name) and isinstance(below, dict) and below.get("type") == kind:
                return str(name)
    return None


def _is_name(name: str) -> bool:
    return _NAME.fullmatch(name) is not None and not keyword.iskeyword(name)


def _is_field(name: str) -> bool:
    """Whether ``r.name`` is the field, and not a dict's method."""
    return _is_name(name) and not hasattr(dict, name)


def _plain(values: Any) -> tuple[Any, ...]:
    if not isinstance(values, list):
        return ()
    plain = [each for each in values if type(each) is int or (isinstance(each, str) and _VALUE.fullmatch(each))]
    return tuple(dict.fromkeys(plain))[:2]
