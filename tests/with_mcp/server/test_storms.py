"""Tools that change without end: the list is made ever less often, and the last change is seen all the same."""

from __future__ import annotations

import itertools
from typing import Any

import anyio
import pytest
from mcp import Client
from mcp_types import ToolListChangedNotification

from callgate import Runtime, Tool
from callgate.mcp.server import Serving
from callgate.mcp.server.gateway import Gateway
from callgate.mcp.server.listing import Pace
from with_mcp.server.served import ERAS, SECONDS, Ear, text, until

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
async def test_a_storm_of_changes_makes_few_lists(era: str, reveal: bool) -> None:
    ear = Ear()
    async with Runtime(sandbox=None) as runtime:
        gateway = Gateway(runtime, Serving(direct=("s.*",), reveal=reveal))
        with anyio.fail_after(SECONDS):
            async with Client(gateway.server, mode=era, message_handler=ear.message) as client:
                for n in range(50):
                    runtime.registry.replace_server("s", [one(f"tool{n}")])
                    await client.list_tools(cache_mode="bypass")
                ran = await client.call_tool("execute_code", {"code": "await s_tool49()"})
                assert ran.structured_content["value"] == {}, text(ran)  # listed or not
                assert gateway.listing.made < 12
                names: set[str] = set()
                while "s_tool49" not in names:
                    names = {each.name for each in (await client.list_tools(cache_mode="bypass")).tools}
                    await anyio.sleep(0.02)
                assert gateway.listing.made < 16
                told = sum(isinstance(each, ToolListChangedNotification) for each in ear.messages)
                assert told <= gateway.listing.made
                if era == "legacy":
                    await until(lambda: any(isinstance(each, ToolListChangedNotification) for each in ear.messages))


@pytest.mark.parametrize("era", ERAS)
async def test_a_single_change_is_seen_at_once(era: str) -> None:
    async with Runtime(sandbox=None) as runtime:
        gateway = Gateway(runtime, Serving(direct=("s.*",)))
        async with Client(gateway.server, mode=era) as client:
            await client.list_tools()
            runtime.registry.replace_server("s", [one("new")])
            names = {each.name for each in (await client.list_tools(cache_mode="bypass")).tools}
            assert "s_new" in names
            assert not (await client.call_tool("s_new", {})).is_error


def test_the_distance_grows_while_it_goes_on_and_ends_with_quiet() -> None:
    pace, now, times = Pace(), 100.0, []
    while now < 160.0:
        if not pace.wait(now):
            pace.done(now)
            times.append(now)
        now += 0.01
    distances = [b - a for a, b in itertools.pairwise(times)]
    assert [round(each, 1) for each in distances[:9]] == [0.0, 0.0, 0.0, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0]
    assert max(distances) < 5.1
    assert len(times) < 25
    now += 20
    assert pace.wait(now) == 0
    pace.done(now)
    assert pace.wait(now) == 0
