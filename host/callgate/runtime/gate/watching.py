"""What follows runs and calls from outside: spans, metrics, an audit log. The gate tells each watcher what it decides.

1. A runtime without watchers pays for one look at an empty tuple.
2. The gate calls watchers in the call's task, and awaits nothing: they must be quick.
3. A watcher decides nothing, with one exception: `CallWatch.calling` may refuse a call.
4. A watcher that raises anything else has failed: that is logged, once a run, and the run goes on. Where an `essential`
   watcher failed before a call with effects, that call is refused: it would leave no trace.
5. Watchers hear of the end of each call and run that began, also when it is cancelled or its guest is killed.
6. Arguments and results arrive as they are. Who shows them redacts them first: see `callgate.runtime.redaction`.

The gate sees all watchers as one, which does not fail: see `watches`.
"""

from __future__ import annotations

import secrets
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol

from callgate.limits import Limits

from .records import CallRecord

if TYPE_CHECKING:
    from callgate.runtime.offer import Offer
    from callgate.runtime.plans.result import PlanResult
    from callgate.runtime.result import CodeResult
    from callgate.tools import Tool

__all__ = ["CallPlace", "CallWatch", "Kind", "Origin", "RunStart", "RunWatch", "Watcher", "origin", "place"]

Kind = Literal["direct", "code", "plan"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Who asked for a run, as far as callgate knows."""

    task: str = ""
    """Id of an agent's task."""
    outer_task: str = ""
    """Id of the task around it, a call of which started this task."""
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
    """The program's text; the plan as it was given, text or JSON value; for a single call, empty. None while a
    model still writes it: then the result has it, and `origin` the call of the model, when it has ended."""
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
