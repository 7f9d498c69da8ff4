"""An agent's model gets the pictures that its calls make; transcripts have them by reference, and tasks go on without
their bytes."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from agent.loop.scripted_runs import faults, of, play, sandboxed
from agent.models.wires import talking
from callgate import Artifact, Runtime, tool
from callgate.agent.events import CallEnded
from callgate.agent.loop.agent import Agent
from callgate.agent.loop.budget import Budget
from callgate.agent.loop.result import AgentResult
from callgate.agent.loop.shortening import shortened
from callgate.agent.loop.transcript import read_transcript
from callgate.agent.models.messages_json import pictures_in
from callgate.agent.models.model import Assistant, Message, ModelProvider, Request, ToolCall, ToolReplies, ToolReply
from callgate.agent.models.model import User as Said
from callgate.agent.models.recording import RecordingModel, ReplayModel
from callgate.agent.models.scripted import Calls, ScriptedModel
from callgate.agent.react.config import read_config
from callgate.agent.react.planner import ReActPlanner
from callgate.errors import ContextExceeded, ModelUnavailable
from callgate.runtime.pictures import PictureReference
from callgate_bench.model.stand_in import Call
from callgate_bench.model.stand_in.checks import Move, Turn
from runtime.drawn import SVG, png

pytestmark = pytest.mark.anyio

BASE64 = base64.b64encode(png(seed=1)).decode()


@tool(read_only=True)
def draw(seed: int) -> Artifact:
    """Draws a plot."""
    return Artifact.from_bytes(png(seed=seed), f"plot{seed}.png")


@tool(read_only=True)
def sketch() -> Artifact:
    """Draws what is no picture for a model."""
    return Artifact.from_bytes(SVG, "sketch.svg")


def drawing(*seeds: int) -> Calls:
    return Calls(*(("draw", {"seed": seed}) for seed in seeds))


def shown(request: Request) -> list[str]:
    """Names of the pictures that a request shows, bytes and all."""
    references = [each for message in request.messages for each in pictures_in(message)]
    return [each.name for each in references if each.sha256 in request.pictures]


IN_WORDS = """
spec:
  planner:
    type: ReActPlanner
    config:
      system_prompt: You draw.
      use_function_calling: false
      tool_descriptions:
        - name: draw
          description: Draws a plot.
"""

# the model sees them


async def test_the_model_gets_the_pictures_of_its_calls() -> None:
    result, model = await play([draw, sketch], drawing(1, 2), Calls(("sketch", {})), "It rises.")
    assert result.answer == "It rises."
    assert [shown(each) for each in model.requests] == [[], ["plot1.png", "plot2.png"], ["plot1.png", "plot2.png"]]
    assert {each.data for each in model.requests[1].pictures.values()} == {png(seed=1), png(seed=2)}
    last = model.requests[2].messages[-1]
    assert isinstance(last, ToolReplies)
    assert "sketch.svg is not shown to you" in last.replies[0].text


async def test_with_pictures_false_the_model_gets_the_text_alone() -> None:
    result, model = await play([draw], drawing(1), "Done.", pictures=False)
    assert shown(model.requests[1]) == []
    assert of(result, CallEnded)[0].pictures == ()
    assert "art_" in of(result, CallEnded)[0].text


@pytest.mark.parametrize("wire", ["openai", "anthropic"])
async def test_over_the_wire_the_bytes_arrive(wire: ModelProvider) -> None:
    def says(turn: Turn) -> Move:
        return "It rises."

    def draws(turn: Turn) -> Move:
        return Call("draw", {"seed": 1})

    async with talking(wire, draws, says) as talk, Runtime([draw], sandbox=None) as runtime:
        result = await Agent(talk.model, runtime, mode="direct").run("Draw.")
    assert result.ok
    assert BASE64 in json.dumps(talk.bodies[-1])


async def test_what_a_program_displays_and_leaves_is_shown_also_if_it_fails() -> None:
    code = f"""
class Figure:
    def _repr_png_(self):
        return bytes.fromhex("{png(seed=1).hex()}")

display(Figure())
with open("left.png", "wb") as file:
    file.write(bytes.fromhex("{png(seed=2).hex()}"))
raise ValueError("after the plot")
"""
    async with sandboxed([draw]) as runtime:
        _, model = await play(runtime, Calls(("execute_code", {"code": code})), "It rises.", mode="code")
        has_files = not getattr(runtime.backend, "no_files", "")
    last = model.requests[1].messages[-1]
    assert isinstance(last, ToolReplies)
    assert not last.replies[0].ok
    assert shown(model.requests[1]) == ["picture-1.png", "left.png"][: 1 + has_files]


async def test_a_planner_that_works_in_words_shows_them_too() -> None:
    config = read_config(IN_WORDS)
    model = ScriptedModel(['Action: draw\nAction Input: {"seed": 1}', "Final Answer: It rises."])
    async with Runtime([draw], sandbox=None) as runtime:
        planner = ReActPlanner(config, model, runtime.registry)
        result = await Agent(model, runtime, planner=planner).run("Draw.")
    assert result.ok
    assert shown(model.requests[1]) == ["plot1.png"]


# what is kept


def no_bytes_in(text: str) -> None:
    assert BASE64[:40] not in text
    assert "PNG" not in text


async def test_a_transcript_has_pictures_by_reference(tmp_path: Path) -> None:
    file = tmp_path / "task.jsonl"
    await play([draw], drawing(1), "It rises.", transcript=file)
    written = file.read_text()
    no_bytes_in(written)
    ended, added = (
        next(line for line in map(json.loads, written.splitlines()) if line["kind"] == kind)
        for kind in ("call_ended", "message_added")
    )
    (reference,) = ended["pictures"]
    assert added["replies"]["replies"][0]["pictures"] == [reference]
    artifact = Artifact.from_bytes(png(seed=1), "plot1.png")
    assert reference == {
        "handle": reference["handle"], "name": "plot1.png", "media_type": "image/png", "sha256": artifact.sha256,
        "width": 3, "height": 2,
    }  # fmt: skip
    assert reference["handle"] in ended["text"]
    assert [each.pictures for each in (line.event for line in read_transcript(file)) if isinstance(each, CallEnded)]


async def test_a_task_goes_on_from_its_transcript_without_the_bytes(tmp_path: Path) -> None:
    file = tmp_path / "task.jsonl"
    first, _ = await play([draw], drawing(1), ModelUnavailable("gone"), transcript=file)
    assert first.outcome == "unavailable"
    model = ScriptedModel([drawing(2), "It rises."])
    async with Runtime([draw], sandbox=None) as runtime:
        result = await Agent(model, runtime).resume(file)
    assert result.ok
    references = [each.name for message in model.requests[0].messages for each in pictures_in(message)]
    assert references == ["plot1.png"]
    assert [shown(each) for each in model.requests] == [[], ["plot2.png"]]
    no_bytes_in(file.read_text())


async def test_a_task_that_goes_on_from_its_result_has_the_bytes() -> None:
    async with Runtime([draw], sandbox=None) as runtime:
        first = await Agent(ScriptedModel([drawing(1), ModelUnavailable("gone")]), runtime).run("Draw.")
        assert [each.name for each in first.artifacts] == ["plot1.png"]
        model = ScriptedModel([drawing(2), "It rises."])
        assert (await Agent(model, runtime).resume(first)).ok
    assert [shown(each) for each in model.requests] == [["plot1.png"], ["plot1.png", "plot2.png"]]


async def test_the_same_picture_again_and_again_is_a_repetition_though_its_handles_are_others() -> None:
    result, _ = await play([draw], *(drawing(1) for _ in range(8)), "Enough.")
    assert ("loop", "told the model") in faults(result)


async def test_a_transcript_from_before_there_were_pictures_is_read(tmp_path: Path) -> None:
    file = tmp_path / "task.jsonl"
    await play([draw], drawing(1), ModelUnavailable("gone"), transcript=file, pictures=False)
    old = "\n".join(
        json.dumps({name: value for name, value in json.loads(line).items() if name != "pictures"})
        for line in file.read_text().splitlines()
    ).replace(', "pictures": []', "")
    file.write_text(old + "\n")
    async with Runtime([draw], sandbox=None) as runtime:
        assert (await Agent(ScriptedModel(["It rises."]), runtime).resume(file)).ok


async def test_a_recording_with_pictures_is_played_again_though_its_handles_are_others(tmp_path: Path) -> None:
    file = tmp_path / "model.jsonl"
    async with Runtime([draw], sandbox=None) as runtime:
        recorded = await Agent(RecordingModel(ScriptedModel([drawing(1), "It rises."]), file), runtime).run("Draw.")
        no_bytes_in(file.read_text())
        replayed = await Agent(ReplayModel(file), runtime).run("Draw.")
    assert replayed.answer == recorded.answer == "It rises."


# too long


def long_conversation() -> list[Message]:
    messages: list[Message] = [Said(text="Draw.")]
    for number in (1, 2):
        picture = PictureReference(
            handle=f"art_{number:032x}", name=f"{number}.png", media_type="image/png", sha256=f"{number}", width=1_568,
            height=1_568,
        )  # fmt: skip
        reply = ToolReply(id=f"c{number}", name="draw", text="x" * 6_000, pictures=(picture,))
        messages += [Assistant(calls=(ToolCall(id=f"c{number}", name="draw"),)), ToolReplies(replies=(reply,))]
    return messages


def names(messages: Sequence[Message]) -> list[str]:
    return [each.name for message in messages for each in pictures_in(message)]


def lengths(messages: Sequence[Message]) -> list[int]:
    return [len(each.replies[0].text) for each in messages if isinstance(each, ToolReplies)]


def test_old_pictures_go_first_then_text_and_the_newest_pictures_last() -> None:
    first = shortened(long_conversation())
    assert names(first) == ["2.png"]
    assert min(lengths(first)) >= 6_000
    second = shortened(first)
    assert names(second) == ["2.png"]
    assert lengths(second)[0] < 500
    third = shortened(second)
    assert names(third) == []
    assert shortened(third) == third


async def test_a_conversation_that_is_too_long_goes_on_without_its_old_pictures() -> None:
    too_long = ContextExceeded("too long")
    result, model = await play([draw], drawing(1), drawing(2), too_long, "It rises.")
    assert result.ok
    assert faults(result) == [("too_long", "shortened the oldest results")]
    assert [shown(each) for each in model.requests[2:]] == [["plot1.png", "plot2.png"], ["plot2.png"]]


async def test_the_budget_counts_pictures_before_they_are_sent() -> None:
    """A request is the last where the next would pass the budget."""
    few, _ = await play([draw], drawing(1), "x", budget=Budget(tokens=2_000), pictures=False)
    assert few.ok
    spent, model = await play([draw], drawing(*range(1, 9)), "x", budget=Budget(tokens=2_000))
    assert isinstance(spent, AgentResult)
    assert model.requests[-1].tool_choice == "none"
