"""A run that is cut off after any of its writes goes on: nothing that is kept is done again, and every outcome that was
used before is used again, in the same order."""

from __future__ import annotations

import json
import random
from functools import partial
from typing import Any

import anyio
import pytest

from callgate import Runtime, Tool, ToolError, tool
from callgate.durable.memory import MemoryStore
from callgate.durable.store import StoredCall
from callgate.runtime.durable.runs import Run
from callgate.sandbox import launching
from runtime.durable.crashed import Diary, as_it_was

pytestmark = pytest.mark.anyio

PROGRAMS = {
    "one after the other": """
a = await read(name="a")
b = await change(name=a["name"])
c = await change(name="c")
[a, b, c]
""",
    "side by side": """
import asyncio
found = await asyncio.gather(*[read(name=str(n)) for n in range(4)], *[change(name=str(n)) for n in range(4)])
last = await change(name="last")
[found, last]
""",
    "the same call again": """
import asyncio
first = await change(name="x")
both = await asyncio.gather(change(name="x"), change(name="x"))
second = await read(name="y")
third = await read(name="y")
[first, both, second, third]
""",
    "reads that begin early": """
import asyncio
results = []
for name in ["a", "b", "c"]:
    found = await read(name=name)
    more = await read(name="more")
    results.append([found, more])
done = await change(name="end")
[results, done]
""",
    "the first failure ends it": """
import asyncio
a = asyncio.create_task(fails(name="a"))
b = asyncio.create_task(fails(name="b"))
c = await read(name="c")
d = await change(name="d")
await asyncio.gather(a, b)
""",
    "two at once fail": """
import asyncio
found = await asyncio.gather(fails(name="a"), change(name="x"), fails(name="b"))
found
""",
}
PLANS: dict[str, dict[str, Any]] = {
    "a chain": {
        "steps": [
            {"id": "a", "tool": "read", "arguments": {"name": "a"}},
            {"id": "b", "tool": "change", "arguments": {"name": "$ref:a.name"}},
            {"id": "c", "tool": "change", "arguments": {"name": "$ref:b.name"}},
        ],
        "output_steps": ["a", "b", "c"],
    },
    "items": {
        "steps": [
            {"id": "a", "tool": "change", "for_each": ["x", "x", "y"], "arguments": {"name": "$ref:item"}},
            {"id": "b", "tool": "read", "for_each": "$ref:a", "arguments": {"name": "$ref:item.name"}},
            {"id": "c", "tool": "change", "arguments": {"name": "x"}},
        ],
        "output_steps": ["a", "b", "c"],
    },
    "a critical step fails": {
        "steps": [
            {"id": "a", "tool": "fails", "arguments": {"name": "a"}, "critical": True},
            {"id": "b", "tool": "change", "arguments": {"name": "b"}},
            {"id": "c", "tool": "change", "arguments": {"name": "$ref:b.name"}},
            {"id": "d", "tool": "change", "arguments": {"name": "$ref:c.name"}},
        ],
        "output_steps": ["b", "c", "d"],
    },
}


IN_A_GUEST = {
    "as they come": """
import asyncio
seen = []
async def one(n):
    found = await read(name=f"{n}")
    return await change(name=found["name"])
for each in asyncio.as_completed([one(n) for n in range(4)]):
    made = await each
    seen.append(made)
    print(made["name"])
    await change(name=made["name"])
seen
""",
    "retries and timers": """
import asyncio, random
out = []
for n in range(3):
    try:
        out.append(await fails(name=f"{n}"))
    except ToolError as error:
        await asyncio.sleep(random.random() / 1000)
        out.append([str(error), random.random()])
        try:
            out.append(await asyncio.wait_for(change(name="x"), 5))
        except TimeoutError:
            out.append("late")
done, _ = await asyncio.wait([asyncio.create_task(read(name="same")) for _ in range(3)], return_when="FIRST_COMPLETED")
out.append([task.result() for task in done])
out
""",
    "a walk that becomes unsure": """
import asyncio
first = await change(name="a")
second = await asyncio.gather(read(name="b"), change(name="b"))
n = 3.5.hex()
third = await change(name=n)
[first, second, third]
""",
}


class World:
    """Tools that answer late and never twice the same, and what they did."""

    def __init__(self, seed: int) -> None:
        self.made: list[tuple[str, str]] = []
        self.random = random.Random(seed)

    def tools(self) -> list[Tool]:
        @tool(read_only=True)
        async def read(name: str) -> dict[str, Any]:
            return await self._done("read", name)

        @tool
        async def change(name: str) -> dict[str, Any]:
            return await self._done("change", name)

        @tool
        async def fails(name: str) -> dict[str, Any]:
            made = await self._done("fails", name)
            raise ToolError(f"{made['mark']} fails")

        return [read, change, fails]

    async def _done(self, kind: str, name: str) -> dict[str, Any]:
        self.made.append((kind, name))
        for _ in range(self.random.randrange(12)):
            await anyio.lowlevel.checkpoint()
        return {"name": name, "mark": self.random.random()}


def outcomes(store: MemoryStore) -> dict[Any, StoredCall]:
    (entry,) = store._entries.values()
    return {key: call for key, call in entry.calls.items() if call.outcome is not None}


async def finished(runtime: Runtime, run: Run[Any]) -> Any:
    """The result of a run whose unknown calls were all made, and say so."""
    with anyio.fail_after(20):
        while True:
            now = await runtime.runs.get(run.id)
            if now.status in ("succeeded", "failed", "cancelled"):
                return await now.wait()
            if now.status == "needs_attention":
                for call in await runtime.runs.unsettled(run.id):
                    happened = {"happened": {"name": call.arguments["name"], "mark": -1}}
                    await runtime.runs.settle(
                        run.id, call.call, **({"fail": "it fails"} if call.tool == "fails" else happened)
                    )
            await anyio.sleep(0.005)


def shown(result: Any) -> Any:
    error = None if result.error is None else (result.error.kind, result.error.message)
    return (result.value if hasattr(result, "value") else result.outputs, error)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", [*PROGRAMS, *PLANS])
async def test_a_run_goes_on_from_any_moment(name: str, seed: int) -> None:
    await goes_on_from_any_moment(PROGRAMS.get(name) or PLANS[name], seed, None)


@pytest.mark.slow
@pytest.mark.parametrize("name", IN_A_GUEST)
async def test_a_program_in_a_guest_goes_on_from_any_moment(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # zygotes for few guests, which start in half the time: there is one for each moment
    monkeypatch.setattr(launching, "_launch", partial(launching._launch, brief=True))
    await goes_on_from_any_moment(IN_A_GUEST[name], 1, "auto", every=5)


async def goes_on_from_any_moment(given: Any, seed: int, sandbox: str | None, every: int = 1) -> None:
    world, diary = World(seed), Diary()
    async with Runtime(world.tools(), sandbox=sandbox, durable=diary, pool_size=1) as runtime:
        run = await runtime.start(given)
        whole = await finished(runtime, run)
    assert sandbox is None or whole.path == "sandbox"
    assert whole.error is None or whole.error.kind in ("ToolError", "StepFailed"), whole.error
    for cut in [*range(0, len(diary.writes) - 1, every), len(diary.writes) - 1, len(diary.writes)]:
        again, store = World(seed + 1000), await as_it_was(diary, cut)
        known = outcomes(store)
        began = sum(call.status == "started" for call in store._entries[run.id].calls.values())
        async with Runtime(again.tools(), sandbox=sandbox, durable=store, pool_size=1) as runtime:
            result = await finished(runtime, await runtime.runs.get(run.id))
        assert result.error is None or result.error.kind in ("ToolError", "StepFailed"), (cut, result.error)
        made = sorted(again.made)
        everything = sorted([*made, *((call.tool, json.loads(call.arguments)["name"]) for call in known.values())])
        if whole.error is None:
            assert len(everything) + began == len(world.made), (cut, made)
        for key, call in known.items():
            assert outcomes(store)[key].outcome == call.outcome
        if cut >= len(diary.writes) - 1:
            assert shown(result) == shown(whole)
            assert made == []


@pytest.mark.parametrize("name", ["the first failure ends it", "two at once fail", "a critical step fails"])
async def test_the_failure_that_came_first_comes_first_again(name: str) -> None:
    given: Any = PROGRAMS.get(name) or PLANS[name]
    for seed in range(8):
        world, diary = World(seed), Diary()
        async with Runtime(world.tools(), sandbox=None, durable=diary) as runtime:
            whole = await finished(runtime, await runtime.start(given))
        store = await as_it_was(diary, len(diary.writes) - 1)
        async with Runtime(World(99).tools(), sandbox=None, durable=store) as runtime:
            (row,) = diary.rows
            again = await finished(runtime, await runtime.runs.get(row.id))
        assert shown(again) == shown(whole)
        assert [call.tool for call in again.calls] == [call.tool for call in whole.calls]
        assert {call.replayed for call in again.calls} == {True}
