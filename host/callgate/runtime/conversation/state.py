"""What a conversation knows, as JSON: for a server that keeps nothing itself, or goes on in another process. Pure.

The state gives no rights. Whoever holds it can make tools visible that the conversation may call anyway, and nothing
else: which those are, the operator says anew every time. So it is read with care, and what means nothing is left out.
That a search in it was made, and found what it says, nobody knows: it is marked; `learning` says what it teaches.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from callgate.errors import ConfigurationError
from callgate.tools.names import MAX_NAME_CHARACTERS

__all__ = ["MAX_FOUND", "MAX_SEARCHES", "ConversationState", "Search"]

MAX_FOUND = 64
"""Found tools that a model is shown at most; of more, those found longest ago go. OpenAI takes 128 in a request."""
MAX_SEARCHES = 16
"""Searches that are remembered, the newest: for learning, and for loading again."""
MAX_QUERY = 400
_VERSION = 1


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

    def add_search(self, query: str, found: Iterable[str], *, loaded: bool) -> None:
        """Remember a search. One for the same words takes the place of the one before."""
        query = query[:MAX_QUERY]
        before = next((each for each in self.searches if each.query == query), None)
        taught = set() if before is None else before.taught
        loaded = loaded or (before is not None and before.loaded)
        self.searches = [each for each in self.searches if each.query != query]
        self.searches.append(Search(query, tuple(found)[:MAX_FOUND], loaded, taught))
        del self.searches[:-MAX_SEARCHES]

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
        if given is None:
            return cls()
        as_given: Any = given  # by whoever kept it
        if not isinstance(as_given, Mapping) or as_given.get("version") != _VERSION:
            raise ConfigurationError("state is not what Conversation.state() gave (of this version): leave it out")
        state = cls()
        state.add_found(_names(given.get("found")))
        searches = given.get("searches")
        for each in (searches if isinstance(searches, list) else [])[-MAX_SEARCHES:]:
            if not isinstance(each, Mapping) or not isinstance(each.get("query"), str):
                continue
            state.add_search(each["query"], _names(each.get("found")), loaded=each.get("loaded") is True)
            state.searches[-1].taught = set(_names(each.get("taught")))
            state.searches[-1].told = True
        return state


def _names(given: Any) -> list[str]:
    listed = given if isinstance(given, list) else []
    return [each for each in listed[-1000:] if isinstance(each, str) and 0 < len(each) <= MAX_NAME_CHARACTERS]
