"""Builds the image that guests run in, and looks one up. Knows the engine and `Dockerfile.sandbox`.

1. A build makes one image and one tag. Intermediate images have the label ``callgate.build`` with the id of the build,
   and are removed when the build ends: done, failed or cancelled.
2. The Dockerfile takes two requests. The first collects the files and reports what they are. The second finds the files
   in the engine's cache, and writes the report into labels.
3. Where this machine is the base, the files are collected here, by the same code, and imported as the image.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import re
import sys
import tempfile
import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread

from callgate.errors import ConfigurationError, SandboxError, SandboxUnavailable

from . import build_context
from .build_context import DOCKERFILE, BuildOutput, guest_digest
from .engine import Engine, EngineRefused

__all__ = [
    "DEFAULT_BASE", "DEFAULT_TAG", "HOST", "ImageFacts", "ImageUnusable", "build", "find", "guest_digest", "usable",
]  # fmt: skip

DEFAULT_BASE = "python:3.13-slim"
DEFAULT_TAG = "callgate-sandbox"
HOST = "host"
"""Name of the base that is made of the Python that runs callgate."""

_SILENT_SECONDS = 1800
"""Longest silence of a step: a step may compile, or pip may resolve."""
_CLEAN_SECONDS = 60.0
_LOOK_SECONDS = 0.1
_REFERENCE = re.compile(r"[a-z0-9][a-zA-Z0-9._/:@-]*")
_PASSED_ON = ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_TRUSTED_HOST")
"""Variables of this process that tell pip in the base which index to use."""


@dataclass(frozen=True)
class ImageFacts:
    """What is known of an image.

    Attributes:
        tag: the name by which it was found.
        id: the engine's id, ``sha256:...``.
        size_bytes: size of all its layers, unpacked.
        created: time of creation, ISO 8601.
        python: version of its Python, e.g. ``3.13.1``; ``""`` if the image does not say.
        guest: digest of its guest, see `guest_digest`; ``""`` if the image does not say.
        packages: names and versions of packages that programs may import, ``numpy==2.1.0``.
    """

    tag: str
    id: str
    size_bytes: int
    created: str
    python: str
    guest: str
    packages: tuple[str, ...]

    @property
    def outdated(self) -> bool:
        """Whether the image holds the guest of another callgate, and has to be built again."""
        return self.guest != guest_digest()


async def find(engine: Engine, tag: str = DEFAULT_TAG) -> ImageFacts | None:
    """What is known of the image; ``None`` if the engine has no image of that name.

    Raises:
        ConfigurationError: the tag is not a name of an image. Else as `Engine.call`.
    """
    _check_name("tag", tag)
    try:
        found = await engine.call("inspect_image", tag)
    except EngineRefused as error:
        if error.status == 404:
            return None
        raise
    labels = found["Config"].get("Labels") or {}
    return ImageFacts(
        tag=tag,
        id=found["Id"],
        size_bytes=found["Size"],
        created=found["Created"],
        python=labels.get("callgate.python", ""),
        guest=labels.get("callgate.guest", ""),
        packages=tuple(labels.get("callgate.packages", "").split()),
    )


class ImageUnusable(SandboxUnavailable):
    """The engine has no image of that name that holds this callgate's guest.

    Attributes:
        found: what is wrong.
        remedy: what to do.
        image: the image, if there is one.
    """

    def __init__(self, found: str, remedy: str, image: ImageFacts | None = None) -> None:
        super().__init__(f"{found}: {remedy}")
        self.found = found
        self.remedy = remedy
        self.image = image


async def usable(engine: Engine, tag: str = DEFAULT_TAG) -> ImageFacts:
    """What is known of an image whose guest is this callgate's.

    Raises:
        ImageUnusable: there is no image of that name, or it holds another guest, or none.
    """
    image = await find(engine, tag)
    again = "callgate image build" + ("" if tag == DEFAULT_TAG else f" --tag {tag}")
    if image is None:
        found = f"the Docker engine at {engine.host} has no image {tag!r}"
        remedy = f"build it with `{again}` (where there is no registry, with --base host)"
    elif not image.guest:
        found = f"the image {tag!r} was not made by `callgate image build`"
        remedy = f"build one FROM your own with `callgate image build --base {tag} --tag NAME`, and name that"
    elif image.outdated:
        packages = f' --requirements "{" ".join(image.packages)}"' if image.packages else ""
        found = f"the image {tag!r} is outdated, it was built for another version of callgate"
        remedy = f"run `{again}{packages}` again, with the --base that it was built with"
    else:
        return image
    raise ImageUnusable(found, remedy, image)


async def build(
    engine: Engine,
    *,
    base: str = DEFAULT_BASE,
    requirements: str = "",
    tag: str = DEFAULT_TAG,
    on_progress: Callable[[str], None] | None = None,
    network: str | None = None,
) -> ImageFacts:
    """Build the image and tag it. An older image that loses its only tag is removed.

    Args:
        base: an image with Python 3.11 or newer, pulled where the engine does not have it; ``"host"`` makes it of the
            Python that runs this, and needs no registry.
        requirements: what programs may import: the path of a requirements file, its lines, or requirements with spaces
            between them. pip installs them in the base, or on this machine if that is the base.
        tag: the name of the image.
        on_progress: called with each line of the build's output.
        network: the network of the steps, as the engine names them (``"host"``, ``"none"``); ``None`` is the engine's
            own choice. No effect if this machine is the base.

    Raises:
        ConfigurationError: the tag is not a name of an image, or the requirements file cannot be read.
        EngineUnreachable: the engine went away.
        SandboxError: the base cannot be pulled, or a step failed: the message has the step and its last lines.
    """
    _check_name("tag", tag)
    _check_name("base", base)
    if base == HOST and sys.platform != "linux":
        raise ConfigurationError("base 'host' takes this machine's Python, and containers need Linux's: name an image")
    text = build_context.requirement_text(requirements)
    making = _Build(engine, tag, on_progress or (lambda _: None))
    with tempfile.TemporaryDirectory(prefix="callgate-image-") as folder:
        try:
            if base == HOST:
                await making.of_this_python(text, Path(folder))
            else:
                await making.of_a_base(base, text, network, Path(folder))
            return await making.named()
        finally:
            with anyio.move_on_after(_CLEAN_SECONDS, shield=True), contextlib.suppress(SandboxError):
                await making.clean()


def _check_name(option: str, value: str) -> None:
    if not _REFERENCE.fullmatch(value):
        raise ConfigurationError(f"{option} {value!r} is not a name of an image: write e.g. callgate-sandbox:2")


class _Build:
    """One build: its id, the image that it has made, and the removal of the rest."""

    def __init__(self, engine: Engine, tag: str, say: Callable[[str], None]) -> None:
        self._engine = engine
        self._tag = tag
        self._say = say
        self._id = uuid.uuid4().hex[:12]
        self._label = {"label": f"callgate.build={self._id}"}
        self._built = ""

    async def of_this_python(self, requirements: str, folder: Path) -> None:
        """Make the image of this machine's Python."""
        self._say(f"collecting this machine's Python {platform.python_version()}")
        labels = _labels(await build_context.collect(folder / "root", requirements, self._say))
        self._say("making the image")
        await anyio.to_thread.run_sync(build_context.pack, folder / "root", folder / "root.tar")

        def bring_in(api: Any) -> None:
            answer = api.import_image(str(folder / "root.tar"), changes=build_context.settings_of_image(labels))
            self._built = json.loads(answer.splitlines()[-1])["status"]

        await self._engine.call_with(bring_in)

    async def of_a_base(self, base: str, requirements: str, network: str | None, folder: Path) -> None:
        """Make the image of the Python in the image `base`; the engine pulls one that it does not have."""
        build_context.lay_out(folder)
        arguments = {"BASE": base, "BUILD": self._id, "REQUIREMENTS": requirements}
        arguments |= {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
        options = {"path": str(folder), "dockerfile": DOCKERFILE} | ({"network_mode": network} if network else {})
        self._say("collecting the image's files")
        try:
            facts = await self._request(options | {"buildargs": arguments, "target": "collected"})
        except SandboxError as error:
            if await find(self._engine, base) is not None:
                raise
            raise SandboxError(
                f"the base image {base} is not on this engine and cannot be pulled ({str(error).splitlines()[-1]}): "
                "check its name; without a registry, make the base of this machine's Python (callgate image build "
                f"--base host), or bring the image from a machine that has it (`docker save {base}` there, "
                "`docker load` here)"
            ) from error
        if not facts:
            raise SandboxError(f"the base {base} did not say what it collected: is its python3 a Python?")
        self._say("making the image")
        await self._request(options | {"buildargs": arguments | _labels(facts)})

    async def _request(self, options: dict[str, Any]) -> dict[str, Any]:
        """One request to build; returns what it reported of the files. When this returns or raises, the engine has
        ended the build.

        Raises:
            SandboxError: a step failed; the message names it.
        """
        output = BuildOutput(lambda line: self._say(line))
        failures: list[SandboxError] = []
        async with anyio.create_task_group() as tasks:
            over = anyio.CancelScope(shield=True)
            tasks.start_soon(self._stop_it, over)
            with over:
                try:
                    await self._listen(output, options)
                except SandboxError as error:
                    failures.append(error)  # raised here, the error would be in a group
            tasks.cancel_scope.cancel()
            over.cancel()
        await anyio.lowlevel.checkpoint_if_cancelled()
        for failure in failures:
            raise failure
        return output.facts

    async def _listen(self, output: BuildOutput, options: dict[str, Any]) -> None:
        what = f"building the image {self._tag}"
        options |= {"rm": True, "forcerm": True, "decode": True, "timeout": _SILENT_SECONDS}
        try:
            async with contextlib.aclosing(self._engine.stream("build", **options)) as pieces:
                async for piece in pieces:
                    output.take(piece.get("stream", ""))
                    self._built = piece.get("aux", {}).get("ID", self._built)
                    if "error" in piece:
                        raise output.failed(what, piece["error"])
        except EngineRefused as error:
            raise output.failed(what, str(error)) from error

    async def _stop_it(self, over: anyio.CancelScope) -> None:
        """When the build is cancelled: kill the running step, so that the build ends in the engine, too."""
        try:
            await anyio.sleep_forever()
        finally:
            if not over.cancel_called:
                self._say = lambda _: None
            with anyio.move_on_after(_CLEAN_SECONDS, shield=True), contextlib.suppress(SandboxError):
                while not over.cancel_called:
                    for container in await self._engine.call("containers", filters=self._label):
                        with contextlib.suppress(EngineRefused):
                            await self._engine.call("kill", container["Id"])
                    await anyio.sleep(_LOOK_SECONDS)
            over.cancel()

    async def named(self) -> ImageFacts:
        """Give the image its name, and return what is known of the image."""
        made = await find(self._engine, self._built)
        # asked as late as possible: another build may take the name meanwhile
        before = await find(self._engine, self._tag)
        await self._engine.call("tag", self._built, self._tag)
        assert made is not None
        if before is not None and before.id != made.id:
            await self._forget(before.id)
        return replace(made, tag=self._tag)

    async def _forget(self, image: str) -> None:
        """Remove an image that has lost its only tag to this build; an image that a container uses stays."""
        try:
            if not (await self._engine.call("inspect_image", image))["RepoTags"]:
                await self._engine.call("remove_image", image)
        except EngineRefused as error:
            if error.status == 409:
                self._say(f"a container still uses the older image: docker image rm {image} removes it later")

    async def clean(self) -> None:
        """Remove intermediate images, and the image itself if it did not get its tag."""
        if self._built:
            await self._forget(self._built)
        # the engine's own prune refuses to run twice at the same time
        for dangling in await self._engine.call("images", filters={**self._label, "dangling": True}):
            with contextlib.suppress(EngineRefused):
                await self._engine.call("remove_image", dangling["Id"])


def _labels(facts: dict[str, Any]) -> dict[str, str]:
    """Labels of the image, as arguments of the Dockerfile."""
    return {"PYTHON": facts["python"], "PACKAGES": " ".join(facts["packages"]), "GUEST": guest_digest()}
