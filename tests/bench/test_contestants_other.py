"""UTCP's code mode as a contestant, and what is said of those that run programs and have no tools."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from bench.interpreters import python_of
from callgate.bench.contestants.listed import PEERS
from callgate.bench.peers.process import PeerProcess
from callgate.bench.workloads import WORKLOADS
from callgate.bench.workloads.dialects import rewrite
from callgate.bench.workloads.workload import ScriptFailed

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    """The harness runs on asyncio, and so do the peers."""
    return "asyncio"


@asynccontextmanager
async def utcp(*arguments: str) -> AsyncIterator[PeerProcess]:
    """The contestant in a process of its own."""
    python = await python_of("utcp", "utcp_code_mode")
    async with PeerProcess(
        "UTCP", "callgate.bench.contestants.utcp_code", arguments=arguments, python=python
    ) as process:
        yield process


async def run(process: PeerProcess, *programs: str) -> dict[str, Any]:
    """What came of a turn."""
    calls = [{"tool": "call_tool_chain", "arguments": {"code": each}} for each in programs]
    return await process.ask("turn", calls=calls)


async def played(process: PeerProcess, workload: str) -> str:
    """How a workload ended: ``right``, what is wrong, or what the model could not go on with."""
    found = WORKLOADS[workload]
    opened = await process.ask("open", workload=workload, paced=0)
    script = found.programs()
    try:
        program = next(script)
        while True:
            written = rewrite(program, opened["dialect"], [each.__name__ for each in found.tools])
            program = script.send((await run(process, written))["texts"][0])
    except StopIteration as ended:
        return found.wrong(ended.value) or "right"
    except ScriptFailed as failed:
        return str(failed)


async def test_utcp_shows_its_own_words_and_the_interfaces_of_the_tools() -> None:
    async with utcp() as process:
        opened = await process.ask("open", workload="regions", paced=0)
    assert [each["name"] for each in opened["tools"]] == [opened["tool"]] == ["call_tool_chain"]
    assert opened["own_words"]
    assert opened["system"].startswith("## UTCP CodeMode Tool Usage Guide")
    assert "Access as: tools.query_sales(args)" in opened["system"]


async def test_utcp_calls_tools_one_after_the_other_and_tells_what_a_program_returned() -> None:
    async with utcp() as process:
        await process.ask("open", workload="regions", paced=0)
        program = "a = tools.query_sales(region='north')\nb = tools.query_sales(region='south')\nreturn len([a, b])"
        turn = await run(process, program)
        failed = await run(process, "return tools.query_sales(of='north')")
    assert turn["texts"] == ['{"result": 2, "logs": []}']
    (first, second) = turn["intervals"]
    assert second[0] >= first[1]
    assert "unexpected keyword argument 'of'" in failed["texts"][0]


async def test_utcp_as_published_has_no_loops_and_no_items() -> None:
    async with utcp() as process:
        ends = {name: await played(process, name) for name in ("monitoring", "regions")}
        turn = await run(process, "return [each for each in 'ab']")
    assert "name '_getitem_' is not defined" in ends["monitoring"]
    assert "is not defined" in ends["regions"]
    assert "name '_getiter_' is not defined" in turn["texts"][0]


async def test_utcp_with_guards_does_what_restricted_python_compiles() -> None:
    async with utcp("guarded") as process:
        ends = {name: await played(process, name) for name in WORKLOADS}
    failed = {name: end for name, end in ends.items() if end != "right"}
    assert list(failed) == ["aggregation"]
    assert "AnnAssign statements are not allowed" in failed["aggregation"]


def test_those_without_tools_keep_a_row_that_says_why() -> None:
    reasons = {each.name: each.cannot for each in PEERS if not each.module}
    assert set(reasons) == {"llm-sandbox", "bubblewrap", "docker"}
    assert all("has no tools" in each for each in reasons.values())


def test_llm_sandbox_still_gives_programs_no_way_to_the_host() -> None:
    pytest.importorskip("llm_sandbox", reason="llm-sandbox is not installed")
    from llm_sandbox.docker import SandboxDockerSession  # type: ignore[import-untyped]

    taken = set(inspect.signature(SandboxDockerSession.run).parameters)
    assert {each for each in taken if "on_" in each or "tool" in each or "func" in each} <= {"on_stdout", "on_stderr"}
