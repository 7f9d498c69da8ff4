"""One run on the wire, from the host's side: bytes in, events out; answers in, bytes out. No I/O.

Theory of operation. The host sends one `execute` request; until its reply comes, the guest may send tool calls,
prints and cancellations. A plain call (an object with a method, an id never used before, and params by name) becomes
a `Called`
event: the fast lane. Whatever is JSON but not plain (a batch, params by position, no id, an odd id) becomes `Other`
    and goes to the JSON-RPC library. Whatever is no JSON, answers something never asked, or reuses an id ends the run
    with a `ProtocolError`.

======================  ================================================  ===========================
state                   what may come                                     leads to
======================  ================================================  ===========================
``running``             call, print, cancel, other                        ``running``
``running``             the reply to `execute`                            ``ended``
``running``             anything else                                     ``broken`` (ProtocolError)
``ended``, ``broken``   anything                                          dropped
======================  ================================================  ===========================
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from callgate.errors import InvalidArguments, LimitReached, ProtocolError, ToolError
from callgate.limits import Limits
from callgate_guest.wire import CANCEL, EXECUTE, PRINT, LineBuffer

from .decode import decode
from .logs import Logs, printable

__all__ = [
    "CallCancelled", "Called", "Ended", "Event", "Other", "RunWire", "Wrote", "encode", "encode_tools", "error_object",
    "error_reply", "result_reply", "value_bytes",
]  # fmt: skip

_ID_LENGTH = 64
_LARGEST_ID = 2**53
"""Larger integers can be chosen to have one hash, and then every set of them is a list."""
_KEPT_AFTER_A_LIMIT = 4096


@dataclass(frozen=True, slots=True)
class Called:
    """A plain tool call."""

    id: int | str
    method: str
    arguments: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Wrote:
    """The program printed."""

    text: str


@dataclass(frozen=True, slots=True)
class CallCancelled:
    """The program gave a call up."""

    id: int | str


@dataclass(frozen=True, slots=True)
class Other:
    """A message for the JSON-RPC library: decoded, not yet judged."""

    message: Any


@dataclass(frozen=True, slots=True)
class Ended:
    """The reply to `execute`: a value, or what the guest says of the error."""

    value: Any = None
    value_repr: str | None = None
    error: dict[str, Any] | None = None


Event = Called | Wrote | CallCancelled | Other | Ended


_encode = json.JSONEncoder(allow_nan=False, separators=(",", ":")).encode


def encode(value: Any) -> str:
    """Compact JSON. Raises `ValueError` or `TypeError` for what is no JSON."""
    return _encode(value)


def encode_tools(
    tools: Sequence[tuple[str, str, Sequence[str]]], namespaces: Mapping[str, Mapping[str, str]] | None = None
) -> str:
    """The members of the `execute` request that say what the program may call, as JSON text; `callgate_guest.offered`
    says what they mean.

    Args:
        tools: name in programs, name on the wire, names of the parameters.
        namespaces: names in programs by namespaces and by what they are called there; ``""`` is the module `tools`.
    """
    listed = [
        " ".join((name, "", *parameters))
        if name == tool and all(map(str.isidentifier, parameters))
        else [name, tool, *parameters]
        for name, tool, parameters in tools
    ]
    text = f'"tools":{_encode(listed)}'
    if namespaces:
        spaces = {
            space: " ".join(
                member if name == f"{space}_{member}" else f"{member}={name}" for member, name in members.items()
            )
            for space, members in namespaces.items()
        }
        text += f',"namespaces":{_encode(spaces)}'
    return text


def value_bytes(value: Any, text: str | None, most: int) -> int:
    """How large a run's value is, as compact JSON. Raises `LimitReached` beyond `max_value_bytes`, given as `most`."""
    size = len(_encode(value)) + len(_encode(text) if text else "")
    if size > most:
        raise LimitReached("max_value_bytes", most, size)
    return size


class RunWire:
    """The protocol of one run. `state` is ``running``, ``ended`` or ``broken``.

    Args:
        limits: of which message, log, value and call sizes are held here.
        number: the id of this run's `execute` request; successive runs of a session count up.
    """

    def __init__(self, limits: Limits, number: int = 1, buffer: LineBuffer | None = None) -> None:
        self.state: Literal["running", "ended", "broken"] = "running"
        self.value_bytes = 0
        self._printed = Logs(limits.max_log_bytes)
        self._limits = limits
        self._number = number
        self._buffer = LineBuffer(limits.max_message_bytes) if buffer is None else buffer
        self._ids: set[int | str] = set()
        self._cancelled: set[int | str] = set()

    def execute(self, code: str, tools: str, inputs: dict[str, Any]) -> bytes:
        """The request that starts the run.

        Args:
            code: the program.
            tools: what `encode_tools` made: it is the same for many runs.
            inputs: variables.

        Raises:
            LimitReached: it is too long.
            TypeError: an input is no JSON.
        """
        params = f'{{"code":{_encode(code)},{tools},"inputs":{_encode(inputs)}}}'
        data = f'{{"jsonrpc":"2.0","method":"{EXECUTE}","params":{params},"id":{self._number}}}\n'.encode()
        if len(data) > self._limits.max_message_bytes:
            raise LimitReached("max_message_bytes", self._limits.max_message_bytes, len(data))
        return data

    def receive(self, data: bytes) -> Iterator[Event]:
        """What `data` says, one event after the other: what came before a fault counts.

        Raises:
            ProtocolError: a message is none. The state is ``broken``.
            LimitReached: a message is too long, or the value. The state is ``broken``.
        """
        try:
            for line in self._buffer.feed(data):
                if self.state == "running":
                    yield self._message(line)
            if self._buffer.too_long and self.state == "running":
                raise LimitReached("max_message_bytes", self._limits.max_message_bytes)
        except (ProtocolError, LimitReached):
            self.state = "broken"
            raise

    @property
    def logs(self) -> list[str]:
        """What the program has printed."""
        return self._printed.parts

    def write(self, text: str) -> None:
        """Add to the logs. Raises `LimitReached` when they are full; what fits is kept."""
        self._printed.write(text)

    def _message(self, line: bytes) -> Event:
        message = decode(line)
        if type(message) is not dict or message.get("jsonrpc") != "2.0":
            return Other(message)
        method = message.get("method")
        if method is None:
            return self._response(message, len(line))
        if type(method) is not str:
            return Other(message)
        params = message.get("params")
        if method == PRINT:
            return self._print(message, params)
        if method == CANCEL:
            if type(params) is not dict or type(params.get("id")) not in (int, str) or "id" in message:
                raise ProtocolError('a `cancel` notification needs params {"id": ...}')
            if params["id"] not in self._ids or params["id"] in self._cancelled:
                raise ProtocolError("the guest cancelled a call that it never made, or twice")
            self._cancelled.add(params["id"])
            return CallCancelled(params["id"])
        number = message.get("id")
        if (type(number) is int and -_LARGEST_ID <= number <= _LARGEST_ID) or (
            type(number) is str and len(number) <= _ID_LENGTH
        ):
            if number in self._ids:
                raise ProtocolError(f"the guest used the request id {number!r} twice")
            self._ids.add(number)
            if type(params) is dict and len(message) == 4:
                return Called(number, method, params)
            if params is None and len(message) == 3:
                return Called(number, method, {})
        return Other(message)

    def _print(self, message: dict[str, Any], params: Any) -> Event:
        if "id" in message or type(params) is not dict or type(params.get("text")) is not str:
            raise ProtocolError('`print` is a notification with params {"text": ...}')
        text: str = params["text"]
        if not text:
            raise ProtocolError("the guest printed nothing, which no guest does")
        return Wrote(printable(text))

    def _response(self, message: dict[str, Any], size: int) -> Event:
        number = message.get("id")
        if type(number) is not int or number != self._number:
            raise ProtocolError(f"the guest answered a request that was never made (id {number!r:.80})")
        failure = message.get("error")
        if failure is not None:
            if type(failure) is not dict or type(failure.get("data")) is not dict:
                raise ProtocolError("the guest reported an error without its details")
            self.state = "ended"
            return Ended(error=failure["data"])
        result = message.get("result")
        if type(result) is not dict or "value" not in result:
            raise ProtocolError("the guest's result has no value")
        value, text = result["value"], result.get("value_repr")
        if type(text) is not str:
            text = None
        self.value_bytes = size
        if size > self._limits.max_value_bytes:
            try:
                self.value_bytes = value_bytes(value, text, self._limits.max_value_bytes)
            except RecursionError:
                raise ProtocolError("the guest sent a message that is nested too deeply") from None
        self.state = "ended"
        return Ended(value=value, value_repr=text and printable(text))


def result_reply(number: int | str, body: str) -> bytes:
    """The response to a call that succeeded; `body` is its result as JSON text."""
    return f'{{"jsonrpc":"2.0","result":{body},"id":{_encode(number)}}}\n'.encode()


def error_reply(number: int | str | None, error: ToolError) -> bytes:
    """The response to a call that failed."""
    return (_encode({"jsonrpc": "2.0", "error": error_object(error), "id": number}) + "\n").encode()


def error_object(error: ToolError) -> dict[str, Any]:
    """A `ToolError` as the ``error`` member of a response."""
    details = {"tool": error.tool, "retryable": error.retryable, "data": error.data}
    return {"code": error.code, "message": error.message, "data": details}


def not_plain(message: str) -> InvalidArguments:
    """The error for a call whose params are not by name."""
    return InvalidArguments(message)
