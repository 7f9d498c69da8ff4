"""The process that is killed: ``python -m durable.kill.workload FOLDER PROGRAM``.

Takes up the program's run in ``FOLDER/runs.db``, and writes what the run says at its end to ``FOLDER/told.json``. Ends
with 0 when the run has ended, and where ``KILL_LEAVE`` is set with 3 when the run waits for somebody: at once where it
is ``hard``, in order where it is ``soft``. The environment has the rest:

    KILL_FOLDER, KILL_AT, KILL_SIGNAL, KILL_STOPS_AT    see `world`
    KILL_BREAK              see `broken`
    KILL_LOOP               ``asyncio`` or ``trio``
    KILL_CLOCK              seconds by which the clock of this process is wrong
    KILL_FILE_BYTES         no file may grow beyond that
    KILL_TOOLS              ``changed``: `refund` has another schema; ``gone``: there is no `refund`
    KILL_RESUME             resume the run, although nobody has decided anything
    KILL_BRIEF              have the zygote for few guests, which starts sooner
    KILL_LEASE              seconds of the lease of the run
    KILL_STOPS_IN           number of the transaction in which this process stops: see `hanging`
"""

from __future__ import annotations

import dataclasses
import json
import os
import resource
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import anyio

from callgate import Limits, Runtime, Tool
from callgate.durable.sqlite import SqliteStore
from callgate.durable.store import Store
from callgate.errors import StoreFailed
from callgate.runtime.plans.result import PlanResult
from callgate.runtime.result import CodeResult
from callgate.sandbox import launching
from durable.kill.broken import watched
from durable.kill.hanging import stops_in_a_transaction
from durable.kill.judging import Told
from durable.kill.programs import PROGRAMS
from durable.kill.world import TOOLS, changed_refund, points

__all__ = ["STORE_FAILED", "WAITS", "carry_on", "told_by"]

STORE_FAILED = 4
"""Exit code of a process that cannot go on with its run."""

WAITS = 3
"""Exit code of a process whose run waits for somebody."""


def told_by(result: CodeResult | PlanResult) -> Told:
    """What a result says, in the form that is held against the ledger."""
    facts: list[tuple[str, dict[str, Any], str]] = []
    logs = ""
    if isinstance(result, CodeResult):
        facts, logs = [tuple(fact) for fact in result.value or ()], result.logs
    else:
        for step in result.steps:
            if step.status == "succeeded" and step.tool != "close":
                tool = step.fallback or step.tool
                several = step.items is not None
                answers = step.result if several else [step.result]
                given = step.arguments if several else [step.arguments]
                facts += [(tool, each, answer["ticket"]) for each, answer in zip(given, answers, strict=True)]
    error = None if result.error is None else f"{result.error.kind}: {result.error.message}"
    return Told(result.ok, error, facts, logs, [(call.tool, call.status) for call in result.calls])


def _tools() -> list[Tool]:
    change = os.environ.get("KILL_TOOLS", "")
    left = [each for each in TOOLS if not change or each.name != "refund"]
    return [*left, changed_refund] if change == "changed" else left


async def main(folder: Path, name: str) -> int:
    program = PROGRAMS[name]
    synchronous = "OFF" if os.environ.get("KILL_BREAK") == "unsynced" else "FULL"
    store = watched(SqliteStore(folder / "runs.db", _synchronous=synchronous))
    limits, sandbox = Limits(wall_seconds=30), "auto" if program.path in ("both paths", "guest") else None
    told = None
    async with Runtime(_tools(), durable=store, limits=limits, sandbox=sandbox, pool_size=1) as runtime:
        print("open", flush=True)
        run = await runtime.start(program.given, key=name, **program.options)
        if os.environ.get("KILL_RESUME"):
            await runtime.runs.resume(run.id)
        async with anyio.create_task_group() as tasks:
            if os.environ.get("KILL_LEAVE"):
                tasks.start_soon(_leave_when_it_waits, store, run.id, tasks.cancel_scope)
            failed = None
            try:
                told = told_by(await run.wait())
            except StoreFailed as error:
                failed = error
            tasks.cancel_scope.cancel()
        if failed is not None:
            raise failed
    if told is None:
        return WAITS
    text = json.dumps({**dataclasses.asdict(told), "points": points.passed})
    (folder / "told.part").write_text(text)
    (folder / "told.part").rename(folder / "told.json")
    return 0


async def _leave_when_it_waits(store: Store, run: str, scope: anyio.CancelScope) -> None:
    """Leave when the run waits for somebody who has not decided yet."""
    while True:
        await anyio.sleep(0.01)
        due = await store.due(time.time())
        if (await store.find(run)).status in ("waiting", "needs_attention") and run not in due:
            break
    if os.environ["KILL_LEAVE"] == "hard":
        os._exit(WAITS)
    scope.cancel()


def carry_on(folder: Path, name: str) -> int:
    """Carry the program's run on, in this process. Returns the exit code."""
    points.begin()
    if wrong := float(os.environ.get("KILL_CLOCK", "0")):
        right = time.time
        time.time = lambda: right() + wrong
    if most := int(os.environ.get("KILL_FILE_BYTES", "0")):
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
    if os.environ.get("KILL_BRIEF"):
        launching._launch = partial(launching._launch, brief=True)
    if number := int(os.environ.get("KILL_STOPS_IN", "0")):
        stops_in_a_transaction(number)
    try:
        return anyio.run(main, folder, name, backend=os.environ.get("KILL_LOOP", "asyncio"))
    except StoreFailed as error:
        print(error, file=sys.stderr, flush=True)
        return STORE_FAILED


if __name__ == "__main__":
    sys.exit(carry_on(Path(sys.argv[1]), sys.argv[2]))
