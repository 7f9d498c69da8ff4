"""srt against what its programs, its host and its surroundings may do: nothing is left, nothing is believed.

Programs run under srt alone here, as on macOS: with Landlock inside they can write nowhere and signal nobody.
"""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import anyio
import pytest

from callgate import Limits, Runtime, SandboxCrashed, SandboxUnavailable
from callgate.sandbox.backend import Allowance, GuestExit
from callgate.sandbox.process import remove
from callgate.sandbox.srt import settings
from callgate.sandbox.srt.backend import WATCHED, SrtBackend
from callgate.sandbox.srt.guest import Words
from sandbox.asking import ask, descendants, open_files, until
from sandbox.test_srt import anyio_backend, command, folders, srt

__all__ = ["anyio_backend", "srt"]

pytestmark = [pytest.mark.anyio, pytest.mark.slow]
ALLOWANCE = Allowance.of(Limits())
DEEP = "import os\nfor _ in range(1500):\n    os.mkdir('d')\n    os.chdir('d')\n"


def deep(folder: Path) -> None:
    """A tree deeper than Python's recursion, and than a path may be long."""
    subprocess.run([sys.executable, "-c", DEEP], cwd=folder, check=True)


async def test_a_tree_deeper_than_pythons_recursion_is_removed(srt: str) -> None:
    async with SrtBackend(confine=False) as backend:
        guest = await backend.open(ALLOWANCE)
        await ask(guest, DEEP)
        await guest.aclose()
        assert folders() == []


async def test_a_deep_tree_that_a_killed_host_left_does_not_stop_the_next_start(srt: str) -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as host:  # noqa: ASYNC220 (ends at once)
        pass
    left = Path(tempfile.mkdtemp(prefix=f"callgate-srt-{host.pid}-"))
    try:
        deep(left)
        async with SrtBackend(confine=False):
            assert left.name not in os.listdir(tempfile.gettempdir())
    finally:
        remove(str(left))


def test_removing_a_folder_changes_nothing_that_its_links_lead_to() -> None:
    """A program may close a folder of its own to its user, whose modes have to be changed then."""
    with tempfile.TemporaryDirectory() as above:
        other, folder = Path(above, "other"), Path(above, "folder")
        other.write_text("")
        other.chmod(0o640)
        (folder / "closed").mkdir(parents=True)
        (folder / "closed" / "link").symlink_to(other)
        (folder / "closed").chmod(0o500)
        child = os.fork()
        if child == 0:
            try:
                if os.geteuid() == 0:  # whom no mode stops
                    for path in (above, folder, folder / "closed", other):
                        os.chown(path, 65534, 65534)
                    os.setgroups([])
                    os.setresgid(65534, 65534, 65534)
                    os.setresuid(65534, 65534, 65534)
                os._exit(0 if remove(str(folder)) else 1)
            finally:
                os._exit(2)
        assert os.waitpid(child, 0)[1] == 0
        assert not folder.exists()
        assert other.stat().st_mode & 0o777 == 0o640


async def test_a_folder_that_cannot_be_removed_is_left_and_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("callgate.sandbox.process._REMOVE_SECONDS", (0.0,))
    monkeypatch.setattr(shutil, "rmtree", lambda _: None)
    monkeypatch.setenv("PATH", "/nowhere")
    assert not remove(str(tmp_path))


HOST = """
import anyio
from callgate import Runtime
from callgate.sandbox.srt.backend import SrtBackend
code = "import os, time\\nos.kill(os.getppid(), 19)\\nwhile True: time.sleep(1)"
async def main():
    async with Runtime(sandbox=SrtBackend(confine=False), pool_size=1) as runtime:
        print("runs", flush=True)
        await runtime.execute_code(code, path="sandbox")
anyio.run(main)
"""


def processes_of(mark: str) -> list[int]:
    """Processes whose command has `mark` in it."""
    found = []
    for each in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if mark.encode() in each.read_bytes():
                found.append(int(each.parent.name))
        except OSError:
            continue
    return found


async def test_a_guest_that_stopped_its_parent_ends_with_a_killed_host(srt: str) -> None:
    with subprocess.Popen([sys.executable, "-c", HOST], stdout=subprocess.PIPE) as host:  # noqa: ASYNC220 (is killed)
        assert host.stdout is not None
        assert host.stdout.readline() == b"runs\n"
        await anyio.sleep(1.5)
        host.send_signal(signal.SIGKILL)
    mark = f"callgate-srt-{host.pid}-"
    try:
        await until(lambda: not processes_of(mark))
    finally:
        for pid in processes_of(mark):
            os.kill(pid, signal.SIGKILL)
        for name in os.listdir(tempfile.gettempdir()):
            if name.startswith(mark):
                remove(os.path.join(tempfile.gettempdir(), name))


def test_the_end_of_stdin_ends_a_whole_process_group() -> None:
    command = ["/bin/sh", "-c", WATCHED, "sh", "sh", "-c", "sleep 60 & echo up; sleep 60"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True) as started:
        assert started.stdout is not None
        assert started.stdout.readline() == b"up\n"
        assert started.stdin is not None
        started.stdin.close()
        assert started.stdout.read() == b"", "the processes below hold it, too"
        assert started.wait(10) == -signal.SIGKILL


PREIMPORTED = {
    "half a line": "import os\nos.write(1, b'half a line')",
    "a word of ours": "import os\nos.write(1, b'ready to go\\nready -1\\ncallgate-ready -1\\n')",
    "text that is not written yet": "print('half', end='')",
    "much": "import os\nfor _ in range(100): os.write(2, b'x' * 1000 + b'\\n')",
}


@pytest.mark.parametrize("says", PREIMPORTED)
@pytest.mark.parametrize("confine", [True, False])
async def test_what_modules_say_when_they_are_imported_ahead_is_not_taken_for_the_guests_words(
    srt: str, tmp_path: Path, says: str, confine: bool
) -> None:
    (tmp_path / "mine.py").write_text(PREIMPORTED[says])
    backend = SrtBackend(packages=str(tmp_path), preimport=("mine",), confine=confine)
    async with Runtime(sandbox=backend, pool_size=0) as runtime:
        run = await runtime.execute_code("1 + 1", path="sandbox")
        assert run.value == 2, run.error


async def test_a_module_that_cannot_be_imported_is_named_at_the_end_of_the_error(srt: str, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("import sys\nprint('x' * 5000, file=sys.stderr)\nimport nosuch")
    with pytest.raises(SandboxUnavailable, match=r"No module named 'nosuch'$"):
        await SrtBackend(packages=str(tmp_path), preimport=("mine",), confine=False).__aenter__()


ENDED = r"ended (-?\d{1,3}) (\d{1,9}\.\d{6}) (\d{1,18})"


@pytest.mark.parametrize(
    "said",
    [
        b"ended {nonsense", b"ended 0 1e400 1", b"ended 0 nan 1", b"ended 0 1.000000 -5", b"ended 0 -1.000000 5",
        b"ended " + b"9" * 5000 + b" 1.000000 5", b"ended \xff\xff", b"x ended 0 1.000000 5", b"x" * (1 << 20),
    ],
)  # fmt: skip
async def test_words_that_are_not_exactly_those_of_a_parent_are_not_read(said: bytes) -> None:
    with tempfile.TemporaryFile() as file:
        ours, theirs = os.pipe()
        words = Words(ours, os.dup(file.fileno()))
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(anyio.to_thread.run_sync, write, theirs, b"callgate-" + said + b"\n")
                assert await words.line(ENDED, 5) is None
        finally:
            words.close()


async def test_the_words_of_a_parent_are_found_after_much_else() -> None:
    with tempfile.TemporaryFile() as file:
        ours, theirs = os.pipe()
        words = Words(ours, os.dup(file.fileno()))
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(anyio.to_thread.run_sync, write, theirs, b"x" * 300_000 + b"\ncallgate-ready 7\n")
                assert await words.line(r"ready (\d{1,9})", 5) == ("7",)
        finally:
            words.close()


def write(fd: int, data: bytes) -> None:
    """Write all, and close."""
    with open(fd, "wb") as file:
        file.write(data)


async def test_without_descriptors_an_opening_fails_by_name_and_leaves_nothing(srt: str) -> None:
    async with SrtBackend(confine=False) as backend:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        before = open_files()
        opened = 0
        try:
            for more in range(0, 26, 2):
                resource.setrlimit(resource.RLIMIT_NOFILE, (max(map(int, os.listdir("/proc/self/fd"))) + more, hard))
                try:
                    guest = await backend.open(ALLOWANCE)
                except SandboxCrashed as error:
                    assert "raise the limit on open files" in str(error)  # noqa: PT017
                else:
                    opened += 1
                    await guest.aclose()
                resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
                assert folders() == []
                assert open_files() == before
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        assert opened


async def test_a_folder_that_srt_cannot_work_in_is_named(
    srt: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("l" * 90, "a'b", "br[a]ck", "new\nline"):
        (tmp_path / name).mkdir()
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / name))
        with anyio.fail_after(10), pytest.raises(SandboxUnavailable, match="set TMPDIR to another folder"):
            await SrtBackend(confine=False).__aenter__()
        assert os.listdir(tmp_path / name) == []


async def test_a_full_disk_is_an_error_of_the_sandbox(srt: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    async with SrtBackend(confine=False) as backend:
        monkeypatch.setattr(os, "mkfifo", full)
        with pytest.raises(SandboxCrashed, match="No space left on device"):
            await backend.open(ALLOWANCE)
        assert folders() == []


async def test_a_path_from_the_working_directory_is_not_looked_up_in_the_guests_folder(
    srt: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bin").mkdir()
    command(tmp_path / "bin", "srt", f'echo "$PATH" > {tmp_path}/seen; exec {srt} "$@"')
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"bin:{os.environ['PATH']}:")
    async with SrtBackend(confine=False) as backend:
        heard = await ask(await backend.open(ALLOWANCE), "1 + 1")
        assert heard.reply is not None
        assert heard.reply["result"] == {"value": 2}
    seen = (tmp_path / "seen").read_text().strip().split(":")
    assert all(map(os.path.isabs, seen))
    assert seen[-1] == str(tmp_path), "an empty entry is the host's working directory"


def test_no_folder_above_srts_own_is_readable(tmp_path: Path) -> None:
    """Where srt lies below a folder of that name, too."""
    srt = tmp_path / "dist" / "sandbox-runtime" / "dist" / "cli.js"
    srt.parent.mkdir(parents=True)
    srt.touch()
    reads = settings.settings_of("/nowhere", str(srt), None)["filesystem"]["allowRead"]
    assert str(tmp_path / "dist" / "sandbox-runtime") in reads
    assert str(tmp_path) not in reads


def test_python_is_shown_without_links(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Debian's python3 is a link, and srt shows what it leads to alone."""
    (tmp_path / "python3").symlink_to(os.path.realpath(sys.executable))
    monkeypatch.setattr(sys, "_base_executable", str(tmp_path / "python3"))
    assert settings.real_python() == os.path.realpath(sys.executable)
    assert settings.real_python() in settings.settings_of("/", "/srt", None)["filesystem"]["allowRead"]


async def test_every_guest_is_closed_at_the_end_even_if_one_cannot_be(
    srt: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = set(descendants())
    backend = SrtBackend(confine=False)
    await backend.__aenter__()
    guests = [await backend.open(ALLOWANCE) for _ in range(3)]
    close = guests[1].aclose

    async def fails() -> GuestExit:
        await close()
        raise SandboxCrashed("it stays")

    monkeypatch.setattr(guests[1], "aclose", fails)
    with pytest.raises(SandboxCrashed, match="it stays"):
        await backend.__aexit__(None, None, None)
    assert [guest.exit is None for guest in guests] == [False] * 3
    await until(lambda: set(descendants()) <= before)


async def test_many_tasks_may_close_one_guest_at_once(srt: str) -> None:
    async with SrtBackend(confine=False) as backend:
        guest = await backend.open(ALLOWANCE)
        exits: list[GuestExit] = []

        async def close() -> None:
            exits.append(await guest.aclose())

        async with anyio.create_task_group() as tasks:
            for _ in range(4):
                tasks.start_soon(close)
        assert exits == [guest.exit] * 4
