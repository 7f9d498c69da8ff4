"""Every name of a tool, whatever servers call theirs."""

from __future__ import annotations

import keyword
import time
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callgate.tools import Registry, Tool, imported_name, python_name
from callgate.tools.names import is_attribute
from callgate.tools.namespaces import Vocabulary

HOSTILE = [
    "__class__", "__getattr__", "__dict__", "__init__", "__import__", "print", "list", "class", "import", "await",
    "None", "match", "execute", "cancel", "rpc.x", "tools", "tool_call", "ToolError", "inputs", "search_tools",
    "execute_code", "", " ", "_", "__", "1", "9lives", "a b", "a.b", "a-b", "a_b", "a\nb", "a\0b", "a=b", "a b=c",
    "\ud800", "\u202eevil", "\u0435cho", "\uff45cho", "echo", "é", "e\u0301", "ℌ", "x" * 500, "😀", "中文", "-", "--",
    "github", "github.create", "../../etc/passwd", "'; drop", "{x}", "%s", "$(id)", "`id`", "<script>",
]  # fmt: skip
"""What a server may call its tools; some of it cannot name a tool here, but it can be `server_tool`."""


def served(server: str, name: str) -> Tool:
    made = imported_name(server, name)
    return Tool.from_schema(made, "does nothing", {"type": "object"}, dict, server=server, server_tool=name)


def registry_of(*servers: tuple[str, list[str]], own: list[str] | None = None) -> Registry:
    registry = Registry(Tool.from_schema(name, "", {"type": "object"}, dict) for name in own or [])
    for server, names in servers:
        registry.replace_server(server, [served(server, name) for name in names])
    return registry


def test_a_tool_is_known_by_every_way_to_write_it() -> None:
    registry = registry_of(("git-hub", ["create-issue"]), own=["get-weather"])
    assert registry.names() == ("get-weather", "git_hub_create_issue")
    assert registry.namespaces() == {"git_hub": {"create_issue": "git_hub_create_issue"}}
    for way in (
        "git_hub_create_issue", "git-hub.create-issue", "git_hub.create_issue", "git-hub.create_issue",
        "git_hub.create-issue",
    ):  # fmt: skip
        assert registry.resolve(way) == "git_hub_create_issue", way
    assert registry.resolve("get-weather") == registry.resolve("get_weather") == "get-weather"
    for wrong in (
        "create_issue",
        "git_hub",
        "git_hub.",
        ".create_issue",
        "GIT_HUB.create_issue",
        "",
        "git_hub.create_issue.x",
    ):
        assert registry.resolve(wrong) is None, wrong


def test_names_are_compared_exactly_and_never_by_their_looks() -> None:
    registry = registry_of(("s", ["echo"]))
    assert registry.resolve("s.echo") == "s_echo"
    assert registry.resolve("s.\u0435cho") is None  # Cyrillic
    assert registry.resolve("s.\uff45cho") is None  # fullwidth


@pytest.mark.parametrize("own", [[], ["github", "github_", "s_print"]])
def test_hostile_names_become_attributes_that_python_takes(own: list[str]) -> None:
    registry = registry_of(("github", HOSTILE), ("s", HOSTILE), ("print", ["x"]), own=own)
    assert len(registry) == 2 * len(HOSTILE) + 1 + len(own)
    spaces = registry.namespaces()
    # the server's tools `""`, `"_"` and `"__"` are called github_, github__ and github___ here
    assert list(spaces) == ["github____" if own else "github", "print_", "s"]
    for space, members in spaces.items():
        for name in (space, *members):
            assert name.isidentifier()
            assert python_name(name) == name
            assert not keyword.iskeyword(name)
            assert not (name.startswith("__") and name.endswith("__"))
        assert len(set(members.values())) == len(members)
    callable_names = registry.callable_names()
    assert len(set(callable_names.values())) == len(registry)
    assert not set(callable_names.values()) & set(spaces)
    for tool in registry:
        if tool.server is not None and tool.server_tool in ("echo", "a-b", "a_b", "__class__", "\ud800"):
            assert registry.resolve(f"{tool.server}.{tool.server_tool}") == tool.name


def test_two_tools_of_one_name_on_a_server_are_both_there() -> None:
    registry = registry_of(("s", ["a", "a", "a"]))
    assert registry.names() == ("s_a", "s_a_2", "s_a_3")
    assert registry.namespaces() == {"s": {"a": "s_a", "a_2": "s_a_2", "a_3": "s_a_3"}}
    assert registry.resolve("s.a") == "s_a"


def test_a_namespace_takes_no_name_from_a_tool_and_none_from_python() -> None:
    registry = registry_of(("github", ["x"]), ("list", ["x"]), ("tools", ["x"]), ("class", ["x"]), own=["github"])
    assert list(registry.namespaces()) == ["class_", "github_", "list_", "tools_"]
    assert registry.callable_name("github") == "github"
    assert registry.resolve("github") == "github"
    assert registry.resolve("github.x") == "github_x"


def test_servers_that_come_out_alike_are_told_apart() -> None:
    registry = registry_of(("my-srv", ["x"]), ("my_srv", ["x"]), ("my.srv", ["x"]))
    assert registry.names() == ("my_srv_x", "my_srv_x_2", "my_srv_x_3")
    assert {space: list(members) for space, members in registry.namespaces().items()} == {
        "my_srv": ["x"], "my_srv_2": ["x"], "my_srv_3": ["x"],
    }  # fmt: skip
    for server in ("my-srv", "my_srv", "my.srv"):
        found = registry.resolve(f"{server}.x")
        assert found is not None
        assert registry.get(found).server == server


def test_no_server_takes_the_names_of_another() -> None:
    hostile = served("a", "b.c")
    registry = Registry([hostile])
    assert registry.resolve("a.b.c") == hostile.name
    registry.replace_server("a.b", [served("a.b", "c")])
    assert registry.get(str(registry.resolve("a.b.c"))).server == "a.b"
    registry.replace_server("a.b", [])
    assert registry.resolve("a.b.c") == hostile.name


def test_a_name_of_the_registry_goes_before_a_dotted_one() -> None:
    registry = registry_of(("github", ["create"]), own=["github.create"])
    assert registry.resolve("github.create") == "github.create"
    assert registry.resolve("github_create") == "github_create"


@given(
    st.lists(
        st.tuples(st.sampled_from(["s", "t", "my-s", "my_s", "list"]), st.sampled_from(HOSTILE)),
        max_size=12,
        unique=True,
    ),
)
def test_namespaces_do_not_depend_on_the_order_of_adding(pairs: list[tuple[str, str]]) -> None:
    tools = [
        Tool.from_schema(f"tool {n}", "", {"type": "object"}, dict, server=server, server_tool=name)
        for n, (server, name) in enumerate(pairs)
    ]
    one, other = Registry(tools), Registry(reversed(tools))
    assert one.namespaces() == other.namespaces()
    assert sum(map(len, one.namespaces().values())) == len(tools)
    for space, members in one.namespaces().items():
        for member, name in members.items():
            assert one.resolve(f"{space}.{member}") == name


@given(st.text(max_size=40), st.text(max_size=300))
def test_an_imported_name_is_an_identifier_whatever_the_server_says(server: str, tool: str) -> None:
    name = imported_name(server, tool)
    assert name.isidentifier()
    assert 0 < len(name) <= 128
    assert unicodedata.is_normalized("NFKC", name)


def test_what_can_be_written_as_an_attribute() -> None:
    for name in ("list", "print", "_x", "é", "match", "tools"):
        assert is_attribute(name), name
    for name in ("class", "a-b", "", "1", "__class__", "\uff45cho", "e\u0301", "None"):
        assert not is_attribute(name), name


@pytest.mark.slow
def test_thousands_of_tools_whose_names_all_come_out_alike_are_named_in_linear_time() -> None:
    def seconds(count: int) -> float:
        names = ["-" * (n % 7 + 1) + " ." * (n // 7 % 100) for n in range(count)]
        started = time.process_time()
        registry = registry_of(("s", [name + "?" for name in names]))
        assert len(set(registry.callable_names().values())) == count
        assert sum(map(len, registry.namespaces().values())) == count
        assert registry.resolve("s.nothing") is None
        return time.process_time() - started

    few = min(seconds(500) for _ in range(3))
    assert min(seconds(8_000) for _ in range(3)) < 100 * few  # linear is 16, quadratic 256


def test_why_a_tool_of_an_expected_server_is_absent() -> None:
    here = served("files_2", "read")
    names = Vocabulary((here,), {"files": "F", "my files.": "M", "a": "A", "a.b": "AB"})
    for name in ("files", "FILES", "files.list_directory", "files_list_directory", "files.a.b"):
        assert names.why_absent(name) == "F"
    for name in ("my files..x", "my_files_", "my_files_.x", "my_files__x"):
        assert names.why_absent(name) == "M"
    assert (names.why_absent("a.b.c"), names.why_absent("a.c")) == ("AB", "A")
    for name in ("file", "filesystem", "files_2.raed", "files_2_raed", "", "print"):
        assert names.why_absent(name) is None
    assert Vocabulary((here,)).why_absent("files") is None
