"""What OpenAI's and Anthropic's SDKs have alike: how a client is made, a request is sent, what their errors mean.

It is given the SDK and imports none; `openai_model` and `anthropic_model` each have their own.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from callgate.bench.model.model_client import ContextExceeded, ModelFailed, Patience

__all__ = ["Connection", "Line", "connected"]

_REASON_CHARACTERS = 400


@dataclass(frozen=True, kw_only=True, slots=True)
class Connection:
    """What a client is made with.

    Attributes:
        base_url: as the SDK takes it; empty for its default.
        key: for the API.
        timeout_seconds: for each attempt.
        retries: after failures that may pass; None for the SDK's default.
        loopback: it is on this machine, over plain HTTP: no proxy is asked, and no certificates are loaded.
    """

    base_url: str
    key: str
    timeout_seconds: float
    retries: int | None = None
    loopback: bool = False


def connected(sdk: Any, make: Callable[..., Any], connection: Connection) -> Any:
    """A client.

    Args:
        sdk: `openai` or `anthropic`.
        make: its class of asynchronous clients.
        connection: to what.
    """
    options: dict[str, Any] = {} if connection.retries is None else {"max_retries": connection.retries}
    if connection.loopback:
        options["http_client"] = sdk.DefaultAsyncHttpxClient(trust_env=False, verify=False)  # no TLS there
    address, seconds = connection.base_url or None, connection.timeout_seconds
    return make(base_url=address, api_key=connection.key, timeout=seconds, **options)


@dataclass(frozen=True, kw_only=True, slots=True)
class Line:
    """Where the requests of a conversation go.

    Attributes:
        sdk: `openai` or `anthropic`.
        create: the client's function that sends a request.
        patience: how long it is waited for.
        too_long: the tokens of the input where an error of the API says that they are too many, 0 where it does not
            say how many; None for another error.
    """

    sdk: Any
    create: Callable[..., Awaitable[Any]]
    patience: Patience
    too_long: Callable[[Any], int | None]

    async def sent(self, messages: Sequence[Mapping[str, Any]], options: Mapping[str, Any]) -> Any:
        """The answer to a request, as the SDK gives it.

        Args:
            messages: of the conversation.
            options: of the request, besides them.

        Raises:
            ContextExceeded: the input is too long.
            ModelFailed: any other failure, after the SDK's own attempts.
        """
        body = {"extra_body": {"messages": messages}}  # see `model_client.Chat`
        try:
            with self.patience.limit():
                return await self.create(messages=(), **options, **body)
        except self.sdk.APIStatusError as error:
            tokens = self.too_long(error)
            if tokens is not None:
                raise ContextExceeded(f"the input is too long for the model: {error}", tokens) from error
            raise self._failure(error) from error
        except (self.sdk.APIError, ValueError) as error:
            raise self._failure(error) from error

    def _failure(self, error: Exception) -> ModelFailed:
        """What an error means; OpenAI's and Anthropic's have the same names."""
        if isinstance(error, self.sdk.APITimeoutError):
            return ModelFailed(f"no reply of the model within {self.patience.attempt_seconds:g} s")
        if isinstance(error, self.sdk.APIConnectionError):
            return ModelFailed(f"no connection to the model: {_told(error.__cause__ or error)}")
        if isinstance(error, self.sdk.APIStatusError):
            return ModelFailed(f"the model's endpoint answered {error.status_code}: {_told(error)}")
        return ModelFailed(f"the model's endpoint gave what its SDK cannot read: {_told(error)}")


def _told(error: BaseException) -> str:
    text = str(error)
    return f"{type(error).__name__}: {text}"[:_REASON_CHARACTERS] if text else type(error).__name__
