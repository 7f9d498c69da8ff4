"""What was worked out last, kept for the next time: `Cache`, and for results of read-only tools `ResultCache`.

1. Bounded twice, by entries and by bytes; the least recently used goes first.
2. Single flight: of identical calls at the same time one runs, the *leader*; the others follow and get its result or
   its error. An error is not kept. A leader that is cancelled hands over to a follower.
3. One result cache serves one gate, and so one tenant: all who share it can read what the others asked for.
4. In a plan of a planner (`keeping_reads`), results of read-only tools without `cache_seconds` are kept, too. A call
   of a tool with effects ends them when it begins and again when it ends, whoever makes it and however it ends; and so
   does the end of a thread that was left behind.
5. A result that depends on more than its arguments (`depends_on_the_caller`) is neither kept nor shared.

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
    """Counts what tools with effects do; the gates of one runtime share it.

    Attributes:
        end_every_result: whether an effect ends results of tools with `cache_seconds`, too.
        count: how often such a call has begun or ended.
    """

    end_every_result: bool = False
    count: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def note(self, tool: Tool) -> None:
        """Take note that a call of this tool begins or ends. Any thread may."""
        if not tool.read_only:
            with self._lock:
                self.count += 1

    def since(self, tool: Tool) -> int:
        """A part of the cache key: results of this tool are good as long as it stays equal."""
        return self.count if tool.cache_seconds is None or self.end_every_result else 0


@contextlib.contextmanager
def keeping_reads(seconds: float | None) -> Iterator[None]:
    """Plans that run inside keep results of read-only tools that have no `cache_seconds` for this time; None: not at
    all."""
    before = _reads_kept_seconds.get()
    _reads_kept_seconds.set(seconds)
    try:
        yield
    finally:
        _reads_kept_seconds.set(before)  # `reset` would refuse where a run is cancelled in another context


def reads_kept_seconds() -> float | None:
    """What `keeping_reads` says here."""
    return _reads_kept_seconds.get()


def depends_on_the_caller() -> None:
    """For a call under way: its result depends on more than its arguments, so nobody else may get it."""
    dependent = _dependent.get()
    if dependent is not None:
        dependent.append(True)


Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class Cache(Generic[Key, Value]):
    """Values by key; the one that was not asked for the longest goes first.

    Args:
        max_entries: the most values that are kept.
        max_bytes: of all values together, by the sizes given to `keep`.
    """

    def __init__(self, *, max_entries: int, max_bytes: int = 64 * 1024 * 1024) -> None:
        self.bytes = 0
        """What the values that are kept take together."""
        self._max_entries = max_entries
        self._max_bytes = max_bytes
        self._entries: OrderedDict[Key, tuple[Value, int]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: Key) -> Value | None:
        """The value of a key."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        self._entries.move_to_end(key)
        return entry[0]

    def keep(self, key: Key, value: Value, size: int = 0) -> None:
        """Keep a value; one that is larger than all may be together is not kept."""
        self.forget(key)
        if size > self._max_bytes:
            return
        self._entries[key] = value, size
        self.bytes += size
        while len(self._entries) > self._max_entries or self.bytes > self._max_bytes:
            self.forget(next(iter(self._entries)))

    def forget(self, key: Key) -> None:
        """Keep the value of a key no longer."""
        entry = self._entries.pop(key, None)
        if entry is not None:
            self.bytes -= entry[1]


class ResultCache:
    """Texts by key, good for a while.

    Args:
        max_entries: the most results that are kept.
        max_bytes: the most memory, in bytes, that keys and results may take; a larger result is not kept.
        clock: seconds, never going back.
    """

    def __init__(
        self,
        *,
        max_entries: int = 1024,
        max_bytes: int = 64 * 1024 * 1024,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.kept: Cache[Hashable, tuple[str, float]] = Cache(max_entries=max_entries, max_bytes=max_bytes)
        """Each text, and until when it is good."""
        self._clock = clock
        self._flights: dict[Hashable, _Flight] = {}

    async def get_or_run(
        self, key: Hashable, seconds: float, run: Callable[[], Awaitable[str]], *, terms: Hashable = None
    ) -> tuple[str, bool]:
        """The text under the key, and whether it was there already (or another call was on its way to it).

        Args:
            key: what makes two calls identical.
            seconds: how long a new text is good for.
            run: makes the text.
            terms: timeout, retries and, of a kept read, the run of this call: nobody waits for a call of other terms.

        Raises:
            ToolError: what `run` raised, here or in the leader that this call followed.
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
            # The leader was cancelled, or its result is for it alone: the first follower to get here leads.

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
            if dependent and before is not None:  # so does the result of the call that made this one
                before.append(True)
            _dependent.set(before)
            del self._flights[key, terms]
            flight.landed.set()
        self.kept.keep(key, (text, self._clock() + seconds), _bytes(key) + _bytes(text))
        return text


class _Flight:
    """A call that others may be waiting for."""

    __slots__ = ("error", "landed", "text")

    def __init__(self) -> None:
        self.landed = anyio.Event()
        self.text: str | None = None
        self.error: ToolError | None = None


def _bytes(key: Hashable) -> int:
    """Of a text; of a key of several parts, that of its texts."""
    return sum(map(_bytes, key)) if isinstance(key, tuple) else _memory(key) if isinstance(key, str) else 0


def _memory(text: str) -> int:
    """Memory of a text's characters: a text that is not ASCII may take four bytes for each."""
    return len(text) if text.isascii() else sys.getsizeof(text)
