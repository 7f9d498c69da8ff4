"""Programs that are graphs run as plans: which do, what begins early, and that what comes out is the sandbox's."""

from __future__ import annotations

import contextvars
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from callgate import ApprovalRequest, CallStarted, ConfigurationError, Deny, Event, Runtime, tool
from runtime.conftest import opened
from runtime.graphed import World, known, told

pytestmark = pytest.mark.anyio

SECONDS = 20


@asynccontextmanager
async def world(company: int = 1, **options: Any) -> AsyncIterator[tuple[Runtime, World]]:
    """A runtime without a sandbox, with the tools of a world of its own."""
    made = World(company)
    with anyio.fail_after(SECONDS):
        async with Runtime(made.tools(), sandbox=None, **options) as runtime:
            yield runtime, made


@asynccontextmanager
async def boxed(**options: Any) -> AsyncIterator[tuple[Runtime, World]]:
    """The same, with a sandbox."""
    made = World()
    with anyio.fail_after(SECONDS):
        async with opened(*made.tools(), pool_size=0, **options) as runtime:
            yield runtime, made


SEQUENTIAL = "\n".join(f"r{n} = await meet({n})" for n in range(10)) + "\nsum([r0, r1, r2, r3, r4, r5, r6, r7, r8, r9])"


async def test_calls_written_one_after_the_other_are_open_at_the_same_time() -> None:
    async with world(company=10) as (runtime, made):
        result = await runtime.execute_code(SEQUENTIAL)
    assert (result.value, result.path, made.most) == (45, "plan", 10)
    assert [call.arguments for call in result.calls] == [{"n": n} for n in range(10)]


async def test_a_look_that_takes_several_turns_goes_on_while_the_first_call_is_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("callgate.runtime.fast_path.ahead.TURN_SECONDS", 0.0)
    async with world(company=10) as (runtime, made):
        result = await runtime.execute_code(SEQUENTIAL, limits=runtime.limits.replace(wall_seconds=10))
    assert (result.value, made.most) == (45, 10)


async def test_no_more_of_them_than_allowed_are_open() -> None:
    async with world(company=3) as (runtime, made):
        limits = runtime.limits.replace(max_concurrent_calls=3)
        result = await runtime.execute_code(SEQUENTIAL.replace("10", "3"), limits=limits)
    assert (result.value, made.most) == (45, 3)


async def test_loops_and_gather_begin_their_calls_together() -> None:
    loop = "rows = []\nfor n in range(6):\n    rows.append(await meet(n))\nrows"
    gather = "import asyncio\nawait asyncio.gather(*[meet(n) for n in range(6)])"
    for code in (loop, gather):
        async with world(company=6) as (runtime, made):
            result = await runtime.execute_code(code)
        assert (result.value, result.path, made.most) == ([0, 1, 2, 3, 4, 5], "plan", 6)


async def test_a_read_never_crosses_a_write_and_writes_keep_their_order() -> None:
    code = (
        "a = await look(1)\nawait note('one')\nb = await look(2)\nawait note('two')\nawait note('three')\nawait look(3)"
    )
    async with world() as (runtime, made):
        result = await runtime.execute_code(code)
    assert result.path == "plan"
    assert made.log == [
        "look 1", "looked 1", "note one", "noted one", "look 2", "looked 2", "note two", "noted two", "note three",
        "noted three", "look 3", "looked 3",
    ]  # fmt: skip


async def test_writes_of_one_gather_begin_in_the_order_of_the_program() -> None:
    code = "import asyncio\nawait asyncio.gather(note('a'), look(1), note('b'), look(2), note('c'))"
    async with world() as (runtime, made):
        result = await runtime.execute_code(code)
    assert [each for each in made.log if each.startswith("note ")] == ["note a", "note b", "note c"]
    assert sorted(result.value) == [1, 1, 2, 2, 3]


async def test_what_the_program_does_not_reach_is_speculative() -> None:
    async with world() as (runtime, made):
        result = await runtime.execute_code("a = await watch(3)\nb = {}[str(a)]\nc = await look(2)\nd = await hang(3)")
    assert result.error is not None
    assert (result.error.kind, result.error.line) == ("KeyError", 2)
    assert [call.arguments for call in result.calls] == [{"entries": 3}]
    assert [(call.tool, call.status) for call in result.speculative] == [("look", "succeeded"), ("hang", "cancelled")]
    assert result.usage.tool_calls == 3
    assert "given up 3" in made.log
    plain = result.to_dict()
    assert [call["tool"] for call in plain["speculative"]] == ["look", "hang"]
    assert (plain["path"], plain["plan"]) == ("plan", result.plan)


async def test_nothing_is_begun_behind_a_call_that_failed() -> None:
    code = "import asyncio\na = await fail('no')\nb = await look(a)\nc = await look(2)"
    async with world() as (runtime, _):
        result = await runtime.execute_code(code)
    assert result.error is not None
    assert (result.error.kind, result.error.message, result.error.tool) == ("ToolError", "no", "fail")
    assert [call.tool for call in result.calls] == ["fail"]


async def test_a_write_behind_a_failure_is_never_made() -> None:
    async with world() as (runtime, made):
        result = await runtime.execute_code(
            "import asyncio\nawait asyncio.gather(look(1), fail('no'))\nawait note('x')"
        )
    assert not result.ok
    assert made.notes == []


async def test_a_call_that_the_program_has_started_is_made_though_another_fails_at_once() -> None:
    async with world() as (runtime, made):
        result = await runtime.execute_code("import asyncio\nawait asyncio.gather(refuse('no'), note('x'), note('y'))")
    assert result.error is not None
    assert result.error.message == "no"
    assert [call.tool for call in result.calls] == ["refuse", "note", "note"]
    assert {"note x", "note y"} <= set(made.log)


async def test_a_tool_that_asks_for_approval_is_not_called_early() -> None:
    asked: list[ApprovalRequest] = []

    async def approve(request: ApprovalRequest) -> Deny:
        asked.append(request)
        return Deny("not now")

    async with world(approve=approve) as (runtime, _):
        result = await runtime.execute_code("a = await look(1)\n1 / 0\nb = await secret(2)")
        assert (asked, result.path, result.speculative) == ([], "plan", [])
        result = await runtime.execute_code("a = await look(1)\nb = await secret(2)")
    assert len(asked) == 1
    assert [call.status for call in result.calls] == ["succeeded", "denied"]


async def test_a_tool_whose_fallback_writes_is_not_called_early() -> None:
    async with world() as (runtime, made):
        result = await runtime.execute_code("a = await look(1)\n1 / 0\nb = await unsafe('x')")
        assert (result.speculative, made.notes) == ([], [])
        result = await runtime.execute_code("a = await look(1)\nb = await unsafe('x')\nb")
    assert (result.value, made.notes) == (1, ["x"])
    assert [call.tool for call in result.calls] == ["look", "unsafe", "note"]


async def test_a_chain_of_calls_that_never_wait_needs_no_other_task() -> None:
    async with world() as (runtime, _):
        result = await runtime.execute_code("n = 0\nfor i in range(500):\n    n = await echo(i)\nn")
    assert (result.value, len(result.calls)) == (499, 500)


# what is given, and what comes out


async def test_inputs_are_variables_and_the_callers_own_are_not_touched() -> None:
    rows = [{"n": 1}, {"n": 2}]
    code = "rows.append({'n': await look(len(rows))})\nrows[0]['n'] = 9\n[each['n'] for each in rows]"
    async with world() as (runtime, _):
        for _ in range(2):
            result = await runtime.execute_code(code, inputs={"rows": rows})
            assert (result.value, result.path) == ([9, 2, 2], "plan")
        large = await runtime.execute_code("len(rows)", inputs={"rows": list(range(5000))})
        assert large.value == 5000
        with pytest.raises(ConfigurationError, match="'rows' is not"):
            await runtime.execute_code("1", inputs={"rows": {1}})
        with pytest.raises(ConfigurationError, match="cannot be the name of a variable"):
            await runtime.execute_code("1", inputs={"a b": 1})
    assert rows == [{"n": 1}, {"n": 2}]


async def test_values_that_are_no_json_are_text() -> None:
    async with world() as (runtime, _):
        result = await runtime.execute_code("range(await look(3))")
        assert (result.value, result.value_repr, result.path) == (None, "range(0, 3)", "plan")


async def test_only_the_tools_that_a_run_is_given_may_be_called() -> None:
    async with world() as (runtime, made):
        result = await runtime.execute_code("await look(1)\nawait note('x')", tools=["look"], check=False)
        assert not result.ok
        assert made.notes == []
        assert (await runtime.execute_code("await look(1)", tools=["look"])).value == 1


async def test_check_comes_first() -> None:
    async with world() as (runtime, made):
        result = await runtime.execute_code("await look(1)\nawait lok(2)")
    assert result.error is not None
    assert result.error.kind == "CheckFailed"
    assert (result.findings, made.log) != ([], [])
    assert made.log == []


async def test_the_restricted_policy_holds_on_both_paths() -> None:
    async with world(policy="restricted") as (runtime, made):
        result = await runtime.execute_code("a = await look(1)\na.__class__")
        assert result.error is not None
        assert (result.error.kind, made.log) == ("CheckFailed", [])
        assert (await runtime.execute_code("await look(1)")).path == "plan"


async def test_events_come_as_they_do_from_the_sandbox() -> None:
    code = (
        "print('a', end='')\nawait note('x')\nprint('b')\nprint('c', end='')\nawait note('y')\nprint('d\\ne', end='')"
    )
    events: list[Event] = []
    async with boxed() as (runtime, _):
        result = await runtime.execute_code(code, on_event=events.append)
        fast = [told(event) for event in events]
        events.clear()
        again = await runtime.execute_code(code, on_event=events.append, path="sandbox")
    assert (result.path, again.path) == ("plan", "sandbox")
    assert fast == [told(event) for event in events]
    assert fast == ["a", "start note", "end note", "b\n", "c", "start note", "end note", "d\ne"]


async def test_a_program_can_be_listened_to_while_it_runs() -> None:
    async with world() as (runtime, made):
        async with runtime.stream_code("print('now')\nawait hang(1)", path="plan") as stream:
            async for event in stream:
                if isinstance(event, CallStarted):
                    break
        assert stream.result is None
        assert made.log == ["hang 1", "given up 1"]
        async with runtime.stream_code("print('now')\nawait look(1)") as stream:
            events = [told(event) async for event in stream]
    assert events == ["now\n", "start look", "end look"]
    assert stream.result is not None
    assert stream.result.path == "plan"


# which path


async def test_there_are_three_paths() -> None:
    async with world() as (runtime, _):
        with pytest.raises(ConfigurationError, match=r"^there is no path 'fast'; there are: auto, plan, sandbox$"):
            await runtime.execute_code("1", path="fast")  # type: ignore[arg-type]
        with pytest.raises(ConfigurationError, match="sandbox=None"):
            await runtime.execute_code("1", path="sandbox")


async def test_what_is_no_graph_is_not_run_as_a_plan() -> None:
    async with world() as (runtime, made):
        result = await runtime.execute_code("await note('a')\nwhile True: pass", path="plan")
        assert result.error is not None
        assert (result.error.kind, result.error.line, result.path) == ("NotAGraph", 2, "plan")
        assert result.error.message.startswith("line 2: ")
        assert (result.calls, made.notes, result.sandbox[:5]) == ([], [], "none:")
        result = await runtime.execute_code("import os\nwhile True: pass")
        assert result.error is not None
        assert "(and 1 more)" in result.error.message
        assert "sandbox=None" in result.error.message
        assert result.for_model().startswith("The program failed.\nNotAGraph: line 1: ")


async def test_a_program_that_is_no_graph_runs_in_the_sandbox() -> None:
    async with boxed() as (runtime, made):
        result = await runtime.execute_code("try:\n    n = await note('a')\nexcept ToolError:\n    n = 0\nn")
        assert (result.value, result.path, result.plan) == (1, "sandbox", None)
        assert made.notes == ["a"]
        assert (await runtime.execute_code("await note('b')", path="sandbox")).path == "sandbox"
        assert (await runtime.execute_code("await note('c')")).path == "plan"
        async with runtime.session() as session:
            assert (await session.execute_code("await note('d')")).path == "sandbox"


async def test_a_models_call_takes_the_fast_path() -> None:
    async with world() as (runtime, _):
        assert await runtime.handle("execute_code", {"code": "print(await look(3))\n4"}) == "3\nValue: 4"


SAME = {
    "a value": "r = await row(1)\nprint(r.name, r['parts'])\n{'n': r.n, 'all': [await look(n) for n in r.parts]}",
    "a failed call": "print('a')\nawait note('x')\nawait fail('no such thing')\nawait note('y')",
    "a program's error": "r = await row(1)\nprint(r.name)\nr['gone']",
    "an error in a later line": "r = await row(1)\nx = 1 / (r.n - 1)\nawait note('never')",
    "half a line": "print('a', end='')\nawait note('x')\nprint('b', end='')",
    "half a surrogate pair": "print('\\ud800')\n'\\ud800'",
    "text that is no JSON": "range(await look(2))",
    "nothing": "x = await look(1)",
    "half a surrogate pair for a call": "a = await look(1)\nb = await fail('\\ud83d')\na",
    "a gather": "import asyncio\na, b = await asyncio.gather(row(1), row(2))\n[a.n, b.name]",
}


@pytest.mark.parametrize("name", SAME)
async def test_both_paths_give_the_same(name: str) -> None:
    async with boxed() as (runtime, _):
        fast = await runtime.execute_code(SAME[name], path="plan")
        box = await runtime.execute_code(SAME[name], path="sandbox")
    assert (fast.path, box.path) == ("plan", "sandbox")
    assert known(fast) == known(box)


# the end from outside


@pytest.mark.parametrize("seconds", [0, 0.001, 0.01, 0.1])
async def test_a_run_may_be_cancelled_at_any_moment(seconds: float) -> None:
    async with world() as (runtime, made):
        with anyio.move_on_after(seconds) as scope:
            await runtime.execute_code("a = await look(1)\nb = await hang(2)\nc = await hang(3)")
        assert scope.cancelled_caught
        assert made.log.count("given up 2") == made.log.count("hang 2")
        assert made.log.count("given up 3") == made.log.count("hang 3")
        assert (await runtime.execute_code("await look(1)")).value == 1


async def test_leaving_the_runtime_ends_what_runs_in_it() -> None:
    made = World()
    ends: list[str] = []

    async def one(runtime: Runtime) -> None:
        result = await runtime.execute_code("print('a')\nawait hang(1)\nawait hang(2)")
        assert result.error is not None
        ends.append(f"{result.error.kind}: {result.error.message} {result.logs!r} {len(result.calls)}")

    with anyio.fail_after(SECONDS):
        async with anyio.create_task_group() as tasks:
            async with Runtime(made.tools(), sandbox=None) as runtime:
                tasks.start_soon(one, runtime)
                await anyio.wait_all_tasks_blocked()
            assert sorted(made.log) == ["given up 1", "given up 2", "hang 1", "hang 2"]
    assert ends == ["SandboxCrashed: the runtime was closed while this ran 'a\\n' 1"]


async def test_a_runtime_says_what_holds_where_a_call_does_not() -> None:
    code = "r = await look(1)\nr"
    async with boxed(path="sandbox") as (runtime, _):
        assert (await runtime.execute_code(code)).path == "sandbox"
        assert (await runtime.execute_code(code, path="plan")).path == "plan"
    async with boxed(path="plan") as (runtime, _):
        refused = await runtime.execute_code("while True:\n    pass")
        assert refused.error is not None
        assert refused.error.kind == "NotAGraph"
        assert "NotAGraph" in await runtime.handle("execute_code", {"code": "while True:\n    pass"})
    with pytest.raises(ConfigurationError, match="there is no path 'fast'; there are: auto, plan, sandbox"):
        Runtime([], path="fast")  # type: ignore[arg-type]


async def test_what_a_tool_sets_in_its_context_stays_there() -> None:
    seen: contextvars.ContextVar[int] = contextvars.ContextVar("seen", default=0)

    @tool(read_only=True)
    async def mark() -> int:
        before = seen.get()
        seen.set(5)
        return before

    async with Runtime([mark], sandbox=None) as runtime:
        result = await runtime.execute_code("a = await mark()\nb = await mark()\n[a, b]")
    assert result.value == [0, 0]
    assert seen.get() == 0
