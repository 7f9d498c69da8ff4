"""What selections failed, and what with: the log of selections, added up for people. Arithmetic only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from callgate.agent.planning.outcome import SelectionOutcome

__all__ = ["Analysis", "Tally", "analyse"]

MAX_ROWS = 20
MAX_ERROR_CHARACTERS = 200


@dataclass(frozen=True, kw_only=True, slots=True)
class Tally:
    """How often something was chosen, and how often that failed.

    Attributes:
        name: of a strategy, a tool, tools together, or the beginning of an error.
        selections: with it.
        failures: of them.
    """

    name: str
    selections: int
    failures: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Analysis:
    """Outcomes added up; each list begins with what failed most often, and has 20 rows at most.

    Attributes:
        selections: all of them.
        failures: those that gave no answer.
        strategies: by the selection strategy.
        tools: by tool; a failure is one of its own calls.
        combinations: by the tools of a plan.
        errors: by error; of failed selections only.
        newest_failures: whole, with query and reasoning.
    """

    selections: int
    failures: int
    strategies: tuple[Tally, ...]
    tools: tuple[Tally, ...]
    combinations: tuple[Tally, ...]
    errors: tuple[Tally, ...]
    newest_failures: tuple[SelectionOutcome, ...]


def analyse(outcomes: Iterable[SelectionOutcome]) -> Analysis:
    """Add outcomes up, the oldest first: those of `SelectionMemory.outcomes`."""
    known = list(outcomes)
    failed = [outcome for outcome in known if not outcome.success]
    errors = [outcome.error[:MAX_ERROR_CHARACTERS] for outcome in failed if outcome.error]
    return Analysis(
        selections=len(known),
        failures=len(failed),
        strategies=_tallies((each.strategy, not each.success) for each in known),
        tools=_tallies((tool, tool in each.failed_tools) for each in known for tool in dict.fromkeys(each.tools)),
        combinations=_tallies((" + ".join(each.tools), not each.success) for each in known if len(each.tools) > 1),
        errors=_tallies((error, True) for error in errors),
        newest_failures=tuple(reversed(failed[-MAX_ROWS:])),
    )


def _tallies(seen: Iterable[tuple[str, bool]]) -> tuple[Tally, ...]:
    selections: Counter[str] = Counter()
    failures: Counter[str] = Counter()
    for name, failed in seen:
        selections[name] += 1
        failures[name] += failed
    worst = sorted(selections, key=lambda name: (-failures[name], -selections[name], name))[:MAX_ROWS]
    return tuple(Tally(name=name, selections=selections[name], failures=failures[name]) for name in worst)
