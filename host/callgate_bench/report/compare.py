"""Compares a run with an older one: what became worse. Judges results; measures nothing.

What is exact is compared exactly: outcomes, turns, calls, tokens. Durations depend on the machine and on its other
work, so each run brings its yardstick (see `yardstick`). A duration is worse only if all of this is true:

1. Its p50 grew beyond the tolerance, in seconds and also in yardsticks of its own run.
2. The ranges from the 10th to the 90th percentile do not overlap, in seconds and also in yardsticks.
3. Both have at least `FEWEST` samples.

The tolerance is `TOLERANCE`, times how far the 90th percentile of the yardstick lies above its p50, in that one of the
two runs where it lies further; squared where one duration has fewer than `FEW` samples.

Seconds and yardsticks are both asked because not everything follows the yardstick. 360 yardsticks, each with four
things that callgate does, were timed on two cores at load averages of 3 to 13: the yardstick's p50 over 30 of them went
from 136 to 827 ms, that of a program with three calls in the jail from 16 to 122 ms; a plan of two steps took 1.4 to
1.8 ms throughout. Of random pairs of five samples in which nothing had changed, 8.6 % were called slower by yardsticks
alone, 0.2 % by all rules. The price: on a machine with much other work only large differences show.

Callgate's modes and the single things are compared. What a peer does is the peer's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from callgate_bench.figures import Figure, Row, seconds
from callgate_bench.results import Cell, Results

__all__ = ["FEW", "FEWEST", "TOLERANCE", "Comparison", "Finding", "Kind", "compare"]

TOLERANCE = 1.3
"""Factor by which a duration may grow."""
FEWEST, FEW = 3, 5
_TOKENS = 1.02
_RANK = {"right": 2, "cannot": 1, "wrong": 0, "failed": 0}
Kind = Literal["worse", "better", "changed", "same"]
"""``changed``: it differs, which is neither good nor bad, or may be noise."""
_KINDS: tuple[Kind, ...] = ("worse", "better", "changed", "same")


@dataclass(frozen=True, slots=True)
class Finding:
    """The change of one figure between both runs, with a line for people."""

    kind: Kind
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Comparison:
    """The result of a comparison.

    Attributes:
        findings: in the order of the new run.
        remarks: how the runs differ, and what could not be compared.
    """

    findings: tuple[Finding, ...]
    remarks: tuple[str, ...]

    def of(self, kind: Kind) -> list[Finding]:
        """The findings of a kind."""
        return [each for each in self.findings if each.kind == kind]

    def text(self) -> str:
        """Lines for people: what differs, then how it was compared, then the counts."""
        lines = [f"{kind:8} {each.text}" for kind in _KINDS[:-1] for each in self.of(kind)]
        counts = ", ".join(f"{len(self.of(kind))} {kind}" for kind in _KINDS)
        return "\n".join([*lines, *self.remarks, f"Compared: {counts}."])


def compare(old: Results, new: Results) -> Comparison:
    """Compare a run with an earlier one."""
    scale = _Scale.of(old, new)
    remarks = [scale.remark, *_differences(old, new)]
    findings: list[Finding] = []
    models = [run.model for run in (old, new) if run.model is not None]
    if len(models) == 2 and all(each.simulated for each in models):
        before = {each.name for each in old.entries if each.ours and not each.failure}
        for entry in new.entries:
            if entry.failure and entry.name in before:
                findings.append(Finding("worse", f"{entry.name}: takes part: yes → no: {entry.failure}"))
        counted = ["turns", "calls", "input_tokens", "output_tokens"]
        if len({(each.wire, each.tokenizer) for each in models}) == 2:
            counted = counted[:2]
            remarks.append("Tokens are not compared: another wire format or tokenizer.")
        timed = ["overhead_seconds", "tool_seconds"] if old.sizes == new.sizes else ["overhead_seconds"]
        cells = _own_cells(old), _own_cells(new)
        remarks += _missing("cell", *cells)
        for place in _both(*cells):
            findings += _cells(place, cells[0][place], cells[1][place], scale, counted, timed)
    elif models:
        remarks.append("Workloads are not compared: that takes two runs with the scripted model.")
    if old.sizes == new.sizes:
        rows = [{f"{each.key}: {each.measure}": each for each in run.rows} for run in (old, new)]
        remarks += _missing("row", *rows)
        for place in _both(*rows):
            findings += _rows(rows[0][place], rows[1][place], scale)
    else:
        remarks.append(f"Sizes differ: {old.sizes} before, {new.sizes} now; single things and tools are not compared.")
    return Comparison(findings=tuple(findings), remarks=tuple(remarks))


def _differences(old: Results, new: Results) -> Iterator[str]:
    if old.machine != new.machine:
        yield f"Another machine, or other versions: {old.machine} before; {new.machine} now."
    for when, run in (("old", old), ("new", new)):
        if run.interrupted:
            yield f"The {when} run was interrupted: {run.interrupted}."


def _own_cells(run: Results) -> dict[str, Cell]:
    ours = {each.name for each in run.entries if each.ours}
    measured = (each for each in run.cells if each.contestant in ours and each.outcome != "not measured")
    return {f"{each.contestant} in {each.workload}": each for each in measured}


def _both(old: Mapping[str, object], new: Mapping[str, object]) -> list[str]:
    return [place for place in new if place in old]


def _missing(what: str, old: Mapping[str, object], new: Mapping[str, object]) -> Iterator[str]:
    for when, one, other in (("old", old, new), ("new", new, old)):
        alone = [place for place in one if place not in other]
        if alone:
            yield f"Only in the {when} run, {len(alone)} {what}{'' if len(alone) == 1 else 's'}: {', '.join(alone)}."


@dataclass(frozen=True, slots=True)
class _Scale:
    """How durations of two runs are compared.

    Attributes:
        factor: the old yardstick over the new one; 0 where durations cannot be compared.
        tolerance: see the module.
        remark: the same for people.
    """

    factor: float
    tolerance: float
    remark: str

    @classmethod
    def of(cls, old: Results, new: Results) -> _Scale:
        for when, run in (("old", old), ("new", new)):
            if len(run.yardstick.seconds) < FEWEST or min(run.yardstick.seconds) <= 0:
                return cls(0.0, 0.0, f"Durations are not compared: the {when} run has no yardstick of {FEWEST} times.")
        before, now = (Figure.of(run.yardstick.seconds) for run in (old, new))
        tolerance = TOLERANCE * max(before.p90 / before.p50, now.p90 / now.p50)
        text = f"Yardstick: {seconds(before.p50)} before, {seconds(now.p50)} now"
        return cls(before.p50 / now.p50, tolerance, f"{text}; durations count as different beyond {tolerance:.2f} ×.")

    def durations(self, what: str, before: Figure, now: Figure) -> Iterator[Finding]:
        """The change of a duration; nothing if it cannot be judged."""
        samples = min(before.count, now.count)
        if not self.factor or samples < FEWEST or min(before.p50, now.p50) <= 0:
            return
        tolerance = self.tolerance if samples >= FEW else self.tolerance**2
        grown = now.p50 / before.p50
        least, most = sorted((grown, grown * self.factor))
        low, high = sorted((1.0, self.factor))
        kind: Kind = "same"
        if least > tolerance and now.p10 * low > before.p90:
            kind, grown = "worse", least
        elif most < 1 / tolerance and now.p90 * high < before.p10:
            kind, grown = "better", most
        text = [f"{seconds(each.p50)} ({seconds(each.p10)} to {seconds(each.p90)})" for each in (before, now)]
        yield Finding(kind, f"{what}: {text[0]} → {text[1]} ({grown:.2f} ×)")


def _cells(
    where: str, old: Cell, new: Cell, scale: _Scale, counted: Sequence[str], timed: Sequence[str]
) -> Iterator[Finding]:  # fmt: skip
    rank = _RANK[new.outcome] - _RANK[old.outcome]
    kind: Kind = "worse" if rank < 0 else "better" if rank else "same" if old.outcome == new.outcome else "changed"
    text = [f"{each.outcome}: {each.reason}" if each.reason else each.outcome for each in (old, new)]
    yield Finding(kind, f"{where}: outcome: {text[0]} → {text[1]}")
    if not (old.outcome == new.outcome == "right" and old.rounds and new.rounds):
        return
    for name in counted:
        counts = [[getattr(each, name) for each in cell.rounds] for cell in (old, new)]
        yield _counts(f"{where}: {name.replace('_', ' ')}", *counts)
    for name in timed:
        what = "tools" if name == "tool_seconds" else "own work"
        yield from scale.durations(f"{where}: {what}", old.figure(name), new.figure(name))


def _counts(what: str, old: Sequence[int], new: Sequence[int]) -> Finding:
    """Exact figures. Where they vary from round to round, they differ only if their ranges do not overlap."""
    kind: Kind = "worse" if min(new) > max(old) else "better" if max(new) < min(old) else "same"
    before, now = sorted(old)[len(old) // 2], sorted(new)[len(new) // 2]
    if kind != "same" and what.endswith("tokens") and before and 1 / _TOKENS <= now / before <= _TOKENS:
        kind = "changed"
    return Finding(kind, f"{what}: {before:,} → {now:,}{f' ({now / before:.2f} ×)' if before else ''}")


def _rows(old: Row, new: Row, scale: _Scale) -> Iterator[Finding]:
    """Durations as durations. Whatever else has a target is worse where it met the target and now misses it."""
    if old.figure and new.figure:
        yield from scale.durations(f"{new.measure}: duration", old.figure, new.figure)
    elif old.target == new.target and {old.verdict, new.verdict} <= {"met", "missed"}:
        kind: Kind = "same" if old.verdict == new.verdict else "worse" if new.verdict == "missed" else "better"
        text = f"{old.verdict} ({old.measured}) → {new.verdict} ({new.measured})"
        yield Finding(kind, f"{new.measure}: target {new.target}: {text}")
