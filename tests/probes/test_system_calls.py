"""P04 and P39: of the calls that a program may make, the arguments that would reach what it shares with others are refused."""

# ruff: noqa: E501 (hostile programs, a line each)

from __future__ import annotations

import pytest

from probes.harness import SYSCALLS, Jail, control


def test_p39_a_descriptor_can_be_made_blocking_or_not_and_appending_and_nothing_else(jail: Jail) -> None:
    snippet = """
import fcntl
reader, writer = os.pipe()
fds = {"pipe": writer, "file": os.open(os.__file__, os.O_RDONLY), "null": os.open(os.devnull, os.O_WRONLY | os.O_SYNC)}
change = lambda fd, flags: fcntl.fcntl(fd, fcntl.F_SETFL, fcntl.fcntl(fd, fcntl.F_GETFL) | flags)
got = {
    "refused": {f"{name} {kind}": attempt(lambda: change(fd, getattr(os, name))) for name in ("O_DIRECT", "O_ASYNC", "O_NOATIME") for kind, fd in fds.items()},
    "passed": sorted({attempt(lambda: change(fd, flags)) for flags in (0, os.O_NONBLOCK, os.O_APPEND, os.O_NONBLOCK | os.O_APPEND) for fd in fds.values()}
                     | {attempt(lambda: os.set_blocking(fd, blocking)) for fd in fds.values() for blocking in (False, True)}),
    "upper half": attempt(lambda: syscall(72 if X86 else 25, writer, 4, 1 << 32 | os.O_NONBLOCK)),
    "flags": fcntl.fcntl(writer, fcntl.F_GETFL) & (os.O_DIRECT | os.O_ASYNC | os.O_NOATIME | os.O_NONBLOCK),
}
"""
    outside = control(SYSCALLS + snippet)
    assert outside["refused"]["O_DIRECT pipe"] == outside["refused"]["O_ASYNC pipe"] == "done"
    got = jail.probe(SYSCALLS + snippet)
    assert set(got.pop("refused").values()) == {"EPERM"}
    assert got == {"passed": ["done"], "upper half": "done", "flags": 0o4000}


def test_p39_a_wire_cannot_be_made_to_carry_a_packet_for_each_write(jail: Jail) -> None:
    result = jail.attack(
        "import fcntl\ntry:\n    fcntl.fcntl(outgoing, fcntl.F_SETFL, os.O_DIRECT)\n    told = 'done'\nexcept OSError as error:\n    told = error.errno\ntold"
    )
    assert result.value == 1, result


CALLS = """
import mmap
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
file = os.open(os.__file__, os.O_RDONLY)
page, own = _libc.mmap(None, 4096, 1, 1, file, 0), _libc.mmap(None, 1 << 16, 3, 0x22, -1, 0)
assert ctypes.string_at(page, 1) and ctypes.memset(own, 1, 1 << 16)
pair, ends, told, size = (ctypes.c_int * 2)(), (ctypes.c_int * 2)(), ctypes.create_string_buffer(64), ctypes.c_uint32(8)
PAIR, GET, SEND, RECEIVE, ADVISE, BARRIER, PIPE, MAP, INCORE, OPEN, ASK = (53, 55, 44, 45, 28, 324, 293, 9, 27, 257, 229) if X86 else (199, 209, 206, 207, 233, 283, 59, 222, 232, 56, 114)
syscall(PAIR, 1, 1, 0, pair)
name = ctypes.c_char_p(os.__file__.encode())
refused = {
    "which pages of a file are in memory": lambda: syscall(INCORE, ctypes.c_void_p(page), 4096, told),
    "merge pages with other processes": lambda: syscall(ADVISE, ctypes.c_void_p(own), 1 << 16, 12),
    "throw out pages": lambda: syscall(ADVISE, ctypes.c_void_p(page), 4096, 21), "make pages cold": lambda: syscall(ADVISE, ctypes.c_void_p(page), 4096, 20),
    "huge pages of the machine": lambda: syscall(MAP, 0, 2 << 20, 3, 0x40022, -1, 0),
    "a barrier on every processor": lambda: syscall(BARRIER, 1, 0, 0), "a barrier for whoever asked": lambda: syscall(BARRIER, 2, 0, 0),
    "the machine's number of a socket": lambda: syscall(GET, pair[0], 1, 57, told, ctypes.byref(size)),
    "who made a socket": lambda: syscall(GET, pair[0], 1, 17, told, ctypes.byref(ctypes.c_uint32(12))),
    "a descriptor of who made a socket": lambda: syscall(GET, pair[0], 1, 77, told, ctypes.byref(ctypes.c_uint32(4))),
    "send out of band": lambda: syscall(SEND, pair[0], name, 1, 1, 0, 0), "receive out of band": lambda: syscall(RECEIVE, pair[1], told, 1, 1 | 0x40, 0, 0),
    "a pipe of packets": lambda: syscall(PIPE, ends, os.O_DIRECT), "a pipe of notifications": lambda: syscall(PIPE, ends, 0o200),
    "read past the cache": lambda: syscall(OPEN, -100, name, os.O_DIRECT), "resolution of nobody's clock": lambda: syscall(ASK, 1 << 31 | 2, told),
}
passed = {
    "advise": lambda: [syscall(ADVISE, ctypes.c_void_p(own), 1 << 16, each) for each in (0, 1, 2, 3, 4, 8, 16, 17)],
    "barrier": lambda: [syscall(BARRIER, each, 0, 0) for each in (0, 16, 8)], "type of a socket": lambda: syscall(GET, pair[0], 1, 3, told, ctypes.byref(size)),
    "pipe": lambda: syscall(PIPE, ends, os.O_CLOEXEC | os.O_NONBLOCK), "open": lambda: syscall(OPEN, -100, name, os.O_CLOEXEC),
    "map": lambda: syscall(MAP, 0, 4096, 3, 0x22, -1, 0),
}
got = [{name: attempt(call) for name, call in calls.items()} for calls in (refused, passed)]
"""


def test_p39_arguments_that_reach_what_is_shared_are_refused(jail: Jail) -> None:
    refused, passed = control(SYSCALLS + CALLS)
    assert [each for each, outcome in refused.items() if outcome == "EPERM"] == []
    assert set(passed.values()) == {"done"}
    inside = jail.probe(SYSCALLS + CALLS)
    assert inside == [dict.fromkeys(refused, "EPERM"), dict.fromkeys(passed, "done")]


def test_p39_the_disk_is_not_asked_to_empty_its_cache(jail: Jail) -> None:
    """What a guest can write lies in memory. For a file that it reads, fsync would have the host's disk flush, again and again."""
    snippet = """
reader, writer = os.pipe()  # which cannot be synchronised: the kernel says so if it is asked
file = os.open(os.__file__, os.O_RDONLY)
got = [attempt(lambda: os.fsync(writer)), attempt(lambda: os.fdatasync(writer)), attempt(lambda: syscall(26 if X86 else 227, 1, 4096, 4)),
       attempt(lambda: os.fsync(file))]
"""
    assert control(SYSCALLS + snippet) == ["EINVAL", "EINVAL", "EINVAL", "done"]
    assert jail.probe(SYSCALLS + snippet) == ["done"] * 4


@pytest.mark.left_out("tenant", "tier2", "srt", reason="there is no /tmp")
def test_p39_files_of_ones_own_can_be_synchronised_and_copied_all_the_same(jail: Jail) -> None:
    snippet = """
import mmap, sqlite3, tempfile
with tempfile.TemporaryFile() as file:
    file.write(b"x" * 4096)
    file.flush()
    os.fsync(file.fileno())
    with mmap.mmap(file.fileno(), 4096) as content:
        content[:4] = b"kept"
        content.flush()
    file.seek(0)
    kept = file.read(4).decode()
with tempfile.TemporaryDirectory() as folder:
    for _ in range(2):
        with sqlite3.connect(folder + "/rows") as database:
            database.execute("create table if not exists rows (n)")
            database.executemany("insert into rows values (?)", [(n,) for n in range(100)])
        database.close()
    database = sqlite3.connect(folder + "/rows")
    rows = database.execute("select count(*), sum(n) from rows").fetchone()
    database.close()
import fcntl, shutil
with tempfile.TemporaryDirectory(dir="/dev/shm" if outside else None) as folder:
    with open(folder + "/one", "w") as one:
        one.write("copied")
    shutil.copyfile(folder + "/one", folder + "/two")
    with open(folder + "/one") as one, open(folder + "/three", "w") as three:
        cloned = attempt(lambda: fcntl.ioctl(three, 0x40049409, one.fileno()))  # FICLONE
    copied = open(folder + "/two").read()
got = [kept, rows, copied, cloned]
"""
    assert (
        control(snippet, outside=True)
        == jail.probe(snippet, outside=False)
        == ["kept", [200, 9900], "copied", "ENOTSUP"]
    )


def test_p34_a_thread_is_started_as_c_libraries_do_it_and_no_other_way(jail: Jail) -> None:
    snippet = """
thread, clone = 0x10F00, 56 if X86 else 220
flags = {"pidfd": 0x1000, "vfork": 0x4000, "traced": 0x2000, "io": 0x80000000, "untraced": 0x800000, "user": 0x10000000, "signal": 17}
got = [{name: attempt(lambda: syscall(clone, thread | flag, 0, 0, 0, 0)) for name, flag in flags.items()},
       sorted({attempt(lambda: syscall(clone, thread & ~(1 << bit), 0, 0, 0, 0)) for bit in (8, 9, 10, 11, 16)})]
"""
    assert jail.probe(SYSCALLS + snippet) == [
        dict.fromkeys(("pidfd", "vfork", "traced", "io", "untraced", "user", "signal"), "EPERM"),
        ["EPERM"],
    ]
