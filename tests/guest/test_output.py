"""What a program prints: as it happens, in order with its calls, whatever way it writes."""

from __future__ import annotations

import pytest

from guest.conftest import Run
from guest.driver import GuestProcess

PRINTS = {
    "a line": ("print('a')", "a\n"),
    "several": ("print(1, 'b', sep='-')\nprint()", "1-b\n\n"),
    "no newline": ("print('a', end='')", "a"),
    "nothing": ("print('', end='')", ""),
    "standard error": ("import sys\nprint('a', file=sys.stderr)", "a\n"),
    "the originals": ("import sys\nprint('a', file=sys.__stdout__)\nprint('b', file=sys.__stderr__)", "a\nb\n"),
    "write": ("import sys\nsys.stdout.write('a')", "a"),
    "writelines": ("import sys\nsys.stdout.writelines(['a\\n', 'b'])", "a\nb"),
    "bytes": ("import sys\nsys.stdout.buffer.write('é'.encode())", "é"),
    "bytes in pieces": ("import sys\nfor b in '😀é'.encode():\n    sys.stdout.buffer.write(bytes([b]))", "😀é"),
    "bytes that are no text": ("import sys\nsys.stdout.buffer.write(b'a\\xff')", "a\ufffd"),
    "emoji": ("print('😀 \\u2028\\x00')", "😀 \u2028\x00\n"),
    "half of a surrogate pair": ("print('\\ud800')", "\ud800\n"),
    "logging": ("import logging\nlogging.getLogger('x').warning('a')", "a\n"),
    "logging, set up": (
        "import logging\nlogging.basicConfig(format='%(message)s', level=10, force=True)\nlogging.info('a')",
        "a\n",
    ),
    "warnings": (
        "import warnings\nwarnings.warn('careful')",
        "<program>:2: UserWarning: careful\n  warnings.warn('careful')\n",
    ),
    "a redirected print": (
        "import io, contextlib\nwith contextlib.redirect_stdout(io.StringIO()) as f:\n    print('a')\n"
        "print(f.getvalue() * 2)",
        "a\na\n\n",
    ),
    "reconfigure": ("import sys\nsys.stdout.reconfigure(encoding='utf-8', line_buffering=True)\nprint('a')", "a\n"),
    "close": ("import sys\nsys.stdout.close()\nprint('a')", "a\n"),
    "isatty": (
        "import sys\nprint(sys.stdout.isatty(), sys.stdout.encoding, sys.stdout.writable())",
        "False utf-8 True\n",
    ),
    "pprint": ("import pprint\npprint.pprint({'a': 1})", "{'a': 1}\n"),
    "a long line": ("print('x' * 300_000)", "x" * 300_000 + "\n"),
    "a traceback of its own": ("try:\n    1 / 0\nexcept Exception as e:\n    print(e)", "division by zero\n"),
}


@pytest.mark.parametrize("name", PRINTS)
def test_what_is_printed(name: str, guest: GuestProcess) -> None:
    code, expected = PRINTS[name]
    ran = guest.run(code)
    assert ran.error is None, ran.error
    assert ran.logs == expected


def test_prints_are_sent_line_by_line(run: Run) -> None:
    assert run("for i in range(3):\n    print('line', i)").prints == ["line 0\n", "line 1\n", "line 2\n"]


def test_prints_keep_their_place_among_the_calls(run: Run) -> None:
    ran = run(
        "print('a')\nawait echo(1)\nprint('b', end='')\nawait echo(2)\nprint('c')\nx = echo(3)\nprint('d')\nawait x"
    )
    assert ran.order == ["a\n", "<echo>", "b", "<echo>", "c\n", "<echo>", "d\n"]


def test_what_is_printed_comes_while_the_program_runs(guest: GuestProcess) -> None:
    """The reply to the call is sent only after the print has come."""
    seen: list[str] = []

    def on_message(message: dict[str, object]) -> bool:
        seen.append(str(message.get("method")))
        return False

    guest.run("print('now')\nwait = await meet(1)", on_message=on_message)
    assert seen[:2] == ["print", "meet"]


@pytest.mark.parametrize(
    "write", ["os.write(1, b'stray\\n')", "os.write(2, b'stray\\n')", "open(1, 'w', closefd=False).write('stray\\n')"]
)
def test_writes_behind_pythons_back_are_captured(write: str, guest: GuestProcess) -> None:
    ran = guest.run(f"import os\n{write}\nawait echo(1)\n5")
    assert (ran.value, ran.logs) == (5, "stray\n")


def test_a_c_library_cannot_touch_the_wire(guest: GuestProcess) -> None:
    ran = guest.run("import ctypes\nlibc = ctypes.CDLL(None)\nlibc.puts(b'stray')\nlibc.fflush(None)\n5")
    assert (ran.value, ran.logs) == (5, "stray\n")


def test_standard_input_is_empty(run: Run) -> None:
    assert run("import sys, os\n[sys.stdin.read(), os.read(0, 10).decode()]").value == ["", ""]


def test_what_threads_write_in_one_piece_stays_in_one_piece(run: Run) -> None:
    ran = run(
        "import sys, threading\ndef f(n):\n    for i in range(200):\n        sys.stdout.write(f'{n}-{i}\\n')\n"
        "ts = [threading.Thread(target=f, args=(n,)) for n in range(4)]\n[t.start() for t in ts]\n"
        "[t.join() for t in ts]\n0"
    )
    assert sorted(ran.logs.split()) == sorted(f"{n}-{i}" for n in range(4) for i in range(200))


def test_a_print_that_fails_is_an_error_of_the_program(run: Run) -> None:
    ran = run("import sys\nsys.stdout.write(3)")
    assert (ran.kind, ran.message) == ("TypeError", "write() argument must be str, not int")
