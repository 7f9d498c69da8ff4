"""One client for the models of all providers, over `pydantic_ai.direct`: sends a request, reads the reply, translates
errors into `ModelError`s. Knows no provider's form; pydantic-ai is imported when a model is made.

1. The SDK below pydantic-ai does HTTP: keys, headers, proxies, and its own attempts after failures that pass, with the
   pauses that the endpoint asks for. Where a stream breaks off, this file sends the whole request again, up to
   `stream_retries` times.
2. Fields that an endpoint refuses, and ways to ask for JSON that it refuses, are left out from then on: see `forms`.
3. A model belongs to the event loop in which it was first asked, because its SDK keeps connections open for that loop.
"""

from __future__ import annotations

import contextlib
import logging
import re
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import anyio

from callgate.errors import ContextExceeded, ModelError, ModelRejected, ModelUnavailable

from .connection import Connection, keys_of, place_of
from .fitting import fit
from .forms import Form, is_closed, named_in
from .model import Delta, ModelProvider, Reply, Request

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelResponse
    from pydantic_ai.models import Model as PydanticModel

    from .exchange import Exchange
    from .response import DeltaReporter

__all__ = ["DirectModel"]

logger = logging.getLogger("callgate")

_PICTURES = "pictures"
"""Stands in `_refused` for an endpoint, or a model, that takes none."""
_OF_PICTURES = re.compile(r"\b(?:images?|image_url|pictures?|vision|multi-?modal|must be a string)\b", re.IGNORECASE)
"""How endpoints say it: "image_url is only supported by certain models", "no endpoints found that support image
input", "is not a multimodal model", "content must be a string"."""
_WITHOUT_WORDS = (400, 404, 415, 422, 501)
"""Statuses of a request that may be refused for its pictures, though the error does not say so."""

_FIRST_PAUSE_SECONDS = 0.1
"""Before a request whose reply broke off is sent again; doubled each time."""
_WIND_UP_SECONDS = 1.0
"""The most that closing a response may take."""
_FEW_OUTPUT_TOKENS = 4096
"""Output limit to ask for where the endpoint refuses the usual one: the oldest models can write this much."""
_STREAM = "stream"
"""Stands in `_refused` for an endpoint that answers a request for a stream with a whole reply."""
_REASON_CHARACTERS = 400
_PASSING_STATUS = (408, 409, 425, 429)
_OTHER_STATUS = (400, 422, 500, 501)
"""Statuses of servers that do not know a field of the request or structured output (llama-cpp-python answers 500). A
server that failed for another reason is asked for less from then on, which is a loss and not an error."""
_TOO_LONG = re.compile(r"exceeds? (?:the )?(?:available )?context", re.IGNORECASE)
"""How llama.cpp says it; pydantic-ai knows the words of the others."""
_TOKENS = re.compile(r"(?:resulted in|you requested|request \(?|too long:) ?(\d{1,12}) tokens", re.IGNORECASE)


class _BrokenOff(Exception):
    """The reply ended in the middle, or with a temporary error."""

    def __init__(self, words: str, status: int | None = None) -> None:
        super().__init__(words)
        self.status = status


class _Unstreamed(Exception):
    """The endpoint sent a whole reply, though it was asked for a stream."""


class DirectModel:
    """A model that pydantic-ai knows; see `Model`. `OpenAIModel` and `AnthropicModel` are made of their SDKs, any other
    by `other_model`.

    Args:
        model: pydantic-ai's.
        provider: whose form its tool definitions have.
        connection: how the endpoint is waited for.
        client: of the SDK below; None where it has none of that kind.
        http: closes the HTTP connections, which `exchange` notes; None for others, which their SDK keeps.
        settings: pydantic-ai's, for each request.
    """

    _dispensable: tuple[str, ...] = ("temperature", "max_tokens")
    """Fields of a request that can be left out where the endpoint does not take them."""
    _marks_errors = True
    """Whether the provider has a mark for results of calls that failed."""

    def __init__(
        self,
        model: PydanticModel,
        *,
        provider: ModelProvider,
        connection: Connection,
        client: Any = None,
        http: Callable[[], Any] | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        self._model = model
        self._provider = provider
        self._connection = connection
        self._place = place_of(client)
        self._secrets = keys_of(client, connection)
        self._http = http
        self._given = dict(settings or {})
        self._refused: set[str] = set()

    @property
    def name(self) -> str:
        return self._model.model_name

    @property
    def provider(self) -> ModelProvider:
        return self._provider

    @property
    def secrets(self) -> tuple[str, ...]:
        """Keys and passwords. Error texts never contain them, and files should not."""
        return self._secrets

    async def aclose(self) -> None:
        """See `Model.aclose`."""
        if self._http is not None:
            await self._http()

    async def ask(self, request: Request, *, on_delta: Callable[[Delta], None] | None = None) -> Reply:
        """See `Model.ask`."""
        seconds = self._connection.whole_seconds
        with anyio.move_on_after(seconds):
            return await self._taken(request, on_delta)
        raise ModelUnavailable(f"no whole reply of the model within {seconds:g} s")

    def _forms(self, request: Request) -> tuple[Form, ...]:
        """The ways to ask for JSON of the request's schema, the best first."""
        schema = request.json_schema
        if schema is None:
            return ("",)
        closed: tuple[Form, ...] = ("json_schema",) if is_closed(schema) else ()
        tool: tuple[Form, ...] = () if request.tools or schema.get("type") != "object" else ("tool",)
        return (*closed, *tool, "words")

    def _settings(self, request: Request, form: Form, without: Collection[str]) -> dict[str, Any]:
        """pydantic-ai's settings for a request.

        Args:
            request: from the agent.
            form: how JSON of its schema is asked for.
            without: the fields that are left out.
        """
        settings = dict(self._given)
        if request.max_output_tokens is not None:
            settings["max_tokens"] = request.max_output_tokens
        elif "max_tokens" in without:
            settings["max_tokens"] = _FEW_OUTPUT_TOKENS
        if request.temperature is not None and "temperature" not in without:
            settings["temperature"] = request.temperature
        choice = request.tool_choice
        if not request.tools:
            choice = "auto" if form == "tool" else "none"
        if choice != "auto":
            settings["tool_choice"] = choice if choice in ("required", "none") else [choice]
        if form == "tool":
            settings["parallel_tool_calls"] = False
        elif request.tools and request.parallel is not None and "parallel_tool_calls" not in without:
            settings["parallel_tool_calls"] = request.parallel
        return settings

    async def _taken(self, request: Request, on_delta: Callable[[Delta], None] | None) -> Reply:
        """Send the request; where the endpoint refuses a field or a way to ask for JSON, send it again without that."""
        known = without = frozenset(self._refused)
        forms = self._forms(request)
        while True:
            form = next((each for each in forms if each not in without), forms[-1])
            try:
                reply = await self._whole(request, form, without, on_delta)
            except (ModelRejected, ModelUnavailable) as error:
                blamed = self._blamed(error, request, form, without)
                unread = isinstance(error, ModelRejected) and error.status is None  # by pydantic-ai itself
                others = (*_OTHER_STATUS, *_WITHOUT_WORDS) if blamed == _PICTURES else _OTHER_STATUS
                if not blamed or blamed in without or not (unread or error.status in others):
                    raise
                without |= {blamed}
                continue
            # only now: the endpoint may have refused the request for another reason
            for each in without - self._refused:
                logger.warning("the model %s does not take %s: it is asked without it, or otherwise", self.name, each)
            self._refused |= without
            return replace(reply, attempts=reply.attempts + len(without - known))

    def _blamed(self, error: ModelError, request: Request, form: Form, without: frozenset[str]) -> str:
        """What to leave out of this request after an error: a dispensable field that the error names, the pictures, or
        the way to ask for JSON; empty where there is nothing."""
        settings = self._settings(request, form, without)
        fields = [each for each in self._dispensable if self._settings(request, form, without | {each}) != settings]
        if named := named_in(getattr(error.__cause__, "body", None), fields):
            return named
        pictures = _PICTURES if request.pictures and _PICTURES not in without else ""
        if pictures and _OF_PICTURES.search(str(error)):
            return pictures
        if form != self._forms(request)[-1]:
            return form
        return pictures if getattr(error, "status", None) in _WITHOUT_WORDS else ""

    async def _whole(
        self, request: Request, form: Form, without: Collection[str], on_delta: Callable[[Delta], None] | None
    ) -> Reply:
        """Send the request; where the stream breaks off, send it again."""
        from .exchange import CURRENT, Exchange
        from .response import DeltaReporter

        reporter = None if on_delta is None else DeltaReporter(on_delta, form)
        sent = broken = 0
        while True:
            exchange = Exchange(most_bytes=self._connection.max_reply_bytes)
            if self._http is None:
                exchange.sent, exchange.began, exchange.events = 1, True, True
            token = CURRENT.set(exchange)
            try:
                if reporter is not None and _STREAM in self._refused:
                    raise _Unstreamed
                reply = await self._once(request, form, without, reporter, exchange)
                return replace(fit(reply, request), attempts=sent + exchange.sent)
            except _Unstreamed:
                reply = await self._whole(request, form, without, None)
                if _STREAM not in self._refused and exchange.head.lstrip().startswith(b"{"):  # and no page of HTML
                    logger.warning("the model %s does not stream: it is asked for whole replies", self.name)
                    self._refused.add(_STREAM)
                if reporter is not None:
                    reporter.whole(reply)
                return replace(reply, attempts=reply.attempts + sent + exchange.sent)
            except _BrokenOff as error:
                sent, broken = sent + exchange.sent, broken + 1
                if broken > self._connection.stream_retries:
                    times = "once" if broken == 1 else f"{broken} times"
                    words = f"the model's reply broke off, {times}: {error}"
                    raise ModelUnavailable(words, status=error.status) from error
            finally:
                CURRENT.reset(token)
            await anyio.sleep(_FIRST_PAUSE_SECONDS * 2 ** (broken - 1))
            if on_delta is not None:
                on_delta(Delta(restarted=True))
                reporter = DeltaReporter(on_delta, form)

    async def _once(
        self, request: Request, form: Form, without: Collection[str], reporter: DeltaReporter | None, exchange: Exchange
    ) -> Reply:
        """Send the request once, and read its reply."""
        from pydantic_ai import direct
        from pydantic_ai.exceptions import UnexpectedModelBehavior

        from .conversation import messages_of, parameters_of
        from .response import reply_of

        settings = self._settings(request, form, without)
        given: dict[str, Any] = {
            "messages": messages_of(
                request.messages,
                model=self.name,
                provider=self._model.system,
                errors=self._marks_errors,
                thoughts=settings.get("thoughts", True),
                pictures=None if _PICTURES in without else request.pictures,
            ),
            "model_settings": settings,
            "model_request_parameters": parameters_of(request, form, name_used_tools=self._marks_errors),
        }
        if reporter is None:
            with self._meaning(exchange, streamed=False):
                response = await direct.model_request(self._model, **given)
        else:
            async with self._streamed(direct.model_request_stream, given, exchange) as stream:
                events: Any = aiter(stream)
                async with contextlib.aclosing(events):
                    while True:
                        with self._meaning(exchange, streamed=True):
                            event = await anext(events, None)
                        if event is None:
                            break
                        reporter.take(event)
                reporter.end()
            with self._meaning(exchange, streamed=True):
                response = stream.get()
                if not self._is_whole(response) or (exchange.too_long and not exchange.whole()[0]):
                    raise UnexpectedModelBehavior("the stream ended before the reply did")
        with self._meaning(exchange, streamed=False):
            return reply_of(
                response, position=len(request.messages), form=form, model=self.name, provider=self._model.system
            )

    @contextlib.asynccontextmanager
    async def _streamed(self, opening: Any, given: dict[str, Any], exchange: Exchange) -> AsyncIterator[Any]:
        """Open a stream, and close it on every way out, cancellation included."""
        entering = opening(self._model, **given)
        with self._meaning(exchange, streamed=True):
            stream = await entering.__aenter__()
        exchange.whole = lambda: (
            "finish_reason" in (stream.provider_details or {}),
            stream.usage.output_tokens > 0,
        )
        try:
            yield stream
        finally:
            with anyio.move_on_after(_WIND_UP_SECONDS, shield=True), contextlib.suppress(Exception):
                await entering.__aexit__(None, None, None)

    def _is_whole(self, response: ModelResponse) -> bool:
        """Whether a stream came to the end of its reply. Not every provider says so."""
        return True

    @contextlib.contextmanager
    def _meaning(self, exchange: Exchange, *, streamed: bool) -> Iterator[None]:
        """Translate errors of pydantic-ai and of the SDK below it into `ModelError`s."""
        try:
            yield
        except (ModelError, _BrokenOff, _Unstreamed):
            raise
        except Exception as error:
            raise self._failure(error, exchange, streamed=streamed) from error

    def _failure(self, error: Any, exchange: Exchange, *, streamed: bool) -> Exception:
        from pydantic_ai import exceptions as of

        words = self._in_one_line(error.__cause__ or error)
        status = getattr(error, "status_code", None)
        if exchange.too_long:
            return ModelUnavailable(f"the model's endpoint gave no reply: {exchange.too_long}")
        if isinstance(error, of.UserError) or not (exchange.sent or isinstance(error, of.ModelAPIError)):
            return ModelRejected(f"the model's SDK does not send the request: {words}")
        if (
            isinstance(error, of.ModelContextWindowExceededError)
            or status == 413
            or (status == 400 and _TOO_LONG.search(words))
        ):
            return ContextExceeded(f"the input is too long for the model: {words}", _tokens_in(error))
        spent = isinstance(error, of.ModelQuotaExceededError)
        passing = not spent and status is not None and (status in _PASSING_STATUS or status >= 500)
        if isinstance(error, of.ModelAPIError) and error.in_stream:
            if passing or status is None:
                return _BrokenOff(words, status)
            return ModelRejected(f"the model's endpoint gave an error in its reply: {words}", status=status)
        if status is not None:
            pause = exchange.pause
            words = f"the model's endpoint answered {status}: {words}"
            if passing and pause and pause >= 1:
                words += f" (it asks to be left alone for {pause:.0f} s)"
            if passing:
                return ModelUnavailable(words, status=status, retry_after_seconds=pause)
            return ModelRejected(words, status=status)
        if streamed and exchange.began and not exchange.events:
            return _Unstreamed()
        if streamed and exchange.began and isinstance(error, (of.ModelAPIError, of.UnexpectedModelBehavior)):
            return _BrokenOff(words)
        if isinstance(error, of.ModelTimeoutError):
            return ModelUnavailable(f"no reply of the model within {self._connection.timeout_seconds:g} s")
        if isinstance(error, of.ModelConnectionError):
            place = f" ({self._place})" if self._place else ""
            return ModelUnavailable(f"no connection to the model: {self._in_one_line(_deepest(error))}{place}")
        return ModelUnavailable(f"the model's endpoint gave no reply: {words}{exchange.shown(self._redacted)}")

    def _in_one_line(self, error: BaseException) -> str:
        """An error in one line, with its type, and without secrets."""
        text = " ".join(self._redacted(str(error)).split())
        return f"{type(error).__name__}: {text}"[:_REASON_CHARACTERS] if text else type(error).__name__

    def _redacted(self, text: str) -> str:
        """The text without secrets: gateways repeat a key that they refuse, and HTTP libraries repeat a bad header."""
        for secret in self._secrets:
            text = text.replace(secret, "[secret]")
        return text


def _deepest(error: BaseException, depth: int = 2) -> BaseException:
    """The error of the HTTP library below the SDK's error, which is below pydantic-ai's."""
    return error if depth == 0 or error.__cause__ is None else _deepest(error.__cause__, depth - 1)


def _tokens_in(error: Any) -> int:
    """The tokens of the input that an error names; 0 where it names none."""
    found = _TOKENS.search(str(error))
    body = getattr(error, "body", None)
    within = body.get("error", body) if isinstance(body, Mapping) else {}
    number = within.get("n_prompt_tokens") if isinstance(within, Mapping) else None
    return int(found[1]) if found else number if isinstance(number, int) and 0 <= number < 10**12 else 0
