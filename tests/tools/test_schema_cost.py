"""No schema and no value stop the event loop: what would take long is refused, what remains is quick."""

from __future__ import annotations

import contextlib
import json
import time
from random import Random
from typing import Any

import pytest

from callgate.errors import ConfigurationError, InvalidArguments, ToolError
from callgate.tools import Tool
from callgate.tools.json_schema import problem as words_of
from callgate.tools.patterns import pattern_states, pattern_work
from callgate.tools.schema_check import SchemaCheck, SchemaFault, TooMuchToCheck
from callgate.tools.schema_cost import MAX_STEPS, MAX_WAYS, SchemaCost
from callgate.tools.turns import at_once

SECONDS = 5.0
"""For one check, on a busy machine; without the bounds each case here takes from 5 s to years."""

WORDS = [
    "anyOf", "oneOf", "allOf", "items", "properties", "additionalProperties", "not", "if", "contains",
    "unevaluatedProperties", "unevaluatedItems", "patternProperties", "prefixItems", "dependentSchemas",
]  # fmt: skip


def faults_of(check: SchemaCheck, value: Any, text: str) -> list[SchemaFault]:
    """All that a schema has against a value."""
    return at_once(check.checking(value, text))


def take(schema: dict[str, Any], **options: Any) -> Tool:
    def function(**arguments: Any) -> Any:
        return arguments

    return Tool.from_schema("take", "", schema, function, **options)


def levels(word: str, count: int) -> dict[str, Any]:
    """`count` levels, each of which leads to the next one twice."""
    twice = {n: {word: [{"$ref": f"#/$defs/{n + 1}"}] * 2} for n in range(count)}
    return {"$defs": {**{str(n): level for n, level in twice.items()}, str(count): {"type": "integer"}}}


def nested(depth: int, value: Any = 0) -> Any:
    for _ in range(depth):
        value = [value]
    return value


def tree(word: str) -> dict[str, Any]:
    """Comes back to itself twice with each level of the value."""
    both = [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/a"}]
    return {"$defs": {"a": {"type": "array", "items": {word: both}}}}


def unevaluated(count: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"properties": {"a": True}}
    for _ in range(count):
        schema = {"anyOf": [schema], "unevaluatedProperties": False}
    return schema


def chain(count: int, names: int) -> dict[str, Any]:
    """`count` levels, each with what the next one has and a name of its own."""
    made: dict[str, Any] = {
        f"{n}": {"allOf": [{"$ref": f"#/$defs/{n + 1}"}], "properties": {f"n{n}": {"$ref": f"#/$defs/{n}"}}}
        for n in range(count)
    }
    return {"$ref": "#/$defs/0", "$defs": made | {f"{count}": {"properties": {f"x{n}": {} for n in range(names)}}}}


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        *((levels(word, 20) | {"$ref": "#/$defs/0"}, "branches too often") for word in ("oneOf", "anyOf", "allOf")),
        (levels("anyOf", 20) | {"items": {"if": {"$ref": "#/$defs/0"}, "then": False}}, "branches too often"),
        ({"$defs": {"a": {"anyOf": [{"$ref": "#/$defs/a"}] * 2}}, "$ref": "#/$defs/a"}, "without going into"),
        ({"$anchor": "a", "allOf": [{"$ref": "#a"}], "not": {"$ref": "#a"}}, "without going into"),
        ({"$id": "http://h.example/s", "oneOf": [{"$ref": "/s"}, {"$ref": "s"}]}, "without going into"),
        (unevaluated(20), "branches too often"),
        ({"properties": {"a": {"pattern": r"\w{900}", "allOf": [{"pattern": f"[a-z]{{{n}}}"} for n in range(800)]}}},
         "patterns with too many repetitions"),
    ],
)  # fmt: skip
def test_a_schema_by_which_no_value_could_be_checked_is_refused(schema: dict[str, Any], reason: str) -> None:
    began = time.process_time()
    with pytest.raises(ConfigurationError, match=reason):
        SchemaCheck(schema, "it")
    assert time.process_time() - began < SECONDS


@pytest.mark.parametrize(
    ("schema", "value", "fits"),
    [
        *((tree(word) | {"$ref": "#/$defs/a"}, nested(100), False) for word in ("oneOf", "anyOf", "allOf")),
        (levels("oneOf", 12) | {"$ref": "#/$defs/0"}, "x", False),
        (chain(200, 500), {"n7": {"x3": "x" * 100_000}}, True),
        (levels("anyOf", 12) | {"items": {"$ref": "#/$defs/0"}}, ["x"] * 300, False),
        ({"items": {"type": "string"}}, list(range(300_000)), False),
        ({"anyOf": [{"items": {"type": "string"}}, {"items": {"type": "null"}}]}, list(range(300_000)), False),
        ({"items": {"enum": [{"a": n} for n in range(300)]}}, [{"a": -1}] * 10_000, False),
        ({"items": {"multipleOf": 1e-300}}, [1.5e300] * 100_000, True),
        ({"uniqueItems": True}, [10**30 + n for n in range(10_000)], True),
        ({"pattern": r"\pL{1,100}\s1$"}, "ab" * 500_000, False),
        ({"patternProperties": {r"\pL{1,200}\s1$": False}}, {f"{'a' * 500}{n}": 1 for n in range(2_000)}, False),
    ],
)
def test_a_large_value_is_checked_in_time_or_refused(schema: dict[str, Any], value: Any, fits: bool) -> None:
    wrapped = {"properties": {"v": schema, "w": {}}} | {key: schema[key] for key in ("$defs",) if key in schema}
    began = time.process_time()
    try:
        faults = list(faults_of(SchemaCheck(wrapped, "it"), {"v": value, "w": 1}, json.dumps({"v": value, "w": 1})))
    except TooMuchToCheck:
        pass
    else:
        assert (not faults) == fits
        assert all(fault.path[0] == "v" for fault in faults)
    assert time.process_time() - began < SECONDS


@pytest.mark.alone
@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"items": unevaluated(5)}, [{"a": 1}] * 20_000),
        ({"uniqueItems": True}, [10**30 + n for n in range(600)]),
        ({"uniqueItems": True}, [{"a": n, "b": [n]} for n in range(100_000)]),
        ({"items": {"multipleOf": 0.01}}, [n / 100 for n in range(90_000)]),
        ({"pattern": r"\pL{1,100}\s1$"}, "ab" * 25_000),
        ({"items": {"enum": [{"a": "x" * 50 + str(n)} for n in range(300)]}}, [{"a": "x" * 50 + "299"}] * 10_000),
    ],
)
def test_one_turn_of_a_check_is_short_just_below_the_limit(schema: dict[str, Any], value: Any) -> None:
    longest, checking = 0.0, SchemaCheck(schema, "it").checking(value, json.dumps(value))
    began = time.process_time()
    for _ in checking:
        longest, began = max(longest, time.process_time() - began), time.process_time()
    assert max(longest, time.process_time() - began) < 0.4, "100 ms, and some for a busy machine"


def test_a_large_text_is_not_copied_for_each_alternative() -> None:
    check = SchemaCheck({"anyOf": [{"const": n} for n in range(300)]}, "it")
    text = "x" * 3_000_000
    began = time.process_time()
    (fault,) = faults_of(check, text, f'"{text}"')
    assert (fault.keyword, fault.value) == ("anyOf", text)
    assert time.process_time() - began < SECONDS


def test_one_wrong_item_of_very_many_is_found_soon() -> None:
    check = SchemaCheck({"type": "array", "items": {"type": "integer"}}, "it")
    value: list[Any] = [0] * 2_000_000
    began = time.process_time()
    (fault,) = faults_of(check, [*value, "x"], f'[{"0," * 2_000_000}"x"]')
    assert (fault.path, fault.keyword) == ((2_000_000,), "type")
    assert time.process_time() - began < SECONDS


@pytest.mark.parametrize("wrong", [0, 1, 4_999, 5_000, 9_999])
def test_the_first_wrong_item_is_told_wherever_it_is(wrong: int) -> None:
    items: list[Any] = [[n] for n in range(10_000)]
    items[wrong] = ["x"]
    items[-1] = ["y"] if wrong != 9_999 else ["x"]
    check = SchemaCheck({"items": {"items": {"type": "integer"}}}, "it")
    assert [(fault.path, fault.value) for fault in faults_of(check, items, json.dumps(items))] == [((wrong, 0), "x")]
    members = {f"k{n}": item for n, item in enumerate(items)}
    check = SchemaCheck({"additionalProperties": {"items": {"type": "integer"}}}, "it")
    assert [fault.path for fault in faults_of(check, members, json.dumps(members))] == [(f"k{wrong}", 0)]


def test_a_key_that_does_not_fit_is_told_also_of_a_large_object() -> None:
    check = SchemaCheck({"propertyNames": {"maxLength": 4}}, "it")
    value = {f"{n}": n for n in range(20_000)}
    (fault,) = faults_of(check, value, json.dumps(value))
    assert (fault.path, fault.keyword, fault.details["property"]) == ((), "propertyNames", "10000")


def test_the_first_unknown_key_of_a_large_object_is_named_whatever_its_schema_says_of_others() -> None:
    members = {"a": 1, **{f"k{n}": n for n in range(20_000)}, **{f"x{n}": "x" for n in range(9)}}
    text = json.dumps(members)
    (fault,) = faults_of(SchemaCheck({"additionalProperties": False}, "it"), members, text)
    assert words_of(fault).endswith('"k18" and 19990 more')
    (fault,) = faults_of(SchemaCheck({"dependentRequired": {"a": ["k1", "b"]}}, "it"), members, text)
    assert words_of(fault) == "has no 'b', got an object"
    patterns = {"properties": {"a": {}}, "patternProperties": {"^k": {}}, "additionalProperties": False}
    (fault,) = faults_of(SchemaCheck(patterns, "it"), members, text)
    assert (fault.keyword, fault.details["unexpected"]) == ("additionalProperties", ["x0"])
    numbers = {"properties": {"a": {}}, "additionalProperties": {"type": "integer"}}
    assert [fault.path for fault in faults_of(SchemaCheck(numbers, "it"), members, text)] == [("x0",)]


def test_a_limit_of_draft_4_is_asked_about_with_what_it_means() -> None:
    schema = {"$schema": "http://json-schema.org/draft-04/schema#", "maximum": 5, "exclusiveMaximum": True}
    schema |= {"items": {"type": "integer"}}
    value = [*range(10_000), "x"]
    assert [fault.path for fault in faults_of(SchemaCheck(schema, "it"), value, json.dumps(value))] == [(10_000,)]


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"items": {"dependentRequired": {f"k{n}": [] for n in range(400)}}}, [{"k": 1}] * 130_000),
        ({"items": {"dependentSchemas": {f"k{n}": True for n in range(400)}}}, [{"k": 1}] * 130_000),
        ({"items": {"properties": {f"k{n}": {} for n in range(4_000)}}}, [{}] * 130_000),
        ({"$defs": {"n": {"uniqueItems": True, "items": {"$ref": "#/$defs/n"}}}, "$ref": "#/$defs/n"},
         nested(90, list(range(130_000)))),
        ({"items": {"multipleOf": 7}}, [7e300] * 210_000),
        ({"properties": {"a": True}, "additionalProperties": {"pattern": r"\w{900}é"}}, {"a": 1, "b": "x" * 100_000}),
        ({"propertyNames": {"pattern": r"\w{900}é"}}, {"a": 1, "x" * 100_000: 1}),
        ({"patternProperties": {r"\w{900}é": {}}}, {"a": 1, "x" * 100_000: 1}),
    ],
)  # fmt: skip
def test_what_the_validator_takes_long_for_is_counted(schema: dict[str, Any], value: Any) -> None:
    cost = SchemaCost(schema, "it")
    text = json.dumps(value)
    assert at_once(cost.steps(text, value)) > MAX_STEPS
    assert not at_once(cost.allowing(text, value))


URL = r"https?:\/\/(www\.)?[-a-zA-Z0-9@:%._\+~#=]{1,256}\.[a-zA-Z0-9()]{1,6}\b([-a-zA-Z0-9()@:%_\+.~#?&//=]*)"
EMAIL = r"^[a-z0-9.-]+@[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?)*$"
BLOCKS = [f"kind-{n}" for n in range(14)]
BLOCK = {
    "type": "object",
    "properties": {"id": {"pattern": "^[0-9a-f-]{36}$"}, "children": {"items": {"$ref": "#/$defs/block"}}},
}


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"properties": {"url": {"pattern": URL}, "html": {}}}, {"url": "https://a.com/", "html": "<p>" * 80_000}),
        ({"properties": {"to": {"items": {"pattern": EMAIL}}, "file": {}}}, {"to": ["a@b.c"], "file": "A" * 10**6}),
        ({"properties": {"title": {"pattern": "^.{1,500}$"}, "body": {}}}, {"title": "hi", "body": "x" * 400_000}),
        ({"items": {"properties": {"about": {"pattern": "^.{0,1024}$"}}}}, [{"about": "A text of a row."}] * 5_000),
        ({"properties": {"a": {"pattern": r"^[\s\S]{0,4096}$"}, "b": {}}}, {"a": "abc", "b": "y" * 400_000}),
        ({"additionalProperties": {"pattern": URL}, "properties": {"x": {}}}, {"x": "y" * 10**6}),
        ({"items": {"anyOf": [{"properties": {f"k{n}": {"pattern": "^a+b$"}}} for n in range(60)]}},
         [{"k1": "aab", "z": 3}] * 20_000),
        ({"$defs": {"block": {"anyOf": [
            BLOCK | {"properties": BLOCK["properties"] | {"type": {"const": each}}} for each in BLOCKS  # type: ignore[operator]
         ]}}, "items": {"$ref": "#/$defs/block"}},
         [{"type": "kind-9", "id": "0" * 36, "children": [{"type": "kind-13", "id": "1" * 36}] * 3}] * 5_000),
    ],
)  # fmt: skip
def test_patterns_and_alternatives_are_charged_where_they_apply(schema: dict[str, Any], value: Any) -> None:
    assert not list(faults_of(SchemaCheck(schema, "it"), value, json.dumps(value)))


def test_a_large_text_under_a_hard_pattern_is_still_refused_when_the_pattern_stands_beside_easy_ones() -> None:
    schema = {"properties": {"a": {"pattern": r"\w{400}é"}, "b": {}}}
    easy, hard = {"a": "x", "b": "x" * 200_000}, {"a": "x" * 200_000, "b": "x"}
    cost = SchemaCost(schema, "it")
    assert at_once(cost.allowing(json.dumps(easy), easy))
    assert not at_once(cost.allowing(json.dumps(hard), hard))


@pytest.mark.parametrize(
    ("pattern", "work"),
    [("^.{1,500}$", 1), ("^([a-z]{3}-){0,90}$", 360), ("^[a-z]{0,99}[a-z]{50}$", 53), ("^a{99}$|b{99}", 198),
     ("a{0,90}b", 91),
     (".{1,500}", 1), (".{1,500}$", 1500), ("^[0-9a-f]{8}-[0-9a-f]{4}$", 1), ("^(a|b){99}x{99}$", 297)],
)  # fmt: skip
def test_the_work_of_a_pattern_is_of_what_may_be_open_at_once(pattern: str, work: int) -> None:
    assert pattern_work(pattern) == work


def test_a_large_value_is_told_where_it_does_not_fit() -> None:
    row = {"type": "object", "properties": {"n": {"type": "integer"}, "k": {"enum": ["a", "b"]}}, "required": ["n"]}
    schema = {
        "$defs": {"row": row | {"additionalProperties": False}},
        "properties": {"rows": {"type": "array", "maxItems": 15_000, "items": {"$ref": "#/$defs/row"}}, "w": {}},
    }
    rows: list[Any] = [{"n": n, "k": "a"} for n in range(10_000)]
    for bad, problem in (
        ({"n": "x"}, "argument 'rows[8000].n' must be of type integer, got \"x\" (a string)"),
        ({"n": 1, "k": "c"}, 'argument \'rows[8000].k\' must be one of "a", "b", got "c" (a string)'),
        ({}, "missing argument 'rows[8000].n'"),
        (7, "argument 'rows[8000]' must be of type object, got 7 (a number)"),
    ):
        given = [*rows[:8_000], bad, *rows[8_000:]]
        with pytest.raises(InvalidArguments) as caught:
            take(schema).validate({"rows": given})
        assert caught.value.message == f"tool 'take': {problem}"
    with pytest.raises(InvalidArguments, match="'rows' must keep to maxItems 15000, got an array of 20000 items"):
        take(schema).validate({"rows": rows * 2})
    with pytest.raises(InvalidArguments, match="unknown argument 'x'"):
        take(schema).validate({"rows": rows, "x": 1})
    members = {"type": "object", "properties": {"a": {}}, "required": ["a"]}
    large = {f"k{n}": n for n in range(20_000)}
    with pytest.raises(InvalidArguments, match=r"missing argument 'v\.a'"):
        take({"properties": {"v": members}}).validate({"v": large})
    closed = members | {"additionalProperties": False}
    with pytest.raises(InvalidArguments, match=r"unknown argument 'v\.k0'; unknown argument 'v\.k1'"):
        take({"properties": {"v": closed}}).validate({"v": {"a": 1, **large}})


def test_what_is_too_much_to_be_checked_is_refused_and_not_let_through() -> None:
    schema = levels("anyOf", 12) | {"properties": {"v": {"items": {"$ref": "#/$defs/0"}}}}
    value = {"v": [1] * 10_000}
    with pytest.raises(InvalidArguments, match="cannot be checked: 20007 bytes are too much to be checked by a schema"):
        take(schema).validate(value)
    with pytest.raises(ToolError, match="result cannot be checked: 20007 bytes are too much"):
        take({}, output_schema=schema).encode(value)
    assert take(schema).validate({"v": [1] * 100}) == {"v": [1] * 100}


def test_schemas_that_people_write_keep_working_with_large_values() -> None:
    anything = {"$defs": {"j": {"anyOf": [
        {"type": ["string", "number", "boolean", "null"]},
        {"type": "array", "items": {"$ref": "#/$defs/j"}},
        {"type": "object", "additionalProperties": {"$ref": "#/$defs/j"}},
    ]}}, "properties": {"v": {"$ref": "#/$defs/j"}}}  # fmt: skip
    block = {"anyOf": [
        {"type": "object", "required": ["type"], "properties": {
            "type": {"const": f"kind-{n}"}, "children": {"type": "array", "items": {"$ref": "#/$defs/b"}}}}
        for n in range(30)
    ]}  # fmt: skip
    blocks = {"$defs": {"b": block}, "properties": {"v": {"$ref": "#/$defs/b"}}}
    deep: Any = {"type": "kind-7"}
    for n in range(60):
        deep = {"type": f"kind-{n % 30}", "children": [deep, {"type": "kind-1"}]}
    wide = {"type": "kind-29", "children": [{"type": f"kind-{n % 30}", "children": []} for n in range(3_000)]}
    rows = [{"id": n, "name": f"name, {n}", "tags": ["a", None, {"b": 1.5}]} for n in range(10_000)]
    names = {"properties": {"v": {"properties": {"id": {"pattern": "^[A-Za-z0-9_.-]{1,128}$"}, "body": {}}}}}
    document = {"id": "a-1", "body": "x" * 3_000_000}
    tags = {"properties": {"v": {"uniqueItems": True, "items": {"type": "string"}}}}
    digits = [f"{n:025d}" for n in range(20_000)]
    for schema, value in (
        (names, document),
        (tags, digits),
        (anything, rows),
        (anything, nested(200)),
        (blocks, deep),
        (blocks, wide),
    ):
        assert take({}, output_schema=schema).encode({"v": value})
    wide["children"][2_000]["type"] = "kind-30"  # type: ignore[index]
    with pytest.raises(ToolError, match=r"result\.v does not fit anyOf, got an object"):
        take({}, output_schema=blocks).encode({"v": wide})


@pytest.mark.parametrize(
    ("pattern", "states"),
    [("abc", 3), ("(ab{3}){10}", 40), ("a{2,5}", 5), ("a{7,}", 7), ("[a-z]{8}-[^x]{4}", 21), (r"\w\d\.", 7),
     (r"\pL\P{Lu}x", 19),
     ("(a|b)*", 2), ("", 1), ("a{0}b", 2), (")(", 1), ("((a{999}){999}){999}", 999**3)],
)  # fmt: skip
def test_the_states_of_a_pattern(pattern: str, states: int) -> None:
    assert pattern_states(pattern) == states


def tangled(chance: Random) -> dict[str, Any]:
    """Schemas that lead to each other at random, most of them to the next."""
    size = chance.choice([1, 2, 5, 20])

    def some(place: int) -> list[dict[str, Any]]:
        if chance.random() < 0.6:
            return [{"$ref": f"#/$defs/{min(size - 1, place + 1)}"}] * chance.choice([1, 2, 3])
        return [{"$ref": f"#/$defs/{chance.randrange(size)}"} for _ in range(2)]

    def one(place: int) -> dict[str, Any]:
        made: dict[str, Any] = {}
        for word in chance.sample(WORDS, 2):
            branches = some(place)
            if word in ("anyOf", "oneOf", "allOf", "prefixItems"):
                made[word] = branches
            elif word in ("properties", "patternProperties", "dependentSchemas"):
                made[word] = {chance.choice("ab"): branches[0]}
            else:
                made[word] = {chance.choice(["anyOf", "oneOf", "allOf"]): branches}
        return made | ({"type": chance.choice(["array", "object", "integer"])} if chance.random() < 0.3 else {})

    return {"$defs": {str(place): one(place) for place in range(size)}, "$ref": "#/$defs/0"}


def test_whatever_a_schema_is_a_check_by_it_ends_soon() -> None:
    values = [nested(200), {"a": nested(20, {"b": 1})}, [{"a": {"b": [n]}} for n in range(3_000)], [1] * 3_000]
    for _ in range(60):
        values[1] = {"a": values[1], "b": [values[1]] if len(json.dumps(values[1])) < 2_000 else 1}
    taken = 0
    for seed in range(60):
        schema = tangled(Random(seed))
        began = time.process_time()
        with contextlib.suppress(ConfigurationError):
            check = SchemaCheck(schema, "it")
            taken += 1
            for value in values:
                with contextlib.suppress(ValueError):
                    list(faults_of(check, value, json.dumps(value)))
        assert time.process_time() - began < SECONDS, schema
    assert taken > 10


def test_as_many_ways_as_are_taken_are_quick() -> None:
    schema = levels("oneOf", 13) | {"$ref": "#/$defs/0"}
    check = SchemaCheck(schema, "it")
    began = time.process_time()
    assert list(faults_of(check, "x", '"x"'))
    assert time.process_time() - began < SECONDS
    assert MAX_WAYS == 100_000
