"""A JSON Schema as a graph: which schemas one applies, where in the value, and what its own keywords cost.

Theory of operation. Some keywords apply another schema to the same place of the value (`anyOf`, `$ref`), others to a
place inside it (`properties`, `items`). A schema that refers to itself in several ways without going into the value has
no meaning by the standard, and is refused. What comes back to itself in one way is looked at once.

Knows schemas; counts nothing over paths (`schema_ways`) and looks at no value (`schema_walk`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from callgate.errors import ConfigurationError

from .patterns import pattern_states, pattern_work
from .schema_references import References

__all__ = ["ANY_ITEM", "ANY_MEMBER", "HASHED", "MANY", "OPTION", "Edge", "Graph", "Label", "Node"]

MANY = 10**15
"""More than any limit; sums stop there, so that numbers stay small."""
HASHED = 5
"""Units of a place under `uniqueItems`, for each array above it that has that."""
ANY_MEMBER: Final = ("member", None)
ANY_ITEM: Final = ("item", None)

OPTION = 5
"""Units of each option of an `enum` that is not all texts or all numbers, which is looked up at once."""
_COPIES = 3
"""So often what is below `unevaluatedProperties` and `unevaluatedItems` is looked at, by measurement."""
_FRACTION = 50
"""Units of `multipleOf` with a fraction."""
_TINY_FRACTION = 3_000
_NAMES_AT_ONCE = 10
"""So many `properties` that an object does not have cost a unit."""
_DEPENDENT = ("dependentRequired", "dependentSchemas", "dependencies")
"""All of their names are looked up for each object."""

_LISTS = ("allOf", "anyOf", "oneOf")
_ONES = ("not", "if", "then", "else")
_BY_MEMBER = ("dependentSchemas", "dependencies")
_ITEMS = ("items", "additionalItems", "unevaluatedItems", "contains")
_MEMBERS = ("additionalProperties", "unevaluatedProperties", "propertyNames")

Label = tuple[str, str | int | None]
"""A place inside: the member or the item of that name or number; without one, any of them."""


class Edge(NamedTuple):
    """`label` None is the same place; `word` the keyword, or ``"$ref"``."""

    label: Label | None
    child: int
    times: int
    word: str


@dataclass(slots=True)
class Node:
    """One schema. `own`: units for each value; `objects` and `numbers`: more for those; `text`: for each byte of a
    text; `keys`: for each byte of a member's name."""

    schema: dict[str, Any]
    edges: list[Edge] = field(default_factory=list)
    own: int = 1
    objects: int = 0
    numbers: int = 0
    text: int = 0
    keys: int = 0
    unique: bool = False


class Graph:
    """All schemas that are reached from one.

    Args:
        schema: the whole of it.
        what: what it is, for errors.

    Attributes:
        nodes: the first is the whole.
        states: of all patterns.
        fractions: how many `multipleOf` have a fraction.
        divisors: how many `multipleOf` there are.
        unique: how many `uniqueItems` there are.

    Raises:
        ConfigurationError: a reference leads nowhere.
    """

    def __init__(self, schema: dict[str, Any], what: str) -> None:
        self.what = what
        self.nodes: list[Node] = []
        self.states = 0
        self.fractions = 0
        self.divisors = 0
        self.unique = 0
        self._references = References(schema, what)
        self._of_schema: dict[int, int] = {}
        self._number(schema)
        for node in self.nodes:  # which grow meanwhile
            self._weigh(node)
            self._link(node)

    def _number(self, schema: dict[str, Any]) -> int:
        number = self._of_schema.setdefault(id(schema), len(self.nodes))
        if number == len(self.nodes):
            self.nodes.append(Node(schema))
        return number

    def _link(self, node: Node) -> None:
        schema = node.schema
        copies = _COPIES if "unevaluatedProperties" in schema or "unevaluatedItems" in schema else 1
        times: Counter[tuple[Label | None, int, str]] = Counter()
        for target in self._references.of(schema):
            times[None, self._number(target), "$ref"] += copies
        for label, child, word in _applied(schema):
            times[label, self._number(child), word] += copies if label is None else 1
        node.edges = [Edge(label, child, count, word) for (label, child, word), count in times.items()]

    def _weigh(self, node: Node) -> None:
        schema = node.schema
        node.own = 1 + len(schema)
        patterns = schema.get("patternProperties")
        for pattern in patterns if isinstance(patterns, dict) else ():
            self.states = min(MANY, self.states + pattern_states(pattern))
            node.keys = min(MANY, node.keys + pattern_work(pattern))
        if isinstance(schema.get("pattern"), str):
            self.states = min(MANY, self.states + pattern_states(schema["pattern"]))
            node.text = min(MANY, pattern_work(schema["pattern"]))
        for word in _DEPENDENT:
            if isinstance(schema.get(word), dict):
                node.objects += len(schema[word])
        if isinstance(schema.get("properties"), dict):
            node.objects += len(schema["properties"]) // _NAMES_AT_ONCE
        if schema.get("uniqueItems") is True:
            node.unique = True
            self.unique += 1
        options = schema.get("enum")
        if isinstance(options, list):
            kinds = {type(option) for option in options}
            if len(kinds) > 1 or kinds & {dict, list}:
                node.own += OPTION * len(options)
        divisor = schema.get("multipleOf")
        if isinstance(divisor, (int, float)):
            self.divisors += 1
        if isinstance(divisor, float):
            self.fractions += 1
            node.numbers += _FRACTION if divisor > 1e-10 else _TINY_FRACTION

    def refuse_endless(self) -> None:
        """Raise where a schema comes back to itself at the same place, in more than one way."""
        ahead = [Counter[int]() for _ in self.nodes]
        for node, children in zip(self.nodes, ahead, strict=True):
            for edge in node.edges:
                if edge.label is None:
                    children[edge.child] += edge.times
        behind: list[list[int]] = [[] for _ in ahead]
        for number, followers in enumerate(ahead):
            for child in followers:
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
                    f"{self.what} refers to itself in several ways without going into the value: that has no end"
                )


def _applied(schema: dict[str, Any]) -> Iterator[tuple[Label | None, dict[str, Any], str]]:
    """The schemas that one applies: where, which, by which keyword."""
    for word, value in schema.items():
        label: Label | None = None
        match value:
            case dict() if word in _ONES:
                children: list[tuple[Label | None, Any]] = [(None, value)]
            case dict() if word in _BY_MEMBER:
                children = [(None, each) for each in value.values()]
            case dict() if word in _ITEMS:
                children = [(ANY_ITEM, value)]
            case dict() if word in _MEMBERS:
                children = [(ANY_MEMBER, value)]
            case dict() if word == "properties":
                children = [(("member", name), each) for name, each in value.items()]
            case dict() if word == "patternProperties":
                children = [(ANY_MEMBER, each) for each in value.values()]
            case list() if word in _LISTS:
                children = [(None, each) for each in value]
            case list() if word in ("prefixItems", "items"):
                children = [(("item", index), each) for index, each in enumerate(value)]
            case _:
                children = []
        for label, child in children:
            if isinstance(child, dict):
                yield label, child, word
