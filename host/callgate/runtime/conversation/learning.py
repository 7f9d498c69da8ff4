"""What a search can learn from a conversation: which of the tools that it found were called with success afterwards.

1. Only searches that found the tool teach it. One that was read in a state, which anybody may have written, is made
   again first: what it does not find now, it does not teach. So a forged state teaches nothing that its holder could
   not have taught by searching.
2. What a program searched for is in the records of its calls, and what it found is not: that is made again as well.

Knows searches and records of calls; what is made of a lesson, the search knows.
"""

from __future__ import annotations

from collections.abc import Collection

from callgate.errors import InvalidArguments
from callgate.runtime.gate.calls import CallRecord
from callgate.runtime.model.answer import Answer
from callgate.runtime.model.meta import META_TOOLS
from callgate.runtime.search.tool_search import ToolSearch
from callgate.tools import Registry

from .state import MAX_FOUND, ConversationState, Search

__all__ = ["teach"]

_MOST_SEARCHES = 8
"""Searches of one program that are learned from; each has to be made again."""
_USUAL = 10
"""So many tools a search finds that says no limit."""


async def teach(
    search: ToolSearch, registry: Registry, state: ConversationState, answer: Answer, among: Collection[str] | None
) -> None:
    """Tell the search which of what it found was called with success: by the model, a plan, or a program.

    The latest search that found a tool gets the credit, once for each tool. A program's own searches come before the
    conversation's.

    Args:
        search: what learns.
        registry: its tools.
        state: the searches of the conversation.
        answer: what the call came to.
        among: names of the tools that the conversation can find; None: all.
    """
    calls = getattr(answer.result, "calls", None)
    if calls is not None:
        within: list[Search] = []
        for call in calls:
            if call.status == "succeeded":
                if call.tool == "search_tools" and len(within) < _MOST_SEARCHES:
                    within.extend(await _again(search, call, among))
                else:
                    await _credit(search, registry.resolve(call.tool), [*state.searches, *within], among)
    elif answer.ok and answer.name not in META_TOOLS:
        await _credit(search, answer.name, state.searches, among)


async def _credit(search: ToolSearch, name: str | None, searches: list[Search], among: Collection[str] | None) -> None:
    for each in reversed(searches):
        if name is None:
            return
        if each.told and name in each.found:
            await _verify(search, each, among)
        if name in each.found:
            if name not in each.taught:
                each.taught.add(name)
                search.learn(each.query, name)
            return


async def _verify(search: ToolSearch, told: Search, among: Collection[str] | None) -> None:
    """Make a search again that was read in a state; it is left with what it found now as well."""
    there = await _found(search, told.query, MAX_FOUND, among)
    told.found = tuple(name for name in told.found if name in there)
    told.told = False


async def _again(search: ToolSearch, call: CallRecord, among: Collection[str] | None) -> list[Search]:
    """A search that a program made."""
    given = call.arguments if isinstance(call.arguments, dict) else {}
    query = given.get("query")
    if not isinstance(query, str) or given.get("regex"):
        return []
    return [Search(query, await _found(search, query, _USUAL, among))]


async def _found(search: ToolSearch, query: str, limit: int, among: Collection[str] | None) -> tuple[str, ...]:
    try:
        return tuple(each.tool.name for each in (await search.ask(query, limit=limit, among=among)).found)
    except InvalidArguments:
        return ()
