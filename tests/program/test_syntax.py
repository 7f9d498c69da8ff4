"""What the parser and the compiler refuse, with the line in the program's own source."""

from __future__ import annotations

import ast
import random
from keyword import iskeyword
from string import ascii_letters

import pytest

from callgate.program import Finding, check_program, parse_program
from callgate.program.syntax import compile_fault
from program.programs import PROGRAMS, TOOLS


@pytest.mark.parametrize(
    ("source", "line", "message"),
    [
        ("x = (1", 1, "'(' was never closed"),
        ("if True:\nx = 1", 2, "expected an indented block after 'if' statement on line 1"),
        ("x = 1\n  y = 2", 2, "unexpected indent"),
        ("\n\nbreak", 3, "'break' outside loop"),
        ("if 1:\n    continue", 2, "'continue' not properly in loop"),
        ("def f(a, a): pass", 1, "duplicate argument 'a' in function definition"),
        ("nonlocal x", 1, "nonlocal declaration not allowed at module level"),
        ("def f():\n    nonlocal y", 2, "no binding for nonlocal 'y' found"),
        ("yield 1", 1, "'yield' outside function"),
        ("def f():\n    async with x: pass\nx = 1", 2, "'async with' outside async function"),
        ("async def f():\n    yield 1\n    return 2", 3, "'return' with value in async generator"),
        ("return 1\nbreak", 2, "'break' outside loop"),
        ("for x in []:\n    return x\nyield 1", 3, "'yield' outside function"),
        ("class A:\n    return 1", 2, "'return' outside function"),
        ("x = 1\ndef f():\n    print(x)\n    global x", 4, "name 'x' is used prior to global declaration"),
        ("*a = 1", 1, "starred assignment target must be in a list or tuple"),
        ("x = *y\ny = 1", 1, "can't use starred expression here"),
        ("[(i := 0) for i in []]", 1, "assignment expression cannot rebind comprehension iteration variable 'i'"),
        ("match 1:\n    case x: pass\n    case 2: pass", 2, "name capture 'x' makes remaining patterns unreachable"),
        ("from __future__ import nothing_such", 1, "future feature nothing_such is not defined"),
        ("f = lambda: await_\nawait_ = 1\ng = lambda: (await f())", 3, "'await' outside async function"),
    ],
)
def test_the_fault_is_reported_on_its_line(source: str, line: int, message: str) -> None:
    (finding,) = check_program(source, ())
    assert (finding.code, finding.line, finding.message) == ("syntax", line, message)
    assert finding.hint


def test_a_hint_without_a_rule_of_its_own_shows_the_line() -> None:
    (finding,) = check_program("x = 1\nx == = 2", ())
    assert finding == Finding("syntax", 2, 6, "invalid syntax", "correct this line: `x == = 2`")


def test_a_nul_and_half_a_surrogate_are_named() -> None:
    (nul,) = check_program("x = 1\n\0", ())
    assert nul.message in ("the source contains a NUL character", "source code string cannot contain null bytes")
    assert nul.hint.startswith("remove")
    (half,) = check_program("x = 1\ny = '\ud800'", ())
    assert (half.line, half.message) == (
        2,
        "character U+D800 is half of a surrogate pair and cannot stand in source code",
    )


def test_top_level_await_and_return_are_legal() -> None:
    assert check_program("async def f(): pass\nif await f():\n    return 1\nreturn", ()) == []


def test_the_size_limit_counts_bytes_and_is_exact() -> None:
    assert not isinstance(parse_program("é" * 5, max_source_bytes=10), Finding)
    assert isinstance(parse_program("é" * 5 + "x", max_source_bytes=10), Finding)


def test_a_tree_that_parses_comes_back_as_it_is() -> None:
    tree = parse_program("await f()\nreturn 1")
    assert isinstance(tree, ast.Module)
    assert [type(statement) for statement in tree.body] == [ast.Expr, ast.Return]


def test_a_dotted_name_of_hundreds_of_parts_is_refused_before_it_is_parsed() -> None:
    (finding,) = check_program("x = 1\nimport a" + ".b" * 300, ())
    assert (finding.code, finding.line) == ("too-complex", 2)


def test_text_with_many_dots_is_no_dotted_name() -> None:
    assert check_program(f"x = '{'A short sentence. ' * 1000}'", ()) == []


def test_many_small_f_strings_are_no_large_one() -> None:
    assert check_program("x = 1\n" + "f'{x} and {x}'\n" * 2000, ()) == []


SPLICES = [
    "break", "continue", "return 1", "yield 1", "await x", "nonlocal x", "global x", "async with x: pass", "*x",
    "async for x in y: pass", "lambda a, a: 1", "lambda: (yield)", "lambda: await x", "x = *y", "def f(a, a): pass",
    "del x", "class A: return 1", "try: pass\nexcept: pass\nexcept X: pass", "[x async for x in y]",
    "[await x for x in y]", "def f(): return [x async for x in y]", "async def f():\n yield 1\n return 1",
    "from __future__ import q", "[(x := 1) for x in y]", "match 1:\n case x: pass\n case y: pass", "from x import *",
]  # fmt: skip


def test_what_the_compiler_refuses_is_found_although_it_is_not_always_asked() -> None:
    draw = random.Random(11)
    refused = 0
    for _ in range(3000):
        lines = draw.choice(PROGRAMS).split("\n")
        place = draw.randrange(len(lines))
        indent = lines[place][: len(lines[place]) - len(lines[place].lstrip())]
        lines[place:place] = [indent + line for line in draw.choice(SPLICES).split("\n")]
        source = "\n".join(lines)
        tree = parse_program(source)
        if isinstance(tree, Finding):
            continue
        fault = compile_fault(tree, source, returns_at_top_level=True)
        found = [finding for finding in check_program(source, TOOLS) if finding.code in ("syntax", "await-in-def")]
        assert bool(found) == (fault is not None), source
        refused += fault is not None
    assert refused > 300


def finally_within_each_other(depth: int, last: str = "pass") -> str:
    """A function; the last statement is compiled two to the power of `depth` times."""
    lines = [f"{' ' * level}try: pass\n{' ' * level}finally:\n" for level in range(1, depth + 1)]
    return f"def f():\n{''.join(lines)}{' ' * (depth + 1)}{last}\n"


def test_what_is_long_or_costs_the_compiler_much_is_left_to_the_sandbox() -> None:
    names = [f"{first}{second}" for first in ascii_letters for second in "abcdefghijklmn"]
    for rest in (
        "x = 1\n" * 1500,
        finally_within_each_other(10),
        finally_within_each_other(5, "lambda: 0; " * 500),
        f"match 1:\n case [{','.join(each for each in names if not iskeyword(each))}]: pass\n",
    ):
        assert check_program("break\n", TOOLS) != []
        assert not [each for each in check_program(f"{rest}break\n", TOOLS) if each.severity == "error"]
