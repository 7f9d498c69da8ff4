"""A Docker engine of the tests' own, that they may stop, kill, hang and start again. Only root can have one.

It runs in a network namespace of its own (an engine with no bridge removes the one that it finds), keeps everything in
one folder, and gets the socket it listens at from here, as from systemd: so `tcp://127.0.0.1` works as well.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import anyio
import pytest

from callgate.sandbox.docker import image
from sandbox.docker.certificates import Certificates

__all__ = ["Podman", "SecondEngine", "WithCgroupV2", "second_engine"]

SECONDS = 60.0
SYSTEM = "unix:///var/run/docker.sock"
TRIES = 3
"""To copy an image: `docker save` may miss one that other tests are just naming anew."""


class SecondEngine:
    """Use `second_engine` to make one.

    Attributes:
        host: its address for `docker_host`.
        folder: where it keeps everything; on its removal, nothing is left.
    """

    def __init__(self, folder: Path, options: Sequence[str], *, tcp: bool, tls: Certificates | None) -> None:
        self.folder = folder
        self._options = [each.replace("{folder}", str(folder)) for each in options]
        self._client: list[str] = []
        if tls is not None:
            ca = f"--tlscacert={tls.folder}/ca.pem"
            server, client = f"{tls.folder}/server-", f"{tls.folder}/"
            self._options += ["--tlsverify", ca, f"--tlscert={server}cert.pem", f"--tlskey={server}key.pem"]
            self._client = ["--tlsverify", ca, f"--tlscert={client}cert.pem", f"--tlskey={client}key.pem"]
        self._process: subprocess.Popen[bytes] | None = None
        self._listening: socket.socket
        if tcp:
            self._listening = socket.create_server(("127.0.0.1", 0))
            self.host = f"tcp://127.0.0.1:{self._listening.getsockname()[1]}"
        else:
            self._listening = socket.socket()
            self.host = f"unix://{folder}/docker.sock"

    def _daemon(self) -> list[str]:
        return [
            *("dockerd", "-H", "fd://", "--bridge=none", "--iptables=false", "--ip6tables=false"),
            *(f"--data-root={self.folder}/data", f"--exec-root={self.folder}/exec"),
            f"--pidfile={self.folder}/docker.pid",
        ]

    def start(self) -> None:
        """Start it if it does not run, and wait until it answers."""
        if self._process is None:
            if self.host.startswith("unix://"):
                self._listening.close()
                (self.folder / "docker.sock").unlink(missing_ok=True)
                self._listening = socket.socket(socket.AF_UNIX)
                self._listening.bind(str(self.folder / "docker.sock"))
                self._listening.listen(128)
            for stale in ("docker.pid", "exec/containerd/containerd.pid"):
                (self.folder / stale).unlink(missing_ok=True)  # its number may be anybody's by now
            with open(self.folder / "log", "ab") as log:
                self._process = subprocess.Popen(
                    [
                        # descriptor 3 is where a service finds the socket that it was given
                        *("sh", "-c", 'exec 3<&0 0</dev/null; export LISTEN_FDS=1 LISTEN_PID=$$; exec "$@"', "sh"),
                        *("unshare", "--net", *self._daemon(), *self._options),
                    ],
                    stdin=self._listening.fileno(),
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
            if self.host.startswith("unix://"):
                self._listening.close()  # or nobody is refused while it is down
        until = time.monotonic() + SECONDS
        while (status := subprocess.run(self.command("version"), capture_output=True, timeout=SECONDS)).returncode:
            assert self._process.poll() is None, f"the engine ended: {self.log()}"
            assert time.monotonic() < until, f"the engine does not answer: {status.stderr!r}, {self.log()}"

    def command(self, *arguments: str) -> list[str]:
        """A command line of docker's for this engine."""
        return ["docker", "-H", self.host, *self._client, *arguments]

    def docker(self, *arguments: str) -> str:
        """What docker says when it does this here."""
        ran = subprocess.run(self.command(*arguments), capture_output=True, text=True, timeout=SECONDS)
        assert ran.returncode == 0, ran.stderr
        return ran.stdout.strip()

    async def copy_image(self) -> None:
        """Have `callgate-sandbox` there, as the engine of this machine has it."""
        wanted = ["image", "inspect", "--format={{.Id}}", image.DEFAULT_TAG]
        # a test's DOCKER_TLS_VERIFY is for this engine: Docker 20.10 would speak TLS to that of the machine, too
        system = {name: value for name, value in os.environ.items() if not name.startswith("DOCKER_")}
        for _ in range(TRIES):
            here = await anyio.run_process(["docker", "-H", SYSTEM, *wanted], env=system)
            there = await anyio.run_process(self.command(*wanted), check=False)
            if here.stdout == there.stdout:
                return
            with tempfile.TemporaryFile() as archive:
                await anyio.run_process(["docker", "-H", SYSTEM, "save", image.DEFAULT_TAG], stdout=archive, env=system)
                archive.seek(0)
                await anyio.run_process(self.command("load"), stdin=archive)
        raise AssertionError(f"the image did not arrive whole: {there.stderr!r}, {self.log()}")

    def containers(self) -> list[str]:
        """Ids of the containers that it has, those that have ended included.

        Engine 20.10, killed and started again, may go on listing one as dead that it has removed: who asks for that one
        is told that there is none.
        """
        listed = self.docker("ps", "-aq", "--no-trunc").split()
        if not listed:
            return []
        asked = self.command("container", "inspect", "--format={{.Id}}", *listed)
        ran = subprocess.run(asked, capture_output=True, text=True, timeout=SECONDS)
        there = ran.stdout.split()
        missing = [each for each in listed if each not in there]
        assert all(f"No such container: {each}" in ran.stderr for each in missing), ran.stderr
        return there

    def log(self) -> str:
        """The end of what it wrote."""
        return (self.folder / "log").read_text()[-3000:]

    def signal(self, number: int) -> None:
        """Send it a signal."""
        assert self._process is not None
        self._process.send_signal(number)

    def kill(self) -> None:
        """End it as a crash would."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """End it as an operator would: it ends its containers first."""
        self._end(signal.SIGTERM)

    def _end(self, number: int) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGCONT)
            self._process.send_signal(number)
            self._process.wait(SECONDS)
            self._process = None

    def processes(self) -> list[int]:
        """Its processes: the engine, containerd, a shim for each container, what a runtime had begun to start."""
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and int(entry.name) != os.getpid():
                with contextlib.suppress(OSError):
                    of_it = os.fsencode(self.folder) in (entry / "cmdline").read_bytes()
                    # `runc init` waits for ever where the engine was killed between creating and starting a container
                    opened = (os.readlink(each) for each in (entry / "fd").iterdir())
                    if of_it or any(each.startswith(f"{self.folder}/") for each in opened):
                        found.append(int(entry.name))
        return found

    def remove(self) -> None:
        """End it and everything it started, and leave no file and no mount."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._end(signal.SIGTERM)
        self._listening.close()
        until = time.monotonic() + SECONDS
        while (left := self.processes()) and time.monotonic() < until:
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        for line in reversed(Path("/proc/self/mounts").read_text().splitlines()):
            if (place := line.split()[1]).startswith(f"{self.folder}/"):
                subprocess.run(["umount", "-l", place], check=False, timeout=SECONDS)
        shutil.rmtree(self.folder, ignore_errors=True)


class WithCgroupV2(SecondEngine):
    """dockerd where version 2 is the only version of cgroups. Controllers that the machine uses in version 1 are in
    that version alone, so an engine in here may have none of them."""

    def _daemon(self) -> list[str]:
        mount = 'umount -R /sys/fs/cgroup && mount -t cgroup2 cgroup2 /sys/fs/cgroup && exec "$@"'
        return ["unshare", "--mount", "sh", "-c", mount, "sh", *super()._daemon()]


class Podman(SecondEngine):
    """podman's service for Docker's API, with a store and locks of its own."""

    def _daemon(self) -> list[str]:
        # crun does not run on a machine with both versions of cgroups, runc does
        settings = (
            f'[engine]\ncgroup_manager = "cgroupfs"\nevents_logger = "none"\nlock_type = "file"\nruntime = "runc"\n'
            f'tmp_dir = "{self.folder}/tmp"\n'
        )
        (self.folder / "containers.conf").write_text(settings)
        return [
            *("env", f"CONTAINERS_CONF={self.folder}/containers.conf", "podman", f"--root={self.folder}/data"),
            *(f"--runroot={self.folder}/exec", "system", "service", "--time=0"),
        ]


@contextlib.contextmanager
def second_engine(
    *options: str,
    tcp: bool = False,
    tls: Certificates | None = None,
    files: dict[str, str] | None = None,
    kind: type[SecondEngine] = SecondEngine,
) -> Iterator[SecondEngine]:
    """An engine of one's own, running; skips where this user cannot start one.

    Args:
        options: of dockerd; ``{folder}`` is its folder.
        tcp: listen at a port of 127.0.0.1 instead of a unix socket.
        tls: the same, with TLS, for the clients that these certificates know.
        files: to write into its folder first.
        kind: what it is; podman has neither `tls` nor options of dockerd.
    """
    daemon = "podman" if kind is Podman else "dockerd"
    if os.geteuid() != 0 or shutil.which(daemon) is None or shutil.which("docker") is None:
        reason = f"a second engine needs root, {daemon} and docker"
        if os.environ.get("CI") == "true" and os.geteuid() == 0:
            pytest.fail(reason)
        pytest.skip(reason)
    folder = Path(tempfile.mkdtemp(prefix="callgate-engine-"))  # short: a socket's path is at most 108 bytes
    for name, text in (files or {}).items():
        (folder / name).write_text(text.replace("{folder}", str(folder)))
    engine = kind(folder, options, tcp=tcp or tls is not None, tls=tls)
    try:
        engine.start()
        yield engine
    finally:
        engine.remove()
