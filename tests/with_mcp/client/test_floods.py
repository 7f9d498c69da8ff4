"""Servers that send too much, or what cannot be read: the host keeps its memory and its other servers."""

from __future__ import annotations

import resource
from pathlib import Path
from typing import Any

import anyio
import pytest

from callgate import ToolError
from callgate.runtime.gate.events import listening
from with_mcp.client.served import hostile, serving, until

pytestmark = pytest.mark.anyio


def memory() -> int:
    """Bytes that this process holds."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


async def test_garbage_before_the_first_message_is_read_over_and_told() -> None:
    async with serving({"s": hostile("garbage_before")}) as served:
        assert await served.call("s_echo", {"text": "x"}) == "x"
    assert served.status("s").warnings == (
        "it wrote 5 lines to stdout that are not MCP messages; the first: Starting server on stdio...",
    )


async def test_garbage_between_messages_is_read_over() -> None:
    async with serving({"s": hostile("garbage_in_calls")}) as served:
        for _ in range(3):
            assert await served.call("s_echo", {"text": "x"}) == "answered"
        assert "not MCP messages; the first: debug: about to answer" in served.status("s").warnings[0]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("long", "a line of more than 33554432 bytes: ask for less"),
        ("deep", "a message that cannot be read: Invalid JSON: recursion limit exceeded at line 1 column "),
        ("list", "a message that cannot be read: it is JSON, but not a request, notification or answer"),
        ("cut", "a message that cannot be read: Invalid JSON: EOF while parsing"),
    ],
)
async def test_what_cannot_be_read_ends_the_connection_in_clear_words_and_it_comes_back(text: str, why: str) -> None:
    async with serving({"s": hostile("unreadable"), "ok": hostile("well")}) as served:
        before = memory()
        with anyio.fail_after(20), pytest.raises(ToolError) as raised:
            await served.call("s_echo", {"text": text})
        assert raised.value.message.startswith(f"server 's': it ended in the middle of the call: it sent {why}")
        assert memory() - before < 100 * 1024 * 1024
        assert await served.call("ok_echo", {"text": "x"}) == "x"
        assert await served.call("s_echo", {"text": "x"}) == "readable"  # waits for the restart
        assert served.status("s").restarts == 1


async def test_an_error_without_measure_is_cut_and_says_what_was_left_out() -> None:
    async with serving({"s": hostile("fails_at_length", API_KEY="no secret at all")}) as served:
        with pytest.raises(ToolError) as raised:
            await served.call("s_echo", {"text": "x"})
        message, data = raised.value.message, raised.value.data
    assert message.startswith("no no no ")
    assert message.endswith("0007 characters that came with it is left out)")
    assert len(message) < 66_000
    assert data is None


@pytest.mark.alone
@pytest.mark.parametrize("kind", ["flood", "flood_of_progress", "flood_of_garbage"])
async def test_a_flood_leaves_the_others_room(kind: str) -> None:
    heard: list[Any] = []
    async with serving({"s": hostile(kind), "ok": hostile("well")}) as served, anyio.create_task_group() as tasks:
        before = memory()
        tasks.start_soon(_expect_failure, served, heard)
        await until(lambda: len(heard) == 1)
        for number in range(50):
            assert await served.call("ok_echo", {"text": str(number)}) == str(number)
        assert memory() - before < 100 * 1024 * 1024
        assert served.status("s").state == "running"
        tasks.cancel_scope.cancel()


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


async def test_stderr_is_drained_and_its_newest_part_kept() -> None:
    async with serving({"s": hostile("flood_of_stderr")}) as served:
        assert await served.call("s_echo", {"text": "x"}) == "done"
        await until(lambda: served.status("s").stderr.endswith("the last line\n"))
        assert len(served.status("s").stderr) <= 16 * 1024
