"""Choices of tools into steps in stages: dependencies, order, timeouts, fallbacks. Chooses no tools and calls none.

1. A step needs those that its parameters refer to, those that its choice names, and those of the sub-queries that its
   own sub-query needs. Of a sub-query with several steps no single one is needed: then it is an order only.
2. Synthesis comes after searches, validation after everything else: an order, so that one failure does not skip them.
3. Stage 1 needs nothing, stage N only earlier stages. Steps of a stage run at the same time.
4. Choices that refer to each other in a circle are left out, and those that refer to them. An order that would make a
   circle is not heeded. Both are noted.
5. A step's timeout goes by its tool's category (`TIMEOUT_FACTORS`) and history. Where a tool has a timeout of its own,
   or its category says nothing, the step says nothing: then the plan engine's default holds, which adapts, too.
6. A fallback is the tool's own; else, for steps that others need or that alone serve their sub-query, and where routing
   asks for one, another tool with a capability in common that takes the same arguments. Only tools that change nothing
   stand in, and only for tools that change nothing. On low confidence only where results can say how sure they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from callgate.plan.schemas import impossible
from callgate.runtime import Runtime
from callgate.tools.registry import ToolInfo
from callgate.tools.statistics import adaptive_timeout_seconds

from .capabilities import Kind, kind_of, shared_capabilities
from .choice_references import choice_id, positions_in
from .confidence import fails_often, is_unsure
from .fallback_plan import may_be_chosen_by_rules
from .settings import LONGEST_SECONDS, PlannerSettings
from .tool_plan import DecomposedQuery, StepFallback, ToolChoice, ToolStep

__all__ = ["TIMEOUT_FACTORS", "Built", "ExecutionPlanBuilder"]

TIMEOUT_FACTORS: Mapping[Kind, float] = {
    "search": 0.5,
    "validation": 1.0,
    "synthesis": 2.0,
    "external": 1.5,
    "other": 1.0,
}
"""Of `default_timeout_seconds`, by kind of tool: an index answers quickly or not at all, a model that writes takes its
time, and so does somebody else's service. `timeout_seconds_by_category` says it outright."""
_MAX_ALTERNATIVES = 5
"""So many tools are tried as a fallback for a step."""


@dataclass(frozen=True, slots=True)
class Built:
    """What was built.

    Attributes:
        steps: in the order of their stages.
        stages: ids of the steps of each.
        notes: what was left out, added, or not heeded, and why.
    """

    steps: tuple[ToolStep, ...]
    stages: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()


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
            tools: that there are; every choice names one of them.
        """
        known = {tool.name: tool for tool in tools}
        order = _Order(chain)
        order.by_reference()
        order.by_choice(chain)
        order.by_sub_query(query, chain)
        order.by_kind({place: kind_of(known[chain[place].tool]) for place in order.kept})
        stages = order.stages()
        listed = [place for stage in stages for place in stage]
        before = {place: listed[n - 1] if n else None for n, place in enumerate(listed)}
        steps = []
        for stage in stages:
            for place in stage:
                waits = order.needs[place] | order.after[place]
                alone = len(stage) == 1 and before[place] in waits
                steps.append(
                    ToolStep(
                        id=choice_id(place),
                        tool=chain[place].tool,
                        parameters=chain[place].parameters,
                        dependencies=tuple(map(choice_id, sorted(order.needs[place]))),
                        after=tuple(map(choice_id, sorted(order.after[place] - order.needs[place]))),
                        execution_mode="sequential" if alone else "parallel",
                        timeout_seconds=self._timeout(known[chain[place].tool]),
                        critical=order.is_critical(place),
                        sub_query=query.sub_queries[chain[place].sub_query].text[:1000],
                        confidence=chain[place].confidence,
                    )
                )
        notes = list(order.notes)
        for number, step in enumerate(steps):
            place = listed[number]
            fallback = self._fallback(steps, number, chain, place, order, known, notes)
            if fallback is not None:
                steps[number] = replace(step, fallback=fallback)
        return Built(tuple(steps), tuple(tuple(map(choice_id, stage)) for stage in stages), tuple(notes))

    def _timeout(self, info: ToolInfo) -> float | None:
        """Seconds by the kind of tool and its history; None where the tool's own timeout or the default holds."""
        tool = self._runtime.registry.get(info.name)
        settings = self._settings
        by_category = {name.casefold(): value for name, value in settings.timeout_seconds_by_category.items()}
        said = by_category.get((info.category or "").casefold())
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
        steps: Sequence[ToolStep],
        number: int,
        chain: Sequence[ToolChoice],
        place: int,
        order: _Order,
        known: Mapping[str, ToolInfo],
        notes: list[str],
    ) -> StepFallback | None:
        info, choice = known[chain[place].tool], chain[place]
        failing, unsure = fails_often(info, self._settings), is_unsure(choice, self._settings)
        own = self._runtime.registry.get(info.name).fallback
        if own is not None and own in known:
            if failing:
                notes.append(f"{failing} (its own: {own!r})")
            return StepFallback(tool=own)
        alone = sum(chain[other].sub_query == choice.sub_query for other in order.kept) == 1
        if not (failing or unsure or alone or order.is_needed(place)):
            return None
        on_low = unsure is not None and failing is None
        if on_low and not self._tells_confidence(info):
            on_low, unsure = False, f"{unsure}; its results have no confidence, so it is called on an error"
        wanted = StepFallback(
            tool="",
            condition="on_low_confidence" if on_low else "on_error",
            threshold=self._settings.low_result_confidence,
        )
        found = self._alternative(steps, number, info, wanted, known)
        reason = failing or unsure
        if reason:
            notes.append(f"{reason} ({'no other tool can stand in' if found is None else repr(found.tool)})")
        elif found is not None:
            notes.append(f"{info.name!r} is needed, and has the fallback {found.tool!r}")
        return found

    def _tells_confidence(self, info: ToolInfo) -> bool:
        """Whether a result may say how sure it is; a fallback on low confidence is never called where none can."""
        schema = self._runtime.registry.get(info.name).output_schema
        return impossible(schema, ("confidence",), info.name) is None

    def _alternative(
        self,
        steps: Sequence[ToolStep],
        number: int,
        info: ToolInfo,
        wanted: StepFallback,
        known: Mapping[str, ToolInfo],
    ) -> StepFallback | None:
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
            fallback = replace(wanted, tool=name)
            if self._takes(steps, number, fallback):
                return fallback
        return None

    def _takes(self, steps: Sequence[ToolStep], number: int, fallback: StepFallback) -> bool:
        """Whether the fallback's schema takes the step's arguments, as the plan engine checks it."""
        plain = [_bare(step) for step in steps]
        with_it = [*plain[:number], {**plain[number], "fallback": {"tool": fallback.tool}}, *plain[number + 1 :]]
        return self._faults_of(steps[number].id, with_it) <= self._faults_of(steps[number].id, plain)

    def _faults_of(self, step_id: str, steps: list[dict[str, Any]]) -> int:
        faults = self._runtime.check_plan({"steps": steps})
        return sum(fault.step == step_id and fault.severity == "error" for fault in faults)


class _Order:
    """Which choice waits for which; grows without circles."""

    def __init__(self, chain: Sequence[ToolChoice]) -> None:
        count = len(chain)
        self.kept: set[int] = set(range(count))
        self.needs: dict[int, set[int]] = {place: set() for place in range(count)}
        self.after: dict[int, set[int]] = {place: set() for place in range(count)}
        self.notes: list[str] = []
        self._referred = {place: positions_in(dict(choice.parameters)) for place, choice in enumerate(chain)}
        self._names = {place: f"{choice_id(place)} ({choice.tool})" for place, choice in enumerate(chain)}

    def by_reference(self) -> None:
        """What parameters refer to; choices that cannot be had are left out."""
        waiting = dict(self._referred)
        ready: set[int] = set()
        while found := {place for place, needs in waiting.items() if needs <= ready}:
            ready |= found
            for place in found:
                del waiting[place]
        for place in sorted(waiting):
            beyond = sorted(waiting[place] - ready)
            what = "itself" if beyond == [place] else ", ".join(self._names.get(one, choice_id(one)) for one in beyond)
            self.notes.append(f"{self._names[place]} is left out: it refers to {what}, which cannot be had before it")
            self.kept.discard(place)
        for place in self.kept:
            self.needs[place] |= self._referred[place]

    def by_choice(self, chain: Sequence[ToolChoice]) -> None:
        """What choices say that they need."""
        for place in sorted(self.kept):
            for need in chain[place].depends_on:
                if need in self.kept and not self._add(self.needs, place, need):
                    self.notes.append(f"{self._names[place]} does not wait for {self._names[need]}: that is a circle")

    def by_sub_query(self, query: DecomposedQuery, chain: Sequence[ToolChoice]) -> None:
        """What their sub-queries need; through sub-queries without a choice to those before."""
        serving: dict[int, list[int]] = {}
        for place in sorted(self.kept):
            serving.setdefault(chain[place].sub_query, []).append(place)
        for place in sorted(self.kept):
            looked_at: set[int] = set()
            open_parts = list(query.sub_queries[chain[place].sub_query].depends_on)
            while open_parts:
                part = open_parts.pop()
                if part in looked_at:
                    continue
                looked_at.add(part)
                if part not in serving:
                    open_parts += query.sub_queries[part].depends_on
                    continue
                edges = self.needs if len(serving[part]) == 1 else self.after
                for need in serving[part]:
                    if need != place and not self._add(edges, place, need):
                        self.notes.append(
                            f"{self._names[place]} does not wait for {self._names[need]}, which waits for it"
                        )

    def by_kind(self, kinds: Mapping[int, Kind]) -> None:
        """Synthesis after searches, validation after everything else."""
        for kind, later_than in (("synthesis", {"search", "external", "other"}), ("validation", None)):
            for place in sorted(self.kept):
                if kinds[place] != kind:
                    continue
                for other in sorted(self.kept):
                    earlier = kinds[other] in later_than if later_than else kinds[other] != "validation"
                    if other != place and earlier and other not in self.needs[place]:
                        self._add(self.after, place, other)

    def stages(self) -> list[list[int]]:
        """The choices by stage, each stage in the order of the chain."""
        waiting = {place: self.needs[place] | self.after[place] for place in sorted(self.kept)}
        stages: list[list[int]] = []
        while waiting:
            stage = [place for place, waits in waiting.items() if waits.isdisjoint(waiting)]
            for place in stage:
                del waiting[place]
            stages.append(stage)
        return stages

    def is_needed(self, place: int) -> bool:
        """Whether another one needs its result."""
        return any(place in self.needs[other] for other in self.kept)

    def is_critical(self, place: int) -> bool:
        """Whether every other one needs it, so that nothing is left to do where it fails."""
        alone = [one for one in self.kept if not self.needs[one]]  # there are no circles: all others lead to these
        return len(self.kept) > 1 and alone == [place]

    def _add(self, edges: dict[int, set[int]], place: int, need: int) -> bool:
        """Have one wait for another, unless that one waits for it."""
        if need == place or self._waits(need, place, (self.needs, self.after)):
            return False
        edges[place].add(need)
        return True

    def _waits(self, place: int, need: int, edges: Sequence[Mapping[int, set[int]]]) -> bool:
        """Whether one waits for another, through others too."""
        seen: set[int] = set()
        open_places = [place]
        while open_places:
            one = open_places.pop()
            new = {each for way in edges for each in way[one]} - seen
            if need in new:
                return True
            seen |= new
            open_places += new
        return False


def _bare(step: ToolStep) -> dict[str, Any]:
    return {"id": step.id, "tool": step.tool, "arguments": dict(step.parameters)}
