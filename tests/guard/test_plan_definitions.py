"""The definition of `execute_tool_plan`: a complete plan with a reference in it, the plan as one text, other names.

Held at the public API: definitions of all providers, calls of a model, conversations, and callgate as an MCP server.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from callgate import Runtime, Tool, tool

pytestmark = pytest.mark.anyio

PROVIDERS: Any = ["anthropic", "openai", "openai-responses", "mcp"]
PLAN = {"steps": [{"id": "a", "tool": "double", "arguments": {"n": 4}}]}


@tool(read_only=True)
async def double(n: int) -> int:
    """Twice n."""
    return 2 * n


def users(**options: Any) -> list[Tool]:
    """Two tools, of which one takes what the other one gives."""
    listed = {
        "type": "object",
        "properties": {"team": {"type": "string", "enum": ["red", "blue"]}},
        "required": ["team"],
    }
    found = {"type": "object", "properties": {"user_id": {"type": "string"}}, "required": ["user_id"]}
    one = {"type": "object", "properties": {"user_id": {"type": "string"}}, "required": ["user_id"]}

    async def leader(team: str) -> dict[str, str]:
        return {"user_id": f"u_{team}"}

    async def profile(user_id: str) -> str:
        return f"the profile of {user_id}"

    return [
        Tool.from_schema("team_leader", "Who leads a team.", listed, leader, output_schema=found, **options),
        Tool.from_schema("user_profile", "A profile.", one, profile, **options),
    ]


def definition(runtime: Runtime, provider: Any = "anthropic", **options: Any) -> dict[str, Any]:
    for each in runtime.tool_definitions(provider, **options):
        made: dict[str, Any] = each.get("function", each)
        if made["name"] == "execute_tool_plan":
            return made
    raise AssertionError("it is not among them")


def schema_of(made: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = made.get("input_schema") or made.get("parameters") or made.get("inputSchema") or {}
    return found


def example(made: dict[str, Any]) -> dict[str, Any]:
    """The plan that the description shows."""
    text = made["description"].partition("Example: ")[2]
    plan: dict[str, Any] = json.JSONDecoder().raw_decode(text)[0]
    return plan


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("as_text", [False, True])
async def test_the_definition_shows_one_complete_plan_with_a_reference(provider: Any, as_text: bool) -> None:
    async with Runtime(users(read_only=True), sandbox=None) as runtime:
        plan = example(definition(runtime, provider, plan_as_text=as_text))
        assert plan == {
            "steps": [
                {"id": "a", "tool": "team_leader", "arguments": {"team": "red"}},
                {"id": "b", "tool": "user_profile", "arguments": {"user_id": "$ref:a.user_id"}},
            ],
            "output_steps": ["b"],
        }
        result = await runtime.execute_tool_plan(plan)
        assert (result.ok, result.faults, result.outputs) == (True, [], {"b": "the profile of u_red"})


async def test_where_nothing_fits_by_name_the_plan_is_in_order_all_the_same() -> None:
    for tools in ([double], [users(read_only=True)[1]], [users(read_only=True)[0]]):
        runtime = Runtime(tools, sandbox=None)
        plan = example(definition(runtime))
        assert "$ref:" in json.dumps(plan)
        if "NAME_OF_TOOL" not in json.dumps(plan):
            assert runtime.check_plan(plan) == []


async def test_no_tool_that_could_do_harm_is_shown() -> None:
    for options in ({}, {"destructive": True}, {"read_only": True, "requires_approval": True}):
        shown = json.dumps(example(definition(Runtime(users(**options), sandbox=None), inline_characters=0)))
        assert "$ref:a" in shown
        assert "NAME_OF_TOOL" in shown
        assert "team_leader" not in shown


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("provider", PROVIDERS)
async def test_a_plan_may_be_one_text(provider: Any, strict: bool) -> None:
    async with Runtime([double], sandbox=None) as runtime:
        options: dict[str, Any] = {"plan_as_text": True, "strict": strict and provider != "mcp"}
        made = definition(runtime, provider, **options)
        schema = schema_of(made)
        assert list(schema["properties"]) == ["plan"]
        assert schema["properties"]["plan"]["type"] == "string"
        assert schema["required"] == ["plan"]
        assert schema["additionalProperties"] is False
        if options["strict"]:
            assert made["strict"] is True
        for given in ({"plan": json.dumps(PLAN)}, json.dumps({"plan": json.dumps(PLAN)}), {"plan": PLAN}, PLAN):
            answer = await runtime.answer("execute_tool_plan", given)
            assert (answer.ok, answer.text.splitlines()[-1]) == (True, "a: 8")


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_the_tools_are_listed_where_a_plan_is_one_text(provider: Any) -> None:
    metas: Any = (["execute_tool_plan"], ["execute_tool_plan", "execute_code"])
    for meta in metas:
        tools = [*users(read_only=True), double]
        definitions = Runtime(tools, sandbox=None).tool_definitions(provider, meta=meta, plan_as_text=True)
        assert "team_leader" in json.dumps(definitions)
        for each in definitions:
            said = each.get("function", each)["description"]
            assert len(said) <= 1_024 or not provider.startswith("openai")


async def test_a_conversation_is_told_once_how_its_plans_come() -> None:
    runtime = Runtime([double], sandbox=None)
    conversation = runtime.conversation(plan_as_text=True)
    (made,) = [each for each in conversation.tool_definitions("anthropic") if each["name"] == "execute_tool_plan"]
    assert list(made["input_schema"]["properties"]) == ["plan"]


async def test_a_plan_that_was_cut_in_its_text_is_told_so() -> None:
    async with Runtime([double], sandbox=None) as runtime:
        text = await runtime.handle("execute_tool_plan", {"plan": json.dumps(PLAN)[:-9]})
        assert "it was probably cut by the token limit" in text


@pytest.mark.parametrize("given", [PLAN, json.dumps(PLAN), {"plan": json.dumps(PLAN)}], ids=str)
async def test_execute_plan_is_understood_as_execute_tool_plan(given: Any) -> None:
    async with Runtime([double], sandbox=None) as runtime:
        answer = await runtime.answer("execute_plan", given)
        assert (answer.ok, answer.name, answer.text.splitlines()[-1]) == (True, "execute_tool_plan", "a: 8")
        assert await runtime.handle("execute_plan", given) == answer.text
        async with runtime.conversation() as conversation:
            assert await conversation.handle("execute_plan", given) == answer.text


async def test_a_model_without_plans_is_told_nothing_of_them() -> None:
    async with Runtime([double], sandbox=None) as runtime:
        for said in (
            await runtime.handle("execute_plan", PLAN, meta=["execute_code"]),
            await runtime.conversation(meta=["search_tools"]).handle("execute_plan", PLAN),
        ):
            assert said.startswith("Error: there is no tool 'execute_plan'")
            assert "execute_tool_plan" not in said


async def test_a_tool_of_that_name_is_that_tool() -> None:
    own = Tool.from_schema("execute_plan", "Runs a plan of ours.", {"type": "object"}, lambda **_: "ours")
    async with Runtime([own, double], sandbox=None) as runtime:
        assert await runtime.handle("execute_plan", {}) == "ours"


async def test_a_plan_still_cannot_run_a_plan_by_either_name() -> None:
    runtime = Runtime([double], sandbox=None)
    for name in ("execute_plan", "execute_tool_plan"):
        (fault,) = runtime.check_plan({"steps": [{"id": "a", "tool": name, "arguments": PLAN}]})
        assert fault.code == "recursive-plan"
