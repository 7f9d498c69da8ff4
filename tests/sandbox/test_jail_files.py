"""Files and the zygotes of the jail: killed, worn, importing ahead; and what is refused, in words."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from callgate import ConfigurationError, Runtime, SandboxUnavailable
from callgate.sandbox import jail
from callgate.sandbox.backend import Collected, Files
from callgate.sandbox.choose import make_backend
from callgate.sandbox.jail import JailBackend
from callgate.sandbox.launching import ZygoteSettings, launched_ahead
from sandbox.asking import ALLOWANCE, ask, descendants, gone, open_files, request, until
from sandbox.conftest import running
from sandbox.test_zygote import nothing_of_it_is_left

pytestmark = pytest.mark.anyio

MOST = 32, 1 << 20


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The host's temporary folder."""
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


@pytest.fixture
def readable() -> Iterator[Path]:
    """A folder that guests of tier 2 may read."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        os.chmod(folder, 0o755)
        yield Path(folder)


def staged(place: Path) -> list[Path]:
    """What there is of guests' files."""
    return list(place.glob("callgate-files-*/files/*"))


async def test_a_guest_has_its_files_and_the_host_gets_what_it_leaves(place: Path) -> None:
    async with running("jail tier 1") as backend:
        assert isinstance(backend, JailBackend)
        assert backend.no_files == ""
        guest = await backend.open_with(ALLOWANCE, {"a": b"1", "b/c": b"2"})
        assert (await ask(guest, "open('a').read() + open('b/c').read() + open('/input/a').read()")).value == "121"
        assert await guest.collect(*MOST) == Collected()
        await ask(guest, "open('new', 'w').write('x')", 2)
        assert await guest.collect(*MOST) == Collected((("new", b"x"),))
        await ask(guest, "import os\nos.remove('a')\nopen('a', 'w').write('mine')", 3)
        guest.kill()
        assert await guest.collect(*MOST) == Collected((("a", b"mine"),))
        assert await guest.collect(*MOST) == Collected()
        await guest.aclose()
        assert staged(place) == []
    assert os.listdir(place) == []


async def test_a_guest_of_a_killed_zygote_is_collected_and_its_successor_has_files(place: Path) -> None:
    async with running("jail tier 1") as backend:
        assert isinstance(backend, JailBackend)
        guest = await backend.open_with(ALLOWANCE, {"a": b"1"})
        await ask(guest, "open('new', 'w').write('x')")
        os.kill(backend.zygote_pid, signal.SIGKILL)
        assert await gone(guest.pid)
        assert await guest.collect(*MOST) == Collected((("new", b"x"),))
        await guest.aclose()
        other = await backend.open_with(ALLOWANCE, {"a": b"2"})
        assert (await ask(other, "open('a').read()")).value == "2"
        await other.aclose()
    assert os.listdir(place) == []


async def test_guests_of_a_worn_zygote_keep_their_files_until_they_end(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running("jail tier 1") as backend:
        assert isinstance(backend, JailBackend)
        monkeypatch.setattr(jail, "_RUNS_PER_ZYGOTE", 3)
        guests = [await backend.open_with(ALLOWANCE, {"a": str(number).encode()}) for number in range(8)]
        for number, guest in enumerate(guests):
            await ask(guest, "open('new', 'w').write(open('a').read())")
            assert await guest.collect(*MOST) == Collected((("new", str(number).encode()),))
        assert len(os.listdir(place)) > 1
        for guest in guests:
            await guest.aclose()
        for _ in range(4):
            await (await backend.open_with(ALLOWANCE, {"a": b""})).aclose()
        assert len(os.listdir(place)) <= 3, "those that are worn and have no guests are gone"
    assert os.listdir(place) == []


async def test_opening_with_files_may_be_cancelled_at_any_moment(place: Path, tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(bytes(20 << 20))
    files: Files = {"copied": tmp_path / "large", "bytes": bytes(5 << 20)}
    if os.geteuid() == 0:
        (tmp_path / "large").chmod(0o600)  # no guest may read it, so it is copied
    async with running("jail tier 1") as backend:
        assert isinstance(backend, JailBackend)
        await (await backend.open_with(ALLOWANCE, files)).aclose()
        before, processes = len(open_files()), len(descendants())
        for wait in range(12):
            with anyio.move_on_after(wait * 0.003):
                guest = await backend.open_with(ALLOWANCE, files)
                with anyio.CancelScope(shield=True):
                    await guest.aclose()
        await until(lambda: len(open_files()) <= before and len(descendants()) <= processes)
        await until(lambda: not staged(place))


async def test_a_guest_that_nobody_collects_leaves_no_descriptor(place: Path) -> None:
    async with running("jail tier 1") as backend:
        assert isinstance(backend, JailBackend)
        await (await backend.open(ALLOWANCE)).aclose()
        before = len(open_files())
        for _ in range(3):
            guest = await backend.open_with(ALLOWANCE, {"a": b""})
            await ask(guest, "open('new', 'w').write('x')")
            await guest.aclose()
            assert await guest.collect(*MOST) == Collected()
        left = await backend.open_with(ALLOWANCE, {"a": b""})
        await left.send(request("while True: pass"))
    assert await left.collect(*MOST) == Collected()
    assert len(open_files()) <= before


WRITES = """
import os, tempfile
for folder in (os.environ["MPLCONFIGDIR"], tempfile.gettempdir() if {tier} == 1 else os.environ["MPLCONFIGDIR"]):
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "written-ahead"), "w") as file:
        file.write("x")
where = os.environ["MPLCONFIGDIR"]
"""


@pytest.mark.parametrize("tier", [1, 2])
async def test_what_modules_write_when_they_are_imported_ahead_no_guest_finds(
    place: Path, readable: Path, tier: int
) -> None:
    async with running(f"jail tier {tier}"):
        pass
    packages = readable / "packages"
    os.mkdir(packages)
    (packages / "writes.py").write_text(WRITES.format(tier=tier))
    before = set(os.listdir("/tmp"))
    async with JailBackend(tier=tier, packages=str(packages), preimport=("writes",)) as backend:
        guest = await backend.open(ALLOWANCE)
        look = "import os, writes\n[os.path.exists(writes.where), os.environ['MPLCONFIGDIR']]"
        assert (await ask(guest, look)).value == [False, "/tmp/matplotlib"]
        if tier == 1:
            assert (await ask(guest, "import os\n[os.listdir('/tmp'), os.listdir('/output')]", 2)).value == [[], []]
        await guest.aclose()
    assert not {name for name in set(os.listdir("/tmp")) - before if "matplotlib" in name}


async def test_nothing_is_left_of_a_zygote_that_was_launched_ahead_and_not_taken(place: Path) -> None:
    files = len(open_files())
    with launched_ahead(ZygoteSettings(tier=1)):
        assert len(os.listdir(place)) == 1
    assert os.listdir(place) == []
    assert len(open_files()) <= files


def test_a_host_that_is_killed_leaves_nothing_but_a_folder_that_the_next_start_removes(place: Path) -> None:
    program = textwrap.dedent(f"""
        import anyio, os, tempfile
        from callgate import Runtime
        tempfile.tempdir = {str(place)!r}

        async def main():
            async with Runtime(pool_size=1, tier=1) as runtime:
                def started(event):
                    os.kill(os.getpid(), 9)
                code = "open('x', 'wb').write(bytes(1 << 20))\\nprint('on')\\nwhile True: pass"
                await runtime.execute_code(code, files={{"a": b"x"}}, on_event=started)

        anyio.run(main)
        """)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    if "SandboxUnavailable" in done.stderr and os.environ.get("CI") != "true":
        pytest.skip(done.stderr.splitlines()[-1])
    assert done.returncode == -signal.SIGKILL
    anyio.run(nothing_of_it_is_left)
    (abandoned,) = place.iterdir()
    an_hour_ago = time.time() - 3600
    os.utime(abandoned, (an_hour_ago, an_hour_ago))

    async def start() -> None:
        async with running("jail tier 1"):
            assert not abandoned.exists()

    anyio.run(start)
    assert os.listdir(place) == []


async def test_tier_2_has_no_files_and_says_which_sandbox_has(tmp_path: Path) -> None:
    async with running("jail tier 2") as backend:
        assert isinstance(backend, JailBackend)
        said = "the jail's tier 2 has no files: allow user namespaces for tier 1, or use sandbox='docker'"
        assert backend.no_files == said
        with pytest.raises(SandboxUnavailable, match="has no files"):
            await backend.open_with(ALLOWANCE, {"a": b""})
        guest = await backend.open(ALLOWANCE)
        assert await guest.collect(*MOST) == Collected()
        await guest.aclose()
    with pytest.raises(ConfigurationError, match=r"^folders: the jail's tier 2 has no files"):
        JailBackend(tier=2, folders={"data": tmp_path})


@pytest.mark.parametrize("name", ["", "..", ".", "a/b", "a\nb", "a\0", "x" * 300, "\udcff", " a", "a\u202eb", "/"])
def test_a_folder_has_a_name_below_input(name: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"^folders: .* is no name of a folder below /input, such as 'data'$"):
        JailBackend(folders={name: tmp_path})


def test_bad_folders_are_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"^folders: 'data' is a path, not int$"):
        JailBackend(folders={"data": 5})  # type: ignore[dict-item]
    with pytest.raises(ConfigurationError, match=r"^folders: 5 is no name"):
        JailBackend(folders={5: tmp_path})  # type: ignore[dict-item]
    with pytest.raises(ConfigurationError, match=r"^folders: 5000 are too many: name a folder above them$"):
        JailBackend(folders={f"d{number}": tmp_path for number in range(5000)})


async def test_many_folders_are_there_with_and_without_files(tmp_path: Path) -> None:
    os.chmod(tmp_path, 0o755)
    async with running("jail tier 1"):
        pass
    async with JailBackend(tier=1, folders={f"d{number}": tmp_path for number in range(40)}) as backend:
        for files in ({}, {"a": b""}):
            guest = await backend.open_with(ALLOWANCE, files)
            assert (await ask(guest, "import os\n[len(os.listdir('/input')), len(os.listdir())]")).value == (
                [40 + len(files)] * 2
            )
            assert await guest.collect(*MOST) == Collected()
            await guest.aclose()


async def test_auto_with_folders_takes_the_jail_and_refuses_what_is_no_file_on_opening(tmp_path: Path) -> None:
    os.chmod(tmp_path, 0o755)
    backend = make_backend("auto", folders={"data": tmp_path})
    assert isinstance(backend, JailBackend)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ConfigurationError, match="is a FIFO"):
        async with Runtime(folders={"data": tmp_path}):
            pass
    with pytest.raises(ConfigurationError, match="there is no folder"):
        async with Runtime(folders={"data": tmp_path / "nowhere"}):
            pass


async def test_a_runtime_runs_programs_with_files_and_tells_bad_ones(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("1")
    async with running("jail tier 1"):
        pass
    async with Runtime(tier=1, pool_size=1) as runtime:
        run = await runtime.execute_code("open('a').read() + open('b').read()", files={"a": tmp_path / "a", "b": b"2"})
        assert run.value == "12"
        for files, said in (
            ({"a": b"", "a/b": b""}, "has the name of another file"),
            ({"../a": b""}, "is no name below /input"),
            ({"a": tmp_path / "nowhere"}, "there is no file"),
            ({"a" * 300: b""}, "is no name below /input"),
        ):
            with pytest.raises(ConfigurationError, match=said):
                await runtime.execute_code("1", files=files)
        assert (await runtime.execute_code("import os\nos.listdir()")).value == []
