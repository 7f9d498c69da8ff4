"""The people beside the runs, in a process that runs none: they answer approvals, and say what happened."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from callgate.durable.sqlite import SqliteStore
from callgate.durable.store import Decision, Store
from callgate.errors import AlreadyDecided, ToolError
from callgate.runtime.durable.recorded import settled
from durable.kill.world import denied, entries

__all__ = ["People", "people"]


class People:
    """Decides by the world's rules.

    Args:
        folder: of the ledger, which tells them what happened.
        store: of the runs.
        counts: what they said is counted here.
    """

    def __init__(self, folder: Path, store: Store, counts: Counter[str]) -> None:
        self._folder = folder
        self._store = store
        self._counts = counts

    async def decide(self) -> int:
        """Answer everything that waits for somebody. Returns the number of answers."""
        answers = 0
        for asked in await self._store.pending():
            no = denied(json.loads(asked.arguments)["item"])
            said = Decision(granted=not no, by="the harness", reason="not this one" if no else None, time=time.time())
            try:
                await self._store.decide(asked.run, asked.call, said)
            except AlreadyDecided:
                continue
            self._counts["denied" if no else "approved"] += 1
            answers += 1
        for run in await self._store.list(status="needs_attention"):
            for call in (await self._store.load(run.id)).calls:
                if call.status == "unknown":
                    made = [each for each in entries(self._folder) if each.key == call.idempotency_key]
                    self._counts["settled: it happened" if made else "settled: make it again"] += 1
                    outcome: str | ToolError | None = None
                    if made:
                        answer = made[0].answer
                        outcome = ToolError("it broke", tool=call.tool) if answer is None else json.dumps(answer)
                    await self._store.settle(run.id, settled(call, outcome))
                    answers += 1
        return answers

    async def reasons(self) -> list[str]:
        """Why the runs wait that wait."""
        runs = [run for run in await self._store.list() if run.status in ("waiting", "needs_attention")]
        return [f"{run.status}: {run.reason}" for run in runs]


@asynccontextmanager
async def people(folder: Path, counts: Counter[str]) -> AsyncIterator[People]:
    """People who look into the database of `folder`."""
    store = SqliteStore(folder / "runs.db")
    async with store.opened():
        yield People(folder, store, counts)
