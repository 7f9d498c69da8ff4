"""Runs one program on one guest: sends it, serves its calls, takes its prints, and builds its result.

1. A run ends with the first of these: the guest's reply; a limit; a fault in the guest's bytes; the guest's death;
   cancellation from outside. When `run` returns, no part of the run goes on.
2. **Calls begin in wire order.** A cancellation or the end that follows a call on the wire takes effect when that call
   has begun, if a worker is free for it. So the calls that begin do not depend on how bytes arrive.
3. **The reply ends a program, not its calls.** The program's calls with effects are made, also those that still wait
   for a worker; calls that only read are cancelled. An honest guest whose program ended well has no calls left: it has
   waited for them. The same holds for a guest that ended its own process.
4. **Every other end cancels the calls**: a limit of the host, a fault, the host itself. A call that had not begun, or
   that only reads, is recorded as cancelled; others have an unknown outcome.
5. `wall_seconds` holds to the very end. If a program waits for its calls, its value is known and goes into the result.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from functools import cached_property
from typing import Any

import anyio
import anyio.lowlevel

from callgate.errors import LimitReached, ProtocolError, SandboxCrashed, ToolError
from callgate.lazily import imported
from callgate.protocol.run import Called, Other, Withdrawn, error_reply, result_reply
from callgate.sandbox.backend import Allowance, Backend, Guest, GuestExit, Usage
from callgate.sandbox.pool import WarmPool
from callgate_guest.wire import INVALID_REQUEST

from .guest_reader import GuestReader, Job
from .result import CodeResult, RunError, RunUsage
from .run import CodeRun, explain_death, host_error, left_under_way, program_error, waited_for

__all__ = ["GuestRun", "in_guest"]

_LAST = 1 << 62
"""Above every call id of an honest guest."""
_CALLS_A_TURN = 500
"""Calls that are recorded as cancelled before other tasks get a turn: a few milliseconds."""
_UNSENT_BYTES = 32 << 20
"""Bytes of replies that the guest has not read, before the host serves no further call."""
_MAY_CALL = "await"
"""A program with this word probably makes calls."""
_MOMENT_MILLISECONDS = 250
_HUNG_UP = RunError(
    "GuestDied", "the program closed its wire to the host: close no file descriptor that it did not open itself"
)


class GuestRun(GuestReader):
    """One run on an idle guest. The caller ends the guest, or uses it again.

    Args:
        run: the program. `wall_seconds` holds here, its other limits in the wire, the gate and the kernel.
        guest: the guest.
    """

    def __init__(self, run: CodeRun, guest: Guest) -> None:
        super().__init__(run, guest)
        self._gate = run.gate
        self._limits = run.limits
        self._is_sent = self._is_over = False
        self._hung_up = False
        """Whether the guest runs on, and has closed its wire."""
        self._usage: Usage | None = None
        self._wall_seconds = 0.0
        self._sent_bytes = 0
        self._unfinished: list[Job] = []
        self._unsent_bytes = 0
        self._sent: anyio.Event | None = None

    async def run(self) -> None:
        """Send the program and serve it to its end. Raises only cancellation."""
        run = self._run
        self._gate.begin()
        try:
            size = len(run.code.encode("utf-8", "surrogatepass"))
            if size > self._limits.max_source_bytes:
                raise LimitReached("max_source_bytes", self._limits.max_source_bytes, size)
            request = self._execute()
        except LimitReached as reached:
            self.fail(reached)
        else:
            self._is_sent = True
            await self._to_the_end(self._sent_at_once(request))
            self._hung_up = self.died and await _outlives_its_wire(self._guest)
            self._usage = self._guest.usage()
        self._wall_seconds, self._is_over = self._gate.seconds(), True

    def _execute(self) -> bytes:
        """The request that starts the program. Raises `LimitReached`."""
        run = self._run
        answers = run.given is not None
        return self._wire.execute(run.code, run.offer.wire, run.inputs, keeps=run.keeps, answers=answers)

    @property
    def sound(self) -> bool:
        """Whether the guest may be used again."""
        error = self._error
        is_good = self.ended is not None and (error is None or error.limit is None)
        return not self._is_sent or (self._is_over and self.failure is None and is_good)

    @property
    def _error(self) -> RunError | None:
        ended = self.ended
        return None if ended is None or ended.error is None else program_error(ended.error, self._limits, self._usage)

    def result(self, sandbox: str, exit: GuestExit | None = None) -> CodeResult:
        """The result of the run.

        Args:
            sandbox: description of the sandbox.
            exit: how the guest ended, if it was ended.
        """
        error, usage, unfinished = self._error, self._usage, self._left_unfinished()
        if self.failure is not None:
            error = host_error(self.failure, self._wall_seconds)
            if unfinished is not None:
                error = waited_for(error, *unfinished)
        if exit is not None:
            usage = exit.usage or usage
            if error is None:
                error = _HUNG_UP if self._hung_up else explain_death(exit, self._limits)
        came = self.ended or (self.ending if error is not None and error.limit else None)
        notes = [] if self.ended is None else _notes(self.ended.notes, self._limits.max_tool_calls)
        if self.failure is None and unfinished is not None:
            notes.append(left_under_way(*unfinished))
        notes += self._run.products.notes
        return CodeResult(
            ok=error is None,
            value=came.value if came else None,
            value_repr=came.value_repr if came else None,
            logs=self._wire.logs,
            error=error,
            notes=notes,
            findings=self._run.findings,
            calls=self._gate.records,
            artifacts=self._run.products.artifacts,
            sandbox=sandbox,
            usage=RunUsage(
                wall_seconds=self._wall_seconds,
                cpu_seconds=usage.cpu_seconds if usage else None,
                peak_memory_bytes=usage.peak_memory_bytes or None if usage else None,
                tool_calls=len(self._gate.records),
                sent_bytes=self._sent_bytes,
                received_bytes=self.received_bytes,
            ),
            truncated=("logs",) if error is not None and error.limit == "max_log_bytes" else (),
            source=self._run.kept_source,
            inputs=self._run.kept_inputs,
            prints=self.marks.all,
            limits=self._limits,
            final_answer=self._run.answer if error is None else None,
        )

    def _left_unfinished(self) -> tuple[str, int] | None:
        """If a limit ended a program that waited for calls: the first call's tool, and the number of calls."""
        if not self._unfinished:
            return None
        left = [call for call in self._unfinished if isinstance(call, Called)]
        first = min(left, key=lambda call: call.id if type(call.id) is int else _LAST, default=None)
        over = self.ended is not None or (self.ending is not None and isinstance(self.failure, LimitReached))
        return (first.method, len(left)) if over and first is not None else None

    @cached_property
    def _batch_turn(self) -> anyio.Lock:
        return anyio.Lock()

    def _sent_at_once(self, request: bytes) -> bytes | None:
        """Send the program before anything else is made for the run. Returns what is left for `send`."""
        send: Callable[[bytes], bool] | None = getattr(self._guest, "send_at_once", None)
        if send is None:
            return request
        try:
            rest = None if send(request) else b""
        except SandboxCrashed:
            return request  # `send` raises it again
        self._sent_bytes += len(request)
        return rest

    async def _to_the_end(self, request: bytes | None) -> None:
        async def main() -> None:
            try:
                await self._through(request)
            finally:
                if waiting := self.clear():
                    if self.stopped:
                        self._unfinished += waiting
                    with anyio.CancelScope(shield=True):  # short: it only gives turns to other tasks
                        await self._record_cancelled(waiting)

        is_late = await self.drive(main, self._limits.wall_seconds, opens_tasks=False)
        if self.ended is None:
            self.print_unread()
        if is_late and (self.ended is None or self.ended.error is None):
            self.fail(LimitReached("wall_seconds", self._limits.wall_seconds))

    async def _through(self, request: bytes | None) -> None:
        try:
            if request is not None:
                await self._send(request)
            if _MAY_CALL in self._run.code:  # the guest works meanwhile
                await self.open_tasks()
                self.hire()
            await self.read()
            if self.ended is not None and self.jobs:
                await self.begun()
                self.cancel_begun(self._only_reads)
                await self.done()
        except SandboxCrashed:
            self.died = True
        except (LimitReached, ProtocolError) as error:
            await self.begun()
            self.fail(error)
        if self.died:
            await self.begun()

    async def begun(self) -> None:
        """Return when every call that has a worker has begun and passed the gate's entrance."""
        await super().begun()
        await self._gate.begun()

    def _only_reads(self, call: Job) -> bool:
        return isinstance(call, Called) and self._gate.only_reads(call.method)

    async def _record_cancelled(self, calls: Iterable[Job]) -> None:
        """Record calls that never begin."""
        try:
            for number, call in enumerate(calls, 1):
                if number % _CALLS_A_TURN == 0:
                    await anyio.lowlevel.checkpoint()
                if not isinstance(call, Other):
                    await self._gate.record_cancelled(call.method, call.arguments, call.line)
        except LimitReached as error:
            self.fail(error)

    def _is_wanted(self, call: Called | Other) -> bool:
        return isinstance(call, Other) or call.id not in self._cancelled

    async def _serve(self, call: Job) -> None:
        over = self.failure is not None or (self.ended is not None and self._only_reads(call))
        if over or isinstance(call, Withdrawn) or (self._cancelled and not self._is_wanted(call)):
            await self._record_cancelled([call])
            if self.failure is not None:
                self.end(self.failure)
            return
        try:
            while self._unsent_bytes > _UNSENT_BYTES:  # the guest must read its replies first
                if self._sent is None or self._sent.is_set():
                    self._sent = anyio.Event()
                await self._sent.wait()
            if isinstance(call, Other):
                await self._serve_other(call)
                return
            try:
                data = result_reply(call.id, await self._made(call))
            except ToolError as error:
                data = error_reply(call.id, error)
            if self.ended is None:
                await self._reply(call, data)
        except LimitReached as error:
            self.end(error)
        except SandboxCrashed:
            return  # the reader sees the crash, too, and finds the reason
        except BaseException:
            if self.stopped:
                self._unfinished.append(call)
            raise

    def _made(self, call: Called) -> Coroutine[Any, Any, str]:
        return self._gate.call(call.method, call.arguments, line=call.line)

    def _reply(self, call: Called, data: bytes) -> Awaitable[None]:
        return self._send(data)

    async def _serve_other(self, call: Other) -> None:
        await anyio.lowlevel.checkpoint()  # slow, and thousands of them may come at once
        # few runs need this lane, and its import is slow
        lane = await imported("callgate.runtime.jsonrpc_lane")
        if isinstance(call.message, list):
            async with self._batch_turn:
                answer = await lane.answer(call.message, self._gate)
        else:
            answer = await lane.answer(call.message, self._gate)
        if answer.stop is not None:
            self.end(answer.stop)
            return
        if answer.reply is not None and self.ended is None:
            await self._send(json.dumps(answer.reply, allow_nan=False).encode() + b"\n")
        if answer.fault is not None:
            self.end(ProtocolError(f"the guest sent an invalid request ({INVALID_REQUEST}): {answer.fault}"))

    async def _send(self, data: bytes) -> None:
        self._sent_bytes += len(data)
        self._unsent_bytes += len(data)
        try:
            await self._guest.send(data)
        finally:
            self._unsent_bytes -= len(data)
            if self._sent is not None:
                self._sent.set()


async def in_guest(
    run: CodeRun, backend: Backend, pool: WarmPool, driven: Callable[[CodeRun, Guest], GuestRun] = GuestRun
) -> CodeResult:
    """Run a program in a guest of its own, by what `driven` makes. Raises `SandboxError` if there is none."""
    sandbox, exit = backend.description, None
    guest = await pool.checkout(Allowance.of(run.limits), run.files)
    guest_run = driven(run, guest)
    try:
        with pool.holding():
            await guest_run.run()
        await run.products.collect(guest, over=True)
    finally:
        if guest_run.sound:
            pool.checkin(guest)
        else:
            with anyio.CancelScope(shield=True):
                exit = await pool.end(guest)
    return guest_run.result(sandbox, exit)


async def _outlives_its_wire(guest: Guest) -> bool:
    """Whether a guest that has closed its wire is still alive after a moment."""
    for _ in range(_MOMENT_MILLISECONDS):
        if not guest.alive:
            return False
        await anyio.sleep(0.001)
    return True


def _notes(counts: dict[str, int], calls: int) -> list[str]:
    """Notes on calls and tasks that were left when the program ended.

    Args:
        counts: the guest's counts.
        calls: upper bound on the counts: the calls that a program may make.
    """
    notes = []
    if dropped := min(counts.get("dropped", 0), calls):
        one = dropped == 1
        what = "call was never awaited; its result was" if one else "calls were never awaited; their results were"
        notes.append(f"{dropped} {what} dropped")
    if failed := min(counts.get("failed", 0), calls):
        what = "call that a variable holds has" if failed == 1 else "calls that variables hold have"
        notes.append(f"{failed} {what} failed; awaiting {'it' if failed == 1 else 'one'} raises its error")
    if waiting := counts.get("waiting", 0):
        tasks, were = ("task was", "it was") if waiting == 1 else ("tasks were", "they were")
        notes.append(f"{waiting} {tasks} still waiting when the program ended; {were} cancelled")
    return notes
