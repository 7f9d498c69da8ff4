"""Caches: `Cache` for any values, and `ResultCache` for results of read-only tools.

1. Bounded twice, by entries and by bytes; the least recently used goes first.
2. Single flight: of identical calls at the same time only one runs, the *leader*; the others follow and get its result
   or its error. Errors are not cached. If the leader is cancelled, a follower takes its place.
3. One result cache serves one gate, and so one tenant: its users can read each other's results.
4. In a plan of a planner (`keeping_reads`), results of read-only tools without `cache_seconds` are cached, too. Any
   call of a tool with effects makes them invalid when it begins and when it ends; so does the end of a thread that
   was left behind.
5. A result that depends on more than its arguments (`depends_on_the_caller`) is neither cached nor shared.

Knows keys and values; whether a call may be cached, the gate decides.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import anyio

from callgate.errors import ToolError
from callgate.tools import Tool

from .failures import copied

__all__ = ["Cache", "Effects", "ResultCache", "depends_on_the_caller", "keeping_reads", "reads_kept_seconds"]

_reads_kept_seconds: ContextVar[float | None] = ContextVar("callgate_reads_kept_seconds", default=None)
_dependent: ContextVar[list[bool] | None] = ContextVar("callgate_dependent", default=None)


@dataclass(slots=True, eq=False)
class Effects:
    """Counts the calls of tools with effects; the gates of one runtime share it.

    Attributes:
        end_every_result: whether an effect makes results of tools with `cache_seconds` invalid, too.
        count: number of begins and ends of such calls.
    """

    end_every_result: bool = False
    count: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def note(self, tool: Tool) -> None:
        """Count the begin or the end of a call of this tool. Thread-safe."""
        if not tool.read_only:
            with self._lock:
                self.count += 1

    def since(self, tool: Tool) -> int:
        """A part of the cache key: results of this tool are valid while it stays equal."""
        return self.count if tool.cache_seconds is None or self.end_every_result else 0


@contextlib.contextmanager
def keeping_reads(seconds: float | None) -> Iterator[None]:
    """Let plans inside cache the results of read-only tools without `cache_seconds` for this time; None: not at all."""
    before = _reads_kept_seconds.get()
    _reads_kept_seconds.set(seconds)
    try:
        yield
    finally:
        _reads_kept_seconds.set(before)  # `reset` would fail if a run is cancelled in another context


def reads_kept_seconds() -> float | None:
    """Seconds of the enclosing `keeping_reads`."""
    return _reads_kept_seconds.get()


def depends_on_the_caller() -> None:
    """Declare that the result of the call under way depends on more than its arguments, so no other call may get it."""
    dependent = _dependent.get()
    if dependent is not None:
        dependent.append(True)


Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class Cache(Generic[Key, Value]):
    """Values by key; the least recently used value goes first.

    Args:
        max_entries: number of values, at most.
        max_bytes: size of all values, at most, by the sizes given to `keep`.
    """

    def __init__(self, *, max_entries: int, max_bytes: int = 64 * 1024 * 1024) -> None:
        self.bytes = 0
        """Size of all values."""
        self._max_entries = max_entries
        self._max_bytes = max_bytes
        self._entries: OrderedDict[Key, tuple[Value, int]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: Key) -> Value | None:
        """The value of a key, or None."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        self._entries.move_to_end(key)
        return entry[0]

    def keep(self, key: Key, value: Value, size: int = 0) -> None:
        """Add a value, unless it alone is larger than `max_bytes`."""
        self.forget(key)
        if size > self._max_bytes:
            return
        self._entries[key] = value, size
        self.bytes += size
        while len(self._entries) > self._max_entries or self.bytes > self._max_bytes:
            self.forget(next(iter(self._entries)))

    def forget(self, key: Key) -> None:
        """Remove the value of a key."""
        entry = self._entries.pop(key, None)
        if entry is not None:
            self.bytes -= entry[1]


class ResultCache:
    """Texts by key, each valid for some time.

    Args:
        max_entries: number of results, at most.
        max_bytes: memory of keys and results in bytes, at most.
        clock: seconds that never go back.
    """

    def __init__(
        self,
        *,
        max_entries: int = 1024,
        max_bytes: int = 64 * 1024 * 1024,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.kept: Cache[Hashable, tuple[str, float]] = Cache(max_entries=max_entries, max_bytes=max_bytes)
        """Each text, and the time when it becomes invalid."""
        self._clock = clock
        self._flights: dict[Hashable, _Flight] = {}

    async def get_or_run(
        self, key: Hashable, seconds: float, run: Callable[[], Awaitable[str]], *, terms: Hashable = None
    ) -> tuple[str, bool]:
        """The text of the key, and whether it was cached or comes from another call under way.

        Args:
            key: equal for identical calls.
            seconds: how long a new text is valid.
            run: makes the text.
            terms: timeout, retries and, for a read of a plan, the run. A call waits only for a call of equal terms.

        Raises:
            ToolError: from `run`, here or in the leader that this call followed.
        """
        while True:
            kept = self.kept.get(key)
            if kept is not None and kept[1] > self._clock():
                return kept[0], True
            flight = self._flights.get((key, terms))
            if flight is None:
                return await self._lead(key, terms, seconds, run), False
            await flight.landed.wait()
            if flight.text is not None:
                return flight.text, True
            if flight.error is not None:
                raise copied(flight.error)
            # the leader was cancelled, or its result is its own: the first follower to get here leads

    async def _lead(self, key: Hashable, terms: Hashable, seconds: float, run: Callable[[], Awaitable[str]]) -> str:
        flight = self._flights[key, terms] = _Flight()
        before, dependent = _dependent.get(), list[bool]()
        _dependent.set(dependent)
        try:
            text = await run()
            if dependent:
                return text
            flight.text = text
        except ToolError as error:
            if not dependent:
                flight.error = error
            raise
        finally:
            if dependent and before is not None:  # then the result of the call that made this one is, too
                before.append(True)
            _dependent.set(before)
            del self._flights[key, terms]
            flight.landed.set()
        self.kept.keep(key, (text, self._clock() + seconds), _bytes(key) + _bytes(text))
        return text


class _Flight:
    """A call that other calls may wait for."""

    __slots__ = ("error", "landed", "text")

    def __init__(self) -> None:
        self.landed = anyio.Event()
        self.text: str | None = None
        self.error: ToolError | None = None


def _bytes(key: Hashable) -> int:
    """Memory of a text, or of the texts in a key."""
    return sum(map(_bytes, key)) if isinstance(key, tuple) else _memory(key) if isinstance(key, str) else 0


def _memory(text: str) -> int:
    """Memory of a text: a character of a text that is not ASCII may take four bytes."""
    return len(text) if text.isascii() else sys.getsizeof(text)
