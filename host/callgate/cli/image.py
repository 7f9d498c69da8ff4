"""``callgate image``: build the image that Docker's containers run, and say what is in it."""

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
    """What an image is made of."""

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
    """Build the image, and say on stderr how it goes. An image that has the name already is replaced: it loses the
    name when the new one is built, and is removed unless it has another name or a container uses it.

    Exit codes: 0 built, 1 not built, 2 usage, 3 no engine can be reached.
    """
    from callgate.sandbox.docker import image

    async def work(engine: Engine) -> ImageFacts:
        older = await image.find(engine, tag)
        if older is not None:
            packages = f"packages {', '.join(older.packages)}" if older.packages else "no packages"
            made = f"Python {older.python}, {packages}" if older.guest else "not made by `callgate image build`"
            replaced = f"replaces the image {older.tag} of {_time(older)} ({made}) once the new one is built"
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
    """Say what is in the image that the engine has.

    Exit codes: 0 it can be used, 1 there is none, or it was built for another callgate, 2 usage, 3 no engine can be
    reached.
    """
    from callgate.sandbox.docker import image

    found: ImageFacts | None = _with_engine("show", docker_host, lambda engine: image.find(engine, tag), DOCTOR)
    again = "callgate image build" + (f" --tag {tag}" if tag != _TAG else "")
    if found is None:
        raise Stop(f"the engine has no image {tag}", f"{again} (without a registry: {again} --base host)", Exit.FAILED)
    if not found.guest:
        tip = f"callgate image build --base {tag} --tag ANOTHER makes one of it, if it has Python 3.11 or newer"
        raise Stop(f"the image {tag} was not made by `callgate image build`", tip, Exit.FAILED)
    _show(found, json)
    if found.outdated:
        packages = f' --requirements "{" ".join(found.packages)}"' if found.packages else ""
        raise Stop(f"the image {tag} was built for another callgate", f"{again}{packages}", Exit.FAILED)
    return Exit.OK


def _with_engine(verb: str, docker_host: str | None, work: Callable[[Engine], Any], tip: str) -> Any:
    """What `work` gives, called with an engine. Raises `Stop`: none can be reached, or it failed (then with `tip`)."""
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
        "Python": facts.python or "it does not say",
        "Packages": ", ".join(facts.packages) or "none: the standard library only",
        "Guest": f"{facts.guest} ({'of another callgate' if facts.outdated else 'of this callgate'})",
        "Created": _time(facts),
        **({} if seconds is None else {"Took": f"{seconds:.1f} s"}),
    }
    for name, text in rows.items():
        emit(f"{name:<9} {one_line(text)}")
