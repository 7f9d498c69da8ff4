"""Commands without the wait for their imports: a process that has them forks one child for each.

A child is a process of its own, with pipes, an exit code and an end like those of ``python -m callgate``. What it does
not show is how an interpreter starts; `Command.start`, `Command.terminal` and those with another environment do.

Run as a program this file is that process: ``python forked.py FD``, with a socket there and pipes as any child's.
"""

from __future__ import annotations

import atexit
import functools
import gc
import importlib
import json
import os
import pkgutil
import runpy
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import IO

__all__ = ["Forks", "forks_in"]


class Forks:
    """The process that forks, with this environment."""

    def __init__(self, environment: dict[str, str]) -> None:
        self._ours, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-W", "error", __file__, str(theirs.fileno())], pass_fds=[theirs.fileno()],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment,
            )  # fmt: skip
        atexit.register(self.close)

    def run(self, arguments: list[str], cwd: Path, stdin: bytes, seconds: float) -> tuple[int, bytes, bytes]:
        """Run `callgate` there: its exit code, stdout and stderr.

        Raises:
            TimeoutError: it took longer than so many seconds; it is killed.
        """
        pipes = [os.pipe() for _ in range(3)]
        (theirs_in, ours_in), (ours_out, theirs_out), (ours_err, theirs_err) = pipes
        request = json.dumps([arguments, os.fspath(cwd)]).encode()
        self._ours.settimeout(seconds)
        socket.send_fds(self._ours, [len(request).to_bytes(4) + request], [theirs_in, theirs_out, theirs_err])
        for fd in (theirs_in, theirs_out, theirs_err):
            os.close(fd)
        told = [b"", b""]
        with open(ours_in, "wb", 0) as keyboard, open(ours_out, "rb") as out, open(ours_err, "rb") as err:
            threads = [threading.Thread(target=_feed, args=(keyboard, stdin))]
            threads += [threading.Thread(target=_read, args=(told, n, file)) for n, file in enumerate((out, err))]
            try:
                pid = int.from_bytes(_exactly(self._ours, 4))
            except EOFError:
                raise AssertionError(self._process.communicate()[1].decode()) from None
            for thread in threads:
                thread.start()
            try:
                status = int.from_bytes(_exactly(self._ours, 4), signed=True)
            except TimeoutError:
                os.kill(pid, 9)
                _exactly(self._ours, 4)
                raise
            finally:
                for thread in threads:
                    thread.join()
        return status, told[0], told[1]

    def close(self) -> None:
        """End it."""
        self._ours.close()
        self._process.communicate()


@functools.cache
def _forks(environment: frozenset[tuple[str, str]]) -> Forks:
    return Forks(dict(environment))


def forks_in(environment: dict[str, str]) -> Forks:
    """One process for each environment; it ends with the tests."""
    return _forks(frozenset(environment.items()))


def _feed(file: IO[bytes], data: bytes) -> None:
    try:
        while data:
            data = data[os.write(file.fileno(), data) :]
    except BrokenPipeError:  # it was not read
        pass
    file.close()


def _read(told: list[bytes], place: int, file: IO[bytes]) -> None:
    told[place] = file.read()


def _exactly(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = connection.recv(size - len(data))
        if not more:
            raise EOFError("what forks has ended")
        data += more
    return data


def _serve(connection: socket.socket) -> None:
    """Fork for each request, until nobody asks; a child returns from here with its arguments in place."""
    while True:
        data, fds, _, _ = socket.recv_fds(connection, 4, 3)
        if not data:
            os._exit(0)
        arguments, folder = json.loads(_exactly(connection, int.from_bytes(data)))
        child = os.fork()
        if child == 0:
            for place, fd in enumerate(fds):
                os.dup2(fd, place)
                os.close(fd)
            connection.close()
            os.chdir(folder)
            sys.argv[1:], sys.path[0] = arguments, folder
            return
        for fd in fds:
            os.close(fd)
        connection.sendall(child.to_bytes(4))
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        connection.sendall(status.to_bytes(4, signed=True))


if __name__ == "__main__":
    import callgate.cli

    for module in pkgutil.iter_modules(callgate.cli.__path__):
        if module.name != "bench":
            importlib.import_module(f"callgate.cli.{module.name}")
    importlib.import_module("callgate.runtime")
    gc.freeze()
    _serve(socket.socket(fileno=int(sys.argv[1])))
    runpy.run_module("callgate", run_name="__main__", alter_sys=True)
