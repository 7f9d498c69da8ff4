"""Calls that pause to ask (2026-07-28). The server answers the call with its questions; the client puts them to its
user and makes the call again with the answers; the run, which waited, goes on. Knows which request attends a run, if
any.

1. A run lives in the server's task group, not in the request: a request attends the run until the run is over or has
   questions.
2. A call finds its run again by a state that cannot be guessed, and only with the same tool and the same arguments.
3. A run has one task, one scope and one deadline. The deadline holds while no request attends the run: it is the time
   that an answer may take. The run's `wall_seconds` keep counting. A client that cancels the attending request cancels
   the run.
4. At most `MAX_PAUSED` runs wait at a time; a further question is answered with no, and its run goes on.
5. An answer counts only for a question that was sent. A late answer is ignored; an answer to a question that was never
   sent is refused.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import anyio
import anyio.abc
from mcp.shared.exceptions import MCPError
from mcp_types import (
    CONNECTION_CLOSED,
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    InputRequest,
    InputRequiredResult,
)

from callgate.tools.encoding import canonical_json

from .asking import NOT_ANSWERED, Ask
from .notes import Notes, Sender

__all__ = ["MAX_PAUSED", "Paused"]

MAX_PAUSED = 16
"""Runs of one server that may wait for answers at the same time; each may hold one of the runtime's guests (64)."""
TOO_MANY = "it needs the user's approval, and too many calls wait for answers here already; try again later"
_GATHERING_SECONDS = 0.02
"""How long the first question waits for others: calls that are made together ask together."""

Work = Callable[[Ask, Notes], Awaitable[CallToolResult]]


@dataclass(slots=True)
class _Question:
    request: ElicitRequestFormParams
    answered: anyio.Event = field(default_factory=anyio.Event)
    answer: ElicitResult | str = NOT_ANSWERED
    waits: bool = True
    """Whether the question still has to be sent to a client."""

    def settle(self, answer: ElicitResult | str) -> None:
        self.answer, self.waits = answer, False
        self.answered.set()


class _Run:
    """One run that may pause."""

    def __init__(self, call: str, seconds: float, notes: Notes) -> None:
        self.call = call
        self.state = secrets.token_urlsafe(24)
        self.notes = notes
        self.scope = anyio.CancelScope()
        self.result: CallToolResult | None = None
        self.is_over = False
        self.attended = False
        self._questions: dict[str, _Question] = {}
        self._sent: set[str] = set()
        self._asked = 0
        self._seconds = seconds
        self._news = anyio.Event()

    def end(self) -> None:
        """Mark the run as over, and wake the request that attends it."""
        self.is_over = True
        self.notes.stop()
        self._news.set()

    async def ask(self, question: ElicitRequestFormParams) -> ElicitResult | str:
        """Put a question to the client that attends the run."""
        self._asked += 1
        key = f"approval_{self._asked}"
        asked = self._questions[key] = _Question(question)
        self._news.set()
        try:
            with anyio.move_on_after(self._seconds):
                await asked.answered.wait()
        finally:
            self._questions.pop(key, None)
        return asked.answer

    def take(self, answers: CallToolRequestParams) -> None:
        """Take the user's answers. An open question without an answer will be sent again.

        Raises:
            MCPError: an answer is to a question that was never sent; then none of the answers counts.
        """
        given = answers.input_responses or {}
        for key in given:
            if key not in self._sent:
                raise MCPError(INVALID_PARAMS, f"there was no question {key[:60]!r}: answer those that were asked")
        for key, asked in self._questions.items():
            answer = given.get(key)
            if isinstance(answer, ElicitResult):
                asked.settle(answer)
            else:
                asked.waits = True

    async def questions(self) -> dict[str, _Question]:
        """Wait for questions that have to be sent; empty when the run is over."""
        while not self.is_over and not self._waiting():
            self._news = anyio.Event()
            await self._news.wait()
        if not self.is_over:
            await anyio.sleep(_GATHERING_SECONDS)
        return {} if self.is_over else self._waiting()

    def send(self, questions: dict[str, _Question]) -> dict[str, InputRequest]:
        """These questions as the answer of the attending request, which then leaves the run."""
        for asked in questions.values():
            asked.waits = False
        self._sent |= questions.keys()
        self.attended = False
        self.scope.deadline = anyio.current_time() + self._seconds
        return {key: ElicitRequest(params=asked.request) for key, asked in questions.items()}

    def _waiting(self) -> dict[str, _Question]:
        return {key: asked for key, asked in self._questions.items() if asked.waits}


class Paused:
    """The runs of one server that may pause: those going on, and those that ended while no request attended them.

    Args:
        tasks: the runs live here.
        seconds: how long a run may be without a request that attends it.
    """

    def __init__(self, tasks: anyio.abc.TaskGroup, seconds: float) -> None:
        self._tasks = tasks
        self._seconds = seconds
        self._runs: dict[str, _Run] = {}

    async def begin(
        self, params: CallToolRequestParams, sender: Sender, work: Work, notes: Notes
    ) -> CallToolResult | InputRequiredResult:
        """Begin a call and attend its run."""
        run = _Run(_call(params), self._seconds, notes)
        self._runs[run.state] = run
        self._tasks.start_soon(self._live, run, work)
        return await self._attend(run, sender)

    async def go_on(self, params: CallToolRequestParams, sender: Sender) -> CallToolResult | InputRequiredResult:
        """Go on with a call that waited for these answers.

        Raises:
            MCPError: no such call waits for answers, or not for these.
        """
        run = self._runs.get(params.request_state or "")
        if run is None or run.call != _call(params) or run.attended:
            raise MCPError(
                INVALID_PARAMS, "no call waits for these answers: it has ended, or was made with other arguments"
            )
        run.take(params)
        return await self._attend(run, sender)

    async def _live(self, run: _Run, work: Work) -> None:
        try:
            with run.scope:
                run.result = await work(run.ask, run.notes)
                run.end()
                await anyio.sleep_forever()  # until a request has taken the result, or the deadline comes
        finally:
            run.end()
            self._runs.pop(run.state, None)

    async def _attend(self, run: _Run, sender: Sender) -> CallToolResult | InputRequiredResult:
        run.attended, run.scope.deadline = True, math.inf
        pauses = False
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(run.notes.deliver, sender)
                questions = await run.questions()
                while questions and sum(not each.attended for each in self._runs.values()) >= MAX_PAUSED:
                    for asked in questions.values():
                        asked.settle(TOO_MANY)
                    questions = await run.questions()
                run.notes.stop()
            pauses = bool(questions)
        finally:
            if not pauses:  # the run is over, or the request was cancelled
                run.scope.cancel()
                self._runs.pop(run.state, None)
        if pauses:
            return InputRequiredResult(input_requests=run.send(questions), request_state=run.state)
        if run.result is None:
            raise MCPError(CONNECTION_CLOSED, "the call was cancelled")
        return run.result


def _call(params: CallToolRequestParams) -> str:
    return f"{params.name}\n{canonical_json(params.arguments or {})}"
