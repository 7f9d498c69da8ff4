"""What `Agent.run` gives and what it raises: several tasks at a time, true numbers, two views of a plan, options."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest

from callgate import Runtime, SandboxUnavailable, tool
from callgate.agent.events import ModelReplied
from callgate.agent.loop.agent import Agent
from callgate.agent.loop.result import AgentResult
from callgate.agent.loop.transcript import read_transcript
from callgate.agent.models.model import Request, ToolCall, ToolReplies, Usage, User
from callgate.agent.models.scripted import Calls, Say, ScriptedModel
from callgate.errors import ConfigurationError

pytestmark = pytest.mark.anyio

LONG = "x" * 50_000


@tool(read_only=True)
async def double(of: int) -> int:
    """Double."""
    return 2 * of


@tool(read_only=True)
async def report(days: int) -> dict[str, Any]:
    """A long report."""
    return {"days": days, "text": LONG}


TOOLS = [double, report]


async def run(*turns: Any, **options: Any) -> tuple[AgentResult, ScriptedModel]:
    model = ScriptedModel(turns)
    async with Runtime(TOOLS, sandbox=None) as runtime:
        return await Agent(model, runtime, **{"mode": "direct", **options}).run("Do it"), model


def told(result: AgentResult) -> list[str]:
    (last,) = [message for message in result.messages if isinstance(message, ToolReplies)][-1:]
    return [reply.text for reply in last.replies]


# several at a time


async def test_one_agent_solves_several_tasks_at_a_time(tmp_path: Path) -> None:
    """Each waits for all others in its model, so that they are under way together; none sees another's words."""
    tasks = [f"task {n}" for n in range(6)]
    under_way = 0
    together = anyio.Event()

    async def answers(request: Request) -> Any:
        nonlocal under_way
        task = request.messages[0]
        assert isinstance(task, User)
        number = int(task.text.split()[1])
        if len(request.messages) == 1:
            under_way += 1
            if under_way == len(tasks):
                together.set()
            await together.wait()
            return Calls(("double", {"of": number}), ("search_tools", {"query": f"double {number}"}))
        last = request.messages[-1]
        assert isinstance(last, ToolReplies)
        return f"{task.text}: {last.replies[0].text}"

    results: dict[str, AgentResult] = {}
    async with Runtime(TOOLS, sandbox=None) as runtime:
        model = ScriptedModel([answers] * 2 * len(tasks))
        agent = Agent(model, runtime, mode="direct", direct=["double"], transcript=tmp_path)

        async def solve(task: str) -> None:
            results[task] = await agent.run(task)

        with anyio.fail_after(20):
            async with anyio.create_task_group() as group:
                for task in tasks:
                    group.start_soon(solve, task)
    for number, task in enumerate(tasks):
        result = results[task]
        assert (result.outcome, result.answer) == ("answered", f"task {number}: {2 * number}")
        assert (result.turns, result.tool_calls) == (2, 1)
        assert result.transcript is not None
        assert [line.event for line in read_transcript(result.transcript)] == list(result.events)
    assert len({result.transcript for result in results.values()}) == len(tasks)


# the numbers


async def test_usage_cost_turns_and_calls_are_sums() -> None:
    first = Usage(input_tokens=1_000, output_tokens=100, cached_input_tokens=500)
    second = Usage(input_tokens=3_000, output_tokens=200, cached_input_tokens=1_000)
    calls = [ToolCall(id=str(n), name="double", arguments={"of": n}) for n in range(3)]
    calls += [
        ToolCall(id="w", name="double", arguments={}),
        ToolCall(id="s", name="search_tools", arguments={"query": "double"}),
    ]
    plan = {"steps": [{"id": id, "tool": "double", "arguments": {"of": 1}} for id in "ab"]}
    options: dict[str, Any] = {"price": (10.0, 100.0), "mode": "plan", "direct": ["double"]}
    result, _ = await run(
        Say(calls=calls, usage=first),
        Say(calls=Calls(("execute_tool_plan", plan)), usage=second),
        Say("done", usage=Usage(input_tokens=1, output_tokens=1)),
        **options,
    )
    assert (result.outcome, result.turns, result.model_calls) == ("answered", 3, 3)
    assert result.usage == first + second + Usage(input_tokens=1, output_tokens=1)
    assert result.cost is not None
    priced = [event.cost for event in result.events if isinstance(event, ModelReplied)]
    assert result.cost == pytest.approx(sum(cost for cost in priced if cost is not None))
    assert 0.05 < result.cost <= 0.0702
    assert result.tool_calls == 5  # three, a plan's two; what is written wrongly is not made, and a search is no tool
    assert result.ok


# two views


async def test_a_plain_call_has_no_run_and_its_result_is_cut_for_the_model() -> None:
    result, _ = await run(Calls(("report", {"days": 1})), "done", max_result_characters=1_000)
    assert result.runs == ()
    (text,) = told(result)
    assert 900 <= len(text) <= 1_100


# what is raised


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"tools": ["duoble"]}, "double"),
        ({"direct": ["nothing"]}, "nothing"),
        ({"tool_choice": "nothing"}, "tool_choice is 'nothing'"),
    ],
    ids=["tools", "direct", "choice"],
)
async def test_what_the_runtime_does_not_know_leaves_run(options: dict[str, Any], words: str, tmp_path: Path) -> None:
    file = tmp_path / "t.jsonl"
    with pytest.raises(ConfigurationError, match=words):
        await run("done", transcript=file, **options)
    async with Runtime(TOOLS, sandbox=None) as runtime:
        result = await Agent(ScriptedModel(["done"]), runtime).resume(file)
    assert result.answer == "done"


@pytest.mark.parametrize("task", ["", "  \n", None, 3, ["a"], "x" * 1_000_001])
async def test_what_is_no_task_is_refused(task: Any, tmp_path: Path) -> None:
    async with Runtime(TOOLS, sandbox=None) as runtime:
        agent = Agent(ScriptedModel([]), runtime, transcript=tmp_path / "t.jsonl")
        with pytest.raises(ConfigurationError, match="task"):
            await agent.run(task)
    assert not (tmp_path / "t.jsonl").exists()


async def test_a_runtime_that_is_not_open_is_said() -> None:
    agent = Agent(ScriptedModel([]), Runtime(TOOLS, sandbox=None), mode="direct")
    with pytest.raises(ConfigurationError, match="async with"):
        await agent.run("Do it")


class Gone:
    """A backend whose guests cannot be had any more."""

    name = "gone"
    description = "gone"

    async def open(self, allowance: Any) -> Any:
        raise SandboxUnavailable("the sandbox has gone away")

    async def __aenter__(self) -> Gone:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass


PROGRAM = Calls(("execute_code", {"code": "import math\nprint(await double(of=math.factorial(3)))"}))


async def test_a_sandbox_that_is_gone_leaves_run_where_the_mode_is_code(tmp_path: Path) -> None:
    file = tmp_path / "t.jsonl"
    async with Runtime(TOOLS, sandbox=Gone()) as runtime:
        with pytest.raises(SandboxUnavailable, match="the sandbox has gone away"):
            await Agent(ScriptedModel([PROGRAM]), runtime, mode="code", transcript=file).run("Do it")
        # all that it could have called only reads: it is made again
        with pytest.raises(SandboxUnavailable, match="the sandbox has gone away"):
            await Agent(ScriptedModel([]), runtime, mode="code").resume(file)
    async with Runtime(TOOLS, sandbox=None) as runtime:
        result = await Agent(ScriptedModel(["done"]), runtime).resume(file)
    assert (result.outcome, result.answer) == ("answered", "done")


async def test_a_sandbox_that_is_gone_is_told_to_the_model_where_there_are_other_ways() -> None:
    model = ScriptedModel([PROGRAM, Calls(("double", {"of": 6})), "12"])
    async with Runtime(TOOLS, sandbox=Gone()) as runtime:
        result = await Agent(model, runtime, mode="auto").run("Do it")
    assert (result.outcome, result.answer) == ("answered", "12")
    assert "programs cannot be run here" in str(model.requests[1].messages)
