"""Callgate's portable rooms, on an imitation of Windows and of macOS; see `imitation` for what it leaves out."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import anyio
import pytest

from elsewhere.imitation import SYSTEMS, lacking
from sandbox.docker.images import have_engine_and_image

ROOT = Path(__file__).parent.parent.parent
PARTS = """imports, plans, fast path, without async, search, definitions, artifacts, durable runs, agent,
mcp over stdio, mcp over http, mcp servers on stdio, command line, signals, sandboxes, report"""
ROOMS = ("plan", "program", "protocol", "tools", "search", "adapters", "durable")
FILES = (
    "runtime/test_plan*",
    "runtime/test_definitions_*",
    "runtime/test_tool_search*",
    "runtime/audit/*",
    "agent/loop/*",
)
"""Tests that need no sandbox, beside those of `ROOMS`."""
OTHERWISE = {
    "adapters/test_event_loops.py": "needs a sandbox",
    "adapters/test_langchain_middleware.py::test_arguments_with_odd_names_arrive": "needs a sandbox",
    "adapters/test_langchain_middleware.py::test_a_program_beside_one_that_waits_for_a_person_runs_to_its_end": "needs "
    "a sandbox",
    "runtime/audit/test_killed.py::test_of_a_guest_that_is_killed": "needs a sandbox",
    "durable/test_database.py::test_a_file_of_ours_that_others_may_read_is_mended_and_told": "no modes of files",
    "durable/test_database.py::test_a_file_of_another_user_that_others_may_read_is_refused": "no modes of files",
    "durable/test_ownership.py::test_a_process_that_has_ended_does_not_live_whatever_it_last_said": "no way to ask",
    "agent/loop/test_transcript.py::test_what_is_no_file_is_refused_and_does_not_hang": "no FIFOs in the file system",
}
"""Beginnings of the names of tests of what is otherwise on Windows, and why."""


CONTAINER = """
import elsewhere.imitation
from callgate import SyncRuntime

with SyncRuntime(sandbox="docker", path="sandbox") as runtime:
    print(runtime.execute_code("sum(range(5))").value)
"""


@pytest.fixture(scope="module")
def default_image() -> None:
    """The image of containers, built if need be."""
    anyio.run(have_engine_and_image)


def run(*arguments: str, seconds: float, system: str = "") -> subprocess.CompletedProcess[str]:
    """Run Python; with a system, our modules find themselves there."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "tests"), "ELSEWHERE": system}
    environment.pop("CI", None)  # there, tests that need a sandbox skip, and none can be had on Windows
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=seconds)


@pytest.mark.parametrize("system", ["win32", pytest.param("darwin", marks=pytest.mark.slow)])
def test_each_part_without_a_sandbox_works(system: str) -> None:
    done = run("-m", "elsewhere.day", system, seconds=280)
    assert done.stdout.split("\n")[:-1] == PARTS.replace("\n", " ").split(", "), done.stderr


@pytest.mark.parametrize(
    ("module", "line", "error"),
    [
        ("callgate.plan.engine", "import fcntl", "ModuleNotFoundError: No module named 'fcntl'"),
        ("callgate.plan.engine", "from resource import getrlimit", "ModuleNotFoundError: No module named 'resource'"),
        ("callgate.cli.commands", "import signal; signal.SIGKILL", "AttributeError: module 'signal' has no attribute"),
        ("callgate.cli.commands", "from os import geteuid", "ImportError: cannot import name 'geteuid' from 'os'"),
        ("callgate_guest.wire", "import os; os.O_CLOEXEC", "AttributeError: module 'os' has no attribute"),
        ("callgate_bench.machine", "import os; os.open('.', 0)", "PermissionError: [Errno 13]"),
        ("callgate_bench.machine", "import os; os.mkdir('x', dir_fd=0)", "NotImplementedError: dir_fd unavailable"),
    ],
)
def test_what_windows_lacks_is_missed(module: str, line: str, error: str) -> None:
    done = run(
        "-c", f"import elsewhere.imitation; exec({line!r}, {{'__name__': {module!r}}})", seconds=60, system="win32"
    )
    assert error in done.stderr


def test_other_packages_find_everything() -> None:
    line = "import elsewhere.imitation, fcntl, resource, signal; print(signal.SIGKILL.name)"
    assert run("-c", line, seconds=60, system="win32").stdout == "SIGKILL\n"


def test_typeshed_says_what_a_system_lacks() -> None:
    gone = ("fcntl", "resource", "pwd", "grp", "termios", "tty", "pty")
    assert [lacking(module, "win32") for module in gone] == [None] * len(gone)
    assert {"geteuid", "O_NOFOLLOW", "fork", "killpg", "pread"} <= (lacking("os", "win32") or set())
    assert {"SIGKILL", "SIGHUP", "SIGURG"} <= (lacking("signal", "win32") or set())
    assert "AF_UNIX" in (lacking("socket", "win32") or set())
    assert {"pidfd_open", "sched_getaffinity"} <= (lacking("os", "darwin") or set())
    assert {"epoll"} <= (lacking("select", "darwin") or set())
    assert lacking("os", "linux") == lacking("json", "win32") == frozenset()
    assert not {"getpid", "open", "_exit", "dup", "link"} & (lacking("os", "win32") or set())


def test_a_container_runs_a_program_on_macos(default_image: None) -> None:
    done = run("-c", CONTAINER, seconds=200, system="darwin")
    assert done.stdout == "10\n", done.stderr


@pytest.mark.alone  # some of them judge time
@pytest.mark.timeout(1800)
def test_the_quick_tests_of_the_portable_rooms_pass_on_windows() -> None:
    files = [str(path) for pattern in FILES for path in sorted((ROOT / "tests").glob(pattern)) if path.suffix == ".py"]
    rooms = [f"tests/{room}" for room in ROOMS]
    without = [f"--deselect=tests/{test}" for test in OTHERWISE]
    done = run(
        "-m", "pytest", "-p", "elsewhere.imitation", "-p", "no:cacheprovider", "-q", "-m", "not slow",
        "--hypothesis-profile", "quick", *without, *rooms, *files, seconds=1700, system="win32",
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-20_000:]


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("system", SYSTEMS)
def test_mypy_finds_every_name_there(system: str) -> None:
    """All rooms but the sandbox's, whose names are Linux's."""
    host = ROOT / "host"
    rooms = [path for path in sorted((host / "callgate").iterdir()) if path.name not in ("sandbox", "__pycache__")]
    files = [str(path) for path in rooms if path.is_dir() or path.suffix == ".py"]
    options = ("--platform", system, "--follow-imports", "silent", "--cache-dir", str(ROOT / ".mypy_cache" / system))
    done = run("-m", "mypy", *options, *files, str(host / "callgate_bench"), seconds=880)
    assert done.returncode == 0, done.stdout
