"""A warm pool: guests opened ahead for one allowance, refilled in the background, bounded in all.

Decides which run gets a guest, and when. Knows no kind of backend.

A program may wait for a tool that needs a guest itself: of an agent that writes programs, for instance. So a run that
asks for a guest says, by its context (`WarmPool.holding`), which guests wait for it, of this pool and of others. It
queues if any guest of its pool will come free: one that waits for nobody in a queue, or for somebody who will get a
guest. Otherwise nobody in the circle ever would, and the run that completes it gets `SandboxBusy` at once.
"""

from __future__ import annotations

import logging
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import anyio
import anyio.abc

from callgate.errors import CallgateError, SandboxBusy, SandboxError

from .backend import Allowance, Backend, Files, Guest, GuestExit

__all__ = ["WarmPool"]

_GRACE_SECONDS = 0.002
"""Delay of a refill while guests are left: a fork would take the processor from the run that has just begun."""

_ENDS_AT_A_TIME = 4
"""Guests that are ended at the same time: a container takes a tenth of a second to end."""

logger = logging.getLogger("callgate")


class _Held:
    """A guest that runs a program."""

    __slots__ = ("over", "pool")

    def __init__(self, pool: WarmPool) -> None:
        self.pool = pool
        self.over = False


_held: ContextVar[tuple[_Held, ...]] = ContextVar("callgate_held_guests", default=())
"""The guests whose programs wait for what runs in this context."""


class _Queued:
    """A run in the queue of a pool."""

    __slots__ = ("holders", "pool")

    def __init__(self, pool: WarmPool) -> None:
        self.pool = pool
        self.holders = _held.get()
        """The guests that wait for it."""

    def never_comes(self) -> bool:
        """Whether it would wait for itself, or for others in queues that wait for it."""
        stuck = [*_queues, self]
        while self.holders and self in stuck:
            waiting = {held for each in stuck for held in each.holders if not held.over}
            busy = Counter(held.pool for held in waiting)
            still = [each for each in stuck if busy[each.pool] >= each.pool.max_guests]
            if len(still) == len(stuck):
                return True
            stuck = still
        return False


_queues: list[_Queued] = []
"""The runs in the queues of all pools."""


class WarmPool:
    """Guests ready to use.

    Args:
        backend: opens guests; already entered.
        allowance: what guests opened ahead may spend. A run with another allowance gets a guest opened for it.
        size: idle guests to keep ready.
        max_guests: guests in use at once; further runs queue.
        queue_seconds: how long a run may queue before it fails with `SandboxBusy`.
    """

    def __init__(
        self, backend: Backend, allowance: Allowance, *, size: int, max_guests: int, queue_seconds: float
    ) -> None:
        self._backend = backend
        self._allowance = allowance
        self._size = size
        self.max_guests = max_guests
        self._places = self
        """The pool that counts the guests in use: this one, or the one that this is beside."""
        self._queue_seconds = queue_seconds
        self.on_miss: Callable[[], None] = lambda: None
        """Called when a guest is opened while a run waits for it."""
        self._slots = anyio.Semaphore(max_guests)
        self._idle: deque[Guest] = deque()
        self._ending: deque[Guest] = deque()
        self._in_hand: list[Guest] = []  # guests that `_see_to_ends` is just ending
        self._wanted = anyio.Event()
        self._resting: list[anyio.Event] = []  # of the tasks `_see_to_ends` that have nothing to do
        self._tasks: anyio.abc.TaskGroup

    @property
    def in_use(self) -> int:
        """Guests that have a run or a session, or are being opened for one."""
        return self.max_guests - self._places._slots.value

    @property
    def idle(self) -> int:
        """Guests that are ready now."""
        return len(self._idle)

    def beside(self, backend: Backend) -> WarmPool:
        """A pool of another backend's guests, which count among this pool's `max_guests`."""
        other = WarmPool(
            backend, self._allowance, size=self._size, max_guests=self.max_guests, queue_seconds=self._queue_seconds
        )
        other.on_miss = lambda: self.on_miss()
        other._places = self._places
        return other

    async def __aenter__(self) -> WarmPool:
        # these belong to one event loop, and the pool may be entered again in another
        self._slots, self._wanted = anyio.Semaphore(self.max_guests), anyio.Event()
        self._resting.clear()
        self._tasks = anyio.create_task_group()
        await self._tasks.__aenter__()
        for _ in range(_ENDS_AT_A_TIME):
            self._tasks.start_soon(self._see_to_ends)
        if self._size:
            self._tasks.start_soon(self._refill)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._tasks.cancel_scope.cancel()
        try:
            await self._tasks.__aexit__(None, None, None)
        finally:  # the line above raises when this task is cancelled
            with anyio.CancelScope(shield=True):
                async with anyio.create_task_group() as ends:  # an engine that hangs takes its time for each
                    for guest in (*self._idle, *self._ending, *self._in_hand):
                        ends.start_soon(_ended, guest)
                self._idle.clear()
                self._ending.clear()
                self._in_hand.clear()

    async def checkout(self, allowance: Allowance, files: Files | None = None) -> Guest:
        """A fresh guest for one run or one session; give it back with `checkin`. One with files is opened on demand.

        Raises:
            SandboxBusy: `max_guests` are in use, and none came free within `queue_seconds`; or all of them wait for
                this run or for others in the queue, and none can come free.
            SandboxError: no guest can be opened.
        """
        try:
            self._places._slots.acquire_nowait()
        except anyio.WouldBlock:
            await self._queue()
        try:
            if files:
                self.on_miss()
                guest: Guest = await getattr(self._backend, "open_with")(allowance, files)  # noqa: B009 (an optional verb)
                return guest
            while self._idle and allowance == self._allowance:
                guest = self._idle.popleft()
                self._wanted.set()
                try:
                    healthy = await guest.healthy()
                except BaseException:
                    self._end(guest)
                    raise
                if healthy:
                    return guest
                self._end(guest)
            self.on_miss()
            return await self._backend.open(allowance)
        except BaseException:
            self._places._slots.release()
            raise

    async def _queue(self) -> None:
        """Wait for a place. Raises `SandboxBusy`."""
        most, queued = self.max_guests, _Queued(self._places)
        if queued.never_comes():
            raise SandboxBusy(
                f"{'the one guest' if most == 1 else f'all {most} guests'} would wait for this program, or for others "
                "that are waiting for a guest: raise max_guests, or do without a program inside a program's call"
            )
        _queues.append(queued)
        try:
            with anyio.move_on_after(self._queue_seconds) as scope:
                await self._places._slots.acquire()
        finally:
            _queues.remove(queued)
        if scope.cancelled_caught:
            raise SandboxBusy(
                f"{most} programs are running and none ended within {self._queue_seconds:g} s: "
                "raise max_guests, or run fewer at a time"
            )

    @contextmanager
    def holding(self) -> Iterator[None]:
        """A block in which a program runs on a guest of this pool: what its calls start is waited for by that guest."""
        before, held = _held.get(), _Held(self._places)
        _held.set((*before, held))
        try:
            yield
        finally:
            held.over = True
            _held.set(before)  # `reset` would fail if the run is cancelled in another context

    def checkin(self, guest: Guest) -> None:
        """The run is over: kill the guest now, and close it in the background."""
        guest.kill()
        self._places._slots.release()
        self._end(guest)

    async def end(self, guest: Guest) -> GuestExit:
        """Like `checkin`, but wait until nothing of the guest is left, and return how it ended."""
        try:
            return await guest.aclose()
        finally:
            self._places._slots.release()

    def _end(self, guest: Guest) -> None:
        self._ending.append(guest)
        if self._resting:
            self._resting.pop().set()

    async def _see_to_ends(self) -> None:
        while True:
            while not self._ending:
                woken = anyio.Event()
                self._resting.append(woken)
                await woken.wait()
            guest = self._ending.popleft()
            self._in_hand.append(guest)
            await _ended(guest)
            self._in_hand.remove(guest)

    async def _refill(self) -> None:
        pause = 0.05
        while True:
            self._wanted = anyio.Event()
            try:
                while len(self._idle) < self._size:
                    self._idle.append(await self._backend.open(self._allowance))
                pause = 0.05
            except (CallgateError, OSError):  # the next run raises this error; the refill tries again later
                await anyio.sleep(pause)
                pause = min(pause * 2, 5.0)
                continue
            await self._wanted.wait()
            if self._idle:
                await anyio.sleep(_GRACE_SECONDS)


async def _ended(guest: Guest) -> None:
    try:
        await guest.aclose()
    except SandboxError:  # the run is over already
        logger.exception("a guest could not be ended")
