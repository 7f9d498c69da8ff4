"""The calls of one run on the fast path, and the journal that answers them when the program runs again in the sandbox.

The journal answers a call of the same tool with the same arguments, once for each time that the call was made, in that
order. So no call is made twice. All other calls pass the gate, and their records follow the earlier ones. What was read
while the program was still written answers only until the program's first call with effects: it was read before.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol

from callgate.errors import ToolError
from callgate.program.graph.flow import Flow, Site
from callgate.program.graph.walking.ghost import Place
from callgate.program.graph.walking.walk import MadeCall
from callgate.runtime.gate import RunGate
from callgate.runtime.gate.earlier import EarlierOutcome, Occurrences, digest
from callgate.runtime.gate.records import CallRecord, CallUnderWay
from callgate.tools import Tool
from callgate.tools.encoding import NotJson, compact_json

if TYPE_CHECKING:
    from callgate.durable.store import CallKey

__all__ = ["Elsewhere", "Journal", "OneCall", "Place", "same_arguments", "split"]


_EXACT: Final = frozenset({str, int, bool, type(None)})
"""Types whose equal values are the same JSON."""


class Elsewhere(Protocol):
    """Carries calls that began while the program was written."""

    async def outcome(self, call: OneCall) -> str | None:
        """Wait for the result; None if the call was ended without one. Raises `ToolError`."""

    def take(self, call: OneCall) -> None:
        """The program has made this call. A second time changes nothing."""

    def cancel_call(self, call: OneCall) -> None:
        """Cancel the call, since the program has cancelled it."""


@dataclass(slots=True, eq=False)
class OneCall:
    """One call, requested by the walk, or early by the ghost."""

    site: Site
    number: int
    arguments: dict[str, Any]
    reached: MadeCall | None
    """The walk's call; None until the walk comes to this place."""
    record: int = -1
    """Index of its record in the gate's records; -1 before it began."""
    text: str | None = None
    """The result, as compact JSON."""
    error: ToolError | None = None
    order: int = 0
    """Number of this failure among the run's failures, from 1."""
    under_way: bool = False
    early: bool = False
    """The ghost requested it before the walk came to its place."""
    stored_as: CallKey | None = None
    """Its name in the journal of a durable run, once the walk has come to it."""
    kept: bool = False
    """In a durable run: the gate has it kept, since the walk came to it before it began."""
    used: bool = False
    """The ghost knows the outcome."""
    elsewhere: Elsewhere | None = None
    """Carries the call, if it began while the program was written; None for all others."""

    @property
    def place(self) -> Place:
        return self.site.number, self.number

    @property
    def ended(self) -> bool:
        return self.text is not None or self.error is not None

    def stands_in(self, flow: Flow) -> bool:
        """Whether its place is the same place of the program in another reading, of more of its text."""
        if self.site.number >= len(flow.sites):
            return False
        own, other = self.site, flow.sites[self.site.number]
        return (own.tool, own.line, own.text) == (other.tool, other.line, other.text)


def same_arguments(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether a tool can see no difference. ``1``, ``1.0`` and ``true`` differ, and so does the order of keys inside an
    argument."""
    if one.keys() == other.keys() and _EXACT.issuperset(map(type, one.values())):
        return all(type(value) is type(other[name]) and value == other[name] for name, value in one.items())
    try:
        return compact_json(dict(sorted(one.items()))) == compact_json(dict(sorted(other.items())))
    except NotJson:
        return False


def split(
    calls: Iterable[OneCall], gate: RunGate, made: Collection[int] = ()
) -> tuple[list[CallRecord], list[CallRecord]]:
    """Split the gate's records into the program's calls and the speculative ones.

    Args:
        calls: of the walk and the ghost.
        gate: has the records.
        made: ids of early calls that the program made when it ran again.
    """
    records = gate.records
    speculative = {record.id for call in calls if call.reached is None for record in gate.chain(call.record)}
    speculative.difference_update(made)
    if not speculative:
        return records, []
    own = [each for each in records if each.id not in speculative]
    return own, [each for each in records if each.id in speculative]


class Journal:
    """The outcomes of the calls so far; `answered` returns each outcome once.

    Args:
        calls: the calls so far.
        gate: has their records.
    """

    def __init__(self, calls: Sequence[OneCall], gate: RunGate) -> None:
        self._gate = gate
        self.cancelled = sum(
            len(gate.chain(call.record))
            for call in calls
            if call.reached is None and not call.ended and call.elsewhere is None
        )
        """Number of records of calls without an outcome, which the program may make again."""
        self.made: set[int] = set()
        """Ids of the records of early calls that the program has made now."""
        self._outcomes = Occurrences[OneCall]()
        reached = [call for call in calls if call.reached is not None]
        for call in (*reached, *sorted((c for c in calls if c.reached is None), key=lambda call: call.place)):
            if call.ended or (call.elsewhere is not None and call.reached is None):
                self._outcomes.add(call.site.tool, digest(call.arguments), call)
        self._expires = any(map(_expires, calls))

    def answered(self, made: CallUnderWay, tool: Tool | None) -> EarlierOutcome | None:
        """See `Answered`. The records of an earlier call get the line in which the call is made now."""
        if self._expires and not (tool is not None and tool.read_only):
            self._expires = False
            self._outcomes.drop(_expires)
        known = self._outcomes.of(made.name, made.arguments)
        if not known:
            return None
        call = known.popleft()
        if made.line is not None:
            for record in self._gate.chain(call.record):
                record.line = made.line
        if call.reached is None:
            self.made.update(record.id for record in self._gate.chain(call.record))
            if call.elsewhere is not None:
                call.elsewhere.take(call)
                if not call.ended:
                    return partial(self._awaited, call.elsewhere, call)
        return call.text if call.error is None else call.error

    async def _awaited(self, elsewhere: Elsewhere, call: OneCall) -> str | None:
        try:
            return await elsewhere.outcome(call)
        except BaseException as error:
            if not isinstance(error, ToolError):
                elsewhere.cancel_call(call)
            raise
        finally:
            self.made.update(record.id for record in self._gate.chain(call.record))  # a fallback may have come


def _expires(call: OneCall) -> bool:
    return call.elsewhere is not None and call.reached is None
