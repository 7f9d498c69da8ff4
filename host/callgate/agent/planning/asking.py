"""One question to a model whose answer has to be JSON: asked with a schema, without it where the endpoint takes none,
and once more where the answer has faults. Does not know what is asked.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

import anyio

from callgate.agent.models.model import NO_USAGE, Assistant, Message, Model, Reply, Request, Usage, User
from callgate.agent.models.traced import chat
from callgate.errors import ModelError, ModelRejected, ModelUnavailable

from .prompts import repair
from .reading import json_in
from .tool_plan import BadWords

__all__ = ["Asked", "Asking"]

Read = TypeVar("Read")

MAX_ANSWER_TOKENS = 4_096
"""Of an answer. A chain of 32 tools with their parameters fits."""
_MAX_REPEATED = 8_000
"""Characters of a faulty answer that are shown to the model again."""
_TAKES_NO_SCHEMA = frozenset({400, 404, 415, 422, 500, 501})
"""Statuses of an endpoint that does not know structured output, or does not take this schema. Some local servers answer
500 then."""


@dataclass(slots=True)
class Asked(Generic[Read]):
    """The outcome of a question.

    Attributes:
        reading: the better of the answers.
        faults: of both answers, and of the request.
        usage: tokens of all requests.
        bad_words: the answers that had faults.
    """

    reading: Read
    faults: list[str] = field(default_factory=list)
    usage: Usage = NO_USAGE
    bad_words: list[BadWords] = field(default_factory=list)


class Asking:
    """Asks a model; remembers whether its endpoint takes schemas.

    Args:
        model: the model to ask.
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
        is_of_use: Callable[[Read], bool] = lambda reading: False,
    ) -> Asked[Read]:
        """Ask; and where the answer has faults, ask once more with all of them.

        Args:
            request: the question.
            system: the system text.
            schema: of the answer.
            read: reads the JSON of an answer (None where there is none), and gives the faults.
            is_of_use: whether a reading with faults can be used where the second answer is worse or does not come.

        Raises:
            ModelError: the model gave no answer, or no second one after a first answer that is of no use.
        """
        messages: tuple[Message, ...] = (User(text=request),)
        notes: list[str] = []
        reply, reading, faults, kind = await self._once(messages, system, schema, read, notes)
        asked = Asked(reading, notes, reply.usage)
        if not faults:
            return asked
        again = reply.ended != "refused"
        asked.bad_words.append(BadWords(kind, asked_again=again))
        if not again:
            notes += faults
            return asked
        notes += (f"asked again: {each}" for each in faults)
        shown = reply.turn.text[:_MAX_REPEATED] or "(nothing)"
        messages = (*messages, Assistant(text=shown), User(text=repair(faults)))
        of_use = is_of_use(reading)
        try:
            with anyio.move_on_after(_share_of_the_time() if of_use else None):
                reply, reading, faults, kind = await self._once(messages, system, schema, read, notes)
                asked.usage += reply.usage
                notes += faults
                if faults:
                    asked.bad_words.append(BadWords(kind, asked_again=False))
                if is_of_use(reading) or not faults or not of_use:
                    asked.reading = reading
                return asked
            notes.append("asked again, the model did not answer in time")
        except ModelError as error:
            if not of_use:
                raise
            notes.append(f"asked again, the model gave no answer: {error}"[:300])
        return asked

    async def _once(
        self,
        messages: tuple[Message, ...],
        system: str,
        schema: Mapping[str, Any],
        read: Callable[[Any], tuple[Read, Sequence[str]]],
        notes: list[str],
    ) -> tuple[Reply, Read, list[str], Any]:
        """A reply, its reading, its faults, and the kind of bad words that it is with faults."""
        request = Request(
            messages=messages,
            system=system,
            max_output_tokens=MAX_ANSWER_TOKENS,
            temperature=self._temperature,
            json_schema=schema if self._takes_schema else None,
        )
        try:
            reply = await chat(self._model, request)
        except (ModelRejected, ModelUnavailable) as error:
            if not self._takes_schema or error.status not in _TAKES_NO_SCHEMA:
                raise
            notes.append(f"the endpoint does not take the answer's schema, and was asked without it: {error}"[:300])
            reply = await chat(self._model, replace(request, json_schema=None))
            self._takes_schema = False
        value, unread, fault = json_in(reply.turn.text)
        reading, wrong = read(value)
        faults = [fault] if fault else []
        if value is not None or not fault:
            faults += wrong
        if faults:
            faults = [*_bad_end(reply), *faults]
        return reply, reading, faults, "refused" if reply.ended == "refused" else unread or "no_schema"


def _share_of_the_time() -> float | None:
    """Most of the seconds that are left, so that the first answer can be used afterwards; None without a deadline."""
    left = anyio.current_effective_deadline() - anyio.current_time()
    return 0.9 * left if math.isfinite(left) else None


def _bad_end(reply: Reply) -> list[str]:
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
