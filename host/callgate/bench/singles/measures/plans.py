"""What a step of a plan costs: in the engine alone, and from the plan as it comes to its result."""

from __future__ import annotations

import gc
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from callgate.bench.figures import Figure, seconds
from callgate.bench.peers.process import LangGraphPeer, PeerFailed, PeerProcess, TasksPeer
from callgate.bench.rows import Row, Verdict
from callgate.bench.singles.context import Bench, BenchFailed
from callgate.bench.singles.shapes import SHAPES, Needs, Shape, shape
from callgate.limits import Limits
from callgate.plan.actions import Begin, Call, Returned
from callgate.plan.compile import CompiledPlan
from callgate.plan.engine import Engine
from callgate.runtime import Event, Runtime
from callgate.tools import tool

__all__ = ["engine", "plan"]

_LIMITS = Limits(wall_seconds=600.0, max_tool_calls=1_000_000, max_message_bytes=64 * 1024 * 1024)
_BARE_SECONDS, _WHOLE_SECONDS = 10e-6, 40e-6
_JUDGED: tuple[Shape, ...] = ("chain", "layered")
_LINEAR_FROM, _LINEAR = 1000, 1.5
"""A step of the largest plan may cost so many times what one of a plan of 1,000 does, and count as linear."""
_EVENTS_PER_STEP = 4
_STARTING_SECONDS = 20.0
_ARGUMENTS = "abc"

Run = Callable[[], Awaitable[float]]


@tool(read_only=True)
async def add(a: int = 0, b: int = 0, c: int = 0) -> int:
    """A tool that costs nothing; every result is the same."""
    return 1


def _written(needs: Needs) -> dict[str, Any]:
    """The plan as a model would write it: every need is a reference."""
    steps = [
        {
            "id": f"s{step}",
            "tool": "add",
            "arguments": {name: f"$ref:s{need}" for name, need in zip(_ARGUMENTS, needed, strict=False)},
        }
        for step, needed in enumerate(needs)
    ]
    return {"steps": steps, "output_steps": [f"s{len(needs) - 1}"]}


@dataclass(slots=True)
class _Series:
    """Seconds a step of one contestant, by the size of the plan."""

    name: str
    by_size: dict[int, list[float]] = field(default_factory=dict)
    stopped: str = ""
    """Why there are no more."""
    compiling: dict[int, float] = field(default_factory=dict)
    """Seconds a step before the clock started."""

    def told(self) -> str:
        """The medians, the largest plan first."""
        told = [f"{seconds(Figure.of(each).p50)} at {size:,}" for size, each in sorted(self.by_size.items())[::-1]]
        return f"{self.name}: {', '.join([*told, self.stopped] if self.stopped else told)}"

    def numbers(self) -> dict[str, Any]:
        """All of it."""
        return {
            "seconds_per_step": {str(size): asdict(Figure.of(each)) for size, each in self.by_size.items()},
            "compile_seconds_per_step": {str(size): each for size, each in self.compiling.items()},
            "stopped": self.stopped,
        }


class _Peer:
    """A peer that runs the same graphs, until one takes too long."""

    def __init__(self, process: PeerProcess, budget_seconds: float) -> None:
        self.series = _Series(process.name)
        self._process = process
        self._budget = budget_seconds
        self._spent: dict[int, float] = {}
        self._last = (0, 0.0)

    async def run(self, name: Shape, steps: int) -> None:
        """Once, if it may still."""
        if self.series.stopped or self._spent.get(steps, 0.0) > self._budget:
            return
        size, took = self._last
        if steps > size and took * steps > self._budget * max(size, 1):
            self.series.stopped = f"not tried at {steps:,}: {size:,} steps took {seconds(took)}"
            return
        started = time.perf_counter()
        try:
            answer = await self._process.ask("run", name=name, steps=steps)
        except PeerFailed as failure:
            self.series.stopped = f"at {steps:,} steps: {failure}"
            return
        self._last = (steps, answer["seconds"])
        self._spent[steps] = self._spent.get(steps, 0.0) + time.perf_counter() - started
        self.series.by_size.setdefault(steps, []).append(answer["seconds"] / steps)
        if "compile_seconds" in answer:
            self.series.compiling[steps] = answer["compile_seconds"] / steps


def _handled(plan: CompiledPlan) -> float:
    """Let the engine run a plan whose calls return at once; the seconds it took."""
    started = time.perf_counter()
    engine = Engine(
        plan.steps, max_bytes=_LIMITS.max_message_bytes, max_memory_bytes=_LIMITS.memory_bytes, window=64
    )  # fmt: skip
    todo = deque(engine.handle(Begin()))
    while todo:
        action = todo.popleft()
        if type(action) is Call:
            todo.extend(engine.handle(Returned(action.step, action.item, action.again, "1")))
    took = time.perf_counter() - started
    if any(outcome.status != "succeeded" for outcome in engine.outcomes):
        raise BenchFailed("the engine did not bring every step to its end")
    return took


async def engine(bench: Bench) -> list[Row]:
    """The engine alone, of a plan compiled before: events in, actions out."""
    rows = []
    runtime = Runtime([add], sandbox=None, limits=_LIMITS)
    for name in SHAPES:
        ours = _Series("the engine")
        async with TasksPeer() as tasks:
            peers = [_Peer(tasks, bench.sizes.peer_seconds)]
            for steps, runs in bench.sizes.plan_runs.items():
                reading = runtime._plans.prepare(_LIMITS).read(_written(shape(name, steps)))
                if reading.plan is None:
                    raise BenchFailed(str(reading.errors[0]))
                compiled = reading.plan

                async def once(compiled: CompiledPlan = compiled) -> float:
                    return _handled(compiled)

                await _measure(ours, once, peers, name, steps, runs)
                del reading, compiled, once
        rows.append(
            _row(
                "engine", f"a step in the plan engine alone: {name}", name, ours, peers, _BARE_SECONDS,
                "the plan is compiled before; arguments are put together from references. The peer checks nothing",
            )
        )  # fmt: skip
    return rows


def _langgraph(bench: Bench, patience: float) -> LangGraphPeer:
    return LangGraphPeer(answer_seconds=patience, python=bench.interpreters.get("langgraph", ""))


async def plan(bench: Bench) -> list[Row]:
    """From the plan as an object to its result: validation, gate, records, events."""
    rows = []
    async with Runtime([add], sandbox=None, limits=_LIMITS) as runtime:
        for name in SHAPES:
            ours = _Series("execute_tool_plan")
            patience = _STARTING_SECONDS + 2 * bench.sizes.peer_seconds
            async with TasksPeer() as tasks, _langgraph(bench, patience) as graph:
                peers = [_Peer(graph, bench.sizes.peer_seconds), _Peer(tasks, bench.sizes.peer_seconds)]
                for steps, runs in bench.sizes.plan_runs.items():
                    written = _written(shape(name, steps))

                    async def once(written: dict[str, Any] = written, steps: int = steps) -> float:
                        return await _executed(runtime, written, steps)

                    await _measure(ours, once, peers, name, steps, runs)
                    del written, once
            rows.append(
                _row(
                    "plan", f"a step of a plan, from the plan to its result: {name}", name, ours, peers, _WHOLE_SECONDS,
                    "validated, gated, recorded and told here; neither peer does any of that. LangGraph's graph is "
                    "compiled before, carries no results, and has its recursion_limit raised; after every superstep it "
                    "asks the channels of all nodes, so a step is dearer the more there are",
                )
            )  # fmt: skip
    return rows


async def _executed(runtime: Runtime, written: dict[str, Any], steps: int) -> float:
    told = 0

    def on_event(event: Event) -> None:
        nonlocal told
        told += 1

    started = time.perf_counter()
    result = await runtime.execute_tool_plan(written, on_event=on_event)
    took = time.perf_counter() - started
    if not result.ok or told != _EVENTS_PER_STEP * steps:
        raise BenchFailed(f"{told} events of {steps} steps: {result.error}")
    return took


async def _measure(
    ours: _Series, once: Run, peers: Sequence[_Peer], name: Shape, steps: int, runs: int
) -> None:  # fmt: skip
    """Our runs of plans of one size, and those of the peers in turns."""
    for _ in range(runs):
        gc.collect()  # nobody pays for another's garbage
        ours.by_size.setdefault(steps, []).append(await once() / steps)
        for peer in peers:
            await peer.run(name, steps)


def _growth(by_size: Mapping[int, Sequence[float]]) -> tuple[int, float]:
    """From which size to the largest, and how much dearer a step is there."""
    largest = max(by_size)
    before = max((size for size in by_size if size <= _LINEAR_FROM and size < largest), default=largest)
    return before, Figure.of(by_size[largest]).p50 / Figure.of(by_size[before]).p50


def _row(
    key: str, measure: str, name: Shape, ours: _Series, peers: Sequence[_Peer], most: float, note: str
) -> Row:  # fmt: skip
    sizes = sorted(ours.by_size)
    largest = Figure.of(ours.by_size[sizes[-1]])
    before, growth = _growth(ours.by_size)
    others = ", ".join(f"{seconds(Figure.of(ours.by_size[size]).p50)} at {size:,}" for size in sizes[-2::-1])
    verdict: Verdict = "for information"
    target = ""
    if name in _JUDGED:
        target = (
            f"≤ {seconds(most)} at {sizes[-1]:,} steps, and linear: ≤ {_LINEAR:g} × that at {before:,}"
        )  # fmt: skip
        verdict = "met" if largest.p50 <= most and growth <= _LINEAR else "missed"
    return Row(
        key=key, measure=measure,
        measured=(
            f"{seconds(largest.p50)} ({seconds(largest.p10)} to {seconds(largest.p90)}) at {sizes[-1]:,} steps, "
            f"{growth:.2f} × that at {before:,}; {others}"
        ),
        target=target, verdict=verdict, peer="; ".join(peer.series.told() for peer in peers), note=note,
        numbers={
            "shape": name, "growth": growth, "ours": ours.numbers(),
            "peers": {peer.series.name: peer.series.numbers() for peer in peers},
        },
    )  # fmt: skip
