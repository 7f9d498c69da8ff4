"""What follows runs and calls from outside: spans, metrics, an audit log. The gate tells each watcher what it decides.

1. A runtime without watchers pays for one look at an empty tuple.
2. The gate calls watchers in the call's task, and awaits nothing: they must be quick.
3. A watcher decides nothing, with one exception: `CallWatch.calling` may refuse a call.
4. A watcher that raises anything else has failed: that is logged, once a run, and the run goes on. Where an `essential`
   watcher failed before a call with effects, that call is refused: it would leave no trace.
5. Watchers hear of the end of each call and run that began, also when it is cancelled or its guest is killed.
6. Arguments and results arrive as they are. Who shows them redacts them first: see `callgate.runtime.redaction`.

`RunWatches` and `CallWatches` are what the gate sees: all watchers as one, which does not fail.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Coroutine
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar

from callgate.errors import ToolError, ToolNotAllowed
from callgate.limits import Limits

from .records import CallRecord

if TYPE_CHECKING:
    from callgate.runtime.offer import Offer
    from callgate.runtime.plans.result import PlanResult
    from callgate.runtime.result import CodeResult
    from callgate.tools import Tool

    from .run_gate import RunGate

__all__ = [
    "CallPlace", "CallWatch", "CallWatches", "Origin", "RunStart", "RunWatch", "RunWatches", "Watcher", "origin",
    "place", "watched",
]  # fmt: skip

logger = logging.getLogger("callgate")

T = TypeVar("T")
Kind = Literal["direct", "code", "plan"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Who asked for a run, as far as callgate knows."""

    task: str = ""
    """Id of an agent's task."""
    turn: int = 0
    """The turn of that task; the first is 1."""
    call: str = ""
    """Id that the model gave to its call."""
    client: str = ""
    """The MCP client: its session, and the name that it gives itself."""


origin: ContextVar[Origin | None] = ContextVar("callgate_origin", default=None)
"""Set by the agent and by the MCP server around what they run for a model or a client."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStart:
    """A run that begins."""

    kind: Kind
    """A single call, a program, or a plan."""
    limits: Limits
    offer: Offer
    """The tools that the run may call."""
    source: Any = ""
    """The program's text; the plan as it was given, text or JSON value; for a single call, empty."""
    inputs: str = "{}"
    """A program's inputs as JSON text."""
    origin: Origin | None = field(default_factory=origin.get)
    id: str = field(default_factory=lambda: f"run_{secrets.token_hex(16)}")


@dataclass(frozen=True, slots=True)
class CallPlace:
    """Where in its run a call stands."""

    step: str | None = None
    """Id of the plan's step."""
    item: int | None = None
    """Index of the item of its `for_each`."""
    speculative: bool = False
    """The call begins before the program or the plan has come to it, and may never be used."""


place: ContextVar[CallPlace | None] = ContextVar("callgate_place", default=None)
"""Set for the call that is made next in this context, if the run is watched; the gate takes it away."""


class CallWatch(Protocol):
    """Follows one call."""

    def approved(self, granted: bool, by: str, changed: bool) -> None:
        """A person or a function has answered the question whether the call may be made."""

    def calling(self, tool: Tool, arguments: dict[str, Any]) -> None:
        """The call is allowed, valid and approved, and no cached result answers it: the tool is called next.

        Raises:
            ToolError: the call must not be made.
        """

    def ended(self, tool: Tool | None, text: str | None) -> None:
        """The call has left the gate, and its record is final.

        Args:
            tool: None if this run has no tool of that name.
            text: the result as JSON text; None without one.
        """


class RunWatch(Protocol):
    """Follows one run."""

    def call(self, record: CallRecord) -> CallWatch:
        """A call has arrived; its record says what it asks for, and `place` where it stands."""

    def approved(self, granted: bool, by: str, changed: bool) -> None:
        """A person or a function has answered the question whether the plan may run."""

    def ended(self, result: CodeResult | PlanResult | None, error: BaseException | None) -> None:
        """The run has ended.

        Args:
            result: None for a single call, and for a run that was cancelled or could not begin.
            error: what it raised; a cancellation, for instance.
        """


class Watcher(Protocol):
    """Follows the runs of a runtime."""

    @property
    def essential(self) -> bool:
        """Whether calls with effects are refused where this watcher fails."""

    def run(self, start: RunStart) -> RunWatch:
        """A run begins."""


class RunWatches:
    """All that follow one run; see the rules above.

    Args:
        watchers: of the runtime. They hear of the run with `begin`.
    """

    __slots__ = ("_blind", "_failed", "_watchers", "_watches")

    def __init__(self, watchers: tuple[Watcher, ...]) -> None:
        self._watchers = watchers
        self._watches: list[tuple[RunWatch, bool]] = []
        self._blind = False
        """Whether an essential watcher does not follow the run."""
        self._failed: set[type] = set()

    def begin(self, start: RunStart) -> None:
        """The run begins."""
        for watcher in self._watchers:
            try:
                self._watches.append((watcher.run(start), watcher.essential))
            except Exception:
                self._blind |= watcher.essential
                self.note_failure(watcher)

    def call(self, record: CallRecord) -> CallWatches:
        """A call has arrived."""
        watches: list[tuple[CallWatch, bool]] = []
        blind = self._blind
        for watch, essential in self._watches:
            try:
                watches.append((watch.call(record), essential))
            except Exception:
                blind |= essential
                self.note_failure(watch)
        return CallWatches(self, watches, blind)

    def approved(self, granted: bool, by: str, changed: bool) -> None:
        """The plan was approved or denied."""
        for watch, essential in self._watches:
            try:
                watch.approved(granted, by, changed)
            except Exception:
                self._blind |= essential
                self.note_failure(watch)

    def ended(self, result: CodeResult | PlanResult | None, error: BaseException | None) -> None:
        """The run has ended."""
        for watch, _ in reversed(self._watches):
            try:
                watch.ended(result, error)
            except Exception:
                self.note_failure(watch)

    def note_failure(self, watch: object) -> None:
        """Log the exception that is being handled, if it is the first of this kind of watcher in the run."""
        if type(watch) not in self._failed:
            self._failed.add(type(watch))
            logger.exception("what follows a run from outside failed (%s); the run goes on", type(watch).__qualname__)


class CallWatches:
    """All that follow one call; see the rules above."""

    __slots__ = ("_blind", "_run", "_watches")

    def __init__(self, run: RunWatches, watches: list[tuple[CallWatch, bool]], blind: bool) -> None:
        self._run = run
        self._watches = watches
        self._blind = blind

    def approved(self, granted: bool, by: str, changed: bool) -> None:
        """The call was approved or denied."""
        for watch, essential in self._watches:
            try:
                watch.approved(granted, by, changed)
            except Exception:
                self._blind |= essential
                self._run.note_failure(watch)

    def calling(self, tool: Tool, arguments: dict[str, Any]) -> None:
        """The tool is called next.

        Raises:
            ToolError: a watcher refuses the call, or an essential one has failed and the call has effects.
        """
        self._must_see(tool)
        for watch, essential in self._watches:
            try:
                watch.calling(tool, arguments)
            except ToolError:
                raise
            except Exception:
                self._blind |= essential
                self._run.note_failure(watch)
        self._must_see(tool)

    def _must_see(self, tool: Tool) -> None:
        if self._blind and not tool.read_only:
            raise ToolNotAllowed(
                f"tool {tool.name!r} was not called: the audit log failed, and a call with effects must stand in it. "
                "Tell the operator; tools that only read still work",
                tool=tool.name,
            )

    def ended(self, tool: Tool | None, text: str | None) -> None:
        """The call has left the gate."""
        for watch, _ in reversed(self._watches):
            try:
                watch.ended(tool, text)
            except Exception:
                self._run.note_failure(watch)


async def watched(gate: RunGate, ran: Coroutine[Any, Any, T], kind: Kind, source: Any = "", inputs: str = "{}") -> T:
    """Await a run, and report its begin and its end to the watchers of its runtime.

    Args:
        gate: of the run.
        ran: the run. Watchers receive the result of a program or a plan.
        kind: see `RunStart`, like the other arguments.
    """
    if not gate.gate.watchers:
        return await ran
    watches = RunWatches(gate.gate.watchers)
    try:
        watches.begin(RunStart(kind=kind, limits=gate.limits, offer=gate.offer, source=source, inputs=inputs))
        gate.watches = watches
        result = await ran
    except BaseException as error:
        ran.close()
        watches.ended(None, error)
        raise
    watches.ended(None if kind == "direct" else result, None)  # type: ignore[arg-type]
    return result
