"""What a call tells its tool about itself, and what the gate asks the journal of a durable run. Stores nothing."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from callgate.artifacts import keeper_of_call
from callgate.errors import ConfigurationError, ToolError

from .approval import Allow, Deny
from .records import CallRecord, CallUnderWay

if TYPE_CHECKING:
    from callgate.durable.store import CallKey

__all__ = ["CallJournal", "CurrentCall", "KeptCall", "NamesCalls", "Rests", "current_call"]


class Rests(Protocol):
    """Carries the calls of a run."""

    def rests(self, parked: int) -> bool:
        """Whether nothing goes on but this number of calls, which wait in the journal."""


class CallJournal(Protocol):
    """Keeps the calls of one durable run, and the order in which a plan or a walk uses their outcomes."""

    run_id: str
    drive: Rests | None
    """Carries the calls; set by what carries them."""

    @property
    def is_live(self) -> bool:
        """Whether every outcome that was used before the run was continued has been used again."""

    def key_of(self, tool: str, arguments: Any, place: str = "") -> CallKey:
        """Name the next call of this tool with these arguments; each name is given once.

        Args:
            tool: its own name.
            arguments: in the tool's own names.
            place: in the plan.
        """

    def consumed(self, key: CallKey) -> None:
        """The plan or the walk uses the outcome of this call now."""

    def adopt(self, key: CallKey, records: list[CallRecord], outcome: str | ToolError) -> None:
        """Keep the outcome of a read that began before the program came to it."""

    async def started(self, call: CallUnderWay) -> None:
        """Keep that the tool of this call, which has effects, is called next. Return when a crash can lose neither that
        nor anything that the call may depend on."""

    async def ask(self, call: CallUnderWay, arguments: dict[str, Any]) -> Allow | Deny:
        """The answer of a person to the question whether the call may be made; the run may sleep meanwhile.

        Args:
            call: its tool requires approval.
            arguments: a copy, already validated.
        """


class NamesCalls(Protocol):
    """The gate of a durable run, for the plan or the walk that makes its calls."""

    def key_of(self, name: str, arguments: Any) -> CallKey:
        """Name the next call of this tool with these arguments in the journal; each name is given once.

        Args:
            name: the tool's name, in any way that `Registry.resolve` knows.
            arguments: as the program writes them.
        """

    def consumed(self, record: int) -> None:
        """The outcome of the call with this index of its record is used now."""


@dataclass(slots=True, eq=False)
class KeptCall:
    """What a journal has of a call that is under way."""

    journal: CallJournal
    key: CallKey | None = None
    """Its name in the journal; the gate asks for it, unless the walk has."""
    number: int | None = None
    """The guest's number of the call."""
    written: tuple[str, Any] | None = None
    """Tool and arguments as the guest wrote them."""
    place: str = ""
    """The place of a plan's call in the plan."""


@dataclass(frozen=True, slots=True)
class CurrentCall:
    """The call that a tool's function is carrying out."""

    tool: str
    idempotency_key: str
    """The same for each attempt of this call, also when a durable run repeats it after a crash; no other call has it.
    Pass it to a service that does nothing twice for one key."""
    run_id: str | None
    """Of the durable run; None in any other run."""


def current_call() -> CurrentCall:
    """The call that this function carries out, for async tools and for those in threads.

    Raises:
        ConfigurationError: no tool is being called here.
    """
    call = keeper_of_call.get()
    if not isinstance(call, CallUnderWay) or not call.record.attempts:
        raise ConfigurationError("current_call() is for a tool's function, while callgate calls it")
    if call.idempotency_key is None:
        call.idempotency_key = f"call_{secrets.token_hex(16)}"
    return CurrentCall(call.name, call.idempotency_key, None if call.kept is None else call.kept.journal.run_id)
