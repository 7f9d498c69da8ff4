"""An engine with cgroup v2, inside a machine that may use version 1: which limits it has, and that programs run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from callgate import DockerBackend, Limits, Runtime
from callgate.sandbox.docker.doctor import examine_docker
from callgate.sandbox.docker.hardening import ContainerSettings, container_options
from callgate.sandbox.docker.image import ImageFacts
from sandbox.asking import ALLOWANCE
from sandbox.docker.second_engine import SecondEngine, WithCgroupV2, second_engine

pytestmark = pytest.mark.anyio

SECONDS = 120.0
CONTROLLERS = {"MemoryLimit": "memory", "SwapLimit": "memory", "PidsLimit": "pids", "CpuCfsQuota": "cpu"}


def options(cpus: float | None) -> dict[str, Any]:
    settings = ContainerSettings(image="callgate-sandbox", runtime=None, per="run", cpus=cpus, preimport=())
    return container_options(ALLOWANCE, settings)


def test_an_engine_that_cannot_limit_processors_is_not_asked_to() -> None:
    """Docker leaves out the other limits that it cannot set, and refuses a container with this one."""
    assert options(0.5)["nano_cpus"] == 500_000_000
    assert set(options(0.5)) - set(options(None)) == {"nano_cpus"}


@pytest.fixture(scope="module")
def nested() -> Iterator[SecondEngine]:
    with second_engine(kind=WithCgroupV2) as engine:
        yield engine


def limits_of(nested: SecondEngine) -> set[str]:
    """The limits for which the engine's cgroups have a controller."""
    (engine,) = [pid for pid in nested.processes() if Path(f"/proc/{pid}/comm").read_text() == "dockerd\n"]
    controllers = Path(f"/proc/{engine}/root/sys/fs/cgroup/cgroup.controllers").read_text().split()
    return {key for key, needed in CONTROLLERS.items() if needed in controllers}


async def test_programs_run_with_cgroup_v2_and_the_doctor_says_which_limits_it_gives(
    nested: SecondEngine, default_image: ImageFacts, monkeypatch: pytest.MonkeyPatch
) -> None:
    await nested.copy_image()
    given = limits_of(nested)
    monkeypatch.setenv("DOCKER_HOST", nested.host)
    assert nested.docker("info", "--format={{.CgroupVersion}}") == "2"
    report = await examine_docker(SECONDS)
    assert (report.works, report.reason) == (True, "")
    (limits,) = [fact for fact in report.facts if fact.name == "limits"]
    hard = {"MemoryLimit", "PidsLimit"} <= given
    assert limits.ok is (None if hard and given != set(CONTROLLERS) else hard)
    with anyio.fail_after(SECONDS):
        async with Runtime([], sandbox=DockerBackend(), pool_size=1, limits=Limits(memory_bytes=64 << 20)) as runtime:
            assert ("no cgroup limit of" in runtime.backend.description) == (given != set(CONTROLLERS))
            assert (await runtime.execute_code("1 + 1", path="sandbox")).value == 2
            result = await runtime.execute_code("'x' * (200 << 20)", path="sandbox")
            assert result.error is not None
            assert result.error.limit == "memory_bytes"
    assert nested.containers() == []
