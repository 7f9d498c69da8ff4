"""Reading JSON-RPC messages, and saying in a few words why something is none."""

from __future__ import annotations

from mcp_types import JSONRPCMessage, JSONRPCNotification, jsonrpc_message_adapter
from pydantic import ValidationError
from pydantic_core import from_json

from callgate.mcp.bounds import marks_in

__all__ = ["MAX_VALUES", "NoMessage", "fault_of", "read_message"]


MAX_VALUES = 100_000
"""Commas and opening brackets in one message of a client. What a model writes has a few thousand."""


class NoMessage(ValueError):
    """It is no JSON-RPC message; the text says why, in one line."""


def read_message(data: bytes) -> JSONRPCMessage:
    """The message that the bytes are. Raises `NoMessage`."""
    if marks_in(data, MAX_VALUES) > MAX_VALUES:
        raise NoMessage(f"no JSON-RPC message that is taken: it has more than {MAX_VALUES} values")
    try:
        message: JSONRPCMessage = jsonrpc_message_adapter.validate_json(data, by_name=False)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        reason = (
            first["msg"] if first["type"] == "json_invalid" else "it is JSON, but no request, notification or answer"
        )
        raise NoMessage(f"no JSON-RPC message: {reason}") from None
    _refuse_what_was_left_out(data, message)
    return message


def _refuse_what_was_left_out(data: bytes, message: JSONRPCMessage) -> None:
    """Raises `NoMessage` for NaN and infinities, which are not JSON, and for an id that is none: a request with such an
    id reads as a notification, and its client would wait for an answer that never comes."""
    try:
        if b"NaN" in data or b"Infinity" in data:
            from_json(data, allow_inf_nan=False)
    except ValueError as error:
        raise NoMessage(f"no JSON-RPC message: {error}") from None
    if isinstance(message, JSONRPCNotification) and b'"id"' in data and from_json(data).get("id") is not None:
        raise NoMessage("no JSON-RPC message: an id is a text or a whole number")


def fault_of(body: bytes) -> str | None:
    """What is wrong with the body of a request; None where it is a message."""
    try:
        read_message(body)
    except NoMessage as error:
        return f"the body is {error}"
    return None
