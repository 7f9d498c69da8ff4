"""A well-behaved server, written by hand, for the kinds of `hostile` to spoil. Standard library only."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

out = sys.stdout.buffer
ECHO = {
    "name": "echo",
    "description": "Give the text back.",
    "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}},
    "annotations": {"readOnlyHint": True},
}


def send(message: Any) -> None:
    out.write(json.dumps(message).encode() + b"\n")
    out.flush()


def answer(request: dict[str, Any], result: Any) -> None:
    send({"jsonrpc": "2.0", "id": request["id"], "result": result})


def text(value: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": value}]}


class Server:
    """A well-behaved one; kinds change it."""

    def __init__(self) -> None:
        self.tools: list[Any] = [ECHO]
        self.list_tools: Callable[[dict[str, Any]], None] = lambda r: answer(r, {"tools": self.tools})
        self.call: Callable[[dict[str, Any]], None] = lambda r: answer(
            r, text(r["params"]["arguments"].get("text", ""))
        )
        self.initialize: Callable[[dict[str, Any]], None] = self.greet
        self.notified: Callable[[dict[str, Any]], None] = lambda n: None
        self.other: Callable[[dict[str, Any]], None] = self.refuse

    def greet(self, request: dict[str, Any]) -> None:
        capabilities = {"tools": {"listChanged": True}}
        info = {"name": "hostile", "version": "0"}
        version = request["params"]["protocolVersion"]
        answer(request, {"protocolVersion": version, "capabilities": capabilities, "serverInfo": info})

    def refuse(self, request: dict[str, Any]) -> None:
        send({"jsonrpc": "2.0", "id": request["id"], "error": {"code": -32601, "message": "Method not found"}})

    def run(self) -> None:
        for line in sys.stdin:
            message = json.loads(line)
            method = message.get("method")
            if "id" not in message:
                self.notified(message)
            elif method == "initialize":
                self.initialize(message)
            elif method == "tools/list":
                self.list_tools(message)
            elif method == "tools/call":
                self.call(message)
            elif method is not None:
                self.other(message)


def note(line: str) -> None:
    with Path(os.environ["HOSTILE_NOTES"]).open("a") as file:
        file.write(line + "\n")


def starts() -> int:
    """How often this has been started, this time included."""
    note("start")
    return Path(os.environ["HOSTILE_NOTES"]).read_text().count("start\n")


def forever(*_: Any) -> None:
    while True:
        time.sleep(3600)


server = Server()
