"""From a program to a `CodeResult`: check it, get a guest, drive it, and put together what came of it.

Used for single runs and for the programs of a session; who owns the guest is the caller's affair.
"""

from __future__ import annotations

import errno
import keyword
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import anyio

from callgate.errors import CallgateError, ConfigurationError, LimitReached
from callgate.limits import Limits
from callgate.protocol.run import RunWire, encode
from callgate.sandbox.backend import Guest, GuestExit, Usage
from callgate_guest.wire import LineBuffer

from .gate import RunGate
from .gate.events import Event
from .offer import Catalogue
from .result import CodeResult, RunError, RunUsage
from .run import GuestDrive, explain_death, limit_error

if TYPE_CHECKING:
    from callgate.program import Finding, Policy

__all__ = ["CodeRun", "Language", "Ran", "check_failure", "host_error", "left_under_way", "program_error"]

_HOST_KINDS = frozenset({"CheckFailed", "LimitReached", "ProtocolError", "GuestDied", "SandboxCrashed"})
"""Kinds that the host gives; a program's own exception of that name is told apart from them."""
_MOMENT_MILLISECONDS = 50
HUNG_UP = RunError(
    "GuestDied", "the program closed its wire to the host: close no file descriptor that it did not open itself"
)
_TEXT_LIMIT = 200_000
"""Characters of a message or traceback that the host keeps of what a guest says; the guest cuts well below."""
_NAME_LIMIT = 256
"""Characters of the name of an exception, or of a tool, that the host keeps of what a guest says."""


@dataclass(frozen=True, slots=True)
class Language:
    """What a program may look like: see `callgate.program.check_program`."""

    policy: Policy = "none"
    allowed_imports: tuple[str, ...] | None = None


def check_failure(findings: list[Finding], sandbox: str) -> CodeResult | None:
    """The result of a program whose findings stop it; ``None`` when it may run."""
    errors = [finding for finding in findings if finding.severity == "error"]
    if not errors:
        return None
    first = errors[0]
    if first.code == "too-large":
        error = RunError("LimitReached", f"limit reached: max_source_bytes: {first}", limit="max_source_bytes")
        return CodeResult(ok=False, error=error, findings=findings, sandbox=sandbox)
    more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
    error = RunError("CheckFailed", f"{first}{more}", first.line)
    return CodeResult(ok=False, error=error, findings=findings, sandbox=sandbox)


@dataclass(slots=True)
class CodeRun:
    """One program to run: everything about it but the guest."""

    code: str
    gate: RunGate
    catalogue: Catalogue
    limits: Limits
    inputs: dict[str, Any] = field(default_factory=dict)
    on_event: Callable[[Event], None] | None = None
    findings: list[Finding] = field(default_factory=list)
    number: int = 1
    buffer: LineBuffer | None = None
    keeps: bool = False
    """Another program may follow on the same guest, and await what this one leaves in its variables."""

    def check(
        self, language: Language, *, earlier: Collection[str] | None = None, session: bool = False
    ) -> list[Finding]:
        """Look at the program; the findings stay with the run.

        Args:
            language: what it may look like.
            earlier: in a session, names that earlier programs have bound, as far as can be told; no name is then
                reported as unknown. ``None`` for a program that stands alone, or is the first.
            session: whether it is a program of a session.
        """
        from callgate.program import check_program

        self.findings = check_program(
            self.code,
            self.catalogue.shapes,
            namespaces=self.catalogue.namespaces,
            resolve=self.catalogue.resolve,
            why_absent=self.catalogue.offer.vocabulary.why_absent,
            inputs=self.inputs,
            policy=language.policy,
            allowed_imports=language.allowed_imports,
            max_source_bytes=self.limits.max_source_bytes,
            known_names=earlier or (),
            names_known=earlier is None,
            session=session,
        )
        return self.findings

    async def on(self, guest: Guest) -> Ran:
        """Run on a guest with nothing running on it; who ends the guest afterwards is the caller's affair.

        Raises:
            ConfigurationError: an input is no JSON. Nothing was sent.
        """
        wire = RunWire(self.limits, self.number, self.buffer)
        ran = Ran(self, wire, GuestDrive(guest, wire, self.gate, self.limits, self.on_event))
        started = time.perf_counter()
        try:
            request = self._request(wire)
        except LimitReached as reached:
            ran.failure = reached
        else:
            ran.is_sent = True
            await ran.drive.run(request)
            ran.hung_up = ran.drive.died and await _outlives_its_wire(guest)
            ran.usage = guest.usage()
            ran.failure = ran.drive.failure
        ran.wall_seconds = time.perf_counter() - started
        return ran

    def encoded_inputs(self) -> str:
        """The inputs as JSON text. Raises `ConfigurationError` where they are none, or cannot be variables."""
        if not self.inputs:
            return "{}"
        self._check_names()
        try:
            return encode(self.inputs)
        except (TypeError, ValueError, RecursionError) as error:
            raise self._no_json(error) from None

    def _request(self, wire: RunWire) -> bytes:
        self._check_names()
        size = len(self.code.encode("utf-8", "surrogatepass"))
        if size > self.limits.max_source_bytes:
            raise LimitReached("max_source_bytes", self.limits.max_source_bytes, size)
        try:
            return wire.execute(self.code, self.catalogue.wire, self.inputs, keeps=self.keeps)
        except (TypeError, ValueError, RecursionError) as error:
            raise self._no_json(error) from None

    def _check_names(self) -> None:
        names: list[Any] = list(self.inputs)
        for name in names:
            if not isinstance(name, str) or not name.isidentifier() or keyword.iskeyword(name):
                raise ConfigurationError(f"inputs are bound as variables: {name!r} is no name of one")

    def _no_json(self, error: Exception) -> ConfigurationError:
        bad = next((name for name, value in self.inputs.items() if not _is_json(value)), "?")
        return ConfigurationError(f"inputs must be JSON values; {bad!r} is not: {error}")


@dataclass(slots=True)
class Ran:
    """A run that is over, and what it came to."""

    run: CodeRun
    wire: RunWire
    drive: GuestDrive
    usage: Usage | None = None
    failure: CallgateError | None = None
    """Why the host ended it."""
    is_sent: bool = False
    hung_up: bool = False
    """The guest is there, and has closed its wire."""
    wall_seconds: float = 0.0

    @property
    def sound(self) -> bool:
        """Whether the guest may be used again."""
        error = self._told
        is_good = self.drive.ended is not None and (error is None or error.limit is None)
        return not self.is_sent or (self.failure is None and is_good)

    @property
    def _told(self) -> RunError | None:
        ended = self.drive.ended
        return None if ended is None or ended.error is None else program_error(ended.error, self.run.limits, self.usage)

    def result(self, sandbox: str, exit: GuestExit | None = None) -> CodeResult:
        """What came of it.

        Args:
            sandbox: what confined it.
            exit: how the guest ended, where it was ended.
        """
        run, drive = self.run, self.drive
        error, usage = self._told, self.usage
        if self.failure is not None:
            error = host_error(self.failure, self.wall_seconds)
            if drive.unfinished is not None:
                error = _naming(error, *drive.unfinished)
        if exit is not None:
            usage = exit.usage or usage
            if error is None:
                error = HUNG_UP if self.hung_up else explain_death(exit, run.limits)
        came = drive.ended or (drive.ending if error is not None and error.limit else None)
        return CodeResult(
            ok=error is None,
            value=came.value if came else None,
            value_repr=came.value_repr if came else None,
            logs=self.wire.logs,
            error=error,
            notes=notes_of(drive, run.limits.max_tool_calls),
            findings=run.findings,
            calls=run.gate.records,
            sandbox=sandbox,
            usage=RunUsage(
                wall_seconds=self.wall_seconds,
                cpu_seconds=usage.cpu_seconds if usage else None,
                peak_memory_bytes=usage.peak_memory_bytes or None if usage else None,
                tool_calls=len(run.gate.records),
                sent_bytes=drive.sent_bytes,
                received_bytes=drive.received_bytes,
            ),
            truncated=("logs",) if error is not None and error.limit == "max_log_bytes" else (),
        )


async def _outlives_its_wire(guest: Guest) -> bool:
    """Whether a guest that has closed its wire is still there; one that is ending gets a moment to end."""
    for _ in range(_MOMENT_MILLISECONDS):
        if not guest.alive:
            return False
        await anyio.sleep(0.001)
    return True


def _is_json(value: Any) -> bool:
    try:
        encode(value)
    except (TypeError, ValueError, RecursionError):
        return False
    return True


def notes_of(drive: GuestDrive, calls: int) -> list[str]:
    """What there is to say of how the program ended, besides its error.

    Args:
        drive: the run.
        calls: how many a program may make; a guest does not say of more.
    """
    told = {} if drive.ended is None else drive.ended.notes
    notes = []
    if dropped := min(told.get("dropped", 0), calls):
        what = (
            "call was never awaited; its result was" if dropped == 1 else "calls were never awaited; their results were"
        )
        notes.append(f"{dropped} {what} dropped")
    if failed := min(told.get("failed", 0), calls):
        what = "call that a variable holds has" if failed == 1 else "calls that variables hold have"
        notes.append(f"{failed} {what} failed; awaiting {'it' if failed == 1 else 'one'} raises its error")
    if waiting := told.get("waiting", 0):
        what = (
            "task was still waiting when the program ended; it was"
            if waiting == 1
            else ("tasks were still waiting when the program ended; they were")
        )
        notes.append(f"{waiting} {what} cancelled")
    if drive.failure is None and drive.unfinished is not None:
        notes.append(left_under_way(*drive.unfinished))
    return notes


def left_under_way(tool: str, calls: int) -> str:
    """The note on calls of a failed program that a limit ended: the first one's tool, and their number."""
    what = f"a call of {tool[:256]!r}" if calls == 1 else f"{calls} calls, the first of {tool[:256]!r},"
    return f"the program had failed, and the limit wall_seconds ended {what} that it had left under way"


def _naming(error: RunError, tool: str, count: int) -> RunError:
    """A limit that ended a program which was over and waited for its calls."""
    others = f" and {count - 1} more" if count > 1 else ""
    told = f"{error.message}: the program was over and waited for its call of {tool[:256]!r}{others}"
    return replace(error, message=f"{told}; await it with asyncio.wait_for(..., seconds)", tool=tool[:256])


def host_error(failure: Exception, wall: float) -> RunError:
    """Why the host ended a run, after so many seconds."""
    if isinstance(failure, LimitReached):
        if failure.limit == "wall_seconds":
            failure = LimitReached("wall_seconds", failure.allowed, round(wall, 3))
        return limit_error(failure)
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
    place = {"line": line, "traceback": text("traceback")}
    if kind == "MemoryError":
        peak = usage.peak_memory_bytes or None if usage else None
        return limit_error(LimitReached("memory_bytes", limits.memory_bytes, peak), place)
    if kind == "TooManyThreads":
        return limit_error(LimitReached("max_processes", limits.max_processes, limits.max_processes), place)
    if told.get("errno") in (errno.ENOSPC, errno.EFBIG):
        return limit_error(LimitReached("max_file_bytes", limits.max_file_bytes, limits.max_file_bytes), place)
    if kind in _HOST_KINDS:
        kind = f"program.{kind}"
    return RunError(kind, text("message"), line, text("traceback"), tool=text("tool", _NAME_LIMIT) or None)
