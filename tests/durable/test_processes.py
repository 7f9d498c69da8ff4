"""A file of runs among processes: some that want one run, one that hangs, one that is killed, one whose disk is full;
and a file whose last write was cut off.

Run as a program this file is such a process: `python test_processes.py HOW PATH [SEED]`.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from callgate.durable.sqlite import SqliteStore
from callgate.durable.store import Held, RunHistory, StateChange
from callgate.errors import OwnershipLost, RunNotFound, StoreFailed
from durable.stored import NOW, answered, call, event, run, started

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

ROUNDS = 60
KILLS = 100
AWAITED_EACH = 7
CUT_EACH = 5
"""Distance of the cuts in the file's last write; near its end and its pages' edges, every byte is one."""


def process(how: str, path: Path, *more: str) -> subprocess.Popen[str]:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    return subprocess.Popen(
        [sys.executable, __file__, how, str(path), *more],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    )


def line_of(child: subprocess.Popen[str]) -> str:
    assert child.stdout is not None
    return child.stdout.readline().strip()


def say(child: subprocess.Popen[str], line: str) -> None:
    assert child.stdin is not None
    child.stdin.write(line + "\n")
    child.stdin.flush()


def end(child: subprocess.Popen[str], number: signal.Signals = signal.SIGKILL) -> None:
    with child:
        child.send_signal(number)


def sound(path: Path) -> None:
    connection = sqlite3.connect(path)
    try:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    finally:
        connection.close()


async def history(path: Path, name: str = "a") -> RunHistory:
    sound(path)
    store = SqliteStore(path)
    async with store.opened():
        return await store.load(name)


async def test_two_processes_that_want_one_run_have_it_in_turns(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"  # which they make at once, too
    children = [process("fight", path) for _ in range(3)]
    for child in children:
        assert line_of(child) == "ready"
    for child in children:
        say(child, "go")
    for child in children:
        assert line_of(child) == f"{ROUNDS} times"
        with child:
            pass
    stored = await history(path)
    assert len(stored.events) == 3 * ROUNDS  # `load` finds each gap
    assert stored.run.epoch == 3 * ROUNDS


async def test_a_run_of_a_killed_process_is_taken_at_once(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    child = process("hold", path)
    assert line_of(child) == "held"
    store = SqliteStore(path)
    async with store.opened():
        assert await store.take("a") is None
        assert list(await store.due(NOW)) == []
        end(child)
        assert list(await store.due(NOW)) == ["a"]
        assert await store.take("a") == Held("a", 2)


async def test_a_process_that_hangs_loses_its_runs_and_hears_of_it_when_it_goes_on(tmp_path: Path) -> None:
    path, seconds = tmp_path / "runs.db", [0.0]
    child = process("hold", path)
    assert line_of(child) == "held"
    store = SqliteStore(path, _monotonic=lambda: seconds[0])
    async with store.opened():
        child.send_signal(signal.SIGSTOP)
        assert await store.take("a") is None
        seconds[0] = 31.0
        held = await store.take("a")
        assert held == Held("a", 2)
        await store.write(held, call(1))
        child.send_signal(signal.SIGCONT)
        say(child, "write")
        assert line_of(child) == "lost"
        assert (await store.load("a")).calls == (call(1),)
    end(child)


async def test_an_owner_hears_of_what_another_process_decided(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    child = process("hold", path)
    assert line_of(child) == "held"
    store = SqliteStore(path)
    async with store.opened():
        await store.cancel("a")
    say(child, "decided")
    assert line_of(child) == "['a']"
    end(child)


@pytest.mark.campaign
async def test_what_a_killed_writer_leaves_is_a_beginning_with_all_that_was_awaited(
    tmp_path: Path, time_of_campaign: int
) -> None:
    with process("kill", tmp_path / "runs.db", str(time_of_campaign)) as child:
        assert line_of(child) == f"{KILLS} kills"


@pytest.fixture
def time_of_campaign() -> int:
    """Which time it is, where `make soak` repeats the campaign."""
    return 0


def check_beginning(stored: RunHistory, awaited: int) -> None:
    """Every call was written as started, then with its event, and nothing else."""
    answers = len(stored.events)
    assert answers >= awaited
    assert stored.events == tuple(event(n, n) for n in range(1, answers + 1))
    done = tuple(call(n) for n in range(1, answers + 1))
    assert stored.calls in (done, (*done, call(answers + 1, "started")))


async def test_a_file_cut_at_any_byte_of_its_last_write_has_the_state_before_or_after(tmp_path: Path) -> None:
    path, copy = tmp_path / "runs.db", tmp_path / "copy.db"
    wal = tmp_path / "runs.db-wal"
    store = SqliteStore(path)
    async with store.opened():
        held = await started(store, "a")
        await answered(store, held, 3)
        before = wal.stat().st_size
        await store.write(held, call(4), event(4, 4), call(5, "started"))
        whole, database = wal.read_bytes(), path.read_bytes()
    assert len(whole) > before + 4096
    edges = {size for size in range(before, len(whole) + 1) if (size - 32) % 4120 in (0, 1, 23, 24, 25, 4119)}
    cuts = sorted(edges | {*range(before, len(whole), CUT_EACH)} | {*range(len(whole) - 500, len(whole) + 1)})
    states = []
    for size in cuts:
        copy.write_bytes(database)
        (tmp_path / "copy.db-wal").write_bytes(whole[:size])
        states.append(state(copy))
        for left in ("copy.db-wal", "copy.db-shm"):
            (tmp_path / left).unlink(missing_ok=True)
    change = states.index((5, 4))
    assert states[:change] == [(3, 3)] * change
    assert states[change:] == [(5, 4)] * (len(states) - change)
    assert change == len(states) - 1  # the last byte counts


def state(path: Path) -> tuple[int, int]:
    connection = sqlite3.connect(path)
    try:
        connection.execute("PRAGMA synchronous = OFF")  # it is a copy
        (calls,) = connection.execute("SELECT count(*) FROM calls").fetchone()
        (events,) = connection.execute("SELECT count(*) FROM events").fetchone()
        return calls, events
    finally:
        connection.close()


@pytest.mark.parametrize("cut", [0, 1, 40, 4000])
async def test_a_cut_file_is_opened_and_goes_on(tmp_path: Path, cut: int) -> None:
    path, copy = tmp_path / "runs.db", tmp_path / "copy.db"
    store = SqliteStore(path)
    async with store.opened():
        held = await started(store, "a")
        await answered(store, held, 3)
        await store.write(held, call(4), event(4, 4))
        shutil.copy(path, copy)
        written = (tmp_path / "runs.db-wal").read_bytes()
        (tmp_path / "copy.db-wal").write_bytes(written[: len(written) - cut])
    again = SqliteStore(copy)
    async with again.opened():
        stored = await again.load("a")
        assert len(stored.events) == len(stored.calls) == (3 if cut else 4)
        await again.add(run("b"))
    sound(copy)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 1 MiB."""
    mounted = tmp_path / "small"
    mounted.mkdir()
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", mounted], capture_output=True, check=False)
    if made.returncode:
        pytest.skip(f"no small disk can be mounted here: {made.stderr.decode().strip()}")
    yield mounted
    subprocess.run(["umount", mounted], check=True)


async def test_a_full_disk_is_told_and_the_file_is_fine_when_there_is_room(small_disk: Path) -> None:
    path = small_disk / "runs.db"
    store = SqliteStore(path)
    async with store.opened():
        held, other = await started(store, "a"), await started(store, "b")
        await answered(store, held, 3)
        ballast = small_disk / "ballast"
        ballast.write_bytes(b"x" * (os.statvfs(small_disk).f_bavail * os.statvfs(small_disk).f_bsize - 8192))
        with pytest.raises(StoreFailed, match=r"the disk is full: make room; what was stored before is safe"):
            await store.write(held, call(4, outcome="x" * 100_000), event(4, 4))
        with pytest.raises(StoreFailed, match="an earlier change of this run was not stored"):
            await store.write(held, call(5))
        assert len((await store.load("a")).calls) == 3
        ballast.unlink()
        await store.write(other, call(1))  # of other runs nothing was lost
        assert list(await store.due(NOW)) == ["a"]
        again = await store.take("a")
        assert again is not None
        await store.write(again, call(4, outcome="x" * 100_000), event(4, 4))
        assert len((await store.load("a")).calls) == 4
    sound(path)


async def test_a_limit_of_file_sizes_is_told(tmp_path: Path) -> None:
    child = process("small", tmp_path / "runs.db")
    assert "cannot be used: " in line_of(child)
    end(child, signal.SIGTERM)
    sound(tmp_path / "runs.db")


# the processes


async def fight(path: str) -> None:
    store = SqliteStore(path)
    async with store.opened():
        print("ready", flush=True)
        sys.stdin.readline()
        for _ in range(ROUNDS):
            held = await once(store)
            stored = await store.load("a")
            await store.write(held, event(len(stored.events) + 1))
            await store.write(held, StateChange("running", released=True))
        print(f"{ROUNDS} times", flush=True)


async def once(store: SqliteStore) -> Held:
    while True:
        try:
            if (held := await store.take("a")) is not None:
                return held
        except RunNotFound:
            await store.add(run("a", key="a"))


async def hold(path: str) -> None:
    store = SqliteStore(path)
    async with store.opened():
        held = await started(store, "a")
        print("held", flush=True)
        for line in iter(sys.stdin.readline, ""):
            if line == "decided\n":
                print(await store.decided(), flush=True)
                continue
            try:
                await store.write(held, call(2))
                print("written", flush=True)
            except OwnershipLost:
                print("lost", flush=True)


def kill(path: str, seed: str) -> None:
    """Kill writers at random moments, and look at what each has left."""
    chance = random.Random(seed)
    for _ in range(KILLS):
        Path(path).unlink(missing_ok=True)
        reading, writing = os.pipe()
        child = os.fork()
        if not child:
            anyio.run(hurry, path, writing)
        os.close(writing)
        with open(reading, encoding="utf-8") as lines:
            told = [lines.readline() for _ in range(chance.randrange(1, 40))]
            time.sleep(chance.random() * 0.003)  # waits for nothing: this is the moment of its end
            os.kill(child, signal.SIGKILL)
            told += lines.readlines()
        os.waitpid(child, 0)
        stored = anyio.run(history, Path(path))
        check_beginning(stored, int(told[-1]))
    print(f"{KILLS} kills", flush=True)


async def hurry(path: str, told: int) -> None:
    store = SqliteStore(path)
    async with store.opened():
        held = await started(store, "a")
        n = 0
        while True:
            n += 1
            store.write(held, call(n, "started"))
            written = store.write(held, call(n), event(n, n))
            if n % AWAITED_EACH == 0:
                await written
                os.write(told, b"%d\n" % n)


async def small(path: str) -> None:
    import resource

    store = SqliteStore(path)
    async with store.opened():
        held = await started(store, "a")
        resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))
        try:
            for n in range(1, 100):
                await store.write(held, call(n, outcome="x" * 20_000))
        except StoreFailed as error:
            print(error, flush=True)


if __name__ == "__main__":
    how, path, *more = sys.argv[1:]
    if how == "kill":
        kill(path, *more)
    else:
        anyio.run({"fight": fight, "hold": hold, "small": small}[how], path)
