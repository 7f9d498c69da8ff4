"""One server through its life: start, run, restart, fail, stop.

    starting ──> running ──> restarting ──> running ...
       │            ^            │
       └──> failed ─┴── <────────┘          (a call, or `restart`, tries once more)

1. A start may take `start_seconds`. A start that fails is repeated after 0.5, 1, 2, ... s, up to `MAX_FAILURES` starts
   in a row; a missing program is not tried twice. A connection that held for `STABLE_SECONDS` resets the count.
2. The tools stay in the registry while the server is away. A call waits for the server, at most `WAIT_SECONDS`, and
   then fails clearly.
3. A call that was running when the server went fails at once.
4. After the server has failed, a call tries one more start, at most every `REVIVE_SECONDS`.

Knows states and time. `connection` knows the protocol, `stdio` and `http` how messages are carried.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import anyio.abc
import anyio.to_thread

from callgate.artifacts import Shelf
from callgate.errors import ToolError
from callgate.mcp.config import ServerConfig
from callgate.tools import Registry
from callgate.tools.annotations import UntypedResult
from callgate.tools.json_schema import SchemaResult

from .connection import Connection, Listing, connected
from .imports import Adjust, imported
from .results import Answer, kept_resource
from .status import CannotStart, Fate, ServerFault, ServerState, ServerStatus, one_line

__all__ = ["Server"]

logger = logging.getLogger("callgate.mcp.servers")

FIRST_DELAY_SECONDS = 0.5
MAX_FAILURES = 5
STABLE_SECONDS = 30.0
WAIT_SECONDS = 10.0
REVIVE_SECONDS = 10.0
SETTLE_SECONDS = 0.05
"""Changes of a list of tools often come in several messages."""
BETWEEN_LISTINGS_SECONDS = 1.0
MAX_UNPLACED = 20
"""Tools whose unplaced artifacts the status names."""
MAX_ERROR_CHARACTERS = 64 * 1024
"""Of the message of a failed call, and of its data."""
_STOPPED = "it was stopped"


class Server:
    """One server of the configuration.

    Args:
        config: of the server.
        registry: receives the tools.
        artifacts: receives images, audio and files that come outside of calls.
        start_seconds: from a start to the tools.
        adjust: the operator's word about each tool.
        on_status: called after each change of state.
    """

    def __init__(
        self,
        config: ServerConfig,
        registry: Registry,
        artifacts: Shelf,
        *,
        start_seconds: float,
        adjust: Adjust | None,
        on_status: Callable[[ServerStatus], None],
    ) -> None:
        self.config = config
        self.settled = anyio.Event()
        """Set when the first start has succeeded, or has failed for now."""
        self._registry = registry
        self._artifacts = artifacts
        self._start_seconds = start_seconds
        self._adjust = adjust
        self._on_status = on_status
        self._state: ServerState = "disabled" if config.disabled else "stopped"
        self._error = config.fault
        self._remedy = "mend the configuration" if config.fault else None
        self._connection: Connection | None = None
        self._fate = Fate()
        self._about = ""
        self._listed: dict[str, Any] | None = None
        self._names: tuple[str, ...] = ()
        self._warnings: tuple[str, ...] = ()
        self._unplaced: dict[str, str] = {}
        """The newest warning of each tool whose value had no room for its artifacts."""
        self._places = anyio.Semaphore(config.max_concurrent_calls, fast_acquire=True)
        self._starts = 0
        self._attempted = -REVIVE_SECONDS
        self._next_attempt: float | None = None
        self._turned, self._wanted = anyio.Event(), anyio.Event()

    # life

    def begin(self) -> None:
        """Record that `serve` will follow at once."""
        if not self.config.disabled:
            self._turn("failed" if self.config.fault else "starting")

    async def serve(self) -> None:
        """Keep the server running, and its tools in the registry, until cancelled. Raises nothing else."""
        if self.config.disabled or self.config.fault is not None:
            if self.config.fault is not None:
                logger.warning("MCP server %r: %s", self.config.name, self.config.fault)
            self.settled.set()
            return
        try:
            await self._keep()
        finally:
            self._next_attempt = None
            self._turn("stopped")
            self._names = ()
            self._registry.replace_server(self.config.name, ())

    async def _keep(self) -> None:
        failures = 0
        while True:
            self._attempted, self._wanted, starts = anyio.current_time(), anyio.Event(), self._starts
            fault = await self._live()
            again: ServerState = "restarting" if self._starts else "starting"
            if self._wanted.is_set():
                failures = 0
            else:
                held = self._starts > starts and anyio.current_time() - self._attempted > STABLE_SECONDS
                failures = 1 if held else failures + 1
                failed = isinstance(fault, CannotStart) or failures >= MAX_FAILURES
                count = f"given up after {failures} starts: " if failed and failures > 1 else ""
                self._error, self._remedy = count + self._hide(str(fault)), fault.remedy or None
                delay = float("inf") if failed else FIRST_DELAY_SECONDS * 2 ** (failures - 1)
                self._next_attempt = None if failed else anyio.current_time() + delay
                level = logging.WARNING if failed else logging.INFO
                later = "" if failed else f"; tried again in {delay:g} s"
                logger.log(level, "MCP server %r: %s%s", self.config.name, self._error, later)
                self._turn("failed" if failed else again)
                if failed or failures > 1:
                    self.settled.set()
                with anyio.move_on_after(delay):
                    await self._wanted.wait()
                self._next_attempt = None
                if failed:
                    failures = MAX_FAILURES - 1  # one more start
            self._turn(again)

    async def _live(self) -> ServerFault:
        """One start and its connection, until it is over; returns why. An error harms no other server."""
        self._fate = Fate()
        fault = ServerFault("it closed the connection")
        try:
            with anyio.CancelScope(deadline=anyio.current_time() + self._start_seconds) as start:
                async with connected(self.config, self._fate, self._hide) as connection:
                    try:
                        await self._attend(connection, start)
                    finally:
                        self._connection = None
            if start.cancelled_caught:
                return ServerFault(
                    f"it did not start within {self._start_seconds:g} s", "give it more with start_seconds"
                )
        except BaseExceptionGroup as group:
            if group.subgroup((KeyboardInterrupt, SystemExit)):
                raise
            fault = _fault_in(group)
        except Exception as error:
            fault = _fault_in(error)
        return self._explained(fault)

    async def _attend(self, connection: Connection, start: anyio.CancelScope) -> None:
        await self._take(await connection.tools())
        start.deadline = float("inf")
        self._about = self._hide(connection.about)
        self._connection = connection
        self._starts += 1
        self._turn("running")
        self.settled.set()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._follow, connection)
            tasks.start_soon(connection.follow_changes)
            tasks.start_soon(self._until, connection.fate.over, tasks.cancel_scope)
            tasks.start_soon(self._until, self._wanted, tasks.cancel_scope)

    async def _until(self, event: anyio.Event, scope: anyio.CancelScope) -> None:
        await event.wait()
        scope.cancel()

    async def _follow(self, connection: Connection) -> None:
        while True:
            await connection.changed()
            await anyio.sleep(SETTLE_SECONDS)
            try:
                with anyio.fail_after(self._start_seconds):
                    await self._take(await connection.tools())
            except (ServerFault, TimeoutError) as error:
                text = str(error) or f"it did not answer within {self._start_seconds:g} s"
                warning = self._hide(f"its tools have changed, but cannot be listed: {text}")
                self._warnings = (*self._warnings, warning)[-20:]
            await anyio.sleep(BETWEEN_LISTINGS_SECONDS)

    async def _take(self, listing: Listing) -> None:
        if listing.tools == self._listed:
            return
        registry = self._registry
        name, timeout, adjust = self.config.name, self.config.timeout_seconds, self._adjust

        def calling(
            tool: str, contract: SchemaResult | UntypedResult, unwrap: bool, repeatable: bool
        ) -> Callable[..., Awaitable[Any]]:
            answer = Answer(self._artifacts, name, tool, contract, unwrap, self._note_unplaced)

            async def function(**arguments: Any) -> Any:
                return await self._call(tool, arguments, answer, repeatable)

            return function

        tools = await anyio.to_thread.run_sync(
            lambda: imported(
                name, listing, calling, timeout_seconds=timeout, places=self._places, adjust=adjust, hide=self._hide
            )
        )
        known = registry.replace_server(name, tools)
        for given, tool in zip(tools, known, strict=True):
            if tool.name != given.name and given.name in registry and registry.get(given.name).server != name:
                listing.warn(
                    f"the tool {one_line(str(tool.server_tool), 60)!r} is called {tool.name!r}: an earlier tool has "
                    f"the name {given.name!r}; {one_line(f'{name}.{tool.server_tool}', 120)!r} always means this one"
                )
        self._names = tuple(sorted(tool.name for tool in known))
        self._listed = listing.tools
        self._warnings = tuple(one_line(self._hide(each)) for each in listing.warnings)
        for warning in self._warnings:
            logger.info("MCP server %r: %s", name, warning)

    # calls

    async def _call(self, tool: str, arguments: dict[str, Any], answer: Answer, repeatable: bool) -> Any:
        connection = await self._there()
        try:
            result = await connection.call(tool, arguments, repeatable=repeatable)
        except ToolError as error:
            raise self._presentable(error, f"server {self.config.name!r}: ") from None
        try:
            return answer.value(result)
        except ToolError as error:
            raise self._presentable(error) from None

    async def read_resource(self, uri: str) -> list[dict[str, Any]]:
        """Keep a resource as artifacts; returns their handles. Raises `ToolError`."""
        connection = await self._there()
        try:
            contents = await connection.read_resource(uri)
            return [kept_resource(each, self._artifacts, self.config.name) for each in contents]
        except ToolError as error:
            raise self._presentable(error, f"server {self.config.name!r}: ") from None

    async def _there(self) -> Connection:
        """The open connection, after a wait if it is being opened."""
        rested = anyio.current_time() - self._attempted >= REVIVE_SECONDS
        if self._state == "failed" and rested and self.config.fault is None:
            self._wanted.set()
            self._turn("restarting")
        with anyio.move_on_after(WAIT_SECONDS):
            while True:
                connection = self._connection
                if connection is not None and not connection.is_over:
                    return connection
                if self._state in ("failed", "stopped", "disabled"):
                    break
                await self._turned.wait()
        why = f": {self._error}" if self._error else ""
        raise ToolError(
            f"server {self.config.name!r} is {self._state}{why}; the call was not made, try again later", retryable=True
        )

    def _presentable(self, error: ToolError, before: str = "") -> ToolError:
        """The error as a program and a model may see it: bounded, and without secrets."""
        message, after = self._hide(error.message), ""
        if len(message) > MAX_ERROR_CHARACTERS:
            message = message[: MAX_ERROR_CHARACTERS - 3] + "..."
        if (size := len(repr(error.data))) > MAX_ERROR_CHARACTERS:
            error.data, after = None, f" (data of {size} characters that came with it is left out)"
        error.message = before + message + after
        error.args = (error.message,)
        error.data = self.config.secrets.hide_in(error.data)
        return error

    # status

    def stopping(self) -> None:
        """Record that the host ends the server: running calls report this reason."""
        self._fate.explain(_STOPPED)

    def restart(self) -> None:
        """End the connection, if there is one, and open another."""
        if self._state not in ("stopped", "disabled") and self.config.fault is None:
            self.stopping()
            self._wanted.set()
            self._turn("restarting")

    async def restarted(self) -> None:
        """Wait until the server runs or has failed."""
        while self._state not in ("running", "failed", "stopped", "disabled"):
            await self._turned.wait()

    def status(self) -> ServerStatus:
        """The status at this moment."""
        planned = None if self._next_attempt is None else max(0.0, self._next_attempt - anyio.current_time())
        return ServerStatus(
            name=self.config.name,
            state=self._state,
            transport=self.config.transport,
            about=self._about,
            tools=self._names,
            error=self._error,
            remedy=self._remedy if self._error else None,
            restarts=max(0, self._starts - 1),
            next_attempt_seconds=planned,
            warnings=(*self.config.notes, *self._warnings, *self._unplaced.values(), *self._noise()),
            stderr=self._hide(self._fate.stderr),
        )

    def _turn(self, state: ServerState) -> None:
        self._state = state
        self._turned.set()
        self._turned = anyio.Event()
        status = self.status()
        self._registry.expect_server(status.name, None if self._starts else status.why_absent())
        self._on_status(status)

    def _noise(self) -> tuple[str, ...]:
        lines, first = self._fate.noise_lines, self._hide(self._fate.noise_example)
        what = f"it wrote {lines} line{'' if lines == 1 else 's'} to stdout that are not MCP messages"
        return (f"{what}; the first: {first}",) if lines else ()

    def _explained(self, fault: ServerFault) -> ServerFault:
        """The fault with the last line of stderr, which most often says why."""
        if isinstance(fault, CannotStart):
            return fault
        fate = self._fate
        reason = fate.reason if fate.reason and fate.reason != _STOPPED else str(fault)
        words = fate.stderr.strip().splitlines()[-1:]
        last = f"; its last words: {one_line(self._hide(words[0]), 160)}" if words and words[0].strip() else ""
        return ServerFault(f"{reason}{last}", fault.remedy or fate.remedy)

    def _note_unplaced(self, tool: str, what: str) -> None:
        name = one_line(self._hide(tool), 60)
        why = "its value has no room; Runtime.artifacts.get() has them"
        warning = f"the tool {name!r} sent artifacts for which {why}: {what}"
        logger.info("MCP server %r: %s", self.config.name, self._hide(warning))
        if tool in self._unplaced or len(self._unplaced) < MAX_UNPLACED:
            self._unplaced[tool] = self._hide(warning)

    def _hide(self, text: str) -> str:
        return self.config.secrets.hide(text)


def _fault_in(error: BaseException) -> ServerFault:
    """The `ServerFault` in an error, or one that names the first exception."""
    faults = error.subgroup(ServerFault) if isinstance(error, BaseExceptionGroup) else None
    first: BaseException = faults or error
    while isinstance(first, BaseExceptionGroup):
        first = first.exceptions[0]
    if isinstance(first, ServerFault):
        return first
    logger.debug("the connection to an MCP server failed", exc_info=error)
    return ServerFault(f"the connection failed: {type(first).__name__}")
