"""smolagents' CodeAgent: ``python -m callgate_bench.contestants.smolagents_agent``.

A `CodeAgent` with the workload's tools and its default executor, as an application runs it, in a thread. The agent's
model writes text, and programs stand in it between tags; in the agent's memory each is a call of
``python_interpreter``, and that is what the harness's model calls here.

The default executor, `LocalPythonExecutor`, walks the program's tree within this process. smolagents says of it that it
is not a security sandbox.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from smolagents import ChatMessage, CodeAgent, LogLevel, MessageRole, Model, Tool
from smolagents._function_type_hints_utils import get_json_schema
from smolagents.tools import AUTHORIZED_TYPES

from callgate_bench.contestants.contestant import CannotDo, Opened, Turn, smolagents_refusal
from callgate_bench.contestants.played_agent import PlayedAgent
from callgate_bench.serving import serve
from callgate_bench.workloads.services import at_once
from callgate_bench.workloads.workload import Function

__all__ = ["SmolagentsAgent"]

_DEFINITION: Mapping[str, Any] = {
    "name": "python_interpreter",
    "description": "Runs the code of a step.",
    "input_schema": {"type": "object", "properties": {"code": {"type": "string"}}, "required": ["code"]},
}
_STEPS = 1_000_000
_NOTE = "programs are handed over as tool calls; smolagents' own models write them as text between tags"
_NO_REAL_MODEL = (
    "its prompt has models write programs as text between <code> tags, and the harness takes them as tool calls: a "
    "model that follows the instructions would not be understood"
)


class _Played(Model):  # type: ignore[misc]
    """The agent's model, in the agent's thread: what it is asked goes to the event loop."""

    def __init__(self, contestant: PlayedAgent) -> None:
        super().__init__(model_id="played by the harness")
        self._contestant, self._loop = contestant, asyncio.get_running_loop()

    def generate(self, messages: list[ChatMessage], *_: Any, **__: Any) -> ChatMessage:
        """Return the answer of the harness's model."""
        answer = asyncio.run_coroutine_threadsafe(self._contestant.played(messages), self._loop).result()
        return ChatMessage(role=MessageRole.ASSISTANT, content=answer)


class SmolagentsAgent(PlayedAgent):
    """Programs by way of an agent that gives the final answer itself."""

    packages = ("smolagents",)
    _agent: CodeAgent

    async def show(self) -> Opened:
        """The agent's own prompt."""
        if not self.scripted:
            raise CannotDo(_NO_REAL_MODEL)
        await self.begin()
        return Opened(
            tools=[dict(_DEFINITION)], system=self._agent.initialize_system_prompt(), tool=_DEFINITION["name"],
            dialect="sync-final", note=_NOTE,
        )  # fmt: skip

    async def converse(self) -> Any:
        """Run a new agent in a thread."""
        self._agent = CodeAgent(
            tools=[_tool(each) for each in self.tools],
            model=_Played(self),
            max_steps=_STEPS,
            verbosity_level=LogLevel.OFF,
        )
        return await asyncio.to_thread(self._agent.run, self.workload.task)

    async def act(self, calls: Sequence[Mapping[str, Any]]) -> Turn:
        """Hand the agent its programs, one after the other, until one has given the final answer."""
        texts: list[str] = []
        opening, closing = self._agent.code_block_tags
        for each in calls:
            messages = await self.say(f"{opening}\n{each['arguments']['code']}\n{closing}")
            if messages is None:
                return Turn(texts=[*texts, *[self.final] * (len(calls) - len(texts))], final=self.final)
            error = getattr(self._agent.memory.steps[-1], "error", None)
            refused = smolagents_refusal(error.message) if self.scripted and error is not None else ""
            if refused:
                raise CannotDo(refused)
            content = messages[-1].content
            parts = content if isinstance(content, list) else [{"text": content}]
            texts.append("".join(str(part.get("text", "")) for part in parts))
        return Turn(texts=texts)


def _tool(function: Function) -> Tool:
    """A tool as smolagents' own decorator would have it, if the function were not async: it runs where it is called."""
    schema = get_json_schema(function)["function"]
    returned = schema.get("return", {}).get("type", "any")

    class WorkloadTool(Tool):  # type: ignore[misc]
        name = schema["name"]
        description = schema["description"]
        inputs = schema["parameters"]["properties"]
        output_type = returned if returned in AUTHORIZED_TYPES else "any"
        skip_forward_signature_validation = True

        def forward(self, *args: Any, **kwargs: Any) -> Any:
            """Call it."""
            return at_once(function(*args, **kwargs))

    return WorkloadTool()


if __name__ == "__main__":
    asyncio.run(serve(SmolagentsAgent()))
