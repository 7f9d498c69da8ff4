"""`ToolOrchestrator`: runs tool plans through the runtime, and cancels them. Nothing else in planning runs tools.

1. `Runtime.execute_tool_plan` makes every call: its gate validates, asks for approval, bounds and records. Steps begin
   when their own inputs are there; at most `parallel_limit` calls run at a time, further calls wait.
2. Where neither step nor tool says it, the settings do: timeout, retries and their backoff (for tools that may be
   repeated), whether a critical failure stops the plan, how long the gate keeps results of read-only tools.
3. `cancel` ends a plan at once: its calls are cancelled, and have ended when `cancel` returns. The thread of a sync
   tool cannot be killed; its result is dropped.
"""

from __future__ import annotations

import inspect
import logging
import time
from collections import ChainMap
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

import anyio
import anyio.lowlevel

from callgate.agent.planning.builder import timeout_of
from callgate.agent.planning.selection import Memory
from callgate.agent.planning.settings import PlannerSettings
from callgate.agent.planning.tool_plan import ExecutionContext, ToolExecution, ToolPlan, ToolResult, ToolStep
from callgate.errors import ConfigurationError
from callgate.limits import Limits
from callgate.runtime import Event, PlanResult, Runtime, StepEnded, StepStarted
from callgate.runtime.gate.cache import keeping_reads
from callgate.tools import Tool

from .context import Here, Unresolvable, is_part_of, resolved, running_in
from .results import missing_result, outcome_of, tool_result

__all__ = ["ToolOrchestrator"]

logger = logging.getLogger("callgate")


class ToolOrchestrator:
    """Runs plans, also several at the same time; under asyncio and trio.

    Args:
        runtime: an open runtime with the tools.
        memory: receives the outcome of each plan that was not cancelled.
        settings: timeouts, retries, the number of calls at a time, how long results are kept.
        limits: of a plan; None for the runtime's own. `wall_seconds` bounds the whole plan, retries included: a
            repeatable tool that hangs may take its timeout four times, two minutes at the defaults.
    """

    def __init__(
        self,
        runtime: Runtime,
        *,
        memory: Memory | None = None,
        settings: PlannerSettings | None = None,
        limits: Limits | None = None,
    ) -> None:
        self.settings = PlannerSettings() if settings is None else settings
        self._runtime = runtime
        self._memory = memory
        self._limits = limits
        self._running: dict[str, list[_Run]] = {}

    @property
    def running(self) -> tuple[str, ...]:
        """Ids of the running plans."""
        return tuple(self._running)

    async def execute(
        self,
        plan: ToolPlan,
        *,
        context: ExecutionContext | None = None,
        on_event: Callable[[Event], None] | None = None,
        tools: Collection[str] | None = None,
    ) -> ToolExecution:
        """Run a plan.

        Args:
            plan: the plan. A failed step stops only the steps that need it; a critical step stops all. A plan without
                steps succeeds where a model found that no tool is needed.
            context: history, metadata and earlier results that tools get from `execution_context`.
            on_event: called with each start and end of a step or a call.
            tools: names of the tools that the plan may call, fallbacks included; None for all that plans may call.

        Returns:
            A result for each step, also where the plan is refused or cancelled.

        Raises:
            ConfigurationError: the runtime is not open, `plan` is not a `ToolPlan`, `tools` names a tool that does not
                exist, or `on_event` is async.
        """
        if inspect.iscoroutinefunction(on_event):
            raise ConfigurationError("on_event is called at once and not awaited: give it a plain function, not async")
        if not isinstance(plan, ToolPlan):
            raise ConfigurationError(
                f"plan is a ToolPlan, as ToolPlanner.plan makes it, not {type(plan).__name__}; "
                "Runtime.execute_tool_plan runs plans in the plan language"
            )
        execution = await self._execute(_Run(plan, on_event), context or ExecutionContext(plan_id=plan.id), tools)
        if self._memory is not None and not execution.cancelled:
            try:
                self._memory.note(outcome_of(plan, execution, self._runtime.registry))
            except Exception:  # a memory that fails loses no result
                logger.exception("the memory failed to take note of plan %s", plan.id)
        return execution

    async def execute_step(self, step: ToolStep, context: ExecutionContext) -> ToolResult:
        """Run one step as part of the context's plan.

        Args:
            step: its references and dependencies name results in `context.previous_results`.
            context: the plan, and its results so far. It is not changed: adding the result is up to the caller.

        Raises:
            ConfigurationError: the runtime is not open, or a result of the context is not JSON.
        """
        known = {id: result for id, result in context.previous_results.items() if result.success}
        missing = [each for each in step.dependencies if each not in known]
        if missing:
            return missing_result(step, f"Skipped because dependency {missing[0]!r} has no result")
        try:
            arguments = resolved(step, known, max_bytes=self._allowed.max_message_bytes)
        except Unresolvable as error:
            return missing_result(step, str(error))
        alone = replace(
            step, parameters={name: {"$literal": value} for name, value in arguments.items()}, dependencies=(),
            after=(), execution_mode="parallel",
        )  # fmt: skip
        plan = ToolPlan(id=context.plan_id, query=step.sub_query, steps=(alone,), stages=((step.id,),))
        return (await self._execute(_Run(plan), context, None)).results[0]

    async def cancel(self, plan_id: str) -> bool:
        """Cancel every run of a plan, and wait until it has ended. May be called from any task of the event loop. A
        tool that cancels its own plan does not wait for itself.

        Args:
            plan_id: the plan's id.

        Returns:
            Whether a run was cancelled. False where no such plan runs, or where it ended by itself first.
        """
        runs = list(self._running.get(plan_id, ()))
        for run in runs:
            run.scope.cancel()
        others = [run for run in runs if run.here is None or not is_part_of(run.here)]
        for run in others:
            await run.over.wait()
        await anyio.lowlevel.checkpoint()
        return len(others) < len(runs) or any(run.cancelled for run in others)

    @property
    def _allowed(self) -> Limits:
        return self._runtime.limits if self._limits is None else self._limits

    async def _execute(self, run: _Run, context: ExecutionContext, tools: Collection[str] | None) -> ToolExecution:
        started = time.perf_counter()
        self._running.setdefault(run.plan.id, []).append(run)
        try:
            with run.scope:
                await anyio.lowlevel.checkpoint()
                if run.plan.steps:
                    await self._perform(run, context, tools)
            run.cancelled = run.scope.cancelled_caught
        finally:
            runs = self._running[run.plan.id]
            runs.remove(run)
            if not runs:
                del self._running[run.plan.id]
            run.over.set()
        results = tuple(self._result(run, step) for step in run.plan.steps)
        failed = tuple(each.step_id for each in results if not each.success)
        return ToolExecution(
            plan_id=run.plan.id,
            results=results,
            total_seconds=time.perf_counter() - started,
            success=not failed and not run.cancelled and (bool(results) or run.plan.source == "model"),
            failed_steps=failed,
            cancelled=run.cancelled,
            plan_result=run.plan_result,
        )

    async def _perform(self, run: _Run, context: ExecutionContext, tools: Collection[str] | None) -> None:
        results = MappingProxyType(ChainMap(run.results, dict(context.previous_results)))
        here = replace(context, plan_id=run.plan.id, previous_results=results, started=time.time())
        limits, settings = self._allowed, self.settings
        written = self._written(run.plan)
        parallel = min(settings.parallel_limit, limits.max_concurrent_calls)
        seconds = settings.result_cache_seconds if settings.result_cache_enabled else None
        with running_in(here) as run.here, keeping_reads(seconds):
            result = run.plan_result = await self._runtime.execute_tool_plan(
                written, tools=tools, limits=limits.replace(max_concurrent_calls=parallel), on_event=run.note
            )
        self._note_timeouts(run.plan, written, result)

    def _written(self, plan: ToolPlan) -> dict[str, Any]:
        """The plan in the plan language, with retries and timeouts of the settings."""
        retry, stop = self.settings.retry, self.settings.stop_on_critical
        written = plan.to_plan()
        for each, step in zip(written["steps"], plan.steps, strict=True):
            tool = self._tool(step.tool)
            if not stop:
                each.pop("critical", None)
            if tool is None:  # the plan engine reports it
                continue
            if tool.repeatable and tool.retry is None:
                each["retry"] = {
                    "attempts": retry.attempts, "backoff_seconds": retry.backoff_seconds, "factor": retry.factor
                }  # fmt: skip
            seconds = timeout_of(self._runtime.registry, tool.name, self.settings, by_kind=False)
            if step.timeout_seconds is None and seconds is not None:
                each["timeout_seconds"] = seconds
        return written

    def _note_timeouts(self, plan: ToolPlan, written: Mapping[str, Any], result: PlanResult) -> None:
        """Log timeouts for analysis; and note those of steps in the tools' statistics.

        The gate does not note an attempt that exceeds a call's own timeout, because that says nothing about the tool. A
        planner's timeouts go by kind and history; without this note, a tool that always hangs never counts as failing.
        """
        timeouts = {step["id"]: step.get("timeout_seconds") for step in written["steps"]}
        steps = {call: step.id for step in result.steps for call in step.calls}
        for call in result.calls:
            step = steps.get(call.id, "?")
            if (seconds := timeouts.get(step)) is not None:
                for _ in range(call.timeouts):
                    self._runtime.registry.statistics.note(call.tool, seconds, "timed_out")
            if call.status not in ("timed_out", "unknown_outcome"):
                continue
            logger.warning(
                "plan %s, step %s: tool %r timed out, after %d attempts and %.3f s: %s",
                plan.id, step, call.tool, call.attempts, call.duration_seconds, call.error,
            )  # fmt: skip

    def _tool(self, name: str) -> Tool | None:
        registry = self._runtime.registry
        known = name if name in registry else registry.resolve(name)
        return registry.get(known) if known is not None and known in registry else None

    def _result(self, run: _Run, step: ToolStep) -> ToolResult:
        """The result of a step; for a step that never ended, a failure with the reason."""
        if step.id in run.results:
            return run.results[step.id]
        if not run.cancelled:
            return missing_result(step, _refusal(run.plan_result, step))
        if step.id not in run.begun:
            return missing_result(step, "the plan was cancelled before this step began")
        tool = self._tool(step.tool)
        unknown = "" if tool is not None and tool.repeatable else "; it may have done its work all the same"
        return missing_result(step, f"the plan was cancelled while this step was running{unknown}")


@dataclass(eq=False, slots=True)
class _Run:
    """One run of a plan.

    Attributes:
        plan: the plan.
        on_event: called with each event, after this run has noted it.
        results: of the steps that have ended.
        begun: ids of the steps that made a call.
        over: set when the run has ended.
        here: the context of its calls; None before the first.
    """

    plan: ToolPlan
    on_event: Callable[[Event], None] | None = None
    results: dict[str, ToolResult] = field(default_factory=dict)
    begun: set[str] = field(default_factory=set)
    plan_result: PlanResult | None = None
    cancelled: bool = False
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    over: anyio.Event = field(default_factory=anyio.Event)
    here: Here | None = None
    planned: dict[str, ToolStep] = field(init=False)

    def __post_init__(self) -> None:
        self.planned = {step.id: step for step in self.plan.steps}

    def note(self, event: Event) -> None:
        """Note an event, and pass it on."""
        if isinstance(event, StepStarted):
            self.begun.add(event.id)
        elif isinstance(event, StepEnded):
            self.results[event.step.id] = tool_result(event.step, self.planned.get(event.step.id))
        if self.on_event is not None:
            self.on_event(event)


def _refusal(result: PlanResult | None, step: ToolStep) -> str:
    """Why a plan did not run: a fault of this step, else the first fault."""
    faults = [] if result is None else [each for each in result.faults if each.severity == "error"]
    own = [each for each in faults if each.step == step.id]
    if own:
        return str(own[0])
    return f"the plan was not run: {faults[0]}" if faults else "the plan was not run"
