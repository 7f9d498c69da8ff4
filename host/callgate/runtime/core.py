"""One set of tools and what runs over it: gate, programs, plans, fast path, search. Knows no model and no conversation.

A runtime has one. A conversation that loads tools has one of its own, over the runtime's tools and those it loaded;
both take their guests from the same place.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

import anyio
import anyio.to_thread

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
from .gate.cache import Cache, Effects
from .gate.events import Event
from .offer import Catalogue, Offer, checked_options, search_builtins
from .result import NO_SANDBOX, CodeResult
from .session import Session

if TYPE_CHECKING:
    from .discovery.search import ToolSearch
    from .fast_path.compilation import Compilation
    from .fast_path.path import FastPath
    from .plans.approval import ApprovePlan
    from .plans.preparation import PlanRun, Plans

__all__ = ["Core", "Path", "checked_path"]

_GRAPHS_ONLY = "; this runtime was made with sandbox=None, which runs only programs that are graphs of tool calls"


Path = Literal["auto", "plan", "sandbox"]
_LONG: Final = 2 * 1024
"""Characters; it takes a millisecond to look at a program of that length, and up to 10 at a hostile one."""
_GIVEN: Final = frozenset({"ToolError", "tool_call", "tools"})

T = TypeVar("T")


def checked_path(path: Any) -> Path:
    """The path that was asked for. Raises `ConfigurationError` where there is none of that name."""
    if path in ("auto", "plan", "sandbox"):
        chosen: Path = path
        return chosen
    raise ConfigurationError(f"there is no path {path!r}; there are: auto, plan, sandbox")


class Core:
    """What runs over one registry.

    Args:
        registry: the tools.
        sandbox: what confines programs, and its warm guests; None: none run but on the host, as graphs.
        limits: what a run may spend where it is not told.
        approve: see `Gate`.
        language: what programs may look like.
        path: what `execute_code` does where it is not told.
        learned: what earlier searches taught; None: nothing, and nothing is learned.
        approve_plan: asked before every plan runs; see `Runtime`.
        effects: see `Gate`.
    """

    def __init__(
        self,
        registry: Registry,
        *,
        sandbox: tuple[Backend, WarmPool] | None,
        limits: Limits,
        approve: Approve | None,
        language: Language,
        path: Path,
        learned: Learned | None = None,
        approve_plan: ApprovePlan | None = None,
        effects: Effects | None = None,
    ) -> None:
        self.registry = registry
        self._sandbox = sandbox
        self.limits = limits
        self.language = language
        self.path = path
        self.approve_plan = approve_plan
        self._learned = learned
        self.gate = Gate(registry, approve=approve, builtins=search_builtins(lambda: self.search), effects=effects)
        self._catalogues: Cache[Offer, Catalogue] = Cache(max_entries=64)
        self._checked: Cache[tuple[Catalogue, str, tuple[str, ...], int], list[Finding]] = Cache(
            max_entries=256, max_bytes=4 * 1024 * 1024
        )
        self._turn = anyio.Lock()

    @property
    def sandbox(self) -> tuple[Backend, WarmPool]:
        """What confines programs, and its warm guests; raises `ConfigurationError` where there is none."""
        if self._sandbox is None:
            message = "this runtime was made with sandbox=None: it runs plans, tools, and programs that are graphs"
            raise ConfigurationError(message)
        return self._sandbox

    @cached_property
    def search(self) -> ToolSearch:
        """Searches the tools. Its imports wait until somebody searches."""
        from .discovery.search import ToolSearch

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
        if self._sandbox is None:
            return "graphs"
        return "full" if self.language.policy == "none" else "restricted"

    @property
    def python(self) -> str:
        """Version of the Python that runs programs, ``3.11``; empty where that is not known yet."""
        return python_here() if self._sandbox is None else getattr(self._sandbox[0], "python", "")

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
            _ = self.sandbox  # there has to be one
        run = self.prepare(
            code, self.limits if limits is None else limits, inputs=inputs, tools=tools, on_event=on_event
        )
        nowhere = self._sandbox is None
        if check:
            await self._check(run)
            stopped = check_failure(run.findings, NO_SANDBOX if nowhere else self.sandbox[0].description)
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
        backend, pool = self.sandbox
        sandbox = backend.description
        guest = await pool.checkout(Allowance.of(run.limits))
        try:
            ran = await run.on(guest)
        except ConfigurationError:  # nothing was sent
            pool.checkin(guest)
            raise
        except BaseException:
            with anyio.CancelScope(shield=True):
                await pool.end(guest)
            raise
        if not ran.sound:
            return ran.result(sandbox, await pool.end(guest))
        pool.checkin(guest)
        return ran.result(sandbox)

    @contextlib.asynccontextmanager
    async def session(self, limits: Limits | None = None) -> AsyncIterator[Session]:
        """See `Runtime.session`."""
        backend, pool = self.sandbox
        sandbox = backend.description
        limits = self.limits if limits is None else limits
        guest = await pool.checkout(Allowance.of(limits))
        session = Session(self, guest, limits, sandbox=sandbox)
        try:
            yield session
        finally:
            session._close()
            with anyio.CancelScope(shield=True):
                await pool.end(guest)

    def prepare(
        self,
        code: str,
        limits: Limits,
        *,
        inputs: Mapping[str, Any] | None = None,
        tools: Collection[str] | None = None,
        on_event: Callable[[Event], None] | None = None,
    ) -> CodeRun:
        """A run of `code`: see `Runtime.execute_code` for the arguments. Raises `ConfigurationError`."""
        if not isinstance(code, str):
            raise ConfigurationError(f"code is Python source text, not {type(code).__name__}")
        checked_options(limits, tools, on_event)
        if inputs is not None and not isinstance(inputs, Mapping):
            raise ConfigurationError(f"inputs is a dict of variables and their values, not {type(inputs).__name__}")
        gate = self.gate.open(caller="code", limits=limits, allowed=tools, on_event=on_event)
        catalogue = self._catalogues.get(gate.offer)
        if catalogue is None:
            catalogue = Catalogue(gate.offer)
            self._catalogues.keep(gate.offer, catalogue)
        for name in inputs or ():
            if name in catalogue.shapes or name in _GIVEN:
                raise ConfigurationError(
                    f"the input {name!r} would hide the tool, or the name, that programs are given"
                )
        return CodeRun(code, gate, catalogue, limits, dict(inputs or {}), on_event)

    async def _check(self, run: CodeRun) -> None:
        """Look at a program that stands alone; the findings stay with the run. Others have their turn meanwhile."""
        key = (run.catalogue, run.code, tuple(run.inputs), run.limits.max_source_bytes)
        known = self._checked.get(key)
        if known is None:
            known = await self.look(run.code, partial(run.check, self.language))
            self._checked.keep(key, known, len(run.code) + 64 * len(run.inputs))
        run.findings = list(known)

    async def look(self, source: str, looking: Callable[[], T]) -> T:
        """What `looking` gives, which looks at `source`.

        A long source is looked at in a thread, one after the other. Python gives others their turn between any two
        steps of a look but the parser's and the compiler's, and those two are bounded: see `callgate.program.syntax`.
        """
        if len(source) <= _LONG:
            return looking()
        async with self._turn:
            return await anyio.to_thread.run_sync(looking)

    def check(self, code: str, inputs: Iterable[str] = (), tools: Collection[str] | None = None) -> list[Finding]:
        """See `Runtime.check`."""
        run = self.prepare(code, self.limits, inputs=dict.fromkeys(inputs), tools=tools)
        return run.check(self.language)

    def compile(self, code: str, inputs: Mapping[str, Any] | None, tools: Collection[str] | None) -> Compilation:
        """See `Runtime.compile`."""
        return self.fast_path.compile(self.prepare(code, self.limits, inputs=inputs, tools=tools))

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
