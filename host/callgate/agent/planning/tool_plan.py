"""The values of tool planning: a query in its parts, a plan of steps in stages, and the results of its steps.

They are those of the tool planning engine: `DecomposedQuery`, `ToolPlan`, `ToolStep`, `ToolResult`, `ToolExecution`.
Units are in the names; confidences are from 0 to 1. Knows no model, no runtime and no clock.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from typing import Any, Literal

from callgate.agent.models.model import NO_USAGE, Message, ModelProvider, Usage
from callgate.errors import ConfigurationError
from callgate.runtime import PlanResult

__all__ = [
    "BadWords", "DecomposedQuery", "ExecutionContext", "PlanSource", "Source", "StepFallback", "SubQuery",
    "ToolExecution", "ToolPlan", "ToolResult", "ToolStep", "as_one_part", "checked_decomposition", "cycle_in",
]  # fmt: skip

MAX_PARTS = 12
"""The most sub-queries of a query."""
MAX_TEXT_CHARACTERS = 4_000
"""The longest sub-query, and the longest reasoning."""

PlanSource = Literal["model", "cache", "fallback"]
"""Who chose the tools: a model, an earlier plan for an equal query, or the rules that need no model."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SubQuery:
    """A part of a query.

    Attributes:
        text: a question of its own.
        kind: what sort of question, in free words: ``lookup``, ``comparison``, ``validation``.
        confidence: how sure it is that this part was asked.
        depends_on: positions of the sub-queries whose results it needs.
    """

    text: str
    kind: str = ""
    confidence: float = 1.0
    depends_on: Sequence[int] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class DecomposedQuery:
    """A query in its parts; one part for a simple query.

    Attributes:
        query: in the user's words.
        query_type: what sort, in free words: ``simple``, ``comparison``, ``multi-hop``, ``list``.
        sub_queries: from 1 to 12 parts.
        confidence: how sure it is that these are the right parts.
        hypothetical_confidence: of a hypothetical answer (HyDE) that searches would use; None where none was made.
    """

    query: str
    sub_queries: tuple[SubQuery, ...]
    query_type: str = ""
    confidence: float = 1.0
    hypothetical_confidence: float | None = None


def as_one_part(query: str, confidence: float = 1.0) -> DecomposedQuery:
    """The whole query as its only part."""
    part = SubQuery(text=query, confidence=confidence)
    return DecomposedQuery(query=query, sub_queries=(part,), confidence=confidence)


def cycle_in(graph: Mapping[int, Collection[int]]) -> list[int]:
    """A circle of nodes that wait for each other; empty without a circle."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        found: list[int] = error.args[1]
        return found
    return []


def checked_decomposition(given: DecomposedQuery) -> DecomposedQuery:
    """Check a decomposition, and return it.

    Raises:
        ConfigurationError: there are no parts or too many; a text is empty or too long; a confidence is not from 0 to
            1; or parts depend on parts that do not exist, or on each other.
    """
    parts = given.sub_queries
    if not 1 <= len(parts) <= MAX_PARTS:
        raise ConfigurationError(f"a decomposed query has from 1 to {MAX_PARTS} sub-queries, not {len(parts)}")
    shares = {"confidence": given.confidence, "hypothetical_confidence": given.hypothetical_confidence}
    for place, part in enumerate(parts):
        if not part.text.strip() or len(part.text) > MAX_TEXT_CHARACTERS:
            raise ConfigurationError(f"the text of sub-query {place} needs from 1 to {MAX_TEXT_CHARACTERS} characters")
        shares[f"the confidence of sub-query {place}"] = part.confidence
        for need in part.depends_on:
            if not 0 <= need < len(parts) or need == place:
                raise ConfigurationError(f"sub-query {place} depends on {need}, the position of no other sub-query")
    for name, share in shares.items():
        if share is not None and not 0 <= share <= 1:
            raise ConfigurationError(f"{name} must be a number from 0 to 1, not {share!r}")
    if circle := cycle_in({place: part.depends_on for place, part in enumerate(parts)}):
        raise ConfigurationError(f"the sub-queries depend on each other in a circle: {' → '.join(map(str, circle))}")
    return given


@dataclass(frozen=True, slots=True)
class BadWords:
    """A model's answer that had faults.

    Attributes:
        kind: prose instead of JSON, JSON that breaks off, JSON with wrong entries, nothing, or a refusal.
        asked_again: whether the model was asked once more with all faults.
    """

    kind: Literal["prose", "half_json", "no_schema", "empty", "refused"]
    asked_again: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class StepFallback:
    """Another tool that is called with the step's arguments.

    Attributes:
        tool: its name.
        condition: when it is called.
        threshold: for ``on_low_confidence``: it is called for a result with a lower confidence.
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
        parameters: the arguments; references to other steps are those of the plan language (``$ref:id.field``).
        dependencies: ids of the steps whose results it needs.
        after: ids of steps that must have ended first, whether or not they succeeded.
        execution_mode: ``sequential`` steps wait until the step before them has ended.
        timeout_seconds: for an attempt.
        fallback: what is called instead when the step fails.
        critical: whether no further step begins when this one fails.
        sub_query: what the step is for.
        confidence: how sure the selector is that this is the right tool.
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
        query: in the user's words.
        steps: in the order of their stages.
        stages: ids of the steps of each stage; a stage needs results of earlier stages only.
        reasoning: why these tools.
        confidence: of the whole plan, from 0 to 1.
        estimated_seconds: how long it takes, by the tools' history; 0 without a history.
        estimated_cost: in the operator's own unit; None where no tool has a cost.
        source: who chose the tools.
        strategy: the selection strategy's name.
        notes: what planning decided and why: a simpler plan, added fallbacks, faults of the model's answers.
        planning_seconds: how long the planning took.
        timed_out: whether the model was too slow, so that rules chose.
        usage: tokens of the planning.
        bad_words: the model's answers that had faults, in their order.
        model: provider and name of the model that the planner asked, for its price; None where it is not known.
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
            output_steps: ids of the steps whose results are wanted; none means all.
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
    if step.timeout_seconds is not None:  # the plan engine refuses 0
        written["timeout_seconds"] = step.timeout_seconds
    return written | {name: value for name, value in more.items() if value}


@dataclass(frozen=True, kw_only=True, slots=True)
class Source:
    """Where a part of a result comes from.

    Attributes:
        title: of the document, or the tool's name.
        location: an address, a section or an id in the document; may be empty.
        text: the quoted words; empty where the tool gives none.
    """

    title: str
    location: str = ""
    text: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolResult:
    """The result of a step.

    Attributes:
        step_id: the step.
        tool: the tool that gave the result; the fallback, where that one did.
        success: whether there is a result.
        data: the result, a JSON value; None without a result.
        confidence: the result's own, else the step's; 0 for a failure.
        duration_seconds: from the first call to the end, retries included.
        sources: where the result comes from.
        error: why the step failed or was skipped; None for a success.
        retries: attempts beyond the first, of the tool and of its fallback.
        cached: whether it is an earlier result, so that no tool was called.
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
        total_seconds: how long the plan ran.
        success: whether every step succeeded.
        failed_steps: ids of the steps that failed, or were skipped because of a failure.
        cancelled: whether `cancel` ended the plan.
        plan_result: the plan engine's own result; None where the plan did not run to its end.
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
    """What a tool may know of the plan that calls it.

    Attributes:
        plan_id: the plan.
        previous_results: results of the steps that have ended, by step id.
        history: the conversation that the query is part of.
        metadata: the caller's own.
        started: `time.time()` of the plan's beginning, seconds.
    """

    plan_id: str
    previous_results: Mapping[str, ToolResult] = field(default_factory=dict)
    history: Sequence[Message] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)
    started: float = 0.0
