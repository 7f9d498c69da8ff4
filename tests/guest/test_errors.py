"""Programs that fail: kind, message, line, and a traceback of the program's own lines and nothing of ours."""

from __future__ import annotations

import re
import sys

import pytest

from guest.conftest import Run
from guest.driver import GuestProcess, Ran

EVIL = "class Evil(Exception):\n    def __str__(self):\n        raise {}\nraise Evil"


def line_of_a_null_byte() -> int | None:
    """The line that is told for a null byte: none since Python 3.11.4, and the first before that."""
    try:
        compile("1\0", "<program>", "exec")
    except SyntaxError as error:
        return error.lineno
    except ValueError:
        return 1
    raise AssertionError


# code, kind, message, line
FAILURES: dict[str, tuple[str, str, str, int | None]] = {
    "plain": ("x = 1\n1 / 0", "ZeroDivisionError", "division by zero", 2),
    "in a function": ("def f():\n    return 1 / 0\n\nf()", "ZeroDivisionError", "division by zero", 2),
    "in a thread's result": (
        "from concurrent.futures import ThreadPoolExecutor\ndef f():\n    1 / 0\n"
        "with ThreadPoolExecutor() as e:\n    e.submit(f).result()", "ZeroDivisionError", "division by zero", 3),
    "in a task": ("import asyncio\nasync def f():\n    1 / 0\nawait asyncio.gather(f())", "ZeroDivisionError",
                  "division by zero", 3),
    "in asyncio.run": ("import asyncio\nasync def f():\n    1 / 0\nasyncio.run(f())", "ZeroDivisionError",
                       "division by zero", 3),
    "in nested loops": (
        "import asyncio\nasync def f():\n    1 / 0\ndef g():\n    asyncio.run(f())\nasync def h():\n    g()\nawait h()",
        "ZeroDivisionError", "division by zero", 3),
    "a call in a task": ("import asyncio\nasync def f():\n    await fail('no')\n"
                         "await asyncio.gather(f())", "ToolError", "no", 3),
    "a call in a plain function": ("def f():\n    fail('no')\nf()", "ToolError", "no", 2),
    "a call in a thread": (
        "import asyncio\ndef f():\n    fail('no')\nawait asyncio.to_thread(f)", "ToolError", "no", 3),
    "a timeout": ("import asyncio\nawait asyncio.wait_for(hang(), 0.01)", "TimeoutError", "", 2),
    "a name": ("missing", "NameError", "name 'missing' is not defined", 1),
    "an import": ("import nosuchmodule", "ModuleNotFoundError", "No module named 'nosuchmodule'", 1),
    "an assertion": ("assert 1 == 2, 'unequal'", "AssertionError", "unequal", 1),
    "a recursion": ("def f():\n    f()\nf()", "RecursionError", "maximum recursion depth exceeded", 2),
    "memory": ("raise MemoryError", "MemoryError", "", 1),
    "its own": ("class Mine(Exception): pass\nraise Mine('text', 3)", "Mine", "('text', 3)", 2),
    "input": ("input()", "EOFError", "EOF when reading a line", 1),
    "interrupted": ("raise KeyboardInterrupt", "KeyboardInterrupt", "", 1),
    "a base exception": ("class B(BaseException): pass\nraise B(1)", "B", "1", 2),
    "an evil text": (EVIL.format("ValueError"), "Evil", "<exception whose str() raised>", 4),
    "an evil text that exits": (EVIL.format("SystemExit"), "Evil", "<exception whose str() raised>", 4),
    "a text that is no text": (
        "class Evil(Exception):\n    def __str__(self):\n        return 3\nraise Evil", "Evil",
        "<exception whose str() raised>", 4),
    "half a pair": ("raise ValueError('\\ud800')", "ValueError", "\ud800", 1),
    "a group": ("raise ExceptionGroup('both', [ValueError(1), TypeError(2)])", "ExceptionGroup",
                "both (2 sub-exceptions)", 1),
    "a strange name": ("raise type('a b\\n<c>', (Exception,), {})('x')", "abc", "x", 1),
    "syntax": ("x = 1\ny = (\n", "SyntaxError", "'(' was never closed", 2),
    "indentation": ("if True:\nx = 1", "IndentationError", "expected an indented block after 'if' statement "
                                                           "on line 1", 2),
    "after a return": ("return 1\nx = (", "SyntaxError", "'(' was never closed", 2),
    "nested too deeply": ("-" * 20_000 + "1", "SyntaxError", "the program is nested too deeply", 1),
    "nested in brackets": ("(" * 5_000 + ")" * 5_000, "SyntaxError", "too many nested parentheses", 1),
    "a null byte": ("1\0", "SyntaxError", "source code string cannot contain null bytes", line_of_a_null_byte()),
    "half a pair in the source": (
        "'\ud800'", "SyntaxError", "'utf-8' codec can't encode character '\\ud800' in position 1: surrogates "
                                   "not allowed", 1),
}  # fmt: skip


def assert_only_its_own_lines(ran: Ran) -> None:
    places = re.findall(r'File "([^"]*)"', ran.traceback)
    assert all(re.fullmatch(r"<program(-\d+)?>", place) for place in places), ran.traceback
    assert "callgate" not in ran.traceback


@pytest.mark.parametrize("name", FAILURES)
def test_a_failure(name: str, guest: GuestProcess) -> None:
    code, kind, message, line = FAILURES[name]
    ran = guest.run(code)
    assert ran.error is not None
    assert (ran.kind, ran.message, ran.error["line"]) == (kind, message, line)
    assert_only_its_own_lines(ran)
    assert guest.run("1").value == 1, "the guest is as good as new"


def test_a_traceback_is_what_python_shows(guest: GuestProcess) -> None:
    code = "def g():\n    await_me = 1 / 0\n\nasync def f():\n    g()\n\nimport asyncio\nawait asyncio.gather(f())"
    marks = "    ~^^\n" if sys.version_info >= (3, 13) else ""
    assert guest.run(code).traceback == (
        "Traceback (most recent call last):\n"
        '  File "<program>", line 8, in <module>\n'
        "    await asyncio.gather(f())\n"
        '  File "<program>", line 5, in f\n'
        f"    g()\n{marks}"
        '  File "<program>", line 2, in g\n'
        "    await_me = 1 / 0\n"
        "               ~~^~~\n"
        "ZeroDivisionError: division by zero\n"
    )


def test_a_program_with_a_return_shows_the_same(guest: GuestProcess) -> None:
    assert guest.run("if True:\n    await fail('no')\nreturn 1").traceback == (
        "Traceback (most recent call last):\n"
        '  File "<program>", line 2, in <module>\n'
        "    await fail('no')\n"
        "ToolError: no\n"
    )


def test_lines_are_those_of_the_parser(guest: GuestProcess) -> None:
    ran = guest.run("x = '\u2028'\n\f\ny = '\x1c'\r\n1 / 0")
    assert ran.traceback == (
        'Traceback (most recent call last):\n  File "<program>", line 4, in <module>\n    1 / 0\n    ~~^~~\n'
        "ZeroDivisionError: division by zero\n"
    )


def test_chains_are_shown_and_cut_down_too(guest: GuestProcess) -> None:
    ran = guest.run("try:\n    await fail('no')\nexcept ToolError as e:\n    raise ValueError('bad') from e")
    assert ran.traceback == (
        "Traceback (most recent call last):\n"
        '  File "<program>", line 2, in <module>\n'
        "    await fail('no')\n"
        "ToolError: no\n"
        "\nThe above exception was the direct cause of the following exception:\n\n"
        "Traceback (most recent call last):\n"
        '  File "<program>", line 4, in <module>\n'
        "    raise ValueError('bad') from e\n"
        "ValueError: bad\n"
    )


def test_groups_are_cut_down_too(run: Run) -> None:
    ran = run(
        "import asyncio\nasync def f(x):\n    await fail(x)\n"
        "async with asyncio.TaskGroup() as g:\n    g.create_task(f('a'))\n    g.create_task(f('b'))"
    )
    assert ran.kind == "ExceptionGroup"
    assert ran.message.startswith("unhandled errors in a TaskGroup (")
    assert "| ToolError: a\n" in ran.traceback
    assert_only_its_own_lines(ran)


def test_a_syntax_error_shows_its_place(guest: GuestProcess) -> None:
    ran = guest.run("x = 1\nprint('a' 'b' c)")
    assert ran.traceback.startswith("  File \"<program>\", line 2\n    print('a' 'b' c)\n")
    assert ran.error is not None
    assert ran.error["line"] == 2


def test_later_programs_of_a_session_have_names_of_their_own(guest: GuestProcess) -> None:
    guest.run("def f():\n    1 / 0\n")
    trace = guest.run("\nf()").traceback
    assert 'File "<program-2>", line 2, in <module>\n    f()\n' in trace
    assert 'File "<program>", line 2, in f\n    1 / 0\n' in trace


def test_notes_are_shown(run: Run) -> None:
    ran = run("e = ValueError('x')\ne.add_note('a note')\nraise e")
    assert ran.traceback.endswith("ValueError: x\na note\n")


def test_a_long_message_is_cut(run: Run) -> None:
    ran = run("raise ValueError('a' * 1_000_000)")
    assert len(ran.message) < 70_000
    assert len(ran.traceback) < 70_000


def test_a_long_chain_does_not_break_it(run: Run) -> None:
    ran = run(
        "e = None\nfor i in range(5000):\n    try:\n        raise ValueError(i) from e\n    except ValueError as f:\n"
        "        e = f\nraise e"
    )
    assert (ran.kind, ran.message) == ("ValueError", "4999")


def test_an_operating_system_error_tells_its_number(run: Run) -> None:
    ran = run("open('/no/such/file')")
    assert ran.error is not None
    assert (ran.kind, ran.error["errno"]) == ("FileNotFoundError", 2)


def test_a_program_that_ends_its_process_ends_the_guest(guest: GuestProcess) -> None:
    assert guest.run("print('before')\nimport os\nos._exit(7)").status == 7


def test_a_program_that_closes_everything_ends_the_guest(guest: GuestProcess) -> None:
    ran = guest.run("import os\nos.closerange(0, 100)\nawait echo(1)")
    assert ran.status is not None


def test_a_program_that_breaks_json_fails_by_itself(guest: GuestProcess) -> None:
    ran = guest.run("import json\njson.loads = json.dumps = None\nimport asyncio\nasyncio.gather = None\n1")
    assert ran.value == 1
