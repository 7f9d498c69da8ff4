"""Which definitions are the same type, however many schemas describe it.

Two are when nothing tells them apart: the same keys in the same order, of the same types, all the way down, and the
same title. Without a title only those of one server, or of one tool, are: elsewhere, what looks the same may mean
something else. Definitions are rooted graphs with ordered edges, so two are alike when walking both in the same order
numbers and spells them alike.
"""

from __future__ import annotations

from collections.abc import Iterable

from .forms import Definition, Field, Form, Listed, Mapped, Named, OneOf, uses

__all__ = ["same_types"]

_MOST_REACHED = 100
"""Definitions that one may lead to and still be compared; one that leads to more is a type of its own."""


def same_types(definitions: Iterable[Definition], *, words: bool) -> dict[Definition, Definition]:
    """The first of its kind for each definition.

    Args:
        definitions: in the order in which they should be preferred.
        words: whether definitions that are described differently differ.
    """
    first: dict[str, Definition] = {}
    found: dict[Definition, Definition] = {}
    for each in definitions:
        spelled = _spelled(each, words)
        found[each] = each if spelled is None else first.setdefault(spelled, each)
    return found


def _spelled(root: Definition, words: bool) -> str | None:
    numbers = {root: 0}
    queue = [root]
    spelled: list[object] = []
    for each in queue:
        for form in (each.body, *(field.form for field in each.fields)):
            for used in uses(form):
                if used not in numbers:
                    numbers[used] = len(queue)
                    queue.append(used)
        if len(queue) > _MOST_REACHED:
            return None
        called = each.scope or f"titled {each.wanted}"
        fields = [_field(field, numbers, words) for field in each.fields]
        spelled.append((each.kind, called, each.about if words else "", fields, _form(each.body, numbers)))
    return repr(spelled)


def _field(field: Field, numbers: dict[Definition, int], words: bool) -> object:
    told = (field.about, repr(field.default), field.has_default) if words else ()
    return field.key, _form(field.form, numbers), field.required, told


def _form(form: Form, numbers: dict[Definition, int]) -> object:
    match form:
        case Named(definition):
            return numbers[definition]
        case Listed(inner):
            return "list", _form(inner, numbers)
        case Mapped(inner):
            return "dict", _form(inner, numbers)
        case OneOf(members):
            return "one of", [_form(member, numbers) for member in members]
        case _:
            return repr(form)
