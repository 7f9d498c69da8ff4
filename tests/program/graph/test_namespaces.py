"""Namespaces in programs that are read as graphs: the same call, however it is written; whatever else the name may mean
is left to the sandbox."""

from __future__ import annotations

from typing import Any

import pytest

from callgate.plan.expressions.trees import walked
from callgate.program import parse_program
from callgate.program.graph.flow import CallTool, Flow, operations_of
from callgate.program.graph.reading.read import read_flow
from callgate.program.graph.reading.scope import GraphTool, GraphTools
from callgate.program.graph.reasons import NotAGraph

TOOLS = {
    "git_log": GraphTool("git_log", "git_log", ("n", "since"), True),
    "describe_tools": GraphTool("describe_tools", "describe_tools", ("names",), True, variadic=True),
    "own": GraphTool("o-wn", "own", (), True),
}
SPACES = {
    "git": {"log": "git_log"},
    "json": {"load": "own"},
    "own": {"x": "git_log"},
    "": {"describe": "describe_tools"},
}
WAYS = {"git.log": "git_log", "o-wn": "own", "gone": "not_offered"}


def read(source: str, **inputs: Any) -> Flow | list[NotAGraph]:
    tree = parse_program(source)
    assert not hasattr(tree, "code"), tree
    return read_flow(walked(tree), source, GraphTools(TOOLS, SPACES, WAYS.get), inputs)


@pytest.mark.parametrize(
    ("call", "tool"),
    [
        ("git.log(1)", "git_log"),
        ("tools.git.log(1)", "git_log"),
        ("tools.json.load()", "o-wn"),
        ("tool_call('git.log', n=1)", "git_log"),
        ("tool_call('o-wn')", "o-wn"),
        ("own()", "o-wn"),
        ("tools.own()", "o-wn"),
        ("tools.describe('a', 'b')", "describe_tools"),
        ("describe_tools(['a'])", "describe_tools"),
        ("tools.describe(names=list('ab'))", "describe_tools"),
    ],
)
def test_a_call_is_the_tool_s_however_it_is_written(call: str, tool: str) -> None:
    flow = read(f"r = await {call}")
    assert isinstance(flow, Flow), flow
    (site,) = flow.sites
    assert site.tool == tool
    (made,) = [each for each in operations_of(flow.body) if isinstance(each, CallTool)]
    assert {name for name, _ in made.arguments} <= {"n", "names"}


@pytest.mark.parametrize(
    "source",
    [
        "from tools import git\nawait git.log(1)",
        "git = 3\nprint(git)",
        "for git in [1]:\n    print(git, (await tools.git.log(1)))",
        "import json\nprint(json.dumps(1), await tools.json.load())",
        "git = await tools.git.log(1)\nprint(git.x, git.count)",
    ],
)
def test_what_is_certain_is_a_graph(source: str) -> None:
    assert isinstance(read(source), Flow), read(source)


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("await git.log(1)\ngit = 3", "line 1: await git.log(1): what is awaited is not a call of a tool"),
        ("git = 1\nawait git.log(1)", "line 2: await git.log(1): what is awaited is not a call of a tool"),
        ("[git for git in [1]]\nawait git.log(1)", "line 2: await git.log(1): what is awaited is not a call of a tool"),
        ("await json.load()", "line 1: await json.load(): what is awaited is not a call of a tool"),
        ("await git.logs(1)", "line 1: git.logs(1): there is no such tool"),
        ("await tools.gitt.log(1)", "line 1: await tools.gitt.log(1): what is awaited is not a call of a tool"),
        ("await tools.own.x(1)", "line 1: await tools.own.x(1): what is awaited is not a call of a tool"),
        ("await tool_call('gone')", "line 1: tool_call('gone'): it names no tool that is known"),
        ("await tool_call('git.lo')", "line 1: tool_call('git.lo'): it names no tool that is known"),
        ("x = git", "line 1: git: a function is used as a value; call it"),
        ("x = git.log", "line 1: git: a function is used as a value; call it"),
        ("x = git.log(1) + 1", "line 1: git.log(1): the call is not awaited; write await before it"),
        ("from tools import git as g", "line 1: from tools import git as g: only json and asyncio are part of a graph"),
        ("from tools import json", "line 1: from tools import json: only json and asyncio are part of a graph"),
        ("from tools.git import log", "line 1: from tools.git import log: only json and asyncio are part of a graph"),
        (
            "n = 'a'\nawait tools.describe(n)",
            "line 2: tools.describe(n): its arguments may be names, or a list of them",
        ),
        ("n = ['a']\nawait tools.describe(*n)", "line 2: tools.describe(*n): its arguments may be names"),
    ],
)
def test_whatever_else_it_may_mean_is_left_to_the_sandbox(source: str, reason: str) -> None:
    reasons = read(source)
    assert isinstance(reasons, list), reasons
    assert str(reasons[0]).startswith(reason)


def test_an_input_goes_before_a_namespace() -> None:
    assert isinstance(read("print(git)", git=1), Flow)
    assert isinstance(read("await git.log(1)", git=1), list)
    assert isinstance(read("print(git, await tools.git.log(1))", git=1), Flow)
