"""Calls that were made before, and whose outcomes answer the same calls when a program makes them again.

1. A call is found again by its tool and its arguments. Each outcome answers once, in the order in which the calls were
   made.
2. Two programs are answered so: one that began on the fast path and begins anew in the sandbox (`Journal`), and one
   that corrects a program which failed (`Repair`). The rules below are those of a repair.
3. A call that succeeded, by itself or by its fallback, has its result. One that failed, or was not made, is made anew.
4. A call with effects whose outcome is not known, or whose result was not kept, is not made again: it raises
   `UnknownOutcome`, once for each time that it was made. A program that catches the error can make the call.
5. A read answers for a limited time, and for as long as nothing that it would show has changed: until the program makes
   a new call with effects, and until it comes to one of the earlier ones that began after the read. Else it is made
   anew; so is a read whose artifacts are gone.
6. The gate checks a call before it gives it an earlier outcome, as if the call were made: see `RunGate`.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from callgate.artifacts import HANDLE, Shelf
from callgate.errors import ToolError, UnknownOutcome
from callgate.tools import Tool
from callgate.tools.encoding import NotJson, canonical_json
from callgate_guest.wire import FINAL_ANSWER

from .records import CallRecord

if TYPE_CHECKING:
    from .records import CallUnderWay

__all__ = ["Answered", "EarlierOutcome", "ForRepair", "Occurrences", "Outcome", "Repair"]

T = TypeVar("T")

_NOT_KNOWN: Final = b""
"""Instead of the digest of arguments that were not kept: any arguments may be the same."""


def digest(arguments: Any) -> bytes:
    """Hash arguments, to compare them without keeping them. Raises `NotJson`."""
    return hashlib.blake2b(canonical_json(arguments).encode("utf-8", "surrogatepass"), digest_size=32).digest()


class Occurrences(Generic[T]):
    """Something for each time that a call was made, in that order."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, bytes], deque[T]] = {}

    def __bool__(self) -> bool:
        return any(self._kept.values())

    def __iter__(self) -> Iterator[T]:
        return (each for kept in self._kept.values() for each in kept)

    def add(self, tool: str, arguments: bytes, each: T, *, first: bool = False) -> None:
        """Add one, after the others of the same call, or before them; `arguments` is their digest."""
        kept = self._kept.setdefault((tool, arguments), deque())
        (kept.appendleft if first else kept.append)(each)

    def of(self, tool: str, arguments: Any) -> deque[T]:
        """Those that are left for a call; the caller takes from the left."""
        if not self._kept:
            return deque()
        try:
            known = self._kept.get((tool, digest(arguments)))
        except NotJson:
            return deque()
        return known or self._kept.get((tool, _NOT_KNOWN)) or deque()

    def drop(self, unwanted: Callable[[T], bool]) -> None:
        """Forget some."""
        for key, kept in list(self._kept.items()):
            self._kept[key] = deque(each for each in kept if not unwanted(each))
            if not self._kept[key]:
                del self._kept[key]


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """The outcome of one call of an earlier program."""

    record: CallRecord
    arguments: bytes
    """Their digest."""
    text: str | None
    """The result as JSON text; None if it is not known, or was not kept."""
    began: float
    """When the call was made and when it had ended, in seconds of the host's clock."""
    ended: float

    @property
    def is_approved(self) -> bool:
        """Whether somebody approved that very call."""
        return self.record.approval in ("granted", "changed")

    def error(self) -> UnknownOutcome:
        """Why a call without a text is not made again."""
        tool = self.record.tool
        known = self.record.status == "succeeded"
        why = "succeeded, but its result was not kept" if known else "may have happened: its outcome is unknown"
        return UnknownOutcome(
            f"the call of {tool!r} that an earlier program made {why}. It was not made again. Find out what became of "
            "it; to make it all the same, catch this error and call the tool again",
            tool=tool,
        )


EarlierOutcome = str | ToolError | Callable[[], Awaitable[str | None]]
"""Of a call that this run has made: its result or its error; or, while it is under way, a function that waits for its
result, which is None if the call has to be made anew."""
Answered = Callable[["CallUnderWay", Tool | None], EarlierOutcome | None]
"""The outcome of an earlier call of this run that stands for this call of this tool; None if there is none. Returns
each outcome once."""


@dataclass(frozen=True, slots=True)
class ForRepair:
    """What a program that corrects this one needs beside the records of its calls."""

    began: float = 0.0
    """When the run began, in seconds of the host's clock."""
    texts: Mapping[int, str] = field(default_factory=dict)
    """Whole results that records have not, by the records' ids."""
    reused: Mapping[int, Outcome] = field(default_factory=dict)
    """Outcomes of earlier calls that stood for calls of this run, by the ids of their records."""
    left: tuple[Outcome, ...] = ()
    """Outcomes of earlier calls that this run did not make again."""
    has_effects: bool = False
    """Whether calls with effects are among these, or, if the run failed, among its own."""

    def outcomes(self, calls: Iterable[CallRecord]) -> Iterator[Outcome]:
        """The outcomes that may stand for calls of the next program, in order."""
        by_id = {record.id: record for record in calls}
        fallbacks = {record.fallback_call for record in by_id.values()}
        for record in by_id.values():
            if (reused := self.reused.get(record.id)) is not None:
                yield reused
            elif record.tool != FINAL_ANSWER and record.id not in fallbacks:
                chain = [record]
                while (last := by_id.get(chain[-1].fallback_call or 0)) is not None:
                    chain.append(last)
                last, status = chain[-1], {each.status for each in chain}
                if last.status == "succeeded" or not status.isdisjoint(("unknown_outcome", "pending")):
                    began = self.began + record.started_seconds
                    ended = self.began + last.started_seconds + last.duration_seconds
                    arguments = _digest_of(record)
                    text = None if arguments is _NOT_KNOWN else self._text_of(last)
                    yield Outcome(record, arguments, text, began, ended)
        yield from self.left

    def _text_of(self, record: CallRecord) -> str | None:
        if record.status != "succeeded":
            return None
        kept = record.result
        is_whole = kept is not None and len(kept.encode("utf-8", "surrogatepass")) == record.result_bytes
        return kept if is_whole else self.texts.get(record.id)


def _digest_of(record: CallRecord) -> bytes:
    try:
        return digest(record.arguments) if isinstance(record.arguments, Mapping) else _NOT_KNOWN
    except NotJson:
        return _NOT_KNOWN


class Repair:
    """Answers calls of one run with the outcomes of earlier calls; see the rules above.

    Args:
        outcomes: of the earlier calls, in order.
        max_age_seconds: of a read.
        now: the host's clock.
        shelf: has the artifacts that this run may use.
        only_reads: whether the tool of that name is read-only.
    """

    def __init__(
        self,
        outcomes: Iterable[Outcome],
        max_age_seconds: float,
        now: Callable[[], float],
        shelf: Shelf,
        only_reads: Callable[[str], bool],
    ) -> None:
        self._max_age_seconds = max_age_seconds
        self._now = now
        self._shelf = shelf
        self._reads, self._effects = Occurrences[Outcome](), Occurrences[Outcome]()
        self._only_reads = only_reads
        for each in outcomes:
            self._add(each)

    @property
    def left(self) -> tuple[Outcome, ...]:
        """The outcomes that have not stood for any call yet."""
        return *self._effects, *self._reads

    @property
    def has_effects(self) -> bool:
        """Whether calls with effects are left."""
        return bool(self._effects)

    def may_answer(self, tool: str, arguments: Any) -> bool:
        """Whether a read may have an earlier outcome, so that the program's own order decides which."""
        return bool(self._reads.of(tool, arguments))

    def answered(self, call: CallUnderWay, tool: Tool | None) -> Outcome | None:
        """The outcome that stands for this call of this tool; None if there is none. Returns each outcome once."""
        if tool is None:
            return None
        if tool.read_only:
            known = self._reads.of(call.name, call.arguments)
            while known:
                if self._is_fresh(found := known.popleft()):
                    return found
            return None
        known = self._effects.of(call.name, call.arguments)
        found_effect = known.popleft() if known else None
        if found_effect is not None and found_effect.text is None and tool.repeatable:
            found_effect = None
        changed = self._now() if found_effect is None else found_effect.began
        self._reads.drop(lambda read: read.ended <= changed)
        return found_effect

    def give_back(self, outcome: Outcome) -> None:
        """Keep an outcome for the next call: the call that it stood for came to no end."""
        self._add(outcome, first=True)

    def _add(self, outcome: Outcome, *, first: bool = False) -> None:
        kept = self._reads if self._only_reads(outcome.record.tool) else self._effects
        kept.add(outcome.record.tool, outcome.arguments, outcome, first=first)

    def _is_fresh(self, read: Outcome) -> bool:
        if read.text is None or self._now() - read.began > self._max_age_seconds:
            return False
        return all(self._shelf.get(handle) is not None for handle in HANDLE.findall(read.text))
