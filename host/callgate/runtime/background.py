"""Runs of a model that go on without it: begun, waited for and stopped by calls of the model, each in words for it.

1. A run belongs to an owner, a conversation or a client; to all others it does not exist. Of an owner's runs, at most
   `MOST_RUNS` go on when another one is started, and `MOST_UNENDED` have not ended. Runs of `EVERYBODY` are found by
   their ids alone, which cannot be guessed.
2. A wait is a call like any other: the limits' `wall_seconds` bound it. It ends early when the run comes to rest; if
   the run rests already, when that changes.
3. Where the caller can ask somebody (`ModelCall.approve`), calls that need an approval wait in the list of pending
   ones, and a caller that waits for the run asks. `Deny` without `by` is no answer: the call stays in the list.
4. Runs in memory end with their owner; durable ones go on.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import anyio

from callgate.cut import cut_middle, duration
from callgate.durable.store import ENDED
from callgate.errors import AlreadyDecided, InvalidArguments, LimitReached, RunNotFound, StoreFailed, ToolError

from .answer import Answer
from .answers import EVERYBODY
from .durable.live import Beside, Result
from .durable.runs import PendingCall, Run
from .gate.approval import Allow, ApprovalRequest, Approve, Deny, answer_of
from .model.meta import WAIT_SECONDS, MetaTool
from .plans.result import PlanResult
from .result import CodeResult, RunError

if TYPE_CHECKING:
    from .answers import ModelCall
    from .runtime import Runtime

__all__ = ["MOST_RUNS", "MOST_UNENDED", "answer_background", "end_runs", "result_of_run"]

logger = logging.getLogger("callgate")

MOST_RUNS: Final = 8
"""Of one owner that go on; each may hold a guest."""
MOST_UNENDED: Final = 100
"""Of one owner that go on or sleep; a sleeping one costs a question that somebody has to answer."""
_SHARES: Final = 8
"""`EVERYBODY` may have as many runs as this number of owners."""
_MOST_REASON: Final = 600


async def answer_background(
    runtime: Runtime, name: MetaTool, arguments: Mapping[str, Any], call: ModelCall
) -> Answer | Result:
    """Answer a call of ``start_code``, ``wait_run`` or ``stop_run``; with its result if the run has ended.

    Raises:
        ToolError: the model reads it.
    """
    try:
        return await _answered(runtime, name, arguments, call)
    except StoreFailed:
        logger.exception("%s of the owner %s failed", name, call.owner)
        raise ToolError("the run cannot be kept or read now; the log of its operator says why", tool=name) from None


async def _answered(runtime: Runtime, name: MetaTool, arguments: Mapping[str, Any], call: ModelCall) -> Answer | Result:
    runs = runtime.runs.of(call.owner)
    if name == "start_code":
        run = await _begun(runtime, arguments["code"], call, Beside(shelf=runtime._shelf), MOST_RUNS)
        text = f'Run "{run.id}" has begun in the background. wait_run gives its result, stop_run ends it.'
        return _answer(name, run, text)
    given = arguments["run"]
    try:
        run = await runs.get(given)
    except RunNotFound:
        words = f"you have no run {given[:60]!r}: start_code begins one, and its answer has the id"
        raise ToolError(words, tool=name) from None
    if name == "wait_run":
        limits = call.limits or runtime.limits
        seconds = min(arguments.get("seconds", WAIT_SECONDS), limits.wall_seconds)
        result = await _rested(runtime, run, call.approve, seconds)
        if result is not None:
            return result
        run = await runs.get(run.id)
        return _answer(name, run, await _words(runtime, run))
    if run.status in ENDED:
        return _answer(name, run, f'Run "{run.id}" has ended before: wait_run gives its result.')
    await run.stop()
    return _answer(name, run, f'Run "{run.id}" is being stopped. What it has done stays done.')


async def result_of_run(runtime: Runtime, given: str | Mapping[str, Any], call: ModelCall) -> Result:
    """Run a program or a plan as a run of `Runtime.start` until it ends or sleeps; it is stopped with this call.

    A run that sleeps has a result all the same, whose error says what it waits for and how to go on.
    """
    beside = Beside(call.on_event, shelf=runtime._shelf)
    run = await _begun(runtime, given, call, beside, MOST_UNENDED)
    try:
        result = await _rested(runtime, run, call.approve, None)
        beside.on_event = None  # a run that sleeps outlives its listener
    except anyio.get_cancelled_exc_class():
        with anyio.CancelScope(shield=True):
            await run.stop()
        raise
    if result is not None:
        return result
    error = RunError("NotEnded", await _words(runtime, await runtime.runs.of(call.owner).get(run.id)))
    return CodeResult(ok=False, error=error) if isinstance(given, str) else PlanResult(ok=False, error=error)


async def end_runs(runtime: Runtime, owner: str) -> None:
    """End what an owner leaves behind in memory. Durable runs go on."""
    if runtime._durable is None and runtime.open_in is not None:
        with anyio.CancelScope(shield=True):
            for run in await runtime.runs.of(owner).unended():
                await run.stop()


async def _begun(
    runtime: Runtime, given: str | Mapping[str, Any], call: ModelCall, beside: Beside, most_running: int
) -> Run[Any]:
    runs = runtime.runs.of(call.owner)
    tools = None if call.tools is None else list(call.tools)
    shared = call.owner == EVERYBODY
    share = _SHARES if shared else 1
    most = most_running * share, MOST_UNENDED * share
    try:
        return await runs.start(
            given, tools=tools, limits=call.limits, asks_later=call.approve is not None, beside=beside, most=most
        )
    except LimitReached as reached:
        if reached.limit != "max_background_runs":
            raise
        own = ", ".join(run.id for run in (await runs.unended())[:MOST_RUNS])
        then = "try again later" if shared else f"wait_run for one of them, or stop_run it: {own}"
        raise ToolError(f"{reached.allowed} runs have not ended, which is all there may be; {then}") from None


async def _rested(runtime: Runtime, run: Run[Any], approve: Approve | None, seconds: float | None) -> Result | None:
    """Wait for the result; None if the run rests, or the time is over.

    Args:
        runtime: has the run.
        run: the run.
        approve: asked about the calls for which it waits. The time that the answer takes does not count.
        seconds: longest wait; None waits until the run rests.
    """
    left, may_rest = math.inf if seconds is None else seconds, seconds is None or run.status == "running"
    while True:
        began, result = anyio.current_time(), None
        with anyio.move_on_after(left) as scope:
            result = await run.rest()
        left -= anyio.current_time() - began
        if result is not None or scope.cancelled_caught:
            return result
        decided = approve is not None and await _decided(runtime, run, approve)
        if not decided and may_rest:
            return None
        may_rest = True


async def _decided(runtime: Runtime, run: Run[Any], approve: Approve) -> bool:
    """Ask about the calls for which a run waits, all at the same time. Returns whether one was decided."""
    runs, decided = runtime.runs, False
    answers: list[tuple[PendingCall, Allow | Deny]] = []

    async def ask(call: PendingCall) -> None:
        request = ApprovalRequest(runtime.registry.get(call.tool), call.arguments, run.kind, 0)
        answers.append((call, await answer_of(approve, request, f"tool {call.tool!r}")))

    async with anyio.create_task_group() as tasks:
        for call in await runs.pending(run=run.id):
            if call.tool in runtime.registry:
                tasks.start_soon(ask, call)
    for call, answer in answers:
        try:
            if isinstance(answer, Allow):
                await runs.approve(run.id, call.call, by=answer.by, arguments=answer.arguments)
            elif answer.by:
                await runs.deny(run.id, call.call, by=answer.by, reason=answer.reason)
            else:
                continue
        except InvalidArguments as error:
            logger.error("the arguments of an approval do not fit, so the call still waits: %s", error)
            continue
        except AlreadyDecided:  # somebody else was faster
            pass
        decided = True
    return decided


def _answer(name: MetaTool, run: Run[Any], text: str) -> Answer:
    value: dict[str, Any] = {"run": run.id, "status": run.status}
    if (progress := run.progress) is not None:
        value["tool_calls"] = progress.calls
    return Answer(name=name, text=text, value=value, bare=True)


async def _words(runtime: Runtime, run: Run[Any]) -> str:
    """How far a run is that has not ended, and what it waits for."""
    reason = cut_middle(run.reason or "", _MOST_REASON)
    if run.status == "waiting" and not await runtime.runs.pending(run=run.id, most=1):
        return f'Run "{run.id}" {reason}. It continues by itself, and wait_run gives its result.'
    if run.status == "waiting":
        text = f'Run "{run.id}" {reason}. A person decides'
        if isinstance(runtime._durable, (str, Path)):
            text += f", for example with `callgate runs --durable {Path(runtime._durable).name} approve {run.id}`"
        return f"{text}. Tell the user. After the decision the run continues by itself, and wait_run gives its result."
    if run.status == "needs_attention":
        return f'Run "{run.id}" cannot go on until its operator has looked after it: {reason}.'
    text = f'Run "{run.id}" is still running, started {duration(max(time.time() - run.created, 0.0))} ago'
    progress = run.progress
    if progress is None:
        return f"{text}."
    printed = f"\nIt printed last:\n{progress.printed}" if progress.printed else ""
    return f"{text}; {progress.calls} tool call{' has' if progress.calls == 1 else 's have'} ended so far.{printed}"
