"""What is recorded is replayed with no endpoint, and what differs is named."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent.models.wires import answered, asks, says, talking, tells, tools
from callgate.agent.models.model import Delta, Message, Model, Reply, Request, ToolCall, User
from callgate.agent.models.recording import RecordingModel, ReplayModel
from callgate.agent.models.scripted import Calls, Say, ScriptedModel, Turn
from callgate.errors import ConfigurationError, ModelRejected, ModelUnavailable

pytestmark = pytest.mark.anyio

TOOLS = tools("openai", "weather", "height")
ASKED = Request(messages=[User(text="Where?")], system="Be brief.", tools=TOOLS)


async def _talk(model: Model) -> list[Reply]:
    first = await model.ask(ASKED)
    messages: list[Message] = [*ASKED.messages, first.turn, answered(first.turn)]
    return [first, await model.ask(replace(ASKED, messages=messages))]


async def _recorded(path: Path) -> list[Reply]:
    bad = ToolCall(id="c9", name="height", fault="they are not JSON", written='{"city')
    turns: list[Turn] = [
        Calls(("weather", {"city": "Rome"}), bad, text="Let me see."),
        Say("It is Rome.", native=[{"type": "a"}]),
    ]
    return await _talk(RecordingModel(ScriptedModel(turns, name="m"), path))


async def test_a_conversation_with_a_real_sdk_is_replayed_without_its_endpoint(tmp_path: Path) -> None:
    path = tmp_path / "talk.jsonl"
    async with talking("anthropic", asks, tells) as talk:
        recording = RecordingModel(talk.model, path)
        messages: list[Message] = [User(text="Where is it warmer?")]
        first = await recording.ask(Request(messages=messages, tools=tools("anthropic", "weather")))
        messages += [first.turn, answered(first.turn)]
        second = await recording.ask(Request(messages=messages, tools=tools("anthropic", "weather")))
    replay = ReplayModel(path)
    assert (replay.name, replay.provider, replay.left) == ("m", "anthropic", 2)
    told: list[Delta] = []
    request = Request(messages=messages[:1], tools=tools("anthropic", "weather"))
    assert await replay.ask(request, on_delta=told.append) == first
    assert "".join(each.text for each in told) == first.turn.text
    assert await replay.ask(replace(request, messages=messages)) == second
    assert replay.left == 0
    await replay.aclose()


async def test_faults_and_native_turns_are_replayed(tmp_path: Path) -> None:
    replies = await _recorded(tmp_path / "r")
    assert await _talk(ReplayModel(tmp_path / "r")) == replies


async def test_descriptions_limits_and_temperatures_may_change(tmp_path: Path) -> None:
    await _recorded(tmp_path / "r")
    described = json.loads(json.dumps(TOOLS).replace("It is known", "It is well known"))
    changed = replace(ASKED, tools=described[::-1], temperature=0.7, max_output_tokens=5)
    assert (await ReplayModel(tmp_path / "r").ask(changed)).turn.text == "Let me see."


async def test_the_same_request_is_answered_in_the_order_of_the_recording(tmp_path: Path) -> None:
    recording = RecordingModel(ScriptedModel(["one", "two"]), tmp_path / "r")
    for _ in range(2):
        await recording.ask(ASKED)
    replay = ReplayModel(tmp_path / "r")
    assert [(await replay.ask(ASKED)).turn.text for _ in range(2)] == ["one", "two"]
    with pytest.raises(ModelRejected, match="has 2 replies, and all were given: record it again"):
        await replay.ask(ASKED)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"system": "Be verbose."}, "its system text differs from the recorded one's; system prompt, mode and"),
        ({"tools": TOOLS[:1]}, "the tool height of the recorded request is not among its tools"),
        (
            {"tools": tools("openai", "weather", "height", "depth")},
            "its tool depth is not among the recorded request's",
        ),
        (
            {"tools": [TOOLS[0], {"type": "function", "function": {"name": "height", "parameters": {}}}]},
            "the schema of its tool height differs",
        ),
        ({"messages": [User(text="When?")]}, r'its message 1 differs: it is .*"When\?".*, and was .*"Where\?"'),
        ({"messages": [User(text="Where?"), User(text="Now?")]}, "it has 2 messages, and the recorded one 1"),
        ({"messages": [User(text="Where?")] * 9}, "its message 2 differs"),
        ({"messages": []}, "it has 0 messages, and the recorded one 1"),
        ({"tool_choice": "required"}, "its tool choice is required, and was auto"),
        ({"json_schema": {"type": "object"}}, "its tool choice is auto, output "),
    ],
)
async def test_what_differs_from_the_nearest_request_is_named(
    tmp_path: Path, change: dict[str, Any], words: str
) -> None:
    await _recorded(tmp_path / "r")
    with pytest.raises(ModelRejected, match=f"no reply to this request: {words}") as raised:
        await ReplayModel(tmp_path / "r").ask(replace(ASKED, **change))
    assert "record it again (callgate agent --record FILE, or RecordingModel" in str(raised.value)


async def test_a_recording_may_be_replayed_by_order_alone(tmp_path: Path) -> None:
    await _recorded(tmp_path / "r")
    replay = ReplayModel(tmp_path / "r", match="order")
    other = Request(messages=[User(text="something else")])
    assert [(await replay.ask(other)).turn.text for _ in range(2)] == ["Let me see.", "It is Rome."]


async def test_keys_are_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", 'sk-"very-secret')
    turns = ['The key is sk-"very-secret and the password hunter22hunter.']
    recording = RecordingModel(ScriptedModel(turns), tmp_path / "r", secrets=["hunter22hunter", "a"])
    said = Request(messages=[User(text='what is sk-"very-secret?')], system="hunter22hunter")
    await recording.ask(said)
    text = (tmp_path / "r").read_text()
    assert "very-secret" not in text
    assert "hunter22" not in text
    reply = await ReplayModel(tmp_path / "r").ask(Request(messages=[User(text="what is [secret]?")], system="[secret]"))
    assert reply.turn.text == "The key is [secret] and the password [secret]."


async def test_a_secret_that_begins_like_another_does_not_save_its_end(tmp_path: Path) -> None:
    recording = RecordingModel(
        ScriptedModel(["It is key-1234-and-its-end."]), tmp_path / "r", secrets=["key-1234", "key-1234-and-its-end"]
    )
    await recording.ask(ASKED)
    assert "its-end" not in (tmp_path / "r").read_text()


async def test_a_system_text_with_half_a_character_is_recorded_and_replayed(tmp_path: Path) -> None:
    half = replace(ASKED, system="half \ud83d")
    await RecordingModel(ScriptedModel(["whole"]), tmp_path / "r").ask(half)
    assert (await ReplayModel(tmp_path / "r").ask(half)).turn.text == "whole"


async def test_what_the_endpoint_does_not_answer_is_not_recorded(tmp_path: Path) -> None:
    recording = RecordingModel(ScriptedModel([ModelUnavailable("gone"), "back"], name="m"), tmp_path / "r")
    with pytest.raises(ModelUnavailable):
        await recording.ask(ASKED)
    assert not (tmp_path / "r").exists()
    await recording.ask(ASKED)
    assert ReplayModel(tmp_path / "r", name="other").name == "other"
    await recording.aclose()


async def test_a_recording_is_made_anew_or_gone_on_with(tmp_path: Path) -> None:
    path = tmp_path / "r"
    for append, left in ((False, 1), (True, 2), (False, 1)):
        await RecordingModel(ScriptedModel(["a"]), path, append=append).ask(ASKED)
        assert ReplayModel(path).left == left
    with pytest.raises(ConfigurationError, match="is a recording of openai, and the model is of anthropic"):
        RecordingModel(ScriptedModel([], provider="anthropic"), path, append=True)


async def test_no_other_file_is_written_over(tmp_path: Path) -> None:
    path = tmp_path / "thesis.txt"
    path.write_text("years of work")
    with pytest.raises(ConfigurationError, match="is not a recording"):
        RecordingModel(ScriptedModel([]), path)
    assert path.read_text() == "years of work"


def _edit(change: Callable[[dict[str, Any]], object]) -> Callable[[list[str]], list[str]]:
    def edit(lines: list[str]) -> list[str]:
        line = json.loads(lines[1])
        change(line)
        return [lines[0], json.dumps(line)]

    return edit


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (lambda lines: [], "is not a recording: its first line: Invalid JSON"),
        (lambda lines: ["[]"], "its first line: Input should be an object"),
        (lambda lines: ["{}"], "its first line: kind: Field required"),
        (
            lambda lines: [lines[0].replace("openai", "closedai")],
            "its first line: provider: Input should be 'openai' or",
        ),
        (lambda lines: [lines[0].replace('"version":1', '"version":2')], "its first line: version: Input should be 1"),
        (lambda lines: [lines[0], "{"], "line 2: the line is not that of a request: Invalid JSON"),
        (lambda lines: [lines[0], "[" * 100_000], "line 2: the line is not that of a request: Invalid JSON"),
        (_edit(lambda line: line.pop("parts")), "line 2: the line is not that of a request: parts: Field required"),
        (_edit(lambda line: line["parts"].update(tools=[])), "parts.tools: Input should be an object"),
        (_edit(lambda line: line.update(reply=None)), "reply: Input should be an object"),
        (_edit(lambda line: line["reply"].update(ended="badly")), "reply.ended: Input should be 'answered'"),
        (_edit(lambda line: line["reply"]["turn"].update(calls=7)), "reply.turn.calls: Input should be"),
    ],
)
async def test_files_that_are_no_recordings_are_refused(
    tmp_path: Path, edit: Callable[[list[str]], list[str]], words: str
) -> None:
    await _recorded(tmp_path / "r")
    lines = (tmp_path / "r").read_text().splitlines()
    (tmp_path / "r").write_text("\n".join(edit(lines)))
    with pytest.raises(ConfigurationError) as raised:
        ReplayModel(tmp_path / "r")
    assert words in str(raised.value)


def test_a_recording_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="cannot be read: No such file"):
        ReplayModel(tmp_path / "r")
    with pytest.raises(ConfigurationError, match='match is "request" or "order"'):
        ReplayModel(tmp_path / "r", match="never")  # type: ignore[arg-type]


async def test_recording_streams_as_the_model_does(tmp_path: Path) -> None:
    async with talking("openai", says("a text of some length, in pieces")) as talk:
        recording = RecordingModel(talk.model, tmp_path / "r")
        assert (recording.name, recording.provider) == ("m", "openai")
        await recording.ask(Request(messages=[User(text="hi")]), on_delta=talk.told.append)
        assert talk.said == "a text of some length, in pieces"
