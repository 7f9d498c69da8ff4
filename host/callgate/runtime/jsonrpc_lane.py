"""The slow lane: every message that is not a plain call goes through `jsonrpcserver`. Only this file imports it.

Measured by the examples of the JSON-RPC 2.0 specification, the library has three faults: its replies to batches with
invalid requests are wrong, it gathers with asyncio (callgate also runs on trio), and it copies an unexpected
exception's text into the reply. So this file takes batches apart, checks each request and catches each exception, and
the library handles one valid request.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from typing import Any

import anyio
import anyio.lowlevel

from callgate.errors import CallgateError, LimitReached, ToolError
from callgate.protocol.run import error_object
from callgate_guest.wire import INVALID_REQUEST

from .gate import RunGate

with warnings.catch_warnings():
    # importlib.resources.read_text, deprecated in 3.11 and 3.12
    warnings.simplefilter("ignore", DeprecationWarning)
    from jsonrpcserver import Error, Success
    from jsonrpcserver.async_dispatcher import dispatch_request
    from jsonrpcserver.dispatcher import create_request, not_notification, to_response
    from jsonrpcserver.response import to_serializable
    from jsonrpcserver.sentinels import NOCONTEXT

__all__ = ["Answer", "answer"]

MAX_BATCH = 1024
"""Requests in one batch, at most."""
_MEMBERS = frozenset({"jsonrpc", "method", "params", "id", "line"})
"""`line` is the member that a plain call may have; here nobody reads it."""


class Answer:
    """The reply to a message, and its fault.

    Attributes:
        reply: the response (an object, or a list for a batch); ``None`` if none is due.
        fault: why the message was not a valid request, in words; ``None`` for a valid one.
        stop: an error that ends the run.
    """

    def __init__(self) -> None:
        self.reply: Any = None
        self.fault: str | None = None
        self.stop: CallgateError | None = None
        self._bytes = 0

    def add(self, text: str, most: int) -> None:
        """Count a result of the reply. Raises `LimitReached` if the results are too large for one message."""
        self._bytes += len(text)
        if self._bytes > most:
            raise LimitReached("max_message_bytes", most, self._bytes)


class _Methods(dict[str, Callable[..., Any]]):
    """Has a method for every name, since the gate knows the tools and refuses other names."""

    def __init__(self, gate: RunGate, given: Answer) -> None:
        super().__init__()
        self._gate = gate
        self._given = given

    def __missing__(self, name: str) -> Callable[..., Any]:
        async def method(*positional: Any, **arguments: Any) -> Any:
            try:
                text = await self._call(name, positional, arguments)
                self._given.add(text, self._gate.limits.max_message_bytes)
                return Success(json.loads(text))
            except LimitReached as error:
                self._given.stop = error
                return Error(code=-32003, message=str(error))
            except ToolError as error:
                return Error(**error_object(error))

        return method

    async def _call(self, name: str, positional: tuple[Any, ...], arguments: dict[str, Any]) -> str:
        if not positional:
            return await self._gate.call(name, arguments)
        offer = self._gate.offer
        tool = offer.by_name.get(offer.canonical(name))
        given: Any = list(positional)
        if tool is not None and len(positional) <= len(tool.parameters):
            given = dict(zip(tool.parameters, positional, strict=False))
        return await self._gate.call(name, given)  # the gate refuses a list


async def answer(message: Any, gate: RunGate) -> Answer:
    """Answer one decoded message of any form. Raises only cancellation."""
    given = Answer()
    methods = _Methods(gate, given)
    if not isinstance(message, list):
        given.reply = await _one(message, methods, given)
    elif not message:
        given.reply = _invalid(given, "an empty batch")
    elif len(message) > MAX_BATCH:
        given.reply = _invalid(given, f"a batch of more than {MAX_BATCH} requests")
    else:
        replies: list[Any] = [None] * len(message)

        places = iter(range(len(message)))

        async def fill() -> None:
            for place in places:
                if given.stop is not None:
                    return
                replies[place] = await _one(message[place], methods, given)
                await anyio.lowlevel.checkpoint()

        async with anyio.create_task_group() as tasks:
            for _ in range(min(len(message), gate.limits.max_concurrent_calls)):
                tasks.start_soon(fill)
        given.reply = [reply for reply in replies if reply is not None] or None
    return given


async def _one(message: Any, methods: _Methods, given: Answer) -> Any:
    problem = _problem(message)
    if problem is not None:
        return _invalid(given, problem)
    done = await dispatch_request(methods, NOCONTEXT, create_request(message))
    return to_serializable(to_response(*done)) if not_notification(done) else None


def _invalid(given: Answer, problem: str) -> dict[str, Any]:
    given.fault = given.fault or problem
    return {
        "jsonrpc": "2.0",
        "error": {"code": INVALID_REQUEST, "message": "Invalid Request", "data": problem},
        "id": None,
    }


def _problem(message: Any) -> str | None:
    """Why `message` is not a request object (JSON-RPC 2.0, section 4); ``None`` if it is one."""
    if not isinstance(message, dict):
        return f"a request is an object, not {type(message).__name__}"
    if message.get("jsonrpc") != "2.0":
        return 'a request has "jsonrpc": "2.0"'
    if not isinstance(message.get("method"), str):
        return "a request has a method, which is text"
    if not isinstance(message.get("params", {}), (dict, list)):
        return "params are an object or an array"
    number = message.get("id")
    if isinstance(number, bool) or not isinstance(number, (int, float, str, type(None))):
        return "an id is text, a number or null"
    if isinstance(number, (int, float)) and not -(2**53) <= number <= 2**53:
        return "an id that is a number lies between -2**53 and 2**53"
    if isinstance(number, str) and len(number) > 64:
        return "an id has at most 64 characters"
    if not message.keys() <= _MEMBERS:
        return f"a request has no member {min(message.keys() - _MEMBERS)[:40]!r}"
    return None
