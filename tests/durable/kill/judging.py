"""Holds what a run says against the ledger, and against a run that nobody killed. Starts nothing.

A fault is a sentence. The rules, all of them for every run:

1. It ends as the run that nobody killed: its status, its facts but for `JOINS`, its prints, its calls that succeeded.
2. Every fact is in the ledger: a call of that tool, with those arguments, gave that ticket. No ticket stands twice.
3. Every call with effects that is in the ledger is among the facts, once. A call that may be repeated is there once,
   and any other line under its key stems from another process, which was killed.
4. No call is made again whose outcome was kept at an earlier kill.
5. ``close`` was called once, with the tickets of the facts in their order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

from durable.kill.world import EFFECTS, IDEMPOTENT, Entry

__all__ = ["JOINS", "Kept", "Told", "faults"]

JOINS = ("seen", "position")
"""Arguments that join a call to another one."""
MADE_IN_DOUBT = {"was_charged", "was_closed"}
"""Tools that a program calls only when it does not know what happened."""
FAILS = {"break_"}
"""Tools that act and fail: no fact stems from them."""
TWICE = {"push"}
"""Tools that act twice in one process, by their own retry."""


@dataclass(frozen=True)
class Told:
    """What a process says of a run that has ended."""

    ok: bool
    error: str | None
    facts: list[tuple[str, dict[str, Any], str]]
    """In order: the tool, the arguments that were given, the ticket of the answer."""
    logs: str
    calls: list[tuple[str, str]]
    """Tool and status of each call."""

    @classmethod
    def from_json(cls, said: Mapping[str, Any]) -> Told:
        """From what `dataclasses.asdict` made of it, and JSON of that."""
        facts, calls = ([tuple(each) for each in said[name]] for name in ("facts", "calls"))
        return cls(said["ok"], said["error"], facts, said["logs"], calls)


@dataclass(frozen=True)
class Kept:
    """What was kept at a kill."""

    lines: int
    """Lines of the ledger."""
    keys: Set[str]
    """Idempotency keys of the calls that had their outcome."""


def faults(told: Told, expected: Told, ledger: Sequence[Entry], kept: Sequence[Kept]) -> list[str]:
    """Everything that is wrong with a run.

    Args:
        told: what the run says.
        expected: what the run that nobody killed says.
        ledger: what happened.
        kept: what was kept at each kill.
    """
    if other_end := _ends_otherwise(told, expected):
        return [other_end]
    return [
        *_says_something_else(told, expected),
        *_facts_that_are_none(told, ledger),
        *_effects(told, ledger, 1 + len(kept)),
        *_made_again(ledger, kept),
        *_closing(told, ledger),
    ]


def _ends_otherwise(told: Told, expected: Told) -> str | None:
    ends, wanted = ((each.ok, each.error and each.error.split(":")[0]) for each in (told, expected))
    if ends == wanted:
        return None
    return f"it ends with ok={told.ok}, {told.error!r} instead of ok={expected.ok}, {expected.error!r}"


def _says_something_else(told: Told, expected: Told) -> Iterator[str]:
    yield from _different("facts", map(_stable, told.facts), map(_stable, expected.facts))
    yield from _different("prints", told.logs.splitlines(), expected.logs.splitlines())
    doubt = {"charge", "close", *MADE_IN_DOUBT} if any(tool in MADE_IN_DOUBT for tool, _ in told.calls) else set()
    yield from _different("calls that succeeded", _succeeded(told, doubt), _succeeded(expected, doubt))


def _stable(fact: tuple[str, dict[str, Any], str]) -> str:
    return f"{fact[0]} { {name: value for name, value in fact[1].items() if name not in JOINS} }"


def _succeeded(told: Told, without: Set[str]) -> list[str]:
    return [tool for tool, status in told.calls if status == "succeeded" and tool not in without]


def _different(what: str, told: Any, expected: Any) -> Iterator[str]:
    found, wanted = Counter(told), Counter(expected)
    for each, count in (found - wanted).items():
        yield f"{what}: {each} stands there {count} times more than in a run without kills"
    for each, count in (wanted - found).items():
        yield f"{what}: {each} stands there {count} times less than in a run without kills"


def _facts_that_are_none(told: Told, ledger: Sequence[Entry]) -> Iterator[str]:
    by_ticket = {entry.ticket: entry for entry in ledger}
    for ticket, count in Counter(fact[2] for fact in told.facts).items():
        if count > 1:
            yield f"{count} facts have the ticket {ticket}: one answer was handled twice"
    for tool, arguments, ticket in told.facts:
        entry = by_ticket.get(ticket)
        if entry is None:
            yield f"the program was told that {tool}({arguments}) gave {ticket}, and nothing of the kind happened"
        elif entry.tool != tool or any(entry.arguments[name] != value for name, value in arguments.items()):
            yield f"the program took {ticket} for {tool}({arguments}); it was {entry.tool}({entry.arguments})"


def _effects(told: Told, ledger: Sequence[Entry], lives: int) -> Iterator[str]:
    known = {fact[2] for fact in told.facts}
    for entry in ledger:
        if entry.tool in EFFECTS - FAILS - {"close"} and entry.ticket not in known:
            yield f"{entry.tool}({entry.arguments}) happened, and the program does not know of it"
    lines: dict[str, list[Entry]] = {}
    for entry in ledger:
        lines.setdefault(entry.key, []).append(entry)
    for key, made in lines.items():
        first = made[0]
        what = f"{first.tool}({first.arguments})"
        if any((entry.tool, entry.arguments) != (first.tool, first.arguments) for entry in made):
            yield f"different calls have the key {key}, {what} among them"
        if first.tool in EFFECTS and len(made) > 1:
            yield f"{what} happened {len(made)} times under one key"
        most = Counter(entry.process for entry in made).most_common(1)[0][1]
        if most > (2 if first.tool in TWICE else 1):
            yield f"{what} was made {most} times in one process"
        if len({entry.process for entry in made}) > lives:
            yield f"{what} was made in more processes than there were"
        if first.tool in IDEMPOTENT and not known & {entry.ticket for entry in made}:
            yield f"{what} happened, and the program does not know of it"


def _made_again(ledger: Sequence[Entry], kept: Sequence[Kept]) -> Iterator[str]:
    for at, each in enumerate(kept, 1):
        for entry in ledger[each.lines :]:
            if entry.key in each.keys:
                yield f"{entry.tool}({entry.arguments}) was made again, though its outcome was kept at kill {at}"


def _closing(told: Told, ledger: Sequence[Entry]) -> Iterator[str]:
    closed = [entry.arguments["tickets"] for entry in ledger if entry.tool == "close"]
    handled = " ".join(fact[2] for fact in told.facts)
    if closed != [handled]:
        yield f"the books were closed on {closed}, and the program handled {handled!r}"
