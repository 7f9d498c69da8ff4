"""HTTP on the loopback, in a thread of its own: one API, JSON in, JSON or server-sent events out."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Protocol

from .checks import Refused

KEY = "a key for the stand-in"
"""The API key that the stand-ins accept."""


Event = dict[str, Any] | str
"""Of a stream: an object, or its text as it stands; empty text is a sign of life."""
Answered = dict[str, Any] | bytes | Iterator[Event]
"""An object, a text that is not JSON, or the events of a stream."""


class HangUp(Exception):
    """The connection is closed in the middle of an answer."""


class Api(Protocol):
    """One endpoint of a service."""

    path: str

    def reply(self, headers: Mapping[str, str], body: dict[str, Any]) -> Answered:
        """The answer: an object, or the events of a stream.

        Raises:
            Refused: the service would say no.
            HangUp: it closes the connection.
        """

    def refusal(self, refused: Refused) -> dict[str, Any]:
        """The body of a refusal, in the service's form."""


@contextlib.contextmanager
def serving(api: Api) -> Iterator[str]:
    """Serve; gives the address, e.g. ``http://127.0.0.1:40123``. What fails in the script is raised on leaving. Clients
    may leave whenever they like."""
    failures: list[BaseException] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True  # or the body waits until the head was received

        def do_POST(self) -> None:
            try:
                self._answer()
            except (HangUp, ConnectionError):
                self.close_connection = True
            except BaseException as error:
                failures.append(error)
                self.close_connection = True

        def _answer(self) -> None:
            length = int(self.headers["Content-Length"])
            text = self.rfile.read(length)
            if len(text) < length:  # the client left in the middle of its request
                raise HangUp
            body = json.loads(text)
            try:
                if self.path.partition("?")[0] != api.path:
                    raise Refused(f"Unknown request URL: POST {self.path}", status=404, kind="not_found_error")
                answer = api.reply({name.lower(): value for name, value in self.headers.items()}, body)
            except Refused as refused:
                self._whole(refused.status, api.refusal(refused), refused.headers)
                return
            if isinstance(answer, dict | bytes):
                self._whole(200, answer, {})
            else:
                self._events(answer)

        def _whole(self, status: int, answer: dict[str, Any] | bytes, headers: Mapping[str, str]) -> None:
            text = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Type", "text/html" if isinstance(answer, bytes) else "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def _events(self, events: Iterator[Event]) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for event in events:
                text = _written(event).encode()
                self.wfile.write(f"{len(text):x}\r\n".encode() + text + b"\r\n")
            self.wfile.write(b"0\r\n\r\n")

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
        if failures:
            raise failures[0]


def _written(event: Event) -> str:
    """As server-sent events have it; OpenAI's have no names."""
    if isinstance(event, str):
        return f"data: {event}\n\n" if event else ": alive\n\n"
    name = f"event: {event['type']}\n" if "type" in event else ""
    return f"{name}data: {json.dumps(event)}\n\n"
