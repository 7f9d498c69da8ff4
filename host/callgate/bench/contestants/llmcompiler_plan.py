"""LLMCompiler's scheduler: ``python -m callgate.bench.contestants.llmcompiler_plan``. It imports llmcompiler.

The authors of the paper publish no package; `llmcompiler` on PyPI is another's implementation of it, over LangChain's
tools. Its planner and its joiner are models with prompts of their own and take no part: callgate's plan is written as
its tasks (``${1}.field`` for a field of the first task's result), and its task fetching unit runs them, in the threads
of its own pool. A task is a constant of the plan, so a `for_each` over an array that stands there is one task for each
item, and one over a result cannot be. Its references reach one field of a result.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from typing import Any, get_type_hints

from callgate.bench.contestants.plans import PLAN_FIELDS, opened, outputs, plan_of, ran, refuse_others
from callgate.bench.contestants.references import (
    BadReference,
    Reference,
    as_text,
    needed,
    references,
    replaced,
    resolved,
)
from callgate.bench.contestants.seat import CannotDo, Meter, Steered, cannot_or
from callgate.bench.serving import serve
from callgate.bench.workloads import WORKLOADS
from callgate.bench.workloads.pacing import at_once
from callgate.bench.workloads.workload import Function

os.environ["LANGSMITH_TRACING"] = "false"  # nobody is told
try:
    from llmcompiler.graph.plan_and_schedule import schedule_tasks  # type: ignore[import-not-found,import-untyped,unused-ignore]
    from llmcompiler.tools.basic import CompilerBaseTool  # type: ignore[import-not-found,import-untyped,unused-ignore]
    from llmcompiler.tools.dag.dag_flow_params import PARTIAL_RESOLVED_ARGS_PARSE  # type: ignore[import-not-found,import-untyped,unused-ignore]
    from llmcompiler.tools.generic.action_output import ActionOutput, DAGFlow  # type: ignore[import-not-found,import-untyped,unused-ignore]
    from pydantic import Field, create_model
except ImportError:  # an optional peer: the harness asks first
    sys.exit("llmcompiler is not installed")

__all__ = ["LLMCompiler"]

_STEP = frozenset({"id", "tool", "arguments", "depends_on", "for_each", "max_items", "description"})
_OTHERS = "for which it has no notion"
_WHOLE = "result"
"""The field under which a tool offers its whole result to later tasks."""


class LLMCompiler(Steered):
    """The functions that may be asked for: see `seat.Contestant`."""

    def __init__(self) -> None:
        self._meter = Meter()
        self._tools: dict[str, Any] = {}

    async def open(self, workload: str, paced: float = 1.0, scripted: bool = True) -> dict[str, Any]:
        """The tools of the workload, as its tools."""
        self.steer(paced, scripted)
        self._tools = {each.__name__: _tool(self._meter.metered(each)) for each in WORKLOADS[workload].tools}
        note = "its scheduler alone: plan and texts for the model are callgate's, its planner and joiner take no part"
        return opened(note)

    @cannot_or
    async def turn(self, calls: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Run the plans' tasks, at the same time."""
        return await ran(calls, self._run, self._meter, scripted=self.scripted)

    async def version(self) -> dict[str, Any]:
        """Of llmcompiler."""
        return {"version": version("llmcompiler")}

    async def _run(self, arguments: Mapping[str, Any]) -> str:
        try:
            plan = plan_of(arguments)
            tasks = _Tasks(plan, self._tools)
        except (BadReference, LookupError, ValueError, TypeError, AttributeError) as error:
            return f"The plan cannot be run: {type(error).__name__}: {error}"
        observations: dict[int, Any] = {}
        scheduled = {
            "messages": [], "tasks": iter(tasks.made), "charts": [], "tasks_temporary_save": [],
            "observations": observations, "print_dag": False,
        }  # fmt: skip
        await asyncio.to_thread(schedule_tasks.invoke, scheduled)
        results = {each: tasks.result(each, observations) for each in tasks.ids}
        return outputs(results, plan.get("output_steps") or tasks.ids)


class _Tasks:
    """A plan's steps as its tasks.

    Attributes:
        made: in an order in which each comes after those it needs.
        ids: of the steps.
    """

    def __init__(self, plan: Mapping[str, Any], tools: Mapping[str, Any]) -> None:
        refuse_others("the plan", plan, PLAN_FIELDS, _OTHERS)
        self._steps = {each["id"]: each for each in plan["steps"]}
        self.ids = list(self._steps)
        self.made: list[dict[str, Any]] = []
        self._numbers: dict[str, list[int]] = {}
        self._tools = tools
        for step in self.ids:
            self._add(step, ())

    def result(self, step: str, observations: Mapping[int, Any]) -> Any:
        """What came of a step.

        Args:
            step: its id.
            observations: of the tasks, by their numbers.
        """
        found = [observations.get(each) for each in self._numbers[step]]
        values = [each.any if isinstance(each, ActionOutput) else each for each in found]
        return values if "for_each" in self._steps[step] else values[0]

    def _add(self, name: str, waiting: tuple[str, ...]) -> None:
        if name in self._numbers:
            return
        if name in waiting:
            raise BadReference(f"step {name!r} waits for itself")
        step = self._steps[name]
        refuse_others(f"step {name!r}", step, _STEP, _OTHERS)
        if not isinstance(step.get("for_each", []), list):
            raise CannotDo("the tasks have to be known when the plan is written: it cannot loop over a result")
        arguments = step.get("arguments", {})
        first = needed(step, self.ids)
        for each in first:
            self._add(each, (*waiting, name))
        before = sorted(number for each in first for number in self._numbers[each])
        self._numbers[name] = []
        for known in self._each(step):
            number = len(self.made) + 1
            written = {key: self._written(value, known) for key, value in arguments.items()}
            task = {"idx": number, "tool": self._tools[step["tool"]], "args": written, "dependencies": before}
            self.made.append(task | {"thought": None})
            self._numbers[name].append(number)

    def _each(self, step: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        if "for_each" not in step:
            yield {}
        for index, item in enumerate(step.get("for_each", ())):
            yield {"item": item, "index": index}

    def _written(self, value: Any, known: Mapping[str, Any]) -> Any:
        """An argument, as it stands in a task."""
        found = list(references(value, self.ids))
        if all(each.source in known for each in found):
            return resolved(value, known, self.ids)
        if isinstance(value, list):
            return [self._written(each, known) for each in value]
        if isinstance(value, dict) and set(value) != {"$ref"}:
            if set(value) == {"$expr"}:
                raise CannotDo("the plan computes a value with $expr, and it has no expressions")
            raise CannotDo("its references stand in an argument or in an array, not within an object")
        if isinstance(value, str) and not value.startswith("$ref:"):
            return replaced(value, self.ids, lambda each: self._in_text(each, known))
        return self._reference(found[0])

    def _in_text(self, found: Reference, known: Mapping[str, Any]) -> str:
        if found.source in known:
            return as_text(found.value(known))
        written = self._reference(found)
        if not isinstance(written, str):
            raise CannotDo("an array of tasks' results cannot stand in text")
        return written

    def _reference(self, found: Reference) -> str | list[str]:
        path, numbers = found.path, self._numbers[found.source]
        every = "for_each" in self._steps[found.source]
        if every and path and isinstance(path[0], int):
            every, numbers, path = False, [numbers[path[0]]], path[1:]
        elif every and path[:1] == ("*",):
            path = path[1:]
        if len(path) > 1 or not all(isinstance(each, str) and each.isidentifier() for each in path):
            raise CannotDo("its references reach one field of a result, not a path into it")
        written = [f"${{{number}}}.{path[0] if path else _WHOLE}" for number in numbers]
        return written if every else written[0]


def _tool(function: Function) -> Any:
    """A function as one of its tools, which run in threads and say which fields later tasks may use."""
    hints = get_type_hints(function)
    fields: dict[str, Any] = {}
    for each in inspect.signature(function).parameters.values():
        default = ... if each.default is each.empty else each.default
        partial = PARTIAL_RESOLVED_ARGS_PARSE if hints[each.name] is str else None  # a reference within text
        fields[each.name] = (hints[each.name], Field(default, json_schema_extra=partial))

    class Tool(CompilerBaseTool):  # type: ignore[misc]
        name: str = function.__name__
        description: str = inspect.getdoc(function) or ""
        args_schema: Any = create_model(f"{function.__name__}_input", **fields)

        def _run(self, **kwargs: Any) -> Any:
            result: Any = at_once(function(**kwargs))
            offered = {_WHOLE: result} | (result if isinstance(result, dict) else {})
            return ActionOutput(any=result, dag_kwargs=DAGFlow(tool_name=self.name, kwargs=offered))

    return Tool()


if __name__ == "__main__":
    asyncio.run(serve(LLMCompiler()))
