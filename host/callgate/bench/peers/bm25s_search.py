"""A peer's own process: ``python -m callgate.bench.peers.bm25s_search``. The one file that imports bm25s.

The library that our own ranking was held against: bm25s, given the very terms, weights and constants that ours has.
`serving` says how it is asked.
"""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path
from typing import Any

from callgate.bench.serving import serve
from callgate.bench.singles.tool_sets import SETS, ToolSet, many_tools, read_set
from callgate.search.document import profile_of
from callgate.search.words import query_terms

try:
    import bm25s
except ImportError:  # an optional peer: the harness asks first
    sys.exit("bm25s is not installed")


class Peer:
    """The functions that may be asked for."""

    def __init__(self) -> None:
        self._ids: list[str] = []
        self._index: Any = None

    async def load(self, folder: str, beginnings: list[str], count: int) -> dict[str, Any]:
        """Take tools in: those of these sets; with a `count` that many, the first of them again where it needs.

        Raises:
            RuntimeError: `folder` does not have one of the sets.
        """
        sets: list[ToolSet] = []
        for beginning in beginnings:
            found = read_set(Path(folder), beginning)
            if found is None:
                raise RuntimeError(f"no {SETS[beginning]} in {folder}")
            sets.append(found)
        tools = many_tools(sets, count) if count else [tool for each in sets for tool in each.tools()]
        self._ids = [tool.name for tool in tools]
        terms = [
            [term for term, count in profile_of(tool).counts.items() for _ in range(count)] or [""] for tool in tools
        ]
        self._index = bm25s.BM25(method="lucene", k1=2.0, b=0.75)
        self._index.index(terms, show_progress=False)
        return {"tools": len(tools)}

    async def search(self, queries: list[str]) -> dict[str, Any]:
        """Ids of what is found for each, and the seconds each took."""
        found, seconds = [], []
        for query in queries:
            started = time.perf_counter()
            terms = [term for term in query_terms(query) if term in self._index.vocab_dict]
            ids: list[str] = []
            if terms:
                places, scores = self._index.retrieve([terms], k=min(10, len(self._ids)), show_progress=False)
                ids = [self._ids[place] for place, score in zip(places[0], scores[0], strict=True) if score > 0]
            seconds.append(time.perf_counter() - started)
            found.append(ids)
        return {"found": found, "seconds": seconds}


if __name__ == "__main__":
    asyncio.run(serve(Peer()))
