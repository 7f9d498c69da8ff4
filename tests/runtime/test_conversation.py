"""Conversations: what a model finds becomes visible to it and to nobody else, and what is loaded for it is its own."""

from __future__ import annotations

import itertools
import json
import logging
from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest

from callgate import ConfigurationError, Runtime, Tool, ToolError, tool
from callgate.runtime.conversation.loaded import MAX_LOADED
from callgate.runtime.conversation.state import MAX_FOUND, MAX_SEARCHES, ConversationState
from callgate.runtime.model.options import PROVIDERS
from runtime.conftest import opened

pytestmark = pytest.mark.anyio

META = ["search_tools", "describe_tools", "execute_code", "execute_tool_plan"]


@tool(read_only=True)
async def get_weather(city: str) -> str:
    """Current weather of a city."""
    return f"sunny in {city}"


@tool(read_only=True)
async def get_forecast(city: str) -> str:
    """Weather forecast of a city for the next days."""
    return f"rain in {city}"


@tool
async def send_mail(to: str) -> str:
    """Sends an electronic mail."""
    if to == "nobody":
        raise ToolError("there is nobody")
    return f"sent to {to}"


@tool(allowed_callers=["code"])
async def weather_archive(year: int) -> int:
    """Weather of past years."""
    return year


TOOLS = [get_weather, get_forecast, send_mail, weather_archive]


def named(definitions: list[dict[str, Any]]) -> list[str]:
    return [each["function"]["name"] if "function" in each else each["name"] for each in definitions]


def thing(name: str, says: str = "") -> Tool:
    schema = {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}
    return Tool.from_schema(name, says or f"Does {name}.", schema, lambda x: f"{name} {x}", read_only=True)


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


# interrupt


class Elsewhere:
    """Tools that cannot be listed beforehand."""

    def __init__(self, **found: list[Any]) -> None:
        self.found = found
        self.queries: list[str] = []

    async def load(self, query: str) -> list[Any]:
        self.queries.append(query)
        await anyio.lowlevel.checkpoint()
        return [each for word, tools in self.found.items() if word in query for each in tools]


async def test_tools_are_loaded_by_a_search_and_the_run_goes_on_with_a_longer_list(runtime: Runtime) -> None:
    """The interrupt pattern of the reference, to the letter, without its limitation: no agent has to be made anew."""
    elsewhere = Elsewhere(invoice=[thing("make_invoice", "Makes an invoice.")])
    async with runtime.conversation(loader=elsewhere.load, meta=["search_tools"]) as conversation:
        assert named(conversation.tool_definitions("openai")) == ["search_tools"]
        answer = await conversation.answer("search_tools", {"query": "write an invoice", "limit": 1})
        assert answer.tools_changed
        assert answer.found == ("make_invoice",)
        assert "Your list of tools has changed" in answer.text
        assert named(conversation.tool_definitions("openai")) == ["search_tools", "make_invoice"]
        assert await conversation.handle("make_invoice", '{"x": 3}') == "make_invoice 3"
    assert elsewhere.queries == ["write an invoice"]
    assert "make_invoice" not in runtime.registry


async def test_an_agent_is_interrupted_made_anew_and_resumed(runtime: Runtime) -> None:
    """As the reference has it for frameworks whose tools are fixed: the state goes to another conversation."""
    elsewhere = Elsewhere(invoice=[thing("make_invoice", "Makes an invoice."), thing("send_mail", "Mails an invoice.")])
    async with runtime.conversation(loader=elsewhere.load) as conversation:
        answer = await conversation.answer("search_tools", {"query": "invoice"})
        assert answer.tools_changed
        checkpoint = json.dumps(conversation.state())
        before = conversation.tool_definitions("anthropic")
    async with runtime.conversation(loader=elsewhere.load, state=json.loads(checkpoint)) as resumed:
        assert resumed.tool_definitions("anthropic") == before
        assert await resumed.handle("send_mail_2", {"x": 1}) == "send_mail 1"
    assert elsewhere.queries == ["invoice", "invoice"]


async def test_loaded_tools_are_there_for_programs_and_plans_of_that_conversation_alone(runtime: Runtime) -> None:
    elsewhere = Elsewhere(double=[thing("double")])
    async with runtime.conversation(loader=elsewhere.load) as one, runtime.conversation(loader=elsewhere.load) as other:
        await one.handle("search_tools", {"query": "double"})
        program = "print(await double(x=2), await get_weather('Rome'))"
        assert await one.handle("execute_code", {"code": program}) == "double 2 sunny in Rome"
        plan = {"steps": [{"id": "a", "tool": "double", "arguments": {"x": 4}}]}
        assert "double 4" in await one.handle("execute_tool_plan", plan)
        for conversation in (other, runtime.conversation()):
            assert not (await conversation.answer("execute_code", {"code": program})).ok
            assert "there is no tool 'double'" in await conversation.handle("double", {"x": 1})
        assert not (await runtime.answer("double", {"x": 1})).ok


async def test_a_loaded_tool_is_cached_for_its_conversation_alone(runtime: Runtime) -> None:
    def loader(says: str) -> Any:
        async def load(query: str) -> list[Tool]:
            return [
                Tool.from_schema(
                    "secret", "A secret.", {"type": "object"}, lambda: says, read_only=True, cache_seconds=60
                )
            ]

        return load

    async with runtime.conversation(loader=loader("a")) as one, runtime.conversation(loader=loader("b")) as other:
        for conversation, says in ((one, "a"), (other, "b"), (one, "a")):
            await conversation.handle("search_tools", {"query": "secret"})
            assert await conversation.handle("secret", {}) == says


async def test_what_was_loaded_for_a_search_is_found_whatever_it_is_called(runtime: Runtime) -> None:
    elsewhere = Elsewhere(rechnung=[thing("make_invoice", "Makes an invoice."), *(thing(f"t{n}") for n in range(100))])
    async with runtime.conversation(loader=elsewhere.load) as conversation:
        answer = await conversation.answer("search_tools", {"query": "rechnung schreiben"})
        assert answer.text.startswith("Loaded for this search:\nmake_invoice(x: int) -> Any\n    Makes an invoice.\n")
        assert conversation.found[0] == "make_invoice"
        assert len(conversation.found) == 20
        both = await conversation.answer("search_tools", {"query": "rechnung weather", "limit": 2})
        assert both.found[2] == "make_invoice"
        assert "weather" in both.found[0] + both.found[1]


async def test_what_the_operators_loader_gives_is_allowed_beside_the_allow_list(runtime: Runtime) -> None:
    elsewhere = Elsewhere(double=[thing("double")])
    async with runtime.conversation(loader=elsewhere.load, tools=["get_weather"]) as conversation:
        await conversation.handle("search_tools", {"query": "double"})
        assert await conversation.handle("double", {"x": 1}) == "double 1"
        assert await conversation.handle("execute_code", {"code": "await double(x=2)"}) == "Value: double 2"
        assert "not among the tools" in await conversation.handle("send_mail", {"to": "x"})
        assert "double" in [each["name"] for each in conversation.tool_definitions("mcp")]


async def test_a_loader_that_fails_does_not_fail_the_search(runtime: Runtime, caplog: pytest.LogCaptureFixture) -> None:
    async def crash(query: str) -> list[Any]:
        raise RuntimeError("password 1234")

    async def refuse(query: str) -> list[Any]:
        raise ToolError("the catalogue is closed today")

    async def hang(query: str) -> list[Any]:
        await anyio.sleep_forever()
        return []

    async def wrong(query: str) -> Any:
        return [3]

    async def no_list(query: str) -> Any:
        return "get_weather"

    told = {crash: "could not be loaded; there", refuse: "could not be loaded: the catalogue is closed today",
            hang: "took longer than 0.05 s", wrong: "could not be loaded", no_list: "could not be loaded"}  # fmt: skip
    with caplog.at_level(logging.CRITICAL):
        for loader, words in told.items():
            async with runtime.conversation(loader=loader, loader_seconds=0.05) as conversation:
                text = await conversation.handle("search_tools", {"query": "weather"})
                assert words in text
                assert "get_weather" in text
                assert "1234" not in text


async def test_a_loader_may_give_tools_that_are_there_already(runtime: Runtime) -> None:
    async def load(query: str) -> list[Any]:
        return [send_mail]

    async with runtime.conversation(loader=load) as conversation:
        await conversation.handle("search_tools", {"query": "mail"})
        assert "send_mail_2" not in conversation.found
        assert await conversation.handle("send_mail", {"to": "x"}) == "sent to x"


async def test_loaded_again_a_tool_takes_its_own_place(runtime: Runtime) -> None:
    counted = [0]

    async def load(query: str) -> list[Any]:
        counted[0] += 1
        count = counted[0]
        return [Tool.from_schema("counter", "Counts loads.", {"type": "object"}, lambda: count)]

    async with runtime.conversation(loader=load) as conversation:
        for _ in range(3):
            await conversation.handle("search_tools", {"query": "count loads"})
        assert await conversation.handle("counter", {}) == "3"
        assert [each for each in conversation.found if each.startswith("counter")] == ["counter"]


async def test_a_loader_that_floods_is_held_to_a_bound(runtime: Runtime) -> None:
    async def load(query: str) -> list[Any]:
        return [thing(f"{query}_{n}") for n in range(2_000)]

    async with runtime.conversation(loader=load) as conversation:
        for query in ("first", "second"):
            await conversation.handle("search_tools", {"query": query, "limit": 100})
        assert len(conversation._core.registry) <= len(TOOLS) + MAX_LOADED
        assert len(conversation.tool_definitions("openai")) <= len(META) + MAX_FOUND


async def test_what_changes_in_the_runtime_changes_in_the_conversation() -> None:
    async with Runtime([get_weather], sandbox=None) as runtime:
        elsewhere = Elsewhere(late=[thing("late"), thing("mine")])
        async with runtime.conversation(loader=elsewhere.load) as conversation:
            await conversation.handle("search_tools", {"query": "late", "limit": 2})
            assert set(conversation.found) == {"late", "mine"}
            runtime.registry.add(send_mail)
            runtime.registry.add(thing("late", "The runtime's own."))
            runtime.registry.remove("get_weather")
            answer = await conversation.answer("search_tools", {"query": "send electronic mail", "limit": 1})
            assert answer.found == ("send_mail",)
            assert "there is no tool" in await conversation.handle("get_weather", {"city": "x"})
            assert await conversation.handle("mine", {"x": 1}) == "mine 1"
            assert conversation._core.registry.get("late").description == "The runtime's own."
            assert "late_2" in conversation._core.registry


async def test_a_conversation_that_loads_has_to_be_entered(runtime: Runtime) -> None:
    conversation = runtime.conversation(loader=Elsewhere().load)
    with pytest.raises(ConfigurationError, match="enter the conversation first"):
        await conversation.handle("search_tools", {"query": "x"})
    async with conversation:
        await conversation.handle("search_tools", {"query": "x"})
    with pytest.raises(ConfigurationError, match="left already"):
        await conversation.handle("search_tools", {"query": "x"})
    with pytest.raises(ConfigurationError, match="entered already"):
        await conversation.__aenter__()


async def test_leaving_the_runtime_ends_what_a_conversation_runs_on_the_host() -> None:
    begun, ended = anyio.Event(), anyio.Event()

    @tool(read_only=True)
    async def hang() -> None:
        """Hangs."""
        begun.set()
        try:
            await anyio.sleep_forever()
        finally:
            ended.set()

    async def load(query: str) -> list[Tool]:
        return [hang]

    answers: list[str] = []

    async def run(conversation: Any) -> None:
        answers.append(await conversation.handle("execute_code", {"code": "await hang()"}))

    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            async with Runtime(sandbox=None) as runtime:
                conversation = await runtime.conversation(loader=load).__aenter__()
                await conversation.handle("search_tools", {"query": "hang"})
                tasks.start_soon(run, conversation)
                await begun.wait()
            assert ended.is_set()
    assert "The program failed" in answers[0]


# sessions


async def test_programs_of_a_conversation_may_share_their_variables(runtime: Runtime) -> None:
    async with runtime.conversation(session=True) as one, runtime.conversation(session=True) as other:
        texts = {each["name"]: each["description"] for each in one.tool_definitions("anthropic")}
        assert "Variables stay for your next program" in texts["execute_code"]
        assert (await one.answer("execute_code", {"code": "x = 1"})).ok
        assert await one.handle("execute_code", {"code": "x + 1"}) == "Value: 2"
        assert not (await other.answer("execute_code", {"code": "x"})).ok


async def test_programs_of_a_conversation_at_the_same_time_run_one_after_the_other() -> None:
    begun, go_on = anyio.Event(), anyio.Event()

    @tool
    async def hold() -> None:
        begun.set()
        await go_on.wait()

    answers: dict[str, str] = {}
    async with opened(hold, pool_size=0) as runtime, runtime.conversation(session=True) as conversation:

        async def run(code: str) -> None:
            answers[code] = await conversation.handle("execute_code", {"code": code})

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run, "x = [1]\nawait hold()\nx.append(2)\nlen(x)")
            await begun.wait()
            tasks.start_soon(run, "x.append(3)\nx")
            with anyio.move_on_after(0.01):
                await run("x = None")
            assert (await conversation.answer("execute_code", {"code": 5})).mistake
            go_on.set()
    assert list(answers.values()) == ["Value: 2", "Value: [1, 2, 3]"]


async def test_a_session_that_ended_is_replaced_and_the_model_is_told(runtime: Runtime) -> None:
    async with runtime.conversation(session=True) as conversation:
        assert (await conversation.answer("execute_code", {"code": "x = 1"})).ok
        ended = await conversation.answer("execute_code", {"code": "import os\nos._exit(3)"})
        assert not ended.ok
        answer = await conversation.answer("execute_code", {"code": "'x' in globals()"})
        assert answer.ok
        assert "Note: the variables of earlier programs are gone" in answer.text
        assert "Value: false" in answer.text


async def test_a_session_of_the_hosts_own_may_be_given(runtime: Runtime) -> None:
    async with runtime.session() as session:
        await session.execute_code("x = 7")
        assert await runtime.conversation().handle("execute_code", {"code": "x"}, session=session) == "Value: 7"


# learning


async def test_successful_calls_after_a_search_teach_it() -> None:
    async with Runtime(TOOLS, sandbox=None) as runtime:
        conversation = runtime.conversation()
        await conversation.handle("search_tools", {"query": "mail my colleague"})
        assert "send_mail" in conversation.found
        assert runtime.search.learned is not None
        await conversation.handle("send_mail", {"to": "nobody"})
        assert runtime.search.learned.of("send_mail") == 0
        for _ in range(3):
            await conversation.handle("send_mail", {"to": "x"})
        assert runtime.search.learned.of("send_mail") == 1
        assert runtime.search_tools("my colleague").found[0].tool.name == "send_mail"


async def test_programs_and_plans_teach_it_too(runtime: Runtime) -> None:
    async with opened(*TOOLS, pool_size=0) as own:
        conversation = own.conversation()
        await conversation.handle("search_tools", {"query": "weather"})
        await conversation.handle("execute_code", {"code": "await get_weather('Rome')"})
        await conversation.handle(
            "execute_tool_plan", {"steps": [{"id": "a", "tool": "get_forecast", "arguments": {"city": "Rome"}}]}
        )
        assert own.search.learned is not None
        assert own.search.learned.of("get_weather") == own.search.learned.of("get_forecast") == 1
        assert own.search.learned.of("send_mail") == 0


async def test_a_state_that_came_back_teaches_only_what_is_found_again() -> None:
    async with Runtime(TOOLS, sandbox=None) as runtime:
        first = runtime.conversation()
        await first.handle("search_tools", {"query": "mail my colleague"})
        honest = runtime.conversation(state=json.loads(json.dumps(first.state())))
        learned = runtime.search.learned
        assert learned is not None
        await honest.handle("send_mail", {"to": "x"})
        assert learned.of("send_mail") == 1
        forged = {
            "version": 1,
            "found": ["get_weather"],
            "searches": [{"query": f"salaries of the {n}th floor", "found": ["get_weather"]} for n in range(16)],
        }
        for _ in range(3):
            await runtime.conversation(state=forged).handle("get_weather", {"city": "x"})
        assert learned.of("get_weather") == 0
        assert runtime.search_tools("salaries of a floor").found == ()
        assert len(learned) == 1


async def test_a_pattern_teaches_nothing() -> None:
    async with Runtime(TOOLS, sandbox=None) as runtime:
        conversation = runtime.conversation()
        await conversation.handle("search_tools", {"query": "mail|letter", "regex": True})
        await conversation.handle("send_mail", {"to": "x"})
        assert conversation.found == ("send_mail",)
        assert runtime.search.learned is not None
        assert len(runtime.search.learned) == 0


async def test_an_allow_list_takes_every_form_of_a_name() -> None:
    theirs = Tool.from_schema("gh_find", "Finds.", {"type": "object"}, print, server="gh", server_tool="find")
    async with Runtime([theirs, send_mail], sandbox=None) as runtime:
        conversation = runtime.conversation(tools=["gh.find"])
        refused = await conversation.handle("gh_find", {})
        assert refused.endswith("; search_tools makes the tools that it finds part of your list")
        assert (await conversation.answer("search_tools", {"query": "finds"})).found == ("gh_find",)
        only = runtime.conversation(meta=["describe_tools"])
        assert (await only.handle("gh_find", {})).endswith(
            "; describe_tools makes the tools that it describes part of your list"
        )
