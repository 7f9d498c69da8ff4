"""Namespaces of servers in a program that is looked at: which names stand for them, and what is said of mistakes."""

from __future__ import annotations

import ast

import pytest

from callgate.program import Finding, ToolShape, check_program
from callgate.program.survey import survey
from callgate.program.tool_names import ToolNames

TOOLS = {
    name: ToolShape(name, parameters, frozenset(parameters[:1]))
    for name, parameters in {
        "git_log": ("n", "since"), "git_show": (), "my_tool": ("x",), "search_tools": ("query",), "git": (),
    }.items()
}  # fmt: skip
SPACES = {"git_": {"log": "git_log", "show": "git_show"}, "time": {"now": "git_show"}, "": {"search": "search_tools"}}


def found(source: str, **options: object) -> list[Finding]:
    known = {"git_.log": "git_log", "my-tool": "my_tool", **{name: name for name in TOOLS}}
    return check_program(source, TOOLS, namespaces=SPACES, resolve=known.get, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "source",
    [
        "await git_.log(1)",
        "await tools.git_.log(n=1, since=2)",
        "await tool_call('git_.log', n=1)",
        "await tool_call('my-tool', x=1)",
        "from tools import git_, time as t\nawait git_.log(1)\nawait t.now()",
        "from tools.git_ import log as l, show\nawait l(1)\nawait show()",
        "import tools as t\nawait t.git_.log(1)\nawait t.search('x')",
        "import time\ntime.sleep(1)",
        "def time():\n    return 1\ntime().bit_length()",
        "for git_ in [1]:\n    print(git_.real)",
        "git_ = await git_.show()\ngit_.anything(1)[0]",
        "git_.__name__\ntime._private",
        "await git()",
        "tools.git_",
        "x = git_\nawait x.log(1)",
        "git_.log = 1",
    ],
)
def test_nothing_is_said_of_what_is_right_or_not_certain(source: str) -> None:
    assert found(source) == []


@pytest.mark.parametrize(
    ("source", "message", "hint"),
    [
        ("await git_.log()", "git_.log(...) is called without `n`", "write `git_.log(n=...)`"),
        ("await git_.log(m=1, n=1)", "git_.log(...) has no argument `m`", "its arguments are: n, since"),
        ("await git_.show(1)", "git_.show(...) takes no arguments, and 1 are given", "write `git_.show()`"),
        ("git_.log(1)", "git_.log(...) is never awaited, so its result is not used", "write `await git_.log(1)`"),
        ("x = tools.git_.log(1)\nx[0]", "`x` is subscripted, but holds the call tools.git_.log(...) and not its result",
         "write `x = await tools.git_.log(1)` on line 1"),
        ("git_.logs(1)", "there is no tool `logs` in git_", "did you mean `git_.log`?"),
        ("tools.git_.zz", "there is no tool `zz` in git_", "the tools in git_ are: log, show"),
        ("tools.gitt_", "there is no tool `gitt_`", "did you mean `tools.git_`?"),
        ("tools.serch", "there is no tool `serch`", "did you mean `tools.search`?"),
        ("time.sleep(1)", "there is no tool `sleep` in time",
         "for Python's own module of that name write `import time` first"),
        ("from tools import time as t\nt.sleep(1)", "there is no tool `sleep` in time", "the tools in time are: now"),
        ("from tools.git_ import lo", "there is no tool `lo` in git_", "did you mean `from tools.git_ import log`?"),
        ("from tools.gti_ import log", "`tools` has no namespace `gti_`", "did you mean `from tools.git_ import log`?"),
        ("from tools.zzzzzz import log", "`tools` has no namespace `zzzzzz`", "there are: git_, time"),
        ("await tool_call('git_.lok')", "there is no tool `git_.lok`", 'did you mean `tool_call("git_.log", ...)`?'),
        ("await tool_call('my-tool')", 'my-tool(...) is called without `x`', 'write `tool_call("my-tool", x=...)`'),
        ("gitt_.log(1)", "`gitt_` is not defined", "did you mean `git_`?"),
        ("await show()", "`show` is not defined", "did you mean `git_.show`?"),
    ],
)  # fmt: skip
def test_mistakes_are_told_as_the_program_has_them(source: str, message: str, hint: str) -> None:
    first = found(source)[0]
    assert (first.message, first.hint, first.severity) == (message, hint, "error")


def test_a_try_around_it_makes_it_a_warning() -> None:
    (finding,) = found("try:\n    git_.nothing\nexcept AttributeError:\n    pass")
    assert finding.severity == "warning"


def test_an_input_or_an_earlier_variable_of_the_name_is_no_namespace() -> None:
    for options in ({"inputs": ["git_"]}, {"known_names": ["git_"]}):
        assert found("git_.anything(1)", **options) == []
        assert found("await tools.git_.log()", **options)[0].code == "missing-argument"


def test_without_a_resolver_tools_are_found_by_their_names() -> None:
    shape = ToolShape("a_b", (), frozenset())
    assert check_program("await tool_call('a_b')", [shape]) == []
    assert check_program("await tool_call('a.b')", [shape])[0].hint == 'did you mean `tool_call("a_b", ...)`?'


def test_built_in_tools_are_not_listed() -> None:
    hidden = ToolShape("search_tools", ("query",), frozenset(), listed=False)
    (one,) = check_program("tools.zzzzzz", [hidden, ToolShape("my_tool", (), frozenset())])
    assert one.hint == "the tools are: my_tool"
    (none,) = check_program("tools.zzzzzz", [hidden])
    assert none.hint == "there are no tools in this program"


def test_a_parameter_may_take_all_positional_arguments() -> None:
    shape = ToolShape("describe_tools", ("names",), frozenset({"names"}), variadic=True)
    assert check_program("await describe_tools('a', 'b')\nawait describe_tools(names=[])", [shape]) == []
    assert check_program("await describe_tools()", [shape])[0].code == "missing-argument"
    assert check_program("await describe_tools('a', names=[])", [shape])[0].code == "repeated-argument"


@pytest.mark.parametrize(
    ("source", "mentioned"),
    [
        ("await git_show()", {"git_show"}),
        ("await tools.my_tool(x=1)\nawait git_.log(1)", {"my_tool", "git_log"}),
        ("await tool_call('my-tool', x=1)", {"my_tool"}),
        ("from tools.git_ import log as l\nawait l(1)", {"git_log"}),
        ("from tools import git_show as s\nlist(map(s, []))", {"git_show"}),
        ("f = git_.show\nawait f()", {"git_show"}),
        ("tools.git_.log", {"git_log"}),
        ("git_show = await git_show()", {"git_show"}),
        ("git_ = await git_.show()", {"git_show"}),
        ("async def f(g=git):\n    return await g()", {"git"}),
        ("lambda: git_show", {"git_show"}),
        ("digit, legit = 1, 'git'\nlegit.git\n{'git': 1}  # git", set()),
        ("git = 1", set()),
        ("await git_.blame()", set()),
        ("await tool_call(name)", set()),
        ("for name in ['my-tool', 'other']:\n    await tool_call(name, x=1)", {"my_tool"}),
        ("list(map(tool_call, ['my-tool']))", {"my_tool"}),
        ("await tools.tool_call('my-tool')", {"my_tool"}),
        ("import tools\nawait getattr(tools, 'my_tool')(x=1)", {"my_tool"}),
        ("await globals()['git_show']()", {"git_show"}),
        ("await tool_call('my-tool', kind='git')", {"my_tool"}),
    ],
)
def test_a_program_mentions_the_tools_that_it_may_call(source: str, mentioned: set[str]) -> None:
    seen = survey(ast.parse(source))
    known = {"my-tool": "my_tool", **{name: name for name in TOOLS}}
    assert ToolNames(seen, TOOLS, (), SPACES, known.get).mentioned(seen) == mentioned
