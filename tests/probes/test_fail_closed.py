"""P78 and P79: where a kernel feature is missing the jail refuses or says what is weaker; a child is confined before its first byte."""

# ruff: noqa: E501 (hostile programs, a line each)

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import callgate_guest.wire
from callgate.sandbox.jail import JailBackend
from probes.harness import Jail
from probes.kinds import Kind
from probes.processes import eventually, status_of

GUEST_ROOT = str(Path(callgate_guest.wire.__file__).parent.parent)
HOST_ROOT = str(Path(sys.modules["callgate"].__file__ or "").parent.parent)
NUMBERS = {"landlock": 444, "seccomp": {"x86_64": 317, "aarch64": 277}[platform.machine()],
           "unshare": {"x86_64": 272, "aarch64": 97}[platform.machine()], "mount_setattr": 442,
           "pivot_root": {"x86_64": 155, "aarch64": 41}[platform.machine()], "capset": {"x86_64": 126, "aarch64": 91}[platform.machine()]}  # fmt: skip

WITHOUT = """
import ctypes, struct
libc = ctypes.CDLL(None, use_errno=True)
def without(number, error):
    # load the call's number; if it is the one, fail with the error; else allow
    code = struct.pack("=HBBI", 0x20, 0, 0, 0) + struct.pack("=HBBI", 0x15, 0, 1, number)
    code += struct.pack("=HBBI", 0x06, 0, 0, 0x00050000 | error) + struct.pack("=HBBI", 0x06, 0, 0, 0x7FFF0000)
    buffer = ctypes.create_string_buffer(code, len(code))
    program = struct.pack("=HxxxxxxQ", 4, ctypes.addressof(buffer))
    assert libc.prctl(38, 1, 0, 0, 0) == 0
    assert libc.prctl(22, 2, ctypes.c_char_p(program), 0, 0) == 0
"""
START = """
import json
import anyio
from callgate import Runtime, SandboxUnavailable
async def main():
    try:
        async with Runtime([], sandbox=sandbox, tier=tier) as runtime:
            result = await runtime.execute_code("6 * 7", path="sandbox")
            chosen = getattr(runtime.backend, "chosen", runtime.backend)
            reasons = {**getattr(chosen, "reasons", {}), **getattr(runtime.backend, "reasons", {})}
            told = {"tier": getattr(chosen, "tier", None), "value": result.value, "reasons": {str(k): v for k, v in reasons.items()},
                    "description": runtime.backend.description}
    except SandboxUnavailable as error:
        told = {"refused": str(error)}
    print(json.dumps(told))
anyio.run(main)
"""


NO_ENGINE = "unix:///nowhere/docker.sock"


def start(
    before: str = "",
    *,
    sandbox: str = "auto",
    tier: int | None = None,
    kind: Kind | None = None,
    command: list[str] | None = None,
) -> dict[str, Any]:
    """What comes of starting a runtime in a process of its own, in which `before` has been done.

    Unless `kind` is a container, it finds no engine: what `auto` does without the jail is another matter.
    """
    chosen = kind.source if kind is not None else f"sandbox, tier = {sandbox!r}, {tier!r}"
    source = f"{before}\nimport sys\nsys.path[:0] = {[HOST_ROOT, GUEST_ROOT]!r}\n{chosen}\n{START}"
    done = subprocess.run(
        [*(command or []), sys.executable, "-I", "-B", "-c", source],
        capture_output=True,
        text=True,
        timeout=60,
        cwd="/",
        env={**os.environ, **({} if kind is not None and kind.contained else {"DOCKER_HOST": NO_ENGINE})},
    )
    assert done.returncode == 0, done
    told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return told


def works(tier: int) -> bool:
    told = start(tier=tier)
    if "refused" in told and os.environ.get("CI") == "true":
        pytest.fail(told["refused"])
    return "refused" not in told


def test_p78_the_control_everything_there_takes_the_strongest_tier() -> None:
    told = start()
    if not works(1):
        pytest.skip("tier 1 does not work here")
    assert (told["tier"], told["value"], told["reasons"]) == (1, 42, {})


@pytest.mark.parametrize("missing", ["unshare", "mount_setattr", "pivot_root"])
def test_p78_without_namespaces_it_takes_tier_2_and_says_so(missing: str) -> None:
    if not works(2):
        pytest.skip("tier 2 does not work here")
    before = f"{WITHOUT}\nwithout({NUMBERS[missing]}, 1)"
    told = start(before)
    assert (told["tier"], told["value"]) == (2, 42)
    assert "tier 2 (no namespaces here)" in told["description"]
    assert "jail, tier 1" in told["reasons"]
    assert "tier 1" in start(before, tier=1)["refused"]


def test_p78_with_user_namespaces_switched_off_it_takes_tier_2() -> None:
    unshare = shutil.which("unshare")
    if unshare is None or subprocess.run([unshare, "-Ur", "true"], capture_output=True).returncode:
        pytest.skip("no user namespace to switch them off in")
    if not works(2):
        pytest.skip("tier 2 does not work here")
    off = "open('/proc/sys/user/max_user_namespaces', 'w').write('0')"
    probed = subprocess.run([unshare, "-Ur", sys.executable, "-I", "-c", off], capture_output=True)
    if probed.returncode:
        pytest.skip("this kernel does not let a user namespace set its own limit")
    told = start(off, command=[unshare, "-Ur"])
    assert told.get("tier") == 2 or "refused" in told, told


@pytest.mark.parametrize(
    ("missing", "error"), [("landlock", 38), ("landlock", 95), ("seccomp", 38), ("seccomp", 22), ("capset", 1)]
)
@pytest.mark.parametrize("sandbox", ["auto", "jail"])
def test_p78_without_a_pillar_it_refuses(missing: str, error: int, sandbox: str) -> None:
    told = start(f"{WITHOUT}\nwithout({NUMBERS[missing]}, {error})", sandbox=sandbox)
    assert "refused" in told, told
    nothing = {"auto": "no sandbox works on this machine", "jail": "the jail does not work on this machine"}
    assert nothing[sandbox] in told["refused"]
    assert missing in told["refused"].lower() or missing == "capset"
    assert "callgate doctor" in told["refused"]


OLD_LANDLOCK = """
import json, os, sys
sys.path[:0] = roots
from callgate_guest import zygote
from callgate_guest.jail.confine import confine
from callgate_guest.jail.seccomp import Filter
allowance = {"cpu_seconds": 5, "memory_bytes": 1 << 28, "max_processes": 8, "max_file_bytes": 1 << 20}
reader, writer = os.pipe()
rules = zygote.rules_in_place(abi, os.path.dirname(library), os.geteuid() == 0)
parent = os.getpid()
if os.fork() == 0:
    empty = os.open("/dev/null", os.O_RDONLY)
    told = {}
    try:
        confine(tier=2, parent=parent, descriptors=[empty, writer, writer], allowance=allowance, base_bytes=1 << 30, landlock_abi=abi, rules=rules, calls=Filter(own_files=False, own_disks=False), own_files=False, own_cgroup=False)
        for name, attempt in {
            "truncate": lambda: os.truncate(canary, 0), "read": lambda: os.open(canary, os.O_RDONLY), "write": lambda: os.open(canary, os.O_WRONLY),
            "cut while reading": lambda: os.open(canary, os.O_RDONLY | os.O_TRUNC), "cut with neither": lambda: os.open(canary, 3 | os.O_TRUNC),
            "cut of a library": lambda: os.open(library, os.O_RDONLY | os.O_TRUNC),
            "link": lambda: os.link(canary, canary + "2"), "rename": lambda: os.rename(canary, canary + "3"),
        }.items():
            try:
                attempt()
                told[name] = "done"
            except OSError as error:
                told[name] = error.errno
        os.close(os.open(library, os.O_RDONLY))
        os.write(1, json.dumps(told).encode())
    finally:
        os._exit(0)
os.close(writer)
print(os.read(reader, 65536).decode())
"""


@pytest.mark.parametrize("abi", [1, 2, 3])
def test_p78_an_older_landlock_leaves_no_file_of_the_host_open_to_cutting(abi: int, place: Path) -> None:
    canary, library = place / "canary", place / "packages" / "library.py"
    library.parent.mkdir()
    library.parent.chmod(0o755)
    library.write_text("answer = 42")
    library.chmod(0o666)
    source = f"roots = {[HOST_ROOT, GUEST_ROOT]!r}\nabi = {abi}\ncanary, library = {str(canary)!r}, {str(library)!r}\n{OLD_LANDLOCK}"
    done = subprocess.run(
        [sys.executable, "-I", "-B", "-c", source], capture_output=True, text=True, timeout=60, cwd="/"
    )
    if not works(2):
        pytest.skip("tier 2 does not work here")
    assert done.returncode == 0, done
    told = json.loads(done.stdout)
    assert "done" not in told.values(), told
    assert (canary.read_text(), library.read_text()) == ("canary-h0st-file", "answer = 42")


def test_p79_a_child_is_confined_before_its_first_byte(jail: Jail) -> None:
    jail.settled()
    pid = jail.idle_pid
    eventually(lambda: status_of(pid)["Seccomp"] == "2", "a guest that waits for its first byte is confined")
    status = status_of(pid)
    assert (status["Seccomp"], status["NoNewPrivs"], status["Threads"]) == ("2", "1", "1")
    for name in ("CapInh", "CapPrm", "CapEff", "CapAmb"):
        assert int(status[name], 16) == 0, name
    if (
        jail.kind.own_namespaces and not jail.kind.is_srt
    ) or os.geteuid() == 0:  # without CAP_SETPCAP the bounding set stays, and bounds nothing
        assert int(status["CapBnd"], 16) == 0
    assert ("0" in status["Uid"].split()) == jail.kind.is_root
    assert status["Groups"].split() == [str(group) for group in jail.kind.groups]
    plain = status_of(os.getpid())
    assert plain["Seccomp"] != "2" or plain["NoNewPrivs"] != status["NoNewPrivs"] or plain["Threads"] != "1"


def test_p79_a_child_has_the_namespaces_that_its_sandbox_promises(jail: Jail) -> None:
    names = ["user", "mnt", "pid", "net", "ipc", "uts", "cgroup"]
    pid = jail.idle_pid
    try:
        inside = {name: os.readlink(f"/proc/{pid}/ns/{name}") for name in names}
    except PermissionError:
        # only a child without namespaces is out of its own user's sight
        assert not jail.kind.own_namespaces
        assert os.geteuid() != 0
        return
    own = {name: os.readlink(f"/proc/self/ns/{name}") for name in names}
    differing = {name for name in names if inside[name] != own[name]}
    # an engine may give its containers a cgroup namespace; it does where the machine has the second version of cgroups
    assert differing - ({"cgroup"} if jail.kind.contained else set()) == jail.kind.own_namespaces
    jail.settled()
    siblings = jail.seats.guests() - {pid}
    assert siblings
    for sibling in siblings:
        for name in jail.kind.between_guests:
            assert os.readlink(f"/proc/{sibling}/ns/{name}") != inside[name], name


def test_p79_the_backend_refuses_a_child_that_the_kernel_calls_open() -> None:
    from callgate import SandboxUnavailable
    from callgate.sandbox import self_test as module

    with pytest.raises(SandboxUnavailable, match="the kernel says"):
        module.check_from_outside(os.getpid())
    assert JailBackend(tier=1).tier == 0
