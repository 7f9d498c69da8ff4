"""What a search can learn from a conversation: which of the tools that it found were called with success afterwards.

Knows searches and records of calls; what is made of a lesson, the search knows.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from callgate.errors import InvalidArguments
from callgate.runtime.calls import CallRecord
from callgate.runtime.model.answer import Answer
from callgate.runtime.model.meta import META_TOOLS
from callgate.runtime.search import ToolSearch
from callgate.tools import Registry

from .state import ConversationState, Search

__all__ = ["teach"]

_MOST_SEARCHES = 8
"""Searches of one program that are learned from; each has to be made again."""


def teach(search: ToolSearch, registry: Registry, state: ConversationState, answer: Answer) -> None:
    """Tell the search which of what it found was called with success: by the model, a plan, or a program.

    The latest search that found a tool gets the credit, once for each tool. A program's own searches come before the
    conversation's.
    """
    calls = getattr(answer.result, "calls", None)
    if calls is not None:
        within: list[Search] = []
        for call in calls:
            if call.status == "succeeded":
                if call.tool == "search_tools" and len(within) < _MOST_SEARCHES:
                    within.extend(_again(search, call))
                else:
                    _credit(search, registry.resolve(call.tool), [*state.searches, *within])
    elif answer.ok and answer.name not in META_TOOLS:
        _credit(search, answer.name, state.searches)


def _credit(search: ToolSearch, name: str | None, searches: list[Search]) -> None:
    for each in reversed(searches):
        if name is not None and name in each.found:
            if name not in each.taught:
                each.taught.add(name)
                search.learn(each.query, name)
            return


def _again(search: ToolSearch, call: CallRecord) -> Iterator[Search]:
    """A search that a program made: what it found is not in the record, but it is found again."""
    given = call.arguments if isinstance(call.arguments, dict) else {}
    query = given.get("query")
    if not isinstance(query, str) or given.get("regex"):
        return
    with contextlib.suppress(InvalidArguments):
        yield Search(query, tuple(each.tool.name for each in search.find(query).found))
