"""What a search found, what tools are described by, and how a model is told. Searches nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
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
"""So many tools are found at most."""
_MAX_TEXT_CHARACTERS = 20_000
"""A text for the model ends after so many; the tools that are left are named."""
_MAX_SUMMARY_CHARACTERS = 160
_MAX_SIGNATURE_CHARACTERS = 600
_MAX_TYPES_CHARACTERS = 300
"""Of the types that a signature names: about so many are told beside it."""
_MAX_QUERY_SHOWN = 80
_MAX_BESIDE = 5
"""So many of a tool's limitations and examples are told."""
_MAX_BESIDE_CHARACTERS = 600
_TOLD = ("input_schema", "output_schema", "category", "cost", "read_only", "destructive", "requires_approval")
"""What a description tells of a tool as it is."""


@dataclass(frozen=True, slots=True)
class Found:
    """A tool that was found."""

    tool: Tool
    python_name: str
    """What a program calls it."""
    score: float
    """The larger, the better; comparable within one search only. 0 where nothing was ranked."""
    _why: Callable[[], str] = field(repr=False, compare=False)

    @property
    def why(self) -> str:
        """Which words of the query led to it."""
        return self._why()


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResult:
    """What a search found."""

    query: str
    found: tuple[Found, ...]
    """The best first."""
    total: int
    """How many tools were searched."""
    matched: int | None
    """How many match; None for a search by words, where every tool matches somewhat."""
    detail: Detail
    registry: Registry = field(repr=False)

    def for_model(self, *, describe: bool = True) -> str:
        """The tools as text, as much of each as `detail` says; at most 20,000 characters of tools.

        Args:
            describe: whether the reader has ``describe_tools``, and may be told to use it.
        """
        if not self.found:
            return (
                f"No tool matches {printable(self.query[:_MAX_QUERY_SHOWN])!r} ({_tools(self.total)} searched). "
                "Say it in other words, or more generally: what the tool should do, not what you want to know."
            )
        if self.matched is None:
            head = f"{len(self.found)} of {_tools(self.total)}, the best first"
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

        With `detail` ``signatures`` each has its ``signature`` besides, and in ``types`` the fields of its result; with
        ``full`` its schemas as well.
        """
        return {"query": self.query[:1000], "found": [self._json(each) for each in self.found], "total": self.total}

    def _json(self, each: Found) -> dict[str, Any]:
        tool, name = each.tool, each.python_name
        told = _named(tool, name, tool.description if self.detail == "full" else _summary(tool))
        told |= {"score": round(each.score, 2), "why": each.why}
        if self.detail != "names":
            told |= {"signature": _signature(tool, name), "types": _types(tool, name)}
        if self.detail == "full":
            told |= {"input_schema": tool.input_schema, "output_schema": tool.output_schema}
        return told


@dataclass(frozen=True, slots=True, kw_only=True)
class Described:
    """Tools that were asked for by name."""

    tools: tuple[Tool, ...]
    """In the order of the names, each once."""
    unknown: tuple[str, ...]
    """Names that are no tool's."""
    faults: tuple[str, ...]
    """What to say of them."""
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
        told = _named(tool, name, tool.description) | {"signature": _signature(tool, name)}
        told |= {each: getattr(tool, each) for each in _TOLD}
        told |= {"capabilities": list(tool.capabilities), "limitations": list(tool.limitations)}
        return told | {"average_seconds": info.average_seconds, "failure_rate": info.failure_rate}


def why(query: str, parts: Mapping[str, str], index: Index, learned: Learned | None, tool: Tool, ranked: Ranked) -> str:
    """Why a tool was found, in words for people and models.

    Args:
        query: what was searched for.
        parts: what words of the query were taken apart into, by their terms.
        index: what was searched.
        learned: what earlier searches taught.
        tool: the tool.
        ranked: its place and its score.
    """
    words = {**parts, **words_of(query)}
    own = [word for term, word in words.items() if index.tools.has(term, ranked.place)]
    told = [f"it says {_listed(own)}"] if own else []
    if tool.server and ranked.server > ranked.own / 2:
        told.append(f"its server {printable(tool.server)[:60]} is about that")
    if ranked.learned and learned is not None:
        asked = [words[term] for term in learned.words(tool.name, words)]
        told.append(f"earlier searches for {_listed(asked)} led to it" if asked else "earlier searches led to it")
    return "; ".join(told) or "it has that name"


def entry(tool: Tool, name: str, detail: Detail) -> str:
    """What a list says of one tool.

    Args:
        tool: the tool.
        name: what a program calls it.
        detail: ``"names"`` or ``"signatures"``.
    """
    if detail == "names":
        return f"- {name}: {_summary(tool)}"
    return "\n    ".join(filter(None, (_signature(tool, name), _summary(tool), _types(tool, name))))


def _named(tool: Tool, name: str, description: str) -> dict[str, Any]:
    return {"name": tool.name, "python_name": name, "server": tool.server, "description": description}


def _stubs(registry: Registry, tools: Sequence[Tool], describe: bool) -> str:
    """Full stubs of as many of the tools as there is room for, the first of them; the others' names."""
    there = [tool for tool in tools if tool.name in registry]  # one may have gone meanwhile
    shown = len(there)
    text = _full(registry, there)
    while len(text) > _MAX_TEXT_CHARACTERS and shown > 1:
        shown = max(1, min(shown - 1, shown * _MAX_TEXT_CHARACTERS // len(text)))
        text = _full(registry, there[:shown])
    left = [registry.callable_name(tool.name) for tool in there[shown:]]
    return f"{text}\n{_left(left, describe)}" if left else text


def _full(registry: Registry, tools: Sequence[Tool]) -> str:
    """Full stubs, and what no stub says as comments behind them."""
    from callgate.tools.stubs import stubs

    text = stubs(registry, detail="full", names=[tool.name for tool in tools])
    more = [f"# {registry.callable_name(tool.name)}: {said}" for tool in tools if (said := _beside(tool))]
    return "\n".join([text, *more, ""]) if more else text


def _beside(tool: Tool) -> str:
    """On one line, what there is to know of a tool besides its arguments and its result."""
    told = ["a person is asked before each call"] if tool.requires_approval else []
    if tool.limitations:
        told.append(f"limitations: {', '.join(tool.limitations[:_MAX_BESIDE])}")
    examples = []
    for each in tool.examples[:_MAX_BESIDE]:
        try:
            examples.append(compact_json(each))
        except NotJson:
            continue
    if examples:
        told.append(f"examples: {', '.join(examples)}")
    return one_line("; ".join(told), _MAX_BESIDE_CHARACTERS)


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
    """The first line of the description that says something."""
    lines = (line for line in tool.description[:2000].splitlines() if line.strip())
    return one_line(next(lines, "(no description)"), _MAX_SUMMARY_CHARACTERS)


def _beginning(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]} ..."


def _listed(words: list[str]) -> str:
    return ", ".join(f'"{word[:40]}"' for word in dict.fromkeys(words[:6]))


def _tools(count: int) -> str:
    return f"{count:,} tool{'' if count == 1 else 's'}"
