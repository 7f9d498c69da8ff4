"""A monitoring assistant, in both modes of declarative plan execution: one plan, or one call at a time.

In declarative mode the model has the tools and `execute_tool_plan`, and hands over the whole chain, each step with a
reference to what an earlier one finds: two model calls. In individual mode it has the tools alone, and is asked again
after each of them: four model calls, for the same answer. Turns are what a plan saves. Tokens it saves where results
or chains are long: here the definition of `execute_tool_plan` is longer than what three small calls cost.

The models are recorded, and no key is needed. What was recorded is a script (`SCRIPTS`), for lack of a key: it sees
what a model would see, and answers from that; its tokens are counted as four characters each. The tools and the plan
are those of monitoring.py.

    python examples/agent_monitoring.py                        both modes, from examples/recordings
    python examples/agent_monitoring.py --individual           one of them
    python examples/agent_monitoring.py --model openai:gpt-5   online, with the key in the environment
    python examples/agent_monitoring.py --record               record again: the scripts, or with --model that model
"""

from __future__ import annotations

import argparse
import asyncio
import json
from pathlib import Path
from typing import Any, Literal

from callgate import Agent, AgentResult, Runtime
from callgate.agent import RecordingModel, ReplayModel, ScriptedModel, model_named
from callgate.agent.models.model import Model, Request, ToolReplies
from callgate.agent.models.scripted import Calls, Turn
from monitoring import BY_POSITION, check_threshold, list_metrics, query_metric

TASK = "List all compute metrics, query CPU usage, and check if it's above 80%"
RECORDINGS = Path(__file__).parent / "recordings"
Mode = Literal["declarative", "individual"]


def result(request: Request) -> Any:
    """What the model's last call gave, as it reads it."""
    last = request.messages[-1]
    assert isinstance(last, ToolReplies)
    return json.loads(last.replies[-1].text)


def answer(check: Any) -> str:
    """The last turn, in both modes."""
    side = "above" if check["exceeded"] else "below"
    return f"CPU usage is {check['current']}%, {side} the 80% threshold."


def plans(request: Request) -> Calls:
    return Calls(("execute_tool_plan", BY_POSITION), text="The three steps are known: one plan.")


def concludes_from_the_plan(request: Request) -> str:
    last = request.messages[-1]
    assert isinstance(last, ToolReplies)
    text = last.replies[0].text
    assert "3/3 steps succeeded" in text, text
    return answer(json.loads(text.partition("steps[2]: ")[2]))


def lists(request: Request) -> Calls:
    return Calls(("list_metrics", {"category": "compute"}), text="I'll list the compute metrics first.")


def queries(request: Request) -> Calls:
    name = result(request)["metrics"][0]["name"]
    return Calls(("query_metric", {"name": name}), text=f"Now I'll query {name}.")


def checks(request: Request) -> Calls:
    found = result(request)
    given = {"metric_name": found["name"], "threshold": 80, "operator": "gt"}
    return Calls(("check_threshold", given), text=f"Let me check if {found['current']} > 80.")


def concludes_from_the_check(request: Request) -> str:
    return answer(result(request))


SCRIPTS: dict[Mode, list[Turn]] = {
    "declarative": [plans, concludes_from_the_plan],
    "individual": [lists, queries, checks, concludes_from_the_check],
}


def model_for(mode: Mode, name: str | None, record: bool) -> Model:
    """The model that was asked for, or the recorded one."""
    recording = RECORDINGS / f"monitoring_{mode}.jsonl"
    if not record:
        return ReplayModel(recording) if name is None else model_named(name)
    return RecordingModel(ScriptedModel(SCRIPTS[mode]) if name is None else model_named(name), recording)


async def solve(mode: Mode, model: Model) -> AgentResult:
    """The task, in that mode."""
    async with Runtime([list_metrics, query_metric, check_threshold], sandbox=None) as runtime:
        try:
            return await Agent(model, runtime, mode=mode).run(TASK)
        finally:
            await model.aclose()


def show(mode: Mode, done: AgentResult) -> None:
    print(f"{mode}: {done.turns} LLM calls, {done.tool_calls} tool calls, "
          f"{done.usage.input_tokens} + {done.usage.output_tokens} tokens")  # fmt: skip
    for run in done.runs:
        for step in run["steps"]:
            given = ", ".join(f"{name}={json.dumps(value)}" for name, value in step["arguments"].items())
            print(f"  {step['tool']}({given}): {step['status']}, {step['duration_seconds'] * 1000:.1f} ms")
    print(f"  {done.answer}")


async def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--individual", action="store_true")
    parser.add_argument("--model")
    parser.add_argument("--record", action="store_true")
    given = parser.parse_args()
    modes: list[Mode] = ["individual"] if given.individual else ["declarative", "individual"]

    came: dict[Mode, AgentResult] = {}
    for mode in modes:
        came[mode] = await solve(mode, model_for(mode, given.model, given.record))
        show(mode, came[mode])
        assert came[mode].ok, came[mode].reason
    if given.model is not None:  # what a model says is its own affair
        return

    for mode, turns in (("declarative", 2), ("individual", 4)):
        if (done := came.get(mode)) is not None:
            assert (done.turns, done.tool_calls) == (turns, 3)
            assert done.answer == "CPU usage is 72.5%, below the 80% threshold."
    if len(came) == 2:
        assert came["declarative"].answer == came["individual"].answer
        (run,) = came["declarative"].runs
        assert run["steps"][1]["arguments"] == {"name": "cpu_usage"}


if __name__ == "__main__":
    asyncio.run(main())
