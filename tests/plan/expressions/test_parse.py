"""Every text is an expression or an `ExpressionFault`: nothing else is raised, nothing is warned of."""

from __future__ import annotations

import ast
import random
import warnings

import pytest

from callgate.plan.expressions import Expression, ExpressionFault, from_node, parse_expression


def outcome(source: str) -> Expression | str:
    """What a text is: an expression, or the hint of its fault."""
    try:
        return parse_expression(source)
    except ExpressionFault as fault:
        return fault.hint if fault.column is None or fault.column >= 1 else ""


@pytest.mark.parametrize(
    ("source", "message", "hint", "column"),
    [
        ("", "the expression is empty", "write one Python expression", 1),
        (" \n ", "the expression is empty", "write one Python expression", 1),
        ("a +", "the expression is not Python: invalid syntax", "write one Python expression", 4),
        ("  a b", "the expression is not Python: invalid syntax", "write one Python expression", 5),
        ("x = 1", "the expression is not Python: ", "no statement, no assignment", 1),
        ("import os", "the expression is not Python: invalid syntax", "no statement", 1),
        ("a; b", "the expression is not Python: invalid syntax", "write one Python expression", 2),
        ("(a", "the expression is not Python: '(' was never closed", "close the bracket", 1),
        ("a)", "the expression is not Python: unmatched ')'", "remove the bracket", 2),
        ("'a", "the expression is not Python: unterminated string literal", "close the string", 1),
        ("a\n+ b", "the expression is not Python: ", "write one Python expression", 2),
        ("a\0", "the expression contains a NUL character", "write it as \\0", 2),
        (" 'é' + '\ud800'", "character U+D800 is half of a surrogate pair", "write it as an escape", 9),
        ("9" * 5000, "the expression is not Python: a number has too many digits", "write the number as text", 5001),
        ("'é' + print(1)", "there is no function `print`", "there are: ", 7),
        ("('é' +\n  print(1))", "there is no function `print`", "there are: ", 10),
        ("\n  print(1)", "there is no function `print`", "there are: ", 4),
    ],
)
def test_a_fault_says_what_where_and_what_instead(source: str, message: str, hint: str, column: int) -> None:
    with pytest.raises(ExpressionFault) as refusal:
        parse_expression(source)
    assert refusal.value.message.startswith(message)
    assert hint in refusal.value.hint
    if "assignment" not in hint and "\n+" not in source:  # the version of Python decides which part it points at
        assert refusal.value.column == column
    assert "File" not in str(refusal.value)
    assert "<" not in refusal.value.message


def test_the_size_limit_counts_bytes_and_is_exact() -> None:
    assert parse_expression("'éé'", max_bytes=6).evaluate({}) == "éé"
    with pytest.raises(ExpressionFault) as refusal:
        parse_expression("'éé'", max_bytes=5)
    assert refusal.value.message == "the expression has 6 bytes; at most 5 are allowed"
    with pytest.raises(ExpressionFault, match="at most 8,192 are allowed"):
        parse_expression("1" + " " * 8192)


@pytest.mark.parametrize(
    "source",
    [
        "(" * 4000 + ")" * 4000,
        "[" * 150 + "]" * 150,
        "[" * 8000,
        "-" * 8000 + "1",
        "not " * 2000 + "1",
        "~" * 150 + "1",
        "+".join("1" * 4000),
        "a" + ".b" * 4000,
        "a" + "[0]" * 2700,
        "a" + "()" * 4000,
        "**".join("1" * 2700),
        "1 if 1 else " * 600 + "1",
        "lambda: " * 1000 + "1",
        "[x for x in " * 600 + "y" + "]" * 600,
        "[x" + " for x in x" * 700 + "]",
        "f'{" * 2000 + "1" + "}'" * 2000,
        "f'" + "{a:" * 2000 + "}" * 2000 + "'",
        "{" * 2000 + "1" + "}" * 2000,
        "{1:" * 2000 + "1" + "}" * 2000,
        "len(" * 2000 + "1" + ")" * 2000,
        "*" * 8000 + "a",
        "a" + " < a" * 2000,
        "yield " * 1000,
        "await " * 1000 + "x",
    ],
)
def test_deep_and_long_sources_end_in_a_value_or_a_fault(source: str) -> None:
    assert outcome(source)


def test_the_nesting_limit_names_itself_and_the_way_out() -> None:
    parse_expression("+".join("a" * 90))
    with pytest.raises(ExpressionFault) as refusal:
        parse_expression("+".join("a" * 120))
    assert refusal.value.message == "the expression nests deeper than 100 levels"
    assert refusal.value.hint.startswith("split it: give a part a step of its own, or use sum([...])")


def test_a_deep_tree_is_refused_however_it_came_about() -> None:
    tree: ast.expr = ast.Name("a", ast.Load())
    for _ in range(100_000):
        tree = ast.UnaryOp(ast.Not(), tree)
    with pytest.raises(ExpressionFault, match="nests deeper than 100 levels"):
        from_node(tree)


@pytest.mark.parametrize(
    ("source", "value"),
    [
        (r"'\d'", "\\d"),
        (r"f'\d{1}'", "\\d1"),
        (r"'\777'", "ǿ"),
        ("1if 1else 2", 1),
        ("0x1for x", 31),
        ("1 is None", False),
        ("[1,2][0]", 1),
    ],
)
def test_the_parsers_warnings_are_nobodys_business(source: str, value: object) -> None:
    before = warnings.filters[:]
    assert parse_expression(source).evaluate({}) == value
    assert warnings.filters == before


def test_random_texts_never_raise_anything_else() -> None:
    pieces = r"a b 1 'x' f' ' { } [ ] ( ) . , : + - * ** not in is if else for lambda == := @ ! \ await"
    choices = [*pieces.split(), "\n", "\0", "é", "\ud800"]
    source = random.Random(7)
    for _ in range(3000):
        assert outcome(" ".join(source.choices(choices, k=source.randrange(1, 12))))
