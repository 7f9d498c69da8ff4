"""What the first part of a run has brought, for a program that begins anew in the sandbox: no call is made twice.

A call of the same tool with the same arguments is answered from it, once for each time that it was made, in that order.
Everything else passes the gate as ever, and its record follows the others.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

from callgate.errors import LimitReached, ToolError
from callgate.limits import Limits
from callgate.runtime.attempt import copied
from callgate.runtime.gate import RunGate
from callgate.tools import Retry
from callgate.tools.encoding import NotJson, canonical_json

from .calls import OneCall, records_of

__all__ = ["JournalGate"]


class JournalGate(RunGate):
    """A run's gate that answers from what there is, as far as there is something. Keeps nothing of its own beside.

    Args:
        gate: the run's gate.
        limits: the run's, as they were given.
        calls: what was called so far. A call that the program makes again, and had not made before, gets to be its own:
            `made` has the ids of its records.
    """

    def __init__(self, gate: RunGate, limits: Limits, calls: Sequence[OneCall]) -> None:
        self.records = gate.records
        self.offer = gate.offer
        self.tools = gate.tools
        self.caller = gate.caller
        self.limits = limits
        self.made: set[int] = set()
        self._inner = gate
        given_up = [call for call in calls if call.reached is None and not call.ended]
        most = limits.max_tool_calls + sum(len(records_of(call, gate.records)) for call in given_up)
        gate.limits = limits.replace(max_tool_calls=most)  # what was given up may be made again
        self._outcomes: dict[tuple[str, bytes], deque[OneCall]] = {}
        reached = [call for call in calls if call.reached is not None]
        for call in (*reached, *sorted((c for c in calls if c.reached is None), key=lambda call: call.place)):
            if call.ended:
                key = call.site.tool, _digest(call.arguments)
                self._outcomes.setdefault(key, deque()).append(call)

    async def call(
        self,
        name: str,
        arguments: Mapping[str, Any],
        *,
        timeout_seconds: float | None = None,
        retry: Retry | None = None,
        fallback: str | None = None,
    ) -> str:
        """See `RunGate.call`."""
        name = self.offer.canonical(name)
        known = self._take(name, arguments)
        if known is not None:
            if known.error is not None:
                raise copied(known.error)
            assert known.text is not None
            return known.text
        try:
            return await self._inner.call(
                name, arguments, timeout_seconds=timeout_seconds, retry=retry, fallback=fallback
            )
        except LimitReached:
            raise self._full() from None

    def refusal(self, name: str) -> str:
        """See `RunGate.refusal`."""
        return self._inner.refusal(name)

    async def refuse(self, name: str, arguments: Any, error: ToolError) -> None:
        """See `RunGate.refuse`. A call that was made already, and that the guest gave up, is not told again."""
        if self._take(self.offer.canonical(name), arguments) is not None:
            return
        try:
            await self._inner.refuse(name, arguments, error)
        except LimitReached:
            raise self._full() from None

    async def give_up(self, name: str, arguments: Any) -> None:
        """See `RunGate.give_up`. A call that was made already is not told again."""
        if self._take(self.offer.canonical(name), arguments) is not None:
            return
        try:
            await self._inner.give_up(name, arguments)
        except LimitReached:
            raise self._full() from None

    async def begun(self) -> None:
        """See `RunGate.begun`."""
        await self._inner.begun()

    def only_reads(self, name: str) -> bool:
        """See `RunGate.only_reads`."""
        return self._inner.only_reads(name)

    def _take(self, name: str, arguments: Mapping[str, Any]) -> OneCall | None:
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
            self.made.update(record.id for record in records_of(call, self.records))
        return call

    def _full(self) -> LimitReached:
        return LimitReached("max_tool_calls", self.limits.max_tool_calls, self.limits.max_tool_calls)


def _digest(arguments: Mapping[str, Any]) -> bytes:
    """Tells arguments apart without keeping them. Raises `NotJson`."""
    return hashlib.blake2b(canonical_json(arguments).encode("utf-8", "surrogatepass"), digest_size=32).digest()
