"""A plan as it is written: both dialects, other names, shapes; whatever is given, there is an answer."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callgate.plan.faults import MAX_ERRORS, PLAN_FAULT_CODES
from callgate.plan.model import Step, StepRetry, plan_json
from plan.plans import LEAVES, TOOLS, VALUES, Play, compiled, is_same, read, step, told


def model_of(**fields: Any) -> Step:
    """The only step of a plan, read."""
    plan = compiled({"steps": [{"id": "s", "tool": "take", **fields}]})
    return plan.steps[0].model


@pytest.mark.parametrize("name", ["arguments", "args", "parameters", "params"])
@pytest.mark.parametrize("given_so", [{"x": [1]}, '{"x": [1]}', '"{\\"x\\": [1]}"'], ids=repr)
def test_arguments_have_four_names_and_three_ways_to_write_them(name: str, given_so: Any) -> None:
    assert model_of(**{name: given_so}).arguments == {"x": [1]}


@pytest.mark.parametrize("given_so", [None, "", " ", {}, "{}", "null"], ids=repr)
def test_no_arguments_are_written_in_many_ways(given_so: Any) -> None:
    assert model_of(arguments=given_so).arguments == {}
    assert model_of().arguments == {}


@pytest.mark.parametrize(
    ("written", "field", "value"),
    [
        ({"timeout": 5000}, "timeout_seconds", 5.0),
        ({"timeout": 250.5}, "timeout_seconds", 0.2505),
        ({"timeout": None}, "timeout_seconds", None),
        ({"timeout_seconds": 5}, "timeout_seconds", 5.0),
        ({"timeoutSeconds": 5}, "timeout_seconds", 5.0),
        ({"executionMode": "sequential"}, "execution_mode", "sequential"),
        ({"execution_mode": None}, "execution_mode", "parallel"),
        ({"retry": True}, "retry", StepRetry.model_validate({"attempts": 3})),
        ({"retry": False}, "retry", StepRetry.model_validate({"attempts": 1})),
        ({"retry": 5}, "retry", StepRetry.model_validate({"attempts": 5})),
        (
            {"retry": {"max_attempts": 2, "backoff_seconds": 0}},
            "retry",
            StepRetry.model_validate({"attempts": 2, "backoff_seconds": 0}),
        ),
        ({"retry": None}, "retry", None),
        ({"critical": None}, "critical", False),
        ({"forEach": [1], "maxItems": 2}, "max_items", 2),
        ({"for_each": [1], "onItemError": "null"}, "on_item_error", "null"),
        ({"description": "why"}, "description", "why"),
    ],
    ids=str,
)
def test_what_else_a_step_may_say(written: dict[str, Any], field: str, value: Any) -> None:
    assert getattr(model_of(**written), field) == value


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("give", ("give", "on_error", 0.5)),
        ({"tool": "give"}, ("give", "on_error", 0.5)),
        ({"tool": "give", "condition": "on_low_confidence"}, ("give", "on_low_confidence", 0.5)),
        ({"tool": "give", "condition": "on_low_confidence", "threshold": 0.9}, ("give", "on_low_confidence", 0.9)),
    ],
    ids=str,
)
def test_a_fallback_is_a_tool_or_says_when_it_is_called(written: Any, expected: tuple[str, str, float]) -> None:
    fallback = model_of(fallback=written).fallback
    assert fallback is not None
    assert (fallback.tool, fallback.condition, fallback.threshold) == expected


@pytest.mark.parametrize("name", ["depends_on", "dependencies", "dependsOn"])
@pytest.mark.parametrize("given_so", ["a", ["a"], ["a", "a"], ["$ref:a"]], ids=str)
def test_dependencies_have_three_names_and_may_be_one_text(name: str, given_so: Any) -> None:
    plan = compiled({"steps": [step("a"), step("b", **{name: given_so})]})
    assert plan.steps[1].needs == (0,)


@pytest.mark.parametrize("given_so", ["a", ["a"], ["a", "a"], ["$ref:a"]], ids=str)
def test_what_a_step_comes_after_may_be_one_text(given_so: Any) -> None:
    plan = compiled({"steps": [step("a"), step("b", after=given_so), step("c", after=None)]})
    assert [(each.needs, each.after) for each in plan.steps] == [((), ()), ((), (0,)), ((), ())]


def test_ids_may_be_numbers_or_absent_or_empty() -> None:
    steps = [{"id": 5, "tool": "take"}, {"tool": "take"}, {"id": "", "tool": "take"}, {"id": None, "tool": "take"}]
    plan = compiled({"steps": [*steps, step("t", depends_on=[5, "steps[1]"])], "output_steps": [5]})
    assert [each.id for each in plan.steps] == ["5", "steps[1]", "steps[2]", "steps[3]", "t"]
    assert (plan.steps[4].needs, plan.outputs) == ((0, 1), (0,))


@pytest.mark.parametrize("name", ["tool", "tool_name", "toolName"])
def test_a_tool_has_three_names(name: str) -> None:
    assert compiled({"steps": [{"id": "s", name: "take"}]}).steps[0].tool.name == "take"


@pytest.mark.parametrize("written", [{}, {"output_steps": []}, {"output_steps": None}, {"outputSteps": []}], ids=str)
def test_no_output_steps_are_all(written: dict[str, Any]) -> None:
    assert compiled({"steps": [step("a"), step("b")], **written}).outputs == (0, 1)


@pytest.mark.parametrize("written", [["b", "a"], ["b", "a", "b"], ["$ref:b", "a"]], ids=str)
def test_output_steps_keep_their_order(written: list[str]) -> None:
    assert compiled({"steps": [step("a"), step("b")], "output_steps": written}).outputs == (1, 0)
    assert compiled({"steps": [step("a"), step("b")], "output_steps": "b"}).outputs == (1,)


def test_a_plan_of_the_tool_planning_engine_is_read_as_it_stands() -> None:
    given_so = {
        "id": "plan_1",
        "reasoning": "first search, then fetch",
        "estimatedDuration": 1200,
        "steps": [
            {"id": "search", "tool": "take", "parameters": {"q": "x"}, "dependencies": [], "executionMode": "parallel"},
            {
                "id": "fetch", "tool": "take", "parameters": {"url": "$ref:search.url"}, "dependencies": ["search"],
                "executionMode": "sequential", "timeout": 5000,
                "fallback": {"tool": "give", "condition": "on_low_confidence", "threshold": 0.7},
            },
        ],
    }  # fmt: skip
    reading = read(given_so)
    assert reading.faults == []
    assert reading.plan is not None
    fetch = reading.plan.steps[1]
    assert (fetch.needs, fetch.after, fetch.threshold, fetch.model.timeout_seconds) == ((0,), (), 0.7, 5.0)


@pytest.mark.parametrize(
    ("written", "place", "message"),
    [
        ({"tool": 5}, ".tool", "tool must be text, got 5 (a number)"),
        ({"tool": ""}, ".tool", 'tool must be text of at least 1 character, got "" (a string)'),
        ({"id": 1.5}, ".id", "id must be text, got 1.5 (a number)"),
        ({"id": True}, ".id", "id must be text, got true (a boolean)"),
        ({"id": "x" * 257}, ".id", None),
        ({"description": []}, ".description", "description must be text, got an array of 0 items"),
        ({"depends_on": 5}, ".depends_on", "depends_on must be an array, got 5 (a number)"),
        ({"depends_on": [None]}, ".depends_on[0]", "depends_on[0] must be text, got null"),
        ({"execution_mode": "both"}, ".execution_mode", None),
        ({"timeout": 5}, ".timeout", "'timeout' is in milliseconds, and 5 of them are too few"),
        ({"timeout": -(10**400)}, ".timeout", None),
        ({"timeout": 10**400}, ".timeout", None),
        ({"timeout": 1e300}, ".timeout", "'timeout' is in milliseconds, and 1e+300 of them are too many"),
        ({"timeout": "5000"}, ".timeout", "'timeout' must be a number of milliseconds, got \"5000\" (a string)"),
        ({"timeout": True}, ".timeout", "'timeout' must be a number of milliseconds, got true (a boolean)"),
        ({"timeout": 5000, "timeout_seconds": 5}, "", "both 'timeout' and 'timeout_seconds' are given"),
        ({"timeout_seconds": 0}, ".timeout_seconds", "timeout_seconds must be greater than 0, got 0 (a number)"),
        ({"timeout_seconds": 3601}, ".timeout_seconds", None),
        ({"retry": 0}, ".retry.attempts", None),
        ({"retry": 11}, ".retry.attempts", None),
        ({"retry": []}, ".retry", "retry must be an object, got an array of 0 items"),
        ({"retry": {"times": 3}}, ".retry.times", "there is no field 'times'"),
        ({"fallback": 5}, ".fallback", None),
        ({"fallback": {}}, ".fallback.tool", "the field 'tool' is missing"),
        ({"fallback": {"tool": "give", "condition": "sometimes"}}, ".fallback.condition", None),
        ({"fallback": {"tool": "give", "threshold": 2}}, ".fallback.threshold", None),
        ({"fallback": "take"}, ".fallback.tool", "the fallback is the tool itself"),
        ({"max_items": 0}, ".max_items", None),
        ({"max_items": 10**7}, ".max_items", None),
        ({"on_item_error": "skip"}, ".on_item_error", None),
        ({"critical": "very"}, ".critical", "critical must be true or false, got \"very\" (a string)"),
        ({"arguments": {}, "args": {}}, "", "both 'arguments' and 'args' are given, and mean the same"),
        ({"foreach": [1]}, ".foreach", "there is no field 'foreach'"),
    ],
    ids=lambda value: str(value)[:40],
)  # fmt: skip
def test_what_a_step_may_not_say(written: dict[str, Any], place: str, message: str | None) -> None:
    faults = read({"steps": [{"id": "s", "tool": "take", **written}]}).faults
    assert [(fault.code, fault.place) for fault in faults] == [("shape", f"steps[0]{place}")]
    assert message is None or faults[0].message == message


@pytest.mark.parametrize(
    ("written", "place"),
    [
        ({"goal": 5}, "goal"), ({"missing": "skip"}, "missing"), ({"output_steps": 5}, "output_steps"),
        ({"output_steps": [None]}, "output_steps[0]"), ({"output_steps": {}}, "output_steps"), ({"stepz": []}, "stepz"),
    ],
    ids=str,
)  # fmt: skip
def test_what_a_plan_may_not_say(written: dict[str, Any], place: str) -> None:
    assert told(read({"steps": [step("s")], **written}).faults) == [("shape", None, place)]


@pytest.mark.parametrize("steps", [None, [], {}, "x", 5, [None], [[]], ["s"], [{}], [{"id": "s"}], [{"tool": None}]])
def test_steps_that_are_none(steps: Any) -> None:
    faults = read({"steps": steps}).faults
    assert {fault.code for fault in faults} == {"shape"}
    assert all(fault.place.startswith("steps") for fault in faults)


def test_a_plan_that_is_written_again_is_the_same_plan() -> None:
    given_so = {
        "goal": "g",
        "missing": "error",
        "output_steps": ["t"],
        "steps": [
            step("s", timeout=500),
            step(
                "t", for_each="$ref:s", arguments={"x": "$item"}, when="$ref:s.ok", retry=2, critical=True, max_items=5,
                fallback={"tool": "give", "condition": "on_low_confidence"}, depends_on=["s"],
            ),
            step("u", after=["s", "t"]),
        ],
    }  # fmt: skip
    first = compiled(given_so)
    again = compiled(plan_json(first.model))
    assert again.model == first.model
    assert plan_json(again.model) == plan_json(first.model)


@given(VALUES)
def test_arguments_of_a_plan_are_kept_as_they_are(value: Any) -> None:
    plan = compiled({"steps": [step("s", arguments={"x": {"$literal": value}})]})
    assert is_same(plan_json(plan.model)["steps"][0]["arguments"], {"x": {"$literal": value}})


# whatever is given

STEP_FIELDS = (*Step.model_fields, "args", "dependencies", "timeout")
NAMES = st.sampled_from([*STEP_FIELDS, "x", "$ref", "$literal"])
REFERENCES = st.sampled_from(
    ["a", "b", "$ref:a", "$ref:b.x", "$ref:c", "${a}", "${b.x}", "steps[0].result", "$item", "$"]
)
ODD = st.recursive(
    LEAVES | REFERENCES,
    lambda below: st.lists(below, max_size=3) | st.dictionaries(NAMES, below, max_size=3),
    max_leaves=6,
)
ARGUMENTS = st.dictionaries(st.sampled_from(["x", "city", "$ref"]), ODD, max_size=3)
STEPS = st.fixed_dictionaries(
    {"id": st.sampled_from(["a", "b", "c", "d"]), "tool": st.sampled_from([tool.name for tool in TOOLS])},
    optional={
        "arguments": ARGUMENTS | ARGUMENTS.map(json.dumps) | ODD,
        "depends_on": st.lists(st.sampled_from("abcd"), max_size=2) | ODD,
        "after": st.lists(st.sampled_from("abcd"), max_size=2) | ODD,
        "when": ODD, "for_each": st.lists(LEAVES, max_size=4) | ODD, "retry": ODD, "timeout": ODD,
        "critical": st.booleans(), "execution_mode": st.sampled_from(["parallel", "sequential"]),
        "fallback": st.sampled_from(["give", {"tool": "give", "condition": "on_low_confidence"}]) | ODD,
        "on_item_error": st.sampled_from(["fail", "null"]),
    },
)  # fmt: skip
LIKE_PLANS = st.fixed_dictionaries(
    {"steps": st.lists(STEPS | st.dictionaries(NAMES, ODD, max_size=4) | ODD, max_size=5)},
    optional={"output_steps": st.lists(st.sampled_from("abcd"), max_size=2) | ODD, "goal": ODD, "missing": ODD},
)
WELL_FORMED = st.lists(STEPS, min_size=1, max_size=5, unique_by=lambda each: str(each["id"])).map(
    lambda steps: {"steps": steps}
)


def answered(given_so: Any, pick: Any = None) -> bool:
    """Whether the plan was accepted; if so it has run to its end."""
    reading = read(given_so)
    assert len(reading.faults) < 2 * MAX_ERRORS
    for fault in reading.faults:
        assert fault.code in PLAN_FAULT_CODES
        if fault.code != "looks-like-a-reference":  # an error or a warning
            assert fault.severity == ("warning" if PLAN_FAULT_CODES[fault.code].startswith("Warning") else "error")
        assert len(str(fault)) < 1500, str(fault)
        assert "\n" not in fault.message
    assert (reading.plan is None) == bool(reading.errors)
    if reading.plan is None:
        return False
    play = Play(reading.plan, window=2)
    play.run(lambda call: pick(call) if pick else {"x": [call.step], "confidence": 0.1})
    assert sorted(play.ended) == list(range(len(reading.plan.steps)))
    assert all(outcome.status != "pending" for outcome in play.engine.outcomes)
    return True


@given(LIKE_PLANS | ODD)
def test_anything_like_a_plan_is_refused_or_runs_to_its_end(given_so: Any) -> None:
    assert answered(given_so) == answered(json.dumps(given_so))


@given(WELL_FORMED, st.data())
def test_a_plan_that_is_accepted_runs_to_its_end_whatever_its_tools_do(given_so: Any, data: st.DataObject) -> None:
    results = VALUES | st.builds(ValueError, st.just("no")) | st.builds(TimeoutError, st.just("late"))
    answered(given_so, lambda _: data.draw(results))


@given(st.text(max_size=80) | st.text('{}[]",:$stepid\\ 0', max_size=80) | VALUES.map(repr) | VALUES.map(json.dumps))
def test_any_text_is_answered(text: str) -> None:
    answered(text)


@given(VALUES)
def test_any_value_is_answered_wherever_it_stands(value: Any) -> None:
    answered(value)
    for name in (
        "id",
        "tool",
        "arguments",
        "depends_on",
        "retry",
        "fallback",
        "timeout",
        "when",
        "for_each",
        "max_items",
    ):
        answered({"steps": [step("s", **{name: value}) if name not in ("id", "tool") else {**step("s"), name: value}]})
    for name in ("steps", "output_steps", "goal", "missing", "plan", "x"):
        answered({"steps": [step("s")], name: value})
