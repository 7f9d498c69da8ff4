"""A program followed in its own order: what it prints, which calls it makes, its value or its error. A generator.

    Began(call)   begin this call now, do not wait for it
    Wait(calls)   go on when all have ended, or as soon as one of them has failed
    Printed(text, line)
    Worked()        nothing but that it goes on

1. This is the meaning of a program on the fast path. The ghost, a walk ahead of it, only decides which calls begin
   before the walk is there.
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
from typing import Any, Final

from callgate.plan.expressions import Budget, BudgetExceeded, ExpressionError, ExpressionFault
from callgate.plan.expressions.comprehensions import UNPACK
from callgate.plan.expressions.expression import guarded
from callgate.plan.expressions.functions import FUNCTIONS
from callgate.plan.expressions.kinds import DICTS, KNOWN, SEQUENCES, foreign
from callgate.plan.expressions.operators import formatted
from callgate.plan.expressions.weight import charge_text
from callgate.program.graph.flow import (
    Assign,
    Augment,
    Block,
    CallTool,
    Change,
    Flow,
    For,
    Gather,
    Has,
    Hold,
    If,
    Item,
    Print,
    Pure,
    Return,
    Target,
)  # fmt: skip
from callgate.protocol.logs import printable
from callgate.tools.decoding import strict_json
from callgate_guest.wire import ERRORS, TEXT_LIMIT, cut

from .changes import augment, call_method, has_method, set_item
from .steps import (
    WORKED,
    Began,
    Done,
    MadeCall,
    Printed,
    ProgramFailed,
    Step,
    Unsure,
    Wait,
    Worked,
    decode,
    traceback_of,
)  # fmt: skip

__all__ = ["Began", "Done", "MadeCall", "Printed", "ProgramFailed", "Step", "Unsure", "Wait", "Walk", "Worked", "walk"]

_REPR: Final = 114
_READERS: Final = 4
"""Arguments are read here, and then measured, written and checked by the gate."""
_A_WHILE: Final = 20
"""Operations between two chances for others to have a turn."""


_METHODS: Final = {
    Assign: "_assign", Augment: "_augment", CallTool: "_call", Change: "_change", For: "_for",
    Gather: "_gather", Has: "_has", Hold: "_hold", If: "_if", Print: "_print",
}  # fmt: skip
"""Name of the method for each kind of operation; a method that takes turns is a generator of steps."""


def walk(flow: Flow, source: str, inputs: Mapping[str, Any], budget: Budget) -> Generator[Step, None, Done]:
    """Follow a program. Raises `ProgramFailed` and `Unsure`.

    Args:
        flow: the program.
        source: its text, for tracebacks.
        inputs: JSON values of its inputs; they are copied.
        budget: what it may spend.
    """
    return Walk(flow, source, inputs, budget).run()


class Walk:
    """One walk through a flow; see `walk`. Each kind of operation has its method."""

    def __init__(self, flow: Flow, source: str, inputs: Mapping[str, Any], budget: Budget) -> None:
        self._flow = flow
        self._source = source
        self._budget = budget
        self._values: dict[str, Any] = {}
        self._inputs = inputs
        self._slots: dict[str, Any] = {}
        self._counts = [0] * len(flow.sites)
        self._line = 1
        self._since = 0
        """Operations since others could have had a turn."""

    def run(self) -> Generator[Step, None, Done]:
        try:
            for name in self._flow.inputs:
                self._values[name] = decode(json.dumps(self._inputs[name], allow_nan=False))
            *body, last = self._flow.body
            yield from self._block(tuple(body))
            assert isinstance(last, Return)
            self._line = last.line
            return self._done(self._evaluate(last.value))
        except ExpressionError as error:
            if "unhashable" in error.message:  # a key of a display or comprehension: which line, depends on the version
                raise Unsure(self._line, "a key that cannot be one, the sandbox tells where") from None
            if error.notes:
                raise Unsure(self._line, _NOTES) from None
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
            steps = getattr(self, _METHODS[type(operation)])(operation)
            if steps is not None:
                yield from steps
            elif self._is_time():
                yield WORKED

    def _is_time(self) -> bool:
        """Whether others may have a turn."""
        self._since = (self._since + 1) % _A_WHILE
        return not self._since

    # values

    def _evaluate(self, pure: Pure) -> Any:
        try:
            return pure.expression.evaluate(self._values, self._budget)
        except ExpressionError as error:
            raise self._at(pure, error) from None

    def _at(self, pure: Pure, error: ExpressionError) -> Exception:
        if not pure.exact or error.notes:
            return Unsure(pure.line, _NOTES if pure.exact else "where and how this expression fails, the sandbox tells")
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
        if not has_method(holder, operation.method):
            raise Unsure(operation.line, f"`.{operation.method}` of something that may not have it")
        given = [self._evaluate(argument) for argument in operation.arguments]
        guarded(self._budget, lambda: call_method(self._budget, holder, operation.method, given))

    def _has(self, operation: Has) -> None:
        if not has_method(self._evaluate(operation.object), operation.method):
            raise Unsure(operation.line, f"`.{operation.method}` of something that may not have it")

    def _print(self, operation: Print) -> Iterator[Step]:
        try:
            texts = operation.texts.expression.evaluate(self._values, self._budget)
        except ExpressionError as error:
            if error.kind == "ValueError" and "Exceeds the limit" in error.message:
                raise Unsure(operation.line, "a number has too many digits to be printed") from None
            raise self._at(operation.texts, error) from None
        for index, text in enumerate(texts):
            if index and operation.between:
                yield Printed(operation.between, operation.line)
            if text:
                yield Printed(text, operation.line)
        if operation.end:
            yield Printed(operation.end, operation.line)

    # calls

    def _given(self, operation: CallTool) -> dict[str, Any]:
        """The arguments of a call, as the program has them."""
        arguments: dict[str, Any] = {}
        for name, pure in operation.arguments:
            value = self._evaluate(pure)
            arguments[name] = value
            self._budget.make(64 + len(value) if type(value) is str else 64)  # kept as long as the run
        self._line = operation.line
        return arguments

    def _as_json(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """The arguments as JSON values of their own."""
        if all(map(_is_small, arguments.values())):
            return arguments
        text = self._json(arguments, "the arguments are not JSON values", _READERS)
        copied: dict[str, Any] = self._copied(text, _READERS)
        return copied

    def _call(self, operation: CallTool) -> Iterator[Step]:
        site = operation.site
        call = MadeCall(site, self._counts[site.number], self._as_json(self._given(operation)), operation.task)
        self._counts[site.number] += 1
        self._slots[operation.slot] = call
        yield Began(call)

    def _hold(self, operation: Hold) -> None:
        if operation.slot is None:
            self._slots[operation.slots] = []
        else:
            self._budget.make(16)
            self._slots[operation.slots].append(self._slots[operation.slot])

    def _gather(self, operation: Gather) -> Iterator[Step]:
        calls = self._held_by(operation)
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
        results = [self._result_of(call) for call in calls]
        self._values[operation.variable] = results[0] if operation.alone else results

    def _held_by(self, operation: Gather) -> list[MadeCall]:
        """The calls that a gather awaits."""
        calls: list[MadeCall] = []
        for part in operation.parts:
            held = self._slots[part.slot]
            calls += held if part.spread else [held]
        return calls

    def _result_of(self, call: MadeCall) -> Any:
        if not call.is_read:
            assert call.result is not None
            self._pay_for_reading(call.result)
        try:
            return call.value()
        except ValueError as error:
            raise Unsure(self._line, str(error)) from None

    def _pay_for_reading(self, text: str) -> None:
        self._budget.make(2 * len(text) + 80 * self._charge_reading(text))

    def _charge_reading(self, text: str) -> int:
        """Pay for reading JSON that was written here. Returns an upper bound of its number of values."""
        objects = text.count("{")
        parts = text.count(",") + objects + text.count("[")
        exponents = text.count("e-") + text.count("e+")  # far from 1, a float takes a thousand bits to read
        self._budget.work(1 + (parts >> 2) + objects + 2 * exponents + (len(text) >> 8))
        return parts

    def _json(self, value: Any, fault: str, writers: int = 1) -> str:
        options = {"allow_nan": False, "separators": (",", ":")}
        budget = self._budget
        try:
            if writers > 1:
                charge_text(budget, value, json=True, times=writers - 1)
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
            if self._is_time():
                yield WORKED
            yield from self._block(operation.body)
            self._line = operation.line

    # how it ends

    def _done(self, value: Any) -> Done:
        if _is_small(value):
            return Done(value)
        try:
            text = self._json(value, "the value is not JSON")
        except Unsure:
            if type(value) in _MAY_HOLD_MORE:
                raise  # a set or NaN is refused, also inside a container; any other value becomes text
            try:
                shown = guarded(self._budget, lambda: formatted(self._budget, value, _REPR, ""))
            except ExpressionError as error:
                raise Unsure(self._line, f"the value has no text: {error.message}") from None
            return Done(None, printable(cut(shown)))
        return Done(self._copied(text), None, len(text))

    def _copied(self, text: str, readers: int = 1) -> Any:
        for _ in range(readers):
            self._charge_reading(text)
        try:
            return strict_json(text)
        except ValueError as error:  # two keys that are the same as text
            raise Unsure(self._line, str(error)) from None

    def _call_failed(self, call: MadeCall, line: int) -> Exception:
        assert call.error is not None
        details = call.error.get("data") or {}
        tool = details.get("tool")
        return self._failed(
            ERRORS.get(call.error["code"], "ToolError"),
            str(call.error["message"]),
            line,
            tool if tool is not None else None,
        )

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
_NOTES: Final = "an error to which Python adds more, which the sandbox shows"
_NO_MORE: Final = object()
_MAY_HOLD_MORE: Final = DICTS | SEQUENCES | {set, float}


def _is_small(value: Any) -> bool:
    """Whether a value is JSON as it stands and immutable."""
    kind = type(value)
    if kind is str:
        return len(value) < TEXT_LIMIT
    if kind is int:
        return bool(-(1 << 1024) < value < 1 << 1024)
    return value is None or kind is bool or (kind is float and math.isfinite(value))
