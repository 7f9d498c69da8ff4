"""What a conversation remembers: found tools and searches, as JSON; and what a search can learn from them.

*State*: for a server that keeps nothing itself, or goes on in another process. It gives no rights. Whoever holds it can
make tools visible that the conversation may call anyway, and nothing else: which those are, the operator says anew
every time. So it is read with care, and what means nothing is left out.

*Learning*: which of the tools that a search found were called with success afterwards.

1. Only searches that found the tool teach it. One that was read in a state, which anybody may have written, is made
   again first: what it does not find now, it does not teach. So a forged state teaches nothing that its holder could
   not have taught by searching.
2. What a program searched for is in the records of its calls, and what it found is not: that search is made again, too.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from callgate.errors import ConfigurationError, InvalidArguments
from callgate.runtime.gate.records import CallRecord
from callgate.tools.names import MAX_NAME_CHARACTERS

from .search import ToolSearch

__all__ = ["MAX_FOUND", "MAX_SEARCHES", "ConversationState", "Search", "credit", "teach"]

MAX_FOUND = 64
"""Found tools that a model is shown at most; of more, those found longest ago go. OpenAI takes 128 in a request."""
MAX_SEARCHES = 16
"""Searches that are remembered, the newest: for learning, and for loading again."""
MAX_QUERY = 400
_VERSION = 1
_MOST_SEARCHES = 8
"""Searches of one program that are learned from; each has to be made again."""
_USUAL = 10
"""So many tools a search finds that says no limit."""


@dataclass(slots=True)
class Search:
    """A search, and what it found."""

    query: str
    found: tuple[str, ...]
    """Names of tools."""
    loaded: bool = False
    """Whether tools were loaded for it."""
    taught: set[str] = field(default_factory=set)
    """Tools of it that were called with success, and learned from."""
    told: bool = field(default=False, compare=False)
    """It was not seen, but read in a state that somebody kept."""


@dataclass(slots=True)
class ConversationState:
    """What a conversation knows."""

    found: list[str] = field(default_factory=list)
    """Names of found tools, in the order in which the model is shown them."""
    searches: list[Search] = field(default_factory=list)
    """Oldest first."""

    def add_found(self, names: Iterable[str]) -> list[str]:
        """Take found tools in, behind those that are there; returns those that are new."""
        new = [name for name in dict.fromkeys(names) if name not in self.found]
        self.found += new
        del self.found[:-MAX_FOUND]
        return new

    def add_search(self, query: str, found: Iterable[str], *, loaded: bool) -> Search:
        """Remember a search. One for the same words takes the place of the one before."""
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
        """The state that `to_json` gave. What makes no sense in it is left out.

        Raises:
            ConfigurationError: it is no such state, or one of another version.
        """
        state = cls()
        if given is None:
            return state
        as_given: Any = given  # by whoever kept it
        if not isinstance(as_given, Mapping) or as_given.get("version") != _VERSION:
            raise ConfigurationError("state is not what Conversation.state() gave (of this version): leave it out")
        state.add_found(_names(given.get("found")))
        searches = given.get("searches")
        for each in (searches if isinstance(searches, list) else [])[-MAX_SEARCHES:]:
            if isinstance(each, Mapping) and isinstance(each.get("query"), str):
                made = state.add_search(each["query"], _names(each.get("found")), loaded=each.get("loaded") is True)
                made.taught, made.told = set(_names(each.get("taught"))), True
        return state


def _names(given: Any) -> list[str]:
    listed = given if isinstance(given, list) else []
    return [each for each in listed[-1000:] if isinstance(each, str) and 0 < len(each) <= MAX_NAME_CHARACTERS]


async def teach(
    search: ToolSearch, searches: Sequence[Search], calls: Iterable[CallRecord], among: Collection[str] | None
) -> None:
    """Tell the search which of what it found a program or a plan called with success. Its own searches come before the
    conversation's.

    Args:
        search: what learns.
        searches: those of the conversation, oldest first.
        calls: of the program or the plan.
        among: names of the tools that the conversation can find; None: all.
    """
    own: list[Search] = []
    for call in calls:
        if call.status != "succeeded":
            continue
        if call.tool != "search_tools" or len(own) >= _MOST_SEARCHES:
            await credit(search, [*searches, *own], call.tool, among)
            continue
        given = call.arguments if isinstance(call.arguments, dict) else {}
        query = given.get("query")
        if isinstance(query, str) and not given.get("regex"):  # of a pattern nothing can be learned
            own.append(Search(query, await _found(search, query, _USUAL, among)))


async def credit(search: ToolSearch, searches: Sequence[Search], name: str, among: Collection[str] | None) -> None:
    """Tell the search that a tool was called with success. The latest search that found it gets the credit, once.

    Args:
        search: what learns.
        searches: oldest first.
        name: of the tool.
        among: names of the tools that the conversation can find; None: all.
    """
    for each in reversed(searches):
        if name in each.found and each.told:
            there = await _found(search, each.query, MAX_FOUND, among)
            each.found, each.told = tuple(one for one in each.found if one in there), False
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
