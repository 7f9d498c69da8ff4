"""What came of selections, remembered, and the advice that it gives for the next one.

1. For a query, the newest outcomes of queries like it are looked at (see `similar`): how often each tool's selections
   succeeded, and which tools were chosen together with success. A fallback that stood in is no success of the tool's.
2. A tool is to be avoided where it fails often or is slow. It fails often where the least failure rate that fits what
   was seen (the lower bound of Wilson's 80 % interval) is above 20 %, of 5 outcomes at least: so 3 failures of 5 are
   enough, and 2 of 5 or 5 of 20 are not. What was seen for queries like this one counts, where that is 5 outcomes;
   else all of the tool's newest 64.
3. It is forgiven when its newest 5 outcomes all succeeded.
4. It is slow where an attempt takes it twice as long, on average, as another tool with one of its capabilities, which
   is offered too and does not fail often; by the registry's statistics, of 20 attempts of each at least.
5. The newest 10,000 outcomes are remembered. Texts are bounded: they are a model's and a user's.

Knows no file and no clock: `selections_file` keeps it. Belongs to one event loop, like `Statistics`.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence

from callgate.agent.planning.outcome import Advice, Combination, SelectionOutcome, ToolAdvice
from callgate.errors import ConfigurationError
from callgate.tools import Registry
from callgate.tools.names import MAX_NAME_CHARACTERS
from callgate.tools.statistics import ToolStats

from .intervals import wilson
from .similar import Similar, terms_of

__all__ = ["MAX_OUTCOMES", "SelectionMemory", "bounded"]

MAX_OUTCOMES = 10_000
"""So many outcomes are remembered; about 1.5 KB each."""
MAX_TOOLS = 64
"""So many tools of an outcome are remembered."""
MAX_TEXT_CHARACTERS = 1_000
"""So much of a query, a reasoning and an error is remembered."""

MIN_SAMPLES = 5
"""Fewer outcomes say nothing against a tool: it is unlucky three times in a row soon enough."""
MOST_FAILURES = 0.2
"""A tool that fails more often than that has better alternatives, retries included: the gate has made them."""
CONFIDENCE = 0.8
"""Of that interval. A tool that is avoided by mistake (once in 10) costs little, an equal one is taken; to be surer
takes twice the outcomes, and some of them are failures."""
WINDOW = 64
"""So many of a tool's newest outcomes count, so that a tool that was mended is known to be."""
MAX_WINDOWS = 10_000
"""Of so many tools failures are known; those that were not called for the longest go first."""
FORGIVEN_AFTER = 5
"""Successes in a row. A tool that fails every other time has them once in 32 times, and is avoided soon again."""
SLOW_FACTOR = 2.0
MIN_ATTEMPTS = 20
"""Of a tool's durations, as for adaptive timeouts."""
MAX_COMBINATIONS = 16
"""The best ones, and for a chain that did badly the chance to be seen beside them."""
_LAG = 16


class SelectionMemory:
    """Outcomes, and advice from them; a `Memory`.

    Args:
        registry: whose statistics and capabilities say which tools are slow; without one, none is.
        max_outcomes: so many are remembered, the newest.
    """

    def __init__(self, registry: Registry | None = None, *, max_outcomes: int = MAX_OUTCOMES) -> None:
        if max_outcomes < 1:
            raise ConfigurationError("max_outcomes must be 1 or more")
        self._registry = registry
        self._max = max_outcomes
        self._outcomes: dict[int, SelectionOutcome] = {}  # by number, the oldest first
        self._next = 0
        self._similar = Similar()
        self._failed: dict[str, deque[bool]] = {}  # by tool, the one called last at the end
        self._chosen: dict[str, int] = {}  # by tool, the number of its newest outcome
        self.on_note: Callable[[SelectionOutcome], None] | None = None
        """Called with each new outcome; set by whoever keeps them."""
        self._in_file: set[int] = set()  # numbers of outcomes that whoever keeps them has
        self._groups: tuple[object, dict[str, tuple[str, ...]]] = (None, {})

    def __len__(self) -> int:
        return len(self._outcomes)

    @property
    def outcomes(self) -> tuple[SelectionOutcome, ...]:
        """What is remembered, the oldest first."""
        return tuple(self._outcomes.values())

    def note(self, outcome: SelectionOutcome) -> None:
        """Take note of an outcome; quick, no I/O. One without tools says nothing of any, and is only remembered."""
        taken = bounded(outcome)
        self._take(taken)
        if self.on_note is not None:
            self._in_file.add(self._next - 1)
            self.on_note(taken)

    def advice(self, query: str, tools: Sequence[str]) -> Advice:
        """What outcomes of queries like this one say about these tools; under a millisecond.

        Args:
            query: the words of the new one.
            tools: names of those that may be chosen.
        """
        offered = set(tools)
        numbers = self._similar.like(terms_of(query))
        alike = [self._outcomes[number] for number in numbers]
        tries: Counter[str] = Counter()
        successes: Counter[str] = Counter()
        failed: dict[str, list[bool]] = {}
        for outcome in alike:
            for tool in offered.intersection(outcome.tools):
                tries[tool] += 1
                successes[tool] += outcome.success and tool not in outcome.failed_tools
                failed.setdefault(tool, []).append(tool in outcome.failed_tools)
        avoid = self._unreliable(offered, failed)
        avoid |= self._slow(offered, avoid)
        return Advice(
            tools=tuple(
                ToolAdvice(
                    tool=tool,
                    samples=tries[tool],
                    success_rate=successes[tool] / tries[tool] if tries[tool] else None,
                    avoid=avoid.get(tool, ""),
                    passed=self._passed(self._chosen.get(tool)) if tool in avoid else 0,
                )
                for tool in sorted(tries.keys() | avoid.keys())
            ),
            combinations=self._combinations(numbers, offered),
        )

    def _passed(self, number: int | None) -> int:
        """Outcomes since the one of this number; where there was none, all."""
        return len(self._outcomes) if number is None else self._next - 1 - number

    def _combinations(self, numbers: Iterable[int], offered: set[str]) -> tuple[Combination, ...]:
        """Those of offered tools only, the surest first: by the least success rate that fits what was seen."""
        tries: Counter[tuple[str, ...]] = Counter()
        successes: Counter[tuple[str, ...]] = Counter()
        newest: dict[tuple[str, ...], int] = {}
        for number in numbers:
            outcome = self._outcomes[number]
            if outcome.tools and offered.issuperset(outcome.tools):
                tries[outcome.tools] += 1
                successes[outcome.tools] += outcome.success and not outcome.failed_tools
                newest[outcome.tools] = max(number, newest.get(outcome.tools, number))
        best = sorted(tries, key=lambda tools: (-wilson(successes[tools], tries[tools])[0], tools))[:MAX_COMBINATIONS]
        return tuple(
            Combination(tools=tools, tries=tries[tools], successes=successes[tools], passed=self._passed(newest[tools]))
            for tools in best
        )

    def _unreliable(self, offered: set[str], like_this: Mapping[str, list[bool]]) -> dict[str, str]:
        """Those that fail often, and why it is said of them."""
        found = {}
        for tool in offered & self._failed.keys():
            newest = self._failed[tool]
            if not any(newest) or not any(list(newest)[-FORGIVEN_AFTER:]):
                continue
            seen, whose = like_this.get(tool, []), "for queries like this one"
            if len(seen) < MIN_SAMPLES:
                seen, whose = list(newest), "of late"
            if len(seen) < MIN_SAMPLES:
                continue
            least, _ = wilson(sum(seen), len(seen), CONFIDENCE)
            if least > MOST_FAILURES:
                found[tool] = f"fails often: {sum(seen)} of {len(seen)} times {whose}, at least {least:.0%} by Wilson"
        return found

    def _slow(self, offered: set[str], unreliable: Mapping[str, str]) -> dict[str, str]:
        """Those that are slow against others, and against which."""
        found = {}
        for group in self._capable().values():
            timed = [(stats.average_seconds, tool) for tool in group if (stats := self._timed(tool, offered))]
            sound = [each for each in timed if each[1] not in unreliable]
            if len(timed) < 2 or not sound:
                continue
            quickest, other = min(sound)
            for seconds, tool in timed:
                if seconds > SLOW_FACTOR * quickest and tool not in unreliable:
                    found[tool] = f"slow: {seconds:.3g} s on average, where {other} can do it in {quickest:.3g} s"
        return found

    def _timed(self, tool: str, offered: set[str]) -> ToolStats | None:
        if self._registry is None or tool not in offered:
            return None
        stats = self._registry.statistics.of(tool, lag=_LAG)
        return stats if stats is not None and stats.samples >= MIN_ATTEMPTS else None

    def _capable(self) -> Mapping[str, tuple[str, ...]]:
        """Tools by capability, of those that several tools have."""
        if self._registry is None:
            return {}
        tools = self._registry.tools()
        if self._groups[0] is not tools:
            groups: dict[str, list[str]] = {}
            for tool in tools:
                for capability in dict.fromkeys(each.casefold() for each in tool.capabilities):
                    groups.setdefault(capability, []).append(tool.name)
            self._groups = tools, {name: tuple(group) for name, group in groups.items() if len(group) > 1}
        return self._groups[1]

    def _take(self, outcome: SelectionOutcome) -> None:
        self._outcomes[self._next] = outcome
        self._similar.add(self._next, terms_of(outcome.query))
        self._next += 1
        for tool in dict.fromkeys(outcome.tools):
            self._chosen[tool] = self._next - 1
            window = self._failed.pop(tool, None) or deque(maxlen=WINDOW)
            window.append(tool in outcome.failed_tools)
            self._failed[tool] = window
        while len(self._failed) > MAX_WINDOWS:
            oldest_tool = next(iter(self._failed))
            del self._failed[oldest_tool], self._chosen[oldest_tool]
        if len(self._outcomes) > self._max:
            oldest = next(iter(self._outcomes))
            del self._outcomes[oldest]
            self._in_file.discard(oldest)
            self._similar.forget(oldest)

    def load(self, earlier: Sequence[SelectionOutcome]) -> None:
        """Begin with outcomes of earlier times, the oldest first. They are no new outcomes.

        What was given to `on_note` or loaded before is forgotten first: it is among them.
        """
        newer = [outcome for number, outcome in self._outcomes.items() if number not in self._in_file]
        self._outcomes, self._failed, self._chosen, self._similar = {}, {}, {}, Similar()
        self._in_file.clear()
        for outcome in earlier:
            self._in_file.add(self._next)
            self._take(bounded(outcome))
        for outcome in newer:
            self._take(outcome)


def bounded(outcome: SelectionOutcome) -> SelectionOutcome:
    """The outcome with texts that can be kept, and numbers that are ones."""
    return SelectionOutcome(
        query=_text(outcome.query, MAX_TEXT_CHARACTERS),
        tools=_names(outcome.tools),
        strategy=_text(outcome.strategy, MAX_NAME_CHARACTERS),
        success=bool(outcome.success),
        seconds=outcome.seconds if math.isfinite(outcome.seconds) and outcome.seconds >= 0 else 0.0,
        cost=outcome.cost if outcome.cost is not None and math.isfinite(outcome.cost) else None,
        confidence=outcome.confidence if outcome.confidence is not None and 0 <= outcome.confidence <= 1 else None,
        failed_tools=_names(outcome.failed_tools),
        reasoning=_text(outcome.reasoning, MAX_TEXT_CHARACTERS),
        error=_text(outcome.error, MAX_TEXT_CHARACTERS),
    )


def _text(text: str, most: int) -> str:
    """Without halves of characters: JSON that a model wrote may hold them, and no file takes them."""
    return text[:most].encode(errors="replace").decode()


def _names(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(_text(name, MAX_NAME_CHARACTERS) for name in tuple(names)[:MAX_TOOLS])
