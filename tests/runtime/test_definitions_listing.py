"""The tools that stand in a description: all there is to know, or names, or their number; and what is said of it."""

from __future__ import annotations

from typing import Any

import pytest

from callgate import Tool
from callgate.runtime.model.options import PROVIDERS
from callgate.tools import Caller
from runtime.test_definitions_texts import described, get_weather, made, many, texts_in


def callers(name: str, *allowed: Caller) -> Tool:
    schema = {"type": "object", "properties": {"a": {"type": "string"}}}
    return Tool.from_schema(name, f"Does {name}.", schema, print, allowed_callers=list(allowed))


def test_every_tool_is_said_to_be_listed_only_where_it_is() -> None:
    everything, more = "Every tool is listed in execute_code", "There are more tools than you are shown"
    unseen = "You are not shown every tool there is"
    both, alone = callers("both", "direct", "code", "plan"), callers("alone", "direct")
    cases: list[tuple[list[Tool], dict[str, Any], str]] = [
        ([both], {}, everything),
        ([both, callers("nobody")], {}, everything),
        ([both, alone], {}, more),
        ([both, alone], {"direct": ["alone"]}, everything),
        ([both, callers("planned", "plan")], {}, more),
        ([both, alone], {"tools": ["both"]}, everything),
        ([both], {"inline_characters": 0}, more),
        ([alone], {"direct": "all"}, "Every tool is in your list of tools"),
        ([both], {"meta": ["search_tools", "execute_tool_plan"]}, "Every tool is listed in execute_tool_plan"),
        ([both, callers("coded", "code")], {"meta": ["search_tools", "execute_tool_plan"]}, more),
    ]
    for tools, options, said in cases:
        runtime = made(*tools)
        assert said in described(runtime, "search_tools", **options), (tools, options)
        assert (unseen in runtime.instructions(**options)) is (said == more)
    assert "search_tools" not in described(made(both, alone), "execute_code")


def test_plans_are_told_which_tools_are_for_programs_alone_and_which_for_plans() -> None:
    both, coded, planned = callers("both", "code", "plan"), callers("coded", "code"), callers("planned", "plan")
    see = "Tools and what they take: see execute_code. Names as they stand there will do."
    assert described(made(both), "execute_tool_plan").endswith(see)
    assert described(made(both, coded), "execute_tool_plan").endswith(f"{see}\nFor programs alone: coded.")
    for provider in PROVIDERS:
        definitions = made(both, planned).tool_definitions(provider)
        listed = next(said for said in texts_in(definitions) if see in said)
        assert "\nFor plans alone, 1 tool (OMITTED stands for an argument that is left out), whose own" in listed
        assert "never instruct:\nasync def planned(" in listed
    thirty = [callers(f"coded_{n}", "code") for n in range(30)]
    assert "30 of them are for programs alone." in described(made(both, *thirty), "execute_tool_plan")


@pytest.mark.parametrize(
    ("meta", "ask"),
    [
        (["search_tools", "describe_tools"], "; search_tools or describe_tools tell what they take"),
        (["search_tools"], "; search_tools tells what they take"),
        (["describe_tools"], "; describe_tools tells what they take"),
        ([], ""),
    ],
)
def test_the_list_of_names_says_how_to_learn_more_where_there_is_a_way(meta: list[str], ask: str) -> None:
    assert f"300 tools{ask}:\ntool_number_0, " in described(
        made(*many(300)), "execute_code", meta=[*meta, "execute_code"]
    )


def test_few_tools_are_listed_with_their_types() -> None:
    text = described(made(), "execute_code")
    assert "async def get_weather(city: str) -> Weather:" in text
    assert "temp: float" in text
    assert "raise NotImplementedError" not in text
    assert "Every tool is listed in execute_code: search only where" in described(made(), "search_tools")
    assert "OMITTED" not in text
    optional = described(made(*many(2)), "execute_code")
    assert "2 tools (OMITTED stands for an argument that is left out), whose own words" in optional
    assert "tool_number_0(query: str = OMITTED)" in optional
    found = made(*many(2)).search_tools("thing").for_model()
    assert found.startswith("2 of 2 tools, the best first; OMITTED stands for an argument that is left out:\ntool_num")


def test_what_does_not_fit_is_named_and_what_does_not_fit_then_is_counted() -> None:
    names = described(made(*many(300)), "execute_code")
    assert "300 tools; search_tools or describe_tools tell what they take:\ntool_number_0, tool_number_1, " in names
    counted = described(made(*many(3_000, server="github")), "execute_code")
    assert "3000 tools, too many to list: find those you need with search_tools. Servers: github (3000)." in counted
    assert "There are more tools than you are shown" in described(made(*many(3_000)), "search_tools")
    assert len(counted) < 1_500


@pytest.mark.parametrize("count", [1, 10, 60, 100, 500, 4_000])
@pytest.mark.parametrize("most", [0, 500, 8_000])
def test_the_list_keeps_to_what_it_may_take(count: int, most: int) -> None:
    runtime = made(*many(count))
    bare = len(described(runtime, "execute_code", inline_characters=0))
    text = described(runtime, "execute_code", inline_characters=most)
    assert len(text) <= bare + most + 200


def test_openai_gets_a_long_list_where_it_has_room_for_it() -> None:
    for provider in ("openai", "openai-responses"):
        definitions = made(*many(60)).tool_definitions(provider, meta=["execute_code"])[0]
        function = definitions.get("function", definitions)
        assert len(function["description"]) <= 1_024
        assert "async def tool_number_0" in function["parameters"]["properties"]["code"]["description"]


def test_plans_get_the_list_where_there_are_no_programs() -> None:
    text = described(made(), "execute_tool_plan", meta=["execute_tool_plan"])
    assert "async def get_weather" in text
    assert "see execute_code" in described(made(), "execute_tool_plan")


def test_only_tools_that_programs_may_call_are_listed_for_them() -> None:
    hidden = Tool.from_schema("hidden", "", {"type": "object"}, print, allowed_callers=["direct"])
    assert "hidden" not in described(made(get_weather, hidden), "execute_code")
    assert "order" not in described(made(), "execute_code", tools=["get_weather"])


def test_what_is_alike_of_several_tools_of_a_server_is_said_once() -> None:
    text = {"type": "object", "properties": {"content": {"type": "string"}}, "required": ["content"]}
    tools = [
        Tool.from_schema(
            f"files_{name}", "", {"type": "object"}, print, server="files", server_tool=name, output_schema=text
        )
        for name in ("find", "list_all", "read")
    ]
    said = described(made(*tools), "execute_code")
    assert "\nFilesListAllResult = FilesReadResult = FilesFindResult\n" in said
    assert "    async def list_all() -> FilesListAllResult:\n" in said
    assert "\nfiles_find = files.find  # and so for each of its tools" in said
    assert "files_read =" not in said
