"""What a model sends, made a JSON object: text in text, fences, bounds, and what is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callgate.plan.decode import decode_arguments, decode_plan, too_deep
from callgate.plan.faults import Faults
from callgate.plan.templates import MAX_DEPTH
from callgate.tools.encoding import compact_json
from plan.plans import TEXTS, VALUES, is_same

BOUND = 1 << 20
OBJECTS = st.dictionaries(TEXTS, VALUES, max_size=4)


def plan_of(given: Any, bound: int = BOUND) -> tuple[dict[str, Any] | None, list[str]]:
    faults = Faults()
    value = decode_plan(given, bound, faults)
    assert (value is None) == any(fault.severity == "error" for fault in faults)
    return value, [f"{fault.code}: {fault.message}" for fault in faults]


def arguments_of(given: Any) -> tuple[dict[str, Any] | None, list[str]]:
    faults = Faults()
    value = decode_arguments(given, "s", "steps[0].arguments", faults)
    assert all((fault.step, fault.place) == ("s", "steps[0].arguments") for fault in faults)
    return value, [f"{fault.code}: {fault.message}" for fault in faults]


AGAIN = "was JSON text in JSON text; it was read all the same"
FENCE = "stood in a Markdown fence; it was read all the same"


@given(OBJECTS.filter(lambda value: set(value) != {"plan"}))
def test_an_object_arrives_the_same_however_it_is_wrapped(value: dict[str, Any]) -> None:
    text = compact_json(value)
    wrapped: list[tuple[Any, list[str]]] = [
        (value, []),
        (text, []),
        (json.dumps(value, indent=3), []),
        (f"\n {text} \n", []),
        (json.dumps(text), [f"repaired: the plan {AGAIN}"]),
        (f"```json\n{text}\n```", [f"repaired: the plan {FENCE}"]),
        (f"```\n{text}```\n", [f"repaired: the plan {FENCE}"]),
        ({"plan": value}, []),
        ({"plan": text}, []),
        (json.dumps({"plan": text}), []),
        ({"plan": json.dumps(text)}, [f"repaired: 'plan' {AGAIN}"]),
        ({"plan": f"```json\n{text}\n```"}, [f"repaired: 'plan' {FENCE}"]),
    ]
    for given_so, warnings in wrapped:
        decoded, told = plan_of(given_so)
        assert is_same(decoded, value)
        assert told == warnings


@given(OBJECTS)
def test_arguments_arrive_the_same_as_text_and_as_text_in_text(value: dict[str, Any]) -> None:
    text = compact_json(value)
    for given_so, warnings in (
        (text, []),
        (f" {text}\n", []),
        (json.dumps(text), [f"repaired: 'arguments' {AGAIN}"]),
        (f"```json\n{text}\n```", [f"repaired: 'arguments' {FENCE}"]),
    ):
        decoded, told = arguments_of(given_so)
        assert is_same(decoded, value)
        assert told == warnings


SORTED = "write sorted(...), since a set has no order"
DECODED = "write .decode() for text, or base64.b64encode(...).decode()"


@pytest.mark.parametrize("given_so", [None, "", "  \n", "null", '""', "{}", {}], ids=repr)
def test_no_arguments_are_an_empty_object(given_so: Any) -> None:
    value, told = arguments_of(given_so)
    if given_so == '""':  # text in text that is not JSON
        assert value is None
    else:
        assert (value, told) == ({}, [])


@pytest.mark.parametrize(
    ("given_so", "message"),
    [
        ([1], "shape: an array of 1 item"),
        ("[1]", "shape: an array of 1 item"),
        (5, "shape: 5 (a number)"),
        (False, "shape: false (a boolean)"),
        ('"\\"deeper\\""', "shape: \"deeper\" (a string)"),
        ('{"a": 1, "a": 2}', "not-json: the key 'a' occurs twice in one object"),
        ('{"a": NaN}', "not-json: NaN is not JSON"),
        ("{'a'}", "not-json: Expecting property name enclosed in double quotes at line 1 column 2, near \"{'a'}\""),
        ("Oslo", "not-json: Expecting value at line 1 column 1, near 'Oslo'"),
        ('{"a": "\\ud800"}', "not-json: value.a holds half of a surrogate pair, which is not Unicode text"),
        ('{"a":' * 101 + "{}" + "}" * 101, "too-large: 'arguments' is nested more than 100 levels deep"),
        ("[" * 200_000, "too-large: 'arguments' is nested more than 100 levels deep"),
    ],
    ids=str,
)  # fmt: skip
def test_arguments_that_are_none(given_so: Any, message: str) -> None:
    value, told = arguments_of(given_so)
    assert value is None
    code, _, rest = message.partition(": ")
    start = {"not-json": "'arguments' is not JSON: ", "shape": "'arguments' must be an object, got "}.get(code, "")
    assert told[-1] == f"{code}: {start}{rest}"


class Thing:
    """No JSON."""


CYCLE: dict[str, Any] = {"steps": []}
CYCLE["steps"].append(CYCLE)


@pytest.mark.parametrize(
    ("given_so", "message"),
    [
        ("", "not-json: Expecting value at line 1 column 1, near ''"),
        ("not json at all {{", "not-json: Expecting value at line 1 column 1, near 'not json at all {{'"),
        ('{"steps": [1 2]}', "not-json: Expecting ',' delimiter at line 1 column 14, near '{\"steps\": [1 2]}'"),
        ('{"steps": []} and more', "not-json: Extra data at line 1 column 15, near '{\"steps\": []} and more'"),
        ('{"goal": "a", "goal": "b"}', "not-json: the key 'goal' occurs twice in one object"),
        ('{"a": Infinity}', "not-json: Infinity is not JSON"),
        ('{"a": 1e999}', "not-json: the number 1e999 is too large"),
        ('{"a": "\\udc00"}', "not-json: value.a holds half of a surrogate pair, which is not Unicode text"),
        ({"a": "\ud800"}, "not-json: plan.a holds half of a surrogate pair, which is not Unicode text"),
        ({"a": float("nan")}, "not-json: plan.a is nan, which is not JSON; use null or a string"),
        ({"a": [Thing()]}, "not-json: plan.a[0] is a Thing, which is not JSON"),
        ({"a": {1, 2}}, f"not-json: plan.a is a set, which is not JSON; {SORTED}"),
        ({"a": b"x"}, f"not-json: plan.a is a bytes, which is not JSON; {DECODED}"),
        ({(1, 2): 3}, "not-json: plan has a key that is a tuple; JSON keys are strings"),
        (CYCLE, "not-json: plan.steps[0] contains itself"),
        (None, "shape: null"),
        (5, "shape: 5 (a number)"),
        ([], "shape: an array of 0 items"),
        ("[1, 2]", "shape: an array of 2 items"),
        ('"\\"\\\\\\"deeper\\\\\\"\\""', "shape: \"\\\"deeper\\\"\" (a string)"),
        ({"plan": None}, "shape: null"),
        ("[" * 200_000, "too-large: the plan is nested more than 100 levels deep"),
    ],
    ids=lambda value: str(value)[:30].encode("utf-8", "replace").decode(),
)  # fmt: skip
def test_plans_that_are_none(given_so: Any, message: str) -> None:
    decoded, told = plan_of(given_so)
    assert decoded is None
    code, _, rest = message.partition(": ")
    start = {"not-json": "the plan is not JSON: ", "shape": "the plan is "}.get(code, "")
    assert told[-1] == f"{code}: {start}{rest}"


def test_one_wrapping_is_taken_off_and_not_two() -> None:
    assert plan_of({"plan": {"plan": "{"}}) == ({"plan": "{"}, [])


def test_duplicate_keys_are_found_in_a_doubly_encoded_plan_and_in_a_fence() -> None:
    inner = '{"steps": [{"id": "a", "id": "b"}]}'
    for given_so in (json.dumps(inner), {"plan": inner}, f"```json\n{inner}\n```"):
        decoded, told = plan_of(given_so)
        assert decoded is None
        assert told[-1].endswith("is not JSON: the key 'id' occurs twice in one object")


def nested(levels: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(levels - 1):
        value = {"a": value}
    return value


def test_depth_is_bounded_on_every_way_in() -> None:
    fine, too = nested(MAX_DEPTH), nested(MAX_DEPTH + 1)
    assert not too_deep(fine)
    assert too_deep(too)
    for wrap in (lambda value: value, json.dumps, lambda value: json.dumps(json.dumps(value))):
        assert plan_of(wrap(fine))[0] == fine
        assert plan_of(wrap(too))[0] is None
    assert plan_of(nested(100_000)) == (None, ["not-json: the plan is not JSON: plan is nested too deeply"])


@pytest.mark.parametrize("value", [5, "text", None, True, 1.5], ids=repr)
def test_what_is_no_container_has_no_depth(value: Any) -> None:
    assert not too_deep(value)


def test_size_is_bounded_in_bytes_and_the_message_names_the_limit() -> None:
    value = {"a": "ä" * 50}
    size = len(compact_json(value).encode())
    assert plan_of(value, size)[0] == value
    told = f"too-large: the plan is {size} bytes, more than max_message_bytes, which is {size - 1}"
    assert plan_of(value, size - 1) == (None, [told])
    assert plan_of(compact_json(value), size - 1) == (None, [told])


def test_the_number_of_values_is_bounded() -> None:
    text = '{"a":[' + "{}," * 2_100_000 + "0]}"
    assert plan_of(text, 1 << 30) == (None, ["too-large: the plan has more than 2000000 values"])
    inside_text = json.dumps({"a": "," * 2_100_000})
    assert plan_of(inside_text, 1 << 30)[1] == []


def test_what_is_decoded_is_nobody_elses() -> None:
    mine: dict[str, Any] = {"steps": [{"id": "a"}]}
    decoded, _ = plan_of(mine)
    mine["steps"][0]["id"] = "changed"
    assert decoded == {"steps": [{"id": "a"}]}


def test_keys_that_are_numbers_become_text_as_json_has_it() -> None:
    assert plan_of({1: 2, None: 3, False: 4, 0.5: 5})[0] == {"1": 2, "null": 3, "false": 4, "0.5": 5}
    told = "not-json: the plan is not JSON: the key '1' occurs twice in one object"
    assert plan_of({1: 2, "1": 3}) == (None, [told])


@given(st.text(max_size=60) | st.text('{}[]",:\\u0123 `\n', max_size=60))
def test_any_text_is_decoded_or_refused_with_one_error(text: str) -> None:
    plan_of(text)
    arguments_of(text)
