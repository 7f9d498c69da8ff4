"""`ToolPlanner`: from a query and the tools to a plan. Holds decomposition, routing, cache, selection and building
together, within a time limit; runs nothing.

1. Routing comes first: tools that are not to be relied upon are not offered; a decomposition that is not gets one
   search with the whole query.
2. Then the cache; then the model, which has `planning_seconds` for everything that is asked of it. When they are over,
   its request is cancelled, and rules choose (`fallback_plan`). Rules also choose where its endpoint gives no answer.
3. What the plan engine would refuse is left out by the builder.
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

from callgate.agent.models.model import NO_USAGE, Model, ModelProvider
from callgate.agent.models.named import model_named
from callgate.errors import ConfigurationError, ModelError
from callgate.runtime import Runtime
from callgate.tools.faults import printable
from callgate.tools.registry import ToolInfo

from .builder import Built, ExecutionPlanBuilder
from .confidence import offered_tools, wants_simple_plan
from .decomposition import Decomposer, as_one_part, as_unicode, checked_decomposition, completed
from .fallback_plan import RuleSelector
from .outcome import Memory
from .plan_cache import PlanCache, fingerprint
from .reading import UNSAID_CONFIDENCE
from .selector import ModelSelector
from .settings import PlannerSettings
from .tool_plan import DecomposedQuery, Selection, Selector, ToolChoice, ToolExecution, ToolPlan

__all__ = ["ToolPlanner"]

logger = logging.getLogger("callgate")

MAX_QUERY_CHARACTERS = 100_000
"""A longer query is refused: no prompt shows more than a part of it."""
_MAX_NOTES = 60
_MAX_NOTE = 500


@dataclass(frozen=True, slots=True)
class _Chosen:
    """A selection that is to be built.

    Attributes:
        query: in its parts.
        selection: the tools; its usage, faults and bad words are those of the decomposition, too.
        timed_out: whether the model did not choose in time.
    """

    query: DecomposedQuery
    selection: Selection
    timed_out: bool = False


class ToolPlanner:
    """Plans which tools are called for a query, and in which order.

    May plan several queries at the same time.

    Args:
        runtime: whose tools are planned.
        model: that chooses; unless the `planner_model` of the settings or `selector` does.
        selector: chooses instead of a `ModelSelector`.
        decomposer: takes queries apart that come as they are; without one, they stay whole.
        memory: whose advice the model receives; a `selector` has its own. Outcomes are noted by the orchestrator: give
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
        """Selections for queries that were asked before; counts hits and misses."""

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
            ConfigurationError: the query is empty or too long, the decomposition does not fit (see
                `checked_decomposition`), or `tools` names one that does not exist.
        """
        started = time.perf_counter()
        given: Any = query
        if not isinstance(given, str) or not given.strip() or len(given) > MAX_QUERY_CHARACTERS:
            raise ConfigurationError(f"a query is text of 1 to {MAX_QUERY_CHARACTERS} characters")
        query = as_unicode(query)
        if decomposition is not None:
            decomposition = completed(checked_decomposition(decomposition), query)
        offered, routed = offered_tools(decomposition, self._tools(tools), self._settings)
        asked = query if decomposition is None else decomposition.query  # what the selector receives
        key = PlanCache.key(asked, decomposition, fingerprint(offered), self._selector.name)
        kept = self.cache.find(key)
        if kept is not None:
            note = "the tools were chosen for an equal query before"
            selection = replace(kept.selection, source="cache", usage=NO_USAGE, faults=(note,))
            chosen = _Chosen(kept.query, selection)
        else:
            chosen = await self._choose(query, decomposition, offered)
        built, notes = self._built(chosen, offered)
        if chosen.selection.chain and not built.steps and chosen.selection.source != "fallback":
            chosen = replace(chosen, selection=self._by_rules(chosen, offered, "nothing of the selection can be run"))
            built, more = self._built(chosen, offered)
            notes += more
        plan = self._plan(query, chosen, built, [*([routed] if routed else ()), *notes], started)
        if self._may_be_kept(chosen.selection) and not notes:
            self.cache.keep(key, chosen.query, chosen.selection)
        if chosen.selection.source != "fallback":
            self.cache.note_plan(plan.id, key)
        self._log(plan)
        return plan

    def learned(self, plan: ToolPlan, execution: ToolExecution) -> None:
        """Take note of the outcome of a plan: the selection of one that failed, or whose fallback stood in for a tool,
        is not used again.

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

    async def _choose(self, query: str, given: DecomposedQuery | None, tools: tuple[ToolInfo, ...]) -> _Chosen:
        """Ask for the parts and the tools, within the time; by rules where there is no answer."""
        chosen = _Chosen(given or as_one_part(query), Selection(chain=(), source="fallback"))
        if not tools:
            note = "there is no tool that a plan may call"
            return replace(chosen, selection=replace(chosen.selection, faults=(note,)))
        try:
            with anyio.move_on_after(self._settings.planning_seconds) as time_limit:
                if given is None and self._decomposer is not None:
                    apart = await self._decomposer.decompose(query)
                    before = replace(
                        chosen.selection, usage=apart.usage, faults=apart.faults, bad_words=apart.bad_words
                    )
                    chosen = _Chosen(apart.query, before)
                simple = self._simple(chosen, tools)
                if simple is not None:
                    return simple
                selection = await self._selector.select(chosen.query, tools)
                return replace(chosen, selection=_joined(chosen.selection, selection))
        except ModelError as error:
            why = f"the model gave no answer: {printable(str(error))[:300]}"
        if time_limit.cancelled_caught:
            why = f"planning took longer than {self._settings.planning_seconds:g} s"
        return _Chosen(chosen.query, self._by_rules(chosen, tools, why), timed_out=time_limit.cancelled_caught)

    def _may_be_kept(self, selection: Selection) -> bool:
        """Whether it is the selector's own, and whole. One that hands out the strategies of others (an experiment) has
        to be asked about every query."""
        own = selection.strategy == self._selector.name and selection.source == "model"
        return own and bool(selection.chain) and not selection.faults

    def _simple(self, chosen: _Chosen, tools: Sequence[ToolInfo]) -> _Chosen | None:
        """One search with the whole query, where its parts are not to be relied upon and there is such a search."""
        query = chosen.query
        note = wants_simple_plan(query, self._settings)
        search = None if note is None else self._rules.one_search(query.query, tools)
        if note is None or search is None:
            return None
        selection = Selection(
            chain=(search,), reasoning=search.reasoning, strategy=self._rules.name, source="fallback", faults=(note,)
        )
        whole = replace(as_one_part(query.query, query.confidence), query_type=query.query_type)
        return _Chosen(whole, _joined(chosen.selection, selection))

    def _by_rules(self, chosen: _Chosen, tools: Sequence[ToolInfo], why: str) -> Selection:
        selection = self._rules.choose(chosen.query, tools)
        faults = (f"{why}; rules chose", *selection.faults)
        return _joined(chosen.selection, replace(selection, faults=faults))

    def _built(self, chosen: _Chosen, tools: Sequence[ToolInfo]) -> tuple[Built, list[str]]:
        """The steps, and what was changed or left out for that."""
        said: list[str] = []

        def bounded(choice: ToolChoice) -> ToolChoice:
            if 0 <= choice.confidence <= 1:
                return choice
            said.append(f"the confidence of {choice.tool[:60]!r} is {choice.confidence}, and was taken for 0.5")
            return replace(choice, confidence=UNSAID_CONFIDENCE)  # NaN, too: a selector may be anybody's

        built = self._builder.build(chosen.query, [bounded(each) for each in chosen.selection.chain], tools)
        return built, [*said, *built.left_out]

    def _plan(self, query: str, chosen: _Chosen, built: Built, notes: Sequence[str], started: float) -> ToolPlan:
        selection = chosen.selection
        said = [*selection.faults, *notes, *built.notes]
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
            usage=selection.usage,
            bad_words=selection.bad_words,
            model=self._asked,
        )
        if built.steps:
            limits = self._runtime.limits
            parallel = min(self._settings.parallel_limit, limits.max_concurrent_calls)
            took = self._runtime.estimate(plan.to_plan(), limits=limits.replace(max_concurrent_calls=parallel))
            plan = replace(plan, estimated_seconds=took.duration_seconds, estimated_cost=took.cost)
        return replace(plan, planning_seconds=time.perf_counter() - started)

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


def _joined(before: Selection, selection: Selection) -> Selection:
    """A selection with what was spent and said before it."""
    return replace(
        selection,
        usage=before.usage + selection.usage,
        faults=(*before.faults, *selection.faults),
        bad_words=(*before.bad_words, *selection.bad_words),
    )
