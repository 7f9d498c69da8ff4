"""How many keywords of a JSON Schema may be looked at for one place of a value, at worst.

Theory of operation. A place is visited once for each way that leads to it through the graph, so schemas that branch
into each other double the visits with each level: 1 KB of schema is enough for hours. Along `anyOf` and the like ways
are summed up, of the properties of an object the worst one counts. What goes round through the value (a tree) is
counted once: there the validator remembers what it has found out about an object or an array.

Knows the graph of a schema; no value.
"""

from __future__ import annotations

from dataclasses import dataclass

from callgate.errors import ConfigurationError

from .schema_graph import ANY_ITEM, ANY_MEMBER, MANY, Graph, Label, Node

__all__ = ["Numbers", "Ways"]

_MAX_NAMES = 30_000
"""Names that are carried from schemas to those that refer to them while this is counted; about 0.05 s. None of 1,751
schemas in use needs more."""
_FOR_EACH = 16
"""So many schemas are followed for each reference, where the value leads back, if that is more."""
_NONE = (0, 0, 0)

Numbers = tuple[int, int, int]
"""Keywords looked at, units for each byte of text, and how often a schema comes back to one that is being looked at."""


@dataclass(slots=True)
class _Below:
    """Of one schema: what is looked at at its own place, and at each place inside with all that is below."""

    here: Numbers
    inside: dict[Label, Numbers]
    back: set[int]
    """The schemas it comes back to at its own place."""
    deepest: Numbers | None = None
    """The worst of `inside`, once it is known."""


class Ways:
    """What the worst place of a value may cost.

    Attributes:
        numbers: what it comes to.
        round: whether the schema comes back to itself inside the value.

    Raises:
        ConfigurationError: it cannot be counted in reasonable time.
    """

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._left = _MAX_NAMES
        self.round = False
        self.numbers = self._count()

    def _count(self) -> Numbers:
        ways: dict[int, _Below] = {}
        entered: dict[Label, set[int]] = {}
        open_nodes: set[int] = set()
        todo = [(0, False)]
        while todo:
            number, done = todo.pop()
            if done:
                ways[number] = self._ways(self._graph.nodes[number], ways, entered)
                open_nodes.discard(number)
            elif number not in ways and number not in open_nodes:
                open_nodes.add(number)
                todo.append((number, True))
                todo.extend((child, False) for _, child, *_ in reversed(self._graph.nodes[number].edges))
        self.round = any(entered.values())
        if not entered:
            return _worst(ways[0])
        self._left = max(_MAX_NAMES, _FOR_EACH * sum(len(node.edges) for node in self._graph.nodes))
        again = self._together(ways, set().union(*entered.values()))
        if again is None:
            again = _NONE
            for targets in entered.values():
                together = _NONE
                for target in targets:
                    together = _plus(together, _worst(ways[target]), 1)
                again = _most(again, together)
        steps, text, often = _worst(ways[0])
        return min(MANY, steps + again[0]), min(MANY, text + again[1]), max(often, again[2])

    def _ways(self, node: Node, ways: dict[int, _Below], entered: dict[Label, set[int]]) -> _Below:
        found = _Below((node.own + node.objects + node.numbers, node.text + node.keys, 0), {}, set())
        for label, child, times, _ in node.edges:
            below = ways.get(child)
            if below is not None and label is None and times == len(node.edges) == 1:  # no more than a reference
                _worst(below)
                return _Below(_plus(found.here, below.here, 1), below.inside, below.back, below.deepest)
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
                    raise ConfigurationError(
                        f"{self._graph.what} has too many names under schemas that refer to each other"
                    )
                for place, numbers in below.inside.items():
                    found.inside[place] = _plus(found.inside.get(place, _NONE), numbers, times)
                found.back |= below.back
            else:
                found.inside[label] = _plus(found.inside.get(label, _NONE), _worst(below), times)
                entered.setdefault(label, set()).update(below.back)
        return found

    def _together(self, ways: dict[int, _Below], targets: set[int]) -> Numbers | None:
        """Of the schemas that the value leads back to, the worst that are looked at together, at one place; None where
        finding that takes too long."""
        reached: dict[int, frozenset[int]] = {}
        leading = {number for number, node in enumerate(self._graph.nodes) if any(edge.label for edge in node.edges)}
        telling = targets | leading

        def here(start: int) -> frozenset[int]:
            if start not in reached:
                found, todo = {start}, [start]
                while todo:
                    for label, child, *_ in self._graph.nodes[todo.pop()].edges:
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
            inside: dict[Label, set[int]] = {ANY_MEMBER: set(), ANY_ITEM: set()}
            for number in place:
                for label, child, *_ in self._graph.nodes[number].edges:
                    if label is not None:
                        below = here(child)
                        inside.setdefault(label, set()).update(below)
                        self._left -= len(below)
                if self._left < 0:
                    return None
            for label, below_it in inside.items():
                anywhere = inside[ANY_MEMBER if label[0] == "member" else ANY_ITEM]
                after = frozenset(below_it | anywhere)
                if after and after not in seen:
                    seen.add(after)
                    places.append(after)
        return worst


def _plus(some: Numbers, more: Numbers, times: int) -> Numbers:
    return (
        min(MANY, some[0] + more[0] * times),
        min(MANY, some[1] + more[1] * times),
        min(MANY, some[2] + more[2] * times),
    )


def _worst(ways: _Below) -> Numbers:
    """At its own place and along the worst path into the value."""
    if ways.deepest is None:
        worst = _NONE
        for label, numbers in ways.inside.items():
            anywhere = ways.inside.get(ANY_MEMBER if label[0] == "member" else ANY_ITEM, _NONE)
            together = numbers if label in (ANY_MEMBER, ANY_ITEM) else _plus(numbers, anywhere, 1)
            worst = _most(worst, together)
        ways.deepest = worst
    return _plus(ways.here, ways.deepest, 1)


def _most(some: Numbers, others: Numbers) -> Numbers:
    return max(some[0], others[0]), max(some[1], others[1]), max(some[2], others[2])
