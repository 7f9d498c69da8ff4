"""Tool search: how many of the tools that answer a query are among the first ten, how long it takes, what learning
adds."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from callgate.bench.figures import Figure, percentile, seconds
from callgate.bench.peers.process import PeerFailed, PeerProcess
from callgate.bench.rows import Row
from callgate.bench.singles.context import Bench
from callgate.bench.singles.tool_sets import SETS, Query, ToolSet, halves, many_tools, read_set, recall
from callgate.runtime.search import ToolSearch
from callgate.search.document import profile_of
from callgate.search.index import Index
from callgate.search.learned import Learned
from callgate.search.words import query_terms
from callgate.tools import Registry

__all__ = ["FOUND_BY_OTHERS", "MANY", "search"]

FOUND_BY_OTHERS = {
    "stabletoolbench": {"SQLite FTS5, Porter stems": 0.790, "tantivy": 0.779, "FastMCP": 0.659, "pydantic-ai": 0.071},
    "bfcl_all": {"tantivy": 0.884, "SQLite FTS5, Porter stems": 0.883, "FastMCP": 0.845, "pydantic-ai": 0.510},
}
"""Recall@10 of other engines on the same texts, measured before; the best first."""
MANY = 4_000
_MOST_SECONDS = 0.2e-3
_ASKED_AT_ONCE = 20


@dataclass(slots=True)
class _Peer:
    process: PeerProcess
    failed: str = ""
    recalls: dict[str, float] = field(default_factory=dict)
    seconds: dict[str, list[float]] = field(default_factory=dict)
    """By the set that the queries are of; among `MANY` tools."""

    async def find(self, folder: Path, beginning: str, queries: Sequence[Query]) -> None:
        """Its recall on one set."""
        asked = await self._asked(folder, [beginning], 0, [query.text for query in queries])
        if asked is not None:
            by_text = dict(zip((query.text for query in queries), asked[0], strict=True))
            self.recalls[beginning] = recall(queries, by_text.__getitem__)

    async def time(self, folder: Path, beginnings: list[str], queries: dict[str, list[str]]) -> None:
        """How long its searches take among `MANY` tools; the first of them is not counted."""
        for beginning, texts in queries.items():
            asked = await self._asked(folder, beginnings, MANY, [texts[0], *texts])
            if asked is not None:
                self.seconds[beginning] = asked[1][1:]

    async def _asked(
        self, folder: Path, beginnings: list[str], count: int, texts: list[str]
    ) -> tuple[list[list[str]], list[float]] | None:
        found: list[list[str]] = []
        took: list[float] = []
        if self.failed:
            return None
        try:
            await self.process.ask("load", folder=str(folder), beginnings=beginnings, count=count)
            for start in range(0, len(texts), _ASKED_AT_ONCE):
                answer = await self.process.ask("search", queries=texts[start : start + _ASKED_AT_ONCE])
                found += answer["found"]
                took += answer["seconds"]
        except PeerFailed as error:
            self.failed = str(error)
            return None
        return found, took


async def search(bench: Bench) -> list[Row]:
    """Recall and time beside FastMCP's and pydantic-ai's, and what was learned from half of the queries."""
    folder = bench.calls.parent / "toolsearch"
    sets = {beginning: found for beginning in SETS if (found := read_set(folder, beginning))}
    if len(sets) < len(SETS):
        return [Row(key="search", measure="tool search", measured=f"not measured: no tools and queries in {folder}")]
    every = bench.sizes.searches_each
    asked = {beginning: each.queries for beginning, each in sets.items()}
    async with (
        PeerProcess(
            "FastMCP", "callgate.bench.peers.fastmcp_search", "fastmcp", python=bench.interpreters.get("fastmcp", "")
        ) as fastmcp,
        PeerProcess("pydantic-ai", "callgate.bench.peers.pydantic_ai_search", "pydantic-ai") as pydantic_ai,
        PeerProcess("bm25s with our words", "callgate.bench.peers.bm25s_search", "bm25s") as bm25s,
    ):
        peers = [_Peer(fastmcp), _Peer(pydantic_ai), _Peer(bm25s)]
        for peer in peers:
            for beginning, queries in asked.items():
                await peer.find(folder, beginning, queries[::every])
            step = {beginning: max(1, len(queries) // bench.sizes.searches) for beginning, queries in asked.items()}
            timed = {name: [query.text for query in queries[:: step[name]]] for name, queries in asked.items()}
            await peer.time(folder, list(SETS), timed)
    rows = [
        _recall(beginning, each, peers, "" if every == 1 else f" (every {every}th query)")
        for beginning, each in sets.items()
    ]
    rows += _times(list(sets.values()), asked, peers)
    rows += [_learned(each) for each in sets.values()]
    return rows


def _names(searching: ToolSearch) -> Callable[[str], list[str]]:
    return lambda text: [each.tool.name for each in searching.find(text, limit=10).found]


def _recall(beginning: str, tools: ToolSet, peers: Sequence[_Peer], note: str) -> Row:
    queries = tools.queries
    found = _names(ToolSearch(Registry(tools.tools())))
    others = FOUND_BY_OTHERS[beginning]
    target = max(others.values())
    ours = recall(queries, found)
    tuned, held_out = (recall(half, found) for half in halves(queries))
    alone = recall(queries, _without_servers(tools))
    told = []
    for peer in peers:
        reached = peer.recalls.get(beginning)
        told.append(f"{peer.process.name}: " + (peer.failed if reached is None else f".{reached * 1000:03.0f}{note}"))
    return Row(
        key="search",
        measure=f"tool search, recall@10: {tools.name}, {len(tools.texts):,} tools, {len(queries):,} queries",
        measured=f".{ours * 1000:03.0f}; on the half of the queries that constants were chosen on "
        f".{tuned * 1000:03.0f}, on the other .{held_out * 1000:03.0f}; by each tool's own words alone "
        f".{alone * 1000:03.0f}",
        target=f"> .{target * 1000:03.0f}, the best of others on the same texts",
        verdict="met" if ours > target else "missed",
        peer="; ".join(told),
        note="measured before: " + ", ".join(f"{name} .{value * 1000:03.0f}" for name, value in others.items()),
        numbers={
            "ours": ours, "tuned": tuned, "held_out": held_out, "without_servers": alone,
            "peers": {peer.process.name: peer.recalls.get(beginning) for peer in peers},
        },
    )  # fmt: skip


def _without_servers(tools: ToolSet) -> Callable[[str], list[str]]:
    names = list(tools.texts)
    index = Index([profile_of(tool) for tool in tools.tools()], [None] * len(names))

    def found(text: str) -> list[str]:
        return [names[each.place] for each in index.rank(query_terms(text), 10)]

    return found


def _times(sets: Sequence[ToolSet], asked: dict[str, tuple[Query, ...]], peers: Sequence[_Peer]) -> list[Row]:
    registry = Registry(many_tools(sets, MANY))
    _ = registry.tools(), registry.callable_names()
    searching = ToolSearch(registry)
    first = _took(lambda: searching.find("weather"))
    rows = []
    for beginning, queries in asked.items():
        texts = [query.text for query in queries]
        for text in texts:  # words' numbers are worked out when they are first asked for
            searching.find(text)
        gc.collect()
        took = [_took(lambda text=text: searching.find(text)) for text in texts]  # type: ignore[misc]
        words = median(len(text.split()) for text in texts)
        p50 = Figure.of(took).p50
        told = [
            f"{peer.process.name}: {Figure.of(peer.seconds[beginning]) if beginning in peer.seconds else peer.failed}"
            for peer in peers
        ]
        row = Row(
            key="search",
            measure=f"a search among {MANY:,} tools: {SETS[beginning]}'s queries, {words:.0f} words",
            measured=str(Figure.of(took)),
            target=f"≤ {_MOST_SECONDS * 1e3:g} ms",
            verdict="met" if p50 <= _MOST_SECONDS else "missed",
            peer="; ".join(told),
            note="from the text of the query to the ten tools, python names and scores",
            numbers={"ours": asdict(Figure.of(took))}
            | {p.process.name: asdict(Figure.of(p.seconds[beginning])) for p in peers if beginning in p.seconds},
        )
        rows.append(row)
    registry.add(registry.tools()[0].named("one more"))
    _ = registry.tools(), registry.callable_names()
    again = _took(lambda: searching.find("weather"))
    patterns = sorted(_took(lambda: searching.find("weather|forecast", regex=True)) for _ in range(20))
    return [
        *rows,
        Row(
            key="search",
            measure=f"reading {MANY:,} tools",
            measured=f"{seconds(first)} the first time, {seconds(again)} when one has come",
            note=f"in a worker thread, for `ask` and the built-in tools; a search by a regular expression takes "
            f"{seconds(percentile(patterns, 0.5))}",
        ),
    ]


def _learned(tools: ToolSet) -> Row:
    """Each half of the queries is asked after the other half was learned from."""
    queries = tools.queries
    plain = _names(ToolSearch(Registry(tools.tools())))
    sides = halves(queries)
    figures: list[dict[str, Any]] = []
    for taught, tested in (sides, sides[::-1]):
        searching = ToolSearch(Registry(tools.tools()), Learned())
        for query in taught:
            for tool in query.relevant:
                searching.learn(query.text, tool)
        assert searching.learned is not None
        figures.append(
            {
                "queries": len(tested), "lessons": len(searching.learned),
                "before": recall(tested, plain), "after": recall(tested, _names(searching)),
            }
        )  # fmt: skip
    before, after = (sum(each[k] * each["queries"] for each in figures) / len(queries) for k in ("before", "after"))
    return Row(
        key="search",
        measure=f"what learning adds, recall@10: {tools.name}, queries that were not learned from",
        measured=f"{after - before:+.3f}: .{before * 1000:03.0f} before, .{after * 1000:03.0f} after",
        note="; ".join(f"{e['lessons']:,} lessons: {e['after'] - e['before']:+.3f}" for e in figures),
        numbers={"halves": figures},
    )


def _took(action: Callable[[], object]) -> float:
    started = time.perf_counter()
    action()
    return time.perf_counter() - started
