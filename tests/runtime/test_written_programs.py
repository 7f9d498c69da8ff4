"""Programs that start while they are being written. The finished program decides; nothing is called twice."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest

from callgate import (
    Artifact,
    CallStarted,
    CodeResult,
    ConfigurationError,
    Event,
    Limits,
    Runtime,
    SyncRuntime,
    tool,
)
from runtime.conftest import opened
from runtime.graphed import World, known, told
from runtime.test_fast_path import SECONDS, boxed, world

pytestmark = pytest.mark.anyio


class Writing:
    """A program that is written as far as the test says.

    Args:
        runtime: runs it.
        code: the whole text.
        options: of the run.
    """

    def __init__(self, runtime: Runtime, code: str, **options: Any) -> None:
        self.result: CodeResult | None = None
        self.events: list[Event] = []
        self._runtime = runtime
        self._code = code
        self._options = options
        self._put, self._take = anyio.create_memory_object_stream[str](100)

    async def __aenter__(self) -> Writing:
        self._tasks = await anyio.create_task_group().__aenter__()
        self._tasks.start_soon(self._run)
        return self

    async def __aexit__(self, *error: Any) -> None:
        if error[0] is None:
            await self.until(None)
            self._put.close()
        await self._tasks.__aexit__(*error)

    async def _run(self) -> None:
        async with self._take, self._runtime.stream_code(self._take, **self._options) as stream:
            async for event in stream:
                self.events.append(event)
        self.result = stream.result

    @property
    def is_over(self) -> bool:
        return self.result is not None

    async def until(self, mark: str | None) -> None:
        """Write up to and with the next `mark`; None: the rest."""
        end = len(self._code) if mark is None else self._code.index(mark) + len(mark)
        text, self._code = self._code[:end], self._code[end:]
        for start in range(0, len(text), 5):
            await self._put.send(text[start : start + 5])


async def pieces(code: str, size: int = 7) -> AsyncIterator[str]:
    for start in range(0, len(code), size):
        yield code[start : start + size]


async def holds(condition: Callable[[], object]) -> None:
    with anyio.fail_after(SECONDS):
        while not condition():  # noqa: ASYNC110 (what is waited for tells nobody)
            await anyio.sleep(0.001)


async def logged(made: World, entry: str, times: int = 1) -> None:
    await holds(lambda: made.log.count(entry) >= times)


async def a_while() -> None:
    """Time in which anything that is to begin would have begun."""
    for _ in range(20):
        await anyio.sleep(0.001)


async def run(runtime: Runtime, code: str, size: int = 7, **options: Any) -> CodeResult:
    async with runtime.stream_code(pieces(code, size), **options) as stream:
        async for _ in stream:
            pass
    assert stream.result is not None
    return stream.result


async def test_dependent_reads_run_while_the_program_is_written() -> None:
    code = "a = await look(1)\nb = await look(a + 1)\nprint(b)\nc = await look(b + 1)\n# the end\n[a, b, c]"
    async with world() as (runtime, made):
        async with Writing(runtime, code) as writing:
            await writing.until("# the end")
            await logged(made, "looked 3")
        assert made.log == ["look 1", "looked 1", "look 2", "looked 2", "look 3", "looked 3"]
        whole = await runtime.execute_code(code)
    assert writing.result is not None
    assert writing.result.value == [1, 2, 3]
    assert known(writing.result) == known(whole)
    assert all(call.early for call in writing.result.calls)
    assert writing.result.speculative == []
    assert [told(event) for event in writing.events] == ["start look", "end look"] * 3 + ["2\n"]


async def test_a_function_that_holds_the_program_is_read_before_its_end() -> None:
    code = "async def main():\n    a = await look(1)\n    b = await look(2)\n    return a + b\n\nawait main()"
    async with world() as (runtime, made), Writing(runtime, code) as writing:
        await writing.until("return")
        await logged(made, "looked 2")
    assert writing.result is not None
    assert (writing.result.value, writing.result.path) == (3, "plan")
    assert len(made.log) == 4


async def test_a_block_begins_when_it_is_whole_and_a_text_over_lines_is_no_statement() -> None:
    code = (
        'text = """\nawait look(1)\n"""\nfor n in [2, 3]:\n    await look(n)\n'
        "else_ = 4\nlast = await look(\n    5\n)\n6"
    )
    async with world() as (runtime, made), Writing(runtime, code) as writing:
        await writing.until("look(n)\n")
        await a_while()
        assert made.log == []
        await writing.until("else_ = 4\n")
        await holds(lambda: made.log.count("look 2") + made.log.count("look 3") == 2)
        await writing.until("5\n")
        await a_while()
        assert "look 5" not in made.log
    assert writing.result is not None
    assert writing.result.value == 6
    assert [call.arguments["n"] for call in writing.result.calls] == [2, 3, 5]


async def test_what_must_not_begin_early_does_not() -> None:
    early = "a = await look(1)\n"
    rest = "w = await note('x')\nb = await look(2)\nprint(b)\n# the end\n"
    others = ["await secret(1)\n", "await unsafe('x')\n", "await echo(1)\n", "x = 1 / 0\nawait look(3)\n"]
    async with world(approve=lambda request: None) as (runtime, made):
        for code in (early + rest, *(early + other + "# the end\n" for other in others)):
            made.log.clear()
            async with Writing(runtime, code) as writing:
                await writing.until("# the end")
                await logged(made, "looked 1")
                await a_while()
                assert made.log == ["look 1", "looked 1"], code


async def test_on_the_path_of_the_sandbox_nothing_begins_early() -> None:
    async with boxed() as (runtime, made):
        async with Writing(runtime, "a = await look(1)\n# the end\na", path="sandbox") as writing:
            await writing.until("# the end")
            await a_while()
            assert made.log == []
        assert writing.result is not None
        assert (writing.result.value, writing.result.path) == (1, "sandbox")
        assert not any(call.early for call in writing.result.calls)


async def test_a_program_for_the_sandbox_takes_what_was_read_early() -> None:
    code = (
        "a = await look(1)\nb = await look(a + 1)\nc = await look(1)\nwhile a < 2:\n    a += 1\n# the end\n"
        "[b, c, await look(1), await note('x'), await look(2)]"
    )
    async with boxed() as (runtime, made):
        async with Writing(runtime, code) as writing:
            await writing.until("# the end")
            await logged(made, "looked 1", 2)
            await logged(made, "looked 2")
        assert writing.result is not None
        assert (writing.result.value, writing.result.path) == ([2, 1, 1, 1, 2], "sandbox")
        assert [call.early for call in writing.result.calls] == [True] * 3 + [False] * 3
        assert writing.result.speculative == []
        assert made.log.count("look 1") == 3
        whole = await runtime.execute_code(code)
        assert sorted(map(str, known(whole)["calls"])) == sorted(map(str, known(writing.result)["calls"]))


async def test_a_call_that_is_still_under_way_is_waited_for_and_not_made_again() -> None:
    for rest in ("a + 1", "while False: pass\na + 1"):
        async with boxed() as (runtime, made):
            made.company = 2
            async with Writing(runtime, f"a = await meet(1)\n{rest}") as writing:
                await writing.until("\n")
                await holds(partial(getattr, made, "open"))
                await writing.until(None)
                await a_while()
                assert not writing.is_over
                made.all_there.set()
            assert writing.result is not None
            assert (writing.result.value, made.most, len(writing.result.calls)) == (2, 1, 1)
            assert writing.result.calls[0].status == "succeeded"


async def test_a_call_that_the_program_gives_up_is_cancelled() -> None:
    code = (
        "import asyncio\nt = asyncio.create_task(hang(1))\nwhile False: pass\n"
        "try:\n    await asyncio.wait_for(t, 0.05)\nexcept TimeoutError:\n    print('late')\nawait watch(2)\n7"
    )
    async with boxed() as (runtime, made):
        result = await run(runtime, code)
    assert (result.value, result.logs) == (7, "late\n")
    assert made.log == ["hang 1", "given up 1"]
    assert [call.status for call in result.calls] == ["cancelled", "succeeded"]


async def test_a_call_that_fails_early_fails_where_the_program_makes_it() -> None:
    for rest in ("", "while False: pass\n"):
        code = f"print('a')\nx = await fail('no')\nawait look(1)\n{rest}2"
        async with boxed() as (runtime, _):
            async with Writing(runtime, code) as writing:
                await writing.until("fail('no')\n")
                await a_while()
            whole = await runtime.execute_code(code)
        assert writing.result is not None
        assert known(writing.result) == known(whole)
        assert writing.result.error is not None
        assert (writing.result.error.line, writing.result.logs) == (2, "a\n")


async def test_what_was_read_before_a_call_with_effects_answers_no_read_behind_it() -> None:
    code = (
        "async def main():\n    return await look(1)\n\nasync def other():\n    return 1\n"
        "await note('x')\nawait look(1)"
    )
    main_twice = "async def main():\n    a = await look(2)\n    return await look(1)\n\nawait note('x')\nawait main()"
    for program, reads in ((code, 2), (main_twice, 2)):
        async with boxed() as (runtime, made):
            async with Writing(runtime, program) as writing:
                await writing.until("look(1)\n")
                await logged(made, "looked 1")
            assert writing.result is not None
            assert writing.result.ok
            assert made.log.count("look 1") == reads
            assert made.log.index("noted x") < len(made.log) - 1 - made.log[::-1].index("look 1")


async def test_two_reads_that_look_the_same_are_made_anew_behind_a_call_with_effects() -> None:
    main = "async def main():\n    return [await look(1), await look(1)]\n"
    async with world() as (runtime, made), runtime._writing() as writing:
        writing.receive(main)
        await logged(made, "looked 1", 2)
        result = await writing.finish(f"{main}\nawait note('x')\nawait main()")
        assert (result.value, result.path) == ([1, 1], "plan")
        assert made.log.count("look 1") == 4
        assert len(result.speculative) == 2


async def test_the_finished_text_decides_and_text_that_was_rewritten_answers_nothing() -> None:
    async with world() as (runtime, made), runtime._writing() as writing:
        writing.receive("a = await look(1)\nb = await look(2)\n")
        await logged(made, "looked 2")
        result = await writing.finish("a = await look(1)\nc = await look(3)\na + c")
        assert result.value == 4
        assert [call.arguments["n"] for call in result.calls] == [1, 3]
        assert [call.arguments["n"] for call in result.speculative] == [1, 2]
        assert made.log.count("look 1") == 2
        with pytest.raises(ConfigurationError, match="was run already"):
            await writing.finish("1")


async def test_a_text_that_begins_anew_discards_its_calls_and_after_eight_of_them_nothing_begins_early() -> None:
    async with world() as (runtime, made):
        async with runtime._writing() as writing:
            for count in range(1, 5):
                writing.receive("a = await look(1)\nb = await look(2)\n")
                await logged(made, "looked 2", count)
                writing.restart()
            writing.receive("a = await look(1)\n")
            await a_while()
            result = await writing.finish("a = await look(1)\na")
        assert (result.value, len(result.calls), len(result.speculative)) == (1, 1, 8)
        assert not result.calls[0].early
        assert made.log.count("look 1") == 5


async def test_calls_for_nothing_do_not_count_for_max_tool_calls() -> None:
    for rest in ("a", "while False: pass\na"):
        async with boxed() as (runtime, made):
            async with runtime._writing(limits=Limits(max_tool_calls=3)) as writing:
                writing.receive("a = await look(1)\nb = await look(2)\n")
                await logged(made, "looked 2")
                writing.restart()
                writing.receive("a = await look(3)\n")
                await logged(made, "looked 3")
                result = await writing.finish(f"a = await look(3)\nawait note('x')\nawait note('y')\n{rest}")
            assert result.error is None
            assert (result.value, len(result.calls), len(result.speculative)) == (3, 3, 2)
            too_many = f"a = await look(1)\nawait note('x')\nawait note('y')\nawait note('z')\n{rest}"
            result = await run(runtime, too_many, limits=Limits(max_tool_calls=3))
            assert result.error is not None
            assert (result.error.limit, len(result.calls)) == ("max_tool_calls", 3)


async def test_calls_for_nothing_that_reach_max_tool_calls_take_nothing_from_the_program() -> None:
    for rest in ("a", "while False: pass\na"):
        async with boxed() as (runtime, made), runtime._writing(limits=Limits(max_tool_calls=2)) as writing:
            writing.receive("a = await look(1)\nb = await look(2)\n")
            await logged(made, "looked 2")
            writing.restart()
            writing.receive("a = await look(3)\n")
            await a_while()
            assert "look 3" not in made.log
            result = await writing.finish(f"a = await look(3)\nawait note('x')\n{rest}")
        assert result.error is None
        assert [(call.tool, call.early) for call in result.calls] == [("look", False), ("note", False)]
        assert [call.arguments["n"] for call in result.speculative] == [1, 2]


async def test_artifacts_of_calls_for_nothing_are_not_the_programs() -> None:
    @tool(read_only=True)
    async def report(n: int) -> Artifact:
        """Makes a file."""
        return Artifact.from_bytes(b"x", f"{n}.txt")

    for rest in ("a", "while False: pass\na"):
        async with opened(report, pool_size=0) as runtime, runtime._writing() as writing:
            writing.receive("a = await report(1)\n")
            await holds(lambda writing=writing: writing.run.products.artifacts)  # type: ignore[misc]
            writing.restart()
            result = await writing.finish(f"a = await report(2)\n{rest}")
            assert [each.name for each in result.artifacts] == ["2.txt"]


async def test_a_program_that_check_stops_says_what_ran_for_nothing() -> None:
    async with world() as (runtime, made):
        async with Writing(runtime, "a = await look(1)\nawait lok(2)") as writing:
            await writing.until("\n")
            await logged(made, "looked 1")
        assert writing.result is not None
        assert writing.result.error is not None
        assert writing.result.error.kind == "CheckFailed"
        assert (writing.result.calls, len(writing.result.speculative)) == ([], 1)
        assert writing.result.usage.tool_calls == 1
        result = await run(runtime, "a = await look(1)\nwhile a: pass")
        assert result.error is not None
        assert (result.error.kind, result.calls) == ("NotAGraph", [])


async def test_the_wall_clock_begins_with_the_last_piece() -> None:
    async with world() as (runtime, _):
        async with Writing(runtime, "a = await look(1)\na", limits=Limits(wall_seconds=0.2)) as writing:
            await writing.until("\n")
            await anyio.sleep(0.3)
        assert writing.result is not None
        assert writing.result.value == 1
        result = await run(runtime, "a = await hang(1)\na", limits=Limits(wall_seconds=0.2))
        assert result.error is not None
        assert result.error.limit == "wall_seconds"
        assert [call.status for call in result.calls] == ["cancelled"]


async def test_a_text_without_end_is_refused_as_too_long() -> None:
    def endless() -> Iterator[str]:
        while True:
            yield "await look(1)\n" * 10

    async with world() as (runtime, _), runtime.stream_code(endless()) as stream:
        async for _ in stream:
            pass
    assert stream.result is not None
    assert stream.result.error is not None
    assert stream.result.error.limit == "max_source_bytes"


async def test_mistakes_and_errors_of_the_pieces_come_out_as_themselves_and_leave_nothing() -> None:
    async def broken() -> AsyncIterator[str]:
        yield "a = await hang(1)\n"
        await logged(made, "hang 1")
        raise KeyError("the stream broke")

    async with world() as (runtime, made):
        with pytest.raises(KeyError):
            await run_of(runtime, broken())
        assert made.log == ["hang 1", "given up 1"]
        with pytest.raises(ConfigurationError, match="the chunks of a program are text, not int"):
            await run_of(runtime, iter([1]))
        with pytest.raises(ConfigurationError, match="there is no path"):
            await run_of(runtime, iter(["1"]), path="fast")


async def run_of(runtime: Runtime, chunks: Any, **options: Any) -> None:
    async with runtime.stream_code(chunks, **options) as stream:
        async for _ in stream:
            pass


async def test_leaving_the_block_cancels_what_began_early() -> None:
    async with world() as (runtime, made):
        put, take = anyio.create_memory_object_stream[str](10)
        async with put, take:
            await put.send("a = await hang(1)\n")
            async with runtime.stream_code(take) as stream:
                async for event in stream:
                    assert isinstance(event, CallStarted)
                    break
        assert made.log == ["hang 1", "given up 1"]


async def test_leaving_the_runtime_ends_what_began_early() -> None:
    made = World()
    with anyio.fail_after(SECONDS):
        runtime = Runtime(made.tools(), sandbox=None)
        async with anyio.create_task_group() as tasks:
            put, take = anyio.create_memory_object_stream[str](10)
            raised: list[BaseException] = []

            async def go() -> None:
                try:
                    await run_of(runtime, take)
                except ConfigurationError as error:
                    raised.append(error)

            async with put, take:
                async with runtime:
                    tasks.start_soon(go)
                    await put.send("a = await hang(1)\n")
                    await holds(lambda: made.log)
                assert made.log == ["hang 1", "given up 1"]
                put.close()
                await holds(lambda: raised)
        assert "was left already" in str(raised[0])


async def test_records_of_early_calls_reach_the_audit_log_with_the_digest_of_the_finished_program(
    tmp_path: Path,
) -> None:
    made = World()
    code = "a = await look(1)\na"
    async with Runtime(made.tools(), sandbox=None, audit=tmp_path / "audit.jsonl") as runtime:
        whole = await runtime.execute_code(code)
        assert (await run(runtime, code)).value == whole.value
    lines = [json.loads(line) for line in (tmp_path / "audit.jsonl").read_text().splitlines()]
    kinds = [line["kind"] for line in lines if line["kind"] in ("run", "outcome", "run_ended")]
    assert kinds == ["run", "outcome", "run_ended"] * 2
    runs = [line for line in lines if line["kind"] == "run"]
    ended = [line for line in lines if line["kind"] == "run_ended"]
    assert "source_digest" not in runs[1]
    assert ended[1]["source_digest"] == runs[0]["source_digest"]


def test_without_await_the_pieces_are_waited_for_in_a_thread() -> None:
    made = World()
    seen: list[list[str]] = []

    def slowly() -> Iterator[str]:
        yield "a = await look(1)\n"
        while "looked 1" not in made.log:
            pass
        seen.append(list(made.log))
        yield "a + 1"

    with SyncRuntime(made.tools(), sandbox=None) as runtime, runtime.stream_code(slowly()) as stream:
        for _ in stream:
            pass
    assert stream.result is not None
    assert stream.result.value == 2
    assert seen == [["look 1", "looked 1"]]
