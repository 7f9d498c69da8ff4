"""Kinds that say too much: notifications, answers, lines and values."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

from with_mcp.servers.hostile_server import answer, out, server, text


def wordy_artifacts() -> None:
    """A mime type and a URI of a million characters."""
    content = [
        {"type": "image", "data": "eHh4", "mimeType": "image/" + "x" * 1_000_000},
        {"type": "resource", "resource": {"uri": "note://" + "x" * 999_993, "blob": "eHh4"}},
    ]
    server.call = lambda r: answer(r, {"content": content})


def fails_at_length() -> None:
    content = [{"type": "text", "text": "no " * 1_000_000}]
    server.call = lambda r: answer(r, {"isError": True, "content": content, "structuredContent": {"a": [1] * 100_000}})


def without_end(block: Callable[[dict[str, Any]], bytes]) -> None:
    """At the first call, this for ever, and no answer."""

    def call(request: dict[str, Any]) -> None:
        made = block(request)
        while True:
            out.write(made)

    server.call = call


def message(method: str, **params: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "method": method, "params": params}).encode() + b"\n"


def flood() -> None:
    without_end(lambda _: message("notifications/message", level="info", data="x") * 200)


def flood_of_progress() -> None:
    def progress(request: dict[str, Any]) -> bytes:
        token = request["params"]["_meta"]["progressToken"]
        return message("notifications/progress", progressToken=token, progress=1, message="x" * 1000) * 100

    without_end(progress)


def flood_of_garbage() -> None:
    without_end(lambda _: b"x" * 4000 + b"\n")


def flood_of_list_changes() -> None:
    def call(request: dict[str, Any]) -> None:
        answer(request, text("flooding"))
        out.write(message("notifications/tools/list_changed") * 3000)
        out.flush()

    server.call = call


def flood_of_stderr() -> None:
    def call(request: dict[str, Any]) -> None:
        for _ in range(20_000):
            sys.stderr.write("e" * 1000 + "\n")
        sys.stderr.write("the last line\n")
        sys.stderr.flush()
        answer(request, text("done"))

    server.call = call


def unreadable() -> None:
    """Answers with a line that is too long, too deep, no message or no JSON."""

    def call(request: dict[str, Any]) -> None:
        kind = request["params"]["arguments"].get("text", "")
        start = b'{"jsonrpc":"2.0","id":%d,"result":' % request["id"]
        if kind == "long":
            out.write(start)
            for _ in range(200):
                out.write(b"x" * 1024 * 1024)
        elif kind == "deep":
            out.write(start + b'{"structuredContent":' + b"[" * 400 + b"]" * 400 + b"}}\n")
        elif kind == "list":
            out.write(start + b"[1,2,3]}\n")
        elif kind == "cut":
            out.write(start + b"\n")
        else:
            answer(request, text("readable"))
        out.flush()

    server.call = call
