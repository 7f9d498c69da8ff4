"""Guests under srt, Anthropic's sandbox-runtime (npm: @anthropic-ai/sandbox-runtime): Seatbelt on macOS, bubblewrap on
Linux.

srt has a file of settings for each guest (`settings_of`): no network; nothing writable but a folder of the guest's own;
and nothing readable but Python, the guest, and what srt itself has to start inside. On Linux the guest then confines
itself as in tier 2 of the jail, where the kernel has Landlock: srt's own rules leave it processes, sockets that lead to
srt's proxies, /proc and /sys, and an unbounded tmpfs. See `callgate_guest.within`.

srt's own processes keep their stdin, stdout and stderr for as long as they live, so the wire is three named pipes in
the guest's folder: their ends are the guest's alone.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

import anyio
import anyio.to_thread

from callgate.errors import SandboxCrashed, SandboxUnavailable
from callgate.sandbox.backend import Allowance, guest_command, hash_seed, python_here
from callgate.sandbox.packages import checked
from callgate.sandbox.pipes import FILES_HINT, open_pipes
from callgate.sandbox.process import Child, close_all, remove_abandoned, remove_scratch, scratch_folder, started
from callgate.sandbox.self_test import SELF_TEST_ALLOWANCE, check_from_outside, prove

from .guest import SrtGuest, Words, number_here
from .settings import INSTALL, missing, real_python, settings_of

__all__ = ["OPEN_TO", "SrtBackend"]

_LINUX = sys.platform == "linux"
_READY_SECONDS = 20.0
_GONE_SECONDS = 10.0
_DESCRIPTORS = 16
_MOST_FOLDER_BYTES = 72 if _LINUX else 80
"""srt makes Unix sockets in a guest's folder, whose paths have 107 bytes at most, 103 on macOS."""
_FOLDER = re.compile(r"[\w ./~@%+=$!*-]+")
"""Paths that srt's options for bwrap and socat can say, without their quotes and without patterns of files."""
WATCHED = """exec 3<&0
{ read -r end; kill -9 -$$; } <&3 3<&- >/dev/null 2>&1 &
exec "$@" 3<&-"""
"""Runs a command, and at the end of stdin kills its process group: the host is gone, or has no more need of it. The
guest's parent sees that end, too, but a program may have stopped it."""
OPEN_TO = frozenset({"make a socket", "execute a program"})
"""Attempts of the self-test that succeed under srt alone. A socket there leads to nothing, and a program that is
executed is confined as this one is."""
if _LINUX:
    OPEN_TO |= {"start a process", "signal another process"}  # in a pid namespace of their own


class SrtBackend:
    """One srt, and one Python below it, for each guest. Its start takes half a second: keep a warm pool.

    Args:
        packages: a folder of packages that guests may import from; its lock, if it has one, is of this Python.
        preimport: modules that each guest imports before its first program.
        confine: whether guests confine themselves besides, with Landlock and seccomp; ``None`` for where the kernel has
            them. On macOS they cannot.
    """

    name = "srt"
    python = python_here()
    no_files = "srt has no files: use sandbox='jail' or 'docker'"

    def __init__(
        self, *, packages: str | None = None, preimport: tuple[str, ...] = (), confine: bool | None = None
    ) -> None:
        self.packages = () if packages is None else checked(packages).shown
        """Names and versions of what is in `packages`, for models."""
        self._packages = None if packages is None else os.path.abspath(packages)
        self._preimport = preimport
        self._confine = confine
        self._replays = False
        self._guests: list[SrtGuest] = []

    def replaying(self) -> SrtBackend:
        """See `Backend`."""
        other = SrtBackend(packages=self._packages, preimport=self._preimport, confine=self._confine)
        other._replays = True
        return other

    @property
    def description(self) -> str:
        """See `Backend`."""
        outer = "Seatbelt" if sys.platform == "darwin" else "bubblewrap"
        if self._confine is None:
            return f"srt (sandbox-runtime: {outer}), not started"
        inner = ", with Landlock, seccomp and rlimits inside" if self._confine else ", and rlimits"
        return f"srt (sandbox-runtime: {outer}): no network, and no files but Python's own{inner}"

    @property
    def guests(self) -> list[int]:
        """Process ids of the guests that live."""
        return [guest.pid for guest in self._guests if guest.alive]

    async def __aenter__(self) -> SrtBackend:
        if sys.platform == "win32":
            raise SandboxUnavailable(
                "sandbox='srt' needs Linux or macOS: run callgate in WSL 2, where the jail works, too"
            )
        if lacking := missing():
            ways = "; ".join(f"{name} ({INSTALL[name]})" for name in lacking)
            raise SandboxUnavailable(f"sandbox 'srt' needs commands that are not here: {ways}")
        await anyio.to_thread.run_sync(remove_abandoned, self.name)
        if self._confine is None:
            self._confine = await anyio.to_thread.run_sync(_can_confine)
        await self._prove_srt()
        if self._confine:
            await self._prove_guest()
        return self

    async def __aexit__(self, *_: object) -> None:
        await close_all(self._guests)

    async def open(self, allowance: Allowance) -> SrtGuest:
        """See `Backend`."""
        guest = await self._open(allowance, confine=bool(self._confine))
        self._guests = [each for each in self._guests if each.exit is None] + [guest]
        return guest

    async def _open(self, allowance: Allowance, *, confine: bool) -> SrtGuest:
        srt = _absolute("srt")
        if not srt:
            raise SandboxUnavailable(f"sandbox 'srt' needs a command that is not here: srt ({INSTALL['srt']})")
        try:
            return await self._open_srt(allowance, srt, confine)
        except OSError as error:
            few = error.errno in (errno.EMFILE, errno.ENFILE)
            raise SandboxCrashed(f"srt has no guest: {error}{FILES_HINT if few else ''}") from error

    async def _open_srt(self, allowance: Allowance, srt: str, confine: bool) -> SrtGuest:
        async with contextlib.AsyncExitStack() as undo:
            _require_descriptors()
            scratch = _scratch(undo, self.name)
            folder = os.path.join(scratch.name, "own")
            os.mkdir(folder)
            os.chmod(folder, 0o700)  # whatever the umask
            incoming, outgoing, output = paths = [os.path.join(folder, name) for name in ("in", "out", "err")]
            for path in paths:
                os.mkfifo(path)
            settings = os.path.join(scratch.name, "settings.json")
            with open(settings, "w") as file:  # noqa: ASYNC230 (a short file)
                json.dump(settings_of(folder, srt, self._packages), file)
            for path in (settings, *paths):
                os.chmod(path, 0o600)
            told = {
                "pipes": paths, "folder": folder, "packages": self._packages, "preimport": self._preimport,
                "confine": confine, "allowance": asdict(allowance),
            }  # fmt: skip
            command = guest_command("from callgate_guest.within import main; main()", executable=real_python())
            # srt's working directory is the guest's own: no command is looked up there
            path = os.pathsep.join(map(os.path.abspath, os.environ.get("PATH", os.defpath).split(os.pathsep)))
            env = {"PATH": path, "HOME": scratch.name, "TMPDIR": scratch.name} | hash_seed(self._replays)
            fds = [_opened(undo, path, os.O_RDONLY | os.O_NONBLOCK) for path in (outgoing, output)]
            watched = ["/bin/sh", "-c", WATCHED, "sh", srt, "--settings", settings, "--", *command, json.dumps(told)]
            ours, theirs = os.pipe()
            try:
                stdin, life = os.pipe()
            except OSError:
                os.close(ours)
                os.close(theirs)
                raise
            words = Words(ours, life)
            undo.callback(words.close)
            child = started(self.name, watched, [stdin, theirs, theirs], folder=folder, env=env)
            undo.push_async_callback(_ended, child)
            ready = await words.line(r"ready (\d{1,9})", _READY_SECONDS)
            if ready is None:
                why = words.said.decode("utf-8", "replace").strip() or f"it was not ready in {_READY_SECONDS:g} s"
                raise SandboxUnavailable(f"srt could not start a guest: {why[-2000:]}")
            pid = number_here(int(ready[0]), child.pid) if _LINUX else int(ready[0])
            pidfd = -1
            if _LINUX and pid:
                pidfd = os.pidfd_open(pid)
                undo.callback(os.close, pidfd)
            fds.append(_opened(undo, incoming, os.O_WRONLY | os.O_NONBLOCK))
            guest = SrtGuest(child, open_pipes(*fds), scratch, pid, pidfd, words)
            undo.pop_all()
        return guest

    async def _prove_srt(self) -> None:
        """Run the self-test under srt alone: what its own rules promise. Raises `SandboxUnavailable`."""
        with scratch_folder(self.name) as folder, socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            listener.listen()
            secret, target = Path(folder, "secret"), Path(folder, "target")
            secret.touch()  # noqa: ASYNC240 (an empty file)
            secret.chmod(0o600)  # noqa: ASYNC240
            more = {
                "connect to this machine": f"lambda: socket.create_connection({listener.getsockname()!r}, 2)",
                "read a file of this user": f"lambda: open({str(secret)!r})",
                "write a file of this user": f"lambda: open({str(target)!r}, 'w') and open({str(secret)!r})",
            }

            def look() -> None:
                if target.exists():
                    raise SandboxUnavailable("its self-test found it open: a program can write a file of this user")

            guest = await self._open(SELF_TEST_ALLOWANCE, confine=False)
            await prove(guest, leave_out=OPEN_TO, more=more, while_it_lives=look)

    async def _prove_guest(self) -> None:
        """Run the self-test in a guest that confines itself. Raises `SandboxUnavailable`."""
        guest = await self._open(SELF_TEST_ALLOWANCE, confine=True)
        await prove(guest, while_it_lives=lambda: check_from_outside(guest.pid))


def _scratch(undo: contextlib.AsyncExitStack, name: str) -> tempfile.TemporaryDirectory[str]:
    """A folder for a guest, whose path srt can work with. Raises `SandboxUnavailable`."""
    scratch = scratch_folder(name)
    undo.push_async_callback(remove_scratch, scratch)
    if len(os.fsencode(scratch.name)) > _MOST_FOLDER_BYTES or not _FOLDER.fullmatch(scratch.name):
        raise SandboxUnavailable(
            f"srt cannot work in {scratch.name!r}, whose path is too long or has special characters: "
            "set TMPDIR to another folder, such as /tmp"
        )
    return scratch


def _absolute(command: str) -> str:
    """Where a command is, even if the PATH says it from the working directory. Empty if it is nowhere."""
    found = shutil.which(command)
    return os.path.abspath(found) if found else ""


def _require_descriptors() -> None:
    """Raises `OSError` without enough descriptors for a start: before anything is made, whose removal needs some."""
    with contextlib.ExitStack() as undo:
        for _ in range(_DESCRIPTORS):
            undo.callback(os.close, os.open(os.devnull, os.O_RDONLY))


def _opened(undo: contextlib.AsyncExitStack, path: str, flags: int) -> int:
    fd = os.open(path, flags)
    undo.callback(os.close, fd)
    return fd


async def _ended(child: Child) -> None:
    child.kill()
    with anyio.CancelScope(shield=True):
        await child.end(_GONE_SECONDS)


def _can_confine() -> bool:
    """Whether a guest here can confine itself: asked of a child process, which is what asks the kernel."""
    known = "syscalls.supported() and landlock.abi()"
    probe = f"from callgate_guest.jail import landlock, syscalls; raise SystemExit(not ({known}))"
    if not _LINUX:
        return False
    try:
        return subprocess.run(guest_command(probe, "-S"), env={}, cwd="/", check=False, timeout=20).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False
