"""Real containers that end while the host sends, and nobody receives: whoever sends is told."""

from __future__ import annotations

from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from callgate.errors import SandboxCrashed
from callgate.sandbox.docker.backend import DockerBackend
from callgate.sandbox.docker.engine import Engine
from callgate.sandbox.docker.guest import ContainerGuest
from callgate.testing.verbs import DEAF
from sandbox.asking import ALLOWANCE, SECONDS, ask, request
from sandbox.docker.owned import none_left
from sandbox.docker.peer import refusing_removals

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("default_image")]

MUCH = b"x" * 10_000_000  # more than the pipes between here and a guest hold
BUSY = "while True: pass"


async def remove(engine: Engine, guest: ContainerGuest) -> None:
    await engine.call("remove_container", guest.container.id, force=True)


async def kill(engine: Engine, guest: ContainerGuest) -> None:
    await engine.call("kill", guest.container.id)


async def stop_and_kill(engine: Engine, guest: ContainerGuest) -> None:
    """The supervisor reads nothing any more, and then is no more."""
    await engine.call("kill", guest.container.id, signal="SIGSTOP")
    await anyio.wait_all_tasks_blocked()
    await engine.call("kill", guest.container.id, signal="SIGKILL")


@pytest.mark.parametrize("harm", [remove, kill, stop_and_kill])
async def test_a_container_that_ends_while_a_send_waits_is_seen_by_the_sender(engine: Engine, harm: object) -> None:
    assert callable(harm)
    async with DockerBackend() as backend:
        guest = await backend.open(ALLOWANCE)
        await guest.send(request(BUSY))
        with anyio.fail_after(SECONDS):
            async with anyio.create_task_group() as tasks:

                async def send() -> None:
                    with pytest.raises(SandboxCrashed):
                        await guest.send(MUCH)

                tasks.start_soon(send)
                tasks.start_soon(send)
                await anyio.wait_all_tasks_blocked()
                await harm(engine, guest)
        assert (await guest.aclose()).status is None
    await none_left(engine)


async def test_the_death_of_a_guest_is_seen_behind_output_that_nobody_has_received(engine: Engine) -> None:
    last = "import os\nfor _ in range(48): os.write(2, bytes(1 << 16))\nos._exit(0)"
    async with DockerBackend() as backend:
        guest = await backend.open(ALLOWANCE)
        await guest.send(request(last))
        with anyio.fail_after(SECONDS), pytest.raises(SandboxCrashed):  # noqa: PT012
            while True:
                await guest.send(b"x" * 1000)
        output = b""
        with anyio.fail_after(SECONDS):
            while (item := await guest.receive()) != ("wire", b""):
                output += item[1]
        assert len(output) == 48 << 16, "nothing of it is lost"
        assert (await guest.aclose()).status == 0


@pytest.mark.parametrize("last", ["import os\nos._exit(0)", DEAF])
async def test_a_supervisor_survives_what_is_sent_to_a_guest_that_does_not_hear_it(engine: Engine, last: str) -> None:
    async with DockerBackend(per="tenant") as backend:
        for number in range(5):
            guest = await backend.open(ALLOWANCE)
            (container,) = backend.containers
            await guest.send(request(last))
            with anyio.fail_after(SECONDS), pytest.raises(SandboxCrashed):  # noqa: PT012
                while True:
                    await guest.send(b"x" * 100_000)
            guest.kill()
            assert (await guest.aclose()).status == (0 if "_exit" in last else -9)
            guest = await backend.open(ALLOWANCE)
            assert (await ask(guest, f"{number} + 1")).value == number + 1
            guest.kill()
            await guest.aclose()
            assert backend.containers == [container]


async def test_a_container_that_the_engine_does_not_remove_at_once_is_removed_all_the_same(
    engine: Engine, tmp_path: Path
) -> None:
    """As an engine answers that kills a container which ends by itself at that moment."""
    with refusing_removals(tmp_path / "socket", engine.host.removeprefix("unix://"), times=2) as host:
        async with DockerBackend(docker_host=host) as backend:
            guest = await backend.open(ALLOWANCE)
            await guest.send(request(BUSY))
            await guest.container.remove()
            await none_left(engine)
            await guest.aclose()
