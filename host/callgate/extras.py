"""Shell commands that install missing parts of callgate, for error messages.

The right command depends on how callgate was installed. For packages that do not come from an index, pip writes the
source to ``direct_url.json`` (PEP 610), and this file reads it.
"""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

__all__ = ["how_to_clone", "how_to_install"]


def how_to_install(extra: str, *packages: str) -> str:
    """The shell command that adds an extra to this installation of callgate, such as ``pip install -e '.[agent]'``.

    Args:
        extra: one extra of ``pyproject.toml``, or several with commas between them.
        packages: other packages to install with it.
    """
    return shlex.join(["pip", "install", *_callgate(extra), *packages])


def how_to_clone() -> str:
    """The shell commands that run the comparison from a clone, from the address that callgate was installed from."""
    origin = _origin() or {}
    cloned = origin.get("vcs_info", {}).get("vcs") == "git" or "dir_info" in origin
    address = shlex.quote(origin["url"]) if cloned else "REPOSITORY"
    return f"git clone {address} callgate && cd callgate && make bench"


def _callgate(extra: str) -> list[str]:
    """The arguments for pip that name callgate: its clone, the address it was installed from, or its name alone."""
    origin = _origin()
    if origin is None:
        origin, clone = {}, Path(__file__).parents[2]
        if (clone / "pyproject.toml").is_file():
            return ["-e", f"{_shown(clone)}[{extra}]"]
    url = str(origin.get("url", ""))
    if url.startswith("file:") and origin.get("dir_info", {}).get("editable"):
        return ["-e", f"{_shown(Path(unquote(urlsplit(url).path)))}[{extra}]"]
    if "vcs_info" in origin:
        url = f"{origin['vcs_info']['vcs']}+{url}@{origin['vcs_info']['commit_id']}"
    return [f"callgate[{extra}] @ {url}" if url else f"callgate[{extra}]"]


def _origin() -> dict[str, Any] | None:
    """Where pip took callgate from; empty if that is an index, None if pip does not know callgate."""
    from importlib import metadata  # slow, and for error messages alone

    try:
        noted = metadata.distribution("callgate").read_text("direct_url.json")
    except metadata.PackageNotFoundError:
        return None
    return json.loads(noted) if noted else {}


def _shown(clone: Path) -> str:
    """The clone's path; ``.`` if it is the working directory."""
    return "." if clone == Path.cwd() else str(clone)
