"""The router: which form for which task, and what follows when a form fails. Failures come from a real runtime."""

from __future__ import annotations

from typing import Any

import pytest

from callgate import Runtime, ToolError, tool
from callgate.agent.planning.tool_plan import Selection, ToolChoice, ToolPlan, ToolStep
from callgate.agent.routing.failures import Failure, failure_of, form_of
from callgate.agent.routing.router import DIRECT_PATIENCE, PATIENCE, Router
from callgate.errors import SandboxUnavailable

pytestmark = pytest.mark.anyio

ROUTER = Router()


@tool(read_only=True)
async def query_metric(name: str) -> dict[str, Any]:
    """The current value of a metric."""
    return {"name": name, "current": 72.5}


@tool(read_only=True)
async def check_threshold(value: float) -> dict[str, bool]:
    """Whether a value is above the threshold."""
    return {"exceeded": value > 80}


@tool
async def broken(name: str) -> str:
    """Fails."""
    raise ToolError(f"{name} is down")


TOOLS = [query_metric, check_threshold, broken]


def plan(*steps: ToolStep) -> ToolPlan:
    return ToolPlan(id="p", query="?", steps=steps, stages=(tuple(step.id for step in steps),))


# tasks


@pytest.mark.parametrize(
    ("task", "mode", "rule"),
    [
        ("What is the current value of cpu_usage?", "direct", "one call"),
        ("Query the CPU usage and list the disks", "direct", "few calls"),
        ("List the metrics, query the first one, and check its value", "plan", "chain"),
        ("If the error rate is high, check the logs; if low, check the latency", "direct", "judgement"),
        ("Query the current value of every metric", "plan", "many"),
        ("Add up the values of each of the metrics", "code", "many and sums"),
        ("Choose ten warehouses so that the distances are as small as possible", "code", "computing"),
    ],
)
def test_a_task_goes_to_the_form_that_its_words_speak_for(task: str, mode: str, rule: str) -> None:
    route = ROUTER.route(ROUTER.profile(task, TOOLS))
    assert (route.mode, route.rule) == (mode, rule)


def test_a_route_says_why_and_has_advice_for_the_model() -> None:
    route = ROUTER.route(ROUTER.profile("Query cpu_usage, then check its value", TOOLS))
    assert "(seen: then" in route.reason
    assert "two turns instead of one for each call" in route.reason
    assert route.words.startswith("For this task one plan with execute_tool_plan may be best: ")


@pytest.mark.parametrize(
    "task", ["对每个客户查找订单并按收入排序", "Für jede Stadt das Wetter holen", "", "🙂" * 9_000]
)
def test_of_a_task_in_words_that_say_nothing_here_the_model_is_told_nothing(task: str) -> None:
    route = ROUTER.route(ROUTER.profile(task, TOOLS))
    assert (route.mode, route.rule, route.words) == ("direct", "one call", "")
    assert ROUTER.route(ROUTER.profile("Get the weather", TOOLS)).words


def test_without_a_sandbox_a_plan_takes_the_place_of_a_program() -> None:
    profile = ROUTER.profile("Add up the values of each of the metrics", TOOLS)
    route = ROUTER.route(profile, ("direct", "plan"))
    assert (route.mode, route.rule) == ("plan", "many and sums")
    assert "code is not there, and plan takes its place" in route.reason
    assert ROUTER.route(profile, ("direct",)).mode == "direct"


def test_without_tools_there_is_nothing_to_plan() -> None:
    assert ROUTER.route(ROUTER.profile("Sum the sales of every region", ())).rule == "no tools"


# structure


def test_a_plan_with_references_is_a_chain_whatever_the_words_were() -> None:
    chain = plan(ToolStep(id="a", tool="x"), ToolStep(id="b", tool="y", dependencies=("a",)))
    profile = ROUTER.profile(chain, TOOLS)
    assert (profile.certain, profile.dependent, profile.calls) == (True, True, 2)
    assert ROUTER.route(profile).rule == "chain"


def test_a_plan_of_one_step_is_a_direct_call() -> None:
    assert ROUTER.route(ROUTER.profile(plan(ToolStep(id="a", tool="x")), TOOLS)).mode == "direct"


def test_many_steps_of_one_tool_are_a_repetition() -> None:
    profile = ROUTER.profile(plan(*(ToolStep(id=f"s{n}", tool="x") for n in range(6))), TOOLS)
    assert profile.repetition
    assert ROUTER.route(profile).mode == "plan"


def test_a_selection_is_read_by_its_references() -> None:
    first = ToolChoice(sub_query=0, tool="x")
    deep: Any = {"a": [{"b": "$ref:c0.name"}]}
    for second in (
        ToolChoice(sub_query=0, tool="y", depends_on=(0,)),
        ToolChoice(sub_query=0, tool="y", parameters=deep),
        ToolChoice(sub_query=0, tool="y", parameters={"v": {"$ref": "c0"}}),
    ):
        assert ROUTER.profile(Selection(chain=(first, second)), TOOLS).dependent
    second = ToolChoice(sub_query=0, tool="y", parameters={"v": "costs $refund"})
    assert not ROUTER.profile(Selection(chain=(first, second)), TOOLS).dependent


def test_arguments_nested_without_end_are_read_all_the_same() -> None:
    deep: Any = "$ref:c0"
    for _ in range(100_000):
        deep = [deep]
    assert ROUTER.profile(
        Selection(chain=(ToolChoice(sub_query=0, tool="y", parameters={"v": deep}),)), TOOLS
    ).dependent


# what failed


@pytest.mark.parametrize(
    ("name", "arguments", "form", "kind", "detail"),
    [
        ("execute_tool_plan", "Here is my plan: first", "plan", "refused", "The plan was not run"),
        ("execute_tool_plan", {"steps": [{"id": "a", "tool": "qery_metric"}]}, "plan", "refused", "did you mean"),
        (
            "execute_tool_plan",
            {
                "steps": [
                    {"id": "q", "tool": "query_metric", "arguments": {"name": "cpu"}},
                    {"id": "c", "tool": "check_threshold", "arguments": {"value": "$ref:q.name"}},
                ]
            },
            "plan", "failed", "step 'c'",
        ),
        (
            "execute_tool_plan",
            {"steps": [{"id": "b", "tool": "broken", "arguments": {"name": "cpu"}}]},
            "plan", "tool", "cpu is down",
        ),
        ("execute_code", {"code": "x = ("}, "code", "refused", ""),
        ("execute_code", {"code": "import os\nos.listdir('/')"}, "code", "sandbox", ""),
        ("query_metric", {"nmae": "cpu"}, "direct", "refused", "name"),
        ("no_such_tool", {}, "direct", "refused", "no_such_tool"),
        ("broken", {"name": "cpu"}, "direct", "tool", "cpu is down"),
    ],
)  # fmt: skip
async def test_what_failed_is_read_from_the_answer(
    name: str, arguments: Any, form: str, kind: str, detail: str
) -> None:
    async with Runtime(TOOLS, sandbox=None) as runtime:
        failure = failure_of(name, await runtime.answer(name, arguments))
    assert failure is not None
    assert (failure.form, failure.kind) == (form, kind)
    assert detail in failure.detail


async def test_a_call_that_worked_is_no_failure() -> None:
    async with Runtime(TOOLS, sandbox=None) as runtime:
        assert failure_of("query_metric", await runtime.answer("query_metric", {"name": "cpu"})) is None


def test_a_sandbox_that_cannot_be_had_is_one() -> None:
    assert failure_of("execute_code", SandboxUnavailable("no user namespaces")) == Failure(
        "code", "sandbox", "no user namespaces"
    )
    assert form_of("search_tools") == "direct"


# what follows


def after(form: str, *kinds: str, **options: Any) -> Any:
    failures = [Failure(form, kind, f"because of {kind}") for kind in kinds]  # type: ignore[arg-type]
    return ROUTER.after_failure(form, failures, **options)


@pytest.mark.parametrize("kind", ["refused", "failed"])
@pytest.mark.parametrize(("form", "below"), [("code", "plan"), ("plan", "direct")])
def test_a_model_may_correct_itself_twice_and_then_the_form_below_takes_over(form: str, below: str, kind: str) -> None:
    patience = PATIENCE[kind]  # type: ignore[index]
    assert patience == 3
    for times in range(1, patience):
        route = after(form, *[kind] * times)
        assert (route.mode, route.rule) == (form, "again")
    route = after(form, *[kind] * patience)
    assert (route.mode, route.rule) == (below, "fallback")
    assert f"because of {kind}" in route.reason
    assert "no longer offered" in route.words


def test_a_model_that_cannot_write_references_is_told_to_call_the_tools_itself() -> None:
    route = after("plan", "failed", "failed", "failed")
    assert route.words == (
        "Plans are no longer offered: execute_tool_plan failed. Call the tools yourself, one after the other, and use "
        "what each of them gives for the next."
    )


def test_a_sandbox_that_is_not_there_is_given_up_at_once() -> None:
    assert after("code", "sandbox").mode == "plan"
    assert after("code", "sandbox", offered=("direct", "code")).mode == "direct"


def test_what_spent_all_it_was_given_may_be_written_smaller_once() -> None:
    assert after("code", "limit").rule == "again"
    assert after("code", "limit", "limit").mode == "plan"


@pytest.mark.parametrize("form", ["direct", "plan", "code"])
def test_failures_of_tools_are_not_the_form_s_fault(form: str) -> None:
    assert after(form, *["tool"] * 1000).rule == "again"


def test_failures_of_another_form_are_not_counted() -> None:
    failures = [Failure("code", "refused")] * 3
    assert ROUTER.after_failure("plan", failures).rule == "again"  # type: ignore[union-attr]


def test_below_direct_calls_there_is_nothing_and_it_stops() -> None:
    assert after("direct", *["refused"] * (DIRECT_PATIENCE - 1)).rule == "again"
    assert after("direct", *["refused"] * DIRECT_PATIENCE) is None


def test_calls_of_one_turn_count_as_one_failure() -> None:
    together = [Failure("plan", "refused", turn=1)] * 5
    assert ROUTER.after_failure("plan", together).rule == "again"  # type: ignore[union-attr]
    later = [*together, Failure("plan", "refused", turn=2), Failure("plan", "refused", turn=3)]
    assert ROUTER.after_failure("plan", later).rule == "fallback"  # type: ignore[union-attr]


def test_a_reason_is_bounded_whatever_failed() -> None:
    route = ROUTER.after_failure("plan", [Failure("plan", "refused", "x" * 100_000)] * 3)
    assert route is not None
    assert len(route.reason) < 500
