"""Takes a query apart with a model. Chooses no tools.

Where the model does not manage, the query stays whole, with a confidence that says so.
"""

from __future__ import annotations

from typing import Any

from callgate.agent.models.model import Model

from .asking import Asked, Asking
from .prompts import DECOMPOSITION_SCHEMA, DECOMPOSITION_SYSTEM, decomposition_request
from .reading import read_decomposition
from .tool_plan import DecomposedQuery, as_one_part

__all__ = ["FAILED_CONFIDENCE", "Decomposer"]

FAILED_CONFIDENCE = 0.2
"""Of a query that a model could not take apart. A lower value than any sensible threshold, so that the plan is a simple
one."""


class Decomposer:
    """Takes queries apart with a model.

    Args:
        model: the model to ask.
        temperature: of its answers; None for the provider's default.
    """

    def __init__(self, model: Model, *, temperature: float | None = 0.0) -> None:
        self._asking = Asking(model, temperature)

    async def decompose(self, query: str) -> Asked[DecomposedQuery]:
        """Take a query apart into at most 12 parts; one part with a low confidence where the model does not manage.

        Raises:
            ModelError: the model gave no answer.
        """

        def read(value: Any) -> tuple[DecomposedQuery, list[str]]:
            found, faults = read_decomposition(value, query)
            return found or as_one_part(query, FAILED_CONFIDENCE), faults

        return await self._asking.ask(
            decomposition_request(query), system=DECOMPOSITION_SYSTEM, schema=DECOMPOSITION_SCHEMA, read=read
        )
