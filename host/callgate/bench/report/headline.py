"""What a run says about all of its workloads together: what a person would quote. Counts verdicts; judges nothing."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from callgate.bench.figures import seconds, times
from callgate.bench.report.beside_peers import KINDS, BesidePeers
from callgate.bench.report.held import Held, Says
from callgate.bench.report.verdicts import Verdict, Winner, verdicts
from callgate.bench.results import Results

__all__ = ["Headline", "headline", "simulation"]

_TIMES: dict[Says, str] = {"less": "faster in {}", "more": "slower in {}", "same": "no difference in {}"}
_TOKENS: dict[Says, str] = {"less": "fewer tokens in {}", "more": "more in {}", "same": "as many in {}"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Headline:
    """What a run says about all workloads.

    Attributes:
        verdicts: of each workload.
        speed_ups: how many times faster callgate was, where it was, the least first.
        slow_downs: how many times slower, where it was.
        savings: the share of tokens that callgate did not need, where it needed fewer, the least first.
        surpluses: tokens of callgate over those of direct calls, where it needed more.
        not_right: titles of workloads and of callgate's modes, where the answer was wrong or the run failed.
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

    def of_kind(self, kind: str) -> list[BesidePeers]:
        """Callgate's modes beside peers of a kind, in all workloads where both were measured."""
        found = [each for said in self.verdicts for each in said.peers if each.kind == kind]
        return [each for each in found if not each.mode_missing]

    @property
    def alone(self) -> tuple[str, ...]:
        """Titles of the workloads that callgate's modes did, and direct calls tried and could not."""
        return tuple(each.title for each in self.verdicts if each.winner == "callgate" and each.direct is None)

    @property
    def untried(self) -> tuple[str, ...]:
        """Titles of the workloads that callgate's modes did, and where direct calls were not tried."""
        return tuple(each.title for each in self.verdicts if each.winner == "not tried")

    @property
    def sentences(self) -> list[str]:
        """What a person would quote."""
        told = [f"The run was interrupted: {self.interrupted}."] if self.interrupted else []
        if not self.verdicts:
            return [*told, "No workload was measured."]
        told += [self._winners(), *self._measures()]
        if self.alone:
            told.append(
                f"Direct calls had no right answer in {len(self.alone)}, which callgate's modes win by that: "
                f"{'; '.join(self.alone)}."
            )
        if self.untried:
            told.append(
                f"Direct calls were not tried in {len(self.untried)}, which count as nobody's win: "
                f"{'; '.join(self.untried)}."
            )
        told += self._peers()
        if self.not_right:
            where = "; ".join(f"{contestant} in {workload}" for workload, contestant in self.not_right)
            told.append(f"callgate's modes were wrong or failed: {where}.")
        return [*told, self.model] if self.model else told

    def _winners(self) -> str:
        told = [f"callgate's modes win {self.count('callgate')}", f"direct calls win {self.count('direct calls')}"]
        others: list[tuple[Winner, str]] = [
            ("mixed", "one is faster and the other takes fewer tokens in {}"),
            ("neither", "there is no difference in {}"),
            ("nobody", "nobody has a right answer in {}"),
            ("not tried", "direct calls were not tried in {}"),
            ("unknown", "one side was not measured in {}"),
        ]
        told += [words.format(self.count(winner)) for winner, words in others if self.count(winner)]
        return f"Beside direct calls, of {len(self.verdicts)} {_workloads(len(self.verdicts))}: {'; '.join(told)}."

    def _peers(self) -> list[str]:
        overall = [each.peer_time for each in self.verdicts if each.peer_time]
        told = []
        if overall:
            told.append(
                "Beside the fastest of all peers, whatever confines the two, by wall time: callgate's fastest mode is "
                f"{_counted(overall, _TIMES)}."
            )
        told += [f"Beside the fastest peer, {kind}: {said}." for kind in KINDS if (said := self._of_kind(kind))]
        return told

    def _of_kind(self, kind: str) -> str:
        found = self.of_kind(kind)
        walls, counts = [each.time for each in found if each.time], [each.tokens for each in found if each.tokens]
        told = [f"callgate is {_counted(walls, _TIMES)}"] if walls else []
        told += [f"it takes {_counted(counts, _TOKENS)}"] if counts else []
        theirs = sum(each.mode is None and each.peer is not None for each in found)
        ours = sum(each.mode is not None and each.peer is None for each in found)
        told += [f"only a peer has a right answer in {theirs}"] if theirs else []
        told += [f"only callgate has a right answer in {ours}"] if ours else []
        return "; ".join(told)

    def _measures(self) -> list[str]:
        told = []
        if self.speed_ups or self.slow_downs:
            parts = [
                f"callgate is {word} in {len(values)} ({_range(values, times)})"
                for word, values in (("faster", self.speed_ups), ("slower", self.slow_downs))
                if values
            ]
            told.append(f"Time: {'; '.join(parts)}.")
        if self.savings or self.surpluses:
            parts = [
                f"callgate takes {word} in {len(values)} ({_range(values, shown)})"
                for word, values, shown in (
                    ("fewer", self.savings, lambda share: f"{share * 100:.0f} %"),
                    ("more", self.surpluses, times),
                )
                if values
            ]
            told.append(f"Tokens: {'; '.join(parts)}.")
        return told


def headline(results: Results) -> Headline:
    """What a run says about all of its workloads."""
    found = verdicts(results)
    walls = sorted(each.time.ratio for each in found if each.time and each.time.says != "same")
    tokens = sorted(each.tokens.ratio for each in found if each.tokens and each.tokens.says != "same")
    ours = {each.name: each.title for each in results.entries if each.ours and each.mode != "direct"}
    titles = {each.name: each.title for each in results.tasks}
    return Headline(
        verdicts=found,
        speed_ups=tuple(sorted(1 / each for each in walls if each < 1)),
        slow_downs=tuple(each for each in walls if each > 1),
        savings=tuple(sorted(1 - each for each in tokens if each < 1)),
        surpluses=tuple(each for each in tokens if each > 1),
        not_right=tuple(
            (titles.get(each.workload, each.workload), ours[each.contestant])
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
    waits = f"{seconds(model.turn_seconds)} a turn and {seconds(model.token_seconds)} an output token"
    return f"The model is simulated: a script that makes no mistakes and waits {waits}."


def _counted(compared: Sequence[Held], words: dict[Says, str]) -> str:
    said = [each.says for each in compared]
    return ", ".join(told.format(said.count(which)) for which, told in words.items())


def _range(values: Sequence[float], shown: Callable[[float], str]) -> str:
    if len(values) == 1:
        return shown(values[0])
    return f"{shown(values[0])} to {shown(values[-1])}, median {shown(statistics.median(values))}"


def _workloads(count: int) -> str:
    return "workload" if count == 1 else "workloads"
