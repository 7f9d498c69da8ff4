"""A call of an MCP server's tool through `callgate serve`, against the same call made directly; and in a program.

All three by the SDK's client over stdio, on connections that stay open, taking turns.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from contextlib import AsyncExitStack
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from callgate.bench.figures import Figure, ratio, seconds
from callgate.bench.rows import Row
from callgate.bench.singles.context import Bench, BenchFailed

if TYPE_CHECKING:
    from mcp import Client

__all__ = ["INSIDE", "THROUGH", "gateway"]

_TEXT = "x" * 100
_CALLS = 100
_PROGRAM = f"for n in range({_CALLS}):\n    await echo_echo(text={_TEXT!r})\n"
_SERVER = ["-m", "callgate.bench.peers.mcp_echo"]
THROUGH = "call of an MCP server's tool through callgate serve, passed through"
INSIDE = f"the same tool, {_CALLS} calls in one program through callgate serve, per call"


async def gateway(bench: Bench) -> list[Row]:
    """One call through the gateway, as a tool passed through, and as one of many in a program."""
    if find_spec("mcp") is None:
        return [Row(key="gateway", measure=THROUGH, measured="not measured: pip install 'callgate[mcp]'")]
    from mcp import Client, StdioServerParameters
    from mcp.client.stdio import stdio_client

    rounds = max(20, bench.sizes.calls // 10)
    direct: list[float] = []
    through: list[float] = []
    inside: list[float] = []
    with tempfile.TemporaryDirectory() as folder, open(os.devnull, "w") as quiet:  # noqa: ASYNC230
        servers = Path(folder) / "servers.json"
        servers.write_text(json.dumps({"mcpServers": {"echo": {"command": sys.executable, "args": _SERVER}}}))
        async with AsyncExitStack() as stack:

            async def connected(*arguments: str) -> Client:
                parameters = StdioServerParameters(command=sys.executable, args=list(arguments), env=dict(os.environ))
                return await stack.enter_async_context(Client(stdio_client(parameters, errlog=quiet), mode="legacy"))

            straight = await connected(*_SERVER)
            gate = await connected("-m", "callgate", "serve", "--mcp", str(servers), "--pass", "echo.*")
            for n in range(rounds + 5):
                for client, name, kept in ((straight, "echo", direct), (gate, "echo_echo", through)):
                    took = await _call(client, name, {"text": _TEXT})
                    if n >= 5:
                        kept.append(took)
            for _ in range(max(3, rounds // 20)):
                inside.append(await _call(gate, "execute_code", {"code": _PROGRAM}) / _CALLS)
    added = Figure.of(through).p50 - Figure.of(direct).p50
    straight_told = f"the same call made directly: {Figure.of(direct)}"
    return [
        Row(
            key="gateway", measure=THROUGH,
            measured=f"{Figure.of(through)}; added: {seconds(max(added, 1e-9))}", peer=straight_told,
            ratio=ratio(through, direct), note="two connections instead of one; validated, gated and recorded here",
            numbers={"ours": asdict(Figure.of(through)), "peer": asdict(Figure.of(direct)), "added_seconds": added},
        ),
        Row(
            key="gateway", measure=INSIDE,
            measured=str(Figure.of(inside)), peer=straight_told,
            ratio=Figure.of(inside).p50 / Figure.of(direct).p50,
            note="the run's own start and end are in it; a model's turn for each call is not",
            numbers={"ours": asdict(Figure.of(inside)), "peer": asdict(Figure.of(direct))},
        ),
    ]  # fmt: skip


async def _call(client: Client, name: str, arguments: dict[str, str]) -> float:
    started = time.perf_counter()
    result = await client.call_tool(name, arguments)
    took = time.perf_counter() - started
    if result.is_error:
        raise BenchFailed(f"{name} failed: {result.content}")
    return took
