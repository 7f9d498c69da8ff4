"""One step compiled: its tool found, its references read, its arguments held against the schema, every fault told."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from callgate.errors import InvalidArguments, ToolError
from callgate.tools import Retry, Tool
from callgate.tools.faults import described, path_text
from callgate.tools.turns import at_once

from .faults import MAX_WARNINGS, PlanFault, too_many
from .model import Step
from .references import INDEX, ITEM, Names, Reference
from .schemas import impossible, with_texts
from .sizes import json_size
from .templates import Expressions, Scope, compile_template, literal_members
from .values import Literal, Template, Text

__all__ = ["CompiledStep", "Offering", "StepCompiler"]

_LARGE = 64 * 1024
_CONDITIONAL = frozenset(
    {"allOf", "anyOf", "oneOf", "if", "not", "dependentRequired", "dependentSchemas", "dependencies"}
)
"""Keywords by which one argument may decide what another must be."""
_REFERENCE = re.compile(r"\$\{([^{}]*)\}")
_RUNS_PLANS = frozenset({"execute_tool_plan", "execute_code", "execute_plan"})


@dataclass(frozen=True, slots=True)
class Offering:
    """The tools that a plan may call."""

    tools: Mapping[str, Tool]
    """By name."""
    refusal: Callable[[str], str]
    """Why a tool that is not among them cannot be called, by the name that the plan has."""
    canonical: Callable[[str], str] = str
    """The tool's name for any other way to write it (``server.tool``, the Python name); else the name itself."""
    writes_text: bool = True
    """What a ``$ref:`` brings to an argument that takes nothing but text is written as JSON; not for programs."""

    def find(self, name: str) -> Tool | None:
        """The tool that is meant."""
        return self.tools.get(name) or self.tools.get(self.canonical(name))


@dataclass(slots=True, eq=False)  # not frozen: that costs 2 µs a step; nobody changes one
class CompiledStep:
    """One step, ready to run."""

    index: int
    id: str
    tool: Tool
    template: Template
    needs: tuple[int, ...]
    """Steps that must have succeeded."""
    after: tuple[int, ...]
    """Steps that must have ended, beside those."""
    when: Template | None
    for_each: Template | None
    fallback: Tool | None
    threshold: float | None
    """Below this confidence the fallback is called; None: on errors."""
    retry: Retry | None
    model: Step
    large: bool
    """Its arguments are long as they are written."""

    @property
    def known_items(self) -> int | None:
        """How many calls it makes: 1 without `for_each`; None where that is known only when it runs."""
        if self.for_each is None:
            return 1
        return len(self.model.for_each) if isinstance(self.model.for_each, list) else None


class StepCompiler:
    """Compiles the steps of one plan, which it must know by name first.

    Args:
        offering: the tools that the plan may call.
        missing: the plan's own rule for paths that lead nowhere.
        faults: what is wrong is added here.
        max_memory_bytes: what its expressions may take, about.
    """

    def __init__(
        self,
        offering: Offering,
        missing: str | None,
        faults: list[PlanFault],
        max_memory_bytes: int | None = None,
    ) -> None:
        self.ids: list[str] = []
        self.index: dict[str, int] = {}
        """The first step of each id."""
        self.edges: list[tuple[int, ...]] = []
        """For every step those it waits for, as far as it was compiled."""
        self.names = Names(self.index)
        self._offering = offering
        self._missing = missing
        self._faults = faults
        self._steps: list[Step | None] = []
        self._warnings = 0
        self._expressions = Expressions(max_memory_bytes)

    def know(self, name: str, step: Step | None) -> bool:
        """Take note of the next step of the plan. Returns whether its id is new."""
        index = len(self.ids)
        self.ids.append(name)
        self.edges.append(())
        self._steps.append(step)
        new = name not in self.index
        self.index.setdefault(name, index)
        self.names.note(name)
        return new

    def fault(self, code: str, index: int, place: str, message: str, hint: str = "", *, warning: bool = False) -> None:
        """Note what is wrong with a step; of warnings only so many."""
        if warning:
            self._warnings += 1
            if self._warnings > MAX_WARNINGS:
                return
        at = f"steps[{index}]{place}"
        self._faults.append(PlanFault(code, self.ids[index], at, message, hint, "warning" if warning else "error"))

    def compile(self, index: int) -> CompiledStep | None:
        """The step of that index, ready to run; None where it has faults."""
        step = self._steps[index]
        if step is None:
            return None
        before = len(self._faults)
        tool = self._tool(index, step.tool, ".tool")
        scope = Scope(step.id, self.names, self._missing, f"steps[{index}]", self._faults, self._expressions)
        size = json_size(step.arguments, _LARGE)
        when = None if step.when is None else compile_template(step.when, scope, ("when",))
        each = None if step.for_each is None else compile_template(step.for_each, scope, ("for_each",))
        self.names.item = each is not None
        template = compile_template(step.arguments, scope, ("arguments",))
        self.names.item = False
        fallback = None if step.fallback is None else self._tool(index, step.fallback.tool, ".fallback.tool")
        self._check_conditions(index, step, when, each)
        if tool is not None:
            self._check_arguments(index, tool, template, size)
            if self._offering.writes_text:
                template = with_texts(template, step.arguments, tool.input_schema)
            self._check_options(index, step, tool, fallback)
            if fallback is not None and fallback is not tool:
                self._check_arguments(index, fallback, template, size, instead=True)
        self._check_paths(index, scope.references)
        self._check_texts(index, scope.bare)
        needs = dict.fromkeys(
            reference.source for reference in scope.references if reference.source not in (ITEM, INDEX)
        )
        needs.update(dict.fromkeys(self._named(index, step.depends_on, "depends_on")))
        later = dict.fromkeys(self._named(index, step.after, "after"))
        if step.execution_mode == "sequential" and index:
            later[index - 1] = None
        after = tuple(earlier for earlier in later if earlier not in needs)
        self.edges[index] = (*needs, *after)
        if tool is None or (len(self._faults) > before and any(f.severity == "error" for f in self._faults[before:])):
            return None
        condition = step.fallback.condition if step.fallback else "on_error"
        return CompiledStep(
            index, step.id, tool, template, tuple(needs), after, when, each, fallback,
            step.fallback.threshold if step.fallback and condition == "on_low_confidence" else None,
            None if step.retry is None else step.retry.policy(), step,
            size > _LARGE,
        )  # fmt: skip

    def _named(self, index: int, names: tuple[str, ...], option: str) -> Iterator[int]:
        """The steps that an option names."""
        for number, name in enumerate(names):
            found = self.index.get(name)
            if found is not None:
                yield found
            elif not too_many(self._faults):
                fault = self.names.unknown(name)
                self.fault("unknown-step", index, f".{option}[{number}]", fault.message, fault.hint)

    def _tool(self, index: int, name: str, place: str) -> Tool | None:
        if name in _RUNS_PLANS and self._offering.find(name) is None:
            message = f"a step cannot call {name!r} (recursive plans are not allowed)"
            self.fault("recursive-plan", index, place, message, "write its steps into this plan")
            return None
        tool = self._offering.find(name)
        if tool is None:
            message, _, hint = self._offering.refusal(name).partition("; ")
            self.fault("unknown-tool", index, place, message, hint)
        return tool

    def _check_conditions(self, index: int, step: Step, when: Template | None, each: Template | None) -> None:
        """`when` must depend on something, or say true or false; `for_each` must be able to be an array."""
        if isinstance(step.when, str) and step.when.strip().lower() in ("true", "false"):
            self.fault("shape", index, ".when", f"{step.when!r} is text", "write true or false without quotes")
        elif isinstance(step.when, str) and isinstance(when, (Literal, Text)):
            bare = json.dumps(_REFERENCE.sub(r"\1", step.when[:200]), ensure_ascii=False)
            hint = f'write {{"$expr": {bare}}} for an expression, or "$ref:…" for a result'
            self.fault("shape", index, ".when", f"{step.when[:80]!r} is text, and would always be true", hint)
        elif isinstance(when, Literal) and not isinstance(when.value, bool):
            hint = 'write a reference or {"$expr": "…"}'
            self.fault("shape", index, ".when", f"it does not depend on anything: {described(when.value)}", hint)
        if isinstance(each, Text) or (isinstance(each, Literal) and not isinstance(each.value, list)):
            name = step.for_each if isinstance(step.for_each, str) else ""
            hint = f'write "$ref:{name}"' if name in self.index else 'write an array, "$ref:…", or {"$expr": "…"}'
            given = "text" if isinstance(each, Text) else described(each.value)
            self.fault("shape", index, ".for_each", f"it must be an array or a reference to one, got {given}", hint)
        elif isinstance(step.for_each, list) and len(step.for_each) > step.max_items:
            message = f"it has {len(step.for_each)} items, more than max_items, which is {step.max_items}"
            self.fault("too-large", index, ".for_each", message, "set max_items on the step, or split it")

    def _check_arguments(self, index: int, tool: Tool, template: Template, size: int, *, instead: bool = False) -> None:
        """Hold the arguments against the schema, where no reference stands."""
        if isinstance(template, Literal) and not isinstance(template.value, dict):
            given = described(template.value)
            self.fault("argument", index, ".arguments", f"the arguments must be an object, got {given}")
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
        except Exception:  # a validator of the operator's own: the gate says what it makes of it
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
            self.fault("argument", index, place, message, hint)

    def _check_options(self, index: int, step: Step, tool: Tool, fallback: Tool | None) -> None:
        if step.retry is not None and step.retry.attempts > 1 and not tool.repeatable and tool.retry is None:
            message = f"'retry' changes nothing: {tool.name!r} has side effects and is called once"
            hint = "the operator may allow it with @tool(retry=...)"
            self.fault("no-effect", index, ".retry", message, hint, warning=True)
        asks = step.fallback is not None and step.fallback.condition == "on_low_confidence"
        if asks and impossible(tool.output_schema, ("confidence",), step.id) is not None:
            message = f"results of {tool.name!r} have no 'confidence': the fallback will never be asked"
            self.fault("no-effect", index, ".fallback.condition", message, "write on_error", warning=True)
        if fallback is not None and fallback.name == tool.name:
            self.fault("shape", index, ".fallback.tool", "the fallback is the tool itself", "name another tool")
        for option in ("max_items", "on_item_error"):
            if option in step.model_fields_set and step.for_each is None:
                message = f"{option!r} changes nothing without 'for_each'"
                self.fault("no-effect", index, f".{option}", message, warning=True)

    def _check_texts(self, index: int, texts: list[tuple[str, tuple[str | int, ...]]]) -> None:
        """A text such as ``s1.email`` may be a file's name; where the step's tool has that field it is worth a word."""
        for text, place in texts:
            name, _, path = text.partition(".")
            target = self._steps[self.index[name]]
            tool = None if target is None else self._offering.find(target.tool)
            known = (tool.output_schema or {}).get("properties") if tool is not None else None
            if isinstance(known, dict) and path.partition(".")[0].partition("[")[0] in known:
                message = f"{text[:80]!r} names the step {name!r} and is no reference"
                hint = f'to send its result write "$ref:{text[:80]}"; if the text is meant, leave it'
                self.fault("looks-like-a-reference", index, path_text(place, ""), message, hint, warning=True)

    def _check_paths(self, index: int, references: list[Reference]) -> None:
        for reference in references:
            if reference.source < 0 or not reference.path or self._warnings >= MAX_WARNINGS:
                continue
            target = self._steps[reference.source]
            tool = None if target is None else self._offering.find(target.tool)
            if tool is None or target is None or target.for_each is not None or target.fallback is not None:
                continue
            found = impossible(tool.output_schema, reference.path, target.id)
            if found is not None:
                place = "".join(f".{part}" if isinstance(part, str) else f"[{part}]" for part in reference.place)
                message = f"{reference.text[:80]!r} will lead nowhere: {found[0]}"
                self.fault("unknown-path", index, place, message, found[1], warning=True)


def _is_in(place: str, argument: str) -> bool:
    """Whether a place in the arguments is that argument or lies within it."""
    return place == argument or place.startswith((f"{argument}.", f"{argument}["))


def _names_fit(tool: Tool, names: frozenset[str]) -> bool:
    """Whether the tool has all of these arguments and needs no other."""
    return names.issubset(tool.parameters) and names.issuperset(tool.input_schema.get("required", ()))


def _may_depend(name: str, opened: frozenset[str], tool: Tool) -> bool:
    """Whether a fault at that place may go away with the results; that an argument does not exist never does."""
    if name in opened and name not in tool.parameters:
        schema = tool.input_schema
        return "patternProperties" in schema or schema.get("additionalProperties", False) is not False
    return not name or any(_is_in(name, each) for each in opened)
