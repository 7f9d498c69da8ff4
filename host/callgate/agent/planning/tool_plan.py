"""The values of tool planning: a query in parts, tools chosen for them, steps in stages, and their results.

They are those of the tool planning engine: `DecomposedQuery`, `ToolPlan`, `ToolStep`, `ToolResult`, `ToolExecution`.
Units are in the names; confidences are from 0 to 1. Knows no model, no runtime and no clock.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from callgate.agent.models.model import NO_USAGE, Message, ModelProvider, Usage
from callgate.runtime import PlanResult
from callgate.tools.registry import ToolInfo

__all__ = [
    "BadWords",
    "DecomposedQuery",
    "ExecutionContext",
    "PlanSource",
    "Selection",
    "Selector",
    "Source",
    "StepFallback",
    "SubQuery",
    "ToolChoice",
    "ToolExecution",
    "ToolPlan",
    "ToolResult",
    "ToolStep",
]

PlanSource = Literal["model", "cache", "fallback"]
"""Who chose the tools: a model, an earlier plan for a query like this one, or the rules that need no model."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SubQuery:
    """A part of a query.

    Attributes:
        text: a question of its own.
        kind: what sort of question, in free words: ``lookup``, ``comparison``, ``validation``.
        confidence: that this is a part of what was asked.
        depends_on: positions of the sub-queries whose results it needs.
    """

    text: str
    kind: str = ""
    confidence: float = 1.0
    depends_on: tuple[int, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class DecomposedQuery:
    """A query in its parts; one part for a simple query.

    Attributes:
        query: as the user put it.
        query_type: what sort, in free words: ``simple``, ``comparison``, ``multi-hop``, ``list``.
        sub_queries: at least one.
        confidence: that these are the right parts.
        hypothetical_confidence: of a hypothetical answer (HyDE) that searches would go by; None where none was made.
    """

    query: str
    sub_queries: tuple[SubQuery, ...]
    query_type: str = ""
    confidence: float = 1.0
    hypothetical_confidence: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolChoice:
    """A tool chosen for a sub-query.

    Attributes:
        sub_query: position of the sub-query.
        tool: its name.
        parameters: arguments; references to other choices are ``$ref:c0.field``, with their positions in the chain.
        confidence: that this is the right tool.
        depends_on: positions in the chain of choices whose results it needs, beside those that are referred to.
        reasoning: why this one.
    """

    sub_query: int
    tool: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    confidence: float = 1.0
    depends_on: tuple[int, ...] = ()
    reasoning: str = ""


@dataclass(frozen=True, slots=True)
class BadWords:
    """An answer of a model that was not as it was asked for.

    Attributes:
        kind: prose where JSON is due, JSON that breaks off, JSON of something else or with wrong entries, nothing, or a
            refusal.
        asked_again: whether the model was asked once more, with all faults; else what was wrong was not used.
    """

    kind: Literal["prose", "half_json", "no_schema", "empty", "refused"]
    asked_again: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Selection:
    """Tools chosen for a query.

    Attributes:
        chain: the choices.
        reasoning: why these.
        strategy: name of the strategy that chose.
        source: who chose.
        usage: what the model's part cost.
        faults: what was wrong with the model's words, where they were not used, or not all of them.
        bad_words: its answers that had faults.
    """

    chain: tuple[ToolChoice, ...]
    reasoning: str = ""
    strategy: str = ""
    source: PlanSource = "model"
    usage: Usage = NO_USAGE
    faults: tuple[str, ...] = ()
    bad_words: tuple[BadWords, ...] = ()


class Selector(Protocol):
    """Chooses tools for a query."""

    @property
    def name(self) -> str:
        """Of the strategy, for statistics."""

    async def select(self, query: DecomposedQuery, tools: Sequence[ToolInfo]) -> Selection:
        """Choose.

        Args:
            query: in its parts.
            tools: those that there are, with how their calls went so far.

        Raises:
            ModelError: there was no answer of the model.
        """


@dataclass(frozen=True, kw_only=True, slots=True)
class StepFallback:
    """Another tool, called with the same arguments.

    Attributes:
        tool: its name.
        condition: when it is called.
        threshold: for ``on_low_confidence``: the confidence of the result below which it is.
    """

    tool: str
    condition: Literal["on_error", "on_low_confidence"] = "on_error"
    threshold: float = 0.5


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolStep:
    """One call.

    Attributes:
        id: of the step, unique in its plan.
        tool: its name.
        parameters: arguments; references to other steps are those of the plan language (``$ref:id.field``).
        dependencies: ids of the steps whose results it needs.
        after: ids of steps that must have ended first, however they ended: an order, where no result is needed.
        execution_mode: ``sequential``: after the step before it, however that ended.
        timeout_seconds: for an attempt.
        fallback: what is called instead where it fails.
        critical: if it fails, nothing new is begun.
        sub_query: what it is for.
        confidence: that it is the right tool.
    """

    id: str
    tool: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    dependencies: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    execution_mode: Literal["parallel", "sequential"] = "parallel"
    timeout_seconds: float | None = None
    fallback: StepFallback | None = None
    critical: bool = False
    sub_query: str = ""
    confidence: float = 1.0


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolPlan:
    """Steps in stages, ready to run.

    Attributes:
        id: of the plan, for `cancel` and for the transcript.
        query: what it is for.
        steps: in the order of their stages.
        stages: ids of the steps of each stage: each stage needs results of earlier ones only.
        reasoning: why these tools.
        confidence: of the whole, from 0 to 1.
        estimated_seconds: how long it takes, by the tools' history; 0 where nothing is known.
        estimated_cost: in the operator's own unit; None where no tool has a cost.
        source: who chose the tools.
        strategy: the selection strategy's name.
        notes: what the routing did and why: a simpler plan, fallbacks added, words of the model that were not used.
        planning_seconds: that the planning took.
        timed_out: whether the model did not choose in time, and rules did.
        usage: tokens of the planning.
        bad_words: answers of the model that had faults, in the order in which they came.
        model: provider and name of the model that the planner asked, for its price; None where it does not know.
    """

    id: str
    query: str
    steps: tuple[ToolStep, ...]
    stages: tuple[tuple[str, ...], ...]
    reasoning: str = ""
    confidence: float = 1.0
    estimated_seconds: float = 0.0
    estimated_cost: float | None = None
    source: PlanSource = "model"
    strategy: str = ""
    notes: tuple[str, ...] = ()
    planning_seconds: float = 0.0
    timed_out: bool = False
    usage: Usage = NO_USAGE
    bad_words: tuple[BadWords, ...] = ()
    model: tuple[ModelProvider, str] | None = None

    def to_plan(self, *, output_steps: Collection[str] = ()) -> dict[str, Any]:
        """The plan in callgate's plan language, as `Runtime.execute_tool_plan` takes it.

        Args:
            output_steps: ids of the steps whose results are asked for; none means all.
        """
        plan: dict[str, Any] = {"goal": self.query[:1000], "steps": [_step(each) for each in self.steps]}
        if output_steps:
            plan["output_steps"] = list(output_steps)
        return plan


def _step(step: ToolStep) -> dict[str, Any]:
    fallback: dict[str, Any] | None = None
    if step.fallback is not None:
        fallback = {"tool": step.fallback.tool, "condition": step.fallback.condition}
        if step.fallback.condition == "on_low_confidence":
            fallback["threshold"] = step.fallback.threshold
    written: dict[str, Any] = {"id": step.id, "tool": step.tool, "arguments": dict(step.parameters)}
    more = {
        "description": step.sub_query,
        "depends_on": list(step.dependencies),
        "after": list(step.after),
        "execution_mode": "sequential" if step.execution_mode == "sequential" else "",
        "fallback": fallback,
        "critical": step.critical,
    }
    if step.timeout_seconds is not None:  # 0 is for the plan engine to refuse
        written["timeout_seconds"] = step.timeout_seconds
    return written | {name: value for name, value in more.items() if value}


@dataclass(frozen=True, kw_only=True, slots=True)
class Source:
    """Where something in a result comes from.

    Attributes:
        title: of the document, or the tool's name.
        location: where in it: an address, a section, an id; may be empty.
        text: the words themselves, where the tool gives them.
    """

    title: str
    location: str = ""
    text: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolResult:
    """The result of a step.

    Attributes:
        step_id: the step.
        tool: that gave the result: the fallback, where that did.
        success: whether there is a result.
        data: the result, a JSON value; None without.
        confidence: the result's own where it has one, else the step's; 0 for a failure.
        duration_seconds: from its first call to its end, retries included.
        sources: where it comes from.
        error: why it failed or was skipped; None where it did not.
        retries: attempts beyond the first, of the tool and of its fallback.
        cached: whether it is an earlier result, and nothing was called.
    """

    step_id: str
    tool: str
    success: bool
    data: Any = None
    confidence: float = 0.0
    duration_seconds: float = 0.0
    sources: tuple[Source, ...] = ()
    error: str | None = None
    retries: int = 0
    cached: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolExecution:
    """The result of a plan.

    Attributes:
        plan_id: the plan.
        results: one for each step, in the order of the plan.
        total_seconds: of the whole.
        success: whether every step that the answer needs succeeded.
        failed_steps: ids of those that failed or were skipped because of a failure.
        cancelled: whether `cancel` ended it.
        plan_result: what the plan engine says of it; None where it was not run.
    """

    plan_id: str
    results: tuple[ToolResult, ...]
    total_seconds: float
    success: bool
    failed_steps: tuple[str, ...] = ()
    cancelled: bool = False
    plan_result: PlanResult | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ExecutionContext:
    """What a step, and a tool that asks for it, may know of the plan that it runs in.

    Attributes:
        plan_id: the plan.
        previous_results: by step id, those that have ended.
        history: the conversation that the query is part of.
        metadata: the caller's own.
        started: `time.time()` of its beginning, seconds.
    """

    plan_id: str
    previous_results: Mapping[str, ToolResult] = field(default_factory=dict)
    history: Sequence[Message] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)
    started: float = 0.0
