"""A selector around another that knows the outcomes of earlier selections.

1. **Left out**: a tool that is to be avoided (see `memory`) is not offered to the selector, where an equal one is: a
   tool that shares a capability with it, takes the same arguments (names, types and choices), and is not to be avoided
   itself. Both change nothing: statistics do not decide which tool changes something. Without an equal one it stays,
   and the reasoning says what speaks against it.
2. **Combinations**: where the tools that were chosen have done worse together, for queries like this one, than equal
   ones in their places, those take their places. Worse means: the most that fits what was seen of the one (Wilson) is
   less than the least that fits what was seen of the other.
3. **Another chance**: what would be left out or replaced is let be when 19 outcomes have come since it was last chosen,
   and the outcome counts. So a tool that was bad and is good again is found out, and one that stays bad costs one plan
   in 20. Its strategy's name ends in ``:again``, so that no cache keeps the plan for similar queries.
4. **Confidence**: a choice's is mixed with the success rate of its tool for queries like this one; the selector's own
   word counts as much as 5 samples.

What it did stands in the selection's reasoning. Knows nothing of how tools are chosen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from callgate.agent.planning.selection import Combination, Memory, Selection, Selector, ToolAdvice, ToolChoice
from callgate.agent.planning.tool_plan import DecomposedQuery
from callgate.errors import ConfigurationError
from callgate.tools.registry import ToolInfo

from .memory import wilson

__all__ = ["LearnedSelector", "equals"]

EXPLORE_EVERY = 20
"""A plan in 20 is what knowing a mended tool may cost."""
PRIOR_SAMPLES = 5


class LearnedSelector:
    """Chooses as `selector` does, from what is worth choosing from; a `Selector`.

    Args:
        selector: who chooses.
        memory: the outcomes of earlier selections.
        explore_every: of so many selections for which a tool would be left out, one offers it; 1 never leaves one out.
    """

    def __init__(self, selector: Selector, memory: Memory, *, explore_every: int = EXPLORE_EVERY) -> None:
        if explore_every < 1:
            raise ConfigurationError("explore_every must be 1 or more")
        self._selector = selector
        self._memory = memory
        self._explore_every = explore_every

    @property
    def name(self) -> str:
        """The selector's, and that it learns."""
        return f"{self._selector.name}+learned"

    async def select(self, query: DecomposedQuery, tools: Sequence[ToolInfo]) -> Selection:
        """Choose; raises what the selector raises."""
        infos = {info.name: info for info in tools}
        advice = self._memory.advice(query.query, tuple(infos))
        known = {each.tool: each for each in advice.tools}
        against = {name: each for name, each in known.items() if each.avoid and name in infos}
        offered, told, again = dict(infos), list[str](), set[str]()
        for name, each in against.items():
            equal = next((one for one in infos if one not in against and equals(infos[name], infos[one])), None)
            if equal is None:
                continue
            if self._has_a_chance(each.passed):
                again.add(name)
                told.append(f"{name} was offered again, to see whether it still {_said(each)}")
            else:
                del offered[name]
                told.append(f"{name} was left out, for it {_said(each)}; {equal} can do the same")
        chosen = await self._selector.select(query, list(offered.values()))
        chain, now = chosen.chain, _tools(chosen.chain)
        tried = next((each for each in advice.combinations if each.tools == now), None)
        better = _better_together(chain, infos, tried, advice.combinations) if tried else None
        if tried and better:
            if again.intersection(now) or self._has_a_chance(tried.passed):
                told.append(f"{' + '.join(now)} was let be, to see how it does now")
            else:
                chain, words = better
                told.append(words)
        told += [
            f"{name} was chosen although it {_said(against[name])}" for name in _tools(chain) if name in against
        ]  # fmt: skip
        return replace(
            chosen,
            chain=tuple(_weighed(choice, known.get(choice.tool)) for choice in chain),
            reasoning="\n".join(filter(None, [chosen.reasoning, *(f"Learned: {each}." for each in told)])),
            strategy=self.name + (":again" if again.intersection(_tools(chain)) else ""),
        )

    def _has_a_chance(self, passed: int) -> bool:
        return passed >= self._explore_every - 1


def equals(one: ToolInfo, other: ToolInfo) -> bool:
    """Whether the other tool may stand in for the one: both change nothing, they share a capability, and the other
    takes what the one takes."""
    if one.name == other.name or not (one.read_only and other.read_only):
        return False
    if not {each.casefold() for each in one.capabilities} & {each.casefold() for each in other.capabilities}:
        return False
    given, taken = _properties(one), _properties(other)
    return _takes(other, given.keys()) and all(_fits(given[name], taken[name]) for name in given.keys() & taken.keys())


def _properties(info: ToolInfo) -> Mapping[str, Any]:
    found: Mapping[str, Any] = info.parameters.get("properties", {})
    return found


def _takes(info: ToolInfo, names: Any) -> bool:
    """Whether arguments of these names fit."""
    closed = info.parameters.get("additionalProperties") is False
    return set(info.parameters.get("required", ())) <= set(names) and (
        not closed or set(names) <= _properties(info).keys()
    )


def _fits(given: Any, taken: Any) -> bool:
    """Whether what fits the one schema fits the other; yes where they do not say."""
    if not isinstance(given, Mapping) or not isinstance(taken, Mapping):
        return True
    kind, other = given.get("type"), taken.get("type")
    if isinstance(kind, str) and isinstance(other, str) and kind != other and (kind, other) != ("integer", "number"):
        return False
    values, others = given.get("enum"), taken.get("enum")
    return others is None or (values is not None and all(each in others for each in values))


def _better_together(
    chain: tuple[ToolChoice, ...], infos: Mapping[str, ToolInfo], tried: Combination, known: Sequence[Combination]
) -> tuple[tuple[ToolChoice, ...], str] | None:
    """The chain with equal tools in their places that have done better together, and what is to be said of it."""
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
    if one is None or other is None or not equals(one, other) or not _takes(other, choice.parameters):
        return None
    return replace(choice, tool=tool, reasoning=f"{choice.reasoning} (in the place of {choice.tool})".strip())


def _weighed(choice: ToolChoice, known: ToolAdvice | None) -> ToolChoice:
    if known is None or known.success_rate is None:
        return choice
    weighed = PRIOR_SAMPLES * choice.confidence + known.samples * known.success_rate
    return replace(choice, confidence=min(1.0, max(0.0, weighed / (PRIOR_SAMPLES + known.samples))))


def _tools(chain: Sequence[ToolChoice]) -> tuple[str, ...]:
    """Each once, as outcomes name them."""
    return tuple(dict.fromkeys(choice.tool for choice in chain))


def _said(advice: ToolAdvice) -> str:
    return f"is {advice.avoid}" if advice.avoid.startswith("slow") else advice.avoid
