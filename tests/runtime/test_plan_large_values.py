"""Large values that steps hand on: nobody sees what another changes, and every text is what was returned."""

from __future__ import annotations

import json
from typing import Any

import pytest

from callgate import Runtime, tool

pytestmark = pytest.mark.anyio

LINES = [f"{number:04} {'x' * 92}" for number in range(4_000)]
KEPT: list[list[str]] = []


@tool(read_only=True)
async def give() -> list[str]:
    """Give lines."""
    KEPT.append(list(LINES))
    return KEPT[-1]


@tool
async def spoil(value: list[str], word: str) -> list[str]:
    """Change the own argument, and what `give` returned."""
    for lines in KEPT:
        lines.clear()
    value.reverse()
    value[0] = word
    return value


@tool
async def rows(value: list[str]) -> list[dict[str, Any]]:
    """Make rows of lines."""
    return [{"number": number, "words": line.split()} for number, line in enumerate(value)]


@tool
async def spoil_rows(value: list[dict[str, Any]]) -> int:
    """Change the own argument."""
    for row in value:
        row["words"].clear()
    return len(value)


@tool
async def count(value: list[str] | list[dict[str, Any]], first: Any) -> list[Any]:
    """Count."""
    return [len(value), value[0], first]


async def test_a_tool_that_changes_its_argument_changes_no_other_step() -> None:
    KEPT.clear()
    steps = [
        {"id": "lines", "tool": "give"},
        {"id": "a", "tool": "spoil", "arguments": {"value": "$ref:lines", "word": "a"}},
        {"id": "b", "tool": "spoil", "arguments": {"value": "$ref:lines", "word": "b"}, "after": ["a"]},
        {"id": "c", "tool": "count", "arguments": {"value": "$ref:lines", "first": "$ref:b[1]"}},
        {"id": "rows", "tool": "rows", "arguments": {"value": "$ref:lines"}, "after": ["b"]},
        {"id": "d", "tool": "spoil_rows", "arguments": {"value": "$ref:rows"}},
        {"id": "e", "tool": "count", "arguments": {"value": "$ref:rows", "first": "$ref:rows[1]"}, "after": ["d"]},
    ]
    async with Runtime([give, spoil, rows, spoil_rows, count], sandbox=None) as runtime:
        result = await runtime.execute_tool_plan({"steps": steps, "output_steps": ["lines", "a", "b", "c", "e"]})
    assert result.ok, result.error
    backwards = LINES[::-1]
    assert result.outputs["lines"] == LINES
    assert result.outputs["a"] == ["a", *backwards[1:]]
    assert result.outputs["b"] == ["b", *backwards[1:]]
    assert result.outputs["c"] == [4_000, LINES[0], backwards[1]]
    assert result.outputs["e"] == [
        4_000,
        {"number": 0, "words": LINES[0].split()},
        {"number": 1, "words": LINES[1].split()},
    ]
    by_id = {step.id: step for step in result.steps}
    assert by_id["a"].arguments == {"value": LINES, "word": "a"}
    assert json.loads(by_id["lines"].result_json or "") == LINES
    result.outputs["lines"].clear()
    assert by_id["b"].arguments == {"value": LINES, "word": "b"}


@pytest.mark.parametrize("wrong", [5, None, ["x"], True])
async def test_a_large_value_of_a_wrong_type_is_refused_with_its_place(wrong: Any) -> None:
    @tool
    async def mixed() -> list[Any]:
        """Give lines, and one thing that is not a line."""
        return [*LINES, wrong]

    steps = [
        {"id": "lines", "tool": "mixed"},
        {"id": "a", "tool": "spoil", "arguments": {"value": "$ref:lines", "word": "a"}},
    ]
    async with Runtime([mixed, spoil], sandbox=None) as runtime:
        result = await runtime.execute_tool_plan({"steps": steps})
    assert result.error is not None
    assert "argument 'value[4000]' must be a valid string, got " in result.error.message
