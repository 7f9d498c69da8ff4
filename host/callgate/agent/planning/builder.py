"""Choices of tools into steps in stages: dependencies, order, timeouts, fallbacks. Chooses no tools and calls none.

1. Choices that the plan engine would refuse, that refer to each other in a circle, or that need one of these, are left
   out.
2. A step needs those that its parameters refer to, those that its choice names, and those of the sub-queries that its
   own sub-query needs. Of a sub-query with several steps no single one is needed: then it is an order only.
3. Synthesis comes after searches, validation after everything else: an order, so that one failure does not skip them.
4. Stage 1 needs nothing, stage N only earlier stages. Steps of a stage run at the same time. An order that would make
   a circle is not heeded, and noted.
5. A step's timeout depends on its tool's category (`TIMEOUT_FACTORS`) and history. Where a tool has a timeout of its
   own, or its category says nothing, the step says nothing: then the plan engine's default holds, which adapts, too.
6. A fallback is the tool's own; else, for steps that others need or that alone serve their sub-query, and where routing
   asks for one, another tool with a capability in common that takes the same arguments. Only tools that change nothing
   stand in, and only for tools that change nothing. On low confidence only where results can say how sure they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from graphlib import TopologicalSorter

from callgate.plan.schemas import impossible
from callgate.runtime import Runtime
from callgate.tools.registry import ToolInfo
from callgate.tools.statistics import adaptive_timeout_seconds

from .capabilities import Kind, kind_of, shared_capabilities
from .chain import choice_id, cycle_in, positions_in, renumbered, usable
from .confidence import fails_often, is_unsure
from .fallback_plan import may_be_chosen_by_rules
from .settings import LONGEST_SECONDS, PlannerSettings
from .tool_plan import DecomposedQuery, StepFallback, ToolChoice, ToolPlan, ToolStep

__all__ = ["TIMEOUT_FACTORS", "Built", "ExecutionPlanBuilder"]

TIMEOUT_FACTORS: Mapping[Kind, float] = {
    "search": 0.5, "validation": 1.0, "synthesis": 2.0, "external": 1.5, "other": 1.0,
}  # fmt: skip
"""Of `default_timeout_seconds`, by kind of tool: an index answers quickly or not at all, a model that writes takes its
time, and so does another organisation's service. `timeout_seconds_by_category` says it outright."""
_MAX_ALTERNATIVES = 5
"""The most tools that are tried as a fallback for a step."""


@dataclass(frozen=True, slots=True)
class Built:
    """Steps, ready for a plan.

    Attributes:
        steps: in the order of their stages.
        stages: ids of the steps of each.
        notes: what was added or not heeded, and why.
        left_out: choices that no step was made of, and why.
    """

    steps: tuple[ToolStep, ...]
    stages: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()


class ExecutionPlanBuilder:
    """Builds the steps of plans.

    Args:
        runtime: whose tools they call.
        settings: times and thresholds.
    """

    def __init__(self, runtime: Runtime, settings: PlannerSettings | None = None) -> None:
        self._runtime = runtime
        self._settings = settings or PlannerSettings()

    def build(self, query: DecomposedQuery, chain: Sequence[ToolChoice], tools: Sequence[ToolInfo]) -> Built:
        """Steps and stages for a chain of choices.

        Args:
            query: that the choices are for.
            chain: the choices; a step is called ``c`` and the position of its choice.
            tools: that may be called.
        """
        known = {tool.name: tool for tool in tools}
        choices, faults = usable(dict(enumerate(chain)), query, known, self._runtime)
        left_out = [
            f"{_named(place, chain[place])} is left out: {'; '.join(said) or 'it needs what is left out'}"
            for place, said in sorted(faults.items())
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
                timeout_seconds=self._timeout(known[choice.tool]),
                critical=order.is_critical(place),
                sub_query=query.sub_queries[choice.sub_query].text[:1000],
                confidence=choice.confidence,
            )
            before = place
        notes = list(order.notes)
        for place, choice in choices.items():
            alone = sum(other.sub_query == choice.sub_query for other in choices.values()) == 1
            wanted = alone or any(place in needs for needs in order.needs.values())
            fallback = self._fallback(steps, place, choice, wanted, known, notes)
            steps[place] = replace(steps[place], fallback=fallback)
        ids = tuple(tuple(map(choice_id, stage)) for stage in stages)
        return Built(tuple(steps.values()), ids, tuple(notes), tuple(left_out))

    def _timeout(self, info: ToolInfo) -> float | None:
        """Seconds by the kind of tool and its history; None where the tool's own timeout or the default holds."""
        tool, settings = self._runtime.registry.get(info.name), self._settings
        said = settings.seconds_of(info.category)
        factor = TIMEOUT_FACTORS[kind_of(info)]
        if tool.timeout_seconds is not None or (said is None and factor == 1.0):
            return None
        default = factor * settings.default_timeout_seconds if said is None else said
        if not tool.repeatable:  # one that may not be tried again is not given less time
            default = max(default, settings.default_timeout_seconds)
        stats = self._runtime.registry.statistics.of(info.name)
        return min(adaptive_timeout_seconds(stats, default, tool.repeatable), LONGEST_SECONDS)

    def _fallback(
        self,
        steps: Mapping[int, ToolStep],
        place: int,
        choice: ToolChoice,
        is_needed: bool,
        known: Mapping[str, ToolInfo],
        notes: list[str],
    ) -> StepFallback | None:
        info = known[choice.tool]
        tool = self._runtime.registry.get(info.name)
        failing, unsure = fails_often(info, self._settings), is_unsure(choice, self._settings)
        if tool.fallback is not None and tool.fallback in known:
            if failing:
                notes.append(f"{failing} (its own: {tool.fallback!r})")
            return StepFallback(tool=tool.fallback)
        if not (failing or unsure or is_needed):
            return None
        on_low = unsure is not None and failing is None
        if on_low and impossible(tool.output_schema, ("confidence",), info.name) is not None:
            on_low, unsure = False, f"{unsure}; its results have no confidence, so it is called on an error"
        name = self._alternative(steps, place, info, known)
        if reason := failing or unsure:
            notes.append(f"{reason} ({'no other tool can stand in' if name is None else repr(name)})")
        elif name is not None:
            notes.append(f"{info.name!r} is needed, and has the fallback {name!r}")
        if name is None:
            return None
        condition, threshold = (
            ("on_low_confidence", self._settings.low_result_confidence) if on_low else ("on_error", 0.5)
        )
        return StepFallback(tool=name, condition=condition, threshold=threshold)  # type: ignore[arg-type]

    def _alternative(
        self, steps: Mapping[int, ToolStep], place: int, info: ToolInfo, known: Mapping[str, ToolInfo]
    ) -> str | None:
        """Another tool with a capability in common, which takes the same arguments: the most alike, then the surest."""
        if not may_be_chosen_by_rules(self._runtime, info.name):
            return None
        alike = [
            (-shared, other.failure_rate or 0.0, other.average_seconds or 0.0, name)
            for name, other in known.items()
            if name != info.name
            and (shared := shared_capabilities(info, other))
            and may_be_chosen_by_rules(self._runtime, name)
            and fails_often(other, self._settings) is None
        ]
        for *_, name in sorted(alike)[:_MAX_ALTERNATIVES]:
            with_it = {**steps, place: replace(steps[place], fallback=StepFallback(tool=name))}
            plan = ToolPlan(id="", query="", steps=tuple(with_it.values()), stages=())
            if not any(fault.severity == "error" for fault in self._runtime.check_plan(plan.to_plan())):
                return name
        return None


def _named(place: int, choice: ToolChoice) -> str:
    return f"{choice_id(place)} ({choice.tool[:60]})"


@dataclass(slots=True)
class _Order:
    """Which choice waits for which; grows without circles.

    Attributes:
        choices: by their positions; references between them make no circle.
        needs: those whose results each one needs.
        after: those that must have ended before.
        notes: what is not heeded, since it would make a circle.
    """

    choices: Mapping[int, ToolChoice]
    needs: dict[int, set[int]] = field(init=False)
    after: dict[int, set[int]] = field(init=False)
    notes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.needs = {place: positions_in(dict(choice.parameters)) for place, choice in self.choices.items()}
        self.after = {place: set() for place in self.choices}

    def by_choice(self) -> None:
        """What choices say that they need."""
        for place, choice in self.choices.items():
            for need in choice.depends_on:
                self._add(self.needs, place, need, noted=True)

    def by_sub_query(self, query: DecomposedQuery) -> None:
        """What their sub-queries need; through sub-queries without a choice to those before."""
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
                    self._add(self.needs if len(needed) == 1 else self.after, place, need, noted=True)

    def by_kind(self, kinds: Mapping[int, Kind]) -> None:
        """Synthesis after searches, validation after everything else."""
        for kind, later_than in (
            ("synthesis", {"search", "external", "other"}),
            ("validation", {"search", "external", "other", "synthesis"}),
        ):
            for place in (place for place in kinds if kinds[place] == kind):
                for other in (other for other in kinds if kinds[other] in later_than):
                    if other not in self.needs[place]:
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
        """All that one waits for."""
        return self.needs[place] | self.after[place]

    def is_critical(self, place: int) -> bool:
        """Whether every other one needs it, so that nothing is left to do where it fails."""
        roots = [one for one in self.choices if not self.needs[one]]  # all others lead to these
        return len(self.choices) > 1 and roots == [place]

    def _add(self, edges: dict[int, set[int]], place: int, need: int, *, noted: bool = False) -> None:
        """Have one wait for another, unless that makes a circle."""
        graph = {one: self.waits(one) for one in self.choices}
        if need != place and not cycle_in({**graph, place: graph[place] | {need}}):
            edges[place].add(need)
        elif noted and need != place:
            names = _named(place, self.choices[place]), _named(need, self.choices[need])
            self.notes.append(f"{names[0]} does not wait for {names[1]}: that is a circle")
