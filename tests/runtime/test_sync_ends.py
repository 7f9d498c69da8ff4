"""How a `SyncRuntime` ends when nobody leaves its block in order: Ctrl-C, the end of the process, a fork."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys

import pytest

SECONDS = 60
HEAD = """
import contextlib, os, signal, sys, threading, time
from callgate import ConfigurationError, SyncRuntime, tool

@tool
def slow() -> None:
    "Ends long after everything else."
    time.sleep(1000)

def interrupt(event):
    "When the program has printed something."
    if event is None or type(event).__name__ == "Printed":
        os.kill(os.getpid(), signal.SIGINT)

def guests(runtime, above=None):
    "Processes below the zygote."
    above = above or runtime.backend.zygote_pid
    with open(f"/proc/{above}/task/{above}/children") as file:
        below = file.read().split()
    return sorted(below + [pid for each in below for pid in guests(runtime, each)])

def as_before(runtime):
    "Whether its guests are gone, in a while."
    end = time.monotonic() + 20
    while guests(runtime) != before and time.monotonic() < end:
        time.sleep(0.01)
    return guests(runtime) == before
"""


def ran(program: str, *, code: int = 0) -> str:
    """What a script prints, which must end by itself, with that exit code and without a warning."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", HEAD + program],
        capture_output=True, text=True, timeout=SECONDS, check=False,
    )  # fmt: skip
    assert done.returncode == code, done.stderr
    assert code or not done.stderr, done.stderr
    return done.stdout


INTERRUPTED = """
with SyncRuntime([slow], sandbox="jail", pool_size=0) as runtime:
    before = guests(runtime)
    for code in ("print(1)\\nwhile True: pass", "print(1)\\nawait slow()", "import sys\\nprint(1)\\nawait slow()"):
        try:
            runtime.execute_code(code, on_event=interrupt)
        except KeyboardInterrupt:
            print("interrupted", as_before(runtime))
    try:
        for event in runtime.stream_code("print(1)\\nwhile True: pass"):
            interrupt(event)
            time.sleep(1)
    except KeyboardInterrupt:
        print("interrupted", as_before(runtime))
    with runtime.session() as session:
        try:
            session.execute_code("print(1)\\nwhile True: pass", on_event=interrupt)
        except KeyboardInterrupt:
            print("interrupted", session.alive)
    print(runtime.execute_code("1 + 1").value)
"""


def test_ctrl_c_cancels_the_run_that_the_main_thread_waits_for_and_leaves_nothing() -> None:
    assert ran(INTERRUPTED).splitlines() == ["interrupted True"] * 4 + ["interrupted False", "2"]


LATE = """
@tool
async def lingers() -> None:
    "Is interrupted while somebody waits for its end."
    import anyio
    try:
        await anyio.sleep_forever()
    finally:
        with anyio.CancelScope(shield=True):
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
            await anyio.sleep(0.5)

with SyncRuntime([lingers], sandbox=None) as runtime:
    try:
        with runtime.stream_code("await lingers()") as stream:
            for event in stream:
                break
    except KeyboardInterrupt:
        print("interrupted")

def run():
    with contextlib.suppress(ConfigurationError):
        runtime.execute_code("await lingers()", on_event=lambda event: began.set())

began = threading.Event()
try:
    with runtime:
        thread = threading.Thread(target=run)
        thread.start()
        began.wait()
except KeyboardInterrupt:
    print("interrupted, and left:", runtime.runtime.open_in)
thread.join()
"""


def test_ctrl_c_while_a_block_is_left_is_not_lost_and_the_block_is_left() -> None:
    assert ran(LATE) == "interrupted\ninterrupted, and left: None\n"


def test_ctrl_c_that_nobody_catches_ends_the_script_at_once() -> None:
    program = (
        "with SyncRuntime([slow]) as runtime:\n    runtime.execute_code('print(1)\\nawait slow()', on_event=interrupt)"
    )
    ran(program, code=-signal.SIGINT)


ASKED = """
with SyncRuntime([tool(slow.function, requires_approval=True)], approve=lambda request: time.sleep(1000)) as runtime:
    threading.Timer(0.5, interrupt, [None]).start()
    try:
        runtime.execute_code("await slow()")
    except KeyboardInterrupt:
        print("interrupted")
"""


def test_ctrl_c_ends_the_wait_for_a_person_too() -> None:
    assert ran(ASKED) == "interrupted\n"


FORGOTTEN = """
runtime = SyncRuntime([slow], sandbox="jail", pool_size=1).open()
session = runtime.session().__enter__()
session.execute_code("x = 1")
events = iter(runtime.stream_code("print(1)\\nwhile True: pass"))
next(events)
def run():
    with contextlib.suppress(ConfigurationError):
        runtime.execute_code("await slow()")
threading.Thread(target=run, daemon=True).start()
print(runtime.backend.zygote_pid, *guests(runtime), flush=True)
"""


@pytest.mark.parametrize(("end", "code"), [("", 0), ("sys.exit(3)", 3), ("os._exit(4)", 4), ("1 / 0", 1)])
def test_a_script_that_never_leaves_the_block_ends_and_its_guests_with_it(end: str, code: int) -> None:
    pids = ran(FORGOTTEN + end, code=code).split()
    assert len(pids) > 3
    for pid in pids:
        gone(int(pid))


def gone(pid: int) -> None:
    """Wait until a process is gone."""
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        assert select.select([fd], [], [], SECONDS)[0], f"{pid} lives on"
    finally:
        os.close(fd)


FORKED = """
with SyncRuntime([slow], sandbox="jail") as runtime:
    session = runtime.session().__enter__()
    session.execute_code("x = 1")
    events = iter(runtime.stream_code("print(1)\\nwhile True: pass"))
    next(events)
    child = os.fork()
    if child == 0:
        for one in (runtime, session):
            try:
                one.execute_code("1")
            except Exception as error:
                print(error, flush=True)
    else:
        os.waitpid(child, 0)
        print(runtime.execute_code("1 + 1").value, session.execute_code("x").value, flush=True)
print("left", flush=True)
"""


def test_a_forked_process_is_told_that_the_runtime_is_not_its_own_and_harms_it_not() -> None:
    told = "this runtime was opened before this process was forked: it belongs to the other one; make one here"
    assert ran(FORKED).splitlines() == [told, told, "left", "2 1", "left"]


def test_children_of_multiprocessing_end_as_ever() -> None:
    program = """
import multiprocessing
with SyncRuntime([slow], sandbox="jail") as runtime:
    with multiprocessing.get_context("fork").Pool(2) as pool:
        print(pool.map(abs, [-1, -2]), runtime.execute_code("3").value)
"""
    assert ran(program) == "[1, 2] 3\n"
