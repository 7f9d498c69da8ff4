"""Runs the real command in a process of its own: its output, its exit code and, where it matters, its terminal."""

from __future__ import annotations

import contextlib
import os
import pty
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from cli.forked import Forked, forks_in

__all__ = ["Command", "Outcome", "Terminal"]

SECONDS = 60.0
"""No command of the tests takes longer; one that does is stuck."""


@dataclass(frozen=True)
class Outcome:
    """How a command ended."""

    status: int
    out: str
    err: str

    @property
    def error(self) -> str:
        """The one ERROR line, without the word."""
        (line,) = [line for line in self.err.splitlines() if line.startswith("ERROR ")]
        return line.removeprefix("ERROR ")

    @property
    def tip(self) -> str:
        """The one TIP line, without the word."""
        (line,) = [line for line in self.err.splitlines() if line.startswith("TIP ")]
        return line.removeprefix("TIP ")


class Terminal:
    """A command that has a terminal for stdin, stdout and stderr."""

    def __init__(self, process: subprocess.Popen[bytes] | Forked, fd: int) -> None:
        self.process = process
        self._fd = fd
        self.seen = ""

    def read_until(self, text: str) -> str:
        """Everything shown so far, once `text` is among it; fails when the command ends before that."""
        deadline = time.monotonic() + SECONDS
        while text not in self.seen:
            if not self._read(deadline):
                raise AssertionError(f"{text!r} never came; what came is {self.seen!r}")
        return self.seen

    def read_all(self) -> str:
        """Everything shown until the command ended."""
        deadline = time.monotonic() + SECONDS
        while self._read(deadline):
            pass
        return self.seen

    def type(self, text: str) -> None:
        """Type on its keyboard."""
        os.write(self._fd, text.encode())

    def wait(self) -> int:
        """Its exit code."""
        return self.process.wait(SECONDS)

    def _read(self, deadline: float) -> bool:
        ready, _, _ = select.select([self._fd], [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            raise AssertionError(f"nothing more came; what came is {self.seen!r}")
        try:
            data = os.read(self._fd, 65536)
        except OSError:  # EIO: the other end is closed
            return False
        self.seen += data.decode("utf-8", "replace")
        return bool(data)


@dataclass(frozen=True)
class Command:
    """`callgate` with warnings as errors, in an environment of its own."""

    folder: Path
    environment: dict[str, str] = field(default_factory=dict)
    forks: bool = False
    """Whether commands in just this environment are forked from a process that has their imports: see `forked`."""
    variables: dict[str, str] = field(default_factory=dict)
    """More of the environment, which no interpreter reads when it starts."""

    def __call__(self, *arguments: str, stdin: str = "", environment: dict[str, str] | None = None) -> Outcome:
        """Run it to its end."""
        if self.forks and environment is None:
            forks = forks_in(self.environment)
            status, out, err = forks.run([*arguments], self.folder, stdin.encode(), SECONDS, self.variables)
            return Outcome(status, out.decode(), err.decode())
        done = subprocess.run(
            self.line(*arguments), input=stdin.encode(), capture_output=True, timeout=SECONDS, check=False,
            cwd=self.folder, env=self.all_variables | (environment or {}),
        )  # fmt: skip
        return Outcome(done.returncode, done.stdout.decode(), done.stderr.decode())

    @property
    def all_variables(self) -> dict[str, str]:
        """The environment, whole."""
        return self.environment | self.variables

    def line(self, *arguments: str) -> list[str]:
        """The command line."""
        return [sys.executable, "-W", "error", "-m", "callgate", *arguments]

    def without_namespaces(self, *arguments: str) -> Outcome:
        """Run it where no user namespace can be had: in one whose quota of further ones is 0, or right here."""
        enter = ["unshare", "--user", "--map-root-user"]
        if subprocess.run([*enter, "true"], capture_output=True, timeout=SECONDS, check=False).returncode != 0:
            return self(*arguments)
        forbid = 'echo 0 > /proc/sys/user/max_user_namespaces && exec "$@"'
        line = [*enter, "sh", "-c", forbid, "sh", *self.line(*arguments)]
        done = subprocess.run(
            line, stdin=subprocess.DEVNULL, capture_output=True, timeout=SECONDS, check=False,
            cwd=self.folder, env=self.all_variables,
        )  # fmt: skip
        return Outcome(done.returncode, done.stdout.decode(), done.stderr.decode())

    @contextlib.contextmanager
    def start(self, *arguments: str) -> Iterator[tuple[subprocess.Popen[bytes], IO[bytes]]]:
        """Start it with pipes: the process, and its stdout. It is gone afterwards."""
        process = subprocess.Popen(
            self.line(*arguments), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            cwd=self.folder, env=self.all_variables, start_new_session=True,
        )  # fmt: skip
        assert process.stdout is not None
        with process:
            try:
                yield process, process.stdout
            finally:
                process.kill()

    @contextlib.contextmanager
    def terminal(self, *arguments: str, environment: dict[str, str] | None = None) -> Iterator[Terminal]:
        """Start it at a terminal of its own."""
        ours, theirs = pty.openpty()
        variables = {"TERM": "xterm"} | (environment or {})
        process: subprocess.Popen[bytes] | Forked
        if self.forks:
            fds = (theirs, os.dup(theirs), os.dup(theirs))
            process = forks_in(self.environment).start([*arguments], self.folder, fds, self.variables | variables)
        else:
            process = subprocess.Popen(
                self.line(*arguments), stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True,
                cwd=self.folder, env=self.all_variables | variables,
            )  # fmt: skip
            os.close(theirs)
        try:
            yield Terminal(process, ours)
        finally:
            process.kill()
            process.wait(SECONDS)
            os.close(ours)
