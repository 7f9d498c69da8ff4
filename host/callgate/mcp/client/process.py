"""A server's process: started in a group of its own, its stderr kept for people, and ended with everything it started.

1. The environment is the few variables of `INHERITED`, and what the configuration gives: the host's own credentials are
   not passed on.
2. stderr is drained always, and its newest `MAX_STDERR_BYTES` are kept.
3. The end, as the specification has it: stdin closed, a grace, SIGTERM to the group, a grace, SIGKILL. The group is
   killed even where its leader ended by itself, and so is, on Linux, what left the group and still carries the
   server's mark in its environment (browsers do that). Shielded: a cancelled host leaves nothing behind.

Knows processes; what is said on the pipes is the transport's.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import anyio
import anyio.to_thread
from anyio.abc import ByteReceiveStream, Process

from callgate.mcp.config import ServerConfig

from .faults import CannotStart

__all__ = ["ServerProcess", "started"]

INHERITED = (
    *("HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"),
    *("SYSTEMROOT", "SYSTEMDRIVE", "APPDATA", "LOCALAPPDATA", "PATHEXT", "TEMP", "USERPROFILE", "COMSPEC"),
)
"""What a program needs to find its files, and whom it trusts on the network; nothing secret by custom."""
MAX_STDERR_BYTES = 16 * 1024
"""Of the newest stderr."""
GRACE_SECONDS = 2.0
"""For a server to end by itself when its stdin is closed."""
TERM_SECONDS = 1.0
"""Between SIGTERM and SIGKILL."""
KILL_SECONDS = 2.0
"""For what was killed to be gone."""
POLL_SECONDS = 0.02
_MARK = "CALLGATE_SERVER_MARK"


class ServerProcess:
    """One process and its group."""

    def __init__(self, process: Process, mark: str) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self.stdin = process.stdin
        self.stdout = process.stdout
        self.pid = process.pid
        self._process = process
        self._mark = mark
        self.patient = True
        """Whether it is given time to end by itself."""
        self._stderr = bytearray()
        self._stderr_cut = False
        self._stderr_ended = anyio.Event()
        self._draining = anyio.CancelScope(shield=True)

    @property
    def exit_code(self) -> int | None:
        """None while it runs; the negative signal that killed it."""
        return self._process.returncode

    @property
    def stderr(self) -> str:
        """The newest of what it wrote there, from the beginning of a line."""
        text = self._stderr.decode(errors="replace")
        return text.partition("\n")[2] if self._stderr_cut else text

    async def exited(self) -> None:
        """Wait until the process itself is gone; its descendants may live and hold its pipes."""
        # Not Process.wait: on asyncio it also waits for the pipes.
        descriptor = _pidfd(self.pid)
        if descriptor is not None:
            try:
                await anyio.wait_readable(descriptor)
            finally:
                os.close(descriptor)
        while self._process.returncode is None:  # noqa: ASYNC110 -- nothing else tells
            await anyio.sleep(POLL_SECONDS)

    async def told_why(self) -> None:
        """Wait a moment for the last words of a process that is gone."""
        with anyio.move_on_after(0.2):
            await self._stderr_ended.wait()

    async def drain_stderr(self) -> None:
        stream: ByteReceiveStream | None = self._process.stderr
        assert stream is not None
        with self._draining, _ended():
            while True:
                self._stderr += await stream.receive()
                self._stderr_cut = self._stderr_cut or len(self._stderr) > MAX_STDERR_BYTES
                del self._stderr[:-MAX_STDERR_BYTES]
        self._stderr_ended.set()

    async def end(self) -> None:
        """End it and everything it started; bounded in time, whoever is cancelled meanwhile."""
        with anyio.CancelScope(shield=True):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._drain_stdout)  # a full pipe would keep it from ending by itself
                await _close(self.stdin)
                if self.patient and not await self._gone_within(GRACE_SECONDS) and self._signal(signal.SIGTERM):
                    await self._gone_within(TERM_SECONDS)
                self._signal(signal.SIGKILL)
                await self._gone_within(GRACE_SECONDS)
                if sys.platform == "linux":
                    await anyio.to_thread.run_sync(_kill_marked, self._mark, self.pid)
                tasks.cancel_scope.cancel()
            self._draining.cancel()
            await self._close_pipes()

    async def _drain_stdout(self) -> None:
        with _ended():
            while True:
                await self.stdout.receive()

    async def _close_pipes(self) -> None:
        for stream in (self.stdout, self._process.stderr):
            if stream is not None:
                await _close(stream)
        # A descendant that cannot be killed may hold a pipe: asyncio's transport would warn when it is collected.
        close = getattr(getattr(getattr(self._process, "_process", None), "_transport", None), "close", None)
        if callable(close):
            with contextlib.suppress(PermissionError):
                close()

    async def _gone_within(self, seconds: float) -> bool:
        with anyio.move_on_after(seconds):
            while self._process.returncode is None:  # noqa: ASYNC110 -- nothing else tells
                await anyio.sleep(POLL_SECONDS)
            return True
        return False

    def _signal(self, number: int) -> bool:
        try:
            if hasattr(os, "killpg"):
                os.killpg(self.pid, number)  # its own session: the group has its pid
            else:
                self._process.kill()
        except (ProcessLookupError, PermissionError):
            return False
        return True


@asynccontextmanager
async def started(config: ServerConfig) -> AsyncIterator[ServerProcess]:
    """Start the server's process; it is gone when the context is left.

    Raises:
        CannotStart: there is no such program, or it may not be run.
    """
    env = environment(config.env)
    mark = secrets.token_hex(16)
    command = shutil.which(config.command, path=env.get("PATH"))
    if command is None:
        where = "no such file, or it is not executable" if os.sep in config.command else "it is not on the PATH"
        raise CannotStart(
            f"the command {config.command!r} was not found: {where}", "install it, or write its full path"
        )
    try:
        with anyio.CancelScope(shield=True):  # asyncio forgets a process whose start is cancelled
            process = await anyio.open_process(
                [command, *config.args],
                env={**env, _MARK: mark},
                cwd=config.cwd,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=sys.platform != "win32",
            )
    except OSError as error:
        raise CannotStart(
            f"the command {config.command!r} cannot be run: {error.strerror}", "make it executable, or name another"
        ) from None
    # From here to the task group nothing is awaited: a cancellation would leave the process.
    server = ServerProcess(process, mark)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(server.drain_stderr)
        try:
            yield server
        finally:
            await server.end()


def environment(given: Mapping[str, str]) -> dict[str, str]:
    """What the process is given."""
    inherited = {name: os.environ[name] for name in INHERITED if name in os.environ}
    return {**{name: value for name, value in inherited.items() if not value.startswith("()")}, **given}


def _ended() -> contextlib.suppress:
    return contextlib.suppress(
        anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError, anyio.BusyResourceError, OSError
    )


async def _close(stream: anyio.abc.AsyncResource) -> None:
    with _ended():
        await stream.aclose()


def _pidfd(pid: int) -> int | None:
    try:
        return os.pidfd_open(pid) if sys.platform == "linux" else None
    except OSError:
        return None


def _kill_marked(mark: str, group: int) -> None:
    """Kill what carries the mark, and wait until it is gone: what was just being forked is found in the next round.

    The group was killed before. A process of it that is just ending has no environment any more, and is waited for.
    """
    needle = f"{_MARK}={mark}".encode()
    deadline = time.monotonic() + KILL_SECONDS
    while time.monotonic() < deadline:
        entries = [entry for entry in os.listdir("/proc") if entry.isdigit()]
        marked = [int(entry) for entry in entries if _carries(entry, needle)]
        if not marked and not any(_lives_in(entry, group) for entry in entries):
            return
        for pid in marked:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.005)


def _lives_in(pid: str, group: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            state, _, of_group = file.read().rpartition(b")")[2].split()[:3]
    except (OSError, ValueError):
        return False
    return int(of_group) == group and state not in (b"Z", b"X")


def _carries(pid: str, needle: bytes) -> bool:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:  # empty, once it is dead
            return needle in file.read()
    except OSError:
        return False
