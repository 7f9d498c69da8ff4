"""The memory of a conversation: found tools and searches, as JSON, and the lessons for the search.

*State* is for a server that keeps nothing itself, or continues in another process. A state gives no rights. The holder
of a state can make tools visible that the conversation may call anyway, and nothing else: the operator names the
allowed tools anew each time. Fields that make no sense are left out when a state is read.

*Learning*: which of the tools that a search found were then called with success.

1. Only a search that found a tool teaches about it. A search from a state, which anybody may have written, is made
   again first, and teaches only what it finds now. So a forged state teaches nothing that its holder could not teach by
   searching.
2. The records of a program's calls have its queries, and not what they found. These searches are made again, too.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from callgate.errors import ConfigurationError, InvalidArguments
from callgate.runtime.gate.records import CallRecord
from callgate.tools.names import MAX_NAME_CHARACTERS

from .search import MAX_QUERIES, ToolSearch

__all__ = ["MAX_FOUND", "MAX_SEARCHES", "ConversationState", "Search", "credit", "queries_of", "teach"]

MAX_FOUND = 64
"""Most found tools that a model sees; the oldest ones are dropped. OpenAI takes 128 tools in a request."""
MAX_SEARCHES = 16
"""Most searches that are remembered, the newest ones: for learning, and for loading again."""
MAX_QUERY = 400
_VERSION = 1
_MOST_SEARCHES = 8
"""Most searches of one program that teach; each is made again."""
_USUAL = 10
"""Tools that a search without a limit finds."""


@dataclass(slots=True)
class Search:
    """A search and its result."""

    query: str
    found: tuple[str, ...]
    """Names of tools."""
    loaded: bool = False
    """Whether tools were loaded for the search."""
    taught: set[str] = field(default_factory=set)
    """The found tools whose successful calls have taught the search already."""
    unverified: bool = field(default=False, compare=False)
    """Whether the search comes from a state, and was not made again yet."""


@dataclass(slots=True)
class ConversationState:
    """The memory of one conversation."""

    found: list[str] = field(default_factory=list)
    """Names of found tools, in the order of their definitions."""
    searches: list[Search] = field(default_factory=list)
    """Oldest first."""

    def add_found(self, names: Iterable[str]) -> list[str]:
        """Append found tools. Returns the new ones."""
        new = [name for name in dict.fromkeys(names) if name not in self.found]
        self.found += new
        del self.found[:-MAX_FOUND]
        return new

    def add_search(self, query: str, found: Iterable[str], *, loaded: bool) -> Search:
        """Remember a search. It replaces an earlier search for the same words."""
        made = Search(query[:MAX_QUERY], tuple(found)[:MAX_FOUND], loaded)
        for before in [each for each in self.searches if each.query == made.query]:
            made.taught, made.loaded = before.taught, loaded or before.loaded
            self.searches.remove(before)
        self.searches.append(made)
        del self.searches[:-MAX_SEARCHES]
        return made

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "version": _VERSION,
            "found": list(self.found),
            "searches": [
                {"query": s.query, "found": list(s.found), "loaded": s.loaded, "taught": sorted(s.taught)}
                for s in self.searches
            ],
        }

    @classmethod
    def from_json(cls, given: Mapping[str, Any] | None) -> ConversationState:
        """The state in a result of `to_json`. Fields that make no sense are left out.

        Raises:
            ConfigurationError: not such a result, or one of another version.
        """
        state = cls()
        if given is None:
            return state
        as_given: Any = given  # from outside
        if not isinstance(as_given, Mapping) or as_given.get("version") != _VERSION:
            raise ConfigurationError("state is not what Conversation.state() gave (of this version): leave it out")
        state.add_found(_names(given.get("found")))
        searches = given.get("searches")
        for each in (searches if isinstance(searches, list) else [])[-MAX_SEARCHES:]:
            if isinstance(each, Mapping) and isinstance(each.get("query"), str):
                made = state.add_search(each["query"], _names(each.get("found")), loaded=each.get("loaded") is True)
                made.taught, made.unverified = set(_names(each.get("taught"))), True
        return state


def _names(given: Any) -> list[str]:
    listed = given if isinstance(given, list) else []
    return [each for each in listed[-1000:] if isinstance(each, str) and 0 < len(each) <= MAX_NAME_CHARACTERS]


def queries_of(given: object) -> list[str]:
    """The queries in the `query` of a search, which is a text or a list; none if there is no text in it."""
    listed = given[:MAX_QUERIES] if isinstance(given, list) else [given]
    return [each for each in listed if isinstance(each, str)]


async def teach(
    search: ToolSearch, searches: Sequence[Search], calls: Iterable[CallRecord], among: Collection[str] | None
) -> None:
    """Teach the search which of its found tools a program or a plan called with success. The program's own searches
    count before the conversation's.

    Args:
        search: the search that learns.
        searches: the conversation's searches, oldest first.
        calls: the calls of the program or the plan.
        among: names of the tools that the conversation can find; None for all.
    """
    own: list[Search] = []
    for call in calls:
        if call.status != "succeeded":
            continue
        if call.tool != "search_tools" or len(own) >= _MOST_SEARCHES:
            await credit(search, [*searches, *own], call.tool, among)
            continue
        given = call.arguments if isinstance(call.arguments, dict) else {}
        if given.get("regex"):  # of a pattern nothing can be learned
            continue
        for query in queries_of(given.get("query"))[: _MOST_SEARCHES - len(own)]:
            own.append(Search(query, await _found(search, query, _USUAL, among)))


async def credit(search: ToolSearch, searches: Sequence[Search], name: str, among: Collection[str] | None) -> None:
    """Teach the search that a tool was called with success. The latest search that found the tool counts, once.

    Args:
        search: the search that learns.
        searches: oldest first.
        name: the tool's name.
        among: names of the tools that the conversation can find; None for all.
    """
    for each in reversed(searches):
        if name in each.found and each.unverified:
            there = await _found(search, each.query, MAX_FOUND, among)
            each.found, each.unverified = tuple(one for one in each.found if one in there), False
        if name in each.found:
            if name not in each.taught:
                each.taught.add(name)
                search.learn(each.query, name)
            return


async def _found(search: ToolSearch, query: str, limit: int, among: Collection[str] | None) -> tuple[str, ...]:
    try:
        return tuple(each.tool.name for each in (await search.ask(query, limit=limit, among=among)).found)
    except InvalidArguments:
        return ()
