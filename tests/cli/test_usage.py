"""What is wrong with a command line is said in one ERROR and one TIP, with exit code 2."""

from __future__ import annotations

import dataclasses
import math
import resource
import subprocess
import sys

import pytest

from callgate import Limits
from cli.command import Command


@pytest.mark.parametrize(
    ("arguments", "error", "tip"),
    [
        (["run"], "there is no program", "-c CODE"),
        (["run", "x.py", "-c", "1"], "there are two programs: -c and x.py", "leave one of them out"),
        (["run", "absent.py"], "absent.py cannot be read: No such file or directory", "name the file"),
        (["run", "-c", "1", "--input", "a=x"], "--input a: 'x' is not JSON", "--input 'a=\"x\"'"),
        (["run", "-c", "1", "--input", "a=NaN"], "--input a: 'NaN' is not JSON", "quotes"),
        (["run", "-c", "1", "--input", "1a=1"], "'1a' cannot be a variable", "NAME=JSON"),
        (["run", "-c", "1", "--input", "a"], "--input 'a' has no value", "--input a=JSON"),
        (["run", "-c", "1", "--wall-seconds", "0"], "wall_seconds must be above 0, not 0.0", "--help"),
        (["run", "-c", "1", "--path", "plan", "--image", "x"], "image is for sandbox='docker', not 'auto'", "--help"),
        (["run", "-c", "1", "--memory-bytes", "12 parsecs"], "'12 parsecs' is not a size", "--help"),
        (["run", "-c", "1", "--tools", "absent.py"], "there is no file absent.py", "FILE.py:NAME"),
        (["run", "-c", "1", "--tools", "tools"], "", ""),
        (["run", "-c", "1", "--tools", "tools.py:ANSWER"], "42 is neither a tool nor a function", "annotated"),
        (
            ["run", "-c", "1", "--tools", "tools.py:SOMA"],
            "no 'SOMA' in it; did you mean SOME?",
            "FILE.py:NAME",
        ),
        (["run", "-c", "1", "--tools", "no.such.module"], "there is no module 'no.such.module'", "install it"),
        (["run", "-c", "1", "--tools", "a/b"], "'a/b' is neither a .py file nor a module", "FILE.py"),
        (["run", "-c", "1", "--tools", "broken.py"], "broken.py could not be loaded: line 2: ", "python"),
        (
            ["run", "-c", "1", "--tools", "raises.py"],
            "raises.py could not be loaded: line 1: ZeroDivisionError",
            "python",
        ),
        (["run", "-c", "1", "--tools", "empty.py"], "empty.py has no tools", "name one: empty.py:lonely"),
        (["run", "-c", "1", "--allow", "x"], "--allow x: there is no such tool", "there are no tools at all"),
        (["run", "-c", "1", "--sandbox", "none"], "'none' is not one of", "--help"),
        (["run", "--nonsense"], "No such option", "callgate run --help"),
        (["nonsense"], "No such command 'nonsense'", "--help"),
        (["tools"], "there are no tools to list", "--tools FILE.py"),
        (["tools", "--json", "--stubs", "--tools", "tools.py"], "cannot both be on stdout", "choose"),
    ],
)
def test_usage_errors_exit_with_2_and_say_what_to_write(
    cli: Command, arguments: list[str], error: str, tip: str
) -> None:
    (cli.folder / "broken.py").write_text("x = 1\ndef (:\n")
    (cli.folder / "raises.py").write_text("1 / 0\n")
    (cli.folder / "empty.py").write_text("def lonely(n: int) -> int:\n    return n\n")
    done = cli(*arguments)
    if not error:
        assert done.status == 0, "a module in the current folder is found by its name"
        return
    assert (done.status, done.out) == (2, "")
    assert error in done.error
    assert tip in done.tip


def test_a_command_without_anything_shows_its_help(cli: Command) -> None:
    for group in ((), ("image",)):
        assert cli(*group) == cli(*group, "--help")


def test_every_limit_has_a_flag(cli: Command) -> None:
    shown = cli("run", "--help").out
    for field in dataclasses.fields(Limits):
        assert f"--{field.name.replace('_', '-')} " in shown


@pytest.mark.parametrize("size", ["67108864", "64MiB", "65536K", "64m", "0.0625GiB"])
def test_sizes_have_units(cli: Command, size: str) -> None:
    done = cli("run", "--memory-bytes", size, "-c", "bytearray(10**10)")
    assert "memory_bytes is 67108864" in done.error


@pytest.mark.parametrize("name", ["tools.py:SOME", "tools.py:plain", "tools:SOME"])
def test_a_name_stands_for_a_tool_a_list_or_a_plain_function(cli: Command, name: str) -> None:
    assert cli("run", "--tools", name, "-c", "await plain(1)").out == "2\n"


def test_tools_of_several_files_add_up_and_the_same_one_counts_once(cli: Command) -> None:
    (cli.folder / "more.py").write_text(
        "from tools import get_weather, plain\nfrom callgate import Tool\nMORE = Tool.from_function(plain)\n"
    )
    done = cli("run", "-t", "tools.py:SOME", "-t", "more.py:MORE", "-c", "1")
    assert done.status == 2
    assert "two tools called 'plain'" in done.error


def test_help_and_version_are_quick_and_load_no_runtime() -> None:
    """The modules that are loaded, not the time: a loaded machine is slow, an import is an import."""
    code = (
        "import sys\n"
        "from callgate.cli import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        "print(sorted({name.partition('.')[0] for name in sys.modules} & {'pydantic', 'anyio', 'asyncio', 'rich'}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
    assert "callgate [OPTIONS] COMMAND" in done.stdout


def test_help_takes_less_than_150_ms_of_a_processor(cli: Command) -> None:
    whole = dataclasses.replace(cli, forks=False)
    taken = [math.inf]
    while min(taken) > 0.15 and len(taken) <= 5:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)  # processor time: the machine may have other things to do
        assert whole("--help").status == 0
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        taken.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    assert min(taken) < 0.15


def test_python_dash_m_is_the_same_command(cli: Command) -> None:
    from callgate import __version__

    assert dataclasses.replace(cli, forks=False)("--version").out == f"callgate {__version__}\n"


@pytest.mark.parametrize(
    "arguments",
    [["tools"], ["check", "-c", "await get_weather('Oslo')"], ["compile", "-c", "await get_weather('Oslo')"]],
)
def test_a_command_needs_no_module_that_another_has_imported(cli: Command, arguments: list[str]) -> None:
    whole = dataclasses.replace(cli, forks=False)
    assert whole(*arguments, "--tools", "tools.py") == cli(*arguments, "--tools", "tools.py")
