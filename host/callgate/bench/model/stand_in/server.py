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
"""What the stand-ins take for an API key."""


class Api(Protocol):
    """One endpoint of a service."""

    path: str

    def reply(self, headers: Mapping[str, str], body: dict[str, Any]) -> dict[str, Any] | Iterator[dict[str, Any]]:
        """The answer: an object, or the events of a stream.

        Raises:
            Refused: the service would say no.
        """

    def refusal(self, refused: Refused) -> dict[str, Any]:
        """The service's way to say no."""


@contextlib.contextmanager
def serving(api: Api) -> Iterator[str]:
    """Serve; gives the address, e.g. ``http://127.0.0.1:40123``. What fails in the script is raised on leaving."""
    failures: list[BaseException] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            try:
                self._answer()
            except BaseException as error:
                failures.append(error)
                self.close_connection = True

        def _answer(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            try:
                if self.path.partition("?")[0] != api.path:
                    raise Refused(f"Unknown request URL: POST {self.path}", status=404, kind="not_found_error")
                answer = api.reply({name.lower(): value for name, value in self.headers.items()}, body)
            except Refused as refused:
                self._json(refused.status, api.refusal(refused))
                return
            if isinstance(answer, dict):
                self._json(200, answer)
            else:
                self._events(answer)

        def _json(self, status: int, answer: dict[str, Any]) -> None:
            text = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def _events(self, events: Iterator[dict[str, Any]]) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for event in events:
                text = f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()
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
