"""Compiled values: what is left to do when the results are there. Resolves; knows nothing of how things are written.

1. Nothing is copied: whoever gets a resolved value must not change it. (The gate gives each call its own copy.)
2. What is made anew, text and mapped arrays, is counted before it is made, and bounded; so is what the value would
   take as JSON.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from callgate.tools.encoding import NotJson, compact_json

from .expressions import Budget, BudgetExceeded, Expression, ExpressionError, ExpressionFault, to_json
from .expressions.weight import charge_text
from .outcomes import Result
from .paths import LeadsNowhere, look_up, path_text
from .references import ITEM, Reference
from .sizes import json_size

__all__ = [
    "MAX_WARNINGS",
    "Array",
    "At",
    "Broken",
    "Computed",
    "Literal",
    "Object",
    "Template",
    "Text",
    "Unresolvable",
    "Values",
    "Whole",
]


_EXPRESSION_STEPS = 100_000
"""Of one expression, once: 25 ms of the event loop, or 50 where that is slow."""
_EXPRESSION_BYTES = 64 * 1024 * 1024
_WRITERS = 4
"""What is computed is measured, written and checked several times on its way to a tool."""
_STEPS_FOR_A_MISS = 20
_SHORT_PATH = 8
"""Segments that cost nothing: following them takes a microsecond."""
_MAX_SUGGESTIONS = 20
"""So many times in a plan the nearest key is looked for."""
MAX_WARNINGS = 20
"""Of one step."""


class Unresolvable(Exception):
    """A value cannot be put together: the step fails with this message."""


@dataclass(slots=True)
class Values:
    """What references stand for when one step is resolved; used for one step after the other."""

    results: Sequence[Result | None]
    budget: Budget
    max_bytes: int
    misses: int = 0
    """How many paths of the plan have led nowhere so far."""
    item: Any = None
    index: int = 0
    item_bytes: int = 0
    size: int = 0
    """An upper bound of the value's bytes as JSON."""
    made: int = 0
    """Bytes that were made anew: text put together, items mapped."""
    warnings: list[str] = field(default_factory=list)

    def make(self, size: int) -> None:
        """Count what is about to be made. Raises `Unresolvable` when it is too much for one call."""
        self.made += size
        if self.made > self.max_bytes:
            raise Unresolvable(f"the arguments would be longer than max_message_bytes, {self.max_bytes}")

    def map(self, items: int, segments: int) -> None:
        """The same for the items of a `[*]`: two bytes each at least, and steps of the plan's budget for the rest of
        the path."""
        self.make(2 * items)
        self.walk(items * (1 + segments))

    def walk(self, steps: int) -> None:
        """Spend the plan's budget on following paths. Raises `Unresolvable`."""
        try:
            self.budget.work(steps)
        except BudgetExceeded:
            raise Unresolvable("the references of this plan map over too many items, all together") from None

    def miss(self) -> bool:
        """Count a path that leads nowhere; whether it is worth looking for what was meant. Raises `Unresolvable`."""
        try:
            self.budget.work(_STEPS_FOR_A_MISS)
        except BudgetExceeded:
            raise Unresolvable("too many references of this plan lead nowhere, all together") from None
        self.misses += 1
        return self.misses <= _MAX_SUGGESTIONS


class Template(Protocol):
    """A compiled value."""

    def resolve(self, values: Values) -> Any:
        """The value. Raises `Unresolvable`."""
        ...


@dataclass(frozen=True, slots=True)
class Literal:
    value: Any

    def resolve(self, values: Values) -> Any:
        return self.value


@dataclass(frozen=True, slots=True)
class Broken:
    """A value with a fault; it will not be run."""

    def resolve(self, values: Values) -> Any:
        raise Unresolvable("this value has a fault")


@dataclass(frozen=True, slots=True)
class Whole:
    """A step's result as it is."""

    source: int

    def resolve(self, values: Values) -> Any:
        result = values.results[self.source]
        assert result is not None
        values.size += len(result.text)
        return result.value


@dataclass(frozen=True, slots=True)
class At:
    """A place in a result or an item."""

    reference: Reference

    def resolve(self, values: Values) -> Any:
        reference = self.reference
        source = reference.source
        if source >= 0:
            result = values.results[source]
            assert result is not None
            values.size += len(result.text)
            value = result.inside if reference.path else result.value
        elif source == ITEM:
            values.size += values.item_bytes
            value = values.item
        else:
            values.size += 8
            return values.index
        if not reference.path:
            return value
        if len(reference.path) > _SHORT_PATH:
            values.walk(len(reference.path) // 2)
        try:
            return look_up(value, reference.path, count=values.map)
        except LeadsNowhere as nowhere:
            suggest = values.miss()
            if not reference.nullable:
                raise Unresolvable(f"{reference.text} leads nowhere: {_words(nowhere, reference, suggest)}") from None
        noted: list[LeadsNowhere] = []
        value = look_up(value, reference.path, instead=noted, count=values.map)
        times = f" ({len(noted)} times)" if len(noted) > 1 else ""
        if len(values.warnings) < MAX_WARNINGS:
            words = _words(noted[0], reference, suggest)
            values.warnings.append(f"{reference.text} leads nowhere, null was put there{times}: {words}")
        return value


@dataclass(frozen=True, slots=True)
class Text:
    parts: tuple[str | At, ...]

    def resolve(self, values: Values) -> str:
        made: list[str] = []
        total = 0
        for part in self.parts:
            if not isinstance(part, str):
                value = part.resolve(values)
                part = value if isinstance(value, str) else _written(value)
            values.make(len(part))
            total += len(part)
            made.append(part)
        values.size += 6 * total  # what JSON can make of a character
        return "".join(made)


@dataclass(frozen=True, slots=True)
class Object:
    keys: tuple[str, ...]
    members: tuple[Template, ...]

    def resolve(self, values: Values) -> dict[str, Any]:
        return {key: member.resolve(values) for key, member in zip(self.keys, self.members, strict=True)}


@dataclass(frozen=True, slots=True)
class Array:
    items: tuple[Template, ...]

    def resolve(self, values: Values) -> list[Any]:
        return [item.resolve(values) for item in self.items]


@dataclass(frozen=True, slots=True)
class Computed:
    expression: Expression
    sources: Mapping[str, int]

    def resolve(self, values: Values) -> Any:
        given: dict[str, Any] = {}
        for name, source in self.sources.items():
            if source >= 0:
                result = values.results[source]
                assert result is not None
                given[name] = result.value
            else:
                given[name] = values.item if source == ITEM else values.index
        shown = f"the expression {self.expression.source[:80]!r}"
        try:
            value = self._evaluate(given, values.budget)
            values.make(json_size(value, values.max_bytes))
            values.size += len(_written(value))
        except ExpressionError as error:
            texts = [name for name, each in given.items() if isinstance(each, str) and each.lstrip()[:1] in ("{", "[")]
            hint = f"; the result of {texts[0]!r} is text: json.loads({texts[0]}) reads it" if texts else ""
            raise Unresolvable(f"{shown} failed: {str(error)[:500]}{hint}") from None
        except ExpressionFault as fault:
            raise Unresolvable(f"{shown} does what expressions cannot: {fault.message}; {fault.hint}") from None
        except BudgetExceeded as error:
            raise Unresolvable(
                f"{shown} takes too much ({error}); do less of it in one plan, or use a program"
            ) from None
        return value

    def _evaluate(self, given: Mapping[str, Any], budget: Budget) -> Any:
        """The value, which may take no more than keeps the event loop from its next turn for a moment."""
        share = budget.share(steps=_EXPRESSION_STEPS, bytes=_EXPRESSION_BYTES)
        try:
            value = to_json(self.expression.evaluate(given, share), share)
            charge_text(share, value, json=True, times=_WRITERS)
            return value
        finally:
            budget.settle(share)


def _written(value: Any) -> str:
    try:
        return compact_json(value)
    except NotJson as error:  # it came out of a text, or of an expression
        raise Unresolvable(str(error)) from None


def _words(nowhere: LeadsNowhere, reference: Reference, suggest: bool) -> str:
    root = reference.text.removeprefix("$ref:").removeprefix("${").removesuffix("}")
    return nowhere.words(root.removesuffix(path_text(reference.path)), suggest=suggest)
