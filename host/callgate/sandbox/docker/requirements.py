"""What a backend needs of an engine before the first container: the runtime, the image, and that image's guest."""

from __future__ import annotations

import logging
from dataclasses import replace

from callgate.errors import ConfigurationError, SandboxUnavailable

from .container import ContainerSettings
from .engine import Engine, EngineRefused
from .hardening import missing_limits
from .image import DEFAULT_TAG, guest_digest

__all__ = ["settle"]

logger = logging.getLogger("callgate")


async def settle(engine: Engine, wanted: ContainerSettings) -> tuple[ContainerSettings, str]:
    """The settings as this engine can keep them, the image named by its id; and the runtime's name, for people.

    An image's name may come to mean another image while a backend is at work; its id does not.

    Raises:
        SandboxUnavailable: the image is not there, or holds another guest.
        ConfigurationError: there is no such runtime.
    """
    info = await engine.call("info")
    for what in missing_limits(info):
        logger.warning("the Docker engine at %s cannot limit %s", engine.host, what)
    runtimes = sorted(name for name in info.get("Runtimes") or () if not name.startswith("io.containerd."))
    runtime = wanted.runtime
    if runtime is not None and runtime not in runtimes and not runtime.startswith("io.containerd."):
        raise ConfigurationError(
            f"the Docker engine at {engine.host} has no runtime {runtime!r}; it has: {', '.join(runtimes)}. "
            "Install it and name it in the engine's daemon.json"
        )
    machine = info.get("NCPU")
    if isinstance(machine, int) and wanted.cpus > machine:
        raise ConfigurationError(f"cpus is {wanted.cpus:g}, and the engine at {engine.host} has {machine} processors")
    settled = replace(wanted, image=await _image_id(engine, wanted.image), swap=info.get("SwapLimit") is not False)
    return settled, runtime or str(info.get("DefaultRuntime") or "the engine's default runtime")


def _tag(image: str) -> str:
    return "" if image == DEFAULT_TAG else f" --tag {image}"


async def _image_id(engine: Engine, image: str) -> str:
    try:
        found = await engine.call("inspect_image", image)
    except EngineRefused as error:
        if error.status != 404:
            raise
        raise SandboxUnavailable(
            f"the Docker engine at {engine.host} has no image {image!r}: "
            f"build it with `callgate image build{_tag(image)}` (where there is no registry, with --base host)"
        ) from error
    digest = ((found.get("Config") or {}).get("Labels") or {}).get("callgate.guest")
    if digest is None:
        raise SandboxUnavailable(
            f"the image {image!r} was not made by `callgate image build`: build one FROM your own with "
            f"`callgate image build --base {image} --tag NAME`, and name that"
        )
    if digest != guest_digest():
        raise SandboxUnavailable(
            f"the image {image!r} was built for another version of callgate: "
            f"run `callgate image build{_tag(image)}` again, with the --base and --requirements that it was built with"
        )
    return str(found["Id"])
