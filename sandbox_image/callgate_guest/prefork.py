"""Shared by the processes that fork guests: import and warm up ahead, then confine a fresh child and let it serve.

Used by `zygote` (guests on the host) and `container` (guests in a container). No threads and no event loop in here,
ever: a child has only the thread that forked it.
"""

from __future__ import annotations

import gc
import importlib
import os
import select
import signal
import sys
import threading
from collections.abc import Sequence
from typing import Any, NamedTuple

from . import figures, sharing
from .explain import confined, explain_missing_network
from .jail import landlock, seccomp, syscalls
from .jail.confine import FIRST_STATUS, Step, confine
from .jail.rlimits import address_space, apply_to_all
from .launching import ENVIRONMENT
from .session import CALLS, GATHERS, PLAIN, Session, rehearse, take_the_wire
from .wire import OUT_OF_MEMORY

PREIMPORTED = (
    "ast", "asyncio", "base64", "bisect", "calendar", "collections", "concurrent.futures", "contextlib", "copy",
    "csv", "dataclasses", "datetime", "decimal", "difflib", "enum", "fractions", "functools", "hashlib", "heapq",
    "io", "itertools", "json", "math", "operator", "pathlib", "random", "re", "statistics", "string", "tempfile",
    "textwrap", "threading", "time", "traceback", "typing", "uuid", "zoneinfo",
)  # fmt: skip
_PATIENCE_MILLISECONDS = 10
"""Time that a child waits for its program before it rehearses: under load, the program comes at once."""
_THREAD_SECONDS = 1.0
_BRIEF = "not arranged, since it forks few guests"
_REHEARSALS = 20  # CPython 3.11 to 3.14 specialise a function within its first 20 calls


class Unwanted(Exception):
    """The operator's settings cannot be met; the machine is not to blame."""


class Prepared(NamedTuple):
    """A process that is ready to fork guests.

    Attributes:
        base_bytes: its address space; a guest's own comes on top.
        sharing: how far its children share its memory, for `callgate doctor`.
        session: serves the programs of each guest.
        calls: what a guest may ask of the kernel.
        left: objects that have to live as long as it: see `sharing`.
    """

    base_bytes: int
    sharing: str
    session: Session
    calls: seccomp.Filter
    left: list[object]


def prepare(
    preimport: Sequence[str], packages: str | None, proc: int, *, own_files: bool, own_disks: bool, brief: bool = False,
    cache: str = "",
) -> Prepared:  # fmt: skip
    """Import, warm up and freeze, so that children share all of it.

    Args:
        preimport: modules to import besides `PREIMPORTED`.
        packages: a folder of third-party packages, or ``None``.
        proc: an open directory, a procfs that shows this process; closed here.
        own_files: whether guests can reach nothing but files of their own.
        own_disks: whether these lie on nothing but mounts of their own.
        brief: whether it forks few guests: then it rehearses once, and does not arrange its memory.
        cache: a folder for what modules write when they are imported, where that is not /tmp.

    Raises:
        Unwanted: a module of `preimport` cannot be imported.
        RuntimeError: this processor is not known, or the rehearsal failed.
    """
    if not syscalls.supported():
        raise RuntimeError(f"system call numbers are not known for {os.uname().machine}")
    os.environ.clear()
    os.environ.update(ENVIRONMENT)
    if cache:
        os.environ["MPLCONFIGDIR"] = cache
    if packages:
        sys.path.append(packages)
    figures.watch()
    for name in [*PREIMPORTED, *preimport]:
        try:
            importlib.import_module(name)
        except ImportError as error:
            raise Unwanted(f"preimport: {error}") from error
    figures.rehearse()
    _require_no_threads()
    os.environ.update(ENVIRONMENT)
    confined(packages)
    explain_missing_network()
    if not sys.flags.hash_randomization:  # its guests replay; in tier 2, a guest cannot open the file
        importlib.import_module(f"{__package__}.replaying")
    apply_to_all()
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    left: list[object] = []
    for moves in (False,) if brief else (True, False):
        for _ in range(1 if brief else _REHEARSALS):
            rehearse(PLAIN, GATHERS, CALLS)
        if moves:
            left += sharing.gather(lambda: rehearse(PLAIN, GATHERS, CALLS))
    session = Session()
    session.install()
    calls = seccomp.Filter(own_files=own_files, own_disks=own_disks)
    sys.stdin = open(0)  # noqa: SIM115 (/dev/null here and, once it has moved its wire, in a child)
    shared, fillers = (_BRIEF, list[object]()) if brief else sharing.share()
    gc.freeze()
    base_bytes = address_space(proc)
    os.close(proc)
    return Prepared(base_bytes, shared, session, calls, left + fillers)


def serve_confined(
    fds: list[int], allowance: Any, *, tier: int, parent: int, base_bytes: int, landlock_abi: int,
    rules: landlock.Ruleset | None, own_files: bool, own_cgroup: bool, session: Session, calls: seccomp.Filter,
    folders: Sequence[str] = (), scratch: int = -1,
) -> None:  # fmt: skip
    """In a fresh child: be confined (see `jail.confine`), serve programs, and exit. Never returns."""
    status = 1
    try:
        confine(
            tier=tier, parent=parent, descriptors=fds, allowance=allowance, base_bytes=base_bytes,
            landlock_abi=landlock_abi, rules=rules, calls=calls, own_files=own_files, own_cgroup=own_cgroup,
            folders=folders, scratch=scratch,
        )  # fmt: skip
        if numpy := sys.modules.get("numpy"):
            numpy.random.seed()
        wire = take_the_wire()
        if not _comes(wire[0]):
            rehearse(CALLS)
            session.install()
        session.serve(*wire)
        status = 0
    except Step as step:
        status = FIRST_STATUS + step.number
    except MemoryError:
        status = OUT_OF_MEMORY
    except BaseException:
        status = 99
    finally:
        os._exit(status)


def ended(pid: int) -> dict[str, Any]:
    """Wait for the end of a guest. Returns its status and its usage."""
    _, status, usage = os.wait4(pid, 0)
    used = {"cpu": usage.ru_utime + usage.ru_stime, "peak": usage.ru_maxrss * 1024}
    return {"status": os.waitstatus_to_exitcode(status), **used}


def _require_no_threads() -> None:
    """Wait for threads that imports have started, such as a timer of matplotlib's. Raises `Unwanted` if one stays."""
    for thread in threading.enumerate():
        if thread is not threading.main_thread():
            thread.join(_THREAD_SECONDS)
            if thread.is_alive():
                raise Unwanted(f"preimport: a module has started the thread {thread.name!r}, which forks cannot keep")


def _comes(wire: int) -> bool:
    poll = select.poll()
    poll.register(wire, select.POLLIN)
    return bool(poll.poll(_PATIENCE_MILLISECONDS))
