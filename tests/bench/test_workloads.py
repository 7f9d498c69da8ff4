"""The workloads of the comparison: every form reaches the right answer through callgate, from what the tools gave."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterator
from pathlib import Path
from typing import Any, TypeVar

import anyio
import pytest

from callgate import Runtime, ToolError, tool
from callgate_bench import workloads
from callgate_bench.workloads import WORKLOADS, pace
from callgate_bench.workloads.scripts import marked, output, read
from callgate_bench.workloads.workload import (
    Busy,
    Call,
    Function,
    ScriptFailed,
    Workload,
    plain,
)
from runtime.conftest import opened

pytestmark = pytest.mark.anyio

Said = TypeVar("Said")
Back = TypeVar("Back")

NAMES = (
    "monitoring", "weather", "budget", "regions", "enrich", "fan-out", "judgement", "aggregation", "large",
)  # fmt: skip
PLANNED = CALLED = tuple(name for name in NAMES if name != "aggregation")
GRAPHS = ("monitoring", "weather", "budget", "regions", "fan-out", "judgement")
"""Programs that the host runs itself. That of `large` is one, too, but five megabytes are more than it evaluates."""
TURNS: dict[str, tuple[int | None, int | None, int]] = {
    "monitoring": (4, 2, 2), "weather": (2, 2, 2), "budget": (4, 2, 2), "regions": (3, 2, 2), "enrich": (5, 2, 2),
    "fan-out": (4, 2, 2), "judgement": (7, 7, 7), "aggregation": (None, None, 2), "large": (3, 2, 2),
}  # fmt: skip
"""Of calls in parallel, plans and programs, the last words included."""
CALLS = {
    "monitoring": 3, "weather": 3, "budget": 22, "regions": 11, "enrich": 13, "fan-out": 202, "judgement": 6,
    "aggregation": 28, "large": 11,
}  # fmt: skip
ALTERED = {
    "monitoring": ("72.5", "71.5"),
    "weather": ("Athens", "Corinth"),
    "budget": ("Donald", "Daniel"),
    "regions": ("373831", "373832"),
    "enrich": ("13806", "13807"),
    "fan-out": ("19356.71", "19356.72"),
    "judgement": ("Ines Duarte", "Ines Duerte"),
    "aggregation": ("Madrid", "Toledo"),
    "large": ("Birch backpack", "Ebony backpack"),
}
"""What is found and replaced in all texts that come back."""


@pytest.fixture(autouse=True)
def without_waits() -> Iterator[None]:
    pace(0)
    yield
    pace(1)


class Counted:
    """A runtime over a workload's tools, which counts their calls, failed ones included."""

    def __init__(self, workload: Workload, runtime: Runtime, calls: list[str]) -> None:
        self.workload, self.runtime, self.calls = workload, runtime, calls

    async def call(self, call: Call) -> str:
        return (await self.runtime.answer(call.tool, dict(call.arguments))).text

    async def one_after_the_other(self, calls: list[Call]) -> list[str]:
        return [await self.call(each) for each in calls]

    async def together(self, calls: list[Call]) -> list[str]:
        texts = [""] * len(calls)

        async def one(number: int) -> None:
            texts[number] = await self.call(calls[number])

        async with anyio.create_task_group() as group:
            for number in range(len(calls)):
                group.start_soon(one, number)
        return texts

    async def plan(self, plan: dict[str, Any]) -> str:
        return (await self.runtime.execute_tool_plan(plan)).for_model()

    async def program_in_the_sandbox(self, program: str) -> str:
        return (await self.runtime.execute_code(program, path="sandbox")).for_model()

    async def program_as_a_plan(self, program: str) -> str:
        return (await self.runtime.execute_code(program, path="plan")).for_model()


def counted(function: Function, calls: list[str]) -> Any:
    """The tool as a contestant of callgate has it."""

    async def called(**arguments: Any) -> Any:
        calls.append(function.__name__)
        try:
            return await function(**arguments)
        except Busy as busy:
            raise ToolError(str(busy), retryable=True) from None

    for name in ("__name__", "__doc__", "__annotations__", "__wrapped__"):
        setattr(called, name, function if name == "__wrapped__" else getattr(function, name))
    return tool(read_only=True)(called)


@pytest.fixture
def anyio_backend() -> str:
    """Tools wait on asyncio, as the contestants do."""
    return "asyncio"


@pytest.fixture
async def made(request: pytest.FixtureRequest) -> AsyncIterator[Counted]:
    workload, calls = WORKLOADS[request.param], list[str]()
    tools = [counted(each, calls) for each in workload.tools]
    sandboxed = "sandbox" in request.node.name
    async with opened(*tools, pool_size=0) if sandboxed else Runtime(tools, sandbox=None) as runtime:
        yield Counted(workload, runtime, calls)


async def play(
    script: Callable[[], Generator[Said, Back, str]],
    act: Callable[[Said], Awaitable[Back]],
    changed: Callable[[Back], Back] = lambda back: back,
) -> tuple[str, int]:
    """The model's last words, and its turns."""
    saying, turns = script(), 1
    try:
        said = next(saying)
        while True:
            back = changed(await act(said))
            turns += 1
            said = saying.send(back)
    except StopIteration as done:
        return str(done.value), turns


def test_they_are_those_of_the_comparison_in_its_order() -> None:
    assert tuple(WORKLOADS) == NAMES
    assert all(name == workload.name for name, workload in WORKLOADS.items())


FORMS: dict[str, tuple[tuple[str, ...], str, str, int | None]] = {
    "calls in parallel": (CALLED, "calls", "together", 0),
    "calls one after the other": (CALLED, "calls", "one_after_the_other", None),
    "plan": (PLANNED, "plans", "plan", 1),
    "program as a plan": (GRAPHS, "programs", "program_as_a_plan", 2),
    "program in the sandbox": (NAMES, "programs", "program_in_the_sandbox", 2),
}
"""For whom, the script, what does its moves, and which of `TURNS` it takes."""


@pytest.mark.parametrize(
    ("form", "made"), [(form, name) for form, row in FORMS.items() for name in row[0]], indirect=["made"]
)
async def test_every_form_reaches_the_answer(form: str, made: Counted) -> None:
    _, script, act, which = FORMS[form]
    name = made.workload.name
    said, turns = await play(getattr(made.workload, script), getattr(made, act))
    assert made.workload.wrong(said) == ""
    assert made.workload.wrong(f"answer: {said}") == "", "as agents say it that give what their program gave"
    assert which is None or turns == TURNS[name][which]
    asked_to_compare = form == "plan" and name in ("weather", "large")  # where others look, or count
    assert len(made.calls) == CALLS[name] + asked_to_compare


@pytest.mark.parametrize("made", NAMES, indirect=True)
async def test_which_programs_are_graphs(made: Counted) -> None:
    is_graph = made.runtime.compile(next(made.workload.programs())).ok
    assert is_graph == (made.workload.name in (*GRAPHS, "large"))


def test_readers_are_told_what_is_simulated_and_why_there_is_no_plan() -> None:
    for workload in WORKLOADS.values():
        assert "simulated" in workload.about
        assert (workload.plans is None) == bool(workload.why_no_plan) == (workload.name == "aggregation")
        assert (workload.calls is None) == bool(workload.why_no_calls) == (workload.name == "aggregation")


@pytest.mark.parametrize("made", CALLED, indirect=True)
async def test_scripts_say_what_they_were_told_and_another_answer_is_wrong(made: Counted) -> None:
    old, new = ALTERED[made.workload.name]

    def each_changed(texts: list[str]) -> list[str]:
        return [changed(text) for text in texts]

    def changed(text: str) -> str:
        return text.replace(old, new)

    answers = []
    if made.workload.calls is not None:
        answers.append((await play(made.workload.calls, made.together, each_changed))[0])
    if made.workload.plans is not None:
        answers.append((await play(made.workload.plans, made.plan, changed))[0])
    if made.workload.name in GRAPHS:
        answers.append((await play(made.workload.programs, made.program_as_a_plan, changed))[0])
    for said in answers:
        assert new in said
        assert old not in said
        assert made.workload.wrong(said)


def test_no_form_holds_the_answer() -> None:
    for workload in WORKLOADS.values():
        first: list[Any] = [next(workload.programs()), next(workload.plans()) if workload.plans else ""]
        assert plain(workload.answer) not in plain(json.dumps(first) + workload.task)


@pytest.mark.parametrize("name", NAMES)
def test_the_last_line_of_an_answer_is_the_right_one_or_the_answer_is_wrong(name: str) -> None:
    workload = WORKLOADS[name]
    old, new = ALTERED[name]
    marked_up = f"I looked.\n\n**{workload.answer}**."
    assert workload.wrong(marked_up) == ""
    for other in (marked_up.replace(old, new), f"{workload.answer}\nOr not.", f"not {workload.answer}", ""):
        assert workload.wrong(other) == f"the last line of the answer is not: {workload.answer}"


def test_plain_text_has_one_kind_of_dash_and_no_marks() -> None:
    assert plain("**A**\u2010`b`\u2011c \u2013 \u2212 1,234\u202f567\n\n x.") == "a-b-c - - 1234567 x"


@pytest.mark.parametrize("made", ["enrich"], indirect=True)
async def test_every_round_meets_the_same_failures(made: Counted) -> None:
    enriching = []
    assert made.workload.calls is not None
    for _ in range(3):
        made.calls.clear()
        await play(made.workload.calls, made.together)
        enriching.append(made.calls.count("enrich_company"))
    assert enriching == [11, 11, 11]
    assert made.workload.retries == {"enrich_company"}


async def test_the_large_results_are_five_megabytes() -> None:
    tools = {each.__name__: each for each in WORKLOADS["large"].tools}
    shops = (await tools["list_shops"]())["shops"]
    sizes = [
        len(json.dumps(await tools["get_order_lines"](shop_id=shop["shop_id"]), separators=(",", ":")))
        for shop in shops
    ]
    assert len(sizes) == 10
    assert 5_000_000 <= sum(sizes) <= 5_500_000


def test_tools_tell_what_they_take_and_what_they_give() -> None:
    for workload in WORKLOADS.values():
        names = [each.__name__ for each in workload.tools]
        assert len(set(names)) == len(names)
        assert workload.retries <= set(names)
        for function in workload.tools:
            made = tool(read_only=True)(function)
            assert "Gives {" in made.description, function.__name__
            assert made.output_schema is not None
            assert made.output_schema["type"] == "object"
            for argument in made.input_schema["properties"].values():
                assert argument["description"], function.__name__


def test_what_a_peers_process_imports_needs_none_of_callgates_dependencies() -> None:
    host = Path(workloads.__file__).parents[2]
    program = (
        f"import sys; sys.path.insert(0, {str(host)!r})\n"
        "import callgate_bench.contestants.played_agent, callgate_bench.serving, callgate_bench.singles.shapes\n"
        "from callgate_bench.workloads import WORKLOADS, dialects\n"
        "print(*WORKLOADS)"
    )
    command = [sys.executable, "-I", "-S", "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split() == list(NAMES)


def test_what_came_back_in_another_form_is_told() -> None:
    with pytest.raises(ScriptFailed, match="a result that is not JSON: busy"):
        read("busy")
    with pytest.raises(ScriptFailed, match="no answer came back: Value: 3"):
        marked("Value: 3")
    with pytest.raises(ScriptFailed, match="no output of check came back: recheck: 1"):
        output("recheck: 1", "check")


def test_an_answer_ends_with_its_line_or_quotes() -> None:
    assert marked("Value: answer: 3 km\nNote: x") == "3 km"
    assert marked("'answer: 3 km'") == "3 km"
    assert marked('{"result": "note: it is slow"}', "note") == "it is slow"
    with pytest.raises(ScriptFailed, match="no answer came back"):
        marked('line 7: NameError\n    f"answer: {told}"')


async def test_calls_that_fail_for_good_end_the_script() -> None:
    async def busy(calls: list[Call]) -> list[str]:
        found = {"hits": [{"company_id": "c-1", "name": "One"}]}
        return [json.dumps(found) if call.tool == "search_companies" else "503 busy" for call in calls]

    calls = WORKLOADS["enrich"].calls
    assert calls is not None
    with pytest.raises(ScriptFailed, match="a result that is not JSON: 503 busy"):
        await play(calls, busy)
