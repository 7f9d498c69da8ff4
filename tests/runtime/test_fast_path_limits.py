"""Limits on the fast path: reached as in the sandbox, in the same words, with what there was before."""

from __future__ import annotations

from typing import Any

import pytest

from callgate import CodeResult, Limits, Runtime
from runtime.conftest import opened
from runtime.graphed import World, known
from runtime.test_fast_path import boxed, world

pytestmark = [pytest.mark.anyio, pytest.mark.sampled]

# what is changed, the program, the field that is reached, what was printed, the calls the program made
REACHED: dict[str, tuple[dict[str, Any], str, str, str, list[str]]] = {
    "wall": ({"wall_seconds": 0.2}, "print('a')\nawait note('x')\nprint('b')\nawait hang()", "wall_seconds", "a\nb\n",
             ["note", "hang"]),
    "calls": ({"max_tool_calls": 2}, "print('a')\nfor n in range(5):\n    await note(str(n))", "max_tool_calls", "a\n",
              ["note", "note"]),
    "calls at once": ({"max_tool_calls": 2}, "import asyncio\nawait asyncio.gather(hang(1), hang(2), hang(3))",
                      "max_tool_calls", "", ["hang", "hang"]),
    "logs": ({"max_log_bytes": 10}, "for n in range(9):\n    print('éé')\n    await note(str(n))", "max_log_bytes",
             "éé\néé\n", ["note", "note"]),
    "logs without a newline": ({"max_log_bytes": 3}, "print('abcdef', end='')\nawait note('x')", "max_log_bytes", "abc",
                               []),
    "logs at the end": ({"max_log_bytes": 3}, "await note('x')\nprint('abcdef', end='')", "max_log_bytes", "abc",
                        ["note"]),
    "the value": ({"max_value_bytes": 100}, "print('a')\nawait note('x')\n'x' * 99", "max_value_bytes", "a\n",
                  ["note"]),
    "the value as text": ({"max_value_bytes": 100}, "{'x' * 99: 1}.keys()", "max_value_bytes", "", []),
    "a list as the value": ({"max_value_bytes": 100}, "[await look(n) for n in range(60)]", "max_value_bytes", "",
                            ["look"] * 60),
    "a message": ({"max_message_bytes": 5000}, "print('é' * 3000)\nawait note('x')", "max_message_bytes", "", []),
}  # fmt: skip


@pytest.mark.parametrize("name", REACHED)
async def test_reaching(name: str) -> None:
    changes, code, field, logs, calls = REACHED[name]
    async with world() as (runtime, _):
        result = await runtime.execute_code(code, limits=Limits(**changes), path="plan")
        assert (await runtime.execute_code("await look(1)")).value == 1
    assert result.error is not None
    assert (result.error.kind, result.error.limit, result.path) == ("LimitReached", field, "plan")
    assert result.error.message.startswith(f"limit reached: {field} is {changes[field]}")
    assert (result.logs, result.value) == (logs, None)
    assert [call.tool for call in result.calls] == calls
    assert result.truncated == (("logs",) if field == "max_log_bytes" else ())
    assert all(call.status != "pending" for call in result.calls)


@pytest.mark.parametrize("name", sorted(set(REACHED) - {"wall", "calls at once"}))
async def test_the_sandbox_says_the_same(name: str) -> None:
    changes, code, *_ = REACHED[name]
    async with opened(*World().tools(), pool_size=0) as runtime:
        fast = await runtime.execute_code(code, limits=Limits(**changes), path="plan")
    async with opened(*World().tools(), pool_size=0) as runtime:
        box = await runtime.execute_code(code, limits=Limits(**changes), path="sandbox")
    assert known(fast) == known(box)


@pytest.mark.parametrize(
    ("changes", "code", "value"),
    [
        ({"max_tool_calls": 3}, "for n in range(3):\n    await note(str(n))\n3", 3),
        ({"max_log_bytes": 6}, "print('éé', end='')\nprint('a')\nawait look(1)", 1),
        ({"max_value_bytes": 100}, "'x' * 98", "x" * 98),
        ({"max_value_bytes": 102}, "[1] * 50", [1] * 50),
    ],
)
async def test_what_stays_within_its_limit_passes(changes: dict[str, Any], code: str, value: Any) -> None:
    async with world() as (runtime, _):
        result = await runtime.execute_code(code, limits=Limits(**changes), path="plan")
    assert result.error is None
    assert result.value == value


async def test_the_wall_limit_names_what_was_used_and_gives_calls_up() -> None:
    async with world() as (runtime, made):
        result = await runtime.execute_code("a = await hang(1)\nb = await hang(2)", limits=Limits(wall_seconds=0.1))
    assert result.error is not None
    used = float(result.error.message.removeprefix("limit reached: wall_seconds is 0.1, used "))
    assert 0.1 <= used < 10
    assert [call.status for call in (*result.calls, *result.speculative)] == ["cancelled", "cancelled"]
    assert made.log == ["hang 1", "hang 2", "given up 1", "given up 2"] or made.log[2:] == ["given up 2", "given up 1"]


async def test_early_calls_do_not_take_the_places_of_the_programs_own() -> None:
    code = (
        "a = await look(1)\nb = await note('x')\nc = [await look(n) for n in range(a, a + 3)]\nd = c[5]\nawait look(9)"
    )
    async with world() as (runtime, _):
        for most in (5, 6):
            result = await runtime.execute_code(code, limits=Limits(max_tool_calls=most))
            assert result.error is not None
            assert (result.error.kind, len(result.calls)) == ("IndexError", 5), most
        result = await runtime.execute_code(code, limits=Limits(max_tool_calls=4))
        assert result.error is not None
        assert (result.error.limit, result.error.message) == (
            "max_tool_calls", "limit reached: max_tool_calls is 4, used 4",
        )  # fmt: skip


async def test_results_that_take_much_memory_are_for_the_sandbox() -> None:
    limits = Limits(memory_bytes=64 * 1024 * 1024)
    code = "a = await big(3_000_000)\nb = await big(3_000_000)\nlen(a + b)"
    async with world() as (runtime, _):
        result = await runtime.execute_code(code, limits=limits, path="plan")
    assert result.error is not None
    assert result.error.kind == "NotAGraph"
    assert "memory_bytes" in result.error.message
    async with opened(*World().tools(), pool_size=0) as runtime:
        result = await runtime.execute_code(code, limits=limits)
    assert (result.value, result.path, len(result.calls)) == (6_000_000, "sandbox", 2)


@pytest.mark.parametrize(
    "code",
    ["await echo('x' * 20_000)", "x = await look(1)\nawait note('y' * 20_000)", "'x' * 9_990", "print('x' * 99_999)"],
)
async def test_messages_that_are_too_long_are_the_sandboxs_affair(code: str) -> None:
    limits = Limits(max_message_bytes=10_000)
    async with opened(*World().tools(), pool_size=0) as runtime:
        box = await runtime.execute_code(code, limits=limits, path="sandbox")
        fast = await runtime.execute_code(code, limits=limits)
    assert known(fast) == known(box)


async def test_a_source_or_inputs_near_their_limit_are_not_looked_at(runtime: Runtime) -> None:
    for changes, code, inputs in (
        ({"max_source_bytes": 100}, f"'{'x' * 90}'[:1]", {}),
        ({"max_message_bytes": 20_000}, "len(text)", {"text": "x" * 30_000}),
    ):
        box = await runtime.execute_code(code, limits=Limits(**changes), inputs=inputs, path="sandbox", check=False)
        fast = await runtime.execute_code(code, limits=Limits(**changes), inputs=inputs, check=False)
        assert known(fast) == known(box)
    raised = Limits(max_source_bytes=100_000)
    plan = await runtime.execute_code(f"'{'x' * 70_000}'[:1]", path="plan", limits=raised)
    assert plan.error is not None
    assert plan.error.kind == "NotAGraph"
    assert (await runtime.execute_code(f"'{'x' * 70_000}'[:1]", limits=raised)).value == "x"


async def test_a_program_of_expressions_alone_is_bounded() -> None:
    async with world() as (runtime, _):
        for code in ("[i * j for i in range(10_000) for j in range(10_000)]", "10 ** 10 ** 8", "'x' * 10 ** 10"):
            result = await runtime.execute_code(code)
            assert result.error is not None
            assert result.error.kind == "NotAGraph", code


CHAINS = {
    "a chain, and a read that need not wait": (
        "a = await look(1)\nb = await look(a)\nc = await look(b)\nd = await look(90)\nprint('done')"
    ),
    "a branch before others": (
        "a = await look(1)\nif a:\n    b = await look(2)\nc = await look(9)\nd = await look(10)\nawait note('q')"
    ),
    "loops within loops": (
        "for k in range(3):\n    for i in range(3):\n        await look(k)\n        await look(i)\nawait note('x')"
    ),
    "a loop over what a call gave": (
        "n = await look(3)\nfor i in range(n):\n    await look(i)\nawait look(7)\nprint('here')\nawait look(8)"
    ),
}


@pytest.mark.parametrize("name", CHAINS)
async def test_the_limit_of_calls_is_never_passed_and_reached_as_in_the_sandbox(name: str) -> None:
    async with boxed() as (runtime, made):
        for most in (1, 2, 3, 4, 5, 6, 20):
            limits = Limits(max_tool_calls=most)
            made.notes.clear()
            fast = await runtime.execute_code(CHAINS[name], limits=limits, path="plan")
            notes = made.notes.copy()
            made.notes.clear()
            slow = await runtime.execute_code(CHAINS[name], limits=limits, path="sandbox")
            assert in_any_order(fast) == in_any_order(slow)
            assert notes == made.notes
            assert len(fast.calls) + len(fast.speculative) <= most


def in_any_order(result: CodeResult) -> dict[str, Any]:
    """What must not depend on the path; calls that only read may begin in another order."""
    return {**known(result), "calls": sorted((call.tool, str(call.arguments), call.status) for call in result.calls)}


async def test_an_error_near_the_limit_of_messages_is_the_sandboxs_affair() -> None:
    async with boxed() as (runtime, _):
        limits = Limits(max_message_bytes=4096)
        fast = await runtime.execute_code("float('x' * 2000)", limits=limits)
        slow = await runtime.execute_code("float('x' * 2000)", limits=limits, path="sandbox")
    assert fast.path == "sandbox"
    assert known(fast) == known(slow)
