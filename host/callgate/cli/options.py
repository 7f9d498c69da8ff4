"""Options that several commands share; one flag for every field of `Limits`, made from the dataclass."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import json
import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, TypeVar

import click

from callgate.errors import ConfigurationError
from callgate.limits import Limits
from callgate.sandbox.choose import SANDBOXES, make_backend
from callgate.tools import Registry
from callgate.tools.faults import did_you_mean

from .words import Stop

__all__ = [
    "allowed_from",
    "flag",
    "inputs_from",
    "limit_options",
    "limits_from",
    "policy_option",
    "sandbox_from",
    "sandbox_options",
    "size_text",
    "some_limit_options",
    "tools_option",
]

_Command = TypeVar("_Command", bound=Callable[..., Any])

_UNITS = {"": 1, "B": 1}
for _power, _letter in enumerate("KMGT", start=1):
    _UNITS[_letter] = _UNITS[f"{_letter}IB"] = 1024**_power
    _UNITS[f"{_letter}B"] = 1000**_power


def _size(text: str) -> int:
    """Bytes: ``65536``, ``64KiB``, ``512M`` (1024s), ``1GB`` (1000s)."""
    match = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]*)\s*", text)
    unit = _UNITS.get(match.group(2).upper()) if match else None
    if match is None or unit is None:
        raise click.BadParameter(f"{text!r} is no size: write bytes, or a unit such as 512MiB, 64K or 1GB")
    number = match.group(1)
    return int(float(number) * unit) if "." in number else int(number) * unit


def size_text(size: int) -> str:
    """Bytes as the size flags take them: the largest binary unit that states them exactly."""
    for unit in ("TiB", "GiB", "MiB", "KiB"):
        if size and size % _UNITS[unit.upper()] == 0:
            return f"{size // _UNITS[unit.upper()]}{unit}"
    return str(size)


def flag(limit: str) -> str:
    """The flag of a field of `Limits`."""
    return "--" + limit.replace("_", "-")


@cache
def _docs() -> dict[str, str]:
    """The docstring of every field of `Limits`; Python keeps them in the source alone."""
    (body,) = ast.parse(inspect.getsource(Limits)).body
    assert isinstance(body, ast.ClassDef)
    found = {}
    for field, text in zip(body.body, body.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(text, ast.Expr):
            found[field.target.id] = str(ast.literal_eval(text.value)).replace("``", "").split(". ")[0].rstrip(".")
    return found


def limit_options(command: _Command) -> _Command:
    """Add one flag for every field of `Limits`."""
    return _limit_options(command, _docs())


def some_limit_options(docs: Mapping[str, str]) -> Callable[[_Command], _Command]:
    """Add flags for some fields of `Limits`, with what each means to the command."""
    return lambda command: _limit_options(command, docs)


def _limit_options(command: _Command, docs: Mapping[str, str]) -> _Command:
    for field in reversed(dataclasses.fields(Limits)):
        if field.name not in docs:
            continue
        size = field.name.endswith("_bytes")
        kind: Any = _size if size else click.FLOAT if field.type == "float" else click.INT
        shown = size_text(field.default) if size and isinstance(field.default, int) else f"{field.default:g}"
        command = click.option(
            flag(field.name),
            field.name,
            type=kind,
            metavar="SIZE" if size else "N",
            help=f"{docs[field.name]}. Default {shown}.",
        )(command)
    return command


def limits_from(options: dict[str, Any]) -> Limits:
    """Take the limits out of a command's options. Raises `Stop` for one that cannot be."""
    given = {field.name: options.pop(field.name, None) for field in dataclasses.fields(Limits)}
    try:
        return Limits(**{name: value for name, value in given.items() if value is not None})
    except ConfigurationError as error:
        name, _, fault = str(error).partition(" ")
        raise Stop(f"{flag(name)} {fault}", "every limit is a number above 0") from None


tools_option = click.option(
    "--tools",
    "-t",
    "tool_files",
    multiple=True,
    metavar="FILE_OR_MODULE[:NAME]",
    help="Tools to offer; may be repeated.",
)


def allowed_from(given: tuple[str, ...], registry: Registry) -> list[str] | None:
    """``--allow``: the tools to offer; None offers all. Raises `Stop` for one that is not there."""
    for name in given:
        if registry.resolve(name) is None:
            there = sorted({*registry.names(), *registry.callable_names().values()})
            tip = (
                "`callgate tools`, with the same --tools and --mcp, lists what there is"
                if there
                else "there are no tools at all: name what has them with --tools FILE.py"
            )
            raise Stop(f"--allow {name}: there is no such tool{did_you_mean(name, there)}", tip)
    return list(given) or None


policy_option = click.option(
    "--policy",
    type=click.Choice(["none", "restricted"]),
    default="none",
    help="Check programs more strictly before they run: `restricted` refuses imports outside a short list, and "
    "names that lead into the interpreter. This check is not the boundary: the sandbox is. Default none.",
)

_SANDBOX_OPTIONS = (
    click.option(
        "--sandbox",
        type=click.Choice(SANDBOXES),
        default="auto",
        help="What confines programs. Default auto: the first that works of the jail's tier 1, docker, tier 2.",
    ),
    click.option("--tier", type=click.IntRange(1, 2), help="Insist on this tier of the jail."),
    click.option("--packages", metavar="DIR", help="The jail: a site-packages folder to import from."),
    click.option("--image", metavar="NAME", help="With --sandbox docker: the image. Default callgate-sandbox."),
    click.option("--docker-runtime", metavar="NAME", help="With --sandbox docker: what starts containers, e.g. runsc."),
    click.option(
        "--docker-host", metavar="URL", help="With --sandbox docker: the engine. Default as for the docker command."
    ),
)


def sandbox_options(command: _Command) -> _Command:
    """Add the flags that say what confines a program."""
    for option in reversed(_SANDBOX_OPTIONS):
        command = option(command)
    return command


def sandbox_from(options: dict[str, Any]) -> dict[str, Any]:
    """Take what confines the program out of a command's options, as `Runtime` takes it. Raises `Stop`."""
    sandbox = options.pop("sandbox")
    jail = {name: options.pop(name) for name in ("tier", "packages")}
    docker = {name: options.pop(name) for name in ("image", "docker_runtime", "docker_host")}
    if sandbox == "docker":
        for name, value in jail.items():
            if value is not None:
                tip = (
                    "put them into the image: callgate image build --requirements FILE"
                    if name == "packages"
                    else "leave it out: a container has tier 2 of the jail inside"
                )
                raise Stop(f"--{name} is for the jail, not for docker", tip)
        try:
            return {"sandbox": make_backend("docker", **docker)}
        except ConfigurationError as error:
            raise Stop(str(error), "callgate run --help shows what each option takes") from None
    for name, value in docker.items():
        if value is not None:
            flag_name = flag(name)
            raise Stop(f"{flag_name} is for docker, not for {sandbox}", f"write --sandbox docker {flag_name} {value}")
    return {"sandbox": sandbox, **jail}


def inputs_from(given: tuple[str, ...], *, values: bool = True) -> dict[str, Any]:
    """``NAME=JSON`` pairs as variables. Raises `Stop`.

    Args:
        given: the pairs as written.
        values: whether each needs a value; without one it is ``None``.
    """
    found: dict[str, Any] = {}
    for each in given:
        name, equals, text = each.partition("=")
        if not name.isidentifier():
            raise Stop(
                f"--input {each!r}: {name!r} cannot be a variable",
                "write --input NAME=JSON, for example --input limit=3",
            )
        if not equals and values:
            raise Stop(f"--input {each!r} has no value", f"write --input {name}=JSON, for example --input {name}=3")
        try:
            found[name] = json.loads(text, parse_constant=_not_json) if equals else None
        except ValueError:
            shown = json.dumps(text, ensure_ascii=False)
            raise Stop(
                f"--input {name}: {text!r} is not JSON", f"text needs its quotes: --input '{name}={shown}'"
            ) from None
    return found


def _not_json(text: str) -> Any:
    raise ValueError(text)
