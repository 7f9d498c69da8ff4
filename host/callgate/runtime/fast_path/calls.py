"""The calls of one run on the fast path: which place of the program each belongs to, and whether it got there; and for
a program that begins anew in the sandbox, what they gave, so that no call is made twice.

There a call of the same tool with the same arguments is answered from the journal, once for each time that it was made,
in that order. Everything else passes the gate as ever, and its record follows the others.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from callgate.errors import ToolError
from callgate.program.graph.flow import Site
from callgate.program.graph.walking.ghost import Place
from callgate.program.graph.walking.walk import MadeCall
from callgate.runtime.gate import RunGate
from callgate.runtime.gate.records import CallRecord
from callgate.tools.encoding import NotJson, canonical_json, compact_json

__all__ = ["Journal", "OneCall", "Place", "same_arguments", "split"]


_EXACT: Final = frozenset({str, int, bool, type(None)})
"""Types of values that are the same if they are equal."""


@dataclass(slots=True, eq=False)
class OneCall:
    """One call, asked for by the walk or, early, by the ghost."""

    site: Site
    number: int
    arguments: dict[str, Any]
    reached: MadeCall | None
    """The call as the walk made it; None until the walk gets there."""
    record: int = -1
    """Its place among the gate's records; -1 before it began."""
    text: str | None = None
    """The result, as compact JSON."""
    error: ToolError | None = None
    order: int = 0
    """Of those that failed, the how-manieth."""
    under_way: bool = False
    early: bool = False
    """It was asked for before the walk got there."""

    @property
    def place(self) -> Place:
        return self.site.number, self.number

    @property
    def ended(self) -> bool:
        return self.text is not None or self.error is not None


def same_arguments(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether a tool could see no difference: ``1``, ``1.0`` and ``true`` differ, and so does the order of keys, but
    for the arguments' own names."""
    if one.keys() == other.keys() and _EXACT.issuperset(map(type, one.values())):
        return all(type(value) is type(other[name]) and value == other[name] for name, value in one.items())
    try:
        return compact_json(dict(sorted(one.items()))) == compact_json(dict(sorted(other.items())))
    except NotJson:
        return False


def split(
    calls: Iterable[OneCall], gate: RunGate, made: Collection[int] = ()
) -> tuple[list[CallRecord], list[CallRecord]]:
    """The records of what the program made, and of what was made early and in vain; those in `made` were not."""
    records = gate.records
    vain = {record.id for call in calls if call.reached is None for record in gate.chain(call.record)}
    vain.difference_update(made)
    if not vain:
        return records, []
    return [each for each in records if each.id not in vain], [each for each in records if each.id in vain]


class Journal:
    """The outcomes of the calls so far; `answered` gives each of them once.

    Args:
        calls: what was called so far.
        gate: has recorded them.
    """

    def __init__(self, calls: Sequence[OneCall], gate: RunGate) -> None:
        self._gate = gate
        self.given_up = sum(len(gate.chain(call.record)) for call in calls if call.reached is None and not call.ended)
        """Records of calls that have no outcome, and that the program may make again."""
        self.made: set[int] = set()
        """Ids of the records of early calls that the program has made now: they are its own from here on."""
        self._outcomes: dict[tuple[str, bytes], deque[OneCall]] = {}
        reached = [call for call in calls if call.reached is not None]
        for call in (*reached, *sorted((c for c in calls if c.reached is None), key=lambda call: call.place)):
            if call.ended:
                key = call.site.tool, _digest(call.arguments)
                self._outcomes.setdefault(key, deque()).append(call)

    def answered(self, name: str, arguments: Any) -> str | ToolError | None:
        """The outcome of the next call of this tool with these arguments; None where there is none left."""
        if not self._outcomes:
            return None
        try:
            known = self._outcomes.get((name, _digest(arguments)))
        except NotJson:
            return None
        if not known:
            return None
        call = known.popleft()
        if call.reached is None:
            self.made.update(record.id for record in self._gate.chain(call.record))
        return call.text if call.error is None else call.error


def _digest(arguments: Any) -> bytes:
    """Tells arguments apart without keeping them. Raises `NotJson`."""
    return hashlib.blake2b(canonical_json(arguments).encode("utf-8", "surrogatepass"), digest_size=32).digest()
