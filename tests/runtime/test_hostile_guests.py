"""What guests tried against the host's loop and the kernel's bounds, and what became of it."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from callgate import Limits, Runtime, tool
from pace import stretched
from runtime.conftest import opened

pytestmark = pytest.mark.anyio

WIRE = """
import json, os, stat
def is_wire(fd):
    try:
        return fd > 2 and stat.S_ISFIFO(os.fstat(fd).st_mode) and os.get_blocking(fd) is False
    except OSError:
        return False
def send(text):
    data = text.encode()
    while data:
        try:
            data = data[os.write(out, data):]
        except BlockingIOError:
            pass
def batch(ids, method):
    send("[" + ",".join(json.dumps({"jsonrpc": "2.0", "method": method, "id": n}) for n in ids) + "]\\n")
fds = [fd for fd in range(3, 64) if is_wire(fd)]
out = fds[1]
"""


@tool(read_only=True)
async def slow(n: int = 0) -> int:
    """Never answers."""
    await anyio.sleep_forever()
    return n


@tool(read_only=True)
async def large() -> str:
    """A hundred thousand letters."""
    return "x" * 100_000


async def attacked(code: str, limits: Limits) -> Any:
    async with Runtime([slow, large], pool_size=0, limits=limits) as runtime:
        return await runtime.execute_code(WIRE + code, check=False)


async def test_ids_that_would_share_one_hash_are_refused() -> None:
    code = (
        'send(json.dumps({"jsonrpc": "2.0", "method": "slow", "params": {}, "id": 2**61 - 1}) + "\\n")\nopen(0).read()'
    )
    run = await attacked(code + "\nimport time; time.sleep(30)", Limits(wall_seconds=10))
    assert run.error.kind == "ProtocolError"
    assert "between -2**53 and 2**53" in run.error.message


async def test_a_flood_of_calls_and_cancellations_does_not_outlive_its_limit() -> None:
    code = """
for n in range(20000):
    send('{"jsonrpc":"2.0","method":"slow","params":{},"id":%d}\\n' % n)
for n in reversed(range(20000)):
    send('{"jsonrpc":"2.0","method":"cancel","params":{"id":%d}}\\n' % n)
"""
    run = await attacked(code, Limits(wall_seconds=20))
    assert run.usage.wall_seconds < stretched(15)


async def test_batches_are_served_by_as_many_workers_as_calls_may_run() -> None:
    run = await attacked(
        "for k in range(32):\n    batch([f'{k}.{n}' for n in range(1024)], 'slow')\nimport time; time.sleep(60)",
        Limits(wall_seconds=2, max_concurrent_calls=8),
    )
    assert run.error.limit == "wall_seconds"
    assert run.usage.wall_seconds < stretched(12)
    assert len(run.calls) <= 16


async def test_a_batch_has_one_message_for_its_reply() -> None:
    run = await attacked(
        "batch(range(1000), 'large')\nimport time; time.sleep(60)", Limits(max_message_bytes=1 << 20, wall_seconds=20)
    )
    assert run.error.limit == "max_message_bytes"
    assert run.usage.sent_bytes < 1 << 20


@pytest.mark.parametrize("tier", [1, 2])
async def test_kernel_memory_outside_the_limits_cannot_be_had(tier: int) -> None:
    code = """
import ctypes, fcntl, platform, socket
libc = ctypes.CDLL(None, use_errno=True)
a, b = socket.socketpair()
def refused(action):
    try:
        action()
    except OSError as error:
        return error.errno
clone, close_range = {"x86_64": (56, 436), "aarch64": (220, 436)}[platform.machine()]
def call(*arguments):
    if libc.syscall(*arguments) == -1:
        raise OSError(ctypes.get_errno(), "")
[
    refused(lambda: a.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 22)),
    refused(lambda: call(clone, 0x10B00, 0, 0, 0, 0)),
    refused(lambda: call(close_range, 250, 255, 2)),
    refused(lambda: fcntl.flock(open(fcntl.__file__ if hasattr(fcntl, "__file__") else json.__file__), fcntl.LOCK_EX)),
]
"""
    async with opened(tier=tier, pool_size=0) as runtime:
        run = await runtime.execute_code(WIRE.split("def is_wire")[0] + code)
        assert run.value == [1, 1, 1, 1], run.error
        files = await runtime.execute_code(
            f"import sqlite3\ndb = sqlite3.connect({'/tmp/x.db' if tier == 1 else ':memory:'!r})\n"
            "db.execute('create table t (n)'); db.execute('insert into t values (7)'); db.commit()\n"
            "db.execute('select n from t').fetchone()[0]"
        )
        assert files.value == 7, files.error


async def test_an_exception_named_like_one_of_the_hosts_is_told_apart() -> None:
    async with Runtime(pool_size=0) as runtime:
        run = await runtime.execute_code("class CheckFailed(Exception): pass\nraise CheckFailed('x')")
    assert run.error is not None
    assert run.error.kind == "program.CheckFailed"
    assert run.for_model().startswith("The program failed.")


async def test_a_signal_for_a_limit_that_was_not_reached_is_only_a_signal() -> None:
    async with Runtime(pool_size=0) as runtime:
        run = await runtime.execute_code("import os, signal\nos.kill(os.getpid(), signal.SIGXCPU)")
    assert run.error is not None
    assert run.error.kind == "GuestDied"
