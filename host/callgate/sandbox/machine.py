"""Facts about what the jail needs of this machine, and which setting forbids what is missing. Decides nothing."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio.to_thread

from .backend import guest_command
from .self_test import Fact

__all__ = ["look_at_machine"]

_PROBE = (
    "import json\n"
    "from callgate_guest.jail import landlock, namespaces, syscalls\n"
    "found = dict(known=syscalls.supported(), landlock=landlock.abi() if syscalls.supported() else 0, userns=None)\n"
    "try: namespaces.unshare(namespaces.USER)\n"
    "except OSError as error: found['userns'] = error.strerror\n"
    "print(json.dumps(found))\n"
)


async def look_at_machine() -> list[Fact]:
    """Look at the machine; takes about a tenth of a second."""
    return _facts(await anyio.to_thread.run_sync(_probe))


def _probe() -> dict[str, Any]:
    """What the kernel allows, tried in a child process: a namespace that is asked for takes effect."""
    if sys.platform != "linux":
        return {}
    ran = subprocess.run(
        guest_command(_PROBE, "-S"), env={}, cwd="/", capture_output=True, timeout=20, check=False,
    )  # fmt: skip
    try:
        found: dict[str, Any] = json.loads(ran.stdout)
    except ValueError:
        return {}
    return found


def _facts(probe: dict[str, Any]) -> list[Fact]:
    if sys.platform != "linux":
        return [Fact("operating system", False, platform.platform(terse=True), "the jail needs Linux")]
    known = bool(probe.get("known"))
    refused = probe.get("userns", "could not be asked")
    abi = int(probe.get("landlock", 0))
    return [
        Fact("operating system", True, platform.platform(terse=True)),
        Fact("processor", known, platform.machine(), "" if known else "the jail knows x86_64 and aarch64"),
        Fact("python", True, f"{platform.python_version()}, {platform.libc_ver()[0] or 'unknown libc'}"),
        Fact("user", None, "root" if os.geteuid() == 0 else f"uid {os.geteuid()}"),
        Fact("user namespaces", False, f"forbidden: {refused}", _namespace_remedy())
        if refused else Fact("user namespaces", True, "allowed"),
        Fact("landlock", abi > 0, f"ABI {abi}" if abi else "not there",
             "" if abi else "use Linux 5.13 or newer, booted with landlock in the lsm= list"),
    ]  # fmt: skip


_FORBIDDING = {
    "/proc/sys/user/max_user_namespaces": ("0", "sysctl -w user.max_user_namespaces=15000 (it is 0)"),
    "/proc/sys/kernel/unprivileged_userns_clone": ("0", "sysctl -w kernel.unprivileged_userns_clone=1 (it is 0)"),
    "/proc/sys/kernel/apparmor_restrict_unprivileged_userns": (
        "1",
        "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0 (it is 1), or give python an AppArmor profile with "
        "userns",
    ),
}
"""Settings that can forbid user namespaces: the forbidding value, and what to do."""


def _namespace_remedy() -> str:
    """What to do about forbidden user namespaces; names the setting if one is known to forbid them."""
    for path, (value, remedy) in _FORBIDDING.items():
        if _setting(path) == value:
            return remedy
    if "\nSeccomp:\t0\n" not in (_setting("/proc/self/status") or ""):
        return (
            "the container's seccomp profile forbids them: start it with a profile that allows unshare, mount and "
            "pivot_root (--security-opt seccomp=FILE), or stay with tier 2"
        )
    return "a security module forbids them: ask the administrator of this machine, or stay with tier 2"


def _setting(path: str) -> str | None:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return None
