"""Other runtimes than runc: gVisor, crun; one that the engine does not know."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator

import anyio
import pytest

from callgate import Limits, Runtime
from callgate.errors import ConfigurationError, SandboxUnavailable
from callgate.sandbox.docker.backend import DockerBackend
from callgate.sandbox.docker.engine import Engine
from callgate.sandbox.docker.image import DEFAULT_TAG, ImageFacts
from sandbox.docker.second_engine import SecondEngine, second_engine

pytestmark = pytest.mark.anyio

SECONDS = 120.0
LIMITS = Limits(memory_bytes=64 << 20)
PATHS = {"runsc": ["--network=none"], "crun": []}
"""Runtimes of the distribution's packages, with their arguments."""
HELLO = [
    *("run", "--rm", "--network=none", "--entrypoint=/python/bin/python3"),
    *(DEFAULT_TAG, "-I", "-S", "-B", "-c", "print('hello')"),
]


@pytest.fixture(scope="module")
def with_runtimes() -> Iterator[SecondEngine]:
    known = {name: {"path": path, "runtimeArgs": PATHS[name]} for name in PATHS if (path := shutil.which(name))}
    config = json.dumps({"runtimes": known})
    with second_engine("--config-file={folder}/daemon.json", files={"daemon.json": config}) as engine:
        yield engine


async def have(engine: SecondEngine, name: str) -> None:
    """Skip where a runtime is not there, or cannot run anything here, with the reason."""
    if shutil.which(name) is None:
        if os.environ.get("CI") == "true" and os.geteuid() == 0:
            pytest.fail(f"{name} has to be installed in CI")
        pytest.skip(f"{name} is not installed: apt install {name}")
    await engine.copy_image()
    with anyio.fail_after(SECONDS):
        ran = await anyio.run_process(
            engine.command(*HELLO[:1], "--runtime", name, *HELLO[1:]), check=False, stderr=subprocess.PIPE
        )
    if ran.stdout != b"hello\n":
        told = pytest.fail if name == "runsc" and os.environ.get("CI") == "true" else pytest.skip
        told(f"{name} cannot run a container through this engine: {ran.stderr.decode()[-500:]}")


@pytest.mark.parametrize("name", PATHS)
async def test_programs_run_with_another_runtime(
    with_runtimes: SecondEngine, default_image: ImageFacts, name: str
) -> None:
    await have(with_runtimes, name)

    async def double(number: int) -> int:
        return number * 2

    backend = DockerBackend(docker_host=with_runtimes.host, runtime=name)
    with anyio.fail_after(SECONDS):
        async with Runtime([double], sandbox=backend, pool_size=1, limits=LIMITS) as runtime:
            assert backend.description.startswith(f"docker ({name}): ")
            assert ("Landlock" in backend.description) == (name != "runsc")
            result = await runtime.execute_code("open('/tmp/x', 'w').write('1')\nprint('x')\n[await double(21)][0]")
            assert result.value == 42, result.error
            assert result.logs == "x\n"
            assert result.usage.cpu_seconds is not None
            code = "with open('out.txt', 'w') as file:\n    file.write(open('in.txt').read().upper())"
            result = await runtime.execute_code(code, files={"in.txt": b"in"})
            assert [(each.name, each.text) for each in result.artifacts] == [("out.txt", "IN")], result.error
            async with runtime.session(files={"in.txt": b"in"}) as session:
                for number in (1, 2):  # stopped, and going on
                    result = await session.execute_code(f"with open('{number}', 'w') as file:\n    file.write('x')")
                    assert [each.name for each in result.artifacts] == [str(number)], (result.error, result.notes)
            result = await runtime.execute_code("while True: pass", limits=LIMITS.replace(wall_seconds=3))
            assert result.error is not None
            assert result.error.limit == "wall_seconds"
            result = await runtime.execute_code("'x' * (200 << 20)", path="sandbox")
            assert result.error is not None
            assert result.error.kind in ("MemoryError", "LimitReached")
            assert (await runtime.execute_code("1 + 1", path="sandbox")).value == 2
    assert with_runtimes.containers() == []


async def test_without_landlock_a_container_does_not_serve_run_after_run(
    with_runtimes: SecondEngine, default_image: ImageFacts
) -> None:
    await have(with_runtimes, "runsc")
    with anyio.fail_after(SECONDS), pytest.raises(SandboxUnavailable) as raised:
        async with DockerBackend(docker_host=with_runtimes.host, runtime="runsc", per="tenant"):
            pass
    assert "needs Landlock, which this runtime or kernel does not have: leave out per='tenant'" in str(raised.value)
    assert with_runtimes.containers() == []


async def test_a_runtime_that_the_engine_does_not_have_is_told_with_those_it_has(
    engine: Engine, default_image: ImageFacts
) -> None:
    with pytest.raises(ConfigurationError) as raised:
        async with DockerBackend(runtime="kata-runtime"):
            pass
    assert f"the Docker engine at {engine.host} has no runtime 'kata-runtime'; it has: " in str(raised.value)
    assert "runc" in str(raised.value)
    assert "daemon.json" in str(raised.value)
