"""`Runtime`: the one door to everything. Holds tools, gate, sandbox and limits together; the work is done elsewhere."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterable, AsyncIterator, Callable, Collection, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from callgate.errors import ConfigurationError
from callgate.lazily import imported
from callgate.limits import Limits
from callgate.sandbox.backend import Allowance, Backend
from callgate.sandbox.choose import make_backend
from callgate.sandbox.pool import WarmPool
from callgate.search.learned import Learned
from callgate.tools import Registry, Tool

from .code_runs import Language
from .code_stream import CodeStream, streaming
from .core import Core, Path, checked_path
from .gate import Approve
from .gate.cache import Effects
from .gate.events import Event
from .keeper import Keeper, event_loop
from .model_face import ModelFace
from .offer import Source
from .result import CodeResult
from .session import Session

if TYPE_CHECKING:
    from callgate.plan.estimate import PlanEstimate
    from callgate.plan.explain import ExplainFormat
    from callgate.plan.faults import PlanFault
    from callgate.program import Finding, Policy

    from .fast_path.compilation import Compilation
    from .plans.approval import ApprovePlan
    from .plans.preparation import Plans
    from .plans.result import PlanResult

__all__ = ["CodeStream", "Runtime"]


class Runtime(ModelFace):
    """Runs programs that call tools. Use as an async context manager, under asyncio or trio; leaving it ends
    everything it started. A runtime that was left may be entered again, in another event loop, too.

    One runtime serves one tenant: its guests share nothing writable, but they share a zygote, its tools and a result
    cache.

    Args:
        tools: `Tool`s, or functions to make tools of.
        sandbox: ``"auto"`` (the first that works: jail tier 1, docker, jail tier 2), ``"jail"``, ``"docker"``,
        ``"unsafe"`` (nothing confines; for debugging), or a backend, e.g. `DockerBackend`. ``None``: plans and tools
        are run, and of programs those that are graphs of tool calls: nothing that needs a sandbox.
        limits: what each run may spend, unless it is given its own.
        approve: asked before every call of a tool with `requires_approval`; without it, such calls are refused.
        approve_plan: a function, plain or async, that receives a `PlanApprovalRequest` before any plan runs, a model's
            plans included. It returns `Allow()`, ``Allow(another_plan)`` or `Deny(reason)`; an exception is a no.
            No tool is called before the answer, and `wall_seconds` begins after it. Programs need no such approval.
        policy: ``"restricted"`` adds a language policy to `check`: fewer imports, no way into the interpreter. Not
        the boundary.
        allowed_imports: modules that the restricted policy lets a program import; ``None`` for a small safe list.
        packages: a site-packages folder whose packages programs may import, read-only.
        preimport: modules of it (or of the standard library) imported once, ahead of every run.
        pool_size: guests kept ready; about 3 MB each in the jail. 0 opens each guest when it is needed.
        max_guests: programs and sessions at the same time; more of them queue.
        queue_seconds: how long one may queue before it fails with `SandboxBusy`.
        tier: insist on tier 1 or 2 of the jail.
        path: what `execute_code` and `handle` do where they are not told: ``"auto"`` runs programs that are certain to
            be graphs of tool calls as plans on the host, ``"sandbox"`` runs every program in a guest, ``"plan"`` none.
        statistics: a file (SQLite) that keeps how long tools take and how often they fail, and which tools searches
            led to, across restarts; runtimes of one tenant may share it. Without one, it is forgotten with the runtime.
        cache_reads_until_write: whether a call of a tool that is not read-only ends every result that is kept, those of
            tools with `cache_seconds` included, whoever makes the call. Plans of a `ToolOrchestrator` keep what they
            read in this way in any case.
        sources: where more tools come from while the runtime is open, e.g. `callgate.mcp.McpServers`.

    Raises (on entering):
        SandboxUnavailable: the sandbox does not work on this machine; the message says why and what to do.
        ConfigurationError: the `statistics` file cannot be used; the message says why.
    """

    def __init__(
        self,
        tools: Registry | Iterable[Tool | Callable[..., Any]] = (),
        *,
        sandbox: str | Backend | None = "auto",
        limits: Limits | None = None,
        approve: Approve | None = None,
        approve_plan: ApprovePlan | None = None,
        policy: Policy = "none",
        allowed_imports: Collection[str] | None = None,
        packages: str | None = None,
        preimport: Iterable[str] = (),
        pool_size: int = 4,
        max_guests: int = 64,
        queue_seconds: float = 30.0,
        tier: int | None = None,
        path: Path = "auto",
        statistics: str | FilePath | None = None,
        cache_reads_until_write: bool = False,
        sources: Iterable[Source] = (),
    ) -> None:
        if limits is not None and not isinstance(limits, Limits):
            raise ConfigurationError("limits must be Limits, for instance Limits(wall_seconds=10)")
        if policy not in ("none", "restricted"):
            raise ConfigurationError(f"there is no policy {policy!r}; there are: none, restricted")
        if max_guests < 1 or pool_size < 0 or queue_seconds <= 0:
            raise ConfigurationError("max_guests and queue_seconds must be above 0, and pool_size 0 or more")
        self.registry = tools if isinstance(tools, Registry) else Registry(tools)
        if approve_plan is not None and not callable(approve_plan):
            raise ConfigurationError(f"approve_plan is a function of a PlanApprovalRequest, not {approve_plan!r}")
        self.limits = limits or Limits()
        self.max_guests = max_guests
        backend = warm = None
        if sandbox is not None:
            backend = make_backend(sandbox, packages=packages, preimport=tuple(preimport), tier=tier)
            warm = WarmPool(
                backend,
                Allowance.of(self.limits),
                size=min(pool_size, max_guests),
                max_guests=max_guests,
                queue_seconds=queue_seconds,
            )
        learned = Learned()
        core_over = partial(
            Core,
            sandbox=None if backend is None or warm is None else (backend, warm),
            limits=self.limits,
            approve=approve,
            approve_plan=approve_plan,
            language=Language(policy, None if allowed_imports is None else tuple(allowed_imports)),
            path=checked_path(path),
            learned=learned,
            effects=Effects(cache_reads_until_write),
        )
        self._cores: WeakSet[Core] = WeakSet()

        def made(registry: Registry) -> Core:
            core = core_over(registry)
            self._cores.add(core)
            return core

        super().__init__(made(self.registry), made)
        self.gate = self._core.gate
        files: list[AbstractAsyncContextManager[Any]] = []
        if statistics is not None:
            from .statistics_file import LearnedFile, StatisticsFile  # SQLite comes with them

            files += [StatisticsFile(statistics, self.registry.statistics), LearnedFile(statistics, learned)]
        self._kept = [each for each in (*files, backend, warm) if each is not None]
        self._sources = [_source(each) for each in sources]
        self._keeper: Keeper | None = None
        self._loop: object = None
        self._left = False

    async def __aenter__(self) -> Runtime:
        if self._keeper is not None:
            raise ConfigurationError("this runtime is entered already; leave it first, or make another one")
        self._loop = event_loop()
        self._keeper = Keeper([*self._kept, *(source.serving(self.registry) for source in self._sources)])
        try:
            await self._keeper.open()
        except BaseException:
            self._keeper = self._loop = None
            raise
        return self

    async def __aexit__(self, *error: Any) -> None:
        keeper, self._loop, self._left = self._keeper, None, True
        for core in list(self._cores):
            await core.close()
        try:
            if keeper is not None:
                await keeper.close()
        finally:
            self._keeper = None

    @property
    def open_in(self) -> object:
        """The event loop in which the runtime is open; None where it is not."""
        return self._loop

    @property
    def backend(self) -> Backend:
        """What confines programs. Raises `ConfigurationError` where the runtime was made without a sandbox."""
        return self._core.sandbox[0]

    @property
    def _pool(self) -> WarmPool:
        return self._core.sandbox[1]

    @property
    def _plans(self) -> Plans:
        return self._core.plans

    # programs

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
        """Run a program: as a plan on the host where it is certain to be a graph of tool calls, else in a fresh guest.

        Args:
            code: Python source.
            inputs: JSON values, bound as variables.
            tools: names of the tools this program may call; ``None`` for all that allow callers of kind ``code``,
            empty for none.
            limits: instead of the runtime's own. Other kernel limits than the runtime's cost the warm pool's head
            start.
            on_event: told of prints, call starts and call ends as they happen.
            check: look at the program first, and do not run one that is certain to fail.
            path: instead of the runtime's own: ``"sandbox"`` runs it in a guest whatever it is, ``"plan"`` on the host
            or not at all, ``"auto"`` where it belongs. What comes out is the same, but for `CodeResult.speculative`.

        Returns:
            What came of it, failures included: see `CodeResult`.

        Raises:
            ConfigurationError: an input is no JSON, `tools` names one that does not exist, or there is no such path.
            SandboxError: no guest can be had.
        """
        self._must_be_open()
        return await self._core.execute_code(
            code, inputs=inputs, tools=tools, limits=limits, on_event=on_event, check=check, path=path
        )

    @contextlib.asynccontextmanager
    async def stream_code(self, code: str, **options: Any) -> AsyncIterator[CodeStream]:
        """Run a program and iterate over its events while it runs; afterwards `.result` is there.

        ``async with runtime.stream_code(code) as stream: async for event in stream: ...``. Takes what `execute_code`
        takes, but `on_event`. Leaving the block early cancels the run.
        """
        async with streaming(lambda put: self.execute_code(code, on_event=put, **options)) as stream:
            yield stream

    @contextlib.asynccontextmanager
    async def session(self, *, limits: Limits | None = None) -> AsyncIterator[Session]:
        """A guest whose state lives on between programs: ``async with runtime.session() as session``.

        Raises:
            SandboxError: no guest can be had.
        """
        self._must_be_open()
        async with self._core.session(limits) as session:
            yield session

    def check(self, code: str, *, inputs: Collection[str] = (), tools: Collection[str] | None = None) -> list[Finding]:
        """What is wrong with a program, before anything runs: see `Finding`. Needs no sandbox, and no open runtime."""
        return self._core.check(code, inputs, tools)

    def compile(
        self, code: str, *, inputs: Mapping[str, Any] | None = None, tools: Collection[str] | None = None
    ) -> Compilation:
        """The plan that `execute_code` runs for a program, or why it is none. Needs no sandbox, and no open runtime.

        Raises:
            ConfigurationError: an input is no JSON, or `tools` names one that does not exist.
        """
        return self._core.compile(code, inputs, tools)

    # plans

    async def execute_tool_plan(
        self,
        plan: Mapping[str, Any] | str,
        *,
        tools: Collection[str] | None = None,
        limits: Limits | None = None,
        on_event: Callable[[Event], None] | None = None,
        approve_plan: ApprovePlan | None = None,
    ) -> PlanResult:
        """Run a declarative plan: every step as soon as its inputs are there, on the host; none of it is run as code.

        Args:
            plan: ``{"steps": [...], "output_steps": [...]}``, or its JSON as text; see ``docs/plans.md``.
            tools: names of the tools this plan may call; ``None`` for all that allow callers of kind ``plan``, empty
                for none.
            limits: instead of the runtime's own. The kernel limits mean nothing here, but for `memory_bytes`, which
                bounds the results that the host holds.
            on_event: told of steps and calls as they start and end.
            approve_plan: asked before the plan runs, instead of the runtime's own.

        Returns:
            What came of it, refusals and failures included: see `PlanResult`.

        Raises:
            ConfigurationError: `tools` names one that does not exist.
        """
        self._must_be_open()
        await imported("callgate.runtime.plans.preparation")
        run = self._core.plan(tools=tools, limits=limits, on_event=on_event, approve_plan=approve_plan)
        return await run.execute(plan)

    async def stream_plan(
        self,
        chunks: AsyncIterable[str] | Iterable[str],
        *,
        tools: Collection[str] | None = None,
        limits: Limits | None = None,
        on_event: Callable[[Event], None] | None = None,
        approve_plan: ApprovePlan | None = None,
    ) -> PlanResult:
        """Run a plan while it is still being written: steps of `read_only` tools begin as soon as they are complete.

        The plan is read as a whole when it is complete, and that reading decides: calls it asks for that were made
        already are not made again. A plan that turns out to be bad has its calls in the result's `calls`.

        Args:
            chunks: the JSON text of the plan, in pieces of any size.
            tools: as for `execute_tool_plan`, and so are the others. `wall_seconds` counts from the end of the text.
            approve_plan: with one, no step begins before the plan is complete and allowed.

        Raises:
            ConfigurationError: `tools` names one that does not exist, or a chunk is no text.
            Exception: what `chunks` raises; calls under way are given up.
        """
        self._must_be_open()
        await imported("callgate.runtime.plans.preparation")
        run = self._core.plan(tools=tools, limits=limits, on_event=on_event, approve_plan=approve_plan)
        return await run.execute_stream(chunks)

    def check_plan(self, plan: Mapping[str, Any] | str, *, tools: Collection[str] | None = None) -> list[PlanFault]:
        """What is wrong with a plan, errors first, before anything runs. Needs no open runtime."""
        return self._core.plan(tools=tools).read(plan).faults

    def explain_plan(
        self, plan: Mapping[str, Any] | str, form: ExplainFormat = "text", *, tools: Collection[str] | None = None
    ) -> str:
        """What a plan would do, without running it: waves, steps, and who waits for whom.

        Args:
            plan: as for `execute_tool_plan`.
            form: ``"text"``, ``"json"`` or ``"mermaid"`` (a flowchart).
            tools: as for `execute_tool_plan`.

        Returns:
            The plan in that form; for one with errors, these, one a line.
        """
        from callgate.plan.explain import explain, explained

        reading = self._core.plan(tools=tools).read(plan)
        if reading.plan is None:
            return "\n".join(map(str, reading.errors))
        return explain(
            explained(reading.plan), form, goal=reading.plan.model.goal, outputs=reading.plan.model.output_steps
        )

    def estimate(
        self, plan: Mapping[str, Any] | str, *, tools: Collection[str] | None = None, limits: Limits | None = None
    ) -> PlanEstimate:
        """How long a plan would take, what it would cost, and its odds, by what is known of its tools.

        Args:
            plan: as for `execute_tool_plan`, and so are the others.

        Raises:
            ConfigurationError: the plan has faults, or `tools` names one that does not exist.
        """
        return self._core.plans.estimate(plan, limits or self.limits, tools=tools)

    def _must_be_open(self) -> None:
        if self._loop is None:
            if self._left:
                raise ConfigurationError("this runtime was left already; enter it again, or make another one")
            raise ConfigurationError("enter the runtime first: async with Runtime(...) as runtime")
        if event_loop() is not self._loop:
            raise ConfigurationError(
                "this runtime was entered in another event loop: use it there "
                "(asyncio.run_coroutine_threadsafe, anyio.from_thread), or make one here"
            )


def _source(given: Any) -> Source:
    if not callable(getattr(given, "serving", None)):
        raise ConfigurationError(f"sources are things like callgate.mcp.McpServers(...), not {given!r}")
    source: Source = given
    return source
