"""``callgate image``: build the image that Docker's containers run, and say what is in it."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.util
import json
import sys
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import click

from callgate import event_loop
from callgate.errors import ConfigurationError, SandboxError
from callgate.extras import how_to_install

from .words import FAILED, NO_SANDBOX, OK, Stop, emit, one_line, page, say

if TYPE_CHECKING:
    from callgate.sandbox.docker.engine import Engine
    from callgate.sandbox.docker.image import ImageFacts

__all__ = ["command"]

_TAG = "callgate-sandbox"
_BASE = "python:3.13-slim"
_STATUS_CHARACTERS = 100

_docker_host = click.option(
    "--docker-host", metavar="URL", help="The engine. Default: the one that the docker command would use."
)
_as_json = click.option("--json", "as_json", is_flag=True, help="Print what is known of the image as one JSON object.")


@click.group("image", short_help="Build the image that Docker's containers run, or say what is in it.")
def command() -> None:
    """The image of --sandbox docker: a Python, its standard library, the guest and your packages; no shell, no pip."""


@command.command("build")
@click.option(
    "--base",
    metavar="IMAGE",
    default=_BASE,
    show_default=True,
    help="An image with Python 3.11 or newer; `host` makes it of the Python that runs callgate, without a registry.",
)
@click.option(
    "--requirements",
    metavar="FILE|NAMES",
    default="",
    help='What programs may import: a requirements file, or e.g. "numpy pandas".',
)
@click.option("--tag", metavar="NAME", default=_TAG, show_default=True, help="The name to give to the image.")
@click.option(
    "--network", metavar="MODE", help="The network of the build's steps, e.g. host. Default: the engine's own choice."
)
@_docker_host
@_as_json
def build(base: str, requirements: str, tag: str, network: str | None, docker_host: str | None, as_json: bool) -> int:
    """Build the image, and say on stderr how it goes. An image that has the name already is replaced: it loses the
    name when the new one is built, and is removed unless it has another name or a container uses it.

    Exit codes: 0 built, 1 not built, 2 usage, 3 no engine can be reached.
    """
    from callgate.sandbox.docker import image

    async def work(engine: Engine) -> ImageFacts:
        _say_what_is_replaced(await image.find(engine, tag))
        with _progress() as told:
            return await image.build(
                engine, base=base, requirements=requirements, tag=tag, on_progress=told, network=network
            )

    begun = time.monotonic()
    try:
        made = _with_engine("build", docker_host, work)
    except SandboxError as error:
        raise Stop(str(error), _tip(base, requirements), FAILED) from None
    _show(made, as_json, time.monotonic() - begun)
    return OK


@command.command("show")
@click.option("--tag", metavar="NAME", default=_TAG, show_default=True, help="The image.")
@_docker_host
@_as_json
def show(tag: str, docker_host: str | None, as_json: bool) -> int:
    """Say what is in the image that the engine has.

    Exit codes: 0 it can be used, 1 there is none, or it was built for another callgate, 2 usage, 3 no engine can be
    reached.
    """
    from callgate.sandbox.docker import image

    async def work(engine: Engine) -> ImageFacts | None:
        return await image.find(engine, tag)

    try:
        found = _with_engine("show", docker_host, work)
    except SandboxError as error:
        raise Stop(str(error), "`callgate doctor` says what works on this machine and what to do", FAILED) from None
    again = "callgate image build" + (f" --tag {tag}" if tag != _TAG else "")
    if found is None:
        raise Stop(f"the engine has no image {tag}", f"{again} (without a registry: {again} --base host)", FAILED)
    if not found.guest:
        raise Stop(
            f"the image {tag} was not made by `callgate image build`",
            f"callgate image build --base {tag} --tag ANOTHER makes one of it, if it has Python 3.11 or newer", FAILED,
        )  # fmt: skip
    _show(found, as_json)
    if found.outdated:
        packages = f' --requirements "{" ".join(found.packages)}"' if found.packages else ""
        raise Stop(f"the image {tag} was built for another callgate", f"{again}{packages}", FAILED)
    return OK


def _with_engine(verb: str, docker_host: str | None, work: Callable[[Engine], Any]) -> Any:
    """What `work` gives, called with an engine. Raises `Stop` where none can be reached."""
    if importlib.util.find_spec("docker") is None:
        raise Stop("the docker SDK is not installed", how_to_install("docker"), NO_SANDBOX)
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
        raise Stop(str(error), "`callgate doctor` says what else works on this machine", NO_SANDBOX) from None
    except ConfigurationError as error:
        raise Stop(str(error), f"callgate image {verb} --help shows what it takes") from None


def _tip(base: str, requirements: str) -> str:
    if base != "host":
        return "a base needs Python 3.11 or newer as python3 on its PATH; `--base host` takes this machine's"
    if requirements:
        return "`pip download` with the same requirements says more; without --requirements there is nothing to install"
    return "`callgate doctor` says whether the engine works"


@contextlib.contextmanager
def _progress() -> Iterator[Callable[[str], None]]:
    """Where lines about a build go: one line that changes, at a terminal; else each its own, on stderr."""
    if not sys.stderr.isatty():
        yield lambda line: say(one_line(line))
        return
    from rich.text import Text

    begun = time.monotonic()
    with page(sys.stderr).status(Text("starting")) as status:

        def tell(line: str) -> None:
            status.update(Text(f"{time.monotonic() - begun:3.0f} s  {one_line(line, _STATUS_CHARACTERS)}"))

        yield tell


def _say_what_is_replaced(older: ImageFacts | None) -> None:
    if older is None:
        return
    packages = f"packages {', '.join(older.packages)}" if older.packages else "no packages"
    made = f"Python {older.python}, {packages}" if older.guest else "not made by `callgate image build`"
    say(one_line(f"replaces the image {older.tag} of {_time(older)} ({made}) once the new one is built"), "dim")


def _time(facts: ImageFacts) -> str:
    return facts.created[:19].replace("T", " ") + " UTC"


def _show(facts: ImageFacts, as_json: bool, seconds: float | None = None) -> None:
    took = {} if seconds is None else {"seconds": round(seconds, 1)}
    if as_json:
        emit(json.dumps({**dataclasses.asdict(facts), "outdated": facts.outdated, **took}, ensure_ascii=False))
        return
    rows = {
        "Image": facts.tag,
        "Id": facts.id,
        "Size": f"{facts.size_bytes / 1e6:.1f} MB",
        "Python": facts.python or "it does not say",
        "Packages": ", ".join(facts.packages) or "none: the standard library only",
        "Guest": f"{facts.guest} ({'of another callgate' if facts.outdated else 'of this callgate'})",
        "Created": _time(facts),
    }
    if seconds is not None:
        rows["Took"] = f"{seconds:.1f} s"
    for name, text in rows.items():
        emit(f"{name:<9} {one_line(text)}")
