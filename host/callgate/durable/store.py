"""What a store of runs keeps, and what it does. Knows no database, no sandbox and no tool.

Rules for every store:

1. **One owner writes.** A process takes a run and gets a `Held` with an epoch. `write` refuses a `Held` whose run was
   taken by another since: it raises `OwnershipLost`, and nothing of it is stored.
2. **Order.** What is given to `write` is stored in the order in which it was given, and what is stored is always a
   beginning of that: never a later change without an earlier one.
3. **Durable.** A `Written` that was awaited survives the end of the process and of the machine.
4. **People decide beside the owner.** `decide`, `settle` and `cancel` need no `Held`. Each holds once: of two at the
   same time one is stored, and the other one raises `AlreadyDecided` with what was stored. The owner hears of it from
   `decided`, and a run that sleeps becomes `due`; nothing is missed between the two. The owner's `expire` is one of
   these decisions, too.

All times are seconds since 1970, as the caller's clock says them. No rule depends on clocks: they may jump.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, Protocol

__all__ = [
    "ENDED",
    "LEASE_SECONDS",
    "MAX_STORED_BYTES",
    "Approval",
    "CallKey",
    "CallStatus",
    "Change",
    "Consumed",
    "Decision",
    "Held",
    "Kept",
    "Kind",
    "RunHistory",
    "RunStatus",
    "StateChange",
    "Store",
    "StoredCall",
    "StoredRun",
]  # fmt: skip

Kind = Literal["code", "plan"]
RunStatus = Literal["running", "waiting", "needs_attention", "succeeded", "failed", "cancelled"]
"""``running``: an owner is at it, or has to take it up again. ``waiting``: for approvals or a time. The last three are
final."""
ENDED: Final = ("succeeded", "failed", "cancelled")
CallStatus = Literal["started", "done", "failed", "unknown", "waiting"]

LEASE_SECONDS: Final = 30.0
"""An owner that nobody can ask whether it lives loses its runs when it has renewed nothing for that long."""
MAX_STORED_BYTES: Final = 16 * 1024 * 1024
"""UTF-8 bytes of one text that is stored. Larger values belong into artifacts."""


class CallKey(NamedTuple):
    """Names a call within its run, also when the run is run again."""

    digest: bytes
    """Of the tool's name, the canonical JSON of the arguments and, in a plan, the step's place. 32 bytes."""
    occurrence: int
    """How many calls with this digest the run had made before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRun:
    """One run."""

    id: str
    """Cannot be guessed."""
    key: str | None = None
    """The caller's own name of the run; at most one run has it."""
    belongs_to: str = ""
    """The conversation or client that may see the run; empty for the operator alone."""
    kind: Kind
    text: str
    """The program, or the plan as JSON."""
    options: str
    """JSON: inputs, limits, tools and whatever else is needed to run it again."""
    environment: str
    """JSON: versions of Python, packages and time zone data, and the processor."""
    seed: bytes
    created: float
    changed: float
    status: RunStatus = "running"
    reason: str | None = None
    """Why it waits, needs attention or failed, for people."""
    wake_at: float | None = None
    """When a run that waits or needs attention goes on by itself; None if only people can say so."""
    cancelled: bool = False
    """Somebody wants it to end."""
    result: str | None = None
    """JSON, of a run that has ended."""
    epoch: int = 0
    owner: str | None = None
    lease_until: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredCall:
    """One call of a run, as a change: it replaces what was stored of the call."""

    key: CallKey
    number: int | None = None
    """The guest's number of the call, from 1 in the order in which the program made them; None outside of a guest."""
    tool: str
    arguments: str
    """JSON."""
    status: CallStatus
    outcome: str | None = None
    """JSON: the result of a call that is ``done``, the error object of one that ``failed``."""
    idempotency_key: str
    record: str
    """JSON: more of its `CallRecord`, for the result of the run."""


@dataclass(frozen=True, slots=True)
class Consumed:
    """An event that the program received, or the walk or the plan used: the next one of the run."""

    number: int
    """From 1, without gaps."""
    time: float
    call: CallKey | None
    """None for a timer."""


@dataclass(frozen=True, slots=True)
class StateChange:
    """The run's state."""

    status: RunStatus
    reason: str | None = None
    wake_at: float | None = None
    result: str | None = None
    released: bool = False
    """Whether the owner gives the run up."""
    forgets_events: bool = False
    """Whether the events are deleted, since the run begins anew in a guest; its calls stay."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What a person said to an approval."""

    granted: bool
    by: str
    """As the caller says; nobody has checked it."""
    arguments: str | None = None
    """JSON, instead of the call's own."""
    reason: str | None = None
    time: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Approval:
    """A question about one call, as a change: it replaces what was asked about the call before, with its decision."""

    run: str
    call: CallKey
    tool: str
    arguments: str
    """JSON, as the program gave them."""
    schema_digest: bytes
    """Of the tool's input schema and description, when it was asked."""
    asked: float
    expires: float
    decision: Decision | None = None


Change = StoredCall | Consumed | StateChange | Approval


@dataclass(frozen=True, slots=True)
class Held:
    """A run that this process owns, until its lease ends or another process takes the run."""

    run: str
    epoch: int


@dataclass(frozen=True, slots=True)
class RunHistory:
    """Everything that is kept of one run."""

    run: StoredRun
    calls: tuple[StoredCall, ...]
    """In the order in which they were first stored."""
    events: tuple[Consumed, ...]
    approvals: tuple[Approval, ...]


@dataclass(frozen=True, slots=True)
class Kept:
    """Outcome of `Store.add`."""

    run: StoredRun
    is_new: bool
    held: Held | None = None
    """Of a new run that was added with `takes`."""


class Store(Protocol):
    """Keeps runs. Every method may raise `StoreFailed`; those that name a run raise `RunNotFound`. Those that store
    raise `LimitReached` for a text of more than `MAX_STORED_BYTES`, and store nothing then."""

    digest_key: bytes
    """The key of `call_digest` for the calls of this store; empty where nothing is encrypted."""

    def opened(self) -> AbstractAsyncContextManager[None]:
        """Open the store for as long as the context lasts; leaving it waits until everything is stored."""

    async def add(self, run: StoredRun, *, takes: bool = False) -> Kept:
        """Store a new run; if there is one with its `key` and `belongs_to`, return that one instead. With `takes`, a
        new run is taken at once, before another process can."""

    async def take(self, run: str, *, lease_seconds: float = LEASE_SECONDS) -> Held | None:
        """Become the owner, and the run's status ``running``; None if a living owner has it, or the run has ended. The
        store renews the lease until the run is released. A process on this machine that has died does not live,
        whatever its lease says. A process of another machine does until it has renewed nothing for `lease_seconds`."""

    def write(self, held: Held, *changes: Change) -> Awaitable[None]:
        """Store changes, all or none. They take their place in the order at once, before anything is awaited; who
        needs them to be durable awaits the result, and nobody has to. After a failure, all later changes of this
        `Held` fail as well. A run that was released, or has ended, is no longer held: that is stored last.

        Raises (when awaited):
            OwnershipLost: the run is not held any more.
            StoreFailed: these changes, or earlier ones, could not be stored.
        """

    async def expire(self, held: Held, call: CallKey, decision: Decision) -> Approval:
        """Store that nobody has answered an approval in time; `decision` says so. It takes its place in the order of
        `write`. If somebody has decided before, in whichever process, nothing is stored.

        Returns:
            The approval with the decision that holds: `decision`, or the earlier one.

        Raises:
            OwnershipLost: the run is not held any more.
            StoreFailed: this change, or an earlier one, could not be stored.
        """

    async def load(self, run: str) -> RunHistory: ...

    async def find(self, run: str) -> StoredRun:
        """The run alone; without its calls."""

    async def find_key(self, key: str, belongs_to: str = "") -> StoredRun | None: ...

    async def list(
        self,
        *,
        status: RunStatus | None = None,
        belongs_to: str | None = None,
        most: int = 100,
        before: str | None = None,
    ) -> Sequence[StoredRun]:
        """Runs, the newest first; `before` is the id of the last run of the page before. `text`, `options` and
        `result` are empty: `find` has them."""

    async def count(self, *, status: RunStatus | None = None, belongs_to: str | None = None) -> int:
        """Number of runs that `list` would return on all its pages."""

    async def pending(self, *, belongs_to: str | None = None, most: int = 100) -> Sequence[Approval]:
        """Approvals that nobody has decided and that have not expired, the oldest first."""

    async def due(self, now: float, *, most: int = 100) -> Sequence[str]:
        """Runs to be taken up: those that run without a living owner, and those that sleep and whose `wake_at` has
        come, or of whose approvals one was decided since, or that somebody wants to end. `most` is not bounded."""

    async def decided(self) -> Sequence[str]:
        """Runs that this store holds and about which somebody decided, settled a call, or wishes an end since this was
        asked last, in whichever process. Cheap: to be asked each second."""

    async def decide(self, run: str, call: CallKey, decision: Decision) -> Approval:
        """Raises `AlreadyDecided`, also for an approval that has expired by `decision.time`."""

    async def settle(self, run: str, call: StoredCall) -> None:
        """Replace a call whose status is ``unknown``, and let the run go on. Raises `AlreadyDecided`."""

    async def cancel(self, run: str) -> None:
        """Say that the run is to end; its owner ends it. Raises `AlreadyDecided`, also for a run that has ended."""

    async def prune(self, *, ended_before: float) -> int:
        """Delete the runs that ended before then. Returns how many."""
