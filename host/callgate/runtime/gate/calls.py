"""One tool call: the record that everyone reads, and the call under way, which the gate alone has. Decides nothing."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from callgate.tools import Retry, Tool
from callgate.tools.turns import Work, at_once

__all__ = ["CallRecord", "CallStatus", "CallUnderWay", "weighing", "weight"]

CallStatus = Literal[
    "pending",
    "succeeded",
    "failed",
    "timed_out",
    "denied",
    "cancelled",
    "refused",
    "unknown_outcome",
]
"""pending: still going on. failed: the tool was called and did not give a result. denied: a person said no. refused:
unknown or forbidden tool, wrong arguments, nobody to approve. cancelled: given up before it had begun, or it only
reads. unknown_outcome: timed out or cancelled while it was under way, and it may have done its work all the same."""


@dataclass(slots=True)
class CallRecord:
    """One tool call, as the gate saw it. The gate fills it in while the call goes on; everyone else only reads."""

    id: int
    """1 for the run's first call, and so on."""
    tool: str
    """The name that was asked for, cut after 256 characters."""
    arguments: Any
    """As given (JSON). Beyond 64 MiB in one run the arguments of further calls are replaced by a text that says so."""
    caller: str
    """``direct``, ``code`` or ``plan``."""
    started_seconds: float
    """Seconds from the start of the run."""
    status: CallStatus = "pending"
    duration_seconds: float = 0.0
    """From the request to the answer: approval, queueing and retries included, a fallback not."""
    attempts: int = 0
    """How often the tool was called for this record; 0 when the call was refused or the result was there already."""
    timeouts: int = 0
    """Of `attempts`, those that ran out of time."""
    cached: bool = False
    """The result came from the cache, or from an identical call that was going on."""
    error: str | None = None
    """What the caller was told, when the call did not succeed."""
    fallback: str | None = None
    """The tool whose result was given instead; that call has a record of its own."""
    fallback_call: int | None = None
    """The id of the call that was made instead, whether or not it succeeded."""
    queued_seconds: float = 0.0
    """Of `duration_seconds`, waiting for a place among `max_concurrent_calls`."""
    changed_arguments: dict[str, Any] | None = None
    """What the approval put in place of `arguments`."""


@dataclass(slots=True, eq=False)
class CallUnderWay:
    """A call on its way through the gate: what was asked for, and then what its steps have made of it."""

    name: str
    arguments: Mapping[str, Any]
    timeout_seconds: float | None = None
    """The call's own; None for the tool's, or the run's."""
    retry: Retry | None = None
    fallback: str | None = None
    tried: tuple[str, ...] = ()
    """The tools that failed, where this call is a fallback."""
    failure: CallStatus = "refused"
    """The status that an error would give it now."""
    size: int = 0
    """Memory of the arguments, in bytes, as far as it has been counted."""
    record: CallRecord = field(init=False)
    tool: Tool = field(init=False)
    given: dict[str, Any] = field(init=False)
    """The arguments as they were validated: the caller's, or those of the approval."""
    validated: dict[str, Any] = field(init=False)
    """What the tool is called with; it may change this copy."""
    shown: dict[str, Any] | None = None
    """A copy of large arguments for the one who approves the call."""
    key: str = ""
    """The cache key of the call, where its result is kept."""


_VALUES_A_TURN = 20_000
_FLAT = frozenset({str, int, float, bool, type(None)})


def weight(value: Any, enough: int) -> int:
    """About how many bytes of memory a JSON value takes; stops counting when it is more than enough."""
    if type(value) in _FLAT:
        return sys.getsizeof(value)
    if type(value) is dict and len(value) < 32 and _FLAT.issuperset(map(type, value.values())):  # most calls' arguments
        return sys.getsizeof(value) + sum(map(sys.getsizeof, value)) + sum(map(sys.getsizeof, value.values()))
    return at_once(weighing(value, enough))


def weighing(value: Any, enough: int) -> Work[int]:
    """The same, in turns where there are many values.

    Memory and not characters: one emoji makes every character of its text four bytes. A key that several objects share
    is counted once, since JSON is read that way.
    """
    total = seen = 0
    keys: set[int] = set()
    levels: list[Iterator[Any]] = [iter((value,))]
    while levels and total <= enough:
        for item in levels[-1]:
            seen += 1
            if seen % _VALUES_A_TURN == 0:
                yield
            total += sys.getsizeof(item)
            if isinstance(item, dict):
                levels.append(_inside(item, keys))
                break
            if isinstance(item, (list, tuple)):
                levels.append(iter(item))
                break
            if total > enough:
                break
        else:
            levels.pop()
    return total


def _inside(value: dict[Any, Any], keys: set[int]) -> Iterator[Any]:
    """The values, and the keys that were not met before."""
    for key, below in value.items():
        if id(key) not in keys:
            keys.add(id(key))
            yield key
        yield below
