"""The configuration of MCP servers: the JSON of Claude Desktop, Cursor and VS Code, read and checked.

1. ``{"mcpServers": {NAME: {...}}}``, or VS Code's ``{"servers": {...}}``, alone or under ``"mcp"``. Comments and
   trailing commas are skipped, as the editors do.
2. A fault of the file as a whole is raised. A fault of one server is that server's `fault`, in one line; the other
   servers work.
3. Unknown keys are a note, not a fault: every client has some of its own.
4. ``${VAR}`` and ``${env:VAR}`` are the host's environment variable; ``${VAR:-default}`` is the default if the variable
   is unset or empty. ``${userHome}``, ``${workspaceFolder}``, ``${pathSeparator}`` and ``${/}`` mean the same as in the
   editors. A variable that is not set is a fault that names the variable: an empty token would fail later, and less
   clearly. Variables in inserted values are not replaced.

Knows the configuration; starts nothing.
"""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from dotenv.parser import parse_stream
from pydantic import (
    AfterValidator,
    AliasChoices,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
)

from callgate.errors import ConfigurationError
from callgate.tools.decoding import strict_json
from callgate.tools.faults import did_you_mean
from callgate.tools.names import check_name

from .client.secrets import Secrets, sounds_secret

__all__ = ["ServerConfig", "Transport", "read_config"]

Transport = Literal["stdio", "http", "sse"]

_TRANSPORTS: dict[str, Transport] = {
    "local": "stdio",
    "streamable-http": "http",
    "streamable_http": "http",
    "streamablehttp": "http",
    "remote": "http",
}
"""Other clients' names of the transports."""
_FILLED = ("command", "args", "env", "cwd", "envFile", "url", "serverUrl", "headers")
"""Keys whose texts may hold variables."""
_KEYS = (*_FILLED, "disabled", "enabled", "max_concurrent_calls", "timeout", "transport", "type")
_WORDLESS = frozenset({"description", "name", "displayName", "icon", "version", "gallery", "$comment"})
"""Keys that mean nothing to callgate and are not worth a note."""
_MILLISECONDS_FROM = 1000
"""Clients disagree about the unit of ``timeout``: nobody waits 1,000 s for a call, and nobody sets 999 ms."""
_REFERENCE = re.compile(r"\$\{([^${}]*)\}")


def _http_url(text: str) -> str:
    try:
        parts = urlsplit(text)
        sound = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:  # the text of this error may hold a part of a password
        sound = False
    if not sound:
        raise ValueError("it must be a URL that begins with http:// or https:// and a host")
    return text


def _transport(named: object) -> object:
    return _TRANSPORTS.get(named.lower(), named.lower()) if isinstance(named, str) else named


class ServerConfig(BaseModel):
    """One server of the configuration, with its variables replaced."""

    model_config = ConfigDict(
        frozen=True, coerce_numbers_to_str=True, hide_input_in_errors=True, arbitrary_types_allowed=True
    )

    name: str
    transport: Annotated[Transport, BeforeValidator(_transport)] = Field(
        default="stdio", validation_alias=AliasChoices("type", "transport")
    )
    command: Annotated[str, Field(min_length=1)] = ""
    """The program, for `stdio`."""
    args: tuple[str, ...] = Field(default=(), repr=False)
    env: dict[str, str] = Field(default={}, repr=False)
    """Variables for the process, besides the few that every server gets."""
    env_file: str | None = Field(default=None, alias="envFile")
    cwd: str | None = None
    url: Annotated[str, StringConstraints(strip_whitespace=True), AfterValidator(_http_url)] = Field(
        default="", validation_alias=AliasChoices("url", "serverUrl"), repr=False
    )
    """The endpoint, for `http` and `sse`."""
    headers: dict[
        Annotated[str, StringConstraints(pattern=r"^[!#$%&'*+.^_`|~0-9A-Za-z-]+$")],
        Annotated[str, StringConstraints(strip_whitespace=True, pattern=r"^[ -~]*$")],
    ] = Field(default={}, repr=False)
    """A value that HTTP cannot carry would fail late, with an error that quotes the value."""
    timeout_seconds: Annotated[float, Field(gt=0, lt=10**9, strict=True)] | None = Field(
        default=None, validation_alias="timeout"
    )
    """How long one call may take. None: the run's own limits."""
    max_concurrent_calls: Annotated[int, Field(gt=0, strict=True)] = 16
    """Calls that the server is given at the same time; more of them wait."""
    disabled: bool = Field(default=False, strict=True)
    enabled: bool = Field(default=True, strict=True)
    fault: str | None = None
    """Why the server cannot be started as it is written, and what to write instead; None if it can."""
    notes: tuple[str, ...] = ()
    """Keys that were skipped, and other remarks."""
    secrets: Secrets = Field(default_factory=Secrets, repr=False)
    """The values that must not be shown."""


def read_config(
    source: str | os.PathLike[str] | Mapping[str, Any], environment: Mapping[str, str] | None = None
) -> tuple[ServerConfig, ...]:
    """The servers of a configuration, in their order.

    Args:
        source: the path of a JSON file, or its content as a dict.
        environment: the values of variables; None for the host's own environment.

    Raises:
        ConfigurationError: the file cannot be read, or does not hold such a configuration.
    """
    variables = os.environ if environment is None else environment
    if isinstance(source, Mapping):
        what, folder, read = "the MCP configuration", Path.cwd(), source
    else:
        path = Path(source).expanduser()
        what, folder = str(path), _folder_of(path)
        read = _read(path)
    servers = _servers(read, what)
    for name in servers:
        check_name(name, f"{what}: a server's name")
    return tuple(_server(name, given, folder, variables) for name, given in servers.items())


def _server(name: str, given: object, folder: Path, environment: Mapping[str, str]) -> ServerConfig:
    secrets = Secrets()
    if not isinstance(given, Mapping):
        fault = f'it must be an object like {{"command": "..."}}, not {_kind(given)}'
        return ServerConfig(name=name, fault=fault)
    notes = [
        f"the key {str(key)[:60]!r} means nothing to callgate{did_you_mean(str(key), _KEYS)}"
        for key in given
        if key not in _KEYS and key not in _WORDLESS
    ]
    config = ServerConfig(name=name, notes=tuple(notes), secrets=secrets)
    try:
        if given.get("disabled") is True or given.get("enabled") is False:  # its variables may be unset
            return config.model_copy(update={"disabled": True})
        known = {key: given[key] for key in _KEYS if given.get(key) is not None}
        filled = {key: _filled(known[key], environment, folder, secrets) for key in _FILLED if key in known}
        written = ServerConfig.model_validate({"name": name, **known, **filled})
        if (timeout := written.timeout_seconds) is not None and timeout >= _MILLISECONDS_FROM:
            notes.append(f"'timeout' {timeout:g} is taken for milliseconds")
            timeout /= 1000
        checked = {**_checked(written, folder, secrets), "timeout_seconds": timeout}
        return written.model_copy(update={**checked, "notes": tuple(notes), "secrets": secrets})
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        for each in first["loc"]:  # a key that was meant to be a name and its value
            name, *value = re.split("[:=]", str(each), maxsplit=1)
            secrets.add_named(name, "".join(value).strip())
        place = ": ".join(repr(each) for each in first["loc"] if each != "[key]")
        fault = f"{place}: {first['msg'].removeprefix('Value error, ')}"
    except (ValueError, RuntimeError) as error:  # RuntimeError: the user has no home folder
        fault = str(error)
    return config.model_copy(update={"fault": secrets.hide(fault)})


def _checked(written: ServerConfig, folder: Path, secrets: Secrets) -> dict[str, Any]:
    """Values for the fields of a server that can be started. Raises `ValueError` for a server that cannot."""
    transport = written.transport
    if "transport" not in written.model_fields_set:
        if not written.command and not written.url:
            raise ValueError("it needs 'command' (a program to start) or 'url' (an endpoint)")
        if written.command and written.url:
            raise ValueError("it has both 'command' and 'url'; keep one, or say which with 'type'")
        transport = "http" if written.url else "stdio"
    for name, value in (*written.headers.items(), *written.env.items()):
        secrets.add_named(name, value)
    if transport != "stdio":
        if not written.url:
            raise ValueError(f"it is of type {transport!r} and needs 'url'")
        secrets.add_url(urlsplit(written.url))
        return {"transport": transport}
    if not written.command:
        raise ValueError("it is of type 'stdio' and needs 'command', the program to start")
    options = [each for each in itertools.pairwise(written.args) if each[0].startswith("-")]
    for flag, value in (*options, *(text.partition("=")[::2] for text in written.args)):
        if sounds_secret(flag):
            secrets.add(value)
    cwd = None if written.cwd is None else str(folder / Path(written.cwd).expanduser())
    if cwd is not None and not os.path.isdir(cwd):
        raise ValueError(f"'cwd' is {cwd!r}, and there is no such folder")
    env = written.env
    if written.env_file is not None:
        env = _env_file(folder / Path(written.env_file).expanduser(), secrets) | env
    return {"cwd": cwd, "env": env}


def _env_file(path: Path, secrets: Secrets) -> dict[str, str]:
    try:
        with path.open(encoding="utf-8-sig") as lines:
            found = list(parse_stream(lines))
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(
            f"'envFile' {str(path)!r} cannot be read: {getattr(error, 'strerror', 'it is not UTF-8 text')}"
        ) from None
    kept = {each.key: each.value for each in found if each.key is not None and each.value is not None}
    for name, value in kept.items():
        secrets.add_named(name, value)
    if any(each.error or (each.key is not None and each.value is None) for each in found):
        raise ValueError(f"'envFile' {str(path)!r}: a line is not NAME=value")
    return kept


def _filled(value: Any, environment: Mapping[str, str], folder: Path, secrets: Secrets) -> Any:
    """`value` with the variables in its texts replaced. Raises `ValueError` for a variable that is not set."""
    if isinstance(value, list):
        return [_filled(each, environment, folder, secrets) for each in value]
    if isinstance(value, Mapping):
        return {key: _filled(each, environment, folder, secrets) for key, each in value.items()}
    if not isinstance(value, str):
        return value
    known = {
        "userHome": os.path.expanduser("~"),
        "workspaceFolder": str(folder),
        "workspaceFolderBasename": folder.name,
        "pathSeparator": os.sep,
        "/": os.sep,
    }

    def value_of(found: re.Match[str]) -> str:
        name, dash, default = found[1].partition(":-")
        name = name.strip()
        if name in known:
            return known[name]
        if name.startswith("input:"):
            raise ValueError(f"{found[0]} would be asked for by an editor; write ${{env:NAME}} and set that variable")
        variable = name.removeprefix("env:")
        inserted = environment.get(variable)
        if inserted is None and not dash:
            raise ValueError(
                f"the environment variable {variable!r} is not set; set it, or write ${{{variable}:-default}}"
            )
        secrets.add_named(variable, inserted or default)
        return inserted or default

    return _REFERENCE.sub(value_of, value)


def _read(path: Path) -> Mapping[str, Any]:
    try:
        read = strict_json(_without_comments(path.read_text(encoding="utf-8-sig")))
    except OSError as error:
        raise ConfigurationError(f"the MCP configuration {path} cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise ConfigurationError(f"{path} is not JSON: {error}") from None
    if not isinstance(read, dict):
        raise ConfigurationError(f'{path} must hold an object like {{"mcpServers": {{...}}}}, not {_kind(read)}')
    return read


def _servers(read: Mapping[str, Any], what: str) -> Mapping[str, Any]:
    for key in ("mcpServers", "servers"):
        if key in read:
            servers = read[key]
            if not isinstance(servers, Mapping):
                raise ConfigurationError(f"{what}: {key!r} must be an object of servers by name, not {_kind(servers)}")
            return servers
    if isinstance(read.get("mcp"), Mapping):
        return _servers(read["mcp"], what)
    keys = ", ".join(repr(str(key)[:40]) for key in list(read)[:5]) or "nothing"
    raise ConfigurationError(f"{what} has no 'mcpServers' (or 'servers', as in VS Code); it has {keys}")


def _folder_of(path: Path) -> Path:
    folder = path.absolute().parent
    return folder.parent if folder.name in (".vscode", ".cursor", ".claude") else folder


_JSONC = re.compile(r'"(?:[^"\\]|\\.)*+"|//[^\n]*|/\*.*?\*/|,(?=(?:\s|//[^\n]*\n|/\*.*?\*/)*+[}\]])', re.DOTALL)


def _without_comments(text: str) -> str:
    """The text without comments and trailing commas; line breaks stay where they are."""
    return _JSONC.sub(lambda match: match[0] if match[0].startswith('"') else re.sub(r"[^\n]+", " ", match[0]), text)


def _kind(value: object) -> str:
    names = {dict: "an object", list: "a list", str: "a string", bool: "true or false", type(None): "null"}
    return names.get(type(value), "a number" if isinstance(value, (int, float)) else f"a {type(value).__name__}")
