"""srt's settings for one guest, and the commands that srt needs. Starts nothing."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import sysconfig
from pathlib import Path
from typing import Any

import callgate_guest.wire
from callgate.sandbox.backend import guest_command

__all__ = ["INSTALL", "missing", "real_python", "settings_of"]

INSTALL = {
    "srt": "npm install -g @anthropic-ai/sandbox-runtime",
    "bwrap": "apt-get install bubblewrap",
    "socat": "apt-get install socat",
    "rg": "apt-get install ripgrep, or brew install ripgrep",
}
"""Commands that srt needs, and what installs them: its README, "Platform-Specific Dependencies"."""
_LINUX_ONLY = ("bwrap", "socat")
_SYSTEM = ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/share/zoneinfo", "/System/Library", "/System/Cryptexes")
"""Shared libraries of the system, which every program there needs."""
_NOT_EVEN_THERE = ("/tmp/claude", "/private/tmp/claude")
"""srt lets programs write there, unless the settings forbid it."""


def missing() -> list[str]:
    """The commands that srt needs here and that are not in the PATH."""
    needed = [name for name in INSTALL if sys.platform == "linux" or name not in _LINUX_ONLY]
    return [name for name in needed if shutil.which(name) is None]


def real_python() -> str:
    """The Python of guests, without symbolic links: on Linux srt shows what one leads to, and not the link."""
    return os.path.realpath(guest_command("")[0])


def settings_of(folder: str, srt: str, packages: str | None) -> dict[str, Any]:
    """srt's settings for one guest.

    Args:
        folder: the guest's own.
        srt: where srt's command is.
        packages: a folder of packages that the guest may import from.
    """
    real = os.path.realpath(srt)  # .../sandbox-runtime/dist/cli.js
    others = [os.path.abspath(found) for name in ("bash", "socat") if (found := shutil.which(name))]
    own = [real.rpartition("/dist/")[0] or real, *others]
    base = {"base": sys.base_prefix, "installed_base": sys.base_prefix}
    stdlib = sysconfig.get_path("stdlib", vars=base)
    libraries = sysconfig.get_config_var("LIBDIR") or ""
    mine = [real_python(), stdlib, sysconfig.get_config_var("DESTSHARED"), packages, folder]
    shared = [os.path.join(libraries, name) for name in _names(libraries) if name.startswith("libpython")]
    guest = str(Path(callgate_guest.wire.__file__).parent)
    reads = [path for path in (*mine, *shared, guest, *own, *_SYSTEM) if path and os.path.exists(path)]
    return {
        "network": {"allowedDomains": [], "deniedDomains": []},
        "filesystem": {
            "denyRead": ["/"], "allowRead": list(dict.fromkeys(reads)), "allowWrite": [folder],
            "denyWrite": list(_NOT_EVEN_THERE),
        },
    }  # fmt: skip


def _names(folder: str) -> list[str]:
    with contextlib.suppress(OSError):
        return os.listdir(folder)
    return []
