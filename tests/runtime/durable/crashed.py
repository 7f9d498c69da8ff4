"""A store that keeps the order of what was written to it, so that a test can have a run as it was at any moment."""

from __future__ import annotations

from collections.abc import Awaitable

from callgate.durable.memory import MemoryStore
from callgate.durable.store import Change, Held, Kept, StoredRun

__all__ = ["Diary", "as_it_was"]


class Diary(MemoryStore):
    """Keeps one run, and each change of it."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[StoredRun] = []
        self.writes: list[tuple[Change, ...]] = []

    async def add(self, run: StoredRun, *, takes: bool = False) -> Kept:
        self.rows.append(run)
        return await super().add(run, takes=takes)

    def write(self, held: Held, *changes: Change) -> Awaitable[None]:
        self.writes.append(changes)
        return super().write(held, *changes)


async def as_it_was(diary: Diary, writes: int) -> MemoryStore:
    """A store in which the only run of `diary` is as after so many writes, and has no owner."""
    store = Diary()
    (row,) = diary.rows
    await store.add(row)
    held = await store.take(row.id)
    assert held is not None
    for changes in diary.writes[:writes]:
        await MemoryStore.write(store, held, *changes)
    if not store._entries[row.id].ended:
        store._entries[row.id].change(owner=None)
    return store
