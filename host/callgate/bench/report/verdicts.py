"""What a run says about each workload, in a sentence, and about all of them. Judges results; measures nothing.

Two contestants are held against each other by the ratios of rounds that ran next to each other: their median, and
their spread from the 10th to the 90th percentile. Where the spread has 1 in it, or the median is within `LEAST` of 1
(`LEAST_OF_FEW` with few pairs), there is no difference. Of callgate's modes the one with the least wall time stands for
all, beside direct calls and beside peers; so do the better of the two ways of calling directly, and the peer with the
least time for tools and its own work (the model's part is the same script for all who take programs, and for all who
take plans).
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from callgate.bench.figures import percentile, ratio, seconds
from callgate.bench.results import Cell, Entry, Results, Round

__all__ = [
    "FEW",
    "LEAST",
    "LEAST_OF_FEW",
    "Headline",
    "Held",
    "Verdict",
    "Winner",
    "headline",
    "held",
    "simulation",
    "verdict",
    "verdicts",
]

LEAST, LEAST_OF_FEW, FEW = 0.02, 0.1, 3
"""A smaller difference is none, however small the spread is. Less than `FEW` pairs have no spread to speak of."""

Winner = Literal["callgate", "direct calls", "mixed", "neither", "nobody", "unknown"]
"""``mixed``: one has the better time, the other fewer tokens. ``neither``: no difference. ``nobody``: no right answer.
``unknown``: one side was not measured."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Held:
    """One held against another: ours over theirs.

    Attributes:
        ratio: the median of the ratios of neighbours.
        low: their 10th percentile.
        high: their 90th.
        pairs: how many there were.
    """

    ratio: float
    low: float
    high: float
    pairs: int

    @property
    def says(self) -> Literal["less", "same", "more"]:
        """What ours is, beside theirs."""
        least = LEAST if self.pairs >= FEW else LEAST_OF_FEW
        if self.low <= 1 <= self.high or abs(self.ratio - 1) < least:
            return "same"
        return "less" if self.ratio < 1 else "more"


def held(ours: Cell, theirs: Cell, of: Callable[[Round], float]) -> Held | None:
    """Two cells held against each other in what `of` takes from a round; None where nothing can be divided."""
    pairs = [(of(mine), of(other)) for mine, other in zip(ours.rounds, theirs.rounds, strict=False)]
    pairs = [pair for pair in pairs if min(pair) > 0]
    if not pairs:
        return None
    ratios = sorted(mine / other for mine, other in pairs)
    middle = ratio([mine for mine, _ in pairs], [other for _, other in pairs])
    return Held(ratio=middle, low=percentile(ratios, 0.1), high=percentile(ratios, 0.9), pairs=len(pairs))


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """What a run says about a workload.

    Attributes:
        workload: its name.
        mode: the best of callgate's modes with a right answer; None where there is none.
        direct: the better way of calling directly; None where none had a right answer.
        time: wall time of `mode` over that of `direct`.
        tokens: the same of tokens, input and output.
        without_mode: why there is no `mode`.
        without_direct: why there is no `direct`.
        mode_missing: callgate's modes were not measured, so there is no `mode`.
        direct_missing: direct calls were not measured, so there is no `direct`.
        seconds: wall time of `mode`, p50; 0 where there is none.
        token_count: tokens of `mode`, p50.
        peer: the best peer with a right answer; None where there is none.
        without_peer: why there is no `peer`; empty where none was measured.
        peer_time: tools and own work of `mode` over those of `peer`.
        overhead_seconds: own work of `mode`, p50.
        peer_overhead_seconds: own work of `peer`, p50.
    """

    workload: str
    mode: Entry | None = None
    direct: Entry | None = None
    time: Held | None = None
    tokens: Held | None = None
    without_mode: str = ""
    without_direct: str = ""
    mode_missing: bool = False
    direct_missing: bool = False
    seconds: float = 0.0
    token_count: int = 0
    peer: Entry | None = None
    without_peer: str = ""
    peer_time: Held | None = None
    overhead_seconds: float = 0.0
    peer_overhead_seconds: float = 0.0

    @property
    def winner(self) -> Winner:
        """Who should do it. Time and tokens count the same."""
        if self.mode is None or self.direct is None:
            if self.mode_missing or self.direct_missing:
                return "unknown"
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
            did = f"{self.mode.title} does it in {seconds(self.seconds)} with {self.token_count:,} tokens"
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
        tokens = self.tokens.says if self.tokens else "same"
        pairs = self.time.pairs if self.time else FEW
        rounds = "" if pairs >= FEW else "; one round" if pairs == 1 else f"; {pairs} rounds"
        beside = f"(beside {theirs}{rounds})"
        if time == "same" or self.time is None:
            if tokens == "same":
                return f"no difference: {ours} {beside}"
            told = f"no difference in time, {ours} takes {_beside(self.tokens, 'tokens')} {beside}"
            return f"direct calls win here: {told}" if tokens == "more" else told
        if time == "less":
            told = f"{_times(1 / self.time.ratio)} faster, {_beside(self.tokens, 'tokens')} {beside}"
            return f"{ours} wins on time and loses on tokens: {told}" if tokens == "more" else f"{ours}: {told}"
        told = f"{ours} is {_times(self.time.ratio)} slower, {_beside(self.tokens, 'tokens')} {beside}"
        won = "win on time and lose on tokens" if tokens == "less" else "win here"
        return f"direct calls {won}: {told}"

    @property
    def peer_text(self) -> str:
        """Callgate's mode beside the best peer, without a full stop; empty where nothing can be said."""
        if self.mode is None:
            return f"{self.peer.title} has a right answer, callgate has none" if self.peer else ""
        if self.peer is None or self.peer_time is None:
            return self.without_peer
        own = f"own work: {_some(self.overhead_seconds)} beside {_some(self.peer_overhead_seconds)}"
        if self.peer_time.says == "same":
            return f"no difference to the best peer, {self.peer.title}, in tools and own work ({own})"
        told = f"tools and own work take {_beside(self.peer_time, 'time')} than with {self.peer.title} ({own})"
        told = told.replace("the time than with", "the time that they take with")
        return (
            f"{self.peer.title} is better: {told}" if self.peer_time.says == "more" else f"beside the best peer, {told}"
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Headline:
    """What a run says about all workloads.

    Attributes:
        verdicts: of each workload.
        speed_ups: how many times faster callgate was, where it was, the least first.
        slow_downs: how many times slower, where it was.
        savings: the share of tokens that callgate did not need, where it needed fewer, the least first.
        surpluses: tokens of callgate over those of direct calls, where it needed more.
        not_right: callgate's modes and workloads, where the answer was wrong or the run failed.
        model: what was simulated, and what a real model would change; see `simulation`.
        interrupted: why the run is not whole.
    """

    verdicts: tuple[Verdict, ...]
    speed_ups: tuple[float, ...]
    slow_downs: tuple[float, ...]
    savings: tuple[float, ...]
    surpluses: tuple[float, ...]
    not_right: tuple[tuple[str, str], ...]
    model: str
    interrupted: str = ""

    def count(self, winner: Winner) -> int:
        """In how many workloads this was so."""
        return sum(each.winner == winner for each in self.verdicts)

    def beside_peers(self, says: Literal["less", "same", "more"]) -> int:
        """In how many workloads callgate took so much time for tools and its own work, beside the best peer."""
        return sum(each.peer_time is not None and each.peer_time.says == says for each in self.verdicts)

    @property
    def alone(self) -> tuple[str, ...]:
        """Workloads that callgate's modes did, and direct calls could not."""
        return tuple(each.workload for each in self.verdicts if each.winner == "callgate" and each.direct is None)

    @property
    def sentences(self) -> list[str]:
        """What a person would quote."""
        told = [f"The run was interrupted: {self.interrupted}."] if self.interrupted else []
        if not self.verdicts:
            return [*told, "No workload was measured."]
        told += [self._winners(), *self._measures()]
        if self.alone:
            told.append(f"Direct calls had no right answer in {len(self.alone)}: {', '.join(self.alone)}.")
        less, same, more = (self.beside_peers(says) for says in ("less", "same", "more"))
        if less or same or more:
            held_against = f"less time in {less} {_workloads(less)}, more in {more}, and no difference in {same}"
            told.append(f"Beside the best peer of each, tools and callgate's own work took {held_against}.")
        if self.not_right:
            where = ", ".join(f"{contestant} in {workload}" for workload, contestant in self.not_right)
            told.append(f"callgate's modes were wrong or failed: {where}.")
        return [*told, self.model] if self.model else told

    def _winners(self) -> str:
        told = [f"callgate's modes win {self.count('callgate')}", f"direct calls win {self.count('direct calls')}"]
        others: list[tuple[Winner, str]] = [
            ("mixed", "one is faster and the other takes fewer tokens in {}"),
            ("neither", "there is no difference in {}"),
            ("nobody", "nobody has a right answer in {}"),
            ("unknown", "one side was not measured in {}"),
        ]
        told += [words.format(self.count(winner)) for winner, words in others if self.count(winner)]
        return f"Of {len(self.verdicts)} {_workloads(len(self.verdicts))}: {'; '.join(told)}."

    def _measures(self) -> list[str]:
        told = []
        if self.speed_ups or self.slow_downs:
            parts = [
                f"callgate is {word} in {len(values)} ({_range(values, _times)})"
                for word, values in (("faster", self.speed_ups), ("slower", self.slow_downs))
                if values
            ]
            told.append(f"Time: {'; '.join(parts)}.")
        if self.savings or self.surpluses:
            parts = [
                f"callgate takes {word} in {len(values)} ({_range(values, shown)})"
                for word, values, shown in (
                    ("fewer", self.savings, lambda share: f"{share * 100:.0f} %"),
                    ("more", self.surpluses, _times),
                )
                if values
            ]
            told.append(f"Tokens: {'; '.join(parts)}.")
        return told


def headline(results: Results) -> Headline:
    """What a run says about all of its workloads."""
    found = verdicts(results)
    times = sorted(each.time.ratio for each in found if each.time and each.time.says != "same")
    tokens = sorted(each.tokens.ratio for each in found if each.tokens and each.tokens.says != "same")
    ours = {each.name for each in results.entries if each.ours and each.mode != "direct"}
    return Headline(
        verdicts=found,
        speed_ups=tuple(sorted(1 / each for each in times if each < 1)),
        slow_downs=tuple(each for each in times if each > 1),
        savings=tuple(sorted(1 - each for each in tokens if each < 1)),
        surpluses=tuple(each for each in tokens if each > 1),
        not_right=tuple(
            (each.workload, each.contestant)
            for each in results.cells
            if each.contestant in ours and each.outcome in ("wrong", "failed")
        ),
        model=simulation(results),
        interrupted=results.interrupted,
    )


def simulation(results: Results) -> str:
    """Whether a script played the model, and what it waited, in a sentence; empty where there was no model."""
    model = results.model
    if model is None:
        return ""
    if not model.simulated:
        return f"The model is real: {model.name}; its time and its tokens are the provider's."
    waits = f"{_some(model.turn_seconds)} a turn and {_some(model.token_seconds)} an output token"
    return f"The model is simulated: a script that makes no mistakes and waits {waits}."


def verdicts(results: Results) -> tuple[Verdict, ...]:
    """Of each workload that has a cell, in the order of the run."""
    measured = {each.workload for each in results.cells}
    return tuple(verdict(results, task.name) for task in results.tasks if task.name in measured)


def verdict(results: Results, workload: str) -> Verdict:
    """Of one workload."""
    pairs = [(each, results.cell(workload, each.name)) for each in results.entries]
    found = [(entry, cell) for entry, cell in pairs if cell is not None and cell.outcome != "not measured"]
    modes = [pair for pair in found if pair[0].ours and pair[0].mode != "direct"]
    directs = [pair for pair in found if pair[0].ours and pair[0].mode == "direct"]
    others = [pair for pair in found if not pair[0].ours]
    mode, direct, peer = _least(modes, _wall), _least(directs, _wall), _least(others, _beyond_the_model)
    return Verdict(
        workload=workload,
        mode=mode and mode[0],
        direct=direct and direct[0],
        time=mode and direct and held(mode[1], direct[1], _wall),
        tokens=mode and direct and held(mode[1], direct[1], _tokens),
        without_mode="" if mode else _reasons(modes),
        without_direct="" if direct else _reasons(directs, "direct calls"),
        mode_missing=not modes,
        direct_missing=not directs,
        seconds=mode[1].median("wall_seconds") if mode else 0.0,
        token_count=int(statistics.median(map(_tokens, mode[1].rounds))) if mode else 0,
        peer=peer and peer[0],
        without_peer="no peer has a right answer" if others and not peer else "",
        peer_time=mode and peer and held(mode[1], peer[1], _beyond_the_model),
        overhead_seconds=mode[1].median("overhead_seconds") if mode else 0.0,
        peer_overhead_seconds=peer[1].median("overhead_seconds") if peer else 0.0,
    )


def _wall(one: Round) -> float:
    return one.wall_seconds


def _tokens(one: Round) -> float:
    return one.input_tokens + one.output_tokens


def _beyond_the_model(one: Round) -> float:
    return one.tool_seconds + one.overhead_seconds


def _least(pairs: Sequence[tuple[Entry, Cell]], of: Callable[[Round], float]) -> tuple[Entry, Cell] | None:
    right = [pair for pair in pairs if pair[1].outcome == "right" and pair[1].rounds]
    return min(right, key=lambda pair: statistics.median(map(of, pair[1].rounds)), default=None)


def _reasons(pairs: Sequence[tuple[Entry, Cell]], all_of_them: str = "") -> str:
    said = {"cannot": "cannot", "failed": "failed", "wrong": "gave a wrong answer", "right": "has no rounds"}
    outcomes = {cell.outcome for _, cell in pairs}
    if all_of_them and len(outcomes) == 1:
        outcome, reason = pairs[0][1].outcome, _short(pairs[0][1].reason)
        return f"{all_of_them} {said[outcome]}" + (f": {reason}" if reason else "")
    grouped: dict[str, list[str]] = {}
    for entry, cell in pairs:
        told = said[cell.outcome] + (f": {_short(cell.reason)}" if cell.reason else "")
        grouped.setdefault(told, []).append(entry.title)
    return "; ".join(f"{' and '.join(names)} {told}" for told, names in grouped.items())


def _short(reason: str, most: int = 160) -> str:
    plain = " ".join(reason.split())
    return plain if len(plain) <= most else f"{plain[: most - 1]}…"


def _some(value: float) -> str:
    return seconds(value) if value > 0 else "0 s"


def _times(value: float) -> str:
    return f"{value:.0f} ×" if value >= 10 else f"{value:.1f} ×" if value >= 1.95 else f"{value:.2f} ×"


def _beside(compared: Held | None, what: Literal["tokens", "time"]) -> str:
    if compared is None or compared.says == "same":
        return f"as many {what}"
    few, many = ("fewer", "more") if what == "tokens" else ("less", "more")
    if compared.ratio >= 2:
        return f"{_times(compared.ratio)} the {what}"
    return f"{abs(1 - compared.ratio) * 100:.0f} % {few if compared.ratio < 1 else many} {what}"


def _range(values: Sequence[float], shown: Callable[[float], str]) -> str:
    if len(values) == 1:
        return shown(values[0])
    return f"{shown(values[0])} to {shown(values[-1])}, median {shown(statistics.median(values))}"


def _workloads(count: int) -> str:
    return "workload" if count == 1 else "workloads"
