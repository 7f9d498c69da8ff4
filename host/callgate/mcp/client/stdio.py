"""MCP over the stdin and stdout of a process: started in a group of its own, one JSON-RPC message a line, and ended
with everything that it started.

1. The environment is the few variables of `INHERITED`, and what the configuration gives: the host's own credentials are
   not passed on.
2. A line is at most `MAX_LINE_BYTES`. A longer one, and a message that cannot be read, end the connection: the calls
   under way fail with that reason, and the server is started again.
3. Other lines that are no message are counted and read over: programs print banners. stderr is drained always.
4. A server that does not read its stdin for `WRITE_SECONDS` is not there any more.
5. The end, as the specification has it: stdin closed, a grace, SIGTERM to the group, a grace, SIGKILL. The group is
   killed even where its leader ended by itself, and so is, on Linux, what left the group and still carries the
   server's mark in its environment (browsers do that). Shielded: a cancelled host leaves nothing behind.

The SDK's own transport keeps a line of any length, hands stderr on, and leaves what left the group.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread
from anyio.abc import AsyncResource, Process
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.client.stdio import get_default_environment
from mcp.shared.message import SessionMessage

from callgate.mcp.config import ServerConfig
from callgate.mcp.messages import Lines, NoMessage, parsed

from .status import CannotStart, Fate

__all__ = ["environment", "stdio_streams"]

INHERITED = (
    *("LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR", "COMSPEC"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"),
)
"""Besides what the SDK has every server inherit (`PATH`, `HOME` and their kind): whom it trusts on the network, and
what it needs to show texts and times; nothing secret by custom."""
MAX_LINE_BYTES = 32 * 1024 * 1024
"""Of one message; an image of 24 MB fits."""
WRITE_SECONDS = 20.0
QUEUED_MESSAGES = 1024
"""Messages on their way to the server's stdin: a cancellation must not wait for a server that does not read."""
LAST_WORDS_SECONDS = 0.5
GRACE_SECONDS = 2.0
"""For a server to end by itself when its stdin is closed."""
TERM_SECONDS = 1.0
"""Between SIGTERM and SIGKILL."""
KILL_SECONDS = 2.0
"""For what was killed to be gone."""
POLL_SECONDS = 0.02
WATCH_SECONDS = 0.1
_MARK = "CALLGATE_SERVER_MARK"
_GONE = (anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError, anyio.BusyResourceError, OSError)


@asynccontextmanager
async def stdio_streams(config: ServerConfig, fate: Fate) -> AsyncIterator[tuple[Any, Any]]:
    """Start the server's process; yields the two streams of a session. The process is gone when the context is left.

    Args:
        config: the command, and its environment.
        fate: receives stderr, lines that are no messages, and why the connection ended.

    Raises:
        CannotStart: there is no such program, or it may not be run.
    """
    mark = secrets.token_hex(16)
    process = await _started(config, mark)
    # From here to the task group nothing is awaited: a cancellation would leave the process.
    to_session, from_server = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    to_server, from_session = anyio.create_memory_object_stream[SessionMessage](QUEUED_MESSAGES)
    server = _Server(process, mark, fate, to_session)
    async with anyio.create_task_group() as draining:
        draining.start_soon(server.drain_stderr)
        try:
            async with to_session, from_server, to_server, from_session, anyio.create_task_group() as tasks:
                for work in (server.read, server.watch):
                    tasks.start_soon(work)
                tasks.start_soon(server.write, from_session)
                yield from_server, to_server
                with anyio.move_on_after(LAST_WORDS_SECONDS):  # what is on its way goes out
                    while from_session.statistics().current_buffer_used and not fate.reason:  # noqa: ASYNC110
                        await anyio.sleep(POLL_SECONDS)
                tasks.cancel_scope.cancel()
        finally:
            with anyio.CancelScope(shield=True):
                await server.end()


def environment(given: Mapping[str, str]) -> dict[str, str]:
    """What the process is given."""
    kept = {name: os.environ[name] for name in INHERITED if not os.environ.get(name, "()").startswith("()")}
    return {**get_default_environment(), **kept, **given}


async def _started(config: ServerConfig, mark: str) -> Process:
    env = environment(config.env)
    command = shutil.which(config.command, path=env.get("PATH"))
    if command is None:
        where = "no such file, or it is not executable" if os.sep in config.command else "it is not on the PATH"
        raise CannotStart(
            f"the command {config.command!r} was not found: {where}", "install it, or write its full path"
        )
    try:
        with anyio.CancelScope(shield=True):  # asyncio forgets a process whose start is cancelled
            process = await anyio.open_process(
                [command, *config.args],
                env={**env, _MARK: mark},
                cwd=config.cwd,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
    except OSError as error:
        raise CannotStart(
            f"the command {config.command!r} cannot be run: {error.strerror}", "make it executable, or name another"
        ) from None
    return process


class _Server:
    """One process, its group and its pipes."""

    def __init__(
        self,
        process: Process,
        mark: str,
        fate: Fate,
        to_session: MemoryObjectSendStream[SessionMessage | Exception],
    ) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        self._stdin, self._stdout, self._stderr = process.stdin, process.stdout, process.stderr
        self._process = process
        self._mark = mark
        self._fate = fate
        self._to_session = to_session
        self._patient = True
        """Whether it is given time to end by itself."""
        self._said_all = anyio.Event()
        self._draining = anyio.CancelScope(shield=True)

    async def drain_stderr(self) -> None:
        with self._draining, contextlib.suppress(*_GONE):
            while True:
                self._fate.hear_stderr(await self._stderr.receive())
        self._said_all.set()

    async def read(self) -> None:
        """Messages from the server, until one of the ends is closed."""
        lines = Lines(MAX_LINE_BYTES)
        try:
            while not lines.is_too_long:
                for line in lines.feed(await self._stdout.receive()):
                    await self._take(line)
            await self._take(None)
        except NoMessage as error:
            self._patient = False
            self._fate.seal(f"it sent {error}")
        except _GONE:
            await self._over("it closed its stdout")
        self._to_session.close()

    async def _take(self, line: bytes | None) -> None:
        if line is None:
            raise NoMessage(f"a line of more than {MAX_LINE_BYTES} bytes: ask for less")
        if b'"jsonrpc"' not in line:  # the parser takes its time to say what is wrong
            if line.strip():
                self._fate.hear_noise(line)
            return
        try:
            message = parsed(line)
        except NoMessage as error:
            if b'"id"' in line:  # somebody waits for it
                raise NoMessage(f"a message that cannot be read: {error}") from None
            self._fate.hear_noise(line)
            await anyio.lowlevel.checkpoint()
        else:
            await self._to_session.send(SessionMessage(message))

    async def write(self, from_session: MemoryObjectReceiveStream[SessionMessage]) -> None:
        """Messages to the server."""
        try:
            async for each in from_session:
                data = each.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"
                with anyio.fail_after(WRITE_SECONDS):
                    await self._stdin.send(data)
        except TimeoutError:
            self._patient = False
            self._fate.seal(f"it did not read its stdin for {WRITE_SECONDS:g} s")
        except _GONE:
            await self._over("it closed its stdin")
        self._to_session.close()

    async def _over(self, reason: str) -> None:
        """A pipe that closes is most often the first sign of an end, and the exit code says more."""
        with anyio.move_on_after(LAST_WORDS_SECONDS):
            await self._fate.over.wait()
        self._fate.seal(reason)

    async def watch(self) -> None:
        """A process that is gone may have left its pipes to a descendant."""
        while self._process.returncode is None:  # noqa: ASYNC110 -- Process.wait waits for the pipes, too, on asyncio
            await anyio.sleep(WATCH_SECONDS)
        with anyio.move_on_after(0.2):
            await self._said_all.wait()
        code = self._process.returncode
        self._fate.seal(f"it was killed by signal {-code}" if code < 0 else f"exit code {code}")
        await anyio.sleep(LAST_WORDS_SECONDS)  # its last messages are in the pipe, which a descendant may hold
        self._to_session.close()

    async def end(self) -> None:
        """End it and everything it started; bounded in time."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._drain_stdout)  # a full pipe would keep it from ending by itself
            await _closed(self._stdin)
            if self._patient and not await self._gone_within(GRACE_SECONDS) and self._signal(signal.SIGTERM):
                await self._gone_within(TERM_SECONDS)
            self._signal(signal.SIGKILL)
            await self._gone_within(GRACE_SECONDS)
            if sys.platform == "linux":
                await anyio.to_thread.run_sync(_kill_the_rest, self._mark, self._process.pid)
            tasks.cancel_scope.cancel()
        self._draining.cancel()
        await _closed(self._stdout)
        await _closed(self._stderr)
        # A descendant that cannot be killed may hold a pipe: asyncio's transport would warn when it is collected.
        close = getattr(getattr(getattr(self._process, "_process", None), "_transport", None), "close", None)
        if callable(close):
            with contextlib.suppress(PermissionError):
                close()

    async def _drain_stdout(self) -> None:
        with contextlib.suppress(*_GONE):
            while True:
                await self._stdout.receive()

    async def _gone_within(self, seconds: float) -> bool:
        with anyio.move_on_after(seconds):
            while self._process.returncode is None:  # noqa: ASYNC110 -- nothing else tells
                await anyio.sleep(POLL_SECONDS)
            return True
        return False

    def _signal(self, number: int) -> bool:
        try:
            os.killpg(self._process.pid, number)  # its own session: the group has its pid
        except (ProcessLookupError, PermissionError):
            return False
        return True


async def _closed(stream: AsyncResource) -> None:
    with contextlib.suppress(*_GONE):
        await stream.aclose()


def _kill_the_rest(mark: str, group: int) -> None:
    """Kill what is of the group or carries the mark, until nothing is left: what was just being forked is found in the
    next round."""
    needle = f"{_MARK}={mark}".encode()
    deadline = time.monotonic() + KILL_SECONDS
    while time.monotonic() < deadline:
        left = [int(pid) for pid in os.listdir("/proc") if pid.isdigit() and _is_left(pid, group, needle)]
        if not left:
            return
        for pid in left:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.005)


def _is_left(pid: str, group: int, needle: bytes) -> bool:
    try:
        with open(f"/proc/{pid}/stat", "rb") as stat:
            state, _, of_group = stat.read().rpartition(b")")[2].split()[:3]
        if state in (b"Z", b"X") or int(of_group) == group:  # one that is just ending has no environment any more
            return state not in (b"Z", b"X")
        with open(f"/proc/{pid}/environ", "rb") as environ:
            return needle in environ.read()
    except (OSError, ValueError):
        return False
