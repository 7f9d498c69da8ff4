"""Definitions in each provider's form, held against the types of the providers' own SDKs."""

from __future__ import annotations

import functools
import json
from typing import Any

import mcp.types
import pytest
from anthropic.types import ToolChoiceParam, ToolParam, ToolResultBlockParam
from anthropic.types.beta import BetaToolParam
from openai.types.chat import (
    ChatCompletionFunctionToolParam,
    ChatCompletionToolChoiceOptionParam,
    ChatCompletionToolMessageParam,
)
from openai.types.responses import FunctionToolParam, ToolSearchToolParam
from openai.types.responses.response_input_item_param import FunctionCallOutput
from openai.types.responses.tool_choice_function_param import ToolChoiceFunctionParam
from openai.types.responses.tool_choice_options import ToolChoiceOptions
from pydantic import TypeAdapter

from callgate import Answer, ConfigurationError, Runtime, Tool, tool
from callgate.runtime.model.options import PROVIDERS

META = ["search_tools", "describe_tools", "execute_code", "execute_tool_plan"]


@tool(
    read_only=True,
    examples=[{"city": "Oslo"}, {"arguments": {"city": "Rome", "unit": "F"}}, {"town": "x"}, "get_weather('Oslo')"],
    limitations=["knows large cities only"],
)
async def get_weather(city: str, unit: str = "C") -> dict[str, int]:
    """Current weather."""
    return {"temp": len(city)}


@tool(destructive=True, requires_approval=True, allowed_callers=["direct"])
async def delete_everything(why: str) -> str:
    """Deletes everything."""
    return why


@tool(allowed_callers=["code"])
async def only_in_code(n: int) -> int:
    return n


@tool(allowed_callers=["plan"])
async def only_in_plans(n: int) -> int:
    return n


@tool(allowed_callers=[])
async def for_nobody() -> None: ...


TOOLS = [get_weather, delete_everything, only_in_code, only_in_plans, for_nobody]


def made(*tools: Any, sandbox: None = None) -> Runtime:
    return Runtime(tools or TOOLS, sandbox=sandbox)


def name_of(definition: dict[str, Any]) -> str:
    name: str = definition["function"]["name"] if "function" in definition else definition["name"]
    return name


@functools.cache
def adapter(shape: Any) -> TypeAdapter[Any]:
    return TypeAdapter(shape)


def fits(definition: dict[str, Any], shape: Any) -> None:
    """Valid for the SDK, and nothing in it that the SDK does not know."""
    known = adapter(shape).validate_python(definition)
    assert set(known) == set(definition)


def anthropics(definition: dict[str, Any]) -> None:
    fits(definition, ToolParam)
    fits(definition, BetaToolParam)


def openais(definition: dict[str, Any]) -> None:
    fits(definition, ChatCompletionFunctionToolParam)
    known = adapter(ChatCompletionFunctionToolParam).validate_python(definition)
    assert set(known["function"]) == set(definition["function"])


def responses(definition: dict[str, Any]) -> None:
    fits(definition, FunctionToolParam if definition["type"] == "function" else ToolSearchToolParam)


def mcps(definition: dict[str, Any]) -> None:
    known = mcp.types.Tool.model_validate(definition)
    assert known.model_dump(by_alias=True, exclude_none=True, mode="json") == definition


CHECK = {"anthropic": anthropics, "openai": openais, "openai-responses": responses, "mcp": mcps}


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"direct": "all"},
        {"direct": ["get_weather"], "meta": ["execute_code"]},
        {"meta": [], "direct": "all"},
        {"direct": "all", "tools": ["get_weather", "only_in_code"]},
        {"texts": {"execute_code": "Run it."}, "inline_characters": 0},
    ],
)
def test_definitions_are_what_the_sdk_takes(provider: Any, options: Any) -> None:
    definitions = made().tool_definitions(provider, **options)
    assert definitions
    for each in definitions:
        CHECK[provider](each)


@pytest.mark.parametrize("provider", ["anthropic", "openai", "openai-responses"])
def test_strict_and_deferred_and_programmatic_definitions_are_too(provider: Any) -> None:
    for each in made().tool_definitions(provider, direct="all", strict=True):
        CHECK[provider](each)
    code = {"anthropic": "code_execution_20260120", "openai-responses": "programmatic"}.get(provider)
    if code is not None:
        for each in made().tool_definitions(provider, direct="all", defer="all", programmatic=code):
            CHECK[provider](each)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_the_meta_tools_come_first_and_then_tools_sorted_by_name(provider: Any) -> None:
    names = [name_of(each) for each in made().tool_definitions(provider, direct="all")]
    assert names == [*META, "delete_everything", "get_weather"]


def test_only_tools_for_the_model_itself_get_definitions_of_their_own() -> None:
    runtime = made()
    assert [name_of(each) for each in runtime.tool_definitions("openai")] == META
    for name, who in [("only_in_code", "for: code"), ("for_nobody", "for nobody")]:
        with pytest.raises(ConfigurationError, match=f"may not call; it is {who}"):
            runtime.tool_definitions("openai", direct=[name])


def test_the_same_tools_give_the_same_bytes_in_any_order() -> None:
    one, other = made(*TOOLS), made(*reversed(TOOLS))
    for provider in PROVIDERS:
        first = json.dumps(one.tool_definitions(provider, direct="all"))
        assert first == json.dumps(other.tool_definitions(provider, direct=["get_weather", "delete_everything"]))
        assert first == json.dumps(one.tool_definitions(provider, direct="all"))


def test_definitions_are_the_callers_own_to_change() -> None:
    runtime = made()
    runtime.tool_definitions("anthropic", direct="all")[-1]["input_schema"]["properties"].clear()
    runtime.tool_definitions("mcp", direct="all")[-1]["inputSchema"]["properties"].clear()
    assert "city" in runtime.tool_definitions("anthropic", direct="all")[-1]["input_schema"]["properties"]
    assert "city" in get_weather.input_schema["properties"]


def test_definitions_follow_the_registry() -> None:
    runtime = made(get_weather)
    before = len(runtime.tool_definitions("anthropic", direct="all"))
    runtime.registry.add(delete_everything)
    assert len(runtime.tool_definitions("anthropic", direct="all")) == before + 1


def test_examples_that_are_no_arguments_are_left_out() -> None:
    definition = made().tool_definitions("anthropic", direct=["get_weather"], meta=[])[0]
    assert definition["input_examples"] == [{"city": "Oslo"}, {"city": "Rome", "unit": "F"}]
    described = made().tool_definitions("openai", direct=["get_weather"], meta=[])[0]["function"]["description"]
    assert 'Examples: {"city":"Oslo"}; {"city":"Rome","unit":"F"}' in described


def test_what_a_model_should_know_of_a_tool_stands_in_its_description() -> None:
    both = made().tool_definitions("mcp", direct="all", meta=[])
    described = {each["name"]: each["description"] for each in both}
    assert described["get_weather"].startswith("Current weather.\nLimitations: knows large cities only")
    assert described["delete_everything"] == "Deletes everything.\nA person is asked before each call."


def test_mcp_says_what_kind_of_tool_it_is() -> None:
    definitions = {each["name"]: each for each in made().tool_definitions("mcp", direct="all")}
    assert definitions["get_weather"]["annotations"] == {"readOnlyHint": True}
    assert definitions["delete_everything"]["annotations"] == {
        "readOnlyHint": False, "destructiveHint": True, "idempotentHint": False,
    }  # fmt: skip
    assert definitions["search_tools"]["annotations"]["readOnlyHint"]
    assert not definitions["execute_code"]["annotations"]["readOnlyHint"]


def test_running_code_reads_only_where_every_tool_does() -> None:
    execute_code = made(get_weather).tool_definitions("mcp", meta=["execute_code"])[0]
    assert execute_code["annotations"]["readOnlyHint"]
    drop = Tool.from_schema("drop", "", {"type": "object"}, lambda: None, destructive=True)
    also_deletes = made(get_weather, drop)
    annotations = also_deletes.tool_definitions("mcp", meta=["execute_code"])[0]["annotations"]
    assert annotations["destructiveHint"]
    assert not annotations["readOnlyHint"]


def test_mcp_output_schemas_are_objects() -> None:
    definitions = {each["name"]: each for each in made().tool_definitions("mcp", direct="all")}
    assert definitions["get_weather"]["outputSchema"]["type"] == "object"
    wrapped = definitions["delete_everything"]["outputSchema"]
    assert wrapped == {"type": "object", "properties": {"result": {"type": "string"}}, "required": ["result"]}


def test_anthropics_code_may_call_tools_for_code_and_only_these() -> None:
    definitions = {
        name_of(each): each
        for each in made().tool_definitions("anthropic", direct="all", programmatic="code_execution_20260120")
    }
    assert definitions["get_weather"]["allowed_callers"] == ["direct", "code_execution_20260120"]
    assert definitions["delete_everything"]["allowed_callers"] == ["direct"]
    assert definitions["only_in_code"]["allowed_callers"] == ["code_execution_20260120"]
    assert definitions["execute_code"]["allowed_callers"] == ["direct"]
    assert "only_in_plans" not in definitions
    assert (
        'Returns JSON: {"additionalProperties":{"type":"integer"},"type":"object"}'
        in (definitions["get_weather"]["description"])
    )


def test_openais_code_may_too_and_is_told_what_comes_back() -> None:
    definitions = {
        name_of(each): each
        for each in made().tool_definitions("openai-responses", direct="all", programmatic="programmatic")
    }
    assert definitions["get_weather"]["allowed_callers"] == ["direct", "programmatic"]
    assert definitions["get_weather"]["output_schema"] == get_weather.output_schema
    assert definitions["only_in_code"]["allowed_callers"] == ["programmatic"]


def test_no_tool_that_the_providers_code_calls_is_strict() -> None:
    definitions = made().tool_definitions(
        "anthropic", direct="all", meta=[], strict=True, programmatic="code_execution_20260120"
    )
    assert [name_of(each) for each in definitions if each.get("strict")] == ["delete_everything"]


def test_deferred_tools_are_marked_and_openai_gets_its_search() -> None:
    anthropic = made().tool_definitions("anthropic", direct="all", defer=["get_weather"])
    assert [name_of(each) for each in anthropic if each.get("defer_loading")] == ["get_weather"]
    openai = made().tool_definitions("openai-responses", direct="all", defer="all")
    assert [each["type"] for each in openai].count("tool_search") == 1
    assert {name_of(each) for each in openai if each.get("defer_loading")} == {"get_weather", "delete_everything"}


MISTAKES: list[tuple[str, dict[str, Any], str]] = [
    ("claude", {}, "there is no provider 'claude'; there are: anthropic, openai, openai-responses, mcp"),
    ("openai", {"dirct": "all"}, "no option 'dirct'; did you mean direct"),
    ("openai", {"direct": "get_weather"}, "direct is a list of names, or 'all'"),
    ("openai", {"direct": [3]}, "direct is a list of names"),
    ("openai", {"direct": ["get_wether"]}, "direct names the tool 'get_wether', which does not exist; did you mean"),
    ("openai", {"direct": ["get_weather"], "tools": ["only_in_code"]}, "'get_weather', which is not among tools"),
    ("openai", {"tools": ["nothing"]}, "tools names the tool 'nothing'"),
    ("openai", {"meta": ["run_code"]}, "no meta-tool 'run_code'; there are: search_tools, "),
    ("openai", {"texts": {"run_code": "x"}}, "no meta-tool 'run_code'"),
    ("openai", {"texts": {"execute_code": " "}}, "texts maps names of meta-tools to text"),
    ("openai", {"inline_characters": -1}, "inline_characters is a number of characters"),
    ("mcp", {"strict": True}, "MCP has no strict definitions"),
    ("openai", {"defer": "all"}, "openai does not defer tools; anthropic and openai-responses do"),
    ("anthropic", {"meta": [], "direct": "all", "defer": "all"}, "one tool at least that is not deferred"),
    ("openai", {"programmatic": "programmatic"}, "means nothing to openai"),
    ("anthropic", {"programmatic": "programmatic"}, "'code_execution_20260120'"),
]


@pytest.mark.parametrize(("provider", "options", "words"), MISTAKES)
def test_an_operators_mistake_is_told(provider: Any, options: Any, words: str) -> None:
    with pytest.raises(ConfigurationError) as told:
        made().tool_definitions(provider, **options)
    assert words in str(told.value)


def test_tool_choice_and_instructions_do_not_mind_what_one_provider_alone_knows() -> None:
    options: Any = {"direct": "all", "programmatic": "programmatic", "defer": "all"}
    assert made().tool_choice("openai-responses", "get_weather", **options)
    assert made().instructions(**options)
    with pytest.raises(ConfigurationError, match="has no tool 'only_in_code'"):
        made().tool_choice("openai-responses", "only_in_code", **options)
    conversation = made().conversation(**options)
    assert conversation.found == ()


# results


@pytest.mark.parametrize("ok", [True, False])
def test_results_are_what_the_sdk_takes(ok: bool) -> None:
    answer = Answer(name="get_weather", text="Error: no" if not ok else "{}", ok=ok)
    block = made().tool_result("anthropic", answer, "toolu_1")
    fits(block, ToolResultBlockParam)
    assert block.get("is_error", False) is not ok
    fits(made().tool_result("openai", answer, "call_1"), ChatCompletionToolMessageParam)
    fits(made().tool_result("openai-responses", answer, "call_1"), FunctionCallOutput)
    with pytest.raises(ConfigurationError, match=r"made by callgate\.mcp"):
        made().tool_result("mcp", answer, "1")


def test_anthropic_loads_deferred_tools_that_were_found() -> None:
    answer = Answer(name="search_tools", text="two tools", found=("get_weather", "only_in_code", "delete_everything"))
    block = made().tool_result("anthropic", answer, "toolu_1", direct="all", defer=["get_weather"])
    fits(block, ToolResultBlockParam)
    assert block["content"] == [{"type": "tool_reference", "tool_name": "get_weather"}]
    for options in ({}, {"direct": "all"}, {"direct": ["delete_everything"], "defer": ["get_weather"]}):
        given: Any = options
        assert made().tool_result("anthropic", answer, "toolu_1", **given)["content"] == "two tools"
    assert made().tool_result("openai-responses", answer, "c", direct="all", defer="all")["output"] == "two tools"


# tool choice

ANTHROPICS_CHOICE: list[tuple[str, bool | None, Any]] = [
    ("auto", None, {"type": "auto"}),
    ("required", None, {"type": "any"}),
    ("none", False, {"type": "none"}),
    ("auto", False, {"type": "auto", "disable_parallel_tool_use": True}),
    ("get_weather", True, {"type": "tool", "name": "get_weather", "disable_parallel_tool_use": False}),
    ("execute_code", None, {"type": "tool", "name": "execute_code"}),
]


@pytest.mark.parametrize(("choice", "parallel", "expected"), ANTHROPICS_CHOICE)
def test_tool_choice_for_anthropic(choice: str, parallel: bool | None, expected: Any) -> None:
    given = made().tool_choice("anthropic", choice, parallel=parallel, direct="all")
    assert given == {"tool_choice": expected}
    fits(given["tool_choice"], ToolChoiceParam)


@pytest.mark.parametrize("choice", ["auto", "required", "none", "get_weather", "search_tools"])
@pytest.mark.parametrize("parallel", [None, True, False])
def test_tool_choice_for_openai(choice: str, parallel: bool | None) -> None:
    chat = made().tool_choice("openai", choice, parallel=parallel, direct="all")
    TypeAdapter(ChatCompletionToolChoiceOptionParam).validate_python(chat["tool_choice"])
    answers = made().tool_choice("openai-responses", choice, parallel=parallel, direct="all")
    if choice in ("auto", "required", "none"):
        assert chat["tool_choice"] == answers["tool_choice"] == choice
        TypeAdapter(ToolChoiceOptions).validate_python(choice)
    else:
        assert chat["tool_choice"] == {"type": "function", "function": {"name": choice}}
        fits(answers["tool_choice"], ToolChoiceFunctionParam)
    for given in (chat, answers):
        assert given.get("parallel_tool_calls") is parallel
        assert ("parallel_tool_calls" in given) == (parallel is not None)


def test_a_tool_that_the_model_does_not_have_cannot_be_chosen() -> None:
    for choice, options in [("get_weather", {}), ("only_in_code", {"direct": "all"}), ("nothing", {}), ("any", {})]:
        with pytest.raises(ConfigurationError, match="has no tool"):
            made().tool_choice("openai", choice, **options)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="has no tool 'execute_code'"):
        made().tool_choice("openai", "execute_code", meta=["search_tools"])
    with pytest.raises(ConfigurationError, match="MCP has no tool choice"):
        made().tool_choice("mcp", "auto")
