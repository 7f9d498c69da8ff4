"""A guest within another sandbox, where the system limits no memory and no number of descriptors, as macOS."""

from __future__ import annotations

import json
import os
import re
import select
import subprocess
from dataclasses import asdict
from pathlib import Path

from callgate.sandbox.backend import guest_command
from callgate.testing.asking import ALLOWANCE, request

AS_ON_MACOS = """
import os, resource, sys
from callgate_guest import within
setrlimit = resource.setrlimit
def refuses(which, limits):
    if which == resource.RLIMIT_AS:
        raise ValueError('current limit exceeds maximum limit')
    if which != resource.RLIMIT_NPROC:  # it counts threads, too, on Linux
        setrlimit(which, limits)
resource.setrlimit = refuses
os.sysconf = {sysconf}
sys.platform = 'darwin'
within.main()
"""
OPEN_FILES = """
import os
found = []
for each in os.listdir("/proc/self/fd"):
    try:
        found.append(os.readlink(f"/proc/self/fd/{each}"))
    except OSError:  # the one that lists
        pass
found
"""
SECONDS = 30.0


def answer(folder: Path, code: str, sysconf: str) -> str:
    """Start a guest, run a program in it, and end it. Returns the line that the guest answers."""
    folder.mkdir()
    paths = [str(folder / name) for name in ("in", "out", "err")]
    for path in paths:
        os.mkfifo(path)
    told = {
        "pipes": paths, "folder": str(folder), "packages": None, "preimport": [], "confine": False,
        "allowance": asdict(ALLOWANCE),
    }  # fmt: skip
    outgoing, output = (os.open(path, os.O_RDONLY | os.O_NONBLOCK) for path in paths[1:])
    command = [*guest_command(AS_ON_MACOS.format(sysconf=sysconf)), json.dumps(told)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as guest:
        assert guest.stdin is not None
        assert guest.stdout is not None
        try:
            assert guest.stdout.readline() == "\n"
            assert re.fullmatch(r"callgate-ready \d+\n", guest.stdout.readline())
            incoming = os.open(paths[0], os.O_WRONLY | os.O_NONBLOCK)
            os.write(incoming, request(code))
            said = b""
            while not said.endswith(b"\n") and select.select([outgoing], [], [], SECONDS)[0]:
                if not (data := os.read(outgoing, 1 << 16)):
                    break
                said += data
        finally:
            guest.stdin.close()
        assert "callgate-ended -9 " in guest.stdout.read()
        for each in (incoming, outgoing, output):
            os.close(each)
    return said.decode()


def test_a_guest_starts_though_its_memory_is_not_limited_and_keeps_no_descriptor_of_its_parent(tmp_path: Path) -> None:
    for number, sysconf in enumerate(("lambda _: (1 << 63) - 1", "lambda _: -1")):
        folder = tmp_path / str(number)
        found = json.loads(answer(folder, OPEN_FILES, sysconf))["result"]["value"]
        assert set(found) == {*(str(folder / name) for name in ("in", "out", "err")), "/dev/null"}
