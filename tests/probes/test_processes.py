"""P13 to P20: other processes, privileges, and system calls that nobody asked for."""

# ruff: noqa: E501 (hostile programs, a line each)

from __future__ import annotations

import errno
import os
import pty
import signal
import subprocess
import sys
import tempfile

import pytest

from probes.harness import PRELUDE, REFUSED, SYSCALLS, X86, Jail, control, control_process
from probes.processes import children, eventually, status_of


def refused(got: dict[str, str]) -> bool:
    return bool(got) and set(got.values()) <= REFUSED


def test_p13_a_program_cannot_start_another_process(jail: Jail) -> None:
    snippet = """
import multiprocessing, pty, subprocess
def wait(pid):
    assert pid and os.waitpid(pid, 0)[1] == 0
def fork():
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    wait(pid)
def spawn_on_terminal():
    assert pty.spawn(["/bin/true"]) == 0
def system():
    assert os.system("/bin/true") == 0
got = {
    "fork": attempt(fork), "run": attempt(lambda: subprocess.run(["/bin/true"], check=True)), "system": attempt(system),
    "spawn": attempt(lambda: wait(os.posix_spawn("/bin/true", ["true"], {}))),
    "popen": attempt(lambda: os.popen("/bin/true").close()), "pty": attempt(spawn_on_terminal),
}
"""
    assert set(control(snippet).values()) == {"done"}
    jail.settled()
    before = jail.seats.everything()
    got = jail.probe(snippet)
    assert got.pop("system") in {"EPERM", "AssertionError"}
    assert set(got.values()) <= REFUSED | {"OSError"}, got
    eventually(lambda: len(jail.seats.everything()) <= len(before) + 1, "no process more than before")


@pytest.mark.parametrize("how", ["execv", "memfd"])
def test_p13_a_program_cannot_become_another_program(jail: Jail, how: str) -> None:
    snippet = """
def execute_memory():
    with open("/bin/echo", "rb") as file:
        content = file.read()
    fd = os.memfd_create("probe")
    os.write(fd, content)
    os.execve(fd, ["echo", '"became another"'], {})
got = attempt(execute_memory if how == "memfd" else lambda: os.execv("/bin/echo", ["echo", '"became another"']))
"""
    assert control(snippet, how=how) == "became another"
    assert jail.probe(snippet, how=how) in REFUSED
    assert jail.probe("got = attempt(lambda: os.memfd_create('probe'))") == "EPERM"


def test_p14_namespaces_and_mounts_are_out_of_reach(jail: Jail) -> None:
    snippet = """
u, s, m, p, c = (272, 308, 165, 155, 161) if X86 else (97, 268, 40, 41, 51)
text = ctypes.c_char_p
got = {
    "unshare(FS)": attempt(lambda: syscall(u, 0x200)), "unshare(FILES)": attempt(lambda: syscall(u, 0x400)),
    **({} if harmless else {
        "unshare(USER)": attempt(lambda: syscall(u, 0x10000000)), "unshare(all)": attempt(lambda: syscall(u, 0x7E020000)),
        "setns": attempt(lambda: syscall(s, 0, 0)), "mount": attempt(lambda: syscall(m, text(b"x"), text(b"/tmp"), text(b"tmpfs"), 0, 0)),
        "pivot_root": attempt(lambda: syscall(p, text(b"."), text(b"."))), "chroot": attempt(lambda: syscall(c, text(b"."))),
        "clone3": attempt(lambda: syscall(435, ctypes.create_string_buffer(88), 88)),
        "clone(no thread)": attempt(lambda: syscall(56 if X86 else 220, 17, 0, 0, 0, 0)),
        "clone(vfork)": attempt(lambda: syscall(56 if X86 else 220, 0x4111, 0, 0, 0, 0)),
        "clone(thread, NEWUSER)": attempt(lambda: syscall(56 if X86 else 220, 0x10010F00, 0, 0, 0, 0)),
        "fsopen": attempt(lambda: syscall(430, text(b"tmpfs"), 0)), "open_tree": attempt(lambda: syscall(428, -100, text(b"/"), 1)),
        "umount2": attempt(lambda: syscall(166 if X86 else 39, text(b"/tmp"), 2)),
    }),
}
"""
    assert set(control(SYSCALLS + snippet, harmless=True).values()) == {"done"}
    assert refused(jail.probe(SYSCALLS + snippet, harmless=False))
    got = jail.probe("got = attempt(lambda: os.chroot('.'))")
    assert got == "EPERM"


def test_p15_no_process_can_be_inspected(jail: Jail) -> None:
    snippet = """
own = os.getpid()
vector = (ctypes.c_char_p * 2)(b"x" * 8, None)
def memory(call):
    source = ctypes.create_string_buffer(b"secret12")
    target = ctypes.create_string_buffer(8)
    def vec(buffer):
        return (ctypes.c_size_t * 2)(ctypes.addressof(buffer), 8)
    def go():
        assert syscall(call, own, vec(target), 1, vec(source), 1, 0) == 8
    return go
pt, rv, wv, kc, po, pg = (101, 310, 311, 312, 434, 438) if X86 else (117, 270, 271, 272, 434, 438)
got = {
    "readv": attempt(memory(rv)), "writev": attempt(memory(wv)), "pidfd": attempt(lambda: syscall(po, own, 0)),
    "traceme": attempt(lambda: syscall(pt, 0, 0, 0, 0)),
    **({} if harmless else {
        "attach": attempt(lambda: syscall(pt, 16, parent, 0, 0)), "seize": attempt(lambda: syscall(pt, 0x4206, parent, 0, 0)),
        "kcmp": attempt(lambda: syscall(kc, own, parent, 0, 0, 0)), "pidfd of parent": attempt(lambda: syscall(po, parent, 0)),
        "pidfd_getfd": attempt(lambda: syscall(pg, 3, 0, 0)), "process_madvise": attempt(lambda: syscall(440, 3, 0, 0, 0, 0)),
        "prlimit of parent": attempt(lambda: syscall(302 if X86 else 261, parent, 7, 0, ctypes.create_string_buffer(16))),
        "cpu clock of parent": attempt(lambda: __import__("time").clock_gettime(~parent << 3 | 2)),
    }),
}
"""
    assert set(control(SYSCALLS + snippet, harmless=True, parent=0).values()) == {"done"}
    for parent in (1, os.getpid(), jail.keeper_pid, jail.idle_pid):
        got = jail.probe(SYSCALLS + snippet, harmless=False, parent=parent)
        assert set(got.values()) <= REFUSED | {"EBADF"}, got


def test_p16_no_other_process_can_be_signalled(jail: Jail) -> None:
    snippet = """
import signal
got = {str(pid): attempt(lambda: os.kill(pid, 0)) for pid in (os.getppid(), *pids)}
"""
    assert set(control(snippet, pids=[os.getpid()]).values()) == {"done"}
    keeper = jail.keeper_pid
    sibling = jail.start("await slow()\n1")
    eventually(lambda: jail.toolbox.started == 1, "the sibling waits for its tool")
    hostile = """
import signal
queue, group = (129, 297) if X86 else (138, 240)
information = ctypes.create_string_buffer(128)
everyone = [1, -1, 0, os.getppid(), *range(2, 64), *pids]
others = [pid for pid in everyone if pid != os.getpid()]
got = sorted({attempt(lambda: os.kill(pid, 9)) for pid in others}
    | {attempt(lambda: syscall(234 if X86 else 131, pid, pid, 9)) for pid in others}
    | {attempt(lambda: syscall(200 if X86 else 130, pid, 9)) for pid in others}
    | {attempt(lambda: syscall(queue, pid, 9, information)) for pid in others}
    | {attempt(lambda: syscall(group, pid, pid, 9, information)) for pid in others}
    | {attempt(lambda: os.killpg(pid, 9)) for pid in others if pid > 0})
"""
    with jail.keeper_lives():
        got = jail.probe(SYSCALLS + hostile, pids=[os.getpid(), keeper, *jail.seats.everything()])
    assert got == ["EPERM"]
    assert not sibling.done()
    sibling.cancel()
    eventually(lambda: jail.toolbox.cancelled == 1, "the sibling's tool is cancelled with it")
    jail.is_well()


def test_p17_rare_system_calls_do_not_exist(jail: Jail) -> None:
    snippet = """
table = {  # x86-64, AArch64
    "bpf": (321, 280), "perf_event_open": (298, 241), "io_uring_setup": (425, 425), "keyctl": (250, 219), "add_key": (248, 217),
    "request_key": (249, 218), "userfaultfd": (323, 282), "open_by_handle_at": (304, 265), "name_to_handle_at": (303, 264),
    "kexec_load": (246, 104), "init_module": (175, 105), "finit_module": (313, 273), "delete_module": (176, 106),
    "openat2": (437, 437), "fanotify_init": (300, 262), "acct": (163, 89), "syslog": (103, 116), "reboot": (169, 142),
    "quotactl": (179, 60), "vmsplice": (278, 75), "tee": (276, 77), "splice": (275, 76), "sendmsg": (46, 211),
    "recvmsg": (47, 212), "mbind": (237, 235), "move_pages": (279, 239), "memfd_secret": (447, 447), "pkey_alloc": (330, 289),
    "modify_ldt": (154, None), "iopl": (172, None), "ioperm": (173, None), "arch_prctl": (158, None), "lookup_dcookie": (212, 18),
    "seccomp": (317, 277), "landlock_create_ruleset": (444, 444), "inotify_init1": (294, 26), "timerfd_create": (283, 85),
    "memfd_create": (319, 279), "signalfd4": (289, 74), "sysinfo": (99, 179), "getsid": (124, 156),
}
arguments = {"timerfd_create": (1, 0), "memfd_create": (ctypes.c_char_p(b"x"), 0), "sysinfo": (ctypes.create_string_buffer(256),)}
got = {}
for name, numbers in table.items():
    number = numbers[0 if X86 else 1]
    if number is not None and (name in only or not only):
        got[name] = attempt(lambda: syscall(number, *arguments.get(name, (0, 0, 0, 0))))
"""
    harmless = ["inotify_init1", "timerfd_create", "memfd_create", "sysinfo", "getsid"]
    assert set(control(SYSCALLS + snippet, only=harmless).values()) == {"done"}
    got = jail.probe(SYSCALLS + snippet, only=[])
    assert [name for name, outcome in got.items() if outcome != "EPERM"] == []


@pytest.mark.skipif(not X86, reason="an attack on x86-64 only")
def test_p18_calls_of_another_architecture_kill(jail: Jail) -> None:
    x32 = f"{PRELUDE}{SYSCALLS}\nattempt(lambda: syscall(0x40000000 | 39))\nprint('alive')"
    assert control_process(x32).stdout == "alive\n"
    result = jail.run(x32)
    assert result.error is not None
    assert (result.error.kind, "SIGSYS" in result.error.message) == ("GuestDied", True), result.error
    assert "alive" not in result.logs
    code = f"""{PRELUDE}
import ctypes, mmap
page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
page.write(number + bytes.fromhex("c3"))  # ret
function = ctypes.CFUNCTYPE(ctypes.c_long)(ctypes.addressof(ctypes.c_char.from_buffer(page)))
print("result", function())
"""
    plain = "number = bytes.fromhex('b827000000' '0f05')\n" + code  # getpid, the way of this architecture
    assert control_process(plain).stdout.startswith("result ")
    assert jail.run(plain).ok
    for attack in ("b80b000000cd80", "b814000000cd80"):  # execve and getpid by int 0x80
        result = jail.run(f"number = bytes.fromhex('{attack}')\n{code}")
        assert result.error is not None
        assert result.error.kind == "GuestDied"
        assert "result" not in result.logs
    jail.is_well()


def test_p18_unknown_calls_are_refused(jail: Jail) -> None:
    snippet = "got = sorted({attempt(lambda: syscall(number, 0, 0, 0, 0, 0, 0)) for number in range(463, 1200)})"
    assert "ENOSYS" in control(SYSCALLS + snippet)
    assert jail.probe(SYSCALLS + snippet) == ["EPERM"]


def test_p19_privileges_stay_as_they_are(jail: Jail) -> None:
    snippet = """
pr, pe, ca = (157, 135, 126) if X86 else (167, 92, 91)
got = {
    "setuid": attempt(lambda: os.setuid(os.getuid())), "setgid": attempt(lambda: os.setgid(os.getgid())),
    "setresuid": attempt(lambda: os.setresuid(-1, -1, -1)), "personality": attempt(lambda: syscall(pe, 0xFFFFFFFF)),
    "randomisation": attempt(lambda: syscall(pe, 0x0040000)), "dumpable": attempt(lambda: syscall(pr, 4, 1, 0, 0, 0)),
    "pdeathsig": attempt(lambda: syscall(pr, 1, 0, 0, 0, 0)), "subreaper": attempt(lambda: syscall(pr, 36, 0, 0, 0, 0)),
    "bounding set": attempt(lambda: syscall(pr, 23, 0, 0, 0, 0)), "setsid": attempt(lambda: os.setpgid(0, 0)),
    "limits": attempt(lambda: __import__("resource").setrlimit(7, (10, 10))),
    **({} if harmless else {
        "no_new_privs": attempt(lambda: syscall(pr, 38, 0, 0, 0, 0)), "drop": attempt(lambda: syscall(pr, 24, 0, 0, 0, 0)),
        "groups": attempt(lambda: os.setgroups([0])), "root": attempt(lambda: os.setuid(0)),
        "capset": attempt(lambda: syscall(ca, ctypes.c_char_p(bytes.fromhex("2205082000000000")), ctypes.c_char_p(b"\\xff" * 24))),
        "seccomp off": attempt(lambda: syscall(pr, 22, 0, 0, 0, 0)), "securebits": attempt(lambda: syscall(pr, 28, 0, 0, 0, 0)),
        "ambient": attempt(lambda: syscall(pr, 47, 2, 0, 0, 0)), "set_mm": attempt(lambda: syscall(pr, 35, 8, 0, 0, 0)),
    }),
}
"""
    assert set(control(SYSCALLS + snippet, harmless=True).values()) == {"done"}
    fields = ("Uid", "Gid", "Groups", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp")
    before = {field: status_of(jail.idle_pid)[field] for field in fields}
    seen: list[dict[str, str]] = []
    running = jail.start(f"{PRELUDE}{SYSCALLS}\nharmless = False\n{snippet}\nprint(json.dumps(got))\nawait slow()")
    try:
        eventually(lambda: jail.toolbox.started == 1, "the program has tried")
        for pid in jail.seats.guests():
            seen.append({field: status_of(pid)[field] for field in fields})
    finally:
        running.cancel()
    assert before in seen
    got = jail.probe(SYSCALLS + snippet, harmless=False)
    assert set(got.values()) <= {"EPERM", "ValueError"}, got  # what Python makes of EPERM from setrlimit
    user = jail.probe("got = [os.getuid(), os.geteuid(), os.getgid(), os.getegid()]")
    assert (0 in user) == jail.kind.is_root


def test_p19_a_program_can_give_up_its_threads_for_good_and_lower_no_other_limit(jail: Jail) -> None:
    snippet = """
import resource
of_threads, other = resource.RLIMIT_NPROC, resource.RLIMIT_NOFILE
got = {
    "other": attempt(lambda: resource.setrlimit(other, resource.getrlimit(other))), "of another": attempt(lambda: resource.prlimit(os.getppid() or 1, of_threads, (0, 0))),
    "more": attempt(lambda: resource.setrlimit(of_threads, (1 << 20, 1 << 20))), "none": attempt(lambda: resource.setrlimit(of_threads, (0, 0))),
    "again": attempt(lambda: resource.setrlimit(of_threads, (8, 8))),
}
c, place = ctypes.CDLL(None), ctypes.c_ulong()
got["thread"] = c.pthread_create(ctypes.byref(place), None, c.getpid, None)
"""
    got = jail.probe(SYSCALLS + snippet)
    assert (got.pop("none"), got.pop("thread")) == ("done", 0 if jail.kind.is_root else errno.EAGAIN)
    assert set(got.values()) <= {"EPERM", "PermissionError", "ValueError"}, got


def test_p20_terminals_cannot_be_fed(jail: Jail) -> None:
    snippet = """
import fcntl, struct, termios
got = {}
for fd in (0, 1, 2):
    for name, command, argument in [("size", termios.TIOCSWINSZ, struct.pack("HHHH", 9, 9, 0, 0)), ("TIOCSTI", termios.TIOCSTI, b"x"),
                                    ("TIOCLINUX", 0x541C, b"\\x02"), ("TIOCSCTTY", termios.TIOCSCTTY, 0)]:
        if not only or name in only:
            got[f"{name} {fd}"] = attempt(lambda: fcntl.ioctl(fd, command, argument))
"""
    main, terminal = pty.openpty()
    try:
        source = f"{PRELUDE}only = ['size']\n{snippet}\nopen(where, 'w').write(json.dumps(got))"
        with tempfile.NamedTemporaryFile(mode="r+") as told:
            subprocess.run(
                [sys.executable, "-I", "-c", f"where = {told.name!r}\n{source}"],
                stdin=terminal, stdout=terminal, stderr=terminal, timeout=30, check=True,
            )  # fmt: skip
            assert set(eval(told.read()).values()) == {"done"}
    finally:
        os.close(main)
        os.close(terminal)
    assert set(jail.probe(snippet, only=[]).values()) <= {"EPERM", "ENOTTY"}
    assert jail.probe("got = attempt(lambda: open('/dev/tty'))") in REFUSED


def test_p16_signals_to_itself_harm_only_itself(jail: Jail) -> None:
    source = "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)"
    assert control_process(source).returncode == -signal.SIGKILL
    result = jail.run(source)
    assert result.error is not None
    assert result.error.kind == "GuestDied"
    jail.is_well()


def test_p15_process_ids_are_the_hosts_only_where_that_is_said(jail: Jail) -> None:
    pid, parent = jail.probe("got = [os.getpid(), os.getppid()]")
    if jail.kind.contained:  # what forks guests is a process of the container's own numbers, not of the host's
        assert 1 < parent < pid
        assert parent not in children(jail.keeper_pid)
    else:
        assert parent == (jail.kind.parent or jail.keeper_pid)
    assert pid > 1
