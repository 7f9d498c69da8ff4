"""Faults of endpoints around a correct stand-in: each request meets the next fault.

A fault is given what would answer the request, and answers in its place.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from .checks import Refused
from .server import Answered, Api, Event, HangUp

__all__ = [
    "Fault", "Faulty", "dribbling", "edited", "ending", "hanging_up", "refusing", "saying", "stalling", "well",
]  # fmt: skip

Fault = Callable[[Callable[[], Answered]], Answered]


class Faulty:
    """An endpoint with faults.

    Args:
        api: the endpoint.
        faults: one for each request, in their order; when they are used up, all is well.
        for_ever: the last fault stays.
    """

    def __init__(self, api: Api, *faults: Fault, for_ever: bool = False) -> None:
        self.path = api.path
        self.bodies: list[dict[str, Any]] = []
        """Of every request that came."""
        self.headers: list[Mapping[str, str]] = []
        self._api = api
        self._faults = list(faults)
        self._for_ever = for_ever
        self._lock = threading.Lock()

    def reply(self, headers: Mapping[str, str], body: dict[str, Any]) -> Answered:
        with self._lock:
            self.bodies.append(body)
            self.headers.append(headers)
            stays = self._for_ever and len(self._faults) == 1
            fault = well if not self._faults else self._faults[0] if stays else self._faults.pop(0)
        return fault(lambda: self._api.reply(headers, body))

    def refusal(self, refused: Refused) -> dict[str, Any]:
        return self._api.refusal(refused)


def well(answer: Callable[[], Answered]) -> Answered:
    """No fault."""
    return answer()


def refusing(status: int, message: str = "no", *, headers: Mapping[str, str] | None = None, **named: str) -> Fault:
    """An HTTP status; `named` are the `kind` and the `code` of `Refused`."""

    def fault(answer: Callable[[], Answered]) -> Answered:
        raise Refused(message, status=status, headers=headers, **named)

    return fault


def hanging_up(after: int = 0) -> Fault:
    """The connection is closed after so many events of a stream, or before the first."""
    return _cut(after, _hang_up)


def ending(after: int) -> Fault:
    """A stream ends without an error after so many events, before its real end."""
    return _cut(after, lambda: iter(()))


def stalling(after: int, released: threading.Event) -> Fault:
    """A stream falls silent after so many events; when the stream is released, the connection is closed."""
    return _cut(after, lambda: _hang_up(released.wait(60)))


def dribbling(after: int, released: threading.Event, *, every_seconds: float = 0.02) -> Fault:
    """A stream sends only signs of life after so many events, until the stream is released."""
    return _cut(after, lambda: ("" for _ in iter(lambda: released.wait(every_seconds), True)))


def edited(change: Callable[[dict[str, Any]], dict[str, Any] | str | None]) -> Fault:
    """Each event of a stream, or the whole answer, is changed; None drops an event."""

    def fault(answer: Callable[[], Answered]) -> Answered:
        events = answer()
        if isinstance(events, bytes):
            return events
        if isinstance(events, dict):
            whole = change(events)
            return whole if isinstance(whole, dict) else str(whole or "").encode()
        changed = (each if isinstance(each, str) else change(each) for each in events)
        return (each for each in changed if each is not None)

    return fault


def saying(text: bytes) -> Fault:
    """A body that is not an answer, with status 200."""
    return lambda answer: text


def _cut(after: int, rest: Callable[[], Iterator[Event]]) -> Fault:
    def fault(answer: Callable[[], Answered]) -> Answered:
        events = answer()
        if isinstance(events, dict | bytes):
            raise HangUp
        return _first(events, after, rest)

    return fault


def _first(events: Iterator[Event], most: int, rest: Callable[[], Iterator[Event]]) -> Iterator[Event]:
    yield from itertools.islice(events, most)
    yield from rest()


def _hang_up(_: object = None) -> Iterator[Event]:
    raise HangUp
