"""`--mcp` and `--ask`: MCP servers from the shell, and which of their tools ask for approval. The servers are real."""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path
from typing import Any, Unpack

import pytest

from callgate.cli.offer import Ask
from callgate.tools import Registry, Tool
from callgate.tools.tool import ToolOptions
from cli.command import SECONDS, Command

EVERYTHING = {
    "command": sys.executable,
    "args": [str(Path(__file__).parent.parent / "with_mcp" / "servers" / "everything.py")],
}
ADD = "print(await good.add(a=1, b=2))"
VALUE = "print(await good.get_value(name='NO_SUCH'))"
DENIED = "was denied"


def configured(cli: Command, file: str = "servers.json", **servers: Any) -> str:
    (cli.folder / file).write_text(json.dumps({"mcpServers": servers or {"good": EVERYTHING}}))
    return file


def without(cli: Command, module: str) -> dict[str, str]:
    """An environment in which `module` cannot be imported."""
    (cli.folder / "hidden").mkdir()
    (cli.folder / "hidden" / "sitecustomize.py").write_text(f"import sys\nsys.modules[{module!r}] = None\n")
    return {"PYTHONPATH": str(cli.folder / "hidden")}


def test_tools_of_servers_are_listed_beside_own_ones(cli: Command) -> None:
    done = cli("tools", "--mcp", configured(cli), "--tools", "tools.py")
    assert done.status == 0
    assert "good_add(a: int, b: int)" in done.out
    assert "Add two numbers. [read-only, idempotent]" in done.out
    assert "get_weather(city: str)" in done.out
    assert "asks for approval" in done.out.partition("wipe(")[2].splitlines()[1]
    assert done.err == f"{done.out.count(chr(10)) // 2} tools\n"


def test_tools_as_json_say_what_would_ask(cli: Command) -> None:
    asked = ("--ask", "destructive", "--ask", "good.ad", "--ask", "good.ech?")
    done = cli("tools", "--json", "--mcp", configured(cli), "--tools", "tools.py", *asked)
    listed = {each["name"]: each for each in json.loads(done.out)}
    asking = {name for name, each in listed.items() if each["requires_approval"]}
    assert asking == {name for name, each in listed.items() if each["destructive"]} | {"good_echo"}
    assert {"good_get_value", "good_fail", "wipe"} <= asking
    assert not {"good_add", "good_weather", "chatty"} & asking
    assert done.err == "WARNING --ask good.ad: no tool has that name, so far; nothing asks for it\n"


def test_a_program_calls_the_tools_of_servers(cli: Command) -> None:
    done = cli("run", "--mcp", configured(cli), "-c", ADD)
    assert (done.status, done.out, done.err) == (0, "{'result': 3}\n", "")


def test_a_plan_calls_the_tools_of_servers_and_asks_where_it_was_told_to(cli: Command) -> None:
    steps = [
        {"id": "sum", "tool": "good.add", "arguments": {"a": 1, "b": 2}},
        {"id": "value", "tool": "good.get_value", "arguments": {"name": "NO_SUCH"}},
    ]
    (cli.folder / "plan.json").write_text(json.dumps({"steps": steps}))
    done = cli("plan", "plan.json", "--mcp", configured(cli), "--ask", "destructive")
    assert done.status == 1
    assert "ok       sum: good_add(a=1, b=2)" in done.err
    assert DENIED in done.error
    assert json.loads(done.out) == {"sum": {"result": 3}}


def test_check_and_compile_know_the_tools_of_servers(cli: Command) -> None:
    file = configured(cli)
    done = cli("check", "--mcp", file, "-c", "await good.addd(a=1, b=2)")
    assert (done.status, "did you mean `good.add`?" in done.out) == (1, True)
    done = cli("compile", "--mcp", file, "-c", "x = await good.add(a=1, b=2)\nawait good.add(a=x, b=2)")
    assert (done.status, "x: good_add(a=1, b=2)" in done.out) == (0, True)


def test_a_server_that_is_not_up_is_a_line_and_the_others_are_used(cli: Command) -> None:
    file = configured(
        cli, good=EVERYTHING, gone={"command": "no-such-command-anywhere"}, off={"command": "x", "disabled": True}
    )
    done = cli("run", "--mcp", file, "-c", ADD)
    assert (done.status, done.out) == (0, "{'result': 3}\n")
    (line,) = done.err.splitlines()
    assert line.startswith("WARNING not up: gone (failed; the command 'no-such-command-anywhere' was not found")


def test_servers_without_tools_are_nothing_to_list(cli: Command) -> None:
    done = cli("tools", "--mcp", configured(cli, gone={"command": "no-such-command-anywhere"}))
    assert (done.status, done.error) == (2, "there are no tools to list: servers.json gives none")
    assert "WARNING not up: gone" in done.err


@pytest.mark.parametrize("arguments", [["tools"], ["run", "-c", "1"], ["plan", "plan.json"]])
def test_a_file_that_cannot_be_used_is_refused(cli: Command, arguments: list[str]) -> None:
    (cli.folder / "plan.json").write_text('{"steps": []}')
    done = cli(*arguments, "--mcp", "nowhere.json")
    assert (done.status, done.out) == (2, "")
    assert "nowhere.json cannot be read: No such file or directory" in done.error
    assert done.tip.startswith('the file holds {"mcpServers"')


def test_without_the_extra_it_says_how_to_install_it(cli: Command) -> None:
    done = cli("run", "--mcp", configured(cli), "-c", "1", environment=without(cli, "mcp"))
    assert (done.status, done.error) == (2, "mcp is not installed")
    assert (done.tip.startswith("pip install "), done.tip.endswith("[mcp]'")) == (True, True)


@pytest.mark.slow
def test_ctrl_c_ends_the_servers_too(cli: Command) -> None:
    code = "print(await good.pid(), flush=True)\nawait good.wait(seconds=600)"
    with cli.start(
        "run", "--mcp", configured(cli, good=EVERYTHING | {"env": {"EVERYTHING_NOTES": "/dev/null"}}), "-c", code
    ) as (process, output):
        server = Path(f"/proc/{int(output.readline())}")
        assert server.exists()
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=SECONDS)
    assert (process.returncode, b"Traceback" in err) == (130, False)
    assert not server.exists()


def test_without_a_terminal_calls_that_were_named_are_denied(cli: Command) -> None:
    done = cli("run", "--mcp", configured(cli), "--ask", "destructive", "-c", f"{ADD}\n{VALUE}")
    assert (done.status, done.out) == (1, "{'result': 3}\n")
    assert DENIED in done.error


def test_at_a_terminal_it_says_what_it_waits_for_and_asks(cli: Command) -> None:
    with cli.terminal("run", "--mcp", configured(cli), "--ask", "good.add", "-c", ADD) as terminal:
        seen = terminal.read_until("[y/N] ")
        assert seen.index("starting good") < seen.index("wants to call the tool good_add with")
        terminal.type("y\n")
        terminal.read_until("{'result': 3}")
        assert terminal.wait() == 0


def test_yes_and_ask_are_not_both_meant(cli: Command) -> None:
    for command in (["run", "-c", "1"], ["serve"]):
        done = cli(*command, "--tools", "tools.py", "--yes", "--ask", "wipe")
        assert (done.status, done.error) == (2, "--yes approves what --ask wants to be asked about")


def test_behind_serve_only_named_tools_ask(cli: Command) -> None:
    """A client that cannot ask its user, which `callgate run` is, gets a no."""
    inner = configured(cli, "inner.json", good=EVERYTHING)
    gates: dict[str, Any] = {
        name: {"command": sys.executable, "args": ["-m", "callgate", "serve", "--mcp", str(cli.folder / inner), *ask]}
        for name, ask in (("open", ()), ("careful", ("--ask", "destructive", "--ask", "nothing.*")))
    }
    told = (
        "for gate in ('open', 'careful'):\n"
        "    for code in codes:\n"
        "        try:\n"
        "            print((await tool_call(f'{gate}.execute_code', code=code))['logs'].strip())\n"
        "        except ToolError as error:\n"
        "            print(error)\n"
    )
    done = cli("run", "--mcp", configured(cli, **gates), "-i", f"codes={json.dumps([ADD, VALUE])}", "-c", told)
    assert done.status == 0, done.err
    first, second, third, *fourth = done.out.splitlines()
    assert (first, second, third) == ("{'result': 3}", "{'result': 'unset'}", "{'result': 3}")
    assert DENIED in "\n".join(fourth)


def test_serve_warns_of_what_no_tool_is_called(cli: Command) -> None:
    patient = ("--mcp", configured(cli), "--ready-seconds", "60")
    done = cli("serve", *patient, "--ask", "destructive", "--ask", "nothing.*")
    assert done.status == 0
    (warning,) = [line for line in done.err.splitlines() if line.startswith("WARNING")]
    assert warning == "WARNING --ask nothing.*: no tool has that name, so far; nothing asks for it"


def hinted(name: str, **hints: Unpack[ToolOptions]) -> Tool:
    return Tool.from_schema(
        name, "A tool.", {"type": "object"}, lambda: None, server="git-hub", server_tool="create-issue", **hints
    )


@pytest.mark.parametrize(
    ("pattern", "asks"),
    [
        ("git_hub_create_issue", True),
        ("git-hub.create-issue", True),
        ("git_hub.create_issue", True),
        ("git-hub.*", True),
        ("*issue", True),
        ("*", True),
        ("destructive", False),
        ("create_issue", False),
        ("GIT-HUB.*", False),
        ("git", False),
    ],
)
def test_a_pattern_names_a_tool_as_it_is_called_anywhere(pattern: str, asks: bool) -> None:
    assert Ask([pattern])(hinted("git_hub_create_issue")).requires_approval is asks


def test_destructive_is_what_may_destroy() -> None:
    ask = Ask(["destructive"])
    assert ask(hinted("x", destructive=True)).requires_approval
    assert not ask(hinted("x", read_only=True)).requires_approval
    assert not ask(hinted("x")).requires_approval


def test_tools_that_ask_already_go_on_asking() -> None:
    tools = Ask(["nothing"]).of(Registry([hinted("x", requires_approval=True), hinted("y")]))
    assert [tool.requires_approval for tool in tools] == [True, False]
