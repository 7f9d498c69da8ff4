"""`Runtime`: the entrance to callgate. Holds tools, gate, sandbox and limits; other modules do the work."""

from __future__ import annotations

import contextlib
import copy
import weakref
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Collection, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any, Final, Literal, TypedDict, Unpack

import anyio

from callgate.artifacts import Artifact, Artifacts, Shelf
from callgate.errors import ConfigurationError
from callgate.lazily import imported
from callgate.limits import Limits
from callgate.sandbox.backend import Allowance, Backend
from callgate.sandbox.choose import make_backend
from callgate.sandbox.pool import WarmPool
from callgate.search.learned import Learned
from callgate.tools import Registry, Tool

from .context_task import ContextTask
from .final_answer import AnswerType
from .for_models import ForModels
from .for_plans import ForPlans
from .for_runs import ForRuns
from .gate import Approve, Gate
from .gate.cache import Effects
from .gate.events import Event
from .gate.threads import Threads
from .gate.watches import watched
from .gate.watching import Watcher
from .guest_run import in_guest
from .offer import Source, search_builtins
from .redaction import Redaction, Redactor
from .repair import MAX_AGE_SECONDS, After, FindRun, completed, reuse
from .replay.guests import ReplayGuests
from .result import NO_SANDBOX, CodeResult
from .run import CodeRun, Language, Looks, checked_files
from .session import Session
from .streaming import CodeStream, streaming
from .writing import Writing, writing, written

if TYPE_CHECKING:
    from callgate.durable.store import Store
    from callgate.program import Finding, Policy

    from .audit.log import AuditLog
    from .discovery.meaning import Embedder, Meaning
    from .fast_path.compilation import Compilation
    from .fast_path.drive import GraphDrive
    from .fast_path.early import EarlyReads
    from .plans.run import ApprovePlan
    from .telemetry.options import Telemetry
    from .telemetry.spans import Spans

__all__ = ["CodeStream", "Path", "Runtime"]


class _RunOptions(TypedDict, total=False):
    inputs: Mapping[str, Any] | None
    tools: Collection[str] | None
    on_event: Callable[[Event], None] | None
    files: Mapping[str, str | FilePath | bytes | Artifact] | None


Path = Literal["auto", "plan", "sandbox"]
_PATHS: Final = ("auto", "plan", "sandbox")
_GRAPHS_ONLY: Final = (
    "; this runtime was made with sandbox=None, which runs only programs that are graphs of tool calls"
)


class Runtime(ForModels, ForPlans, ForRuns):
    """Runs programs that call tools. Use as an async context manager, under asyncio or trio; leaving it ends
    everything that it started. It may be entered again, also in another event loop.

    One runtime serves one tenant: its guests share nothing writable, but they share a zygote, tools and a result
    cache.

    Args:
        tools: `Tool`s, or functions that become tools.
        sandbox: ``"auto"`` (the first that works: jail tier 1, docker, jail tier 2), ``"jail"``, ``"docker"``,
            ``"unsafe"`` (nothing confines; for debugging), or a backend, e.g. `DockerBackend`. ``None`` runs plans,
            tools, and programs that are graphs of tool calls: nothing that needs a sandbox.
        limits: for each run without limits of its own.
        approve: a function, plain or async, that is asked before every call of a tool with `requires_approval`; without
            it, such calls are refused.
        approve_plan: a function, plain or async, that receives a `PlanApprovalRequest` before any plan runs, a model's
            plans included. It returns `Allow()`, ``Allow(another_plan)`` or `Deny(reason)`; an exception is a no.
            No tool is called before the answer, and `wall_seconds` begins after it. Programs need no such approval.
        policy: ``"restricted"`` adds a language policy to `check`: fewer imports, no way into the interpreter. It
            is not the boundary.
        allowed_imports: modules that the restricted policy lets a program import; ``None`` for a small safe list.
        packages: a folder of packages that programs may import, read-only, made by ``callgate packages add``; or any
            site-packages folder of this Python. Models are told what is in it.
        preimport: modules of it (or of the standard library) imported once, ahead of every run.
        pool_size: guests kept ready; about 3 MB each in the jail. 0 opens each guest when it is needed. After the first
            durable program in a sandbox, as many more are kept ready for such programs.
        max_guests: programs and sessions at the same time; more of them queue.
        queue_seconds: how long one may queue before it fails with `SandboxBusy`.
        tier: insist on tier 1 or 2 of the jail.
        path: where programs run by default: with ``"auto"``, programs that are certain to be graphs of tool calls run
            on the host and others in a guest; with ``"sandbox"``, all run in a guest; with ``"plan"``, none.
        statistics: a file (SQLite) that keeps how long tools take and how often they fail, and which tools searches
            led to, across restarts; runtimes of one tenant may share it. Without one, it is forgotten with the runtime.
        cache_reads_until_write: whether any call of a tool that is not read-only empties the result cache, results of
            tools with `cache_seconds` included. Plans of a `ToolOrchestrator` always cache their reads in this way.
        sources: where more tools come from while the runtime is open, e.g. `callgate.mcp.McpServers`.
        folders: folders of the host that programs may read, by their names below ``/input``. What the host changes in
            them later, programs may see. A folder with anything in it but files, folders and links is refused on
            entering; links that leave it lead nowhere.
        telemetry: traces and metrics for OpenTelemetry: see `Telemetry`.
        audit: a file that gets a line for each decision about a call, or an `AuditLog`: see ``docs/audit.md``.
        redaction: what stays out of spans, audit logs, transcripts, pages and screens: see `Redaction`.
        durable: a file (SQLite) that keeps the runs of `start`, or a store of your own: see ``docs/durable.md``. Runs
            that were under way go on when the runtime is entered.
        encryption_key: 32 bytes that encrypt what that file keeps of arguments, results and texts.
        embed: a function, plain or async, that takes a list of texts and gives a vector for each: the tool search then
            compares meanings as well as words. It gets texts of tools and queries. Its attribute `name`, or else its
            own name, keeps its vectors apart from those of others in the `statistics` file. If it fails or takes more
            than 5 s, the search goes by words alone and says so: see ``docs/model.md``.

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
        packages: str | FilePath | None = None,
        preimport: Iterable[str] = (),
        pool_size: int = 4,
        max_guests: int = 64,
        queue_seconds: float = 30.0,
        tier: int | None = None,
        path: Path = "auto",
        statistics: str | FilePath | None = None,
        cache_reads_until_write: bool = False,
        sources: Iterable[Source] = (),
        folders: Mapping[str, str | FilePath] | None = None,
        telemetry: Telemetry | None = None,
        audit: str | FilePath | AuditLog | None = None,
        redaction: Redaction | None = None,
        durable: str | FilePath | Store | None = None,
        encryption_key: bytes | None = None,
        embed: Embedder | None = None,
    ) -> None:
        if limits is not None and not isinstance(limits, Limits):
            raise ConfigurationError("limits must be Limits, for instance Limits(wall_seconds=10)")
        if policy not in ("none", "restricted"):
            raise ConfigurationError(f"there is no policy {policy!r}; there are: none, restricted")
        if max_guests < 1 or pool_size < 0 or queue_seconds <= 0:
            raise ConfigurationError("max_guests and queue_seconds must be above 0, and pool_size 0 or more")
        if approve_plan is not None and not callable(approve_plan):
            raise ConfigurationError(f"approve_plan is a function of a PlanApprovalRequest, not {approve_plan!r}")
        self.limits = limits or Limits()
        self.max_guests = max_guests
        self._path = _checked_path(path)
        self._approve = approve
        self._approve_plan = approve_plan
        self._language = Language(policy, None if allowed_imports is None else tuple(allowed_imports))
        self.artifacts = Artifacts()
        """What programs and tools have produced, for the operator; forgotten when the runtime is left."""
        self._shelf = self.artifacts.shelf()
        """Of calls, programs and plans outside of any conversation."""
        self._learned = Learned()
        self._meaning: Meaning | None = None
        if embed is not None:
            from .discovery.meaning import Meaning

            self._meaning = Meaning(embed)
        self._looks = Looks()
        self._drives: set[GraphDrive] = set()
        """Programs that run on the host."""
        self._early: set[EarlyReads] = set()
        """Calls of programs that are being written."""
        self._sandbox: tuple[Backend, WarmPool] | None = None
        self._replay_guests: ReplayGuests | None = None
        if sandbox is None and (folders or packages):
            raise ConfigurationError("folders and packages are for programs in a sandbox: leave out sandbox=None")
        if sandbox is not None:
            backend = make_backend(sandbox, packages=packages, preimport=tuple(preimport), tier=tier, folders=folders)
            size, allowance = min(pool_size, max_guests), Allowance.of(self.limits)
            warm = WarmPool(backend, allowance, size=size, max_guests=max_guests, queue_seconds=queue_seconds)
            self._sandbox = backend, warm
            self._replay_guests = ReplayGuests(backend, warm)
        self._effects = Effects(cache_reads_until_write)
        self._threads = Threads(ended_late=self._effects.note)
        self.redaction = redaction or Redaction()
        """What stays out of everything that people and logs are shown."""
        self._spans: Spans | None = None
        self.telemetry = telemetry
        """Traces and metrics, for what runs above this runtime, too: for agents."""
        files: list[AbstractAsyncContextManager[Any]] = []
        watchers: list[Watcher] = []
        if telemetry is not None:
            self._spans = _telemetry(telemetry).watcher(self.redaction)
            watchers.append(self._spans)
            if self._sandbox is not None:
                self._spans.meters.watch(self._sandbox[1])
        if audit is not None:
            from .audit.log import AuditLog

            log = audit if isinstance(audit, AuditLog) else AuditLog(audit)
            watchers.append(log.watcher(self.redaction))
            files.append(log)
        self._watchers = tuple(watchers)
        if encryption_key is not None and not isinstance(durable, (str, FilePath)):
            raise ConfigurationError("encryption_key is for durable=FILE: name that file, or leave the key out")
        self._durable, self._encryption_key, self._runs_of = durable, encryption_key, weakref.ref(self)
        self._take(tools if isinstance(tools, Registry) else Registry(tools))
        if statistics is not None:
            from .statistics_file import LearnedFile, StatisticsFile, VectorsFile  # they import SQLite

            files += [StatisticsFile(statistics, self.registry.statistics), LearnedFile(statistics, self._learned)]
            if self._meaning is not None:
                files.append(VectorsFile(statistics, self._meaning))
        served = [_source(each).serving for each in sources]
        self._find_run: FindRun | None = None
        self._contexts = ContextTask(
            lambda: [*files, *(self._sandbox or ()), *(serving(self.registry) for serving in served)]
        )

    def _take(self, registry: Registry) -> None:
        self.registry = registry
        self.redactor = Redactor(self.redaction, registry)
        builtins = search_builtins(lambda: self.search)
        self.gate = Gate(
            registry, approve=self._approve, builtins=builtins, effects=self._effects, threads=self._threads,
            watchers=self._watchers,
        )  # fmt: skip

    def _over(self, registry: Registry) -> Runtime:
        """Copy this runtime for other tools, for a conversation that loads some: the copy has its own gate, search and
        cache of programs, and shares the guests."""
        other = copy.copy(self)
        for name in ("search", "_answers"):
            vars(other).pop(name, None)
        other._looks = Looks()
        other._take(registry)
        return other

    def _for(self, shelf: Shelf) -> Runtime:
        """This runtime for the owner of a shelf: its programs, plans and calls have the artifacts there."""
        if shelf is self._shelf:
            return self
        other = copy.copy(self)
        other._shelf = shelf
        return other

    async def __aenter__(self) -> Runtime:
        await self._contexts.open()
        self._looks.turn = anyio.Lock(fast_acquire=True)  # a lock belongs to the event loop that used it
        await self._open_runs()
        return self

    async def __aexit__(self, *error: Any) -> None:
        try:
            await self._close_runs()
        finally:
            self._contexts.loop = None
            await self._end_drives(*self._drives)
            with anyio.CancelScope(shield=True):
                for early in list(self._early):
                    await early.close()
            try:
                if self._replay_guests is not None:
                    await self._replay_guests.close()
            finally:
                await self._contexts.close()
                self.artifacts.clear()

    async def _close(self) -> None:
        """End the programs that run on the host with these tools."""
        await self._end_drives(*(drive for drive in self._drives if drive.gate is self.gate))

    async def _end_drives(self, *drives: GraphDrive) -> None:
        with anyio.CancelScope(shield=True):
            for drive in drives:
                drive.close()
            for drive in drives:
                await drive.gone.wait()

    @property
    def open_in(self) -> object:
        """The event loop in which the runtime is open; None if it is closed."""
        return self._contexts.loop

    @property
    def backend(self) -> Backend:
        """The sandbox's backend. Raises `ConfigurationError` if the runtime was made without a sandbox."""
        return self._confined()[0]

    @property
    def _pool(self) -> WarmPool:
        return self._confined()[1]

    def _confined(self) -> tuple[Backend, WarmPool]:
        if self._sandbox is None:
            message = "this runtime was made with sandbox=None: it runs plans, tools, and programs that are graphs"
            raise ConfigurationError(message)
        return self._sandbox

    async def _confined_for_replay(self) -> tuple[Backend, WarmPool]:
        self._confined()
        self._contexts.must_be_open()
        assert self._replay_guests is not None
        return await self._replay_guests.opened()

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
        files: Mapping[str, str | FilePath | bytes | Artifact] | None = None,
        final_answer: Any = None,
        after: After = None,
        max_age_seconds: float = MAX_AGE_SECONDS,
    ) -> CodeResult:
        """Run a program: as a plan on the host where it is certain to be a graph of tool calls, else in a fresh guest.

        Args:
            code: Python source.
            inputs: JSON values, bound as variables.
            tools: names of the tools this program may call; ``None`` for all that allow callers of kind ``code``,
                empty for none.
            limits: instead of the runtime's own. Other kernel limits than the runtime's cost the warm pool's head
                start.
            on_event: receives prints, call starts and call ends as they happen.
            check: check the program first, and do not run a program that is certain to fail.
            path: instead of the runtime's own: ``"sandbox"`` runs the program in a guest, ``"plan"`` on the host or not
                at all, ``"auto"`` where it belongs. The result is the same, except `CodeResult.speculative`.
            final_answer: the type of an answer that the program may give with ``final_answer(value)``, which ends it:
                an annotation, or an `AnswerType` with checks of its own. What does not fit raises `AnswerRejected` in
                the program. `CodeResult.final_answer` has the answer.
            after: the result of a program that this one corrects, or several; or the id of its run. Its successful
                calls that this program makes again, of the same tool with the same arguments, are not made: they have
                the earlier results (`CallRecord.reused`), and do not count for `max_tool_calls`. A call with effects
                whose outcome is unknown raises `UnknownOutcome`, a `ToolError`. See ``docs/programs.md``.
            max_age_seconds: older results of read-only tools are not reused, and none after a new call with effects.

        Returns:
            The result of the run, failures included: see `CodeResult`.

        Raises:
            ConfigurationError: an input is not JSON, a tool or the path does not exist, or `after` is not the result of
                a program.
            RunNotFound: no run has the id `after`.
            SandboxError: no guest can be had.
        """
        run, path = self._new_run(
            code, inputs=inputs, tools=tools, limits=limits, on_event=on_event, path=path, files=files,
            final_answer=final_answer,
        )  # fmt: skip
        if after is not None:
            await reuse(run, after, max_age_seconds, self._find_run or self._result_to_correct)
        return await watched(run.gate, self._executed(run, check, path), "code", code, run.inputs)

    def _new_run(
        self, code: str, *, path: Path | None = None, limits: Limits | None = None, final_answer: Any = None,
        **options: Unpack[_RunOptions],
    ) -> tuple[CodeRun, Path]:  # fmt: skip
        """A program to run, and where: see `execute_code`."""
        self._contexts.must_be_open()
        path = self._path if path is None else _checked_path(path)
        if options.get("files"):
            path = self._path_with_files(path)
        if path == "sandbox":
            self._confined()
        limits = self.limits if limits is None else limits
        answer = None if final_answer is None else AnswerType.of(final_answer)
        return CodeRun.of(self.gate, code, limits, shelf=self._shelf, answer=answer, **options), path

    async def _executed(self, run: CodeRun, check: bool, path: Path, early: EarlyReads | None = None) -> CodeResult:
        """Run a program whose text is complete.

        Args:
            run: the program.
            check: see `execute_code`, like `path`.
            early: has the calls that began while it was written.
        """
        return completed(run, await self._ran(run, check, path, early), self.redactor)

    async def _ran(self, run: CodeRun, check: bool, path: Path, early: EarlyReads | None) -> CodeResult:
        code, limits = run.code, run.limits
        self._contexts.must_be_open()  # the runtime may have been left while the program was written
        if check:
            replays = run.gate.journal is not None
            key = (run.offer, code, run.known, limits.max_source_bytes, replays)
            looking = partial(run.check, self._language, session=False, replays=replays)
            run.findings = list(await self._looks.look(code, looking, key))
            sandbox = NO_SANDBOX if self._sandbox is None else self.backend.description
            if (stopped := run.check_failure(sandbox)) is not None:
                return stopped
        if path != "sandbox":
            fast_path = await imported("callgate.runtime.fast_path.path")
            in_sandbox = None if path == "plan" or self._sandbox is None else self._in_sandbox
            why = "" if path == "plan" else _GRAPHS_ONLY
            found = await fast_path.look(run, self._looks)
            self._contexts.must_be_open()  # the runtime may have been left meanwhile
            result: CodeResult | None = await fast_path.execute(run, found, self._drives, in_sandbox, why, early)
            if result is not None:
                return result
        return await self._in_sandbox(run)

    def _path_with_files(self, path: Path) -> Path:
        """The path of a program with files. Raises `ConfigurationError` where there are none."""
        if path == "plan":
            raise ConfigurationError("a program with files runs in a guest: leave out path='plan'")
        if reason := getattr(self.backend, "no_files", "this sandbox has no files: use sandbox='jail'"):
            raise ConfigurationError(f"files: {reason}")
        return "sandbox"

    async def _in_sandbox(self, run: CodeRun) -> CodeResult:
        run.tree = None  # only the fast path needs it
        if run.gate.journal is not None:
            guest = await imported("callgate.runtime.durable.guest")
            durable: CodeResult = await guest.in_durable_guest(run, *await self._confined_for_replay())
            return durable
        return await in_guest(run, *self._confined())

    @contextlib.asynccontextmanager
    async def stream_code(
        self, code: str | AsyncIterable[str] | Iterable[str], **options: Any
    ) -> AsyncIterator[CodeStream]:
        """Run a program and iterate over its events while it runs; afterwards `.result` is set.

        ``async with runtime.stream_code(code) as stream: async for event in stream: ...``. Takes the
        arguments of `execute_code`, except `on_event`. Leaving the block early cancels the run.

        Args:
            code: Python source; or its pieces, as a model writes them. Calls of read-only tools without approval then
                begin as soon as their statements are there. The finished program decides: it is checked and run as any
                other, takes the outcomes of the calls that it makes, and `CodeResult.speculative` has the rest.
                `wall_seconds` begins with the last piece. With ``path="sandbox"``, or with files, nothing begins early.
            options: see `execute_code`.
        """
        run: Callable[..., Awaitable[CodeResult]] = (
            partial(self.execute_code, code) if isinstance(code, str) else partial(self._execute_written, code)
        )
        async with streaming(lambda put: run(on_event=put, **options)) as stream:
            yield stream

    async def _execute_written(self, chunks: AsyncIterable[str] | Iterable[str], **options: Any) -> CodeResult:
        async with self._writing(**options) as begun:
            return await written(begun, chunks)

    @contextlib.asynccontextmanager
    async def _writing(
        self, *, check: bool = True, after: After = None, max_age_seconds: float = MAX_AGE_SECONDS, **options: Any
    ) -> AsyncIterator[Writing]:
        """Begin a program that is not written yet: see `stream_code`. Takes the arguments of `execute_code`."""
        run, path = self._new_run("", **options)
        if after is not None:
            await reuse(run, after, max_age_seconds, self._find_run or self._result_to_correct)
        finish = partial(self._executed, run, check, path)
        if path != "sandbox":
            await imported("callgate.runtime.fast_path.path")
        early = None if path == "sandbox" else self._early
        async with writing(run, self._looks, finish, early) as begun:
            yield begun

    @contextlib.asynccontextmanager
    async def session(
        self,
        *,
        limits: Limits | None = None,
        files: Mapping[str, str | FilePath | bytes | Artifact] | None = None,
    ) -> AsyncIterator[Session]:
        """Open a guest whose variables stay between programs: ``async with runtime.session() as session``.

        Args:
            limits: instead of the runtime's own.
            files: files for its programs: see `execute_code`.

        Raises:
            ConfigurationError: the sandbox has no files, or one of them does not exist.
            SandboxError: no guest can be had.
        """
        self._contexts.must_be_open()
        limits = self.limits if limits is None else limits
        if files:
            self._path_with_files("sandbox")
        guest = await self._pool.checkout(Allowance.of(limits), checked_files(files or {}))
        session = Session(self, guest, limits, self._shelf)
        try:
            yield session
        finally:
            session._close()
            with anyio.CancelScope(shield=True):
                await self._pool.end(guest)

    def check(self, code: str, *, inputs: Collection[str] = (), tools: Collection[str] | None = None) -> list[Finding]:
        """Find faults in a program before it runs: see `Finding`. Needs no sandbox and no open runtime."""
        run = CodeRun.of(self.gate, code, self.limits, inputs=dict.fromkeys(inputs), tools=tools)
        return run.check(self._language, session=False)

    def compile(
        self, code: str, *, inputs: Mapping[str, Any] | None = None, tools: Collection[str] | None = None
    ) -> Compilation:
        """Show the plan that `execute_code` runs for a program, or why it runs none. Needs no open runtime.

        Raises:
            ConfigurationError: an input is not JSON, or `tools` names one that does not exist.
        """
        from .fast_path.compilation import Compilation
        from .fast_path.path import look_at_once

        run = CodeRun.of(self.gate, code, self.limits, inputs=inputs, tools=tools)
        return Compilation(run, look_at_once(run))


def _checked_path(path: Any) -> Path:
    if path not in _PATHS:
        raise ConfigurationError(f"there is no path {path!r}; there are: {', '.join(_PATHS)}")
    chosen: Path = path
    return chosen


def _telemetry(given: Any) -> Telemetry:
    if not callable(getattr(given, "watcher", None)):
        raise ConfigurationError(f"telemetry is a callgate.Telemetry(), not {given!r}")
    telemetry: Telemetry = given
    return telemetry


def _source(given: Any) -> Source:
    if not callable(getattr(given, "serving", None)):
        raise ConfigurationError(f"sources are things like callgate.mcp.McpServers(...), not {given!r}")
    source: Source = given
    return source
