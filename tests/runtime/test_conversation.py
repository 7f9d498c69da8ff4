"""Conversations: what a model finds becomes visible to it and to nobody else, and goes on from a state."""

from __future__ import annotations

import itertools
import json
from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest

from callgate import ConfigurationError, Runtime
from callgate.runtime.discovery.memory import MAX_FOUND, MAX_SEARCHES, ConversationState
from callgate.runtime.model.providers import PROVIDERS
from runtime.conftest import opened
from runtime.conversing import META, TOOLS, named

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
async def runtime(anyio_backend: str) -> AsyncIterator[Runtime]:
    async with opened(*TOOLS, pool_size=1) as entered:
        yield entered


# filter


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_only_what_was_found_is_visible(runtime: Runtime, provider: Any) -> None:
    """The filter pattern of the reference: all registered, only the search visible, then what it found as well."""
    conversation = runtime.conversation(meta=["search_tools"])
    assert named(conversation.tool_definitions(provider)) == ["search_tools"]
    answer = await conversation.answer("search_tools", {"query": "weather", "limit": 3})
    assert answer.tools_changed
    assert "From your next turn on you can also call: " in answer.text
    visible = named(conversation.tool_definitions(provider))
    assert visible[0] == "search_tools"
    assert set(visible[1:]) == {"get_weather", "get_forecast"}
    assert await conversation.handle("get_weather", {"city": "Tokyo"}) == "sunny in Tokyo"


async def test_what_was_not_found_cannot_be_called(runtime: Runtime) -> None:
    conversation = runtime.conversation()
    refused = await conversation.answer("send_mail", {"to": "x"})
    assert refused.text == (
        "Error: the tool 'send_mail' is not in your list of tools; search_tools makes the tools that it finds part of "
        "your list"
    )
    assert (refused.ok, refused.mistake) == (False, True)
    await conversation.handle("search_tools", {"query": "send a mail"})
    assert await conversation.handle("send_mail", {"to": "x"}) == "sent to x"


async def test_described_tools_are_found_too(runtime: Runtime) -> None:
    conversation = runtime.conversation()
    assert (await conversation.answer("describe_tools", {"names": ["send_mail"]})).tools_changed
    assert conversation.found == ("send_mail",)
    again = await conversation.answer("describe_tools", {"names": ["send_mail"]})
    assert not again.tools_changed
    assert "list of tools has changed" not in again.text


async def test_direct_tools_are_visible_from_the_start(runtime: Runtime) -> None:
    conversation = runtime.conversation(direct=["send_mail"])
    assert named(conversation.tool_definitions("openai")) == [*META, "send_mail"]
    assert await conversation.handle("send_mail", {"to": "x"}) == "sent to x"
    found = await conversation.answer("search_tools", {"query": "electronic mail", "limit": 1})
    assert found.found == ("send_mail",)
    assert not found.tools_changed


async def test_tools_for_programs_alone_are_found_and_stay_there(runtime: Runtime) -> None:
    conversation = runtime.conversation()
    answer = await conversation.answer("search_tools", {"query": "weather of past years", "limit": 1})
    assert answer.found == ("weather_archive",)
    assert not answer.tools_changed
    assert "call it in a program" in await conversation.handle("weather_archive", {"year": 1})
    assert await conversation.handle("execute_code", {"code": "await weather_archive(1999)"}) == "Value: 1999"


async def test_conversations_know_nothing_of_each_other(runtime: Runtime) -> None:
    one, other = runtime.conversation(), runtime.conversation()
    await one.handle("search_tools", {"query": "weather"})
    assert one.found
    assert other.found == ()
    assert named(other.tool_definitions("anthropic")) == META
    assert named(runtime.tool_definitions("anthropic")) == META
    assert "not in your list" in await other.handle("get_weather", {"city": "x"})


async def test_found_tools_come_last_so_that_what_stands_before_stays_as_it_was(runtime: Runtime) -> None:
    conversation = runtime.conversation()
    lists = [conversation.tool_definitions("anthropic")]
    for query in ("electronic mail", "forecast", "current weather of a city"):
        await conversation.handle("search_tools", {"query": query, "limit": 1})
        lists.append(conversation.tool_definitions("anthropic"))
    for before, after in itertools.pairwise(lists):
        assert json.dumps(after).startswith(json.dumps(before)[:-1])
    assert named(lists[-1])[4:] == ["send_mail", "get_forecast", "get_weather"]


async def test_an_allow_list_holds_in_a_conversation(runtime: Runtime) -> None:
    conversation = runtime.conversation(tools=["get_weather"])
    answer = await conversation.answer("search_tools", {"query": "weather forecast mail"})
    assert answer.found == ("get_weather",)
    assert "not among the tools" in await conversation.handle("send_mail", {"to": "x"})
    assert not (await conversation.answer("execute_code", {"code": "await send_mail('x')"})).ok
    with pytest.raises(ConfigurationError, match="a conversation keeps its tools"):
        conversation.tool_definitions("mcp", tools=["send_mail"])


async def test_a_meta_tool_that_the_model_was_not_given_it_cannot_call(runtime: Runtime) -> None:
    conversation = runtime.conversation(meta=["search_tools"])
    for name in ("execute_code", "execute_tool_plan"):
        answer = await conversation.answer(name, {"code": "1"})
        assert answer.text == f"Error: {name} is not in your list of tools"
        assert (answer.ok, answer.mistake) == (False, True)
    for option in ("direct", "meta"):
        given: Any = {option: []}
        with pytest.raises(ConfigurationError, match=f"a conversation keeps its {option}"):
            conversation.tool_definitions("mcp", **given)


async def test_tool_choice_and_instructions_are_those_of_the_conversation(runtime: Runtime) -> None:
    conversation = runtime.conversation()
    with pytest.raises(ConfigurationError, match="has no tool 'send_mail'"):
        conversation.tool_choice("openai", "send_mail")
    await conversation.handle("describe_tools", {"names": ["send_mail"]})
    assert conversation.tool_choice("anthropic", "send_mail", parallel=False) == {
        "tool_choice": {"type": "tool", "name": "send_mail", "disable_parallel_tool_use": True}
    }
    assert "find the tool, then call it itself" in conversation.instructions()
    texts = {each["name"]: each["description"] for each in conversation.tool_definitions("anthropic")}
    assert "called like any other tool from your next turn on" in texts["search_tools"]


async def test_a_conversation_that_does_not_grow_only_remembers(runtime: Runtime) -> None:
    conversation = runtime.conversation(grows=False)
    before = conversation.tool_definitions("mcp")
    answer = await conversation.answer("search_tools", {"query": "electronic mail", "limit": 1})
    assert answer.found == ("send_mail",)
    assert not answer.tools_changed
    assert "list of tools" not in answer.text
    assert conversation.tool_definitions("mcp") == before == runtime.tool_definitions("mcp")
    assert conversation.found == ()
    refused = await conversation.handle("send_mail", {"to": "x"})
    assert refused == "Error: the tool 'send_mail' is not in your list of tools"
    assert conversation.state()["searches"][0]["found"] == ["send_mail"]


async def test_parallel_calls_of_one_turn_find_together(runtime: Runtime) -> None:
    conversation = runtime.conversation()
    async with anyio.create_task_group() as tasks:
        for name in ("send_mail", "get_weather", "get_forecast"):
            tasks.start_soon(conversation.handle, "describe_tools", {"names": [name]})
    assert set(conversation.found) == {"send_mail", "get_weather", "get_forecast"}


# state


async def test_a_conversation_goes_on_from_its_state(runtime: Runtime) -> None:
    first = runtime.conversation()
    await first.handle("search_tools", {"query": "weather"})
    kept = json.loads(json.dumps(first.state()))
    second = runtime.conversation(state=kept)
    assert second.found == first.found
    assert second.tool_definitions("mcp") == first.tool_definitions("mcp")
    assert second.state() == kept
    assert await second.handle("get_weather", {"city": "x"}) == "sunny in x"


FORGED: list[Any] = [
    {"version": 1},
    {"version": 1, "found": "get_weather", "searches": {}},
    {"version": 1, "found": [1, None, "", "nothing", "x" * 10_000], "searches": [1, {"query": 3}, {"query": "x"}]},
    {"version": 1, "found": ["weather_archive", "get_weather"], "searches": [{"query": "q", "found": [[]]}]},
    {"version": 1, "found": [f"t{n}" for n in range(100_000)], "searches": [{"query": "q"}] * 10_000},
]


@pytest.mark.parametrize("state", FORGED)
async def test_a_forged_state_shows_nothing_that_is_not_allowed(runtime: Runtime, state: Any) -> None:
    conversation = runtime.conversation(state=state, tools=["get_forecast", "weather_archive"])
    assert named(conversation.tool_definitions("openai")) == META
    assert conversation.found == ()
    kept = conversation.state()
    assert len(kept["found"]) <= MAX_FOUND
    assert len(kept["searches"]) <= MAX_SEARCHES
    assert "Error" in await conversation.handle("get_weather", {"city": "x"})


@pytest.mark.parametrize("state", [{}, {"version": 2}, [], "x", 3])
async def test_what_is_no_state_is_refused(runtime: Runtime, state: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"state is not what Conversation.state\(\) gave"):
        runtime.conversation(state=state)


def test_a_state_is_bounded() -> None:
    state = ConversationState()
    for n in range(500):
        state.add_found([f"tool_{n}"])
        state.add_search(f"query {n}" * 1_000, [f"tool_{n}"] * 500, loaded=False)
    assert state.found == [f"tool_{n}" for n in range(500 - MAX_FOUND, 500)]
    assert len(state.searches) == MAX_SEARCHES
    assert len(json.dumps(state.to_json())) < 400_000
    assert ConversationState.from_json(state.to_json()) == state
