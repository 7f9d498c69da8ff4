"""The docker backend: what it promises, what it refuses, what a program meets that wants more memory than it may."""

from __future__ import annotations

import os
from typing import Any

import pytest

from callgate import Limits, Runtime
from callgate.errors import ConfigurationError, SandboxCrashed, SandboxUnavailable
from callgate.sandbox.backend import Allowance
from callgate.sandbox.docker.backend import DockerBackend
from callgate.sandbox.docker.engine import Engine
from callgate.sandbox.docker.hardening import needs
from callgate.sandbox.docker.image import ImageFacts
from sandbox.asking import ALLOWANCE, ask
from sandbox.docker.owned import owned

pytestmark = pytest.mark.anyio

LIMITS = Limits(memory_bytes=64 << 20, max_file_bytes=8 << 20)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"per": "day"}, "per is 'run' or 'tenant', not 'day'"),
        ({"cpus": 0}, "cpus is how many processors a container may use, 0.01 or more, not 0"),
        ({"cpus": -1.5}, "cpus is how many processors a container may use, 0.01 or more, not -1.5"),
    ],
)
def test_an_option_that_is_out_of_range_is_told_at_once(options: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        DockerBackend(**options)
    assert str(raised.value) == text


async def test_it_says_what_confines_a_guest(default_image: ImageFacts) -> None:
    backend = DockerBackend()
    assert backend.description == "docker, not started"
    async with backend:
        assert backend.name == "docker"
        for part in ("docker (runc)", "no network", "read-only root", "no capabilities", "cgroup limits", "seccomp"):
            assert part in backend.description
        assert "one for all runs" not in backend.description
    async with DockerBackend(per="tenant") as tenant:
        assert "one for all runs of this runtime" in tenant.description


async def test_one_that_was_not_entered_or_was_left_opens_no_guest(engine: Engine, default_image: ImageFacts) -> None:
    backend = DockerBackend()
    with pytest.raises(SandboxCrashed, match="it was not entered, or it was left"):
        await backend.open(ALLOWANCE)
    async with backend:
        pass
    with pytest.raises(SandboxCrashed, match="it was not entered, or it was left"):
        await backend.open(ALLOWANCE)
    assert not await owned(engine)


async def test_an_image_that_is_not_there_is_told_with_how_to_build_it(engine: Engine) -> None:
    with pytest.raises(SandboxUnavailable) as raised:
        async with DockerBackend(image="callgate-nowhere"):
            pass
    assert f"the Docker engine at {engine.host} has no image 'callgate-nowhere'" in str(raised.value)
    assert "build --tag callgate-nowhere` (where there is no registry, with --base host)" in str(raised.value)


@pytest.mark.parametrize(
    ("labels", "text"),
    [
        ({}, "was not made by `callgate image build`: build one FROM your own with `callgate image build --base"),
        (
            {"callgate.guest": "0123456789abcdef"},
            "was built for another version of callgate: run `callgate image build",
        ),
    ],
)
async def test_an_image_that_is_not_of_this_callgate_is_told(
    engine: Engine, default_image: ImageFacts, labels: dict[str, str], text: str
) -> None:
    container = (await engine.call("create_container", "callgate-sandbox"))["Id"]
    named = f"callgate-other-{os.getpid()}"
    changes = [f"LABEL callgate.guest={labels.get('callgate.guest', '')}"] if labels else []
    try:
        if labels:
            await engine.call("commit", container, named, changes=changes)
        else:
            exported = await engine.call("export", container)
            await engine.call_with(lambda api: api.import_image_from_data(b"".join(exported), repository=named))
        with pytest.raises(SandboxUnavailable) as raised:
            async with DockerBackend(image=named):
                pass
    finally:
        await engine.call("remove_container", container, force=True)
        await engine.call("remove_image", named, force=True)
    assert text in str(raised.value)


async def test_a_module_that_the_image_does_not_have_is_the_operators_mistake(
    engine: Engine, default_image: ImageFacts
) -> None:
    with pytest.raises(ConfigurationError, match="preimport: No module named 'nope_mod'"):
        async with DockerBackend(preimport=["nope_mod"]):
            pass
    assert not await owned(engine)


async def test_modules_of_the_image_are_imported_ahead(default_image: ImageFacts) -> None:
    async with DockerBackend(preimport=["sqlite3"]) as backend:
        guest = await backend.open(ALLOWANCE)
        assert (await ask(guest, "import sys\n'sqlite3' in sys.modules")).value is True
        await guest.aclose()


async def test_the_container_has_what_was_asked_for_and_nothing_else(engine: Engine, default_image: ImageFacts) -> None:
    async with DockerBackend(cpus=0.5) as backend:
        guest = await backend.open(ALLOWANCE)
        found = await engine.call("inspect_container", guest.container.id)
        await guest.aclose()
    host, config = found["HostConfig"], found["Config"]
    assert host["NetworkMode"] == "none"
    assert host["ReadonlyRootfs"] is True
    assert host["CapDrop"] == ["ALL"]
    assert not host["CapAdd"]
    assert host["Privileged"] is False
    assert host["SecurityOpt"] == ["no-new-privileges:true"]
    assert host["PidsLimit"] == ALLOWANCE.max_processes + 2  # the supervisor, and the process that forks guests
    assert host["Memory"] == host["MemorySwap"] == needs(ALLOWANCE)
    assert host["NanoCpus"] == 500_000_000
    assert host["LogConfig"]["Type"] == "none"
    assert host["IpcMode"] == "none"
    assert host["AutoRemove"] is True
    assert host["Binds"] is None
    assert found["Mounts"] == []
    assert config["User"] == "65534:65534"
    assert not any("proxy" in each.lower() for each in config["Env"])


async def test_another_allowance_gets_a_container_of_its_own(default_image: ImageFacts) -> None:
    async with DockerBackend(per="tenant") as backend:
        first = await backend.open(ALLOWANCE)
        first.kill()
        await first.aclose()
        second = await backend.open(Allowance(20, 128 << 20, 16, 1 << 20))
        assert second.container is not first.container
        await second.aclose()


HOG = """
files, kept = 0, []
try:
    with open("/tmp/a", "wb") as file:
        while True:
            files += file.write(bytes(1 << 20))
except OSError as error:
    pass
print(files >> 20, "MiB in /tmp")
while True:
    kept.append(bytearray(1 << 20))
"""


async def test_a_program_that_fills_its_tmp_and_its_memory_meets_its_own_limit(default_image: ImageFacts) -> None:
    async with Runtime(sandbox=DockerBackend(), pool_size=0, limits=LIMITS) as runtime:
        result = await runtime.execute_code(HOG, path="sandbox")
        assert result.error is not None
        assert (result.error.kind, result.error.limit) in (("MemoryError", None), ("LimitReached", "memory_bytes"))
        assert "MiB in /tmp" in result.logs


@pytest.mark.parametrize("per", ["run", "tenant"])
async def test_a_guest_that_the_kernel_kills_for_memory_has_reached_that_limit(
    engine: Engine, default_image: ImageFacts, per: str
) -> None:
    """It never comes to that by itself: the container has room for all that a guest may have."""

    async def squeeze() -> None:
        (running,) = await owned(engine)
        await engine.call("update_container", running, mem_limit=40 << 20, memswap_limit=40 << 20)

    backend = DockerBackend(per=per)  # type: ignore[arg-type]
    async with Runtime([squeeze], sandbox=backend, pool_size=0, limits=LIMITS) as runtime:
        result = await runtime.execute_code("await squeeze()\nfull = bytearray(60 << 20)\nlen(full)")
        assert result.error is not None
        assert (result.error.kind, result.error.limit) == ("LimitReached", "memory_bytes")
        assert [call.status for call in result.calls] == ["succeeded"]
        assert (await runtime.execute_code("2 + 2", path="sandbox")).value == 4
    assert not await owned(engine)
