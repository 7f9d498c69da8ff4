"""Durable runs without ``await``."""

from __future__ import annotations

import time

from callgate import SyncRun, SyncRuntime, tool
from callgate.durable.memory import MemoryStore


@tool(requires_approval=True)
def pay(n: int) -> int:
    return n


def becomes(run: SyncRun[object], runtime: SyncRuntime, status: str) -> None:
    end = time.monotonic() + 20
    while runtime.runs.get(run.id).status != status:
        assert time.monotonic() < end
        time.sleep(0.01)


def test_a_run_is_started_approved_and_waited_for() -> None:
    with SyncRuntime([pay], sandbox=None, durable=MemoryStore()) as runtime:
        run = runtime.start("await pay(n=3)", key="one")
        becomes(run, runtime, "waiting")
        (call,) = runtime.runs.pending()
        runtime.runs.approve(call.run, call.call, by="ada")
        assert run.wait().value == 3
        assert (run.status, run.key, run.kind) == ("succeeded", "one", "code")
        assert [each.id for each in runtime.runs.list()] == [run.id]
        assert runtime.runs.of("bob").list() == []
        run.stop()
        assert runtime.runs.prune(ended_before=time.time() + 1) == 1
