"""What a result remembers for the page of its run: lines, results, prints in time, the program. All is bounded."""

from __future__ import annotations

import json
from typing import Any

import pytest

from callgate import CodeResult, Limits, Runtime, tool
from callgate.runtime.gate.recording import MAX_RESULT_BYTES

from .test_hostile_guests import WIRE

pytestmark = pytest.mark.anyio


@tool(read_only=True)
async def add(a: int, b: int = 1) -> int:
    """Adds."""
    return a + b


@tool(read_only=True)
async def text(size: int, letter: str = "x") -> str:
    """A text of that size."""
    return letter * size


async def ran(code: str, **options: Any) -> CodeResult:
    async with Runtime([add, text], pool_size=0, limits=Limits(wall_seconds=30)) as runtime:
        return await runtime.execute_code(code, **options)


ABSURD = r"""
import time
for n, line in enumerate(["99999", "-1", "1e9", "true", "null", "[]", "99999999999999999999", "2"]):
    send('{"jsonrpc":"2.0","method":"add","params":{"a":%d},"id":%d,"line":%s}\n' % (n, 1000 + n, line))
    send('{"jsonrpc":"2.0","method":"print","params":{"text":"%d","line":%s}}\n' % (n, line))
time.sleep(0.3)
"""

LINES: dict[str, tuple[str, list[int | None]]] = {
    "one after the other": ("await add(1)\n\nawait add(2)", [1, 3]),
    "over several lines": ("x = [\n  await add(\n    1,\n  )\n]", [2]),
    "a helper": ("async def f(n):\n    return await add(n)\nawait f(1)", [2]),
    "a plain helper": ("def f(n):\n    return add(n)\n1\nf(1)", [2]),
    "a comprehension": ("import asyncio\nawait asyncio.gather(\n  *[add(n) for n in range(2)],\n  add(5))", [3, 3, 4]),
    "a task": ("import asyncio\nt = asyncio.create_task(add(1))\nawait t", [2]),
    "a thread with a function": ("import asyncio\ndef f():\n  return add(1)\nawait asyncio.to_thread(f)", [3]),
    "a thread without": ("import asyncio\nawait asyncio.to_thread(add, 1)", [None]),
    "a method on a line of its own": ("x = 1\nawait (tools\n  .add(x))", [3]),
    "by name": ("1\nawait tool_call('add', a=1)", [2]),
    "in exec": ("1\nexec('x = add(1)')", [2]),
    "in a namespace": ("import tools\nawait tools.add(1)", [2]),
    "no frames in sys": ("import sys\nsys._getframe = None\nprint(1)\nawait add(1)", [4]),
    "below other code": ("f = {}\nexec('def g(n): return g(n - 1) if n else h(1)', f)\nf['h'] = add\nf['g'](9)", [4]),
    "far below": ("f = {}\nexec('def g(n): return g(n - 1) if n else h(1)', f)\nf['h'] = add\nf['g'](99)", [None]),
}


@pytest.mark.parametrize("path", ["sandbox", "auto"])
@pytest.mark.parametrize("name", LINES)
async def test_a_call_has_the_line_that_made_it(name: str, path: Any) -> None:
    code, lines = LINES[name]
    result = await ran(code, path=path)
    assert (result.error, [call.line for call in result.calls]) == (None, lines)


async def test_a_call_that_a_program_gave_up_before_it_left_has_its_line() -> None:
    code = "import asyncio\nt = asyncio.ensure_future(add(1))\nc = add(2)\nt.cancel(); c.close()\n"
    result = await ran(code, path="sandbox")
    assert {(call.line, call.status) for call in result.calls} <= {(2, "cancelled"), (3, "cancelled")}
    assert result.calls


async def test_in_a_session_lines_are_those_of_the_program_that_runs() -> None:
    async with Runtime([add]) as runtime, runtime.session() as session:
        await session.execute_code("\n\n\nasync def f():\n    return await add(1)")
        result = await session.execute_code("print(1)\nawait f()\nawait add(2)")
    assert [call.line for call in result.calls] == [2, 3]
    assert [mark.line for mark in result.prints] == [1]
    assert result.source == "print(1)\nawait f()\nawait add(2)"


@pytest.mark.parametrize("path", ["sandbox", "plan"])
async def test_prints_are_marked_with_their_line_and_their_place(path: Any) -> None:
    code = "print('ä')\nx = await add(a=1)\nprint('b', end='')\nprint(x)\nx"
    result = await ran(code, path=path, inputs={"k": 1})
    assert (result.path, result.error) == (path, None)
    assert [(mark.line, result.logs[mark.offset :][:1]) for mark in result.prints] == [(1, "ä"), (3, "b")]
    assert sorted(mark.seconds for mark in result.prints) == [mark.seconds for mark in result.prints]
    assert result.prints[0].seconds <= result.calls[0].started_seconds <= result.prints[1].seconds
    assert (result.source, result.inputs) == (code, '{"k":1}')
    assert result.limits == Limits(wall_seconds=30)


@pytest.mark.parametrize("path", ["sandbox", "plan"])
async def test_a_print_of_nothing_does_not_give_its_line_to_the_next(path: Any) -> None:
    result = await ran("print(end='')\nprint('', end='')\nprint('a', end='')\nprint(\n    'b'\n)", path=path)
    assert [(mark.line, result.logs[mark.offset :]) for mark in result.prints] == [(3, "ab\n")]


async def test_what_a_program_displays_is_marked_where_it_stands() -> None:
    code = "print(1)\nclass P:\n    def _repr_html_(self): return '<b>'\ndisplay(P())\nprint(2)"
    result = await ran(code)
    (artifact,) = result.artifacts
    assert [(mark.line, mark.artifact) for mark in result.prints if mark.artifact] == [(4, artifact.handle)]


async def test_a_program_that_was_not_run_is_in_its_result() -> None:
    result = await ran("x = (", inputs={"k": [1]})
    assert (result.error and result.error.kind, result.source, result.inputs) == ("CheckFailed", "x = (", '{"k":[1]}')


async def test_results_are_kept_up_to_four_kibibytes_and_whole_characters() -> None:
    result = await ran("await text(10)\nawait text(9_000)\nawait text(9_000, 'ä')", path="sandbox")
    short, long, wide = result.calls
    assert (short.result, short.result_bytes) == ('"xxxxxxxxxx"', 12)
    assert (long.result, long.result_bytes) == ('"' + "x" * 4095, 9_002)
    assert (wide.result, wide.result_bytes) == ('"' + "ä" * 2047, 18_002)


async def test_cached_results_are_kept_and_failed_calls_have_none() -> None:
    @tool(read_only=True, cache_seconds=60)
    async def twice(n: int) -> int:
        """Doubles."""
        if n < 0:
            raise ValueError("negative")
        return 2 * n

    async with Runtime([twice]) as runtime:
        code = "await twice(2)\nawait twice(2)\ntry:\n    await twice(-1)\nexcept ToolError:\n    pass"
        result = await runtime.execute_code(code)
        plan = await runtime.execute_tool_plan({"steps": [{"id": "a", "tool": "twice", "arguments": {"n": 2}}]})
    assert [(call.result, call.cached) for call in result.calls] == [("4", False), ("4", True), (None, False)]
    assert [(call.result, call.line) for call in plan.calls] == [("4", None)]
    assert plan.limits == Limits()


async def test_a_run_keeps_sixteen_mebibytes_of_results() -> None:
    result = await ran("for n in range(4_200):\n    await text(5_000)", path="sandbox")
    kept = [call.result for call in result.calls if call.result is not None]
    assert result.error is None
    assert 4_000 < len(kept) < 4_200
    assert sum(map(len, kept)) <= MAX_RESULT_BYTES
    assert {call.result_bytes for call in result.calls} == {5_002}


async def test_a_flood_of_prints_leaves_a_thousand_marks() -> None:
    result = await ran("for n in range(20_000):\n    print(n)", path="sandbox")
    assert (len(result.prints), result.error) == (1_000, None)
    assert result.logs.count("\n") == 20_000


async def test_absurd_lines_of_a_guest_are_no_lines() -> None:
    result = await ran(WIRE + ABSURD, check=False)
    assert [call.line for call in result.calls] == [None] * 7 + [2]
    assert [mark.line for mark in result.prints if result.logs[mark.offset :]] == [None] * 7 + [2]


async def test_a_result_is_json_with_everything_that_its_page_needs() -> None:
    result = await ran("print(1)\nawait add(1)")
    told = json.loads(json.dumps(result.to_dict()))
    assert told["source"] == "print(1)\nawait add(1)"
    assert told["prints"] == [{"seconds": result.prints[0].seconds, "line": 1, "offset": 0, "artifact": None}]
    assert told["limits"]["wall_seconds"] == 30
    (call,) = told["calls"]
    assert {key: call[key] for key in ("line", "early", "result", "result_bytes")} == {
        "line": 2, "early": False, "result": "2", "result_bytes": 1,
    }  # fmt: skip


@pytest.mark.parametrize("path", ["plan", "sandbox", "both"])
async def test_calls_prints_and_the_time_of_the_run_are_read_from_one_clock(path: str) -> None:
    code = f"x = await add(1)\nprint(x)\n{'x.imag' if path == 'both' else ''}\nawait text(3)"
    given = {"path": "auto" if path == "both" else path}
    result = await ran(code, **given)
    assert result.path == ("plan" if path == "plan" else "sandbox")
    assert len(result.calls) == 2
    ends = [call.started_seconds + call.duration_seconds for call in result.calls]
    assert max(*ends, *(mark.seconds for mark in result.prints)) <= result.usage.wall_seconds
