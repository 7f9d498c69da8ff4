"""`ToolPlanner`: from a query and the tools to a plan. Puts decomposition, routing, cache, selection and building
together, within a time limit. Runs no plan.

1. Routing comes first: unreliable tools are not offered; an unreliable decomposition gets one search with the whole
   query.
2. Then the cache; then the model, which has `planning_seconds` for all of its answers. After that its request is
   cancelled, and rules choose (`fallback_plan`). Rules also choose where the endpoint gives no answer.
3. The builder leaves out what the plan engine would refuse.
4. There is always a plan. A plan without steps says in its notes why: no tool is needed, or none is certain to fit.
"""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import anyio

from callgate.agent.models.model import NO_USAGE, Model, ModelProvider, Usage
from callgate.agent.models.named import model_named
from callgate.errors import ConfigurationError, ModelError
from callgate.runtime import Runtime
from callgate.tools.faults import printable
from callgate.tools.registry import ToolInfo

from .builder import Built, build_steps
from .confidence import SIMPLE_PLAN, offered_tools
from .decomposition import Decomposer
from .fallback_plan import RuleSelector
from .plan_cache import PlanCache
from .reading import DEFAULT_CONFIDENCE
from .selection import Memory, Selection, Selector
from .selector import ModelSelector
from .settings import PlannerSettings
from .tool_plan import BadWords, DecomposedQuery, ToolExecution, ToolPlan, as_one_part, checked_decomposition

__all__ = ["ToolPlanner"]

logger = logging.getLogger("callgate")

MAX_QUERY_CHARACTERS = 100_000
"""A longer query is refused: no prompt shows more than a part of it."""
_MAX_NOTES = 60
_MAX_NOTE = 500


@dataclass(slots=True)
class _Draft:
    """A plan in the making.

    Attributes:
        query: in its parts.
        selection: the tools chosen so far.
        usage: tokens of all answers.
        notes: faults of all answers, and what was decided about them.
        bad_words: of all answers.
        timed_out: whether the model was too slow.
    """

    query: DecomposedQuery
    selection: Selection = field(default_factory=lambda: Selection(chain=(), source="fallback"))
    usage: Usage = NO_USAGE
    notes: list[str] = field(default_factory=list)
    bad_words: list[BadWords] = field(default_factory=list)
    timed_out: bool = False

    def take(self, selection: Selection) -> None:
        """Use a selection instead of the one before."""
        self.selection = selection
        self.usage += selection.usage
        self.notes += selection.faults
        self.bad_words += selection.bad_words


class ToolPlanner:
    """Plans which tools are called for a query, and in which order.

    May plan several queries at the same time.

    Args:
        runtime: the runtime with the tools.
        model: chooses the tools, unless `selector` or the `planner_model` of the settings does.
        selector: chooses instead of a `ModelSelector`.
        decomposer: takes a query apart; without one, a query stays whole.
        memory: its advice is shown to the model; a `selector` has its own. The orchestrator reports outcomes: give it
            the same memory.
        settings: times and thresholds.

    Raises:
        ConfigurationError: nothing chooses, or the `planner_model` cannot be opened: see `model_named`.
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
        self._rules = RuleSelector(runtime)
        self.cache = PlanCache(self._settings.plan_cache_entries, self._settings.plan_cache_seconds)
        """Selections for earlier queries; counts hits and misses."""

    async def aclose(self) -> None:
        """Close the model that `settings.planner_model` names; a model that was given stays open. May be repeated."""
        if self._own is not None:
            await self._own.aclose()

    async def plan(
        self,
        query: str,
        decomposition: DecomposedQuery | None = None,
        tools: Iterable[str | ToolInfo] | None = None,
    ) -> ToolPlan:
        """Make a plan for a query.

        Args:
            query: in the user's words.
            decomposition: the caller's own parts of the query.
            tools: the tools that the plan may call; None for all that plans may call.

        Returns:
            The plan. Where no tool is needed or none is certain to fit, it has no steps, and a note says which.

        Raises:
            ConfigurationError: the query is empty or too long, the decomposition does not fit (see
                `checked_decomposition`), or `tools` names a tool that does not exist.
        """
        started = time.perf_counter()
        given: Any = query
        if not isinstance(given, str) or not query.strip() or len(query) > MAX_QUERY_CHARACTERS:
            raise ConfigurationError(f"a query is text of 1 to {MAX_QUERY_CHARACTERS} characters")
        query = _sendable(query)
        if decomposition is not None:
            decomposition = _completed(checked_decomposition(decomposition), query)
        offered, routed = offered_tools(decomposition, self._tools(tools), self._settings)
        draft = _Draft(decomposition or as_one_part(query), notes=[routed] if routed else [])
        key = PlanCache.key(draft.query.query, decomposition, offered, self._selector.name)
        if kept := self.cache.find(key):
            note = "the tools were chosen for an equal query before"
            draft.query = kept[0]
            draft.take(replace(kept[1], source="cache", usage=NO_USAGE, faults=(note,)))
        elif offered:
            await self._choose(draft, decomposition is None, offered)
        else:
            draft.notes.append("there is no tool that a plan may call")
        built = self._build(draft, offered)
        if draft.selection.chain and not built.steps and draft.selection.source != "fallback":
            draft.notes += built.left_out
            self._by_rules(draft, offered, "nothing of the selection can be run")
            built = self._build(draft, offered)
        plan = self._plan(query, draft, built, started)
        if self._may_be_kept(draft.selection) and not built.left_out and not draft.bad_words:
            self.cache.keep(key, draft.query, draft.selection)
        if draft.selection.source != "fallback":
            self.cache.note_plan(plan.id, key)
        self._log(plan)
        return plan

    def learned(self, plan: ToolPlan, execution: ToolExecution) -> None:
        """Learn from the outcome of a plan: a selection that failed or needed a fallback is not used again.

        Args:
            plan: a plan of this planner.
            execution: its outcome. A cancelled plan teaches nothing.
        """
        wanted = {step.id: step.tool for step in plan.steps}
        stood_in = any(result.success and result.tool != wanted.get(result.step_id) for result in execution.results)
        if (stood_in or not execution.success) and not execution.cancelled and self.cache.failed(plan.id):
            what = "needed a fallback" if execution.success else "failed"
            logger.info("plan %s %s: its selection of tools is not used again", plan.id, what)

    def _tools(self, wanted: Iterable[str | ToolInfo] | None) -> tuple[ToolInfo, ...]:
        """The tools that the plan may call."""
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

    async def _choose(self, draft: _Draft, is_whole: bool, tools: Sequence[ToolInfo]) -> None:
        """Ask for the parts and the tools within the time limit; choose by rules where there is no answer."""
        try:
            with anyio.move_on_after(self._settings.planning_seconds) as time_limit:
                if is_whole and self._decomposer is not None:
                    parts = await self._decomposer.decompose(draft.query.query)
                    draft.query, draft.usage = parts.reading, parts.usage
                    draft.notes += parts.faults
                    draft.bad_words += parts.bad_words
                if not self._simplify(draft, tools):
                    draft.take(await self._selector.select(draft.query, tools))
                return
            draft.timed_out = time_limit.cancelled_caught
            why = f"planning took longer than {self._settings.planning_seconds:g} s"
        except ModelError as error:
            why = f"the model gave no answer: {printable(str(error))[:300]}"
        self._by_rules(draft, tools, why)

    def _may_be_kept(self, selection: Selection) -> bool:
        """Whether a selection is the selector's own, and without faults. A selector that hands out the strategies of
        others (an experiment) has to be asked about every query."""
        own = selection.strategy == self._selector.name and selection.source == "model"
        return own and bool(selection.chain) and not selection.faults

    def _simplify(self, draft: _Draft, tools: Sequence[ToolInfo]) -> bool:
        """Choose one search with the whole query, where the parts are unreliable and there is such a search."""
        query = draft.query
        note = SIMPLE_PLAN.decide(query.confidence, self._settings)
        search = self._rules.one_search(query.query, tools) if note else None
        if note is None or search is None:
            return False
        draft.query = replace(as_one_part(query.query, query.confidence), query_type=query.query_type)
        draft.take(
            Selection(
                chain=(search,), reasoning=search.reasoning, strategy=self._rules.name, source="fallback",
                faults=(note,),
            )
        )  # fmt: skip
        return True

    def _by_rules(self, draft: _Draft, tools: Sequence[ToolInfo], why: str) -> None:
        draft.notes.append(f"{why}; rules chose")
        draft.take(self._rules.choose(draft.query, tools))

    def _build(self, draft: _Draft, tools: Sequence[ToolInfo]) -> Built:
        chain = [  # a selector may be anybody's, and a confidence that is not a number is not JSON
            choice if 0 <= choice.confidence <= 1 else replace(choice, confidence=DEFAULT_CONFIDENCE)
            for choice in draft.selection.chain
        ]
        return build_steps(self._runtime, self._settings, draft.query, chain, tools)

    def _plan(self, query: str, draft: _Draft, built: Built, started: float) -> ToolPlan:
        selection = draft.selection
        notes = [*draft.notes, *built.left_out, *built.notes]
        if not built.steps and not notes:
            notes.append("no tool is needed" if selection.source != "fallback" else "no tool is certain to fit")
        plan = ToolPlan(
            id=f"plan-{secrets.token_hex(6)}",
            query=query,
            steps=built.steps,
            stages=built.stages,
            reasoning=selection.reasoning,
            confidence=draft.query.confidence * min((step.confidence for step in built.steps), default=1.0),
            source=selection.source,
            strategy=selection.strategy,
            notes=tuple(note[:_MAX_NOTE] for note in dict.fromkeys(notes))[:_MAX_NOTES],
            timed_out=draft.timed_out,
            usage=draft.usage,
            bad_words=tuple(draft.bad_words),
            model=self._asked,
        )
        if built.steps:
            limits = self._runtime.limits
            parallel = min(self._settings.parallel_limit, limits.max_concurrent_calls)
            estimate = self._runtime.estimate(plan.to_plan(), limits=limits.replace(max_concurrent_calls=parallel))
            plan = replace(plan, estimated_seconds=estimate.duration_seconds, estimated_cost=estimate.cost)
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


def _sendable(text: str) -> str:
    """The text with ``?`` for half a character, which no plan and no request can carry."""
    return text.encode("utf-8", "replace").decode()


def _completed(given: DecomposedQuery, query: str) -> DecomposedQuery:
    """A caller's own decomposition in sendable text; of `query` where it names no query."""
    parts = tuple(replace(part, text=_sendable(part.text)) for part in given.sub_queries)
    return replace(given, query=_sendable(given.query) if given.query.strip() else query, sub_queries=parts)
