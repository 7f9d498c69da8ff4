"""What a provider's wire does: a request as the body of HTTP, and what comes back as a reply. Pure; knows no SDK."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol, Self

from .model import Delta, Reply, Request

__all__ = ["Collector", "Form", "Wire"]

Form = str
"""A way to ask for JSON of a schema; empty where none is asked for."""


class Collector(Protocol):
    """Makes a reply of the events of one stream."""

    @property
    def complete(self) -> bool:
        """Whether the end of the reply has come."""

    @property
    def counted(self) -> bool:
        """Whether its usage has come, which may be after its end."""

    def take(self, event: Mapping[str, Any]) -> None:
        """The next event.

        Raises:
            BadReply: it is an error, or no event.
        """

    def reply(self) -> Reply:
        """The whole reply.

        Raises:
            BadReply: it is none.
        """


class Wire(Protocol):
    """A provider's wire, for one model."""

    def other(self, name: str) -> Self:
        """The same for another model."""

    def dispensable(self, body: Mapping[str, Any]) -> tuple[str, ...]:
        """Fields of a body that can be left out where the endpoint does not take them."""

    def forms(self, request: Request) -> tuple[Form, ...]:
        """The ways to ask for what the request wants, the best first; later ones for endpoints that refuse it."""

    def body(self, request: Request, form: Form, *, stream: bool) -> dict[str, Any]:
        """The fields of the HTTP request."""

    def without(self, body: Mapping[str, Any], field: str) -> dict[str, Any]:
        """The body with this dispensable field left out, or with what is said in its place."""

    def whole(self, answer: Any, request: Request, form: Form) -> Reply:
        """The reply that came at once.

        Raises:
            BadReply: it is none.
        """

    def collector(self, request: Request, form: Form, on_delta: Callable[[Delta], None]) -> Collector:
        """For a reply that comes in pieces."""

    def too_long(self, status: int, error: Any) -> int | None:
        """The tokens of the input where an error says that they are too many, 0 where it does not say how many; None
        for another error.

        Args:
            status: of the HTTP response.
            error: its body, as JSON.
        """
