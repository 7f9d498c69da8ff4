"""Estimates the cost of checking a value by a JSON Schema, before the check: the validator cannot be interrupted.

Theory of operation. There is one estimate, in units of about 2 ns:

    keywords x places in the value + names x objects in it + bytes of text x states of the patterns + long numbers

1. *Keywords* are those of the expanded schema. A schema with two references to it counts twice, so schemas that branch
   into each other double with each level. Of an object's properties only the most expensive one counts, because a place
   has one name. A cycle is expanded once. Each schema that a cycle returns to counts once more: the validator remembers
   its findings about an object or an array there.
2. *Names* are those that each object is searched for: under `properties`, `dependentRequired` and the like.
3. *Patterns* are charged with the whole text. Only if that is too much does a second step find the texts to which each
   pattern applies.
4. A check above the limits is refused, and so is one whose estimate would take long.

By the standard, a schema that returns to itself without going into the value has no meaning.

Knows schemas, values and sizes; checks nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from enum import Enum
from graphlib import CycleError, TopologicalSorter
from itertools import zip_longest
from typing import Any, NamedTuple

from callgate.errors import ConfigurationError

from .decoding import counting, depth, outside_strings
from .patterns import pattern_states, pattern_work
from .schema_references import References
from .turns import Work

__all__ = ["MAX_PATTERN_STATES", "MAX_STEPS", "MAX_WAYS", "SchemaCost"]

MAX_STEPS = 50_000_000
"""Most units of one check: at most 100 ms, during which nothing else runs."""
MAX_WAYS = 100_000
"""Most keywords of one expanded schema: with more, a value of 500 places could not be checked."""
MAX_PATTERN_STATES = 200_000
"""Most states of all patterns of one schema, with repetitions written out; compiling them takes about 1 s."""

_MANY = 10**15
"""More than any limit. Sums stop here, so that numbers stay small."""
_MAX_LOOKED_UP = 500_000
"""Most pairs of a place and a schema that are visited to find the texts of patterns: about 0.3 s, in turns."""
_TURN = 5_000
"""Pairs between two turns of others."""
_HASHED = 80
"""Units of a place below an array with `uniqueItems`."""
_OPTION = 5
"""Units of each option of an `enum` of mixed types, objects or arrays. Options of one plain type are a hash lookup."""
_COPIES = 3
"""How often the validator checks everything below `unevaluatedProperties` and `unevaluatedItems`; measured."""
_FRACTION = 3_000
"""Units of `multipleOf` with a very small fraction; any other fraction costs a sixth."""
_NAMES_AT_ONCE = 10
"""Absent `properties` of an object that together cost one unit."""
_LONG_NUMBER = 5_000
"""Units of a number beyond 64 bits under a fractional `multipleOf`; a whole `multipleOf` costs a twentieth."""
_LONG_PAIR = 130
"""Units of a pair of such numbers under `uniqueItems`, which compares every pair."""
_TEXT_COPIES = 1_000
"""Bytes of text that are copied in one unit when all faults are collected."""
_LONG_NUMBERS = re.compile(rb"\d{20}|\d[eE][+-]?\d\d")


class _At(Enum):
    """Where in a value an inner schema applies."""

    HERE = "the same place"
    ITEMS = "the items of an array"
    MEMBERS = "the members of an object"
    OTHERS = "the members that properties does not name"
    NAMES = "the names of an object"


_PLACES = {
    **dict.fromkeys(("allOf", "anyOf", "oneOf", "not", "if", "then", "else"), _At.HERE),
    **dict.fromkeys(("dependentSchemas", "dependencies"), _At.HERE),
    **dict.fromkeys(("items", "prefixItems", "additionalItems", "unevaluatedItems", "contains"), _At.ITEMS),
    **dict.fromkeys(("properties", "patternProperties", "unevaluatedProperties"), _At.MEMBERS),
    "additionalProperties": _At.OTHERS,
    "propertyNames": _At.NAMES,
}
_BY_NAME = ("properties", "patternProperties", "dependentSchemas", "dependencies")


class _Sums(NamedTuple):
    """Keywords, units per object, pattern units per byte of text, and how often a schema returns to one around it."""

    ways: int = 0
    names: int = 0
    text: int = 0
    again: int = 0

    def plus(self, more: _Sums, times: int = 1) -> _Sums:
        return _Sums(*(min(_MANY, one + other * times) for one, other in zip(self, more, strict=True)))


class _Node(NamedTuple):
    """One schema: its own units, and the schemas that it applies."""

    schema: dict[str, Any]
    own: _Sums
    edges: list[tuple[_At | str, int]]
    """Where each applies (a `str` is the name of a member), and its number."""
    copies: int


class SchemaCost:
    """The cost of checks by one schema.

    Raises:
        ConfigurationError: a check of any value would take too long, the schema refers to itself without end, or a
            reference leads nowhere.
    """

    def __init__(self, schema: dict[str, Any], what: str) -> None:
        self._nodes = _nodes(schema, References(schema, what))
        parts = [node.schema for node in self._nodes]
        self._unique = any(part.get("uniqueItems") is True for part in parts)
        divisors = [part["multipleOf"] for part in parts if "multipleOf" in part]
        self._number = sum(_LONG_NUMBER if isinstance(each, float) else _LONG_NUMBER // 20 for each in divisors)
        """Units of a long number."""
        states = sum(pattern_states(pattern) for part in parts for pattern in _patterns(part))
        if states > MAX_PATTERN_STATES:
            raise ConfigurationError(
                f"{what} has patterns with too many repetitions: {states} characters where they are "
                f"written out; at most {MAX_PATTERN_STATES} are taken"
            )
        here = {number: [to for at, to in node.edges if at is _At.HERE] for number, node in enumerate(self._nodes)}
        try:
            TopologicalSorter(here).prepare()
        except CycleError:
            raise ConfigurationError(f"{what} refers to itself without going into the value: that has no end") from None
        self._sums, self._targets, self._leading = _expanded(self._nodes)
        if max(self._sums.ways + self._sums.names, self._sums.text) > MAX_WAYS:
            raise ConfigurationError(
                f"{what} branches too often: to check one value, more than {MAX_WAYS} keywords may have to "
                "be looked at; alternatives within alternatives multiply"
            )
        for more in self._targets.values():
            self._sums = self._sums.plus(more._replace(again=0))

    def allowing(self, text: str, value: Any) -> Work[bool]:
        """Whether a check of the value is allowed; `text` is its JSON text. In turns."""
        if not (self._unique or self._number) and sum(self._sums[:3]) * (len(text) + 1) <= MAX_STEPS:
            return True
        cost = yield from self._without_patterns(text, value)
        if cost + self._sums.text * len(text) <= MAX_STEPS or cost > MAX_STEPS:
            return cost <= MAX_STEPS
        yield
        return cost + (yield from self._in_patterns(value, MAX_STEPS - cost)) <= MAX_STEPS

    def steps(self, text: str, value: Any) -> Work[int]:
        """Upper bound on the units of a check. In turns."""
        return (yield from self._without_patterns(text, value)) + self._sums.text * len(text)

    def steps_again(self, text: str, value: Any, enough: int) -> Work[int]:
        """Units of collecting all faults, or any number above `enough`.

        Then the validator remembers nothing, each level passes all its faults to the level above, and each fault has a
        copy of the text.
        """
        cost = (yield from self.steps(text, value)) + len(text) * self._sums.ways // _TEXT_COPIES
        if not self._sums.again or cost > enough:
            return cost
        levels = depth(value)
        return int(cost * max(1, levels) * self._sums.again**levels)

    def _without_patterns(self, text: str, value: Any) -> Work[int]:
        data = text.encode()
        places = 1 + (yield from counting(data, MAX_STEPS // self._sums.ways))
        cost = self._sums.ways * places + self._sums.names * (1 + text.count("{"))
        if cost > MAX_STEPS or not (self._unique or self._number):
            return cost
        long = 0
        for block in outside_strings(data):
            long += len(_LONG_NUMBERS.findall(block))
            yield
        cost += long * self._number
        if self._unique:
            cost += long * long * _LONG_PAIR + (depth(value) * places * _HASHED if self._targets else 0)
        return cost

    def _in_patterns(self, value: Any, enough: int) -> Work[int]:
        """Units of the texts to which patterns apply, or any number above `enough`. In turns."""
        steps, left, turn = 0, _MAX_LOOKED_UP, _MAX_LOOKED_UP
        seen: set[tuple[int, int]] = set()
        todo: list[tuple[int, Any, int]] = [(0, value, 1)]
        while todo:
            number, value, times = todo.pop()
            node = self._nodes[number]
            left -= 1
            if number in self._targets and isinstance(value, (dict, list)):
                if (number, id(value)) in seen:
                    continue
                seen.add((number, id(value)))
            if node.own.text and isinstance(value, (str, dict)):
                texts = (value,) if isinstance(value, str) else value
                steps += times * node.own.text * sum(len(each.encode(errors="replace")) for each in texts)
            for at, child in node.edges:
                if child in self._leading:
                    several = isinstance(at, _At) and at is not _At.HERE and isinstance(value, (dict, list))
                    left -= len(value) if several else 1
                    if left < 0:
                        break
                    copies = times * (node.copies if at is _At.HERE else 1)
                    todo.extend((child, part, copies) for part in _parts(node.schema, at, value))
            if left < 0 or steps > enough:
                return enough + 1
            if left <= turn - _TURN:
                turn = left
                yield
        return steps


def _nodes(schema: dict[str, Any], references: References) -> list[_Node]:
    """The schema and all schemas that it applies, directly or not."""
    schemas = [schema]
    numbers = {id(schema): 0}
    nodes = []
    for part in schemas:  # which grow meanwhile
        edges = []
        for at, child in (*((_At.HERE, target) for target in references.of(part)), *_applied(part)):
            if id(child) not in numbers:
                numbers[id(child)] = len(schemas)
                schemas.append(child)
            edges.append((at, numbers[id(child)]))
        copies = _COPIES if "unevaluatedProperties" in part or "unevaluatedItems" in part else 1
        nodes.append(_Node(part, _own(part), edges, copies))
    return nodes


def _patterns(schema: dict[str, Any]) -> list[str]:
    return [*([schema["pattern"]] if "pattern" in schema else ()), *schema.get("patternProperties", ())]


def _own(schema: dict[str, Any]) -> _Sums:
    """Units of one schema, without the schemas that it applies."""
    ways = 1 + len(schema)
    kinds = {type(option) for option in schema.get("enum", ())}
    if len(kinds) > 1 or kinds & {dict, list}:
        ways += _OPTION * len(schema["enum"])
    if isinstance(divisor := schema.get("multipleOf"), float):
        ways += _FRACTION // 6 if divisor > 1e-10 else _FRACTION
    names = sum(len(schema.get(word, ())) for word in ("dependentRequired", "dependentSchemas", "dependencies"))
    names += len(schema.get("properties", ())) // _NAMES_AT_ONCE
    return _Sums(ways, names, sum(map(pattern_work, _patterns(schema))))


def _applied(schema: dict[str, Any]) -> Iterator[tuple[_At | str, dict[str, Any]]]:
    """The inner schemas of one schema, and where in the value each applies."""
    for word, value in schema.items():
        at = _PLACES.get(word)
        if at is None:
            continue
        if isinstance(value, dict) and word in _BY_NAME:
            children = [(name if word == "properties" else at, each) for name, each in value.items()]
        else:
            children = [(at, each) for each in (value if isinstance(value, list) else [value])]
        yield from ((where, each) for where, each in children if isinstance(each, dict))


def _parts(schema: dict[str, Any], at: _At | str, value: Any) -> Iterable[Any]:
    """The places of a value to which an edge leads."""
    if at is _At.HERE:
        return (value,)
    if isinstance(value, list):
        return value if at is _At.ITEMS else ()
    if not isinstance(value, dict) or at is _At.ITEMS:
        return ()
    if isinstance(at, str):
        return (value[at],) if at in value else ()
    if at is _At.NAMES:
        return value
    known = schema.get("properties", ()) if at is _At.OTHERS else ()
    return [part for name, part in value.items() if name not in known]


def _expanded(nodes: list[_Node]) -> tuple[_Sums, dict[int, _Sums], set[int]]:
    """Cost of the most expensive place, each cycle expanded once; that cost for each schema to which a cycle returns;
    and the schemas that may lead to a pattern."""
    found: dict[int, list[_Sums]] = {}
    """Cost of each schema at its own place, at the worst place inside an object, and at the worst inside an array."""
    targets: set[int] = set()
    being: set[int] = set()
    todo = [(0, False)]
    while todo:
        number, leaves = todo.pop()
        node = nodes[number]
        if not leaves:
            if number not in found and number not in being:
                being.add(number)
                todo.append((number, True))
                todo.extend((child, False) for _, child in node.edges)
            continue
        targets.update(child for _, child in node.edges if child not in found)  # still being expanded: a cycle
        sums = [node.own, _Sums(), _Sums(_HASHED if node.schema.get("uniqueItems") is True else 0)]
        named = _Sums()
        for at, child in node.edges:
            below = found.get(child, [_Sums(1, 0, 1, 1)])
            if at is _At.HERE:
                sums = [one.plus(more, node.copies) for one, more in zip_longest(sums, below, fillvalue=_Sums())]
            elif isinstance(at, str):
                named = _worst((named, *below))
            else:
                kind = 2 if at is _At.ITEMS else 1
                sums[kind] = sums[kind].plus(_worst(below))
        sums[1] = sums[1].plus(named)
        being.discard(number)
        found[number] = sums
    leading = {number for number, sums in found.items() if _worst(sums).text}
    return _worst(found[0]), {target: _worst(found[target]) for target in targets}, leading


def _worst(sums: Iterable[_Sums]) -> _Sums:
    return _Sums(*map(max, zip(*sums, strict=True)))
