"""Results that are there before a plan runs: references to them resolved, so that the rest can run without them.

A value is replaced by what it stands for where it refers to known results only; `{"$literal": ...}` keeps the engine
from looking at it again. A text or an expression that mixes known results with others is left, and said to be.
Resolving is the plan language's own, with its bounds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from callgate.plan.faults import Faults, PlanFault, Spot
from callgate.plan.inputs import Inputs, Unresolvable
from callgate.plan.outcomes import Result
from callgate.plan.references import Names
from callgate.plan.templates import Scope, compile_template
from callgate.plan.values import Array, Object, Template

__all__ = ["KnownResults", "Resolved", "Unresolvable"]

_NO_BOUND = 1 << 62  # the results are held already


@dataclass(frozen=True, slots=True)
class Resolved:
    """Arguments after what is known was put into them.

    Attributes:
        written: in the plan language.
        needs: ids of results that are not known and are referred to.
        mixed: ids of known results that are still referred to, beside others.
        faults: what is wrong with how they are written; the engine will say the same.
    """

    written: dict[str, Any]
    needs: frozenset[str]
    mixed: frozenset[str]
    faults: tuple[str, ...] = ()


class KnownResults:
    """Results by id.

    Args:
        steps: ids of the plan's steps, in its order: what references by position mean.
        texts: the results that are known, as JSON text; of steps of the plan, and of others.
        max_bytes: of what one call's arguments may be put together of.
    """

    def __init__(self, steps: Iterable[str], texts: Mapping[str, str], *, max_bytes: int) -> None:
        self._ids = list(dict.fromkeys([*steps, *texts]))
        self._names = Names(self._ids)
        self._inputs = Inputs(max_bytes, _NO_BOUND)
        self._results = self._inputs.results
        self._results += [Result(texts[each]) if each in texts else None for each in self._ids]

    def know(self, id: str, text: str) -> None:
        """One more result of a step."""
        self._results[self._ids.index(id)] = Result(text)

    def resolve(self, arguments: Mapping[str, Any]) -> Resolved:
        """The arguments, with what is known put in. What cannot be put together counts as `mixed`."""
        needs: set[int] = set()
        mixed: set[int] = set()
        faults: list[PlanFault] = []
        try:
            written = {name: self._written(value, needs, mixed, faults) for name, value in arguments.items()}
        except RecursionError:
            return Resolved(dict(arguments), frozenset(), frozenset(), ("a value is nested too deeply",))
        errors = tuple(str(each) for each in faults if each.severity == "error")
        return Resolved(written, self._named(needs), self._named(mixed), errors)

    def plain(self, arguments: Mapping[str, Any], step: str = "") -> dict[str, Any]:
        """The arguments as a tool gets them.

        Args:
            arguments: as the plan language writes them.
            step: id of the step that they are of, for what is wrong with them.

        Raises:
            Unresolvable: they refer to what is not known, or cannot be put together.
        """
        faults: list[PlanFault] = []
        try:
            template, sources = self._compiled(dict(arguments), faults, step)
            unknown = [self._ids[each] for each in sources if self._results[each] is None]
            if faults or unknown:
                raise Unresolvable(str(faults[0]) if faults else f"there is no result of {unknown[0]!r}")
            value = self._value(template)
        except RecursionError:
            raise Unresolvable("a value is nested too deeply") from None
        if not isinstance(value, dict):
            raise Unresolvable("the arguments must be an object")
        return value

    def _written(self, value: Any, needs: set[int], mixed: set[int], faults: list[PlanFault]) -> Any:
        found: list[PlanFault] = []
        template, sources = self._compiled(value, found)
        if found or not sources:
            faults += found
            return value
        known = {each for each in sources if self._results[each] is not None}
        if known == sources:
            try:
                return {"$literal": self._value(template)}
            except Unresolvable:  # the engine says it better, with the step's name
                mixed |= known
                return value
        if known and isinstance(template, Object):
            return {key: self._written(member, needs, mixed, faults) for key, member in value.items()}
        if known and isinstance(template, Array):
            return [self._written(item, needs, mixed, faults) for item in value]
        needs |= sources - known
        mixed |= known
        return value

    def _compiled(self, value: Any, faults: list[PlanFault], step: str = "") -> tuple[Template, set[int]]:
        found = Faults()
        scope = Scope(Spot(step, "", found), self._names, None)
        template = compile_template(value, scope, ())
        faults += [each for each in found if each.severity == "error"]
        return template, {reference.source for reference in scope.references}

    def _value(self, template: Template) -> Any:
        self._inputs.begin()
        return template.resolve(self._inputs)

    def _named(self, indices: set[int]) -> frozenset[str]:
        return frozenset(self._ids[each] for each in indices)
