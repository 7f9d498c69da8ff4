"""The life of containers: whatever happens to a run, to its host or to its container, nothing is left of it."""

from __future__ import annotations

import sys
import time
from collections.abc import AsyncIterator

import anyio
import anyio.lowlevel
import pytest

from callgate import Limits, Runtime
from callgate.sandbox.docker import guest as guest_module
from callgate.sandbox.docker.backend import DockerBackend
from callgate.sandbox.docker.engine import Engine
from callgate.sandbox.docker.image import ImageFacts
from pace import stretched
from sandbox.asking import ALLOWANCE, ask, open_files
from sandbox.docker.owned import eventually, none_left, owned

pytestmark = [pytest.mark.slow, pytest.mark.anyio, pytest.mark.usefixtures("default_image")]

SECONDS = 30.0
FOREVER = "import time\nawait begun()\nwhile True: time.sleep(0.1)"


class Begun:
    """A tool that tells the test how many programs have come to it."""

    def __init__(self) -> None:
        self.count = 0
        self._more = anyio.Event()

    def tool(self) -> object:
        async def begun() -> int:
            self.count += 1
            self._more.set()
            self._more = anyio.Event()
            return self.count

        return begun

    async def reach(self, count: int) -> None:
        with anyio.fail_after(SECONDS):
            while self.count < count:
                await self._more.wait()


HOST = """
import os, sys, anyio
from callgate import Runtime
from callgate.sandbox.docker.backend import DockerBackend
from callgate.sandbox.docker.sweep import LABEL, labels

begun_count = 0

async def begun() -> int:
    global begun_count
    begun_count += 1
    if begun_count == 3:
        os.write(1, labels()[LABEL].encode() + b"\\n")
    return begun_count

async def main() -> None:
    async with Runtime([begun], sandbox=DockerBackend(per=sys.argv[1]), pool_size=1, max_guests=3) as runtime:
        async with anyio.create_task_group() as tasks:
            for _ in range(3):
                tasks.start_soon(runtime.execute_code, PROGRAM)

anyio.run(main)
"""


@pytest.mark.parametrize("per", ["run", "tenant"])
async def test_the_containers_of_a_host_that_is_killed_end_by_themselves(engine: Engine, per: str) -> None:
    code = HOST.replace("PROGRAM", repr(FOREVER))
    async with await anyio.open_process([sys.executable, "-c", code, per], stderr=None) as host:
        try:
            assert host.stdout is not None
            with anyio.fail_after(SECONDS):
                owner = (await host.stdout.receive()).decode().strip()
            assert len(await owned(engine, owner)) >= 3
        finally:
            host.kill()
    killed = time.monotonic()
    await none_left(engine, owner, 10)
    assert time.monotonic() - killed < stretched(5)  # 0.3 s where nothing else happens


async def test_leaving_the_runtime_with_runs_in_flight_ends_at_once_and_leaves_nothing(engine: Engine) -> None:
    begun = Begun()
    results = []
    runtime = Runtime([begun.tool()], sandbox=DockerBackend(), pool_size=1, max_guests=3)  # type: ignore[list-item]
    await runtime.__aenter__()

    async def run() -> None:
        results.append(await runtime.execute_code(FOREVER, path="sandbox"))

    async with anyio.create_task_group() as tasks:
        for _ in range(3):
            tasks.start_soon(run)
        await begun.reach(3)
        started = time.monotonic()
        with anyio.fail_after(SECONDS):
            await runtime.__aexit__(None, None, None)
        assert time.monotonic() - started < stretched(8)
    assert not await owned(engine)
    assert [each.error and each.error.kind for each in results] == ["SandboxCrashed"] * 3


async def test_a_wall_limit_is_returned_when_the_container_is_gone(engine: Engine) -> None:
    begun = Begun()
    async with Runtime([begun.tool()], sandbox=DockerBackend(), pool_size=0) as runtime:  # type: ignore[list-item]
        result = await runtime.execute_code(FOREVER, limits=Limits(wall_seconds=1))
        assert not await owned(engine)
    assert result.error is not None
    assert (result.error.kind, result.error.limit) == ("LimitReached", "wall_seconds")


async def test_a_run_whose_container_is_removed_says_so_and_keeps_its_calls_and_prints(engine: Engine) -> None:
    begun = Begun()
    async with Runtime([begun.tool()], sandbox=DockerBackend(), pool_size=0) as runtime:  # type: ignore[list-item]
        program = "import time\nprint('so far')\nawait begun()\nawait begun()\nwhile True: time.sleep(0.1)"
        async with anyio.create_task_group() as tasks:

            async def remove() -> None:
                await begun.reach(2)  # so the first has been answered
                (running,) = await owned(engine)
                await engine.call("remove_container", running, force=True)

            tasks.start_soon(remove)
            result = await runtime.execute_code(program)
        assert result.error is not None
        assert result.error.kind == "SandboxCrashed"
        assert "the container went away in the middle of the run" in result.error.message
        assert "callgate doctor" in result.error.message
        assert result.logs == "so far\n"
        assert [call.tool for call in result.calls] == ["begun"] * 2
        assert result.calls[0].status == "succeeded"
        assert (await runtime.execute_code("40 + 2", path="sandbox")).value == 42
    await none_left(engine)


@pytest.mark.parametrize("harm", ["remove_container", "pause", "kill", "stop"])
async def test_a_container_that_was_harmed_at_rest_gets_no_run(
    engine: Engine, harm: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guest_module, "_FRESH_SECONDS", 0.0)
    backend = DockerBackend()
    async with Runtime(sandbox=backend, pool_size=1, limits=Limits(memory_bytes=64 << 20)) as runtime:
        await eventually(lambda: _count(runtime, 1))
        (idle,) = backend.containers
        await engine.call(harm, idle, **({"force": True} if harm == "remove_container" else {}))
        result = await runtime.execute_code("'served'", path="sandbox")
        assert result.value == "served"
        await eventually(lambda: _absent(engine, idle))
    await none_left(engine)


async def _count(runtime: Runtime, idle: int) -> bool:
    return runtime._pool.idle >= idle


async def _absent(engine: Engine, id: str) -> bool:
    return id not in await owned(engine)


async def test_no_more_containers_are_alive_than_guests_are_allowed(engine: Engine) -> None:
    backend = DockerBackend()
    most = 0
    async with Runtime(sandbox=backend, pool_size=1, max_guests=2) as runtime, anyio.create_task_group() as tasks:
        done = 0

        async def run() -> None:
            nonlocal done
            assert (await runtime.execute_code("6 * 7", path="sandbox")).value == 42
            done += 1

        for _ in range(20):
            tasks.start_soon(run)
        while done < 20:
            most = max(most, len(await owned(engine)))
    assert most <= 8, most  # two that run, one that is kept ready, some that are being removed
    assert not await owned(engine)


async def test_a_session_keeps_its_container_and_leaves_nothing(engine: Engine) -> None:
    backend = DockerBackend()
    async with Runtime(sandbox=backend, pool_size=0) as runtime:
        async with runtime.session() as session:
            await session.execute_code("x = 20")
            before = await owned(engine)
            assert len(before) == 1
            assert (await session.execute_code("x + 1")).value == 21
            assert set(await owned(engine)) == set(before)
        assert not await owned(engine)


# opening that is given up


@pytest.fixture(scope="module")
async def running(engine: Engine, default_image: ImageFacts) -> AsyncIterator[DockerBackend]:
    before = open_files()
    async with DockerBackend() as backend:
        yield backend
    assert len(open_files()) <= len(before) + 2, sorted(open_files() - before)  # connections of `engine`


@pytest.mark.parametrize("milliseconds", [0, 5, 20, 50, 100, 200, 400])
async def test_opening_that_is_cancelled_leaves_nothing(
    engine: Engine, running: DockerBackend, milliseconds: int
) -> None:
    guest = None
    with anyio.move_on_after(milliseconds / 1000):
        guest = await running.open(ALLOWANCE)
    if guest is not None:
        await guest.aclose()
    assert not await owned(engine)
    assert running.containers == []


async def test_opening_many_at_once_that_is_cancelled_leaves_nothing(engine: Engine, running: DockerBackend) -> None:
    async with anyio.create_task_group() as tasks:
        for _ in range(4):
            tasks.start_soon(running.open, ALLOWANCE)
        await eventually(lambda: _some(engine))
        tasks.cancel_scope.cancel()
    assert running.containers == []
    assert not await owned(engine)


async def _some(engine: Engine) -> bool:
    return bool(await owned(engine))


# one container for all runs of a tenant


@pytest.fixture
async def tenant(engine: Engine, default_image: ImageFacts) -> AsyncIterator[DockerBackend]:
    async with DockerBackend(per="tenant") as backend:
        yield backend


async def test_a_tenants_container_serves_again(engine: Engine, tenant: DockerBackend) -> None:
    for number in range(5):
        guest = await tenant.open(ALLOWANCE)
        assert (await ask(guest, f"{number} + 1")).value == number + 1
        guest.kill()
        assert (await guest.aclose()).status is not None
        assert len(tenant.containers) == 1
    assert list(await owned(engine)) == tenant.containers


async def test_two_guests_are_never_in_one_container(tenant: DockerBackend) -> None:
    first, second = await tenant.open(ALLOWANCE), await tenant.open(ALLOWANCE)
    assert first.container is not second.container
    for guest in (first, second):
        guest.kill()
        await guest.aclose()
    assert len(tenant.containers) == 2
    both = set(tenant.containers)
    again = await tenant.open(ALLOWANCE)
    assert again.container.id in both
    await again.aclose()


async def test_a_tenants_container_is_gone_after_a_run_that_hit_a_limit(engine: Engine) -> None:
    backend = DockerBackend(per="tenant")
    begun = Begun()
    async with Runtime([begun.tool()], sandbox=backend, pool_size=0) as runtime:  # type: ignore[list-item]
        assert (await runtime.execute_code("1", path="sandbox")).ok
        (first,) = backend.containers
        assert (await runtime.execute_code("2", path="sandbox")).ok
        assert backend.containers == [first]
        result = await runtime.execute_code(FOREVER, limits=Limits(wall_seconds=0.5))
        assert result.error is not None
        assert result.error.limit == "wall_seconds"
        assert first not in await owned(engine)
        assert (await runtime.execute_code("3", path="sandbox")).ok
    assert not await owned(engine)


async def test_a_tenants_container_that_was_removed_at_rest_is_replaced(engine: Engine, tenant: DockerBackend) -> None:
    guest = await tenant.open(ALLOWANCE)
    guest.kill()
    await guest.aclose()
    for id in tenant.containers:
        await engine.call("remove_container", id, force=True)
    guest = await tenant.open(ALLOWANCE)
    assert (await ask(guest, "7")).value == 7
    await guest.aclose()
    assert len(tenant.containers) <= 1


# many


async def spin(backend: DockerBackend, count: int, pool_size: int) -> None:
    """Run `count` programs, four at a time."""
    async with Runtime(sandbox=backend, pool_size=pool_size, max_guests=4) as runtime:
        limit = anyio.CapacityLimiter(4)

        async def run(number: int) -> None:
            async with limit:
                assert (await runtime.execute_code(f"{number} * 2", path="sandbox")).value == number * 2

        async with anyio.create_task_group() as tasks:
            for number in range(count):
                tasks.start_soon(run, number)


@pytest.mark.parametrize(("per", "count"), [("run", 25), ("tenant", 200)])
async def test_many_runs_leave_no_container_and_no_descriptor(engine: Engine, per: str, count: int) -> None:
    await spin(DockerBackend(per=per), 1, 1)  # type: ignore[arg-type]
    before = open_files()
    await spin(DockerBackend(per=per), count, 2)  # type: ignore[arg-type]
    assert not await owned(engine)
    assert len(open_files()) <= len(before) + 2, sorted(open_files() - before)  # connections of `engine`
