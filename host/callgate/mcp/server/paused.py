"""Calls that pause to ask (2026-07-28): the call is answered with its questions, the client puts them to its user and
makes the call again with the answers, and the run, which has waited, goes on. Knows who attends a run, if anybody.

1. A run lives in the server's task group, not in the request: a request attends it until it is over or has questions.
2. It is found again by a state that cannot be guessed, and only by a call of the same tool with the same arguments.
3. A run whose client gives up the request that attends it is cancelled. One that nobody attends for as long as an
   answer may take is cancelled, too; its `wall_seconds` go on meanwhile.
"""

from __future__ import annotations

import logging
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

from .notes import Notes, Teller

__all__ = ["Paused", "Pausing"]

logger = logging.getLogger("callgate")

_GATHERING_SECONDS = 0.02
"""Calls made together ask together: so long the first question waits for others."""

Work = Callable[["Pausing", Notes], Awaitable[CallToolResult]]


@dataclass(slots=True)
class _Question:
    request: ElicitRequestFormParams
    answered: anyio.Event = field(default_factory=anyio.Event)
    answer: ElicitResult | None = None
    sent: bool = False


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
        self.pauses = 0
        self._seconds = seconds
        self._count = 0
        self.questions: dict[str, _Question] = {}
        self._news = anyio.Event()

    def over(self) -> bool:
        """Whether it has come to its end."""
        return self._over

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

    async def ask(self, question: ElicitRequestFormParams) -> ElicitResult | None:
        """Put a question to whoever attends the run."""
        self._count += 1
        key = f"approval_{self._count}"
        asked = self.questions[key] = _Question(question)
        self._news.set()
        try:
            with anyio.move_on_after(self._seconds):
                await asked.answered.wait()
        finally:
            self.questions.pop(key, None)
        return asked.answer

    def take(self, answers: CallToolRequestParams) -> None:
        """What the user said; a question that is still open will be asked again."""
        for key, asked in self.questions.items():
            answer = (answers.input_responses or {}).get(key)
            if isinstance(answer, ElicitResult):
                asked.answer = answer
                asked.answered.set()
            else:
                asked.sent = False

    def unsent(self) -> dict[str, _Question]:
        """Questions that no client has seen."""
        return {key: asked for key, asked in self.questions.items() if not asked.sent and not asked.answered.is_set()}


class Paused:
    """The runs of one server that are going on, or have ended while nobody attended them.

    Args:
        tasks: where they live.
        seconds: how long nobody may attend one.
    """

    def __init__(self, tasks: anyio.abc.TaskGroup, seconds: float) -> None:
        self._tasks = tasks
        self._seconds = seconds
        self._runs: dict[str, Pausing] = {}

    async def begin(
        self, params: CallToolRequestParams, teller: Teller, work: Work
    ) -> CallToolResult | InputRequiredResult:
        """Begin a call, and attend it."""
        run = Pausing(_call(params), self._seconds)
        self._runs[run.state] = run
        self._tasks.start_soon(self._live, run, work)
        return await self._attend(run, teller)

    async def go_on(self, params: CallToolRequestParams, teller: Teller) -> CallToolResult | InputRequiredResult:
        """Go on with a call, with the answers.

        Raises:
            MCPError: no such call waits for answers.
        """
        run = self._runs.get(params.request_state or "")
        if run is None or run.call != _call(params) or run.attended:
            raise MCPError(
                INVALID_PARAMS, "no call waits for these answers: it has ended, or was made with other arguments"
            )
        run.take(params)
        return await self._attend(run, teller)

    async def _live(self, run: Pausing, work: Work) -> None:
        try:
            with run.scope:
                run.result = await work(run, run.notes)
        finally:
            run.end()

    async def _attend(self, run: Pausing, teller: Teller) -> CallToolResult | InputRequiredResult:
        run.attended = True
        questions: dict[str, _Question] = {}
        paused = False
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(run.notes.deliver, teller)
                while not run.over() and not questions:
                    await run.wait_for_news()
                    if not run.over():
                        await anyio.sleep(_GATHERING_SECONDS)
                    questions = {} if run.over() else run.unsent()
                run.notes.pause()
            paused = bool(questions)
        finally:
            run.attended = False
            if not paused:
                run.scope.cancel()
                self._runs.pop(run.state, None)
        if not paused:
            if run.result is None:
                raise MCPError(CONNECTION_CLOSED, "the call was cancelled")
            return run.result
        for asked in questions.values():
            asked.sent = True
        run.pauses += 1
        self._tasks.start_soon(self._give_up, run, run.pauses)
        requests: dict[str, InputRequest] = {
            key: ElicitRequest(params=asked.request) for key, asked in questions.items()
        }
        return InputRequiredResult(input_requests=requests, request_state=run.state)

    async def _give_up(self, run: Pausing, pause: int) -> None:
        """Forget a run whose client does not come back."""
        await anyio.sleep(self._seconds)
        if not run.attended and run.pauses == pause and self._runs.pop(run.state, None) is not None:
            run.scope.cancel()


def _call(params: CallToolRequestParams) -> str:
    return f"{params.name}\n{canonical_json(params.arguments or {})}"
