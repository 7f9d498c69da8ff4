"""What a guest makes of the tools and namespaces of a request."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from guest.driver import GuestProcess, Ran

ENTRIES = [
    "git_log  n since",
    ["git_odd", "git.odd", "a b"],
    "list_all ",
    "describe_tools  names",
    "search_tools  query",
]
SPACES = {
    "git": "log odd=git_odd",
    "files": "list=list_all all=list_all",
    "": "search=search_tools describe=describe_tools",
}


def run(
    guest: GuestProcess, code: str, tools: Sequence[object] | None = None, spaces: dict[str, str] | None = None
) -> Ran:
    """Answers every call with its method and arguments."""
    return guest.run(
        code,
        tools=list(ENTRIES if tools is None else tools),
        namespaces=SPACES if spaces is None else spaces,
        reply=lambda method, params: {"result": [method, params]},
    )


@pytest.mark.parametrize(
    ("code", "value"),
    [
        ("await git_log(1, '2')", ["git_log", {"n": 1, "since": "2"}]),
        ("await git_odd(1)", ["git.odd", {"a b": 1}]),
        ("await list_all()", ["list_all", {}]),
        ("await git.log(n=1)", ["git_log", {"n": 1}]),
        ("await tools.git.odd(1)", ["git.odd", {"a b": 1}]),
        ("from tools.git import log as l\nawait l(3)", ["git_log", {"n": 3}]),
        ("from tools import *\nawait git.log(3)", ["git_log", {"n": 3}]),
        ("await files.list()", ["list_all", {}]),
        ("await tools.search('x')", ["search_tools", {"query": "x"}]),
        ("await tools.describe('x', 'y')", ["describe_tools", {"names": ["x", "y"]}]),
        ("await tools.describe(('x', 'y'))", ["describe_tools", {"names": ["x", "y"]}]),
        ("[git.log.__name__, git.log.__qualname__, git.log.__module__]", ["git_log", "git_log", "tools"]),
        ("git.log is git_log is tools.git_log", True),
        ("def f():\n    return git.log(4)\nf()", ["git_log", {"n": 4}]),
        ("[n for n in dir(git) if not n.startswith('__')]", ["log", "odd"]),
        ("[hasattr(git, n) for n in ('log', 'list', '__wrapped__')]", [True, False, False]),
        ("git = 1\ngit + 1", 2),
    ],
)
def test_tools_and_namespaces_are_bound(code: str, value: object) -> None:
    with GuestProcess() as guest:
        ran = run(guest, code)
        assert (ran.value, ran.error) == (value, None)


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("git.logs", "there is no tool 'logs' in git; did you mean 'log'?"),
        ("git.zzzzz", "there is no tool 'zzzzz' in git"),
        ("tools.gitt", "there is no tool 'gitt'; did you mean 'git'?"),
        ("git.log(1, 2, 3)", "git_log() takes 2 positional arguments but 3 were given; its parameters are: n, since"),
        ("git.log(1, n=1)", "git_log() got multiple values for argument 'n'"),
        ("tools.describe('x', names=1)", "describe_tools() got multiple values for argument 'names'"),
        ("from tools.gitt import x", "No module named 'tools.gitt'; 'tools' is not a package"),
        ("git.log(1)[0]", "the call of git_log was not awaited: write `await git_log(...)`"),
    ],
)
def test_mistakes_are_told_in_words(code: str, message: str) -> None:
    with GuestProcess() as guest:
        assert run(guest, code).message == message


def test_a_session_is_given_what_is_offered_now() -> None:
    with GuestProcess() as guest:
        assert run(guest, "mine = 1\ngit_log = 'my own'\nawait git.log(1)").value == ["git_log", {"n": 1}]
        assert run(guest, "[mine, git_log, (await tools.git_log(1))[0]]").value == [1, "my own", "git_log"]
        entries = ["git_log  other", "git_new ", "search  words", "mine_x ", "search_tools  query"]
        spaces = {"git": "log new", "mine": "x", "": "describe=git_new"}
        now = "[mine, git_log, await git.log(1), await git.new(), await tools.mine.x(), await tools.search(2)]"
        assert run(guest, now, entries, spaces).value == [
            1, "my own", ["git_log", {"other": 1}], ["git_new", {}], ["mine_x", {}], ["search", {"words": 2}],
        ]  # fmt: skip
        assert run(guest, "git.odd", entries, spaces).message.startswith("there is no tool 'odd' in git")
        assert run(guest, "await tools.search(2)").value == ["search_tools", {"query": 2}]


def test_a_function_of_a_tool_that_has_changed_is_a_new_one() -> None:
    with GuestProcess() as guest:
        assert run(guest, "await a(1)", ["a  x"], {}).value == ["a", {"x": 1}]
        assert run(guest, "await a(1)", [["a", "a-b", "y"]], {}).value == ["a-b", {"y": 1}]
