"""The zygote: killed, replaced, refused; and the host's own tight corners, each in a process of its own."""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest

from callgate.errors import SandboxCrashed, SandboxUnavailable
from callgate.sandbox import collecting, zygote
from callgate.sandbox.backend import Collected
from callgate.sandbox.jail import JailBackend
from callgate.sandbox.launching import ZygoteSettings, launched_ahead
from callgate.sandbox.staging import Staging
from callgate.sandbox.zygote import JailedGuest
from sandbox.asking import ALLOWANCE, ask, descendants, gone, hear, open_files, request, until
from sandbox.conftest import running

pytestmark = pytest.mark.anyio

TIERS = ["jail tier 1", "jail tier 2"]


@pytest.mark.campaign
@pytest.mark.parametrize("name", TIERS)
async def test_a_zygote_that_is_killed_takes_its_guests_along_and_is_replaced(name: str) -> None:
    async with running(name) as backend:
        assert isinstance(backend, JailBackend)
        guest = await backend.open(ALLOWANCE)
        await guest.send(request("while True: pass"))
        first = backend.zygote_pid
        os.kill(first, signal.SIGKILL)
        assert (await hear(guest)).reply is None
        ended = await guest.aclose()
        assert ended.status is None
        assert await gone(guest.pid)
        other = await backend.open(ALLOWANCE)
        assert backend.zygote_pid != first
        assert (await ask(other, "1")).value == 1
        await other.aclose()


@pytest.mark.parametrize("name", TIERS)
async def test_nothing_is_left_of_a_backend(name: str) -> None:
    async with running(name):
        pass
    files, processes = len(open_files()), len(descendants())
    async with running(name) as backend:
        guest = await backend.open(ALLOWANCE)
        await guest.send(request("while True: pass"))
    assert len(open_files()) <= files
    await until(lambda: len(descendants()) <= processes)


@pytest.mark.slow
@pytest.mark.parametrize("name", TIERS)
async def test_starting_may_be_cancelled(name: str) -> None:
    async with running(name):
        pass
    files, processes = len(open_files()), len(descendants())
    with anyio.move_on_after(0.05):
        async with running(name):
            await anyio.sleep_forever()
    assert len(open_files()) <= files
    await until(lambda: len(descendants()) <= processes)


async def test_a_backend_takes_the_process_that_was_launched_ahead() -> None:
    async with running("jail tier 1"):
        pass
    processes = len(descendants())
    with launched_ahead(ZygoteSettings(tier=1)):
        ahead = descendants()
        async with running("jail tier 1") as backend:
            assert isinstance(backend, JailBackend)
            assert backend.zygote_pid in ahead
            assert backend.sharing == "not arranged, since it forks few guests"
            guest = await backend.open(ALLOWANCE)
            assert (await ask(guest, "1")).value == 1
            await guest.aclose()
    await until(lambda: len(descendants()) <= processes)


async def test_packages_may_be_named_from_the_hosts_own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with running("jail tier 1"):
        pass
    (tmp_path / "packages").mkdir()
    (tmp_path / "packages" / "mine.py").write_text("value = 5")
    monkeypatch.chdir(tmp_path)
    with launched_ahead(ZygoteSettings(tier=1, packages="packages")):
        async with JailBackend(tier=1, packages="packages") as backend:
            guest = await backend.open(ALLOWANCE)
            assert (await ask(guest, "import mine\nmine.value")).value == 5
            await guest.aclose()


async def test_nothing_is_left_of_a_process_that_was_launched_ahead_and_not_taken() -> None:
    files, processes = len(open_files()), len(descendants())
    with launched_ahead(ZygoteSettings(tier=1)):
        await until(lambda: len(descendants()) > processes)
    assert len(open_files()) <= files
    await until(lambda: len(descendants()) <= processes)


@pytest.mark.slow
@pytest.mark.campaign
async def test_a_zygote_that_was_just_killed_is_replaced_unheard() -> None:
    async with running("jail tier 2") as backend:
        assert isinstance(backend, JailBackend)
        for _ in range(3):
            os.kill(backend.zygote_pid, signal.SIGKILL)
            guest = await backend.open(ALLOWANCE)
            assert (await ask(guest, "1")).value == 1
            await guest.aclose()


@pytest.mark.slow
async def test_more_guests_may_be_wanted_at_once_than_its_socket_holds() -> None:
    async with running("jail tier 2") as backend, anyio.create_task_group() as tasks:

        async def open_one() -> None:
            guest = await backend.open(ALLOWANCE)
            await guest.aclose()

        for _ in range(400):
            tasks.start_soon(open_one)


async def test_a_backend_that_was_left_opens_nothing() -> None:
    async with running("jail tier 2") as backend:
        pass
    with pytest.raises(SandboxCrashed, match=r"^the jail is not running: it was not entered, or it was left$"):
        await backend.open(ALLOWANCE)


PROGRAM = """
import anyio, sys
from functools import partial
from callgate import Runtime, tool

@tool
async def double(n: int) -> int:
    return 2 * n

async def main():
    async with Runtime([double], pool_size=1, max_guests=4, tier={tier}) as runtime:
        for _ in range(3):
            run = await runtime.execute_code("await double(21)", path="sandbox")
            assert run.value == 42, run
        async with anyio.create_task_group() as tasks:
            for _ in range(12):
                tasks.start_soon(partial(runtime.execute_code, path="sandbox"), "await double(1)")
        run = await runtime.execute_code("await double(21)", path="sandbox")
        assert run.value == 42, run
    sys.stderr.write("fine")

anyio.run(main, backend={loop!r})
"""


def in_a_shell(before: str, program: str) -> str:
    """What the program says on standard error, started after some shell commands."""
    done = subprocess.run(
        ["sh", "-c", f'{before}; exec "$0" -W error -c "$1"', sys.executable, program],
        capture_output=True, text=True, timeout=60, check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    return done.stderr


CORNERS = ["ulimit -n 64", "exec <&-", "exec <&- >&-", "umask 777", "export HOME=/nowhere LC_ALL=C PYTHONHASHSEED=1"]


@pytest.mark.sampled
@pytest.mark.parametrize("tier", [1, 2])
@pytest.mark.parametrize("before", CORNERS)
def test_it_works_in_a_tight_corner(tier: int, before: str) -> None:
    said = in_a_shell(before, PROGRAM.format(tier=tier, loop="trio" if tier == 1 and "exec" in before else "asyncio"))
    if "SandboxUnavailable" in said and os.environ.get("CI") != "true":
        pytest.skip(said.splitlines()[-1])
    assert said == "fine"


@pytest.mark.slow
@pytest.mark.campaign
@pytest.mark.parametrize(("tier", "loop"), [(1, "asyncio"), (2, "trio")])
def test_the_host_dies_and_everything_with_it(tier: int, loop: str) -> None:
    program = f"""
import anyio, os
from callgate import Runtime

async def main():
    async with Runtime(pool_size=2, tier={tier}) as runtime:
        def started(event):
            print(event.text, end="", flush=True)
            os.kill(os.getpid(), 9)
        await runtime.execute_code("import os\\nprint('on')\\nwhile True: pass", on_event=started)

anyio.run(main, backend={loop!r})
"""
    host = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    said, words = host.communicate(timeout=60)
    if "SandboxUnavailable" in words and os.environ.get("CI") != "true":
        pytest.skip(words.splitlines()[-1])
    assert said == "on\n"
    anyio.run(nothing_of_it_is_left)


async def nothing_of_it_is_left() -> None:
    def zygotes() -> list[str]:
        found = []
        for entry in Path("/proc").iterdir():
            try:
                if entry.name.isdigit() and b"from callgate_guest." in entry.joinpath("cmdline").read_bytes():
                    parent = int(entry.joinpath("stat").read_text().rpartition(")")[2].split()[1])
                    found.append(f"{entry.name} {parent}")
            except OSError:
                continue
        return [each for each in found if each.endswith(" 1")]

    await until(lambda: not zygotes())


async def test_a_host_without_a_temporary_folder_has_tier_1_and_no_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", "/nowhere")
    async with running("jail tier 1") as backend:
        assert isinstance(backend, JailBackend)
        guest = await backend.open(ALLOWANCE)
        assert (await ask(guest, "1")).value == 1
        await guest.aclose()
        with pytest.raises(SandboxUnavailable, match="set TMPDIR"):
            await backend.open_with(ALLOWANCE, {"a": b""})


async def test_a_zygote_that_ends_while_files_are_laid_down_leaves_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    for wait in range(5):
        staging = Staging()

        async def stage(staging: Staging = staging) -> None:
            with contextlib.suppress(SandboxCrashed):
                staging.forget(
                    await anyio.to_thread.run_sync(staging.stage, dict.fromkeys(map(str, range(3000)), b""), ())
                )

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(stage)
            await anyio.sleep(0.005 * (wait + 1))
            await anyio.to_thread.run_sync(staging.remove)
        assert os.listdir(tmp_path) == []


def test_files_that_cannot_be_removed_for_want_of_a_descriptor_are_removed_with_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    staging = Staging()
    names = [staging.stage({"a": b""}, ()) for _ in range(2)]
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, limits[1]))
    try:
        staging.forget(names[0])
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert os.path.exists(f"{staging.folder}/{names[0]}")
    staging.forget(names[1])
    assert not any(os.path.exists(f"{staging.folder}/{name}") for name in names)
    staging.remove()


async def test_a_session_remembers_only_files_that_are_there() -> None:
    async with running("jail tier 1") as backend:
        guest = await backend.open(ALLOWANCE)
        assert isinstance(guest, JailedGuest)
        for number in range(3):
            code = f"import os\n[os.remove(name) for name in os.listdir()]\nopen('{number}', 'w').close()"
            await ask(guest, code, number + 1)
            assert (await guest.collect(9, 9)).files == ((str(number), b""),)
        assert list(guest._seen) == ["2"]
        assert (await guest.collect(9, 9)).files == ()
        await guest.aclose()


async def test_files_of_an_archive_without_times_are_collected(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running("jail tier 1") as backend:
        guest = await backend.open(ALLOWANCE)
        assert isinstance(guest, JailedGuest)
        with monkeypatch.context() as patched:
            patched.setattr(zygote, "collected", None)  # nothing is looked through
            assert (await guest.collect(9, 9)).files == ()
        await ask(guest, "import os\nopen('a', 'w').close()\nos.utime('.', (0, 0))  # as tarfile does")
        assert (await guest.collect(9, 9)).files == (("a", b""),)
        await guest.aclose()


async def test_a_file_is_found_among_more_inputs_than_the_host_looks_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collecting, "_MOST_ENTRIES", 3)
    async with running("jail tier 1") as backend:
        assert isinstance(backend, JailBackend)
        guest = await backend.open_with(ALLOWANCE, dict.fromkeys("abcdefg", b""))
        await ask(guest, "open('z', 'w').close()")
        assert (await guest.collect(9, 9)).files == (("z", b""),)
        await guest.aclose()


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_files_of_a_guest_that_asyncio_cancels_are_removed() -> None:
    async with running("jail tier 1") as backend:
        assert isinstance(backend, JailBackend)
        opening = asyncio.create_task(backend.open_with(ALLOWANCE, {"a": bytes(100 << 20)}))
        await anyio.sleep(0.02)
        opening.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await opening
        assert backend._zygote is not None
        assert backend._zygote._staging is not None
        folder = backend._zygote._staging.folder
        await anyio.sleep(0.5)
        await until(lambda: os.stat(folder).st_nlink == 2)  # a folder in it would count


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_collecting_that_asyncio_cancels_reads_and_closes_its_own_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, go_on, seen = threading.Event(), threading.Event(), list[list[str]]()

    def slow(output: int, *arguments: Any) -> Collected:
        begun.set()
        go_on.wait(10)
        seen.append(os.listdir(output))
        return Collected()

    monkeypatch.setattr(zygote, "collected", slow)
    async with running("jail tier 1") as backend:
        guest = await backend.open(ALLOWANCE)
        assert isinstance(guest, JailedGuest)
        await ask(guest, "open('mine', 'w').close()")
        collecting = asyncio.create_task(guest.collect(9, 9))
        await anyio.to_thread.run_sync(begun.wait)
        collecting.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await collecting
        others = [os.open("/", os.O_RDONLY) for _ in range(20)]
        go_on.set()
        await until(lambda: seen != [])
        await anyio.sleep(0.1)
        for fd in others:
            os.close(fd)  # it is open
        assert seen == [["mine"]]
        await guest.aclose()
