"""One run on the wire, from the host's side: bytes in, events out; answers in, bytes out. No I/O.

Theory of operation. The host sends one `execute` request; until its reply comes, the guest may send tool calls,
prints and cancellations. A plain call (an object with a method, a new id, and params by name) becomes a `Called` event:
the fast lane. Other JSON-RPC (a batch, params by position, no id, an odd id) becomes `Other` and goes to the JSON-RPC
library. A message that is not JSON, answers something never asked, or reuses an id ends the run with `ProtocolError`.

======================  ================================================  ===========================
state                   what may come                                     leads to
======================  ================================================  ===========================
``running``             call, print, display, cancel, withdrawn, other,   ``running``
                        ending (once), wait (if the run replays, and the
                        last one has been answered)
``running``             the reply to `execute`                            ``ended``
``running``             anything else                                     ``broken`` (ProtocolError)
``ended``, ``broken``   anything                                          dropped
======================  ================================================  ===========================

A guest that replays receives nothing by itself: each `wait` asks for one event, the reply to a call or the end of a
timer. The events of its history come behind `execute`.
"""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from callgate.errors import LimitReached, ProtocolError, ToolError
from callgate.limits import Limits
from callgate.tools.turns import LARGE_BYTES
from callgate_guest.json_forms import encoder
from callgate_guest.wire import (
    CANCEL,
    DISPLAY,
    DIVERGED,
    ENDING,
    EXECUTE,
    MESSAGE_BYTES,
    PRINT,
    WAIT,
    WITHDRAWN,
    LineBuffer,
)

from .decode import decode, decoding
from .logs import Logs, printable

__all__ = [
    "NOTES", "CallCancelled", "Called", "Ended", "Ending", "Event", "Other", "RunWire", "Showed", "Waits", "Withdrawn",
    "Working", "Wrote", "encode", "encode_tools", "error_object", "error_reply", "result_reply", "value_bytes",
]  # fmt: skip

_ID_LENGTH = 64
_LARGEST_ID = 2**53
"""Largest request id: larger integers can all have one hash, which makes a set of them as slow as a list."""
_NAME_LENGTH = 1_000
_MEDIA_TYPE = re.compile(r"[a-z0-9][a-z0-9!#$&^_.+-]{0,126}/[a-z0-9][a-z0-9!#$&^_.+-]{0,126}", re.ASCII)
"""RFC 6838, 4.2; in lower case."""
_REPR_LENGTH = 200_000
"""Characters of a value's text that are kept; the guest cuts far earlier."""
NOTES = ("dropped", "failed", "waiting")
"""Counts that a guest may send about the end of its program."""


@dataclass(frozen=True, slots=True)
class Called:
    """A plain tool call."""

    id: int | str
    method: str
    arguments: dict[str, Any]
    line: int | None = None
    """The line of the program, if the guest says one that the program has; so are all lines here."""


@dataclass(frozen=True, slots=True)
class Wrote:
    """The program printed."""

    text: str
    line: int | None = None


@dataclass(frozen=True, slots=True)
class Showed:
    """The program displayed a value: its rich form, not yet decoded."""

    name: str
    media_type: str
    """As the guest says."""
    content: str
    is_text: bool
    """Whether `content` is text; else it is base64."""
    line: int | None = None

    @property
    def size_bytes(self) -> int:
        """Lower bound on the size of `data`."""
        return len(self.content) if self.is_text else max(len(self.content) * 3 // 4 - 2, 0)

    def data(self) -> bytes:
        """The decoded content. Raises `ProtocolError`."""
        if self.is_text:
            return self.content.encode("utf-8", "replace")
        try:
            return base64.b64decode(self.content, validate=True)
        except ValueError as error:
            raise ProtocolError(f"the guest displayed what is not base64: {error}") from None


@dataclass(frozen=True, slots=True)
class CallCancelled:
    """The program cancelled a call."""

    id: int | str


@dataclass(frozen=True, slots=True)
class Withdrawn:
    """The program cancelled a call before the request left the guest: the call is recorded, not made."""

    method: str
    arguments: dict[str, Any]
    line: int | None = None
    number: int | None = None
    """The id that the request would have had; None if the guest gives none."""


@dataclass(frozen=True, slots=True)
class Waits:
    """A program that replays waits for one event."""

    until: float | None
    """Seconds since 1970 of its nearest timer."""


@dataclass(frozen=True, slots=True)
class Other:
    """A message for the JSON-RPC library: decoded, not yet checked."""

    message: Any


@dataclass(frozen=True, slots=True)
class Ending:
    """The program's top level has ended, and the program waits for its calls. No value if it is too large."""

    value: Any = None
    value_repr: str | None = None


@dataclass(frozen=True, slots=True)
class Ended:
    """The reply to `execute`: a value, or the guest's details of the error."""

    value: Any = None
    value_repr: str | None = None
    error: dict[str, Any] | None = None
    diverged: bool = False
    """Whether the error says that a replay is not the recorded run."""
    notes: dict[str, int] = field(default_factory=dict)
    """Counts from the guest: ``dropped``, ``failed``, ``waiting``; see `callgate_guest.nursery`."""


@dataclass(frozen=True, slots=True)
class Working:
    """A long message is being decoded: others may have their turn."""


WORKING = Working()

Event = Called | Wrote | Showed | CallCancelled | Withdrawn | Waits | Other | Ending | Ended | Working


encode: Callable[[Any], str] = encoder()
"""Encode a value as compact JSON, in the forms of `json_forms`. Raises `ValueError` or `TypeError`."""


def encode_tools(
    tools: Sequence[tuple[str, str, Sequence[str]]],
    namespaces: Mapping[str, Mapping[str, str]] | None = None,
    docs: Sequence[str] | None = None,
) -> str:
    """Encode the members of the `execute` request that say what the program may call; see `callgate_guest.offered`.

    Args:
        tools: name in programs, name on the wire, names of the parameters, with ``=`` behind those that may be left
            out.
        namespaces: names in programs by namespaces and by what they are called there; ``""`` is the module `tools`.
        docs: the docstrings of the tools, in their order.
    """
    listed = [
        " ".join((name, "", *parameters))
        if name == tool and all(parameter.removesuffix("=").isidentifier() for parameter in parameters)
        else [name, tool, *parameters]
        for name, tool, parameters in tools
    ]
    text = f'"tools":{encode(listed)}'
    if namespaces:
        spaces = {
            space: " ".join(
                member if name == f"{space}_{member}" else f"{member}={name}" for member, name in members.items()
            )
            for space, members in namespaces.items()
        }
        text += f',"namespaces":{encode(spaces)}'
    if docs:
        text += f',"docs":{encode(docs)}'
    return text


def value_bytes(value: Any, text: str | None, most: int) -> int:
    """Return the size of a run's value as compact JSON. Raises `LimitReached` beyond `most`, the `max_value_bytes`."""
    size = len(encode(value)) + len(encode(text) if text else "")
    if size > most:
        raise LimitReached("max_value_bytes", most, size)
    return size


class RunWire:
    """The protocol of one run. `state` is ``running``, ``ended`` or ``broken``.

    Args:
        limits: those of messages, logs and values are enforced here.
        number: the id of this run's `execute` request; successive runs of a session count up.

    Attributes:
        waits: whether the guest waits for an event; None in a run that does not replay. Set it to False when the event
            is sent.
    """

    def __init__(self, limits: Limits, number: int = 1, buffer: LineBuffer | None = None) -> None:
        self.waits: bool | None = None
        self.state: Literal["running", "ended", "broken"] = "running"
        self.value_bytes = 0
        self._printed = Logs(limits.max_log_bytes)
        self._limits = limits
        self._number = number
        self._buffer = LineBuffer(limits.max_message_bytes) if buffer is None else buffer
        self._ids: set[int | float | str] = set()
        self._cancelled: set[int | str] = set()
        self._is_ending = False
        self._lines = 0
        """Number of lines of the program, or somewhat more."""

    def execute(
        self, code: str, tools: str, inputs: str, *, keeps: bool = False, answers: bool = False, replay: str = ""
    ) -> bytes:
        """Encode the request that starts the run.

        Args:
            code: the program.
            tools: from `encode_tools`; the same for many runs.
            inputs: variables, as JSON text of an object.
            keeps: whether another program may follow, which can await calls that this one leaves in its variables.
            answers: whether the program has `final_answer`.
            replay: JSON of the member `replay`; empty for an ordinary run.

        Raises:
            LimitReached: the request is too long.
        """
        self._lines = 1 + code.count("\n") + code.count("\r")
        more = (',"keeps":true' if keeps else "") + (',"answers":true' if answers else "")
        if replay:
            more += f',"replay":{replay}'
            self.waits = False
        most = self._limits.max_message_bytes
        bound = "" if most == MESSAGE_BYTES else f',"most":{most}'
        params = f'{{"code":{encode(code)},{tools},"inputs":{inputs}{bound}{more}}}'
        data = f'{{"jsonrpc":"2.0","method":"{EXECUTE}","params":{params},"id":{self._number}}}\n'.encode()
        if len(data) > most:
            raise LimitReached("max_message_bytes", most, len(data))
        return data

    def receive(self, data: bytes) -> Iterator[Event]:
        """Return the events in `data`, one after the other. Events before a fault count.

        Raises:
            ProtocolError: a message breaks the protocol. The state is ``broken``.
            LimitReached: a message or the value is too long. The state is ``broken``.
        """
        try:
            for line in self._buffer.feed(data):
                if self.state == "running":
                    yield from self._message(line)
            if self._buffer.too_long and self.state == "running":
                raise LimitReached("max_message_bytes", self._limits.max_message_bytes)
        except (ProtocolError, LimitReached):
            self.state = "broken"
            raise

    @property
    def logs(self) -> str:
        """The printed text."""
        return self._printed.text

    def write(self, text: str) -> None:
        """Add to the logs. Raises `LimitReached` beyond `max_log_bytes`; the text that fits is kept."""
        self._printed.write(text)

    @property
    def printed(self) -> int:
        """Characters of `logs`."""
        return self._printed.length

    @property
    def latest(self) -> str:
        """Text that the latest `write` added to the logs."""
        return self._printed.last

    def _message(self, line: bytes) -> Iterator[Event]:
        if len(line) <= LARGE_BYTES:
            yield self._event_of(decode(line), len(line))
            return
        work = decoding(line)
        while True:
            yield WORKING
            try:
                next(work)
            except StopIteration as done:
                message = done.value
                break
        yield WORKING
        yield self._event_of(message, len(line))

    def _event_of(self, message: Any, size: int) -> Event:
        if type(message) is list:
            for each in message:
                if type(each) is dict and "method" in each:
                    self._claim(each.get("id"))
            return Other(message)
        if type(message) is not dict or message.get("jsonrpc") != "2.0":
            return Other(message)
        method = message.get("method")
        if method is None:
            return self._response(message, size)
        if type(method) is not str:
            return Other(message)
        params = message.get("params")
        if method == PRINT:
            return self._print(message, params)
        if method == DISPLAY:
            return self._display(message, params)
        if method == CANCEL:
            if type(params) is not dict or type(params.get("id")) not in (int, str) or "id" in message:
                raise ProtocolError('a `cancel` notification needs params {"id": ...}')
            if params["id"] not in self._ids or params["id"] in self._cancelled:
                raise ProtocolError("the guest cancelled a call that it never made, or twice")
            self._cancelled.add(params["id"])
            return CallCancelled(params["id"])
        if method == WITHDRAWN:
            return self._withdrawn(message, params)
        if method == ENDING:
            return self._ending(message, params, size)
        number = message.get("id")
        if self._claim(number) and isinstance(number, int | str):
            if type(params) is dict:
                if len(message) == 4:
                    return Called(number, method, params)
                if len(message) == 5 and "line" in message:
                    return Called(number, method, params, self._line(message["line"]))
            if params is None and len(message) == 3:
                return Called(number, method, {})
        elif method == WAIT and self.waits is not None:
            return self._wait(message, params)
        return Other(message)

    def _wait(self, message: dict[str, Any], params: Any) -> Event:
        until: Any = params.get("until", "") if type(params) is dict and "id" not in message else ""
        if until is not None and (type(until) is not float or not math.isfinite(until)):
            raise ProtocolError(f'`{WAIT}` is a notification with params {{"until": seconds since 1970, or null}}')
        if self.waits:
            raise ProtocolError("the guest waits for a second event before the first one has come")
        self.waits = True
        return Waits(until)

    def _line(self, given: Any) -> int | None:
        """The line that a guest gives, None if the program has no such line."""
        return given if type(given) is int and 0 < given <= self._lines else None

    def _claim(self, number: Any) -> bool:
        """Note the id of a request; returns whether it is a valid one. Raises `ProtocolError` for a second use."""
        if type(number) is str:
            if len(number) > _ID_LENGTH:
                return False
        elif type(number) not in (int, float) or not -_LARGEST_ID <= number <= _LARGEST_ID:
            return False
        if number in self._ids:
            raise ProtocolError(f"the guest used the request id {number!r} twice")
        self._ids.add(number)
        return True

    def _print(self, message: dict[str, Any], params: Any) -> Event:
        if "id" in message or type(params) is not dict or type(params.get("text")) is not str:
            raise ProtocolError('`print` is a notification with params {"text": ...}')
        text: str = params["text"]
        if not text:
            raise ProtocolError("the guest printed nothing, which no guest does")
        return Wrote(printable(text), self._line(params.get("line")))

    def _display(self, message: dict[str, Any], params: Any) -> Event:
        given = params if type(params) is dict and "id" not in message else {}
        name, media_type, data, text = map(given.get, ("name", "media_type", "data", "text"))
        content = text if data is None else data
        if (
            type(name) is not str
            or type(media_type) is not str
            or type(content) is not str
            or (len(given) != 3 + ("line" in given))
        ):
            raise ProtocolError(
                f'`{DISPLAY}` is a notification with params {{"name": ..., "media_type": ..., "data" or "text": ...}}'
            )
        if len(name) > _NAME_LENGTH or _MEDIA_TYPE.fullmatch(media_type) is None:
            raise ProtocolError(f"the guest displayed something of the name {name!r:.80} and type {media_type!r:.80}")
        return Showed(name, media_type, content, data is None, self._line(given.get("line")))

    def _withdrawn(self, message: dict[str, Any], params: Any) -> Event:
        given = params if type(params) is dict and "id" not in message else {}
        tool, arguments = given.get("tool"), given.get("arguments")
        if type(tool) is not str or type(arguments) is not dict:
            raise ProtocolError(f'`{WITHDRAWN}` is a notification with params {{"tool": ..., "arguments": {{...}}}}')
        number = given.get("number")
        return Withdrawn(tool, arguments, self._line(given.get("line")), number if type(number) is int else None)

    def _ending(self, message: dict[str, Any], params: Any, size: int) -> Event:
        if "id" in message or type(params) is not dict or "value" not in params:
            raise ProtocolError(f'`{ENDING}` is a notification with params {{"value": ...}}')
        if self._is_ending:
            raise ProtocolError("the guest reported twice that its program is ending")
        self._is_ending = True
        text = params.get("value_repr")
        if size > self._limits.max_value_bytes:  # too long together with the parts around it: the reply will show
            return Ending()
        return Ending(params["value"], printable(text[:_REPR_LENGTH]) if type(text) is str else None)

    def _response(self, message: dict[str, Any], size: int) -> Event:
        number = message.get("id")
        if type(number) is not int or number != self._number:
            raise ProtocolError(f"the guest answered a request that was never made (id {number!r:.80})")
        failure = message.get("error")
        if failure is not None:
            if type(failure) is not dict or type(failure.get("data")) is not dict:
                raise ProtocolError("the guest reported an error without its details")
            self.state = "ended"
            return Ended(error=failure["data"], diverged=self.waits is not None and failure.get("code") == DIVERGED)
        result = message.get("result")
        if type(result) is not dict or "value" not in result:
            raise ProtocolError("the guest's result has no value")
        value, text = result["value"], result.get("value_repr")
        if type(text) is not str:
            text = None
        self.value_bytes = size
        if size > self._limits.max_value_bytes:
            around = '{"value":}' if text is None else '{"value":,"value_repr":}'
            if "notes" in result:
                around += f',"notes":{encode(_counts(result["notes"]))}'
            self.value_bytes = size - len(result_reply(self._number, around)) + len("\n")
            if self.value_bytes > self._limits.max_value_bytes:
                raise LimitReached("max_value_bytes", self._limits.max_value_bytes, self.value_bytes)
        self.state = "ended"
        return Ended(
            value=value, value_repr=text and printable(text[:_REPR_LENGTH]), notes=_counts(result.get("notes"))
        )


def _counts(given: Any) -> dict[str, int]:
    """The counts that a guest gave, without anything else it may have sent."""
    if type(given) is not dict:
        return {}
    return {name: count for name in NOTES if type(count := given.get(name)) is int and 0 < count <= _LARGEST_ID}


def result_reply(number: int | str, body: str) -> bytes:
    """Encode the response to a call that succeeded; `body` is its result as JSON text."""
    written = number if type(number) is int else encode(number)
    return f'{{"jsonrpc":"2.0","result":{body},"id":{written}}}\n'.encode()


def error_reply(number: int | str | None, error: ToolError) -> bytes:
    """Encode the response to a call that failed."""
    return (encode({"jsonrpc": "2.0", "error": error_object(error), "id": number}) + "\n").encode()


def error_object(error: ToolError) -> dict[str, Any]:
    """Return a `ToolError` as the ``error`` member of a response."""
    details = {"tool": error.tool, "retryable": error.retryable, "data": error.data}
    return {"code": error.code, "message": error.message, "data": details}
