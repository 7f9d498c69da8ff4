"""What an expression gives becomes JSON, or is refused with a word on what to write."""

from __future__ import annotations

from typing import Any

import pytest

from callgate.plan.expressions import (
    Budget,
    BudgetExceeded,
    ExpressionError,
    ExpressionFault,
    Record,
    parse_expression,
    to_json,
)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("(1, (2, 'a'))", [1, [2, "a"]]),
        ("range(3)", [0, 1, 2]),
        ("{'a': 1}.keys()", ["a"]),
        ("{'a': (1,)}.values()", [[1]]),
        ("{'a': 1}.items()", [["a", 1]]),
        ("[None, True, 1.5, 2 ** 70]", [None, True, 1.5, 2**70]),
        ("{'a': {'b': ()}}", {"a": {"b": []}}),
    ],
)
def test_what_json_can_say_becomes_json(source: str, expected: Any) -> None:
    assert to_json(parse_expression(source).evaluate({})) == expected


def test_a_record_becomes_a_plain_dict_and_nothing_is_shared() -> None:
    inner: list[Any] = []
    made = to_json(Record(a=inner))
    assert type(made) is dict
    assert made == {"a": []}
    assert made["a"] is not inner


@pytest.mark.parametrize(
    ("value", "kind", "message"),
    [
        ({1}, "TypeError", "a set is not a JSON value; write sorted(...) or list(...)"),
        ([float("nan")], "ValueError", "nan is not a JSON number; write a condition that avoids it"),
        (float("-inf"), "ValueError", "-inf is not a JSON number; write a condition that avoids it"),
        ({1: 2}, "TypeError", "a key of a JSON object is text, not int; write str(...) for the key"),
        ({None: 2}, "TypeError", "a key of a JSON object is text, not NoneType; write str(...) for the key"),
        ([slice(1)], "TypeError", "a slice is not a JSON value; use its parts"),
    ],
)
def test_what_json_cannot_say_is_an_error(value: Any, kind: str, message: str) -> None:
    with pytest.raises(ExpressionError) as error:
        to_json(value)
    assert (error.value.kind, error.value.message) == (kind, message)


def test_what_no_expression_has_is_refused() -> None:
    with pytest.raises(ExpressionFault, match="a value of type object"):
        to_json([object()])
    with pytest.raises(ExpressionFault, match="a zip object is not a JSON value; write list"):
        to_json([zip([], strict=False)])


def test_a_small_value_that_is_a_huge_tree_exceeds_the_budget() -> None:
    value: list[Any] = [0] * 100
    for _ in range(6):
        value = [value] * 100
    with pytest.raises(BudgetExceeded, match=r"budget exceeded: (bytes|steps)"):
        to_json(value)
    with pytest.raises(BudgetExceeded, match="budget exceeded: steps is 50"):
        to_json([0] * 100, Budget(steps=50))
    with pytest.raises(BudgetExceeded):
        to_json(range(10**12))


def test_a_value_deeper_than_the_limit_is_refused() -> None:
    value: list[Any] = []
    for _ in range(199):
        value = [value]
    assert to_json(value)
    for _ in range(100_000):
        value = [value]
    with pytest.raises(BudgetExceeded, match="budget exceeded: depth is 200"):
        to_json(value)
