"""An MCP server with one tool that gives back what it got: the other end of the gateway's measure."""

from __future__ import annotations

from mcp.server.mcpserver import MCPServer
from mcp_types import ToolAnnotations

server = MCPServer("echo")


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
async def echo(text: str) -> str:
    """Give it back."""
    return text


if __name__ == "__main__":
    server.run()
