"""What an expression tells of itself, what it leaves alone, what it raises, and what of its value is JSON."""

from __future__ import annotations

import ast
from collections import UserDict
from typing import Any

import pytest

from callgate.plan.expressions import (
    Budget,
    BudgetExceeded,
    Expression,
    ExpressionError,
    ExpressionFault,
    Record,
    from_node,
    parse_expression,
    to_json,
)
from callgate.plan.expressions.expression import guarded


def evaluate(source: str, **values: Any) -> Any:
    return parse_expression(source).evaluate(values)


@pytest.mark.parametrize(
    ("source", "names", "functions"),
    [
        ("temp['oslo'].c * 9 / 5 + 32", {"temp"}, set()),
        ("[x + y for x in xs]", {"xs", "y"}, set()),
        ("[x for x in x]", {"x"}, set()),
        ("[x for x in xs if x > limit for y in x.ys]", {"xs", "limit"}, set()),
        ("sorted(rows, key=lambda row: row[column])", {"rows", "column"}, {"sorted"}),
        ("json.dumps(json)", {"json"}, {"json"}),
        ("json.field", {"json"}, set()),
        ("len", {"len"}, set()),
        ("max(max)", {"max"}, {"max"}),
        ("list(map(str.upper, map(len, xs)))", {"xs"}, {"list", "map", "str", "len"}),
        ("f'{a:{b}}'", {"a", "b"}, set()),
        ("1", set(), set()),
    ],
)
def test_its_names_are_the_free_ones(source: str, names: set[str], functions: set[str]) -> None:
    expression = parse_expression(source)
    assert expression.names == frozenset(names)
    assert expression.functions == frozenset(functions)
    assert expression.source == source


def test_it_cannot_be_changed() -> None:
    expression = parse_expression("a")
    with pytest.raises(AttributeError):
        expression.source = "b"  # type: ignore[misc]


def test_it_is_evaluated_as_often_as_wanted() -> None:
    expression = parse_expression("[x * n for x in xs]")
    assert expression.evaluate({"xs": [1], "n": 2}) == [2]
    assert expression.evaluate({"xs": [1, 2], "n": 3}) == [3, 6]


def test_a_tree_is_compiled_like_a_text() -> None:
    node = ast.parse("print(temp.c + 1)").body[0]
    assert isinstance(node, ast.Expr)
    assert isinstance(node.value, ast.Call)
    expression = from_node(node.value.args[0])
    assert isinstance(expression, Expression)
    assert expression.names == frozenset({"temp"})
    assert expression.evaluate({"temp": {"c": 1}}) == 2
    with pytest.raises(ExpressionFault) as refusal:
        from_node(node.value)
    assert refusal.value.column is None


def test_names_are_looked_up_in_any_mapping_and_only_those_needed() -> None:
    class Asked(UserDict[str, Any]):
        def __getitem__(self, name: str) -> Any:
            asked.append(name)
            return super().__getitem__(name)

    asked: list[str] = []
    assert parse_expression("a or b").evaluate(Asked(a=1, b=2)) == 1
    assert asked == ["a"]


def test_every_dict_answers_to_attribute_access() -> None:
    assert evaluate("w.temp", w={"temp": 1}) == 1
    assert evaluate("w.items", w={"items": [1]}) == [1]
    assert evaluate("w.items()", w={"items": [1]}).__class__.__name__ == "dict_items"
    assert evaluate("{'a': 1}.a") == 1
    assert evaluate("w.temp", w=Record(temp=1)) == 1
    with pytest.raises(ExpressionError) as error:
        evaluate("w.tmep", w={"city": 1, "temp": 2})
    assert (error.value.kind, error.value.message) == (
        "AttributeError",
        "the result has no field 'tmep'; its fields are: 'city', 'temp'",
    )
    with pytest.raises(ExpressionError, match="its fields are: none"):
        evaluate("{}.x")


def test_with_records_only_a_plain_dict_has_no_fields() -> None:
    expression = parse_expression("w.temp", records_only=True)
    assert expression.evaluate({"w": Record(temp=1)}) == 1
    with pytest.raises(ExpressionError) as error:
        expression.evaluate({"w": {"temp": 1}})
    assert (error.value.kind, error.value.message) == ("AttributeError", "'dict' object has no attribute 'temp'")


@pytest.mark.parametrize(
    ("source", "kind", "message"),
    [
        ("d['x']", "KeyError", "'x'"),
        ("[1][5]", "IndexError", "list index out of range"),
        ("1 / 0", "ZeroDivisionError", "division by zero"),
        ("nothing", "NameError", "name 'nothing' is not defined"),
        ("1 + 'a'", "TypeError", "unsupported operand type(s) for +: 'int' and 'str'"),
        ("json.loads('{')", "JSONDecodeError", None),
        ("1e308 ** 2", "OverflowError", None),
    ],
)
def test_an_error_carries_pythons_kind_and_message(source: str, kind: str, message: str | None) -> None:
    with pytest.raises(ExpressionError) as error:
        evaluate(source, d={})
    assert error.value.kind == kind
    if message is not None:
        assert error.value.message == message
    assert str(error.value) == f"{kind}: {error.value.message}"
    assert error.value.__cause__ is None


def test_what_python_adds_to_an_error_is_carried_along() -> None:
    def fails() -> Any:
        error = TypeError("object is not iterable")  # as `dict([1])` says it from 3.14 on
        error.add_note("Cannot convert element #0 to a sequence")
        raise error

    with pytest.raises(ExpressionError) as caught:
        guarded(Budget(), fails)
    assert (caught.value.kind, caught.value.message) == ("TypeError", "object is not iterable")
    assert caught.value.notes == ("Cannot convert element #0 to a sequence",)
    assert str(caught.value) == "TypeError: object is not iterable; Cannot convert element #0 to a sequence"
    with pytest.raises(ExpressionError, match=r"TypeError: .*[sS]equence element #0 to a sequence"):
        parse_expression("dict([1])").evaluate({}, Budget())


def test_the_values_are_never_changed_and_results_may_share_them() -> None:
    rows: list[dict[str, Any]] = [{"a": [3, 1]}, {"a": []}]
    shown = repr(rows)
    for source in (
        "sorted(rows[0].a)", "[*rows, 1]", "rows + [1]", "{**rows[0], 'a': 1}", "rows[0] | {'a': 2}", "rows[::-1]",
        "sum([r.a for r in rows], [])", "dict(rows[0], a=1)", "list(reversed(rows))", "rows[0].copy()", "rows * 2",
    ):  # fmt: skip
        evaluate(source, rows=rows)
        assert repr(rows) == shown
    assert evaluate("rows[0].a", rows=rows) is rows[0]["a"]


def test_a_budget_is_left_with_what_was_not_spent() -> None:
    budget = Budget(steps=1000, bytes=10_000)
    parse_expression("[x for x in range(10)]").evaluate({}, budget)
    assert 0 < budget.steps_left < 1000
    assert 0 < budget.bytes_left < 10_000
    assert "of 1,000 steps" in repr(budget)


def test_a_budget_may_serve_several_evaluations_and_stays_spent() -> None:
    budget = Budget(steps=40)
    expression = parse_expression("[x for x in range(10)]")
    expression.evaluate({}, budget)
    with pytest.raises(BudgetExceeded):
        expression.evaluate({}, budget)
    with pytest.raises(BudgetExceeded) as exceeded:
        parse_expression("1").evaluate({}, budget)
    assert (exceeded.value.budget, exceeded.value.allowed) == ("steps", 40)
    assert str(exceeded.value) == "budget exceeded: steps is 40"


def test_everyday_expressions_over_everyday_amounts_fit_the_default_budget() -> None:
    rows = [{"id": i, "name": f"customer {i}", "tags": ["a", "b"], "total": i * 1.5} for i in range(2000)]
    for source in (
        "sum(r.total for r in rows)",
        "sorted(rows, key=lambda r: (-r.total, r.name))[:10]",
        "sorted(rows, key=lambda r: r.total)",
        "max(rows, key=lambda r: r.total).name",
        "{r.id: r for r in rows}",
        "{(r.id, r.name): r.total for r in rows}",
        "[r.name.upper() for r in rows if 'a' in r.tags and r.total > 100]",
        "', '.join(f'{r.name}: {r.total:.2f}' for r in rows)",
        "json.dumps(rows)",
        "rows == rows",
        "{r.name for r in rows} & {r.name for r in rows[5:]}",
        "len([r for r in rows if r.name in [x.name for x in rows[:5]]])",
    ):
        evaluate(source, rows=rows)


# to JSON


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
