"""Conversations that load: what comes from elsewhere is the conversation's own, and loaders may fail, flood and lie."""

from __future__ import annotations

import contextlib
import gc
import json
import logging
import threading
import weakref
from collections.abc import AsyncIterator
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from callgate import ConfigurationError, Runtime, Tool, ToolError, tool
from callgate.runtime.discovery.loading import MAX_LOADED
from callgate.runtime.discovery.memory import MAX_FOUND
from runtime.conftest import opened
from runtime.conversing import META, TOOLS, Elsewhere, get_weather, named, send_mail, thing

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
async def runtime(anyio_backend: str) -> AsyncIterator[Runtime]:
    async with opened(*TOOLS, pool_size=1) as entered:
        yield entered


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


async def test_tools_are_loaded_for_each_query_of_a_search(runtime: Runtime) -> None:
    elsewhere = Elsewhere(invoice=[thing("make_invoice", "Makes an invoice.")], mail=[thing("mail_all"), send_mail])
    async with runtime.conversation(loader=elsewhere.load) as conversation:
        answer = await conversation.answer("search_tools", {"query": ["invoice", "mail"], "limit": 3})
        assert elsewhere.queries == ["invoice", "mail"]
        assert answer.found[0] == "make_invoice"
        assert {"make_invoice", "mail_all", "send_mail"} <= set(answer.found)
        queries = [each["query"] for each in conversation.state()["searches"]]
        assert queries == ["invoice", "mail"]
    elsewhere.queries.clear()
    async with runtime.conversation(loader=elsewhere.load, state=conversation.state()):
        assert elsewhere.queries == ["invoice", "mail"]


async def test_nothing_of_what_was_loaded_stays_when_the_conversation_is_over(runtime: Runtime) -> None:
    elsewhere = Elsewhere(invoice=[thing("make_invoice", "Makes an invoice.")])
    async with runtime.conversation(loader=elsewhere.load) as conversation:
        await conversation.answer("search_tools", {"query": "invoice"})
        answer = await conversation.answer("execute_code", {"code": "print(await make_invoice(x=3))"})
        assert answer.text == "make_invoice 3"
        registry = weakref.ref(conversation._over.registry)
    del conversation, answer
    await anyio.lowlevel.checkpoint()
    gc.collect()
    assert registry() is None


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
        assert len(conversation._over.registry) <= len(TOOLS) + MAX_LOADED
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
            assert conversation._over.registry.get("late").description == "The runtime's own."
            assert "late_2" in conversation._over.registry


async def test_a_loader_may_add_to_the_tools_of_the_runtime() -> None:
    async with Runtime([get_weather], sandbox=None) as runtime:

        async def load(query: str) -> list[Tool]:
            runtime.registry.add(made)
            return [made]

        made = thing("make_invoice", "Makes an invoice.")
        async with runtime.conversation(loader=load) as conversation:
            answer = await conversation.answer("search_tools", {"query": "invoice"})
            assert answer.found == ("make_invoice",)
            assert await conversation.handle("make_invoice", {"x": 1}) == "make_invoice 1"


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


async def test_sync_tools_of_all_conversations_share_the_runtimes_threads() -> None:
    held, begun = threading.Event(), [0]

    @tool(read_only=True)
    def hold(n: int) -> int:
        begun[0] += 1
        held.wait(20)
        return n

    async with opened(hold, pool_size=0) as runtime, contextlib.AsyncExitStack() as stack:
        conversations = [
            await stack.enter_async_context(runtime.conversation(loader=Elsewhere().load, meta=["execute_code"]))
            for _ in range(2)
        ]
        with anyio.fail_after(20):
            async with anyio.create_task_group() as tasks:
                for n in range(50):
                    tasks.start_soon(conversations[n % 2].handle, "execute_code", {"code": f"await hold({n})"})
                while begun[0] < 40:  # noqa: ASYNC110 (threads count)
                    await anyio.sleep(0.01)
                await anyio.sleep(0.05)
                assert begun[0] == 40
                held.set()
    assert begun[0] == 50
