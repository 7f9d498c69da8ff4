"""One set of tools and what runs over it: gate, programs, plans, fast path, search. Knows no model and no conversation.

A runtime has one. A conversation that loads tools has one of its own, over the runtime's tools and those it loaded;
both take their guests from the same place.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import anyio

from callgate.errors import ConfigurationError
from callgate.lazily import imported
from callgate.limits import Limits
from callgate.program import Finding
from callgate.sandbox.backend import Allowance, Backend, python_here
from callgate.sandbox.pool import WarmPool
from callgate.search.learned import Learned
from callgate.tools import Registry

from .code_runs import CodeRun, Language, check_failure
from .gate import Approve, Gate
from .gate.events import Event
from .programs import Path, Programs, checked_path
from .result import NO_SANDBOX, CodeResult
from .search.builtins import search_builtins
from .session import Session

if TYPE_CHECKING:
    from .fast_path.compilation import Compilation
    from .fast_path.path import FastPath
    from .plans.approval import ApprovePlan
    from .plans.preparation import PlanRun, Plans
    from .search.tool_search import ToolSearch

__all__ = ["Core", "Place"]

_GRAPHS_ONLY = "; this runtime was made with sandbox=None, which runs only programs that are graphs of tool calls"


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
        approve_plan: asked before every plan runs; see `Runtime`.
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
        approve_plan: ApprovePlan | None = None,
    ) -> None:
        self.registry = registry
        self.place = place
        self.limits = limits
        self.language = language
        self.path = path
        self.approve_plan = approve_plan
        self._learned = learned
        self.gate = Gate(registry, approve=approve, builtins=search_builtins(lambda: self.search))
        self.programs = Programs(registry, self.gate, language)

    @cached_property
    def search(self) -> ToolSearch:
        """Searches the tools. Its imports wait until somebody searches."""
        from .search.tool_search import ToolSearch

        return ToolSearch(self.registry, self._learned)

    @cached_property
    def plans(self) -> Plans:
        """Runs plans. Its imports wait until there is one."""
        from .plans.preparation import Plans

        return Plans(self.registry, self.gate)

    @cached_property
    def fast_path(self) -> FastPath:
        """Runs programs that are graphs of tool calls. Its imports wait until there is a program."""
        from .fast_path.path import FastPath

        return FastPath()

    @property
    def language_of_programs(self) -> Literal["full", "restricted", "graphs"]:
        """What programs may be here: see `callgate.runtime.model.texts.Language`."""
        if self.place.backend is None:
            return "graphs"
        return "full" if self.language.policy == "none" else "restricted"

    @property
    def python(self) -> str:
        """Version of the Python that runs programs, ``3.11``; empty where that is not known yet."""
        return python_here() if self.place.backend is None else getattr(self.place.backend, "python", "")

    async def close(self) -> None:
        """End what is under way on the host."""
        if "fast_path" in vars(self):
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
            await self.programs.check(run)
            stopped = check_failure(run.findings, NO_SANDBOX if nowhere else self.place.sandbox[0].description)
            if stopped is not None:
                return stopped
        if path != "sandbox":
            await imported("callgate.runtime.fast_path.path")
            in_sandbox = self._in_sandbox if path == "auto" and not nowhere else None
            result = await self.fast_path.execute(run, in_sandbox, why="" if path == "plan" else _GRAPHS_ONLY)
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
        approve_plan: ApprovePlan | None = None,
    ) -> PlanRun:
        """A run of some plan: see `Runtime.execute_tool_plan` for the arguments."""
        return self.plans.prepare(
            self.limits if limits is None else limits,
            tools=tools,
            on_event=on_event,
            approve_plan=self.approve_plan if approve_plan is None else approve_plan,
        )
