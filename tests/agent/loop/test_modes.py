"""Declarative and individual mode, programs, and the choice among them: the takeaways of declarative plan execution."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agent.loop.scripted_runs import faults, of, play, sandboxed, shown, told
from callgate import ConfigurationError, Runtime, Tool, tool
from callgate.agent.events import CallEnded, ModelAsked, Routed
from callgate.agent.loop.agent import Agent
from callgate.agent.loop.turn_request import system_text
from callgate.agent.models.model import Request, ToolCall
from callgate.agent.models.scripted import Calls, ScriptedModel
from callgate.agent.react.config import read_config
from callgate.agent.react.messages import MAX_PLAN_CHARACTERS
from callgate.agent.react.planner import ReActPlanner

pytestmark = pytest.mark.anyio

TASK = "List all compute metrics, query CPU usage, and check if it's above 80%"
TOOLS = ("list_metrics", "query_metric", "check_threshold")
ANSWER = "CPU usage is 72.5%, below the 80% threshold."


@tool(read_only=True)
async def list_metrics(category: str) -> dict[str, Any]:
    """The metrics of a category."""
    return {"metrics": [{"name": f"{category}_cpu_usage"}, {"name": "memory_usage"}]}


@tool(read_only=True)
async def query_metric(name: str) -> dict[str, Any]:
    """The current value of a metric, and its history."""
    return {"name": name, "current": 72.5, "series": [72.5] * 200}


@tool(read_only=True)
async def check_threshold(metric_name: str, threshold: str, operator: str) -> dict[str, Any]:
    """Whether a metric is beyond a threshold."""
    return {"metric": metric_name, "exceeded": False}


WORLD = [list_metrics, query_metric, check_threshold]
NAME = {"$ref": "steps[0].result.metrics[0].name"}
PLAN = {
    "goal": "Check if CPU usage exceeds 80%",
    "steps": [
        {"tool": "list_metrics", "args": {"category": "compute"}, "description": "Get available compute metrics"},
        {"tool": "query_metric", "args": {"name": NAME}, "description": "Query the first compute metric"},
        {
            "tool": "check_threshold",
            "args": {"metric_name": NAME, "threshold": "80", "operator": "gt"},
            "description": "Check if above 80%",
        },
    ],
}
ONE_BY_ONE = [
    Calls(("list_metrics", {"category": "compute"})),
    Calls(("query_metric", {"name": "compute_cpu_usage"})),
    Calls(("check_threshold", {"metric_name": "compute_cpu_usage", "threshold": "80", "operator": "gt"})),
    ANSWER,
]


async def done(*turns: Any, tools: Any = WORLD, **options: Any) -> tuple[Any, ScriptedModel]:
    return await play(tools, *turns, task=TASK, **options)


# the modes


@pytest.mark.parametrize("mode", ["individual", "direct"])
async def test_individual_mode_leaves_the_meta_tools_out_and_takes_four_model_calls(mode: str) -> None:
    result, model = await done(*ONE_BY_ONE, mode=mode)
    assert (result.outcome, result.answer) == ("answered", ANSWER)
    assert [set(names) for names in shown(model)] == [set(TOOLS)] * 4
    assert result.tool_calls == 3
    assert "execute_tool_plan" not in model.requests[0].system


async def test_a_plan_in_individual_mode_is_not_run() -> None:
    result, model = await done(Calls(("execute_tool_plan", PLAN)), "sorry", mode="individual")
    assert "execute_tool_plan is not in your list of tools" in told(model.requests[1])[0]
    assert faults(result) == [("unknown_tool", "told the model")]
    assert result.tool_calls == 0


@pytest.mark.parametrize("mode", ["declarative", "plan"])
@pytest.mark.parametrize("form", ["object", "text"])
async def test_declarative_mode_takes_two_model_calls(mode: str, form: str) -> None:
    given = PLAN if form == "object" else {"plan": json.dumps(PLAN)}
    result, model = await done(Calls(("execute_tool_plan", given)), ANSWER, mode=mode)
    assert (result.outcome, result.answer, result.turns, result.tool_calls) == ("answered", ANSWER, 2, 3)
    assert set(shown(model)[0]) == {*TOOLS, "execute_tool_plan"}
    assert [request.tool_choice for request in model.requests] == ["auto", "auto"]


async def test_declarative_mode_does_not_force() -> None:
    result, _ = await done(*ONE_BY_ONE, mode="declarative")
    assert (result.outcome, result.turns, result.tool_calls) == ("answered", 4, 3)
    assert result.runs == ()


async def test_code_mode_offers_programs_beside_the_tools() -> None:
    code = "m = (await list_metrics(category='compute'))['metrics'][0]['name']\nprint(await query_metric(name=m))"
    async with sandboxed(WORLD) as runtime:
        result, model = await done(Calls(("execute_code", {"code": code})), ANSWER, tools=runtime, mode="code")
    assert (result.outcome, result.turns, result.tool_calls) == ("answered", 2, 2)
    assert set(shown(model)[0]) == {*TOOLS, "execute_code"}


# auto


async def test_auto_offers_all_and_the_system_text_says_when_to_use_which() -> None:
    async with sandboxed(WORLD) as runtime:
        result, model = await done(Calls(("execute_tool_plan", PLAN)), ANSWER, tools=runtime, system="Be brief.")
    assert set(shown(model)[0]) == {*TOOLS, "execute_tool_plan", "execute_code"}
    own, _, table = model.requests[0].system.partition("\n\n")
    assert own == "Be brief."
    assert "\n- One or two quick calls, or a call whose whole result you have to read: call the tool itself." in table
    assert "\n- Several calls that are known beforehand, with results passed on as they are: one execute_tool" in table
    assert "\n- Three or more calls, or loops, conditions, filters, sums: one program with execute_code." in table
    assert of(result, Routed) == []


async def test_the_model_chooses_and_nothing_is_taken_away() -> None:
    result, model = await done(*ONE_BY_ONE)
    assert (result.outcome, result.turns, result.routes) == ("answered", 4, ())
    assert [set(names) for names in shown(model)] == [{*TOOLS, "execute_tool_plan"}] * 4


# plans: dual return, faults, and what follows


async def test_the_model_reads_a_summary_and_people_get_the_run() -> None:
    result, model = await done(
        Calls(("execute_tool_plan", {**PLAN, "output_steps": ["steps[2]"]})), ANSWER, mode="declarative"
    )
    (text,) = told(model.requests[1])
    assert "72.5, 72.5" not in text
    assert "exceeded" in text
    assert len(text) < 600
    (run,) = result.runs
    assert of(result, CallEnded)[0].run == run
    assert [step["tool"] for step in run["steps"]] == list(TOOLS)
    assert run["steps"][1]["arguments"] == {"name": "compute_cpu_usage"}  # resolved
    assert all(step["duration_seconds"] >= 0 for step in run["steps"])
    assert len(run["steps"][1]["result"]["series"]) == 200  # raw


async def test_a_bad_plan_comes_back_with_all_its_faults_and_is_corrected() -> None:
    bad = {
        "steps": [
            {"tool": "list_metrics", "args": {"category": {"$ref": "steps[1].result.name"}}},
            {"tool": "query_metrics", "args": {"name": "x"}},
            {"tool": "check_threshold", "args": {"metric": "x"}},
        ]
    }
    result, model = await done(
        Calls(("execute_tool_plan", bad)), Calls(("execute_tool_plan", PLAN)), ANSWER, mode="declarative"
    )
    assert result.outcome == "answered"
    (text,) = told(model.requests[1])
    assert "The plan was not run" in text
    assert "query_metric" in text  # the nearest name
    assert "threshold" in text
    assert "metric_name" in text
    assert faults(result) == [("plan_failed", "told the model")]
    assert result.tool_calls == 3  # nothing of the bad plan was run
    assert of(result, Routed) == []


async def test_programs_give_way_to_plans_and_plans_to_direct_calls() -> None:
    programs = [Calls(("execute_code", {"code": f"x{n} = (1"})) for n in range(3)]
    plans = [Calls(("execute_tool_plan", {"steps": [{"tool": f"tool_{n}", "args": {}}]})) for n in range(3)]
    async with sandboxed(WORLD) as runtime:
        result, model = await done(*programs, *plans, *ONE_BY_ONE, tools=runtime)
    assert result.outcome == "answered"
    meta = [{*names} - {*TOOLS} for names in shown(model)]
    assert meta[:3] == [{"execute_code", "execute_tool_plan"}] * 3
    assert meta[3:6] == [{"execute_tool_plan"}] * 3
    assert meta[6:] == [set()] * 4
    to_plans, to_direct = of(result, Routed)
    assert (to_plans.mode, to_direct.mode) == ("plan", "direct")
    assert to_direct.reason.startswith("plan was refused 3 times: direct takes its place (The plan was not run")
    assert result.routes == (to_plans, to_direct)
    assert "Plans are no longer offered" in told(model.requests[6])[0]


async def test_what_was_found_stays_visible_when_the_mode_changes() -> None:
    bad = [Calls(("execute_tool_plan", {"steps": [{"tool": f"tool_{n}", "args": {}}]})) for n in range(3)]
    search = Calls(("search_tools", {"query": "metrics of a category"}))
    result, model = await done(search, *bad, *ONE_BY_ONE, direct=())
    assert "execute_tool_plan" not in shown(model)[4]
    assert "list_metrics" in shown(model)[4]
    assert result.tool_calls == 3


# which tool has to be called


async def test_a_tool_choice_holds_until_a_tool_was_called() -> None:
    result, model = await done(*ONE_BY_ONE, mode="direct", tool_choice="list_metrics")
    assert [each.tool_choice for each in of(result, ModelAsked)] == ["list_metrics", "auto", "auto", "auto"]
    _, model = await done(ANSWER, mode="direct", tool_choice="none")
    assert model.requests[0].tool_choice == "none"
    with pytest.raises(ConfigurationError, match="tool_choice is 'no_tool'; it is auto, required, none, or one of"):
        await done(ANSWER, mode="direct", tool_choice="no_tool")


async def test_a_tool_that_has_to_be_called_may_be_named_as_the_operator_names_it() -> None:
    dotted = Tool.from_schema("metrics.list", "The metrics.", {"type": "object"}, lambda: "cpu", read_only=True)
    _, model = await done(
        Calls(("metrics_list", {})), ANSWER, tools=[dotted], mode="direct", tool_choice="metrics.list"
    )
    assert (shown(model)[0], model.requests[0].tool_choice) == (("metrics_list",), "metrics_list")
    assert told(model.requests[1]) == ["cpu"]


@pytest.mark.parametrize("mode", ["direct", "plan"])
async def test_where_no_tool_can_be_called_none_is_though_the_endpoint_ignores_it(mode: str, tmp_path: Path) -> None:
    file = tmp_path / "t.jsonl"
    calls = ONE_BY_ONE[0]
    options: dict[str, Any] = {"mode": mode, "tool_choice": "none"}
    result, model = await done(calls, ANSWER, **options, transcript=file)
    assert (result.outcome, result.tool_calls) == ("answered", 0)
    (text,) = told(model.requests[1])
    assert "was not made: no tool can be called in this task. Answer in words." in text
    assert faults(result) == [("unknown_tool", "told the model")]
    result, _ = await done(*[calls] * 6, **options)
    assert (result.outcome, result.tool_calls) == ("stuck", 0)
    lines = file.read_bytes().splitlines(keepends=True)
    replied = next(n for n, line in enumerate(lines) if b'"model_replied"' in line)
    file.write_bytes(b"".join(lines[: replied + 1]))  # killed before the call was answered
    async with Runtime(WORLD, sandbox=None) as runtime:
        resumed = await Agent(ScriptedModel([ANSWER]), runtime, mode=mode).resume(file)
    assert (resumed.outcome, resumed.tool_calls) == ("answered", 0)


# the plan that a task is part of


PHASES = {"phases": [{"worker": "data-analysis", "goals": "Find the metrics"}, {"worker": "report", "goals": "Write"}]}


async def test_the_phases_of_a_strategic_plan_are_context_in_every_turn() -> None:
    result, model = await done(*ONE_BY_ONE, mode="direct", system="Be brief.", strategic_plan=PHASES)
    assert result.outcome == "answered"
    for request in model.requests:
        assert request.system.startswith("Be brief.")
        assert request.system.endswith("STRATEGIC PLAN:\n" + json.dumps(PHASES, indent=2))


@pytest.mark.parametrize(
    "plan",
    [{"phases": ["x" * 100] * 100}, "y" * 5_000, ["ü" * 3_000], {"deep": json.loads("[" * 900 + "]" * 900)}],
    ids=["phases", "text", "not ascii", "deep"],
)
async def test_a_strategic_plan_is_cut_at_1500_characters(plan: Any) -> None:
    header = "\nSTRATEGIC PLAN:\n"
    _, model = await done(ANSWER, mode="direct", strategic_plan=plan)
    at = model.requests[0].system.index(header.strip())
    plan_text, _, note = model.requests[0].system[at:].partition("\n(cut here: ")
    assert len(plan_text) == len(header.strip()) + 1 + MAX_PLAN_CHARACTERS
    assert note.startswith("the plan is longer than 1,500 characters)")


@pytest.mark.parametrize("nothing", [None, {}, [], ""])
def test_no_strategic_plan_is_no_text(nothing: Any) -> None:
    assert system_text(" a ", "b", nothing) == "a\n\nb"


# a planner's tools


YAML = """
spec:
  planner:
    type: ReActPlanner
    config:
      tool_descriptions:
        - {name: list_metrics, description: Metrics., args: [category]}
      use_function_calling: true
"""
TEXT = YAML.replace("use_function_calling: true", "use_function_calling: false")


@pytest.mark.parametrize("yaml", [YAML, TEXT], ids=["native", "text"])
@pytest.mark.parametrize("name", ["query_metric", "execute_tool_plan", "nothing_like_it"])
async def test_a_call_of_what_the_planner_does_not_describe_is_one_of_an_unknown_tool(yaml: str, name: str) -> None:
    native = yaml is YAML
    call: Any = ToolCall(id="1", name=name) if native else f"Action: {name}\nAction Input: {{}}"
    model = ScriptedModel([call, "sorry" if native else "Final Answer: sorry"])
    async with Runtime(WORLD, sandbox=None) as runtime:
        planner = ReActPlanner(read_config(yaml, {}), model, runtime.registry)
        result = await Agent(model, runtime, planner=planner).run(TASK)
    assert (result.outcome, result.answer) == ("answered", "sorry")
    assert faults(result) == [("unknown_tool", "told the model")]


@pytest.mark.parametrize("yaml", [YAML, TEXT], ids=["native", "text"])
async def test_wrong_arguments_of_what_it_describes_are_just_that(yaml: str) -> None:
    native = yaml is YAML
    call: Any = (
        ToolCall(id="1", name="list_metrics", fault="they are not JSON", written="{")
        if native
        else 'Action: list_metrics\nAction Input: {"catgory": "x"}'
    )
    model = ScriptedModel([call, "sorry" if native else "Final Answer: sorry"])
    async with Runtime(WORLD, sandbox=None) as runtime:
        planner = ReActPlanner(read_config(yaml, {}), model, runtime.registry)
        result = await Agent(model, runtime, planner=planner).run(TASK)
    assert faults(result) == [("arguments", "told the model")]


async def test_a_planner_that_describes_execute_tool_plan_may_have_plans_run() -> None:
    def reads(request: Request) -> str:
        assert "Plan" in told(request)[0] or "exceeded" in told(request)[0]
        return ANSWER

    yaml = YAML.replace(
        "list_metrics, description: Metrics., args: [category]", "execute_tool_plan, description: Runs."
    )
    model = ScriptedModel([Calls(("execute_tool_plan", PLAN)), reads])
    async with Runtime(WORLD, sandbox=None) as runtime:
        planner = ReActPlanner(read_config(yaml, {}), model, runtime.registry)
        result = await Agent(model, runtime, planner=planner, mode="direct").run(TASK)
    assert (result.outcome, result.tool_calls) == ("answered", 3)
