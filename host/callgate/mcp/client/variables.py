"""``${VAR}`` in a configuration, and the files that ``envFile`` names. Knows text, no server.

1. ``${VAR}`` and ``${env:VAR}`` are the host's environment variable; ``${VAR:-default}`` is the default where it is
   unset or empty. ``${userHome}``, ``${workspaceFolder}``, ``${pathSeparator}`` and ``${/}`` are what editors make of
   them.
2. A variable that is not set is an error that names it: an empty token would fail later, and less clearly.
3. What was inserted is not looked at again.
4. What came from a variable is hidden by `secrets` where its name or its value tells of a secret.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from .secrets import Secrets

__all__ = ["MissingVariable", "Variables", "env_file"]

_REFERENCE = re.compile(r"\$\{([^${}]*)\}")
_ENV_LINE = re.compile(r"""\s*(?:export\s+)?([\w.-]+)\s*=\s*(?:"([^"]*)".*|'([^']*)'.*|([^"'\s].*?)?(?:\s+#.*)?)\s*""")
"""A name and a value: in double quotes, in single ones, or plain."""


class MissingVariable(ValueError):
    """The message says which, and what to do."""


class Variables:
    """Replaces the references in the texts of one configuration.

    Args:
        environment: the host's.
        folder: of the configuration; what the editors call the workspace.
        secrets: values found to be secret are added here.
    """

    def __init__(self, environment: Mapping[str, str], folder: Path, secrets: Secrets) -> None:
        self._environment = environment
        self._folder = folder
        self._secrets = secrets

    def expand(self, text: str) -> str:
        """The text with its references replaced; raises `MissingVariable`."""
        return _REFERENCE.sub(lambda match: self._value(match[1]), text)

    def _value(self, reference: str) -> str:
        name, dash, default = reference.partition(":-")
        name = name.strip()
        match name:
            case "userHome":
                return os.path.expanduser("~")
            case "workspaceFolder":
                return str(self._folder)
            case "workspaceFolderBasename":
                return self._folder.name
            case "pathSeparator" | "/":
                return os.sep
        if name.startswith("input:"):
            raise MissingVariable(
                f"${{{reference}}} would be asked for by an editor; write ${{env:NAME}} and set that variable"
            )
        variable = name.removeprefix("env:")
        value = self._environment.get(variable)
        if value is None or (dash and not value):
            if not dash:
                raise MissingVariable(
                    f"the environment variable {variable!r} is not set; set it, or write ${{{variable}:-default}}"
                )
            value = default
        self._secrets.add_named(variable, value)
        return value


def env_file(path: Path) -> dict[str, str]:
    """What a file of ``NAME=value`` lines sets. Quotes around a value go, ``#`` begins a comment, ``export`` may stand.

    Raises:
        OSError: it cannot be read.
        ValueError: a line is something else; the message has its number, not its text.
    """
    if path.stat().st_size > 1024 * 1024:
        raise ValueError("it is larger than 1 MiB")
    found: dict[str, str] = {}
    for number, line in enumerate(path.read_text(encoding="utf-8-sig").splitlines(), start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        match = _ENV_LINE.fullmatch(line)
        if match is None:
            raise ValueError(f"line {number} is not NAME=value")
        name, escaped, quoted, plain = match.groups()
        found[name] = escaped.replace("\\n", "\n") if escaped is not None else quoted or plain or ""
    return found
