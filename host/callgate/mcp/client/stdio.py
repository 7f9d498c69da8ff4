"""MCP over a process's stdin and stdout: one JSON-RPC message a line, bounded in every direction.

The SDK's own transport keeps a line of any length in memory, and reads as fast as a server writes. Here:

1. A line is at most `MAX_LINE_BYTES`. One that is longer is read over, never kept; one of more than `bounds.MAX_VALUES`
   is not parsed. Where it is the answer to a request, which its first or last bytes show, that request fails and the
   rest goes on; anything else ends the connection.
2. What is no message is counted, its first line kept for the status, and read over: programs print banners. More than
   `MAX_GARBAGE_BYTES` of it end the connection.
3. Messages that nobody asked for are read at `UNASKED_PER_SECOND` at most, and one of more than `UNASKED_BYTES` or
   `UNASKED_VALUES` counts for several; beyond that the pipe fills and the server waits. So it is with answers to no
   request, and with empty lines. One of more than `MAX_UNASKED_VALUES` ends the connection. Requests of the server that
   are not answered yet are at most `MAX_UNANSWERED`.
4. A server that does not read its stdin for `WRITE_SECONDS` is not there any more.

Knows bytes and lines; what a message means is the session's.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from mcp_types import (
    INTERNAL_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCRequest,
    JSONRPCResponse,
    jsonrpc_message_adapter,
)

from callgate.mcp.bounds import MAX_DEPTH, MAX_VALUES, is_too_deep, marks_in

from .faults import one_line
from .process import ServerProcess
from .streams import Fate, Pace, Streams

__all__ = ["stdio_streams"]

MAX_LINE_BYTES = 32 * 1024 * 1024
"""Of one message; an image of 24 MB fits."""
MAX_SKIPPED_BYTES = 8 * MAX_LINE_BYTES
"""Of a line that is read over; beyond that it never ends."""
MAX_GARBAGE_BYTES = 16 * 1024 * 1024
"""Of what is no message, in the life of one process."""
UNASKED_PER_SECOND = 1000
UNASKED_AT_ONCE = 5000
UNASKED_BYTES = 1024
UNASKED_VALUES = 100
MAX_UNASKED_VALUES = 50_000
"""Reading so many takes a tenth of a second, in which nobody else is served."""
EMPTY_LINE = 1 / 16
"""What one counts for."""
MAX_UNANSWERED = 256
WRITE_SECONDS = 20.0
QUEUED_MESSAGES = 1024
"""Messages on their way to the server's stdin: a cancellation must not wait for a server that does not read."""
LAST_WORDS_SECONDS = 0.5
_ENDS = 256
"""Bytes at either end of a line that are looked at for the id of its request."""

_ID_FIRST = re.compile(
    rb'^\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*(\d{1,18})\s*,\s*'
    rb'(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"(?:result|error)"'
)
_ANSWER_FIRST = re.compile(rb'^\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"(?:result|error)"')
_ID_LAST = re.compile(
    rb',\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*(\d{1,18})\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$'
)


@asynccontextmanager
async def stdio_streams(process: ServerProcess, fate: Fate) -> AsyncIterator[Streams]:
    """The two streams of a session. They close when the connection is over; `fate` says why."""
    to_session, from_server = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    to_server, from_session = anyio.create_memory_object_stream[SessionMessage](QUEUED_MESSAGES)
    pipe = _Pipe(process, fate, to_session)
    async with to_session, from_server, to_server, from_session, anyio.create_task_group() as tasks:
        tasks.start_soon(pipe.read)
        tasks.start_soon(pipe.write, from_session)
        tasks.start_soon(pipe.watch)
        yield from_server, to_server
        with anyio.move_on_after(0.5):  # what is on its way goes out
            while from_session.statistics().current_buffer_used and not fate.is_sealed:  # noqa: ASYNC110 -- as above
                await anyio.sleep(0.01)
        tasks.cancel_scope.cancel()


class _Pipe:
    """Both directions of one process."""

    def __init__(
        self, process: ServerProcess, fate: Fate, to_session: MemoryObjectSendStream[SessionMessage | Exception]
    ) -> None:
        self._process = process
        self._fate = fate
        self._to_session = to_session
        self._asked: set[int | str] = set()
        self._unanswered: set[int | str] = set()
        self._pace = Pace(UNASKED_AT_ONCE, UNASKED_PER_SECOND)

    async def read(self) -> None:
        """Messages from the server, until one of the ends is closed."""
        lines = _Lines()
        try:
            while True:
                chunk = await self._process.stdout.receive()
                for line in lines.feed(chunk):
                    await self._take(line)
                if lines.skipped > MAX_SKIPPED_BYTES:
                    raise _Over(f"it sent a line of more than {MAX_SKIPPED_BYTES} bytes")
        except _Over as over:
            self._process.patient = False
            self._fate.seal(str(over))
        except (anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError, OSError):
            await self._seal_unless_gone("it closed its stdout")
        self._to_session.close()

    async def write(self, from_session: MemoryObjectReceiveStream[SessionMessage]) -> None:
        """Messages to the server."""
        try:
            async for each in from_session:
                message = each.message
                if isinstance(message, JSONRPCRequest):
                    self._asked.add(message.id)
                if isinstance(message, (JSONRPCResponse, JSONRPCError)) and message.id is not None:
                    self._unanswered.discard(message.id)
                data = message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"
                with anyio.fail_after(WRITE_SECONDS):
                    await self._process.stdin.send(data)
        except TimeoutError:
            self._process.patient = False
            self._fate.seal(f"it did not read its stdin for {WRITE_SECONDS:g} s")
        except (anyio.ClosedResourceError, anyio.BrokenResourceError, OSError):
            await self._seal_unless_gone("it closed its stdin")
        self._to_session.close()

    async def _seal_unless_gone(self, reason: str) -> None:
        """A pipe that closes is most often the first sign of an end, and the exit code says more."""
        with anyio.move_on_after(LAST_WORDS_SECONDS):
            await self._fate.over.wait()
        self._fate.seal(reason)

    async def watch(self) -> None:
        """A process that is gone may have left its pipes to a descendant."""
        await self._process.exited()
        await self._process.told_why()
        code = self._process.exit_code
        self._fate.seal(f"it was killed by signal {-code}" if code is not None and code < 0 else f"exit code {code}")
        await anyio.sleep(LAST_WORDS_SECONDS)  # its last messages are in the pipe, which a descendant may hold
        self._to_session.close()

    async def _take(self, line: _Line) -> None:
        if line.skipped:
            request = line.request
            if request is None:
                raise _Over(f"it sent a message of more than {MAX_LINE_BYTES} bytes")
            text = f"the answer has {line.bytes} bytes; at most {MAX_LINE_BYTES} are taken: ask for less"
            return await self._hand_on(_failed(request, text))
        if not line.text.strip():
            return await self._pace.keep(EMPTY_LINE)
        marks = marks_in(line.text, MAX_UNASKED_VALUES)
        if marks > MAX_UNASKED_VALUES and line.request not in self._asked:
            raise _Over(f"it sent a message of more than {MAX_UNASKED_VALUES} values that nobody asked for")
        if marks > MAX_UNASKED_VALUES and marks_in(line.text) > MAX_VALUES:
            request = line.request
            assert request is not None
            return await self._hand_on(_failed(request, f"the answer has more than {MAX_VALUES} values: ask for less"))
        try:
            message = jsonrpc_message_adapter.validate_json(line.text, by_name=False)
        except (ValueError, RecursionError):
            request = line.request
            if request is None:
                return await self._garbage(line.text)
            deep = f"the answer is nested more than {MAX_DEPTH} levels deep"
            text = deep if is_too_deep(line.text) else "its answer is no MCP message"
            return await self._hand_on(_failed(request, text))
        if isinstance(message, (JSONRPCResponse, JSONRPCError)) and message.id in self._asked:
            self._asked.discard(message.id)
        else:
            await self._pace.keep(max(1.0, line.bytes / UNASKED_BYTES, marks / UNASKED_VALUES))
        if isinstance(message, JSONRPCRequest):
            self._unanswered.add(message.id)
            if len(self._unanswered) > MAX_UNANSWERED:
                raise _Over(f"it sent more than {MAX_UNANSWERED} requests without waiting for answers")
        return await self._hand_on(message)

    async def _hand_on(self, message: JSONRPCMessage) -> None:
        await self._to_session.send(SessionMessage(message))

    async def _garbage(self, text: bytes) -> None:
        self._fate.garbage_lines += 1
        self._fate.garbage_bytes += len(text)
        if not self._fate.garbage_example:
            self._fate.garbage_example = one_line(text[:400].decode(errors="replace"), 80)
        if self._fate.garbage_bytes > MAX_GARBAGE_BYTES:
            raise _Over(f"it sent more than {MAX_GARBAGE_BYTES} bytes that are no MCP messages")
        await self._pace.keep()


def _failed(request: int, message: str) -> JSONRPCError:
    return JSONRPCError(jsonrpc="2.0", id=request, error=ErrorData(code=INTERNAL_ERROR, message=message))


class _Over(Exception):
    """The server is not to be borne; the message says why."""


class _Line:
    """One line, or what is known of one that was too long."""

    __slots__ = ("bytes", "skipped", "text")

    def __init__(self, text: bytes, size: int, skipped: bool) -> None:
        self.text = text
        self.bytes = size
        self.skipped = skipped

    @property
    def request(self) -> int | None:
        """The request that a line too long answers."""
        first, last = self.text[:_ENDS], self.text[-_ENDS:]
        found = _ID_FIRST.match(first)
        if found is None and _ANSWER_FIRST.match(first):
            found = _ID_LAST.search(last)
        return int(found[1]) if found else None


class _Lines:
    """Bytes into lines. Linear in the bytes, whatever the chunks; keeps one line at most."""

    def __init__(self) -> None:
        self.skipped = 0
        """Bytes of the line that is just being read over."""
        self._held = bytearray()
        self._size = 0

    def feed(self, chunk: bytes) -> list[_Line]:
        *whole, rest = chunk.split(b"\n")
        lines = []
        for piece in whole:
            self._add(piece)
            lines.append(self._line())
        self._add(rest)
        return lines

    def _add(self, piece: bytes) -> None:
        if not piece:
            return
        self._size += len(piece)
        self._held += piece
        if self._size > MAX_LINE_BYTES:
            del self._held[_ENDS:-_ENDS]
            self.skipped = self._size

    def _line(self) -> _Line:
        skipped, self.skipped = self.skipped > 0, 0
        line = _Line(bytes(self._held), self._size, skipped)
        self._held, self._size = bytearray(), 0
        return line
