"""A selector around another selector that uses the outcomes of earlier selections.

1. **Left out**: a tool that should be avoided (see `memory`) is not offered to the selector where another tool can
   stand in: one that shares a capability, takes the same arguments (names, types and choices), and should not be
   avoided itself. Neither changes anything: statistics never decide which tool changes something. Without another tool
   it stays, and the reasoning says why it should be avoided.
2. **Combinations**: where the chosen tools did worse together, for similar queries, than tools that can stand in for
   them, those replace them. Worse means: the upper bound of the one success rate (Wilson) is below the lower bound of
   the other.
3. **Another chance**: what would be left out or replaced stays when 19 outcomes have come since it was last chosen. So
   a repaired tool is found, and a tool that stays bad costs one plan in 20. The strategy's name then ends in
   ``:again``, so that no cache keeps the plan.
4. **Confidence**: a choice's confidence is mixed with the success rate of its tool for similar queries; the selector's
   own confidence counts as much as 5 samples.

The selection's reasoning tells what was changed. Does not know how tools are chosen.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from callgate.agent.planning.capabilities import shared_capabilities
from callgate.agent.planning.selection import Combination, Memory, Selection, Selector, ToolAdvice, ToolChoice
from callgate.agent.planning.tool_plan import DecomposedQuery
from callgate.errors import ConfigurationError
from callgate.tools.registry import ToolInfo

from .memory import wilson

__all__ = ["LearnedSelector", "can_stand_in"]

EXPLORE_EVERY = 20
"""One plan in 20 tries whether a bad tool was repaired."""
PRIOR_SAMPLES = 5


class LearnedSelector:
    """Chooses as `selector` does, without tools that should be avoided; a `Selector`.

    Args:
        selector: chooses the tools.
        memory: the outcomes of earlier selections.
        explore_every: one in this many selections offers a tool that would be left out; 1 leaves out no tool.
    """

    def __init__(self, selector: Selector, memory: Memory, *, explore_every: int = EXPLORE_EVERY) -> None:
        if explore_every < 1:
            raise ConfigurationError("explore_every must be 1 or more")
        self._selector = selector
        self._memory = memory
        self._explore_every = explore_every

    @property
    def name(self) -> str:
        """The selector's name, with ``+learned``."""
        return f"{self._selector.name}+learned"

    async def select(self, query: DecomposedQuery, tools: Sequence[ToolInfo]) -> Selection:
        """Choose.

        Raises:
            ModelError: the selector raised it.
        """
        infos = {info.name: info for info in tools}
        advice = self._memory.advice(query.query, tuple(infos))
        known = {each.tool: each for each in advice.tools}
        against = {name: each for name, each in known.items() if each.avoid and name in infos}
        offered, notes, again = dict(infos), list[str](), set[str]()
        for name, each in against.items():
            equal = next((one for one in infos if one not in against and can_stand_in(infos[one], infos[name])), None)
            if equal is None:
                continue
            if self._has_a_chance(each.passed):
                again.add(name)
                notes.append(f"{name} was offered again, to see whether it still {_reason(each)}")
            else:
                del offered[name]
                notes.append(f"{name} was left out because it {_reason(each)}; {equal} can do the same")
        chosen = await self._selector.select(query, list(offered.values()))
        chain, now = chosen.chain, _tools(chosen.chain)
        tried = next((each for each in advice.combinations if each.tools == now), None)
        better = _better_together(chain, infos, tried, advice.combinations) if tried else None
        if tried and better:
            if again.intersection(now) or self._has_a_chance(tried.passed):
                notes.append(f"{' + '.join(now)} stayed, to see how it does now")
            else:
                chain, words = better
                notes.append(words)
        notes += [
            f"{name} was chosen although it {_reason(against[name])}" for name in _tools(chain) if name in against
        ]  # fmt: skip
        return replace(
            chosen,
            chain=tuple(_weighed(choice, known.get(choice.tool)) for choice in chain),
            reasoning="\n".join(filter(None, [chosen.reasoning, *(f"Learned: {each}." for each in notes)])),
            strategy=self.name + (":again" if again.intersection(_tools(chain)) else ""),
        )

    def _has_a_chance(self, passed: int) -> bool:
        return passed >= self._explore_every - 1


def can_stand_in(other: ToolInfo, one: ToolInfo) -> bool:
    """Whether `other` can replace `one`: neither changes anything, they share a capability, and `other` takes the
    arguments that `one` takes."""
    if one.name == other.name or not (one.read_only and other.read_only and shared_capabilities(one, other)):
        return False
    given, taken = _properties(one), _properties(other)
    return _takes(other, given) and all(
        given[name].get(key) == taken[name].get(key) for name in given.keys() & taken.keys() for key in ("type", "enum")
    )


def _takes(info: ToolInfo, names: Collection[str]) -> bool:
    """Whether a tool may be called with arguments of just these names."""
    closed = info.parameters.get("additionalProperties") is False
    return set(info.parameters.get("required", ())) <= set(names) and (
        not closed or set(names) <= _properties(info).keys()
    )


def _properties(info: ToolInfo) -> dict[str, Mapping[str, Any]]:
    """The schemas of a tool's arguments; an empty one for `true`, which takes anything."""
    found = info.parameters.get("properties", {})
    return {name: each if isinstance(each, Mapping) else {} for name, each in found.items()}


def _better_together(
    chain: tuple[ToolChoice, ...], infos: Mapping[str, ToolInfo], tried: Combination, known: Sequence[Combination]
) -> tuple[tuple[ToolChoice, ...], str] | None:
    """The chain with other tools in their places that did better together, and a note."""
    _, at_most = wilson(tried.successes, tried.tries)
    for each in known:
        at_least, _ = wilson(each.successes, each.tries)
        if len(each.tools) != len(tried.tools) or at_least <= at_most:
            continue
        instead = dict(zip(tried.tools, each.tools, strict=True))
        changed = [_instead(choice, instead[choice.tool], infos) for choice in chain]
        if None not in changed:
            return tuple(filter(None, changed)), (
                f"{' + '.join(each.tools)} instead of {' + '.join(tried.tools)}: {each.successes} of {each.tries} like "
                f"this succeeded, against {tried.successes} of {tried.tries}"
            )
    return None


def _instead(choice: ToolChoice, tool: str, infos: Mapping[str, ToolInfo]) -> ToolChoice | None:
    if tool == choice.tool:
        return choice
    one, other = infos.get(choice.tool), infos.get(tool)
    if one is None or other is None or not can_stand_in(other, one) or not _takes(other, choice.parameters):
        return None
    return replace(choice, tool=tool, reasoning=f"{choice.reasoning} (in the place of {choice.tool})".strip())


def _weighed(choice: ToolChoice, known: ToolAdvice | None) -> ToolChoice:
    if known is None or known.success_rate is None:
        return choice
    weighed = PRIOR_SAMPLES * choice.confidence + known.samples * known.success_rate
    return replace(choice, confidence=min(1.0, max(0.0, weighed / (PRIOR_SAMPLES + known.samples))))


def _tools(chain: Sequence[ToolChoice]) -> tuple[str, ...]:
    """The tools, each once, as outcomes name them."""
    return tuple(dict.fromkeys(choice.tool for choice in chain))


def _reason(advice: ToolAdvice) -> str:
    return f"is {advice.avoid}" if advice.avoid.startswith("slow") else advice.avoid
