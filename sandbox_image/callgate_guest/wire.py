"""The wire: frame format, method names, error codes. The one file that host and guest share; it does no I/O.

JSON-RPC 2.0 (https://www.jsonrpc.org/specification), one message a line, UTF-8. ``\\n`` ends a frame and cannot occur
inside one, since JSON escapes it.
"""

from __future__ import annotations

from typing import Final

EXECUTE: Final = "execute"  # host -> guest, request: run a program
PRINT: Final = "print"  # guest -> host, notification: {"text": ..., "line": n}
CANCEL: Final = "cancel"  # both ways, notification: {} ends the program; {"id": n} cancels one tool call
WITHDRAWN: Final = "rpc.withdrawn"  # guest -> host, notification: a call that was cancelled before its request left
ENDING: Final = "rpc.ending"  # guest -> host, notification: the value of a program that still waits for calls
WAIT: Final = "$wait"  # guest -> host, notification, if `execute` has `replay`: {"until": time or null}, for one event
EVENT: Final = "$event"  # host -> guest, notification: {"time": t} ends a timer; a reply is an event too, with "time"
DISPLAY: Final = "rpc.display"  # guest -> host, notification: {"name", "media_type", "data": base64 | "text": ...}

# A tool call is a request with the tool's name as its method. The call and all notifications of the guest may say which
# line of the program they come from: in the member "line" of a call, beside "id", and among the params of the others.

DESCRIBE_TOOLS: Final = "describe_tools"  # a built-in tool: its one parameter takes all positional arguments
FINAL_ANSWER: Final = "final_answer"  # a call like that of a tool, if the host takes an answer: {"value": ...}

INVALID_REQUEST: Final = -32600
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603
TOOL_FAILED: Final = -32000
CANCELLED: Final = -32004
PROGRAM_FAILED: Final = -32010  # the reply to `execute` when the program raised
DIVERGED: Final = -32011  # the reply to `execute` when a replay is not the recorded run

ERRORS: Final = {-32006: "UnknownOutcome", -32007: "ApprovalDenied"}  # kinds of ToolError that programs can name
OUT_OF_MEMORY: Final = 98  # exit status of a guest that had no memory left to say so

PROGRAM_NAME: Final = "<program>"  # file name of the program's own frames; later ones of a session: <program-2>, ...

MESSAGE_BYTES: Final = 16 * 1024 * 1024  # bytes of a message at most, if the host says nothing else

TEXT_LIMIT: Final = 65536
"""Characters of a message, a traceback or a repr that leave the guest."""


def cut(text: str, most: int = TEXT_LIMIT) -> str:
    """A text of at most about `most` characters: of a longer one, both ends."""
    if len(text) <= most:
        return text
    half = most // 2
    return f"{text[:half]}\n... {len(text) - 2 * half} characters cut ...\n{text[-half:]}"


class LineBuffer:
    """Bytes in, complete lines out. Holds at most `max_bytes` of an unfinished line, and what one `feed` brought.

    A line above the limit sets `too_long`; the lines before it are still given, nothing after it is. An unfinished line
    is one buffer, however many pieces it comes in: an object for each piece would take many times its bytes.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._unfinished = bytearray()
        self.too_long = False

    def feed(self, data: bytes) -> list[bytes]:
        """Lines completed by `data`, without their newline."""
        if self.too_long:
            return []
        lines = data.split(b"\n")
        rest = lines.pop()
        if lines and self._unfinished:
            self._unfinished += lines[0]
            lines[0] = bytes(self._unfinished)
            self._unfinished = bytearray()
        self._unfinished += rest
        for number, line in enumerate(lines):
            if len(line) > self._max_bytes:
                self.too_long = True
                return lines[:number]
        self.too_long = len(self._unfinished) > self._max_bytes
        return lines
