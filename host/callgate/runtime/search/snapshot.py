"""The tools of one moment, ready to be searched. Made anew when the registry has others; a tool is read once.

Knows places and names; asks no registry, so that a search in a worker thread sees one moment only.
"""

from __future__ import annotations

import re
import time
import weakref
from collections.abc import Collection, MutableMapping
from functools import cached_property
from threading import Event

from callgate.errors import InvalidArguments
from callgate.runtime.cache import Cache
from callgate.search.document import document_text, name_text, profile_of
from callgate.search.index import Index
from callgate.search.patterns import Pattern
from callgate.search.postings import Profile
from callgate.tools import Tool
from callgate.tools.namespaces import Vocabulary

__all__ = ["Profiles", "Snapshot"]

Profiles = MutableMapping[Tool, Profile]
_APART = re.compile(r"[\W_]+")
_MAX_NAME_CHARACTERS = 600
_MAX_PATTERN_TEXT_BYTES = 4_000
"""So much of a tool is searched by a regular expression: 4,000 tools are 16 MB at most."""
_PATTERN_SECONDS = 2.0
"""So long may a regular expression be tried: `(.*w.{0,40}o.{0,40}){3}!$` takes 7 ms for each tool."""


class Snapshot:
    """Some tools, by place.

    Args:
        moment: their names, and the tools, sorted by name.
        profiles: of tools that were read before; the others' are added.
    """

    def __init__(self, moment: Vocabulary, profiles: Profiles) -> None:
        self.moment = moment
        self.names = moment.callable_names
        """In programs, by their own."""
        self.tools = tools = moment.tools
        self.place_of = {tool.name: place for place, tool in enumerate(tools)}
        read = []
        for tool in tools:
            profile = profiles.get(tool)
            if profile is None:
                profile = profiles[tool] = profile_of(tool)
            read.append(profile)
        self.index = Index(read, [tool.server for tool in tools])
        self._masks: Cache[frozenset[str], int] = Cache(max_entries=64)
        self._named: dict[str, list[int]] = {}
        for place, tool in enumerate(tools):
            for letters in {_letters(tool.name), _letters(tool.server_tool or "")} - {""}:
                self._named.setdefault(letters, []).append(place)
        self._longest = 2 * max(map(len, self._named), default=0)

    @staticmethod
    def no_profiles() -> Profiles:
        """For the first of them. Tools that are gone are forgotten."""
        return weakref.WeakKeyDictionary()

    def named(self, query: str) -> list[int]:
        """The places of the tools whose name the query is, in any of its forms: in the registry, in programs, as
        ``server.tool``, or on their server; with blanks, signs and capitals or without."""
        if len(query) > _MAX_NAME_CHARACTERS:
            return []
        exact = self.place_of.get(self.moment.resolve(query.strip()) or "")
        alike = self._named.get(_letters(query), []) if len(query) <= self._longest else []
        return alike if exact is None or exact in alike else [exact, *alike]

    def mask(self, names: frozenset[str]) -> int:
        """The mask of `Index.rank` for the tools of these names; kept."""
        mask = self._masks.get(names)
        if mask is None:
            mask = self.index.tools.mask(place for name in names if (place := self.place_of.get(name)) is not None)
            self._masks.keep(names, mask)
        return mask

    def matches(self, pattern: Pattern, places: Collection[int], stopped: Event | None = None) -> list[int]:
        """The places whose tools match: by their names first, then by the rest of their texts.

        Args:
            pattern: what is looked for.
            places: of the tools that are looked through.
            stopped: set when nobody waits any more: what was found until then is returned.

        Raises:
            InvalidArguments: it takes more than 2 s. One tool takes a few ms at most, and is not broken off.
        """
        in_names, in_texts = [], []
        texts = self._texts
        deadline = time.monotonic() + _PATTERN_SECONDS
        for tried, place in enumerate(places):
            if stopped is not None and stopped.is_set():
                break
            if time.monotonic() > deadline:
                raise InvalidArguments(
                    f"the regular expression takes too long: {tried:,} of {len(places):,} tools were searched in "
                    f"{_PATTERN_SECONDS:g} s; simplify it, or search with plain words (regex=False)"
                )
            name, text = texts[place]
            if pattern.found_in(name):
                in_names.append(place)
            elif pattern.found_in(text):
                in_texts.append(place)
        return in_names + in_texts

    @cached_property
    def _texts(self) -> list[tuple[bytes, bytes]]:
        return [(_utf8(_names(tool)), _utf8(document_text(tool))) for tool in self.tools]


def _letters(name: str) -> str:
    """A name without what tells its words apart."""
    return _APART.sub("", name).casefold()


def _names(tool: Tool) -> str:
    return " ".join((tool.name, f"{tool.server}.{tool.server_tool}" if tool.server else "", name_text(tool)))


def _utf8(text: str) -> bytes:
    return text.encode(errors="replace")[:_MAX_PATTERN_TEXT_BYTES]
