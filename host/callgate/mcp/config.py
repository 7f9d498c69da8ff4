"""Which MCP servers there are: the JSON that Claude Desktop, Cursor and VS Code keep, read and checked.

1. ``{"mcpServers": {NAME: {...}}}``, or VS Code's ``{"servers": {...}}``, alone or under ``"mcp"``. Comments and
   trailing commas are read over, as the editors do.
2. What is wrong with the file as a whole is raised. What is wrong with one server is that server's `fault`, in one
   line; the others work.
3. Unknown keys are a note, not a fault: every client has some of its own.

Knows what was written; starts nothing.
"""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from callgate.errors import ConfigurationError
from callgate.tools.decoding import strict_json
from callgate.tools.faults import did_you_mean
from callgate.tools.names import check_name

from .client.secrets import Secrets, sounds_secret
from .client.variables import env_file, expanded

__all__ = ["ServerConfig", "Transport", "read_config"]

Transport = Literal["stdio", "http", "sse"]

MAX_CONFIG_BYTES = 4 * 1024 * 1024
"""A configuration is written by hand."""
MAX_SERVERS = 200
"""In one configuration; each is a process or a connection that is kept open."""

_TRANSPORTS: dict[str, Transport] = {
    "stdio": "stdio",
    "local": "stdio",
    "http": "http",
    "streamable-http": "http",
    "streamable_http": "http",
    "streamablehttp": "http",
    "remote": "http",
    "sse": "sse",
}
_KEYS = (
    *("args", "command", "cwd", "disabled", "enabled", "env", "envFile", "headers", "serverUrl", "timeout"),
    *("transport", "type", "url"),
)
_WORDLESS = frozenset({"description", "name", "displayName", "icon", "version", "gallery", "$comment"})
"""Keys that change nothing here, and are not worth a note."""
_MILLISECONDS_FROM = 1000
"""Clients disagree about the unit of ``timeout``: nobody waits 1,000 s for a call, and nobody sets 999 ms."""


@dataclass(frozen=True, kw_only=True)
class ServerConfig:
    """One server, as written, with its variables filled in."""

    name: str
    transport: Transport = "stdio"
    command: str = ""
    """The program, for `stdio`."""
    args: tuple[str, ...] = field(default=(), repr=False)
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Beside the few variables that every server gets."""
    cwd: str | None = None
    url: str = field(default="", repr=False)
    """The endpoint, for `http` and `sse`."""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    timeout_seconds: float | None = None
    """How long one call may take. None: the run's own limits."""
    disabled: bool = False
    fault: str | None = None
    """Why it cannot be started as it is written, and what to write instead; None when it can."""
    notes: tuple[str, ...] = ()
    """What was read over."""
    secrets: Secrets = field(default_factory=Secrets, repr=False, compare=False)
    """What must not be seen of it."""


def read_config(
    source: str | os.PathLike[str] | Mapping[str, Any], environment: Mapping[str, str] | None = None
) -> tuple[ServerConfig, ...]:
    """The servers of a configuration, in the order in which they are written.

    Args:
        source: a path, or what is in it, as a dict.
        environment: where variables are looked up; None for the host's own.

    Raises:
        ConfigurationError: the file cannot be read, or is no such configuration.
    """
    variables = os.environ if environment is None else environment
    if isinstance(source, Mapping):
        what, folder, read = "the MCP configuration", Path.cwd(), source
    else:
        path = Path(source).expanduser()
        what, folder = str(path), _folder_of(path)
        read = _read(path)
    servers = _servers(read, what)
    if len(servers) > MAX_SERVERS:
        raise ConfigurationError(f"{what}: {len(servers)} servers; at most {MAX_SERVERS} are started")
    found = []
    for name, given in servers.items():
        check_name(name, f"{what}: a server's name")
        if isinstance(given, Mapping):
            found.append(_Reader(name, given, folder, variables).server())
        else:
            fault = f'it must be an object like {{"command": "..."}}, not {_kind(given)}'
            found.append(ServerConfig(name=name, fault=fault))
    return tuple(found)


class _Reader:
    """Reads one server; every fault is a `ValueError` in one line."""

    def __init__(self, name: str, given: Mapping[str, Any], folder: Path, environment: Mapping[str, str]) -> None:
        self._name = name
        self._given = given
        self._folder = folder
        self._environment = environment
        self._secrets = Secrets()
        self._notes = [
            f"the key {str(key)[:60]!r} means nothing to callgate{did_you_mean(str(key), _KEYS)}"
            for key in self._given
            if key not in _KEYS and key not in _WORDLESS
        ]

    def server(self) -> ServerConfig:
        try:
            if self._flag("disabled", False) or not self._flag("enabled", True):  # its variables may well be unset
                return self._config(disabled=True)
            transport = self._transport()
            timeout = self._timeout()
            fields = self._program() if transport == "stdio" else self._address()
            return self._config(transport=transport, timeout_seconds=timeout, **fields)
        except ValueError as fault:
            return self._config(fault=self._secrets.hide(str(fault)))

    def _config(self, **fields: Any) -> ServerConfig:
        return ServerConfig(name=self._name, notes=tuple(self._notes), secrets=self._secrets, **fields)

    def _address(self) -> dict[str, Any]:
        url = self._text("url" if "url" in self._given else "serverUrl").strip()
        try:
            parts = urlsplit(url)
            port_is_number = parts.port is None or parts.port > 0
        except ValueError:
            raise ValueError("'url' is not a URL") from None
        self._secrets.add_url(parts)
        if parts.scheme not in ("http", "https") or not parts.hostname or not port_is_number:
            raise ValueError("'url' must begin with http:// or https:// and a host")
        headers = self._texts("headers")
        for name, value in headers.items():
            if not value.isprintable() or not re.fullmatch(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", name):
                raise ValueError(f"the header {name!r} cannot be sent: names are ASCII, values one printable line")
        return {"url": url, "headers": headers}

    def _program(self) -> dict[str, Any]:
        command = self._text("command")
        if not command.strip():
            raise ValueError("'command' is empty; name the program that is the server")
        args = self._given.get("args", [])
        if not isinstance(args, list) or not all(isinstance(each, (str, int, float)) for each in args):
            raise ValueError('\'args\' must be a list of strings, like ["-y", "some-server"]')
        texts = [self._expanded(str(each)) for each in args]
        told = [each for each in itertools.pairwise(texts) if each[0].startswith("-")]
        for flag, value in (*told, *(text.partition("=")[::2] for text in texts)):
            if sounds_secret(flag):
                self._secrets.add(value)
        if any("\0" in text for text in (command, *texts)):
            raise ValueError("'command' and 'args' must not hold NUL characters")
        cwd = None
        if self._given.get("cwd") is not None:
            cwd = str(self._folder / Path(self._text("cwd")).expanduser())
            if not os.path.isdir(cwd):
                raise ValueError(f"'cwd' is {cwd!r}, and there is no such folder")
        env = self._env_file() | self._texts("env")
        for name, value in env.items():
            if "\0" in name + value or "=" in name or not name:
                raise ValueError(f"'env' has the name {name!r}, which no environment can hold")
        return {"command": command, "args": tuple(texts), "env": env, "cwd": cwd}

    def _transport(self) -> Transport:
        named = self._given.get("type", self._given.get("transport"))
        has_command, has_url = "command" in self._given, "url" in self._given or "serverUrl" in self._given
        if named is None:
            if not has_command and not has_url:
                raise ValueError("it needs 'command' (a program to start) or 'url' (an endpoint)")
            if has_command and has_url:
                raise ValueError("it has both 'command' and 'url'; keep one, or say which with 'type'")
            return "stdio" if has_command else "http"
        transport = _TRANSPORTS.get(named.lower()) if isinstance(named, str) else None
        if transport is None:
            raise ValueError(f"'type' is {_short(named)}; it can be 'stdio', 'http' or 'sse'")
        if transport == "stdio" and not has_command:
            raise ValueError("it is of type 'stdio' and needs 'command', the program to start")
        if transport != "stdio" and not has_url:
            raise ValueError(f"it is of type {named!r} and needs 'url'")
        return transport

    def _timeout(self) -> float | None:
        value = self._given.get("timeout")
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < 10**9:
            raise ValueError(f"'timeout' must be a number of seconds above 0, not {_short(value)}")
        if value >= _MILLISECONDS_FROM:
            self._notes.append(f"'timeout' {value:g} is taken for milliseconds")
            return value / 1000
        return float(value)

    def _env_file(self) -> dict[str, str]:
        if self._given.get("envFile") is None:
            return {}
        path = self._folder / Path(self._text("envFile")).expanduser()
        try:
            found = env_file(path)
        except OSError as error:
            raise ValueError(f"'envFile' {str(path)!r} cannot be read: {error.strerror}") from None
        except ValueError as error:
            raise ValueError(f"'envFile' {str(path)!r}: {_reason(error)}") from None
        for name, value in found.items():
            self._secrets.add_named(name, value)
        return found

    def _expanded(self, text: str) -> str:
        return expanded(text, self._environment, self._folder, self._secrets)

    def _text(self, key: str) -> str:
        value = self._given[key]
        if not isinstance(value, str):
            raise ValueError(f"{key!r} must be a string, not {_kind(value)}")
        return self._expanded(value)

    def _texts(self, key: str) -> dict[str, str]:
        """An object of strings; what is secret among them is noted."""
        values = self._given.get(key) or {}
        if not isinstance(values, Mapping):
            raise ValueError(f"{key!r} must be an object of strings, not {_kind(values)}")
        found = {}
        for name, value in values.items():
            if isinstance(value, bool) or not isinstance(value, (str, int, float)):
                raise ValueError(f"{key!r}: {name!r} must be a string, not {_kind(value)}")
            found[name] = self._expanded(str(value))
            self._secrets.add_named(name, found[name])
        return found

    def _flag(self, key: str, default: bool) -> bool:
        value = self._given.get(key, default)
        if not isinstance(value, bool):
            raise ValueError(f"{key!r} must be true or false, not {_short(value)}")
        return value


def _read(path: Path) -> Mapping[str, Any]:
    try:
        if path.stat().st_size > MAX_CONFIG_BYTES:
            raise ConfigurationError(f"{path} is larger than {MAX_CONFIG_BYTES} bytes; it is no MCP configuration")
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise ConfigurationError(f"the MCP configuration {path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigurationError(f"{path} is not UTF-8 text") from None
    try:
        read = strict_json(text)
    except (ValueError, RecursionError):
        try:
            read = strict_json(_without_comments(text))
        except (ValueError, RecursionError) as error:
            raise ConfigurationError(f"{path} is not JSON: {_reason(error)}") from None
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


def _short(value: object) -> str:
    return repr(value)[:60]


def _reason(error: BaseException) -> str:
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    return str(error).partition("\n")[0]
