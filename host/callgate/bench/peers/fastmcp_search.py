"""A peer's own process: ``python -m callgate.bench.peers.fastmcp_search``. The one file that imports fastmcp.

Its `BM25SearchTransform`, asked without a server and a client around it. Each of its searches looks whether the tools
have changed, by a hash of all their texts. `serving` says how it is asked.
"""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path
from typing import Any

from callgate.bench.serving import serve
from callgate.bench.singles.tool_sets import SETS, read_set

try:
    from fastmcp.server.transforms.search import BM25SearchTransform
    from fastmcp.tools import Tool
except ImportError:  # an optional peer: the harness asks first
    sys.exit("fastmcp is not installed")


class Peer:
    """The functions that may be asked for."""

    def __init__(self) -> None:
        self._tools: list[Any] = []
        self._ids: list[str] = []
        self._search = BM25SearchTransform(max_results=10)

    async def load(self, folder: str, beginnings: list[str], count: int) -> dict[str, Any]:
        """Take tools in: those of these sets; with a `count` that many, the first of them again where it needs.

        Raises:
            RuntimeError: `folder` does not have one of the sets.
        """
        texts: dict[str, str] = {}
        for beginning in beginnings:
            found = read_set(Path(folder), beginning)
            if found is None:
                raise RuntimeError(f"no {SETS[beginning]} in {folder}")
            texts |= found.texts
        self._ids = [*texts, *texts][:count] if count else list(texts)
        schema = {"type": "object", "properties": {}}
        self._tools = [Tool(name=f"t{n}", description=texts[id], parameters=schema) for n, id in enumerate(self._ids)]
        self._search = BM25SearchTransform(max_results=10)
        return {"tools": len(self._tools)}

    async def search(self, queries: list[str]) -> dict[str, Any]:
        """Ids of what is found for each, and the seconds each took."""
        found, seconds = [], []
        for query in queries:
            started = time.perf_counter()
            tools = await self._search._search(self._tools, query)
            seconds.append(time.perf_counter() - started)
            found.append([self._ids[int(tool.name[1:])] for tool in tools])
        return {"found": found, "seconds": seconds}


if __name__ == "__main__":
    asyncio.run(serve(Peer()))
