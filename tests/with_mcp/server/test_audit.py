"""The audit log of `callgate serve` names the client that asked, for each program, plan and call."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

import anyio
import httpx2
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import Implementation

from callgate.runtime.audit.chain import Keys
from callgate.runtime.audit.keys import read_key
from callgate.runtime.audit.verify import verify
from with_mcp.server.served import ERAS, SECONDS, Served

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("era", ERAS)]

ARGUMENTS = ("--audit", "audit.jsonl", "--pass", "get_weather")


@contextlib.asynccontextmanager
async def client_called(name: str, transport: Any, era: str) -> AsyncIterator[Client]:
    info = Implementation(name=name, version="1.2")
    with anyio.fail_after(SECONDS):
        async with Client(transport, mode=era, client_info=info, read_timeout_seconds=SECONDS) as client:
            yield client


@contextlib.asynccontextmanager
async def client_over_http(name: str, url: str, era: str) -> AsyncIterator[Client]:
    async with (
        httpx2.AsyncClient(timeout=SECONDS) as http,
        client_called(name, streamable_http_client(url, http_client=http), era) as client,
    ):
        yield client


async def ask_everything(client: Client) -> None:
    code = {"code": "(await get_weather(city='Oslo'))['temp']"}
    assert (await client.call_tool("execute_code", code)).structured_content["value"] == 4
    steps = [{"id": "a", "tool": "names", "arguments": {}}]
    assert not (await client.call_tool("execute_tool_plan", {"steps": steps})).is_error
    assert not (await client.call_tool("get_weather", {"city": "Rome"})).is_error


def records(served: Served) -> list[dict[str, Any]]:
    """The lines of the log, which is whole."""
    path = served.folder / "audit.jsonl"
    with path.open("rb") as file:
        assert verify(file, Keys(read_key(path.with_name("audit.jsonl.key")))).ok
    return [json.loads(line) for line in path.read_text().splitlines()]


async def test_of_two_clients_each_is_named_at_what_it_asked_for(served: Served, era: str) -> None:
    with served.http(*ARGUMENTS) as (url, _):
        async with client_over_http("ann's editor", url, era) as ann, client_over_http("bob", url, era) as bob:
            await ask_everything(ann)
            await ask_everything(bob)
    asked = [each for each in records(served) if "client" in each]
    assert [(each["kind"], each.get("run_kind")) for each in asked] == [
        ("run", "code"), ("run", "plan"), ("outcome", None),
    ] * 2  # fmt: skip
    sessions, names = zip(*(each["client"].split(" ", 1) for each in asked), strict=True)
    assert names == ("ann's editor 1.2",) * 3 + ("bob 1.2",) * 3
    assert all(session.startswith("client_") for session in sessions)
    assert not set(sessions[:3]) & set(sessions[3:])
    if era == "legacy":  # a client session
        assert len(set(sessions)) == 2
    runs = {each["run"]: each["client"] for each in asked}
    calls = [each for each in records(served) if each["kind"] == "outcome"]
    assert [runs[each["run"]].partition(" ")[2] for each in calls] == list(names)


async def test_a_name_that_a_client_gives_itself_breaks_no_line_and_no_bounds(served: Served, era: str) -> None:
    name = 'x\n{"v":1,"at":"now","kind":"closed"}\x1b[2J\u202e' + "y" * 100_000
    command, *rest = served.line(*ARGUMENTS)
    server = StdioServerParameters(command=command, args=rest, env=served.environment, cwd=served.folder)
    with open(served.folder / "stderr", "w") as log:  # noqa: ASYNC230 (the client wants a file)
        async with client_called(name, stdio_client(server, errlog=log), era) as client:
            await ask_everything(client)
    found = records(served)
    assert [each["kind"] for each in found if each["kind"] in ("opened", "closed")] == ["opened", "closed"]
    clients = {each["client"] for each in found if "client" in each}
    assert len(clients) == 1
    assert len(clients.pop()) < 300
