"""Results of a search and descriptions of tools, as text for a model and as JSON. Searches nothing."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from callgate.runtime.model.foreign import one_line
from callgate.runtime.model.listing import OMITTED
from callgate.search.index import Index, Ranked
from callgate.search.learned import Learned
from callgate.search.words import words_of
from callgate.tools import Registry, Tool
from callgate.tools.encoding import NotJson, compact_json
from callgate.tools.faults import printable
from callgate.tools.tool import Detail

__all__ = ["MAX_FOUND", "Described", "Found", "SearchResult", "entry", "why"]

MAX_FOUND = 100
"""Most tools that a search finds."""
_MAX_TEXT_CHARACTERS = 20_000
"""Most characters of tools in a text for the model; the text then names the remaining tools."""
_MAX_SUMMARY_CHARACTERS = 160
_MAX_SIGNATURE_CHARACTERS = 600
_MAX_TYPES_CHARACTERS = 300
"""About the most characters of types beside a signature."""
_MAX_QUERY_SHOWN = 80
_MAX_BESIDE = 5
"""Most limitations and examples of a tool in a text."""
_MAX_BESIDE_CHARACTERS = 600
_AS_THEY_ARE = ("input_schema", "output_schema", "category", "cost", "read_only", "destructive", "requires_approval")
"""Attributes that a description copies from a tool."""


@dataclass(frozen=True, slots=True)
class Found:
    """One tool that a search found."""

    tool: Tool
    python_name: str
    """The tool's name in programs."""
    score: float
    """Larger is better; comparable within one query only. 0 in a search without ranking."""
    query: str
    """The query that found the tool: one of `SearchResult.queries`."""
    _why: Callable[[], str] = field(repr=False, compare=False)

    @property
    def why(self) -> str:
        """The words of the query that led to the tool."""
        return self._why()


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResult:
    """The result of a search."""

    query: str
    """The query; several queries with "; " between them."""
    queries: tuple[str, ...]
    """The queries: one, or those of a list."""
    found: tuple[Found, ...]
    """The best first; of several queries the best of each, then the second best of each, and so on."""
    total: int
    """Number of tools that were searched."""
    matched: int | None
    """Number of tools that match; None for a search by words, which every tool matches somewhat."""
    detail: Detail
    registry: Registry = field(repr=False)
    note: str = ""
    """Why the search went by words alone, although the runtime has an embedder; else empty. Not part of `for_model`."""

    def for_model(self, *, describe: bool = True) -> str:
        """The tools as text, as much of each as `detail` says; at most 20,000 characters of tools.

        Args:
            describe: whether the reader has ``describe_tools``, so that the text may name it.
        """
        if not self.found:
            return (
                f"No tool matches {printable(self.query[:_MAX_QUERY_SHOWN])!r} ({_tools(self.total)} searched). "
                "Say it in other words, or more generally: what the tool should do, not what you want to know."
            )
        if self.matched is None:
            first = "the best first" if len(self.queries) == 1 else "the best of each query first"
            head = f"{len(self.found)} of {_tools(self.total)}, {first}"
        elif self.matched > len(self.found):
            head = f"{len(self.found)} of {self.matched} tools that match (a higher limit gives more)"
        else:
            head = f"{_tools(self.matched)} that match{'es' if self.matched == 1 else ''}"
        if self.detail == "full":
            names = ", ".join(each.python_name for each in self.found)
            return f"{head}: {names}\n\n{_stubs(self.registry, [each.tool for each in self.found], describe)}"
        lines: list[str] = []
        room = _MAX_TEXT_CHARACTERS
        for place, each in enumerate(self.found):
            line = entry(each.tool, each.python_name, self.detail)
            room -= len(line) + 1
            if room < 0 and lines:
                lines.append(_left([left.python_name for left in self.found[place:]], describe))
                break
            lines.append(line)
        if any("= OMITTED" in line for line in lines):
            head += f"; {OMITTED}"
        return "\n".join([f"{head}:", *lines])

    def to_json(self) -> dict[str, Any]:
        """``{"query", "found": [{"name", "python_name", "server", "description", "score", "why", ...}], "total"}``.

        Of several queries each tool also has the ``query`` that found it. With the detail ``signatures`` each tool also
        has its ``signature``, and the fields of its result in ``types``; with ``full`` its schemas as well.
        """
        found = [self._json(each) for each in self.found]
        note = {"note": self.note} if self.note else {}
        return {"query": self.query[:1000], "found": found, "total": self.total, **note}

    def _json(self, each: Found) -> dict[str, Any]:
        tool, name = each.tool, each.python_name
        shown = _named(tool, name, tool.description if self.detail == "full" else _summary(tool))
        shown |= {"score": round(each.score, 2), "why": each.why}
        if len(self.queries) > 1:
            shown["query"] = each.query[:1000]
        if self.detail != "names":
            shown |= {"signature": _signature(tool, name), "types": _types(tool, name)}
        if self.detail == "full":
            shown |= {"input_schema": tool.input_schema, "output_schema": tool.output_schema}
        return shown


@dataclass(frozen=True, slots=True, kw_only=True)
class Described:
    """Descriptions of tools that were asked for by name."""

    tools: tuple[Tool, ...]
    """In the order of the names, each once."""
    unknown: tuple[str, ...]
    """Names without a tool."""
    faults: tuple[str, ...]
    """A message for each of the first unknown names."""
    registry: Registry = field(repr=False)

    def for_model(self) -> str:
        """Typed stubs with all descriptions, then limitations and examples; at most 20,000 characters of tools."""
        return "\n".join([_stubs(self.registry, self.tools, describe=True), *self.faults])

    def to_json(self) -> dict[str, Any]:
        """``{"tools": [{"name", "python_name", "server", "description", "signature", "input_schema", "output_schema",
        ...}], "unknown": [...]}``."""
        return {"tools": [self._json(tool) for tool in self.tools], "unknown": [each[:60] for each in self.unknown]}

    def _json(self, tool: Tool) -> dict[str, Any]:
        info, name = self.registry.info(tool.name), self.registry.callable_name(tool.name)
        shown = _named(tool, name, tool.description) | {"signature": _signature(tool, name)}
        shown |= {each: getattr(tool, each) for each in _AS_THEY_ARE}
        shown |= {"capabilities": list(tool.capabilities), "limitations": list(tool.limitations)}
        return shown | {"average_seconds": info.average_seconds, "failure_rate": info.failure_rate}


def why(
    query: str, parts: Mapping[str, str], index: Index, learned: Learned | None, alike: Collection[int],
    tool: Tool, ranked: Ranked,
) -> str:  # fmt: skip
    """Why a search found a tool, in words for people and models.

    Args:
        query: the query.
        parts: parts of compound words in the query, by their terms.
        index: the index that was searched.
        learned: the lessons of earlier searches.
        alike: the places of the tools whose vectors are most like the query's.
        tool: the tool.
        ranked: the tool's place and score.
    """
    words = {**parts, **words_of(query)}
    own = [word for term, word in words.items() if index.tools.has(term, ranked.place)]
    reasons = [f"it says {_listed(own)}"] if own else []
    if tool.server and ranked.server > ranked.own / 2:
        reasons.append(f"its server {printable(tool.server)[:60]} is about that")
    if ranked.learned and learned is not None:
        asked = [words[term] for term in learned.words(tool.name, words)]
        reasons.append(f"earlier searches for {_listed(asked)} led to it" if asked else "earlier searches led to it")
    if ranked.place in alike:
        reasons.append("its meaning is similar")
    return "; ".join(reasons) or "it has that name"


def entry(tool: Tool, name: str, detail: Detail) -> str:
    """The entry of one tool in a list.

    Args:
        tool: the tool.
        name: the tool's name in programs.
        detail: ``"names"`` or ``"signatures"``.
    """
    if detail == "names":
        return f"- {name}: {_summary(tool)}"
    return "\n    ".join(filter(None, (_signature(tool, name), _summary(tool), _types(tool, name))))


def _named(tool: Tool, name: str, description: str) -> dict[str, Any]:
    return {"name": tool.name, "python_name": name, "server": tool.server, "description": description}


def _stubs(registry: Registry, tools: Sequence[Tool], describe: bool) -> str:
    """Full stubs of the first tools, as many as fit, and the names of the others."""
    there = [tool for tool in tools if tool.name in registry]  # one may be gone by now
    shown = len(there)
    text = _full(registry, there)
    while len(text) > _MAX_TEXT_CHARACTERS and shown > 1:
        shown = max(1, min(shown - 1, shown * _MAX_TEXT_CHARACTERS // len(text)))
        text = _full(registry, there[:shown])
    left = [registry.callable_name(tool.name) for tool in there[shown:]]
    return f"{text}\n{_left(left, describe)}" if left else text


def _full(registry: Registry, tools: Sequence[Tool]) -> str:
    """Full stubs, followed by comments with limitations and examples."""
    from callgate.tools.stubs import stubs

    text = stubs(registry, detail="full", names=[tool.name for tool in tools])
    more = [f"# {registry.callable_name(tool.name)}: {notes}" for tool in tools if (notes := _beside(tool))]
    return "\n".join([text, *more, ""]) if more else text


def _beside(tool: Tool) -> str:
    """A tool's approval, limitations and examples, on one line."""
    notes = ["a person is asked before each call"] if tool.requires_approval else []
    if tool.limitations:
        notes.append(f"limitations: {', '.join(tool.limitations[:_MAX_BESIDE])}")
    examples = []
    for each in tool.examples[:_MAX_BESIDE]:
        try:
            examples.append(compact_json(each))
        except NotJson:
            continue
    if examples:
        notes.append(f"examples: {', '.join(examples)}")
    return one_line("; ".join(notes), _MAX_BESIDE_CHARACTERS)


def _left(names: list[str], describe: bool) -> str:
    how = "Ask for them by name with describe_tools" if describe else "Search for less at a time"
    return f"No room for: {', '.join(names)}. {how}."


def _signature(tool: Tool, name: str) -> str:
    from callgate.tools.stubs import signature

    return _beginning(signature(tool, name), _MAX_SIGNATURE_CHARACTERS)


def _types(tool: Tool, name: str) -> str:
    from callgate.tools.stubs import result_types

    return _beginning(result_types(tool, name, most=_MAX_TYPES_CHARACTERS), 2 * _MAX_TYPES_CHARACTERS)


def _summary(tool: Tool) -> str:
    """The first line of the description that is not empty."""
    lines = (line for line in tool.description[:2000].splitlines() if line.strip())
    return one_line(next(lines, "(no description)"), _MAX_SUMMARY_CHARACTERS)


def _beginning(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]} ..."


def _listed(words: list[str]) -> str:
    return ", ".join(f'"{word[:40]}"' for word in dict.fromkeys(words[:6]))


def _tools(count: int) -> str:
    return f"{count:,} tool{'' if count == 1 else 's'}"
