"""Environments of peers: made once, whole or not at all, with the peer and callgate's own files and nothing else."""

from __future__ import annotations

import dataclasses
import os
import zipfile
from pathlib import Path

import anyio
import anyio.abc
import pytest

from callgate_bench.contest.process import Environment, PeerFailed, PeerProcess, cache_folder, ready
from callgate_bench.contestants.listed import Listed

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

_SEEN = """
import importlib.util, sys, tiny_peer
print(tiny_peer.WORD, *filter(importlib.util.find_spec, ("anyio", "pydantic", "pytest")), file=sys.stderr)
"""


def peer(*requirements: str, commands: tuple[str, ...] = ()) -> Listed:
    return Listed(
        name="tiny", title="Tiny", mode="code", module="tiny", about="", requirements=requirements, commands=commands
    )


@pytest.fixture
def anyio_backend() -> str:
    """The harness runs on asyncio."""
    return "asyncio"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A requirement that needs no network."""
    path = tmp_path_factory.mktemp("wheels") / "tiny_peer-1.5-py3-none-any.whl"
    about = "tiny_peer-1.5.dist-info"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("tiny_peer.py", "WORD = 'here'\n")
        archive.writestr(f"{about}/METADATA", "Metadata-Version: 2.1\nName: tiny-peer\nVersion: 1.5\n")
        archive.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{about}/RECORD", f"tiny_peer.py,,\n{about}/METADATA,,\n{about}/WHEEL,,\n{about}/RECORD,,\n")
    return f"tiny-peer @ {path.as_uri()}"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache") / "not there yet"


@pytest.fixture(scope="module")
def made(wheel: str, folder: Path) -> Environment:
    async def make() -> Environment:
        return await ready(peer(wheel), folder=folder)

    return anyio.run(make)


def homes(folder: Path) -> list[Path]:
    return [each for each in folder.iterdir() if each.is_dir()]


async def test_it_is_made_and_has_the_peer(made: Environment) -> None:
    assert made.failure == ""
    assert (Path(made.packages) / "tiny_peer.py").read_text() == "WORD = 'here'\n"


async def test_a_second_start_takes_what_the_first_made(made: Environment, wheel: str, folder: Path) -> None:
    told: list[str] = []
    (home,) = homes(folder)
    before = home.stat()
    assert await ready(peer(wheel), folder=folder, on_progress=told.append) == made
    assert told == []
    assert (made.packages, home.stat().st_ino) == (str(home), before.st_ino)


async def test_what_a_killed_harness_left_is_not_taken(made: Environment, wheel: str, tmp_path: Path) -> None:
    (tmp_path / f"{Path(made.packages).name}.unfinished" / "packages").mkdir(parents=True)
    environment = await ready(peer(wheel), folder=tmp_path)
    assert environment == Environment(packages=str(tmp_path / Path(made.packages).name))
    assert (Path(environment.packages) / "tiny_peer.py").exists()


async def test_of_two_harnesses_at_the_same_time_the_first_wins(wheel: str, tmp_path: Path) -> None:
    told: list[str] = []
    both: list[Environment] = []

    async def start() -> None:
        both.append(await ready(peer(wheel), folder=tmp_path, on_progress=told.append))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(start)
        tasks.start_soon(start)
    assert len(told) == 2
    assert both[0] == both[1]
    assert [str(home) for home in homes(tmp_path)] == [both[0].packages]


async def test_a_requirement_that_does_not_exist_gives_pips_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    environment = await ready(peer("no-such-peer>=1"), folder=tmp_path)
    assert "No matching distribution found for no-such-peer>=1" in environment.failure
    assert len(environment.failure) < 450
    assert homes(tmp_path) == []


async def test_what_the_machine_does_not_have_is_named() -> None:
    environment = await ready(peer(commands=("python3", "no-such-command", "nor-this")))
    assert environment.failure == "not on this machine: no-such-command, nor-this"


async def test_nothing_is_made_for_who_cannot_take_part(tmp_path: Path) -> None:
    idle = dataclasses.replace(peer("no-such-peer"), cannot="it has no tools")
    assert (await ready(idle, folder=tmp_path / "cache")).failure == "it has no tools"
    assert "cache" not in os.listdir(tmp_path)


async def test_who_requires_nothing_runs_where_the_harness_runs(tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    assert await ready(peer(commands=("python3",)), folder=folder) == Environment()
    assert "cache" not in os.listdir(tmp_path)


async def test_a_folder_that_cannot_be_made_is_a_reason(wheel: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    environment = await ready(peer(wheel), folder=tmp_path / "file" / "below")
    assert environment.failure.startswith("no environment: ")
    assert "Not a directory" in environment.failure


@pytest.fixture
async def silent(monkeypatch: pytest.MonkeyPatch) -> tuple[str, anyio.abc.SocketListener]:
    """A requirement whose server takes the request and never answers, and that server."""
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.setenv(name, "127.0.0.1")
    server = await anyio.create_tcp_listener(local_host="127.0.0.1")
    port = server.extra(anyio.abc.SocketAttribute.local_port)
    (listener,) = server.listeners
    assert isinstance(listener, anyio.abc.SocketListener)
    return f"tiny-peer @ http://127.0.0.1:{port}/tiny_peer-1.5-py3-none-any.whl", listener


async def test_an_interruption_leaves_no_half_environment_and_no_pip(
    silent: tuple[str, anyio.abc.SocketListener], tmp_path: Path
) -> None:
    requirement, server = silent
    with anyio.fail_after(60):
        async with server, anyio.create_task_group() as tasks:

            async def make() -> None:
                await ready(peer(requirement), folder=tmp_path)

            tasks.start_soon(make)
            async with await server.accept() as pip:
                await pip.receive()
                assert len(homes(tmp_path)) == 1
                tasks.cancel_scope.cancel()
                with anyio.CancelScope(shield=True):
                    assert b"".join([part async for part in pip]) == b""  # to its end: nobody holds the other one
    assert homes(tmp_path) == []


def test_the_cache_is_where_the_desktop_convention_has_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "callgate" / "bench"
    monkeypatch.setenv("XDG_CACHE_HOME", "not/absolute")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder() == tmp_path / ".cache" / "callgate" / "bench"


async def test_a_process_in_it_sees_this_package_and_no_variables_that_lead_elsewhere(
    made: Environment, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "tiny_peer.py").write_text("raise SystemExit('the wrong one')\n")
    (tmp_path / "callgate_bench.py").write_text("raise SystemExit('the wrong one')\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    async with PeerProcess("callgate_bench.contestants.monty", packages=made.packages) as process:
        with pytest.raises(PeerFailed, match="No module named 'pydantic_monty'"):
            await process.ask("version")
    (Path(made.packages) / "looking.py").write_text(_SEEN)
    async with PeerProcess("looking", packages=made.packages) as process:
        with pytest.raises(PeerFailed, match=r"status 0\): here$"):
            await process.ask("version")
