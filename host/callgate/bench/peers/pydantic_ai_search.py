"""A peer's own process: ``python -m callgate.bench.peers.pydantic_ai_search``. The one file that imports pydantic_ai.

Its `ToolSearchToolset` with the search by keywords that it has unless told otherwise, called as an agent would call it.
`serving` says how it is asked.
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
    from pydantic_ai import RunContext, Tool
    from pydantic_ai.exceptions import ModelRetry
    from pydantic_ai.models.test import TestModel
    from pydantic_ai.toolsets import FunctionToolset
    from pydantic_ai.toolsets._tool_search import ToolSearchToolset
    from pydantic_ai.usage import RunUsage
except ImportError:  # an optional peer: the harness asks first
    sys.exit("pydantic-ai-slim is not installed")


class Peer:
    """The functions that may be asked for."""

    def __init__(self) -> None:
        self._ids: list[str] = []
        self._set: Any = None
        self._context: Any = RunContext(deps=None, model=TestModel(), usage=RunUsage())
        self._tool: Any = None

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
        tools = [_tool(f"t{n}", texts[id]) for n, id in enumerate(self._ids)]
        self._set = ToolSearchToolset(FunctionToolset(tools))
        self._tool = (await self._set.get_tools(self._context))["search_tools"]
        return {"tools": len(tools)}

    async def search(self, queries: list[str]) -> dict[str, Any]:
        """Ids of what is found for each, and the seconds each took."""
        found, seconds = [], []
        for query in queries:
            started = time.perf_counter()
            try:
                answer = await self._set.call_tool("search_tools", {"queries": [query]}, self._context, self._tool)
            except ModelRetry:  # the query has no ASCII letter or digit
                answer = {"discovered_tools": []}
            seconds.append(time.perf_counter() - started)
            found.append([self._ids[int(each["name"][1:])] for each in answer["discovered_tools"]])
        return {"found": found, "seconds": seconds}


def _tool(name: str, text: str) -> Any:
    tool = Tool.from_schema(_nothing, name=name, description=text, json_schema={"type": "object", "properties": {}})
    tool.defer_loading = True
    return tool


async def _nothing() -> None:
    pass


if __name__ == "__main__":
    asyncio.run(serve(Peer()))
