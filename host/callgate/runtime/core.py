"""One set of tools and what runs over it: gate, programs, plans, fast path, search. Knows no model and no conversation.

A runtime has one. A conversation that loads tools has one of its own, over the runtime's tools and those it loaded;
both take their guests from the same place.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import anyio

from callgate.errors import ConfigurationError
from callgate.limits import Limits
from callgate.program import Finding
from callgate.sandbox.backend import Allowance, Backend
from callgate.sandbox.pool import WarmPool
from callgate.search.learned import Learned
from callgate.tools import Registry

from .code_runs import CodeRun, Language, check_failure
from .events import Event
from .fast_path.compilation import Compilation
from .fast_path.path import NO_SANDBOX, NOBODY, FastPath, Path, checked_path
from .gate import Approve, Gate
from .plans.preparation import PlanRun, Plans
from .programs import Programs
from .result import CodeResult
from .search import ToolSearch, search_builtins
from .session import Session

__all__ = ["Core", "Place"]


@dataclass(frozen=True, slots=True)
class Place:
    """Where programs run: the backend and its warm guests. ``None`` and ``None``: nowhere but on the host, as plans."""

    backend: Backend | None
    pool: WarmPool | None

    @property
    def sandbox(self) -> tuple[Backend, WarmPool]:
        """Both; raises `ConfigurationError` where there are none."""
        if self.backend is None or self.pool is None:
            message = "this runtime was made with sandbox=None: it runs plans, tools, and programs that are graphs"
            raise ConfigurationError(message)
        return self.backend, self.pool


class Core:
    """What runs over one registry.

    Args:
        registry: the tools.
        place: where programs run.
        limits: what a run may spend where it is not told.
        approve: see `Gate`.
        language: what programs may look like.
        path: what `execute_code` does where it is not told.
        learned: what earlier searches taught; None: nothing, and nothing is learned.
    """

    def __init__(
        self,
        registry: Registry,
        *,
        place: Place,
        limits: Limits,
        approve: Approve | None,
        language: Language,
        path: Path,
        learned: Learned | None = None,
    ) -> None:
        self.registry = registry
        self.place = place
        self.limits = limits
        self.language = language
        self.path = path
        self.search = ToolSearch(registry, learned)
        self.gate = Gate(registry, approve=approve, builtins=search_builtins(self.search))
        self.programs = Programs(registry, self.gate, language)
        self.plans = Plans(registry, self.gate)
        self.fast_path = FastPath()

    @property
    def language_of_programs(self) -> Literal["full", "restricted", "graphs"]:
        """What programs may be here: see `callgate.runtime.model.texts.Language`."""
        if self.place.backend is None:
            return "graphs"
        return "full" if self.language.policy == "none" else "restricted"

    async def close(self) -> None:
        """End what is under way on the host."""
        await self.fast_path.close()

    async def execute_code(
        self,
        code: str,
        *,
        inputs: Mapping[str, Any] | None = None,
        tools: Collection[str] | None = None,
        limits: Limits | None = None,
        on_event: Callable[[Event], None] | None = None,
        check: bool = True,
        path: Path | None = None,
    ) -> CodeResult:
        """See `Runtime.execute_code`."""
        path = self.path if path is None else checked_path(path)
        if path == "sandbox":
            _ = self.place.sandbox  # there has to be one
        run = self.programs.prepare(
            code, self.limits if limits is None else limits, inputs=inputs, tools=tools, on_event=on_event
        )
        nowhere = self.place.backend is None
        if check:
            self.programs.check(run)
            stopped = check_failure(run.findings, NO_SANDBOX if nowhere else self.place.sandbox[0].description)
            if stopped is not None:
                return stopped
        if path != "sandbox":
            in_sandbox = self._in_sandbox if path == "auto" and not nowhere else None
            result = await self.fast_path.execute(run, in_sandbox, why="" if path == "plan" else NOBODY)
            if result is not None:
                return result
        return await self._in_sandbox(run)

    async def _in_sandbox(self, run: CodeRun) -> CodeResult:
        backend, pool = self.place.sandbox
        sandbox = backend.description
        guest = await pool.checkout(Allowance.of(run.limits))
        return await run.on(
            guest,
            sandbox=sandbox,
            end=lambda sound: pool.checkin(guest) if sound else pool.end(guest),
        )

    @contextlib.asynccontextmanager
    async def session(self, limits: Limits | None = None) -> AsyncIterator[Session]:
        """See `Runtime.session`."""
        backend, pool = self.place.sandbox
        sandbox = backend.description
        limits = self.limits if limits is None else limits
        guest = await pool.checkout(Allowance.of(limits))
        session = Session(self.programs, guest, limits, sandbox=sandbox)
        try:
            yield session
        finally:
            session._close()
            with anyio.CancelScope(shield=True):
                await pool.end(guest)

    def check(self, code: str, inputs: Iterable[str] = (), tools: Collection[str] | None = None) -> list[Finding]:
        """See `Runtime.check`."""
        run = self.programs.prepare(code, self.limits, inputs=dict.fromkeys(inputs), tools=tools)
        return run.check(self.language)

    def compile(self, code: str, inputs: Mapping[str, Any] | None, tools: Collection[str] | None) -> Compilation:
        """See `Runtime.compile`."""
        return self.fast_path.compile(self.programs.prepare(code, self.limits, inputs=inputs, tools=tools))

    def plan(
        self,
        *,
        tools: Collection[str] | None = None,
        limits: Limits | None = None,
        on_event: Callable[[Event], None] | None = None,
    ) -> PlanRun:
        """A run of some plan: see `Runtime.execute_tool_plan` for the arguments."""
        return self.plans.prepare(self.limits if limits is None else limits, tools=tools, on_event=on_event)
