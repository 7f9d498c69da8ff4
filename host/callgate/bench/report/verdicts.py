"""What a run says about each workload, in a sentence. Judges results; measures nothing.

How two contestants are held against each other is in `held`. Of callgate's modes the one with the least wall time
stands for all beside direct calls, and so does the better of the two ways of calling directly. Peers are held against
modes of their own kind: see `beside_peers`.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from callgate.bench.figures import seconds, times
from callgate.bench.report.beside_peers import BesidePeers, Pair, beside_peers, fastest
from callgate.bench.report.held import Held, held, held_tokens, rounds_told, share, tokens, wall
from callgate.bench.results import Entry, Results

__all__ = ["Verdict", "Winner", "verdict", "verdicts"]

Winner = Literal["callgate", "direct calls", "mixed", "neither", "nobody", "not tried", "unknown"]
"""Callgate's modes and direct calls beside each other. ``mixed``: one has the better time, the other fewer tokens.
``neither``: no difference. ``nobody``: no right answer. ``not tried``: the workload says that no model could call
directly here, so nobody wins. ``unknown``: one side was not measured."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """What a run says about a workload.

    Attributes:
        workload: its name.
        title: the workload's, for people.
        mode: the best of callgate's modes with a right answer; None where there is none.
        direct: the better way of calling directly; None where none had a right answer.
        time: wall time of `mode` over that of `direct`.
        tokens: the same of tokens, input and output; None where those of one side were not counted.
        without_mode: why there is no `mode`.
        without_direct: why there is no `direct`.
        mode_missing: callgate's modes were not measured, so there is no `mode`.
        direct_missing: direct calls were not measured, so there is no `direct`.
        direct_untried: direct calls were not tried, so there is no `direct`.
        seconds: wall time of `mode`, p50; 0 where there is none.
        token_count: tokens of `mode`, p50; 0 where they were not counted.
        peer: the fastest peer of all with a right answer; None where there is none.
        peer_time: wall time of `mode` over that of `peer`, whatever confines the two.
        peers: callgate's modes beside peers of their kind.
    """

    workload: str
    title: str
    mode: Entry | None = None
    direct: Entry | None = None
    time: Held | None = None
    tokens: Held | None = None
    without_mode: str = ""
    without_direct: str = ""
    mode_missing: bool = False
    direct_missing: bool = False
    direct_untried: bool = False
    seconds: float = 0.0
    token_count: int = 0
    peer: Entry | None = None
    peer_time: Held | None = None
    peers: tuple[BesidePeers, ...] = ()

    @property
    def winner(self) -> Winner:
        """Who should do it. Time and tokens count the same."""
        if self.mode is None or self.direct is None:
            if self.mode_missing or self.direct_missing:
                return "unknown"
            if self.mode and self.direct_untried:
                return "not tried"
            return "callgate" if self.mode else "direct calls" if self.direct else "nobody"
        said = {each.says for each in (self.time, self.tokens) if each is not None} - {"same"}
        if len(said) == 2:
            return "mixed"
        return "callgate" if "less" in said else "direct calls" if "more" in said else "neither"

    @property
    def text(self) -> str:
        """Callgate's modes beside direct calls, without a full stop."""
        if self.mode is None:
            return self._without_mode()
        if self.direct is None:
            tokens = f" with {self.token_count:,} tokens" if self.token_count else ""
            did = f"{self.mode.title} does it in {seconds(self.seconds)}{tokens}"
            if self.direct_missing:
                return f"{did}; direct calls were not measured"
            return f"{self.without_direct}; {did}"
        return self._compared(self.mode.title, self.direct.title)

    def _without_mode(self) -> str:
        if self.mode_missing:
            return "callgate's modes were not measured"
        if self.direct is None:
            return f"nobody has a right answer: {self.without_mode}; {self.without_direct or 'no direct calls'}"
        return f"direct calls win here: {self.without_mode}"

    def _compared(self, ours: str, theirs: str) -> str:
        time = self.time.says if self.time else "same"
        counts = self.tokens.says if self.tokens else "same"
        few = rounds_told(self.time)
        beside = f"(beside {theirs}{f'; {few}' if few else ''})"
        if time == "same" or self.time is None:
            if self.tokens is None:
                return f"no difference in time, tokens not counted: {ours} {beside}"
            if counts == "same":
                return f"no difference: {ours} {beside}"
            told = f"no difference in time, {ours} takes {share(self.tokens, 'tokens')} {beside}"
            return f"direct calls win here: {told}" if counts == "more" else told
        if time == "less":
            told = f"{times(1 / self.time.ratio)} faster, {share(self.tokens, 'tokens')} {beside}"
            return f"{ours} wins on time and loses on tokens: {told}" if counts == "more" else f"{ours}: {told}"
        told = f"{ours} is {times(self.time.ratio)} slower, {share(self.tokens, 'tokens')} {beside}"
        won = "win on time and lose on tokens" if counts == "less" else "win here"
        return f"direct calls {won}: {told}"

    @property
    def peer_texts(self) -> list[str]:
        """Callgate's modes beside peers, a sentence for each kind, without full stops."""
        return [each.text for each in self.peers]


def verdicts(results: Results) -> tuple[Verdict, ...]:
    """Of each workload that has a cell, in the order of the run."""
    measured = {each.workload for each in results.cells}
    return tuple(verdict(results, task.name) for task in results.tasks if task.name in measured)


def verdict(results: Results, workload: str) -> Verdict:
    """Of one workload.

    Args:
        results: of the run.
        workload: its name; one that nobody did has a verdict that says so.
    """
    pairs = [(each, results.cell(workload, each.name)) for each in results.entries]
    found = [(entry, cell) for entry, cell in pairs if cell is not None and cell.outcome != "not measured"]
    modes = [pair for pair in found if pair[0].ours and pair[0].mode != "direct"]
    directs = [pair for pair in found if pair[0].ours and pair[0].mode == "direct"]
    mode, direct, peer = fastest(modes), fastest(directs), fastest([pair for pair in found if not pair[0].ours])
    titles = {task.name: task.title for task in results.tasks}
    return Verdict(
        workload=workload,
        title=titles.get(workload, workload),
        mode=mode and mode[0],
        direct=direct and direct[0],
        time=mode and direct and held(mode[1], direct[1], wall),
        tokens=mode and direct and held_tokens(mode[1], direct[1]),
        without_mode="" if mode else _reasons(modes),
        without_direct="" if direct else _reasons(directs, "direct calls"),
        mode_missing=not modes,
        direct_missing=not directs,
        direct_untried=bool(directs) and not any(cell.tried for _, cell in directs),
        seconds=mode[1].median("wall_seconds") if mode else 0.0,
        token_count=int(statistics.median(map(tokens, mode[1].rounds))) if mode else 0,
        peer=peer and peer[0],
        peer_time=mode and peer and held(mode[1], peer[1], wall),
        peers=beside_peers(found),
    )


def _reasons(pairs: Sequence[Pair], all_of_them: str = "") -> str:
    told = {"failed": "failed", "wrong": "gave a wrong answer", "right": "has no rounds"}
    ends: dict[tuple[str, str], list[str]] = {}
    for entry, cell in pairs:
        said = told.get(cell.outcome, "cannot") if cell.tried else "not tried"
        ends.setdefault((said, _short(cell.reason)), []).append(entry.title)
    if all_of_them and len({said for said, _ in ends}) == 1:
        (said, reason), *_ = ends
        return _ended(all_of_them, "were not tried" if said == "not tried" else said, reason)
    return "; ".join(_ended(" and ".join(names), said, reason) for (said, reason), names in ends.items())


def _ended(who: str, said: str, reason: str) -> str:
    return f"{who} {said}: {reason}" if reason else f"{who} {said}"


def _short(reason: str, most: int = 160) -> str:
    plain = " ".join(reason.split())
    return plain if len(plain) <= most else f"{plain[: most - 1]}…"
