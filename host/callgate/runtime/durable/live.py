"""One durable run while this process is at it: from where it was, to its end or its next sleep.

A run ends here in one of these ways, and the store is told which:

    its end           succeeded, failed           its plan or program has ended, or it does something else than before
    asleep            waiting, needs_attention    nothing goes on but calls that wait for a person
    put off           waiting                     no sandbox can be had now
    lacks a tool      needs_attention             a process that has the tool goes on with it
    cancelled         cancelled                   somebody wants it to end
    left              running                     the runtime is being left: another process goes on with it
    lost              (nothing is stored)         the store failed, or another process has the run
"""

from __future__ import annotations

import base64
import copy
import json
import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import anyio

from callgate.artifacts import Shelf
from callgate.durable.store import Held, RunHistory, StateChange, Store
from callgate.errors import ConfigurationError, DurableError, ReplayDiverged, SandboxError
from callgate.lazily import imported
from callgate.limits import Limits
from callgate.runtime.gate.events import CallEnded, Event, Printed
from callgate.runtime.plans.result import PlanResult
from callgate.runtime.replay.environment import differences
from callgate.runtime.result import CodeResult, RunError

from .gate import DurableGate
from .journal import RunJournal
from .others import missing_tools
from .parking import Pause
from .recorded import records_of, result_text

if TYPE_CHECKING:
    from callgate.runtime.runtime import Runtime

__all__ = ["Beside", "LiveRun", "Progress", "Result", "result_of"]

logger = logging.getLogger("callgate")

Result = CodeResult | PlanResult
_AGAIN_SECONDS: Final = 30.0
"""After this time, a run that found no sandbox tries again, and one whose tool is gone does where the tool is."""
_MOST_PRINTED: Final = 500
"""Characters of `Progress.printed`."""
_QUIET_SECONDS: Final = 0.02
"""How long a parked call waits before somebody looks whether anything else goes on."""
_MOST_QUIET_SECONDS: Final = 0.5
_NO_LONGER_FITS: Final = frozenset({"PlanRefused", "CheckFailed", "NotAGraph"})


class _ToolIsGone(Exception):
    """A tool of the run does not exist in this process."""


@dataclass(slots=True)
class Beside:
    """What a run has in the process that started it, and nowhere else."""

    on_event: Callable[[Event], None] | None = None
    """Receives its events, those of a replay excepted."""
    told: int = 0
    """Characters of its prints that `on_event` has received."""
    shelf: Shelf | None = None
    """Where its files and pictures are kept; None for the runtime's own shelf, or a new one of its owner."""


@dataclass(slots=True)
class Progress:
    """How far a run is in this process."""

    calls: int = 0
    """Calls that ended here; those of a replay excepted."""
    printed: str = ""
    """The last of what it printed."""


class LiveRun:
    """One run in this process.

    Args:
        runtime: has the tools and the sandbox.
        store: keeps the run.
        held: the run, which this process has taken.
        history: what is kept of it.
        beside: what it has in this process alone.
        environment: what programs run with now, as JSON.

    Attributes:
        progress: how far it is.
        over: set when this process is done with the run, for now or for good.
        result: of a run that has ended.
        failure: why this process cannot go on with it.
        goes_on: whether somebody has decided about a call of it just before it was put to sleep.
    """

    def __init__(
        self, runtime: Runtime, store: Store, held: Held, history: RunHistory, beside: Beside, environment: str
    ) -> None:
        self.over = anyio.Event()
        self.progress = Progress()
        self._beside = beside
        self._printed = 0
        self.result: Result | None = None
        self.failure: DurableError | None = None
        self.goes_on = False
        self._row = history.run
        self._options: dict[str, Any] = json.loads(history.run.options)
        self._store = store
        self._held = held
        self._continued = held.epoch > 1
        self._cancelled = history.run.cancelled
        self._pause: Pause | None = None
        self._environment = environment
        options, redaction = self._options, runtime.redaction.run(runtime.registry)
        self._journal = RunJournal(
            store, held, history, options["on_unknown"], options["approval_seconds"],
            lambda tool, arguments: redaction.arguments(redaction.tool(tool), arguments),
        )  # fmt: skip
        self._runtime = copy.copy(runtime)
        self._runtime.gate = copy.copy(runtime.gate)
        self._runtime.gate.run_gate = partial(DurableGate, self._journal)
        if self._options["asks_later"]:
            self._runtime.gate.approve = None
        if beside.shelf is not None:
            self._runtime._shelf = beside.shelf
        elif history.run.belongs_to:
            self._runtime._shelf = runtime.artifacts.shelf()

    async def live(self) -> None:
        """Run it until its end or its next sleep. Raises only cancellation."""
        change: StateChange | None = None
        try:
            if not self._cancelled:
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(self._look_after)
                    with self._journal.scope:
                        change = await self._to_the_end()
                    tasks.cancel_scope.cancel()
            await self._store_the_end(change)
        except DurableError as error:
            self.failure, self.result = error, None  # nobody is told what is not stored
        except Exception:
            self.result = None
            await self._broken()
        except anyio.get_cancelled_exc_class():
            with anyio.CancelScope(shield=True):
                await self._released()
            raise
        finally:
            self.over.set()

    def cancel(self) -> None:
        """End the run for good."""
        self._cancelled = True
        self._journal.scope.cancel()

    def leave(self) -> None:
        """The runtime is being left."""
        self._journal.leave()

    async def heard(self) -> None:
        """Somebody has decided about a call of the run, or wants it to end."""
        if (await self._store.find(self._row.id)).cancelled:
            self.cancel()
        else:
            await self._journal.refresh()

    async def _look_after(self) -> None:
        """Put the run to sleep when nothing goes on but parked calls."""
        journal, seconds = self._journal, _QUIET_SECONDS
        while True:
            await journal.parking.has_any.wait()
            await anyio.sleep(seconds)
            seconds = min(2 * seconds, _MOST_QUIET_SECONDS)
            if not journal.rests:
                continue
            try:
                self._pause = journal.pause()
            except ReplayDiverged as diverged:
                journal.fail(diverged)
            journal.scope.cancel()
            return

    async def _to_the_end(self) -> StateChange | None:
        try:
            self._must_have_its_tools()
            result = await self._executed()
            if result.error is None or result.error.limit is None:
                self._journal.check_end()
        except ReplayDiverged as diverged:
            result = await self._failed(RunError("ReplayDiverged", str(diverged)))
        except SandboxError as error:
            reason = f"waits for a sandbox: {error}"
            return StateChange("waiting", reason, self._journal.clock() + _AGAIN_SECONDS, released=True)
        except _ToolIsGone as error:
            again = self._journal.clock() + _AGAIN_SECONDS
            return StateChange("needs_attention", f"{error}; then resume the run", again, released=True)
        except ConfigurationError as error:
            return StateChange("needs_attention", f"{error}; then resume the run", released=True)
        except DurableError as error:
            self._journal.fail(error)
            return None
        if self._continued and result.error is not None and result.error.kind in _NO_LONGER_FITS:
            reason = (
                f"its text does not fit the tools any more ({result.error.message}): mend them, then resume the run"
            )
            return StateChange("needs_attention", reason, released=True)
        if isinstance(result, CodeResult) and self._environment != self._row.environment:
            changed = differences(json.loads(self._row.environment), json.loads(self._environment))
            result.notes.extend(f"the run was continued with something else: {each}" for each in changed)
        return self._ended(result)

    def _must_have_its_tools(self) -> None:
        """Raise `_ToolIsGone` for a tool that was there when the run was started, and that it names."""
        if missing := missing_tools(self._options, self._runtime.gate.registry):
            raise _ToolIsGone(f"the tool {missing[0]!r} does not exist any more: register it again")

    async def _executed(self) -> Result:
        given, text, runtime = self._options, self._row.text, self._runtime
        limits = None if given["limits"] is None else Limits(**given["limits"])
        if self._row.kind == "plan":
            return await runtime.execute_tool_plan(
                json.loads(text), tools=given["tools"], limits=limits, on_event=self._note
            )
        files = {name: base64.b64decode(data) for name, data in given["files"].items()}
        path: Any = "sandbox" if self._journal.was_in_guest else None
        return await runtime.execute_code(
            text, path=path, inputs=given["inputs"], tools=given["tools"], limits=limits, check=not self._continued,
            files=files, on_event=self._note,
        )  # fmt: skip

    def _note(self, event: Event) -> None:
        """Note how far the run is, and tell whoever listens what he has not heard before."""
        beside, heard = self._beside, False
        if self._pause is not None:  # what ends here goes on later
            return
        if isinstance(event, CallEnded):
            self.progress.calls += 1
        elif isinstance(event, Printed):
            self.progress.printed = f"{self.progress.printed}{event.text}"[-_MOST_PRINTED:]
            if not self._journal.was_in_guest:  # a guest that replays is not heard
                self._printed += len(event.text)
                new = self._printed - beside.told
                heard, event = new <= 0, Printed(event.text[-new:])
        if beside.on_event is not None and not heard and (self._journal.is_live or self._journal.was_in_guest):
            beside.told = max(beside.told, self._printed)
            beside.on_event(event)

    async def _store_the_end(self, change: StateChange | None) -> None:
        journal = self._journal
        if isinstance(journal.failure, ReplayDiverged):
            change = self._ended(await self._failed(RunError("ReplayDiverged", str(journal.failure))))
        elif journal.failure is not None:
            raise journal.failure
        elif self._pause is not None:
            change = StateChange(self._pause.status, self._pause.reason, self._pause.wake_at, released=True)
        elif change is None and self._cancelled:
            change = self._ended(await self._failed(RunError("Cancelled", "the run was cancelled")), "cancelled")
        elif change is None:
            change = StateChange("running", released=True)
        with anyio.CancelScope(shield=True):
            await self._store.write(self._held, change)
            if self._pause is not None:
                self.goes_on = self._pause.is_over(await self._store.load(self._row.id))

    async def _broken(self) -> None:
        """An error of callgate's own has ended the run in this process."""
        logger.exception("the durable run %s failed by an error of callgate's own", self._row.id)
        reason = "an error of callgate's own ended it; the log has the details. Resume the run to try again"
        try:
            await self._store.write(self._held, StateChange("needs_attention", reason, released=True))
        except DurableError as error:
            self.failure = error

    async def _released(self) -> None:
        """The runtime is being left: another process may go on."""
        try:
            await self._store.write(self._held, StateChange("running", released=True))
        except DurableError as error:
            self.failure = error

    def _ended(self, result: Result, status: Any = None) -> StateChange:
        self.result = result
        status = status or ("succeeded" if result.ok else "failed")
        reason = None if result.error is None else result.error.message[:1000]
        return StateChange(status, reason, result=result_text(result), released=True)

    async def _failed(self, error: RunError) -> Result:
        """The result of a run that has come to no end of its own."""
        calls, _ = records_of((await self._store.load(self._row.id)).calls, self._row.kind)
        if self._row.kind == "plan":
            return PlanResult(ok=False, error=error, calls=calls)
        return CodeResult(ok=False, error=error, calls=calls, source=self._row.text)


async def result_of(text: str) -> Result:
    """The result of a run that has ended, from the text that is kept. The bytes of its artifacts are not in it."""
    saved = await imported("callgate.runtime.trace.saved")
    result: Result = saved.result_from(json.loads(text))
    return result
