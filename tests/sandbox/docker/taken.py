"""A guest whose container is the test: what the host is told, and whether it is read, is up to it."""

from __future__ import annotations

import socket
import struct
from types import SimpleNamespace

from callgate.sandbox.backend import Allowance
from callgate.sandbox.docker.container import Container
from callgate.sandbox.docker.guest import ContainerGuest
from callgate.sandbox.docker.link import Link
from callgate_guest.frames import Frame, FrameBuffer

__all__ = ["Taken", "piece"]

_ALLOWANCE = Allowance(1, 1 << 20, 1, 1 << 20)


def piece(data: bytes, stream: int = 1) -> bytes:
    """As an engine writes it."""
    return struct.pack(">B3xI", stream, len(data)) + data


class Taken:
    """A guest whose container is this test: `say` is what comes from it.

    Args:
        send_bytes: what the socket holds for a container that does not read; ``None`` is the kernel's own.
    """

    def __init__(self, send_bytes: int | None = None) -> None:
        ours, self.theirs = socket.socketpair()
        ours.setblocking(False)
        if send_bytes is not None:
            ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_bytes)
        self.link = Link(ours)
        self.given_back: list[bool] = []
        engine = SimpleNamespace(host="unix:///nowhere")
        container = Container(engine, "taken", self.link, _ALLOWANCE)  # type: ignore[arg-type]
        self.guest = ContainerGuest(container, self._give_back)
        self._heard = FrameBuffer()
        self._flooded = 0

    async def _give_back(self, container: Container, sound: bool) -> None:
        self.given_back.append(sound)
        container.link.hang_up()

    def say(self, *said: bytes) -> None:
        self.theirs.sendall(piece(b"".join(said)))

    def flood(self, unit: bytes) -> int:
        """Say `unit` again and again until the host takes no more: how many bytes of it went out in all."""
        data = piece(unit)
        while True:
            try:
                at = self._flooded % len(data)
                self._flooded += self.theirs.send(data[at:], socket.MSG_DONTWAIT)
            except BlockingIOError:
                return self._flooded

    def read(self) -> list[Frame]:
        """What the host has sent; waits for some, in a thread."""
        return self._heard.feed(self.theirs.recv(1 << 16))

    def close(self) -> None:
        self.link.hang_up()
        self.theirs.close()
