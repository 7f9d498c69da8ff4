"""What a plan's references stand for, for peers that run plans and have no such language. The standard library alone.

``$ref:id.path``, ``{"$ref": "id.path"}``, ``${id.path}`` in text, ``$item``, ``$index``, as docs/plans.md says; the
peers' environments have none of the packages that `callgate.plan` needs. It knows no ids with dots, and of expressions
only which steps they name.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from callgate.bench.contestants.seat import CannotDo

__all__ = ["BadReference", "Compute", "Reference", "as_text", "needed", "references", "replaced", "resolved"]

Compute = Callable[[str, Mapping[str, Any]], Any]
"""Gives the value of an expression, from its text and the values of the names in it."""

_OWN = ("item", "index")
_SEGMENT = re.compile(r"""\.([^.\[\]{}]+)|\[(-?\d+)\]|\[(\*)\]|\["([^"]*)"\]|\['([^']*)'\]""")
_IN_TEXT = re.compile(r"(?<!\$)\$\{([^}]+)\}")
_ITEM = re.compile(r"\$(?:item|index)(?=[.\[]|$)")
_WORD = re.compile(r"[^.\[]*")
_EVERY = "*"


class BadReference(Exception):
    """A reference that cannot be read, or that leads nowhere."""


@dataclass(frozen=True, slots=True)
class Reference:
    """One reference, read.

    Attributes:
        source: the id of a step; ``item`` or ``index``.
        path: keys and indices; ``*`` for every item of an array.
        nullable: a path that leads nowhere gives None.
    """

    source: str
    path: tuple[str | int, ...]
    nullable: bool

    def value(self, known: Mapping[str, Any]) -> Any:
        """What it stands for.

        Args:
            known: results by the steps' ids, `item` and `index` among them.

        Raises:
            BadReference: it leads nowhere.
        """
        return _look_up(known[self.source], self.path, self)


def references(template: Any, ids: Collection[str]) -> Iterator[Reference]:
    """All references in a value of a plan.

    Args:
        template: the value.
        ids: of the steps.

    Raises:
        BadReference: one of them names nothing, or cannot be read.
    """
    if isinstance(template, str):
        whole = _whole(template, ids)
        if whole is not None:
            yield whole
        elif not template.startswith("$$"):
            for match in _IN_TEXT.finditer(template):
                yield _read(match[1].strip(), ids, nullable=False)
    elif isinstance(template, dict):
        if set(template) == {"$expr"}:
            named = {node.id for node in ast.walk(_tree(template["$expr"])) if isinstance(node, ast.Name)}
            yield from (Reference(each, (), nullable=False) for each in sorted(named & {*ids, *_OWN}))
        elif set(template) == {"$ref"}:
            yield _read(template["$ref"], ids, nullable=False)
        elif set(template) != {"$literal"}:
            for value in template.values():
                yield from references(value, ids)
    elif isinstance(template, list):
        for value in template:
            yield from references(value, ids)


def needed(step: Mapping[str, Any], ids: Collection[str]) -> list[str]:
    """Ids of the steps that have to end before this one begins, sorted: those it names, and those it refers to.

    Args:
        step: of a plan.
        ids: of all steps.

    Raises:
        BadReference: a reference names nothing, or cannot be read.
    """
    templates = [step.get("arguments", {}), step.get("for_each"), step.get("when")]
    found = {each.source for each in references(templates, ids)}
    return sorted((found - {*_OWN}) | {*step.get("depends_on", ())})


def resolved(template: Any, known: Mapping[str, Any], ids: Collection[str], compute: Compute | None = None) -> Any:
    """The value with all references replaced.

    Args:
        template: a value of a plan.
        known: results by the steps' ids; `item` and `index` among them in a `for_each`.
        ids: of all steps.
        compute: what does expressions, where the peer can.

    Raises:
        BadReference: a reference leads nowhere.
        CannotDo: there is an expression, and nothing to do it with.
    """
    if isinstance(template, str):
        return _text_resolved(template, known, ids)
    if isinstance(template, list):
        return [resolved(value, known, ids, compute) for value in template]
    if not isinstance(template, dict):
        return template
    if set(template) == {"$ref"}:
        return _read(template["$ref"], ids, nullable=False).value(known)
    if set(template) == {"$literal"}:
        return template["$literal"]
    if set(template) == {"$expr"}:
        if compute is None:
            raise CannotDo("the plan computes a value with $expr, and it has no expressions")
        return compute(template["$expr"], known)
    return {key: resolved(value, known, ids, compute) for key, value in template.items()}


def replaced(text: str, ids: Collection[str], told: Callable[[Reference], str]) -> str:
    """Text with every ``${id.path}`` in it replaced.

    Args:
        text: neither a reference as a whole, nor begun with ``$$``.
        ids: of the steps.
        told: what stands in its place.

    Raises:
        BadReference: one of them names nothing, or cannot be read; or as `told` does.
    """
    return _IN_TEXT.sub(lambda match: told(_read(match[1].strip(), ids, nullable=False)), text)


def as_text(value: Any) -> str:
    """A value as it stands in text: a string as it is, anything else as JSON without spaces."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _text_resolved(text: str, known: Mapping[str, Any], ids: Collection[str]) -> Any:
    whole = _whole(text, ids)
    if whole is not None:
        return whole.value(known)
    if text.startswith("$$"):
        return text[1:]
    return replaced(text, ids, lambda found: as_text(found.value(known)))


def _tree(expression: str) -> ast.Expression:
    try:
        return ast.parse(expression.strip(), mode="eval")
    except (SyntaxError, ValueError) as error:
        raise BadReference(f"{expression[:80]!r} is no expression: {error}") from None


def _whole(text: str, ids: Collection[str]) -> Reference | None:
    if text.startswith("$ref:"):
        return _read(text.removeprefix("$ref:"), ids, nullable=True)
    if _ITEM.match(text):
        return _read(text[1:], ids, nullable=True)
    return None


def _read(text: str, ids: Collection[str], *, nullable: bool) -> Reference:
    source = _WORD.match(text)[0]  # type: ignore[index]  # never None
    if source not in ids and source not in _OWN:
        raise BadReference(f"{text!r} names no step")
    path: list[str | int] = []
    at = len(source)
    while at < len(text):
        match = _SEGMENT.match(text, at)
        if match is None:
            raise BadReference(f"{text!r} cannot be read from {text[at:]!r} on")
        name, index, every, *quoted = match.groups()
        path.append(int(index) if index else next(each for each in (name, every, *quoted) if each is not None))
        at = match.end()
    return Reference(source, tuple(path), nullable)


def _look_up(value: Any, path: tuple[str | int, ...], whole: Reference) -> Any:
    for at, segment in enumerate(path):
        if isinstance(value, str):
            value = _json_inside(value)
        if segment == _EVERY and isinstance(value, list):
            return [_look_up(each, path[at + 1 :], whole) for each in value]
        try:
            value = value[segment] if isinstance(value, dict) else value[int(segment)]
        except (LookupError, TypeError, ValueError):
            if whole.nullable:
                return None
            raise BadReference(f"{whole.source}: there is nothing at {segment!r}") from None
    return value


def _json_inside(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
