"""Results that exist before a plan runs: references to them are replaced by their values.

Resolving is the plan language's own, with its bounds. A value is replaced where all its references are to known
results; a text or an expression that mixes known results with others is left to the plan engine, which refuses it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from callgate.agent.planning.tool_plan import ToolResult
from callgate.errors import ConfigurationError
from callgate.plan.faults import Faults, PlanFault, Spot
from callgate.plan.inputs import Inputs, Unresolvable
from callgate.plan.outcomes import Result
from callgate.plan.references import Names
from callgate.plan.templates import Scope, compile_template
from callgate.plan.values import Array, Object, Template
from callgate.tools.encoding import NotJson, compact_json

__all__ = ["KnownResults", "Unresolvable"]

_NO_BOUND = 1 << 62  # the results are held already


class KnownResults:
    """Results by id.

    Args:
        results: those of them that succeeded are known.
        max_bytes: of what one call's arguments may be put together of.
        others: ids of steps without a result yet.

    Raises:
        ConfigurationError: a result is not JSON.
    """

    def __init__(self, results: Mapping[str, ToolResult], *, max_bytes: int, others: tuple[str, ...] = ()) -> None:
        known = {id: _text(id, result) for id, result in results.items() if result.success and id not in others}
        self.ids = frozenset(known)
        self._names = Names([*others, *known])
        self._inputs = Inputs(max_bytes, _NO_BOUND)
        self._inputs.results.extend([None] * len(others) + [Result(text) for text in known.values()])
        self._first = len(others)

    def put_into(self, value: Any) -> Any:
        """The arguments in the plan language, with what is known as literals.

        Raises:
            Unresolvable: a reference to what is known leads nowhere.
        """
        template, sources, faults = self._compiled(value)
        if faults or not any(source >= self._first for source in sources):
            return value  # the plan engine says what is wrong
        if all(source >= self._first for source in sources):
            return {"$literal": self._resolved(template)}
        if isinstance(template, Object):
            return {key: self.put_into(member) for key, member in value.items()}
        return [self.put_into(item) for item in value] if isinstance(template, Array) else value

    def arguments(self, written: Mapping[str, Any], step: str) -> Any:
        """The arguments as a tool gets them.

        Args:
            written: in the plan language.
            step: id of their step, for what is wrong with them.

        Raises:
            Unresolvable: they refer to what is not known, or cannot be put together.
        """
        template, _, faults = self._compiled(dict(written), step)
        if faults:
            raise Unresolvable(str(faults[0]))
        return self._resolved(template)

    def _compiled(self, value: Any, step: str = "") -> tuple[Template, set[int], list[PlanFault]]:
        found = Faults()
        scope = Scope(Spot(step, "", found), self._names, None)
        try:
            template = compile_template(value, scope, ())
        except RecursionError:
            raise Unresolvable("a value is nested too deeply") from None
        errors = [each for each in found if each.severity == "error"]
        return template, {reference.source for reference in scope.references}, errors

    def _resolved(self, template: Template) -> Any:
        self._inputs.begin()
        return template.resolve(self._inputs)


def _text(id: str, result: ToolResult) -> str:
    try:
        return compact_json(result.data)
    except NotJson as error:
        raise ConfigurationError(f"the result of {id!r} in the context is not JSON: {error}") from None
