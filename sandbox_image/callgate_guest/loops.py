"""An event loop exists whenever a program can ask for one.

A program that awaits at its top level runs in the session's event loop. A program that does not runs beside the loop:
the loop is not turning, but asyncio returns it as *the running loop*, so that the program can make tasks, futures and
timers. The end of the program turns the loop. `asyncio.run`, `asyncio.Runner` and `loop.run_until_complete` work at
such a top level as they do in a script. If a loop is running, `asyncio.run` starts a thread of its own.

The loop is made when a program first needs it: a loop costs three descriptors and some 100 pages of a fresh guest.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import selectors
import threading
from collections.abc import Callable, Coroutine
from typing import Any

from .link import Link
from .nursery import Nursery

_asyncio_run: Callable[..., Any] = asyncio.run
_runner_run: Callable[..., Any] = asyncio.Runner.run
_current_task: Callable[..., Any] = asyncio.current_task
_all_tasks: Callable[..., Any] = asyncio.all_tasks
_policy: Any = getattr(asyncio.events, "_get_event_loop_policy", asyncio.get_event_loop_policy)()  # deprecated in 3.14
_loop_of_policy: Callable[[], asyncio.AbstractEventLoop] = _policy.get_event_loop
_logger = logging.getLogger("asyncio")
_select: Callable[..., Any] = selectors.DefaultSelector.select


class _Selector(selectors.DefaultSelector):
    """Tells the link before it waits."""

    def __init__(self, link: Link) -> None:
        super().__init__()
        self._link = link

    def select(self, timeout: float | None = None) -> Any:
        if self._link.held:
            self._link.idle(timeout)
        return _select(self, timeout)


class _Loop(asyncio.SelectorEventLoop):
    """Class of the event loops of a guest."""

    holds_calls = True
    """Its calls leave when it waits: see `link`."""
    working = 0
    """Number of functions that run in threads for this loop, for instance by ``asyncio.to_thread``."""

    def __init__(self, link: Link, nursery: Nursery, selector: selectors.BaseSelector | None = None) -> None:
        super().__init__(selector or _Selector(link))
        self._link = link
        self._nursery = nursery

    def set_task_factory(self, factory: Any) -> None:
        super().set_task_factory(factory)
        if not self._nursery.makes(factory):  # the program's own, such as `asyncio.eager_task_factory`
            self._nursery.knows_all = False

    def run_in_executor(self, executor: Any, work: Any, *arguments: Any) -> Any:  # type: ignore[override]
        future = super().run_in_executor(executor, work, *arguments)
        self.working += 1
        future.add_done_callback(self._worked)
        return future

    def _worked(self, _: Any) -> None:
        self.working -= 1
        self._link.wake_news()


def _loop_that_is_set() -> asyncio.AbstractEventLoop | None:
    try:
        return _loop_of_policy()
    except RuntimeError:
        return None


class Loops:
    """The loop of a session, and the functions of asyncio that give programs this loop."""

    def __init__(self, link: Link, nursery: Nursery) -> None:
        self._link = link
        self._nursery = nursery
        self._thread = threading.get_ident()
        self._own: asyncio.AbstractEventLoop | None = None
        self.kind: Callable[[Link, Nursery], _Loop] = _Loop
        """Makes loops."""

    def _make(self) -> _Loop:
        return self.kind(self._link, self._nursery)

    @property
    def own(self) -> asyncio.AbstractEventLoop:
        """The session's loop; a new one if there is none yet, or a program has closed it."""
        if (before := self._own) is None or before.is_closed():
            silent, _logger.disabled = _logger.disabled, True  # else "Using selector" is among what a program logs
            try:
                self._own = made = self._make()
            finally:
                _logger.disabled = silent
            self._nursery.adopt(made)
            if _loop_that_is_set() in (None, before):  # not one of the program's
                _policy.set_event_loop(made)
            return made
        return before

    @property
    def open(self) -> asyncio.AbstractEventLoop | None:
        """The session's loop, if it was made and is not closed."""
        return None if self._own is None or self._own.is_closed() else self._own

    def close(self) -> None:
        """Close the loop, if there is one."""
        if self._own is not None:
            self._own.close()

    def install(self) -> None:
        """Replace the functions of asyncio that find and run loops."""

        def running() -> asyncio.AbstractEventLoop:
            loop: asyncio.AbstractEventLoop | None = asyncio._get_running_loop()
            if loop is not None:
                return loop
            if threading.get_ident() == self._thread:
                return self.own
            raise RuntimeError("no running event loop")

        def here() -> asyncio.AbstractEventLoop | None:
            if asyncio._get_running_loop() is None and threading.get_ident() == self._thread:
                return self.open
            return running()

        def current_task(loop: asyncio.AbstractEventLoop | None = None) -> asyncio.Task[Any] | None:
            loop = loop or here()
            return None if loop is None else _current_task(loop)  # logging asks for it

        def all_tasks(loop: asyncio.AbstractEventLoop | None = None) -> set[asyncio.Task[Any]]:
            loop = loop or here()
            return set() if loop is None else _all_tasks(loop)

        def run_held(runner: asyncio.Runner, main: Any, **options: Any) -> Any:
            held = self._nursery.hold(main) if asyncio.iscoroutine(main) else main
            try:
                return _runner_run(runner, held, **options)
            finally:
                if held is not main:
                    held.close()

        def of_policy() -> asyncio.AbstractEventLoop:
            try:
                return _loop_of_policy()
            except RuntimeError:  # none is set
                if threading.get_ident() == self._thread:
                    return self.own
                raise

        running.__name__ = running.__qualname__ = "get_running_loop"
        asyncio.run = self.run_anywhere
        asyncio.Runner.run = run_held  # type: ignore[method-assign, assignment]
        asyncio.get_running_loop = asyncio.events.get_running_loop = running
        asyncio.current_task, asyncio.all_tasks = current_task, all_tasks
        asyncio.new_event_loop = asyncio.events.new_event_loop = self._make
        _policy.get_event_loop = of_policy
        asyncio.set_event_loop(self._own)

    def run_anywhere(self, main: Coroutine[Any, Any, Any], **options: Any) -> Any:
        """``asyncio.run``, which programs also call where a loop is running already: then on a thread of its own."""
        if asyncio._get_running_loop() is None:
            try:
                return _asyncio_run(main, **options)
            finally:
                if threading.get_ident() == self._thread:
                    asyncio.set_event_loop(self.open)  # it has left none
        outcome: list[Any] = []
        context = contextvars.copy_context()

        def work() -> None:
            try:
                outcome.extend((True, _asyncio_run(main, **options)))
            except BaseException as error:
                outcome.extend((False, error))

        thread = threading.Thread(target=context.run, args=(work,))
        thread.start()
        thread.join()
        if outcome[0]:
            return outcome[1]
        raise outcome[1]
