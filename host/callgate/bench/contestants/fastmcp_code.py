"""FastMCP's code mode: ``python -m callgate.bench.contestants.fastmcp_code``.

A server with the workload's tools and the transform `CodeMode`, and a client in the same process, as FastMCP's docs
have it. The model sees the server's own tools: search, get_schema, execute. Programs run in Monty, in a pool that
`execute` makes for each of them. What they print goes to the server's own stdout, and the model does not see it.
"""

from __future__ import annotations

import asyncio
import importlib.metadata
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Any

from callgate.bench.contestants.refusals import monty_refusal
from callgate.bench.contestants.seat import CannotDo, Meter, Opened, Steered, Turn, answered, cannot_or
from callgate.bench.serving import serve
from callgate.bench.workloads import WORKLOADS
from callgate.bench.workloads.workload import Workload

try:
    import pydantic_monty  # noqa: F401 (CodeMode imports it when it runs a program)
    from fastmcp import Client, FastMCP
    from fastmcp.experimental.transforms.code_mode import CodeMode
except ImportError:  # an optional peer: the harness says so
    sys.exit("fastmcp[code-mode] is not installed")

__all__ = ["FastMCPCode"]

_TOOL_CALLS: Mapping[str, int] = {"fan-out": 300}
"""Workloads whose programs call tools more often than `max_tool_calls` allows by default (50)."""
_SERVER = "workload"
_DISCOVERY = "it shows the model no tools, so the first turn is a search for them, with their schemas"


class FastMCPCode(Steered):
    """The functions that may be asked for: see `seat.Contestant`.

    Args:
        workloads: by name.
    """

    def __init__(self, workloads: Mapping[str, Workload] = WORKLOADS) -> None:
        self._workloads = workloads
        self._meter = Meter()
        self._stack = AsyncExitStack()
        self._client: Client[Any]

    async def open(self, workload: str, paced: float = 1.0, scripted: bool = True) -> dict[str, Any]:
        """A server with the tools of the workload, and a client."""
        await self._stack.aclose()
        self.steer(paced, scripted)
        most = _TOOL_CALLS.get(workload)
        mode = CodeMode() if most is None else CodeMode(max_tool_calls=most)
        server: FastMCP[Any] = FastMCP(_SERVER, transforms=[mode])
        chosen = self._workloads[workload]
        for each in chosen.tools:
            server.tool(self._meter.metered(each))
        self._client = await self._stack.enter_async_context(Client(server))
        definitions = [
            {"name": each.name, "description": each.description or "", "input_schema": each.input_schema}
            for each in await self._client.list_tools()
        ]
        note = f"{_DISCOVERY}; max_tool_calls raised to {most}, its default is 50" if most else _DISCOVERY
        first = [[{"tool": "search", "arguments": {"query": _keywords(chosen), "detail": "detailed"}}]]
        return answered(
            Opened(
                tools=definitions, first=first, form="program", tool="execute", argument="code", dialect="call-tool",
                note=note,
            )
        )  # fmt: skip

    @cannot_or
    async def turn(self, calls: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Call the server's tools."""
        self._meter.taken()
        started = time.perf_counter()
        texts = await asyncio.gather(*(self._call(each["tool"], each["arguments"]) for each in calls))
        seconds = time.perf_counter() - started
        return answered(Turn(texts=list(texts), seconds=seconds, intervals=self._meter.taken()))

    async def _call(self, tool: str, arguments: Mapping[str, Any]) -> str:
        result = await self._client.call_tool(tool, dict(arguments), raise_on_error=False)
        text = "\n".join(str(getattr(block, "text", block)) for block in result.content)
        refusal = monty_refusal(text) if self.scripted and result.is_error and tool == "execute" else ""
        if refusal:
            raise CannotDo(refusal)
        return text

    async def version(self) -> dict[str, Any]:
        """Of FastMCP, and of Monty."""
        monty = importlib.metadata.version("pydantic-monty")
        return {"version": f"{importlib.metadata.version('fastmcp')}, pydantic-monty {monty}"}

    async def aclose(self) -> dict[str, Any]:
        """End client and server."""
        await self._stack.aclose()
        return {}


def _keywords(workload: Workload) -> str:
    """What a model would search for: a few words of the task, which are the tools' own, too."""
    words = [each.__name__.rpartition("_")[2] for each in workload.tools]
    return " ".join(dict.fromkeys(words))


if __name__ == "__main__":
    asyncio.run(serve(FastMCPCode()))
