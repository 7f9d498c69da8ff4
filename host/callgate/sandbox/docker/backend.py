"""The docker backend: guests in hardened containers of a Docker engine, behind the same verbs as every other sandbox.

1. A container is made for one allowance, since its cgroup is. It serves one guest and is gone with it, or (``per`` is
   "tenant") guest after guest of this backend, each confined by tier 2 of the jail, and is gone with the first that
   did not end well.
2. A container that is not in `_containers` is gone: whatever path a guest takes out of here removes its container or
   leaves it there. Where that cannot be known (`_in_doubt`), leaving the backend sweeps.
3. The engine may go away at any time. What was asked of it fails with what to do; the next `open` connects anew.
"""

from __future__ import annotations

import logging
import secrets
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

import anyio
import anyio.abc

from callgate.errors import CallgateError, ConfigurationError, SandboxCrashed, SandboxError
from callgate.sandbox.backend import Allowance
from callgate.sandbox.self_test import SELF_TEST_ALLOWANCE, prove

from .container import Container, ContainerSettings, ImageGone, start
from .engine import Engine, EngineUnreachable
from .guest import ContainerGuest
from .hardening import LIMITS, missing_limits, runtimes_of
from .image import DEFAULT_TAG, usable
from .sweep import enter, labels, leave, sweep

__all__ = ["DockerBackend"]

_GUESTS_PER_CONTAINER = 1000
"""A tenant's container is replaced after so many: its guests share one memory layout and one hash seed."""

_PATIENCE_SECONDS = 0.02
"""How long a run waits for a tenant's container to come free before another is started: most runs are over by then."""
_TRIES = 3
_STARTS = 4
"""Containers that are started at a time: more of them only keep the first from being ready."""
_MOST_RESTING = 16
"""Beyond it the one that has rested longest is removed: runs with other limits leave containers nobody asks for."""
_LANDLOCK_REFUSES = frozenset({"open a file of the system"})
"""Without it, a guest can read the files of its image, which are Python's own."""

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
            runtime, a few milliseconds each: for a runtime whose programs may trust each other's author.
        cpus: processors that a container may use at a time.
        preimport: modules of the image that are imported ahead, for every guest.

    Raises:
        ConfigurationError: an option is out of range.
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
    ) -> None:
        if per not in ("run", "tenant"):
            raise ConfigurationError(f"per is 'run' or 'tenant', not {per!r}")
        if not image:
            raise ConfigurationError(f"image is the name of an image, e.g. {DEFAULT_TAG!r}, not {image!r}")
        if type(cpus) not in (int, float) or not 0.01 <= cpus <= 1024:
            raise ConfigurationError(f"cpus is how many processors a container may use, 0.01 or more, not {cpus!r}")
        self._docker_host = docker_host
        self._id = secrets.token_hex(8)
        self._in_doubt = False  # whether there may be a container that nobody here knows of
        self._wanted = ContainerSettings(
            image=image, runtime=runtime, per=per, cpus=cpus, preimport=tuple(preimport), labels={}
        )
        self._settings = self._wanted
        self._engine: Engine | None = None
        self._connecting = anyio.Lock()
        self._entered = False
        self._containers: set[Container] = set()
        self._resting: list[Container] = []
        self._told: dict[str, Any] = {}
        self._tasks: anyio.abc.TaskGroup
        self._changed = anyio.Event()
        self._waiting = 0
        self._starting = 0
        self._starts = anyio.Semaphore(_STARTS)

    @property
    def description(self) -> str:
        if not self._told:
            return "docker, not started"
        inside = "Landlock, " if self._told.get("landlock") else ""
        shared = ", one for all runs of this runtime" if self._settings.per == "tenant" else ""
        return (
            f"docker ({self._told['runtime']}): a container with no network, read-only root, no capabilities, cgroup "
            f"limits{shared}; inside it {inside}seccomp, rlimits"
        )

    @property
    def python(self) -> str:
        """Version of the image's Python; empty until a container has said it."""
        return ".".join(str(self._told.get("python", "")).split(".")[:2])

    @property
    def containers(self) -> list[str]:
        """Ids of the containers that are there now."""
        return [container.id for container in self._containers]

    async def __aenter__(self) -> DockerBackend:
        self._tasks = anyio.create_task_group()
        await self._tasks.__aenter__()
        self._entered = True
        # those of an earlier event loop, if the backend was entered before, belong to that loop
        self._connecting, self._changed, self._starts = anyio.Lock(), anyio.Event(), anyio.Semaphore(_STARTS)
        self._wanted = replace(self._wanted, labels=labels(self._id))  # of this process, whoever made the backend
        enter(self._id)
        try:
            await self._connected()
            container = await self._started(SELF_TEST_ALLOWANCE)
            self._told = {**container.told, **self._told}
            await prove(
                await self._spawned(container),
                leave_out=frozenset() if container.told.get("landlock") else _LANDLOCK_REFUSES,
            )
        except BaseException:
            await self.__aexit__(*sys.exc_info())
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        self._entered = False
        self._tell()
        self._tasks.cancel_scope.cancel()
        try:
            await self._tasks.__aexit__(None, None, None)
        finally:  # it raises when this is cancelled
            with anyio.CancelScope(shield=True):
                await self._end()

    async def _end(self) -> None:
        """Remove every container, then let the engine go."""
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
        if self._settings.per == "run":
            async with self._starts:
                container = await self._started(allowance)
            return await self._spawned(container)
        for _ in range(_TRIES - 1):
            try:
                return await self._spawned(await self._free(allowance))
            except SandboxCrashed:  # it has ended at rest, and is removed
                if self._left():
                    raise
        return await self._spawned(await self._free(allowance))

    async def _free(self, allowance: Allowance) -> Container:
        """A tenant's container with nothing running in it: one that rests, or the first to come free while another
        one is started."""
        failures: list[BaseException] = []
        patience = anyio.current_time() + _PATIENCE_SECONDS
        self._waiting += 1
        try:
            while True:
                container = self._rested(allowance)
                if container is not None:
                    return container
                if failures:
                    raise failures[0]
                if self._left():
                    raise SandboxCrashed("the docker backend is not running: it was not entered, or it was left")
                if self._containers and anyio.current_time() < patience:
                    with anyio.CancelScope(deadline=patience):
                        await self._changed.wait()
                    continue
                if self._starting < self._waiting:
                    self._starting += 1
                    self._tasks.start_soon(self._start_resting, allowance, failures)
                await self._changed.wait()
        finally:
            self._waiting -= 1

    async def _start_resting(self, allowance: Allowance, failures: list[BaseException]) -> None:
        try:
            async with self._starts:
                if not any(each.allowance == allowance for each in self._resting):
                    self._resting.append(await self._started(allowance))
        except (CallgateError, OSError) as error:
            failures.append(error)
        finally:
            self._starting -= 1
            self._tell()

    def _tell(self) -> None:
        """Wake whoever waits for a container."""
        self._changed.set()
        self._changed = anyio.Event()

    def _rested(self, allowance: Allowance) -> Container | None:
        for container in [each for each in self._resting if each.allowance == allowance]:
            self._resting.remove(container)
            if not container.link.hung_up():
                return container
            self._tasks.start_soon(self._removed, container)
        return None

    async def _spawned(self, container: Container) -> ContainerGuest:
        guest = ContainerGuest(container, self._host, self._give_back)
        try:
            await container.spawn()
            await guest.opened()
        except BaseException:
            await self._removed(container)
            raise
        return guest

    @property
    def _host(self) -> str:
        return self._engine.host if self._engine is not None else "?"

    async def _started(self, allowance: Allowance) -> Container:
        if self._left():
            raise SandboxCrashed("the docker backend is not running: it was not entered, or it was left")
        engine = await self._connected()
        try:
            container = await start(engine, self._settings, allowance)
        except ImageGone:
            await self._disconnect(engine)  # its name may mean another one by now
            container = await start(await self._connected(), self._settings, allowance)
        except BaseException as error:
            self._in_doubt = self._in_doubt or not isinstance(error, CallgateError)
            if isinstance(error, EngineUnreachable):
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
        fit = sound and container.reusable and self._entered and container.guests < _GUESTS_PER_CONTAINER
        if fit and not container.link.hung_up():
            self._resting.append(container)
            self._tell()
            await self._look_at_the_resting()
        else:
            await self._removed(container)

    async def _look_at_the_resting(self) -> None:
        """Remove those that have ended at rest, and the one that has rested longest where there are many."""
        gone = [each for each in self._resting if each.link.hung_up()]
        if len(self._resting) - len(gone) > _MOST_RESTING:
            gone.append(next(each for each in self._resting if each not in gone))
        for container in gone:
            self._resting.remove(container)
        for container in gone:
            await self._removed(container)

    async def _removed(self, container: Container) -> None:
        """Remove it; one that cannot be removed now is tried again at the end. No run is concerned any more."""
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
        """See that the engine has the runtime and the image. Containers are made of the image's id, since its name may
        come to mean another image while this is at work."""
        info = await engine.call("info")
        for key in missing_limits(info):
            logger.warning("the Docker engine at %s cannot limit %s (%s)", engine.host, *LIMITS[key])
        runtime, known = self._wanted.runtime, runtimes_of(info)
        if runtime is not None and runtime not in known and not runtime.startswith("io.containerd."):
            raise ConfigurationError(
                f"the Docker engine at {engine.host} has no runtime {runtime!r}; it has: {', '.join(known)}. "
                "Install it and name it in the engine's daemon.json"
            )
        self._settings = replace(self._wanted, image=(await usable(engine, self._wanted.image)).id)
        self._told["runtime"] = runtime or info.get("DefaultRuntime")

    async def _disconnect(self, engine: Engine) -> None:
        self._in_doubt = True
        if self._engine is engine:
            self._engine = None
            await engine.close()
