"""Calls that pause to ask (2026-07-28): the call is answered with its questions, the client puts them to its user and
makes the call again with the answers, and the run, which has waited, goes on. Knows who attends a run, if anybody.

1. A run lives in the server's task group, not in the request: a request attends it until it is over or has questions.
2. It is found again by a state that cannot be guessed, and only by a call of the same tool with the same arguments.
3. A run has one task, one scope and one deadline. While nobody attends it the deadline stands, as far away as an answer
   may take; its `wall_seconds` go on meanwhile. A run whose client gives up the request that attends it is cancelled.
4. So many runs wait at a time; further questions are a no, and the run goes on with that.
5. An answer counts only for a question that was sent. One that comes too late is ignored, one to a question that was
   never put is refused.
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

from .asking import NOT_ANSWERED
from .notes import Notes, Teller

__all__ = ["MAX_PAUSED", "Paused", "Pausing"]

MAX_PAUSED = 16
"""Runs of one server that wait for answers at the same time: each may hold one of the runtime's guests (64)."""
TOO_MANY = "it needs the user's approval, and too many calls wait for answers here already; try again later"
_KEY = "approval_"
_GATHERING_SECONDS = 0.02
"""Calls made together ask together: so long the first question waits for others."""

Work = Callable[["Pausing", Notes], Awaitable[CallToolResult]]


@dataclass(slots=True)
class _Question:
    request: ElicitRequestFormParams
    answered: anyio.Event = field(default_factory=anyio.Event)
    answer: ElicitResult | str = NOT_ANSWERED
    sent: bool = False

    def settle(self, answer: ElicitResult | str) -> None:
        self.answer = answer
        self.answered.set()


class Pausing:
    """One run that may pause."""

    def __init__(self, call: str, seconds: float) -> None:
        self.call = call
        self.state = secrets.token_urlsafe(24)
        self.notes = Notes()
        self.scope = anyio.CancelScope()
        self.result: CallToolResult | None = None
        self._over = False
        self.attended = False
        self.questions: dict[str, _Question] = {}
        self._seconds = seconds
        self._put = 0
        self._news = anyio.Event()

    def over(self) -> bool:
        """Whether it has come to its end."""
        return self._over

    def attend(self) -> None:
        """Somebody waits for it: its deadline is off."""
        self.attended = True
        self.scope.deadline = math.inf

    def leave(self) -> None:
        """Nobody does, any more: it has as long as an answer may take."""
        self.attended = False
        self.scope.deadline = anyio.current_time() + self._seconds

    def end(self) -> None:
        """It has come to its end."""
        self._over = True
        self.notes.finish()
        self._news.set()

    async def wait_for_news(self) -> None:
        """Return when the run is over or has a question that no client has seen."""
        while not self.over() and not self.unsent():
            self._news = anyio.Event()
            await self._news.wait()

    async def ask(self, question: ElicitRequestFormParams) -> ElicitResult | str:
        """Put a question to whoever attends the run."""
        self._put += 1
        key = _key(self._put)
        asked = self.questions[key] = _Question(question)
        self._news.set()
        try:
            with anyio.move_on_after(self._seconds):
                await asked.answered.wait()
        finally:
            self.questions.pop(key, None)
        return asked.answer

    def take(self, answers: CallToolRequestParams) -> None:
        """What the user said; a question that was sent and is still open will be asked again.

        Raises:
            MCPError: an answer is to a question that was never put. None of them counts then.
        """
        given = answers.input_responses or {}
        sent = {key: asked for key, asked in self.questions.items() if asked.sent}
        for key in given:
            if key not in sent and (key in self.questions or not self._was_put(key)):
                raise MCPError(INVALID_PARAMS, f"there was no question {key[:60]!r}: answer those that were asked")
        for key, asked in sent.items():
            answer = given.get(key)
            if isinstance(answer, ElicitResult):
                asked.settle(answer)
            else:
                asked.sent = False

    def _was_put(self, key: str) -> bool:
        number = key.removeprefix(_KEY)
        return number.isdecimal() and key == _key(int(number[:9])) and 0 < int(number[:9]) <= self._put

    def unsent(self) -> dict[str, _Question]:
        """Questions that no client has seen."""
        return {key: asked for key, asked in self.questions.items() if not asked.sent and not asked.answered.is_set()}


class Paused:
    """The runs of one server that may pause: those going on, and those that have ended while nobody attended them.

    Args:
        tasks: where they live.
        seconds: how long nobody may attend one.
        most: so many that nobody attends, at the same time.
    """

    def __init__(self, tasks: anyio.abc.TaskGroup, seconds: float, most: int = MAX_PAUSED) -> None:
        self._tasks = tasks
        self._seconds = seconds
        self._most = most
        self._runs: dict[str, Pausing] = {}

    async def begin(
        self, params: CallToolRequestParams, teller: Teller, work: Work
    ) -> CallToolResult | InputRequiredResult:
        """Begin a call, and attend it."""
        run = Pausing(_call(params), self._seconds)
        self._runs[run.state] = run
        run.attend()
        self._tasks.start_soon(self._live, run, work)
        return await self._attend(run, teller)

    async def go_on(self, params: CallToolRequestParams, teller: Teller) -> CallToolResult | InputRequiredResult:
        """Go on with a call, with the answers.

        Raises:
            MCPError: no such call waits for answers, or not for these.
        """
        run = self._runs.get(params.request_state or "")
        if run is None or run.call != _call(params) or run.attended:
            raise MCPError(
                INVALID_PARAMS, "no call waits for these answers: it has ended, or was made with other arguments"
            )
        run.take(params)
        run.attend()
        return await self._attend(run, teller)

    async def _live(self, run: Pausing, work: Work) -> None:
        try:
            with run.scope:
                run.result = await work(run, run.notes)
                run.end()
                await anyio.sleep_forever()  # until somebody has taken the result, or the deadline comes
        finally:
            run.end()
            self._runs.pop(run.state, None)

    async def _attend(self, run: Pausing, teller: Teller) -> CallToolResult | InputRequiredResult:
        questions: dict[str, _Question] = {}
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(run.notes.deliver, teller)
                while not run.over() and not questions:
                    questions = await self._questions(run)
                run.notes.pause()
        except BaseException:
            questions = {}
            raise
        finally:
            if not questions:
                run.attended = False
                run.scope.cancel()
                self._runs.pop(run.state, None)
        if not questions:
            if run.result is None:
                raise MCPError(CONNECTION_CLOSED, "the call was cancelled")
            return run.result
        for asked in questions.values():
            asked.sent = True
        run.leave()
        requests: dict[str, InputRequest] = {
            key: ElicitRequest(params=asked.request) for key, asked in questions.items()
        }
        return InputRequiredResult(input_requests=requests, request_state=run.state)

    async def _questions(self, run: Pausing) -> dict[str, _Question]:
        """What the run asks next; nothing where it is over, or where too many wait for answers already."""
        await run.wait_for_news()
        if run.over():
            return {}
        await anyio.sleep(_GATHERING_SECONDS)
        questions = {} if run.over() else run.unsent()
        if questions and sum(not each.attended for each in self._runs.values()) >= self._most:
            for asked in questions.values():
                asked.settle(TOO_MANY)
            return {}
        return questions


def _key(number: int) -> str:
    return f"{_KEY}{number}"


def _call(params: CallToolRequestParams) -> str:
    return f"{params.name}\n{canonical_json(params.arguments or {})}"
