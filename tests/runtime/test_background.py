"""`start_code`, `wait_run` and `stop_run`: programs of a model that go on without it."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from callgate import Allow, Answer, ConfigurationError, Conversation, Deny, Runtime, ToolError, tool
from callgate.runtime.background import MOST_RUNS
from callgate.runtime.model import BACKGROUND, META_TOOLS
from runtime.conftest import opened

pytestmark = pytest.mark.anyio

SECONDS = 30
META: Any = (*META_TOOLS, *BACKGROUND)


class Gate:
    """A tool that waits for the test, and what became of its calls."""

    def __init__(self) -> None:
        self.open, self.begun = anyio.Event(), anyio.Event()
        self.ended: list[str] = []

    def tools(self) -> list[Any]:
        @tool
        async def hold(name: str) -> str:
            self.begun.set()
            try:
                await self.open.wait()
            finally:
                self.ended.append(name)
            return f"{name} is over"

        @tool(requires_approval=True)
        async def wipe(table: str) -> str:
            return f"wiped {table}"

        @tool(read_only=True)
        async def look(n: int) -> int:
            return n

        @tool
        async def fail() -> None:
            raise ToolError("the disk is full")

        return [hold, wipe, look, fail]


@asynccontextmanager
async def talking(gate: Gate | None = None, **options: Any) -> AsyncIterator[Conversation]:
    tools = (gate or Gate()).tools()
    with anyio.fail_after(SECONDS):
        async with opened(*tools, sandbox=None, **options) as runtime, runtime.conversation(meta=META) as conversation:
            yield conversation


async def begun(conversation: Conversation, code: str) -> str:
    """The id of a run that was begun."""
    answer = await conversation.answer("start_code", {"code": code})
    assert answer.ok, answer.text
    run: str = answer.value["run"]
    assert run in answer.text
    return run


async def waited(conversation: Conversation, run: str, seconds: float = 20, **options: Any) -> Answer:
    return await conversation.answer("wait_run", {"run": run, "seconds": seconds}, **options)


async def test_a_program_in_the_background_answers_at_once_and_its_result_comes_later() -> None:
    gate = Gate()
    async with talking(gate) as conversation:
        run = await begun(conversation, "n = await look(n=1)\nprint('saw', n)\nawait hold(name='one')")
        await gate.begun.wait()
        under_way = await waited(conversation, run, 0)
        assert re.fullmatch(
            rf'Run "{run}" is still running, started .* ago; 1 tool call has ended so far.\nIt printed last:\nsaw 1\n',
            under_way.text,
        )
        assert under_way.structured() == {"run": run, "status": "running", "tool_calls": 1}
        gate.open.set()
        ended = await waited(conversation, run)
        assert ended.text == "saw 1\nValue: one is over"
        structured = ended.structured() or {}
        assert (structured["ok"], structured["value"], structured["tool_calls"]) == (True, "one is over", 2)
        assert (await waited(conversation, run)).text == ended.text


async def test_a_program_that_fails_fails_in_the_answer_of_wait_run() -> None:
    async with talking() as conversation:
        ended = await waited(conversation, await begun(conversation, "await fail()"))
        assert not ended.ok
        assert "the disk is full" in ended.text
        mistake = await waited(conversation, await begun(conversation, "await nothing()"))
        assert mistake.mistake


async def test_a_run_that_is_stopped_has_no_call_under_way() -> None:
    gate = Gate()
    async with talking(gate) as conversation:
        run = await begun(conversation, "await hold(name='one')")
        await gate.begun.wait()
        assert (await conversation.handle("stop_run", {"run": run})) == (
            f'Run "{run}" is being stopped. What it has done stays done.'
        )
        ended = await waited(conversation, run)
        assert (ended.ok, gate.ended) == (False, ["one"])
        assert "has ended before" in await conversation.handle("stop_run", {"run": run})


async def test_the_runs_of_another_conversation_do_not_exist() -> None:
    gate = Gate()
    async with talking(gate) as one, one.runtime.conversation(meta=META) as other:
        run = await begun(one, "await hold(name='one')")
        await gate.begun.wait()
        for asked in ("wait_run", "stop_run"):
            refused = await other.answer(asked, {"run": run})
            assert refused.mistake
            assert refused.text == (f"Error: you have no run {run!r}: start_code begins one, and its answer has the id")
        assert gate.ended == []
        gate.open.set()
        assert (await waited(one, run)).ok


async def test_runs_in_memory_end_with_their_conversation_and_durable_ones_go_on(tmp_path: Path) -> None:
    gate = Gate()
    async with talking(gate) as conversation:
        runtime = conversation.runtime
        async with runtime.conversation(meta=META) as inner:
            run = await begun(inner, "await hold(name='one')")
            await gate.begun.wait()
        assert not (await (await runtime.runs.get(run)).wait()).ok
        assert gate.ended == ["one"]
    gate = Gate()
    async with talking(gate, durable=tmp_path / "runs.db") as conversation:
        async with conversation.runtime.conversation(meta=META, owner="ann") as inner:
            run = await begun(inner, "await hold(name='one')")
            await gate.begun.wait()
        gate.open.set()
        async with conversation.runtime.conversation(meta=META, owner="ann") as again:
            assert (await waited(again, run)).text == "Value: one is over"


async def test_a_conversation_has_a_bounded_number_of_runs_and_the_refusal_names_them() -> None:
    gate = Gate()
    async with talking(gate) as conversation:
        runs: list[str] = []
        refused: list[str] = []

        async def start() -> None:
            answer = await conversation.answer("start_code", {"code": "await hold(name='x')"})
            if answer.ok:
                runs.append(answer.value["run"])
            else:
                refused.append(answer.text)

        async with anyio.create_task_group() as tasks:
            for _ in range(MOST_RUNS + 3):
                tasks.start_soon(start)
        assert (len(runs), len(refused)) == (MOST_RUNS, 3)
        assert all(run in refused[0] for run in runs)
        async with conversation.runtime.conversation(meta=META) as other:
            await begun(other, "await look(n=1)")
        await conversation.handle("stop_run", {"run": runs[0]})
        await waited(conversation, runs[0])
        await begun(conversation, "await look(n=1)")


async def test_a_run_that_waits_for_an_approval_says_so_and_goes_on_once_somebody_decided() -> None:
    async with talking() as conversation:
        run = await begun(conversation, "await wipe(table='users')")
        with anyio.fail_after(15):  # it comes to rest, and the wait is over
            waits = await waited(conversation, run, 60)
        assert waits.ok
        assert waits.text == (
            f'Run "{run}" waits for the approval of wipe({{"table":"users"}}). A person decides. Tell the user. '
            "After the decision the run continues by itself, and wait_run gives its result."
        )
        runs = conversation.runtime.runs
        (call,) = await runs.pending(run=run)
        async with anyio.create_task_group() as tasks:

            async def decide() -> None:
                await runs.approve(run, call.call, by="ann")

            tasks.start_soon(decide)
            assert (await waited(conversation, run)).text == "Value: wiped users"


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (Allow(by="ann"), "Value: wiped users"),
        (Allow({"table": "logs"}, by="ann"), "Value: wiped logs"),
        (Deny("not today", by="ann"), "not today"),
    ],
)
async def test_a_caller_that_waits_may_decide(answer: Allow | Deny, text: str) -> None:
    asked: list[dict[str, Any]] = []

    def approve(request: Any) -> Allow | Deny:
        asked.append(request.arguments)
        return answer

    async with talking() as conversation:
        run = await begun(conversation, "await wipe(table='users')")
        assert text in (await waited(conversation, run, approve=approve)).text
        assert asked == [{"table": "users"}]


async def test_an_answer_that_nobody_gave_leaves_the_call_to_others() -> None:
    async with talking() as conversation:
        run = await begun(conversation, "await wipe(table='users')")
        assert "waits for the approval" in (await waited(conversation, run, 0.2, approve=lambda _: Deny("away"))).text
        assert len(await conversation.runtime.runs.pending(run=run)) == 1


async def test_an_edit_that_does_not_fit_the_tool_leaves_the_call_to_others() -> None:
    async with talking() as conversation:
        run = await begun(conversation, "await wipe(table='users')")
        answer = await waited(conversation, run, 0.2, approve=lambda _: Allow({"table": 5}, by="ann"))
        assert "waits for the approval" in answer.text
        assert len(await conversation.runtime.runs.pending(run=run)) == 1


async def test_a_program_may_itself_be_such_a_run(tmp_path: Path) -> None:
    plan = {"steps": [{"id": "a", "tool": "wipe", "arguments": {"table": "users"}}]}
    calls: list[tuple[Any, dict[str, Any]]] = [
        ("execute_code", {"code": "await wipe(table='users')"}), ("execute_tool_plan", plan),
    ]  # fmt: skip
    async with talking(durable=tmp_path / "runs.db") as conversation:
        for name, arguments in calls:
            answer = await conversation.answer(name, arguments, as_run=True)
            assert answer.ok
            found = re.search(r'Run "(.*)" waits .*`callgate runs --durable runs.db approve \1`', answer.text)
            assert found is not None, answer.text
            (call,) = await conversation.runtime.runs.pending(run=found[1])
            await conversation.runtime.runs.approve(found[1], call.call, by="ann")
            assert "wiped users" in (await waited(conversation, found[1])).text


async def test_a_call_that_is_cancelled_stops_its_run() -> None:
    gate = Gate()
    async with talking(gate) as conversation:
        async with anyio.create_task_group() as tasks:

            async def run() -> None:
                await conversation.answer("execute_code", {"code": "await hold(name='one')"}, as_run=True)

            tasks.start_soon(run)
            await gate.begun.wait()
            tasks.cancel_scope.cancel()
        (left,) = await conversation.runtime.runs.list()
        assert not (await left.wait()).ok
        assert gate.ended == ["one"]


async def test_what_a_run_leaves_can_be_read_by_its_conversation() -> None:
    async with talking() as conversation:
        long = await waited(conversation, await begun(conversation, "'x' * 100_000"))
        handle = re.search(r"art_[0-9a-f]{32}", long.text)
        assert handle is not None
        assert (await conversation.answer("read_artifact", {"artifact": handle[0]})).ok


# off unless asked for


async def test_without_them_nothing_is_listed_answered_or_imported() -> None:
    gate = Gate()
    async with opened(*gate.tools(), sandbox=None) as runtime, runtime.conversation() as conversation:
        names = {each["name"] for each in conversation.tool_definitions("anthropic")}
        assert not names & set(BACKGROUND)
        for name in BACKGROUND:
            for source in (runtime, conversation):
                assert await source.handle(name, {}) == f"Error: {name} is not in your list of tools"
        assert not any(name.startswith("_runs_host") for name in vars(runtime))


def test_start_code_stands_beside_execute_code() -> None:
    with pytest.raises(ConfigurationError, match="start_code stands beside execute_code"):
        Runtime(sandbox=None).tool_definitions("anthropic", meta=["start_code"])


async def test_a_run_that_waits_for_a_time_asks_nobody_to_decide() -> None:
    async with opened() as runtime, runtime.conversation(meta=META) as conversation:
        run = await begun(conversation, "import asyncio\nawait asyncio.sleep(3600)")
        with anyio.fail_after(15):
            waits = await waited(conversation, run, 60)
        assert waits.text == f'Run "{run}" waits for a time. It continues by itself, and wait_run gives its result.'
        await conversation.handle("stop_run", {"run": run})


async def test_a_program_that_is_no_graph_runs_in_a_guest_and_its_files_are_the_conversation_s() -> None:
    code = (
        "n = 0\nwhile n < 2:\n    n += await look(n=1)\nopen('/output/a.txt', 'w').write('made')\nawait wipe(table='t')"
    )
    gate = Gate()
    with anyio.fail_after(SECONDS):
        async with opened(*gate.tools()) as runtime, runtime.conversation(meta=META) as conversation:
            run = await begun(conversation, code)
            ended = await waited(conversation, run, approve=lambda _: Allow(by="ann"))
            assert ended.text.startswith("Value: wiped t")
            (made,) = ended.artifacts
            assert (made.name, made.text) == ("a.txt", "made")
            read = await conversation.answer("read_artifact", {"artifact": made.handle})
            assert "made" in read.text


@pytest.mark.parametrize("name", BACKGROUND)
def test_their_names_are_no_names_of_tools(name: str) -> None:
    def own() -> int:
        return 1

    with pytest.raises(Exception, match=name):
        Runtime([tool(name=name)(own)], sandbox=None)
