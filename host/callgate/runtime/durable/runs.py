"""Durable runs for the operator and for clients: start, look, wait, decide, settle, cancel. Runs nothing itself.

Ids cannot be guessed. A run may belong to a client or a conversation, to which the runs of others do not exist:
`Runs.of`. `by` is what the caller says; nobody has checked it.
"""

from __future__ import annotations

import base64
import json
import math
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, cast

import anyio.to_thread

from callgate.durable.store import (
    ENDED,
    Approval,
    CallKey,
    Decision,
    RunHistory,
    RunStatus,
    Store,
    StoredCall,
    StoredRun,
)
from callgate.errors import AlreadyDecided, ConfigurationError, LimitReached, RunNotFound, ToolError
from callgate.runtime.gate.earlier import ForRepair
from callgate.runtime.result import CodeResult, members

from .host import RunsHost
from .journal import OnUnknown
from .live import Beside, Progress, result_of
from .recorded import error_text, records_of

if TYPE_CHECKING:
    from callgate.limits import Limits

__all__ = ["PendingCall", "Run", "Runs", "call_name", "open_questions", "pending_calls"]

_WEEK: Final = 7 * 24 * 3600.0
_MAX_FILES_BYTES: Final = 11 * 1024 * 1024
"""Bytes of all files of one run, which the store keeps as text."""
_UNENDED: Final[tuple[RunStatus, ...]] = ("running", "waiting", "needs_attention")
_DIGITS: Final = 32
"""Of a call's digest. A program must not find two calls of one name, so that somebody approves the wrong one."""
_MISSING: Any = object()


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingCall:
    """A call that waits for a person: for an approval, or for the word whether it was done."""

    run: str
    call: str
    """Names the call within its run: for `Runs.approve`, `Runs.deny` and `Runs.settle`."""
    tool: str
    arguments: dict[str, Any]
    asked: float | None = None
    """Seconds since 1970; None for a call whose outcome is unknown."""
    expires: float | None = None
    """After this time, the answer is no."""


R = TypeVar("R")


class Run(Generic[R]):
    """One durable run, whose result is a `CodeResult` or a `PlanResult`. `status` and the like are as they were when
    this was made, or when `wait` returned."""

    def __init__(self, host: RunsHost, row: StoredRun) -> None:
        self._host = host
        self._row = row
        self._rested: StoredRun | None = None

    def __repr__(self) -> str:
        return f"Run({self.id!r}, {self.status!r})"

    @property
    def id(self) -> str:
        return self._row.id

    @property
    def key(self) -> str | None:
        """The caller's own name of the run."""
        return self._row.key

    @property
    def kind(self) -> str:
        """``code`` or ``plan``."""
        return self._row.kind

    @property
    def status(self) -> RunStatus:
        """``running``, ``waiting``, ``needs_attention``, ``succeeded``, ``failed`` or ``cancelled``."""
        return self._row.status

    @property
    def reason(self) -> str | None:
        """Why it waits, needs attention or failed."""
        return self._row.reason

    @property
    def created(self) -> float:
        """Seconds since 1970."""
        return self._row.created

    @property
    def changed(self) -> float:
        """Seconds since 1970."""
        return self._row.changed

    async def wait(self) -> R:
        """Wait for the end, also through days of sleep, and return the result.

        Raises:
            StoreFailed: this process cannot go on with the run.
        """
        while (result := await self.rest()) is None:
            pass
        return result

    async def rest(self) -> R | None:
        """Wait until it has ended, and return its result; or until it sleeps or needs attention, and return None. Asked
        again, wait until that has changed.

        Raises:
            StoreFailed: as for `wait`.
        """
        self._row, result = await self._host.rested(self.id, self._rested)
        self._rested = self._row
        if result is None:
            return None
        runtime = self._host.runtime  # which has the bytes of files, if the run ended in this process
        artifacts = [runtime.artifacts.get(each.handle) or each for each in result.artifacts]
        return cast(R, replace(result, redactor=runtime.redactor, artifacts=artifacts))

    @property
    def progress(self) -> Progress | None:
        """How far it is, if it goes on in this process."""
        return self._host.progress(self.id)

    async def stop(self) -> None:
        """See `Runs.cancel`; a run that has ended stays as it is."""
        try:
            await Runs(self._host).cancel(self.id)
        except AlreadyDecided:
            return


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
        approval_seconds: float = _WEEK,
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
        runtime = self._host.runtime
        if on_unknown not in ("attention", "raise"):
            raise ConfigurationError(f'on_unknown is "attention" or "raise", not {on_unknown!r}')
        if not 0 < approval_seconds < float("inf"):
            raise ConfigurationError(f"approval_seconds must be above 0 and finite, not {approval_seconds!r}")
        if key is not None and not 0 < len(key) <= 200:
            raise ConfigurationError("key is a text of 1 to 200 characters, or None")
        is_plan = isinstance(given, Mapping)
        if is_plan:
            if inputs or files:
                raise ConfigurationError("inputs and files are for programs; a plan has its values in its text")
            offer = runtime._plan(tools, limits).gate.offer
            text = _json(given, "the plan")
            stored_inputs = None
        else:
            run, _ = runtime._new_run(cast(str, given), inputs=inputs, tools=tools, limits=limits, files=files)
            offer, text, stored_inputs = run.offer, run.code, json.loads(run.inputs)
        options = {
            "inputs": stored_inputs,
            "files": await anyio.to_thread.run_sync(_read, {} if is_plan else run.files) if files else {},
            "tools": None if tools is None else sorted(tools),
            "limits": None if limits is None else members(limits),
            "on_unknown": on_unknown,
            "approval_seconds": approval_seconds,
            "asks_later": asks_later,
            "offered": [name for name in offer.by_name if name in text],
        }
        now = time.time()
        row = StoredRun(
            id=f"run_{secrets.token_urlsafe(18)}", key=key, belongs_to=self._belongs_to or "",
            kind="plan" if is_plan else "code", text=text, options=json.dumps(options),
            environment=self._host.environment(),
            seed=secrets.token_bytes(32), created=now, changed=now,
        )  # fmt: skip
        async with self._host.starts:
            if most is not None:
                counts = [await self._host.store.count(status=each, belongs_to=self._belongs_to) for each in _UNENDED]
                for used, allowed in zip((counts[0], sum(counts)), most, strict=True):
                    if used >= allowed:
                        raise LimitReached("max_background_runs", allowed, used)
            kept = await self._host.add(row, beside, lambda known: _must_be_the_same(known, row))
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
        return [
            PendingCall(run=run, call=call_name(call.key), tool=call.tool, arguments=json.loads(call.arguments))
            for call in (await self._host.store.load(run)).calls
            if call.status == "unknown"
        ]

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
            tool.validate(json.loads(_json(arguments, "the arguments")))
        given = None if arguments is None else _json(arguments, "the arguments")
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
        await self._host.store.settle(run, _settled(known, happened, again, fail))
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
        await self._host.store.cancel(run)
        self._host.poke()

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


def pending_calls(asked: Sequence[Approval]) -> list[PendingCall]:
    """Approvals as people see them."""
    return [
        PendingCall(
            run=each.run, call=call_name(each.call), tool=each.tool, arguments=json.loads(each.arguments),
            asked=each.asked, expires=each.expires,
        )
        for each in asked
    ]  # fmt: skip


def open_questions(history: RunHistory, now: float) -> list[Approval]:
    """The approvals of a run that nobody has decided and that have not expired."""
    if history.run.status in ENDED:
        return []
    return [each for each in history.approvals if each.decision is None and each.expires > now]


def call_name(call: CallKey) -> str:
    """The name of a call within its run, for people."""
    return f"{call.digest.hex()[:_DIGITS]}-{call.occurrence}"


def _json(value: Any, what: str) -> str:
    try:
        return json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise ConfigurationError(f"{what} must be JSON: {error}") from None


def _read(files: Mapping[str, Any]) -> dict[str, str]:
    """The contents of files, as text. Raises `ConfigurationError` if they are too large."""
    texts: dict[str, str] = {}
    total = 0
    for name, content in files.items():
        data = content if isinstance(content, bytes) else content.read_bytes()
        total += len(data)
        if total > _MAX_FILES_BYTES:
            raise ConfigurationError(
                f"files: a durable run keeps copies of its files, {_MAX_FILES_BYTES:,} bytes in all, and {name!r} is "
                "beyond that: put it into a folder, Runtime(folders=...)"
            )
        texts[name] = base64.b64encode(data).decode()
    return texts


def _must_be_the_same(known: StoredRun, new: StoredRun) -> None:
    """Raise `ConfigurationError` if a key was used for something else."""
    before, now = json.loads(known.options), json.loads(new.options)
    other = [f"other {name}" for name in ("inputs", "files") if before[name] != now[name]]
    if (known.kind, known.text) != (new.kind, new.text):
        other.insert(0, "another text")
    if other:
        raise ConfigurationError(
            f"the key {new.key!r} is that of run {known.id}, which has {other[0]}: a key stands for one job; "
            "use another key"
        )


def _settled(call: StoredCall, happened: Any, again: bool, fail: str | None) -> StoredCall:
    if again:
        return replace(call, status="waiting")
    if fail is not None:
        outcome, status = error_text(ToolError(fail, tool=call.tool)), "failed"
    else:
        outcome, status = _json(happened, "the result"), "done"
    record = {"status": "succeeded" if status == "done" else "failed", "attempts": 1, "error": fail}
    record["result"] = outcome[:4096] if status == "done" else None
    return replace(call, status=status, outcome=outcome, record=json.dumps([record]))  # type: ignore[arg-type]
