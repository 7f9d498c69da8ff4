"""The options that confine a guest's container: it may only compute. Pure: from limits to the engine's words.

Sources: the engine's API (https://docs.docker.com/reference/api/engine/version/v1.41/, HostConfig) and the CIS Docker
Benchmark, chapter 5.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from callgate.sandbox.backend import Allowance

from .podman import for_podman

__all__ = [
    "HARDENED",
    "LIMITS",
    "NOBODY",
    "ContainerSettings",
    "container_options",
    "missing_limits",
    "needs",
    "runtimes_of",
]

NOBODY = "65534:65534"
_SUPERVISOR_BYTES = 64 << 20
"""Memory for the two interpreters before the program: the supervisor's pages, the guest's share of them."""
_PREIMPORTED_BYTES = 256 << 20
"""More memory if modules are imported ahead."""
_SUPERVISOR_PROCESSES = 2
"""The process that carries frames, and the process that forks guests."""
_OWN_KERNEL_PROCESSES = 256
_OWN_KERNEL_BYTES = 256 << 20
"""Memory of gVisor's kernel, or of a virtual machine's monitor: the container's cgroup counts it, too."""
_OPEN_FILES = 256
_PAGE = 4096
_INPUT_NAMES = 20_000
"""Files and folders of /input, those below bound folders not included."""

HARDENED = (
    "no network: no interface but a loopback that leads nowhere",
    "read-only root file system with Python and nothing else: no shell, no package manager",
    "a /tmp of max_file_bytes that nothing can be executed from; no /dev/shm (ipc_mode=none)",
    "user 65534, all capabilities dropped, no-new-privileges, the engine's seccomp profile",
    "memory_bytes with no swap, max_processes, cpus as cgroup limits",
    "no log driver: what a program prints is on no disk",
    "inside, as everywhere: the jail's own seccomp allow-list, Landlock and rlimits",
)
"""What confines a guest here, for people."""

LIMITS = {
    "MemoryLimit": ("memory", "the program's own is still bounded, by RLIMIT_AS"),
    "SwapLimit": ("swap", "what is over the limit may be swapped out instead of refused"),
    "PidsLimit": ("processes", "threads are then bounded by memory alone"),
    "CpuCfsQuota": ("processor time", "cpu_seconds still holds"),
}
"""Limits that an engine can set, by their key in its ``info``: name, and what holds without the limit."""


def missing_limits(info: dict[str, Any]) -> list[str]:
    """Keys of `LIMITS` that an engine does not report. Docker leaves these limits out of a container, and refuses one
    that asks for ``CpuCfsQuota``."""
    return [key for key in LIMITS if info.get(key) is not True]


def runtimes_of(info: dict[str, Any]) -> list[str]:
    """Names of an engine's runtimes, the default first, without the second names under which it lists runc."""
    names = [name for name in info.get("Runtimes") or () if not name.startswith("io.containerd.")]
    return sorted(names, key=lambda name: (name != info.get("DefaultRuntime"), name))


def needs(allowance: Allowance, *, preimport: bool = False) -> int:
    """Bytes of memory that a container for `allowance` may take."""
    ahead = _PREIMPORTED_BYTES if preimport else 0
    return allowance.memory_bytes + allowance.max_file_bytes + _SUPERVISOR_BYTES + ahead


@dataclass(frozen=True, kw_only=True, slots=True)
class ContainerSettings:
    """What all containers of a backend have in common.

    Attributes:
        image: name or id of the image.
        runtime: the engine's name of the runtime; ``None`` is its default.
        per: "run" for a container that serves one guest, "tenant" for one that serves guest after guest.
        cpus: processors that a container may use at a time; ``None`` if the engine cannot limit them.
        preimport: modules imported ahead.
        labels: labels of the containers, by which `sweep` finds them.
        folders: folders of the engine's machine, by their names below /input.
        packages: a folder of packages on the engine's machine, for /packages.
        replays: see `callgate.sandbox.backend.hash_seed`.
        engine: the make of the engine, which decides how an option is written.
    """

    image: str
    runtime: str | None
    per: str
    cpus: float | None
    preimport: tuple[str, ...]
    labels: dict[str, str] = field(default_factory=dict)
    folders: tuple[tuple[str, str], ...] = ()
    packages: str | None = None
    replays: bool = False
    engine: Literal["docker", "podman", "rootless podman"] = "docker"


def container_options(allowance: Allowance, settings: ContainerSettings, room: int = 0) -> dict[str, Any]:
    """The HostConfig of the container of a guest with this allowance, as the SDK's ``create_host_config`` takes it.

    Args:
        room: bytes that the guest's own files take in /input: memory that the container gets besides.
    """
    own_kernel = any(name in (settings.runtime or "").lower() for name in ("runsc", "gvisor", "kata"))
    memory = needs(allowance, preimport=bool(settings.preimport)) + (_OWN_KERNEL_BYTES if own_kernel else 0) + room
    largest = max(allowance.max_file_bytes, room)
    options: dict[str, Any] = {
        "network_mode": "none",
        "read_only": True,
        "cap_drop": ["ALL"],
        "security_opt": ["no-new-privileges:true"],
        "ipc_mode": "none",
        "pids_limit": allowance.max_processes + _SUPERVISOR_PROCESSES + (_OWN_KERNEL_PROCESSES if own_kernel else 0),
        "mem_limit": memory,
        "memswap_limit": memory,
        "log_config": {"Type": "none", "Config": {}},
        "auto_remove": True,
        "init": False,
        "ulimits": [
            {"Name": "nofile", "Soft": _OPEN_FILES, "Hard": _OPEN_FILES},
            {"Name": "core", "Soft": 0, "Hard": 0},
            {"Name": "memlock", "Soft": 0, "Hard": 0},
            {"Name": "fsize", "Soft": largest, "Hard": largest},  # the guest's own is lower: `jail.rlimits`
        ],
    }
    if settings.cpus is not None:
        options["nano_cpus"] = int(settings.cpus * 1e9)
    if settings.per == "run":
        size = f"size={allowance.max_file_bytes},nr_inodes=4096,mode=1777"
        options["tmpfs"] = {"/tmp": f"rw,noexec,nosuid,nodev,{size}"}
        if room or settings.folders:
            own = f"size={max(room, _PAGE)},nr_inodes={_INPUT_NAMES},mode=755,uid=65534,gid=65534"
            options["tmpfs"]["/input"] = f"rw,noexec,nosuid,nodev,{own}"
    binds = [(f"/input/{name}", source) for name, source in settings.folders]
    if settings.packages is not None:
        binds.append(("/packages", settings.packages))
    if binds:
        options["mounts"] = [_read_only(target, source) for target, source in binds]
    if settings.runtime is not None:
        options["runtime"] = settings.runtime
    if settings.engine != "docker":
        return for_podman(options, rootless=settings.engine == "rootless podman")
    return options


def _read_only(target: str, source: str) -> dict[str, Any]:
    """A folder of the engine's machine, without what is mounted in it, for the guest to read."""
    return {
        "Type": "bind", "Source": source, "Target": target, "ReadOnly": True,
        "BindOptions": {"Propagation": "rprivate", "NonRecursive": True},
    }  # fmt: skip
