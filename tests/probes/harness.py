"""How a probe runs: a snippet in the jail, and the same snippet on plain CPython. Knows no probe.

A snippet is Python source that leaves what it found in ``got`` (JSON). `PRELUDE` gives it ``attempt(action)``: "done", or the name
of what stopped it.
"""

# ruff: noqa: E501 (hostile programs, a line each)

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import operator
import platform
import subprocess
import sys
from collections.abc import Collection, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from anyio.from_thread import BlockingPortal

from callgate import CodeResult, Limits, Runtime, ToolError, tool
from probes.kinds import Kind
from probes.processes import eventually, status_of
from probes.seats import Children, Containers, Forks, Seats

PRELUDE = """
import errno, json, os, sys
def attempt(action):
    try:
        action()
    except OSError as error:
        return errno.errorcode.get(error.errno, type(error).__name__)
    except BaseException as error:
        return type(error).__name__
    return "done"
"""
WIRE = """
import os, stat
def _is_pipe(fd):
    try:
        return stat.S_ISFIFO(os.fstat(fd).st_mode)
    except OSError:
        return False
incoming, outgoing = [fd for fd in range(3, 64) if _is_pipe(fd)][:2]
os.set_blocking(outgoing, True)
def send(data):
    data = data if isinstance(data, bytes) else data.encode()
    while data:
        data = data[os.write(outgoing, data):]
def lines():
    import select
    held = b""
    while True:
        select.select([incoming], [], [])
        held += os.read(incoming, 1 << 20)
        *whole, held = held.split(b"\\n")
        yield from whole
"""
"""For hostile programs: finds the wire's own descriptors, and writes and reads them behind the guest's back."""

X86 = platform.machine() == "x86_64"
SYSCALLS = (
    """
import ctypes
_libc = ctypes.CDLL(None, use_errno=True)
def syscall(number, *arguments):
    ctypes.set_errno(0)
    result = _libc.syscall(ctypes.c_long(number), *[ctypes.c_long(a) if isinstance(a, int) else a for a in arguments])
    if result == -1:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result
"""
    f"\nX86 = {X86}\n"
)
"""`PRELUDE` for programs that make system calls of their own, by number: ``syscall(number, ...)`` raises `OSError`."""

REFUSED = {"EPERM", "EACCES", "ENOENT", "EROFS", "ENOSYS", "EXDEV", "ENOTDIR", "ESRCH", "ENXIO"}
SETTLED_SECONDS = 30.0


@dataclass
class Toolbox:
    """The tools of the probes' runtimes, and what they saw."""

    seen: list[Any] = field(default_factory=list)
    started: int = 0
    cancelled: int = 0
    secret: str = "canary-h0st-secret"

    def tools(self) -> list[Any]:
        @tool(read_only=True)
        async def echo(value: Any) -> Any:
            """Gives back what it gets."""
            self.seen.append(value)
            return value

        @tool(read_only=True)
        async def add(a: int, b: int) -> int:
            """Adds."""
            self.seen.append((a, b))
            return a + b

        @tool
        async def slow() -> str:
            """Does not answer."""
            self.started += 1
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                self.cancelled += 1
                raise
            return "never"

        @tool(read_only=True)
        async def big(size: int) -> str:
            """A long text."""
            return "x" * size

        @tool(read_only=True)
        async def broken(kind: str) -> str:
            """Fails in a way that it did not mean to."""
            if kind == "told":
                raise ToolError("told on purpose")
            if kind == "exit":
                raise SystemExit(self.secret)
            if kind == "cancelled":
                raise asyncio.CancelledError(self.secret)
            if kind == "class":
                raise type(f"{self.secret}\n{{{{7*7}}}}", (Exception,), {})("x")
            raise RuntimeError(f"{self.secret} in {__file__}")

        return [echo, add, slow, big, broken]


@dataclass
class Jail:
    """One runtime with a sandbox of one kind, driven from outside its event loop."""

    kind: Kind
    runtime: Runtime
    portal: BlockingPortal
    toolbox: Toolbox

    @functools.cached_property
    def seats(self) -> Seats:
        """Where its guests are."""
        kind = Containers if self.kind.contained else Children if self.kind.is_srt else Forks
        return kind(self.runtime, self.portal)

    def start(self, code: str, **options: Any) -> Future[CodeResult]:
        """Start a program as it stands."""

        async def go() -> CodeResult:
            return await self.runtime.execute_code(code, check=False, path="sandbox", **options)

        return self.portal.start_task_soon(go)

    def run(self, code: str, *, limits: Limits | None = None, **options: Any) -> CodeResult:
        """Run a program as it stands."""
        return self.start(code, limits=limits, **options).result(60)

    def probe(self, snippet: str, *, limits: Limits | None = None, **inputs: Any) -> Any:
        """Run a snippet; what it left in ``got``."""
        result = self.run(f"{PRELUDE}{snippet}\ngot", limits=limits, inputs=inputs)
        assert result.ok, result.for_model()
        return result.value

    def attack(self, snippet: str, *, limits: Limits | None = None, **options: Any) -> CodeResult:
        """Run a snippet that knows the wire."""
        return self.run(f"{WIRE}{snippet}", limits=limits or Limits(wall_seconds=10), **options)

    def is_well(self) -> None:
        """Assert that the next program works as if nothing had happened."""
        result = self.run("print('here')\nawait add(20, 22)")
        assert (result.ok, result.value, result.logs) == (True, 42, "here\n"), result

    @property
    def idle_pid(self) -> int:
        """Process id of a guest that waits in the pool, as this machine counts."""
        return self.seats.pid_of(self.seats.idle_guest())

    @property
    def keeper_pid(self) -> int:
        """Process id of what guests are forked from, as this machine counts."""
        return self.seats.keeper()

    @contextlib.contextmanager
    def keeper_lives(self) -> Iterator[None]:
        """Assert that what happens to one run does not end what others come from."""
        self.settled()
        before = self.seats.keeper()
        yield
        assert before > 1
        assert status_of(before)["State"][0] != "Z"
        assert self.kind.contained or self.seats.keeper() == before

    def busy_pids(self) -> set[int]:
        """Process ids of the guests that a program runs on now."""
        self.settled()
        return self.seats.guests() - {self.seats.pid_of(guest) for guest in self.seats.pool._idle}

    def settled(self) -> tuple[int, ...]:
        """What there is of descriptors, processes and containers, once the pool is full and all that ended is gone."""
        eventually(self.seats.full, "a full pool", SETTLED_SECONDS)
        return self.seats.left()

    @contextlib.contextmanager
    def leaves_nothing(self) -> Iterator[None]:
        """Assert that what happens inside leaves no process, no container and no descriptor behind."""
        before = self.settled()
        yield
        now = before

        def nothing_more() -> bool:
            nonlocal now
            now = self.settled()
            # fewer are fine: a container was on its way out, or garbage of an earlier test held a descriptor
            return all(map(operator.le, now, before))

        try:
            eventually(nothing_more, f"no more than {before} descriptors, processes and containers")
        except AssertionError as error:
            raise AssertionError(f"{error}, but {now}") from None


def control(
    snippet: str,
    *,
    cwd: Path | str = "/",
    pass_fds: Collection[int] = (),
    timeout_seconds: float = 30.0,
    prelude: str = PRELUDE,
    **inputs: Any,
) -> Any:
    """The same snippet in a plain CPython process: what it left in ``got``."""
    done = control_process(
        f"{prelude}{snippet}\nimport json\nprint(json.dumps(got))",
        cwd=cwd, pass_fds=pass_fds, timeout_seconds=timeout_seconds, **inputs,
    )  # fmt: skip
    assert done.returncode == 0, done
    return json.loads(done.stdout.splitlines()[-1])


def control_process(
    snippet: str,
    *,
    cwd: Path | str = "/",
    pass_fds: Collection[int] = (),
    timeout_seconds: float = 30.0,
    **inputs: Any,
) -> subprocess.CompletedProcess[str]:
    """The same snippet in a plain CPython process: how that ended."""
    bound = "".join(f"{name} = json.loads({json.dumps(value)!r})\n" for name, value in inputs.items())
    return subprocess.run(
        [sys.executable, "-I", "-B", "-c", f"import json\n{bound}{snippet}"],
        capture_output=True, text=True, timeout=timeout_seconds, cwd=cwd, pass_fds=tuple(pass_fds),
    )  # fmt: skip
