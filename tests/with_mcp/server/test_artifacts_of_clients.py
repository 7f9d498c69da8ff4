"""Handles of MCP clients: each client session has its own; a request without a session knows what it was given."""

from __future__ import annotations

import re
from typing import Any

import pytest
from mcp.client import Client
from mcp.shared.exceptions import MCPError

from callgate import Artifact, Runtime, tool
from callgate.artifacts import NOT_HERE, Artifacts
from callgate.mcp.server import resources
from callgate.mcp.server.clients import Serving
from callgate.mcp.server.gateway import Gateway

pytestmark = pytest.mark.anyio


@tool
async def draw() -> Artifact:
    """Draws."""
    return Artifact.from_bytes(b"a,b", "a.csv")


@tool
async def size(file: Artifact) -> int:
    """Its size."""
    return file.size_bytes


async def run(client: Client, code: str, **more: Any) -> Any:
    result: Any = await client.call_tool("execute_code", {"code": code, **more})
    return result


async def test_a_handle_of_another_client_finds_nothing_and_its_own_goes_when_the_client_goes() -> None:
    async with Runtime([draw, size], pool_size=0) as runtime:
        server = Gateway(runtime, Serving(direct=("*",))).server
        async with Client(server, mode="legacy") as one, Client(server, mode="legacy") as other:
            handle = (await run(one, "await draw()")).structured_content["value"]["artifact"]
            send = f"await size({handle!r})"
            assert (await run(one, send)).structured_content["value"] == 3
            kept: Any = await one.call_tool("size", {"file": handle})
            assert not kept.is_error
            refused: Any = await other.call_tool("size", {"file": handle})
            for result in (refused, await run(other, send), await run(other, send, session="new")):
                assert result.is_error
                assert NOT_HERE in result.content[0].text
            begun = await run(one, f"x = {handle!r}\n{send}", session="new")
            assert begun.structured_content["value"] == 3, begun
            assert [each.name for each in (await one.list_resources()).resources] == ["a.csv"]
            assert (await other.list_resources()).resources == []
        assert len(runtime.artifacts) == 0


async def test_the_shelf_of_a_client_outlives_a_change_of_its_list_of_tools() -> None:
    runtime = Runtime([draw, size], pool_size=0)
    async with runtime, Client(Gateway(runtime, Serving(direct=("*",))).server, mode="legacy") as client:
        handle = (await run(client, "await draw()")).structured_content["value"]["artifact"]

        @tool
        async def more() -> int:
            return 1

        runtime.registry.add(more)
        assert (await run(client, f"await size({handle!r})")).structured_content["value"] == 3


async def test_a_client_whose_list_grows_gets_read_artifact_once_it_has_something_to_read() -> None:
    async with Runtime([draw, size], pool_size=0) as runtime:
        server = Gateway(runtime, Serving(reveal=True)).server
        async with Client(server, mode="legacy") as one, Client(server, mode="legacy") as other:
            assert "read_artifact" not in [each.name for each in (await one.list_tools()).tools]
            handle = (await run(one, "await draw()")).structured_content["value"]["artifact"]
            assert [each.name for each in (await one.list_tools()).tools][-1] == "read_artifact"
            assert "read_artifact" not in [each.name for each in (await other.list_tools()).tools]
            read: Any = await one.call_tool("read_artifact", {"artifact": handle, "offset": 2})
            assert read.content[0].text == "a.csv (text/csv, 3 bytes), bytes 2 to 3; the end:\nb"
            assert (read.structured_content["text"], read.structured_content["next_offset"]) == ("b", None)
            await run(other, "await draw()")
            refused: Any = await other.call_tool("read_artifact", {"artifact": handle})
            assert refused.is_error
            assert NOT_HERE in refused.content[0].text


async def test_a_client_whose_list_stays_reads_on_in_a_program() -> None:
    runtime = Runtime([draw, size], pool_size=0)
    async with runtime, Client(Gateway(runtime, Serving()).server, mode="legacy") as client:
        result = await run(client, "print('x' * 20_000)")
        found = re.search(r'read_artifact\("(art_[0-9a-f]{32})", offset=(\d+)\)', result.content[0].text)
        assert found is not None
        read = await run(client, f"(await read_artifact({found[1]!r}, offset={found[2]}, limit=7)).text")
        assert read.structured_content["value"] == "x" * 7
        assert "read_artifact" not in [each.name for each in (await client.list_tools()).tools]


async def test_what_is_too_long_for_http_is_refused_before_it_is_encoded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Encoding 32 MB takes the event loop most of a second, and any client may ask for it again and again."""
    monkeypatch.delattr("base64.b64encode")
    shelf = Artifacts().shelf()
    kept = shelf.add(Artifact.from_bytes(b"\0" * 2_000_000, "large.bin"))
    with pytest.raises(MCPError, match=r"large.bin has 2,000,000 bytes, and clients read 1,000,000 over HTTP"):
        resources.read(shelf, f"{resources.SCHEME}{kept.handle}", http=True)
