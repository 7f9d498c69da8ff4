"""One question to a model whose answer has to be JSON: asked with the schema, without it where the endpoint takes none,
and once more where the answer has faults. Knows nothing of what is asked.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

import anyio

from callgate.agent.models.model import NO_USAGE, Assistant, Message, Model, Reply, Request, Usage, User
from callgate.errors import ModelError, ModelRejected, ModelUnavailable

from .prompts import repair
from .tool_plan import BadWords

__all__ = ["Asked", "ask"]

Read = TypeVar("Read")

MAX_ANSWER_TOKENS = 4_096
"""Of an answer: a chain of 32 tools with their parameters fits, and one that does not end is cut."""
_MAX_REPEATED = 8_000
"""Characters of a faulty answer that are shown to the model again."""
_TAKES_NO_SCHEMA = frozenset({400, 404, 415, 422, 500, 501})
"""Statuses of an endpoint that does not know structured output, or does not take this schema; some local servers say
500 then."""


@dataclass(frozen=True, slots=True)
class Asked(Generic[Read]):
    """What came of a question.

    Attributes:
        readings: of the answers, the newest last; one or two. One, where there was no second answer.
        faults: of the first answer, those of the last one, and how an answer ended where it did not end well.
        usage: of all requests.
        takes_schema: whether the endpoint took the schema; where it did not, it need not be sent again.
        bad_words: the answers that had faults.
    """

    readings: tuple[Read, ...]
    faults: tuple[str, ...]
    usage: Usage = NO_USAGE
    takes_schema: bool = True
    bad_words: tuple[BadWords, ...] = ()


async def ask(
    model: Model,
    request: str,
    *,
    system: str,
    schema: Mapping[str, Any] | None,
    read: Callable[[str], tuple[Read, tuple[str, ...]]],
    temperature: float | None,
    keep: Callable[[Read], bool] = lambda reading: False,
) -> Asked[Read]:
    """Ask, and ask once more with all faults of the answer.

    Args:
        model: that is asked.
        request: the question.
        system: the system text.
        schema: of the answer; None where the endpoint takes none.
        read: gives the reading of an answer, and its faults.
        temperature: of the requests.
        keep: whether a reading that has faults can be used, where no second answer comes, or none in time.

    Raises:
        ModelError: there was no answer, or none that is to be kept.
    """
    messages: tuple[Message, ...] = (User(text=request),)
    readings: list[Read] = []
    told: list[str] = []
    bad: list[BadWords] = []
    usage = NO_USAGE
    held = schema
    faults: tuple[str, ...] = ()
    for attempt in range(2):
        asking = Request(
            messages=messages,
            system=system,
            max_output_tokens=MAX_ANSWER_TOKENS,
            temperature=temperature,
            json_schema=held,
        )
        worth = bool(readings) and keep(readings[0])  # then a second answer is not all that there is
        try:
            with anyio.move_on_after(_share_of_the_time() if worth else None) as in_time:
                try:
                    reply = await model.ask(asking)
                except (ModelRejected, ModelUnavailable) as error:
                    if held is None or error.status not in _TAKES_NO_SCHEMA:
                        raise
                    held = None
                    told.append(f"the endpoint does not take the answer's schema, and was asked without: {error}"[:300])
                    reply = await model.ask(replace(asking, json_schema=None))
        except ModelError as error:
            if not worth:
                raise
            told += [*faults, f"asked again, the model gave no answer: {error}"[:300]]
            break
        if in_time.cancelled_caught:
            told += [*faults, "asked again, the model did not answer in time"]
            break
        usage += reply.usage
        reading, faults = read(reply.turn.text)
        readings.append(reading)
        ended = _badly(reply)
        if ended and faults:
            faults = (ended, *faults)
        over = not faults or attempt == 1 or reply.ended == "refused"
        if faults:
            bad.append(_bad_words(reply, asked_again=not over))
        told += faults if over else (f"asked again: {each}" for each in faults)
        if over:
            break
        shown = reply.turn.text[:_MAX_REPEATED] or "(nothing)"
        messages = (*messages, Assistant(text=shown), User(text=repair(faults)))
    return Asked(tuple(readings), tuple(told), usage, held is schema, tuple(bad))


def _share_of_the_time() -> float | None:
    """Most of the seconds that are left, so that the first answer can be used when they are over; None for no end."""
    left = anyio.current_effective_deadline() - anyio.current_time()
    return 0.9 * left if math.isfinite(left) else None


def _bad_words(reply: Reply, *, asked_again: bool) -> BadWords:
    """What kind of answer it is that has faults."""
    text = reply.turn.text
    starts = [place for place in (text.find("{"), text.find("[")) if place >= 0]
    if reply.ended == "refused":
        return BadWords("refused", asked_again)
    if not text.strip():
        return BadWords("empty", asked_again)
    if not starts:
        return BadWords("prose", asked_again)
    try:
        json.JSONDecoder().raw_decode(text, min(starts))
    except (ValueError, RecursionError):
        return BadWords("half_json", asked_again)
    return BadWords("no_schema", asked_again)


def _badly(reply: Reply) -> str:
    match reply.ended:
        case "refused":
            return f"the model refused: {reply.refusal[:200]}" if reply.refusal else "the model refused"
        case "cut":
            return "the answer was cut at the limit of its tokens; make it shorter"
        case "empty":
            return "the answer is empty"
        case "calls":
            return "tools were called instead of an answer"
        case _:
            return ""
