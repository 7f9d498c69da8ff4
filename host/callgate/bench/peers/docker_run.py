"""The peer that everybody has: ``docker run --rm``, with the flags that callgate gives its own containers."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Mapping, Sequence
from typing import Any

from callgate.bench.peers.process import PeerFailed
from callgate.limits import Limits
from callgate.sandbox.backend import Allowance
from callgate.sandbox.docker.hardening import NOBODY, container_options

__all__ = ["DockerRun", "flags"]

_RUN_SECONDS = 60.0
_FLAGS = {
    "network_mode": "--network", "ipc_mode": "--ipc", "pids_limit": "--pids-limit", "mem_limit": "--memory",
    "memswap_limit": "--memory-swap", "cap_drop": "--cap-drop",
    "security_opt": "--security-opt", "runtime": "--runtime",
}  # fmt: skip
_SWITCHES = {"read_only": "--read-only", "auto_remove": "--rm", "init": "--init"}


class DockerRun:
    """``docker run`` of a Python that prints 2.

    Args:
        image: an image of callgate's.
        limits: what the container is given.
        host: where the engine listens.
        label: what the container is labelled with.
    """

    name = "docker run"

    def __init__(self, image: str, limits: Limits, *, host: str, label: str) -> None:
        self._docker = shutil.which("docker")
        options = container_options(Allowance.of(limits), cpus=1.0, own_files=True, runtime=None)
        self._before = [self._docker or "docker", "--host", host, "run"]
        self._after = [
            "--label", label, "--user", NOBODY, *flags(options), "--entrypoint", "/python/bin/python3", image,
            "-I", "-S", "-B", "-c",
        ]  # fmt: skip

    def run(self) -> float:
        """Run it once; returns how long that took, in seconds. Blocks. Raises `PeerFailed`."""
        started = time.perf_counter()
        said = self._said([*self._before, *self._after, "print(1 + 1)"])
        took = time.perf_counter() - started
        if said != "2":
            raise PeerFailed(f"it printed {said[:100]!r}")
        return took

    def idle(self) -> str:
        """Start a Python that does nothing for an hour; returns its container's id. Blocks. Raises `PeerFailed`."""
        return self._said([*self._before, "--detach", *self._after, "import time; time.sleep(3600)"])

    def _said(self, command: list[str]) -> str:
        if self._docker is None:
            raise PeerFailed("the docker command is not installed")
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=_RUN_SECONDS, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise PeerFailed(str(error)[:200]) from None
        if done.returncode:
            raise PeerFailed(done.stderr.strip().replace("\n", " ")[:200] or f"status {done.returncode}")
        return done.stdout.strip()


def flags(options: Mapping[str, Any]) -> list[str]:
    """A HostConfig, as `container_options` gives it, in the docker command's words.

    Raises:
        KeyError: there is an option that this does not know: the peer would be less hardened than we are.
    """
    found: list[str] = []
    for name, value in options.items():
        if name in _SWITCHES:
            found += [_SWITCHES[name]] if value else []
        elif name == "nano_cpus":
            found += ["--cpus", f"{value / 1e9:g}"]
        elif name == "log_config":
            found += ["--log-driver", value["Type"]]
        elif name == "ulimits":
            found += [word for each in value for word in ("--ulimit", f"{each['Name']}={each['Soft']}:{each['Hard']}")]
        elif name == "tmpfs":
            found += [word for path, how in value.items() for word in ("--tmpfs", f"{path}:{how}")]
        else:
            values: Sequence[Any] = value if isinstance(value, list) else [value]
            found += [word for each in values for word in (_FLAGS[name], str(each))]
    return found
