"""Shared by both paths: a program to run, the cache of looks at programs, the errors of failed runs. Runs nothing."""

from __future__ import annotations

import ast
import errno
import keyword
import os
import re
import signal
import sys
from collections.abc import Callable, Collection, Hashable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import anyio
import anyio.lowlevel
import anyio.to_thread

from callgate.artifacts import Artifact, Shelf, handle_form
from callgate.errors import ConfigurationError, LimitReached
from callgate.limits import Limits
from callgate.media import clean_name
from callgate.protocol.run import encode
from callgate.sandbox.backend import SIGKILL, SIGXCPU, Files, GuestExit, Usage
from callgate.tools.encoding import NotJson, compact_json
from callgate_guest.wire import ERRORS, FINAL_ANSWER, OUT_OF_MEMORY, LineBuffer

from .final_answer import AnswerType, FinalAnswer, GivenAnswer, called_after
from .gate import Gate, RunGate
from .gate.cache import Cache
from .gate.events import Event
from .offer import Offer
from .products import Products
from .result import CodeResult, RunError, RunUsage

if TYPE_CHECKING:
    from callgate.program import Finding, Policy

__all__ = [
    "CodeRun", "Language", "Looks", "checked_files", "explain_death", "host_error", "left_under_way",
    "program_error", "waited_for",
]  # fmt: skip

_GIVEN: Final = frozenset({"ToolError", "tool_call", "tools", *ERRORS.values()})
_HOST_KINDS: Final = frozenset({
    "CheckFailed", "LimitReached", "ProtocolError", "GuestDied", "SandboxCrashed", "ReplayDiverged",
})  # fmt: skip
"""Kinds of the host's errors; a program's own exception of that name gets the prefix ``program.``."""
_TEXT_LIMIT: Final = 200_000
"""Characters of a guest's message or traceback that the host keeps; an honest guest sends fewer."""
_NAME_LIMIT: Final = 256
"""Characters of the name of an exception or a tool in a guest's error that the host keeps."""
_CHANGED: Final = re.compile("return|\ufeff")
"""The check replaces top-level `return`s in the tree; the fast path reads a program without its byte order mark."""
_LONG: Final = 2 * 1024
"""Characters of a program that takes some milliseconds to look at, or up to 20 ms if it is hostile."""
_LOOK_BYTES: Final = 200
"""Memory of a cached look (a graph's tree and closures) for each character of the program's source."""

_KEPT_INPUTS: Final = 4_096
"""Characters of the inputs in a result."""

T = TypeVar("T")


class Looks:
    """Looks at programs, and caches the results.

    Args:
        max_entries: number of cached results.
        max_bytes: memory of all cached results, about. A result that takes an eighth of it is not cached.

    Attributes:
        turn: the lock of the task that looks; it belongs to one event loop.
    """

    def __init__(self, *, max_entries: int = 512, max_bytes: int = 64 * 1024 * 1024) -> None:
        self.cache: Cache[Hashable, Any] = Cache(max_entries=max_entries, max_bytes=max_bytes)
        self._most = max_bytes // 8
        self.turn = anyio.Lock(fast_acquire=True)

    async def look(self, source: str, looking: Callable[[], T], key: Hashable = None) -> T:
        """Return the result of `looking`, from the cache if it is there.

        The host looks at one program at a time, and at a long one in a thread. Threads take turns between any two steps
        of a look except the parser's and the compiler's, which are bounded: see `callgate.program.syntax`.

        Args:
            source: the program.
            looking: looks at the program.
            key: everything that the result depends on; None for no caching.
        """
        found: T | None = None if key is None else self.cache.get(key)
        if found is not None:
            return found
        async with self.turn:
            await anyio.lowlevel.checkpoint()
            found = await anyio.to_thread.run_sync(looking) if len(source) > _LONG else looking()
        size = _LOOK_BYTES * len(source)
        if key is not None and size <= self._most:
            self.cache.keep(key, found, size)
        return found


@dataclass(frozen=True, slots=True)
class Language:
    """The language policy for programs: see `callgate.program.check_program`."""

    policy: Policy = "none"
    allowed_imports: tuple[str, ...] | None = None


@dataclass(slots=True)
class CodeRun:
    """One program to run: everything except the guest."""

    code: str
    """The program's text; empty while the program is written."""
    gate: RunGate
    limits: Limits
    names: tuple[str, ...]
    """Names of the inputs."""
    inputs: str
    """The inputs as JSON text of an object, written when the run was made."""
    on_event: Callable[[Event], None] | None = None
    findings: list[Finding] = field(default_factory=list)
    tree: ast.Module | None = None
    """The tree of `code` for the fast path, if `check` has parsed it and left it as it was."""
    number: int = 1
    buffer: LineBuffer | None = None
    files: Files = field(default_factory=dict)
    """Files for the program, by names below ``/input``."""
    given: GivenAnswer | None = None
    """Takes the program's final answer; None if it is asked for none."""
    keeps: bool = False
    """Another program may follow on the same guest, and await calls that this one leaves in its variables."""

    @classmethod
    def of(
        cls,
        gate: Gate,
        code: str,
        limits: Limits,
        *,
        inputs: Mapping[str, Any] | None = None,
        tools: Collection[str] | None = None,
        on_event: Callable[[Event], None] | None = None,
        files: Mapping[str, Path | str | bytes | Artifact] | None = None,
        shelf: Shelf | None = None,
        answer: AnswerType | None = None,
    ) -> CodeRun:
        """Build a run of `code`: see `Runtime.execute_code` for the arguments. Raises `ConfigurationError`."""
        if not isinstance(code, str):
            raise ConfigurationError(f"code is Python source text, not {type(code).__name__}")
        if inputs is not None and not isinstance(inputs, Mapping):
            raise ConfigurationError(f"inputs is a dict of variables and their values, not {type(inputs).__name__}")
        taking = None if answer is None else GivenAnswer(answer)
        opened = gate.open(caller="code", limits=limits, allowed=tools, on_event=on_event, shelf=shelf)
        if taking is not None:
            opened.add(taking.tool)
        names: tuple[Any, ...] = tuple(inputs or ())
        for name in names:
            if not isinstance(name, str) or not name.isidentifier() or keyword.iskeyword(name):
                raise ConfigurationError(f"inputs are bound as variables: {name!r} cannot be the name of a variable")
            if name in opened.offer.shapes or name in _GIVEN or (taking and name == FINAL_ANSWER):
                raise ConfigurationError(
                    f"the input {name!r} would hide the tool, or the name, that programs are given"
                )
        given = checked_files(files or {})
        as_json = _as_json(inputs, opened.products.shelf) if inputs else "{}"
        return cls(code, opened, limits, names, as_json, on_event, files=given, given=taking)

    @property
    def answer(self) -> FinalAnswer | None:
        """The final answer, if one was accepted, once the program has ended."""
        if self.given is None or self.given.answer is None:
            return None
        return replace(self.given.answer, went_on=called_after(self.gate.records, self.gate.only_reads))

    @property
    def known(self) -> tuple[str, ...]:
        """Names that the program has beside its tools."""
        return self.names if self.given is None else (*self.names, FINAL_ANSWER, "AnswerRejected")

    @property
    def kept_source(self) -> str:
        """The program, for its result."""
        return self.code[: self.limits.max_source_bytes]

    @property
    def kept_inputs(self) -> str:
        """The inputs, for the result."""
        return self.inputs[:_KEPT_INPUTS]

    def stopped(self, error: RunError) -> CodeResult:
        """The result of a run that ended before its program began. Calls that began while it was written are in it."""
        return CodeResult(
            ok=False, error=error, findings=self.findings, source=self.kept_source, inputs=self.kept_inputs,
            limits=self.limits, speculative=list(self.gate.records),
            usage=RunUsage(tool_calls=len(self.gate.records)),
        )  # fmt: skip

    def check_failure(self, sandbox: str) -> CodeResult | None:
        """The result of a program that its findings stop; ``None`` if it may run."""
        errors = [finding for finding in self.findings if finding.severity == "error"]
        if not errors:
            return None
        first = errors[0]
        more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
        error = RunError("CheckFailed", f"{first}{more}", first.line)
        if first.code == "too-large":
            error = RunError("LimitReached", f"limit reached: max_source_bytes: {first}", limit="max_source_bytes")
        return replace(self.stopped(error), sandbox=sandbox)

    @property
    def products(self) -> Products:
        """Takes the artifacts of the run."""
        return self.gate.products

    @property
    def offer(self) -> Offer:
        """The tools that the program may call."""
        return self.gate.offer

    def check(
        self, language: Language, earlier: Collection[str] | None = None, *, session: bool, replays: bool = False
    ) -> list[Finding]:
        """Check the program before it runs.

        Args:
            language: the policy.
            earlier: in a session, the known names that earlier programs have bound; no name is then reported as
                unknown. ``None`` for a program that stands alone or is the first.
            session: whether the program runs in a session.
            replays: whether the run can be replayed.
        """
        from callgate.program import check_program, parse_program

        tree = parse_program(self.code, max_source_bytes=self.limits.max_source_bytes)
        changes = session or language.policy != "none" or _CHANGED.search(self.code) is not None
        if isinstance(tree, ast.Module) and not changes:
            self.tree = tree
        return check_program(
            self.code,
            self.offer.shapes,
            namespaces=self.offer.namespaces,
            resolve=self.offer.resolve,
            why_absent=self.offer.vocabulary.why_absent,
            inputs=self.known,
            policy=language.policy,
            allowed_imports=language.allowed_imports,
            max_source_bytes=self.limits.max_source_bytes,
            known_names=earlier or (),
            names_known=earlier is None,
            session=session,
            replays=replays,
            tree=tree,
        )


def checked_files(files: Mapping[Any, Any]) -> Files:
    """The files of a run. Raises `ConfigurationError` for a name that is no clean one, and for what is no file."""
    if not isinstance(files, Mapping):
        raise ConfigurationError(f"files is a dict of names and their paths or bytes, not {type(files).__name__}")
    given: dict[str, Path | bytes] = {}
    content: Any
    for name, content in files.items():
        if not isinstance(name, str) or not name or clean_name(name) != name:
            better = clean_name(name) if isinstance(name, str) else ""
            hint = f"; write {better!r}" if better else ""
            raise ConfigurationError(f"files: {name!r} is no name below /input{hint}")
        if isinstance(content, (bytes, bytearray, memoryview)):
            given[name] = bytes(content)
        elif isinstance(content, Artifact):
            given[name] = content.data
        elif not isinstance(content, (str, os.PathLike)):
            raise ConfigurationError(f"files: {name!r} is a path or bytes, not {type(content).__name__}")
        elif not os.path.isfile(content):
            wrong = f"there is no file {os.fspath(content)!r}"
            if os.path.isdir(content):
                wrong = f"{os.fspath(content)!r} is a folder: pass it to Runtime(folders=...)"
            raise ConfigurationError(f"files: {name!r}: {wrong}")
        else:
            given[name] = Path(content)
    return given


def _as_json(inputs: Mapping[str, Any], shelf: Shelf) -> str:
    members = []
    for name, value in inputs.items():
        try:
            members.append(f"{encode(name)}:{encode(value)}")
        except (TypeError, ValueError, RecursionError) as error:
            if (text := _with_handles(value, shelf)) is None:
                raise ConfigurationError(f"inputs must be JSON values; {name!r} is not: {error}") from None
            members.append(f"{encode(name)}:{text}")
    return f"{{{','.join(members)}}}"


def _with_handles(value: Any, shelf: Shelf) -> str | None:
    """JSON text of an input that holds artifacts, which are put on the shelf; None if it is not JSON all the same."""
    shown: dict[int, dict[str, Any]] = {}

    def form(each: Any) -> dict[str, Any] | None:
        if not isinstance(each, Artifact):
            return None
        if id(each) not in shown:
            shown[id(each)] = (each if shelf.holds(each) else shelf.add(each)).to_json()
        return shown[id(each)]

    before = handle_form.set(form)
    try:
        return compact_json(value)
    except NotJson:
        return None
    finally:
        handle_form.reset(before)


def left_under_way(tool: str, calls: int) -> str:
    """The note on calls of a failed program that a limit ended.

    Args:
        tool: of the first call.
        calls: number of calls.
    """
    what = f"a call of {tool[:256]!r}" if calls == 1 else f"{calls} calls, the first of {tool[:256]!r},"
    return f"the program had failed, and the limit wall_seconds ended {what} that it had left under way"


def waited_for(error: RunError, tool: str, count: int) -> RunError:
    """The error of a program that had ended and waited for its calls when a limit ended it."""
    others = f" and {count - 1} more" if count > 1 else ""
    message = f"{error.message}: the program was over and waited for its call of {tool[:256]!r}{others}"
    return replace(error, message=f"{message}; await it with asyncio.wait_for(..., seconds)", tool=tool[:256])


def host_error(failure: Exception, wall: float | None = None) -> RunError:
    """The error of a run that the host ended; `wall` is its duration for an error of ``wall_seconds``."""
    if isinstance(failure, LimitReached):
        if failure.limit == "wall_seconds" and wall is not None:
            failure = LimitReached("wall_seconds", failure.allowed, round(wall, 3))
        return _limit_error(failure)
    return RunError(type(failure).__name__, str(failure))


def program_error(error: dict[str, Any], limits: Limits, usage: Usage | None) -> RunError:
    """Build an error from the guest's description, which is trusted in no field; errors of a limit become
    ``LimitReached``."""

    def text(name: str, most: int = _TEXT_LIMIT) -> str:
        value = error.get(name)
        return value[:most].encode("utf-8", "replace").decode() if isinstance(value, str) else ""

    line = error.get("line")
    line = line if type(line) is int and 0 <= line < 2**31 else None
    kind = text("kind", _NAME_LIMIT) or "Exception"
    reached = None
    if kind == "MemoryError":
        reached = LimitReached("memory_bytes", limits.memory_bytes, (usage and usage.peak_memory_bytes) or None)
    elif kind == "TooManyThreads":
        reached = LimitReached("max_processes", limits.max_processes, limits.max_processes)
    elif error.get("errno") in (errno.ENOSPC, errno.EFBIG):
        reached = LimitReached("max_file_bytes", limits.max_file_bytes, limits.max_file_bytes)
    if reached is not None:
        return _limit_error(reached, line, text("traceback"))
    if kind in _HOST_KINDS:
        kind = f"program.{kind}"
    return RunError(kind, text("message"), line, text("traceback"), tool=text("tool", _NAME_LIMIT) or None)


_SIGNALS: Final = {
    4: "SIGILL", 5: "SIGTRAP", 6: "SIGABRT", 8: "SIGFPE", SIGKILL: "SIGKILL", 11: "SIGSEGV", 13: "SIGPIPE",
    15: "SIGTERM", SIGXCPU: "SIGXCPU", 25: "SIGXFSZ",
}  # fmt: skip
"""Signals that Linux and macOS number alike."""


def _signal_name(number: int) -> str:
    """Name of a guest's signal. On a host that is not Linux, a guest in a container has Linux's numbers all the same,
    and a process of the host has its own: there, signals of which both have one number are named."""
    if sys.platform == "linux" and number in set(signal.Signals):
        return signal.Signals(number).name
    return _SIGNALS.get(number, f"signal {number}")


def explain_death(ended: GuestExit, limits: Limits) -> RunError:
    """Explain from exit status and the kernel's figures why a guest died without a reply."""
    status, usage = ended.status, ended.usage
    if status is None:
        message = ended.reason or "the sandbox went away in the middle of the run; run the program again"
        return RunError("SandboxCrashed", message)
    cpu = usage.cpu_seconds if usage is not None else 0.0
    if (status == -SIGXCPU and cpu >= limits.cpu_seconds * 0.5) or (status == -SIGKILL and cpu >= limits.cpu_seconds):
        # the kernel counts in ticks for the limit and exactly for us: on a busy machine the two differ by a lot
        return _limit_error(LimitReached("cpu_seconds", limits.cpu_seconds, round(max(cpu, limits.cpu_seconds), 3)))
    if status == OUT_OF_MEMORY:
        peak = (usage and usage.peak_memory_bytes) or None
        return _limit_error(LimitReached("memory_bytes", limits.memory_bytes, peak))
    if status < 0:
        name = _signal_name(-status)
        hint = {
            "SIGSEGV": "it ran out of stack, or native code went wrong: recurse less deeply",
            "SIGBUS": "it wrote to a mapped file that had no room left",
            "SIGSYS": "it made a system call that does not exist in the sandbox",
            "SIGKILL": "by itself, or because the machine ran out of memory",
        }.get(name, "the program, or a library it uses, ended its own process")
        return RunError("GuestDied", f"the program's process was killed by {name}: {hint}")
    return RunError(
        "GuestDied", f"the program ended its own process with status {status} (os._exit): end it by returning"
    )


def _limit_error(error: LimitReached, line: int | None = None, traceback: str = "") -> RunError:
    return RunError("LimitReached", str(error), line, traceback, limit=error.limit)
