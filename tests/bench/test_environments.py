"""Environments of peers: made once, whole or not at all, with the peer and callgate's own files and nothing else."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import anyio
import anyio.abc
import pytest

import callgate
from callgate.bench.contest import environments
from callgate.bench.contest.environments import Environment, cache_folder, ready
from callgate.bench.contestants.listed import Listed

pytestmark = pytest.mark.anyio

OURS = Path(callgate.__file__).resolve()

_SEEN = """
import importlib.util, callgate.bench.contestants.seat, tiny_peer
print(callgate.__file__)
print(tiny_peer.WORD, *filter(importlib.util.find_spec, ("anyio", "pydantic", "pytest")))
"""


def peer(*requirements: str, commands: tuple[str, ...] = ()) -> Listed:
    return Listed(
        name="tiny", title="Tiny", mode="code", module="tiny", about="", requirements=requirements, commands=commands
    )


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


def seen(environment: Environment) -> tuple[Path, str]:
    """Where callgate is for its interpreter, and the peer's word, with what should not be there."""
    done = subprocess.run([environment.python, "-P", "-c", _SEEN], check=True, capture_output=True, text=True)
    where, word = done.stdout.splitlines()
    return Path(where).resolve(), word


async def test_it_has_the_peer_and_callgates_files_and_nothing_of_the_host(made: Environment) -> None:
    assert made.failure == ""
    assert made.versions == {"tiny-peer": "1.5"}
    assert made.python != sys.executable
    assert seen(made) == (OURS, "here")


async def test_a_second_start_takes_what_the_first_made(made: Environment, wheel: str, folder: Path) -> None:
    told: list[str] = []
    (home,) = homes(folder)
    before = (home / "pyvenv.cfg").stat()
    assert await ready(peer(wheel), folder=folder, told=told.append) == made
    assert told == []
    assert (home / "pyvenv.cfg").stat().st_ino == before.st_ino


def half_made(home: Path) -> None:
    """As a harness leaves it that was killed while it made it."""
    (home / "whole").unlink()
    next(home.glob("lib/python*/site-packages/tiny_peer.py")).unlink()


def without_its_interpreter(home: Path) -> None:
    """As it is when the Python that it was made with was removed."""
    (home / "bin" / "python").unlink()
    (home / "bin" / "python").symlink_to("/nonexistent/python")


@pytest.mark.parametrize("broken", [half_made, without_its_interpreter])
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_one_that_is_not_whole_is_made_afresh(
    broken: Callable[[Path], None], made: Environment, wheel: str, folder: Path
) -> None:
    (home,) = homes(folder)
    broken(home)
    told: list[str] = []
    assert await ready(peer(wheel), folder=folder, told=told.append) == made
    assert told == ["making an environment for tiny"]
    assert seen(made) == (OURS, "here")


async def test_a_link_to_callgate_that_is_gone_is_put_back(made: Environment, wheel: str, folder: Path) -> None:
    (home,) = homes(folder)
    (home / "callgate_source" / "callgate").unlink()
    (home / "callgate_source" / f"callgate.{os.getpid()}").symlink_to("of one that was killed")
    assert await ready(peer(wheel), folder=folder) == made
    assert seen(made) == (OURS, "here")


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_one_that_does_not_answer_in_time_is_left_to_those_who_use_it(
    wheel: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = await ready(peer(wheel), folder=tmp_path)
    (home,) = homes(tmp_path)
    python = home / "bin" / "python"
    python.rename(home / "bin" / "well")
    python.write_text("#!/bin/sh\nsleep 60\n")
    python.chmod(0o755)
    monkeypatch.setattr(environments, "_PROBE_SECONDS", 0.3)
    assert (
        await ready(peer(wheel), folder=tmp_path)
    ).failure == f"no environment: {python} did not answer within 0.3 s"
    (home / "bin" / "well").rename(python)
    monkeypatch.undo()
    assert await ready(peer(wheel), folder=tmp_path) == made


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_two_harnesses_at_the_same_time_make_one(wheel: str, tmp_path: Path) -> None:
    told: list[str] = []
    both: list[Environment] = []

    async def start() -> None:
        both.append(await ready(peer(wheel), folder=tmp_path, told=told.append))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(start)
        tasks.start_soon(start)
    assert told == ["making an environment for tiny"]
    assert both[0] == both[1]
    assert both[0].failure == ""


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
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
    assert await ready(peer(commands=("python3",)), folder=folder) == Environment(python=sys.executable)
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


_HARNESS = """
import sys, anyio
from pathlib import Path
from callgate.bench.contestants.listed import Listed
from callgate.bench.contest.environments import ready
listed = Listed(name="tiny", title="Tiny", mode="code", module="tiny", about="", requirements=(sys.argv[1],))
anyio.run(lambda: ready(listed, folder=Path(sys.argv[2])))
"""


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_what_a_killed_harness_left_at_work_is_waited_for(
    silent: tuple[str, anyio.abc.SocketListener], tmp_path: Path
) -> None:
    requirement, server = silent
    told: list[str] = []
    with anyio.fail_after(60):
        async with server:
            killed = await anyio.open_process([sys.executable, "-c", _HARNESS, requirement, str(tmp_path)])
            async with await server.accept() as pip:
                await pip.receive()
                killed.kill()
                await killed.aclose()
                meanwhile = await ready(peer(requirement), folder=tmp_path, making_seconds=0.5, told=told.append)
                assert "was not made within" in meanwhile.failure
                assert told == []
                await pip.send(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
            async with anyio.create_task_group() as tasks:

                async def make() -> None:
                    await ready(peer(requirement), folder=tmp_path, told=told.append)

                tasks.start_soon(make)
                async with await server.accept():
                    assert told == ["making an environment for tiny"]
                    tasks.cancel_scope.cancel()


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_one_that_takes_too_long_is_given_up(
    silent: tuple[str, anyio.abc.SocketListener], tmp_path: Path
) -> None:
    requirement, server = silent
    async with server:
        environment = await ready(peer(requirement), folder=tmp_path, making_seconds=0.5)
    assert environment.failure == "its environment was not made within 0.5 s"
    assert homes(tmp_path) == []


def test_the_cache_is_where_the_desktop_convention_has_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "callgate" / "bench"
    monkeypatch.setenv("XDG_CACHE_HOME", "not/absolute")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder() == tmp_path / ".cache" / "callgate" / "bench"


def test_variables_that_lead_python_elsewhere_do_not_reach_it(
    wheel: str, folder: Path, made: Environment, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "callgate.py").write_text("raise SystemExit('the wrong callgate')\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert subprocess.run([made.python, "-c", "import callgate"], check=False, capture_output=True).returncode == 1

    async def again() -> Environment:
        return await ready(peer(wheel), folder=folder)

    assert anyio.run(again) == made
