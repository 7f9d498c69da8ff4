"""`SyncRuns` and `SyncRun`: durable runs for code without ``await``. The work is that of `Runs` and `Run`."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

from callgate.durable.store import RunStatus
from callgate.runtime.durable.runs import Run, Runs

from .loop_thread import LoopThread
from .waiting import Waiting, _as, waiting

__all__ = ["SyncRun", "SyncRuns", "running"]

R = TypeVar("R")


class _InRuntime(Waiting):
    """Used from threads that wait for the runtime's loop."""

    def __init__(self, runtime: Waiting, inner: Any) -> None:
        self._runtime = runtime
        self._inner = inner

    def _thread(self) -> LoopThread:
        return self._runtime._thread()

    def _is_open(self) -> bool:
        return self._runtime._is_open()


class SyncRun(_InRuntime, Generic[R]):
    """A `Run` for code without ``await``."""

    _inner: Run[R]

    def __repr__(self) -> str:
        return f"Sync{self._inner!r}"

    @property
    def id(self) -> str:
        return self._inner.id

    @property
    def key(self) -> str | None:
        """The caller's own name of the run."""
        return self._inner.key

    @property
    def kind(self) -> str:
        """``code`` or ``plan``."""
        return self._inner.kind

    @property
    def status(self) -> RunStatus:
        """See `Run.status`."""
        return self._inner.status

    @property
    def reason(self) -> str | None:
        """Why it waits, needs attention or failed."""
        return self._inner.reason

    @property
    def created(self) -> float:
        """Seconds since 1970."""
        return self._inner.created

    @property
    def changed(self) -> float:
        """Seconds since 1970."""
        return self._inner.changed

    def wait(self) -> R:
        """See `Run.wait`."""
        return self._thread().wait(self._inner.wait)

    stop = waiting(Run.stop)


def running(method: Callable[..., Coroutine[Any, Any, Run[Any]]]) -> Callable[..., SyncRun[Any]]:
    """The sync form of an async method that returns a run."""

    def wait(self: Any, /, *args: Any, **options: Any) -> SyncRun[Any]:
        runtime: Waiting = self._runtime if isinstance(self, _InRuntime) else self
        return SyncRun(runtime, runtime._thread().wait(lambda: method(self._inner, *args, **options)))

    return _as(method, wait)


class SyncRuns(_InRuntime):
    """`Runs` for code without ``await``."""

    _inner: Runs

    def of(self, belongs_to: str) -> SyncRuns:
        """See `Runs.of`."""
        return SyncRuns(self._runtime, self._inner.of(belongs_to))

    get = running(Runs.get)
    resume = running(Runs.resume)
    pending = waiting(Runs.pending)
    unsettled = waiting(Runs.unsettled)
    approve = waiting(Runs.approve)
    deny = waiting(Runs.deny)
    settle = waiting(Runs.settle)
    cancel = waiting(Runs.cancel)
    prune = waiting(Runs.prune)

    def list(self, **options: Any) -> list[SyncRun[Any]]:
        """See `Runs.list`."""
        found = self._thread().wait(lambda: self._inner.list(**options))
        return [SyncRun(self._runtime, each) for each in found]
