"""Each edited, dropped, moved or inserted line is found, of one writer and of several."""

from __future__ import annotations

import io
import os
import random
import signal
import subprocess
import sys
import threading
import tracemalloc
from pathlib import Path

import anyio
import pytest

from callgate import Runtime, tool
from callgate.runtime.audit.chain import Keys
from callgate.runtime.audit.file import AppendFile
from callgate.runtime.audit.verify import Verified, verify
from runtime.audit.audited import KEY, TOOLS, checked, log_in, open_runtime, records

KEYS = Keys(KEY)


def written(path: Path, lines: int, writers: int = 1) -> bytes:
    """A log of several writers, whose lines alternate as drawn."""
    files = [AppendFile(path, KEYS) for _ in range(writers)]
    drawn = random.Random(writers)
    for number in range(lines):
        drawn.choice(files).write("outcome", {"run": "run_1", "call": number, "tool": "x" * drawn.randrange(9)})
    for file in files:
        file.end()
    return path.read_bytes()


def found_in(data: bytes) -> Verified:
    return verify(io.BytesIO(data), KEYS)


@pytest.mark.parametrize(("lines", "places"), [(100, 200), pytest.param(10_000, 1000, marks=pytest.mark.slow)])
def test_a_changed_bit_is_found_wherever_it_is(tmp_path: Path, lines: int, places: int) -> None:
    whole = written(tmp_path / "a", lines, writers=2)
    assert found_in(whole).ok
    drawn = random.Random(20261129)
    left = drawn.sample(range(len(whole)), places)
    alone = 100  # then nine at a time, each of which must be named: whether a line is blamed depends on no other line
    while left:
        count = 1 if places - len(left) < alone else 9
        changed, left = left[:count], left[count:]
        data = bytearray(whole)
        for place in changed:
            data[place] ^= 1 << drawn.randrange(8)
        found = {fault.line for fault in found_in(bytes(data)).faults}
        for place in changed:
            assert data.count(b"\n", 0, place) + 1 in found, (place, bytes(data[place - 50 : place + 50]))


@pytest.mark.parametrize("writers", [1, 3])
def test_lines_that_were_dropped_moved_inserted_or_copied_are_found(tmp_path: Path, writers: int) -> None:
    lines = written(tmp_path / "a", 60, writers).splitlines(keepends=True)
    other = written(tmp_path / "b", 60, writers).splitlines(keepends=True)
    for place in range(len(lines) - writers - 1):  # the last line of a chain is another test
        rest = lines[:place] + lines[place + 1 :]
        assert not found_in(b"".join(rest)).ok, place
        for to in (place + 1, (place * 7 + 3) % len(lines)):
            if to != place:
                moved = [*rest[:to], lines[place], *rest[to:]]
                assert not found_in(b"".join(moved)).ok, (place, to)
        assert not found_in(b"".join([*lines[:place], lines[place], *lines[place:]])).ok, place
        assert not found_in(b"".join([*lines[:place], other[place], *lines[place:]])).ok, place
        swapped = [*lines[:place], lines[place + 1], lines[place], *lines[place + 2 :]]
        assert not found_in(b"".join(swapped)).ok, place


def test_a_chain_that_a_later_one_saw_cannot_be_dropped(tmp_path: Path) -> None:
    first = written(tmp_path / "a", 5)
    both = written(tmp_path / "a", 5)
    assert found_in(both).ok
    assert not found_in(both[len(first) :]).ok


def test_the_end_can_be_cut_off_unseen_but_for_a_noted_head(tmp_path: Path) -> None:
    lines = written(tmp_path / "a", 5).splitlines(keepends=True)
    head = next(iter(found_in(b"".join(lines)).chains.values())).head
    cut = found_in(b"".join(lines[:-2]))
    assert cut.ok
    assert not next(iter(cut.chains.values())).closed
    assert head not in cut.macs
    assert [fault.message for fault in found_in(b"".join(lines)[:-9]).faults] == [
        "it is cut off: its writer was killed while it wrote this line, or the line was changed"
    ]


def test_of_another_key_nothing_is_believed(tmp_path: Path) -> None:
    data = written(tmp_path / "a", 3)
    found = verify(io.BytesIO(data), Keys(b"another key of 16"))
    assert [fault.line for fault in found.faults] == [1, 2, 3, 4, 5]
    assert "another key" in found.faults[0].message


@pytest.mark.parametrize(
    "data",
    [b"\0" * 100_000, b"[" * 3_000_000, b"\n" * 5000, b'{"v":1,"at":' * 300_000, b'{"mac":"' + b"0" * 64 + b'"}\n'],
)
def test_a_hostile_file_is_read_within_bounds(data: bytes) -> None:
    found = found_in(data)
    assert not found.ok
    assert len(found.faults) + found.more_faults >= 1
    assert len(found.faults) <= 1000


def test_a_file_of_nothing_but_bad_lines_takes_no_memory() -> None:
    file = io.BytesIO(b"x\n" * 200_000)
    tracemalloc.start()
    try:
        found = verify(file, KEYS)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (len(found.faults), found.more_faults) == (1000, 199_000)
    assert most < 1_000_000


WRITES = """
import sys
from pathlib import Path
from callgate.runtime.audit.chain import Keys
from callgate.runtime.audit.file import AppendFile
file = AppendFile(Path(sys.argv[1]), Keys(sys.argv[2].encode()))
print("open", flush=True)
sys.stdin.readline()
n = 0
while n < int(sys.argv[3]) or int(sys.argv[3]) < 0:
    file.write("outcome", {"call": n, "tool": "x" * (n % 700)})
    n += 1
file.end()
"""


def writer(path: Path, lines: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", WRITES, str(path), KEY.decode(), str(lines)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"open\n"
    return process


def test_processes_that_write_at_once_have_a_chain_each(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    writers = [writer(path, 2000) for _ in range(3)]
    for each in writers:
        each.communicate(b"\n", timeout=60)
    found = checked(path)
    assert found.ok, found.faults[:3]
    assert [(chain.lines, chain.closed) for chain in found.chains.values()] == [(2002, True)] * 3


def test_a_process_that_was_killed_leaves_an_open_chain_and_no_fault(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    process = writer(path, -1)
    assert process.stdin is not None
    process.stdin.write(b"\n")
    process.stdin.flush()
    while path.stat().st_size < 1_000_000:
        assert process.poll() is None
    process.send_signal(signal.SIGKILL)
    process.communicate()
    written(path, 3)
    found = checked(path)
    assert found.ok, found.faults
    assert [chain.closed for chain in found.chains.values()] == [False, True]


def test_a_forked_child_has_a_chain_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    file = AppendFile(path, KEYS)
    file.write("outcome", {"call": 1})
    child = os.fork()
    if not child:
        try:
            file.write("outcome", {"call": 2})
            file.end()
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    file.write("outcome", {"call": 3})
    file.end()
    found = checked(path)
    assert found.ok, found.faults
    assert sorted(chain.lines for chain in found.chains.values()) == [3, 4]


@pytest.mark.anyio
async def test_after_a_rotation_the_new_file_names_the_old_head(tmp_path: Path) -> None:
    log = log_in(tmp_path)
    async with open_runtime(log) as runtime:
        await runtime.answer("put", {"x": 1})
        log.path.rename(tmp_path / "audit.jsonl.1")
        await runtime.answer("put", {"x": 2})
    old, new = checked(tmp_path / "audit.jsonl.1"), checked(log.path)
    assert old.ok
    assert new.ok
    (chain,) = old.chains.values()
    assert chain.closed
    assert records(log)[0]["head"] in old.macs
    assert [each["kind"] for each in records(log)] == ["opened", "called", "outcome", "closed"]


@pytest.mark.anyio
@pytest.mark.parametrize("how", ["moved", "removed"])
async def test_a_file_that_is_moved_or_removed_during_a_run_is_noticed_before_the_next_call_with_effects(
    tmp_path: Path, how: str
) -> None:
    log, old = log_in(tmp_path), tmp_path / "audit.jsonl.1"

    @tool
    async def rotate() -> None:
        """What logrotate does, or an intruder."""
        log.path.rename(old) if how == "moved" else log.path.unlink()

    async with Runtime([*TOOLS, rotate], sandbox=None, audit=log) as runtime:
        result = await runtime.execute_code("await put(x=1)\nawait rotate()\nawait put(x=2)\nawait put(x=3)")
        assert result.ok
    new = records(log)
    assert [each["kind"] for each in new] == ["opened", "called", "outcome", "called", "outcome", "run_ended", "closed"]
    assert checked(log.path).ok
    assert "lost" not in new[0]
    if how == "moved":
        assert checked(old).ok
        assert new[0]["head"] in checked(old).macs
    else:
        assert len(new[0]["head"]) == 64  # of a file that is gone: it shows that there was one


@pytest.mark.anyio
async def test_a_disk_that_takes_long_keeps_no_event_loop_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, slow, synced = log_in(tmp_path), threading.Event(), []

    def fsync(fd: int) -> None:
        assert slow.wait(20)
        synced.append(os.fstat(fd).st_ino)

    monkeypatch.setattr(os, "fsync", fsync)  # no disk here can be told to be slow
    with anyio.fail_after(20):
        async with open_runtime(log) as runtime:
            inodes = []
            for x in range(3):
                await runtime.answer("put", {"x": x})
                inodes.append(log.path.stat().st_ino)
                log.path.rename(tmp_path / f"audit.jsonl.{x}")
            assert (await runtime.answer("put", {"x": 3})).ok
            assert synced == []
            slow.set()
    assert {*inodes, log.path.stat().st_ino} == set(synced)
    files = os.listdir(tmp_path)
    assert len(files) == 4
    assert all(checked(tmp_path / file).ok for file in files)


@pytest.mark.parametrize("missing", range(1, 120))
def test_a_line_that_a_full_disk_or_a_crash_cuts_off_is_told_as_what_it_is(tmp_path: Path, missing: int) -> None:
    whole = written(tmp_path / "a", 3)
    lines = whole.splitlines(keepends=True)
    cut = b"".join(lines[:-1])[:-missing]
    number = min(cut.count(b"\n") + 1, len(lines) - 1)
    if missing == 1:  # a line without its newline is whole
        assert found_in(cut).ok
    else:
        assert [(fault.line, fault.message[:13]) for fault in found_in(cut).faults] == [(number, "it is cut off")]
    (tmp_path / "a").write_bytes(cut)
    written(tmp_path / "a", 2)  # another process goes on right behind it
    found = checked(tmp_path / "a")
    assert [chain.closed for chain in found.chains.values()] == [False, True]
    assert [fault.message[:13] for fault in found.faults] == ["it is cut off"] * (missing > 1)


def test_lines_of_which_a_full_disk_takes_only_a_part_give_no_false_alarm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn, write, torn = random.Random(22), os.write, 0

    def takes_a_part(fd: int, data: bytes) -> int:
        nonlocal torn
        if drawn.random() < 0.5 or not data.startswith(b'{"v":1'):
            return write(fd, data)
        torn += 1
        return write(fd, data[: drawn.choice([len(data) - 1, drawn.randrange(1, 20), drawn.randrange(1, len(data))])])

    files = [AppendFile(tmp_path / "a", KEYS) for _ in range(3)]
    monkeypatch.setattr(os, "write", takes_a_part)  # a file system does this at its end alone
    lost = 0
    for number in range(600):
        try:
            drawn.choice(files).write("outcome", {"call": number, "tool": "t" * drawn.randrange(100)})
        except OSError:
            lost += 1
    monkeypatch.undo()
    for file in files:
        file.end()
    found = checked(tmp_path / "a")
    assert found.ok, found.faults[:5]
    assert sum(chain.lost for chain in found.chains.values()) == lost
    assert 100 < lost < torn
    assert sum(chain.lines for chain in found.chains.values()) == 600 - lost + 6


@pytest.mark.anyio
async def test_runs_at_once_in_one_log_are_whole(tmp_path: Path) -> None:
    log = log_in(tmp_path)
    async with open_runtime(log) as runtime, open_runtime(log) as second, anyio.create_task_group() as tasks:
        for each in (runtime, second):
            for _ in range(20):
                tasks.start_soon(
                    each.execute_code, "import asyncio\nawait asyncio.gather(*[put(x=n) for n in range(5)])"
                )
    found = checked(log.path)
    assert found.ok, found.faults
    assert sum(each["kind"] == "called" for each in records(log)) == 200
    assert len(found.chains) == 1
