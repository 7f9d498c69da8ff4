"""One durable run, as callers hold it: its state, its end. Decides nothing about its calls."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import Generic, TypeVar, cast

from callgate.durable.store import RunStatus, StoredRun
from callgate.errors import AlreadyDecided

from .host import RunsHost
from .live import Progress

__all__ = ["Run"]

R = TypeVar("R")


class Run(Generic[R]):
    """One durable run, whose result is a `CodeResult` or a `PlanResult`. `status` and the like are as they were when
    this was made, or when `wait` returned."""

    def __init__(self, host: RunsHost, row: StoredRun) -> None:
        self._host = host
        self._row = row
        self._rested: StoredRun | None = None

    def __repr__(self) -> str:
        return f"Run({self.id!r}, {self.status!r})"

    @property
    def id(self) -> str:
        return self._row.id

    @property
    def key(self) -> str | None:
        """The caller's own name of the run."""
        return self._row.key

    @property
    def kind(self) -> str:
        """``code`` or ``plan``."""
        return self._row.kind

    @property
    def status(self) -> RunStatus:
        """``running``, ``waiting``, ``needs_attention``, ``succeeded``, ``failed`` or ``cancelled``."""
        return self._row.status

    @property
    def reason(self) -> str | None:
        """Why it waits, needs attention or failed."""
        return self._row.reason

    @property
    def created(self) -> float:
        """Seconds since 1970."""
        return self._row.created

    @property
    def changed(self) -> float:
        """Seconds since 1970."""
        return self._row.changed

    async def wait(self) -> R:
        """Wait for the end, also through days of sleep, and return the result.

        Raises:
            StoreFailed: this process cannot go on with the run.
        """
        while (result := await self.rest()) is None:
            pass
        return result

    async def rest(self) -> R | None:
        """Wait until it has ended, and return its result; or until it sleeps or needs attention, and return None. Asked
        again, wait until that has changed.

        Raises:
            StoreFailed: as for `wait`.
        """
        self._row, result = await self._host.rested(self.id, self._rested)
        self._rested = self._row
        if result is None:
            return None
        runtime = self._host.runtime  # which has the bytes of files, if the run ended in this process
        artifacts = [runtime.artifacts.get(each.handle) or each for each in result.artifacts]
        return cast(R, replace(result, redactor=runtime.redactor, artifacts=artifacts))

    @property
    def progress(self) -> Progress | None:
        """How far it is, if it goes on in this process."""
        return self._host.progress(self.id)

    async def stop(self) -> None:
        """See `Runs.cancel`; a run that has ended stays as it is."""
        await self._host.open()
        with contextlib.suppress(AlreadyDecided):
            await self._host.cancel(self.id)
