"""Every field of `Limits`: reaching it ends the run, is named with its value and what was used, and leaves nothing."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest

from callgate import Limits, Runtime
from runtime.conftest import opened
from runtime.offered import MEETINGS
from sandbox.asking import SECONDS, descendants, open_files, until

pytestmark = pytest.mark.anyio

FILL = "f = open('/tmp/x', 'wb')\nwhile True:\n    f.write(b'x' * 65536)\n    f.flush()"
THREADS = (
    "import threading\ngo = threading.Event()\nts = []\ntry:\n    for _ in range(100):\n"
    "        ts.append(threading.Thread(target=go.wait))\n        ts[-1].start()\nfinally:\n    go.set()"
)
MEBIBYTE = 1 << 20

# what is changed, the program, the field that is reached, its value, the least and the most that may be used
REACHED: dict[str, tuple[dict[str, Any], str, str, float, float | None, float | None]] = {
    "wall, computing": ({"wall_seconds": 0.3}, "while True: pass", "wall_seconds", 0.3, 0.3, 5),
    "wall, asleep": ({"wall_seconds": 0.3}, "import time\ntime.sleep(100)", "wall_seconds", 0.3, 0.3, 5),
    "wall, in a call": ({"wall_seconds": 0.3}, "await hang()", "wall_seconds", 0.3, 0.3, 5),
    "wall, in many calls": (
        {"wall_seconds": 0.5}, "import asyncio\n"
                               "await asyncio.gather(*(hang() for _ in range(3000)))", "wall_seconds", 0.5,
        0.5, 5),
    "wall, ignoring everything": (
        {"wall_seconds": 0.5},
        "import signal\nfor s in range(1, 65):\n    try: signal.signal(s, signal.SIG_IGN)\n"
        "    except (OSError, ValueError): pass\n"
        "while True:\n    try:\n        while True: pass\n    except BaseException: pass", "wall_seconds", 0.5, 0.5, 5),
    "processor": ({"cpu_seconds": 1}, "while True: pass", "cpu_seconds", 1, 0.9, 3),
    "processor, a fraction is rounded up": ({"cpu_seconds": 0.2}, "while True: pass", "cpu_seconds", 0.2, 0.2, 3),
    "processor, ignoring the signal": (
        {"cpu_seconds": 1}, "import signal\nsignal.signal(signal.SIGXCPU, signal.SIG_IGN)\nwhile True: pass",
        "cpu_seconds", 1, 1, 4),
    "memory": ({"memory_bytes": 64 * MEBIBYTE}, "bytearray(100_000_000)", "memory_bytes", 64 * MEBIBYTE, None, None),
    "memory, bit by bit": (
        {"memory_bytes": 64 * MEBIBYTE}, "x = []\nwhile True:\n    x.append(bytearray(100_000))", "memory_bytes",
        64 * MEBIBYTE, 40 * MEBIBYTE, None),
    "memory, by a result": (
        {"memory_bytes": 48 * MEBIBYTE}, "x = []\nwhile True:\n    x.append(await big(8_000_000))", "memory_bytes",
        48 * MEBIBYTE, None, None),
    "memory, by a result in a plain function": (
        {"memory_bytes": 48 * MEBIBYTE}, "def f():\n    x = []\n    while True:\n        x.append(big(8_000_000))\nf()",
        "memory_bytes", 48 * MEBIBYTE, None, None),
    "threads": ({"max_processes": 8}, THREADS, "max_processes", 8, 8, 8),
    "files": ({"max_file_bytes": MEBIBYTE}, FILL, "max_file_bytes", MEBIBYTE, MEBIBYTE, MEBIBYTE),
    "files, many": (
        {"max_file_bytes": MEBIBYTE},
        "i = 0\nwhile True:\n    i += 1\n    with open(f'/tmp/{i}', 'wb') as file:\n        file.write(b'x' * 65536)",
        "max_file_bytes", MEBIBYTE, MEBIBYTE, MEBIBYTE),
    "calls": ({"max_tool_calls": 5}, "for i in range(9):\n    await echo(i)", "max_tool_calls", 5, 5, 5),
    "calls at once": (
        {"max_tool_calls": 5}, "import asyncio\n"
                               "await asyncio.gather(*(hang() for i in range(9)))", "max_tool_calls", 5, 5, 5),
    "calls that are refused": (
        {"max_tool_calls": 5},
        "name = 'nix'\nfor i in range(9):\n    try:\n        await tool_call(name)\n    except ToolError: pass",
        "max_tool_calls", 5, 5, 5),
    "calls that are given up": (
        {"max_tool_calls": 200, "max_concurrent_calls": 1},
        "import asyncio\nwhile True:\n    ts = [asyncio.ensure_future(hang()) for _ in range(20)]\n"
        "    await asyncio.sleep(0)\n"
        "    [t.cancel() for t in ts]\n    await asyncio.sleep(0)", "max_tool_calls", 200, 200, 200),
    "logs": ({"max_log_bytes": 1000}, "while True:\n    print('x' * 99)", "max_log_bytes", 1000, 1001, 70_000),
    "logs, behind python's back": (
        {"max_log_bytes": 1000}, "import os\nwhile True:\n"
                                 "    os.write(2, b'x' * 100)", "max_log_bytes", 1000, 1001, 300_000),
    "logs, behind its back at the end": (
        {"max_log_bytes": 1000}, "import os\nos.write(2, b'x' * 1001)\n5", "max_log_bytes", 1000, 1001, 1001),
    "the value": ({"max_value_bytes": 1000}, "'x' * 1000", "max_value_bytes", 1000, 1002, 1002),
    "the value as text": ({"max_value_bytes": 1000}, "{'x' * 1000: 1}.keys()", "max_value_bytes", 1000, 1002, 1040),
    "a message": (
        {"max_message_bytes": 10_000}, "await echo('x' * 20_000)", "max_message_bytes", 10_000, None, None),
    "the source with its inputs": (
        {"max_message_bytes": 10_000, "max_source_bytes": 100_000}, f"x = '{'x' * 20_000}'", "max_message_bytes",
        10_000,
        20_000, 30_000),
    "the source": ({"max_source_bytes": 1000}, f"x = '{'x' * 2000}'", "max_source_bytes", 1000, 2006, 2006),
}  # fmt: skip


@pytest.fixture(scope="module")
async def runtime(anyio_backend: str) -> AsyncIterator[Runtime]:
    async with opened(pool_size=0) as entered:
        yield entered


@pytest.mark.parametrize("name", REACHED)
async def test_reaching(name: str, runtime: Runtime) -> None:
    changes, code, field, allowed, least, most = REACHED[name]
    await runtime.execute_code("1")
    files, processes = len(open_files()), len(descendants())
    with anyio.fail_after(SECONDS):
        run = await runtime.execute_code(code, limits=Limits(**changes), check=False, path="sandbox")
    assert not run.ok
    assert run.error is not None
    assert (run.error.kind, run.error.limit) == ("LimitReached", field), run.error
    words = f"limit reached: {field} is {allowed}"
    assert run.error.message.startswith(words)
    said = run.error.message.removeprefix(words)
    if least is not None:
        assert said.startswith(", used ")
        assert float(said.removeprefix(", used ")) >= least
    if most is not None:
        assert float(said.removeprefix(", used ")) <= most
    assert run.truncated == (("logs",) if field == "max_log_bytes" else ())
    assert len(run.logs.encode()) <= 1000
    assert run.value is None
    # where nothing was run, the guest is ended in the background
    await until(lambda: len(open_files()) <= files and len(descendants()) <= processes)
    again = await runtime.execute_code("await echo(1)")
    assert again.value == 1


def test_every_limit_is_reached_above_but_those_that_never_end_a_run() -> None:
    fields = {field.name for field in dataclasses.fields(Limits)}
    never = {"max_concurrent_calls", "max_artifacts", "max_artifact_bytes"}
    assert {each[2] for each in REACHED.values()} == fields - never


async def test_no_more_calls_than_allowed_go_on_at_once(runtime: Runtime, anyio_backend: str) -> None:
    name = f"at most {anyio_backend}"
    run = await runtime.execute_code(
        f"import asyncio\nlen(await asyncio.gather(*(meet({name!r}, 3) for _ in range(12))))",
        limits=Limits(max_concurrent_calls=3),
        path="sandbox",
    )
    assert run.value == 12
    assert MEETINGS[name].most == 3


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"max_tool_calls": 5}, "for i in range(5):\n    await echo(i)"),
        ({"max_log_bytes": 1000}, "print('x' * 999)"),
        ({"max_log_bytes": 10}, "print('éé' * 2, end='é')"),
        ({"max_value_bytes": 1000}, "'x' * 998"),
        ({"max_processes": 8}, THREADS.replace("100", "7")),
        ({"max_file_bytes": MEBIBYTE}, "open('/tmp/x', 'wb').write(b'x' * 1_000_000)"),
        ({"memory_bytes": 64 * MEBIBYTE}, "len(bytearray(50_000_000))"),
        ({"max_log_bytes": 5_000_000, "max_message_bytes": 1_000_000}, "print('é' * 2_000_000)"),
    ],
)
async def test_what_stays_within_its_limit_passes(runtime: Runtime, changes: dict[str, Any], code: str) -> None:
    run = await runtime.execute_code(code, limits=Limits(**changes), path="sandbox")
    assert run.error is None, run.error


async def test_a_limit_keeps_what_was_printed_and_called_before(runtime: Runtime) -> None:
    run = await runtime.execute_code(
        "print('a')\nawait echo(1)\nprint('b')\nwhile True: pass", limits=Limits(wall_seconds=0.5)
    )
    assert run.logs == "a\nb\n"
    assert [call.status for call in run.calls] == ["succeeded"]


async def test_a_result_too_long_for_a_message_is_a_failed_call(runtime: Runtime) -> None:
    run = await runtime.execute_code(
        "try:\n    await big(20_000)\nexcept ToolError as e:\n    r = str(e)\nr",
        limits=Limits(max_message_bytes=10_000),
    )
    assert run.value == "tool 'big': the result is 20002 bytes, the limit max_message_bytes is 10000: ask for less"


async def test_many_slow_calls_do_not_keep_the_end_of_the_guest_from_being_seen(runtime: Runtime) -> None:
    code = "import asyncio, os\ncs = [hang() for _ in range(3000)]\nos._exit(5)"
    with anyio.fail_after(10):
        run = await runtime.execute_code(code, check=False, limits=Limits(wall_seconds=20))
    assert run.error is not None
    assert run.error.kind == "GuestDied"
