"""From source to plan, or to the reasons why not. Never raises, runs nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from callgate.program.findings import Finding
from callgate.program.survey import survey
from callgate.program.syntax import compiler_warning, parse_program

from .flow import Flow
from .planning.schedule import schedule
from .reading.read import read_flow
from .reading.scope import GraphTool, GraphTools
from .reasons import NotAGraph, Refusal

__all__ = ["MOST_SOURCE_BYTES", "Compiled", "GraphTool", "GraphTools", "NotAGraph", "compile_program"]

MOST_SOURCE_BYTES: Final = 64 * 1024
"""A longer program is not looked at: what it takes to read it would be taken from the host's event loop."""

_LONG: Final = 4 * 1024
"""Characters; a shorter program is compiled in a few milliseconds, whatever it is."""

_TOO_DEEP: Final = NotAGraph(1, "the program", "it is nested too deeply", "split it")


@dataclass(frozen=True, slots=True, eq=False)
class Compiled:
    """A program that is a graph."""

    flow: Flow
    """What `walk` follows."""
    plan: dict[str, Any]
    """Its calls as a plan, JSON."""
    steps: Mapping[int, str]
    """The step of each `Site`, by its number."""


def compile_program(
    source: str,
    tools: Mapping[str, GraphTool] | GraphTools,
    *,
    inputs: Mapping[str, Any] | None = None,
    max_source_bytes: int = MOST_SOURCE_BYTES,
) -> Compiled | list[NotAGraph]:
    """The plan that a program is.

    Args:
        source: the program.
        tools: what it may call, by their names in programs; or with the other ways to write them.
        inputs: JSON values of the variables that the run binds. Small ones are written into the plan.
        max_source_bytes: a longer program is no graph.
    """
    given = inputs or {}
    source = source.removeprefix("\ufeff")
    tree = parse_program(source, max_source_bytes=max_source_bytes)
    if isinstance(tree, Finding):
        return [NotAGraph(tree.line, "the program", tree.message, tree.hint)]
    try:
        flow = read_flow(tree, source, tools, given)
    except RecursionError:
        return [_TOO_DEEP]
    if isinstance(flow, list):
        return flow
    if len(source) > _LONG and not survey(tree).compiles_in_time:
        return [NotAGraph(1, "the program", "it has too many functions, comprehensions or arguments", "split it")]
    told = compiler_warning(tree, source)
    if told is not None:
        return [NotAGraph(told.line, "the program", f"the compiler says: {told.message}", told.hint)]
    try:
        plan, steps = schedule(flow, given)
    except Refusal as refused:
        return [refused.reason]
    except RecursionError:
        return [_TOO_DEEP]
    return Compiled(flow, plan, steps)
