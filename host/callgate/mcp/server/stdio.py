"""MCP over this process's stdin and stdout. Knows descriptors, lines and messages; nothing of tools.

1. Only the protocol is on stdout: while a server runs, descriptor 1 leads to stderr, so that prints of tools, C
   libraries and child processes land there, and descriptor 0 leads to nothing.
2. Every wait can be cancelled; on Windows, see `descriptors`. (The SDK's own transport reads in a thread everywhere,
   which Ctrl-C cannot end.)
3. A line that is not a message, or is longer than `MAX_LINE_BYTES`, is skipped; the log has a line about it.
4. The server ends when stdin ends, or when nobody reads stdout any more.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from mcp_types import INTERNAL_ERROR, ErrorData, JSONRPCError, JSONRPCMessage, JSONRPCResponse

from callgate.mcp.messages import Lines, NotAMessage, read_message
from callgate.portable import duplicate

from .descriptors import reading, write

__all__ = ["MAX_LINE_BYTES", "StdioWire", "stdio_wire", "streams"]

logger = logging.getLogger("callgate")

MAX_LINE_BYTES = 16 * 1024 * 1024
"""Of one message from the client."""


@dataclass(frozen=True, slots=True)
class StdioWire:
    """The descriptors that messages of the client come from, and that our messages go to."""

    incoming: int
    outgoing: int


@contextlib.contextmanager
def stdio_wire(*, for_good: bool = False) -> Iterator[StdioWire]:
    """Take descriptors 0 and 1 for the protocol, and put /dev/null and stderr in their place for everything else.

    Args:
        for_good: do not give the descriptors back, so that libraries cannot write to the client when the process exits.
    """
    sys.stdout.flush()
    wire = StdioWire(duplicate(0), duplicate(1))
    nothing = os.open(os.devnull, os.O_RDWR)
    try:
        os.dup2(nothing, 0)
        try:
            os.dup2(2, 1)
        except OSError:  # stderr is closed
            os.dup2(nothing, 1)
        with contextlib.redirect_stdout(sys.stderr):
            yield wire
    finally:
        os.close(nothing)
        if not for_good:
            os.dup2(wire.incoming, 0)
            os.dup2(wire.outgoing, 1)
        os.close(wire.incoming)
        os.close(wire.outgoing)


Read = MemoryObjectReceiveStream[SessionMessage | Exception]
Write = MemoryObjectSendStream[SessionMessage]


@contextlib.asynccontextmanager
async def streams(wire: StdioWire) -> AsyncIterator[tuple[Read, Write]]:
    """The streams of messages from and to the client, for the SDK's server."""
    to_server, from_client = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    to_client, from_server = anyio.create_memory_object_stream[SessionMessage](0)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_write_all, wire.outgoing, from_server, to_server)
        tasks.start_soon(_read_all, wire.incoming, to_server)
        try:
            with from_client, to_client:
                yield from_client, to_client
        finally:
            tasks.cancel_scope.cancel()


async def _read_all(fd: int, to_server: MemoryObjectSendStream[SessionMessage | Exception]) -> None:
    lines = Lines(MAX_LINE_BYTES)
    with to_server, contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
        async with reading(fd) as read:
            data = b" "
            while data:
                data = await read()
                for line in lines.feed(data or b"\n"):  # a last one without an end counts
                    if line is None or line.strip():
                        await _take(line, to_server)


async def _take(line: bytes | None, to_server: MemoryObjectSendStream[SessionMessage | Exception]) -> None:
    try:
        if line is None:
            raise NotAMessage(f"longer than {MAX_LINE_BYTES} bytes")
        await to_server.send(SessionMessage(read_message(line)))
    except NotAMessage as error:
        logger.warning("from the client: a line is %s; it is skipped", error)


async def _write_all(
    fd: int,
    from_server: MemoryObjectReceiveStream[SessionMessage],
    to_server: MemoryObjectSendStream[SessionMessage | Exception],
) -> None:
    with from_server:
        try:
            async for message in from_server:
                await write(fd, _line(message.message))
        except OSError as error:
            logger.warning("the client does not read any more: %s", error.strerror)
            to_server.close()  # as if it had closed stdin


def _line(message: JSONRPCMessage) -> bytes:
    try:
        return message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"
    except ValueError:  # a value that JSON cannot carry, such as a lone surrogate
        logger.exception("a message to the client could not be written")
        if not isinstance(message, (JSONRPCResponse, JSONRPCError)):
            return b""
        error = ErrorData(code=INTERNAL_ERROR, message="the answer could not be written as JSON")
        return JSONRPCError(jsonrpc="2.0", id=message.id, error=error).model_dump_json(by_alias=True).encode() + b"\n"
