"""Guests that are child processes: what is left of their processes and folders, and systems that are not like Linux."""

from __future__ import annotations

import os
import resource
import signal
import tempfile
from pathlib import Path
from types import SimpleNamespace

import pytest

from callgate.sandbox import process
from callgate.sandbox.backend import guest_command
from callgate.sandbox.process import ProcessBackend, remove_abandoned
from sandbox.asking import ALLOWANCE, ask, hear, request, until

pytestmark = pytest.mark.anyio

LEAVES_A_CHILD = """
import os, time
if os.fork() == 0:
    os.closerange(0, 256)
    time.sleep(60)
    os._exit(0)
os._exit(3)
"""


def members(group: int) -> list[int]:
    """Processes of a group that have not ended."""
    found = []
    for each in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, its_group = each.read_text().rpartition(") ")[2].split()[:3]
        except OSError:
            continue
        if state != "Z" and int(its_group) == group:
            found.append(int(each.parent.name))
    return found


async def test_what_a_guest_has_started_ends_with_it_though_it_was_seen_to_end_before() -> None:
    async with ProcessBackend() as backend:
        guest = await backend.open(ALLOWANCE)
        await guest.send(request(LEAVES_A_CHILD))
        assert (await hear(guest)).reply is None
        await until(lambda: not guest.alive)
        group = guest.pid
        assert members(group)
        assert (await guest.aclose()).status == 3
        await until(lambda: not members(group))


async def test_a_host_that_ignores_sigchld_sees_the_end_of_a_guest_and_not_how_it_came() -> None:
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        async with ProcessBackend() as backend:
            guest = await backend.open(ALLOWANCE)
            assert (await ask(guest, "1 + 1")).value == 2
            assert guest.alive
            await guest.send(request("import os\nos._exit(3)"))
            assert (await hear(guest)).reply is None
            await until(lambda: not guest.alive)
            ended = await guest.aclose()
    finally:
        signal.signal(signal.SIGCHLD, before)
    assert ended.status is None
    assert "SIGCHLD is ignored" in ended.reason


async def test_a_guest_starts_where_the_system_refuses_a_limit_on_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """As macOS does."""
    setrlimit = resource.setrlimit

    def refuses(which: int, limits: tuple[int, int]) -> None:
        if which == resource.RLIMIT_AS:
            raise ValueError("current limit exceeds maximum limit")
        setrlimit(which, limits)

    monkeypatch.setattr(resource, "setrlimit", refuses)
    monkeypatch.setattr(process, "sys", SimpleNamespace(platform="darwin"))
    async with ProcessBackend() as backend:
        backend.command = guest_command  # type: ignore[method-assign]
        guest = await backend.open(ALLOWANCE)
        assert (await ask(guest, "1 + 1")).value == 2
        assert guest.alive
        assert (await guest.aclose()).status == -signal.SIGKILL
        assert not guest.alive


def test_folders_of_hosts_that_are_gone_are_removed_whatever_the_name_of_the_sandbox(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    names = [f"callgate-{name}-{pid}-abc" for name in ("my-box", f"box-{child}") for pid in (child, os.getpid())]
    for each in names:
        (tmp_path / each).mkdir()
    for name in ("my-box", "box", f"box-{child}", "b*x"):
        remove_abandoned(name)
        gone = f"callgate-{name}-{child}-abc"
        assert not (tmp_path / gone).exists()
    assert sorted(os.listdir(tmp_path)) == sorted(each for each in names if f"-{os.getpid()}-" in each)
