"""Answers a query by a plan: makes the plan, runs it, learns from it, and puts its results into words. Knows the order
of these, and where to stop."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Protocol

from callgate.agent.models.model import Delta, Message, Model, Request
from callgate.agent.planning.tool_plan import DecomposedQuery, ExecutionContext, ToolExecution, ToolPlan
from callgate.errors import ModelError
from callgate.runtime import Event
from callgate.tools.registry import ToolInfo

from .orchestrator import ToolOrchestrator
from .synthesis import MAX_CHARACTERS, Synthesis, join_results, synthesize

__all__ = ["PlannedAnswer", "PlannedAnswerer", "Planner"]


class Planner(Protocol):
    """Makes plans; `ToolPlanner` is one."""

    async def plan(
        self,
        query: str,
        decomposition: DecomposedQuery | None = None,
        tools: Sequence[ToolInfo] | None = None,
    ) -> ToolPlan:
        """Make a plan for a query.

        Args:
            query: in the user's words.
            decomposition: the parts of the query; None where the planner takes it apart.
            tools: the tools that the plan may call; None for all.
        """

    def learned(self, plan: ToolPlan, execution: ToolExecution) -> None:
        """Learn from the outcome of a plan."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PlannedAnswer:
    """The outcome of a query.

    Attributes:
        answer: the answer; where `ok` is False, the results so far, for a caller that continues without a plan.
        plan: None where no plan was made.
        execution: None where the plan did not run.
        synthesis: None where no answer was written.
        ok: whether `answer` is an answer.
        reason: why it is not; empty for an answer.
    """

    answer: str
    plan: ToolPlan | None = None
    execution: ToolExecution | None = None
    synthesis: Synthesis | None = None
    ok: bool = True
    reason: str = ""


class PlannedAnswerer:
    """Answers queries by plans.

    Args:
        planner: makes the plans, and learns from their outcomes.
        orchestrator: runs the plans, and reports outcomes to its memory.
        model: puts the results into words.
        instructions: the operator's instructions for answers, see `synthesize`.
        max_characters: of the results in the request for the answer.
    """

    def __init__(
        self,
        planner: Planner,
        orchestrator: ToolOrchestrator,
        model: Model,
        *,
        instructions: str = "",
        max_characters: int = MAX_CHARACTERS,
    ) -> None:
        self.planner = planner
        self.orchestrator = orchestrator
        self._model = model
        self._instructions = instructions
        self._max_characters = max_characters

    async def answer(
        self,
        query: str,
        *,
        decomposition: DecomposedQuery | None = None,
        tools: Sequence[ToolInfo] | None = None,
        history: Sequence[Message] = (),
        instructions: str = "",
        temperature: float | None = None,
        max_output_tokens: int | None = None,
        stop: Callable[[], str] | None = None,
        on_plan: Callable[[ToolPlan], None] | None = None,
        on_execution: Callable[[ToolExecution], None] | None = None,
        on_event: Callable[[Event], None] | None = None,
        on_request: Callable[[Request], None] | None = None,
        on_delta: Callable[[Delta], None] | None = None,
    ) -> PlannedAnswer:
        """Answer a query.

        Args:
            query: the question.
            decomposition: the caller's own parts of the query.
            tools: the only tools that the plan may call; None for all.
            history: the conversation before the query; tools can read it, and the model sees it with the results.
            instructions: for this answer, beside the answerer's own.
            temperature: of the answer; None for the provider's default.
            max_output_tokens: of the answer; None for the model's own limit.
            stop: called before the plan runs and before the answer is written; returns the reason to stop there, or an
                empty text.
            on_plan: receives the plan before it runs; its `id` is for `ToolOrchestrator.cancel`.
            on_execution: receives the results of the plan.
            on_event: called with each start and end of a step or a call.
            on_request: receives the request for the answer before it is sent.
            on_delta: receives pieces of the answer as they come.

        Returns:
            The answer; or the results so far, with `ok` False and a reason: the plan has no steps, or was cancelled; a
            critical step failed, and the settings stop the plan then; no step gave a result; `stop` gave a reason; the
            model failed or refused. After a partial failure, the answer uses the results that exist, and names what is
            missing.
        """
        try:
            plan = await self.planner.plan(query, decomposition, tools)
        except ModelError as error:
            return PlannedAnswer(answer="", ok=False, reason=f"no plan: {type(error).__name__}: {error}")
        if on_plan is not None:
            on_plan(plan)
        if not plan.steps:
            why = "no tool is needed" if plan.source == "model" else "no tool fits"
            return PlannedAnswer(answer="", plan=plan, ok=False, reason=f"the plan has no steps: {why}")
        if stop is not None and (reason := stop()):
            return PlannedAnswer(answer="", plan=plan, ok=False, reason=reason)
        names: Collection[str] | None = None if tools is None else [tool.name for tool in tools]
        context = ExecutionContext(plan_id=plan.id, history=tuple(history))
        execution = await self.orchestrator.execute(plan, context=context, on_event=on_event, tools=names)
        self.planner.learned(plan, execution)
        if on_execution is not None:
            on_execution(execution)
        reason = _no_answer(plan, execution, stops=self.orchestrator.settings.stop_on_critical)
        if reason := reason or ("" if stop is None else stop()):
            text = join_results(execution, plan=plan, max_characters=self._max_characters)
            return PlannedAnswer(answer=text, plan=plan, execution=execution, ok=False, reason=reason)
        synthesis = await synthesize(
            self._model, query, execution, plan=plan, history=history,
            instructions="\n\n".join(filter(None, (self._instructions, instructions))),
            max_characters=self._max_characters, on_request=on_request, on_delta=on_delta,
            temperature=temperature, max_output_tokens=max_output_tokens,
        )  # fmt: skip
        ok = synthesis.ended in ("answered", "cut")
        reason = "" if ok else f"{synthesis.ended}: {synthesis.reason}"
        return PlannedAnswer(
            answer=synthesis.answer, plan=plan, execution=execution, synthesis=synthesis, ok=ok, reason=reason
        )


def _no_answer(plan: ToolPlan, execution: ToolExecution, *, stops: bool) -> str:
    """Why the results allow no answer; empty where they do."""
    if execution.cancelled:
        return "the plan was cancelled"
    failed = {result.step_id: result.error for result in execution.results if not result.success}
    for step in plan.steps:
        if stops and step.critical and step.id in failed:
            return f"the critical step {step.id!r} failed: {failed[step.id]}"
    if len(failed) == len(execution.results):
        first = execution.results[0]
        return f"no step gave a result; {first.step_id!r}: {first.error}"
    return ""
