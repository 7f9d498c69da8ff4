"""The sandboxes that every probe runs in, and what holds for which: one table, so that a probe asks for a fact by its name."""

# ruff: noqa: E501 (hostile programs, a line each)

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from callgate.sandbox.docker.backend import DockerBackend
from callgate.sandbox.srt.backend import SrtBackend
from probes.leaks import TIER_2_LEAKS

__all__ = ["ALL", "DOCKER", "KINDS", "SRT", "SRT_ALONE", "TENANT", "TIER_1", "TIER_2", "Kind"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Kind:
    """One kind of sandbox.

    Attributes:
        id: its name among the tests' parameters.
        options: what a `Runtime` is given to have it; called for each, since a backend is entered once.
        source: the same as Python source, for a runtime in another process.
        what: what `SandboxUnavailable` must speak of when it cannot be had.
        leaks: which of `TIER_2_LEAKS` hold here.
        contained: guests are in containers of an engine: not below this process, and not named by its numbers.
        own_namespaces: of which kinds a guest's are others than this process's.
        between_guests: of which kinds two guests at the same time have others than each other.
        groups: a guest's supplementary groups. An engine gives a container its user's own group once more.
        folder: its working directory, as the kernel names it.
        lists_root: a program may list ``/``, where nothing is but its own.
        root_has_their_proc: a guest that is not dumpable has files in /proc that belong to the machine's root.
        reuses: a guest that ended well leaves its container to the next.
        one_layout: successive guests have the same hash seed and the same addresses.
        host_packages: third-party packages are a folder of the host; elsewhere the image has them.
        caught_at: what ends a run when the process that all its kind depends on is killed.
        gone_seconds: how long a guest may be there after its end.
        parent: process id of its parent, as the guest counts; None where that is the host's number.
        keeps_root: a guest of root has root's number, without its capabilities, in a user namespace.
        grace_seconds: by how much a run may be late at its limit, on a machine that has other things to do.
        runs: how many runs the longest probe does. One that ends badly takes its container with it.
        resident_bytes: by how much this process may grow over a probe. What goes to a container goes in frames, and is
            held once more.
    """

    id: str
    options: Callable[[], dict[str, Any]]
    source: str
    what: str
    leaks: frozenset[str] = frozenset()
    contained: bool = False
    own_namespaces: frozenset[str] = frozenset()
    between_guests: frozenset[str] = frozenset()
    groups: tuple[int, ...] = ()
    folder: str = "/"
    lists_root: bool = False
    reuses: bool = False
    root_has_their_proc: bool = True
    one_layout: bool = True
    host_packages: bool = False
    caught_at: frozenset[str] = frozenset({"SandboxCrashed", "GuestDied"})
    gone_seconds: float = 1.0
    parent: int | None = 1
    keeps_root: bool = False
    grace_seconds: float = 1.5
    runs: int = 400
    resident_bytes: int = 128 << 20

    def leak(self, name: str) -> bool:
        """Whether that of `TIER_2_LEAKS` holds here."""
        assert name in TIER_2_LEAKS
        return name in self.leaks

    @property
    def counts_alone(self) -> bool:
        """Whether each guest has process and thread ids of its own."""
        return "pid" in self.between_guests

    @property
    def is_srt(self) -> bool:
        """Whether its guests are below processes of srt."""
        return self.what == "srt"

    @property
    def is_root(self) -> bool:
        """Whether its guests have root's number here."""
        return self.keeps_root and os.geteuid() == 0

    @property
    def own_files(self) -> bool:
        """Whether a guest has a /tmp of its own, and with it the system calls that change modes and times."""
        return "scratch directory" not in self.leaks


_NAMESPACES = frozenset({"mnt", "pid", "net", "ipc", "uts"})

TIER_1 = Kind(
    id="tier1", options=lambda: {"sandbox": "jail", "tier": 1}, source="sandbox, tier = 'jail', 1", what="tier 1",
    own_namespaces=_NAMESPACES | {"user", "cgroup"}, between_guests=frozenset({"mnt", "user"}), folder="/scratch/output", lists_root=True,
    root_has_their_proc=False, host_packages=True,
)  # fmt: skip
TIER_2 = Kind(
    id="tier2", options=lambda: {"sandbox": "jail", "tier": 2}, source="sandbox, tier = 'jail', 2", what="tier 2",
    leaks=frozenset(TIER_2_LEAKS), host_packages=True, parent=None,
)  # fmt: skip
DOCKER = Kind(
    id="docker", options=lambda: {"sandbox": DockerBackend()}, source="sandbox, tier = 'docker', None", what="Docker",
    contained=True, own_namespaces=_NAMESPACES, between_guests=_NAMESPACES, groups=(65534,), folder="/tmp/output", one_layout=False,
    caught_at=frozenset({"SandboxCrashed"}), gone_seconds=5.0, grace_seconds=4.0, runs=24, resident_bytes=256 << 20,
)  # fmt: skip
TENANT = Kind(
    id="tenant", options=lambda: {"sandbox": DockerBackend(per="tenant")},
    source="from callgate.sandbox.docker.backend import DockerBackend\nsandbox, tier = DockerBackend(per='tenant'), None", what="Docker",
    leaks=frozenset({"scratch directory"}), contained=True, own_namespaces=_NAMESPACES, between_guests=_NAMESPACES,
    groups=(65534,), reuses=True, caught_at=frozenset({"SandboxCrashed"}), gone_seconds=5.0, grace_seconds=4.0, runs=60, resident_bytes=256 << 20,
)  # fmt: skip

_SRT: dict[str, Any] = {
    "what": "srt", "own_namespaces": frozenset({"mnt", "pid", "net", "user"}), "between_guests": frozenset({"mnt", "pid", "net", "user"}), "one_layout": False,
    "host_packages": True, "parent": 2, "keeps_root": True, "gone_seconds": 3.0, "grace_seconds": 3.0, "runs": 60,
}  # fmt: skip
SRT = Kind(
    id="srt", options=lambda: {"sandbox": "srt"}, source="sandbox, tier = 'srt', None",
    leaks=frozenset({"library folder", "scratch directory", "threads", "site-packages", "uname"}), **_SRT,
)  # fmt: skip
SRT_ALONE = Kind(
    id="srt alone", options=lambda: {"sandbox": SrtBackend(confine=False)}, source="from callgate.sandbox.srt.backend import SrtBackend\nsandbox, tier = SrtBackend(confine=False), None",
    leaks=frozenset({"library folder", "threads", "site-packages", "uname"}), **_SRT,
)  # fmt: skip

ALL = (TIER_1, TIER_2, DOCKER, TENANT, SRT, SRT_ALONE)
CHOSEN = os.environ.get("CALLGATE_PROBES", "tier1,tier2,docker,tenant,srt").split(",")
"""``CALLGATE_PROBES="srt alone"`` chooses others: srt alone is not held to the probes, they measure it."""
assert {*CHOSEN} <= {each.id for each in ALL}, f"CALLGATE_PROBES names kinds that do not exist: {CHOSEN}"
KINDS: Mapping[str, Kind] = {each.id: each for each in ALL if each.id in CHOSEN}
