"""The final answer of a task: by a program, by a plan, or in the model's own words. Knows when one may end the task.

1. A program or a plan ends the task with its answer if it is the only call of its turn, and nothing in it speaks for
   another look: no call failed, was denied, or has an unknown outcome, the program called nothing with effects after
   its answer, and the answer is not too long to be shown. Else the model gets the result, and goes on.
2. With an `output_type`, the model's own words are JSON of that type, or the text itself where the type is `str`.
"""

from __future__ import annotations

import json
from typing import Any

from callgate.errors import InvalidArguments
from callgate.runtime import Answer, CodeResult, PlanResult
from callgate.runtime.final_answer import AnswerType, FinalAnswer
from callgate_guest.wire import FINAL_ANSWER

from .options import AgentOptions

__all__ = ["BY_PROGRAM", "given_answer", "how_to_answer", "read_words", "text_of", "why_again"]

_JSON = (
    "When you have the answer of the task, reply with it as JSON and with nothing else: no other words, no fence. It "
    "fits this JSON Schema: {schema}"
)
BY_PROGRAM = "The answer of the task is given by final_answer(...) in a program, or by the answer of a plan."


def given_answer(answer: Answer) -> str:
    """JSON text of the final answer that a program or a plan gave; empty if it gave none."""
    given = _given(answer)
    return "" if given is None else given.json


def why_again(answer: Answer, most: int, *, alone: bool = True) -> str:
    """Why the model looks again at what gave a final answer, in words; empty if it need not, or if none was given.

    Args:
        answer: to a call.
        most: most characters of a final answer.
        alone: whether it is the only call of its turn.
    """
    run, given = answer.result, _given(answer)
    if given is None or not isinstance(run, (CodeResult, PlanResult)):
        return ""
    if not alone:
        return "there were other calls in the same turn"
    if not run.ok:
        return f"{'a step' if isinstance(run, PlanResult) else 'the program'} failed"
    if given.went_on:
        return f"the program went on after its answer: it called {given.went_on}"
    if len(given.json) > most:
        return f"it is longer than {most:,} characters"
    if run.truncated:
        return f"a limit cut {', '.join(run.truncated)}"
    for call in run.calls:
        # a call that was cancelled was not made, or only read; a fallback makes no unknown outcome known
        helped = call.fallback is not None and call.status != "unknown_outcome"
        if call.status not in ("succeeded", "cancelled") and not helped and call.tool != FINAL_ANSWER:
            return f"the call of {call.tool} has the status {call.status}"
    return ""


def _given(answer: Answer) -> FinalAnswer | None:
    run = answer.result
    return run.final_answer if isinstance(run, (CodeResult, PlanResult)) else None


def text_of(answer: str) -> str:
    """An answer in words: a text as it is, any other value as JSON. Raises `ValueError` if it is not JSON."""
    try:
        value: Any = json.loads(answer)
    except RecursionError:
        raise ValueError("the answer is nested too deeply") from None
    return value if isinstance(value, str) else answer


async def read_words(type: AnswerType, words: str) -> FinalAnswer:
    """The answer in a model's own words. Raises `InvalidArguments` with what to mend."""
    text = words.strip()
    if not type.is_text:
        if text.startswith("```") and text.endswith("```") and "\n" in text:
            text = text[text.index("\n") + 1 : -3].strip()
        try:
            json.loads(text)
        except (ValueError, RecursionError) as error:
            raise InvalidArguments(f"it is not JSON: {error}", tool=FINAL_ANSWER) from None
    else:
        text = json.dumps(text, ensure_ascii=False)
    found = type.read(text)
    await type.check(found.value)
    return found


def how_to_answer(options: AgentOptions, *, by_program: bool) -> str:
    """Lines for the system text; empty where any words are an answer.

    Args:
        options: of the agent.
        by_program: whether a program or a plan has to give the answer.
    """
    lines = [BY_PROGRAM] if by_program else []
    if options.output_type is not None and not options.answer_type.is_text:
        lines.append(_JSON.format(schema=json.dumps(options.answer_type.schema, ensure_ascii=False)))
    return "\n".join(lines)
