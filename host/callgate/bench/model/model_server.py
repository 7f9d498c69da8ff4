"""The scripted model behind an HTTP endpoint: ``python -m callgate.bench.model.model_server``, a process of its own.

It speaks OpenAI's Chat Completions at ``/v1/chat/completions`` and Anthropic's Messages at ``/v1/messages``, by the
stand-ins, and refuses what they refuse. It says its address in one line and ends when its stdin ends. It listens on the
loopback alone, and takes one key, `stand_in.server.KEY`, which is no secret.

A conversation is registered first, ``POST /conversations`` with the fields of `scripted_model.Order`; the answer names
the model whose requests are then played: ``{"model": "scripted-17"}``.

The time is simulated: an answer leaves when ``turn_seconds`` and ``token_seconds`` for each output token have passed
since the head of the request came in, or as soon as it is ready where that is later. Refusals leave at once. Tokens are
those of `tokens`; see `stand_in.usage` for what is counted. Nothing is streamed.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import signal
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from callgate.bench.model.scripted_model import Order, Playing, Rewrite, WrongOrder, order_of
from callgate.bench.model.stand_in import AnthropicMessages, OpenAIChat, Script
from callgate.bench.model.stand_in.checks import Refused
from callgate.bench.model.stand_in.usage import Count
from callgate.bench.model.tokens import TokenizerMissing, Tokens
from callgate.bench.workloads.workload import Workload

__all__ = ["MOST_BODY_BYTES", "MOST_CONVERSATIONS", "ModelServer", "main", "serving"]

MOST_BODY_BYTES = 64 << 20
"""A longer request is refused; it is read and thrown away."""
MOST_CONVERSATIONS = 500
"""Whoever registers one more ends the one that was used longest ago."""

_CONVERSATIONS = "/conversations"
_IDLE_SECONDS = 600.0
_PIECE = 1 << 20
_NOBODY = Script()


class _Conversation:
    """One that is registered, on both wires."""

    def __init__(self, workload: Workload, order: Order, rewrite: Rewrite, count: Count, number: int) -> None:
        self._order = order
        self._playing = Playing(workload, order, rewrite, number)
        self._lock = threading.Lock()
        options: dict[str, Any] = {"count": count, "context_tokens": order.context_tokens}
        chat, messages = OpenAIChat(self._playing, **options), AnthropicMessages(self._playing, **options)
        self._apis: dict[str, OpenAIChat | AnthropicMessages] = {chat.path: chat, messages.path: messages}

    def reply(self, path: str, headers: Mapping[str, str], body: dict[str, Any]) -> dict[str, Any]:
        """Raises `Refused` where the service would, and nothing that the script is to blame for."""
        with self._lock:
            spoken = self._playing.spoken
            try:
                return self._answer(path, headers, body)
            except Refused:
                raise
            except Exception as error:
                if self._playing.spoken == spoken:
                    raise
                self._playing.fail(error)
                return self._answer(path, headers, body)

    def _answer(self, path: str, headers: Mapping[str, str], body: dict[str, Any]) -> dict[str, Any]:
        api = self._apis[path]
        answer = api.reply(headers, body)
        assert isinstance(answer, dict), "it does not stream"
        api.requests.clear()
        return answer

    def wait_seconds(self, answer: dict[str, Any]) -> float:
        """How long the model takes for this answer."""
        usage = answer["usage"]
        tokens = usage["completion_tokens"] if "completion_tokens" in usage else usage["output_tokens"]
        return self._order.turn_seconds + self._order.token_seconds * float(tokens)


class ModelServer:
    """What is asked of the endpoint, and what it answers. Knows JSON, no sockets. For several threads.

    Args:
        workloads: that may be played, by name.
        rewrite: makes programs those of another dialect.
        count: the tokens of a text.
    """

    def __init__(self, workloads: Mapping[str, Workload], rewrite: Rewrite, count: Count) -> None:
        self._workloads = workloads
        self._rewrite = rewrite
        self._count = count
        self._lock = threading.Lock()
        self._conversations: OrderedDict[str, _Conversation] = OrderedDict()
        self._registered = 0
        openai, anthropic = OpenAIChat(_NOBODY), AnthropicMessages(_NOBODY)
        self._wires: dict[str, OpenAIChat | AnthropicMessages] = {openai.path: openai, anthropic.path: anthropic}

    def answer(self, path: str, headers: Mapping[str, str], text: bytes) -> tuple[int, dict[str, Any], float]:
        """The status, the JSON, and how many seconds after the request it may leave."""
        if path != _CONVERSATIONS and path not in self._wires:
            return 404, {"error": {"message": f"Unknown request URL: POST {path}"}}, 0.0
        try:
            body = _body(text)
            return self._register(body) if path == _CONVERSATIONS else self._reply(path, headers, body)
        except Refused as refused:
            return refused.status, self.refusal(path, refused), 0.0
        except Exception as error:
            failed = Refused(f"{type(error).__name__}: {error}", status=500, kind="api_error")
            return failed.status, self.refusal(path, failed), 0.0

    def refusal(self, path: str, refused: Refused) -> dict[str, Any]:
        """A no, as the service of that path says it."""
        wire = self._wires.get(path)
        return {"error": {"message": str(refused)}} if wire is None else wire.refusal(refused)

    def _register(self, body: dict[str, Any]) -> tuple[int, dict[str, Any], float]:
        try:
            order = order_of(body, self._workloads)
        except WrongOrder as wrong:
            raise Refused(str(wrong)) from None
        with self._lock:
            self._registered += 1
            number = self._registered
        workload = self._workloads[order.workload]
        conversation = _Conversation(workload, order, self._rewrite, self._count, number)
        name = f"scripted-{number}"
        with self._lock:
            self._conversations[name] = conversation
            while len(self._conversations) > MOST_CONVERSATIONS:
                self._conversations.popitem(last=False)
        return 200, {"model": name}, 0.0

    def _reply(
        self, path: str, headers: Mapping[str, str], body: dict[str, Any]
    ) -> tuple[int, dict[str, Any], float]:  # fmt: skip
        with self._lock:
            name = body.get("model")
            conversation = self._conversations.get(name) if isinstance(name, str) else None
            if conversation is not None:
                self._conversations.move_to_end(str(name))
        if conversation is None:
            raise _not_found(path, name)
        if body.get("stream"):
            raise Refused("stream: this endpoint does not stream")
        answer = conversation.reply(path, headers, body)
        return 200, answer, conversation.wait_seconds(answer)


def _body(text: bytes) -> dict[str, Any]:
    try:
        body = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Refused(f"The request body is not valid JSON: {error}") from None
    if not isinstance(body, dict):
        raise Refused("The request body is not a JSON object")
    return body


def _not_found(path: str, name: Any) -> Refused:
    if path == AnthropicMessages.path:
        return Refused(f"model: {name}", status=404, kind="not_found_error")
    return Refused(
        f"The model `{name}` does not exist or you do not have access to it.", status=404, code="model_not_found"
    )


@contextlib.contextmanager
def serving(model: ModelServer) -> Iterator[str]:
    """Serve on a free port of the loopback, a thread for each connection; gives the address."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True
        wbufsize = _PIECE
        timeout = _IDLE_SECONDS

        def do_POST(self) -> None:
            began = time.perf_counter()
            path = self.path.partition("?")[0]
            try:
                text = self._read()
            except Refused as refused:
                self.close_connection = True
                self._send(refused.status, model.refusal(path, refused))
                return
            headers = {name.lower(): value for name, value in self.headers.items()}
            status, answer, seconds = model.answer(path, headers, text)
            sent = _encoded(answer)
            time.sleep(max(0.0, began + seconds - time.perf_counter()))
            self._write(status, sent)

        def _read(self) -> bytes:
            given = self.headers.get("Content-Length", "")
            if not (given.isdecimal() and len(given) < 16):
                raise Refused("Content-Length: there has to be one", status=411)
            length = int(given)
            if length <= MOST_BODY_BYTES:
                return self.rfile.read(length)
            while length > 0 and (piece := self.rfile.read(min(_PIECE, length))):
                length -= len(piece)
            raise Refused(
                f"Request exceeds the maximum size of {MOST_BODY_BYTES} bytes", status=413, kind="request_too_large"
            )

        def _send(self, status: int, answer: dict[str, Any]) -> None:
            self._write(status, _encoded(answer))

        def _write(self, status: int, text: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)
            self.wfile.flush()

        def log_message(self, format: str, *args: Any) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 128

        def handle_error(self, request: Any, client_address: Any) -> None:
            if not isinstance(sys.exception(), OSError):
                super().handle_error(request, client_address)

    server = Server(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _encoded(answer: dict[str, Any]) -> bytes:
    return json.dumps(answer).encode()


def main(arguments: Sequence[str]) -> int:
    """Serve until stdin ends.

    Args:
        arguments: where the workloads are, ``MODULE:NAME``; without it, callgate's own.

    Returns:
        the exit status: 1 where there is no tokenizer.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever is interrupted closes stdin
    module, _, name = (arguments[0] if arguments else "callgate.bench.workloads:WORKLOADS").partition(":")
    workloads: Mapping[str, Workload] = getattr(importlib.import_module(module), name)
    rewrite: Rewrite = importlib.import_module("callgate.bench.workloads.dialects").rewrite
    try:
        count = Tokens()
    except TokenizerMissing as error:
        print(f"ERROR {error}", file=sys.stderr)
        return 1
    with serving(ModelServer(workloads, rewrite, count)) as address:
        print(address, flush=True)
        while os.read(sys.stdin.fileno(), _PIECE):
            pass
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
