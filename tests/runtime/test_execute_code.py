"""Programs end to end: a real sandbox, real tools, both event loops."""

from __future__ import annotations

import json
import logging
import sys
from typing import Any

import anyio
import pytest

from callgate import Allow, ApprovalRequest, ConfigurationError, Deny, Limits, Runtime
from callgate.runtime.runtime import Path
from runtime.conftest import opened
from runtime.offered import CANCELLED, TENANT

pytestmark = pytest.mark.anyio


async def test_the_example_of_the_readme(runtime: Runtime) -> None:
    run = await runtime.execute_code("print((await get_weather('Oslo'))['temp'])\n1 + 1", path="sandbox")
    assert (run.ok, run.value, run.logs, run.path) == (True, 2, "4\n", "sandbox")
    assert [(call.tool, call.arguments, call.status, call.attempts) for call in run.calls] == [
        ("get_weather", {"city": "Oslo"}, "succeeded", 1)
    ]
    assert run.sandbox == runtime.backend.description
    assert run.usage.tool_calls == 1
    assert 0 < run.usage.wall_seconds < 20
    assert run.usage.cpu_seconds is not None
    assert run.usage.peak_memory_bytes is not None
    assert run.usage.sent_bytes > 0
    assert run.usage.received_bytes > 0
    assert run.truncated == ()


PROGRAMS: dict[str, tuple[str, Any]] = {
    "gather": ("import asyncio\n"
               "[w.city for w in await asyncio.gather(*(get_weather(c) for c in 'abc'))]", ["a", "b", "c"]),
    "at the same time": ("import asyncio\nawait asyncio.gather(*(meet('gather', 5) for _ in range(5)))", [5] * 5),
    "threads": (
        "from concurrent.futures import ThreadPoolExecutor\nwith ThreadPoolExecutor(5) as e:\n"
        "    r = list(e.map(lambda _: meet('threads', 5), range(5)))\nr", [5] * 5),
    "sync tools do not block each other": (
        "import asyncio\nawait asyncio.gather(*(meet_in_threads('barrier', 3) for _ in range(3)))", [3] * 3),
    "sync tools do not block the loop": (
        "import asyncio\n(await asyncio.gather(meet_in_threads('both', 2), meet('x', 2), meet('x', 2), "
        "meet_in_threads('both', 2)))", [2] * 4),
    "asyncio.run": ("import asyncio\nasync def main():\n    return await echo(3)\nasyncio.run(main())", 3),
    "a plain function": ("def f():\n    return echo(4)\nf()", 4),
    "return": ("if (await echo(1)) == 1:\n    return 'one'", "one"),
    "huge integers": ("(await echo(2 ** 70)) + 1", 2**70 + 1),
    "floats": ("await echo([0.1, 1e300, -0.0, 5e-324])", [0.1, 1e300, -0.0, 5e-324]),
    "unicode": ("await echo('é😀\\u2028\\x00')", "é😀\u2028\x00"),
    "a megabyte": ("len(await big(1_000_000))", 1_000_000),
    "tools by name": ("await tool_call('get_weather', city='x')", {"city": "x", "temp": 1, "unit": "C"}),
    "inputs": ("n * 2", 84),
    "a tool error": ("try:\n    await refuse('no')\nexcept ToolError as e:\n"
                     "    r = [str(e), e.tool, e.data, e.retryable]\nr",
                     ["no", "refuse", {"why": "no"}, True]),
    "a timeout": ("try:\n    await late()\nexcept ToolError as e:\n    r = e.code\nr", -32001),
    "wrong arguments": ("try:\n    await echo(wrong=1)\nexcept ToolError as e:\n    r = e.code\nr", -32602),
    "a scratch file": ("import tempfile\nwith tempfile.TemporaryFile('w+') as f:\n    f.write('x')\n    f.seek(0)\n"
                       "    r = f.read()\nr", "x"),
    "pickle": ("import pickle\nclass A: pass\ntype(pickle.loads(pickle.dumps(A()))).__name__", "A"),
}  # fmt: skip


@pytest.mark.parametrize("path", ["auto", "sandbox"])
@pytest.mark.parametrize("name", PROGRAMS)
async def test_a_program(name: str, path: Path, runtime: Runtime, anyio_backend: str) -> None:
    code, expected = PROGRAMS[name]
    code = code.replace("meet('", f"meet('{anyio_backend} ").replace("threads('", f"threads('{anyio_backend} ")
    run = await runtime.execute_code(code, inputs={"n": 42}, check=False, path=path)
    assert run.error is None, run.error
    assert run.value == expected
    json.dumps(run.to_dict())


async def test_runs_share_nothing(runtime: Runtime) -> None:
    await runtime.execute_code("import sys, builtins\nx = 1\nsys.x = builtins.xx = 1")
    run = await runtime.execute_code("import sys\n['x' in globals(), hasattr(sys, 'x'), 'xx' in dir(__builtins__)]")
    assert run.value == [False, False, False]


async def test_a_failed_program_reports_everything_up_to_there(runtime: Runtime) -> None:
    run = await runtime.execute_code("print('before')\nawait echo(1)\n1 / 0")
    assert not run.ok
    assert run.error is not None
    assert (run.error.kind, run.error.message, run.error.line) == ("ZeroDivisionError", "division by zero", 3)
    assert run.logs == "before\n"
    assert [call.status for call in run.calls] == ["succeeded"]


@pytest.mark.parametrize("how", ["RuntimeError", "SystemExit", "CancelledError", "BaseException"])
async def test_what_a_tool_raises_stays_on_the_host(
    runtime: Runtime, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR):
        run = await runtime.execute_code(
            f"try:\n    await crash('{how}')\nexcept ToolError as e:\n    r = [str(e), e.code]\n[*r, await echo(1)]"
        )
    assert run.value == ["tool 'crash' failed: an internal error; details are in the host's log", -32603, 1]
    assert "secret" not in json.dumps(run.to_dict())
    assert "a secret of the host" in caplog.text


async def test_calls_see_the_callers_context(runtime: Runtime) -> None:
    async with anyio.create_task_group() as tasks:

        async def one(name: str) -> None:
            TENANT.set(name)
            run = await runtime.execute_code("[await tenant(), await async_tenant()]")
            assert run.value == [[name, False], name]

        for name in "abc":
            tasks.start_soon(one, name)


async def test_only_the_tools_of_the_run_may_be_called(runtime: Runtime) -> None:
    code = "name = 'ec' + 'ho'\ntry:\n    await tool_call(name, value=1)\nexcept ToolError as e:\n    r = e.code\nr"
    assert (await runtime.execute_code(code, tools=["get_weather"])).value == -32002
    assert (await runtime.execute_code(code, tools=[])).value == -32002
    assert (await runtime.execute_code("'echo' in globals()", tools=[])).value is False
    with pytest.raises(ConfigurationError, match="did you mean echo"):
        await runtime.execute_code("1", tools=["ecko"])


@pytest.mark.parametrize(
    ("inputs", "words"),
    [
        ({"x": {1}}, "inputs must be JSON values; 'x' is not"),
        ({"a": 1, "x": float("nan")}, "inputs must be JSON values; 'x' is not"),
        ({"x y": 1}, "inputs are bound as variables: 'x y' cannot be the name of a variable"),
        ({3: 1}, "inputs are bound as variables: 3 cannot be the name of a variable"),
        ({"class": 1}, "inputs are bound as variables: 'class' cannot be the name of a variable"),
    ],
)
async def test_inputs_that_cannot_be_are_the_operators_mistake(runtime: Runtime, inputs: Any, words: str) -> None:
    with pytest.raises(ConfigurationError) as mistake:
        await runtime.execute_code("1", inputs=inputs)
    assert str(mistake.value).startswith(words)


async def test_inputs_that_are_nested_too_deeply_are_too(runtime: Runtime) -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(ConfigurationError, match=r"^inputs must be JSON values; 'x' is not"):
        await runtime.execute_code("1", inputs={"x": deep})


async def test_mistakes_of_the_operator_cost_no_place() -> None:
    async with opened(pool_size=0, max_guests=1, queue_seconds=5) as runtime:
        for _ in range(3):
            with pytest.raises(ConfigurationError):
                await runtime.execute_code("1", inputs={"x": {1}})
        assert (await runtime.execute_code("1")).value == 1


async def test_many_runs_at_once(runtime: Runtime) -> None:
    limiter = anyio.CapacityLimiter(8)
    values: list[Any] = []

    async def one(number: int) -> None:
        async with limiter:
            run = await runtime.execute_code(f"print({number})\nawait echo({number})", path="sandbox")
            assert run.logs == f"{number}\n"
            values.append(run.value)

    async with anyio.create_task_group() as tasks:
        for number in range(50):
            tasks.start_soon(one, number)
    assert sorted(values) == list(range(50))


@pytest.mark.parametrize("code", ["import os\nos._exit(3)", "import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)"])
async def test_a_program_that_ends_its_process_is_a_failure_with_a_reason(runtime: Runtime, code: str) -> None:
    run = await runtime.execute_code(f"print('before')\n{code}")
    assert run.error is not None
    assert run.error.kind == "GuestDied"
    assert "status 3" in run.error.message or "SIGSEGV" in run.error.message
    assert run.logs == "before\n"
    assert (await runtime.execute_code("1")).value == 1


async def test_what_is_written_behind_pythons_back_is_in_the_logs(runtime: Runtime) -> None:
    for _ in range(20):
        run = await runtime.execute_code("import os\nos.write(1, b'one ')\nos.write(2, b'two')\n1")
        assert (run.value, run.logs) == (1, "one two")


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="3.14 tracks every dict, so `gc.freeze` hides this one")
async def test_the_collector_finds_the_variables_that_refer_to_an_object(runtime: Runtime) -> None:
    code = "import gc\nclass A: pass\na = A()\n[each is globals() for each in gc.get_referrers(a)]"
    run = await runtime.execute_code(code, path="sandbox")
    assert run.value == [True]


async def test_a_message_that_is_no_protocol_ends_the_run(runtime: Runtime) -> None:
    run = await runtime.execute_code(
        "import os\nfor fd in range(3, 20):\n    try:\n        os.write(fd, b'junk\\n')\n"
        "    except OSError: pass\nawait hang()"
    )
    assert run.error is not None
    assert run.error.kind == "ProtocolError"
    assert run.error.message.startswith("the guest sent a message that is not JSON: ")
    assert (await runtime.execute_code("1")).value == 1


async def test_a_call_that_nobody_waits_for_and_that_never_ends_is_ended_by_the_limit(runtime: Runtime) -> None:
    CANCELLED.clear()
    limits = Limits(wall_seconds=1)
    run = await runtime.execute_code("call = hang()\nawait echo(1)", check=False, limits=limits)
    assert run.error is not None
    assert (run.error.limit, run.error.tool) == ("wall_seconds", "hang")
    assert (run.value, CANCELLED) == (1, ["hang"])
    assert [call.status for call in run.calls] == ["unknown_outcome", "succeeded"]


async def test_a_call_that_is_given_up_is_cancelled_on_the_host(runtime: Runtime) -> None:
    CANCELLED.clear()
    run = await runtime.execute_code(
        "import asyncio\ntry:\n    await asyncio.wait_for(hang(), 0.5)\nexcept TimeoutError:\n    r = 'late'\n"
        "[r, await echo(1), await echo(2)]"
    )
    assert (run.value, CANCELLED) == (["late", 1, 2], ["hang"])


async def test_very_many_calls_given_up_leave_the_run_in_order(runtime: Runtime) -> None:
    run = await runtime.execute_code(
        "import asyncio\nasync def f(i):\n    try:\n"
        "        return await asyncio.wait_for(hang() if i % 3 else echo(i), 0.2)\n"
        "    except TimeoutError:\n        return 'late'\n"
        "r = await asyncio.gather(*(f(i) for i in range(600)))\n[r.count('late'), await echo('on')]"
    )
    assert run.error is None, run.error
    assert run.value[1] == "on"
    assert len(run.calls) == 601


async def test_approval_of_a_programs_call() -> None:
    asked: list[Any] = []

    async def approve(request: ApprovalRequest) -> Any:
        asked.append((request.tool.name, dict(request.arguments), request.caller))
        amount = request.arguments["amount"]
        return Allow() if amount < 10 else Deny("too much") if amount > 100 else Allow(arguments={"amount": 9})

    async with opened(approve=approve, pool_size=0) as runtime:
        run = await runtime.execute_code(
            "r = [await pay(5), await pay(50)]\ntry:\n    await pay(500)\nexcept ToolError as e:\n"
            "    r += [str(e), e.code]\nr"
        )
        assert run.value[:2] == ["paid 5", "paid 9"]
        assert "too much" in run.value[2]
        assert run.value[3] == -32007
    assert asked == [("pay", {"amount": amount}, "code") for amount in (5, 50, 500)]


async def test_a_runtime_is_used_inside_its_block_only() -> None:
    runtime = Runtime()
    with pytest.raises(ConfigurationError, match=r"^enter the runtime first: async with Runtime\(...\) as runtime$"):
        await runtime.execute_code("1")
    assert runtime.check("1 +")[0].severity == "error"
    async with opened(pool_size=0) as runtime:
        with pytest.raises(ConfigurationError, match="this runtime is entered already; leave it first"):
            await runtime.__aenter__()
    with pytest.raises(ConfigurationError, match="this runtime was left already; enter it again"):
        await runtime.execute_code("1")
