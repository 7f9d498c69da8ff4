"""The final answer of a program or a plan: it ends the program, has a type, and is committed only at a clean end."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from callgate import ConfigurationError, PlanApprovalRequest, Runtime, ToolError, tool
from callgate.runtime.final_answer import AnswerType
from runtime.conftest import opened

pytestmark = pytest.mark.anyio


@dataclass
class Load:
    """Load of a host."""

    host: str
    load: float


GOOD = "final_answer({'host': 'a', 'load': 1})"
ACCEPTED = Load("a", 1.0)


async def answered(runtime: Runtime, code: str, type: Any = Load, **options: Any) -> Any:
    run = await runtime.execute_code(code, final_answer=type, **options)
    assert run.ok, run.error
    assert run.final_answer is not None
    return run.final_answer.value


@pytest.mark.parametrize(
    "code",
    [
        GOOD,
        f"{GOOD}\nraise RuntimeError('not reached')",
        f"await {GOOD}",
        f"def answer():\n    {GOOD}\nanswer()",
        f"async def answer():\n    {GOOD}\nawait answer()",
        f"try:\n    {GOOD}\nexcept Exception:\n    print('caught')",
        f"import asyncio\nasync def f():\n    {GOOD}\nawait asyncio.gather(f(), asyncio.sleep(60))",
        f"import asyncio\nasync with asyncio.TaskGroup() as g:\n    g.create_task(asyncio.sleep(60))\n    {GOOD}",
        "w = await get_weather('a')\nfinal_answer(dict(host=w.city, load=1))",
        "from dataclasses import dataclass\n@dataclass\nclass L:\n    host: str\n    load: float\n"
        "final_answer(L('a', 1))",
    ],
)
async def test_it_ends_the_program_wherever_it_is_given(runtime: Runtime, code: str) -> None:
    assert await answered(runtime, f"{code}\nprint('never')") == ACCEPTED


async def test_what_does_not_fit_can_be_mended_in_the_same_program(runtime: Runtime) -> None:
    code = "try:\n    final_answer({'host': 1})\nexcept AnswerRejected as e:\n    print(e)\n"
    run = await runtime.execute_code(code + GOOD, final_answer=Load)
    assert run.final_answer is not None
    assert run.final_answer.value == ACCEPTED
    assert "'value.host' must be a valid string" in run.logs
    assert "missing argument 'value.load'" in run.logs
    assert [(call.tool, call.status, call.line) for call in run.calls] == [
        ("final_answer", "refused", 2),
        ("final_answer", "succeeded", 5),
    ]


PATHS = {
    "fits": "final_answer({'host': (await get_weather('a')).city, 'load': 1})",
    "a result": "w = await get_weather('a')\nprint(w.city)\nfinal_answer(\n    {'host': w.city, 'load': w.temp})",
    "at once": "import asyncio\nr = await asyncio.gather(get_weather('a'), get_weather('b'))\n"
    "final_answer({'host': r[0].city + r[1].city, 'load': len(r)})",
    "does not fit": "w = await get_weather('a')\nfinal_answer(w.city)",
    "a check": "w = await get_weather('a')\nfinal_answer({'host': w.city, 'load': -1})",
    "no JSON": "final_answer({1, 2})",
    "a call": "final_answer(get_weather('a'))",
    "nothing": "final_answer()",
    "itself": "final_answer(final_answer)",
    "twice": f"{GOOD}\n{GOOD}",
    "another meaning": f"final_answer = 3\n{GOOD}",
}


@pytest.mark.parametrize("name", PATHS)
async def test_both_paths_give_the_same_answer(runtime: Runtime, name: str) -> None:
    def positive(given: Load) -> None:
        if given.load < 0:
            raise ValueError("a load is above 0")

    seen: list[Any] = []
    for path in ("auto", "sandbox"):
        run = await runtime.execute_code(PATHS[name], final_answer=AnswerType(Load, [positive]), path=path)
        calls = [(call.tool, call.arguments, call.status, call.line, call.result, call.error) for call in run.calls]
        seen.append((run.ok, run.final_answer, run.error, run.value, run.value_repr, run.logs, run.notes, calls))
        if path == "auto":
            assert run.path == ("plan" if name in list(PATHS)[:5] else "sandbox")
    assert seen[0] == seen[1]


async def test_without_a_sandbox_a_graph_answers_and_a_slow_check_is_ended_by_the_wall_limit() -> None:
    async def slow(given: Load) -> None:
        await anyio.sleep(60)

    async with opened(sandbox=None) as runtime:
        assert await answered(runtime, GOOD) == ACCEPTED
        run = await runtime.execute_code(
            GOOD, final_answer=AnswerType(Load, [slow]), limits=runtime.limits.replace(wall_seconds=0.3)
        )
        assert run.error is not None
        assert run.error.limit == "wall_seconds"
        assert (run.final_answer, [call.status for call in run.calls]) == (None, ["cancelled"])


async def test_an_answer_that_does_not_fit_fails_the_program_with_its_line(runtime: Runtime) -> None:
    run = await runtime.execute_code("x = 1\nfinal_answer('a')", final_answer=Load)
    assert run.error is not None
    assert (run.error.kind, run.error.line, run.final_answer) == ("AnswerRejected", 2, None)


@pytest.mark.parametrize(
    ("type", "given", "value"),
    [
        (str, "'a'", "a"),
        (int, "3", 3),
        (list[Load], "[{'host': 'a', 'load': 1}]", [ACCEPTED]),
        (datetime.date, "__import__('datetime').date(2026, 1, 31)", datetime.date(2026, 1, 31)),
        (Any, "{'a': [1, None]}", {"a": [1, None]}),
        (int | None, "None", None),
    ],
)
async def test_the_answer_has_its_type(runtime: Runtime, type: Any, given: str, value: Any) -> None:
    assert await answered(runtime, f"final_answer({given})", type) == value


@pytest.mark.parametrize("is_async", [False, True])
async def test_checks_look_at_the_value_and_their_words_reach_the_program(runtime: Runtime, is_async: bool) -> None:
    def positive(given: Load) -> None:
        if given.load <= 0:
            raise ValueError("a load is above 0")

    async def later(given: Load) -> None:
        await anyio.lowlevel.checkpoint()
        positive(given)

    type = AnswerType(Load, [later if is_async else positive])
    code = "try:\n    final_answer({'host': 'a', 'load': 0})\nexcept AnswerRejected as e:\n    print(e.message)\n"
    run = await runtime.execute_code(code + GOOD, final_answer=type)
    assert (run.logs, run.ok) == ("a load is above 0\n", True)
    assert run.final_answer is not None
    assert run.final_answer.value == ACCEPTED


async def test_the_first_accepted_value_counts(runtime: Runtime) -> None:
    code = f"try:\n    {GOOD}\nexcept BaseException:\n    final_answer({{'host': 'b', 'load': 2}})"
    assert await answered(runtime, code) == ACCEPTED


@pytest.mark.parametrize(
    "code",
    [
        f"try:\n    {GOOD}\nfinally:\n    1 / 0",
        f"import asyncio\nasync def f():\n    1 / 0\nt = asyncio.create_task(f())\nawait asyncio.sleep(0)\n{GOOD}",
        f"call = fail_at_once()\n{GOOD}",
        f"import atexit, os\ntry:\n    {GOOD}\nfinally:\n    os._exit(1)",
    ],
    ids=["finally", "task", "a call that nobody awaited", "dead"],
)
async def test_nothing_is_committed_where_the_program_does_not_end_well(code: str) -> None:
    async with opened(fail_at_once, pool_size=1) as runtime:
        run = await runtime.execute_code(code, final_answer=Load)
    assert (run.ok, run.final_answer) == (False, None)
    assert ("final_answer", "succeeded") in [(call.tool, call.status) for call in run.calls]


@tool(read_only=True)
async def fail_at_once() -> None:
    """Fails."""
    raise ToolError("no")


async def test_a_program_that_is_asked_for_none_has_none(runtime: Runtime) -> None:
    run = await runtime.execute_code(GOOD)
    assert run.error is not None
    assert run.error.kind == "CheckFailed"
    run = await runtime.execute_code(GOOD, check=False)
    assert run.error is not None
    assert run.error.kind == "NameError"
    async with runtime.session() as session:
        assert (await session.execute_code("'final_answer' in dir(__builtins__)")).value is False


async def test_a_guest_that_served_an_answer_before_has_none_in_the_next_program(runtime: Runtime) -> None:
    for _ in range(8):  # more than there are guests
        assert await answered(runtime, GOOD) == ACCEPTED
        assert (await runtime.execute_code("import builtins\nhasattr(builtins, 'final_answer')")).value is False


async def test_names_and_values_that_cannot_be_are_refused_in_words(runtime: Runtime) -> None:
    with pytest.raises(ConfigurationError, match="would hide"):
        await runtime.execute_code("1", inputs={"final_answer": 1}, final_answer=str)
    with pytest.raises(ConfigurationError, match="an answer check is a function of the answer, not 1"):
        AnswerType(str, [1])  # type: ignore[list-item]
    run = await runtime.execute_code("final_answer(object())", final_answer=Any)
    assert run.error is not None
    assert "must be JSON values" in run.error.message


# plans

STEPS = [
    {"id": "a", "tool": "get_weather", "arguments": {"city": "Oslo"}},
    {"id": "b", "tool": "get_weather", "arguments": {"city": "Rome"}},
]


@pytest.mark.parametrize(
    ("answer", "type", "value"),
    [
        ("${a.city} and ${b.city}", str, "Oslo and Rome"),
        ({"template": "${a.city}: ${a.temp}"}, str, "Oslo: 4"),
        ({"host": "$ref:a.city", "load": {"$ref": "b.temp"}}, Load, Load("Rome", 4.0)),
        ("$ref:a.temp", int, 4),
    ],
)
async def test_a_plan_answers_with_its_results(runtime: Runtime, answer: Any, type: Any, value: Any) -> None:
    if type is Load:
        value = Load("Oslo", 4.0)
    plan = await runtime.execute_tool_plan({"steps": STEPS, "answer": answer}, final_answer=type)
    assert plan.ok, plan.error
    assert plan.final_answer is not None
    assert plan.final_answer.value == value
    assert list(plan.outputs) == ["a", "b"]
    assert plan.plan is not None
    assert plan.plan["answer"] == answer
    assert len(plan.plan["steps"]) == 2


@pytest.mark.parametrize("form", ["text", "json", "mermaid"])
@pytest.mark.parametrize("by", ["answer", "step"])
async def test_a_plan_that_answers_can_be_explained_when_it_is_approved_and_when_it_has_run(
    runtime: Runtime, form: Any, by: str
) -> None:
    call = {"id": "last", "tool": "final_answer", "arguments": {"value": "$ref:a.city"}}
    given = {"steps": STEPS, "answer": "$ref:a.city"} if by == "answer" else {"steps": [*STEPS, call]}
    shown: list[PlanApprovalRequest] = []

    def approve(request: PlanApprovalRequest) -> bool:
        shown.append(request)
        return "final_answer" in request.explain(form)

    plan = await runtime.execute_tool_plan(given, final_answer=str, approve_plan=approve)
    assert plan.final_answer is not None, plan.error
    assert plan.final_answer.value == "Oslo"
    assert [request.plan for request in shown] == [given] == [plan.plan]
    assert "final_answer" in plan.explain(form)
    assert "final_answer" in plan.trace()


async def test_an_answer_that_needs_a_failed_step_is_none() -> None:
    steps = [*STEPS, {"id": "c", "tool": "fail_at_once", "arguments": {}}]
    async with opened(fail_at_once, *(tool for tool in WEATHER), sandbox=None) as runtime:
        plan = await runtime.execute_tool_plan({"steps": steps, "answer": "${c}"}, final_answer=str)
        assert (plan.ok, plan.final_answer, plan.step("final_answer").status) == (False, None, "skipped")
        plan = await runtime.execute_tool_plan({"steps": steps, "answer": "${a.city}"}, final_answer=str)
        assert plan.final_answer is not None
        assert plan.final_answer.value == "Oslo"


@tool(read_only=True)
async def get_weather(city: str) -> dict[str, Any]:
    """Weather."""
    return {"city": city, "temp": 4}


WEATHER = (get_weather,)


async def test_an_answer_that_nobody_asked_for_is_left_out_and_told(runtime: Runtime) -> None:
    plan = await runtime.execute_tool_plan({"steps": STEPS, "answer": "${a.city}"})
    assert (plan.ok, plan.final_answer, len(plan.steps)) == (True, None, 2)
    assert [str(fault) for fault in plan.faults] == [
        "the plan (answer): no answer is taken in this run: 'answer' was not read"
    ]


async def test_an_answer_of_a_plan_that_does_not_fit_is_refused_before_it_runs_where_that_can_be_seen(
    runtime: Runtime,
) -> None:
    plan = await runtime.execute_tool_plan({"steps": STEPS, "answer": {"host": "x"}}, final_answer=Load)
    assert (plan.ok, plan.calls) == (False, [])
    assert plan.error is not None
    assert "missing argument 'value.load'" in plan.error.message
    plan = await runtime.execute_tool_plan({"steps": STEPS, "answer": "$ref:a.city"}, final_answer=int)
    assert (plan.ok, plan.final_answer, plan.step("final_answer").status) == (False, None, "failed")
