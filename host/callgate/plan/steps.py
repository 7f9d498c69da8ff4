"""Compile one step: find its tool, read its references, check its arguments against the schema, note every fault."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from callgate.errors import InvalidArguments, ToolError
from callgate.limits import Limits
from callgate.tools import Retry, Tool
from callgate.tools.faults import described
from callgate.tools.turns import at_once

from .faults import MAX_WARNINGS, Faults, Spot
from .model import PLAIN_FIELDS, Step
from .references import INDEX, ITEM, Names, Reference
from .schemas import impossible
from .sizes import json_size
from .templates import Expressions, Place, Scope, compile_template, literal_members, place_text
from .values import Literal, Template, Text

__all__ = ["CompiledStep", "Offering", "StepCompiler"]

_LARGE = 64 * 1024
_CONDITIONAL = frozenset(
    {"allOf", "anyOf", "oneOf", "if", "not", "dependentRequired", "dependentSchemas", "dependencies"}
)
"""Keywords with which one argument may decide what another must be."""
_REFERENCE = re.compile(r"\$\{([^{}]*)\}")
_POSITION = re.compile(r"steps\[[0-9]+\]")
_RESERVED_IDS = {
    "steps": "how steps are named by position",
    "item": "the item of a for_each",
    "index": "the number of an item of a for_each",
}
_RUNS_PLANS = frozenset({"execute_tool_plan", "execute_code", "execute_plan"})


@dataclass(frozen=True, slots=True)
class Offering:
    """The tools that a plan may call."""

    tools: Mapping[str, Tool]
    """By name."""
    refusal: Callable[[str], str]
    """Says why a plan cannot call a tool of this name, for names that are not in `tools`."""
    canonical: Callable[[str], str] = str
    """Returns the tool's name for another way to write it (``server.tool``, the Python name)."""
    writes_text: bool = True
    """Whether a ``$ref:`` writes other values as JSON for arguments that take only text; False for programs."""

    def find(self, name: str) -> Tool | None:
        """Return the tool that a name means."""
        return self.tools.get(name) or self.tools.get(self.canonical(name))


@dataclass(slots=True, eq=False)  # not frozen: that would cost 2 µs a step
class CompiledStep:
    """One step, ready to run."""

    index: int
    id: str
    tool: Tool
    template: Template
    needs: tuple[int, ...]
    """Steps that must succeed first."""
    after: tuple[int, ...]
    """Other steps that must end first."""
    when: Template | None
    for_each: Template | None
    fallback: Tool | None
    threshold: float | None
    """Call the fallback below this confidence; None: on errors."""
    retry: Retry | None
    model: Step
    large: bool
    """Whether the arguments are long as written."""

    @property
    def known_items(self) -> int | None:
        """Calls that the step makes: 1 without `for_each`; None if only the run will show."""
        if self.for_each is None:
            return 1
        return len(self.model.for_each) if isinstance(self.model.for_each, list) else None


class StepCompiler:
    """Compiles the steps of one plan. Call `know` for every step, then `compile`.

    Args:
        offering: the tools that the plan may call.
        missing: the plan's rule for paths that lead nowhere.
        faults: every fault is added here.
        limits: `memory_bytes` bounds the memory of expressions, about.
    """

    def __init__(self, offering: Offering, missing: str | None, faults: Faults, limits: Limits) -> None:
        self.edges: list[tuple[int, ...]] = []
        """For every step the steps it waits for; empty until the step is compiled."""
        self.names = Names()
        self._offering = offering
        self._missing = missing
        self.faults = faults
        self._steps: list[Step | None] = []
        self._expressions = Expressions(limits.memory_bytes)
        self._only_text: dict[str, dict[Place, bool]] = {}

    def know(self, name: str, step: Step | None) -> bool:
        """Add the next step of the plan by its id. Returns whether the id is free and not reserved."""
        index, first, means = len(self.names.order), self.names.ids.get(name), _RESERVED_IDS.get(name)
        self.edges.append(())
        self._steps.append(step)
        self.names.note(name)
        if name.startswith("steps[") and _POSITION.fullmatch(name) and name != f"steps[{index}]":
            means = "the step at that position"
        if means is not None:
            self.spot(index).fault(f"{name!r} means {means}", "rename the step", ".id", code="reserved-id")
        if first is not None:
            number = next((n for n in range(2, 20) if f"{name}_{n}" not in self.names.ids), index)
            hint = f"rename this one, for example to {f'{name}_{number}'!r}, and the references that mean it"
            message = f"duplicate step id {name!r}: steps[{first}] has it already"
            self.spot(index).fault(message, hint, ".id", code="duplicate-id")
        return first is None and means is None

    def spot(self, index: int) -> Spot:
        """Return the place of a step, for faults."""
        return Spot(self.names.order[index], f"steps[{index}]", self.faults)

    def compile(self, index: int) -> CompiledStep | None:
        """Compile the step of that index; None if it has faults."""
        step = self._steps[index]
        if step is None:
            return None
        before = self.faults.errors
        spot = self.spot(index)
        tool = self._tool(spot, step.tool, ".tool")
        schema = tool.input_schema if tool is not None and self._offering.writes_text else None
        only_text = self._only_text.setdefault(step.tool, {})
        scope = Scope(spot, self.names, self._missing, schema, only_text, self._expressions)
        size = json_size(step.arguments, _LARGE)
        when = None if step.when is None else compile_template(step.when, scope, ("when",))
        each = None if step.for_each is None else compile_template(step.for_each, scope, ("for_each",))
        self.names.item = each is not None
        template = compile_template(step.arguments, scope, ("arguments",))
        self.names.item = False
        fallback = None if step.fallback is None else self._tool(spot, step.fallback.tool, ".fallback.tool")
        has_options = not step.model_fields_set <= PLAIN_FIELDS
        if has_options:
            self._check_conditions(spot, step, when, each)
        if tool is not None:
            self._check_arguments(spot, tool, template, size)
            if has_options:
                self._check_options(spot, step, tool, fallback)
            if fallback is not None and fallback is not tool:
                self._check_arguments(spot, fallback, template, size, instead=True)
        self._check_paths(spot, scope.references)
        self._check_texts(spot, scope.bare)
        needs = {reference.source: None for reference in scope.references if reference.source not in (ITEM, INDEX)}
        after: tuple[int, ...] = ()
        if has_options:
            needs.update(dict.fromkeys(self._named(spot, step.depends_on, "depends_on")))
            later = dict.fromkeys(self._named(spot, step.after, "after"))
            if step.execution_mode == "sequential" and index:
                later[index - 1] = None
            after = tuple(earlier for earlier in later if earlier not in needs)
        self.edges[index] = (*needs, *after)
        if tool is None or self.faults.errors > before:
            return None
        condition = step.fallback.condition if step.fallback else "on_error"
        return CompiledStep(
            index, step.id, tool, template, tuple(needs), after, when, each, fallback,
            step.fallback.threshold if step.fallback and condition == "on_low_confidence" else None,
            None if step.retry is None else step.retry.policy(), step,
            size > _LARGE,
        )  # fmt: skip

    def _named(self, spot: Spot, names: tuple[str, ...], option: str) -> Iterator[int]:
        """Return the steps that an option names; note those that do not exist."""
        for number, name in enumerate(names):
            found = self.names.ids.get(name)
            if found is not None:
                yield found
            elif not self.faults.too_many:
                fault = self.names.unknown(name)
                spot.fault(fault.message, fault.hint, below=f".{option}[{number}]", code=fault.code)

    def _tool(self, spot: Spot, name: str, place: str) -> Tool | None:
        if name in _RUNS_PLANS and self._offering.find(name) is None:
            message = f"a step cannot call {name!r} (recursive plans are not allowed)"
            spot.fault(message, "write its steps into this plan", below=place, code="recursive-plan")
            return None
        tool = self._offering.find(name)
        if tool is None:
            message, _, hint = self._offering.refusal(name).partition("; ")
            spot.fault(message, hint, below=place, code="unknown-tool")
        return tool

    def _check_conditions(self, spot: Spot, step: Step, when: Template | None, each: Template | None) -> None:
        """Note a `when` that no result can change, and a `for_each` that cannot be an array."""
        if isinstance(step.when, str) and step.when.strip().lower() in ("true", "false"):
            spot.fault(f"{step.when!r} is text", "write true or false without quotes", below=".when")
        elif isinstance(step.when, str) and isinstance(when, (Literal, Text)):
            bare = json.dumps(_REFERENCE.sub(r"\1", step.when[:200]), ensure_ascii=False)
            hint = f'write {{"$expr": {bare}}} for an expression, or "$ref:…" for a result'
            spot.fault(f"{step.when[:80]!r} is text, and would always be true", hint, below=".when")
        elif isinstance(when, Literal) and not isinstance(when.value, bool):
            hint = 'write a reference or {"$expr": "…"}'
            spot.fault(f"it does not depend on anything: {described(when.value)}", hint, below=".when")
        if isinstance(each, Text) or (isinstance(each, Literal) and not isinstance(each.value, list)):
            name = step.for_each if isinstance(step.for_each, str) else ""
            hint = f'write "$ref:{name}"' if name in self.names.ids else 'write an array, "$ref:…", or {"$expr": "…"}'
            given = "text" if isinstance(each, Text) else described(each.value)
            spot.fault(f"it must be an array or a reference to one, got {given}", hint, below=".for_each")
        elif isinstance(step.for_each, list) and len(step.for_each) > step.max_items:
            message = f"it has {len(step.for_each)} items, more than max_items, which is {step.max_items}"
            spot.fault(message, "set max_items on the step, or split it", below=".for_each", code="too-large")

    def _check_arguments(self, spot: Spot, tool: Tool, template: Template, size: int, *, instead: bool = False) -> None:
        """Check the arguments against the schema, except where references stand."""
        if isinstance(template, Literal) and not isinstance(template.value, dict):
            given = described(template.value)
            spot.fault(f"the arguments must be an object, got {given}", below=".arguments", code="argument")
            return
        arguments, opened = literal_members(template)
        if arguments is None or (len(opened) == len(arguments) and _names_fit(tool, opened)):
            return
        try:
            if size > _LARGE:
                at_once(tool.validating(arguments))
            else:
                tool.validate(arguments)
            return
        except InvalidArguments as error:
            data = error.data if isinstance(error.data, dict) else {}
            faults = data.get("faults") or [{"argument": "", "problem": error.message}]
        except ToolError as error:
            faults = [{"argument": "", "problem": error.message}]
        except Exception:  # a validator of the operator's own failed: the gate will report it
            return
        conditional = opened and not _CONDITIONAL.isdisjoint(tool.input_schema)
        for fault in faults:
            name = str(fault["argument"])
            if conditional and name in tool.parameters and name not in tool.input_schema.get("required", ()):
                continue  # what it must be may hang on an argument that is not known yet
            if opened and _may_depend(name, opened, tool):
                continue  # the gate will see
            message, _, hint = str(fault["problem"]).partition("; ")
            hint = hint or (f"the arguments are: {', '.join(tool.parameters)}" if "missing" in message else "")
            place = f".arguments.{name}" if name else ".arguments"
            if instead:
                place, message = (
                    ".fallback.tool",
                    f"{tool.name!r} cannot be called with the step's arguments: {message}",
                )
            spot.fault(message, hint, below=place, code="argument")

    def _check_options(self, spot: Spot, step: Step, tool: Tool, fallback: Tool | None) -> None:
        if step.retry is not None and step.retry.attempts > 1 and not tool.repeatable and tool.retry is None:
            message = f"'retry' changes nothing: {tool.name!r} has side effects and is called once"
            hint = "the operator may allow it with @tool(retry=...)"
            spot.warn("no-effect", message, hint, below=".retry")
        asks = step.fallback is not None and step.fallback.condition == "on_low_confidence"
        if asks and impossible(tool.output_schema, ("confidence",), step.id) is not None:
            message = f"results of {tool.name!r} have no 'confidence': the fallback will never be asked"
            spot.warn("no-effect", message, "write on_error", below=".fallback.condition")
        if fallback is not None and fallback.name == tool.name:
            spot.fault("the fallback is the tool itself", "name another tool", below=".fallback.tool")
        for option in ("max_items", "on_item_error"):
            if option in step.model_fields_set and step.for_each is None:
                message = f"{option!r} changes nothing without 'for_each'"
                spot.warn("no-effect", message, below=f".{option}")

    def _check_texts(self, spot: Spot, texts: list[tuple[str, Place]]) -> None:
        """Warn of texts such as ``s1.email`` where the tool of `s1` has that field."""
        for text, place in texts:
            name, _, path = text.partition(".")
            schema = self._result_schema(self._steps[self.names.ids[name]])
            known = schema.get("properties") if schema is not None else None
            if isinstance(known, dict) and path.partition(".")[0].partition("[")[0] in known:
                message = f"{text[:80]!r} names the step {name!r} but is not a reference"
                hint = f'to send its result write "$ref:{text[:80]}"; if the text is meant, leave it'
                spot.warn("looks-like-a-reference", message, hint, below=f".{place_text(place)}")

    def _check_paths(self, spot: Spot, references: list[Reference]) -> None:
        for reference in references:
            if reference.source < 0 or not reference.path or self.faults.warnings >= MAX_WARNINGS:
                continue
            target = self._steps[reference.source]
            if target is None or target.for_each is not None or target.fallback is not None:
                continue
            found = impossible(self._result_schema(target), reference.path, target.id)
            if found is not None:
                message = f"{reference.text[:80]!r} will lead nowhere: {found[0]}"
                place = f".{place_text(reference.place)}"
                spot.warn("unknown-path", message, found[1], below=place)

    def _result_schema(self, step: Step | None) -> Mapping[str, Any] | None:
        """Return the output schema of a step's tool."""
        tool = None if step is None else self._offering.find(step.tool)
        return None if tool is None else tool.output_schema


def _is_in(place: str, argument: str) -> bool:
    """Return whether a place in the arguments is that argument or lies within it."""
    return place == argument or place.startswith((f"{argument}.", f"{argument}["))


def _names_fit(tool: Tool, names: frozenset[str]) -> bool:
    """Return whether the tool has all of these arguments and needs no other."""
    return names.issubset(tool.parameters) and names.issuperset(tool.input_schema.get("required", ()))


def _may_depend(name: str, opened: frozenset[str], tool: Tool) -> bool:
    """Return whether results may cure a fault at that place. An argument that does not exist is never cured."""
    if name in opened and name not in tool.parameters:
        schema = tool.input_schema
        return "patternProperties" in schema or schema.get("additionalProperties", False) is not False
    return not name or any(_is_in(name, each) for each in opened)
