"""Tools that change: at once in every list, with a notification to clients once they have settled."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from mcp import Client
from mcp_types import ToolListChangedNotification

from callgate import Runtime, Tool
from callgate.mcp.server import Serving
from callgate.mcp.server.gateway import Gateway
from with_mcp.server.served import ERAS, SECONDS, Ear, until

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    backend: str = request.param
    return backend


async def call(**arguments: Any) -> Any:
    return arguments


def one(name: str) -> Tool:
    return Tool.from_schema(f"s_{name}", name, {"type": "object"}, call, server="s", server_tool=name)


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("reveal", [False, True])
async def test_changes_are_seen_at_once_and_told_once(era: str, reveal: bool) -> None:
    ear = Ear()

    def told() -> int:
        return sum(isinstance(each, ToolListChangedNotification) for each in ear.messages)

    async with Runtime(sandbox=None) as runtime:
        gateway = Gateway(runtime, Serving(direct=("s.*",), reveal=reveal))
        with anyio.fail_after(SECONDS):
            async with Client(gateway.server, mode=era, message_handler=ear.message) as client:
                for n in range(20):
                    runtime.registry.replace_server("s", [one(f"tool{n}")])
                    listed = {each.name for each in (await client.list_tools(cache_mode="bypass")).tools}
                    assert f"s_tool{n}" in listed
                assert not (await client.call_tool("s_tool19", {})).is_error
                if era == "legacy":
                    await until(lambda: told() > 0)
                assert told() < 5
