"""P36 to P52: programs that use up whatever there is. Each ends within its limit, and nothing is left of it."""

# ruff: noqa: E501 (hostile programs, a line each)

from __future__ import annotations

import shutil
import sys
import zlib
from pathlib import Path

import pytest

from callgate import CodeResult, Limits
from pace import stretched
from probes.harness import PRELUDE, Jail, control, control_process

MEMORY = 128 << 20

SHORT = Limits(wall_seconds=0.5, cpu_seconds=5)
SMALL = Limits(wall_seconds=10, cpu_seconds=10, memory_bytes=MEMORY, max_file_bytes=4 << 20)
BUSY = Limits(wall_seconds=60, cpu_seconds=1, memory_bytes=MEMORY)


pytestmark = pytest.mark.usefixtures("nothing_is_left")


def reached(result: CodeResult, *limits: str) -> bool:
    assert result.error is not None, result
    assert result.error.kind == "LimitReached", result.error
    assert result.error.limit in limits, result.error
    return True


IGNORE = "import signal\nfor each in (signal.SIGTERM, signal.SIGXCPU, signal.SIGALRM, signal.SIGINT):\n    signal.signal(each, signal.SIG_IGN)\n"


def test_p36_an_endless_loop_ends_at_the_wall_limit(jail: Jail) -> None:
    result = jail.run(f"{IGNORE}while True: pass", limits=SHORT)
    assert reached(result, "wall_seconds")
    assert result.usage.wall_seconds < SHORT.wall_seconds + stretched(jail.kind.grace_seconds)


def test_p36_an_endless_loop_ends_at_the_processor_limit(jail: Jail) -> None:
    for code in ("while True: pass", f"{IGNORE}while True: pass"):
        result = jail.run(code, limits=BUSY)
        assert reached(result, "cpu_seconds")
        assert (result.usage.cpu_seconds or 0.0) < 2.5
    started = "import time\nend = time.monotonic() + 1.2\nwhile time.monotonic() < end: pass\ngot = 'still there'"
    assert control(f"{IGNORE}{started}") == "still there"


@pytest.mark.parametrize("wait", [
    "import time; time.sleep(1e9)", "import threading; threading.Event().wait()", "import select; select.select([], [], [])",
    "import asyncio; await asyncio.sleep(1e9)", "import signal; signal.pause()", "await slow()", "input_ = open(0).read(); import time; time.sleep(99)",
    "import threading\nlock = threading.Lock(); lock.acquire(); lock.acquire()",
])  # fmt: skip
def test_p37_waiting_for_ever_ends_at_the_wall_limit(jail: Jail, wait: str) -> None:
    result = jail.run(wait, limits=SHORT)
    assert reached(result, "wall_seconds")
    assert result.usage.wall_seconds < SHORT.wall_seconds + stretched(jail.kind.grace_seconds)


ALLOCATE = {
    "bytes": "got = attempt(lambda: bytearray(300 << 20))",
    "list": "def grow():\n    held = []\n    for _ in range(300): held.append(bytes(1 << 20))\ngot = attempt(grow)",
    "maps": "import mmap\ndef grow():\n    held = []\n    for _ in range(300): held.append(mmap.mmap(-1, 1 << 20))\ngot = attempt(grow)",
    "text": "got = attempt(lambda: 'a' * (300 << 20))",
    "populate": "import mmap\ngot = attempt(lambda: mmap.mmap(-1, 300 << 20, flags=mmap.MAP_PRIVATE | 0x8000))",
    "format": "got = attempt(lambda: '%314572800d' % 1)",
    "zlib": "import zlib\npacked = zlib.compress(bytes(300 << 20), 1) if not jailed else bytes.fromhex(given)\ngot = attempt(lambda: zlib.decompress(packed))",
    "xml": "got = attempt(lambda: ''.join(['x' * (1 << 20)] * 300))",
    "range": "got = attempt(lambda: list(range(10 << 20)))",
    "threads": """
import threading
held, failed = [], []
def work():
    try:
        for _ in range(30): held.append(bytes(1 << 20))
    except MemoryError:
        failed.append(1)
threads = [threading.Thread(target=work) for _ in range(10)]
for thread in threads: thread.start()
for thread in threads: thread.join()
got = "MemoryError" if failed else "done"
""",
}


@pytest.mark.parametrize("how", ALLOCATE)
def test_p38_p39_p45_memory_is_bounded(jail: Jail, how: str) -> None:
    given = zlib.compress(zlib.compress(bytes(300 << 20), 1), 9).hex() if how == "zlib" else ""
    snippet = ALLOCATE[how].replace("bytes.fromhex(given)", "zlib.decompress(bytes.fromhex(given))")
    assert control(snippet, jailed=False) == "done"
    limits = SMALL.replace(max_processes=32)
    result = jail.run(f"{PRELUDE}{snippet}\ngot", limits=limits, inputs={"jailed": True, "given": given})
    assert result.value in ("MemoryError", "OSError", "ENOMEM") or reached(
        result, "memory_bytes", *(["max_processes"] if how == "threads" else [])
    )
    assert (result.usage.peak_memory_bytes or 0) < MEMORY + (64 << 20)
    uncaught = jail.run("bytearray(10**9)", limits=SMALL)
    assert reached(uncaught, "memory_bytes")


def test_p39_memory_beside_ones_own_is_bounded_too(jail: Jail) -> None:
    snippet = """
import socket
def shared():
    from multiprocessing import shared_memory
    shared_memory.SharedMemory(create=True, size=1 << 20).unlink()
def memory_file():
    fd = os.memfd_create("probe")
    os.ftruncate(fd, 1 << 30)
def pipes():
    total, fds = 0, []
    try:
        while total < most:
            fds += os.pipe()
            os.set_blocking(fds[-1], False)
            total += os.write(fds[-1], bytes(1 << 16))
    except OSError:
        pass
    return total
def pairs():
    total, held = 0, []
    try:
        while total < most:
            one, other = socket.socketpair()
            held += [one, other]
            one.setblocking(False)
            total += one.send(bytes(1 << 18))
    except OSError:
        pass
    return total
got = [attempt(shared), attempt(memory_file), pipes(), pairs()]
"""
    assert control(snippet, most=1 << 23)[1:] == ["done", 1 << 23, pytest.approx(1 << 23, rel=0.2)]
    shared, memory_file, pipes, pairs = jail.probe(snippet, limits=SMALL, most=1 << 30)
    assert shared != "done"
    assert memory_file == "EPERM"
    assert pipes <= 128 << 16
    assert pairs <= 128 << 18


def test_p40_forks_are_refused(jail: Jail) -> None:
    snippet = """
import multiprocessing
def fork():
    pid = os.fork()
    if pid == 0: os._exit(0)
    os.waitpid(pid, 0)
def process():
    each = multiprocessing.get_context("fork").Process(target=print)
    each.start()
    each.join()
got = sorted({attempt(fork) for _ in range(20)} | {attempt(process)})
"""
    assert control(snippet) == ["done"]
    assert jail.probe(snippet, limits=SMALL) == ["EPERM"]


THREADS = """
import threading
threading.stack_size(size)
stop = threading.Event()
started = 0
try:
    for _ in range(most):
        threading.Thread(target=stop.wait, daemon=True).start()
        started += 1
except BaseException as error:
    told = type(error).__name__
stop.set()
got = started
"""


def test_p41_threads_are_bounded(jail: Jail) -> None:
    assert control(THREADS, size=0, most=200) == 200
    limits = SMALL.replace(max_processes=16)
    started = jail.probe(THREADS, limits=limits, size=0, most=10_000)
    unbounded = jail.kind.leak("threads")
    assert started <= (MEMORY // (8 << 20) if unbounded else 15)
    result = jail.run(f"{PRELUDE}{THREADS}\ngot", limits=limits, inputs={"size": 32 << 10, "most": 10_000})
    if not unbounded:
        assert result.value == 15
        caught = jail.run(
            "import threading\nfor _ in range(99): threading.Thread(target=threading.Event().wait, daemon=True).start()",
            limits=limits,
        )
        assert reached(caught, "max_processes")
    else:
        assert (result.value or 0) <= MEMORY // (32 << 10)
        assert result.ok or reached(result, "memory_bytes")


def test_p41_a_thread_without_memory_is_an_error_and_no_wait(jail: Jail) -> None:
    """CPython's own `start` waits for ever there; how much memory is left when it happens varies with the ballast."""
    for ballast in range(0, 3 << 20, 400_001):
        result = jail.run(
            f"{PRELUDE}ballast = bytearray(ballast)\n{THREADS}\ngot", limits=SMALL.replace(max_processes=4_000),
            inputs={"size": 32 << 10, "most": 10_000, "ballast": ballast},
        )  # fmt: skip
        assert result.ok or reached(result, "memory_bytes")


SLOW = {
    "power": "10**10**8", "digits": "import sys; sys.set_int_max_str_digits(0); int('9' * 10**7)", "factorial": "import math; math.factorial(10**7)",
    "text of number": "import sys; sys.set_int_max_str_digits(0); len(str(1 << 10**8))", "comb": "import math; math.comb(10**8, 10**7)",
    "regex": "import re; re.match('(a+)+$', 'a' * 40 + 'b')", "sum": "sum(range(10**12))", "sort": "sorted(range(10**7), key=lambda x: [x] * 99)",
    "deque": "import itertools, collections; collections.deque(itertools.count(), 0)", "in": "10**20 in itertools.count() if (itertools := __import__('itertools')) else 0",
}  # fmt: skip


@pytest.mark.parametrize("how", SLOW)
def test_p42_p43_a_loop_in_c_ends_at_the_limit(jail: Jail, how: str) -> None:
    result = jail.run(SLOW[how], limits=BUSY.replace(wall_seconds=0.7))
    assert reached(result, "wall_seconds", "cpu_seconds", "memory_bytes")
    assert result.usage.wall_seconds < 0.7 + stretched(jail.kind.grace_seconds)


def test_p42_the_control_of_c_loops_does_not_stop_in_time() -> None:
    snippet = """
import re, signal, time
fired = []
signal.signal(signal.SIGALRM, lambda *_: fired.append(time.monotonic()))
began = time.monotonic()
signal.setitimer(signal.ITIMER_REAL, 0.001)
sum(range(10**7))
got = fired[0] - began > 0.02
"""
    assert control(snippet) is True


NESTED = {
    "json": "import json; json.loads('[' * 10**6)", "parentheses": "eval('(' * 10**5)", "unary": "eval('-' * 10**6 + '1')",
    "attributes": "compile('a' + '.a' * 10**5, 'x', 'eval')", "calls": "compile('a' + '()' * 10**5, 'x', 'eval')",
    "sum": "compile('+'.join('1' * 10**5), 'x', 'eval')", "ast": "import ast; ast.parse('[' * 10**5)",
    "recursion": "import sys; sys.setrecursionlimit(10**9)\ndef f(n): return f(n + 1)\nf(0)",
    "repr": "x = []\nfor _ in range(10**6): x = [x]\nimport sys; sys.setrecursionlimit(10**9); repr(x)",
    "delete": "x = []\nfor _ in range(10**6): x = [x]\ndel x",
    "str subclass": "import sys; sys.setrecursionlimit(10**9)\nclass A:\n    def __getattr__(self, n): return getattr(self, n + 'x')\nA().x",
    "copy": "import copy, sys; sys.setrecursionlimit(10**9)\nx = []\nfor _ in range(10**6): x = [x]\ncopy.deepcopy(x)",
}  # fmt: skip


@pytest.mark.parametrize("how", NESTED)
def test_p43_p44_nesting_hurts_its_own_child_alone(jail: Jail, how: str) -> None:
    with jail.keeper_lives():
        result = jail.run(NESTED[how], limits=SMALL.replace(wall_seconds=5))
    if how != "delete":
        assert result.error is not None
        assert result.error.kind in {
            "LimitReached",
            "RecursionError",
            "MemoryError",
            "SyntaxError",
            "GuestDied",
            "SystemError",
        }


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="since 3.12 Python counts the recursion of C code itself")
def test_p44_the_control_of_recursion_kills_its_process() -> None:
    assert control_process(NESTED["repr"]).returncode < 0


def test_p46_the_disk_is_not_filled(jail: Jail) -> None:
    snippet = """
folder = where
def at(name):
    return os.path.join(folder, name)
def fill():
    with open(at("fill"), "wb") as file:
        for _ in range(8): file.write(bytes(1 << 20))
def sparse():
    with open(at("sparse"), "wb") as file:
        os.ftruncate(file.fileno(), 1 << 30)
def many():
    for number in range(5000):
        open(at(f"many{number}"), "wb").close()
got = [attempt(fill), attempt(sparse), attempt(many)]
"""
    free = shutil.disk_usage("/").free
    inside = jail.probe(snippet, limits=SMALL, where="/tmp")
    scratch = not jail.kind.leak("scratch directory")
    assert set(inside) <= (
        {"ENOSPC", "EFBIG"} if scratch else {"EROFS"} if jail.kind.contained else {"ENOENT", "EACCES"}
    )
    assert free - shutil.disk_usage("/").free < 64 << 20
    if scratch:
        assert reached(jail.run("open('/tmp/x', 'wb').write(bytes(8 << 20))", limits=SMALL), "max_file_bytes")


def test_p46_the_control_fills_the_disk(place: Path) -> None:
    snippet = f"folder = {str(place)!r}\nopen(folder + '/fill', 'wb').write(bytes(8 << 20))\ngot = os.path.getsize(folder + '/fill')"
    assert control(snippet) == 8 << 20


def test_p47_descriptors_run_out(jail: Jail) -> None:
    snippet = """
import select
def until_refused(make):
    held = []
    try:
        while len(held) < 600: held.append(make())
    except OSError as error:
        return [errno.errorcode[error.errno], len(held) <= 256]
    return ["done", False]
got = [until_refused(lambda: os.dup(1)), until_refused(lambda: select.epoll()), until_refused(lambda: os.eventfd(0)),
       until_refused(lambda: open("/dev/null"))]
"""
    assert control(snippet) == [["done", False]] * 4
    assert jail.probe(snippet, limits=SMALL) == [["EMFILE", True]] * 4


def test_p48_signals_timers_and_priorities_are_harmless(jail: Jail) -> None:
    snippet = """
import signal, threading
def storm():
    count = []
    signal.signal(signal.SIGALRM, lambda *_: count.append(1))
    signal.setitimer(signal.ITIMER_REAL, period, period)
    while len(count) < 100: pass
    signal.setitimer(signal.ITIMER_REAL, 0)
got = {"storm": attempt(storm), "nice": attempt(lambda: os.nice(1)),
       "affinity": attempt(lambda: os.sched_setaffinity(0, os.sched_getaffinity(0))),
       "priority": attempt(lambda: os.setpriority(os.PRIO_PROCESS, 0, 5)),
       "scheduler": attempt(lambda: os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0)))}
"""
    assert set(control(snippet, period=1e-3).values()) == {"done"}
    got = jail.probe(snippet, limits=SMALL, period=1e-3)
    assert got.pop("storm") == "done"
    stormed = jail.run(f"{PRELUDE}period = 1e-6\n{snippet}", limits=SHORT)
    assert stormed.ok or reached(stormed, "wall_seconds")
    assert set(got.values()) == {"EPERM"}
    assert jail.probe("got = attempt(lambda: os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(9)))") == "EPERM"


def test_p49_nothing_is_locked_in_memory_or_left_to_others(jail: Jail) -> None:
    snippet = """
import ctypes, platform
libc = ctypes.CDLL(None, use_errno=True)
def call(name, *arguments):
    result = getattr(libc, name)(*arguments)
    if result == -1:
        raise OSError(ctypes.get_errno(), "")
    return result
page = ctypes.create_string_buffer(8192)
got = {"mlock": attempt(lambda: call("mlock", page, 4096)),
       "msgget": attempt(lambda: call("msgctl", call("msgget", 0, 0o600), 0, None)),
       "shmget": attempt(lambda: call("shmctl", call("shmget", 0, 4096, 0o600), 0, None)),
       "semget": attempt(lambda: call("semctl", call("semget", 0, 1, 0o600), 0, 0))}
if not harmless:
    got["mlockall"] = attempt(lambda: call("mlockall", 3))
    got["mq_open"] = attempt(lambda: call("mq_open", b"/probe", 0o102, 0o600, None))
"""

    def kept() -> list[str]:
        return [Path(f"/proc/sysvipc/{each}").read_text() for each in ("msg", "shm", "sem")]

    before = kept()
    assert set(jail.probe(snippet, limits=SMALL, harmless=False).values()) == {"EPERM"}
    assert kept() == before
    assert set(control(snippet, harmless=True).values()) == {"done"}


def test_p39_a_program_cannot_name_what_it_has_used(jail: Jail) -> None:
    """The kernel tells a process's name and its memory in one text, and the name is the program's to choose."""
    result = jail.run(
        "import ctypes\nassert ctypes.CDLL(None).prctl(15, b'VmHWM:7 kB', 0, 0, 0) == 0\nheld = bytearray(b'x') * (64 << 20)"
    )
    assert result.ok, result
    assert (result.usage.peak_memory_bytes or 0) > 64 << 20
