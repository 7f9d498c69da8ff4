"""Whatever a plan looks like: with results that were kept it comes to what it comes to without."""

from __future__ import annotations

from typing import Any

import anyio
from hypothesis import given
from hypothesis import strategies as st

from agent.orchestration.orchestrated import orchestrator, plan
from callgate import ToolError, tool
from callgate.agent.planning.settings import PlannerSettings
from callgate.agent.planning.tool_plan import ToolStep

WITH = PlannerSettings(retry_backoff="none", max_retries=0)
WITHOUT = PlannerSettings(retry_backoff="none", max_retries=0, result_cache_enabled=False)


@tool(read_only=True)
async def echo(x: Any = None) -> dict[str, Any]:
    """Give it back, with its text."""
    return {"x": x, "text": f"<{x}>", "list": [x, "$ref:s0", "${s0}"]}


@tool(read_only=True)
async def picky(x: Any = None) -> Any:
    """Fail for whatever is not text."""
    if not isinstance(x, str):
        raise ToolError("text, please")
    return x


def _value(earlier: list[str]) -> st.SearchStrategy[Any]:
    plain: st.SearchStrategy[Any] = st.one_of(st.integers(0, 3), st.sampled_from(["a", "$$ref:s0", "{}", "steps"]))
    if not earlier:
        return plain
    ids = st.sampled_from(earlier)
    references = st.one_of(
        ids.map(lambda id: f"$ref:{id}"),
        ids.map(lambda id: f"$ref:{id}.list[0]"),
        ids.map(lambda id: f"$ref:{id}.nowhere"),
        ids.map(lambda id: {"$ref": f"{id}.text"}),
        ids.map(lambda id: {"$ref": f"steps[{id[1:]}].result.text"}),
        ids.map(lambda id: {"$literal": f"$ref:{id}"}),
        st.tuples(ids, ids).map(lambda two: f"${{{two[0]}.text}} and ${{{two[1]}.x}}"),
        st.tuples(ids, ids).map(lambda two: {"$expr": f"[{two[0]}, {two[1]}]"}),
    )
    return st.recursive(
        st.one_of(plain, references),
        lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(st.sampled_from("ab"), inner, max_size=2)),
        max_leaves=4,
    )


@st.composite
def steps(draw: st.DrawFn) -> list[ToolStep]:
    """A few steps, each with references to earlier ones."""
    made: list[ToolStep] = []
    for number in range(draw(st.integers(1, 5))):
        earlier = [each.id for each in made]
        some = st.lists(st.sampled_from(earlier), max_size=1) if earlier else st.just([])
        made.append(
            ToolStep(
                id=f"s{number}",
                tool=draw(st.sampled_from(["echo", "echo", "picky"])),
                parameters={"x": draw(_value(earlier))},
                dependencies=tuple(draw(some)),
                after=tuple(draw(some)),
                execution_mode=draw(st.sampled_from(["parallel", "parallel", "sequential"])),
            )
        )
    return made


@given(steps(), st.lists(st.one_of(st.integers(0, 3), st.sampled_from(["a", "{}"])), max_size=3))
def test_a_plan_comes_to_the_same_whatever_was_kept(given: list[ToolStep], before: list[Any]) -> None:
    async def run() -> None:
        async with orchestrator([echo, picky], WITHOUT) as plainly, orchestrator([echo, picky], WITH) as keeping:
            wanted = await plainly.execute(plan(*given))
            for value in before:
                await keeping.execute(plan(ToolStep(id="b", tool="echo", parameters={"x": value}), id="p0"))
            for number in range(2):
                found = await keeping.execute(plan(*given, id=f"p{number}"))
                assert [(each.step_id, each.success, each.data, each.error) for each in found.results] == [
                    (each.step_id, each.success, each.data, each.error) for each in wanted.results
                ]

    anyio.run(run)
