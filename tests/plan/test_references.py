"""References: the value with its type, text inside text, what is never resolved, and what leads nowhere."""

from __future__ import annotations

import json
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from callgate import Runtime
from callgate.plan.paths import path_text
from callgate.tools import Tool
from callgate.tools.encoding import compact_json
from plan.plans import (
    TEXTS,
    VALUES,
    Play,
    arrived,
    compiled,
    doubled,
    escaped,
    is_same,
    played,
    read,
    referring,
    step,
    told,
)
from plan.test_paths import ways

INSIDE = VALUES.filter(lambda value: not (isinstance(value, str) and value.lstrip()[:1] in ("{", "[")))
"""Values that paths lead into as they stand; text that is JSON has tests of its own."""


@given(INSIDE, st.data())
def test_every_form_stands_for_exactly_the_value_with_its_type(value: Any, data: st.DataObject) -> None:
    path, there = data.draw(st.sampled_from(ways(value)))
    way = path_text(path)
    for written in (f"$ref:s{way}", {"$ref": f"s{way}"}, {"$ref": f"$ref:s{way}"}, {"$ref": f"steps[0].result{way}"}):
        assert is_same(arrived(value, written), there)


@st.composite
def texts_around(draw: st.DrawFn) -> tuple[Any, str, str]:
    """A result, text with references into it, and what it must become."""
    value = draw(INSIDE)
    written, expected = "It is ", "It is "
    for literal in draw(st.lists(TEXTS | st.sampled_from(["$", "$$", "$$$", "${", "ref:"]), min_size=1, max_size=4)):
        path, there = draw(st.sampled_from(ways(value)))
        written += f"{doubled(literal)}${{s{path_text(path)}}}"
        expected += literal + (there if isinstance(there, str) else compact_json(there))
    return value, written, expected


@given(texts_around())
def test_values_inside_text_are_what_plain_joining_makes(made: tuple[Any, str, str]) -> None:
    value, written, expected = made
    assert arrived(value, written) == expected


@given(VALUES)
def test_any_json_value_can_be_passed_literally(value: Any) -> None:
    assert is_same(arrived(None, {"$literal": value}), value)
    assert is_same(arrived(None, [{"deep": {"$literal": value}}]), [{"deep": value}])


@given(TEXTS)
def test_any_text_can_be_escaped(text: str) -> None:
    assert arrived(None, escaped(text)) == text
    play = played({"steps": [step("t", for_each=[1], arguments={"x": escaped(text)})]})
    assert play.arguments("t")["x"] == text


# which step, and which path into it

IDS = ("a", "a.b", "a.b.c", "my step", "get-user", "größe", "0", "-", "a[0]", "#1", "x}y")


@pytest.mark.parametrize("id", IDS)
@pytest.mark.parametrize("form", ["$ref:ID", "$ref:ID[1]", "${ID}!", '${ ID["k"] }', "${ID.0}", "${ID }"])
def test_an_id_may_be_any_text_and_the_longest_that_exists_is_meant(id: str, form: str) -> None:
    written = form.replace("ID", id)
    plan = {"steps": [*[step(each) for each in IDS], step("t", arguments={"x": written})]}
    assert [each.needs for each in compiled(plan).steps[-1:]] == [(IDS.index(id),)]


def needs(written: Any, *ids: str) -> tuple[str, ...]:
    plan = compiled({"steps": [*[step(each) for each in ids], step("t", arguments={"x": written})]})
    return tuple(ids[need] for need in plan.steps[-1].needs)


def test_a_longer_id_wins_and_a_quoted_key_gets_around_it() -> None:
    assert needs("$ref:a.b.x", "a", "a.b") == ("a.b",)
    assert needs('$ref:a["b"].x', "a", "a.b") == ("a",)
    assert needs("$ref:a.bc", "a", "a.b") == ("a",)
    assert needs({"$ref": "a.b"}, "a", "a.b") == ("a.b",)


def test_positions_count_all_steps_and_work_beside_ids() -> None:
    assert needs({"$ref": "steps[1].result"}, "a", "b") == ("b",)
    assert needs("$ref:steps[1].result.x", "a", "b") == ("b",)
    assert needs("${steps[0].result} and ${b}", "a", "b") == ("a", "b")
    assert needs({"$ref": "steps[0].result"}, "steps[0]", "b") == ("steps[0]",)


def test_steps_without_ids_are_named_by_position() -> None:
    plan = {"steps": [{"tool": "take", "args": {}}, {"tool": "take", "args": {"x": {"$ref": "steps[0].result.a"}}}]}
    play = played(plan, {"steps[0]": {"a": 5}})
    assert play.arguments("steps[1]") == {"x": 5}


def test_forward_references_are_fine() -> None:
    play = played({"steps": [step("t", arguments={"x": "$ref:s"}), step("s")]}, {"s": [1]})
    assert play.arguments("t") == {"x": [1]}
    assert [play.ids[call.step] for call in play.calls] == ["s", "t"]


# values

KEPT = [
    2**53 + 1,
    "007",
    None,
    0.1,
    1.0,
    True,
    False,
    "",
    [],
    {},
    "true",
    "1_000",
    "Infinity",
    10**40,
    -0.0,
    "+5",
    "null",
]


@pytest.mark.parametrize("value", KEPT, ids=repr)
def test_nothing_is_made_of_a_value_but_itself(value: Any) -> None:
    for result, written in ((value, "$ref:s"), ({"a": value}, "$ref:s.a"), ([[value]], {"$ref": "s[0][-1]"})):
        assert is_same(arrived(result, written), value)


@pytest.mark.parametrize("text", ["$ref:s", "${s}", "$$ref:s", "$${s}", "$item", "$index", "steps[0].result", "{{s}}"])
def test_what_is_inserted_is_never_looked_at_again(text: str) -> None:
    assert arrived(text, "$ref:s") == text
    assert arrived({"a": [text]}, "$ref:s") == {"a": [text]}
    assert arrived(text, "<${s}>") == f"<{text}>"
    assert arrived({"$ref": text}, "$ref:s") == {"$ref": text}
    assert arrived({"$literal": text}, ["$ref:s"]) == [{"$literal": text}]
    items = played({"steps": [step("s"), step("t", for_each="$ref:s", arguments={"x": "$item"})]}, {"s": [text]})
    assert items.arguments("t") == {"x": text}


def test_keys_are_never_resolved() -> None:
    written = {"$ref:s": "$ref:s", "${s}": 1, "$item": 2, "$refs": 3, "$schema": {"$comment": "$ref:s"}, "$": 4}
    expected = {"$ref:s": 7, "${s}": 1, "$item": 2, "$refs": 3, "$schema": {"$comment": 7}, "$": 4}
    assert is_same(arrived(7, written), expected)


def test_references_are_found_at_any_depth() -> None:
    written = [{"a": ["$ref:s.n", {"b": "n is ${s.n}"}]}, {"$ref": "s"}]
    assert arrived({"n": 7}, written) == [{"a": [7, {"b": "n is 7"}]}, {"n": 7}]


def test_a_dollar_sign_before_a_value_is_written_three_times() -> None:
    assert arrived({"price": 12}, "It costs $$${s.price}") == "It costs $12"
    assert arrived(12, "$$$$${s}") == "$$12"
    assert arrived(12, "$$$${s}") == "$${s}"
    assert arrived(12, "$5, $$5, $x, ${s}") == "$5, $$5, $x, 12"
    assert read({"steps": [step("s"), step("t", arguments={"x": "$${HOME} $$ref:s"})]}).faults == []


def test_text_that_is_json_is_read_for_paths_and_stays_text_as_a_whole() -> None:
    text = '{"a": [1, {"b": "007"}]}'
    assert arrived(text, "$ref:s") == text
    assert arrived(text, "<${s}>") == f"<{text}>"
    assert arrived(text, "$ref:s.a[1].b") == "007"
    assert arrived(text, "${s.a[0]}${s.a}") == '1[1,{"b":"007"}]'
    assert arrived("  [[5]]\n", "$ref:s[0].0") == 5
    assert arrived({"inner": text}, {"$ref": "s.inner"}) == text
    for no_json in ("5", "true", '"text"', "{broken", '{"a": 1, "a": 2}', "[NaN]"):
        assert arrived(no_json, "$ref:s.a") is None
        assert arrived(no_json, "$ref:s") == no_json


def test_text_inside_a_result_is_not_read_for_paths() -> None:
    assert arrived({"inner": '{"a": 1}'}, "$ref:s.inner.a") is None


# paths that lead nowhere

NOWHERE = "'s' has the keys: temp, wind"


def test_in_the_text_dialect_a_missing_path_is_null_and_a_warning() -> None:
    play = referring({"temp": 1, "wind": 2}, "$ref:s.zzz")
    assert play.arguments("t") == {"x": None}
    warning = f"$ref:s.zzz leads nowhere, null was put there: {NOWHERE}"
    assert (play.outcome("t").status, play.outcome("t").warnings) == ("succeeded", (warning,))


@pytest.mark.parametrize("written", [{"$ref": "s.zzz"}, "at ${s.zzz}", {"$ref": "steps[0].result.zzz"}], ids=str)
def test_elsewhere_a_missing_path_fails_the_step_and_lists_the_keys(written: Any) -> None:
    play = referring({"temp": 1, "wind": 2}, written)
    outcome = play.outcome("t")
    assert (outcome.status, outcome.kind, len(play.calls)) == ("failed", "Unresolvable", 1)
    assert str(outcome.error).endswith(" has the keys: temp, wind")


@pytest.mark.parametrize("written", ["$ref:s.zzz", {"$ref": "s.zzz"}, "${s.zzz}"], ids=str)
def test_the_plan_may_set_one_rule_for_all(written: Any) -> None:
    assert referring({}, written, missing="error").outcome("t").error is not None
    nothing = "null" if isinstance(written, str) and written.startswith("${") else None
    assert arrived({}, written, missing="null") == nothing


def test_null_is_a_value_and_no_missing_path() -> None:
    play = referring({"a": None}, {"$ref": "s.a"})
    assert (play.arguments("t"), play.outcome("t").warnings) == ({"x": None}, ())
    assert arrived({"a": None}, "a is ${s.a}") == "a is null"


def test_attributes_and_lengths_lead_nowhere() -> None:
    results: list[Any] = [[1], {}, "text", 5]
    for path in ("length", "__class__", "constructor.name", "keys", "__len__"):
        for result in results:
            assert arrived(result, f"$ref:s.{path}") is None
            assert referring(result, {"$ref": f"s.{path}"}).outcome("t").status == "failed"


def test_a_star_maps_and_null_stands_in_for_what_is_missing() -> None:
    rows = [{"n": 1}, {"n": "007"}, {}]
    play = referring(rows, "$ref:s[*].n")
    assert play.arguments("t") == {"x": [1, "007", None]}
    assert len(play.outcome("t").warnings) == 1
    assert arrived({"r": [[1, 2], [3]]}, {"$ref": "s.r[*][*]"}) == [[1, 2], [3]]
    assert arrived(rows[:2], "${s[*].n}") == '[1,"007"]'
    assert referring(rows, {"$ref": "s[*].n"}).outcome("t").status == "failed"


# items


def test_item_and_index_stand_for_the_item_of_a_for_each() -> None:
    written = {"a": "$item", "b": "$item.n", "c": "$index", "d": "${index}: ${item.n}", "e": {"$ref": "item.n"}}
    plan = {"steps": [step("s"), step("t", for_each="$ref:s", arguments=written)]}
    play = played(plan, {"s": [{"n": 1}, {"n": "x"}]})
    assert [call.arguments for call in play.calls[1:]] == [
        {"a": {"n": 1}, "b": 1, "c": 0, "d": "0: 1", "e": 1},
        {"a": {"n": "x"}, "b": "x", "c": 1, "d": "1: x", "e": "x"},
    ]


def test_an_escaped_item_may_stand_before_a_value() -> None:
    assert arrived(5, "$$item. See ${s}") == "$item. See 5"


# copies


@pytest.mark.anyio
async def test_each_dependent_gets_its_own_copy() -> None:
    got: list[Any] = []

    def rows() -> dict[str, Any]:
        return {"rows": [[1], [2]]}

    def text() -> str:
        return '[["a"]]'

    def spoil(x: Any) -> None:
        got.append(json.loads(json.dumps(x)))
        for inner in x.values() if isinstance(x, dict) else x:
            if isinstance(inner, list):
                inner.append("spoilt")
        x.clear()

    paths = ["s", "s.rows", "s.rows[0]", "s.rows[*]", "u[0]", "u[*]"]
    written = [*[f"$ref:{path}" for path in paths], ["$ref:s.rows"], {"$ref": "s"}]
    steps = [step(f"t{number}", "spoil", arguments={"x": each}) for number, each in enumerate(written * 2)]
    mapped = step("m", "spoil", for_each="$ref:s.rows", arguments={"x": "$item"})
    literal = step("l", "spoil", for_each=[1, 2], arguments={"x": [[0]]})
    plan = {"steps": [step("s", "rows"), step("u", "text"), *steps, mapped, literal]}
    async with Runtime([Tool.from_function(each) for each in (rows, text, spoil)], sandbox=None) as runtime:
        for _ in range(2):
            with anyio.fail_after(20):
                result = await runtime.execute_tool_plan(plan)
            assert result.ok, result.error
            assert result.outputs["s"] == rows()
    whole, both = rows(), [[1], [2]]
    once = [whole, both, [1], both, ["a"], [["a"]], [both], whole]
    expected = 2 * [*once, *once, [1], [2], [[0]], [[0]]]
    assert sorted(map(str, got)) == sorted(map(str, expected))


@given(INSIDE)
def test_the_order_of_the_answers_makes_no_difference(value: Any) -> None:
    plan = {"steps": [step("a"), step("b"), step("t", arguments={"a": "$ref:a", "b": {"$ref": "b"}, "c": "${a}${b}"})]}
    for order in (0, -1):
        play = Play(compiled(plan))
        first = play.begin()[order]
        play.answer(first, value)
        play.answer(play.open[0], value)
        text = value if isinstance(value, str) else compact_json(value)
        assert is_same(play.open[0].arguments, {"a": value, "b": value, "c": text * 2})


def test_faults_of_references_stand_where_the_reference_does() -> None:
    written = {"a": ["$ref:nope"], "b c": {"d": "${nope.x}"}, "e": "see $ref:s", "f": {"$ref": 5}, "g": "$ref:s x"}
    assert told(read({"steps": [step("s"), step("t", arguments=written)]}).faults) == [
        ("unknown-step", "t", "steps[1].arguments.a[0]"),
        ("unknown-step", "t", 'steps[1].arguments["b c"].d'),
        ("reference-syntax", "t", "steps[1].arguments.e"),
        ("reference-syntax", "t", "steps[1].arguments.f"),
        ("reference-syntax", "t", "steps[1].arguments.g"),
    ]


# expressions: what they are has tests of its own; here is how they stand in a plan


@pytest.mark.parametrize(
    ("result", "written", "expected"),
    [
        ({"n": 2**53}, "s.n + 1", 2**53 + 1),
        ([1, 2, 3], "[each * 2 for each in s if each > 1]", [4, 6]),
        ({"price": 12}, "f'costs ${s.price}'", "costs $12"),
        ("$ref:", "s + 's'", "$ref:s"),
        ({"a": None}, "s.a is None", True),
    ],
)
def test_an_expression_stands_for_its_value(result: Any, written: str, expected: Any) -> None:
    assert is_same(arrived(result, {"$expr": written}), expected)
    assert is_same(arrived(result, [{"deep": {"$expr": written}}]), [{"deep": expected}])


def test_an_expression_makes_a_step_wait_and_its_failure_fails_the_step() -> None:
    plan = {"steps": [step("t", arguments={"x": {"$expr": "1 / s"}}), step("s"), step("u", depends_on=["t"])]}
    play = played(plan, {"s": 0})
    assert [play.ids[call.step] for call in play.calls] == ["s"]
    assert play.outcome("t").error == "the expression '1 / s' failed: ZeroDivisionError: division by zero"
    assert play.outcome("u").error == "Skipped because dependency 't' failed"


def test_expressions_may_be_conditions_and_use_the_item() -> None:
    each = {"x": {"$expr": "item * 10 + index"}}
    steps = [step("s"), step("t", for_each={"$expr": "s[1:]"}, when={"$expr": "len(s) > 1"}, arguments=each)]
    assert [call.arguments for call in played({"steps": steps}, {"s": [1, 2, 3]}).calls[1:]] == [{"x": 20}, {"x": 31}]
    assert len(played({"steps": steps}, {"s": [1]}).calls) == 1


def test_an_expression_that_cannot_be_read_is_told_beforehand() -> None:
    for written, code in (("import os", "expression"), ("s.__class__", "expression"), ("nope + 1", "unknown-step")):
        faults = read({"steps": [step("s"), step("t", arguments={"x": {"$expr": written}})]}).faults
        assert told(faults) == [(code, "t", "steps[1].arguments.x")]
