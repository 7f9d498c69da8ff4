"""Durable runs for the operator and for clients: start, look, wait, decide, settle, cancel. Runs nothing itself.

Ids cannot be guessed. A run may belong to a client or a conversation, to which the runs of others do not exist:
`Runs.of`. `by` is what the caller says; nobody has checked it.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from callgate.durable.store import ENDED, Approval, Decision, RunStatus, Store, StoredRun
from callgate.errors import ConfigurationError, LimitReached, RunNotFound, ToolError
from callgate.runtime.gate.earlier import ForRepair
from callgate.runtime.result import CodeResult

from .handle import Run
from .host import RunsHost
from .journal import OnUnknown
from .live import Beside, result_of
from .pending import PendingCall, call_name, open_questions, pending_calls, unsettled_calls
from .recorded import records_of, settled
from .starting import WEEK_SECONDS, json_text, must_be_the_same, new_run

if TYPE_CHECKING:
    from callgate.limits import Limits

__all__ = ["PendingCall", "Run", "Runs"]

_UNENDED: Final[tuple[RunStatus, ...]] = ("running", "waiting", "needs_attention")
_MISSING: Any = object()


class Runs:
    """The durable runs of a runtime: `Runtime.runs`.

    Args:
        host: has them.
        belongs_to: the client or conversation whose runs alone are seen; None for all.
    """

    def __init__(self, host: RunsHost, belongs_to: str | None = None) -> None:
        self._host = host
        self._belongs_to = belongs_to

    def of(self, belongs_to: str) -> Runs:
        """The runs of one client or conversation; those of others do not exist there."""
        return Runs(self._host, belongs_to)

    async def start(
        self,
        given: str | Mapping[str, Any],
        *,
        inputs: Mapping[str, Any] | None = None,
        files: Mapping[str, Any] | None = None,
        key: str | None = None,
        tools: Sequence[str] | None = None,
        limits: Limits | None = None,
        on_unknown: OnUnknown = "attention",
        approval_seconds: float = WEEK_SECONDS,
        asks_later: bool = False,
        beside: Beside | None = None,
        most: tuple[int, int] | None = None,
    ) -> Run[Any]:
        """See `Runtime.start`.

        Args:
            asks_later: whether approvals wait in `pending`, also where the runtime has a function to ask.
            beside: what the run has in this process alone.
            most: runs of this client or conversation that go on, and that have not ended.

        Raises:
            LimitReached: there would be more than `most`.
        """
        await self._host.open()
        row = await new_run(
            self._host, given, inputs=inputs, files=files, key=key, tools=tools, limits=limits,
            on_unknown=on_unknown, approval_seconds=approval_seconds, asks_later=asks_later,
            belongs_to=self._belongs_to or "",
        )  # fmt: skip
        async with self._host.starts:
            if most is not None:
                counts = [await self._host.store.count(status=each, belongs_to=self._belongs_to) for each in _UNENDED]
                for used, allowed in zip((counts[0], sum(counts)), most, strict=True):
                    if used >= allowed:
                        raise LimitReached("max_background_runs", allowed, used)
            kept = await self._host.add(row, beside, lambda known: must_be_the_same(known, row))
        return Run(self._host, kept)

    async def get(self, run: str) -> Run[Any]:
        """The run of that id. Raises `RunNotFound`."""
        return Run(self._host, await self._find(run))

    async def named(self, key: str) -> Run[Any] | None:
        """The run with that key; None if there is none."""
        row = await (await self._store()).find_key(key, self._belongs_to or "")
        return None if row is None else Run(self._host, row)

    async def list(
        self, *, status: RunStatus | None = None, most: int = 100, before: str | None = None
    ) -> Sequence[Run[Any]]:
        """Runs, the newest first.

        Args:
            status: only those.
            most: at most this number.
            before: the id of the last run of the page before.
        """
        store = await self._store()
        rows = await store.list(status=status, belongs_to=self._belongs_to, most=most, before=before)
        return [Run(self._host, row) for row in rows]

    async def unended(self) -> Sequence[Run[Any]]:
        """Runs that have not ended, those that go on first; at most 100 of each status."""
        return [run for status in _UNENDED for run in await self.list(status=status)]

    async def pending(self, *, run: str | None = None, most: int = 100) -> Sequence[PendingCall]:
        """Calls that wait for an approval, the oldest first: of all runs, or of one. Raises `RunNotFound`."""
        store = await self._store()
        if run is None:
            asked = await store.pending(belongs_to=self._belongs_to, most=most)
        else:
            await self._find(run)
            asked = open_questions(await store.load(run), time.time())[:most]
        return pending_calls(asked)

    async def unsettled(self, run: str) -> Sequence[PendingCall]:
        """Calls of a run that were at work when its process ended, for `settle`. Raises `RunNotFound`."""
        await self._find(run)
        return unsettled_calls(await self._host.store.load(run))

    async def approve(self, run: str, call: str, *, by: str = "", arguments: Mapping[str, Any] | None = None) -> None:
        """Let a call be made.

        Args:
            run: id of its run.
            call: see `PendingCall.call`.
            by: who says so, as the caller claims.
            arguments: instead of the program's.

        Raises:
            RunNotFound: there is no such run or call.
            AlreadyDecided: somebody was faster, or the question has expired.
            InvalidArguments: the tool does not take these arguments.
        """
        asked = await self._approval(run, call)
        tool = self._host.runtime.registry.get(asked.tool) if asked.tool in self._host.runtime.registry else None
        if arguments is not None and tool is not None:
            tool.validate(json.loads(json_text(arguments, "the arguments")))
        given = None if arguments is None else json_text(arguments, "the arguments")
        await self._decide(asked, Decision(granted=True, by=by, arguments=given, time=time.time()))

    async def deny(self, run: str, call: str, *, by: str = "", reason: str = "") -> None:
        """Refuse a call: it raises `ApprovalDenied` in the program. Takes and raises what `approve` does."""
        asked = await self._approval(run, call)
        await self._decide(asked, Decision(granted=False, by=by, reason=reason, time=time.time()))

    async def settle(
        self, run: str, call: str, *, happened: Any = _MISSING, again: bool = False, fail: str | None = None
    ) -> None:
        """Say what became of a call that was at work when its process ended. The run then goes on.

        Args:
            run: id of its run.
            call: see `PendingCall.call`.
            happened: the call was done, with this result.
            again: the call was not done, and is to be made.
            fail: the call fails in the program, with these words.

        Raises:
            ConfigurationError: not exactly one of the three is given.
            RunNotFound: there is no such run or call.
            AlreadyDecided: somebody was faster.
        """
        if (happened is not _MISSING) + bool(again) + (fail is not None) != 1:
            raise ConfigurationError("settle takes one of happened=result, again=True and fail='why'")
        await self._find(run)
        calls = (await self._host.store.load(run)).calls
        known = next((each for each in calls if call_name(each.key) == call), None)
        if known is None:
            raise RunNotFound(f"run {run!r} has no call {call!r}: list them again")
        outcome: str | ToolError | None = None
        if fail is not None:
            outcome = ToolError(fail, tool=known.tool)
        elif not again:
            outcome = json_text(happened, "the result")
        await self._host.store.settle(run, settled(known, outcome))
        self._host.poke()

    async def resume(self, run: str, beside: Beside | None = None) -> Run[Any]:
        """Go on with a run that sleeps or needs attention, now. Raises `RunNotFound`.

        Args:
            run: its id.
            beside: what it has in this process alone.
        """
        row = await self._find(run)
        if beside is not None and row.status not in ENDED:
            self._host.beside[run] = beside
        self._host.resume(run)
        return Run(self._host, row)

    async def cancel(self, run: str) -> None:
        """End a run. Calls that are under way are cancelled, as by the cancellation of any other run.

        Raises:
            RunNotFound: there is no such run.
            AlreadyDecided: it has ended, or is about to.
        """
        await self._find(run)
        await self._host.cancel(run)

    async def prune(self, *, ended_before: float) -> int:
        """Delete the runs that ended before that time, in seconds since 1970. Returns their number."""
        return await (await self._store()).prune(ended_before=ended_before)

    async def _to_correct(self, run: str) -> CodeResult:
        """The result of a program that has ended, for `execute_code(after=...)`. What it has read is old.

        Raises:
            RunNotFound: there is no such run.
            ConfigurationError: it has not ended.
        """
        row = await self._find(run)
        if row.status not in ENDED:
            raise ConfigurationError(f"run {run} has not ended, it is {row.status}: wait for its end, or stop it")
        result = await result_of(row.result or "{}")
        if not isinstance(result, CodeResult):
            raise ConfigurationError(f"run {run} is that of a plan: a plan has no calls to reuse")
        calls, texts = records_of((await self._host.store.load(run)).calls, row.kind)
        return replace(result, calls=calls, for_repair=ForRepair(-math.inf, texts, has_effects=True))

    async def _store(self) -> Store:
        await self._host.open()
        return self._host.store

    async def _find(self, run: str) -> StoredRun:
        await self._host.open()
        row = await self._host.store.find(run)
        if self._belongs_to is not None and row.belongs_to != self._belongs_to:
            raise RunNotFound(f"there is no run {run!r}: it was deleted, or the id is wrong")
        return row

    async def _approval(self, run: str, call: str) -> Approval:
        await self._find(run)
        for asked in (await self._host.store.load(run)).approvals:
            if call_name(asked.call) == call:
                return asked
        raise RunNotFound(f"run {run!r} asks for no approval of a call {call!r}: list them again")

    async def _decide(self, asked: Approval, decision: Decision) -> None:
        await self._host.store.decide(asked.run, asked.call, decision)
        self._host.poke()
