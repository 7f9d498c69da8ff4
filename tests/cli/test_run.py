"""`callgate run`: output, exit codes, and what a hostile program cannot do to the terminal."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
from pathlib import Path

import anyio
import pytest

from cli.command import SECONDS, Command
from sandbox.docker.images import have_engine_and_image

pytestmark = pytest.mark.sampled


def test_prints_go_to_stdout_and_nothing_else_does(cli: Command) -> None:
    done = cli("run", "-c", "print('one')\nprint('two')")
    assert (done.status, done.out, done.err) == (0, "one\ntwo\n", "")


@pytest.mark.parametrize(
    ("code", "shown"),
    [
        ("None", ""),
        ("'text as it is'", "text as it is\n"),
        ("{'a': [1, 2.5, None, 'å']}", '{"a": [1, 2.5, null, "å"]}\n'),
        ("False", "false\n"),
        ("print('no newline', end='')\n7", "no newline\n7\n"),
        ("print('line')\n2**70", "line\n1180591620717411303424\n"),
    ],
)
def test_the_value_is_the_last_line_unless_it_is_none(cli: Command, code: str, shown: str) -> None:
    done = cli("run", "-c", code)
    assert (done.status, done.out) == (0, shown)


def test_a_value_that_is_no_json_is_shown_as_python_shows_it(cli: Command) -> None:
    assert cli("run", "-c", "{1: 2}.keys()").out == "dict_keys([1])\n"


def test_the_program_comes_from_a_file_or_from_stdin(cli: Command) -> None:
    (cli.folder / "program.py").write_text("print('from a file')\n")
    assert cli("run", "program.py").out == "from a file\n"
    assert cli("run", "-", stdin="print('from stdin')\n").out == "from stdin\n"


def test_prints_arrive_while_the_program_runs(cli: Command) -> None:
    os.mkfifo(cli.folder / "go")
    code = "print('first')\nprint(await wait_for_go())"
    with cli.start("run", "--tools", "tools.py", "-c", code) as (process, output):
        assert output.readline() == b"first\n"
        assert process.poll() is None
        (cli.folder / "go").write_text("second")
        out, _ = process.communicate(timeout=SECONDS)
    assert out == b"second\n"
    assert process.returncode == 0


def test_tools_are_called_and_inputs_bound(cli: Command) -> None:
    code = "[(await get_weather(city)).temp for city in cities]"
    done = cli("run", "--tools", "tools.py", "--input", 'cities=["Oslo", "Rome!"]', "-c", code)
    assert (done.status, done.out) == (0, "[4, 5]\n")


def test_verbose_tells_of_calls_on_stderr_only(cli: Command) -> None:
    done = cli("run", "-v", "--tools", "tools.py", "-c", "print((await get_weather('Oslo')).temp)")
    assert done.out == "4\n"
    assert 'get_weather(city="Oslo")' in done.err
    assert "succeeded" in done.err
    assert "sandbox, where it is needed: jail, tier" in done.err
    assert " ms, 1 tool call, " in done.err


def test_what_tools_print_is_kept_out_of_stdout(cli: Command) -> None:
    done = cli("run", "--tools", "tools.py", "-c", "await chatty()")
    assert done.out == "1\n"
    assert "a tool's own print" in done.err


def test_json_is_the_whole_result_and_nothing_else(cli: Command) -> None:
    done = cli("run", "--json", "--tools", "tools.py", "-c", "print('hello')\nawait get_weather('Oslo')")
    result = json.loads(done.out)
    assert (done.status, done.err) == (0, "")
    assert (result["ok"], result["value"], result["logs"]) == (True, {"temp": 4}, "hello\n")
    assert result["calls"][0]["tool"] == "get_weather"
    assert result["usage"]["tool_calls"] == 1


def test_a_failing_program_exits_with_1_its_own_lines_one_error_and_one_tip(cli: Command) -> None:
    done = cli("run", "-c", "print('before')\nx = 1\nx / 0")
    assert (done.status, done.out) == (1, "before\n")
    assert 'File "<program>", line 3' in done.err
    assert done.error == "the program failed at line 3: ZeroDivisionError: division by zero"
    assert done.tip


def test_json_of_a_failure_keeps_stdout_clean_and_the_exit_code(cli: Command) -> None:
    done = cli("run", "--json", "-c", "1/0")
    assert json.loads(done.out)["error"]["kind"] == "ZeroDivisionError"
    assert done.status == 1


def test_a_program_with_findings_is_not_run(cli: Command) -> None:
    done = cli("run", "--tools", "tools.py", "-c", "print(1)\nawait get_wether('Oslo')")
    assert (done.status, done.out) == (1, "")
    assert "<command>:2:7: error unknown-name" in done.err
    assert done.tip == "did you mean `get_weather`?; or run it unchecked with --no-check"
    unchecked = cli("run", "--no-check", "--tools", "tools.py", "-c", "print(1)\nawait get_wether('Oslo')")
    assert (unchecked.status, unchecked.out) == (1, "1\n")


def test_what_is_no_python_is_not_said_to_run_unchecked(cli: Command) -> None:
    done = cli("run", "-c", "print('hi'")
    assert (done.status, done.tip) == (1, "close the bracket")


def test_a_tool_that_crashes_is_explained_to_the_operator_not_to_the_program(cli: Command) -> None:
    code = "try:\n    await get_weather('crash')\nexcept ToolError as error:\n    print(error)"
    done = cli("run", "--tools", "tools.py", "-c", code)
    assert "secret" not in done.out
    assert "ValueError: a secret of the host" in done.err
    assert "Traceback" not in done.err
    assert "Traceback" in cli("run", "-v", "--tools", "tools.py", "-c", code).err


@pytest.mark.parametrize(
    ("flags", "code", "limit", "advice"),
    [
        (["--wall-seconds", "0.3"], "while True: pass", "wall_seconds", "--wall-seconds 0.6"),
        (["--memory-bytes", "64MiB"], "bytearray(10**10)", "memory_bytes", "--memory-bytes 128MiB"),
        (["--max-log-bytes", "10"], "print('x' * 100)", "max_log_bytes", "--max-log-bytes 20"),
        (["--max-value-bytes", "1KB"], "'x' * 2000", "max_value_bytes", "--max-value-bytes 2000"),
    ],
)
def test_a_limit_exits_with_4_and_says_which_flag_raises_it(
    cli: Command, flags: list[str], code: str, limit: str, advice: str
) -> None:
    done = cli("run", *flags, "-c", code)
    assert done.status == 4
    assert limit in done.error
    assert advice in done.tip


def test_the_restricted_policy_can_be_asked_for(cli: Command) -> None:
    done = cli("run", "--policy", "restricted", "-c", "import socket")
    assert done.status == 1
    assert "restricted-import" in done.err


def test_only_allowed_tools_are_offered(cli: Command) -> None:
    done = cli(
        "run",
        "--tools",
        "tools.py",
        "--allow",
        "chatty",
        "--no-check",
        "-c",
        "await tool_call('get_weather', city='x')",
    )
    assert done.status == 1
    assert "get_weather" in done.error
    near = cli("run", "--tools", "tools.py", "--allow", "chatti", "-c", "1")
    assert (near.status, near.error) == (2, "--allow chatti: there is no such tool; did you mean chatty?")
    assert "`callgate tools`" in near.tip


def test_packages_can_be_offered(cli: Command) -> None:
    packages = cli.folder / "packages"
    packages.mkdir()
    (packages / "little.py").write_text("ANSWER = 42\n")
    assert cli("run", "--packages", str(packages), "-c", "import little\nlittle.ANSWER").out == "42\n"


def test_unsafe_runs_with_a_warning(cli: Command) -> None:
    done = cli("run", "--sandbox", "unsafe", "-c", "import os\nos.path.exists('/etc/passwd')")
    assert (done.status, done.out) == (0, "true\n")
    assert done.err.startswith("WARNING sandbox 'unsafe': nothing confines programs")


@pytest.mark.slow
def test_docker_runs_it_in_a_container_and_says_so(cli: Command) -> None:
    anyio.run(have_engine_and_image)
    done = cli("run", "-v", "--sandbox", "docker", "--path", "sandbox", "-c", "6 * 7")
    assert (done.status, done.out) == (0, "42\n")
    assert "sandbox: docker" in done.err


def test_without_an_engine_docker_exits_with_3_and_says_what_to_do(cli: Command) -> None:
    done = cli("run", "--sandbox", "docker", "--docker-host", "unix:///nowhere/docker.sock", "-c", "1")
    assert (done.status, done.out) == (3, "")
    assert done.error.startswith("no Docker engine listens at unix:///nowhere/docker.sock (there is no such socket)")
    assert "install and start Docker" in done.error
    assert done.tip == "`callgate doctor` says what works on this machine and what to do"


def test_an_engine_that_is_no_address_is_a_wrong_option(cli: Command) -> None:
    done = cli("run", "--sandbox", "docker", "--docker-host", "ssh://somewhere", "-c", "1")
    assert (done.status, done.out) == (2, "")
    assert "forward the socket" in done.error


def test_an_option_of_another_sandbox_is_refused_with_what_to_write(cli: Command) -> None:
    done = cli("run", "--image", "mine", "-c", "1")
    assert (done.status, done.out) == (2, "")
    assert "image is for sandbox='docker', not 'auto': leave it out, or ask for docker" in done.error


def test_without_a_terminal_a_call_that_needs_approval_is_denied_and_says_how(cli: Command) -> None:
    done = cli("run", "--tools", "tools.py", "-c", "await wipe('orders')")
    assert done.status == 1
    assert "there is no terminal to ask on" in done.error
    assert "--yes" in done.tip
    approved = cli("run", "--yes", "--tools", "tools.py", "--audit", "audit.jsonl", "-c", "await wipe('orders')")
    assert approved.out == "wiped orders\n"
    assert '"by":"--yes"' in (cli.folder / "audit.jsonl").read_text()


@pytest.mark.parametrize(
    ("answer", "status", "shown"), [("y", 0, "wiped orders"), ("n", 1, "said no"), ("", 1, "said no")]
)
def test_at_a_terminal_a_person_is_asked(cli: Command, answer: str, status: int, shown: str) -> None:
    code = "print('first')\nawait wipe('orders')"
    with cli.terminal("run", "--tools", "tools.py", "--audit", "audit.jsonl", "-c", code) as terminal:
        asked = terminal.read_until("[y/N] ")
        assert asked.index("first") < asked.index('destructive tool wipe with {"table": "orders"}')
        terminal.type(f"{answer}\n")
        assert shown in terminal.read_all()
        assert terminal.wait() == status
    (decision,) = [line for line in (cli.folder / "audit.jsonl").read_text().splitlines() if '"by":' in line]
    assert '"by":"the person at the terminal"' in decision
    assert f'"kind":"{"approved" if answer == "y" else "denied"}"' in decision


HOSTILE = r"print('\x1b]0;owned\x07\x1b[2J\x9b31m\u202etxt\rover')"


def test_what_was_typed_before_a_question_does_not_answer_it(cli: Command) -> None:
    code = "await wipe('orders')\nawait wipe('customers')"
    with cli.terminal("run", "--tools", "tools.py", "-c", code, environment={"NO_COLOR": "1"}) as terminal:
        terminal.read_until("[y/N] ")
        terminal.type("y\ny\n")
        terminal.read_until('{"table": "customers"}\r\nAllow this call? [y/N] ')
        terminal.type("n\n")
        assert "said no" in terminal.read_all()
        assert terminal.wait() == 1


def test_a_program_cannot_drive_the_terminal(cli: Command) -> None:
    code = rf"{HOSTILE}" + "\nraise ValueError('\\x1b[31mred')"
    with cli.terminal("run", "-c", code, environment={"NO_COLOR": "1"}) as terminal:
        shown = terminal.read_all()
    assert "\x1b" not in shown
    assert "\x07" not in shown
    assert "\x9b" not in shown
    assert "\u202e" not in shown
    assert r"\x1b]0;owned\x07\x1b[2J\x9b31m\u202etxt\x0dover" in shown
    assert r"\x1b[31mred" in shown


def test_into_a_pipe_the_text_passes_untouched(cli: Command) -> None:
    assert cli("run", "-c", HOSTILE).out == "\x1b]0;owned\x07\x1b[2J\x9b31m\u202etxt\rover\n"


def test_colour_is_for_terminals_and_no_color_turns_it_off(cli: Command) -> None:
    with cli.terminal("run", "-c", "1/0") as terminal:
        assert "\x1b[" in terminal.read_all()
    with cli.terminal("run", "-c", "1/0", environment={"NO_COLOR": "1"}) as terminal:
        assert "\x1b[" not in terminal.read_all()
    assert "\x1b[" not in cli("run", "-c", "1/0").err


def test_ctrl_c_ends_it_with_130_and_leaves_nothing(cli: Command) -> None:
    with cli.start("run", "-c", "print('started')\nwhile True: pass") as (process, output):
        assert output.readline() == b"started\n"
        children = _descendants(process.pid)
        assert children
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=SECONDS)
    assert process.returncode == 130
    assert b"Traceback" not in err
    assert not [pid for pid in children if Path(f"/proc/{pid}").exists()]


def test_a_reader_that_goes_away_is_no_error(cli: Command) -> None:
    with cli.start("run", "-c", "for i in range(100_000): print(i)") as (process, output):
        assert output.readline() == b"0\n"
        output.close()
        assert process.stderr is not None
        err = process.stderr.read()
        assert process.wait(SECONDS) == 141
    assert err == b""


def test_a_full_disk_is_said_once(cli: Command) -> None:
    line = " ".join(map(shlex.quote, cli.line("run", "-c", "print(1)")))
    done = subprocess.run(
        f"{line} > /dev/full",
        shell=True,
        env=cli.environment,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.splitlines()[0] == "ERROR stdout cannot be written: No space left on device"


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_streams_do_not_matter(cli: Command, closed: str) -> None:
    line = " ".join(map(shlex.quote, cli.line("run", "-c", "print(1)")))
    assert (
        subprocess.run(f"{line} {closed}", shell=True, env=cli.environment, timeout=SECONDS, check=False).returncode
        == 0
    )


def _descendants(pid: int) -> list[int]:
    listed = subprocess.run(["ps", "-eo", "pid=,ppid="], capture_output=True, text=True, check=True).stdout
    parents = [tuple(map(int, line.split())) for line in listed.splitlines()]
    found, todo = [], [pid]
    while todo:
        parent = todo.pop()
        below = [child for child, its in parents if its == parent]
        found += below
        todo += below
    return found
