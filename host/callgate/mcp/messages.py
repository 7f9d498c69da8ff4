"""JSON-RPC messages as bytes: lines of bounded length, what a line holds, and why a line holds no message. Pure.

A few bytes of JSON become a Python object of many: 32 MiB of ``[],[],`` take 3.6 GB and 16 s to parse. So for clients
that may be hostile the marks that make values, commas and opening brackets outside strings, are counted first. The
count is exact up to the first place where a text is no JSON, and there a parser stops.
"""

from __future__ import annotations

from mcp_types import JSONRPCMessage, JSONRPCNotification, jsonrpc_message_adapter
from pydantic import ValidationError
from pydantic_core import from_json

from callgate.tools.decoding import outside_strings

__all__ = ["MAX_VALUES", "Lines", "NoMessage", "has_too_many_values", "parsed", "read_message"]

MAX_VALUES = 100_000
"""Commas and opening brackets in one message of a client. What a model writes has a few thousand."""


class NoMessage(ValueError):
    """The bytes are no JSON-RPC message; the text says why, in one line."""


class Lines:
    """Bytes into lines without their ends. Linear in the bytes, whatever the chunks; keeps one line at most.

    Args:
        most_bytes: of one line. A longer one comes out as None, and is not kept.
    """

    def __init__(self, most_bytes: int) -> None:
        self._most = most_bytes
        self._held = bytearray()
        self._size = 0

    @property
    def is_too_long(self) -> bool:
        """Whether the line that is not complete is too long already."""
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
    """The message that the bytes are. Raises `NoMessage`."""
    try:
        message: JSONRPCMessage = jsonrpc_message_adapter.validate_json(data, by_name=False)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        is_json = first["type"] != "json_invalid"
        raise NoMessage("it is JSON, but no request, notification or answer" if is_json else first["msg"]) from None
    return message


def read_message(data: bytes) -> JSONRPCMessage:
    """The message of a client that may be hostile. Raises `NoMessage`, also for NaN and infinities, which are not JSON,
    and for an id that is none: a request with such an id reads as a notification, and its client would wait for an
    answer that never comes."""
    if has_too_many_values(data):
        raise NoMessage(f"no JSON-RPC message that is taken: it has more than {MAX_VALUES} values")
    try:
        message = parsed(data)
        if b"NaN" in data or b"Infinity" in data:
            from_json(data, allow_inf_nan=False)
    except ValueError as error:
        raise NoMessage(f"no JSON-RPC message: {error}") from None
    if isinstance(message, JSONRPCNotification) and b'"id"' in data and from_json(data).get("id") is not None:
        raise NoMessage("no JSON-RPC message: an id is a text or a whole number")
    return message


def has_too_many_values(text: bytes) -> bool:
    """Whether it has more than `MAX_VALUES` commas and opening brackets outside strings."""
    if _marks(text) <= MAX_VALUES:
        return False
    marks = 0
    for block in outside_strings(text):
        marks += _marks(block)
        if marks > MAX_VALUES:
            return True
    return False


def _marks(text: bytes) -> int:
    return text.count(b",") + text.count(b"[") + text.count(b"{")
