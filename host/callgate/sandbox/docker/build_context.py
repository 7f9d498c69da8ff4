"""The files an image is built from: the guest, the Dockerfile, packages, and this machine's Python as a base.

Knows files, this Python and its pip; knows no engine.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
import subprocess
import sys
import tarfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO

import anyio
import anyio.abc

import callgate_guest.wire
from callgate.errors import ConfigurationError, SandboxError

__all__ = [
    "DOCKERFILE",
    "LastWords",
    "collect_base",
    "guest_digest",
    "install",
    "pack",
    "pip_settings",
    "requirement_text",
    "write_context",
]

DOCKERFILE = "Dockerfile.sandbox"
_GUEST = Path(callgate_guest.wire.__file__).parent
_TAIL_LINES = 6
_EXPLAINS_NOTHING = ("WARNING: ", "Looking in ", "The command '")
_LONGEST_LINE = 4096
_FILE_NAME = re.compile(r"\S+\.(txt|in|lock|toml)")
_ROOTFS = "import sys; sys.path.append({!r}); from callgate_guest.rootfs import main; main(sys.argv[1:])"
_PASSED_ON = ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_TRUSTED_HOST")


class LastWords:
    """The last lines of what a program said, without those that explain no failure."""

    def __init__(self) -> None:
        self._lines: list[str] = []

    def hear(self, line: str, on_line: Callable[[str], None]) -> None:
        """Take in one line, and hand it on where there is anything in it."""
        line = line.rstrip()[:_LONGEST_LINE]
        if line.strip():
            if not line.startswith(_EXPLAINS_NOTHING):
                self._lines = [*self._lines, line][-_TAIL_LINES:]
            on_line(line)

    def __str__(self) -> str:
        return "\n".join(self._lines)


def dockerfile() -> Path:
    """Where `Dockerfile.sandbox` is: beside this module in a wheel, at the root of a source tree.

    Raises:
        ConfigurationError: nowhere.
    """
    here = Path(__file__).resolve()
    for place in (here.with_name(DOCKERFILE), here.parents[4] / DOCKERFILE):
        if place.is_file():
            return place
    raise ConfigurationError(f"{here.with_name(DOCKERFILE)} is missing: install callgate again")


def guest_digest() -> str:
    """SHA-256 over the names and contents of the guest's files, the first 16 hex digits."""
    return _digest(_guest_files())


def requirement_text(requirements: str | Path | Sequence[str]) -> str:
    """What pip is to install, as the lines of a requirements file; ``""`` for nothing.

    Args:
        requirements: the path of a requirements file; requirements with spaces or newlines between them; or a list.

    Raises:
        ConfigurationError: the file cannot be read.
    """
    if isinstance(requirements, str) and "\n" not in requirements and Path(requirements).is_file():
        requirements = Path(requirements)
    if isinstance(requirements, str) and _FILE_NAME.fullmatch(requirements.strip()):
        raise ConfigurationError(f"there is no requirements file {requirements.strip()!r}")
    if isinstance(requirements, Path):
        try:
            lines = requirements.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigurationError(f"the requirements file {requirements} cannot be read: {error}") from error
    elif isinstance(requirements, str):
        lines = requirements.splitlines() if "\n" in requirements else requirements.split()
    else:
        lines = list(requirements)
    lines = [line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#")]
    return "".join(f"{line}\n" for line in lines)


def pip_settings() -> dict[str, str]:
    """Which index pip asks, as this process's environment says it: for a pip inside a base, too."""
    return {name: os.environ[name] for name in _PASSED_ON if name in os.environ}


async def install(requirements: str, folder: Path, on_line: Callable[[str], None]) -> None:
    """Install the lines of `requirements` into `folder` with this Python's pip. Raises `SandboxError`."""
    await _rootfs("installing the requirements on this machine", ["install", str(folder)], on_line, requirements)


async def collect_base(folder: Path, packages: Path | None, on_line: Callable[[str], None]) -> None:
    """Collect this Python into `folder`, with the shared libraries that `packages` need. Raises `SandboxError`."""
    arguments = ["base", str(folder), *([str(packages)] if packages else [])]
    await _rootfs("collecting this machine's Python", arguments, on_line)


def pack(folder: Path, file: IO[bytes]) -> None:
    """Write `folder` as a tar, owned by root, sorted."""
    with tarfile.open(fileobj=file, mode="w") as tar:
        for path in sorted(folder.rglob("*")):
            tar.add(path, path.relative_to(folder).as_posix(), recursive=False, filter=_roots)


def write_context(file: IO[bytes], packages: Path | None) -> str:
    """Write the build context as a tar: the Dockerfile, the guest, and the folder `packages` where there is one.

    Returns:
        The digest of the guest that was written.
    """
    guest = _guest_files()
    with tarfile.open(fileobj=file, mode="w") as tar:
        _add(tar, DOCKERFILE, dockerfile().read_bytes())
        for name, content in guest.items():
            _add(tar, f"sandbox_image/callgate_guest/{name}", content)
        if packages:
            tar.add(packages, "packages", filter=_roots)
    return _digest(guest)


def _guest_files() -> dict[str, bytes]:
    paths = (path for path in _GUEST.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {path.relative_to(_GUEST).as_posix(): path.read_bytes() for path in sorted(paths)}


def _digest(files: dict[str, bytes]) -> str:
    digest = hashlib.sha256()
    for name, content in files.items():
        digest.update(f"{name}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()[:16]


def _add(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(content)
    entry.mode = 0o644
    tar.addfile(entry, io.BytesIO(content))


def _roots(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry


async def _rootfs(what: str, arguments: list[str], on_line: Callable[[str], None], requirements: str = "") -> None:
    """Run the guest's `rootfs` with this Python; each line it says goes to `on_line`, the last ones into the error."""
    command = [sys.executable, "-I", "-S", "-B", "-c", _ROOTFS.format(str(_GUEST.parent)), *arguments]
    environment = {**os.environ, "REQUIREMENTS": requirements}
    said = LastWords()
    async with await anyio.open_process(
        command, stdin=subprocess.DEVNULL, stderr=subprocess.STDOUT, env=environment, start_new_session=True
    ) as process:
        try:
            assert process.stdout is not None
            rest = b""
            async for chunk in process.stdout:
                *lines, rest = (rest + chunk).split(b"\n")
                rest = rest[-_LONGEST_LINE:]
                for line in lines:
                    said.hear(line.decode("utf-8", "replace"), on_line)
            said.hear(rest.decode("utf-8", "replace"), on_line)
            status = await process.wait()
        except BaseException:
            # pip has children; they are in the session that was made for it
            os.killpg(process.pid, 9)
            raise
    if status != 0:
        raise SandboxError(f"{what} failed:\n{said}")
