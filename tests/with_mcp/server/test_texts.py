"""What a client's model is told by the server: true for what is offered."""

from __future__ import annotations

import pytest
from mcp import Client

from callgate import Runtime, tool
from callgate.mcp.server import Serving
from callgate.mcp.server.gateway import Gateway
from with_mcp.server.served import ERAS, text

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("era", ERAS)]


@tool(read_only=True)
async def add(a: int, b: int) -> int:
    """Add."""
    return a + b


async def told(era: str, sandbox: str | None, serving: Serving) -> tuple[str, str, dict[str, object]]:
    """The instructions, and the description and parameters of execute_code."""
    async with (
        Runtime([add], sandbox=sandbox, pool_size=0) as runtime,
        Client(Gateway(runtime, serving).server, mode=era) as client,
    ):
        tools = {each.name: each for each in (await client.list_tools()).tools}
        code = tools["execute_code"]
        return client.instructions or "", code.description or "", code.input_schema["properties"]


async def test_both_truths_of_sessions_stand_in_one_sentence(era: str) -> None:
    instructions, description, parameters = await told(era, "auto", Serving())
    assert "Each program starts afresh, unless it goes on in a session" in description
    assert "starts afresh." not in description
    assert "for a program that starts afresh" in str(parameters["session"])
    assert "where they name the same session" in instructions


async def test_without_a_sandbox_there_are_no_sessions(era: str) -> None:
    instructions, description, parameters = await told(era, None, Serving())
    assert "session" not in instructions + description
    assert list(parameters) == ["code"]
    assert "Python that is a graph of tool calls" in instructions


async def test_what_the_operator_chose_is_told_and_nothing_else(era: str) -> None:
    plain, direct, reveal = [
        (await told(era, None, serving))[0] for serving in (Serving(), Serving(direct=("add",)), Serving(reveal=True))
    ]
    assert "by themselves" not in plain
    assert "by themselves: for one or two quick calls" in direct
    assert "is added to the list" in reveal
    assert "is added" not in plain + direct


async def test_a_session_where_there_can_be_none_is_refused_in_words(era: str) -> None:
    async with (
        Runtime([add], sandbox=None) as runtime,
        Client(Gateway(runtime, Serving()).server, mode=era) as client,
    ):
        refused = await client.call_tool("execute_code", {"code": "await add(a=1, b=2)", "session": "new"})
        assert refused.is_error
        assert text(refused).startswith("Error: ")
        assert "sandbox" in text(refused)
