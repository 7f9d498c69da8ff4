"""The files that an image is built from: the guest, the Dockerfile, and this machine's Python where it is the base.

Knows files, this Python and its pip; knows no engine.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
import string
import subprocess
import sys
import tarfile
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
from anyio.streams.text import TextReceiveStream

import callgate_guest.wire
from callgate.errors import ConfigurationError, SandboxError
from callgate.sandbox.backend import guest_command, inherited_environment

__all__ = [
    "DOCKERFILE", "BuildOutput", "collect", "guest_digest", "lay_out", "pack", "requirement_text", "settings_of_image",
]  # fmt: skip

DOCKERFILE = "Dockerfile.sandbox"
_GUEST = Path(callgate_guest.wire.__file__).parent
_LAST_LINES = 6
_FILE_NAME = re.compile(r"\S+\.(txt|in|lock|toml)")
_FACTS = "callgate-facts "
_COLOUR = re.compile(r"\x1b\[[\d;]*m")
"""The engine paints what a step writes to stderr."""


class BuildOutput:
    """What a build prints, line by line: each line goes to `on_line`, and the last ones are kept for an error.

    Attributes:
        facts: what `callgate_guest.rootfs` reports of the files that it has collected; empty before.
    """

    def __init__(self, on_line: Callable[[str], None]) -> None:
        self._on_line = on_line
        self._rest = ""
        self._last: deque[str] = deque(maxlen=_LAST_LINES)
        self.facts: dict[str, Any] = {}

    def take(self, text: str) -> None:
        """Take in a piece of the output; the piece may end within a line."""
        *lines, self._rest = (self._rest + _COLOUR.sub("", text)).split("\n")
        for line in lines:
            if line.startswith(_FACTS):
                with contextlib.suppress(ValueError):  # a package may print these words while it is installed
                    self.facts = json.loads(line.removeprefix(_FACTS))
            elif line.strip():
                self._last.append(line)
                self._on_line(line)

    def failed(self, what: str, why: str = "") -> SandboxError:
        """An error that says what failed, with the last lines."""
        self.take(f"{why}\n")
        return SandboxError("\n".join([f"{what} failed:", *self._last]))


def dockerfile() -> Path:
    """Path of `Dockerfile.sandbox`: beside this module in a wheel, at the root of a source tree.

    Raises:
        ConfigurationError: the file is missing.
    """
    here = Path(__file__).resolve()
    for place in (here.with_name(DOCKERFILE), here.parents[4] / DOCKERFILE):
        if place.is_file():
            return place
    raise ConfigurationError(f"{here.with_name(DOCKERFILE)} is missing: install callgate again")


def guest_digest() -> str:
    """SHA-256 over the names and contents of the guest's files, the first 16 hex digits."""
    digest = hashlib.sha256()
    for path in sorted(_GUEST.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            content = path.read_bytes()
            digest.update(f"{path.relative_to(_GUEST).as_posix()}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()[:16]


def requirement_text(requirements: str) -> str:
    """Requirements as `callgate_guest.rootfs.install` takes them: lines, or requirements with spaces between them.

    Args:
        requirements: the same, or the path of a requirements file.

    Raises:
        ConfigurationError: the file cannot be read.
    """
    if "\n" in requirements or not (os.path.isfile(requirements) or _FILE_NAME.fullmatch(requirements.strip())):
        return requirements
    try:
        return Path(requirements).read_text(encoding="utf-8") + "\n"
    except FileNotFoundError:
        raise ConfigurationError(f"there is no requirements file {requirements.strip()!r}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"the requirements file {requirements} cannot be read: {error}") from error


def lay_out(folder: Path) -> None:
    """Copy into `folder` all that `Dockerfile.sandbox` is built from."""
    shutil.copy(dockerfile(), folder / DOCKERFILE)
    shutil.copytree(_GUEST, folder / "sandbox_image/callgate_guest", ignore=shutil.ignore_patterns("__pycache__"))


def settings_of_image(values: dict[str, str]) -> list[str]:
    """Instructions of the Dockerfile's last stage that copy no files, with `values` in place of its arguments."""
    stage = dockerfile().read_text(encoding="utf-8").rpartition("\nCOPY ")[2].replace("\\\n", " ").splitlines()[1:]
    return [string.Template(line).substitute(values) for line in stage if line and not line.startswith(("#", "ARG "))]


async def collect(root: Path, requirements: str, on_line: Callable[[str], None]) -> dict[str, Any]:
    """Collect this machine's Python, the guest and the packages of `requirements` in `root`, as the Dockerfile does in
    its base. Returns what `callgate_guest.rootfs` reports of the files.

    Raises:
        SandboxError: the collection failed; the message has the last lines of its output.
    """
    start = f"from callgate_guest.rootfs import main; main({['collect', str(root), f'{root}-packages']!r})"
    command = guest_command(start, "-S", executable=sys.executable)
    output = BuildOutput(on_line)
    async with await anyio.open_process(
        command, stdin=subprocess.DEVNULL, stderr=subprocess.STDOUT, start_new_session=True,
        env={**inherited_environment(), "REQUIREMENTS": requirements},
    ) as process:  # fmt: skip
        try:
            assert process.stdout is not None
            async for text in TextReceiveStream(process.stdout, errors="replace"):
                output.take(text)
            status = await process.wait()
        except BaseException:
            os.killpg(process.pid, 9)  # pip has children: they are in the session that was made for it
            raise
    if status != 0:
        what = "the requirements and this machine's Python" if requirements else "this machine's Python"
        raise output.failed(f"collecting {what}")
    return output.facts


def pack(root: Path, packed: Path) -> None:
    """Write `root` as a sorted tar without the names of users and the times of the collection."""

    def level(entry: tarfile.TarInfo) -> tarfile.TarInfo:
        entry.uid = entry.gid = entry.mtime = 0
        entry.uname = entry.gname = ""
        return entry

    with tarfile.open(packed, "w") as tar:
        tar.add(root, ".", filter=level)
