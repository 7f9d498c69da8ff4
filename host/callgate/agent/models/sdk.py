"""What OpenAI's and Anthropic's SDKs have alike: a request is sent, a reply is read, errors mean something.

It is given the SDK and imports none; `openai_model` and `anthropic_model` each have their own.

1. The SDK does HTTP: keys, headers, proxies, its own attempts after failures that pass, with the pauses that the
   endpoint asks for. What goes in and comes out is JSON that we write and read: by its types, the SDK would walk
   through the whole conversation in every turn (some 50 ms for 400 messages), and it believes what it reads.
2. Once the head of a response is there, the SDK does not try again. A body that breaks off is ours: the whole request
   is sent again, `stream_retries` times.
3. A body is read in pieces, whole replies too, so that its size is bounded, and time is even where it dribbles.
4. What an endpoint does not take, and a request can do without, is left out from then on: see `dispensable`.
"""

from __future__ import annotations

import contextlib
import json
import logging
import re
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

import anyio

from callgate.errors import ContextExceeded, ModelError, ModelRejected, ModelUnavailable

from .body import WIND_UP_SECONDS, Body, BrokenOff, reading, struck, told
from .connection import Connection, pause_of
from .dispensable import named_in
from .model import Delta, ModelProvider, Reply, Request
from .replies import BadReply
from .sse import Events
from .tokens import counted
from .wire import Collector, Wire

__all__ = ["SdkModel"]

logger = logging.getLogger("callgate")

_FIRST_PAUSE_SECONDS = 0.1
"""Before a request whose reply broke off is sent again; doubled each time."""
_MOST_JSON_BYTES = 8_000_000
"""Of a whole reply, and of one event of a stream: what is read takes up to 25 times as much memory."""
_USAGE_SECONDS, _END_SECONDS = 3.0, 0.25
"""So long after its last word the rest of a stream is waited for: its usage, or only the end of its body."""
_SHORTEST_SECRET = 8
_PROVES = re.compile(r"auth|key|token|secret|cookie|password", re.IGNORECASE)
"""In the name of a header."""
_PASSING_STATUS = (408, 409, 425, 429)
_FIELD_STATUS = (400, 422)
_OTHER_FORM_STATUS = (400, 422, 500, 501)
"""A request for structured output that is answered so may be one that the server does not know; llama-cpp-python says
500. So an endpoint that failed in truth is asked for less from then on: a loss, but no error."""


class SdkModel:
    """A model behind an SDK; see `Model`. Made by `OpenAIModel` and `AnthropicModel`.

    Args:
        sdk: `openai` or `anthropic`.
        client: the SDK's.
        create: the client's function that sends a request and gives its response as a stream.
        wire: the provider's.
        provider: who that is.
        name: of the model.
        connection: how the endpoint is waited for.
    """

    def __init__(
        self,
        *,
        sdk: Any,
        client: Any,
        create: Callable[..., Any],
        wire: Wire,
        provider: ModelProvider,
        name: str,
        connection: Connection,
    ) -> None:
        self._sdk = sdk
        self._client = client
        self._create = create
        self._wire = wire
        self._provider: ModelProvider = provider
        self._name = name
        self._connection = connection
        self._refused: set[str] = set()
        self._left_out: tuple[str, ...] = ()
        self._secrets = _secrets_of(client, connection)

    @property
    def name(self) -> str:
        return self._name

    @property
    def provider(self) -> ModelProvider:
        return self._provider

    @property
    def secrets(self) -> tuple[str, ...]:
        """Keys, which no error's text holds, and no file should."""
        return self._secrets

    def other(self, name: str) -> SdkModel:
        """Another model of the same endpoint, by the same client: closing one closes both."""
        return SdkModel(
            sdk=self._sdk,
            client=self._client,
            create=self._create,
            wire=self._wire.other(name),
            provider=self._provider,
            name=name,
            connection=self._connection,
        )

    async def aclose(self) -> None:
        """See `Model.aclose`."""
        await self._client.close()

    async def ask(self, request: Request, *, on_delta: Callable[[Delta], None] | None = None) -> Reply:
        """See `Model.ask`."""
        seconds = self._connection.whole_seconds
        with anyio.move_on_after(seconds):
            return await self._asked(request, on_delta)
        raise ModelUnavailable(f"no whole reply of the model within {seconds:g} s")

    async def _asked(self, request: Request, on_delta: Callable[[Delta], None] | None) -> Reply:
        """In the first form that the endpoint takes."""
        forms = self._wire.forms(request)
        known = [form for form in forms if form not in self._refused] or list(forms[-1:])
        refused = []
        for form in known[:-1]:
            try:
                reply = await self._fitting(request, form, on_delta)
            except (ModelRejected, ModelUnavailable) as error:
                if error.status not in _OTHER_FORM_STATUS:
                    raise
                refused.append(form)
                continue
            break
        else:
            reply = await self._fitting(request, known[-1], on_delta)
        self._refused.update(refused)  # not before another form was taken: the fault may be the request's
        return reply

    async def _fitting(self, request: Request, form: str, on_delta: Callable[[Delta], None] | None) -> Reply:
        """Sent again without a field that the endpoint does not take, where the request can do without."""
        body = self._wire.body(request, form, stream=on_delta is not None)
        for field in self._left_out:
            body = self._wire.without(body, field)
        refused: list[str] = []
        while True:
            try:
                reply = await self._whole(body, request, form, on_delta)
            except ModelRejected as error:
                field = self._refused_field(body, error)
                if not field or field in refused:
                    raise
                refused.append(field)
                body = self._wire.without(body, field)
                continue
            for field in refused:
                if field not in self._left_out:
                    self._left_out += (field,)
                    logger.warning(
                        "the model %s does not take %s: it is asked without it, or otherwise", self._name, field
                    )
            return replace(reply, attempts=reply.attempts + len(refused))

    def _refused_field(self, body: Mapping[str, Any], error: ModelRejected) -> str:
        if error.status not in _FIELD_STATUS:
            return ""
        return named_in(getattr(error.__cause__, "body", None), self._wire.dispensable(body))

    async def _whole(
        self, body: dict[str, Any], request: Request, form: str, on_delta: Callable[[Delta], None] | None
    ) -> Reply:
        """Sent again where the reply broke off."""
        sent = 0
        for again in range(self._connection.stream_retries + 1):
            if again:
                await anyio.sleep(_FIRST_PAUSE_SECONDS * 2 ** (again - 1))
                if on_delta is not None:
                    on_delta(Delta(restarted=True))
            try:
                async with self._sent(body) as response:
                    sent += 1 + response.retries_taken
                    reply = await self._read(response, request, form, on_delta)
                    return replace(reply, attempts=sent, usage=counted(reply.usage, request, reply.turn))
            except BrokenOff as error:
                broken = error
            except BadReply as error:
                if not error.passing or again == self._connection.stream_retries:
                    words = struck(f"the model's endpoint gave no reply: {error}", self._secrets)
                    raise ModelUnavailable(words, status=error.status) from error
                broken = BrokenOff(str(error))
        times = f"{again + 1} times" if again else "once"
        words = struck(f"the model's reply broke off, {times}: {broken}", self._secrets)
        raise ModelUnavailable(words) from broken

    async def _read(
        self, response: Any, request: Request, form: str, on_delta: Callable[[Delta], None] | None
    ) -> Reply:
        async with reading(response, self._connection.max_reply_bytes) as body:
            streams = "event-stream" in response.headers.get("content-type", "")
            if not streams:  # a server may not stream, though it was asked to
                return await self._read_whole(body, request, form, on_delta)
            collector = self._wire.collector(request, form, on_delta or _nobody)
            await _collect(body, collector)
            return collector.reply()

    async def _read_whole(
        self, body: Body, request: Request, form: str, on_delta: Callable[[Delta], None] | None
    ) -> Reply:
        whole = bytearray()
        while (piece := await body.next()) is not None:
            whole += piece
        reply = self._wire.whole(_json(bytes(whole), broken=False), request, form)
        if on_delta is not None:
            if reply.turn.text:
                on_delta(Delta(text=reply.turn.text))
            for position, call in enumerate(reply.turn.calls):
                arguments = call.written if call.fault else json.dumps(call.arguments)
                on_delta(Delta(call=position, name=call.name, arguments=arguments))
        return reply

    @contextlib.asynccontextmanager
    async def _sent(self, body: dict[str, Any]) -> AsyncIterator[Any]:
        """The response, whose body has not been read."""
        extra = {name: value for name, value in body.items() if name != "stream"}
        given = {name: body[name] for name in ("model", "max_tokens", "stream") if name in body}
        async with contextlib.AsyncExitStack() as stack:
            try:
                response = await _entered(stack, self._create(messages=(), extra_body=extra, **given))
            except self._sdk.APIStatusError as error:
                raise self._status_failure(error) from error
            except (self._sdk.APIError, ValueError, TypeError) as error:
                raise self._failure(error) from error
            yield response

    def _status_failure(self, error: Any) -> ModelError:
        status = int(error.status_code)
        tokens = self._wire.too_long(status, error.body)
        if tokens is not None:
            return ContextExceeded(f"the input is too long for the model: {told(error, self._secrets)}", tokens)
        words = f"the model's endpoint answered {status}: {told(error, self._secrets)}"
        spent = getattr(error, "code", None) == "insufficient_quota"
        if (status in _PASSING_STATUS or status >= 500) and not spent:
            pause = pause_of(error.response.headers)
            if pause and pause >= 1:
                words += f" (it asks to be left alone for {pause:.0f} s)"
            return ModelUnavailable(words, status=status, retry_after_seconds=pause)
        return ModelRejected(words, status=status)

    def _failure(self, error: Exception) -> ModelError:
        if isinstance(error, self._sdk.APITimeoutError):
            return ModelUnavailable(f"no reply of the model within {self._connection.timeout_seconds:g} s")
        if isinstance(error, self._sdk.APIConnectionError):
            why = told(error.__cause__ or error, self._secrets)
            return ModelUnavailable(f"no connection to the model: {why} ({_place_of(self._client)})")
        if isinstance(error, self._sdk.APIError):
            return ModelUnavailable(f"the model's endpoint gave what its SDK cannot read: {told(error, self._secrets)}")
        return ModelRejected(f"the model's SDK does not send the request: {told(error, self._secrets)}")


async def _collect(body: Body, collector: Collector) -> None:
    """Read a stream. After the end of the reply its usage may come, and the end of the body, with which the connection
    can be used again; both are waited for only shortly, and without them the reply is whole."""
    events = Events()
    done = False
    with anyio.CancelScope() as rest:
        try:
            while (piece := await body.next()) is not None:
                for data in events.take(piece):
                    done = done or data.strip() == b"[DONE]"
                    if not done:
                        collector.take(_json(data, broken=True))
                if done or collector.complete:
                    seconds = _END_SECONDS if done or collector.counted else _USAGE_SECONDS
                    rest.deadline = min(rest.deadline, anyio.current_time() + seconds)
        except BrokenOff:
            if not collector.complete:
                raise
    if not collector.complete:
        raise BrokenOff("the stream ended before the reply did")


async def _entered(stack: contextlib.AsyncExitStack, entering: Any) -> Any:
    """Enter the SDK's response; it is closed however the stack is left, even cancelled."""
    response = await entering.__aenter__()

    async def close() -> None:
        with anyio.move_on_after(WIND_UP_SECONDS, shield=True):
            await entering.__aexit__(None, None, None)

    stack.push_async_callback(close)
    return response


def _secrets_of(client: Any, connection: Connection) -> tuple[str, ...]:
    """What is sent to prove who asks; the longest first. What is short is a part of common words."""
    written = [getattr(client, "api_key", None), getattr(client, "auth_token", None)]
    written += [value for name, value in connection.headers.items() if _PROVES.search(name)]
    written.append(urlsplit(connection.base_url or "").password)
    found = {piece for each in written if isinstance(each, str) for piece in (each.strip(), *each.split())}
    return tuple(sorted((each for each in found if len(each) >= _SHORTEST_SECRET), key=lambda each: (-len(each), each)))


def _place_of(client: Any) -> str:
    """Where a client's endpoint is, without a name and a password in its address."""
    address = urlsplit(str(client.base_url))
    return f"{address.scheme}://{address.netloc.rpartition('@')[2]}{address.path}".rstrip("/")


def _json(text: bytes, *, broken: bool) -> Any:
    if len(text) > _MOST_JSON_BYTES:
        raise BadReply(f"one JSON value in it has {len(text)} bytes, and {_MOST_JSON_BYTES} is the most")
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        if broken:
            raise BrokenOff(f"an event of the stream is no JSON: {error}") from error
        raise BadReply(f"it is no JSON: {error}") from error


def _nobody(delta: Delta) -> None:
    """Nobody wants to know."""
