"""How often the planner's caches answer, and whether what they answer is right, on traffic that is made: real queries,
drawn as common and rare ones come, half of them with other values."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from callgate import Registry, Runtime
from callgate.agent.models.scripted import ScriptedModel
from callgate.agent.orchestration.orchestrator import ToolOrchestrator
from callgate.agent.planning.planner import ToolPlanner
from callgate.agent.planning.settings import PlannerSettings
from callgate.agent.planning.tool_plan import DecomposedQuery, Selection, ToolChoice, ToolPlan
from callgate.bench.rows import Row
from callgate.bench.singles.context import Bench
from callgate.bench.singles.gold import Request, register
from callgate.bench.singles.played import requests_of
from callgate.tools.registry import ToolInfo

from .planner import no_data, target

__all__ = ["caches", "with_other_values"]

_QUERIES = 200
_DRAWS_EACH_RUN = 5
_VARIANTS = 8
_NAMES = ("Avalon", "Brigadoon", "Camelot", "Dunwich", "Elmwood", "Farham", "Gondor", "Hogsmeade")


@dataclass(frozen=True, slots=True)
class _Asked:
    """A query with its gold calls, under the names of the registry.

    Attributes:
        request: with this query's values.
        names: the registry's name of each function.
    """

    request: Request
    names: Mapping[str, str]

    @property
    def query(self) -> str:
        return self.request.query

    def selection(self) -> Selection:
        """What a model that never errs would choose."""
        chain = [
            ToolChoice(sub_query=0, tool=self.names[each.function], parameters=each.arguments)
            for each in self.request.calls
        ]
        unique = [each for n, each in enumerate(chain) if each not in chain[:n]]
        return Selection(chain=tuple(unique), strategy="gold")

    def is_answered_by(self, plan: ToolPlan) -> bool:
        """Whether the plan has the gold calls, with their values."""
        wanted = [(each.tool, dict(each.parameters)) for each in self.selection().chain]
        return [(step.tool, dict(step.parameters)) for step in plan.steps] == wanted


class _Gold:
    """Plays a model that never errs."""

    name = "gold"

    def __init__(self) -> None:
        self.asked: dict[str, _Asked] = {}

    async def select(self, query: DecomposedQuery, tools: Sequence[ToolInfo]) -> Selection:
        return self.asked[query.query].selection()


def with_other_values(request: Request, variant: int) -> Request | None:
    """The request with other values in its words and in its calls; None where no value of a call is in its words.

    Args:
        request: as it stands.
        variant: 1 or more; which other values.
    """
    values = {value for call in request.calls for value in _scalars(call.arguments)}
    changes: dict[Any, Any] = {}
    for value in sorted(values, key=str):
        if len(re.findall(rf"(?<![\w.]){re.escape(str(value))}(?![\w.]*\w)", request.query)) != 1:
            continue
        if isinstance(value, int):
            changes[value] = value + variant
        elif value[:1].isupper() and value.isalpha():
            changes[value] = _NAMES[(variant + len(changes)) % len(_NAMES)]
    if not changes:
        return None
    texts = {str(value): str(other) for value, other in changes.items()}
    pattern = "|".join(map(re.escape, sorted(texts, key=len, reverse=True)))
    # all at once: one value's other may be another value
    query = re.sub(rf"(?<![\w.])(?:{pattern})(?![\w.]*\w)", lambda found: texts[found.group()], request.query)
    calls = [replace(call, arguments=_changed(call.arguments, changes)) for call in request.calls]
    return replace(request, query=query, calls=calls)


def _scalars(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [each for member in value.values() for each in _scalars(member)]
    if isinstance(value, list):
        return [each for member in value for each in _scalars(member)]
    return [value] if isinstance(value, (int, str)) and not isinstance(value, bool) else []


def _changed(value: Any, changes: Mapping[Any, Any]) -> Any:
    if isinstance(value, dict):
        return {name: _changed(each, changes) for name, each in value.items()}
    if isinstance(value, list):
        return [_changed(each, changes) for each in value]
    return changes.get(value, value) if isinstance(value, (int, str)) and not isinstance(value, bool) else value


def _traffic(requests: Sequence[Request], draws: int, skew: float) -> list[Request]:
    """Drawn by rank: the n-th most common query comes 1 / n ** skew as often as the first; half with other values."""
    draw = random.Random(8)
    ranked = list(requests)
    draw.shuffle(ranked)
    drawn = draw.choices(ranked, [1 / (n + 1) ** skew for n in range(len(ranked))], k=draws)
    return [
        (with_other_values(each, draw.randint(1, _VARIANTS)) if draw.random() < 0.5 else None) or each for each in drawn
    ]


async def caches(bench: Bench) -> list[Row]:
    """A planner and an orchestrator under traffic: what the cache of plans answers, and that of results."""
    requests = requests_of(bench.calls, most=min(_QUERIES, 10 * bench.sizes.runs))
    if not requests:
        return no_data("planner-caches", "what the planner's caches answer", bench.calls)
    rows = []
    for skew, words in ((1.0, "drawn by Zipf's law, exponent 1"), (0.0, "drawn evenly")):
        traffic = _traffic(requests, _DRAWS_EACH_RUN * bench.sizes.runs, skew)
        found = await _served(traffic)
        changed = len({each.query for each in traffic}) - len({each.id for each in traffic})
        made = (
            f"the traffic is made: {len(traffic):,} draws of {len(requests)} BFCL queries, {words}, half with other "
            f"values where there are any ({changed} more texts); the model is played by one that never errs"
        )
        for what, hits, asked, more in (
            ("plans", found.plan_hits, found.plans, f"; {found.wrong} of them with other calls than the gold ones"),
            ("results", found.result_hits, found.results, ""),
        ):
            share = hits / asked if asked else 0.0
            row = target(
                "planner-caches", f"cache of {what}, queries {words}", f"{share:.0%}: {hits:,} of {asked:,}{more}",
                share, 0.3, "> 30 %", note=made, numbers={"hits": hits, "asked": asked, "wrong": found.wrong},
            )  # fmt: skip
            rows.append(row if skew else replace(row, target="", verdict="for information"))
    return rows


@dataclass(slots=True)
class _Served:
    plan_hits: int = 0
    plans: int = 0
    wrong: int = 0
    result_hits: int = 0
    results: int = 0


async def _served(traffic: Sequence[Request]) -> _Served:
    registry, gold, found = Registry(), _Gold(), _Served()
    names: dict[str, Mapping[str, str]] = {}
    for request in traffic:
        if request.id not in names:
            names[request.id] = register(request, registry, lambda name, arguments: {"done": name}, read_only=True)
    async with Runtime(registry, sandbox=None) as runtime:
        planner = ToolPlanner(runtime, ScriptedModel([]), selector=gold)
        orchestrator = ToolOrchestrator(runtime, settings=PlannerSettings())
        for request in traffic:
            asked = gold.asked[request.query] = _Asked(request, names[request.id])
            before = planner.cache.hits
            plan = await planner.plan(request.query, tools=list(names[request.id].values()))
            hit = planner.cache.hits > before
            found.plans += 1
            found.plan_hits += hit
            found.wrong += hit and not asked.is_answered_by(plan)
            planner.learned(plan, await orchestrator.execute(plan))
        assert orchestrator.kept is not None
        found.result_hits, found.results = orchestrator.kept.hits, orchestrator.kept.asked
    return found
