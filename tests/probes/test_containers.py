"""What only a container has: what the engine really applied, its process 1, the frames between that and the host."""

# ruff: noqa: E501 (hostile programs, a line each)

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from callgate.sandbox.backend import Allowance
from callgate.sandbox.docker.hardening import needs
from callgate_guest import frames
from probes.conftest import CANARY
from probes.harness import REFUSED, Jail, control
from probes.processes import children, descendants, eventually, guests_of, processes, resident_bytes, status_of
from probes.seats import Containers

pytestmark = pytest.mark.left_out("tier1", "tier2", "srt", "srt alone", reason="there is no container")


def seats(jail: Jail) -> Containers:
    assert isinstance(jail.seats, Containers)
    return jail.seats


@pytest.fixture
def container(jail: Jail) -> dict[str, Any]:
    """What the engine says of the container of a guest that waits."""
    jail.settled()
    return seats(jail).inspect(seats(jail).idle_guest().container.id)


# what the engine applied


def test_p79_the_engine_was_told_everything(jail: Jail, container: dict[str, Any]) -> None:
    allowance = Allowance.of(jail.runtime.limits)
    host, config = container["HostConfig"], container["Config"]
    wanted = {
        "NetworkMode": "none", "ReadonlyRootfs": True, "CapDrop": ["ALL"], "SecurityOpt": ["no-new-privileges:true"], "IpcMode": "none",
        "PidsLimit": allowance.max_processes + 2, "Memory": needs(allowance), "MemorySwap": needs(allowance), "NanoCpus": 10**9,
        "LogConfig": {"Type": "none", "Config": {}}, "AutoRemove": True, "Privileged": False, "PublishAllPorts": False,
        "RestartPolicy": {"Name": "", "MaximumRetryCount": 0}, "PidMode": "", "UTSMode": "", "UsernsMode": "",
    }  # fmt: skip
    assert {name: host[name] for name in wanted} == wanted
    for name in ("Binds", "Mounts", "VolumesFrom", "Devices", "DeviceRequests", "DeviceCgroupRules", "CapAdd", "GroupAdd", "ExtraHosts", "Links", "PortBindings", "Sysctls"):  # fmt: skip
        assert not host.get(name), name
    limits = {each["Name"]: (each["Soft"], each["Hard"]) for each in host["Ulimits"]}
    assert limits == {"nofile": (256, 256), "core": (0, 0), "memlock": (0, 0), "fsize": (allowance.max_file_bytes,) * 2}
    assert (config["User"], config["Hostname"], config["Tty"]) == ("65534:65534", "sandbox", False)
    assert (config["OpenStdin"], config["StdinOnce"]) == (True, True)  # the end of the host is the end of its stdin
    assert CANARY not in json.dumps(container)
    assert not [each for each in config["Env"] if "proxy" in each.lower()]
    networks = container["NetworkSettings"]
    assert {each["IPAddress"] for each in networks["Networks"].values()} <= {""}
    assert not networks["Ports"]
    assert container["Mounts"] == []
    tmpfs = host.get("Tmpfs") or {}
    assert list(tmpfs) == (["/tmp"] if jail.kind.own_files else [])
    for options in tmpfs.values():
        assert {"rw", "noexec", "nosuid", "nodev", f"size={allowance.max_file_bytes}", "nr_inodes=4096"} <= set(
            options.split(",")
        )


def test_p79_the_kernel_holds_what_the_engine_was_told(jail: Jail, container: dict[str, Any]) -> None:
    supervisor = container["State"]["Pid"]
    for pid in (supervisor, *descendants(supervisor)):
        status = status_of(pid)
        assert (status["Seccomp"], status["NoNewPrivs"], set(status["Uid"].split())) == ("2", "1", {"65534"})
        assert {int(status[name], 16) for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")} == {0}
    allowance = Allowance.of(jail.runtime.limits)
    assert (
        _cgroup(supervisor, "pids", "pids.max", "pids.max") == allowance.max_processes + 2
    )  # the supervisor, and what forks guests
    assert _cgroup(supervisor, "memory", "memory.limit_in_bytes", "memory.max") == needs(allowance)
    mounts = [line.split() for line in Path(f"/proc/{supervisor}/mountinfo").read_text().splitlines()]
    options = {fields[4]: set(fields[5].split(",")) for fields in mounts}
    assert "ro" in options["/"]
    system = {"/proc", "/dev", "/dev/pts", "/dev/mqueue", "/dev/shm"}  # which Landlock keeps guests out of
    masked = {path for path in options if path.startswith(("/proc/", "/sys"))}
    writable = {path for path, each in options.items() if "rw" in each} - system - masked
    assert writable == ({"/tmp"} if jail.kind.own_files else set())
    if jail.kind.own_files:
        assert {"noexec", "nosuid", "nodev"} <= options["/tmp"]


def _cgroup(pid: int, controller: str, name: str, unified: str) -> int:
    """A limit of the cgroup that a process is in, in whichever version of cgroups this machine has."""
    for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if controller in controllers.split(","):
            return int(Path(f"/sys/fs/cgroup/{controller}{path}/{name}").read_text())
        if not controllers and (found := Path(f"/sys/fs/cgroup{path}/{unified}")).exists():
            return int(found.read_text())
    raise AssertionError(f"process {pid} is in no cgroup for {controller}")


# process 1


def test_p15_p16_the_supervisor_is_out_of_reach(jail: Jail) -> None:
    snippet = """
import ctypes, os, platform
libc = ctypes.CDLL(None, use_errno=True)
def call(*arguments):
    if libc.syscall(*[ctypes.c_long(each) if isinstance(each, int) else each for each in arguments]) == -1:
        raise OSError(ctypes.get_errno(), "")
X86 = platform.machine() == "x86_64"
trace, read, write, rlimit = (101, 310, 311, 302) if X86 else (117, 270, 271, 261)
vector = (ctypes.c_size_t * 2)(id(vars), 8)
got = {
    "signal": attempt(lambda: os.kill(target, 0)), "attach": attempt(lambda: call(trace, 16, target, 0, 0)),
    "seize": attempt(lambda: call(trace, 0x4206, target, 0, 0)), "read": attempt(lambda: call(read, target, vector, 1, vector, 1, 0)),
    "write": attempt(lambda: call(write, target, vector, 1, vector, 1, 0)), "pidfd": attempt(lambda: call(434, target, 0)),
    "limits": attempt(lambda: call(rlimit, target, 7, None, ctypes.create_string_buffer(16))),
    "priority": attempt(lambda: os.getpriority(os.PRIO_PROCESS, target)), "scheduler": attempt(lambda: os.sched_getscheduler(target)),
    **{name: attempt(lambda: open(f"/proc/{target}/{name}", "rb").close()) for name in names},
}
"""
    names = ["mem", "environ", "maps", "fd/0", "fd/1", "fd/3", "root/python", "cwd/python", "cmdline", "status", "stat"]
    outside = control(snippet.replace("target", "os.getpid()"), names=["mem", "environ", "maps", "status", "stat"])
    assert {outside[name] for name in ("signal", "read", "pidfd", "limits", "priority", "mem", "environ")} == {"done"}
    with jail.keeper_lives():
        for named in ("1", "os.getppid()"):  # the supervisor, and what forked this guest
            got = jail.probe(f"target = {named}\n{snippet}", names=names)
            assert set(got.values()) <= REFUSED, got


def test_p11_the_supervisors_streams_are_not_the_guests(jail: Jail, container: dict[str, Any]) -> None:
    supervisor = container["State"]["Pid"]
    (forker,) = children(supervisor)
    (guest,) = guests_of(supervisor)
    assert os.stat(f"/proc/{supervisor}/environ").st_uid == 0  # not dumpable: its entries are not its own user's

    def pipes(pid: int, numbers: list[str]) -> set[str]:
        return {os.readlink(f"/proc/{pid}/fd/{number}") for number in numbers}

    with_host = pipes(supervisor, ["2"])
    ours = {os.readlink(f"/proc/{supervisor}/fd/{number}") for number in os.listdir(f"/proc/{supervisor}/fd")}
    theirs = {os.readlink(f"/proc/{guest}/fd/{number}") for number in os.listdir(f"/proc/{guest}/fd")}
    shared = {each for each in ours & theirs if each.startswith(("pipe:", "socket:"))}
    assert len(shared) == 3  # its wire, both ways, and its output: each end of a pipe has the pipe's own name
    assert not with_host & theirs
    # what forks guests has the supervisor's stderr, one socket to it, and neither the host's streams nor a guest's pipes
    forkers = {os.readlink(f"/proc/{forker}/fd/{number}") for number in os.listdir(f"/proc/{forker}/fd")}
    assert not {each for each in forkers & theirs if each.startswith(("pipe:", "socket:"))}
    assert {each for each in forkers & ours if each.startswith("pipe:")} <= with_host
    assert os.stat(f"/proc/{forker}/environ").st_uid == 0
    shim = processes()[supervisor]
    outside = {os.readlink(f"/proc/{shim}/fd/{number}") for number in os.listdir(f"/proc/{shim}/fd")}
    assert {each for each in outside & ours if each.startswith("pipe:")}  # the control: the supervisor's lead there
    assert not {each for each in outside & theirs if each.startswith(("pipe:", "socket:"))}


# the image and the system


def test_p10_nothing_of_the_system_can_be_opened(jail: Jail) -> None:
    snippet = """
def look(path):
    return os.close(os.open(path, os.O_RDONLY))
def change(path):
    return os.close(os.open(path, os.O_WRONLY))
got = {path: [attempt(lambda: look(path)), attempt(lambda: change(path)), attempt(lambda: os.listdir(path))] for path in paths}
"""
    assert control(snippet, paths=["/dev/full"]) == {"/dev/full": ["done", "done", "ENOTDIR"]}
    assert control(snippet, paths=["/sys"])["/sys"][0::2] == ["done", "done"]
    paths = [
        "/sys", "/sys/fs/cgroup", "/sys/kernel/uevent_helper", "/sys/firmware", "/proc", "/proc/sys", "/proc/sys/kernel/core_pattern",
        "/proc/sysrq-trigger", "/proc/self/attr/current", "/proc/self/oom_score_adj", "/proc/mounts",
        "/dev", "/dev/full", "/dev/zero", "/dev/random", "/dev/ptmx", "/dev/pts", "/dev/shm", "/dev/mqueue",         "/dev/console", "/dev/core", "/var/run/docker.sock", "/run/docker.sock", "/run/containerd/containerd.sock", "/.dockerenv", "/etc",
        "/etc/hosts", "/etc/hostname", "/etc/resolv.conf", "/etc/mtab", "/root", "/home", "/bin", "/bin/sh", "/usr/bin", "/sbin", "/",
    ]  # fmt: skip
    found = {each for outcomes in jail.probe(snippet, paths=paths).values() for each in outcomes}
    assert found <= REFUSED | {"EISDIR"}, found


def test_p13_the_image_has_no_other_program(jail: Jail, container: dict[str, Any]) -> None:
    """The guest cannot look, so the engine does: nothing in the image is executable but Python and libraries."""
    import io
    import tarfile

    async def tree() -> bytes:
        stream, _ = await seats(jail).backend._engine.call("get_archive", container["Id"], "/")
        return b"".join(stream)

    with tarfile.open(fileobj=io.BytesIO(jail.portal.call(tree))) as image:
        members = image.getmembers()
    files = [
        each for each in members if each.isfile() and each.size
    ]  # the engine puts empty ones where it mounts its own
    programs = [each.name for each in files if each.mode & 0o111 and not each.name.endswith(".py")]
    others = [name for name in programs if ".so" not in name and "/ld-" not in name]
    assert [name for name in others if "python" not in os.path.basename(name)] == []
    assert [each.name for each in members if each.isfile() and each.mode & (stat.S_ISUID | stat.S_ISGID)] == []
    writable = [each.name for each in members if not each.issym() and each.mode & 0o002 and not each.isdev()]
    assert set(writable) <= {"./tmp", "tmp", "/tmp", "./tmp/", "dev/shm", "dev/mqueue"}, writable


# what a guest says


FORGED = {
    "an end": frames.frame(frames.EXITED, b'{"status": 0, "cpu": 0.0, "peak": 1, "out_of_memory": false}'),
    "a failure": frames.frame(frames.FAILED, b'{"reason": "forged", "wish": true}'),
    "another guest": frames.frame(frames.SPAWNED, frames.USAGE.pack(0.0, 1)),
    "a hang-up": frames.frame(frames.HUNG_UP),
    "readiness": frames.frame(frames.READY, b"{}"),
    "an answer": frames.frame(frames.WIRE, frames.USAGE.pack(0.0, 1) + b'{"jsonrpc":"2.0","result":{"value":"forged"},"id":1}\n'),
    "an order": frames.frame(frames.KILL) + frames.frame(frames.SPAWN, b"{}"),
    "a piece of the engine's": b"\x01\0\0\0\0\0\0\x05" + frames.frame(frames.HUNG_UP),
    "a piece that never ends": b"\x02\0\0\0\xff\xff\xff\xff",
}  # fmt: skip


@pytest.mark.left_out(
    "docker", reason="the frames are the same as in a tenant's container, which takes a tenth of the time"
)
@pytest.mark.parametrize("how", FORGED)
def test_p64_p65_frames_of_its_own_are_output_or_a_broken_wire_and_never_the_supervisors(jail: Jail, how: str) -> None:
    sibling = jail.start("await slow()")
    eventually(lambda: jail.toolbox.started == 1, "the sibling is under way")
    try:
        printed = jail.run(
            "import os\nfor fd in (1, 2): os.write(fd, bytes.fromhex(forged))\n'honest'",
            inputs={"forged": FORGED[how].hex()},
        )
        assert (printed.ok, printed.value) == (True, "honest"), printed.error
        assert printed.logs.count(FORGED[how].decode("utf-8", "replace")) == 2
        sent = jail.attack(
            "send(bytes.fromhex(forged) + b'\\n')\nimport time\ntime.sleep(60)", inputs={"forged": FORGED[how].hex()}
        )
        assert sent.error is not None
        assert sent.error.kind == "ProtocolError", sent.error
        jail.is_well()
        assert not sibling.done()
    finally:
        sibling.cancel()
    eventually(lambda: jail.toolbox.cancelled == 1, "the sibling is cancelled")


def test_p65_a_flood_ends_its_own_run_and_its_container(jail: Jail) -> None:
    sibling = jail.start("await slow()")
    eventually(lambda: jail.toolbox.started == 1, "the sibling is under way")
    before, resident = set(seats(jail).backend.containers), resident_bytes()
    try:
        flood = jail.run("import os\nblock = b'x' * (1 << 16)\nwhile True: os.write(1 + (os.getpid() & 1), block)")
        assert flood.error is not None
        assert flood.error.limit == "max_log_bytes"
        eventually(lambda: bool(before - seats(jail).ours().keys()), "its container is gone", jail.kind.gone_seconds)
        assert not sibling.done()
        assert resident_bytes() - resident < 64 << 20
        jail.is_well()
    finally:
        sibling.cancel()
