"""The fast path: which programs take it, the results of their runs, and how the sandbox continues in doubt."""

from __future__ import annotations

import ast
import json
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

from callgate.artifacts import Artifact
from callgate.errors import LimitReached, SandboxError
from callgate.plan.expressions import Budget
from callgate.program.graph.compile import MOST_SOURCE_BYTES, compile_program
from callgate.program.graph.flow import For, operations_of
from callgate.program.graph.reasons import NotAGraph
from callgate.program.graph.walking.tracing import trace
from callgate.runtime.print_marks import after
from callgate.runtime.result import NO_SANDBOX, CodeResult, RunError, RunUsage
from callgate.runtime.run import CodeRun, Looks, host_error, left_under_way, program_error
from callgate_guest.wire import FINAL_ANSWER

from .answering import answer_of, give_answer
from .drive import GraphDrive
from .early import EarlyReads
from .journal import Journal, OneCall, split
from .walker import WALK_BYTES, WALK_STEPS, GraphProgram, Prints, TellOnce

__all__ = ["Found", "execute", "look", "look_at_once"]

NOT_RUN: Final = "none: the program was not run"
_REQUEST_BYTES: Final = 1024
"""Upper bound on the bytes of the `execute` request without source, tools and inputs."""

Found = GraphProgram | list[NotAGraph]
"""A program that is a graph, or the reasons why it is not."""
InSandbox = Callable[[CodeRun], Awaitable[CodeResult]]
"""Runs a program in a guest of its own."""


async def look(run: CodeRun, looks: Looks) -> Found:
    """Find out whether a program is a graph; the result comes from the cache if it is there."""
    if reasons := _too_large(run):
        return reasons
    key = GraphProgram, run.offer, run.code, frozenset(run.known)
    return await looks.look(run.code, partial(_look, run), key)


def look_at_once(run: CodeRun) -> Found:
    """Find out whether a program is a graph, without a cache and without waiting."""
    return _too_large(run) or _look(run)


async def execute(
    run: CodeRun,
    found: Found,
    under_way: set[GraphDrive],
    in_sandbox: InSandbox | None,
    why: str,
    early: EarlyReads | None = None,
) -> CodeResult | None:
    """Run a program on the host, if it is a graph.

    Args:
        run: the program.
        found: result of `look`.
        under_way: receives the drive of the run for as long as the run lasts.
        in_sandbox: runs the program in a guest if the fast path is unsure; None if no guest may.
        why: the reason why no guest may, for the error's message.
        early: has the calls that began while the program was written.

    Returns:
        The result; None if the program is not a graph and `in_sandbox` can run it.
    """
    begun = [] if early is None else early.finish(run.code)
    if not isinstance(found, GraphProgram):
        if in_sandbox is None:
            return _not_a_graph(run, found, why)
        if early is None or not run.gate.records:
            return None
        return await _go_on(run, begun, early.lost, in_sandbox, run.limits.wall_seconds)
    run.gate.begin()
    inputs = json.loads(run.inputs)
    drive = GraphDrive(run, found, inputs, goes_on=in_sandbox is not None, early=begun)
    under_way.add(drive)
    try:
        await drive.run()
        if found.answer_line is not None:
            await give_answer(drive, found.answer_line, run.limits.wall_seconds - run.gate.seconds())
    finally:
        under_way.discard(drive)
        drive.gone.set()
    lost = [] if early is None else early.lost
    if drive.walker.unsure is not None and drive.failure is None and in_sandbox is not None:
        left = run.limits.wall_seconds - run.gate.seconds()
        if left > 0:
            return await _go_on(run, drive.calls, lost, in_sandbox, left, drive.walker.prints)
        drive.fail(LimitReached("wall_seconds", run.limits.wall_seconds))
    if early is not None:
        await early.close()
    return _result(drive, lost, inputs, run.gate.seconds(), why)


def _too_large(run: CodeRun) -> list[NotAGraph] | None:
    """The reason why a program is too large to be looked at; the sandbox refuses what is too large for it."""
    size = len(run.code.encode("utf-8", "surrogatepass"))
    most = min(MOST_SOURCE_BYTES, run.limits.max_source_bytes)
    if size > most:
        return [NotAGraph(1, "the program", f"it has {size} bytes, more than {most}, and was not looked at")]
    if size * 6 + len(run.inputs) + len(run.offer.wire) + _REQUEST_BYTES > run.limits.max_message_bytes:
        return [NotAGraph(1, "the program", "with its tools and inputs it comes near max_message_bytes")]
    return None


def _look(run: CodeRun) -> Found:
    tree, run.tree = run.tree, None
    line: int | None = None
    if run.given is not None and FINAL_ANSWER in run.code:
        tree = ast.parse(run.code.removeprefix("\ufeff")) if tree is None else tree
        line = answer_of(tree)
    flow = compile_program(run.code, run.offer.graph_tools, inputs=run.names, tree=tree)
    if isinstance(flow, list):
        return flow
    early = any(site.early for site in flow.sites)
    again = len(flow.sites) > 1 or any(isinstance(operation, For) for operation in operations_of(flow.body))
    return GraphProgram(run.code, flow, early and again, line)


def _result(drive: GraphDrive, lost: Sequence[OneCall], inputs: dict[str, Any], wall: float, why: str) -> CodeResult:
    """The result of a walk that has ended and that the sandbox does not continue."""
    run, walker = drive.code_run, drive.walker
    error: RunError | None = None
    if drive.failure is not None:
        error = host_error(drive.failure, wall)
    elif walker.unsure is not None:
        line = walker.unsure.line
        error = RunError("NotAGraph", f"line {line}: {walker.unsure.reason}{why}", line)
    elif (failed := walker.failed) is not None:
        place = {"line": failed.line, "traceback": failed.traceback, "tool": failed.tool}
        error = program_error({"kind": failed.kind, "message": failed.message, **place}, run.limits, None)
    calls, speculative = split([*drive.calls, *lost], run.gate)
    done = walker.done if error is None else None

    plans: list[dict[str, Any] | None] = []

    def plan() -> dict[str, Any] | None:
        if not plans:
            results = {call.place: call.text for call in drive.calls if call.reached is not None and call.text}
            plans.append(trace(drive.program.flow, inputs, Budget(steps=WALK_STEPS, bytes=WALK_BYTES), results))
        return plans[0]

    return CodeResult(
        ok=error is None,
        value=done.value if done and drive.program.answer_line is None else None,
        value_repr=done.value_repr if done else None,
        logs=walker.prints.logs,
        error=error,
        notes=[] if drive.cut_off is None else [left_under_way(*drive.cut_off)],
        findings=run.findings,
        calls=calls,
        artifacts=_artifacts_used(run, [*drive.calls, *lost]),
        speculative=speculative,
        path="plan",
        plan_of_calls=plan,
        sandbox=NO_SANDBOX,
        usage=RunUsage(wall_seconds=wall, tool_calls=len(run.gate.records)),
        truncated=("logs",) if error is not None and error.limit == "max_log_bytes" else (),
        source=run.kept_source,
        inputs=run.kept_inputs,
        prints=walker.prints.marks.all,
        limits=run.limits,
        final_answer=run.answer if error is None else None,
    )


def _artifacts_used(run: CodeRun, calls: Sequence[OneCall], taken: Collection[int] = ()) -> list[Artifact]:
    """The artifacts of the run, except those of early calls that the program did not use."""
    made = run.products.artifacts
    if not made:
        return made
    texts: dict[bool, list[str]] = {True: [], False: []}
    for call in calls:
        texts[call.reached is not None or call.record + 1 in taken].append(call.text or "")
    used, unused = "\n".join(texts[True]), "\n".join(texts[False])
    return [each for each in made if each.handle in used or each.handle not in unused]


async def _go_on(
    run: CodeRun,
    calls: Sequence[OneCall],
    lost: Sequence[OneCall],
    in_sandbox: InSandbox,
    left: float,
    printed: Prints | None = None,
) -> CodeResult:
    """Run the program in the sandbox, where earlier calls are answered from the journal.

    Args:
        run: the program.
        calls: the earlier calls.
        lost: earlier calls that answer nothing.
        in_sandbox: see `execute`.
        left: seconds of `wall_seconds`.
        printed: what a walk has printed; None if there was no walk.
    """
    if run.gate.journal is not None:  # the gate answers the earlier calls
        return await in_sandbox(replace(run, limits=run.limits.replace(wall_seconds=left)))
    logs = "" if printed is None else printed.logs
    journal = Journal(calls, run.gate)
    run.gate.begin_anew(journal.answered, journal.cancelled)
    listener = None if run.on_event is None else TellOnce(run.on_event, logs)
    try:
        result = await in_sandbox(replace(run, limits=run.limits.replace(wall_seconds=left), on_event=listener))
    except SandboxError as failure:
        if printed is None or not run.gate.records:
            raise
        # calls were made, so the caller gets their records, as of any run that fails in the middle
        result = replace(run.stopped(RunError(type(failure).__name__, str(failure))), logs=logs)
    wall = run.gate.seconds()
    error = result.error
    if error is not None and error.limit == "wall_seconds":
        error = host_error(LimitReached("wall_seconds", run.limits.wall_seconds), wall)
    own, speculative = split([*calls, *lost], run.gate, journal.made)
    usage = replace(result.usage, wall_seconds=wall, tool_calls=len(run.gate.records))
    prints = result.prints if printed is None else after(printed.marks.all, result.prints, len(logs))
    return replace(
        result, error=error, calls=own, speculative=speculative, usage=usage, prints=prints, limits=run.limits,
        artifacts=_artifacts_used(run, [*calls, *lost], journal.made),
    )  # fmt: skip


def _not_a_graph(run: CodeRun, reasons: list[NotAGraph], why: str) -> CodeResult:
    more = f" (and {len(reasons) - 1} more)" if len(reasons) > 1 else ""
    error = RunError("NotAGraph", f"{reasons[0]}{more}{why}", reasons[0].line)
    return replace(run.stopped(error), path="plan", sandbox=NOT_RUN)
