"""Messages to the client while a run goes on: log messages for prints and calls, and progress.

1. Every print is in a log message. Waiting prints are joined, up to `_MOST_PRINTED` characters a message: a client over
   HTTP drops longer ones.
2. Notes that are sent together make one or two progress messages: the printed text, joined, and the latest call. The
   message counts what it leaves out.
3. Unsent notes are kept here, and calls beyond a number are only counted, so that a client that reads slowly costs the
   host no memory beyond the run's own `max_log_bytes`.
"""

from __future__ import annotations

import contextlib
import json
import logging
from collections.abc import Callable, Iterator
from typing import Protocol

import anyio
from mcp.server.connection import allowed_log_levels
from mcp_types import LoggingLevel, LoggingMessageNotification, LoggingMessageNotificationParams

from callgate.runtime.gate.events import CallEnded, CallProgressed, CallStarted, Event, Printed, StepEnded
from callgate.runtime.gate.records import CallRecord
from callgate.runtime.run_redaction import RunRedaction
from callgate.tools.faults import printable

from .clients import Client, Context, is_modern
from .results import sendable

__all__ = ["McpSender", "Notes", "Sender"]

logger = logging.getLogger("callgate")

_LEVELS: tuple[LoggingLevel, ...] = (
    "debug", "info", "notice", "warning", "error", "critical", "alert", "emergency",
)  # fmt: skip
_MOST_LINES = 200
"""Lines about calls that wait to be sent; further lines are only counted."""
_SHORT = 80
"""Characters of one argument."""
_LINE = 300
"""Characters of a line about a call."""
_MOST_PRINTED = 32_768
"""Printed characters in one log message; escaped, they are at most six times as many bytes."""
_MOST_PROGRESS = 2_000
"""Printed characters in one progress message: the last ones."""


class Sender(Protocol):
    """Sends to the client. Raises nothing but cancellation."""

    async def log(self, level: LoggingLevel, logger: str, text: str) -> None: ...

    async def progress(self, done: float, message: str) -> None: ...


class McpSender:
    """Sends notes on the stream of one request, if the client wants them."""

    def __init__(self, context: Context, client: Client) -> None:
        self._context = context
        self._client = client

    async def log(self, level: LoggingLevel, logger: str, text: str) -> None:
        """Send one `notifications/message`."""
        if is_modern(self._context):
            wanted = level in allowed_log_levels(self._context.protocol_version, self._context.meta)
        else:
            wanted = _LEVELS.index(level) >= _LEVELS.index(self._client.level)
        if wanted:
            params = LoggingMessageNotificationParams(level=level, logger=logger, data=text)
            with _advisory():
                await self._context.session.send_notification(
                    LoggingMessageNotification(params=params), related_request_id=self._context.request_id
                )

    async def progress(self, done: float, message: str) -> None:
        """Send one `notifications/progress`, if the request carried a token."""
        with _advisory():
            await self._context.session.report_progress(done, None, message)


@contextlib.contextmanager
def _advisory() -> Iterator[None]:
    """Log exceptions of the transport: a note that cannot be sent does not fail the run."""
    try:
        yield
    except Exception as error:
        logger.debug("a note to the client was lost: %r", error)


class Notes:
    """The notes of one run.

    Args:
        redaction: of the run; notes are for people.
    """

    def __init__(self, redaction: RunRedaction) -> None:
        self._redaction = redaction
        self._printed: list[str] = []
        self._lines: list[tuple[LoggingLevel, str]] = []
        self._left_out = 0
        self._ended = 0
        self._sent = 0
        self._news = anyio.Event()
        self._stopped = False

    def put(self, event: Event) -> None:
        """Keep the note for an event; never blocks."""
        match self._redaction.event(event):
            case Printed(text=text):
                self._printed.append(sendable(text))
            case CallStarted(record=record):
                self._line("debug", lambda: f"{_call(record)} ...")
            case CallProgressed(record=record, progress=progress, total=total, message=message):
                of = "" if total is None else f" of {total:g}"
                self._line("debug", lambda: f"{record.tool}: {progress:g}{of}{f': {message}' if message else ''}")
            case CallEnded(record=record):
                self._ended += 1
                self._line("info" if record.status == "succeeded" else "warning", lambda: _outcome(record))
            case StepEnded(step=step):
                self._ended += 1
                line = f"step {step.id}: {step.status}" + (f": {step.error}" if step.error else "")
                self._line("info" if step.status in ("succeeded", "skipped") else "warning", lambda: line)
            case _:
                return
        self._news.set()

    def stop(self) -> None:
        """Have `deliver` return as soon as it has sent everything so far; it may be called again."""
        self._stopped = True
        self._news.set()

    async def deliver(self, sender: Sender) -> None:
        """Send notes until `stop` was called, before or during this call. Waiting prints go before waiting calls."""
        while True:
            printed, lines, left_out = "".join(self._printed), self._lines, self._left_out
            self._printed, self._lines, self._left_out = [], [], 0
            if left_out:
                lines.append(("info", f"... and {left_out} more notes of calls, left out"))
            for start in range(0, len(printed), _MOST_PRINTED):
                await sender.log("info", "callgate.program", printed[start : start + _MOST_PRINTED])
            for level, line in lines:
                await sender.log(level, "callgate.calls", line)
            for message in (_end_of(printed), lines[-1][1] if lines else ""):
                if message:
                    # progress has to grow each time, and a print is progress, too
                    self._sent = max(self._sent + 1, self._ended)
                    await sender.progress(self._sent, message)
            if self._printed or self._lines:
                continue
            if self._stopped:
                self._stopped = False
                return
            self._news = anyio.Event()
            await self._news.wait()

    def _line(self, level: LoggingLevel, text: Callable[[], str]) -> None:
        """Keep a line about a call. If too many lines wait, only count it."""
        if len(self._lines) < _MOST_LINES:
            self._lines.append((level, _one_line(text())))
        else:
            self._left_out += 1


def _one_line(text: str) -> str:
    line = printable(" ".join(text.split()))
    return sendable(line if len(line) <= _LINE else f"{line[: _LINE - 1]}…")


def _end_of(printed: str) -> str:
    """The printed text in one line; of a long text, the end."""
    left_out = len(printed) - _MOST_PROGRESS
    if left_out <= 0:
        return printable(" ".join(printed.split()))
    return f"[{left_out:,} characters left out] {printable(' '.join(printed[left_out:].split()))}"


def _call(record: CallRecord) -> str:
    given = record.arguments if isinstance(record.arguments, dict) else {"": record.arguments}
    return f"{record.tool}({', '.join(f'{name}={_short(value)}' for name, value in list(given.items())[:8])})"


def _short(value: object) -> str:
    if isinstance(value, str) and len(value) > _SHORT:
        value = value[:_SHORT]
    text = ""
    try:
        for piece in json.JSONEncoder(ensure_ascii=False).iterencode(value):
            text += piece[: _SHORT + 1]
            if len(text) > _SHORT:  # the rest of a large value would be cut anyway
                break
    except (RecursionError, TypeError, ValueError):
        return "…"
    return text if len(text) <= _SHORT else f"{text[: _SHORT - 1]}…"


def _outcome(record: CallRecord) -> str:
    cached = ", cached" if record.cached else ""
    error = f": {record.error}" if record.error else ""
    return f"{_call(record)} {record.status} in {record.duration_seconds * 1000:.1f} ms{cached}{error}"
