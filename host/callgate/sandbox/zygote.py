"""The host's side of a zygote: starts it, asks it for guests, hears of their ends. See `callgate_guest.zygote` for
the other side."""

from __future__ import annotations

import array
import contextlib
import errno
import fcntl
import itertools
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import anyio
import anyio.abc

import callgate_guest.wire
from callgate.errors import ConfigurationError, SandboxCrashed, SandboxUnavailable

from .backend import Allowance, GuestExit, Stream, Usage
from .pipes import Pipes, open_pipes

__all__ = ["JailedGuest", "Zygote", "ZygoteSettings"]

_PACKET = 1 << 16
_START_SECONDS = 30.0
_GONE_SECONDS = 10.0
_FILES_HINT = "; raise the limit on open files (ulimit -n), or run fewer programs at a time"
_GUEST_ROOT = str(Path(callgate_guest.wire.__file__).parent.parent)


@dataclass(frozen=True, kw_only=True, slots=True)
class ZygoteSettings:
    """How a zygote is made.

    Attributes:
        tier: 1 with namespaces, 2 without.
        packages: a site-packages folder of the host that guests may import from, read-only.
        preimport: modules that the zygote imports before it forks.
    """

    tier: int
    packages: str | None = None
    preimport: tuple[str, ...] = ()


class JailedGuest:
    """A child of a zygote: three pipes, a pidfd, and what the kernel says of it."""

    def __init__(self, zygote: Zygote, number: int, pipes: Pipes) -> None:
        self._zygote = zygote
        self._number = number
        self._pipes = pipes
        self._pidfd = -1
        self._status = -1  # its /proc/PID/status, opened ahead: at the end of a run that would be time lost
        self.pid = 0
        self._exit: GuestExit | None = None
        self._spawned = anyio.Event()
        self._gone = anyio.Event()
        self.refused: str | None = None

    def spawned(self, pidfd: int) -> None:
        self._pidfd = pidfd
        self.pid = _pid_of(pidfd)
        with contextlib.suppress(OSError):  # no /proc, or no descriptor to spare: then nobody can tell
            self._status = os.open(f"/proc/{self.pid}/status", os.O_RDONLY | os.O_CLOEXEC)
        self._spawned.set()

    def exited(self, ended: GuestExit) -> None:
        self._exit = ended
        if self._pidfd >= 0:
            os.close(self._pidfd)
            self._pidfd = -1
        if self._status >= 0:
            os.close(self._status)
            self._status = -1
        self._spawned.set()
        self._gone.set()

    @property
    def pid_fd(self) -> int:
        """The kernel's handle of its process; -1 before it exists and after it has ended."""
        return self._pidfd

    @property
    def alive(self) -> bool:
        """Whether its process is there: asks the kernel, which knows before the zygote has told."""
        if self._exit is not None or self._pidfd < 0:
            return False
        poll = select.poll()
        poll.register(self._pidfd, select.POLLIN)
        return not poll.poll(0)

    async def wait_spawned(self) -> None:
        await self._spawned.wait()

    async def send(self, data: bytes) -> None:
        await self._pipes.send(data)

    async def receive(self) -> tuple[Stream, bytes]:
        return await self._pipes.receive()

    async def healthy(self) -> bool:
        return self.alive

    def unread_output(self) -> bytes:
        return self._pipes.unread_output()

    def usage(self) -> Usage | None:
        if self._exit is not None:
            return self._exit.usage
        if self.pid <= 0:
            return None
        try:
            # the clock of another process, as clock_getcpuclockid(3) names it
            cpu = time.clock_gettime(~self.pid << 3 | 2)
            text = os.pread(self._status, 4096, 0)
            peak = text.index(b"\nVmHWM:") + 7  # a program may name itself so, but not begin a line
            return Usage(cpu, int(text[peak : text.index(b"kB", peak)]) * 1024)
        except (OSError, ValueError):  # it is just ending, or /proc is not there
            return None

    def kill(self) -> None:
        if self._pidfd >= 0:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)

    def release(self) -> None:
        """Close the host's ends of its pipes."""
        self._pipes.close()
        self._zygote.closed(self)

    async def aclose(self) -> GuestExit:
        self.kill()
        self.release()
        with anyio.CancelScope(shield=True), anyio.move_on_after(_GONE_SECONDS):
            await self._gone.wait()
        if self._exit is None:
            raise SandboxCrashed(f"guest {self.pid} was killed and is still there after {_GONE_SECONDS:g} s")
        return self._exit


class Zygote:
    """One zygote process. `start` it; then `spawn` guests; `close` ends it with all of them."""

    def __init__(self, settings: ZygoteSettings) -> None:
        self.settings = settings
        self.landlock_abi = 0
        self.spawned_in_all = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._sending = anyio.Lock()
        self._guests: dict[int, JailedGuest] = {}
        self._unclosed: set[JailedGuest] = set()
        self._broken = False
        self._numbers = itertools.count(1)
        self._ready = anyio.Event()
        self._ended = anyio.Event()
        self._failure: str | None = None
        self._wish = False  # it failed for what the operator asked of it, not for the machine

    @property
    def alive(self) -> bool:
        return self._control is not None and not self._ended.is_set() and not self._broken

    @property
    def live_guests(self) -> int:
        return len(self._guests)

    @property
    def pid(self) -> int:
        return self._process.pid if self._process else 0

    async def start(self, tasks: anyio.abc.TaskGroup) -> None:
        """Start the process and wait until it can fork.

        Raises:
            SandboxUnavailable: it could not confine itself here; the message says which step failed.
        """
        try:
            ours, theirs = _control_pair()
        except OSError as error:
            raise SandboxUnavailable(f"no socket for the jail's zygote: {error.strerror}{_FILES_HINT}") from error
        ours.setblocking(False)
        self._control = ours
        try:
            start = f"from callgate_guest.zygote import launch; launch({theirs.fileno()})"
            code = f"import sys; sys.path.append({_GUEST_ROOT!r}); {start}"
            executable = getattr(sys, "_base_executable", None) or sys.executable
            self._process = subprocess.Popen(  # noqa: ASYNC220 (a vfork and an exec)
                [executable, "-I", "-S", "-B", "-X", "utf8", "-c", code],
                env={"MALLOC_ARENA_MAX": "2"}, pass_fds=[theirs.fileno()], start_new_session=True, cwd="/",
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            )  # fmt: skip
        except OSError as error:
            ours.close()
            self._control = None
            hint = _FILES_HINT if error.errno == errno.EMFILE else ""
            raise SandboxUnavailable(f"the jail's zygote could not be started: {error.strerror}{hint}") from error
        finally:
            theirs.close()
        settings = {
            "tier": self.settings.tier,
            "packages": self.settings.packages,
            "preimport": self.settings.preimport,
        }
        tasks.start_soon(self._listen, ours)
        try:
            with contextlib.suppress(OSError):  # it ended at once, which `_listen` sees
                ours.send(json.dumps(settings).encode())
            with anyio.move_on_after(_START_SECONDS):
                await self._ready.wait()
        except BaseException:
            await self.close()
            raise
        if not self._ready.is_set() or self._failure or self._ended.is_set():
            reason = self._failure or (
                "it ended at once" if self._ended.is_set() else f"it took more than {_START_SECONDS:g} s"
            )
            await self.close()
            if self._wish:
                raise ConfigurationError(reason)
            raise SandboxUnavailable(f"the jail's zygote (tier {self.settings.tier}) did not start: {reason}")

    async def spawn(self, allowance: Allowance) -> JailedGuest:
        """Fork a guest; returns once it exists. Raises `SandboxCrashed` when it cannot be had."""
        if self._control is None:
            raise SandboxCrashed("the zygote is closed")
        number = next(self._numbers)
        mine: list[int] = []
        theirs: list[int] = []
        try:
            for host_reads in (False, True, True):
                reader, writer = os.pipe()
                mine.append(reader if host_reads else writer)
                theirs.append(writer if host_reads else reader)
            for fd in mine:
                os.set_blocking(fd, False)
            guest = JailedGuest(self, number, open_pipes(mine[1], mine[2], mine[0]))
        except OSError as error:
            for fd in (*mine, *theirs):
                os.close(fd)
            raise SandboxCrashed(f"no pipes for a new guest: {error.strerror}{_FILES_HINT}") from error
        self._guests[number] = guest
        self._unclosed.add(guest)
        try:
            try:
                await self._send(json.dumps({"spawn": number, "allowance": asdict(allowance)}).encode(), theirs)
            finally:
                for fd in theirs:
                    os.close(fd)
            await guest.wait_spawned()
        except BaseException:
            guest.kill()
            guest.release()  # the closed wire ends it, should it come to life yet
            raise
        if guest.pid_fd < 0:
            guest.release()
            raise SandboxCrashed(f"the zygote could not fork a guest: {guest.refused or 'it ended at once'}")
        self.spawned_in_all += 1
        return guest

    async def _send(self, packet: bytes, fds: list[int]) -> None:
        async with self._sending:  # one task at a time may wait for a descriptor
            while True:
                if self._control is None:  # it ended while this waited
                    raise SandboxCrashed("the zygote is gone")
                try:
                    socket.send_fds(self._control, [packet], fds)
                    return
                except BlockingIOError:
                    await anyio.wait_writable(self._control)
                except (OSError, anyio.ClosedResourceError) as error:
                    self._broken = True
                    raise SandboxCrashed("the zygote is gone") from error

    async def _listen(self, control: socket.socket) -> None:
        try:
            while True:
                try:
                    packet, ancillary, _, _ = control.recvmsg(_PACKET, socket.CMSG_LEN(4))
                except BlockingIOError:
                    await anyio.wait_readable(control)
                    continue
                if not packet:
                    break
                fds = array.array("i")
                for _, _, data in ancillary:
                    fds.frombytes(data[: len(data) - len(data) % 4])
                self._hear(json.loads(packet), list(fds))
        except (OSError, anyio.ClosedResourceError):
            pass
        finally:
            self._ended.set()
            self._ready.set()
            for guest in list(self._guests.values()):
                guest.exited(GuestExit(None, None))
            self._guests.clear()

    def _hear(self, message: dict[str, object], fds: list[int]) -> None:
        if "spawned" in message:
            guest = self._guests.get(int(str(message["spawned"])))
            if guest is None:
                os.close(fds[0])
            else:
                guest.spawned(fds[0])
        elif "exited" in message:
            guest = self._guests.pop(int(str(message["exited"])), None)
            if guest is not None:
                usage = Usage(float(str(message["cpu"])), int(str(message["peak"])))
                guest.exited(GuestExit(int(str(message["status"])), usage))
        elif "refused" in message:
            guest = self._guests.pop(int(str(message["refused"])), None)
            if guest is not None:
                guest.refused = str(message["reason"])
                guest.exited(GuestExit(None, None))
        elif "ready" in message:
            self.landlock_abi = int(str(message["landlock"]))
            self._ready.set()
        elif "failed" in message:
            self._failure = str(message["failed"])
            self._wish = "wish" in message
            self._ready.set()

    async def close(self) -> None:
        """End the zygote and every guest it has; returns when they are gone."""
        control, self._control = self._control, None
        if control is None:
            return
        with contextlib.suppress(OSError):
            control.shutdown(socket.SHUT_RDWR)
        with anyio.CancelScope(shield=True):
            if self._process is not None:
                with anyio.move_on_after(2.0):
                    while self._process.poll() is None:  # noqa: ASYNC110 (nothing tells of the end but asking)
                        await anyio.sleep(0.002)
                if self._process.poll() is None:
                    self._process.kill()
                    self._process.wait()
            with anyio.move_on_after(_GONE_SECONDS):
                await self._ended.wait()
        with contextlib.suppress(OSError):
            anyio.notify_closing(control)
        control.close()
        for guest in list(self._unclosed):
            guest.release()

    def closed(self, guest: JailedGuest) -> None:
        """Its pipes are closed; nothing more is to be done for it."""
        self._unclosed.discard(guest)


def _control_pair() -> tuple[socket.socket, socket.socket]:
    """Two connected sockets, the second not among the descriptors 0 to 2: a child's stdio would take its place."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    if theirs.fileno() > 2:
        return ours, theirs
    try:
        moved = socket.socket(fileno=fcntl.fcntl(theirs.fileno(), fcntl.F_DUPFD_CLOEXEC, 3))
    except OSError:
        ours.close()
        raise
    finally:
        theirs.close()
    return ours, moved


def _pid_of(pidfd: int) -> int:
    """The process behind a pidfd, as this process's own pid namespace numbers it; 0 where /proc does not tell."""
    try:
        with open(f"/proc/self/fdinfo/{pidfd}", "rb", buffering=0) as info:
            for line in info.read(4096).splitlines():
                if line.startswith(b"Pid:"):
                    return max(0, int(line[4:]))
    except OSError:
        pass
    return 0
