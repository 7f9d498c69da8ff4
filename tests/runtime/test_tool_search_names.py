"""Searches for a tool's name, in whatever form; and what a search tells of the types that a tool gives back."""

from __future__ import annotations

from typing import Any

import pytest

from callgate.runtime.discovery.search import ToolSearch
from callgate.tools import Registry, Tool

TEXT = {"type": "object", "properties": {"content": {"type": "string"}}, "required": ["content"]}


def of_server(server: str, name: str, description: str, output: dict[str, Any] | None = None) -> Tool:
    schema = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
    return Tool.from_schema(
        f"{server}_{name}", description, schema, print, server=server, server_tool=name, output_schema=output
    )


FILES = [
    of_server("files", "create_directory", "Create a directory, or make sure that it is there.", TEXT),
    of_server("files", "list_allowed_directories", "List the directories that may be listed: the list of them.", TEXT),
    of_server("files", "list_directory", "A detailed listing of all files, with their kinds, at a path.", TEXT),
    of_server("disk", "listDirectory", "What is there."),
    of_server("git", "log", "Commit history."),
    Tool.from_schema("log", "Write a line.", {"type": "object"}, print),
    Tool.from_schema("__", "Nothing but signs.", {"type": "object"}, print),
]


@pytest.fixture
def search() -> ToolSearch:
    return ToolSearch(Registry(FILES))


def names(search: ToolSearch, query: str, **options: Any) -> list[str]:
    return [each.tool.name for each in search.find(query, **options).found]


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("list directory", ["files_list_directory", "disk_listDirectory"]),
        ("List-Directory", ["files_list_directory", "disk_listDirectory"]),
        (" list_directory ", ["files_list_directory", "disk_listDirectory"]),
        ("listDirectory", ["disk_listDirectory", "files_list_directory"]),
        ("files list directory", ["files_list_directory"]),
        ("disk.listDirectory", ["disk_listDirectory"]),
        ("list allowed directories", ["files_list_allowed_directories"]),
        ("log", ["log", "git_log"]),
        ("git log", ["git_log"]),
    ],
)
def test_a_query_that_is_a_name_in_any_form_brings_its_tools_first(
    search: ToolSearch, query: str, first: list[str]
) -> None:
    found = names(search, query)
    assert set(found[: len(first)]) == set(first)
    assert names(search, query, limit=1) == found[:1]


def test_the_tool_of_exactly_that_name_comes_before_its_namesakes(search: ToolSearch) -> None:
    assert names(search, "log")[0] == "log"
    assert names(search, "git_log")[0] == "git_log"


def test_a_name_brings_no_tool_that_is_not_searched(search: ToolSearch) -> None:
    among = frozenset({"files_list_allowed_directories", "git_log"})
    assert names(search, "list directory", among=among) == ["files_list_allowed_directories"]
    assert names(search, "list directory", server="disk") == ["disk_listDirectory"]


def test_a_query_without_letters_is_no_name(search: ToolSearch) -> None:
    assert names(search, "--!") == []
    assert names(search, "__") == ["__"]
    assert names(search, "list directory " * 100)[0] == "files_list_allowed_directories"


def test_the_fields_of_a_result_stand_beside_the_signature_that_names_it(search: ToolSearch) -> None:
    result = search.find("list directory", limit=1, server="files")
    assert result.for_model() == (
        "1 of 3 tools, the best first:\n"
        "files_list_directory(path: str) -> FilesListDirectoryResult\n"
        "    A detailed listing of all files, with their kinds, at a path.\n"
        "    FilesListDirectoryResult: {content: str}"
    )
    assert result.to_json()["found"][0]["types"] == "FilesListDirectoryResult: {content: str}"
    assert "class FilesListDirectoryResult(TypedDict):" in search.describe(["files_list_directory"]).for_model()
    (untyped,) = search.find("log", limit=1, server="git").to_json()["found"]
    assert untyped["types"] == ""


def test_the_fields_of_a_large_result_are_cut() -> None:
    odd = {"type": "object", "properties": {f"key {n} {'x' * 150}": {} for n in range(150)}}
    search = ToolSearch(Registry([of_server("files", "odd", "Odd.", odd)]))
    types = search.find("odd").to_json()["found"][0]["types"]
    assert types.startswith("FilesOddResult: {'key 0 xxx")
    assert "..." in types
    assert len(types) < 620


def test_filters_are_named_where_a_query_is_empty(search: ToolSearch) -> None:
    with pytest.raises(Exception, match=r"\(it may be empty beside server, capability or another filter\)$"):
        search.find("")
