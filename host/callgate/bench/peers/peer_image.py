"""The image that llm-sandbox runs programs in: a Debian with a shell and Python, made without a registry.

llm-sandbox runs commands in a container (`mkdir`, `python`), which the image of callgate does not have. What it would
set up in every container, a virtual environment among it, is in the image already: with no network it could not.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path

import anyio
import anyio.to_thread

from callgate.bench.peers.peer_tag import TAG
from callgate.bench.peers.process import PeerFailed
from callgate.sandbox.docker.engine import Engine, EngineRefused

__all__ = ["ENVIRONMENT", "ensure"]

ENVIRONMENT = "/sandbox/.sandbox-venv"
"""Where llm-sandbox looks for the virtual environment of a container that it did not set up itself."""
_MAKE_SECONDS = 600.0
_SUPERFLUOUS = ("var/cache/apt", "var/lib/apt/lists", "usr/share/doc", "usr/share/locale", "usr/share/man")


async def ensure(engine: Engine, *, make: bool) -> None:
    """See that the engine has the image.

    Args:
        engine: where it is needed.
        make: whether to make it where it is missing, which takes a minute or two.

    Raises:
        PeerFailed: it is not there and cannot be made.
    """
    try:
        await engine.call("inspect_image", TAG)
        return
    except EngineRefused as error:
        if error.status != 404:
            raise PeerFailed(str(error)[:200]) from None
    if not make:
        raise PeerFailed(f"the engine has no image {TAG}, which a full run makes")
    command = shutil.which("debootstrap")
    if command is None or os.geteuid() != 0:
        raise PeerFailed(f"making its image needs debootstrap, and root; or an image with `python` tagged {TAG}")
    with tempfile.TemporaryDirectory() as folder:
        try:
            packed = await anyio.to_thread.run_sync(_made, command, Path(folder))
        except (OSError, subprocess.SubprocessError) as error:
            raise PeerFailed(f"its image could not be made: {error}"[:300]) from None
        changes = ['CMD ["bash"]', "ENV PATH=/usr/local/bin:/usr/bin:/bin"]
        try:
            await engine.call("import_image", str(packed), repository=TAG, tag="latest", changes=changes)
        except EngineRefused as error:
            raise PeerFailed(str(error)[:200]) from None


def _made(command: str, folder: Path) -> Path:
    """A tar file with the image's files. Blocks."""
    root = folder / "root"
    _run(command, "--variant=minbase", "--include=python3", _suite(), str(root))
    (root / "usr/bin/python").symlink_to("python3")
    _run("chroot", str(root), "python3", "-m", "venv", "--system-site-packages", "--without-pip", ENVIRONMENT)
    for each in _SUPERFLUOUS:
        shutil.rmtree(root / each, ignore_errors=True)
    packed = folder / "image.tar"
    with tarfile.open(packed, "w") as archive:
        archive.add(root, arcname=".", filter=_without_devices)
    return packed


def _without_devices(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    return None if member.isdev() else member


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=_MAKE_SECONDS, check=False)
    if done.returncode:
        said = (done.stderr.strip() or done.stdout.strip()).splitlines()
        raise subprocess.SubprocessError(f"{command[0]}: {said[-1] if said else done.returncode}")


def _suite() -> str:
    """This machine's own release, where it is one that debootstrap knows."""
    try:
        release = dict(line.split("=", 1) for line in Path("/etc/os-release").read_text().splitlines() if "=" in line)
    except OSError:
        return "stable"
    known = release.get("ID", "").strip('"') in ("debian", "ubuntu")
    return release.get("VERSION_CODENAME", "stable").strip('"') if known else "stable"
