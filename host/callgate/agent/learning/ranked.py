"""A selector around another that knows what came of earlier selections.

1. **Left out**: a tool that is to be avoided (see `memory`) is not offered to the selector, where an equal one is: a
   tool that shares a capability with it, that takes the same arguments (names, types and choices), and that is not to
   be avoided itself. Both
   change nothing: which tool changes something, statistics do not decide. Without an equal one it stays, and the
   reasoning says what speaks against it.
2. **Combinations**: where the tools that were chosen have done worse together, for queries like this one, than equal
   ones in their places, those take their places. Worse means: the most that fits what was seen of the one (Wilson) is
   less than the least that fits what was seen of the other.
3. **Another chance**: of the selections for which a tool would be left out, or tools would be replaced, every 20th lets
   them be, and the outcome counts. So a tool that was bad and is good again is found out, and one that stays bad costs
   one plan in 20. Its strategy's name ends in ``:again``, so that no cache keeps it for queries like it. The count
   begins with the outcomes that have come since those tools were last chosen: a process that selects once, as
   ``callgate agent`` does, gives a chance as well.
4. **Confidence**: a choice's is mixed with the success rate of its tool for queries like this one; the selector's own
   word counts as much as 5 samples.

What it did stands in the selection's reasoning. Knows nothing of how tools are chosen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from callgate.agent.planning.outcome import Advice, Memory
from callgate.agent.planning.tool_plan import DecomposedQuery, Selection, Selector, ToolChoice
from callgate.errors import ConfigurationError
from callgate.tools.registry import ToolInfo

from .intervals import wilson

__all__ = ["LearnedSelector", "equals"]

EXPLORE_EVERY = 20
"""A plan in 20 is what knowing a mended tool may cost."""
PRIOR_SAMPLES = 5
MAX_COUNTED = 10_000
"""Of so many tools, or tools together, it is counted how often they were left out."""


class LearnedSelector:
    """Chooses as `selector` does, from what is worth choosing from; a `Selector`.

    Args:
        selector: who chooses.
        memory: what came of earlier selections.
        explore_every: of so many selections for which a tool would be left out, one offers it; 1 never leaves one out.
    """

    def __init__(self, selector: Selector, memory: Memory, *, explore_every: int = EXPLORE_EVERY) -> None:
        if explore_every < 1:
            raise ConfigurationError("explore_every must be 1 or more")
        self._selector = selector
        self._memory = memory
        self._explore_every = explore_every
        self._left_out: dict[tuple[str, ...], int] = {}

    @property
    def name(self) -> str:
        """The selector's, and that it learns."""
        return f"{self._selector.name}+learned"

    async def select(self, query: DecomposedQuery, tools: Sequence[ToolInfo]) -> Selection:
        """Choose; raises what the selector raises."""
        infos = {info.name: info for info in tools}
        advice = self._memory.advice(query.query, tuple(infos))
        offered, told, tried_again = self._offered(infos, advice)
        chosen = await self._selector.select(query, offered)
        chain, better = _better_together(chosen.chain, infos, advice)
        now = _tools(chosen.chain)
        passed = next((each.passed for each in advice.combinations if each.tools == now), 0)
        if better and (tried_again.intersection(now) or self._has_a_chance(now, passed)):
            chain, better = chosen.chain, [f"{' + '.join(now)} was let be, to see how it does now"]
        samples = {each.tool: (each.success_rate, each.samples) for each in advice.tools}
        against = {each.tool: each.avoid for each in advice.tools if each.avoid}
        told += better
        told += [f"{tool} was chosen although it {_said(against[tool])}" for tool in _tools(chain) if tool in against]
        return replace(
            chosen,
            chain=tuple(_weighed(choice, *samples.get(choice.tool, (None, 0))) for choice in chain),
            reasoning="\n".join(filter(None, [chosen.reasoning, *(f"Learned: {each}." for each in told)])),
            strategy=self.name + (":again" if tried_again.intersection(_tools(chain)) else ""),
        )

    def _offered(self, infos: Mapping[str, ToolInfo], advice: Advice) -> tuple[list[ToolInfo], list[str], set[str]]:
        """The tools to choose from, what is to be said of it, and those that get another chance."""
        against = {each.tool: each.avoid for each in advice.tools if each.avoid and each.tool in infos}
        passed = {each.tool: each.passed for each in advice.tools}
        offered, told, tried_again = dict(infos), [], set()
        for tool, why in against.items():
            equal = [each for each in infos.values() if each.name not in against and equals(infos[tool], each)]
            if not equal:
                continue
            if self._has_a_chance((tool,), passed[tool]):
                tried_again.add(tool)
                told.append(f"{tool} was offered again, to see whether it still {_said(why)}")
                continue
            del offered[tool]
            told.append(f"{tool} was left out, for it {_said(why)}; {equal[0].name} can do the same")
        return list(offered.values()), told, tried_again

    def _has_a_chance(self, tools: tuple[str, ...], passed: int) -> bool:
        count = self._left_out.pop(tools, passed) + 1
        self._left_out[tools] = count
        if len(self._left_out) > MAX_COUNTED:
            del self._left_out[next(iter(self._left_out))]
        return count % self._explore_every == 0


def equals(one: ToolInfo, other: ToolInfo) -> bool:
    """Whether the other tool may stand in for the one: both change nothing, they share a capability, and it takes what
    the one takes. What is changed, and by which tool, a selector decides and no statistics."""
    if one.name == other.name or not (one.read_only and other.read_only):
        return False
    theirs = {each.casefold() for each in other.capabilities}
    if not any(each.casefold() in theirs for each in one.capabilities):
        return False
    if not (_required(other) <= _named(one) and (_named(one) <= _named(other) or not _closed(other))):
        return False
    return all(_fits(_property(one, name), _property(other, name)) for name in _named(one) & _named(other))


def _property(info: ToolInfo, name: str) -> Mapping[str, Any]:
    found = info.parameters["properties"][name]
    return found if isinstance(found, Mapping) else {}


def _fits(given: Mapping[str, Any], taken: Mapping[str, Any]) -> bool:
    """Whether what fits the one schema fits the other; yes where they do not say."""
    kind, other = given.get("type"), taken.get("type")
    if isinstance(kind, str) and isinstance(other, str) and kind != other and (kind, other) != ("integer", "number"):
        return False
    values, others = given.get("enum"), taken.get("enum")
    if not isinstance(others, list):
        return True
    return isinstance(values, list) and all(each in others for each in values)


def _named(info: ToolInfo) -> set[str]:
    return set(info.parameters.get("properties", ()))


def _required(info: ToolInfo) -> set[str]:
    return set(info.parameters.get("required", ()))


def _closed(info: ToolInfo) -> bool:
    return info.parameters.get("additionalProperties") is False


def _takes(info: ToolInfo, choice: ToolChoice) -> bool:
    given = set(choice.parameters)
    return _required(info) <= given and (given <= _named(info) or not _closed(info))


def _better_together(
    chain: tuple[ToolChoice, ...], infos: Mapping[str, ToolInfo], advice: Advice
) -> tuple[tuple[ToolChoice, ...], list[str]]:
    """The chain with equal tools in their places that have done better together, and what is to be said of it."""
    now = _tools(chain)
    tried = {each.tools: (each.successes, each.tries) for each in advice.combinations}
    if now not in tried:
        return chain, []
    _, at_most = wilson(*tried[now])
    for tools, (successes, tries) in tried.items():
        at_least, _ = wilson(successes, tries)
        if tools == now or len(tools) != len(now) or at_least <= at_most:
            continue
        instead = dict(zip(now, tools, strict=True))
        changed = [_instead(choice, instead[choice.tool], infos) for choice in chain]
        if None not in changed:
            done, of = tried[now]
            return tuple(filter(None, changed)), [
                f"{' + '.join(tools)} instead of {' + '.join(now)}: {successes} of {tries} like this succeeded, "
                f"against {done} of {of}"
            ]
    return chain, []


def _instead(choice: ToolChoice, tool: str, infos: Mapping[str, ToolInfo]) -> ToolChoice | None:
    if tool == choice.tool:
        return choice
    one, other = infos.get(choice.tool), infos.get(tool)
    if one is None or other is None or not equals(one, other) or not _takes(other, choice):
        return None
    return replace(choice, tool=tool, reasoning=f"{choice.reasoning} (in the place of {choice.tool})".strip())


def _weighed(choice: ToolChoice, rate: float | None, samples: int) -> ToolChoice:
    if rate is None:
        return choice
    weighed = (PRIOR_SAMPLES * choice.confidence + samples * rate) / (PRIOR_SAMPLES + samples)
    return replace(choice, confidence=min(1.0, max(0.0, weighed)))


def _tools(chain: Sequence[ToolChoice]) -> tuple[str, ...]:
    """Each once, as outcomes name them."""
    return tuple(dict.fromkeys(choice.tool for choice in chain))


def _said(why: str) -> str:
    return f"is {why}" if why.startswith("slow") else why
