"""A program to run, looks at programs, and what runs report when they fail: all that both paths share. Runs nothing."""

from __future__ import annotations

import errno
import keyword
import signal
from collections.abc import Callable, Collection, Hashable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

import anyio
import anyio.lowlevel
import anyio.to_thread

from callgate.errors import ConfigurationError, LimitReached
from callgate.limits import Limits
from callgate.protocol.run import encode
from callgate.sandbox.backend import GuestExit, Usage
from callgate_guest.wire import OUT_OF_MEMORY, LineBuffer

from .gate import Gate, RunGate
from .gate.cache import Cache
from .gate.events import Event
from .offer import Offer
from .result import CodeResult, RunError

if TYPE_CHECKING:
    from callgate.program import Finding, Policy

__all__ = [
    "CodeRun", "Language", "Looks", "check_failure", "explain_death", "host_error", "left_under_way", "program_error",
    "waited_for",
]  # fmt: skip

_GIVEN: Final = frozenset({"ToolError", "tool_call", "tools"})
_HOST_KINDS: Final = frozenset({"CheckFailed", "LimitReached", "ProtocolError", "GuestDied", "SandboxCrashed"})
"""Kinds that the host gives; a program's own exception of that name is told apart from them."""
_TEXT_LIMIT: Final = 200_000
"""Characters of a message or traceback that the host keeps of what a guest says; the guest cuts well below."""
_NAME_LIMIT: Final = 256
"""Characters of the name of an exception, or of a tool, that the host keeps of what a guest says."""
_LONG: Final = 2 * 1024
"""Characters; it takes some milliseconds to look at a program of that length, and up to 20 at a hostile one."""
_KEPT_BYTES: Final = 200
"""Memory of what is kept of a program, for each character of its source: a graph's tree and closures."""

T = TypeVar("T")


class Looks:
    """What was found in the programs that were looked at last.

    Args:
        max_entries: how many of them are kept.
        max_bytes: of all that is kept, about. A program that takes an eighth of it alone is not kept.

    Attributes:
        turn: held by the one that looks; it belongs to one event loop.
    """

    def __init__(self, *, max_entries: int = 512, max_bytes: int = 64 * 1024 * 1024) -> None:
        self.kept: Cache[Hashable, Any] = Cache(max_entries=max_entries, max_bytes=max_bytes)
        self._most = max_bytes // 8
        self.turn = anyio.Lock()

    async def look(self, source: str, looking: Callable[[], T], key: Hashable = None) -> T:
        """What `looking` finds in `source`, or found there earlier.

        One program is looked at at a time, and others have their turn in between; a long one in a thread. Python gives
        others their turn between any two steps of a look but the parser's and the compiler's, and those two are
        bounded: see `callgate.program.syntax`.

        Args:
            source: the program.
            looking: looks at it.
            key: all that the outcome depends on; None: it is not kept.
        """
        found: T | None = None if key is None else self.kept.get(key)
        if found is not None:
            return found
        async with self.turn:
            await anyio.lowlevel.checkpoint()
            found = await anyio.to_thread.run_sync(looking) if len(source) > _LONG else looking()
        self._keep(key, found, source)
        return found

    def look_at_once(self, source: str, looking: Callable[[], T], key: Hashable) -> T:
        """The same, without waiting."""
        found: T | None = self.kept.get(key)
        if found is None:
            found = looking()
            self._keep(key, found, source)
        return found

    def _keep(self, key: Hashable, found: Any, source: str) -> None:
        size = _KEPT_BYTES * len(source)
        if key is not None and size <= self._most:
            self.kept.keep(key, found, size)


@dataclass(frozen=True, slots=True)
class Language:
    """What a program may look like: see `callgate.program.check_program`."""

    policy: Policy = "none"
    allowed_imports: tuple[str, ...] | None = None


@dataclass(slots=True)
class CodeRun:
    """One program to run: everything about it but the guest."""

    code: str
    gate: RunGate
    limits: Limits
    names: tuple[str, ...]
    """Of its inputs."""
    inputs: str
    """JSON text of an object: as the inputs were when the run was made."""
    on_event: Callable[[Event], None] | None = None
    findings: list[Finding] = field(default_factory=list)
    number: int = 1
    buffer: LineBuffer | None = None
    keeps: bool = False
    """Another program may follow on the same guest, and await what this one leaves in its variables."""

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
    ) -> CodeRun:
        """A run of `code`: see `Runtime.execute_code` for the arguments. Raises `ConfigurationError`."""
        if not isinstance(code, str):
            raise ConfigurationError(f"code is Python source text, not {type(code).__name__}")
        if inputs is not None and not isinstance(inputs, Mapping):
            raise ConfigurationError(f"inputs is a dict of variables and their values, not {type(inputs).__name__}")
        opened = gate.open(caller="code", limits=limits, allowed=tools, on_event=on_event)
        names: tuple[Any, ...] = tuple(inputs or ())
        for name in names:
            if not isinstance(name, str) or not name.isidentifier() or keyword.iskeyword(name):
                raise ConfigurationError(f"inputs are bound as variables: {name!r} is no name of one")
            if name in opened.offer.shapes or name in _GIVEN:
                raise ConfigurationError(
                    f"the input {name!r} would hide the tool, or the name, that programs are given"
                )
        return cls(code, opened, limits, names, _as_json(inputs) if inputs else "{}", on_event)

    @property
    def offer(self) -> Offer:
        """What it may call."""
        return self.gate.offer

    def check(self, language: Language, earlier: Collection[str] | None = None, *, session: bool) -> list[Finding]:
        """Look at the program.

        Args:
            language: what it may look like.
            earlier: in a session, names that earlier programs have bound, as far as can be told; no name is then
                reported as unknown. ``None`` for a program that stands alone, or is the first.
            session: whether it is a program of a session.
        """
        from callgate.program import check_program

        return check_program(
            self.code,
            self.offer.shapes,
            namespaces=self.offer.namespaces,
            resolve=self.offer.resolve,
            why_absent=self.offer.vocabulary.why_absent,
            inputs=self.names,
            policy=language.policy,
            allowed_imports=language.allowed_imports,
            max_source_bytes=self.limits.max_source_bytes,
            known_names=earlier or (),
            names_known=earlier is None,
            session=session,
        )


def _as_json(inputs: Mapping[str, Any]) -> str:
    members = []
    for name, value in inputs.items():
        try:
            members.append(f"{encode(name)}:{encode(value)}")
        except (TypeError, ValueError, RecursionError) as error:
            raise ConfigurationError(f"inputs must be JSON values; {name!r} is not: {error}") from None
    return f"{{{','.join(members)}}}"


def check_failure(findings: list[Finding], sandbox: str) -> CodeResult | None:
    """The result of a program whose findings stop it; ``None`` when it may run."""
    errors = [finding for finding in findings if finding.severity == "error"]
    if not errors:
        return None
    first = errors[0]
    more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
    error = RunError("CheckFailed", f"{first}{more}", first.line)
    if first.code == "too-large":
        error = RunError("LimitReached", f"limit reached: max_source_bytes: {first}", limit="max_source_bytes")
    return CodeResult(ok=False, error=error, findings=findings, sandbox=sandbox)


def left_under_way(tool: str, calls: int) -> str:
    """The note on calls of a failed program that a limit ended: the first one's tool, and their number."""
    what = f"a call of {tool[:256]!r}" if calls == 1 else f"{calls} calls, the first of {tool[:256]!r},"
    return f"the program had failed, and the limit wall_seconds ended {what} that it had left under way"


def waited_for(error: RunError, tool: str, count: int) -> RunError:
    """A limit that ended a program which was over and waited for its calls."""
    others = f" and {count - 1} more" if count > 1 else ""
    told = f"{error.message}: the program was over and waited for its call of {tool[:256]!r}{others}"
    return replace(error, message=f"{told}; await it with asyncio.wait_for(..., seconds)", tool=tool[:256])


def host_error(failure: Exception, wall: float | None = None) -> RunError:
    """Why the host ended a run; with the seconds that it took, where a limit on these ended it."""
    if isinstance(failure, LimitReached):
        if failure.limit == "wall_seconds" and wall is not None:
            failure = LimitReached("wall_seconds", failure.allowed, round(wall, 3))
        return _limit_error(failure)
    return RunError(type(failure).__name__, str(failure))


def program_error(told: dict[str, Any], limits: Limits, usage: Usage | None) -> RunError:
    """What the guest says of an error, believed no further than its form; errors that mean a limit are named as
    that."""

    def text(name: str, most: int = _TEXT_LIMIT) -> str:
        value = told.get(name)
        return value[:most].encode("utf-8", "replace").decode() if isinstance(value, str) else ""

    line = told.get("line")
    line = line if type(line) is int and 0 <= line < 2**31 else None
    kind = text("kind", _NAME_LIMIT) or "Exception"
    reached = None
    if kind == "MemoryError":
        reached = LimitReached("memory_bytes", limits.memory_bytes, (usage and usage.peak_memory_bytes) or None)
    elif kind == "TooManyThreads":
        reached = LimitReached("max_processes", limits.max_processes, limits.max_processes)
    elif told.get("errno") in (errno.ENOSPC, errno.EFBIG):
        reached = LimitReached("max_file_bytes", limits.max_file_bytes, limits.max_file_bytes)
    if reached is not None:
        return _limit_error(reached, line, text("traceback"))
    if kind in _HOST_KINDS:
        kind = f"program.{kind}"
    return RunError(kind, text("message"), line, text("traceback"), tool=text("tool", _NAME_LIMIT) or None)


def explain_death(ended: GuestExit, limits: Limits) -> RunError:
    """Why a guest died without a reply, as far as its exit status and the kernel's figures tell."""
    status, usage = ended.status, ended.usage
    if status is None:
        told = ended.reason or "the sandbox went away in the middle of the run; run the program again"
        return RunError("SandboxCrashed", told)
    cpu = usage.cpu_seconds if usage is not None else 0.0
    if (status == -signal.SIGXCPU and cpu >= limits.cpu_seconds * 0.5) or (
        status == -signal.SIGKILL and cpu >= limits.cpu_seconds
    ):
        # the kernel counts in ticks for the limit and exactly for us: on a busy machine the two differ by a lot
        return _limit_error(LimitReached("cpu_seconds", limits.cpu_seconds, round(max(cpu, limits.cpu_seconds), 3)))
    if status == OUT_OF_MEMORY:
        peak = (usage and usage.peak_memory_bytes) or None
        return _limit_error(LimitReached("memory_bytes", limits.memory_bytes, peak))
    if status < 0:
        name = signal.Signals(-status).name if -status in set(signal.Signals) else f"signal {-status}"
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
