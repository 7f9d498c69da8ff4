"""A plan as it is written, in either dialect, as one model. Knows fields and their other names; no tools, no graph.

`read_model` takes what a model sent (an object, or its JSON as text) and reports everything that is wrong with its
shape at once; what is merely written in an odd way is read as what it must have meant, and reported as a warning.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, TypeVar

import pydantic
from pydantic import BaseModel, ConfigDict, Field

from callgate.tools import Retry
from callgate.tools.annotations import expected
from callgate.tools.faults import described, did_you_mean, path_text

from .decode import decode_arguments, decode_plan
from .faults import PlanFault, too_many

__all__ = ["Fallback", "Plan", "Step", "StepRetry", "plan_json", "read_model", "read_step"]

Made = TypeVar("Made", bound=BaseModel)
Text = Annotated[str, Field(min_length=1, max_length=256)]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class StepRetry(_Model):
    """How a failed call of this step is tried again; heeded for tools that may be repeated."""

    attempts: int = Field(3, ge=1, le=10)
    backoff_seconds: float = Field(1.0, ge=0, le=60, allow_inf_nan=False)
    factor: float = Field(2.0, ge=1, le=10, allow_inf_nan=False)
    max_backoff_seconds: float = Field(30.0, ge=0, le=60, allow_inf_nan=False)

    def policy(self) -> Retry:
        """As the gate takes it."""
        return Retry(
            attempts=self.attempts,
            backoff_seconds=self.backoff_seconds,
            factor=self.factor,
            max_backoff_seconds=self.max_backoff_seconds,
        )


class Fallback(_Model):
    """Another tool, called with the same arguments."""

    tool: Text
    condition: Literal["on_error", "on_low_confidence"] = "on_error"
    threshold: float = Field(0.5, ge=0, le=1)
    """For ``on_low_confidence``: the result's own ``confidence``, below which the fallback is called."""


class Step(_Model):
    """One call, or with `for_each` one call for each item."""

    id: Text
    tool: Text
    arguments: dict[str, Any] = Field(default_factory=dict)
    description: str | None = None
    depends_on: tuple[str, ...] = ()
    """Steps that must have succeeded, beside those that are referred to."""
    after: tuple[str, ...] = ()
    """Steps that must have ended, whatever came of them."""
    execution_mode: Literal["parallel", "sequential"] = "parallel"
    """``sequential`` begins after the step before it in the list has ended, however it ended."""
    timeout_seconds: float | None = Field(None, gt=0, le=3600, allow_inf_nan=False)
    retry: StepRetry | None = None
    fallback: Fallback | None = None
    when: Any = None
    """Runs only if this (a reference, an expression) is true; `None` always runs."""
    for_each: Any = None
    """An array, or a reference to one; `$item` and `$index` stand for each of its items."""
    max_items: int = Field(1000, ge=1, le=1_000_000)
    """Items that `for_each` may have; with more the step fails before any call."""
    on_item_error: Literal["fail", "null"] = "fail"
    """What a failed item makes of the step: a failure, or a null in its place and a warning."""
    critical: bool = False
    """If it fails, nothing new is begun."""


class Plan(_Model):
    """Steps joined by references."""

    steps: tuple[Step, ...] = Field(min_length=1)
    output_steps: tuple[str, ...] = ()
    """Whose results the model gets; none means all."""
    goal: str | None = None
    missing: Literal["null", "error"] | None = None
    """What a path that leads nowhere gives, instead of the dialect's own rule."""


_STEP_NAMES: Mapping[str, str] = {
    "args": "arguments",
    "parameters": "arguments",
    "params": "arguments",
    "dependencies": "depends_on",
    "dependsOn": "depends_on",
    "executionMode": "execution_mode",
    "timeoutSeconds": "timeout_seconds",
    "forEach": "for_each",
    "maxItems": "max_items",
    "onItemError": "on_item_error",
    "tool_name": "tool",
    "toolName": "tool",
}
"""Other names of a step's fields; `timeout` is one too, in milliseconds as in the tool planning engine."""
_PLAN_NAMES: Mapping[str, str] = {"outputSteps": "output_steps"}
_MEANT: Mapping[str, str] = {
    "input": "arguments",
    "inputs": "arguments",
    "kwargs": "arguments",
    "function": "tool",
    "action": "tool",
    "needs": "depends_on",
    "requires": "depends_on",
    "if": "when",
    "condition": "when",
    "foreach": "for_each",
    "map": "for_each",
    "loop": "for_each",
    "retries": "retry",
    "tasks": "steps",
    "calls": "steps",
    "outputs": "output_steps",
    "output": "output_steps",
}
"""What models write for a field, too far from its name to be guessed by its letters."""
_NESTED: Mapping[str, tuple[str, ...]] = {
    "fallback": tuple(Fallback.model_fields),
    "retry": tuple(StepRetry.model_fields),
}
_PLAN_WORDS = frozenset(
    {"reasoning", "description", "name", "id", "plan_id", "planId", "confidence"}
    | {"estimatedDuration", "estimatedCost", "estimated_duration", "estimated_cost"}
)
"""Fields of a plan that tell a reader something and change nothing."""
_STEP_BYTES = 3 * 1024
"""What a step takes in memory when it has run, beside its arguments and its result; measured."""
_SMALL_BYTES = 16 * 1024 * 1024
"""What a plan may take in memory however small `memory_bytes` is."""
_MIN_MILLISECONDS = 100
_MOST_FIELDS = 50
_MANY = 100  # pydantic words every fault of a list, however long it is
_FIELDS_HINT = "put what the tool takes into 'arguments'"
_MAX_MILLISECONDS = 3_600_000
_STEP_FIELDS = tuple(Step.model_fields)
_PLAIN_FIELDS = frozenset({"id", "tool", "arguments"})
_SHARED_FIELDS = {*_PLAIN_FIELDS, "when", "for_each"}
_WANTED: Mapping[str, str] = {
    "tuple_type": "an array",
    "model_type": "an object",
    "model_attributes_type": "an object",
    "string_type": "text",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
}
"""What pydantic expects, where its own words are about Python."""
_validate_step = Step.__pydantic_validator__.validate_python


def read_model(
    given: Any, *, max_bytes: int, max_steps: int, max_memory_bytes: int
) -> tuple[Plan | None, list[Step | None], list[str], list[PlanFault]]:
    """A plan as it came.

    Args:
        given: an object, or its JSON as text.
        max_bytes: of the plan as JSON.
        max_steps: how many steps it may have.
        max_memory_bytes: what it may take when it is ready to run, about.

    Returns:
        The plan (None where there is no plan to speak of), its steps (without what is wrong with them; None where
        nothing is left), their ids, and the faults.
    """
    faults: list[PlanFault] = []
    raw = decode_plan(given, max_bytes, faults, max_memory_bytes)
    if raw is None:
        return None, [], [], faults
    top = _plan_fields(raw, faults)
    listed = top.pop("steps", None)
    own = _validated(lambda fields: _Top(**fields), top, None, "", tuple(Plan.model_fields), faults)
    if not isinstance(listed, list) or not listed:
        problem = "there are no steps" if listed in (None, []) else f"'steps' is {described(listed)}"
        hint = 'a plan must contain at least one step: {"steps": [{"id": "a", "tool": "…", "arguments": {…}}]}'
        faults.append(PlanFault("shape", None, "steps", problem, hint))
        return None, [], [], faults
    too_large = ""
    if len(listed) > max_steps:
        too_large = f"the plan has {len(listed)} steps, more than max_tool_calls, which is {max_steps}"
        hint = "split it, or let the operator raise max_tool_calls"
    elif (size := _STEP_BYTES * len(listed)) > max(max_memory_bytes, _SMALL_BYTES):
        would = f"{len(listed)} steps would take {size} bytes of memory"
        too_large = f"{would}, more than memory_bytes, which is {max_memory_bytes}"
        hint = "split it, or let the operator raise memory_bytes"
    if too_large:
        faults.append(PlanFault("too-large", None, "steps", too_large, hint))
        return None, [], [], faults
    steps: list[Step | None] = []
    ids: list[str] = []
    for index, each in enumerate(listed):
        before = len(faults)
        step_id, step = _read_step(each, index, faults)
        listed[index] = None  # it is our own; freed one by one, and not all in one go at the end
        ids.append(step_id)
        steps.append(step)
        if _failed(faults, before) and too_many(faults):
            break
    told = own.model_dump() if own is not None else {}
    plan = Plan.model_construct(**told, steps=tuple(each for each in steps if each is not None))
    return plan, steps, ids, faults


class _Top(_Model):
    """A plan's own fields, without its steps."""

    output_steps: tuple[str, ...] = ()
    goal: str | None = None
    missing: Literal["null", "error"] | None = None


def _plan_fields(raw: dict[str, Any], faults: list[PlanFault]) -> dict[str, Any]:
    top = _renamed(raw, _PLAN_NAMES, None, "", faults)
    for name in _PLAN_WORDS:
        top.pop(name, None)
    if len(top) > _MOST_FIELDS:
        faults.append(PlanFault("shape", None, "", f"the plan has {len(top)} fields", _FIELDS_HINT))
        top = {key: value for key, value in top.items() if key in Plan.model_fields}
    _settle_ids(top, "output_steps", None, "output_steps", faults)
    return top


def read_step(raw: Any, index: int, faults: list[PlanFault]) -> tuple[str, Step | None]:
    """One step as it came: its id (its position, where it has none), and the step, None where it has faults."""
    before = len(faults)
    name, step = _read_step(raw, index, faults)
    return name, None if _failed(faults, before) else step


def _failed(faults: list[PlanFault], before: int) -> bool:
    return len(faults) > before and any(fault.severity == "error" for fault in faults[before:])


def _read_step(raw: Any, index: int, faults: list[PlanFault]) -> tuple[str, Step | None]:
    """The step without the options that are wrong, so that the rest of it is checked as well."""
    at = f"steps[{index}]"
    if not isinstance(raw, dict):
        message, hint = f"a step is an object, got {described(raw)}", 'write {"id": "a", "tool": "…", "arguments": {…}}'
        faults.append(PlanFault("shape", at, at, message, hint))
        return at, None
    if len(raw) > _MOST_FIELDS:
        faults.append(PlanFault("shape", at, at, f"a step with {len(raw)} fields", _FIELDS_HINT))
        return at, None
    given = raw.get("id")
    named = type(given) in (str, int) and given != ""
    name = str(given) if named else at
    fields = _renamed(raw, _STEP_NAMES, name, at, faults)
    if named or given is None or given == "":
        fields["id"] = name
    if "arguments" in fields:
        arguments = fields["arguments"]
        if not isinstance(arguments, dict):
            fields["arguments"] = decode_arguments(arguments, name, f"{at}.arguments", faults) or {}
    if not fields.keys() <= _PLAIN_FIELDS:
        _settle(fields, name, at, faults)
    return name, _validated(_validate_step, fields, name, at, _STEP_FIELDS, faults)


def _validated(
    validate: Callable[[dict[str, Any]], Made],
    fields: dict[str, Any],
    step: str | None,
    at: str,
    known: tuple[str, ...],
    faults: list[PlanFault],
) -> Made | None:
    """The model, of those fields that are right; None where that is too little."""
    try:
        return validate(fields)
    except pydantic.ValidationError as error:
        faults.extend(_shape_faults(error, step, at, known))
        wrong = {detail["loc"][0] for detail in error.errors(include_url=False, include_context=False)}
    try:
        return validate({name: value for name, value in fields.items() if name not in wrong})
    except pydantic.ValidationError:
        return None


def _settle(fields: dict[str, Any], name: str, at: str, faults: list[PlanFault]) -> None:
    """The shorter ways to write an option."""
    if "timeout" in fields:
        milliseconds = fields.pop("timeout")
        if "timeout_seconds" in fields:
            hint = "leave one of them out"
            faults.append(PlanFault("shape", name, at, "both 'timeout' and 'timeout_seconds' are given", hint))
        elif isinstance(milliseconds, (int, float)) and not isinstance(milliseconds, bool):
            if not _MIN_MILLISECONDS <= milliseconds <= _MAX_MILLISECONDS:
                shown = described(milliseconds).removesuffix(" (a number)")
                few = "few" if milliseconds < _MIN_MILLISECONDS else "many"
                message = f"'timeout' is in milliseconds, and {shown} of them are too {few}"
                hint = f'for {shown} seconds write "timeout_seconds": {shown}' if few == "few" else "at most an hour"
                faults.append(PlanFault("shape", name, f"{at}.timeout", message, hint))
            else:
                fields["timeout_seconds"] = milliseconds / 1000
        elif milliseconds is not None:
            message = f"'timeout' must be a number of milliseconds, got {described(milliseconds)}"
            faults.append(PlanFault("shape", name, f"{at}.timeout", message, 'or write "timeout_seconds": 30'))
    for option in ("execution_mode", "max_items", "on_item_error", "critical"):
        if option in fields and fields[option] is None:
            del fields[option]
    for option in ("depends_on", "after"):
        _settle_ids(fields, option, name, f"{at}.{option}", faults)
    retry = fields.get("retry")
    for option in ("retry", "fallback"):
        nested = fields.get(option)
        if isinstance(nested, dict) and len(nested) > _MOST_FIELDS:
            faults.append(PlanFault("shape", name, f"{at}.{option}", f"it has {len(nested)} fields", _FIELDS_HINT))
            fields[option] = retry = None
    if isinstance(retry, bool):
        fields["retry"] = {"attempts": 3 if retry else 1}
    elif isinstance(retry, int):
        fields["retry"] = {"attempts": retry}
    elif isinstance(retry, dict) and "max_attempts" in retry and "attempts" not in retry:
        fields["retry"] = {"attempts" if key == "max_attempts" else key: value for key, value in retry.items()}
    if isinstance(fields.get("fallback"), str):
        fields["fallback"] = {"tool": fields["fallback"]}


def _settle_ids(fields: dict[str, Any], option: str, step: str | None, place: str, faults: list[PlanFault]) -> None:
    """A list of ids, which may be one id alone, or null."""
    ids = fields.pop(option, None)
    if isinstance(ids, list) and len(ids) > _MANY and not all(isinstance(each, (str, int)) for each in ids):
        faults.append(PlanFault("shape", step, place, "the ids of steps are text", 'write ["s1", "s2"]'))
    elif isinstance(ids, str | list):
        fields[option] = [_bare(each, step, place, faults) for each in ([ids] if isinstance(ids, str) else ids)]
    elif ids is not None:
        fields[option] = ids


def _bare(name: Any, step: str | None, place: str, faults: list[PlanFault]) -> Any:
    """An id as it is named outside of references: text, without `$ref:`."""
    if isinstance(name, int) and not isinstance(name, bool):
        return str(name)
    if isinstance(name, str) and name.startswith("$ref:"):
        bare = name.removeprefix("$ref:")
        faults.append(PlanFault("repaired", step, place, f"{name[:80]!r} was read as {bare[:80]!r}", "", "warning"))
        return bare
    return name


def _renamed(
    raw: dict[str, Any], names: Mapping[str, str], step: str | None, at: str, faults: list[PlanFault]
) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for key, value in raw.items():
        name = names.get(key, key)
        if name in fields:
            hint = "leave one of them out"
            others = [other for other in raw if other != key and names.get(other, other) == name]
            message = f"both {others[0]!r} and {key!r} are given, and mean the same"
            faults.append(PlanFault("shape", step, at, message, hint))
            continue
        fields[name] = value
    return fields


def _shape_faults(
    error: pydantic.ValidationError, step: str | None, at: str, known: tuple[str, ...]
) -> list[PlanFault]:
    faults = []
    for detail in error.errors(include_url=False, include_context=False)[:20]:
        path = detail["loc"]
        place = path_text(path, at)
        name = str(path[-1])[:80] if path else ""
        if detail["type"] == "extra_forbidden":
            there = _NESTED.get(str(path[0]), known) if len(path) > 1 else known
            meant = _MEANT.get(name) if len(path) == 1 and _MEANT.get(name) in known else None
            near = f"write {meant!r}" if meant else did_you_mean(name, there).removeprefix("; ")
            message, hint = f"there is no field {name!r}", near or f"the fields are: {', '.join(there)}"
            if path[0] == "fallback" and name in ("arguments", "args", "parameters"):
                hint = "the fallback is called with the step's own arguments"
        elif detail["type"] == "missing":
            message, hint = f"the field {name!r} is missing", ""
        else:
            wanted = _WANTED.get(detail["type"]) or expected(detail["msg"]).replace("String should have", "text of")
            message, hint = f"{path_text(path)} must be {wanted}, got {described(detail['input'])}", ""
        faults.append(PlanFault("shape", step, place, message, hint))
    return faults


def plan_json(plan: Plan) -> dict[str, Any]:
    """The plan as it would be written today, without what is left at its default. Arguments are not copied."""
    told: dict[str, Any] = {"goal": plan.goal} if plan.goal else {}
    told["steps"] = [_step_json(step) for step in plan.steps]
    if plan.output_steps:
        told["output_steps"] = list(plan.output_steps)
    if plan.missing:
        told["missing"] = plan.missing
    return told


def _step_json(step: Step) -> dict[str, Any]:
    told: dict[str, Any] = {"id": step.id, "tool": step.tool, "arguments": step.arguments}
    if step.model_fields_set <= _PLAIN_FIELDS:
        return told
    told |= step.model_dump(mode="json", exclude_defaults=True, exclude=_SHARED_FIELDS)
    for name in ("when", "for_each"):
        if (value := getattr(step, name)) is not None:
            told[name] = value
    return told
