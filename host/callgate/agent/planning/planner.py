"""`ToolPlanner`: from a query and the tools to a plan. Holds decomposition, routing, cache, selection and building
together, within a time limit; runs nothing.

1. Routing comes first: tools that are not to be relied upon are not offered; a decomposition that is not gets one
   search with the whole query.
2. Then the cache; then the model, which has `planning_seconds` for everything that is asked of it. When they are over,
   its request is cancelled, and rules choose (`fallback_plan`). So they do where its endpoint gives no answer.
3. What is built is checked as the plan engine will check it; steps that it would refuse are left out.
4. There is always a plan. One without steps says in its notes why: no tool is needed, or none is certain.
"""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import anyio

from callgate.agent.models.model import NO_USAGE, Model, ModelProvider, Usage
from callgate.agent.models.named import model_named
from callgate.errors import ConfigurationError, ModelError
from callgate.plan.estimate import EstimatedStep, PlanEstimate, estimate_plan
from callgate.runtime import Runtime
from callgate.tools.faults import printable
from callgate.tools.registry import ToolInfo

from .builder import Built, ExecutionPlanBuilder
from .chain import chain_of, without_orphans
from .confidence import offered_tools, wants_simple_plan
from .decomposition import Decomposer, as_one_part, as_unicode, checked_decomposition, completed
from .fallback_plan import RuleSelector
from .outcome import Memory
from .plan_cache import PlanCache, fingerprint
from .reading import UNSAID_CONFIDENCE
from .selector import ModelSelector
from .settings import PlannerSettings
from .tool_plan import BadWords, DecomposedQuery, Selection, Selector, ToolChoice, ToolExecution, ToolPlan, ToolStep

__all__ = ["ToolPlanner"]

logger = logging.getLogger("callgate")

MAX_QUERY_CHARACTERS = 100_000
"""A longer query is refused: no prompt shows more than a part of it."""
_MAX_NOTES = 60
_MAX_NOTE = 500


@dataclass(frozen=True, slots=True)
class _Chosen:
    """What is to be built."""

    query: DecomposedQuery
    selection: Selection
    notes: tuple[str, ...] = ()
    kept: int | None = None
    """Key in the cache."""
    usage: Usage = NO_USAGE
    timed_out: bool = False
    bad_words: tuple[BadWords, ...] = ()


class ToolPlanner:
    """Plans which tools are called for a query, and in which order.

    May plan several queries at the same time.

    Args:
        runtime: whose tools are planned.
        model: that chooses; unless the `planner_model` of the settings or `selector` does.
        selector: chooses instead of a `ModelSelector`.
        decomposer: takes queries apart that come as they are; without one, they stay whole.
        memory: whose advice the model is told; a `selector` has its own. Outcomes are noted by the orchestrator: give
            it the same memory, or nothing is learned.
        settings: times and thresholds.
        cache: instead of one of its own, as `settings` have it.

    Raises:
        ConfigurationError: nobody chooses, or the `planner_model` cannot be had: see `model_named`.
    """

    def __init__(
        self,
        runtime: Runtime,
        model: Model | None = None,
        *,
        selector: Selector | None = None,
        decomposer: Decomposer | None = None,
        memory: Memory | None = None,
        settings: PlannerSettings | None = None,
        cache: PlanCache | None = None,
    ) -> None:
        self._runtime = runtime
        self._settings = settings or PlannerSettings()
        self._own: Model | None = None
        self._asked: tuple[ModelProvider, str] | None = None
        if selector is None:
            if self._settings.planner_model:
                model = self._own = model_named(self._settings.planner_model)
            if model is None:
                raise ConfigurationError(
                    "nobody chooses the tools: give a model, a selector, or settings.planner_model"
                )
            selector = ModelSelector(model, runtime, memory=memory, settings=self._settings)
            self._asked = (model.provider, model.name)
        self._selector = selector
        self._decomposer = decomposer
        self._builder = ExecutionPlanBuilder(runtime, self._settings)
        self._rules = RuleSelector(runtime)
        if cache is None:
            cache = PlanCache(self._settings.plan_cache_entries, self._settings.plan_cache_seconds)
        self.cache = cache
        """Selections for queries like earlier ones; counts hits and misses."""

    async def aclose(self) -> None:
        """Close the model that `settings.planner_model` names; one that was given is its giver's. It may be called
        again."""
        if self._own is not None:
            await self._own.aclose()

    async def plan(
        self,
        query: str,
        decomposition: DecomposedQuery | None = None,
        tools: Iterable[str | ToolInfo] | None = None,
    ) -> ToolPlan:
        """A plan for a query.

        Args:
            query: in the user's words.
            decomposition: its parts, where the caller has them.
            tools: those that may be used; None: all that a plan may call.

        Returns:
            The plan; without steps where no tool is needed or none is certain, with a note that says which.

        Raises:
            ConfigurationError: the query is empty or too long, the decomposition is none (see `checked_decomposition`),
                or `tools` names one that does not exist.
        """
        started = time.perf_counter()
        if not _is_query(query):
            raise ConfigurationError(f"a query is text of 1 to {MAX_QUERY_CHARACTERS} characters")
        query = as_unicode(query)
        if decomposition is not None:
            decomposition = completed(checked_decomposition(decomposition), query)
        offered, routed = offered_tools(decomposition, self._tools(tools), self._settings)
        chosen = await self._choose(query, decomposition, offered)
        built, notes = self._built(chosen.query, chosen.selection.chain, offered)
        while chosen.kept is not None and notes:  # not to be used again; and not now, where it was kept
            self.cache.drop(chosen.kept)
            if chosen.selection.source != "cache":
                break
            chosen = await self._choose(query, decomposition, offered)
            built, notes = self._built(chosen.query, chosen.selection.chain, offered)
        if chosen.selection.chain and not built.steps and chosen.selection.source != "fallback":
            rules = self._by_rules(chosen.query, offered, "nothing of the selection can be run", chosen.usage)
            chosen = replace(rules, bad_words=chosen.bad_words)
            why = built.notes
            built, more = self._built(chosen.query, chosen.selection.chain, offered)
            notes += (*why, *more)
        plan = self._plan(query, chosen, built, ((routed,) if routed else ()) + chosen.notes + notes, started)
        if chosen.kept is not None and not notes:
            self.cache.note_plan(plan.id, chosen.kept)
        self._log(plan)
        return plan

    def learned(self, plan: ToolPlan, execution: ToolExecution) -> None:
        """Take note of what came of a plan: the selection of one that failed, or whose fallback stood in for a tool, is
        not used again.

        Args:
            plan: that this planner made.
            execution: of it. One that was cancelled says nothing.
        """
        wanted = {step.id: step.tool for step in plan.steps}
        stood_in = any(result.success and result.tool != wanted.get(result.step_id) for result in execution.results)
        if (stood_in or not execution.success) and not execution.cancelled and self.cache.failed(plan.id):
            what = "needed a fallback" if execution.success else "failed"
            logger.info("plan %s %s: its selection of tools is not used again", plan.id, what)

    def _tools(self, wanted: Iterable[str | ToolInfo] | None) -> tuple[ToolInfo, ...]:
        """Those that a plan may call."""
        registry = self._runtime.registry
        names: Iterable[str] = registry.names()
        if wanted is not None:
            if isinstance(wanted, str):
                raise ConfigurationError("tools are named by a list of names: tools=['search']")
            written = [each if isinstance(each, str) else each.name for each in wanted]
            names = dict.fromkeys(registry.resolve(name) or name for name in written)
            unknown = [name for name in names if name not in registry]
            if unknown:
                raise ConfigurationError(f"there is no tool {unknown[0][:60]!r}")
        return tuple(registry.info(name) for name in names if "plan" in registry.get(name).allowed_callers)

    async def _choose(self, query: str, decomposition: DecomposedQuery | None, tools: tuple[ToolInfo, ...]) -> _Chosen:
        if not tools:
            whole = decomposition or as_one_part(query)
            return _Chosen(whole, Selection(chain=(), source="fallback"), ("there is no tool that a plan may call",))
        if decomposition is not None:
            simple = self._simple(decomposition, tools)
            if simple is not None:
                return simple
        catalogue = fingerprint(tools)
        asked = query if decomposition is None else decomposition.query  # what the selector is told
        kept = self.cache.find(asked, decomposition, catalogue, self._selector.name)
        if kept is not None:
            selection = replace(kept.selection, source="cache", usage=NO_USAGE, faults=())
            return _Chosen(
                kept.query, selection, ("the tools were chosen for an earlier query of this form",), kept.key
            )
        usage = NO_USAGE
        faults: tuple[str, ...] = ()
        bad: tuple[BadWords, ...] = ()
        found = decomposition or as_one_part(query)
        try:
            with anyio.move_on_after(self._settings.planning_seconds) as time_limit:
                if decomposition is None and self._decomposer is not None:
                    taken_apart = await self._decomposer.decompose(query)
                    found, usage, faults = taken_apart.query, taken_apart.usage, taken_apart.faults
                    simple = self._simple(found, tools, usage, faults)
                    bad = taken_apart.bad_words
                    if simple is not None:
                        return replace(simple, bad_words=bad)
                selection = await self._selector.select(found, tools)
        except ModelError as error:
            why = f"the model gave no answer: {printable(str(error))[:300]}"
            return replace(self._by_rules(found, tools, why, usage, faults), bad_words=bad)
        if time_limit.cancelled_caught:
            why = f"planning took longer than {self._settings.planning_seconds:g} s"
            return replace(self._by_rules(found, tools, why, usage, faults), timed_out=True, bad_words=bad)
        bad += selection.bad_words
        chosen = _Chosen(found, selection, faults + selection.faults, usage=usage + selection.usage, bad_words=bad)
        if not self._may_be_kept(selection):
            return chosen
        given = decomposition is not None
        return replace(chosen, kept=self.cache.keep(found, selection, tools, catalogue, given=given))

    def _may_be_kept(self, selection: Selection) -> bool:
        """Whether it is the selector's own, and whole. One that hands out the strategies of others (an experiment) has
        to be asked about every query."""
        own = selection.strategy == self._selector.name and selection.source == "model"
        return own and bool(selection.chain) and not selection.faults

    def _simple(
        self,
        query: DecomposedQuery,
        tools: Sequence[ToolInfo],
        usage: Usage = NO_USAGE,
        faults: tuple[str, ...] = (),
    ) -> _Chosen | None:
        """One search with the whole query, where its parts are not to be relied upon and there is such a search."""
        note = wants_simple_plan(query, self._settings)
        if note is None:
            return None
        search = self._rules.one_search(query.query, tools)
        if search is None:
            return None
        selection = Selection(
            chain=(search,), reasoning=search.reasoning, strategy=self._rules.name, source="fallback", usage=usage
        )
        whole = replace(as_one_part(query.query, query.confidence), query_type=query.query_type)
        return _Chosen(whole, selection, (*faults, note), usage=usage)

    def _by_rules(
        self,
        query: DecomposedQuery,
        tools: Sequence[ToolInfo],
        why: str,
        usage: Usage,
        faults: tuple[str, ...] = (),
    ) -> _Chosen:
        selection = self._rules.choose(query, tools)
        return _Chosen(query, selection, (*faults, f"{why}; rules chose", *selection.faults), usage=usage)

    def _built(
        self, query: DecomposedQuery, chain: tuple[ToolChoice, ...], tools: Sequence[ToolInfo]
    ) -> tuple[Built, tuple[str, ...]]:
        """Steps that the plan engine takes, and what was left out for that."""
        names = {tool.name for tool in tools}
        left_out: list[str] = []
        usable: dict[int, ToolChoice] = {}
        for place, choice in enumerate(chain):
            if not 0 <= choice.confidence <= 1:  # NaN, too: whoever chose it may be anybody
                left_out.append(f"the confidence of {choice.tool[:60]!r} is {choice.confidence}, and was taken for 0.5")
                choice = replace(choice, confidence=UNSAID_CONFIDENCE)
            if choice.tool in names and 0 <= choice.sub_query < len(query.sub_queries):
                usable[place] = choice
            else:
                what = "may not be used" if choice.tool not in names else "is for no sub-query"
                left_out.append(f"{choice.tool[:60]!r} is left out: it {what}")
        if left_out:
            lost = without_orphans(usable)
            left_out += [f"{choice.tool!r} is left out: it needs what is left out" for choice in lost.values()]
            chain, _ = chain_of(usable)
        built = self._builder.build(query, chain, tools)
        steps, stages = built.steps, built.stages
        while steps:
            plan = ToolPlan(id="", query=query.query, steps=steps, stages=stages)
            errors = [fault for fault in self._runtime.check_plan(plan.to_plan()) if fault.severity == "error"]
            wrong = {fault.step: str(fault) for fault in errors if fault.step is not None}
            if not errors:
                break
            if not wrong:
                return Built((), (), built.notes), (*left_out, *map(str, errors[:3]))
            left_out += [f"left out: {said}" for said in wrong.values()]
            gone = set(wrong)
            steps = tuple(step for step in steps if step.id not in gone)
            while orphans := [step for step in steps if not gone.isdisjoint(step.dependencies)]:
                left_out += [f"{step.id} ({step.tool}) is left out: it needs what is left out" for step in orphans]
                gone |= {step.id for step in orphans}
                steps = tuple(step for step in steps if step.id not in gone)
            steps = tuple(replace(step, after=tuple(one for one in step.after if one not in gone)) for step in steps)
            stages = tuple(left for stage in stages if (left := tuple(one for one in stage if one not in gone)))
        return Built(steps, stages, built.notes), tuple(left_out)

    def _plan(self, query: str, chosen: _Chosen, built: Built, notes: tuple[str, ...], started: float) -> ToolPlan:
        selection = chosen.selection
        said = [*notes, *built.notes]
        if not built.steps and not said:
            said.append("no tool is needed" if selection.source != "fallback" else "no tool is certain to fit")
        plan = ToolPlan(
            id=f"plan-{secrets.token_hex(6)}",
            query=query,
            steps=built.steps,
            stages=built.stages,
            reasoning=selection.reasoning,
            confidence=chosen.query.confidence * min((step.confidence for step in built.steps), default=1.0),
            source=selection.source,
            strategy=selection.strategy,
            notes=tuple(note[:_MAX_NOTE] for note in dict.fromkeys(said))[:_MAX_NOTES],
            timed_out=chosen.timed_out,
            usage=chosen.usage,
            bad_words=chosen.bad_words,
            model=self._asked,
        )
        if built.steps:
            estimate = self._estimate(plan.steps)
            plan = replace(plan, estimated_seconds=estimate.duration_seconds, estimated_cost=estimate.cost)
        return replace(plan, planning_seconds=time.perf_counter() - started)

    def _estimate(self, steps: Sequence[ToolStep]) -> PlanEstimate:
        """What they take where no more of them run at the same time than the settings allow."""
        places = {step.id: place for place, step in enumerate(steps)}
        registry = self._runtime.registry
        return estimate_plan(
            [
                EstimatedStep(step.id, step.tool, tuple(places[one] for one in (*step.dependencies, *step.after)))
                for step in steps
            ],
            {step.tool: registry.get(step.tool) for step in steps},
            registry.statistics,
            max_concurrent_calls=min(self._settings.parallel_limit, self._runtime.limits.max_concurrent_calls),
        )

    def _log(self, plan: ToolPlan) -> None:
        logger.info(
            "plan %s for %r: %s; by %s (%s), confidence %.2f; reasoning: %s%s",
            plan.id,
            plan.query[:200],
            ", ".join(f"{step.id}={step.tool} ({step.confidence:.2f})" for step in plan.steps) or "no tool",
            plan.strategy or "nobody",
            plan.source,
            plan.confidence,
            printable(" ".join(plan.reasoning.split()))[:500] or "none",
            "".join(f"; {printable(note)[:200]}" for note in plan.notes[:10]),
        )


def _is_query(given: Any) -> bool:
    return isinstance(given, str) and bool(given.strip()) and len(given) <= MAX_QUERY_CHARACTERS
