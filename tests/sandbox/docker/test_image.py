"""Images, built by the real engine from this machine's Python."""

from __future__ import annotations

import ast
import io
import json
import re
import tarfile
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import anyio
import pytest

from callgate.errors import ConfigurationError, SandboxError
from callgate.sandbox.docker import build_context, image
from callgate.sandbox.docker.engine import Engine, EngineRefused
from callgate.sandbox.docker.image import ImageFacts
from sandbox.docker.owned import eventually
from wheels import wheel

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

SECONDS = 120.0


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """One loop: a build is the engine's work. The test that cancels runs on both."""
    return "asyncio"


CONTENTS = {"etc", "guest", "input", "lib", "lib64", "output", "packages", "python", "tmp", "usr"}
MADE_BY_THE_ENGINE = {"dev", "proc", "sys", ".dockerenv"}
MODULES = (
    "array asyncio bisect bz2 calendar cmath collections concurrent.futures contextlib copy csv ctypes curses "
    "dataclasses datetime decimal difflib email enum fractions functools getpass gzip hashlib heapq html http.client "
    "importlib.metadata inspect io itertools json logging lzma math multiprocessing operator pathlib pickle pprint pwd "
    "queue random re secrets shlex shutil socket sqlite3 ssl statistics string struct subprocess tempfile textwrap "
    "threading tomllib traceback types typing unicodedata unittest urllib.parse uuid weakref xml.etree.ElementTree "
    "zipfile zlib zoneinfo"
)


@pytest.fixture
async def tag(engine: Engine) -> AsyncIterator[str]:
    """A name for an image that is gone after the test."""
    name = f"callgate-test-{uuid4().hex[:8]}"
    yield name
    if await image.find(engine, name) is not None:
        await engine.call("remove_image", name, force=True)


@pytest.fixture
async def base(engine: Engine, default_image: ImageFacts, tag: str) -> AsyncIterator[str]:
    """An image that has a Python on its PATH, and no pip."""
    name = f"{tag}:base"
    made = await engine.call("create_container", default_image.id)
    try:
        await engine.call("commit", made["Id"], repository=tag, tag="base", changes=["ENV PATH=/python/bin"])
    finally:
        await engine.call("remove_container", made["Id"], force=True)
    yield name
    await engine.call("remove_image", name, force=True)


async def run(engine: Engine, tag: str, program: str) -> str:
    """What `program` prints in a container of the image, confined as guests are; its last words where it fails."""
    limits = await engine.call(
        "create_host_config", network_mode="none", read_only=True, cap_drop=["ALL"], tmpfs={"/tmp": "size=1m"}
    )
    python = ["/python/bin/python3", "-I", "-S", "-B", "-X", "utf8", "-c"]
    setting = "import sys; sys.path.append('/packages')\n"
    made = await engine.call(
        "create_container", tag, entrypoint=[*python, setting + program], user="65534:65534", host_config=limits
    )
    try:
        with anyio.fail_after(SECONDS):
            await engine.call("start", made["Id"])
            ended = await engine.call("wait", made["Id"], timeout=SECONDS)
            said: bytes = await engine.call("logs", made["Id"])
            assert ended["StatusCode"] == 0, said.decode()
            return said.decode()
    finally:
        await engine.call("remove_container", made["Id"], force=True)


async def layers(engine: Engine, tag: str) -> list[str]:
    found: list[str] = (await engine.call("inspect_image", tag))["RootFS"]["Layers"]
    return found


async def leftovers(engine: Engine, build: str) -> list[Any]:
    """What is labelled as made on the way by the build `build`."""
    filters = {"label": f"callgate.build={build}"}
    return [
        *await engine.call("containers", all=True, filters=filters),
        *await engine.call("images", all=True, filters=filters),
    ]


@pytest.fixture
def build_ids(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The ids of the builds of this test, as they begin."""
    ids: list[str] = []

    def new() -> Any:
        made = uuid4()
        ids.append(made.hex[:12])
        return made

    monkeypatch.setattr("callgate.sandbox.docker.image.uuid.uuid4", new)
    return ids


async def test_the_image_says_what_it_is(engine: Engine, default_image: ImageFacts) -> None:
    assert default_image.tag == "callgate-sandbox"
    assert default_image.id.startswith("sha256:")
    assert 20e6 < default_image.size_bytes < 120e6
    assert re.fullmatch(r"3\.\d+\.\d+", default_image.python)
    assert default_image.guest == image.guest_digest()
    assert not default_image.outdated
    assert default_image == await image.find(engine)


async def test_the_image_runs_as_nobody_and_starts_the_guest(engine: Engine, default_image: ImageFacts) -> None:
    config = (await engine.call("inspect_image", default_image.id))["Config"]
    assert config["User"] == "65534:65534"
    assert config["WorkingDir"] == "/"
    assert config["Entrypoint"][:7] == ["/python/bin/python3", "-P", "-s", "-S", "-B", "-X", "utf8"]
    assert "callgate_guest.container" in config["Entrypoint"][-1]
    assert {"LD_LIBRARY_PATH=/lib", "MALLOC_ARENA_MAX=2"} <= set(config["Env"])
    assert "PYTHONHASHSEED" not in str(config["Env"])
    assert config["Cmd"] is None


async def test_there_is_no_shell_no_pip_and_nothing_unexpected(engine: Engine, default_image: ImageFacts) -> None:
    program = """
import json, os, stat
names, runnable, writable = [], [], []
for where, folders, files in os.walk("/"):
    folders[:] = [each for each in folders if os.path.join(where, each) not in ("/proc", "/sys", "/dev")]
    for path in [where, *(os.path.join(where, file) for file in files)]:
        mode = os.lstat(path).st_mode
        names.append(os.path.basename(path))
        if stat.S_ISREG(mode) and mode & 0o111:
            runnable.append(path)
        if not stat.S_ISLNK(mode) and mode & 0o022:
            writable.append(path)
        assert not mode & (stat.S_ISUID | stat.S_ISGID), path
print(json.dumps([os.listdir("/"), names, runnable, writable]))
"""
    top, names, runnable, writable = json.loads(await run(engine, default_image.id, program))
    assert set(top) - MADE_BY_THE_ENGINE <= CONTENTS
    shells = {"sh", "bash", "dash", "ash", "busybox", "env", "pip", "apt", "apt-get", "dpkg", "apk", "perl"}
    assert not shells & set(names)
    assert not {"site-packages", "dist-packages", "ensurepip", "idlelib", "tkinter", "test"} & set(names)
    outside_lib = [path for path in runnable if not path.startswith("/lib") or not re.search(r"\.so\b", path)]
    assert [path for path in outside_lib if "/ld-" not in path] in (
        [],
        ["/python/bin/python3"],
        ["/.dockerenv", "/python/bin/python3"],
    )
    assert set(writable) <= {"/tmp"}


async def test_the_standard_library_works_in_it(engine: Engine, default_image: ImageFacts) -> None:
    program = f"""
import ctypes, decimal, getpass, importlib, json, os, pwd, sqlite3, ssl, sys, tempfile, threading, zoneinfo
for name in {MODULES.split()}:
    importlib.import_module(name)
assert zoneinfo.ZoneInfo("Europe/Berlin").key == "Europe/Berlin"
assert sqlite3.connect(":memory:").execute("select 1 + 1").fetchone() == (2,)
assert decimal.Decimal("0.1") * 3 == decimal.Decimal("0.3")
assert ctypes.CDLL(None).getpid() == os.getpid()
assert ssl.create_default_context() is not None
assert pwd.getpwuid(os.getuid()).pw_name == getpass.getuser() == "sandbox"
assert tempfile.TemporaryFile().write(b"x") == 1
threading.Thread(target=print, daemon=True).start()
print(json.dumps([os.getuid(), sys.prefix, "/python/lib" in json.__cached__ and os.path.exists(json.__cached__)]))
"""
    said = await run(engine, default_image.id, program)
    assert json.loads(said.strip().splitlines()[-1]) == [65534, "/python", True]


async def test_compiled_files_are_not_compared_with_their_sources(engine: Engine, default_image: ImageFacts) -> None:
    program = "import json; print(int.from_bytes(open(json.__cached__, 'rb').read(8)[4:], 'little'))"
    assert (await run(engine, default_image.id, program)).strip() == "1"  # PEP 552: hash-based, not to be checked


# on one loop: it is the longest, and what it looks at is pip and the linker
async def test_numpy_and_pandas_can_be_imported(engine: Engine, tag: str) -> None:
    heard: list[str] = []
    made = await image.build(engine, base="host", requirements="numpy pandas", tag=tag, on_progress=heard.append)
    names = [each.partition("==")[0] for each in made.packages]
    assert {"numpy", "pandas"} <= set(names)
    assert names == sorted(names, key=str.lower)
    assert any("numpy" in line for line in heard)
    program = "import numpy, pandas; print(pandas.DataFrame({'a': numpy.arange(4)})['a'].rolling(2).sum().iloc[-1])"
    assert (await run(engine, tag, program)).strip() == "5.0"


async def test_the_same_inputs_give_the_same_layers(engine: Engine, tag: str, tmp_path: Path) -> None:
    package = wheel(tmp_path) + "\n"
    first = await image.build(engine, base="host", requirements=package, tag=tag)
    found = await layers(engine, tag)
    await engine.call("remove_image", tag, force=True)
    second = await image.build(engine, base="host", requirements=package, tag=tag)
    assert first.id != second.id
    assert await layers(engine, tag) == found


async def test_an_image_of_a_base_is_what_one_of_this_machine_is(
    engine: Engine, default_image: ImageFacts, base: str, tag: str, build_ids: list[str]
) -> None:
    heard: list[str] = []
    made = await image.build(engine, base=base, tag=tag, on_progress=heard.append)
    assert replace(made, tag=default_image.tag, id=default_image.id, created="", size_bytes=0) == replace(
        default_image, created="", size_bytes=0
    )
    own = ["collecting the image's files", "making the image"]
    assert [line for line in heard if line in own] == own  # once each, in this order, among the engine's lines
    assert heard[0] == own[0]
    assert heard[1].startswith("Step 1/")
    assert await leftovers(engine, build_ids[0]) == []
    ours, theirs = [(await engine.call("inspect_image", each))["Config"] for each in (default_image.id, tag)]
    for name in ("User", "WorkingDir", "Entrypoint", "Cmd", "Labels"):
        assert ours[name] == theirs[name]
    program = "import sys, os; print(sys.version_info[:2], sorted(os.listdir('/python/lib')), os.listdir('/guest'))"
    assert await run(engine, tag, program) == await run(engine, default_image.id, program)
    again = await image.build(engine, base=base, tag=tag)
    assert again.id == made.id, "the engine has every step of it"


async def test_packages_are_told_imported_and_gone_with_the_next_image(
    engine: Engine, tag: str, tmp_path: Path
) -> None:
    made = await image.build(engine, base="host", requirements=wheel(tmp_path) + "\n", tag=tag)
    assert made.packages == ("callgate_test_package==1.5",)
    program = "import os, callgate_test_package as it; print(it.ANSWER, os.listdir(os.path.dirname(it.__file__)))"
    answer, _, files = (await run(engine, tag, program)).strip().partition(" ")
    assert answer == "42"
    assert sorted(ast.literal_eval(files)) == ["__init__.py", "__pycache__"]
    # the image loses its only name to the next one
    again = await image.build(engine, base="host", tag=tag)
    assert again.packages == ()
    with pytest.raises(EngineRefused) as gone:
        await engine.call("inspect_image", made.id)
    assert gone.value.status == 404


async def test_another_guest_makes_the_image_outdated(default_image: ImageFacts) -> None:
    assert replace(default_image, guest="0" * 16).outdated
    assert replace(default_image, guest="").outdated


async def test_an_image_that_is_not_there_is_none(engine: Engine) -> None:
    assert await image.find(engine, "callgate-nowhere") is None


async def test_a_base_that_nobody_has_says_what_to_do(engine: Engine, tag: str, build_ids: list[str]) -> None:
    with pytest.raises(SandboxError, match=r"the base image callgate-nowhere:1 is not on this engine .*--base host"):
        await image.build(engine, base="callgate-nowhere:1", tag=tag)
    assert await leftovers(engine, build_ids[0]) == []


async def test_a_base_without_python_names_the_step_and_leaves_nothing(
    engine: Engine, tag: str, tmp_path: Path, build_ids: list[str]
) -> None:
    path = tmp_path / "empty.tar"
    with tarfile.open(path, "w") as tar:
        tar.addfile(tarfile.TarInfo("nothing"), io.BytesIO())
    await engine.call("import_image", str(path), repository=tag, tag="base")
    try:
        with pytest.raises(
            SandboxError, match=r'(?s)building the image .* failed:.*Step \d+/\d+ : RUN \["python3".*python3'
        ):
            await image.build(engine, base=f"{tag}:base", tag=tag)
        assert await leftovers(engine, build_ids[0]) == []
    finally:
        await engine.call("remove_image", f"{tag}:base", force=True)


async def test_requirements_in_a_base_without_pip_say_so(
    engine: Engine, base: str, tag: str, build_ids: list[str]
) -> None:
    with pytest.raises(SandboxError, match=r"(?s) failed:.*RUN .*has no pip.*python3 -m ensurepip"):
        await image.build(engine, base=base, requirements="six", tag=tag)
    assert await leftovers(engine, build_ids[0]) == []


async def test_a_requirement_that_nobody_has_names_pips_own_words(engine: Engine, tag: str) -> None:
    with pytest.raises(
        SandboxError, match=r"(?s)collecting the requirements.*No matching distribution found for callgate-no"
    ):
        await image.build(engine, base="host", requirements="--no-index callgate-nowhere", tag=tag)
    assert await image.find(engine, tag) is None


async def dangling(engine: Engine) -> set[str]:
    """Images that have no name."""
    return {each["Id"] for each in await engine.call("images", filters={"dangling": True})}


async def nothing_dangles(engine: Engine, before: set[str]) -> None:
    """Wait until no image is left without a name: other tests import some at the same time, and name them then."""

    async def none() -> bool:
        return await dangling(engine) <= before

    await eventually(none, SECONDS)


@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"], scope="module")
@pytest.mark.parametrize("at", ["collecting", "making"])
@pytest.mark.parametrize("of", ["host", "a base"])
async def test_a_build_that_is_given_up_leaves_nothing(
    engine: Engine, base: str, tag: str, build_ids: list[str], of: str, at: str
) -> None:
    before = await dangling(engine)
    with anyio.fail_after(SECONDS), anyio.CancelScope() as scope:

        def give_up(line: str) -> None:
            if line.startswith(at):
                scope.cancel()

        await image.build(engine, base="host" if of == "host" else base, tag=tag, on_progress=give_up)
    assert scope.cancelled_caught
    assert await image.find(engine, tag) is None
    assert await leftovers(engine, build_ids[0]) == []
    await nothing_dangles(engine, before)


@pytest.mark.parametrize("of", ["host", "a base"])
async def test_builds_at_the_same_time_do_not_mind_each_other(
    engine: Engine, base: str, tag: str, build_ids: list[str], of: str
) -> None:
    before = await dangling(engine)
    async with anyio.create_task_group() as tasks:
        for _ in range(2):
            tasks.start_soon(lambda: image.build(engine, base="host" if of == "host" else base, tag=tag))
    assert await image.find(engine, tag) is not None
    assert [await leftovers(engine, each) for each in build_ids] == [[], []]
    await nothing_dangles(engine, before)


@pytest.mark.parametrize("name", ["", "a b", "-x", "UPPER/\n"])
async def test_a_tag_that_is_no_name_is_refused_before_anything_is_done(engine: Engine, name: str) -> None:
    with pytest.raises(ConfigurationError, match="is not a name of an image"):
        await image.build(engine, base="host", tag=name)


@pytest.mark.parametrize("given", ["", "numpy pandas", "numpy >= 2\n# why\n\npandas"])
def test_requirements_are_names_or_lines(given: str) -> None:
    assert build_context.requirement_text(given) == given


def test_requirements_are_read_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "requirements.txt"
    path.write_text("# ours\nnumpy>=2\n")
    assert build_context.requirement_text(str(path)).split("\n")[:2] == ["# ours", "numpy>=2"]
    path.write_bytes(b"\xff")
    for refused in (tmp_path / "no.txt", path):
        with pytest.raises(ConfigurationError, match="requirements file"):
            build_context.requirement_text(str(refused))


def test_the_digest_of_the_guest_is_of_its_sources() -> None:
    assert re.fullmatch(r"[0-9a-f]{16}", image.guest_digest())
    assert image.guest_digest() == image.guest_digest()


def test_a_package_that_prints_what_the_collection_prints_does_not_end_the_build() -> None:
    output = build_context.BuildOutput(lambda _: None)
    output.take('callgate-facts {"python": "3.13.1"}\ncallgate-facts are what I print\n')
    assert output.facts == {"python": "3.13.1"}
