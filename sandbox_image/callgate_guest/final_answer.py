"""`final_answer`: hands the answer of the task to the host, and ends the program."""

from __future__ import annotations

import builtins
from typing import Any

from .link import Link
from .tool_calls import ToolCall, ToolError
from .wire import FINAL_ANSWER, INVALID_PARAMS


class AnswerRejected(ToolError):
    """The value does not fit, or a check of the host refuses it. The message says what to mend."""

    __module__ = "builtins"


def offer(link: Link, *, offered: bool) -> None:
    """Give the next program `final_answer` and `AnswerRejected`, or take them away."""

    def final_answer(value: Any) -> Any:
        """Give the answer of the task, and end the program. Raises `AnswerRejected` if the value does not fit."""
        try:  # it blocks: nothing of the program goes on behind an answer
            ToolCall(link, FINAL_ANSWER, {"value": value}, blocks=True).block()
        except ToolError as error:
            if error.code != INVALID_PARAMS:
                raise
            words = error.message.removeprefix(f"tool {FINAL_ANSWER!r}: ")
            raise AnswerRejected(words, tool=FINAL_ANSWER, code=error.code, data=error.data) from None
        raise SystemExit  # no `except Exception` catches it, and in a task it ends the whole program

    final_answer.__qualname__ = FINAL_ANSWER
    for name, value in {FINAL_ANSWER: final_answer, "AnswerRejected": AnswerRejected}.items():
        if offered:
            setattr(builtins, name, value)
        else:
            vars(builtins).pop(name, None)
