"""The arguments of a step alone, with its references resolved to results that exist already."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from callgate.agent.planning.tool_plan import ToolResult, ToolStep
from callgate.errors import ConfigurationError
from callgate.plan.faults import Faults, Spot
from callgate.plan.inputs import Inputs, Unresolvable
from callgate.plan.outcomes import Result
from callgate.plan.references import Names
from callgate.plan.templates import Scope, compile_template
from callgate.tools.encoding import NotJson, compact_json

__all__ = ["Unresolvable", "resolved"]

_NO_BOUND = 1 << 62  # the results are held already


def resolved(step: ToolStep, results: Mapping[str, ToolResult], *, max_bytes: int) -> dict[str, Any]:
    """The arguments as a tool gets them.

    Args:
        step: with its parameters in the plan language.
        results: that references may name, by id.
        max_bytes: of what the arguments may be put together of.

    Raises:
        Unresolvable: they refer to what is not known, or cannot be put together.
        ConfigurationError: a result is not JSON.
    """
    inputs = Inputs(max_bytes, _NO_BOUND)
    inputs.results.extend(Result(_text(id, result)) for id, result in results.items())
    faults = Faults()
    scope = Scope(Spot(step.id, "", faults), Names(list(results)), None)
    try:
        template = compile_template(dict(step.parameters), scope, ())
        for fault in faults:
            if fault.severity == "error":
                raise Unresolvable(str(fault))
        inputs.begin()
        arguments: dict[str, Any] = template.resolve(inputs)
    except RecursionError:
        raise Unresolvable("a value is nested too deeply") from None
    return arguments


def _text(id: str, result: ToolResult) -> str:
    try:
        return compact_json(result.data)
    except NotJson as error:
        raise ConfigurationError(f"the result of {id!r} in the context is not JSON: {error}") from None
