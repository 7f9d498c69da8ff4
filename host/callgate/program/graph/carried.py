"""What one round of a loop leaves to the next: the variables that any round may find."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from .flow import For, operations_of
from .mentions import stored
from .sharing import both
from .symbols import Symbol, unknown

__all__ = ["after_a_round", "at_the_start", "left_by"]

_HINT = "collect what the rounds give in a list, [... for ...], and use that"


def at_the_start(operation: For, before: Mapping[str, Symbol], gathering: Collection[str]) -> dict[str, Symbol]:
    """What a round finds, as far as the loop's text tells: what it sets or gathers is not known.

    Args:
        operation: the loop.
        before: the variables before it.
        gathering: those that each round adds one thing to.
    """
    found = dict(before)
    names = {name for each in operations_of(operation.body) for name in stored(each)} | set(stored(operation))
    for name in names & found.keys():
        found[name] = left_by(operation, name, found[name])
    for name in gathering:
        symbol = found[name]
        lost = unknown(name, f"grows in the loop in line {operation.line}", _HINT, symbol.shares)
        found[name] = replace(lost, calls=symbol.calls)
    return found


def after_a_round(start: Mapping[str, Symbol], end: Mapping[str, Symbol], line: int) -> dict[str, Symbol] | None:
    """What another round may find; None where that is what this round found."""
    found = dict(start)
    for name, before in start.items():
        after = end[name]
        shares, calls = both(before.shares, after.shares), before.calls | after.calls
        same = before.node is None or after.node is before.node
        if same and shares is before.shares and calls == before.calls:
            continue
        if same:
            lost = before
        elif after.node is None:
            lost = after
        else:
            lost = unknown(name, f"has another value in each round of the loop in line {line}", _HINT)
        found[name] = replace(lost, shares=shares, calls=calls)
    return None if all(found[name] is start[name] for name in start) else found


def left_by(operation: For, name: str, symbol: Symbol) -> Symbol:
    """A variable that the loop sets, where nobody knows in which round."""
    why = f"has another value in each round of the loop in line {operation.line}"
    return replace(unknown(name, why, _HINT, symbol.shares), calls=symbol.calls)
