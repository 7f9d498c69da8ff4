"""What a program on the fast path prints: held, cut into pieces and counted as a guest's output is.

A guest's output is buffered by lines, and what it holds leaves before a call does: so events come in the same order
on both paths.
"""

from __future__ import annotations

from collections.abc import Callable

from callgate.errors import LimitReached
from callgate.limits import Limits
from callgate.protocol.logs import Logs, printable
from callgate.protocol.run import encode
from callgate.runtime.gate.events import Event, Printed, tell

__all__ = ["Prints", "TellOnce"]

_HELD = 8192
"""Characters of an unfinished line that are held; as in the guest's `output`."""
_PIECE = 1 << 16
_ESCAPED = 6
"""Bytes that a character takes on the wire, at most, but for those that are two there."""
_ENVELOPE = len('{"jsonrpc":"2.0","method":"print","params":{"text":}}')


class Prints:
    """The output of one program.

    Args:
        limits: of which those for logs and messages are held here.
        on_event: told of each piece.
    """

    def __init__(self, limits: Limits, on_event: Callable[[Event], None] | None) -> None:
        self._logs = Logs(limits.max_log_bytes)
        self._most = limits.max_message_bytes
        self._on_event = on_event
        self._held: list[str] = []
        self._size = 0

    @property
    def logs(self) -> str:
        """Everything that has left."""
        return self._logs.text

    def write(self, text: str) -> None:
        """Print. Raises `LimitReached`; what fits is kept and told."""
        self._held.append(text)
        self._size += len(text)
        if "\n" in text or self._size > _HELD:
            self.flush()

    def flush(self) -> None:
        """Let go what is held. Raises `LimitReached`."""
        if not self._held:
            return
        text = "".join(self._held)
        self._held.clear()
        self._size = 0
        for start in range(0, len(text), _PIECE):
            self._put(text[start : start + _PIECE])

    def _put(self, piece: str) -> None:
        if len(piece) * 2 * _ESCAPED + _ENVELOPE > self._most and len(encode(piece)) + _ENVELOPE > self._most:
            raise LimitReached("max_message_bytes", self._most)
        try:
            self._logs.write(printable(piece))
        finally:
            if self._logs.last:
                tell(self._on_event, Printed(self._logs.last))


class TellOnce:
    """A listener for a program that begins anew: prints are not told again as far as they were told before.

    Args:
        listener: who is told.
        told: what was printed.
    """

    def __init__(self, listener: Callable[[Event], None], told: str) -> None:
        self._listener = listener
        self._told = told

    def __call__(self, event: Event) -> None:
        if self._told and isinstance(event, Printed):
            again = min(len(self._told), len(event.text))
            if event.text[:again] != self._told[:again]:
                self._told = ""  # it prints something else now
            else:
                self._told = self._told[again:]
                if again == len(event.text):
                    return
                event = Printed(event.text[again:])
        self._listener(event)
