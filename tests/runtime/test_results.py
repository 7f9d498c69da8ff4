"""The dual return: short text for the model, whole values for everybody else; and `handle`."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest

from callgate import CodeResult, Limits, RunError, Runtime
from callgate.runtime.result import cut

pytestmark = pytest.mark.anyio

MARKS = "    ~~~~~~~~~^^^^^^^^^^\n" if sys.version_info >= (3, 13) else ""  # below a line that is one call
FOR_MODEL: dict[str, tuple[str, str]] = {
    "prints and a value": ("print('a')\n1 + 1", "a\nValue: 2"),
    "a value": ("{'a': ['é', None, 1.5]}", 'Value: {"a": ["é", null, 1.5]}'),
    "text": ("'plain'", "Value: plain"),
    "no JSON": ("b'x'", "Value (not JSON): b'x'"),
    "no JSON, of several lines": (
        "class X:\n    def __repr__(self): return '  a\\n0 1'\nX()",
        "Value (not JSON):\n  a\n0 1",
    ),
    "prints only": ("print('a')\nprint('b')", "a\nb"),
    "nothing": ("x = 1", "The program ended without printing anything and without a value."),
    "a failure": (
        "print('a')\nx = 1 / 0",
        'a\nThe program failed.\nTraceback (most recent call last):\n  File "<program>", line 2, in <module>\n'
        "    x = 1 / 0\n        ~~^~~\nZeroDivisionError: division by zero",
    ),
    "a failed call": (
        "await echo(1)\nawait echo(2)\nawait refuse('no such city')",
        'The program failed.\nTraceback (most recent call last):\n  File "<program>", line 3, in <module>\n'
        "    await refuse('no such city')\nToolError: no such city\n"
        "Tool calls made before that: echo succeeded ×2, refuse failed.",
    ),
    "a limit": (
        "'x' * 2000",
        "The program failed.\nLimitReached: limit reached: max_value_bytes is 1000, used 2002",
    ),
    "a limit with a place": (
        "x = 1\nbytearray(10 ** 11)",
        'The program failed.\nTraceback (most recent call last):\n  File "<program>", line 2, in <module>\n'
        f"    bytearray(10 ** 11)\n{MARKS}MemoryError\nlimit reached: memory_bytes is 536870912, used ",
    ),
    "its own end": (
        "import os\nos._exit(3)",
        "The program failed.\n"
        "GuestDied: the program ended its own process with status 3 (os._exit): end it by returning",
    ),
    "check": (
        "x = (\n",
        "The program was not run: ",
    ),
}


@pytest.mark.parametrize("name", FOR_MODEL)
async def test_what_the_model_sees(name: str, runtime: Runtime) -> None:
    code, expected = FOR_MODEL[name]
    run = await runtime.execute_code(code, limits=Limits(max_value_bytes=1000), path="sandbox")
    text = run.for_model()
    if name in ("a limit with a place", "check"):
        assert text.startswith(expected)
    else:
        assert text == expected
    json.dumps(run.to_dict())


async def test_long_text_is_cut_in_the_middle_and_says_so(runtime: Runtime) -> None:
    run = await runtime.execute_code("print('é' * 100_000)\n'y' * 100_000")
    text = run.for_model()
    assert len(text) < 17_000
    assert "bytes left out ..." in text
    assert run.logs == "é" * 100_000 + "\n"
    assert run.value == "y" * 100_000
    assert len(run.for_model(200)) < 400


async def test_nothing_a_program_says_breaks_the_text(runtime: Runtime) -> None:
    for code in ("print('\\ud800')", "'\\ud800'", "{'\\ud800'}", "raise ValueError('\\ud800')", "{'\\ud800': 1}"):
        run = await runtime.execute_code(code)
        run.for_model().encode()
        json.dumps(run.to_dict())


async def test_a_deep_value_can_be_told(runtime: Runtime) -> None:
    run = await runtime.execute_code("x = 1\nfor _ in range(900):\n    x = [x]\nx")
    assert run.ok, run.error
    assert run.to_dict()["value"] == run.value
    assert run.for_model().startswith("Value: [[[")


@pytest.mark.parametrize(
    ("text", "most", "expected"),
    [
        ("abc", 3, "abc"),
        ("abcdef", 4, "ab\n... 2 of 6 bytes left out ...\nef"),
        ("éééééé", 2, "é\n... 8 of 12 bytes left out ...\né"),
        ("abc", 0, "a\n... 1 of 3 bytes left out ...\nc"),
    ],
)
def test_cutting(text: str, most: int, expected: str) -> None:
    assert cut(text, most) == expected


def test_a_result_as_a_dict_has_these_names() -> None:
    assert sorted(CodeResult(ok=True).to_dict()) == [
        "artifacts", "calls", "error", "final_answer", "findings", "inputs", "limits", "logs", "notes", "ok",
        "path", "plan", "prints",
        "sandbox", "source", "speculative", "truncated", "usage", "value", "value_repr",
    ]  # fmt: skip
    told = CodeResult(ok=False, error=RunError("X", "y", 3)).to_dict()["error"]
    assert told == {"kind": "X", "message": "y", "line": 3, "traceback": "", "limit": None, "tool": None}


HANDLED: list[tuple[str, Any, str]] = [
    ("execute_code", {"code": "print(1)\n2"}, "1\nValue: 2"),
    ("get_weather", {"city": "Oslo"}, '{"city":"Oslo","temp":4,"unit":"C"}'),
    ("refuse", {"why": "no"}, "Error: no"),
    ("crash", {"how": "RuntimeError"}, "Error: tool 'crash' failed: an internal error; details are in the host's log"),
]


@pytest.mark.parametrize(("name", "arguments", "text"), HANDLED)
async def test_a_models_call_is_answered_with_text(runtime: Runtime, name: str, arguments: Any, text: str) -> None:
    assert await runtime.handle(name, arguments) == text
