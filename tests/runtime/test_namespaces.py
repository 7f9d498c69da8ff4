"""Tools of servers as programs and plans reach them: ``github.create_issue``, in every way to write it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from callgate import CodeResult, Registry, Runtime, Tool, ToolError
from callgate.tools import imported_name
from runtime.conftest import opened
from runtime.graphed import known
from tools.test_namespaces import HOSTILE

pytestmark = pytest.mark.anyio

OBJECT: dict[str, Any] = {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}


def served(server: str, name: str, read_only: bool = True) -> Tool:
    async def function(**arguments: Any) -> list[Any]:
        if arguments["x"] < 0:
            raise ToolError(f"{name} takes no {arguments['x']}", data={"x": arguments["x"]})
        return [f"{server}/{name}", arguments["x"]]

    made = imported_name(server, name)
    return Tool.from_schema(
        made, f"{name} of {server}", OBJECT, function, server=server, server_tool=name, read_only=read_only
    )


def registry_of(*servers: tuple[str, list[str]]) -> Registry:
    registry = Registry()
    for server, names in servers:
        registry.replace_server(server, [served(server, name) for name in names])
    return registry


SERVERS = (("git-hub", ["create-issue", "list", "__class__"]), ("time", ["now"]), ("search", ["search"]))


@pytest.fixture(scope="module")
async def runtime(anyio_backend: str) -> AsyncIterator[Runtime]:
    async with opened(registry_of(*SERVERS), pool_size=2) as entered:
        yield entered


async def both(runtime: Runtime, code: str, **options: Any) -> CodeResult:
    """The result, which is the same on the fast path, where the program takes it, and in the sandbox."""
    fast = await runtime.execute_code(code, **options)
    sandboxed = await runtime.execute_code(code, path="sandbox", **options)
    assert known(fast) == known(sandboxed)
    return fast


@pytest.mark.parametrize(
    "call",
    [
        "git_hub.create_issue(1)",
        "git_hub.create_issue(x=1)",
        "tools.git_hub.create_issue(1)",
        "git_hub_create_issue(1)",
        "tools.git_hub_create_issue(1)",
        'tool_call("git-hub.create-issue", x=1)',
        'tool_call("git_hub.create_issue", x=1)',
        'tool_call("git_hub_create_issue", x=1)',
    ],
)
async def test_every_way_to_write_a_call_is_the_same_call_on_both_paths(runtime: Runtime, call: str) -> None:
    result = await both(runtime, f"await {call}")
    assert (result.value, result.path) == (["git-hub/create-issue", 1], "plan")
    (record,) = result.calls
    assert (record.tool, record.arguments) == ("git_hub_create_issue", {"x": 1})


async def test_names_can_be_imported(runtime: Runtime) -> None:
    imported = "from tools import git_hub\nawait git_hub.create_issue(1)"
    assert (await both(runtime, imported)).path == "plan"
    for code in (
        "from tools import git_hub as g\nawait g.create_issue(1)",
        "from tools.git_hub import create_issue as make\nawait make(1)",
        "import tools.git_hub\nawait tools.git_hub.create_issue(1)",
        "import tools\nimport sys\nassert sys.modules['tools.git_hub'] is tools.git_hub is git_hub\n"
        "await git_hub.create_issue(1)",
        "assert git_hub.create_issue is git_hub_create_issue\nawait getattr(git_hub, 'create_issue')(1)",
    ):
        result = await runtime.execute_code(code)
        assert (result.value, result.error) == (["git-hub/create-issue", 1], None), code


async def test_a_tool_is_also_an_attribute_as_its_server_calls_it(runtime: Runtime) -> None:
    result = await both(runtime, "[await git_hub.list(x=1), await git_hub.list_(x=2), len(list('ab'))]")
    assert result.value == [["git-hub/list", 1], ["git-hub/list", 2], 2]
    assert (await both(runtime, "await git_hub.__class_(3)")).value == ["git-hub/__class__", 3]


async def test_a_plain_def_blocks_as_with_any_tool(runtime: Runtime) -> None:
    code = "def f():\n    return git_hub.create_issue(4)\nf()"
    assert (await runtime.execute_code(code)).value == ["git-hub/create-issue", 4]


async def test_a_failed_call_raises_what_any_tool_raises(runtime: Runtime) -> None:
    code = """
try:
    await git_hub.create_issue(-1)
except ToolError as error:
    print(type(error).__name__, error, error.tool, error.data, error.code)
"""
    result = await runtime.execute_code(code)
    assert result.logs == "ToolError create-issue takes no -1 git_hub_create_issue {'x': -1} -32000\n"
    failed = await both(runtime, "await git_hub.create_issue(-1)")
    assert failed.error is not None
    assert (failed.error.kind, failed.error.tool) == ("ToolError", "git_hub_create_issue")


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("git_hub.create_isue(1)", "there is no tool `create_isue` in git_hub; did you mean `git_hub.create_issue`?"),
        ("tools.git_hub.creat_issue(1)", "did you mean `tools.git_hub.create_issue`?"),
        ("git_hub.close", "no tool `close` in git_hub; the tools in git_hub are: __class_, create_issue, list_"),
        ("githb.create_issue(1)", "`githb` is not defined; did you mean `git_hub`?"),
        ("create_issue(1)", "`create_issue` is not defined; did you mean `git_hub.create_issue`?"),
        ("from tools import git_hud", "did you mean `from tools import git_hub`?"),
        ("from tools.git_hub import create", "there is no tool `create` in git_hub"),
        ("from tools.githu import a, b", "no namespace `githu`; did you mean `from tools.git_hub import a, b`?"),
        ('await tool_call("git_hub.create_isue", x=1)', 'did you mean `tool_call("git_hub.create_issue", ...)`?'),
        ("await git_hub.create_issue()", "is called without `x`; write `git_hub.create_issue(x=...)`"),
        ("await git_hub.create_issue(x=0, y=1)", "git_hub.create_issue(...) has no argument `y`"),
        ("await git_hub.create_issue(1, 2)", "git_hub.create_issue(...) takes 1 argument, and 2 are given"),
        ("git_hub.create_issue(1)", "git_hub.create_issue(...) is never awaited"),
        ("a = git_hub.create_issue(1)[0]", "git_hub.create_issue(...) is subscripted without `await`"),
        ("await time.sleep(1)", "for Python's own module of that name write `import time` first"),
    ],
)  # fmt: skip
async def test_check_knows_namespaces(runtime: Runtime, code: str, said: str) -> None:
    found = runtime.check(code)
    assert found, code
    assert said in str(found[0])
    assert found[0].severity == "error"


async def test_an_unknown_name_in_the_sandbox_says_what_was_meant(runtime: Runtime) -> None:
    for name, said in (
        ("create_isue", "there is no tool 'create_isue' in git_hub; did you mean 'create_issue'?"),
        ("qqqqq", "there is no tool 'qqqqq' in git_hub"),
    ):
        result = await runtime.execute_code(f"try:\n    git_hub.{name}\nexcept AttributeError as e:\n    print(e)")
        assert result.logs == f"{said}\n"
    hidden = await runtime.execute_code("getattr(tools, 'git_hubb')")
    assert hidden.error is not None
    assert (hidden.error.kind, hidden.error.message) == (
        "AttributeError", "there is no tool 'git_hubb'; did you mean 'git_hub'?",
    )  # fmt: skip


async def test_a_namespace_holds_functions_and_nothing_else(runtime: Runtime) -> None:
    code = """
own = {name: value for name, value in vars(git_hub).items() if not name.startswith("__")}
[type(git_hub).__name__, repr(git_hub), dir(git_hub), own, hasattr(git_hub, "create_issue"), sorted(vars(git_hub))]
"""
    result = await runtime.execute_code(code)
    kind, shown, names, own, has, after = result.value
    assert (kind, shown, own, has) == ("module", "<module 'tools.git_hub'>", {}, True)
    modules = {"__dir__", "__doc__", "__getattr__", "__loader__", "__name__", "__package__", "__spec__"}
    assert set(names) - modules == {"__class_", "create_issue", "list", "list_"}
    assert set(after) - modules == {"__class_", "create_issue", "list", "list_"}


async def test_a_program_s_own_names_go_first(runtime: Runtime) -> None:
    for code, value, path in (
        ("time = 3\ntime + 1", 4, "plan"),
        ("import time\n[time.sleep(0), (await tools.time.now(1))[1]]", [None, 1], "sandbox"),
        ("for time in [1, 2]:\n    print(time)\n(await tools.time.now(1))[1]", 1, "plan"),
        ("a = (await time.now(1))[1]\ntime = 5\na + time", 6, "sandbox"),
        ("sum([time for time in [1, 2]])", 3, "plan"),
    ):
        result = await both(runtime, code)
        assert (result.value, result.path, result.error) == (value, path, None), code


async def test_an_input_goes_before_a_namespace(runtime: Runtime) -> None:
    result = await both(runtime, "[time, (await tools.time.now(1))[1]]", inputs={"time": 7})
    assert (result.value, result.path) == ([7, 1], "plan")


async def test_a_server_called_search_keeps_its_name(runtime: Runtime) -> None:
    result = await both(runtime, "[await tools.search.search(1), await search.search(2)]")
    assert result.value == [["search/search", 1], ["search/search", 2]]
    found = await both(runtime, "(await search_tools('issue'))['found'][0]['name']")
    assert found.value == "git_hub_create_issue"


async def test_calls_of_namespaces_run_in_parallel_where_they_may(runtime: Runtime) -> None:
    code = (
        "a = await git_hub.list(1)\nb = await tools.time.now(2)\nc = await tool_call('search.search', x=3)\n[a, b, c]"
    )
    assert runtime.compile(code).ok
    result = await both(runtime, code)
    assert [call.tool for call in result.calls] == ["git_hub_list", "time_now", "search_search"]


async def test_only_what_is_allowed_is_in_a_namespace(runtime: Runtime) -> None:
    some: dict[str, Any] = {"tools": ["git-hub.create-issue", "time_now"]}
    assert (await both(runtime, "await git_hub.create_issue(1)", **some)).ok
    refused = await runtime.execute_code("await git_hub.list(1)", **some)
    assert refused.error is not None
    assert "there is no tool `list` in git_hub" in refused.error.message
    unchecked = await runtime.execute_code("await tool_call('git-hub.list', x=1)", check=False, **some)
    assert unchecked.error is not None
    assert unchecked.error.message == "tool 'git_hub_list' is not among the tools that this run may call"
    nothing = await runtime.execute_code(
        "[hasattr(tools, n) for n in ('git_hub', 'search', 'time', 'search_tools')]", tools=[]
    )
    assert nothing.value == [False] * 4


@pytest.mark.parametrize("name", ["git_hub_create_issue", "git_hub.create_issue", "git-hub.create-issue"])
async def test_a_plan_names_a_tool_in_any_way(runtime: Runtime, name: str) -> None:
    step = {"id": "a", "tool": name, "arguments": {"x": -1}, "fallback": "time.now"}
    last = {"id": "b", "tool": name, "arguments": {"x": 3}}
    result = await runtime.execute_tool_plan({"steps": [step, last]})
    assert result.error is not None  # the fallback is given the same arguments
    assert [call.tool for call in result.calls] == ["git_hub_create_issue", "time_now", "git_hub_create_issue"]
    assert result.outputs["b"] == ["git-hub/create-issue", 3]


async def test_a_plan_is_told_what_was_meant(runtime: Runtime) -> None:
    (fault,) = runtime.check_plan({"steps": [{"id": "a", "tool": "git_hub.create_isue", "arguments": {"x": 1}}]})
    assert (fault.code, fault.message, fault.hint) == (
        "unknown-tool", "there is no tool 'git_hub.create_isue'", "did you mean git_hub.create_issue?",
    )  # fmt: skip


async def test_a_session_sees_tools_come_and_go() -> None:
    registry = registry_of(("s", ["a"]))
    async with opened(registry, pool_size=1) as runtime, runtime.session() as session:
        assert (await session.execute_code("kept = s\nmine = 1\nawait s.a(1)")).value == ["s/a", 1]
        registry.replace_server("s", [served("s", "b")])
        registry.replace_server("t", [served("t", "c")])
        registry.replace_server("mine", [served("mine", "d")])
        result = await session.execute_code("[await s.b(1), await t.c(2), await tools.mine.d(3), mine]")
        assert result.value == [["s/b", 1], ["t/c", 2], ["mine/d", 3], 1]
        gone = await session.execute_code("await kept.a(1)")
        assert gone.error is not None
        assert gone.error.message.startswith("there is no tool 's_a'")


async def test_a_tool_whose_schema_has_changed_is_served_as_it_is_now() -> None:
    registry = registry_of(("s", ["a"]))
    async with opened(registry, pool_size=1) as runtime:
        assert runtime.check("await s.a(y=1)")
        plan = {"steps": [{"id": "a", "tool": "s.a", "arguments": {"y": 1}}]}
        assert runtime.check_plan(plan)
        schema = {"type": "object", "properties": {"y": {"type": "integer"}}}

        async def function(y: int = 0) -> int:
            return y

        new = Tool.from_schema("s_a", "", schema, function, server="s", server_tool="a")
        registry.replace_server("s", [new])
        assert not runtime.check("await s.a(y=1)")
        assert not runtime.check_plan(plan)
        assert (await both(runtime, "await s.a(1)")).value == 1


async def test_hostile_names_reach_the_tool_and_nothing_of_the_program() -> None:
    registry = registry_of(
        ("evil", HOSTILE), ("print", ["x"]), ("len", ["x"]), ("ToolError", ["x"]), ("asyncio", ["x"])
    )
    spaces = registry.namespaces()
    async with opened(registry, pool_size=1) as runtime:
        for member, name in spaces["evil"].items():
            result = await both(runtime, f"await evil.{member}(x=1)")
            assert [call.tool for call in result.calls] == [name], member
            own = str(registry.get(name).server_tool)
            assert result.value == [f"evil/{own}", 1] or not own.isprintable(), member
        plain = "import asyncio\nprint(len([1, 2]), (await asyncio.gather(print_.x(1)))[0], ToolError.__name__)"
        assert (await both(runtime, plain)).logs == "2 ['print/x', 1] ToolError\n"
        assert (await both(runtime, "await tools.asyncio.x(5)")).value == ["asyncio/x", 5]


async def test_two_thousand_tools_of_twenty_servers_are_all_there() -> None:
    registry = registry_of(*((f"server{n}", [f"tool_{m}" for m in range(100)]) for n in range(20)))
    async with opened(registry, pool_size=1) as runtime:
        code = "[len(dir(server7)) > 100, server19.tool_99 is server19_tool_99, (await server3.tool_42(1))[0]]"
        result = await runtime.execute_code(code)
        assert result.value == [True, True, "server3/tool_42"]
        assert result.usage.sent_bytes < 2000 * 60
