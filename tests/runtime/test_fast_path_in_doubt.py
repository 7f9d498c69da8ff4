"""Where the fast path is not sure the sandbox takes over: no call is made twice, nothing is told twice."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from callgate import CallEnded, CallStarted, Event, Limits, Printed, Tool, tool
from runtime.conftest import opened
from runtime.graphed import known, told
from runtime.test_fast_path import boxed, world

pytestmark = [pytest.mark.anyio, pytest.mark.sampled]

DOUBT = "sum([i * 2 for i in range(300_000)])"
"""More than the host does for a program."""


async def test_no_call_is_made_twice() -> None:
    code = (
        f"print('a')\nn = await note('x')\nm = await note('x')\nprint(n, m)\nt = {DOUBT}\n"
        "k = await note('y')\n[n, m, k, t]"
    )
    async with boxed() as (runtime, made):
        result = await runtime.execute_code(code)
    assert result.error is None
    assert (result.value, result.path, result.plan) == ([1, 2, 3, 89999700000], "sandbox", None)
    assert made.notes == ["x", "x", "y"]
    assert result.logs == "a\n1 2\n"
    assert [(call.id, call.tool, call.status) for call in result.calls] == [
        (1, "note", "succeeded"), (2, "note", "succeeded"), (3, "note", "succeeded"),
    ]  # fmt: skip
    assert result.speculative == []
    assert result.usage.tool_calls == 3
    assert result.usage.cpu_seconds is not None


async def test_nothing_is_told_twice() -> None:
    code = f"print('a')\nn = await note('x')\nprint('b', end='')\nt = {DOUBT}\nprint('c')\nm = await note('y')"
    events: list[Event] = []
    async with boxed() as (runtime, _):
        result = await runtime.execute_code(code, on_event=events.append)
    assert (result.path, result.logs) == ("sandbox", "a\nbc\n")
    assert "".join(event.text for event in events if isinstance(event, Printed)) == "a\nbc\n"
    assert [told(event) for event in events if not isinstance(event, Printed)] == ["start note", "end note"] * 2
    assert [told(event) for event in events][:3] == ["a\n", "start note", "end note"]


async def test_calls_under_way_are_waited_for_and_early_ones_are_used() -> None:
    code = (
        f"import asyncio\nfirst = asyncio.create_task(stall('x'))\nt = {DOUBT}\nawait first\n"
        "r = await look(t)\n[r, await look(5)]"
    )
    async with boxed() as (runtime, made), anyio.create_task_group() as tasks:

        async def later() -> None:
            await anyio.sleep(0.05)
            made.told.set()

        tasks.start_soon(later)
        result = await runtime.execute_code(code)
    assert (result.value, result.path) == ([89999700000, 5], "sandbox")
    assert made.notes == ["x"]
    assert [call.tool for call in result.calls if call.tool == "stall"] == ["stall"]


async def test_an_error_is_answered_from_what_there_is() -> None:
    code = f"import asyncio\nawait note('x')\nfirst = asyncio.create_task(refuse('no'))\nt = {DOUBT}\nawait first"
    async with boxed() as (runtime, made):
        result = await runtime.execute_code(code)
        box = await runtime.execute_code(code, path="sandbox")
    assert result.error is not None
    assert (result.error.kind, result.error.message, result.error.line, result.path) == (
        "ToolError",
        "no",
        5,
        "sandbox",
    )
    assert known(result) == known(box)
    assert made.notes == ["x", "x"]


async def test_early_calls_that_the_program_never_makes_stay_speculative() -> None:
    doubt = "sum([i * a for i in range(100_000 * a)])"
    code = f"a = await watch(3)\nt = {doubt}\n1 / (a - a)\nb = await look(2)\nc = await hang(3)"
    async with boxed() as (runtime, made):
        result = await runtime.execute_code(code)
    assert result.error is not None
    assert (result.error.kind, result.path) == ("ZeroDivisionError", "sandbox")
    assert [call.arguments for call in result.calls] == [{"entries": 3}]
    assert [(call.tool, call.status) for call in result.speculative] == [("look", "succeeded"), ("hang", "cancelled")]
    assert result.usage.tool_calls == 3
    assert made.log.count("look 2") == 1


async def test_the_number_of_calls_stays_right() -> None:
    code = f"n = await note('x')\nt = {DOUBT}\nfor i in range(5):\n    n = await note(str(i))"
    async with boxed() as (runtime, made):
        result = await runtime.execute_code(code, limits=Limits(max_tool_calls=3))
        assert result.error is not None
        assert result.error.message == "limit reached: max_tool_calls is 3, used 3"
        assert (made.notes, len(result.calls)) == (["x", "0", "1"], 3)
        spare = f"a = await look(1)\nt = {DOUBT}\n[await look(7) if t > 0 else 0, await look(8), await look(9)][a]"
        result = await runtime.execute_code(spare, limits=Limits(max_tool_calls=4))
        assert result.value == 8


async def test_the_wall_limit_counts_from_the_beginning() -> None:
    code = f"a = await note('x')\nt = {DOUBT}\nb = await hang(1)"
    async with boxed() as (runtime, made):
        result = await runtime.execute_code(code, limits=Limits(wall_seconds=1.5))
    assert result.error is not None
    used = float(result.error.message.removeprefix("limit reached: wall_seconds is 1.5, used "))
    assert 1.5 <= used < 10
    assert result.usage.wall_seconds >= 1.5
    assert made.notes == ["x"]
    assert [(call.tool, call.status) for call in result.calls] == [("note", "succeeded"), ("hang", "cancelled")]


async def test_the_wall_limit_holds_while_calls_are_waited_for() -> None:
    code = f"import asyncio\nfirst = asyncio.create_task(stall('x'))\nt = {DOUBT}\nawait first"
    async with boxed() as (runtime, made):
        result = await runtime.execute_code(code, limits=Limits(wall_seconds=0.5))
    assert result.error is not None
    assert (result.error.limit, made.notes) == ("wall_seconds", ["x"])
    assert [call.status for call in result.calls] == ["unknown_outcome"]


async def test_without_a_sandbox_it_is_an_error_with_the_calls_made() -> None:
    code = f"print('a')\nn = await note('x')\nt = {DOUBT}\nm = await note('y')"
    for path in ("auto", "plan"):
        async with world() as (runtime, made):
            result = await runtime.execute_code(code, path=path)
        assert result.error is not None
        assert (result.error.kind, result.error.line, result.path) == ("NotAGraph", 3, "plan")
        assert (result.logs, made.notes, [call.tool for call in result.calls]) == ("a\n", ["x"], ["note"])
        assert ("sandbox=None" in result.error.message) == (path == "auto")


async def test_every_start_has_its_end() -> None:
    code = (
        f"a = await look(1)\nn = await note('x')\nt = {DOUBT}\nb = await look(2)\nawait fail('no')\nc = await hang(1)"
    )
    events: list[Event] = []
    async with boxed() as (runtime, _):
        result = await runtime.execute_code(code, on_event=events.append)
    started = [event.record.id for event in events if isinstance(event, CallStarted)]
    ended = [event.record.id for event in events if isinstance(event, CallEnded)]
    assert len(set(started)) == len(started)
    assert sorted(started) == sorted(ended) == sorted(call.id for call in (*result.calls, *result.speculative))


async def test_a_run_in_doubt_may_be_cancelled() -> None:
    code = f"import asyncio\nfirst = asyncio.create_task(stall('x'))\nt = {DOUBT}\nawait first\nawait hang(1)"
    async with boxed() as (runtime, made):
        for seconds in (0.05, 0.3, 0.6):
            with anyio.move_on_after(seconds) as scope:
                await runtime.execute_code(code)
            assert scope.cancelled_caught
        made.told.set()
        assert (await runtime.execute_code("await look(1)", path="sandbox")).value == 1


async def test_a_read_that_was_not_awaited_is_not_waited_for() -> None:
    code = "slow = hang(1)\nn = await look(2)\nx = (1 /\n 0)\nawait slow"
    async with boxed() as (runtime, made):
        result = await runtime.execute_code(code)
    assert result.error is not None
    assert (result.error.kind, result.error.line, result.path) == ("ZeroDivisionError", 3, "sandbox")
    assert made.log.count("look 2") == 1
    assert made.log.count("given up 1") == made.log.count("hang 1")


async def test_inputs_that_change_meanwhile_are_those_of_the_beginning() -> None:
    rows = ["a"]

    @tool
    async def grow(text: str) -> int:
        rows.append(text)
        return len(rows)

    code = f"n = await grow(rows[0])\nt = {DOUBT}\nm = await grow(rows[-1])\n[n, m, rows]"
    async with opened(grow, pool_size=0) as runtime:
        result = await runtime.execute_code(code, inputs={"rows": rows})
    assert (result.value, result.path) == ([2, 3, ["a"]], "sandbox")
    assert rows == ["a", "a", "a"]
    assert len(result.calls) == 2


async def test_a_call_that_the_guest_gives_up_stands_once_in_the_calls() -> None:
    code = (
        "import asyncio\nn = await look(1)\nlate = asyncio.create_task(note('x'))\nm = await look(2)\n"
        "await echo({1: 'a', '1': 'b'})\nawait late"
    )
    async with boxed() as (runtime, made):
        result = await runtime.execute_code(code)
    assert result.error is not None
    assert sorted(call.tool for call in result.calls) in (["look", "look", "note"], ["echo", "look", "look", "note"])
    assert made.notes in ([], ["x"])


async def test_a_call_whose_argument_has_another_name_in_python_is_not_made_twice() -> None:
    made: list[Any] = []

    async def send(**arguments: Any) -> int:
        made.append(arguments)
        return len(made)

    schema = {"type": "object", "properties": {"from": {"type": "string"}}, "required": ["from"]}
    mail = Tool.from_schema("mail", "Send a mail.", schema, send)
    async with opened(mail, pool_size=0) as runtime:
        result = await runtime.execute_code(f"n = await mail(from_='a')\nt = {DOUBT}\n[n, await mail(from_='b')]")
    assert (result.path, result.value) == ("sandbox", [1, 2])
    assert made == [{"from": "a"}, {"from": "b"}]
    assert [call.arguments for call in result.calls] == made
