"""An agent of a peer, whose model the harness plays: one run of the agent is one conversation.

The agent's model takes what the harness's model calls, and gives back what the agent would send to it. A turn's seconds
are what the agent takes from the one to the other.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

from callgate_bench.contestants.contestant import Contestant

__all__ = ["PlayedAgent"]


class PlayedAgent(Contestant):
    """A contestant that is an agent. A subclass runs it in `converse`, where its model calls `played`."""

    _run: asyncio.Task[Any] | None = None

    async def converse(self) -> Any:
        """Run the agent for the workload's task; returns its final answer."""
        raise NotImplementedError

    async def begin(self) -> dict[str, Any]:
        """A new conversation: a new run of the agent, up to what it first asks of its model."""
        await self._end()
        self._asked: asyncio.Queue[Any] = asyncio.Queue()
        self._answers: asyncio.Queue[Any] = asyncio.Queue()
        self._run = asyncio.create_task(self.converse())
        self.first_request = await self._next()
        return {}

    async def played(self, request: Any) -> Any:
        """For the agent's model: hand over the agent's request, and wait for the answer of the harness's model."""
        self._asked.put_nowait(request)
        answer = await self._answers.get()
        if answer is None:
            raise asyncio.CancelledError("the conversation is over")
        return answer

    async def say(self, answer: Any) -> Any:
        """Answer the agent's model; returns what the agent asks next, or None where its run has ended.

        Raises:
            RuntimeError: the run has ended before.
        """
        if self._run is None or self._run.done():
            raise RuntimeError("the agent has given its final answer; begin a new conversation")
        self._answers.put_nowait(answer)
        return await self._next()

    @property
    def final(self) -> str:
        """The agent's final answer; empty while it runs."""
        return str(self._run.result()) if self._run is not None and self._run.done() else ""

    async def _next(self) -> Any:
        assert self._run is not None
        asked = asyncio.create_task(self._asked.get())
        await asyncio.wait([asked, self._run], return_when=asyncio.FIRST_COMPLETED)
        if asked.done():
            return asked.result()
        asked.cancel()
        self._run.result()  # raises what the run raised
        return None

    async def _end(self) -> None:
        run, self._run = self._run, None
        if run is not None:
            self._answers.put_nowait(None)  # for an agent in a thread, which cannot be cancelled
            run.cancel()
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await run

    async def aclose(self) -> dict[str, Any]:
        """End the run."""
        await self._end()
        return await super().aclose()
