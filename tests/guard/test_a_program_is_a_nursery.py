"""A program is a nursery: its end waits for every call that it began, what it cancels is cancelled, and the same
program has the same effects and the same record every time.

The shapes of programs are in `nursery_shapes`. Each runs a few times here; ``CALLGATE_NURSERY_RUNS`` says how many.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator

import anyio
import pytest

from callgate import CodeResult, Limits, Runtime
from guard.nursery_shapes import SHAPES, Effects, run, told
from runtime.conftest import opened

pytestmark = pytest.mark.anyio

RUNS = int(os.environ.get("CALLGATE_NURSERY_RUNS", "3"))
SECONDS = 60


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """The tools wait with asyncio, which is also what their user would do."""
    return "asyncio"


@pytest.fixture(scope="module")
def effects() -> Effects:
    return Effects()


@pytest.fixture(scope="module")
async def runtime(effects: Effects, anyio_backend: str) -> AsyncIterator[Runtime]:
    async with opened(*effects.tools, pool_size=2) as entered:
        yield entered


def states(result: CodeResult) -> list[str]:
    return [f"{call.tool} {call.arguments['to']} {call.status}" for call in result.calls]


@pytest.mark.parametrize("name", SHAPES)
async def test_a_shape_comes_to_the_same_every_time(name: str, runtime: Runtime, effects: Effects) -> None:
    shape = SHAPES[name]
    outcomes = set()
    for _ in range(RUNS):
        result, outcome = await run(shape, runtime, effects)
        outcomes.add(outcome)
        assert (result.ok, result.value, result.notes) == (shape.ok, shape.value, list(shape.notes)), result.error
        assert "".join(sorted(effects.done)) == shape.effects
        assert tuple(states(result)) == shape.calls
        if result.error is not None:
            assert f"{result.error.kind} {result.error.message}".startswith(shape.error)
            assert shape.line is None or result.error.line == shape.line
    assert len(outcomes) == 1


async def test_the_failure_of_a_call_that_was_never_awaited_shows_its_line(runtime: Runtime) -> None:
    result = await runtime.execute_code("x = 1\ndone = [fail('a')]\nprint('done')", check=False)
    assert result.error is not None
    assert result.error.tool == "fail"
    assert result.logs == "done\n"
    assert 'File "<program>", line 2' in result.error.traceback
    assert result.error.traceback.endswith("ToolError: no such address: a\n")


async def test_a_call_that_never_ends_is_named_and_the_value_is_kept(runtime: Runtime) -> None:
    limits = Limits(wall_seconds=0.5)
    result = await runtime.execute_code("x = [stay('a'), stay('b')]\n{'n': 2}", check=False, limits=limits)
    assert result.error is not None
    assert (result.error.limit, result.error.tool, result.value) == ("wall_seconds", "stay", {"n": 2})
    assert "waited for its call of 'stay' and 1 more" in result.error.message


async def test_notes_are_told_to_the_model_and_to_programs(runtime: Runtime) -> None:
    result = await runtime.execute_code("x = [look('a'), look('b'), look('c')]\n1", check=False)
    assert result.notes == ["3 calls were never awaited; their results were dropped"]
    assert result.for_model() == "Value: 1\nNote: 3 calls were never awaited; their results were dropped"
    assert result.to_dict()["notes"] == result.notes
    assert (await runtime.execute_code("await look('a')", path="plan")).to_dict()["notes"] == []


async def test_an_awaited_call_is_not_noted(runtime: Runtime) -> None:
    code = "import asyncio\nx = [look('a'), look('b')]\nfor each in x:\n    await each\nawait asyncio.gather(look('c'))"
    assert (await runtime.execute_code(code, path="sandbox")).notes == []


# sessions


async def test_a_call_that_a_variable_holds_is_finished_and_awaited_by_the_next_program(
    runtime: Runtime, effects: Effects
) -> None:
    async with runtime.session() as session:
        for _ in range(RUNS):
            effects.done.clear()
            first = await session.execute_code("kept = [send('a'), send('b')]")
            assert (first.ok, first.notes, effects.done) == (True, [], ["a", "b"])
            assert states(first) == ["send a succeeded", "send b succeeded"]
            second = await session.execute_code("[await each for each in kept]")
            assert (second.value, second.notes, second.calls) == (["a", "b"], [], [])


async def test_a_call_that_no_variable_holds_is_dropped_in_a_session_too(runtime: Runtime) -> None:
    async with runtime.session() as session:
        first = await session.execute_code("for to in 'abc':\n    x = look(to)", check=False)
        assert first.notes == ["2 calls were never awaited; their results were dropped"]
        second = await session.execute_code("x = None")
        assert second.notes == ["1 call was never awaited; its result was dropped"]


async def test_a_kept_call_that_failed_raises_when_it_is_awaited(runtime: Runtime) -> None:
    async with runtime.session() as session:
        first = await session.execute_code("x = fail('a')")
        assert (first.ok, first.notes) == (
            True,
            ["1 call that a variable holds has failed; awaiting it raises its error"],
        )
        second = await session.execute_code("try:\n    await x\nexcept ToolError as error:\n    y = str(error)\ny")
        assert (second.ok, second.value) == (True, "no such address: a")


async def test_a_dropped_call_that_failed_fails_its_program_and_keeps_the_session(runtime: Runtime) -> None:
    async with runtime.session() as session:
        first = await session.execute_code("y = 5\nx = [fail('a')]\nx.clear()", check=False)
        assert first.error is not None
        assert (first.error.kind, first.error.line) == ("ToolError", 2)
        assert (await session.execute_code("y")).value == 5


async def test_the_calls_in_a_value_that_failed_its_program_are_not_held_against_the_next(runtime: Runtime) -> None:
    async with runtime.session() as session:
        first = await session.execute_code("[fail('a'), fail('b')]", check=False)
        assert first.error is not None
        assert "was not awaited" in first.error.message
        second = await session.execute_code("1")
        assert (second.value, second.error, second.notes) == (1, None, [])


async def test_calls_of_a_failed_program_of_a_session_are_made(runtime: Runtime, effects: Effects) -> None:
    async with runtime.session() as session:
        for _ in range(RUNS):
            effects.done.clear()
            result = await session.execute_code("x = [send('a'), send('b'), stare('c')]\n1 / 0", check=False)
            assert effects.done == ["a", "b"]
            assert states(result) == ["send a succeeded", "send b succeeded", "stare c cancelled"]
            assert (await session.execute_code("await look('d')")).value == "d"


# the host


@pytest.mark.parametrize("path", ["sandbox", "plan"])
async def test_a_host_that_cancels_a_run_cancels_its_calls(path: str, runtime: Runtime, effects: Effects) -> None:
    ends: list[str] = []

    def listen(event: object) -> None:
        if type(event).__name__ == "CallEnded":
            ends.append(f"{event.record.tool} {event.record.status}")  # type: ignore[attr-defined]
        elif type(event).__name__ == "CallStarted" and event.record.arguments["to"] == "b":  # type: ignore[attr-defined]
            scope.cancel()

    code = "x = stay('a')\ny = stare('b')\nawait x\nawait y"
    with anyio.fail_after(SECONDS):
        for _ in range(RUNS):
            ends.clear()
            with anyio.CancelScope() as scope:
                await runtime.execute_code(code, on_event=listen, path=path)  # type: ignore[arg-type]
            assert sorted(ends) == ["stare cancelled", "stay unknown_outcome"]


async def test_both_paths_make_the_calls_of_a_program_that_fails(runtime: Runtime, effects: Effects) -> None:
    code = "x = send('a')\ny = send('b')\nz = look('c')\nn = [][0]\nawait x\nawait y\nawait z"
    outcomes = []
    for path in ("plan", "sandbox") * RUNS:
        effects.done.clear()
        result = await runtime.execute_code(code, path=path)
        assert result.path == path
        outcomes.append((told(result, effects), effects.done.copy()))
    assert all(outcome == outcomes[0] for outcome in outcomes)
    assert states(result) == ["send a succeeded", "send b succeeded", "look c cancelled"]


@pytest.mark.parametrize("path", ["sandbox", "plan"])
async def test_the_wall_limit_holds_for_the_calls_of_a_failed_program(path: str, runtime: Runtime) -> None:
    code = "x = stay('a')\ny = stay('b')\nn = [][0]\nawait x\nawait y"
    result = await runtime.execute_code(code, path=path, limits=Limits(wall_seconds=0.5))  # type: ignore[arg-type]
    assert result.error is not None
    assert result.error.kind == "IndexError"
    assert states(result) == ["stay a unknown_outcome", "stay b unknown_outcome"]
    (note,) = result.notes
    assert note.startswith("the program had failed, and the limit wall_seconds ended 2 calls, the first of 'stay',")
