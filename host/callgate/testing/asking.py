"""Talks to a guest through the verbs of `Guest` alone: sends programs, reads what comes."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import anyio

from callgate.sandbox.backend import Allowance, Guest

__all__ = ["ALLOWANCE", "SECONDS", "Heard", "ask", "hear", "open_files", "request", "until"]

ALLOWANCE = Allowance(cpu_seconds=20, memory_bytes=256 << 20, max_processes=16, max_file_bytes=1 << 20)
SECONDS = 30.0
"""Longest wait for anything."""


@dataclass
class Heard:
    """What a guest said until its reply, or its end."""

    messages: list[dict[str, Any]] = field(default_factory=list)
    output: str = ""
    reply: dict[str, Any] | None = None

    @property
    def value(self) -> Any:
        """The value of the program, which did not fail."""
        assert self.reply is not None, self
        assert "result" in self.reply, self.reply
        return self.reply["result"]["value"]


def request(code: str, number: int = 1) -> bytes:
    """The request to run a program that may call the tool ``echo``."""
    params = {"code": code, "tools": [["echo", "echo", "value"]], "inputs": {}}
    return json.dumps({"jsonrpc": "2.0", "method": "execute", "params": params, "id": number}).encode() + b"\n"


async def ask(guest: Guest, code: str, number: int = 1) -> Heard:
    """Run a program; answer its calls of ``echo``."""
    await guest.send(request(code, number))
    return await hear(guest)


async def hear(guest: Guest) -> Heard:
    """Listen until the reply to ``execute``, or the end."""
    heard = Heard()
    line = b""
    with anyio.fail_after(SECONDS):
        while True:
            stream, data = await guest.receive()
            if stream == "output":
                heard.output += data.decode()
                continue
            if not data:
                return heard
            line += data
            *whole, line = line.split(b"\n")
            for each in whole:
                message = json.loads(each)
                heard.messages.append(message)
                if "method" not in message:
                    heard.reply = message
                    heard.output += guest.unread_output().decode()
                    return heard
                if message["method"] == "echo":
                    answer = {"jsonrpc": "2.0", "result": message["params"]["value"], "id": message["id"]}
                    await guest.send(json.dumps(answer).encode() + b"\n")


def open_files() -> set[str]:
    """Descriptors of this process."""
    return set(os.listdir("/proc/self/fd"))


async def until(condition: Callable[[], bool]) -> None:
    """Wait for something outside this process that nobody tells of; fails after `SECONDS`."""
    with anyio.fail_after(SECONDS):
        while not condition():  # noqa: ASYNC110 (there is no event for it)
            await anyio.sleep(0.002)
