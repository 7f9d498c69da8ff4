"""The fields of a plan and its steps, in either dialect, as one model. Knows no tools and no graph.

`read_model` takes a plan as a language model sent it (an object, or its JSON as text) and reports every fault of its
shape at once. An odd way to write a field is read as what it must mean, and reported as a warning.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, TypeVar

import pydantic
from pydantic import AliasChoices, BaseModel, ConfigDict, FailFast, Field, model_validator

from callgate.tools import Retry
from callgate.tools.annotations import expected
from callgate.tools.faults import described, did_you_mean, path_text
from callgate_guest.wire import FINAL_ANSWER

from .decode import decode_arguments, decode_plan
from .faults import Faults, Spot
from .sizes import SMALL_BYTES

__all__ = [
    "PLAIN_FIELDS", "Fallback", "Plan", "Step", "StepRetry", "plan_json", "read_model", "read_step", "steps_json",
]  # fmt: skip

Made = TypeVar("Made", bound=BaseModel)
Ids = Annotated[tuple[str, ...], FailFast()]
Text = Annotated[str, Field(min_length=1, max_length=256)]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class StepRetry(_Model):
    """How to repeat a failed call of this step. Only tools that may be repeated are."""

    attempts: int = Field(3, ge=1, le=10, validation_alias=AliasChoices("attempts", "max_attempts"))
    backoff_seconds: float = Field(1.0, ge=0, le=60, allow_inf_nan=False)
    factor: float = Field(2.0, ge=1, le=10, allow_inf_nan=False)
    max_backoff_seconds: float = Field(30.0, ge=0, le=60, allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _number(cls, given: Any) -> Any:
        """Read ``3``, ``true`` or ``false``."""
        if isinstance(given, bool):
            return {"attempts": 3 if given else 1}
        return {"attempts": given} if isinstance(given, int) else given

    def policy(self) -> Retry:
        """Return the policy for the gate."""
        return Retry(**self.model_dump())


class Fallback(_Model):
    """Another tool, called with the same arguments."""

    tool: Text
    condition: Literal["on_error", "on_low_confidence"] = "on_error"
    threshold: float = Field(0.5, ge=0, le=1)
    """For ``on_low_confidence``: call the fallback if the result's own ``confidence`` is lower."""

    @model_validator(mode="before")
    @classmethod
    def _name(cls, given: Any) -> Any:
        """Read a tool's name without the object around it."""
        return {"tool": given} if isinstance(given, str) else given


class Step(_Model):
    """One call, or with `for_each` one call for each item."""

    id: Text
    tool: Text
    arguments: dict[str, Any] = Field(default_factory=dict)
    description: str | None = None
    depends_on: Ids = ()
    """Steps that must succeed first, beside those that the arguments refer to."""
    after: Ids = ()
    """Steps that must end first, with any status."""
    execution_mode: Literal["parallel", "sequential"] = "parallel"
    """``sequential``: begin after the previous step of the list has ended, with any status."""
    timeout_seconds: float | None = Field(None, gt=0, le=3600, allow_inf_nan=False)
    retry: StepRetry | None = None
    fallback: Fallback | None = None
    when: Any = None
    """Run only if this reference or expression is true; `None`: always."""
    for_each: Any = None
    """An array, or a reference to one: one call for each item, which `$item` and `$index` stand for."""
    max_items: int = Field(1000, ge=1, le=1_000_000)
    """Items that `for_each` may have; with more, the step fails before any call."""
    on_item_error: Literal["fail", "null"] = "fail"
    """``fail``: a failed item fails the step. ``null``: the item's result is null, and the step has a warning."""
    critical: bool = False
    """If this step fails, no other step begins."""


class Plan(_Model):
    """Steps joined by references."""

    steps: tuple[Step, ...] = ()
    output_steps: Ids = ()
    """Steps whose results the model gets; empty means all."""
    goal: str | None = None
    answer: Any = None
    """The answer of the task, made of results as arguments are: a text, a reference, an object. It becomes the last
    step, a call of `final_answer`."""
    missing: Literal["null", "error"] | None = None
    """What a path that leads nowhere gives; None: the rule of the reference's dialect."""


def _by_each(names: Mapping[str, tuple[str, ...]]) -> Mapping[str, str]:
    return {each: name for name, others in names.items() for each in others}


_STEP_NAMES = _by_each(
    {
        "arguments": ("args", "parameters", "params"),
        "depends_on": ("dependencies", "dependsOn"),
        "execution_mode": ("executionMode",),
        "timeout_seconds": ("timeoutSeconds",),
        "for_each": ("forEach",),
        "max_items": ("maxItems",),
        "on_item_error": ("onItemError",),
        "tool": ("tool_name", "toolName"),
    }
)
"""A step's fields by their other names. `timeout` is not here: it counts milliseconds."""
_PLAN_NAMES: Mapping[str, str] = {"outputSteps": "output_steps"}
_MEANT = _by_each(
    {
        "arguments": ("input", "inputs", "kwargs"),
        "tool": ("function", "action"),
        "depends_on": ("needs", "requires"),
        "when": ("if", "condition"),
        "for_each": ("foreach", "map", "loop"),
        "retry": ("retries",),
        "steps": ("tasks", "calls"),
        "output_steps": ("outputs", "output"),
        "answer": ("final_answer", "result"),
    }
)
"""Fields by wrong names that models write, and that no likeness of letters would find."""
_NESTED: Mapping[str, tuple[str, ...]] = {
    "fallback": tuple(Fallback.model_fields),
    "retry": tuple(StepRetry.model_fields),
}
_PLAN_WORDS = frozenset(
    {"reasoning", "description", "name", "id", "plan_id", "planId", "confidence"}
    | {"estimatedDuration", "estimatedCost", "estimated_duration", "estimated_cost"}
)
"""Fields of a plan that inform a reader and change nothing."""
_STEP_BYTES = 3 * 1024
"""Memory of a step that has run, beside its arguments and its result; measured."""
_MIN_MILLISECONDS = 100
_MAX_MILLISECONDS = 3_600_000
_MOST_FIELDS = 50
_FIELDS_HINT = "put what the tool takes into 'arguments'"
_STEP_FIELDS = tuple(Step.model_fields)
PLAIN_FIELDS = frozenset({"id", "tool", "arguments"})
"""Fields that every step has."""
_SHARED_FIELDS = {*PLAIN_FIELDS, "when", "for_each"}
_WANTED = _by_each(
    {
        "an array": ("tuple_type",),
        "an object": ("model_type", "model_attributes_type"),
        "text": ("string_type",),
        "true or false": ("bool_type", "bool_parsing"),
        "a whole number": ("int_type", "int_parsing", "int_from_float"),
        "a number": ("float_type", "float_parsing"),
    }
)
"""Expected kind of value by the type of pydantic's error, where pydantic's own words are about Python."""
_validate_step = Step.__pydantic_validator__.validate_python


def read_model(
    given: Any, *, max_bytes: int, max_steps: int, max_memory_bytes: int, answers: bool = False
) -> tuple[Plan | None, list[Step | None], list[str], Faults]:
    """Read a plan as a language model sent it.

    Args:
        given: an object, or its JSON as text.
        max_bytes: of the plan as JSON.
        max_steps: how many steps it may have.
        max_memory_bytes: memory of the plan when it is ready to run, about.
        answers: whether the run takes an `answer`.

    Returns:
        The plan (None if it has no steps), its steps (without their faulty fields; None where a step is not usable),
        the ids of the steps, and the faults.
    """
    faults = Faults()
    raw = decode_plan(given, max_bytes, faults, max_memory_bytes)
    if raw is None:
        return None, [], [], faults
    whole = Spot(None, "", faults)
    top = _plan_fields(raw, whole)
    listed = top.pop("steps", None)
    own = _validated(Plan.model_validate, top, tuple(Plan.model_fields), whole) or Plan()
    if not isinstance(listed, list) or not listed:
        problem = "there are no steps" if listed in (None, []) else f"'steps' is {described(listed)}"
        hint = 'a plan must contain at least one step: {"steps": [{"id": "a", "tool": "…", "arguments": {…}}]}'
        whole.fault(problem, hint, "steps")
        return None, [], [], faults
    size = _STEP_BYTES * len(listed)
    limit, much, most = "", "", max_steps
    if len(listed) > max_steps:
        limit, much = "max_tool_calls", f"the plan has {len(listed)} steps"
    elif size > max(max_memory_bytes, SMALL_BYTES):
        limit, much, most = "memory_bytes", f"{len(listed)} steps would take {size} bytes of memory", max_memory_bytes
    if limit:
        hint = f"split it, or let the operator raise {limit}"
        whole.fault(f"{much}, more than {limit}, which is {most}", hint, "steps", code="too-large")
        return None, [], [], faults
    if own.answer is not None and not answers:
        whole.repaired("no answer is taken in this run: 'answer' was not read", "answer")
        own = own.model_copy(update={"answer": None})
    if own.answer is not None:
        listed.append(_answer_step(own.answer))
    steps: list[Step | None] = []
    ids: list[str] = []
    for index, each in enumerate(listed):
        step_id, step = read_step(each, index, faults)
        listed[index] = None  # frees the raw steps one by one instead of all at the end
        ids.append(step_id)
        steps.append(step)
        if faults.too_many:
            break
    plan = own.model_copy(update={"steps": tuple(each for each in steps if each is not None)})
    return plan, steps, ids, faults


def _plan_fields(raw: dict[str, Any], whole: Spot) -> dict[str, Any]:
    top = _renamed(raw, _PLAN_NAMES, whole)
    for name in _PLAN_WORDS:
        top.pop(name, None)
    if len(top) > _MOST_FIELDS:
        whole.fault(f"the plan has {len(top)} fields", _FIELDS_HINT)
        top = {key: value for key, value in top.items() if key in Plan.model_fields}
    _settle_ids(top, "output_steps", whole)
    return top


def read_step(raw: Any, index: int, faults: Faults) -> tuple[str, Step | None]:
    """Read one step as it came.

    Returns:
        The id (or ``steps[0]`` for a step without one), and the step without its faulty fields, so that the others
        can be checked as well; None if the step is not usable.
    """
    at = f"steps[{index}]"
    spot = Spot(at, at, faults)
    if not isinstance(raw, dict):
        spot.fault(f"a step is an object, got {described(raw)}", 'write {"id": "a", "tool": "…", "arguments": {…}}')
        return at, None
    if len(raw) > _MOST_FIELDS:
        spot.fault(f"a step with {len(raw)} fields", _FIELDS_HINT)
        return at, None
    given = raw.get("id")
    named = type(given) in (str, int) and given != ""
    name = str(given) if named else at
    spot = Spot(name, at, faults)
    fields = _renamed(raw, _STEP_NAMES, spot)
    if named or given in (None, ""):
        fields["id"] = name
    if "arguments" in fields and not isinstance(fields["arguments"], dict):
        fields["arguments"] = decode_arguments(fields["arguments"], name, f"{at}.arguments", faults) or {}
    if not fields.keys() <= PLAIN_FIELDS:
        _settle(fields, spot)
    return name, _validated(_validate_step, fields, _STEP_FIELDS, spot)


def _validated(
    validate: Callable[[dict[str, Any]], Made], fields: dict[str, Any], known: tuple[str, ...], spot: Spot
) -> Made | None:
    """Build the model from the fields that are right; None if a required field is wrong or missing."""
    try:
        return validate(fields)
    except pydantic.ValidationError as error:
        details = error.errors(include_url=False, include_context=False)
    for detail in details[:20]:
        _shape_fault(detail["loc"], detail["type"], detail["msg"], detail["input"], known, spot)
    wrong = {detail["loc"][0] for detail in details}
    try:
        return validate({name: value for name, value in fields.items() if name not in wrong})
    except pydantic.ValidationError:
        return None


def _settle(fields: dict[str, Any], spot: Spot) -> None:
    """Replace the short ways to write an option by the full ones."""
    if "timeout" in fields:
        milliseconds = fields.pop("timeout")
        if "timeout_seconds" in fields:
            spot.fault("both 'timeout' and 'timeout_seconds' are given", "leave one of them out")
        else:
            fields["timeout_seconds"] = _seconds(milliseconds, spot)
    for option in ("depends_on", "after"):
        _settle_ids(fields, option, spot)
    for option in ("retry", "fallback"):
        nested = fields.get(option)
        if isinstance(nested, dict) and len(nested) > _MOST_FIELDS:
            spot.fault(f"it has {len(nested)} fields", _FIELDS_HINT, f".{option}")
            del fields[option]


def _seconds(milliseconds: Any, spot: Spot) -> float | None:
    """Convert a `timeout`, which is in milliseconds; note a fault and return None if it is not a duration."""
    if not isinstance(milliseconds, (int, float)) or isinstance(milliseconds, bool):
        message = f"'timeout' must be a number of milliseconds, got {described(milliseconds)}"
        spot.fault(message, 'or write "timeout_seconds": 30', ".timeout")
    elif _MIN_MILLISECONDS <= milliseconds <= _MAX_MILLISECONDS:
        return milliseconds / 1000
    else:
        shown = described(milliseconds).removesuffix(" (a number)")
        few = milliseconds < _MIN_MILLISECONDS
        message = f"'timeout' is in milliseconds, and {shown} of them are too {'few' if few else 'many'}"
        hint = f'for {shown} seconds write "timeout_seconds": {shown}' if few else "at most an hour"
        spot.fault(message, hint, ".timeout")
    return None


def _settle_ids(fields: dict[str, Any], option: str, spot: Spot) -> None:
    """Make a list of ids of one id alone, and of numbers their text."""
    ids, below = fields.get(option), f".{option}" if spot.place else option
    if isinstance(ids, str | list):
        fields[option] = [_bare(each, spot, below) for each in ([ids] if isinstance(ids, str) else ids)]


def _bare(name: Any, spot: Spot, below: str) -> Any:
    """Return an id without `$ref:`, as text."""
    if isinstance(name, int) and not isinstance(name, bool):
        return str(name)
    if isinstance(name, str) and name.startswith("$ref:"):
        bare = name.removeprefix("$ref:")
        spot.repaired(f"{name[:80]!r} was read as {bare[:80]!r}", below)
        return bare
    return name


def _renamed(raw: dict[str, Any], names: Mapping[str, str], spot: Spot) -> dict[str, Any]:
    """Return the fields under their own names, without those that are null."""
    if names.keys().isdisjoint(raw) and None not in raw.values():
        return dict(raw)
    fields: dict[str, Any] = {}
    written: dict[str, str] = {}
    for key, value in raw.items():
        name = names.get(key, key)
        if value is None:
            continue
        if name in fields:
            spot.fault(f"both {written[name]!r} and {key!r} are given, and mean the same", "leave one of them out")
            continue
        fields[name], written[name] = value, key
    return fields


def _shape_fault(
    path: tuple[str | int, ...], kind: str, words: str, given: Any, known: tuple[str, ...], spot: Spot
) -> None:
    name, hint = str(path[-1])[:80] if path else "", ""
    if kind == "extra_forbidden":
        there = _NESTED.get(str(path[0]), known) if len(path) > 1 else known
        meant = _MEANT.get(name) if len(path) == 1 and _MEANT.get(name) in known else None
        near = f"write {meant!r}" if meant else did_you_mean(name, there).removeprefix("; ")
        message, hint = f"there is no field {name!r}", near or f"the fields are: {', '.join(there)}"
        if path[0] == "fallback" and name in ("arguments", "args", "parameters"):
            hint = "the fallback is called with the step's own arguments"
    elif kind == "missing":
        message = f"the field {name!r} is missing"
    else:
        wanted = _WANTED.get(kind) or expected(words).replace("a string with", "text of")
        message = f"{path_text(path)} must be {wanted}, got {described(given)}"
    spot.fault(message, hint, path_text(path, spot.place)[len(spot.place) :])


def _answer_step(answer: Any) -> dict[str, Any]:
    """The last step of a plan with an `answer`: the call that gives it."""
    value = answer["template"] if isinstance(answer, dict) and answer.keys() == {"template"} else answer
    return {"id": FINAL_ANSWER, "tool": FINAL_ANSWER, "arguments": {"value": value}}


def steps_json(plan: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The steps of a plan that `plan_json` wrote, with the last one, which gives its `answer`."""
    answer = plan.get("answer")
    return [*plan["steps"], *([] if answer is None else [_answer_step(answer)])]


def plan_json(plan: Plan) -> dict[str, Any]:
    """Write the plan as JSON, without fields that have their default. Arguments are not copied."""
    written: dict[str, Any] = {"goal": plan.goal} if plan.goal else {}
    steps = plan.steps if plan.answer is None else plan.steps[:-1]
    written["steps"] = [_step_json(step) for step in steps]
    if plan.output_steps:
        written["output_steps"] = list(plan.output_steps)
    if plan.answer is not None:
        written["answer"] = plan.answer
    if plan.missing:
        written["missing"] = plan.missing
    return written


def _step_json(step: Step) -> dict[str, Any]:
    written: dict[str, Any] = {"id": step.id, "tool": step.tool, "arguments": step.arguments}
    if step.model_fields_set <= PLAIN_FIELDS:
        return written
    written |= step.model_dump(mode="json", exclude_defaults=True, exclude=_SHARED_FIELDS)
    for name in ("when", "for_each"):
        if (value := getattr(step, name)) is not None:
            written[name] = value
    return written
