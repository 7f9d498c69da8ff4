"""Whether a path can lead anywhere in a schema: no is said only where it is certain."""

from __future__ import annotations

from typing import Any

import jsonschema_rs
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from callgate.plan.paths import LeadsNowhere, look_up, path_text, read_path
from callgate.plan.schemas import impossible
from plan.plans import plans, read, step, stub

WEATHER: dict[str, Any] = {
    "type": "object",
    "properties": {
        "temp": {"type": "number"},
        "wind": {
            "type": "object",
            "properties": {"speed": {"type": "number"}, "from": {}},
            "additionalProperties": False,
        },
        "hours": {"type": "array", "items": {"type": "object", "properties": {"at": {"type": "string"}}}},
        "note": {"type": ["string", "null"]},
        "open": {"type": "object", "properties": {"a": {"type": "integer"}}, "additionalProperties": True},
        "any": {},
        "place": {"$ref": "#/$defs/Place"},
        "inside": {"anyOf": [{"type": "object", "properties": {"a": {}}}, {"type": "null"}]},
        "Exchange Rate": {"type": "object", "properties": {"usd": {}}},
        "empty": {"type": "object", "properties": {}},
        "untyped": {"properties": {"a": {}}},
        "pair": {"type": "array", "prefixItems": [{"type": "integer"}, {"type": "object", "properties": {"b": {}}}]},
    },
    "$defs": {"Place": {"type": "object", "properties": {"city": {"type": "string"}, "in": {"$ref": "#/$defs/Place"}}}},
}

NEVER: list[tuple[str, str, str]] = [
    ("tempp", "'s' has no 'tempp'", "did you mean s.temp?"),
    ("zzz", "'s' has no 'zzz'", f"it has: {', '.join(WEATHER['properties'])}"),
    ("wind.spead", "'s.wind' has no 'spead'", "did you mean s.wind.speed?"),
    ("temp.value", "'s.temp' is of type number and has no 'value'", ""),
    ("temp[0]", "'s.temp' is of type number and has no [0]", ""),
    ("wind[0]", "'s.wind' is of type object and has no [0]", ""),
    ("wind[*]", "'s.wind' is of type object and has no [*]", ""),
    ("hours.at", "'s.hours' is of type array and has no 'at'", ""),
    ("hours.length", "'s.hours' is of type array and has no 'length'", ""),
    ("hours[0].att", "'s.hours[0]' has no 'att'", "did you mean s.hours[0].at?"),
    ("hours[*].zz", "'s.hours[*]' has no 'zz'", "it has: at"),
    ("hours.0.zz", "'s.hours.0' has no 'zz'", "it has: at"),
    ("place.in.in.town", "'s.place.in.in' has no 'town'", "it has: city, in"),
    ("exchange_rate", "'s' has no 'exchange_rate'", 'did you mean s["Exchange Rate"]?'),
    ("empty.a", "'s.empty' has no 'a'", "it is an empty object"),
    ("untyped.b", "'s.untyped' has no 'b'", "it has: a"),
]  # fmt: skip
MAYBE = [
    "", "temp", "wind.speed", "wind.from.anything", "hours", "hours[0].at", "hours[-1]", "hours[*].at", "hours.0.at",
    "note", "note.a", "note[0]", "open.a", "open.b.c", "any.a[0].b", "place.city", "place.in.in.in.city", "inside.zzz",
    '["Exchange Rate"].usd', "untyped.a", "untyped[0]", "hours[0].at.x", "wind.0", "pair[1].zzz", "place.city.x",
]  # fmt: skip


def path(text: str) -> tuple[Any, ...]:
    return read_path(text if text[:1] in ("", "[") else f".{text}")[0]


@pytest.mark.parametrize(("text", "message", "hint"), NEVER, ids=[row[0] for row in NEVER])
def test_a_path_that_can_lead_nowhere_is_told_with_what_there_is(text: str, message: str, hint: str) -> None:
    assert impossible(WEATHER, path(text), "s") == (message, hint)


@pytest.mark.parametrize("text", MAYBE)
def test_what_may_be_there_is_not_told(text: str) -> None:
    found = impossible(WEATHER, path(text), "s")
    if text == "wind.0":  # an index of an array, or a key; the object has neither
        assert found is None or found[0] == "'s.wind' has no '0'"
    else:
        assert found is None


@pytest.mark.parametrize(
    "schema",
    [
        None, {}, {"type": "object"}, {"type": "string"}, {"allOf": [{"type": "object", "properties": {}}]},
        {"type": "object", "properties": {}, "patternProperties": {"^a": {}}}, {"$ref": "http://elsewhere/schema"},
        {"$ref": "#/$defs/Missing"}, {"$ref": "#"}, {"$ref": 5}, {"if": {}, "properties": {"b": {}}},
        {"$dynamicRef": "#x"}, {"type": ["object", "string"], "properties": {"b": {}}}, {"properties": 5}, {"type": 5},
        {"type": "object", "properties": {"b": {}}, "additionalProperties": {"type": "integer"}},
    ],
    ids=str,
)  # fmt: skip
def test_a_schema_that_leaves_it_open_says_nothing(schema: Any) -> None:
    assert impossible(schema, ("a", 0, "b"), "s") is None


def test_a_schema_that_refers_to_itself_is_no_harm() -> None:
    circle = {"$ref": "#/$defs/A", "$defs": {"A": {"$ref": "#/$defs/B"}, "B": {"$ref": "#/$defs/A"}}}
    assert impossible(circle, ("a",), "s") is None


def test_what_is_told_is_short_whatever_the_names() -> None:
    schema = {"type": "object", "properties": {"k" * 10_000 + str(number): {} for number in range(50)}}
    found = impossible(schema, ("x" * 10_000,), "s")
    assert found is not None
    assert sum(map(len, found)) < 1000


SCHEMAS = st.recursive(
    st.sampled_from([{}, {"type": "integer"}, {"type": "string"}, {"type": ["integer", "null"]}, {"type": "null"}]),
    lambda below: (
        st.builds(lambda items: {"type": "array", "items": items}, below)
        | st.builds(
            lambda members, required, more: {
                "type": "object", "properties": members, "required": sorted(members) if required else [],
                **({} if more is None else {"additionalProperties": more}),
            },
            st.dictionaries(st.sampled_from(["a", "b", "0"]), below, max_size=2), st.booleans(),
            st.sampled_from([None, False, True]),
        )
        | st.builds(lambda one, other: {"anyOf": [one, other]}, below, below)
    ),
    max_leaves=5,
)  # fmt: skip
RESULTS = st.recursive(
    st.none() | st.integers(0, 3) | st.just("text"),
    lambda below: st.lists(below, max_size=2) | st.dictionaries(st.sampled_from(["a", "b", "0"]), below, max_size=2),
    max_leaves=6,
)
PATHS = st.lists(st.sampled_from(["a", "b", "0", 0, -1]), min_size=1, max_size=3).map(tuple)


def closed(schema: Any) -> Any:
    """The schema as callgate reads it: what `properties` does not list is not there, unless it says so."""
    if isinstance(schema, dict):
        made = {key: closed(value) for key, value in schema.items()}
        return (
            made | {"additionalProperties": made.get("additionalProperties", False)} if "properties" in made else made
        )
    return [closed(each) for each in schema] if isinstance(schema, list) else schema


@settings(suppress_health_check=[HealthCheck.filter_too_much])
@given(SCHEMAS, RESULTS, PATHS)
def test_no_result_that_fits_the_schema_has_a_path_that_is_called_impossible(
    schema: Any, result: Any, way: Any
) -> None:
    assume(jsonschema_rs.is_valid(closed(schema), result))
    try:
        look_up(result, way)
    except LeadsNowhere:
        return
    assert impossible(schema, way, "s") is None, path_text(way)


def test_only_plain_steps_are_looked_at() -> None:
    door = plans(stub("w", output_schema=WEATHER), stub("take"))
    bad = {"x": "$ref:s.zzz"}
    assert len(read({"steps": [step("s", "w"), step("t", arguments=bad)]}, door=door).faults) == 1
    for fields in ({"for_each": [1]}, {"fallback": "take"}):
        assert read({"steps": [step("s", "w", **fields), step("t", arguments=bad)]}, door=door).faults == []
