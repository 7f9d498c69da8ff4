"""Plans of generated programs make the calls that these make: plans written beforehand, and plans of what ran."""

from __future__ import annotations

import collections
import json
import random
from typing import Any

import pytest

from callgate import CallRecord, Limits, Runtime
from fast_path.catalogue import TOOLS, WORLD, WRITERS, World, approve
from fast_path.programs import THEMES, write

pytestmark = pytest.mark.anyio

PROGRAMS = 60
"""Of each theme."""
NO_KEYS = "a key of a JSON object is text"
"""What a plan refuses in an argument that is worked out, and a program writes as text."""


def made(calls: list[CallRecord]) -> list[str]:
    """The calls, without those that were made in another one's stead."""
    instead = {call.fallback_call for call in calls}
    return [f"{call.tool} {_canonical(call.arguments)}" for call in calls if call.id not in instead]


def _canonical(arguments: Any) -> str:
    return json.dumps(dict(sorted(arguments.items())) if isinstance(arguments, dict) else arguments)


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("theme", THEMES)
async def test_a_plan_of_a_program_makes_its_calls(theme: str) -> None:
    counts: collections.Counter[str] = collections.Counter()
    limits = Limits(wall_seconds=20, max_tool_calls=2000)
    async with Runtime(TOOLS, approve=approve, sandbox=None, limits=limits) as runtime:
        for number in range(PROGRAMS):
            program = write(random.Random(f"plans {number}").randrange, theme)
            compiled = runtime.compile(program.source, inputs=program.inputs)
            if not compiled.ok:
                continue
            WORLD.set(World())
            result = await runtime.execute_code(program.source, inputs=program.inputs, path="plan")
            if not result.ok:
                continue
            for kind, plan in (("written", compiled.plan), ("ran", result.plan)):
                if plan is None or not plan["steps"]:
                    continue
                WORLD.set(World())
                planned = await runtime.execute_tool_plan(json.loads(json.dumps(plan)))
                if planned.error is not None and NO_KEYS in planned.error.message:
                    continue
                told = f"{kind}\n{program.source}\n{program.inputs}\n{json.dumps(plan)}"
                assert planned.ok, f"{planned.error}\n{told}"
                assert sorted(made(planned.calls)) == sorted(made(result.calls)), told
                writes = [call for call in made(planned.calls) if call.split(" ", 1)[0] in WRITERS]
                if kind == "ran":
                    assert writes == [call for call in made(result.calls) if call.split(" ", 1)[0] in WRITERS], told
                counts[kind] += 1
    assert counts["ran"] >= 10, counts
    assert counts["written"] >= 5, counts


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_result_that_was_changed_and_awaited_again_is_no_reference() -> None:
    async with Runtime(TOOLS, sandbox=None) as runtime:
        source = "import asyncio\nt = asyncio.create_task(same([1]))\n(await t).append(2)\nawait same(await t)"
        result = await runtime.execute_code(source, path="plan")
        planned = await runtime.execute_tool_plan(result.plan or {})
    assert made(result.calls) == made(planned.calls) == ['same {"value": [1]}', 'same {"value": [1, 2]}']
