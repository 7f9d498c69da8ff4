"""The part of a `Runtime` that runs plans: run, stream, check, explain and estimate them."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterable, AsyncIterator, Callable, Collection, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from callgate.artifacts import Shelf
from callgate.lazily import imported
from callgate.limits import Limits

from .context_task import ContextTask
from .final_answer import AnswerType
from .gate import Gate
from .gate.events import Event
from .gate.watches import watched, watching
from .streaming import own_tasks

if TYPE_CHECKING:  # imported with the first plan: runtimes that only run programs need none of them
    from callgate.plan.estimate import PlanEstimate
    from callgate.plan.explain import ExplainFormat
    from callgate.plan.faults import PlanFault

    from .plans.result import PlanResult
    from .plans.run import ApprovePlan, PlanRun
    from .plans.writing import PlanWriting
    from .run_redaction import RunRedaction

__all__ = ["ForPlans"]


class ForPlans:
    """The methods of a `Runtime` for plans."""

    gate: Gate
    limits: Limits
    redactor: Callable[..., Any]
    _shelf: Shelf
    _approve_plan: ApprovePlan | None
    _contexts: ContextTask

    async def execute_tool_plan(
        self,
        plan: Mapping[str, Any] | str,
        *,
        tools: Collection[str] | None = None,
        limits: Limits | None = None,
        on_event: Callable[[Event], None] | None = None,
        approve_plan: ApprovePlan | None = None,
        final_answer: Any = None,
    ) -> PlanResult:
        """Run a declarative plan on the host: every step begins as soon as its inputs are known. No part runs as code.

        Args:
            plan: ``{"steps": [...], "output_steps": [...]}``, or its JSON as text; see ``docs/plans.md``.
            tools: names of the tools this plan may call; ``None`` for all that allow callers of kind ``plan``, empty
                for none.
            limits: instead of the runtime's own. Of the kernel limits only `memory_bytes` holds here: it bounds the
                results that the host holds.
            on_event: receives the starts and ends of steps and calls.
            approve_plan: asked before the plan runs, instead of the runtime's own.
            final_answer: the type of the plan's `answer`: see `Runtime.execute_code`.

        Returns:
            The result of the plan, refusals and failures included: see `PlanResult`.

        Raises:
            ConfigurationError: `tools` names one that does not exist.
        """
        self._contexts.must_be_open()
        await imported("callgate.runtime.plans.run")
        run = self._plan(tools, limits, on_event, approve_plan, final_answer)
        return replace(await watched(run.gate, run.execute(plan), "plan", plan), redactor=self.redactor)

    async def stream_plan(
        self,
        chunks: AsyncIterable[str] | Iterable[str],
        *,
        tools: Collection[str] | None = None,
        limits: Limits | None = None,
        on_event: Callable[[Event], None] | None = None,
        approve_plan: ApprovePlan | None = None,
    ) -> PlanResult:
        """Run a plan while a model writes it: steps of `read_only` tools begin as soon as they are complete.

        The complete plan is read again and decides; calls that were made early are not repeated. If the plan has
        faults, the result's `calls` has the early calls.

        Args:
            chunks: the JSON text of the plan, in pieces of any size.
            tools: as for `execute_tool_plan`, like the other arguments. `wall_seconds` counts from the end of the text.
            approve_plan: with one, no step begins before the plan is complete and allowed.

        Raises:
            ConfigurationError: `tools` names one that does not exist, or a chunk is not text.
            Exception: from `chunks`; the calls under way are cancelled.
        """
        self._contexts.must_be_open()
        await imported("callgate.runtime.plans.run")
        run = self._plan(tools, limits, on_event, approve_plan)
        return replace(await watched(run.gate, run.execute_stream(chunks), "plan", None), redactor=self.redactor)

    @contextlib.asynccontextmanager
    async def _writing_plan(self, *options: Any) -> AsyncIterator[PlanWriting]:
        """Begin a plan that is not written yet; leaving the block ends all that it has begun. Takes the arguments of
        `_plan`."""
        self._contexts.must_be_open()
        await imported("callgate.runtime.plans.run")
        from .plans.writing import PlanWriting

        run = self._plan(*options)
        with watching(run.gate, "plan", None) as ended:
            async with own_tasks() as tasks:
                yield PlanWriting(tasks, run, ended)

    def check_plan(self, plan: Mapping[str, Any] | str, *, tools: Collection[str] | None = None) -> list[PlanFault]:
        """Find faults in a plan before it runs, errors first. Needs no open runtime."""
        return self._plan(tools).read(plan).faults

    def explain_plan(
        self,
        plan: Mapping[str, Any] | str,
        form: ExplainFormat = "text",
        *,
        tools: Collection[str] | None = None,
        redaction: RunRedaction | None = None,
    ) -> str:
        """Explain a plan without running it: its waves, its steps, and which step waits for which.

        Args:
            plan: as for `execute_tool_plan`.
            form: ``"text"``, ``"json"`` or ``"mermaid"`` (a flowchart).
            tools: as for `execute_tool_plan`.
            redaction: as for `PlanApprovalRequest.explain`.

        Returns:
            The plan in that form; for a plan with errors, one error a line.
        """
        from .plans.run import explanation

        reading = self._plan(tools).read(plan)
        if reading.plan is None:
            return "\n".join(map(str, reading.errors))
        return explanation(reading.plan, form, redaction)

    def estimate(
        self, plan: Mapping[str, Any] | str, *, tools: Collection[str] | None = None, limits: Limits | None = None
    ) -> PlanEstimate:
        """Estimate time, cost and odds of a plan from the statistics of its tools.

        Args:
            plan: as for `execute_tool_plan`, like the other arguments.

        Raises:
            ConfigurationError: the plan has faults, or `tools` names one that does not exist.
        """
        return self._plan(tools, limits).estimate(plan)

    def _plan(
        self,
        tools: Collection[str] | None,
        limits: Limits | None = None,
        on_event: Callable[[Event], None] | None = None,
        approve_plan: ApprovePlan | None = None,
        final_answer: Any = None,
    ) -> PlanRun:
        from .plans.run import PlanRun

        approve_plan = self._approve_plan if approve_plan is None else approve_plan
        limits = self.limits if limits is None else limits
        answer = None if final_answer is None else AnswerType.of(final_answer)
        return PlanRun(self.gate, limits, tools, on_event, approve_plan, self._shelf, answer)
