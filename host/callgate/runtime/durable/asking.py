"""The questions of a durable run to people: may this call be made? Decides nothing itself, but that time has run out.

A question is about one call, its arguments and its tool's schema, and expires. A granted question is asked again if the
schema has changed since; a denial stays.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import anyio

from callgate.durable.store import Approval, CallKey, Decision
from callgate.runtime.gate.approval import Allow, Deny
from callgate.runtime.gate.records import CallUnderWay

from .parking import Parked, Parking
from .recorded import arguments_text, key_of, schema_digest, stored_call

__all__ = ["Questions"]

_EXPIRED = "nobody answered before the question expired"


class Questions:
    """The questions of one run.

    Args:
        run: its id.
        kept: those that were asked before.
        seconds: how long a question is valid.
        parking: where calls wait for an answer.
        keep: stores changes.
        expire: see `Store.expire`.
        clock: seconds since 1970.
    """

    def __init__(
        self,
        run: str,
        kept: Iterable[Approval],
        seconds: float,
        parking: Parking,
        keep: Callable[..., Awaitable[None]],
        expire: Callable[[CallKey, Decision], Awaitable[Approval]],
        clock: Callable[[], float],
    ) -> None:
        self._run = run
        self._seconds = seconds
        self._parking = parking
        self._keep = keep
        self._expire = expire
        self._clock = clock
        self._asked = {approval.call: approval for approval in kept}

    async def ask(self, call: CallUnderWay, arguments: dict[str, Any]) -> Allow | Deny:
        """See `CallJournal.ask`."""
        key, digest = key_of(call), schema_digest(call.tool)
        while True:
            asked = self._asked.get(key)
            said = None if asked is None else asked.decision
            now = self._clock()
            if asked is None or (asked.schema_digest != digest and (said is None or said.granted)):
                self._asked[key] = asked = Approval(
                    run=self._run, call=key, tool=call.tool.name, arguments=arguments_text(arguments),
                    schema_digest=digest, asked=now, expires=now + self._seconds,
                )  # fmt: skip
                await self._keep(stored_call(key, call, "waiting", "[]"), asked)
            elif said is not None:
                if not said.granted:
                    return Deny(said.reason or "", said.by)
                return Allow(None if said.arguments is None else json.loads(said.arguments), said.by)
            elif asked.expires <= now:
                self._asked[key] = await self._expire(key, Decision(granted=False, by="", reason=_EXPIRED, time=now))
            if self._asked[key] is asked:
                with anyio.move_on_after(asked.expires - self._clock()):  # other calls may keep the run from its sleep
                    await self._parking.park(key, Parked(call.name, arguments, "approval", asked.expires))

    def answered(self, approvals: Iterable[Approval]) -> None:
        """Let the calls go on about which somebody has decided."""
        for approval in approvals:
            if approval.decision is not None:
                self._asked[approval.call] = approval
                self._parking.wake(approval.call)
