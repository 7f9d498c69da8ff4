"""A runtime may be entered in one task and left in another, but belongs to one event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import anyio.lowlevel
import pytest

from callgate import ConfigurationError, Runtime, tool
from callgate.runtime.context_task import ContextTask

pytestmark = pytest.mark.anyio


async def test_a_runtime_is_entered_in_one_task_and_left_in_another() -> None:
    runtime = Runtime(sandbox="jail", pool_size=1)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(runtime.__aenter__)
    assert (await runtime.execute_code("1 + 1")).value == 2
    zygote = getattr(runtime.backend, "zygote_pid", 0)
    assert zygote
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(runtime.__aexit__, None, None, None)
    assert getattr(runtime.backend, "zygote_pid", 0) == 0


async def test_contexts_that_are_left_while_they_are_entered_are_closed_afterwards() -> None:
    seen: list[str] = []
    entering, go_on = anyio.Event(), anyio.Event()

    @asynccontextmanager
    async def context() -> AsyncIterator[None]:
        entering.set()
        await go_on.wait()
        seen.append("entered")
        yield
        seen.append("left")

    contexts = ContextTask(lambda: [context()])

    async def opens() -> None:
        with pytest.raises(ConfigurationError, match="was left already"):
            await contexts.open()
        seen.append("told")

    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(opens)
            await entering.wait()
            tasks.start_soon(contexts.close)
            await anyio.wait_all_tasks_blocked()
            go_on.set()
        assert sorted(seen) == ["entered", "left", "told"]
        assert contexts.loop is None
        await contexts.open()
        await contexts.close()


async def test_a_runtime_says_that_it_belongs_to_another_event_loop() -> None:
    told: list[str] = []

    def elsewhere(runtime: Runtime) -> None:
        async def use() -> None:
            with pytest.raises(ConfigurationError) as error:
                await runtime.execute_code("1")
            told.append(str(error.value))

        asyncio.run(use())

    async with Runtime(pool_size=0) as runtime:
        thread = threading.Thread(target=elsewhere, args=(runtime,))
        thread.start()
        await anyio.to_thread.run_sync(thread.join)
        assert (await runtime.execute_code("1")).value == 1
    assert told[0].startswith("this runtime was entered in another event loop: use it there")


def test_a_runtime_that_was_left_is_entered_in_another_event_loop_of_another_kind() -> None:
    """Both orders: locks are made for the event loop that uses them first."""

    async def use(runtime: Runtime) -> None:
        async with runtime, anyio.create_task_group() as tasks:
            for number in range(3):
                tasks.start_soon(runtime.execute_code, f"print({id(tasks)}, {number})")

    for loops in (("asyncio", "asyncio", "trio"), ("trio", "asyncio")):
        runtime = Runtime(sandbox=None)
        for loop in loops:
            anyio.run(use, runtime, backend=loop)


def test_sync_tools_run_also_after_the_runtime_was_entered_in_another_event_loop() -> None:
    @tool
    def double(x: int) -> int:
        return 2 * x

    async def use(runtime: Runtime) -> None:
        async with runtime:
            results = []

            async def run(number: int) -> None:
                results.append(await runtime.execute_code(f"await double({number})"))

            async with anyio.create_task_group() as tasks:
                for number in range(50):
                    tasks.start_soon(run, number)
            assert sorted(result.value for result in results) == list(range(0, 100, 2))

    for loops in (("asyncio", "trio"), ("trio", "asyncio")):
        runtime = Runtime([double], sandbox=None)
        for loop in loops:
            anyio.run(use, runtime, backend=loop)


async def test_a_program_that_is_being_looked_at_does_not_begin_when_the_runtime_was_left() -> None:
    begun: list[str] = []

    @tool
    async def hang() -> None:
        """Hang."""
        begun.append("hang")
        await anyio.sleep_forever()

    async def run() -> None:
        long = "# so that it is looked at in a thread\n" * 100
        with pytest.raises(ConfigurationError, match="this runtime was left already"):
            await runtime.execute_code(f"await hang()\n{long}", check=False)

    runtime = Runtime([hang], sandbox=None)
    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks, runtime:
            tasks.start_soon(run)
            await anyio.lowlevel.checkpoint()
    assert begun == []


async def test_entering_that_is_cancelled_leaves_nothing_open() -> None:
    runtime = Runtime(sandbox="jail", pool_size=0)
    with anyio.CancelScope() as scope:
        scope.cancel()
        await runtime.__aenter__()
    assert getattr(runtime.backend, "zygote_pid", 0) == 0


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"policy": "strict"}, "there is no policy 'strict'; there are: none, restricted"),
        ({"tier": 3}, "the jail has tier 1 and tier 2, not 3"),
        ({"packages": "/nope"}, "packages: there is no folder '/nope'"),
        ({"limits": {"wall_seconds": 1}}, "limits must be Limits, for instance Limits(wall_seconds=10)"),
    ],
)
def test_a_wrong_option_is_told_at_once(options: dict[str, object], text: str) -> None:
    with pytest.raises(ConfigurationError) as error:
        Runtime(**options)  # type: ignore[arg-type]
    assert str(error.value) == text


async def test_a_module_that_is_not_there_is_the_operators_mistake() -> None:
    with pytest.raises(ConfigurationError, match="preimport: No module named 'nope_mod'"):
        async with Runtime(preimport=["nope_mod"]):
            pass
