"""How long a plan takes as a whole: tools that take their time, and a plan that is still being written."""

from __future__ import annotations

import gc
import json
import random
import statistics
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import anyio

from callgate.bench.figures import Figure, ratio, seconds
from callgate.bench.rows import Row, against
from callgate.bench.singles.context import Bench, BenchFailed
from callgate.bench.singles.shapes import Needs, layers
from callgate.limits import Limits
from callgate.runtime import PlanResult, Runtime
from callgate.tools import tool

__all__ = ["early", "makespan"]

_SIGMA = 1.0
_MOST = 1.02
_READS, _READ_SECONDS = 8, 0.15
_TOKEN_CHARACTERS = 4


@dataclass(slots=True)
class _Draw:
    """One random graph with a latency for every step; and what each step took when it ran."""

    needs: Needs
    latencies: list[float]
    took: list[float]

    @classmethod
    def of(cls, seed: int, steps: int, median_seconds: float) -> _Draw:
        draw = random.Random(seed)
        needs = layers(steps, draw, least_needs=1)
        latencies = [median_seconds * draw.lognormvariate(0.0, _SIGMA) for _ in range(steps)]
        return cls(needs, latencies, [0.0] * steps)

    async def rest(self, step: int) -> None:
        """What the tool of a step does."""
        started = time.perf_counter()
        await anyio.sleep(self.latencies[step])
        self.took[step] = time.perf_counter() - started

    def late(self) -> float:
        """By how much the sleeps were longer than asked for, on average."""
        return statistics.fmean(took - asked for took, asked in zip(self.took, self.latencies, strict=True))


def _critical_path(needs: Needs, durations: Sequence[float]) -> float:
    """The longest way through the graph."""
    ends: list[float] = []
    for each, duration in zip(needs, durations, strict=True):
        ends.append(duration + max((ends[need] for need in each), default=0.0))
    return max(ends)


async def makespan(bench: Bench) -> list[Row]:
    """Random layered graphs, run as plans and wave by wave in turns, against the critical path of what was drawn."""
    steps = bench.sizes.dag_steps
    current: list[_Draw] = []

    @tool(read_only=True)
    async def rest(step: int, after: list[int]) -> int:
        """Sleep for as long as was drawn for this step."""
        await current[0].rest(step)
        return step

    ours: list[float] = []
    waves: list[float] = []
    paths: list[float] = []
    measured: list[float] = []
    late: list[float] = []
    late_in_waves: list[float] = []
    limits = Limits(wall_seconds=600.0, max_concurrent_calls=steps, max_tool_calls=steps)
    async with Runtime([rest], sandbox=None, limits=limits) as runtime:
        for seed in range(bench.sizes.dags):
            draw = _Draw.of(seed, steps, bench.sizes.dag_median_seconds)
            current[:] = [draw]
            gc.collect()
            took, result = await _executed(runtime, _resting(draw.needs))
            ours.append(took)
            paths.append(_critical_path(draw.needs, draw.latencies))
            measured.append(_critical_path(draw.needs, draw.took))
            late.append(draw.late())
            gc.collect()
            waves.append(await _wave_by_wave(draw, [step.wave for step in result.steps]))
            late_in_waves.append(draw.late())
    share, itself, waved = ratio(ours, paths), ratio(ours, measured), ratio(waves, paths)
    least, most = min(map(_over, ours, paths)), max(map(_over, ours, paths))
    return [
        Row(
            key="makespan",
            measure=f"makespan of {steps:,} steps in random layers, log-normal latencies",
            measured=(
                f"{share:.3f} × the critical path ({least:.3f} to {most:.3f}, {len(ours)} graphs); "
                f"{seconds(statistics.median(ours))} against {seconds(statistics.median(paths))}"
            ),
            target=f"≤ {_MOST:g} × the critical path",
            verdict="met" if share <= _MOST else "missed",
            peer=f"wave barriers: {waved:.2f} × the critical path, {seconds(statistics.median(waves))}",
            ratio=ratio(ours, waves),
            note=(
                f"latencies: median {seconds(bench.sizes.dag_median_seconds)}, sigma {_SIGMA:g}, real sleeps; "
                f"max_concurrent_calls is {steps:,} and does not bind. {itself:.3f} × the path of the sleeps as they "
                f"were: late by {seconds(statistics.fmean(late))} each, in the waves by "
                f"{seconds(statistics.fmean(late_in_waves))}. The waves are those of the same plan, and nothing else"
            ),
            numbers={
                "ours_seconds": ours, "waves_seconds": waves, "drawn_path_seconds": paths,
                "measured_path_seconds": measured, "late_seconds": late, "late_in_waves_seconds": late_in_waves,
            },
        )
    ]  # fmt: skip


def _over(mine: float, other: float) -> float:
    return mine / other


def _resting(needs: Needs) -> dict[str, Any]:
    steps = [
        {
            "id": f"s{step}",
            "tool": "rest",
            "arguments": {"step": step, "after": [f"$ref:s{need}" for need in needed]},
        }
        for step, needed in enumerate(needs)
    ]
    return {"steps": steps, "output_steps": [f"s{len(needs) - 1}"]}


async def _executed(runtime: Runtime, plan: dict[str, Any] | str) -> tuple[float, PlanResult]:
    started = time.perf_counter()
    result = await runtime.execute_tool_plan(plan)
    took = time.perf_counter() - started
    if not result.ok:
        raise BenchFailed(str(result.error))
    return took, result


async def _wave_by_wave(draw: _Draw, waves: Sequence[int]) -> float:
    together: list[list[int]] = [[] for _ in range(max(waves) + 1)]
    for step, wave in enumerate(waves):
        together[wave].append(step)
    started = time.perf_counter()
    for steps in together:
        async with anyio.create_task_group() as tasks:
            for step in steps:
                tasks.start_soon(draw.rest, step)
    return time.perf_counter() - started


async def early(bench: Bench) -> list[Row]:
    """A plan of reads that is being written: how long after its last character the result is there."""
    rate = bench.sizes.tokens_per_second
    text = json.dumps(_reads(), indent=1)
    pieces = [text[at : at + _TOKEN_CHARACTERS] for at in range(0, len(text), _TOKEN_CHARACTERS)]
    written = 0.0

    @tool(read_only=True)
    async def fetch(source: str, known: list[str]) -> str:
        """A read that takes its time."""
        await anyio.sleep(_READ_SECONDS)
        return source

    async def tokens() -> AsyncIterator[str]:
        nonlocal written
        for piece in pieces:
            await anyio.sleep(1 / rate)
            written = time.perf_counter()
            yield piece

    ours: list[float] = []
    whole: list[float] = []
    async with Runtime([fetch], sandbox=None) as runtime:
        for _ in range(bench.sizes.early_runs):
            result = await runtime.stream_plan(tokens())
            ours.append(time.perf_counter() - written)
            if not result.ok or len(result.calls) != _READS:
                raise BenchFailed(f"{len(result.calls)} calls of {_READS} steps: {result.error}")
            whole.append((await _executed(runtime, text))[0])
    row = against(
        "early", f"a plan of {_READS} reads of {_READ_SECONDS:g} s, end of its text to result: stream_plan",
        ours, peer="execute_tool_plan, given the whole text", theirs=whole,
        note=(
            f"simulated writing: {len(pieces)} tokens of {_TOKEN_CHARACTERS} characters at {rate:g} a second, "
            f"{len(pieces) / rate:.1f} s; every third read needs the two before it, the last one needs nothing"
        ),
    )  # fmt: skip
    return [Row(**{**row.to_dict(), "numbers": {**row.numbers, "ours_all": asdict(Figure.of(ours))}})]


def _reads() -> dict[str, Any]:
    steps = []
    for step in range(_READS):
        known = [f"$ref:read_{step - 2}", f"$ref:read_{step - 1}"] if step % 3 == 2 else []
        arguments = {"source": f"https://example.org/reports/2026/{step}", "known": known}
        steps.append({"id": f"read_{step}", "tool": "fetch", "arguments": arguments})
    return {"steps": steps, "output_steps": [f"read_{_READS - 1}"]}
