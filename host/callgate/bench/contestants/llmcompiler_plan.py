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
import json
import os
import re
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from typing import Any, get_type_hints

from callgate.bench.contestants.references import BadReference, Reference, references, resolved
from callgate.bench.contestants.seat import CannotDo, Meter, Opened, Turn, answered, cannot_or
from callgate.bench.serving import serve
from callgate.bench.workloads import WORKLOADS, pace
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

_PLAN = {"steps", "output_steps", "goal", "reasoning", "description"}
_STEP = {"id", "tool", "arguments", "depends_on", "for_each", "max_items", "description"}
_IN_TEXT = re.compile(r"\$\{([^}]+)\}")
_WHOLE = "result"
"""The field under which a tool offers its whole result to later tasks."""


class LLMCompiler:
    """The functions that may be asked for: see `seat.Contestant`."""

    def __init__(self) -> None:
        self._meter = Meter()
        self._tools: dict[str, Any] = {}

    async def open(self, workload: str, paced: float = 1.0) -> dict[str, Any]:
        """The tools of the workload, as its tools."""
        pace(paced)
        loop = asyncio.get_running_loop()
        self._tools = {each.__name__: _tool(self._meter.metered(each), loop) for each in WORKLOADS[workload].tools}
        note = "its scheduler alone: plan and texts for the model are callgate's, its planner and joiner take no part"
        return answered(
            Opened(tools=[], form="plan", tool="execute_tool_plan", argument="plan", own_words=False, note=note)
        )

    @cannot_or
    async def turn(self, calls: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Run the plans' tasks, at the same time."""
        self._meter.taken()
        started = time.perf_counter()
        texts = await asyncio.gather(*(self._run(each["arguments"]) for each in calls))
        seconds = time.perf_counter() - started
        return answered(Turn(texts=texts, seconds=seconds, intervals=self._meter.taken()))

    async def version(self) -> dict[str, Any]:
        """Of llmcompiler."""
        return {"version": version("llmcompiler")}

    async def _run(self, arguments: Mapping[str, Any]) -> str:
        try:
            plan = arguments.get("plan", arguments)
            plan = json.loads(plan) if isinstance(plan, str) else plan
            tasks = _Tasks(plan, self._tools)
        except (BadReference, LookupError, ValueError, TypeError, AttributeError) as error:
            return f"The plan cannot be run: {type(error).__name__}: {error}"
        observations: dict[int, Any] = {}
        scheduled = {
            "messages": [], "tasks": iter(tasks.made), "charts": [], "tasks_temporary_save": [],
            "observations": observations, "print_dag": False,
        }  # fmt: skip
        await asyncio.to_thread(schedule_tasks.invoke, scheduled)
        shown = plan.get("output_steps") or tasks.ids
        return "\n".join(["Outputs:", *(f"{each}: {tasks.told(each, observations)}" for each in shown)])


class _Tasks:
    """A plan's steps as its tasks.

    Attributes:
        made: in an order in which each comes after those it needs.
        ids: of the steps.
    """

    def __init__(self, plan: Mapping[str, Any], tools: Mapping[str, Any]) -> None:
        _known("the plan", plan, _PLAN)
        self._steps = {each["id"]: each for each in plan["steps"]}
        self.ids = list(self._steps)
        self.made: list[dict[str, Any]] = []
        self._numbers: dict[str, list[int]] = {}
        self._tools = tools
        for step in self.ids:
            self._add(step, ())

    def told(self, step: str, observations: Mapping[int, Any]) -> str:
        """What came of a step, as text."""
        found = [observations.get(each) for each in self._numbers[step]]
        values = [each.any if isinstance(each, ActionOutput) else each for each in found]
        return _text(values if "for_each" in self._steps[step] else values[0])

    def _add(self, name: str, waiting: tuple[str, ...]) -> None:
        if name in self._numbers:
            return
        if name in waiting:
            raise BadReference(f"step {name!r} waits for itself")
        step = self._steps[name]
        _known(f"step {name!r}", step, _STEP)
        if not isinstance(step.get("for_each", []), list):
            raise CannotDo("the tasks have to be known when the plan is written: it cannot loop over a result")
        arguments = step.get("arguments", {})
        found = {each.source for each in references([arguments, step.get("for_each")], self.ids)} - {"item", "index"}
        needed = sorted(found | set(step.get("depends_on", ())))
        for each in needed:
            self._add(each, (*waiting, name))
        before = sorted(number for each in needed for number in self._numbers[each])
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
            return _IN_TEXT.sub(lambda match: self._in_text(match[1], known), value)
        return self._reference(found[0])

    def _in_text(self, inner: str, known: Mapping[str, Any]) -> str:
        (found,) = references({"$ref": inner.strip()}, self.ids)
        if found.source in known:
            return _text(found.value(known))
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


def _tool(function: Function, loop: asyncio.AbstractEventLoop) -> Any:
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
            result: Any = asyncio.run_coroutine_threadsafe(_called(function, kwargs), loop).result()
            offered = {_WHOLE: result} | (result if isinstance(result, dict) else {})
            return ActionOutput(any=result, dag_kwargs=DAGFlow(tool_name=self.name, kwargs=offered))

    return Tool()


async def _called(function: Function, arguments: Mapping[str, Any]) -> Any:
    return await function(**arguments)


def _known(what: str, given: Mapping[str, Any], fields: set[str]) -> None:
    unknown = sorted(set(given) - fields)
    if unknown:
        raise CannotDo(f"{what} asks for {', '.join(unknown)}, for which it has no notion")


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))


if __name__ == "__main__":
    asyncio.run(serve(LLMCompiler()))
