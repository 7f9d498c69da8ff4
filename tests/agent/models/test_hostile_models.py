"""What a hostile endpoint, or whoever can write where a recording is kept, tries: keys in error texts, replies that are
no numbers, files put in another's place."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agent.models.wires import WIRES, request, says, talking
from callgate.agent.models.anthropic_model import AnthropicModel
from callgate.agent.models.direct import DirectModel as SdkModel
from callgate.agent.models.model import ModelProvider
from callgate.agent.models.openai_model import OpenAIModel
from callgate.agent.models.recording import RecordingModel, ReplayModel
from callgate.agent.models.scripted import ScriptedModel
from callgate.errors import ConfigurationError, ContextExceeded, ModelError, ModelRejected, ModelUnavailable
from callgate_bench.model.stand_in.faults import refusing, saying
from callgate_bench.model.stand_in.server import KEY

pytestmark = pytest.mark.anyio

SECRET = "sk-very-secret-0123456789"


@pytest.mark.parametrize("wire", WIRES)
async def test_a_key_that_the_endpoint_repeats_is_in_no_error(wire: ModelProvider) -> None:
    async with talking(wire, faults=(refusing(401, f"wrong key: {KEY}"),), for_ever=True) as talk:
        with pytest.raises(ModelRejected, match=r"wrong key: \[secret\]") as raised:
            await talk.model.ask(request())
    assert KEY not in str(raised.value)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("wire", WIRES)
async def test_nor_is_one_in_an_error_that_comes_with_status_200(wire: ModelProvider, stream: bool) -> None:
    body = f'{{"type": "error", "error": {{"message": "wrong key: {KEY}"}}}}'.encode()
    async with talking(wire, faults=(saying(body),), for_ever=True, stream_retries=0) as talk:
        with pytest.raises(ModelError) as raised:
            await talk.model.ask(request(), on_delta=talk.told.append if stream else None)
    assert "wrong key: [secret]" in str(raised.value)
    assert KEY not in str(raised.value)


@pytest.mark.parametrize("wire", WIRES)
async def test_nor_is_a_part_of_one_where_what_came_is_cut(wire: ModelProvider) -> None:
    body = b"x" * 390 + KEY.encode() + b", is no key"
    async with talking(wire, faults=(saying(body),), for_ever=True, stream_retries=0) as talk:
        with pytest.raises(ModelError, match="it sent: xxx") as raised:
            await talk.model.ask(request())
    assert KEY[:8] not in str(raised.value)


@pytest.mark.parametrize(
    ("key", "headers"), [(f"{SECRET}\n", {}), ("a-good-key", {"x-gateway-token": f"{SECRET}\r\nx-y: z"})]
)
@pytest.mark.parametrize("wire", WIRES)
async def test_nor_is_one_that_no_header_can_hold(wire: ModelProvider, key: str, headers: dict[str, str]) -> None:
    async with talking(wire, says("here")) as talk:
        kind = OpenAIModel if wire == "openai" else AnthropicModel
        address = str(talk.client.base_url)
        model: SdkModel = kind("m", base_url=address, api_key=key, headers=headers, max_retries=0)
        try:
            with pytest.raises(ModelError) as raised:
                await model.ask(request())
        finally:
            await model.aclose()
    assert SECRET not in str(raised.value)


@pytest.mark.parametrize("wire", WIRES)
async def test_a_number_of_tokens_that_is_none_is_not_told(wire: ModelProvider) -> None:
    many = "9" * 5_000
    words = f"prompt is too long: {many} tokens > 1 maximum context length resulted in {many} tokens"
    async with talking(wire, faults=(refusing(400, words),), for_ever=True) as talk:
        with pytest.raises(ContextExceeded) as raised:
            await talk.model.ask(request())
    assert raised.value.tokens == 0


@pytest.mark.parametrize("wire", WIRES)
async def test_a_reply_that_would_fill_the_memory_is_not_read(wire: ModelProvider) -> None:
    body = b'{"choices":[' + b"{}," * 3_000_000 + b"{}]}"
    async with talking(wire, faults=(saying(body),), for_ever=True, stream_retries=0) as talk:
        with pytest.raises(ModelUnavailable, match="longer than 8000000 bytes"):
            await talk.model.ask(request())


# recordings


async def test_a_recording_holds_no_key_of_its_model(tmp_path: Path) -> None:
    path = tmp_path / "talk.jsonl"
    async with talking("openai", says(f"your key is {KEY}")) as talk:
        await RecordingModel(talk.model, path).ask(request(f"my key is {KEY}"))
    assert KEY not in path.read_text()
    assert "your key is [secret]" in path.read_text()


async def test_a_recording_is_its_owners_alone(tmp_path: Path) -> None:
    path = tmp_path / "talk.jsonl"
    await RecordingModel(ScriptedModel(["yes"]), path).ask(request())
    assert path.stat().st_mode & 0o777 == 0o600


async def test_a_recording_is_not_written_through_a_link_that_came_later(tmp_path: Path) -> None:
    victim, path = tmp_path / "victim", tmp_path / "talk.jsonl"
    victim.write_text("precious")
    model = RecordingModel(ScriptedModel(["yes"]), path)
    path.symlink_to(victim)
    with pytest.raises(ConfigurationError, match="cannot be written: Too many levels of symbolic links"):
        await model.ask(request())
    assert victim.read_text() == "precious"


async def test_a_recording_that_is_made_anew_is_begun_at_its_beginning(tmp_path: Path) -> None:
    path = tmp_path / "talk.jsonl"
    for word in ("one", "two"):
        model = RecordingModel(ScriptedModel([word, word]), path)
        await model.ask(request())
        await model.ask(request())
    replay = ReplayModel(path)
    assert [(await replay.ask(request())).turn.text for _ in range(replay.left)] == ["two", "two"]


async def test_a_recording_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    model = RecordingModel(ScriptedModel(["yes"]), tmp_path / "nowhere" / "talk.jsonl")
    with pytest.raises(ConfigurationError, match="cannot be written: No such file"):
        await model.ask(request())


def test_a_pipe_is_no_recording_and_is_not_waited_for(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(ConfigurationError, match="is not a file"):
        ReplayModel(pipe)
    with pytest.raises(ConfigurationError, match="is not a file"):
        RecordingModel(ScriptedModel([]), pipe)
