"""Searching the tools of a registry: by words, by a regular expression, by server, capability and category.

What is wrong with a search is `InvalidArguments`, worded for a model. What the caller may not call is neither found nor
named.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from typing import Any, TypedDict, Unpack
from weakref import WeakKeyDictionary

import anyio.to_thread

from callgate.errors import InvalidArguments
from callgate.runtime.keeper import event_loop
from callgate.search.compounds import MAX_QUERY_TERMS_SPLIT, split_all
from callgate.search.index import Ranked
from callgate.search.learned import Learned
from callgate.search.patterns import Pattern
from callgate.search.words import query_terms, words_of
from callgate.tools import Registry, Tool
from callgate.tools.faults import described, did_you_mean
from callgate.tools.namespaces import Vocabulary

from .result import DETAILS, MAX_FOUND, Described, Detail, Found, SearchResult, Why
from .snapshot import Snapshot

__all__ = ["MAX_DESCRIBED", "ToolSearch"]

MAX_DESCRIBED = 50
"""So many tools are described at once."""
_MAX_LISTED = 12
_NAMESAKES = 40
"""So many tools are ranked at least where the query is a name: which of several with that name comes first."""
_MAX_PATTERNS_AT_A_TIME = 2
"""So many regular expressions are tried at a time; the others wait."""


class FindOptions(TypedDict, total=False):
    """The options of `ToolSearch.find`."""

    limit: int
    detail: Detail
    server: str | None
    capability: str | None
    category: str | None
    regex: bool
    among: Collection[str] | None


class ToolSearch:
    """Finds tools of a registry.

    Args:
        registry: the tools; what is added and removed later is seen by the next search.
        learned: what earlier searches taught; None: nothing, and nothing is learned. Belongs to those who may know of
            each other's queries.
    """

    def __init__(self, registry: Registry, learned: Learned | None = None) -> None:
        self.learned = learned
        """What earlier searches taught."""
        self._registry = registry
        self._profiles = Snapshot.no_profiles()
        self._snapshot: Snapshot | None = None
        self._making = threading.Lock()
        self._threads: WeakKeyDictionary[Any, anyio.CapacityLimiter] = WeakKeyDictionary()

    async def ask(self, query: str = "", **options: Unpack[FindOptions]) -> SearchResult:
        """As `find`, without holding up the event loop: tools are read, and regular expressions tried, in a worker
        thread. What is found are tools that there were when the search began."""
        moment = self._registry.vocabulary()
        snapshot = self._snapshot
        if snapshot is None or snapshot.moment is not moment:
            snapshot = await anyio.to_thread.run_sync(self._of, moment)
        if options.get("regex"):
            stopped = threading.Event()
            find = partial(self._find, snapshot, query, stopped=stopped, **options)
            threads = self._threads.setdefault(event_loop(), anyio.CapacityLimiter(_MAX_PATTERNS_AT_A_TIME))
            try:
                return await anyio.to_thread.run_sync(find, abandon_on_cancel=True, limiter=threads)
            finally:
                stopped.set()
        return self._find(snapshot, query, **options)

    def find(self, query: str = "", **options: Unpack[FindOptions]) -> SearchResult:
        """Tools that a query means, the best first.

        Args:
            query: what the tool should do, in words; the first 4,000 characters count. May be empty where `server`,
                `capability` or `category` says which tools: then these are listed by name.
            limit: how many at most; more than 100 is 100.
            detail: how much `SearchResult.for_model` says of each: ``"names"``, ``"signatures"`` or ``"full"``.
            server: only tools of this server.
            capability: only tools that list this capability.
            category: only tools of this category.
            regex: read `query` as a regular expression (re2), at most 200 characters.
            among: names of the tools that may be found; None: all.

        Raises:
            InvalidArguments: the query is empty or no pattern, the pattern takes more than 2 s, `limit` is below 1,
                there is no such detail, server, capability or category among these tools.
        """
        return self._find(self._of(self._registry.vocabulary()), query, **options)

    def _find(
        self,
        snapshot: Snapshot,
        query: str,
        *,
        limit: int = 10,
        detail: Detail = "signatures",
        server: str | None = None,
        capability: str | None = None,
        category: str | None = None,
        regex: bool = False,
        among: Collection[str] | None = None,
        stopped: threading.Event | None = None,
    ) -> SearchResult:
        """See `find`. May run beside changes of the registry, which it does not ask.

        Args:
            snapshot: the tools, and their names.
            stopped: set when nobody waits for what a regular expression finds.
        """
        _check(query, limit, detail)
        limit = min(limit, MAX_FOUND)
        within = self._within(snapshot, server, capability, category, among)
        total = len(snapshot.tools) if within is None else len(within)
        matched: int | None = None
        found: list[Found]
        if regex or not query.strip():
            if not regex and server is None and capability is None and category is None:
                raise InvalidArguments(
                    "query is empty; say in a few words what the tool should do (it may be empty beside server, "
                    "capability or another filter)"
                )
            names = snapshot.place_of if within is None else within
            places: Iterable[int] = sorted(
                place for name in names if (place := snapshot.place_of.get(name)) is not None
            )
            why = Why()
            if regex:
                places = snapshot.matches(Pattern(query), list(places), stopped)
                why = Why(pattern=query)
            matched = len(places := list(places))
            chosen = [snapshot.tools[place] for place in places[:limit]]
            found = [Found(tool, snapshot.names[tool.name], 0.0, why) for tool in chosen]
        else:
            found = self._ranked(snapshot, query, limit, within)
        return SearchResult(
            query=query, found=tuple(found), total=total, matched=matched, detail=detail, registry=self._registry
        )

    def describe(self, names: Collection[str], among: Collection[str] | None = None, *, hint: bool = True) -> Described:
        """All there is to say of some tools.

        Args:
            names: as the registry, a program or ``server.tool`` has them; at most 50.
            among: names of the tools that may be described; None: all.
            hint: whether whoever asks can search, and may be told to.

        Raises:
            InvalidArguments: `names` is empty, too long or no list of names; or none of them is a tool's.
        """
        if isinstance(names, str):
            names = [names]
        if not names:
            source = ", as search_tools gives them" if hint else ""
            raise InvalidArguments(f"names is empty; give the names of tools{source}")
        if len(names) > MAX_DESCRIBED:
            raise InvalidArguments(f"names has {len(names)} items, at most {MAX_DESCRIBED} are described at once")
        tools: dict[str, Tool] = {}
        unknown = []
        for name in names:
            if not isinstance(name, str):
                raise InvalidArguments(f"names must be names of tools, not {described(name)}")
            meant = self._registry.resolve(name)
            if meant is None or (among is not None and meant not in among):
                unknown.append(name)
            else:
                tools[meant] = self._registry.get(meant)
        known = self._registry.names() if among is None else tuple(among)
        why_absent = self._registry.vocabulary().why_absent
        faults = []
        for name in unknown[:_MAX_LISTED]:
            absent = why_absent(name)
            hint_of = f"; {absent}" if absent else did_you_mean(name, known)
            faults.append(f"there is no tool {name[:60]!r}{hint_of}")
        if not tools:
            search = "; search_tools finds tools by what they do" if hint else ""
            raise InvalidArguments(f"{'; '.join(faults)}{search}")
        return Described(
            tools=tuple(tools.values()), unknown=tuple(unknown), faults=tuple(faults), registry=self._registry
        )

    def find_by_capability(self, capability: str, among: Collection[str] | None = None) -> tuple[Tool, ...]:
        """The tools that list this capability, sorted by name; upper and lower case are the same.

        Args:
            capability: its name.
            among: names of the tools that may be found; None: all.
        """
        tools = self._registry.by_capability(capability)
        return tools if among is None else tuple(tool for tool in tools if tool.name in among)

    def learn(self, query: str, tool: str) -> None:
        """Take note that a search for `query` led to a call of `tool` that succeeded: the next search for something
        similar ranks it higher.

        Args:
            query: what was searched for.
            tool: name of a registered tool; another is passed over.
        """
        if self.learned is not None and tool in self._registry:
            self.learned.learn(query, tool)

    def _of(self, moment: Vocabulary) -> Snapshot:
        with self._making:
            if self._snapshot is None or self._snapshot.moment is not moment:
                self._snapshot = Snapshot(moment, self._profiles)
            return self._snapshot

    def _ranked(self, snapshot: Snapshot, query: str, limit: int, within: frozenset[str] | None) -> list[Found]:
        terms = query_terms(query)
        parts: dict[str, str] = {}
        said = snapshot.index.tools
        if len(terms) <= MAX_QUERY_TERMS_SPLIT and not all(map(said.knows, terms)):
            parts = split_all(words_of(query), said.knows, lambda: said.begins)
            terms = dict.fromkeys(parts, 1) | terms
        lessons = {} if self.learned is None else self.learned.scores(terms)
        place_of, tools = snapshot.place_of, snapshot.tools
        learned = {
            place_of[name]: score
            for name, score in lessons.items()
            if name in place_of and (within is None or name in within)
        }
        among = None if within is None else snapshot.mask(within)
        why = Why(query=query, parts=parts, index=snapshot.index, learned=self.learned)
        named = snapshot.named(query)
        if within is not None:
            named = [place for place in named if tools[place].name in within]
        most = max(limit, _NAMESAKES) if named else limit
        ranked = snapshot.index.rank(terms, most, among=among, learned=learned)
        if named:
            exact = place_of.get(snapshot.moment.resolve(query.strip()) or "")
            ranked = _first(named, exact, ranked)[:limit]
        found = []
        for each in ranked:
            tool = tools[each.place]
            found.append(Found(tool, snapshot.names[tool.name], each.score, why, each))
        return found

    def _within(
        self,
        snapshot: Snapshot,
        server: str | None,
        capability: str | None,
        category: str | None,
        among: Collection[str] | None,
    ) -> frozenset[str] | None:
        within = among if among is None or isinstance(among, frozenset) else frozenset(among)
        for kind, wanted, values in (
            ("server", server, _servers),
            ("capability", capability, _capabilities),
            ("category", category, _categories),
        ):
            if wanted is not None:
                absent = snapshot.moment.why_absent if kind == "server" else None
                within = _having(snapshot.tools, kind, wanted, values, within, absent)
        return within


def _first(named: Sequence[int], exact: int | None, ranked: Sequence[Ranked]) -> list[Ranked]:
    """The tools that a query names before those that it means, and before them the one of exactly that name."""
    by_place = {each.place: each for each in ranked}
    found = [by_place.pop(place) if place in by_place else Ranked(place, 0.0, 0.0, 0.0) for place in named]
    found.sort(key=lambda each: (each.place != exact, -each.score))
    return [*found, *by_place.values()]


def _check(query: object, limit: object, detail: object) -> None:
    if not isinstance(query, str):
        raise InvalidArguments(f"query must be a string, not {described(query)}")
    if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
        raise InvalidArguments(f"limit must be a whole number above 0, not {described(limit)}")
    if detail not in DETAILS:
        raise InvalidArguments(f"detail must be one of {', '.join(DETAILS)}, not {described(detail)}")


def _having(
    tools: Iterable[Tool],
    kind: str,
    wanted: str,
    values: Callable[[Tool], Iterable[str]],
    within: frozenset[str] | None,
    why_absent: Callable[[str], str | None] | None,
) -> frozenset[str]:
    """Names of the tools that have the wanted value. Raises `InvalidArguments` where none has."""
    if not isinstance(wanted, str):
        raise InvalidArguments(f"{kind} must be a string, not {described(wanted)}")
    folded = wanted.casefold()
    having: set[str] = set()
    there: dict[str, None] = {}
    for tool in tools:
        if within is None or tool.name in within:
            for value in values(tool):
                there[value] = None
                if value.casefold() == folded:
                    having.add(tool.name)
    if having:
        return frozenset(having)
    known = sorted(there)
    absent = None if why_absent is None else why_absent(wanted)
    if not known:
        if absent:
            raise InvalidArguments(absent)
        raise InvalidArguments(f"no tool here has a {kind}; leave {kind} out")
    listed = ", ".join(value[:60] for value in known[:_MAX_LISTED])
    more = f" and {len(known) - _MAX_LISTED} more" if len(known) > _MAX_LISTED else ""
    fault = absent or f"there is no {kind} {wanted[:60]!r}{did_you_mean(wanted, known)}"
    raise InvalidArguments(f"{fault}; there are: {listed}{more}")


def _servers(tool: Tool) -> Iterable[str]:
    return () if tool.server is None else (tool.server,)


def _capabilities(tool: Tool) -> Iterable[str]:
    return tool.capabilities


def _categories(tool: Tool) -> Iterable[str]:
    return () if tool.category is None else (tool.category,)
