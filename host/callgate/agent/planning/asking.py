"""One question to a model whose answer has to be JSON: asked with the schema, without it where the endpoint takes none,
and once more where the answer has faults. Knows nothing of what is asked.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

import anyio

from callgate.agent.models.model import NO_USAGE, Assistant, Message, Model, Reply, Request, Usage, User
from callgate.errors import ModelError, ModelRejected, ModelUnavailable

from .prompts import repair
from .reading import json_in
from .tool_plan import BadWords

__all__ = ["Asked", "Asking"]

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
    """The answers to a question.

    Attributes:
        readings: of the answers, the newest last; one or two. One, where there was no second answer.
        faults: of the first answer, those of the last one, and how an answer ended where it did not end well.
        usage: of all requests.
        bad_words: the answers that had faults.
    """

    readings: tuple[Read, ...]
    faults: tuple[str, ...]
    usage: Usage = NO_USAGE
    bad_words: tuple[BadWords, ...] = ()


class Asking:
    """Asks a model; remembers whether its endpoint takes schemas.

    Args:
        model: that is asked.
        temperature: of the requests; None for the provider's default.
    """

    def __init__(self, model: Model, temperature: float | None) -> None:
        self._model = model
        self._temperature = temperature
        self._takes_schema = True

    async def ask(
        self,
        request: str,
        *,
        system: str,
        schema: Mapping[str, Any],
        read: Callable[[Any], tuple[Read, Sequence[str]]],
        keep: Callable[[Read], bool] = lambda reading: False,
    ) -> Asked[Read]:
        """Ask, and ask once more with all faults of the answer.

        Args:
            request: the question.
            system: the system text.
            schema: of the answer.
            read: gives the reading of an answer's JSON (None where it has none), and its faults.
            keep: whether a reading that has faults can be used, where no second answer comes, or none in time.

        Raises:
            ModelError: there was no answer, or none that is to be kept.
        """
        messages: tuple[Message, ...] = (User(text=request),)
        readings: list[Read] = []
        told: list[str] = []
        bad: list[BadWords] = []
        usage = NO_USAGE
        faults: list[str] = []
        for is_last in (False, True):
            worth = bool(readings) and keep(readings[0])  # then a second answer is not all that there is
            try:
                with anyio.move_on_after(_share_of_the_time() if worth else None) as in_time:
                    reply = await self._reply(messages, system, schema, told)
            except ModelError as error:
                if not worth:
                    raise
                told += [*faults, f"asked again, the model gave no answer: {error}"[:300]]
                break
            if in_time.cancelled_caught:
                told += [*faults, "asked again, the model did not answer in time"]
                break
            usage += reply.usage
            value, unread, fault = json_in(reply.turn.text)
            reading, wrong = read(value)
            readings.append(reading)
            faults = [fault, *wrong] if value is not None and fault else [fault] if fault else list(wrong)
            if faults:
                faults = [*_badly(reply), *faults]
            over = not faults or is_last or reply.ended == "refused"
            if faults:
                kind = "refused" if reply.ended == "refused" else unread or "no_schema"
                bad.append(BadWords(kind, asked_again=not over))
            told += faults if over else (f"asked again: {each}" for each in faults)
            if over:
                break
            shown = reply.turn.text[:_MAX_REPEATED] or "(nothing)"
            messages = (*messages, Assistant(text=shown), User(text=repair(faults)))
        return Asked(tuple(readings), tuple(told), usage, tuple(bad))

    async def _reply(
        self, messages: tuple[Message, ...], system: str, schema: Mapping[str, Any], told: list[str]
    ) -> Reply:
        """The reply; without the schema where the endpoint takes none, and then never again with one."""
        request = Request(
            messages=messages,
            system=system,
            max_output_tokens=MAX_ANSWER_TOKENS,
            temperature=self._temperature,
            json_schema=schema if self._takes_schema else None,
        )
        try:
            return await self._model.ask(request)
        except (ModelRejected, ModelUnavailable) as error:
            if not self._takes_schema or error.status not in _TAKES_NO_SCHEMA:
                raise
            told.append(f"the endpoint does not take the answer's schema, and was asked without: {error}"[:300])
        reply = await self._model.ask(replace(request, json_schema=None))
        self._takes_schema = False
        return reply


def _share_of_the_time() -> float | None:
    """Most of the seconds that are left, so that the first answer can be used when they are over; None for no end."""
    left = anyio.current_effective_deadline() - anyio.current_time()
    return 0.9 * left if math.isfinite(left) else None


def _badly(reply: Reply) -> list[str]:
    """How a reply ended, where it did not end well."""
    match reply.ended:
        case "refused":
            return [f"the model refused: {reply.refusal[:200]}" if reply.refusal else "the model refused"]
        case "cut":
            return ["the answer was cut at the limit of its tokens; make it shorter"]
        case "calls":
            return ["tools were called instead of an answer"]
        case _:
            return []
