"""Two runs held against each other: what became worse. Judges results; measures nothing.

What is exact is compared exactly: outcomes, turns, calls, tokens. Durations are a matter of the machine and of its
other work, so each run brings its yardstick (see `yardstick`). Something is slower only where all of this is so:

1. The p50 grew beyond a tolerance, in seconds and also in yardsticks of its own run.
2. The ranges from the 10th to the 90th percentile do not overlap, in seconds and also in yardsticks.
3. The tolerance is `TOLERANCE`, times how far the 90th percentile of the yardstick lies above its p50, in that one of
   the two runs where it lies further; squared where one has less than `FEW` samples.
4. Both have at least `FEWEST` samples.

Rule 1 asks twice because not everything follows the yardstick. 360 yardsticks, each with four things that callgate
does, were timed on two cores at load averages of 3 to 13: the yardstick's p50 over 30 of them went from 136 to 827 ms,
that of a program with three calls in the jail from 16 to 122 ms, which is 0.11 to 0.19 yardsticks; a plan of two steps,
which waits for no process, took 1.4 to 1.8 ms throughout; a loop of computation 85 to 178 ms. What waits, such as a
tool, does not follow it either. Of random pairs of five samples, in which nothing had changed, 8.6 % were called slower
by yardsticks alone, 0.6 % by rules 1 and 2, 0.2 % with rule 3. The price: on a machine with that much other work only
large differences show, and what became slower on a machine that became faster may not.

Callgate's modes and the single things are compared. What a peer does is the peer's.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from callgate.bench.figures import Figure, seconds
from callgate.bench.results import Cell, Entry, Results
from callgate.bench.rows import Row

__all__ = ["FEW", "FEWEST", "TOLERANCE", "Comparison", "Finding", "Kind", "compare"]

TOLERANCE = 1.3
"""Of a duration; of a peer's part in a row; of peak memory."""
FEWEST, FEW = 3, 5
"""Samples that a duration has to have, to be judged; and to be judged by the plain tolerance."""
_TOKENS = 1.02
_MEMORY_BYTES = 8 * 1024 * 1024
_RANK = {"right": 2, "cannot": 1, "wrong": 0, "failed": 0}

Kind = Literal["worse", "better", "changed", "same", "gone", "new"]
"""``changed``: differs, and that is neither good nor bad, or cannot be told from noise."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """One thing compared.

    Attributes:
        kind: what came of it.
        where: a contestant and a workload, or what a row measured.
        what: of it: ``outcome``, ``own work``, ``turns``, ...
        before: for people.
        now: for people.
        ratio: now over before, where both are numbers; of durations the smaller of seconds and yardsticks.
    """

    kind: Kind
    where: str
    what: str
    before: str = ""
    now: str = ""
    ratio: float | None = None

    @property
    def text(self) -> str:
        """In a line."""
        if self.kind in ("gone", "new"):
            return f"{self.where}: {self.before or self.now or self.what}"
        factor = "" if self.ratio is None else f" ({self.ratio:.2f} ×)"
        return f"{self.where}: {self.what}: {self.before} → {self.now}{factor}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Comparison:
    """All that was compared.

    Attributes:
        findings: in the order of the new run.
        remarks: what the two were measured with, and what could not be compared.
    """

    findings: tuple[Finding, ...]
    remarks: tuple[str, ...]

    def of(self, *kinds: Kind) -> list[Finding]:
        """Those of these kinds."""
        return [each for each in self.findings if each.kind in kinds]

    @property
    def worse(self) -> list[Finding]:
        """What became worse: reason for a shell to fail."""
        return self.of("worse")

    def text(self) -> str:
        """For people, in lines: what differs, then how it was compared, then the counts."""
        kinds: tuple[Kind, ...] = ("worse", "gone", "better", "changed", "new")
        told = [f"{kind:8} {each.text}" for kind in kinds for each in self.of(kind)]
        counts = ", ".join(f"{len(self.of(kind))} {kind}" for kind in (*kinds, "same"))
        return "\n".join([*told, *self.remarks, f"Compared: {counts}."])


def compare(old: Results, new: Results) -> Comparison:
    """What became of an earlier run's figures.

    Args:
        old: the earlier run.
        new: the run that is judged.
    """
    scale = _Scale.of(old, new)
    remarks = [scale.remark]
    if old.machine != new.machine:
        remarks.append(f"Another machine, or other versions: {old.machine} before; {new.machine} now.")
    remarks += [
        f"The {when} run was interrupted: {run.interrupted}." for when, run in _named(old, new) if run.interrupted
    ]
    findings: list[Finding] = []
    if old.model is not None and new.model is not None:
        if old.model.simulated and new.model.simulated:
            findings += _workloads(old, new, scale, remarks)
        else:
            remarks.append("Workloads are not compared: a real model does not do the same thing twice.")
    elif old.model is not None or new.model is not None:
        remarks.append(f"Workloads are not compared: the {'new' if new.model is None else 'old'} run has none.")
    if bool(old.rows) != bool(new.rows):
        remarks.append(f"Single things are not compared: the {'new' if old.rows else 'old'} run has none.")
    elif old.sizes == new.sizes:
        findings += _rows(old.rows, new.rows, scale)
    if old.sizes != new.sizes:
        remarks.append(f"Sizes differ: {old.sizes} before, {new.sizes} now; single things and tools are not compared.")
    return Comparison(findings=tuple(findings), remarks=tuple(remarks))


def _named(old: Results, new: Results) -> tuple[tuple[str, Results], tuple[str, Results]]:
    return ("old", old), ("new", new)


@dataclass(frozen=True, slots=True)
class _Scale:
    """How durations of two runs are compared.

    Attributes:
        factor: the old yardstick over the new one; 0 where durations cannot be compared.
        tolerance: rule 3.
        remark: the same for people.
    """

    factor: float
    tolerance: float
    remark: str

    @classmethod
    def of(cls, old: Results, new: Results) -> _Scale:
        for when, run in _named(old, new):
            if len(run.yardstick.seconds) < FEWEST or min(run.yardstick.seconds) <= 0:
                return cls(0.0, 0.0, f"Durations are not compared: the {when} run has no yardstick of {FEWEST} times.")
        before, now = (Figure.of(run.yardstick.seconds) for run in (old, new))
        tolerance = TOLERANCE * max(before.p90 / before.p50, now.p90 / now.p50)
        told = f"Yardstick: {seconds(before.p50)} before, {seconds(now.p50)} now"
        return cls(before.p50 / now.p50, tolerance, f"{told}; durations count as different beyond {tolerance:.2f} ×.")

    def judged(self, before: Figure, now: Figure) -> tuple[Kind, float] | None:
        """What became of a duration, and how many times as long it takes; None where that cannot be judged."""
        samples = min(before.count, now.count)
        if not self.factor or samples < FEWEST or min(before.p50, now.p50) <= 0:
            return None
        tolerance = self.tolerance if samples >= FEW else self.tolerance**2
        grown = now.p50 / before.p50
        least, most = sorted((grown, grown * self.factor))
        low, high = sorted((1.0, self.factor))
        if least > tolerance and now.p10 * low > before.p90:
            return "worse", least
        if most < 1 / tolerance and now.p90 * high < before.p10:
            return "better", most
        return "same", grown

    def finding(self, where: str, what: str, before: Figure, now: Figure) -> Iterator[Finding]:
        """The same as a finding, if there is one."""
        judged = self.judged(before, now)
        if judged is not None:
            told = _spread(before), _spread(now)
            yield Finding(kind=judged[0], where=where, what=what, before=told[0], now=told[1], ratio=judged[1])


def _spread(figure: Figure) -> str:
    return f"{seconds(figure.p50)} ({seconds(figure.p10)} to {seconds(figure.p90)})"


def _workloads(old: Results, new: Results, scale: _Scale, remarks: list[str]) -> Iterator[Finding]:
    assert old.model is not None
    assert new.model is not None
    measured = [(run.model.wire, run.model.tokenizer) for run in (old, new) if run.model is not None]
    tokens = measured[0] == measured[1]
    if not tokens:
        remarks.append("Tokens are not compared: another wire format or tokenizer.")
    if old.model.context_tokens != new.model.context_tokens:
        remarks.append(f"The context had {old.model.context_tokens:,} tokens before, {new.model.context_tokens:,} now.")
    yield from _listed([each.name for each in old.tasks], [each.name for each in new.tasks], "workload")
    before, now = (_taking_part(run) for run in (old, new))
    yield from _listed(before, now, "mode")
    for task in new.tasks:
        for name in now:
            pair = old.cell(task.name, name), new.cell(task.name, name)
            where = f"{name} in {task.name}"
            if now[name].failure and name in before and not before[name].failure:
                continue
            if pair[0] is None or pair[1] is None:
                known = task.name in {each.name for each in old.tasks} and name in before
                if known and pair != (None, None):
                    yield Finding(kind="gone" if pair[1] is None else "new", where=where, what="cell")
                continue
            yield from _cells(where, pair[0], pair[1], scale, tokens=tokens, tools=old.sizes == new.sizes)
    for name, entry in now.items():
        if entry.failure and name in before and not before[name].failure:
            yield Finding(kind="worse", where=name, what="takes part", before="yes", now=f"no: {entry.failure}")


def _taking_part(run: Results) -> dict[str, Entry]:
    return {each.name: each for each in run.entries if each.ours}


def _listed(old: Collection[str], new: Collection[str], what: str) -> Iterator[Finding]:
    yield from (
        Finding(kind="gone", where=name, what=f"{what} of the old run alone") for name in old if name not in new
    )
    yield from (Finding(kind="new", where=name, what=f"{what} of the new run alone") for name in new if name not in old)


def _cells(where: str, old: Cell, new: Cell, scale: _Scale, *, tokens: bool, tools: bool) -> Iterator[Finding]:
    if "not measured" in (old.outcome, new.outcome):
        if old.outcome != new.outcome:
            gone = new.outcome == "not measured"
            yield Finding(
                kind="gone" if gone else "new", where=where, what=f"not measured {'now' if gone else 'before'}"
            )
        return
    rank = _RANK[new.outcome] - _RANK[old.outcome]
    kind: Kind = "worse" if rank < 0 else "better" if rank else "same" if old.outcome == new.outcome else "changed"
    told = [f"{each.outcome}: {each.reason}" if each.reason else each.outcome for each in (old, new)]
    yield Finding(kind=kind, where=where, what="outcome", before=told[0], now=told[1])
    if not (old.outcome == new.outcome == "right" and old.rounds and new.rounds):
        return
    counted = ["turns", "calls", *(["input_tokens", "output_tokens"] if tokens else [])]
    for name in counted:
        yield from _counts(
            where, name, [getattr(each, name) for each in old.rounds], [getattr(each, name) for each in new.rounds]
        )
    for name, words in (("overhead_seconds", "own work"), ("tool_seconds", "tools"))[: 2 if tools else 1]:
        yield from scale.finding(where, words, old.figure(name), new.figure(name))
    yield from _memory(where, old.peak_bytes, new.peak_bytes)


def _counts(where: str, name: str, old: Sequence[int], new: Sequence[int]) -> Iterator[Finding]:
    """Exact figures: where they vary from round to round, a range that does not overlap."""
    more, fewer = min(new) > max(old), max(new) < min(old)
    before, now = sorted(old)[len(old) // 2], sorted(new)[len(new) // 2]
    ratio = now / before if before else None
    kind: Kind = "worse" if more else "better" if fewer else "same"
    if name.endswith("tokens") and ratio is not None and kind != "same" and 1 / _TOKENS <= ratio <= _TOKENS:
        kind = "changed"
    yield Finding(
        kind=kind, where=where, what=name.replace("_", " "), before=f"{before:,}", now=f"{now:,}", ratio=ratio
    )


def _memory(where: str, old: int, new: int) -> Iterator[Finding]:
    if not old or not new:
        return
    ratio = new / old
    kind: Kind = "same"
    if abs(new - old) > _MEMORY_BYTES:
        kind = "worse" if ratio > TOLERANCE else "better" if ratio < 1 / TOLERANCE else "same"
    told = [f"{each / 1e6:.1f} MB" for each in (old, new)]
    yield Finding(kind=kind, where=where, what="peak memory", before=told[0], now=told[1], ratio=ratio)


def _rows(old: Sequence[Row], new: Sequence[Row], scale: _Scale) -> Iterator[Finding]:
    before, now = ({(each.key, each.measure): each for each in rows} for rows in (old, new))
    for place, row in before.items():
        if place not in now:
            yield Finding(kind="gone", where=row.measure, what="", before=row.measured)
    for place, row in now.items():
        if place not in before:
            yield Finding(kind="new", where=row.measure, what="", now=row.measured)
            continue
        figures = [_figure(each.numbers) for each in (before[place], row)]
        if figures[0] is not None and figures[1] is not None:
            yield from scale.finding(row.measure, "duration", figures[0], figures[1])
        yield from _target(before[place], row)


def _target(old: Row, new: Row) -> Iterator[Finding]:
    """A target that was met and is missed is worse, unless that is a duration that may be noise."""
    if old.target != new.target or {old.verdict, new.verdict} - {"met", "missed"}:
        return
    kind: Kind = "same"
    ratio = new.ratio / old.ratio if old.ratio and new.ratio else None
    if old.verdict != new.verdict:
        kind = "worse" if new.verdict == "missed" else "better"
        small = ratio is not None and 1 / TOLERANCE <= ratio <= TOLERANCE
        if small or (ratio is None and _is_timed(new.numbers)):
            kind = "changed"
    told = [f"{each.verdict} ({each.measured})" for each in (old, new)]
    yield Finding(kind=kind, where=new.measure, what=f"target {new.target}", before=told[0], now=told[1], ratio=ratio)


def _is_timed(numbers: Any) -> bool:
    if isinstance(numbers, dict):
        return any("second" in name or name == "p50" or _is_timed(part) for name, part in numbers.items())
    return isinstance(numbers, list) and any(_is_timed(each) for each in numbers)


def _figure(numbers: dict[str, Any]) -> Figure | None:
    """The durations of a row made by `rows.against`; None where it has none."""
    ours = numbers.get("ours")
    names = ("p50", "p99", "p10", "p90", "count")
    if not isinstance(ours, dict) or not all(isinstance(ours.get(name), (int, float)) for name in names):
        return None
    p50, p99, p10, p90 = (float(ours[name]) for name in names[:-1])
    return Figure(p50, p99, p10, p90, int(ours["count"]))
