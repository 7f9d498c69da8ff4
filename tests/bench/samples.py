"""Results as a run might give them, made of numbers and a seed: for tests of what is made from results.

`sample` is a whole run: nine workloads, callgate's six modes, nine peers, of which some fail, are wrong or cannot.
`results` and `cell` are for tests that want one thing to be so, and nothing else in the way.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple

from callgate.bench.results import Cell, Confined, Entry, ModelUsed, Results, Round, Task, Yardstick
from callgate.bench.rows import Row, against

MODEL = ModelUsed(
    simulated=True, name="scripted", wire="openai", turn_seconds=0.6, token_seconds=0.004, context_tokens=128_000,
    tokenizer="o200k_base",
)  # fmt: skip

_HOST: Confined = "host: nothing is executed"
_CONFINED: dict[str, Confined] = {
    "code-jail": "kernel", "code-docker": "container", "monty": "language", "pydantic-ai-harness": "language",
    "fastmcp": "language", "smolagents": "none", "utcp": "language", "langgraph": "none", "llm-sandbox": "container",
    "bubblewrap": "kernel",
}  # fmt: skip
_WITH_CALLGATES_WORDS = ("monty", "langgraph", "llmcompiler")
_ENTRIES = (
    Entry(name="direct", title="direct calls", mode="direct", ours=True, about="one tool call a turn", version="0.1.0"),
    Entry(
        name="direct-parallel", title="direct calls, parallel", mode="direct", ours=True,
        about="all calls that a turn can make", version="0.1.0",
    ),
    Entry(name="plan", title="plan", mode="plan", ours=True, about="execute_tool_plan", version="0.1.0"),
    Entry(name="code-jail", title="code, jail", mode="code", ours=True, about="namespaces, seccomp", version="0.1.0"),
    Entry(name="code-docker", title="code, docker", mode="code", ours=True, about="a container", version="0.1.0"),
    Entry(
        name="code-fast", title="code, fast path", mode="code", ours=True,
        about="a graph where the program is one, else the jail", version="0.1.0",
    ),
    Entry(name="monty", title="Monty", mode="code", ours=False, about="an interpreter in Rust", version="1.4.0"),
    Entry(
        name="pydantic-ai-harness", title="pydantic-ai-harness CodeMode", mode="code", ours=False,
        about="Monty in its process", version="0.3.1",
    ),
    Entry(name="fastmcp", title="FastMCP code mode", mode="code", ours=False, about="Monty", version="4.1.2"),
    Entry(
        name="smolagents", title="smolagents", mode="code", ours=False, about="a tree walker, no confinement",
        version="1.24.0",
    ),
    Entry(
        name="utcp", title="UTCP code-mode", mode="code", ours=False, about="exec in its process", version="1.2.0",
        failure="pip could not install it: no matching distribution",
    ),
    Entry(name="langgraph", title="LangGraph", mode="plan", ours=False, about="a graph of nodes", version="1.2.4"),
    Entry(
        name="llmcompiler", title="LLMCompiler's scheduler", mode="plan", ours=False, about="threads for each task",
        version="0.1.0",
    ),
    Entry(name="llm-sandbox", title="llm-sandbox", mode="code", ours=False, about="a container", version="0.3.41"),
    Entry(name="bubblewrap", title="bubblewrap", mode="code", ours=False, about="Python in it", version="0.8.0"),
)  # fmt: skip
ENTRIES = tuple(
    replace(each, confined=_CONFINED.get(each.name, _HOST), own_words=each.name not in _WITH_CALLGATES_WORDS)
    for each in _ENTRIES
)
"""Callgate's six modes, and nine peers, one of which took no part."""


class Shape(NamedTuple):
    """A workload in numbers: what direct calls need for it, and what its tools take."""

    task: Task
    turns: int
    parallel_turns: int
    calls: int
    tool_seconds: float
    width: int
    result_tokens: int
    program_turns: int = 1
    cpu_seconds: float = 0.0


def _task(name: str, title: str, about: str, note: str = "") -> Task:
    data = "made from a seed; a call takes 20 to 80 ms, which is simulated"
    asked = f"Do the {title}, and say what came of it."
    return Task(name=name, title=title, about=about, data=data, task=asked, note=note)


_WRONG_SUMS = "The scripted model does arithmetic that a real one would get wrong."
SHAPES = (
    Shape(_task("monitoring", "monitoring chain", "Each call needs the one before."), 6, 6, 5, 0.05, 1, 180),
    Shape(_task("weather", "weather comparison", "Independent calls, and a comparison."), 9, 2, 8, 0.08, 8, 90),
    Shape(_task("budget", "twenty-employee budget check", "Many small results."), 41, 3, 40, 0.04, 20, 60),
    Shape(_task("regions", "regions with sales and weather", "Two sources, joined."), 13, 3, 12, 0.06, 6, 140),
    Shape(_task("enrich", "search, enrich, summarise", "Three stages, with retries."), 15, 4, 16, 0.07, 7, 220),
    Shape(_task("fan-out", "200-item fan-out", "200 calls that do not need each other."), 202, 3, 201, 0.03, 64, 45),
    Shape(_task("judgement", "chain that needs judgement", "Direct calls should win."), 5, 5, 4, 0.05, 1, 120, 5),
    Shape(_task("aggregation", "CPU-heavy aggregation", "Sums.", _WRONG_SUMS), 4, 3, 3, 0.06, 2, 21_000, 1, 0.25),
    Shape(_task("large", "large intermediate results", "5 MB, never seen."), 4, 3, 4, 0.09, 2, 1_300_000),
)
"""The nine workloads of the harness, as their figures may be."""

_OVERHEAD = {
    "direct": 0.0008, "direct-parallel": 0.001, "plan": 0.003, "code-jail": 0.008, "code-docker": 0.03,
    "code-fast": 0.004, "monty": 0.006, "pydantic-ai-harness": 0.009, "fastmcp": 0.02, "smolagents": 0.05,
    "langgraph": 0.02, "llmcompiler": 0.012, "llm-sandbox": 1.9, "bubblewrap": 0.07,
}  # fmt: skip
_PEAK = {"code-docker": 61e6, "llm-sandbox": 180e6, "smolagents": 140e6, "langgraph": 130e6, "monty": 45e6}
_PROMPT = {"direct": 420, "plan": 900, "code": 1100}


def noisy(value: float, luck: random.Random, noise: float) -> float:
    """A duration as a machine with other work would measure it: rarely less, now and then far more."""
    late = luck.random() < 0.05
    return value * (1 + abs(luck.gauss(0, noise)) + (noise * 5 * luck.random() if late else 0))


def a_round(
    wall: float = 0.0, *, model: float = 1.0, tools: float = 0.1, overhead: float = 0.01, turns: int = 2,
    calls: int = 3, input_tokens: int = 2000, output_tokens: int = 150, concurrency: int = 1,
) -> Round:  # fmt: skip
    """One round. Where `wall` is given, the model had what the tools and the overhead leave of it."""
    model = wall - tools - overhead if wall else model
    return Round(
        wall_seconds=model + tools + overhead, model_seconds=model, tool_seconds=tools, overhead_seconds=overhead,
        turns=turns, calls=calls, input_tokens=input_tokens, output_tokens=output_tokens, concurrency=concurrency,
        busy=float(concurrency),
    )  # fmt: skip


def cell(contestant: str, rounds: Sequence[Round] = (), *, workload: str = "weather", **fields: object) -> Cell:
    """A cell: right where there are rounds, failed where there are none, unless `fields` say otherwise."""
    made = Cell(workload=workload, contestant=contestant, outcome="right" if rounds else "failed", rounds=list(rounds))
    for name, value in fields.items():
        setattr(made, name, value)
    return made


def steady(wall: float, count: int = 5, *, spread: float = 0.02, **fields: Any) -> list[Round]:
    """Rounds around `wall`, their walls apart by `spread` of it in all; `fields` as `a_round` takes them."""
    shares = [1 + spread * (n / (count - 1) - 0.5) if count > 1 else 1.0 for n in range(count)]
    order = [*shares[::2], *shares[1::2]]
    return [a_round(wall * share, **fields) for share in order]


def results(*cells: Cell, entries: Sequence[Entry] = ENTRIES, **fields: object) -> Results:
    """A run that found these cells, with a task for each workload that they have."""
    known = {shape.task.name: shape.task for shape in SHAPES}
    names = list(dict.fromkeys(each.workload for each in cells))
    made = Results(
        made="2026-11-22T10:00:00Z", sizes="full run", command="callgate bench", sandbox="jail, tier 1",
        machine="Linux 6.18.44 x86_64, 2 cores, Python 3.11.2, callgate 0.1.0, anyio 4.16.0", load="0.40 0.50 0.60",
        load_after="1.20 1.00 0.80", model=MODEL, entries=list(entries), cells=list(cells),
        tasks=[known.get(name) or _task(name, name, "") for name in names],
        yardstick=Yardstick(seconds=[0.07, 0.071, 0.072, 0.073, 0.09]),
    )  # fmt: skip
    for name, value in fields.items():
        setattr(made, name, value)
    return made


def _what_it_takes(shape: Shape, entry: Entry) -> tuple[int, int, int, float, int]:
    """Turns, input and output tokens, seconds in which tools work, the most of them at once."""
    prompt = _PROMPT[entry.mode]
    if entry.mode == "direct":
        parallel = entry.name == "direct-parallel"
        turns = shape.parallel_turns if parallel else shape.turns
        done = shape.calls / max(turns - 1, 1)
        grown = sum(prompt + turn * done * (shape.result_tokens + 40) for turn in range(turns))
        stages = (turns - 1) if parallel else shape.calls
        return turns, int(grown), shape.calls * 34 + 60, stages * shape.tool_seconds, shape.width if parallel else 1
    turns = shape.program_turns + 1
    written = 160 + 12 * min(shape.calls, 12) if entry.mode == "plan" else 190
    stages = max(shape.parallel_turns - 1, 1)
    return (
        turns,
        turns * prompt + 90 * turns,
        written * shape.program_turns + 60,
        stages * shape.tool_seconds,
        shape.width,
    )


def _cell(shape: Shape, entry: Entry, luck: random.Random, rounds: int, noise: float, slower: float) -> Cell:
    made = Cell(
        workload=shape.task.name, contestant=entry.name, outcome="right", answer=f"The {shape.task.title}: done."
    )
    turns, taken, said, tools, width = _what_it_takes(shape, entry)
    if entry.mode == "direct" and taken / turns > MODEL.context_tokens:
        needed = int(taken / max(turns - 1, 1))
        made.outcome, made.reason = "cannot", f"the context of {MODEL.context_tokens:,} tokens is too small: {needed:,}"
    elif entry.mode == "plan" and shape.cpu_seconds:
        made.outcome, made.reason = "cannot", "a plan has no arithmetic over lists of that length"
    elif (entry.name, shape.task.name) == ("smolagents", "fan-out"):
        made.outcome, made.reason = "failed", "no answer within 120 s"
    elif (entry.name, shape.task.name) == ("llmcompiler", "enrich"):
        made.outcome, made.reason = "wrong", "not in the answer: 17 findings"
    elif entry.name == "monty" and shape.task.name == "large":
        made.note = "the runtime's words for models are callgate's"
    if made.outcome != "right":
        return made
    cpu = shape.cpu_seconds * (6 if entry.name in ("monty", "smolagents", "fastmcp") else 1)
    overhead = (
        _OVERHEAD[entry.name] * (turns if entry.mode == "direct" else shape.program_turns) + cpu + 2e-5 * shape.calls
    )
    for _ in range(rounds):
        model = turns * (MODEL.turn_seconds + 0.004) + said * MODEL.token_seconds
        parts = noisy(model, luck, noise / 20), noisy(tools, luck, noise / 10), noisy(overhead, luck, noise) * slower
        made.rounds.append(
            Round(
                wall_seconds=sum(parts),
                model_seconds=parts[0],
                tool_seconds=parts[1],
                overhead_seconds=parts[2],
                turns=turns,
                calls=shape.calls,
                input_tokens=taken,
                output_tokens=said,
                concurrency=width,
                busy=round(max(1.0, width * 0.8), 2),
            )
        )
    made.peak_bytes = int(noisy(_PEAK.get(entry.name, 52e6), luck, 0.02))
    return made


def _rows(luck: random.Random, noise: float, slower: float) -> list[Row]:
    def durations(middle: float) -> list[float]:
        return [noisy(middle, luck, noise) * slower for _ in range(30)]

    judged: list[tuple[str, str, float, float, str, float]] = [
        ("warm", "fresh jailed CPython, code to result, pool warm: 1 + 1", 0.95e-3, 1.0e-3, "Monty", 1.0),
        ("cold", "the same without a pool: 1 + 1, beside Python, bare", 5.1e-3, 11.8e-3, "bubblewrap + Python", 0.06),
        ("call", "tool call round trip from a program, sequential", 76e-6, 149e-6, "Monty", 0.6),
    ]
    rows = [
        against(key, measure, durations(ours), peer=peer, theirs=durations(theirs), most=most)
        for key, measure, ours, theirs, peer, most in judged
    ]
    rows.append(Row(key="engine", measure="engine, a step", measured="11 µs", target="≤ 10 µs", verdict="missed"))
    missing = against(
        "docker", "a run in a container", durations(0.02), peer="llm-sandbox", theirs=[], most=0.2, failed="not here"
    )
    return [*rows, missing]


def sample(
    *, seed: int = 1, noise: float = 0.1, rounds: int = 7, machine_slower: float = 1.0, callgate_slower: float = 1.0,
    model: ModelUsed = MODEL, sizes: Literal["full run", "quick run"] = "full run", interrupted: str = "",
) -> Results:  # fmt: skip
    """A whole run.

    Args:
        seed: another one gives another run of the same.
        noise: how much durations that depend on the machine differ; 0.2 is much.
        rounds: of each cell.
        machine_slower: all that the machine does takes so many times as long, the yardstick too.
        callgate_slower: what callgate does takes so many times as long, and nothing else.
        model: what the run says that its model was.
        sizes: of the run.
        interrupted: why the run ended early; its last workload is then not measured.
    """
    luck = random.Random(seed)
    made = results(sizes=sizes, model=model, interrupted=interrupted)
    made.tasks = [shape.task for shape in SHAPES]
    for shape in SHAPES:
        for entry in (each for each in ENTRIES if not each.failure):
            slower = machine_slower * (callgate_slower if entry.ours else 1.0)
            made.cells.append(_cell(shape, entry, luck, rounds, noise, slower))
    if interrupted:
        for each in made.cells[-len(ENTRIES) + 1 :]:
            each.outcome, each.rounds, each.reason, each.peak_bytes = "not measured", [], "interrupted before", 0
    made.rows = _rows(luck, noise, machine_slower * callgate_slower)
    made.yardstick = Yardstick(seconds=[noisy(0.07, luck, noise) * machine_slower for _ in range(30)])
    return made


def without(run: Results, contestant: str) -> Results:
    """The same run, as if this one had not been there."""
    kept = [each for each in run.cells if each.contestant != contestant]
    return replace(run, cells=kept, entries=[each for each in run.entries if each.name != contestant])
