"""Leftovers of dead hosts are removed at the next start; whoever lives, or cannot be asked, keeps what is theirs."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import AsyncIterator

import pytest

from callgate.sandbox.docker import sweep as sweeping
from callgate.sandbox.docker.backend import DockerBackend
from callgate.sandbox.docker.engine import Engine
from callgate.sandbox.docker.sweep import LABEL, labels, sweep

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("default_image")]


@contextlib.asynccontextmanager
async def made(engine: Engine, *, run: bool = False, **changes: str) -> AsyncIterator[str]:
    """A container of callgate's, never started unless `run`, with other labels."""
    wanted = {LABEL: changes.get("owner", labels()[LABEL])}
    id: str = (await engine.call("create_container", "callgate-sandbox", stdin_open=True, labels=wanted))["Id"]
    try:
        if run:
            await engine.call("start", id)
        yield id
    finally:
        with contextlib.suppress(Exception):
            await engine.call("remove_container", id, force=True)


def owner_of(pid: int, started: str | None = None) -> str:
    """The label of a process of this machine."""
    boot, namespace, _, own = labels()[LABEL].split(":")
    return f"{boot}:{namespace}:{pid}:{own if started is None else started}"


def started(pid: int) -> str:
    with open(f"/proc/{pid}/stat") as file:
        return file.read().rpartition(")")[2].split()[19]


def dead() -> int:
    """The number of a process that has ended."""
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        return process.pid


async def known(engine: Engine) -> set[str]:
    return {each["Id"] for each in await engine.call("containers", all=True)}


@pytest.mark.parametrize("run", [False, True])
async def test_what_a_dead_process_left_is_removed_at_the_next_start(engine: Engine, run: bool) -> None:
    async with made(engine, owner=owner_of(dead()), run=run) as left, DockerBackend():
        assert left not in await known(engine)


async def test_a_process_number_that_was_given_out_again_is_not_the_owner(engine: Engine) -> None:
    async with made(engine, owner=owner_of(os.getppid(), "1")) as left:
        assert left in await sweep(engine)


@pytest.mark.parametrize("run", [False, True])
async def test_what_a_living_process_owns_is_left_alone(engine: Engine, run: bool) -> None:
    parent = os.getppid()
    async with (
        made(engine, owner=owner_of(parent, started(parent)), run=run) as theirs,
        made(engine, run=run) as own,
        DockerBackend(),
    ):
        assert {theirs, own} <= await known(engine)


async def test_what_another_machine_or_boot_owns_is_left_alone_while_it_is_young_or_runs(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with (
        made(engine, owner="boot:1:1:1") as young,
        made(engine, owner="boot:1:1:1", run=True) as runs,
    ):
        await sweep(engine)
        assert {young, runs} <= await known(engine)
        monkeypatch.setattr(sweeping, "_OLD_SECONDS", -1.0)
        await sweep(engine)
        assert young not in await known(engine)
        assert runs in await known(engine)


async def test_what_another_pid_namespace_owns_is_left_alone_while_it_is_young_or_runs(engine: Engine) -> None:
    boot, namespace, _, _ = labels()[LABEL].split(":")
    other = f"{boot}:{int(namespace) + 1}:{dead()}:1"
    async with made(engine, owner=other) as young, made(engine, owner=other, run=True) as runs:
        await sweep(engine)
        assert {young, runs} <= await known(engine)


async def test_a_container_that_is_not_callgates_is_left_alone(engine: Engine) -> None:
    id = (await engine.call("create_container", "callgate-sandbox", labels={"app": "another"}))["Id"]
    try:
        await sweep(engine)
        assert id in await known(engine)
    finally:
        await engine.call("remove_container", id, force=True)


ASKED_BY_ANOTHER_USER = """
import os, sys
from callgate.sandbox.docker.sweep import LABEL, _is_left
os.setgid(65534)
os.setuid(65534)
print(_is_left({"Labels": {LABEL: sys.argv[1]}, "State": "running", "Created": 0}))
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
@pytest.mark.parametrize("lives", [True, False])
def test_a_process_of_another_user_is_seen_to_live(lives: bool) -> None:
    owner = labels()[LABEL] if lives else owner_of(dead(), "1")
    command = [sys.executable, "-c", ASKED_BY_ANOTHER_USER, owner]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (ran.stdout.strip(), ran.stderr) == (str(not lives), "")


async def test_what_a_backend_of_this_process_left_is_removed_when_it_is_over(engine: Engine) -> None:
    """An engine that had hung makes a container when nobody waits for it any more."""
    async with DockerBackend() as backend:
        late = (await engine.call("create_container", "callgate-sandbox", labels=backend._settings.labels))["Id"]
        await sweep(engine)
        assert late in await known(engine)
    async with DockerBackend():
        assert late not in await known(engine)
