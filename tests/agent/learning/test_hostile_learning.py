"""What hostile tools try on learning: to take another tool's place."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agent.learning.test_learned_selector import WEATHER, A, B, First, outcome
from callgate.agent.learning.memory import SelectionMemory
from callgate.agent.learning.ranked import LearnedSelector, equals
from callgate.tools.registry import ToolInfo

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("one", "other"),
    [(A, replace(B, read_only=False)), (replace(A, read_only=False), B), (replace(A, read_only=False),) * 2],
)
async def test_statistics_never_choose_what_changes_something(one: ToolInfo, other: ToolInfo) -> None:
    other = replace(other, name="b")
    memory = SelectionMemory()
    for _ in range(30):
        memory.note(outcome("a", success=False, failed=("a",)))
        memory.note(outcome("b"))
    assert equals(A, B)
    assert not equals(one, other)
    first = First()
    selection = await LearnedSelector(first, memory).select(WEATHER, [one, other])
    assert first.offered == [("a", "b")]
    assert [choice.tool for choice in selection.chain] == ["a"]
    assert "a was chosen although it fails often" in selection.reasoning


async def test_the_registry_says_which_tools_change_nothing() -> None:
    from callgate import tool
    from callgate.tools import Registry

    @tool(read_only=True)
    async def look() -> int:
        """Look."""
        return 0

    @tool
    async def change() -> int:
        """Change."""
        return 0

    registry = Registry([look, change])
    assert (registry.info("look").read_only, registry.info("change").read_only) == (True, False)
