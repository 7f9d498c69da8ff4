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
from callgate.sandbox.backend import Allowance, hash_seed
from callgate_guest import frames
from callgate_guest.frames import Frame, frame

from .engine import TIMEOUT_SECONDS, Engine, EngineRefused, attach
from .files import Given, packed
from .hardening import NOBODY, ContainerSettings, container_options
from .link import Link

__all__ = ["Container", "json_object", "start"]

_START_SECONDS = 60.0
_GONE_SECONDS = 15.0
_GIVE_SECONDS = 60.0
_POLL_SECONDS = 0.02

logger = logging.getLogger("callgate")


class Container:
    """A container, with its supervisor at the other end of `link`. `start` makes one.

    Attributes:
        engine: the engine that runs it.
        id: the engine's id of the container; empty before the container is made.
        guests: guests that it has served, the present one included.
        about: the supervisor's report: ``landlock`` (ABI, 0 for none), ``python``.
        collects: whether its guest has a /output.
    """

    def __init__(self, engine: Engine, allowance: Allowance) -> None:
        self.engine = engine
        self.allowance = allowance
        self.id = ""
        self.guests = 0
        self.about: dict[str, Any] = {}
        self.collects = False
        self._making: threading.Event | None = None
        self._attached: socket.socket | None = None
        self._link: Link | None = None
        self._removing = anyio.Lock()
        self._gone = False

    @property
    def link(self) -> Link:
        assert self._link is not None, "the container was started"
        return self._link

    def make(self, api: Any, settings: ContainerSettings, room: int) -> None:
        """Create, attach, start: in this order, since an engine keeps no output from before the attaching. Runs in a
        thread; `remove` may be called at any time."""
        self._making = threading.Event()
        self.collects = settings.per == "run"
        try:
            self.id = _create(api, settings, self.allowance, room)
            self._attached = attach(api, self.id)
            api.start(self.id)
        finally:
            self._making.set()

    async def ready(self, settings: ContainerSettings) -> None:
        """Wait for the supervisor. Raises `SandboxError` if the supervisor cannot work."""
        assert self._attached is not None
        self._link = link = Link(self._attached)
        received: list[Frame] = []
        link.hear = received.append
        wanted = {"preimport": list(settings.preimport), "per": settings.per}
        with anyio.move_on_after(_START_SECONDS) as waiting:
            await link.send(frame(frames.SETTINGS, json.dumps(wanted).encode()))
            while not received and not link.over:
                await link.changed()
        if waiting.cancelled_caught:
            raise SandboxUnavailable(
                f"a container was not ready within {_START_SECONDS:g} s: the machine is overloaded, or the engine hangs"
            )
        if not received:
            words = link.errors or link.why or "it printed nothing"
            raise SandboxUnavailable(
                f"the container ended at once: {words[-500:]}; is its image one that `callgate image build` made?"
            )
        kind, payload = received[0]
        self.about = json_object(payload)
        if kind != frames.READY:
            reason = str(self.about.get("reason"))[:1000]
            if self.about.get("wish") is True:
                raise ConfigurationError(
                    f"{reason}: programs can import what is in the image, or in packages=DIR; "
                    "`callgate image build --requirements ...`"
                )
            raise SandboxUnavailable(f"the container could not be set up: {reason}")

    async def give(self, files: list[Given]) -> None:
        """Send files for the next guest.

        Raises:
            ConfigurationError: one cannot be read.
            SandboxCrashed: the container takes no more.
        """
        with anyio.move_on_after(_GIVE_SECONDS) as waiting:
            for each in files:
                pieces = packed(each)
                while (piece := await anyio.to_thread.run_sync(next, pieces, None)) is not None:
                    await self.link.send(piece)
        if waiting.cancelled_caught:
            raise SandboxCrashed(f"a container did not take its files within {_GIVE_SECONDS:g} s: it is overloaded")

    async def spawn(self) -> None:
        """Ask for a guest. Does not wait for it."""
        self.guests += 1
        await self.link.send(frame(frames.SPAWN, json.dumps(asdict(self.allowance)).encode()))

    async def remove(self) -> None:
        """End the container and wait until nothing of it is left. May be called again. A lost engine is not an error:
        its containers end with their stdin, and the next start sweeps the rest.

        Raises:
            SandboxCrashed: the container still exists.
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
        """Ask the engine to remove the container until the engine does not know it any more. A refusal may pass: the
        container is just ending by itself, or is being removed already."""
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


async def start(engine: Engine, settings: ContainerSettings, allowance: Allowance, room: int = 0) -> Container:
    """Make, attach and start a container, and wait until its supervisor is ready. `room`: see `container_options`.

    Raises:
        SandboxError: no container could be started; the message says why and what to do. Nothing is left of it.
        ConfigurationError: the container cannot do what an option of the operator asks for.
    """
    await anyio.lowlevel.checkpoint()  # a caller that is cancelled already need not wait for the engine
    container = Container(engine, allowance)
    try:
        with anyio.CancelScope(shield=True):
            await engine.call_with(container.make, settings, room)
        await container.ready(settings)
        return container
    except BaseException as error:
        try:
            await container.remove()
        except SandboxCrashed as left:
            logger.error("%s", left)
        if isinstance(error, EngineRefused):
            again = "; build the image again with `callgate image build`" if error.status == 404 else ""
            if error.status == 400 and (settings.folders or settings.packages):
                again = "; folders and packages are folders of the engine's machine"
            refused = f"the Docker engine refused to start a container: {str(error)[:1000]}{again}"
            raise SandboxUnavailable(refused) from error
        raise


def _create(api: Any, settings: ContainerSettings, allowance: Allowance, room: int) -> str:
    made = api.create_container(
        settings.image,
        user=NOBODY,
        hostname="sandbox",
        working_dir="/",
        environment=hash_seed(settings.replays),
        labels=settings.labels,
        stdin_open=True,
        network_disabled=True,
        host_config=api.create_host_config(**container_options(allowance, settings, room)),
        healthcheck={"test": ["NONE"]} if settings.engine == "docker" else None,  # see `podman`
        name=f"callgate-{secrets.token_hex(6)}",
        stop_timeout=1,
        use_config_proxy=False,  # a guest must not see a proxy's password
    )
    return str(made["Id"])


def json_object(payload: bytes) -> dict[str, Any]:
    """A JSON object that a container sent; empty if `payload` is anything else."""
    try:
        found = json.loads(payload)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
