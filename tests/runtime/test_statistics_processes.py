"""A statistics file among processes: two that write at once, one that is killed, one whose disk is full.

Run as a program this file is such a process: `python test_statistics_processes.py HOW PATH`.
"""

from __future__ import annotations

import logging
import resource
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest

from callgate.runtime import statistics_file
from callgate.runtime.statistics_file import StatisticsFile
from callgate.tools.statistics import Statistics

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

TOOLS = 100
BATCH = 256


def process(how: str, path: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, __file__, how, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


async def line_of(child: subprocess.Popen[str]) -> str:
    assert child.stdout is not None
    with anyio.fail_after(60):
        return (await anyio.to_thread.run_sync(child.stdout.readline)).strip()


async def end_of(child: subprocess.Popen[str]) -> None:
    with child:
        if child.stdin is not None:
            child.stdin.close()
        assert await anyio.to_thread.run_sync(lambda: child.wait(60)) == 0


def kill(child: subprocess.Popen[str]) -> None:
    with child:
        child.send_signal(signal.SIGKILL)


def sound_rows(path: Path) -> int:
    connection = sqlite3.connect(path)
    try:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        (rows,) = connection.execute("SELECT count(*) FROM attempts").fetchone()
        return int(rows)
    finally:
        connection.close()


async def read(path: Path) -> Statistics:
    statistics = Statistics()
    async with StatisticsFile(path, statistics):
        return statistics


async def test_processes_that_write_at_once_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "statistics.sqlite"  # which they make at once, too
    children = [process("write", path) for _ in range(3)]
    for child in children:
        assert await line_of(child) == "ready"
    for child in children:
        assert child.stdin is not None
        child.stdin.write("go\n")
        child.stdin.flush()
    for child in children:
        await end_of(child)
    assert sound_rows(path) == 3 * 20 * TOOLS
    stats = (await read(path)).all()
    assert {each.calls for each in stats.values()} == {60}
    assert len(stats) == TOOLS


@pytest.mark.campaign
async def test_a_process_that_is_killed_in_the_middle_of_writing_leaves_a_sound_file(tmp_path: Path) -> None:
    path = tmp_path / "statistics.sqlite"
    for _ in range(3):
        child = process("hurry", path)
        try:
            for _ in range(3):
                written = int(await line_of(child))
        finally:
            kill(child)
        assert sound_rows(path) >= min(written, TOOLS)
        assert len((await read(path)).all()) == TOOLS


async def test_a_full_disk_is_logged_once_and_the_process_goes_on(tmp_path: Path) -> None:
    child = process("full", tmp_path / "statistics.sqlite")
    assert await line_of(child) == "1 message, 2560 calls known, some notes wait"
    await end_of(child)
    sound_rows(tmp_path / "statistics.sqlite")


# the processes


def note(statistics: Statistics, notes: int, start: int = 0) -> None:
    for n in range(start, start + notes):
        statistics.note(f"tool_{n % TOOLS}", float(n), "succeeded")


async def write(path: str) -> None:
    statistics = Statistics()
    async with StatisticsFile(path, statistics) as file:
        print("ready", flush=True)
        sys.stdin.readline()
        for start in range(0, 20 * TOOLS, 50):
            note(statistics, 50, start)
            await file.flush()


async def hurry(path: str) -> None:
    statistics_file.FLUSH_SECONDS = 0.001
    statistics = Statistics()
    async with StatisticsFile(path, statistics) as file:
        told = 0
        while True:
            note(statistics, BATCH)
            await anyio.sleep(0.001)
            if file.written > told:
                told = file.written
                print(told, flush=True)


class Messages(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())


async def full(path: str) -> None:
    messages = Messages()
    logging.getLogger("callgate").addHandler(messages)
    logging.getLogger("callgate").propagate = False
    statistics = Statistics()
    async with StatisticsFile(path, statistics) as file:
        resource.setrlimit(resource.RLIMIT_FSIZE, (64 * 1024, 64 * 1024))
        for batch in range(10):
            note(statistics, BATCH, batch * BATCH)
            await file.flush()
        calls = sum(each.calls for each in statistics.all().values())
        waiting = "some" if file.written < calls else "no"
        print(f"{len(messages.texts)} message, {calls} calls known, {waiting} notes wait", flush=True)


if __name__ == "__main__":
    anyio.run({"write": write, "hurry": hurry, "full": full}[sys.argv[1]], sys.argv[2])
