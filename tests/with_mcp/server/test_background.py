"""Programs in the background over MCP: begun, waited for and stopped; whose they are; how they are approved."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import Any

import anyio
import pytest
from mcp import Client
from mcp_types import CallToolResult, ElicitResult

from with_mcp.server.served import ERAS, Ear, Served, text, until

pytestmark = pytest.mark.anyio

BACKGROUND = ["start_code", "wait_run", "stop_run"]
GRAPH = "await wipe(table='users')"


def decided(served: Served, *arguments: str) -> str:
    """What `callgate runs` says in another process."""
    line = [sys.executable, "-m", "callgate", "runs", "--durable", "runs.db", *arguments]
    done = subprocess.run(line, cwd=served.folder, env=served.environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def run_in(result: CallToolResult) -> str:
    """The id of the run that an answer names."""
    found = re.search(r"run_[\w-]+", text(result))
    assert found is not None, text(result)
    return found[0]


async def called(client: Client, name: str, **arguments: Any) -> str:
    return text(await client.call_tool(name, arguments))


async def test_clients_have_the_tools_only_where_they_are_asked_for(served: Served) -> None:
    async with served.client() as client:
        assert not set(BACKGROUND) & {each.name for each in (await client.list_tools()).tools}
        refused = await client.call_tool("start_code", {"code": "1"})
        assert refused.is_error
    async with served.client("--background") as client:
        tools = {each.name: each for each in (await client.list_tools()).tools}
        assert list(tools)[-3:] == BACKGROUND
        hints = tools["start_code"].annotations
        assert hints is not None
        assert hints.destructive_hint is True


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_a_program_goes_on_while_its_client_does_other_things(served: Served, era: str, transport: str) -> None:
    async def used(client: Client) -> None:
        begun = await client.call_tool("start_code", {"code": "print('so far')\nawait wait_for_go()"})
        run = run_in(begun)
        assert (begun.structured_content or {})["run"] == run
        under_way = await client.call_tool("wait_run", {"run": run, "seconds": 0.05})
        assert f'Run "{run}" is still running' in text(under_way)
        assert not under_way.is_error
        assert await called(client, "execute_code", code="1 + 1") == "Value: 2"
        await anyio.to_thread.run_sync((served.folder / "go").write_text, "went")
        ended = await client.call_tool("wait_run", {"run": run})
        assert text(ended) == "so far\nValue: went"
        assert (ended.structured_content or {})["value"] == "went"
        assert "has ended before" in await called(client, "stop_run", run=run)
        assert "you have no run 'run_of_another'" in await called(client, "wait_run", run="run_of_another")

    if transport == "stdio":
        async with served.client("--background", era=era) as client:
            await used(client)
    else:
        with served.http("--background") as (url, _):
            async with served.http_client(url, era=era) as client:
                await used(client)


async def test_a_run_belongs_to_the_session_that_began_it_and_ends_with_it(served: Served) -> None:
    with served.http("--background") as (url, _):
        async with served.http_client(url) as one:
            run = run_in(await one.call_tool("start_code", {"code": "await hold(name='mine')"}))
            await until((served.folder / "mine.begun").exists)
            async with served.http_client(url) as other:
                assert "you have no run" in await called(other, "wait_run", run=run, seconds=0)
                assert "you have no run" in await called(other, "stop_run", run=run)
        await until((served.folder / "mine.ended").exists)


async def test_a_client_may_stop_its_run(served: Served) -> None:
    async with served.client("--background") as client:
        run = run_in(await client.call_tool("start_code", {"code": "await hold(name='x')"}))
        await until((served.folder / "x.begun").exists)
        assert "is being stopped" in await called(client, "stop_run", run=run)
        await until((served.folder / "x.ended").exists)
        ended = await client.call_tool("wait_run", {"run": run})
        assert ended.is_error
        assert "cancelled" in text(ended)


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("options", [["--background"], ["--durable", "runs.db"]])
async def test_a_user_is_asked_while_the_client_waits_for_the_run(served: Served, era: str, options: list[str]) -> None:
    ear = Ear()
    async with served.client(*options, ear=ear, era=era) as client:
        run = run_in(await client.call_tool("start_code", {"code": GRAPH}))
        assert await called(client, "wait_run", run=run) == "Value: wiped users"
    assert ear.asked == ['The program wants to call the destructive tool wipe with {"table": "users"}. Allow it?']


@pytest.mark.parametrize("era", ERAS)
async def test_a_no_reaches_the_program_and_the_page_says_whose_it_was(served: Served, era: str) -> None:
    ear = Ear()
    ear.answer = lambda _: ElicitResult(action="decline")
    async with served.client("--durable", "runs.db", ear=ear, era=era) as client:
        result = await client.call_tool("execute_code", {"code": GRAPH})
        assert result.is_error
        assert "the user said no" in text(result)
    shown = decided(served, "show", decided(served, "list").split()[0])
    assert re.search(r"denied by 'the user of client_\w+ .*' \(as the caller said\)", shown), shown


@pytest.mark.parametrize("era", ERAS)
async def test_where_the_client_cannot_ask_the_run_waits_and_somebody_else_decides(served: Served, era: str) -> None:
    async with served.client("--durable", "runs.db", era=era, elicits=False) as client:
        waits = await client.call_tool("execute_code", {"code": GRAPH})
        run = run_in(waits)
        assert not waits.is_error
        assert f"callgate runs --durable runs.db approve {run}" in text(waits)
        assert "approved wipe" in decided(served, "approve", run, "--by", "ann")
        assert await called(client, "wait_run", run=run) == "Value: wiped users"
    assert "granted by 'ann' (as the caller said)" in decided(served, "show", run)


async def test_a_run_outlives_its_server_and_the_next_client_on_the_pipe_finds_it(served: Served) -> None:
    async with served.client("--durable", "runs.db", elicits=False) as client:
        run = run_in(await client.call_tool("start_code", {"code": "n = await names()\nawait wipe(table=n[0])"}))
        assert "waits for the approval" in await called(client, "wait_run", run=run)
    decided(served, "approve", run, "--by", "ann")
    async with served.client("--durable", "runs.db", elicits=False) as client:
        assert await called(client, "wait_run", run=run) == "Value: wiped Oslo"


async def test_a_call_that_its_client_cancels_stops_its_run(served: Served) -> None:
    async with served.client("--durable", "runs.db") as client:
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as tasks:

                async def run() -> None:
                    await client.call_tool("execute_code", {"code": "await hold(name='x')"})

                tasks.start_soon(run)
                await until((served.folder / "x.begun").exists)
                scope.cancel()
        await until((served.folder / "x.ended").exists)
        await until(lambda: "cancelled" in decided(served, "list"))


async def test_in_memory_nobody_else_can_decide_so_the_call_is_refused(served: Served) -> None:
    async with served.client("--background", elicits=False) as client:
        run = run_in(await client.call_tool("start_code", {"code": GRAPH}))
        assert "this client cannot ask its user" in await called(client, "wait_run", run=run)


async def test_the_server_says_where_runs_are_kept(served: Served) -> None:
    async with served.client("--durable", "runs.db") as client:
        await client.list_tools()
        assert "runs are kept in runs.db" in served.log
    assert (served.folder / "runs.db").stat().st_mode & 0o777 == 0o600
