"""A loop is there whenever a program can ask for one: also at a top level that awaits nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from callgate import Runtime
from guard.nursery_shapes import Effects
from runtime.conftest import opened

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
def effects() -> Effects:
    return Effects()


@pytest.fixture(scope="module")
async def runtime(effects: Effects, anyio_backend: str) -> AsyncIterator[Runtime]:
    async with opened(*effects.tools, pool_size=2) as entered:
        yield entered


MAIN = "async def main():\n    return await send('a')\n"

ASKED = {
    "create_task": ("asyncio.create_task(send('a'))", "a"),
    "ensure_future": ("asyncio.ensure_future(send('a'))", "a"),
    "gather": ("asyncio.gather(send('a'), send('b'))", "ab"),
    "shield": ("asyncio.shield(send('a'))", "a"),
    "as_completed": ("each = asyncio.as_completed([send('a')])", "a"),
    "get_running_loop": ("asyncio.get_running_loop().create_task(send('a'))", "a"),
    "get_running_loop by name": ("from asyncio import get_running_loop as ask\nask().create_task(send('a'))", "a"),
    "get_event_loop": ("asyncio.get_event_loop().create_task(send('a'))", "a"),
    "call_soon": ("asyncio.get_running_loop().call_soon(post, 'a')", "a"),
    "call_later": ("asyncio.get_running_loop().call_later(3600, print, 1)", ""),
    "to_thread": ("asyncio.create_task(asyncio.to_thread(post, 'a'))", "a"),
    "timeout": ("limit = asyncio.timeout(5)\nasyncio.timeout_at(5)", ""),
    "TaskGroup": ("group = asyncio.TaskGroup()", ""),
    "Future": ("asyncio.Future().set_result(1)", ""),
    "Queue": ("q = asyncio.Queue()\nq.put_nowait(1)\nasyncio.create_task(q.get())", ""),
    "Event": ("e = asyncio.Event()\nasyncio.create_task(e.wait())\ne.set()", ""),
    "Lock": ("lock = asyncio.Lock()\nsemaphore = asyncio.Semaphore(2)\ncondition = asyncio.Condition()", ""),
    "current_task": ("assert asyncio.current_task() is None\nassert asyncio.all_tasks() == set()", ""),
    "a runner": (MAIN + "with asyncio.Runner() as runner:\n    runner.run(main())", "a"),
    "asyncio.run": (MAIN + "assert asyncio.run(main()) == asyncio.run(main()) == 'a'", "aa"),
    "asyncio.run after create_task": (MAIN + "t = asyncio.create_task(send('b'))\nasyncio.run(main())", "ab"),
    "run_until_complete": (MAIN + "asyncio.get_event_loop().run_until_complete(main())", "a"),
    "a loop of its own": (MAIN + "loop = asyncio.new_event_loop()\nloop.run_until_complete(main())\nloop.close()", "a"),
    "a loop that it sets": (MAIN + "loop = asyncio.new_event_loop()\nasyncio.set_event_loop(loop)\n"
                            "asyncio.get_event_loop().run_until_complete(main())", "a"),
    "a loop that it closes": (MAIN + "loop = asyncio.get_event_loop()\nloop.run_until_complete(main())\nloop.close()\n"
                              "asyncio.create_task(send('b'))", "ab"),
    "a loop that runs for ever": ("loop = asyncio.get_event_loop()\nloop.call_soon(post, 'a')\n"
                                  "loop.call_later(0.01, loop.stop)\nloop.run_forever()", "a"),
    "asked whether one runs": (MAIN + "try:\n    loop = asyncio.get_running_loop()\n"
                               "except RuntimeError:\n    loop = None\n"
                               "if loop is not None and loop.is_running():\n    loop.create_task(main())\n"
                               "else:\n    asyncio.run(main())", "a"),
    "a callback of a task": ("t = asyncio.create_task(send('a'))\nt.add_done_callback(lambda t: print(t))", "a"),
}  # fmt: skip


@pytest.mark.parametrize("name", ASKED)
async def test_a_top_level_without_await_may_ask_for_the_loop(name: str, runtime: Runtime, effects: Effects) -> None:
    code, done = ASKED[name]
    for _ in range(3):
        effects.done.clear()
        result = await runtime.execute_code(f"import asyncio\n{code}\n'end'", check=False, path="sandbox")
        assert result.error is None, result.error.traceback
        assert (result.value, "".join(sorted(effects.done))) == ("end", done)
        assert [call.status for call in result.calls] == ["succeeded"] * len(done)


async def test_a_thread_has_no_loop_unless_it_makes_one(runtime: Runtime) -> None:
    code = (
        "import asyncio, threading\nsaid = []\ndef ask():\n    try:\n        asyncio.get_running_loop()\n"
        "    except RuntimeError as error:\n        said.append(str(error))\n"
        "t = threading.Thread(target=ask)\nt.start()\nt.join()\nsaid"
    )
    assert (await runtime.execute_code(code, path="sandbox")).value == ["no running event loop"]


async def test_a_session_has_its_loop_in_each_program(runtime: Runtime, effects: Effects) -> None:
    effects.done.clear()
    async with runtime.session() as session:
        await session.execute_code("import asyncio\nt = asyncio.create_task(send('a'))")
        await session.execute_code("asyncio.run(asyncio.sleep(0))\nu = asyncio.create_task(send('b'))")
        result = await session.execute_code("[await t, await u, t.done()]")
    assert result.value == ["a", "b", True]
    assert effects.done == ["a", "b"]


async def test_a_failed_task_fails_the_program_also_where_its_own_factory_made_it(runtime: Runtime) -> None:
    code = (
        "import asyncio\nasync def f():\n    await fail('a')\n"
        "make = getattr(asyncio, 'eager_task_factory', "
        "lambda loop, main, **more: asyncio.Task(main, loop=loop, **more))\n"
        "asyncio.get_running_loop().set_task_factory(make)\nkept = asyncio.create_task(f())\n1"
    )
    for start in ("", "await send('b')\n"):
        result = await runtime.execute_code(start + code, check=False, path="sandbox")
        assert result.error is not None
        assert result.error.message == "no such address: a"
