"""The durable runs of one runtime while it is open: takes up those that are due, and tells who waits.

1. A run is taken up when it is started, when somebody has decided, when its time has come, and when the process that
   had it has gone. The store is asked each second; what happens in this process is heard at once.
2. A run that sleeps is nowhere in this process. One that is due, and has tools that are missing here, is left to other
   processes for a while: see `others`.
3. When the runtime is left, its runs begin nothing more. Their calls with effects that are at work are waited for, for
   a few seconds; then another process, or this one later, goes on with the runs.
"""

from __future__ import annotations

import contextlib
import json
import logging
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Final
from weakref import WeakValueDictionary

import anyio
import anyio.abc

from callgate.durable.store import ENDED, Held, StateChange, Store, StoredRun
from callgate.errors import ConfigurationError, DurableError, OwnershipLost, StoreFailed
from callgate.runtime.context_task import LEFT, ContextTask
from callgate.runtime.replay.environment import environment

from .live import Beside, LiveRun, Progress, Result, result_of
from .others import LeftToOthers

if TYPE_CHECKING:
    from callgate.runtime.runtime import Runtime

__all__ = ["RunsHost"]

logger = logging.getLogger("callgate")

_ASKS_SECONDS: Final = 1.0
"""How often the store is asked for what happened in other processes."""
_MOST_DUE: Final = 1_000
_MOST_DUE_OF_ALL: Final = 1_000_000
"""Where the few runs that were begun here are looked for among those of all: many may be due that nobody takes."""
_LEAVES_SECONDS: Final = 5.0
"""How long a runtime that is left waits for calls with effects; what is at work then may need attention later."""
_MOST_FAILED: Final = 1_000


class _News:
    """For those who wait for a run that this process begins to go on with."""

    def __init__(self) -> None:
        self.came = anyio.Event()
        self.result: Result | None = None


class RunsHost:
    """The runs that this process is at.

    Args:
        runtime: runs them.
        store: keeps them.
        serves: whether runs that are due are taken up, whoever started them. If not, only those that were begun here.
    """

    def __init__(self, runtime: Runtime, store: Store, *, serves: bool = True) -> None:
        self.runtime = runtime
        self.store = store
        self.beside: dict[str, Beside] = {}
        """By the ids of the runs that this process started or goes on with, and that have not ended."""
        self._own: set[str] | None = None if serves else set()
        """The runs that were begun here and have not ended, where others are not taken up."""
        self._live: dict[str, LiveRun | None] = {}
        """The runs that this process is at; None while it takes one."""
        self._failed: OrderedDict[str, DurableError] = OrderedDict()
        """Why this process could not go on with a run."""
        self._others = LeftToOthers(runtime.registry)
        self._held: dict[str, Held] = {}
        """Runs that were taken when they were added, and have not begun here yet."""
        self._unheard: set[str] = set()
        """Runs about which somebody has decided, and that were not told yet."""
        self._resumed: dict[str, None] = {}
        """Runs that somebody wants to go on, and that wait for room here, or for their last sleep to be stored."""
        self._news: WeakValueDictionary[str, _News] = WeakValueDictionary()
        self._contexts = ContextTask(lambda: [store.opened(), self._serving()])
        self._opening: anyio.Lock | None = None
        self.starts = anyio.Lock()
        """Held while a run is counted and added."""
        self._leaving = True

    async def open(self) -> None:
        """Open the store, and take up the runs that are due. Nothing happens if it is open.

        Raises:
            ConfigurationError: the runtime is not open, or `close` was called meanwhile.
            StoreFailed: the store cannot be opened.
        """
        self.runtime._contexts.must_be_open()
        if self._contexts.loop is not None:
            return
        if self._opening is None:
            self._opening = anyio.Lock()
        async with (opening := self._opening):
            if opening is not self._opening:  # `close` was called meanwhile
                raise ConfigurationError(LEFT)
            if self._contexts.loop is None:
                await self._contexts.open()

    async def close(self) -> None:
        """Leave the runs, and close the store."""
        self._opening = None
        await self._contexts.close()
        self.starts = anyio.Lock()  # a lock belongs to the event loop that used it
        self.beside.clear()

    @contextlib.asynccontextmanager
    async def _serving(self) -> AsyncIterator[None]:
        self._poke = anyio.Event()
        self._held.clear()
        async with anyio.create_task_group() as self._tasks:
            self._tasks.start_soon(self._ask)
            self._leaving = False
            yield
            self._leaving = True
            leaving = list(filter(None, self._live.values()))
            for live in leaving:
                live.leave()
            with anyio.move_on_after(_LEAVES_SECONDS):
                for live in leaving:
                    await live.over.wait()
            self._tasks.cancel_scope.cancel()
        for news in list(self._news.values()):
            news.came.set()

    async def _ask(self) -> None:
        """Ask the store what is to be done, each second and when something has happened here."""
        while True:
            try:
                self._unheard.update(await self.store.decided())
                for run in list(self._unheard):
                    await self._tell(run)
                self._begin_resumed()
                most = _MOST_DUE if self._own is None else _MOST_DUE_OF_ALL if self._own else 0
                due = await self.store.due(time.time(), most=most + len(self._others))
                self._others.keep(due)
                for run in due:
                    if (self._own is None or run in self._own) and not self._others.has(run):
                        self.begin(run)
            except Exception:
                logger.exception("the store of durable runs cannot be read; it is asked again")
            with anyio.move_on_after(_ASKS_SECONDS):
                await self._poke.wait()
            self._poke = anyio.Event()

    async def _tell(self, run: str) -> None:
        """Tell a run that somebody has decided; one that cannot hear it now is told again."""
        try:
            if run in self._live:
                live = self._live[run]
                if live is None:  # what is loaded now may be from before
                    return
                await live.heard()
            self._unheard.discard(run)
        except Exception:
            logger.exception("durable run %s cannot be told what was decided; it is told again", run)

    def environment(self) -> str:
        """What programs run with here, as JSON; empty without a sandbox."""
        sandbox = self.runtime._sandbox
        return json.dumps({} if sandbox is None else environment(sandbox[0]))

    def poke(self) -> None:
        """Something has happened: ask at once."""
        self._poke.set()

    async def add(
        self, run: StoredRun, beside: Beside | None = None, check: Callable[[StoredRun], None] = lambda _: None
    ) -> StoredRun:
        """Keep a new run and begin it; or return the one that has its key, and see that it goes on.

        Args:
            run: the new one.
            beside: what the run has in this process alone; a run that has its own here keeps that.
            check: receives the run that has the key, and raises if that is another job; it then does not go on.
        """
        with anyio.CancelScope(shield=True):  # a run that is taken must also begin
            kept = await self.store.add(run, takes=self._has_room)
        if kept.run.id != run.id:
            check(kept.run)
        if beside is not None and kept.run.status not in ENDED:
            self.beside.setdefault(kept.run.id, beside)
        self.begin(kept.run.id, kept.held)
        return kept.run

    @property
    def _has_room(self) -> bool:
        return len(self._live) < self.runtime.max_guests

    def begin(self, run: str, held: Held | None = None, *, by_hand: bool = False) -> None:
        """Go on with a run, unless this process is at it, or at as many as it may have guests.

        Args:
            run: its id.
            held: if this process has taken it.
            by_hand: whether somebody wants that here, whatever tools are missing.
        """
        if held is not None:
            self._held[run] = held
        if run not in self._live and not self._leaving and (held is not None or self._has_room):
            self._live[run] = None
            self._failed.pop(run, None)
            if self._own is not None:
                self._own.add(run)
            self._tasks.start_soon(self._go_on, run, by_hand)

    def resume(self, run: str) -> None:
        """Go on with a run as soon as this process has room, whatever it waits for."""
        self._failed.pop(run, None)
        self._resumed[run] = None
        self._begin_resumed()

    async def cancel(self, run: str) -> None:
        """Say that a run is to end, in whichever process: see `Store.cancel`."""
        await self.store.cancel(run)
        self._others.forget(run)
        self.poke()

    def _begin_resumed(self) -> None:
        for run in list(self._resumed):
            if self._has_room and run not in self._live:
                del self._resumed[run]
                self.begin(run, by_hand=True)

    async def _take(self, run: str) -> Held | None:
        """See `Store.take`. Whoever adds a run takes it, and may say so while it is being taken here."""
        return self._held.pop(run, None) or await self.store.take(run) or self._held.pop(run, None)

    async def _leaves(self, run: str) -> bool:
        """Whether a run that is due is left to other processes. One that cannot be read is not: see `_loaded`."""
        try:
            return self._others.leave(await self.store.find(run)) and run not in self._held
        except Exception:
            return False

    async def _go_on(self, run: str, by_hand: bool) -> None:
        try:
            if not by_hand and run not in self._held and await self._leaves(run):
                return
            while (held := await self._take(run)) is not None:
                live = self._live[run] = await self._loaded(run, held)
                if self._leaving:
                    live.leave()
                await live.live()
                if live.result is not None:
                    self.beside.pop(run, None)
                if live.failure is not None:
                    self._note_failure(run, live.failure)
                if not live.goes_on:
                    break
                self._live[run] = None
        except DurableError as error:
            self._note_failure(run, error)
        finally:
            ended = self._live.pop(run)
            if (news := self._news.pop(run, None)) is not None:
                news.result = None if ended is None else ended.result
                news.came.set()
            self.poke()

    async def _loaded(self, run: str, held: Held) -> LiveRun:
        """A run that was taken. Raises `DurableError` for one that cannot be read, which is left for the operator."""
        try:
            history, beside = await self.store.load(run), self.beside.get(run) or Beside()
            return LiveRun(self.runtime, self.store, held, history, beside, self.environment())
        except Exception as error:
            if not isinstance(error, DurableError):
                logger.exception("the durable run %s cannot be read", run)
            failed = error if isinstance(error, DurableError) else StoreFailed(f"run {run!r} cannot be read: {error!r}")
            reason = "what is kept of it cannot be read; the log has the details. Resume the run to try again"
            await self.store.write(held, StateChange("needs_attention", reason, released=True))
            raise failed from error

    def _note_failure(self, run: str, failure: DurableError) -> None:
        logger.warning("durable run %s does not go on in this process: %s", run, failure)
        self._failed[run] = failure
        if len(self._failed) > _MOST_FAILED:
            self._failed.popitem(last=False)

    def progress(self, run: str) -> Progress | None:
        """How far a run is that goes on in this process; None for any other."""
        live = self._live.get(run)
        return None if live is None else live.progress

    async def rested(self, run: str, since: StoredRun | None = None) -> tuple[StoredRun, Result | None]:
        """Wait until a run has ended, sleeps, or needs attention, in whichever process.

        Args:
            run: its id.
            since: the run as it rested before: wait until that has changed.

        Returns:
            The run, and its result if it has ended.

        Raises:
            StoreFailed: this process cannot go on with it.
            ConfigurationError: the runtime was left.
        """
        result: Result | None = None
        while True:
            news = self._news.get(run)
            if news is None:
                news = self._news[run] = _News()
            live = self._live.get(run)
            if live is not None:
                await live.over.wait()
                result = live.result
            elif (failure := self._failed.get(run)) is not None and not isinstance(failure, OwnershipLost):
                raise failure
            if live is not None or run not in self._live:
                row = await self.store.find(run)
                if row.status in ENDED:
                    return row, result or await result_of(row.result or "{}")
                if row.status != "running" and (since is None or row.epoch != since.epoch):
                    return row, None
            if self._contexts.loop is None:
                raise ConfigurationError("the runtime was left; the run goes on when one is entered again")
            with anyio.move_on_after(_ASKS_SECONDS):
                await news.came.wait()
                result = news.result
