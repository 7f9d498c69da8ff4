"""Runs that are kept in a file, for commands: opens the file, and goes on with one run to its end.

A command goes on with the runs that it was told, and with no others: those may need other tools.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from callgate import Event, Printed, Redaction, Runtime
from callgate.durable.sqlite import SqliteStore
from callgate.durable.store import ENDED
from callgate.errors import AlreadyDecided, LimitReached, RunNotFound, StoreFailed
from callgate.runtime.durable.host import RunsHost
from callgate.runtime.durable.live import Beside
from callgate.runtime.durable.runs import Run, Runs

from .options import Source
from .words import Exit, Stop, one_line, say

if TYPE_CHECKING:
    from callgate import CodeResult, PlanResult

__all__ = ["finish", "found", "opened", "refusals_told", "start_and_finish"]


@contextlib.asynccontextmanager
async def opened(options: Mapping[str, Any], runtime: Runtime) -> AsyncIterator[tuple[Runs, SqliteStore]]:
    """The runs in the file of ``--durable``, and its store.

    Args:
        options: of the command.
        runtime: an open one, that goes on with runs.
    """
    store = SqliteStore(options["durable"], encryption_key=options["encryption_key"])
    host = RunsHost(runtime, store, serves=False)
    await host.open()
    try:
        yield Runs(host), store
    finally:
        await host.close()


@contextlib.contextmanager
def refusals_told(options: Mapping[str, Any]) -> Iterator[None]:
    """Raise what a store refuses as a `Stop`, with what to do."""
    command = f"callgate runs --durable {options['durable']}"
    try:
        yield
    except RunNotFound as error:
        raise Stop(str(error), f"`{command} list` lists what there is") from None
    except AlreadyDecided as error:
        raise Stop(str(error), f"nothing was changed; `{command} show ID` shows what holds", Exit.FAILED) from None
    except StoreFailed as error:
        tip = "an encrypted file needs its --encryption-key-file" if "encrypted" in str(error) else "name another file"
        raise Stop(str(error), tip, Exit.FAILED) from None
    except LimitReached as error:
        raise Stop(str(error), "shorten it", Exit.LIMIT) from None


async def found(runs: Runs, name: str) -> Run[Any]:
    """The run with this id or key. Raises `RunNotFound`."""
    try:
        return await runs.get(name)
    except RunNotFound:
        named = await runs.named(name)
        if named is None:
            raise
        return named


async def start_and_finish(
    runtime: Runtime,
    source: Source,
    inputs: Mapping[str, Any],
    tools: list[str] | None,
    options: Mapping[str, Any],
    tell: Callable[[Event], None],
) -> CodeResult:
    """Run the program of ``callgate run --durable`` to its end; or go on with the run that has its key."""
    async with opened(options, runtime) as (runs, _):
        run = await runs.start(
            source.code, inputs=inputs, files=options["file"], key=options["key"], tools=tools, beside=Beside(tell)
        )
        result: CodeResult = await _result(runs, run, options, tell)
        return result


async def finish(
    runtime: Runtime, name: str, options: Mapping[str, Any], tell: Callable[[Event], None]
) -> CodeResult | PlanResult:
    """Go on with the run of that id or key to its end."""
    async with opened(options, runtime) as (runs, _):
        run = await found(runs, name)
        resumed = await runs.resume(run.id, Beside(tell))
        result: CodeResult | PlanResult = await _result(runs, resumed, options, tell)
        return result


async def _result(runs: Runs, run: Run[Any], options: Mapping[str, Any], tell: Callable[[Event], None]) -> Any:
    if run.status not in ENDED:
        return await _to_the_end(runs, run, options)
    say(f"run {run.id} had ended before: this is its result", "dim")
    result = await run.wait()
    if getattr(result, "logs", ""):
        tell(Printed(result.logs))
    if result.artifacts:
        say(f"its files went with the process that made them: {len(result.artifacts)}", "dim")
    return replace(result, artifacts=[])


async def _to_the_end(runs: Runs, run: Run[Any], options: Mapping[str, Any]) -> Any:
    """Wait for the result of a run; say what it waits for while it sleeps, and what to do about it."""
    command = f"callgate runs --durable {options['durable']}"
    while (result := await run.rest()) is None:
        say(f"run {run.id}: {one_line(Redaction().run().text(run.reason or run.status))}", "yellow")
        say(f"  look:    {command} show {run.id}")
        goes_on = "in another terminal; then the run goes on here. Ctrl-C leaves it as it is, for later."
        if run.status == "waiting" and not await runs.pending(run=run.id, most=1):
            goes_on = "it goes on by itself here. Ctrl-C leaves it as it is, for later."
        elif run.status != "needs_attention":
            say(f"  decide:  {command} approve {run.id}    or    {command} deny {run.id}")
        elif await runs.unsettled(run.id):
            say(f"  settle:  {command} settle {run.id}    with one of --happened JSON, --again, --fail TEXT")
        else:
            say(f"  mend it, then:  {command} resume {run.id}    with the tools of the run: --tools FILE")
            goes_on = "in another terminal, or here after Ctrl-C, which leaves the run as it is."
        say(goes_on)
    return result
