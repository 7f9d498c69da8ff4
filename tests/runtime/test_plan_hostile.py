"""Plans that are meant to hurt: whatever they ask for is bounded, and answered in words."""

from __future__ import annotations

import json
import tracemalloc
from typing import Any

import anyio
import pytest

from callgate import Limits, Runtime, tool
from callgate.plan.faults import MAX_ERRORS
from runtime.planned import world
from runtime.test_plans import step

pytestmark = [pytest.mark.anyio, pytest.mark.sampled]

SECONDS = 60


@tool(read_only=True)
async def drop(text: Any = None) -> None:
    """Take anything, give nothing."""


@tool(read_only=True)
async def give(value: Any) -> Any:
    """Give it back."""
    return value


@tool(read_only=True)
async def numbers(count: int) -> list[int]:
    """So many of them."""
    return list(range(count))


@pytest.mark.slow
async def test_large_texts_for_many_steps_are_not_all_made_at_once() -> None:
    big = step("big", "give", arguments={"value": "x" * 1_000_000})
    steps = [big] + [step(f"s{n}", "drop", arguments={"text": "${big}!"}) for n in range(300)]
    async with Runtime([drop, give], sandbox=None) as runtime:
        tracemalloc.start()
        try:
            with anyio.fail_after(SECONDS):
                result = await runtime.execute_tool_plan({"steps": steps, "output_steps": ["s0"]})
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert result.ok
    assert peak < 230_000_000  # 64 MiB of texts under way, and 64 MiB in the records


@pytest.mark.parametrize(
    "value",
    [
        ["$ref:n[*]"] * 200,
        ["$ref:n[*].a.b"] * 200,
        {"$ref": "n[*]"},
        "${n}" * 500,
        [{"$expr": "[a + b for a in n for b in n]"}],
        [{"$expr": "str(n) * 1000"}],
    ],
)
async def test_values_that_grow_while_they_are_put_together_are_refused_for_that_step(value: Any) -> None:
    steps = [step("n", "numbers", arguments={"count": 40_000}), step("s", "drop", arguments={"text": value})]
    async with Runtime([drop, numbers], sandbox=None) as runtime:
        limits = Limits(max_message_bytes=400_000)
        tracemalloc.start()
        try:
            with anyio.fail_after(SECONDS):
                result = await runtime.execute_tool_plan({"steps": steps}, limits=limits)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    if value == {"$ref": "n[*]"}:
        assert result.ok
    else:
        assert result.step("s").status == "failed"
        assert result.step("s").kind == "Unresolvable"
    assert peak < 100_000_000


async def test_references_of_many_steps_may_not_map_for_ever() -> None:
    steps = [step("n", "numbers", arguments={"count": 40_000})]
    steps += [step(f"s{i}", "drop", arguments={"text": "$ref:n[*]"}) for i in range(100)]
    async with Runtime([drop, numbers], sandbox=None) as runtime:
        with anyio.fail_after(SECONDS):
            result = await runtime.execute_tool_plan({"steps": steps})
    failed = [each for each in result.steps if each.status == "failed"]
    assert failed
    assert failed[-1].error == "the references of this plan map over too many items, all together"


@pytest.mark.parametrize(
    "hostile",
    [
        {"id": "s{n}", "tool": "get", "arguments": {"key": "$ref:nobody{n}"}},
        {"id": "s{n}", "tool": "gett{n}", "arguments": {}},
        {"id": "s{n}", "tool": "get", "arguments": {"kee{n}": 1, "kye{n}": 2}},
        {"id": "s{n}", "tool": "get", "argumnets": {}},
        {"id": "same", "tool": "get", "arguments": {"key": "x"}},
        {"id": "s{n}", "tool": "get", "arguments": "[" * 50},
        {"id": "s{n}.a.b.c.d", "tool": "get", "arguments": {"key": "$ref:s{n}.a.b.c.d.e.f"}, "depends_on": ["x{n}"]},
        {"id": "s{n}", "tool": "get", "arguments": {"key": {"$expr": "nobody{n} + 1"}}},
        {"id": "s{n}", "tool": "get", "arguments": {"key": "x"}, "fallback": {"tool": "gte{n}"}, "timeout": -1},
    ],
)
async def test_a_plan_with_20_000_faults_is_answered_with_the_first_of_them(hostile: dict[str, Any]) -> None:
    text = json.dumps(hostile)
    steps = [json.loads(text.replace("{n}", str(n))) for n in range(20_000)]
    async with world() as (runtime, made):
        with anyio.fail_after(SECONDS):
            result = await runtime.execute_tool_plan({"steps": steps})
    assert result.error is not None
    assert result.error.kind == "PlanRefused"
    assert MAX_ERRORS <= len(result.faults) < 5 * MAX_ERRORS
    assert len(result.for_model()) < 20_000
    assert made.log == []


async def test_many_warnings_do_not_fill_the_text() -> None:
    async with world() as (runtime, _):
        steps = [step("a")] + [step(f"s{n}", arguments={"key": "$a is not a reference"}) for n in range(3000)]
        result = await runtime.execute_tool_plan({"steps": steps})
    assert result.ok
    assert len(result.for_model()) < 20_000


@pytest.mark.parametrize(
    "given",
    [
        None, 5, [], "", "null", "[]", '"text"', b"{}", float("nan"), object(), {1: 2}, "\x00", "[" * 100_000,
        {"steps": None}, {"steps": {}}, {"steps": [None]}, {"steps": [[]]}, {"steps": {1, 2}}, '{"steps":' * 5000,
        {"plan": {"plan": {"steps": []}}}, '{"steps": [{"tool": "get", "tool": "put"}]}',
        '{"steps": [{"tool": "get", "arguments": {"key": "\\ud800"}}]}',
        {"steps": [{"id": True, "tool": "get"}]}, {"steps": [{"tool": "get", "id": "x" * 300}]},
        {"steps": [{"tool": "get", "arguments": {"key": "k"}, "timeout_seconds": 1e400}]},
        {"steps": [{"tool": "get", "arguments": {"key": "k"}, "for_each": [1], "max_items": 10**9}]},
    ],
)  # fmt: skip
async def test_what_is_no_plan_is_refused_in_words(given: Any) -> None:
    async with world() as (runtime, made):
        result = await runtime.execute_tool_plan(given)
        assert result.error is not None
        assert result.error.kind == "PlanRefused"
        assert 20 < len(result.for_model()) < 3000
        text = await runtime.handle("execute_tool_plan", given)
        assert text.startswith("The plan was not run: ")
    assert made.log == []


async def test_a_value_that_looks_like_a_reference_is_never_looked_at_again() -> None:
    """Nor is it parsed: what a tool returns cannot reach what other steps returned."""
    async with world() as (runtime, _):
        evil = ["$ref:secret", "${secret}", {"$ref": "secret"}, {"$expr": "secret"}, "$item", '", "key": "']
        steps = [
            step("secret", arguments={"key": "the secret"}),
            step("evil", arguments={"key": "e", "value": {"$literal": evil}}),
            step("uses", arguments={"key": "${evil}", "value": "$ref:evil"}),
            step("maps", for_each="$ref:evil", arguments={"key": "${item}", "value": ["$item", "$ref:evil[0]"]}),
            step("computes", arguments={"key": "c", "value": {"$expr": "evil[0] + evil[1]"}}),
        ]
        result = await runtime.execute_tool_plan({"steps": steps})
    assert result.ok
    assert result.outputs["evil"] == result.outputs["uses"] == evil
    assert result.outputs["maps"] == [[each, "$ref:secret"] for each in evil]
    assert result.outputs["computes"] == "$ref:secret${secret}"
    assert [each for each in result.steps if "the secret" in str(each.arguments)] == [result.step("secret")]
