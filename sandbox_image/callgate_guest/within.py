"""A guest within another sandbox, such as srt: it limits itself, and on Linux it confines itself.

The host starts a process for each guest, and gives it a folder with three named pipes. The process forks the guest,
which has these pipes for its wire and its output. It says on its own stdout, which other processes of that sandbox
have, too, that the guest is ready, and how it ended. At the end of its stdin, which only the host holds, it kills the
guest. Knows nothing of the other sandbox.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import signal
import sys
import threading
from typing import Any, NoReturn

from . import figures
from .jail.rlimits import address_space, apply
from .launching import ENVIRONMENT
from .session import Session, take_the_wire
from .wire import OUT_OF_MEMORY

_DESCRIPTORS = 1 << 16
"""More than this process has: the lowest free number is always taken. SC_OPEN_MAX may be 2**63 - 1 or -1 on macOS."""


def main() -> NoReturn:
    """Entry point. The last argument is JSON:

    - ``pipes``: paths of the wire to the guest, the wire from it, and its output;
    - ``confine``: whether it confines itself; ``allowance``, ``packages``, ``preimport``, ``folder`` (its own).

    Says ``callgate-ready PID`` and ``callgate-ended STATUS CPU PEAK``: seconds and bytes. Never returns.
    """
    said = os.dup(1)  # whatever the modules of `preimport` do to stdout
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # the host may ignore it, and its children inherit that
    settings = json.loads(sys.argv.pop())
    incoming, outgoing, output = settings["pipes"]
    ways = (incoming, os.O_RDONLY), (outgoing, os.O_WRONLY), (output, os.O_WRONLY)
    fds = [os.open(path, way | os.O_NONBLOCK) for path, way in ways]  # a host that is gone is not waited for
    for fd in fds:
        os.set_blocking(fd, True)
    serve = _confined(settings, fds) if settings["confine"] else _limited(settings, fds)
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, AttributeError):
            stream.flush()  # or the guest would write it to its wire
    parent = os.getpid()
    child = os.fork()
    if child == 0:
        serve(parent)
    for fd in fds:
        os.close(fd)
    _say(said, f"ready {child}")
    threading.Thread(target=_end_with_the_host, args=(child,), daemon=True).start()
    _, status, usage = os.wait4(child, 0)
    peak = usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    _say(said, f"ended {os.waitstatus_to_exitcode(status)} {usage.ru_utime + usage.ru_stime:.6f} {peak}")
    os._exit(0)


def _end_with_the_host(child: int) -> None:
    os.read(0, 1)  # the host has the other end of stdin, and writes nothing
    os.kill(child, signal.SIGKILL)


def _say(fd: int, line: str) -> None:
    os.write(fd, f"\ncallgate-{line}\n".encode())  # others may have said half a line


def _confined(settings: dict[str, Any], fds: list[int]) -> Any:
    """Serves under Landlock, seccomp and rlimits, and without capabilities: tier 2 of the jail, but for the user."""
    from .jail import landlock  # what follows works on Linux alone
    from .prefork import prepare, serve_confined
    from .zygote import rules_in_place

    version = landlock.abi()
    prepared = prepare(
        settings["preimport"], settings["packages"], os.open("/proc", os.O_RDONLY | os.O_DIRECTORY),
        own_files=False, own_disks=False, brief=True, cache=settings["folder"],
    )  # fmt: skip
    rules = rules_in_place(version, settings["packages"], False)
    return lambda parent: serve_confined(
        fds, settings["allowance"], tier=0, parent=parent, base_bytes=prepared.base_bytes, landlock_abi=version,
        rules=rules, own_files=False, own_cgroup=False, session=prepared.session, calls=prepared.calls,
    )  # fmt: skip


def _limited(settings: dict[str, Any], fds: list[int]) -> Any:
    """Serves with rlimits alone: the other sandbox confines. On macOS, the guest can start no process, and its memory
    has no limit."""
    folder = settings["folder"]
    os.environ.clear()
    os.environ.update(ENVIRONMENT | {"HOME": folder, "TMPDIR": folder, "MPLCONFIGDIR": folder})
    if settings["packages"]:
        sys.path.append(settings["packages"])
    figures.watch()
    for name in settings["preimport"]:
        importlib.import_module(name)
    linux = sys.platform == "linux"
    base = address_space(os.open("/proc", os.O_RDONLY)) if linux else None

    def serve(_: int) -> None:
        status = 1
        try:
            for number, fd in enumerate(fds):
                os.dup2(fd, number)
            os.closerange(3, _DESCRIPTORS)
            os.chdir(folder)
            os.umask(0o077)
            apply(settings["allowance"], base_bytes=base, processes=None if linux else 1)
            session = Session()
            session.install()
            wire = take_the_wire()
            sys.stdin = open(0)  # noqa: SIM115
            session.serve(*wire)
            status = 0
        except MemoryError:
            status = OUT_OF_MEMORY
        finally:
            os._exit(status)

    return serve
