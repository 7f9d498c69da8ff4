"""What checking one value by a JSON Schema may cost, place by place: each text is charged with the patterns for it.

Theory of operation. At each place of the value a set of schemas is looked at, each of them so and so often. Which ones
follows from the place above and from the name or the index, so it is found out once for each such set and kept. A
schema that the value leads back to is looked at once for an object or an array, because the validator remembers it.

Knows the graph of a schema and walks a value; gives up where that itself takes long.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Any

from .schema_graph import HASHED, Edge, Graph
from .turns import Work

__all__ = ["MAX_WALK", "Walk"]

MAX_WALK = 500_000
"""Places of a value; and as many schemas are put together for them. About half a second."""
_TURN = 5_000
"""Of those, between two turns of others."""
_Entry = frozenset[tuple[tuple[int, bool], int]]
"""Which schemas, whether the value led back to them, how often."""


class _TooLong(Exception):
    pass


class _Left:
    """What one walk may still look at."""

    def __init__(self, places: int) -> None:
        self._places = places
        self._turn = places - _TURN

    def take(self, places: int) -> None:
        """Raises `_TooLong` where nothing is left."""
        self._places -= places
        if self._places < 0:
            raise _TooLong

    def turn_is_over(self) -> bool:
        """Whether others should have their turn; then a new one begins."""
        if self._places > self._turn:
            return False
        self._turn = self._places - _TURN
        return True


@dataclass(slots=True)
class _Place:
    """What is looked at together."""

    value: int = 0
    members: int = 0
    number: int = 0
    text: int = 0
    keys: int = 0
    unique: int = 0
    schemas: list[tuple[int, int]] = field(default_factory=list)
    named: set[str | int] = field(default_factory=set)
    inside: dict[str | int | None, _Entry] = field(default_factory=dict)
    names: _Entry | None = None


class Walk:
    """Of one schema, for any number of values."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._backwards, self._order = _directions(graph)
        self._at = {number: position for position, number in enumerate(self._order)}
        self._places: dict[tuple[_Entry, bool], _Place] = {}
        self._by_label: dict[int, dict[Any, list[Edge]]] = {}

    def steps(self, value: Any, enough: int) -> Work[int | None]:
        """Units that a check may cost at most, or any number above `enough`; None where finding out takes long.
        In turns."""
        if len(self._order) < len(self._graph.nodes):
            return None
        left = _Left(2 * MAX_WALK)
        if len(self._places) > MAX_WALK // 10:
            self._places.clear()
        try:
            return (yield from self._walk(value, enough, left))
        except _TooLong:
            return None

    def _walk(self, whole: Any, enough: int, left: _Left) -> Work[int]:
        steps = 0
        todo: list[tuple[Any, _Entry, int]] = [(whole, frozenset({((0, False), 1)}), 0)]
        while todo and steps <= enough:
            value, entry, hashed = todo.pop()
            container = isinstance(value, (dict, list))
            place = self._places.get((entry, container)) or self._place(entry, container, left)
            steps += place.value + hashed * HASHED
            left.take(1)
            if left.turn_is_over():
                yield
            if isinstance(value, str):
                if place.text:
                    steps += place.text * _bytes(value)
            elif isinstance(value, dict):
                steps += place.members
                for name, child in value.items():
                    todo.append((child, self._inside(place, name, left), hashed))
                    if place.keys:
                        steps += place.keys * _bytes(name)
                    if left.turn_is_over():
                        yield
                if place.names is None:
                    place.names = self._names(place)
                if place.names:
                    todo.extend((name, place.names, hashed) for name in value)
                    left.take(len(value))
            elif isinstance(value, list):
                hashed += place.unique
                todo.extend((child, self._inside(place, index, left), hashed) for index, child in enumerate(value))
            elif not isinstance(value, bool) and value is not None:
                steps += place.number
        return steps

    def _place(self, entry: _Entry, container: bool, left: _Left) -> _Place:
        """All that is looked at at one place, with what applies to the same place."""
        found = _Place()
        ways: Counter[int] = Counter()
        again: Counter[int] = Counter()
        todo: list[int] = []
        for (number, back), times in entry:
            heappush(todo, self._at[number])
            (again if back else ways)[number] += times
        last = -1
        while todo:
            position = heappop(todo)
            if position == last:
                continue
            last = position
            number = self._order[position]
            node = self._graph.nodes[number]
            count = ways[number] + (min(1, again[number]) if container else again[number])
            found.value += again[number] + count * node.own
            found.members += count * node.objects
            found.number += count * node.numbers
            found.text += count * node.text
            found.keys += count * node.keys
            found.unique += count * node.unique
            left.take(1 + len(node.edges))
            inside = False
            for edge in node.edges:
                if edge.label is None:
                    target = again if (number, edge.child) in self._backwards else ways
                    target[edge.child] += count * edge.times
                    heappush(todo, self._at[edge.child])
                else:
                    inside = True
                    if edge.label[1] is not None:
                        found.named.add(edge.label[1])
            if inside:
                found.schemas.append((number, count))
                found.named.update(node.schema.get("properties", ()))
        self._places[entry, container] = found
        return found

    def _inside(self, place: _Place, name: str | int, left: _Left) -> _Entry:
        """What is looked at at a member or an item."""
        known = name if name in place.named else None if isinstance(name, str) else -1
        entry = place.inside.get(known)
        if entry is None:
            kind = "member" if isinstance(name, str) else "item"
            counts: Counter[tuple[int, bool]] = Counter()
            for number, count in place.schemas:
                node = self._graph.nodes[number]
                found = self._labelled(number)
                edges = [*found.get((kind, None), ()), *found.get((kind, name), ())]
                left.take(1 + len(edges))
                for _, child, times, word in edges:
                    if word == "propertyNames":
                        continue
                    if word != "additionalProperties" or name not in node.schema.get("properties", ()):
                        counts[child, (number, child) in self._backwards] += count * times
            entry = place.inside[known] = frozenset(counts.items())
        return entry

    def _labelled(self, number: int) -> dict[Any, list[Edge]]:
        """A schema's edges by their labels: of 30,000 properties, those of one name are not looked for."""
        found = self._by_label.get(number)
        if found is None:
            found = self._by_label[number] = {}
            for edge in self._graph.nodes[number].edges:
                found.setdefault(edge.label, []).append(edge)
        return found

    def _names(self, place: _Place) -> _Entry:
        """What is looked at for each name."""
        counts: Counter[tuple[int, bool]] = Counter()
        for number, count in place.schemas:
            for edge in self._graph.nodes[number].edges:
                if edge.word == "propertyNames":
                    counts[edge.child, (number, edge.child) in self._backwards] += count * edge.times
        return frozenset(counts.items())


def _bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode(errors="replace"))


def _directions(graph: Graph) -> tuple[set[tuple[int, int]], list[int]]:
    """Which edges lead back to a schema that is being looked at; and the schemas, each before those that it applies to
    the same place, without those that come back to themselves there."""
    backwards: set[tuple[int, int]] = set()
    done: set[int] = set()
    being: set[int] = set()
    todo = [(0, False)]
    while todo:
        number, leaves = todo.pop()
        if leaves:
            being.discard(number)
            done.add(number)
        elif number not in done and number not in being:
            being.add(number)
            todo.append((number, True))
            for edge in reversed(graph.nodes[number].edges):
                if edge.child in being:
                    backwards.add((number, edge.child))
                elif edge.child not in done:
                    todo.append((edge.child, False))
    before = Counter(edge.child for node in graph.nodes for edge in node.edges if edge.label is None)
    order = [number for number in range(len(graph.nodes)) if not before[number]]
    for number in order:  # which grows meanwhile
        for edge in graph.nodes[number].edges:
            if edge.label is None:
                before[edge.child] -= 1
                if not before[edge.child]:
                    order.append(edge.child)
    return backwards, order
