"""`search_tools` and `describe_tools` as built-in tools of a run: what a program and a plan may call to look around.

They find what the run itself may call, and nothing else. A program gets JSON values, not text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from callgate.runtime.offer import Offer
from callgate.tools import Tool
from callgate.tools.tool import Detail

if TYPE_CHECKING:
    from .tool_search import ToolSearch

__all__ = ["search_builtins"]


def search_builtins(search: Callable[[], ToolSearch]) -> Callable[[Offer], Iterable[Tool]]:
    """For `Gate(builtins=...)`.

    Args:
        search: gives the search over the tools of the gate.
    """

    def builtins(offer: Offer) -> Iterable[Tool]:
        if not offer.tools:
            return ()
        among = frozenset(tool.name for tool in offer.tools)

        async def search_tools(
            query: str = "",
            limit: int = 10,
            detail: Detail = "signatures",
            server: str | None = None,
            capability: str | None = None,
            regex: bool = False,
        ) -> dict[str, Any]:
            """Find tools by what they do.

            Args:
                query: what the tool should do, in a few words; or its name. Empty beside server or capability: list
                    all of these by name.
                limit: how many at most; 100 is the most.
                detail: how much to tell of each: "names", "signatures" or "full".
                server: only tools of this server.
                capability: only tools that list this capability.
                regex: read query as a regular expression (RE2 syntax).

            Returns:
                {"found": [{"name", "python_name", "description", "signature", ...}], "total"}, the best first.
            """
            found = await search().ask(
                query, limit=limit, detail=detail, server=server, capability=capability, regex=regex, among=among
            )
            return found.to_json()

        async def describe_tools(names: list[str]) -> dict[str, Any]:
            """All there is to know of some tools: arguments, results, limits.

            Args:
                names: of tools, as search_tools gives them.

            Returns:
                {"tools": [{"name", "python_name", "description", "signature", "input_schema", ...}], "unknown"}.
            """
            return search().describe(names, among=among).to_json()

        return [Tool.from_function(each, read_only=True) for each in (search_tools, describe_tools)]

    return builtins
