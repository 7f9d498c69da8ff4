"""An engine on the other side of an ssh connection, as `docs/isolation.md` describes it: its socket is forwarded."""

from __future__ import annotations

import contextlib
import gc
import getpass
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from callgate import DockerBackend, Limits, Runtime
from callgate.errors import ConfigurationError, SandboxUnavailable
from callgate.sandbox.docker.engine import Engine
from callgate.sandbox.docker.image import ImageFacts
from sandbox.docker.owned import none_left

pytestmark = [
    pytest.mark.anyio,
    # the SDK leaves a connection that is refused to the garbage collector
    pytest.mark.filterwarnings("ignore:unclosed <socket.socket:ResourceWarning"),
]

SECONDS = 60.0
LIMITS = Limits(memory_bytes=64 << 20)


class Connection:
    """An sshd on a port of 127.0.0.1, and an ssh that forwards the engine's socket through it.

    Attributes:
        host: the address for `docker_host`.
    """

    def __init__(self, folder: Path, engine: str) -> None:
        self._folder = folder
        self._engine = engine
        with socket.create_server(("127.0.0.1", 0)) as free:
            self._port = free.getsockname()[1]
        for name in ("key", "host_key"):
            made = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)]
            subprocess.run(made, check=True, timeout=SECONDS)
        known = f"[127.0.0.1]:{self._port} {(folder / 'host_key.pub').read_text()}"
        (folder / "known").write_text(known)
        (folder / "sshd_config").write_text(
            f"Port {self._port}\nListenAddress 127.0.0.1\nHostKey {folder}/host_key\nPidFile none\nUsePAM no\n"
            f"AuthorizedKeysFile {folder}/key.pub\nStrictModes no\nPermitRootLogin prohibit-password\n"
        )
        self.host = f"unix://{folder}/docker.sock"
        self._server = self._started("/usr/sbin/sshd", "-D", "-e", "-f", f"{folder}/sshd_config")
        self._client: subprocess.Popen[bytes] | None = None

    def _started(self, *command: str) -> subprocess.Popen[bytes]:
        with (self._folder / "log").open("ab") as log:
            return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def connect(self) -> None:
        """Forward the socket, and wait until the forwarded one is there."""
        local = self._folder / "docker.sock"
        options = ["ExitOnForwardFailure=yes", "BatchMode=yes", f"UserKnownHostsFile={self._folder}/known"]
        until = time.monotonic() + SECONDS
        while not local.exists():
            assert time.monotonic() < until, (self._folder / "log").read_text()
            if self._client is None or self._client.poll() is not None:  # sshd may not listen yet
                self._client = self._started(
                    "ssh", "-nNT", *(part for each in options for part in ("-o", each)), "-i", f"{self._folder}/key",
                    "-p", str(self._port), "-L", f"{local}:{self._engine}", f"{getpass.getuser()}@127.0.0.1",
                )  # fmt: skip
            time.sleep(0.05)

    def cut(self) -> None:
        """End the connection, as a network does."""
        assert self._client is not None
        self._client.kill()
        self._client.wait(SECONDS)
        (self._folder / "docker.sock").unlink(missing_ok=True)

    def close(self) -> None:
        for process in (self._client, self._server):
            if process is not None:
                process.terminate()
                process.wait(SECONDS)


@pytest.fixture
def connection(engine: Engine) -> Iterator[Connection]:
    missing = [each for each in ("ssh", "ssh-keygen", "/usr/sbin/sshd") if shutil.which(each) is None]
    if missing or os.geteuid() != 0:
        reason = f"an sshd needs root, and: {', '.join(missing) or 'nothing more'} (apt install openssh-server)"
        if os.environ.get("CI") == "true" and os.geteuid() == 0:
            pytest.fail(reason)
        pytest.skip(reason)
    Path("/run/sshd").mkdir(exist_ok=True)  # sshd gives up its rights in there
    with tempfile.TemporaryDirectory(prefix="callgate-ssh-") as folder:
        made = Connection(Path(folder), engine.host.removeprefix("unix://"))
        with contextlib.closing(made):
            made.connect()
            yield made
            gc.collect()  # while the mark above holds


async def test_programs_run_on_an_engine_behind_ssh_and_again_after_the_connection_broke(
    connection: Connection, engine: Engine, default_image: ImageFacts, caplog: pytest.LogCaptureFixture
) -> None:
    asked = anyio.Event()

    async def wait() -> None:
        asked.set()
        await anyio.sleep_forever()

    async def double(number: int) -> int:
        return number * 2

    backend = DockerBackend(docker_host=connection.host)
    with anyio.fail_after(SECONDS):
        async with Runtime([double, wait], sandbox=backend, pool_size=0, limits=LIMITS) as runtime:
            result = await runtime.execute_code("print('y' * 100_000)\n[await double(21)][0]", path="sandbox")
            assert (result.value, len(result.logs)) == (42, 100_001), result.error
            async with anyio.create_task_group() as tasks:

                async def cut() -> None:
                    await asked.wait()
                    connection.cut()

                tasks.start_soon(cut)
                result = await runtime.execute_code("await wait()", path="sandbox")
            assert result.error is not None
            assert result.error.kind == "SandboxCrashed"
            with pytest.raises(SandboxUnavailable, match="no Docker engine listens at unix://"):
                await runtime.execute_code("1", path="sandbox")
            connection.connect()
            assert (await runtime.execute_code("1 + 1", path="sandbox")).value == 2
    await none_left(engine)
    caplog.clear()  # its records hold errors, which hold what the mark above is for


async def test_an_address_of_ssh_is_refused_with_the_command_that_forwards_the_socket() -> None:
    with pytest.raises(ConfigurationError) as raised:
        async with DockerBackend(docker_host="ssh://me@build-7"):
            pass
    assert "docker_host 'ssh://me@build-7': callgate does not speak ssh itself" in str(raised.value)
    assert "ssh -NL /tmp/docker.sock:/var/run/docker.sock HOST" in str(raised.value)
