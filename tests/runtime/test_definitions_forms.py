"""Definitions beside what the golden files show: order, copies, mistakes of the operator, results, choices."""

from __future__ import annotations

import json
from typing import Any

import pytest
from anthropic.types import ToolResultBlockParam
from openai.types.chat import ChatCompletionToolMessageParam
from openai.types.responses.response_input_item_param import FunctionCallOutput

from callgate import Answer, ConfigurationError
from callgate.runtime.model.providers import PROVIDERS
from runtime.definitions import META, OF_EACH_KIND, delete_everything, fits, get_weather, made, name_of


def test_only_tools_for_the_model_itself_get_definitions_of_their_own() -> None:
    runtime = made()
    assert [name_of(each) for each in runtime.tool_definitions("openai")] == META
    for name, who in [("only_in_code", "for: code"), ("for_nobody", "for nobody")]:
        with pytest.raises(ConfigurationError, match=f"may not call; it is {who}"):
            runtime.tool_definitions("openai", direct=[name])


def test_the_same_tools_give_the_same_bytes_in_any_order() -> None:
    one, other = made(), made(*reversed(OF_EACH_KIND))
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


def test_a_provider_that_does_not_exist_is_told() -> None:
    runtime, unknown = made(), "openia"
    with pytest.raises(ConfigurationError, match="there is no provider 'openia'; there are: anthropic, "):
        runtime.tool_choice(unknown, "auto")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="there is no provider 'openia'; there are: anthropic, "):
        runtime.tool_result(unknown, Answer(name="get_weather", text="5"), "call_1")  # type: ignore[arg-type]


def test_tool_choice_and_instructions_do_not_mind_what_one_provider_alone_knows() -> None:
    options: Any = {"direct": "all", "programmatic": "programmatic", "defer": "all"}
    assert made().tool_choice("openai-responses", "get_weather", **options)
    assert made().instructions(**options)
    with pytest.raises(ConfigurationError, match="has no tool 'only_in_code'"):
        made().tool_choice("openai-responses", "only_in_code", **options)
    conversation = made().conversation(**options)
    assert conversation.found == ()


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


def test_a_tool_that_the_model_does_not_have_cannot_be_chosen() -> None:
    for choice, options in [("get_weather", {}), ("only_in_code", {"direct": "all"}), ("nothing", {}), ("any", {})]:
        with pytest.raises(ConfigurationError, match="has no tool"):
            made().tool_choice("openai", choice, **options)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="has no tool 'execute_code'"):
        made().tool_choice("openai", "execute_code", meta=["search_tools"])
    with pytest.raises(ConfigurationError, match="MCP has no tool choice"):
        made().tool_choice("mcp", "auto")
