"""Tools for a query, chosen by a model. What the model writes is held against the tools; its mistakes are told to it
once, and what is still wrong then is done by rules, or left out.

1. With many tools only those are shown that the tool search finds for the sub-queries, and those of combinations that
   worked.
2. Arguments are checked as the plan engine checks them (`Runtime.check_plan`), references between choices included.
3. A choice that refers to one that is left out is left out as well; so are those that refer to each other in a circle.
4. Two choices of one tool with the same arguments are one: fewer calls, the same results.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from dataclasses import replace

from callgate.agent.models.model import Model
from callgate.errors import InvalidArguments
from callgate.runtime import Runtime
from callgate.tools.registry import ToolInfo

from .asking import ask
from .capabilities import kind_of
from .chain import chain_of, circular, without_orphans
from .choice_references import choice_id
from .fallback_plan import RuleSelector
from .outcome import Advice, Memory
from .prompts import selection_request, selection_schema, selection_system
from .reading import ReadSelection, read_selection
from .settings import PlannerSettings
from .tool_plan import DecomposedQuery, Selection, ToolChoice

__all__ = ["MAX_SHOWN_TOOLS", "ModelSelector", "RuleSelector"]

logger = logging.getLogger("callgate")

MAX_SHOWN_TOOLS = 24
"""So many tools a model chooses from; more of them are narrowed down by the tool search."""
_MAX_QUERY = 2_000


class ModelSelector:
    """Asks a model which tools are to be used. A `Selector`.

    Args:
        model: that is asked.
        runtime: whose tools these are: it searches among them and checks their arguments.
        memory: whose advice is told to the model.
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
        self._model = model
        self._runtime = runtime
        self._memory = memory
        self._settings = settings or PlannerSettings()
        self._name = name
        self._max_tools = max_tools
        self._rules = RuleSelector(runtime)
        self._takes_schema = True

    @property
    def name(self) -> str:
        """Of the strategy."""
        return self._name

    async def select(self, query: DecomposedQuery, tools: Sequence[ToolInfo]) -> Selection:
        """Choose.

        Raises:
            ModelError: there was no answer of the model.
        """
        if not tools:
            return Selection(chain=(), strategy=self._name, faults=("there are no tools",))
        advice = self._advice(query.query, [tool.name for tool in tools])
        shown = self._narrowed(query, tools, advice)
        names = [tool.name for tool in shown]

        def read(text: str) -> tuple[_Checked, tuple[str, ...]]:
            checked = self._checked(read_selection(text, query, names, self._runtime.registry.resolve), names)
            return checked, checked.faults

        asked = await ask(
            self._model,
            selection_request(query, advice),
            system=selection_system(shown),
            schema=selection_schema(query, shown, bounded=self._model.provider == "openai")
            if self._takes_schema
            else None,
            read=read,
            temperature=self._settings.temperature,
            keep=lambda checked: bool(checked.chain),
        )
        self._takes_schema = self._takes_schema and asked.takes_schema
        last, first = asked.readings[-1], asked.readings[0]
        best = last if last.chain or not last.faults else first
        chain, notes = best.chain, [*asked.faults, *best.notes]
        if best.faults:
            chain, said = self._mended(best, query, shown)
            notes += said
        return Selection(
            chain=chain,
            reasoning=best.reasoning,
            strategy=self._name,
            source="model" if best.chain or not best.faults else "fallback",
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
        known = {tool.name: tool for tool in tools}
        found = [self._found(part.text, known) for part in query.sub_queries]
        together = [name for each in (advice.combinations if advice else ()) for name in each.tools]
        turns: list[str] = [name for name in together if name in known][: self._max_tools // 4]
        for rank in range(self._max_tools):
            turns += [names[rank] for names in found if rank < len(names)]
        turns += [tool.name for tool in tools if kind_of(tool) != "other"]
        kept = set(list(dict.fromkeys(turns))[: self._max_tools])
        return [tool for tool in tools if tool.name in kept]

    def _found(self, words: str, names: Collection[str]) -> list[str]:
        try:
            result = self._runtime.search_tools(words[:_MAX_QUERY], limit=self._max_tools, among=list(names))
        except InvalidArguments:
            return []
        return [each.tool.name for each in result.found]

    def _checked(self, read: ReadSelection, names: Sequence[str]) -> _Checked:
        """The choices that are right, and what is wrong with the others."""
        faults = list(read.faults)
        notes = list(read.notes)
        wrong: dict[int, int] = {}
        right: dict[int, ToolChoice] = {}
        for entry in read.entries:
            faults += entry.faults
            if entry.choice is None:
                wrong[entry.position] = entry.part or 0
            else:
                right[entry.position] = entry.choice
        for position, said in self._arguments_faults(right, names).items():
            faults += [f"toolChain[{position}]: {each}" for each in said]
            wrong[position] = right.pop(position).sub_query
        for position, needs in circular(right).items():
            waits = ", ".join(map(choice_id, needs))
            faults.append(f"toolChain[{position}] refers to {waits}, which cannot be had before it: a circle")
            wrong[position] = right.pop(position).sub_query
        wrong.update((position, choice.sub_query) for position, choice in without_orphans(right).items())
        chain, repeated = chain_of(right)
        if repeated:
            notes.append(f"the same call twice is one call: {', '.join(repeated)}")
        return _Checked(chain, read.reasoning, tuple(faults), tuple(notes), tuple(sorted(set(wrong.values()))))

    def _arguments_faults(self, choices: dict[int, ToolChoice], names: Sequence[str]) -> dict[int, list[str]]:
        """What the plan engine has against the arguments of each choice."""
        if not choices:
            return {}
        steps = [
            {"id": choice_id(position), "tool": choice.tool, "arguments": dict(choice.parameters)}
            for position, choice in choices.items()
        ]
        by_id = {choice_id(position): position for position in choices}
        found: dict[int, list[str]] = {}
        for fault in self._runtime.check_plan({"steps": steps}, tools=names):
            if fault.severity == "error" and fault.step in by_id and fault.code not in ("unknown-step", "cycle"):
                hint = f"; {fault.hint}" if fault.hint else ""
                found.setdefault(by_id[fault.step], []).append(f"{fault.message}{hint}")
        return found

    def _mended(
        self, best: _Checked, query: DecomposedQuery, tools: Sequence[ToolInfo]
    ) -> tuple[tuple[ToolChoice, ...], list[str]]:
        """The right choices, and choices by rules for sub-queries that have none because theirs was wrong."""
        served = {choice.sub_query for choice in best.chain}
        unserved = [
            place
            for place in range(len(query.sub_queries))
            if place not in served and (place in best.wrong_parts or not best.chain)
        ]
        chain, notes = list(best.chain), []
        for place in unserved:
            part = query.sub_queries[place]
            alone = replace(query, sub_queries=(replace(part, depends_on=()),))
            chosen = self._rules.choose(alone, tools)
            chain += [replace(choice, sub_query=place) for choice in chosen.chain]
            by = ", ".join(choice.tool for choice in chosen.chain)
            notes.append(f"{part.text[:120]!r}: {f'chosen by rules: {by}' if by else 'left out'}")
        return tuple(chain), notes


class _Checked:
    """A reading whose choices are right."""

    def __init__(
        self,
        chain: tuple[ToolChoice, ...],
        reasoning: str,
        faults: tuple[str, ...],
        notes: tuple[str, ...],
        wrong_parts: tuple[int, ...],
    ) -> None:
        self.chain = chain
        self.reasoning = reasoning
        self.faults = faults
        self.notes = notes
        self.wrong_parts = wrong_parts
        """Sub-queries of choices that were wrong."""
