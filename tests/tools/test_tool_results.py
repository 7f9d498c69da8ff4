"""What tools return: written as its type says, or the tool is at fault."""

from __future__ import annotations

import datetime
from typing import Any, Literal

import pytest

from callgate.errors import InvalidArguments, ToolError
from callgate.tools import Tool
from tools.places import Place, Point, Unit, Wind


@pytest.mark.parametrize(
    ("annotation", "result", "text"),
    [
        (int, 5, "5"),
        (float, 5, "5.0"),
        (str, "é", '"é"'),
        (None, None, "null"),
        (list[int], (1, 2), "[1,2]"),
        (list[Place], [{"city": "Oslo", "tags": ["a"]}], '[{"city":"Oslo","height":0,"tags":["a"]}]'),
        (Place, Place(city="Oslo"), '{"city":"Oslo","height":0,"tags":[]}'),
        (Wind, Wind(1.5, datetime.date(2024, 1, 1)), '{"speed":1.5,"since":"2024-01-01"}'),
        (Unit, Unit.CELSIUS, '"C"'),
        (Unit, "C", '"C"'),
        (Point, {"x": 1, "y": 2}, '{"x":1,"y":2}'),
        (dict[int, str], {1: "a"}, '{"1":"a"}'),
        (Literal["a"], "a", '"a"'),
        (int | None, None, "null"),
        (Any, {"when": datetime.date(2024, 1, 1)}, '{"when":"2024-01-01"}'),
    ],
)
def test_a_result_is_written_as_its_type_says(annotation: Any, result: Any, text: str) -> None:
    assert returning(annotation).encode(result) == text


@pytest.mark.parametrize(
    ("annotation", "result", "problem"),
    [
        (int, "5", 'result must be a valid integer, got "5" (a string)'),
        (int, True, "result must be a valid integer, got true (a boolean)"),
        (str, None, "result must be a valid string, got null"),
        (float, float("nan"), "result is nan, which is not JSON; use null or a string"),
        (list[float], [1.0, float("inf")], "result[1] is inf, which is not JSON; use null or a string"),
        (
            Wind,
            Wind(float("nan"), datetime.date(2024, 1, 1)),
            "result.speed is nan, which is not JSON; use null or a string",
        ),
        (list[Point], [{"x": 1, "y": "2"}], 'result[0].y must be a valid integer, got "2" (a string)'),
        (Any, object(), "result is a object, which is not JSON"),
        (Any, {"a": {1: object()}}, "result.a[1] is a object, which is not JSON"),
        (str, "\ud800", "result holds half of a surrogate pair, which is not Unicode text"),
    ],
)
def test_a_tool_that_breaks_its_contract_is_at_fault(annotation: Any, result: Any, problem: str) -> None:
    with pytest.raises(ToolError) as caught:
        returning(annotation).encode(result)
    assert caught.value.message == f"tool 'f' returned what it must not: {problem}"
    assert not isinstance(caught.value, InvalidArguments)


def test_a_cycle_is_not_json() -> None:
    ring: list[Any] = []
    ring.append(ring)
    with pytest.raises(ToolError, match=r"result\[0\] contains itself"):
        returning(Any).encode(ring)
    with pytest.raises(ToolError, match=r"result\[0\] contains itself"):
        returning(list[Any]).encode(ring)


def test_a_model_whose_content_is_not_what_it_says_is_refused() -> None:
    with pytest.raises(ToolError, match="returned what it must not"):
        returning(Place).encode(Place.model_construct(city=5))


def test_without_an_annotation_whatever_has_a_json_form_is_written() -> None:
    def f():  # type: ignore[no-untyped-def]
        ...

    untyped = Tool.from_function(f)
    assert untyped.output_schema is None
    assert untyped.encode([Place(city="Oslo"), Unit.CELSIUS]) == '[{"city":"Oslo","height":0,"tags":[]},"C"]'


def returning(annotation: Any) -> Tool:
    def f() -> None: ...

    f.__annotations__ = {"return": annotation}
    return Tool.from_function(f)
