"""A program that corrects an earlier one does not repeat its successful calls, on the fast path and in the sandbox."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from callgate import (
    Allow,
    ApprovalRequest,
    Artifact,
    CodeResult,
    ConfigurationError,
    Deny,
    Limits,
    Runtime,
    SyncRuntime,
    Tool,
    ToolError,
    tool,
)
from callgate.errors import RunNotFound
from callgate.runtime.trace.saved import result_from
from runtime.conftest import opened

pytestmark = [pytest.mark.anyio]

SECONDS = 60
FAILS = "\nraise_here = [][1]"
"""Ends a program with an IndexError, on both paths."""


class Office:
    """Tools with effects that count what they did."""

    def __init__(self) -> None:
        self.sent: list[str] = []
        self.reads = 0
        self.value = 0
        self.breaks = False
        """Whether `charge` fails before it has done anything."""

    def tools(self) -> list[Tool]:
        @tool
        async def send(to: str) -> int:
            """Sends a mail; returns how many were sent."""
            self.sent.append(to)
            return len(self.sent)

        @tool
        async def charge(cents: int) -> str:
            """Charges, or fails."""
            if self.breaks:
                raise ToolError("the till is closed")
            self.sent.append(f"charge {cents}")
            return f"charged {cents}"

        @tool
        async def report(size: int) -> str:
            """Writes a long report."""
            self.sent.append(f"report {size}")
            return "ä" * size

        @tool(timeout_seconds=0.05)
        async def lose(name: str) -> str:
            """Does its work, and never answers."""
            self.sent.append(f"lose {name}")
            await anyio.sleep_forever()
            return name

        @tool(read_only=True)
        async def read(name: str = "") -> int:
            """Reads the value."""
            self.reads += 1
            return self.value

        @tool(read_only=True)
        async def count(name: str) -> int:
            """Counts how often something was read."""
            self.reads += 1
            return self.reads

        @tool(read_only=True)
        async def find() -> str:
            """Finds a name, after a while."""
            for _ in range(20):
                await anyio.lowlevel.checkpoint()
            return "x"

        @tool
        async def put(value: int) -> int:
            """Replaces the value."""
            self.value = value
            self.sent.append(f"put {value}")
            return value

        @tool(read_only=True)
        async def picture(name: str) -> Artifact:
            """Draws a picture."""
            self.reads += 1
            return Artifact.from_bytes(name.encode(), f"{name}.txt")

        @tool(fallback="send")
        async def post(to: str) -> int:
            """Never works; a mail is sent instead."""
            raise ToolError("no stamps")

        @tool(requires_approval=True)
        async def wire(cents: int) -> str:
            """Sends money."""
            self.sent.append(f"wire {cents}")
            return f"wired {cents}"

        return [send, charge, report, lose, read, count, find, put, picture, post, wire]


@asynccontextmanager
async def office(**options: Any) -> AsyncIterator[tuple[Runtime, Office]]:
    made = Office()
    if options.get("path") == "plan":
        options["sandbox"] = None
    with anyio.fail_after(SECONDS):
        async with opened(*made.tools(), pool_size=0, **options) as runtime:
            yield runtime, made


@pytest.fixture(params=["plan", "sandbox"])
def path(request: pytest.FixtureRequest) -> Any:
    return request.param


def reused(result: CodeResult) -> list[tuple[str, bool]]:
    return [(call.tool, call.reused) for call in result.calls]


async def test_successful_calls_of_the_failed_program_are_not_made_again(path: Any) -> None:
    async with office(path=path) as (runtime, made):
        failed = await runtime.execute_code("a = await send('ann')\nb = await charge(5)\nc = await send('bob')" + FAILS)
        assert failed.error is not None
        mended = await runtime.execute_code(
            "a = await send('ann')\nb = await charge(5)\nc = await send('bob')\nd = await send('cy')\n[a, b, c, d]",
            after=failed,
        )
    assert made.sent == ["ann", "charge 5", "bob", "cy"]
    assert mended.value == [1, "charged 5", 3, 4]
    assert reused(mended) == [("send", True), ("charge", True), ("send", True), ("send", False)]
    first = mended.calls[0]
    assert (first.status, first.attempts, first.arguments, first.result) == ("succeeded", 0, {"to": "ann"}, "1")
    assert mended.usage.tool_calls == 1
    assert mended.notes == ["3 calls of the earlier program were not made again: send × 2, charge"]
    assert mended.notes[0] in mended.for_model()
    assert not any(call.reused for call in failed.calls)


async def test_the_same_text_again_makes_nothing_and_fails_alike(path: Any) -> None:
    code = "a = await send('ann')\nn = await read()\nb = await send('ann')" + FAILS
    async with office(path=path) as (runtime, made):
        failed = await runtime.execute_code(code)
        again = await runtime.execute_code(code, after=failed)
    assert (made.sent, made.reads) == (["ann", "ann"], 1)
    assert again.error == failed.error
    assert reused(again) == [("send", True), ("read", True), ("send", True)]


async def test_a_repair_of_a_repair_reuses_the_calls_of_both(path: Any) -> None:
    """Also those that the second program did not come to, and those that it reused itself."""
    async with office(path=path) as (runtime, made):
        first = await runtime.execute_code("a = await send('a')\nb = await send('b')\nc = await report(9000)" + FAILS)
        second = await runtime.execute_code("a = await send('a')\nd = await send('d')" + FAILS, after=first)
        third = await runtime.execute_code(
            "x = [await send('a'), await send('b'), await send('d'), len(await report(9000)), await send('e')]\nx",
            after=second,
        )
    assert made.sent == ["a", "b", "report 9000", "d", "e"]
    assert third.value == [1, 2, 4, 9000, 5]
    assert third.usage.tool_calls == 1


async def test_each_outcome_answers_once_and_in_order(path: Any) -> None:
    async with office(path=path) as (runtime, made):
        failed = await runtime.execute_code("a = await send('a')\nb = await send('a')" + FAILS)
        mended = await runtime.execute_code(
            "import asyncio\nawait asyncio.gather(send('a'), send('a'), send('a'))", after=failed
        )
    assert mended.value == [1, 2, 3]
    assert made.sent == ["a"] * 3


async def test_arguments_are_the_same_however_they_are_written(path: Any) -> None:
    async with office(path=path) as (runtime, made):
        failed = await runtime.execute_code("a = await send('a')" + FAILS)
        mended = await runtime.execute_code("await send(to='a')", after=failed)
        other = await runtime.execute_code("await send('A')", after=failed)
    assert (mended.value, other.value) == (1, 2)
    assert made.sent == ["a", "A"]


async def test_long_results_are_whole(path: Any) -> None:
    async with office(path=path) as (runtime, made):
        failed = await runtime.execute_code("a = await report(70000)" + FAILS)
        mended = await runtime.execute_code("len(await report(70000))", after=failed)
    assert mended.value == 70000
    assert (len(failed.for_repair.texts), len(mended.for_repair.texts)) == (1, 0)
    assert made.sent == ["report 70000"]


async def test_no_long_results_are_kept_of_a_run_that_ended_well(path: Any) -> None:
    """A call whose result was not kept is not made again, and the program hears why."""
    async with office(path=path) as (runtime, made):
        ran = await runtime.execute_code("a = await report(70000)\nb = await send('a')\nb")
        assert not ran.for_repair.texts
        mended = await runtime.execute_code("b = await send('a')\nawait report(70000)", after=ran)
    assert made.sent == ["report 70000", "a"]
    assert mended.error is not None
    assert "succeeded, but its result was not kept. It was not made again" in mended.error.message


async def test_a_call_that_failed_is_made_anew(path: Any) -> None:
    async with office(path=path) as (runtime, made):
        made.breaks = True
        failed = await runtime.execute_code("a = await send('a')\nawait charge(1)")
        made.breaks = False
        mended = await runtime.execute_code("a = await send('a')\nawait charge(1)", after=failed)
    assert mended.value == "charged 1"
    assert reused(mended) == [("send", True), ("charge", False)]
    assert made.sent == ["a", "charge 1"]


async def test_an_unknown_outcome_stays_unknown_until_the_program_insists(path: Any) -> None:
    async with office(path=path) as (runtime, made):
        failed = await runtime.execute_code("await lose('x')")
        assert [call.status for call in failed.calls] == ["unknown_outcome"]
        again = await runtime.execute_code("await lose('x')", after=failed)
        assert made.sent == ["lose x"]
        third = await runtime.execute_code("await lose('x')", after=again)
        assert made.sent == ["lose x"]
        insisting = "try:\n    await lose('x')\nexcept ToolError as error:\n    print(error.code, error.retryable)\n"
        if path == "sandbox":
            last = await runtime.execute_code(insisting + "await lose('x')", after=third)
            assert last.logs == "-32006 False\n"
            assert made.sent == ["lose x", "lose x"]
    for result in (again, third):
        assert result.error is not None
        assert result.error.tool == "lose"
        assert "may have happened: its outcome is unknown. It was not made again." in result.error.message
        assert [(call.status, call.reused, call.attempts) for call in result.calls] == [("unknown_outcome", True, 0)]


async def test_a_call_that_succeeded_by_its_fallback_is_not_made_again(path: Any) -> None:
    async with office(path=path) as (runtime, made):
        failed = await runtime.execute_code("await post('a')" + FAILS)
        assert [call.status for call in failed.calls] == ["failed", "succeeded"]
        mended = await runtime.execute_code("[await post('a'), await send('a')]", after=failed)
        again = await runtime.execute_code("await post('a')", after=mended)
    assert mended.value == [1, 2]
    assert again.value == 1
    assert [(call.tool, call.status, call.fallback, call.reused) for call in mended.calls] == [
        ("post", "failed", "send", True), ("send", "succeeded", None, False),
    ]  # fmt: skip
    assert made.sent == ["a", "a"]


async def test_a_fallback_of_a_new_call_is_made(path: Any) -> None:
    async with office(path=path) as (runtime, made):
        failed = await runtime.execute_code("await send('a')" + FAILS)
        mended = await runtime.execute_code("[await post('a'), await send('a')]", after=failed)
    assert mended.value == [2, 1]
    assert made.sent == ["a", "a"]


async def test_reads_are_reused_until_they_are_too_old(path: Any) -> None:
    async with office(path=path) as (runtime, made):
        failed = await runtime.execute_code("a = await read()" + FAILS)
        made.value = 7
        young = await runtime.execute_code("await read()", after=failed)
        old = await runtime.execute_code("await read()", after=failed, max_age_seconds=0)
        chained = await runtime.execute_code("await read()", after=young, max_age_seconds=0)
    assert (young.value, old.value, chained.value) == (0, 7, 7)
    assert made.reads == 3


async def test_a_new_call_with_effects_ends_all_earlier_reads(path: Any) -> None:
    async with office(path=path) as (runtime, made):
        failed = await runtime.execute_code("a = await read('x')\nb = await read('y')" + FAILS)
        mended = await runtime.execute_code(
            "a = await read('x')\nn = await put(3)\nb = await read('y')\n[a, b]", after=failed
        )
    assert mended.value == [0, 3]
    assert made.reads == 3


async def test_a_read_does_not_answer_behind_an_effect_that_came_after_it(path: Any) -> None:
    async with office(path=path) as (runtime, made):
        failed = await runtime.execute_code("a = await read('x')\nn = await put(3)\nb = await read('y')" + FAILS)
        mended = await runtime.execute_code("n = await put(3)\n[await read('x'), await read('y')]", after=failed)
    assert mended.value == [3, 3]
    assert reused(mended) == [("put", True), ("read", False), ("read", True)]
    assert (made.sent, made.reads) == (["put 3"], 3)


async def test_a_value_that_was_read_and_then_changed_is_changed_once(path: Any) -> None:
    code = "n = await read()\nm = await put(n + 1)"
    async with office(path=path) as (runtime, made):
        failed = await runtime.execute_code(code + FAILS)
        mended = await runtime.execute_code(code + "\n[n, m, await read()]", after=failed)
    assert mended.value == [0, 1, 1]
    assert made.value == 1


async def test_a_read_whose_artifact_is_gone_is_made_anew(path: Any) -> None:
    async with office(path=path) as (runtime, made):
        failed = await runtime.execute_code("a = await picture('x')\nb = await picture('y')" + FAILS)
        kept, gone = (each.handle for each in failed.artifacts)
        runtime._shelf.remove(gone)
        mended = await runtime.execute_code("[await picture('x'), await picture('y')]", after=failed)
        assert mended.value[0]["artifact"] == kept
        assert mended.value[1]["artifact"] != gone
        assert runtime.artifacts.get(mended.value[1]) is not None
    assert made.reads == 3


async def test_an_approval_of_the_very_call_holds_and_changed_arguments_keep_their_key(path: Any) -> None:
    asked: list[dict[str, Any]] = []

    def approve(request: ApprovalRequest) -> Allow:
        asked.append(request.arguments)
        return Allow({"cents": 1}, by="Ada")

    async with office(path=path, approve=approve) as (runtime, made):
        failed = await runtime.execute_code("a = await wire(500)" + FAILS)
        mended = await runtime.execute_code("await wire(500)", after=failed)
        await runtime.execute_code("await wire(1)", after=failed)
    assert mended.value == "wired 1"
    call = mended.calls[0]
    assert (call.approval, call.approved_by, call.changed_arguments) == ("changed", "Ada", {"cents": 1})
    assert asked == [{"cents": 500}, {"cents": 1}]
    assert made.sent == ["wire 1", "wire 1"]


async def test_a_tool_that_needs_approval_by_now_asks_for_it(path: Any) -> None:
    """A denial holds, though the call would not be made; changed arguments are another call."""
    answers: list[Any] = [Deny("no"), True, Allow({"to": "bob"})]
    sent: list[str] = []

    @tool
    async def send(to: str) -> int:
        sent.append(to)
        return len(sent)

    with anyio.fail_after(SECONDS):
        async with opened(send, pool_size=0, path=path) as runtime:
            failed = await runtime.execute_code("await send('ann')" + FAILS)
        strict = replace(send, requires_approval=True)
        async with opened(strict, pool_size=0, path=path, approve=lambda _: answers.pop(0)) as runtime:
            denied = await runtime.execute_code("await send('ann')", after=failed)
            granted = await runtime.execute_code("await send('ann')", after=denied)
            changed = await runtime.execute_code("await send('ann')", after=failed)
            answers.append(True)
            again = await runtime.execute_code("await send('ann')", after=changed)
    assert denied.error is not None
    assert "was denied: no" in denied.error.message
    assert (granted.value, changed.value, again.value) == (1, 2, 2)
    assert [each.calls[0].reused for each in (denied, granted, changed)] == [False, True, False]
    assert sent == ["ann", "bob"]


async def test_a_tool_that_is_not_allowed_any_more_is_refused(path: Any) -> None:
    async with office(path=path) as (runtime, made):
        failed = await runtime.execute_code("await send('a')" + FAILS)
        refused = await runtime.execute_code("await send('a')", after=failed, tools=["read"], check=False)
    assert refused.error is not None
    assert not any(call.reused for call in refused.calls)
    assert made.sent == ["a"]


async def test_arguments_are_validated_against_the_schema_of_today(path: Any) -> None:
    async def old(to: str) -> str:
        return to

    async def new(to: int) -> int:
        return to

    with anyio.fail_after(SECONDS):
        async with opened(tool(name="send")(old), pool_size=0, path=path) as runtime:
            failed = await runtime.execute_code("await send('ann')" + FAILS)
        async with opened(tool(name="send")(new), pool_size=0, path=path) as runtime:
            result = await runtime.execute_code("await send('ann')", after=failed, check=False)
    assert result.error is not None
    assert "argument 'to' must be" in result.error.message
    assert [(call.status, call.reused) for call in result.calls] == [("refused", False)]


async def test_reused_calls_do_not_count_for_max_tool_calls(path: Any) -> None:
    async with office(path=path) as (runtime, made):
        failed = await runtime.execute_code("a = await send('a')\nb = await send('b')" + FAILS)
        code = "a = await send('a')\nn = await send('n')\nb = await send('b')\n[n, a, b]"
        mended = await runtime.execute_code(code, after=failed, limits=Limits(max_tool_calls=1))
        beyond = await runtime.execute_code(code + "\nawait send('m')", after=failed, limits=Limits(max_tool_calls=1))
    assert mended.value == [3, 1, 2]
    assert beyond.error is not None
    assert beyond.error.limit == "max_tool_calls"
    assert made.sent == ["a", "b", "n", "n"]


async def test_a_program_that_did_not_pass_the_check_passes_the_outcomes_on(path: Any) -> None:
    async with office(path=path) as (runtime, made):
        failed = await runtime.execute_code("a = await send('a')" + FAILS)
        wrong = await runtime.execute_code("a = await sendd('a')", after=failed)
        assert wrong.error is not None
        assert wrong.error.kind == "CheckFailed"
        mended = await runtime.execute_code("await send('a')", after=wrong)
    assert mended.value == 1
    assert made.sent == ["a"]


async def test_both_paths_share_the_outcomes() -> None:
    """Also where the fast path gives up in the middle and the sandbox begins the program anew."""
    doubt = "t = sum([i * 2 for i in range(300_000)])"
    async with office() as (runtime, made):
        failed = await runtime.execute_code("a = await send('a')\nb = await send('a')\nc = await send('c')" + FAILS)
        assert failed.path == "plan"
        code = f"a = await send('a')\nn = await send('n')\n{doubt}\nb = await send('a')\nc = await send('c')\n"
        mended = await runtime.execute_code(code + "m = await send('n')\n[a, n, b, c, m]", after=failed)
    assert (mended.path, mended.value) == ("sandbox", [1, 4, 2, 3, 5])
    assert made.sent == ["a", "a", "c", "n", "n"]
    assert reused(mended) == [("send", True), ("send", False), ("send", True), ("send", True), ("send", False)]


async def test_nothing_begins_early_that_an_earlier_read_may_answer() -> None:
    """Else the outcome of the first read could go to the second."""
    async with office(path="plan") as (runtime, made):
        failed = await runtime.execute_code("a = await read('x')\nb = await put(a + 1)\nc = await read('x')" + FAILS)
        code = ["a = await read('x')\n", "b = await put(a + 1)\n", "c = await read('x')\n", "[a, b, c]\n"]
        async with runtime.stream_code(code, after=failed) as stream:
            async for _ in stream:
                pass
    assert stream.result is not None
    assert stream.result.value == [0, 1, 1]
    assert (made.reads, made.sent) == (2, ["put 1"])
    assert stream.result.speculative == []


async def test_earlier_reads_answer_in_the_order_of_the_program(path: Any) -> None:
    """On the fast path, the last call could begin first, since its arguments are known first."""
    async with office(path=path) as (runtime, made):
        failed = await runtime.execute_code("a = await count('x')\nb = await count('x')" + FAILS)
        mended = await runtime.execute_code(
            "n = await find()\na = await count(n)\nb = await count('x')\n[a, b, await count('x')]", after=failed
        )
    assert mended.value == [1, 2, 3]
    assert made.reads == 3


async def test_the_final_answer_is_never_an_earlier_one(path: Any) -> None:
    async with office(path=path) as (runtime, made):
        failed = await runtime.execute_code("a = await send('a')" + FAILS, final_answer=int)
        mended = await runtime.execute_code("a = await send('a')\nfinal_answer(a)", after=failed, final_answer=int)
        again = await runtime.execute_code("a = await send('a')\nfinal_answer(a)", after=mended, final_answer=int)
    for each in (mended, again):
        assert each.final_answer is not None
        assert (each.final_answer.value, each.final_answer.went_on) == (1, "")
    assert made.sent == ["a"]


async def test_a_result_that_was_saved_has_what_its_records_have(path: Any) -> None:
    """Nobody knows when its reads were made, so they are made anew."""
    async with office(path=path) as (runtime, made):
        failed = await runtime.execute_code("a = await send('a')\nb = await read()" + FAILS)
        saved = result_from(failed.to_dict())
        assert isinstance(saved, CodeResult)
        mended = await runtime.execute_code("[await send('a'), await read()]", after=saved)
    assert mended.value == [1, 0]
    assert reused(mended) == [("send", True), ("read", False)]
    assert made.sent == ["a"]


async def test_what_is_not_a_result_of_a_program_is_refused() -> None:
    async with office(path="plan") as (runtime, _):
        plan = await runtime.execute_tool_plan({"steps": [{"id": "a", "tool": "read", "arguments": {}}]})
        wrong: Any
        for wrong, words in ((plan, "not that of a plan"), (7, "not 7"), ([plan], "not that of a plan")):
            with pytest.raises(ConfigurationError, match=words):
                await runtime.execute_code("1", after=wrong)
        with pytest.raises(RunNotFound, match="there is no run 'run_1' here"):
            await runtime.execute_code("1", after="run_1")
        failed = await runtime.execute_code("await send('a')" + FAILS)
        for wrong in (-1, "60", float("nan")):
            with pytest.raises(ConfigurationError, match="max_age_seconds is a number of seconds"):
                await runtime.execute_code("1", after=failed, max_age_seconds=wrong)


async def test_the_id_of_a_run_is_looked_up() -> None:
    async with office(path="plan") as (runtime, made):
        failed = await runtime.execute_code("a = await send('a')" + FAILS)

        async def find(run: str) -> CodeResult:
            assert run == "run_1"
            return failed

        runtime._find_run = find
        assert (await runtime.execute_code("await send('a')", after="run_1")).value == 1
    assert made.sent == ["a"]


@pytest.mark.sampled
@pytest.mark.parametrize("seed", range(40))
async def test_every_effect_is_made_exactly_once(seed: int, path: Any) -> None:
    """A random program fails at a random statement; the corrected one has all its other statements."""
    draw = random.Random(seed)
    statements = [_statement(draw, number) for number in range(draw.randint(1, 8))]
    place = draw.randint(0, len(statements))
    async with office(path=path) as (runtime, made):
        failed = await runtime.execute_code("\n".join([*statements[:place], FAILS, *statements[place:]]))
        assert not failed.ok
        whole = "\n".join(statements)
        mended = await runtime.execute_code(whole, after=failed)
        assert mended.ok, mended.error
        once = sorted(made.sent)
        made.sent.clear()
        made.value = 0
        afresh = await runtime.execute_code(whole)
        assert afresh.ok
    assert once == sorted(made.sent)


def _statement(draw: random.Random, number: int) -> str:
    def call() -> str:
        return draw.choice(["send('a')", "send('b')", "charge(1)", "report(5000)", "post('a')", "read()"])

    match draw.randint(0, 3):
        case 0:
            return f"r{number} = await {call()}"
        case 1:
            calls = ", ".join(call() for _ in range(draw.randint(2, 4)))
            return f"import asyncio\nr{number} = await asyncio.gather({calls})"
        case 2:
            return f"r{number} = [await send(x) for x in {draw.choices('abc', k=3)}]"
        case _:
            return f"v{number} = await read()\nr{number} = await put(v{number} + 1)"


def test_a_sync_runtime_takes_the_earlier_result_too() -> None:
    sent: list[str] = []

    def send(to: str) -> int:
        """Sends."""
        sent.append(to)
        return len(sent)

    with SyncRuntime([send], sandbox=None) as runtime:
        failed = runtime.execute_code("a = await send('a')" + FAILS)
        mended = runtime.execute_code("a = await send('a')\na", after=failed)
        with runtime.stream_code("a = await send('a')\na", after=failed) as stream:
            for _ in stream:
                pass
        answer = runtime.answer("execute_code", {"code": "a = await send('a')\na"}, after=failed)
    assert (mended.value, answer.ok, answer.result and answer.result.value) == (1, True, 1)  # type: ignore[union-attr]
    assert stream.result is not None
    assert stream.result.value == 1
    assert sent == ["a"]
