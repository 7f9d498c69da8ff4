"""MCP over the stdin and stdout of a process: started in a group of its own, one JSON-RPC message a line, and ended
with its group.

1. The environment has the few variables of `INHERITED` and those of the configuration: the host's own credentials are
   not passed on.
2. A line has at most `MAX_LINE_BYTES`. A longer line, or an answer that cannot be read, ends the connection: running
   calls fail with that reason, and the server is started again.
3. Other lines that are not messages are counted and skipped: programs print banners. stderr is always drained.
4. The end follows the specification: stdin closed, a grace, SIGTERM to the group, a grace, SIGKILL. The rest of the
   group ends, too, when the server ended by itself. Shielded: a cancelled host leaves nothing behind. On Windows,
   the group is a job, which ends at once after the first grace.

The SDK's own transport keeps a line of any length, hands stderr on, and leaves the group of a server that has ended.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import anyio
import anyio.lowlevel
from anyio.abc import AsyncResource, Process
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.client.stdio import get_default_environment
from mcp.shared.message import SessionMessage

from callgate.mcp.config import ServerConfig
from callgate.mcp.messages import Lines, NotAMessage, parsed

from .processes import end_tree, started
from .status import CannotStart, Fate

__all__ = ["environment", "stdio_streams"]

INHERITED = (
    *("LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR", "COMSPEC"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"),
)
"""Variables that every server inherits besides those of the SDK (`PATH`, `HOME` and their kind): locale, time zone, and
trusted certificates; nothing that is usually secret."""
MAX_LINE_BYTES = 32 * 1024 * 1024
"""Of one message; an image of 24 MB fits."""
QUEUED_MESSAGES = 1024
"""Messages on their way to the server's stdin: a cancellation must not wait for a server that does not read."""
LAST_WORDS_SECONDS = 0.5
GRACE_SECONDS = 2.0
"""For a server to end by itself after its stdin is closed, and for a killed process to be gone."""
TERM_SECONDS = 1.0
"""Between SIGTERM and SIGKILL."""
POLL_SECONDS = 0.02
_GONE = (anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError, anyio.BusyResourceError, OSError)


@asynccontextmanager
async def stdio_streams(config: ServerConfig, fate: Fate) -> AsyncIterator[tuple[Any, Any]]:
    """Start the server's process; yields the two streams of a session. The process is gone when the context is left.

    Args:
        config: the command, and its environment.
        fate: receives stderr, lines that are not messages, and why the connection ended.

    Raises:
        CannotStart: there is no such program, or it may not be run.
    """
    process = await _started(config)
    # From here to the task group nothing is awaited: a cancellation would leave the process.
    to_session, from_server = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    to_server, from_session = anyio.create_memory_object_stream[SessionMessage](QUEUED_MESSAGES)
    server = _Server(process, fate, to_session)
    async with to_session, from_server, to_server, from_session, anyio.create_task_group() as tasks:
        try:
            tasks.start_soon(server.hear_stderr)
            tasks.start_soon(server.read)
            tasks.start_soon(server.watch)
            tasks.start_soon(server.write, from_session)
            yield from_server, to_server
            with anyio.move_on_after(LAST_WORDS_SECONDS):  # let queued messages go out
                while from_session.statistics().current_buffer_used and not fate.reason:  # noqa: ASYNC110
                    await anyio.sleep(POLL_SECONDS)
        finally:
            with anyio.CancelScope(shield=True):
                await server.end()
            tasks.cancel_scope.cancel()


def environment(given: Mapping[str, str]) -> dict[str, str]:
    """The environment of a server's process."""
    kept = {name: os.environ[name] for name in INHERITED if not os.environ.get(name, "()").startswith("()")}
    return {**get_default_environment(), **kept, **given}


async def _started(config: ServerConfig) -> Process:
    env = environment(config.env)
    command = shutil.which(config.command, path=env.get("PATH"))
    if command is None:
        where = "no such file, or it is not executable" if os.sep in config.command else "it is not on the PATH"
        raise CannotStart(
            f"the command {config.command!r} was not found: {where}", "install it, or write its full path"
        )
    try:
        with anyio.CancelScope(shield=True):  # asyncio forgets a process whose start is cancelled
            process = await started([command, *config.args], env, config.cwd)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", error)
        raise CannotStart(
            f"the command {config.command!r} cannot be run: {why}", "make it executable, or name another"
        ) from None
    return process


class _Server:
    """One process, its group and its pipes."""

    def __init__(
        self, process: Process, fate: Fate, to_session: MemoryObjectSendStream[SessionMessage | Exception]
    ) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        self._stdin, self._stdout, self._stderr = process.stdin, process.stdout, process.stderr
        self._process = process
        self._fate = fate
        self._to_session = to_session
        self._stderr_ended = anyio.Event()

    async def hear_stderr(self) -> None:
        with contextlib.suppress(*_GONE):
            while True:
                self._fate.hear_stderr(await self._stderr.receive())
        self._stderr_ended.set()

    async def read(self) -> None:
        """Read messages from the server until one of the ends is closed."""
        lines = Lines(MAX_LINE_BYTES)
        try:
            while not lines.is_too_long:
                for line in lines.feed(await self._stdout.receive()):
                    if line is None or line.strip():
                        await self._take(line)
            await self._take(None)
        except NotAMessage as error:
            self._fate.seal(f"it sent {error}")
        except _GONE:
            await self._over("it closed its stdout")
        self._to_session.close()

    async def _take(self, line: bytes | None) -> None:
        if line is None:
            raise NotAMessage(f"a line of more than {MAX_LINE_BYTES} bytes: ask for less")
        try:
            message = parsed(line) if b'"jsonrpc"' in line else None  # the parser is slow on texts that are not JSON
        except NotAMessage as error:
            if b'"id"' in line:  # a call may wait for it
                raise NotAMessage(f"a message that cannot be read: {error}") from None
            message = None
        if message is None:
            self._fate.hear_noise(line)
            await anyio.lowlevel.checkpoint()
        else:
            await self._to_session.send(SessionMessage(message))

    async def write(self, from_session: MemoryObjectReceiveStream[SessionMessage]) -> None:
        """Write messages to the server. Messages wait for a server that does not read; calls have their own limits."""
        try:
            async for each in from_session:
                data = each.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"
                await self._stdin.send(data)
        except _GONE:
            await self._over("it closed its stdin")
            self._to_session.close()

    async def _over(self, reason: str) -> None:
        """Record that a pipe was closed, unless `watch` records the exit code soon, which says more."""
        with anyio.move_on_after(LAST_WORDS_SECONDS):
            await self._fate.over.wait()
        self._fate.seal(reason)

    async def watch(self) -> None:
        """End the connection when the process is gone, even if a descendant still holds its pipes."""
        await self._gone_within(float("inf"))
        with anyio.move_on_after(0.2):
            await self._stderr_ended.wait()
        code = self._process.returncode or 0
        self._fate.seal(f"it was killed by signal {-code}" if code < 0 else f"exit code {code}")
        await anyio.sleep(LAST_WORDS_SECONDS)  # for the last messages in a pipe that a descendant holds open
        self._to_session.close()

    async def end(self) -> None:
        """End the process and its group; bounded in time."""
        await _closed(self._stdin)
        await self._gone_within(GRACE_SECONDS)
        await end_tree(self._process, TERM_SECONDS)
        await self._gone_within(GRACE_SECONDS)
        await _closed(self._stdout)
        await _closed(self._stderr)
        # a descendant that cannot be killed may hold a pipe: asyncio's transport would warn when it is collected
        transport = getattr(getattr(self._process, "_process", None), "_transport", None)
        if transport is not None:  # asyncio's
            with contextlib.suppress(PermissionError):
                transport.close()

    async def _gone_within(self, seconds: float) -> None:
        with anyio.move_on_after(seconds):
            while self._process.returncode is None:  # noqa: ASYNC110 -- Process.wait waits for the pipes, too, on asyncio
                await anyio.sleep(POLL_SECONDS)


async def _closed(stream: AsyncResource) -> None:
    with contextlib.suppress(*_GONE):
        await stream.aclose()
