"""The part of a `Runtime` that runs programs and plans in the background, and across the end of its process."""

from __future__ import annotations

import weakref
from collections.abc import Collection, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack, cast, overload

from callgate.errors import ConfigurationError, RunNotFound

if TYPE_CHECKING:  # imported at first use: most runtimes need none of them
    from callgate.artifacts import Artifact
    from callgate.durable.store import Store
    from callgate.limits import Limits

    from .context_task import ContextTask
    from .durable.host import RunsHost
    from .durable.runs import Run, Runs
    from .plans.result import PlanResult
    from .result import CodeResult
    from .runtime import Runtime

__all__ = ["ForRuns"]


class _StartOptions(TypedDict, total=False):
    inputs: Mapping[str, Any] | None
    files: Mapping[str, str | Path | bytes | Artifact] | None
    key: str | None
    tools: Collection[str] | None
    limits: Limits | None
    on_unknown: Literal["attention", "raise"]
    approval_seconds: float
    belongs_to: str


class ForRuns:
    """The methods of a `Runtime` for runs that outlive their caller, or their process."""

    _durable: str | Path | Store | None
    _encryption_key: bytes | None
    _contexts: ContextTask
    _runs_of: weakref.ref[Runtime]
    """The runtime that has the runs; this one, unless this one is a copy for a conversation."""

    @overload
    async def start(self, given: str, **options: Unpack[_StartOptions]) -> Run[CodeResult]: ...

    @overload
    async def start(self, given: Mapping[str, Any], **options: Unpack[_StartOptions]) -> Run[PlanResult]: ...

    async def start(
        self,
        given: str | Mapping[str, Any],
        *,
        inputs: Mapping[str, Any] | None = None,
        files: Mapping[str, str | Path | bytes | Artifact] | None = None,
        key: str | None = None,
        tools: Collection[str] | None = None,
        limits: Limits | None = None,
        on_unknown: Literal["attention", "raise"] = "attention",
        approval_seconds: float = 7 * 24 * 3600.0,
        belongs_to: str = "",
    ) -> Run[Any]:
        """Start a program or a plan, and return at once. With `Runtime(durable=...)` it survives this process: what
        was done is not done again. Without, it runs in the background, and ends with the runtime.

        Args:
            given: Python source, or a plan as a dict.
            inputs: see `execute_code`, like `files`, `tools` and `limits`. `wall_seconds` begins anew when the run is
                continued. The contents of files are kept with the run, up to 11 MiB.
            key: your own name of the job. With the key of a run that exists, that run is returned.
            on_unknown: what becomes of a call with effects that was at work when the process ended. ``"attention"``:
                the run waits until somebody settles the call. ``"raise"``: the program gets `UnknownOutcome`.
            approval_seconds: how long the question for an approval is valid; afterwards the answer is no.
            belongs_to: the client or conversation that may see the run: see `Runs.of`.

        Raises:
            ConfigurationError: an argument is wrong, or the key is that of a run with another text.
            StoreFailed: the run cannot be kept.
        """
        runs = self.runs.of(belongs_to)
        return await runs.start(
            given, inputs=inputs, files=files, key=key, tools=None if tools is None else list(tools), limits=limits,
            on_unknown=on_unknown, approval_seconds=approval_seconds,
        )  # fmt: skip

    @property
    def runs(self) -> Runs:
        """The runs that were started, in this process or before: see `Runs`."""
        from .durable.runs import Runs

        self._contexts.must_be_open()
        runtime = self._runs_of()
        assert runtime is not None
        return Runs(runtime._runs_host)

    @cached_property
    def _runs_host(self) -> RunsHost:
        from .durable.host import RunsHost

        return RunsHost(cast("Runtime", self), self._store_of_runs())

    async def _result_to_correct(self, run: str) -> CodeResult:
        """See `repair.FindRun`."""
        runtime = self._runs_of()
        if self._durable is None and "_runs_host" not in vars(runtime):
            raise RunNotFound(f"there is no run {run[:60]!r} here: pass the CodeResult itself, or the id of a run")
        return await self.runs._to_correct(run)

    def _store_of_runs(self) -> Store:
        durable = self._durable
        if durable is None:
            from callgate.durable.memory import MemoryStore

            return MemoryStore()
        if isinstance(durable, (str, Path)):
            from callgate.durable.sqlite import SqliteStore

            return SqliteStore(durable, encryption_key=self._encryption_key)
        if not callable(getattr(durable, "opened", None)):
            raise ConfigurationError(f"durable is a file's path or a store of runs, not {durable!r}")
        return durable

    async def _open_runs(self) -> None:
        if self._durable is not None:
            try:
                await self._runs_host.open()
            except BaseException:
                await self._contexts.close()
                raise

    async def _close_runs(self) -> None:
        if (host := vars(self).get("_runs_host")) is not None:
            await host.close()
