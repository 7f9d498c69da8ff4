"""An engine that is killed, stopped, started again or hangs; one reached by TCP and TLS; how one is chosen."""

from __future__ import annotations

import gc
import json
import signal
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import anyio
import pytest

from callgate import Limits, Runtime
from callgate.errors import SandboxError, SandboxUnavailable
from callgate.sandbox.docker import container as container_module
from callgate.sandbox.docker import engine as engine_module
from callgate.sandbox.docker.backend import DockerBackend
from callgate.sandbox.docker.engine import Engine
from callgate.sandbox.docker.image import ImageFacts
from pace import stretched
from sandbox.docker.certificates import Certificates
from sandbox.docker.owned import eventually
from sandbox.docker.second_engine import SecondEngine, second_engine

pytestmark = [
    pytest.mark.slow,
    pytest.mark.anyio,
    # the docker SDK leaves a socket with which it knocked in vain to the garbage collector
    pytest.mark.filterwarnings("ignore:unclosed <socket.socket:ResourceWarning"),
]

SECONDS = 60.0
LIMITS = Limits(memory_bytes=64 << 20)
WAITS = "import time\nprint('so far')\nawait begun()\nwhile True: time.sleep(0.1)"


@pytest.fixture(scope="session")
def shared() -> Iterator[SecondEngine]:
    with second_engine() as engine:
        yield engine


@pytest.fixture
async def second(shared: SecondEngine, default_image: ImageFacts) -> SecondEngine:
    """An engine that this test may harm."""
    shared.start()
    await shared.copy_image()
    return shared


@pytest.fixture(autouse=True)
def collected() -> Iterator[None]:
    """No other test is to meet those sockets; what else is unclosed fails here."""
    yield
    gc.collect()


class Started:
    """A tool that a program tells that it runs."""

    def __init__(self) -> None:
        self.event = anyio.Event()

    def tool(self) -> object:
        async def begun() -> None:
            self.event.set()

        return begun


async def no_containers(engine: SecondEngine, seconds: float = SECONDS) -> None:
    async def none() -> bool:
        return not engine.containers()

    await eventually(none, seconds)


def runtime(engine: SecondEngine, *tools: object, per: str = "run", pool_size: int = 0) -> Runtime:
    backend = DockerBackend(docker_host=engine.host, per=per)  # type: ignore[arg-type]
    return Runtime(tools, sandbox=backend, pool_size=pool_size, limits=LIMITS)  # type: ignore[arg-type]


async def works(runtime: Runtime) -> None:
    """One run of a program."""
    with anyio.fail_after(SECONDS):
        assert (await runtime.execute_code("20 + 22", path="sandbox")).value == 42


@pytest.mark.parametrize("per", ["run", "tenant"])
@pytest.mark.parametrize("ending", ["kill", "stop"])
async def test_a_run_whose_engine_ends_says_so_and_the_next_works_once_it_is_back(
    second: SecondEngine, ending: str, per: str
) -> None:
    started = Started()
    async with runtime(second, started.tool(), per=per) as used:
        async with anyio.create_task_group() as tasks:

            async def end() -> None:
                await started.event.wait()
                await anyio.to_thread.run_sync(getattr(second, ending))

            tasks.start_soon(end)
            with anyio.fail_after(SECONDS):
                result = await used.execute_code(WAITS)
        assert result.error is not None
        assert result.error.kind == "SandboxCrashed"
        assert second.host in result.error.message
        assert "callgate doctor" in result.error.message
        assert result.logs == "so far\n"
        with anyio.fail_after(SECONDS), pytest.raises(SandboxUnavailable) as raised:
            await used.execute_code("1", path="sandbox")
        assert "start" in str(raised.value)
        assert second.host in str(raised.value)
        await anyio.to_thread.run_sync(second.start)
        await works(used)
        await works(used)
    await no_containers(second)


@pytest.mark.parametrize("per", ["run", "tenant"])
async def test_guests_kept_ready_by_an_engine_that_was_killed_are_replaced(second: SecondEngine, per: str) -> None:
    async with runtime(second, per=per, pool_size=2) as used:
        await eventually(lambda: _idle(used, 2))
        await anyio.to_thread.run_sync(second.kill)
        with anyio.fail_after(SECONDS), pytest.raises(SandboxUnavailable):
            await used.execute_code("1", path="sandbox")
        await anyio.to_thread.run_sync(second.start)
        await works(used)
        await eventually(lambda: _idle(used, 2))
    await no_containers(second)


async def _idle(used: Runtime, count: int) -> bool:
    return used._pool.idle >= count


async def test_an_engine_that_is_killed_in_the_middle_of_a_refill_leaves_nothing(second: SecondEngine) -> None:
    for there in (1, 2, 3):
        async with runtime(second, pool_size=3) as used:
            await eventually(partial(_some, second, there))
            await anyio.to_thread.run_sync(second.kill)
            await anyio.to_thread.run_sync(second.start)
            await works(used)
        await no_containers(second)


async def _some(engine: SecondEngine, count: int) -> bool:
    return len(engine.containers()) >= count


async def test_leaving_a_runtime_whose_engine_is_gone_ends_at_once(second: SecondEngine) -> None:
    async with runtime(second, pool_size=2) as used:
        await eventually(lambda: _idle(used, 2))
        await anyio.to_thread.run_sync(second.kill)
        left = time.monotonic()
    assert time.monotonic() - left < stretched(10)
    await anyio.to_thread.run_sync(second.start)
    await no_containers(second)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine gets 2 s instead of 60 to answer."""
    monkeypatch.setattr(engine_module, "TIMEOUT_SECONDS", 2)


@pytest.mark.usefixtures("impatient")
async def test_an_engine_that_hangs_is_told_in_time_and_keeps_nobody_from_leaving(second: SecondEngine) -> None:
    started = Started()
    async with runtime(second, started.tool(), pool_size=2) as used:
        await eventually(lambda: _idle(used, 2))
        async with anyio.create_task_group() as tasks:

            async def hang() -> None:
                await started.event.wait()
                second.signal(signal.SIGSTOP)

            tasks.start_soon(hang)
            with anyio.fail_after(20):
                result = await used.execute_code(WAITS, limits=LIMITS.replace(wall_seconds=2))
        assert result.error is not None
        assert result.error.limit == "wall_seconds"
        with anyio.fail_after(20):
            assert "did not answer within 2 s" in await refusal(used)
        began = time.monotonic()
    assert time.monotonic() - began < stretched(20)
    second.signal(signal.SIGCONT)

    async def swept() -> bool:  # what the engine made when nobody waited for it any more
        async with runtime(second):
            pass
        return not second.containers()

    await eventually(swept)


async def refusal(used: Runtime) -> str:
    """Why a program can be run no more; those kept ready may still serve some."""
    for _ in range(5):
        try:
            await used.execute_code("1", path="sandbox")
        except SandboxError as error:
            return str(error)
    return ""


@pytest.mark.parametrize("per", ["run", "tenant"])
async def test_many_guests_kept_ready_by_an_engine_that_hangs_are_given_up_together(
    second: SecondEngine, per: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(container_module, "_GONE_SECONDS", 1.0)
    async with runtime(second, per=per, pool_size=4) as used:
        await eventually(lambda: _idle(used, 4))
        second.signal(signal.SIGSTOP)
        began = time.monotonic()
    took = time.monotonic() - began
    second.signal(signal.SIGCONT)
    assert took < stretched(8)
    await no_containers(second)


@pytest.mark.usefixtures("impatient")
async def test_an_engine_that_hung_serves_the_same_runtime_again(second: SecondEngine) -> None:
    async with runtime(second) as used:
        await works(used)
        second.signal(signal.SIGSTOP)
        try:
            with anyio.fail_after(SECONDS), pytest.raises(SandboxUnavailable, match="did not answer within 2 s"):
                await used.execute_code("1", path="sandbox")
        finally:
            second.signal(signal.SIGCONT)
        await works(used)
    await no_containers(second)


# how an engine is reached


async def exercise(used: Runtime) -> None:
    """Calls, big values both ways, many prints, a program that has to be killed."""
    big = "x" * (3 << 20)
    with anyio.fail_after(SECONDS):
        result = await used.execute_code("(await echo(text)) + '!'", inputs={"text": big}, path="sandbox")
        assert result.value == big + "!"
        result = await used.execute_code(
            "import asyncio\nparts = await asyncio.gather(*[echo(str(n) * 20000) for n in range(100)])\n"
            "[len(part) for part in parts]",
            path="sandbox",
        )
        assert result.value == [20000 * len(str(number)) for number in range(100)]
        result = await used.execute_code("for n in range(9000): print('y' * 99)\n7", path="sandbox")
        assert (result.value, len(result.logs)) == (7, 900_000)
        result = await used.execute_code("while True: pass", limits=LIMITS.replace(wall_seconds=1))
        assert result.error is not None
        assert result.error.limit == "wall_seconds"


async def echo(text: str) -> str:
    return text


@pytest.fixture(scope="module")
def by_tcp() -> Iterator[SecondEngine]:
    with second_engine(tcp=True) as engine:
        yield engine


async def test_an_engine_behind_tcp_works(by_tcp: SecondEngine, default_image: ImageFacts) -> None:
    await by_tcp.copy_image()
    async with runtime(by_tcp, echo, pool_size=1) as used:
        await exercise(used)
    await no_containers(by_tcp)


@pytest.fixture(scope="module")
def by_tls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[SecondEngine, Certificates]]:
    certificates = Certificates(Path(tmp_path_factory.mktemp("tls")))
    with second_engine(tls=certificates) as engine:
        yield engine, certificates


async def test_an_engine_behind_tls_works(
    by_tls: tuple[SecondEngine, Certificates], default_image: ImageFacts, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, certificates = by_tls
    monkeypatch.setenv("DOCKER_HOST", engine.host)
    monkeypatch.setenv("DOCKER_TLS_VERIFY", "1")
    monkeypatch.setenv("DOCKER_CERT_PATH", str(certificates.folder))
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", "/etc/ssl/certs/ca-certificates.crt")  # is for other servers
    await engine.copy_image()
    async with Runtime([echo], sandbox=DockerBackend(), pool_size=1, limits=LIMITS) as used:
        await exercise(used)
    await no_containers(engine)


async def test_an_engine_behind_tls_that_does_not_know_us_is_told(
    by_tls: tuple[SecondEngine, Certificates], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, _ = by_tls
    monkeypatch.setenv("DOCKER_HOST", engine.host)
    monkeypatch.setenv("DOCKER_TLS_VERIFY", "1")
    monkeypatch.setenv("DOCKER_CERT_PATH", str(Certificates(tmp_path).folder))
    with anyio.fail_after(SECONDS), pytest.raises(SandboxUnavailable) as raised:
        await Engine.connect()
    assert engine.host in str(raised.value)
    assert "certificate" in str(raised.value).lower()


async def test_the_docker_context_is_honoured_then_docker_host_then_the_option(
    second: SecondEngine, engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def chosen(option: str | None = None) -> str:
        found = await Engine.connect(option)
        await found.close()
        return found.host

    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    monkeypatch.delenv("DOCKER_HOST", raising=False)
    assert await chosen() == engine.host
    create = ["docker", "context", "create", "theirs", "--docker", f"host={second.host}"]
    await anyio.run_process(create)
    await anyio.run_process(["docker", "context", "use", "theirs"])
    assert json.loads((tmp_path / "config.json").read_text())["currentContext"] == "theirs"
    assert await chosen() == second.host
    monkeypatch.setenv("DOCKER_HOST", engine.host)
    assert await chosen() == engine.host
    assert await chosen(second.host) == second.host
