"""JSON-RPC messages as bytes: lines of bounded length, the message in a line, and why a line is not a message. Pure.

A few bytes of JSON become a Python object of many: 32 MiB of ``[],[],`` take 3.6 GB and 16 s to parse. So the values of
a message from a client that may be hostile are counted before a parser sees it.
"""

from __future__ import annotations

from mcp_types import JSONRPCMessage, JSONRPCNotification, jsonrpc_message_adapter
from pydantic import ValidationError
from pydantic_core import from_json

from callgate.tools.decoding import counting
from callgate.tools.turns import at_once

__all__ = ["MAX_VALUES", "Lines", "NotAMessage", "parsed", "read_message"]

MAX_VALUES = 100_000
"""Commas and opening brackets in one message of a client. What a model writes has a few thousand."""


class NotAMessage(ValueError):
    """The bytes are not a JSON-RPC message; the text says why, in one line."""


class Lines:
    """Splits bytes into lines, without their ends. Takes linear time for any chunks; keeps at most one line.

    Args:
        most_bytes: of one line. A longer line comes out as None, and is not kept.
    """

    def __init__(self, most_bytes: int) -> None:
        self._most = most_bytes
        self._held = bytearray()
        self._size = 0

    @property
    def is_too_long(self) -> bool:
        """Whether the incomplete line is already too long."""
        return self._size > self._most

    def feed(self, chunk: bytes) -> list[bytes | None]:
        """The lines that this chunk completes."""
        *ended, rest = chunk.split(b"\n")
        lines: list[bytes | None] = []
        for piece in ended:
            self._add(piece)
            lines.append(None if self.is_too_long else bytes(self._held))
            self._held, self._size = bytearray(), 0
        self._add(rest)
        return lines

    def _add(self, piece: bytes) -> None:
        self._size += len(piece)
        if self.is_too_long:
            self._held = bytearray()
        else:
            self._held += piece


def parsed(data: bytes) -> JSONRPCMessage:
    """Parse a message. Raises `NotAMessage`."""
    try:
        message: JSONRPCMessage = jsonrpc_message_adapter.validate_json(data, by_name=False)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        is_json = first["type"] != "json_invalid"
        why = "it is JSON, but not a request, notification or answer" if is_json else first["msg"]
        raise NotAMessage(why) from None
    return message


def read_message(data: bytes) -> JSONRPCMessage:
    """Parse a message of a client that may be hostile. Raises `NotAMessage`, also for NaN and infinities, which are not
    JSON, and for an invalid id: a request with such an id reads as a notification, and its client would wait for an
    answer that never comes."""
    if at_once(counting(data, MAX_VALUES)) > MAX_VALUES:
        raise NotAMessage(f"too large: it has more than {MAX_VALUES} values")
    try:
        message = parsed(data)
        if b"NaN" in data or b"Infinity" in data:
            from_json(data, allow_inf_nan=False)
    except ValueError as error:
        raise NotAMessage(f"not a JSON-RPC message: {error}") from None
    if isinstance(message, JSONRPCNotification) and b'"id"' in data and from_json(data).get("id") is not None:
        raise NotAMessage("not a JSON-RPC message: an id is a text or a whole number")
    return message
