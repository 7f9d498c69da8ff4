"""The zygote: one pre-imported CPython that forks a confined child per run.

`launching` is what the host starts; it calls `inside` in the new root of tier 1, and `main` where it is in tier 2. No
threads and no event loop in here, ever.

The host speaks to it over a SOCK_SEQPACKET socket, one JSON object a packet:

=====================================================  =========================================================
host -> zygote                                         zygote -> host
=====================================================  =========================================================
the configuration (first packet, to `launching`)       ``{"ready": tier}`` or ``{"failed": reason}``
``{"spawn": n, "allowance": ..., "files": count}``     ``{"spawned": n}``, a pidfd and, in tier 1, the guest's empty
and three fds, a fourth if there are files             /output; or ``{"refused": n, ...}``
..                                                     ``{"exited": n, "status": ..., "cpu": ..., "peak": ...}``
closing the socket: everything dies                    ..
=====================================================  =========================================================

The fourth descriptor is a pipe with the name of the guest's files (see `jail.root`). Only the child reads it: what the
zygote has read, every later guest has in its memory.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import select
import signal
import socket
import sys
import tempfile
from collections.abc import Iterator
from typing import Any

from .jail import landlock, syscalls
from .jail.capabilities import NOBODY, become, die_with_parent
from .jail.root import Files, make_scratch, mount_scratch, unmount_scratch
from .launching import PACKET, send
from .prefork import Unwanted, ended, prepare, serve_confined

_IMPORTS_WRITE = 64 << 20
"""Bytes that modules may write while they are imported ahead."""


def inside(fd: int, proc: int, below: int) -> None:
    """Entry point of the interpreter that tier 1 executes in the new root. Never returns."""
    control = socket.socket(fileno=fd)
    settings = json.loads(sys.argv.pop())
    try:
        die_with_parent(0)
        sys.argv[:] = [""]
        main(control, 1, settings, proc, below)
    except BaseException as error:
        send(control, {"failed": f"{type(error).__name__}: {error}"})
    os._exit(1)


def main(control: socket.socket, tier: int, settings: dict[str, Any], proc: int, below: int | None = None) -> None:
    """Prepare once, then fork until the host closes the socket. In tier 1, `below` is what lies under the root."""
    version = landlock.abi() if syscalls.supported() else 0
    if syscalls.supported() and version == 0:
        raise RuntimeError("this kernel has no Landlock (5.13 or newer, with landlock among its security modules)")
    try:
        with _cache(tier, settings["preimport"]) as cache:
            prepared = prepare(
                settings["preimport"], settings["packages"], proc, own_files=tier == 1, own_disks=tier == 1,
                brief=settings["brief"], cache=cache,
            )  # fmt: skip
    except Unwanted as error:
        send(control, {"failed": str(error), "wish": True})
        os._exit(1)
    rules = rules_in_place(version, settings["packages"], os.geteuid() == 0) if tier == 2 else None
    common = {
        "tier": tier, "parent": os.getpid(), "base_bytes": prepared.base_bytes, "landlock_abi": version, "rules": rules,
        "own_files": tier == 1, "own_cgroup": False, "session": prepared.session, "calls": prepared.calls,
        "folders": settings["folders"] if tier == 1 else (),
    }  # fmt: skip
    if below is not None:
        os.fchdir(below)
        os.close(below)
    send(control, {"ready": tier, "landlock": version, "sharing": prepared.sharing})
    _serve(control, common)
    os._exit(0)


@contextlib.contextmanager
def _cache(tier: int, preimport: list[str]) -> Iterator[str]:
    """Have modules that are imported ahead write where no guest finds it: to a /tmp, or to the folder of that name."""
    if not preimport:
        yield ""
    elif tier == 1:
        mount, output = make_scratch(_IMPORTS_WRITE)
        mount_scratch(mount)
        os.close(mount)
        os.close(output)
        try:
            yield ""
        finally:
            unmount_scratch()
    else:
        with tempfile.TemporaryDirectory() as folder:
            yield folder


def rules_in_place(version: int, packages: str | None, nobody: bool) -> landlock.Ruleset:
    """Tier 2 has the host's files under their own paths: the standard library without site-packages, and its libraries.

    One ruleset for all children, since none has anything of its own. Names in the standard library's folder can be
    listed, or nothing could be imported from it; that shows the names below site-packages too, not what is in the
    files.
    """
    files = Files.of_this_python(packages)
    if nobody:
        _require_readable_by_nobody(files)
    rules = landlock.Ruleset(version)
    others = ("site-packages", "dist-packages")
    rules.allow(entry.path for entry in os.scandir(files.stdlib) if entry.name not in others)
    shared = [files.extensions, *files.libraries, "/usr/share/zoneinfo", "/dev/urandom"]
    rules.allow([*shared, packages] if packages else shared)
    rules.allow([files.stdlib], listing_only=True)
    rules.allow(["/dev/null"], write=True)
    return rules


def _require_readable_by_nobody(files: Files) -> None:
    """Root's guests become nobody, who has to be able to read what root can. Raises `RuntimeError`."""
    child = os.fork()
    if child == 0:
        try:
            become(NOBODY)
            for path in (files.stdlib, files.extensions, files.packages):
                if path:
                    os.listdir(path)
            os._exit(0)
        finally:
            os._exit(1)
    if os.waitpid(child, 0)[1]:
        raise RuntimeError(
            f"guests of root run as user {NOBODY}, who may not read Python's own files in {files.stdlib}: "
            "use a Python that lies in no private folder, or another user than root"
        )


class _Scratches:
    """Makes what `make_scratch` makes ahead, while the last guest starts: mostly the next one wants the same."""

    def __init__(self) -> None:
        self._wanted: tuple[int, int] | None = None
        self._made: tuple[int, int] | None = None

    def take(self, size: int, links: int) -> tuple[int, int]:
        made, self._made = self._made, None
        if made is not None and self._wanted == (size, links):
            return made
        for fd in made or ():
            os.close(fd)
        self._wanted = size, links
        return make_scratch(size, links)

    def make_next(self) -> None:
        if self._wanted is not None:
            with contextlib.suppress(OSError):  # the next guest is told
                self._made = make_scratch(*self._wanted)


def _serve(control: socket.socket, common: dict[str, Any]) -> None:
    poll = select.poll()
    poll.register(control, select.POLLIN)
    children: dict[int, tuple[int, int]] = {}  # pidfd -> (number of the guest, pid)
    scratches = _Scratches()
    while True:
        for fd, _ in poll.poll():
            if fd == control.fileno():
                packet, fds, _, _ = socket.recv_fds(control, PACKET, 4)
                if not packet:
                    os._exit(0)
                _spawn(control, json.loads(packet), fds, common, children, poll, scratches)
            else:
                number, pid = children.pop(fd)
                poll.unregister(fd)
                os.close(fd)
                send(control, {"exited": number, **ended(pid)})


def _spawn(
    control: socket.socket, request: dict[str, Any], fds: list[int], common: dict[str, Any],
    children: dict[int, tuple[int, int]], poll: select.poll, scratches: _Scratches,
) -> None:  # fmt: skip
    number, files, size = request["spawn"], request["files"], request["allowance"]["max_file_bytes"]
    handed: list[int] = []
    try:
        if len(fds) != 3 + bool(files):
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        scratch = -1
        if common["tier"] == 1:
            scratch, output = scratches.take(size, files + len(common["folders"]))
            fds.append(scratch)
            handed.append(output)
        pid = os.fork()
    except OSError as error:
        send(control, {"refused": number, "reason": error.strerror})
        for fd in (*fds, *handed):
            os.close(fd)
        return
    if pid == 0:
        serve_confined(fds[: 3 + bool(files)], request["allowance"], scratch=scratch, **common)
    for fd in fds:
        os.close(fd)
    try:
        pidfd = os.pidfd_open(pid)
    except OSError as error:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        send(control, {"refused": number, "reason": f"pidfd_open: {error.strerror}"})
    else:
        children[pidfd] = (number, pid)
        poll.register(pidfd, select.POLLIN)
        send(control, {"spawned": number}, pidfd, *handed)
    for fd in handed:
        os.close(fd)
    if handed:
        scratches.make_next()
