"""P83 to P90: something dies at the wrong moment, or the surroundings are odd."""

# ruff: noqa: E501 (hostile programs, a line each)

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from callgate import Limits, Runtime, tool
from callgate.sandbox.docker.sweep import sweep
from pace import stretched
from probes.conftest import open_jail
from probes.harness import Jail, Toolbox, control
from probes.processes import descendants, eventually, processes, resident_bytes
from probes.seats import Containers
from probes.test_fail_closed import GUEST_ROOT, HOST_ROOT, start

ENGINE_THREADS = 16
"""That a host may have for talking to an engine, all in all."""
SRT_THREADS = 8
"""That remove the folders of guests, all in all: the event loop's own workers, as many as runs end at a time."""
HOST = """
import anyio
from callgate import Runtime, tool
@tool
async def ready() -> None:
    print("ready", flush=True)
    await anyio.sleep_forever()
async def main():
    async with Runtime([ready], sandbox=sandbox, tier=tier) as runtime:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(runtime.execute_code, "import threading\\ndef spin():\\n    while True: pass\\nthreading.Thread(target=spin).start()\\nawait ready()")
anyio.run(main)
"""


@pytest.mark.campaign
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV])
def test_p83_when_the_host_dies_everything_dies(jail: Jail, how: signal.Signals) -> None:
    source = f"import sys\nsys.path[:0] = {[HOST_ROOT, GUEST_ROOT]!r}\n{jail.kind.source}\n{HOST}"
    with subprocess.Popen([sys.executable, "-I", "-B", "-c", source], stdout=subprocess.PIPE, cwd="/") as host:
        assert host.stdout is not None
        assert host.stdout.readline() == b"ready\n"
        below = jail.seats.of_host(host.pid)
        assert len(below) >= 3
        host.send_signal(how)
        host.wait(10)
        took = eventually(lambda: not below & processes(zombies=False).keys(), "all its processes are gone", 5)
        assert took < stretched(jail.kind.gone_seconds)
        if isinstance(jail.seats, Containers):
            seats = jail.seats
            never_started = {"created"}
            eventually(
                lambda: set(seats.ours(host.pid).values()) <= never_started, "the engine has removed what ran", 30
            )
            jail.portal.call(sweep, seats.backend._engine)  # as the next runtime does at its start
            assert not seats.ours(host.pid)


def test_p83_the_control_outlives_its_parent() -> None:
    snippet = """
import subprocess, sys, time
middle = subprocess.Popen([sys.executable, "-c", '''
import subprocess, sys, os
one = subprocess.Popen([sys.executable, "-c", "import sys; print(1, flush=True); sys.stdin.read()"], stdin=0, stdout=1)
sys.stderr.write(str(one.pid)); sys.stderr.flush()
os.kill(os.getpid(), 9)
'''], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
pid = int(middle.stderr.read(64) if False else os.read(middle.stderr.fileno(), 64))
middle.stdout.readline()
middle.wait()
os.kill(pid, 0)
got = "outlived"
middle.stdin.close()
"""
    assert control(snippet) == "outlived"


@pytest.mark.campaign
def test_p84_what_guests_are_forked_from_is_replaced_when_it_is_killed(jail: Jail) -> None:
    with ExitStack() as stack:
        own = open_jail(stack, jail.kind, pool_size=2, limits=Limits(wall_seconds=10))
        for _ in range(3):
            own.is_well()
            own.toolbox.started = 0
            running = [own.start("await slow()") for _ in range(3)]
            eventually(lambda: own.toolbox.started == 3, "three runs are under way")
            own.seats.kill_keepers()
            for each in running:
                result = each.result(10)
                assert result.error is not None
                assert result.error.kind in jail.kind.caught_at, result.error
                assert not jail.kind.contained or "callgate doctor" in result.error.message
                assert [call.status for call in result.calls] == ["unknown_outcome"]
            own.is_well()
            eventually(lambda: own.toolbox.cancelled % 3 == 0, "their calls are cancelled")


@pytest.mark.campaign
def test_p84_a_killed_guest_fails_its_own_run_and_a_killed_pooled_one_none(jail: Jail) -> None:
    with jail.leaves_nothing():
        pooled = jail.seats.idle_guest()
        os.kill(jail.seats.pid_of(pooled), signal.SIGKILL)
        eventually(lambda: not pooled.alive, "the host knows that the pooled guest is dead")
        for _ in range(3):
            jail.is_well()
        running = jail.start("import os\nawait echo(os.getpid())\nawait slow()")
        eventually(lambda: jail.toolbox.started == 1, "the run is under way")
        victims = [pid for pid in jail.busy_pids() if _pid_inside(pid) == jail.toolbox.seen[-1]]
        assert len(victims) == 1
        os.kill(victims[0], signal.SIGKILL)
        result = running.result(10)
        assert result.error is not None
        assert result.error.kind == "GuestDied"
        assert jail.toolbox.cancelled == 1
        jail.is_well()


def _pid_inside(pid: int) -> int:
    try:
        text = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return -1
    return next(int(line.split()[-1]) for line in text.splitlines() if line.startswith("NSpid:"))


CYCLES = {
    "loop": "while True: pass",
    "tool": "await slow()",
    "start": "1",
    "sleep": "import time; time.sleep(99)",
    "output": "while True: print('x')",
}


@pytest.mark.parametrize("how", CYCLES)
def test_p85_cancelled_runs_leave_nothing(jail: Jail, how: str) -> None:
    import anyio

    async def cycles() -> float:
        longest = 0.0
        for number in range(20 if not jail.kind.contained else 5):
            with anyio.CancelScope() as scope, anyio.move_on_after((number % 5) * 0.003):
                await jail.runtime.execute_code(
                    CYCLES[how], check=False, path="sandbox", limits=Limits(wall_seconds=20, max_log_bytes=1 << 30)
                )
            started = time.monotonic()
            scope.cancel()
            longest = max(longest, time.monotonic() - started)
        return longest

    with jail.leaves_nothing():
        began = time.monotonic()
        jail.portal.call(cycles)
        assert time.monotonic() - began < stretched(10)
        jail.is_well()
    slots: Any = jail.runtime._pool
    assert slots._slots.value == slots.max_guests


@pytest.mark.campaign
def test_p86_many_runs_leave_everything_flat(jail: Jail) -> None:
    async def many(count: int) -> None:
        import anyio

        async def some() -> None:
            for number in range(count // 4):
                result = await jail.runtime.execute_code(
                    ["await add(1, 2)", "1/0", "import os; os._exit(1)", "print(1)"][number % 4],
                    check=False,
                    path="sandbox",
                )
                assert result.error is None or result.error.kind in ("ZeroDivisionError", "GuestDied")

        async with anyio.create_task_group() as tasks:
            for _ in range(4):
                tasks.start_soon(some)

    def mounts() -> list[str]:
        """But for those of engines, which others may start and end now."""
        lines = Path("/proc/self/mountinfo").read_text().splitlines()
        return [line for line in lines if not any(each in line for each in (" - overlay ", "docker", "-engine-"))]

    jail.portal.call(many, jail.kind.runs // 4)
    mounted, threads = mounts(), threading.active_count()
    resident = resident_bytes()
    with jail.leaves_nothing():
        jail.portal.call(many, jail.kind.runs)
    assert resident_bytes() - resident < 16 << 20
    assert mounts() == mounted
    assert threading.active_count() <= threads + (
        ENGINE_THREADS if jail.kind.contained else SRT_THREADS if jail.kind.is_srt else 0
    )
    states = [Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] for pid in descendants(os.getpid())]
    assert "Z" not in states


def test_p87_one_tenant_finds_nothing_of_the_other(jail: Jail) -> None:
    from probes.test_leaks import SCAN

    @tool(name="tenant_a_private_tool")
    async def private() -> str:
        """Tenant A's."""
        return "tenant-a-result" * 3

    with ExitStack() as stack:
        portal = jail.portal
        other = Runtime([private], **jail.kind.options(), pool_size=1)
        stack.enter_context(portal.wrap_async_context_manager(other))
        tenant_a = Jail(jail.kind, other, portal, Toolbox())
        assert tenant_a.run("x = await tenant_a_private_tool()\nx").value == "tenant-a-result" * 3
        session = stack.enter_context(portal.wrap_async_context_manager(other.session()))
        assert portal.call(session.execute_code, "kept = [await tenant_a_private_tool()] * 9").ok
        look = (
            'got = sorted(word.decode() for word in scan([(b"tenant_a_priv", b"ate_tool"), (b"tenant-a-", b"result")]))'
        )
        assert jail.probe(SCAN + look) == []
        assert [each for each in jail.run("dir(tools)").value if "tenant" in each] == []
        missing = jail.run("await tool_call('tenant_a_' + 'private_tool')")
        assert missing.error is not None
        assert "no tool" in missing.error.message or "tenant" in missing.error.message
        pids = [tenant_a.keeper_pid, *tenant_a.seats.guests()]
        assert set(jail.probe("got = [attempt(lambda: os.kill(pid, 0)) for pid in pids]", pids=pids)) == {"EPERM"}
        own = (
            SCAN
            + 'held = "-".join(["tenant", "a", "result"]) * 3\nname = "_".join(["tenant_a", "private", "tool"])\n'
            + look
        )
        assert control(own) == ["ate_tool", "result"]


def test_p88_no_tool_call_is_made_again_after_a_crash(jail: Jail) -> None:
    with ExitStack() as stack:
        own = open_jail(stack, jail.kind, pool_size=1, limits=Limits(wall_seconds=10))
        running = own.start("await slow()")
        eventually(lambda: own.toolbox.started == 1, "the call is under way")
        own.seats.kill_keepers()
        result = running.result(10)
        assert not result.ok
        assert [(call.status, call.attempts) for call in result.calls] == [("unknown_outcome", 1)]
        own.is_well()
        assert own.toolbox.started == 1


@pytest.mark.left_out("docker", reason="the host's own tools: thirty runs in a tenant's container are enough")
def test_p89_odd_tools_hurt_their_own_call_alone(jail: Jail) -> None:
    cycle: list[Any] = []
    cycle.append(cycle)
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    answers: dict[str, Any] = {"cycle": cycle, "deep": deep, "huge": "x" * (17 << 20), "nan": float("nan"), "bytes": b"\xff", "object": object(), "surrogate": "\ud800",
                               "key": {1: 2}, "million": list(range(10**6))}  # fmt: skip
    raised: dict[str, BaseException] = {"interrupt": KeyError("x"), "exit": SystemExit(3), "generator": StopIteration(1), "base": BaseException("x"),
                                        "recursion": RecursionError(), "memory": MemoryError(), "group": BaseExceptionGroup("x", [SystemExit(1)])}  # fmt: skip

    @tool
    async def odd(kind: str) -> Any:
        """Odd."""
        if kind in raised:
            raise raised[kind]
        return answers[kind]

    @tool
    def blocking(kind: str) -> Any:
        """Odd, in a thread."""
        if kind in raised:
            raise raised[kind]
        return answers[kind]

    with ExitStack() as stack:
        runtime = Runtime([odd, blocking], **jail.kind.options(), pool_size=1)
        stack.enter_context(jail.portal.wrap_async_context_manager(runtime))
        own = Jail(jail.kind, runtime, jail.portal, Toolbox())
        for name in ("odd", "blocking"):
            for kind in (*answers, *raised):
                result = own.run(
                    f"try:\n    got = len(await {name}({kind!r}))\nexcept ToolError as error:\n    got = str(error)\ngot"
                )
                assert result.ok, (kind, result.error)
                if kind not in ("million", "surrogate", "bytes", "key"):
                    assert isinstance(result.value, str), kind
                    assert "SystemExit" not in result.value
        assert own.run("40 + 2").value == 42


SURROUNDINGS = {
    "few descriptors": "import resource\nresource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))", "no stdin": "import os\nos.close(0)",
    "no stdio but output": "import os\nos.close(0)\nos.close(2)", "odd mask": "import os\nos.umask(0o777)",
    "no environment": "import os\nos.environ.clear()", "signals ignored": "import signal\nfor s in (1, 2, 15, 17): signal.signal(s, signal.SIG_IGN)",
    "many descriptors": "import os, resource\nmost = resource.getrlimit(resource.RLIMIT_NOFILE)[1]\nheld = [os.dup(1) for _ in range(200)]",
    "own session": "import os\nos.setsid() if os.getpid() != os.getsid(0) else None", "no new privileges": "import ctypes\nctypes.CDLL(None).prctl(38, 1, 0, 0, 0)",
    "little memory": "import resource\nresource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))",
    "inside a folder that is gone": "import os, tempfile\nd = tempfile.mkdtemp()\nos.chdir(d)\nos.rmdir(d)",
}  # fmt: skip


@pytest.mark.left_out("tenant", reason="starting has nothing to do with how many runs a container serves")
@pytest.mark.parametrize("how", SURROUNDINGS)
def test_p90_in_odd_surroundings_it_works_or_refuses_with_a_reason(jail: Jail, how: str) -> None:
    told = start(SURROUNDINGS[how], kind=jail.kind)
    assert told.get("value") == 42 or jail.kind.what in told["refused"], told


@pytest.mark.left_out("tenant", reason="starting has nothing to do with how many runs a container serves")
def test_p90_as_process_1_it_works_or_refuses_with_a_reason(jail: Jail) -> None:
    unshare = shutil.which("unshare")
    if unshare is None or subprocess.run([unshare, "-Urpf", "true"], capture_output=True).returncode:
        pytest.skip("no pid namespace to be process 1 in")
    told = start(kind=jail.kind, command=[unshare, "-Urpf"])
    assert told.get("value") == 42 or jail.kind.what in told["refused"], told


def test_p90_a_jail_inside_a_jail_is_refused(jail: Jail) -> None:
    snippet = f"""
sys.path[:0] = [{GUEST_ROOT!r}, "/guest"]
def inside():
    from callgate_guest.jail import namespaces
    namespaces.unshare(namespaces.EVERYTHING)
def zygote():
    import subprocess
    subprocess.run([sys.executable or "/python/bin/python3", "-c", "pass"], check=True)
got = [attempt(inside), attempt(zygote)]
"""
    inside, zygote = jail.probe(snippet)
    assert inside in ("EPERM", "ModuleNotFoundError", "ENOSYS")
    assert zygote in ("EPERM", "EACCES", "ENOENT")
