"""A contestant's process and its environment: how to make it, how to ask it, and what to say when it fails.

Contestants run in a process of their own each: `AsyncMonty` 1.4 aborts the interpreter at its exit in some runs, and a
peer's threads, and what it keeps in memory, would disturb the host under test. The harness survives every one of them.
What a contestant has started goes with it: it leads a session of its own.

Each peer's packages are in a folder of its own, which pip fills once. A bare Python runs with that folder, this
package's source and the standard library, and nothing of what callgate itself requires. The folder's name has a hash of
the requirements and the interpreter. It is made under another name and renamed when it is whole, so it is whole or not
there; of two harnesses that make it at the same time the first one wins. What is made is never updated: remove the
folder to have it made again, with what is new by then.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

import anyio
import anyio.abc
from anyio.streams.buffered import BufferedByteReceiveStream

import callgate_bench
from callgate.cut import cut
from callgate_bench.contestants.listed import Listed

__all__ = ["Environment", "PeerFailed", "PeerProcess", "cache_folder", "plain", "ready"]

_LONGEST_ANSWER = 1 << 26
_CLOSING_SECONDS = 15.0
_SECRETS = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY")
"""Variables that only the harness needs: the keys of a real model."""
_SOURCE = str(Path(callgate_bench.__file__).parents[1])
"""What makes this package importable in an environment of a peer."""
NOT_FOR_ENVIRONMENTS = ("PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "PIP_USER", "PIP_TARGET", "PIP_PREFIX")
"""Variables that would bring the host's packages into an environment."""


def without(names: Collection[str]) -> dict[str, str]:
    """The environment's variables, without these."""
    return {name: value for name, value in os.environ.items() if name not in names}


def plain(text: str, longest: int) -> str:
    """Foreign text in one line, cut, without characters that a terminal would act on."""
    line = " ".join(text[: 4 * longest].split())
    return cut("".join(each if each.isprintable() else "?" for each in line), longest)


class PeerFailed(Exception):
    """A peer failed; the text says why, for the table."""


class PeerProcess:
    """A contestant in a process of its own, which begins with the first question. Once it is gone, every question but
    ``open`` fails; with ``open`` it begins again.

    Leaving it ends the process and all that it has started.

    Args:
        module: what the process runs; see `serving`.
        arguments: for the process.
        packages: the folder of a peer's packages (`environments`); by default the process has those of the harness.
        answer_seconds: how long one answer may take. A contestant that takes longer is given up for good.

    Attributes:
        broken: why it fails whatever it is asked; empty where it does not.
    """

    def __init__(
        self, module: str, arguments: Sequence[str] = (), *, packages: str = "", answer_seconds: float = 60.0
    ) -> None:
        self.broken = ""
        self._command = [sys.executable, "-P", "-m", module, *arguments]
        self._variables = without(_SECRETS)
        if packages:
            self._command[:1] = [getattr(sys, "_base_executable", None) or sys.executable, "-S"]
            path = {
                "PYTHONPATH": f"{packages}:{_SOURCE}",
                "PATH": f"{packages}/bin:{os.environ.get('PATH', os.defpath)}",
            }
            self._variables = without((*NOT_FOR_ENVIRONMENTS, *_SECRETS)) | path
        self._answer_seconds = answer_seconds
        self._process: anyio.abc.Process | None = None
        self._killed = False
        self._answers: BufferedByteReceiveStream
        self._complaints: IO[bytes]

    @property
    def pid(self) -> int | None:
        """The process's id; None if there is no process."""
        return None if self._process is None else self._process.pid

    @property
    def ended(self) -> bool:
        """Whether the process is gone, or fails every question."""
        return bool(self.broken) or (self._process is not None and self._process.returncode is not None)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._end()

    async def begin(self) -> None:
        """Start the process now, so that it is known before guests are counted among the children of this process."""
        self._complaints, self._killed = tempfile.TemporaryFile(), False  # noqa: SIM115 (for as long as the process lives)
        try:
            self._process = await anyio.open_process(
                self._command, stderr=self._complaints, env=self._variables, start_new_session=True
            )
        except OSError as error:
            self.broken = f"it could not be started: {error}"
        else:
            assert self._process.stdout is not None
            self._answers = BufferedByteReceiveStream(self._process.stdout)

    async def _end(self) -> None:
        process = self._process
        if process is None:
            return
        assert process.stdin is not None
        with self._complaints, anyio.CancelScope(shield=True):
            try:
                if not self.ended:
                    with contextlib.suppress(OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
                        await process.stdin.aclose()
                    with anyio.move_on_after(_CLOSING_SECONDS):
                        await process.wait()
            finally:  # for a second Ctrl-C
                self._kill(process)
                await process.aclose()
        self._process, self.broken = None, ""

    def _kill(self, process: anyio.abc.Process) -> None:
        """Kill the process and everything that it started: it leads a session of its own.

        Not by `process.kill`, which polls the process and so takes the exit status from the task that waits for it.
        """
        if not self._killed:  # later, the number may be another's
            self._killed = True
            with contextlib.suppress(ProcessLookupError, PermissionError):
                if sys.platform == "win32":
                    process.kill()
                else:
                    os.killpg(process.pid, signal.SIGKILL)

    async def ask(self, what: str, **details: Any) -> dict[str, Any]:
        """Call the function `what` of the contestant; returns its result.

        Raises:
            PeerFailed: it ended, raised, or took too long.
        """
        if what == "open" and self.ended:
            await self._end()
        if self._process is None and not self.broken:
            await self.begin()
        process = self._process
        if self.broken or process is None:
            raise PeerFailed(self.broken)
        assert process.stdin is not None
        try:
            with anyio.fail_after(self._answer_seconds):
                await process.stdin.send(json.dumps({"do": what, **details}).encode() + b"\n")
                answer = json.loads(await self._answers.receive_until(b"\n", _LONGEST_ANSWER))
                if not isinstance(answer, dict):
                    raise ValueError("an answer is an object")
        except TimeoutError:
            self.broken = f"no answer within {self._answer_seconds:g} s"
        except anyio.DelimiterNotFound:
            self.broken = f"an answer of more than {_LONGEST_ANSWER >> 20} MB"
        except (ValueError, RecursionError):
            self.broken = f"its output is not an answer{self._last_words()}"
        except (OSError, anyio.EndOfStream, anyio.IncompleteRead, anyio.BrokenResourceError):
            self._kill(process)
            with anyio.move_on_after(_CLOSING_SECONDS):
                await process.wait()
            self.broken = f"its process ended (status {process.returncode}){self._last_words()}"
        else:
            if "failed" in answer:
                raise PeerFailed(plain(str(answer["failed"]), 500))
            return answer
        self._kill(process)
        raise PeerFailed(self.broken)

    def _last_words(self) -> str:
        """The last line of stderr, for the reason."""
        size = self._complaints.seek(0, os.SEEK_END)
        self._complaints.seek(max(0, size - 4096))
        lines = self._complaints.read().decode(errors="replace").strip().splitlines()
        return f": {plain(lines[-1], 200)}" if lines else ""


_MAKING_SECONDS = 300.0
_PIP_OPTIONS = ("--disable-pip-version-check", "--no-input", "--no-compile", "--retries", "2")


@dataclass(frozen=True, kw_only=True, slots=True)
class Environment:
    """Where a contestant's process runs.

    Attributes:
        packages: the folder of its packages; empty for a process that runs where the harness runs.
        failure: why it cannot be had; empty where it can.
    """

    packages: str = ""
    failure: str = ""


def cache_folder() -> Path:
    """Where environments are kept: ``callgate/bench`` below ``$XDG_CACHE_HOME``, or below ``~/.cache``."""
    named = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (named if named.is_absolute() else Path.home() / ".cache") / "callgate" / "bench"


async def ready(
    listed: Listed,
    *,
    folder: Path | None = None,
    making_seconds: float = _MAKING_SECONDS,
    on_progress: Callable[[str], None] = lambda _: None,
) -> Environment:
    """The environment of a contestant, made if it is not there. Raises nothing: what went wrong is its `failure`.

    Args:
        listed: whose.
        folder: where environments are kept; `cache_folder` by default.
        making_seconds: how long making it may take.
        on_progress: called with what is being done, where that takes long.
    """
    if listed.cannot:
        return Environment(failure=listed.cannot)
    missing = [each for each in listed.commands if shutil.which(each) is None]
    if missing:
        return Environment(failure=f"not on this machine: {', '.join(missing)}")
    if not listed.requirements:
        return Environment()
    depends = [
        _PIP_OPTIONS,
        sorted(listed.requirements),
        sys.implementation.cache_tag,
        platform.python_version(),
        sys.base_prefix,
    ]
    name = f"{listed.name}-{hashlib.sha256(json.dumps(depends).encode()).hexdigest()[:16]}"
    home = (cache_folder() if folder is None else folder) / name
    try:
        if not home.exists():
            on_progress(f"making an environment for {listed.name}")
            with anyio.fail_after(making_seconds):
                await _make(home, listed)
    except TimeoutError:
        return Environment(failure=f"its environment was not made within {making_seconds:g} s")
    except (OSError, RuntimeError) as error:
        return Environment(failure=f"no environment: {cut(' '.join(str(error).split()), 400)}")
    return Environment(packages=str(home))


async def _make(home: Path, listed: Listed) -> None:
    """Raises `RuntimeError` if pip fails."""
    home.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=home.parent, prefix=f"{home.name}.") as unfinished:
        new = Path(unfinished, "packages")
        done = await anyio.run_process(
            [sys.executable, "-m", "pip", "install", *_PIP_OPTIONS, "--target", str(new), *listed.requirements],
            stdin=subprocess.DEVNULL, stderr=subprocess.STDOUT, check=False, env=without(NOT_FOR_ENVIRONMENTS),
        )  # fmt: skip
        if done.returncode:
            lines = done.stdout.decode(errors="replace").strip().splitlines()
            errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")]
            raise RuntimeError(f"pip: {'; '.join(errors or lines[-1:]) or f'status {done.returncode}'}")
        try:
            new.rename(home)  # noqa: ASYNC240 (the same)
        except OSError:
            if not home.exists():  # noqa: ASYNC240
                raise
