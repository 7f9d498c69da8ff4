"""Tool search: how many of the tools that answer a query are among the first ten, and how long it takes.

The sets of tools and queries are public. A set is two files of JSON lines, gzipped: ``{"id", "text"}`` for each tool
and ``{"query", "relevant": [ids]}`` for each query. The text is all that there is to read of a tool: of
StableToolBench's category, API, endpoint, description and parameters, of BFCL's name, description and parameters.
"""

from __future__ import annotations

import gc
import gzip
import json
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from callgate import Registry, Runtime
from callgate.tools import Tool
from callgate_bench.figures import Row, timed, verdict_of
from callgate_bench.singles.bench import Bench, NotMeasured

__all__ = ["FOUND_BY_OTHERS", "SETS", "Query", "ToolSet", "many_tools", "read_set", "recall", "search"]

SETS = {"stabletoolbench": "StableToolBench", "bfcl_all": "BFCL"}
"""Names by the beginnings of the files' names."""
FOUND_BY_OTHERS = {
    "stabletoolbench": {"SQLite FTS5, Porter stems": 0.790, "tantivy": 0.779, "FastMCP": 0.659, "pydantic-ai": 0.071},
    "bfcl_all": {"tantivy": 0.884, "SQLite FTS5, Porter stems": 0.883, "FastMCP": 0.845, "pydantic-ai": 0.510},
}
"""Recall@10 of other engines on the same texts, measured before; the best first."""


@dataclass(frozen=True, slots=True)
class Query:
    """What was asked, and the ids of the tools that answer it."""

    text: str
    relevant: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ToolSet:
    """Texts by id, in the order of the file, and queries."""

    name: str
    texts: dict[str, str]
    queries: tuple[Query, ...]

    def tools(self) -> list[Tool]:
        """As tools of ours: the same words, as name, server, category and description. A tool's name is its id."""
        return [_tool(id, text) for id, text in self.texts.items()]


def read_set(folder: Path, beginning: str) -> ToolSet | None:
    """One of `SETS`; None where the files are not there."""
    tools, queries = folder / f"{beginning}_tools.jsonl.gz", folder / f"{beginning}_queries.jsonl.gz"
    if not (tools.is_file() and queries.is_file()):
        return None
    return ToolSet(
        SETS[beginning],
        {each["id"]: each["text"] for each in _lines(tools)},
        tuple(Query(each["query"], tuple(each["relevant"])) for each in _lines(queries)),
    )


def many_tools(sets: Iterable[ToolSet], count: int) -> list[Tool]:
    """So many tools of ours: all of the sets', and the first of them again under other names."""
    tools = [tool for each in sets for tool in each.tools()]
    return [*tools, *(tool.named(f"{tool.name} 2") for tool in tools)][:count]


def recall(queries: Sequence[Query], found: Callable[[str], Iterable[str]]) -> float:
    """Mean share of a query's relevant tools that are among what was found.

    Args:
        queries: one at least.
        found: the ids that a search gives for a text, at most 10 of them.
    """
    share = 0.0
    for query in queries:
        ids = set(found(query.text))
        share += sum(id in ids for id in query.relevant) / len(query.relevant)
    return share / len(queries)


def _lines(path: Path) -> list[dict[str, Any]]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def _tool(id: str, text: str) -> Tool:
    # StableToolBench's ids are API/endpoint, and its texts go: category API endpoint ...; BFCL's go: id ...
    for at, sign in enumerate(id):
        server, name = id[:at], id[at + 1 :]
        if sign == "/" and (before := text.find(f" {server} {name} ")) >= 0:
            rest = text[before + len(server) + len(name) + 3 :]
            options: dict[str, Any] = {"category": text[:before], "server": server, "server_tool": name}
            return Tool.from_schema(id, rest, {"type": "object"}, _nothing, **options)
    return Tool.from_schema(id, text.removeprefix(id).strip(), {"type": "object"}, _nothing)


def _nothing(**arguments: object) -> None:
    pass


_MANY = 4_000


async def search(bench: Bench) -> list[Row]:
    """Recall beside what other engines found in the same texts, and time among 4,000 tools."""
    folder = bench.calls.parent / "toolsearch"
    sets = {beginning: found for beginning in SETS if (found := read_set(folder, beginning))}
    if len(sets) < len(SETS):
        raise NotMeasured(f"no tools and queries in {folder}")
    rows = []
    among_many = Runtime(Registry(many_tools(sets.values(), _MANY)), sandbox=None)
    among_many.search_tools("weather")  # reads the tools
    for beginning, each in sets.items():
        others = FOUND_BY_OTHERS[beginning]
        queries = each.queries[:: max(1, len(each.queries) // bench.sizes.searches)]
        ours = recall(queries, partial(_found, Runtime(Registry(each.tools()), sandbox=None)))
        best = max(others.values())
        row = Row(
            key="search", measure=f"recall@10: {each.name}, {len(each.texts):,} tools, {len(queries):,} queries",
            measured=f"{ours:.3f}", peer=", ".join(f"{name}: {value:.3f}" for name, value in others.items()),
            note="the others were measured before, on the same texts", numbers={"ours": ours, "others": others},
            target=f"> {best:.3f}", verdict=verdict_of(ours > best),
        )  # fmt: skip
        rows.append(row)
        for query in queries:  # words' numbers are worked out when they are first asked for
            among_many.search_tools(query.text)
        gc.collect()
        took = [_took(among_many, query.text) for query in queries]
        rows.append(timed("search", f"a search among {_MANY:,} tools: {each.name}'s queries", took, within=200e-6))
    return rows


def _found(runtime: Runtime, query: str) -> list[str]:
    return [each.tool.name for each in runtime.search_tools(query, limit=10).found]


def _took(runtime: Runtime, query: str) -> float:
    started = time.perf_counter()
    runtime.search_tools(query)
    return time.perf_counter() - started
