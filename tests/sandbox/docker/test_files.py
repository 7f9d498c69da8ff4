"""Files in containers: what comes in below /input, and what programs leave in /output."""

from __future__ import annotations

import hashlib
import os
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from callgate import CodeResult, Limits, Runtime
from callgate.errors import ConfigurationError, SandboxCrashed, SandboxUnavailable
from callgate.sandbox.docker.backend import DockerBackend
from callgate.sandbox.docker.engine import Engine
from callgate.sandbox.docker.image import ImageFacts
from sandbox.asking import ALLOWANCE
from sandbox.docker.owned import none_left

pytestmark = pytest.mark.anyio

LIMITS = Limits(memory_bytes=128 << 20, max_file_bytes=16 << 20, wall_seconds=30)


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of the host: a file, a folder with a file, a link that leaves it."""
    made = tmp_path_factory.mktemp("data")
    os.chmod(made, 0o755)
    (made / "cities.csv").write_text("city,people\nOslo,700000\nBergen,290000\n")
    (made / "more").mkdir()
    (made / "more" / "deep.txt").write_text("deep")
    (made / "out").symlink_to("/etc/hostname")
    return made


@pytest.fixture(scope="module")
async def runtime(folder: Path, default_image: ImageFacts, anyio_backend: str) -> AsyncIterator[Runtime]:
    backend = DockerBackend(folders={"data": folder})
    async with Runtime(sandbox=backend, limits=LIMITS, pool_size=0, path="sandbox") as opened:
        yield opened


def found(result: CodeResult) -> dict[str, bytes]:
    assert result.ok, result.error
    return {each.name: each.read() for each in result.artifacts}


async def test_a_program_finds_its_files_and_leaves_others(runtime: Runtime, tmp_path: Path) -> None:
    tmp_path.joinpath("sales.csv").write_text("a,b\n1,2\n")
    files: dict[str, str | Path | bytes] = {
        "sales.csv": tmp_path / "sales.csv", "raw.bin": bytes(range(256)), "a/b.txt": b"below",
    }  # fmt: skip
    code = """
import os
rows = open("sales.csv").read()
assert rows == open("/input/sales.csv").read()
assert open("raw.bin", "rb").read() == bytes(range(256))
assert open("a/b.txt").read() == open("/input/a/b.txt").read() == "below"
assert open("data/cities.csv").read() == open("/input/data/cities.csv").read()
assert open("/input/data/more/deep.txt").read() == "deep"
assert os.path.realpath("/output") == os.getcwd()
with open("out.csv", "w") as file:
    file.write(rows.upper())
os.makedirs("plots/old")
open("plots/old/p.png", "wb").write(b"\\x89PNG\\r\\n\\x1a\\n" + bytes(3_000_000))
open("/output/.cache", "w").write("x")
open("/tmp/elsewhere", "w").write("x")
sorted(os.listdir("/input"))
"""
    result = await runtime.execute_code(code, files=files)
    assert result.value == ["a", "data", "raw.bin", "sales.csv"]
    left = found(result)
    assert left == {"out.csv": b"A,B\n1,2\n", "plots/old/p.png": b"\x89PNG\r\n\x1a\n" + bytes(3_000_000)}
    assert [each.media_type for each in result.artifacts] == ["text/csv", "image/png"]
    assert result.notes == []


async def test_what_came_in_cannot_be_changed(runtime: Runtime) -> None:
    code = """
import os
refused = []
for name, what in {
    "write": lambda: open("/input/a.txt", "a"), "make": lambda: open("/input/b.txt", "w"),
    "truncate": lambda: os.truncate("/input/a.txt", 0), "remove": lambda: os.remove("/input/a.txt"),
    "rename": lambda: os.rename("/input/a.txt", "/input/c.txt"), "folder": lambda: open("/input/data/x", "w"),
    "mode": lambda: os.chmod("/input/data/cities.csv", 0), "times": lambda: os.utime("/input/data/cities.csv"),
    "move": lambda: os.rename("/tmp", "/input/tmp"), "link": lambda: os.link("/input/a.txt", "/output/hard"),
}.items():
    try:
        what()
    except OSError:
        refused.append(name)
[refused, open("/input/a.txt").read()]
"""
    result = await runtime.execute_code(code, files={"a.txt": b"as it was"})
    assert result.ok, result.error
    names = ["write", "make", "truncate", "remove", "rename", "folder", "mode", "times", "move", "link"]
    assert result.value == [names, "as it was"]


async def test_a_run_without_files_finds_the_folders_and_no_files_of_another(runtime: Runtime) -> None:
    await runtime.execute_code("1", files={"mine.txt": b"mine"})
    result = await runtime.execute_code("import os\n[os.listdir('/input'), os.listdir()]")
    assert result.value == [["data"], ["data"]]


async def test_links_that_leave_a_folder_lead_nowhere(runtime: Runtime) -> None:
    code = "try:\n    r = open('/input/data/out').read()\nexcept OSError as error:\n    r = type(error).__name__\nr"
    result = await runtime.execute_code(code)
    assert result.value in ("FileNotFoundError", "PermissionError")


ODD = """
import os, socket
for make in (os.mkfifo, os.mknod):
    try:
        make("pipe")
        assert False
    except OSError:
        pass
os.symlink("/proc/self/environ", "environ")
os.symlink("/proc/self", "self")
os.link("good.txt", "hard.txt") if open("good.txt", "w").write("good") else 0
open("sparse", "wb").truncate(8_000_000)
open("secret", "w").write("x")
os.chmod("secret", 0)
for name in ("new\\nline", "x" * 250, "\\udcff", "..."):
    open(name, "w").write("odd")
place = "deep"
for _ in range(40):
    os.mkdir(place)
    os.chdir(place)
open("far", "w").write("far")
"""


async def test_what_is_no_plain_file_is_told_and_nothing_else_is_read(runtime: Runtime) -> None:
    result = await runtime.execute_code(ODD)
    left = found(result)
    assert left.pop("sparse") == bytes(8_000_000)
    assert left == {"good.txt": b"good", "hard.txt": b"good", "new_line": b"odd", "x" * 120: b"odd", "_": b"odd"}
    notes = "\n".join(result.notes)
    assert "environ and 1 more were not kept: symbolic links are not collected" in notes
    assert "secret was not kept: it cannot be read: Permission denied" in notes
    assert "not kept: folders are looked into 16 deep" in notes


@pytest.mark.parametrize(
    ("code", "count", "note"),
    [
        ("for i in range(40): open(f'{i}.txt', 'w').write('x')", 32, "max_artifacts"),
        ("open('a', 'wb').truncate(1 << 50)", 1, None),
        ("for i in range(3): open(f'{i}', 'wb').write(bytes(5 << 20))", 3, None),
        ("import os\nos.rename('/tmp/output', '/tmp/moved')\nos.symlink('/proc/self', '/tmp/output')", 0, None),
        ("import os\nos.rmdir('data') if 0 else os.remove('data')\nos.rmdir('/tmp/output')", 0, None),
    ],
)
async def test_what_is_too_much_is_told_and_the_rest_is_kept(
    runtime: Runtime, code: str, count: int, note: str | None
) -> None:
    result = await runtime.execute_code(code)
    assert len(result.artifacts) == count
    if note is not None:
        assert note in "\n".join(result.notes)


async def test_files_of_a_program_that_fails_or_is_killed_are_kept(runtime: Runtime) -> None:
    for end in ("1 / 0", "import os\nos._exit(3)", "while True: pass"):
        code = f"with open('kept.txt', 'w') as file: file.write('kept')\n{end}"
        result = await runtime.execute_code(code, limits=Limits(wall_seconds=2, max_file_bytes=1 << 20))
        assert not result.ok
        assert [(each.name, each.text) for each in result.artifacts] == [("kept.txt", "kept")], end


async def test_a_program_that_writes_while_it_is_killed_leaves_what_fits(runtime: Runtime) -> None:
    code = """
import threading
def write(name):
    n = 0
    while True:
        with open(name, "wb") as file:
            file.write(bytes(n % 1_000_000))
        n += 70_000
for number in range(4):
    threading.Thread(target=write, args=(f"{number}.bin",), daemon=True).start()
while True: pass
"""
    result = await runtime.execute_code(code, limits=Limits(wall_seconds=1.5))
    assert result.error is not None
    assert result.error.kind == "LimitReached"
    assert 1 <= len(result.artifacts) <= 4


async def test_a_session_hands_over_what_is_new_or_changed(runtime: Runtime) -> None:
    async with runtime.session(files={"in.txt": b"in"}) as session:
        first = await session.execute_code("open('a', 'w').write(open('in.txt').read()); open('b', 'w').write('b')")
        assert found(first) == {"a": b"in", "b": b"b"}
        assert found(await session.execute_code("1 + 1")) == {}
        assert found(await session.execute_code("open('b', 'w').write('new')")) == {"b": b"new"}
        code = """
import threading, time
written = 0
def write():
    global written
    while True:
        written += 1
        with open("busy", "w") as file:
            file.write("x" * 1000)
        print(end=".")
        time.sleep(0.001)
threading.Thread(target=write, daemon=True).start()
time.sleep(0.1)
"""
        assert len(found(await session.execute_code(code))["busy"]) in (0, 1000)
        assert (await session.execute_code("import time\nbefore = written\ntime.sleep(0.2)\nwritten > before")).value


async def test_bad_files_are_told(runtime: Runtime, tmp_path: Path, engine: Engine) -> None:
    os.mkfifo(tmp_path / "pipe")
    for files, text in (
        ({"data": b""}, "there is a folder of that name"),
        ({"data/x": b""}, "there is a folder of that name"),
        ({"a": b"", "a/b": b""}, "is a file, and the folder of another"),
        ({"../x": b""}, "is no name below /input"),
        ({"x": tmp_path / "nowhere"}, "there is no file"),
        ({"x": tmp_path / "pipe"}, "there is no file"),
    ):
        with pytest.raises(ConfigurationError, match=text):
            await runtime.execute_code("1", files=files)
    with pytest.raises(ConfigurationError, match="leave out path='plan'"):
        await runtime.execute_code("1", files={"x": b""}, path="plan")


async def test_a_folder_that_is_not_there_is_told(engine: Engine, default_image: ImageFacts) -> None:
    with pytest.raises(SandboxUnavailable, match=r"/nowhere/at/all.*folders of the engine's machine"):
        async with DockerBackend(folders={"data": "/nowhere/at/all"}):
            pass
    await none_left(engine)


async def test_a_folder_with_a_pipe_and_a_name_that_leads_elsewhere_are_refused(
    default_image: ImageFacts, tmp_path: Path
) -> None:
    os.chmod(tmp_path, 0o755)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ConfigurationError, match=r"folders: 'data': '.*/pipe' is a FIFO"):
        async with DockerBackend(folders={"data": tmp_path}):
            pass
    for name in ("..", "a/b", "", "../packages"):
        with pytest.raises(ConfigurationError, match="is no name of a folder below /input"):
            DockerBackend(folders={name: tmp_path})


async def test_a_tenants_containers_have_no_files_and_say_so(default_image: ImageFacts) -> None:
    with pytest.raises(ConfigurationError, match="folders: containers that serve run after run"):
        DockerBackend(per="tenant", folders={"data": "/"})
    async with Runtime(sandbox=DockerBackend(per="tenant"), pool_size=0, path="sandbox") as runtime:
        with pytest.raises(ConfigurationError, match=r"files: containers that .*use sandbox='jail'"):
            await runtime.execute_code("1", files={"x": b""})
        code = "import os\ntry:\n    open('x', 'w')\nexcept OSError: r = 1\n[os.getcwd(), r]"
        result = await runtime.execute_code(code)
        assert result.value == ["/", 1]
        assert result.artifacts == []


async def test_files_count_to_the_containers_memory_and_not_to_the_programs(runtime: Runtime) -> None:
    big = os.urandom(1 << 20) * 200
    code = "import hashlib\nhashlib.file_digest(open('big', 'rb'), 'sha256').hexdigest()"
    assert (await runtime.execute_code(code, files={"big": big})).value == hashlib.sha256(big).hexdigest()


async def test_a_container_that_cannot_take_its_files_says_why(engine: Engine, default_image: ImageFacts) -> None:
    async with DockerBackend() as backend:
        with pytest.raises(ConfigurationError, match="a program may have 1,000 files, not 1,001: give it a folder"):
            await backend.open_with(ALLOWANCE, {f"{number}.txt": b"" for number in range(1001)})
        long = {"/".join(["x" * 250] * 16): b""}  # a path may have 4,096 bytes, and the name has 4,015
        (await backend.open_with(ALLOWANCE, long)).kill()
        with pytest.raises(SandboxCrashed, match=r"the container failed: OSError: .*File name too long"):
            await backend.open_with(ALLOWANCE, {"/".join(["x" * 250] * 17): b""})
    await none_left(engine)


async def test_the_longest_names_in_the_deepest_folders_are_handed_over(runtime: Runtime) -> None:
    code = """
import os
open("last", "w").write("x")
for _ in range(16):
    os.mkdir("d" * 255)
    os.chdir("d" * 255)
open("f" * 255, "w").write("deep")
os.chdir("/output")
"""
    async with runtime.session() as session:
        result = await session.execute_code(code)
        assert sorted(found(result).values()) == [b"deep", b"x"]
        assert result.notes == []
        assert (await session.execute_code("1")).value == 1


async def test_a_program_that_is_cancelled_while_its_files_are_handed_over_ends_its_session(runtime: Runtime) -> None:
    code = "for n in range(30): open(f'{n}', 'wb').write(bytes(500_000))"
    async with runtime.session() as session, anyio.create_task_group() as tasks:
        tasks.start_soon(session.execute_code, code)
        while getattr(session._guest, "_collecting", None) is None:
            await anyio.lowlevel.checkpoint()
        tasks.cancel_scope.cancel()
    assert not session.alive
