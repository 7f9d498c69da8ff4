"""Makes steps in stages out of choices of tools: dependencies, order, timeouts, fallbacks. Chooses no tools and calls
none.

1. Left out are choices that the plan engine would refuse, that refer to each other in a circle, or that need one of
   these.
2. A step needs the steps that its parameters refer to, those that its choice names, and those of the sub-queries that
   its own sub-query needs. Where a sub-query has several steps, the step only comes after them.
3. Synthesis comes after searches, validation after everything else. This is an order without a need, so that a failure
   does not skip them.
4. Stage 1 needs nothing, stage N only earlier stages. Steps of a stage run at the same time. An order that would make
   a circle is ignored, and noted.
5. A step's timeout depends on the kind of its tool (`TIMEOUT_FACTORS`) and on the tool's history. A tool's own timeout
   comes first; where the default holds, the step has none, and the gate adapts.
6. A fallback is the tool's own. Else steps that others need or that alone serve their sub-query, and steps that routing
   does not rely on, get another tool that can stand in. Only tools that change nothing stand in, and only for tools
   that change nothing. A fallback on low confidence needs results that can have a confidence.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from graphlib import TopologicalSorter

from callgate.plan.schemas import impossible
from callgate.runtime import Runtime
from callgate.runtime.gate.attempts import PLAN_TIMEOUT_SECONDS
from callgate.tools import Registry
from callgate.tools.registry import ToolInfo
from callgate.tools.statistics import adaptive_timeout_seconds

from .capabilities import Kind, kind_of, shared_capabilities
from .chain import choice_id, positions_in, renumbered, usable
from .confidence import UNSURE_CHOICE, fails_often
from .fallback_plan import may_be_chosen_by_rules
from .selection import ToolChoice
from .settings import LONGEST_SECONDS, PlannerSettings
from .tool_plan import DecomposedQuery, StepFallback, ToolPlan, ToolStep, cycle_in

__all__ = ["TIMEOUT_FACTORS", "Built", "build_steps", "timeout_of"]

TIMEOUT_FACTORS: Mapping[Kind, float] = {
    "search": 0.5, "validation": 1.0, "synthesis": 2.0, "external": 1.5, "other": 1.0,
}  # fmt: skip
"""Factors of `default_timeout_seconds` by kind of tool: an index answers quickly or not at all; a model that writes
needs time, and so does another organisation's service. `timeout_seconds_by_category` comes first."""
_MAX_ALTERNATIVES = 5
"""The most tools that are tried as a fallback for a step."""


@dataclass(frozen=True, slots=True)
class Built:
    """Steps, ready for a plan.

    Attributes:
        steps: in the order of their stages.
        stages: ids of the steps of each stage.
        notes: what was added or ignored, and why.
        left_out: choices that have no step, and why.
    """

    steps: tuple[ToolStep, ...]
    stages: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()


def build_steps(
    runtime: Runtime,
    settings: PlannerSettings,
    query: DecomposedQuery,
    chain: Sequence[ToolChoice],
    tools: Sequence[ToolInfo],
) -> Built:
    """Build the steps and stages of a plan.

    Args:
        runtime: the runtime that will call the tools.
        settings: times and thresholds.
        query: the query that the choices are for.
        chain: the choices. A step's id is ``c`` and the position of its choice.
        tools: the tools that may be called.
    """
    known = {tool.name: tool for tool in tools}
    choices, faults = usable(dict(enumerate(chain)), query, known, runtime)
    left_out = [
        f"{_named(place, chain[place])} is left out: {'; '.join(reasons)}" for place, reasons in sorted(faults.items())
    ]
    order = _Order(choices)
    order.by_choice()
    order.by_sub_query(query)
    order.by_kind({place: kind_of(known[choice.tool]) for place, choice in choices.items()})
    stages = order.stages()
    steps: dict[int, ToolStep] = {}
    before: int | None = None
    for place in (place for stage in stages for place in stage):
        choice = choices[place]
        alone = [place] in stages and before in order.waits(place)
        steps[place] = ToolStep(
            id=choice_id(place),
            tool=choice.tool,
            parameters=renumbered(dict(choice.parameters), {}),
            dependencies=tuple(map(choice_id, sorted(order.needs[place]))),
            after=tuple(map(choice_id, sorted(order.after[place] - order.needs[place]))),
            execution_mode="sequential" if alone else "parallel",
            timeout_seconds=timeout_of(runtime.registry, choice.tool, settings, by_kind=True),
            critical=order.is_critical(place),
            sub_query=query.sub_queries[choice.sub_query].text[:1000],
            confidence=choice.confidence,
        )
        before = place
    for place, choice in choices.items():
        alone = sum(other.sub_query == choice.sub_query for other in choices.values()) == 1
        is_needed = alone or any(place in needs for needs in order.needs.values())
        fallback, note = _fallback(runtime, settings, steps, place, is_needed, known)
        steps[place] = replace(steps[place], fallback=fallback)
        order.notes += [note] if note else []
    ids = tuple(tuple(map(choice_id, stage)) for stage in stages)
    return Built(tuple(steps.values()), ids, tuple(order.notes), tuple(left_out))


def timeout_of(registry: Registry, name: str, settings: PlannerSettings, *, by_kind: bool) -> float | None:
    """Seconds for an attempt, by the tool's category and history; None where the tool's own timeout or the gate's
    default holds.

    Args:
        registry: the tools.
        name: of the tool.
        settings: the default, and timeouts by category.
        by_kind: whether the default goes by the kind of tool, as in a planner's own plans.
    """
    tool, info, default = registry.get(name), registry.info(name), settings.default_timeout_seconds
    seconds = settings.seconds_of(info.category)
    if seconds is None:
        seconds = default * (TIMEOUT_FACTORS[kind_of(info)] if by_kind else 1.0)
        if not tool.repeatable:  # a tool that cannot be called again does not get less time
            seconds = max(seconds, default)
    if tool.timeout_seconds is not None or seconds == default == PLAN_TIMEOUT_SECONDS:
        return None
    return min(adaptive_timeout_seconds(registry.statistics.of(name), seconds, tool.repeatable), LONGEST_SECONDS)


def _fallback(
    runtime: Runtime,
    settings: PlannerSettings,
    steps: Mapping[int, ToolStep],
    place: int,
    is_needed: bool,
    known: Mapping[str, ToolInfo],
) -> tuple[StepFallback | None, str]:
    """The fallback of a step, and the note that says why."""
    info = known[steps[place].tool]
    tool = runtime.registry.get(info.name)
    failing = fails_often(info, settings)
    unsure = UNSURE_CHOICE.decide(steps[place].confidence, settings, info.name)
    if tool.fallback is not None and tool.fallback in known:
        return StepFallback(tool=tool.fallback), f"{failing} (its own: {tool.fallback!r})" if failing else ""
    if not (failing or unsure or is_needed):
        return None, ""
    name = _alternative(runtime, settings, steps, place, known)
    fallback = None if name is None else StepFallback(tool=name)
    if failing is None and unsure is not None:
        if impossible(tool.output_schema, ("confidence",), info.name) is not None:
            unsure += "; its results have no confidence, so it is called on an error"
        elif name is not None:
            threshold = settings.low_result_confidence
            fallback = StepFallback(tool=name, condition="on_low_confidence", threshold=threshold)
    if reason := failing or unsure:
        return fallback, f"{reason} ({'no other tool can stand in' if name is None else repr(name)})"
    return fallback, "" if name is None else f"{info.name!r} is needed, and has the fallback {name!r}"


def _alternative(
    runtime: Runtime,
    settings: PlannerSettings,
    steps: Mapping[int, ToolStep],
    place: int,
    known: Mapping[str, ToolInfo],
) -> str | None:
    """The tool that can stand in with just these arguments: the most alike, then the most reliable."""
    info = known[steps[place].tool]
    alike = [
        (-shared, other.failure_rate or 0.0, other.average_seconds or 0.0, name)
        for name, other in known.items()
        if name != info.name
        and (shared := shared_capabilities(info, other))
        and may_be_chosen_by_rules(runtime, info.name)
        and may_be_chosen_by_rules(runtime, name)
        and fails_often(other, settings) is None
    ]
    for *_, name in sorted(alike)[:_MAX_ALTERNATIVES]:
        with_it = {**steps, place: replace(steps[place], fallback=StepFallback(tool=name))}
        plan = ToolPlan(id="", query="", steps=tuple(with_it.values()), stages=())
        if not any(fault.severity == "error" for fault in runtime.check_plan(plan.to_plan())):
            return name
    return None


def _named(place: int, choice: ToolChoice) -> str:
    return f"{choice_id(place)} ({choice.tool[:60]})"


@dataclass(slots=True)
class _Order:
    """Which choice waits for which; grows without circles.

    Attributes:
        choices: by their positions; references between them make no circle.
        needs: by position, the choices whose results a choice needs.
        after: by position, the choices that must have ended before.
        notes: orders that are ignored because they would make a circle.
    """

    choices: Mapping[int, ToolChoice]
    needs: dict[int, set[int]] = field(init=False)
    after: dict[int, set[int]] = field(init=False)
    notes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.needs = {place: positions_in(dict(choice.parameters)) for place, choice in self.choices.items()}
        self.after = {place: set() for place in self.choices}

    def by_choice(self) -> None:
        """Add what choices say that they need."""
        for place, choice in self.choices.items():
            for need in choice.depends_on:
                self._add(self.needs, place, need, is_noted=True)

    def by_sub_query(self, query: DecomposedQuery) -> None:
        """Add what the sub-queries need; a sub-query without a choice passes on what it needs itself."""
        serving: dict[int, list[int]] = {}
        for place, choice in self.choices.items():
            serving.setdefault(choice.sub_query, []).append(place)

        def before(part: int, seen: set[int]) -> Iterator[list[int]]:
            for need in query.sub_queries[part].depends_on:
                if need not in seen:  # there may be thousands of ways from a part to another
                    seen.add(need)
                    yield from [serving[need]] if need in serving else before(need, seen)

        for place, choice in self.choices.items():
            for needed in before(choice.sub_query, set()):
                for need in needed:
                    self._add(self.needs if len(needed) == 1 else self.after, place, need, is_noted=True)

    def by_kind(self, kinds: Mapping[int, Kind]) -> None:
        """Put synthesis after searches, and validation after everything else."""
        rank = {"synthesis": 1, "validation": 2}
        for place, kind in sorted(kinds.items(), key=lambda item: rank.get(item[1], 0)):
            for other in kinds:
                if rank.get(kinds[other], 0) < rank.get(kind, 0) and other not in self.needs[place]:
                    self._add(self.after, place, other)

    def stages(self) -> list[list[int]]:
        """The choices by stage, each stage in the order of the chain."""
        sorter = TopologicalSorter({place: self.waits(place) for place in self.choices})
        sorter.prepare()
        stages: list[list[int]] = []
        while sorter.is_active():
            stages.append(sorted(sorter.get_ready()))
            sorter.done(*stages[-1])
        return stages

    def waits(self, place: int) -> set[int]:
        """The choices that a choice waits for."""
        return self.needs[place] | self.after[place]

    def is_critical(self, place: int) -> bool:
        """Whether all others need this choice, so that nothing is left to do when it fails."""
        roots = [one for one in self.choices if not self.needs[one]]  # all others lead to these
        return len(self.choices) > 1 and roots == [place]

    def _add(self, edges: dict[int, set[int]], place: int, need: int, *, is_noted: bool = False) -> None:
        """Make one choice wait for another, unless that makes a circle."""
        if need == place:
            return
        graph = {one: self.waits(one) for one in self.choices}
        if not cycle_in({**graph, place: graph[place] | {need}}):
            edges[place].add(need)
        elif is_noted:
            names = _named(place, self.choices[place]), _named(need, self.choices[need])
            self.notes.append(f"{names[0]} does not wait for {names[1]}: that is a circle")
