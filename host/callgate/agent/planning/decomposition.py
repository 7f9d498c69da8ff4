"""A query into its parts: by a model, or as the caller has it. Chooses no tools.

Where a model does not manage, the query is one part, with a confidence that says so.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from callgate.agent.models.model import NO_USAGE, Model, Usage
from callgate.errors import ConfigurationError

from .asking import Asking
from .chain import cycle_in
from .prompts import DECOMPOSITION_SCHEMA, DECOMPOSITION_SYSTEM, decomposition_request
from .reading import MAX_PARTS, MAX_TEXT_CHARACTERS, read_decomposition
from .tool_plan import BadWords, DecomposedQuery, SubQuery

__all__ = [
    "FAILED_CONFIDENCE", "Decomposer", "Decomposition", "as_one_part", "as_unicode", "checked_decomposition",
    "completed",
]  # fmt: skip

FAILED_CONFIDENCE = 0.2
"""Of a query that a model could not take apart: below every threshold that makes sense, so that a simple plan is
made of it."""


@dataclass(frozen=True, slots=True)
class Decomposition:
    """What a model made of a query.

    Attributes:
        query: in its parts.
        usage: tokens.
        faults: of the model's words.
        bad_words: its answers that had faults.
    """

    query: DecomposedQuery
    usage: Usage = NO_USAGE
    faults: tuple[str, ...] = ()
    bad_words: tuple[BadWords, ...] = ()


class Decomposer:
    """Takes queries apart with a model.

    Args:
        model: that is asked.
        temperature: of its answers; None for the provider's default.
    """

    def __init__(self, model: Model, *, temperature: float | None = 0.0) -> None:
        self._asking = Asking(model, temperature)

    async def decompose(self, query: str) -> Decomposition:
        """The query in at most 12 parts; as one part with a low confidence, where the model does not manage.

        Raises:
            ModelError: there was no answer of the model.
        """

        def read(value: Any) -> tuple[DecomposedQuery | None, list[str]]:
            return read_decomposition(value, query)

        asked = await self._asking.ask(
            decomposition_request(query), system=DECOMPOSITION_SYSTEM, schema=DECOMPOSITION_SCHEMA, read=read
        )
        found = asked.readings[-1] or as_one_part(query, FAILED_CONFIDENCE)
        return Decomposition(found, asked.usage, asked.faults, asked.bad_words)


def as_one_part(query: str, confidence: float = 1.0) -> DecomposedQuery:
    """The query as it is."""
    return DecomposedQuery(
        query=query, sub_queries=(SubQuery(text=query, confidence=confidence),), confidence=confidence
    )


def as_unicode(text: str) -> str:
    """The text; half a character, which no plan and no request can carry, as ``?``."""
    return text.encode("utf-8", "replace").decode()


def completed(given: DecomposedQuery, query: str) -> DecomposedQuery:
    """A caller's own decomposition, of this query where it names none, and as Unicode."""
    parts = tuple(replace(part, text=as_unicode(part.text)) for part in given.sub_queries)
    whole = as_unicode(given.query)
    return replace(given, query=whole if whole.strip() else query, sub_queries=parts)


def checked_decomposition(given: DecomposedQuery) -> DecomposedQuery:
    """A caller's own decomposition, as it is.

    Raises:
        ConfigurationError: it has no parts or too many, one is empty or too long, a confidence is not from 0 to 1, or
            parts need what does not exist, or each other.
    """
    count = len(given.sub_queries)
    if not 1 <= count <= MAX_PARTS:
        raise ConfigurationError(f"a decomposed query has from 1 to {MAX_PARTS} sub-queries, not {count}")
    shares = {"confidence": given.confidence, "hypothetical_confidence": given.hypothetical_confidence}
    for place, part in enumerate(given.sub_queries):
        at = f"sub_queries[{place}]"
        if not part.text.strip() or len(part.text) > MAX_TEXT_CHARACTERS:
            raise ConfigurationError(f"{at}.text has to have from 1 to {MAX_TEXT_CHARACTERS} characters")
        shares[f"{at}.confidence"] = part.confidence
        for need in part.depends_on:
            if not 0 <= need < count or need == place:
                raise ConfigurationError(f"{at}.depends_on: {need} is the position of no other sub-query")
    for name, share in shares.items():
        if share is not None and not 0 <= share <= 1:
            raise ConfigurationError(f"{name} is a number from 0 to 1, not {share!r}")
    if circle := cycle_in({place: part.depends_on for place, part in enumerate(given.sub_queries)}):
        raise ConfigurationError(f"the sub-queries need each other in a circle: {' → '.join(map(str, circle))}")
    return given
