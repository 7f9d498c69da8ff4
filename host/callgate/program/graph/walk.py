"""A program followed in its own order: what it prints, which calls it makes, its value or its error. A generator.

    Began(call)   begin this call now, do not wait for it
    Wait(calls)   go on when all have ended, or as soon as one of them has failed
    Printed(text)

1. This is the meaning of a program on the fast path. The plan only decides which calls begin before the walk is there.
2. Expressions are evaluated by `callgate.plan.expressions`; what changes a value in place, by `changes`. Both are paid
   for, before, out of one budget for the whole program.
3. Where it is not certain what CPython would do, `Unsure` is raised: the sandbox decides.

Makes no call, knows no clock and no limit but the budget.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from callgate.plan.expressions import Budget, BudgetExceeded, ExpressionError, ExpressionFault, Record
from callgate.plan.expressions.comprehensions import UNPACK
from callgate.plan.expressions.expression import guarded
from callgate.plan.expressions.functions import FUNCTIONS
from callgate.plan.expressions.kinds import KNOWN, foreign
from callgate.plan.expressions.texts import formatted
from callgate.tools.decoding import strict_json

from .changes import augment, call_method, has_method, set_item
from .flow import (
    Assign,
    Augment,
    Block,
    CallTool,
    Change,
    Finish,
    Flow,
    For,
    Gather,
    Has,
    Hold,
    If,
    Item,
    Operation,
    Print,
    Pure,
    Return,
    Site,
    Target,
)  # fmt: skip
from .tracebacks import TEXT_LIMIT, cut, traceback_of

__all__ = ["Began", "Done", "MadeCall", "Printed", "ProgramFailed", "Step", "Unsure", "Wait", "walk"]

_REPR: Final = 114
_TASK_ERROR: Final = "an error of a task that nobody awaited is told in the logs"


class MadeCall:
    """One call that the walk has come to. Whoever makes it sets `result`, or `error` and `order`."""

    __slots__ = ("_is_read", "_value", "arguments", "awaited", "error", "number", "order", "result", "site", "task")

    def __init__(self, site: Site, number: int, arguments: dict[str, Any], task: bool) -> None:
        self.site = site
        self.number = number
        """Which of its site's calls it is, from 0."""
        self.arguments = arguments
        """JSON, a copy of its own."""
        self.task = task
        self.awaited = False
        self.result: str | None = None
        """As compact JSON."""
        self.error: dict[str, Any] | None = None
        """As it crosses the wire: `callgate.protocol.run.error_object`."""
        self.order = 0
        """Of two calls that failed, the one with the lower number failed first."""
        self._value: Any = None
        self._is_read = False

    @property
    def ended(self) -> bool:
        return self.result is not None or self.error is not None

    def value(self) -> Any:
        """The result as a program sees it: read once, the same object each time."""
        if not self._is_read:
            assert self.result is not None
            self._value, self._is_read = _decode(self.result), True
        return self._value


@dataclass(frozen=True, slots=True)
class Began:
    call: MadeCall


@dataclass(frozen=True, slots=True)
class Printed:
    text: str


@dataclass(frozen=True, slots=True)
class Wait:
    calls: tuple[MadeCall, ...]


Step = Began | Printed | Wait


@dataclass(frozen=True, slots=True)
class Done:
    """The program's value: JSON, or as text where it is none."""

    value: Any
    value_repr: str | None = None
    size: int = 0
    """Bytes of the value as compact JSON; 0 where it is small."""


class ProgramFailed(Exception):
    """The program ends with an error that nothing in it catches."""

    def __init__(self, kind: str, message: str, line: int, traceback: str, tool: str | None = None) -> None:
        super().__init__(f"{kind}: {message}")
        self.kind = kind
        self.message = message
        self.line = line
        self.traceback = traceback
        self.tool = tool


class Unsure(Exception):
    """What CPython would do next is not certain, or would cost the host too much."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(f"line {line}: {reason}")
        self.line = line
        self.reason = reason


def walk(flow: Flow, source: str, inputs: Mapping[str, Any], budget: Budget) -> Generator[Step, None, Done]:
    """Follow a program. Raises `ProgramFailed` and `Unsure`.

    Args:
        flow: the program.
        source: its text, for tracebacks.
        inputs: JSON values of its inputs; they are copied.
        budget: what it may spend.
    """
    return _Walk(flow, source, inputs, budget).run()


class _Walk:
    def __init__(self, flow: Flow, source: str, inputs: Mapping[str, Any], budget: Budget) -> None:
        self._flow = flow
        self._source = source
        self._budget = budget
        self._values: dict[str, Any] = {}
        self._inputs = inputs
        self._slots: dict[str, Any] = {}
        self._counts = [0] * len(flow.sites)
        self._tasks: list[MadeCall] = []
        self._line = 1

    def run(self) -> Generator[Step, None, Done]:
        try:
            for name in self._flow.inputs:
                self._values[name] = _decode(json.dumps(self._inputs[name], allow_nan=False))
            *body, last = self._flow.body
            yield from self._block(tuple(body))
            assert isinstance(last, Return)
            self._line = last.line
            return self._done(self._evaluate(last.value))
        except ProgramFailed:
            if any(task.error is not None and not task.awaited for task in self._tasks):
                raise Unsure(self._line, _TASK_ERROR) from None
            raise
        except ExpressionError as error:
            raise self._failed(error.kind, error.message, self._line) from None
        except ExpressionFault as fault:
            raise Unsure(self._line, fault.message) from None
        except BudgetExceeded as exceeded:
            raise Unsure(self._line, str(exceeded)) from None
        except (RecursionError, MemoryError, OverflowError) as error:
            raise Unsure(self._line, f"a value is too large or nested too deeply ({type(error).__name__})") from None

    def _block(self, block: Block) -> Iterator[Step]:
        for operation in block:
            self._line = operation.line
            kind = type(operation)
            plain = _PLAIN.get(kind)
            if plain is not None:
                plain(self, operation)
            else:
                yield from _GOING_ON[kind](self, operation)

    # values

    def _evaluate(self, pure: Pure) -> Any:
        try:
            return pure.expression.evaluate(self._values, self._budget)
        except ExpressionError as error:
            raise self._at(pure, error) from None

    def _at(self, pure: Pure, error: ExpressionError) -> Exception:
        if not pure.exact:
            return Unsure(pure.line, "where and how this expression fails, the sandbox tells")
        return self._failed(error.kind, error.message, pure.line)

    def _bind(self, target: Target, value: Any) -> None:
        if isinstance(target, str):
            self._values[target] = value
        elif isinstance(target, Item):
            holder = self._evaluate(target.object)
            index = self._evaluate(target.index)
            guarded(self._budget, lambda: set_item(self._budget, holder, index, value))
        else:
            if type(value) not in KNOWN:
                raise foreign(value)
            self._budget.work(len(target))
            parts = guarded(self._budget, lambda: UNPACK[len(target)](value))
            for each, part in zip(target, parts, strict=True):
                self._bind(each, part)

    def _assign(self, operation: Assign) -> None:
        self._bind(operation.target, self._evaluate(operation.value))

    def _augment(self, operation: Augment) -> None:
        value = self._evaluate(operation.value)
        budget, before = self._budget, self._values[operation.name]
        self._values[operation.name] = guarded(budget, lambda: augment(budget, operation.operator, before, value))

    def _change(self, operation: Change) -> None:
        holder = self._evaluate(operation.object)
        given = [self._evaluate(argument) for argument in operation.arguments]
        guarded(self._budget, lambda: call_method(self._budget, holder, operation.method, given))

    def _has(self, operation: Has) -> None:
        if not has_method(self._evaluate(operation.object), operation.method):
            raise Unsure(operation.line, f"`.{operation.method}` of something that may not have it")

    def _print(self, operation: Print) -> Iterator[Step]:
        try:
            text = operation.text.expression.evaluate(self._values, self._budget)
        except ExpressionError as error:
            if error.kind == "ValueError" and "Exceeds the limit" in error.message:
                raise Unsure(operation.line, "a number has too many digits to be printed") from None
            raise self._at(operation.text, error) from None
        if text:
            yield Printed(text)

    # calls

    def _call(self, operation: CallTool) -> Iterator[Step]:
        arguments: dict[str, Any] = {}
        plain = True
        for name, pure in operation.arguments:
            value = self._evaluate(pure)
            arguments[name] = value
            plain = plain and _is_small(value)
        self._line = operation.line
        if not plain:
            arguments = self._copied(self._json(arguments, "the arguments are no JSON values"))
        site = operation.site
        call = MadeCall(site, self._counts[site.number], arguments, operation.task)
        self._counts[site.number] += 1
        if operation.task:
            self._tasks.append(call)
        self._slots[operation.slot] = call
        yield Began(call)

    def _hold(self, operation: Hold) -> None:
        if operation.slot is None:
            self._slots[operation.slots] = []
        else:
            self._budget.make(16)
            self._slots[operation.slots].append(self._slots[operation.slot])

    def _finish(self, operation: Finish) -> Iterator[Step]:
        call: MadeCall = self._slots[operation.slot]
        call.awaited = True
        if not call.ended:
            yield Wait((call,))
        self._line = operation.line
        if call.error is not None:
            raise self._call_failed(call, operation.line)
        self._values[operation.variable] = call.value()

    def _gather(self, operation: Gather) -> Iterator[Step]:
        calls: list[MadeCall] = []
        for part in operation.parts:
            held = self._slots[part.slot]
            if part.spread:
                calls.extend(held)
            else:
                calls.append(held)
        self._budget.make(16 * len(calls))
        for call in calls:
            call.awaited = True
        first = next((call for call in calls if call.error is not None), None)
        if first is None and not all(call.ended for call in calls):
            yield Wait(tuple(calls))
            failed = [call for call in calls if call.error is not None]
            first = min(failed, key=lambda call: call.order) if failed else None
        self._line = operation.line
        if first is not None:
            raise self._call_failed(first, operation.line)
        self._values[operation.variable] = [call.value() for call in calls]

    def _json(self, value: Any, fault: str) -> str:
        options = {"allow_nan": False, "separators": (",", ":")}
        budget = self._budget
        try:
            text = guarded(budget, lambda: FUNCTIONS["json.dumps"].call(budget, [value], options))
        except ExpressionError as error:
            raise Unsure(self._line, f"{fault}: {error.message}") from None
        assert isinstance(text, str)
        return text

    # branches and loops

    def _if(self, operation: If) -> Iterator[Step]:
        held = bool(self._evaluate(operation.test))
        yield from self._block(operation.body if held else operation.orelse)

    def _for(self, operation: For) -> Iterator[Step]:
        values = operation.values.expression.items(self._values, self._budget)
        while True:
            try:
                value = next(values, _NO_MORE)
            except ExpressionError as error:
                raise self._at(operation.values, error) from None
            if value is _NO_MORE:
                return
            self._line = operation.line
            self._budget.work(1)
            if type(value) not in KNOWN:
                raise foreign(value)
            self._bind(operation.target, value)
            yield from self._block(operation.body)
            self._line = operation.line

    # how it ends

    def _done(self, value: Any) -> Done:
        if _is_small(value):
            return Done(value)
        try:
            text = self._json(value, "")
        except Unsure:
            try:
                shown = guarded(self._budget, lambda: formatted(self._budget, value, _REPR, ""))
            except ExpressionError as error:
                raise Unsure(self._line, f"the value has no text: {error.message}") from None
            return Done(None, _printable(cut(shown)))
        return Done(self._copied(text), None, len(text))

    def _copied(self, text: str) -> Any:
        try:
            return strict_json(text)
        except ValueError as error:  # two keys that are the same as text
            raise Unsure(self._line, str(error)) from None

    def _call_failed(self, call: MadeCall, line: int) -> Exception:
        assert call.error is not None
        details = call.error.get("data") or {}
        tool = details.get("tool")
        return self._failed("ToolError", str(call.error["message"]), line, tool if tool is not None else None)

    def _failed(self, kind: str, message: str, line: int, tool: str | None = None) -> Exception:
        if kind == "AttributeError" and _SUGGESTS and not message.startswith("the result has no field"):
            return Unsure(line, "Python may have a suggestion to make")
        flow = self._flow
        frames = [(line, "<module>")]
        first, last = flow.function_lines
        if flow.function is not None and flow.call_line is not None and first <= line <= last:
            frames = [(flow.call_line, "<module>"), (line, flow.function)]
        return ProgramFailed(kind, cut(message), line, traceback_of(self._source, frames, kind, message), tool)


_SUGGESTS: Final = sys.version_info >= (3, 12)
"""In the traceback of an AttributeError: did you mean …?"""
_NO_MORE: Final = object()
_decode: Final = json.JSONDecoder(object_hook=Record).decode

_PLAIN: Final[dict[type[Operation], Any]] = {
    Assign: _Walk._assign,
    Augment: _Walk._augment,
    Change: _Walk._change,
    Has: _Walk._has,
    Hold: _Walk._hold,
}
_GOING_ON: Final[dict[type[Operation], Any]] = {
    CallTool: _Walk._call,
    Finish: _Walk._finish,
    For: _Walk._for,
    Gather: _Walk._gather,
    If: _Walk._if,
    Print: _Walk._print,
}


def _is_small(value: Any) -> bool:
    """Whether it is JSON as it stands, and nobody could change it."""
    kind = type(value)
    if kind is str:
        return len(value) < TEXT_LIMIT
    if kind is int:
        return bool(-(1 << 1024) < value < 1 << 1024)
    return value is None or kind is bool or (kind is float and math.isfinite(value))


def _printable(text: str) -> str:
    return text if text.isascii() else text.encode("utf-8", "replace").decode()
