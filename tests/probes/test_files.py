"""P03, P09, P72, P81 once more, for files that a program is given, and for those that it leaves."""

# ruff: noqa: E501 (hostile programs, a line each)

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from callgate import Limits
from probes.conftest import open_jail
from probes.harness import PRELUDE, REFUSED, SYSCALLS, Jail, control
from probes.processes import eventually
from probes.test_futexes import SHARED_WORD
from probes.test_leaks import SCAN

pytestmark = pytest.mark.left_out(
    "tier2", "docker", "tenant", "srt", "srt alone", reason="they have no files; docker's have their own tests"
)

MEBIBYTE = 1 << 20


@pytest.fixture
def data(place: Path) -> Path:
    """A folder of the host that everybody may change, for programs to read."""
    folder = place / "data"
    (folder / "sub").mkdir(parents=True)
    (folder / "sub" / "x").write_bytes(bytes(8192))
    for each in (folder, folder / "sub", folder / "sub" / "x"):
        each.chmod(0o777)
        if os.geteuid() == 0:
            os.chown(each, 65534, 65534)
    return folder


@pytest.fixture
def given(jail: Jail, data: Path) -> Iterator[Jail]:
    """A jail whose programs have the folder as /input/data."""
    with ExitStack() as stack:
        yield open_jail(stack, jail.kind, folders={"data": data}, limits=Limits(wall_seconds=20), pool_size=1)


def run(jail: Jail, snippet: str, **options: Any) -> Any:
    """What a snippet that has files leaves in ``got``."""
    result = jail.run(f"{PRELUDE}{snippet}\ngot", **options)
    assert result.ok, result.for_model()
    return result.value


def test_a_plain_program_reads_its_files_and_its_folders_and_leaves_some(given: Jail, place: Path) -> None:
    result = given.run(
        "open('out.csv', 'w').write(open('a.csv').read() + open('/input/b/c').read())\n"
        "import os\n[os.path.getsize('data/sub/x'), sorted(os.listdir('/input')), sorted(os.listdir())]",
        files={"a.csv": place / "canary", "b/c": b"!"},
    )
    assert result.value == [8192, ["a.csv", "b", "data"], ["a.csv", "b", "data", "out.csv"]], result
    assert [(each.name, each.read()) for each in result.artifacts] == [("out.csv", b"canary-h0st-file!")]
    assert result.notes == []
    assert given.probe("got = [os.listdir('/input'), os.listdir()]") == [["data"], ["data"]]


CHANGES = """
import mmap
def mapped(path):
    fd = os.open(path, os.O_RDONLY)
    mmap.mmap(fd, 4096, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE)
def protected(path):
    import ctypes
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    at = libc.mmap(None, ctypes.c_size_t(4096), 1, 1, os.open(path, os.O_RDONLY), ctypes.c_long(0))
    if libc.mprotect(ctypes.c_void_p(at), ctypes.c_size_t(4096), 3):
        raise OSError(ctypes.get_errno(), "")
got = {}
for path in paths:
    folder = os.path.dirname(path)
    got |= {f"{path} {name}": attempt(action) for name, action in {
        "write": lambda: open(path, "r+b").close(), "append": lambda: open(path, "ab").close(), "cut": lambda: open(path, "wb").close(),
        "cut while open": lambda: os.close(os.open(path, os.O_RDONLY | os.O_TRUNC)), "neither": lambda: os.close(os.open(path, 3 | os.O_TRUNC)),
        "truncate": lambda: os.truncate(path, 1), "chmod": lambda: os.chmod(path, 0o600), "utime": lambda: os.utime(path, (1, 1)),
        "chown": lambda: os.chown(path, os.getuid(), os.getgid()), "attribute": lambda: os.setxattr(path, "user.x", b"x"),
        "map": lambda: mapped(path), "protect": lambda: protected(path), "direct": lambda: os.close(os.open(path, os.O_RDONLY | os.O_DIRECT)),
        "link": lambda: os.link(path, folder + "/linked"), "link out": lambda: os.link(path, out + "/linked"), "symlink": lambda: os.symlink("x", folder + "/symlink"),
        "new": lambda: open(folder + "/new", "x").close(), "mkdir": lambda: os.mkdir(folder + "/folder"), "fifo": lambda: os.mkfifo(folder + "/fifo"),
        "rename": lambda: os.rename(path, folder + "/renamed"), "move out": lambda: os.rename(folder + "/renamed", out + "/renamed"), "unlink": lambda: os.unlink(out + "/renamed"),
        "execute": lambda: os.execv(path, [path]),
    }.items() if name not in untried}
"""
UNTRIED_OUTSIDE = ["execute", "chown", "attribute", "direct", "map", "protect"]
"""What is not everywhere permitted, or would end the process; and a map of a file that is cut by then."""


def test_p03_nothing_in_input_can_be_changed(given: Jail, data: Path, place: Path) -> None:
    def snapshot() -> list[tuple[Any, ...]]:
        found = [(path, path.stat()) for path in sorted(data.rglob("*"))]
        return [(path, told.st_mode, told.st_mtime_ns, told.st_ctime_ns, told.st_uid) for path, told in found]

    (place / "large").write_bytes(bytes(MEBIBYTE))
    (place / "large").chmod(0o777)
    before = snapshot()
    got = run(given, CHANGES, files={"large": place / "large", "sub/bytes": bytes(8192)},
              inputs={"paths": ["/input/large", "/input/sub/bytes", "/input/data/sub/x"], "out": "/output", "untried": []})  # fmt: skip
    assert set(got.values()) <= REFUSED | {"EINVAL"}, got
    bare = "got = [attempt(lambda: open('large', mode).close()) for mode in ('w', 'a', 'r+')]"
    assert run(given, bare, files={"large": place / "large"}) == ["EROFS"] * 3
    assert snapshot() == before
    assert (place / "large").read_bytes() == bytes(MEBIBYTE)
    assert (place / "large").stat().st_mode & 0o777 == 0o777
    other = place / "other"
    other.mkdir()
    (other / "x").write_bytes(bytes(8192))
    outside = control(CHANGES, paths=[str(other / "x")], out=str(place), untried=UNTRIED_OUTSIDE)
    assert set(outside.values()) == {"done"}, outside


def test_p03_access_times_of_the_hosts_files_stay(given: Jail, data: Path, place: Path) -> None:
    (place / "large").write_bytes(bytes(MEBIBYTE))
    (place / "large").chmod(0o644)
    paths = [place / "large", data / "sub" / "x", data / "sub"]
    for path in paths:
        os.utime(path, (1, 2_000_000_000))
    for _ in range(2):
        read = (
            "got = [len(open(path, 'rb').read()) for path in ('large', 'data/sub/x')] + [len(os.listdir('data/sub'))]"
        )
        assert run(given, read, files={"large": place / "large"}) == [MEBIBYTE, 8192, 1]
    assert [path.stat().st_atime for path in paths] == [1, 1, 1]
    paths[0].read_bytes()
    if paths[0].stat().st_atime == 1:
        pytest.skip("this file system keeps no access times")


def test_p81_files_of_input_carry_no_lock_no_lease_and_no_notice(given: Jail, place: Path) -> None:
    (place / "shared").write_bytes(bytes(MEBIBYTE))
    (place / "shared").chmod(0o666)
    snippet = """
import fcntl, struct
held = [os.open(path, os.O_RDONLY) for path in ("/input/shared", "/input/data/sub/x")]
def tried(fd):
    return {"flock": attempt(lambda: fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)), "lease": attempt(lambda: fcntl.fcntl(fd, 1024, 0)),
            "notify": attempt(lambda: fcntl.fcntl(fd, 1026, 1)), "owner": attempt(lambda: fcntl.fcntl(fd, 8, os.getpid())),
            "open lock": attempt(lambda: fcntl.fcntl(fd, 37, struct.pack("hhqqi", 0, 0, 0, 0, 0)))}
def seen(fd):
    return struct.unpack("hhqqi", fcntl.fcntl(fd, fcntl.F_GETLK, struct.pack("hhqqi", 1, 0, 0, 0, 0)))[0]
got = [*(tried(fd) for fd in held), *(attempt(lambda: fcntl.lockf(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)) for fd in held), *map(seen, held)]
"""
    files = {"shared": place / "shared"}
    holds = given.start(
        f"{PRELUDE}{snippet}\nimport time\nprint(got)\nawait slow()", files=files, limits=Limits(wall_seconds=30)
    )
    eventually(lambda: given.toolbox.started == 1, "the first guest holds what it can", 30)
    got = run(given, snippet, files=files)
    holds.cancel()
    assert {outcome for tried in got[:2] for outcome in tried.values()} <= {"EPERM"}, got
    assert got[2:] == ["done", "done", 2, 2]  # as if there was nobody else: F_UNLCK


@pytest.mark.parametrize("path", ["/input/shared", "/input/data/sub/x"])
def test_p81_no_guest_waits_in_a_page_of_input(given: Jail, place: Path, path: str) -> None:
    (place / "shared").write_bytes(bytes(MEBIBYTE))
    (place / "shared").chmod(0o644)
    code = SHARED_WORD.replace("_ctypes.__file__", repr(path))
    for mapping in (1, 2):
        got = run(
            given,
            f"{code}\ngot = [attempt(lambda: wait(0, 1)), attempt(lambda: wait(9, 1))]",
            files={"shared": place / "shared"},
            inputs={"mapping": mapping},
        )
        assert got == ["EAGAIN", "EAGAIN"]


def test_p81_what_is_in_the_page_cache_can_be_asked_by_no_call(given: Jail, place: Path) -> None:
    (place / "shared").write_bytes(bytes(MEBIBYTE))
    (place / "shared").chmod(0o644)
    snippet = SYSCALLS + """
import mmap
fd = os.open("/input/shared", os.O_RDONLY)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
at = _libc.mmap(None, 1 << 20, 1, 1, fd, 0)
vector = ctypes.create_string_buffer(256)
def advise(advice):
    syscall(28 if X86 else 233, ctypes.c_void_p(at), 1 << 20, advice)
got = {"mincore": attempt(lambda: syscall(27 if X86 else 232, ctypes.c_void_p(at), 1 << 20, vector)), "cachestat": attempt(lambda: syscall(451, fd, vector, vector, 0)),
       "no wait": attempt(lambda: syscall(327 if X86 else 286, fd, vector, 1, 0, 0, 8)), "cold": attempt(lambda: advise(20)), "page out": attempt(lambda: advise(21)),
       "fadvise": attempt(lambda: os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)), "read ahead": attempt(lambda: syscall(187 if X86 else 213, fd, 0, 4096)),
       "handle": attempt(lambda: syscall(303 if X86 else 264, fd, b"", vector, vector, 0x1000)), "watch": attempt(lambda: syscall(294 if X86 else 26, 0)),
       "disk": attempt(lambda: syscall(306 if X86 else 267, fd)), "attributes": attempt(lambda: os.getxattr("/input/shared", "user.x"))}
"""  # fmt: skip
    assert set(run(given, snippet, files={"shared": place / "shared"}).values()) == {"EPERM"}


def test_p09_no_path_leads_to_the_files_of_another_guest_even_for_who_knows_their_name(given: Jail) -> None:
    waits = given.start("await slow()", files={"theirs": b"canary-h0st-staged"}, limits=Limits(wall_seconds=30))
    eventually(lambda: given.toolbox.started == 1, "the first guest has its files", 30)
    (busy,) = [each for each in given.seats.backend._zygote.unclosed if each.staged]
    snippet = """
import itertools
def read(path):
    open(path + "/theirs").close()
tops = ["/", "", "../", "../../../../", "/../", "/./../../", "/input/../../", "/output/../../../"]
got = {top + way: attempt(lambda: read(top + way)) for top, way in itertools.product(tops, ["staging/" + name, "root/staging/" + name, "files/" + name, name, folder])}
def walked():
    fd = os.open(".", os.O_PATH)
    for _ in range(20):
        fd = os.open("..", os.O_PATH, dir_fd=fd)
    os.open("staging/" + name + "/theirs", os.O_RDONLY, dir_fd=fd)
got["walked"] = attempt(walked)
got["own"] = attempt(lambda: open("/input/mine").close())
"""
    told = {"name": busy.staged, "folder": f"{given.seats.backend._zygote._staging.folder}/{busy.staged}"}
    got = run(given, snippet, files={"mine": b""}, inputs=told)
    assert got.pop("own") == "done"
    assert set(got.values()) == {"ENOENT"}, got
    assert set(given.probe(snippet, **told).values()) == {"ENOENT"}
    first, second = busy.staged[:12].encode(), busy.staged[12:].encode()
    for files in ({"mine": b""}, None):
        assert (
            run(given, f"{SCAN}\ngot = len(scan([({first!r}, {second!r}), (b'canary-h0st', b'-staged')]))", files=files)
            == 0
        )
    waits.cancel()


def test_p72_nothing_of_one_guests_files_is_in_what_the_next_is_forked_from(given: Jail) -> None:
    for number in range(20):
        assert run(
            given,
            "got = len(open('/input/canary-of-files').read())",
            files={"canary-of-files": b"canary-of-content" * (1 + number * 50)},
        )
    look = f"{SCAN}\ngot = sorted(word.decode() for word in scan([(b'canary-of-', b'files'), (b'canary-of-', b'content')]))"
    assert given.probe(look) == []


def test_p09_links_out_of_a_folder_lead_nowhere(jail: Jail, data: Path, place: Path) -> None:
    (data / "up").symlink_to("../canary")
    (data / "far").symlink_to(place / "canary")
    (data / "root").symlink_to("/etc/passwd")
    (data / "inside").symlink_to("sub/x")
    snippet = "got = [attempt(lambda: open('/input/data/' + name).close()) for name in ('up', 'far', 'root', 'inside')]"
    with ExitStack() as stack:
        own = open_jail(stack, jail.kind, folders={"data": data}, pool_size=0)
        assert own.probe(snippet) == ["ENOENT", "ENOENT", "ENOENT", "done"]
        assert run(own, snippet, files={"a": b""}) == ["ENOENT", "ENOENT", "ENOENT", "done"]


LEFT = """
got = {"symlink": attempt(lambda: os.symlink(canary, "symlink")), "folder": attempt(lambda: os.symlink("/", "folder")), "up": attempt(lambda: os.symlink("../../../../" + canary, "up")),
       "own descriptor": attempt(lambda: os.symlink("/proc/self/fd/0", "descriptor")), "hard link": attempt(lambda: os.link("/input/large", "linked")),
       "library": attempt(lambda: os.link(os.__file__, "os.py")), "fifo": attempt(lambda: os.mkfifo("fifo")), "device": attempt(lambda: os.mknod("null", 0o20666, 0x103)),
       "socket": attempt(lambda: __import__("socket").socket(1).bind("socket")), "sparse": attempt(lambda: os.truncate(os.open("sparse", os.O_CREAT | os.O_RDWR), 1 << 50)),
       "nul": attempt(lambda: open("a" + chr(0), "w")), "long": attempt(lambda: open("n" * 300, "w")), "dots": attempt(lambda: open("../../../escaped", "w"))}
open("mine", "w").write("mine")
open("closed", "w").write("closed")
os.chmod("closed", 0)
"""


def test_p09_what_a_program_leaves_leads_the_host_nowhere(given: Jail, place: Path) -> None:
    (place / "large").write_bytes(bytes(MEBIBYTE))
    (place / "large").chmod(0o666)
    before = sorted(os.listdir(place))
    result = given.run(
        f"{PRELUDE}{LEFT}\ngot", files={"large": place / "large"}, inputs={"canary": str(place / "canary")}
    )
    assert result.ok, result
    got = result.value
    assert {got[each] for each in ("symlink", "folder", "up", "own descriptor")} == {"done"}
    assert {got[each] for each in ("hard link", "library", "fifo", "device", "socket", "dots")} <= REFUSED, got
    assert (got["sparse"], got["nul"], got["long"]) == ("EFBIG", "ValueError", "ENAMETOOLONG")
    assert sorted((each.name, each.read()) for each in result.artifacts) == [("mine", b"mine"), ("sparse", b"")]
    assert sorted(result.notes) == [
        "closed was not kept: its mode lets nobody read it",
        "descriptor and 3 more were not kept: symbolic links are not collected",
    ]
    assert sorted(os.listdir(place)) == before


def test_names_come_clean(jail: Jail) -> None:
    names = ["new\nline", "t\u202egpj.exe", "a\\b", "\x1b[2J", "sur\udcff", "..x..", " "]
    result = jail.run("for name in names:\n    open(name if name != 'sur?' else b'sur\\xff', 'w').write('x')\nimport os\nos.mkdir('... ')", inputs={"names": ["sur?" if "\udcff" in each else each for each in names]})  # fmt: skip
    assert result.ok, result
    assert len(result.artifacts) == len(names) - 1, "..x.. is hidden"
    for each in result.artifacts:
        assert each.name.isprintable()
        assert not set(each.name) & set("/\\\n\u202e")
        assert each.name.encode().decode() == each.name.strip()


def test_p45_a_hundred_thousand_files_end_in_words(jail: Jail, nothing_is_left: None) -> None:
    result = jail.run("for n in range(100_000):\n    open(str(n), 'w').close()")
    assert result.error is not None
    assert result.error.limit == "max_file_bytes"
    assert len(result.artifacts) == 32
    assert len(result.notes) <= 2


def test_files_of_a_run_that_is_killed_while_it_writes_are_those_that_there_were(
    jail: Jail, nothing_is_left: None
) -> None:
    code = "f = open('log', 'w', 1)\nopen('done', 'w').write('x')\nwhile True:\n    f.write('line\\n')\n    f.tell() > 1_000_000 and f.seek(0)"
    result = jail.run(code, limits=Limits(wall_seconds=1))
    assert result.error is not None
    assert result.error.limit == "wall_seconds"
    assert [each.name for each in result.artifacts] == ["done", "log"]
    assert set(result.artifacts[1].read()) <= set(b"line\n")
    died = jail.run("open('last', 'w').write('words')\nimport os\nos._exit(3)")
    assert [(each.name, each.read()) for each in died.artifacts] == [("last", b"words")]


def test_memory_of_what_runs_leave_is_given_back(jail: Jail) -> None:
    fill = "f = open('x', 'wb')\nfor _ in range(60): f.write(bytes(1 << 20))"

    def shared_kib() -> int:
        return int(Path("/proc/meminfo").read_text().split("Shmem:")[1].split()[0])

    jail.settled()
    before = shared_kib()
    for _ in range(20):
        result = jail.run(fill)
        assert result.notes == [
            "x of 62,914,560 bytes was not kept: the artifacts of the run leave no room (max_artifact_bytes)"
        ]
    eventually(lambda: shared_kib() - before < 600_000, "of 1,200 MiB most are free again")


def test_two_sessions_that_write_the_same_name_have_each_its_own(jail: Jail, nothing_is_left: None) -> None:
    async def both() -> list[Any]:
        async with jail.runtime.session(files={"in": b"1"}) as one, jail.runtime.session(files={"in": b"2"}) as other:
            ran = []
            for code in ("open('same', 'w').write(open('in').read())", "open('same', 'a').write('x')", "1"):
                ran += [await each.execute_code(code) for each in (one, other)]
            return [[each.read() for each in result.artifacts] for result in ran]

    assert jail.portal.call(both) == [[b"1"], [b"2"], [b"1x"], [b"2x"], [], []]


def test_a_session_is_stopped_while_its_files_are_read_and_goes_on_afterwards(jail: Jail) -> None:
    spin = """
import os, threading, time
def spin():
    n = 0
    while True:
        n += 1
        os.pwrite(fd, b"%09d" % n, 0)
        os.pwrite(fd, b"%09d" % n, (1 << 20) - 9)
fd = os.open("spun", os.O_CREAT | os.O_RDWR)
os.truncate(fd, 1 << 20)
threading.Thread(target=spin, daemon=True).start()
time.sleep(0.05)
"""

    async def go() -> list[bytes]:
        async with jail.runtime.session() as session:
            ran = [await session.execute_code(code) for code in (spin, *["time.sleep(0.01)"] * 5)]
            return [each.read() for result in ran for each in result.artifacts]

    got = jail.portal.call(go)
    assert len(got) == 6
    counts = [(int(each[:9]), int(each[-9:])) for each in got]
    assert all(0 <= head - tail <= 1 for head, tail in counts), counts
    assert len(set(counts)) == 6, "it goes on"


def test_nothing_stays_of_files(jail: Jail, nothing_is_left: None) -> None:
    staging = jail.seats.backend._zygote._staging

    def nothing_left() -> bool:
        return os.stat(staging.folder).st_nlink <= 2  # a folder in it would count

    files = {"a": b"x" * 100_000}
    jail.run("1", files=files)
    jail.run("import os\nos._exit(1)", files=files)
    jail.run("while True: pass", files=files, limits=Limits(wall_seconds=0.5))
    jail.start("await slow()", files=files).cancel()
    waits = jail.start("await slow()", files=files)
    eventually(lambda: jail.toolbox.started > 0, "it waits", 30)
    waits.cancel()
    eventually(nothing_left, "the files are removed")
