"""Where the guests of a runtime are, as this machine sees them: processes below this one, or in an engine's containers.

Both answer the same questions, so that a probe need not know which it is.
"""

from __future__ import annotations

import contextlib
import os
import signal
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from anyio.from_thread import BlockingPortal

from callgate import Runtime
from callgate.sandbox.docker.engine import EngineRefused
from callgate.sandbox.docker.sweep import LABEL
from probes.processes import descendants, eventually, guests_of, processes, status_of

__all__ = ["Children", "Containers", "Forks", "Seats"]


class Seats(ABC):
    """The guests of `runtime`; `portal` leads to its event loop."""

    def __init__(self, runtime: Runtime, portal: BlockingPortal) -> None:
        self.runtime = runtime
        self.portal = portal

    @property
    def pool(self) -> Any:
        return self.runtime._pool

    @property
    def backend(self) -> Any:
        return self.runtime.backend

    def idle_guest(self, at: int = 0) -> Any:
        """A guest that waits in the pool: the next by default, the last with -1."""
        eventually(lambda: self.pool.idle > 0, "an idle guest")
        return self.pool._idle[at]

    def full(self) -> bool:
        """Whether the pool is full, and all that ended is gone."""
        return self.pool.idle == self.pool._size and not self.pool._ending and not self.pool._in_hand

    # what the two answer differently

    @abstractmethod
    def pid_of(self, guest: Any) -> int:
        """Its process id, as this machine counts."""

    @abstractmethod
    def keeper(self) -> int:
        """Process id of what guests are forked from: another than the next guest's, where there are several."""

    @abstractmethod
    def kill_keepers(self) -> None:
        """Kill all processes that guests are forked from."""

    @abstractmethod
    def guests(self) -> set[int]:
        """Process ids of all guests that are confined by now, as this machine counts."""

    @abstractmethod
    def everything(self) -> set[int]:
        """Every process that this runtime has, guests and others, zombies included."""

    @abstractmethod
    def of_host(self, pid: int) -> set[int]:
        """The processes that another host, which is the process `pid`, has: guests and others."""

    @abstractmethod
    def left(self) -> tuple[int, ...]:
        """What grows if a run leaves something: open descriptors, processes, containers."""


class Forks(Seats):
    """The jail's: forked from a zygote that is below this process."""

    def pid_of(self, guest: Any) -> int:
        pid: int = guest.pid
        return pid

    def keeper(self) -> int:
        pid: int = self.backend.zygote_pid
        return pid

    def kill_keepers(self) -> None:
        os.kill(self.keeper(), signal.SIGKILL)

    def guests(self) -> set[int]:
        return {pid for pid in descendants(self.keeper()) if _is_confined(pid)}

    def everything(self) -> set[int]:
        return descendants(os.getpid())

    def of_host(self, pid: int) -> set[int]:
        return descendants(pid)

    def left(self) -> tuple[int, ...]:
        return len(os.listdir("/proc/self/fd")), len(descendants(os.getpid()))


class Children(Forks):
    """srt's: each below processes of its own."""

    def keeper(self) -> int:
        pid: int = self.idle_guest(-1).pid
        return processes()[pid]

    def kill_keepers(self) -> None:
        for pid in self.backend.guests:
            with contextlib.suppress(ProcessLookupError, KeyError):
                os.kill(processes()[pid], signal.SIGKILL)

    def guests(self) -> set[int]:
        return set(self.backend.guests)


class Containers(Seats):
    """Docker's: each forked from the supervisor of a container, which the engine has started, not this process."""

    def ask(self, method: str, *arguments: Any, **options: Any) -> Any:
        """Ask the engine, over the backend's own connection."""

        async def go() -> Any:
            return await self.backend._engine.call(method, *arguments, **options)

        return self.portal.call(go)

    def inspect(self, id: str) -> dict[str, Any]:
        """What the engine says of a container."""
        found: dict[str, Any] = self.ask("inspect_container", id)
        return found

    def ours(self, pid: int | None = None) -> dict[str, str]:
        """The containers that the engine has for the process `pid`, by default this one: id to state."""
        mine = f":{pid or os.getpid()}:"
        found = self.ask("containers", all=True, filters={"label": [LABEL]})
        return {each["Id"]: each["State"] for each in found if mine in each["Labels"][LABEL]}

    def supervisor(self, id: str) -> int:
        """The pid on this machine of a container's process 1; 0 where it has none any more."""
        try:
            return int(self.inspect(id)["State"]["Pid"])
        except EngineRefused:
            return 0

    def inside(self, id: str) -> set[int]:
        """The processes of a container, by the pids of this machine."""
        supervisor = self.supervisor(id)
        return {supervisor, *descendants(supervisor)} if supervisor else set()

    def pid_of(self, guest: Any) -> int:
        below = guests_of(self.supervisor(guest.container.id))
        assert len(below) == 1, below
        return below.pop()

    def keeper(self) -> int:
        return self.supervisor(self.idle_guest(-1).container.id)

    def kill_keepers(self) -> None:
        for id in self.backend.containers:
            with contextlib.suppress(EngineRefused):  # it has just ended
                self.ask("kill", id)

    def guests(self) -> set[int]:
        supervisors = {self.supervisor(id) for id in self.backend.containers} - {0}
        return {pid for supervisor in supervisors for pid in guests_of(supervisor) if _is_confined(pid)}

    def everything(self) -> set[int]:
        return descendants(os.getpid()).union(*(self.inside(id) for id in self.backend.containers))

    def of_host(self, pid: int) -> set[int]:
        return descendants(pid).union(*(self.inside(id) for id in self.ours(pid)))

    def left(self) -> tuple[int, ...]:
        """Without the containers at rest, which are kept for the next run, and their sockets."""
        resting = {each.id for each in self.backend._resting}
        containers = self.ours().keys()
        return (
            len(os.listdir("/proc/self/fd")) - self._kept_connections() - len(resting),
            len(descendants(os.getpid())),
            len(containers - resting),
        )

    def _kept_connections(self) -> int:
        """Descriptors of the connections that the SDK keeps for its next request: how many varies."""
        adapter = self.backend._engine._api.get_adapter("http+docker://localhost")
        held: Callable[[Any], bool] = lambda each: each is not None and each.sock is not None  # noqa: E731
        return sum(held(each) for pool in adapter.pools._container.values() for each in list(pool.pool.queue))


def _is_confined(pid: int) -> bool:
    try:
        return status_of(pid)["Seccomp"] == "2" and status_of(pid)["NoNewPrivs"] == "1"
    except (OSError, KeyError):
        return False
