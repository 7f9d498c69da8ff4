"""What a client sees, and what calls give: text for the model, and structure that fits the schema."""

from __future__ import annotations

import json
from typing import Any

import jsonschema_rs
import pytest
from mcp import Client
from mcp_types import CallToolResult, Tool

from with_mcp.server.served import ERAS, Served, text

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("era", ERAS)]

META = ["search_tools", "describe_tools", "execute_code", "execute_tool_plan"]


async def fitting(client: Client, name: str, arguments: dict[str, Any]) -> CallToolResult:
    """The result of a call, whose structure fits the tool's output schema."""
    tool = next(each for each in (await client.list_tools()).tools if each.name == name)
    result = await client.call_tool(name, arguments)
    assert tool.output_schema is not None
    jsonschema_rs.validate(tool.output_schema, result.structured_content)
    return result


async def listed(client: Client) -> dict[str, Tool]:
    return {tool.name: tool for tool in (await client.list_tools()).tools}


async def test_a_client_sees_four_tools(served: Served, era: str) -> None:
    async with served.client(era=era) as client:
        assert list(await listed(client)) == META
        assert client.instructions is not None
        assert "search_tools" in client.instructions


async def test_hints_go_by_what_the_tools_are(served: Served, era: str) -> None:
    async with served.client(era=era) as client:
        tools = await listed(client)
    hints = {name: tool.annotations for name, tool in tools.items()}
    for name in ("search_tools", "describe_tools"):
        assert (hint := hints[name]) is not None
        assert (hint.read_only_hint, hint.destructive_hint, hint.open_world_hint) == (True, False, False)
    for name in ("execute_code", "execute_tool_plan"):
        assert (hint := hints[name]) is not None
        assert (hint.read_only_hint, hint.destructive_hint, hint.open_world_hint) == (False, True, True)
    (served.folder / "tools.py").write_text(
        "from callgate import tool\n@tool(read_only=True)\ndef one() -> int:\n    '''One.'''\n    return 1\n"
    )
    async with served.client(era=era) as client:
        hint = (await listed(client))["execute_code"].annotations
    assert hint is not None
    assert (hint.read_only_hint, hint.destructive_hint) == (True, False)


async def test_a_plan_that_a_client_calls_by_another_name_is_a_plan(served: Served, era: str) -> None:
    steps = [{"id": "a", "tool": "get_weather", "arguments": {"city": "Oslo"}}]
    async with served.client(era=era) as client:
        result = await client.call_tool("execute_plan", {"plan": json.dumps({"steps": steps})})
        same = await client.call_tool("execute_tool_plan", {"steps": steps})
        assert not result.is_error
        assert text(result) == text(same)
        assert result.structured_content is not None
        assert result.structured_content["outputs"] == same.structured_content["outputs"]


async def test_a_program_gives_text_and_structure(served: Served, era: str) -> None:
    async with served.client(era=era) as client:
        result = await fitting(
            client, "execute_code", {"code": "print('seen')\nw = await get_weather(city='Oslo')\nw['temp'] + 1"}
        )
    assert not result.is_error
    assert text(result) == "seen\nValue: 5"
    given = result.structured_content
    assert (given["ok"], given["value"], given["logs"], given["session"]) == (True, 5, "seen\n", None)
    assert [(call["tool"], call["status"]) for call in given["calls"]] == [("get_weather", "succeeded")]


async def test_a_program_that_fails_says_why(served: Served, era: str) -> None:
    async with served.client(era=era) as client:
        result = await fitting(client, "execute_code", {"code": "while True:\n    1 / 0"})
    assert result.is_error
    assert "ZeroDivisionError" in text(result)
    assert result.structured_content["error"]["kind"] == "ZeroDivisionError"


async def test_a_plan_gives_text_and_structure(served: Served, era: str) -> None:
    steps = [
        {"id": "all", "tool": "names", "arguments": {}},
        {"id": "each", "tool": "get_weather", "for_each": "$ref:all", "arguments": {"city": "$item"}},
    ]
    async with served.client(era=era) as client:
        result = await fitting(client, "execute_tool_plan", {"steps": steps, "output_steps": ["each"]})
        refused = await fitting(client, "execute_tool_plan", {"steps": [{"id": "a", "tool": "get_wether"}]})
    assert result.structured_content["outputs"] == {"each": [{"temp": 4}, {"temp": 4}]}
    assert refused.is_error
    assert "get_weather" in text(refused)


async def test_tools_are_found_and_described(served: Served, era: str) -> None:
    async with served.client(era=era) as client:
        found = await fitting(client, "search_tools", {"query": "current weather"})
        described = await fitting(client, "describe_tools", {"names": ["get_weather"]})
    assert text(found).index("get_weather") < len(text(found))
    assert found.structured_content["found"]
    assert "city" in text(described)


async def test_one_search_may_be_for_several_steps(served: Served, era: str) -> None:
    async with served.client(era=era) as client:
        found = await fitting(client, "search_tools", {"query": ["current weather", "wipe a table"]})
        assert (await client.call_tool("search_tools", {"query": ["current weather", ""]})).is_error
    queries = [each["query"] for each in found.structured_content["found"]]
    assert queries == ["current weather", "wipe a table"]


async def test_what_a_model_gets_wrong_is_answered_in_words(served: Served, era: str) -> None:
    async with served.client(era=era) as client:
        for name, arguments, word in (
            ("execute_code", {}, "code"),
            ("execute_code", {"code": 5}, "code"),
            ("execute_code", {"code": "1", "cod": "1"}, "cod"),
            ("execute_code", {"code": "1", "session": 5}, "session"),
            ("search_tools", {"query": "["}, ""),
            ("search_tools", {"query": "(", "regex": True}, "("),
            ("describe_tools", {"names": ["get_wether"]}, "get_weather"),
            ("nothing_like_it", {}, "nothing_like_it"),
            ("wipe", {"table": "a"}, "wipe"),
        ):
            result = await client.call_tool(name, arguments)
            assert word in text(result)
            if word and name != "describe_tools":
                assert result.is_error, (name, arguments)
    assert not (served.folder / "wiped").exists()


async def test_what_a_tool_raises_stays_on_the_host(served: Served, era: str) -> None:
    async with served.client(era=era) as client:
        result = await client.call_tool("execute_code", {"code": "await get_weather('crash')"})
        assert result.is_error
        assert "secret" not in str(result)
    assert "a secret of the host" in served.log


async def test_surrogates_and_large_numbers_do_no_harm(served: Served, era: str) -> None:
    async with served.client(era=era) as client:
        odd = await client.call_tool("execute_code", {"code": "print('\\ud800')\nimport sys\n['\\ud800', 2**70]"})
        assert odd.structured_content["value"] == ["?", 2**70]
        long = await client.call_tool("execute_code", {"code": "import sys\nprint('x' * 500_000)\n'y' * 500_000"})
        assert len(str(long.structured_content)) < 40_000
        assert set(long.structured_content["truncated"]) >= {"logs", "value"}
