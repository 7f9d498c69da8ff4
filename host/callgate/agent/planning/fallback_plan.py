"""Tools chosen by rules, where no model chooses: it was too slow, gave no answer, or is not needed.

1. Only tools that are read-only and need no approval: rules do not decide that something is changed.
2. Arguments only where they are certain enough to be said: the sub-query's words for the one text that a tool needs.
3. Tools that take a question in words come first; others only where the tool search finds them for these words.
4. A confidence that is honest: never above 0.6, and 0.2 where words go into a parameter that may want something else.

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
from .tool_plan import DecomposedQuery, Selection, ToolChoice

__all__ = ["RuleSelector", "may_be_chosen_by_rules", "names_found"]

_FOUND = 20
"""The most tools that are considered for a sub-query."""
_SURE = 0.6
_SEARCHES = 0.5
_UNSURE = 0.2
_MAX_WORDS = 2_000


def may_be_chosen_by_rules(runtime: Runtime, name: str) -> bool:
    """Whether a tool changes nothing, and nobody has to be asked before it is called."""
    if name not in runtime.registry:
        return False
    tool = runtime.registry.get(name)
    return tool.read_only and not tool.requires_approval


def names_found(runtime: Runtime, words: str, among: Collection[str], most: int = _FOUND) -> list[str]:
    """Names of the tools that the tool search finds for these words, the best first."""
    if not among or not words.strip():
        return []
    try:
        result = runtime.search_tools(words[:_MAX_WORDS], limit=most, among=list(among))
    except InvalidArguments:  # nothing in these words can be searched for
        return []
    return [each.tool.name for each in result.found]


class RuleSelector:
    """Chooses one tool for each sub-query, by tool search. A `Selector`.

    Args:
        runtime: whose tools these are.
    """

    name = "rules"

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    async def select(self, query: DecomposedQuery, tools: Sequence[ToolInfo]) -> Selection:
        """Choose; a sub-query for which nothing is certain gets nothing, and a fault says so."""
        return self.choose(query, tools)

    def choose(self, query: DecomposedQuery, tools: Sequence[ToolInfo]) -> Selection:
        """As `select`; it waits for nothing."""
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
        known = {tool.name: tool for tool in tools if may_be_chosen_by_rules(self._runtime, tool.name)}
        found = names_found(self._runtime, words, known)
        ranked = [known[name] for name in found]
        ranked += sorted(
            (tool for tool in known.values() if tool.name not in found and kind_of(tool) == "search"), key=_reliable
        )
        fits = [fit for tool in ranked if (fit := _filled(tool, words, found=tool.name in found)) is not None]
        return max(fits, key=lambda fit: fit.confidence, default=None)  # of equally sure ones the first


def _filled(tool: ToolInfo, words: str, *, found: bool) -> ToolChoice | None:
    """The tool with its arguments, where these are certain enough."""
    kind = kind_of(tool)
    if kind in ("validation", "synthesis"):
        return None  # they need results, and words are none
    taken = free_text_parameter(tool.parameters)
    share = _share_of_words(tool, words)

    def fit(confidence: float, why: str, parameters: dict[str, Any]) -> ToolChoice:
        reasoning = f"{tool.name!r} {why}"
        return ToolChoice(
            sub_query=0, tool=tool.name, parameters=parameters, confidence=round(confidence, 3), reasoning=reasoning
        )

    if taken is None:
        if tool.parameters.get("required") or not share:
            return None
        return fit(_SURE * share, "needs no arguments, and is about these words", {})
    name, certain = taken
    if not found and kind != "search":
        return None
    given = {name: _as_text(words[:_MAX_WORDS])}
    if not certain:
        return fit(_UNSURE, f"takes one text, {name}, which may want other words", given) if share else None
    if kind == "search":
        return fit(_SEARCHES + 0.1 * share, "searches by words", given)
    return fit(0.3 + 0.3 * share, "takes a question in words", given)


def _as_text(words: str) -> Any:
    """The words as the plan language writes text that looks like a reference."""
    return {"$literal": words} if "$" in words else words


def _share_of_words(tool: ToolInfo, words: str) -> float:
    """Of the query's words, those that the tool says."""
    terms = query_terms(words).keys()
    said = set(text_terms(" ".join((tool.name, tool.description, *tool.capabilities))))
    return len(terms & said) / len(terms) if terms else 0.0


def _reliable(tool: ToolInfo) -> tuple[float, float, str]:
    return (tool.failure_rate or 0.0, tool.average_seconds or 0.0, tool.name)
