"""P81 and P34: the kernel's wake-ups lead from no guest to another, and threads do without them."""

# ruff: noqa: E501 (hostile programs, a line each)

from __future__ import annotations

from contextlib import ExitStack

import pytest

from callgate import Limits
from probes.conftest import open_jail
from probes.harness import PRELUDE, SYSCALLS, X86, Jail, control
from probes.processes import eventually

SHARED_WORD = (
    SYSCALLS
    + """
import _ctypes, threading, time
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
library = os.open(_ctypes.__file__, os.O_RDONLY)
page = _libc.mmap(None, 4096, 1, mapping, library, 0)
word = page + 8  # of an ELF file, four bytes that are zero
assert ctypes.c_uint32.from_address(word).value == 0
FUTEX, SET_TID, SET_ROBUST, CLONE = (202, 218, 273, 56) if X86 else (98, 96, 99, 220)
def seconds(count):
    return ctypes.create_string_buffer(count.to_bytes(8, sys.byteorder) + bytes(8))
def wait(operation=0, timeout=10):
    syscall(FUTEX, ctypes.c_void_p(word), operation, 0, seconds(timeout), None, 0xFFFFFFFF)
held = []
def in_a_thread(action):
    told = []
    # since Python 3.13 `join` waits for the word that `set_tid_address` takes from the thread
    threading.Thread(target=lambda: told.append(attempt(action)), daemon=True).start()
    while not told:
        time.sleep(0.001)
    return told[0]
def set_tid_address():
    syscall(SET_TID, ctypes.c_void_p(word))
def robust_list():
    head = (ctypes.c_size_t * 3)()
    held.append(head)
    head[:] = [ctypes.addressof(head), 0, word]  # an empty list, and a lock that is about to be taken
    syscall(SET_ROBUST, head, 24)
def clone():
    import mmap
    code, stack = mmap.mmap(-1, 4096, prot=7), mmap.mmap(-1, 65536)
    held.extend([code, stack])
    code.write(bytes.fromhex("4989ca" "b838000000" "0f05" "85c0" "7401" "c3" "31ff" "b83c000000" "0f05"))  # clone; the child: exit(0)
    start = ctypes.CFUNCTYPE(ctypes.c_long, *[ctypes.c_size_t] * 5)(ctypes.addressof(ctypes.c_char.from_buffer(code)))
    thread = start(0x250F00, ctypes.addressof(ctypes.c_char.from_buffer(stack)) + 65000 // 16 * 16, 0, word, 0)
    if thread < 0:
        raise OSError(-thread, "")
def wake():
    syscall(FUTEX, ctypes.c_void_p(word), 1, 1)
"""
)
WAYS = ["set_tid_address", "robust_list", "clone", "wake"]


@pytest.mark.parametrize("where", ["two guests", "two runtimes"])
@pytest.mark.parametrize(
    "way",
    [
        pytest.param(each, marks=pytest.mark.skipif(each == "clone" and not X86, reason="its code is for x86-64"))
        for each in WAYS
    ],
)
def test_p81_a_guest_cannot_wake_another_through_a_page_that_both_have(jail: Jail, way: str, where: str) -> None:
    outside = """
import signal
waiter = os.fork()
if waiter == 0:
    os._exit(0 if attempt(wait) == "done" else 1)
ended = []
threading.Thread(target=lambda: ended.append(os.waitpid(waiter, 0)[1])).start()
while not ended:
    in_a_thread(globals()[way])
    time.sleep(0.01)
got = ended
"""
    assert control(SHARED_WORD + outside, mapping=1, way=way) == [0]
    with ExitStack() as stack:
        other = jail if where == "two guests" else open_jail(stack, jail.kind, limits=Limits(wall_seconds=20))
        waiting = jail.start(f"{PRELUDE}mapping = 1\n{SHARED_WORD}\nawait echo('waits')\nattempt(wait)")
        eventually(lambda: jail.toolbox.seen == ["waits"], "the first guest is about to wait", 30)
        waking = other.start(
            f"{PRELUDE}mapping = 2\n{SHARED_WORD}\nfor _ in range(1000):\n    in_a_thread({way})\n    time.sleep(0.01)"
        )
        outcome = waiting.result(60)
        waking.cancel()
    assert outcome.value == "EAGAIN", outcome


def test_p81_no_call_waits_where_others_could_wake(jail: Jail) -> None:
    snippet = """
waiters = (ctypes.c_uint64 * 3)(0, word, 2)  # a struct futex_waitv: a shared word of 32 bits
def waitv():
    syscall(449, waiters, 1, 0, seconds(1), 1)
def wait2():
    syscall(455, ctypes.c_void_p(word), 0, 0xFFFFFFFF, 2, seconds(1), 1)
got = {
    "FUTEX_WAIT": attempt(lambda: wait(0, 1)), "FUTEX_WAIT_BITSET": attempt(lambda: wait(9, 1)), "of real time": attempt(lambda: wait(9 | 256, 1)),
    "futex_waitv": attempt(waitv), "futex_wait": attempt(wait2), "futex_requeue": attempt(lambda: syscall(456, waiters, 0, 0, 0)),
    "FUTEX_REQUEUE": attempt(lambda: syscall(FUTEX, ctypes.c_void_p(word), 3, 0, 0, ctypes.c_void_p(word + 4))),
    "futex_wake": attempt(lambda: syscall(454, ctypes.c_void_p(word), 0xFFFFFFFF, 1, 2)),
}
"""
    outside = control(SHARED_WORD + snippet, mapping=1)
    assert {outside[each] for each in ("FUTEX_WAIT", "FUTEX_WAIT_BITSET", "of real time")} == {"ETIMEDOUT"}
    for mapping in (1, 2):  # shared, private
        got = jail.probe(SHARED_WORD + snippet, mapping=mapping)
        assert {got.pop(each) for each in ("FUTEX_WAIT", "FUTEX_WAIT_BITSET", "of real time")} == {"EAGAIN"}
        assert set(got.values()) == {"EPERM"}, got


def test_p81_nothing_can_be_left_for_the_end_of_a_thread(jail: Jail) -> None:
    snippet = "got = [in_a_thread(set_tid_address), in_a_thread(robust_list)]"
    assert control(SHARED_WORD + snippet, mapping=1) == ["done", "done"]
    assert jail.probe(SHARED_WORD + snippet, mapping=1) == ["EPERM", "EPERM"]


def test_p81_threads_start_wait_for_each_other_and_are_joined_all_the_same(jail: Jail) -> None:
    snippet = """
import concurrent.futures, ctypes, queue, threading
libc = ctypes.CDLL(None)
def joined():  # as a library in C does it, and Python itself since 3.13
    thread = ctypes.c_ulong()
    assert libc.pthread_create(ctypes.byref(thread), None, libc.usleep, ctypes.c_void_p(2000)) == 0
    return libc.pthread_join(thread, None)
barrier, line, lock, count = threading.Barrier(4), queue.Queue(maxsize=2), threading.Lock(), [0]
def work(n):
    barrier.wait(10)
    for _ in range(200):
        with lock:
            count[0] += 1
    line.put(n, timeout=10)
threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
for thread in threads:
    thread.start()
taken = sorted(line.get(timeout=10) for _ in threads)
for thread in threads:
    thread.join(10)
with concurrent.futures.ThreadPoolExecutor(4) as pool:
    squares = sum(pool.map(lambda n: n * n, range(100)))
semaphore = ctypes.create_string_buffer(64)  # as one that processes share
assert libc.sem_init(semaphore, 1, 0) == 0
poster = threading.Timer(0.05, lambda: libc.sem_post(semaphore))
poster.start()
got = [[joined() for _ in range(20)], taken, count, squares, libc.sem_wait(semaphore), threading.active_count()]
poster.join(10)
got[-1] = threading.active_count()
"""
    expected = [[0] * 20, [0, 1, 2, 3], [800], 328350, 0, 1]
    assert control(snippet) == expected
    assert jail.probe(snippet) == expected
