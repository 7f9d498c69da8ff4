"""Chooses tools by rules where no model does: the model was too slow, gave no answer, or is not needed.

1. Only tools that are read-only and need no approval: rules never decide to change something.
2. Only arguments that are certain: the sub-query's words for the one text that a tool needs.
3. A search tool may be chosen for any words, another tool only where the tool search finds it for these words.
4. The confidence is honest: 0.2 where the text may want other words, and never above 0.6.

Knows no model.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

from callgate.errors import InvalidArguments
from callgate.runtime import Runtime
from callgate.search.words import query_terms, text_terms
from callgate.tools.registry import ToolInfo

from .capabilities import free_text_parameter, is_hypothetical, kind_of
from .selection import Selection, ToolChoice
from .tool_plan import DecomposedQuery

__all__ = ["RuleSelector", "may_be_chosen_by_rules", "names_found"]

_FOUND = 20
"""The most tools that are considered for a sub-query."""
_UNSURE = 0.2
_MAX_WORDS = 2_000


def may_be_chosen_by_rules(runtime: Runtime, name: str) -> bool:
    """Whether a tool changes nothing and needs no approval."""
    if name not in runtime.registry:
        return False
    tool = runtime.registry.get(name)
    return tool.read_only and not tool.requires_approval


def names_found(runtime: Runtime, words: str, among: Collection[str], most: int = _FOUND) -> list[str]:
    """Names of the tools that the tool search finds for these words, the best first."""
    if not among or not words.strip():
        return []
    try:
        result = runtime.search.by_words(words[:_MAX_WORDS], limit=most, among=list(among))
    except InvalidArguments:  # the words have nothing to search for
        return []
    return [each.tool.name for each in result.found]


class RuleSelector:
    """Chooses one tool for each sub-query, by tool search. A `Selector`.

    Args:
        runtime: the runtime with the tools.
    """

    name = "rules"

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    async def select(self, query: DecomposedQuery, tools: Sequence[ToolInfo]) -> Selection:
        """Choose. A sub-query without a certain tool gets none, and a fault says so."""
        return self.choose(query, tools)

    def choose(self, query: DecomposedQuery, tools: Sequence[ToolInfo]) -> Selection:
        """As `select`, without waiting."""
        chain: list[ToolChoice] = []
        faults: list[str] = []
        for place, part in enumerate(query.sub_queries):
            fit = self._fit(part.text, tools)
            if fit is None:
                faults.append(f"no read-only tool is certain to fit {part.text[:120]!r}")
            elif not any((each.tool, each.parameters) == (fit.tool, fit.parameters) for each in chain):
                confidence = round(fit.confidence * part.confidence, 3)
                chain.append(replace(fit, sub_query=place, confidence=confidence))
        reasoning = "chosen by rules: " + "; ".join(dict.fromkeys(each.reasoning for each in chain)) if chain else ""
        return Selection(
            chain=tuple(chain), reasoning=reasoning, strategy=self.name, source="fallback", faults=tuple(faults)
        )

    def one_search(self, query: str, tools: Sequence[ToolInfo]) -> ToolChoice | None:
        """The simplest plan: a search with the words of the whole query; None without a search tool."""
        searches = [tool for tool in tools if kind_of(tool) == "search" and not is_hypothetical(tool)]
        fit = self._fit(query, searches)
        return None if fit is None or fit.confidence <= _UNSURE else fit

    def _fit(self, words: str, tools: Sequence[ToolInfo]) -> ToolChoice | None:
        """The surest tool for these words; of equally sure ones, the one that the search finds first."""
        known = {tool.name: tool for tool in tools if may_be_chosen_by_rules(self._runtime, tool.name)}
        found = names_found(self._runtime, words, known)
        searches = [tool for tool in known.values() if tool.name not in found and kind_of(tool) == "search"]
        ranked = [known[name] for name in found] + sorted(searches, key=_by_reliability)
        fits = [fit for tool in ranked if (fit := _filled(tool, words)) is not None]
        return max(fits, key=lambda fit: fit.confidence, default=None)


def _filled(tool: ToolInfo, words: str) -> ToolChoice | None:
    """The tool with its arguments, where these are certain enough."""
    kind, share = kind_of(tool), _share_of_words(tool, words)
    text = free_text_parameter(tool.parameters)
    parameters: dict[str, Any] = {}
    if kind in ("validation", "synthesis"):  # these need results
        return None
    if text is None:
        if tool.parameters.get("required") or not share:
            return None
        confidence, why = 0.6 * share, "needs no arguments, and is about these words"
    else:
        name, is_certain = text
        parameters = {name: {"$literal": words[:_MAX_WORDS]} if "$" in words else words[:_MAX_WORDS]}
        if is_certain and kind == "search":
            confidence, why = 0.5 + 0.1 * share, "searches by words"
        elif is_certain:
            confidence, why = 0.3 + 0.3 * share, "takes a question in words"
        elif share:
            confidence, why = _UNSURE, f"takes one text, {name}, which may want other words"
        else:
            return None
    return ToolChoice(
        sub_query=0, tool=tool.name, parameters=parameters, confidence=round(confidence, 3),
        reasoning=f"{tool.name!r} {why}",
    )  # fmt: skip


def _share_of_words(tool: ToolInfo, words: str) -> float:
    """The share of the query's words that the tool's description has."""
    terms = query_terms(words).keys()
    described = set(text_terms(" ".join((tool.name, tool.description, *tool.capabilities))))
    return len(terms & described) / len(terms) if terms else 0.0


def _by_reliability(tool: ToolInfo) -> tuple[float, float, str]:
    return (tool.failure_rate or 0.0, tool.average_seconds or 0.0, tool.name)
