"""Results as a run might give them, for tests of what is made from results.

`sample` is a whole small run with everything in it that a report shows; `noisy` is the same with luck in its durations.
`results` and `cell` are for tests that want one thing to be so, and nothing else in the way.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from callgate_bench.figures import Row, timed
from callgate_bench.results import Cell, Entry, ModelUsed, Results, Round, Task, Yardstick

MODEL = ModelUsed(
    simulated=True, name="scripted", wire="openai", turn_seconds=0.6, token_seconds=0.004, context_tokens=128_000,
    tokenizer="o200k_base",
)  # fmt: skip
REAL = ModelUsed(simulated=False, name="a-real-model", wire="anthropic", endpoint="https://models.example/v1")

_HOST = "host: nothing is executed"
_ENTRIES: list[tuple[str, str, Any, Any, str]] = [
    ("direct", "direct calls, one a turn", "direct", _HOST, "the model calls the tools itself"),
    ("direct-parallel", "direct calls, in parallel", "direct", _HOST, "calls share a turn"),
    ("plan", "execute_tool_plan", "plan", _HOST, "callgate's plan engine"),
    ("code-jail", "execute_code, jail", "code", "kernel", "CPython in a fresh process"),
    ("code-fast", "execute_code, fast path", "code", _HOST, "the program runs as a plan"),
    ("monty", "Monty", "code", "language", "an interpreter in Rust"),
    ("smolagents", "smolagents", "code", "none", "a tree walker"),
    ("langgraph", "LangGraph", "plan", "none", "a graph of nodes"),
    ("docker", "docker run", "code", "container", "a bare Python"),
]
ENTRIES = tuple(
    Entry(
        name=name, title=title, mode=mode, confined=confined, about=about, version="0.1.0" if place < 5 else "1.4.0",
        ours=place < 5, own_words=name not in ("monty", "langgraph"),
        failure="it has no tools" if name == "docker" else "",
    )
    for place, (name, title, mode, confined, about) in enumerate(_ENTRIES)
)  # fmt: skip
"""Callgate's modes, three peers, and one that took no part."""


def a_round(wall: float = 1.11, *, tools: float = 0.1, overhead: float = 0.01, **fields: int) -> Round:
    """One round of two turns. The model had what the tools and the overhead leave of `wall`."""
    counts = {"turns": 2, "calls": 3, "input_tokens": 2000, "output_tokens": 150, "concurrency": 1} | fields
    return Round(
        wall_seconds=wall, model_seconds=wall - tools - overhead, tool_seconds=tools, overhead_seconds=overhead,
        **counts,
    )  # fmt: skip


def steady(wall: float, count: int = 5, **fields: Any) -> list[Round]:
    """Rounds around `wall`, their walls apart by 2 % in all; `fields` as `a_round` takes them."""
    return [a_round(wall * (1 + 0.01 * ((n * 2) % count / max(count - 1, 1) * 2 - 1)), **fields) for n in range(count)]


def cell(contestant: str, rounds: Sequence[Round] = (), *, workload: str = "weather", **fields: Any) -> Cell:
    """A cell: right where there are rounds, failed where there are none, unless `fields` say otherwise."""
    made = Cell(workload=workload, contestant=contestant, outcome="right" if rounds else "failed", rounds=list(rounds))
    return replace(made, **fields)


def results(*cells: Cell, **fields: Any) -> Results:
    """A run that found these cells, with a task for each workload that they have."""
    names = dict.fromkeys(each.workload for each in cells)
    made = Results(
        made="2026-11-22T10:00:00Z", sizes="full run", command="callgate bench", sandbox="jail, tier 1",
        machine="Linux x86_64, 2 cores, Python 3.11.2", load="0.40 0.50 0.60", load_after="1.20 1.00 0.80",
        model=MODEL, entries=list(ENTRIES), cells=list(cells),
        tasks=[
            Task(name=name, title=name.capitalize(), about=f"About {name}.", task="Do it.")
            for name in names
        ],
        yardstick=Yardstick(seconds=[0.07, 0.071, 0.072, 0.073, 0.09]),
    )  # fmt: skip
    return replace(made, **fields)


def sample() -> Results:
    """A whole small run: won, lost, split and not tried, with cells that are wrong, failed, cannot."""
    long = "the input is too long for the model"
    cells = [
        cell("direct", steady(2.7, 1, turns=4)), cell("direct-parallel", steady(1.4)),
        cell("plan", steady(1.9, input_tokens=2300)), cell("code-jail", steady(1.8)),
        cell("code-fast", steady(1.81)), cell("monty", steady(1.8), note="max_calls raised"),
        cell("smolagents", steady(1.5, turns=1)), cell("langgraph", steady(1.9, input_tokens=2200)),
        cell("direct", workload="large", outcome="cannot", reason=long),
        cell("direct-parallel", workload="large", outcome="cannot", reason=long),
        cell("plan", steady(2.3, input_tokens=1_810_425), workload="large"),
        cell("code-jail", steady(2.4, concurrency=64), workload="large"),
        cell("code-fast", workload="large", outcome="not measured"),
        cell("monty", steady(2.5), workload="large", outcome="wrong", reason="the last line of the answer is not: 17"),
        cell("smolagents", workload="large", reason="no answer within 120 s"),
        cell("langgraph", steady(1.2, overhead=0.0071), workload="large"),
        cell("direct", workload="sums", outcome="cannot", reason="nobody multiplies so", tried=False),
        cell("code-jail", steady(5.0, input_tokens=0, output_tokens=0), workload="sums"),
    ]  # fmt: skip
    rows = [
        timed("call", "a tool call", [76e-6] * 3, peer="Monty", theirs=[149e-6] * 3, most=0.6, note="gated here"),
        Row(key="memory", measure="memory per guest", measured="3.7 MB", target="≤ 3 MB", verdict="missed"),
        timed("docker", "a container", [0.006] * 3, peer="docker", theirs=[], most=0.2, failed="not here"),
        Row(key="flat", measure="left behind", measured="nothing"),
    ]
    return results(*cells, rows=rows)


def noisy(seed: int, noise: float = 0.2, *, machine: float = 1.0, callgate: float = 1.0) -> Results:
    """Four workloads by five modes, their durations as a machine with other work would measure them.

    Args:
        seed: another one gives another run of the same.
        noise: how much durations differ.
        machine: all that the machine does takes so many times as long, the yardstick too.
        callgate: what callgate does takes so many times as long, and nothing else.
    """
    luck = random.Random(seed)

    def took(value: float) -> float:
        late = luck.random() < 0.05
        return value * (1 + abs(luck.gauss(0, noise)) + (noise * 5 * luck.random() if late else 0))

    own = machine * callgate
    cells = [
        cell(
            entry.name,
            [a_round(tools=took(0.1), overhead=took(0.01) * own) for _ in range(7)],
            workload=workload,
        )
        for workload in ("chain", "budget", "fan-out", "large")
        for entry in ENTRIES
        if entry.ours
    ]
    rows = [
        timed(key, key, [took(0.001) * own for _ in range(30)], peer="Monty", theirs=[took(0.001) for _ in range(30)])
        for key in ("warm", "call")
    ]
    yardsticks = Yardstick(seconds=[took(0.07) * machine for _ in range(30)])
    return results(*cells, rows=rows, yardstick=yardsticks)
