"""What differs in podman, which answers Docker's API: what it says of itself, and options that it takes otherwise.

Seen with podman 4.3.1, as root and rootless:

1. podman reports the limits that the kernel knows, and leaves out of a container what its own cgroup may not set: on
   cgroup v1 without root, every limit. So `about` asks for the controllers that podman may use.
2. podman ignores the runtime that a container asks for. Every container gets the runtime of podman's service.
3. podman refuses ``nr_inodes``, ``uid`` and ``gid`` of a tmpfs. It knows ``U``, which is the container's user. The
   container's memory limit counts the files.
4. podman copies what the image has at the place of a tmpfs, unless the option is ``notmpcopyup``.
5. podman adds a writable tmpfs of any size at `_WRITABLE` to a read-only root. A small read-only one takes its place.
6. podman as root sets RLIMIT_NPROC to 1,048,576 unless an option does, and that needs CAP_SYS_RESOURCE.
7. podman asks systemd for a timer even where the health check is ``NONE``.
8. podman makes a folder that is to be mounted and is not there.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import Any

from callgate.errors import ConfigurationError

from .engine import Engine, EngineUnreachable

__all__ = ["about", "for_podman", "is_podman", "must_suit_podman"]

_CONTROLLERS = {"MemoryLimit": "memory", "SwapLimit": "memory", "PidsLimit": "pids", "CpuCfsQuota": "cpu"}
"""The cgroup controller behind each limit of an engine's ``info``."""
_WRITABLE = ("/run", "/var/tmp")
_NOT_KNOWN = ("nr_inodes=", "uid=", "gid=")
_CLOSED = "ro,noexec,nosuid,nodev,size=4096,mode=555,notmpcopyup"
_PROCESSES_OF_NOBODY = 16_384
"""Processes of user 65534 in all containers together. The pids limit of each container is far lower."""


async def about(engine: Engine) -> tuple[dict[str, Any], dict[str, Any]]:
    """The engine's answers to ``GET /version`` and ``GET /info``; podman's are brought into Docker's form.

    Raises:
        EngineUnreachable: the engine has gone away, or podman does not say what it can limit.
        EngineRefused: the engine answered with an error.
    """
    version, info = await engine.call("version"), await engine.call("info")
    component = _component(version)
    if component is None:
        return version, info
    try:
        place = f"/v{component['Details']['APIVersion']}/libpod/info"
        own = await engine.call_with(lambda api: api.get(f"{api.base_url}{place}", timeout=api.timeout).text)
        return version, as_docker_says(info, json.loads(own)["host"])
    except (LookupError, TypeError, ValueError) as error:
        raise EngineUnreachable(f"podman at {engine.host} does not say what it can limit: {error!r}") from error


def is_podman(version: dict[str, Any]) -> bool:
    """Whether this answer to ``GET /version`` is podman's."""
    return _component(version) is not None


def _component(version: dict[str, Any]) -> dict[str, Any] | None:
    """What podman says of itself among the engine's components; ``None`` if the engine is another."""
    components = [each for each in version.get("Components") or () if isinstance(each, dict)]
    return next((each for each in components if str(each.get("Name", "")).startswith("Podman")), None)


def as_docker_says(info: dict[str, Any], host: dict[str, Any]) -> dict[str, Any]:
    """podman's ``info`` with what Docker would say: limits that hold, the one runtime, whether podman is rootless.

    Args:
        info: podman's answer to Docker's question.
        host: the part ``host`` of podman's answer to its own question, ``GET /libpod/info``.

    Raises:
        LookupError: `host` has no list of controllers.
    """
    controllers = list(host["cgroupControllers"] or ())
    limits = {limit: info.get(limit) is True and needed in controllers for limit, needed in _CONTROLLERS.items()}
    options = list(info.get("SecurityOptions") or ())
    if info.get("Rootless") is True and "name=rootless" not in options:
        options.append("name=rootless")
    runtimes: dict[str, Any] = {str(info.get("DefaultRuntime")): {}}
    return {**info, **limits, "SecurityOptions": options, "Runtimes": runtimes}


def must_suit_podman(host: str, default: str, runtime: str | None, folders: Sequence[tuple[str, str]]) -> None:
    """Check that podman would do what the operator asks for.

    Args:
        host: where podman listens. Behind ``unix://``, podman most likely runs on this machine.
        default: the runtime of podman's service.
        runtime: the runtime that is asked for; ``None`` is any.
        folders: names and paths of folders that containers are to have.

    Raises:
        ConfigurationError: podman would take another runtime, or make one of the folders.
    """
    if runtime not in (None, default):
        raise ConfigurationError(
            f"podman at {host} runs every container with {default}, whatever runtime is asked for: start its service "
            f"with `podman --runtime {runtime} system service`, or leave out the runtime"
        )
    for name, path in folders:
        if host.startswith("unix://") and not os.path.isdir(path):
            raise ConfigurationError(
                f"folders: {name!r}: {path} is not on this machine, and podman at {host} would make an empty folder "
                "there: make the folder, or name another"
            )


def for_podman(options: dict[str, Any], *, rootless: bool) -> dict[str, Any]:
    """Options of a container, as the SDK's ``create_host_config`` takes them, with which podman does what Docker does.

    Args:
        options: those for Docker; they are not changed.
        rootless: whether podman runs as an unprivileged user, who may not raise a limit.
    """
    tmpfs = {place: _tmpfs(given) for place, given in options.get("tmpfs", {}).items()}
    adapted = {**options, "tmpfs": {**dict.fromkeys(_WRITABLE, _CLOSED), **tmpfs}}
    if not rootless:
        processes = {"Name": "nproc", "Soft": _PROCESSES_OF_NOBODY, "Hard": _PROCESSES_OF_NOBODY}
        adapted["ulimits"] = [*options["ulimits"], processes]
    return adapted


def _tmpfs(given: str) -> str:
    """Options of a tmpfs. ``U`` gives it to the container's user, whose number Docker is told."""
    parts = [part for part in given.split(",") if not part.startswith(_NOT_KNOWN)]
    return ",".join((*parts, "notmpcopyup", *(["U"] if "uid=" in given else [])))
