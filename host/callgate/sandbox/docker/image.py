"""Builds the image that guests run in, and says what is known of one. Knows the engine and `Dockerfile.sandbox`.

1. A build makes one image and one tag. What it makes on the way has the label ``callgate.build`` with an id of its own,
   and goes when the build ends: done, failed or cancelled.
2. It runs in two requests: the first collects the files and tells what they are, the second, which finds them in the
   engine's cache, writes that into labels.
"""

from __future__ import annotations

import contextlib
import json
import platform
import re
import shutil
import sys
import tempfile
import uuid
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any, cast

import anyio
import anyio.lowlevel
import anyio.to_thread

from callgate.errors import ConfigurationError, SandboxError
from callgate.sandbox.docker import build_context
from callgate.sandbox.docker.build_context import DOCKERFILE, LastWords, guest_digest
from callgate.sandbox.docker.engine import Engine, EngineRefused, EngineUnreachable

__all__ = ["DEFAULT_BASE", "DEFAULT_TAG", "HOST", "ImageFacts", "build", "find", "guest_digest"]

DEFAULT_BASE = "python:3.13-slim"
DEFAULT_TAG = "callgate-sandbox"
HOST = "host"
"""The base that is made of the Python that runs callgate."""

_BUILD_SECONDS = 3600.0
_SILENT_SECONDS = 1800
"""A step may compile, or pip may resolve, without a word."""
_CLEAN_SECONDS = 60.0
_LOOK_SECONDS = 0.1
_LONGEST_LINE = 1 << 20
_STEP_CHARACTERS = 60
_FACTS = "callgate-facts "
_COLOUR = re.compile(r"\x1b\[[\d;]*m")
"""The engine paints what came from stderr."""
_CHATTER = re.compile(r" ---> ?|Removing intermediate container |Successfully (built|tagged) ")
"""What the engine says of its own steps, between the words of the programs that they run."""
_HOST_ENVIRONMENT = ("ENV PATH=/python/bin", "ENV LD_LIBRARY_PATH=/lib")
_REFERENCE = re.compile(r"[a-z0-9][a-zA-Z0-9._/:@-]*")


@dataclass(frozen=True)
class ImageFacts:
    """What is known of an image.

    Attributes:
        tag: the name it was asked for by.
        id: the engine's, ``sha256:...``.
        size_bytes: of all its layers, unpacked.
        created: when, ISO 8601.
        python: its version, e.g. ``3.13.1``; ``""`` where the image does not say.
        guest: the digest of the guest it holds, see `guest_digest`; ``""`` where the image does not say.
        packages: names and versions of what programs may import besides the standard library, ``numpy==2.1.0``.
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
        """Whether it holds another guest than this callgate's, so that it has to be built again."""
        return self.guest != guest_digest()


async def find(engine: Engine, tag: str = DEFAULT_TAG) -> ImageFacts | None:
    """What is known of the image; ``None`` where the engine has none of that name.

    Raises:
        ConfigurationError: the tag is no name of an image. Else as `Engine.call`.
    """
    _check_name("tag", tag)
    try:
        told = await engine.call("inspect_image", tag)
    except EngineRefused as error:
        if error.status == 404:
            return None
        raise
    labels = told["Config"].get("Labels") or {}
    return ImageFacts(
        tag=tag,
        id=told["Id"],
        size_bytes=told["Size"],
        created=told["Created"],
        python=labels.get("callgate.python", ""),
        guest=labels.get("callgate.guest", ""),
        packages=tuple(labels.get("callgate.packages", "").split()),
    )


async def build(
    engine: Engine,
    *,
    base: str = DEFAULT_BASE,
    requirements: str | Path | Sequence[str] = (),
    tag: str = DEFAULT_TAG,
    on_progress: Callable[[str], None] | None = None,
    network: str | None = None,
) -> ImageFacts:
    """Build the image and tag it; an older image that loses the tag, and has no other, is removed.

    Args:
        base: an image with Python 3.11 or newer, pulled where the engine does not have it; ``"host"`` makes it of the
            Python that runs this, and needs no registry.
        requirements: what programs may import: a requirements file, or requirements; see `requirement_text`. They are
            installed with pip: in the base, or on this machine where that is the base.
        tag: the name to give.
        on_progress: called with each line that the engine or pip says.
        network: the network of the steps, as the engine names them (``"host"``, ``"none"``); ``None`` is the engine's
            own choice, and none at all where this machine is the base.

    Raises:
        ConfigurationError: the tag is no name of an image, or the requirements file cannot be read.
        EngineUnreachable: the engine went away.
        SandboxError: the base cannot be had, or a step failed: the message has the step and its last words.
    """
    _check_name("tag", tag)
    _check_name("base", base)
    if base == HOST and sys.platform != "linux":
        raise ConfigurationError("base 'host' takes this machine's Python, and containers need Linux's: name an image")
    text = build_context.requirement_text(requirements)
    making = _Build(engine, tag, on_progress or (lambda _: None))
    folder = Path(await anyio.to_thread.run_sync(tempfile.mkdtemp, None, "callgate-image-"))
    try:
        with anyio.fail_after(_BUILD_SECONDS):
            return await making.run(base, text, network, folder)
    except TimeoutError:
        raise SandboxError(f"the image {tag} was not built within {_BUILD_SECONDS:g} s, and was given up") from None
    finally:
        with anyio.move_on_after(_CLEAN_SECONDS, shield=True):
            await anyio.to_thread.run_sync(lambda: shutil.rmtree(folder, ignore_errors=True))
            with contextlib.suppress(SandboxError):
                await making.clean()


def _check_name(option: str, value: str) -> None:
    if not _REFERENCE.fullmatch(value):
        raise ConfigurationError(f"{option} {value!r} is no name of an image: write e.g. callgate-sandbox:2")


class _Build:
    """One build: its id, what it heard last, and what it leaves behind."""

    def __init__(self, engine: Engine, tag: str, say: Callable[[str], None]) -> None:
        self._engine = engine
        self._tag = tag
        self._say = say
        self._id = uuid.uuid4().hex[:12]
        self._host_base = f"callgate-base:host-{platform.python_version().replace('+', '-')}-{self._id}"
        self._label = {"label": f"callgate.build={self._id}"}
        self._built = ""
        self._imported = False
        self._facts: dict[str, Any] = {}

    async def run(self, base: str, requirements: str, network: str | None, folder: Path) -> ImageFacts:
        packages = None
        if base == HOST:
            if requirements:
                packages = folder / "packages"
                await build_context.install(requirements, packages, self._say)
            await self._import_host(folder, packages)
            base, network, requirements = self._host_base, network or "none", ""
        else:
            await self._have(base)
        with tempfile.TemporaryFile() as context:
            guest = await anyio.to_thread.run_sync(build_context.write_context, context, packages)
            arguments = {"BASE": base, "BUILD": self._id, "REQUIREMENTS": requirements}
            arguments |= build_context.pip_settings()
            self._say("collecting the image's files")
            await self._request(context, arguments, network, target="collected")
            self._say("making the image")
            if not self._facts:
                raise SandboxError(f"the base {base} did not say what it collected: is its python3 a Python?")
            told = {"PYTHON": self._facts["python"], "PACKAGES": " ".join(self._facts["packages"])}
            await self._request(context, arguments | told | {"GUEST": guest}, network)
        # only now, so that of builds at the same time each knows which image it takes the tag of
        before = await find(self._engine, self._tag)
        name, _, version = self._tag.rpartition(":") if ":" in self._tag.rpartition("/")[2] else (self._tag, "", None)
        await self._engine.call("tag", self._built, name, version)
        if before is not None and before.id != self._built:
            await self._forget(before.id)
        made = await find(self._engine, self._built)
        if made is None:
            raise SandboxError(f"the image {self._tag} was built and is not there any more: somebody removed it")
        return replace(made, tag=self._tag)

    async def _have(self, base: str) -> None:
        """Pull `base` where the engine has no such image."""
        if await find(self._engine, base) is not None:
            return
        self._say(f"pulling {base}")
        why = ""
        try:
            async with self._said("pull", base, stream=True, decode=True) as pieces:
                async for piece in pieces:
                    why = piece.get("error", why)
                    # no line for each piece of each layer
                    if "status" in piece and not piece.get("progressDetail"):
                        self._say(": ".join(part for part in (piece.get("id"), piece["status"]) if part))
        except EngineRefused as error:
            why = str(error)
        if why or await find(self._engine, base) is None:
            raise SandboxError(
                f"the base image {base} is not on this engine and cannot be pulled ({why.strip()}): check its name; "
                "without a registry, make the base of this machine's Python (callgate image build --base host), or "
                f"bring the image from a machine that has it (`docker save {base}` there, `docker load` here)"
            )

    async def _import_host(self, folder: Path, packages: Path | None) -> None:
        """Make an image of this machine's Python."""
        self._say(f"collecting this machine's Python {platform.python_version()}")
        root = folder / "base"
        await build_context.collect_base(root, packages, self._say)
        packed = folder / "base.tar"
        await anyio.to_thread.run_sync(_pack, root, packed)
        repository, _, name = self._host_base.partition(":")
        changes = [*_HOST_ENVIRONMENT, f"LABEL callgate.build={self._id}"]
        self._imported = True
        await self._engine.call("import_image", str(packed), repository=repository, tag=name, changes=changes)
        packed.unlink()

    async def _request(
        self, context: IO[bytes], arguments: dict[str, str], network: str | None, **options: str
    ) -> None:
        """One build, which is over in the engine when this returns or raises.

        Raises:
            SandboxError: with the step that failed.
        """
        context.seek(0)
        options |= {"dockerfile": DOCKERFILE} | ({"network_mode": network} if network else {})
        failures: list[Exception] = []
        async with anyio.create_task_group() as tasks:
            over = anyio.CancelScope(shield=True)
            tasks.start_soon(self._stop_it, over)
            with over:
                try:
                    await self._listen(fileobj=context, buildargs=arguments, **options)
                except Exception as error:
                    failures.append(error)  # raised out here, it would be in a group
            tasks.cancel_scope.cancel()
            over.cancel()
        await anyio.lowlevel.checkpoint_if_cancelled()
        for failure in failures:
            raise failure

    async def _listen(self, **options: Any) -> None:
        step, words, rest = "the first step", LastWords(), ""

        def hear(line: str) -> None:
            nonlocal step, words
            if line.startswith("Step "):
                step, words = _short(line), LastWords()
            elif line.startswith(_FACTS):
                with contextlib.suppress(ValueError):  # a package that says the same words while it is installed
                    self._facts = json.loads(line.removeprefix(_FACTS))
            elif not _CHATTER.match(line):
                words.hear(line, self._say)

        try:
            async with self._said(
                "build", **options, custom_context=True, rm=True, forcerm=True, decode=True, timeout=_SILENT_SECONDS
            ) as pieces:
                async for piece in pieces:
                    *lines, rest = (rest + _COLOUR.sub("", piece.get("stream", ""))).split("\n")
                    for line in lines:
                        hear(line)
                    rest = rest[-_LONGEST_LINE:]
                    self._built = piece.get("aux", {}).get("ID", self._built)
                    if "error" in piece:
                        hear(rest)
                        hear(piece["error"])
                        raise SandboxError(f"the image {self._tag} could not be built, {step} failed:\n{words}")
        except EngineRefused as error:
            raise SandboxError(f"the image {self._tag} could not be built, {step} failed:\n{error}") from error

    async def _stop_it(self, over: anyio.CancelScope) -> None:
        """When the build is given up: kill the step that runs, so that it ends in the engine, too."""
        try:
            await anyio.sleep_forever()
        finally:
            if not over.cancel_called:
                self._say = lambda _: None
            with anyio.move_on_after(_CLEAN_SECONDS, shield=True), contextlib.suppress(EngineUnreachable):
                while not over.cancel_called:
                    for container in await self._engine.call("containers", filters=self._label):
                        with contextlib.suppress(EngineRefused):
                            await self._engine.call("kill", container["Id"])
                    await anyio.sleep(_LOOK_SECONDS)
            over.cancel()

    def _said(
        self, method: str, *arguments: Any, **options: Any
    ) -> contextlib.aclosing[AsyncGenerator[dict[str, Any], None]]:
        """What the engine says while it works, in pieces."""
        pieces = self._engine.stream(method, *arguments, **options)
        return contextlib.aclosing(cast("AsyncGenerator[dict[str, Any], None]", pieces))

    async def _forget(self, image: str) -> None:
        """Remove an image that this build has taken the only tag of; one that a container still uses stays."""
        try:
            if not (await self._engine.call("inspect_image", image))["RepoTags"]:
                await self._engine.call("remove_image", image)
        except EngineRefused as error:
            if error.status == 409:
                self._say(f"a container still uses the older image: docker image rm {image} removes it later")

    async def clean(self) -> None:
        """Remove what the build made on the way, and its image where that did not get its tag."""
        if self._built:
            await self._forget(self._built)
        for container in await self._engine.call("containers", all=True, filters=self._label):
            with contextlib.suppress(EngineRefused):
                await self._engine.call("remove_container", container["Id"], force=True)
        if self._imported:
            with contextlib.suppress(EngineRefused):
                await self._engine.call("remove_image", self._host_base)
        # not by the engine's prune, which refuses to run twice at the same time
        for dangling in await self._engine.call("images", filters={**self._label, "dangling": True}):
            with contextlib.suppress(EngineRefused):
                await self._engine.call("remove_image", dangling["Id"])


def _short(step: str) -> str:
    """A step of the build in few words: its command as far as the first line of code in it."""
    return step if len(step) <= _STEP_CHARACTERS else step[:_STEP_CHARACTERS].rpartition(" ")[0] + " ..."


def _pack(root: Path, packed: Path) -> None:
    with packed.open("wb") as file:
        build_context.pack(root, file)
