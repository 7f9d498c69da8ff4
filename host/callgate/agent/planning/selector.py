"""Tools for a query, chosen by a model. What the model writes is held against the tools; its mistakes are told to it
once, and what is still wrong then is done by rules, or left out.

1. With many tools only those are shown that the tool search finds for the sub-queries, and those of combinations that
   worked.
2. Arguments are checked as the plan engine checks them (`usable`), references between choices included.
3. Two choices of one tool with the same arguments are one: fewer calls, the same results.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from callgate.agent.models.model import Model
from callgate.runtime import Runtime
from callgate.tools.registry import ToolInfo

from .asking import Asking
from .capabilities import kind_of
from .chain import chain_of, usable
from .fallback_plan import RuleSelector, names_found
from .outcome import Advice, Memory
from .prompts import selection_request, selection_schema, selection_system
from .reading import Reading, read_selection
from .settings import PlannerSettings
from .tool_plan import DecomposedQuery, Selection

__all__ = ["MAX_SHOWN_TOOLS", "ModelSelector", "RuleSelector"]

logger = logging.getLogger("callgate")

MAX_SHOWN_TOOLS = 24
"""The most tools that a model chooses from; the tool search narrows down more of them."""


class ModelSelector:
    """Asks a model which tools are to be used. A `Selector`.

    Args:
        model: that is asked.
        runtime: whose tools these are: it searches among them and checks their arguments.
        memory: whose advice the model receives.
        settings: `temperature` counts.
        name: of the strategy.
        max_tools: so many tools are shown.
    """

    def __init__(
        self,
        model: Model,
        runtime: Runtime,
        *,
        memory: Memory | None = None,
        settings: PlannerSettings | None = None,
        name: str = "model",
        max_tools: int = MAX_SHOWN_TOOLS,
    ) -> None:
        self.name = name
        """Of the strategy."""
        self._asking = Asking(model, (settings or PlannerSettings()).temperature)
        self._bounded = model.provider == "openai"
        self._runtime = runtime
        self._memory = memory
        self._max_tools = max_tools
        self._rules = RuleSelector(runtime)

    async def select(self, query: DecomposedQuery, tools: Sequence[ToolInfo]) -> Selection:
        """Choose.

        Raises:
            ModelError: there was no answer of the model.
        """
        if not tools:
            return Selection(chain=(), strategy=self.name, faults=("there are no tools",))
        advice = self._advice(query.query, [tool.name for tool in tools])
        shown = self._narrowed(query, tools, advice)
        names = [tool.name for tool in shown]

        def read(value: Any) -> tuple[Reading, list[str]]:
            found = read_selection(value, query, names, self._runtime.registry.resolve)
            found.choices, wrong = usable(was := found.choices, query, names, self._runtime)
            found.faults += [f"toolChain[{place}]: {each}" for place, said in wrong.items() for each in said]
            found.wrong_parts |= {was[place].sub_query for place in wrong}
            return found, found.faults

        asked = await self._asking.ask(
            selection_request(query, advice),
            system=selection_system(shown),
            schema=selection_schema(query, shown, bounded=self._bounded),
            read=read,
            keep=lambda found: bool(found.choices),
        )
        last, first = asked.readings[-1], asked.readings[0]
        best = last if last.choices or not last.faults else first
        chain, repeated = chain_of(best.choices)
        notes = [*asked.faults, *best.notes]
        if repeated:
            notes.append(f"the same call twice is one call: {', '.join(repeated)}")
        served = {choice.sub_query for choice in chain}
        for place, part in enumerate(query.sub_queries if best.faults else ()):
            if place in served or (best.choices and place not in best.wrong_parts):
                continue
            alone = replace(query, sub_queries=(replace(part, depends_on=()),))
            chosen = [replace(choice, sub_query=place) for choice in self._rules.choose(alone, tools).chain]
            chain += tuple(chosen)
            by = ", ".join(choice.tool for choice in chosen)
            notes.append(f"{part.text[:120]!r}: {f'chosen by rules: {by}' if by else 'left out'}")
        return Selection(
            chain=chain,
            reasoning=best.reasoning,
            strategy=self.name,
            source="model" if best.choices or not best.faults else "fallback",
            usage=asked.usage,
            faults=tuple(notes),
            bad_words=asked.bad_words,
        )

    def _advice(self, query: str, names: Sequence[str]) -> Advice | None:
        if self._memory is None:
            return None
        try:
            return self._memory.advice(query, names)
        except Exception:  # there is always a plan, also where nothing can be remembered
            logger.exception("the memory failed to advise on %r", query[:200])
            return None

    def _narrowed(self, query: DecomposedQuery, tools: Sequence[ToolInfo], advice: Advice | None) -> Sequence[ToolInfo]:
        """The tools that are shown, in the order in which they were given."""
        if len(tools) <= self._max_tools:
            return tools
        known = [tool.name for tool in tools]
        found = [names_found(self._runtime, part.text, known, self._max_tools) for part in query.sub_queries]
        together = [name for each in (advice.combinations if advice else ()) for name in each.tools if name in known]
        turns = together[: self._max_tools // 4]
        for rank in range(self._max_tools):
            turns += [names[rank] for names in found if rank < len(names)]
        turns += [tool.name for tool in tools if kind_of(tool) != "other"]
        kept = set(list(dict.fromkeys(turns))[: self._max_tools])
        return [tool for tool in tools if tool.name in kept]
