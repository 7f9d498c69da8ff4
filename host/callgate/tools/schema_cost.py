"""What checking a value by a JSON Schema may cost, counted before it is checked: the validator cannot be interrupted.

Theory of operation. A schema is a graph. Some keywords apply another schema to the same place of the value (`anyOf`,
`$ref`), others to a place inside it (`properties`, `items`). A place is visited once for each way that leads to it
through the graph, so schemas that branch into each other double the visits with each level: 1 KB of schema is enough
for hours.

1. `ways` is the number of keywords that may be looked at for one place of a value: along `anyOf` and the like they
   are summed up, of the properties of an object the worst one counts. What goes round through the value (a tree) is
   counted once: there the validator remembers what it has found out about an object or an array.
2. The cost of a value is `ways` times the places in it, and what patterns and long numbers add. One unit is about
   20 ns of the validator.
3. A schema that refers to itself in several ways without going into the value has no meaning by the standard, and is
   refused. What comes back to itself in one way is looked at once.

Knows schemas and sizes; never looks at a value but through its text.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from callgate.errors import ConfigurationError

from .decoding import count_values
from .encoding import compact_json
from .patterns import pattern_states, pattern_work
from .schema_references import References

__all__ = ["MAX_PATTERN_STATES", "MAX_STEPS", "MAX_WAYS", "SchemaCost"]

MAX_STEPS = 50_000_000
"""Units that one check may cost: about a second, for which nothing else runs."""
MAX_WAYS = 100_000
"""Of one schema: with more of them, a value of 500 places could not be checked any more."""
MAX_PATTERN_STATES = 200_000
"""Of all patterns of one schema, each with its repetitions written out; making a matcher of them takes about 1 s."""

_MAX_NAMES = 300_000
"""Names that are carried from schemas to those that refer to them while this is counted; about a second."""
_MANY = 10**15
"""More than any limit here; sums stop there, so that numbers stay small."""
_TANGLED = re.compile(r'"(?:\$ref|\$dynamicRef|\$recursiveRef|unevaluated|pattern|uniqueItems|multipleOf)')
"""What makes a schema cost more than its length."""
_NONE = (0, 0, 0)
_ANY_MEMBER: Final = ("member", None)
_ANY_ITEM: Final = ("item", None)
_OPTION = 5
"""Units of each option of an `enum` that is not all texts or all numbers, which is looked up at once."""
_COPIES = 3
"""So often what is below `unevaluatedProperties` and `unevaluatedItems` is looked at, by measurement."""
_FRACTION = 50
"""Units of `multipleOf` with a fraction."""
_TINY_FRACTION = 3_000
_LONG_NUMBER = 5_000
"""Units of a number beyond 64 bits, wherever numbers are compared or divided."""
_LONG_PAIR = 100
"""Units of a pair of them under `uniqueItems`, which compares each with each."""
_STRINGS = re.compile(r'"(?:[^"\\]|\\.)*+"')
_LONG_NUMBERS = re.compile(r"\d{20}|\d[eE][+-]?\d\d")

_LISTS = ("allOf", "anyOf", "oneOf")
_ONES = ("not", "if", "then", "else")
_BY_MEMBER = ("dependentSchemas", "dependencies")
_ITEMS = ("items", "additionalItems", "unevaluatedItems", "contains")
_MEMBERS = ("additionalProperties", "unevaluatedProperties", "propertyNames")

_Label = tuple[str, str | int | None]
"""A place inside: the member or the item of that name or number; without one, any of them."""
_Numbers = tuple[int, int, int]
"""Keywords looked at, units for each byte of text, and how often a schema comes back to one that is being looked at."""


@dataclass(slots=True)
class _Node:
    schema: dict[str, Any]
    edges: list[tuple[_Label | None, int, int]] = field(default_factory=list)
    """Where (None: the same place), which schema, how often."""
    own: int = 1
    text: int = 0


@dataclass(slots=True)
class _Ways:
    """Of one schema: what is looked at at its own place, and at each place inside with all that is below."""

    here: _Numbers
    inside: dict[_Label, _Numbers]
    back: set[int]
    """The schemas it comes back to at its own place."""


@dataclass(frozen=True, slots=True)
class _Sums:
    """Of a whole schema: `_Numbers`, and what makes long numbers dear."""

    ways: int
    text: int
    again: int
    fractions: int
    unique: bool


class SchemaCost:
    """What one schema costs.

    Raises:
        ConfigurationError: no value could be checked by it in reasonable time, or it refers to itself without end.
    """

    def __init__(self, schema: dict[str, Any], what: str) -> None:
        self._schema = schema
        self._what = what
        text = compact_json(schema)
        rough = 2 + text.count(":") + _OPTION * text.count(",")
        self._rough = rough if rough <= MAX_WAYS and not _TANGLED.search(text) else None
        """No fewer than `ways`, of a schema that looks at nothing twice; it is not counted until that matters."""
        self._sums: _Sums | None = None
        if self._rough is None:
            self._counted()

    def allows(self, text: str) -> bool:
        """Whether a value may be checked, by its JSON text."""
        if self._rough is not None and self._rough * (len(text) + 1) <= MAX_STEPS:
            return True
        return self.steps(text) <= MAX_STEPS

    def steps(self, text: str) -> int:
        """Units that a check of a value may cost at most."""
        sums = self._counted()
        places = 1 + count_values(text.encode(), MAX_STEPS // sums.ways)
        cost = sums.ways * places + sums.text * len(text)
        if sums.fractions or sums.unique:
            bare = _STRINGS.sub("", text) if _LONG_NUMBERS.search(text) else ""
            long = sum(1 for _ in _LONG_NUMBERS.finditer(bare))
            cost += long * _LONG_NUMBER * sums.fractions + (long * long * _LONG_PAIR if sums.unique else 0)
        return cost

    def steps_again(self, text: str, value: Any) -> int:
        """The same where nothing is remembered, and where each level hands all it has found to the one above: so it is
        when every fault is looked for."""
        cost = self.steps(text)
        again = self._counted().again
        level = [value] if isinstance(value, (dict, list)) else []
        depth = 0
        while again and level and cost <= MAX_STEPS:
            children = [c for item in level for c in (item.values() if isinstance(item, dict) else item)]
            level = [child for child in children if isinstance(child, (dict, list))]
            depth += 1
            cost *= again
        return cost * max(1, depth)

    def _counted(self) -> _Sums:
        if self._sums is None:
            self._sums = _Graph(self._schema, self._what).sums()
        return self._sums


class _Graph:
    def __init__(self, schema: dict[str, Any], what: str) -> None:
        self._what = what
        self._references = References(schema, what)
        self._numbers: dict[int, int] = {}
        self._nodes: list[_Node] = []
        self._left = _MAX_NAMES
        self._states = 0
        self._fractions = 0
        self._unique = False
        self._number(schema)
        for node in self._nodes:  # which grow meanwhile
            self._weigh(node)
            self._link(node)

    def sums(self) -> _Sums:
        """What it comes to. Raises `ConfigurationError` where that is too much."""
        if self._states > MAX_PATTERN_STATES:
            raise ConfigurationError(
                f"{self._what} has patterns with too many repetitions: {self._states} characters where they are "
                f"written out; at most {MAX_PATTERN_STATES} are taken"
            )
        self._refuse_endless()
        ways, text, again = self._count()
        if ways > MAX_WAYS or text > MAX_WAYS:
            raise ConfigurationError(
                f"{self._what} branches too often: to check one value, more than {MAX_WAYS} keywords may have to be "
                "looked at; alternatives within alternatives multiply"
            )
        return _Sums(ways, text, again, self._fractions, self._unique)

    def _number(self, schema: dict[str, Any]) -> int:
        number = self._numbers.setdefault(id(schema), len(self._nodes))
        if number == len(self._nodes):
            self._nodes.append(_Node(schema))
        return number

    def _link(self, node: _Node) -> None:
        schema = node.schema
        copies = _COPIES if "unevaluatedProperties" in schema or "unevaluatedItems" in schema else 1
        times: Counter[tuple[_Label | None, int]] = Counter()
        for target in self._references.of(schema):
            times[None, self._number(target)] += copies
        for label, child in _applied(schema):
            times[label, self._number(child)] += copies if label is None else 1
        node.edges = [(label, child, count) for (label, child), count in times.items()]

    def _weigh(self, node: _Node) -> None:
        schema = node.schema
        node.own = 1 + len(schema)
        patterns = schema.get("patternProperties")
        for pattern in (schema.get("pattern"), *(patterns if isinstance(patterns, dict) else ())):
            if isinstance(pattern, str):
                self._states = min(_MANY, self._states + pattern_states(pattern))
                node.text = min(_MANY, node.text + pattern_work(pattern))
        if schema.get("uniqueItems") is True:
            self._unique = True
        options = schema.get("enum")
        if isinstance(options, list):
            kinds = {type(option) for option in options}
            if len(kinds) > 1 or kinds & {dict, list}:
                node.own += _OPTION * len(options)
        divisor = schema.get("multipleOf")
        if isinstance(divisor, float):
            self._fractions += 1
            node.own += _FRACTION if divisor > 1e-10 else _TINY_FRACTION

    def _count(self) -> _Numbers:
        ways: dict[int, _Ways] = {}
        entered: dict[_Label, set[int]] = {}
        open_nodes: set[int] = set()
        todo = [(0, False)]
        while todo:
            number, done = todo.pop()
            if done:
                ways[number] = self._ways(self._nodes[number], ways, entered)
                open_nodes.discard(number)
            elif number not in ways and number not in open_nodes:
                open_nodes.add(number)
                todo.append((number, True))
                todo.extend((child, False) for _, child, _ in reversed(self._nodes[number].edges))
        if not entered:
            return _worst(ways[0])
        self._left = _MAX_NAMES
        again = self._together(ways, set().union(*entered.values()))
        if again is None:
            again = _NONE
            for targets in entered.values():
                together = _NONE
                for target in targets:
                    together = _plus(together, _worst(ways[target]), 1)
                again = _most(again, together)
        steps, text, often = _worst(ways[0])
        return min(_MANY, steps + again[0]), min(_MANY, text + again[1]), max(often, again[2])

    def _ways(self, node: _Node, ways: dict[int, _Ways], entered: dict[_Label, set[int]]) -> _Ways:
        found = _Ways((node.own, node.text, 0), {}, set())
        for label, child, times in node.edges:
            below = ways.get(child)
            if below is None:  # it is being looked at: here it comes back to it
                if label is None:
                    found.here = _plus(found.here, (1, 0, 1), times)
                    found.back.add(child)
                else:
                    found.inside[label] = _plus(found.inside.get(label, _NONE), (1, 0, 1), times)
                    entered.setdefault(label, set()).add(child)
            elif label is None:
                found.here = _plus(found.here, below.here, times)
                self._left -= len(below.inside)
                if self._left < 0:
                    raise ConfigurationError(f"{self._what} has too many names under schemas that refer to each other")
                for place, numbers in below.inside.items():
                    found.inside[place] = _plus(found.inside.get(place, _NONE), numbers, times)
                found.back |= below.back
            else:
                found.inside[label] = _plus(found.inside.get(label, _NONE), _worst(below), times)
                entered.setdefault(label, set()).update(below.back)
        return found

    def _refuse_endless(self) -> None:
        """Raise where a schema comes back to itself at the same place, in more than one way."""
        ahead = [{child: count for label, child, count in node.edges if label is None} for node in self._nodes]
        behind: list[list[int]] = [[] for _ in ahead]
        for number, children in enumerate(ahead):
            for child in children:
                behind[child].append(number)
        out, into = [len(each) for each in ahead], [len(each) for each in behind]
        rest = set(range(len(ahead)))
        for degrees, neighbours, other in ((out, behind, into), (into, ahead, out)):
            done = [number for number in rest if not degrees[number]]
            while done:
                number = done.pop()
                rest.discard(number)
                for each in neighbours[number]:
                    degrees[each] -= 1
                    if not degrees[each] and each in rest:
                        done.append(each)
                for each in ahead[number] if other is into else behind[number]:
                    other[each] -= 1
        for number in rest:
            if sum(count for child, count in ahead[number].items() if child in rest) > 1:
                raise ConfigurationError(
                    f"{self._what} refers to itself in several ways without going into the value: that has no end"
                )

    def _together(self, ways: dict[int, _Ways], targets: set[int]) -> _Numbers | None:
        """Of the schemas that the value leads back to, the worst that are looked at together, at one place; None where
        finding that takes too long."""
        reached: dict[int, frozenset[int]] = {}
        leading = {number for number, node in enumerate(self._nodes) if any(label for label, _, _ in node.edges)}
        telling = targets | leading

        def here(start: int) -> frozenset[int]:
            if start not in reached:
                found, todo = {start}, [start]
                while todo:
                    for label, child, _ in self._nodes[todo.pop()].edges:
                        if label is None and child not in found:
                            found.add(child)
                            todo.append(child)
                self._left -= len(found)
                reached[start] = frozenset(found & telling)
            return reached[start]

        worst = _NONE
        seen = {here(0)}
        places = list(seen)
        for place in places:  # which grow meanwhile
            together = _NONE
            for target in place & targets:
                together = _plus(together, _worst(ways[target]), 1)
            worst = _most(worst, together)
            inside: dict[_Label, set[int]] = {_ANY_MEMBER: set(), _ANY_ITEM: set()}
            for number in place:
                for label, child, _ in self._nodes[number].edges:
                    if label is not None:
                        below = here(child)
                        inside.setdefault(label, set()).update(below)
                        self._left -= len(below)
                if self._left < 0:
                    return None
            for label, below_it in inside.items():
                anywhere = inside[_ANY_MEMBER if label[0] == "member" else _ANY_ITEM]
                after = frozenset(below_it | anywhere)
                if after and after not in seen:
                    seen.add(after)
                    places.append(after)
        return worst


def _applied(schema: dict[str, Any]) -> Iterator[tuple[_Label | None, dict[str, Any]]]:
    """The schemas that one applies, and where."""
    for word, value in schema.items():
        label: _Label | None = None
        match value:
            case dict() if word in _ONES:
                children: list[tuple[_Label | None, Any]] = [(None, value)]
            case dict() if word in _BY_MEMBER:
                children = [(None, each) for each in value.values()]
            case dict() if word in _ITEMS:
                children = [(_ANY_ITEM, value)]
            case dict() if word in _MEMBERS:
                children = [(_ANY_MEMBER, value)]
            case dict() if word == "properties":
                children = [(("member", name), each) for name, each in value.items()]
            case dict() if word == "patternProperties":
                children = [(_ANY_MEMBER, each) for each in value.values()]
            case list() if word in _LISTS:
                children = [(None, each) for each in value]
            case list() if word in ("prefixItems", "items"):
                children = [(("item", index), each) for index, each in enumerate(value)]
            case _:
                children = []
        for label, child in children:
            if isinstance(child, dict):
                yield label, child


def _plus(some: _Numbers, more: _Numbers, times: int) -> _Numbers:
    return (
        min(_MANY, some[0] + more[0] * times),
        min(_MANY, some[1] + more[1] * times),
        min(_MANY, some[2] + more[2] * times),
    )


def _worst(ways: _Ways) -> _Numbers:
    """At its own place and along the worst path into the value."""
    worst = _NONE
    for label, numbers in ways.inside.items():
        anywhere = ways.inside.get(_ANY_MEMBER if label[0] == "member" else _ANY_ITEM, _NONE)
        together = numbers if label in (_ANY_MEMBER, _ANY_ITEM) else _plus(numbers, anywhere, 1)
        worst = _most(worst, together)
    return _plus(ways.here, worst, 1)


def _most(some: _Numbers, others: _Numbers) -> _Numbers:
    return max(some[0], others[0]), max(some[1], others[1]), max(some[2], others[2])
