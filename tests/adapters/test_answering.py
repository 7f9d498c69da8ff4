"""What all adapters answer with: the meta-tools that an agent was not given are refused, and no answer names them."""

from __future__ import annotations

import pytest

from adapters.conftest import World
from callgate.adapters.answering import Answering

pytestmark = pytest.mark.anyio


async def test_a_meta_tool_that_was_not_given_is_neither_answered_nor_named(world: World) -> None:
    few = Answering(world.runtime, {"meta": ["execute_code"]}, "openai", None)
    all_four = Answering(world.runtime, {}, "openai", None)
    assert not (await few.answer("search_tools", {"query": "book"})).ok
    assert (await all_four.answer("search_tools", {"query": "book"})).ok
    assert "search_tools" in (await all_four.answer("nothing_like_it", {})).text
    assert "search_tools" not in (await few.answer("nothing_like_it", {})).text
