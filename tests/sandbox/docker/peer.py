"""What may answer where an engine is expected: nobody, an engine with other gifts, or a peer that means harm."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import ThreadingMixIn, UnixStreamServer
from typing import Any

__all__ = [
    "GARBAGE",
    "INFO",
    "VERSION",
    "drip",
    "engine_saying",
    "garbage",
    "listening",
    "refusing_removals",
    "silence",
]

GARBAGE = bytes(range(256))
VERSION = {"Version": "27.1", "ApiVersion": "1.44"}
INFO: dict[str, Any] = {
    "OperatingSystem": "Some Linux",
    "Architecture": "x86_64",
    "KernelVersion": "6.1.0",
    "CgroupVersion": "2",
    "CgroupDriver": "systemd",
    "Driver": "overlay2",
    "Runtimes": {"runc": {}, "io.containerd.runc.v2": {}},
    "DefaultRuntime": "runc",
    "SecurityOptions": ["name=apparmor", "name=seccomp,profile=builtin", "name=cgroupns"],
    "MemoryLimit": True,
    "SwapLimit": True,
    "PidsLimit": True,
    "CpuCfsQuota": True,
    "Warnings": None,
}
"""An engine that can do what is needed."""

Answer = Callable[[socket.socket, threading.Event], None]


def silence(_: socket.socket, over: threading.Event) -> None:
    """Accept, and never say a word."""
    over.wait()


def garbage(asked: socket.socket, _: threading.Event) -> None:
    """Answer what is no HTTP."""
    asked.recv(65536)
    asked.sendall(GARBAGE)


def drip(asked: socket.socket, over: threading.Event) -> None:
    """Answer a byte at a time, without end: no timeout between two bytes ever passes."""
    asked.recv(65536)
    asked.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 1000000\r\n\r\n")
    while not over.wait(0.2):
        asked.sendall(b" ")


@contextlib.contextmanager
def listening(path: Path, answer: Answer) -> Iterator[str]:
    """Whoever connects gets `answer`: the address, as ``DOCKER_HOST`` takes it."""
    over = threading.Event()
    threads: list[threading.Thread] = []

    def serve(asked: socket.socket) -> None:
        with asked, contextlib.suppress(OSError):
            answer(asked, over)

    def accept() -> None:
        with contextlib.suppress(OSError):  # shut down: the test is over
            while True:
                asked, _ = listener.accept()
                threads.append(threading.Thread(target=serve, args=(asked,), daemon=True))
                threads[-1].start()

    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        accepting = threading.Thread(target=accept, daemon=True)
        accepting.start()
        try:
            yield f"unix://{path}"
        finally:
            over.set()
            listener.shutdown(socket.SHUT_RDWR)
            for thread in (accepting, *threads):
                thread.join(10)


@contextlib.contextmanager
def refusing_removals(path: Path, engine: str, times: int) -> Iterator[str]:
    """The engine whose socket is the file `engine`, which refuses to remove a container this many times."""
    refusals = [b'{"message": "Could not kill running container, cannot remove"}'] * times

    def answer(asked: socket.socket, _: threading.Event) -> None:
        with socket.socket(socket.AF_UNIX) as real:
            real.connect(engine)
            back = threading.Thread(target=_forward, args=(real, asked), daemon=True)
            back.start()
            while said := asked.recv(65536):
                if said.startswith(b"DELETE ") and refusals:
                    body = refusals.pop()
                    head = b"HTTP/1.1 500 Internal Server Error\r\nContent-Type: application/json\r\n"
                    asked.sendall(head + b"Content-Length: %d\r\n\r\n" % len(body) + body)
                else:
                    real.sendall(said)
            real.shutdown(socket.SHUT_WR)
            back.join()

    with listening(path, answer) as host:
        yield host
    assert not refusals


def _forward(source: socket.socket, sink: socket.socket) -> None:
    with contextlib.suppress(OSError):  # somebody has hung up
        while said := source.recv(65536):
            sink.sendall(said)
        sink.shutdown(socket.SHUT_WR)


class _Server(ThreadingMixIn, UnixStreamServer):
    daemon_threads = True
    block_on_close = False


@contextlib.contextmanager
def engine_saying(path: Path, answers: dict[str, Any]) -> Iterator[str]:
    """An engine that answers paths ending so with this JSON, or that `Answer`, and any other path with 404."""
    over = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            found = next((value for end, value in answers.items() if self.path.partition("?")[0].endswith(end)), None)
            if callable(found):
                self.close_connection = True
                with contextlib.suppress(OSError):  # whoever asked has given up
                    found(self.connection, over)
                return
            body = json.dumps({"message": "No such thing"} if found is None else found).encode()
            self.send_response(404 if found is None else 200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_GET

        def address_string(self) -> str:
            return "a test"

        def log_message(self, *_: object) -> None:
            pass

    with _Server(str(path), Handler) as server:
        serving = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        serving.start()
        try:
            yield f"unix://{path}"
        finally:
            over.set()
            server.shutdown()
            serving.join(10)
