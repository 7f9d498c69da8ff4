"""What checking a value by a JSON Schema may cost, counted before it is checked: the validator cannot be interrupted.

Theory of operation. Three estimates, each dearer and closer than the one before; what one allows, the next is not
asked about.

1. The length of the schema times that of the value, where nothing is looked at twice.
2. `ways` (see `schema_ways`) times the places in the value, and all of the text times all patterns that may apply to
   one place, and what long numbers and `uniqueItems` add. One unit is about 20 ns of the validator.
3. The value is walked, and each place charged with what applies there (see `schema_walk`).

Knows schemas, values and sizes; checks nothing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from callgate.errors import ConfigurationError

from .decoding import counting
from .encoding import compact_json
from .schema_graph import HASHED, OPTION, Graph
from .schema_walk import MAX_WALK, Walk
from .schema_ways import Ways
from .turns import LARGE_BYTES, Work

__all__ = ["MAX_PATTERN_STATES", "MAX_STEPS", "MAX_WAYS", "SchemaCost"]

MAX_STEPS = 50_000_000
"""Units that one check may cost: about a second, for which nothing else runs."""
MAX_WAYS = 100_000
"""Of one schema: with more of them, a value of 500 places could not be checked any more."""
MAX_PATTERN_STATES = 200_000
"""Of all patterns of one schema, each with its repetitions written out; making a matcher of them takes about 1 s."""

_TANGLED = re.compile(r'"(?:\$ref|\$dynamicRef|\$recursiveRef|unevaluated|pattern|uniqueItems|multipleOf)')
"""What makes a schema cost more than its length."""
_LONG_NUMBER = 5_000
"""Units of a number beyond 64 bits, wherever numbers are divided into fractions."""
_LONG_DIVIDED = 250
"""Units of one that is divided into whole numbers."""
_LONG_PAIR = 100
"""Units of a pair of them under `uniqueItems`, which compares each with each."""
_TEXT_COPIES = 1_000
"""Bytes of text that are copied in one unit, where every fault is looked for."""
_UNEVALUATED = {"unevaluatedItems", "unevaluatedProperties"}
_STRINGS = re.compile(r'"(?:[^"\\]|\\.)*+"')
_LONG_NUMBERS = re.compile(r"\d{20}|\d[eE][+-]?\d\d")


@dataclass(frozen=True, slots=True)
class _Sums:
    """Of a whole schema: see `Ways` and `Graph`."""

    graph: Graph
    ways: int
    text: int
    again: int
    round: bool
    walked: bool
    """Whether the third estimate holds: not for a tree with `unevaluated...`, where little is remembered."""


class SchemaCost:
    """What one schema costs.

    Raises:
        ConfigurationError: no value could be checked by it in reasonable time, or it refers to itself without end.
    """

    def __init__(self, schema: dict[str, Any], what: str) -> None:
        self._schema = schema
        self._what = what
        text = compact_json(schema)
        rough = 2 + text.count(":") + OPTION * text.count(",")
        self._rough = rough if rough <= MAX_WAYS and not _TANGLED.search(text) else None
        """No fewer than `ways`, of a schema that looks at nothing twice; it is not counted until that matters."""
        self._sums: _Sums | None = None
        self._walk: Walk | None = None
        if self._rough is None:
            self._counted()

    def allowing(self, text: str, value: Any) -> Work[bool]:
        """Whether a value may be checked; `text` is its JSON text. In turns."""
        if self._rough is not None and self._rough * (len(text) + 1) <= MAX_STEPS:
            return True
        places = yield from self._places(text)
        if self._steps(text, value, places) <= MAX_STEPS:
            return True
        yield
        left = MAX_STEPS - self._long_numbers(text)
        if left < 0 or not self._counted().walked or places > 1 + MAX_WALK:
            return False
        if self._walk is None:
            self._walk = Walk(self._counted().graph)
        steps = yield from self._walk.steps(value, left)
        return steps is not None and steps <= left

    def steps(self, text: str, value: Any) -> Work[int]:
        """Units that a check of a value may cost at most, roughly. In turns."""
        return self._steps(text, value, (yield from self._places(text)))

    def _places(self, text: str) -> Work[int]:
        return 1 + (yield from _counting(text, max(MAX_STEPS // self._counted().ways, MAX_WALK)))

    def _steps(self, text: str, value: Any, places: int) -> int:
        sums = self._counted()
        cost = sums.ways * places + sums.text * len(text) + self._long_numbers(text)
        if sums.graph.unique:
            levels = 1 if sums.graph.unique == 1 and not sums.round else text.count("[")
            if cost <= MAX_STEPS < cost + levels * places * HASHED:
                levels = min(levels, _depth(value))
            cost += levels * places * HASHED
        return cost

    def steps_again(self, text: str, value: Any, enough: int) -> Work[int]:
        """The same, or any number above `enough`, where every fault is looked for: nothing is remembered, each level
        hands all it has found to the one above, and each fault has a copy of the text."""
        sums = self._counted()
        cost = (yield from self.steps(text, value)) + len(text) * sums.ways // _TEXT_COPIES
        again = sums.again
        level = [value] if isinstance(value, (dict, list)) else []
        depth = 0
        while again and level and cost <= enough:
            level = _inside(level)
            depth += 1
            cost *= again
        return cost * max(1, depth)

    def _long_numbers(self, text: str) -> int:
        graph = self._counted().graph
        if not (graph.divisors or graph.unique):
            return 0
        bare = _STRINGS.sub("", text) if _LONG_NUMBERS.search(text) else ""
        long = sum(1 for _ in _LONG_NUMBERS.finditer(bare))
        divided = graph.fractions * _LONG_NUMBER + graph.divisors * _LONG_DIVIDED
        return long * divided + (long * long * _LONG_PAIR if graph.unique else 0)

    def _counted(self) -> _Sums:
        if self._sums is None:
            graph = Graph(self._schema, self._what)
            if graph.states > MAX_PATTERN_STATES:
                raise ConfigurationError(
                    f"{self._what} has patterns with too many repetitions: {graph.states} characters where they are "
                    f"written out; at most {MAX_PATTERN_STATES} are taken"
                )
            graph.refuse_endless()
            counted = Ways(graph)
            ways, text, again = counted.numbers
            if ways > MAX_WAYS or text > MAX_WAYS:
                raise ConfigurationError(
                    f"{self._what} branches too often: to check one value, more than {MAX_WAYS} keywords may have to "
                    "be looked at; alternatives within alternatives multiply"
                )
            walked = not (counted.round and any(_UNEVALUATED & node.schema.keys() for node in graph.nodes))
            self._sums = _Sums(graph, ways, text, again, counted.round, walked)
        return self._sums


def _counting(text: str, enough: int) -> Work[int]:
    """As `counting`; a text that has few of the marks in all is not copied for that."""
    marks = text.count(",") + text.count("{") + text.count("[")
    if len(text) > LARGE_BYTES:
        yield
    return marks if marks <= enough else (yield from counting(text.encode(), enough))


def _depth(value: Any) -> int:
    level = [value] if isinstance(value, (dict, list)) else []
    depth = 0
    while level:
        level = _inside(level)
        depth += 1
    return depth


def _inside(level: list[Any]) -> list[Any]:
    children = [child for item in level for child in (item.values() if isinstance(item, dict) else item)]
    return [child for child in children if isinstance(child, (dict, list))]
