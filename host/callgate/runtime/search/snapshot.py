"""The tools of one moment, ready to be searched. Made anew when the registry has others; a tool is read once.

Knows places and names; asks no registry, so that a search in a worker thread sees one moment only.
"""

from __future__ import annotations

import weakref
from collections.abc import Collection, MutableMapping
from functools import cached_property

from callgate.search.document import document_text, name_text, profile_of
from callgate.search.index import Index
from callgate.search.patterns import Pattern
from callgate.search.postings import Profile
from callgate.tools import Tool
from callgate.tools.namespaces import Vocabulary

__all__ = ["Profiles", "Snapshot"]

Profiles = MutableMapping[Tool, Profile]
_MAX_MASKS = 64
_MAX_PATTERN_TEXT_BYTES = 4_000
"""So much of a tool is searched by a regular expression: 4,000 tools are 16 MB at most."""


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
        self._masks: dict[Collection[str], int] = {}

    @staticmethod
    def no_profiles() -> Profiles:
        """For the first of them. Tools that are gone are forgotten."""
        return weakref.WeakKeyDictionary()

    def mask(self, names: frozenset[str]) -> int:
        """The mask of `Index.rank` for the tools of these names; kept."""
        mask = self._masks.get(names)
        if mask is None:
            if len(self._masks) >= _MAX_MASKS:
                self._masks.clear()
            places = (place for name in names if (place := self.place_of.get(name)) is not None)
            mask = self._masks[names] = self.index.tools.mask(places)
        return mask

    def matches(self, pattern: Pattern, places: Collection[int]) -> list[int]:
        """The places whose tools match: by their names first, then by the rest of their texts."""
        in_names, in_texts = [], []
        for place in places:
            name, text = self._texts[place]
            if pattern.found_in(name):
                in_names.append(place)
            elif pattern.found_in(text):
                in_texts.append(place)
        return in_names + in_texts

    @cached_property
    def _texts(self) -> list[tuple[bytes, bytes]]:
        return [(_utf8(_names(tool)), _utf8(document_text(tool))) for tool in self.tools]


def _names(tool: Tool) -> str:
    return " ".join((tool.name, f"{tool.server}.{tool.server_tool}" if tool.server else "", name_text(tool)))


def _utf8(text: str) -> bytes:
    return text.encode(errors="replace")[:_MAX_PATTERN_TEXT_BYTES]
