"""Takes one plan from its text to its result: reads it, asks for approval, runs it, and builds the result.

A person, or a function, allows, changes or denies a plan. An error while asking counts as a no, as for a single call.
No tool is called before the answer.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncIterable, Awaitable, Callable, Collection, Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import anyio
import anyio.lowlevel
import anyio.to_thread

from callgate.artifacts import Shelf, keeper_of_call
from callgate.errors import ConfigurationError, LimitReached
from callgate.limits import Limits
from callgate.plan.compile import CompiledPlan, Offering, Reading, read_plan
from callgate.plan.estimate import EstimatedStep, PlanEstimate, estimate_plan
from callgate.plan.explain import ExplainFormat, explain, explained
from callgate.plan.faults import PlanFault
from callgate.plan.model import plan_json
from callgate.plan.sizes import json_size, memory_of
from callgate.runtime.context_task import event_loop
from callgate.runtime.final_answer import AnswerType, GivenAnswer
from callgate.runtime.gate import Gate
from callgate.runtime.gate.approval import Allow, Decision, Deny, answer_of
from callgate.runtime.gate.events import Event
from callgate.runtime.result import RunError, RunUsage
from callgate.runtime.run import host_error
from callgate.runtime.run_redaction import RunRedaction
from callgate.runtime.streaming import each_chunk, own_tasks
from callgate.tools.decoding import decoding, own_json
from callgate.tools.encoding import encoding
from callgate.tools.turns import at_once
from callgate_guest.wire import FINAL_ANSWER

from .drive import PlanDrive
from .early import EarlyCalls
from .result import PlanResult
from .writing import PlanWriting

__all__ = ["ApprovePlan", "PlanApprovalRequest", "PlanRun", "explanation"]

T = TypeVar("T")

_MANY = 500
"""Steps; the result of a longer plan is built in a thread."""
_LARGE = 16 * 1024
"""Characters; a longer plan is read in a thread, so that the event loop runs on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanApprovalRequest:
    """May this plan run?

    The answer is `Allow()` or True, ``Allow(plan)`` with another plan (validated like the first one, and not shown
    again), or `Deny(reason)` or False. Each call of a tool with `requires_approval` still needs its own approval.
    """

    plan: dict[str, Any]
    """The plan as callgate read it, as JSON values. It is a copy: change it and pass it to `Allow` if you like."""
    warnings: tuple[PlanFault, ...]
    """Warnings about the plan. They do not keep it from running."""
    _compiled: CompiledPlan = field(repr=False)

    def explain(self, form: ExplainFormat = "text", *, redaction: RunRedaction | None = None) -> str:
        """What the plan would do: its waves, its steps, and which step waits for which.

        Args:
            form: ``"text"``, ``"json"`` or ``"mermaid"`` (a flowchart).
            redaction: redacts the arguments that their tool's schema or their own key calls secrets.
        """
        return explanation(self._compiled, form, redaction)


def explanation(plan: CompiledPlan, form: ExplainFormat, redaction: RunRedaction | None) -> str:
    """What a plan would do: see `PlanApprovalRequest.explain`."""
    steps = explained(plan) if redaction is None else explained(plan, redaction.step_for_approval)
    return explain(steps, form, goal=plan.model.goal, outputs=plan.model.output_steps)


ApprovePlan = Callable[[PlanApprovalRequest], Awaitable[Decision] | Decision]


def _request_for(plan: CompiledPlan, faults: list[PlanFault]) -> PlanApprovalRequest:
    """Build the approval request for a plan that was read without faults."""
    copy = at_once(decoding(at_once(encoding(plan_json(plan.model)))))
    return PlanApprovalRequest(plan=copy, warnings=tuple(faults), _compiled=plan)


class PlanRun:
    """One plan to read and run.

    Args:
        gate: the gate of the runtime.
        limits: of the run.
        tools: names of the tools that the plan may call: see `Runtime.execute_tool_plan`.
        on_event: receives the starts and ends of steps and calls.
        approve_plan: asked before the plan runs.
        shelf: of the caller: see `Gate.open`.
        answer: what the plan's `answer` must be; None: the plan may have none.

    Raises:
        ConfigurationError: an argument has a wrong type, or `tools` names one that does not exist.
    """

    def __init__(
        self,
        gate: Gate,
        limits: Limits,
        tools: Collection[str] | None = None,
        on_event: Callable[[Event], None] | None = None,
        approve_plan: ApprovePlan | None = None,
        shelf: Shelf | None = None,
        answer: AnswerType | None = None,
    ) -> None:
        if approve_plan is not None and not callable(approve_plan):
            raise ConfigurationError(f"approve_plan is a function of a PlanApprovalRequest, not {approve_plan!r}")
        self.gate = gate.open(caller="plan", limits=limits, allowed=tools, on_event=on_event, shelf=shelf)
        self.limits = limits
        self.on_event = on_event
        self.approve_plan = approve_plan
        self.given = None if answer is None else GivenAnswer(answer)
        offer = self.gate.offer
        tools_by_name = offer.by_name
        if self.given is not None:
            self.gate.add(self.given.tool)
            tools_by_name = {**tools_by_name, FINAL_ANSWER: self.given.tool}
        self.offering = Offering(
            tools_by_name, lambda name: offer.refusal(name, suggest=True).message, canonical=offer.canonical
        )

    def estimate(self, given: Any) -> PlanEstimate:
        """Estimate time and cost of a plan. Raises `ConfigurationError`."""
        reading = self.read(given)
        if reading.plan is None:
            raise ConfigurationError(f"a plan with faults cannot be estimated: {reading.errors[0]}")
        steps = [
            EstimatedStep(step.id, step.tool.name, (*step.needs, *step.after), step.known_items)
            for step in reading.plan.steps
        ]
        offer, most = self.gate.offer, self.limits.max_concurrent_calls
        return estimate_plan(steps, offer.by_name, offer.registry.statistics, max_concurrent_calls=most)

    def read(self, given: Any) -> Reading:
        """Read and check a plan. Handles in it are those of its caller."""
        before = keeper_of_call.set(self.gate.products)
        try:
            return read_plan(given, self.offering, self.limits)
        finally:
            keeper_of_call.reset(before)

    async def read_aside(self, given: Any) -> Reading:
        """Read and check a plan, a large one in a thread."""
        size = len(given) if isinstance(given, str) else json_size(given, _LARGE)
        reading = await _aside(partial(self.read, given), size >= _LARGE)
        await anyio.lowlevel.checkpoint()  # the first step of a large plan may take a turn of its own
        return reading

    async def execute(self, given: Any) -> PlanResult:
        """Read a plan and run it."""
        started = time.perf_counter()
        return await self.run_if_allowed(await self.read_aside(given), started)

    async def run_if_allowed(self, reading: Reading, started: float, early: EarlyCalls | None = None) -> PlanResult:
        """Run the plan that was read. If `approve_plan` is set, ask first and follow the answer."""
        if reading.plan is None:
            return self.refused(reading, started)
        if self.approve_plan is None:
            return await self.run(reading, reading.plan, started, early)
        request = await _aside(partial(_request_for, reading.plan, reading.faults), _is_large(reading.plan))
        answer = await answer_of(self.approve_plan, request, "the plan")
        if self.gate.watches is not None:
            changes = isinstance(answer, Allow) and answer.arguments is not None
            self.gate.watches.approved(isinstance(answer, Allow), answer.by, changes)
        match answer:
            case Deny(reason):
                message = f"The plan was not run: it was denied{f': {reason}' if reason else ''}"
                error = RunError("PlanDenied", message)
                return PlanResult(
                    ok=False, error=error, faults=reading.faults, goal=reading.plan.model.goal,
                    usage=self._usage(started), limits=self.limits,
                )  # fmt: skip
            case Allow(None):
                return await self.run(reading, reading.plan, started)
            case Allow(changed):
                reading = await self.read_aside(changed)
        if reading.plan is None:
            return replace(self.refused(reading, started), changed=True)
        return replace(await self.run(reading, reading.plan, started), changed=True)

    async def execute_stream(self, chunks: AsyncIterable[str] | Iterable[str]) -> PlanResult:
        """Read a plan while a model writes it, begin its reads, and run it when it is complete. With `approve_plan`,
        nothing begins before the answer."""
        text: list[str] = []
        size = 0
        async with own_tasks() as tasks:
            writing = PlanWriting(tasks, self)
            async with contextlib.aclosing(each_chunk(chunks, "plan")) as pieces:
                async for chunk in pieces:
                    text.append(chunk)
                    size += len(chunk)
                    if size > self.limits.max_message_bytes:
                        break  # the whole plan is refused
                    writing.receive(chunk)
            return await writing.finish("".join(text))

    def refused(self, reading: Reading, started: float) -> PlanResult:
        """The result of a plan that has faults."""
        errors = reading.errors
        more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
        message = f"{errors[0]}{more}"
        return PlanResult(
            ok=False,
            error=RunError("PlanRefused", message),
            faults=reading.faults,
            calls=self.gate.records,
            artifacts=self.gate.products.artifacts,
            goal=reading.model.goal if reading.model else None,
            usage=self._usage(started),
            limits=self.limits,
        )

    async def run(
        self, reading: Reading, plan: CompiledPlan, started: float, early: EarlyCalls | None = None
    ) -> PlanResult:
        """Run a plan that was read."""
        drive = PlanDrive(self, plan, early)
        await drive.run()
        texts = (step.result_json or "" for index in plan.outputs if (step := drive.results[index]) is not None)
        large = _is_large(plan) or sum(map(len, texts)) > _LARGE
        result = await _aside(partial(self._result, reading, plan, drive, started), large)
        if large:
            await drive.free()
        return result

    def _result(self, reading: Reading, plan: CompiledPlan, drive: PlanDrive, started: float) -> PlanResult:
        """Build the result of a run."""
        steps = [step for step in drive.results if step is not None]
        bad = [step for step in steps if step.status in ("failed", "unknown_outcome")]
        error = None
        if drive.failure is not None:
            error = host_error(drive.failure)
        elif bad:
            more = f" (and {len(bad) - 1} more)" if len(bad) > 1 else ""
            kind = "did not succeed" if bad[0].status == "failed" else "has an unknown outcome"
            error = RunError("StepFailed", f"step {bad[0].id!r} {kind}: {bad[0].error}{more}", tool=bad[0].tool)
        texts = {steps[index].id: steps[index].result_json for index in plan.outputs}
        given = {name: text for name, text in texts.items() if text is not None}
        held = drive.engine.inputs.held_bytes + sum(map(memory_of, given.values()))
        if held > self.limits.memory_bytes:
            given = {}
            if drive.failure is None:
                reached = LimitReached("memory_bytes", self.limits.memory_bytes, held)
                error = RunError("LimitReached", f"{reached}, to hand out the outputs", limit=reached.limit)
        outputs = {name: own_json(text) for name, text in given.items()}
        return PlanResult(
            ok=error is None,
            outputs=outputs,
            steps=steps,
            error=error,
            faults=reading.faults,
            calls=self.gate.records,
            artifacts=self.gate.products.artifacts,
            goal=plan.model.goal,
            plan=plan_json(plan.model),
            final_answer=None if self.given is None or drive.failure is not None else self.given.answer,
            usage=self._usage(started),
            limits=self.limits,
        )

    def _usage(self, started: float) -> RunUsage:
        return RunUsage(wall_seconds=time.perf_counter() - started, tool_calls=len(self.gate.records))


_limiters: WeakKeyDictionary[Any, anyio.CapacityLimiter] = WeakKeyDictionary()


async def _aside(work: Callable[[], T], large: bool) -> T:
    """Do work that may take long; large work in a thread, so that the event loop runs on.

    Two threads of an event loop work at a time, since half-read plans take memory.
    """
    if not large:
        return work()
    threads = _limiters.setdefault(event_loop(), anyio.CapacityLimiter(2))
    return await anyio.to_thread.run_sync(work, limiter=threads)


def _is_large(plan: CompiledPlan) -> bool:
    return len(plan.steps) > _MANY or any(step.large for step in plan.steps)
