"""P50 to P52: sources that no one would write, more runs than there is room for, and a crash that is meant to be recorded."""

# ruff: noqa: E501 (hostile programs, a line each)

from __future__ import annotations

import os
from contextlib import ExitStack
from typing import Any

import pytest

from callgate import CodeResult, Limits, SandboxBusy
from pace import stretched
from probes.conftest import open_jail
from probes.harness import Jail, control_process

pytestmark = pytest.mark.usefixtures("nothing_is_left")

SMALL = Limits(wall_seconds=10, cpu_seconds=10, memory_bytes=128 << 20, max_file_bytes=4 << 20)

HUGE: dict[str, Any] = {
    "50 MB": "x = '" + "y" * (50 << 20) + "'", "a million lines": "x = 1\n" * 10**6, "deep functions": "".join(
        " " * depth + f"def f{depth}():\n" for depth in range(3000)
    ) + " " * 3000 + "pass", "zero byte": "x = 1\0", "only zero bytes": "\0" * 1000, "nothing": "", "lone surrogate": "x = '\udc80'",
    "surrogate name": "\ud800 = 1", "byte order mark": "\ufeffx = 1\nx", "carriage returns": "x = 1\r\ny = 2\r\nx + y", "bare returns": "x = 1\rx",
    "form feed": "x = 1\x0c\nx", "coding": "# coding: utf-7\n+AHgAPQ-1", "parentheses": "(" * 10**5, "unary": "-" * 10**5 + "1", "attributes": "a" + ".a" * 10**5,
    "sum": "+".join("1" * 10**5), "lambdas": "lambda: " * 10**4 + "1", "ifs": "1 if 1 else " * 10**4 + "1", "f-string": 'f"{' * 500 + "1" + '}"' * 500,
    "lists": "[" * 150 + "]" * 150, "elifs": "if 0: pass\n" + "elif 0: pass\n" * 10**4, "decorators": "@f\n" * 10**4 + "def f(): pass",
    "assignments": "a = " * 10**4 + "1", "comparison": "<".join("1" * 10**4), "words": "await " * 10**4 + "x", "strings": "'a' " * 10**5,
    "match": "match 1:\n case " + "[" * 3000 + "]" * 3000 + ": pass", "nots": "not " * 10**5 + "1", "stars": "*" * 10**5,
}  # fmt: skip


@pytest.mark.left_out(
    "docker", reason="a parser's work, which no sandbox has a part in: a tenant's container is enough"
)
@pytest.mark.parametrize("check", [True, False], ids=["checked", "unchecked"])
@pytest.mark.parametrize("how", HUGE)
def test_p50_odd_and_huge_sources_end_cleanly(jail: Jail, how: str, check: bool) -> None:
    async def go() -> CodeResult:
        return await jail.runtime.execute_code(HUGE[how], limits=SMALL, check=check, path="sandbox")

    result = jail.portal.start_task_soon(go).result(30)
    assert result.usage.wall_seconds < stretched(10)
    assert result.for_model().encode()
    if result.error is not None:
        assert result.error.kind in {"CheckFailed", "SyntaxError", "LimitReached", "GuestDied", "RecursionError", "MemoryError",
                                     "NameError", "IndentationError", "UnicodeEncodeError", "ValueError", "TypeError"}, result.error  # fmt: skip
        assert result.error.message


def test_p51_more_runs_than_guests_queue_and_then_fail_with_a_typed_error(jail: Jail) -> None:
    with ExitStack() as stack:
        small = open_jail(
            stack, jail.kind, pool_size=1, max_guests=2, queue_seconds=0.3, limits=Limits(wall_seconds=1.5)
        )
        runs = [small.start("await slow()") for _ in range(200)]
        failures = [run.exception(30) for run in runs]
        busy = [failure for failure in failures if isinstance(failure, SandboxBusy)]
        assert len(busy) == 198
        assert "none ended within 0.3 s" in str(busy[0])
        assert [run.result().error.limit for run in runs if run.exception() is None] == ["wall_seconds"] * 2  # type: ignore[union-attr]
        small.is_well()


def test_p52_an_abort_leaves_no_core_and_starts_no_helper(jail: Jail) -> None:
    assert control_process("import os\nos.abort()").returncode == -6
    before = set(os.listdir("/"))
    result = jail.run("import os\nos.abort()")
    assert result.error is not None
    assert "SIGABRT" in result.error.message
    assert not [name for name in set(os.listdir("/")) - before if "core" in name]
    assert jail.probe("import resource\ngot = resource.getrlimit(resource.RLIMIT_CORE)") == [0, 0]
    if jail.kind.root_has_their_proc:  # a process that is not dumpable is dumped to no helper either
        assert os.stat(f"/proc/{jail.idle_pid}/environ").st_uid == 0
    assert jail.idle_pid in jail.seats.everything()
