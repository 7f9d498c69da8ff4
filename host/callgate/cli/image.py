"""``callgate image``: builds the image that Docker's containers run, and shows what is in it."""

from __future__ import annotations

import dataclasses
import importlib.util
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from callgate import event_loop
from callgate.errors import ConfigurationError, SandboxError
from callgate.extras import how_to_install

from .commands import DOCTOR
from .options import option, options, shared
from .words import Exit, Stop, emit, emit_json, one_line, progress, say

if TYPE_CHECKING:
    from callgate.sandbox.docker.engine import Engine
    from callgate.sandbox.docker.image import ImageFacts

__all__ = ["command"]

_TAG = "callgate-sandbox"


class Built:
    """Options of a build."""

    base = option(metavar="IMAGE", default="python:3.13-slim", show_default=True)
    """An image with Python 3.11 or newer; `host` makes it of the Python that runs callgate, without a registry."""
    requirements = option(metavar="FILE|NAMES", default="")
    """What programs may import: a requirements file, or e.g. "numpy pandas"."""
    network = option(metavar="MODE")
    """The network of the build's steps, e.g. host. Default: the engine's own choice."""
    tag = option(metavar="NAME", default=_TAG, show_default=True)
    """The name of the image."""


@click.group("image")
def command() -> None:
    """The image of --sandbox docker: a Python, its standard library, the guest and your packages; no shell, no pip."""


@command.command("build")
@options(Built)
@shared("docker_host", "json")
def build(tag: str, docker_host: str | None, json: bool, **made_of: Any) -> int:
    """Build the image, with its progress on stderr. An older image of the same name loses the name when the new one is
    built, and is removed unless it has another name or a container uses it.

    Exit codes: 0 built, 1 not built, 2 usage, 3 no engine can be reached.
    """
    from callgate.sandbox.docker import image

    async def work(engine: Engine) -> ImageFacts:
        older = await image.find(engine, tag)
        if older is not None:
            packages = ", ".join(older.packages) or "none"
            replaced = f"replaces the image {tag} of {_time(older)} (packages: {packages}) once the new one is built"
            say(one_line(replaced), "dim")
        with progress("starting") as tell:
            return await image.build(engine, tag=tag, on_progress=tell, **made_of)

    begun = time.monotonic()
    tip = "`callgate doctor` says whether the engine works"
    if made_of["base"] != "host":
        tip = "a base needs Python 3.11 or newer as python3 on its PATH; `--base host` takes this machine's"
    elif made_of["requirements"]:
        tip = "`pip download` with the same requirements says more; without --requirements nothing is installed"
    made = _with_engine("build", docker_host, work, tip)
    _show(made, json, time.monotonic() - begun)
    return Exit.OK


@command.command("show")
@options(Built, "tag")
@shared("docker_host", "json")
def show(tag: str, docker_host: str | None, json: bool) -> int:
    """Show what is in the image that the engine has.

    Exit codes: 0 the image can be used, 1 there is none, or it was built for another callgate, 2 usage, 3 no engine can
    be reached.
    """
    from callgate.sandbox.docker import image

    async def look(engine: Engine) -> tuple[ImageFacts | None, image.ImageUnusable | None]:
        try:
            return await image.usable(engine, tag), None
        except image.ImageUnusable as fault:
            return fault.image, fault

    found, fault = _with_engine("show", docker_host, look, DOCTOR)
    if found is not None and found.guest:
        _show(found, json)
    if fault is not None:
        raise Stop(fault.found, fault.remedy, Exit.FAILED)
    return Exit.OK


def _with_engine(verb: str, docker_host: str | None, work: Callable[[Engine], Any], tip: str) -> Any:
    """Call `work` with an engine, and return its result. Raises `Stop` without an engine, or if `work` failed."""
    if importlib.util.find_spec("docker") is None:
        raise Stop("the docker SDK is not installed", how_to_install("docker"), Exit.NO_SANDBOX)
    from callgate.sandbox.docker.engine import Engine, EngineUnreachable

    async def connected() -> Any:
        engine = await Engine.connect(docker_host)
        try:
            return await work(engine)
        finally:
            await engine.close()

    try:
        return event_loop.run(connected)
    except EngineUnreachable as error:
        raise Stop(str(error), "`callgate doctor` says what else works on this machine", Exit.NO_SANDBOX) from None
    except SandboxError as error:
        raise Stop(str(error), tip, Exit.FAILED) from None
    except ConfigurationError as error:
        raise Stop(str(error), f"callgate image {verb} --help shows what it takes") from None


def _time(facts: ImageFacts) -> str:
    return facts.created[:19].replace("T", " ") + " UTC"


def _show(facts: ImageFacts, as_json: bool, seconds: float | None = None) -> None:
    if as_json:
        took = {} if seconds is None else {"seconds": round(seconds, 1)}
        emit_json({**dataclasses.asdict(facts), "outdated": facts.outdated, **took})
        return
    rows = {
        "Image": facts.tag,
        "Id": facts.id,
        "Size": f"{facts.size_bytes / 1e6:.1f} MB",
        "Python": facts.python or "unknown",
        "Packages": ", ".join(facts.packages) or "none: the standard library only",
        "Guest": f"{facts.guest} ({'of another callgate' if facts.outdated else 'of this callgate'})",
        "Created": _time(facts),
        **({} if seconds is None else {"Took": f"{seconds:.1f} s"}),
    }
    for name, text in rows.items():
        emit(f"{name:<9} {one_line(text)}")
