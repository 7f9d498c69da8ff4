"""What servers list, as tools: names, annotations, schemas, and what is odd about them."""

from __future__ import annotations

import dataclasses

import pytest

from callgate import InvalidArguments, Tool
from callgate.mcp.client import connection
from with_mcp.client.served import everything, hostile, serving

pytestmark = pytest.mark.anyio


async def test_tools_come_under_the_name_of_their_server() -> None:
    async with serving({"ev": everything()}) as served:
        add = served.registry.get("ev_add")
        assert (add.server, add.server_tool, add.description) == ("ev", "add", "Add two numbers.")
        assert add.parameters == ("a", "b")
        assert served.registry.get("ev_get_value").server_tool == "get-value"
        assert served.status("ev").tools == tuple(sorted(tool.name for tool in served.registry))
        assert await served.call("ev_add", {"a": 2**53, "b": 1}) == {"result": 2**53 + 1}


async def test_annotations_are_mapped() -> None:
    async with serving({"ev": everything()}) as served:
        flags = {
            name: (tool.read_only, tool.idempotent, tool.destructive)
            for name in ("add", "weather", "get_value", "echo", "fail")
            for tool in [served.registry.get(f"ev_{name}")]
        }
    assert flags == {
        "add": (True, True, False),
        "weather": (False, True, False),
        "get_value": (False, False, True),
        "echo": (True, True, False),
        "fail": (False, False, True),  # says nothing: MCP's default is that it may destroy
    }


async def test_two_thousand_tools_are_imported() -> None:
    async with serving({"many": hostile("two_thousand_tools")}) as served:
        assert len(served.registry) == 2000
        assert served.registry.get("many_tool1999").parameters == ("query", "options")
        with pytest.raises(InvalidArguments, match="missing argument 'query'"):
            await served.call("many_tool7", {})


async def test_pages_are_put_together() -> None:
    async with serving({"s": hostile("pages")}) as served:
        assert len(served.registry) == 50
        assert "s_tool_4_9" in served.registry


@pytest.mark.parametrize(("kind", "tools"), [("tools_without_end", 0), ("tools_in_a_circle", 1)])
async def test_a_listing_that_does_not_end_is_taken_as_far_as_it_came(kind: str, tools: int) -> None:
    async with serving({"s": hostile(kind)}) as served:
        assert len(served.registry) == tools
        assert served.status("s").warnings == ("its list of tools does not end; it is taken as far as it came",)


async def test_of_a_listing_of_many_tools_what_fits_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "MAX_TOOLS", 25)
    async with serving({"s": hostile("pages")}) as served:
        assert len(served.registry) == 25
        assert served.status("s").warnings == (
            "it lists more than 25 tools or 33554432 bytes; the others are left out",
        )


async def test_of_a_listing_of_many_bytes_what_fits_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "MAX_LISTING_BYTES", 1_000)
    async with serving({"s": hostile("pages")}) as served:
        assert 0 < len(served.registry) < 25
        assert served.status("s").warnings == ("it lists more than 10000 tools or 1000 bytes; the others are left out",)


async def test_a_tool_whose_header_annotations_are_invalid_is_left_out() -> None:
    """2026-07-28: clients MUST; the session drops it."""
    async with serving({"s": hostile("wrong_headers")}) as served:
        assert served.status("s").tools == ("s_echo",)
        told = "the tool 'bad' is left out: its x-mcp-header annotations are invalid"
        assert served.status("s").warnings == (told,)


async def test_bad_tools_cost_nothing_but_themselves() -> None:
    async with serving({"s": hostile("bad_tools")}) as served:
        warnings = served.status("s").warnings
        kept = "invalid recursive endless deep enormous foreign pattern no_object text nothing boolean required"
        kept += " twice odd_hints no_hints wordy control not_words bad_output echo"
        assert sorted(tool.server_tool or "" for tool in served.registry) == sorted(kept.split())
        assert await served.call("s_echo", {"text": "still here"}) == "still here"
        for name in ("enormous", "no_object", "text", "boolean", "required"):
            assert served.registry.get(f"s_{name}").input_schema == {"type": "object"}, name
        assert served.registry.get("s_invalid").input_schema["properties"] == {"x": {}}
        assert served.registry.get("s_deep").input_schema["properties"] == {"x": {"type": "array"}}
        assert "n" in served.registry.get("s_recursive").input_schema["properties"]
        assert served.registry.get("s_foreign").input_schema["properties"] == {"x": {}}
        assert served.registry.get("s_pattern").input_schema["properties"] == {"mail": {"type": "string"}}
        assert not served.registry.get("s_odd_hints").read_only
        assert len(served.registry.get("s_wordy").description) == 8192 + 4
        assert served.registry.get("s_control").description == "red  [31m alert"
        assert served.registry.get("s_not_words").description == ""
        assert served.registry.get("s_bad_output").output_schema is None
    assert all(len(each) < 500 and each.isprintable() for each in warnings)
    said = "\n".join(warnings)
    assert "a tool without a name is left out" in said
    assert "the tool 'twice' is listed twice; the first is taken" in said
    assert "the tool 'text': its input schema is not an object; any arguments are passed on" in said
    assert "the tool 'invalid': the input schema is not a valid JSON Schema" in said
    assert "the tool 'foreign'" in said


async def test_hostile_names_become_plain_ones_and_reach_their_tools() -> None:
    async with serving({"s": hostile("bad_names")}) as served:
        names = {tool.server_tool: tool.name for tool in served.registry}
        assert len(names) == 17
        for theirs, ours in names.items():
            assert ours.isidentifier()
            assert len(ours) <= 128
            assert await served.call(ours) == theirs
        assert names["__class__"] == "s___class__"
        assert names["print"] == "s_print"
        assert names["get_x"] == "s_get_x"
        assert {names["get-x"], names["get.x"]} == {"s_get_x_2", "s_get_x_3"}
        assert names["search"] == "s_search"
        assert names["s\u0435arch"] != "s_search"


async def test_names_are_the_same_at_every_start() -> None:
    async def names() -> dict[str | None, str]:
        async with serving({"s": hostile("bad_names")}) as served:
            return {tool.server_tool: tool.name for tool in served.registry}

    assert await names() == await names()


async def test_two_servers_with_the_same_tools_are_told_apart() -> None:
    async with serving({"a b": hostile("well"), "a-b": hostile("well")}) as served:
        assert {tool.server for tool in served.registry} == {"a b", "a-b"}
        assert {tool.name for tool in served.registry} == {"a_b_echo", "a_b_echo_2"}


async def test_the_one_that_came_second_says_how_it_is_always_called() -> None:
    async with serving({"a b": hostile("well"), "a-b": hostile("well")}) as served:
        second = served.registry.get("a_b_echo_2").server
        assert second is not None
        assert served.status(second).warnings == (
            f"the tool 'echo' is called 'a_b_echo_2': an earlier tool has the name 'a_b_echo'; '{second}.echo' "
            "always means this one",
        )
        first = "a b" if second == "a-b" else "a-b"
        assert served.status(first).warnings == ()
        assert served.registry.resolve(f"{first}.echo") == "a_b_echo"
        assert served.registry.resolve(f"{second}.echo") == "a_b_echo_2"


async def test_the_operator_has_the_last_word_about_a_tool() -> None:
    def adjust(tool: Tool) -> Tool | None:
        if tool.server_tool == "die":
            return None
        if tool.server_tool == "add":
            raise RuntimeError("a mistake of the operator's")
        if tool.server_tool == "fail":
            return True  # type: ignore[return-value]
        return dataclasses.replace(tool, requires_approval=tool.destructive)

    async with serving({"ev": everything()}, adjust=adjust) as served:
        assert "ev_die" not in served.registry
        assert "ev_add" not in served.registry
        assert served.registry.get("ev_get_value").requires_approval
        assert not served.registry.get("ev_echo").requires_approval
        assert set(served.status("ev").warnings) == {
            "the tool 'add' is left out: adjust failed with RuntimeError",
            "the tool 'fail' is left out: adjust must return the tool, changed with dataclasses.replace, or None",
        }


async def test_a_tools_time_limit_comes_from_the_configuration() -> None:
    async with serving({"ev": {**everything(), "timeout": 7}}) as served:
        assert served.registry.get("ev_add").timeout_seconds == 7


async def test_nothing_is_left_in_the_registry() -> None:
    async with serving({"ev": everything()}) as served:
        assert len(served.registry) > 10
    assert len(served.registry) == 0
    assert served.status("ev").state == "stopped"
