"""Kinds that go wrong before the first call, or at the end; and versions of the protocol."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from with_mcp.servers.hostile_server import ECHO, answer, forever, out, send, server, starts, text


def hang_at_start() -> None:
    server.initialize = forever


def hang_and_ignore_the_end() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    server.initialize = forever


def hang_in_listing() -> None:
    server.list_tools = forever


def late() -> None:
    """Starts when a file appears."""
    while not Path(os.environ["HOSTILE_GO"]).exists():
        time.sleep(0.02)


def exits_at_once() -> None:
    sys.stderr.write("Error: Cannot find module 'left-pad'\n")
    sys.exit(1)


def crashes_at_first_start() -> None:
    if starts() == 1:
        sys.stderr.write("not today\n")
        sys.exit(7)


def crashes_at_every_start() -> None:
    starts()
    sys.exit(9)


def garbage_before() -> None:
    out.write(b'Starting server on stdio...\n\xff\xfe\x00 not even text\n[1, 2\n{}\n{"jsonrpc": "1.0"}\n\n')
    out.flush()


def only_garbage() -> None:
    def initialize(_: dict[str, Any]) -> None:
        out.write(b"hello?\n" * 1000)
        out.flush()

    server.initialize = initialize


def old_version() -> None:
    def initialize(request: dict[str, Any]) -> None:
        info = {"name": "old", "version": "0"}
        answer(request, {"protocolVersion": "2024-11-05", "capabilities": {"tools": {}}, "serverInfo": info})

    server.initialize = initialize


def unknown_version() -> None:
    def initialize(request: dict[str, Any]) -> None:
        info = {"name": "strange", "version": "0"}
        answer(request, {"protocolVersion": "1999-01-01", "capabilities": {}, "serverInfo": info})

    server.initialize = initialize


def only_modern() -> None:
    """Speaks 2026-07-28 and nothing else."""

    def initialize(request: dict[str, Any]) -> None:
        error = {"code": -32022, "message": "Unsupported protocol version", "data": {"supported": ["2026-07-28"]}}
        error["data"]["requested"] = request["params"]["protocolVersion"]  # type: ignore[index]
        send({"jsonrpc": "2.0", "id": request["id"], "error": error})

    def other(request: dict[str, Any]) -> None:
        if request["method"] == "server/discover":
            result = {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {"listChanged": True}}}
            return answer(request, result | {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"})
        if request["method"] == "subscriptions/listen":
            meta = {"io.modelcontextprotocol/subscriptionId": request["id"]}
            params = {"notifications": {"toolsListChanged": True}, "_meta": meta}
            send({"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": params})
            self_listening.append(meta)
            return None
        return server.refuse(request)

    self_listening: list[Any] = []
    rounds: dict[str, int] = {}

    def call(request: dict[str, Any]) -> None:
        given = request["params"]["arguments"].get("text", "")
        if given == "grow" and self_listening:
            server.tools = [ECHO, {**ECHO, "name": "grown"}]
            method = "notifications/tools/list_changed"
            send({"jsonrpc": "2.0", "method": method, "params": {"_meta": self_listening[0]}})
        if given == "ask":
            asked = {
                "name": {
                    "method": "elicitation/create",
                    "params": {"message": "?", "requestedSchema": {"type": "object", "properties": {}}},
                }
            }
            return answer(request, {"resultType": "input_required", "inputRequests": asked})
        if given == "later" and rounds.setdefault("later", 0) < 2:
            rounds["later"] += 1
            return answer(request, {"resultType": "input_required", "requestState": "s"})
        return answer(request, text(given) | {"resultType": "complete"})

    server.initialize = initialize
    server.other = other
    server.call = call


def dies_when_asked_too_early() -> None:
    """Ends when anything comes before the handshake, as some servers do."""

    def initialize(request: dict[str, Any]) -> None:
        server.other = server.refuse
        server.greet(request)

    server.initialize = initialize
    server.other = lambda _: sys.exit(1)


def ignores_its_end() -> None:
    """Neither a closed stdin nor SIGTERM ends it."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    server.run()
    forever()


def wrong_headers() -> None:
    """Wants an argument mirrored into a header that HTTP does not have."""
    only_modern()
    schema = {"type": "object", "properties": {"a": {"type": "string", "x-mcp-header": "no header"}}}
    server.tools = [ECHO, {**ECHO, "name": "bad", "inputSchema": schema}]
