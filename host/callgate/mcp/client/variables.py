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

__all__ = ["env_file", "expanded"]

_REFERENCE = re.compile(r"\$\{([^${}]*)\}")
_ENV_LINE = re.compile(r"""\s*(?:export\s+)?([\w.-]+)\s*=\s*(?:"([^"]*)".*|'([^']*)'.*|([^"'\s].*?)?(?:\s+#.*)?)\s*""")
"""A name and a value: in double quotes, in single ones, or plain."""


def expanded(text: str, environment: Mapping[str, str], folder: Path, secrets: Secrets) -> str:
    """The text with its references replaced.

    Args:
        text: as it is written.
        environment: the host's.
        folder: of the configuration; what the editors call the workspace.
        secrets: values found to be secret are added here.

    Raises:
        ValueError: a variable is not set; the message says which, and what to do.
    """

    def value_of(found: re.Match[str]) -> str:
        name, dash, default = found[1].partition(":-")
        name = name.strip()
        match name:
            case "userHome":
                return os.path.expanduser("~")
            case "workspaceFolder":
                return str(folder)
            case "workspaceFolderBasename":
                return folder.name
            case "pathSeparator" | "/":
                return os.sep
        if name.startswith("input:"):
            raise ValueError(f"{found[0]} would be asked for by an editor; write ${{env:NAME}} and set that variable")
        variable = name.removeprefix("env:")
        value = environment.get(variable)
        if value is None and not dash:
            raise ValueError(
                f"the environment variable {variable!r} is not set; set it, or write ${{{variable}:-default}}"
            )
        value = value or default
        secrets.add_named(variable, value)
        return value

    return _REFERENCE.sub(value_of, text)


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
