"""Tool plans made of real requests and real plans, and tools that take their time and fail as a seeded draw says.

The requests are BFCL's (see `gold`), the plans NESTFUL's. What is made, and not real, is how long a tool takes and
whether it fails: every figure that rests on it says so.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import anyio

from callgate.agent.planning.tool_plan import ToolPlan, ToolStep
from callgate.bench.singles.gold import Request, read_requests
from callgate.errors import ToolError
from callgate.tools import Registry, Tool

__all__ = [
    "PARALLEL", "Weather", "in_sequence", "lognormal", "nestful_plans", "plan_of", "registry_of", "requests_of",
    "share",
]  # fmt: skip

PARALLEL = ("bfcl_parallel", "bfcl_parallel_multiple")
NESTFUL = "nestful.jsonl.gz"
_TOOLS = "nestful_tools.jsonl.gz"
_ANYTHING = {"type": "object", "additionalProperties": True}


def share(*words: object) -> float:
    """A number from 0 to 1, drawn by words: the same for the same words, in every process."""
    digest = hashlib.sha256("\0".join(map(str, words)).encode()).digest()
    return int.from_bytes(digest[:8]) / 2**64


def lognormal(median: float, sigma: float, *words: object) -> float:
    """Seconds drawn from a log-normal distribution, by words (Box and Muller's transform)."""
    radius = math.sqrt(-2.0 * math.log(1.0 - share(*words, "radius")))
    return median * math.exp(sigma * radius * math.cos(2.0 * math.pi * share(*words, "angle")))


@dataclass(slots=True)
class Weather:
    """How tools behave: what each attempt takes, and whether it fails, hangs, or succeeds. The same in every run.

    Attributes:
        median_seconds: of an attempt.
        sigma: of the logarithm of its duration; 1 makes one attempt in 20 five times as long as the median.
        passing: chance that an attempt fails, and may succeed when it is made again.
        lasting: chance that a call fails, however often it is made.
        hanging: chance that an attempt never answers.
        seed: another one makes other weather.
    """

    median_seconds: float = 0.0
    sigma: float = 1.0
    passing: float = 0.0
    lasting: float = 0.0
    hanging: float = 0.0
    seed: int = 0

    async def blow(self, call: str, attempt: int) -> None:
        """What an attempt does; raises `ToolError` where it fails.

        Args:
            call: what is called, with which arguments.
            attempt: its number, from 0.
        """
        if share(self.seed, call, attempt, "hangs") < self.hanging:
            await anyio.sleep_forever()
        if self.median_seconds:
            await anyio.sleep(lognormal(self.median_seconds, self.sigma, self.seed, call, attempt))
        if share(self.seed, call, "lasting") < self.lasting:
            raise ToolError("the service refuses this")
        if share(self.seed, call, attempt, "passing") < self.passing:
            raise ToolError("the service is busy", retryable=True)


def requests_of(folder: Path, files: Sequence[str] = PARALLEL, most: int | None = None) -> list[Request]:
    """BFCL's requests that are answered by several calls; empty where the files are not there.

    Args:
        folder: has them.
        files: which.
        most: so many of them, evenly from all.
    """
    paths = [folder / f"{name}.jsonl.gz" for name in files]
    found = [request for path in paths if path.is_file() for request in read_requests(path)]
    return found if most is None or len(found) <= most else [found[n * len(found) // most] for n in range(most)]


def plan_of(request: Request) -> ToolPlan:
    """The gold calls of a request as a tool plan: all of them at once."""
    steps = tuple(
        ToolStep(id=f"c{n}", tool=call.function, parameters=call.arguments) for n, call in enumerate(request.calls)
    )
    return ToolPlan(id=request.id, query=request.query, steps=steps, stages=(tuple(step.id for step in steps),))


def in_sequence(plan: ToolPlan) -> ToolPlan:
    """The same plan, one step after the other."""
    first, *others = plan.steps
    return replace(plan, steps=(first, *(replace(step, execution_mode="sequential") for step in others)))


def nestful_plans(folder: Path, most: int | None = None) -> tuple[list[ToolPlan], Mapping[str, tuple[str, ...]]]:
    """NESTFUL's plans, and the names of the outputs of each tool; nothing where the files are not there.

    Args:
        folder: has them.
        most: so many of them, the first ones; three whose labels stand twice, which are no plans, are left out.
    """
    if not ((folder / NESTFUL).is_file() and (folder / _TOOLS).is_file()):
        return [], {}
    plans = []
    for number, record in enumerate(_lines(folder / NESTFUL)[:most]):
        if len({each["id"] for each in record["plan"]["steps"]}) < len(record["plan"]["steps"]):
            continue
        steps = tuple(
            ToolStep(
                id=each["id"], tool=each["tool"], parameters=each["arguments"],
                dependencies=tuple(each.get("depends_on", ())),
            )
            for each in record["plan"]["steps"]
        )  # fmt: skip
        plans.append(ToolPlan(id=f"nestful-{number}", query=record["query"], steps=steps, stages=_stages(steps)))
    outputs = {each["name"]: tuple(each.get("output_parameters", ())) for each in _lines(folder / _TOOLS)}
    return plans, outputs


def _stages(steps: Sequence[ToolStep]) -> tuple[tuple[str, ...], ...]:
    """By what is referred to; a step's references are found as text."""
    level: dict[str, int] = {}
    for step in steps:
        written = json.dumps(step.parameters)
        needs = [level[id] for id in level if f"$ref:{id}" in written or id in step.dependencies]
        level[step.id] = 1 + max(needs, default=-1)
    return tuple(tuple(id for id in level if level[id] == n) for n in range(1 + max(level.values(), default=-1)))


def registry_of(
    plans: Iterable[ToolPlan], weather: Weather, outputs: Mapping[str, tuple[str, ...]] | None = None
) -> Registry:
    """A registry with a tool for each name in the plans: read-only, takes anything, and gives its outputs a value each.

    Args:
        plans: that call them.
        weather: how they behave; attempts are counted by call.
        outputs: names of what each gives.
    """
    registry = Registry()
    for name in sorted({step.tool for plan in plans for step in plan.steps}):
        give = _giving(name, weather, (outputs or {}).get(name, ()))
        registry.add(Tool.from_schema(name, name, _ANYTHING, give, read_only=True))
    return registry


def _giving(name: str, weather: Weather, outputs: tuple[str, ...]) -> Callable[..., Any]:
    attempts: dict[str, int] = {}

    async def give(**arguments: Any) -> dict[str, Any]:
        call = f"{name} {json.dumps(arguments, sort_keys=True, default=str)}"
        attempts[call] = attempts.get(call, -1) + 1
        await weather.blow(call, attempts[call])
        return {output: n + 1 for n, output in enumerate(outputs)} or {"done": True}

    return give


def _lines(path: Path) -> list[dict[str, Any]]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]
