"""The docker backend: guests in hardened containers of a Docker engine, behind the same verbs as every other sandbox.

1. A container is made for one allowance, since its cgroup is. It serves one guest and ends with it. With ``per`` =
   "tenant" it serves guest after guest of this backend, each confined by tier 2 of the jail, and ends with the first
   guest that did not end well.
2. A container that is not in `_containers` is gone: every way on which a guest ends removes its container or leaves it
   in there. Where this is not certain (`_in_doubt`), leaving the backend sweeps.
3. The engine may go away at any time. Requests then fail with an error that says what to do; the next `open` connects
   anew.
"""

from __future__ import annotations

import logging
import os
import secrets
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal

import anyio
import anyio.to_thread

from callgate.errors import CallgateError, ConfigurationError, SandboxCrashed, SandboxError, SandboxUnavailable
from callgate.sandbox.backend import Allowance, Files
from callgate.sandbox.packages import REQUIREMENTS, Packages
from callgate.sandbox.self_test import SELF_TEST_ALLOWANCE, prove
from callgate.sandbox.staging import checked_folders, named_folders

from .container import Container, start
from .engine import Engine
from .files import Given, measured, room
from .guest import ContainerGuest
from .hardening import LIMITS, ContainerSettings, missing_limits, runtimes_of
from .image import DEFAULT_TAG, ImageFacts, usable
from .podman import about, is_podman, must_suit_podman
from .sweep import enter, labels, leave, sweep

__all__ = ["DockerBackend"]

NO_FILES = (
    "containers that serve run after run (per='tenant') have no files: leave per='tenant' out, or use sandbox='jail'"
)
_GUESTS_PER_CONTAINER = 1000
"""A tenant's container is replaced after this many guests: its guests share one memory layout and one hash seed."""

_PATIENCE_SECONDS = 0.1
"""Longest wait of a run for a tenant's container before another is started: most runs are over by then."""
_STARTS = 4
"""Containers that are started at the same time: more of them would only delay the first."""
_MOST_RESTING = 16
"""Idle containers; the oldest beyond this number is removed: runs with other limits leave containers without use."""
_LANDLOCK_REFUSES = frozenset({"open a file of the system"})
"""Attempts that succeed without Landlock: a guest can read the files of its image, which are Python's own."""

logger = logging.getLogger("callgate")


class DockerBackend:
    """Guests in hardened containers.

    Args:
        image: name or id of an image that ``callgate image build`` made.
        docker_host: where the engine listens (``unix:///…`` or ``tcp://…``); ``None`` asks ``DOCKER_HOST``, the current
            docker context, the system's socket.
        runtime: the engine's name of the runtime that runs containers (``runc``, ``crun``, ``runsc``,
            ``kata-runtime``); ``None`` is the engine's default.
        per: "run" for a container per run or session. "tenant" for containers that serve run after run of this
            runtime, a few milliseconds each: for programs that may trust each other's author.
        cpus: processors that a container may use at a time.
        preimport: modules of the image that are imported ahead, for every guest.
        folders: folders of the engine's machine that guests may read, by their names below ``/input``.
        packages: a folder of packages of this machine, which the engine has to be on, that guests may import from
            besides those of the image. If it has a lock, that is of the image's Python.

    Raises:
        ConfigurationError: an option is out of range, or `packages` is no folder.
    """

    name = "docker"

    def __init__(
        self,
        *,
        image: str = DEFAULT_TAG,
        docker_host: str | None = None,
        runtime: str | None = None,
        per: Literal["run", "tenant"] = "run",
        cpus: float = 1.0,
        preimport: Sequence[str] = (),
        folders: Mapping[str, str | os.PathLike[str]] | None = None,
        packages: str | os.PathLike[str] | None = None,
    ) -> None:
        if per not in ("run", "tenant"):
            raise ConfigurationError(f"per is 'run' or 'tenant', not {per!r}")
        if not image:
            raise ConfigurationError(f"image is the name of an image, e.g. {DEFAULT_TAG!r}, not {image!r}")
        if type(cpus) not in (int, float) or not 0.01 <= cpus <= 1024:
            raise ConfigurationError(f"cpus is how many processors a container may use, 0.01 or more, not {cpus!r}")
        self.packages: tuple[str, ...] = ()
        """Names and versions of what guests can import, for models; empty until it is started."""
        self._packages = None if packages is None else Packages.read(packages)
        self.no_files = NO_FILES if per == "tenant" else ""
        if folders and per == "tenant":
            raise ConfigurationError(f"folders: {NO_FILES}")
        self._docker_host = docker_host
        self._another = partial(
            DockerBackend, image=image, docker_host=docker_host, runtime=runtime, per=per, cpus=cpus,
            preimport=preimport, folders=folders, packages=packages,
        )  # fmt: skip
        self._id = secrets.token_hex(8)
        self._in_doubt = False  # whether there may be a container that is not in `_containers`
        self._wanted = ContainerSettings(image=image, runtime=runtime, per=per, cpus=cpus, preimport=tuple(preimport),
            folders=named_folders(folders or {}),
            packages=None if self._packages is None else self._packages.folder,
        )  # fmt: skip
        self._settings = self._wanted
        self._engine: Engine | None = None
        self._connecting = anyio.Lock()
        self._entered = False
        self._containers: set[Container] = set()
        self._resting: list[Container] = []
        self._about: dict[str, Any] = {}
        self._changed = anyio.Event()
        self._starts = anyio.Semaphore(_STARTS)

    def replaying(self) -> DockerBackend:
        """See `Backend`."""
        other = self._another()
        other._wanted = other._settings = replace(other._wanted, replays=True)
        return other

    @property
    def description(self) -> str:
        if not self._about:
            return "docker, not started"
        inside = "Landlock, " if self._about.get("landlock") else ""
        shared = ", one for all runs of this runtime" if self._settings.per == "tenant" else ""
        unlimited = self._about.get("unlimited")
        limits = f"no cgroup limit of {', '.join(unlimited)}" if unlimited else "cgroup limits"
        return (
            f"docker ({self._about['runtime']}): a container with no network, read-only root, no capabilities, {limits}"
            f"{shared}; inside it {inside}seccomp, rlimits"
        )

    @property
    def sharing(self) -> str:
        """How far guests share the memory of their container's first process."""
        return str(self._about.get("sharing", ""))

    @property
    def python(self) -> str:
        """Version of the image's Python; empty until the first container has reported it."""
        return ".".join(str(self._about.get("python", "")).split(".")[:2])

    @property
    def containers(self) -> list[str]:
        """Ids of the containers that exist now."""
        return [container.id for container in self._containers]

    async def __aenter__(self) -> DockerBackend:
        self._entered = True
        # these belong to one event loop, and the backend may be entered again in another
        self._connecting, self._changed, self._starts = anyio.Lock(), anyio.Event(), anyio.Semaphore(_STARTS)
        self._wanted = replace(self._wanted, labels=labels(self._id))  # of the process that enters the backend
        enter(self._id)
        try:
            container = await self._started(SELF_TEST_ALLOWANCE)
            self._about |= container.about
            await prove(
                await self._spawned(container),
                leave_out=frozenset() if container.about.get("landlock") else _LANDLOCK_REFUSES,
            )
        except BaseException:
            await self.__aexit__(*sys.exc_info())
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        """Remove every container, then let the engine go."""
        self._entered = False
        with anyio.CancelScope(shield=True):
            async with anyio.create_task_group() as removals:
                for container in list(self._containers):
                    removals.start_soon(self._removed, container)
            self._resting.clear()
            leave(self._id)
            engine, self._engine = self._engine, None
            if engine is not None:
                try:
                    if self._in_doubt or self._containers:
                        await sweep(engine)
                except SandboxError as error:
                    logger.warning("containers may be left until the next start: %s", error)
                finally:
                    await engine.close()

    async def open(self, allowance: Allowance) -> ContainerGuest:
        while True:
            container = await self._free(allowance)
            try:
                return await self._spawned(container)
            except SandboxCrashed:
                if container.guests == 1 or self._left():
                    raise  # else the container had ended while idle, and is removed

    async def open_with(self, allowance: Allowance, files: Files) -> ContainerGuest:
        """A guest of a new container, which has these files below /input.

        Raises:
            ConfigurationError: one of the files cannot be read, or its name is taken.
            SandboxError: it cannot be had.
        """
        if self.no_files:
            raise ConfigurationError(f"files: {self.no_files}")
        names = tuple(name for name, _ in self._settings.folders)
        given = await anyio.to_thread.run_sync(measured, files, names)
        async with self._starts:
            container = await self._started(allowance, room(given))
        return await self._spawned(container, given)

    async def _free(self, allowance: Allowance) -> Container:
        """An idle container: a tenant's that is idle now or in a moment, or a new one."""
        if self._settings.per == "tenant" and self._containers:
            with anyio.move_on_after(_PATIENCE_SECONDS):
                while (container := self._rested(allowance)) is None:
                    await self._changed.wait()
                return container
        async with self._starts:
            return self._rested(allowance) or await self._started(allowance)

    def _rested(self, allowance: Allowance) -> Container | None:
        for container in self._resting:
            if container.allowance == allowance and not container.link.hung_up():
                self._resting.remove(container)
                return container
        return None

    async def _spawned(self, container: Container, files: list[Given] | None = None) -> ContainerGuest:
        guest = ContainerGuest(container, self._give_back)
        try:
            try:
                await container.give(files or [])
                await container.spawn()
            except SandboxCrashed:
                if guest.alive:
                    raise  # else the container has said why
            await guest.opened()
        except BaseException:
            await self._removed(container)
            raise
        return guest

    async def _started(self, allowance: Allowance, room: int = 0) -> Container:
        if self._left():
            raise SandboxCrashed("the docker backend is not running: it was not entered, or it was left")
        engine = await self._connected()
        try:
            container = await start(engine, self._settings, allowance, room)
        except BaseException as error:
            self._in_doubt = self._in_doubt or not isinstance(error, CallgateError)
            if isinstance(error, SandboxUnavailable):  # the next start looks for engine and image again
                await self._disconnect(engine)
            raise
        self._containers.add(container)
        if self._left():
            await self._removed(container)
            raise SandboxCrashed("the docker backend was left while a guest was being opened")
        return container

    def _left(self) -> bool:
        return not self._entered

    async def _give_back(self, container: Container, sound: bool) -> None:
        reusable = self._settings.per == "tenant" and container.guests < _GUESTS_PER_CONTAINER
        if sound and reusable and not self._left():
            self._resting.append(container)
            self._changed.set()
            self._changed = anyio.Event()
        else:
            await self._removed(container)
        # containers that have ended while idle, and the oldest where there are too many
        gone = [each for each in self._resting if each.link.hung_up()] or self._resting[:-_MOST_RESTING]
        self._resting = [each for each in self._resting if each not in gone]
        for each in gone:
            await self._removed(each)

    async def _removed(self, container: Container) -> None:
        """Remove a container. One that cannot be removed now is tried again at the end; its run is over already."""
        try:
            await container.remove()
        except SandboxError as error:
            logger.error("%s", error)
        else:
            self._containers.discard(container)

    # the engine

    async def _connected(self) -> Engine:
        async with self._connecting:
            if self._engine is None:
                engine = await Engine.connect(self._docker_host)
                try:
                    await self._settle(engine)
                    await sweep(engine)
                except BaseException:
                    await engine.close()
                    raise
                self._engine = engine
            return self._engine

    async def _settle(self, engine: Engine) -> None:
        """Check that the engine has the runtime and the image. Containers are made of the image's id, since its name
        may be given to another image later."""
        version, info = await about(engine)
        missing = missing_limits(info)
        for key in missing:
            logger.warning("the Docker engine at %s cannot limit %s (%s)", engine.host, *LIMITS[key])
        settings, runtime, known = self._wanted, self._wanted.runtime, runtimes_of(info)
        if "CpuCfsQuota" in missing:
            settings = replace(settings, cpus=None)
        if is_podman(version):
            must_suit_podman(engine.host, known[0], runtime, self._wanted.folders)
            rootless = "name=rootless" in info["SecurityOptions"]
            settings = replace(settings, runtime=None, engine="rootless podman" if rootless else "podman")
        elif runtime is not None and runtime not in known and not runtime.startswith("io.containerd."):
            raise ConfigurationError(
                f"the Docker engine at {engine.host} has no runtime {runtime!r}; it has: {', '.join(known)}. "
                "Install it and name it in the engine's daemon.json"
            )
        image = await usable(engine, self._wanted.image)
        self._settings = replace(settings, image=image.id)
        self.packages = tuple(each.replace("==", " ") for each in image.packages)
        if engine.host.startswith("unix://"):  # then most likely of this machine
            here = {name: path for name, path in self._wanted.folders if os.path.isdir(path)}  # noqa: ASYNC240
            await anyio.to_thread.run_sync(checked_folders, here)
        if self._packages is not None:
            self._check(self._packages, engine, image, str(info.get("Architecture", "")))
            self.packages = tuple(dict.fromkeys((*self._packages.shown, *self.packages)))
        self._about["unlimited"] = [LIMITS[key][0] for key in missing]
        used = runtime or info.get("DefaultRuntime")
        self._about["runtime"] = f"podman, {used}" if is_podman(version) else used

    def _check(self, packages: Packages, engine: Engine, image: ImageFacts, machine: str) -> None:
        """Raises `ConfigurationError` if guests of the image cannot import from a folder of this machine."""
        listed = f"{packages.folder}/{REQUIREMENTS}" if packages.requested else '"NAMES"'
        remedy = f"put them into an image: `callgate image build --requirements {listed} --tag NAME`"
        if not engine.host.startswith("unix://"):
            raise ConfigurationError(f"packages: the engine at {engine.host} may be on another machine: {remedy}")
        packages.must_fit(".".join(image.python.split(".")[:2]), remedy, machine=machine)

    async def _disconnect(self, engine: Engine) -> None:
        self._in_doubt = True
        if self._engine is engine:
            self._engine = None
            await engine.close()
