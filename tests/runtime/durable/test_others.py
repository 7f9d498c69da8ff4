"""Processes that share a file of runs and do not have the same tools: a run goes on where its tools are, and a tool
that is nowhere is told."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import anyio
import pytest

from callgate import Limits, Runtime, Tool, tool
from callgate.durable.sqlite import SqliteStore
from callgate.durable.store import Decision, RunStatus, StoredRun
from callgate.runtime.durable.others import LEAVES_SECONDS, LeftToOthers
from callgate.runtime.durable.starting import new_run
from durable.stored import run as stored_run
from runtime.durable.waiting import asked, becomes, until

pytestmark = pytest.mark.anyio

GONE = "the tool 'refund' does not exist any more: register it again; then resume the run"


def left(clock: list[float], *known: str) -> LeftToOthers:
    return LeftToOthers(set(known), lambda: clock[0])


def needs(*names: str, status: RunStatus = "running", cancelled: bool = False, run: str = "a") -> StoredRun:
    return stored_run(run, options=json.dumps({"offered": names}), status=status, cancelled=cancelled)


def test_a_run_is_left_alone_for_a_while_if_a_tool_is_missing() -> None:
    clock = [100.0]
    others = left(clock, "look")
    assert not others.leave(needs("look"))
    assert not others.has("a")
    assert others.leave(needs("look", "refund"))
    assert others.has("a")
    clock[0] += LEAVES_SECONDS - 0.1
    assert others.has("a")
    assert others.leave(needs("look", "refund"))
    clock[0] += 0.2
    assert not others.has("a")
    assert not others.leave(needs("look", "refund"))


def test_a_run_that_others_have_taken_meanwhile_is_left_alone_anew() -> None:
    clock = [100.0]
    others = left(clock)
    assert others.leave(needs("refund"))
    assert others.leave(needs("refund", run="b"))
    clock[0] += LEAVES_SECONDS
    others.keep(["b", "c"])
    assert len(others) == 1
    assert others.leave(needs("refund"))
    assert not others.leave(needs("refund", run="b"))


def test_a_run_that_says_so_already_is_left_alone_until_its_tool_is_here() -> None:
    clock, known = [100.0], {"look"}
    others = LeftToOthers(known, lambda: clock[0])
    assert others.leave(needs("refund", status="needs_attention"))
    assert others.has("a")
    clock[0] += LEAVES_SECONDS + 0.1
    assert not others.has("a")
    assert others.leave(needs("refund", status="needs_attention"))  # another look, with the same outcome
    assert others.has("a")
    known.add("refund")
    assert not others.has("a")
    assert not others.leave(needs("refund", status="needs_attention"))
    assert len(others) == 0


def test_a_run_that_is_to_end_is_left_to_nobody() -> None:
    assert not left([0.0]).leave(needs("refund", cancelled=True))


def test_a_run_that_was_settled_is_not_left_alone_for_ever() -> None:
    clock = [100.0]
    others = left(clock)
    assert others.leave(needs("refund", status="needs_attention"))
    clock[0] += LEAVES_SECONDS + 0.1
    assert not others.leave(needs("refund"))


def test_many_runs_that_need_attention_are_looked_at_less_often() -> None:
    clock = [100.0]
    others = left(clock)
    for n in range(1_000):
        assert others.leave(needs("refund", status="needs_attention", run=str(n)))
    clock[0] += LEAVES_SECONDS + 0.1
    assert not others.has("0")
    assert others.leave(needs("refund", status="needs_attention", run="0"))
    clock[0] += 9 * LEAVES_SECONDS
    assert others.has("0")


@tool(requires_approval=True)
async def refund(order: int) -> str:
    return f"refunded {order}"


def opened(folder: Path, *tools: Tool) -> Runtime:
    return Runtime(tools, sandbox=None, durable=SqliteStore(folder / "runs.db"))


async def approved(folder: Path) -> str:
    """A run whose process has gone, and whose call somebody has approved since, in a process that runs nothing."""
    async with opened(folder, refund) as runtime:
        run = await runtime.start("await refund(order=17)")
        await asked(runtime)
        await becomes(runtime, run, "waiting")
    store = SqliteStore(folder / "runs.db")
    async with store.opened():
        (question,) = await store.pending()
        await store.decide(run.id, question.call, Decision(granted=True, by="ada", time=time.time()))
    return run.id


async def epoch_of(runtime: Runtime, run: str) -> int:
    return (await runtime._runs_host.store.find(run)).epoch


async def left_alone(runtime: Runtime) -> None:
    """Return when a runtime has looked at one run, and leaves it alone."""

    async def leaves() -> bool:
        return len(runtime._runs_host._others) == 1

    await until(leaves)


async def test_a_run_is_left_to_the_process_that_has_its_tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("callgate.runtime.durable.others.LEAVES_SECONDS", 1_000.0)
    run = await approved(tmp_path)
    async with opened(tmp_path) as without:
        now = await without.runs.get(run)
        await left_alone(without)
        async with opened(tmp_path, refund) as runtime:
            with anyio.fail_after(20):
                result = await (await runtime.runs.get(run)).wait()
                assert result.value == "refunded 17"
                assert (await now.wait()).value == "refunded 17"
        assert await epoch_of(without, run) == 2  # of the process that began it, and of the one that ended it


async def test_a_tool_that_no_process_has_is_told_and_the_run_goes_on_by_itself_where_the_tool_comes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("callgate.runtime.durable.others.LEAVES_SECONDS", 0.3)
    monkeypatch.setattr("callgate.runtime.durable.live._AGAIN_SECONDS", 0.3)
    run = await approved(tmp_path)
    async with opened(tmp_path) as without:
        now = await becomes(without, await without.runs.get(run), "needs_attention")
        assert now.reason == GONE
        async with opened(tmp_path) as another:  # it finds the run as it is now
            now = await another.runs.get(run)
            await left_alone(without)
            await left_alone(another)
            assert await epoch_of(without, run) == 2
            without.registry.add(refund)
            with anyio.fail_after(20):
                assert (await now.wait()).value == "refunded 17"
            assert await epoch_of(without, run) == 3


async def test_who_resumes_a_run_where_its_tool_is_missing_is_told_at_once(tmp_path: Path) -> None:
    run = await approved(tmp_path)
    async with opened(tmp_path) as without:
        resumed = await without.runs.resume(run)
        now = await becomes(without, resumed, "needs_attention")
        assert now.reason == GONE
        assert await epoch_of(without, run) == 2


async def test_a_run_that_is_to_end_ends_where_its_tool_is_missing(tmp_path: Path) -> None:
    run = await approved(tmp_path)
    async with opened(tmp_path) as without:
        await until(lambda: _is_left(without, run))
        await without.runs.cancel(run)
        with anyio.fail_after(5):
            await becomes(without, await without.runs.get(run), "cancelled")


async def _is_left(runtime: Runtime, run: str) -> bool:
    return runtime._runs_host._others.has(run)


@pytest.mark.parametrize("by", ["itself", "another"])
async def test_a_run_that_needs_attention_for_its_tool_ends_when_it_is_cancelled(
    by: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("callgate.runtime.durable.others.LEAVES_SECONDS", 1_000.0 if by == "itself" else 0.3)
    monkeypatch.setattr("callgate.runtime.durable.live._AGAIN_SECONDS", 0.1)
    run = await approved(tmp_path)
    async with opened(tmp_path) as without:
        await without.runs.resume(run)
        now = await becomes(without, await without.runs.get(run), "needs_attention")
        await left_alone(without)
        if by == "itself":
            await without.runs.cancel(run)
        else:
            store = SqliteStore(tmp_path / "runs.db")
            async with store.opened():
                await store.cancel(run)
        await becomes(without, now, "cancelled")


@tool(read_only=True)
async def get(name: str) -> str:
    return name


@tool(name="send-mail")
async def send_mail(to: str) -> str:
    return to


CODE: list[tuple[Any, list[str]]] = [
    ('await get(name="a")', ["get"]),
    ("budget = 'get'  # get", []),
    ('"target".get', []),
    ('await send_mail(to="a")', ["send-mail"]),
    ('await tool_call("send-mail", to="a")', ["send-mail"]),
    ('name = "send_mail"\nawait tool_call(name, to="a")', ["send-mail"]),
    ('found = await search_tools("get")\nlen(found["found"])', []),
    ({"steps": [{"id": "get", "tool": "send_mail", "arguments": {"to": "get"}}]}, ["send-mail"]),
    ({"steps": [{"id": "a", "tool": "get", "arguments": {"name": "refund"}, "fallback": "send-mail"}]},
     ["get", "send-mail"]),
    ({"steps": "none"}, []),
]  # fmt: skip


@pytest.mark.parametrize(("given", "needs"), CODE)
async def test_a_run_needs_the_tools_that_its_text_names(given: Any, needs: list[str]) -> None:
    async with Runtime([get, refund, send_mail], sandbox=None) as runtime:
        run = await runtime.start(given)
        row = await runtime._runs_host.store.find(run.id)
        assert sorted(json.loads(row.options)["offered"]) == needs
        await run.wait()


async def test_a_program_that_only_a_sandbox_can_parse_needs_the_tools_that_are_words_of_it() -> None:
    code = f'await get(name="budget refunds")\n{"x = [1]; " * 20_000}'
    async with Runtime([get, refund], sandbox=None) as runtime:
        row = await new_run(
            runtime._runs_host, code, inputs=None, files=None, key=None, tools=None,
            limits=Limits(max_source_bytes=1 << 20), on_unknown="attention", approval_seconds=1.0, asks_later=False,
            belongs_to="",
        )  # fmt: skip
        assert json.loads(row.options)["offered"] == ["get"]


async def test_a_program_that_searches_tools_goes_on() -> None:
    async with Runtime([get], sandbox=None) as runtime:
        run = await runtime.start('found = await search_tools("get")\nlen(found["found"])')
        with anyio.fail_after(20):
            assert (await run.wait()).value == 1
