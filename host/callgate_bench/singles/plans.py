"""Plans beside LangGraph and wave barriers; and how long anything hostile holds the event loop."""

from __future__ import annotations

import gc
import json
import random
import statistics
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

import anyio

from callgate import PlanResult, Runtime, tool
from callgate_bench.contest.process import PeerFailed
from callgate_bench.figures import Figure, Row, ratio, seconds, verdict_of
from callgate_bench.singles.bench import LIMITS, Bench, BenchFailed, beside, tick
from callgate_bench.singles.shapes import Needs, chain, layers, longest

__all__ = ["makespan", "plan", "reference", "stall"]

_LARGE_BYTES, _LARGE_STEPS = 5_000_000, 10
_SLEEP_SECONDS = 0.02
_MOST_SECONDS = 0.1


@tool(read_only=True)
async def add(a: int = 0, b: int = 0, c: int = 0) -> int:
    """A tool that costs nothing; every result is the same."""
    return 1


async def _executed(runtime: Runtime, plan: dict[str, Any]) -> tuple[float, PlanResult]:
    gc.collect()  # nobody pays for another's garbage
    started = time.perf_counter()
    result = await runtime.execute_tool_plan(plan)
    took = time.perf_counter() - started
    if not result.ok:
        raise BenchFailed(str(result.error))
    return took, result


def _written(needs: Needs) -> dict[str, Any]:
    """A plan as a model would write it: every need is a reference."""
    steps = []
    for at, needed in enumerate(needs):
        arguments = {name: f"$ref:s{need}" for name, need in zip("abc", needed, strict=False)}
        steps.append({"id": f"s{at}", "tool": "add", "arguments": arguments})
    return {"steps": steps, "output_steps": [f"s{len(needs) - 1}"]}


async def plan(bench: Bench) -> list[Row]:
    """A step of a plan in layers, from the plan as an object to its result, beside LangGraph at the smaller size."""
    rows = []
    async with Runtime([add], sandbox=None, limits=LIMITS) as runtime:
        for steps, within in zip(bench.sizes.plan_steps, (40e-6, 50e-6), strict=True):
            written = _written(layers(steps))
            compared = steps == bench.sizes.plan_steps[0]

            async def ours(written: dict[str, Any] = written, steps: int = steps) -> list[float]:
                return [(await _executed(runtime, written))[0] / steps]

            async def theirs(steps: int = steps, compared: bool = compared) -> list[float]:
                if not compared:
                    raise PeerFailed("not tried at this size: a step is dearer the more there are")
                return [(await bench.langgraph.ask("steps", steps=steps))["seconds"] / steps]

            rows.append(await beside(
                "plan", f"a step of a plan of {steps:,}, from the plan to its result",
                bench.sizes.few if compared else max(1, bench.sizes.few // 5), ours, "LangGraph", theirs,
                note="validated, gated and recorded here; LangGraph's graph is compiled before, and carries no results",
                within=within,
            ))  # fmt: skip
    return rows


async def reference(bench: Bench) -> list[Row]:
    """Five megabytes of JSON that go by reference through ten steps, whose tools take no time."""

    @tool(read_only=True)
    async def give() -> list[str]:
        """Five megabytes."""
        return ["x" * 97] * (_LARGE_BYTES // 100)

    @tool(read_only=True)
    async def keep(value: list[str]) -> list[str]:
        """Give it back."""
        return value

    async with Runtime([give, keep], sandbox=None, limits=LIMITS) as runtime:

        async def ours() -> list[float]:
            return [(await _executed(runtime, chain(_LARGE_STEPS)))[0]]

        async def theirs() -> list[float]:
            return [(await bench.langgraph.ask("large", size=_LARGE_BYTES, steps=_LARGE_STEPS))["seconds"]]

        return [await beside(
            "reference", "5 MB by reference through 10 steps, own work", max(1, bench.sizes.few // 3), ours,
            "LangGraph", theirs, note="validated, encoded and recorded here; objects of one process there", within=0.04,
        )]  # fmt: skip


async def makespan(bench: Bench) -> list[Row]:
    """Random graphs in layers whose tools sleep for log-normal times, as plans and wave by wave, in turns.

    The critical path is that of the sleeps as they were: a timer rings up to a millisecond late.
    """
    steps = bench.sizes.dag_steps
    latencies: list[float] = []
    slept: list[float] = []

    @tool(read_only=True)
    async def rest(step: int, after: list[int]) -> int:
        """Sleep for as long as was drawn for this step."""
        began = time.perf_counter()
        await anyio.sleep(latencies[step])
        slept[step] = time.perf_counter() - began
        return step

    ours: list[float] = []
    waves: list[float] = []
    paths: list[float] = []
    limits = replace(LIMITS, max_concurrent_calls=steps)
    async with Runtime([rest], sandbox=None, limits=limits) as runtime:
        for seed in range(max(1, bench.sizes.few // 5)):
            needs, draw = layers(steps, seed), random.Random(seed)
            latencies[:] = slept[:] = [_SLEEP_SECONDS * draw.lognormvariate(0.0, 1.0) for _ in range(steps)]
            given = []
            for at, needed in enumerate(needs):
                arguments = {"step": at, "after": [f"$ref:s{need}" for need in needed]}
                given.append({"id": f"s{at}", "tool": "rest", "arguments": arguments})
            took, result = await _executed(runtime, {"steps": given, "output_steps": []})
            ours.append(took)
            paths.append(longest(needs, slept))
            waves.append(await _wave_by_wave(latencies, [step.wave for step in result.steps]))
    share, waved = ratio(ours, paths), ratio(waves, paths)
    return [
        Row(
            key="makespan", measure=f"makespan of {steps:,} steps in random layers, log-normal latencies",
            measured=f"{share:.3f} × the critical path ({seconds(statistics.median(paths))}), {len(ours)} graphs",
            target="≤ 1.01 × the critical path", verdict=verdict_of(share <= 1.01),
            peer=f"wave barriers: {waved:.2f} × the critical path", ratio=ratio(ours, waves),
            note=f"median {seconds(_SLEEP_SECONDS)}, sigma 1, real sleeps; max_concurrent_calls does not bind",
            numbers={"ours": asdict(Figure.of(ours)), "waves_seconds": waves, "path_seconds": paths},
        )
    ]  # fmt: skip


async def _wave_by_wave(latencies: Sequence[float], waves: Sequence[int]) -> float:
    started = time.perf_counter()
    for wave in range(max(waves) + 1):
        async with anyio.create_task_group() as tasks:
            for step, each in enumerate(waves):
                if each == wave:
                    tasks.start_soon(anyio.sleep, latencies[step])
    return time.perf_counter() - started


async def stall(bench: Bench) -> list[Row]:
    """The most processor time between two turns of the event loop while hostile programs and plans run.

    Processor time, since a busy machine keeps the loop waiting as well; of all threads, since each may hold the
    interpreter's lock.
    """
    many = _written(layers(bench.sizes.plan_steps[1]))
    hostile: dict[str, str | dict[str, Any]] = {
        "a plan of very many steps": many,
        "the same plan as text": {"plan": json.dumps(many)},
        "an expression that grows a text": _expression("'ab' * 100000000"),
        "an expression of nested loops": _expression("[[i * j for i in range(3000)] for j in range(3000)]"),
        "an expression of large numbers": _expression("9 ** 9 ** 9"),
        "a value a hundred deep": {"steps": [{"id": "s", "tool": "tick", "arguments": {"n": _deep(100)}}]},
        "a program of 60 KB": "x = await tick(n=1)\n" + "x = x + 1\n" * 6_000,
        "a program of one long line": "await tick(n=" + "1+" * 9_000 + "1)",
        "a program of many calls": "for n in range(20000):\n    await tick(n=n)\n",
    }
    held_for: dict[str, float] = {}
    async with Runtime([add, tick], sandbox=None, limits=LIMITS) as runtime:
        for name, each in hostile.items():
            held_for[name] = await _longest_gap(runtime, each)
    worst = max(held_for, key=lambda name: held_for[name])
    return [
        Row(
            key="stall", measure="longest stretch for which anything hostile holds the event loop",
            measured=f"{seconds(held_for[worst])}: {worst}", target=f"≤ {seconds(_MOST_SECONDS)}",
            verdict=verdict_of(held_for[worst] <= _MOST_SECONDS),
            note=f"of {len(hostile)} programs and plans, on the host; processor time", numbers=held_for,
        )
    ]  # fmt: skip


def _expression(text: str) -> dict[str, Any]:
    return {"steps": [{"id": "s", "tool": "tick", "arguments": {"n": {"$expr": text}}}]}


def _deep(levels: int) -> Any:
    return [_deep(levels - 1)] if levels else 0


async def _longest_gap(runtime: Runtime, hostile: str | dict[str, Any]) -> float:
    gap, last = 0.0, time.process_time()

    async def beat() -> None:
        nonlocal gap, last
        while True:
            await anyio.sleep(0.001)
            now = time.process_time()
            gap, last = max(gap, now - last), now

    gc.collect()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(beat)
        if isinstance(hostile, str):
            await runtime.execute_code(hostile)
        else:
            await runtime.execute_tool_plan(hostile)
        await anyio.sleep(0.005)
        tasks.cancel_scope.cancel()
    return gap
