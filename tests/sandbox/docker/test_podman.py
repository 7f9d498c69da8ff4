"""podman behind Docker's API: what it says is brought into Docker's form, and its containers confine as Docker's do."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from callgate import DockerBackend, Limits, Runtime
from callgate.errors import ConfigurationError, SandboxUnavailable
from callgate.sandbox.docker import image
from callgate.sandbox.docker.build_context import settings_of_image
from callgate.sandbox.docker.container import Container
from callgate.sandbox.docker.doctor import examine_docker, look_at, must_be_ready
from callgate.sandbox.docker.engine import Engine
from callgate.sandbox.docker.guest import ContainerGuest
from callgate.sandbox.docker.hardening import ContainerSettings, container_options, needs
from callgate.sandbox.docker.podman import as_docker_says, is_podman
from callgate.testing import BackendConformance
from callgate.testing.opening import Opening
from sandbox.asking import ALLOWANCE, ask
from sandbox.docker.owned import eventually, none_left
from sandbox.docker.peer import INFO, engine_saying
from sandbox.docker.second_engine import Podman, SecondEngine, second_engine
from sandbox.docker.test_doctor import image as found_image

pytestmark = pytest.mark.anyio

SECONDS = 120.0
LIMITS = Limits(memory_bytes=64 << 20)

# answers of podman 4.3.1, shortened: as root, and of a user, on a machine with cgroup v1
VERSION: dict[str, Any] = {
    "Version": "4.3.1", "ApiVersion": "1.41",
    "Components": [
        {"Name": "Podman Engine", "Version": "4.3.1", "Details": {"APIVersion": "4.3.1", "MinAPIVersion": "4.0.0"}},
        {"Name": "Conmon", "Version": "conmon version 2.1.6, commit: unknown"},
    ],
}  # fmt: skip
ROOT: dict[str, Any] = INFO | {
    "CgroupVersion": "1", "Rootless": False, "SecurityOptions": ["name=seccomp,profile=default"],
    "Runtimes": {name: {} for name in ("kata", "krun", "runc", "runj", "runsc", "crun")}, "DefaultRuntime": "runc",
}  # fmt: skip
ROOTLESS = ROOT | {"Rootless": True}
OWN = {"host": {"cgroupControllers": ["cpuset", "cpu", "cpuacct", "blkio", "memory", "devices", "freezer", "pids"]}}
OWN_ROOTLESS: dict[str, Any] = {"host": {"cgroupControllers": []}}


def saying(info: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
    """What a podman with the image answers."""
    answers = {"/version": VERSION, "/libpod/info": own, "/info": info, "/images/callgate-sandbox/json": found_image()}
    return answers | {"/containers/json": []}


def test_podman_is_told_from_docker() -> None:
    assert is_podman(VERSION)
    assert not is_podman({"Version": "28.2.2", "Components": [{"Name": "Engine"}, {"Name": "containerd"}]})
    assert not is_podman({"Version": "27.1", "Components": None})


def test_root_has_every_limit_and_one_runtime() -> None:
    found = look_at(VERSION, as_docker_says(ROOT, OWN["host"]))
    assert found.obstacles == []
    told = {fact.name: fact.found for fact in found.facts}
    assert told["engine"].startswith("podman 4.3.1, API 1.41")
    assert told["runs as"] == "root"
    assert told["runtimes"] == "runc; default: runc"
    assert any("kernel of its own" in line for line in found.lacks), "a runtime that no container gets does not count"


def test_limits_that_rootless_podman_leaves_out_are_missing_though_it_reports_them() -> None:
    assert ROOTLESS["MemoryLimit"] is ROOTLESS["PidsLimit"] is True
    found = look_at(VERSION, as_docker_says(ROOTLESS, OWN_ROOTLESS["host"]))
    assert [each.partition(" (")[0] for each in found.obstacles] == [
        "it cannot limit memory", "it cannot limit processes",
    ]  # fmt: skip
    (runs_as,) = [fact.found for fact in found.facts if fact.name == "runs as"]
    assert runs_as == "an unprivileged user (rootless)"
    assert not any("no user-namespace remap" in line for line in found.lacks)


@pytest.mark.parametrize("controllers", [["cpu", "pids"], ["memory"], None])
def test_each_limit_needs_its_controller(controllers: list[str] | None) -> None:
    said = as_docker_says(ROOTLESS, {"cgroupControllers": controllers})
    given = controllers or []
    assert said["MemoryLimit"] is said["SwapLimit"] is ("memory" in given)
    assert said["PidsLimit"] is ("pids" in given)
    assert said["CpuCfsQuota"] is ("cpu" in given)


async def test_auto_takes_podman_with_limits_and_leaves_podman_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with engine_saying(tmp_path / "root.sock", saying(ROOT, OWN)) as host:
        monkeypatch.setenv("DOCKER_HOST", host)
        await must_be_ready(10)
    with engine_saying(tmp_path / "user.sock", saying(ROOTLESS, OWN_ROOTLESS)) as host:
        monkeypatch.setenv("DOCKER_HOST", host)
        with pytest.raises(SandboxUnavailable, match=r"it cannot limit memory .* it cannot limit processes"):
            await must_be_ready(10)


@pytest.mark.parametrize("own", [{}, [], {"host": None}, {"host": {}}])
async def test_a_podman_that_does_not_say_what_it_can_limit_is_not_ready(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own: Any
) -> None:
    with engine_saying(tmp_path / "podman.sock", saying(ROOT, own)) as host:
        monkeypatch.setenv("DOCKER_HOST", host)
        with pytest.raises(SandboxUnavailable, match="does not say what it can limit"):
            await must_be_ready(10)


async def test_a_runtime_that_podman_would_ignore_is_refused(tmp_path: Path) -> None:
    with (
        engine_saying(tmp_path / "podman.sock", saying(ROOT, OWN)) as host,
        pytest.raises(ConfigurationError) as raised,
    ):
        async with DockerBackend(docker_host=host, runtime="runsc"):
            pass
    assert f"podman at {host} runs every container with runc, whatever runtime is asked for" in str(raised.value)
    assert "start its service with `podman --runtime runsc system service`" in str(raised.value)


async def test_a_folder_that_podman_would_make_is_told(tmp_path: Path) -> None:
    folders = {"data": tmp_path / "nowhere"}
    with (
        engine_saying(tmp_path / "podman.sock", saying(ROOT, OWN)) as host,
        pytest.raises(ConfigurationError) as raised,
    ):
        async with DockerBackend(docker_host=host, folders=folders):
            pass
    assert f"folders: 'data': {tmp_path}/nowhere is not on this machine" in str(raised.value)
    assert not (tmp_path / "nowhere").exists()


def options(engine: Any) -> dict[str, Any]:
    settings = ContainerSettings(
        image="callgate-sandbox", runtime=None, per="run", cpus=1.0, preimport=(), engine=engine
    )
    return container_options(ALLOWANCE, settings, room=1 << 20)


def test_a_container_of_podmans_differs_in_its_tmpfs_and_one_limit_alone() -> None:
    docker, podman = options("docker"), options("podman")
    assert {name for name in podman if podman[name] != docker.get(name)} == {"tmpfs", "ulimits"}
    assert set(docker) == set(podman)
    assert podman["ulimits"] == [*docker["ulimits"], {"Name": "nproc", "Soft": 16384, "Hard": 16384}]
    assert options("rootless podman") == podman | {"ulimits": docker["ulimits"]}
    size = f"size={ALLOWANCE.max_file_bytes}"
    assert podman["tmpfs"] == {
        "/tmp": f"rw,noexec,nosuid,nodev,{size},mode=1777,notmpcopyup",
        "/input": "rw,noexec,nosuid,nodev,size=1048576,mode=755,notmpcopyup,U",
        "/run": "ro,noexec,nosuid,nodev,size=4096,mode=555,notmpcopyup",
        "/var/tmp": "ro,noexec,nosuid,nodev,size=4096,mode=555,notmpcopyup",
    }


def test_each_setting_of_an_imported_image_is_an_instruction_of_its_own() -> None:
    """podman takes the second of two names in one instruction for a part of the first's value."""
    lines = settings_of_image({"GUEST": "digest", "PYTHON": "3.13.1", "PACKAGES": "numpy==2.1.0 pandas==2.2.3"})
    named = [line for line in lines if line.startswith(("LABEL ", "ENV "))]
    assert 'LABEL callgate.packages="numpy==2.1.0 pandas==2.2.3"' in named
    assert len(named) == 7
    for line in named:
        _, _, value = line.partition("=")
        assert value.startswith('"') or " " not in value, line
        assert value.count('"') in (0, 2), line


# a real one


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
def podman() -> Iterator[SecondEngine]:
    """podman, with the image."""

    async def build() -> None:
        engine = await Engine.connect(started.host)
        try:
            assert (await image.build(engine, base=image.HOST)).guest == image.guest_digest()
        finally:
            await engine.close()

    with second_engine(kind=Podman) as started:
        anyio.run(build)
        yield started


@pytest.fixture
async def its_engine(podman: SecondEngine) -> AsyncIterator[Engine]:
    engine = await Engine.connect(podman.host)
    yield engine
    await engine.close()


async def double(number: int) -> int:
    return number * 2


@pytest.mark.slow
@pytest.mark.parametrize("per", ["run", "tenant"])
async def test_programs_run_in_podmans_containers(podman: SecondEngine, its_engine: Engine, per: Any) -> None:
    backend = DockerBackend(docker_host=podman.host, per=per)
    with anyio.fail_after(SECONDS):
        async with Runtime([double], sandbox=backend, pool_size=1, limits=LIMITS) as runtime:
            assert backend.description.startswith("docker (podman, runc): ")
            result = await runtime.execute_code("print('x')\n[await double(21)][0]", path="sandbox")
            assert (result.value, result.logs) == (42, "x\n"), result.error
            result = await runtime.execute_code("while True: pass", limits=LIMITS.replace(wall_seconds=1))
            assert result.error is not None
            assert result.error.limit == "wall_seconds"
            result = await runtime.execute_code("'x' * (200 << 20)", path="sandbox")
            assert result.error is not None
            assert result.error.limit == "memory_bytes"
            if per == "run":
                code = "with open('out.txt', 'w') as file:\n    file.write(open('in.txt').read().upper())"
                result = await runtime.execute_code(code, files={"in.txt": b"in"})
                assert [(each.name, each.text) for each in result.artifacts] == [("out.txt", "IN")], result.error
            assert (await runtime.execute_code("1 + 1", path="sandbox")).value == 2
    await none_left(its_engine)


async def pid_of(engine: Engine, container: Container) -> int:
    return int((await engine.call("inspect_container", container.id))["State"]["Pid"])


@pytest.mark.slow
async def test_the_kernel_confirms_what_confines_podmans_container(podman: SecondEngine, its_engine: Engine) -> None:
    async with DockerBackend(docker_host=podman.host, cpus=0.5) as backend:
        guest = await backend.open(ALLOWANCE)
        found = await its_engine.call("inspect_container", guest.container.id)
        process = Path(f"/proc/{found['State']['Pid']}")
        status = dict(line.split(":\t", 1) for line in (process / "status").read_text().splitlines() if ":\t" in line)
        mounts = [line.split() for line in (process / "mountinfo").read_text().splitlines()]
        cgroups = (process / "cgroup").read_text()
        interfaces = (process / "net" / "dev").read_text().splitlines()[2:]
        limits = (process / "limits").read_text()
        await guest.aclose()
    assert found["HostConfig"]["ReadonlyRootfs"] is True
    assert found["HostConfig"]["Memory"] == found["HostConfig"]["MemorySwap"] == needs(ALLOWANCE)
    assert found["HostConfig"]["PidsLimit"] == ALLOWANCE.max_processes + 2
    assert found["HostConfig"]["NanoCpus"] == 500_000_000
    assert found["HostConfig"]["LogConfig"]["Type"] == "none"
    assert f"/libpod-{found['Id']}" in cgroups
    assert status["Uid"].split() == ["65534"] * 4
    assert {status[name].strip("0") for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")} == {""}
    assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")
    assert [line.split(":")[0].strip() for line in interfaces] == ["lo"]
    assert "Max open files            256                  256" in limits
    writable = {each[4] for each in mounts if "tmpfs" in each[each.index("-") + 1] and "rw" in each[5].split(",")}
    # runc's own, which belong to root; the guest is another user, and Landlock opens no more than /tmp and /dev/null
    assert {each for each in writable if not each.startswith(("/dev", "/proc", "/sys"))} == {"/tmp"}


@pytest.mark.slow
async def test_podman_counts_the_threads_of_a_container(podman: SecondEngine, its_engine: Engine) -> None:
    many = (
        "import threading, time\nstarted = 0\ntry:\n    for _ in range(200):\n"
        "        threading.Thread(target=time.sleep, args=(5,), daemon=True).start()\n        started += 1\n"
        "except RuntimeError:\n    pass\nstarted"
    )
    async with DockerBackend(docker_host=podman.host) as backend:
        guest = await backend.open(ALLOWANCE)
        heard = await ask(guest, many)
        await guest.aclose()
    assert 0 < heard.value < ALLOWANCE.max_processes


@pytest.mark.slow
async def test_the_doctor_tries_podman(
    podman: SecondEngine, its_engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", podman.host)
    report = await examine_docker(SECONDS)
    assert (report.works, report.reason, report.obstacles) == (True, "", [])
    assert json.dumps([fact.found for fact in report.facts]).count("podman 4.") == 1


@pytest.mark.slow
class TestPodman(BackendConformance):
    podman: SecondEngine

    @pytest.fixture(scope="class")
    @classmethod
    def opening(cls, podman: SecondEngine) -> Opening:
        cls.kept_open = 8  # connections to the engine
        cls.podman = podman
        return lambda: DockerBackend(docker_host=podman.host)

    def place_of(self, guest: Any) -> str:
        assert isinstance(guest, ContainerGuest)
        return guest.container.id

    async def gone(self, place: Any) -> None:
        async def removed() -> bool:
            return place not in self.podman.docker("ps", "-aq", "--no-trunc").split()

        await eventually(removed)
