"""Starts a zygote's process. Needs no event loop: a command starts it before most of callgate is imported."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from dataclasses import asdict, dataclass

from callgate.portable import duplicate

from .backend import guest_command, hash_seed
from .staging import Staging

__all__ = ["ZygoteSettings", "end_at_once", "launched", "launched_ahead"]

Launched = tuple[subprocess.Popen[bytes], socket.socket, Staging | None]
"""The process, the host's end of the socket to it, and what has the files of its guests: in tier 1, if the host has a
place for them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ZygoteSettings:
    """How a zygote is made.

    Attributes:
        tier: 1 with namespaces, 2 without.
        packages: a site-packages folder of the host that guests may import from, read-only.
        preimport: modules that the zygote imports before it forks.
        folders: folders of the host that guests may read, by their names below ``/input``. Only in tier 1.
        replays: see `hash_seed`.
    """

    tier: int
    packages: str | None = None
    preimport: tuple[str, ...] = ()
    folders: tuple[tuple[str, str], ...] = ()
    replays: bool = False

    def __post_init__(self) -> None:
        if self.packages is not None:  # a zygote works in another folder
            object.__setattr__(self, "packages", os.path.abspath(self.packages))


_ahead: dict[ZygoteSettings, Launched] = {}


@contextlib.contextmanager
def launched_ahead(settings: ZygoteSettings) -> Iterator[None]:
    """Start the process for the next zygote with these settings; end it at the end of the block if none has taken it.

    It is for a few guests: ready sooner, and each guest takes longer.
    """
    with contextlib.suppress(OSError):  # the zygote tries again, and says what failed
        _ahead[settings] = _launch(settings, brief=True)
    try:
        yield
    finally:
        if settings in _ahead:
            process, control, staging = _ahead.pop(settings)
            end_at_once(process)
            process.wait()
            control.close()
            if staging is not None:
                staging.remove()


def end_at_once(process: subprocess.Popen[bytes]) -> None:
    """Kill a process that may not be ready yet, and so does not look at its socket, with all that it has started."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)


def launched(settings: ZygoteSettings) -> Launched:
    """Return the process that was started ahead for these settings, or start one. Raises `OSError`."""
    return _ahead.pop(settings, None) or _launch(settings)


def _launch(settings: ZygoteSettings, *, brief: bool = False) -> Launched:
    staging = None
    if settings.tier == 1:
        with contextlib.suppress(OSError):  # a program without files needs no place for them
            staging = Staging()
    try:
        process, control = _started(hash_seed(settings.replays))
    except BaseException:
        if staging is not None:
            staging.remove()
        raise
    told = {**asdict(settings), "brief": brief, "staging": staging and staging.folder}
    told["hashes"] = hash_seed(told.pop("replays"))
    with contextlib.suppress(OSError):  # it ended at once, which its zygote sees
        control.send(json.dumps(told).encode())
    return process, control, staging


def _started(hashes: dict[str, str]) -> tuple[subprocess.Popen[bytes], socket.socket]:
    ours, theirs = _control_pair()
    with theirs:
        try:
            process = subprocess.Popen(
                guest_command(f"from callgate_guest.launching import launch; launch({theirs.fileno()})", "-S"),
                env={"MALLOC_ARENA_MAX": "2", **hashes}, pass_fds=[theirs.fileno()], start_new_session=True, cwd="/",
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            )  # fmt: skip
        except BaseException:
            ours.close()
            raise
    return process, ours


def _control_pair() -> tuple[socket.socket, socket.socket]:
    """Two connected sockets, the second not among the descriptors 0 to 2: a child's stdio would take its place."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setblocking(False)
    try:
        with theirs:
            return ours, socket.socket(fileno=duplicate(theirs.fileno()))
    except OSError:
        ours.close()
        raise
