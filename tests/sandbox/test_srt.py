"""srt: what is missing is told, what does not hold is not used, and nothing is left of a guest.

What srt does not confine by itself is measured by the probes (`probes.kinds.SRT_ALONE`).
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import anyio
import pytest

from callgate import Limits, Runtime, SandboxUnavailable
from callgate.sandbox.backend import Allowance
from callgate.sandbox.srt.backend import SrtBackend
from callgate.sandbox.srt.settings import INSTALL
from sandbox.asking import ask, descendants, until

pytestmark = [pytest.mark.anyio, pytest.mark.slow]
ALLOWANCE = Allowance.of(Limits())


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    loop: str = request.param
    return loop


@pytest.fixture
def srt() -> str:
    """Where srt is. Skips without it; in CI, fails."""
    found = shutil.which("srt")
    if found is None:
        if os.environ.get("CI") == "true":
            pytest.fail(f"srt has to be there in CI: {INSTALL['srt']}")
        pytest.skip(f"there is no srt: {INSTALL['srt']}")
    return found


def command(folder: Path, name: str, text: str) -> None:
    """A command of that name in a folder that comes first in the PATH."""
    (folder / name).write_text(f"#!/bin/sh\n{text}\n")
    (folder / name).chmod(0o755)


def folders() -> list[str]:
    return [each for each in os.listdir(tempfile.gettempdir()) if each.startswith(f"callgate-srt-{os.getpid()}-")]


async def test_what_srt_needs_is_told_with_its_installation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(SandboxUnavailable) as refused:
        await SrtBackend().__aenter__()
    for name, install in INSTALL.items():
        assert f"{name} ({install})" in str(refused.value)


async def test_srts_own_words_are_told_where_it_cannot_start(
    srt: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command(tmp_path, "bwrap", "echo 'bwrap: No permissions to create new namespace' >&2; exit 1")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with pytest.raises(SandboxUnavailable, match=r"srt could not start a guest: .*No permissions to create"):
        await SrtBackend().__aenter__()
    assert folders() == []


@pytest.mark.parametrize("confine", [True, False])
async def test_an_srt_that_confines_nothing_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, confine: bool
) -> None:
    """One that does not know `allowRead` or `denyRead` is found out in the same way."""
    command(tmp_path, "srt", 'shift 3; exec "$@"')
    for name in INSTALL:
        if shutil.which(name) is None:
            command(tmp_path, name, "exit 1")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with pytest.raises(SandboxUnavailable, match=r"found it open: .*(read|write|open) a file"):
        await SrtBackend(confine=confine).__aenter__()
    assert folders() == []


async def test_an_srt_that_lets_a_program_write_is_not_used(
    srt: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rules = """s["filesystem"].update(allowWrite=["/tmp"], allowRead=[*s["filesystem"]["allowRead"], "/tmp"])"""
    code = f'import json, sys; p = sys.argv[1]; s = json.load(open(p)); {rules}; json.dump(s, open(p, "w"))'
    command(tmp_path, "srt", f'{sys.executable} -c \'{code}\' "$2"; exec {srt} "$@"')
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with pytest.raises(SandboxUnavailable, match="found it open"):
        await SrtBackend().__aenter__()


async def test_nothing_is_left_of_a_guest(srt: str) -> None:
    before, there = set(descendants()), set(os.listdir(tempfile.gettempdir()))
    async with SrtBackend() as backend:
        guests = [await backend.open(ALLOWANCE) for _ in range(2)]
        await ask(guests[0], "1")
        await guests[0].aclose()
        guests[1].kill()
        await until(lambda: not guests[1].alive)
    assert folders() == []
    await until(lambda: set(descendants()) <= before)
    left = set(os.listdir(tempfile.gettempdir())) - there
    assert {each for each in left if each.startswith(("srt-mux-", "claude-http-", "claude-socks-"))} == set(), (
        "srt's own sockets"
    )


async def test_an_opening_that_is_cancelled_leaves_nothing(srt: str) -> None:
    async with SrtBackend() as backend:
        before = set(descendants())
        for seconds in (0.0, 0.05, 0.2, 0.4):
            with anyio.move_on_after(seconds):
                await (await backend.open(ALLOWANCE)).aclose()
        assert folders() == []
        await until(lambda: set(descendants()) <= before)


HOST = """
import anyio
from callgate import Runtime
async def main():
    async with Runtime(sandbox="srt", pool_size=1) as runtime:
        print("ready", flush=True)
        await runtime.execute_code("import time\\nwhile True: time.sleep(1)", path="sandbox")
anyio.run(main)
"""


async def test_a_killed_host_takes_its_guests_along_and_its_folders_are_removed_by_the_next(srt: str) -> None:
    with subprocess.Popen([sys.executable, "-c", HOST], stdout=subprocess.PIPE) as host:  # noqa: ASYNC220 (a host, which is killed)
        assert host.stdout is not None
        assert host.stdout.readline() == b"ready\n"
        await anyio.sleep(0.5)
        host.send_signal(signal.SIGKILL)
    mark = f"callgate-srt-{host.pid}-"

    def alive() -> bool:
        for each in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                if mark.encode() in each.read_bytes():
                    return True
            except OSError:
                continue
        return False

    await until(lambda: not alive())
    async with SrtBackend():
        assert not [each for each in os.listdir(tempfile.gettempdir()) if each.startswith(mark)]


async def test_a_guest_has_nothing_of_the_hosts_environment(srt: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CANARY", "h0st")
    for confine in (True, False):
        async with Runtime(sandbox=SrtBackend(confine=confine), pool_size=0) as runtime:
            code = "import os\nsorted(os.environ), [k for k in os.environ if 'proxy' in k.lower()]"
            run = await runtime.execute_code(code, path="sandbox")
            assert "CANARY" not in run.value[0]
            assert run.value[1] == []


async def test_packages_and_modules_imported_ahead_are_there(srt: str, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("ANSWER = 42\n")
    for confine in (True, False):
        backend = SrtBackend(packages=str(tmp_path), preimport=("mine",), confine=confine)
        async with Runtime(sandbox=backend, pool_size=0) as runtime:
            run = await runtime.execute_code("import mine, sys\nmine.ANSWER", path="sandbox")
            assert run.value == 42, run.error


async def test_limits_are_told_by_name(srt: str) -> None:
    for confine in (True, False):
        async with Runtime(sandbox=SrtBackend(confine=confine), pool_size=0) as runtime:
            for code, limits, limit in (
                ("x = bytearray(1 << 30)", Limits(memory_bytes=64 << 20), "memory_bytes"),
                ("while True: pass", Limits(cpu_seconds=1), "cpu_seconds"),
                ("import time; time.sleep(60)", Limits(wall_seconds=1), "wall_seconds"),
            ):
                run = await runtime.execute_code(code, limits=limits, path="sandbox")
                assert run.error is not None
                assert run.error.limit == limit, run.error
                assert run.usage.peak_memory_bytes is not None
                assert run.usage.peak_memory_bytes < 64 << 20  # the guest's, not srt's
