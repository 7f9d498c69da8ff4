"""Compiled values, which resolve to JSON values once the results are there. Knows nothing of how plans are written.

Nothing is copied: a resolved value must not be changed. (The gate gives each call its own copy.)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from callgate.tools.encoding import NotJson, compact_json
from callgate.tools.faults import described

from .expressions import Budget, BudgetExceeded, Expression, ExpressionError, ExpressionFault, to_json
from .expressions.weight import charge_text
from .inputs import Inputs, Unresolvable
from .paths import LeadsNowhere, look_up, path_text
from .references import ITEM, Reference
from .sizes import json_size

__all__ = ["Array", "AsText", "At", "Broken", "Computed", "Literal", "Object", "Template", "Text"]


_EXPRESSION_STEPS = 100_000
"""Of one evaluation of an expression: 25 ms of the event loop, on slow machines 50."""
_EXPRESSION_BYTES = 64 * 1024 * 1024
_WRITERS = 4
"""A computed value is measured, encoded and checked several times on its way to a tool."""
_SHORT_PATH = 8
"""Segments that cost nothing: they take a microsecond."""


class Template(Protocol):
    """A compiled value."""

    def resolve(self, inputs: Inputs) -> Any:
        """Return the value. Raises `Unresolvable`."""
        ...


@dataclass(slots=True)  # not frozen: see `CompiledStep`
class Literal:
    value: Any

    def resolve(self, inputs: Inputs) -> Any:
        return self.value


@dataclass(frozen=True, slots=True)
class Broken:
    """A value with a fault; it never runs."""

    def resolve(self, inputs: Inputs) -> Any:
        raise Unresolvable("this value has a fault")


class At(Reference):
    """A reference to a result or an item, or to a place in one."""

    __slots__ = ()

    def resolve(self, inputs: Inputs) -> Any:
        source, path, written, _, nullable = self
        if source >= 0:
            result = inputs.results[source]
            assert result is not None
            inputs.size += len(result.text)
            value = result.inside if path else result.value
        elif source == ITEM:
            inputs.size += inputs.item_bytes
            inputs.is_measured = False
            value = inputs.item
        else:
            inputs.size += 8
            return inputs.index
        if not path:
            return value
        inputs.is_measured = False
        if len(path) > _SHORT_PATH:
            inputs.walk(len(path) // 2)
        try:
            return look_up(value, path, count=inputs.map)
        except LeadsNowhere as nowhere:
            suggest = inputs.miss()
            if not nullable:
                raise Unresolvable(f"{written} leads nowhere: {_words(nowhere, self, suggest)}") from None
        noted: list[LeadsNowhere] = []
        value = look_up(value, path, instead=noted, count=inputs.map)
        times = f" ({len(noted)} times)" if len(noted) > 1 else ""
        words = _words(noted[0], self, suggest)
        inputs.warn(f"{written} leads nowhere, null was put there{times}: {words}")
        return value


@dataclass(frozen=True, slots=True)
class AsText:
    """A reference where a tool takes only text: anything but text and null is written as JSON, with a warning.

    Only whole values of the ``$ref:`` dialect are written so, as declarative plans have it; others keep their types.
    """

    value: At
    place: str
    """The argument."""

    def resolve(self, inputs: Inputs) -> Any:
        value = self.value.resolve(inputs)
        if value is None or isinstance(value, str):
            return value
        inputs.make(json_size(value, inputs.max_bytes))
        text = compact_json(value)
        inputs.size += 6 * len(text)  # what JSON can make of a character
        inputs.is_measured = False
        got, written = described(value).partition(" (")[0], self.value.text
        inputs.warn(f"{self.place!r} takes text: {written}, {got}, was written as JSON text")
        return text


@dataclass(frozen=True, slots=True)
class Text:
    parts: tuple[str | At, ...]

    def resolve(self, inputs: Inputs) -> str:
        made: list[str] = []
        total = 0
        for part in self.parts:
            if not isinstance(part, str):
                value = part.resolve(inputs)
                part = value if isinstance(value, str) else _written(value)
            inputs.make(len(part))
            total += len(part)
            made.append(part)
        inputs.size += 6 * total  # what JSON can make of a character
        inputs.is_measured = False
        return "".join(made)


@dataclass(slots=True)  # not frozen: see `CompiledStep`
class Object:
    keys: tuple[str, ...]
    members: tuple[Template, ...]

    def resolve(self, inputs: Inputs) -> dict[str, Any]:
        return {key: member.resolve(inputs) for key, member in zip(self.keys, self.members, strict=True)}


@dataclass(slots=True)  # not frozen: see `CompiledStep`
class Array:
    items: tuple[Template, ...]

    def resolve(self, inputs: Inputs) -> list[Any]:
        return [item.resolve(inputs) for item in self.items]


@dataclass(frozen=True, slots=True)
class Computed:
    expression: Expression
    sources: Mapping[str, int]

    def resolve(self, inputs: Inputs) -> Any:
        given: dict[str, Any] = {}
        for name, source in self.sources.items():
            if source >= 0:
                result = inputs.results[source]
                assert result is not None
                given[name] = result.value
            else:
                given[name] = inputs.item if source == ITEM else inputs.index
        shown = f"the expression {self.expression.source[:80]!r}"
        try:
            value = self._evaluate(given, inputs.budget)
            inputs.make(json_size(value, inputs.max_bytes))
            inputs.size += len(_written(value))
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
        """Evaluate within a budget that blocks the event loop for a moment at most."""
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
    except NotJson as error:  # it comes from a text or an expression
        raise Unresolvable(str(error)) from None


def _words(nowhere: LeadsNowhere, reference: Reference, suggest: bool) -> str:
    root = reference.text.removeprefix("$ref:").removeprefix("${").removesuffix("}")
    return nowhere.words(root.removesuffix(path_text(reference.path)), suggest=suggest)
