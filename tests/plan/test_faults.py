"""Every fault a plan can have, in its exact words; all of them at once, and nothing is called."""

from __future__ import annotations

import re
from typing import Any

import anyio
import pytest

from callgate import Runtime
from callgate.plan.faults import MAX_ERRORS, PLAN_FAULT_CODES, PlanFault
from callgate.tools import Tool
from plan.plans import TOOLS, compiled, plans, read, step, stub, told

S = step("s")
SHAPE = 'a plan is an object: {"steps": [{"id": "a", "tool": "…", "arguments": {…}}], "output_steps": ["a"]}'
ONE = 'a plan must contain at least one step: {"steps": [{"id": "a", "tool": "…", "arguments": {…}}]}'


def after_s(x: Any = None, **fields: Any) -> dict[str, Any]:
    """A plan whose step ``t`` comes after ``s``."""
    return {"steps": [S, step("t", **({} if x is None else {"arguments": {"x": x}}), **fields)]}


def weather(**arguments: Any) -> dict[str, Any]:
    return {"steps": [{"id": "w", "tool": "get_weather", "arguments": arguments}]}


def after_weather(written: Any) -> dict[str, Any]:
    return {"steps": [*weather(city="Oslo")["steps"], step("t", arguments={"x": written})]}


RING = [step(f"n{number}", depends_on=[f"n{(number + 1) % 20}"]) for number in range(20)]
AT = "step 't' (steps[1].arguments.x): "
TABLE: list[tuple[str, Any, str]] = [
    (
        "not-json", "{",
        "the plan: the plan is not JSON: Expecting property name enclosed in double quotes at line 1 column 2, "
        "near '{'; quote keys and text with \", leave out trailing commas and comments",
    ),
    ("not-json", "", f"the plan: the plan is not JSON: Expecting value at line 1 column 1, near ''; {SHAPE}"),
    (
        "not-json", {"steps": [object()]},
        f"the plan: the plan is not JSON: plan.steps[0] is a object, which is not JSON; {SHAPE}",
    ),
    (
        "too-large", {"steps": [step(f"s{n}") for n in range(21)]},
        "the plan (steps): the plan has 21 steps, more than max_tool_calls, which is 20; split it, or let the "
        "operator raise max_tool_calls",
    ),
    ("shape", {"steps": []}, f"the plan (steps): there are no steps; {ONE}"),
    ("shape", [S], f"the plan: the plan is an array of 1 item; {SHAPE}"),
    (
        "shape", {"steps": [5]},
        "step 'steps[0]': a step is an object, got 5 (a number); write {\"id\": \"a\", \"tool\": \"…\", "
        '"arguments": {…}}',
    ),
    ("shape", after_s(foreach=[1]), "step 't' (steps[1].foreach): there is no field 'foreach'; write 'for_each'"),
    ("shape", {"steps": [{"id": "a"}]}, "step 'a' (steps[0].tool): the field 'tool' is missing"),
    (
        "shape", after_s(timeout=5),
        "step 't' (steps[1].timeout): 'timeout' is in milliseconds, and 5 of them are too few; for 5 seconds "
        'write "timeout_seconds": 5',
    ),
    (
        "shape", after_s(args={}),
        "step 't' (steps[1]): both 'arguments' and 'args' are given, and mean the same; leave one of them out",
    ),
    (
        "duplicate-id", {"steps": [S, S]},
        "step 's' (steps[1].id): duplicate step id 's': steps[0] has it already; rename this one, for example "
        "to 's_2', and the references that mean it",
    ),
    (
        "reserved-id", {"steps": [step("steps[3]")]},
        "step 'steps[3]' (steps[0].id): 'steps[3]' means the step at that position; rename the step",
    ),
    (
        "reserved-id", {"steps": [step("steps")]},
        "step 'steps' (steps[0].id): 'steps' means how steps are named by position; rename the step",
    ),
    (
        "reserved-id", {"steps": [step("item")]},
        "step 'item' (steps[0].id): 'item' means the item of a for_each; rename the step",
    ),
    (
        "reserved-id", {"steps": [step("index")]},
        "step 'index' (steps[0].id): 'index' means the number of an item of a for_each; rename the step",
    ),
    (
        "unknown-tool", {"steps": [step("s", "get_wether")]},
        "step 's' (steps[0].tool): there is no tool 'get_wether'; did you mean get_weather?",
    ),
    ("unknown-tool", after_s(fallback="zzz"), "step 't' (steps[1].fallback.tool): there is no tool 'zzz'"),
    (
        "recursive-plan", {"steps": [step("s1", "execute_tool_plan")]},
        "step 's1' (steps[0].tool): a step cannot call 'execute_tool_plan' (recursive plans are not allowed); "
        "write its steps into this plan",
    ),
    (
        "argument", weather(),
        "step 'w' (steps[0].arguments.city): missing argument 'city'; the arguments are: city, days",
    ),
    (
        "argument", weather(city=5),
        "step 'w' (steps[0].arguments.city): argument 'city' must be of type string, got 5 (a number)",
    ),
    (
        "argument", weather(city="x", dyas=1),
        "step 'w' (steps[0].arguments.dyas): unknown argument 'dyas'; did you mean days?",
    ),
    (
        "reference-syntax", after_s("Hello $ref:s"),
        AT
        + "'$ref:' stands inside longer text: 'Hello $ref:s'; inside text write ${id.field}; `$ref:` stands "
        "for a whole value; `$$ref:` for the text itself",
    ),
    (
        "reference-syntax", after_s("$ref:s.Exchange Rate"),
        AT
        + "'$ref:s.Exchange Rate' is a reference with text after it; to insert a value into text write "
        '${s.Exchange}; to reach a key with a space or sign in it, s.Exchange["the key"]; to compute, {"$expr": '
        '"…"}',
    ),
    (
        "reference-syntax", after_s("$ref:s."),
        AT
        + "'$ref:s.': there is no name after the dot at '.'; write .name, or leave the dot out",
    ),
    (
        "reference-syntax", after_s("$ref:"),
        AT
        + "'$ref:': there is no step's id; write $ref: and the id of a step, for example $ref:s1.field",
    ),
    (
        "reference-syntax", after_s("${s.a"),
        AT
        + "'${s.a' in text: there is no } after 's.a'; close it: ${id.field}; for the text itself write $${",
    ),
    (
        "reference-syntax", after_s({"$ref": "s", "y": 1}),
        AT
        + "an object with '$ref' holds nothing else; leave the other keys out, or write {\"$literal\": {…}} "
        "for an object that is meant as it stands",
    ),
    (
        "reference-syntax", after_s({"$ref": 5}),
        AT
        + "'$ref' must be text, got 5 (a number); write {\"$ref\": \"s1.field\"}, or {\"$literal\": …} for "
        "an object that is meant as it stands",
    ),
    (
        "reference-syntax", after_s({"$ref": "steps[0].metrics"}),
        AT
        + "'steps[0].metrics': after steps[0] comes '.result', not '.metrics'; write steps[0].result.metrics",
    ),
    (
        "reference-syntax", after_s("$item.a"),
        AT
        + "'$item.a' stands for an item, and there is no `for_each`; give the step a `for_each`, or write "
        "$$item.a for the text itself",
    ),
    (
        "reference-syntax", after_s("${index.a}", for_each=[1]),
        AT
        + "'${index.a}' in text: 'index' is a number and has no '.a'; write $index alone; for the text "
        "itself write $${",
    ),
    (
        "unknown-step", after_weather("$ref:weather"),
        AT
        + "'$ref:weather': there is no step 'weather'; the steps are: w, t",
    ),
    (
        "unknown-step", after_s("${S.a}"),
        AT
        + "'${S.a}' in text: there is no step 'S'; did you mean s?; for the text itself write $${",
    ),
    (
        "unknown-step", after_s({"$ref": "steps[9].result"}),
        AT
        + "'steps[9].result': there is no steps[9]; positions count from 0; there is steps[0] to steps[1]",
    ),
    (
        "unknown-step", after_s("$ref:item.a"),
        AT
        + "'$ref:item.a': there is no step 'item', and no item either; 'item' and 'index' stand for "
        "something in a `for_each`",
    ),
    (
        "unknown-step", after_s(depends_on=["q"]),
        "step 't' (steps[1].depends_on[0]): there is no step 'q'; the steps are: s, t",
    ),
    (
        "unknown-step", after_s(after=["s", "q"]),
        "step 't' (steps[1].after[1]): there is no step 'q'; the steps are: s, t",
    ),
    (
        "unknown-step", {"steps": [S], "output_steps": ["zz"]},
        "the plan (output_steps[0]): there is no step 'zz'; the steps are: s",
    ),
    (
        "cycle", {"steps": [step("a", arguments={"x": "$ref:a"})]},
        "step 'a' (steps[0]): cycle in the plan: a → a; a step cannot refer to its own result",
    ),
    (
        "cycle", {"steps": [step("a", arguments={"x": "$ref:b"}), step("b", arguments={"x": "${a}"})]},
        "step 'a' (steps[0]): cycle in the plan: a → b → a; each waits for the next: leave one of these "
        "references (or 'sequential') out",
    ),
    (
        "cycle", {"steps": [step("a", after=["b"]), step("b", after=["a"])]},
        "step 'a' (steps[0]): cycle in the plan: a → b → a; each waits for the next: leave one of these "
        "references (or 'sequential') out",
    ),
    (
        "cycle", {"steps": [step("a", after=["a"])]},
        "step 'a' (steps[0]): cycle in the plan: a → a; a step cannot refer to its own result",
    ),
    (
        "cycle", {"steps": RING},
        "step 'n0' (steps[0]): cycle in the plan: n0 → n1 → n2 → n3 → n4 → n5 → … (8 more) … → n14 → n15 → n16 "
        "→ n17 → n18 → n19 → n0; each waits for the next: leave one of these references (or 'sequential') out",
    ),
    (
        "expression", after_s({"$expr": 5}),
        AT
        + "'$expr' must be text, got 5 (a number); write {\"$expr\": \"s1.n * 2\"}",
    ),
    ("repaired", after_s(depends_on=["$ref:s"]), "step 't' (steps[1].depends_on): '$ref:s' was read as 's'"),
    (
        "unknown-path", after_weather("$ref:w.tmp"),
        AT
        + "'$ref:w.tmp' will lead nowhere: 'w' has no 'tmp'; did you mean w.temp?",
    ),
    (
        "unknown-path", after_weather("${w.temp.c}"),
        AT
        + "'${w.temp.c}' will lead nowhere: 'w.temp' is of type number and has no 'c'",
    ),
    (
        "looks-like-a-reference", after_weather("w.temp"),
        AT
        + "'w.temp' names the step 'w' but is not a reference; to send its result write \"$ref:w.temp\"; if the text "
        "is meant, leave it",
    ),
    (
        "looks-like-a-reference", after_s("5 * $s.Rate$"),
        AT
        + "'5 * $s.Rate$' names the step 's' but is not a reference; to insert its result write ${s.Rate}; if the "
        "text is meant, leave it",
    ),
    (
        "looks-like-a-reference", after_s("{{ s.output.Rate }}"),
        AT
        + "'{{ s.output.Rate }}' is a reference in another notation, and would be sent as that text; write "
        '"$ref:s.Rate"; for the text itself {"$literal": "…"}',
    ),
    (
        "looks-like-a-reference", after_s("5 * {s.Rate}"),
        AT
        + "'{s.Rate}' in text is a reference in another notation, and would be sent as that text; write "
        '${s.Rate}; for the text itself {"$literal": "…"}',
    ),
    (
        "no-effect", after_s(max_items=5),
        "step 't' (steps[1].max_items): 'max_items' changes nothing without 'for_each'",
    ),
    (
        "no-effect", {"steps": [step("g", "give", retry=3)]},
        "step 'g' (steps[0].retry): 'retry' changes nothing: 'give' has side effects and is called once; the "
        "operator may allow it with @tool(retry=...)",
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("code", "plan", "words"), TABLE, ids=[f"{number}-{row[0]}" for number, row in enumerate(TABLE)]
)
def test_a_fault_says_where_what_and_what_to_write(code: str, plan: Any, words: str) -> None:
    assert [(fault.code, str(fault)) for fault in read(plan, max_tool_calls=20).faults] == [(code, words)]


def test_every_code_is_produced_and_only_those() -> None:
    assert {code for code, _, _ in TABLE} == set(PLAN_FAULT_CODES)


def is_warning(code: str, words: str) -> bool:
    """Whether a row of the table stops nothing; one code is an error or a warning."""
    return PLAN_FAULT_CODES[code].startswith("Warning") or (code == "looks-like-a-reference" and "leave it" in words)


def test_warnings_stop_nothing_and_errors_do() -> None:
    for code, plan, words in TABLE:
        reading = read(plan, max_tool_calls=20)
        warning = is_warning(code, words)
        assert [fault.severity for fault in reading.faults] == ["warning" if warning else "error"]
        assert (reading.plan is not None) == warning


def test_a_fault_in_words_is_one_line() -> None:
    assert str(PlanFault("shape", None, "", "m")) == "the plan: m"
    assert str(PlanFault("shape", "s", "s", "m", "h")) == "step 's': m; h"
    assert str(PlanFault("shape", "x" * 1000, "steps[0]", "m")) == f"step '{'x' * 80}' (steps[0]): m"


BAD = {
    "steps": [
        step("a", "get_wether", arguments={"city": "$ref:nope"}),
        step("a", arguments={"x": "see $ref:a"}),
        step("b", "get_weather", arguments={"city": 5, "dyas": 1, "days": "$ref:a"}, depends_on=["c", "zz"]),
        step("c", arguments={"x": "$ref:b"}, timeout=5),
        {"id": "d", "arguments": "{"},
        5,
        step("e", "execute_code", retry=99),
    ],
    "output_steps": ["b", "f"],
    "stepz": 1,
}


def test_all_faults_are_told_at_once() -> None:
    assert sorted(told(read(BAD).faults), key=lambda fault: fault[2]) == [
        ("unknown-step", None, "output_steps[1]"),
        ("unknown-step", "a", "steps[0].arguments.city"),
        ("unknown-tool", "a", "steps[0].tool"),
        ("reference-syntax", "a", "steps[1].arguments.x"),
        ("duplicate-id", "a", "steps[1].id"),
        ("cycle", "b", "steps[2]"),
        ("argument", "b", "steps[2].arguments.city"),
        ("argument", "b", "steps[2].arguments.dyas"),
        ("unknown-step", "b", "steps[2].depends_on[1]"),
        ("shape", "c", "steps[3].timeout"),
        ("not-json", "d", "steps[4].arguments"),
        ("shape", "d", "steps[4].tool"),
        ("shape", "steps[5]", "steps[5]"),
        ("shape", "e", "steps[6].retry.attempts"),
        ("recursive-plan", "e", "steps[6].tool"),
        ("shape", None, "stepz"),
    ]


def test_errors_come_before_warnings() -> None:
    steps = [S, step("t", max_items=5, arguments={"x": "5 * $s"}), step("u", "nope", max_items=5)]
    severities = [fault.severity for fault in read({"steps": steps}).faults]
    assert severities == ["error", "warning", "warning"]


@pytest.mark.parametrize(
    "broken",
    [step("s", "nope"), step("s", arguments={"x": "$ref:zz"}), 5, step("s", zz=1), step("s", arguments="{")],
    ids=str,
)
@pytest.mark.parametrize("distinct", [True, False])
def test_a_plan_with_very_many_faults_tells_so_many_and_no_more(broken: Any, distinct: bool) -> None:
    steps = [broken] * 20_000
    if distinct and isinstance(broken, dict):
        steps = [{**broken, "id": f"s{number}"} for number in range(20_000)]
    reading = read({"steps": steps})
    assert reading.plan is None
    assert MAX_ERRORS <= len(reading.faults) < 2 * MAX_ERRORS


def test_a_fault_never_repeats_a_huge_value() -> None:
    long = "x" * 100_000
    for plan in (
        {"steps": [step(long)]}, {"steps": [step("s", long)]}, {"steps": [S, step("t", depends_on=[long])]},
        after_s(f"$ref:{long}"), after_s(f"${{{long}}}"), after_s(f"see $ref:{long}"), after_s(f"$ref:s.{long}["),
        after_s({"$ref": f"s {long}"}), weather(city="x", **{long: 1}), after_weather(f"$ref:w.{long}"), long,
        {"steps": [step("s", **{long: 1})]}, {long: 1}, {"steps": [{**S, "arguments": long}]}, after_s(f"$s {long}"),
    ):  # fmt: skip
        faults = read(plan).faults
        assert faults
        assert all(len(fault.message) < 1000 and len(fault.hint) < 1000 for fault in faults), faults


def test_tools_that_exist_and_are_not_offered_say_why_and_are_not_suggested() -> None:
    door = plans(*TOOLS, stub("only_code", allowed_callers=("code",)), stub("nobody", allowed_callers=()))
    words = [
        str(fault)
        for name in ("only_code", "nobody", "only_cod")
        for fault in read({"steps": [step("s", name)]}, door=door).faults
    ]
    assert words == [
        "step 's' (steps[0].tool): tool 'only_code' may not be called by plan; it is for: code",
        "step 's' (steps[0].tool): tool 'nobody' may not be called by plan; nobody may",
        "step 's' (steps[0].tool): there is no tool 'only_cod'",
    ]


def test_a_tool_may_be_named_as_programs_name_it() -> None:
    door = plans(stub("get-user.v2"))
    for name in ("get-user.v2", "get_user_v2"):
        assert compiled({"steps": [step("s", name)]}, door=door).steps[0].tool.name == "get-user.v2"


def test_arguments_are_not_held_against_the_schema_where_references_stand() -> None:
    fine = ["$ref:s", {"$ref": "s.a"}, "in ${s}"]
    for city in fine:
        assert read({"steps": [S, step("w", "get_weather", arguments={"city": city})]}).faults == []
    faults = read({"steps": [S, step("w", "get_weather", arguments={"city": "$ref:s", "days": 0})]}).faults
    assert told(faults) == [("argument", "w", "steps[1].arguments.days")]
    literal = {"city": {"$literal": "$ref:s"}, "days": {"$literal": 0}}
    faults = read({"steps": [S, step("w", "get_weather", arguments=literal)]}).faults
    assert told(faults) == [("argument", "w", "steps[1].arguments.days")]


def test_an_unknown_argument_is_told_even_where_its_value_is_a_reference() -> None:
    faults = read({"steps": [S, step("w", "get_weather", arguments={"city": "x", "dyas": "$ref:s"})]}).faults
    words = "step 'w' (steps[1].arguments.dyas): unknown argument 'dyas'; did you mean days?"
    assert [str(fault) for fault in faults] == [words]


@pytest.mark.slow
@pytest.mark.anyio
async def test_nothing_is_called_by_a_plan_with_an_error() -> None:
    called: list[str] = []

    def take(x: Any = None) -> None:
        called.append("take")

    tool = Tool.from_function(take)
    async with Runtime([tool], sandbox=None) as runtime:
        for code, plan, words in TABLE:
            if is_warning(code, words) or "get_weather" in str(plan) or "give" in str(plan):
                continue
            given = plan if not isinstance(plan, dict) or len(plan.get("steps", ())) < 21 else {"steps": [S] * 200_001}
            with anyio.fail_after(60):
                result = await runtime.execute_tool_plan(given)
            assert (result.ok, result.steps, result.calls) == (False, [], [])
            assert result.error is not None
            assert result.error.kind == "PlanRefused"
            if given is plan and code != "unknown-tool":
                assert result.error.message == words
                assert f"- {words}" in result.for_model(10_000)
        with anyio.fail_after(60):
            result = await runtime.execute_tool_plan(BAD)
        told_model = result.for_model(20_000)
        assert re.match(r"The plan was not run: 1\d faults. Correct them and send it again.\n- ", told_model)
        assert sum(line.startswith("- ") for line in told_model.splitlines()) == len(result.faults)
    assert called == []
