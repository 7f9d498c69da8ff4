"""The fast path of one runtime: which programs take it, what comes of them, and how the sandbox goes on in doubt."""

from __future__ import annotations

import functools
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any

import anyio

from callgate.errors import LimitReached, SandboxError
from callgate.plan.expressions import Budget
from callgate.program.graph.reasons import NotAGraph
from callgate.program.graph.walking.tracing import trace
from callgate.runtime.code_runs import CodeRun, host_error, left_under_way, program_error
from callgate.runtime.result import NO_SANDBOX, CodeResult, RunError, RunUsage

from .calls import split
from .compilation import Compilation
from .drive import GraphDrive
from .journal import Journal
from .looking import GraphProgram, GraphPrograms
from .prints import Prints, TellOnce
from .walker import WALK_BYTES, WALK_STEPS

__all__ = ["FastPath"]

NOT_RUN = "none: the program was not run"
InSandbox = Callable[[CodeRun], Awaitable[CodeResult]]
"""Runs a program in a guest of its own."""


class FastPath:
    """Runs what is certain to be a graph of tool calls, on the host."""

    def __init__(self) -> None:
        self.programs = GraphPrograms()
        self._under_way: set[GraphDrive] = set()
        self._gone = anyio.Event()

    async def execute(self, run: CodeRun, in_sandbox: InSandbox | None, *, why: str = "") -> CodeResult | None:
        """Run a program, if it is a graph.

        Args:
            run: the program.
            in_sandbox: who goes on where the fast path is not sure. None: nobody.
            why: why nobody does, for the message.

        Returns:
            What came of it; None where it is no graph, and somebody else can run it.

        Raises:
            ConfigurationError: an input is no JSON.
        """
        started = time.perf_counter()
        found, inputs = await self.programs.look(run)
        if not isinstance(found, GraphProgram):
            return _not_a_graph(run, found, why) if in_sandbox is None else None
        prints = Prints(run.limits, run.on_event)
        drive = GraphDrive(found, inputs, run.gate, run.limits, prints, goes_on=in_sandbox is not None)
        self._under_way.add(drive)
        try:
            await drive.run()
        finally:
            self._under_way.discard(drive)
            if not self._under_way:
                self._gone.set()
        ended = _Ended(run, found, inputs, drive, prints, started, why)
        if drive.walker.unsure is None or drive.failure is not None or in_sandbox is None:
            return ended.result()
        return await ended.go_on(in_sandbox)

    def compile(self, run: CodeRun) -> Compilation:
        """What it would make of a program. Raises `ConfigurationError`."""
        return Compilation(run, *self.programs.look_at_once(run))

    async def close(self) -> None:
        """End what is under way, and return when it has ended."""
        with anyio.CancelScope(shield=True):
            while self._under_way:
                self._gone = anyio.Event()
                for drive in list(self._under_way):
                    drive.close()
                await self._gone.wait()


@dataclass(slots=True)
class _Ended:
    """A walk that is over, and what becomes of it."""

    run: CodeRun
    program: GraphProgram
    inputs: dict[str, Any]
    """As the walk had them; tools may have changed what the caller gave."""
    drive: GraphDrive
    prints: Prints
    started: float
    why: str
    """Why no sandbox goes on."""

    def result(self) -> CodeResult:
        """It has come to its end."""
        run, drive = self.run, self.drive
        wall = time.perf_counter() - self.started
        error: RunError | None = None
        if drive.failure is not None:
            error = host_error(drive.failure, wall)
        elif drive.walker.unsure is not None:
            line = drive.walker.unsure.line
            error = RunError("NotAGraph", f"line {line}: {drive.walker.unsure.reason}{self.why}", line)
        elif drive.walker.failed is not None:
            failed = drive.walker.failed
            place = {"line": failed.line, "traceback": failed.traceback, "tool": failed.tool}
            error = program_error({"kind": failed.kind, "message": failed.message, **place}, run.limits, None)
        calls, speculative = split(drive.calls, run.gate.records)
        done = drive.walker.done if error is None else None
        return CodeResult(
            ok=error is None,
            value=done.value if done else None,
            value_repr=done.value_repr if done else None,
            logs=self.prints.logs,
            error=error,
            notes=[] if drive.cut_off is None else [left_under_way(*drive.cut_off)],
            findings=run.findings,
            calls=calls,
            speculative=speculative,
            path="plan",
            plan_of_calls=functools.cache(self._plan),
            sandbox=NO_SANDBOX,
            usage=RunUsage(wall_seconds=wall, tool_calls=len(run.gate.records)),
            truncated=("logs",) if error is not None and error.limit == "max_log_bytes" else (),
        )

    def _plan(self) -> dict[str, Any] | None:
        results = {call.place: call.text for call in self.drive.calls if call.reached is not None and call.text}
        budget = Budget(steps=WALK_STEPS, bytes=WALK_BYTES)
        return trace(self.program.flow, self.inputs, budget, results)

    async def go_on(self, in_sandbox: InSandbox) -> CodeResult:
        """The program begins anew in the sandbox, where the calls that were made are answered from what they gave."""
        run, limits = self.run, self.run.limits
        left = limits.wall_seconds - (time.perf_counter() - self.started)
        if left <= 0:
            self.drive.fail(LimitReached("wall_seconds", limits.wall_seconds))
            return self.result()
        journal = Journal(self.drive.calls, run.gate.records)
        run.gate.begin_anew(journal.answered, journal.given_up)
        listener = None if run.on_event is None else TellOnce(run.on_event, self.prints.logs)
        again = replace(run, inputs=self.inputs, limits=limits.replace(wall_seconds=left), on_event=listener)
        try:
            result = await in_sandbox(again)
        except SandboxError as failure:
            if not run.gate.records:
                raise
            # what was called cannot be called back: it is told, as of any run that fails in the middle
            result = CodeResult(ok=False, logs=self.prints.logs, error=RunError(type(failure).__name__, str(failure)))
        wall = time.perf_counter() - self.started
        error = result.error
        if error is not None and error.limit == "wall_seconds":
            error = host_error(LimitReached("wall_seconds", limits.wall_seconds), wall)
        calls, speculative = split(self.drive.calls, run.gate.records, journal.made)
        usage = replace(result.usage, wall_seconds=wall, tool_calls=len(run.gate.records))
        return replace(result, error=error, calls=calls, speculative=speculative, usage=usage)


def _not_a_graph(run: CodeRun, reasons: list[NotAGraph], why: str) -> CodeResult:
    more = f" (and {len(reasons) - 1} more)" if len(reasons) > 1 else ""
    error = RunError("NotAGraph", f"{reasons[0]}{more}{why}", reasons[0].line)
    return CodeResult(ok=False, error=error, findings=run.findings, path="plan", sandbox=NOT_RUN)
