"""Servers that send too much, or what is no message: the host keeps its memory and its other servers."""

from __future__ import annotations

import resource
import time
from pathlib import Path
from typing import Any

import anyio
import pytest

from callgate import ToolError
from callgate.mcp.client import stdio
from callgate.runtime.gate.events import listening
from pace import stretched
from with_mcp.client.served import hostile, serving, until

pytestmark = pytest.mark.anyio


def memory() -> int:
    """Bytes that this process holds."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


async def test_garbage_before_the_first_message_is_read_over_and_told() -> None:
    async with serving({"s": hostile("garbage_before")}) as served:
        assert await served.call("s_echo", {"text": "x"}) == "x"
    assert served.status("s").warnings == (
        "it wrote 5 lines to stdout that are no MCP messages; the first: Starting server on stdio...",
    )


async def test_garbage_between_messages_is_read_over() -> None:
    async with serving({"s": hostile("garbage_in_calls")}) as served:
        for _ in range(3):
            assert await served.call("s_echo", {"text": "x"}) == "answered"
        assert "no MCP messages; the first: debug: about to answer" in served.status("s").warnings[0]


async def test_garbage_without_end_ends_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stdio, "MAX_GARBAGE_BYTES", 1024 * 1024)
    async with serving({"s": hostile("garbage_without_end"), "ok": hostile("well")}, ready_seconds=0) as served:
        await until(lambda: served.status("s").error is not None)
        assert served.status("s").error == "it sent more than 1048576 bytes that are no MCP messages"
        await served.until("ok", "running")
        assert await served.call("ok_echo", {"text": "x"}) == "x"


@pytest.mark.parametrize("where", ["first", "last"])
async def test_an_answer_that_is_too_long_fails_its_call_and_no_other(where: str) -> None:
    async with serving({"s": hostile("huge_line", HOSTILE_ID=where)}) as served:
        assert await served.call("s_echo", {"text": "0"}) == "small"
        before = memory()
        with pytest.raises(ToolError, match=r"the answer has \d+ bytes; at most 33554432 are taken: ask for less"):
            await served.call("s_echo", {"text": "200"})
        assert memory() - before < 100 * 1024 * 1024
        assert await served.call("s_echo", {"text": "0"}) == "small"
        assert served.status("s").restarts == 0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("many 700000", "the answer has more than 1000000 values: ask for less"),
        ("deep 400", "the answer is nested more than 200 levels deep"),
        ("deep 500000", "the answer is nested more than 200 levels deep"),
    ],
)
async def test_an_answer_of_too_many_values_or_levels_fails_its_call_and_no_other(text: str, message: str) -> None:
    async with serving({"s": hostile("strange_values")}) as served:
        before = memory()
        with pytest.raises(ToolError) as raised:
            await served.call("s_echo", {"text": text})
        assert raised.value.message == f"server 's': {message}"
        assert memory() - before < 50 * 1024 * 1024
        assert await served.call("s_echo", {"text": "deep 100"})
        assert served.status("s").restarts == 0


async def test_an_error_without_measure_is_cut_and_says_what_was_left_out() -> None:
    async with serving({"s": hostile("fails_at_length", API_KEY="no secret at all")}) as served:
        with pytest.raises(ToolError) as raised:
            await served.call("s_echo", {"text": "x"})
        message, data = raised.value.message, raised.value.data
    assert message.startswith("no no no ")
    assert message.endswith("... (data of 200007 characters that came with it is left out)")
    assert len(message) < 66_000
    assert data is None


async def test_a_line_without_end_ends_the_server_and_takes_no_memory() -> None:
    async with serving({"s": hostile("line_without_end")}) as served:
        before = memory()
        with pytest.raises(ToolError, match="it sent a line of more than 268435456 bytes"):
            await served.call("s_echo", {"text": "x"})
        assert memory() - before < 100 * 1024 * 1024
        await until(lambda: served.status("s").restarts == 1)


FLOODS = ("flood", "flood_of_progress", "flood_of_large_notifications", "flood_of_empty_lines", "flood_of_answers")


@pytest.mark.alone
@pytest.mark.parametrize("kind", FLOODS)
async def test_a_flood_leaves_the_others_room(kind: str) -> None:
    heard: list[Any] = []
    async with serving({"s": hostile(kind), "ok": hostile("well")}) as served, anyio.create_task_group() as tasks:
        before = memory()
        tasks.start_soon(_expect_failure, served, heard)
        await until(lambda: len(heard) == 1)
        began = anyio.current_time()
        busy = time.process_time()
        for number in range(50):
            assert await served.call("ok_echo", {"text": str(number)}) == str(number)
            await anyio.sleep(0.02)  # a second in all: that is how long the flood is looked at
        assert anyio.current_time() - began < 60
        assert time.process_time() - busy < stretched(5)
        assert memory() - before < 100 * 1024 * 1024
        assert served.status("s").state == "running"
        tasks.cancel_scope.cancel()


@pytest.mark.parametrize("kind", ["notification_of_many_values", "answer_of_many_values_to_no_request"])
async def test_many_values_that_nobody_asked_for_end_the_server(kind: str) -> None:
    async with serving({"s": hostile(kind)}) as served:
        with pytest.raises(ToolError, match="it sent a message of more than 50000 values that nobody asked for"):
            await served.call("s_echo", {"text": "x"})


async def _expect_failure(served: Any, heard: list[Any]) -> None:
    listening.set(lambda *told: None)
    heard.append("it is called")
    await served.registry.get("s_echo").function(text="x")
    raise AssertionError("it never answers")


async def test_a_flood_of_list_changes_is_one_listing_a_second() -> None:
    async with serving({"s": hostile("flood_of_list_changes")}) as served:
        before = served.registry.tools()
        for _ in range(3):
            assert await served.call("s_echo", {"text": "x"}) == "flooding"
        assert served.registry.tools() is before


async def test_a_flood_of_requests_ends_the_server() -> None:
    async with serving({"s": hostile("flood_of_requests")}) as served:
        before = memory()
        with anyio.fail_after(30), pytest.raises(ToolError, match="server 's': it ended in the middle of the call"):
            await served.call("s_echo", {"text": "x"})
        assert memory() - before < 100 * 1024 * 1024
        await until(lambda: "requests without waiting" in (served.status("s").error or ""))


async def test_stderr_is_drained_and_its_newest_part_kept() -> None:
    async with serving({"s": hostile("flood_of_stderr")}) as served:
        assert await served.call("s_echo", {"text": "x"}) == "done"
        await until(lambda: served.status("s").stderr.endswith("the last line\n"))
        assert len(served.status("s").stderr) <= 16 * 1024


def test_lines_come_out_as_they_went_in_whatever_the_chunks() -> None:
    text = b"".join(b"%d-%s\n" % (n, b"x" * (n * 7 % 50)) for n in range(200)) + b"rest"
    for size in (1, 2, 3, 7, 64, 1000, len(text)):
        lines = stdio._Lines()
        found = [line.text for at in range(0, len(text), size) for line in lines.feed(text[at : at + size])]
        assert found == text.split(b"\n")[:-1]


@pytest.mark.parametrize(
    ("line", "request_id"),
    [
        (b'{"jsonrpc":"2.0","id":7,"result":{"content":', 7),
        (b'{"jsonrpc": "2.0", "id": 7, "error": {', 7),
        (b'{"id":7,"jsonrpc":"2.0","result":{', 7),
        (b'{"result":{"a":"' + b"x" * 1000 + b'"},"jsonrpc":"2.0","id":7}', 7),
        (b'{"jsonrpc":"2.0","result":{"a":"' + b"x" * 1000 + b'"},"id":7}', 7),
        (b'{"result":{"a":"' + b"x" * 1000 + b'"},"id":7,"jsonrpc":"2.0"}', 7),
        (b'{"jsonrpc":"2.0","id":7,"method":"ping","params":{', None),
        (b'{"method":"x","params":"' + b"x" * 1000 + b'","jsonrpc":"2.0","id":7}', None),
        (b'{"jsonrpc":"2.0","method":"notifications/message","params":{"id":7,"result":', None),
        (b"x" * 1000, None),
        (b"", None),
    ],
)
def test_the_request_that_a_long_line_answers_is_found_at_its_ends(line: bytes, request_id: int | None) -> None:
    assert stdio._Line(line, len(line), True).request == request_id
