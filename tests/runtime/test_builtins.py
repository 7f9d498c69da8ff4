"""Built-in tools: the host's own, which come with what a run is offered and are no tools of the registry."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Any

import pytest

from callgate import Registry, Runtime, tool
from callgate.errors import ConfigurationError, ToolError, ToolNotAllowed, ToolNotFound
from callgate.limits import Limits
from callgate.runtime.gate import Gate
from callgate.runtime.gate.events import CallEnded, CallProgressed, CallStarted, Event, listening, report_progress
from callgate.runtime.offer import Offer
from callgate.tools import Caller, Tool
from runtime.conftest import opened
from runtime.graphed import known

pytestmark = pytest.mark.anyio

CALLERS: tuple[Caller, ...] = ("direct", "code", "plan")


@tool
async def echo(text: str) -> str:
    return text


@tool(read_only=True, allowed_callers=["code"])
async def look(n: int) -> int:
    return n


def listing(offer: Offer) -> Iterable[Tool]:
    """Tools that tell what was offered."""

    async def search_tools(query: str) -> list[str]:
        return [query, offer.caller, *(tool.name for tool in offer.tools)]

    async def describe_tools(names: list[str]) -> list[str]:
        return [name for name in names if name in offer.by_name]

    yield Tool.from_function(search_tools, read_only=True)
    yield Tool.from_function(describe_tools, read_only=True, allowed_callers=["code", "direct"])


def gate(**options: Any) -> Gate:
    return Gate(Registry([echo, look]), builtins=listing, **options)


async def test_a_built_in_tool_passes_the_gate_and_is_told_of_what_was_offered() -> None:
    events: list[Event] = []
    run = gate().open(caller="code", limits=Limits(max_tool_calls=3), on_event=events.append)
    assert await run.call("search_tools", {"query": "x"}) == '["x","code","echo","look"]'
    assert await run.call("describe_tools", {"names": ["look", "search_tools"]}) == '["look"]'
    with pytest.raises(ToolNotFound, match=r"^there is no tool 'search_tool'; did you mean search_tools\?$"):
        await run.call("search_tool", {})
    assert [(record.tool, record.status) for record in run.records] == [
        ("search_tools", "succeeded"), ("describe_tools", "succeeded"), ("search_tool", "refused"),
    ]  # fmt: skip
    assert [type(event) for event in events] == [CallStarted, CallEnded] * 3


async def test_a_built_in_tool_is_in_no_registry_and_no_listing() -> None:
    made = gate()
    run = made.open(caller="code", limits=Limits())
    assert [each.name for each in run.offer.tools] == ["echo", "look"]
    assert [each.name for each in run.offer.builtins] == ["search_tools", "describe_tools"]
    assert made.registry.names() == ("echo", "look")
    assert made.registry.resolve("search_tools") is None


async def test_an_empty_allow_list_means_none_of_them_either() -> None:
    asked: list[tuple[Caller, list[str]]] = [("code", []), ("direct", ["look"])]
    for caller, allowed in asked:
        run = gate().open(caller=caller, limits=Limits(), allowed=allowed)
        assert run.offer.builtins == ()
        with pytest.raises(ToolNotFound):
            await run.call("search_tools", {"query": "x"})


async def test_an_offer_is_for_one_kind_of_caller() -> None:
    made = gate()
    for caller in CALLERS:
        run = made.open(caller=caller, limits=Limits(), allowed=["echo"] if caller == "code" else None)
        assert await run.call("search_tools", {"query": "x"}) == f'["x","{caller}","echo"]'
        assert ("describe_tools" in run.offer.by_name) is (caller != "plan")


async def test_an_offer_is_made_once_for_each_set_of_tools() -> None:
    made = gate()
    first = made.open(caller="code", limits=Limits()).offer
    assert made.open(caller="code", limits=Limits()).offer is first
    made.registry.remove("look")
    second = made.open(caller="code", limits=Limits()).offer
    assert [each.name for each in second.tools] == ["echo"]
    assert [each.name for each in first.tools] == ["echo", "look"]


async def test_a_run_goes_on_with_the_tools_it_began_with() -> None:
    made = gate()
    run = made.open(caller="code", limits=Limits())
    made.registry.remove("look")
    assert await run.call("look", {"n": 1}) == "1"
    with pytest.raises(ToolNotFound):
        await made.open(caller="code", limits=Limits()).call("look", {"n": 1})


async def test_a_built_in_tool_needs_a_reserved_name() -> None:
    made = Gate(Registry([echo]), builtins=lambda offer: [look])
    with pytest.raises(ConfigurationError, match="a built-in tool cannot be called 'look': its name must be reserved"):
        made.open(caller="code", limits=Limits())


async def test_tools_are_allowed_and_called_by_any_of_their_names() -> None:
    served = Tool.from_schema("s_a", "", {"type": "object"}, dict, server="my-s", server_tool="a", fallback="my_s.b")
    other = Tool.from_schema("s_b", "", {"type": "object"}, dict, server="my-s", server_tool="b")
    made = Gate(Registry([served, other, echo]))
    run = made.open(caller="code", limits=Limits(), allowed=["my-s.a", "my_s.b"])
    assert [each.name for each in run.offer.tools] == ["s_a", "s_b"]
    assert await run.call("my_s.a", {}) == "{}"
    assert run.records[0].tool == "s_a"
    with pytest.raises(ToolNotAllowed, match=r"^tool 'echo' is not among the tools that this run may call$"):
        await run.call("echo", {})
    with pytest.raises(ToolNotFound, match=r"^there is no tool 'my-s.aa'; did you mean my_s.a\?$"):
        await run.call("my-s.aa", {})
    with pytest.raises(ConfigurationError, match=r"^allowed names the tool 'my_s.c', which does not exist"):
        made.open(caller="code", limits=Limits(), allowed=["my_s.c"])


async def test_a_fallback_may_be_missing_where_servers_come_and_go() -> None:
    @tool(fallback="s.spare")
    async def fails() -> None:
        raise ValueError

    with pytest.raises(ConfigurationError, match=r"^tool 'fails' names the fallback 's.spare', which does not exist"):
        Gate(Registry([fails])).open(caller="code", limits=Limits())
    registry = Registry([fails])
    registry.replace_server("s", [])
    run = Gate(registry).open(caller="code", limits=Limits())
    with pytest.raises(ToolError, match=r"and its fallback: there is no tool 's.spare'"):
        await run.call("fails", {})
    spare = Tool.from_schema("s_spare", "", {"type": "object"}, dict, server="s", server_tool="spare")
    registry.replace_server("s", [spare])
    run = Gate(registry).open(caller="code", limits=Limits())
    assert await run.call("fails", {}) == "{}"
    assert [record.tool for record in run.records] == ["fails", "s_spare"]


async def test_programs_call_built_in_tools_by_their_names_and_by_short_ones() -> None:
    async with opened(Registry([echo, look]), pool_size=1) as runtime:
        runtime.gate._builtins = listing
        runtime.registry.add(Tool.from_schema("other", "", {"type": "object"}, dict))
        for call, value in (
            ("search_tools('x')", ["x", "code", "echo", "look", "other"]),
            ("tools.search(query='x')", ["x", "code", "echo", "look", "other"]),
            ("tools.search_tools('x')", ["x", "code", "echo", "look", "other"]),
            ("tool_call('search_tools', query='x')", ["x", "code", "echo", "look", "other"]),
            ("tools.describe('look', 'echo', 'nothing')", ["look", "echo"]),
            ("tools.describe(['look', 'echo'])", ["look", "echo"]),
            ("tools.describe(names=['look'])", ["look"]),
            ("describe_tools('look')", ["look"]),
        ):
            fast = await runtime.execute_code(f"await {call}")
            sandboxed = await runtime.execute_code(f"await {call}", path="sandbox")
            assert known(fast) == known(sandboxed)
            assert (fast.value, fast.path) == (value, "plan"), call
        names = await runtime.execute_code("names = ['look']\nawait tools.describe(*names, 'echo')")
        assert (names.value, names.path) == (["look", "echo"], "sandbox")
        blocked = await runtime.execute_code("def f():\n    return tools.describe('look')\nf()")
        assert blocked.value == ["look"]
        twice = await runtime.execute_code("await describe_tools(['look'], names=['echo'])", check=False)
        assert twice.error is not None
        assert twice.error.message == "describe_tools() got multiple values for argument 'names'"


async def test_check_knows_built_in_tools_and_does_not_list_them() -> None:
    runtime = Runtime([echo, look], sandbox=None)
    runtime.gate._builtins = listing
    assert runtime.check("await tools.search('x')\nawait tools.describe('a', 'b', 'c')\nawait search_tools('x')") == []
    for code, said in (
        ("await tools.search()", "tools.search(...) is called without `query`"),
        ("tools.search('x')", "tools.search(...) is never awaited"),
        ("await tools.serch('x')", "did you mean `tools.search`?"),
        ("await search('x')", "`search` is not defined; did you mean `tools.search`?"),
        ("await tools.describe()", "tools.describe(...) is called without `names`"),
        ("await tools.nothing_like_it()", "the tools are: echo, look"),
    ):
        (found,) = runtime.check(code)
        assert said in str(found)
    (nothing,) = runtime.check("await tools.search('x')", tools=[])
    assert nothing.hint == "there are no tools in this program"


async def test_a_tool_called_search_keeps_its_name() -> None:
    @tool(read_only=True)
    async def search(words: str) -> str:
        return f"searched {words}"

    async with opened(Registry([search]), pool_size=1) as runtime:
        runtime.gate._builtins = listing
        code = "[await search('a'), await tools.search('b'), await search_tools('c')]"
        for result in (await runtime.execute_code(code), await runtime.execute_code(code, path="sandbox")):
            assert result.value == ["searched a", "searched b", ["c", "code", "search"]]


async def test_progress_is_told_between_start_and_end_in_the_event_loop() -> None:
    @tool
    async def in_the_loop() -> int:
        report_progress(1, 2, "half")
        return 1

    @tool
    def in_a_thread() -> int:
        report_progress(0.5)
        return threading.get_ident()

    told: list[tuple[str, Any]] = []

    def listen(event: Event) -> None:
        assert threading.get_ident() == here
        if isinstance(event, CallProgressed):
            told.append((event.record.tool, (event.progress, event.total, event.message)))
        elif isinstance(event, (CallStarted, CallEnded)):
            told.append((event.record.tool, type(event).__name__))

    here = threading.get_ident()
    run = Gate(Registry([in_the_loop, in_a_thread])).open(caller="code", limits=Limits(), on_event=listen)
    await run.call("in_the_loop", {})
    assert int(await run.call("in_a_thread", {})) != here
    assert told == [
        ("in_the_loop", "CallStarted"), ("in_the_loop", (1, 2, "half")), ("in_the_loop", "CallEnded"),
        ("in_a_thread", "CallStarted"), ("in_a_thread", (0.5, None, None)), ("in_a_thread", "CallEnded"),
    ]  # fmt: skip


async def test_progress_of_a_call_that_is_over_is_told_to_nobody() -> None:
    late: list[Any] = []

    @tool
    async def keeps_it() -> None:
        late.append(listening.get())

    events: list[Event] = []
    run = Gate(Registry([keeps_it])).open(caller="code", limits=Limits(), on_event=events.append)
    await run.call("keeps_it", {})
    late[0](1, None, "too late")
    assert [type(event) for event in events] == [CallStarted, CallEnded]
    quiet = Gate(Registry([keeps_it])).open(caller="code", limits=Limits())
    await quiet.call("keeps_it", {})
    assert late[1] is None
    report_progress(1)  # and outside of any call
