"""Peers: how to ask them for figures, and what to say when they fail. The harness survives every one of them.

Peers that are Python run in a process of their own each: `AsyncMonty` 1.4 aborts the interpreter at its exit in some
runs, and a peer's threads, and what it keeps in memory, would disturb the host under test.

What a peer has started goes with it: its session, and what left that for one of its own. The latter has a variable in
its environment that no other process has; where there is no /proc to look for it in, it stays.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Collection, Sequence
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

import anyio
import anyio.abc
from anyio.streams.buffered import BufferedByteReceiveStream

__all__ = ["Bubblewrap", "LangGraphPeer", "LlmSandboxPeer", "MontyPeer", "PeerFailed", "PeerProcess", "TasksPeer"]

_ANSWER_SECONDS = 60.0
_LONGEST_ANSWER = 1 << 26
_CLOSING_SECONDS = 15.0
_MARK = "CALLGATE_BENCH_PEER"
_SWEEPS = 5
_REASON_CHARACTERS = 500
_LAST_CHARACTERS = 200


NOT_FOR_ENVIRONMENTS = ("PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "PIP_USER", "PIP_TARGET", "PIP_PREFIX")
"""Variables that would bring the host's packages into an environment."""


SECRETS = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY")
"""What only the harness needs: the keys of a real model."""


def without(names: Collection[str]) -> dict[str, str]:
    """The environment's variables but for these."""
    return {name: value for name, value in os.environ.items() if name not in names}


def plain(text: str, longest: int) -> str:
    """What somebody else wrote, in one line, so long at most, without characters that a terminal would act on."""
    return "".join(each if each.isprintable() else "?" for each in " ".join(text[: 4 * longest].split()))[:longest]


class PeerFailed(Exception):
    """A peer could not give a figure; the text says why, for the table."""


class PeerProcess:
    """A peer in a process of its own. Once that process is gone, whatever it is asked fails.

    Leaving it ends the process and all that it has started.

    Args:
        name: for the table.
        module: what the process runs; see `serving`.
        package: what has to be installed for it, as pip knows it; empty for nothing.
        answer_seconds: how long one answer may take. A peer that takes longer is given up for good.
        python: the interpreter of an environment that has the package; by default the one that runs the harness.
        arguments: for the process.
    """

    def __init__(
        self,
        name: str,
        module: str,
        package: str = "",
        *,
        answer_seconds: float = _ANSWER_SECONDS,
        python: str = "",
        arguments: Sequence[str] = (),
    ) -> None:
        self.name = name
        self._command = [python or sys.executable, "-P", "-m", module, *arguments]
        variables = without((*NOT_FOR_ENVIRONMENTS, *SECRETS) if python and python != sys.executable else SECRETS)
        self._mark = uuid.uuid4().hex
        self._variables = variables | {_MARK: self._mark}
        self._answer_seconds = answer_seconds
        self._process: anyio.abc.Process | None = None
        self._killed = False
        self._answers: BufferedByteReceiveStream
        self._complaints: IO[bytes] | None = None
        there = python or not package or find_spec(package.replace("-", "_"))
        self._failure = "" if there else f"{package} is not installed"

    @property
    def pid(self) -> int | None:
        """Of its process; None where there is none."""
        return None if self._process is None else self._process.pid

    @property
    def ended(self) -> bool:
        """Its process is there no more, whether or not anybody has noticed."""
        return self._process is None or self._process.returncode is not None

    @property
    def failure(self) -> str:
        """Why it fails whatever it is asked; empty where it does not."""
        return self._failure

    async def __aenter__(self) -> Self:
        if not self._failure:
            try:
                self._complaints = tempfile.TemporaryFile()  # noqa: SIM115 (for as long as the process lives)
                self._process = await anyio.open_process(
                    self._command, stderr=self._complaints, env=self._variables, start_new_session=True
                )
            except OSError as error:
                self._failure = f"it could not be started: {error}"
            else:
                assert self._process.stdout is not None
                self._answers = BufferedByteReceiveStream(self._process.stdout)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if self._process is not None:
                with anyio.CancelScope(shield=True):
                    await self._end(self._process)
        finally:
            if self._complaints is not None:
                self._complaints.close()

    async def _end(self, process: anyio.abc.Process) -> None:
        assert process.stdin is not None
        try:
            if process.returncode is None and not self._failure:
                with contextlib.suppress(OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
                    await process.stdin.aclose()
                with anyio.move_on_after(_CLOSING_SECONDS):
                    await process.wait()
        finally:  # whoever presses Ctrl-C twice does not wait
            self._kill(process)
            await process.aclose()

    def _kill(self, process: anyio.abc.Process) -> None:
        """The process, and what it started: it leads a session of its own.

        Not by `process.kill`: that looks whether it has ended, and so takes the status from whoever waits for it.
        """
        if not self._killed:  # later, the number may be another's
            self._killed = True
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
        for _ in range(_SWEEPS):  # one that starts another while it is looked for is found with the next look
            if not _kill_marked(f"{_MARK}={self._mark}".encode()):
                break

    async def ask(self, what: str, **details: Any) -> dict[str, Any]:
        """Have it do `what`, a function of its module; returns what that returns.

        Raises:
            PeerFailed: it is not installed, ended, raised, or took too long.
        """
        if self._failure or self._process is None:
            raise PeerFailed(self._failure or "it was not started")
        assert self._process.stdin is not None
        try:
            with anyio.fail_after(self._answer_seconds):
                await self._process.stdin.send(json.dumps({"do": what, **details}).encode() + b"\n")
                answer = json.loads(await self._answers.receive_until(b"\n", _LONGEST_ANSWER))
                if not isinstance(answer, dict):
                    raise ValueError("an answer is an object")
        except TimeoutError:
            self._failure = f"no answer within {self._answer_seconds:g} s"
            self._kill(self._process)
        except anyio.DelimiterNotFound:
            self._failure = f"an answer of more than {_LONGEST_ANSWER >> 20} MB"
            self._kill(self._process)
        except (ValueError, RecursionError):
            self._failure = f"what it said is no answer{self._last_words()}"
            self._kill(self._process)
        except (OSError, anyio.EndOfStream, anyio.IncompleteRead, anyio.BrokenResourceError):
            self._kill(self._process)
            with anyio.move_on_after(_CLOSING_SECONDS):
                await self._process.wait()
            self._failure = f"its process ended (status {self._process.returncode}){self._last_words()}"
        else:
            if "failed" in answer:
                raise PeerFailed(plain(str(answer["failed"]), _REASON_CHARACTERS))
            return answer
        raise PeerFailed(self._failure)

    def _last_words(self) -> str:
        """The last line that it wrote to stderr, for the reason."""
        assert self._complaints is not None
        size = self._complaints.seek(0, os.SEEK_END)
        self._complaints.seek(max(0, size - 4096))
        lines = self._complaints.read().decode(errors="replace").strip().splitlines()
        return f": {plain(lines[-1], _LAST_CHARACTERS)}" if lines else ""


def _kill_marked(mark: bytes) -> int:
    """Ends the processes that have this in their environment; returns how many there were."""
    found = 0
    for each in Path("/proc").glob("[0-9]*/environ"):
        try:
            if mark not in each.read_bytes():
                continue
            os.kill(int(each.parent.name), signal.SIGKILL)
            found += 1
        except OSError:  # it is another user's, or has ended
            continue
    return found


class MontyPeer(PeerProcess):
    """pydantic-monty."""

    def __init__(self, *, python: str = "") -> None:
        super().__init__("Monty", "callgate.bench.peers.monty", "pydantic-monty", python=python)


class LangGraphPeer(PeerProcess):
    """LangGraph."""

    def __init__(self, *, answer_seconds: float = _ANSWER_SECONDS, python: str = "") -> None:
        super().__init__(
            "LangGraph", "callgate.bench.peers.langgraph", "langgraph", answer_seconds=answer_seconds, python=python
        )


class LlmSandboxPeer(PeerProcess):
    """llm-sandbox, with its docker backend."""

    def __init__(self, *, python: str = "") -> None:
        super().__init__("llm-sandbox", "callgate.bench.peers.llm_sandbox", "llm-sandbox", python=python)

    async def ready(self) -> None:
        """Raises `PeerFailed` where it is not installed."""
        if self._failure:
            raise PeerFailed(self._failure)

    def give_up(self, reason: str) -> None:
        """What it needs is not there: whatever it is asked fails."""
        self._failure = reason


class TasksPeer(PeerProcess):
    """An asyncio task for every step: what one would write without a plan engine."""

    def __init__(self) -> None:
        super().__init__("asyncio, a task per step", "callgate.bench.peers.tasks")


class Bubblewrap:
    """bubblewrap with a bare Python in it: what one would write without callgate."""

    name = "bubblewrap + Python"

    def __init__(self) -> None:
        self._command = shutil.which("bwrap") or ""

    def run(self, modules: Sequence[str] = ()) -> float:
        """Run one program; returns how long it took, in seconds. Blocks. Raises `PeerFailed`.

        Args:
            modules: what it imports first. Without any, it is the barest Python there is.
        """
        if not self._command:
            raise PeerFailed("bubblewrap is not installed")
        python = getattr(sys, "_base_executable", None) or sys.executable
        jail = [self._command, "--unshare-all", "--die-with-parent", "--ro-bind", "/", "/"]
        started = time.perf_counter()
        try:
            done = subprocess.run(
                [*jail, python, "-I", "-S", "-c", "".join(f"import {name}\n" for name in modules) + "print(1 + 1)"],
                capture_output=True,
                text=True,
                timeout=20,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise PeerFailed(str(error)) from None
        if done.stdout != "2\n":
            raise PeerFailed(done.stderr.strip().replace("\n", " ")[:200] or f"status {done.returncode}")
        return time.perf_counter() - started
