"""Who owns a run when processes end, hang or live elsewhere, and when clocks jump."""

from __future__ import annotations

import os
import sqlite3
import time
from pathlib import Path

import anyio
import pytest

from callgate.durable.ownership import Owner
from callgate.durable.sqlite import SqliteStore
from callgate.durable.store import Held, StateChange
from callgate.errors import OwnershipLost
from durable.stored import NOW, call, event, run, started

pytestmark = pytest.mark.anyio

DAY = 86_400.0
ELSEWHERE = "another-boot/pid:[1] 17 4711 0123456789abcdef"


class Clock:
    """A clock that moves when a test says so."""

    def __init__(self, now: float = NOW) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def owners(path: Path) -> list[tuple[str, int]]:
    connection = sqlite3.connect(path)
    try:
        return connection.execute("SELECT id, beat FROM owners").fetchall()
    finally:
        connection.close()


def execute(path: Path, statement: str, *values: object) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute(statement, values)
    connection.close()


def move_owner(path: Path, owner: str) -> None:
    """Let the one owner in the file be another one."""
    execute(path, "UPDATE owners SET id = ?", owner)
    execute(path, "UPDATE runs SET owner = ?", owner)


async def test_a_store_of_this_process_holds_its_runs_until_it_closes(tmp_path: Path) -> None:
    hours = Clock()
    first, second = SqliteStore(tmp_path / "runs.db"), SqliteStore(tmp_path / "runs.db", _monotonic=hours)
    async with second.opened():
        async with first.opened():
            held = await started(first, "a")
            for _ in range(3):
                assert await second.take("a") is None
                assert list(await second.due(NOW + DAY)) == []
                hours.now += DAY
            await first.write(held, event(1))
        assert list(await second.due(NOW)) == ["a"]
        assert await second.take("a") == Held("a", 2)
        assert [name.split()[1] for name, _ in owners(tmp_path / "runs.db")] == [str(os.getpid())]


async def test_an_owner_elsewhere_loses_its_runs_when_it_does_not_beat_for_a_lease(tmp_path: Path) -> None:
    path, seconds = tmp_path / "runs.db", Clock(0.0)
    lost, store = SqliteStore(path), SqliteStore(path, _monotonic=seconds)
    async with lost.opened(), store.opened():
        held = await started(lost, "a")
        move_owner(path, ELSEWHERE)
        assert await store.take("a") is None  # which begins to watch it
        seconds.now = 29.0
        assert list(await store.due(NOW)) == []
        execute(path, "UPDATE owners SET beat = beat + 1")
        seconds.now = 31.0
        assert await store.take("a") is None
        seconds.now = 60.0
        assert list(await store.due(NOW)) == []
        seconds.now = 61.0
        assert list(await store.due(NOW)) == ["a"]
        assert await store.take("a") == Held("a", 2)
        assert ELSEWHERE not in dict(owners(path))  # it held nothing else
        with pytest.raises(OwnershipLost):
            await lost.write(held, call(1))
        await store.write(Held("a", 2), call(2))
        assert (await store.load("a")).calls == (call(2),)


@pytest.mark.parametrize("jump", [DAY, -DAY])
async def test_a_clock_that_jumps_takes_no_run_from_anybody(tmp_path: Path, jump: float) -> None:
    path, clock, seconds = tmp_path / "runs.db", Clock(), Clock(0.0)
    first = SqliteStore(path, _clock=clock)
    second = SqliteStore(path, _clock=clock, _monotonic=seconds)
    async with first.opened(), second.opened():
        held = await started(first, "a")
        elsewhere = await started(first, "b")
        execute(path, "INSERT INTO owners SELECT ?, beat, lease_seconds, seen FROM owners", ELSEWHERE)
        execute(path, "UPDATE runs SET owner = ? WHERE id = 'b'", ELSEWHERE)
        await second.due(clock.now)
        clock.now += jump
        seconds.now = 29.0
        for name in ("a", "b"):
            assert await second.take(name) is None
        assert list(await second.due(clock.now)) == []
        await first.write(held, event(1))
        seconds.now = 31.0  # a lease later by a clock that does not jump
        assert list(await second.due(clock.now)) == ["b"]
        assert await second.take("b") == Held("b", 2)
        with pytest.raises(OwnershipLost):
            await first.write(elsewhere, event(1))
        await first.write(held, StateChange("succeeded"))


@pytest.mark.parametrize("takes", [True, False])
async def test_an_owner_beats_while_it_holds_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, takes: bool) -> None:
    path = tmp_path / "runs.db"
    if takes:
        monkeypatch.setattr("callgate.durable.sqlite.LEASE_SECONDS", 0.01)
    store = SqliteStore(path)
    async with store.opened():
        assert owners(path) == []
        held = (await store.add(run("a"), takes=takes)).held or await store.take("a", lease_seconds=0.01)
        assert held is not None
        with anyio.fail_after(30):
            while owners(path)[0][1] < 3:
                await store.count()
        await store.write(held, StateChange("waiting", released=True))
        await store.write(await started(store, "b"), StateChange("succeeded"))
        (quiet,) = owners(path)
        for _ in range(100):
            await store.count()
        assert owners(path) == [quiet]
    assert owners(path) == []  # it left


async def test_a_run_that_was_taken_up_is_due_again_when_its_owner_ends(tmp_path: Path) -> None:
    for _ in range(2):
        store = SqliteStore(tmp_path / "runs.db")
        async with store.opened():
            name = (await store.add(run("a", key="a"))).run.id
            held = await store.take(name)
            assert held is not None
            await store.write(held, StateChange("waiting", wake_at=4e9, released=True))
            await store.take(name)
    async with store.opened():
        assert list(await store.due(NOW)) == ["a"]
        assert list(await store.decided()) == []


def test_a_process_that_has_ended_does_not_live_whatever_it_last_said() -> None:
    mine = Owner()
    machine, pid, began, nonce = mine.name.split(" ")
    try:
        assert mine.lives(mine.name, 1, 30)
        assert not mine.lives(f"{machine} {pid} {began} another-store", 1, 30)
        assert not mine.lives(f"{machine} {2**22 + 1} {began} {nonce}", 1, 30)  # no process has that number
        assert not mine.lives(f"{machine} 1 {began} {nonce}", 1, 30)  # process 1 began at another time
        ended = os.spawnlp(os.P_NOWAIT, "true", "true")
        stat = Path(f"/proc/{ended}/stat")
        deadline = time.monotonic() + 30
        while (fields := stat.read_text().rpartition(")")[2].split())[0] != "Z":
            assert time.monotonic() < deadline
        assert not mine.lives(f"{machine} {ended} {fields[19]} {nonce}", 1, 30)  # it waits to be collected
        os.waitpid(ended, 0)
        for unknown in (ELSEWHERE, "", "x", f"{machine} pid began nonce", f"{machine} {10**30} x y"):
            assert mine.lives(unknown, 1, 30)
    finally:
        mine.close()
    assert not mine.lives(mine.name, 1, 30)
