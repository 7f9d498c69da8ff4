"""What runs in a conversation: sessions, what its calls teach the search, and its allow list."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import anyio
import pytest

from callgate import ConfigurationError, Runtime, Tool, tool
from runtime.conftest import opened
from runtime.conversing import TOOLS, send_mail

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
async def runtime(anyio_backend: str) -> AsyncIterator[Runtime]:
    async with opened(*TOOLS, pool_size=1) as entered:
        yield entered


# sessions


async def test_programs_of_a_conversation_may_share_their_variables(runtime: Runtime) -> None:
    async with runtime.conversation(session=True) as one, runtime.conversation(session=True) as other:
        texts = {each["name"]: each["description"] for each in one.tool_definitions("anthropic")}
        assert "Variables stay for the next program" in texts["execute_code"]
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


async def test_of_several_queries_the_one_that_found_the_tool_is_taught() -> None:
    both = ["mail my colleague", "weather of the fjords"]
    async with Runtime(TOOLS, sandbox=None) as runtime:
        conversation = runtime.conversation()
        await conversation.handle("search_tools", {"query": both})
        await conversation.handle("send_mail", {"to": "x"})
        assert [each.query for each in runtime.search_tools("my colleague").found] == ["my colleague"]
        assert names_of(runtime, "the fjords") == []
        code = f"await search_tools({both!r})\nawait get_weather('Rome')"
        assert (await conversation.answer("execute_code", {"code": code})).ok
        assert names_of(runtime, "the fjords") == ["get_weather"]


def names_of(runtime: Runtime, query: str) -> list[str]:
    return [each.tool.name for each in runtime.search_tools(query).found]


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


async def test_a_session_that_is_being_opened_when_the_conversation_is_left_is_ended() -> None:
    async def program() -> None:
        with pytest.raises(ConfigurationError, match="this conversation was left already"):
            await conversation.handle("execute_code", {"code": "1"})

    async with opened(pool_size=0, max_guests=1) as runtime, anyio.create_task_group() as tasks:
        async with runtime.session(), runtime.conversation(session=True) as conversation:
            tasks.start_soon(program)
            await anyio.sleep(0.1)
        with anyio.fail_after(20):
            assert (await runtime.execute_code("1", path="sandbox")).value == 1


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
