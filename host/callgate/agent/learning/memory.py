"""Remembers outcomes of selections, and advises on the next one.

1. Advice for a query rests on the newest outcomes of similar queries: how often each tool's selections succeeded, and
   which tools were chosen together with success. A fallback that stood in is not a success of the tool. The similarity
   of two queries is Dice's coefficient of their terms: twice the shared terms over all terms of both. Numbers are
   values, not terms.
2. A tool should be avoided where it fails often or is slow. A tool fails often where the lower bound of Wilson's 80 %
   interval of its failure rate is above 20 %, of 5 outcomes at least: 3 failures of 5 are enough; 2 of 5 or 5 of 20 are
   not. Outcomes of similar queries count where there are 5, else the tool's newest 64.
3. A tool is forgiven when its newest 5 outcomes all succeeded.
4. A tool is slow where an attempt takes twice as long, on average, as another tool with one of its capabilities, which
   is offered too and does not fail often; by the registry's statistics, of 20 attempts of each at least.
5. The newest 10,000 outcomes are remembered. Texts are bounded, because a model or a user wrote them.

Knows no file and no clock: `selections_file` keeps the outcomes. Belongs to one event loop, like `Statistics`.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from heapq import nlargest
from statistics import NormalDist, fmean

from callgate.agent.planning.selection import Advice, Combination, SelectionOutcome, ToolAdvice
from callgate.search.words import query_terms
from callgate.tools import Registry

__all__ = ["MAX_OUTCOMES", "SelectionMemory", "wilson"]

MAX_OUTCOMES = 10_000
"""About 1.5 KB each. Advice looks at all of them, in some 10 ms."""
MAX_TOOLS = 64
"""Tools of one outcome that are remembered."""
MAX_TEXT_CHARACTERS = 1_000
"""Of a query, a name, a reasoning and an error."""

LEAST_SIMILARITY = 0.4
"""Queries below are not similar: two questions of four words that share one have 0.25, that share two 0.5."""
MOST_ALIKE = 64
"""The most similar queries that count: enough to know a rate to some 12 points."""
MIN_SAMPLES = 5
"""Fewer outcomes say nothing against a tool: any tool fails three times in a row some day."""
MOST_FAILURES = 0.2
"""Failure rate, after the gate's retries, above which a tool should be avoided."""
CONFIDENCE = 0.8
"""Of the interval. A tool avoided by mistake (once in 10) costs little, because an equal tool is there; more confidence
needs twice the outcomes, some of them failures."""
WINDOW = 64
"""The newest outcomes of a tool that count, so that a repaired tool is noticed."""
FORGIVEN_AFTER = 5
"""Successes in a row. A tool that fails every other time reaches them once in 32 times, and is soon avoided again."""
SLOW_FACTOR = 2.0
MIN_ATTEMPTS = 20
"""Attempts with a known duration, as for adaptive timeouts."""
MAX_COMBINATIONS = 16
"""The best combinations, with room for a bad one beside them."""
_LAG = 16


class SelectionMemory:
    """Outcomes, and advice from them; a `Memory`.

    Args:
        registry: its statistics and capabilities tell which tools are slow; without a registry, no tool is slow.
    """

    def __init__(self, registry: Registry | None = None) -> None:
        self._registry = registry
        self._outcomes: deque[tuple[SelectionOutcome, frozenset[str]]] = deque(maxlen=MAX_OUTCOMES)
        self.on_note: Callable[[SelectionOutcome], None] | None = None
        """Called with each new outcome; set by the file that keeps them."""

    def __len__(self) -> int:
        return len(self._outcomes)

    @property
    def outcomes(self) -> tuple[SelectionOutcome, ...]:
        """The remembered outcomes, the oldest first."""
        return tuple(outcome for outcome, _ in self._outcomes)

    def note(self, outcome: SelectionOutcome) -> None:
        """Remember an outcome. Quick, without I/O."""
        bounded = _bounded(outcome)
        self._outcomes.append((bounded, _terms_of(bounded.query)))
        if self.on_note is not None:
            self.on_note(bounded)

    def load(self, earlier: Sequence[SelectionOutcome]) -> None:
        """Put outcomes of earlier runs before those of this one, the oldest first. `on_note` is not called."""
        known = set(earlier)
        newer = [outcome for outcome, _ in self._outcomes if outcome not in known]
        self._outcomes.clear()
        self._outcomes.extend((outcome, _terms_of(outcome.query)) for outcome in (*earlier, *newer))

    def advice(self, query: str, tools: Sequence[str]) -> Advice:
        """Advise on these tools by the outcomes of similar queries.

        Args:
            query: in the user's words.
            tools: names of the tools that may be chosen.
        """
        offered, terms = set(tools), _terms_of(query)
        passed: dict[str, int] = {}
        failed: dict[str, list[bool]] = {}  # of each tool, the newest first
        found: list[tuple[float, int, SelectionOutcome]] = []
        for age, (outcome, its_terms) in enumerate(reversed(self._outcomes)):
            for tool in offered.intersection(outcome.tools):
                passed.setdefault(tool, age)
                failed.setdefault(tool, []).append(tool in outcome.failed_tools)
            if shared := len(terms & its_terms):
                found.append((2 * shared / (len(terms) + len(its_terms)), -age, outcome))
        alike = nlargest(MOST_ALIKE, (each for each in found if each[0] >= LEAST_SIMILARITY))
        like_this: dict[str, list[SelectionOutcome]] = {}
        for _, _, outcome in alike:
            for tool in offered.intersection(outcome.tools):
                like_this.setdefault(tool, []).append(outcome)
        avoid = _unreliable(failed, like_this)
        avoid |= self._slow(offered - avoid.keys())
        advised = [
            ToolAdvice(
                tool=tool,
                samples=len(seen := like_this.get(tool, [])),
                success_rate=fmean(each.success and tool not in each.failed_tools for each in seen) if seen else None,
                avoid=avoid.get(tool, ""),
                passed=passed.get(tool, len(self)) if tool in avoid else 0,
            )
            for tool in sorted(like_this.keys() | avoid.keys())
        ]
        return Advice(tools=tuple(advised), combinations=_combinations(alike, offered))

    def _slow(self, sound: Iterable[str]) -> dict[str, str]:
        """The tools that are slow compared with others of the same capability, and why."""
        groups: dict[str, list[tuple[float, str]]] = {}
        for tool in sound:
            if self._registry is None or tool not in self._registry:
                continue
            stats = self._registry.statistics.of(tool, lag=_LAG)
            if stats is not None and stats.samples >= MIN_ATTEMPTS:
                for capability in {each.casefold() for each in self._registry.get(tool).capabilities}:
                    groups.setdefault(capability, []).append((stats.average_seconds, tool))
        found = {}
        for timed in groups.values():
            quickest, other = min(timed)
            for seconds, tool in timed:
                if seconds > SLOW_FACTOR * quickest:
                    found[tool] = f"slow: {seconds:.3g} s on average, where {other} can do it in {quickest:.3g} s"
        return found


def wilson(successes: int, samples: int, confidence: float = 0.95) -> tuple[float, float]:
    """The lower and upper bound of a share by Wilson's interval (1927); (0, 1) without samples."""
    if not samples:
        return 0.0, 1.0
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    share, square = successes / samples, z * z / samples
    middle = (share + square / 2) / (1 + square)
    half = z / (1 + square) * math.sqrt(share * (1 - share) / samples + square / (4 * samples))
    return max(0.0, middle - half), min(1.0, middle + half)


def _terms_of(query: str) -> frozenset[str]:
    return frozenset(term for term in query_terms(query) if not term.isdigit())


def _unreliable(
    failed: Mapping[str, Sequence[bool]], like_this: Mapping[str, Sequence[SelectionOutcome]]
) -> dict[str, str]:  # fmt: skip
    """The tools that fail often, and the reason."""
    found = {}
    for tool, of_late in failed.items():
        if not any(of_late[:FORGIVEN_AFTER]):
            continue
        seen, whose = [tool in each.failed_tools for each in like_this.get(tool, ())], "for queries like this one"
        if len(seen) < MIN_SAMPLES:
            seen, whose = list(of_late[:WINDOW]), "of late"
        least, _ = wilson(sum(seen), len(seen), CONFIDENCE)
        if len(seen) >= MIN_SAMPLES and least > MOST_FAILURES:
            found[tool] = f"fails often: {sum(seen)} of {len(seen)} times {whose}, at least {least:.0%} by Wilson"
    return found


def _combinations(
    alike: Iterable[tuple[float, int, SelectionOutcome]], offered: set[str]
) -> tuple[Combination, ...]:  # fmt: skip
    """Combinations of offered tools, those with the highest lower bound of the success rate first."""
    seen: dict[tuple[str, ...], list[tuple[int, bool]]] = {}
    for _, negative_age, outcome in alike:
        if outcome.tools and offered.issuperset(outcome.tools):
            success = outcome.success and not outcome.failed_tools
            seen.setdefault(outcome.tools, []).append((-negative_age, success))
    made = [
        Combination(
            tools=tools,
            tries=len(tries),
            successes=sum(success for _, success in tries),
            passed=min(age for age, _ in tries),
        )
        for tools, tries in seen.items()
    ]
    return tuple(sorted(made, key=lambda each: (-wilson(each.successes, each.tries)[0], each.tools))[:MAX_COMBINATIONS])


def _bounded(outcome: SelectionOutcome) -> SelectionOutcome:
    return replace(
        outcome,
        query=_text(outcome.query),
        tools=tuple(map(_text, outcome.tools[:MAX_TOOLS])),
        strategy=_text(outcome.strategy),
        failed_tools=tuple(map(_text, outcome.failed_tools[:MAX_TOOLS])),
        reasoning=_text(outcome.reasoning),
        error=_text(outcome.error),
    )


def _text(text: str) -> str:
    """The text cut to its bound, with ``?`` for half a character, which no file can hold."""
    return text[:MAX_TEXT_CHARACTERS].encode(errors="replace").decode()
