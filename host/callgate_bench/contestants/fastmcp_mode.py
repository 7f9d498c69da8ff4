"""FastMCP's code mode: ``python -m callgate_bench.contestants.fastmcp_mode``.

A server with the workload's tools and the transform `CodeMode`, and a client in the same process, as FastMCP's docs
have it. The model sees the server's own tools: search, get_schema, execute. Programs run in Monty, in a pool that
`execute` makes for each of them. What they print goes to the server's own stdout, and the model does not see it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pydantic_monty  # noqa: F401 (CodeMode imports it when it runs a program)
from fastmcp import Client, FastMCP
from fastmcp.experimental.transforms.code_mode import CodeMode

from callgate_bench.contestants.contestant import CannotDo, Contestant, Opened, monty_refusal
from callgate_bench.serving import serve
from callgate_bench.workloads.workload import Call

__all__ = ["FastMCPMode"]

_TOOL_CALLS = 300
"""Its default would end the fan-out."""
_NOTE = (
    "it shows the model no tools, so the first turn is a search for them, with their schemas; max_tool_calls raised to "
    f"{_TOOL_CALLS}, its default is 50"
)


class FastMCPMode(Contestant):
    """Programs by way of a server's `execute`."""

    packages = ("fastmcp", "pydantic-monty")

    async def show(self) -> Opened:
        """The server's tools, and a search for the workload's."""
        mode = CodeMode(max_tool_calls=_TOOL_CALLS)
        server: FastMCP[Any] = FastMCP("workload", transforms=[mode])
        for each in self.tools:
            server.tool(each)
        self._client = await self._stack.enter_async_context(Client(server))
        definitions = [
            {"name": each.name, "description": each.description or "", "input_schema": each.input_schema}
            for each in await self._client.list_tools()
        ]
        words = dict.fromkeys(each.__name__.rpartition("_")[2] for each in self.tools)  # which the task has, too
        first = [[Call("search", {"query": " ".join(words), "detail": "detailed"})]]
        return Opened(tools=definitions, first=first, tool="execute", dialect="call-tool", note=_NOTE)

    async def run(self, tool: str, arguments: Mapping[str, Any]) -> str:
        """Call one of the server's tools."""
        result = await self._client.call_tool(tool, dict(arguments), raise_on_error=False)
        text = "\n".join(str(getattr(block, "text", block)) for block in result.content)
        refusal = monty_refusal(text) if self.scripted and result.is_error and tool == "execute" else ""
        if refusal:
            raise CannotDo(refusal)
        return text


if __name__ == "__main__":
    asyncio.run(serve(FastMCPMode()))
