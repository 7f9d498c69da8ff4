"""Talks to a guest through the verbs of `Guest` alone: sends programs, reads what comes."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio

from callgate.sandbox.backend import Allowance, Guest
from callgate.sandbox.docker.guest import ContainerGuest

ALLOWANCE = Allowance(cpu_seconds=20, memory_bytes=256 << 20, max_processes=16, max_file_bytes=1 << 20)
SECONDS = 30.0


@dataclass
class Heard:
    """What a guest said until its reply, or its end."""

    messages: list[dict[str, Any]] = field(default_factory=list)
    output: str = ""
    reply: dict[str, Any] | None = None

    @property
    def value(self) -> Any:
        assert self.reply is not None, self
        assert "result" in self.reply, self.reply
        return self.reply["result"]["value"]


def request(code: str, number: int = 1) -> bytes:
    params = {"code": code, "tools": [["echo", "echo", "value"]], "inputs": {}}
    return json.dumps({"jsonrpc": "2.0", "method": "execute", "params": params, "id": number}).encode() + b"\n"


async def ask(guest: Guest, code: str, number: int = 1) -> Heard:
    """Run a program; answer its calls of `echo`."""
    await guest.send(request(code, number))
    return await hear(guest)


async def hear(guest: Guest) -> Heard:
    """Listen until the reply to `execute`, or the end."""
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
    return set(os.listdir("/proc/self/fd"))


def descendants() -> list[int]:
    """Processes below this one, zombies included."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int(entry.joinpath("stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
    found, todo = [], [os.getpid()]
    while todo:
        above = todo.pop()
        below = [pid for pid, parent in parents.items() if parent == above]
        found += below
        todo += below
    return found


async def until(condition: Callable[[], bool]) -> None:
    """Wait for something outside this process that nobody tells of; fails after `SECONDS`."""
    with anyio.fail_after(SECONDS):
        while not condition():  # noqa: ASYNC110 (there is no event for it)
            await anyio.sleep(0.002)


def place_of(guest: Guest) -> int | str:
    """What has to be gone after it: its process, or its container."""
    if isinstance(guest, ContainerGuest):
        return guest.container.id
    pid: int = guest.pid  # type: ignore[attr-defined]
    return pid


def containers() -> list[str]:
    """Ids of the containers that the engine knows, those that have ended included."""
    ran = subprocess.run(["docker", "ps", "-aq", "--no-trunc"], capture_output=True, text=True, check=True, timeout=60)
    return ran.stdout.split()


async def gone(place: int | str) -> bool:
    """Whether a process or a container goes away, within a bounded time."""
    if isinstance(place, str):
        await until(lambda: place not in containers())
    else:
        await until(lambda: not Path(f"/proc/{place}").exists())
    return True
