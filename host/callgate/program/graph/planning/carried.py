"""What one round of a loop leaves to the next: the variables that any round may find."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from callgate.program.graph.flow import Assign, Augment, CallTool, Change, For, If, Item, Operation, Site, operations_of

from .gathered import added_to
from .mentions import read, stored
from .sharing import Shares, Tokens, both
from .symbols import Symbol, unknown

__all__ = ["Loop", "after_a_round", "at_the_start", "left_by"]

_HINT = "collect what the rounds give in a list, [... for ...], and use that"
_ROUNDS_APART = 3
"""After so many, what changes from round to round counts as sharing everything with everything."""


@dataclass(slots=True, eq=False)
class Loop:
    """What stands in a loop: found once, however often it is followed."""

    operations: list[Operation]
    sites: list[Site]
    mentions: Counter[str]
    """How often the body has to do with a variable or a slot."""
    stored: frozenset[str]
    """Variables and slots that it gives another value."""
    first: frozenset[str]
    """Those of them that each round gives a value before it reads them: what was in them is gone."""
    is_quiet: bool
    """No round changes an object but by adding to what is gathered, and there is no loop in it."""

    @classmethod
    def of(cls, operation: For) -> Loop:
        """Of this loop."""
        operations = list(operations_of(operation.body))
        mentions: Counter[str] = Counter()
        for each in operations:
            mentions.update(read(each))
            mentions.update(stored(each))
        names = {name for each in (operation, *operations) for name in stored(each)}
        sites = [each.site for each in operations if isinstance(each, CallTool)]
        return cls(operations, sites, mentions, frozenset(names), _first(operation), all(map(_is_quiet, operations)))


def _first(operation: For) -> frozenset[str]:
    found, seen = set(stored(operation)), set[str]()
    for each in operation.body:
        if isinstance(each, For | If):
            for inner in (each, *operations_of((each,))):
                seen.update(read(inner))
                seen.update(stored(inner))
        else:
            seen.update(read(each))
            found.update(name for name in stored(each) if name not in seen)
    return frozenset(found)


def _is_quiet(operation: Operation) -> bool:
    if isinstance(operation, For | Augment):
        return False
    changes = isinstance(operation, Change) or (isinstance(operation, Assign) and isinstance(operation.target, Item))
    return not changes or added_to(operation) is not None


def at_the_start(
    operation: For, loop: Loop, before: Mapping[str, Symbol], gathering: Collection[str]
) -> dict[str, Symbol]:
    """What a round finds, as far as the loop's text tells: what it sets or gathers is not known.

    Args:
        operation: the loop.
        loop: what stands in it.
        before: the variables before it.
        gathering: those that each round adds one thing to.
    """
    found = dict(before)
    for name in loop.stored & found.keys():
        found[name] = left_by(operation, name, found[name])
    for name in gathering:
        symbol = found[name]
        why = f"grows in the loop in line {operation.line}"
        found[name] = unknown(name, why, _HINT, symbol.shares, symbol.calls)
    return found


def after_a_round(
    start: Mapping[str, Symbol],
    end: Mapping[str, Symbol],
    line: int,
    harmless: Collection[str],
    tokens: Tokens,
    number: int,
) -> tuple[dict[str, Symbol], bool]:
    """What any round may find, and whether another one has to be followed to know what it does then.

    Args:
        start: what this round found.
        end: what it left.
        line: the loop's.
        harmless: variables for which it makes no difference to a round what they share when it begins.
        tokens: of the program.
        number: of rounds that were followed.
    """
    found, grown = dict(start), []
    again = False
    for name, before in start.items():
        after = end[name]
        if after is before:
            continue
        calls = before.calls | after.calls
        shares = both(before.shares, after.shares)
        same = before.node is None or after.node is before.node
        if shares is not before.shares:
            own, parts = shares.own & ~before.shares.own, shares.parts & ~before.shares.parts
            shares = Shares(shares.own | tokens.with_older(own), shares.parts | tokens.with_older(parts))
        elif same and calls == before.calls:
            continue
        if same:
            lost = before
        elif after.node is None:
            lost = after
        else:
            lost = unknown(name, f"has another value in each round of the loop in line {line}", _HINT)
        found[name] = lost.sharing(shares, calls)
        if not same or name not in harmless:
            again = True
            grown.append(name)
    if number >= _ROUNDS_APART:
        _mix(found, grown)
    return found, again


def _mix(found: dict[str, Symbol], names: Collection[str]) -> None:
    own = parts = 0
    for name in names:
        own |= found[name].shares.own
        parts |= found[name].shares.parts
    for name in names:
        symbol = found[name]
        found[name] = symbol.sharing(Shares(own, own | parts), symbol.calls)


def left_by(operation: For, name: str, symbol: Symbol) -> Symbol:
    """A variable that the loop sets, where nobody knows in which round."""
    why = f"has another value in each round of the loop in line {operation.line}"
    return unknown(name, why, _HINT, symbol.shares, symbol.calls)
