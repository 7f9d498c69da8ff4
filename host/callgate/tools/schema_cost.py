"""What checking a value by a JSON Schema may cost, weighed before it is checked: the validator cannot be interrupted.

Theory of operation. There is one estimate, in units of about 2 ns:

    keywords x places in the value + names x objects in it + bytes of text x states of the patterns + long numbers

1. *Keywords* are those of the expanded schema: a schema that is referred to twice counts twice, so schemas that branch
   into each other double with each level. Of the properties of an object the worst one counts, for a place has one
   name. A cycle is expanded once, and each schema that a cycle comes back to counts once more: the validator remembers
   what it found about an object or an array there.
2. *Names* are those that each object is searched for: under `properties`, `dependentRequired` and the like.
3. *Patterns* are charged with the whole text. Only where that is too much are the texts looked up that they apply to.
4. What is above the limits, or takes long to find out, is refused.

A schema that comes back to itself in several ways without going into the value has no meaning by the standard.

Knows schemas, values and sizes; checks nothing.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from callgate.errors import ConfigurationError

from .decoding import counting
from .patterns import pattern_states, pattern_work
from .schema_references import References
from .turns import LARGE_BYTES, Work

__all__ = ["MAX_PATTERN_STATES", "MAX_STEPS", "MAX_WAYS", "SchemaCost"]

MAX_STEPS = 50_000_000
"""Units that one check may cost: at most 100 ms, for which nothing else runs."""
MAX_WAYS = 100_000
"""Keywords of one expanded schema: with more of them, a value of 500 places could not be checked any more."""
MAX_PATTERN_STATES = 200_000
"""Of all patterns of one schema, each with its repetitions written out; making a matcher of them takes about 1 s."""

_MANY = 10**15
"""More than any limit; sums stop there, so that numbers stay small."""
_MAX_LOOKED_UP = 500_000
"""Pairs of a place and a schema that are looked at to find the texts of patterns. About 0.3 s, in turns."""
_TURN = 5_000
"""Pairs between two turns of others."""
_HASHED = 80
"""Units of a place below an array with `uniqueItems`."""
_OPTION = 5
"""Units of each option of an `enum` that is not all texts or all numbers, which is looked up at once."""
_COPIES = 3
"""How often everything below `unevaluatedProperties` and `unevaluatedItems` is looked at, by measurement."""
_FRACTION = 500
"""Units of `multipleOf` with a fraction."""
_TINY_FRACTION = 3_000
_NAMES_AT_ONCE = 10
"""How many `properties` that an object does not have cost a unit."""
_LONG_NUMBER = 5_000
"""Units of a number beyond 64 bits under `multipleOf` with a fraction."""
_LONG_DIVIDED = 250
"""Units of a number beyond 64 bits under `multipleOf` of whole numbers."""
_LONG_PAIR = 130
"""Units of a pair of such numbers under `uniqueItems`, which compares each with each."""
_TEXT_COPIES = 1_000
"""Bytes of text that are copied in one unit, where every fault is looked for."""
_PIECES = re.compile(r'"(?:[^"\\]|\\.)*+"|[^"]{1,65536}')
"""Strings, and what stands between them."""
_LONG_NUMBERS = re.compile(r"\d{20}|\d[eE][+-]?\d\d")

_LISTS = ("allOf", "anyOf", "oneOf")
_ONES = ("not", "if", "then", "else")
_BY_MEMBER = ("dependentSchemas", "dependencies")
_ITEMS = ("items", "additionalItems", "unevaluatedItems", "contains")
_MEMBERS = {"additionalProperties": "other", "unevaluatedProperties": "member", "propertyNames": "name"}

Label = tuple[str, str | int | None]
"""A place inside: the kind (`member`, `item`, `other` for members that `properties` does not name, `name` for the names
themselves), and the name or index; None for any."""


class Sums(NamedTuple):
    """Keywords, pattern units for each byte of text, how often a schema comes back to one that contains it, and units
    of the names that each object is searched for."""

    ways: int = 0
    text: int = 0
    again: int = 0
    names: int = 0

    def plus(self, more: Sums, times: int = 1) -> Sums:
        return Sums(*(min(_MANY, one + other * times) for one, other in zip(self, more, strict=True)))


@dataclass(slots=True)
class _Node:
    """One schema. `own`: units for each value; `text`: for each byte of a text; `keys`: for each byte of a name;
    `names`: for each object."""

    schema: dict[str, Any]
    edges: list[tuple[Label | None, int, int]] = field(default_factory=list)
    """Where (None: at the same place), which schema, how often."""
    own: int = 1
    text: int = 0
    keys: int = 0
    names: int = 0


class SchemaCost:
    """What one schema costs.

    Raises:
        ConfigurationError: no value could be checked by it in reasonable time, it refers to itself without end, or a
            reference leads nowhere.
    """

    def __init__(self, schema: dict[str, Any], what: str) -> None:
        self._nodes: list[_Node] = []
        self._states = self._fractions = self._divisors = 0
        self._unique = False
        references = References(schema, what)
        numbers = {id(schema): 0}
        self._nodes.append(_Node(schema))
        for node in self._nodes:  # which grow meanwhile
            self._weigh(node)
            copies = _COPIES if "unevaluatedProperties" in node.schema or "unevaluatedItems" in node.schema else 1
            times: Counter[tuple[Label | None, int]] = Counter()
            for label, child in (*((None, target) for target in references.of(node.schema)), *_applied(node.schema)):
                number = numbers.setdefault(id(child), len(self._nodes))
                if number == len(self._nodes):
                    self._nodes.append(_Node(child))
                times[label, number] += copies if label is None else 1
            node.edges = [(label, number, count) for (label, number), count in times.items()]
        if self._states > MAX_PATTERN_STATES:
            raise ConfigurationError(
                f"{what} has patterns with too many repetitions: {self._states} characters where they are "
                f"written out; at most {MAX_PATTERN_STATES} are taken"
            )
        _refuse_endless(self._nodes, what)
        self._sums, self._targets = _expanded(self._nodes)
        if max(self._sums.ways + self._sums.names, self._sums.text) > MAX_WAYS:
            raise ConfigurationError(
                f"{what} branches too often: to check one value, more than {MAX_WAYS} keywords may have to "
                "be looked at; alternatives within alternatives multiply"
            )
        for more in self._targets.values():
            self._sums = self._sums.plus(more._replace(again=0))
        self._leading: set[int] | None = None

    def allowing(self, text: str, value: Any) -> Work[bool]:
        """Whether a value may be checked; `text` is its JSON text. In turns."""
        if (
            not self._unique
            and not self._divisors
            and (self._sums.ways + self._sums.names + self._sums.text) * (len(text) + 1) <= MAX_STEPS
        ):
            return True
        cost = yield from self._without_patterns(text, value)
        if cost + self._sums.text * len(text) <= MAX_STEPS:
            return True
        if not self._sums.text or cost > MAX_STEPS:
            return False
        yield
        return cost + (yield from self._in_patterns(value, MAX_STEPS - cost)) <= MAX_STEPS

    def steps(self, text: str, value: Any) -> Work[int]:
        """Units that a check of a value may cost at most. In turns."""
        return (yield from self._without_patterns(text, value)) + self._sums.text * len(text)

    def steps_again(self, text: str, value: Any, enough: int) -> Work[int]:
        """Units where every fault is looked for, or any number above `enough`: nothing is remembered, each level hands
        all it has found to the one above, and each fault has a copy of the text."""
        cost = (yield from self.steps(text, value)) + len(text) * self._sums.ways // _TEXT_COPIES
        if not self._sums.again or cost > enough:
            return cost
        depth = _depth(value)
        return int(cost * max(1, depth) * self._sums.again**depth)

    def _weigh(self, node: _Node) -> None:
        schema = node.schema
        node.own = 1 + len(schema)
        patterns = schema.get("patternProperties")
        for pattern in patterns if isinstance(patterns, dict) else ():
            self._states = min(_MANY, self._states + pattern_states(pattern))
            node.keys = min(_MANY, node.keys + pattern_work(pattern))
        if isinstance(schema.get("pattern"), str):
            self._states = min(_MANY, self._states + pattern_states(schema["pattern"]))
            node.text = min(_MANY, pattern_work(schema["pattern"]))
        for word in ("dependentRequired", "dependentSchemas", "dependencies"):  # all names are looked up in each object
            if isinstance(schema.get(word), dict):
                node.names += len(schema[word])
        if isinstance(schema.get("properties"), dict):
            node.names += len(schema["properties"]) // _NAMES_AT_ONCE
        if schema.get("uniqueItems") is True:
            self._unique = True
        options = schema.get("enum")
        if isinstance(options, list):
            kinds = {type(option) for option in options}
            if len(kinds) > 1 or kinds & {dict, list}:
                node.own += _OPTION * len(options)
        divisor = schema.get("multipleOf")
        if isinstance(divisor, (int, float)):
            self._divisors += 1
        if isinstance(divisor, float):
            self._fractions += 1
            node.own += _FRACTION if divisor > 1e-10 else _TINY_FRACTION

    def _without_patterns(self, text: str, value: Any) -> Work[int]:
        places = 1 + (yield from _counting(text, MAX_STEPS // self._sums.ways))
        cost = self._sums.ways * places + self._sums.names * (1 + text.count("{"))
        if cost > MAX_STEPS or not (self._unique or self._divisors):
            return cost
        long = yield from _long_numbers(text)
        cost += long * (self._fractions * _LONG_NUMBER + self._divisors * _LONG_DIVIDED)
        if self._unique:
            cost += long * long * _LONG_PAIR + (_depth(value) * places * _HASHED if self._targets else 0)
        return cost

    def _in_patterns(self, value: Any, enough: int) -> Work[int]:
        """Units of the texts that patterns apply to, or any number above `enough`. In turns."""
        if self._leading is None:
            self._leading = _leading(self._nodes)
        steps, left, turn = 0, _MAX_LOOKED_UP, _MAX_LOOKED_UP
        seen: set[tuple[int, int]] = set()
        todo: list[tuple[int, Any, int]] = [(0, value, 1)]
        while todo:
            number, value, times = todo.pop()
            node = self._nodes[number]
            left -= 1
            if isinstance(value, str):
                steps += times * node.text * _bytes(value)
            elif isinstance(value, (dict, list)):
                if number in self._targets:
                    if (number, id(value)) in seen:
                        continue
                    seen.add((number, id(value)))
                if node.keys and isinstance(value, dict):
                    steps += times * node.keys * sum(map(_bytes, value))
            for label, child, count in node.edges:
                if child in self._leading:
                    left -= len(value) if label and label[1] is None and isinstance(value, (dict, list)) else 1
                    if left < 0:
                        break
                    todo.extend((child, part, times * count) for part in _parts(node.schema, label, value))
            if left < 0 or steps > enough:
                return enough + 1
            if left <= turn - _TURN:
                turn = left
                yield
        return steps


def _parts(schema: dict[str, Any], label: Label | None, value: Any) -> Iterable[Any]:
    """The places of a value that an edge leads to."""
    match label:
        case None:
            return (value,)
        case (kind, None) if kind != "item" and isinstance(value, dict):
            if kind == "name":
                return value.keys()
            known = schema.get("properties", ()) if kind == "other" else ()
            return [part for name, part in value.items() if name not in known]
        case ("item", None) if isinstance(value, list):
            return value
        case (_, str() as name) if isinstance(value, dict) and name in value:
            return (value[name],)
        case (_, int() as index) if isinstance(value, list) and index < len(value):
            return (value[index],)
        case _:
            return ()


def _expanded(nodes: list[_Node]) -> tuple[Sums, dict[int, Sums]]:
    """What the worst place of a value costs, each cycle expanded once; and for the schemas that cycles come back to."""
    found: dict[int, tuple[Sums, Sums, Sums]] = {}
    """Of each schema: at its own place, at the worst place inside of an object, and of an array."""
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
                todo.extend((child, False) for _, child, _ in node.edges)
            continue
        here = Sums(node.own, node.text + node.keys, 0, node.names)
        everywhere = [Sums(), Sums(_HASHED if node.schema.get("uniqueItems") is True else 0)]
        named = [Sums(), Sums()]
        for label, child, times in node.edges:
            if child not in found:  # it is being expanded: a cycle
                targets.add(child)
            below = found.get(child, (Sums(1, 0, 1), Sums(), Sums()))
            if label is None:
                here = here.plus(below[0], times)
                everywhere = [one.plus(more, times) for one, more in zip(everywhere, below[1:], strict=True)]
            else:
                kind, cost = label[0] == "item", Sums().plus(_worst(below), times)
                if label[1] is None:
                    everywhere[kind] = everywhere[kind].plus(cost)
                else:
                    named[kind] = _worst((named[kind], cost))
        being.discard(number)
        found[number] = here, everywhere[0].plus(named[0]), everywhere[1].plus(named[1])
    return _worst(found[0]), {target: _worst(found[target]) for target in targets}


def _worst(sums: Iterable[Sums]) -> Sums:
    return Sums(*map(max, zip(*sums, strict=True)))


def _leading(nodes: list[_Node]) -> set[int]:
    """The schemas that lead to a pattern."""
    behind: list[list[int]] = [[] for _ in nodes]
    for number, node in enumerate(nodes):
        for _, child, _ in node.edges:
            behind[child].append(number)
    todo = [number for number, node in enumerate(nodes) if node.text or node.keys]
    found = set(todo)
    while todo:
        new = [number for number in behind[todo.pop()] if number not in found]
        found.update(new)
        todo.extend(new)
    return found


def _refuse_endless(nodes: list[_Node], what: str) -> None:
    """Raise where a schema leads in more than one way to one that comes back to itself at the same place."""
    ahead = [Counter[int]() for _ in nodes]
    behind: list[list[int]] = [[] for _ in nodes]
    for number, node in enumerate(nodes):
        for label, child, times in node.edges:
            if label is None:
                if not ahead[number][child]:
                    behind[child].append(number)
                ahead[number][child] += times
    open_ways = [len(children) for children in ahead]
    ends = [number for number, count in enumerate(open_ways) if not count]
    for number in ends:  # which grow meanwhile
        for parent in behind[number]:
            open_ways[parent] -= 1
            if not open_ways[parent]:
                ends.append(parent)
    ended = set(ends)
    for number, children in enumerate(ahead):
        if number not in ended and sum(times for child, times in children.items() if child not in ended) > 1:
            raise ConfigurationError(
                f"{what} refers to itself in several ways without going into the value: that has no end"
            )


def _counting(text: str, enough: int) -> Work[int]:
    """As `counting`; a text that has few of the marks in all is not copied for that."""
    marks = text.count(",") + text.count("{") + text.count("[")
    if len(text) > LARGE_BYTES:
        yield
    return marks if marks <= enough else (yield from counting(text.encode(), enough))


def _long_numbers(text: str) -> Work[int]:
    """How many numbers of a JSON text are beyond 64 bits, or may be."""
    long = turn = 0
    for piece in _PIECES.finditer(text):
        if text[piece.start()] != '"':
            long += len(_LONG_NUMBERS.findall(piece[0]))
        if piece.end() - turn > LARGE_BYTES:
            turn = piece.end()
            yield
    return long


def _depth(value: Any) -> int:
    level, depth = [value] if isinstance(value, (dict, list)) else [], 0
    while level:
        children = (child for item in level for child in (item.values() if isinstance(item, dict) else item))
        level = [child for child in children if isinstance(child, (dict, list))]
        depth += 1
    return depth


def _bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode(errors="replace"))


def _applied(schema: dict[str, Any]) -> Iterator[tuple[Label | None, dict[str, Any]]]:
    """The schemas that one applies: where in the value, and which."""
    for word, value in schema.items():
        label: Label | None = None
        match value:
            case dict() if word in _ONES:
                children: list[tuple[Label | None, Any]] = [(None, value)]
            case dict() if word in _BY_MEMBER:
                children = [(None, each) for each in value.values()]
            case dict() if word in _ITEMS:
                children = [(("item", None), value)]
            case dict() if word in _MEMBERS:
                children = [((_MEMBERS[word], None), value)]
            case dict() if word == "properties":
                children = [(("member", name), each) for name, each in value.items()]
            case dict() if word == "patternProperties":
                children = [(("member", None), each) for each in value.values()]
            case list() if word in _LISTS:
                children = [(None, each) for each in value]
            case list() if word in ("prefixItems", "items"):
                children = [(("item", index), each) for index, each in enumerate(value)]
            case _:
                children = []
        for label, child in children:
            if isinstance(child, dict):
                yield label, child
