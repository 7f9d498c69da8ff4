"""LangGraph as a plan engine: ``python -m callgate_bench.contestants.langgraph_graph``.

LangGraph has no plan language for models; the plan is callgate's. What a person would write: a node for every step, an
edge for every reference; a node gathers the items of its `for_each`, and tries again what may be repeated. Nodes are
Python, so references and what a plan computes are evaluated as Python here, and nothing confines them. The graph is
built and compiled when the plan comes, since that is when it is known. What a plan says beyond that, such as `when` and
`fallback`, is not put into LangGraph's words here.

A graph runs in supersteps: what becomes ready waits for the slowest of its step. `steps` and `large` are what single
things are measured beside.
"""

from __future__ import annotations

import ast
import asyncio
import contextlib
import gc
import json
import operator
import os
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any, TypedDict

from langgraph.graph import START, StateGraph

from callgate_bench.contestants.contestant import CannotDo, Contestant, Opened
from callgate_bench.serving import serve
from callgate_bench.singles.shapes import chain, layers, longest
from callgate_bench.workloads.workload import Function

os.environ["LANGSMITH_TRACING"] = "false"  # no traces are sent

__all__ = ["LangGraph", "needed", "resolved"]

_PLAN = {"steps", "output_steps", "goal", "reasoning", "description"}
_STEP = {"id", "tool", "arguments", "depends_on", "for_each", "retry", "description"}
_NOTE = (
    "plan and texts for the model are callgate's: LangGraph has none; what a plan computes is evaluated as Python, "
    "unconfined, as a node written by hand would be"
)


class State(TypedDict):
    """What the graph of a plan carries: results by the steps' ids."""

    results: Annotated[dict[str, Any], operator.or_]


class Count(TypedDict):
    """What a graph carries that is only timed: one number, to which every node adds 1."""

    done: Annotated[int, operator.add]


class LangGraph(Contestant):
    """Plans as graphs."""

    packages = ("langgraph",)

    async def show(self) -> Opened:
        """Nothing of its own."""
        return Opened(form="plan", tool="execute_tool_plan", argument="plan", own_words=False, note=_NOTE)

    async def run(self, tool: str, arguments: Mapping[str, Any]) -> str:
        """Build and run the graph of a plan."""
        try:
            plan = arguments.get("plan", arguments)
            plan = json.loads(plan) if isinstance(plan, str) else plan
            results = await _run(plan, {each.__name__: each for each in self.tools}, self.workload.retries)
        except CannotDo as reason:
            if self.scripted:
                raise
            return f"The plan cannot be run: {reason}"
        except Exception as error:  # the plan's shape; whatever a tool raised ends the graph, too
            return f"The plan failed: {type(error).__name__}: {error}"
        shown = plan.get("output_steps") or list(results)
        return "\n".join(["Outputs:", *(f"{each}: {_text(results[each])}" for each in shown if each in results)])

    async def steps(self, steps: int) -> dict[str, Any]:
        """How many seconds a graph in layers takes, compiled before; no results go from step to step.

        Raises:
            RuntimeError: not every step ran.
        """
        needs = layers(steps)
        graph = StateGraph(Count)
        for step, needed in enumerate(needs):
            graph.add_node(f"s{step}", _counted)
            before = [f"s{need}" for need in needed] or [START]
            graph.add_edge(before if len(before) > 1 else before[0], f"s{step}")
        compiled: Any = graph.compile()
        gc.collect()
        started = time.perf_counter()
        state = await compiled.ainvoke({"done": 0}, {"recursion_limit": int(longest(needs)) + 5})
        took = time.perf_counter() - started
        if state["done"] != steps:
            raise RuntimeError(f"{state['done']} of {steps} steps ran")
        return {"seconds": took}

    async def large(self, size: int, steps: int) -> dict[str, Any]:
        """How many seconds it takes to hand a list of `size` bytes of JSON from step to step."""

        async def give() -> list[str]:
            return ["x" * 97] * (size // 100)

        async def keep(value: list[str]) -> list[str]:
            return value

        plan = chain(steps)
        started = time.perf_counter()
        await _run(plan, {"give": give, "keep": keep}, frozenset())
        return {"seconds": time.perf_counter() - started}


async def _counted(state: Count) -> dict[str, int]:
    return {"done": 1}


async def _run(plan: Mapping[str, Any], tools: Mapping[str, Function], retried: frozenset[str]) -> dict[str, Any]:
    """Results by the steps' ids."""
    _refuse_others("the plan", plan, _PLAN)
    ids = [each["id"] for each in plan["steps"]]
    graph: Any = StateGraph(State)
    for at, step in enumerate(plan["steps"]):
        _refuse_others(f"step {step['id']!r}", step, _STEP)
        retry = step.get("retry", step["tool"] in retried)
        attempts = retry.get("attempts", 3) if isinstance(retry, dict) else 3 if retry is True else int(retry or 1)
        before = [f"s{ids.index(each)}" for each in needed(step, ids)] or [START]
        graph.add_node(f"s{at}", _node(step, tools[step["tool"]], attempts))
        graph.add_edge(before if len(before) > 1 else before[0], f"s{at}")
    config = {"recursion_limit": len(ids) + 5}
    results: dict[str, Any] = (await graph.compile().ainvoke({"results": {}}, config))["results"]
    return results


def _refuse_others(what: str, given: Mapping[str, Any], fields: set[str]) -> None:
    others = sorted(set(given) - fields)
    if others:
        raise CannotDo(f"{what} asks for {', '.join(others)}, which the harness does not put into LangGraph's words")


def _node(step: Mapping[str, Any], tool: Function, attempts: int) -> Callable[[State], Any]:
    async def called(known: Mapping[str, Any]) -> Any:
        arguments = resolved(step.get("arguments", {}), known)
        for _ in range(attempts - 1):
            with contextlib.suppress(Exception):
                return await tool(**arguments)
        return await tool(**arguments)

    async def node(state: State) -> dict[str, Any]:
        known = state["results"]
        if "for_each" not in step:
            return {"results": {step["id"]: await called(known)}}
        items = enumerate(resolved(step["for_each"], known))
        found = await asyncio.gather(*(called({**known, "item": item, "index": at}) for at, item in items))
        return {"results": {step["id"]: found}}

    return node


def needed(step: Mapping[str, Any], ids: list[str]) -> list[str]:
    """Ids of the steps that have to end before this one begins: those it names, and those it refers to.

    Raises:
        CannotDo: a reference has a form that is not known here.
    """
    templates = [step.get("arguments", {}), step.get("for_each")]
    names = {node.id for each in _expressions(templates) for node in ast.walk(each) if isinstance(node, ast.Name)}
    return sorted(names & set(ids) | set(step.get("depends_on", ())))


def resolved(template: Any, known: Mapping[str, Any]) -> Any:
    """A value of a plan with all references and expressions replaced.

    Args:
        template: the value.
        known: results by the steps' ids; `item` and `index` among them in a `for_each`.

    Raises:
        CannotDo: a reference has a form that is not known here.
        LookupError, TypeError, NameError: a reference leads nowhere.
    """
    expression = _expression(template)
    if expression is not None:
        return eval(compile(expression, "<plan>", "eval"), dict(known))
    if isinstance(template, dict):
        return {key: resolved(value, known) for key, value in template.items()}
    return [resolved(each, known) for each in template] if isinstance(template, list) else template


def _expressions(template: Any) -> Iterator[ast.Expression]:
    expression = _expression(template)
    if expression is not None:
        yield expression
    elif isinstance(template, dict | list):
        for each in template.values() if isinstance(template, dict) else template:
            yield from _expressions(each)


def _expression(template: Any) -> ast.Expression | None:
    """The Python that a reference or an expression is; None for a plain value."""
    written = None
    if isinstance(template, dict) and len(template) == 1:
        written = template.get("$expr", template.get("$ref"))
    elif isinstance(template, str) and "$" in template:
        written = template.removeprefix("$ref:") if template.startswith("$ref:") else template[1:]
        if not template.startswith(("$ref:", "$item", "$index")) or "$" in written or "*" in written:
            raise CannotDo(f"the plan writes {template!r}, which the harness does not put into LangGraph's words")
    if written is None:
        return None
    expression: ast.Expression = _Items().visit(ast.parse(written.strip(), mode="eval"))
    return ast.fix_missing_locations(expression)


class _Items(ast.NodeTransformer):
    """A plan writes ``a.b`` for the item ``a["b"]``."""

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        return ast.Subscript(self.visit(node.value), ast.Constant(node.attr), ast.Load())


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))


if __name__ == "__main__":
    asyncio.run(serve(LangGraph()))
