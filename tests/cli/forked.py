"""Commands without the wait for their imports: a process that has them forks one child for each.

A child is a process of its own, with pipes, an exit code and an end like those of ``python -m callgate``. What it does
not show is how an interpreter starts, and what an import waits for: the SDK of models is there beforehand, too.
`Command.start` and those with another environment show it.

Run as a program this file is that process: ``python forked.py FD``, with a socket there and pipes as any child's.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import gc
import importlib
import json
import os
import pkgutil
import runpy
import select
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import IO

__all__ = ["Forked", "Forks", "forks_in"]

_GONE_WITHIN_SECONDS = 60.0
_AHEAD = ("callgate.runtime", "anyio._backends._asyncio", "genai_prices.data", "genai_prices.data_units")
"""What commands import when they are under way, and what takes longest."""


class Forked:
    """A command that was forked.

    Args:
        told: where its process id comes, and its exit code when it has ended.
    """

    def __init__(self, told: IO[bytes]) -> None:
        self._told = told
        self.pid = int.from_bytes(_exactly(told, 4))
        self._status: int | None = None

    def wait(self, seconds: float) -> int:
        """Its exit code. Raises `TimeoutError`."""
        if self._status is None:
            if not select.select([self._told], [], [], seconds)[0]:
                raise TimeoutError(f"it did not end within {seconds:g} s")
            self._status = int.from_bytes(_exactly(self._told, 4), signed=True)
            self._told.close()
        return self._status

    def send_signal(self, number: int) -> None:
        """Send it, unless the command has ended."""
        with contextlib.suppress(TimeoutError):
            self.wait(0)
        if self._status is None:
            with contextlib.suppress(ProcessLookupError):  # it has just ended, and that was not told yet
                os.kill(self.pid, number)

    def kill(self) -> None:
        """End it; afterwards it is gone."""
        self.send_signal(signal.SIGKILL)
        self.wait(_GONE_WITHIN_SECONDS)


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

    def start(self, arguments: list[str], cwd: Path, fds: tuple[int, int, int], variables: dict[str, str]) -> Forked:
        """Start `callgate` there, in a session of its own.

        Args:
            arguments: after the command's name.
            cwd: its folder.
            fds: its stdin, stdout and stderr; they are closed here.
            variables: of its environment, besides those of the process that forks.
        """
        ours, theirs = os.pipe()
        request = json.dumps([arguments, os.fspath(cwd), variables]).encode()
        socket.send_fds(self._ours, [len(request).to_bytes(4) + request], [*fds, theirs])
        for fd in {*fds, theirs}:
            os.close(fd)
        try:
            return Forked(open(ours, "rb", 0))
        except EOFError:
            raise AssertionError(self._process.communicate()[1].decode()) from None

    def run(
        self, arguments: list[str], cwd: Path, stdin: bytes, seconds: float, variables: dict[str, str]
    ) -> tuple[int, bytes, bytes]:
        """Run `callgate` there: its exit code, stdout and stderr.

        Raises:
            TimeoutError: it took longer than so many seconds; it is killed.
        """
        (theirs_in, ours_in), (ours_out, theirs_out), (ours_err, theirs_err) = (os.pipe() for _ in range(3))
        told = [b"", b""]
        with open(ours_in, "wb", 0) as keyboard, open(ours_out, "rb") as out, open(ours_err, "rb") as err:
            process = self.start(arguments, cwd, (theirs_in, theirs_out, theirs_err), variables)
            threads = [threading.Thread(target=_feed, args=(keyboard, stdin))]
            threads += [threading.Thread(target=_read, args=(told, n, file)) for n, file in enumerate((out, err))]
            for thread in threads:
                thread.start()
            try:
                status = process.wait(seconds)
            finally:
                process.kill()
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


def _exactly(file: IO[bytes], size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = file.read(size - len(data))
        if not more:
            raise EOFError("what forks has ended")
        data += more
    return data


def _serve(connection: socket.socket) -> None:
    """Fork for each request, until nobody asks; a child returns from here with its arguments in place."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for those that wait for children
    while True:
        data, fds, _, _ = socket.recv_fds(connection, 4, 4)
        if not data:
            os._exit(0)
        size = int.from_bytes(data)
        arguments, folder, variables = json.loads(connection.recv(size, socket.MSG_WAITALL))
        if os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            connection.close()
            _become_child(fds.pop(), fds)
            os.setsid()
            os.chdir(folder)
            os.environ.update(variables)
            sys.argv[1:], sys.path[0] = arguments, folder
            return
        for fd in fds:
            os.close(fd)


def _become_child(told: int, streams: list[int]) -> None:
    """Fork again: the child returns with these streams, the parent waits for it, tells what became of it, and ends."""
    child = os.fork()
    if child == 0:
        os.close(told)
        for place, fd in enumerate(streams):
            os.dup2(fd, place)
            os.close(fd)
        return
    for fd in streams:
        os.close(fd)
    os.write(told, child.to_bytes(4))
    os.write(told, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]).to_bytes(4, signed=True))
    os._exit(0)


if __name__ == "__main__":
    import callgate.cli

    for module in pkgutil.iter_modules(callgate.cli.__path__):
        if module.name != "bench":
            importlib.import_module(f"callgate.cli.{module.name}")
    for name in _AHEAD:
        importlib.import_module(name)
    from openai import AsyncOpenAI

    _ = AsyncOpenAI(api_key="none").chat.completions  # a client imports the rest
    gc.freeze()
    _serve(socket.socket(fileno=int(sys.argv[1])))
    runpy.run_module("callgate", run_name="__main__", alter_sys=True)
