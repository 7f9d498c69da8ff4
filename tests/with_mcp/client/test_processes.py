"""Nothing of a server is left: not its process, not what it started, however the host leaves."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest

from with_mcp.client.served import alive, descendants, everything, hostile, serving, until

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="looks at processes in /proc"),
]


async def test_processes_end_with_the_runtime() -> None:
    before = descendants()
    async with serving({"a": everything(), "b": hostile("well"), "c": hostile("hang_at_start")}, ready_seconds=3):
        assert len(descendants() - before) == 3
    assert descendants() - before == set()


async def test_what_a_server_started_ends_with_it() -> None:
    async with serving({"ev": everything()}) as served:
        child = int(await served.call("ev_offspring"))
        assert alive(child)
    assert not alive(child)


async def test_what_a_server_started_ends_when_it_crashes() -> None:
    async with serving({"ev": everything()}) as served:
        child = int(await served.call("ev_offspring"))
        os.kill(int(await served.call("ev_pid")), signal.SIGKILL)
        await until(lambda: not alive(child))
        assert int(await served.call("ev_pid")) > 0


async def test_a_server_that_does_not_want_to_end_is_ended() -> None:
    before = descendants()
    began = anyio.current_time()
    async with serving({"a": hostile("ignores_its_end"), "b": hostile("hang_and_ignore_the_end")}, ready_seconds=2):
        pass
    assert anyio.current_time() - began < 20
    assert descendants() - before == set()


async def test_cancelling_the_host_leaves_nothing() -> None:
    before = descendants()
    with anyio.CancelScope() as scope:
        async with serving({"a": everything(), "b": hostile("ignores_its_end")}):
            scope.cancel()
            await anyio.sleep_forever()
    assert descendants() - before == set()


async def test_cancelling_while_the_servers_start_leaves_nothing() -> None:
    before = descendants()
    for milliseconds in (0, 1, 5, 20, 80):
        with anyio.move_on_after(milliseconds / 1000):
            async with serving({"a": hostile("well"), "b": hostile("hang_at_start")}):
                await anyio.sleep_forever()
        assert descendants() - before == set()


async def test_an_error_in_the_host_leaves_nothing() -> None:
    before = descendants()
    with pytest.raises(ExceptionGroup):
        async with serving({"a": hostile("well")}):
            raise RuntimeError("the host's own")
    assert descendants() - before == set()


async def test_a_failed_server_leaves_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    from callgate.mcp.client import server as server_module

    monkeypatch.setattr(server_module, "FIRST_DELAY_SECONDS", 0.01)
    before = descendants()
    async with serving({"s": hostile("exits_at_once")}) as served:
        await served.until("s", "failed")
        assert descendants() - before == set()


HOST = """
import json, sys, anyio
from callgate import Registry
from callgate.mcp import McpServers
async def main():
    servers = McpServers.read({"mcpServers": {"s": json.loads(sys.argv[1])}}, ready_seconds=20)
    async with servers.serving(Registry()):
        print(servers.status()[0].state, flush=True)
        await anyio.sleep_forever()
anyio.run(main)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_host_that_is_interrupted_or_killed_leaves_no_server(number: int) -> None:
    """Killed, the host can do nothing: the server sees its stdin end."""
    args: list[Any] = [sys.executable, "-c", HOST, json.dumps(hostile("well"))]
    before = descendants()  # an engine of other tests, say
    with subprocess.Popen(args, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as host:
        try:
            assert host.stdout is not None
            assert host.stdout.readline() == "running\n"
            servers = descendants() - before - {host.pid}
            assert len(servers) == 1
            host.send_signal(number)
            host.wait(20)
        finally:
            host.kill()
    anyio.run(until, lambda: not any(alive(pid) for pid in servers))
