"""Selections of tools kept for queries like theirs. Never gives one with another query's values.

1. Looked up by the catalogue (names, schemas, descriptions of the tools), the strategy, and the query's shape: the
   stems of its words and the sorts of its values (`query_tokens`). What is found is used only where its `Template`
   fits.
2. A selection whose plan failed is dropped. One that is older than its time is not used. Of too many the one goes that
   was not used longest.

Knows no model and no runtime; its clock is given.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from callgate.tools.registry import ToolInfo

from .plan_template import Spoken, Template, template_of
from .query_tokens import Token, tokens_of
from .tool_plan import DecomposedQuery, Selection

__all__ = ["Kept", "PlanCache", "fingerprint"]

_MAX_ALIKE = 8
"""So many selections are kept for one shape."""
_MAX_CHARACTERS = 16 * 1024
"""A selection with longer parameters is not kept."""
_MAX_PLANS = 4_096
"""So many plans are remembered by their id, to drop what they came from."""

Key = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Kept:
    """What was found.

    Attributes:
        query: in its parts.
        selection: with this query's values.
        key: for `note_plan`.
    """

    query: DecomposedQuery
    selection: Selection
    key: int


@dataclass(slots=True)
class _Entry:
    template: Template
    shape: Key
    expires: float


class PlanCache:
    """Selections by the shape of their queries.

    Args:
        max_entries: kept at most; 0 keeps none.
        seconds: for which one is kept.
        clock: seconds that only grow.
    """

    def __init__(
        self, max_entries: int = 256, seconds: float = 3600.0, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.hits = 0
        """Queries that were answered from it."""
        self.misses = 0
        """Queries that were not."""
        self._max = max_entries
        self._seconds = seconds
        self._clock = clock
        self._entries: OrderedDict[int, _Entry] = OrderedDict()
        self._by_shape: dict[Key, list[int]] = {}
        self._plans: OrderedDict[str, int] = OrderedDict()
        self._number = 0
        self._spoken: tuple[str, Spoken] | None = None
        """What the newest catalogue's tools speak of."""

    @property
    def hit_rate(self) -> float | None:
        """Share of the queries that were answered from it; None before the first."""
        asked = self.hits + self.misses
        return self.hits / asked if asked else None

    def __len__(self) -> int:
        return len(self._entries)

    def find(self, query: str, given: DecomposedQuery | None, catalogue: str, strategy: str) -> Kept | None:
        """The selection for a query, with its values; None where none is right for it. Counts.

        Args:
            query: as the user put it.
            given: the caller's own decomposition.
            catalogue: `fingerprint` of the tools.
            strategy: name of the selector.
        """
        tokens = _tokens(query, given)
        found = None if tokens is None else self._found(query, given, tokens, catalogue, strategy)
        if found is None:
            self.misses += 1
        else:
            self.hits += 1
        return found

    def keep(
        self,
        query: DecomposedQuery,
        selection: Selection,
        tools: Sequence[ToolInfo],
        catalogue: str,
        *,
        given: bool,
    ) -> int | None:
        """Keep a selection; gives the key for `note_plan`, None where it is not kept.

        Args:
            query: that it is for, in its parts.
            selection: what a model chose.
            tools: all that it chose from.
            catalogue: `fingerprint` of these.
            given: whether the decomposition is the caller's own.
        """
        tokens = _tokens(query.query, query if given else None)
        if tokens is None or self._max <= 0:
            return None
        if len(json.dumps([dict(choice.parameters) for choice in selection.chain], default=str)) > _MAX_CHARACTERS:
            return None
        if self._spoken is None or self._spoken[0] != catalogue:
            self._spoken = (catalogue, Spoken.of(tools))
        known = {tool.name: tool for tool in tools}
        template = template_of(tokens, query, selection, known, given=given, spoken=self._spoken[1])
        if template is None:
            return None
        shape = _shape(tokens, query if given else None, catalogue, selection.strategy)
        for key in list(self._by_shape.get(shape, ())):
            if [each.exactly for each in self._entries[key].template.tokens] == [each.exactly for each in tokens]:
                self.drop(key)
        alike = self._by_shape.setdefault(shape, [])
        if len(alike) >= _MAX_ALIKE:
            self.drop(alike[0])
            alike = self._by_shape.setdefault(shape, [])
        self._number += 1
        self._entries[self._number] = _Entry(template, shape, self._clock() + self._seconds)
        alike.append(self._number)
        while len(self._entries) > self._max:
            self.drop(next(iter(self._entries)))
        return self._number

    def drop(self, key: int) -> None:
        """Use a selection no more."""
        entry = self._entries.pop(key, None)
        if entry is None:
            return
        alike = self._by_shape[entry.shape]
        alike.remove(key)
        if not alike:
            del self._by_shape[entry.shape]

    def note_plan(self, plan_id: str, key: int) -> None:
        """Remember which selection a plan was made of."""
        self._plans[plan_id] = key
        if len(self._plans) > _MAX_PLANS:
            self._plans.popitem(last=False)

    def failed(self, plan_id: str) -> bool:
        """Drop what a plan was made of; whether there was something."""
        key = self._plans.pop(plan_id, None)
        if key is None or key not in self._entries:
            return False
        self.drop(key)
        return True

    def _found(
        self, query: str, given: DecomposedQuery | None, tokens: tuple[Token, ...], catalogue: str, strategy: str
    ) -> Kept | None:
        now = self._clock()
        for key in list(self._by_shape.get(_shape(tokens, given, catalogue, strategy), ())):
            entry = self._entries[key]
            if entry.expires <= now:
                self.drop(key)
                continue
            filled = entry.template.filled(query, tokens, given) if entry.template.fits(tokens) else None
            if filled is not None:
                self._entries.move_to_end(key)
                return Kept(*filled, key)
        return None


def fingerprint(tools: Sequence[ToolInfo]) -> str:
    """The same for the same tools, as far as a choice among them goes by it: not for how their calls went."""
    said = [
        (tool.name, tool.description, tool.category, tool.parameters, tool.capabilities, tool.limitations)
        for tool in sorted(tools, key=lambda tool: tool.name)
    ]
    return hashlib.sha256(json.dumps(said, default=str, sort_keys=True).encode()).hexdigest()


def _tokens(query: str, given: DecomposedQuery | None) -> tuple[Token, ...] | None:
    """Those of the query, and of the caller's own sub-queries."""
    own = tokens_of(query)
    if own is None or given is None:
        return own
    parts = [tokens_of(part.text) for part in given.sub_queries]
    found = [*own]
    for part in parts:
        if part is None:
            return None
        found += part
    return tuple(found)


def _shape(tokens: Sequence[Token], given: DecomposedQuery | None, catalogue: str, strategy: str) -> Key:
    parts: tuple[str, ...] = ()
    if given is not None:
        told = (f"{part.kind}|{part.depends_on}|{len(tokens_of(part.text) or ())}" for part in given.sub_queries)
        parts = (*told, given.query_type)
    return (catalogue, strategy, str(len(parts)), *parts, *(token.shape for token in tokens))
