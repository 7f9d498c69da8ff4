"""The final answer of a program: its type, its checks, and what one run has given.

1. `final_answer(value)` in a program is a call like any other: it passes the gate and has a record. The type is that of
   its one parameter, so the gate names every place that does not fit.
2. The first value that is accepted counts. It is *committed* where the program ends well.
3. The JSON text of an answer is the value as it was given, so the type reads the same value from it in a resumed task.
   A type with aliases, computed fields, or a validator that changes the value does not read what it writes.
4. The host cannot make a program stop there: a thread, a bare ``except:`` or a ``finally:`` runs on. So an answer says
   which tool with effects was called after it.
"""

from __future__ import annotations

import copy
import inspect
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import anyio.to_thread

from callgate.errors import ConfigurationError, InvalidArguments
from callgate.tools import Tool
from callgate.tools.turns import Work
from callgate_guest.wire import FINAL_ANSWER

from .gate.failures import propagates

if TYPE_CHECKING:
    from callgate.tools.annotations import Arguments

    from .gate.records import CallRecord

__all__ = ["AnswerCheck", "AnswerType", "FinalAnswer", "GivenAnswer", "called_after"]

logger = logging.getLogger("callgate")

AnswerCheck = Callable[[Any], Any]
"""Looks at an answer, sync (in a thread) or async. Raises `ValueError` or `AssertionError` with words for the model to
refuse the answer. Any other exception is logged, and refuses the answer without its words."""

_MOST_TYPES: Final = 400
_MOST_WORDS: Final = 2_000
"""Characters of the words of a check."""
_ABOUT: Final = "Give the answer of the task, and end the program."


@dataclass(frozen=True, slots=True)
class FinalAnswer:
    """An answer that a program gave."""

    value: Any
    """As the type has it: a model, a dataclass, a number."""
    json: str
    """As it was given, as JSON text."""
    went_on: str = ""
    """The tool with effects that the program called first after it had given the answer; empty if it called none."""

    @property
    def text(self) -> str:
        """In words: a text as it is, any other value as JSON."""
        return self.value if isinstance(self.value, str) else self.json


def _as_given(typed: Arguments) -> Arguments:
    """The contract of the arguments of `final_answer`, whose value becomes a `FinalAnswer`."""
    from callgate.tools.annotations import Arguments  # it imports pydantic, and runs without an answer need none

    class AsGiven(Arguments):
        schema, names = typed.schema, typed.names

        def _validated(self, tool: str, arguments: dict[str, Any], text: str) -> Work[dict[str, Any]]:
            valid = yield from typed._validated(tool, arguments, text)
            return {"value": FinalAnswer(valid["value"], text.removeprefix('{"value":')[:-1])}

    return AsGiven()


class AnswerType:
    """What a final answer must be.

    Args:
        type: any annotation that a tool's parameter may have.
        checks: look at each value that fits the type, in order.

    Raises:
        ConfigurationError: the type cannot be described by a JSON Schema, or a check cannot be called.
    """

    def __init__(self, type: Any = Any, checks: Sequence[AnswerCheck] = ()) -> None:
        for check in checks:
            if not callable(check):
                raise ConfigurationError(f"an answer check is a function of the answer, not {check!r}")
        self._checks = tuple(checks)

        async def final_answer(value: Any) -> None:
            raise NotImplementedError

        final_answer.__annotations__ = {"value": type, "return": None}
        made = Tool.from_function(final_answer, description=_ABOUT, read_only=True, allowed_callers=("code",))
        self.tool: Final = replace(made, input_contract=_as_given(made.input_contract))
        """For the stub; `GivenAnswer` has the function."""

    @classmethod
    def of(cls, given: Any) -> AnswerType:
        """`given` itself if it is an `AnswerType`, else that of the annotation."""
        return given if isinstance(given, AnswerType) else cls(given)

    @property
    def schema(self) -> dict[str, Any]:
        """JSON Schema of the value."""
        schema: dict[str, Any] = self.tool.input_schema["properties"]["value"]
        definitions: Mapping[str, Any] = self.tool.input_schema.get("$defs", {})
        return {**schema, "$defs": definitions} if definitions else schema

    @property
    def is_text(self) -> bool:
        """Whether every answer is a text."""
        return self.schema.get("type") == "string"

    @cached_property
    def stub(self) -> str:
        """The call, with the types in it, on one line."""
        from callgate.tools.stubs import result_types, signature  # slow to import, and runs without models need none

        line = signature(self.tool, FINAL_ANSWER).partition(" -> ")[0]
        types = result_types(self.tool, FINAL_ANSWER, most=_MOST_TYPES)
        return f"{line} ({types})" if types else line

    def read(self, json: str) -> FinalAnswer:
        """An answer from its JSON text. Raises `InvalidArguments` if it does not fit."""
        import pydantic_core

        try:
            value = pydantic_core.from_json(json)
        except (ValueError, TypeError) as error:
            raise InvalidArguments(f"it is not JSON: {error}", tool=FINAL_ANSWER) from None
        try:
            answer: FinalAnswer = self.tool.validate({"value": value})["value"]
            return replace(answer, json=json)
        except InvalidArguments:
            raise
        except Exception as error:  # of a validator in the type
            raise _broken("the type of the answer", error) from None

    async def check(self, value: Any) -> None:
        """Raise `InvalidArguments` with a check's words if it refuses the value, or if the check itself fails."""
        from callgate.tools.signature import is_async_callable

        for check in self._checks:
            try:
                if is_async_callable(check):
                    await check(value)
                else:
                    # in a list, since trio takes no awaitable from a thread
                    found = await anyio.to_thread.run_sync(lambda check: [check(value)], check, abandon_on_cancel=True)
                    if inspect.isawaitable(found[0]):
                        await found[0]
            except (ValueError, AssertionError) as error:
                words = str(error)[:_MOST_WORDS] or "the answer is refused"
                raise InvalidArguments(words, tool=FINAL_ANSWER) from None
            except BaseException as error:
                if await propagates(error):
                    raise
                raise _broken("a check of the answer", error) from None


def _broken(what: str, error: BaseException) -> InvalidArguments:
    """Log an exception of the operator's code, and build the error that hides it from programs and models."""
    logger.error("%s failed", what, exc_info=error)
    return InvalidArguments(f"{what} failed: an internal error; details are in the host's log", tool=FINAL_ANSWER)


def called_after(records: Sequence[CallRecord], only_reads: Callable[[str], bool]) -> str:
    """The tool with effects that a program called first after its answer was accepted; empty if it called none.

    Args:
        records: of the run's calls, in the order in which they came.
        only_reads: whether the tool of that name is read-only.
    """
    answered = False
    begun: set[int | None] = set()  # fallbacks of calls that came before the answer
    for record in records:
        if not answered or record.id in begun:
            begun.add(record.fallback_call)
            answered |= record.tool == FINAL_ANSWER and record.status == "succeeded"
        elif record.tool != FINAL_ANSWER and not record.reused and not only_reads(record.tool):
            return record.tool
    return ""


class GivenAnswer:
    """The final answer of one run.

    Attributes:
        tool: takes the answer.
        answer: the first that was accepted; None before.
    """

    def __init__(self, type: AnswerType) -> None:
        self.answer: FinalAnswer | None = None
        self._type = type
        self.tool = copy.copy(type.tool)
        object.__setattr__(self.tool, "function", self._take)  # a tool like the type's, and nothing is made anew

    async def _take(self, value: FinalAnswer) -> None:
        """Accept a value: nothing of it goes back, so no limit on results can fail the call of an accepted one."""
        await self._type.check(value.value)
        if self.answer is None:
            self.answer = value
