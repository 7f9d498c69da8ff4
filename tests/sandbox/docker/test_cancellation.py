"""Whoever is cancelled, wherever: the container is removed, and the backend knows of none that is still there."""

from __future__ import annotations

import asyncio
import contextlib

import anyio
import pytest

from callgate import Limits, Runtime
from callgate.errors import ConfigurationError
from callgate.sandbox.docker.backend import DockerBackend
from callgate.sandbox.docker.engine import Engine
from pace import stretched
from sandbox.asking import ALLOWANCE, ask
from sandbox.docker.owned import eventually, none_left, owned

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("default_image")]

OTHER = type(ALLOWANCE)(20, 200 << 20, 16, 1 << 20)


@pytest.mark.parametrize("anyio_backend", ["asyncio"], scope="module")
@pytest.mark.parametrize("seconds", [0.002, 0.004, 0.01, 0.05, 0.2])
async def test_asyncios_own_cancellation_leaves_no_container(engine: Engine, seconds: float) -> None:
    """`asyncio.wait_for` cancels this way: anyio's shields do not hold against it."""
    async with DockerBackend() as backend:
        opening = asyncio.create_task(backend.open(ALLOWANCE))
        await asyncio.sleep(seconds)
        opening.cancel()
        with contextlib.suppress(asyncio.CancelledError):  # or it is there already, on a quick machine
            await (await opening).aclose()
    await none_left(engine)


async def test_a_session_that_is_left_while_a_program_runs_ends_it(engine: Engine) -> None:
    told = []
    begun = anyio.Event()

    async def begin() -> None:
        begun.set()

    async with Runtime([begin], sandbox="docker", path="sandbox", pool_size=0) as runtime:
        async with anyio.create_task_group() as tasks, runtime.session() as session:

            async def run() -> None:
                told.append(await session.execute_code("await begin()\nwhile True: pass"))

            tasks.start_soon(run)
            with anyio.fail_after(30):
                await begun.wait()
        assert [each.error.message for each in told if each.error] == ["the session was closed while this ran"]
        await none_left(engine)


async def test_leaving_while_cancelled_removes_what_was_being_started(engine: Engine) -> None:
    backend = DockerBackend(per="tenant")
    with anyio.CancelScope() as outer:
        async with backend:
            await backend.open(ALLOWANCE)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(backend.open, OTHER)
                await eventually(lambda: _a_second(engine))
                outer.cancel()
    assert backend.containers == []
    await none_left(engine)


async def _a_second(engine: Engine) -> bool:
    """Whether the engine has a container besides the one that a guest is in."""
    return len(await owned(engine)) > 1


async def test_closing_a_guest_in_a_cancelled_scope_ends_it(engine: Engine) -> None:
    async with DockerBackend() as backend:
        guest = await backend.open(ALLOWANCE)
        with anyio.CancelScope() as scope:
            scope.cancel()
            await guest.aclose()
        assert not guest.alive
        await none_left(engine)


async def test_containers_that_ended_at_rest_fail_nobody(engine: Engine) -> None:
    async with DockerBackend(per="tenant") as backend:
        guests = [await backend.open(ALLOWANCE) for _ in range(4)]
        for guest in guests:
            guest.kill()
            await guest.aclose()
        resting = await owned(engine)
        assert len(resting) == 4
        for id in resting:
            await engine.call("remove_container", id, force=True)
        guest = await backend.open(ALLOWANCE)
        assert (await ask(guest, "6 * 7")).value == 42
        await guest.aclose()
        assert len(backend.containers) <= 1


async def test_a_module_that_the_image_has_not_got_is_told_each_time_it_is_asked_for(engine: Engine) -> None:
    with pytest.raises(ConfigurationError, match="No module named 'nowhere_at_all'"):
        async with Runtime([], sandbox=DockerBackend(preimport=["nowhere_at_all"])):
            pass
    await none_left(engine)


async def test_a_large_reply_that_nobody_reads_does_not_put_off_the_end(engine: Engine) -> None:
    async def big() -> str:
        return "x" * 3_500_000

    async with Runtime([big], sandbox="docker", path="sandbox", pool_size=0) as runtime:
        run = await runtime.execute_code("t = big()\nwhile True: pass", limits=Limits(wall_seconds=1), check=False)
    assert run.error is not None
    assert run.error.limit == "wall_seconds"
    assert run.usage.wall_seconds < stretched(5)
    await none_left(engine)
