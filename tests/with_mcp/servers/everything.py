"""A server made with the SDK, with a tool for each thing that a client has to cope with.

    python everything.py                    on stdin and stdout
    python everything.py http PORT          streamable HTTP on loopback; prints "listening" when it does
    python everything.py http-json PORT     the same, answering with JSON instead of streams
    python everything.py sse PORT           the older SSE transport

With EVERYTHING_TOKEN set, HTTP requests need it as a bearer token.
"""

from __future__ import annotations

import base64
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, TypedDict

import anyio
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import (
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
    ToolAnnotations,
)

server = MCPServer("everything", version="1.2.3")
PIXEL = base64.b64encode(b"\x89PNG\r\n\x1a\n not really").decode()
here = Path(os.environ.get("EVERYTHING_NOTES", "/nonexistent"))


class Weather(TypedDict):
    city: str
    celsius: float


def note(text: str) -> None:
    """Tell the test, in a file."""
    with here.open("a") as file:
        file.write(text + "\n")


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool(annotations=ToolAnnotations(read_only_hint=True), structured_output=False)
def echo(text: str) -> str:
    """Give the text back."""
    return text


@server.tool(
    title="Read a page",
    annotations=ToolAnnotations(
        title="Reader",
        read_only_hint=True,
        destructive_hint=False,
        idempotent_hint=True,
        open_world_hint=False,
    ),
    structured_output=False,
)
def read(text: str) -> str:
    """Give the text back; says all there is to say of itself."""
    return text


@server.tool(annotations=ToolAnnotations(idempotent_hint=True, destructive_hint=False))
def weather(city: str) -> Weather:
    """Weather of a city."""
    return {"city": city, "celsius": 21.5}


@server.tool(name="get-value", annotations=ToolAnnotations(destructive_hint=True))
def get_value(name: str) -> str:
    """The value of an environment variable, or "unset"."""
    return os.environ.get(name, "unset")


@server.tool(structured_output=False)
def fail(message: str) -> str:
    """Fail with this message."""
    raise ToolError(message)


@server.tool(structured_output=False)
def fail_with_secret() -> str:
    """Fail with a message that holds the server's own token."""
    raise ToolError(f"cannot log in with {os.environ['SERVICE_TOKEN']}")


@server.tool(structured_output=False)
def mixed() -> CallToolResult:
    """Text, an image, audio, and resources."""
    return CallToolResult(
        content=[
            TextContent(text="look:"),
            ImageContent(data=PIXEL, mime_type="image/png"),
            AudioContent(data=PIXEL, mime_type="audio/wav"),
            EmbeddedResource(resource=TextResourceContents(uri="note://1", text="hello", mime_type="text/markdown")),
            EmbeddedResource(resource=BlobResourceContents(uri="note://2", blob=PIXEL)),
            ResourceLink(uri="note://3", name="third"),
        ]
    )


@server.tool(structured_output=False)
def image() -> CallToolResult:
    """One image."""
    return CallToolResult(content=[ImageContent(data=PIXEL, mime_type="image/png")])


@server.tool(structured_output=False)
def structured_image() -> CallToolResult:
    """An image beside structured content."""
    return CallToolResult(content=[ImageContent(data=PIXEL, mime_type="image/png")], structured_content={"width": 1})


@server.tool(structured_output=False)
def texts(parts: list[str]) -> CallToolResult:
    """So many texts."""
    return CallToolResult(content=[TextContent(text=part) for part in parts])


@server.tool(annotations=ToolAnnotations(read_only_hint=True), structured_output=False)
async def count(to: int, ctx: Context[Any, Any]) -> str:
    """Count, and tell how far it is."""
    for number in range(1, to + 1):
        await ctx.report_progress(number, to, f"number {number}")
    return "done"


@server.tool(annotations=ToolAnnotations(read_only_hint=True), structured_output=False)
async def wait(seconds: float, label: str = "wait") -> str:
    """Wait; notes when it begins and when it is cancelled."""
    note(f"{label} began")
    try:
        await anyio.sleep(seconds)
    except anyio.get_cancelled_exc_class():
        note(f"{label} cancelled")
        raise
    return "waited"


@server.tool(structured_output=False)
async def grow(name: str, ctx: Context[Any, Any]) -> str:
    """Add a tool of that name, or take it away if it is there."""
    if any(tool.name == name for tool in await server.list_tools()):
        server.remove_tool(name)
    else:
        server.add_tool(lambda: f"I am {name}", name=name, description=f"Grown: {name}.", structured_output=False)
    await ctx.request_context.session.send_tool_list_changed()
    await ctx.notify_tools_changed()
    return "ok"


@server.tool(structured_output=False)
def die(code: int = 3) -> str:
    """End the process in the middle of the call."""
    sys.stderr.write("fatal: told to die\n")
    sys.stderr.flush()
    os._exit(code)


@server.tool(structured_output=False)
def offspring() -> str:
    """Start a process that outlives a careless client; returns its pid."""
    child = subprocess.Popen(
        [sys.executable, "-c", "import time; time.sleep(600)"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    return str(child.pid)


@server.tool(structured_output=False)
def pid() -> str:
    """The server's own pid."""
    return str(os.getpid())


@server.tool(structured_output=False)
def big(bytes: int) -> str:
    """So much text."""
    return "x" * bytes


@server.resource("note://3")
def third() -> str:
    """The third note."""
    return "the third note"


async def over_http(kind: str, port: int) -> None:
    import uvicorn
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import PlainTextResponse, Response

    app: Starlette = (
        server.sse_app() if kind == "sse" else server.streamable_http_app(json_response=kind == "http-json")
    )
    token = os.environ.get("EVERYTHING_TOKEN")
    inner = app

    async def guarded(scope: Any, receive: Any, send: Any) -> None:
        if token and scope["type"] == "http" and Request(scope).headers.get("authorization") != f"Bearer {token}":
            refusal: Response = PlainTextResponse("who are you?", status_code=401)
            return await refusal(scope, receive, send)
        return await inner(scope, receive, send)

    config = uvicorn.Config(guarded, host="127.0.0.1", port=port, log_level="error", lifespan="on")
    running = uvicorn.Server(config)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(running.serve)
        while not running.started:  # noqa: ASYNC110 -- it tells in no other way
            await anyio.sleep(0.01)
        print("listening", flush=True)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        anyio.run(over_http, sys.argv[1], int(sys.argv[2]))
    else:
        server.run("stdio")
