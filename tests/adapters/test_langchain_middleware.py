"""A real agent of LangChain with callgate's middleware: tools are shown as they are found; graphs stop for the host and
for people, and go on with another agent and another runtime without doing anything twice."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
from langchain.agents import create_agent
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage, ToolCall, ToolMessage
from langchain_core.tools import BaseTool
from langchain_core.tools import tool as langchain_tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from pydantic import PrivateAttr

from adapters.conftest import World
from callgate import ConfigurationError, Runtime, Tool, tool
from callgate.adapters.langchain_middleware import CallgateMiddleware

pytestmark = pytest.mark.anyio

GO: Any = {"messages": [HumanMessage("go")]}
THREAD: Any = {"configurable": {"thread_id": "ann"}}
META = ["search_tools", "describe_tools", "execute_code", "execute_tool_plan"]


class Scripted(GenericFakeChatModel):
    """LangChain's own fake model, which notes the tools that it is shown."""

    _shown: list[list[str]] = PrivateAttr(default_factory=list)

    @classmethod
    def of(cls, *turns: Sequence[tuple[str, dict[str, Any]]]) -> Scripted:
        """A model that makes these calls, a sequence a turn, and then says ``done``."""
        said = [
            AIMessage("", tool_calls=[ToolCall(name=name, args=given, id=f"{name} {number}") for name, given in turn])
            for number, turn in enumerate(turns)
        ]
        return cls(messages=iter([*said, AIMessage("done")]))

    def bind_tools(self, tools: Sequence[Any], **_: Any) -> Any:
        self._shown.append([each.name for each in tools])
        return self


def texts(result: dict[str, Any]) -> list[str]:
    return [str(message.content) for message in result["messages"] if isinstance(message, ToolMessage)]


def searching(query: str) -> tuple[str, dict[str, Any]]:
    return "search_tools", {"query": query}


# filter


async def test_a_tool_is_shown_from_the_turn_after_the_search_that_found_it(world: World) -> None:
    model = Scripted.of([searching("find a book in the library")], [("find_book", {"title": "Emma"})])
    agent = create_agent(model, middleware=[CallgateMiddleware(world.runtime.conversation())])
    result = await agent.ainvoke(GO)
    assert model._shown[0] == META
    assert model._shown[1] == model._shown[2] == [*META, "find_book"]
    assert texts(result)[1] == "Emma is on the shelf"


async def test_a_hidden_tool_is_refused_with_words_that_help(world: World) -> None:
    model = Scripted.of([("find_book", {"title": "Emma"}), ("find_boook", {"title": "Emma"})])
    agent = create_agent(model, middleware=[CallgateMiddleware(world.runtime.conversation())])
    result = await agent.ainvoke(GO)
    hidden, unknown = (message for message in result["messages"] if isinstance(message, ToolMessage))
    assert (hidden.status, unknown.status) == ("error", "error")
    assert "search_tools makes the tools that it finds part of your list" in hidden.content
    assert "did you mean" in unknown.content


async def test_the_agents_own_tools_stay_its_own(world: World) -> None:
    @langchain_tool
    def shout(text: str) -> str:
        """Shout."""
        return text.upper()

    model = Scripted.of([("shout", {"text": "hey"}), ("add_numbers", {"a": 40, "b": 2})])
    middleware = CallgateMiddleware(world.runtime, direct=["add_numbers"])
    result = await create_agent(model, tools=[shout], middleware=[middleware]).ainvoke(GO)
    assert model._shown[0] == ["shout", *META, "add_numbers"]
    assert texts(result) == ["HEY", "42"]


async def test_it_works_without_an_event_loop(world: World) -> None:
    model = Scripted.of([searching("find a book")], [("find_book", {"title": "Emma"})])
    agent = create_agent(model, middleware=[CallgateMiddleware(world.runtime.conversation())])
    result = await anyio.to_thread.run_sync(agent.invoke, GO)
    assert texts(result)[1] == "Emma is on the shelf"


# interrupt on new tools


async def load(query: str) -> list[Tool]:
    async def read_tide() -> int:
        """The tide, in centimetres."""
        return 42

    return [Tool.from_function(read_tide, read_only=True)] if "tide" in query else []


async def test_new_tools_stop_the_graph_and_another_agent_goes_on_with_them() -> None:
    saver = InMemorySaver()
    first = Scripted.of([searching("tide")])
    async with Runtime(sandbox=None) as runtime, runtime.conversation(loader=load) as conversation:
        middleware = CallgateMiddleware(conversation, interrupt_on_new_tools=True)
        result = await create_agent(first, middleware=[middleware], checkpointer=saver).ainvoke(GO, THREAD)
    (stopped,) = result["__interrupt__"]
    assert stopped.value["found"] == ["read_tide"]
    state = json.loads(json.dumps(stopped.value["state"]))

    second = Scripted.of([("read_tide", {})])
    async with Runtime(sandbox=None) as runtime, runtime.conversation(loader=load, state=state) as conversation:
        middleware = CallgateMiddleware(conversation, interrupt_on_new_tools=True)
        agent: Any = create_agent(second, middleware=[middleware], checkpointer=saver)
        result = await agent.ainvoke(Command(resume=True), THREAD)
    assert "__interrupt__" not in result
    assert (len(first._shown), second._shown[0]) == (1, [*META, "read_tide"])
    assert (texts(result)[-1], result["messages"][-1].content) == ("42", "done")


async def test_a_search_that_finds_nothing_new_stops_nothing() -> None:
    model = Scripted.of([searching("tide")], [searching("tide")], [searching("weather")])
    async with Runtime(sandbox=None) as runtime, runtime.conversation(loader=load) as conversation:
        middleware = CallgateMiddleware(conversation, interrupt_on_new_tools=True)
        agent: Any = create_agent(model, middleware=[middleware], checkpointer=InMemorySaver())
        assert "__interrupt__" in await agent.ainvoke(GO, THREAD)
        result = await agent.ainvoke(Command(resume=True), THREAD)
    assert "__interrupt__" not in result
    assert result["messages"][-1].content == "done"


# interrupt on approval


class Shop:
    """Reads orders and pays money back, and notes both. Survives its runtimes, as a database does."""

    def __init__(self, path: Path) -> None:
        self.done: list[str] = []
        self.path = path

    def tools(self) -> list[Tool]:
        @tool(read_only=True)
        async def get_order(number: int) -> float:
            """What was paid for an order."""
            self.done.append(f"read {number}")
            return 42.5

        @tool
        async def note(text: str) -> None:
            """Write a note."""
            self.done.append(text)

        @tool(requires_approval=True)
        async def refund(order: int, euros: float) -> str:
            """Pay money back."""
            self.done.append(f"paid {order}")
            return f"paid {euros}"

        return [get_order, note, refund]

    def runtime(self) -> Runtime:
        return Runtime(self.tools(), sandbox=None, durable=str(self.path))


PROGRAM = """
await note("begun")
print(await refund(order=1, euros=await get_order(1)))
print(await refund(order=2, euros=await get_order(2)))
"""


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path / "runs.db")


def agent_of(model: Scripted, runtime: Runtime, saver: InMemorySaver, **options: Any) -> Any:
    middleware = CallgateMiddleware(runtime, interrupt_on_approval=True, **options)
    return create_agent(model, middleware=[middleware], checkpointer=saver)


def asked(result: dict[str, Any]) -> dict[str, Any]:
    (stopped,) = result["__interrupt__"]
    (call,) = stopped.value["calls"]
    return dict(call)


async def test_a_program_stops_the_graph_and_goes_on_in_another_runtime_without_doing_anything_twice(
    shop: Shop,
) -> None:
    saver = InMemorySaver()
    async with shop.runtime() as runtime:
        model = Scripted.of([("execute_code", {"code": PROGRAM})])
        first = asked(await agent_of(model, runtime, saver).ainvoke(GO, THREAD))
    assert (first["tool"], first["arguments"]) == ("refund", {"order": 1, "euros": 42.5})
    async with shop.runtime() as runtime:
        agent = agent_of(Scripted.of(), runtime, saver)
        second = asked(await agent.ainvoke(Command(resume={first["call"]: True}), THREAD))
        assert second["arguments"] == {"order": 2, "euros": 42.5}
        assert shop.done.count("paid 1") == 1
    async with shop.runtime() as runtime:
        agent = agent_of(Scripted.of(), runtime, saver)
        result = await agent.ainvoke(Command(resume={second["call"]: "not twice a day"}), THREAD)
    assert sorted(shop.done) == ["begun", "paid 1", "read 1", "read 2"]
    (text,) = texts(result)
    assert "paid 42.5" in text
    assert "not twice a day" in text
    assert result["messages"][-1].content == "done"


@pytest.mark.parametrize("word", [True, 0, [], "yes", {"refund": True}])
async def test_what_is_no_answer_to_a_question_decides_nothing(shop: Shop, word: Any) -> None:
    saver = InMemorySaver()
    async with shop.runtime() as runtime:
        agent = agent_of(Scripted.of([("execute_code", {"code": "await refund(order=1, euros=2.0)"})]), runtime, saver)
        call = asked(await agent.ainvoke(GO, THREAD))
        assert asked(await agent.ainvoke(Command(resume=word), THREAD)) == call
        assert shop.done == []
        result = await agent.ainvoke(Command(resume={call["call"]: True}), THREAD)
    assert (shop.done, texts(result)) == (["paid 1"], ["Value: paid 2.0"])


async def test_an_answer_from_elsewhere_is_not_taken_for_the_next_question(shop: Shop) -> None:
    """Somebody approves the first call with the command line; then the graph's own answer to it comes."""
    saver = InMemorySaver()
    async with shop.runtime() as runtime:
        agent = agent_of(Scripted.of([("execute_code", {"code": PROGRAM})]), runtime, saver)
        first = asked(await agent.ainvoke(GO, THREAD))
        (waiting,) = await runtime.runs.pending()
        await runtime.runs.approve(waiting.run, waiting.call, by="ann")
        second = asked(await agent.ainvoke(Command(resume={first["call"]: True}), THREAD))
    assert second["arguments"]["order"] == 2
    assert shop.done.count("paid 1") == 1
    assert "paid 2" not in shop.done


async def test_a_plan_and_a_call_of_the_model_itself_stop_the_graph_too(shop: Shop) -> None:
    steps = [{"id": "back", "tool": "refund", "arguments": {"order": 3, "euros": 1.5}}]
    turns: list[list[tuple[str, dict[str, Any]]]] = [
        [("execute_tool_plan", {"steps": steps})],
        [("refund", {"order": 4, "euros": 2.5})],
    ]
    async with shop.runtime() as runtime:
        agent = agent_of(Scripted.of(*turns), runtime, InMemorySaver(), direct=["refund"])
        in_plan = asked(await agent.ainvoke(GO, THREAD))
        direct = asked(await agent.ainvoke(Command(resume={in_plan["call"]: True}), THREAD))
        assert (in_plan["arguments"]["order"], direct["arguments"]["order"]) == (3, 4)
        result = await agent.ainvoke(Command(resume={direct["call"]: False}), THREAD)
    assert shop.done == ["paid 3"]
    plan, denied = (message for message in result["messages"] if isinstance(message, ToolMessage))
    assert (plan.status, denied.status) == ("success", "error")
    assert "paid 1.5" in plan.content


async def test_programs_at_the_same_time_are_answered_by_their_interrupts(shop: Shop) -> None:
    saver = InMemorySaver()
    programs = [("execute_code", {"code": f"await refund(order={number}, euros=1.0)"}) for number in (1, 2)]
    calls = [ToolCall(name=name, args=given, id=str(number)) for number, (name, given) in enumerate(programs)]
    model = Scripted(messages=iter([AIMessage("", tool_calls=calls), AIMessage("done")]))
    async with shop.runtime() as runtime:
        agent = agent_of(model, runtime, saver)
        result = await agent.ainvoke(GO, THREAD)
        answers = {each.id: {each.value["calls"][0]["call"]: True} for each in result["__interrupt__"]}
        assert len(answers) == 2
        result = await agent.ainvoke(Command(resume=answers), THREAD)
    assert sorted(shop.done) == ["paid 1", "paid 2"]
    assert texts(result) == ["Value: paid 1.0", "Value: paid 1.0"]


async def test_the_same_program_in_a_later_turn_is_another_run(shop: Shop) -> None:
    """Some providers count the ids of calls anew in each turn."""
    call = ToolCall(name="execute_code", args={"code": "await note('again')"}, id="call_0")
    said = [AIMessage("", tool_calls=[call]), AIMessage("", tool_calls=[call]), AIMessage("done")]
    async with shop.runtime() as runtime:
        await agent_of(Scripted(messages=iter(said)), runtime, InMemorySaver()).ainvoke(GO, THREAD)
    assert shop.done == ["again", "again"]


async def test_without_an_event_loop_the_graph_stops_and_goes_on_too(shop: Shop) -> None:
    agent = agent_of(
        Scripted.of([("execute_code", {"code": "await refund(order=1, euros=2.0)"})]), shop.runtime(), InMemorySaver()
    )

    def whole() -> dict[str, Any]:
        call = asked(agent.invoke(GO, THREAD))
        return dict(agent.invoke(Command(resume={call["call"]: True}), THREAD))

    result = await anyio.to_thread.run_sync(whole)
    assert (shop.done, texts(result)) == (["paid 1"], ["Value: paid 2.0"])


async def test_arguments_with_odd_names_arrive(tmp_path: Path) -> None:
    schema = {"type": "object", "properties": {"class": {"type": "string"}}, "required": ["class"]}

    async def echo(**given: str) -> dict[str, str]:
        return given

    odd = Tool.from_schema("odd", "Odd names.", schema, echo, requires_approval=True)
    async with Runtime([odd], durable=str(tmp_path / "runs.db")) as runtime:
        model = Scripted.of([("odd", {"class": "first"})])
        agent = agent_of(model, runtime, InMemorySaver(), direct=["odd"])
        call = asked(await agent.ainvoke(GO, THREAD))
        result = await agent.ainvoke(Command(resume={call["call"]: True}), THREAD)
    assert call["arguments"] == {"class": "first"}
    assert texts(result) == ['Value: {"class": "first"}']


async def test_a_graph_that_goes_back_finds_what_the_program_had_done(shop: Shop) -> None:
    saver = InMemorySaver()
    async with shop.runtime() as runtime:
        agent = agent_of(Scripted.of([("execute_code", {"code": "await note('once')"})]), runtime, saver)
        await agent.ainvoke(GO, THREAD)
        before = [each async for each in agent.aget_state_history(THREAD) if each.next == ("tools",)]
        result = await agent_of(Scripted.of(), runtime, saver).ainvoke(None, before[0].config)
    assert (shop.done, result["messages"][-1].content) == (["once"], "done")


async def test_cancelling_the_graph_ends_the_program(world: World, tmp_path: Path) -> None:
    async with Runtime(world.tools(), sandbox=None, durable=str(tmp_path / "runs.db")) as runtime:
        program = "await wait_forever()\nawait send_mail(text='late')"
        agent = agent_of(Scripted.of([("execute_code", {"code": program})]), runtime, InMemorySaver())
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(agent.ainvoke, GO, THREAD)
            await world.began.wait()
            tasks.cancel_scope.cancel()
        (run,) = await runtime.runs.list()
        await run.wait()
        assert (run.status, world.cancelled, world.sent) == ("cancelled", ["wait_forever"], [])


async def test_a_program_beside_one_that_waits_for_a_person_runs_to_its_end(shop: Shop) -> None:
    programs = ["await refund(order=1, euros=1.0)", "import asyncio\nawait asyncio.sleep(0.5)\nawait note('slow')"]
    calls = [ToolCall(name="execute_code", args={"code": code}, id=code) for code in programs]
    model = Scripted(messages=iter([AIMessage("", tool_calls=calls), AIMessage("done")]))
    async with Runtime(shop.tools(), durable=str(shop.path)) as runtime:
        agent = agent_of(model, runtime, InMemorySaver())
        call = asked(await agent.ainvoke(GO, THREAD))
        assert shop.done == ["slow"]
        await agent.ainvoke(Command(resume={call["call"]: True}), THREAD)
    assert shop.done == ["slow", "paid 1"]


@pytest.mark.parametrize("options", [{"meta": ("search_tools",)}, {"tools": ["note"], "direct": ["note"]}])
async def test_what_the_model_does_not_have_is_refused_and_asks_nobody(shop: Shop, options: dict[str, Any]) -> None:
    code = "await refund(order=1, euros=1.0)"
    model = Scripted.of([("execute_code", {"code": code}), ("refund", {"order": 1, "euros": 1.0})])
    async with shop.runtime() as runtime:
        middleware = CallgateMiddleware(runtime.conversation(**options), interrupt_on_approval=True)
        agent: Any = create_agent(model, middleware=[middleware], checkpointer=InMemorySaver())
        result = await agent.ainvoke(GO, THREAD)
    assert "__interrupt__" not in result
    assert [each.status for each in result["messages"] if isinstance(each, ToolMessage)] == ["error", "error"]
    assert shop.done == []


async def test_a_tool_that_programs_may_not_call_is_denied_where_nobody_can_be_asked(tmp_path: Path) -> None:
    @tool(requires_approval=True, allowed_callers=("direct",))
    async def wipe() -> None:
        """Wipe everything."""
        raise AssertionError("it was called")

    async with Runtime([wipe], sandbox=None, durable=str(tmp_path / "runs.db")) as runtime:
        agent = agent_of(Scripted.of([("wipe", {})]), runtime, InMemorySaver(), direct=["wipe"])
        result = await agent.ainvoke(GO, THREAD)
    assert "__interrupt__" not in result
    assert "approv" in texts(result)[0]


@pytest.mark.slow
async def test_a_run_that_needs_attention_stops_the_graph_until_it_has_been_looked_after(
    shop: Shop,
) -> None:
    """The tool of a waiting program is gone in the next process, and comes back."""
    saver = InMemorySaver()
    async with shop.runtime() as runtime:
        agent = agent_of(Scripted.of([("execute_code", {"code": PROGRAM})]), runtime, saver)
        first = asked(await agent.ainvoke(GO, THREAD))
    async with Runtime(sandbox=None, durable=str(shop.path)) as runtime:
        answers: Command[Any] = Command(resume={first["call"]: True})
        (stopped,) = (await agent_of(Scripted.of(), runtime, saver).ainvoke(answers, THREAD))["__interrupt__"]
    assert stopped.value["calls"] == []
    assert "'get_order' does not exist any more" in stopped.value["reason"]
    async with shop.runtime() as runtime:
        await runtime.runs.resume(stopped.value["run"])
        second = asked(await agent_of(Scripted.of(), runtime, saver).ainvoke(Command(resume=True), THREAD))
    assert second["arguments"]["order"] == 2
    assert shop.done.count("paid 1") == shop.done.count("begun") == 1


# options


async def test_wrong_options_are_refused(world: World, shop: Shop) -> None:
    with pytest.raises(ConfigurationError, match="goes without a session"):
        CallgateMiddleware(shop.runtime().conversation(session=True), interrupt_on_approval=True)
    with pytest.raises(ConfigurationError, match="is for conversations"):
        CallgateMiddleware(world.runtime, interrupt_on_new_tools=True)
    with pytest.raises(ConfigurationError, match=r'needs Runtime\(durable="runs.db"\)'):
        CallgateMiddleware(world.runtime, interrupt_on_approval=True)


async def test_the_model_is_shown_tools_of_langchain(world: World) -> None:
    class Looks(Scripted):
        def bind_tools(self, tools: Sequence[Any], **options: Any) -> Any:
            assert all(isinstance(each, BaseTool) and each.description for each in tools)
            return super().bind_tools(tools, **options)

    await create_agent(Looks.of(), middleware=[CallgateMiddleware(world.runtime)]).ainvoke(GO)
