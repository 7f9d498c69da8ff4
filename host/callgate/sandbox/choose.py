"""From the name of a sandbox to its backend. `auto` is the first that works here: see `callgate.sandbox.auto`."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

from callgate.errors import ConfigurationError

from .backend import Backend

__all__ = ["SANDBOXES", "make_backend"]

SANDBOXES = ("auto", "jail", "docker", "srt", "unsafe")
"""Names for `Runtime(sandbox=...)` and ``--sandbox``. ``auto`` is jail, docker or srt: see `callgate.sandbox.auto`."""


def make_backend(
    sandbox: str | Backend,
    *,
    packages: str | os.PathLike[str] | None = None,
    preimport: tuple[str, ...] = (),
    tier: int | None = None,
    image: str | None = None,
    docker_host: str | None = None,
    docker_runtime: str | None = None,
    folders: Mapping[str, str | os.PathLike[str]] | None = None,
) -> Backend:
    """The backend of that name, not yet started.

    Args:
        sandbox: a name of `SANDBOXES`, or a backend, which is returned as it is.
        packages: a folder of packages that guests may import from: see `callgate.sandbox.packages`. On Linux, ``auto``
            is the jail then.
        preimport: modules imported ahead for every guest.
        tier: insist on this tier of the jail. ``auto`` is the jail then.
        image: only for docker: the image that containers are made of.
        docker_host: only for docker: where the engine listens.
        docker_runtime: only for docker: the engine's name of what starts containers, e.g. ``runsc``.
        folders: folders that guests may read, by their names below ``/input``. On Linux, ``auto`` is the jail then.

    Raises:
        ConfigurationError: there is no sandbox of that name, or it does not have an option that was given.
    """
    if isinstance(sandbox, type):
        raise ConfigurationError(f"sandbox is a backend or a name: write sandbox={sandbox.__name__}(...)")
    if not isinstance(sandbox, str):
        for name, value in (("packages", packages), ("folders", folders)):
            if value:
                raise ConfigurationError(f"{name} are an option of the backend: {type(sandbox).__name__}({name}=...)")
        return sandbox
    if sandbox not in SANDBOXES:
        raise ConfigurationError(f"there is no sandbox {sandbox!r}; there are: {', '.join(SANDBOXES)}")
    if sandbox == "docker":
        if tier is not None:
            raise ConfigurationError("tier is for the jail: leave it out, a container has tier 2 of the jail inside")
        from .docker.backend import DockerBackend
        from .docker.image import DEFAULT_TAG

        named = DEFAULT_TAG if image is None else image
        return DockerBackend(
            image=named, docker_host=docker_host, runtime=docker_runtime, preimport=preimport, folders=folders,
            packages=packages,
        )  # fmt: skip
    for name, value in (("image", image), ("docker_host", docker_host), ("docker_runtime", docker_runtime)):
        if value is not None:
            raise ConfigurationError(
                f"{name} is for sandbox='docker', not {sandbox!r}: leave it out, or ask for docker"
            )
    if tier not in (None, 1, 2):
        raise ConfigurationError(f"the jail has tier 1 and tier 2, not {tier!r}")
    if sandbox == "unsafe":
        from .unsafe import UnsafeBackend

        if packages or preimport:
            raise ConfigurationError(
                "sandbox='unsafe' has this interpreter's own packages; leave packages and preimport out"
            )
        if folders:
            raise ConfigurationError(f"folders: {UnsafeBackend.no_files}")

        return UnsafeBackend()
    folder = None if packages is None else os.fspath(packages)
    if sandbox == "srt":
        from .srt.backend import SrtBackend

        if tier is not None:
            raise ConfigurationError("tier is for the jail: leave it out, on Linux srt has tier 2 of the jail inside")
        if folders:
            raise ConfigurationError(f"folders: {SrtBackend.no_files}")
        return SrtBackend(packages=folder, preimport=preimport)
    if sandbox == "auto" and tier is None and (sys.platform != "linux" or (packages is None and not folders)):
        from .auto import AutoBackend

        return AutoBackend(preimport=preimport, packages=folder, folders=folders)
    from .jail import JailBackend

    return JailBackend(tier=tier, packages=folder, preimport=preimport, folders=folders)
