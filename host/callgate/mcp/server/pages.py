"""The list of tools in pages, for clients that give up on long messages. Pure.

A page's cursor is the number of tools before it: a list that changes meanwhile may show a tool twice or leave one out,
and clients are told that it has changed.
"""

from __future__ import annotations

from mcp_types import Tool as McpTool

__all__ = ["MAX_PAGE_BYTES", "NoPage", "page"]

MAX_PAGE_BYTES = 750_000
"""Of one page; a tool that is longer has one of its own."""


class NoPage(ValueError):
    """No page has that cursor."""


def page(tools: list[McpTool], cursor: str | None) -> tuple[list[McpTool], str | None]:
    """The tools of one page, and the cursor of the next.

    Raises:
        NoPage: no page has that cursor.
    """
    start = 0
    if cursor is not None:
        if not (cursor.isascii() and cursor.isdecimal() and len(cursor) < 8 and 0 < int(cursor) <= len(tools)):
            raise NoPage(f"there is no page {cursor[:40]!r}: begin without a cursor")
        start = int(cursor)
    size = 0
    for place in range(start, len(tools)):
        size += len(tools[place].model_dump_json(by_alias=True, exclude_none=True).encode()) + 1
        if size > MAX_PAGE_BYTES and place > start:
            return tools[start:place], str(place)
    return tools[start:], None
