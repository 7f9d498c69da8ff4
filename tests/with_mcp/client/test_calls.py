"""Calls through the gate to real servers: values, artifacts, errors, progress, cancellation."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anyio
import pytest

from callgate import Limits, ToolError, ToolTimedOut
from callgate.runtime.gate.events import listening
from with_mcp.client.served import everything, hostile, lines, serving, until

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("plain", "plain"),
        ('{"a": [1, 9007199254740993]}', {"a": [1, 9007199254740993]}),
        (" [1, 2] ", [1, 2]),
        ("007", "007"),
        ("null", "null"),
        ("12345678901234567890", "12345678901234567890"),
        ("[1, 2", "[1, 2"),
        ("{'a': 1}", "{'a': 1}"),
        ('{"a": NaN}', '{"a": NaN}'),
        ("", ""),
        ("[" * 5000, "[" * 5000),
    ],
)
async def test_text_that_is_json_is_parsed_and_other_text_stays(text: str, value: Any) -> None:
    async with serving({"ev": everything()}) as served:
        assert await served.call("ev_echo", {"text": text}) == value


async def test_no_text_one_text_and_several() -> None:
    async with serving({"ev": everything()}) as served:
        assert await served.call("ev_texts", {"parts": []}) is None
        assert await served.call("ev_texts", {"parts": ["a"]}) == "a"
        assert await served.call("ev_texts", {"parts": ["a", '{"b": 1}']}) == ["a", {"b": 1}]


async def test_structured_content_is_the_value() -> None:
    async with serving({"ev": everything()}) as served:
        assert await served.call("ev_weather", {"city": "Oslo"}) == {"city": "Oslo", "celsius": 21.5}
        schema = served.registry.get("ev_weather").output_schema
        assert schema is not None
        assert set(schema["properties"]) == {"city", "celsius"}


async def test_structured_content_is_held_against_its_schema() -> None:
    async with serving({"s": hostile("structured")}) as served:
        assert await served.call("s_right") == {"n": 1}
        assert await served.call("s_in_text") == {"n": 2}
        assert await served.call("s_wrapped") == [1, 2]
        assert served.registry.get("s_wrapped").output_schema == {"type": "array", "items": {"type": "integer"}}
        with pytest.raises(ToolError, match=r"returned what it must not: result\.n must be of type integer"):
            await served.call("s_wrong")
        with pytest.raises(ToolError, match="promised structured content and sent none: no structure"):
            await served.call("s_none")


async def test_images_and_resources_become_artifacts_with_a_handle() -> None:
    pixel = b"\x89PNG\r\n\x1a\n not really"
    async with serving({"ev": everything()}) as served:
        words, image, audio, note, blob, link = await served.call("ev_mixed")
        artifacts = served.servers.artifacts
    assert words == "look:"
    shown = {"name": "artifact.png", "media_type": "image/png", "bytes": len(pixel)}
    assert image == {"artifact": image["artifact"], **shown}
    kept = artifacts.get(image["artifact"])
    assert kept is not None
    assert (kept.data, kept.source) == (pixel, "ev.mixed")
    assert artifacts.get(audio) is not None
    assert note["text"] == "hello"
    assert note["uri"] == "note://1"
    by_note = artifacts.get(note)
    assert by_note is not None
    assert by_note.text == "hello"
    assert blob["uri"] == "note://2"
    assert "text" not in blob
    assert link == {"uri": "note://3", "name": "third"}


async def test_an_image_beside_structured_content_is_not_lost() -> None:
    async with serving({"ev": everything()}) as served:
        value = await served.call("ev_structured_image")
        assert value["width"] == 1
        assert served.servers.artifacts.get(value["artifacts"][0]) is not None


async def test_a_linked_resource_can_be_read() -> None:
    async with serving({"ev": everything()}) as served:
        (handle,) = await served.servers.read_resource("ev", "note://3")
        assert handle["text"] == "the third note"
        with pytest.raises(ToolError, match="server 'ev'"):
            await served.servers.read_resource("ev", "note://no")


async def test_an_error_of_a_tool_is_a_tool_error_with_its_words() -> None:
    async with serving({"ev": everything()}) as served:
        with pytest.raises(ToolError) as raised:
            await served.call("ev_fail", {"message": "the printer is on fire"})
    assert "the printer is on fire" in raised.value.message
    assert raised.value.tool == "ev_fail"
    assert not raised.value.retryable


async def test_arguments_are_checked_before_the_server_is_asked() -> None:
    async with serving({"ev": everything()}) as served:
        with pytest.raises(ToolError, match="unknown argument 'c'"):
            await served.call("ev_add", {"a": 1, "b": 2, "c": 3})


async def test_an_answer_that_is_no_mcp_fails_the_call_alone() -> None:
    async with serving({"s": hostile("wrong_answer")}) as served:
        for _ in range(2):
            with anyio.fail_after(10), pytest.raises(ToolError, match="server 's': ") as raised:
                await served.call("s_echo", {"text": "x"}, timeout_seconds=3)
            assert len(raised.value.message) < 400
        assert served.status("s").state == "running"


async def test_progress_is_passed_on() -> None:
    heard: list[tuple[float, float | None, str | None]] = []
    async with serving({"ev": everything()}) as served:
        token = listening.set(lambda *told: heard.append(told))
        try:
            assert await served.registry.get("ev_count").function(to=3) == "done"
        finally:
            listening.reset(token)
        await until(lambda: len(heard) == 3)
    assert sorted(heard) == [(1.0, 3.0, "number 1"), (2.0, 3.0, "number 2"), (3.0, 3.0, "number 3")]


async def test_a_time_limit_ends_the_call_and_the_server_is_told(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    async with serving({"ev": everything(EVERYTHING_NOTES=str(notes))}) as served:
        with anyio.fail_after(5), pytest.raises(ToolTimedOut, match=r"did not answer within 0\.5 s"):
            await served.call("ev_wait", {"seconds": 60}, timeout_seconds=0.5)
        await until(lambda: lines(notes) == ["wait began", "wait cancelled"])
        assert await served.call("ev_echo", {"text": "on"}) == "on"


async def test_cancelling_a_call_tells_the_server_which(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    async with serving({"s": hostile("tells_of_cancellation", HOSTILE_NOTES=str(notes))}) as served:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(served.call, "s_echo", {"text": "x"})
            await until(lambda: len(lines(notes)) == 1)
            tasks.cancel_scope.cancel()
        await until(lambda: len(lines(notes)) == 2)
        called, cancelled = lines(notes)
        assert cancelled.split() == ["cancelled", called.split()[1]]


async def test_a_server_that_does_not_read_cannot_hold_up_a_cancellation() -> None:
    async with serving({"s": hostile("never_reads")}) as served:
        big = "x" * 200_000  # more than a pipe holds
        began = anyio.current_time()
        async with anyio.create_task_group() as tasks:
            for _ in range(5):
                tasks.start_soon(_expect_timeout, served, big)
        assert anyio.current_time() - began < 10


async def _expect_timeout(served: Any, text: str) -> None:
    with pytest.raises(ToolTimedOut):
        await served.call("s_echo", {"text": text}, timeout_seconds=0.3)


async def test_calls_run_side_by_side(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    async with serving({"ev": everything(EVERYTHING_NOTES=str(notes))}) as served:
        results: list[Any] = []

        async def one(number: int) -> None:
            results.append(await served.call("ev_wait", {"seconds": 1, "label": str(number)}))

        began = anyio.current_time()
        async with anyio.create_task_group() as tasks:
            for number in range(20):
                tasks.start_soon(one, number)
        assert results == ["waited"] * 20
        assert anyio.current_time() - began < 19  # one after the other they would take 20


async def test_a_server_is_given_so_many_calls_at_once_as_its_configuration_says(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    config = {**everything(EVERYTHING_NOTES=str(notes)), "max_concurrent_calls": 3}
    async with serving({"ev": config, "other": everything()}) as served:
        await served.call("ev_echo", {"text": "the server is up"})
        async with anyio.create_task_group() as tasks:
            for number in range(8):
                tasks.start_soon(served.call, "ev_wait", {"seconds": 60, "label": str(number)})
            await until(lambda: len(lines(notes)) == 3)
            await served.call("other_echo", {"text": "another server has places of its own"})
            assert len(lines(notes)) == 3
            tasks.cancel_scope.cancel()
        assert await served.call("ev_wait", {"seconds": 0}) == "waited"
    assert sum("began" in line for line in lines(notes)) == 4


async def test_what_a_server_asks_of_its_client_is_refused_politely() -> None:
    async with serving({"s": hostile("asks")}) as served:
        told = await served.call("s_echo", {"text": "x"})
    assert told["q0"] == "result"  # a ping
    assert told["q1"] == "List roots not supported"
    assert told["q2"] == "Sampling not supported"
    assert told["q3"] == "Elicitation not supported"
    assert told["q4"] == "Method not found"


async def test_results_keep_to_the_runs_limit() -> None:
    async with serving({"ev": everything()}) as served:
        run = served.gate.open(caller="direct", limits=Limits(max_message_bytes=10_000))
        with pytest.raises(ToolError, match="max_message_bytes is 10000"):
            await run.call("ev_big", {"bytes": 20_000})
        assert json.loads(await run.call("ev_big", {"bytes": 5_000})) == "x" * 5_000


async def test_a_large_result_arrives_whole() -> None:
    async with serving({"ev": everything()}) as served:
        assert await served.call("ev_big", {"bytes": 8_000_000}) == "x" * 8_000_000


async def test_a_server_of_the_newest_protocol_is_spoken_to_in_it() -> None:
    async with serving({"s": hostile("only_modern")}) as served:
        assert "protocol 2026-07-28" in served.status("s").about
        assert await served.call("s_echo", {"text": "hello"}) == "hello"
        assert await served.call("s_echo", {"text": "later"}) == "later"
        with pytest.raises(ToolError, match="it asks for input before it goes on"):
            await served.call("s_echo", {"text": "ask"})
        await served.call("s_echo", {"text": "grow"})
        await until(lambda: "s_grown" in served.registry)


async def test_a_server_of_the_first_protocol_works() -> None:
    async with serving({"s": hostile("old_version")}) as served:
        assert "protocol 2024-11-05" in served.status("s").about
        assert await served.call("s_echo", {"text": "hello"}) == "hello"


async def test_a_server_that_ends_when_asked_too_early_works() -> None:
    async with serving({"s": hostile("dies_when_asked_too_early")}) as served:
        assert await served.call("s_echo", {"text": "hello"}) == "hello"
        assert served.status("s").restarts == 0
