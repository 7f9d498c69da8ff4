"""What learning gains, on a task set that can be replayed: real requests whose every function is offered three times;
of the three one is sound, one fails often and one is slow. Which is which can only be learned.

The model is played: it always knows which function is needed, and takes any of the tools that offer it. The plans run
through the real gate. The same tasks are done with learning and without, each in a world of its own.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import anyio

from callgate import Registry, Runtime
from callgate.agent.learning.experiment import Experiment
from callgate.agent.learning.memory import SelectionMemory
from callgate.agent.learning.ranked import LearnedSelector
from callgate.agent.learning.report import Report
from callgate.agent.orchestration.orchestrator import ToolOrchestrator
from callgate.agent.planning.settings import PlannerSettings
from callgate.agent.planning.tool_plan import (
    DecomposedQuery,
    Selection,
    Selector,
    SubQuery,
    ToolChoice,
    ToolPlan,
    ToolStep,
)
from callgate.bench.figures import seconds
from callgate.bench.rows import Row
from callgate.bench.singles.context import Bench
from callgate.bench.singles.gold import Request
from callgate.bench.singles.played import requests_of, share
from callgate.errors import ToolError
from callgate.tools import Tool
from callgate.tools.registry import ToolInfo

from .planner import no_data, target

__all__ = ["learning"]

_REQUESTS = 12
_SETS = 3
"""Of requests. How cautious the memory is was chosen with figures of the first set in view: it is not judged."""
_TASKS_EACH_RUN = 4
_FAILS_OFTEN = 0.4
_FAILS_SELDOM = 0.01
_QUICK_SECONDS, _SLOW_SECONDS = 0.002, 0.03
_ANYTHING = {"type": "object", "additionalProperties": True}

Sort = Literal["sound", "flaky", "slow"]
_SORTS: tuple[tuple[Sort, Sort, Sort], ...] = (
    ("sound", "flaky", "slow"), ("flaky", "slow", "sound"), ("slow", "sound", "flaky"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Task:
    """A query to be done, which no other task has."""

    number: int
    request: Request

    @property
    def query(self) -> str:
        return f"{self.request.query} ({self.number})"


@dataclass(frozen=True, slots=True)
class _Done:
    """What came of a task."""

    success: bool
    seconds: float
    chosen: int
    sound: int


class _World:
    """Tools whose failures and times are the same in every world for the same task."""

    def __init__(self, requests: Sequence[Request]) -> None:
        self.sorts: dict[str, Sort] = {}
        self.registry = Registry()
        self.task = 0
        for n, function in enumerate(_functions(requests)):
            for sign, sort in zip("abc", _SORTS[n % 3], strict=True):
                name = f"{function.replace('.', '_')}_{sign}"
                self.sorts[name] = sort
                self.registry.add(
                    Tool.from_schema(
                        name, function, _ANYTHING, self._giving(name, sort), read_only=True, capabilities=[function]
                    )
                )

    def _giving(self, name: str, sort: Sort) -> Any:
        async def give(**arguments: Any) -> dict[str, bool]:
            await anyio.sleep(_SLOW_SECONDS if sort == "slow" else _QUICK_SECONDS)
            if share(self.task, name) < (_FAILS_OFTEN if sort == "flaky" else _FAILS_SELDOM):
                raise ToolError("the service refuses this")
            return {"done": True}

        return give


class _Played:
    """Knows the functions, and takes of the tools that offer one whichever the task's number draws."""

    name = "played"

    def __init__(self, tasks: Mapping[str, _Task]) -> None:
        self._tasks = tasks

    async def select(self, query: DecomposedQuery, tools: Sequence[ToolInfo]) -> Selection:
        task = self._tasks[query.query]
        chain = []
        for place, call in enumerate(task.request.calls):
            able = [tool.name for tool in tools if call.function in tool.capabilities]
            name = able[int(share("draw", task.number, place) * len(able))]
            chain.append(ToolChoice(sub_query=0, tool=name, parameters=call.arguments))
        return Selection(chain=tuple(chain), strategy=self.name)


def _functions(requests: Sequence[Request]) -> list[str]:
    return sorted({call.function for each in requests for call in each.calls})


def _tasks(requests: Sequence[Request], count: int, number: int) -> list[_Task]:
    first = number * 1_000_000  # tasks of another set have other draws
    return [_Task(first + n, requests[int(share("task", first + n) * len(requests))]) for n in range(count)]


async def learning(bench: Bench) -> list[Row]:
    """Right selections, success and time, without learning and with it; and what an experiment says of it."""
    requests = requests_of(bench.calls, ("bfcl_parallel_multiple",), most=_SETS * _REQUESTS)
    if not requests:
        return no_data("planner-learning", "what learning gains", bench.calls)
    rows: list[Row] = []
    for number in range(_SETS):
        chosen = requests[number * _REQUESTS : (number + 1) * _REQUESTS]
        if chosen:
            rows += await _rows(chosen, _TASKS_EACH_RUN * bench.sizes.runs, number)
    return rows


async def _rows(requests: Sequence[Request], count: int, number: int) -> list[Row]:
    tasks = _tasks(requests, count, number)
    plain = await _done(tasks, requests, learns=False)
    learned = await _done(tasks, requests, learns=True)
    late = 3 * len(tasks) // 4
    report = _compared(tasks[late:], plain[late:], learned[late:])
    functions = len(_functions(requests))
    held_out = number > 0
    named = f"set {number + 1}, held out" if held_out else "set 1, on which the constants were chosen"
    note = (
        f"{len(tasks):,} tasks of {len(requests)} BFCL requests; each of their {functions} functions is "
        f"offered by three tools: one sound, one that fails {_FAILS_OFTEN:.0%} of its calls, one that takes "
        f"{_SLOW_SECONDS / _QUICK_SECONDS:g} times as long; the model is played, and cannot tell them apart"
    )
    quarters = [_right(learned[n * len(tasks) // 4 : (n + 1) * len(tasks) // 4]) for n in range(4)]
    before, told = _right(plain[late:]), ", ".join(f"{each:.0%}" for each in quarters)
    right = target(
        "planner-learning", f"right selections, with learning, in the last quarter of the tasks ({named})",
        f"{quarters[-1]:.0%} of choices are the sound tool, {before:.0%} without learning; by quarters {told}",
        quarters[-1], 0.9, "≥ 90 %", note=note, numbers={"without": before, "quarters": quarters},
    )  # fmt: skip
    return [
        right if held_out else replace(right, target="", verdict="for information"),
        Row(
            key="planner-learning", measure=f"the same ({named}): plans that succeed, and how long they take",
            measured=f"{_rate(plain[late:]):.0%} and {_median(plain[late:])} without, {_rate(learned[late:]):.0%} and "
            f"{_median(learned[late:])} with learning",
            note="no retries and no fallbacks, which would hide it",
        ),
        Row(
            key="planner-learning", measure=f"the same ({named}), as an experiment on paired tasks of the last quarter",
            measured=report.words, note="; ".join(report.warnings),
            numbers={"p_value": None if report.test is None else report.test.p_value, "winner": report.winner},
        ),
    ]  # fmt: skip


def _right(done: Sequence[_Done]) -> float:
    return sum(each.sound for each in done) / max(1, sum(each.chosen for each in done))


def _rate(done: Sequence[_Done]) -> float:
    return sum(each.success for each in done) / len(done)


def _median(done: Sequence[_Done]) -> str:
    return seconds(statistics.median(each.seconds for each in done))


async def _done(tasks: Sequence[_Task], requests: Sequence[Request], *, learns: bool) -> list[_Done]:
    world = _World(requests)
    played = _Played({task.query: task for task in tasks})
    memory = SelectionMemory(world.registry)
    selector: Selector = LearnedSelector(played, memory) if learns else played
    done = []
    async with Runtime(world.registry, sandbox=None) as runtime:
        settings = PlannerSettings(max_retries=0, result_cache_enabled=False)
        orchestrator = ToolOrchestrator(runtime, memory=memory, settings=settings)
        infos = [world.registry.info(name) for name in world.registry.names()]
        for task in tasks:
            world.task = task.number
            query = DecomposedQuery(query=task.query, sub_queries=(SubQuery(text=task.query),))
            selection = await selector.select(query, infos)
            execution = await orchestrator.execute(_plan(task, selection))
            sound = sum(world.sorts[choice.tool] == "sound" for choice in selection.chain)
            done.append(_Done(execution.success, execution.total_seconds, len(selection.chain), sound))
    return done


def _plan(task: _Task, selection: Selection) -> ToolPlan:
    steps = tuple(
        ToolStep(id=f"c{n}", tool=choice.tool, parameters=choice.parameters) for n, choice in enumerate(selection.chain)
    )
    return ToolPlan(
        id=f"task-{task.number}", query=task.query, steps=steps, stages=(tuple(step.id for step in steps),),
        reasoning=selection.reasoning, strategy=selection.strategy,
    )  # fmt: skip


def _compared(tasks: Sequence[_Task], plain: Sequence[_Done], learned: Sequence[_Done]) -> Report:
    """An experiment that is given both outcomes of each task."""
    asked: dict[str, _Task] = {}
    control, treatment = _Played(asked), LearnedSelector(_Played(asked), SelectionMemory())
    experiment = Experiment("learning", control, treatment, paired=True, samples=max(2, len(tasks)))
    for task, one, other in zip(tasks, plain, learned, strict=True):
        experiment.note_pair(task.query, control=(one.success, one.seconds), treatment=(other.success, other.seconds))
    return experiment.report()
