"""A peer's own process: ``python -m callgate.bench.peers.langgraph``. The one file that imports langgraph.

The graph is compiled before the clock starts. Its state is one number, to which every node adds 1: the cheapest there
is; no results go from step to step, and nothing is validated, recorded or told. `serving` says how it is asked.
"""

from __future__ import annotations

import asyncio
import gc
import operator
import os
import sys
import time
from typing import Annotated, Any, TypedDict

from callgate.bench.serving import serve
from callgate.bench.singles.shapes import Needs, Shape, depth, shape

os.environ["LANGSMITH_TRACING"] = "false"  # nobody is told
try:
    from langgraph.graph import START, StateGraph
except ImportError:  # an optional peer: the harness asks first
    sys.exit("langgraph is not installed")


class State(TypedDict):
    """What the graph carries."""

    done: Annotated[int, operator.add]


async def _node(state: State) -> dict[str, int]:
    return {"done": 1}


def _compiled(needs: Needs) -> Any:
    graph = StateGraph(State)
    for step in range(len(needs)):
        graph.add_node(f"s{step}", _node)
    for step, needed in enumerate(needs):
        if len(needed) > 1:
            graph.add_edge([f"s{need}" for need in needed], f"s{step}")
        else:
            graph.add_edge(f"s{needed[0]}" if needed else START, f"s{step}")
    return graph.compile()


class Peer:
    """The functions that may be asked for."""

    def __init__(self) -> None:
        self._made: tuple[Shape, int] | None = None
        self._graph: Any = None
        self._compile_seconds = 0.0

    async def run(self, name: Shape, steps: int) -> dict[str, Any]:
        """How many seconds one execution of the graph takes, and how many it took to compile.

        Raises:
            RuntimeError: not every step ran.
        """
        needs = shape(name, steps)
        if self._made != (name, steps):
            started = time.perf_counter()
            self._graph = _compiled(needs)
            self._made, self._compile_seconds = (name, steps), time.perf_counter() - started
        gc.collect()
        started = time.perf_counter()
        state = await self._graph.ainvoke({"done": 0}, {"recursion_limit": depth(needs) + 5})
        took = time.perf_counter() - started
        if state["done"] != steps:
            raise RuntimeError(f"{state['done']} of {steps} steps ran")
        return {"seconds": took, "compile_seconds": self._compile_seconds}


if __name__ == "__main__":
    asyncio.run(serve(Peer()))
