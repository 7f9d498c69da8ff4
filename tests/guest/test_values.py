"""What a program is worth: the value of the last expression or of a top-level return, as JSON or as text."""

from __future__ import annotations

from typing import Any

import pytest

from guest.conftest import Run
from guest.driver import GuestProcess

VALUES: dict[str, tuple[str, Any]] = {
    "an expression": ("1 + 1", 2),
    "an expression after statements": ("x = 3\nx * 2", 6),
    "nothing": ("", None),
    "only a comment": ("# nothing", None),
    "an assignment": ("x = 3", None),
    "an expression in a block is none": ("if True:\n    5", None),
    "a docstring": ("'text'", "text"),
    "a semicolon": ("x = 1; x", 1),
    "none": ("None", None),
    "a huge integer": ("2 ** 70", 2**70),
    "a negative huge integer": ("-(10 ** 300)", -(10**300)),
    "a float": ("0.1 + 0.2", 0.1 + 0.2),
    "a tuple": ("(1, [2, (3,)])", [1, [2, [3]]]),
    "keys that are numbers": ("{1: 2, None: 3, True: 4}", {"1": 4, "null": 3}),
    "unicode": ("'héllo 😀 \\u2028'", "héllo 😀 \u2028"),
    "half of a surrogate pair": ("'\\ud800'", "\ud800"),
    "a null character": ("'\\0'", "\0"),
    "a deep value": ("x = 1\nfor _ in range(300):\n    x = [x]\nx", None),
    "awaited": ("import asyncio\nasync def f():\n    return 7\nawait f()", 7),
    "awaited in an expression": ("import asyncio\n(await asyncio.sleep(0, 4)) + 1", 5),
    "asyncio.run": ("import asyncio\nasync def main():\n    return 8\nasyncio.run(main())", 8),
    "async comprehension": ("async def g():\n    yield 1\n    yield 2\n[x async for x in g()]", [1, 2]),
    "a BOM": ("\ufeff1", 1),
    "CRLF": ("x = 1\r\nif x:\r\n    y = 2\r\ny\r\n", 2),
    "CR": ("x = 1\rx + 1", 2),
    "form feed": ("x = 1\n\f\nx", 1),
    "a line continuation": ("1 + \\\n2", 3),
    "main": ("'no'\nif __name__ == '__main__':\n    x = 'yes'\nx", "yes"),
    "inputs are variables": ("[a, b['k']]", [1, [2]]),
    "a date": ("import datetime\ndatetime.date(2024, 2, 3)", "2024-02-03"),
    "a decimal": ("import decimal\ndecimal.Decimal('1.10')", "1.10"),
    "a walrus": ("(y := 5) + y", 10),
    "match": ("match [1, 2]:\n    case [a, b]:\n        r = b\nr", 2),
    "sys.exit() is a plain end": ("import sys\nx = 3\nsys.exit()\nx", None),
    "sys.exit(0) too": ("raise SystemExit(0)", None),
}


@pytest.mark.parametrize("name", VALUES)
def test_the_value_of(name: str, run: Run) -> None:
    code, expected = VALUES[name]
    if name == "a deep value":
        expected = 1
        for _ in range(300):
            expected = [expected]
    ran = run(code, {"a": 1, "b": {"k": [2]}})
    assert ran.error is None
    assert ran.value == expected
    assert ran.value_repr is None


TEXTS = {
    "bytes": ("b'a'", "b'a'"),
    "a cycle": ("x = []\nx.append(x)\nx", "[[...]]"),
    "a class": ("class A: pass\nA", "<class '__main__.A'>"),
    "a tuple as a key": ("{(1, 2): 3}", "{(1, 2): 3}"),
    "a range": ("range(3)", "range(0, 3)"),
    "an evil repr": (
        "class A:\n    def __repr__(self):\n        raise SystemExit(3)\nA()",
        "<A whose repr() raised SystemExit>",
    ),
    "a repr that is no text": (
        "class A:\n    def __repr__(self):\n        return 3\nA()",
        "<A whose repr() raised TypeError>",
    ),
    "half a pair in no JSON": ("(b'', '\\ud800')", "(b'', '\\ud800')"),
}


@pytest.mark.parametrize("name", TEXTS)
def test_a_value_that_is_no_json_arrives_as_text(name: str, run: Run) -> None:
    code, expected = TEXTS[name]
    ran = run(code)
    assert ran.error is None
    assert (ran.value, ran.value_repr) == (None, expected)


REFUSED = {
    "a set": ("{1}", "TypeError", "a value of type set has no JSON form; write sorted(...), since a set has no order"),
    "a set within": ("{'a': [frozenset()]}", "TypeError", "a value of type frozenset has no JSON form; write sorted("),
    "not a number": ("float('nan')", "ValueError", "nan is not JSON; use None or text"),
    "infinity": ("[-1e999]", "ValueError", "-inf is not JSON; use None or text"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_value_that_has_no_certain_form_is_refused(name: str, run: Run) -> None:
    code, kind, message = REFUSED[name]
    ran = run(code)
    assert ran.kind == kind
    assert ran.message.startswith(f"the program's value: {message}")


def test_a_generator_or_a_deep_list_arrives_as_text(run: Run) -> None:
    assert str(run("(x for x in 'a')").value_repr).startswith("<generator object <genexpr> at 0x")
    deep = run("x = []\nfor _ in range(100_000):\n    x = [x]\nx")
    assert deep.value_repr == "<list whose repr() raised RecursionError>"


def test_a_long_text_is_cut_in_the_middle(run: Run) -> None:
    text = str(run("b'a' * 200_000").value_repr)
    assert len(text) < 70_000
    assert "characters cut" in text


def test_an_exit_with_a_code_is_a_failure(run: Run) -> None:
    ran = run("import sys\nsys.exit(3)")
    assert (ran.kind, ran.message) == ("SystemExit", "3")
    ran = run("raise SystemExit('went wrong')")
    assert (ran.kind, ran.message) == ("SystemExit", "went wrong")


RETURNS: dict[str, tuple[str, Any]] = {
    "at the end": ("x = 1\nreturn x + 1", 2),
    "in the middle": ("return 1\nprint('never')", 1),
    "nothing": ("return", None),
    "in an if": ("if 1 > 0:\n    return 'yes'\nreturn 'no'", "yes"),
    "in a for": ("for i in range(9):\n    if i == 3:\n        return i", 3),
    "in a try": ("try:\n    return 1\nfinally:\n    print('finally')", 1),
    "in an except": ("try:\n    1 / 0\nexcept ZeroDivisionError as e:\n"
                     "    return type(e).__name__", "ZeroDivisionError"),
    "the finally wins": ("try:\n    return 1\nfinally:\n    return 2", 2),
    "a swallowed one is none": (
        "try:\n    try:\n        return 1\n    finally:\n        raise ValueError\nexcept ValueError:\n    pass",
        None,
    ),
    "in a with": ("import contextlib\nwith contextlib.suppress(ValueError):\n    return 4", 4),
    "in a while": ("while True:\n    return 5", 5),
    "in a match": ("match 3:\n    case x:\n        return x", 3),
    "not taken: the last expression": ("if False:\n    return 1\n6", 6),
    "awaiting": ("import asyncio\nawait asyncio.sleep(0)\nreturn 7", 7),
    "an awaited call": ("return (await get_weather('Oslo')).temp", 4),
    "awaited in a default": (
        "async def one():\n    return 1\ndef f(x=await one()):\n    return x\nreturn f()",
        1,
    ),
    "async with and for": (
        "async def g():\n    yield 8\nasync for x in g():\n    return x",
        8,
    ),
    "annotated names": ("x: int = 3\ny: str\nreturn x", 3),
    "an annotated attribute": ("class A: pass\na = A()\na.b: int = 3\nreturn a.b", 3),
    "functions see globals": ("x = 1\ndef f():\n    return x\nx = 2\nreturn f()", 2),
    "functions set globals": ("x = 1\ndef f():\n    global x\n    x = 5\nf()\nreturn x", 5),
    "a global statement": ("global x\nx = 1\nreturn x", 1),
    "del": ("x = 1\ndel x\nreturn 'x' in globals()", False),
    "imports": ("import os.path as p, json\nfrom math import pi as circle\nreturn [p.sep, json.loads('1'), circle > 3]",
                ["/", 1, True]),
    "a star-import": ("from math import *\nreturn floor(2.5)", 2),
    "from __future__": ("from __future__ import annotations\ndef f(x: Undefined): pass\nreturn 1", 1),
    "classes": ("class A:\n    x = 1\n    def f(self):\n        return __class__.x\nreturn A().f()", 1),
    "comprehensions": ("n = 3\nreturn [i * n for i in range(n) if any(j == i for j in range(n))]", [0, 3, 6]),
    "a walrus in a comprehension": ("[last := i for i in range(4)]\nreturn last", 3),
    "except names": ("try:\n    1/0\nexcept Exception as problem:\n    pass\nreturn 'problem' in globals()", False),
    "a lambda": ("f = lambda: 9\nreturn f()", 9),
    "the main module": ("import sys\nx = 1\nreturn sys.modules['__main__'].x", 1),
    "globals() are its names": ("x = 1\nglobals()['x'] += 1\nreturn x", 2),
    "a value that is no JSON": ("return 'not', 'json'[1:]", ["not", "son"]),
}  # fmt: skip


@pytest.mark.parametrize("name", RETURNS)
def test_a_top_level_return(name: str, run: Run) -> None:
    code, expected = RETURNS[name]
    ran = run(code)
    assert ran.error is None, ran.error
    assert ran.value == expected
    assert "never" not in ran.logs


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("yield 1\nreturn 2", "'yield' outside function"),
        ("yield 1", "'yield' outside function"),
        ("class A:\n    return 1", "'return' outside function"),
        ("def f():\n    await x\nreturn f()", "'await' outside async function"),
        ("return 1\nbreak", "'break' outside loop"),
        ("nonlocal x", "nonlocal declaration not allowed at module level"),
    ],
)
def test_what_is_illegal_stays_illegal(code: str, message: str, run: Run) -> None:
    ran = run(code)
    assert (ran.kind, ran.message) == ("SyntaxError", message)


def test_a_value_does_not_outlive_its_program(guest: GuestProcess) -> None:
    assert guest.run("5\n").value == 5
    assert guest.run("try:\n    return 5\nfinally:\n    1 / 0").kind == "ZeroDivisionError"
    assert guest.run("x = 1").value is None
