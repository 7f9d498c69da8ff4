"""The first process of a zygote: the host starts it with an empty environment. Imports little, since the host waits.

In tier 1 it leaves the host's namespaces, builds a root of Python's own files, and executes Python afresh there
(`zygote.inside`). In tier 2 it becomes the zygote itself.
"""

from __future__ import annotations

import json
import os
import socket
from typing import Any

from .jail.capabilities import die_with_parent
from .jail.namespaces import MOUNT, leave_host, unshare
from .jail.root import EXECUTABLE, Files, enter

PACKET = 1 << 16
"""Bytes of the longest packet between host and zygote."""
ENVIRONMENT = {
    "HOME": "/tmp", "LANG": "C.UTF-8", "LOGNAME": "sandbox", "USER": "sandbox", "PATH": "", "TMPDIR": "/tmp",
    "TZ": "UTC", "MPLCONFIGDIR": "/tmp/matplotlib",
    "MPLBACKEND": "Agg",  # matplotlib draws in memory, and looks for no screen
    # libraries that would start threads when imported, which a zygote must not have
    "MKL_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1",
}  # fmt: skip


def launch(fd: int) -> None:
    """Entry point of the process that the host starts. Never returns."""
    control = socket.socket(fileno=fd)
    die_with_parent(os.getppid())
    os.umask(0o022)
    try:
        settings = json.loads(control.recv(PACKET))
        if settings["tier"] == 1:
            _launch_tier_1(control, settings)
        else:
            from .zygote import main

            proc = os.open("/proc", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
            main(control, 2, settings, proc)
    except BaseException as error:
        send(control, {"failed": f"{type(error).__name__}: {error}"})
    os._exit(1)


def _launch_tier_1(control: socket.socket, settings: dict[str, Any]) -> None:
    files = Files.of_this_python(settings["packages"])
    folders = dict(settings["folders"])
    proc = os.open("/proc", os.O_PATH | os.O_DIRECTORY)
    if os.geteuid() == 0:  # while it can still reach every file
        unshare(MOUNT)
        enter(files, folders, settings["staging"])
        leave_host(proc)
    else:
        leave_host(proc)
        enter(files, folders, settings["staging"])
    child = os.fork()
    if child == 0:
        below = os.open(".", os.O_PATH | os.O_DIRECTORY)
        os.chdir("/")
        for fd in (control.fileno(), proc, below):
            os.set_inheritable(fd, True)
        start = f"from callgate_guest.zygote import inside; inside({control.fileno()}, {proc}, {below})"
        code = f"import sys; sys.path.append('/guest'); {start}"
        packages = "/packages" if settings["packages"] else None
        inner = json.dumps({**settings, "packages": packages, "folders": list(folders), "staging": None})
        arguments = [EXECUTABLE, "-P", "-s", "-S", "-B", "-X", "utf8", "-c", code, inner]
        loading = {"LD_LIBRARY_PATH": "/lib", "LD_BIND_NOW": "1", "MALLOC_ARENA_MAX": "2"}
        os.execve(EXECUTABLE, arguments, loading | settings["hashes"] | ENVIRONMENT)
    control.close()
    os.close(proc)
    os.waitpid(child, 0)
    os._exit(0)


def send(control: socket.socket, message: dict[str, Any], *fds: int) -> None:
    """Send a packet to the host, with descriptors. Ends this process if the host is gone."""
    try:
        socket.send_fds(control, [json.dumps(message).encode()], fds)
    except OSError:  # the host is gone
        os._exit(0)
