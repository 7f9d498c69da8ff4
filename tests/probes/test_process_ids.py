"""P15: whatever a program asks about a process id, the answer is the same whether there is such a process or not."""

# ruff: noqa: E501 (hostile programs, a line each)

from __future__ import annotations

import os

import pytest

from probes.harness import REFUSED, SYSCALLS, Jail, control

MISSING = 1 << 22
"""More than the largest process id that Linux gives (PID_MAX_LIMIT)."""

ASK = (
    SYSCALLS
    + """
import signal
signal.signal(signal.SIGALRM, lambda *_: None)
signal.setitimer(signal.ITIMER_REAL, 0.2, 0.2)  # clock_nanosleep is granted where it sleeps until this
buffer = ctypes.create_string_buffer(256)
attributes = ctypes.create_string_buffer(64)
sent = ctypes.create_string_buffer(bytes(8) + bytes(ctypes.c_int32(-1)), 128)  # a siginfo with SI_QUEUE
past = ctypes.create_string_buffer(bytes(8) + (1).to_bytes(8, sys.byteorder))  # a timespec: the first nanosecond of all
piece = (ctypes.c_size_t * 2)(ctypes.addressof(buffer), 8)
def pi(operation):
    def go(pid):
        word = ctypes.c_uint32(pid)
        return (ctypes.byref(word), operation, 0, past, ctypes.byref(word), 0)
    return go
clock = lambda pid: ~pid << 3 | 2
calls = {  # number on x86-64, on AArch64, arguments
    "kill": (62, 129, lambda pid: (pid, 0)), "tkill": (200, 130, lambda pid: (pid, 0)), "tgkill": (234, 131, lambda pid: (pid, pid, 0)),
    "getpgid": (121, 155, lambda pid: (pid,)), "getsid": (124, 156, lambda pid: (pid,)), "getpriority": (140, 141, lambda pid: (0, pid)),
    "sched_getparam": (143, 121, lambda pid: (pid, buffer)), "sched_getscheduler": (145, 120, lambda pid: (pid,)),
    "sched_rr_get_interval": (148, 127, lambda pid: (pid, buffer)), "sched_getaffinity": (204, 123, lambda pid: (pid, 256, buffer)),
    "sched_getattr": (315, 275, lambda pid: (pid, attributes, 48, 0)), "prlimit64": (302, 261, lambda pid: (pid, 7, 0, buffer)),
    "ioprio_get": (252, 31, lambda pid: (1, pid)), "get_robust_list": (274, 100, lambda pid: (pid, buffer, past)),
    "pidfd_open": (434, 434, lambda pid: (pid, 0)), "kcmp": (312, 272, lambda pid: (pid, pid, 0, 0, 0)),
    "move_pages": (279, 239, lambda pid: (pid, 0, 0, 0, 0, 0)), "migrate_pages": (256, 238, lambda pid: (pid, 0, 0, 0)),
    "process_vm_readv": (310, 270, lambda pid: (pid, piece, 1, piece, 1, 0)), "capget": (125, 90, lambda pid: (ctypes.create_string_buffer(b"\\x22\\x05\\x08\\x20" + bytes(ctypes.c_int32(pid))), buffer)),
    "rt_sigqueueinfo": (129, 138, lambda pid: (pid, 0, sent)), "fcntl(F_SETOWN)": (72, 25, lambda pid: (1, 8, pid)),
    "clock_gettime": (228, 113, lambda pid: (clock(pid), buffer)), "clock_getres": (229, 114, lambda pid: (clock(pid), buffer)),
    "clock_nanosleep": (230, 115, lambda pid: (clock(pid), 1, past, 0)), "clock_settime": (227, 112, lambda pid: (clock(pid), past)),
    "clock_adjtime": (305, 266, lambda pid: (clock(pid), ctypes.create_string_buffer(512))),
    "timer_create": (222, 107, lambda pid: (clock(pid), 0, buffer)), "timerfd_create": (283, 85, lambda pid: (clock(pid), 0)),
    "FUTEX_LOCK_PI": (202, 98, pi(6 | 128)), "FUTEX_TRYLOCK_PI": (202, 98, pi(8 | 128)), "FUTEX_LOCK_PI2": (202, 98, pi(13 | 128)),
    "FUTEX_UNLOCK_PI": (202, 98, pi(7 | 128)), "FUTEX_WAIT_REQUEUE_PI": (202, 98, pi(11 | 128)), "FUTEX_CMP_REQUEUE_PI": (202, 98, pi(12 | 128)),
    "shared FUTEX_TRYLOCK_PI": (202, 98, pi(8)), "shared FUTEX_LOCK_PI": (202, 98, pi(6)),
}
def ask(name, pid):
    x86, arm, arguments = calls[name]
    return attempt(lambda: syscall(x86 if X86 else arm, *arguments(pid)))
"""
)
SILENT = {  # these ask for rights, or for other things, before they look for the process
    "timerfd_create", "clock_settime", "clock_adjtime", "FUTEX_UNLOCK_PI", "FUTEX_WAIT_REQUEUE_PI", "FUTEX_CMP_REQUEUE_PI",
}  # fmt: skip


def test_p15_no_call_tells_whether_there_is_a_process(jail: Jail) -> None:
    got = control(
        ASK + "got = {name: [ask(name, there), ask(name, missing)] for name in calls}",
        there=os.getpid(),
        missing=MISSING,
    )
    assert {name for name, (there, missing) in got.items() if there == missing} <= SILENT, got
    there = [os.getpid(), jail.keeper_pid, jail.idle_pid, *sorted(jail.seats.everything())]
    snippet = """
pids = [pid for pid in [*range(1, 64), *there, missing] if pid != os.getpid()]
got = {name: sorted({ask(name, pid) for pid in pids}) for name in calls}
"""
    told = jail.probe(ASK + snippet, there=there, missing=MISSING)
    assert told == {name: ["ENOSYS" if "FUTEX" in name else "EPERM"] for name in got}


def test_p15_clocks_of_other_processes_cannot_be_read_and_ones_own_can(jail: Jail) -> None:
    snippet = """
import time
own = [time.CLOCK_REALTIME, time.CLOCK_MONOTONIC, time.CLOCK_PROCESS_CPUTIME_ID, time.CLOCK_THREAD_CPUTIME_ID, time.CLOCK_BOOTTIME]
got = [[attempt(lambda: time.clock_getres(each)) for each in own], [attempt(lambda: time.clock_gettime(each)) for each in own],
       attempt(lambda: time.sleep(0.001)), sorted({attempt(lambda: call(~there << 3 | which)) for call in (time.clock_getres, time.clock_gettime) for which in (0, 1, 2)})]
"""
    assert control(snippet, there=os.getpid()) == [["done"] * 5, ["done"] * 5, "done", ["done"]]
    for there in (1, jail.keeper_pid, jail.idle_pid):
        assert jail.probe(snippet, there=there) == [["done"] * 5, ["done"] * 5, "done", ["EPERM"]]


@pytest.mark.parametrize("pid_of", ["host", "keeper"])
def test_p15_a_process_shows_in_proc_only_where_the_hosts_paths_do(jail: Jail, pid_of: str) -> None:
    there = os.getpid() if pid_of == "host" else jail.keeper_pid
    snippet = "got = [attempt(lambda: os.stat(f'/proc/{each}')) for each in (there, missing)]"
    assert control(snippet, there=there, missing=MISSING) == ["done", "ENOENT"]
    shown = jail.probe(snippet, there=there, missing=MISSING)
    assert shown[1] == "ENOENT"
    assert shown[0] == ("done" if jail.kind.leak("stat") else "ENOENT")
    got = jail.probe(
        "got = {name: attempt(lambda: open(f'/proc/{there}/{name}').read(1)) for name in names}",
        there=there,
        names=["stat", "status", "cmdline", "schedstat", "io"],
    )
    assert set(got.values()) <= REFUSED
