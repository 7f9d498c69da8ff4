"""The tools of one runtime, by name."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callgate.errors import ConfigurationError, ToolNotFound
from callgate.tools import Registry, Tool, ToolOptions, imported_name, python_name


def named(name: str) -> Tool:
    return Tool.from_schema(name, "does nothing", {"type": "object"}, dict)


def test_functions_and_tools_may_be_given() -> None:
    def get_weather(city: str) -> str:
        return city

    registry = Registry([get_weather, named("add")])
    assert registry.names() == ("add", "get_weather")
    assert len(registry) == 2
    assert "add" in registry
    assert registry.get("get_weather").parameters == ("city",)


def test_two_tools_of_one_name_are_refused() -> None:
    with pytest.raises(
        ConfigurationError, match=r"there are two tools called 'a'; give one another name with name=\.\.\."
    ):
        Registry([named("a"), named("a")])


@pytest.mark.parametrize(
    "name",
    ["print", "execute", "cancel", "execute_code", "tools", "rpc.x", "ToolError", "search_tools", "describe_tools"],
)
def test_a_reserved_name_is_refused(name: str) -> None:
    with pytest.raises(ConfigurationError, match="the name is reserved; give it another with name="):
        Registry([named(name)])


def test_a_foreign_tool_is_renamed_instead() -> None:
    registry = Registry()
    assert registry.add(named("print"), rename=True).name == "print_"
    assert registry.add(named("rpc.x"), rename=True).name == "rpc_x"
    assert registry.add(named("search"), rename=True).name == "search"
    assert registry.add(named("search"), rename=True).name == "search_2"
    assert registry.add(named("search"), rename=True).name == "search_3"


def test_an_unknown_name_is_answered_with_the_nearest() -> None:
    with pytest.raises(ToolNotFound, match=r"^there is no tool 'get_wether'; did you mean get_weather\?$"):
        Registry([named("get_weather")]).get("get_wether")


def test_a_name_that_needs_no_change_is_never_taken_away() -> None:
    registry = Registry([named("a-b"), named("a_b"), named("a.b"), named("a_b_2")])
    assert registry.callable_names() == {"a-b": "a_b_3", "a.b": "a_b_4", "a_b": "a_b", "a_b_2": "a_b_2"}
    assert registry.callable_name("a.b") == "a_b_4"


@given(
    st.lists(
        st.sampled_from(["a-b", "a_b", "a.b", "a b", "list", "list_", "1", "_1", "print_", "é", "e\u0301"]), unique=True
    )
)
def test_python_names_do_not_depend_on_the_order_of_adding(names: list[str]) -> None:
    chosen = Registry(map(named, names)).callable_names()
    assert chosen == Registry(map(named, reversed(names))).callable_names()
    assert len(set(chosen.values())) == len(names)
    assert all(python_name(name) == name for name in chosen.values())


def test_the_listing_is_the_same_to_the_byte() -> None:
    def listing(names: str) -> str:
        return json.dumps([[tool.name, tool.input_schema] for tool in Registry(map(named, names))])

    assert listing("bca") == listing("cab")


def test_a_tool_that_is_added_later_is_seen() -> None:
    registry = Registry([named("b")])
    assert registry.names() == ("b",)
    before = registry.tools()
    assert registry.tools() is before
    registry.add(named("a"))
    assert registry.names() == ("a", "b")
    assert registry.callable_names() == {"a": "a", "b": "b"}


def test_tools_are_found_by_capability_and_by_category() -> None:
    def tool(name: str, **options: Any) -> Tool:
        return Tool.from_schema(name, "does nothing", {"type": "object"}, dict, **options)

    registry = Registry(
        [
            tool("web", category="Search", capabilities=["semantic search", "news"]),
            tool("docs", category="search", capabilities=["Semantic Search"]),
            tool("pay", category="external"),
            tool("plain"),
        ]
    )

    def names(tools: tuple[Tool, ...]) -> list[str]:
        return [tool.name for tool in tools]

    assert names(registry.by_capability("semantic search")) == ["docs", "web"]
    assert names(registry.by_capability("NEWS")) == ["web"]
    assert names(registry.by_capability("semantic")) == []
    assert names(registry.by_category("search")) == ["docs", "web"]
    assert names(registry.by_category("other")) == []


def test_what_a_planner_may_want_to_know_of_a_tool() -> None:
    def search(query: str) -> str:
        """Search the web."""
        return query

    options: ToolOptions = {
        "category": "search",
        "capabilities": ["news"],
        "limitations": ["English"],
        "examples": [{"query": "x"}],
        "cost": 0.5,
    }
    registry = Registry([Tool.from_function(search, **options)])
    info = registry.info("search")
    assert (info.name, info.description, info.category, info.cost) == ("search", "Search the web.", "search", 0.5)
    assert info.parameters["required"] == ["query"]
    assert (info.capabilities, info.limitations, info.examples) == (("news",), ("English",), ({"query": "x"},))
    assert (info.calls, info.average_seconds, info.p95_seconds, info.failure_rate) == (0, None, None, None)
    registry.statistics.note("search", 2.0, "succeeded")
    registry.statistics.note("search", 4.0, "timed_out")
    info = registry.info("search")
    assert (info.calls, info.average_seconds, info.p95_seconds, info.failure_rate) == (2, 3.0, 4.0, 0.5)
    with pytest.raises(ToolNotFound):
        registry.info("serch")


def served(server: str, name: str, as_: str | None = None) -> Tool:
    made = as_ or imported_name(server, name)
    return Tool.from_schema(made, "does nothing", {"type": "object"}, dict, server=server, server_tool=name)


def test_a_tool_can_be_taken_out() -> None:
    tool = named("a")
    registry = Registry([tool, named("b")])
    before = registry.tools()
    assert registry.remove("a") is tool
    assert registry.names() == ("b",)
    assert registry.tools() is not before
    assert registry.callable_names() == {"b": "b"}
    assert registry.resolve("a") is None
    with pytest.raises(ToolNotFound):
        registry.remove("a")
    registry.add(tool)
    assert registry.names() == ("a", "b")


def test_the_tools_of_a_server_are_replaced_at_once() -> None:
    registry = Registry([named("own")])
    seen = []
    end = registry.subscribe(lambda: seen.append(registry.names()))
    first = registry.replace_server("s", [served("s", "a"), served("s", "b")])
    assert [tool.name for tool in first] == ["s_a", "s_b"]
    registry.replace_server("s", [served("s", "b"), served("s", "c")])
    registry.replace_server("other", [served("other", "x")])
    registry.replace_server("s", [])
    assert seen == [
        ("own", "s_a", "s_b"), ("own", "s_b", "s_c"), ("other_x", "own", "s_b", "s_c"), ("other_x", "own"),
    ]  # fmt: skip
    end()
    end()
    registry.remove("own")
    assert len(seen) == 4
    assert registry.has_servers
    assert not Registry([named("own")]).has_servers


def test_a_server_s_tool_keeps_its_name_over_a_new_list() -> None:
    registry = Registry([named("s_a"), named("s_a_2")])
    (kept,) = registry.replace_server("s", [served("s", "a")])
    assert kept.name == "s_a_3"
    registry.remove("s_a")
    registry.remove("s_a_2")
    again, new = registry.replace_server("s", [served("s", "a"), served("s", "a", "s_a")])
    assert (again.name, new.name) == ("s_a_3", "s_a")
    assert (again.server, again.server_tool) == ("s", "a")


def test_reserved_and_taken_names_of_servers_are_changed() -> None:
    registry = Registry([named("echo")])
    tools = [served("s", name, name) for name in ("print", "echo", "search_tools", "rpc.x", "echo", "fine")]
    assert [tool.name for tool in registry.replace_server("s", tools)] == [
        "print_", "echo_2", "search_tools_", "rpc_x", "echo_3", "fine",
    ]  # fmt: skip


def test_nothing_changes_where_a_tool_is_another_server_s() -> None:
    registry = Registry()
    registry.replace_server("s", [served("s", "a")])
    before = registry.tools()
    with pytest.raises(ConfigurationError, match=r"^tool 't_b' has the server 't', not 's'$"):
        registry.replace_server("s", [served("s", "c"), served("t", "b")])
    with pytest.raises(ConfigurationError, match=r"^tool 'own' has the server None, not 's'$"):
        registry.replace_server("s", [named("own")])
    with pytest.raises(ConfigurationError, match="a server's name must not be empty"):
        registry.replace_server(" ", [])
    assert registry.tools() is before


def test_what_is_known_of_names_stays_as_it_was() -> None:
    registry = Registry([named("a-b")])
    before = registry.vocabulary()
    assert registry.vocabulary() is before
    registry.add(named("a_b"))
    assert registry.vocabulary() is not before
    assert (before.resolve("a_b"), registry.resolve("a_b")) == ("a-b", "a_b")
    assert before.callable_names == {"a-b": "a_b"}


def test_a_server_that_is_expected_is_told_of_until_its_tools_come() -> None:
    registry = Registry([named("files_found")])
    before = registry.tools()
    registry.expect_server("files", "the server is starting")
    assert registry.tools() is not before  # what was kept of these tools is made anew
    assert registry.has_servers
    with pytest.raises(ToolNotFound, match=r"^there is no tool 'files_read'; the server is starting$"):
        registry.get("files_read")
    unchanged = registry.tools()
    registry.expect_server("files", "the server is starting")
    assert registry.tools() is unchanged
    held = registry.vocabulary()
    registry.replace_server("files", [served("files", "read")])
    assert registry.vocabulary().why_absent("files_write") is None
    assert held.why_absent("files_write") == "the server is starting"
    registry.expect_server("other", "the server is starting")
    registry.expect_server("other", None)
    assert registry.vocabulary().why_absent("other") is None
