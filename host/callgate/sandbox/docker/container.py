"""One container: made, started, attached, spoken to, removed. What runs in it is `callgate_guest.container`."""

from __future__ import annotations

import json
import logging
import secrets
import socket
import threading
from dataclasses import asdict
from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread

from callgate.errors import ConfigurationError, SandboxCrashed, SandboxError, SandboxUnavailable
from callgate.sandbox.backend import Allowance
from callgate_guest import frames
from callgate_guest.frames import Frame, frame

from .engine import TIMEOUT_SECONDS, Engine, EngineRefused, attach
from .hardening import NOBODY, ContainerSettings, container_options
from .link import Link

__all__ = ["Container", "ImageGone", "json_object", "start"]

_START_SECONDS = 60.0
_GONE_SECONDS = 15.0
_POLL_SECONDS = 0.02

logger = logging.getLogger("callgate")


class Container:
    """A running container with its supervisor at the other end of `link`.

    Attributes:
        guests: how many it has served, the present one included.
        engine: that it is of.
        told: what its supervisor said of itself: ``landlock`` (ABI, 0 for none), ``python``.
    """

    def __init__(self, engine: Engine, id: str, link: Link, allowance: Allowance) -> None:
        self.engine = engine
        self.id = id
        self.link = link
        self._first: list[Frame] = []  # what comes before a guest
        link.hear = self._first.append
        self.allowance = allowance
        self.guests = 0
        self.told: dict[str, Any] = {}
        self._removing = anyio.Lock()
        self._gone = False

    async def spawn(self) -> None:
        """Have a guest forked. Does not wait for it."""
        self.guests += 1
        await self.link.send(frame(frames.SPAWN, json.dumps(asdict(self.allowance)).encode()))

    async def ready(self) -> None:
        """Wait for the supervisor. Raises `SandboxError` when it cannot do its work."""
        with anyio.move_on_after(_START_SECONDS):
            while not self._first and not self.link.over:
                await self.link.changed()
            if not self._first:
                said = self.link.errors or self.link.why or "it said nothing"
                raise SandboxUnavailable(
                    f"the container ended at once: {said[-500:]}; is its image one that `callgate image build` made?"
                )
            kind, payload = self._first[0]
            told = json_object(payload)
            if kind == frames.READY:
                self.told = told
                return
            reason = str(told.get("reason"))[:1000]
            if told.get("wish") is True:
                raise ConfigurationError(
                    f"{reason}: programs can import what is in the image; `callgate image build --requirements ...`"
                )
            raise SandboxUnavailable(f"the container could not be set up: {reason}")
        raise SandboxUnavailable(
            f"a container was not ready within {_START_SECONDS:g} s: the machine is overloaded, or the engine hangs"
        )

    async def remove(self) -> None:
        """End it and wait until nothing of it is left. May be repeated; an engine that has gone away is no error: its
        containers end with their stdin, and the next start sweeps what is left.

        Raises:
            SandboxCrashed: it is still there.
        """
        self.link.hang_up()
        with anyio.CancelScope(shield=True):
            async with self._removing:
                if self._gone:
                    return
                try:
                    await _remove(self.engine, self.id)
                except (TimeoutError, EngineRefused) as error:
                    raise SandboxCrashed(
                        f"container {self.id[:12]} was killed and is still there ({str(error)[:300]}): "
                        f"look at it with `docker inspect {self.id[:12]}`, remove it with `docker rm -f {self.id[:12]}`"
                    ) from None
                except SandboxUnavailable as error:
                    logger.warning("container %s: not seen to be gone: %s", self.id[:12], error)
                self._gone = True


class ImageGone(SandboxUnavailable):
    """The engine no longer has the image that a container was to be made of."""


async def start(engine: Engine, settings: ContainerSettings, allowance: Allowance) -> Container:
    """Make, attach and start a container, and wait until its supervisor is ready.

    Raises:
        SandboxError: it cannot be had; the message says why and what to do. Nothing of it is left.
        ConfigurationError: the operator asked for something that it cannot do.
    """
    await anyio.lowlevel.checkpoint()  # whoever is cancelled already need not wait for the engine
    making = _Making(settings, allowance)
    try:
        with anyio.CancelScope(shield=True):
            await engine.call_with(making.make)
        assert making.attached is not None
        container = Container(engine, making.id, Link(making.attached), allowance)
        wanted = {"preimport": list(settings.preimport), "per": settings.per}
        await container.link.send(frame(frames.SETTINGS, json.dumps(wanted).encode()))
        await container.ready()
        return container
    except BaseException as error:
        await _clean_up(engine, making)
        if isinstance(error, EngineRefused):
            raise _explained(error, settings) from error
        raise


class _Making:
    """What a thread that makes a container has done so far: asyncio's own cancellation stops the wait for it, and not
    the thread."""

    def __init__(self, settings: ContainerSettings, allowance: Allowance) -> None:
        self._settings = settings
        self._allowance = allowance
        self.id = ""
        self.attached: socket.socket | None = None
        self.begun = False
        self.done = threading.Event()

    def make(self, api: Any) -> None:
        """Create, attach, start: in this order, since an engine keeps nothing of what was said before."""
        self.begun = True
        try:
            self.id = _create(api, self._settings, self._allowance)
            self.attached = attach(api, self.id)
            api.start(self.id)
        finally:
            self.done.set()


async def _clean_up(engine: Engine, making: _Making) -> None:
    with anyio.CancelScope(shield=True):
        if making.begun:
            await anyio.to_thread.run_sync(making.done.wait, 3 * TIMEOUT_SECONDS)
        if making.attached is not None:
            Link(making.attached).hang_up()
        try:
            if making.id:
                await _remove(engine, making.id)
        except (TimeoutError, SandboxError):
            logger.exception("container %s could not be removed", making.id[:12])


def _create(api: Any, settings: ContainerSettings, allowance: Allowance) -> str:
    made = api.create_container(
        settings.image,
        user=NOBODY,
        hostname="sandbox",
        working_dir="/",
        labels=settings.labels,
        stdin_open=True,
        network_disabled=True,
        host_config=api.create_host_config(**container_options(allowance, settings)),
        healthcheck={"test": ["NONE"]},
        name=f"callgate-{secrets.token_hex(6)}",
        stop_timeout=1,
        use_config_proxy=False,  # a proxy's password is none of the guest's business
    )
    return str(made["Id"])


async def _remove(engine: Engine, id: str) -> None:
    """Remove a container and wait until the engine does not know it any more. What the engine refuses may be a matter
    of the moment (the container ends by itself meanwhile, or is being removed already), so it is asked again.

    Raises:
        EngineRefused: the engine's last refusal, where the container is still there after `_GONE_SECONDS`.
        TimeoutError: it is still there, and the engine refused nothing.
    """
    refused: Exception = TimeoutError("timed out")
    with anyio.move_on_after(_GONE_SECONDS):
        while True:
            try:
                await engine.call_within(_GONE_SECONDS, "remove_container", id, force=True, v=True)
            except EngineRefused as error:
                if error.status == 404:
                    return
                refused = error
            await anyio.sleep(_POLL_SECONDS)
    raise refused


def _explained(error: EngineRefused, settings: ContainerSettings) -> SandboxError:
    """What the engine refused, with what to do about it."""
    if error.status == 404:
        return ImageGone(
            f"the Docker engine has no image {settings.image!r} any more: build it again with `callgate image build`"
        )
    return SandboxUnavailable(f"the Docker engine refused to start a container: {str(error)[:1000]}")


def json_object(payload: bytes) -> dict[str, Any]:
    """A JSON object that a container sent; empty where it is none."""
    try:
        found = json.loads(payload)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
