"""No source of a program keeps the event loop from its next turn for longer than 100 ms of the process's processor
time, whether it is looked at, refused, or run; and what the host does not look at, it says, and the sandbox runs.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import anyio
import pytest

from callgate import Runtime, tool
from guard.heartbeat import heartbeat

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:sandbox='unsafe'"),
]

MOST_SECONDS = 0.1
MOST_BYTES = 64 * 1024
TRIES = 3
"""Processor time too is a little more on a busy machine: a source counts when it holds the loop each time."""
PATIENCE_SECONDS = 120


def repeated(line: str, head: str = "", tail: str = "", *, most: int = MOST_BYTES) -> str:
    return head + line * ((most - len((head + tail).encode())) // len(line.encode())) + tail


def numbered(template: str, head: str = "", tail: str = "", *, most: int = MOST_BYTES - 64) -> str:
    """The template again and again, with another number for each `#`."""
    pieces, size, number = [head], len((head + tail).encode()), 0
    while size < most:
        pieces.append(template.replace("#", str(number)))
        size += len(pieces[-1].encode())
        number += 1
    return "".join([*pieces, tail])


def within(opening: str, *, levels: int, indent: int = 0, last: str = "0") -> str:
    """Blocks within blocks."""
    lines = [" " * (indent + n) + opening.replace("~", " " * (indent + n)) for n in range(levels)]
    return "\n".join([*lines, " " * (indent + levels) + last, ""])


SOURCES = {
    "names": repeated("x\n"),
    "names that are there": repeated("x\n", "x=1\n", most=39_000),
    "names on one line": repeated("x;", tail="x"),
    "numbers": repeated("1\n"),
    "assignments": repeated("x=1\n"),
    "functions without names": repeated("lambda:0\n"),
    "functions without names, fewer": "lambda:0\n" * 900,
    "functions in functions without names": repeated("lambda:" * 90 + "0\n"),
    "functions with arguments": repeated("lambda a,b,c:0\n"),
    "functions": repeated("def f():0\n"),
    "asynchronous functions": repeated("async def f():0\n"),
    "functions of many names": numbered("def f#():0\n"),
    "functions under many variables": numbered(" a#=0\n", "def g():\n", most=30_000) + " lambda:0\n" * 3000,
    "classes": repeated("class A:0\n"),
    "decorators": repeated("@print\n", tail="def f():0"),
    "sums in a list": repeated("a+b,", "a=b=1\n[", "]"),
    "names in a list": repeated("a,", "a=1\n[", "]"),
    "lists in a list": repeated("[],", "[", "]"),
    "constants in a list": repeated("1,", "[", "]"),
    "a long sum": repeated("+a", "a"),
    "many minuses": repeated("-", tail="1"),
    "parentheses": "(" * 32_000 + ")" * 32_000,
    "fewer parentheses": repeated("(" * 90 + "1" + ")" * 90 + "\n"),
    "brackets": repeated("[" * 90 + "]" * 90 + "\n"),
    "calls in calls": repeated("len(" * 90 + ")" * 90 + "\n"),
    "calls": repeated("f()\n"),
    "tool calls": repeated("await echo(1)\n"),
    "tool calls that are not awaited": repeated("x=echo()\n"),
    "unknown tools": numbered("tools.a#(1)\n"),
    "unknown names": numbered("zzz#(#)\n"),
    "unknown arguments": numbered("a#=1,", "echo(", ")"),
    "arguments that only the compiler compares": numbered("a#=1,", "print(", ")\nbreak\n"),
    "attributes": repeated("x.y.z\n", "x=1\n"),
    "a long chain": repeated(".b()", "a"),
    "f-strings": repeated("f'{a}'\n"),
    "f-strings with formats": repeated("f'{a!r:{b}}'\n"),
    "one f-string": repeated("{a}", "f'", "'"),
    "escapes": repeated("\\n", "'", "'"),
    "wrong escapes": repeated("'\\d'\n"),
    "escapes in a text that does not end": "{" * 400 + "\"\\" * 32_000,
    "comprehensions": repeated("[a for a in a]\n", "a=[]\n"),
    "comprehensions, fewer": "a=[]\n" + "[a for a in a]\n" * 900,
    "comprehensions in comprehensions": repeated("[" * 20 + "a" + " for a in a]" * 20 + "\n", "a=[]\n"),
    "clauses": repeated(" for a in a", "[a", "]"),
    "generators": repeated("(a for a in a)\n"),
    "names that are normalised": repeated("ﬁ\n"),
    "names that are normalised, each another": numbered("ﬁ#ﬁ\n"),
    "long numbers": repeated("9" * 4000 + "\n"),
    "long hexadecimal numbers": repeated("0x" + "f" * 4000 + "\n"),
    "powers": repeated("9**999\n"),
    "conditions": repeated("if a:0\n", "a=1\n"),
    "ways out of blocks": "def f():\n with " + "a," * 18 + "a:\n" + "  return\n" * 7000,
    "a last block with many ways to it": "def f():\n try:\n" + "  return\n" * 3000 + " finally:\n" + "  x\n" * 5000,
    "last blocks in last blocks": within("try: 0\n~finally:", levels=20),
    "more last blocks in last blocks": within("try: 0\n~finally:", levels=60),
    "captures": numbered("a#,", "match 1:\n case [", "a]:0\n"),
    "class patterns": numbered("a#=_,", "match 1:\n case A(", "):0\n"),
    "alternatives": repeated("|1", "match 1:\n case 1", ":0"),
    "patterns or calls": repeated("match(a)\n"),
    "matches or products": repeated("match *a,b\n"),
    "comparisons": repeated("<a", "a"),
    "imports": repeated("import json\n"),
    "annotations": repeated("a:a\n", "a=1\n"),
    "stars": repeated("*a,", "a=[]\n[", "]"),
    "an error at the end": repeated("x\n", tail="x x"),
    "an error at the end of fewer": "x\n" * 19_000 + "x x",
    "an error in a call": repeated("a=1,", "f(", "in=1)"),
    "words in a text": repeated("a ", "x='''", "'''"),
    "newlines": "\n" * MOST_BYTES,
    "comments": repeated("#\n"),
}  # fmt: skip


@tool(read_only=True)
async def echo(value: Any = None) -> Any:
    """Give it back."""
    return value


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"  # what is measured is the work between two turns; which loop has them is the same


@pytest.fixture
async def runtime(anyio_backend: str) -> AsyncIterator[Runtime]:
    async with Runtime([echo], sandbox=None) as entered:
        await entered.execute_code("x = await echo(1)\nx")
        yield entered


async def is_soon(doing: Callable[[], Any]) -> None:
    seconds = 0.0
    for _ in range(TRIES):
        with anyio.fail_after(PATIENCE_SECONDS):
            async with heartbeat() as heart:
                await doing()
        seconds = heart.longest_gap_seconds
        if seconds < MOST_SECONDS:
            return
    pytest.fail(f"the event loop was kept from its next turn for {seconds:.3f} s")


@pytest.mark.parametrize("name", SOURCES)
async def test_no_source_holds_the_event_loop(runtime: Runtime, name: str) -> None:
    source = SOURCES[name]
    attempt = iter(range(TRIES))
    # another one each time: what was found is kept
    await is_soon(lambda: runtime.execute_code(f"{source[: MOST_BYTES - 3]}#{next(attempt)}\n"))


@pytest.mark.parametrize("name", SOURCES)
async def test_no_short_source_does_either(runtime: Runtime, name: str) -> None:
    """A short program is looked at in the event loop itself."""
    source = SOURCES[name]
    lines = source[:2000].rpartition("\n")[0]
    short = lines or source[:1000] + source[-1000:]
    attempt = iter(range(TRIES))
    await is_soon(lambda: runtime.execute_code(f"{short}\n#{next(attempt)}\n"))


async def test_no_answer_of_a_model_holds_it(runtime: Runtime) -> None:
    for name in ("functions without names", "an error at the end", "more last blocks in last blocks", "sums in a list"):
        given = {"code": SOURCES[name]}
        await is_soon(lambda given=given: runtime.answer("execute_code", given))  # type: ignore[misc]


async def test_the_restricted_policy_looks_at_every_program_or_refuses_it(anyio_backend: str) -> None:
    async with Runtime([echo], sandbox="unsafe", policy="restricted") as runtime:
        for name in ("names", "an error at the end", "functions without names"):
            await is_soon(lambda name=name: runtime.execute_code(SOURCES[name]))  # type: ignore[misc]
        result = await runtime.execute_code("import os\n" + repeated("1\n", most=MOST_BYTES - 100))
        assert result.error is not None
        assert "the program has more than 24,000 words and signs; split it" in result.error.message


async def test_what_is_too_much_to_look_at_runs_in_the_sandbox(anyio_backend: str) -> None:
    source = "print('here')\n" + "x = 1;" * 10_400
    async with Runtime([echo], sandbox="unsafe") as runtime:
        result = await runtime.execute_code(source)
        assert result.ok, result.error
        assert result.logs == "here\n"
        assert result.path == "sandbox"
        assert [(finding.code, finding.severity) for finding in result.findings] == [("too-complex", "warning")]
        assert "it was not looked at before it ran" in result.findings[0].message


async def test_an_ordinary_program_of_64_kib_is_looked_at_to_its_end(runtime: Runtime) -> None:
    block = 'def total_of_orders(customer, orders):\n    """Add up what was ordered."""\n    return sum(order["price"] * order["count"] for order in orders if order["customer"] == customer)\n\n'  # noqa: E501
    source = block * (60_000 // len(block)) + "print(totl)\n"
    findings = runtime.check(source)
    assert [finding.message for finding in findings] == ["`totl` is not defined"]
