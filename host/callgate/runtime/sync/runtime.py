"""`SyncRuntime`: the entrance to callgate for code without ``await``. The work is `Runtime`'s."""

from __future__ import annotations

import atexit
import contextlib
import inspect
import threading
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Collection, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Self, Unpack

import anyio
import anyio.to_thread

from callgate.errors import ConfigurationError
from callgate.limits import Limits
from callgate.runtime.runtime import Runtime

from .loop_thread import LoopThread
from .options import SyncCallOptions, async_options
from .runs import SyncRuns, running
from .session import SyncCodeStream, SyncSession
from .waiting import Waiting, arguments_of, giving, plain, waiting

if TYPE_CHECKING:  # imported at first use, as by `Runtime`
    from callgate.artifacts import Artifacts
    from callgate.runtime.answer import Answer
    from callgate.runtime.discovery.conversation import Conversation
    from callgate.runtime.discovery.found import SearchResult
    from callgate.runtime.discovery.search import FindOptions, Query, ToolSearch
    from callgate.runtime.model.meta import MetaTool
    from callgate.runtime.redaction import Redaction
    from callgate.runtime.telemetry.options import Telemetry
    from callgate.sandbox.backend import Backend
    from callgate.tools import Registry

    from .conversation import SyncConversation

__all__ = ["SyncRuntime"]


_END: Final = object()


async def _in_thread(chunks: Iterable[str]) -> AsyncGenerator[str, None]:
    """The pieces of a text, each waited for in a worker thread."""
    pieces = iter(chunks)
    while (piece := await anyio.to_thread.run_sync(next, pieces, _END, abandon_on_cancel=True)) is not _END:
        yield piece  # type: ignore[misc]


def _conversation(runtime: SyncRuntime, made: Conversation) -> SyncConversation:
    from .conversation import SyncConversation

    return SyncConversation(runtime, made)


class SyncRuntime(Waiting):
    """A `Runtime` for code without ``await``: the same arguments, methods and results.

    ``with SyncRuntime([get_weather]) as runtime: runtime.execute_code("1 + 1").value``. It works in scripts, in several
    threads at once, in tests, and in notebooks, where `open` and `close` take the place of the block. It may be entered
    again.

    A background thread has the event loop, for as long as the runtime is open. Sync tools, `approve` and `approve_plan`
    run in worker threads, approvals one at a time, so that ``input()`` works. Async tools and `on_event` run in the
    background thread: while one of them blocks, nothing else in this runtime goes on. Called in a coroutine, a method
    blocks that coroutine's event loop until it returns; use a `Runtime` there.

    Ctrl-C cancels the call that the main thread waits for. The end of the process closes a runtime that is open.
    """

    @arguments_of(Runtime.__init__)
    def __init__(self, *args: Any, **options: Any) -> None:
        for name in ("approve", "approve_plan"):
            if callable(approve := options.get(name)):
                options[name] = partial(self._approved, approve)
        self.runtime = Runtime(*args, **options)
        """The `Runtime`, for what takes one: frameworks, for instance. It is open in the background thread's loop."""
        self._inner = self.runtime
        self._changing = threading.Lock()
        self._opened_in: LoopThread | None = None
        self._was_open = False
        self._approvals: anyio.CapacityLimiter

    async def _approved(self, approve: Callable[[Any], Any], request: object) -> Any:
        """Ask in a worker thread: a person may take their time."""
        answer = await anyio.to_thread.run_sync(approve, request, abandon_on_cancel=True, limiter=self._approvals)
        return await answer if inspect.isawaitable(answer) else answer

    def open(self) -> Self:
        """Enter the runtime where a ``with`` block does not fit, as in the cells of a notebook.

        Raises:
            SandboxUnavailable: see `Runtime`.
            ConfigurationError: see `Runtime`; or the runtime is entered already.
        """
        with self._changing:
            if self._opened_in is not None:
                raise ConfigurationError("this runtime is entered already; leave it first, or make another one")
            thread = LoopThread()
            try:
                self._approvals = thread.do(lambda: anyio.CapacityLimiter(1))
                thread.wait(self.runtime.__aenter__)
            except BaseException:
                thread.end()
                raise
            self._opened_in, self._was_open = thread, True
        atexit.register(self._end_with_process)
        return self

    def close(self) -> None:
        """Cancel what still runs, in whichever thread, and end everything that this runtime has started.

        Raises:
            ConfigurationError: an async tool, or `on_event`, calls this, and so would wait for its own end.
        """
        self._close()

    def _close(self, *, with_process: bool = False) -> None:
        if self._opened_in is not None:
            self._opened_in.refuse_itself()
        with self._changing:
            thread, self._opened_in = self._opened_in, None
            if thread is not None:
                atexit.unregister(self._end_with_process)
                thread.end(self.runtime.__aexit__, with_process=with_process)

    def _end_with_process(self) -> None:
        with contextlib.suppress(Exception):  # what needs a new thread fails by now; the guests end with the process
            self._close(with_process=True)

    def __enter__(self) -> Self:
        return self.open()

    def __exit__(self, *error: object) -> None:
        self.close()

    def _thread(self) -> LoopThread:
        thread = self._opened_in
        if thread is not None:
            return thread
        if self._was_open:
            raise ConfigurationError("this runtime was left already; enter it again, or make another one")
        raise ConfigurationError("enter the runtime first: with SyncRuntime(...) as runtime")

    def _is_open(self) -> bool:
        return self._opened_in is not None and self._opened_in.is_open

    @property
    def limits(self) -> Limits:
        """For each run without limits of its own."""
        return self.runtime.limits

    @property
    def max_guests(self) -> int:
        """Programs and sessions at the same time."""
        return self.runtime.max_guests

    @property
    def registry(self) -> Registry:
        """The tools."""
        return self.runtime.registry

    @property
    def search(self) -> ToolSearch:
        """The search over the runtime's tools, with what it has learned."""
        return self.runtime.search

    @property
    def artifacts(self) -> Artifacts:
        """What programs and tools have produced."""
        return self.runtime.artifacts

    @property
    def redaction(self) -> Redaction:
        """What stays out of everything that people and logs are shown."""
        return self.runtime.redaction

    @property
    def telemetry(self) -> Telemetry | None:
        """Traces and metrics."""
        return self.runtime.telemetry

    @property
    def backend(self) -> Backend:
        """The sandbox's backend. Raises `ConfigurationError` if the runtime was made without a sandbox."""
        return self.runtime.backend

    # programs

    execute_code = waiting(Runtime.execute_code)
    check = plain(Runtime.check)
    compile = plain(Runtime.compile)
    session = giving(SyncSession, Runtime.session)

    def stream_code(self, code: str | AsyncIterable[str] | Iterable[str], **options: Any) -> SyncCodeStream:
        """Run a program and iterate over its events while it runs: ``for event in runtime.stream_code(code)``.

        ``with runtime.stream_code(code) as stream: for event in stream: ...`` sets `stream.result`, too. Takes the
        arguments of `execute_code`, except `on_event`. Leaving the loop or the block early cancels the run.

        Args:
            code: Python source; or its pieces, as a model writes them: see `Runtime.stream_code`. A worker thread waits
                for each piece.
            options: see `execute_code`.
        """
        if isinstance(code, str):
            return SyncCodeStream(self, lambda put: self.runtime.execute_code(code, on_event=put, **options))
        chunks = code if isinstance(code, AsyncIterable) else _in_thread(code)
        return SyncCodeStream(self, lambda put: self.runtime._execute_written(chunks, on_event=put, **options))

    # plans

    execute_tool_plan = waiting(Runtime.execute_tool_plan)
    stream_plan = waiting(Runtime.stream_plan)
    check_plan = plain(Runtime.check_plan)
    explain_plan = plain(Runtime.explain_plan)
    estimate = plain(Runtime.estimate)

    # runs in the background

    start = running(Runtime.start)

    @property
    def runs(self) -> SyncRuns:
        """The runs that were started, in this process or before."""
        return SyncRuns(self, self._read(lambda: self.runtime.runs))

    # models

    tool_definitions = plain(Runtime.tool_definitions)
    tool_choice = plain(Runtime.tool_choice)
    tool_result = plain(Runtime.tool_result)
    tool_results = plain(Runtime.tool_results)
    instructions = plain(Runtime.instructions)
    stubs = plain(Runtime.stubs)

    def search_tools(self, query: Query = "", **options: Unpack[FindOptions]) -> SearchResult:
        """Tools by what they do, for one query or a list of them: see `ToolSearch.find`."""
        if self.runtime._meaning is not None and self._is_open():  # an embedder must not hold up the event loop
            return self._thread().wait(partial(self.runtime.search.ask, query, **options))
        return self._read(partial(self.runtime.search_tools, query, **options))

    describe_tools = plain(Runtime.describe_tools)
    find_by_capability = plain(Runtime.find_by_capability)
    conversation = giving(_conversation, Runtime.conversation)

    def handle(self, name: str, arguments: Mapping[str, Any] | str | None, **options: Any) -> str:
        """Answer a model's call with text for the model: see `answer`, whose text it is."""
        return self.answer(name, arguments, **options).text

    def answer(
        self,
        name: str,
        arguments: Mapping[str, Any] | str | None,
        *,
        tools: Collection[str] | None = None,
        meta: Collection[MetaTool] | None = None,
        **options: Unpack[SyncCallOptions],
    ) -> Answer:
        """Answer a model's call: see `Runtime.answer`. The `session` among its options is a `SyncSession`."""
        answer = partial(self.runtime.answer, name, arguments, tools=tools, meta=meta, **async_options(options))
        return self._thread().wait(answer)
