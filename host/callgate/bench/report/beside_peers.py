"""Callgate's modes beside peers, like beside like: plans beside plans, programs in a sandbox beside such programs.

Of each kind the fastest of callgate's modes is held against the fastest peer, by wall time and by tokens. Turns differ
between peers (a program that says the last words itself ends a turn earlier, one whose tools are searched first begins
some later), so the model's part is in it. What is left without it is said besides.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from callgate.bench.figures import seconds, times
from callgate.bench.report.held import (
    LEAST_COUNTED,
    Held,
    beyond_the_model,
    held,
    held_tokens,
    overhead,
    rounds_told,
    share,
    tokens,
    wall,
)
from callgate.bench.results import Cell, Entry, Round

__all__ = ["KINDS", "BesidePeers", "Pair", "beside_peers", "confinement", "fastest", "kind"]

Pair = tuple[Entry, Cell]

KINDS = ("plans", "programs in a sandbox", "programs without a sandbox", "programs")
"""In this order. ``programs`` are those of results that do not say what confined them."""
_IN_A_SANDBOX = ("kernel", "container", "language")


def kind(entry: Entry) -> str:
    """With whom a contestant is held: one of `KINDS`; empty for direct calls."""
    if entry.mode != "code":
        return "plans" if entry.mode == "plan" else ""
    if not entry.confined:
        return "programs"
    return "programs in a sandbox" if entry.confined in _IN_A_SANDBOX else "programs without a sandbox"


def confinement(entry: Entry) -> str:
    """What confines it, for people."""
    return entry.confined or "unknown"


def fastest(pairs: Sequence[Pair]) -> Pair | None:
    """Of those with a right answer the one with the least wall time, p50; None where there is none."""
    right = [pair for pair in pairs if pair[1].outcome == "right" and pair[1].rounds]
    return min(right, key=lambda pair: _median(pair[1], wall), default=None)


@dataclass(frozen=True, kw_only=True, slots=True)
class BesidePeers:
    """Callgate's fastest mode of a kind, held against the fastest peer of that kind: callgate's over the peer's.

    Attributes:
        kind: one of `KINDS`.
        mode: callgate's; None where none has a right answer.
        peer: the peer; None where none has a right answer.
        mode_missing: callgate's modes of this kind were not measured.
        time: wall time.
        tokens: input and output; None where those of one side were not counted.
        beyond: time for tools and own work.
        own: own work.
        own_seconds: own work of both, p50.
        token_counts: tokens of both, p50.
        turns: of both, p50.
        frugal: another peer of the kind, with fewer tokens than both, and how many.
    """

    kind: str
    mode: Entry | None = None
    peer: Entry | None = None
    mode_missing: bool = False
    time: Held | None = None
    tokens: Held | None = None
    beyond: Held | None = None
    own: Held | None = None
    own_seconds: tuple[float, float] = (0.0, 0.0)
    token_counts: tuple[int, int] = (0, 0)
    turns: tuple[int, int] = (0, 0)
    frugal: tuple[Entry, int] | None = None

    @property
    def text(self) -> str:
        """A sentence without a full stop, which names both sides and what confines them."""
        if self.mode is None:
            ours = "callgate's modes were not measured" if self.mode_missing else "callgate has none"
            peer = f"{self._named(self.peer)} has a right answer" if self.peer else "no peer has a right answer"
            return f"{self.kind}: {peer}, {ours}"
        if self.peer is None:
            return f"{self.kind}: {self._named(self.mode)} has a right answer, no peer has one"
        told = [self._apart(self._named(self.mode), self._named(self.peer)), self._tokens()]
        if self.turns[0] != self.turns[1]:
            told.append(f"{self.turns[0]} {'turn' if self.turns[0] == 1 else 'turns'} beside {self.turns[1]}")
        few = rounds_told(self.time)
        told = [f"{self.kind}{f' ({few})' if few else ''}: {', '.join(told)}", *self._without_the_model()]
        if self.frugal:
            told.append(f"of these peers {self.frugal[0].title} takes the fewest tokens, {self.frugal[1]:,}")
        return "; ".join(told)

    def _named(self, entry: Entry) -> str:
        return entry.title if self.kind in ("plans", "programs") else f"{entry.title} ({entry.confined})"

    def _apart(self, ours: str, theirs: str) -> str:
        if self.time is None or self.time.says == "same":
            return f"no difference in wall time between {ours} and {theirs}"
        if self.time.says == "less":
            return f"{ours} is {times(1 / self.time.ratio)} faster than {theirs}"
        return f"{ours} is {times(self.time.ratio)} slower than {theirs}"

    def _tokens(self) -> str:
        told = share(self.tokens, "tokens")
        if self.tokens is None or self.token_counts[0] == self.token_counts[1]:
            return told
        return f"{told} ({self.token_counts[0]:,} beside {self.token_counts[1]:,})"

    def _without_the_model(self) -> list[str]:
        told = [f"tools and own work alone: {share(self.beyond, 'time')}"] if self.beyond else []
        mine, theirs = self.own_seconds
        if self.own is None or self.own.says == "same":
            if self.own is None and mine != theirs:
                told.append(f"own work {seconds(mine)} beside {seconds(theirs)}")
            return told
        factor = f"{times(self.own.ratio)} more" if self.own.ratio > 1 else f"{times(1 / self.own.ratio)} less"
        return [*told, f"own work {seconds(mine)} beside {seconds(theirs)} ({factor})"]


def beside_peers(found: Sequence[Pair]) -> tuple[BesidePeers, ...]:
    """Of each kind that a peer was measured in.

    Args:
        found: the contestants of a workload with their cells, without those that were not measured.
    """
    told = []
    for each in KINDS:
        members = [pair for pair in found if kind(pair[0]) == each]
        ours, theirs = [pair for pair in members if pair[0].ours], [pair for pair in members if not pair[0].ours]
        if theirs:
            told.append(_beside(each, ours, theirs))
    return tuple(told)


def _beside(each: str, ours: Sequence[Pair], theirs: Sequence[Pair]) -> BesidePeers:
    mode, peer = fastest(ours), fastest(theirs)
    if mode is None or peer is None:
        return BesidePeers(kind=each, mode=mode and mode[0], peer=peer and peer[0], mode_missing=not ours)
    mine, other = mode[1], peer[1]
    return BesidePeers(
        kind=each,
        mode=mode[0],
        peer=peer[0],
        time=held(mine, other, wall),
        tokens=held_tokens(mine, other),
        beyond=held(mine, other, beyond_the_model),
        own=held(mine, other, overhead),
        own_seconds=(_median(mine, overhead), _median(other, overhead)),
        token_counts=(int(_median(mine, tokens)), int(_median(other, tokens))),
        turns=(int(mine.median("turns")), int(other.median("turns"))),
        frugal=_frugal(theirs, min(_median(mine, tokens), _median(other, tokens))),
    )


def _frugal(peers: Sequence[Pair], least: float) -> tuple[Entry, int] | None:
    """The peer with the fewest tokens, if it takes fewer than `least`."""
    right = [(_median(cell, tokens), entry) for entry, cell in peers if cell.outcome == "right" and cell.rounds]
    counted = [pair for pair in right if 0 < pair[0] <= least * (1 - LEAST_COUNTED)]
    count, entry = min(counted, key=lambda pair: pair[0], default=(0, None))
    return (entry, int(count)) if entry else None


def _median(cell: Cell, of: Callable[[Round], float]) -> float:
    return statistics.median(map(of, cell.rounds))
