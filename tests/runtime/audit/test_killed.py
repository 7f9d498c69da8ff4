"""Processes that are killed while they write, and guests that are killed while their calls are under way."""

from __future__ import annotations

import io
import os
import random
import signal
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import anyio
import pytest

from callgate import Limits, Runtime, tool
from callgate.runtime.audit.chain import Keys, pieces_of, read_line
from callgate.runtime.audit.file import AppendFile
from callgate.runtime.audit.verify import verify
from runtime.audit.audited import KEY, TOOLS, checked, log_in, records

KEYS = Keys(KEY)
WRITES = """
import os, random, sys, time
from pathlib import Path
from callgate.runtime.audit.chain import Keys
from callgate.runtime.audit.file import AppendFile
folder = Path(sys.argv[1])
drawn = random.Random(int(sys.argv[3]))
file = AppendFile(folder / "audit.jsonl", Keys(sys.argv[2].encode()))
n = 0
while not (folder / "stop").exists():
    file.look()
    file.write("called", {"call": n, "tool": "x" * drawn.choice([10, 100, 60_000])})
    os.write(1, b"%d\\n" % n)
    n += 1
    time.sleep(drawn.random() / 500)
file.end()
"""


def writer(folder: Path, seed: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", WRITES, str(folder), KEY.decode(), str(seed)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, bufsize=0)


def lines_of(data: bytes) -> list[dict[str, Any]]:
    """The lines whose MAC is right."""
    found = (read_line(piece, KEYS) for _, piece in pieces_of(data))
    return [line.fields() | {"mac": line.mac} for line in found if line is not None]


def test_processes_that_write_at_once_rotate_and_are_killed_lose_no_line_that_they_wrote(tmp_path: Path) -> None:
    drawn, log, killed = random.Random(20261129), tmp_path / "audit.jsonl", 0
    writers = [writer(tmp_path, seed) for seed in range(3)]
    acknowledged: dict[int, int] = {}

    def collect(process: subprocess.Popen[bytes], last: int) -> None:
        numbers = process.communicate(timeout=60)[0].split()
        acknowledged[process.pid] = int(numbers[-1]) if numbers else last

    for step in range(16):
        process = writers[0]
        assert process.stdout is not None
        if step % 2 == 0:
            assert process.stdout.readline() == b"0\n"
            log.rename(tmp_path / f"audit.jsonl.{step}")
        else:
            time.sleep(drawn.random() / 10)
            writers.remove(process)
            process.send_signal(signal.SIGKILL)
            collect(process, 0)
            killed += 1
            writers.append(writer(tmp_path, 100 + step))
    (tmp_path / "stop").touch()
    for process in writers:
        collect(process, -1)

    files = sorted(tmp_path.glob("audit.jsonl*"))
    written: dict[int, list[int]] = defaultdict(list)
    macs, heads, faults = set(), set(), []
    for file in files:
        data = file.read_bytes()
        found = verify(io.BytesIO(data), KEYS)
        faults += [fault.message for fault in found.faults]
        of_writer = {}
        for line in lines_of(data):
            macs.add(line["mac"])
            if line["kind"] == "opened":
                of_writer[line["writer"]] = line["pid"]
                heads |= {line["head"]} - {""}
            elif line["kind"] == "called":
                written[of_writer[line["writer"]]].append(line["call"])
    assert len(files) == 9
    assert heads
    assert heads <= macs  # what a rotation split is one again
    assert all(fault.startswith("it is cut off: its writer was killed") for fault in faults)
    assert len(faults) <= killed
    for pid, last in acknowledged.items():
        assert sorted(written[pid]) == list(range(len(written[pid])))
        assert last + 1 <= len(written[pid]) <= last + 2, "written, and then killed before it could say so"


def test_of_a_process_that_is_killed_in_the_middle_of_a_line_this_line_alone_is_cut_off(tmp_path: Path) -> None:
    drawn, kills, ours = random.Random(20261129), 20, 0
    path = tmp_path / "audit.jsonl"
    file = AppendFile(path, KEYS)
    for _ in range(kills):
        before = path.stat().st_size
        child = os.fork()
        if not child:
            while True:
                file.look()
                file.write(
                    "called", {"tool": "x" * 60_000}
                )  # in the kernel, some 15 pages: it may be killed in between
        try:
            while path.stat().st_size < before + 100_000:
                pass
            until = time.monotonic() + drawn.random() / 250
            while time.monotonic() < until:
                file.write("outcome", {"call": (ours := ours + 1)})
        finally:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
    file.end()
    found = checked(path)
    assert len(found.faults) <= kills
    assert {fault.message[:36] for fault in found.faults} <= {"it is cut off: its writer was killed"}
    assert sorted(chain.closed for chain in found.chains.values()) == [False] * kills + [True]
    assert next(chain.lines for chain in found.chains.values() if chain.closed) == ours + 2


@pytest.mark.parametrize("seed", range(20))
def test_verify_says_exactly_how_many_lines_of_which_writer_are_missing(tmp_path: Path, seed: int) -> None:
    drawn = random.Random(seed)
    whole = _of_several(tmp_path, drawn)
    rows = whole.splitlines(keepends=True)
    lines = lines_of(whole)
    place = drawn.randrange(len(rows) - 20)
    name = lines[place]["writer"]
    chain = [number for number, line in enumerate(lines) if line["writer"] == name and number >= place]
    gone = chain[: drawn.randrange(1, len(chain))]
    rest = [row for number, row in enumerate(rows) if number not in gone]
    found = verify(io.BytesIO(b"".join(rest)), KEYS)
    how_many = f"{len(gone)} lines of {name} before it are missing"
    if lines[gone[0]]["kind"] == "opened":
        how_many = f"the beginning of its chain is missing: {len(gone)} lines of {name}"
    after = chain[len(gone)] + 1 - len(gone)
    assert (after, how_many) in [(fault.line, fault.message) for fault in found.faults]
    assert sum(" lines of " + name in fault.message for fault in found.faults) == 1


def _of_several(folder: Path, drawn: random.Random) -> bytes:
    files = [AppendFile(folder / "a", KEYS) for _ in range(3)]
    for number in range(100):
        drawn.choice(files).write("outcome", {"call": number})
    for file in files:
        file.end()
    return (folder / "a").read_bytes()


# guests


@pytest.mark.anyio
@pytest.mark.parametrize(("end", "error"), [("os._exit(3)", "GuestDied"), ("time.sleep(60)", "LimitReached")])
async def test_of_a_guest_that_is_killed_during_a_call_intent_and_unknown_outcome_stand_in_the_log(
    tmp_path: Path, end: str, error: str
) -> None:
    log, begun = log_in(tmp_path), []

    @tool
    async def hang(x: int) -> None:
        """Has an effect, and never answers."""
        begun.append(x)
        await anyio.sleep_forever()

    @tool(read_only=True)
    async def count() -> int:
        """Calls that began."""
        return len(begun)

    code = (
        f"import asyncio, os, time\ncall = asyncio.ensure_future(hang(x=1))\nwhile not await count():\n    pass\n{end}"
    )
    async with Runtime([hang, count], sandbox="jail", audit=log, limits=Limits(wall_seconds=3)) as runtime:
        result = await runtime.execute_code(code, path="sandbox")
        assert result.error is not None
        assert result.error.kind == error
    assert checked(log.path).ok
    of_hang = [each for each in records(log) if each.get("tool") == "hang"]
    assert [each["kind"] for each in of_hang] == ["called", "outcome"]
    assert of_hang[1]["status"] == "unknown_outcome"
    (ended,) = (each for each in records(log) if each["kind"] == "run_ended")
    assert (ended["ok"], ended["error"]) == (False, error)


@pytest.mark.anyio
async def test_calls_that_began_early_and_were_never_reached_stand_in_the_log_as_such(tmp_path: Path) -> None:
    log, began = log_in(tmp_path), anyio.Event()

    @tool(read_only=True)
    async def hang() -> int:
        """Only reads, and never answers."""
        began.set()
        await anyio.sleep_forever()
        return 0

    @tool(read_only=True)
    async def meet() -> int:
        """Only reads, and answers once the other call is under way."""
        await began.wait()
        return 1

    with anyio.fail_after(20):
        async with Runtime([*TOOLS, hang, meet], sandbox=None, audit=log) as runtime:
            result = await runtime.execute_code(
                "a = await meet()\nb = {}[str(a)]\nc = await look(x=2)\nd = await hang()\nawait put(x=d)"
            )
    assert [call.tool for call in result.speculative] == ["look", "hang"]
    found = {each["tool"]: (each["kind"], each["status"], each.get("early", False))
             for each in records(log) if "tool" in each}  # fmt: skip
    assert found == {
        "meet": ("outcome", "succeeded", False),
        "look": ("outcome", "succeeded", True),
        "hang": ("outcome", "cancelled", True),
    }
    assert checked(log.path).ok


def test_of_a_process_that_is_killed_during_a_call_the_intent_stands_in_the_log_without_an_outcome(
    tmp_path: Path,
) -> None:
    source = f"""
import anyio
from pathlib import Path
from callgate import AuditLog, Runtime, tool

@tool
async def hang() -> None:
    print("begun", flush=True)
    await anyio.sleep_forever()

async def main() -> None:
    log = AuditLog(Path({str(tmp_path)!r}) / "audit.jsonl", key={KEY!r})
    async with Runtime([hang], sandbox=None, audit=log) as runtime:
        await runtime.answer("hang", {{}})

anyio.run(main)
"""
    process = subprocess.Popen([sys.executable, "-c", source], stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"begun\n"
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    log = log_in(tmp_path)
    found = checked(log.path)
    assert found.ok
    assert [each["kind"] for each in records(log)] == ["opened", "called"]
    assert [chain.closed for chain in found.chains.values()] == [False]
