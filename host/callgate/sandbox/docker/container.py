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

from callgate.errors import ConfigurationError, SandboxCrashed, SandboxUnavailable
from callgate.sandbox.backend import Allowance
from callgate_guest import frames
from callgate_guest.frames import Frame, frame

from .engine import TIMEOUT_SECONDS, Engine, EngineRefused, attach
from .hardening import NOBODY, ContainerSettings, container_options
from .link import Link

__all__ = ["Container", "json_object", "start"]

_START_SECONDS = 60.0
_GONE_SECONDS = 15.0
_POLL_SECONDS = 0.02

logger = logging.getLogger("callgate")


class Container:
    """A container with its supervisor at the other end of `link`. See `start`.

    Attributes:
        engine: which it is of.
        id: the engine's; empty while there is none.
        guests: how many it has served, the present one included.
        told: what its supervisor said of itself: ``landlock`` (ABI, 0 for none), ``python``.
    """

    def __init__(self, engine: Engine, allowance: Allowance) -> None:
        self.engine = engine
        self.allowance = allowance
        self.id = ""
        self.guests = 0
        self.told: dict[str, Any] = {}
        self._making: threading.Event | None = None
        self._attached: socket.socket | None = None
        self._link: Link | None = None
        self._removing = anyio.Lock()
        self._gone = False

    @property
    def link(self) -> Link:
        assert self._link is not None, "it was started"
        return self._link

    def make(self, api: Any, settings: ContainerSettings) -> None:
        """Create, attach, start: in this order, since an engine keeps nothing of what was said before. For a thread;
        what it has done so far can be removed at any time."""
        self._making = threading.Event()
        try:
            self.id = _create(api, settings, self.allowance)
            self._attached = attach(api, self.id)
            api.start(self.id)
        finally:
            self._making.set()

    async def ready(self, settings: ContainerSettings) -> None:
        """Wait for the supervisor. Raises `SandboxError` when it cannot do its work."""
        assert self._attached is not None
        self._link = link = Link(self._attached)
        said: list[Frame] = []
        link.hear = said.append
        wanted = {"preimport": list(settings.preimport), "per": settings.per}
        with anyio.move_on_after(_START_SECONDS) as waiting:
            await link.send(frame(frames.SETTINGS, json.dumps(wanted).encode()))
            while not said and not link.over:
                await link.changed()
        if waiting.cancelled_caught:
            raise SandboxUnavailable(
                f"a container was not ready within {_START_SECONDS:g} s: the machine is overloaded, or the engine hangs"
            )
        if not said:
            words = link.errors or link.why or "it said nothing"
            raise SandboxUnavailable(
                f"the container ended at once: {words[-500:]}; is its image one that `callgate image build` made?"
            )
        kind, payload = said[0]
        self.told = json_object(payload)
        if kind != frames.READY:
            reason = str(self.told.get("reason"))[:1000]
            if self.told.get("wish") is True:
                raise ConfigurationError(
                    f"{reason}: programs can import what is in the image; `callgate image build --requirements ...`"
                )
            raise SandboxUnavailable(f"the container could not be set up: {reason}")

    async def spawn(self) -> None:
        """Have a guest forked. Does not wait for it."""
        self.guests += 1
        await self.link.send(frame(frames.SPAWN, json.dumps(asdict(self.allowance)).encode()))

    async def remove(self) -> None:
        """End it and wait until nothing of it is left. May be repeated; an engine that has gone away is no error: its
        containers end with their stdin, and the next start sweeps what is left.

        Raises:
            SandboxCrashed: it is still there.
        """
        if self._link is not None:
            self._link.hang_up()
        with anyio.CancelScope(shield=True):
            async with self._removing:
                if self._making is not None and not self._making.is_set():  # asyncio's cancellation stops no thread
                    await anyio.to_thread.run_sync(self._making.wait, 3 * TIMEOUT_SECONDS)
                if self._link is None and self._attached is not None:
                    self._link = Link(self._attached)
                    self._link.hang_up()
                if self.id and not self._gone:
                    await self._remove()
                    self._gone = True

    async def _remove(self) -> None:
        """What the engine refuses may be a matter of the moment (it ends by itself meanwhile, or is being removed
        already), so it is asked again until it knows of no such container."""
        refused = "timed out"
        with anyio.move_on_after(_GONE_SECONDS):
            while True:
                try:
                    await self.engine.call_within(_GONE_SECONDS, "remove_container", self.id, force=True, v=True)
                except EngineRefused as error:
                    if error.status == 404:
                        return
                    refused = str(error)[:300]
                except SandboxUnavailable as error:
                    logger.warning("container %s: not seen to be gone: %s", self.id[:12], error)
                    return
                await anyio.sleep(_POLL_SECONDS)
        raise SandboxCrashed(
            f"container {self.id[:12]} was killed and is still there ({refused}): "
            f"look at it with `docker inspect {self.id[:12]}`, remove it with `docker rm -f {self.id[:12]}`"
        )


async def start(engine: Engine, settings: ContainerSettings, allowance: Allowance) -> Container:
    """Make, attach and start a container, and wait until its supervisor is ready.

    Raises:
        SandboxError: it cannot be had; the message says why and what to do. Nothing of it is left.
        ConfigurationError: the operator asked for something that it cannot do.
    """
    await anyio.lowlevel.checkpoint()  # whoever is cancelled already need not wait for the engine
    container = Container(engine, allowance)
    try:
        with anyio.CancelScope(shield=True):
            await engine.call_with(container.make, settings)
        await container.ready(settings)
        return container
    except BaseException as error:
        try:
            await container.remove()
        except SandboxCrashed as left:
            logger.error("%s", left)
        if isinstance(error, EngineRefused):
            again = "; build the image again with `callgate image build`" if error.status == 404 else ""
            told = f"the Docker engine refused to start a container: {str(error)[:1000]}{again}"
            raise SandboxUnavailable(told) from error
        raise


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


def json_object(payload: bytes) -> dict[str, Any]:
    """A JSON object that a container sent; empty where it is none."""
    try:
        found = json.loads(payload)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
