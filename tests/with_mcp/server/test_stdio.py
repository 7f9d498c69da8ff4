"""stdin and stdout: nothing but the protocol, whatever is read there; and clean ends."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client

from callgate import Runtime, tool
from callgate.mcp.server import Serving, StdioWire, serve_stdio
from callgate.mcp.server.stdio import streams
from with_mcp.server.served import ERAS, SECONDS, Ear, Served, children

pytestmark = pytest.mark.slow

INITIALIZE = {
    "jsonrpc": "2.0", "id": 0, "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}},
}  # fmt: skip
INITIALIZED = {"jsonrpc": "2.0", "method": "notifications/initialized"}


def call(number: int, code: str) -> dict[str, Any]:
    params = {"name": "execute_code", "arguments": {"code": code}}
    return {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}


class Raw:
    """A client that writes what it likes."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self.seen = b""

    def send(self, *messages: dict[str, Any]) -> None:
        self.write(b"".join(json.dumps(each).encode() + b"\n" for each in messages))

    def write(self, data: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def answer(self, number: int) -> dict[str, Any]:
        """The answer to the request of that id; every line before it has to be a message, too."""
        deadline = time.monotonic() + SECONDS
        assert self.process.stdout is not None
        while True:
            for line in self.seen.splitlines(keepends=True):
                if not line.endswith(b"\n"):
                    break
                message: dict[str, Any] = json.loads(line)
                assert message["jsonrpc"] == "2.0"
                if message.get("id") == number:
                    return message
            ready, _, _ = select.select([self.process.stdout], [], [], deadline - time.monotonic())
            assert ready, f"no answer to {number}; what came is {self.seen!r}"
            data = os.read(self.process.stdout.fileno(), 65536)
            assert data, f"stdout ended; what came is {self.seen!r}"
            self.seen += data

    def rest(self) -> bytes:
        """What comes until stdout ends."""
        assert self.process.stdout is not None
        return self.process.stdout.read()


@contextmanager
def raw(served: Served, *arguments: str) -> Iterator[Raw]:
    with open(served.folder / "stderr", "w") as log:
        process = subprocess.Popen(
            served.line(*arguments), cwd=served.folder, env=served.environment, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=log, bufsize=0, start_new_session=True,
        )  # fmt: skip
    with process:
        try:
            client = Raw(process)
            client.send(INITIALIZE, INITIALIZED)
            client.answer(0)
            yield client
        finally:
            process.kill()


def ended(client: Raw) -> int:
    return client.process.wait(SECONDS)


def test_nothing_but_the_protocol_is_on_stdout(served: Served) -> None:
    with raw(served) as client:
        client.send(call(1, "print('a')\nawait get_weather('Oslo')"))
        assert client.answer(1)["result"]["structuredContent"]["value"] == {"temp": 4}
        client.process.stdin.close()  # type: ignore[union-attr]
        assert ended(client) == 0
        assert all(json.loads(line)["jsonrpc"] == "2.0" for line in (client.seen + client.rest()).splitlines())
    for word in ("printed while loading", "written while loading", "printed by a tool", "written by", "echoed by"):
        assert word in served.log


def test_what_is_no_message_is_skipped(served: Served) -> None:
    with raw(served) as client:
        client.write(b"hello\n\n[1, 2]\n{\n\xff\xfe\n" + b"[" * 100_000 + b"\n" + b'{"jsonrpc": "1.0"}\n' * 20)
        client.write(b"x" * (17 * 1024 * 1024) + b"\n")
        client.send(call(1, "1 + 1"))
        assert client.answer(1)["result"]["structuredContent"]["value"] == 2
    told = [line for line in served.log.splitlines() if line.startswith("from the client: ")]
    assert len(told) == 26
    assert "not a JSON-RPC message" in told[0]


def test_a_line_that_is_too_long_is_told(served: Served) -> None:
    with raw(served) as client:
        client.write(b"x" * (16 * 1024 * 1024 + 2) + b"\n")
        client.send(call(1, "1 + 1"))
        client.answer(1)
    assert "a line is longer than 16777216 bytes; it is skipped" in served.log


def test_messages_may_come_in_pieces_and_together(served: Served) -> None:
    with raw(served) as client:
        data = json.dumps(call(1, "1 + 1")).encode() + b"\n" + json.dumps(call(2, "2 + 2")).encode() + b"\n"
        for n in range(0, len(data), 7):
            client.write(data[n : n + 7])
        for number in (1, 2):
            assert client.answer(number)["result"]["structuredContent"]["value"] == 2 * number


def test_a_client_that_does_not_read_holds_up_nothing_but_itself(served: Served) -> None:
    with raw(served) as client:
        client.send(*(call(n, "'x' * 7000") for n in range(1, 101)))
        assert client.answer(100)["result"]["structuredContent"]["value"] == "x" * 7000
        for n in range(1, 100):
            client.answer(n)


def test_nobody_reading_any_more_ends_it(served: Served) -> None:
    with raw(served) as client:
        assert client.process.stdout is not None
        client.process.stdout.close()
        client.send(call(1, "1 + 1"))
        assert ended(client) == 0
    assert "the client does not read any more" in served.log


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 0)])
def test_a_signal_ends_it_cleanly(served: Served, number: int, status: int) -> None:
    with raw(served) as client:
        client.send(call(1, "while True:\n    await hold(name='a')"))
        deadline = time.monotonic() + SECONDS
        while not (served.folder / "a.begun").exists():
            assert time.monotonic() < deadline
            time.sleep(0.01)
        below = children(client.process.pid)
        assert below
        client.process.send_signal(number)
        assert ended(client) == status
        assert (served.folder / "a.ended").exists()
        assert not any(Path(f"/proc/{each}/cmdline").exists() for each in below)
    assert "Traceback" not in served.log


@tool
async def echo(words: str) -> str:
    """Give it back."""
    return words


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
@pytest.mark.parametrize("era", ERAS)
async def test_it_serves_a_runtime_of_this_process_on_either_loop(era: str) -> None:
    ear = Ear()
    to_server, from_server = os.pipe(), os.pipe()
    async with Runtime([echo], sandbox=None) as runtime:
        with anyio.fail_after(SECONDS):
            async with anyio.create_task_group() as tasks:
                wire = StdioWire(to_server[0], from_server[1])
                tasks.start_soon(lambda: serve_stdio(runtime, Serving(direct=("echo",)), wire=wire))

                async with streams(StdioWire(from_server[0], to_server[1])) as (read, write):

                    class Transport:
                        async def __aenter__(self) -> Any:
                            return read, write

                        async def __aexit__(self, *_: Any) -> None: ...

                    async with Client(Transport(), mode=era, message_handler=ear.message) as client:
                        result = await client.call_tool("echo", {"words": "w" * 1_000_000})
                        assert result.structured_content == {"result": "w" * 1_000_000}
                os.close(to_server[1])
    for fd in (to_server[0], *from_server):
        os.close(fd)
