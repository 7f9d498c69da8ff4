"""How containers end, and what one guest finds of another: after it in the same container, beside it in the next."""

# ruff: noqa: E501 (hostile programs, a line each)

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from callgate import Limits
from probes.conftest import open_jail
from probes.harness import PRELUDE, REFUSED, Jail
from probes.processes import eventually
from probes.test_containers import seats

pytestmark = pytest.mark.left_out("tier1", "tier2", "srt", "srt alone", reason="there is no container")


@contextmanager
def one_by_one(jail: Jail, **options: Any) -> Iterator[Jail]:
    """A runtime of the same kind that opens nothing ahead: a run follows the other where that one was, if anywhere."""
    with ExitStack() as stack:
        yield open_jail(stack, jail.kind, pool_size=0, **options)


def after(own: Jail, program: str | None = None) -> set[str]:
    """The containers of that runtime, as the engine knows them, when the run is over and has been cleared away."""
    if program is not None:
        own.run(program, limits=Limits(wall_seconds=0.5))
    own.settled()
    there = set(seats(own).backend.containers)
    assert there <= seats(own).ours().keys()
    return there


# how a container ends


def test_p82_a_container_outlives_a_run_only_where_that_ended_well_and_serves_the_same_tenant(jail: Jail) -> None:
    with one_by_one(jail) as own:
        assert after(own) == set()
        first = after(own, "1")
        assert len(first) == int(jail.kind.reuses)
        assert after(own, "1 / 0") == first  # that is the program's own affair
        for bad in (
            "while True: pass",
            "import os\nos._exit(0)",
            "import os\nos.abort()",
            "import os\nos.closerange(0, 64)",
        ):
            served = after(own, "print(1)")
            assert len(served) == int(jail.kind.reuses)
            assert after(own, bad) == set()
            assert not served & seats(own).ours().keys()


@pytest.mark.parametrize("how", ["kill", "stop", "remove_container"])
def test_p84_a_container_that_is_ended_from_outside_fails_its_run_with_what_to_do(jail: Jail, how: str) -> None:
    with one_by_one(jail) as own:
        running = own.start("await slow()")
        eventually(lambda: own.toolbox.started == 1, "the run is under way")
        (id,) = seats(own).backend.containers
        seats(own).ask(how, id, **({"force": True} if how == "remove_container" else {}))
        result = running.result(10)
        assert result.error is not None
        assert result.error.kind == "SandboxCrashed", result.error
        assert "callgate doctor" in result.error.message
        assert [call.status for call in result.calls] == ["unknown_outcome"]
        eventually(lambda: id not in seats(own).ours(), "nothing of it is left")
        own.is_well()


def test_p84_a_container_that_is_frozen_ends_at_the_wall_limit(jail: Jail) -> None:
    with one_by_one(jail) as own:
        running = own.start("await slow()", limits=Limits(wall_seconds=1.5))
        eventually(lambda: own.toolbox.started == 1, "the run is under way")
        (id,) = seats(own).backend.containers
        seats(own).ask("pause", id)
        result = running.result(15)
        assert result.error is not None
        assert result.error.limit == "wall_seconds", result.error
        eventually(lambda: id not in seats(own).ours(), "nothing of it is left")
        own.is_well()


def test_p84_a_pooled_container_that_died_is_not_given_out(jail: Jail) -> None:
    with jail.leaves_nothing():
        for guest in list(seats(jail).pool._idle)[:2]:
            seats(jail).ask("kill", guest.container.id)
        for _ in range(3):
            jail.is_well()


# two guests


LEAVE = """
import ctypes, fcntl, socket
libc = ctypes.CDLL(None, use_errno=True)
def call(name, *arguments):
    if getattr(libc, name)(*arguments) == -1:
        raise OSError(ctypes.get_errno(), "")
def bind():
    socket.socket(socket.AF_UNIX).bind(chr(0) + "left")
places = [*folders, *(os.path.dirname(each) for each in (os.__file__, json.__file__))]
got = {
    **{f"file in {each}": attempt(lambda: open(each + "/left", "w").close()) for each in places},
    **{f"folder in {each}": attempt(lambda: os.mkdir(each + "/left-folder")) for each in places},
    **{f"fifo in {each}": attempt(lambda: os.mkfifo(each + "/left-fifo")) for each in places},
    **{f"change of {each}": attempt(lambda: open(each, "r+").close()) for each in (os.__file__, json.__file__)},
    **{f"mode of {each}": attempt(lambda: os.chmod(each, 0o777)) for each in ("/tmp", "/", os.__file__, "/dev/null")},
    **{f"times of {each}": attempt(lambda: os.utime(each, (1, 1))) for each in ("/tmp", "/", os.__file__, "/dev/null")},
    **{f"attribute of {each}": attempt(lambda: os.setxattr(each, "user.left", b"x")) for each in ("/tmp", os.__file__)},
    "shm": attempt(lambda: call("shmget", 4711, 4096, 0o1666)), "sem": attempt(lambda: call("semget", 4711, 1, 0o1666)),
    "msg": attempt(lambda: call("msgget", 4711, 0o1666)), "mq": attempt(lambda: call("mq_open", b"/left", 0o102, 0o666, None)),
    "posix shm": attempt(lambda: call("shm_open", b"/left", 0o102, 0o666)), "abstract": attempt(bind),
    "memfd": attempt(lambda: os.memfd_create("left")), "host name": attempt(lambda: socket.sethostname("left")),
    "keyring": attempt(lambda: call("syscall", 248, b"user", b"left", b"x", 1, -3)),
}
"""
FOLDERS = ["/tmp", "/dev/shm", "/dev/mqueue", "/var/tmp", "/run", "/", "/packages", "/guest", "/python", "/lib", "/dev"]


@pytest.mark.left_out("docker", reason="no guest follows another there")
def test_p81_guests_that_follow_each_other_in_a_container_share_nothing_that_can_be_written(jail: Jail) -> None:
    lock = "import fcntl\nheld = open(os.__file__)\ngot = attempt(lambda: fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB))"
    with one_by_one(jail) as own:
        containers = after(own, "1")
        for _ in range(2):
            got = own.probe(LEAVE, folders=FOLDERS)
            assert set(got.values()) <= REFUSED, {name: each for name, each in got.items() if each not in REFUSED}
            assert after(own) == containers  # the same one, each time
            assert own.probe(lock) in REFUSED | {"done"}  # "done" is what it is told; it goes with the process
            assert after(own) == containers


def test_p34_guests_at_the_same_time_are_in_different_containers(jail: Jail) -> None:
    snippet = "got = [attempt(lambda: open('/tmp/mine', 'w').close()), os.path.exists('/tmp/mine')]"
    with one_by_one(jail) as own:
        first = own.start(f"{PRELUDE}{snippet}\nawait echo(got)\nawait slow()")
        eventually(lambda: own.toolbox.started == 1, "the first runs")
        assert own.probe("got = os.path.exists('/tmp/mine')") is False
        second = own.start(f"{PRELUDE}{snippet}\nawait echo(got)\nawait slow()")
        eventually(lambda: own.toolbox.started == 2, "the second runs")
        assert own.toolbox.seen == ([["done", True]] * 2 if jail.kind.own_files else [["EROFS", False]] * 2)
        assert len({os.readlink(f"/proc/{pid}/ns/pid") for pid in seats(own).guests()}) == 2
        first.cancel()
        second.cancel()


@pytest.mark.left_out("tenant", reason="there is no /tmp")
def test_p39_a_full_tmp_and_spent_memory_are_the_programs_own_errors(jail: Jail) -> None:
    """Both are charged to one cgroup, which leaves room for both: it is not the container that is killed."""
    snippet = """
def fill():
    with open("/tmp/fill", "wb") as file:
        while True: file.write(bytes(1 << 20))
def grow():
    held = []
    while True: held.append(bytes(b"x" * (1 << 20)))
got = [attempt(fill), attempt(grow), os.path.getsize("/tmp/fill") >> 20]
"""
    limits = Limits(wall_seconds=20, memory_bytes=64 << 20, max_file_bytes=8 << 20)
    with one_by_one(jail, limits=limits) as own:
        full, spent, size = own.probe(snippet)
    assert (full in ("ENOSPC", "EFBIG"), spent) == (True, "MemoryError")
    assert size in (7, 8)
