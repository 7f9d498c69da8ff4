"""Kinds that go wrong in a call."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from typing import Any

from with_mcp.servers.hostile_server import answer, forever, note, out, send, server, text


def garbage_in_calls() -> None:
    def call(request: dict[str, Any]) -> None:
        out.write(b"debug: about to answer\n")
        answer(request, text("answered"))

    server.call = call


def wrong_answer() -> None:
    server.call = lambda r: answer(r, {"content": [{"type": "hologram", "data": 5}]})


def dies_in_call() -> None:
    def call(request: dict[str, Any]) -> None:
        if request["params"]["arguments"].get("text") == "die":
            sys.stderr.write("Segmentation fault, more or less\n")
            sys.stderr.flush()
            os._exit(11)
        answer(request, text("alive"))

    server.call = call


def dies_by_signal() -> None:
    server.call = lambda _: os.kill(os.getpid(), signal.SIGKILL)


def closes_stdout() -> None:
    def call(_: dict[str, Any]) -> None:
        os.close(1)
        forever()

    server.call = call


def closes_stdin() -> None:
    def call(request: dict[str, Any]) -> None:
        os.close(0)
        answer(request, text("closed"))
        forever()

    server.call = call


def never_reads() -> None:
    """Reads no more after its first call."""
    server.call = forever


def tells_of_cancellation() -> None:
    def notified(message: dict[str, Any]) -> None:
        if message["method"] == "notifications/cancelled":
            note(f"cancelled {message['params']['requestId']}")

    def call(request: dict[str, Any]) -> None:
        note(f"call {request['id']}")  # and no answer

    server.notified = notified
    server.call = call


def asks() -> None:
    """Asks the client for things before it answers."""

    def call(request: dict[str, Any]) -> None:
        for number, method in enumerate(
            ("ping", "roots/list", "sampling/createMessage", "elicitation/create", "no/such")
        ):
            send(
                {
                    "jsonrpc": "2.0",
                    "id": f"q{number}",
                    "method": method,
                    "params": {
                        "messages": [],
                        "maxTokens": 1,
                        "message": "?",
                        "requestedSchema": {"type": "object", "properties": {}},
                    },
                }
            )
        replies = []
        for line in sys.stdin:
            replies.append(json.loads(line))
            if len(replies) == 5:
                break
        told = {reply["id"]: "result" if "result" in reply else reply["error"]["message"] for reply in replies}
        answer(request, text(json.dumps(told)))

    server.call = call


def slow() -> None:
    def call(request: dict[str, Any]) -> None:
        time.sleep(float(request["params"]["arguments"].get("text") or 0))
        answer(request, text("slow"))

    server.call = call


def leaves_a_child() -> None:
    """Its child holds its stdout, and it ends in a call."""

    def call(request: dict[str, Any]) -> None:
        if os.fork() == 0:
            forever()
        os._exit(0)

    server.call = call
