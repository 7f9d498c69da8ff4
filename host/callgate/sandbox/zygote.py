"""The host's side of a zygote: starts the process, asks for guests, learns of their ends. The other side is
`callgate_guest.zygote`."""

from __future__ import annotations

import array
import contextlib
import errno
import itertools
import json
import os
import socket
import subprocess
from dataclasses import asdict
from functools import partial
from typing import Any

import anyio
import anyio.to_thread

from callgate.errors import ConfigurationError, SandboxCrashed, SandboxUnavailable

from .backend import Allowance, Collected, Files, GuestExit, Usage
from .collecting import Seen, collected
from .launching import ZygoteSettings, end_at_once, launched
from .pipes import FILES_HINT, Pipes, ProcessGuest, make_pipes, readers
from .staging import Staging

__all__ = ["JailedGuest", "Zygote"]

_PACKET = 1 << 16
_START_SECONDS = 30.0
_GONE_SECONDS = 10.0
_NOTHING = Collected()
_UNTOUCHED = 1
"""The time of change of a fresh /output: see `callgate_guest.jail.root`."""


class JailedGuest(ProcessGuest):
    """A child of a zygote.

    Args:
        zygote: its parent.
        pipes: the host's ends of its pipes.
        inputs: names that lead from /output to its inputs.
    """

    def __init__(self, zygote: Zygote, pipes: Pipes, inputs: frozenset[str]) -> None:
        super().__init__(pipes)
        self._zygote = zygote
        self._inputs = inputs
        self._spawned = anyio.Event()
        self._gone = anyio.Event()
        self._released = False
        self._exists = False
        self._output = -1  # the folder /output
        self._seen: Seen = {}
        self.staged = ""
        """Name of its files in the zygote's staging folder."""

    def handed_over(self, pid: int, pidfd: int, output: int | None) -> None:
        """The process exists. Takes over these descriptors; `output` is its /output, in tier 1."""
        self.began(pid, pidfd)
        self._exists = True
        if output is not None and self._released:
            os.close(output)
        elif output is not None:
            self._output = output
        self._spawned.set()

    def exited(self, ended: GuestExit) -> None:
        super().exited(ended)
        self._spawned.set()
        self._gone.set()

    async def spawned(self) -> None:
        """Wait until the process exists. Raises `SandboxCrashed` if the zygote could not fork it."""
        await self._spawned.wait()
        if self._exit is not None and not self._exists:
            raise SandboxCrashed(f"the zygote could not fork a guest: {self._exit.reason or 'it ended at once'}")

    async def collect(self, most: int, most_bytes: int) -> Collected:
        """The files in /output that are new or have changed since the last call: see `Guest`."""
        if self._output < 0:
            return _NOTHING
        try:
            if os.fstat(self._output).st_mtime_ns == _UNTOUCHED:
                return _NOTHING
            held = [os.dup(self._output)]  # a task that closes the guest meanwhile closes its own
        except OSError as error:
            return Collected(left=(f"no file in /output was kept: {error.strerror}{FILES_HINT}",))
        if self.killed:
            self._close_output()

        def search() -> Collected:
            fd = held.pop()  # asyncio's own cancellation does not wait for this thread
            try:
                return collected(fd, self._seen, self._inputs, most, most_bytes)
            finally:
                os.close(fd)  # in the thread: the kernel may free the files now

        try:
            async with self.frozen():
                return await anyio.to_thread.run_sync(search)
        finally:
            with contextlib.suppress(IndexError):
                os.close(held.pop())  # cancelled before the thread began

    def _close_output(self) -> None:
        """Let the kernel forget the files, once the guest is gone."""
        if self._output >= 0:
            os.close(self._output)
            self._output = -1

    def release(self) -> None:
        """Close the host's ends of the guest's pipes, and its /output."""
        self._released = True
        self._pipes.close()
        self._close_output()
        self._zygote.unclosed.discard(self)

    async def aclose(self) -> GuestExit:
        self.kill()
        self.release()
        with anyio.CancelScope(shield=True), anyio.move_on_after(_GONE_SECONDS):
            await self._gone.wait()
        if self._exit is None:
            raise SandboxCrashed(f"guest {self.pid} was killed and is still there after {_GONE_SECONDS:g} s")
        if self.staged:
            await self._zygote.forget(self.staged)
            self.staged = ""
        return self._exit


class Zygote:
    """One zygote process. `start` it; then `spawn` guests; `close` ends it with all of them.

    Attributes:
        spawned_in_all: how many guests it has forked.
        unclosed: guests whose pipes are open.
    """

    def __init__(self, settings: ZygoteSettings) -> None:
        self._settings = settings
        self._folders = frozenset(name for name, _ in settings.folders)
        self.spawned_in_all = 0
        self.unclosed: set[JailedGuest] = set()
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._staging: Staging | None = None
        self._sending = anyio.Lock()
        self._guests: dict[int, JailedGuest] = {}
        self._readers = readers()
        self._broken = False
        self._numbers = itertools.count(1)
        self._ready = anyio.Event()
        self._ended = anyio.Event()
        self._failed: dict[str, Any] = {}
        self.sharing = ""
        """How far guests share its memory, in the guest's words: see `callgate_guest.sharing`."""

    @property
    def alive(self) -> bool:
        return self._control is not None and not self._ended.is_set() and not self._broken

    @property
    def live_guests(self) -> int:
        return len(self._guests)

    @property
    def pid(self) -> int:
        return self._process.pid if self._process else 0

    async def start(self) -> None:
        """Start the process and wait until it can fork.

        Raises:
            SandboxUnavailable: the zygote could not confine itself here; the message names the step that failed.
            ConfigurationError: an option of the operator cannot be met.
        """
        try:
            self._process, self._control, self._staging = launched(self._settings)
        except OSError as error:
            hint = FILES_HINT if error.errno in (errno.EMFILE, errno.ENFILE) else ""
            raise SandboxUnavailable(f"the jail's zygote could not be started: {error.strerror}{hint}") from error
        try:
            self._readers.add_reader(self._control.fileno(), self._on_readable, self._control)
            with anyio.move_on_after(_START_SECONDS) as waiting:
                await self._ready.wait()
        except BaseException:
            await self.close()
            raise
        if not (waiting.cancelled_caught or self._failed or self._ended.is_set()):
            return
        slow = f"it took more than {_START_SECONDS:g} s"
        reason = self._failed.get("failed") or (slow if waiting.cancelled_caught else "it ended at once")
        await self.close()
        if "wish" in self._failed:  # an option of the operator
            raise ConfigurationError(reason)
        raise SandboxUnavailable(f"the jail's zygote (tier {self._settings.tier}) did not start: {reason}")

    async def spawn(self, allowance: Allowance, files: Files | None = None) -> JailedGuest:
        """Fork a guest; return once it exists.

        Args:
            allowance: what the kernel is to hold it to.
            files: files of its own, below /input. Only in tier 1.

        Raises:
            SandboxCrashed: it cannot be forked.
            ConfigurationError: a file cannot be read, or its name is taken.
            SandboxUnavailable: there is no room for the files.
        """
        pipes, theirs = make_pipes()
        number = next(self._numbers)
        inputs = self._folders.union(name.partition("/")[0] for name in files) if files else self._folders
        guest = self._guests[number] = JailedGuest(self, pipes, inputs)
        self.unclosed.add(guest)
        sent = False
        try:
            try:
                if files:
                    if self._staging is None:
                        raise SandboxUnavailable(
                            "the jail found no temporary folder for files of programs when it started: "
                            "set TMPDIR to one that has room, and open the runtime again"
                        )
                    await anyio.to_thread.run_sync(partial(_lay_down, self._staging, files, self._folders, guest))
                    theirs.append(_pipe_with(guest.staged))
                packet = {"spawn": number, "allowance": asdict(allowance), "files": len(files or ())}
                await self._send(json.dumps(packet).encode(), theirs)
                sent = True
            finally:
                for fd in theirs:
                    os.close(fd)
            await guest.spawned()
        except BaseException:
            guest.kill()
            guest.release()  # the closed wire ends a guest that is forked later
            if not sent:
                self._guests.pop(number, None)
            if guest.staged:
                with anyio.CancelScope(shield=True):
                    await self.forget(guest.staged)
            raise
        self.spawned_in_all += 1
        return guest

    async def forget(self, staged: str) -> None:
        """Remove the files of a guest that has ended, or that was not forked."""
        if self._staging is not None:
            await anyio.to_thread.run_sync(self._staging.forget, staged)

    async def _send(self, packet: bytes, fds: list[int]) -> None:
        async with self._sending:  # one task at a time may wait for a descriptor
            while True:
                if self._control is None:  # the zygote ended while this waited
                    raise SandboxCrashed("the zygote is gone")
                try:
                    socket.send_fds(self._control, [packet], fds)
                    return
                except BlockingIOError:
                    await anyio.wait_writable(self._control)
                except (OSError, anyio.ClosedResourceError) as error:
                    self._broken = True
                    raise SandboxCrashed("the zygote is gone") from error

    def _on_readable(self, control: socket.socket) -> None:
        try:
            packet, ancillary, _, _ = control.recvmsg(_PACKET, socket.CMSG_LEN(8))
        except BlockingIOError:
            return
        except OSError:
            packet = b""
        if not packet:
            self._end(control)
            return
        fds = array.array("i")
        for _, _, data in ancillary:
            fds.frombytes(data[: len(data) - len(data) % 4])
        self._hear(json.loads(packet), list(fds))

    def _end(self, control: socket.socket) -> None:
        """The zygote is gone, and its guests with it."""
        if not self._ended.is_set():
            self._readers.remove_reader(control.fileno())
            self._ended.set()
            self._ready.set()
            for number in list(self._guests):
                self._gone(number, GuestExit(None, None))

    def _hear(self, message: dict[str, Any], fds: list[int]) -> None:
        if "spawned" in message:
            guest = self._guests.get(message["spawned"])
            if guest is not None and len(fds) == (2 if self._settings.tier == 1 else 1):
                guest.handed_over(_pid_of(fds[0]), fds[0], fds[1] if fds[1:] else None)
                return
            for fd in fds:
                os.close(fd)
            # this process has too many open files; the closed wire ends the guest
            self._gone(message["spawned"], GuestExit(None, None, os.strerror(errno.EMFILE)))
        elif "exited" in message:
            self._gone(message["exited"], GuestExit(message["status"], Usage(message["cpu"], message["peak"])))
        elif "refused" in message:
            self._gone(message["refused"], GuestExit(None, None, message["reason"]))
        else:
            self._failed = message if "failed" in message else {}
            self.sharing = str(message.get("sharing", ""))
            self._ready.set()

    def _gone(self, number: int, ended: GuestExit) -> None:
        guest = self._guests.pop(number, None)
        if guest is not None:
            guest.exited(ended)

    async def close(self) -> None:
        """End the zygote and all its guests; return when they are gone."""
        control, self._control = self._control, None
        if control is None:
            return
        with contextlib.suppress(OSError):
            control.shutdown(socket.SHUT_RDWR)
        with anyio.CancelScope(shield=True):
            if self._process is not None:
                if not self._ready.is_set():
                    end_at_once(self._process)
                with anyio.move_on_after(2.0):
                    while self._process.poll() is None:  # noqa: ASYNC110 (only polling shows the end)
                        await anyio.sleep(0.002)
                if self._process.poll() is None:
                    self._process.kill()
                    self._process.wait()
            with anyio.move_on_after(_GONE_SECONDS):
                await self._ended.wait()
        self._end(control)
        with contextlib.suppress(OSError):
            anyio.notify_closing(control)
        control.close()
        for guest in list(self.unclosed):
            guest.release()
        if self._staging is not None:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(self._staging.remove)


def _lay_down(staging: Staging, files: Files, folders: frozenset[str], guest: JailedGuest) -> None:
    """Runs in a thread, for which asyncio's own cancellation does not wait: the guest may be given up meanwhile."""
    guest.staged = staging.stage(files, folders)
    if guest.killed:
        staging.forget(guest.staged)


def _pipe_with(text: str) -> int:
    """A pipe that holds a short text, to read from. Raises `SandboxCrashed`: this process has too many open files."""
    try:
        reader, writer = os.pipe()
    except OSError as error:
        raise SandboxCrashed(f"no pipe for the files of a new guest: {error.strerror}{FILES_HINT}") from error
    os.write(writer, text.encode())
    os.close(writer)
    return reader


def _pid_of(pidfd: int) -> int:
    """The process behind a pidfd, as this process's pid namespace numbers it; 0 if /proc does not say."""
    try:
        with open(f"/proc/self/fdinfo/{pidfd}", "rb", buffering=0) as info:
            found = next((line for line in info.read(4096).splitlines() if line.startswith(b"Pid:")), b"Pid:0")
            return max(0, int(found[4:]))
    except OSError:
        return 0
