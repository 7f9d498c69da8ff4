"""Has a model choose the tools for a query. Faults of its answer go back to the model once; what is still wrong then is
chosen by rules, or left out.

1. Of many tools the model sees those that the tool search finds for the sub-queries, and those of combinations that
   worked.
2. The plan engine checks the arguments (`usable`), references between choices included.
3. Two choices of one tool with the same arguments become one: fewer calls, the same results.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import Any

from callgate.agent.models.model import Model
from callgate.runtime import Runtime
from callgate.tools.registry import ToolInfo

from .asking import Asking
from .capabilities import kind_of
from .chain import chain_of, usable
from .fallback_plan import RuleSelector, names_found
from .prompts import selection_request, selection_schema, selection_system
from .reading import Reading, read_selection
from .selection import Advice, Memory, Selection
from .settings import PlannerSettings
from .tool_plan import DecomposedQuery

__all__ = ["MAX_SHOWN_TOOLS", "ModelSelector", "RuleSelector"]

logger = logging.getLogger("callgate")

MAX_SHOWN_TOOLS = 24
"""The most tools that a model chooses from."""


class ModelSelector:
    """Asks a model which tools to use. A `Selector`.

    Args:
        model: the model to ask.
        runtime: the runtime with the tools.
        memory: its advice is shown to the model.
        settings: of these, `temperature` counts.
    """

    name = "model"

    def __init__(
        self,
        model: Model,
        runtime: Runtime,
        *,
        memory: Memory | None = None,
        settings: PlannerSettings | None = None,
    ) -> None:
        self._asking = Asking(model, (settings or PlannerSettings()).temperature)
        self._has_bounds = model.provider == "openai"
        self._runtime = runtime
        self._memory = memory
        self._rules = RuleSelector(runtime)

    async def select(self, query: DecomposedQuery, tools: Sequence[ToolInfo]) -> Selection:
        """Choose.

        Raises:
            ModelError: the model gave no answer.
        """
        if not tools:
            return Selection(chain=(), strategy=self.name, faults=("there are no tools",))
        advice = self._advice(query.query, [tool.name for tool in tools])
        shown = self._shown(query, tools, advice)
        names = [tool.name for tool in shown]

        def read(value: Any) -> tuple[Reading, list[str]]:
            found = read_selection(value, query, names, self._runtime.registry.resolve)
            found.choices, wrong = usable(found.choices, query, names, self._runtime)
            found.faults += [f"toolChain[{place}]: {each}" for place, faults in wrong.items() for each in faults]
            return found, found.faults

        asked = await self._asking.ask(
            selection_request(query, advice),
            system=selection_system(shown),
            schema=selection_schema(query, shown, has_bounds=self._has_bounds),
            read=read,
            is_of_use=lambda found: bool(found.choices),
        )
        best = asked.reading
        chain, repeated = chain_of(best.choices)
        notes = asked.faults
        if repeated:
            notes.append(f"the same call twice is one call: {', '.join(repeated)}")
        served = {choice.sub_query for choice in chain}
        for place, part in enumerate(query.sub_queries if best.faults else ()):
            if place in served:
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
            bad_words=tuple(asked.bad_words),
        )

    def _advice(self, query: str, names: Sequence[str]) -> Advice | None:
        if self._memory is None:
            return None
        try:
            return self._memory.advice(query, names)
        except Exception:  # a memory that fails costs no plan
            logger.exception("the memory failed to advise on %r", query[:200])
            return None

    def _shown(self, query: DecomposedQuery, tools: Sequence[ToolInfo], advice: Advice | None) -> Sequence[ToolInfo]:
        """The tools that the model sees, in the order in which they were given."""
        if len(tools) <= MAX_SHOWN_TOOLS:
            return tools
        known = [tool.name for tool in tools]
        found = [names_found(self._runtime, part.text, known, MAX_SHOWN_TOOLS) for part in query.sub_queries]
        together = [name for each in (advice.combinations if advice else ()) for name in each.tools if name in known]
        turns = together[: MAX_SHOWN_TOOLS // 4]
        turns += [name for turn in zip_longest(*found) for name in turn if name is not None]
        turns += [tool.name for tool in tools if kind_of(tool) != "other"]
        kept = set(list(dict.fromkeys(turns))[:MAX_SHOWN_TOOLS])
        return [tool for tool in tools if tool.name in kept]
