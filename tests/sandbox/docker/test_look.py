"""What an engine says of itself, as facts: engines of several makes, and some that say nonsense."""

from __future__ import annotations

from typing import Any

import pytest

from callgate.sandbox.docker.doctor import DockerReport, look_at
from callgate.sandbox.docker.hardening import LIMITS, runtimes_of
from callgate.sandbox.self_test import Fact
from sandbox.docker.peer import INFO, VERSION


def look(**changes: Any) -> DockerReport:
    return look_at(VERSION, INFO | changes)


def fact(found: DockerReport, name: str) -> Fact:
    (one,) = [each for each in found.facts if each.name == name]
    return one


def obstacles(found: DockerReport) -> list[str]:
    """Why ``auto`` leaves the engine alone, without what is said of each."""
    return [each.removesuffix(" (sandbox='docker' takes the engine all the same)") for each in found.obstacles]


def test_an_engine_with_all_that_is_needed_has_nothing_in_the_way() -> None:
    found = look()
    assert found.obstacles == []
    assert [each for each in found.facts if each.ok is False] == []
    assert fact(found, "engine").found == "27.1, API 1.44, on Some Linux, x86_64"
    assert fact(found, "runs as").found == "root"
    assert fact(found, "runtimes").found == "runc; default: runc"
    assert fact(found, "limits").found == "memory, swap, processes, processor time"


def test_what_an_engine_does_not_say_is_unknown() -> None:
    found = look(OperatingSystem="", DefaultRuntime=None)
    assert fact(found, "engine").found == "27.1, API 1.44, on unknown, x86_64"
    assert fact(found, "runtimes").found == "runc; default: unknown"


def test_an_unconfined_default_profile_is_in_the_way_and_says_what_to_do() -> None:
    found = look(SecurityOptions=["name=seccomp,profile=unconfined"])
    assert fact(found, "seccomp").ok is False
    assert "start dockerd without --seccomp-profile=unconfined" in fact(found, "seccomp").remedy
    assert obstacles(found) == ["seccomp is switched off: the engine's default profile is unconfined"]


def test_an_engine_without_seccomp_is_in_the_way() -> None:
    assert obstacles(look(SecurityOptions=["name=apparmor"])) == ["seccomp is not supported by this engine"]


def test_a_profile_of_the_operators_own_is_named() -> None:
    found = look(SecurityOptions=["name=seccomp,profile=/etc/docker/strict.json"])
    assert fact(found, "seccomp") == Fact("seccomp", True, "the engine's default is /etc/docker/strict.json")


@pytest.mark.parametrize(
    ("key", "what"), [("MemoryLimit", "it cannot limit memory"), ("PidsLimit", "it cannot limit processes")]
)
@pytest.mark.parametrize("said", [False, None, "yes"])
def test_without_a_hard_limit_auto_leaves_it_alone(key: str, what: str, said: Any) -> None:
    found = look(**{key: said})
    assert obstacles(found) == [what]
    assert fact(found, "limits").ok is False
    assert fact(found, "limits").found.startswith(f"not there: {LIMITS[key][0]} (")


@pytest.mark.parametrize("key", ["SwapLimit", "CpuCfsQuota"])
def test_a_soft_limit_that_is_missing_is_told_and_is_not_in_the_way(key: str) -> None:
    found = look(**{key: False})
    assert found.obstacles == []
    assert fact(found, "limits").ok is None
    assert fact(found, "limits").remedy


def test_rootless_without_delegated_controllers_says_how_to_delegate_them() -> None:
    options = ["name=seccomp,profile=builtin", "name=rootless"]
    found = look(SecurityOptions=options, MemoryLimit=False, PidsLimit=False, CpuCfsQuota=False, SwapLimit=False)
    assert fact(found, "runs as").found == "an unprivileged user (rootless)"
    assert "Delegate=cpu cpuset io memory pids" in fact(found, "limits").remedy
    assert "unified_cgroup_hierarchy=1" in fact(found, "limits").remedy


def test_users_of_a_rootless_engine_or_one_with_a_remap_are_not_the_machines() -> None:
    assert any("no user-namespace remap" in line for line in look().lacks)
    for option in ("name=rootless", "name=userns"):
        mapped = look(SecurityOptions=[option, "name=seccomp,profile=default"])
        assert not any("no user-namespace remap" in line for line in mapped.lacks)


def test_runtimes_are_named_the_default_first() -> None:
    names: dict[str, Any] = {"crun": {}, "runsc": {}, "kata-runtime": {}, "io.containerd.runc.v2": {}}
    found = look(Runtimes=names, DefaultRuntime="runsc")
    assert runtimes_of(INFO | {"Runtimes": names, "DefaultRuntime": "runsc"}) == ["runsc", "crun", "kata-runtime"]
    assert fact(found, "runtimes").found == "runsc, crun, kata-runtime; default: runsc"
    assert not any("kernel of its own" in line for line in found.lacks)
    assert any("kernel of its own" in line for line in look().lacks)


def test_what_an_engine_does_not_say_counts_as_missing() -> None:
    found = look_at({}, {})
    assert obstacles(found) == [
        "it cannot limit memory",
        "it cannot limit processes",
        "seccomp is not supported by this engine",
    ]
    assert [each.name for each in found.facts if not each.found] == []
