"""Every option that more than one command has, once; and what is made of them: limits, inputs, a sandbox, a program."""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import inspect
import json
import re
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, TypeVar

import click

from callgate.limits import Limits
from callgate.sandbox.backend import Backend
from callgate.sandbox.choose import SANDBOXES, make_backend

from .words import Stop

__all__ = [
    "Source",
    "encryption_key",
    "file_to_write",
    "flag",
    "given_flags",
    "inputs_from",
    "jail_ahead",
    "limit_options",
    "limits_from",
    "sandbox_from",
    "shared",
    "size_text",
]

_Command = TypeVar("_Command", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Option:
    """An option of a command, as `click.option` takes it."""

    flags: tuple[str, ...]
    settings: dict[str, Any]


class _Documented(click.Option):
    """An option whose help is made when it is shown: reading it from the source would take a tenth of a short run."""

    def __init__(self, *flags: Any, words: Callable[[], str], **settings: Any) -> None:
        super().__init__(*flags, **settings)
        self._words = words

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        self.help = self._words()
        return super().get_help_record(ctx)


def option(*flags: str, **settings: Any) -> Option:
    """An attribute of a class of options. Its name is the parameter's name; its docstring is the help.

    Args:
        flags: the flags; by default one flag, made of the name.
        settings: settings of `click.option`.
    """
    return Option(flags, settings)


def options(group: type, *names: str) -> Callable[[_Command], _Command]:
    """Add the options of a class, or those with these names, in this order."""

    def add(command: _Command) -> _Command:
        for name in reversed(names or [name for name, each in vars(group).items() if isinstance(each, Option)]):
            each: Option = vars(group)[name]
            words = partial(_doc, group, name)
            flags = each.flags or (flag(name),)
            command = click.option(*flags, name, cls=_Documented, words=words, **each.settings)(command)
        return command

    return add


def shared(*names: str) -> Callable[[_Command], _Command]:
    """Add options of `Shared`."""
    return options(Shared, *names)


def page_to_write(_: click.Context, parameter: click.Parameter, given: str | None) -> Path | None:
    """The file of an option that writes a page, checked before anything runs. Raises `Stop`."""
    if given is None:
        return None
    flag = parameter.opts[-1]
    if not given.lower().endswith((".html", ".htm")):
        raise Stop(f"{flag} writes a page, and {given!r} is not a .html file", f"for example {flag} out.html")
    return file_to_write(given)


class Shared:
    """Options that more than one command has."""

    code = option("-c", "--code", metavar="CODE")
    """The program itself, instead of a file."""
    tools = option("--tools", "-t", multiple=True, metavar="FILE_OR_MODULE[:NAME]")
    """Tools to offer; may be repeated."""
    mcp = option(metavar="FILE")
    """MCP servers whose tools to offer: JSON with mcpServers."""
    allow = option(multiple=True, metavar="TOOL")
    """Offer only this tool; may be repeated."""
    input = option("-i", "--input", multiple=True, metavar="NAME=JSON")
    """A variable of the program; may be repeated."""
    ask = option(multiple=True, metavar="WHAT")
    """Ask for approval before calls of this tool: a name, SERVER.TOOL, a pattern, or `destructive` for what may
    destroy; may be repeated."""
    yes = option("-y", "--yes", is_flag=True)
    """Approve every call of a tool that asks for approval."""
    verbose = option("-v", "--verbose", is_flag=True)
    """Show more on stderr: each call, what was used, and where a tool failed."""
    json = option(is_flag=True)
    """Print everything as JSON on stdout."""
    trace = option(metavar="OUT.html", callback=page_to_write)
    """Afterwards write a page of the run, which needs nothing else, to OUT.html."""
    statistics = option(metavar="FILE")
    """Keep in FILE how long tools take and how often they fail."""
    audit = option(metavar="FILE")
    """Append a line to FILE for each decision about a call: see `callgate audit`."""
    durable = option(metavar="FILE")
    """Keep runs in FILE (SQLite): they outlive this process, and `callgate runs` shows and decides about them."""
    encryption_key_file = option(metavar="FILE")
    """With --durable: a file with the key, 64 hexadecimal digits, that encrypts what the runs hold."""
    policy = option(type=click.Choice(["none", "restricted"]), default="none")
    """Check programs more strictly before they run: `restricted` refuses imports outside a short list, and names that
    lead into the interpreter. This check is not the boundary: the sandbox is. Default none."""
    docker_host = option(metavar="URL")
    """The Docker engine. Default: the one that the docker command would use."""


class Sandbox:
    """The sandbox of programs."""

    sandbox = option(type=click.Choice(SANDBOXES), default="auto")
    """What confines programs. Default auto: the first that works of the jail's tier 1, docker, tier 2."""
    tier = option(type=click.IntRange(1, 2))
    """Insist on this tier of the jail."""
    packages = option(metavar="DIR")
    """A folder of packages that programs may import: see `callgate packages`."""
    image = option(metavar="NAME")
    """With --sandbox docker: the image. Default callgate-sandbox."""
    docker_runtime = option(metavar="NAME")
    """With --sandbox docker: the runtime that starts containers, e.g. runsc."""
    docker_host = option(metavar="URL")
    """With --sandbox docker: the engine. Default as for the docker command."""


def flag(name: str) -> str:
    """The flag of an option or of a field of `Limits`."""
    return "--" + name.replace("_", "-")


@cache
def _docs(group: type) -> dict[str, str]:
    """The docstring of every attribute; Python keeps them only in the source."""
    (body,) = ast.parse(inspect.getsource(group)).body
    assert isinstance(body, ast.ClassDef)
    found = {}
    for field, text in zip(body.body, body.body[1:], strict=False):
        target = getattr(field, "target", None) or getattr(field, "targets", [None])[0]
        if isinstance(target, ast.Name) and isinstance(text, ast.Expr):
            found[target.id] = " ".join(str(ast.literal_eval(text.value)).split())
    return found


def _doc(group: type, name: str) -> str:
    return _docs(group)[name]


# limits

_UNITS = {"": 1, "B": 1}
for _power, _letter in enumerate("KMGT", start=1):
    _UNITS[_letter] = _UNITS[f"{_letter}IB"] = 1024**_power
    _UNITS[f"{_letter}B"] = 1000**_power


def _size(text: str) -> int:
    """Bytes: ``65536``, ``64KiB``, ``512M`` (1024s), ``1GB`` (1000s)."""
    match = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]*)\s*", text)
    unit = _UNITS.get(match[2].upper()) if match else None
    if match is None or unit is None:
        raise click.BadParameter(f"{text!r} is not a size: write bytes, or a unit such as 512MiB, 64K or 1GB")
    return int(float(match[1]) * unit) if "." in match[1] else int(match[1]) * unit


def size_text(size: int) -> str:
    """Bytes as the size flags take them: the largest binary unit that states them exactly."""
    for unit in ("TiB", "GiB", "MiB", "KiB"):
        if size and size % _UNITS[unit.upper()] == 0:
            return f"{size // _UNITS[unit.upper()]}{unit}"
    return str(size)


def limit_options(docs: Mapping[str, str] | None = None) -> Callable[[_Command], _Command]:
    """Add one flag for every field of `Limits`, or for the fields in `docs`, with the help texts there."""

    def text(name: str, shown: str) -> str:
        first = docs[name] if docs else _doc(Limits, name).replace("``", "").split(". ")[0].rstrip(".")
        return f"{first}. Default {shown}."

    def add(command: _Command) -> _Command:
        for field in reversed([each for each in dataclasses.fields(Limits) if docs is None or each.name in docs]):
            size = field.name.endswith("_bytes")
            kind: Any = _size if size else click.FLOAT if field.type == "float" else click.INT
            shown, metavar = (size_text(int(str(field.default))), "SIZE") if size else (f"{field.default:g}", "N")
            settings = {"type": kind, "metavar": metavar, "words": partial(text, field.name, shown)}
            command = click.option(flag(field.name), field.name, cls=_Documented, **settings)(command)
        return command

    return add


def limits_from(options: Mapping[str, Any]) -> Limits:
    """The limits in a command's options. Raises `ConfigurationError`."""
    names = [field.name for field in dataclasses.fields(Limits)]
    return Limits(**{name: options[name] for name in names if options.get(name) is not None})


# runs that are kept


def encryption_key(options: Mapping[str, Any]) -> bytes | None:
    """The key in the file of ``--encryption-key-file``. Raises `Stop`."""
    file = options["encryption_key_file"]
    if file is None:
        return None
    tip = "make one, for example: openssl rand -hex 32 > FILE; keep it apart from the runs"
    if options["durable"] is None:
        raise Stop("--encryption-key-file is for the runs of --durable FILE", "name that file, too, or leave it out")
    try:
        text = Path(file).read_text("ascii", "replace").strip()
    except OSError as error:
        raise Stop(f"the key {file} cannot be read: {error.strerror}", tip) from None
    if re.fullmatch(r"[0-9a-fA-F]{64}", text) is None:
        raise Stop(f"{file} is not a key: it must have 64 hexadecimal digits", tip)
    return bytes.fromhex(text)


# sandboxes


def sandbox_from(options: Mapping[str, Any]) -> Backend:
    """The backend that a command's options describe, not started. Raises `ConfigurationError`."""
    names = ("tier", "packages", "image", "docker_host", "docker_runtime")
    return make_backend(options["sandbox"], folders=options.get("folder"), **{name: options[name] for name in names})


@contextlib.contextmanager
def jail_ahead(options: Mapping[str, Any]) -> Iterator[None]:
    """Start the jail's process now, if the options want the jail; the backend of `sandbox_from` takes it."""
    with contextlib.ExitStack() as stack:
        wanted = options["sandbox"] in ("auto", "jail") and options["path"] != "plan" and not options.get("folder")
        if wanted and sys.platform == "linux":
            from callgate.sandbox.launching import ZygoteSettings, launched_ahead  # of Linux alone

            settings = ZygoteSettings(tier=options["tier"] or 1, packages=options["packages"])
            stack.enter_context(launched_ahead(settings))
        yield


# the command line itself


def given_flags(context: click.Context, without: Collection[str]) -> list[str]:
    """The options as a person wrote them, except those whose names are in `without`."""
    words: list[str] = []
    for parameter in context.command.params:
        name = parameter.name or ""
        given = context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE
        if not given or name in without or not isinstance(parameter, click.Option):
            continue
        option, value = max(parameter.opts, key=len), context.params[name]
        for each in value if isinstance(value, (tuple, list)) else [value]:
            words += [option] if each is True else [option, str(each)]
    return words


# programs and plans, and their inputs


@dataclass(frozen=True, slots=True)
class Source:
    """The text of a program or a plan, and the name to show for it."""

    name: str
    code: str
    from_stdin: bool = False

    @property
    def person(self) -> bool:
        """Whether stdin is a terminal, on which a person can be asked."""
        return sys.stdin.isatty() and not self.from_stdin

    @classmethod
    def read(cls, file: str | None, code: str | None) -> Source:
        """The program that the arguments name. Raises `Stop` if there is none, there are two, or it cannot be read."""
        if code is not None and file is not None:
            raise Stop(f"there are two programs: -c and {file}", "leave one of them out")
        if code is not None:
            return cls("<command>", code)
        if file is None:
            tip = "name a file, or give the program with -c CODE, or '-' to read it from stdin"
            raise Stop("there is no program", tip)
        return cls.of(file, "program")

    @classmethod
    def of(cls, file: str, kind: str) -> Source:
        """The text in `file`, or on stdin if `file` is ``-``. Raises `Stop` if it cannot be read."""
        try:
            data = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
            text = data.decode("utf-8-sig")
        except OSError as error:
            tip = f"name the file that holds the {kind}"
            if file.lstrip()[:1] in ("{", "["):
                tip += f"; JSON itself is read from stdin: echo '...' | callgate {kind} -"
            raise Stop(f"{file[:200]} cannot be read: {error.strerror}", tip) from None
        except UnicodeDecodeError as error:
            fault = f"{file} is not UTF-8: byte {error.start} is {error.object[error.start]:#04x}"
            raise Stop(fault, "save it as UTF-8") from None
        return cls("<stdin>" if file == "-" else file, text, from_stdin=file == "-")


def file_to_write(given: str) -> Path:
    """The path of a file that is written later. Raises `Stop` if it cannot be written."""
    path = Path(given)
    if not path.parent.is_dir():
        raise Stop(f"{given} cannot be written: there is no folder {path.parent}", "make it first, or name another")
    if path.is_dir():
        raise Stop(f"{given} cannot be written: it is a folder", "name a file")
    return path


def inputs_from(given: tuple[str, ...], *, values: bool = True) -> dict[str, Any]:
    """``NAME=JSON`` pairs as variables. Raises `Stop`.

    Args:
        given: the pairs as written.
        values: whether each name needs a value; a name without a value is ``None``.
    """
    found: dict[str, Any] = {}
    for each in given:
        name, equals, text = each.partition("=")
        if not name.isidentifier():
            tip = "write --input NAME=JSON, for example --input limit=3"
            raise Stop(f"--input {each!r}: {name!r} cannot be a variable", tip)
        if not equals and values:
            raise Stop(f"--input {each!r} has no value", f"write --input {name}=JSON, for example --input {name}=3")
        try:
            found[name] = json.loads(text, parse_constant=_not_json) if equals else None
        except ValueError:
            tip = f"text needs its quotes: --input '{name}={json.dumps(text, ensure_ascii=False)}'"
            raise Stop(f"--input {name}: {text!r} is not JSON", tip) from None
    return found


def _not_json(text: str) -> Any:
    raise ValueError(text)
