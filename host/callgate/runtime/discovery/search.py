"""Searches the tools of a registry: by words, by a regular expression, by server, capability and category.

A wrong search raises `InvalidArguments`, worded for a model. A search does not find or name a tool that the caller may
not call. It sees the tools of one moment (`Snapshot`), also in a worker thread while the registry changes. A list of
queries shares the places of one result.

With an embedder, the order by words and the order by meaning are fused by rank (`callgate.search.orders`). The fewer of
the query's words the best tool by words has, the more the meaning counts. A tool that has the query as its name comes
first in any case.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Collection, Iterable, MutableMapping, Sequence
from functools import cached_property, partial
from itertools import islice
from typing import Any, TypedDict, Unpack
from weakref import WeakKeyDictionary

import anyio.to_thread

from callgate.errors import InvalidArguments
from callgate.runtime.context_task import event_loop
from callgate.runtime.gate.cache import Cache
from callgate.search.compounds import MAX_QUERY_TERMS_SPLIT, split_all
from callgate.search.directions import nearest
from callgate.search.document import document_text, meaning_text, name_text, profile_of
from callgate.search.index import Index, Ranked
from callgate.search.learned import Learned
from callgate.search.orders import fused, spread
from callgate.search.patterns import Pattern
from callgate.search.postings import Profile
from callgate.search.words import query_terms, words_of
from callgate.tools import Registry, Tool
from callgate.tools.faults import described, did_you_mean
from callgate.tools.namespaces import Vocabulary
from callgate.tools.tool import DETAILS, Detail

from .found import MAX_FOUND, Described, Found, SearchResult, why
from .meaning import Meaning, Meant

__all__ = ["MAX_DESCRIBED", "MAX_QUERIES", "Query", "ToolSearch"]

Query = str | Sequence[str]
"""What tools should do, in words; or several such queries, which share the places of the result."""
MAX_QUERIES = 8
"""Most queries of one search."""
MAX_DESCRIBED = 50
"""Most tools in one description."""
_MAX_LISTED = 12
_NAMESAKES = 40
"""Fewest tools that are ranked if the query is a name, to order several tools with that name."""
_FUSED = 10
"""Fewest tools of each order that are fused, if the limit is lower."""
_MAX_PATTERNS_AT_A_TIME = 2
"""Most regular expressions that run at a time; others wait."""
_WORDS = Meant()
"""Without an embedder."""
_APART = re.compile(r"[\W_]+")
_MAX_NAME_CHARACTERS = 600
_MAX_PATTERN_TEXT_BYTES = 4_000
"""Most bytes of a tool that a regular expression searches: 4,000 tools have 16 MB at most."""
_PATTERN_SECONDS = 2.0
"""Longest time of one regular expression: `(.*w.{0,40}o.{0,40}){3}!$` takes 7 ms for each tool."""

_VALUES: dict[str, Callable[[Tool], Iterable[str]]] = {
    "server": lambda tool: filter(None, [tool.server]),
    "capability": lambda tool: tool.capabilities,
    "category": lambda tool: filter(None, [tool.category]),
}
"""The values of a tool for each filter of a search."""


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
        registry: the tools; each search sees the current ones.
        learned: the lessons of earlier searches; None turns learning off. Only callers who may know each other's
            queries share lessons.
        meaning: compares meanings with an embedder; None compares words alone.
    """

    def __init__(self, registry: Registry, learned: Learned | None = None, meaning: Meaning | None = None) -> None:
        self.learned = learned
        """The lessons of earlier searches."""
        self._meaning = meaning
        self._registry = registry
        self._profiles: MutableMapping[Tool, Profile] = WeakKeyDictionary()  # forgets tools that are gone
        self._snapshot: Snapshot | None = None
        self._making = threading.Lock()
        self._threads: WeakKeyDictionary[Any, anyio.CapacityLimiter] = WeakKeyDictionary()

    async def ask(self, query: Query = "", **options: Unpack[FindOptions]) -> SearchResult:
        """`find` without blocking the event loop: a worker thread reads tools and runs regular expressions. The search
        sees the tools of the moment it begins."""
        moment = self._registry.vocabulary()
        snapshot = self._snapshot
        if snapshot is None or snapshot.moment is not moment:
            snapshot = await anyio.to_thread.run_sync(self._of, moment)
        if not options.get("regex"):
            if self._meaning is None or not (queries := _to_embed(snapshot, query)):
                return self._find(snapshot, query, **options)
            meant = await self._meaning.ask(snapshot, snapshot.meaning_texts, queries)
            return self._find(snapshot, query, meant=meant, **options)
        stopped = threading.Event()
        find = partial(self._find, snapshot, query, stopped=stopped, **options)
        threads = self._threads.setdefault(event_loop(), anyio.CapacityLimiter(_MAX_PATTERNS_AT_A_TIME))
        try:
            return await anyio.to_thread.run_sync(find, abandon_on_cancel=True, limiter=threads)
        finally:
            stopped.set()

    def find(self, query: Query = "", **options: Unpack[FindOptions]) -> SearchResult:
        """The tools that match a query, the best first. With an embedder it blocks until that has answered, or for 5 s.

        Args:
            query: what the tool should do, in words; the first 4,000 characters count. May be empty with `server`,
                `capability` or `category`: then all their tools are listed by name. Or a list of at most 8 queries,
                for a request of several steps: each in turn takes its best tool that is not found yet.
            limit: most tools to find; at most 100.
            detail: how much `SearchResult.for_model` says about each: ``"names"``, ``"signatures"`` or ``"full"``.
            server: only tools of this server.
            capability: only tools that list this capability.
            category: only tools of this category.
            regex: read `query` as a regular expression (re2), at most 200 characters.
            among: names of the tools that may be found; None for all.

        Raises:
            InvalidArguments: a query is empty or not a pattern, there are too many queries, the pattern takes more
                than 2 s, `limit` is below 1, or the detail, server, capability or category does not exist among these
                tools.
        """
        snapshot, meant = self._of(self._registry.vocabulary()), _WORDS
        if self._meaning is not None and not options.get("regex") and (queries := _to_embed(snapshot, query)):
            meant = self._meaning.ask_now(snapshot, snapshot.meaning_texts, queries)
        return self._find(snapshot, query, meant=meant, **options)

    def by_words(self, query: Query = "", **options: Unpack[FindOptions]) -> SearchResult:
        """`find` without the embedder: waits for nothing."""
        return self._find(self._of(self._registry.vocabulary()), query, **options)

    async def prepare(self) -> None:
        """Make the vectors of all tools now, so that no search has to wait for them. Does nothing without an embedder.

        Raises what the embedder raises; `ValueError` or `TypeError` if it gives something else than vectors;
        `ConfigurationError` if there are more than 8,192 tools.
        """
        snapshot = await anyio.to_thread.run_sync(self._of, self._registry.vocabulary())
        if self._meaning is not None and snapshot.tools:
            await self._meaning.tools(snapshot, snapshot.meaning_texts)

    def _find(
        self,
        snapshot: Snapshot,
        query: Query,
        *,
        limit: int = 10,
        detail: Detail = "signatures",
        server: str | None = None,
        capability: str | None = None,
        category: str | None = None,
        regex: bool = False,
        among: Collection[str] | None = None,
        stopped: threading.Event | None = None,
        meant: Meant = _WORDS,
    ) -> SearchResult:
        """See `find`. Uses the snapshot alone, so that the registry may change meanwhile.

        Args:
            snapshot: the tools and their names.
            stopped: set when nobody waits for the result any more.
            meant: what the embedder gave for the queries.
        """
        queries = _queries(query, regex)
        query = "; ".join(queries)
        if type(limit) is not int or limit < 1:
            raise InvalidArguments(f"limit must be a whole number above 0, not {described(limit)}")
        if detail not in DETAILS:
            raise InvalidArguments(f"detail must be one of {', '.join(DETAILS)}, not {described(detail)}")
        limit = min(limit, MAX_FOUND)
        filters = {"server": server, "capability": capability, "category": category}
        wanted = {kind: value for kind, value in filters.items() if value is not None}
        within = among if among is None or isinstance(among, frozenset) else frozenset(among)
        for kind, value in wanted.items():
            within = snapshot.having(kind, value, within)
        total = len(snapshot.tools) if within is None else len(within)
        matched: int | None = None
        if regex or not query.strip():
            if not regex and not wanted:
                raise InvalidArguments(
                    "query is empty; say in a few words what the tool should do (it may be empty beside server, "
                    "capability or another filter)"
                )
            places = snapshot.places(snapshot.place_of if within is None else within)
            reason = "the regular expression matches" if regex else ""
            if regex:
                places = snapshot.matches(Pattern(query), places, stopped)
            matched = len(places)
            chosen = (snapshot.tools[place] for place in places[:limit])
            found = [Found(tool, snapshot.names[tool.name], 0.0, query, lambda: reason) for tool in chosen]
        else:
            found = self._ranked(snapshot, queries[0], limit, within, meant)
            if len(queries) > 1:
                others = [self._ranked(snapshot, each, limit, within, meant) for each in queries[1:]]
                by_name = [{each.tool.name: each for each in one} for one in (found, *others)]
                found = list(islice(spread(by_name), limit))
        return SearchResult(
            query=query, queries=queries, found=tuple(found), total=total, matched=matched, detail=detail,
            registry=self._registry, note=meant.note,
        )  # fmt: skip

    def describe(self, names: Collection[str], among: Collection[str] | None = None, *, hint: bool = True) -> Described:
        """Full descriptions of tools.

        Args:
            names: registry names, identifiers in programs or ``server.tool``; at most 50.
            among: names of the tools that may be described; None for all.
            hint: whether the caller can search, so that errors may say so.

        Raises:
            InvalidArguments: `names` is empty, too long or not a list of names, or has no name of a tool.
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
            faults.append(f"there is no tool {name[:60]!r}{f'; {absent}' if absent else did_you_mean(name, known)}")
        if not tools:
            search = "; search_tools finds tools by what they do" if hint else ""
            raise InvalidArguments(f"{'; '.join(faults)}{search}")
        return Described(
            tools=tuple(tools.values()), unknown=tuple(unknown), faults=tuple(faults), registry=self._registry
        )

    def learn(self, query: str, tool: str) -> None:
        """Learn that a search for `query` led to a successful call of `tool`: similar searches rank the tool higher.

        Args:
            query: the query.
            tool: name of a registered tool; any other name is ignored.
        """
        if self.learned is not None and tool in self._registry:
            self.learned.learn(query, tool)

    def _of(self, moment: Vocabulary) -> Snapshot:
        with self._making:
            if self._snapshot is None or self._snapshot.moment is not moment:
                self._snapshot = Snapshot(moment, self._profiles)
            return self._snapshot

    def _ranked(
        self, snapshot: Snapshot, query: str, limit: int, within: frozenset[str] | None, meant: Meant
    ) -> list[Found]:
        terms = query_terms(query)
        parts: dict[str, str] = {}
        postings = snapshot.index.tools
        if len(terms) <= MAX_QUERY_TERMS_SPLIT and not all(map(postings.knows, terms)):
            parts = split_all(words_of(query), postings.knows, lambda: postings.begins)
            terms = dict.fromkeys(parts, 1) | terms
        lessons = {} if self.learned is None else self.learned.scores(terms)
        place_of, tools = snapshot.place_of, snapshot.tools
        learned = {
            place_of[name]: score
            for name, score in lessons.items()
            if name in place_of and (within is None or name in within)
        }
        named = [place for place in snapshot.named(query) if within is None or tools[place].name in within]
        ranked = snapshot.index.rank(
            terms,
            max(limit, _NAMESAKES) if named else max(limit, _FUSED) if meant.likes else limit,
            among=None if within is None else snapshot.mask(within),
            learned=learned,
        )
        scores: dict[int, float] | None = None
        alike: Collection[int] = ()
        if meant.likes:
            places = None if within is None else snapshot.places(within)
            alike = nearest(meant.likes[query], max(limit, _FUSED), places)
            unsaid = 1 - postings.share(terms, ranked[0].place) if ranked else 1.0
            by_words = {each.place: each for each in ranked}
            scores = fused([*by_words][: max(limit, _FUSED)], alike, unsaid**2)
            ranked = [by_words.get(place) or Ranked(place, 0.0, 0.0, 0.0) for place in scores]
        if named:  # tools with that name come first, the exact name before all
            exact = snapshot.exact(query)
            by_place = {each.place: each for each in ranked}
            first = [by_place.pop(place, Ranked(place, 0.0, 0.0, 0.0)) for place in named]
            first.sort(key=lambda each: (each.place != exact, -each.score))
            ranked = [*first, *by_place.values()]
        because, names = partial(why, query, parts, snapshot.index, self.learned, alike), snapshot.names
        return [
            Found(
                tool := tools[each.place],
                names[tool.name],
                each.score if scores is None else scores.get(each.place, 0.0),
                query,
                partial(because, tool, each),
            )
            for each in ranked[:limit]
        ]


class Snapshot:
    """The tools of one moment, by place, ready for searches. A registry with other tools gets a new one; each tool is
    read once.

    Args:
        moment: the names, and the tools, sorted by name.
        profiles: profiles of tools that were read before; new ones are added.
    """

    def __init__(self, moment: Vocabulary, profiles: MutableMapping[Tool, Profile]) -> None:
        self.moment = moment
        self.names = moment.callable_names
        """Names in programs by the tools' own names."""
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

    def exact(self, query: str) -> int | None:
        """The place of the tool that has exactly this name, in the registry, in programs, or as ``server.tool``."""
        return self.place_of.get(self.moment.resolve(query.strip()) or "")

    def named(self, query: str) -> list[int]:
        """The places of the tools that have the query as a name: in the registry, in programs, as ``server.tool``, or
        on their server. Blanks, signs and case do not matter."""
        if len(query) > _MAX_NAME_CHARACTERS:
            return []
        exact = self.exact(query)
        alike = self._named.get(_letters(query), []) if len(query) <= self._longest else []
        return alike if exact is None or exact in alike else [exact, *alike]

    def places(self, names: Iterable[str]) -> list[int]:
        """The places of the tools of these names, in order."""
        return sorted(place for name in names if (place := self.place_of.get(name)) is not None)

    def mask(self, names: frozenset[str]) -> int:
        """The mask of `Index.rank` for the tools of these names; cached."""
        mask = self._masks.get(names)
        if mask is None:
            mask = self.index.tools.mask(self.places(names))
            self._masks.keep(names, mask)
        return mask

    def having(self, kind: str, wanted: str, within: frozenset[str] | None) -> frozenset[str]:
        """Names of the tools with the wanted value. Raises `InvalidArguments` if there are none.

        Args:
            kind: ``"server"``, ``"capability"`` or ``"category"``.
            wanted: the value; case does not matter.
            within: names of the tools that count; None for all.
        """
        if not isinstance(wanted, str):
            raise InvalidArguments(f"{kind} must be a string, not {described(wanted)}")
        counting = [tool for tool in self.tools if within is None or tool.name in within]
        there = {tool.name: [*_VALUES[kind](tool)] for tool in counting}
        folded = wanted.casefold()
        having = frozenset(name for name, values in there.items() if folded in map(str.casefold, values))
        if having:
            return having
        absent = self.moment.why_absent(wanted) if kind == "server" else None
        known = sorted({value for values in there.values() for value in values})
        if not known:
            raise InvalidArguments(absent or f"no tool here has a {kind}; leave {kind} out")
        listed = ", ".join(value[:60] for value in known[:_MAX_LISTED])
        more = f" and {len(known) - _MAX_LISTED} more" if len(known) > _MAX_LISTED else ""
        fault = absent or f"there is no {kind} {wanted[:60]!r}{did_you_mean(wanted, known)}"
        raise InvalidArguments(f"{fault}; there are: {listed}{more}")

    def matches(self, pattern: Pattern, places: Collection[int], stopped: threading.Event | None = None) -> list[int]:
        """The places whose tools match: first those whose names match, then those whose other texts do.

        Args:
            pattern: the pattern.
            places: the places of the tools to search.
            stopped: set when nobody waits any more; ends the search.

        Raises:
            InvalidArguments: the search takes more than 2 s. One tool takes a few ms at most, and is not interrupted.
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

    def meaning_texts(self) -> list[str]:
        """The texts of the tools for an embedder, by place."""
        return [meaning_text(tool) for tool in self.tools]

    @cached_property
    def _texts(self) -> list[tuple[bytes, bytes]]:
        """Names and other texts, by place."""
        dotted = [f"{tool.server}.{tool.server_tool}" if tool.server else "" for tool in self.tools]
        names = [f"{tool.name} {also} {name_text(tool)}" for tool, also in zip(self.tools, dotted, strict=True)]
        return [(_utf8(name), _utf8(document_text(tool))) for name, tool in zip(names, self.tools, strict=True)]


def _to_embed(snapshot: Snapshot, query: Query) -> list[str]:
    """The queries of a search by words among some tools. Raises `InvalidArguments` as the search does."""
    return [each for each in _queries(query, False) if each.strip()] if snapshot.tools else []


def _queries(given: object, regex: bool) -> tuple[str, ...]:
    """One query, or those in a list. Raises `InvalidArguments` if the list is empty or too long, or has no texts."""
    if isinstance(given, str):
        return (given,)
    if not isinstance(given, Sequence) or isinstance(given, bytes):
        raise InvalidArguments(f"query must be a string or a list of strings, not {described(given)}")
    if not 0 < len(given) <= MAX_QUERIES:
        raise InvalidArguments(f"query is a list of {len(given)} queries; give 1 to {MAX_QUERIES} of them")
    for number, each in enumerate(given):
        if not isinstance(each, str):
            raise InvalidArguments(f"query[{number}] must be a string, not {described(each)}")
        if not each.strip():
            raise InvalidArguments(f"query[{number}] is empty; say in a few words what the tool should do")
    if regex:
        raise InvalidArguments("query is a list, and regex=True takes one pattern: join the patterns with |")
    return tuple(given)


def _letters(name: str) -> str:
    """A name without signs and case."""
    return _APART.sub("", name).casefold()


def _utf8(text: str) -> bytes:
    return text.encode(errors="replace")[:_MAX_PATTERN_TEXT_BYTES]
